"""What lies far ahead of the clock, idle inputs, and shares of rejected and late rows that end a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fairlead.errors import PipelineError
from fairlead.model.order import BEGINNING
from fairlead.spark import Pipeline
from fairlead.spark.config import Config
from fairlead.spark.output import Output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AHEAD = {"id": "ahead", "time": "2962-01-01T00:00:00Z", "v": [2, 1, 2]}


def pipeline(spark: SparkSession, directory: Path, *files: list[dict[str, Any]], **tables: Any) -> Pipeline:
    events, quiet = directory / "events", directory / "quiet"
    for place in (events, quiet):
        place.mkdir(exist_ok=True)
    for number, rows in enumerate(files):
        file = events / f"{number}.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        os.utime(file, (1_000_000 + number, 1_000_000 + number))  # Spark takes files by their times
    (directory / "subscriptions.jsonl").write_text('{"id": "s", "filter": "exists id"}\n')
    config = {
        "mode": "stream",
        "output": str(directory / "out"),
        "events": [
            {"name": "events", "path": str(events), "format": "json"},
            {"name": "quiet", "path": str(quiet), "format": "json", "idle": "5us"},
        ],
        "subscriptions": {"path": str(directory / "subscriptions.jsonl")},
        "stream": {"available": True, "max_files": 1},
        "report": False,
        **tables,
    }
    return Pipeline(Config.of(config), spark)


def test_one_row_from_the_future_is_rejected_and_moves_no_watermark(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = pipeline(spark, tmp_path, [{"id": "a", "time": 10}, AHEAD], [{"id": "b", "time": 20}])
    summary = made.run()
    assert (summary.read, summary.rejected, summary.late) == (3, 1, 0)
    assert summary.reasons == {"the time lies ahead of the clock by more than 1d": 1}
    [rejected] = made.output.read(spark, "rejected").collect()  # type: ignore[union-attr]
    assert json.loads(rejected.raw) == AHEAD
    assert (rejected.line, rejected.reason.endswith(": 2962-01-01 00:00:00")) == (2, True)
    # The input that shows nothing holds the watermark back by five microseconds, and not for ever.
    assert [each.watermark for each in made.output.manifests()] == [5, 15]


def test_more_late_or_rejected_rows_than_allowed_end_the_run_and_a_wider_limit_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = [{"id": "a", "time": 100}, {"id": "b", "time": 200}], [{"id": "c", "time": 10}, AHEAD]
    with pytest.raises(PipelineError, match=r"1.jsonl:2: rejected: the time lies ahead of the clock by more"):
        pipeline(spark, tmp_path, *files, rejected={"max": "49%"}).run()
    assert [each.batch for each in Output(str(tmp_path / "out")).manifests()] == [0]
    strict = {"late": {"max": "99%"}}
    with pytest.raises(PipelineError, match=r"1 of the 1 rows of this batch are late\n.*lateness = .185us"):
        pipeline(spark, tmp_path, *files, order=strict, rejected={"max": "50%"}).run()
    summary = pipeline(spark, tmp_path, *files, order={"late": {"max": "100%"}}).run()
    assert (summary.late, summary.late_by_us, summary.finished) == (1, 185, True)
    assert BEGINNING < Output(str(tmp_path / "out")).manifests()[-1].watermark < 200
