"""Temporal formulas over traces: always, eventually, next, until and the Boolean connectives (book 2.5.1).

    P                    true for every trace whose first state satisfies P
    always(f)      □f    f is true for every subtrace
    eventually(f)  ◇f    f is true for some subtrace
    following(f)   ○f    f is true for the subtrace that starts at the second state
    until(f, g)    f U g g is true for some subtrace, and f for every one before it
    ~f, f & g, f | g, f >> g

A trace never ends. There are two finite representations:

    Lasso(stem, loop)    the stem, then the loop for ever: every formula holds or is violated
    Prefix(states)       the trace so far: a formula holds, is violated, or is open, where it depends on the
                         rest. Sound: a verdict of holds or violated stays, however the trace continues.

`counterexample` names the state and the subformula at which a violated formula fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypeAlias

from fairlead.audit import Verdict

__all__ = [
    "FALSE",
    "TRUE",
    "Always",
    "And",
    "Atom",
    "Eventually",
    "Formula",
    "Implies",
    "Lasso",
    "Next",
    "Not",
    "Or",
    "Prefix",
    "Until",
    "always",
    "counterexample",
    "eventually",
    "exists",
    "following",
    "for_all",
    "judge",
    "until",
]


_RANK: Final = {Verdict.VIOLATED: 0, Verdict.OPEN: 1, Verdict.HOLDS: 2}
_BY_RANK: Final = (Verdict.VIOLATED, Verdict.OPEN, Verdict.HOLDS)


# -- traces ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lasso:
    """A trace that ends in a loop."""

    stem: tuple[Any, ...]
    loop: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.loop:
            raise ValueError("the loop of a lasso has at least one state")

    @property
    def states(self) -> tuple[Any, ...]:
        return self.stem + self.loop

    @property
    def again(self) -> int:
        """The index that follows the last one."""
        return len(self.stem)


class _Unknown:
    """The state of which nothing is known."""

    def __repr__(self) -> str:
        return "…"


_UNKNOWN: Final = _Unknown()


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of a trace. What follows is one more state, for ever, of which nothing is known."""

    known: tuple[Any, ...]

    @property
    def states(self) -> tuple[Any, ...]:
        return (*self.known, _UNKNOWN)

    @property
    def again(self) -> int:
        return len(self.known)


Trace: TypeAlias = Lasso | Prefix


# -- formulas ----------------------------------------------------------------------------------------------


class Formula:
    """A formula; true or false of a trace."""

    __slots__ = ()

    def __invert__(self) -> Formula:
        return Not(self)

    def __and__(self, other: Formula) -> Formula:
        return And((self, other))

    def __or__(self, other: Formula) -> Formula:
        return Or((self, other))

    def __rshift__(self, other: Formula) -> Formula:
        return Implies(self, other)


@dataclass(frozen=True, slots=True)
class Atom(Formula):
    """A predicate on states, with its name."""

    name: str
    holds: Callable[[Any], bool]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class _Constant(Formula):
    value: bool

    def __str__(self) -> str:
        return str(self.value).lower()


TRUE: Final[Formula] = _Constant(True)
FALSE: Final[Formula] = _Constant(False)


@dataclass(frozen=True, slots=True)
class _Unary(Formula):
    body: Formula

    def __str__(self) -> str:
        return f"{_SIGNS[type(self)]}{_inner(self.body)}"


class Not(_Unary):
    """¬f."""

    __slots__ = ()


class Always(_Unary):
    """□f."""

    __slots__ = ()


class Eventually(_Unary):
    """◇f."""

    __slots__ = ()


class Next(_Unary):
    """○f."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Joined(Formula):
    parts: tuple[Formula, ...]

    def __str__(self) -> str:
        return f" {_SIGNS[type(self)]} ".join(map(_inner, self.parts))


class And(_Joined):
    """All parts hold."""

    __slots__ = ()


class Or(_Joined):
    """Some part holds."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Binary(Formula):
    left: Formula
    right: Formula

    def __str__(self) -> str:
        return f"{_inner(self.left)} {_SIGNS[type(self)]} {_inner(self.right)}"


class Implies(_Binary):
    """If the left side holds, so does the right one."""

    __slots__ = ()


class Until(_Binary):
    """The right side holds at some time, and the left one until then."""

    __slots__ = ()


_SIGNS: Final[dict[type, str]] = {
    Not: "¬",
    Always: "□",
    Eventually: "◇",
    Next: "○",
    And: "∧",
    Or: "∨",
    Implies: "⇒",
    Until: "U",
}


def _inner(formula: Formula) -> str:
    """A formula inside another one; the temporal operators bind closer than the logical ones (book 2.5.1)."""
    return f"[{formula}]" if isinstance(formula, _Joined | _Binary) else str(formula)


def always(formula: Formula) -> Formula:
    """□f: at every index."""
    return Always(formula)


def eventually(formula: Formula) -> Formula:
    """◇f: at some index."""
    return Eventually(formula)


def following(formula: Formula) -> Formula:
    """○f: at the next index."""
    return Next(formula)


def until(left: Formula, right: Formula) -> Formula:
    """f U g: g at some index, and f at every index before."""
    return Until(left, right)


def for_all(domain: Iterable[Any], formula: Callable[[Any], Formula]) -> Formula:
    """∀ over a finite domain."""
    return And(tuple(map(formula, domain)))


def exists(domain: Iterable[Any], formula: Callable[[Any], Formula]) -> Formula:
    """∃ over a finite domain."""
    return Or(tuple(map(formula, domain)))


# -- evaluation --------------------------------------------------------------------------------------------

Values: TypeAlias = list[Verdict]
"""The verdicts on a formula at every index of a trace."""


def judge(formula: Formula, trace: Trace, index: int = 0) -> Verdict:
    """The verdict on a formula for the subtrace that starts at an index."""
    return _values(formula, trace, {})[index]


def _values(formula: Formula, trace: Trace, known: dict[Formula, Values]) -> Values:
    if formula not in known:
        known[formula] = _evaluate(formula, trace, known)
    return known[formula]


def _evaluate(formula: Formula, trace: Trace, known: dict[Formula, Values]) -> Values:
    states, again = trace.states, trace.again
    match formula:
        case Atom(_, holds):
            return [Verdict.OPEN if state is _UNKNOWN else _verdict(holds(state)) for state in states]
        case _Constant(value):
            return [_verdict(value)] * len(states)
        case Not(body):
            return [_not(each) for each in _values(body, trace, known)]
        case And(parts):
            return [_least(each) for each in _columns(parts, trace, known)]
        case Or(parts):
            return [_largest(each) for each in _columns(parts, trace, known)]
        case Implies(left, right):
            columns = _columns((left, right), trace, known)
            return [_largest((_not(before), after)) for before, after in columns]
        case Next(body):
            values = _values(body, trace, known)
            return [*values[1:], values[again]]
        case Always(body):
            return _backwards(_values(body, trace, known), again, _least, Verdict.HOLDS)
        case Eventually(body):
            return _backwards(_values(body, trace, known), again, _largest, Verdict.VIOLATED)
        case Until(left, right):
            pairs = zip(_values(left, trace, known), _values(right, trace, known), strict=True)
            return _until(list(pairs), again)
    raise TypeError(f"not a formula: {formula!r}")


def _columns(
    parts: Sequence[Formula], trace: Trace, known: dict[Formula, Values]
) -> Iterable[tuple[Verdict, ...]]:
    if not parts:
        return [()] * len(trace.states)
    return zip(*(_values(part, trace, known) for part in parts), strict=True)


def _verdict(value: bool) -> Verdict:
    return Verdict.HOLDS if value else Verdict.VIOLATED


def _not(verdict: Verdict) -> Verdict:
    return _BY_RANK[2 - _RANK[verdict]]


def _least(verdicts: Iterable[Verdict]) -> Verdict:
    return min(verdicts, key=_RANK.__getitem__, default=Verdict.HOLDS)


def _largest(verdicts: Iterable[Verdict]) -> Verdict:
    return max(verdicts, key=_RANK.__getitem__, default=Verdict.VIOLATED)


def _backwards(
    values: Values, again: int, join: Callable[[Iterable[Verdict]], Verdict], neutral: Verdict
) -> Values:
    """Join each index with all later ones; within the loop, with the whole loop."""
    found, behind = list(values), reduce(lambda one, other: join((one, other)), values[again:], neutral)
    for index in reversed(range(len(values))):
        behind = found[index] = join((values[index], behind))
    return found


def _until(columns: list[tuple[Verdict, Verdict]], again: int) -> Values:
    """The least solution of u = g ∨ (f ∧ ○u): once around the loop settles it."""
    found = [Verdict.VIOLATED] * len(columns)
    behind = Verdict.VIOLATED
    for index in (*reversed(range(again, len(columns))), *reversed(range(len(columns)))):
        left, right = columns[index]
        behind = found[index] = _largest((right, _least((left, behind))))
    return found


# -- counterexamples ---------------------------------------------------------------------------------------


def counterexample(formula: Formula, trace: Trace) -> tuple[str, ...]:
    """The reason why a formula is violated, from the whole down to the state; empty if it is not."""
    known: dict[Formula, Values] = {}
    if _values(formula, trace, known)[0] is not Verdict.VIOLATED:
        return ()
    return tuple(_reasons(formula, 0, trace, known))


def _reasons(formula: Formula, index: int, trace: Trace, known: dict[Formula, Values]) -> list[str]:
    """Why a formula is violated at an index."""

    def fails(part: Formula, at: int) -> bool:
        return _values(part, trace, known)[at] is Verdict.VIOLATED

    here, states, again = f"state {index}", trace.states, trace.again
    match formula:
        case Always(body):
            at = next(at for at in _onwards(index, trace) if fails(body, at))
            return [f"{here}: {formula} fails, at state {at}", *_reasons(body, at, trace, known)]
        case Eventually(body):
            return [f"{here}: {formula} fails: {body} is true nowhere from here on"]
        case Next(body):
            at = index + 1 if index + 1 < len(states) else again
            return [f"{here}: {formula} fails", *_reasons(body, at, trace, known)]
        case Implies(left, right):
            return [f"{here}: {left} is true, but {right} is not", *_reasons(right, index, trace, known)]
        case And(parts):
            return _reasons(next(part for part in parts if fails(part, index)), index, trace, known)
        case Or(parts):
            below = [reason for part in parts for reason in _reasons(part, index, trace, known)]
            return [f"{here}: no part of {formula} is true", *below]
        case Until(left, right):
            return [f"{here}: {formula} fails: {left} ends before {right} comes"]
        case Not(body):
            return [f"{here}: {body} is true, in {states[index]}"]
        case _:
            return [f"{here}: {formula} is false, in {states[index]}"]


def _onwards(index: int, trace: Trace) -> Iterable[int]:
    """The indexes from one on, in order."""
    return (*range(index, len(trace.states)), *range(trace.again, index))
