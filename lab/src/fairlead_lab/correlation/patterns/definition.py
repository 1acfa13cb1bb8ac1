"""The definition of a match: the definitions of the language (book 7.4.2), one after another, as a program.

    element     an occurrence, or a time event that a timer of the match has caused
    point p     the beginning, or an element; y is beyond it iff p ≺ y, in a sequence strongly
    run         a match of a part from a point, by what its steps took and where it ends; or one that waits

Law: a part matches from p what `Matching.runs` says. What a step asks of an occurrence is told as `takes`, and
which are taken of all matches that there are, is decided elsewhere (`reference`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import time as TimeOfDay
from itertools import product
from math import inf
from typing import Any, Final, TypeAlias

from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.model import (
    Atom,
    Both,
    Concat,
    Either,
    Iterate,
    Part,
    Permutation,
    Sequence,
    Timing,
    Unless,
    Within,
)
from fairlead.model import Instant

__all__ = ["Element", "Matching", "Moment", "Point", "Run", "Taken", "TimeEvent", "moment_of"]

_DAY: Final = 24 * 60 * 60 * 1_000_000

Taken: TypeAlias = tuple[tuple[str, Occurrence], ...]
"""Steps with what they took."""
Moment: TypeAlias = tuple[Any, ...]
"""The values that ≺ compares."""


@dataclass(frozen=True, slots=True)
class TimeEvent:
    """A timer of a match that goes off: a point in time."""

    name: str
    start: int
    end: int
    turn: tuple[str, ...]
    """Its place among the time events of its instant: by name, but never before what started it."""


Element: TypeAlias = Occurrence | TimeEvent


def moment_of(x: Element) -> Moment:
    """The moment of x in the order ≺. Time events go off behind all occurrences that end at their instant."""
    return (x.end, 1, x.turn) if isinstance(x, TimeEvent) else (x.end, 0, x.rank)


@dataclass(frozen=True, slots=True)
class Point:
    """The point from which a part is matched: the beginning or an element, with what is bound and the timers
    that run.
    """

    element: Element | None = None
    strong: bool = False
    bound: Taken = ()
    timers: Mapping[str, TimeEvent] = field(default_factory=dict)
    until: tuple[Atom, ...] = ()
    """The bars that end the rounds in which this point lies."""

    def precedes(self, y: Element) -> bool:
        """Whether an element is beyond this point."""
        x = self.element
        if x is None:
            return True
        strongly = x.end < y.start or x.start == x.end == y.start == y.end
        return moment_of(x) < moment_of(y) and (strongly or not self.strong)


@dataclass(frozen=True, slots=True)
class Run:
    """A match of a part or, where it waits for further elements, as much of one as there is."""

    taken: Taken = ()
    end: Element | None = None
    waits: bool = False
    rival: tuple[Atom, Point] | None = None
    """The further round that has precedence over what follows, and from where it would be."""


@dataclass(frozen=True, slots=True)
class Matching:
    """The matches in a stream when time has passed up to and including `now`."""

    stream: tuple[Occurrence, ...]
    now: float
    takes: Callable[[Atom, Occurrence, Taken], bool]
    """Whether a step takes an occurrence, with what is bound before: by its filter, and by what else is asked."""
    fails: Callable[[Atom, Occurrence, Taken], bool]
    """Whether an occurrence is in the domain of a step, with what is bound before."""

    def runs(self, part: Part, p: Point) -> Iterator[Run]:
        """The matches of a part from a point, complete or waiting."""
        match part:
            case Atom():
                yield from self.atom(part, p)
            case Concat() | Sequence() | Timing():
                yield from self.chain(part, p)
            case Iterate(_, least, most):
                yield from self.rounds(part, least, inf if most is None else most, p)
            case Permutation(parts):
                yield from self.permuted(parts, p)
            case Unless(inner, _, _, int()):  # whether it takes an element says what came before that
                yield from self.runs(inner, p)
            case Unless(Atom() as inner, bar, False):
                yield from self.atom(inner, p, bar)
            case Unless(inner, bar):
                nearest = self.first(p, lambda y: self.takes(bar, y, p.bound) or self.fails(bar, y, p.bound))
                barred = nearest if nearest and self.takes(bar, nearest, p.bound) else None
                for run in self.runs(inner, p):
                    if _is_before(run, barred):
                        yield run
            case Either(parts):
                for each in parts:
                    yield from self.runs(each, p)
            case Both(parts):
                for branches in product(*[tuple(self.runs(each, p)) for each in parts]):
                    taken = tuple(step for each in branches for step in each.taken)
                    end = max((each.end for each in branches if each.end), key=moment_of, default=None)
                    yield Run(taken, end, any(each.waits for each in branches))
            case Within(inner, duration):
                for run in self.runs(inner, p):
                    last = self.now if run.waits or run.end is None else run.end.end
                    if all(last - occurrence.start <= duration for _, occurrence in run.taken):
                        yield run

    def first(self, p: Point, holds: Callable[[Occurrence], bool]) -> Occurrence | None:
        """The first occurrence beyond p of which something holds."""
        return next((y for y in self.stream if p.precedes(y) and holds(y)), None)

    def atom(self, atom: Atom, p: Point, bar: Atom | None = None) -> Iterator[Run]:
        """The first element beyond p that is taken, in Σ or barred; before what ends the rounds it lies in."""
        ended = self.first(
            replace(p, strong=False), lambda y: any(self.takes(u, y, p.bound) for u in p.until)
        )
        for run in self.waited(atom, p, bar):
            if _is_before(run, ended):
                yield run

    def waited(self, atom: Atom, p: Point, bar: Atom | None) -> Iterator[Run]:
        """The same, whatever rounds it lies in."""
        elements: list[Element] = [*self.stream]
        elements += [event for event in p.timers.values() if event.end <= self.now]
        for element in sorted(elements, key=moment_of):
            if not p.precedes(element):
                continue
            if isinstance(element, TimeEvent):
                taken: Taken | None = () if element.name in atom.timers else None
                fails = element.name in atom.domain_timers
            else:
                taken = ((atom.step, element),) if self.takes(atom, element, p.bound) else None
                fails = self.fails(atom, element, p.bound)
                fails = fails or (bar is not None and self.takes(bar, element, p.bound))
            if taken is not None:
                yield Run(taken, element)
            if fails if taken is None else not atom.any:
                return
        yield Run(waits=True)

    def chain(self, part: Concat | Sequence | Timing, p: Point) -> Iterator[Run]:
        """C1, then C2 from its end; where C1 took no element, from p itself. In C1 ; C2 all of C2 is behind C1."""
        for head in self.runs(part.first, p):
            q = p
            if head.end is not None:
                timers = p.timers
                if isinstance(part, Timing):
                    timers = {**timers, part.timer: _started(part.timer, part.spec, head.end)}
                q = Point(head.end, isinstance(part, Sequence), p.bound + head.taken, timers, p.until)
            tails = () if head.waits else self.runs(part.second, q)
            yield from _joined(
                head,
                (
                    each
                    for each in tails
                    if all(q.precedes(y) for _, y in each.taken) and self.yields(head, each)
                ),
            )

    def yields(self, head: Run, tail: Run) -> bool:
        """Whether what follows greedy rounds begins before a further round could."""
        if head.rival is None:
            return True
        further = next((run.taken[0][1] for run in self.runs(*head.rival) if run.taken), None)
        begun = tail.taken[0][1] if tail.taken else tail.end
        return further is None or (begun is not None and moment_of(begun) < moment_of(further))

    def rounds(self, part: Iterate, least: int, most: float, p: Point) -> Iterator[Run]:
        """From `least` to `most` rounds, one behind the other; behind the first, before what ends them."""
        if least <= 0:
            rival = part.part if part.greedy and most > 0 else None
            yield Run(rival=(rival, p) if isinstance(rival, Atom) else None)
        if most > 0:
            until = () if part.until is None else (part.until,)
            for head in self.runs(part.part, p):
                bars = (*p.until, *(each for each in until if each not in p.until))
                q = Point(head.end, bound=p.bound + head.taken, timers=p.timers, until=bars)
                yield from _joined(head, () if head.waits else self.rounds(part, least - 1, most - 1, q))

    def permuted(self, parts: tuple[Part, ...], p: Point) -> Iterator[Run]:
        """A match of each, one behind the other, in every order."""
        if not parts:
            yield Run()
        for at, part in enumerate(parts):
            for head in self.runs(part, p):
                q = Point(head.end, bound=p.bound + head.taken, timers=p.timers, until=p.until)
                others = () if head.waits else self.permuted(parts[:at] + parts[at + 1 :], q)
                yield from _joined(head, others)


def _joined(head: Run, tails: Iterable[Run]) -> Iterator[Run]:
    """A match and those that go on from its end; one that waits is as far as it goes."""
    if head.waits:
        yield head
    for tail in tails:
        yield Run(head.taken + tail.taken, tail.end or head.end, tail.waits, tail.rival)


def _is_before(run: Run, barred: Occurrence | None) -> bool:
    """Whether a match is complete before an element."""
    if barred is None:
        return True
    return not run.waits and run.end is not None and moment_of(run.end) < moment_of(barred)


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
