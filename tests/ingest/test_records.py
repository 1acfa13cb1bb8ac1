"""One JSON object is one notification: a flat record, or an event of CloudEvents 1.0."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import ValueRefused
from fairlead.filters.schema import Schema
from fairlead.ingest import Fields, Rejection
from fairlead.ingest.records import notification_of, read
from fairlead.model import ABSENT, Instant, Multi, Notification, Record, Tuple
from fairlead.model.encoding import format_json

EVENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": "A234-1234-1234",
    "source": "/mycontext/subcontext",
    "type": "com.example.someevent",
    "time": "2018-04-05T17:31:00Z",
    "sequence": "0042",
    "comexampleextension1": "value",
    "data": {"price": 19.9, "id": 7, "position": {"x": 3}, "tags": ["a", "b"]},
}


def test_a_flat_record_has_its_attributes_at_the_top() -> None:
    found = notification_of({"id": 1, "position": {"x": 3}, "tags": ["b", "a"], "a.b": 1})
    assert found == Notification.of({"id": 1, "position.x": 3, "tags": {"a", "b"}, "a": {"b": 1}})
    assert found.id == "1"


def test_typed_values_are_read_in_flat_records() -> None:
    found = read(
        b'{"price":{"$decimal":"19.90"},"at":{"$time":"2024-05-01T10:00:00Z"},"tuple":["b","a",1,"b"]}'
    )
    assert isinstance(found, Notification)
    assert str(found.get("price")) == "19.90"
    assert found.get("at") == Instant.parse("2024-05-01T10:00:00Z")
    assert found.get("tuple") == Tuple(("b", "a", 1, "b"))


def test_the_context_attributes_of_a_cloud_event_keep_their_names() -> None:
    found = notification_of(EVENT)
    assert found.id == "A234-1234-1234"
    assert found.producer == found.get("source") == "/mycontext/subcontext"
    assert found.time == found.get("time") == Instant.parse("2018-04-05T17:31:00Z")
    assert (found.sequence, found.get("sequence")) == (42, 42)
    assert found.get("comexampleextension1") == "value"
    assert found.get("producer") == found.get("source")
    assert found.get("data.price") == 19.9
    assert found.get("data.position.x") == 3
    assert found.get("price") is ABSENT


def test_lifting_brings_the_payload_to_the_top_and_hides_nothing() -> None:
    found = notification_of(EVENT, lift=True)
    assert found.get("price") == 19.9
    assert found.get("position.x") == 3
    assert found.get("tags") == Multi(["a", "b"])
    assert found.get("id") == "A234-1234-1234"
    assert found.get("data") == Record({"id": 7})
    nested = notification_of({**EVENT, "data": {"data": 1, "tuple": ["b", "a"]}}, lift=True)
    assert nested.get("data.data") == 1
    assert nested.get("tuple") == Tuple(("b", "a"))
    assert notification_of({**EVENT, "data": {}}, lift=True).get("data") is ABSENT


@pytest.mark.parametrize("payload", ["text", 5, None, [1], {"$decimal": "1.50"}])
def test_a_payload_that_is_no_object_stays_under_data(payload: Any) -> None:
    event = {**EVENT, "data": payload}
    assert notification_of(event, lift=True) == notification_of(event)
    assert notification_of(event).get("data") is not ABSENT


@pytest.mark.parametrize("lift", [False, True])
def test_a_binary_payload_is_bytes_under_data(lift: bool) -> None:
    event = {name: value for name, value in EVENT.items() if name != "data"}
    event["data_base64"] = base64.b64encode(b"\x00\xff").decode()
    found = notification_of(event, lift=lift)
    assert found.get("data") == b"\x00\xff"
    assert found.get("data_base64") is ABSENT


def test_an_event_of_another_version_or_without_context_is_a_flat_record() -> None:
    for change in ({"specversion": "0.3"}, {"specversion": 1.0}):
        found = notification_of({**EVENT, "sequence": 1, **change})
        assert (found.producer, found.get("data.id")) == ("", 7)
    assert notification_of({"specversion": "1.0", "id": "1", "type": "t"}).producer == ""


@pytest.mark.parametrize(
    "change",
    [
        {"id": 7},
        {"id": ""},
        {"source": None},
        {"type": {}},
        {"time": "noon"},
        {"time": 1.5},
        {"time": "2018-04-05T17:31:00.1234567Z"},
        {"sequence": "seven"},
        {"sequence": 1.5},
        {"sequence": True},
        {"sequence": "٣"},
        {"data_base64": "AAAA"},
    ],
)
def test_a_malformed_cloud_event_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueRefused):
        notification_of({**EVENT, **change})


def test_sequences_of_cloud_events_may_be_numbers_or_null() -> None:
    assert notification_of({**EVENT, "sequence": 5}).sequence == 5
    assert notification_of({**EVENT, "sequence": "-5"}).sequence == -5
    found = notification_of({**EVENT, "sequence": None, "time": None})
    assert (found.sequence, found.get("sequence"), found.time) == (None, None, None)


def test_fields_name_where_the_envelope_is_found() -> None:
    fields = Fields(id="order_no", producer="meta.host", time="meta.ts", sequence="n")
    found = notification_of(
        {"order_no": "A1", "meta": {"host": "h", "ts": "2024-05-01T10:00:00Z"}, "n": 3}, fields=fields
    )
    assert (found.id, found.producer, found.sequence) == ("A1", "h", 3)
    assert found.time == found.get("time") == Instant.parse("2024-05-01T10:00:00Z")
    assert found.get("order_no") == found.get("id") == "A1"
    assert notification_of({"x": 1}, fields=fields) == Notification.of({"x": 1})


def test_fields_refuse_a_record_that_means_something_else_by_the_name() -> None:
    with pytest.raises(ValueRefused, match="'order_no' is to be the 'id'"):
        notification_of({"order_no": 1, "id": 2}, fields=Fields(id="order_no"))
    with pytest.raises(ValueRefused):
        Fields(id="a..b")


def test_the_schema_stands_at_the_door() -> None:
    schema = Schema(attributes={"price": "int"})
    assert isinstance(read(b'{"price": 20.0}', schema=schema), Notification)
    rejected = read(b'{"price": 20.5}', schema=schema, source="f", line=7)
    assert rejected == Rejection("f", 7, "'price' is declared as int, which 20.5 is not", b'{"price": 20.5}')


def test_a_rejection_is_json_whatever_the_bytes() -> None:
    rejected = read(b'{"a": NaN\xff}', source="f", line=1)
    assert isinstance(rejected, Rejection)
    assert rejected.jsonable()["raw"] == '{"a": NaN\\xff}'
    assert "\n" not in rejected.reason
    assert isinstance(read('"\ud800"'), Rejection)
    lone = read('"\ud800"')
    assert isinstance(lone, Rejection)
    format_json(lone.jsonable()).encode()


# -- whatever comes in -------------------------------------------------------------------------------------

SEEDS = [
    format_json(EVENT).encode(),
    b'{"id":1,"producer":"p","time":"2024-05-01T10:00:00Z","sequence":3,"a.b":{"c":[1,{"d":null}]},"e":1.5e-7}',
    b'{"x":{"$decimal":"1.50"},"y":{"$bytes":"AAAA"},"z":{"$point":[1,2]},"w":{"$tuple":[{"$number":"nan"}]}}',
    b'{"tuple":["a",{"$set":[1]},{"$array":[]},{"$record":{"$time":1}}],"u":"\\u00e9\\ud83d\\ude00"}',
]
TOKENS = [
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b":",
    b",",
    b"\\ud800",
    b"1e999",
    b"null",
    b'"$time"',
    b"\xff",
    b"-",
    b".",
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A readable text with a few pieces cut out, doubled or replaced."""
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 8)))
        text = text[:start] + draw(st.sampled_from([*TOKENS, text[start:end] * 2, b""])) + text[end:]
    return text


SCHEMA = Schema(
    types={"com.example.someevent": ()}, attributes={"x": "number", "data.price": "time?", "e": "set"}
)


@given(st.binary(max_size=60) | mutated(), st.booleans(), st.sampled_from([None, SCHEMA]))
@settings(max_examples=500)
def test_errors_at_the_door_are_values_never_exceptions(
    raw: bytes, lift: bool, schema: Schema | None
) -> None:
    found = read(raw, schema=schema, lift=lift)
    assert isinstance(found, Notification | Rejection)
    if isinstance(found, Rejection):
        assert found.reason
        assert found.raw == raw


def test_seeds_are_readable() -> None:
    assert all(isinstance(read(seed), Notification) for seed in SEEDS)
    assert Decimal("1.50") == notification_of({"x": {"$decimal": "1.50"}}).get("x")
