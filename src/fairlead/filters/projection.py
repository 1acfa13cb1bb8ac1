"""The part of a filter that is about some attributes: it matches whatever the filter matches, and perhaps more."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.filters.filter import EVERYTHING, And, Filter, Not, Or
from fairlead.filters.naming import Attributes

__all__ = ["projected", "silent_about", "with_leaves"]


def with_leaves(filter: Filter, leaf: Callable[[Filter], Filter], *, positive: bool = True) -> Filter:
    """A filter with each of its leaves replaced. Negations go down to the leaves: what stands for a leaf may match
    more than it, and must not be negated then."""
    match filter:
        case Not(part):
            return with_leaves(part, leaf, positive=not positive)
        case And(parts) | Or(parts):
            sides = [with_leaves(each, leaf, positive=positive) for each in parts]
            return And.of(sides) if isinstance(filter, And) == positive else Or.of(sides)
    return leaf(filter if positive else Not(filter))


def projected(filter: Filter, names: frozenset[str]) -> Filter:
    """A filter about these attributes alone: some values of the others would do."""

    def leaf(each: Filter) -> Filter:
        read = Attributes.of(each)
        return EVERYTHING if read.is_whole or not read.names <= names else each

    return with_leaves(filter, leaf)


def silent_about(filter: Filter, names: frozenset[str]) -> Filter:
    """A filter about all attributes but these: some values of them would do."""

    def leaf(each: Filter) -> Filter:
        return EVERYTHING if Attributes.of(each).reading(names) else each

    return with_leaves(filter, leaf) if names else filter
