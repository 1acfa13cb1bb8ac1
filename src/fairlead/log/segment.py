"""A segment that is open for reading: its head, its mark, and runs of its records. Writer and readers share it."""

from __future__ import annotations

import sys
from types import TracebackType

from fairlead.errors import DamagedLog
from fairlead.log.disk import Disk
from fairlead.log.format import (
    FIRST_BYTES,
    MARKS_AT,
    MARKS_BYTES,
    NEVER,
    Head,
    Run,
    decode_marks,
    head_length,
    hop,
    name_of,
    run_of,
)
from fairlead.log.sparse_index import IndexEntry, SparseIndex

__all__ = ["ROOM", "Segment"]

ROOM = 1 << 18
"""The number of bytes of a segment that are read at a time."""


class Segment:
    """A file of a log; `start` is where its records begin."""

    __slots__ = ("_disk", "file", "head", "path", "start")

    def __init__(self, disk: Disk, directory: str, base: int, *, update: bool = False) -> None:
        """Open the segment that begins with the offset `base`; FileNotFoundError, or DamagedLog."""
        self._disk = disk
        self.path = f"{directory}/{name_of(base)}"
        self.file = disk.update(self.path) if update else disk.open(self.path)
        try:
            self.start = head_length(disk.read(self.file, FIRST_BYTES, 0), self.path)
            self.head = Head.decode(disk.read(self.file, self.start, 0), self.path)
        except BaseException:
            disk.close(self.file)
            raise

    def __enter__(self) -> Segment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def base(self) -> int:
        return self.head.base

    def close(self) -> None:
        self._disk.close(self.file)

    def size(self) -> int:
        return self._disk.size(self.file)

    def marks(self) -> tuple[int, int]:
        return decode_marks(self._disk.read(self.file, MARKS_BYTES, MARKS_AT), self.path)

    def mark(self) -> int:
        """All records below this offset have been synced."""
        return max(self.marks())

    def run(self, position: int, offset: int, stop: int, *, room: int = ROOM) -> Run:
        """The records from `offset` on, which is at `position`, as many below `stop` as `room` bytes
        hold.

        It is empty only where there is no whole record: one that is larger than `room` is read all the same.
        """
        while offset < stop:
            chunk = self._disk.read(self.file, room, position)
            run = run_of(chunk, offset, stop)
            if run.records or run.wanted <= room or len(chunk) < room:
                return run
            room = run.wanted
        return Run([])

    def skip(self, index: SparseIndex, *, stop: int, since: int = sys.maxsize) -> tuple[int, int, bool]:
        """The end of the synced records below `stop` and before `since`: offset, position, and whether `since`
        was reached."""
        stop, met = min(stop, self.mark()), False
        start = IndexEntry(self.base, self.start, NEVER)
        offset, position, latest = index.before(self.base, stop, since) or start
        while offset < stop and not met:
            chunk = self._disk.read(self.file, ROOM, position)
            count, size, latest_here, met = hop(chunk, offset, stop, since)
            if not (count or met):
                raise self.damaged(position, offset)
            offset, position, latest = offset + count, position + size, max(latest, latest_here)
            index.note(self.base, IndexEntry(offset, position, latest))
        return offset, position, met

    def damaged(self, position: int, offset: int) -> DamagedLog:
        missing = position >= self.size()
        return DamagedLog.at(self.path, position, offset, "is missing" if missing else "is damaged")
