"""Matching on Spark: what `brute` says, in both forms of the content, whole or in parts, and opened once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.delivery import deliveries_of
from fairlead.errors import PipelineError
from fairlead.filters import Filter, parse
from fairlead.matching.brute import Brute
from fairlead.matching.columnar.arrow import notification_at
from fairlead.model import Notification
from fairlead.model.order import OrderKey
from fairlead.spark import matcher, matching
from fairlead.spark.frames import encode
from fairlead.spark.matcher import Matcher, Router
from fairlead.spark.matching import match, pairs, spread
from fairlead.spark.subscriptions import Subscriptions
from fairlead.testing import filters, notifications

KEYS = pa.schema({"time": pa.int64(), "producer": pa.string(), "sequence": pa.int64(), "id": pa.string()})


@pytest.fixture(autouse=True)
def no_disk(monkeypatch):
    """No test survives a loss of power: the files need not be on the disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)


def keyed(times: Sequence[int], payload: str, content: pa.Array) -> pa.RecordBatch:
    """A batch as workers get it: the n-th row has the id n."""
    rows = [{"time": time, "producer": "p", "id": str(row)} for row, time in enumerate(times)]
    batch = pa.RecordBatch.from_pylist(rows, schema=KEYS)
    event_time = pa.array([None] * len(times), pa.int64())
    names = [*KEYS.names, "event_time", payload]
    return pa.RecordBatch.from_arrays([*batch.columns, event_time, content], names)


def expected(
    asked: Sequence[dict[str, Any]], times: Sequence[int], published: Sequence[Notification]
) -> list[tuple[Any, ...]]:
    """The deliveries that the definitions give."""
    brute: Brute[int] = Brute()
    for number, row in enumerate(asked):
        brute.add(number, parse(row["filter"]))
    found = []
    for row, (time, notification) in enumerate(zip(times, published, strict=True)):
        matching = [asked[number] for number in brute.match(notification)]
        valid = [each for each in matching if each.get("from", time) <= time < each.get("until", time + 1)]
        key = OrderKey(time, "p", None, str(row))
        for delivery in deliveries_of(key, [(each["subscriber"], each["id"]) for each in valid]):
            found.append((delivery.subscriber, time, str(row), list(delivery.subscriptions)))
    return sorted(found)


def delivered(batches: Iterator[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert all(row["producer"] == "p" and row["sequence"] is None for row in rows)
    return sorted(
        (each["subscriber"], row["time"], row["id"], each["subscriptions"])
        for row in rows
        for each in row["receivers"]
    )


@st.composite
def subscriptions(draw: st.DrawFn, filter: st.SearchStrategy[Filter]) -> list[dict[str, Any]]:
    texts = draw(st.lists(filter, min_size=1, max_size=12))
    rows: list[dict[str, Any]] = []
    for number, each in enumerate(texts):
        row = {"id": f"s{(7 * number) % 13}", "subscriber": draw(st.sampled_from("uvw")), "filter": str(each)}
        if draw(st.booleans()):
            row["from"] = draw(st.integers(1, 5))
        if draw(st.booleans()):
            row["until"] = draw(st.integers(6, 9))
        rows.append(row)
    return rows


def read_in_parts(directory: Any, asked: Sequence[dict[str, Any]], count: int) -> Subscriptions:
    """Subscriptions in so many parts, as changes leave them behind."""
    each = [Subscriptions.read(asked[first::count], directory) for first in range(count)]
    parts = tuple(
        replace(part, number=number) for number, one in enumerate(each) for part in one.parts if part.count
    )
    return replace(each[0], parts=parts)


@settings(max_examples=40)
@given(st.data())
def test_records_are_delivered_to_those_that_brute_says(tmp_path_factory, data):
    asked = data.draw(subscriptions(filters(templates=True, paths=True)))
    published = data.draw(st.lists(notifications(templates=True, paths=True), min_size=1, max_size=6))
    times = data.draw(st.lists(st.integers(0, 10), min_size=len(published), max_size=len(published)))
    parts = data.draw(st.integers(1, 3))
    read = read_in_parts(tmp_path_factory.mktemp("index"), asked, parts)
    batch = keyed(times, "record", pa.array(map(encode, published)))
    assert delivered(Matcher((read,))([batch])) == expected(asked, times, published)


_NATIVE = {
    "a": st.integers(0, 6),
    "x": st.sampled_from((0.0, 1.0, 2.5, 6.0, float("nan"))),
    "y": st.sampled_from(("", "a", "ab", "aba")),
    "d": st.sampled_from((Decimal("1.50"), Decimal("2.00"))),
    "t": st.lists(st.sampled_from(("a", "b")), max_size=2),
}
_STRUCT = pa.struct(
    {
        "a": pa.int32(),
        "x": pa.float64(),
        "y": pa.string(),
        "d": pa.decimal128(10, 2),
        "t": pa.list_(pa.string()),
    }
)


@settings(max_examples=40)
@given(st.data())
def test_native_columns_are_delivered_to_those_that_brute_says(tmp_path_factory, data):
    asked = data.draw(subscriptions(filters(names=("a", "x", "y", "d", "t"))))
    record = st.fixed_dictionaries({name: st.none() | each for name, each in _NATIVE.items()})
    records = data.draw(st.lists(st.none() | record, min_size=1, max_size=8))
    times = data.draw(st.lists(st.integers(0, 10), min_size=len(records), max_size=len(records)))
    content = pa.array(records, _STRUCT)
    rows = pa.RecordBatch.from_struct_array(pa.array([each or {} for each in records], _STRUCT))
    published = [notification_at(rows, row) for row in range(len(records))]
    parts = data.draw(st.integers(1, 3))
    read = read_in_parts(tmp_path_factory.mktemp("index"), asked, parts)
    batch = keyed(times, "attributes", content)
    found = delivered(Matcher((read,))([batch.slice(1), batch.slice(0, 1)]))
    assert found == expected(asked, times, published)


@settings(max_examples=25)
@given(st.data())
def test_what_is_placed_is_found_where_it_is_sent(tmp_path_factory, data):
    asked = data.draw(subscriptions(filters()))
    published = data.draw(st.lists(notifications(), min_size=1, max_size=6))
    times = [5] * len(published)
    read = Subscriptions.read(asked, tmp_path_factory.mktemp("index"), part_max=2)
    targets = matching._targets(read, 0)
    assert len(targets) == len(read.parts) >= len(asked) / 2
    batch = keyed(times, "record", pa.array(map(encode, published)))
    buckets = tuple(frozenset(part.bucket for part in target.parts) for target in targets)
    sent = [batch] if read.placement is None else list(Router(read.placement, buckets, copies=2)([batch]))
    found: dict[tuple[Any, ...], list[str]] = {}
    for subscriber, time, id, ids in delivered(Matcher(targets, memory=1)(sent)):
        found.setdefault((subscriber, time, id), []).extend(ids)
    merged = sorted((*key, sorted(ids)) for key, ids in found.items())
    assert merged == expected(asked, times, published)


def test_a_row_that_matches_very_much_is_worked_through_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(matcher, "_AT_ONCE", 1000)
    asked = [
        {"id": f"{number:04}", "subscriber": f"u{number % 7}", "filter": "x >= 0"} for number in range(300)
    ]
    read = Subscriptions.read(asked, tmp_path)
    content = pa.array([{"x": number} for number in range(700)])
    batch = keyed([0] * 700, "attributes", content)
    pieces = list(Matcher((read,))([batch]))
    assert len(pieces) > 20
    rows = [row for piece in pieces for row in piece.to_pylist()]
    assert len(rows) == 700
    assert all(len(row["receivers"]) == 7 for row in rows)
    assert rows[-1]["receivers"][-1]["subscriptions"] == [f"{number:04}" for number in range(6, 300, 7)]


# -- on Spark ----------------------------------------------------------------------------------------------

ASKED = [
    {"id": "ibm", "subscriber": "ada", "filter": 'symbol = "IBM"'},
    {"id": "cheap", "subscriber": "ada", "filter": "price < 10"},
    {"id": "late", "subscriber": "bob", "filter": "exists price", "from": "2024-05-01T10:00:01Z"},
    {"id": "7", "filter": 'tags contains "hot"'},
]
TABLE = """
    SELECT * FROM VALUES
        (1, 'IBM', 5.0D, TIMESTAMP '2024-05-01 10:00:00Z', array('hot')),
        (2, 'IBM', 50.0D, TIMESTAMP '2024-05-01 10:00:01Z', NULL),
        (3, 'SAP', NULL, NULL, array('cold')),
        (4, 'SAP', 50.0D, TIMESTAMP '2024-05-01 10:00:00Z', array())
    AS t(id, symbol, price, time, tags)
"""
MAY_US = 1_714_557_600_000_000
DELIVERED = {
    ("ada", MAY_US, "", None, "1", ("cheap", "ibm")),
    ("7", MAY_US, "", None, "1", ("7",)),
    ("ada", MAY_US + 1_000_000, "", None, "2", ("ibm",)),
    ("bob", MAY_US + 1_000_000, "", None, "2", ("late",)),
}
COLUMNS = ["subscriber", "time", "producer", "sequence", "id", "subscriptions"]


def collected(frame: Any) -> set[tuple[Any, ...]]:
    rows = [tuple(tuple(each) if isinstance(each, list) else each for each in row) for row in frame.collect()]
    assert len(set(rows)) == len(rows)
    return set(rows)


def test_any_table_with_an_id_is_matched_and_pairs_has_a_row_for_each_subscription(spark):
    table = spark.sql(TABLE)
    found = match(table, ASKED)
    assert found.columns == COLUMNS
    assert collected(found) == DELIVERED
    each = collected(pairs(found).select("subscriber", "id", "subscription"))
    assert each == {(who, id, name) for who, _, _, _, id, names in DELIVERED for name in names}
    subscribed = spark.createDataFrame(
        [(row["id"], row["filter"]) for row in ASKED], "id string, filter string"
    )
    ids = {(row[0], row[4]) for row in collected(match(table.repartition(3), subscribed))}
    assert ids == {
        ("ibm", "1"),
        ("ibm", "2"),
        ("cheap", "1"),
        ("late", "1"),
        ("late", "2"),
        ("late", "4"),
        ("7", "1"),
    }


def test_the_content_comes_along_when_asked_for(spark, tmp_path):
    read = Subscriptions.read(ASKED, tmp_path)
    found = match(spark.sql(TABLE), read, payload=True)
    assert found.columns == [*COLUMNS, "attributes"]
    prices = {(row.id, row.attributes.symbol, row.attributes.price) for row in found.collect()}
    assert prices == {("1", "IBM", 5.0), ("2", "IBM", 50.0)}
    same = spark.sql(TABLE).selectExpr("'p' AS producer", "CAST(NULL AS BIGINT) AS sequence", *(
        ("string(id) AS id", "unix_micros(time) AS event_time", "struct(symbol, price, tags) AS attributes")
    ))  # fmt: skip
    for frame in (match(same, read), match(same, read, payload=True).drop("attributes")):
        assert {(row[0], row[4], row[5]) for row in collected(frame)} == {
            (row[0], row[4], row[5]) for row in DELIVERED
        }
    ordered = spark.sql(
        "SELECT 3L AS time, 'p' AS producer, 9L AS sequence, 'n' AS id, 3L AS event_time, "
        """'{"price": 5, "symbol": "SAP"}' AS record"""
    )
    [row] = match(ordered, read, payload=True).collect()
    assert tuple(row) == ("ada", 3, "p", 9, "n", ["cheap"], '{"price": 5, "symbol": "SAP"}')


def test_only_the_columns_that_filters_look_at_travel(spark, tmp_path):
    table = spark.sql(TABLE).selectExpr("*", "'much' AS text", "struct(1 AS b) AS a", "7 AS `c.d`")
    plain = Subscriptions.read([{"id": "1", "filter": "a.b = 1 and price > 10 and c.d = 7"}], tmp_path)
    whole = Subscriptions.read([{"id": "1", "filter": "//item"}], tmp_path)
    none = Subscriptions.read([{"id": "1", "filter": "true"}], tmp_path)
    for each, columns in ((plain, ["price", "a", "c.d"]), (whole, table.columns), (none, ["id"])):
        named, is_whole = matching._attributes(each)
        rows, names = matching.keyed(table, None if is_whole else named)
        assert list(names) == columns
        assert len(rows.columns) == 4 + len(columns)
    assert {row.id for row in match(table, plain).collect()} == {"2", "4"}
    assert match(table, none).count() == 4


def test_subscriptions_too_large_for_a_worker_are_placed_and_merged_again(spark, tmp_path):
    others = [
        {"id": f"x{number}", "subscriber": "ada", "filter": f'symbol = "S{number}"'} for number in range(20)
    ]
    read = Subscriptions.read([*ASKED, *others], tmp_path, part_max=6)
    assert read.placement is not None
    assert len(read.parts) > 3
    found = match(spark.sql(TABLE), read, memory=1, payload=True)
    assert found.columns == [*COLUMNS, "attributes"]
    assert collected(found.drop("attributes")) == DELIVERED
    assert collected(match(spark.sql(TABLE), read)) == DELIVERED  # they do fit, after all


def opened(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What this worker has opened so far."""
    import os

    for _ in batches:
        parts = matcher.OPENED
        yield pa.RecordBatch.from_pydict(
            {"worker": [os.getpid()] * len(parts), "part": list(parts), "times": list(parts.values())}
        )


def test_a_worker_opens_the_subscriptions_once_for_many_queries(spark, tmp_path):
    # No other test has these: parts are known by their content, wherever they lie.
    read = Subscriptions.read([*ASKED, {"id": "once", "filter": "x = 1"}], tmp_path)
    changed = read.changed([{"id": "new", "filter": "price > 1"}], 5).subscriptions
    for each in (read, changed, read, changed):
        assert match(spark.sql(TABLE).repartition(4), each).count() >= 4
    probe = spark.range(64).repartition(8).mapInArrow(opened, "worker long, part string, times long")
    rows = [row for row in probe.distinct().collect() if row.part in {part.name for part in changed.parts}]
    assert rows
    assert all(row.times == 1 for row in rows)


def test_shipped_files_serve_workers_that_do_not_see_the_directory(spark, tmp_path):
    read = Subscriptions.read(ASKED, tmp_path / "index")
    elsewhere = replace(
        read, directory="/nowhere", parts=tuple(replace(part, directory="/nowhere") for part in read.parts)
    )
    shipped = match(spark.sql(TABLE), read, ship=True)
    assert collected(shipped) == DELIVERED
    rows, names = matching.keyed(spark.sql(TABLE), None)
    # A worker may have it open already: what it says without the cache is what counts.
    afresh = rows.mapInArrow(
        Afresh((elsewhere,), names), matching.matched(spark.sql(TABLE), read, payload=False).schema
    )
    found = matching.deliveries_of(afresh, payload=False)
    assert collected(found) == DELIVERED


class Afresh(Matcher):
    """A matcher in a worker that has nothing open."""

    def __call__(self, batches: Any) -> Iterator[pa.RecordBatch]:
        from fairlead.spark import parts

        matcher._SETS.clear()
        matcher._PARTS.clear()
        parts.mapped.cache_clear()
        yield from Matcher.__call__(self, batches)


def test_few_partitions_are_spread_and_even_ones_are_left(spark):
    one = spark.range(1000).coalesce(1)
    parts = {row[0] for row in spread(one, 2).selectExpr("spark_partition_id()").distinct().collect()}
    assert parts == {0, 1}
    even = spark.range(0, 1000, 1, 2)
    assert spread(even, 2) is even


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("1 AS x", "notifications without an id: the columns are x"),
        ("1.5 AS id", "the column 'id' is a string or a whole number, not decimal"),
        ("'a' AS id, '2024' AS time", "the column 'time' is a timestamp or whole microseconds, not string"),
        ("'a' AS id, 'x' AS sequence", "the column 'sequence' is a whole number, not string"),
    ],
)
def test_a_table_that_cannot_be_keyed_is_refused(spark, columns, message):
    with pytest.raises(PipelineError, match=message):
        match(spark.sql(f"SELECT {columns}"), ASKED)
