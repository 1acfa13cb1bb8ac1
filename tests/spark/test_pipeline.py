"""A pipeline as a whole: sinks, refusals, changes of subscriptions, and the same over Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from fairlead.cli import main
from fairlead.delivery import DeliveryRecord
from fairlead.errors import PipelineError
from fairlead.filters.schema import Schema
from fairlead.model import Notification
from fairlead.model.encoding import fields_from_json
from fairlead.model.order import OrderKey
from fairlead.spark import frames
from fairlead.spark.config import Config
from fairlead.spark.delivery import deliver, replace_partition
from fairlead.spark.frames import DELIVERY, ENVELOPE_TYPES
from fairlead.spark.matching import match
from fairlead.spark.output import LINE as KEYED
from fairlead.spark.output import Attempt, Manifest, Output
from fairlead.spark.pipeline import Step, ingested
from fairlead.spark.running import Pipeline
from fairlead.spark.subscriptions import Subscriptions
from fairlead.spark.summary import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORPUS = Path(__file__).parents[1] / "corpus" / "cases.json"

EVENTS = [
    {"id": "a", "producer": "p", "time": 30, "x": 1},
    {"id": "b", "producer": "p", "time": 10, "x": 2},
    {"id": "c", "producer": "q", "time": 20, "x": 2},
    {"id": "b", "producer": "p", "time": 10, "x": 2},
]
SUBSCRIPTIONS = [
    {"id": "s1", "subscriber": "ada", "filter": "x >= 1"},
    {"id": "s2", "subscriber": "ada", "filter": "x = 2"},
    {"id": "s3", "subscriber": "bob", "filter": "x = 1"},
    {"id": "s4", "filter": "x > 100"},
]
LINES = [
    ("ada", OrderKey(10, "p", None, "b"), ("s1", "s2")),
    ("ada", OrderKey(20, "q", None, "c"), ("s1", "s2")),
    ("ada", OrderKey(30, "p", None, "a"), ("s1",)),
    ("bob", OrderKey(30, "p", None, "a"), ("s3",)),
]


def write_lines(path: Path, rows: list[dict[str, Any]], *more: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in (*map(json.dumps, rows), *more)))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_lines(tmp_path / "events" / "0.jsonl", EVENTS, "broken")
    write_lines(tmp_path / "subscriptions.jsonl", SUBSCRIPTIONS)
    return tmp_path


def config(place: Path, **tables: Any) -> Config:
    given: dict[str, Any] = {
        "name": "test",
        "output": str(place / "out"),
        "events": {"path": str(place / "events"), "format": "json"},
        "subscriptions": {"path": str(place / "subscriptions.jsonl")},
    }
    return Config.of(given | tables)


def delivered(rows: DataFrame) -> list[tuple[str, OrderKey, tuple[str, ...]]]:
    found = [
        DeliveryRecord(subscriber, OrderKey(*key), tuple(subscriptions))
        for subscriber, *key, subscriptions in rows.select(*DELIVERY).collect()
    ]
    return [(each.subscriber, each.key, each.subscriptions) for each in sorted(found, key=lambda d: d.rank)]


def in_order(lines: list[Any]) -> list[Any]:
    return sorted(lines, key=lambda line: (line[1].rank, line[0]))


# -- sinks -------------------------------------------------------------------------------------------------

CALLS: list[tuple[int, list[Any]]] = []


def called(deliveries: DataFrame, batch: int) -> None:
    """What the callback of the test below does with each batch."""
    CALLS.append((batch, delivered(deliveries)))


def test_every_sink_gets_each_delivery_once_and_in_order(
    spark: SparkSession, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deliveries_of_a_test", sys.modules[__name__])
    sinks: dict[str, dict[str, Any]] = {
        "json": {"format": "json", "buckets": 1, "payload": False},
        "table": {"format": "table", "table": "delivered_by_a_test"},
        "callback": {"format": "callback", "callback": "deliveries_of_a_test:called"},
    }
    for name, sink in sinks.items():
        summary = Pipeline(config(place, deliveries=sink, output=str(place / name)), spark).run()
        assert (summary.read, summary.rejected, summary.duplicates, summary.deliveries) == (5, 1, 1, 4)
    [file] = (place / "json" / "deliveries").rglob("*.jsonl")
    by_subscriber = sorted(LINES, key=lambda line: (line[0], line[1].rank))
    assert file.read_bytes() == b"".join(DeliveryRecord(*line).line() for line in by_subscriber)
    assert delivered(spark.table("delivered_by_a_test")) == in_order(LINES)
    [call] = CALLS
    assert call == (0, in_order(LINES))
    report = (place / "table" / "report.html").read_text()
    assert "ada" in report
    unseen = (place / "callback" / "report.html").read_text()
    assert "does not know the deliveries" in unseen
    assert "Nobody was sent anything" not in unseen


def test_a_table_keeps_the_batches_before_and_a_late_row_is_seen_on_its_own_channel(
    spark: SparkSession, place: Path
) -> None:
    for number, rows in enumerate(
        (
            EVENTS,
            [
                {"id": "d", "producer": "q", "time": 40, "x": 1},
                {"id": "e", "producer": "q", "time": 5, "x": 1},
            ],
        )
    ):
        write_lines(place / "events" / f"{number}.jsonl", rows)
        os.utime(place / "events" / f"{number}.jsonl", (1_000 + number, 1_000 + number))
    made = config(
        place,
        mode="stream",
        deliveries={"format": "table", "table": "streamed_by_a_test"},
        order={"final": True},
        stream={"available": True, "max_files": 1},
    )
    pipeline = Pipeline(made, spark)
    summary = pipeline.run()
    assert (summary.batches, summary.late, summary.deliveries) == (3, 1, 6)
    fourth = OrderKey(40, "q", None, "d")
    more = [*LINES, ("ada", fourth, ("s1",)), ("bob", fourth, ("s3",))]
    assert delivered(spark.table("streamed_by_a_test")) == in_order(more)
    late = pipeline.output.read(spark, "late")
    assert late is not None
    assert [(row.id, row.event_time, row.watermark) for row in late.collect()] == [("e", 5, 30)]

    # A batch that is repeated replaces itself, also with nothing; a table with rows is nobody else's.
    before = spark.table("streamed_by_a_test").count()
    again = spark.table("streamed_by_a_test").where("batch = 0").drop("batch")
    gone = again.count()
    replace_partition(spark.createDataFrame([], again.schema), 0, "streamed_by_a_test")
    assert 0 < spark.table("streamed_by_a_test").count() == before - gone
    with pytest.raises(PipelineError, match="has rows already"):
        Pipeline(replace(made, output=str(place / "other")), spark).run()


def test_the_content_comes_along_unless_it_is_not_wanted(spark: SparkSession, place: Path) -> None:
    pipeline = Pipeline(config(place, report=False), spark)
    assert pipeline.run().report is None
    assert not (place / "out" / "report.html").exists()
    rows = pipeline.output.read(spark)
    assert rows is not None
    assert {json.loads(row.record)["id"] for row in rows.select("record").collect()} == {"a", "b", "c"}
    rejected = pipeline.output.read(spark, "rejected")
    assert rejected is not None
    [row] = rejected.collect()
    assert (row.line, bytes(row.raw)) == (5, b"broken")
    assert row.reason.startswith("not JSON")
    # What has run has nothing to do any more, and needs no Spark to say so.
    again = Pipeline(config(place, report=False)).run()
    assert (again.batches, again.finished, again.resumed, again.ended) == (0, True, True, True)
    assert (again.rejected, again.rejected_before) == (0, 1)


# -- refusals ----------------------------------------------------------------------------------------------


def toml(place: Path, **changes: str) -> Path:
    values = {
        "events": str(place / "events"),
        "subscriptions": str(place / "subscriptions.jsonl"),
        "output": str(place / "out"),
        "rejected": "keep",
    } | changes
    path = place / "pipeline.toml"
    path.write_text(
        'name = "t"\noutput = "{output}"\nrejected = "{rejected}"\n'
        '[events]\npath = "{events}"\nformat = "json"\n[subscriptions]\npath = "{subscriptions}"\n'.format(
            **values
        )
    )
    return path


def test_what_stands_against_a_run_is_one_message_and_leaves_everything_as_it_was(
    spark: SparkSession, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = place / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("years of work")
    bad = place / "bad.jsonl"
    write_lines(bad, [*SUBSCRIPTIONS, {"id": "s5", "filter": "x >"}])
    cases: dict[str, tuple[Mapping[str, str], str]] = {
        "no such path": ({"events": str(place / "nowhere")}, str(place / "nowhere")),
        "a bad filter": ({"subscriptions": str(bad)}, f"{bad}:5: "),
        "no subscriptions": ({"subscriptions": str(place / "none.jsonl")}, str(place / "none.jsonl")),
        "not our output": ({"output": str(foreign)}, "is not the output of a pipeline"),
        "rows rejected": ({"rejected": "fail"}, f"fairlead: {place}/events/0.jsonl:5: rejected: not JSON"),
    }
    for name, (changes, words) in cases.items():
        assert main(["run", str(toml(place, **changes))]) == 2, name
        said = capsys.readouterr().err
        assert words in said, name
        assert "Traceback" not in said
        assert len(said.strip().splitlines()) <= 5, said
    assert "hint: 1 row of the 5 of this batch cannot be read" in said
    assert os.listdir(foreign) == ["thesis.txt"]

    assert main(["run", str(toml(place)), "--dry-run"]) == 0
    assert "4 subscriptions" in capsys.readouterr().out
    assert main(["run", str(toml(place)), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["deliveries"] == 4
    before = sorted(str(path) for path in (place / "out").rglob("*"))
    write_lines(place / "other.jsonl", SUBSCRIPTIONS[:1])
    assert main(["run", str(toml(place, subscriptions=str(place / "other.jsonl")))]) == 2
    assert "another configuration" in capsys.readouterr().err
    assert sorted(str(path) for path in (place / "out").rglob("*")) == before


def test_what_is_asked_for_and_where_it_goes_is_checked_before_any_row_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "events").mkdir()
    write_lines(tmp_path / "subscriptions.jsonl", [{"id": "s1", "filter": "x >"}])
    stream = {"mode": "stream", "stream": {"available": True}}
    nowhere = {"deliveries": {"format": "callback", "callback": "nowhere:nothing"}}
    for tables, words in (
        (stream, "subscriptions.jsonl:1: "),
        ({}, "subscriptions.jsonl:1: "),
        (stream | nowhere, "no function can be loaded as 'nowhere:nothing'"),
        (nowhere, "no function can be loaded as 'nowhere:nothing'"),
        ({"deliveries": {"format": "nosuch"}}, "Spark has no connector for 'nosuch'"),
    ):
        with pytest.raises(PipelineError, match=words):
            Pipeline(config(tmp_path, **tables), spark).run()
        with pytest.raises(PipelineError, match=words):
            Pipeline(config(tmp_path, **tables), spark).plan()


def test_a_stream_watches_a_directory_and_a_plan_says_where_another_sink_writes(
    spark: SparkSession, place: Path
) -> None:
    one = {"events": {"path": str(place / "events" / "0.jsonl")}, "mode": "stream"}
    for look in (Pipeline.run, Pipeline.plan):
        with pytest.raises(PipelineError, match="is a file, and a stream watches a directory"):
            look(Pipeline(config(place, **one), spark))
    sink = {"format": "orc", "options": {"path": "/somewhere/else"}}
    assert (
        "deliver     orc to /somewhere/else, 16 buckets, with the content"
        in Pipeline(config(place, deliveries=sink), spark).plan()
    )


# -- subscriptions that change -----------------------------------------------------------------------------


def test_a_change_takes_effect_at_its_place_in_the_order(spark: SparkSession, tmp_path: Path) -> None:
    def events(number: int, *times: int) -> None:
        rows = [{"id": f"e{time}", "producer": "p", "time": time, "x": time % 10} for time in times]
        write_lines(tmp_path / "events" / f"{number}.jsonl", rows)
        os.utime(tmp_path / "events" / f"{number}.jsonl", (1_000 + number, 1_000 + number))

    def changes(number: int, *rows: dict[str, Any]) -> None:
        write_lines(tmp_path / "subscriptions" / f"{number}.jsonl", list(rows))

    events(0, 101, 102, 103)
    events(1, 111, 112, 113)
    events(2, 121, 122, 123)
    changes(0, {"id": "s", "subscriber": "ada", "filter": "x = 1"}, {"id": "t", "filter": "x = 2"})
    made = config(
        tmp_path,
        mode="stream",
        subscriptions={"path": str(tmp_path / "subscriptions"), "format": "json", "watch": True},
        order={"lateness": "5us", "final": True},
        audit={"specifications": ["simple"]},
        stream={"available": True, "max_files": 1},
    )
    pipeline = Pipeline(made, spark)

    def change(batch: Batch) -> None:
        if batch.number == 0:
            pipeline.stop()

    pipeline.run(on_batch=change)
    # From 112 on `s` asks for something else; `t` ends; one asks for the past, and gets what is not yet past.
    changes(
        1,
        {"id": "s", "subscriber": "ada", "filter": "x = 3", "from": 112},
        {"id": "t", "until": 120},
        {"id": "u", "subscriber": "bob", "filter": "x >= 1", "from": 0, "until": 113},
        {"id": "v", "filter": "x >>"},
    )
    resumed = Pipeline(made, spark)
    summary = resumed.run()
    rows = resumed.output.read(spark)
    assert rows is not None
    found = {(key.id, subscriber, ids) for subscriber, key, ids in delivered(rows)}
    watermark = 98
    assert found == {
        ("e101", "ada", ("s",)),
        ("e111", "ada", ("s",)),
        ("e113", "ada", ("s",)),
        ("e123", "ada", ("s",)),
        ("e102", "t", ("t",)),
        ("e112", "t", ("t",)),
        *((f"e{time}", "bob", ("u",)) for time in (101, 102, 103, 111, 112) if time >= watermark),
    }
    assert summary.rejected == 1
    assert summary.verdicts == {"simple": "holds"}
    held = 0
    for counts in (manifest.counts for manifest in Output(str(tmp_path / "out")).manifests()):
        became = counts.rejected + counts.duplicates + counts.late + counts.released + counts.held
        assert held + counts.read == became
        held = counts.held
    assert held == summary.held


class Killed(Exception):
    """In place of a kill: nothing that the code under test could expect."""


def test_a_batch_that_is_repeated_takes_the_changes_that_it_took_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(number: int, step: Step) -> Manifest:
        rows = [{"id": f"e{number}", "producer": "p", "time": 100 + number, "x": 1}]
        write_lines(tmp_path / f"events{number}" / "0.jsonl", rows)
        events = replace(made.events[0], path=str(tmp_path / f"events{number}"))
        return step.take(ingested(spark, replace(made, events=(events,))), number)

    def compiled(batch: int) -> Subscriptions:
        return Subscriptions.from_json(output.manifest(batch).subscriptions, output.index.uri)

    source = tmp_path / "subscriptions"
    made = config(
        tmp_path,
        mode="stream",
        subscriptions={"path": str(source), "format": "json", "watch": True},
    )
    step, output = Step(made), Output(made.output)
    write_lines(source / "0.jsonl", [{"id": "s", "filter": "x = 1"}])
    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "commit", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            take(0, step)
    write_lines(source / "1.jsonl", [{"id": "t", "filter": "x = 1"}])

    assert take(0, step).taken == (str(source / "0.jsonl"),)
    assert compiled(0).count == 1
    assert take(1, step).taken == (str(source / "1.jsonl"),)
    assert compiled(1).count == 2
    # What neither of the last two batches has is gone: the two subscriptions are in one part now.
    assert set(output.index.names()) == compiled(0).live_files | compiled(1).live_files
    take(2, step)
    assert set(output.index.names()) == compiled(1).live_files
    assert not compiled(0).live_files <= compiled(1).live_files
    assert output.taken(output.manifest(2)) == [str(source / name) for name in ("0.jsonl", "1.jsonl")]

    # A file that cannot be read stops nothing for good: what nobody has seen is planned anew.
    (source / "2.parquet").write_text("not what it says")
    parquet = Step(replace(made, subscriptions=replace(made.subscriptions, format="parquet")))
    with pytest.raises(Exception, match=r"2\.parquet"):
        take(3, parquet)
    assert output.plan(3) is None


# -- skew --------------------------------------------------------------------------------------------------


def test_what_one_producer_has_numbered_is_matched_by_several_tasks(
    spark: SparkSession, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"id": f"e{n}", "producer": "p", "sequence": n, "time": 1_000 - n % 7, "x": n % 3} for n in range(400)
    ]
    write_lines(place / "events" / "0.jsonl", rows)
    tasks = []

    def noting(matches: DataFrame, buckets: int, _: int | None) -> DataFrame:
        tasks.append(matches.select(F.spark_partition_id()).distinct().count())
        return deliver(matches, buckets)

    monkeypatch.setattr("fairlead.spark.pipeline.deliver", noting)
    monkeypatch.setattr("fairlead.spark.small.ROWS_MAX", 0)
    monkeypatch.setattr("fairlead.spark.batch.FEW_ROWS", 0)
    monkeypatch.setattr("fairlead.spark.batch.ORDERED_AT_ONCE", 0)
    written = []
    for least in (10**9, 100):
        monkeypatch.setattr("fairlead.spark.batch.SPREAD_ROWS", least)
        output = place / f"out{least}"
        Step(config(place, output=str(output), deliveries={"format": "json", "buckets": 2})).take(
            ingested(spark, config(place)), 0, final=True
        )
        written.append({path.parent.name: path.read_bytes() for path in output.rglob("*.jsonl")})
    assert tasks == [1, 2]
    assert written[0] == written[1]
    expected = sum((row["x"] >= 1) + (row["x"] == 1) for row in rows)
    assert sum(lines.count(b"\n") for lines in written[0].values()) == expected


# -- typed columns -----------------------------------------------------------------------------------------


def test_a_stream_that_is_started_again_takes_up_the_columns_that_files_have_gained(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "events").mkdir()
    write_lines(
        tmp_path / "subscriptions.jsonl", [{"id": "s", "filter": "x = 1"}, {"id": "t", "filter": "y = 2"}]
    )
    given = {
        "mode": "stream",
        "events": {"path": str(tmp_path / "events"), "format": "parquet"},
        "stream": {"available": True},
    }
    for number, more in enumerate(({}, {"y": [2, 3]})):
        times = [100 * number + 1, 100 * number + 50]
        columns = {"id": [f"{number}a", f"{number}b"], "time": times, "x": [1, 1]}
        pq.write_table(pa.table(columns | more), tmp_path / "events" / f"{number}.parquet")
        # The second of each file is held until the next.
        order = {"lateness": "10us", "final": number == 1}
        pipeline = Pipeline(config(tmp_path, order=order, **given), spark)
        pipeline.run()
    rows = pipeline.output.read(spark)
    assert rows is not None
    found = {(row.id, row.subscriber, row.attributes.y) for row in rows.collect()}
    assert found == {
        ("0a", "s", None),
        ("0b", "s", None),
        ("1a", "s", 2),
        ("1b", "s", 3),
        ("1a", "t", 2),
    }


# -- a dry run ---------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_is_wrong_with_a_table(spark: SparkSession, place: Path) -> None:
    made = config(place, deliveries={"format": "table", "table": "planned_by_a_test"})
    columns = f"{KEYED}, record string, bucket int, batch int"
    for definition, problem in (
        ("(subscriber string, batch int) USING parquet PARTITIONED BY (batch)", "has other columns"),
        (f"({columns}) USING parquet", "is not a table that is partitioned by batch"),
        (f"({columns}) USING parquet PARTITIONED BY (batch)", None),
    ):
        spark.sql(f"CREATE TABLE planned_by_a_test {definition}")
        if problem is None:
            assert any("table to planned_by_a_test" in line for line in Pipeline(made, spark).plan())
            Pipeline(made, spark).run()
            assert delivered(spark.table("planned_by_a_test")) == in_order(LINES)
            with pytest.raises(PipelineError, match="has rows already"):
                Pipeline(replace(made, output=str(place / "other")), spark).plan()
        else:
            with pytest.raises(PipelineError, match=problem):
                Pipeline(made, spark).plan()
        spark.sql("DROP TABLE planned_by_a_test")
    with pytest.raises(PipelineError, match="planned_by_a_test is missing"):
        Step(made).take(ingested(spark, made), 1, final=True)


def test_a_table_with_other_typed_columns_is_refused(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE typed_by_a_test (id string, attributes struct<x: int, y: string>, batch int) "
        "USING parquet PARTITIONED BY (batch)"
    )
    for attributes in ("struct('a' as y, 1 as x)", "struct(1 as x)", "struct(1 as x, 'a' as y, 2 as z)"):
        rows = spark.sql(f"SELECT '1' AS id, {attributes} AS attributes")
        with pytest.raises(PipelineError, match="has other typed columns"):
            replace_partition(rows, 0, "typed_by_a_test")
    replace_partition(
        spark.sql("SELECT '1' AS id, struct(1 as x, 'a' as y) AS attributes"), 0, "typed_by_a_test"
    )
    [row] = spark.table("typed_by_a_test").collect()
    assert (row.attributes.x, row.attributes.y, row.batch) == (1, "a", 0)
    spark.sql("DROP TABLE typed_by_a_test")


# -- the corpus --------------------------------------------------------------------------------------------


def test_spark_matches_what_the_corpus_says(spark: SparkSession, tmp_path: Path) -> None:
    by_schema: dict[str, list[dict[str, Any]]] = {}
    for row in (row for row in json.loads(CORPUS.read_text()) if "matches" in row):
        by_schema.setdefault(json.dumps(row.get("schema")), []).append(row)
    for number, (text, rows) in enumerate(by_schema.items()):
        declared = json.loads(text)
        schema = None if declared is None else Schema(attributes=declared)
        subscriptions = [{"id": f"{at}", "filter": row["filter"]} for at, row in enumerate(rows)]
        content = []
        for at, row in enumerate(rows):
            notification = Notification.of(fields_from_json(row["notification"]))
            envelope = ("corpus", "", f"{at}", None, None, None, None, None)
            content.append((*envelope, frames.encode(notification), 0))
        types = ", ".join(f"{name} {kind}" for name, kind in ENVELOPE_TYPES.items())
        notifications = spark.createDataFrame(content, f"{types}, record string, time bigint")
        found = match(notifications, subscriptions, schema=schema, directory=tmp_path / str(number))
        matched = {(row.id, id) for row in found.collect() for id in row.subscriptions}
        for at, row in enumerate(rows):
            assert ((f"{at}", f"{at}") in matched) is row["matches"], row["name"]


# -- over Connect ------------------------------------------------------------------------------------------

CLIENT = """
import sys
from fairlead.spark.config import Config
from fairlead.spark.running import Pipeline

for mode in ("batch", "stream"):
    config = Config.read(f"{sys.argv[1]}/{mode}.toml")
    pipeline = Pipeline(config)
    summary = pipeline.run()
    print(mode, summary.deliveries, summary.rejected, dict(summary.verdicts), summary.finished)
    rows = pipeline.output.read(pipeline.spark)
    for row in sorted(rows.select("subscriber", "time", "producer", "sequence", "id", "subscriptions").collect()):
        print(row.subscriber, row.time, "composite" if len(row.id) == 32 else row.id, *row.subscriptions)
"""


def test_a_pipeline_runs_over_connect_in_batch_and_as_a_stream(connect_url: str, place: Path) -> None:
    pair = {"id": "p1", "subscriber": "eve", "pattern": "pair: [x = 2] as one followed by [x = 2] as other"}
    write_lines(place / "patterns.jsonl", [pair])
    for mode in ("batch", "stream"):
        (place / f"{mode}.toml").write_text(
            f'name = "{mode}"\nmode = "{mode}"\noutput = "out-{mode}"\n'
            '[events]\npath = "events"\nformat = "json"\n'
            '[subscriptions]\npath = "subscriptions.jsonl"\n[patterns]\npath = "patterns.jsonl"\n'
            "[order]\nfinal = true\n"
            f'[audit]\nspecifications = ["simple", "total"]\n[spark]\nremote = "{connect_url}"\n'
            + ("[stream]\navailable = true\n" if mode == "stream" else "")
        )
    run = subprocess.run(
        [sys.executable, "-c", CLIENT, str(place)], capture_output=True, text=True, timeout=600, check=False
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stderr
    rows = [
        f"{subscriber} {key.time} {key.id} {' '.join(ids)}"
        for subscriber, key, ids in sorted(LINES, key=lambda line: (line[0], line[1].rank))
    ]
    rows.append("eve 20 composite p1")
    verdicts = {"simple": "holds", "total": "holds"}
    assert run.stdout.splitlines() == [
        line for mode in ("batch", "stream") for line in (f"{mode} 5 1 {verdicts} True", *rows)
    ]
