"""What has been synced is never lost and never changes; what cannot be kept is refused, and said."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from fairlead.errors import DamagedLog, LogClosed, LogFailed, LogFull, LogInUse
from fairlead.log import MAX_PAYLOAD, Log, Reader, Recovery
from fairlead.log.format import name_of
from fairlead_lab.testing.memory import MemoryDisk

FIRST = "00000000000000000000.log"
RECORD = 26
TAIL = 20


def payloads_of(directory: Path | str, **options: object) -> list[bytes]:
    with Reader(directory, **options) as reader:  # type: ignore[arg-type]
        return [record.payload for record in reader]


def test_a_log_gives_back_what_was_appended(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        assert log.append(1, b"a", 10) == 0
        assert log.append_many([(2, b"b"), (1, b"c")], 20) == range(1, 3)
        assert log.append_many([], 20) == range(3, 3)
        assert (log.end, log.synced) == (3, 0)
        assert log.sync() == log.synced == 3
        assert payloads_of(tmp_path) == [b"a", b"b", b"c"]


def test_what_is_appended_is_not_written_before_the_sync_or_a_full_buffer(tmp_path: Path) -> None:
    with Log(tmp_path, buffer_bytes=100) as log:
        log.append(1, bytes(40), 0)
        assert payloads_of(tmp_path, synced=False) == []
        log.append(1, bytes(40), 0)
        assert payloads_of(tmp_path, synced=False) == [bytes(40)]
        assert payloads_of(tmp_path) == []


def test_a_log_has_one_writer(tmp_path: Path) -> None:
    with Log(tmp_path), pytest.raises(LogInUse, match="has a writer already"):
        Log(tmp_path)
    with Log(tmp_path):
        pass


def test_opening_cuts_off_an_unfinished_end_and_tells(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        log.append(1, b"kept", 0)
    with (tmp_path / FIRST).open("ab") as file:
        file.write(b"\x17" * 99)
    with Log(tmp_path) as log:
        assert log.recovery == Recovery(0, 1, 99)
        assert str(log.recovery) == "records 0 to 1, 99 bytes of an unfinished end cut off"
        assert log.append(1, b"next", 0) == 1
    assert payloads_of(tmp_path) == [b"kept", b"next"]


@pytest.mark.parametrize("harm", ["change", "cut"])
def test_damage_to_what_was_synced_is_an_error_that_names_file_and_offset(tmp_path: Path, harm: str) -> None:
    with Log(tmp_path) as log:
        log.append_many([(1, b"a" * 10), (1, b"b" * 10), (1, b"c" * 10)], 0)
    path = tmp_path / FIRST
    raw = bytearray(path.read_bytes())
    if harm == "cut":
        path.write_bytes(raw[:-1])
    else:
        raw[-1] ^= 1
        path.write_bytes(raw)
    harmed = path.read_bytes()
    with pytest.raises(
        DamagedLog, match=r"record 2 at byte \d+ is damaged, though it had been synced"
    ) as damage:
        Log(tmp_path)
    assert (damage.value.path, damage.value.offset) == (str(path), 2)
    assert path.read_bytes() == harmed
    with Reader(tmp_path) as reader:
        assert [record.offset for record in reader.read(2)] == [0, 1]
        with pytest.raises(DamagedLog, match="record 2"):
            reader.read()


def test_a_segment_that_is_missing_in_the_middle_is_an_error(tmp_path: Path) -> None:
    with Log(tmp_path, segment_bytes=1) as log:
        for _ in range(3):
            log.append(1, b"", 0)
            log.sync()
    (tmp_path / name_of(1)).unlink()
    with pytest.raises(
        DamagedLog, match="the record 1 is where this segment ends, but the next one begins with 2"
    ):
        Log(tmp_path)


def test_a_segment_is_closed_by_the_sync_that_finds_it_large_enough(tmp_path: Path) -> None:
    with Log(tmp_path, segment_bytes=64 + 2 * RECORD) as log:
        for _ in range(5):
            log.append(1, b"", 0)
            log.sync()
        names = sorted(path.name for path in tmp_path.glob("*.log"))
        assert names == [name_of(base) for base in (0, 2, 4)]


def test_the_cursors_are_in_the_last_segment_whatever_retention_removes(tmp_path: Path) -> None:
    with Log(tmp_path, segment_bytes=1) as log:
        log.cursors.update(a=1, b=2)
        log.sync()
        del log.cursors["b"]
        log.append(1, b"", 0)
        log.sync()
        assert log.retain(max_bytes=0) == log.end
    with Log(tmp_path) as log:
        assert dict(log.cursors) == {"a": 1}
        assert "b" not in log.cursors
        assert len(log.cursors) == 1


def test_many_changes_of_a_cursor_are_one_record_and_none_is_none() -> None:
    log = Log("log", disk=MemoryDisk())
    for number in range(1000):
        log.cursors["a"] = number
    assert log.sync() == 1
    log.cursors["a"] = 999
    assert log.sync() == 1


@pytest.mark.parametrize(("name", "offset"), [("", 1), ("x" * 1025, 1), ("a", -1), ("a", 2**63)])
def test_a_cursor_has_a_name_and_an_offset(name: str, offset: int) -> None:
    log = Log("log", disk=MemoryDisk())
    with pytest.raises(ValueError, match="not"):
        log.cursors[name] = offset
    assert len(log.cursors) == 0
    assert log.sync() == 0


def test_cursors_that_fit_no_head_are_refused_and_those_that_do_are_kept() -> None:
    disk = MemoryDisk()
    log = Log("log", disk=disk, segment_bytes=1)
    fitting = MAX_PAYLOAD // 1034
    log.cursors.update({f"{number:01024d}": number for number in range(fitting)})
    with pytest.raises(ValueError, match="there is no room for the cursor"):
        log.cursors["x" * 1024] = 1
    assert log.sync() == 1
    log.close()
    assert len(Log("log", disk=disk).cursors) == fitting > 16_000


# Retention.


def aged(times: list[list[int]]) -> Log:
    """A log with one segment for each list of times, and an empty last one."""
    log = Log("log", segment_bytes=1, disk=MemoryDisk())
    for each in times:
        for time in each:
            log.append(1, b"", time)
        log.sync()
    return log


@pytest.mark.parametrize(
    ("times", "since", "first"),
    [
        ([[1, 2], [3, 4], [5]], 0, 0),
        ([[1, 2], [3, 4], [5]], 4, 2),
        ([[1, 2], [3, 4], [5]], 5, 4),
        ([[1, 2], [3, 4], [5]], 99, 5),
        ([[1, 900], [3, 4], [5]], 4, 0),
        ([[1, 900], [3, 4], [5]], 5, 4),
    ],
)
def test_retention_by_age_removes_what_is_older_and_what_came_before_that(
    times: list[list[int]], since: int, first: int
) -> None:
    assert aged(times).retain(since=since) == first


def test_retention_never_removes_what_is_needed_nor_the_last_segment() -> None:
    log = aged([[1, 2], [3, 4], [5]])
    assert log.retained(since=99, max_bytes=0, retain_from=3) == 2
    assert (log.retained(max_bytes=0), log.first) == (5, 0)
    assert log.retain(since=99, max_bytes=0, retain_from=3) == 2
    assert log.retain(since=99, max_bytes=0, retain_from=4) == 4
    assert log.retain(max_bytes=0) == 5
    assert log.append(1, b"", 0) == 5


def test_retention_by_size_keeps_as_much_as_may_be() -> None:
    log = aged([[1, 2], [3, 4], [5]])
    room = log.size
    assert log.retain(max_bytes=room) == 0
    assert log.retain(max_bytes=room - 1) == 2


# A disk that is full, or fails.


def test_a_full_disk_refuses_and_goes_on_when_there_is_room() -> None:
    disk = MemoryDisk(room=64 + TAIL + 3 * RECORD + 5)
    log = Log("log", buffer_bytes=1, disk=disk)
    for _ in range(4):
        log.append(1, b"", 0)
    with pytest.raises(LogFull, match="there is no room for the log") as full:
        log.append(1, b"", 0)
    assert full.value.errno == errno.ENOSPC
    assert log.end == 4
    with pytest.raises(LogFull):
        log.sync()
    assert log.synced == 3  # what found room is safe
    disk.room = None
    assert log.sync() == 4
    assert log.append(1, b"", 0) == 4


def test_what_found_no_room_can_be_taken_back() -> None:
    disk = MemoryDisk(room=64 + TAIL + 3 * RECORD + 5)
    log = Log("log", disk=disk)
    log.append_many([(1, b"") for _ in range(5)], 0)
    log.cursors["a"] = 1
    with pytest.raises(LogFull):
        log.sync()
    assert log.take_back() == 3
    disk.room = None
    assert log.append(1, b"instead", 0) == 3
    assert log.sync() == 5
    assert [r.payload for r in Reader("log", disk=disk)] == [b"", b"", b"", b"instead"]
    assert dict(Log("log", disk=reopened(log, disk)).cursors) == {"a": 1}


@pytest.mark.parametrize("buffer_bytes", [1, 10_000])
def test_cursors_that_found_no_room_are_kept_by_the_next_sync(buffer_bytes: int) -> None:
    disk = MemoryDisk(room=64)
    log = Log("log", buffer_bytes=buffer_bytes, disk=disk)
    log.append(1, b"", 0)
    log.cursors["a"] = 1
    for _ in range(3):
        with pytest.raises(LogFull):
            log.sync()
    disk.room = 64 + RECORD
    for _ in range(3):
        with pytest.raises(LogFull):
            log.sync()
    assert log.end == 2
    disk.room = None
    log.sync()
    assert dict(Log("log", disk=reopened(log, disk)).cursors) == {"a": 1}


def reopened(log: Log, disk: MemoryDisk) -> MemoryDisk:
    log.close()
    return disk


def test_a_log_without_room_for_the_next_segment_keeps_the_last_one() -> None:
    disk = MemoryDisk(room=64 + TAIL + RECORD)
    log = Log("log", segment_bytes=1, disk=disk)
    log.append(1, b"", 0)
    assert log.sync() == 1
    assert disk.names("log") == [FIRST, "tail"]
    disk.room = None
    log.append(1, b"", 0)
    log.sync()
    assert sorted(disk.names("log")) == [FIRST, name_of(2), "tail"]


def test_no_log_is_made_where_there_is_no_room() -> None:
    disk = MemoryDisk(room=10)
    with pytest.raises(LogFull):
        Log("log", disk=disk)
    assert disk.names("log") == []
    disk.room = None
    assert Log("log", disk=disk).end == 0


def test_a_failed_sync_ends_the_writer_and_what_was_synced_stays() -> None:
    disk = MemoryDisk()
    log = Log("log", disk=disk)
    log.append(1, b"safe", 0)
    log.sync()
    log.append(1, b"lost", 0)
    disk.sync_fails = True
    with pytest.raises(LogFailed, match="could not be written: input/output error") as failure:
        log.sync()
    assert failure.value.errno == errno.EIO
    for work in (log.sync, log.take_back, log.retain, lambda: log.append(1, b"", 0)):
        with pytest.raises(LogFailed, match="could not be written"):
            work()
    assert log.synced == 1
    log.close()
    assert Log("log", disk=disk).end == 2


def test_a_closed_log_refuses_work(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.close()
    log.close()
    with pytest.raises(LogClosed, match="this log is closed"):
        log.append(1, b"", 0)
    with pytest.raises(LogClosed):
        log.sync()


def test_others_append_and_set_cursors_while_one_syncs(tmp_path: Path) -> None:
    log = Log(tmp_path, segment_bytes=2000, buffer_bytes=500)
    done = threading.Event()
    errors: list[BaseException] = []

    def append(worker: int) -> None:
        try:
            for number in range(300):
                offset = log.append(worker, f"{worker} {number}".encode(), number)
                log.cursors[str(worker)] = offset
        except BaseException as error:
            errors.append(error)

    def sync() -> None:
        try:
            while not done.is_set():
                log.sync()
        except BaseException as error:
            errors.append(error)

    syncing = threading.Thread(target=sync)
    workers = [threading.Thread(target=append, args=(worker,)) for worker in (1, 2)]
    for thread in (syncing, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    done.set()
    syncing.join()
    cursors = dict(log.cursors)
    log.close()
    assert errors == []
    with Reader(tmp_path, kinds=range(3)) as reader:
        records = list(reader)
    assert [record.offset for record in records] == list(range(len(records)))
    for worker in (1, 2):
        mine = [record for record in records if record.kind == worker]
        assert [record.payload for record in mine] == [f"{worker} {n}".encode() for n in range(300)]
        assert cursors[str(worker)] == mine[-1].offset
    with Log(tmp_path) as log:
        assert dict(log.cursors) == cursors
