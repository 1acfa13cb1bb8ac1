"""An interest: a filter and, where the algorithm needs it, its owner."""

from __future__ import annotations

from typing import Any, Final

from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import EVERYTHING, Filter
from fairlead.routing.listing import Listing, checksum, listed

__all__ = ["ANYTHING", "Interest"]


class Interest:
    """A filter as brokers exchange it. Equal interests have equal filters and owners.

    Simple routing distinguishes filters by an id (book 4.5.2): the same filter of two clients is two interests,
    with two owners. Algorithms that compare filters by their extension forward them without an owner.
    """

    __slots__ = ("_filter", "_hash", "_noted", "listing", "owner")

    owner: Final[str]
    listing: Final[Listing | None]
    """The numbers that it lists, if it was made of them: then its filter is built on demand."""

    def __init__(self, filter: Filter, owner: str = "") -> None:
        self._filter: Filter | None = filter
        self.listing = None
        self.owner = owner
        # Tables are dictionaries of interests, and hashing a filter walks all of it.
        self._hash = hash((_signature(filter), owner))
        # A cache of the catalogue that holds it, read all the time.
        self._noted: Any = None

    @classmethod
    def of(cls, listing: Listing) -> Interest:
        """Nobody's interest in the numbers of a list."""
        made = cls.__new__(cls)
        made._filter = None
        made.listing = listing  # type: ignore[misc]
        made.owner = ""  # type: ignore[misc]
        made._hash = hash(((listing.term, listing.checksum), ""))
        made._noted = None
        return made

    @property
    def filter(self) -> Filter:
        """The filter."""
        if self._filter is None:
            assert self.listing is not None
            self._filter = self.listing.spelled()
        return self._filter

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Interest):
            return NotImplemented
        if self._hash != other._hash or self.owner != other.owner:
            return False
        mine, theirs = self.listing, other.listing
        if mine is not None and theirs is not None and mine.numbering is theirs.numbering:
            return mine.mask == theirs.mask
        return self.filter == other.filter

    def __repr__(self) -> str:
        return f"Interest({self})"

    def __str__(self) -> str:
        return f"{self.filter} of {self.owner}" if self.owner else str(self.filter)


def _signature(filter: Filter) -> object:
    """The hashed value: of a list, without building its filter."""
    if isinstance(filter, Constraint) and filter.op is Op.IN:
        found = listed(filter)
        if found is not None:
            term, numbers = found
            return term, checksum(numbers)
    return filter


ANYTHING: Final = Interest(EVERYTHING)
"""The interest that flooding starts with, for every neighbour (book 4.5.1)."""
