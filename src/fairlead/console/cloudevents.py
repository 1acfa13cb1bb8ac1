"""Notifications over HTTP are CloudEvents 1.0, in and out.

The law: a published CloudEvent is delivered as the same CloudEvent, and any other notification as one with all its
attributes as `data`.

`ingest` reads the events, as everywhere; this module finds them in a request (the modes of the HTTP protocol
binding: structured, batched, binary; and plain JSON records), and writes those that are delivered. "The same" is
to the letter, but for one thing: a decimal in our own typed form, {"$decimal": "19.90"}, is delivered as a number.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final
from urllib.parse import unquote

from fairlead.console.problems import Problem
from fairlead.errors import ValueRefused
from fairlead.ingest.records import notification_of
from fairlead.model import Notification
from fairlead.model.encoding import format_json, parse_json

__all__ = ["BATCH", "DEFAULT_TYPE", "RECORD", "STRUCTURED", "event_of", "notifications_in", "text_of"]

STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
RECORD: Final = "application/json"
DEFAULT_TYPE: Final = "fairlead.notification"
"""The type of an event whose notification has none."""

REQUIRED: Final = ("id", "source", "type")


# -- in --------------------------------------------------------------------------------------------------------


def notifications_in(headers: Iterable[tuple[str, str]], body: bytes, *, most: int) -> list[Notification]:
    """The notifications of a request; Problem if it holds anything else, and then none of them counts."""
    given = [(name.lower(), value) for name, value in headers]
    content_type = next((value for name, value in given if name == "content-type"), "")
    kind = content_type.partition(";")[0].strip().lower()
    context = {name.removeprefix("ce-"): value for name, value in given if name.startswith("ce-")}
    try:
        if kind == STRUCTURED:
            return [_notification(_cloud_event(parse_json(body)))]
        if kind == BATCH:
            return _all_of(parse_json(body), most, are_events=True)
        if context:
            return [_notification(_binary(context, content_type, body))]
        if kind == RECORD:
            parsed = parse_json(body)
            return _all_of(parsed, most) if isinstance(parsed, list) else [_notification(parsed)]
    except ValueRefused as error:
        raise Problem.of(400, error) from None
    taken = f"{STRUCTURED}, {BATCH}, {RECORD}"
    raise Problem(
        415,
        f"events come as {taken}, or with their attributes in headers named ce-…"
        + (f", not as {kind}" if kind else ""),
        headers={"Accept-Post": taken},
    )


def _all_of(parsed: Any, most: int, *, are_events: bool = False) -> list[Notification]:
    if not isinstance(parsed, list):
        raise ValueRefused("a batch is a JSON array")
    if len(parsed) > most:
        raise Problem(413, f"a batch of {len(parsed):,} events; at most {most:,} are taken at once")
    found = []
    for index, each in enumerate(parsed):
        try:
            found.append(_notification(_cloud_event(each) if are_events else each))
        except ValueRefused as error:
            raise Problem.of(400, error, index=index) from None
    return found


def _notification(jsonable: Any) -> Notification:
    return notification_of(jsonable)


def _cloud_event(given: Any) -> dict[str, Any]:
    """A record that is sent as a CloudEvent, checked to be one; unchecked, it would be taken for a plain
    record.
    """
    if not isinstance(given, dict):
        raise ValueRefused("a CloudEvent is a JSON object")
    if given.get("specversion") != "1.0":
        raise ValueRefused(f"a CloudEvent has the specversion 1.0, not {given.get('specversion')!r:.60}")
    for name in REQUIRED:
        if name not in given:
            raise ValueRefused(f"a CloudEvent has an attribute {name!r}")
    return given


def _binary(context: Mapping[str, str], content_type: str, body: bytes) -> dict[str, Any]:
    """The event whose attributes are headers and whose data is the body."""
    event: dict[str, Any] = {name: _unescaped(value) for name, value in context.items()}
    if content_type:
        event["datacontenttype"] = content_type
    if body:
        event |= _data(content_type, body)
    return _cloud_event(event)


def _data(content_type: str, body: bytes) -> dict[str, Any]:
    kind, _, parameters = content_type.partition(";")
    kind = kind.strip().lower()
    if not kind or kind in (RECORD, "text/json") or kind.endswith("+json"):
        return {"data": parse_json(body)}
    if kind.startswith("text/") or kind == "application/xml" or kind.endswith("+xml"):
        charset = re.search(r"charset=\"?([\w.:-]+)", parameters, re.IGNORECASE)
        try:
            return {"data": body.decode(charset[1] if charset else "utf-8")}
        except (UnicodeDecodeError, LookupError) as error:
            raise ValueRefused(f"the data is not {kind} in the charset that is declared: {error}") from None
    return {"data_base64": base64.b64encode(body).decode("ascii")}


def _unescaped(value: str) -> str:
    """The text of a header's value: quotes taken off, then one round of percent-decoding."""
    if len(value) >= 2 and value[0] == value[-1] == '"':
        value = re.sub(r"\\(.)", r"\1", value[1:-1])
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise ValueRefused(f"a header that is not percent-encoded UTF-8: {value!r:.60}") from None


# -- out -------------------------------------------------------------------------------------------------------


def text_of(notification: Notification) -> str:
    """The CloudEvent of a notification as JSON, in one line."""
    return format_json(event_of(notification))


def event_of(notification: Notification) -> dict[str, Any]:
    """The CloudEvent of a notification, in the structured form."""
    attributes, content = notification.written()
    fields = attributes if content is None else content
    if _came_as_event(notification, fields):
        return _as_it_came(notification, fields)
    made: dict[str, Any] = _with_plain_numbers(_made(notification, fields))
    return made


def _came_as_event(notification: Notification, fields: Mapping[str, Any]) -> bool:
    return (
        fields.get("specversion") == "1.0"
        and fields.get("id") == notification.id
        and fields.get("source") == notification.producer
        and all(isinstance(fields.get(name), str) and fields[name] for name in REQUIRED)
    )


def _as_it_came(notification: Notification, fields: dict[str, Any]) -> dict[str, Any]:
    event = dict(fields)
    if "data" in event and isinstance(notification.get("data", None), bytes):
        event["data_base64"] = event.pop("data")["$bytes"]
    return event


def _made(notification: Notification, fields: dict[str, Any]) -> dict[str, Any]:
    kind = fields.get("type")
    event = {
        "specversion": "1.0",
        "id": notification.id,
        "source": notification.producer,
        "type": kind if isinstance(kind, str) and kind else DEFAULT_TYPE,
    }
    if notification.time is not None:
        event["time"] = str(notification.time)
    if notification.sequence is not None:
        event["sequence"] = str(notification.sequence)
    return {**event, "data": fields}


def _with_plain_numbers(given: Any) -> Any:
    """Typed JSON with decimals as JSON numbers: readers of CloudEvents do not know our tags."""
    match given:
        case {"$decimal": str(digits), **others} if not others:
            return Decimal(digits)
        case {"$record": dict(fields), **others} if not others:
            return {"$record": {name: _with_plain_numbers(each) for name, each in fields.items()}}
        case dict():
            return {name: _with_plain_numbers(each) for name, each in given.items()}
        case list():
            return [_with_plain_numbers(each) for each in given]
        case _:
            return given
