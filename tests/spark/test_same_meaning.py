"""The same input gives the same deliveries on the bus and on Spark, in batch and in a stream, to the byte.

However it is split into files and micro-batches, in whatever order it arrives within the allowed lateness, and
with a stop and a start in between. Spark's runs take seconds, so there are few examples, each with much in it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from fairlead.bus import Bus
from fairlead.delivery import DeliveryRecord
from fairlead.filters.schema import Schema
from fairlead.ingest import Fields, records
from fairlead.log import Log
from fairlead.log.records import PUBLICATION
from fairlead.model import Instant, Notification
from fairlead.model.order import OrderKey
from fairlead.model.packed import pack
from fairlead.spark.config import Config
from fairlead.spark.frames import DELIVERY
from fairlead.spark.running import Pipeline
from fairlead.spark.summary import Batch, Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATENESS_US = 40
EVENTS = 150
FILTERS = (
    "x = {}",
    "x > {}",
    "x != {} and exists y",
    'name prefix "n{}"',
    "tags contains {}",
    "geo.x in [{}, 7]",
    'not (x < {} or name = "n1")',
    'producer = "p{}" and x >= 2',
    "exists cause or x = {}",
)


def random_events(rng: Random) -> list[dict[str, Any]]:
    """Events in the order of their times: with and without ids, equal ones, copies, numbers and causes."""
    events: list[dict[str, Any]] = []
    numbers = dict.fromkeys(("p0", "p1", "p2"), 0)
    for at in range(EVENTS):
        if events and rng.random() < 0.05:
            events.append(dict(rng.choice(events[-5:])))
            continue
        named = [event for event in events if "id" in event]
        if (
            named and rng.random() < 0.1
        ):  # the same identity again, with other content: now, or at the same time
            event = {**rng.choice(named), "y": rng.randint(0, 9)}
            events.append(event)
            if rng.random() < 0.7:
                event["time"] = 1_000 + 3 * at
            continue
        producer = rng.choice(tuple(numbers))
        event: dict[str, Any] = {"producer": producer, "time": 1_000 + 3 * at + rng.randint(0, 3)}
        if rng.random() < 0.7:
            event["id"] = f"e{at}"
        if producer != "p2":
            numbers[producer] += 1
            event["sequence"] = numbers[producer]
        if rng.random() < 0.1:
            named = rng.choice([each for each in events[-8:] if "id" in each] or [{"id": "nobody"}])
            event["cause"] = {"producer": named.get("producer", "p0"), "id": named["id"]}
        for name, value in (
            ("x", rng.choice((1, 2, 3.5, "4", True, None))),
            ("y", rng.randint(0, 9)),
            ("name", f"n{rng.randint(0, 4)}x"),
            ("tags", rng.sample(range(8), 2)),
            ("geo", {"x": rng.randint(0, 9)}),
        ):
            if rng.random() < 0.6:
                event[name] = value
        events.append(event)
    return events


def random_subscriptions(rng: Random) -> list[dict[str, Any]]:
    subscriptions = []
    for number in range(40):
        row: dict[str, Any] = {"id": f"s{number}", "subscriber": f"u{rng.randint(0, 7)}"}
        row["filter"] = rng.choice(FILTERS).format(rng.randint(0, 4))
        if rng.random() < 0.3:
            row["from"] = 1_000 + rng.randint(0, 200)
        if rng.random() < 0.3:
            row["until"] = 1_200 + rng.randint(0, 200)
        subscriptions.append(row)
    return subscriptions


def shuffled(events: list[dict[str, Any]], rng: Random) -> list[dict[str, Any]]:
    """Another order of arrival, in which nothing comes later than allowed."""
    return sorted(events, key=lambda event: event["time"] + rng.uniform(0, LATENESS_US / 2))


def on_the_bus(events: list[dict[str, Any]], subscriptions: list[dict[str, Any]]) -> list[bytes]:
    found: list[DeliveryRecord] = []
    bus = Bus(order="ordered", lateness_us=LATENESS_US)
    inboxes = {
        row["subscriber"]: bus.subscribe(
            row["filter"],
            id=row["id"],
            subscriber=row["subscriber"],
            since=Instant(row["from"]) if "from" in row else None,
            until=Instant(row["until"]) if "until" in row else None,
        )
        for row in subscriptions
    }
    for event in events:
        bus.publish(event)
    bus.close()
    for inbox in inboxes.values():
        while len(inbox):
            each = inbox.get_delivery()
            assert each.key is not None
            found.append(DeliveryRecord(each.subscriber, each.key, each.subscriptions))
    return [each.line() for each in sorted(found, key=lambda each: each.rank)]


def distinct(subscriptions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that differ in subscriber and filter: subscribing to the same filter again is no subscription."""
    return list({(row["subscriber"], row["filter"]): row for row in subscriptions}.values())


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def pipeline(spark: SparkSession, directory: Path, mode: str, **tables: Any) -> Pipeline:
    config = {
        "name": mode,
        "mode": mode,
        "output": str(directory / f"out-{mode}"),
        "events": {"path": str(directory / mode), "format": "json"},
        "subscriptions": {"path": str(directory / "subscriptions.jsonl")},
        "order": {"lateness": f"{LATENESS_US}us", "final": True},
        "audit": {"specifications": ["simple", "fifo", "causal", "total", "ordered"]},
        **tables,
    }
    return Pipeline(Config.of(config), spark)


def lines(pipeline: Pipeline) -> list[bytes]:
    deliveries = pipeline.output.read(pipeline.spark)
    assert deliveries is not None
    found = [
        DeliveryRecord(subscriber, OrderKey(*key), tuple(subscriptions))
        for subscriber, *key, subscriptions in deliveries.select(*DELIVERY).collect()
    ]
    return [each.line() for each in sorted(found, key=lambda each: each.rank)]


def run_with_a_stop(
    spark: SparkSession, directory: Path, mode: str, behind: int, **tables: Any
) -> tuple[Pipeline, Summary]:
    """Stop behind a batch, then start again."""
    first = pipeline(spark, directory, mode, **tables)

    def stop(batch: Batch) -> None:
        if batch.number >= behind:
            first.stop()

    stopped = first.run(on_batch=stop)
    assert not stopped.finished
    second = pipeline(spark, directory, mode, **tables)
    return second, second.run()


def cut(events: list[dict[str, Any]], rng: Random) -> list[list[dict[str, Any]]]:
    """The same in three files, cut anywhere."""
    one, two = sorted(rng.sample(range(1, len(events)), 2))
    return [events[:one], events[one:two], events[two:]]


def by_subscriber(lines: list[bytes]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for line in lines:
        found.setdefault(json.loads(line)["subscriber"], []).append(line)
    return found


def sent(deliveries: Path) -> dict[str, list[bytes]]:
    """What the JSON sink has written, by subscriber, each in the order of the file."""
    files = sorted(deliveries.rglob("part-*"))
    return by_subscriber([line for file in files for line in file.read_bytes().splitlines(keepends=True)])


SEEDS = [pytest.param(seed, marks=() if seed < 1 else pytest.mark.soak) for seed in range(12)]


@pytest.mark.parametrize("seed", SEEDS)
def test_bus_batch_and_stream_deliver_the_same_bytes(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    events, subscriptions = random_events(rng), distinct(random_subscriptions(rng))
    write_lines(tmp_path / "subscriptions.jsonl", subscriptions)
    expected = on_the_bus(events, subscriptions)
    assert len(expected) > 100

    anyhow = rng.sample(events, len(events))  # in a batch nothing is late
    for number, some in enumerate(cut(anyhow, rng)):
        write_lines(tmp_path / "batch" / f"{number}.jsonl", some)
    sink = {"format": "json", "buckets": rng.randint(1, 3), "payload": False}
    batch = pipeline(spark, tmp_path, "batch", deliveries=sink)
    summary = batch.run()
    assert sent(tmp_path / "out-batch" / "deliveries") == by_subscriber(expected)
    assert set(summary.verdicts.values()) == {"holds"}

    arrivals = shuffled(events, rng)
    files = cut(arrivals, rng)
    for number, some in enumerate(files):
        file = tmp_path / "stream" / f"{number}.jsonl"
        write_lines(file, some)
        os.utime(file, (1_000_000 + number, 1_000_000 + number))  # Spark takes files by their times
    max_files = rng.randint(1, 2)
    behind = rng.randrange(-(-len(files) // max_files))
    taken = {"available": True, "max_files": max_files}
    stream, resumed = run_with_a_stop(spark, tmp_path, "stream", behind, stream=taken)
    assert lines(stream) == expected
    assert (resumed.resumed, resumed.finished, resumed.late) == (True, True, 0)
    assert set(resumed.verdicts.values()) == {"holds"}


# -- content ---------------------------------------------------------------------------------------------------

RECORDS = (
    '{"specversion": "1.0", "id": "1", "source": "/s", "type": "T", "time": "2026-03-02T10:00:00.250+01:00", '
    '"sequence": "0012", "data": {"price": 10.10, "list": [3, 1, 3], "a.b": 1e3}}',
    '{"specversion": "1.0", "id": "2", "source": "/s", "type": "T", "data": [52.5, 13.4], "subject": "x"}',
    '{"specversion": "1.0", "id": "3", "source": "/s", "type": "T", "data_base64": "3q2+7w=="}',
    '{"nr": 4, "producer": "p", "time": "2026-03-02T09:00:00Z", "price": 10.10, "list": [3, 1, 3]}',
    '{"id": "5", "producer": "p", "at": "2026-03-02T10:00:00+01:00", "price": 1e3, "z": {"y": [2, 1]}}',
)
READINGS: dict[str, dict[str, Any]] = {
    "events": {},
    "lifted events": {"lift": True},
    "other fields": {"fields": {"id": "nr"}},
    "a schema": {"schema": "at: time\n"},
}


def parsed(text: str) -> Any:
    """All that a JSON text says: names in their order, numbers as they are spelled."""
    return json.loads(text, object_pairs_hook=lambda pairs: pairs, parse_float=str, parse_int=str)


@pytest.mark.parametrize("reading", READINGS)
def test_bus_pipeline_and_a_pipeline_over_a_log_deliver_the_same_content(
    spark: SparkSession, tmp_path: Path, reading: str
) -> None:
    given = dict(READINGS[reading])
    schema = None
    if "schema" in given:
        (tmp_path / "declared.schema").write_text(given["schema"])
        given["schema"] = str(tmp_path / "declared.schema")
        schema = Schema.read(given["schema"])
    fields = Fields(**given.get("fields", {}))
    notifications = [
        records.read(text, lift=given.get("lift", False), fields=fields, schema=schema) for text in RECORDS
    ]
    expected = {}
    with Bus(order="ordered", engine="brute", lateness_us=2**60) as bus:
        inbox = bus.subscribe("exists price or absent price", id="s", subscriber="u")
        for each in notifications:
            assert isinstance(each, Notification)
            bus.publish(each)
    while len(inbox):
        delivery = inbox.get_delivery()
        expected[delivery.key.id] = parsed(delivery.notification.to_json())
    assert sorted(map(str, expected.values())) == sorted(str(parsed(text)) for text in RECORDS)

    write_lines(
        tmp_path / "subscriptions.jsonl",
        [{"id": "s", "subscriber": "u", "filter": "exists price or absent price"}],
    )
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "0.jsonl").write_text("".join(f"{text}\n" for text in RECORDS))
    with Log(tmp_path / "log") as log:
        for each in notifications:
            assert isinstance(each, Notification)
            log.append(PUBLICATION, pack(each), 0)
    top = {"schema": given.pop("schema")} if "schema" in given else {}
    inputs = {"raw": {"path": str(tmp_path / "raw"), "format": "json", **given}}
    inputs["log"] = {"path": str(tmp_path / "log"), "format": "log"}
    for name, events in inputs.items():
        tables = {"events": events, "output": str(tmp_path / f"out-{name}"), **top}
        pipeline(spark, tmp_path, "batch", deliveries={"format": "json"}, **tables).run()
        [lines] = sent(tmp_path / f"out-{name}" / "deliveries").values()
        delivered = [dict(parsed(line.decode())) for line in lines]
        assert sorted(str(each["notification"]) for each in delivered) == sorted(map(str, expected.values()))
