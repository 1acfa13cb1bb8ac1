"""A reader yields exactly the records that were appended, in order, each once, and says if some are gone."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import DamagedLog, Gone
from fairlead.log import CURSORS, Log, Reader, SparseIndex
from fairlead.log.segment import ROOM
from fairlead_lab.testing.memory import MemoryDisk


def log_of(count: int, *, per_segment: int = 3, disk: MemoryDisk | None = None) -> tuple[Log, MemoryDisk]:
    disk = disk or MemoryDisk()
    log = Log("log", segment_bytes=1, disk=disk)
    for number in range(count):
        log.append(1 + number % 2, str(number).encode(), 10 * number)
        if number % per_segment == per_segment - 1:
            log.sync()
    log.sync()
    return log, disk


def test_a_reader_follows_a_growing_log_across_segments() -> None:
    log, disk = log_of(0)
    reader = Reader("log", disk=disk)
    for number in range(10):
        assert reader.read() == []
        log.append(1, b"", 0)
        assert reader.read() == []
        log.sync()
        assert [record.offset for record in reader.read()] == [number]
        assert reader.offset == number + 1


@given(st.integers(0, 12), st.none() | st.integers(0, 14), st.integers(1, 5))
def test_any_part_of_a_log_can_be_read(start: int, until: int | None, limit: int) -> None:
    _, disk = log_of(12)
    with Reader("log", start, until=until, disk=disk) as reader:
        found = []
        while records := reader.read(limit):
            assert len(records) <= limit
            found += records
    assert [record.offset for record in found] == list(range(start, min(12, 12 if until is None else until)))


def test_kinds_are_chosen_and_changes_of_cursors_are_only_shown_on_request() -> None:
    log, disk = log_of(4)
    log.cursors["a"] = 1
    log.sync()
    assert [record.kind for record in Reader("log", disk=disk)] == [1, 2, 1, 2]
    assert [record.offset for record in Reader("log", kinds={2}, disk=disk)] == [1, 3]
    assert [record.offset for record in Reader("log", kinds={CURSORS}, disk=disk)] == [4]
    reader = Reader("log", kinds={2}, disk=disk)
    assert [record.offset for record in reader.read(1)] == [1]
    assert reader.offset == 2


def test_a_reader_that_is_too_slow_is_told_where_it_can_go_on() -> None:
    log, disk = log_of(9)
    slow, quick = Reader("log", 1, disk=disk), Reader("log", 6, disk=disk)
    log.retain(max_bytes=0, retain_from=6)
    # It has its segment open, and so reads that to its end.
    assert [record.offset for record in slow.read()] == [1, 2]
    with pytest.raises(Gone, match="the record 3 has left the log"):
        slow.read()
    assert [record.offset for record in quick] == [6, 7, 8]
    with pytest.raises(Gone, match="the record 1 has left the log; the first that is there is 6") as late:
        Reader("log", 1, disk=disk)
    assert (late.value.offset, late.value.first) == (1, 6)
    again = pickle.loads(pickle.dumps(late.value))
    assert (again.offset, again.first, str(again)) == (1, 6, str(late.value))


def test_a_reader_that_is_ahead_of_the_log_is_told() -> None:
    _, disk = log_of(5)
    Reader("log", 5, disk=disk)
    with pytest.raises(DamagedLog, match="ends with 5, before the record 6 to go on from"):
        Reader("log", 6, disk=disk)


def test_where_there_is_no_log_a_reader_says_so(tmp_path: Path) -> None:
    with pytest.raises(DamagedLog, match="there is no log"):
        Reader(tmp_path)
    with pytest.raises(FileNotFoundError):
        Reader(tmp_path / "nowhere")


def test_a_closed_reader_reads_nothing() -> None:
    _, disk = log_of(1)
    with Reader("log", disk=disk) as reader:
        pass
    with pytest.raises(ValueError, match="closed"):
        reader.read()


def test_records_larger_than_a_chunk_are_read(tmp_path: Path) -> None:
    sizes = [1, ROOM - 26, ROOM, 3 * ROOM, 5]
    with Log(tmp_path) as log:
        log.append_many([(1, bytes(size)) for size in sizes], 0)
        log.sync()
        assert [len(record.payload) for record in Reader(tmp_path)] == sizes
        for start in range(5):
            assert [len(record.payload) for record in Reader(tmp_path, start)] == sizes[start:]
        assert [len(record.payload) for record in Reader(tmp_path, 3).read(1)] == [3 * ROOM]


times_in_segments = st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=6), max_size=5)


@given(times_in_segments, st.integers(0, 4), st.lists(st.integers(-1, 21), min_size=1))
def test_a_time_is_found_where_a_scan_finds_it_whatever_the_clock_did(
    segments: list[list[int]], removed: int, wanted: list[int]
) -> None:
    disk = MemoryDisk()
    log = Log("log", segment_bytes=1, disk=disk)
    for times in segments:
        for time in times:
            log.append(1, bytes(50), time)
        log.sync()
    log.retain(max_bytes=0, retain_from=sum(map(len, segments[:removed])))
    index = SparseIndex()
    for time in wanted:
        later = (record.offset for record in Reader("log", disk=disk) if record.time >= time)
        expected = next(later, log.end)
        assert Reader("log", disk=disk, index=index).find(time) == expected
        assert Reader("log", disk=disk, index=log.index).find(time) == expected


def test_places_are_shared_and_found_again(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        for number in range(3000):
            log.append(1, bytes(1000), number // 7)
        log.sync()
        index = SparseIndex()
        for each in (index, log.index):
            for offset in (2999, 1700, 3, 2000):
                with Reader(tmp_path, offset, index=each) as reader:
                    assert reader.read(1)[0].offset == offset
                    assert reader.find(offset // 7) == offset // 7 * 7
        assert index.before(0, 2000, 10**9) is not None


def test_the_bounds_are_what_is_there_and_synced() -> None:
    log, disk = log_of(9)
    log.append(1, b"", 0)
    with Reader("log", disk=disk) as reader:
        assert reader.bounds() == range(9)
        log.retain(max_bytes=0, retain_from=4)
        assert reader.bounds() == range(3, 9)
        assert reader.first == 3
