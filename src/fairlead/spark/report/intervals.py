"""The intervals of a report's distributions, and the sorts of reasons for rejections."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["DELAYS", "MATCHES", "PARTICULAR", "filled", "sort_of_reason"]

MATCHES: Final = (0, *(digit * 10**power for power in range(12) for digit in (1, 2, 5)))
"""The beginnings of the histogram's intervals: never, once, 2 to 4, 5 to 9, 10 to 19, …"""
_SECOND: Final = 1_000_000
DELAYS: Final = tuple(
    seconds * _SECOND for seconds in (0, 1, 2, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400, 604_800)
)
"""The beginnings of the intervals of lateness, in microseconds."""

# Two rejections are of one sort where they differ only in what they quote and in numbers.
PARTICULAR: Final = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[0-9][0-9.,]*"""


def sort_of_reason(reason: str) -> str:
    """A reason without what it quotes, and without numbers."""
    return re.sub(PARTICULAR, "…", reason)


def filled(sizes: Mapping[int, int], starts: Sequence[int]) -> tuple[tuple[int, int | None, int], ...]:
    """The intervals from the first to the last that hold anything, empty ones between them included."""
    if not sizes:
        return ()
    ends = [*(start - 1 for start in starts[1:]), None]
    return tuple((starts[each], ends[each], sizes.get(each, 0)) for each in range(min(sizes), max(sizes) + 1))
