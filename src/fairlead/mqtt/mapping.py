"""Topics and payloads as notifications, and back.

The law: what one MQTT client publishes, another one gets as it was: topic, payload, content type, user properties,
response topic and correlation data. A notification of any other client is JSON, on a topic made of its attributes.

    topic, payload     a payload is text where it is UTF-8, and bytes where it is not
    data               the payload once more, where it is JSON: `data.celsius > 30`, or `data > 30`
    user.NAME          a user property; several of one name are a list
    content_type, payload_format, reply.topic, reply.data, expires, retain, qos
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import mqtt5

from fairlead.dialects import mqtt as topics
from fairlead.errors import FairleadError, ValueRefused
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import EVERYTHING, NOTHING, And, Filter, Not, Or
from fairlead.filters.language import parse
from fairlead.filters.terms import Attribute
from fairlead.model import Instant, Notification
from fairlead.model.encoding import parse_json
from fairlead.network.settings import TOPIC

__all__ = ["JSON", "Mapping", "Message", "Wanted", "is_topic", "matches"]

JSON: Final = "application/json"
SHARE: Final = "$share/"
CONTENT: Final = "$filter/"
ABSENT_LEVEL: Final = "-"
"""The level of a topic for an attribute that is absent, or is no text."""
SECOND_US: Final = 1_000_000
EXPIRY_MAX: Final = 0xFFFF_FFFF
TOPIC_MAX: Final = 65_535
_WILD: Final = re.compile(r"[+#/\0]")
_PLACE: Final = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Message:
    """A message to a client of MQTT, before it is known at which QoS and for which subscriptions."""

    topic: str
    payload: bytes
    content_type: str | None = None
    payload_format: int = 0
    response_topic: str | None = None
    correlation_data: bytes | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    expires: int | None = None
    """When nobody should get it any longer, in microseconds."""
    retain: bool = False
    qos: int = 2
    """The QoS that it was published at; that of what came from elsewhere does not bound it."""
    is_other: bool = False
    """Whether no client of MQTT has published it."""

    def seconds_left(self, now: int) -> int | None:
        """The message expiry interval; 0: it has expired."""
        if self.expires is None:
            return None
        return min(EXPIRY_MAX, max(0, -(-(self.expires - now) // SECOND_US)))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The meaning of a topic filter."""

    filter: Filter
    group: str = ""
    """The name of the shared subscription, with its filter; empty for one that is not shared."""


class Mapping:
    """The mapping of one listener: `topic` is a template for notifications without a topic."""

    def __init__(self, topic: str = TOPIC) -> None:
        self._topic = topic
        self._levels = topic.split("/")

    # -- in ----------------------------------------------------------------------------------------------------

    def notification(
        self, packet: mqtt5.PublishPacket | mqtt5.Will, topic: str, *, producer: str, id: str, now: int
    ) -> Notification:
        """The notification of a message. ValueRefused where its properties cannot be attributes."""
        payload = packet.payload or b""
        record: dict[str, Any] = {"id": id, "producer": producer, "topic": topic}
        text = _text(payload)
        if packet.payload_format_indicator:
            if text is None:
                raise ValueRefused("the payload is said to be UTF-8, and is not")
            record["payload_format"] = 1
        record["payload"] = _bytes(payload) if text is None else text
        if packet.content_type is not None:
            record["content_type"] = packet.content_type
        if packet.response_topic is not None:
            record["reply"] = {"topic": packet.response_topic}
            if packet.correlation_data is not None:
                record["reply"]["data"] = _bytes(packet.correlation_data)
        elif packet.correlation_data is not None:
            record["reply"] = {"data": _bytes(packet.correlation_data)}
        if packet.user_properties:
            record.update(_attributes_of(packet.user_properties))
        if packet.message_expiry_interval is not None:
            record["expires"] = {"$time": str(Instant(now + packet.message_expiry_interval * SECOND_US))}
        if packet.retain:
            record["retain"] = True
        if int(packet.qos):
            record["qos"] = int(packet.qos)
        if text and (data := _json(text)) is not None:
            try:
                return Notification.read({**record, "data": data})
            except ValueRefused:
                pass  # JSON that is no attribute: names with empty steps, or nested too deeply
        return Notification.read(record)

    # -- out ---------------------------------------------------------------------------------------------------

    def message(self, notification: Notification) -> Message:
        """The message of a notification."""
        topic, payload = notification.get("topic"), notification.get("payload")
        if not isinstance(topic, str) or not is_topic(topic):
            return self._other(notification)
        if isinstance(payload, str):
            payload = payload.encode()
        elif not isinstance(payload, bytes):
            return self._other(notification, topic)
        if len(notification.attributes) <= PLAIN:
            return Message(topic, payload, qos=_qos(notification))
        reply, expires = notification.get("reply.topic"), notification.get("expires")
        data, content_type = notification.get("reply.data"), notification.get("content_type")
        return Message(
            topic,
            payload,
            content_type if isinstance(content_type, str) else None,
            1 if notification.get("payload_format") == 1 else 0,
            reply if isinstance(reply, str) and is_topic(reply) else None,
            data if isinstance(data, bytes) else None,
            _properties_of(notification),
            expires.microseconds if isinstance(expires, Instant) else None,
            notification.get("retain") is True,
            _qos(notification),
        )

    def _other(self, notification: Notification, topic: str = "") -> Message:
        """That of a notification which no client of MQTT has published."""
        if not topic:
            topic = _PLACE.sub(lambda found: _level(_value(notification, found[1])), self._topic)
        return Message(topic[:TOPIC_MAX], notification.to_json().encode(), JSON, 1, is_other=True)

    # -- filters -----------------------------------------------------------------------------------------------

    def wanted(self, topic_filter: str, content: str = "", but: str = "") -> Wanted:
        """The meaning of a subscription to a topic filter, with a content filter beside it, and not what the
        producer `but` publishes. FairleadError where that is none."""
        if topic_filter.startswith(SHARE):
            topics.read(topic_filter)  # which says what is wrong with it
        group, rest = _shared(topic_filter)
        parts: list[Filter] = []
        if rest.startswith(CONTENT):
            text, _, rest = rest.removeprefix(CONTENT).partition("/")
            try:
                parts.append(parse(unquote(text, errors="strict")))
            except UnicodeDecodeError:
                raise ValueRefused(f"not percent-encoded UTF-8: {text!r:.100}") from None
        if rest or not parts:
            parts.append(self._on_topic(rest))
        if content:
            parts.append(parse(content))
        if but:
            parts.append(Not(Constraint(Attribute("producer"), Op.EQ, but)))
        if group and content:
            group = f"{group}?{content}"
        return Wanted(And.of(parts) if len(parts) > 1 else parts[0], group)

    def _on_topic(self, topic_filter: str) -> Filter:
        """The filter of a topic filter. One that begins as the template does is for what has no topic, too."""
        found = topics.read(topic_filter)
        levels = topic_filter.split("/")
        if levels[0] != self._levels[0]:
            return found
        without = self._without_topic(levels)
        if without == NOTHING:
            return found
        return Or.of((found, And.of((Constraint(Attribute("topic"), Op.ABSENT), without))))

    def is_on_template(self, topic_filter: str) -> bool:
        """Whether a topic filter is about topics that the template makes. Its filter may match too much then."""
        _, rest = _shared(topic_filter)
        return rest.split("/")[0] == self._levels[0]

    def _without_topic(self, levels: Sequence[str]) -> Filter:
        """The filter on attributes for what the template puts on a topic that these levels match."""
        parts: list[Filter] = []
        for index, ours in enumerate(self._levels):
            if index == len(levels):
                return NOTHING
            level = levels[index]
            if level == "#":
                return And.of(parts) if parts else EVERYTHING
            if level == "+":
                continue
            place = _PLACE.fullmatch(ours)
            if place is None and level != ours:
                return NOTHING
            if place is not None and place[1] not in ENVELOPE:
                parts.append(Constraint(Attribute(place[1]), Op.EQ, level))
        if levels[len(self._levels) :] not in ([], ["#"]):
            return NOTHING
        return And.of(parts) if parts else EVERYTHING


PLAIN: Final = 4
"""The attributes that every message has: id, producer, topic, payload. One with no more needs no further look."""


ENVELOPE: Final = ("producer", "id")
"""Attributes that a filter does not see where the broker has given them."""


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a topic filter matches a topic."""
    _, rest = _shared(topic_filter)
    return topics.read(rest).matches(Notification.of({"topic": topic}))


def _shared(topic_filter: str) -> tuple[str, str]:
    """The group of a shared subscription, with its filter, or nothing; and the filter."""
    if not topic_filter.startswith(SHARE):
        return "", topic_filter
    group = topic_filter.removeprefix(SHARE)
    return group, group.partition("/")[2]


def _value(notification: Notification, name: str) -> Any:
    if name == "producer":
        return notification.producer
    return notification.id if name == "id" else notification.get(name)


def is_topic(text: str) -> bool:
    """Whether a message can be published on a topic of this name."""
    return bool(text) and not {"+", "#", "\0"} & set(text) and len(text.encode()) <= TOPIC_MAX


def _qos(notification: Notification) -> int:
    given = notification.get("qos")
    return int(given) if given in (0, 1, 2) else 2


def _text(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None


def _bytes(given: bytes) -> dict[str, str]:
    return {"$bytes": base64.b64encode(given).decode("ascii")}


def _json(text: str) -> Any:
    """The value of a JSON text; None where it is none, or null."""
    if text[0] not in '{["-0123456789tf \t\r\n':
        return None
    try:
        return parse_json(text)
    except FairleadError:
        return None


def _attributes_of(properties: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """User properties as attributes; where a record does not say all of them, in their order, beside it as they
    are."""
    user: dict[str, Any] = {}
    for name, value in properties:
        if name and "." not in name and not name.startswith("$"):
            known = user.get(name)
            user[name] = value if known is None else [*([known] if isinstance(known, str) else known), value]
    made: dict[str, Any] = {"user": user} if user else {}
    if [*user.items()] != [*properties]:
        made["properties"] = [[name, value] for name, value in properties]
    return made


def _properties_of(notification: Notification) -> tuple[tuple[str, str], ...]:
    if "user" not in notification.attributes and "properties" not in notification.attributes:
        return ()
    content = notification.content
    listed, user = content.get("properties"), content.get("user")
    if isinstance(listed, list) and all(map(_is_pair, listed)):
        return tuple((name, value) for name, value in listed)
    if not isinstance(user, dict):
        return ()
    return tuple((str(name), value if isinstance(value, str) else str(value)) for name, value in user.items())


def _is_pair(given: Any) -> bool:
    return isinstance(given, list) and len(given) == 2 and all(isinstance(each, str) for each in given)


def _level(value: Any) -> str:
    """A value as a level of a topic."""
    return (_WILD.sub("_", value) if isinstance(value, str) else "") or ABSENT_LEVEL
