"""In a stream an identity is delivered once, whatever its time, for as long as it is remembered."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.spark import Pipeline
from fairlead.spark.config import Config
from fairlead.spark.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES: list[list[dict[str, Any]]] = [
    [{"id": "a", "time": 10, "v": 1}, {"id": "b", "time": 20}, {"id": "b", "time": 20, "v": 0}],
    [{"id": "c", "time": 30}, {"id": "a", "time": 25, "v": 2}, {"v": 0, "id": "c", "time": 30}],
    [{"id": "d", "time": 200}, {"id": "late", "time": 5}],
    [{"id": "late", "time": 300}, {"id": "a", "time": 300}, {"id": "c", "time": 301}],
]


def run(spark: SparkSession, directory: Path, remember: str) -> tuple[Pipeline, Summary]:
    events = directory / "events"
    if not events.exists():
        events.mkdir()
        for number, rows in enumerate(FILES):
            file = events / f"{number}.jsonl"
            file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
            os.utime(file, (1_000_000 + number, 1_000_000 + number))  # Spark takes files by their times
        (directory / "subscriptions.jsonl").write_text('{"id": "s", "filter": "exists id"}\n')
    config = {
        "mode": "stream",
        "output": str(directory / f"out-{remember}"),
        "events": {"path": str(events), "format": "json"},
        "subscriptions": {"path": str(directory / "subscriptions.jsonl")},
        "order": {"final": True, "remember": remember},
        "audit": {"specifications": ["simple"]},
        "stream": {"available": True, "max_files": 1},
        "report": False,
    }
    pipeline = Pipeline(Config.of(config), spark)
    return pipeline, pipeline.run()


def delivered(pipeline: Pipeline) -> list[tuple[str, int]]:
    found = pipeline.output.read(pipeline.spark)
    assert found is not None
    return [(row.id, row.time) for row in found.orderBy("time", "id").collect()]


def test_an_identity_is_delivered_once_whatever_its_time_and_conflicts_are_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline, summary = run(spark, tmp_path, "1h")
    assert delivered(pipeline) == [("a", 10), ("b", 20), ("c", 30), ("d", 200)]
    # b and c have another content at the same time; a came after its release, which leaves no content to compare.
    assert (summary.late, summary.conflicts, summary.duplicates) == (1, 2, 4)
    assert summary.verdicts == {"simple": "holds"}
    # Tables of like size are one, and the manifest names those that are there.
    manifests = pipeline.output.manifests()
    rows = [[segment.rows for segment in each.remembered] for each in manifests]
    assert rows == [[1], [2], [4], [4, 1], []]
    left = {path.name for path in (tmp_path / "out-1h" / "_fairlead" / "remembered").iterdir()}
    assert left == {"00000002", "00000003"}


def test_what_is_forgotten_is_delivered_again_and_the_audit_judges_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline, summary = run(spark, tmp_path, "0s")
    assert delivered(pipeline) == [
        ("a", 10), ("b", 20), ("a", 25), ("c", 30), ("d", 200), ("a", 300), ("late", 300), ("c", 301),
    ]  # fmt: skip
    assert summary.verdicts == {"simple": "violated"}
    assert not any(each.remembered for each in pipeline.output.manifests())
