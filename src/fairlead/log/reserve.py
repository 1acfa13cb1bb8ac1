"""A reserve is room on the disk that a log gives up when the disk is full, so that it can shrink again.

Removing a durable subscriber and removing segments both need records of their own. Without a reserve a full disk
has no room for them, and stays full. The reserve is a file, `reserve`, whose blocks are allocated in advance.
"""

from __future__ import annotations

import contextlib

from fairlead.log.disk import Disk

__all__ = ["Reserve"]

NAME = "reserve"


class Reserve:
    """The reserve of one log. `size` 0 means that the log has none; it then counts as held."""

    __slots__ = ("_disk", "_path", "is_held", "size")

    def __init__(self, disk: Disk, directory: str, size: int) -> None:
        self._disk, self._path, self.size = disk, f"{directory}/{NAME}", size
        self.is_held = not size
        self.hold()

    def hold(self) -> bool:
        """Allocate the reserve unless it is held; whether it is held now."""
        if not self.is_held:
            self.is_held = self._allocate(self._path)
        return self.is_held

    def has_room(self) -> bool:
        """Whether the disk has room for the reserve, and for as much beside it."""
        beside = f"{self._path}.new"
        if self.hold() and self._allocate(beside):
            self._remove(beside)
            return True
        return False

    def _allocate(self, path: str) -> bool:
        try:
            file = self._disk.create(path)
            try:
                if self.size:
                    self._disk.allocate(file, self.size)
            finally:
                self._disk.close(file)
        except OSError:
            self._remove(path)
            return False
        return True

    def release(self) -> None:
        """Give the room back to the disk."""
        if self.size and self.is_held:
            self._remove(self._path)
            self.is_held = False

    def _remove(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self._disk.remove(path)
