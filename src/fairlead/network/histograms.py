"""Histograms of durations: counts of observations up to each bound, as Prometheus has them."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Final

__all__ = ["SECONDS", "Histogram"]

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds for durations, in seconds."""


class Histogram:
    """Observations by size. Bounds rise; an observation that equals a bound is counted below it."""

    def __init__(self, bounds: tuple[float, ...] = SECONDS) -> None:
        self.bounds = bounds
        self.sum = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one observation."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """The number of observations."""
        return sum(self._counts)

    @property
    def cumulative(self) -> list[tuple[float, int]]:
        """For each bound, how many were at most that."""
        return list(zip(self.bounds, accumulate(self._counts), strict=False))
