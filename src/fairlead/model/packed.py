"""A notification as few bytes, for the wire and for the log: unpacking what was packed gives the same one.

The bytes are a MessagePack array of three elements, of six, or of seven:

    producer, id, attributes                            the usual case
    producer, id, attributes, time, sequence, document  where the attributes do not tell time and sequence
    …, content                                          where the attributes do not tell the content, either

`attributes` is the content, a flat JSON record, or one that reads as the attributes where the content does not. A
number that is not spelled as Python spells it is an extension of type 1 with its text. MessagePack has integers of
64 bits only; a notification with a longer one is its JSON text instead, which begins with a brace, as no array
does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import msgspec

from fairlead.errors import ValueRefused
from fairlead.model.encoding import (
    format_json,
    notification_from_json,
    notification_to_json,
    parse_json,
    parse_number,
)
from fairlead.model.notification import Notification
from fairlead.model.text import WRITTEN
from fairlead.model.values import ABSENT

__all__ = [
    "PlainColumns",
    "PlainParts",
    "columns_of",
    "cut",
    "identity_bytes",
    "identity_in",
    "pack",
    "unpack",
    "unpack_all_plain",
    "unpack_parts",
    "unpack_plain",
]

NUMBER: Final = 1
"""The extension type of a number as it was written."""


def _extension(number: Any) -> msgspec.msgpack.Ext:
    if type(number) in WRITTEN:
        return msgspec.msgpack.Ext(NUMBER, number.text.encode())
    raise ValueRefused(f"a Python object has no JSON form: {type(number).__qualname__}")


def _number(kind: int, text: memoryview) -> Any:
    number = parse_number(bytes(text).decode()) if kind == NUMBER else None
    if number is None:
        raise ValueRefused(f"not a packed notification: an extension of type {kind}")
    return number


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_extension)
_decoder: Final = msgspec.msgpack.Decoder(ext_hook=_number)
Plain: TypeAlias = str | int | float | bool | None
PlainParts: TypeAlias = tuple[str, str, dict[str, Plain]]
PlainColumns: TypeAlias = tuple[Sequence[str], Sequence[str], Sequence[dict[str, Plain]]]
"""The producers, the ids and the fields of several."""
_plain_decoder: Final[msgspec.msgpack.Decoder[PlainParts]] = msgspec.msgpack.Decoder(PlainParts)
_all_plain_decoder: Final = msgspec.msgpack.Decoder(list[PlainParts])
_ARRAYS: Final = b"\x93\x96\x97"
_cutter: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])


def pack(notification: Notification) -> bytes:
    """The bytes of a notification."""
    attributes, content = notification.written()
    parts: list[Any] = [notification.producer, notification.id, attributes]
    if notification.document is not None or content is not None or not _is_in_attributes(notification):
        jsonable = notification_to_json(notification)
        parts += [jsonable.get("time"), notification.sequence, jsonable.get("document")]
        if content is not None:
            parts.append(content)
    try:
        return _encoder.encode(parts)
    except OverflowError:
        return format_json(notification_to_json(notification)).encode()


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


def identity_bytes(packed: bytes) -> bytes:
    """Producer and id of a packed notification as bytes, the same for each packing of one identity."""
    if packed[0] in _ARRAYS:
        # Nearly always both are strings of fewer than 32 bytes, each behind one byte that says how long it is.
        at = packed[1] - 0x9E
        if 2 <= at < 34:
            length = packed[at] - 0xA0
            if 0 <= length < 32:
                return packed[1 : at + 1 + length]
    return b"".join(map(_encoder.encode, identity_in(packed)))


def unpack_plain(packed: bytes) -> PlainParts | None:
    """Producer, id and fields, if all the fields' values are plain; their names are not checked."""
    try:
        return _plain_decoder.decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def columns_of(parts: Sequence[PlainParts]) -> PlainColumns:
    """The columns of several, at least one."""
    producers, ids, fields = zip(*parts, strict=True)
    return producers, ids, fields


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
    """The elements of the array, their types unchecked. Not for a notification that is JSON text."""
    try:
        parts = _decoder.decode(packed)
    except ValueRefused:
        raise
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueRefused(f"not a packed notification: {error}") from None
    if type(parts) is not list or len(parts) not in (3, 6, 7):
        raise ValueRefused("not a packed notification: an array of three, six or seven elements is one")
    return parts


def notification_of(parts: list[Any]) -> Notification:
    """The notification whose parts `unpack_parts` gave."""
    producer, id, fields = parts[:3]
    if len(parts) > 3:
        names = ("id", "producer", "attributes", "time", "sequence", "document", "content")
        given = zip(names, (id, producer, fields, *parts[3:]), strict=False)
        return notification_from_json({name: value for name, value in given if value is not None})
    if type(producer) is not str or (id is not None and type(id) is not str):
        raise ValueRefused("not a packed notification: producer and id are strings")
    notification = Notification.read(fields)
    if notification.producer == producer and notification.id == id:
        return notification
    return replace(notification, producer=producer, id=id)


def _is_in_attributes(notification: Notification) -> bool:
    """Whether time and sequence are what reading the attributes gives."""
    attributes = notification.attributes
    time, sequence = attributes.lookup("time"), attributes.lookup("sequence")
    return (None if time is ABSENT else time) == notification.time and (
        None if sequence is ABSENT else sequence
    ) == notification.sequence
