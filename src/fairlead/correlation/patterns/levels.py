"""Levels: whatever sees composites of others stands above these.

    leveled({"p": Seeing({"A", "spike"}, {"wave"}), "q": Seeing({"A"}, {"spike"})})    {"q": 0, "p": 1}

Composites are found where time has come to their end, and enter the streams of those who name their type. Level by
level, each who looks at an instant has before it all that was found there by those below. Nobody can stand above
itself: who would see its own composites, be it over others, is refused.
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
    """What somebody looks at, and what comes of it."""

    types: frozenset[str]
    """The types that it names: composites of others are seen by these."""
    makes: frozenset[str]
    """The types of its own composites."""


class Maker(Protocol):
    """What makes composites beside patterns. Its questions have ids, and levels among those of patterns."""

    def place(self, id: str, level: int, /) -> None:
        """From now on a question stands on a level, with what it has in progress."""

    def make(self, level: int, stream: Iterable[Occurrence], bound: int, /) -> Iterable[Occurrence]:
        """The composites before a bound that the next occurrences of a level complete, each once."""


def leveled(seeing: Mapping[Node, Seeing]) -> dict[Node, int]:
    """The level of each: above all whose composites it sees. FilterError where somebody sees its own."""
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
        circle = " ◀ ".join(sorted({type for node in error.args[1] for type in seeing[node].makes}))
        raise FilterError(f"patterns see their own composites: {circle}") from None
    return levels
