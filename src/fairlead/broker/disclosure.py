"""The part of the filters that a neighbour is told which may not know everything (`Seam.disclose`; book 8.1.4).

    told to H = prune { disclose(H, F) : F in T\\H }

It is a function of the table, and what is sent to H is the difference to what H was told before. To narrow each
message of the routing algorithm instead would lose notifications: of two filters H may be allowed to know the same
part, or the part of one may cover that of the other, and the algorithm, which compares the filters, takes the
part back when the first of them ends.

Where there are several ways between brokers, a filter goes whole or not at all: its tree grows over the brokers
that may know all of it, around the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from fairlead.filters.filter import NOTHING
from fairlead.routing import Catalogue, Interest, RoutingTable, Strategy
from fairlead.rules import Seam

__all__ = ["Disclosure"]

PARTS_MAX: Final = 100_000
"""The number of parts of interests remembered for a neighbour."""
_Change: TypeAlias = tuple[tuple[Interest, ...], tuple[Interest, ...]]


class Disclosure:
    """The neighbours that may not know everything, and what they were told."""

    def __init__(self, seam: Seam, catalogue: Catalogue, *, is_whole: bool) -> None:
        self._seam, self._catalogue, self._is_whole = seam, catalogue, is_whole
        self._parts: dict[str, dict[Interest, Interest | None]] = {}
        """By neighbour that may not know everything, the parts of interests that it may know."""
        self._disclosed: dict[tuple[str, bool], dict[Interest, None]] = {}
        """By neighbour, and whether of advertisements."""

    @property
    def limited(self) -> Iterable[str]:
        """The neighbours that may not know everything."""
        return self._parts

    def add(self, neighbour: str) -> None:
        """A broker is a neighbour from now on."""
        if not self._seam.discloses_all(neighbour):
            self._parts[neighbour] = {}

    def forget(self, neighbour: str) -> None:
        """It is none any longer, or is to be told everything once more."""
        self._parts.pop(neighbour, None)
        for advertisements in (False, True):
            self._disclosed.pop((neighbour, advertisements), None)

    def parts(
        self, strategy: Strategy, table: RoutingTable, interests: Iterable[Interest], neighbour: str
    ) -> list[Interest]:
        """Of interests, the parts that a neighbour may know, without those that others cover."""
        if neighbour not in self._parts:
            return strategy.prune(table, interests)
        parts = (self._part(each, neighbour) for each in interests)
        return strategy.prune(table, dict.fromkeys(each for each in parts if each is not None))

    def disclosed(self, neighbour: str, *, advertisements: bool) -> dict[Interest, None]:
        """The interests that a limited neighbour was told of, and that were not taken back."""
        return self._disclosed.get((neighbour, advertisements), {})

    def tell(self, neighbour: str, wanted: Iterable[Interest], *, advertisements: bool) -> _Change:
        """The interests to add and to take back, so that a limited neighbour knows the wanted ones."""
        before, after = self.disclosed(neighbour, advertisements=advertisements), dict.fromkeys(wanted)
        self._disclosed[neighbour, advertisements] = after
        return (
            tuple(each for each in after if each not in before),
            tuple(each for each in before if each not in after),
        )

    def may_know(self, neighbour: str, interests: Iterable[Interest]) -> tuple[Interest, ...]:
        """Of interests, those of which a neighbour may know everything."""
        if neighbour not in self._parts:
            return tuple(interests)
        return tuple(each for each in interests if self._part(each, neighbour) == each)

    def _part(self, interest: Interest, neighbour: str) -> Interest | None:
        parts = self._parts[neighbour]
        if interest not in parts:
            if len(parts) >= PARTS_MAX:
                parts.clear()
            parts[interest] = self._narrowed(interest, neighbour)
        return parts[interest]

    def _narrowed(self, interest: Interest, neighbour: str) -> Interest | None:
        part = self._seam.disclose(neighbour, interest.filter)
        if part == interest.filter:
            return interest
        if part == NOTHING or self._is_whole:
            return None
        return self._catalogue.interest(part, interest.owner)
