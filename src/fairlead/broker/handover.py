"""A durable subscriber moves from broker to broker: what is where, and up to which cut.

Wherever the subscriber is, its notifications are in the log of that broker. A place is one stay at one broker, and
has a counter: the next place's is greater. When the subscriber arrives somewhere, a cut is made: by origin, the
last position that is still for the places before. The law: a notification is for the first place whose next cut it
does not exceed, and for that place alone. So nothing is lost, nothing comes twice, and since the places are
delivered in their order, nothing of one origin comes out of it (`fairlead.broker.progress` says when all up to a
cut has arrived somewhere).

What is delivered has one number on the whole way: the counter of the place in whose log it is, and its offset
there. These numbers grow along the moves of a subscriber, as offsets do in one log.

Values and state machines without input and output; `fairlead.network.handover` has the messages and the logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

__all__ = [
    "HERE",
    "Cut",
    "Fetching",
    "Holding",
    "Part",
    "is_for",
    "number_for",
    "offset_in",
    "parts_of",
    "rank_of",
]

Cut: TypeAlias = Mapping[str, int]
"""By origin, the last position."""

OFFSET_BITS: Final = 40
"""The bits of a delivery's number that are the offset, from 1."""
OFFSETS: Final = 1 << OFFSET_BITS
HERE: Final = -1
"""Instead of a counter: the subscriber is arriving there, and has no place yet."""


def number_for(counter: int, offset: int) -> int:
    """The number of a delivery: the place's counter, and the offset in its log."""
    return (counter << OFFSET_BITS) + offset + 1


def rank_of(number: int) -> int:
    """The counter in the number of a delivery."""
    return number >> OFFSET_BITS


def offset_in(number: int) -> int:
    """The offset in the number of a delivery."""
    return number % OFFSETS - 1


class Holding(NamedTuple):
    """The answer of a broker that has a place of a subscriber."""

    broker: str
    counter: int
    """That of the place; `HERE` where the subscriber is just arriving."""
    ids: Sequence[str]
    """Its subscriptions there."""
    cut: Cut
    """The cut with which it begins."""
    is_fixed: bool = False
    """Whether it cannot move: it is shared, or counts attempts."""
    offer: str = ""
    """It has not been left, and can be, as long as nobody comes back there: then this changes."""


class Part(NamedTuple):
    """The share of one of the places before: the records of its log up to a cut."""

    broker: str
    counter: int
    upto: Cut
    offer: str = ""


def parts_of(holdings: Iterable[Holding], cut: Cut) -> tuple[int, list[Part]]:
    """The counter of a new place that begins with this cut, and the parts of the places before, in their order."""
    places = sorted({(each.counter, each.broker): each for each in holdings if each.counter != HERE}.items())
    if not places:
        return 0, []
    cuts = [*(each.cut for _, each in places[1:]), cut]
    parts = [
        Part(each.broker, each.counter, upto or cut, each.offer)
        for (_, each), upto in zip(places, cuts, strict=True)
    ]
    return parts[-1].counter + 1, parts


def is_for(origin: str, position: int, after: Cut, upto: Cut) -> bool:
    """Whether what was published there is for the place with these cuts; an empty one does not bound it."""
    if after and position <= after.get(origin, 0):
        return False
    return not upto or position <= upto.get(origin, 0)


@dataclass(slots=True)
class Fetching:
    """The records of one part that have come, at the broker where the subscriber is now."""

    part: Part
    since: int = 0
    """All records below have come; 0: as many as the subscriber had dealt with."""
    open: dict[int, object] = field(default_factory=dict)
    """Those that it has not dealt with."""
    dealt: int = 0
    """All below was dealt with when it began."""
    is_read: bool = False
    """Whether all has come."""
    idle: int = 0
    """The number of ticks since an answer is awaited."""

    @property
    def done(self) -> int:
        """All records below have been dealt with."""
        return min(self.open, default=self.since) if self.since else self.dealt

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left."""
        return self.is_read and not self.open

    def take(self, since: int, end: int, records: Iterable[tuple[int, object]], *, is_all: bool) -> bool:
        """An answer has come: the records from `since` up to, and without, `end`. False: it is not the one that is
        awaited."""
        if since != self.since or self.is_read:
            return False
        self.open.update(records)
        self.since, self.is_read, self.idle = end, is_all, 0
        return True

    def accept(self, offset: int) -> bool:
        """A record has been dealt with; whether it was open."""
        return self.open.pop(offset, self) is not self

    def begin_again(self) -> None:
        """Another client is there: what was not dealt with comes once more."""
        self.dealt, self.since, self.is_read, self.idle = self.done, 0, False, 0
        self.open.clear()
