"""After a crash the log is the synced records and perhaps some of those that followed, in order.

A random life of a log on a disk that is as unkind as one may be, beside a list that says what the log should hold.
And logs that are broken on purpose, one way each, which that must find.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from itertools import pairwise
from random import Random
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run

from fairlead.errors import DamagedLog, Gone, LogFailed, LogFull
from fairlead.log import CURSORS, Log, Reader, Record
from fairlead.log import format as format_module
from fairlead.log import writer as writer_module
from fairlead.log.format import GROUP, Head
from fairlead.log.segment import Segment
from fairlead_lab.testing.memory import MemoryDisk, PowerFailure

DIRECTORY = "log"
EVERY_KIND = [*range(5), GROUP]
times = st.integers(0, 30)
payloads = st.binary(max_size=12) | st.sampled_from([b"x" * 60, b"y" * 200, b"z" * 700])
names = st.sampled_from("abc")


class Life(RuleBasedStateMachine):
    """`records` is what the log holds, by offset; `possible` what a cursor was, and was set to since the sync."""

    log_class: ClassVar[type[Log]] = Log
    disk_class: ClassVar[type[MemoryDisk]] = MemoryDisk

    @initialize(segment=st.sampled_from([150, 400, 2000]), buffer=st.sampled_from([1, 300, 10_000]))
    def begin(self, segment: int, buffer: int) -> None:
        self.sizes = {"segment_bytes": segment, "buffer_bytes": buffer}
        self.disk = self.disk_class()
        self.records: list[tuple[int, int, bytes]] = []
        self.groups: list[range] = []
        self.first = self.synced = 0
        self.cursors: dict[str, int] = {}
        self.possible: dict[str, set[int | None]] = {}
        self.readers: list[tuple[Reader, bool]] = []
        self.open()

    def open(self) -> None:
        self.log = self.log_class(DIRECTORY, disk=self.disk, **self.sizes)

    # What a user does.

    @rule(kind=st.integers(1, 4), payload=payloads, time=times)
    def append(self, kind: int, payload: bytes, time: int) -> None:
        try:
            offset = self.log.append(kind, payload, time)
        except LogFull:
            return
        assert offset == len(self.records)
        self.records.append((time, kind, payload))

    @rule(many=st.lists(st.tuples(st.integers(1, 4), payloads), max_size=5), time=times)
    def append_many(self, many: list[tuple[int, bytes]], time: int) -> None:
        try:
            offsets = self.log.append_many(many, time)
        except LogFull:
            return
        assert offsets == range(len(self.records), len(self.records) + len(many))
        self.records += [(time, kind, payload) for kind, payload in many]

    @rule(many=st.lists(st.tuples(st.integers(1, 4), payloads), max_size=5), time=times)
    def append_group(self, many: list[tuple[int, bytes]], time: int) -> None:
        begin = len(self.records)
        try:
            offsets = self.log.append_group(many, time)
        except LogFull:
            return
        assert offsets == range(begin + 1, begin + 1 + len(many))
        self.records.append((time, GROUP, len(many).to_bytes(4, "little")))
        self.records += [(time, kind, payload) for kind, payload in many]
        self.groups.append(range(begin, len(self.records)))

    def groups_are_whole(self, end: int) -> None:
        """Where the log ends here, each group is before its end, or was not there at all."""
        assert not any(group.start < end < group.stop for group in self.groups)
        self.groups = [group for group in self.groups if group.stop <= end]

    @rule(name=names, offset=st.integers(0, 9))
    def set_cursor(self, name: str, offset: int) -> None:
        self.possible.setdefault(name, {self.cursors.get(name)}).add(offset)
        self.log.cursors[name] = self.cursors[name] = offset

    @rule(name=names)
    def remove_cursor(self, name: str) -> None:
        self.possible.setdefault(name, {self.cursors.get(name)}).add(None)
        self.log.cursors.pop(name, None)
        self.cursors.pop(name, None)

    def expect_cursor_records(self) -> None:
        """A sync may have put changes of cursors at the end, which take offsets as all records do."""
        while len(self.records) < self.log.end:
            self.records.append((0, CURSORS, b""))

    @rule()
    def sync(self) -> None:
        try:
            end = self.log.sync()
        except LogFull:  # what found room is synced all the same
            self.expect_cursor_records()
            assert self.synced <= self.log.synced <= len(self.records)
            self.synced = self.log.synced
            return
        self.expect_cursor_records()
        assert end == self.log.synced == self.log.end == len(self.records)
        self.synced = end
        self.possible.clear()

    @rule()
    def take_back(self) -> None:
        end = self.log.take_back()
        assert self.synced <= end <= len(self.records)
        self.groups_are_whole(end)
        del self.records[end:]

    @rule(
        since=st.none() | times,
        max_bytes=st.none() | st.integers(0, 3000),
        keep=st.none() | st.integers(0, 40),
    )
    def retain(self, since: int | None, max_bytes: int | None, keep: int | None) -> None:
        before, bases = self.first, format_module.offsets_in(self.disk.names(DIRECTORY))
        first = self.log.retain(since=since, max_bytes=max_bytes, retain_from=keep)
        removed = [base for base in bases if base < first]
        assert first in bases
        self.first = first
        assert keep is None or first <= max(keep, before)
        if since is None and max_bytes is None:
            assert first == before
        if since is not None and max_bytes is None and removed:
            later = pairwise(bases[len(removed) - 1 :])
            assert any(self.is_older(since, start, end) for start, end in later)
        if max_bytes is not None and keep is None:
            assert self.log.size <= max_bytes or first == bases[-1]

    def is_older(self, since: int, start: int, end: int) -> bool:
        return all(time < since for time, kind, _ in self.records[start:end] if kind != CURSORS)

    @rule(room=st.none() | st.integers(0, 600))
    def fill_the_disk(self, room: int | None) -> None:
        self.disk.room = None if room is None else self.disk.used() + room

    @rule(
        many=st.lists(st.tuples(st.integers(1, 4), payloads), min_size=2, max_size=5),
        room=st.integers(1, 200),
        time=times,
    )
    def append_a_group_for_which_there_is_little_room(
        self, many: list[tuple[int, bytes]], room: int, time: int
    ) -> None:
        self.fill_the_disk(room)
        self.append_group(many, time)
        self.sync()
        self.take_back()

    # Readers beside it.

    @precondition(lambda self: len(self.readers) < 4)
    @rule(at=st.integers(0, 1000), synced=st.booleans())
    def start_reading(self, at: int, synced: bool) -> None:
        offset = self.first + at % (self.synced - self.first + 1)
        self.readers.append(
            (Reader(DIRECTORY, offset, synced=synced, kinds=EVERY_KIND, disk=self.disk), synced)
        )

    @precondition(lambda self: self.readers)
    @rule(which=st.integers(0, 3), limit=st.integers(1, 10))
    def read(self, which: int, limit: int) -> None:
        reader, synced = self.readers[which % len(self.readers)]
        at = reader.offset
        try:
            found = reader.read(limit)
        except Gone as gone:
            said = (gone.offset, gone.first)
            reader.seek(gone.first)
            assert said == (at, self.first)
            return
        self.compare(found, at)
        if synced:
            assert reader.offset <= self.synced
            # Fewer only if retention has removed the next one, which the next call tells.
            assert len(found) == min(limit, self.synced - at) or (found and reader.offset < self.first)

    def compare(self, found: list[Record], at: int) -> None:
        assert [record.offset for record in found] == list(range(at, at + len(found)))
        for record in found:
            time, kind, payload = self.records[record.offset]
            assert record.kind == kind
            if kind != CURSORS:
                assert (record.time, record.payload) == (time, payload)

    @rule(time=times)
    def find(self, time: int) -> None:
        with Reader(DIRECTORY, disk=self.disk, index=self.log.index) as reader:
            found = reader.find(time)
        # Changes of cursors have the time of the record before them, so they are never the first.
        later = (
            o for o in range(self.first, self.synced) if self.records[o][1] and self.records[o][0] >= time
        )
        expected = next(later, self.synced)
        assert found == expected or self.only_cursors(found, expected)

    def only_cursors(self, start: int, end: int) -> bool:
        return start < end and self.records[start][1] == CURSORS

    # What happens to it.

    @rule()
    def close_and_open(self) -> None:
        self.disk.room = None
        self.log.close()
        self.expect_cursor_records()
        self.synced = len(self.records)
        self.possible.clear()
        self.open()
        assert self.log.recovery.cut_bytes == 0
        self.recovered()

    @rule()
    def kill(self) -> None:
        """The process ends, the machine goes on; so do readers, whose positions stay right."""
        self.disk.kill()
        self.disk.room = None
        self.open()
        self.recovered()

    @rule(rng=st.randoms(use_true_random=False))
    def lose_power(self, rng: Random) -> None:
        """Readers of what is synced come back where they were."""
        positions = [reader.offset for reader, synced in self.readers if synced]
        with Reader(DIRECTORY, disk=self.disk, kinds=EVERY_KIND) as reader:
            seen = reader.first + len(list(reader))
        self.disk.lose_power(rng)
        self.disk.room = None
        self.readers = []
        for offset in positions:
            if offset >= self.first:
                self.readers.append((Reader(DIRECTORY, offset, kinds=EVERY_KIND, disk=self.disk), True))
        self.open()
        assert self.log.end >= seen, "a reader of what is synced saw what a crash took away"
        self.recovered()

    @rule(fuse=st.integers(0, 12), rng=st.randoms(use_true_random=False), retains=st.booleans())
    def lose_power_at_work(self, fuse: int, rng: Random, retains: bool) -> None:
        self.disk.room = None
        self.disk.fuse = fuse
        try:
            if retains:
                self.first = self.log.retain(max_bytes=0)
            self.sync()
        except PowerFailure:
            pass
        self.disk.fuse = None
        self.expect_cursor_records()
        self.first = self.first_there()
        self.lose_power(rng)

    @rule(rng=st.randoms(use_true_random=False), reopen=st.booleans())
    def fail_to_sync(self, rng: Random, reopen: bool) -> None:
        self.disk.room = None
        self.disk.sync_fails = True
        try:
            self.sync()
        except LogFailed:
            with pytest.raises(LogFailed):
                self.log.append(1, b"", 0)
            with pytest.raises(LogFailed):
                self.log.sync()
            self.expect_cursor_records()
            if reopen:
                self.log.close()
                self.kill()
        self.disk.sync_fails = False
        self.lose_power(rng)

    def first_there(self) -> int:
        return min(format_module.offsets_in(self.disk.names(DIRECTORY)))

    def recovered(self) -> None:
        """The synced records are there, and of the others a beginning."""
        end = self.log.end
        assert self.synced <= end <= len(self.records)
        self.groups_are_whole(end)
        assert self.log.synced == end
        # A removal may have been undone by a power failure; what is back is whole.
        assert self.log.first <= self.first
        self.first = self.log.first
        del self.records[end:]
        self.synced = end
        with Reader(DIRECTORY, disk=self.disk, kinds=EVERY_KIND) as reader:
            assert reader.bounds() == range(self.first, end)
            found = list(reader)
        self.compare(found, self.first)
        assert len(found) == end - self.first
        for name in "abc":
            allowed = self.possible.get(name, {self.cursors.get(name)})
            assert self.log.cursors.get(name) in allowed
        self.cursors = dict(self.log.cursors)
        self.possible.clear()

    @invariant()
    def offsets_agree(self) -> None:
        if hasattr(self, "log"):
            assert self.log.end == len(self.records)
            assert self.log.synced == self.synced
            assert self.log.first == self.first
            assert dict(self.log.cursors) == self.cursors


TestLife = Life.TestCase
TestLife.settings = settings(stateful_step_count=30)


class MarksFirst(Log):
    def _sync_segment(self) -> None:
        self._mark(self._written)
        super()._sync_segment()


class NeverSyncs(Log):
    def _sync_segment(self) -> None:
        pass


class TriesAgain(Log):
    """As if an fsync that fails could be repeated."""

    def _sync_segment(self) -> None:
        try:
            self._disk.sync(self._active.file)
        except OSError:
            self._disk.sync(self._active.file)


class ForgetsCursors(Log):
    """A new segment begins without the cursors."""

    def _create(self, head: Head) -> Segment:
        return super()._create(Head(head.base, head.latest_before))


class LeavesTheTail(Log):
    """Recovery appends after what is not whole."""

    def _rewrite(self, start: int, end: int) -> None:
        self._size = self._active.size()


class ManyAreNoGroup(Log):
    """A group is appended as many records are."""

    def append_group(self, records: Iterable[tuple[int, bytes]], time: int) -> range:
        records = [*records]
        with patch.object(writer_module, "GROUP", -1):
            offsets = self.append_many([(GROUP, len(records).to_bytes(4, "little")), *records], time)
        return range(offsets.start + 1, offsets.stop)

    def _recover_last(self) -> tuple[int, int]:
        with patch.object(writer_module, "GROUP", -1):
            return super()._recover_last()


class FillsTheDiskWithHalves(Log):
    """Of a group that the disk has no room for, whole records stay."""

    def _flush(self) -> None:
        with patch.object(format_module, "GROUP", -1):
            super()._flush()


class TrustsTheCache(Log):
    """Recovery believes that a sync writes what an earlier one has failed to write."""

    def _rewrite(self, start: int, end: int) -> None:
        self._disk.truncate(self._active.file, end)


class NoDirectorySync(MemoryDisk):
    def sync_directory(self, directory: str) -> None:
        pass


@pytest.mark.parametrize(
    "mutant",
    [
        MarksFirst,
        NeverSyncs,
        TriesAgain,
        ForgetsCursors,
        LeavesTheTail,
        TrustsTheCache,
        ManyAreNoGroup,
        FillsTheDiskWithHalves,
        NoDirectorySync,
    ],
)
def test_a_log_that_is_broken_on_purpose_is_found_out(mutant: type) -> None:
    kind = "disk_class" if issubclass(mutant, MemoryDisk) else "log_class"
    replaced = [name for name, each in vars(mutant).items() if callable(each)]
    assert {hasattr(mutant.__base__, name) for name in replaced} == {True}, "a mutant replaces what there is"
    must_fail(type(mutant.__name__, (Life,), {kind: mutant}))


def must_fail(life: type[Life]) -> None:
    searching = settings(max_examples=5000, stateful_step_count=30, phases=[Phase.generate], database=None)
    with pytest.raises((AssertionError, DamagedLog)):
        run(life, settings=searching)


class NamesFirst(Log):
    """A segment gets its name before its head is safe."""

    def _create(self, head: Head) -> Segment:
        path = f"{self._directory}/{format_module.name_of(head.base)}"
        file = self._disk.create(path)
        self._disk.write(file, head.encode(), 0)
        self._sync_directory()
        self._disk.sync(file)
        self._disk.close(file)
        return Segment(self._disk, self._directory, head.base, update=True)


def fill_two_segments(log: Log) -> None:
    for number in range(6):
        log.append(1, bytes(100), number)
        log.cursors["a"] = number
        log.sync()
    log.retain(max_bytes=300)


def synced_at_the_power_failure(log_class: type[Log], fuse: int, rng: Random) -> tuple[int, Log]:
    """Where a log was synced when the power failed, `fuse` steps into its life, and the log after that."""
    disk = MemoryDisk()
    disk.fuse = fuse
    log = None
    try:
        log = log_class(DIRECTORY, segment_bytes=300, disk=disk)
        fill_two_segments(log)
    except PowerFailure:
        pass
    synced = log.synced if log is not None else 0
    disk.lose_power(rng)
    disk.fuse = rng.randint(0, 8)  # and once more while it is opened
    with contextlib.suppress(PowerFailure):
        Log(DIRECTORY, segment_bytes=300, disk=disk)
    disk.lose_power(rng)
    return synced, Log(DIRECTORY, segment_bytes=300, disk=disk)


def test_the_power_may_fail_at_every_step() -> None:
    for fuse in range(80):
        for seed in range(8):
            synced, log = synced_at_the_power_failure(Log, fuse, Random(seed))
            assert log.end >= synced
            assert log.cursors.get("a", -1) >= synced // 2 - 1
            log.append(1, b"more", 0)
            assert log.sync() == log.end


def test_a_segment_that_has_its_name_before_its_head_is_safe_is_found_out() -> None:
    def tries() -> None:
        for fuse in range(80):
            for seed in range(8):
                synced, log = synced_at_the_power_failure(NamesFirst, fuse, Random(seed))
                assert log.end >= synced

    with pytest.raises((AssertionError, DamagedLog)):
        tries()


def test_a_mark_that_no_sync_has_written_is_written_again_by_recovery() -> None:
    """A torn mark, mended by a write that a failed fsync forgets: the other one is all that the disk has."""
    for seed in range(50):
        disk = MemoryDisk()
        with Log(DIRECTORY, disk=disk) as log:
            path = f"{DIRECTORY}/{format_module.name_of(0)}"
        file = disk.update(path)
        disk.write(file, b"torn", format_module.MARKS_AT)
        disk.sync(file)
        log = Log(DIRECTORY, disk=disk)
        log.append(1, b"", 0)
        log.sync()
        log.append(1, b"", 0)
        disk.sync_fails = True
        with pytest.raises(LogFailed):
            log.sync()
        log.close()
        assert Log(DIRECTORY, disk=disk).synced == 2
        disk.lose_power(Random(seed))
        assert Log(DIRECTORY, disk=disk).end == 2


def lose_power_after_retention(log_class: type[Log]) -> None:
    for seed in range(30):
        disk = MemoryDisk()
        log = log_class(DIRECTORY, segment_bytes=1, disk=disk)
        for _ in range(6):
            log.append(1, b"", 0)
            log.sync()
        assert log.retain(max_bytes=0) == 6
        disk.lose_power(Random(seed))
        assert Log(DIRECTORY, disk=disk).end == 6


class RemovesTwoAtOnce(Log):
    _removing = False

    def retain(self, **limits: Any) -> int:
        self._removing = True
        try:
            return super().retain(**limits)
        finally:
            self._removing = False

    def _sync_directory(self) -> None:
        if not self._removing:
            super()._sync_directory()


def test_retention_leaves_no_gap_whatever_names_a_power_failure_brings_back() -> None:
    lose_power_after_retention(Log)
    with pytest.raises(DamagedLog, match="the next one begins with"):
        lose_power_after_retention(RemovesTwoAtOnce)


def lose_power_before_the_sync() -> None:
    """What is kept of long records, written and not synced, is what was appended."""
    payloads = [bytes([number]) * 300 for number in range(1, 4)]
    for seed in range(60):
        disk = MemoryDisk()
        log = Log(DIRECTORY, buffer_bytes=1, disk=disk)
        log.append_many([(1, payload) for payload in payloads], 0)
        log.append(1, b"", 0)
        disk.lose_power(Random(seed))
        Log(DIRECTORY, disk=disk)
        with Reader(DIRECTORY, disk=disk) as reader:
            found = [record.payload for record in reader]
        assert found == payloads[: len(found)]


def test_a_recovery_that_does_not_look_at_checksums_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    lose_power_before_the_sync()
    monkeypatch.setattr(format_module, "intact", lambda crc, rest: True)
    with pytest.raises(AssertionError):
        lose_power_before_the_sync()
