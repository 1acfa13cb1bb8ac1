"""Delivery paths: up to a scope that contains both ends, then down, without a component twice (Def. 6.4).

Evaluation does not enumerate them: their number may grow exponentially with the graph. Explanations do, up to a
bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from fairlead.scopes.graph import ScopeGraph

__all__ = ["paths_between", "upward_paths"]

PATHS_MAX: Final = 100
"""The number of delivery paths that are explained."""
HALVES_MAX: Final = 1_000
"""The number of ways up from each end that are looked at."""


def upward_paths(graph: ScopeGraph, start: str) -> Iterator[tuple[str, ...]]:
    """Every path from a component upwards, itself alone included."""
    yield (start,)
    if graph.is_scope(start) and not graph.carries(start):
        return
    for edge in graph.superscopes(start).values():
        if graph.carries(edge.scope):
            yield from ((start, *path) for path in upward_paths(graph, edge.scope))


def paths_between(graph: ScopeGraph, one: str, other: str, count: int = PATHS_MAX) -> list[tuple[str, ...]]:
    """Delivery paths from one component to another, shortest first."""
    ups = list(islice(upward_paths(graph, one), HALVES_MAX))
    downs: dict[str, list[tuple[str, ...]]] = {}
    for down in islice(upward_paths(graph, other), HALVES_MAX):
        downs.setdefault(down[-1], []).append(down)
    paths = {
        path
        for up in ups
        for down in downs.get(up[-1], ())
        if len(set(path := up + down[-2::-1])) == len(path)
    }
    return sorted(paths, key=lambda path: (len(path), path))[:count]
