"""The interface of every matching engine: given a notification, the ids of the filters that it matches.

    n matches F    iff    match(n) contains the id that F was added under

Engines differ in how they find out, never in what they answer: each is compared with `brute`, which asks
every filter. Answers come in the order in which the filters were added.

Forwarding asks less: not which filters match, only where the notification has to go. So a filter can be added
with a destination, and `match_destinations` is done with a destination at its first match (book 3.2):

    d is in match_destinations(n)    iff    n matches some filter that was added with the destination d
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from fairlead.errors import EngineUnknown
from fairlead.filters.filter import Filter
from fairlead.model import Notification

__all__ = ["Engine", "EngineUnknown", "Id", "Statistics"]

Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The size of an engine, and its work since it was made."""

    engine: str
    filters: int
    notifications: int
    tests: int
    """The number of filters or constraints that were put to a test; the fewer, the better the engine."""
    matches: int


class Engine(Protocol[Id]):
    """A set of filters under distinct ids, and the question which of them a notification matches."""

    def add(self, id: Id, filter: Filter, destination: Hashable = None) -> None:
        """Take in a filter, and where its matches go if that is known; an id that is taken is a ValueError."""
        ...

    def add_many(self, subscriptions: Iterable[tuple[Id, Filter] | tuple[Id, Filter, Any]]) -> None:
        """Take in many filters, each with its id and, if it has one, its destination."""
        ...

    def remove(self, id: Id) -> None:
        """Forget a filter; an id that is not there is a KeyError."""
        ...

    def match(self, notification: Notification) -> list[Id]:
        """The ids of all filters that the notification matches, in the order in which they were added."""
        ...

    def match_batch(self, notifications: Iterable[Notification]) -> list[list[Id]]:
        """`match` of each notification, in order."""
        ...

    def match_destinations(self, notification: Notification) -> list[Hashable]:
        """The destinations of the filters that the notification matches, each once, in any order."""
        ...

    def statistics(self) -> Statistics:
        """The size and the counters of the engine."""
        ...
