"""One budget of memory for all connections of a broker: when it is exceeded, the largest holder goes first.

A connection holds memory in notifications that it does not read, in answers, in frames that are held because
others are slow, and in frames that it began and does not finish. What waits in the log takes none.
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


class Holder(NamedTuple):
    """A connection that holds so many bytes. `end` ends it, with a reason, and frees them at once."""

    name: str
    size: int
    end: Callable[[str], None]


class Memory:
    """The budget, in bytes, and who holds how much of it."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = self.peak = self.ended = 0
        """What all held when that was looked at last, the most that they did, and how many had to go."""
        self._sources: list[Callable[[], Iterable[Holder]]] = []
        self._grown, self._step = 0, max(1, budget // STEPS)
        self._is_checking = False

    def add(self, source: Callable[[], Iterable[Holder]]) -> None:
        """There are more holders."""
        self._sources.append(source)

    def remove(self, source: Callable[[], Iterable[Holder]]) -> None:
        """These are no holders any longer."""
        self._sources.remove(source)

    @property
    def is_exhausted(self) -> bool:
        """Whether more was held than there may be, when that was looked at last."""
        return self.used > self.budget

    def grow(self, size: int) -> None:
        """So many bytes have come in, or were queued: perhaps they are held."""
        self._grown += size
        if self._grown >= self._step:
            self.check()

    def check(self) -> None:
        """Look who holds how much, and end the largest holders until the rest is within the budget."""
        if self._is_checking:  # ending a connection may queue something for another one
            return
        self._is_checking, self._grown = True, 0
        try:
            holders = [each for source in self._sources for each in source()]
            used = sum(each.size for each in holders)
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
                f"the broker's memory is used up, and this connection held most of it: {holder.size:,} bytes"
            )
            used -= holder.size
            self.ended += 1
        return used
