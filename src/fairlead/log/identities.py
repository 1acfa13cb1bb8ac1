"""The first offset of every identity in a log, for a while: so a duplicate is known long after the first one.

The latest identities are in memory, exactly. The others are in files, as sorted runs of keyed hashes, 18 bytes for
each, which are mapped into memory: the system may take that back at any time. Most identities are new, so what is
in memory for all of the files is a filter (of 16 bits for each) that says of most of these that they are in none.

    <directory>/<number>.identities     a run
        head      magic, version, key, count, the highest offset + 1, the time of the latest identity
        records   checksum (CRC-32 of the identity, 4 bytes), hash (8 bytes), offset (6 bytes); sorted

Writing takes a while, and is to be done beside the event loop: `begin` it, `write` in another thread, `finish`.
The latest run is merged with what is written, until it is large; the oldest goes when it has been remembered for
long enough, or when there is too much. What is in memory is lost with the process, and remembered again from the
records of the log since `finish` said so.
"""

from __future__ import annotations

import mmap
import os
import secrets
from array import array
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from itertools import accumulate, chain, islice
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from fairlead.errors import DamagedLog

__all__ = ["FirstOffsets"]

MAGIC: Final = b"\x89FLID\r\n\x1a"
VERSION: Final = 1
SUFFIX: Final = ".identities"
_HEAD: Final = Struct("<8sI16sIQq")
HEAD_BYTES: Final = 64
KEY_BYTES, OFFSET_BYTES = 12, 6
RECORD_BYTES: Final = KEY_BYTES + OFFSET_BYTES
LATEST: Final = 100_000
"""So many in memory are worth being written."""
LATEST_MAX: Final = 8
"""So many times as many are in memory where nothing can be written; then the oldest are forgotten."""
WRITE_US: Final = 60_000_000
"""What is in memory is written after so long: so much of the log is read again after a crash."""
RUNS: Final = 8
"""A run grows to such a part of all."""
MOST: Final = 5_000_000
TIME_US: Final = 86_400_000_000


class _Run:
    """Identities in one file, or in memory where there is no directory."""

    def __init__(self, content: bytes | mmap.mmap, path: Path | None = None) -> None:
        """The run that some bytes are; DamagedLog if they are none."""
        if len(content) < HEAD_BYTES:
            raise DamagedLog(f"{path}: no identities", path=str(path))
        magic, version, self.key, self.count, self.end, self.latest = _HEAD.unpack_from(content)
        if (magic, version, len(content)) != (MAGIC, VERSION, HEAD_BYTES + self.count * RECORD_BYTES):
            raise DamagedLog(f"{path}: no identities", path=str(path))
        self._content, self.path = content, path
        found = Counter(int.from_bytes(record[:2], "big") for record in self)
        self._index = array("I", accumulate((found[each] for each in range(1 << 16)), initial=0))
        """By the first two bytes of a record, where those begin that begin so."""

    def __iter__(self) -> Iterator[bytes]:
        content = self._content
        return (content[at : at + RECORD_BYTES] for at in range(HEAD_BYTES, len(content), RECORD_BYTES))

    def find(self, key: bytes) -> int | None:
        """The offset of an identity."""
        bucket = int.from_bytes(key[:2], "big")
        first, after = self._index[bucket], self._index[bucket + 1]
        records = self._content[HEAD_BYTES + first * RECORD_BYTES : HEAD_BYTES + after * RECORD_BYTES]
        at = records.find(key)
        while at >= 0 and at % RECORD_BYTES:
            at = records.find(key, at + 1)
        return None if at < 0 else int.from_bytes(records[at + KEY_BYTES : at + RECORD_BYTES], "little")

    def close(self, *, remove: bool = False) -> None:
        if isinstance(self._content, mmap.mmap):
            self._content.close()
        if remove and self.path is not None:
            self.path.unlink(missing_ok=True)


class Written(NamedTuple):
    """What is remembered in files, from now on."""

    runs: list[_Run]
    filter: bytearray
    mask: int


class FirstOffsets:
    """The first offset of each identity, for `time_us` at least, unless there are more than `most` of them.

    `end` is that of the log: runs that know of offsets beyond it are of a log that has gone back, and count for
    nothing. Without a directory all is in memory.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        end: int = 0,
        most: int = MOST,
        time_us: int = TIME_US,
    ) -> None:
        self._directory = None if directory is None else Path(directory)
        self._most, self._time_us = most, time_us
        self.latest: dict[bytes, int] = {}
        """Those that are in no file."""
        self._writing: dict[bytes, int] = {}
        """Those that are just being written."""
        self._since = self._written_at = 0
        self._runs: list[_Run] = []
        """The latest one first."""
        self._number = 0
        if self._directory is not None:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._open(self._directory, end)
        self._key = self._runs[0].key if self._runs else secrets.token_bytes(16)
        self._filter, self._mask = bytearray(), 0
        if self._runs:
            self._filter, self._mask = self._filter_for(self._runs, [])

    def _open(self, directory: Path, end: int) -> None:
        for path in sorted(directory.glob(f"*{SUFFIX}"), reverse=True):
            self._number = max(self._number, int(path.stem))
            try:
                self._runs.append(_mapped(path))
            except (DamagedLog, ValueError):  # what is in no run is remembered from the log
                path.unlink()
        if any(run.end > end for run in self._runs) or len({run.key for run in self._runs}) > 1:
            for run in self._runs:
                run.close(remove=True)
            self._runs = []

    def __len__(self) -> int:
        written: int = sum(run.count for run in self._runs)
        return len(self.latest) + len(self._writing) + written

    @property
    def is_new(self) -> bool:
        """Whether there is nothing in files."""
        return not self._runs

    # -- asked of every notification ---------------------------------------------------------------------------

    def first(self, identity: bytes, offset: int) -> int:
        """The offset of the first record of an identity; if none is known, it is this one from now on."""
        if self._runs:
            bit = crc32(identity) & self._mask
            if self._filter[bit >> 3] >> (bit & 7) & 1 and (known := self.known(identity)) is not None:
                return known
        if identity in self._writing:
            return self._writing[identity]
        return self.latest.setdefault(identity, offset)

    def known(self, identity: bytes) -> int | None:
        """The offset of the first record of an identity, if it is remembered."""
        known = self.latest.get(identity)
        return self._earlier(identity) if known is None else known

    def _earlier(self, identity: bytes) -> int | None:
        known = self._writing.get(identity)
        if known is not None or not self._runs:
            return known
        checksum = crc32(identity)
        bit = checksum & self._mask
        if not self._filter[bit >> 3] >> (bit & 7) & 1:
            return None
        key = self._hashed(identity, checksum)
        for run in self._runs:
            known = run.find(key)
            if known is not None:
                return known
        return None

    def _hashed(self, identity: bytes, checksum: int) -> bytes:
        # The hash has a key, so that nobody can make a notification vanish by another identity with its hash.
        return checksum.to_bytes(4, "big") + blake2b(identity, digest_size=8, key=self._key).digest()

    # -- writing -----------------------------------------------------------------------------------------------

    def is_due(self, now: int) -> bool:
        """Whether what is in memory should be written."""
        if self._writing:
            return False
        return len(self.latest) >= LATEST or now - self._written_at >= WRITE_US

    def begin(self, end: int, now: int) -> None:
        """From now on identities are remembered of records from the offset `end` on; the others are written."""
        self._writing, self.latest, self._written_at = self.latest, {}, now
        self._since = end

    def write(self, now: int) -> Written | None:
        """Write what has been begun. To be called in another thread."""
        if not self._writing:
            return None
        added = [
            self._hashed(identity, crc32(identity)) + offset.to_bytes(OFFSET_BYTES, "little")
            for identity, offset in self._writing.items()
        ]
        records, end, others = added, max(self._writing.values()) + 1, self._runs
        if others and others[0].count + len(added) <= self._most // RUNS:
            records = added + list(others[0])
            end, others = max(end, others[0].end), others[1:]
        records.sort()
        head = _HEAD.pack(MAGIC, VERSION, self._key, len(records), end, now).ljust(HEAD_BYTES, b"\0")
        runs = self._remembered([self._made(b"".join((head, *records))), *others], now)
        return Written(runs, *self._filter_for(runs, added))

    def _made(self, content: bytes) -> _Run:
        if self._directory is None:
            return _Run(content)
        self._number += 1
        path = self._directory / f"{self._number:016}{SUFFIX}"
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            partial.chmod(0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
        return _mapped(path)

    def _remembered(self, runs: list[_Run], now: int) -> list[_Run]:
        """The runs that are neither too old nor too much."""
        total = sum(run.count for run in runs)
        while len(runs) > 1 and (now - runs[-1].latest > self._time_us or total > self._most):
            total -= runs[-1].count
            runs = runs[:-1]
        return runs

    def _filter_for(self, runs: list[_Run], added: list[bytes]) -> tuple[bytearray, int]:
        bits = max(1 << 10, 1 << (16 * sum(run.count for run in runs)).bit_length())
        mask = bits - 1
        if mask == self._mask and runs[-1] in (*self._runs[-1:], runs[0]):
            filter, records = bytearray(self._filter), iter(added)
        else:
            filter, records = bytearray(bits >> 3), chain(*runs)
        for record in records:
            bit = int.from_bytes(record[:4], "big") & mask
            filter[bit >> 3] |= 1 << (bit & 7)
        return filter, mask

    def finish(self, written: Written | None) -> int:
        """Identities are remembered as they were written; below the offset returned, all records' are in files."""
        if written is not None:
            gone = [run for run in self._runs if run not in written.runs]
            self._runs, self._filter, self._mask = written
            self._writing = {}
            for run in gone:
                run.close(remove=True)
        return self._since

    def abandon(self) -> None:
        """It could not be written: what was begun is in memory, as before, as far as there is room."""
        self.latest = {**self._writing, **self.latest}
        self._writing = {}
        excess = len(self.latest) - LATEST_MAX * LATEST
        for identity in list(islice(self.latest, max(0, excess))):
            del self.latest[identity]

    def close(self) -> None:
        """Let go of the files."""
        for run in self._runs:
            run.close()
        self._runs = []


def _mapped(path: Path) -> _Run:
    with path.open("rb") as file:
        return _Run(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), path)
