"""Values in the wire format of schema registries: the bytes of both libraries, and a registry over HTTP."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from fairlead.errors import KafkaFailed, ValueRefused
from fairlead.ingest.rejection import Rejection
from fairlead.kafka import Reading, Registry, Taken
from fairlead.model import Instant, Notification
from fairlead_lab.servers import registry

Field = descriptor_pb2.FieldDescriptorProto


@pytest.fixture(scope="module")
def schemas() -> Iterator[Registry]:
    with registry.running() as url:
        yield Registry(url)


def register(at: Registry, subject: str, schema: str, kind: str) -> int:
    body = json.dumps({"schema": schema, "schemaType": kind}).encode()
    with urlopen(Request(f"{at.url}/subjects/{subject}/versions", body)) as answer:
        return int(json.load(answer)["id"])


def quotes() -> descriptor_pb2.FileDescriptorProto:
    """message Other {}  message Quote { message Leg { int64 lots = 1; }  … }"""
    file = descriptor_pb2.FileDescriptorProto(name="quotes.proto", package="test", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    quote = file.message_type.add(name="Quote")
    leg = quote.nested_type.add(name="Leg")
    leg.field.add(name="lots", number=1, type=Field.TYPE_INT64, label=Field.LABEL_OPTIONAL)
    side = quote.enum_type.add(name="Side")
    side.value.add(name="BUY", number=0)
    side.value.add(name="SELL", number=1)
    for number, (name, kind, named, repeated) in enumerate(
        (
            ("symbol", Field.TYPE_STRING, "", False),
            ("price", Field.TYPE_DOUBLE, "", False),
            ("side", Field.TYPE_ENUM, ".test.Quote.Side", False),
            ("legs", Field.TYPE_MESSAGE, ".test.Quote.Leg", True),
            ("time", Field.TYPE_MESSAGE, ".google.protobuf.Timestamp", False),
        ),
        1,
    ):
        label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
        quote.field.add(name=name, number=number, type=kind, type_name=named or None, label=label)
    return file


def message(name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(file)
    pool.Add(file)
    pool.Add(quotes())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()


FIELDS = {"symbol": "IBM", "price": 101.5, "side": "SELL", "legs": [{"lots": 3}, {"lots": 4}]}


def test_a_message_of_protobuf_is_read_and_written_as_its_library_does(schemas: Registry) -> None:
    number = register(schemas, "quotes", base64.b64encode(quotes().SerializeToString()).decode(), "PROTOBUF")
    quote = message("test.Quote")
    quote.symbol, quote.price, quote.side = "IBM", 101.5, 1
    quote.legs.add(lots=3)
    quote.legs.add(lots=4)
    head = struct.pack(">bI", 0, number)
    assert schemas.write(FIELDS, "quotes", "protobuf") == head + b"\0" + quote.SerializeToString()
    quote.time.FromMicroseconds(7)
    for path in (b"\0", b"\2\0"):  # the first message: as a lone zero, or as a list of one index
        read = schemas.read(head + path + quote.SerializeToString(), "protobuf")
        assert read == {**FIELDS, "time": Instant(7)}
    leg = message("test.Quote.Leg")
    leg.lots = 9
    nested = head + b"\4\0\0" + leg.SerializeToString()
    assert schemas.read(nested, "protobuf") == {"lots": 9}


def test_what_a_schema_cannot_hold_and_what_is_no_value_are_refused(schemas: Registry) -> None:
    compiled = base64.b64encode(quotes().SerializeToString()).decode()
    number = register(schemas, "quotes", compiled, "PROTOBUF")
    head = struct.pack(">bI", 0, number)
    with pytest.raises(ValueRefused, match="has no field 'volume'"):
        schemas.write({"volume": 1}, "quotes", "protobuf")
    for value, reason in (
        (b"", "no zero byte"),
        (b"\1\0\0\0\1", "no zero byte"),
        (head + b"\0\xff", f"not a value of the schema {number}"),
        (head + b"\4\0\x63", f"not a value of the schema {number}"),
    ):
        with pytest.raises(ValueRefused, match=reason):
            schemas.read(value, "protobuf")
    with pytest.raises(KafkaFailed, match="a schema of protobuf, not of avro"):
        schemas.check("quotes", "avro")
    with pytest.raises(KafkaFailed, match="does not answer"):
        schemas.check("nothing", "avro")


def test_avro_refuses_what_stands_behind_a_value(schemas: Registry) -> None:
    schema = {"type": "record", "name": "Pair", "fields": [{"name": "x", "type": "long"}]}
    number = register(schemas, "pairs", json.dumps(schema), "AVRO")
    value = struct.pack(">bI", 0, number) + b"\4"
    assert schemas.write({"x": 2}, "pairs", "avro") == value
    assert schemas.read(value, "avro") == {"x": 2}
    with pytest.raises(ValueRefused, match="1 bytes behind its end"):
        schemas.read(value + b"\0", "avro")
    with pytest.raises(ValueRefused, match="cannot hold it"):
        schemas.write({"x": "two"}, "pairs", "avro")


RECORD = Taken(
    "quotes", 1, 41, b'{"symbol": "IBM"}', b"IBM", 7, (("feed", b"nyse"), ("raw", b"\xff"), ("no", None))
)


def test_a_record_has_what_is_about_it_under_one_attribute() -> None:
    found = Reading(about="at").read(RECORD)
    assert isinstance(found, Notification)
    assert found.get("symbol") == "IBM"
    assert found.get("at.at") == "quotes/1/41"
    assert (found.get("at.key"), found.get("at.time")) == ("IBM", Instant(7))
    assert (found.get("at.headers.feed"), found.get("at.headers.raw")) == ("nyse", b"\xff")
    taken = Reading(about="symbol").read(RECORD)
    assert isinstance(taken, Rejection)
    assert "has a field 'symbol' already" in taken.reason


def test_a_tombstone_is_rejected_skipped_or_kept() -> None:
    tombstone = RECORD._replace(value=None)
    rejected = Reading().read(tombstone)
    assert isinstance(rejected, Rejection)
    assert "a tombstone" in rejected.reason
    assert Reading(tombstones="skip").read(tombstone) is None
    kept = Reading(tombstones="keep", about="at").read(tombstone)
    assert isinstance(kept, Notification)
    assert (kept.get("at.tombstone"), kept.get("at.key")) == (True, "IBM")
