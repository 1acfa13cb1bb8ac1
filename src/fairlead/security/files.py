"""Files of secrets and rights: only their owner reads them, and they are written all at once."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

from fairlead.errors import KeyringError, PolicyError

__all__ = ["SharedFile", "write_private"]

FORMAT: Final = 1
Entry = TypeVar("Entry")


def write_private(path: str | Path, jsonable: Any) -> None:
    """Write JSON to a file that only its owner can read, all of it or nothing."""
    beside = Path(f"{path}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(jsonable, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(descriptor)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise KeyringError(f"{path}: cannot be written: {error.strerror}") from None


class SharedFile(ABC, Generic[Entry]):
    """Decisions that principals have made by calls: the entries of a file, or of this process alone.

    Several brokers may name one file: each takes up what the others write when it looks at the file again. A
    change reads the file first, while no other process changes it. PolicyError: the file cannot be read.
    """

    NAME: ClassVar[str]
    """The word for the entries, in the plural: the key of the file, and the word of its errors."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self.all: tuple[Entry, ...] = ()
        self.read()

    @staticmethod
    @abstractmethod
    def _to_json(entry: Entry) -> dict[str, Any]: ...

    @staticmethod
    @abstractmethod
    def _from_json(given: dict[str, Any]) -> Entry: ...

    def read(self) -> None:
        """Read the file again."""
        if self._path is not None and Path(self._path).exists():
            try:
                given = json.loads(Path(self._path).read_text(encoding="utf-8"))
                if given["format"] != FORMAT:
                    raise PolicyError(f"{self._path}: format {given['format']} is not known here")
                self.all = tuple(self._from_json(each) for each in given[self.NAME])
            except OSError as error:
                raise PolicyError(f"{self._path}: cannot be read: {error.strerror}") from None
            except (ValueError, KeyError, TypeError, AttributeError):
                raise PolicyError(f"{self._path}: this is no file of {self.NAME}") from None

    def _change(self, change: Callable[[list[Entry]], list[Entry]]) -> None:
        with nullcontext() if self._path is None else _alone(f"{self._path}.lock"):
            self.read()
            changed = tuple(change([*self.all]))
            if self._path is not None and changed != self.all:
                write_private(
                    self._path, {"format": FORMAT, self.NAME: [self._to_json(each) for each in changed]}
                )
            self.all = changed


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """No other process changes the file meanwhile."""
    try:
        with open(path, "a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise PolicyError(f"{path}: cannot be written: {error.strerror}") from None
