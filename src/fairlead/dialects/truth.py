"""Logic with a third outcome (unknown, or an error), as pairs of our filters.

A condition of such a logic is a pair: the filter that it is true, and the filter that it is false. Where
neither matches, it is unknown. Negation swaps the two, so nothing is lost: `NOT (x = 5)` is false where x is
unknown, as its pair says, and our `not` stays Boolean. An event passes iff the first filter of the whole
matches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fairlead.dialects.expressions import Binary, IsTruth, Literal, Node, Unary
from fairlead.filters.filter import EVERYTHING, NOTHING, And, Filter, Not, Or

__all__ = [
    "FALSE",
    "TRUE",
    "UNKNOWN",
    "Truth",
    "all_of",
    "any_of",
    "both",
    "either",
    "exclusive",
    "then_all_of",
    "then_any_of",
    "truth_of",
]


@dataclass(frozen=True, slots=True)
class Truth:
    """When a condition is true, and when it is false."""

    true: Filter
    false: Filter

    def negated(self) -> Truth:
        return Truth(self.false, self.true)

    def unknown(self) -> Filter:
        """When it is neither."""
        return Not(either(self.true, self.false))


TRUE: Final = Truth(EVERYTHING, NOTHING)
FALSE: Final = Truth(NOTHING, EVERYTHING)
UNKNOWN: Final = Truth(NOTHING, NOTHING)


def either(*filters: Filter) -> Filter:
    """`or`, without the parts that change nothing."""
    parts = [each for each in dict.fromkeys(filters) if each != NOTHING]
    return EVERYTHING if EVERYTHING in parts else Or.of(parts)


def both(*filters: Filter) -> Filter:
    """`and`, without the parts that change nothing."""
    parts = [each for each in dict.fromkeys(filters) if each != EVERYTHING]
    return NOTHING if NOTHING in parts else And.of(parts)


def all_of(one: Truth, other: Truth) -> Truth:
    """AND of SQL: false where one of them is, whatever the other."""
    return Truth(both(one.true, other.true), either(one.false, other.false))


def any_of(one: Truth, other: Truth) -> Truth:
    """OR of SQL: true where one of them is, whatever the other."""
    return all_of(one.negated(), other.negated()).negated()


def then_all_of(one: Truth, other: Truth) -> Truth:
    """AND from left to right: an error of the first is one of the whole, and a false one hides the second's."""
    return Truth(both(one.true, other.true), either(one.false, both(one.true, other.false)))


def then_any_of(one: Truth, other: Truth) -> Truth:
    """OR from left to right."""
    return then_all_of(one.negated(), other.negated()).negated()


def exclusive(one: Truth, other: Truth) -> Truth:
    """XOR: both have to be known."""
    return Truth(
        either(both(one.true, other.false), both(one.false, other.true)),
        either(both(one.true, other.true), both(one.false, other.false)),
    )


def truth_of(node: Node, leaf: Callable[[Node], Truth]) -> Truth:
    """The pair of a condition in the logic of SQL, given those of its parts that are not logic."""
    match node:
        case Unary(sign="NOT", part=part):
            return truth_of(part, leaf).negated()
        case Binary(sign="AND", left=left, right=right):
            return all_of(truth_of(left, leaf), truth_of(right, leaf))
        case Binary(sign="OR", left=left, right=right):
            return any_of(truth_of(left, leaf), truth_of(right, leaf))
        case IsTruth(part=part, truth=truth, negated=negated):
            found = truth_of(part, leaf)
            holds = found.unknown() if truth is None else found.true if truth else found.false
            known = Truth(holds, Not(holds))
            return known.negated() if negated else known
        case Literal(value=bool(value)):
            return TRUE if value else FALSE
    return leaf(node)
