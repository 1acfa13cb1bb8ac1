"""A disk is the few calls to the file system that a log needs; all else is built on them.

What it promises, and what the log relies on: after `sync` the bytes of a file are synced, after
`sync_directory` the names in a directory are; before that, anything may have become of them. Bytes that are
not written again do not change, though others in the same block are (what SQLite calls powersafe overwrite).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os

from fairlead.errors import LogInUse

__all__ = ["Disk", "write_file"]


class Disk:
    """The operating system's files, by descriptor. `MemoryDisk` has the same methods."""

    def open(self, path: str) -> int:
        """A file for reading."""
        return os.open(path, os.O_RDONLY)

    def update(self, path: str) -> int:
        """A file that is there, for reading and writing."""
        return os.open(path, os.O_RDWR)

    def create(self, path: str) -> int:
        """An empty file for reading and writing, whatever was there. Only its owner may read it."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def close(self, file: int) -> None:
        os.close(file)

    def read(self, file: int, size: int, position: int) -> bytes:
        """The bytes at a position; fewer only at the end of the file."""
        return os.pread(file, size, position)

    def map(self, path: str) -> bytes | mmap.mmap:
        """The bytes of a file that does not change, which need not be in memory; ValueError if it has none."""
        file = self.open(path)
        try:
            return mmap.mmap(file, 0, access=mmap.ACCESS_READ)
        finally:
            self.close(file)

    def write(self, file: int, raw: bytes | memoryview, position: int) -> int:
        """Write some of the bytes at a position; returns how many."""
        return os.pwrite(file, raw, position)

    def size(self, file: int) -> int:
        return os.fstat(file).st_size

    def truncate(self, file: int, size: int) -> None:
        os.ftruncate(file, size)

    def allocate(self, file: int, size: int) -> None:
        """Give a file this many bytes of the disk; an OSError (ENOSPC) where there are not so many."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
        else:
            os.pwrite(file, bytes(size), 0)

    def sync(self, file: int) -> None:
        """Return when the bytes of the file, and its length, are synced."""
        if hasattr(fcntl, "F_FULLFSYNC"):  # on macOS fsync(2) leaves them in the drive's cache
            fcntl.fcntl(file, fcntl.F_FULLFSYNC)
        elif hasattr(os, "fdatasync"):
            os.fdatasync(file)
        else:
            os.fsync(file)

    def names(self, directory: str) -> list[str]:
        return os.listdir(directory)

    def rename(self, path: str, new: str) -> None:
        os.rename(path, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def make_directory(self, directory: str) -> None:
        """Make a directory, and those above it, each name synced before the next; one that is there may stay."""
        if os.path.isdir(directory):
            return
        parent = os.path.dirname(os.path.abspath(directory))
        self.make_directory(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory)
        self.sync_directory(parent)

    def sync_directory(self, directory: str) -> None:
        """Return when the names in the directory are synced."""
        file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def lock(self, path: str) -> int:
        """Hold a file locked until it is closed or the process ends, however it ends; or LogInUse."""
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(file, 32, 0).decode(errors="replace").strip()
            os.close(file)
            hint = f"the process {owner} has it" if owner.isdigit() else None
            raise LogInUse(f"{os.path.dirname(path)}: this log has a writer already", hint=hint) from None
        os.ftruncate(file, 0)
        with contextlib.suppress(
            OSError
        ):  # a full disk: the lock holds without the number, a hint for people
            os.pwrite(file, str(os.getpid()).encode(), 0)
        return file


def write_file(disk: Disk, path: str, raw: bytes, *, unfinished: str) -> None:
    """Write a file under the name `unfinished`, sync it, and give it its name; on an OSError nothing stays of it.

    The name itself is synced by `sync_directory`.
    """
    try:
        file = disk.create(unfinished)
        try:
            done = 0
            with memoryview(raw) as view:
                while done < len(view):
                    count = disk.write(file, view[done:], done)
                    if not count:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    done += count
            disk.sync(file)
        finally:
            disk.close(file)
        disk.rename(unfinished, path)
    except OSError:
        with contextlib.suppress(OSError):
            disk.remove(unfinished)
        raise
