"""The entries of a state machine, in a file beside a broker's log: written before they have an effect.

    for entry in journal.entries(): …     what was written before the broker stopped
    journal.write(entry); journal.sync()
    if journal.is_long: journal.replace(entry)     one entry that stands for all

Law: what is read is what was written and synced, in its order, and perhaps some of what was written after that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

__all__ = ["Entry", "Journal"]

Entry: TypeAlias = dict[str, Any]
"""A step of a state machine, as JSON."""
LONG_BYTES: Final = 1 << 20
"""A file is long when it has grown by so much, and to more than twice its length before."""


class Journal:
    """A file of entries, open as long as the broker runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._grown = 0
        self._read = path.read_bytes() if path.exists() else b""
        self._file = open(path, "ab")  # noqa: SIM115  # open as long as the broker runs

    def entries(self) -> Iterator[Entry]:
        """The entries that were there when it was opened; once."""
        read, self._read = self._read, b""
        for line in read.split(b"\n"):
            try:
                yield json.loads(line)
            except ValueError:  # the last one, where the broker was killed while it wrote: it comes again
                continue

    def write(self, entry: Entry) -> None:
        """Add an entry."""
        written = b"\n" + json.dumps(entry).encode()  # a torn line before it stays a line of its own
        self._grown += len(written)
        self._file.write(written)
        self._file.flush()

    def sync(self) -> None:
        """Have all that is written on the disk."""
        os.fsync(self._file.fileno())

    @property
    def is_long(self) -> bool:
        """Whether it is time for one entry that stands for all."""
        return self._grown > LONG_BYTES

    def defer(self) -> None:
        """Leave it as long as it is, for now."""
        self._grown = 0

    def replace(self, entry: Entry) -> None:
        """Have one entry in place of all, whenever the broker is killed."""
        whole = json.dumps(entry).encode()
        beside = self.path.with_suffix(".new")
        with open(beside, "wb") as file:
            file.write(whole)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)
        self._file.close()
        self._file = open(self.path, "ab")  # noqa: SIM115
        self._grown = -len(whole)  # as much again before the next time

    def close(self) -> None:
        """Write no more."""
        self._file.close()
