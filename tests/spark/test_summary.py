"""Summary, report and terminal agree to the digit, also where a run continues an earlier one."""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fairlead.cli.run import show_summary
from fairlead.spark import running
from fairlead.spark.config import Config
from fairlead.spark.report import ReportData, render
from fairlead.spark.running import Pipeline
from fairlead.spark.summary import Batch, Summary, Totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTED = ("read", "rejected", "duplicates", "conflicts", "late", "deliveries", "composites")


def write(place: Path, name: str, lines: list[str], second: int) -> None:
    (place / "events").mkdir(exist_ok=True)
    (place / "events" / name).write_text("".join(f"{line}\n" for line in lines))
    os.utime(place / "events" / name, (second, second))


def event(id: str, time: int, **more: Any) -> str:
    return json.dumps({"id": id, "producer": "p", "time": time, "type": "A", **more})


def pipeline(spark: SparkSession, place: Path, **tables: Any) -> Pipeline:
    given: dict[str, Any] = {
        "name": "twice",
        "mode": "stream",
        "output": str(place / "out"),
        "events": {"path": str(place / "events"), "format": "json"},
        "subscriptions": {"path": str(place / "subscriptions.jsonl")},
        "stream": {"available": True, "max_files": 1},
        **tables,
    }
    return Pipeline(Config.of(given), spark)


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[ReportData]:
    """What the reports of the runs were made of."""
    made: list[ReportData] = []

    def rendered(report: ReportData) -> str:
        made.append(report)
        return render(report)

    monkeypatch.setattr(running, "render", rendered)
    return made


def test_summary_and_report_of_a_run_that_is_continued_have_the_same_figures(
    spark: SparkSession, tmp_path: Path, reports: list[ReportData], capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "0.jsonl", [event("1", 1_000), event("2", 2_000), event("2", 2_000), "broken"], 1)
    write(
        tmp_path,
        "1.jsonl",
        [event("3", 3_000), event("2", 2_000, x=1), event("late", 500), "[]", *(["worse"] * 3)],
        2,
    )
    write(tmp_path, "2.jsonl", [event("4", 4_000), event("5", 5_000)], 3)
    (tmp_path / "subscriptions.jsonl").write_text('{"id": "s", "filter": "exists id"}\n')
    (tmp_path / "patterns.jsonl").write_text(
        '{"id": "p", "pattern": "A as a followed by A as b within 1 h"}\n'
    )
    tables = {"order": {"final": True}, "patterns": {"path": str(tmp_path / "patterns.jsonl")}}
    first = pipeline(spark, tmp_path, **tables)

    def stop(batch: Batch) -> None:
        if batch.number == 0:
            first.stop()

    before = first.run(on_batch=stop)
    second = pipeline(spark, tmp_path, **tables)
    after = second.run()
    assert (before.resumed, before.finished, after.resumed, after.finished) == (False, False, True, True)
    assert len(reports) == 2
    for summary, report in zip((before, after), reports, strict=True):
        assert {name: getattr(summary.in_all, name) for name in COUNTED} == {
            name: report.total(name) for name in COUNTED
        }
        assert summary.in_all.batches == len(report.batches)
        assert summary.in_all.batch_seconds == report.facts.seconds
        assert summary.in_all.rejected == sum(summary.in_all.reasons.values())
        assert summary.in_all.rejected == sum(each.count for each in report.reasons)
        assert summary.subscriptions == report.subscribed
    assert [each.facts.figures for each in reports] == [
        "this run, the first on this output",
        "all runs on this output",
    ]
    for name in COUNTED:
        assert getattr(before, name) + getattr(after, name) == getattr(after.in_all, name)
    assert all(getattr(before, each.name) == getattr(before.in_all, each.name) for each in fields(Totals))
    assert after.in_all.late == 1
    assert after.in_all.conflicts == 1

    show_summary(after, second.config)
    shown, page = capsys.readouterr().out, (tmp_path / "out" / "report.html").read_text()
    line = next(each for each in shown.splitlines() if "all runs" in each)
    rows, batches, _, deliveries, rejected, late = re.findall(r"[\d.,]*\d", line)
    assert f"<b>{rows} rows</b> became <b>{deliveries} deliveries</b>" in page
    assert int(batches) == len(reports[1].batches)
    assert (int(rejected), int(late)) == (after.in_all.rejected, 1)
    assert "all runs on this output" in page

    again = pipeline(spark, tmp_path, **tables).run()
    show_summary(again, second.config)
    shown = capsys.readouterr().out
    assert f"{after.in_all.deliveries:,} for 1 subscription" in shown
    assert again.in_all == after.in_all


@pytest.mark.parametrize(
    ("time", "unit"), [(1_772_442_001_000, "ms"), (1_772_442_001, "s"), (1_772_442_001_000_000, None)]
)
def test_a_run_says_in_which_unit_times_probably_are(
    spark: SparkSession, tmp_path: Path, time: int, unit: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "0.jsonl", [event("1", time), event("2", time + 1)], 1)
    (tmp_path / "subscriptions.jsonl").write_text('{"id": "s", "filter": "exists id"}\n')
    run = pipeline(spark, tmp_path, report=False)
    summary: Summary = run.run()
    assert summary.suspected_unit == unit
    show_summary(summary, run.config)
    assert (f'fields = {{ times = "{unit}" }}' in capsys.readouterr().out) == (unit is not None)
    if unit is not None:
        told = {"path": str(tmp_path / "events"), "format": "json", "fields": {"times": unit}}
        mended = pipeline(spark, tmp_path, report=False, events=told, output=str(tmp_path / "mended")).run()
        assert mended.suspected_unit is None
