"""A query that a broker detects for all who ask for it: one order, one history, the same results for everybody.

    query = HostedQuery.of(definition)      a pattern, or a fair subscription with what it chooses
    detector = HostedDetector(query, lateness_us)
    detector.hear(notification, ordinal)      the next event of its atoms, as the broker's log has it
    detector.due(now)                       the bound to ask the network about; None: nothing to ask
    detector.advance(bound)                 all below has been heard: what is detected now, to be published
    home_of(key, hosts)                     the broker that detects a query

Law: the results are those of an ordered bus that hears the same events in the same order, with the same bounds.

**Found by hash.** The home of a query is a function of its key and of the names of the hosts alone, so all brokers
and all who ask come to the same one, without a directory. A host that is added takes over a share of the queries,
and one that is removed leaves its own to the others; the rest stays (highest random weight, Thaler and Ravishankar
1998).

**Durable.** The inputs are two, `hear` and `advance`, and each is an entry that `journal` gets before it has an
effect. Entries applied once more give the same state and the same results, under the same ids: so a host that was
killed goes on from its entries, publishes the results once more that it may not have published, and brokers drop
the duplicates. What was late is late again. `snapshot` is one entry that stands for all before it.

**Results.** Composites of a pattern have the ids of every runtime. The relations of a fair subscription depend on
where its history begins, so those of different histories must not pass for one another: a published relation names
the query (`detection`), and its id ends in that. `HostedQuery.result_of` gives the relation as the bus has it.

A state machine without input and output; time is the caller's. `network.hosting` has the connection and the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import groupby
from typing import Any, Final, Self, TypeAlias

from fairlead.correlation import fair, patterns
from fairlead.correlation.fair.relations import PRODUCER as FAIR
from fairlead.correlation.kernel import CompositeEvent, Detected, Engine
from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.composites import PRODUCER as PATTERNS
from fairlead.correlation.queries import Careful, Failure, Query
from fairlead.correlation.relating import FairQuery, RelationDetector
from fairlead.errors import ValueRefused
from fairlead.filters import And, Attribute, Constraint, Filter, Not, Op, Or
from fairlead.matching import engine_named
from fairlead.model import Multi, Notification
from fairlead.model.encoding import notification_from_json, notification_to_json
from fairlead.model.order import BEGINNING, Ordering, OrderKey, event_time, identity_of

__all__ = ["ASK", "DETECTION", "Entry", "HostedDetector", "HostedQuery", "home_of"]

ASK: Final = "detection.ask"
"""The type of the requests to hosts."""
DETECTION: Final = "detection"
"""The attribute of a published relation that names its query."""
VERSION: Final = 1
"""Of the entries."""

Entry: TypeAlias = dict[str, Any]
"""One input of a detector, or its whole state, as JSON."""


def home_of(key: str, hosts: Iterable[str]) -> str:
    """The host of a query: the same for all who know the same hosts, in whatever order."""
    return max(hosts, key=lambda host: (blake2b(f"{key}\0{host}".encode(), digest_size=16).digest(), host))


@dataclass(frozen=True)
class HostedQuery:
    """A query as all brokers name it."""

    query: Query

    @classmethod
    def from_json(cls, jsonable: Mapping[str, Any]) -> Self:
        """The query of which `to_json` gave this; ValueRefused, or what reading it raises."""
        match jsonable:
            case {"pattern": str(text)}:
                return cls(Query.of(patterns.parse(text)))
            case {"fair": str(text), "choice": str(choice)}:
                return cls(Query.of(fair.parse(text), choice))
        raise ValueRefused("a query is a pattern, or a fair subscription with its choice")

    def to_json(self) -> dict[str, str]:
        """The query as text, by kind."""
        query = self.query
        if query.is_pattern:
            return {"pattern": str(query)}
        return {"fair": str(query), "choice": query.choice.value}

    @cached_property
    def key(self) -> str:
        """The hash of all that its results depend on but the events."""
        text = "\0".join(part for pair in sorted(self.to_json().items()) for part in pair)
        return blake2b(text.encode(), digest_size=8).hexdigest()

    @property
    def wanted(self) -> Filter:
        """The filter of the events that it is about: composites only where it names their type."""
        atoms = Or.of(dict.fromkeys(self.query.filters))
        events: Filter = Not(Constraint(Attribute("producer"), Op.IN, Multi((PATTERNS, FAIR))))
        if named := self.query.seeing.types:
            events = Or.of([events, Constraint(Attribute("type"), Op.IN, Multi(sorted(named)))])
        return And.of([atoms, events])

    @property
    def filter(self) -> Filter:
        """The filter of its results, as they are published."""
        if self.query.is_pattern:
            return self.query.filter
        return And.of([_equal("producer", FAIR), _equal(DETECTION, self.key)])

    def published(self, result: Notification) -> Notification:
        """A result as its host publishes it."""
        if self.query.is_pattern:
            return result
        return Notification.of({**result.attributes, DETECTION: self.key, "id": f"{result.id} {self.key}"})

    def result_of(self, published: Notification) -> Notification:
        """The result that was published so, as a bus hands it out."""
        if self.query.is_pattern:
            return published
        attributes = {name: value for name, value in published.attributes.items() if name != DETECTION}
        return Notification.of({**attributes, "id": (published.id or "").removesuffix(f" {self.key}")})


class HostedDetector:
    """The detector of one query at its host. Not for several threads."""

    def __init__(self, query: HostedQuery, lateness_us: int = 0) -> None:
        self.query, self.lateness_us = query, lateness_us
        self.journal: Callable[[Entry], object] = _unwritten
        self.ordinal = -1
        """The place of the last event in the broker's log."""
        self.late = 0
        """The number of events that came behind their place in the order, and are left out."""
        self.heard = 0
        """The number of events."""
        self.results = 0
        """The number of results."""
        self._newest = BEGINNING
        self._ordering = Ordering()
        self._engine = Careful(engine_named("columnar"))
        self._kernel = _kernel_of(query.query, self._engine)

    @property
    def bound(self) -> int:
        """Everything below has been looked at."""
        return self._ordering.bound

    @property
    def held(self) -> int:
        """The number of events that wait for the bound."""
        return len(self._ordering)

    # -- inputs ------------------------------------------------------------------------------------------------

    def hear(self, notification: Notification, ordinal: int) -> None:
        """Take the event at a place of the log; one that was taken before is not taken again."""
        if ordinal <= self.ordinal:
            return
        self.journal({"heard": notification_to_json(notification), "place": ordinal})
        self._hear(notification, ordinal)

    def _hear(self, notification: Notification, ordinal: int) -> None:
        self.ordinal = ordinal
        self.heard += 1
        self._newest = max(self._newest, event_time(notification))
        if identity_of(notification) not in self._ordering:
            self.late += not self._ordering.add(notification)

    def due(self, now: int | None = None) -> int | None:
        """The bound up to which all may be looked at once all has come that is logged by now.

        The newest event, and the clock where there is one, are ahead of it by the lateness.
        """
        newest = self._newest if now is None else max(now, self._newest)
        if newest == BEGINNING:
            return None
        bound = newest - self.lateness_us
        return bound if bound > max(self.bound, BEGINNING) else None

    def advance(self, bound: int) -> list[Notification]:
        """All below a bound has been heard: the results up to there, as they are published, in their order."""
        if bound <= self.bound:
            return []
        self.journal({"bound": bound})
        return self._advance(bound)

    def _advance(self, bound: int) -> list[Notification]:
        released = self._ordering.advance(bound)
        found = [self.query.published(each) for each in self._detect(released, bound)]
        self.results += len(found)
        return found

    def _detect(self, released: list[tuple[OrderKey, Notification]], bound: int) -> list[Notification]:
        if isinstance(self._kernel, RelationDetector) and not self.query.query.is_public:
            return [each for key, event in released for each in _completed(self._kernel, event, key)]
        for key, notification in released:
            self._kernel.feed(Occurrence.of(notification, key))
        detected: list[Detected[CompositeEvent]] = [*self._kernel.advance(bound)]
        detected.sort(key=_rank)
        return [next(same).composite.notification() for _, same in groupby(detected, _rank)]

    def take_failures(self) -> list[Failure]:
        """The filters that failed since the last call."""
        return [Failure((self.query.key,), event, error) for _, event, error in self._engine.take_failures()]

    # -- entries -----------------------------------------------------------------------------------------------

    def replay(self, entry: Entry) -> list[Notification]:
        """Apply an entry once more; its results. ValueRefused where it is of another version."""
        match entry:
            case {"heard": heard, "place": int(place)}:
                self._hear(notification_from_json(heard), place)
                return []
            case {"bound": int(bound)}:
                return self._advance(bound)
            case {"version": version, **state}:
                if version != VERSION:
                    raise ValueRefused(f"a detector of version {version}, where {VERSION} is read")
                self._resume(state)
                return []
        return []  # of the journal itself

    def snapshot(self) -> Entry:
        """One entry that stands for all before it."""
        return {
            "version": VERSION,
            "query": self.query.to_json(),
            "at": [self.bound, self._newest, self.ordinal],
            "counts": [self.heard, self.late, self.results],
            "order": [[notification_to_json(each), time] for each, time in self._ordering.held],
            "last": [list(astuple(key)) for key in self._ordering.last],
            "progress": self._kernel.snapshot(),
        }

    def _resume(self, state: Mapping[str, Any]) -> None:
        bound, self._newest, self.ordinal = state["at"]
        self.heard, self.late, self.results = state["counts"]
        held = [(notification_from_json(each), time) for each, time in state["order"]]
        self._ordering = Ordering.restore(bound, held, [OrderKey(*key) for key in state["last"]])
        self._kernel.resume(state["progress"])


def _kernel_of(query: Query, engine: Engine) -> patterns.Detector | RelationDetector:
    if isinstance(query.about, patterns.Pattern):
        detector = patterns.Detector(engine, remembers=True)
        detector.add("", query.about)
        return detector
    relations = RelationDetector(engine)
    relations.add("", FairQuery(query.about, query.choice))
    return relations


def _completed(kernel: RelationDetector, event: Notification, key: OrderKey) -> list[Notification]:
    """The relations that an event completes, each once, in the order of the bus."""
    relations = {relation.id: relation for _, relation in kernel.complete(event, key.time)}
    return [each.notification() for each in sorted(relations.values(), key=lambda each: each.rank)]


def _rank(detected: Detected[CompositeEvent]) -> tuple[int, int, str, str]:
    return detected.composite.rank


def _equal(name: str, value: str) -> Filter:
    return Constraint(Attribute(name), Op.EQ, value)


def _unwritten(_: Entry) -> None:
    """The journal of a detector that nobody writes down."""
