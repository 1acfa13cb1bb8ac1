"""What a routing table is about: a filter, and where it matters, whose."""

from __future__ import annotations

from typing import Any, Final

from fairlead.filters.filter import EVERYTHING, Filter

__all__ = ["ANYTHING", "Interest"]


class Interest:
    """A filter under way between brokers. Equal interests have equal filters and owners.

    Simple routing tells filters apart by an id (book 4.5.2): two clients that ask the same are two interests,
    with two owners. The algorithms that compare filters by what they match forward them without an owner.
    """

    __slots__ = ("_hash", "_noted", "filter", "owner")

    filter: Final[Filter]
    owner: Final[str]

    def __init__(self, filter: Filter, owner: str = "") -> None:
        self.filter = filter
        self.owner = owner
        # Tables are dictionaries of interests, and hashing a filter walks all of it.
        self._hash = hash((filter, owner))
        # What the catalogue that holds it knows of it: it is asked for all the time.
        self._noted: Any = None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Interest):
            return NotImplemented
        return self._hash == other._hash and self.owner == other.owner and self.filter == other.filter

    def __repr__(self) -> str:
        return f"Interest({self})"

    def __str__(self) -> str:
        return f"{self.filter} of {self.owner}" if self.owner else str(self.filter)


ANYTHING: Final = Interest(EVERYTHING)
"""What flooding starts with, for every neighbour (book 4.5.1)."""
