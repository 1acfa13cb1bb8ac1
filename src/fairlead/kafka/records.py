"""A record of Kafka as a notification: its value, and, under a name of one's choice, what else it has.

    {"symbol": "IBM", "price": 168.5,
     "kafka": {"topic": "quotes", "partition": 1, "offset": 41, "at": "quotes/1/41", "time": …, "key": "IBM",
               "headers": {"source": "feed"}}}

A record without a value is a tombstone: it says that its key is no more.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from fairlead.errors import ValueRefused
from fairlead.filters.schema import Schema
from fairlead.ingest import rows
from fairlead.ingest.records import STANDARD, Fields, notification_of
from fairlead.ingest.rejection import Rejection
from fairlead.kafka.schemas import Encoding, Registry
from fairlead.model import Instant, Notification
from fairlead.model.encoding import parse_json

__all__ = ["PLAIN", "Reading", "Taken", "Tombstones"]

Tombstones: TypeAlias = Literal["reject", "skip", "keep"]


class Taken(NamedTuple):
    """A record as it was taken from a topic."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None = None
    time_us: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()

    @property
    def at(self) -> str:
        """The record's place, which nothing else has."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    @classmethod
    def unpacked(cls, packed: bytes) -> Taken:
        """A record that Spark has packed into JSON, with its bytes in base64."""
        found = json.loads(packed)
        headers = [(each["key"], _bytes(each.get("value"))) for each in found.get("headers") or ()]
        return cls(
            found["topic"],
            found["partition"],
            found["offset"],
            _bytes(found.get("value")),
            _bytes(found.get("key")),
            found.get("time"),
            headers,
        )

    def about(self) -> dict[str, Any]:
        """The rest of a record, besides its value."""
        found: dict[str, Any] = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "at": self.at,
        }
        if self.time_us is not None:
            found["time"] = Instant(self.time_us)
        if self.key is not None:
            found["key"] = _text(self.key)
        if self.headers:
            found["headers"] = {name: _text(value) for name, value in self.headers if value is not None}
        return found


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _text(content: bytes) -> str | bytes:
    """The text of bytes that are one."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


@dataclass(frozen=True, slots=True)
class Reading:
    """Manner of reading the records of a topic."""

    encoding: Encoding = "json"
    registry: str | None = None
    about: str | None = None
    tombstones: Tombstones = "reject"
    fields: Fields = STANDARD
    lift: bool = False
    schema: Schema | None = None
    source: str = "kafka"

    @property
    def is_plain(self) -> bool:
        """Whether a record is what the JSON in its value says, and nothing else."""
        return self.encoding == "json" and self.about is None and self.tombstones == "reject"

    def read(self, taken: Taken) -> Notification | Rejection | None:
        """The notification of a record, why there is none, or None where a tombstone is to be passed over."""
        raw = taken.value or b""
        try:
            if taken.value is None and self.tombstones == "skip":
                return None
            if taken.value is None and self.tombstones != "keep":
                raise ValueRefused("a tombstone: a key without a value")
            notification = self._notification(taken)
            return notification if self.schema is None else self.schema.admit(notification)
        except ValueRefused as error:
            return Rejection.of(error, raw, source=self.source)

    def _notification(self, taken: Taken) -> Notification:
        fields = self._value(taken)
        if self.about is None and self.encoding == "json":
            return notification_of(fields, lift=self.lift, fields=self.fields)
        if self.about is not None:
            if self.about in fields:
                raise ValueRefused(f"the record has a field {self.about!r} already, where its place is to be")
            told = taken.about()
            if taken.value is None:
                told["tombstone"] = True
            fields = {**fields, self.about: told}
        return self.fields.notification(rows.without_nulls(fields))

    def _value(self, taken: Taken) -> Mapping[str, Any]:
        if taken.value is None:
            return {}
        if self.encoding != "json":
            assert self.registry is not None
            return Registry(self.registry).read(taken.value, self.encoding)
        read = parse_json(taken.value)
        if not isinstance(read, dict):
            raise ValueRefused(f"a notification is a JSON object, not {type(read).__name__}")
        return read


PLAIN: Final = Reading()
