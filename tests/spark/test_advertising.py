"""A pipeline with advertisements rejects what a bus with the same ones refuses, and delivers the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairlead.audit import parquet
from fairlead.audit.trace import Advertised
from fairlead.bus import Bus
from fairlead.delivery import DeliveryRecord
from fairlead.errors import NotAdvertised, PipelineError
from fairlead.filters.schema import Schema
from fairlead.spark import advertising, small
from fairlead.spark.config import Config
from fairlead.spark.running import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADVERTISEMENTS = [
    {"producer": "p", "filter": "x > 2"},
    {"producer": "p", "filter": 'name prefix "n"', "note": "a second one"},
    {"producer": "q", "filter": "type is quote"},
    {"producer": "", "filter": "x = 1"},
]
SCHEMA = "abstract type item\ntype quote: item\ntype order: item\n"
COLUMNS = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "producer", "type", "name")),
        *((name, pa.int64()) for name in ("time", "x")),
    ]
)
SUBSCRIPTIONS = [("ada", "x >= 2"), ("ada", 'producer = "q"'), ("bob", "exists x or absent x")]


def rows() -> list[dict[str, Any]]:
    """Events of those who advertise and of one who does not, some of them copies."""
    random = Random(3)
    found: list[dict[str, Any]] = []
    for number in range(80):
        if found and random.random() < 0.1:
            found.append(dict(random.choice(found)))
            continue
        event: dict[str, Any] = {
            "id": f"e{number}",
            "time": 1_000 + number,
            "x": random.randint(0, 5),
            "type": random.choice(("quote", "order")),
        }
        if (producer := random.choice(("p", "q", "r", None))) is not None:
            event["producer"] = producer
        if random.random() < 0.4:
            event["name"] = random.choice(("n1", "m1"))
        found.append(event)
    return found


def on_a_bus(events: list[dict[str, Any]], schema: Schema | None) -> tuple[list[bytes], int]:
    """Each delivery's bytes, and how many publications were refused."""
    bus, refused = Bus(order="ordered", schema=schema), 0
    for row in ADVERTISEMENTS:
        bus.advertise(row["filter"], row["producer"])
    inboxes = {
        whom: bus.subscribe(filter, subscriber=whom, id=f"s{number}")
        for number, (whom, filter) in enumerate(SUBSCRIPTIONS)
    }
    for event in events:
        try:
            bus.publish(event)
        except NotAdvertised:
            refused += 1
    bus.close()
    found = []
    for inbox in inboxes.values():
        while len(inbox):
            each = inbox.get_delivery()
            assert each.key is not None
            found.append(DeliveryRecord(each.subscriber, each.key, each.subscriptions))
    return sorted(each.line() for each in found), refused


def write(place: Path, events: list[dict[str, Any]]) -> None:
    """The same events as JSON lines, as typed columns, and in three files for a stream."""
    for name, some in (("lines", [events]), ("stream", [events[:30], events[30:50], events[50:]])):
        (place / name).mkdir()
        for number, part in enumerate(some):
            (place / name / f"{number}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in part))
    (place / "columns").mkdir()
    pq.write_table(pa.Table.from_pylist(events, schema=COLUMNS), place / "columns" / "0.parquet")
    (place / "market.schema").write_text(SCHEMA)
    for name, table in (
        ("advertisements", ADVERTISEMENTS),
        (
            "subscriptions",
            [
                {"id": f"s{n}", "subscriber": whom, "filter": filter}
                for n, (whom, filter) in enumerate(SUBSCRIPTIONS)
            ],
        ),
    ):
        (place / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in table))


def pipeline(spark: SparkSession, place: Path, name: str, **tables: Any) -> Pipeline:
    given: dict[str, Any] = {
        "output": str(place / f"out-{name}"),
        "events": {"path": str(place / name)},
        "subscriptions": {"path": str(place / "subscriptions.jsonl")},
        "advertisements": {"path": str(place / "advertisements.jsonl")},
        "deliveries": {"format": "json", "payload": False},
        "audit": {"specifications": ["advertisements", "simple", "ordered"]},
        "report": False,
        **tables,
    }
    return Pipeline(Config.of(given), spark)


STREAM = {
    "mode": "stream",
    "order": {"lateness": "1s", "final": True},
    "stream": {"available": True, "max_files": 1},
}


@pytest.mark.parametrize("name", ["lines", "columns", "stream"])
@pytest.mark.parametrize("where", ["driver", "jobs"])
def test_bus_and_pipeline_refuse_the_same_and_deliver_the_same_bytes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, where: str
) -> None:
    if where == "jobs":
        monkeypatch.setattr(small, "ROWS_MAX", 0)
    events = rows()
    write(tmp_path, events)
    schema = tmp_path / "market.schema" if name == "stream" else None
    expected, refused = on_a_bus(events, None if schema is None else Schema.read(schema))
    more = {} if schema is None else {**STREAM, "schema": str(schema)}
    run = pipeline(spark, tmp_path, name, **more)
    summary = run.run()
    files = (tmp_path / f"out-{name}" / "deliveries").rglob("part-*")
    assert sorted(line for file in files for line in file.read_bytes().splitlines(keepends=True)) == expected
    # A bus asks first whether it knows an identity, and counts copies of refused publications again: so do rows.
    assert summary.rejected == refused > 10
    assert set(summary.reasons) == {advertising.NOT_ADVERTISED.rstrip(": ")}
    assert summary.verdicts == dict.fromkeys(("advertisements", "simple", "ordered"), "holds")
    told = [each for _, each in parquet.read(*run.output.paths("trace")) if isinstance(each, Advertised)]
    assert sorted((each.component, str(each.filter)) for each in told) == sorted(
        (row["producer"], row["filter"]) for row in ADVERTISEMENTS
    )


def test_what_a_run_with_advertisements_would_do_is_shown(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, rows())
    place = tmp_path / "advertisements.jsonl"
    run = pipeline(spark, tmp_path, "lines")
    assert f"advertise   4 filters of 3 producers from {place}" in run.plan()
    before = run.config.fingerprint
    place.write_text('{"producer": "p", "filter": "x > 3"}\n')
    assert run.config.fingerprint != before


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"producer": "p", "filter": "x >"}', "1: column 4"),
        ('{"producer": "p"}', "1: an advertisement has a 'filter', which is text"),
        ('{"filter": "x > 1"}', "1: an advertisement has a 'producer', which is text"),
        ('{"producer": "p", "filter": "x > 1", "until": 5}', "it holds for the whole run"),
        ("[]", "1: an advertisement is a JSON object"),
    ],
)
def test_a_bad_advertisement_ends_the_run_before_anything_is_read(
    spark: SparkSession, tmp_path: Path, line: str, problem: str
) -> None:
    write(tmp_path, rows())
    (tmp_path / "advertisements.jsonl").write_text(f"{line}\n")
    with pytest.raises(PipelineError) as refused:
        pipeline(spark, tmp_path, "lines").run()
    assert problem in str(refused.value)
    assert "advertisements.jsonl:1" in str(refused.value)
