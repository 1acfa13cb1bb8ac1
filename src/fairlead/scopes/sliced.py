"""Visibility of many notifications at once, where filters alone decide: a column of bits for each scope.

Law: `SlicedBatch.sees` says of each pair what `ScopePlan.reach` says of its notification and its component, if
what the notification's producer publishes comes to no mapping and no policy; a producer sees its own besides.

All distinct filters of interfaces are evaluated first, one column of bits each. Upwards, a scope has the bits of
its members, as far as the filters of their edges let them pass; downwards likewise. So the cost is that of two
operations on columns for each edge that the batch needs, whatever the rows say; components that stand at the same
place are treated together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairlead.filters import Filter
from fairlead.scopes.interfaces import OPEN
from fairlead.scopes.plan import Ancestry, Parent, ScopePlan

__all__ = ["Bits", "Positions", "Sliced", "SlicedBatch"]

Bits = NDArray[np.bool_]
Positions = NDArray[np.int64]
"""Numbers of positions in a graph."""


class Sliced:
    """A scope graph, for batches of notifications that filters alone decide about (`ScopePlan.relevant`)."""

    def __init__(self, plan: ScopePlan) -> None:
        self._plan = plan
        self._ancestries: list[Ancestry] = []
        self._numbers: dict[int, int] = {}
        self._position_of: dict[str, int] = {}

    @cached_property
    def filters(self) -> tuple[Filter, ...]:
        """The distinct filters of all edges."""
        found: dict[Filter, None] = {}
        graph = self._plan.graph
        for edge in graph.edges:
            open_ends = graph.node(edge.member).interface is OPEN and graph.scope(edge.scope).imposed is OPEN
            if edge.is_plain and open_ends:  # most are, and there may be many
                continue
            parent = Parent.of(graph, edge)
            found.update(dict.fromkeys((*(parent.out_filters or ()), *(parent.in_filters or ()))))
        return tuple(found)

    # -- positions ----------------------------------------------------------------------------------------------

    def positions(self, names: Sequence[str]) -> Positions:
        """The positions of components in the graph, by number: those at the same position see the same."""
        known, made = self._position_of, []
        for name in names:
            number = known.get(name)
            if number is None:
                number = self._position(name)
            made.append(number)
        return np.array(made, np.int64)

    def _position(self, name: str) -> int:
        ancestry = self._plan.ancestry(name)
        number = self._numbers.setdefault(id(ancestry), len(self._ancestries))
        if number == len(self._ancestries):
            self._ancestries.append(ancestry)  # which keeps it, and so its id, in use
        if name in self._plan.graph:
            self._position_of[name] = number
        return number

    def at_positions(self, positions: Positions) -> Iterator[tuple[NDArray[np.int64], Ancestry]]:
        """The indexes of each position that is there."""
        if not len(positions):
            return
        small = positions.astype(np.uint16) if len(self._ancestries) < 1 << 16 else positions
        order = np.argsort(small, kind="stable")  # which counts, where numbers are small
        ranked = positions[order]
        starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(ranked)], strict=True):
            yield order[start:end], self._ancestries[ranked[start]]

    def ancestry_at(self, position: int) -> Ancestry:
        """The ancestry of the components at a position."""
        return self._ancestries[position]

    # -- notifications ------------------------------------------------------------------------------------------

    def batch(self, producers: Positions, passed: Mapping[Filter, Bits]) -> SlicedBatch:
        """The visibility of notifications, by the positions of their producers; `passed`: which match a filter."""
        return SlicedBatch(self, producers, passed)


class SlicedBatch:
    """The visibility of some notifications. What is asked for is computed once."""

    def __init__(self, sliced: Sliced, producers: Positions, passed: Mapping[Filter, Bits]) -> None:
        self._sliced, self._plan = sliced, sliced._plan
        self._producers, self._passed = producers, passed
        self._visible: dict[str, Bits] = {}

    def _passing(self, filters: tuple[Filter, ...] | None) -> Bits | bool:
        if filters is None:
            return False
        bits: Bits | bool = True
        for filter in filters:
            bits = self._passed[filter] if bits is True else bits & self._passed[filter]
        return bits

    @cached_property
    def inside(self) -> dict[str, Bits]:
        """The scopes that notifications are internal to, each with those."""
        size = len(self._producers)
        found: dict[str, Bits] = {}
        above: dict[str, None] = {}
        for rows, ancestry in self._sliced.at_positions(self._producers):
            for parent in ancestry.parents:
                bits = self._passing(parent.out_filters)
                if bits is not False:
                    column = found.setdefault(parent.scope, np.zeros(size, np.bool_))
                    column[rows] |= True if bits is True else bits[rows]
                above[parent.scope] = None
        for name in self._plan.graph.above(*above):  # members first
            column = found.get(name)  # type: ignore[assignment]
            if column is None:
                continue
            for parent in self._plan.parents(name):
                bits = self._passing(parent.out_filters)
                if bits is not False:
                    upper = found.setdefault(parent.scope, np.zeros(size, np.bool_))
                    upper |= column & bits
        return found

    def visible(self, *scopes: str) -> dict[str, Bits]:
        """The notifications that are visible in some scopes, and in all above them."""
        found = self._visible
        for name in reversed(self._plan.graph.above(*(each for each in scopes if each not in found))):
            if name in found:  # superscopes come first
                continue
            own = self.inside.get(name)
            column = np.zeros(len(self._producers), np.bool_) if own is None else own.copy()
            for parent in self._plan.parents(name):
                bits = self._passing(parent.in_filters)
                if bits is not False:
                    column |= found[parent.scope] & bits
            found[name] = column
        return found

    def sees(self, rows: NDArray[np.int64], positions: Positions) -> Bits:
        """Of each pair of a notification and a place, whether a component there sees it, unless it published it
        itself."""
        seen = np.zeros(len(rows), np.bool_)
        for pairs, ancestry in self._sliced.at_positions(positions):
            at = rows[pairs]
            visible = self.visible(*(parent.scope for parent in ancestry.parents))
            column = np.zeros(len(at), np.bool_)
            for parent in ancestry.parents:
                bits = self._passing(parent.in_filters)
                if bits is not False:
                    column |= visible[parent.scope][at] & (True if bits is True else bits[at])
            seen[pairs] = column
        return seen
