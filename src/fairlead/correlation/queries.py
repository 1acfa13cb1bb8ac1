"""Continuous queries: patterns and fair subscriptions over one order, added and removed while events flow.

    queries = QuerySet(engine)
    queries.add("p1", Query(patterns.parse("spike: A followed by B within 1 hour")), since=…, until=…)
    queries.add("f1", Query(fair.parse("A.x < B.y")))
    queries.advance(released, bound)        the composites that end before a bound, in their order
    queries.relations(notification, key)    the relations that the next notification of the order completes
    queries.results(released, bound)        both, in one order

Law: the results of a query depend on the events in [since, until) of the order. They do not depend on when the
query was added, as long as the watermark had not passed `since`, nor on the steps in which time passes.

Results are notifications. A composite of a pattern with a name is public: it is published, and other queries may
refer to it. So is a relation of a fair subscription with a name. The results of a query without a name go to its
subscribers. A composite or relation of several queries is one result.

In the order of results, a composite and a public relation come after all events up to their end. A relation of a
subscription without a name comes right after the event or composite that completes it; several relations come in
the order of their conjunctions. So the order of the results depends neither on other queries nor on the order in
which queries were added.

A query that refers to public results of others sees them in this order. A query that would see its own is refused.

On a `live` order, that of publishing, nothing waits for time to pass: a public relation comes right after what
completes it, and the caller publishes it next. Patterns are evaluated in the total order there, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, TypeAlias

from fairlead.correlation import fair, patterns
from fairlead.correlation.fair.relations import PRODUCER as FAIR
from fairlead.correlation.kernel import CompositeEvent, Detected, Engine
from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.building import Expression
from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.correlation.patterns.levels import Seeing
from fairlead.correlation.patterns.model import atoms
from fairlead.correlation.relating import (
    FairQuery,
    Relating,
    RelationDetector,
    relation_occurrence,
    seeing,
)
from fairlead.errors import FilterError, SubscriptionRefused
from fairlead.filters import And, Attribute, Constraint, Filter, Op
from fairlead.filters.extensions.sealed import NAME as SEALED
from fairlead.filters.filter import Tested, leaves
from fairlead.filters.schema import Schema
from fairlead.model import Multi, Notification
from fairlead.model.order import BEGINNING, END, OrderKey

__all__ = ["Careful", "Failure", "Query", "QueryLike", "QuerySet", "Result", "rank_of"]

QueryLike: TypeAlias = str | patterns.Pattern | Expression | fair.Subscription
"""The forms of a query: text, a value, or the result of Python calls."""


@dataclass(frozen=True, slots=True)
class Query:
    """A pattern, or a fair subscription and which events it chooses."""

    about: patterns.Pattern | fair.Subscription
    choice: fair.Choice = fair.Choice.FIRST_RECEIVED

    def __post_init__(self) -> None:
        """Refuse sealed predicates: without the keys they match too much, and a pattern has no one who decides
        last."""
        for leaf in chain.from_iterable(map(leaves, self.filters)):
            if isinstance(leaf, Tested) and leaf.name == SEALED:
                raise SubscriptionRefused(
                    "a pattern has no sealed predicates",
                    hint="detect it where the keys are, over what was opened",
                )

    @classmethod
    def of(
        cls, definition: QueryLike, choice: fair.Choice | str | None = None, schema: Schema | None = None
    ) -> Query:
        """The query of a definition in any form."""
        if isinstance(definition, fair.Subscription):
            return cls(definition, _chosen(choice))
        if choice is not None:
            raise SubscriptionRefused(
                "a pattern states its selection itself", hint="`choice` goes with a fair subscription"
            )
        if isinstance(definition, str):
            return cls(patterns.parse(definition, schema))
        if not isinstance(definition, patterns.Pattern | Expression):
            raise SubscriptionRefused(
                f"no pattern: {definition!r}",
                hint="text, a Pattern, event(…).then(…), or a fair subscription: fair.parse(…)",
            )
        return cls(definition.pattern if isinstance(definition, Expression) else definition)

    def __str__(self) -> str:
        return str(self.about)

    @property
    def is_pattern(self) -> bool:
        """Whether it is a pattern, which is evaluated in event time."""
        return isinstance(self.about, patterns.Pattern)

    @property
    def is_public(self) -> bool:
        """Whether its results are published."""
        return self.about.is_public

    @property
    def filter(self) -> Filter:
        """The filter that its results match."""
        if isinstance(self.about, patterns.Pattern):
            return And.of([_equal("producer", PRODUCER), _equal("pattern", self.about.hash)])
        conjunctions = Constraint(Attribute("conjunction"), Op.IN, Multi(map(str, self.about.conjunctions)))
        named = [_equal("type", self.about.name)] if self.about.is_public else []
        return And.of([_equal("producer", FAIR), *named, conjunctions])

    @property
    def seeing(self) -> Seeing:
        """The types of composites that it sees, and the type of what it makes public."""
        if isinstance(self.about, fair.Subscription):
            return seeing(self.about)
        return Seeing(self.about.types_named, frozenset({self.about.name} if self.is_public else ()))

    @property
    def filters(self) -> Iterator[Filter]:
        """The filters of its atoms or components."""
        if isinstance(self.about, patterns.Pattern):
            for atom in atoms(self.about.body):
                yield from (each for each in (atom.filter, atom.domain) if each is not None)
        else:
            for conjunction in self.about.conjunctions:
                yield from (each for part in conjunction.components for each in part.filters.values())


@dataclass(frozen=True, slots=True)
class Result:
    """A composite event or relation, its order key, and the ids of its queries."""

    notification: Notification
    key: OrderKey | None
    """None where the order is that of publishing."""
    ids: tuple[str, ...]
    is_public: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """A filter that raised an error on a notification, and the ids of the queries that have it."""

    ids: tuple[str, ...]
    notification: Notification
    error: Exception


class QuerySet:
    """Queries under distinct ids over one order. Not for several threads at once."""

    def __init__(self, engine: Callable[[], Engine], *, live: bool = False) -> None:
        """`live`: the order of fair subscriptions is that of the calls of `relations`, not that of time."""
        self._live = live
        self._engine = engine
        self._engines: list[Careful] = []
        self._relating = Relating(self._careful)
        self._detector = patterns.Detector(self._careful(), maker=None if live else self._relating)
        self._relations = RelationDetector(self._careful())
        """The fair subscriptions whose relations come right after what completes them."""
        self._queries: dict[str, Query] = {}
        self._timed = 0
        self._running: set[str] = set()
        self._public: set[str] = set()
        """The ids of public relations that patterns have not seen yet, where the order is live."""
        self._until: dict[str, int] = {}
        """When queries end that have not ended."""

    def _careful(self) -> Careful:
        self._engines.append(Careful(self._engine()))
        return self._engines[-1]

    def __len__(self) -> int:
        return len(self._queries)

    @property
    def is_timed(self) -> bool:
        """Whether a query depends on the passing of time."""
        return self._timed > 0

    def _is_timed(self, query: Query) -> bool:
        """Whether its results come after all events up to their end."""
        return query.is_pattern or (query.is_public and not self._live)

    @property
    def given_up(self) -> int:
        """The number of searches that were cut off (`Kernel.given_up`)."""
        return self._detector.given_up

    def add(self, id: str, query: Query, since: int = BEGINNING, until: int = END) -> None:
        """Evaluate a query on order times in [since, until); FilterError where one would see its own results."""
        if id in self._queries:
            raise ValueError(f"the id {id!r} is in use")
        about = query.about
        if isinstance(about, patterns.Pattern):
            self._detector.add(id, about, since)
        else:
            kernel = self._fair_kernel(query)
            kernel.add(id, FairQuery(about, query.choice), since)
            if about.is_public:
                try:
                    self._detector.admit(id, seeing(about))
                except FilterError:
                    kernel.remove(id)
                    raise
        self._running.add(id)
        self._queries[id] = query
        self._timed += self._is_timed(query)
        if until != END:
            self._until[id] = until

    def _fair_kernel(self, query: Query) -> Relating | RelationDetector:
        return self._relating if self._is_timed(query) else self._relations

    def remove(self, id: str) -> None:
        """Stop evaluating a query; an unknown id is a KeyError."""
        query = self._queries.pop(id)
        self._timed -= self._is_timed(query)
        self._stop(id, query)

    def _stop(self, id: str, query: Query) -> None:
        self._until.pop(id, None)
        if id not in self._running:
            return
        self._running.discard(id)
        if isinstance(query.about, patterns.Pattern):
            self._detector.remove(id)
            return
        self._fair_kernel(query).remove(id)
        if query.is_public:
            self._detector.dismiss(id)

    def _ending(self, bound: int, *, timed: bool) -> list[tuple[int, str]]:
        """The timed queries, or the others, that end up to a bound, in the order of their ends."""
        due = ((until, id) for id, until in self._until.items() if until <= bound)
        return sorted((until, id) for until, id in due if self._is_timed(self._queries[id]) == timed)

    # -- in time ---------------------------------------------------------------------------------------------

    def advance(self, released: Iterable[tuple[OrderKey, Notification]], bound: int) -> list[Result]:
        """The composites up to a bound, in order; the events come next in the total order."""
        for key, notification in released:
            self._detector.feed(self._occurrence(notification, key))
        detected: list[Detected[CompositeEvent]] = []
        for until, id in self._ending(bound, timed=True):
            detected += self._detector.advance(until)  # those that end later are none of its results
            self._stop(id, self._queries[id])
        detected += self._detector.advance(bound)
        if relations := self._relating.take():
            detected = sorted([*detected, *relations], key=_rank)
        # A pattern of two queries with different starts is detected twice; its composites are one result each.
        return [_result(list(same)) for _, same in groupby(detected, _rank)]

    def partial(self, now: int, limit: int = 100) -> list[patterns.Partial]:
        """The matches of patterns in progress at a time, at most so many."""
        return self._detector.partial(now, limit)

    def see(self, composite: Notification, key: OrderKey) -> None:
        """Insert a composite that was detected elsewhere, after the events of its instant."""
        self._detector.feed(_occurrence(composite, key))

    def overlook(self, notification: Notification) -> None:
        """Forget a public relation that will not be in the total order, because it is late."""
        self._public.discard(notification.id or "")

    def _occurrence(self, notification: Notification, key: OrderKey) -> patterns.Occurrence:
        """The occurrence of a notification: an event or, where the order is live, a public relation."""
        if notification.producer == FAIR and notification.id in self._public:
            self._public.discard(notification.id)
            return relation_occurrence(notification, key.time)
        return patterns.Occurrence.of(notification, key)

    # -- right behind what completes them --------------------------------------------------------------------

    def relations(self, notification: Notification, key: OrderKey | None = None) -> list[Result]:
        """The relations that the next notification of the established order completes."""
        if self._timed == len(self._queries):
            return []
        if key is not None:
            for _, id in self._ending(key.time, timed=False):
                self._stop(id, self._queries[id])
        completed: dict[str, tuple[fair.Relation, list[str]]] = {}
        for id, relation in self._relations.complete(notification, None if key is None else key.time):
            completed.setdefault(relation.id, (relation, []))[1].append(id)
        results = []
        for relation, ids in sorted(completed.values(), key=lambda each: each[0].rank):
            notified = relation.notification()
            result_key = key and OrderKey(key.time, FAIR, None, notified.id or "")
            if relation.is_public and self.is_timed:
                self._public.add(relation.id)
            results.append(Result(notified, result_key, tuple(sorted(ids)), relation.is_public))
        return results

    # -- both ------------------------------------------------------------------------------------------------

    def results(self, released: Iterable[tuple[OrderKey, Notification]], bound: int) -> Iterator[Result]:
        """The results of the next events of the order, and of time up to a bound, in their order."""
        events = list(released)
        composites = deque(self.advance(events, bound) if self.is_timed else ())
        for key, notification in events:
            while composites and composites[0].key is not None and composites[0].key.time < key.time:
                yield from self._published(composites.popleft())
            yield from self.relations(notification, key)
        for each in composites:
            yield from self._published(each)

    def _published(self, composite: Result) -> Iterator[Result]:
        """A composite and, where it is public, the relations that it completes."""
        yield composite
        if composite.is_public:
            yield from self.relations(composite.notification, composite.key)

    # -- failures --------------------------------------------------------------------------------------------

    def take_failures(self) -> list[Failure]:
        """The filters that failed since the last call."""
        return [
            Failure(
                tuple(id for id, each in self._queries.items() if filter in each.filters),
                notification,
                error,
            )
            for engine in self._engines
            for filter, notification, error in engine.take_failures()
        ]


class Careful:
    """An engine that continues where a filter fails: that filter does not match, and the failure is recorded."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._filters: dict[int, Filter] = {}
        self._failures: list[tuple[Filter, Notification, Exception]] = []

    def add(self, id: int, filter: Filter) -> None:
        self._engine.add(id, filter)
        self._filters[id] = filter

    def remove(self, id: int) -> None:
        self._engine.remove(id)
        del self._filters[id]

    def match(self, notification: Notification) -> list[int]:
        try:
            return self._engine.match(notification)
        except Exception:  # evaluated one by one, only queries with the filter miss the notification
            return [id for id, filter in self._filters.items() if self._matches(filter, notification)]

    def match_batch(self, notifications: Iterable[Notification]) -> list[list[int]]:
        definition = list(notifications)
        try:
            return self._engine.match_batch(definition)
        except Exception:
            return [self.match(each) for each in definition]

    def take_failures(self) -> list[tuple[Filter, Notification, Exception]]:
        failures, self._failures = self._failures, []
        return failures

    def _matches(self, filter: Filter, notification: Notification) -> bool:
        try:
            return filter.matches(notification)
        except Exception as error:
            self._failures.append((filter, notification, error))
            return False


# -- results -------------------------------------------------------------------------------------------------


def _rank(detected: Detected[CompositeEvent]) -> tuple[int, int, str, str]:
    return detected.composite.rank


def _result(same: list[Detected[CompositeEvent]]) -> Result:
    """A composite event that was detected for several."""
    composite = same[0].composite
    notification = composite.notification()
    key = OrderKey(composite.end, notification.producer, None, notification.id or "")
    ids = sorted({id for each in same for id in each.ids})
    return Result(notification, key, tuple(ids), composite.is_public)


def rank_of(result: Result) -> tuple[Any, ...]:
    """The order of composites and public relations in the total order."""
    assert result.key is not None, "its order is that of publishing"
    return _occurrence(result.notification, result.key).rank


def _occurrence(composite: Notification, key: OrderKey) -> Occurrence:
    made_by = str(composite.get("pattern" if composite.producer == PRODUCER else "conjunction"))
    return Occurrence.composite(composite, Occurrence.of(composite, key).start, key.time, made_by)


def _chosen(choice: fair.Choice | str | None) -> fair.Choice:
    if choice is None:
        return fair.Choice.FIRST_RECEIVED
    try:
        return fair.Choice(choice)
    except ValueError:
        there_are = " or ".join(repr(each.value) for each in fair.Choice)
        raise SubscriptionRefused(f"no choice: {choice!r}", hint=f"it is {there_are}") from None


def _equal(name: str, value: str) -> Filter:
    return Constraint(Attribute(name), Op.EQ, value)
