"""A segment that is missing is found; a full disk has room for the records that make the log smaller."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.errors import DamagedLog, LogFull
from fairlead.log import Log, Reader
from fairlead.log.format import name_of
from fairlead_lab.testing.memory import MemoryDisk


def filled(directory: Path) -> list[str]:
    """A log of several segments; their names."""
    with Log(directory, segment_bytes=200) as log:
        for number in range(20):
            log.append(1, bytes(40), number)
            log.sync()
    return sorted(path.name for path in directory.iterdir() if path.suffix == ".log")


def test_a_log_without_its_newest_segment_is_damaged(tmp_path: Path) -> None:
    names = filled(tmp_path)
    assert len(names) > 3
    (tmp_path / names[-1]).unlink()
    with pytest.raises(DamagedLog, match="this segment is missing") as damaged:
        Log(tmp_path)
    assert damaged.value.hint is not None
    assert "delete the file 'tail'" in damaged.value.hint
    (tmp_path / "tail").unlink()
    with Log(tmp_path) as log:
        assert log.end == int(names[-1].removesuffix(".log"))


def test_a_log_without_any_segment_is_damaged(tmp_path: Path) -> None:
    for name in filled(tmp_path):
        (tmp_path / name).unlink()
    with pytest.raises(DamagedLog, match="this segment is missing"):
        Log(tmp_path)


def test_a_log_from_before_tails_is_opened_and_gets_one(tmp_path: Path) -> None:
    names = filled(tmp_path)
    (tmp_path / "tail").unlink()
    with Log(tmp_path):
        pass
    assert name_of(int((tmp_path / "tail").read_text())) == names[-1]


def test_only_the_owner_reads_the_files_of_a_log(tmp_path: Path) -> None:
    filled(tmp_path)
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}


def test_a_released_reserve_has_room_for_a_record_on_a_full_disk() -> None:
    disk = MemoryDisk(room=3_000)
    log = Log("log", reserve_bytes=1_000, disk=disk)
    for number in range(100):
        log.append(1, bytes(50), number)
    with pytest.raises(LogFull):
        log.sync()
    log.take_back()
    end = log.end
    log.reserve.release()
    log.append(2, b"administration", 0)
    log.sync()
    assert [record.payload for record in Reader("log", end, disk=disk)] == [b"administration"]
    assert not log.reserve.hold()
    disk.room = None
    assert log.reserve.hold()
    assert disk.used() > 1_000
