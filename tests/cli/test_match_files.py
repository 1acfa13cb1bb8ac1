"""The same producer and id again is a duplicate, at the prompt as on the bus."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.cli import main


def test_a_duplicate_is_dropped_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s").write_text("price > 10\n")
    (tmp_path / "e").write_text(
        '{"id": 1, "price": 11}\n{"price": 11.0, "id": 1}\n{"id": 1, "producer": "b", "price": 13}\n'
        '{"price": 14}\n{"price": 14}\n'
    )
    assert main(["match", "--subscriptions", str(tmp_path / "s"), "--events", str(tmp_path / "e")]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        '{"event":1,"subscription":1}',
        '{"event":1,"subscription":1}',
        '{"event":4,"subscription":1}',
        '{"event":5,"subscription":1}',
    ]
    assert "1 duplicates dropped" in err


@pytest.mark.parametrize("prices", [(12, 11, 13), (13, 12, 11), (11, 13, 12)])
def test_of_conflicting_copies_the_smallest_is_matched_wherever_it_stands(
    prices: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s").write_text("price = 11\nprice = 12\nprice = 13\n")
    lines = [f'{{"id": "q", "producer": "p", "price": {price}}}\n' for price in prices]
    (tmp_path / "e").write_text("".join(lines))
    assert main(["match", "--subscriptions", str(tmp_path / "s"), "--events", str(tmp_path / "e")]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ['{"event":"q","subscription":1}']
    assert "2 copies with other content dropped" in err
    assert "duplicates" not in err


@pytest.mark.parametrize("name", ["s", "e", "-"])
def test_rejected_lines_never_overwrite_what_is_read(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s").write_text("price > 10\n")
    (tmp_path / "e").write_text('{"price": 11}\nbad\n')
    rejected = name if name == "-" else str(tmp_path / name)
    argv = ["match", "--subscriptions", str(tmp_path / "s"), "--events", str(tmp_path / "e")]
    assert main([*argv, "--rejected", rejected]) == 2
    assert "--rejected" in capsys.readouterr().err
    assert (tmp_path / "e").read_text() == '{"price": 11}\nbad\n'


def test_times_in_another_unit_are_told_and_can_be_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s").write_text('time > t"2026-01-01T00:00:00Z"\n')
    (tmp_path / "e").write_text('{"id": 1, "time": 1772442001000}\n')
    match = ["match", "--subscriptions", str(tmp_path / "s"), "--events", str(tmp_path / "e")]
    assert main(match) == 0
    out, err = capsys.readouterr()
    assert not out
    assert "the times look like ms, and were read as microseconds, in 1970: --time ms" in err
    assert main([*match, "--time", "ms"]) == 0
    assert capsys.readouterr().out == '{"event":1,"subscription":1}\n'
    assert main([*match, "--time", "millis"]) == 2
    assert "not a form of times" in capsys.readouterr().err
