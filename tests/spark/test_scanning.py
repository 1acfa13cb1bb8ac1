"""Where a scan is sure of a text, the exact reader finds the same there; where it is not, that one decides."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairlead.errors import ValueRefused
from fairlead.ingest import records
from fairlead.model import ABSENT, Notification
from fairlead.model.encoding import parse_json
from fairlead.model.values import Multi, Record, key_of
from fairlead.spark.doors import TextDoor
from fairlead.spark.frames import decode
from fairlead.spark.scanning import columns_in

NAMES = ("id", "time", "sequence", "a", "a.b", "b.c.d", "tuple", "n")

words = st.sampled_from(
    [
        "",
        "x",
        "7",
        "ä",
        "\\",
        '"',
        "\n",
        "a.b",
        "$point",
        "\u0000",
        "\ud800",
        "2024-05-06T07:00:00Z",
        "2024-02-30T07:00:00Z",
    ]
) | st.text(max_size=4)
numbers = (
    st.integers(-(10**6), 10**6)
    | st.sampled_from([2**53, 2**53 + 1, -(2**63), 10**18, 10**19, 0])
    | st.floats(allow_nan=False, allow_infinity=False)
)
names = st.sampled_from(
    [*"abcdn", "id", "time", "sequence", "tuple", "cause", "specversion", "a.b", "$point", "", "ä"]
)
values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names, inner, max_size=3)
        | st.builds(lambda x, y: {"$point": [x, y]}, numbers, numbers)
    ),
    max_leaves=6,
)
spellings = st.sampled_from([{}, {"separators": (",", ":")}, {"ensure_ascii": False}, {"indent": 1}])


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """JSON, and what is nearly JSON: with names that stand twice, odd numbers, cuts and letters put in."""
    spelled = draw(spellings)
    pairs = draw(st.lists(st.tuples(names, values), max_size=5))
    space = draw(st.sampled_from(["", " ", "\t", "\r"]))
    members = [f"{json.dumps(name)}{space}:{space}{json.dumps(value, **spelled)}" for name, value in pairs]
    text = f"{space}{{{f'{space},{space}'.join(members)}}}{space}".encode(errors="surrogatepass")
    odd = draw(
        st.sampled_from(
            [b"", b"", b"", b"0", b".", b"e5", b"-", b"01", b"\xff", b",", b'"', b"}", b"NaN", b"1.50"]
        )
    )
    at = draw(st.integers(0, len(text)))
    return text[:at] + odd + text[at:]


def value_in(column: pa.Array | None, row: int) -> Any:
    if column is None or not column[row].is_valid:
        return ABSENT
    given = column[row]
    if pa.types.is_timestamp(given.type):
        return Notification.of({"time": given.value}).get("time")
    found = given.as_py()
    return Multi(found) if isinstance(found, list) else Record() if isinstance(found, dict) else found


@settings(max_examples=3 * settings.default.max_examples)
@given(st.lists(texts(), min_size=1, max_size=5))
@example([b'{"a": 0.1000000000000000055511151231257827}', b'{"a": 0.30000000000000004}'])
@example([b'{"a": 1, "a": 2}', b'{"a": {"b": 1}, "a.b": 2}', b'{"a": "x"}', b'{"a": 1.0}'])
@example([b'{"a": "\\u00e4"}', b'{"a": "\\ud800"}', b'{"a": ["x", "x", "y"]}', b'{"a": []}', b'{"a": null}'])
@example([b'{"a": 9007199254740993}', b'{"a": 0.5}', b'{"a": -0}', b'{"a": 123456789012345678}'])
def test_a_scan_that_is_sure_has_what_the_exact_reader_finds(given_texts):
    columns, sure = columns_in(pa.array(given_texts, pa.binary()), NAMES)
    for row, text in enumerate(given_texts):
        if not sure[row]:
            continue
        parse_json(text)  # whatever its envelope is worth, it is JSON
        try:
            found = decode(text.decode(), "", None, None, None)
        except ValueRefused:  # then it has not passed a door
            continue
        for name in NAMES:
            column = columns.column(name) if name in columns.schema.names else None
            expected, value = found.get(name), value_in(column, row)
            if isinstance(expected, Record):  # what is in it has columns of its own
                assert column is None or isinstance(value, Record) or value is ABSENT
                continue
            assert key_of(value) == key_of(expected), (text, name)


@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(texts(), min_size=1, max_size=6))
@example(
    [b'{"id": 7, "cause": "p/1"}', b'{"id": "7", "cause": ["1", "2"]}', b'{"id": -0, "time": 5}', b" ", b"{}"]
)
def test_texts_are_read_alike_whether_a_scan_reads_them_or_not(given_texts):
    batch = pa.record_batch({"value": pa.array(given_texts, pa.binary())})
    slow = [row for out in Exact("json")([batch]) for row in out.to_pylist()]
    quick = [row for out in TextDoor("json")([batch]) for row in out.to_pylist()]
    assert sorted(map(repr, quick)) == sorted(map(repr, slow))


class Exact(TextDoor):
    """A door that scans nothing."""

    _scans = False  # type: ignore[assignment]


def test_most_records_are_sure():
    lines = [
        json.dumps(
            {"id": number, "time": "2024-05-06T07:00:00.5Z", "a": {"b": number / 7}, "n": ["x"]}
        ).encode()
        for number in range(500)
    ]
    columns, sure = columns_in(pa.array(lines, pa.binary()), NAMES)
    assert sure.mean() > 0.95  # a few of the fractions have an exponent
    assert columns.schema.names == ["id", "time", "a", "a.b", "n"]


EVENT = b'{"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": [3, 1, 3, 1e3]}'


@pytest.mark.parametrize("published", [b'{"id": 1, "n": [3, 1, 3], "x": 10.10}', EVENT])
def test_the_published_text_stays_as_it_is(published):
    for fields in (records.STANDARD, records.Fields(producer="source")):
        batch = pa.record_batch({"value": pa.array([published])})
        [row] = [row for out in TextDoor("json", fields=fields)([batch]) for row in out.to_pylist()]
        assert (row["published"] or row["record"]).encode() == published
