"""What the demo shows of its sample; that it runs on Spark is shown by the tests of the pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.bus import Bus
from fairlead.cli import main
from fairlead.cli.demo import _distinct, _rows, _show_busiest, _show_composites
from fairlead.model import Instant
from fairlead.spark.sample import write_sample
from fairlead.spark.showcase import Busiest, Example

MINUTE = 60_000_000


def test_a_pattern_is_shown_with_what_it_found_and_where_time_was_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = write_sample(tmp_path, events=0, subscriptions=3)
    silent = next(row for row in _rows(sample, "patterns") if row["id"] == "p-silent")
    with Bus(order="ordered") as bus:
        found = bus.detect(silent["pattern"])
        gust = {"type": "Reading", "sensor": "wind-07", "value": 17.5, "unit": "m/s"}
        bus.publish({**gust, "id": "r1", "producer": "grid", "time": Instant(9 * MINUTE)})
    composite = found.get()
    examples = [
        Example("ada", composite, ("s-00001",), "{}"),
        Example("desk.grid", composite, ("p-silent", "s-00002"), "{}"),
    ]
    deliveries, composites = _distinct(examples, sample)
    assert (deliveries, composites) == (examples[:1], examples[1:])

    _show_composites(composites, sample)
    shown = capsys.readouterr().out
    assert "desk.grid subscribed to the pattern p-silent:" in shown
    assert "received a silent, whose events span 1:00:00:" in shown
    assert "00:09:00  gust     Reading: sensor wind-07, value 17.5, unit m/s" in shown
    assert "01:09:00  time is over" in shown


def test_who_got_most_is_told_and_how_many_got_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = write_sample(tmp_path, events=0, subscriptions=3)
    persons = {row["subscriber"] for of in ("subscriptions", "patterns") for row in _rows(sample, of)}
    _show_busiest(Busiest((("ada", 1_204), ("bob", 7)), len(persons) - 1), sample)
    said = f"  most went to ada 1,204, bob 7; 1 of {len(persons)} persons and desks got nothing\n"
    assert capsys.readouterr().out == said


def test_a_directory_of_somebody_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("all of it")
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "is not that of a demo" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]
