"""A backup holds what was synced when it began; a damaged log is examined, refused and salvaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.errors import BadInput, DamagedLog
from fairlead.log import Log, Reader, copies
from fairlead.log.copies import back_up, examine, restore, salvage


def written(directory: Path, count: int = 60) -> Log:
    log = Log(directory, segment_bytes=400)
    for number in range(count):
        log.append(1, b"%d" % number + bytes(30), number)
        log.sync()
    log.cursors["c"] = 7
    log.sync()
    return log


def payloads(directory: Path) -> list[bytes]:
    return [record.payload for record in Reader(directory)]


def test_a_backup_of_a_log_with_a_writer_is_a_log_with_all_that_was_synced(tmp_path: Path) -> None:
    with written(tmp_path / "log") as log:
        held = back_up(tmp_path / "log", tmp_path / "copy")
        assert held.stop == log.synced
        log.append(1, b"later", 0)
        log.sync()
        before = payloads(tmp_path / "log")[:-1]
    assert payloads(tmp_path / "copy") == before
    with Log(tmp_path / "copy") as copy:
        assert copy.cursors["c"] == 7
        assert copy.append(1, b"other", 0) == held.stop


def test_a_backup_during_writing_holds_every_record_that_was_synced_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = written(tmp_path / "log")
    synced = log.synced
    copy_segment = copies._copy_segment

    def meanwhile(path: Path, target: Path) -> None:
        for _ in range(9):
            log.append(1, bytes(50), 99)
            log.sync()
        copy_segment(path, target)
        log.append(1, bytes(50), 99)
        log.sync()

    monkeypatch.setattr(copies, "_copy_segment", meanwhile)
    held = back_up(tmp_path / "log", tmp_path / "copy")
    assert held.stop >= synced
    assert (
        payloads(tmp_path / "copy")[:synced]
        == payloads(tmp_path / "log")[: len(payloads(tmp_path / "copy"))][:synced]
    )
    assert not [each for each in examine(tmp_path / "copy") if each.damage]
    log.close()


def test_a_backup_begins_again_where_retention_removes_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = written(tmp_path / "log")
    copy_segment = copies._copy_segment
    done: list[Path] = []

    def meanwhile(path: Path, target: Path) -> None:
        copy_segment(path, target)
        if len(done) == 1:
            log.retain(max_bytes=800)
        done.append(path)

    monkeypatch.setattr(copies, "_copy_segment", meanwhile)
    held = back_up(tmp_path / "log", tmp_path / "copy")
    assert held.start == log.first > 0
    assert payloads(tmp_path / "copy") == payloads(tmp_path / "log")
    log.close()


def test_a_restored_log_goes_on_where_the_backup_ended(tmp_path: Path) -> None:
    written(tmp_path / "log").close()
    back_up(tmp_path / "log", tmp_path / "copy")
    held = restore(tmp_path / "copy", tmp_path / "again")
    assert payloads(tmp_path / "again") == payloads(tmp_path / "log")
    with Log(tmp_path / "again") as log:
        assert log.end == held.stop


def test_nothing_is_copied_over_what_is_there(tmp_path: Path) -> None:
    written(tmp_path / "log").close()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for target in (tmp_path / "full", tmp_path / "full" / "file"):
        with pytest.raises(BadInput, match="it is there already"):
            back_up(tmp_path / "log", target)
    with pytest.raises(BadInput, match="there is no log"):
        back_up(tmp_path / "full", tmp_path / "other")


def test_a_damaged_log_is_told_refused_and_salvaged(tmp_path: Path) -> None:
    written(tmp_path / "log").close()
    assert not [each for each in examine(tmp_path / "log") if each.damage]
    names = sorted(path.name for path in (tmp_path / "log").glob("*.log"))
    damaged, gone = tmp_path / "log" / names[1], tmp_path / "log" / names[3]
    raw = bytearray(damaged.read_bytes())
    raw[-20] ^= 1
    damaged.write_bytes(raw)
    gone.unlink()
    told = {Path(each.path).name: each for each in examine(tmp_path / "log")}
    assert "is missing or damaged" in told[names[1]].damage
    with pytest.raises(DamagedLog):
        restore(tmp_path / "log", tmp_path / "refused")
    before = 60
    saved, lost = salvage(tmp_path / "log", tmp_path / "saved")
    assert saved == len(payloads(tmp_path / "saved")) < before
    in_gone = int(names[4].removesuffix(".log")) - int(names[3].removesuffix(".log"))
    assert lost == in_gone + 1
    numbers = [int(payload.rstrip(b"\0")) for payload in payloads(tmp_path / "saved")]
    assert numbers == sorted(numbers)
    assert before - saved <= lost


def test_a_log_whose_newest_segment_is_missing_is_not_restored(tmp_path: Path) -> None:
    written(tmp_path / "log").close()
    max((tmp_path / "log").glob("*.log")).unlink()
    with pytest.raises(DamagedLog, match="this segment is missing"):
        restore(tmp_path / "log", tmp_path / "again")
