"""A notification as few bytes, for the wire and for the log: unpacking what was packed gives the same one.

The bytes are a MessagePack array of three elements, or of six:

    producer, id, attributes                            the usual case
    producer, id, attributes, time, sequence, document  where the attributes do not tell time and sequence

`attributes` is the flat record of `encoding.fields_to_json`. MessagePack has integers of 64 bits only; a
notification with a longer one is its JSON text instead, which begins with a brace, as no array does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, TypeAlias

import msgspec

from fairlead.errors import ValueRefused
from fairlead.model.encoding import (
    fields_from_json,
    fields_to_json,
    format_json,
    notification_from_json,
    notification_to_json,
    parse_json,
)
from fairlead.model.notification import Notification

__all__ = [
    "PlainParts",
    "cut",
    "identity_in",
    "pack",
    "unpack",
    "unpack_all_plain",
    "unpack_parts",
    "unpack_plain",
]

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder()
Plain: TypeAlias = str | int | float | bool | None
PlainParts: TypeAlias = tuple[str, str, dict[str, Plain]]
_plain_decoder: Final[msgspec.msgpack.Decoder[PlainParts]] = msgspec.msgpack.Decoder(PlainParts)
_all_plain_decoder: Final = msgspec.msgpack.Decoder(list[PlainParts])
_cutter: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])


def pack(notification: Notification) -> bytes:
    """The bytes of a notification."""
    fields = fields_to_json(notification.attributes)
    parts: list[Any] = [notification.producer, notification.id, fields]
    jsonable = None
    if notification.document is not None or not _told_by_attributes(notification):
        jsonable = notification_to_json(notification)
        parts += [jsonable.get("time"), notification.sequence, jsonable.get("document")]
    try:
        return _encoder.encode(parts)
    except OverflowError:
        return format_json(jsonable or notification_to_json(notification)).encode()


def unpack(packed: bytes | memoryview) -> Notification:
    """The notification of which `pack` gave these bytes; ValueRefused where it gave them of none."""
    if packed[:1] == b"{":
        return notification_from_json(parse_json(bytes(packed)))
    return notification_of(unpack_parts(packed))


def identity_in(packed: bytes) -> tuple[str, str]:
    """Producer and id of a packed notification, without its content."""
    if packed[:1] == b"{":
        notification = unpack(packed)
        return notification.producer, notification.id or ""
    producer, id = unpack_parts(packed)[:2]
    return producer, id or ""


def unpack_plain(packed: bytes) -> PlainParts | None:
    """Producer, id and fields, if all the fields' values are plain; their names are not looked at."""
    try:
        return _plain_decoder.decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def unpack_all_plain(packed: bytes | list[bytes]) -> list[PlainParts] | None:
    """The same of each, if all of them are plain; those in one piece are a MessagePack array."""
    try:
        if isinstance(packed, list):
            return [*map(_plain_decoder.decode, packed)]
        return _all_plain_decoder.decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def cut(array: bytes) -> list[bytes]:
    """The bytes of each in a MessagePack array of packed notifications, which need not be any."""
    try:
        return [bytes(each) for each in _cutter.decode(array)]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueRefused(f"not an array of packed notifications: {error}") from None


def unpack_parts(packed: bytes | memoryview) -> list[Any]:
    """The elements of the array, their types not yet looked at. Not for a notification that is JSON text."""
    try:
        parts = _decoder.decode(packed)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueRefused(f"not a packed notification: {error}") from None
    if type(parts) is not list or len(parts) not in (3, 6):
        raise ValueRefused("not a packed notification: an array of three or six elements is one")
    return parts


def notification_of(parts: list[Any]) -> Notification:
    """The notification whose parts `unpack_parts` gave."""
    producer, id, fields = parts[:3]
    if len(parts) == 6:
        names = ("id", "producer", "attributes", "time", "sequence", "document")
        given = zip(names, (id, producer, fields, *parts[3:]), strict=True)
        return notification_from_json({name: value for name, value in given if value is not None})
    if type(producer) is not str or (id is not None and type(id) is not str):
        raise ValueRefused("not a packed notification: producer and id are strings")
    notification = Notification.of(fields_from_json(fields))
    if notification.producer == producer and notification.id == id:
        return notification
    return replace(notification, producer=producer, id=id)


def _told_by_attributes(notification: Notification) -> bool:
    attributes = notification.attributes
    told = Notification.of({name: attributes[name] for name in ("time", "sequence") if name in attributes})
    return told.time == notification.time and told.sequence == notification.sequence
