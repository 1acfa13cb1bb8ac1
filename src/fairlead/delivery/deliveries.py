"""A subscriber is notified once, however many of its subscriptions match.

The byte form is one JSON line with its names in a fixed order, so two runs delivered the same iff their
files have the same bytes:

    {"subscriber":"ada","time":12,"producer":"p","sequence":3,"id":"7","subscriptions":["s1","s4"]}

A version that a mapping of scopes has made has its tag behind that: `"version":"0123456789abcdef"`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from fairlead.errors import ValueRefused
from fairlead.model.encoding import format_json, parse_json
from fairlead.model.order import Identity, OrderKey

__all__ = ["DeliveryRecord", "deliveries_of"]


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """That a subscriber is notified, which of its subscriptions matched, and the notification's order key."""

    subscriber: str
    key: OrderKey
    subscriptions: tuple[str, ...]
    """Their ids, sorted, each once."""
    version: str = ""
    """The tag of the version, where a mapping of scopes has made it."""

    def __post_init__(self) -> None:
        assert all(a < b for a, b in zip(self.subscriptions, self.subscriptions[1:], strict=False))

    @property
    def notification(self) -> Identity:
        """The notification that is delivered."""
        return self.key.identity

    @property
    def rank(self) -> tuple[Any, ...]:
        """Deliveries in the total order; those of one notification by version and subscriber."""
        return *self.key.rank, self.version, self.subscriber

    def line(self) -> bytes:
        """The byte form, with its newline."""
        key = self.key
        written = {
            "subscriber": self.subscriber,
            "time": key.time,
            "producer": key.producer,
            "sequence": key.sequence,
            "id": key.id,
            "subscriptions": self.subscriptions,
        }
        if self.version:
            written["version"] = self.version
        return f"{format_json(written)}\n".encode()

    @classmethod
    def read(cls, line: bytes | str) -> DeliveryRecord:
        """The delivery of a byte form, or ValueRefused."""
        given = parse_json(line)
        if not isinstance(given, dict) or tuple(given) not in (_PLAIN, tuple(_FIELDS)):
            raise ValueRefused(f"a delivery is a JSON object with {', '.join(_PLAIN)}, in that order")
        for name, value in given.items():
            if isinstance(value, bool) or not isinstance(value, _FIELDS[name]):
                raise ValueRefused(f"not the {name} of a delivery: {value!r}")
        subscriptions = tuple(given["subscriptions"])
        if not all(isinstance(id, str) for id in subscriptions) or _sorted(subscriptions) != subscriptions:
            raise ValueRefused("the subscriptions of a delivery are sorted ids, each once")
        key = OrderKey(given["time"], given["producer"], given["sequence"], given["id"])
        return cls(given["subscriber"], key, subscriptions, given.get("version", ""))


_FIELDS: Final[dict[str, Any]] = {
    "subscriber": str,
    "time": int,
    "producer": str,
    "sequence": int | None,
    "id": str,
    "subscriptions": list,
    "version": str,
}
_PLAIN: Final = tuple(name for name in _FIELDS if name != "version")
"""A delivery has a version only where that is not what was published."""


def deliveries_of(key: OrderKey, matching: Iterable[tuple[str, str]]) -> list[DeliveryRecord]:
    """The deliveries of one notification, by subscriber, from the (subscriber, id) pairs that match it."""
    ids: dict[str, list[str]] = {}
    for subscriber, id in matching:
        ids.setdefault(subscriber, []).append(id)
    return [DeliveryRecord(subscriber, key, _sorted(ids[subscriber])) for subscriber in sorted(ids)]


def _sorted(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(ids)))
