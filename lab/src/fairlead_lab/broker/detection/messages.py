"""The messages between detectors and their sources, over the notification service itself (book 7.5).

    heartbeat   all that its source publishes later ends from a time on; a detector that moves names who goes on
    probe       whoever is a source: answer with a heartbeat
    ready       the new place of a detector hears everything from a time on
    state       where the old place stopped, and all that the new one needs to go on

The service needs not know of any of this: they are notifications, found by their `type`, and routed like others.
Links keep their order and brokers too, so what comes behind a notification on its way was published behind it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from fairlead.filters import And, Attribute, Constraint, Filter, Op
from fairlead.model import Instant, Multi, Notification

__all__ = [
    "CONTROL",
    "HEARTBEAT",
    "PROBE",
    "READY",
    "STATE",
    "addressed_to",
    "heartbeat",
    "heartbeats_of",
    "is_control",
    "of_type",
    "probe",
    "ready",
    "state",
]

HEARTBEAT: Final = "detection.heartbeat"
PROBE: Final = "detection.probe"
READY: Final = "detection.ready"
STATE: Final = "detection.state"
CONTROL: Final = frozenset({HEARTBEAT, PROBE, READY, STATE})


def heartbeat(
    number: int, source: str, host: str, until: int, now: int, *, answers: str = "", successor: str = ""
) -> Notification:
    """All that `source` publishes at its `place` from now on ends from `until` on; for all, or as an answer."""
    fields: dict[str, Any] = {"type": HEARTBEAT, "source": source, "host": host, "until": until}
    if answers:
        fields["to"] = answers
    if successor:
        fields["successor"] = successor
    return _control(number, host, now, fields)


def probe(number: int, host: str, now: int) -> Notification:
    """Sources that hear this have heard before what its sender subscribes to: links keep their order."""
    return _control(number, host, now, {"type": PROBE, "asks": host})


def ready(number: int, host: str, to: str, since: int, now: int) -> Notification:
    """The new place hears everything that ends from `since` on."""
    return _control(number, host, now, {"type": READY, "to": to, "host": host, "since": since})


def state(number: int, host: str, to: str, snapshot: Any, now: int) -> Notification:
    """The state of a detector, for its new place."""
    text = json.dumps(snapshot, ensure_ascii=False, separators=(",", ":"))
    return _control(number, host, now, {"type": STATE, "to": to, "state": text})


def _control(number: int, host: str, now: int, fields: dict[str, Any]) -> Notification:
    kind = fields["type"].removeprefix("detection.")
    return Notification.of({**fields, "id": f"{kind} {number}", "producer": host, "time": Instant(now)})


def is_control(notification: Notification) -> bool:
    """Whether it is for detectors and sources only."""
    return notification.get("type") in CONTROL


def of_type(type: str) -> Filter:
    """The notifications of a type."""
    return Constraint(Attribute("type"), Op.EQ, type)


def heartbeats_of(sources: frozenset[str]) -> Filter:
    """The heartbeats of some sources, wherever these are."""
    return And((of_type(HEARTBEAT), Constraint(Attribute("source"), Op.IN, Multi(sources))))


def addressed_to(host: str) -> Filter:
    """The filter of messages to one place only."""
    return Constraint(Attribute("to"), Op.EQ, host)
