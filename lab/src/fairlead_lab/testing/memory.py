"""A disk in memory that can lose its power: what was not synced may be there, torn, garbage, or missing.

It is as unkind as a disk is allowed to be. Blocks reach it in any order, files grow without their content,
names appear and disappear one by one; what was synced stays. A simulation and the tests run the log on it.
"""

from __future__ import annotations

import errno
import itertools
from dataclasses import dataclass, field
from random import Random

from fairlead.errors import LogInUse
from fairlead.log.disk import Disk

__all__ = ["MemoryDisk", "PowerFailure"]

BLOCK = 64
"""The number of bytes that are written at once or not: few, so that small files have many blocks."""


class PowerFailure(Exception):
    """The power went out in the middle of an operation."""


@dataclass(slots=True, eq=False)
class _File:
    """Content as programs see it, as it is safe, and the writes in between: (position, bytes), or (size, None)."""

    content: bytearray = field(default_factory=bytearray)
    safe: bytearray = field(default_factory=bytearray)
    writes: list[tuple[int, bytes | None]] = field(default_factory=list)


class MemoryDisk(Disk):
    """A disk with one directory per path, in memory.

    `room` bounds the bytes of all files; `sync_fails` makes the next sync fail as in real life: what it
    should have written is forgotten, and the sync after it succeeds. `fuse` operations from now, the power
    fails.
    """

    def __init__(self, *, room: int | None = None) -> None:
        self.room = room
        self.sync_fails = False
        self.fuse: int | None = None
        self._names: dict[str, dict[str, _File]] = {}
        self._safe_names: dict[str, dict[str, _File]] = {}
        self._open: dict[int, _File] = {}
        self._numbers = itertools.count(3)
        self._locks: dict[int, str] = {}

    def open(self, path: str) -> int:
        directory, name = _split(path)
        try:
            return self._opened(self._names[directory][name])
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", path) from None

    def update(self, path: str) -> int:
        return self.open(path)

    def create(self, path: str) -> int:
        self._step()
        directory, name = _split(path)
        number = self._opened(self._names[directory].setdefault(name, _File()))
        self.truncate(number, 0)
        return number

    def close(self, file: int) -> None:
        del self._open[file]
        self._locks.pop(file, None)

    def read(self, file: int, size: int, position: int) -> bytes:
        return bytes(self._open[file].content[position : position + size])

    def map(self, path: str) -> bytes:
        file = self.open(path)
        try:
            return self.read(file, self.size(file), 0)
        finally:
            self.close(file)

    def write(self, file: int, raw: bytes | memoryview, position: int) -> int:
        self._step()
        opened = self._open[file]
        end = position + len(raw)
        if self.room is not None:
            free = max(0, self.room - self.used())
            end = min(end, max(len(opened.content), position) + free)
        written = bytes(raw[: end - position])
        if not written:
            raise OSError(errno.ENOSPC, "no space left on device")
        _apply(opened.content, position, written)
        opened.writes.append((position, written))
        return len(written)

    def size(self, file: int) -> int:
        return len(self._open[file].content)

    def truncate(self, file: int, size: int) -> None:
        self._step()
        opened = self._open[file]
        _apply(opened.content, size, None)
        opened.writes.append((size, None))

    def allocate(self, file: int, size: int) -> None:
        if self.write(file, bytes(size), 0) < size:
            raise OSError(errno.ENOSPC, "no space left on device")

    def sync(self, file: int) -> None:
        self._step()
        opened = self._open[file]
        writes, opened.writes = opened.writes, []
        if self.sync_fails:
            self.sync_fails = False
            raise OSError(errno.EIO, "input/output error")
        for position, raw in writes:
            _apply(opened.safe, position, raw)

    def names(self, directory: str) -> list[str]:
        try:
            return list(self._names[directory])
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory) from None

    def rename(self, path: str, new: str) -> None:
        self._step()
        directory, name = _split(path)
        self._names[directory][_split(new)[1]] = self._names[directory].pop(name)

    def remove(self, path: str) -> None:
        self._step()
        directory, name = _split(path)
        if self._names[directory].pop(name, None) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)

    def make_directory(self, directory: str) -> None:
        self._names.setdefault(directory, {})
        self._safe_names.setdefault(directory, {})

    def sync_directory(self, directory: str) -> None:
        self._step()
        self._safe_names[directory] = dict(self._names[directory])

    def lock(self, path: str) -> int:
        if path in self._locks.values():
            raise LogInUse(f"{_split(path)[0]}: this log has a writer already")
        file = self._opened(_File())
        self._locks[file] = path
        return file

    def used(self) -> int:
        """The bytes of all files that have a name."""
        return sum(len(file.content) for names in list(self._names.values()) for file in list(names.values()))

    def kill(self) -> None:
        """End the writers as kill -9 does: their locks are gone, and all that they have written is there."""
        self._locks.clear()
        self.fuse = None

    def lose_power(self, rng: Random) -> None:
        """Everything that was not synced meets its fate; all files are closed."""
        for directory, safe in self._safe_names.items():
            now = self._names[directory]
            survivors = {}
            for name in sorted(safe.keys() | now.keys()):
                file = rng.choice([safe.get(name), now.get(name)])
                if file is not None:
                    survivors[name] = file
            self._names[directory], self._safe_names[directory] = survivors, dict(survivors)
        files = {id(file): file for names in self._names.values() for file in names.values()}
        for file in files.values():
            file.safe = _fate(file, rng)
            file.content, file.writes = bytearray(file.safe), []
        self._open.clear()
        self.kill()

    def _opened(self, file: _File) -> int:
        number = next(self._numbers)
        self._open[number] = file
        return number

    def _step(self) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                raise PowerFailure


def _split(path: str) -> tuple[str, str]:
    directory, _, name = path.rpartition("/")
    return directory, name


def _apply(content: bytearray, position: int, raw: bytes | None) -> None:
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    if raw is None:
        del content[position:]
    else:
        content[position : position + len(raw)] = raw


def _fate(file: _File, rng: Random) -> bytearray:
    """The content after a power failure: block by block something between what was safe and what was written."""
    versions = [bytearray(file.safe)]
    halfway = rng.randint(0, len(file.writes))
    for writes in (file.writes[:halfway], file.writes[halfway:]):
        versions.append(bytearray(versions[-1]))
        for position, raw in writes:
            _apply(versions[-1], position, raw)
    sizes = [len(version) for version in versions]
    size = rng.choice([*sizes, rng.randint(min(sizes), max(sizes))])
    padded = [bytes(version).ljust(max(sizes), b"\0") for version in versions]
    result = bytearray()
    for start in range(0, size, BLOCK):
        first, second = (rng.choice(padded)[start : start + BLOCK] for _ in range(2))
        torn = rng.randint(0, BLOCK)
        block = first[:torn] + second[torn:]
        if start >= sizes[0] and rng.random() < 0.2:
            block = rng.randbytes(len(block))
        result += block
    return result[:size]
