"""Tables of Delta Lake and Iceberg, from one and into one: each delivery once, whatever ends a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fairlead.errors import PipelineError
from fairlead.spark import Config, Pipeline, tables
from fairlead.spark.output import Attempt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = 40
SUBSCRIPTIONS = [{"id": f"s{n}", "subscriber": f"u{n % 2}", "filter": f"x >= {n}"} for n in range(4)]
WANTED = Counter(
    (f"u{u}", str(number))
    for number in range(EVENTS)
    for u in (0, 1)
    if any(number % 5 >= n for n in (u, u + 2))
)


def _events(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last, 1, 1).selectExpr(
        "cast(id as string) id", "'p' producer", "id * 1000 time", "id % 5 x"
    )


def _into_delta(spark: SparkSession, path: Path) -> dict[str, Any]:
    for first in (0, EVENTS // 2):
        events = _events(spark, first, first + EVENTS // 2)
        events.write.format("delta").mode("append").save(f"{path}/events")
    return {"format": "delta", "path": f"{path}/events", "options": {"maxFilesPerTrigger": "1"}}


def _into_iceberg(spark: SparkSession, path: Path) -> dict[str, Any]:
    table = f"ice.db.{path.name}"
    _events(spark, 0, EVENTS // 2).writeTo(table).create()
    _events(spark, EVENTS // 2, EVENTS).writeTo(table).append()
    return {"format": "iceberg", "options": {"path": table, "streaming-max-files-per-micro-batch": "1"}}


def _config(path: Path, events: dict[str, Any], deliveries: dict[str, Any]) -> Config:
    (path / "subscriptions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in SUBSCRIPTIONS))
    return Config.of(
        {
            "name": "tables",
            "mode": "stream",
            "output": str(path / "out"),
            "events": events,
            "subscriptions": {"path": str(path / "subscriptions.jsonl")},
            "order": {"lateness": "10ms", "final": True},
            "deliveries": {"buckets": 2, **deliveries},
            "stream": {"available": True},
            "report": False,
        }
    )


def _delivered(rows: DataFrame) -> Counter[tuple[str, str]]:
    return Counter((row.subscriber, row.id) for row in rows.select("subscriber", "id").collect())


def _sink(name: str, spark: SparkSession, path: Path) -> tuple[Any, dict[str, Any], Callable[[], DataFrame]]:
    if name == "delta":
        read = spark.read.format("delta")
        return (
            _into_delta,
            {"format": name, "options": {"path": f"{path}/got"}},
            lambda: read.load(f"{path}/got"),
        )
    if name == "delta-table":
        table = f"got_{path.name}"
        return _into_delta, {"format": "delta", "table": table}, lambda: spark.table(table)
    table = f"ice.db.got_{path.name}"
    return _into_iceberg, {"format": name, "table": table}, lambda: spark.table(table)


@pytest.mark.parametrize("name", ["delta", pytest.param("delta-table", marks=pytest.mark.soak), "iceberg"])
def test_from_table_to_table_a_batch_that_is_repeated_is_there_once(
    spark: SparkSession, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill, deliveries, got = _sink(name, spark, tmp_path)
    config = _config(tmp_path, fill(spark, tmp_path), deliveries)

    def crash(*_: Any, **__: Any) -> None:
        raise PipelineError("crashed")

    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "commit", crash)
        with pytest.raises(PipelineError, match="crashed"):
            Pipeline(config, spark).run()
    written = _delivered(got())
    assert written  # they are there, and the output does not know
    assert sum(written.values()) < sum(WANTED.values())
    assert Pipeline(config, spark).run().batches >= 2
    assert _delivered(got()) == WANTED


def test_a_batch_that_was_staged_and_not_published_is_published(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill, deliveries, got = _sink("iceberg", spark, tmp_path)
    config = _config(tmp_path, fill(spark, tmp_path), deliveries)
    sql = type(spark).sql

    def crash(session: Any, query: str, *given: Any, **named: Any) -> Any:
        if query.startswith("CALL"):
            raise PipelineError("crashed")
        return sql(session, query, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(type(spark), "sql", crash)
        with pytest.raises(PipelineError, match="crashed"):
            Pipeline(config, spark).run()
    assert not _delivered(got())
    Pipeline(config, spark).run()
    assert _delivered(got()) == WANTED
    snapshots = spark.table(f"{deliveries['table']}.snapshots")
    staged = [row[0] for row in snapshots.selectExpr("summary['wap.id']").collect()]
    assert len({*staged}) == len(staged) >= 2  # what the first run staged was not written again


def test_sinks_with_transactions_are_named_in_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    fill, deliveries, _ = _sink("delta", spark, tmp_path)
    config = _config(tmp_path, fill(spark, tmp_path), deliveries)
    assert any("got, in transactions" in line for line in Pipeline(config, spark).plan())
    assert {*tables.TABLES} == {"delta", "iceberg"}


def test_subscriptions_follow_the_change_feed_of_a_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, events = f"{tmp_path}/asked", f"{tmp_path}/events"

    def asked(*rows: tuple[str, str]) -> DataFrame:
        return spark.createDataFrame(list(rows), "id string, filter string")

    def publish(first: int, last: int) -> None:
        _events(spark, first, last).write.mode("append").parquet(events)

    asked(("all", "x >= 0"), ("high", "x > 3"), ("gone", "x = 2")).write.format("delta").save(table)
    config = _config(tmp_path, {"format": "parquet", "path": events}, {"format": "json"})
    source = replace(config.subscriptions, path=table, format="delta", watch=True)
    config = replace(config, subscriptions=source, order=replace(config.order, lateness_us=0, final=False))
    publish(0, 20)
    with pytest.raises(PipelineError, match="has no change feed"):
        Pipeline(config, spark).run()
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    Pipeline(config, spark).run()  # the newest, 19, is held
    spark.sql(f"UPDATE delta.`{table}` SET filter = 'x < 2' WHERE id = 'high'")
    spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 'gone'")
    asked(("new", "x = 4")).write.format("delta").mode("append").save(table)
    publish(20, 40)

    def crash(*_: Any, **__: Any) -> None:
        raise PipelineError("crashed")

    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "commit", crash)
        with pytest.raises(PipelineError, match="crashed"):
            Pipeline(config, spark).run()
    asked(("late", "true")).write.format("delta").mode("append").save(table)  # for the batch behind
    Pipeline(config, spark).run()
    rows = [
        json.loads(line)
        for file in (tmp_path / "out" / "deliveries").rglob("part-*")
        for line in file.read_text().splitlines()
    ]
    before = {"all": lambda x: True, "high": lambda x: x > 3, "gone": lambda x: x == 2}
    after = {"all": lambda x: True, "high": lambda x: x < 2, "new": lambda x: x == 4}
    wanted = {
        (id, str(number))
        for number in range(EVENTS - 1)
        for id, holds in (before if number < 19 else after).items()
        if holds(number % 5)
    }
    assert {(row["subscriber"], row["id"]) for row in rows} == wanted
    assert len(rows) == len(wanted)
