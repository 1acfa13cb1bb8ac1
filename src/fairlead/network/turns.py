"""Turns of the event loop, bounded in time whatever one client requests: the rest waits for the next turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["Turn"]

TURN_S: Final = 0.02
"""The time a broker goes on with what clients ask before it looks after others."""


class Turn:
    """The time that the current turn has taken. The clock gives seconds; one that never advances bounds
    nothing.

    The clock starts with the first question: most turns take publications, for which nobody asks.
    """

    def __init__(self, clock: Callable[[], float], seconds: float = TURN_S) -> None:
        self._clock, self._seconds = clock, seconds
        self._until: float | None = None

    def begin(self) -> None:
        """A turn begins."""
        self._until = None

    @property
    def is_over(self) -> bool:
        """Whether what is left should wait."""
        now = self._clock()
        if self._until is None:
            self._until = now + self._seconds
        return now >= self._until
