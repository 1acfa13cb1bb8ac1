"""One budget of memory for all connections of a broker: when it is exceeded, the largest holder goes first.

A connection holds memory in notifications that it does not read, in answers, in frames that are held because
others are slow, in frames that it began and does not finish, and in the filters of its subscriptions and
advertisements. What waits in the log takes none.

The filters of durable subscribers outlast connections, so no connection can be ended for them: they take at most
half of the budget, and a subscription beyond that is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

__all__ = ["Holder", "Memory"]

log: Final = logging.getLogger(__name__)

STEPS: Final = 16
"""So many times while as much as the budget comes in or is queued, it is looked who holds how much."""
RELIEF: Final = 0.9
"""Once the budget is exceeded, this share of it is what is left."""
LASTING: Final = 0.5
"""The share of the budget that filters of durable subscribers may take."""


class Holder(NamedTuple):
    """A connection that holds so many bytes. `end` ends it, with a reason, and frees them at once."""

    name: str
    size: int
    end: Callable[[str], None]


class Memory:
    """The budget of memory, in bytes, and the use of each connection."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = self.peak = self.ended = 0
        """The memory that all held at the last look, the most that they did, and the number of those that had
        to go."""
        self._lasting: dict[tuple[str, str], int] = {}
        self.lasting = 0
        """The part of it that the filters of durable subscribers take."""
        self._sources: list[Callable[[], Iterable[Holder]]] = []
        self._grown, self._step = 0, max(1, budget // STEPS)
        self._is_checking = False

    def add(self, source: Callable[[], Iterable[Holder]]) -> None:
        """There are more holders."""
        self._sources.append(source)

    def remove(self, source: Callable[[], Iterable[Holder]]) -> None:
        """These are no holders any longer."""
        self._sources.remove(source)

    def may_last(self, size: int) -> bool:
        """Whether there is room for another filter of a durable subscriber."""
        return self.lasting + size <= LASTING * self.budget

    def hold_lasting(self, durable: str, id: str, size: int) -> None:
        """A filter of a durable subscriber takes so many bytes from now on."""
        self.release_lasting(durable, id)
        self._lasting[durable, id] = size
        self.lasting += size
        self.grow(size)

    def release_lasting(self, durable: str, id: str) -> None:
        """The filter is gone, if it was there."""
        self.lasting -= self._lasting.pop((durable, id), 0)

    @property
    def is_exhausted(self) -> bool:
        """Whether the use was above the budget at the last check."""
        return self.used > self.budget

    def grow(self, size: int) -> None:
        """Count bytes that have been received or queued."""
        self._grown += size
        if self._grown >= self._step:
            self.check()

    def check(self) -> None:
        """Measure the use of all connections, and end the largest until the rest is within the budget."""
        if self._is_checking:  # ending a connection may queue something for another one
            return
        self._is_checking, self._grown = True, 0
        try:
            holders = [each for source in self._sources for each in source()]
            used = self.lasting + sum(each.size for each in holders)
            self.peak = max(self.peak, used)
            if used > self.budget:
                used = self._relieve(holders, used)
            self.used = used
        finally:
            self._is_checking = False

    def _relieve(self, holders: list[Holder], used: int) -> int:
        for holder in sorted(holders, key=lambda each: each.size, reverse=True):
            if used <= RELIEF * self.budget:
                break
            log.warning(
                "%s holds %s of %s bytes that all connections hold, more than [limits] memory_bytes: it is ended",
                *(holder.name, f"{holder.size:,}", f"{used:,}"),
            )
            holder.end(
                f"the broker's memory is used up, and this connection used most of it: {holder.size:,} bytes"
            )
            used -= holder.size
            self.ended += 1
        return used
