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
from fairlead.model.order import BEGINNING

__all__ = [
    "Constituent",
    "Extent",
    "Node",
    "Path",
    "best_path",
    "extent_of",
    "first_paths",
    "starting_at",
    "starts_of",
]

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
    waiting = [(node, max(floor, node.floor)) for node in ends]
    found = set(waiting)
    reachable = []
    while waiting:
        reached = waiting.pop()
        node, least = reached
        for rank, _, occurrence in node.taken:
            if occurrence.start < least or rank in without:
                break
        else:
            reachable.append(reached)
            for each in node.before:
                further = (each, least if least >= each.floor else each.floor)
                if further not in found:
                    found.add(further)
                    waiting.append(further)
    if len(reachable) > 1:
        reachable.sort(key=_made)
    return reachable


def _made(reached: tuple[Node, int]) -> int:
    return reached[0].number


def first_paths(ends: list[Node], floor: int, count: int) -> list[Path]:
    """The first paths to the ends, in order, at most `count`; all that a path takes starts from `floor` on."""
    paths: dict[tuple[Node, int], list[Path]] = {}
    for node, least in _reached(ends, floor):
        sources = [paths.get((each, max(least, each.floor)), []) for each in node.before]
        if node.is_start:
            sources.append([()])
        best = _merged(sources, count)
        paths[(node, least)] = [path + node.taken for path in best] if node.taken else best
    return _merged([paths.get((node, max(floor, node.floor)), []) for node in ends], count)


def _merged(sources: list[list[Path]], count: int) -> list[Path]:
    """The first of several lists that are in order, each path once."""
    return list(islice(dict.fromkeys(merge(*sources, key=_ordered)), count))


def best_path(
    ends: list[Node],
    floor: int,
    allowed: Allowed,
    without: Container[Rank] = frozenset(),
    *,
    last: bool = False,
) -> Path | None:
    """The first path to the ends in the order of preference, or the last one.

    It starts where it may, and takes nothing that it has to do without.
    """
    best = max if last else min
    paths: dict[tuple[Node, int], Path] = {}
    for node, least in _reached(ends, floor, without):
        sources: list[Path] = [()] if node.is_start and allowed(node) else []
        for each in node.before:
            path = paths.get((each, least if least >= each.floor else each.floor))
            if path is not None:
                sources.append(path)
        if sources:
            paths[(node, least)] = (
                best(sources, key=_ordered) if len(sources) > 1 else sources[0]
            ) + node.taken
    found = [path for node in ends if (path := paths.get((node, max(floor, node.floor)))) is not None]
    return best(found, key=_ordered) if found else None


@dataclass(frozen=True, slots=True)
class Extent:
    """What is held, and what it stands for."""

    nodes: int = 0
    matches: int = 0


def extent_of(ends: list[Node]) -> Extent:
    """The nodes that lead to the ends, and the paths; those included that a window has left behind since."""
    paths: dict[Node, int] = {}
    for node, _ in _reached(ends, BEGINNING):
        paths[node] = node.is_start + sum(paths.get(each, 0) for each in node.before)
    return Extent(len(paths), sum(paths.get(node, 0) for node in ends))


def starts_of(ends: list[Node], floor: int, allowed: Allowed) -> list[Rank]:
    """The places of the occurrences with which paths to the ends may start, in order."""
    reached = _reached(ends, floor)
    return sorted({node.taken[0][0] for node, _ in reached if node.is_start and allowed(node)})


def starting_at(rank: Rank) -> Allowed:
    """Allows matches that start with one occurrence only."""
    return lambda node: node.taken[0][0] == rank
