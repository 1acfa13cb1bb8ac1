"""Matches in progress as a graph: one node for an element and a state, however many matches meet there.

    A1 ─▶ A2 ─▶ A3            `1 or more A followed by B`: five nodes and their edges stand for every match, and
     ╲     ╲     ╲            none is written out before it is asked for
      ╲─────╲─────▶ B

A match is a path from a node at which it may start to the node at which it was accepted. Matches that are in the
same state with equal registers behave alike from there on, so they share the nodes that follow.

Law: the paths to a node are exactly the matches in progress that took its element last and are in its state.
`first_paths` lists them in the order of preference, with work that grows with the nodes and with what is asked
for, never with the number of paths.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any, Final, TypeAlias

from fairlead.correlation.patterns.occurrences import Occurrence, Rank

__all__ = ["Constituent", "Node", "Path", "first_paths", "last_path", "starting_at", "starts_of"]

Constituent: TypeAlias = tuple[Rank, int, Occurrence]
"""What an atom took; compared by place, then by the number of the atom."""
Path: TypeAlias = tuple[Constituent, ...]

_NOTHING_MORE: Final = (((2**64,),),)
"""Behind every constituent: of two matches, the one that goes on comes first."""


@dataclass(slots=True, eq=False)
class Node:
    """An element that matches in progress took last, and where they came from."""

    number: int
    """Nodes are numbered as they are made, so each comes behind those that lead to it."""
    taken: Path
    """What was taken with it; nothing with a time event."""
    end: int
    is_point: bool
    timer: str
    """The name of the timer that went off; empty for an occurrence."""
    at_once: tuple[int, ...]
    """The registers of timers that were started with it and go off at the same moment."""
    registers: tuple[Any, ...]
    before: list[Node]
    """Where its matches come from."""
    is_start: bool
    """Whether a match may start with it."""
    floor: int
    """Matches with constituents that started before this time do not lead here: a window has closed."""
    latest: int
    """The latest time at which one of its matches started; not earlier, at least."""


Allowed: TypeAlias = Callable[[Node], bool]
"""Whether a match may start with a node."""


def _ordered(path: Path) -> tuple[Any, ...]:
    return path + _NOTHING_MORE


def _reached(
    ends: Iterable[Node], floor: int, without: Container[Rank] = frozenset()
) -> list[tuple[Node, int]]:
    """The nodes on paths to the ends, in order, each with every floor under which it is reached."""
    found: set[tuple[Node, int]] = set()
    waiting = [(node, max(floor, node.floor)) for node in ends]
    while waiting:
        reached = waiting.pop()
        if reached in found:
            continue
        node, least = reached
        if any(occurrence.start < least or rank in without for rank, _, occurrence in node.taken):
            continue
        found.add(reached)
        waiting.extend((each, max(least, each.floor)) for each in node.before)
    return sorted(found, key=lambda each: each[0].number)


def first_paths(
    ends: list[Node], floor: int, count: int, allowed: Allowed, without: Container[Rank] = frozenset()
) -> list[Path]:
    """The first paths to the ends, in order, at most `count`.

    All that a path takes starts from `floor` on, and is not among what it has to do without.
    """
    paths: dict[tuple[Node, int], list[Path]] = {}
    for node, least in _reached(ends, floor, without):
        sources = [paths.get((each, max(least, each.floor)), ()) for each in node.before]
        if node.is_start and allowed(node):
            sources.append([()])
        best = _merged(sources, count)
        paths[(node, least)] = [path + node.taken for path in best] if node.taken else best
    return _merged([paths.get((node, max(floor, node.floor)), ()) for node in ends], count)


def _merged(sources: list[Any], count: int) -> list[Path]:
    """The first of several lists that are in order, each path once."""
    sources = [each for each in sources if each]
    if len(sources) < 2:
        return list(sources[0][:count]) if sources else []
    if count == 1:
        return [min((each[0] for each in sources), key=_ordered)]
    distinct = dict.fromkeys(merge(*sources, key=_ordered))
    return list(islice(distinct, count))


def last_path(ends: list[Node], floor: int, allowed: Allowed) -> Path | None:
    """The last path to the ends in the order of preference."""
    paths: dict[tuple[Node, int], Path] = {}
    for node, least in _reached(ends, floor):
        sources = [
            found for each in node.before if (found := paths.get((each, max(least, each.floor)))) is not None
        ]
        if node.is_start and allowed(node):
            sources.append(())
        if sources:
            paths[(node, least)] = max(sources, key=_ordered) + node.taken
    reached = [path for node in ends if (path := paths.get((node, max(floor, node.floor)))) is not None]
    return max(reached, key=_ordered) if reached else None


def starts_of(ends: list[Node], floor: int, allowed: Allowed) -> list[Rank]:
    """The places of the occurrences with which paths to the ends may start, in order."""
    reached = _reached(ends, floor)
    return sorted({node.taken[0][0] for node, _ in reached if node.is_start and allowed(node)})


def starting_at(rank: Rank) -> Allowed:
    """Allows matches that start with one occurrence only."""
    return lambda node: node.taken[0][0] == rank
