"""What every matching engine does: given a notification, say whose filters it matches.

    n matches F    iff    match(n) contains the id that F was added under

Engines differ in how they find out, never in what they answer: each is compared with `brute`, which asks
every filter. Answers come in the order in which the filters were added.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from fairlead.errors import FairleadError
from fairlead.filters.filter import Filter
from fairlead.model import Notification

__all__ = ["Engine", "EngineUnknown", "Id", "Statistics"]

Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What an engine holds, and the work it has done since it was made."""

    engine: str
    filters: int
    notifications: int
    tests: int
    """How many filters or constraints were put to a test; the fewer, the better the engine."""
    matches: int


class Engine(Protocol[Id]):
    """A set of filters under distinct ids, and the question which of them a notification matches."""

    def add(self, id: Id, filter: Filter) -> None:
        """Take in a filter; an id that is taken is a ValueError."""
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

    def statistics(self) -> Statistics:
        """What the engine holds and has done."""
        ...


class EngineUnknown(FairleadError, LookupError):
    """An engine was asked for by a name that none has."""

    @classmethod
    def named(cls, name: str, known: Iterable[str]) -> EngineUnknown:
        return cls(f"no matching engine is named {name!r}", hint=f"there is {', '.join(sorted(known))}")
