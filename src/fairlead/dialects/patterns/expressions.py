"""Regular expressions of rows: what they begin and end with, what follows what, what is sure to have a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fairlead.correlation.patterns.model import (
    Atom,
    Either,
    Iterate,
    Part,
    Permutation,
    Sequence,
    atoms,
)

__all__ = [
    "Positions",
    "has_one_length",
    "inside",
    "is_before",
    "is_sure",
    "positions_of",
    "repeated_last",
    "with_atoms",
    "with_last",
]


@dataclass(frozen=True, slots=True)
class Positions:
    """The variables that a part may begin and end with, and which may follow which."""

    first: frozenset[str]
    last: frozenset[str]
    empty: bool
    follow: Mapping[str, frozenset[str]]


def inside(part: Part) -> Iterator[Part]:
    """A part, and what it is made of."""
    yield part
    match part:
        case Sequence(first, second):
            yield from inside(first)
            yield from inside(second)
        case Either(parts) | Permutation(parts):
            for each in parts:
                yield from inside(each)
        case Iterate(inner, _, _):
            yield from inside(inner)


def has_one_length(body: Part) -> bool:
    """Whether all matches have as many rows, and some are in a free order."""
    parts = [*inside(body)]
    return any(isinstance(each, Permutation) for each in parts) and all(
        isinstance(each, Atom | Sequence | Permutation)
        or (isinstance(each, Iterate) and each.least == each.most)
        for each in parts
    )


def with_atoms(part: Part, change: Callable[[Atom], Atom]) -> Part:
    """The same with other atoms."""
    match part:
        case Atom():
            return change(part)
        case Sequence(first, second):
            return Sequence(with_atoms(first, change), with_atoms(second, change))
        case Either(parts) | Permutation(parts):
            return type(part)(tuple(with_atoms(each, change) for each in parts))
        case Iterate(inner, least, most):
            return Iterate(with_atoms(inner, change), least, most)
    raise AssertionError(part)


def positions_of(part: Part) -> Positions:
    """First, last and following variables, as Glushkov's automaton has them."""
    match part:
        case Atom(step=step):
            return Positions(frozenset({step}), frozenset({step}), False, {step: frozenset()})
        case Sequence(one, other):
            return _joined(positions_of(one), positions_of(other))
        case Either(parts) | Permutation(parts):
            some = [*map(positions_of, parts)]
            return Positions(
                frozenset().union(*(each.first for each in some)),
                frozenset().union(*(each.last for each in some)),
                any(each.empty for each in some),
                {name: after for each in some for name, after in each.follow.items()},
            )
        case Iterate(inner, least, most):
            found = positions_of(inner)
            again = found.first if most is None or most > 1 else frozenset()
            follow = {
                name: after | again if name in found.last else after for name, after in found.follow.items()
            }
            return Positions(found.first, found.last, found.empty or least == 0, follow)
    raise AssertionError(part)


def _joined(one: Positions, other: Positions) -> Positions:
    follow = {name: after | other.first if name in one.last else after for name, after in one.follow.items()}
    return Positions(
        one.first | other.first if one.empty else one.first,
        other.last | one.last if other.empty else other.last,
        one.empty and other.empty,
        {**follow, **other.follow},
    )


def with_last(body: Part, change: Callable[[Iterate], Part]) -> Part:
    """The same with another last part, which is an iteration."""
    if isinstance(body, Sequence):
        return Sequence(body.first, with_last(body.second, change))
    assert isinstance(body, Iterate)
    return change(body)


def repeated_last(body: Part) -> str | None:
    """The variable that is repeated without bound at the end, if that is how a pattern ends."""
    match body:
        case Sequence(_, second):
            return repeated_last(second)
        case Iterate(Atom(step=step), _, None):
            return step
    return None


def is_before(part: Part, step: str, other: str) -> bool:
    """Whether a step has taken a row, whatever the match, when another one is about to take one."""
    match part:
        case Sequence(first, second):
            names = {atom.step for atom in atoms(first)}
            if other in names:
                return is_before(first, step, other)
            return is_sure(first, step) or is_before(second, step, other)
        case Iterate(inner, _, _):
            return is_before(inner, step, other)
        case Either(parts) | Permutation(parts):
            return any(is_before(each, step, other) for each in parts)
    return False


def is_sure(part: Part, step: str) -> bool:
    """Whether every match of a part takes a row for a step."""
    match part:
        case Atom():
            return part.step == step
        case Sequence(first, second):
            return is_sure(first, step) or is_sure(second, step)
        case Iterate(inner, least, _):
            return least > 0 and is_sure(inner, step)
        case Permutation(parts):
            return any(is_sure(each, step) for each in parts)
    return False
