"""Content is delivered as it was published: parse(delivered) = parse(published), for any JSON parser.

The parser of these tests keeps all that JSON text says: the order of names, and the spelling of numbers. A real
broker and HTTP are in `tests/network/test_content.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import Bus, Notification, Record, Schema, parse
from fairlead.cli import sub
from fairlead.console.cloudevents import text_of
from fairlead.ingest import Fields, Rejection, csv, records
from fairlead.ingest.times import Times
from fairlead.model import Array
from fairlead.model.encoding import format_json, notification_from_json, notification_to_json, parse_json
from fairlead.model.packed import pack, unpack
from fairlead.spark.doors import TextDoor
from fairlead.spark.frames import decode
from fairlead.testing.strategies import json_texts


def read(text: str) -> Any:
    """All that a JSON text says: names in their order, numbers as they are spelled."""
    return json.loads(
        text, object_pairs_hook=lambda pairs: ("object", pairs), parse_float=_spelled, parse_int=_spelled
    )


def _spelled(text: str) -> tuple[str, str]:
    return "number", text


EXAMPLES = (
    '{"location": [52.5, 13.4], "readings": [3, 1, 3, 2]}',
    '{"price": 10.10, "size": 1e3, "small": 0.00001, "nothing": -0, "exact": 0.12345678901234567890}',
    '{"z": 1, "a": {"y": 2, "b": [{"d": 1.50}, [2, 1, 2]]}}',
    '{"http.method": "GET", "http": {"status": 200.0}, "größe": 1}',
    '{"time": "2026-03-02T10:00:00.250+01:00", "id": 7, "producer": "p", "sequence": "0012"}',
    '{"time": 1772442001000000, "id": "x"}',
    '{"tuple": [3, 1.0, 3], "list": [[2, 1], [1, 2]]}',
    '{"a": {"$set": [2, 1, 2]}, "b": {"$record": {"x": 1}}, "c": {"$time": "2026-03-02T10:00:00+01:00"}}',
    '{"a": {"$decimal": "19.90"}, "b": {"$ref": "#"}, "c": {"$array": [1.0]}, "d": {"$point": [1.0, 2.50]}}',
    '{"long": 123456789012345678901234567890, "huge": 1e400, "list": [1.0, 1, true]}',
    '{"tags": [], "empty": {}, "nothing": null}',
)
EVENTS = tuple(
    f'{{"specversion": "1.0", "id": "7", "source": "/s", "type": "T", {rest}}}'
    for rest in (
        '"sequence": "0012", "time": "2026-03-02T10:00:00.250+01:00", "data": {"a.b": [3, 1, 3], "p": 10.10}',
        '"data_base64": "3q2+7w=="',
        '"data": [52.5, 13.4], "subject": "x"',
        '"data": 1e3',
        '"datacontenttype": "text/plain", "data": "hello"',
        '"producer": "an extension", "data": {"producer": "p", "price": {"$decimal": "19.90"}}',
    )
)
texts = st.sampled_from(EXAMPLES + EVENTS) | json_texts()


def entered(text: str) -> Notification:
    found = records.read(text)
    assert not isinstance(found, Rejection), found.reason
    return found


# -- the ways that content goes ----------------------------------------------------------------------------------


def over_a_bus(text: str) -> str:
    taken: list[Notification] = []
    bus = Bus(engine="brute")
    bus.subscribe("exists id or absent id", taken.append)
    bus.publish(entered(text))
    [notification] = taken
    return notification.to_json()


def over_an_ordered_bus(text: str) -> str:
    taken: list[Notification] = []
    with Bus(engine="brute", order="ordered") as bus:
        bus.subscribe("exists id or absent id", taken.append)
        bus.publish(entered(text))
    [notification] = taken
    return notification.to_json()


def from_python(text: str) -> str:
    return Notification.of(parse_json(text)).to_json()


def packed(text: str) -> str:
    return unpack(pack(entered(text))).to_json()


def packed_twice(text: str) -> str:
    return unpack(pack(unpack(pack(entered(text))))).to_json()


def in_a_trace(text: str) -> str:
    line = format_json(notification_to_json(entered(text)))
    return notification_from_json(parse_json(line)).to_json()


def printed_by_sub(text: str) -> str:
    """`fairlead sub --json`: the identity is behind the content, where that does not have it."""
    record = sub.record_of(unpack(pack(entered(text))))
    names = [*parse_json(text)]
    assert [*record][: len(names)] == names
    assert {*record} - {*names} <= {"id", "producer"}
    return format_json({name: record[name] for name in names})


WAYS = (over_a_bus, over_an_ordered_bus, packed, packed_twice, in_a_trace, printed_by_sub)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", EXAMPLES + EVENTS)
def test_what_is_delivered_is_what_was_published(text: str, way: Callable[[str], str]) -> None:
    assert read(way(text)) == read(text)


@given(texts)
def test_what_is_delivered_is_what_was_published_whatever_it_is(text: str) -> None:
    for way in WAYS:
        assert read(way(text)) == read(text)


@pytest.mark.parametrize("text", [each for each in EXAMPLES if "$" not in each])
def test_what_python_publishes_is_delivered_as_it_was_given(text: str) -> None:
    """Dictionaries say less than text: a `$` in a name is no tag, so such a record is told apart."""
    assert read(from_python(text)) == read(text)


@given(texts)
def test_reading_the_content_gives_the_attributes(text: str) -> None:
    notification = entered(text)
    for other in (unpack(pack(notification)), notification_from_json(notification_to_json(notification))):
        assert other == notification
    assert entered(notification.to_json()) == notification


@given(texts)
def test_a_notification_within_another_keeps_its_content(text: str) -> None:
    """Composites and relations hold the notifications that they are made of."""
    inner = entered(text)
    outer = Notification(Record({"first": inner.attributes, "all": Array((inner.attributes,))}))
    delivered = json.loads(unpack(pack(outer)).to_json(), parse_float=_spelled, parse_int=_spelled)
    published = json.loads(text, parse_float=_spelled, parse_int=_spelled)
    for each in (delivered["first"], *delivered["all"]):
        special = {"time": {"$time": published.get("time")}, "tuple": {"$tuple": published.get("tuple")}}
        if "sequence" in published:
            special["sequence"] = ("number", str(inner.sequence))
        told_apart = len(published) == 1 and next(iter(published)).startswith("$")
        found = each["$record"] if told_apart else each
        if published.get("specversion") == "1.0":
            if "data_base64" in published:
                continue  # within another notification it is written as it is read
            assert found.pop("producer") == inner.get("producer")
            published.pop("producer", None)
        assert found == {name: special.get(name, value) for name, value in published.items()}
    assert unpack(pack(outer)) == outer


# -- what filters read is not what is delivered ------------------------------------------------------------------


def test_filters_read_a_list_as_a_set_and_users_as_it_was_published() -> None:
    notification = entered('{"location": [52.5, 13.4], "readings": [3, 1, 3, 2]}')
    assert list(notification.get("location")) == [52.5, 13.4]
    assert list(notification.get("readings")) == [3, 1, 3, 2]
    assert notification.get("readings") == Notification.of({"x": [1, 2, 3]}).get("x")
    assert parse("readings = {1, 2, 3} and location contains 13.4").matches(notification)
    assert notification.content == {"location": [52.5, 13.4], "readings": [3, 1, 3, 2]}


def test_a_schema_reads_content_and_does_not_change_it() -> None:
    schema = Schema(attributes={"at": "time", "rows": "array"})
    text = '{"at": "2026-03-02T10:00:00+01:00", "rows": []}'
    notification = schema.admit(entered(text))
    assert parse('at = t"2026-03-02T09:00:00Z"', schema).matches(notification)
    for each in (notification, unpack(pack(notification))):
        assert read(each.to_json()) == read(text)
        assert parse('at = t"2026-03-02T09:00:00Z"', schema).matches(each)


def test_names_of_fields_say_how_content_is_read_and_do_not_change_it() -> None:
    text = '{"event_id": "e1", "ts": "2026-03-02T10:00:00+01:00", "price": 10.10}'
    found = records.read(text, fields=Fields(id="event_id", time="ts"))
    assert not isinstance(found, Rejection)
    for each in (found, unpack(pack(found))):
        assert (each.id, str(each.time)) == ("e1", "2026-03-02T09:00:00Z")
        assert read(each.to_json()) == read(text)


def test_lifting_a_payload_says_how_an_event_is_read_and_does_not_change_it() -> None:
    text = '{"specversion": "1.0", "id": "7", "source": "/s", "type": "T", "data": {"price": 10.10}}'
    found = records.read(text, lift=True)
    assert not isinstance(found, Rejection)
    assert parse("price = 10.1").matches(unpack(pack(found)))
    assert read(unpack(pack(found)).to_json()) == read(text)


def test_numbers_of_a_table_are_delivered_as_they_were_written() -> None:
    lines: Iterable[bytes] = (b"id,price\n", b"1,10.10\n")
    [(_, found)] = csv.read(lines)
    assert not isinstance(found, Rejection)
    assert found.to_json() == '{"id":"1","price":10.10}'


def test_other_attributes_are_other_content() -> None:
    """Whoever changes the attributes (a scope's mapping, a mask) need not know of the content."""
    notification = entered('{"location": [52.5, 13.4], "price": 10.10}')
    masked = replace(notification, attributes=Record({"location": notification.get("location")}))
    assert masked.to_json() == '{"location":[52.5,13.4]}'


# -- CloudEvents -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", EVENTS)
def test_an_event_goes_out_as_it_came(text: str) -> None:
    assert read(text_of(unpack(pack(entered(text))))) == read(text)


DOORS = (
    TextDoor("json"),
    TextDoor("json", lift=True),
    TextDoor("json", fields=Fields(id="nr", times=Times("ms"))),
    TextDoor("json", schema=Schema(attributes={"price": "number"})),
)


@given(texts, st.sampled_from(DOORS))
def test_what_enters_spark_is_what_was_published(text: str, door: TextDoor) -> None:
    given = pa.RecordBatch.from_pydict({"value": [text.encode()]})
    [row] = [row for batch in door([given]) for row in batch.to_pylist()]
    if row["reason"] is None:
        # Where both are there, it is the published text that subscribers get.
        assert read(row["published"] or row["record"]) == read(text)
    elif door == DOORS[0]:
        assert isinstance(records.read(text), Rejection)


READINGS: tuple[dict[str, Any], ...] = (
    {},
    {"lift": True},
    {"fields": Fields(id="nr", times=Times("ms"))},
    {"schema": Schema(attributes={"at": "time", "rows": "array"})},
)
LOG_DOORS = (
    TextDoor("packed"),
    TextDoor("packed", schema=Schema(attributes={"at": "time", "rows": "array"})),
)
READ_OTHERWISE = (
    '{"nr": "7", "time": 1772442001000, "price": 10.10, "list": [3, 1, 3]}',
    '{"id": 1, "at": "2026-03-02T10:00:00+01:00", "rows": [], "price": 10.10}',
)


@given(
    texts | st.sampled_from((*EVENTS, *READ_OTHERWISE)), st.sampled_from(READINGS), st.sampled_from(LOG_DOORS)
)
def test_what_enters_spark_from_a_log_is_what_was_published_at_the_broker(
    text: str, reading: dict[str, Any], door: TextDoor
) -> None:
    notification = records.read(text, **reading)
    if isinstance(notification, Rejection):
        return
    given = pa.RecordBatch.from_pydict({"value": [pack(notification)]})
    [row] = [row for batch in door([given]) for row in batch.to_pylist()]
    if row["reason"] is None:
        assert read(row["published"] or row["record"]) == read(notification.to_json())
        found = decode(row["record"], row["producer"], row["id"], row["event_time"], row["sequence"])
        assert found == (notification if door.schema is None else door.schema.admit(notification))
    else:
        assert door.schema is not None
