"""The common base of the classical engines: `conjunctive`, `diagram`, `poset` and what builds on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias

from fairlead.filters.filter import Filter
from fairlead.matching.engine import Id, Statistics
from fairlead.model import Notification

__all__ = ["EngineBase", "Wanted"]

Wanted: TypeAlias = Callable[[int], bool]
"""Whether the answer for the filter of this number is still of interest."""


class _Held(NamedTuple, Generic[Id]):
    id: Id
    filter: Filter
    destination: Hashable


class EngineBase(ABC, Generic[Id]):
    """The common base of the classical engines: ids, destinations, the order of answers, the statistics.

    Filters are numbered as they come. What an engine adds is how it files a number and finds it again:

        n matches F    iff    _find(n, wanted) yields the number of F, as long as that number is wanted

    A number is wanted until it is found, or until its destination is. The answer of `wanted` changes with
    every number that is yielded, so an engine asks right before it takes trouble over a filter.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self._numbers: dict[Id, int] = {}
        self._held: dict[int, _Held[Id]] = {}
        self._destinations: Counter[Hashable] = Counter()
        self._next = 0
        self._notifications = self._tests = self._matches = 0

    def __len__(self) -> int:
        return len(self._held)

    def add(self, id: Id, filter: Filter, destination: Hashable = None) -> None:
        """Take in a filter, and where its matches go if that is known; an id that is taken is a ValueError."""
        if id in self._numbers:
            raise ValueError(f"the id {id!r} is taken")
        number = self._next
        self._file(number, filter)
        self._next += 1
        self._numbers[id] = number
        self._held[number] = _Held(id, filter, destination)
        if destination is not None:
            self._destinations[destination] += 1

    def add_many(self, subscriptions: Iterable[tuple[Id, Filter] | tuple[Id, Filter, Any]]) -> None:
        """Take in many filters, each with its id and, if it has one, its destination."""
        for subscription in subscriptions:
            self.add(*subscription)

    def remove(self, id: Id) -> None:
        """Forget a filter; an id that is not there is a KeyError."""
        number = self._numbers.pop(id)
        held = self._held.pop(number)
        self._unfile(number, held.filter)
        if held.destination is not None:
            self._destinations[held.destination] -= 1
            if not self._destinations[held.destination]:
                del self._destinations[held.destination]

    def match(self, notification: Notification) -> list[Id]:
        """The ids of all filters that the notification matches, in the order in which they were added."""
        found: set[int] = set()
        for number in self._find(notification, lambda number: number not in found):
            found.add(number)
        self._notifications += 1
        self._matches += len(found)
        return [self._held[number].id for number in sorted(found)]

    def match_batch(self, notifications: Iterable[Notification]) -> list[list[Id]]:
        """`match` of each notification, in order."""
        return [self.match(notification) for notification in notifications]

    def match_destinations(self, notification: Notification) -> list[Hashable]:
        """The destinations of the filters that the notification matches, each once, in any order."""
        found: dict[Hashable, None] = {None: None}  # who gave no destination is not asked

        def wanted(number: int) -> bool:
            return self._held[number].destination not in found

        if self._destinations:
            for number in self._find(notification, wanted):
                found[self._held[number].destination] = None
                if len(found) > len(self._destinations):
                    break
        del found[None]
        self._notifications += 1
        self._matches += len(found)
        return list(found)

    def statistics(self) -> Statistics:
        """The size and the counters of the engine."""
        return Statistics(self.name, len(self), self._notifications, self._tests, self._matches)

    @abstractmethod
    def _file(self, number: int, filter: Filter) -> None:
        """Take in a filter under a new number."""

    @abstractmethod
    def _unfile(self, number: int, filter: Filter) -> None:
        """Forget the filter of a number."""

    @abstractmethod
    def _find(self, notification: Notification, wanted: Wanted) -> Iterator[int]:
        """The numbers of the filters that match, as they are found."""

    def _tested(self, filter: Filter, notification: Notification) -> bool:
        """Ask the filter itself, and count that."""
        self._tests += 1
        return bool(filter.matches(notification))
