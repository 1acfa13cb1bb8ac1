"""The benchmark that is kept over time: rows are added, never changed, and compared with their like."""

from __future__ import annotations

from pathlib import Path

from fairlead_lab.bench.history import FIGURES, Row, append, measure, read, shown
from fairlead_lab.bench.runner import Rounds

MACHINE = {"cpu": "A", "cores": 2, "python": "CPython 3.11.7", "date": "2026-01-01T00:00:00+00:00"}
HISTORY = Path(__file__).parents[2] / "lab" / "bench-history.json"


def test_every_figure_can_be_measured() -> None:
    row = measure(Rounds(count=1, slice_s=0.001))
    assert list(row.figures) == list(FIGURES)
    assert all(figure > 0 for figure in row.figures.values())


def test_a_row_is_added_behind_those_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    first, second = Row("a", MACHINE, {"parse": 100.0}), Row("b", MACHINE, {"parse": 150.0})
    assert append(path, first) == []
    assert append(path, second) == [first]
    assert read(path) == [first, second]


def test_a_figure_is_compared_with_the_latest_of_a_machine_like_this() -> None:
    old, other = Row("a", MACHINE, {"parse": 100.0}), Row("b", {**MACHINE, "cores": 64}, {"parse": 900.0})
    text = shown(Row("c", MACHINE, {"parse": 150.0, "match": 7.0}), [old, other])
    assert text.splitlines()[0] == "c, against a, 2026-01-01T00:00:00+00:00"
    assert text.splitlines()[1].split() == ["parse", "150", "/s", "+50.0%"]
    assert text.splitlines()[2].split() == ["match", "7", "/s"]
    assert "the first" in shown(old, [other])


def test_the_rows_that_are_kept_can_be_read() -> None:
    assert read(HISTORY)
