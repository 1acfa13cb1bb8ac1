"""`Reader` reads a log from any offset on and follows it as it grows, beside its writer or in another process.

It yields exactly the records that were appended, each once and in order, and says so (`Gone`) when retention
was faster. By default it yields only synced records, so nothing that it has shown can be taken
away by a crash.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Iterator
from types import TracebackType

from fairlead.errors import DamagedLog, Gone
from fairlead.log.disk import Disk
from fairlead.log.format import CURSORS, MAX_OFFSET, Record, offsets_in
from fairlead.log.segment import ROOM, Segment
from fairlead.log.sparse_index import SparseIndex

__all__ = ["Reader"]

BATCH = 1024


class Reader:
    """A position in a log, `offset`: that of the next record to be read.

    Without `from_offset` it starts with the first record there is; `until` is the first one not to be read.
    `kinds` are the kinds of records to yield, all but changes of cursors if not given. With `synced=False` it
    yields what is written as well, which a power failure may take away. Readers of one process
    can share `index`. Memory is bounded by a chunk, or by
    one record if that is larger.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        from_offset: int | None = None,
        *,
        until: int | None = None,
        kinds: Collection[int] | None = None,
        synced: bool = True,
        index: SparseIndex | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Gone if the record has left the log; DamagedLog if there is no log, or one that ends before it."""
        self._directory, self._disk = os.fspath(directory), disk or Disk()
        self._until = MAX_OFFSET if until is None else until
        self._kinds, self._synced = kinds, synced
        self._index = SparseIndex() if index is None else index
        self._segment: Segment | None = None
        self.seek(self.first if from_offset is None else from_offset)

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Record]:
        """All records that there are now; iterating again continues from there."""
        while records := self.read():
            yield from records

    @property
    def offset(self) -> int:
        """The offset of the next record."""
        return self._offset

    @property
    def first(self) -> int:
        """The first offset that is there."""
        return self._bases()[0]

    def bounds(self) -> range:
        """The offsets that are there and synced."""
        while True:
            bases = self._bases()
            try:
                with Segment(self._disk, self._directory, bases[-1]) as last:
                    return range(bases[0], last.mark())
            except FileNotFoundError:
                continue  # the log has moved on since it was looked at

    def read(self, limit: int = BATCH) -> list[Record]:
        """The next records, at most `limit`; none where all has been read, for now."""
        found: list[Record] = []
        try:
            while len(found) < limit and self._offset < self._until:
                records = self._run(limit - len(found))
                if not records and not self._go_on():
                    break
                found += self._chosen(records)
        except (DamagedLog, Gone):
            if not found:  # else what came before is handed out first, and the next call raises
                raise
        return found

    def read_chunk(self, limit: int) -> list[Record]:
        """The same for at most `limit` records and one chunk: `offset` shows the progress."""
        records = self._run(limit)
        if not records and self._go_on():
            records = self._run(limit)
        return self._chosen(records)

    def seek(self, offset: int) -> None:
        """Go on from a given offset."""
        segment = self._holding(offset)
        try:
            at, position, _ = segment.skip(self._index, stop=offset)
            # A mark may be behind until the writer has come back, so what is whole counts here.
            while at < offset and (run := segment.run(position, at, offset)).records:
                at, position = at + len(run.records), position + run.size
            if at < offset:
                hint = "this is another log, or it has lost its end"
                message = (
                    f"{self._directory}: the log ends with {at}, before the record {offset} to go on from"
                )
                raise DamagedLog(message, path=segment.path, offset=offset, hint=hint)
        except BaseException:
            segment.close()
            raise
        self._move(segment, offset, position)

    def find(self, time: int) -> int:
        """The first synced offset that is there whose record has this time or a later one; their end if none has.

        Times need not ascend: a segment is passed over if the next one's head says that all in it are earlier.
        """
        while True:
            bases = self._bases()
            try:
                return self._offset_at(bases, time)
            except FileNotFoundError:
                continue  # retention has removed a segment since they were listed

    def close(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def _run(self, limit: int) -> list[Record]:
        """The next records of this segment, as many as a chunk holds."""
        segment = self._opened()
        mark = segment.mark()  # before the records are read: what is below it was there then
        stop = min(mark if self._synced else MAX_OFFSET, self._until, self._offset + limit)
        run = segment.run(self._position, self._offset, stop, room=min(ROOM, 4096 + 256 * limit))
        if not run.records and self._offset < mark:
            raise segment.damaged(self._position, self._offset)
        self._offset += len(run.records)
        self._position += run.size
        return run.records

    def _chosen(self, records: list[Record]) -> list[Record]:
        if self._kinds is None:
            return [record for record in records if record.kind != CURSORS]
        return [record for record in records if record.kind in self._kinds]

    def _opened(self) -> Segment:
        if self._segment is None:
            raise ValueError("this reader is closed")
        return self._segment

    def _bases(self) -> list[int]:
        bases = offsets_in(self._disk.names(self._directory))
        if not bases:
            raise DamagedLog(f"{self._directory}: there is no log", path=self._directory)
        return bases

    def _holding(self, offset: int) -> Segment:
        """The segment with a given record."""
        while True:
            bases = self._bases()
            if offset < bases[0]:
                raise Gone(offset, bases[0])
            try:
                return Segment(self._disk, self._directory, bases[bisect_right(bases, offset) - 1])
            except FileNotFoundError:
                continue  # retention has removed it since it was listed

    def _offset_at(self, bases: list[int], time: int) -> int:
        offset = bases[0]
        for base, following in zip(bases, [*bases[1:], None], strict=True):
            if following is not None:
                with Segment(self._disk, self._directory, following) as after:
                    if after.head.latest_before < time:
                        continue
            with Segment(self._disk, self._directory, base) as segment:
                offset, _, met = segment.skip(self._index, stop=MAX_OFFSET, since=time)
                if met:
                    break
        return offset

    def _go_on(self) -> bool:
        """Move to the next segment, if it is there: it begins with the next record, and is named so."""
        if self._offset == self._opened().base:
            return False
        try:
            following = Segment(self._disk, self._directory, self._offset)
        except FileNotFoundError:
            first = self.first
            if first > self._offset:
                raise Gone(self._offset, first) from None
            return False
        self._move(following, self._offset, following.start)
        return True

    def _move(self, segment: Segment, offset: int, position: int) -> None:
        self.close()
        self._segment, self._offset, self._position = segment, offset, position
