"""The interpreter of a broker's process: when it looks for cycles, and how long its threads run.

A broker holds many filters that stay, and makes many notifications that go. An interpreter that looks through all
of them for cycles stops the event loop meanwhile: for a second, with 10,000 filters. Few things in a broker are
cycles; all others are freed with their last reference, whether or not the interpreter looks for cycles among them.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

__all__ = ["Settled", "prepare"]

THRESHOLDS: Final = (50_000, 20, 100)
"""By default Python looks for cycles so often that it takes a fifth of a broker's time."""
SWITCH_S: Final = 0.0005
"""The time a thread runs before the event loop, which waits for the interpreter, gets it: with Python's 5 ms
a notification waits as long, for as long as a thread writes identities or makes arrays of filters."""
SETTLED_MIN: Final = 1_000
SETTLED_GROWTH: Final = 1.25
"""So many filters more, or so many times those of the last time, are worth to be left alone."""


def prepare() -> None:
    """Prepare the interpreter for a process that is a broker, and nothing else."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    sys.setswitchinterval(SWITCH_S)


class Settled:
    """The filters among which the interpreter looks for no cycles any more."""

    def __init__(self) -> None:
        self._filters = 0

    def look_at(self, filters: int) -> None:
        """There are so many filters now. Where they are many more than at the last time, all that is in memory is
        left alone from now on; cycles that are garbage at that moment stay, so such moments have to be few."""
        if filters > SETTLED_MIN + SETTLED_GROWTH * self._filters:
            self._filters = filters
            gc.freeze()
