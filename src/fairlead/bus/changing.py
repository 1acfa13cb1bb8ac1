"""Changes of filters on an ordered bus, each at its place in the one order.

The law: a notification is for the filter whose place is the last one that is not behind the notification's key.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from fairlead.bus.handles import Subscription
from fairlead.filters.filter import Filter

__all__ = ["Changing"]


class _Change(NamedTuple):
    at: int
    number: int
    subscription: Subscription
    filter: Filter


class Changing:
    """The changes that the watermark has not reached. Whoever uses it holds the bus's lock."""

    __slots__ = ("_number", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[_Change] = []
        self._number = 0

    def add(self, subscription: Subscription, filter: Filter, at: int) -> None:
        """A subscription has another filter from an order time on; of two with one time, the later call's."""
        self._number += 1
        heappush(self._waiting, _Change(at, self._number, subscription, filter))

    def due(self, time: int) -> list[tuple[Subscription, Filter, int]]:
        """The changes whose place is at an order time or before, in their order, each with its place."""
        due = []
        while self._waiting and self._waiting[0].at <= time:
            change = heappop(self._waiting)
            if change.subscription.active:
                due.append((change.subscription, change.filter, change.at))
        return due
