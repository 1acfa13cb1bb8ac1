"""A sparse index of segments: the offsets and positions of some records, so that a search starts near its target.

The index is made on the fly: a reader or writer that goes along a segment adds an entry now and then. Only synced
records are sure to stay, so the index is consulted below the mark alone.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

__all__ = ["IndexEntry", "SparseIndex"]

SPACING = 1 << 16
"""The least number of bytes between two entries."""


class IndexEntry(NamedTuple):
    """A record's offset and position in its segment, and the latest time of those before it there."""

    offset: int
    position: int
    latest: int


class SparseIndex:
    """The entries of a log. Any number of readers may share it with the log's writer."""

    __slots__ = ("_by_base",)

    def __init__(self) -> None:
        self._by_base: dict[int, list[IndexEntry]] = {}

    def note(self, base: int, entry: IndexEntry) -> None:
        """Add an entry for the segment that begins with `base`, if it is far enough behind the last one."""
        entries = self._by_base.setdefault(base, [])
        if not entries or entry.position >= entries[-1].position + SPACING:
            entries.append(entry)

    def before(self, base: int, stop: int, since: int) -> IndexEntry | None:
        """The last entry not beyond the record `stop`, nor beyond one at or after the time `since`."""
        entries = self._by_base.get(base, ())
        count = min(
            bisect_right(entries, stop, key=lambda entry: entry.offset),
            # `latest` never falls along a segment, so those usable come first
            bisect_right(entries, since - 1, key=lambda entry: entry.latest),
        )
        return entries[count - 1] if count else None

    def forget(self, base: int) -> None:
        """Drop the entries of the segment that begins with `base`."""
        self._by_base.pop(base, None)
