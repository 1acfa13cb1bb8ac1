"""Fair subscriptions in a total order: what each of them sees there, and where what it completes stands.

    Correlating    fair subscriptions over one stream, each from its time on
    Related        a relation of a subscription with a name, at its place among the composites of patterns
    Relating       such subscriptions on their levels among patterns (`patterns.levels`)

Law: an event is a point, and composites stand behind the events of the instant at which they end (`established`).

Law: a relation of a subscription with a name is a composite event. It ends with what completed it, and starts with
its interval, as far as that is known. Its place among composites is by its end, its start, the conjunction and
its id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from fairlead.correlation.fair import Choice, Correlator, Relation, Snapshot, Subscription
from fairlead.correlation.fair.matcher import Engine
from fairlead.correlation.fair.subscriptions import Conjunction
from fairlead.correlation.patterns.levels import Seeing
from fairlead.correlation.patterns.model import PARTIAL, UNNAMED
from fairlead.correlation.patterns.occurrences import Occurrence
from fairlead.model import Notification
from fairlead.model.order import BEGINNING, OrderKey

__all__ = ["PRIVATE", "Correlating", "Related", "Relating", "established", "placed", "seeing", "types_seen"]

PRIVATE: Final = frozenset({UNNAMED, UNNAMED + PARTIAL})
"""The types of composites that only those see who asked, and patterns that name them."""


def types_seen(asked: Subscription | Conjunction) -> frozenset[str]:
    """The types of composites that a subscription, or a conjunction, takes."""
    return frozenset(asked.signature) - PRIVATE


def seeing(subscription: Subscription) -> Seeing:
    """What a subscription sees of others, and what others may see of it."""
    return Seeing(types_seen(subscription), frozenset({subscription.name} if subscription.is_public else ()))


def established(occurrence: Occurrence) -> tuple[Any, ...]:
    """The place in the established order: notifications by their keys, and behind them composites by theirs.

    Unlike for patterns, an event is a point here, whatever interval it has.
    """
    end, start, is_composite, *rest = occurrence.rank
    return end, is_composite, start if is_composite else 0, *rest


@dataclass(frozen=True)
class Related:
    """A relation of a subscription with a name, at its place."""

    relation: Relation
    id: str
    start: int
    end: int

    @classmethod
    def completed(cls, relation: Relation, last: Occurrence) -> Related:
        """A relation that was completed by something."""
        interval, end = relation.interval, last.end
        start = end if interval is None else min(interval[0].microseconds, end)
        return cls(relation, relation.id, start, end)

    @property
    def whose(self) -> str:
        """What tells it apart from others with the same interval; then its id does."""
        return self.relation.conjunction.text

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """Its place among composites."""
        return self.end, self.start, self.whose, self.id

    @cached_property
    def notification(self) -> Notification:
        """The relation as a notification."""
        return self.relation.notification()

    def occurrence(self) -> Occurrence:
        """The relation at its place in the stream."""
        return Occurrence.composite(self.notification, self.start, self.end, self.whose)


def placed(relation: Notification, end: int) -> Occurrence:
    """A public relation that somebody has published, at its place in the stream, where it ends then."""
    start = Occurrence.of(relation, OrderKey(end, relation.producer, None, relation.id or "")).start
    return Occurrence.composite(relation, start, end, str(relation.get("conjunction")))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A subscription, which events it takes, and from which time on."""

    subscription: Subscription
    choice: Choice
    since: int


class Correlating:
    """Fair subscriptions over one stream, each from its time on."""

    def __init__(self, engine: Engine) -> None:
        self._correlator: Correlator[str] = Correlator(engine)
        self._asked: dict[str, _Asked] = {}
        self._waiting: dict[str, int] = {}
        """When those begin whose time has not come."""

    def add(
        self,
        id: str,
        subscription: Subscription,
        choice: Choice,
        since: int = BEGINNING,
        state: Snapshot | None = None,
    ) -> None:
        """Take in a subscription, from a time on, or from a state."""
        self._asked[id] = _Asked(subscription, choice, since)
        if since == BEGINNING or state is not None:
            self._begin(id, state)
        else:
            self._waiting[id] = since

    def remove(self, id: str) -> Snapshot | None:
        """Let a subscription go; what it had in progress, where it had begun."""
        del self._asked[id]
        if self._waiting.pop(id, None) is not None:
            return None
        state = self._correlator.snapshot(id)
        self._correlator.remove(id)
        return state

    def feed(self, notification: Notification, time: int | None = None) -> list[tuple[str, Relation]]:
        """What the next notification completes, and for whom. Time has come to here."""
        if self._waiting and time is not None:
            for id in [id for id, since in self._waiting.items() if since <= time]:
                del self._waiting[id]
                self._begin(id)
        return self._correlator.feed(notification)

    def _begin(self, id: str, state: Snapshot | None = None) -> None:
        asked = self._asked[id]
        self._correlator.add(id, asked.subscription, asked.choice, state=state)


class _Level:
    """The subscriptions of one level."""

    def __init__(self, engine: Engine) -> None:
        self.correlating = Correlating(engine)
        self.types: Counter[str] = Counter()
        """The types that they name, and how many do."""

    def sees(self, occurrence: Occurrence) -> bool:
        """Whether it may concern somebody: private composites are for those who asked for them."""
        type = occurrence.notification.get("type")
        is_named = isinstance(type, str) and type in self.types
        return is_named and not (occurrence.rank[2] and type in PRIVATE)


class Relating:
    """Fair subscriptions with names, on their levels among patterns: a `Maker`."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine
        self._asked: dict[str, _Asked] = {}
        self._placed: dict[str, _Level] = {}
        self._levels: dict[int, _Level] = {}
        self._made: dict[tuple[int, int, str, str], tuple[Related, set[str]]] = {}

    def add(self, id: str, subscription: Subscription, choice: Choice, since: int = BEGINNING) -> None:
        """Take in a subscription from a time on; it looks at nothing before it has a level."""
        self._asked[id] = _Asked(subscription, choice, since)

    def remove(self, id: str) -> Snapshot | None:
        """Let a subscription go; what it had in progress."""
        asked, level = self._asked.pop(id), self._placed.pop(id, None)
        if level is None:
            return None
        level.types -= Counter(set(asked.subscription.signature))
        return level.correlating.remove(id)

    def place(self, id: str, level: int) -> None:
        """Put a subscription on a level, with what it has in progress."""
        asked = self._asked[id]
        state = self.remove(id)
        if level not in self._levels:
            self._levels[level] = _Level(self._engine())
        self._asked[id], self._placed[id] = asked, self._levels[level]
        self._placed[id].types.update(set(asked.subscription.signature))
        self._placed[id].correlating.add(id, asked.subscription, asked.choice, asked.since, state)

    def make(self, level: int, stream: Iterable[Occurrence]) -> list[Occurrence]:
        """Look at what comes next on a level: the relations that it completes, those that are new."""
        if (here := self._levels.get(level)) is None:
            return []
        made: list[Occurrence] = []
        for occurrence in sorted(filter(here.sees, stream), key=established):
            for id, relation in here.correlating.feed(occurrence.notification, occurrence.end):
                related = Related.completed(relation, occurrence)
                # On two levels, or from two places on, the same may be found; it is there once.
                if related.rank not in self._made:
                    self._made[related.rank] = related, set()
                    made.append(related.occurrence())
                self._made[related.rank][1].add(id)
        return made

    def take(self) -> list[tuple[Related, tuple[str, ...]]]:
        """What has been made since this was asked last, and for whom."""
        made, self._made = self._made, {}
        return [(related, tuple(sorted(ids))) for related, ids in made.values()]
