"""A pipeline with scopes delivers what an ordered bus with the same scopes does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from fairlead.audit import Verdict, audit, parquet
from fairlead.bus import Bus
from fairlead.ingest import Rejection
from fairlead.scopes import Scopes, parse_statements
from fairlead.spark.config import Config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRAPH = """
DEFINE SCOPE Market AS ALL FROM Desk, Floor, watcher
DEFINE SCOPE Desk AS ALL FROM ada, bob INTERFACES INPUT(x > 3), OUTPUT(x in [2, 5])
  m: ALL FROM cam : { INTERFACES OUTPUT(y = 1) }
DEFINE SCOPE Floor AS ALL FROM eve INTERFACES INPUT(1), OUTPUT(y = 0)
"""
CHANGES = """
JOIN zoe TO Desk SINCE 300
LEAVE bob FROM Desk SINCE 600
ALTER SCOPE Floor INTERFACES OUTPUT(1) SINCE 600
"""
RULES = """
ALTER SCOPE Desk UPDATE ON pub(n : x = 5) DO JOIN stranger TO Floor UPDATE ON con(n : y = 1) DO LEAVE ada FROM Desk
ALTER SCOPE Floor UPDATE ON pub(n : x = 6) DO LEAVE stranger FROM Floor, JOIN ada TO Desk
"""
NAMES = ("ada", "bob", "cam", "eve", "watcher", "zoe", "stranger")


def rows() -> list[dict[str, Any]]:
    random = Random(7)
    return [
        {
            "id": str(number),
            "producer": random.choice(NAMES),
            "time": number * 10,
            "x": random.randrange(7),
            **({"y": random.randrange(2)} if random.random() < 0.8 else {}),
        }
        for number in range(100)
    ]


def on_a_bus(events: list[dict[str, Any]], rules: str) -> list[tuple[Any, ...]]:
    bus = Bus(scopes=Scopes.parse(GRAPH + rules), order="ordered")
    bus.scopes.apply(parse_statements(CHANGES))
    queues = [bus.subscribe(f"x >= {n % 3}", subscriber=name, id=f"s-{name}") for n, name in enumerate(NAMES)]
    for event in events:
        bus.publish(event)
    bus.close()
    found = []
    for queue in queues:
        for _ in range(len(queue)):
            each = queue.get_delivery(0)
            assert each.key is not None
            found.append((each.subscriber, each.key.time, each.key.producer, each.key.id, each.subscriptions))
    return sorted(found)


@pytest.mark.parametrize("given", [(True, "", 1), (False, "", 1), (True, RULES, 3), (False, RULES, 0)])
def test_a_pipeline_delivers_as_the_ordered_bus_does(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[bool, str, int],
) -> None:
    """In one batch, in batches of a stream, a file each, and in one batch by jobs of Spark's (0)."""
    from fairlead.spark.running import Pipeline

    payload, rules, files = given
    if not files:
        monkeypatch.setattr("fairlead.spark.small.collected", lambda *_: None)
    events = rows()
    wanted = on_a_bus(events, rules)
    (tmp_path / "events").mkdir()
    size = -(-len(events) // (files or 1))
    for number in range(files or 1):
        part = events[number * size : (number + 1) * size]
        Random(3).shuffle(part)
        path = tmp_path / "events" / f"{number}.jsonl"
        path.write_text("".join(f"{json.dumps(each)}\n" for each in part))
        os.utime(path, (number, number))
    asked = [
        {"id": f"s-{name}", "subscriber": name, "filter": f"x >= {n % 3}"} for n, name in enumerate(NAMES)
    ]
    (tmp_path / "subscriptions.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in asked))
    (tmp_path / "market.scopes").write_text(GRAPH + rules + CHANGES)
    config = Config.of(
        {
            "name": "test",
            **(
                {"mode": "stream", "order": {"final": True}, "stream": {"available": True, "max_files": 1}}
                if files > 1
                else {}
            ),
            "output": str(tmp_path / "out"),
            "events": {"path": str(tmp_path / "events"), "format": "json"},
            "subscriptions": {"path": str(tmp_path / "subscriptions.jsonl")},
            "scopes": {"path": str(tmp_path / "market.scopes")},
            "deliveries": {"payload": payload},
            "audit": {"trace": True},
        }
    )
    Pipeline(config, spark).run()
    found = spark.read.parquet(str(tmp_path / "out" / "deliveries")).collect()
    got = sorted(
        (row["subscriber"], row["time"], row["producer"], row["id"], tuple(row["subscriptions"]))
        for row in found
    )
    assert got == wanted
    trace = [event for _, event in parquet.read(str(tmp_path / "out" / "trace"))]
    assert not any(isinstance(each, Rejection) for each in trace)
    report = audit([each for each in trace if not isinstance(each, Rejection)])
    assert ("scoped", "visible") in {(each.specification, each.rule) for each in report}
    assert report.verdict is Verdict.HOLDS


def test_scope_says_where_each_notification_is_visible(spark: SparkSession) -> None:
    from fairlead.spark import ingest, notifications, scope

    frame = spark.createDataFrame(
        [("1", "ada", 5), ("2", "ada", 0), ("3", "eve", 1)], "id string, producer string, x long"
    )
    found = scope(notifications(ingest(frame, "rows")), Scopes.parse(GRAPH)).select("id", "scopes").collect()
    assert {row["id"]: row["scopes"] for row in found} == {
        "1": ["Desk", "Floor", "Market"],
        "2": ["Desk"],
        "3": ["Floor"],
    }
