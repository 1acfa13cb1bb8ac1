"""Standing questions: patterns and fair subscriptions over one order, which come and go while events flow.

    standing = Standing(engine)
    standing.add("p1", Question(patterns.parse("spike: A followed by B within 1 hour")), since=…, until=…)
    standing.add("f1", Question(fair.parse("A.x < B.y")))
    standing.advance(released, bound)        the composites that end before a bound, in their order
    standing.relations(notification, key)    the relations that the next notification of the order completes
    standing.answers(released, bound)        both, each where it stands

Law: a question is answered from what stands in [since, until) of the order; when it was asked does not matter, as
long as time had not come to `since`, nor when it is told how time passes.

Answers are notifications. A composite of a pattern that has a name is public: it is published, for all to see. So
is a relation of a fair subscription with a name. What is asked without a name is for those who asked. The same
composite, or relation, for several is one answer.

In the order of answers a public relation, as a composite of a pattern, stands behind all that happened up to its
end. A relation for those who asked stands right behind what completes it, be that an event or something public; of
several, in the order of their conjunctions. So who asks what, and in which order they were asked, changes nothing
in the order of the answers.

A question over public answers to others sees them where they stand; one that would see its own is refused.

Where the order is `live`, that of publishing, nothing stands behind what is still to come: a public relation is
there, right behind what completes it, and who asked publishes it next. Patterns keep to the total order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
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
from fairlead.filters.schema import Schema
from fairlead.model import Multi, Notification
from fairlead.model.order import BEGINNING, END, OrderKey

__all__ = ["Answer", "Asked", "Failure", "Question", "Standing", "rank_of"]

Asked: TypeAlias = str | patterns.Pattern | Expression | fair.Subscription
"""What a question can be given as."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a pattern, or a fair subscription and which of its events are to be taken."""

    about: patterns.Pattern | fair.Subscription
    choice: fair.Choice = fair.Choice.FIRST_RECEIVED

    @classmethod
    def of(
        cls, given: Asked, choice: fair.Choice | str | None = None, schema: Schema | None = None
    ) -> Question:
        """A question in whatever form it is given: text, a value, or what Python calls have built."""
        if isinstance(given, fair.Subscription):
            return cls(given, _chosen(choice))
        if choice is not None:
            raise SubscriptionRefused(
                "a pattern says itself what it takes", hint="`choice` goes with a fair subscription"
            )
        if isinstance(given, str):
            return cls(patterns.parse(given, schema))
        if not isinstance(given, patterns.Pattern | Expression):
            raise SubscriptionRefused(
                f"no pattern: {given!r}",
                hint="text, a Pattern, event(…).then(…), or a fair subscription: fair.parse(…)",
            )
        return cls(given.pattern if isinstance(given, Expression) else given)

    def __str__(self) -> str:
        return str(self.about)

    @property
    def is_pattern(self) -> bool:
        """Whether it is about event time; a fair subscription is about an order."""
        return isinstance(self.about, patterns.Pattern)

    @property
    def is_public(self) -> bool:
        """Whether all may see the answers."""
        return self.about.is_public

    @property
    def filter(self) -> Filter:
        """What the answers match."""
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
        """The filters that are asked in order to answer it."""
        if isinstance(self.about, patterns.Pattern):
            for atom in atoms(self.about.body):
                yield from (each for each in (atom.filter, atom.domain) if each is not None)
        else:
            for conjunction in self.about.conjunctions:
                yield from (each for part in conjunction.components for each in part.filters.values())


@dataclass(frozen=True, slots=True)
class Answer:
    """A composite event, or a relation, at its place in the order, and the ids of the questions it answers."""

    notification: Notification
    key: OrderKey | None
    """None where the order is that of publishing."""
    ids: tuple[str, ...]
    is_public: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """That a filter failed on a notification instead of answering, and the ids of the questions that have it."""

    ids: tuple[str, ...]
    notification: Notification
    error: Exception


class Standing:
    """Questions under distinct ids, asked of one order. Not for several threads at once."""

    def __init__(self, engine: Callable[[], Engine], *, live: bool = False) -> None:
        """`live`: the order of fair subscriptions is that in which `relations` is asked, and not of time."""
        self._live = live
        self._engine = engine
        self._engines: list[_Careful] = []
        self._relating = Relating(self._careful)
        self._detector = patterns.Detector(self._careful(), maker=None if live else self._relating)
        self._relations = RelationDetector(self._careful())
        """The fair subscriptions whose relations come right after what completes them."""
        self._questions: dict[str, Question] = {}
        self._timed = 0
        self._running: set[str] = set()
        self._public: set[str] = set()
        """The ids of relations that are on their way to patterns, where the order is live."""
        self._until: dict[str, int] = {}
        """When questions end that have not."""

    def _careful(self) -> _Careful:
        self._engines.append(_Careful(self._engine()))
        return self._engines[-1]

    def __len__(self) -> int:
        return len(self._questions)

    @property
    def is_timed(self) -> bool:
        """Whether it matters how time passes."""
        return self._timed > 0

    def _is_timed(self, question: Question) -> bool:
        """Whether its answers stand behind all that happened up to their end."""
        return question.is_pattern or (question.is_public and not self._live)

    @property
    def given_up(self) -> int:
        """How often matches of a pattern were not all looked for (`Detector.given_up`)."""
        return self._detector.given_up

    def add(self, id: str, question: Question, since: int = BEGINNING, until: int = END) -> None:
        """Answer a question for order times in [since, until); FilterError where one would see its own answers."""
        if id in self._questions:
            raise ValueError(f"the id {id!r} is taken")
        about = question.about
        if isinstance(about, patterns.Pattern):
            self._detector.add(id, about, since)
        else:
            kernel = self._fair_kernel(question)
            kernel.add(id, FairQuery(about, question.choice), since)
            if about.is_public:
                try:
                    self._detector.admit(id, seeing(about))
                except FilterError:
                    kernel.remove(id)
                    raise
        self._running.add(id)
        self._questions[id] = question
        self._timed += self._is_timed(question)
        if until != END:
            self._until[id] = until

    def _fair_kernel(self, question: Question) -> Relating | RelationDetector:
        return self._relating if self._is_timed(question) else self._relations

    def remove(self, id: str) -> None:
        """Answer a question no longer; an id that is not there is a KeyError."""
        question = self._questions.pop(id)
        self._timed -= self._is_timed(question)
        self._stop(id, question)

    def _stop(self, id: str, question: Question) -> None:
        self._until.pop(id, None)
        if id not in self._running:
            return
        self._running.discard(id)
        if isinstance(question.about, patterns.Pattern):
            self._detector.remove(id)
            return
        self._fair_kernel(question).remove(id)
        if question.is_public:
            self._detector.dismiss(id)

    def _due(self, bound: int, *, timed: bool) -> list[tuple[int, str]]:
        """The questions about time, or the others, that end up to a bound, in the order in which they do."""
        due = ((until, id) for id, until in self._until.items() if until <= bound)
        return sorted((until, id) for until, id in due if self._is_timed(self._questions[id]) == timed)

    # -- in time ---------------------------------------------------------------------------------------------

    def advance(self, released: Iterable[tuple[OrderKey, Notification]], bound: int) -> list[Answer]:
        """Take in what stands next in the order, and let time pass up to a bound: what was found, in order."""
        for key, notification in released:
            self._detector.feed(self._placed(notification, key))
        detected: list[Detected[CompositeEvent]] = []
        for until, id in self._due(bound, timed=True):
            detected += self._detector.advance(until)  # what ends there, or later, is not its answer any more
            self._stop(id, self._questions[id])
        detected += self._detector.advance(bound)
        if relations := self._relating.take():
            detected = sorted([*detected, *relations], key=_rank)
        # A pattern that was asked at two times is detected twice, from either on; a composite is one all the same.
        return [_answer(list(same)) for _, same in groupby(detected, _rank)]

    def see(self, composite: Notification, key: OrderKey) -> None:
        """A composite that was found elsewhere takes its place, behind the events of its instant."""
        self._detector.feed(_occurrence(composite, key))

    def overlook(self, notification: Notification) -> None:
        """What was to stand in the total order will not: it came too late."""
        self._public.discard(notification.id or "")

    def _placed(self, notification: Notification, key: OrderKey) -> patterns.Occurrence:
        """What patterns look at: an event or, where the order is live, a relation that has been made public."""
        if notification.producer == FAIR and notification.id in self._public:
            self._public.discard(notification.id)
            return relation_occurrence(notification, key.time)
        return patterns.Occurrence.of(notification, key)

    # -- right behind what completes them --------------------------------------------------------------------

    def relations(self, notification: Notification, key: OrderKey | None = None) -> list[Answer]:
        """What the next notification of the established order completes; without a key, whenever that is."""
        if self._timed == len(self._questions):
            return []
        if key is not None:
            for _, id in self._due(key.time, timed=False):
                self._stop(id, self._questions[id])
        found: dict[str, tuple[fair.Relation, list[str]]] = {}
        for id, relation in self._relations.complete(notification, None if key is None else key.time):
            found.setdefault(relation.id, (relation, []))[1].append(id)
        answers = []
        for relation, ids in sorted(found.values(), key=lambda each: each[0].rank):
            told = relation.notification()
            place = key and OrderKey(key.time, FAIR, None, told.id or "")
            if relation.is_public and self.is_timed:
                self._public.add(relation.id)
            answers.append(Answer(told, place, tuple(sorted(ids)), relation.is_public))
        return answers

    # -- both ------------------------------------------------------------------------------------------------

    def answers(self, released: Iterable[tuple[OrderKey, Notification]], bound: int) -> Iterator[Answer]:
        """What is found in what stands next in the order, and in time up to a bound: each where it stands."""
        events = list(released)
        composites = deque(self.advance(events, bound) if self.is_timed else ())
        for key, notification in events:
            while composites and composites[0].key is not None and composites[0].key.time < key.time:
                yield from self._published(composites.popleft())
            yield from self.relations(notification, key)
        for each in composites:
            yield from self._published(each)

    def _published(self, composite: Answer) -> Iterator[Answer]:
        """A composite, and the relations that it completes where it is public."""
        yield composite
        if composite.is_public:
            yield from self.relations(composite.notification, composite.key)

    # -- failures --------------------------------------------------------------------------------------------

    def take_failures(self) -> list[Failure]:
        """The filters that have failed since this was asked last."""
        return [
            Failure(
                tuple(id for id, each in self._questions.items() if filter in each.filters),
                notification,
                error,
            )
            for engine in self._engines
            for filter, notification, error in engine.take_failures()
        ]


class _Careful:
    """An engine that goes on where a filter fails: that filter does not match, and the failure is kept."""

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
        except Exception:  # asked one by one, only those miss out that have the filter
            return [id for id, filter in self._filters.items() if self._matches(filter, notification)]

    def match_batch(self, notifications: Iterable[Notification]) -> list[list[int]]:
        given = list(notifications)
        try:
            return self._engine.match_batch(given)
        except Exception:
            return [self.match(each) for each in given]

    def take_failures(self) -> list[tuple[Filter, Notification, Exception]]:
        failures, self._failures = self._failures, []
        return failures

    def _matches(self, filter: Filter, notification: Notification) -> bool:
        try:
            return filter.matches(notification)
        except Exception as error:
            self._failures.append((filter, notification, error))
            return False


# -- answers -------------------------------------------------------------------------------------------------


def _rank(detected: Detected[CompositeEvent]) -> tuple[int, int, str, str]:
    return detected.composite.rank


def _answer(same: list[Detected[CompositeEvent]]) -> Answer:
    """A composite event that was detected for several."""
    composite = same[0].composite
    notification = composite.notification()
    key = OrderKey(composite.end, notification.producer, None, notification.id or "")
    ids = sorted({id for each in same for id in each.ids})
    return Answer(notification, key, tuple(ids), composite.is_public)


def rank_of(answer: Answer) -> tuple[Any, ...]:
    """The place of a composite or public relation among all of them, in the total order."""
    assert answer.key is not None, "its order is that of publishing"
    return _occurrence(answer.notification, answer.key).rank


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
