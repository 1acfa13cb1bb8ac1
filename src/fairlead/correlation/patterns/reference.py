"""The reference detector: the definition of patterns, sentence by sentence, as a program.

    detect(pattern, stream, until)         all composites of a finite stream, in their order
    detect_all(patterns, stream, until)    the same for patterns that see one another's composites

Every match is searched for, from every point of the stream; then it is decided which are taken. This is what the
automata are compared with. It takes exponential time, and nothing is done about that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import time as TimeOfDay
from graphlib import CycleError, TopologicalSorter
from itertools import product
from math import inf
from typing import Any, Final, TypeAlias

from fairlead.correlation.patterns.composites import PARTIAL, Composite, in_order
from fairlead.correlation.patterns.conditions import Asked, asked, fold_of, outputs, tester
from fairlead.correlation.patterns.model import (
    Atom,
    Both,
    Concat,
    Condition,
    Either,
    Iterate,
    Part,
    Pattern,
    Reference,
    Sequence,
    Take,
    Timing,
    Within,
    atoms,
)
from fairlead.correlation.patterns.occurrences import Occurrence
from fairlead.errors import FilterError
from fairlead.filters import Attribute, Constraint, Op
from fairlead.filters.constraint import compare
from fairlead.filters.filter import leaves
from fairlead.model import ABSENT, Instant, Key, Multi, key_of

__all__ = ["detect", "detect_all", "named_types"]

_DAY: Final = 24 * 60 * 60 * 1_000_000

Taken: TypeAlias = tuple[tuple[str, Occurrence], ...]
"""Steps with what they took."""
Place: TypeAlias = tuple[Any, ...]
"""What ≺ compares."""


# -- elements and points -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimeEvent:
    """A timer of a match that goes off: a point in time."""

    name: str
    start: int
    end: int
    turn: tuple[str, ...]
    """Its place among the time events of its instant: by name, but never before what started it."""


Element: TypeAlias = Occurrence | TimeEvent


def _place(element: Element) -> Place:
    """Time events go off behind all occurrences that end at their instant."""
    return (
        (element.end, 1, element.turn) if isinstance(element, TimeEvent) else (element.end, 0, element.rank)
    )


def _started(name: str, spec: int | Instant | TimeOfDay, at: Element) -> TimeEvent:
    """The time event of a timer that is started at an element."""
    match spec:
        case Instant(microseconds):
            deadline = max(microseconds, at.end)
        case TimeOfDay(hour=h, minute=m, second=s, microsecond=us):
            deadline = at.end - at.end % _DAY + ((h * 60 + m) * 60 + s) * 1_000_000 + us
            deadline += 0 if deadline > at.end else _DAY
        case duration:
            deadline = at.end + duration
    turn: tuple[str, ...] = (name,)
    if isinstance(at, TimeEvent) and deadline == at.end and turn <= at.turn:
        turn = (*at.turn, name)
    return TimeEvent(name, deadline, deadline, turn)


@dataclass(frozen=True, slots=True)
class Point:
    """Where a part is matched from: the beginning or an element, with what is bound and the timers that run."""

    element: Element | None = None
    strong: bool = False
    bound: Taken = ()
    timers: Mapping[str, TimeEvent] = field(default_factory=dict)

    def precedes(self, y: Element) -> bool:
        """Whether an element is beyond this point."""
        x = self.element
        if x is None:
            return True
        strongly = x.end < y.start or x.start == x.end == y.start == y.end
        return _place(x) < _place(y) and (strongly or not self.strong)


# -- matches -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """A match of a part or, where it waits for further elements, as much of one as there is."""

    taken: Taken = ()
    end: Element | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """What can be found in a stream when time has passed up to and including `now`."""

    body: Part
    asked: Asked
    stream: tuple[Occurrence, ...]
    now: float
    consumed: frozenset[Occurrence]

    def everything(self) -> Iterator[Run]:
        """The matches of the body from every point of the stream, weakly; complete or waiting."""
        for p in (Point(), *map(Point, self.stream)):
            for run in self.runs(self.body, p):
                if run.waits or all(_holds(each, run.taken) for each in self.asked.at_end):
                    yield run

    def runs(self, part: Part, p: Point) -> Iterator[Run]:
        """The matches of a part from a point, complete or waiting."""
        match part:
            case Atom():
                yield from self.atom(part, p)
            case Concat() | Sequence() | Timing():
                yield from self.chain(part, p)
            case Iterate(inner, least, most):
                yield from self.rounds(inner, least, inf if most is None else most, p)
            case Either(parts):
                for each in parts:
                    yield from self.runs(each, p)
            case Both(parts):
                for branches in product(*[tuple(self.runs(each, p)) for each in parts]):
                    taken = tuple(step for each in branches for step in each.taken)
                    end = max((each.end for each in branches if each.end), key=_place, default=None)
                    yield Run(taken, end, any(each.waits for each in branches))
            case Within(inner, duration):
                for run in self.runs(inner, p):
                    last = self.now if run.waits or run.end is None else run.end.end
                    if all(last - occurrence.start <= duration for _, occurrence in run.taken):
                        yield run

    def atom(self, atom: Atom, p: Point) -> Iterator[Run]:
        """The first element beyond p that is taken or in Σ."""
        elements: list[Element] = [*self.stream]
        elements += [event for event in p.timers.values() if event.end <= self.now]
        for element in sorted(elements, key=_place):
            if not p.precedes(element):
                continue
            if isinstance(element, TimeEvent):
                taken: Taken | None = () if element.name in atom.timers else None
                fails = element.name in atom.domain_timers
            else:
                taken = ((atom.step, element),) if self.takes(atom, element, p.bound) else None
                fails = atom.domain is not None and atom.domain.matches(element.notification)
            if taken is not None:
                yield Run(taken, element)
            if taken is not None or fails:
                return
        yield Run(waits=True)

    def takes(self, atom: Atom, element: Occurrence, bound: Taken) -> bool:
        """Whether it is in A and not consumed, and the conditions that are asked of it hold."""
        if atom.filter is None or not atom.filter.matches(element.notification) or element in self.consumed:
            return False
        return all(_holds(each, bound, (atom.step, element)) for each in self.asked.at_steps[atom.step])

    def chain(self, part: Concat | Sequence | Timing, p: Point) -> Iterator[Run]:
        """C1, then C2 from its end; where C1 took no element, from p itself. In C1 ; C2 all of C2 is behind C1."""
        for head in self.runs(part.first, p):
            q = p
            if head.end is not None:
                timers = p.timers
                if isinstance(part, Timing):
                    timers = {**timers, part.timer: _started(part.timer, part.spec, head.end)}
                q = Point(head.end, isinstance(part, Sequence), p.bound + head.taken, timers)
            tails = () if head.waits else self.runs(part.second, q)
            yield from _joined(head, (each for each in tails if all(q.precedes(y) for _, y in each.taken)))

    def rounds(self, part: Part, least: int, most: float, p: Point) -> Iterator[Run]:
        """From `least` to `most` rounds, one behind the other."""
        if least <= 0:
            yield Run()
        if most > 0:
            for head in self.runs(part, p):
                q = Point(head.end, bound=p.bound + head.taken, timers=p.timers)
                yield from _joined(head, () if head.waits else self.rounds(part, least - 1, most - 1, q))


def _joined(head: Run, tails: Iterable[Run]) -> Iterator[Run]:
    """A match and those that go on from its end; one that waits is as far as it goes."""
    if head.waits:
        yield head
    for tail in tails:
        yield Run(head.taken + tail.taken, tail.end or head.end, tail.waits)


def _holds(condition: Condition, bound: Taken, about: tuple[str, Occurrence] | None = None) -> bool:
    """Whether a condition holds, or is not asked because something that it names is not bound."""
    values = []
    for reference in condition.references:
        taken = [occurrence for step, occurrence in bound if step == reference.step]
        if about is not None and reference.aggregate is None and reference.step == about[0]:
            taken = [about[1]]
        if not taken:
            return True
        values.append(_value(reference, taken))
    return tester(condition)(values[0], values[-1])


def _value(reference: Reference, taken: Iterable[Occurrence]) -> Any:
    fold = fold_of(reference)
    state = fold.start()
    for occurrence in taken:
        state = fold.add(state, occurrence.notification.get(reference.attribute or "id"))
    return fold.result(state)


# -- what is taken -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Match:
    """A match of the whole pattern, or one that waits. Two with the same constituents and end are one."""

    constituents: Taken
    """By place in the stream, then by step."""
    found: Place
    """Its end; time events of one instant are one."""

    @property
    def first(self) -> Occurrence:
        return self.constituents[0][1]

    @property
    def last(self) -> Occurrence:
        return self.constituents[-1][1]

    @property
    def occurrences(self) -> frozenset[Occurrence]:
        return frozenset(occurrence for _, occurrence in self.constituents)


class Taking:
    """Goes through the moments at which matches are found or run out of time, and takes what is to be taken."""

    def __init__(self, pattern: Pattern, stream: tuple[Occurrence, ...], now: float) -> None:
        self.pattern, self.stream, self.now = pattern, stream, now
        self.asked = asked(pattern)
        self.steps = [atom.step for atom in atoms(pattern.body)]
        self.taken: list[Match] = []
        self.consumed: frozenset[Occurrence] = frozenset()

    def composites(self) -> Iterator[Composite]:
        """All composites of the pattern, in the order in which they are found."""
        moment: Place = ()
        deadlines = self.deadlines()
        matches = self.matches(self.stream, self.now, waiting=False)
        while True:
            moments = {each.found for each in matches} | {(deadline, 2) for deadline in deadlines.values()}
            if not (coming := [each for each in moments if each > moment]):
                return
            moment = min(coming)
            for match in self.take([each for each in matches if each.found == moment]):
                yield self.composite(match, moment[0], partial=False)
            for s, deadline in deadlines.items():
                if (deadline, 2) == moment and (waiting := self.waiting(s, deadline)):
                    yield self.composite(waiting[0], deadline, partial=True)
            if self.pattern.take is Take.FIRST:  # what is consumed by now is skipped from here on
                matches = self.matches(self.stream, self.now, waiting=False)

    def matches(self, stream: tuple[Occurrence, ...], now: float, waiting: bool) -> list[Match]:
        """All matches that are complete, or all that wait; the first one first."""
        found: set[Match] = set()
        for run in Search(self.pattern.body, self.asked, stream, now, self.consumed).everything():
            if run.waits is waiting and run.taken:
                end = () if run.end is None else _place(run.end)
                ordered = sorted(run.taken, key=lambda each: (each[1].rank, self.steps.index(each[0])))
                found.add(Match(tuple(ordered), end[:2] if isinstance(run.end, TimeEvent) else end))
        return sorted(found, key=self.order)

    def order(self, match: Match) -> Place:
        """One constituent after the other; where one has no further constituent, the other one is first."""
        compared = ((0, each.rank, self.steps.index(step)) for step, each in match.constituents)
        return (*compared, (1,))

    def take(self, matches: list[Match]) -> Iterator[Match]:
        """Those that are taken of the matches with one end."""
        if self.pattern.take is Take.ALL:
            matches = matches[: self.pattern.limit]
        if self.pattern.take is Take.RECENT:
            matches = [each for each in matches if self.may_start(each.first)][-1:]
        for match in matches:
            if self.may_start(match.first) and self.consumed.isdisjoint(match.occurrences):
                self.taken.append(match)
                if self.pattern.take is Take.FIRST:
                    self.consumed |= match.occurrences
                yield match

    def may_start(self, s: Occurrence) -> bool:
        """Whether a match may start with it, by what was taken so far."""
        match self.pattern.take:
            case Take.PAST | Take.RECENT:
                return not self.taken or self.taken[-1].last < s
            case Take.NEXT:
                return all(each.first is not s for each in self.taken)
            case Take.FIRST:
                return s not in self.consumed
            case Take.ALL:
                return True

    def deadlines(self) -> dict[Occurrence, int]:
        """Where partial matches are asked for: when the time of those that start with an occurrence is over."""
        match self.pattern:
            case Pattern(partial=True, body=Within(_, duration)):
                return {s: s.start + duration for s in self.stream if s.start + duration <= self.now}
        return {}

    def waiting(self, s: Occurrence, deadline: int) -> list[Match]:
        """The matches that started with s and wait at its deadline, if none was taken and one might be."""
        if not self.may_start(s) or any(each.first is s for each in self.taken):
            return []
        known = tuple(each for each in self.stream if each.end <= deadline)
        return [each for each in self.matches(known, deadline, waiting=True) if each.first is s]

    def composite(self, match: Match, end: int, partial: bool) -> Composite:
        """The composite of a match, with what the pattern gives with it."""

        def value(reference: Reference) -> Any:
            taken = [occurrence for step, occurrence in match.constituents if step == reference.step]
            return _value(reference, taken) if taken else ABSENT

        return Composite(self.pattern, match.constituents, end, outputs(self.pattern, value), partial)


# -- whole streams -----------------------------------------------------------------------------------------


def detect(pattern: Pattern, stream: Iterable[Occurrence], until: int | None = None) -> list[Composite]:
    """All composites of a finite stream in their order, partial ones included.

    Time is known to have passed up to, not including, `until` and the end of every occurrence. None means that
    the end of time has come, and every timer goes off.
    """
    ordered = sorted(stream)
    return list(in_order(_detected(pattern, ordered, _passed(ordered, until))))


def detect_all(
    patterns: Iterable[Pattern], stream: Iterable[Occurrence], until: int | None = None
) -> list[Composite]:
    """The composites of all patterns in their order, where each sees those of others whose types it names."""
    given, ordered = list(patterns), sorted(stream)
    named = [named_types(pattern) for pattern in given]
    below: dict[int, list[int]] = {n: [] for n in range(len(given))}
    for (n, types), (m, other) in product(enumerate(named), enumerate(given)):
        if n != m and not types.isdisjoint((other.name, other.name + PARTIAL)):
            below[n].append(m)
    try:
        order = list(TopologicalSorter(below).static_order())
    except CycleError:
        raise FilterError("a pattern would see its own composites, over those of others") from None
    found: dict[int, list[Composite]] = {}
    for n in order:
        composites = [each.occurrence() for m in below[n] for each in found[m]]
        seen = [each for each in composites if each.notification.get("type") in named[n]]
        found[n] = _detected(given[n], sorted((*ordered, *seen)), _passed(ordered, until))
    return list(in_order(composite for each in found.values() for composite in each))


def named_types(pattern: Pattern) -> frozenset[str]:
    """The types that the atoms and domains of a pattern name: `type = "spike"`, or in a list of types."""
    named: set[str] = set()
    for filter in (each for atom in atoms(pattern.body) for each in (atom.filter, atom.domain) if each):
        for leaf in leaves(filter):
            match leaf:
                case Constraint(term=Attribute("type"), op=Op.EQ, operand=str() as name):
                    named.add(name)
                case Constraint(term=Attribute("type"), op=Op.IN, operand=Multi() as names):
                    named.update(name for name in names if isinstance(name, str))
    return frozenset(named)


def _passed(ordered: list[Occurrence], until: int | None) -> float:
    """The last instant that has wholly passed."""
    return inf if until is None else max((until, *(each.end for each in ordered))) - 1


def _detected(pattern: Pattern, ordered: list[Occurrence], now: float) -> list[Composite]:
    """The composites of a pattern: with `same`, of the occurrences with each value apart."""
    groups: dict[tuple[Key, ...], list[Occurrence]] = {}
    for occurrence in ordered:
        values = [occurrence.notification.get(name) for name in pattern.same]
        if all(compare(Op.EQ, value, value) for value in values):
            groups.setdefault(tuple(map(key_of, values)), []).append(occurrence)
    return [each for group in groups.values() for each in Taking(pattern, tuple(group), now).composites()]
