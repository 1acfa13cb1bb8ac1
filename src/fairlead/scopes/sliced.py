"""Visibility of many notifications at once, where filters alone decide: a column of bits for each scope.

Law: `Sliced.sees` says of each pair what `ScopePlan.reach` says of its notification and its component, if what the
notification's producer publishes comes to no mapping and no policy.

All distinct filters of interfaces are evaluated first, one column of bits each. Upwards, a scope has the bits of
its members, as far as the filters of their edges let them pass; downwards likewise. So the cost is that of two
operations on columns for each edge that the batch needs, whatever the rows say; components that stand at the same
place are treated together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairlead.filters import Filter
from fairlead.scopes.plan import Ancestry, Parent, ScopePlan

__all__ = ["Bits", "Sliced"]

Bits = NDArray[np.bool_]


class Sliced:
    """A scope graph, for batches of notifications that filters alone decide about (`ScopePlan.relevant`)."""

    def __init__(self, plan: ScopePlan) -> None:
        self._plan = plan

    @cached_property
    def filters(self) -> tuple[Filter, ...]:
        """The distinct filters of all edges."""
        found: dict[Filter, None] = {}
        for edge in self._plan.graph.edges:
            parent = Parent.of(self._plan.graph, edge)
            found.update(dict.fromkeys((*(parent.out_filters or ()), *(parent.in_filters or ()))))
        return tuple(found)

    def _passing(self, filters: tuple[Filter, ...] | None, passed: dict[Filter, Bits]) -> Bits | bool:
        if filters is None:
            return False
        bits: Bits | bool = True
        for filter in filters:
            bits = passed[filter] if bits is True else bits & passed[filter]
        return bits

    def inside(
        self, producers: Sequence[str], codes: NDArray[np.int64], passed: dict[Filter, Bits]
    ) -> dict[str, Bits]:
        """The scopes that each notification is internal to. `codes` number the producer of each row."""
        size, plan = len(codes), self._plan
        found: dict[str, Bits] = {}
        above: dict[str, None] = {}
        for rows, parents, scopes in self._by_ancestry(producers, codes):
            for parent in parents:
                bits = self._passing(parent.out_filters, passed)
                if bits is not False:
                    column = found.setdefault(parent.scope, np.zeros(size, np.bool_))
                    column[rows] |= True if bits is True else bits[rows]
            above.update(dict.fromkeys(scopes))
        for name in plan.graph.above(*above):  # members first
            column = found.get(name)  # type: ignore[assignment]
            if column is None:
                continue
            for parent in plan.parents(name):
                bits = self._passing(parent.out_filters, passed)
                if bits is not False:
                    upper = found.setdefault(parent.scope, np.zeros(size, np.bool_))
                    upper |= column & bits
        return found

    def visible(
        self, inside: dict[str, Bits], size: int, scopes: Iterable[str], passed: dict[Filter, Bits]
    ) -> dict[str, Bits]:
        """The visibility of each notification, for some scopes and all above them."""
        found: dict[str, Bits] = {}
        for name in reversed(self._plan.graph.above(*scopes)):  # superscopes first
            own = inside.get(name)
            column = np.zeros(size, np.bool_) if own is None else own.copy()
            for parent in self._plan.parents(name):
                bits = self._passing(parent.in_filters, passed)
                if bits is not False:
                    column |= found[parent.scope] & bits
            found[name] = column
        return found

    def sees(
        self,
        producers: Sequence[str],
        codes: NDArray[np.int64],
        passed: dict[Filter, Bits],
        *,
        rows: NDArray[np.int64],
        components: Sequence[str],
        whose: NDArray[np.int64],
    ) -> Bits:
        """Of each pair of a row and a component, whether the component sees the notification.

        `codes` number the producer of each row in `producers`, `whose` the component of each pair in `components`.
        """
        inside = self.inside(producers, codes, passed)
        ancestries = list(self._by_ancestry(components, whose))
        scopes = dict.fromkeys(scope for _, _, homes in ancestries for scope in homes)
        visible = self.visible(inside, len(codes), scopes, passed)
        seen = np.zeros(len(rows), np.bool_)
        for pairs, parents, _ in ancestries:
            at = rows[pairs]
            column = np.zeros(len(at), np.bool_)
            for parent in parents:
                bits = self._passing(parent.in_filters, passed)
                if bits is not False:
                    column |= visible[parent.scope][at] & (True if bits is True else bits[at])
            seen[pairs] = column
        own = {name: number for number, name in enumerate(producers)}
        published = np.array([own.get(name, -1) for name in components], np.int64)
        seen |= codes[rows] == published[whose]
        return seen

    def _by_ancestry(
        self, names: Sequence[str], codes: NDArray[np.int64]
    ) -> Iterable[tuple[NDArray[np.int64], tuple[Parent, ...], tuple[str, ...]]]:
        """The positions of all components that stand at one place, with its edges and the scopes right above."""
        numbers: dict[int, int] = {}
        ancestries: list[Ancestry] = []
        of_name = np.empty(len(names), np.int64)
        for number, name in enumerate(names):
            ancestry = self._plan.ancestry(name)
            at = numbers.setdefault(id(ancestry), len(numbers))
            if at == len(ancestries):
                ancestries.append(ancestry)
            of_name[number] = at
        at_place = of_name[codes] if len(codes) else codes
        order = np.argsort(at_place, kind="stable")
        bounds = np.searchsorted(at_place[order], np.arange(len(ancestries) + 1))
        for number, ancestry in enumerate(ancestries):
            positions = order[bounds[number] : bounds[number + 1]]
            if len(positions):
                yield positions, ancestry.parents, tuple(parent.scope for parent in ancestry.parents)
