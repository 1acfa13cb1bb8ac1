"""Each line is one notification or one rejection, and no line hides another."""

from __future__ import annotations

import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.filters.schema import Schema
from fairlead.ingest import Fields, Rejection, jsonlines
from fairlead.model import Notification


def test_each_line_is_read_by_itself() -> None:
    stream = io.BytesIO(
        b'\xef\xbb\xbf{"a": 1}\r\n'
        b"\n"
        b"   \t\n"
        b"[1, 2]\n"
        b'{"a": 1, "a": 2}\n'
        b'"text"\n'
        b"null\n"
        b'{"a": \n'
        b'{"a": "\xc3\xa9\xe2\x80\xa8"}\n'
        b'{"a": "\xc3"}\n'
        b'{"a": 2}'
    )
    found = dict(jsonlines.read(stream, source="events.jsonl"))
    assert found[1] == Notification.of({"a": 1})
    assert found[9] == Notification.of({"a": "é\u2028"})
    assert found[11] == Notification.of({"a": 2})
    reasons = {number: each.reason for number, each in found.items() if isinstance(each, Rejection)}
    assert reasons == {
        4: "a notification is a JSON object, not an array",
        5: "the name 'a' is twice in one object",
        6: "a notification is a JSON object, not a string",
        7: "a notification is a JSON object, not null",
        8: "not JSON: expecting value, line 1 column 6",
        10: "not UTF-8: invalid continuation byte at byte 8",
    }
    assert list(found) == [1, 4, 5, 6, 7, 8, 9, 10, 11]
    rejected = found[4]
    assert isinstance(rejected, Rejection)
    assert (rejected.source, rejected.line, rejected.raw) == ("events.jsonl", 4, b"[1, 2]")


def test_a_byte_order_mark_is_tolerated_at_the_start_only() -> None:
    found = dict(jsonlines.read([b"\xef\xbb\xbf\n", b"\xef\xbb\xbf{}\n"]))
    assert list(found) == [2]
    assert isinstance(found[2], Rejection)


def test_schema_lift_and_fields_reach_every_line() -> None:
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "T", "data": {"price": 5}}
    lines = [json.dumps(event).encode(), b'{"no": 7, "price": 5.5}', b'{"no": 8, "price": 6}']
    schema = Schema(types={"T": ()}, attributes={"price": "int"})
    first, second, third = (
        each for _, each in jsonlines.read(lines, schema=schema, lift=True, fields=Fields(id="no"))
    )
    assert isinstance(first, Notification)
    assert first.get("price") == 5
    assert isinstance(second, Rejection)
    assert isinstance(third, Notification)
    assert third.id == "8"


def test_reading_is_lazy() -> None:
    def endless() -> object:
        yield b"{}\n"
        raise AssertionError("read ahead")

    assert next(jsonlines.read(endless())) == (1, Notification.of({}))  # type: ignore[arg-type]


@given(st.lists(st.binary(max_size=12) | st.sampled_from([b"{}", b'{"a":1}', b"", b"[]", b"\xef\xbb\xbf"])))
@settings(max_examples=150)
def test_no_line_is_lost(lines: list[bytes]) -> None:
    stream = io.BytesIO(b"\n".join(lines))
    expected = [
        number
        for number, line in enumerate(io.BytesIO(stream.getvalue()), start=1)
        if (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip()
    ]
    assert [number for number, _ in jsonlines.read(stream)] == expected
