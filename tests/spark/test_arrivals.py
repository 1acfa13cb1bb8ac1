"""Files of one millisecond are one arrival to the watermark, and a file without bytes is an arrival, too."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from fairlead.spark.arrivals import arrivals, is_within_a_tie
from fairlead.spark.config import Config
from fairlead.spark.running import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIED = 11
"""So many batches that Spark's list of files is compacted on the way."""


def config(place: Path, **tables: Any) -> Config:
    given: dict[str, Any] = {
        "name": "test",
        "mode": "stream",
        "output": str(place / "out"),
        "events": {"path": str(place / "events"), "format": "json"},
        "subscriptions": {"path": str(place / "subscriptions.jsonl")},
        "stream": {"available": True, "max_files": 1},
        "report": False,
    }
    (place / "subscriptions.jsonl").write_text('{"id": "s", "filter": "exists id or absent id"}\n')
    return Config.of(given | tables)


def write(place: Path, name: str, content: str, time_ms: int) -> None:
    place.mkdir(exist_ok=True)
    (place / name).write_text(content)
    os.utime(place / name, ns=(time_ms * 1_000_000, time_ms * 1_000_000 + 400_000))


def test_no_row_is_late_because_of_a_file_of_the_same_millisecond(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each file has rows before and behind those of every other one, so in any order some would be late."""
    events = tmp_path / "events"
    for number in range(TIED):
        rows = [{"id": f"{at}", "time": at} for at in (1_000 + number, 2_000 + number)]
        write(events, f"a file {number}.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows), 5_000)
    for name in ("_hidden.jsonl", ".hidden.jsonl"):
        write(events, name, "", 5_000)
    (events / "directory").mkdir()
    os.utime(events / "directory", (5, 5))
    write(events, "later.jsonl", '{"id": "x", "time": 3000}\n{"id": "y", "time": 4000}\n', 6_000)
    pipeline = Pipeline(config(tmp_path), spark)
    summary = pipeline.run()
    assert (summary.batches, summary.late) == (TIED + 1, 0)
    manifests = pipeline.output.manifests()
    assert [each.counts.released for each in manifests[: TIED - 1]] == [0] * (TIED - 1)
    assert [each.counts.released for each in manifests[TIED - 1 :]] == [2 * TIED - 1, 2]
    taken = [arrivals(pipeline.output.checkpoint, number) for number in range(TIED + 1)]
    assert sorted(Path(each.path).name for [[each]] in taken[:-1]) == sorted(
        f"a file {number}.jsonl" for number in range(TIED)
    )
    assert [
        is_within_a_tie(pipeline.config, pipeline.output.checkpoint, each) for each in (TIED - 1, TIED)
    ] == [
        False,
        False,
    ]


def test_an_empty_document_in_a_stream_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "events", "a.xml", "<a id='1' time='1970-01-01T00:00:01Z'/>", 5_000)
    write(tmp_path / "events", "b c.xml", "", 6_000)
    write(tmp_path / "more", "a.jsonl", '{"id": "2"}\n', 6_000)
    xml = {"name": "documents", "path": str(tmp_path / "events"), "format": "xml"}
    lines = {"name": "lines", "path": str(tmp_path / "more"), "format": "json"}
    for name, inputs in (("alone", [xml]), ("both", [xml, lines])):
        output = str(tmp_path / name)
        pipeline = Pipeline(config(tmp_path, events=inputs, output=output), spark)
        summary = pipeline.run()
        assert (summary.read, summary.rejected) == (1 + len(inputs), 1)
        [row] = pq.read_table(pipeline.output.paths("rejected")[0]).to_pylist()
        assert (row["source"], row["raw"]) == ("documents", b"")
        assert row["file"].endswith("/b%20c.xml")
        assert row["reason"] == "an empty document"
