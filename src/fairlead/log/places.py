"""Places tell where in a segment some of its records stand, so that a search starts near what it looks for.

They are a sparse index, made on the fly: whoever walks along a segment notes a place now and then. Only synced
records are sure to stay, so places are looked up below the mark alone.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

__all__ = ["Place", "Places"]

SPACING = 1 << 16
"""How many bytes lie between two places, at least."""


class Place(NamedTuple):
    """A record's offset and position in its segment, and the latest time of those before it there."""

    offset: int
    position: int
    latest: int


class Places:
    """The places of a log that are known; any number of readers may share them, and the log's writer."""

    __slots__ = ("_by_base",)

    def __init__(self) -> None:
        self._by_base: dict[int, list[Place]] = {}

    def note(self, base: int, place: Place) -> None:
        """Remember a place in the segment that begins with `base`, if it lies beyond those known."""
        known = self._by_base.setdefault(base, [])
        if not known or place.position >= known[-1].position + SPACING:
            known.append(place)

    def before(self, base: int, stop: int, since: int) -> Place | None:
        """The last place known not beyond the record `stop`, nor beyond one at or after the time `since`."""
        known = self._by_base.get(base, ())
        found = min(
            bisect_right(known, stop, key=lambda place: place.offset),
            # `latest` never falls along a segment, so those usable come first
            bisect_right(known, since - 1, key=lambda place: place.latest),
        )
        return known[found - 1] if found else None

    def forget(self, base: int) -> None:
        """The segment that begins with `base` is gone."""
        self._by_base.pop(base, None)
