"""Every record becomes one row: what the plain doors read in it, or the reason why they do not."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import PipelineError
from fairlead.filters.schema import Schema
from fairlead.ingest import Fields, Rejection, csv, jsonlines, text, xml
from fairlead.ingest import rows as plain_rows
from fairlead.ingest.times import Times
from fairlead.model import Instant, Notification
from fairlead.model.encoding import content_hash, parse_json
from fairlead.model.order import causes_of
from fairlead.spark.doors import ORIGIN, ColumnDoor, TextDoor
from fairlead.spark.frames import notifications_in
from fairlead.spark.ingestion import ingest, notifications, rejected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Found = Notification | Rejection | None
"""The reading of a row: a notification, a rejection, or that the line was blank."""

LONG = range(-(2**63), 2**63)


def outcomes(batches: Iterable[pa.RecordBatch]) -> dict[tuple[str, int, int], Found]:
    """What every row says, by its place; the envelope's own columns are checked on the way."""
    found: dict[tuple[str, int, int], Found] = {}
    for batch in batches:
        assert batch.schema.names[:7] == [
            "source",
            "producer",
            "id",
            "digest",
            "event_time",
            "sequence",
            "causes",
        ]
        read = batch.filter(
            pa.array([reason is None for reason in batch.column("reason").to_pylist()], pa.bool_())
        )
        held = iter(notifications_in(read))
        for row in zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True):
            source, id, digest, causes, reason, raw, file, block, ordinal = row
            assert source == "s"
            what: Found = None
            if reason is None:
                what = next(held)
                assert (digest is None) == (id is not None)
                assert causes == ([cause._asdict() for cause in causes_of(what)] or None)
            elif reason:
                what = Rejection("s", None, reason, raw)
            assert (file, block, ordinal) not in found
            found[file, block, ordinal] = what
    return found


COLUMNS = ("source", "id", "digest", "causes", "reason", "raw", "file", "block", "ordinal")


def fitting(found: Notification | Rejection, raw: bytes) -> Notification | Rejection:
    """What columns of 64 bits can hold, of what a plain door gives."""
    if isinstance(found, Rejection):
        return Rejection("s", None, found.reason, found.raw)
    if found.time is not None and found.time.microseconds not in LONG:
        reason = f"the time lies outside of 64 bits of microseconds: {found.time.microseconds}"
        return Rejection("s", None, reason, raw)
    if found.sequence is not None and found.sequence not in LONG:
        shown = str(found.sequence)
        shown = shown if len(shown) <= 30 else f"a number of {len(shown)} digits"
        return Rejection("s", None, f"the sequence number lies outside of 64 bits: {shown}", raw)
    return found


def packed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch as the door for columns gets it: all but the origin in one struct."""
    columns = batch.drop_columns([ORIGIN]) if ORIGIN in batch.schema.names else batch
    struct = pa.StructArray.from_arrays(columns.columns, fields=list(columns.schema))
    origin = {ORIGIN: batch.column(ORIGIN)} if ORIGIN in batch.schema.names else {}
    return pa.RecordBatch.from_pydict({"attributes": struct, **origin})


def cut(rows: list[dict[str, Any]], sizes: list[int], kinds: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in batches of these sizes, the rest in one more."""
    start = 0
    for size in [*sizes, len(rows)]:
        yield pa.RecordBatch.from_pylist(rows[start : start + size], kinds)
        start += size


# -- text ------------------------------------------------------------------------------------------------------

PLACE = pa.struct([("file", pa.string()), ("block", pa.int64()), ("ordinal", pa.int64())])
VALUES = pa.schema([("value", pa.binary()), (ORIGIN, PLACE)])

LINES: list[bytes] = [
    b'{"id": "a", "producer": "p", "time": "2024-05-01T10:00:00Z", "sequence": 3, "x": 1.5}',
    b'{"id": 7, "x": [1, 2], "tags": ["a"], "cause": "p/a"}',
    b'{"x": 1}',
    b'{"x": 1.0}',
    b'{"n": 123456789012345678901234567890, "d": 0.1000000000000000055511}',
    b'{"n": {"$number": "nan"}, "t": {"$time": "2024-05-01T10:00:00Z"}}',
    b'{"tuple": [1, "a"], "deep": {"er": {"x": null}}, "cause": ["a", {"producer": "q", "id": 5}]}',
    b'{"id": 1, "sequence": 9223372036854775808}',
    b'{"id": 1, "sequence": -9223372036854775808}',
    b'{"id": 1, "time": 9223372036854775808}',
    b'{"id": 1, "time": -9223372036854775808}',
    b'{"specversion": "1.0", "id": "1", "source": "s", "type": "T", "sequence": "4", "data": {"price": 5}}',
    b'{"specversion": "1.0", "id": "", "source": "s", "type": "T"}',
    b'{"specversion": "1.0", "id": "1"}',
    b'\xef\xbb\xbf{"id": 1}',
    b'  {"id": 1} \r',
    b"",
    b" \t\r",
    b"[1]",
    b'{"a": 1, "a": 2}',
    b'{"a": NaN}',
    b'{"a": "\\ud800"}',
    b'{"a": "\xff"}',
    b'{"a": "\xc3\xa9\xe2\x80\xa8"}',
    b'{"time": "2024-05-01T10:00:00.1234567Z"}',
    b'{"time": "noon"}',
    b'{"id": [1]}',
    b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}",
    b"\x1f\x8b",
]

SCHEMA = Schema(attributes={"x": "int", "since": "time", "tags": "set"})
DOORS = [
    TextDoor("json", "s"),
    TextDoor("json", "s", lift=True),
    TextDoor("json", "s", schema=SCHEMA),
    TextDoor("json", "s", fields=Fields(sequence="x")),
]


def expected_of_lines(
    lines: list[bytes], door: Callable[[Iterable[bytes]], Iterable[tuple[int, Notification | Rejection]]]
) -> dict[int, Found]:
    found: dict[int, Found] = dict.fromkeys(range(len(lines)))
    for number, each in door([line + b"\n" for line in lines]):
        raw = each.raw if isinstance(each, Rejection) else lines[number - 1].strip()
        found[number - 1] = fitting(each, raw.encode() if isinstance(raw, str) else raw)
    return found


@given(
    st.lists(
        st.sampled_from(LINES) | st.binary(max_size=8).filter(lambda line: b"\n" not in line), max_size=20
    ),
    st.sampled_from(DOORS),
    st.lists(st.integers(0, 5), max_size=4),
    st.integers(1, 20),
)
@settings(max_examples=200)
def test_json_lines_are_read_as_the_plain_door_reads_them_however_they_are_cut(
    lines: list[bytes], door: TextDoor, sizes: list[int], second_block: int
) -> None:
    rows = [
        {"value": line, ORIGIN: {"file": "f", "block": 0 if place < second_block else 100, "ordinal": None}}
        for place, line in enumerate(lines)
    ]
    door = pickle.loads(pickle.dumps(door))
    found = outcomes(door(cut(rows, sizes, VALUES)))
    expected = expected_of_lines(
        lines, lambda each: jsonlines.read(each, schema=door.schema, lift=door.lift, fields=door.fields)
    )
    places = [
        ("f", 0, place) if place < second_block else ("f", 100, place - second_block) for place in expected
    ]
    assert found == dict(zip(places, expected.values(), strict=True))


def test_a_flat_record_is_not_written_again_and_any_other_is() -> None:
    given = LINES[:1] + LINES[11:12]
    batches = list(TextDoor("json", "s")(cut([{"value": line} for line in given], [], VALUES)))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows[0]["record"] == given[0].decode()
    assert json.loads(rows[1]["record"])["producer"] == "s"
    assert [row["published"] for row in rows] == [None, given[1].decode()]


def test_a_record_without_an_id_is_known_by_its_content() -> None:
    lines = [b'{"x": [2, 1]}', b'{"x": [1, 2]}', b'{"x": 10.10}']
    [batch] = TextDoor("json", "s")(cut([{"value": line} for line in lines], [], VALUES))
    expected = [content_hash(Notification.read(parse_json(line))) for line in lines]
    assert batch.column("digest").to_pylist() == expected


def test_nothing_at_all_is_rejected() -> None:
    [batch] = TextDoor("json", "s")(cut([{"value": None}], [], VALUES))
    assert batch.column("reason").to_pylist() == ["null, where a record should be"]


DOCUMENTS = [
    b'<notification id="7" producer="p" time="5" sequence="2" x="1.5"><a b="1"/></notification>',
    b'<order no="1"><item/></order>',
    b"<a>",
    "<a x='é'/>".encode("utf-16"),
    b"",
]


def test_xml_documents_are_read_as_the_plain_door_reads_them() -> None:
    rows = [
        {"value": each, ORIGIN: {"file": str(place), "block": None, "ordinal": None}}
        for place, each in enumerate(DOCUMENTS)
    ]
    found = outcomes(TextDoor("xml", "s", fields=Fields(id="no"))(cut(rows, [2], VALUES)))
    expected = [fitting(xml.read(each, fields=Fields(id="no")), each) for each in DOCUMENTS]
    assert list(found.values()) == expected


TABLES = {
    "a": b'id,x,note\r\n1,2.5,"a\nb"\r\n\r\n2,,\n3,1\n\xff,1,2\n',
    "b": b"note,id\nx,1\n",
    "c": b"a,a\n1,2\n",
    "d": b"",
}


def table_rows() -> tuple[list[dict[str, Any]], list[Found]]:
    rows, expected = [], []
    for file, table in TABLES.items():
        for _, record in csv.records(io.BytesIO(table)):
            rows.append({"value": record, ORIGIN: {"file": file, "block": None, "ordinal": None}})
        expected += [fitting(each, b"") for _, each in csv.read(io.BytesIO(table))]
    return rows, expected


@given(st.lists(st.integers(0, 3), max_size=6))
@settings(max_examples=30)
def test_each_csv_file_is_read_under_its_own_header(sizes: list[int]) -> None:
    rows, expected = table_rows()
    said = []
    for batch in TextDoor("csv", "s")(cut(rows, sizes, VALUES)):
        for row in range(batch.num_rows):
            said += outcomes([batch.slice(row, 1)]).values()
    assert [each for each in said if each is not None] == expected
    assert said.count(None) == 1  # the blank line


def test_lines_of_text_are_read_as_the_plain_door_reads_them() -> None:
    lines = [b"\xef\xbb\xbf a\r", b"", b"\xff", b"b c"]
    rows = [{"value": line, ORIGIN: {"file": "f", "block": 0, "ordinal": None}} for line in lines]
    found = outcomes(TextDoor("text", "s")(cut(rows, [1], VALUES)))
    assert list(found.values()) == list(expected_of_lines(lines, text.read).values())


# -- typed columns ---------------------------------------------------------------------------------------------

INSTANTS = st.datetimes(timezones=st.just(dt.UTC))
WORDS = st.text(max_size=4)
TIMES = st.sampled_from(
    [
        "2024-05-01T10:00:00Z",
        "2024-05-01T10:00:00.123456Z",
        "2024-05-01 10:00:00+02:00",
        "2024-02-30T10:00:00Z",
        "2024-05-01T24:00:00Z",
        "0000-05-01T10:00:00Z",
        "2024-05-01T10:00:00.1234567Z",
        "2024-05-01T10:00:00",
        "noon",
        "",
    ]
)
LONGS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats() | st.sampled_from([3.0, 2.0**70])
CAUSE = pa.struct([("producer", pa.string()), ("id", pa.int64())])
COLUMN_KINDS: dict[str, list[tuple[pa.DataType, st.SearchStrategy[Any]]]] = {
    "id": [(pa.string(), WORDS), (pa.int64(), LONGS), (pa.float64(), FLOATS), (pa.bool_(), st.booleans())],
    "producer": [(pa.string(), WORDS), (pa.int32(), st.integers(0, 9))],
    "time": [
        (pa.timestamp("us", "UTC"), INSTANTS),
        (pa.string(), TIMES),
        (pa.string(), st.just("2024-05-01T10:00:00Z")),
        (pa.int64(), LONGS),
        (pa.float64(), FLOATS),
    ],
    "sequence": [(pa.int64(), LONGS), (pa.float64(), FLOATS), (pa.string(), WORDS)],
    "cause": [
        (pa.string(), st.sampled_from(["p/1", "1", "a/b/c"])),
        (CAUSE, st.fixed_dictionaries({"producer": st.none() | WORDS, "id": st.none() | st.integers(0, 9)})),
        (pa.list_(pa.string()), st.lists(WORDS, max_size=2)),
    ],
    "x": [
        (pa.float32(), st.floats(width=32)),
        (pa.decimal128(10, 2), st.decimals(-1000, 1000, places=2).map(Decimal)),
        (pa.binary(), st.binary(max_size=3)),
        (pa.timestamp("us", "Europe/Berlin"), INSTANTS),
        (pa.list_(pa.int64()), st.lists(st.none() | LONGS, max_size=2)),
    ],
    "at.x": [(pa.int64(), LONGS)],
    "in": [
        (
            pa.struct([("a", pa.string()), ("b", pa.struct([("c", pa.bool_())]))]),
            st.fixed_dictionaries({"a": st.none() | WORDS, "b": st.none() | st.just({"c": True})}),
        )
    ],
}


@st.composite
def typed_rows(draw: st.DrawFn) -> tuple[pa.Schema, list[dict[str, Any]]]:
    chosen = draw(st.lists(st.sampled_from(list(COLUMN_KINDS)), unique=True, min_size=1))
    kinds = {name: draw(st.sampled_from(COLUMN_KINDS[name])) for name in chosen}
    # Most rows have all values, so that whole columns speak for most of them.
    row = st.fixed_dictionaries(
        {name: st.one_of(values, values, values, st.none()) for name, (_, values) in kinds.items()}
    )
    rows = draw(st.lists(row, max_size=8))
    return pa.schema([*((name, kind) for name, (kind, _) in kinds.items()), (ORIGIN, PLACE)]), rows


@given(typed_rows(), st.lists(st.integers(0, 4), max_size=3), st.booleans())
@settings(max_examples=200, deadline=None)
def test_columns_mean_what_their_rows_mean(
    given_rows: tuple[pa.Schema, list[dict[str, Any]]], sizes: list[int], by_row: bool
) -> None:
    kinds, given_values = given_rows
    origin = {"file": "f", "block": 0, "ordinal": None}
    batches = list(cut([{**row, ORIGIN: origin} for row in given_values], sizes, kinds))
    # What Arrow holds is the truth: a float of 32 bits is not the one that was given.
    held = [row for batch in batches for row in batch.drop_columns([ORIGIN]).to_pylist()]
    expected = [fitting(plain_rows.read(row), plain_rows.raw_of(row)) for row in held]
    found = outcomes(ColumnDoor("s", by_row=by_row)(map(packed, batches)))
    assert {ordinal: each for (_, _, ordinal), each in found.items()} == dict(enumerate(expected))


def broken_batch() -> pa.RecordBatch:
    letters = pa.array([b"a", b"\xff", b"c", b"d"], pa.binary()).view(pa.string())
    far = pa.array([0, 0, 2**62, 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    lists = pa.ListArray.from_arrays([0, 1, 1, 1, 2], pa.array([b"a", b"\xfe"]).view(pa.string()))
    return pa.RecordBatch.from_arrays(
        [pa.array(["1", "2", "3", "4"]), letters, pa.StructArray.from_arrays([far], ["t"]), lists],
        ["id", "a", "in", "l"],
    )


def test_what_python_cannot_hold_is_rejected_row_by_row() -> None:
    quick, slow = ColumnDoor("s")([packed(broken_batch())])
    assert (quick.num_rows, quick.column("id").to_pylist()) == (1, ["1"])
    assert slow.column("reason").to_pylist() == [
        "not UTF-8 (invalid start byte at byte 1) under 'a'",
        "an instant outside of the years 1 to 9999 under 'in'",
        "not UTF-8 (invalid start byte at byte 1) under 'l'",
    ]
    assert slow.column("attributes").null_count == 3
    assert rb"b'\\xff'" in slow.column("raw")[0].as_py()


# -- on Spark ------------------------------------------------------------------------------------------------


def notifications_of(rows: DataFrame) -> list[Notification]:
    return [each for batch in rows.orderBy("id").toArrow().to_batches() for each in notifications_in(batch)]


def held_in(rows: DataFrame) -> list[Found]:
    """What the rows of a small frame say, in their order."""
    table = rows.toArrow().combine_chunks()
    for name, values in {"file": ["f"] * len(table), "ordinal": range(len(table))}.items():
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values))
    return [each for _, each in sorted(outcomes(table.to_batches()).items(), key=lambda item: item[0][2])]


def test_any_frame_of_typed_columns_is_ingested(spark: SparkSession) -> None:
    frame = spark.sql("""
        select *, named_struct('x', sequence, 'deep.er', price) as at, null as nothing from values
            ('1', 'p', timestamp'2024-05-01 10:00:00Z', 1, 1.5d, array('a', null), 'p/0', 2.50bd),
            (null, 'p', null, null, double('nan'), null, null, null)
        as t(id, producer, time, sequence, price, tags, cause, `cost.eur`)
    """).coalesce(1)
    rows = ingest(frame, source="s").persist()
    first, second = held_in(rows)
    time = dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC)
    assert first == Notification.of(
        dict(
            [
                ("id", "1"),
                ("producer", "p"),
                ("time", time),
                ("sequence", 1),
                ("price", 1.5),
                ("cause", "p/0"),
            ],
            tags=["a", None],
            cost={"eur": Decimal("2.5")},
            at={"x": 1, "deep": {"er": 1.5}},
        )
    )
    assert second == Notification.of(
        {"producer": "p", "price": float("nan"), "at": {"deep.er": float("nan")}}
    )
    held = notifications(rows)
    assert held.columns == [*COLUMN_ORDER, "published", "attributes"]
    assert held.count() == 2
    assert rejected(rows).collect() == []


COLUMN_ORDER = ["source", "producer", "id", "digest", "event_time", "sequence", "causes"]


def test_mapped_fields_stand_under_the_names_of_the_envelope_too(spark: SparkSession) -> None:
    frame = spark.sql("select 7 as no, named_struct('who', 'p') as by, '2024-05-01T10:00:00Z' as `at.time`")
    [found] = held_in(ingest(frame, source="s", fields=Fields(id="no", producer="by.who", time="at.time")))
    record = {"no": 7, "by": {"who": "p"}, "at": {"time": "2024-05-01T10:00:00Z"}}
    assert found == Notification.of({**record, "id": 7, "producer": "p", "time": record["at"]["time"]})  # type: ignore[index]
    assert found.time is not None


def test_numbers_in_a_column_are_instants_of_the_unit_that_is_named(spark: SparkSession) -> None:
    written = {"s": 1_772_442_001, "ms": 1_772_442_001_000, "ns": 1_772_442_001_000_000_000}
    for unit, number in written.items():
        frame = spark.sql(
            f"select id, {number} + ahead as at from values ('1', 0L), ('2', null) as t(id, ahead)"
        )
        [one, other] = notifications_of(ingest(frame, fields=Fields(time="at", times=Times(unit))))
        assert one.time == one.get("time") == Instant(1_772_442_001_000_000)
        assert (one.get("at"), other.time) == (number, None)
    frame = spark.sql("select '1' as id, 1772442001000000001 as time")
    [refused] = rejected(ingest(frame, fields=Fields(times=Times("ns")))).collect()
    assert refused.reason == "an instant outside of the years 1 to 9999 under 'time'"
    with pytest.raises(
        PipelineError, match="the column 'time' is of type string, and times are in the form 'ms'"
    ):
        ingest(spark.sql("select '1' as id, '5' as time"), fields=Fields(times=Times("ms")))


def test_a_schema_admits_columns_and_where_it_reads_them_anew_they_travel_as_text(
    spark: SparkSession,
) -> None:
    frame = spark.sql("select * from values ('1', 2.0d, 'x'), ('2', 2.5d, 'y') as t(id, x, since)").coalesce(
        1
    )
    admitted, refused = held_in(ingest(frame, source="s", schema=Schema(attributes={"x": "int"})))
    assert admitted == Notification.of({"id": "1", "x": 2.0, "since": "x"})
    assert isinstance(refused, Rejection)
    assert refused.reason == "'x' is declared as int, which 2.5 is not"
    times = frame.selectExpr("id", "'2024-05-01T10:00:00Z' as since")
    rows = ingest(times, source="s", schema=Schema(attributes={"since": "time"}))
    assert "record" in rows.columns
    moment = dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC)
    assert held_in(rows)[0] == Notification.of({"id": "1", "since": moment})


def test_json_in_a_column_is_ingested_and_lines_have_no_numbers_without_a_file(spark: SparkSession) -> None:
    values = [line.decode(errors="replace") for line in LINES if b"\xff" not in line and b"\x8b" not in line]
    frame = spark.createDataFrame([(each,) for each in values], "value string").coalesce(1)
    rows = ingest(frame, "json", source="s").persist()
    expected = expected_of_lines([b"", *(each.encode() for each in values)], jsonlines.read)
    found, wanted = held_in(rows), list(expected.values())[1:]
    assert len(found) == len(wanted)
    assert all(each in found for each in wanted)
    assert {(each.file, each.line) for each in rejected(rows).collect()} == {(None, None)}
    assert notifications(rows).count() + rejected(rows).count() + rows.where("reason = ''").count() == len(
        values
    )


@pytest.mark.parametrize(
    ("columns", "fields", "message"),
    [
        ("1 as id, date'2024-05-01' as day", Fields(), "the column 'day' is of type date"),
        (
            "named_struct('t', timestamp_ntz'2024-05-01 00:00:00') as x",
            Fields(),
            "the column 'x.t' is of type",
        ),
        ("array(map('a', 1)) as x", Fields(), "the column 'x' is of type map<string,int>"),
        ("interval 1 day as x", Fields(), "interval day"),
        ("1 as `a..b`", Fields(), "not an attribute's name"),
        ("1 as x", Fields(id="no"), "no column 'no', which is to be the 'id'"),
        ("1 as no, 2 as id", Fields(id="no"), "two columns are named 'id'"),
        ("1 as ID", Fields(id="ID"), "'ID' and 'id' differ in case only"),
        ("null as x", Fields(), "without columns"),
    ],
)
def test_columns_that_no_notification_can_have_are_refused_before_anything_runs(
    spark: SparkSession, columns: str, fields: Fields, message: str
) -> None:
    with pytest.raises(PipelineError, match=re.escape(message)):
        ingest(spark.sql(f"select {columns}"), fields=fields)


def test_a_format_that_does_not_fit_the_frame_is_refused(spark: SparkSession) -> None:
    frame = spark.sql("select 1 as x")
    for format, message in {
        "jsno": "no format of records is named 'jsno'",
        "json": "are in a column `value`",
    }.items():
        with pytest.raises(PipelineError, match=message):
            ingest(frame, format)
    with pytest.raises(PipelineError, match="read from files"):
        ingest(frame.withColumnRenamed("x", "value"), "csv")
