"""Patterns and fair subscriptions find on Spark what they find on the bus, in batch and in a stream, to the byte.

However the input is cut into files and micro-batches, in whatever order it arrives within the allowed lateness,
over one, two and seven partitions, and with a crash in between. Spark's runs take seconds, so there are few
examples, each with much in it; `test_detection.py` has the many.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import seed as seeded
from hypothesis.strategies import SearchStrategy

from fairlead.bus import Bus
from fairlead.correlation import fair
from fairlead.delivery import DeliveryRecord
from fairlead.errors import FilterError, PipelineError
from fairlead.ingest import records
from fairlead.model import Instant, Notification
from fairlead.model.order import OrderKey
from fairlead.spark import Config, Pipeline, detect, ingest, notifications, order
from fairlead.spark.frames import DELIVERY, encode
from fairlead.spark.output import Manifest
from fairlead.spark.patterns import Patterns
from fairlead_lab.testing import fair as fair_made
from fairlead_lab.testing import patterns as made

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LATENESS_US = 8
TIME_MAX = 120
RICH = (
    "spike: A followed by B within 9 us, same k",
    "spike: [x > 2] as big, same y, giving size = big.x",
    "2 or more C as c followed by D within 20 us, same k, taking all matches, with partial matches",
    "any order of A, B and C within 12 us, taking the first",
    "A then no B within 7 us, same k and y",
    'wave: [type = "spike"] as s followed by A within 30 us',
    '[type in {"wave", "B"}] as w then no [type = "spike"] within 5 us',
    "D then no A until 1970-01-01T00:01:00Z",
    "crest: pair followed by C within 9 us",
    '2 or more [type = "pair" or type = "joint"] as p followed by A within 20 us',
)
"""Patterns that find something in every stream, over the composites of others, and behind the last event."""
FAIR = ("A.x < B.x", "A[1].x != A[2].x and C or B.k = D.k", "spike and D or wave[2]", "C[2].k <= D.k and A")
"""Fair subscriptions that find something in every stream, also among composites."""
NAMED = (
    "pair: A.x < B.x",
    "pair: A.x < B.x or C",
    "joint: A.x < B.x",
    "joint: pair and D or spike[2]",
    "pair[2] or joint.number >= pair.number",
    "top: crest and joint",
    "pair: top and A",
)
"""Fair subscriptions with names, over one another's relations and composites; the last one would see its own."""


def random_events(rng: Random) -> list[dict[str, Any]]:
    """Events in the order of their times, many at one instant."""
    events: list[dict[str, Any]] = []
    for number in range(120):
        event = {"id": f"e{number}", "producer": rng.choice("pqz"), "time": number * TIME_MAX // 120 + 1}
        event |= {"type": rng.choice(made.TYPES), "k": rng.choice((0, 1, 1.0, 2))}
        for name in "xy":
            if rng.random() < 0.8:
                event[name] = rng.choice((0, 1, 2, 3, 1.5, "a", None))
        if rng.random() < 0.2:
            event["interval"] = {"start": {"$time": str(Instant(event["time"] - 3))}}
        events.append(event)
    return events


def drawn(strategy: SearchStrategy[Any], count: int, rng: Random) -> list[str]:
    """The texts of what a strategy gives, the same for the same seed."""
    found: list[str] = []

    @seeded(rng.getrandbits(32))
    @settings(max_examples=count, database=None, phases=[Phase.generate], deadline=None)
    @given(strategy)
    def collect(one: Any) -> None:
        found.append(str(one))

    collect()
    return found


def asked_for(rng: Random) -> list[dict[str, Any]]:
    """Rows that do not see themselves, each subscriber's of different texts, some for a while only."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    asked: list[dict[str, Any]] = [
        {"pattern": text} for text in (*RICH, *drawn(made.patterns(steps=3, depth=2), 15, rng))
    ]
    asked += [
        {"fair": text} if rng.random() < 0.5 else {"fair": text, "choice": "most recent"}
        for text in (*FAIR, *FAIR[:2], *NAMED, *drawn(fair_made.subscriptions(made.TYPES), 8, rng))
    ]
    for number, what in enumerate(asked):
        text = str(what)
        row: dict[str, Any] = {"id": f"p{number:02}", "subscriber": f"u{number % 4}", **what}
        if rng.random() < 0.2:
            row["from"] = rng.randint(1, TIME_MAX // 2)
        if rng.random() < 0.2:
            row["until"] = rng.randint(TIME_MAX // 2 + 1, TIME_MAX)
        try:
            Patterns.read([*rows.values(), row])
        except PipelineError as error:
            if not isinstance(error.__cause__, FilterError):
                raise
        else:
            rows.setdefault((row["subscriber"], text), row)
    return list(rows.values())


SUBSCRIPTIONS = [
    {"id": "s0", "subscriber": "u0", "filter": 'type in {"spike", "pair", "top"}'},
    {"id": "s1", "subscriber": "u1", "filter": "size > 2 or k = 2"},
    {
        "id": "s2",
        "subscriber": "watcher",
        "filter": 'interval.start >= t"1970-01-01T00:00:00.00004Z" or type = "A"',
    },
]

Told = tuple[bytes, str]


def on_the_bus(events: list[dict[str, Any]], patterns: list[dict[str, Any]]) -> dict[str, list[Told]]:
    """What each subscriber is told, one delivery after the other, with its content."""
    bus = Bus(order="ordered", lateness_us=LATENESS_US)
    inboxes = {
        row["subscriber"]: bus.detect(
            row["pattern"] if "pattern" in row else fair.parse(row["fair"]),
            id=row["id"],
            choice=fair.Choice(row["choice"]) if "choice" in row else None,
            subscriber=row["subscriber"],
            since=Instant(row["from"]) if "from" in row else None,
            until=Instant(row["until"]) if "until" in row else None,
        )
        for row in patterns
    }
    for row in SUBSCRIPTIONS:
        inboxes[row["subscriber"]] = bus.subscribe(row["filter"], id=row["id"], subscriber=row["subscriber"])
    for event in events:
        bus.publish(published(event))
    bus.close()
    found: dict[str, list[Told]] = {}
    for subscriber, inbox in inboxes.items():
        while len(inbox):
            each = inbox.get_delivery()
            assert each.key is not None
            line = DeliveryRecord(each.subscriber, each.key, each.subscriptions).line()
            found.setdefault(subscriber, []).append(
                (line, _composed(each.key.producer, encode(each.notification)))
            )
    return found


def published(event: dict[str, Any]) -> Notification:
    """An event as it is read from a file: constituents of composites are written as they were published."""
    read = records.read(json.dumps(event).encode())
    assert isinstance(read, Notification)
    return read


def told(deliveries: DataFrame | None) -> dict[str, list[Told]]:
    """The same of a pipeline, in the order of its files."""
    assert deliveries is not None
    found: dict[str, list[Told]] = {}
    rows = deliveries.select(*DELIVERY, "record", "batch", "_metadata.file_path", "_metadata.row_index")
    for row in sorted(rows.collect(), key=lambda row: (row.batch, row.file_path, row.row_index)):
        subscriber, *key, subscriptions, record, _, _, _ = row
        line = DeliveryRecord(subscriber, OrderKey(*key), tuple(subscriptions)).line()
        found.setdefault(subscriber, []).append((line, _composed(row.producer, record)))
    return found


def _composed(producer: str, record: str) -> str:
    """The content of composites; that of others is the text that came in, where there was one."""
    return record if producer in ("patterns", "fair") else ""


def write_lines(path: Path, rows: list[dict[str, Any]], age: int = 0) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    os.utime(path, (1_000_000 + age, 1_000_000 + age))  # Spark takes files by their times


def pipeline(spark: SparkSession, directory: Path, mode: str, **tables: Any) -> Pipeline:
    config = {
        "name": mode,
        "mode": mode,
        "output": str(directory / f"out-{mode}"),
        "events": {"path": str(directory / mode), "format": "json"},
        "subscriptions": {"path": str(directory / "subscriptions.jsonl")},
        "patterns": {"path": str(directory / "patterns.jsonl")},
        "order": {"lateness": f"{LATENESS_US}us", "final": True},
        "audit": {"specifications": ["simple", "fifo", "total", "ordered"]},
        **tables,
    }
    return Pipeline(Config.of(config), spark)


@contextmanager
def partitions(spark: SparkSession, count: int) -> Iterator[None]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", count)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def crash_before_the_commit_of(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if killed when everything of a batch is in its place, but for the manifest."""
    dump = Manifest.dump

    def crash(manifest: Manifest) -> bytes:
        if manifest.batch == batch:
            monkeypatch.undo()
            raise RuntimeError("killed")
        return dump(manifest)

    monkeypatch.setattr(Manifest, "dump", crash)


def cut(rows: list[dict[str, Any]], files: int, rng: Random) -> list[list[dict[str, Any]]]:
    """Rows in that many files, of whatever sizes."""
    ends = sorted(rng.randrange(len(rows)) for _ in range(files - 1))
    return [rows[begin:end] for begin, end in zip((0, *ends), (*ends, len(rows)), strict=True)]


SEEDS = [pytest.param(seed, marks=() if seed < 1 else pytest.mark.soak) for seed in range(12)]


@pytest.mark.parametrize("seed", SEEDS)
def test_bus_batch_and_stream_find_the_same_composites_to_the_byte(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = Random(seed)
    events, patterns = random_events(rng), asked_for(rng)
    write_lines(tmp_path / "subscriptions.jsonl", SUBSCRIPTIONS)
    write_lines(tmp_path / "patterns.jsonl", patterns)
    expected = on_the_bus(events, patterns)
    composites = {record for lines in expected.values() for _, record in lines if record}
    relations = {record for record in composites if '"producer":"fair"' in record}
    assert len(composites) - len(relations) > 100
    assert len(relations) > 50
    assert all(f'"type":"{name}"' in "".join(relations) for name in ("pair", "joint", "top"))

    counts = rng.sample((1, 2, 7), 2)
    anyhow = rng.sample(events, len(events))  # in a batch nothing is late
    for number, some in enumerate(cut(anyhow, rng.randint(1, 4), rng)):
        write_lines(tmp_path / "batch" / f"{number}.jsonl", some)
    batch = pipeline(spark, tmp_path, "batch", audit={})  # the stream's trace is judged below
    batch.run()
    assert told(batch.output.read(spark)) == expected

    arrivals = sorted(events, key=lambda event: event["time"] + rng.uniform(0, LATENESS_US / 2))
    for number, some in enumerate(cut(arrivals, 2, rng)):
        write_lines(tmp_path / "stream" / f"{number}.jsonl", some, age=number)
    taking = {"stream": {"available": True, "max_files": 1}}
    with monkeypatch.context() as crashing, partitions(spark, counts[0]):
        # So few rows are detected in one task; here, before the crash, they are not.
        crashing.setattr("fairlead.spark.batch.FEW_ROWS", 0)
        crash_before_the_commit_of(1, crashing)
        with pytest.raises(Exception, match="killed"):
            pipeline(spark, tmp_path, "stream", **taking).run()
    stream = pipeline(spark, tmp_path, "stream", **taking)
    resumed = stream.run()
    assert told(stream.output.read(spark)) == expected
    assert (resumed.resumed, resumed.finished, resumed.late) == (True, True, 0)
    assert set(resumed.verdicts.values()) == {"holds"}

    released = order(notifications(ingest(spark.read.text(str(tmp_path / "batch")), "json"))).released
    names = ("id", "subscriber", "pattern", "fair", "choice", "from", "until")
    typed = ", ".join(f"{name} {'bigint' if name in ('from', 'until') else 'string'}" for name in names)
    table = spark.createDataFrame([tuple(map(row.get, names)) for row in patterns], typed)
    with partitions(spark, counts[1]):
        alone = detect(released, table).orderBy("time", "rank", "id").collect()
    assert {row.record for row in alone} == composites
    for subscriber, lines in expected.items():
        mine = [row.record for row in alone if subscriber in {each.subscriber for each in row.patterns}]
        theirs = [record for _, record in lines if record]
        assert [record for record in theirs if record in set(mine)] == mine, "in the order of the bus"


# -- while a stream runs -------------------------------------------------------------------------------------


def at(time: int, type: str, id: str = "") -> dict[str, Any]:
    return {"id": id or f"{type}{time}", "producer": "p", "time": time, "type": type}


def test_patterns_that_come_while_a_stream_runs_hold_from_the_watermark_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What is absent is decided by the watermark, or by the end of the input; what is late is not seen."""
    places = {"events": tmp_path / "stream", "patterns": tmp_path / "patterns"}
    write_lines(tmp_path / "subscriptions.jsonl", [])
    watching = {
        "patterns": {"path": str(places["patterns"]), "format": "json", "watch": True},
        "stream": {"available": True},
        "audit": {"trace": False},
    }

    def run(number: int, *, final: bool = False, **rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        """Take what has come; gives the deliveries of the batches that this makes."""
        for name, lines in rows.items():
            write_lines(places[name] / f"{number}.jsonl", lines, age=number)
        running = pipeline(
            spark, tmp_path, "stream", order={"lateness": f"{LATENESS_US}us", "final": final}, **watching
        )
        before = running.output.batches()
        running.run()
        deliveries = running.output.read(spark)
        found = [] if deliveries is None else deliveries.where(~deliveries.batch.isin(before)).collect()
        return sorted((row.time, row.subscriber, *row.subscriptions, taken(row.record)) for row in found)

    pair, absence = "A followed by B within 30 us", "A then no B within 10 us as quiet"
    # The watermark gets to 12: B13 is held, and at 12 it is not known that nothing follows A5 up to 15.
    first = run(
        0,
        patterns=[
            {"id": "pair", "subscriber": "ada", "pattern": pair},
            {"id": "quiet", "pattern": absence},
            {"id": "fair", "subscriber": "bob", "fair": "A and B"},
            {"id": "duo", "subscriber": "cleo", "fair": "duo: A and B"},
        ],
        events=[at(1, "A"), at(5, "A"), at(20, "C"), at(13, "B"), at(4, "B"), at(18, "A")],
    )
    assert first == [
        (4, "ada", "pair", "A1 B4"),
        (4, "bob", "fair", "A1 B4"),
        (4, "cleo", "duo", "A1 B4"),
    ]

    # Taken in at 12, `pair2` and `fair2` do not see A5; and from 50 on `pair` is something else. What `duo` holds
    # stays where others come to see it.
    second = run(
        1,
        patterns=[
            {"id": "pair2", "subscriber": "ada", "pattern": pair},
            {"id": "pair", "subscriber": "eve", "pattern": "C followed by A", "from": 50},
            {"id": "broken", "pattern": "A followed"},
            {"id": "nobody"},
            {"id": "fair2", "subscriber": "bob", "fair": "B and A"},
            {"id": "broken", "fair": "A.x + 1 < B.x"},
            {"id": "circle", "fair": "duo: duo and A"},
            {"id": "over", "subscriber": "cleo", "pattern": "duo followed by C"},
        ],
        events=[at(14, "A"), at(15, "B"), at(40, "C"), at(3, "A", "late")],
    )
    assert second == [
        (13, "ada", "pair", "A5 B13"),
        (13, "bob", "fair", "A5 B13"),
        (13, "cleo", "duo", "A5 B13"),
        (14, "bob", "fair2", "A14 B13"),
        (15, "ada", "pair", "pair2", "A14 B15"),
        (15, "bob", "fair", "A14 B15"),
        (15, "cleo", "duo", "A14 B15"),
        (18, "bob", "fair2", "A18 B15"),
        (20, "cleo", "over", "duo C20"),
        (28, "quiet", "quiet", "A18"),
    ]

    later = [at(60, "C"), at(64, "A"), at(90, "C")]
    other = {"id": "fair", "subscriber": "bob", "fair": "A and C", "from": 50}
    assert run(2, patterns=[{"id": "quiet", "until": 75}, other], events=later) == [
        (64, "bob", "fair", "A64 C60"),
        (64, "eve", "pair", "C60 A64"),
        (74, "quiet", "quiet", "A64"),
    ]
    assert run(3, events=[at(91, "A")], final=True) == [
        (91, "bob", "fair", "A91 C90"),
        (91, "eve", "pair", "C90 A91"),
    ]
    output = pipeline(spark, tmp_path, "stream", **watching).output
    assert [row.id for row in _read(spark, output, "late")] == ["late"]
    assert [(row.line, row.reason.partition(";")[0]) for row in _read(spark, output, "rejected")] == [
        (3, "column 11: the pattern ends too early"),
        (4, "there is no pattern 'nobody' that could be ended"),
        (6, "column 11: unexpected B.x"),
        (7, "patterns see their own composites: duo"),
    ]


def taken(record: str) -> str:
    """What a composite took: events by their ids, composites by their steps."""
    constituents = json.loads(record)["constituents"]
    return " ".join(each["step"] if each["producer"] == "fair" else each["id"] for each in constituents)


def _read(spark: SparkSession, output: Any, channel: str) -> list[Any]:
    found = output.read(spark, channel)
    return [] if found is None else sorted(found.collect())
