"""The specification of deadlines, as a program over what came when. It looks at each key, at each time, anew."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

__all__ = ["missed"]


def missed(came: Iterable[tuple[Hashable, int]], deadline: int, now: int) -> list[tuple[Hashable, int]]:
    """The keys that something was expected of until `now`, each with when something had come before."""
    events = [*came]
    found = []
    for key in {key for key, _ in events}:
        times = sorted(at for other, at in events if other == key)
        ends = [*times[1:], now]
        found += [
            (key, time)
            for time, end in zip(times, ends, strict=True)
            if end > time + deadline or (end == now and end >= time + deadline and time == times[-1])
        ]
    return found
