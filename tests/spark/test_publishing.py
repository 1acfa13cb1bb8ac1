"""What a pipeline makes goes back into the network: once, in each subscriber's order, as the bus would have it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fairlead.errors import ConnectionEnded, PipelineError
from fairlead.model import ABSENT, Notification
from fairlead.network import sync
from fairlead.network.addresses import free_ports
from fairlead.spark import Config, Pipeline, publish
from fairlead.spark.publishing import delivered
from fairlead_lab.testing.brokers import Brokers

SUBSCRIPTIONS = (
    {"id": "s1", "subscriber": "ada", "filter": "price > 3"},
    {"id": "s2", "subscriber": "ada", "filter": 'type = "A"'},
    {"id": "s3", "subscriber": "bob", "filter": "price < 20"},
    {"id": "s4", "subscriber": "eve", "filter": 'type = "rise"'},
)
PATTERNS = (
    {"id": "p1", "subscriber": "ada", "pattern": "rise: A as a followed by B as b within 5 s, same k"},
    {"id": "p2", "subscriber": "bob", "pattern": "A followed by A within 1 s"},
)


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with Brokers() as made:
        yield made


def events() -> list[dict[str, Any]]:
    return [
        {
            "id": f"{number:02}",
            "producer": "pq"[number % 2],
            "time": f"2026-01-01T00:00:{number:02}Z",
            "type": "AB"[number % 3 == 0],
            "k": number % 4,
            "price": number,
        }
        for number in range(24)
    ]


def pipeline(spark: SparkSession, path: Path, output: str, url: str, **more: Any) -> Pipeline:
    for name, rows in (("subscriptions", SUBSCRIPTIONS), ("patterns", PATTERNS)):
        (path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    given = {
        "output": output,
        "report": False,
        "events": {"path": "b", "format": "log"},
        "subscriptions": {"path": "subscriptions.jsonl"},
        "patterns": {"path": "patterns.jsonl"},
        "deliveries": {"format": "json"},
        "publish": {"url": url, **more},
    }
    return Pipeline(Config.of(given, base=path), spark)


def taken(subscription: sync.Subscription, last: str) -> list[Notification]:
    """What comes before a mark."""
    found = []
    for notification in subscription:
        if notification.id == last:
            break
        found.append(notification)
    return found


def by_subscriber(lines: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    told: dict[str, list[Any]] = {}
    for subscriber, line in lines:
        told.setdefault(subscriber, []).append(line)
    return told


def test_what_is_found_in_a_brokers_log_is_published_there_once_and_in_order(
    spark: SparkSession, tmp_path: Path, brokers: Brokers
) -> None:
    url = f"fairlead://127.0.0.1:{brokers.start('b', tmp_path).port}"
    with (
        sync.connect(url, name="desk") as desk,
        desk.subscribe('type in {"delivery", "rise", "mark"}', durable="desk") as heard,
    ):
        for event in events():
            desk.publish(event)
        summary = pipeline(spark, tmp_path, "out", url).run()
        desk.publish({"type": "mark", "id": "m1"})
        found = taken(heard, "m1")
        deliveries = [each for each in found if each.get("type") == "delivery"]
        written = [
            json.loads(line)
            for file in sorted((tmp_path / "out" / "deliveries").rglob("*.jsonl"))
            for line in file.read_text(encoding="utf-8").splitlines()
        ]
        assert by_subscriber(
            (
                each.get("subscriber"),
                [each.get("key.producer"), each.get("key.id"), list(each.get("subscriptions"))],
            )
            for each in deliveries
        ) == by_subscriber(
            (each["subscriber"], [each["producer"], each["id"], each["subscriptions"]]) for each in written
        )
        prices = [each.get("notification.price") for each in deliveries if each.get("subscriber") == "bob"]
        assert [price for price in prices if price is not ABSENT] == list(range(20))

        # What patterns with a name have found is there as it is; that of the others only who asked gets.
        composites = [each for each in found if each.get("type") == "rise"]
        assert {each.id for each in composites} == {
            each["id"] for each in written if each["subscriber"] == "eve"
        }
        assert 0 < len(composites) < summary.composites
        assert summary.published == len(found) == len(written) + len(composites)

        # As if it had crashed before the commit: all is published again, and nobody hears it again.
        again = pipeline(spark, tmp_path, "again", url).run()
        assert again.published == summary.published
        assert (summary.own, again.own) == (0, summary.published)
        desk.publish({"type": "mark", "id": "m2"})
        assert taken(heard, "m2") == []


def test_any_table_with_ids_can_be_published(spark: SparkSession, tmp_path: Path, brokers: Brokers) -> None:
    url = f"fairlead://127.0.0.1:{brokers.start('b', advertisements='simple').port}"
    rows = spark.createDataFrame(
        [("7", "p", 1.5), ("8", "p", 2.5), ("9", "q", 3.5)], "id string, producer string, x double"
    )
    with sync.connect(url) as client, client.subscribe("x > 2 or last = true") as heard:
        assert publish(rows, url) == 3
        client.advertise("last = true")
        client.publish({"last": True, "id": "end"})
        assert sorted((each.producer, each.id, each.get("x")) for each in taken(heard, "end")) == [
            ("p", "8", 2.5),
            ("q", "9", 3.5),
        ]


def test_a_broker_that_is_not_there_is_told_before_anything_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    (port,) = free_ports(["127.0.0.1"])
    with pytest.raises(ConnectionEnded, match=str(port)):
        pipeline(spark, tmp_path, "out", f"127.0.0.1:{port}").run()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"url": "http://here"}, "not the address of a broker"),
        ({"url": "here", "what": []}, "name something"),
        ({"url": "here", "what": ["rejected"]}, "rejected"),
        ({"url": "here", "key": "key.pem"}, "name both"),
        ({}, "url"),
    ],
)
def test_a_publish_table_that_means_nothing_is_refused(given: dict[str, Any], problem: str) -> None:
    whole = {"output": "out", "events": {"path": "e"}, "subscriptions": {"path": "s"}, "publish": given}
    with pytest.raises(PipelineError, match=problem):
        Config.of(whole)


def test_deliveries_of_different_notifications_have_different_ids() -> None:
    keys = [(0, "a", None, "b:c"), (0, "a:b", None, "c"), (0, "a", 1, "b")]
    assert len({delivered("ada", key, ["s"]).id for key in keys}) == len(keys)
