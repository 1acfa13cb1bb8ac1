"""Notifications that channels hold until an instant, on a bus: then they are published.

The bus looks when something is published, and when it is told that time passes.
"""

from __future__ import annotations

import heapq

from fairlead.model import Notification

__all__ = ["Holding"]


class Holding:
    """The notifications that are held. Whoever uses it holds the bus's lock."""

    __slots__ = ("_due", "_number")

    def __init__(self) -> None:
        self._due: list[tuple[int, int, Notification]] = []
        self._number = 0

    def hold(self, notification: Notification, until: int) -> None:
        """Hold a notification until an instant, in microseconds."""
        self._number += 1
        heapq.heappush(self._due, (until, self._number, notification))

    def take_due(self, now: int) -> list[Notification]:
        """The notifications whose instant has come, by instants; of one instant, as they were published."""
        found: list[Notification] = []
        while self._due and self._due[0][0] <= now:
            found.append(heapq.heappop(self._due)[2])
        return found

    def __len__(self) -> int:
        return len(self._due)
