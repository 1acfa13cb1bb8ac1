"""Approximate matching: how much of a filter a notification satisfies, when all or nothing is too strict.

    score(F, n) = 1    iff    n matches F
    of a plain conjunction, the score is the share of its constraints that hold

A conjunction scores the mean of its parts, a disjunction the best of them. Negation goes inwards first, so that
`not (a and b)` scores as `not a or not b` does; a single constraint scores 1 or 0.

The scores are worked out filter by filter, beside the exact engines, which pay nothing for it (book 3.3).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from fairlead.filters.filter import And, Filter, Not, Or
from fairlead.model import Notification

__all__ = ["Scored", "match_approximately", "score"]

Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Scored(Generic[Id]):
    """A filter's id, and how much of the filter is satisfied: from 0 to 1, and 1 only for a match."""

    id: Id
    score: Fraction


def score(filter: Filter, notification: Notification) -> Fraction:
    """The share of the filter that the notification satisfies: from 0 to 1, and 1 iff it matches."""
    return _score(filter, notification, True)


def match_approximately(
    filters: Iterable[tuple[Id, Filter]], notification: Notification, score_min: Fraction | float = 0.5
) -> list[Scored[Id]]:
    """The filters that score at least `score_min`, best first, otherwise in the order given."""
    scored = (Scored(id, score(filter, notification)) for id, filter in filters)
    return sorted((each for each in scored if each.score >= score_min), key=lambda each: -each.score)


def _score(node: Filter, notification: Notification, positive: bool) -> Fraction:
    match node:
        case Not(part):
            return _score(part, notification, not positive)
        case And(parts) | Or(parts):
            scores = [_score(part, notification, positive) for part in parts]
            if isinstance(node, And) is positive:
                return sum(scores, Fraction(0)) / len(scores) if scores else Fraction(1)
            return max(scores, default=Fraction(0))
        case _:
            return Fraction(bool(node.matches(notification)) is positive)
