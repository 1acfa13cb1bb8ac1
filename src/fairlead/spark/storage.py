"""A directory that all parties see: local, or wherever its URI points to (HDFS, S3, …).

A file that is written here is there with all its bytes or not at all, provided that the file system renames
atomically, as local ones and HDFS do. Where it does not, what counts is written last, under a new name. A local
file that is written `durable` is on the disk before `write` returns, and survives a loss of power; elsewhere that
is up to the file system.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from glob import iglob
from pathlib import Path
from typing import Any, Final

from pyarrow import fs  # type: ignore[import-untyped]

from fairlead.errors import PipelineError

__all__ = ["Directory", "as_path", "reached", "size_of"]

_TEMPORARY: Final = ".part"
_LOCAL: Final = re.compile(r"\Afile:(?://(?:localhost)?)?(?=/)")
"""The beginning of a local URI: Hadoop writes one slash, the standard three."""
_AT_ONCE: Final = 16
_UNFORCED: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSUP})
"""The errors of a file system that cannot force a directory to the disk."""
_UNFINISHED: Final = "_temporary"
"""The directory that Spark's tasks write to; what counts has been moved out of there."""
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
"""The schemes of Spark under pyarrow's names."""


def reached(uri: str) -> tuple[Any, str]:
    """The file system that a URI of Spark's means to pyarrow, and the path there."""
    system, path = fs.FileSystem.from_uri(_for_arrow(uri))
    return system, path


def size_of(uri: str) -> int:
    """The size in bytes of a file, or of all files below a directory. FileNotFoundError if there is neither."""
    system, path = reached(_for_spark(uri))
    info = system.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(uri)
    if info.type == fs.FileType.File:
        return int(info.size)
    below = system.get_file_info(fs.FileSelector(path, recursive=True))
    return sum(each.size for each in below if each.type == fs.FileType.File)


def is_at_hand(path: str) -> bool:
    """Whether a path, or a pattern, is one of this machine with something there."""
    return "://" not in path and next(iglob(path), None) is not None


def as_path(uri: str) -> str:
    """A location as users write it: a path, if it is one of this machine."""
    return _LOCAL.sub("", uri)


def _for_spark(uri: str) -> str:
    """A path, made absolute, or a URI in one spelling."""
    uri = _LOCAL.sub("file://", uri)
    return uri.rstrip("/") if "://" in uri else str(Path(uri).resolve())


def _for_arrow(uri: str) -> str:
    scheme, separator, rest = _for_spark(uri).partition("://")
    return f"{_SCHEMES.get(scheme, scheme)}{separator}{rest}"


class Directory:
    """A directory and what is below it; names are relative to it, with slashes."""

    __slots__ = ("_root", "_system", "uri")

    def __init__(self, uri: str) -> None:
        """`uri` is what Spark is given: a path, made absolute, or a URI with a scheme."""
        self.uri: Final = _for_spark(uri)
        try:
            system, root = reached(self.uri)
        except (OSError, ValueError) as error:
            raise PipelineError(f"no directory can be reached at {uri}: {error}") from error
        self._system: Any = system
        self._root: str = root.rstrip("/")

    def __truediv__(self, name: str) -> Directory:
        return Directory(f"{self.uri}/{name}")

    def path(self, name: str) -> str:
        """The URI of a name in this directory, for Spark."""
        return f"{self.uri}/{name}"

    def exists(self, name: str = "") -> bool:
        """Whether there is such a file or directory."""
        return bool(self._system.get_file_info(self._at(name)).type != fs.FileType.NotFound)

    def is_directory(self) -> bool:
        """Whether it is there."""
        return bool(self._system.get_file_info(self._at("")).type == fs.FileType.Directory)

    def names(self, name: str = "") -> list[str]:
        """The names in a directory, sorted; none if it does not exist."""
        found = self._listed(fs.FileSelector(self._at(name), allow_not_found=True))
        return sorted(info.base_name for info in found if not info.base_name.endswith(_TEMPORARY))

    def files(self, name: str = "") -> Iterator[tuple[str, int]]:
        """The files of data below a directory and their sizes in bytes, by path; _this and .that are not data."""
        selector = fs.FileSelector(self._at(name), recursive=True, allow_not_found=True)
        found = [info for info in self._listed(selector) if info.type == fs.FileType.File]
        for info in sorted(found, key=lambda info: info.path):
            below = posixpath.relpath(info.path, self._root)
            if not any(
                step.startswith(("_", "."))
                for step in posixpath.relpath(info.path, self._at(name)).split("/")
            ):
                yield below, info.size

    def _listed(self, selector: Any) -> Sequence[Any]:
        """The entries that a selector finds; a directory that is made this very moment was not there yet."""
        try:
            infos: Sequence[Any] = self._system.get_file_info(selector)
        except FileNotFoundError:
            return ()
        return infos

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        with self._system.open_input_stream(self._at(name)) as stream:
            return bytes(stream.read())

    def open(self, name: str) -> Any:
        """A file, to be read here and there."""
        return self._system.open_input_file(self._at(name))

    def create(self, name: str) -> Any:
        """A new file, to be filled by the caller; others see it as it grows."""
        place = self._at(name)
        self._entered(place)
        return self._system.open_output_stream(place)

    def write(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """Make a file, in one step; `durable`: and wait until the disk has it."""
        place = self._at(name)
        changed = self._entered(place)
        with self._system.open_output_stream(place + _TEMPORARY) as stream:
            stream.write(content)
        if durable and self.local() is not None:
            _force(place + _TEMPORARY)
        self._system.move(place + _TEMPORARY, place)
        if durable:
            _force_all(changed)

    def force(self, *names: str) -> None:
        """Wait until everything below some names, and the directories that lead there, is on disk."""
        if self.local() is None:
            return
        places: set[str] = set()
        for name in filter(self.exists, names):
            steps = name.split("/")
            places.update(self._at("/".join(steps[:length])) for length in range(len(steps)))
            for directory, below, files in os.walk(self._at(name)):
                below[:] = [each for each in below if each != _UNFINISHED]
                places.update((directory, *(os.path.join(directory, file) for file in files)))
        _force_all(sorted(places))

    def _entered(self, place: str) -> list[str]:
        """Make the directory that a place is in; gives those, if they are local, that have a new entry thereby."""
        changed = [posixpath.dirname(place)]
        if self.local() is None:
            self._system.create_dir(changed[0], recursive=True)
            return []
        while not os.path.isdir(changed[-1]):
            changed.append(posixpath.dirname(changed[-1]))
        os.makedirs(changed[0], exist_ok=True)
        return changed

    def make(self, name: str) -> None:
        """Make a directory, and wait until the disk has it."""
        _force_all(self._entered(f"{self._at(name)}/"))

    def move(self, name: str, to: str) -> None:
        """Move a directory to a name that nothing has, and wait until the disk has it there."""
        changed = self._entered(self._at(to))
        self._system.move(self._at(name), self._at(to))
        _force_all(changed)

    def rename(self, name: str, to: str) -> None:
        """Give a file another name in its directory; its checksum, which Spark has put beside it, goes."""
        self._system.move(self._at(name), self._at(to))
        directory, _, base = name.rpartition("/")
        self.delete_file(f"{directory}/.{base}.crc")

    def delete(self, name: str) -> None:
        """Remove a directory with all that is in it; nothing happens where there is none."""
        if self.exists(name):
            self._system.delete_dir(self._at(name))

    def delete_file(self, name: str) -> None:
        """Remove a file; nothing happens where there is none."""
        if self.exists(name):
            self._system.delete_file(self._at(name))

    def local(self) -> Path | None:
        """This directory as a path of this machine, if it is one."""
        return Path(self._root) if isinstance(self._system, fs.LocalFileSystem) else None

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root


def _force_all(paths: Sequence[str]) -> None:
    """Together, for then the disk writes them together."""
    if len(paths) == 1:
        _force(paths[0])
    elif paths:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(_force, paths))


def _force(path: str) -> None:
    """Have a local file or directory written to the disk, whoever has filled it and may have removed it since."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _UNFORCED or not os.path.isdir(path):
            raise
    finally:
        os.close(handle)
