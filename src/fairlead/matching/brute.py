"""Brute force: n matches F iff F accepts it. Every filter is evaluated, every time.

The oracle that all other engines are compared with, and the quickest of them for a handful of filters.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Generic

from fairlead.filters.filter import Filter
from fairlead.matching.engine import Id, Statistics
from fairlead.model import Notification

__all__ = ["Brute"]


class Brute(Generic[Id]):
    """Evaluate every filter on every notification."""

    __slots__ = ("_destinations", "_filters", "_matches", "_notifications", "_tests")

    def __init__(self) -> None:
        self._filters: dict[Id, Filter] = {}
        self._destinations: dict[Id, Hashable] = {}
        self._notifications = self._tests = self._matches = 0

    def add(self, id: Id, filter: Filter, destination: Hashable = None) -> None:
        if id in self._filters:
            raise ValueError(f"the id {id!r} is taken")
        self._filters[id] = filter
        if destination is not None:
            self._destinations[id] = destination

    def add_many(self, subscriptions: Iterable[tuple[Id, Filter] | tuple[Id, Filter, Any]]) -> None:
        for subscription in subscriptions:
            self.add(*subscription)

    def remove(self, id: Id) -> None:
        del self._filters[id]
        self._destinations.pop(id, None)

    def match(self, notification: Notification) -> list[Id]:
        matching = [id for id, filter in self._filters.items() if filter.matches(notification)]
        self._notifications += 1
        self._tests += len(self._filters)
        self._matches += len(matching)
        return matching

    def match_batch(self, notifications: Iterable[Notification]) -> list[list[Id]]:
        return [self.match(notification) for notification in notifications]

    def match_destinations(self, notification: Notification) -> list[Hashable]:
        found: dict[Hashable, None] = {}
        for id, destination in self._destinations.items():
            if destination not in found:
                self._tests += 1
                if self._filters[id].matches(notification):
                    found[destination] = None
        self._notifications += 1
        self._matches += len(found)
        return list(found)

    def statistics(self) -> Statistics:
        return Statistics("brute", len(self._filters), self._notifications, self._tests, self._matches)
