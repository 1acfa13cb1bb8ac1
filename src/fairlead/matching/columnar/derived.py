"""Derived terms: what a column can hold besides the value of a term of the language.

    Coordinate    a number that a point, an interval or a rectangle is made of
    Tree          the path filters that the tree of a notification satisfies (see `selections`)

Law: a constraint on a shape holds iff the value is of the kind that `sides` names and its comparisons of
coordinates hold, all of them or, where it says so, not all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.terms import Term
from fairlead.model import ABSENT, Interval, Kind, Notification, Number, Point, Rectangle, kind_of

__all__ = ["Coordinate", "Sides", "Tree", "coordinates_of", "sides"]


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A number of the shape under a term, by its position in `coordinates_of`."""

    term: Term
    axis: int

    def value(self, notification: Notification) -> Any:
        found = coordinates_of(self.term.value(notification))
        return found[self.axis] if self.axis < len(found) else ABSENT


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
