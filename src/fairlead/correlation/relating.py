"""Fair subscriptions in event time: the kernel that evaluates them, and their relations among composites.

    FairQuery          a fair subscription, and which events it chooses
    Related            a relation with its interval, ordered among the composites of patterns
    RelationDetector   fair subscriptions over one stream: a `Kernel`
    Relating           subscriptions with a name, on their levels among patterns (`patterns.levels`)

Law: an event is a point, and composites come after the events of the instant at which they end (`established`).

Law: a relation of a subscription with a name is a composite event. It ends with the occurrence that completed it,
and starts with its interval, as far as that is known. Composites are ordered by their end, their start, the
conjunction and their id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

from fairlead.correlation.fair import Choice, Correlator, Relation, Snapshot, Subscription
from fairlead.correlation.fair.subscriptions import TYPE, Conjunction
from fairlead.correlation.kernel import Detected, Engine, Kernel
from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.levels import Seeing
from fairlead.correlation.patterns.model import PARTIAL, UNNAMED
from fairlead.model import Notification
from fairlead.model.encoding import format_json, parse_json
from fairlead.model.order import BEGINNING, OrderKey

__all__ = [
    "PRIVATE",
    "FairQuery",
    "Related",
    "Relating",
    "RelationDetector",
    "established",
    "relation_occurrence",
    "seeing",
    "types_seen",
]

PRIVATE: Final = frozenset({UNNAMED, UNNAMED + PARTIAL})
"""The types of composites without a name: only their subscribers see them, and patterns that refer to them."""


State: TypeAlias = Snapshot | str | None
"""The state of a query: a value, its JSON text, or None for that in which queries begin."""


class FairQuery(NamedTuple):
    """A fair subscription, and which events it chooses."""

    subscription: Subscription
    choice: Choice = Choice.FIRST_RECEIVED


def types_seen(query: Subscription | Conjunction) -> frozenset[str]:
    """The types of composites that a subscription, or a conjunction, refers to."""
    return frozenset(query.signature) - PRIVATE


def seeing(subscription: Subscription) -> Seeing:
    """The types of composites that a subscription sees, and those that others see of it."""
    return Seeing(types_seen(subscription), frozenset({subscription.name} if subscription.is_public else ()))


def established(occurrence: Occurrence) -> tuple[Any, ...]:
    """The rank in the established order: notifications by their order keys, then composites by theirs.

    Unlike for patterns, an event is a point here, whatever interval it has.
    """
    end, start, is_composite, *rest = occurrence.rank
    return end, is_composite, start if is_composite else 0, *rest


@dataclass(frozen=True)
class Related:
    """A relation with the occurrence that completed it: a `CompositeEvent`."""

    relation: Relation
    last: Occurrence

    @property
    def end(self) -> int:
        """The end of the occurrence that completed it."""
        return self.last.end

    @cached_property
    def start(self) -> int:
        """The start of its interval, where that is known and not after its end."""
        interval = self.relation.interval
        return self.end if interval is None else min(interval[0].microseconds, self.end)

    @cached_property
    def id(self) -> str:
        """The id of the relation."""
        return self.relation.id

    @property
    def is_public(self) -> bool:
        """Whether its subscription has a name."""
        return self.relation.is_public

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """Its key among composites: (end, start, conjunction, id)."""
        return self.end, self.start, self.relation.conjunction.text, self.id

    def notification(self) -> Notification:
        """The relation as a notification."""
        return self._notification

    @cached_property
    def _notification(self) -> Notification:
        return self.relation.notification()

    def occurrence(self) -> Occurrence:
        """The relation as an occurrence, for queries over composites."""
        return Occurrence.composite(self._notification, self.start, self.end, self.relation.conjunction.text)


def relation_occurrence(relation: Notification, end: int) -> Occurrence:
    """A public relation that was published as a notification, as an occurrence that ends at a time."""
    start = Occurrence.of(relation, OrderKey(end, relation.producer, None, relation.id or "")).start
    return Occurrence.composite(relation, start, end, str(relation.get("conjunction")))


class RelationDetector(Kernel[FairQuery, Related]):
    """Detects the relations of many fair subscriptions.

    A query costs nothing before the first occurrence of its types: the state that it resumes from is not read, and
    a snapshot has that state unchanged.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._correlator: Correlator[str] = Correlator(engine)
        self._queries: dict[str, tuple[FairQuery, int]] = {}
        self._waiting: dict[str, State] = {}
        """The queries that have not begun, and the states that they begin from."""
        self._types: dict[str, dict[str, None]] = {}
        """Those, and perhaps others, by the types that they refer to."""

    @property
    def in_progress(self) -> int:
        """The number of events that wait for others, counted for each component."""
        return self._correlator.in_progress

    def add(self, id: str, query: FairQuery, since: int = BEGINNING, state: State = None) -> None:
        """Evaluate a query from a time on, or from a state that `remove` gave."""
        if id in self._queries:
            raise ValueError(f"the id {id!r} is in use")
        self._queries[id] = query, since
        self._wait(id, state)

    def _wait(self, id: str, state: State = None) -> None:
        self._waiting[id] = state
        for type in self._queries[id][0].subscription.signature:
            self._types.setdefault(type, {})[id] = None

    def remove(self, id: str) -> State:
        """Stop evaluating a query; its state, where it has any."""
        state = self._state(id)
        self._end(id)
        del self._queries[id]
        return state

    def _end(self, id: str) -> None:
        if id in self._waiting:
            del self._waiting[id]
        else:
            self._correlator.remove(id)

    def complete(self, notification: Notification, time: int | None = None) -> list[tuple[str, Relation]]:
        """The relations that the next notification of the established order completes, and their queries' ids.

        The order is that of the calls. A query begins when its time has come, or at once where there is no time.
        """
        type = notification.get(TYPE)
        if self._waiting and isinstance(type, str) and type in self._types:
            self._begin(type, time)
        return self._correlator.feed(notification)

    def _begin(self, type: str, time: int | None) -> None:
        later: dict[str, None] = {}
        for id in self._types[type]:
            if id not in self._waiting:
                continue
            query, since = self._queries[id]
            if time is not None and since > time:
                later[id] = None
                continue
            state = self._waiting.pop(id)
            if isinstance(state, str):
                state = Snapshot.from_json(parse_json(state))
            self._correlator.add(id, *query, state=state)
        self._types[type] = later

    def _detect(self, ready: list[Occurrence], bound: int) -> list[Detected[Related]]:
        ready.sort(key=established)
        return [
            Detected(Related(relation, occurrence), (id,))
            for occurrence in ready
            for id, relation in self.complete(occurrence.notification, occurrence.end)
        ]

    # -- handing over

    def _state(self, id: str) -> State:
        """The state of a query; None for that in which queries begin."""
        if id in self._waiting:
            return self._waiting[id]
        snapshot = self._correlator.snapshot(id)
        is_initial = snapshot == Snapshot.initial(snapshot.subscription, snapshot.choice)
        return None if is_initial else snapshot

    def snapshot(self) -> dict[str, Any]:
        states = ((id, self._state(id)) for id in self._queries)
        return {
            "bound": self._bound,
            "held": [each.to_json() for each in sorted(self._buffered)],
            "progress": [
                {"query": id, "state": format_json(each.to_json()) if isinstance(each, Snapshot) else each}
                for id, each in states
                if each is not None
            ],
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        for each in state["progress"]:
            id = each["query"]
            if id in self._queries:
                self._end(id)
                self._wait(id, each["state"])
        self._bound = max(self._bound, state["bound"])
        for each in state["held"]:
            self.feed(Occurrence.from_json(each))

    def clear(self) -> None:
        super().clear()
        for id in self._queries:
            self._end(id)
            self._wait(id)


class _Level:
    """The subscriptions of one level."""

    def __init__(self, engine: Engine) -> None:
        self.detector = RelationDetector(engine)
        self.types: Counter[str] = Counter()
        """The types that they refer to, and how many do."""

    def sees(self, occurrence: Occurrence) -> bool:
        """Whether it may concern a subscription; composites without a name concern none but their subscribers."""
        type = occurrence.notification.get(TYPE)
        is_named = isinstance(type, str) and type in self.types
        return is_named and not (occurrence.rank[2] and type in PRIVATE)


class Relating:
    """Fair subscriptions with a name, on their levels among patterns: a `Maker`."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine
        self._queries: dict[str, tuple[FairQuery, int]] = {}
        self._level_of: dict[str, _Level] = {}
        self._levels: dict[int, _Level] = {}
        self._made: dict[tuple[int, int, str, str], tuple[Related, set[str]]] = {}

    def add(self, id: str, query: FairQuery, since: int = BEGINNING) -> None:
        """Register a subscription from a time on; it is evaluated from when it has a level."""
        self._queries[id] = query, since

    def remove(self, id: str) -> None:
        """Stop evaluating a subscription."""
        self._leave(id)
        del self._queries[id]

    def _leave(self, id: str) -> State:
        level = self._level_of.pop(id, None)
        if level is None:
            return None
        level.types -= Counter(set(self._queries[id][0].subscription.signature))
        return level.detector.remove(id)

    def assign_level(self, id: str, level: int) -> None:
        """Move a subscription to a level, with its state."""
        query, since = self._queries[id]
        state = self._leave(id)
        if level not in self._levels:
            self._levels[level] = _Level(self._engine())
        self._level_of[id] = self._levels[level]
        self._level_of[id].types.update(set(query.subscription.signature))
        self._level_of[id].detector.add(id, query, since, state)

    def make(self, level: int, stream: Iterable[Occurrence], bound: int) -> list[Occurrence]:
        """The relations before a bound that the next occurrences of a level complete, those that are new."""
        if (here := self._levels.get(level)) is None:
            return []
        for occurrence in filter(here.sees, stream):
            here.detector.feed(occurrence)
        made: list[Occurrence] = []
        for detected in here.detector.advance(bound):
            related = detected.composite
            # Two levels, or queries from two times on, may detect the same relation; the stream has it once.
            if related.rank not in self._made:
                self._made[related.rank] = related, set()
                made.append(related.occurrence())
            self._made[related.rank][1].update(detected.ids)
        return made

    def take(self) -> list[Detected[Related]]:
        """The relations that were detected since the last call."""
        made, self._made = self._made, {}
        return [Detected(related, tuple(sorted(ids))) for related, ids in made.values()]
