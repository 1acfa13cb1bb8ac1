"""A run that is looked at while it goes on and afterwards: from its output, without Spark, and in a browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from fairlead.audit import audit
from fairlead.audit.parquet import read, write
from fairlead.audit.trace import Notified
from fairlead.console.views.pipeline import pipeline_part
from fairlead.console.views.standalone import served
from fairlead.errors import PipelineError
from fairlead.network.addresses import Address
from fairlead.spark.config import Config, Stream
from fairlead.spark.report import Judged, render
from fairlead.spark.running import REPORT, Pipeline
from fairlead.spark.summary import Batch
from fairlead.spark.watching import Standing, Watch, proved
from fairlead_lab.testing.browser import NARROW, chromium, looks_as_documented, opened, usable
from fairlead_lab.testing.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def watched(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Standing]]:
    """A stream of the example, one file in each batch, with late rows; and each look at it while it ran."""
    place = tmp_path_factory.mktemp("watched") / "morning"
    shutil.copytree(ROOT / "examples" / "pipeline", place, ignore=shutil.ignore_patterns("out"))
    early = (place / "events" / "morning-1.jsonl").read_text().splitlines(keepends=True)
    again = "".join(line.replace('"id": "', '"id": "late-', 1) for line in early[:30])
    (place / "events" / "morning-3.jsonl").write_text(again)
    config = Config.read(place / "pipeline.toml")
    stream = replace(config, mode="stream", stream=Stream(trigger_us=None, max_files=1))
    watch = Watch(stream.output)
    with pytest.raises(PipelineError, match="nothing has run"):
        watch.look()
    seen: list[Standing] = []

    def look(_: Batch) -> None:
        seen.append(watch.look())

    Pipeline(stream, spark).run(look)
    return Path(stream.output), seen


def test_each_look_has_what_is_committed(watched: tuple[Path, list[Standing]]) -> None:
    output, seen = watched
    assert len(seen) >= 3
    last = Watch(str(output)).look()
    assert last.is_over
    for standing in seen:
        report = standing.report
        assert not standing.is_over
        assert list(report.batches) == list(last.report.batches[: len(report.batches)])
        assert sum(reason.count for reason in report.reasons) == report.total("rejected")
        assert all(reason.example for reason in report.reasons)
    whole = seen[-1].report
    assert whole.total("late") > 0
    # What Spark counts at the end is what was counted batch by batch.
    assert tuple(map(tuple, last.report.lateness)) == tuple(whole.lateness)
    assert sum(each.count for each in last.report.reasons) == whole.total("rejected")
    assert last.report.watermark == whole.watermark
    assert whole.watermark is not None
    assert whole.watermark.lateness_us == 60_000_000
    versions = [standing.version for standing in seen]
    assert versions == sorted(versions)


def test_afterwards_it_is_the_report(watched: tuple[Path, list[Standing]]) -> None:
    output, _ = watched
    assert render(Watch(str(output)).look().report) == (output / REPORT).read_text(encoding="utf-8")


def test_a_violation_has_the_rows_that_prove_it(watched: tuple[Path, list[Standing]], tmp_path: Path) -> None:
    """Of a trace in which somebody is notified twice, both rows are shown, with what they say."""
    output, _ = watched
    events: list[Any] = [each for _, each in read(str(output / "trace"))]
    told = next(at for at, each in enumerate(events) if isinstance(each, Notified))
    path = str(tmp_path / "trace.parquet")
    write([*events[: told + 1], events[told], *events[told + 1 :]], path)
    [finding] = [each for each in audit((each for _, each in read(path)), "simple") if each.violations]
    places = [each.indexes for each in finding.violations]
    [judged] = proved([path], [(Judged.of(finding), places)])
    assert judged.rule == "once"
    assert [proof.index for proof in judged.proofs[0]] == [told, told + 1]
    assert {proof.event for proof in judged.proofs[0]} == {"was notified"}
    report = replace(Watch(str(output)).look().report, findings=(judged,))
    assert "Row of the trace" in render(report)


def test_the_page_in_a_browser(
    watched: tuple[Path, list[Standing]], request: pytest.FixtureRequest, golden: Callable[[str, str], None]
) -> None:
    output, _ = watched
    with (
        served([pipeline_part(str(output), lambda: "batch 3, match")], Address("127.0.0.1", 0)) as url,
        chromium() as browser,
        opened(browser, url.partition("/console")[0]) as open,
    ):
        key = url.partition("/console")[2]
        narrow = open(f"/console{key}", NARROW, "dark")
        narrow.wait_for_selector("#run h2")
        usable(narrow)
        page = open(f"/console{key}")
        page.wait_for_selector("#now:has-text('batch 3, match')")
        usable(page)
        page.wait_for_selector("#run[hx-get$=over]")
        was = page.locator("#run details[open]").count()
        page.focus("#run summary")
        page.keyboard.press("Enter")
        expect(page.locator("#run details[open]")).not_to_have_count(was)
        page.evaluate(
            "for (const each of document.querySelectorAll('.path dd')) "
            "each.textContent = each.textContent.replace(/.*\\/morning/, 'morning')"
        )
        page.evaluate("scrollTo(0, 0)")
        looks_as_documented(page, "pipeline", golden=request.config.getoption("--golden"))
