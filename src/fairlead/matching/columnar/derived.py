"""Derived terms: what a column can hold besides the value of a term of the language.

    Coordinate    a number that a point, an interval or a rectangle is made of
    Pair          the comparison of the values of two attributes, for `@compare`
    Tree          the path filters that the tree of a notification satisfies (see `selections`)

Law: `@compare("a", op, "b")` holds iff the pair of a and b has one of the numbers that `outcomes` gives for op.

Law: a constraint on a shape holds iff the value is of the kind that `sides` names and its comparisons of
coordinates hold, all of them or, where it says so, not all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fairlead.filters.constraint import Constraint, Op, compare
from fairlead.filters.terms import Term
from fairlead.model import ABSENT, Interval, Kind, Multi, Notification, Number, Point, Rectangle, kind_of

__all__ = ["Coordinate", "Pair", "Sides", "Tree", "coordinates_of", "outcomes", "sides"]


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A number of the shape under a term, by its position in `coordinates_of`."""

    term: Term
    axis: int

    def value(self, notification: Notification) -> Any:
        found = coordinates_of(self.term.value(notification))
        return found[self.axis] if self.axis < len(found) else ABSENT


@dataclass(frozen=True, slots=True)
class Pair:
    """The comparison of the values of two attributes: by order as -1, 0 and 1, or by equality as 0 and 1.

    XX
        however many filters compare it.
    """

    one: str
    other: str
    is_ordered: bool

    def value(self, notification: Notification) -> Any:
        one, other = notification.get(self.one), notification.get(self.other)
        kind = kind_of(one)
        if kind in _NOT_COMPARED or kind is not kind_of(other):
            return ABSENT
        ways = _ORDERS if self.is_ordered else _EQUALITIES
        return next((number for op, number in ways if compare(op, one, other)), ABSENT)


_NOT_COMPARED: Final = frozenset({Kind.ABSENT, Kind.NULL})
_ORDERS: Final = ((Op.LT, -1), (Op.GT, 1), (Op.LE, 0))
_EQUALITIES: Final = ((Op.EQ, 1), (Op.NE, 0))
_OUTCOMES: Final = {Op.EQ: (1,), Op.NE: (0,), Op.LT: (-1,), Op.LE: (-1, 0)}


def outcomes(one: str, op: Op, other: str) -> Constraint:
    """The comparison of two attributes as a constraint on their pair."""
    pair = Pair(one, other, op in (Op.LT, Op.LE))
    return Constraint(pair, Op.IN, Multi(_OUTCOMES[op]))


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of a notification."""

    def value(self, notification: Notification) -> Notification:
        return notification


def coordinates_of(shape: Any) -> tuple[Number, ...]:
    """The numbers that a shape is made of; of what is no shape, none."""
    match shape:
        case Point(x, y):
            return x, y
        case Interval(low, high):
            return low, high
        case Rectangle(left, bottom, right, top):
            return left, bottom, right, top
        case _:
            return ()


class Sides(NamedTuple):
    """A constraint on a shape as comparisons of its coordinates: all of them hold, or not all of them."""

    kind: Kind
    comparisons: tuple[Constraint, ...]
    negative: bool


_NEGATIVE: Final = frozenset({Op.NE, Op.NOT_IN, Op.LACKS, Op.DISJOINT})
_LOW_HIGH: Final = {Kind.INTERVAL: ((0, 1),), Kind.RECTANGLE: ((0, 2), (1, 3))}
"""For each direction, where the low and the high end stand among the coordinates."""


def sides(constraint: Constraint) -> Sides:
    """A constraint whose operand is a shape, by coordinates."""
    op, operand = constraint.op, constraint.operand
    bounds = coordinates_of(operand)
    kind = kind_of(operand)
    match op:
        case Op.EQ | Op.NE:
            compared = [(axis, Op.EQ, bound) for axis, bound in enumerate(bounds)]
        case Op.IN | Op.NOT_IN:  # a point in a rectangle
            kind = Kind.POINT
            left, bottom, right, top = bounds
            compared = [(0, Op.GE, left), (0, Op.LE, right), (1, Op.GE, bottom), (1, Op.LE, top)]
        case Op.CONTAINS | Op.LACKS:  # a rectangle contains a point
            kind = Kind.RECTANGLE
            x, y = bounds
            compared = [(0, Op.LE, x), (2, Op.GE, x), (1, Op.LE, y), (3, Op.GE, y)]
        case Op.SUBSET:
            compared = [
                each for a, b in _LOW_HIGH[kind] for each in ((a, Op.GE, bounds[a]), (b, Op.LE, bounds[b]))
            ]
        case Op.SUPERSET:
            compared = [
                each for a, b in _LOW_HIGH[kind] for each in ((a, Op.LE, bounds[a]), (b, Op.GE, bounds[b]))
            ]
        case _:  # overlaps and disjoint: in each direction, both begin before the other ends
            compared = [
                each for a, b in _LOW_HIGH[kind] for each in ((a, Op.LE, bounds[b]), (b, Op.GE, bounds[a]))
            ]
    comparisons = (Constraint(Coordinate(constraint.term, axis), how, bound) for axis, how, bound in compared)
    return Sides(kind, tuple(comparisons), op in _NEGATIVE)
