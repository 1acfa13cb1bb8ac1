"""Lines: patterns that are matched over columns, without an object for an event.

    A followed by B[x > 1] without X followed by 1 or more C followed by D within 10 s, B.y > A.y, same sensor

A *line* is a chain of steps, each taken once or as often as it comes before the next one, with a window around it,
and perhaps a silence at its end. Where all events are points, the start of a match settles the rest: each step
takes the first event that fits. So for all starts together, a step is one search in the positions of what fits.

    line_of(pattern)                the line of a pattern; None where the pattern is none
    matches_of(line, stream)        its matches in a stream: for each, the positions of what its steps took

Law: the matches are those that a `Detector` takes from the same stream, up to the end of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairlead.correlation.patterns.model import (
    Atom,
    Concat,
    Condition,
    Iterate,
    Operand,
    Part,
    Pattern,
    Sequence,
    Take,
    Timing,
    Within,
)
from fairlead.filters import Filter, Op

__all__ = ["Ints", "Line", "Matches", "NotComparable", "Stream", "Values", "line_of", "matches_of"]

Ints: TypeAlias = NDArray[np.int64]
ROUNDS_MAX: Final = 16
"""`exactly n` is written out as so many steps."""
_COMPARE: Final = {
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.GT: np.greater,
    Op.GE: np.greater_equal,
}


_TURNED: Final = {**{op: op for op in _COMPARE}, Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a line."""

    name: str
    filter: Filter
    domain: Filter | None = None
    repeated: bool = False
    """Whether it takes all that fits up to what the next step takes."""
    limit: int | None = None
    """The distance behind the step before, in microseconds, within which it may come."""
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A pattern as a chain of steps."""

    steps: tuple[Step, ...]
    window: int | None
    silence: tuple[Filter, int] | None
    """The filter that nothing may match in the end, and for how long."""
    take: Take
    limit: int


def line_of(pattern: Pattern) -> Line | None:
    """The line of a pattern; None where its matches are not settled by their starts."""
    if not pattern.is_settled_by_steps:
        return None
    if pattern.partial or pattern.take not in (Take.ALL, Take.NEXT, Take.PAST):
        return None
    body: Part = pattern.body
    window: int | None = None
    if isinstance(body, Within):
        window, body = body.duration, body.part
    silence: tuple[Filter, int] | None = None
    match body:
        case Timing(first, Atom(_, None, _, Filter() as domain, failing), _, int(spec)) if not failing:
            body, silence = first, (domain, spec)
    steps = _steps(body)
    if steps is None or (pattern.take is Take.ALL and any(step.repeated for step in steps)):
        return None
    last = steps[-1]
    if last.repeated and silence is None:  # a match is there as soon as it is complete
        steps = (*steps[:-1], replace(last, repeated=False))
    if any(_is_open(steps, at) for at, step in enumerate(steps) if step.repeated):
        return None
    asked = _conditions_on(pattern, steps)
    return None if asked is None else Line(asked, window, silence, pattern.take, pattern.limit)


def _is_open(steps: tuple[Step, ...], at: int) -> bool:
    """Whether it is not plain where a repeated step ends: what follows may fail, or be repeated itself."""
    following = steps[at + 1] if at + 1 < len(steps) else None
    return (
        following is None
        or steps[at].domain is not None
        or following.repeated
        or following.domain is not None
        or following.limit is not None
    )


def _steps(part: Part) -> tuple[Step, ...] | None:
    """The steps of a part, in their order."""
    match part:
        case Atom(name, Filter() as filter, timers, domain, failing) if not timers and not failing:
            return (Step(name, filter, domain),)
        case Sequence(first, second) | Concat(first, second):
            head, tail = _steps(first), _steps(second)
            return None if head is None or tail is None else head + tail
        case Timing(first, Atom(name, Filter() as filter, timers, domain, failing), timer, int(spec)):
            head = _steps(first)
            if head is None or timers or failing != {timer}:
                return None
            return (*head, Step(name, filter, domain, limit=spec))
        case Iterate(Atom() as atom, least, most) if 1 <= least <= ROUNDS_MAX and most in (least, None):
            one = _steps(atom)
            if one is None:
                return None
            return one * (least - 1) + ((replace(one[0], repeated=True),) if most is None else one)
    return None


def _conditions_on(pattern: Pattern, steps: tuple[Step, ...]) -> tuple[Step, ...] | None:
    """The steps with what is asked of them; None where something is computed, or is about several events."""
    asked: dict[str, list[Condition]] = {}
    names = {step.name for step in steps} - pattern.repeated_steps
    for condition in pattern.conditions:
        sides = [each for each in (condition.left, condition.right) if isinstance(each, Operand)]
        if not all(each.is_plain and each.reference.aggregate is None for each in sides):
            return None
        step = pattern.deciding_step(condition)
        if step is None or not condition.steps <= names or len(sides) != 2 or len(condition.steps) != 2:
            return None
        asked.setdefault(step, []).append(condition)
    if any(step.name in asked and step.repeated for step in steps):
        return None
    return tuple(replace(step, conditions=tuple(asked.get(step.name, ()))) for step in steps)


# -- over columns --------------------------------------------------------------------------------------------


class Values(NamedTuple):
    """A column that conditions compare: values of one kind, and where there is one that equals itself."""

    values: NDArray[Any]
    valid: NDArray[np.bool_]
    kind: str
    """Values of different kinds satisfy nothing."""


class Stream(Protocol):
    """Events as columns. They are points; those of one key are adjacent, and in their total order."""

    segments: Ints
    """The key that each event belongs to, ascending."""
    times: Ints

    def positions(self, filter: Filter, /) -> Ints:
        """The positions of the events that match, ascending."""

    def values(self, attribute: str, /) -> Values | None:
        """The values of an attribute; None where they cannot be compared as a column."""


class Matches(NamedTuple):
    """Matches, by their ends: what each took, and when it ended."""

    offsets: Ints
    """The beginnings of each composite's constituents in `taken` and `steps`; one more at the end."""
    taken: Ints
    """The positions of the constituents."""
    steps: NDArray[np.int32]
    """The numbers of the steps that took them."""
    ends: Ints
    """The times at which they ended."""

    def __len__(self) -> int:
        return len(self.ends)


class NotComparable(Exception):
    """A condition compares what is no column."""


def matches_of(line: Line, stream: Stream, since: int | None = None) -> Matches:
    """The matches that are taken from a stream, of those that start from a time on."""
    segments, times = stream.segments, stream.times
    starts = stream.positions(line.steps[0].filter)
    if since is not None:
        starts = starts[times[starts] >= since]
    took = [starts]
    """By step, the first position that it took in each match that goes on."""
    for step in line.steps[1:]:
        following = _following(line, stream, took, step)
        at = took[-1]
        there = following < len(segments)
        there[there] = segments[following[there]] == segments[at[there]]
        if step.domain is not None:
            failing = _next(stream.positions(step.domain), at, len(segments))
            there &= failing >= following
        if line.window is not None or step.limit is not None:
            reached = np.flatnonzero(there)
            late = np.zeros(len(reached), np.bool_)
            if line.window is not None:
                late |= times[following[reached]] - times[took[0][reached]] > line.window
            if step.limit is not None:
                late |= times[following[reached]] - times[at[reached]] > step.limit
            there[reached[late]] = False
        took = [each[there] for each in took]
        took.append(following[there])
    ends = times[took[-1]]
    if line.silence is not None:
        domain, duration = line.silence
        ends = ends + duration
        heard = _next(stream.positions(domain), took[-1], len(segments))
        quiet = heard >= len(segments)
        there = ~quiet
        quiet[there] = segments[heard[there]] != segments[took[-1][there]]
        there &= ~quiet
        quiet[there] = times[heard[there]] > ends[there]
        if line.window is not None:
            quiet &= ends - times[took[0]] <= line.window
        took, ends = [each[quiet] for each in took], ends[quiet]
    chosen = _chosen(line, segments, took, ends)
    return _written_out(line, stream, [each[chosen] for each in took], ends[chosen])


def _next(positions: Ints, at: Ints, end: int) -> Ints:
    """The first of some positions behind each of others; the end where there is none."""
    places = np.searchsorted(positions, at, "right")
    return np.append(positions, end)[places]


def _following(line: Line, stream: Stream, took: list[Ints], step: Step) -> Ints:
    """The first event behind each match so far that fits a step, and satisfies what is asked of it."""
    positions, at, end = stream.positions(step.filter), took[-1], len(stream.segments)
    if not step.conditions:
        return _next(positions, at, end)
    segments, times, known = stream.segments, stream.times, np.append(positions, end)
    names = [each.name for each in line.steps[: len(took)]]
    compared = [_compared(condition, stream, step.name, names) for condition in step.conditions]
    places = np.searchsorted(positions, at, "right")
    searching = np.arange(len(at))
    while len(searching):
        found = known[places[searching]]
        inside = found < end
        inside[inside] = segments[found[inside]] == segments[at[searching[inside]]]
        if line.window is not None:
            first = took[0][searching[inside]]
            inside[inside] = times[found[inside]] - times[first] <= line.window
        searching, found = searching[inside], found[inside]
        fits = np.ones(len(searching), np.bool_)
        for compare, own, other, of in compared:
            before = took[of][searching]
            fits &= own.valid[found] & other.valid[before]
            fits &= compare(own.values[found], other.values[before])
        searching = searching[~fits]  # the others have found theirs
        places[searching] += 1
    return known[places]


_Compared: TypeAlias = tuple[Callable[[Any, Any], Any], Values, Values, int]
"""A comparison, the two columns, and the number of the earlier step that the second is about."""


def _compared(condition: Condition, stream: Stream, step: str, names: list[str]) -> _Compared:
    """The comparison of what a step is about to take with what an earlier one took."""
    left, op, right = condition.left, condition.op, condition.right
    assert isinstance(right, Operand)
    mine, others = left.reference, right.reference
    if mine.step != step:
        mine, others, op = others, mine, _TURNED[op]
    own, other = stream.values(mine.attribute or ""), stream.values(others.attribute or "")
    if own is None or other is None or own.kind != other.kind:
        raise NotComparable(str(condition))
    return _COMPARE[op], own, other, names.index(others.step)


def _chosen(line: Line, segments: Ints, took: list[Ints], ends: Ints) -> Ints:
    """The matches that are taken, in the order of their ends and, of those that end together, of their
    starts.
    """
    starts, lasts = took[0], took[-1]
    order = np.lexsort((starts, lasts if line.silence is None else ends, segments[starts]))
    if line.take is Take.NEXT or not len(order):
        return order
    if line.take is Take.ALL:
        key = np.stack((segments[starts[order]], ends[order] if line.silence else lasts[order]))
        begins = np.flatnonzero(np.append(True, (key[:, 1:] != key[:, :-1]).any(axis=0)))
        within = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
        return order[within < line.limit]
    return order[list(_one_after_the_other(segments[starts[order]], starts[order], lasts[order]))]


def _one_after_the_other(segments: Ints, starts: Ints, lasts: Ints) -> Iterator[int]:
    """Of matches in the order of their ends, each that starts behind the last one of its key that was taken."""
    segment = after = -1
    for number, (own, start, last) in enumerate(
        zip(segments.tolist(), starts.tolist(), lasts.tolist(), strict=True)
    ):
        if own != segment:
            segment, after = own, -1
        if start > after:
            after = last
            yield number


def _written_out(line: Line, stream: Stream, took: list[Ints], ends: Ints) -> Matches:
    """The constituents of matches: of a repeated step all that fits, up to what the next one took."""
    counts = np.ones((len(line.steps), len(ends)), np.int64)
    first: list[Ints] = []
    for number, step in enumerate(line.steps):
        first.append(took[number])
        if step.repeated:
            positions = stream.positions(step.filter)
            first[number] = np.searchsorted(positions, took[number])
            counts[number] = np.searchsorted(positions, took[number + 1]) - first[number]
    offsets = np.zeros(len(ends) + 1, np.int64)
    np.cumsum(counts.sum(axis=0), out=offsets[1:])
    taken, steps = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int32)
    before = offsets[:-1].copy()
    for number, step in enumerate(line.steps):
        if not step.repeated:
            taken[before], steps[before] = took[number], number
            before += 1
            continue
        many = counts[number]
        inside = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        places = np.repeat(before, many) + inside
        taken[places] = stream.positions(step.filter)[np.repeat(first[number], many) + inside]
        steps[places] = number
        before += many
    return Matches(offsets, taken, steps, ends)
