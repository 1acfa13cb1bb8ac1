"""The protocol of both correlation engines: queries over one stream of occurrences, in event time.

    kernel.add(id, query, since)    evaluate a query on the occurrences from a time on
    kernel.feed(occurrence)         buffer an occurrence, in any order
    kernel.advance(bound)           the composites that end before a time: [Detected(composite, ids), …]
    kernel.snapshot()               the state as JSON; a kernel with the same queries continues from it (`resume`)

Two engines implement it: `patterns.Detector` for patterns, and `relating.RelationDetector` for fair subscriptions.
Spark drives them directly; the bus, detection over the network and runs over files do so through
`queries.QuerySet`, which joins both.

Law: the composites up to a bound depend on the queries and on the occurrences before it, not on the order in which
these were fed, nor on how often `advance` was called.

Law: a kernel that resumes from a snapshot detects what the other one would have detected.

Law: an occurrence that ends before the bound is late. It is counted and changes nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from fairlead.correlation.occurrences import Occurrence
from fairlead.filters import Filter
from fairlead.model import Notification
from fairlead.model.order import BEGINNING

__all__ = ["CompositeEvent", "Detected", "Engine", "Kernel"]


class Engine(Protocol):
    """The matching engine behind a kernel: it finds the filters, by number, that a notification matches."""

    def add(self, id: int, filter: Filter, /) -> None:
        """Register a filter under a new number."""

    def remove(self, id: int, /) -> None:
        """Remove a filter."""

    def match(self, notification: Notification, /) -> list[int]:
        """The numbers of the filters that match."""

    def match_batch(self, notifications: Iterable[Notification], /) -> list[list[int]]:
        """`match` of each."""


class CompositeEvent(Protocol):
    """The result of a kernel: a composite of a pattern, or a relation of a fair subscription."""

    @property
    def start(self) -> int:
        """The least start of its constituents."""

    @property
    def end(self) -> int:
        """The time at which it was complete."""

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """The order of composites: end, start, pattern or conjunction, id."""

    @property
    def is_public(self) -> bool:
        """Whether it has a name, so that it is published and other queries may refer to it."""

    def notification(self) -> Notification:
        """The composite as a notification."""

    def occurrence(self) -> Occurrence:
        """The composite as an occurrence, for queries over composites."""


Query = TypeVar("Query")
Event_co = TypeVar("Event_co", bound=CompositeEvent, covariant=True)


@dataclass(frozen=True, slots=True)
class Detected(Generic[Event_co]):
    """A composite event, and the sorted ids of the queries that it was detected for."""

    composite: Event_co
    ids: tuple[str, ...]


class Kernel(ABC, Generic[Query, Event_co]):
    """Queries under distinct ids over one stream of occurrences. Not for several threads at once."""

    def __init__(self) -> None:
        self._bound = BEGINNING
        self._buffered: list[Occurrence] = []
        self.late = 0
        """The number of occurrences that were fed too late, and left out."""

    @property
    def bound(self) -> int:
        """The time before which everything has been detected."""
        return self._bound

    @property
    def buffered(self) -> int:
        """The number of occurrences that are buffered until time has passed them."""
        return len(self._buffered)

    @property
    def given_up(self) -> int:
        """The number of searches that were cut off at the engine's limit, so that composites may be missing."""
        return 0

    @abstractmethod
    def add(self, id: str, query: Query, since: int = BEGINNING) -> None:
        """Evaluate a query on the occurrences from a time on; an id that is in use is a ValueError."""

    @abstractmethod
    def remove(self, id: str) -> object:
        """Stop evaluating a query; an unknown id is a KeyError."""

    def feed(self, occurrence: Occurrence) -> None:
        """Buffer an occurrence until time has passed it; one that is late is counted."""
        if occurrence.end < self._bound:
            self.late += 1
        else:
            self._buffered.append(occurrence)

    def advance(self, bound: int) -> list[Detected[Event_co]]:
        """The composites that end before a time, in order; no occurrence that ends before it is fed later."""
        ready = [each for each in self._buffered if each.end < bound]
        if ready:
            self._buffered = [each for each in self._buffered if each.end >= bound]
        self._bound = max(self._bound, bound)
        return self._detect(ready, bound)

    @abstractmethod
    def _detect(self, ready: list[Occurrence], bound: int) -> list[Detected[Event_co]]:
        """The composites that end before a time; these occurrences, in any order, come next."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """The state as JSON, from which a kernel with the same queries resumes."""

    @abstractmethod
    def resume(self, state: Mapping[str, Any]) -> None:
        """Continue from another kernel's snapshot; what it has of queries that are unknown here is dropped."""

    def clear(self) -> None:
        """Drop the state; the queries stay, as compiled as they are."""
        self._buffered.clear()
        self._bound = BEGINNING
