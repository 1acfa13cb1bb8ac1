"""Hypothesis strategies for fair subscriptions, and for events that they relate.

    conjunctions    a few predicates of every sort over some types and the attributes x and y
    subscriptions   disjunctions of these, with names where some are given
    events          events of these types in their established order

The pools are small, so that matches are frequent.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import combinations, product
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fairlead.correlation.fair import (
    Comparison,
    Conjunction,
    Instance,
    Matcher,
    Reference,
    Relation,
    Restriction,
    Subscription,
)
from fairlead.correlation.fair.subscriptions import UNNAMED, Predicate
from fairlead.filters import Op, parse
from fairlead.model import Notification

__all__ = ["conjunctions", "event", "events", "fed", "predicates", "subscriptions"]

Types: TypeAlias = str | tuple[str, ...]
"""Names of types; a text has one in each letter."""
OPERATORS: Final = (Op.EQ, Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE, Op.NE)
FILTERS: Final = ("x < 2", "x != 1", "y = 0 or y = 1", "exists y", 'x in {0, 2, "a"}', "y >= 1", "not x = 1")
MISSING: Final = object()
ODD: Final = (0.0, 1, "a", "b", None, True, float("nan"), MISSING)


def event(type: str, **attributes: Any) -> Notification:
    """An event of a type."""
    return Notification.of({"type": type, **attributes})


def events(types: Types = "ABC", max_size: int = 14) -> SearchStrategy[list[Notification]]:
    """Events in their established order, each with an id of its own; sometimes an attribute is missing."""
    shapes = st.sampled_from(
        [
            {"type": type, "x": x, "y": y}
            for type in types
            for x, y in (*product(range(4), repeat=2), *zip(ODD, reversed(ODD), strict=True))
        ]
    )
    return st.lists(shapes, min_size=3, max_size=max_size).map(_numbered)


def _numbered(shapes: list[dict[str, Any]]) -> list[Notification]:
    return [
        Notification.of({name: value for name, value in shape.items() if value is not MISSING} | {"id": n})
        for n, shape in enumerate(shapes)
    ]


@cache
def predicates(types: Types, instances: int) -> list[Predicate]:
    """Every predicate over some types and the attributes x and y; comparisons are the most."""
    places = [Instance(type, index) for type in types for index in range(1, instances + 1)]
    references = [Reference(place, name) for place in places for name in "xy"]
    comparisons = [
        Comparison(left, op, right) for left, right in combinations(references, 2) for op in OPERATORS
    ]
    unary = [Restriction(place, parse(text)) for place in places for text in FILTERS]
    few = max(1, len(comparisons) // (3 * len(unary)))
    return [*comparisons, *unary * few, *places * few * 3]


def conjunctions(types: Types = "ABC", instances: int = 2) -> SearchStrategy[Conjunction]:
    """Conjunctions with a few predicates of every sort."""
    drawn = st.lists(st.sampled_from(predicates(types, instances)), min_size=1, max_size=4)
    return drawn.map(Conjunction.of)


def subscriptions(
    types: Types = "ABC", names: SearchStrategy[str] | None = None
) -> SearchStrategy[Subscription]:
    """Disjunctions of a few conjunctions, called by one of some names."""
    drawn = st.lists(conjunctions(types), min_size=1, max_size=3)
    return st.builds(Subscription.of, drawn, st.just(UNNAMED) if names is None else names)


def fed(matcher: Matcher, given: Iterable[Notification]) -> list[tuple[int, Relation]]:
    """The deliveries of a matcher, with the number of the event that completed each relation."""
    return [(at, relation) for at, each in enumerate(given) for relation in matcher.feed(each)]
