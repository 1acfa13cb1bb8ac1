"""Relations: what fair subscriptions deliver, as notifications that carry what they are made of.

    type           the subscription's name, or `relation`
    id             a hash of the conjunction, its number, and the constituents (and the name, where there is one)
    producer       `fair`
    time           when the last of the events happened
    interval       {start, end}: from the least start of the events to that time
    conjunction    what is satisfied, as text
    number         it is the conjunction's n-th delivery, counted from 1
    constituents   [{step, producer, id, time}, …] in the order of the signature; a step is T[i]
    events         the attributes of each, in the same order

So a relation is a composite event like those of patterns: it can be filtered (`interval.start >= …`) and, where
its subscription has a name, be a step of a pattern and an event of other subscriptions. Where no event says when
it happened, neither does the relation.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from fairlead.correlation.fair.subscriptions import UNNAMED, Conjunction
from fairlead.model import Array, Instant, Notification, Record
from fairlead.model.versions import version_in

__all__ = ["PRODUCER", "Events", "Relation", "identified", "relation_id"]

PRODUCER: Final = "fair"
"""The producer of relations."""

Events: TypeAlias = tuple[Notification, ...]


class Relation(NamedTuple):
    """A relation: the events that satisfy a conjunction together, in the order of its signature."""

    conjunction: Conjunction
    number: int
    """It is the conjunction's n-th delivery, counted from 1."""
    events: Events
    name: str = UNNAMED
    """The name of the subscription that it is delivered for."""

    def called(self, name: str) -> Relation:
        """The same, delivered for a subscription of some name."""
        return self if name == self.name else self._replace(name=name)

    @property
    def is_public(self) -> bool:
        """Whether the relation is public: it has a name by which others can subscribe to it."""
        return self.name != UNNAMED

    @property
    def id(self) -> str:
        """The same wherever and whenever it is delivered."""
        named = b"".join(identified(event.producer, event.id or "") for event in self.events)
        if self.is_public:
            name = self.name.encode()
            return relation_id(self.conjunction, self.number, b"\0%d:%b%b" % (len(name), name, named))
        return relation_id(self.conjunction, self.number, named)

    @property
    def rank(self) -> tuple[str, int, str]:
        """The order of the relations that one notification completes: conjunction, number, id."""
        return str(self.conjunction), self.number, self.id

    @property
    def interval(self) -> tuple[Instant, Instant] | None:
        """The interval from the least start of its events to the time of the last one, as far as they
        have times."""
        times = [event.time for event in self.events if event.time is not None]
        if not times:
            return None
        return min(_started(event) for event in self.events if event.time is not None), max(times)

    @property
    def constituents(self) -> tuple[tuple[str, Notification], ...]:
        """Each event, with its type and instance."""
        steps = (f"{each.type}[{each.index}]" for each in self.conjunction.instances)
        return tuple(zip(steps, self.events, strict=True))

    def notification(self) -> Notification:
        """The relation as a notification."""
        id, interval = self.id, self.interval
        fields: dict[str, Any] = {
            "type": self.name,
            "id": id,
            "producer": PRODUCER,
            "conjunction": str(self.conjunction),
            "number": self.number,
            "constituents": Array(tuple(_named(*each) for each in self.constituents)),
            "events": Array(tuple(event.attributes for event in self.events)),
        }
        if interval is None:
            return Notification(Record(fields), id=id, producer=PRODUCER)
        start, end = interval
        fields |= {"time": end, "interval": Record({"start": start, "end": end})}
        return Notification(Record(fields), id=id, producer=PRODUCER, time=end)


def identified(producer: str, id: str) -> bytes:
    """An event, as the ids of relations are made of it."""
    one, other = producer.encode(), id.encode()
    return b"%d:%b%d:%b" % (len(one), one, len(other), other)


def relation_id(conjunction: Conjunction, number: int, rest: bytes) -> str:
    """The id of the n-th relation of a conjunction; the rest are its events, and its name if it is public."""
    return blake2b(f"{conjunction.text}\0{number}".encode() + rest, digest_size=16).hexdigest()


def _started(event: Notification) -> Instant:
    """When an event that has a time began: that, or the start of its interval."""
    assert event.time is not None
    start = event.get("interval.start")
    return min(start, event.time) if isinstance(start, Instant) else event.time


def _named(step: str, event: Notification) -> Record:
    id, version = version_in(event.id)
    fields: dict[str, Any] = {"step": step, "producer": event.producer, "id": id}
    if version:
        fields["version"] = version
    return Record(fields if event.time is None else {**fields, "time": event.time})
