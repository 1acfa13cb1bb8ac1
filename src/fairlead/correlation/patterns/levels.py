"""Levels: a query that sees composites of others is on a level above theirs.

    leveled({"p": Seeing({"A", "spike"}, {"wave"}), "q": Seeing({"A"}, {"spike"})})    {"q": 0, "p": 1}

Composites are detected when time has come to their end, and enter the streams of the queries that name their type.
At each instant the levels are evaluated in order, so that a query has before it all composites of those below. A
query that would see its own composites, be it through others, is refused.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple, Protocol, TypeVar

from fairlead.correlation.occurrences import Occurrence
from fairlead.errors import FilterError

__all__ = ["Maker", "Seeing", "leveled"]

Node = TypeVar("Node", bound=Hashable)


class Seeing(NamedTuple):
    """The types that a query names, and those that it makes."""

    types: frozenset[str]
    """The types that it names: composites of others are seen by these."""
    makes: frozenset[str]
    """The types of its own composites."""


class Maker(Protocol):
    """An engine that makes composites beside patterns. Its queries have ids, and levels among patterns."""

    def assign_level(self, id: str, level: int, /) -> None:
        """Move a query to a level, with its state."""

    def make(self, level: int, stream: Iterable[Occurrence], bound: int, /) -> Iterable[Occurrence]:
        """The composites before a bound that the next occurrences of a level complete, each once."""


def leveled(seeing: Mapping[Node, Seeing]) -> dict[Node, int]:
    """The level of each: above all whose composites it sees. FilterError where one sees its own."""
    makes: dict[str, list[Node]] = {}
    for node, each in seeing.items():
        for type in each.makes:
            makes.setdefault(type, []).append(node)
    sees = {
        node: {other for type in each.types for other in makes.get(type, ())} for node, each in seeing.items()
    }
    levels: dict[Node, int] = {}
    try:
        for node in TopologicalSorter(sees).static_order():
            levels[node] = 1 + max((levels[other] for other in sees[node]), default=-1)
    except CycleError as error:
        cycle = " ◀ ".join(sorted({type for node in error.args[1] for type in seeing[node].makes}))
        raise FilterError(f"patterns see their own composites: {cycle}") from None
    return levels
