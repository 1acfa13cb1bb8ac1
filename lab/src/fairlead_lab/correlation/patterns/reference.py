"""The reference detector: what is found in a stream by the definitions, from every point, and what is taken of it.

    detect(pattern, stream, until)         all composites of a finite stream, in their order
    detect_all(patterns, stream, until)    the same for patterns that see one another's composites

What a match is, `definition` says, sentence by sentence. Here conditions and aggregates are evaluated, and it is
decided which matches are taken, and which partial ones are told. This is what the automata are compared with. It
takes exponential time, and nothing is done about that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import product
from math import inf
from typing import Any, TypeAlias

from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.composites import Composite, in_order
from fairlead.correlation.patterns.conditions import fold_of, outputs, plan_conditions, tester
from fairlead.correlation.patterns.model import (
    PARTIAL,
    Atom,
    Condition,
    Pattern,
    Reference,
    Take,
    Within,
    atoms,
)
from fairlead.errors import FilterError
from fairlead.filters import Attribute, Constraint, Op
from fairlead.filters.constraint import compare
from fairlead.filters.filter import leaves
from fairlead.model import ABSENT, Key, Multi, key_of
from fairlead_lab.correlation.patterns.definition import (
    Matching,
    Moment,
    Point,
    Run,
    Taken,
    TimeEvent,
    moment_of,
)

__all__ = ["detect", "detect_all", "named_types"]


# -- conditions --------------------------------------------------------------------------------------------


Preceding: TypeAlias = Callable[[str, Occurrence], list[Occurrence]]
"""The elements of a step's sort that come before one, in their order."""


def _holds(
    condition: Condition, bound: Taken, preceding: Preceding, about: tuple[str, Occurrence] | None = None
) -> bool:
    """Whether a condition holds, or is not asked because something that it names is not bound."""
    values = []
    for reference in condition.references:
        taken = [occurrence for step, occurrence in bound if step == reference.step]
        if about is not None and reference.aggregate is None and reference.step == about[0]:
            taken = [about[1]]
        if not taken:
            return True
        values.append(_value(reference, taken, preceding))
    return tester(condition)(values[0], values[-1])


def _value(reference: Reference, taken: list[Occurrence], preceding: Preceding) -> Any:
    if reference.back:
        before = preceding(reference.bar or reference.step, taken[-1])
        if reference.lead:
            before = [each for each in before if each.end >= taken[-1].start - reference.lead]
        before = before[-reference.back :]
        if reference.attribute is None:
            return len(before)
        return before[0].notification.get(reference.attribute) if len(before) == reference.back else ABSENT
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
    ended: Moment
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
        self.condition_plan = plan_conditions(pattern)
        self.atoms = {atom.step: atom for atom in atoms(pattern.body)}
        self.steps = [*self.atoms]
        self.taken: list[Match] = []
        self.consumed: frozenset[Occurrence] = frozenset()

    def composites(self) -> Iterator[Composite]:
        """All composites of the pattern, in the order in which they are found."""
        moment: Moment = ()
        deadlines = self.deadlines()
        matches = self.matches(self.stream, self.now, waiting=False)
        while True:
            moments = {each.ended for each in matches} | {(deadline, 2) for deadline in deadlines.values()}
            if not (coming := [each for each in moments if each > moment]):
                return
            moment = min(coming)
            for match in self.take([each for each in matches if each.ended == moment]):
                yield self.composite(match, moment[0], partial=False)
            for s, deadline in deadlines.items():
                if (deadline, 2) == moment and (waiting := self.waiting(s, deadline)):
                    yield self.composite(waiting[0], deadline, partial=True)
            if self.pattern.take is Take.FIRST:  # what is consumed by now is skipped from here on
                matches = self.matches(self.stream, self.now, waiting=False)

    def matches(self, stream: tuple[Occurrence, ...], now: float, waiting: bool) -> list[Match]:
        """All matches that are complete, or all that wait; the first one first."""
        found: set[Match] = set()
        for run in self.runs(Matching(stream, now, self.takes, self.fails)):
            if run.waits is waiting and run.taken:
                end = () if run.end is None else moment_of(run.end)
                ordered = sorted(run.taken, key=lambda each: (each[1].rank, self.steps.index(each[0])))
                found.add(Match(tuple(ordered), end[:2] if isinstance(run.end, TimeEvent) else end))
        return sorted(found, key=self.order)

    def runs(self, matching: Matching) -> Iterator[Run]:
        """The matches of the body from every point of the stream, weakly; complete or waiting."""
        for p in (Point(), *map(Point, matching.stream)):
            for run in matching.runs(self.pattern.body, p):
                conditions = self.condition_plan.at_end
                if run.waits or all(_holds(each, run.taken, self.preceding) for each in conditions):
                    yield run

    def preceding(self, step: str, element: Occurrence) -> list[Occurrence]:
        """The elements of the stream before one that are in A or Σ of a step."""
        sort = [each for each in (self.atoms[step].filter, self.atoms[step].domain) if each is not None]
        before = (each for each in self.stream if each < element)
        return [each for each in before if any(filter.matches(each.notification) for filter in sort)]

    def takes(self, atom: Atom, element: Occurrence, bound: Taken) -> bool:
        """Whether it is in A and not consumed, and the conditions that are asked of it hold."""
        if atom.filter is None or not atom.filter.matches(element.notification):
            return False
        if element in self.consumed and not atom.bars:
            return False
        return all(
            _holds(each, bound, self.preceding, (atom.step, element))
            for each in self.condition_plan.at_steps[atom.step]
        )

    def fails(self, atom: Atom, element: Occurrence, bound: Taken) -> bool:
        """Whether it is in Σ and, of a step that takes time events only, the conditions that are asked hold."""
        if atom.domain is None or not atom.domain.matches(element.notification):
            return False
        condition_plan = self.condition_plan.at_steps[atom.step] if atom.filter is None else ()
        return all(_holds(each, bound, self.preceding, (atom.step, element)) for each in condition_plan)

    def order(self, match: Match) -> Moment:
        """One occurrence after the other; where one has no further one, the other is first. Then the steps."""
        places = ((0, each.rank) for _, each in match.constituents)
        return (*places, (1,)), tuple(self.steps.index(step) for step, _ in match.constituents)

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
                return not self.taken or self.is_behind(self.taken[-1], s)
            case Take.NEXT:
                return all(each.first is not s for each in self.taken)
            case Take.FIRST:
                return s not in self.consumed
            case Take.ALL:
                return True

    def is_behind(self, match: Match, s: Occurrence) -> bool:
        """Whether the next match may start with s: behind the one before, or from what a step of it took."""
        resume = self.pattern.resume
        places = [each for step, each in match.constituents if resume and step == resume.step]
        if resume is None or not places:
            return match.last < s
        place = places[-1 if resume.is_last else 0]
        return match.first < s if place is match.first else not s < place

    def deadlines(self) -> dict[Occurrence, int]:
        """The deadlines of partial matches: when the time of those that start with an occurrence is over."""
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
            return _value(reference, taken, self.preceding) if taken else ABSENT

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
