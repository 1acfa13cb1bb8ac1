"""The first record names the columns, each further one is one notification or one rejection."""

from __future__ import annotations

import csv as standard
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.filters.schema import Schema
from fairlead.ingest import Fields, Rejection, csv
from fairlead.model import Instant, Notification

TABLE = (
    b"\xef\xbb\xbfid,price,note\r\n"
    b'7,1.5,"a ""b"", c\r\nd"\r\n'
    b"\n"
    b"8,,\n"
    b"9,1\n"
    b"9,1,2,3\n"
    b'"x"y,1,2\n'
    b'10,1e3,5" pipe\n'
    b"\xff,1,2\n"
    b"11,a\rb,\n"
    b'12,"open,1\nz,z'
)


def test_each_record_is_read_by_itself() -> None:
    found = dict(csv.read(io.BytesIO(TABLE), source="a.csv"))
    read = {number: each for number, each in found.items() if isinstance(each, Notification)}
    assert read == {
        2: Notification.of({"id": "7", "price": 1.5, "note": 'a "b", c\r\nd'}),
        5: Notification.of({"id": "8"}),
        9: Notification.of({"id": "10", "price": 1000.0, "note": '5" pipe'}),
    }
    rejected = {number: each for number, each in found.items() if isinstance(each, Rejection)}
    assert {number: each.reason for number, each in rejected.items()} == {
        6: "2 fields under a header of 3",
        7: "4 fields under a header of 3",
        8: "letters behind a closing quote, at letter 4",
        10: "not UTF-8: invalid start byte at byte 1",
        11: "a carriage return outside of quotes; lines end with a line feed",
        12: "a quote that nothing closes, at letter 4; it takes the 1 lines behind it into this row",
    }
    assert rejected[12] == Rejection("a.csv", 12, rejected[12].reason, b'12,"open,1\nz,z')


def test_values_are_typed_by_how_they_read_unless_declared() -> None:
    schema = Schema(attributes={"zip": "string", "open": "boolean", "since": "time", "clock": "int"})
    header = b"id;producer;time;zip;open;since;clock;other\n"
    rows = [
        b"1;2;2024-05-01T10:00:00Z;12345;true;2024-05-01T10:00:00Z;7.0;007\n",
        b"1;2;5;1;yes;;;\n",
        b"1;2;noon;;;;;\n",
        b"1;2;5;1;true;;7.5;\n",
    ]
    first, *others = (each for _, each in csv.read([header, *rows], schema=schema, delimiter=";"))
    assert isinstance(first, Notification)
    assert (first.id, first.producer, first.get("zip"), first.get("open")) == ("1", "2", "12345", True)
    assert first.time == first.get("since") == Instant.parse("2024-05-01T10:00:00Z")
    assert (first.get("clock"), first.get("other")) == (7, "007")
    assert [type(each) for each in others] == [Rejection] * 3


def test_dotted_columns_and_mapped_fields() -> None:
    (_, found), *_ = csv.read([b"no,at.x,at.y\n", b"5,1,2\n"], fields=Fields(id="no"))
    assert isinstance(found, Notification)
    assert (found.id, found.get("at.y"), found.get("no")) == ("5", 2, "5")


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"a,a\n", "two columns of the header are named 'a'"),
        (b"a,,b\n", "column 2 of the header: not an attribute's name"),
        (b"a\xff\n", "not UTF-8"),
        (b'"a"b,c\n', "letters behind a closing quote"),
        (b"a\rb\r1\r2\r", "a carriage return outside of quotes"),
    ],
)
def test_without_a_header_every_record_is_rejected(header: bytes, reason: str) -> None:
    first, second = csv.read([header, b"1,2\n"])
    assert isinstance(first[1], Rejection)
    assert isinstance(second[1], Rejection)
    assert reason in first[1].reason
    assert second == (2, Rejection("input", 2, "no columns: the header cannot be read", b"1,2"))


CELLS = st.text(st.sampled_from('ab",;\n\r é1'), max_size=6)


@given(
    st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=6),
    st.sampled_from([",", ";"]),
    st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=300)
def test_what_the_standard_library_writes_is_read_back(
    rows: list[list[str]], delimiter: str, end: str
) -> None:
    written = io.StringIO(newline="")
    writer = standard.writer(written, delimiter=delimiter, lineterminator=end, quoting=standard.QUOTE_ALL)
    writer.writerow(["a", "b"])
    writer.writerows(rows)
    schema = Schema(attributes={"a": "string", "b": "string"})
    found = csv.read(io.BytesIO(written.getvalue().encode()), schema=schema, delimiter=delimiter)
    expected = [{name: cell for name, cell in zip("ab", row, strict=True) if cell} for row in rows]
    assert [each for _, each in found] == [Notification.of(row) for row in expected]


@given(st.lists(st.sampled_from([b'"', b",", b"\n", b"\r\n", b"a", b'""', b"\xff", b" "]), max_size=40))
@settings(max_examples=300)
def test_no_byte_is_lost_between_records(pieces: list[bytes]) -> None:
    stream = b"".join(pieces)
    split = [record for _, record in csv.records(io.BytesIO(stream))]
    assert b"\n".join(split) == stream.removesuffix(b"\n")
    for _, found in csv.read([b"x,y\n", *io.BytesIO(stream)]):
        assert isinstance(found, Notification | Rejection)


def test_a_quote_that_nothing_closes_takes_time_in_proportion() -> None:
    lines = [b"a,b\n", b'"' + b'""' * 100_000 + b"\n", *([b'x""y\n'] * 100_000)]
    [(_, found)] = csv.read(lines)
    assert isinstance(found, Rejection)
    assert len(found.raw) == sum(map(len, lines[1:])) - 1
