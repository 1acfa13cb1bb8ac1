"""The order stage does on DataFrames, batch by batch, what `OrderedQueue` does with notifications."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from fairlead.delivery import OrderedQueue
from fairlead.model import Notification
from fairlead.model.encoding import content_hash
from fairlead.model.order import (
    BEGINNING,
    END,
    Ordering,
    OrderKey,
    causes_of,
    copy_rank,
    event_time,
    identity_of,
)
from fairlead.spark import orderer
from fairlead.spark.frames import ENVELOPE_TYPES, KEY, encode
from fairlead.spark.orderer import LIGHT, OrderTogether
from fairlead.spark.ordering import Facts, Ordered, OrderState, order, watermark_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

SOURCES = ("left", "right")
NOTIFICATIONS = ", ".join(f"{name} {kind}" for name, kind in ENVELOPE_TYPES.items()) + ", record string"
ROWS = NOTIFICATIONS + ", time bigint, outcome string"
LAST = "producer string, sequence bigint, id string, time bigint"
REMEMBERED = "identity binary, time bigint"
SCHEMA = pa.schema(
    [
        ("producer", pa.string()),
        ("id", pa.string()),
        ("event_time", pa.int64()),
        ("sequence", pa.int64()),
        ("causes", pa.list_(pa.struct([("producer", pa.string()), ("id", pa.string())]))),
        ("time", pa.int64()),
        ("arrived", pa.bool_()),
    ]
)


class Arrived(NamedTuple):
    notification: Notification
    source: str

    @property
    def row(self) -> tuple[Any, ...]:
        one = self.notification
        return (
            self.source,
            one.producer,
            one.id,
            content_hash(one) if one.id is None else None,
            None if one.time is None else one.time.microseconds,
            one.sequence,
            [tuple(cause) for cause in causes_of(one)] or None,
            None,
            encode(one),
        )

    def rank(self, before: Ordering) -> tuple[Any, ...]:
        """The order in which the arrivals of a batch are taken: of copies, those last that are late."""
        one, digest = self.notification, self.row[3]
        last = {key.producer: (key.sequence, key.id) for key in before.last}
        number = (one.sequence, one.id or digest)
        overtaken = one.sequence is not None and number < last.get(one.producer, number)
        return (
            one.producer,
            one.sequence is not None,
            one.sequence or 0,
            one.id or digest,
            overtaken or event_time(one) < before.bound,
            *copy_rank(one),
            self.source,
        )


def note(**fields: Any) -> Notification:
    return Notification.of(fields)


# -- random streams ----------------------------------------------------------------------------------------


class Stream(NamedTuple):
    lateness: int
    remember: int
    batches: list[list[Arrived]]


def stream(rng: Random, kinds: str) -> Stream:
    """Producers without numbers (p), with (n), with some (m) and with causes (c); late ones, and copies of all."""
    producers = [f"{rng.choice(kinds)}{number}" for number in range(40)]
    made: list[Notification] = []
    for producer in producers:
        start, step = rng.randrange(40), rng.choice((0, 2, 10))
        for place in range(rng.randrange(12)):
            fields: dict[str, Any] = {"producer": producer, "x": rng.randrange(2)}
            if rng.random() < 0.9:
                fields["time"] = max(0, start + place * step + rng.randrange(-20, 20))
            if producer[0] in "nc" or (producer[0] == "m" and rng.random() < 0.6):
                fields["sequence"] = place + rng.choice((0, 0, 0, 1, -1, 5))
            if rng.random() < 0.7:
                # A number belongs to one identity.
                elsewhere = "sequence" not in fields and rng.random() < 0.3
                fields["id"] = str(rng.randrange(12) if elsewhere else fields.get("sequence", place))
            if producer[0] == "c" and rng.random() < 0.7:
                several = range(rng.randrange(1, 3))
                fields["cause"] = [f"{rng.choice(producers)}/{rng.randrange(12)}" for _ in several]
            made += [note(**fields)] * rng.choice((1, 1, 1, 1, 2, 4))
            if rng.random() < 0.2:  # another content at the same time, or the same one written otherwise
                made.append(note(**{**fields, "x": rng.randrange(3)}))
                made.append(note(**dict(reversed(fields.items()))))
    delay = rng.choice((30, 100))
    made.sort(key=lambda one: event_time(one) + rng.uniform(0, delay))
    arrived = [Arrived(one, rng.choice(SOURCES)) for one in made]
    cuts = sorted(rng.sample(range(len(arrived) + 1), 3))
    batches = [arrived[first:end] for first, end in pairwise([0, *cuts, len(arrived)])]
    lateness = rng.choice((0, 3, 10))
    return Stream(lateness, rng.choice((lateness, 25, 10**6)), batches)


class Outcome(NamedTuple):
    """What a batch led to."""

    watermark: int
    released: list[tuple[Any, ...]]
    held: list[tuple[Any, ...]]
    late: list[tuple[Any, ...]]
    repeated: tuple[int, int]
    """Duplicates with the same content, and with another."""


def by_queue(stream: Stream) -> Iterator[Outcome]:
    queue, before = OrderedQueue(stream.lateness, SOURCES, remember_us=stream.remember), (0, 0)
    for number, batch in enumerate(stream.batches, 1):
        before_it = Ordering.restore(queue.watermark, (), queue._ordering.last)
        for each in sorted(batch, key=lambda each: each.rank(before_it)):
            queue.add(each.notification, each.source)
        if number == len(stream.batches):
            queue.close()
        late = [(each.notification, each.watermark) for each in queue.take_late()]
        released = [(*key.rank, encode(one)) for key, one in queue.release()]
        held = [(*OrderKey.of(one, t or 0).rank, t is None, encode(one)) for one, t in queue._ordering.held]
        counts = queue.counts["duplicate"], queue.counts["conflict"]
        repeated, before = (counts[0] - before[0], counts[1] - before[1]), counts
        yield Outcome(
            queue.watermark,
            released,
            sorted(held),
            sorted((*OrderKey.of(one, watermark).rank, encode(one)) for one, watermark in late),
            repeated,
        )


def by_spark(spark: SparkSession, stream: Stream, *, few: bool = False) -> Iterator[Outcome]:
    state: OrderState | None = None
    newest = dict.fromkeys(SOURCES, BEGINNING)
    for number, batch in enumerate(stream.batches, 1):
        arrivals = spark.createDataFrame([each.row for each in batch], NOTIFICATIONS)
        observed: dict[str, int] = {}
        for each in batch:
            observed[each.source] = max(event_time(each.notification), observed.get(each.source, BEGINNING))
        newest, bound = watermark_of(newest, observed, stream.lateness)
        ordered = order(
            arrivals,
            state,
            END if number == len(stream.batches) else bound,
            few=few,
            remember_us=stream.remember,
        )
        # One job for all that the properties would select, each with one of its own.
        ordered = written(spark, ordered)
        if not ordered.rows.where("outcome = 'doubtful'").isEmpty():
            assert not few
            ordered = written(spark, ordered.settled())
        last = spark.createDataFrame(ordered.last.collect(), LAST)
        remembered = spark.createDataFrame(ordered.state.remembered.collect(), REMEMBERED)
        state = replace(ordered.state, last=last, remembered=remembered)
        became: dict[str, list[Row]] = defaultdict(list)
        for row in ordered.rows.collect():
            became[row.outcome].append(row)
        before = ordered.before.bound
        yield Outcome(
            ordered.bound,
            sorted((*row_key(row), row.record) for row in became["released"]),
            sorted((*row_key(row, row.time or 0), row.time is None, row.record) for row in became["held"]),
            sorted((*row_key(row, before), row.record) for row in became["late"]),
            (len(became["duplicate"]), len(became["conflict"])),
        )


def written(spark: SparkSession, ordered: Ordered) -> Ordered:
    """The same as it comes back from where it was kept, its plan cut off."""
    rows = spark.createDataFrame(ordered.rows.collect(), ROWS)
    return replace(ordered, rows=rows)


def row_key(row: Row, time: int | None = None) -> tuple[Any, ...]:
    return OrderKey(row.time if time is None else time, row.producer, row.sequence, row.id).rank


@pytest.mark.parametrize(("kinds", "few"), [("p", False), ("pnm", False), ("pnmcc", False), ("pnmcc", True)])
@settings(max_examples=1)
@given(seed=st.integers(0, 10**9))
def test_batch_by_batch_the_stage_does_what_the_queue_does(
    spark: SparkSession, kinds: str, few: bool, seed: int
) -> None:
    made = stream(Random(seed), kinds)
    for of_spark, of_queue in zip(by_spark(spark, made, few=few), by_queue(made), strict=True):
        assert of_spark == of_queue


# -- the kernel --------------------------------------------------------------------------------------------


def light(one: Notification, time: int | None, arrived: bool) -> dict[str, Any]:
    row = dict(zip(ENVELOPE_TYPES, Arrived(one, "").row, strict=False))
    row["causes"] = row["causes"] and [{"producer": producer, "id": id} for producer, id in row["causes"]]
    return {**{name: row[name] for name in LIGHT[:5]}, "time": time, "arrived": arrived}


@given(seed=st.integers(0, 10**9))
def test_the_kernel_goes_on_from_its_rows_as_one_ordering_that_never_stopped(seed: int) -> None:
    rng = Random(seed)
    whole = Ordering()
    held: list[tuple[Notification, int | None]] = []
    last: dict[str, OrderKey] = {}
    bounds = [*sorted(rng.randrange(60) for _ in range(3)), END]
    for number, (before, bound) in enumerate(pairwise([BEGINNING, *bounds])):
        arrived = [
            note(
                id=f"{number}.{place}",
                producer=rng.choice("ab"),
                time=rng.randrange(60),
                **({"sequence": rng.randrange(8)} if rng.random() < 0.6 else {}),
                cause=f"{rng.choice('ab')}/{rng.randrange(3)}.{rng.randrange(5)}",
            )
            for place in range(5)
        ]
        rows = [light(one, None, True) for one in arrived]
        rows += [light(one, time, False) for one, time in held]
        rows += [
            {"producer": key.producer, "id": key.id, "sequence": key.sequence, "time": key.time}
            for key in last.values()
        ]
        rng.shuffle(rows)
        half = len(rows) // 2
        [placed] = OrderTogether(before, bound)(
            pa.RecordBatch.from_pylist(part, SCHEMA) for part in (rows[:half], rows[half:])
        )

        arrived.sort(key=lambda one: OrderKey.of(one, 0).rank)
        expected = {identity_of(one): (None, True) for one in arrived if not whole.add(one)}
        released = whole.close() if bound == END else whole.advance(bound)
        expected |= {key.identity: (key.time, False) for key, _ in released}
        held, last = list(whole.held), {key.producer: key for key in whole.last}
        expected |= {identity_of(one): (time, False) for one, time in held}
        assert expected == {
            (row["producer"], row["id"]): (row["time"], row["_refused"]) for row in placed.to_pylist()
        }


def test_the_kernel_takes_nothing_for_nothing() -> None:
    assert list(OrderTogether(BEGINNING, END)([])) == []
    [] = OrderTogether(BEGINNING, END)([pa.RecordBatch.from_pylist([], SCHEMA)])


@given(seed=st.integers(0, 10**9))
def test_columns_and_one_ordering_agree_on_chains_and_causes(seed: int) -> None:
    rng = Random(seed)
    bound = rng.choice((20, 40, END))
    made = [
        note(
            id=str(place),
            producer=rng.choice("abc"),
            time=rng.randrange(60),
            **({"sequence": rng.randrange(30)} if rng.random() < 0.7 else {}),
            # Of what came before: most causes do not lead back to themselves.
            **(
                {"cause": f"{rng.choice('abc')}/{rng.randrange(place)}"}
                if place and rng.random() < 0.4
                else {}
            ),
        )
        for place in range(40)
    ]
    rows = pa.Table.from_pylist([light(one, None, True) for one in made], SCHEMA)
    by_columns = orderer._Columns(rows, BEGINNING).became(bound)
    exact = orderer._one_by_one(rows, BEGINNING, bound)
    if by_columns is not None:
        assert (by_columns.time.to_pylist(), by_columns.outcome.to_pylist()) == (
            exact.time.to_pylist(),
            exact.outcome.to_pylist(),
        )


def test_columns_tell_of_most_runs() -> None:
    made = [note(id=str(n), producer="p", time=n, sequence=n, cause=str(n // 2)) for n in range(1, 500)]
    rows = pa.Table.from_pylist([light(one, None, True) for one in made], SCHEMA)
    assert orderer._Columns(rows, BEGINNING).became(END) is not None


# -- by example --------------------------------------------------------------------------------------------


def frame(spark: SparkSession, *notifications: Notification) -> DataFrame:
    return spark.createDataFrame([Arrived(one, "left").row for one in notifications], NOTIFICATIONS)


def keys(rows: DataFrame) -> list[tuple[int, str]]:
    return [(row.time, row.id) for row in rows.orderBy(*KEY).collect()]


def test_each_frame_has_its_part_and_the_state_goes_on(spark: SparkSession) -> None:
    arrived = (note(id="6", sequence=6, time=60), note(id="8", sequence=8, time=100), note(id="a", time=10))
    first = written(spark, order(frame(spark, *arrived, arrived[-1]), bound=50))
    assert keys(first.released) == [(10, "a")]
    assert keys(first.held) == [(None, "6"), (None, "8")]
    assert [row.id for row in first.duplicates.collect()] == ["a"]
    assert first.late.count() == first.last.count() == 0

    arrived = (note(id="7", sequence=7, time=10), note(id="9", sequence=9, time=20), note(id="a", time=10))
    second = written(spark, order(frame(spark, *arrived), first.state, bound=65))
    assert keys(second.released) == [(60, "6"), (60, "7")]
    assert keys(second.held) == [(100, "8"), (100, "9")]
    assert [row.id for row in second.duplicates.collect()] == ["a"]
    assert second.late.count() == 0
    assert [tuple(row) for row in second.last.collect()] == [("", 9, "9", 100)]

    # By its number late, by its time not: it is remembered, and its copy is a duplicate.
    resent = note(id="5", sequence=5, time=500)
    third = written(spark, order(frame(spark, resent), second.state, bound=70))
    assert [row.id for row in third.late.collect()] == ["5"]
    fourth = written(spark, order(frame(spark, resent), third.state))
    assert [row.id for row in fourth.duplicates.collect()] == ["5"]
    assert keys(fourth.released) == [(100, "8"), (100, "9")]
    assert fourth.late.count() == fourth.held.count() == 0


def test_of_one_identity_the_same_content_stands_whatever_comes_first(spark: SparkSession) -> None:
    copies = [note(id="1", x=2), note(id="1", x=1), note(id="1", x=1)]
    made = f"{content_hash(note(y=1))}-1"
    equals = [note(y=1), note(y=1), note(id=made, z=1)]
    for every in (copies + equals, equals[::-1] + copies[::-1]):
        found = {row.id: row.record for row in order(frame(spark, *every)).settled().released.collect()}
        assert found["1"] == encode(copies[1])
        assert set(found) == {"1", made, made.replace("-1", "-2")}


def test_the_same_copy_stands_whether_few_or_many_are_put_in_order(spark: SparkSession) -> None:
    values: tuple[Any, ...] = (1, 1.0, "1", 10, 9.5, "é", "z", True)
    records = frame(spark, *(note(id=f"{n}", x=x) for n in range(8) for x in values[n:] + values[: n // 2]))
    columns = "struct<x: double, y: string, z: struct<w: array<int>>>"
    typed = records.withColumn("attributes", F.from_json("record", columns)).drop("record")
    # A double cannot tell 1 from 1.0, but it is not the text "1", and 9.5 comes before 10 only as a number.
    for rows, content in ((records, "record"), (typed, "attributes")):
        few, many = (
            {row.id: row[content] for row in order(rows, few=few).settled().released.collect()}
            for few in (True, False)
        )
        assert few == many
        assert len(few) == 8


@pytest.mark.parametrize("few", [True, False])
def test_the_same_typed_copy_stands_however_the_copies_lie(spark: SparkSession, few: bool) -> None:
    def standing(*copies: Notification) -> Row:
        content = F.from_json("record", "struct<x: int, y: int, at: timestamp>").alias("attributes")
        rows = frame(spark, *copies).coalesce(1).select(*ENVELOPE_TYPES, content)
        [stands] = order(rows, few=few).settled().released.select("attributes.*").collect()
        return stands

    # One value in one column or in the other, and two instants in one millisecond.
    instant = "2026-01-01T00:00:00.00000"
    for one, other in (({"x": 1}, {"y": 1}), ({"at": f"{instant}1Z"}, {"at": f"{instant}2Z"})):
        copies = note(id="1", **one), note(id="1", **other)
        found = standing(*copies)
        assert found == standing(*copies[::-1])
        assert any(value is not None for value in found)


@pytest.mark.parametrize("typed_first", [True, False])
def test_what_is_held_goes_on_when_the_content_changes_its_form(
    spark: SparkSession, typed_first: bool
) -> None:
    def form(rows: DataFrame, typed: bool) -> DataFrame:
        content = F.from_json("record", "struct<x: bigint>")
        return rows.withColumn("attributes", content).drop("record") if typed else rows

    one, two = note(id="1", time=10, x=1), note(id="2", time=20, x=2)
    first = order(form(frame(spark, one), typed_first), bound=5)
    second = order(form(frame(spark, two), not typed_first), first.state)
    found = {row.id: row.record for row in second.released.collect()}
    assert {id: json.loads(record)["x"] for id, record in found.items()} == {"1": 1, "2": 2}


def test_typed_columns_are_ordered_as_they_are_even_where_they_hold_maps(spark: SparkSession) -> None:
    rows = frame(spark, note(id="1", time=5), note(id="1", time=5)).drop("record")
    for content in ("named_struct('x', 1.5)", "named_struct('m', map('k', 1))"):
        ordered = order(rows.withColumn("attributes", F.expr(content)))
        assert keys(ordered.released) == [(5, "1")]
        assert ordered.released.columns[-2:] == ["attributes", "time"]


@pytest.mark.parametrize(
    ("facts", "exchanges"),
    [
        (Facts(has_digests=False, has_sequences=False, has_causes=False), 1),
        (Facts(has_digests=True, has_sequences=False, has_causes=False), 1),
        (Facts(has_digests=True, has_sequences=True, has_causes=False), 2),
    ],
)
def test_nothing_is_planned_for_what_there_is_not(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], facts: Facts, exchanges: int
) -> None:
    arrivals = frame(spark, note(id="1", time=5))
    order(arrivals, bound=50, facts=facts).rows.explain()
    plan = capsys.readouterr().out
    assert plan.count("Exchange") == exchanges
    assert "MapInArrow" not in plan
    assert Facts.of(arrivals) == Facts(has_digests=False, has_sequences=False, has_causes=False)


def test_a_source_that_is_first_seen_holds_the_watermark_back() -> None:
    first = watermark_of({"a": BEGINNING}, {"b": 100}, 10)
    assert first == ({"a": BEGINNING, "b": 100}, BEGINNING)
    second = watermark_of(first.newest, {"c": 50, "a": 70, "b": 90}, 10)
    assert second == ({"a": 70, "b": 100, "c": 50}, 40)
    assert watermark_of({}, {}, 10) == ({}, BEGINNING)
