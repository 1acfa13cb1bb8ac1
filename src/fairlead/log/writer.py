"""`Log` appends records, and syncs them many at a time: a record below the offset of `sync` is never lost.

Appending touches memory, mostly; `sync` writes and waits for the disk, and may run in a thread of its own
while others go on appending (group commit: the longer a sync takes, the more records the next one makes
synced).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from types import TracebackType

from fairlead.errors import DamagedLog, FairleadError, LogClosed, LogFailed, LogFull
from fairlead.log.cursors import Cursors
from fairlead.log.disk import Disk, write_file
from fairlead.log.format import (
    CURSORS,
    GROUP,
    MARK_BYTES,
    MARKS_AT,
    MAX_OFFSET,
    MAX_PAYLOAD,
    NEVER,
    RECORD_HEAD,
    SUFFIX,
    Head,
    decode_cursors,
    encode_group,
    encode_mark,
    encode_record,
    group_count,
    name_of,
    offsets_in,
    whole_records,
)
from fairlead.log.reserve import Reserve
from fairlead.log.segment import ROOM, Segment
from fairlead.log.sparse_index import IndexEntry, SparseIndex
from fairlead.log.tail import check_tail, write_tail

__all__ = ["Log", "Recovery"]

SEGMENT_BYTES = 32 << 20
BUFFER_BYTES = 1 << 20

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE})
"""The errors after which a log goes on once there is room; after all others nothing is known, and it stops."""
UNFINISHED = ".new"
ROOM_HINT = "make room on the disk, or let retention remove more; then the log continues by itself"
FAILED_HINT = "repair the disk, then open the log anew: it has all synced records"


@dataclass(frozen=True, slots=True)
class Recovery:
    """The result of opening a log: its offsets, from `first` to `end`, and how many bytes after it were cut."""

    first: int
    end: int
    cut_bytes: int = 0

    def __str__(self) -> str:
        cut = f", {self.cut_bytes} bytes of an unfinished end cut off" if self.cut_bytes else ""
        return f"records {self.first} to {self.end}{cut}"


@dataclass(frozen=True, slots=True)
class Closed:
    """A segment that will not grow: the offsets from `base` to `end`, its size, the latest time in it."""

    base: int
    end: int
    size: int
    latest: int


class Log:
    """The one writer of a log. `recovery` describes the repairs at opening; readers in this process
    share `index`.

    A segment is closed by the first sync that finds it at `segment_bytes` or beyond. Not more than
    `buffer_bytes` wait in memory for the next sync (or one call's records, if that is more): beyond,
    appending writes. `reserve_bytes` of the disk are set aside for the records that make a full log smaller.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        segment_bytes: int = SEGMENT_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
        reserve_bytes: int = 0,
        disk: Disk | None = None,
    ) -> None:
        """Open a log, or make one: LogInUse if it has a writer, DamagedLog if synced records are missing."""
        self._directory = os.fspath(directory)
        self._disk = disk or Disk()
        self._segment_bytes, self._buffer_bytes = segment_bytes, buffer_bytes
        # `_syncing` is held over whole syncs, `_lock` for moments; code that needs both takes them in this order.
        self._syncing, self._lock = Lock(), Lock()
        self._stopped: FairleadError | None = None
        self._buffer = bytearray()
        self._closed: list[Closed] = []
        self._end = self._written = self._synced = 0
        self._time = self._latest = self._latest_waiting = NEVER
        self._slot = 0
        self.index = SparseIndex()
        self.cursors = Cursors({}, self._lock)
        self._disk.make_directory(self._directory)
        self._held = self._disk.lock(f"{self._directory}/lock")
        try:
            self.recovery = self._recover()
            self.reserve = Reserve(self._disk, self._directory, reserve_bytes)
        except BaseException:
            self._disk.close(self._held)
            raise

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def first(self) -> int:
        """The first offset that is there."""
        return self._closed[0].base if self._closed else self._active.base

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        return self._end

    @property
    def written(self) -> int:
        """All below this offset is in a file; what follows waits in memory."""
        return self._written

    @property
    def synced(self) -> int:
        """All below this offset is synced."""
        return self._synced

    @property
    def size(self) -> int:
        """The bytes of all segments, with what waits in memory."""
        return sum(each.size for each in self._closed) + self._size + len(self._buffer)

    def append(self, kind: int, payload: bytes, time: int) -> int:
        """Add a record and return its offset. If it raises (LogFull, above all), nothing has been added."""
        _check(kind, payload)
        with self._lock:
            self._check_open()
            return self._take(encode_record(self._end, time, kind, payload), 1, time)

    def append_many(self, records: Iterable[tuple[int, bytes]], time: int) -> range:
        """Add records of (kind, payload), all or none of them, and return their offsets."""
        records = list(records)
        for kind, payload in records:
            _check(kind, payload)
        with self._lock:
            self._check_open()
            numbered = enumerate(records, self._end)
            encoded = [encode_record(offset, time, kind, payload) for offset, (kind, payload) in numbered]
            first = self._take(b"".join(encoded), len(encoded), time) if encoded else self._end
            return range(first, first + len(encoded))

    def append_group(self, records: Iterable[tuple[int, bytes]], time: int) -> range:
        """Add records of (kind, payload) that are in the log together or not at all, whatever fails; their
        offsets."""
        records = list(records)
        for kind, payload in records:
            _check(kind, payload)
        with self._lock:
            self._check_open()
            encoded = encode_group(self._end, time, records)
            first = self._take(b"".join(encoded), len(encoded), time) + 1
            return range(first, first + len(records))

    def sync(self) -> int:
        """Sync all that has been appended, cursors included, and return the offset below which all is synced.

        LogFull: what could be written is `synced`, and what could not waits for the next sync, or for
        `take_back`. LogFailed: this writer is done; what an fsync could not write, the system may count as
        written all the same, so another try proves nothing.
        """
        full: LogFull | None = None
        with self._syncing:
            with self._lock:
                self._check_open()
                try:
                    self._flush()
                    self._flush_cursors()
                except LogFull as error:
                    full = error
                end = self._written
            if end > self._synced:
                self._sync_segment()
                with self._lock:
                    self._synced = end
                    self.cursors.written()
                    self._mark(end)
                    if self._size >= self._segment_bytes:
                        self._next_segment()
        if full is not None:
            raise full
        return end

    def flush(self) -> None:
        """Write what waits, cursors included, and do not wait for the disk: a process that is killed loses none of
        it, and a power failure may lose it."""
        with self._syncing, self._lock:
            self._check_open()
            self._flush()
            self._flush_cursors()

    def take_back(self) -> int:
        """Forget the records that have not been written yet, after LogFull; the log ends at the offset returned.

        What is below it stays, and is synced after the next sync.
        """
        with self._syncing, self._lock:
            self._check_open()
            self._buffer, self._latest_waiting = bytearray(), NEVER
            self._end = self._written
            self.cursors.taken_back()
            return self._end

    def retain(
        self, *, since: int | None = None, max_bytes: int | None = None, retain_from: int | None = None
    ) -> int:
        """Remove segments at the front, and return the first offset that is still there.

        They go that are older than the time `since`, and as many more as `max_bytes` demands; but never one
        with the record `retain_from` or a later one, nor the last segment. A segment is older than `since` if
        all of its records are, or all of a later segment: a clock that was ahead for a while keeps nothing
        for ever.
        """
        with self._syncing:
            for segment in self._outdated(since, max_bytes, retain_from):
                self._disk.remove(f"{self._directory}/{name_of(segment.base)}")
                # One by one: of two names removed at once, a crash could bring back the first alone.
                self._sync_directory()
                self.index.forget(segment.base)
                with self._lock:
                    self._closed.pop(0)
            return self.first

    def retained(
        self, *, since: int | None = None, max_bytes: int | None = None, retain_from: int | None = None
    ) -> int:
        """The first offset that `retain` would leave."""
        outdated = self._outdated(since, max_bytes, retain_from)
        return outdated[-1].end if outdated else self.first

    def _outdated(self, since: int | None, max_bytes: int | None, retain_from: int | None) -> list[Closed]:
        with self._lock:
            self._check_open()
            closed, total = list(self._closed), self.size
        old = [number for number, each in enumerate(closed) if since is not None and each.latest < since]
        for number, segment in enumerate(closed):
            aged = bool(old) and number <= old[-1]
            too_large = max_bytes is not None and total > max_bytes
            needed = retain_from is not None and retain_from < segment.end
            if needed or not (aged or too_large):
                return closed[:number]
            total -= segment.size
        return closed

    def close(self) -> None:
        """Sync, and let go of the log. A log that has failed is only let go of."""
        if isinstance(self._stopped, LogClosed):
            return
        try:
            if self._stopped is None:
                self.sync()
                self._sync_segment()  # the mark, which is behind by one sync otherwise
        finally:
            with self._syncing, self._lock:
                self._stopped = LogClosed(f"{self._directory}: this log is closed")
                self._active.close()
                self._disk.close(self._held)

    # Records that are being written. The lock is held.

    def _check_open(self) -> None:
        if self._stopped is not None:
            raise type(self._stopped)(str(self._stopped)) from self._stopped

    def _take(self, encoded: bytes, count: int, time: int) -> int:
        if len(self._buffer) + len(encoded) > self._buffer_bytes and self._buffer:
            self._flush()  # before anything is taken: when it fails, nothing has been
        self._buffer += encoded
        first = self._end
        self._end = first + count
        self._time, self._latest_waiting = time, max(self._latest_waiting, time)
        return first

    def _flush(self) -> None:
        """Write what waits. Where there is no room for all of it, the file ends with a whole record."""
        if not self._buffer:
            return
        done = 0
        try:
            with memoryview(self._buffer) as view:
                while done < len(view):
                    done += self._write(self._active.file, view[done:], self._size + done)
        except OSError as error:
            # Whole records stay: a reader that does not wait for the sync may have seen them. Of a group that does
            # not fit nothing stays.
            count, whole = whole_records(self._buffer, done)
            try:
                self._disk.truncate(self._active.file, self._size + whole)
            except OSError as another:
                raise self._failed(another) from another
            self._count_written(count, whole)
            raise (self._full(error) if error.errno in NO_ROOM else self._failed(error)) from error
        self._count_written(self._end - self._written, done)
        self.index.note(self._active.base, IndexEntry(self._written, self._size, self._latest))

    def _flush_cursors(self) -> None:
        """Write what has become of the cursors; what finds no room is written by the next sync."""
        try:
            for payload in self.cursors.changes():
                self._take(encode_record(self._end, self._time, CURSORS, payload), 1, self._time)
            self._flush()
        except LogFull:
            self.cursors.taken_back()
            raise

    def _count_written(self, count: int, size: int) -> None:
        self._written += count
        self._size += size
        self._buffer = self._buffer[size:]
        self._latest = max(self._latest, self._latest_waiting)
        if not self._buffer:
            self._latest_waiting = NEVER

    def _write(self, file: int, raw: bytes | memoryview, position: int) -> int:
        count = self._disk.write(file, raw, position)
        if not count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return count

    # How records are synced.

    def _sync_segment(self) -> None:
        try:
            self._disk.sync(self._active.file)
        except OSError as error:
            raise self._failed(error) from error

    def _sync_directory(self) -> None:
        try:
            self._disk.sync_directory(self._directory)
        except OSError as error:
            raise self._failed(error) from error

    def _mark(self, offset: int) -> None:
        """Note that all below `offset` is synced, over the older of the two marks.

        Every mark follows a sync, which has synced the mark before it: a torn one leaves the other.
        """
        raw, position = encode_mark(offset), MARKS_AT + self._slot * MARK_BYTES
        try:
            done = self._write(self._active.file, raw, position)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise self._failed(error) from error
            return  # a file system that never writes in place, and is full: a mark may be behind
        if done == len(raw):
            self._slot, self._marked = 1 - self._slot, offset

    def _next_segment(self) -> None:
        """Close the segment and begin the next, if nothing was written into this one since the sync."""
        if not self._written == self._synced == self._marked:
            return
        self._sync_segment()  # the mark: a segment with a successor ends where its mark says
        try:
            following = self._create(Head(self._synced, self._latest, self.cursors.snapshot()))
        except LogFull:
            return  # this segment grows on, and the next sync tries again
        self._active.close()
        self._closed.append(Closed(self._active.base, self._synced, self._size, self._latest))
        self._begin(following)

    def _begin(self, segment: Segment) -> None:
        self._active, self._size, self._latest = segment, segment.start, NEVER
        self._slot, self._marked = 0, segment.base

    def _create(self, head: Head) -> Segment:
        """A segment has its name only when its head is synced, so there is never half a head to be read."""
        path = f"{self._directory}/{name_of(head.base)}"
        try:
            write_file(self._disk, path, head.encode(), unfinished=path.removesuffix(SUFFIX) + UNFINISHED)
        except OSError as error:
            raise (self._full(error) if error.errno in NO_ROOM else self._failed(error)) from error
        self._sync_directory()
        write_tail(self._disk, self._directory, head.base)
        return Segment(self._disk, self._directory, head.base, update=True)

    def _full(self, error: OSError) -> LogFull:
        full = LogFull(f"{self._directory}: there is no room for the log: {error.strerror}", hint=ROOM_HINT)
        full.errno = error.errno
        return full

    def _failed(self, error: OSError) -> LogFailed:
        """The error after which this writer refuses all work."""
        failed = LogFailed(
            f"{self._directory}: the log could not be written: {error.strerror}", hint=FAILED_HINT
        )
        failed.errno, self._stopped = error.errno, failed
        return failed

    # Opening.

    def _recover(self) -> Recovery:
        names = self._disk.names(self._directory)
        for name in names:
            if name.endswith(UNFINISHED):
                self._disk.remove(f"{self._directory}/{name}")
        # A process that was killed may have left names, and have removed some, that are not synced yet.
        self._sync_directory()
        bases = offsets_in(names)
        check_tail(self._disk, self._directory, bases)
        if not bases:
            self._begin(self._create(Head(0)))
            return Recovery(0, 0)
        self._closed = self._closed_segments(bases)
        self._begin(Segment(self._disk, self._directory, bases[-1], update=True))
        try:
            write_tail(self._disk, self._directory, bases[-1])
            return Recovery(bases[0], *self._recover_last())
        except BaseException:
            self._active.close()
            raise

    def _closed_segments(self, bases: list[int]) -> list[Closed]:
        """All segments but the last. What is in them is left to readers; that they join is seen here."""
        outlines = []
        for base in bases:
            with Segment(self._disk, self._directory, base) as segment:
                outlines.append((segment, segment.size(), segment.mark()))
        closed = []
        for (segment, size, mark), (following, _, _) in pairwise(outlines):
            if mark != following.base:
                problem = f"is where this segment ends, but the next one begins with {following.base}"
                raise DamagedLog(
                    f"{segment.path}: the record {mark} {problem}", path=segment.path, offset=mark
                )
            closed.append(Closed(segment.base, following.base, size, following.head.latest_before))
        return closed

    def _recover_last(self) -> tuple[int, int]:
        """Keep the whole records of the last segment; where the log ends then, and how many bytes were cut off."""
        segment = self._active
        marks, size = segment.marks(), segment.size()
        mark = max(marks)
        self.cursors = Cursors(segment.head.cursors, self._lock)
        self._time = segment.head.latest_before
        offset, position = segment.base, segment.start
        group_end = whole_offset = whole_position = 0
        while (run := segment.run(position, offset, MAX_OFFSET)).records:
            at = position
            for record in run.records:
                if record.kind == CURSORS:
                    for name, cursor in decode_cursors(record.payload):
                        self.cursors.replay(name, cursor)
                elif record.kind == GROUP:
                    group_end = record.offset + 1 + group_count(record.payload)
                    whole_offset, whole_position = record.offset, at
                self._latest = max(self._latest, record.time)
                at += RECORD_HEAD + len(record.payload)
            self._time = run.records[-1].time
            offset, position = offset + len(run.records), position + run.size
            if offset >= group_end:
                self.index.note(segment.base, IndexEntry(offset, position, self._latest))
        if offset < group_end:  # what is there of it has never been synced
            offset, position = whole_offset, whole_position
        if offset < mark:
            raise segment.damaged(position, offset)
        self._end = self._written = self._synced = offset
        self._size = position
        # If an fsync failed before, the system may hold bytes without meaning to write them: it is made to, from
        # the mark on, and with the mark itself, before the other one is written over.
        self._slot = marks.index(mark)
        self._mark(mark)
        self._rewrite(segment.skip(self.index, stop=mark)[1], position)
        self._sync_segment()
        if offset > mark:
            self._mark(offset)
        return offset, size - position

    def _rewrite(self, start: int, end: int) -> None:
        """Cut the file at `end`, and write anew what is there from `start` on."""
        try:
            self._disk.truncate(self._active.file, end)
            while start < end:
                raw = self._disk.read(self._active.file, min(ROOM, end - start), start)
                start += self._write(self._active.file, raw, start)
        except OSError as error:
            raise (self._full(error) if error.errno in NO_ROOM else self._failed(error)) from error


def _check(kind: int, payload: bytes) -> None:
    if kind <= CURSORS or kind == GROUP:
        raise ValueError(f"a record's kind is 1 or more, not {kind}: 0 and {GROUP} are the log's own")
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"a record holds at most {MAX_PAYLOAD} bytes, not {len(payload)}")
