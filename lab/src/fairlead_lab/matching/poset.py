"""The covering order: a filter that does not match spares all filters below it (SIENA).

    F covers G, and n does not match F    so    n does not match G

The filters stand in the order of covering, identical ones together. A notification enters at the roots and goes
on downwards; a filter is asked only if all filters right above it match.

    price > 10                        ✗ {price: 5, symbol: "IBM"}
      price > 20                        not asked
        price > 20 and symbol = "IBM"   not asked
    symbol prefix "I"                 ✓
      symbol = "IBM"                  ✓

Adding a filter costs tests of covering, which the other engines do not make: an engine for brokers that keep the
order anyway. It holds the filters' `Poset` as `poset`, so that others can use it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.filters.filter import Filter
from fairlead.filters.poset import Poset
from fairlead.matching.engine import Id
from fairlead.model import Notification
from fairlead_lab.matching.base import EngineBase, Wanted

__all__ = ["Traversal"]


class Traversal(EngineBase[Id]):
    """Goes down the covering order, as far as filters match."""

    name = "poset"

    def __init__(self) -> None:
        super().__init__()
        self.poset: Poset[int] = Poset()
        self._roots: list[int] | None = None

    def _file(self, number: int, filter: Filter) -> None:
        self.poset.add(number, filter)
        self._roots = None

    def _unfile(self, number: int, filter: Filter) -> None:
        self.poset.remove(number)
        self._roots = None

    def _find(self, notification: Notification, wanted: Wanted) -> Iterator[int]:
        if self._roots is None:
            self._roots = self._distinct(self.poset.roots())
        stack = list(self._roots)
        unmet: dict[int, int] = {}
        """The number of the filters right above that have not matched so far."""
        while stack:
            first = stack.pop()
            if not self._tested(self.poset[first], notification):
                continue
            yield from (number for number in self.poset.equals(first) if wanted(number))
            for below in self._distinct(self.poset.children(first)):
                if below not in unmet:
                    unmet[below] = len(self._distinct(self.poset.parents(below)))
                unmet[below] -= 1
                if not unmet[below]:
                    stack.append(below)

    def _distinct(self, numbers: list[int]) -> list[int]:
        """One number for each set of identical filters."""
        return [number for number in numbers if number == self.poset.equals(number)[0]]

    def show(self) -> str:
        """The order as indented text."""
        return self.poset.show()
