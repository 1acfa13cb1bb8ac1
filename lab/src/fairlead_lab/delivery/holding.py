"""The specification of channels that hold publications, as a program over what happened.

It knows when each publication was acknowledged, until when its channel holds it, when the broker's process was
killed, and what came when. It searches all of that anew for each publication.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Came", "Published", "violations"]


class Published(NamedTuple):
    """A publication was acknowledged, or perhaps not, and is held until an instant."""

    id: str
    until: int
    is_safe: bool


class Came(NamedTuple):
    """A publication came to a subscriber that is always there."""

    id: str
    at: int


def violations(published: Iterable[Published], came: Iterable[Came], now: int) -> list[str]:
    """The violations, where a broker that runs looks at least once behind each instant, and time is `now`."""
    deliveries, found = [*came], []
    for each in published:
        times = [one.at for one in deliveries if one.id == each.id]
        if len(times) > 1:
            found.append(f"{each.id} was published {len(times)} times")
        if times and times[0] < each.until:
            found.append(f"{each.id} was published at {times[0]}, and is held until {each.until}")
        if each.is_safe and not times and each.until <= now:
            found.append(f"{each.id} was acknowledged, and not published")
    return found
