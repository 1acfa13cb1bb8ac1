"""One JSON object is one notification: a flat record, or an event of CloudEvents 1.0.

A flat record has its attributes at the top; the envelope is read from `id`, `producer`, `time` and
`sequence`, or from the fields that `Fields` names. An object with `specversion` 1.0 and an `id`, a `source`
and a `type` is a CloudEvent: its context attributes keep their names, the payload is under `data`, and the
producer is the `source`, under both names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.errors import ValueRefused
from fairlead.filters.schema import Schema
from fairlead.ingest.rejection import Rejection
from fairlead.ingest.times import ANY, Times
from fairlead.model import ABSENT, Notification, Record, check_name
from fairlead.model.encoding import fields_from_json, parse_json
from fairlead.model.typed import given_to_json

__all__ = ["Fields", "notification_of", "read"]


_ENVELOPE: Final = ("id", "producer", "time", "sequence")


@dataclass(frozen=True, slots=True)
class Fields:
    """The dotted names under which flat records hold what the envelope needs.

    The record keeps its fields: a copy stands under the envelope's own name, where filters find it whatever
    the source calls it.
    """

    id: str = "id"
    producer: str = "producer"
    time: str = "time"
    sequence: str = "sequence"
    times: Times = ANY
    """The notation of the time."""

    def __post_init__(self) -> None:
        for name in _ENVELOPE:
            check_name(getattr(self, name))

    def mapped(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """The record with the envelope's names in it."""
        if self is STANDARD or self == STANDARD:
            return record
        found = Record(record)
        added: dict[str, Any] = {}
        for name in _ENVELOPE:
            theirs = getattr(self, name)
            value = found.lookup(theirs)
            if value is ABSENT or (theirs == name and (name != "time" or self.times == ANY)):
                continue
            if name in found and theirs != name:
                raise ValueRefused(
                    f"{theirs!r} is to be the {name!r} of the notification, which the record has already"
                )
            added[name] = self.times.instant(value) if name == "time" else value
        return {**found, **added} if added else record

    def notification(self, record: Mapping[str, Any]) -> Notification:
        """The notification of a record: its content is the record, without the copies."""
        mapped = self.mapped(record)
        notification = Notification.of(mapped)
        return notification if mapped is record else notification.published_as(given_to_json(record))


STANDARD: Final = Fields()


def read(
    raw: bytes | str,
    *,
    source: str = "records",
    line: int | None = None,
    schema: Schema | None = None,
    lift: bool = False,
    fields: Fields = STANDARD,
) -> Notification | Rejection:
    """The notification that a JSON text holds, or why there is none."""
    try:
        notification = notification_of(parse_json(raw), lift=lift, fields=fields)
        return notification if schema is None else schema.admit(notification)
    except ValueRefused as error:
        return Rejection.of(error, raw, source=source, line=line)


def notification_of(jsonable: Any, *, lift: bool = False, fields: Fields = STANDARD) -> Notification:
    """The notification of a JSON object, or ValueRefused."""
    if _is_cloud_event(jsonable):
        return _cloud_event(jsonable, lift)
    if fields is STANDARD or fields == STANDARD:
        return Notification.read(jsonable)
    read = fields_from_json(jsonable, is_time_read=fields.times == ANY)
    mapped = fields.mapped(read)
    return Notification.read(jsonable) if mapped is read else Notification.of(mapped).published_as(jsonable)


# -- CloudEvents -------------------------------------------------------------------------------------------

_REQUIRED: Final = ("id", "source", "type")


def _is_cloud_event(given: Any) -> bool:
    return (
        isinstance(given, dict)
        and given.get("specversion") == "1.0"
        and all(name in given for name in _REQUIRED)
    )


def _cloud_event(event: dict[str, Any], lift: bool) -> Notification:
    for name in _REQUIRED:
        if not isinstance(event[name], str) or not event[name]:
            raise ValueRefused(f"the {name!r} of a CloudEvent is a string with something in it")
    record = {**(_lifted(event) if lift else _unpacked(event))}
    record.setdefault("producer", event["source"])  # filters read it; the content is the event without it
    return replace(Notification.read(record), producer=event["source"]).published_as(
        event, read_as=None if lift else record
    )


def _unpacked(event: dict[str, Any]) -> dict[str, Any]:
    """The event with its binary payload, where it has one, under `data`."""
    if "data_base64" not in event:
        return event
    if "data" in event:
        raise ValueRefused("a CloudEvent has 'data' or 'data_base64', not both")
    return {
        "data" if name == "data_base64" else name: {"$bytes": value} if name == "data_base64" else value
        for name, value in event.items()
    }


def _lifted(event: dict[str, Any]) -> dict[str, Any]:
    """The event with the members of an object payload at the top.

    A member whose name a context attribute has stays under `data`: neither may hide the other. So does a
    payload that is a value in typed form, such as {"$bytes": ...}, or might be one.
    """
    event = _unpacked(event)
    payload = event.get("data")
    if not isinstance(payload, dict) or (len(payload) == 1 and next(iter(payload)).startswith("$")):
        return event
    context = {name: value for name, value in event.items() if name != "data"}
    staying = {name: value for name, value in payload.items() if name.split(".")[0] in event}
    lifted = {name: value for name, value in payload.items() if name not in staying}
    return {**context, **lifted, **({"data": staying} if staying else {})}
