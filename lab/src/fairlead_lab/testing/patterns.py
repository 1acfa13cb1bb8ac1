"""Hypothesis strategies for composite-event patterns, and for streams that they match.

    parts      bodies: every node of the model, nested; timers only where they run
    patterns   bodies with `same`, conditions, outputs, what is taken, partial matches
    streams    notifications of the types A to D with small x, y and k

Times lie within 30 microseconds and durations within 12, so ties, overlaps and the edges of windows are
frequent, and a few events are enough for many matches. Two steps seldom differ in more than their type.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import dataclass, field, replace
from datetime import time as TimeOfDay
from decimal import Decimal
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fairlead.correlation.patterns.model import (
    EVER,
    LIMIT,
    TIME,
    Aggregate,
    Atom,
    Both,
    Concat,
    Condition,
    Either,
    Iterate,
    Operand,
    Output,
    Part,
    Pattern,
    Permutation,
    Reference,
    Resume,
    Sequence,
    Take,
    Timing,
    Unless,
    Within,
    atoms,
    can_be_empty,
    can_be_skipped,
)
from fairlead.errors import FilterError
from fairlead.filters import Filter, Op, parse
from fairlead.model import Instant, Notification

__all__ = ["CHOOSING", "NODES", "SETTLED", "TIME_MAX", "TYPES", "parts", "patterns", "streams"]

TYPES: Final = ("A", "B", "C", "D")
TIME_MAX: Final = 30
"""The last microsecond of a stream; windows and timers are shorter than half of it."""
SETTLED: Final = ("atom", "sequence", "concat", "iterate", "either", "both", "timing", "within")
"""The nodes of bodies in which steps and links alone decide."""
CHOOSING: Final = ("any", "greedy", "until", "without", "next", "before", "permutation", "prev")
"""The nodes that pass events over, have precedence, bar events, leave the order free, or look back."""
NODES: Final = SETTLED + CHOOSING
"""The nodes that bodies are made of, for those who want less than all."""

_FILTERS: Final = tuple(
    parse(text)
    for type in TYPES
    for text in (f'type = "{type}"', f'type = "{type}"', f'type = "{type}" and x > 1')
)
_OTHERS: Final = tuple(
    map(parse, ("x > 1", "y = 0", "true", 'type = "A" or type = "B"', 'exists x and not type = "C"'))
)
_durations = st.integers(1, 12)
_specs = st.one_of(
    _durations,
    _durations,
    _durations,
    st.integers(0, TIME_MAX).map(Instant),
    st.integers(0, TIME_MAX).map(lambda at: TimeOfDay(microsecond=at)),
)
_seldom = st.sampled_from((False, False, False, True))
_ROUNDS: Final = ((2, 2), (1, None), (2, None), (1, 2), (2, 3), (0, 1), (0, 2), (0, None), (3, 3))


@dataclass(slots=True)
class _Drawing:
    """One body being drawn: how many steps it may still have, and which names are taken."""

    draw: st.DrawFn
    left: int
    nodes: Several[str]
    domains: bool
    timers: int = 0
    taken: set[str] = field(default_factory=set)

    def part(self, depth: int, known: tuple[str, ...]) -> Part:
        compound = [node for node in self.nodes if node not in ("atom", "any", "greedy", "until", "prev")]
        if depth <= 0 or self.left < 2 or not compound or self.draw(_seldom):
            if depth <= 0 or not {"iterate", "within"} & set(compound) or self.draw(st.booleans()):
                return self.atom(known)
            compound = [node for node in compound if node in ("iterate", "within")]
        match self.draw(st.sampled_from(compound)):
            case "sequence":
                return Sequence(*self.pair(depth, known))
            case "concat":
                return Concat(*self.pair(depth, known))
            case "either":
                return Either(self.several(depth, known))
            case "both":
                return Both(self.several(depth, known))
            case "permutation":
                return self.permutation(depth, known)
            case "without":
                self.left -= 1
                atom = self.atom(())
                return Unless(atom, self.bar())
            case "before":
                self.left -= 1
                atom = self.atom(())
                return Unless(atom, self.bar(), lead=self.draw(st.sampled_from((EVER, 1, 2, 5))))
            case "next":
                self.left -= 1
                inner = self.part(depth - 1, known)
                if can_be_skipped(inner):
                    return inner
                domain = self.draw(st.sampled_from(_FILTERS + _OTHERS))
                return Unless(inner, replace(self.bar(), domain=domain), is_next=True)
            case "within":
                return Within(self.part(depth - 1, known), self.draw(_durations))
            case "timing":
                return self.timing(depth, known)
            case _:
                return self.rounds(self.part(depth - 1, known))

    def rounds(self, inner: Part) -> Part:
        """A part again and again; what can be empty is not repeated."""
        if can_be_empty(inner):
            return inner
        found = Iterate(inner, *self.draw(st.sampled_from(_ROUNDS)))
        if "until" in self.nodes and self.draw(_seldom):
            try:
                found = replace(found, until=self.bar())
            except FilterError:  # what is repeated in whatever order has none
                return found
        if (
            "greedy" in self.nodes
            and self.draw(st.booleans())
            and isinstance(inner, Atom)
            and not inner.timers
        ):
            found, following = replace(found, greedy=True), self.atom(())
            return Sequence(found, following) if self.draw(st.booleans()) else Concat(found, following)
        return found

    def bar(self) -> Atom:
        filter = self.draw(st.sampled_from(_FILTERS + _OTHERS))
        return Atom(self.name("bar"), filter, bars=True)

    def permutation(self, depth: int, known: tuple[str, ...]) -> Part:
        parts = self.several(depth, known)
        return Either(parts) if any(map(can_be_skipped, parts)) else Permutation(parts)

    def pair(self, depth: int, known: tuple[str, ...]) -> tuple[Part, Part]:
        self.left -= 1  # kept for the second
        first = self.part(depth - 1, known)
        self.left += 1
        return first, self.part(depth - 1, known)

    def several(self, depth: int, known: tuple[str, ...]) -> tuple[Part, ...]:
        parts = self.pair(depth, known)
        return (*parts, self.part(depth - 1, known)) if self.left and self.draw(_seldom) else parts

    def timing(self, depth: int, known: tuple[str, ...]) -> Timing:
        self.timers += 1
        timer = f"T{self.timers}"
        self.left -= 1
        first = self.part(depth - 1, known)
        if can_be_skipped(first):  # a timer is started by something
            first = Sequence(first, self.atom(()))
        self.left += 1
        return Timing(first, self.part(depth - 1, (*known, timer)), timer, self.draw(_specs))

    def atom(self, known: tuple[str, ...]) -> Atom:
        self.left -= 1
        draw = self.draw
        filter: Filter | None = draw(st.sampled_from(_OTHERS if draw(_seldom) else _FILTERS))
        timers: frozenset[str] = frozenset()
        failing: frozenset[str] = frozenset()
        if known:
            use = draw(st.sampled_from(("waits", "fails", "either", "neither")))
            some = st.frozensets(st.sampled_from(known), min_size=1)
            if use in ("waits", "either"):
                timers = draw(some)
            if use == "fails":
                failing = draw(some)
            if use == "waits":
                filter = None
        name = self.name("no" if filter is None else str(filter)[8] if filter in _FILTERS else "any")
        domain = draw(st.sampled_from(_FILTERS + _OTHERS)) if self.domains and draw(_seldom) else None
        is_any = filter is not None and "any" in self.nodes and draw(_seldom)
        return Atom(name, filter, timers, domain, failing, any=is_any)

    def name(self, base: str) -> str:
        name, number = base, 1
        while name in self.taken:
            number += 1
            name = f"{base}{number}"
        self.taken.add(name)
        return name


def _body(draw: st.DrawFn, steps: int, depth: int, nodes: Several[str], domains: bool) -> Part:
    """A body that cannot match without taking an occurrence."""
    drawing = _Drawing(draw, steps, nodes, domains)
    body = drawing.part(depth, ())
    if not can_be_empty(body):
        return _headed(drawing, body)
    drawing.left = max(drawing.left, 1)
    return _headed(drawing, Sequence(body, drawing.atom(())))


def _headed(drawing: _Drawing, body: Part) -> Part:
    """A body behind a step, where it cannot be at the beginning of a pattern."""
    try:
        Pattern(body)
    except FilterError:
        body = Sequence(replace(drawing.atom(()), any=False), body)
        Pattern(body)
    return body


@st.composite
def parts(
    draw: st.DrawFn,
    *,
    steps: int = 4,
    depth: int = 3,
    nodes: Several[str] = NODES,
    domains: bool = True,
) -> Part:
    """Bodies with about that many steps, nested about that deep, of some kinds of nodes."""
    return _body(draw, steps, depth, nodes, domains)


@st.composite
def patterns(
    draw: st.DrawFn,
    *,
    steps: int = 4,
    depth: int = 3,
    nodes: Several[str] = NODES,
    domains: bool = True,
    conditions: int = 2,
    takes: Several[Take] = tuple(Take),
    same: bool = True,
    outputs: bool = True,
    partial: bool = True,
    resumes: bool = True,
) -> Pattern:
    """Whole patterns; each flag that is off leaves something out."""
    body = _body(draw, steps, depth, nodes, domains)
    is_partial = partial and draw(_seldom)
    if is_partial and not isinstance(body, Within):
        body = Within(body, draw(_durations))
    names = [atom.step for atom in atoms(body)]
    taking = [atom.step for atom in atoms(body) if not atom.is_silent]
    take = draw(st.sampled_from(takes))
    return Pattern(
        body,
        same=draw(st.sampled_from(((), (), ("k",), ("k", "y")))) if same else (),
        conditions=tuple(
            each
            for each in draw(st.lists(_conditions(names, "prev" in nodes), max_size=conditions))
            if _is_allowed(body, each)
        ),
        outputs=tuple(draw(_outputs(taking, "prev" in nodes))) if outputs else (),
        take=take,
        limit=draw(st.sampled_from((LIMIT, LIMIT, 1, 3))) if take is Take.ALL else LIMIT,
        partial=is_partial,
        name=draw(st.sampled_from(("composite", "spike"))),
        resume=draw(_resumes(taking)) if resumes and take is Take.PAST and taking else None,
        left_out=tuple(draw(st.lists(st.sampled_from(taking), max_size=2, unique=True)))
        if outputs and taking and draw(_seldom)
        else (),
    )


def _references(steps: Several[str], looks_back: bool) -> SearchStrategy[Reference]:
    step, attribute = st.sampled_from(steps), st.sampled_from(("x", "x", "x", "y", "k"))
    others = st.sampled_from([each for each in Aggregate if each is not Aggregate.COUNT])
    plain = st.builds(Reference, step, attribute)
    before = st.builds(lambda step, name, n: Reference(step, name, back=n), step, attribute, _backs)
    return st.one_of(
        plain,
        before if looks_back else plain,
        plain,
        st.builds(lambda step: Reference(step, None, Aggregate.COUNT), step),
        st.builds(Reference, step, attribute, others),
    )


_backs = st.sampled_from((1, 1, 2))
_lapses = st.sampled_from((0, 0, 1, 2, 5, 9, -3))
_numbers = st.sampled_from((0, 1, 2, 3, -1, Decimal("0.5")))
_COMPARATORS: Final = (Op.LT, Op.LE, Op.GT, Op.GE, Op.NE, Op.NE, Op.EQ)


def _operands(steps: Several[str], looks_back: bool) -> SearchStrategy[Operand]:
    references = _references(steps, looks_back)
    plain = references.map(Operand)
    return st.one_of(plain, plain, st.builds(Operand, references, _numbers, _numbers))


def _times(steps: Several[str]) -> SearchStrategy[Operand]:
    aggregates = st.sampled_from((None, None, None, Aggregate.MIN, Aggregate.MAX, Aggregate.FIRST))
    references = st.builds(Reference, st.sampled_from(steps), st.just(TIME), aggregates)
    return st.builds(lambda reference, lapse: Operand(reference, lapse=lapse), references, _lapses)


def _conditions(steps: Several[str], looks_back: bool) -> SearchStrategy[Condition]:
    operands, times = _operands(steps, looks_back), _times(steps)
    constants = st.sampled_from((0, 1, 2, 3, Decimal("1.5"), "a", True))
    compared = st.builds(Condition, operands, st.sampled_from(_COMPARATORS), st.one_of(operands, constants))
    instants = st.integers(0, TIME_MAX).map(Instant)
    timed = st.builds(Condition, times, st.sampled_from(_COMPARATORS), st.one_of(times, times, instants))
    counted = st.builds(
        lambda step, n: Operand(Reference(step, None, back=n)), st.sampled_from(steps), _backs
    )
    placed = st.builds(Condition, counted, st.sampled_from((Op.EQ, Op.EQ, Op.GT)), st.sampled_from((0, 1)))
    return st.one_of(compared, compared, compared, timed, placed if looks_back else timed)


def _is_allowed(body: Part, condition: Condition) -> bool:
    """Whether a condition may stand with a body: steps that take nothing are compared with earlier ones only."""
    try:
        Pattern(body, conditions=(condition,))
    except FilterError:
        return False
    return True


def _resumes(steps: Several[str]) -> SearchStrategy[Resume | None]:
    found = st.builds(Resume, st.sampled_from(steps), st.booleans())
    return st.one_of(st.none(), st.none(), st.none(), found)


def _outputs(steps: Several[str], looks_back: bool) -> SearchStrategy[list[Output]]:
    return st.lists(
        st.builds(Output, st.sampled_from(("total", "n")), _operands(steps, looks_back)),
        max_size=2,
        unique_by=lambda output: output.name,
    )


_values: SearchStrategy[Any] = st.sampled_from((0, 1, 2, 3, 0, 1, 2, 3, 1.5, "a", None, float("nan")))
_gaps = st.sampled_from((0, 0, 1, 1, 2, 3, 5))


@st.composite
def streams(
    draw: st.DrawFn,
    *,
    max_size: int = 9,
    types: Several[str] = TYPES,
    intervals: bool = True,
    odd: bool = True,
) -> list[Notification]:
    """Notifications in the order of their times, each with its own id; `intervals` gives some an extent.

    With `odd`, attributes are missing now and then, or are no numbers, or not equal to themselves.
    """
    values = _values if odd else st.integers(0, 3)
    keys = st.sampled_from((0, 1, 0, 1, 2, float("nan")) if odd else (0, 1, 2))
    time, stream = 0, []
    for number in range(draw(st.integers(0, max_size))):
        time = min(time + draw(_gaps), TIME_MAX)
        fields: dict[str, Any] = {"type": draw(st.sampled_from(types)), "x": draw(values), "y": draw(values)}
        fields["k"] = draw(keys)
        if odd and draw(_seldom):
            del fields[draw(st.sampled_from(("x", "y", "k")))]
        if intervals and draw(_seldom):
            start = max(time - draw(st.integers(0, 8)), 0)
            fields["interval"] = {"start": Instant(start), "end": Instant(time)}
        producer = draw(st.sampled_from(("p", "q")))
        stream.append(
            Notification.of({**fields, "id": f"{number}", "producer": producer, "time": Instant(time)})
        )
    return stream
