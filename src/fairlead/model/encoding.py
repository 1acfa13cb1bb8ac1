"""Notifications as JSON, and as bytes to hash; beside it, the two modules that this rests on.

`typed` says how values are written as JSON and read from it, `text` reads and writes JSON text. All that the rest
of the project needs of the three can be had here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

from fairlead.errors import ValueRefused
from fairlead.model.notification import Notification
from fairlead.model.text import brief, format_json, parse_json, parse_number
from fairlead.model.tree import ROOT, Element
from fairlead.model.typed import (
    _decode,
    _encode,
    _encode_instant,
    _normal,
    _read_time,
    canonical,
    decode,
    encode,
    fields_from_json,
    fields_to_json,
)
from fairlead.model.values import DEPTH_MAX, Value, value_of

__all__ = [
    "DEPTH_MAX",
    "canonical",
    "canonical_content",
    "content_hash",
    "decode",
    "encode",
    "fields_from_json",
    "fields_to_json",
    "format_json",
    "notification_from_json",
    "notification_to_json",
    "parse_json",
    "parse_number",
]


def notification_to_json(notification: Notification) -> dict[str, Any]:
    """A notification with its envelope: `notification_from_json` gives the same notification back.

    `attributes` is the content, which reads as the attributes; where it does not (a schema or the names of fields
    said how to read it), the attributes stand there as they were read, and the content beside them.
    """
    jsonable: dict[str, Any] = {}
    if notification.id is not None:
        jsonable["id"] = notification.id
    if notification.producer:
        jsonable["producer"] = notification.producer
    if notification.time is not None:
        jsonable["time"] = _encode_instant(notification.time)
    if notification.sequence is not None:
        jsonable["sequence"] = notification.sequence
    attributes, content = notification.written()
    jsonable["attributes"] = attributes
    if notification.document is not None:
        jsonable["document"] = _encode_document(notification.document, _encode_attribute)
    if content is not None:
        jsonable["content"] = content
    return jsonable


_ENVELOPE: Final[dict[str, type | tuple[type, ...]]] = {
    "id": str,
    "producer": str,
    "time": (str, int),
    "sequence": int,
    "attributes": dict,
    "document": list,
    "content": dict,
}


def notification_from_json(jsonable: Any) -> Notification:
    """The notification of which `notification_to_json` gave this."""
    if not isinstance(jsonable, dict) or "attributes" not in jsonable:
        raise ValueRefused(f"not a notification with its envelope: {brief(jsonable)}")
    for name, given in jsonable.items():
        if not isinstance(given, _ENVELOPE.get(name, ())) or isinstance(given, bool):
            raise ValueRefused(f"not a part of a notification: {name!r} with {brief(given)}")
    document = jsonable.get("document")
    read = Notification.read(jsonable["attributes"])
    notification = replace(
        read,
        id=value_of(jsonable.get("id")),
        producer=value_of(jsonable.get("producer", "")),
        time=_read_time(jsonable["time"], 0) if "time" in jsonable else None,
        sequence=jsonable.get("sequence"),
        document=None if document is None else _decode_document(document),
    )
    if "content" in jsonable:
        notification = notification.published_as(jsonable["content"], read_as=jsonable["attributes"])
    return notification


def _encode_attribute(value: Value) -> Any:
    return _encode(value, 1)


def _encode_document(document: Element, encoded: Callable[[Value], Any]) -> list[Any]:
    """A tree as its elements in document order, each with its depth: no nesting, so no depth to bound."""
    return [
        [len(path) - 1, element.name, {name: encoded(value) for name, value in element.attributes.items()}]
        for path, element in document.walk()
    ]


def _decode_document(rows: list[Any]) -> Element:
    open_elements: list[tuple[str, dict[str, Value], list[Element]]] = []

    def close(depth: int) -> None:
        while len(open_elements) > depth:
            name, attributes, children = open_elements.pop()
            open_elements[-1][2].append(Element(name, attributes, tuple(children)))

    for row in rows:
        match row:
            case [int(depth), str(name), dict(attributes)] if (
                1 <= depth <= len(open_elements) <= DEPTH_MAX if open_elements else (depth, name) == (0, ROOT)
            ):
                close(depth)
                values = {value_of(key): _decode(item, 1) for key, item in attributes.items()}
                open_elements.append((value_of(name), values, []))
            case _:
                raise ValueRefused(f"not an element of a document: {brief(row)}")
    if not open_elements:
        raise ValueRefused("a document without a root")
    close(1)
    name, attributes, children = open_elements.pop()
    return Element(name, attributes, tuple(children))


# -- bytes to hash, and to compare -----------------------------------------------------------------------------


def content_hash(notification: Notification) -> str:
    """Thirty-two hexadecimal digits that notifications share iff they have the same content, to the letter.

    A record without an id is known by it and by its number among its equals. So equals have to be interchangeable
    in all that is delivered: [1, 2] and [2, 1], which filters cannot tell apart, are not.
    """
    digest = blake2b(notification.to_json().encode(), digest_size=16)
    if notification.document is not None:
        rows = _encode_document(notification.document, lambda value: _normal(value, 0))
        digest.update(b"\n" + format_json(rows, sort_names=True).encode())
    return digest.hexdigest()


def canonical_content(notification: Notification) -> tuple[bytes, bytes]:
    """The content by which copies of a notification are compared: its meaning, and then its spelling.

    Copies with the same first part mean the same, whatever the order of their names and of the elements of their
    sets; those with different ones are in conflict. The smallest copy is the same however they arrive.
    """
    meaning = canonical(notification.attributes)
    if notification.document is not None:
        rows = _encode_document(notification.document, lambda value: _normal(value, 0))
        meaning += b"\n" + format_json(rows, sort_names=True).encode()
    return meaning, notification.to_json().encode()
