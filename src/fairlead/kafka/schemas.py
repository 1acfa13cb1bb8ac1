"""Values in the wire format of schema registries: a zero byte, the schema's number, and the value itself.

    0 │ number of the schema, 4 bytes │ Avro
    0 │ number of the schema, 4 bytes │ which message of the file, as varints │ Protobuf

A `Registry` is asked over HTTP, once for each schema. Of Protobuf it is asked for the compiled form
(`?format=serialized`), for which no compiler is needed here.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from fairlead.errors import FairleadError, KafkaFailed, ValueRefused
from fairlead.model import Instant

__all__ = ["Encoding", "Registry"]

Encoding: TypeAlias = Literal["json", "avro", "protobuf"]
HEAD: Final = struct.Struct(">bI")
PATIENCE_S: Final = 10.0
BY_NUMBER: Final = "/schemas/ids/"
TIMESTAMP: Final = "google.protobuf.Timestamp"


@dataclass(frozen=True, slots=True)
class Registry:
    """A schema registry, by its address."""

    url: str

    def read(self, value: bytes, encoding: Encoding) -> dict[str, Any]:
        """The fields of a value, or ValueRefused where it is not one of the schema that it names."""
        if len(value) < HEAD.size or value[0] != 0:
            raise ValueRefused("not in the wire format of a schema registry: it begins with no zero byte")
        _, number = HEAD.unpack_from(value)
        made = _codec(self.url, f"{BY_NUMBER}{number}", encoding)
        try:
            fields = made.read(value[HEAD.size :])
        except FairleadError:
            raise
        except Exception as error:  # both libraries raise whatever they come across
            raise ValueRefused(
                f"not a value of the schema {number}: {error or type(error).__name__}"
            ) from error
        if not isinstance(fields, Mapping):
            raise ValueRefused(f"a notification is a record, and the schema {number} is of another type")
        return {name: _value(each) for name, each in fields.items()}

    def write(self, fields: Mapping[str, Any], subject: str, encoding: Encoding) -> bytes:
        """The value of some fields by the latest schema of a subject, or ValueRefused where it has no place for
        them."""
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest"
        made = _codec(self.url, path, encoding)
        try:
            return HEAD.pack(0, made.number) + made.write(fields)
        except Exception as error:
            raise ValueRefused(f"the latest schema of {subject!r} cannot hold it: {error}") from error

    def check(self, subject: str, encoding: Encoding) -> None:
        """KafkaFailed where a subject has no schema of this encoding."""
        _codec(self.url, f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest", encoding)


@dataclass(frozen=True, slots=True)
class _Codec:
    """The functions that read and write values of one schema."""

    number: int
    read: Callable[[bytes], Any]
    write: Callable[[Mapping[str, Any]], bytes]


@cache
def _codec(url: str, path: str, encoding: Encoding) -> _Codec:
    suffix = "?format=serialized" if encoding == "protobuf" else ""
    told = _answer(url, path + suffix)
    kind = told.get("schemaType", "AVRO").lower()
    if kind != encoding:
        raise KafkaFailed(f"{url}{path} is a schema of {kind}, not of {encoding}")
    number = told.get("id", 0)
    return (_avro if encoding == "avro" else _protobuf)(url, number, told)


def _answer(url: str, path: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}{path}", timeout=PATIENCE_S) as answer:
            content: dict[str, Any] = json.load(answer)
            return content
    except (OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError) and error.code == 404 and path.startswith(BY_NUMBER):
            raise ValueRefused(f"the schema registry has no schema {path.removeprefix(BY_NUMBER)}") from error
        raise KafkaFailed(
            f"the schema registry does not answer {url}{path}: {error}",
            hint="is the address right, and does the registry have the schema?",
        ) from error


def _referenced(url: str, told: Mapping[str, Any], suffix: str = "") -> Iterator[dict[str, Any]]:
    """The schemas that a schema refers to, each behind those that it refers to itself."""
    for each in told.get("references", ()):
        subject = urllib.parse.quote(each["subject"], safe="")
        found = _answer(url, f"/subjects/{subject}/versions/{each['version']}{suffix}")
        yield from _referenced(url, found, suffix)
        yield found


# -- Avro ----------------------------------------------------------------------------------------------------


def _avro(url: str, number: int, told: Mapping[str, Any]) -> _Codec:
    from fastavro import parse_schema, schemaless_reader, schemaless_writer

    named: dict[str, Any] = {}
    for each in _referenced(url, told):
        parse_schema(json.loads(each["schema"]), named)
    schema = parse_schema(json.loads(told["schema"]), named)

    def write(fields: Mapping[str, Any]) -> bytes:
        written = BytesIO()
        schemaless_writer(written, schema, dict(fields), strict_allow_default=True)
        return written.getvalue()

    def read(content: bytes) -> Any:
        stream = BytesIO(content)
        found = schemaless_reader(stream, schema, None)
        if stream.tell() != len(content):
            raise ValueRefused(f"{len(content) - stream.tell()} bytes behind its end")
        return found

    return _Codec(number, read, write)


# -- Protobuf ------------------------------------------------------------------------------------------------


def _protobuf(url: str, number: int, told: Mapping[str, Any]) -> _Codec:
    # Its types are in a package of their own, which nobody else needs.
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

    pool = descriptor_pool.DescriptorPool()
    _add_well_known(pool)
    try:
        files = [
            descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(each["schema"], validate=True))
            for each in (*_referenced(url, told, "?format=serialized"), told)
        ]
    except ValueError as error:
        raise KafkaFailed(
            f"the registry at {url} does not give the schema {number} compiled",
            hint="it has to answer ?format=serialized, as registries for Protobuf do",
        ) from error
    for each in files:
        pool.Add(each)
    file = pool.FindFileByName(files[-1].name)

    def read(content: bytes) -> Any:
        path, start = _indexes(content)
        found = list(file.message_types_by_name.values())[path[0]]
        for each in path[1:]:
            found = found.nested_types[each]
        message = message_factory.GetMessageClass(found).FromString(content[start:])
        return _fields(message)

    def write(fields: Mapping[str, Any]) -> bytes:
        kind = next(iter(file.message_types_by_name.values()))
        message = message_factory.GetMessageClass(kind)()
        _fill(message, fields)
        return b"\0" + bytes(message.SerializeToString())

    return _Codec(number, read, write)


def _add_well_known(pool: Any) -> None:
    from google.protobuf import descriptor_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2

    for module in (duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        pool.Add(file)


def _indexes(content: bytes) -> tuple[list[int], int]:
    """The path to a message in its file, and where the message begins; a lone zero is the first message."""
    count, at = _varint(content, 0)
    if count == 0:
        return [0], at
    path = []
    for _ in range(count):
        each, at = _varint(content, at)
        path.append(each)
    return path, at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number in zigzag form, and where it ends."""
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _fields(message: Any) -> dict[str, Any]:
    """The fields of a message under the names of the schema; those that are not set and know it are left out."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            found[field.name] = {str(key): _read_one(inner, each) for key, each in value.items()}
        elif field.is_repeated:
            found[field.name] = [_read_one(field, each) for each in value]
        else:
            found[field.name] = _read_one(field, value)
    return found


def _is_map(field: Any) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def _read_one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == TIMESTAMP:
            return Instant(value.seconds * 1_000_000 + value.nanos // 1_000)
        return _fields(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    return value


def _fill(message: Any, fields: Mapping[str, Any]) -> None:
    known = message.DESCRIPTOR.fields_by_name
    for name, value in fields.items():
        if name not in known:
            raise ValueRefused(f"{message.DESCRIPTOR.full_name} has no field {name!r}")
        field = known[name]
        if _is_map(field):
            held = getattr(message, name)
            inner = field.message_type.fields_by_name["value"]
            for key, each in value.items():
                if inner.message_type is None:
                    held[key] = _written_one(inner, each)
                else:
                    _fill(held[key], each)
        elif field.message_type is not None:
            for target, each in (
                [(getattr(message, name).add(), each) for each in value]
                if field.is_repeated
                else [(getattr(message, name), value)]
            ):
                if field.message_type.full_name == TIMESTAMP:
                    target.FromDatetime(each)
                else:
                    _fill(target, each)
                    target.SetInParent()
        elif field.is_repeated:
            getattr(message, name).extend(_written_one(field, each) for each in value)
        else:
            setattr(message, name, _written_one(field, value))


def _written_one(field: Any, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    return value


# -- values ----------------------------------------------------------------------------------------------------


def _value(given: Any) -> Any:
    """The value of an attribute that both libraries have another type for."""
    if isinstance(given, Mapping):
        return {name: _value(each) for name, each in given.items()}
    if isinstance(given, list | tuple):
        return [_value(each) for each in given]
    if isinstance(given, dt.datetime):
        return Instant.of(given if given.tzinfo else given.replace(tzinfo=dt.UTC))
    if isinstance(given, dt.date | dt.time):
        return given.isoformat()
    return str(given) if isinstance(given, UUID) else given
