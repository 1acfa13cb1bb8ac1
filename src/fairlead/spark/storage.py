"""A directory that all parties see: local, or wherever its URI points to (HDFS, S3, …).

A file that is written here is there with all its bytes or not at all, provided that the file system renames
atomically, as local ones and HDFS do. Where it does not, what counts is written last, under a new name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pyarrow import fs  # type: ignore[import-untyped]

from fairlead.errors import PipelineError

__all__ = ["Directory"]

_TEMPORARY: Final = ".part"


class Directory:
    """A directory and what is below it; names are relative to it, with slashes."""

    __slots__ = ("_root", "_system", "uri")

    def __init__(self, uri: str) -> None:
        """`uri` is what Spark is given: a path, made absolute, or a URI with a scheme."""
        self.uri: Final = uri.rstrip("/") if "://" in uri else str(Path(uri).resolve())
        try:
            system, root = fs.FileSystem.from_uri(self.uri)
        except (OSError, ValueError) as error:
            raise PipelineError(f"no directory can be reached at {uri}: {error}") from error
        self._system: Any = system
        self._root: str = root.rstrip("/")

    def __truediv__(self, name: str) -> Directory:
        return Directory(f"{self.uri}/{name}")

    def path(self, name: str) -> str:
        """What Spark is given for a name in here."""
        return f"{self.uri}/{name}"

    def exists(self, name: str = "") -> bool:
        """Whether there is such a file or directory."""
        return bool(self._system.get_file_info(self._at(name)).type != fs.FileType.NotFound)

    def is_directory(self) -> bool:
        """Whether it is there."""
        return bool(self._system.get_file_info(self._at("")).type == fs.FileType.Directory)

    def names(self, name: str = "") -> list[str]:
        """What is in a directory, sorted; nothing where it does not exist."""
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
        """What a selector finds; a directory that is made this very moment was not there yet."""
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

    def write(self, name: str, content: bytes) -> None:
        """Make a file, in one step."""
        place = self._at(name)
        self._system.create_dir(posixpath.dirname(place), recursive=True)
        with self._system.open_output_stream(place + _TEMPORARY) as stream:
            stream.write(content)
        self._system.move(place + _TEMPORARY, place)

    def make(self, name: str) -> None:
        """Make a directory."""
        self._system.create_dir(self._at(name), recursive=True)

    def move(self, name: str, to: str) -> None:
        """Move a directory to a name that nothing has."""
        self._system.create_dir(posixpath.dirname(self._at(to)), recursive=True)
        self._system.move(self._at(name), self._at(to))

    def delete(self, name: str) -> None:
        """Remove a directory with all that is in it; nothing happens where there is none."""
        if self.exists(name):
            self._system.delete_dir(self._at(name))

    def local(self) -> Path | None:
        """This directory as a path of this machine, if it is one."""
        return Path(self._root) if isinstance(self._system, fs.LocalFileSystem) else None

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root
