"""Filters that list numbers, as bits: `x in {3, 5, 8}` is one integer, with a bit for each number of `x`.

Merging-based routing makes a list of its own for every broker and direction, of hundreds of numbers in the end,
and a longer one for every new filter; most of them are never read. As bits, two lists are united or compared in
one step, whatever their length, and a list is built as a filter on demand.

    listing(F) ⊇ listing(G)  iff  F covers G        listing(F) ∪ listing(G)  is that of their perfect merger

Numbers of different attributes have different bits, so this holds for all lists of one numbering. It does so for
numbers that are dense, as they are without a schema: declared to be whole, a list may be a range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Final

from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import Filter
from fairlead.filters.terms import Attribute
from fairlead.model import Multi, Notification
from fairlead.model.values import Kind, Number, kind_of, number_of

__all__ = ["Listing", "Numbering", "checksum", "listed"]

BITS_MAX: Final = 1 << 14
"""So many numbers have a bit: 2 kB for the longest list, and for the shortest at worst."""


def listed(filter: Filter) -> tuple[Attribute, frozenset[int]] | None:
    """The numbers that a filter lists, and of which attribute; None for any other filter."""
    match filter:
        case Constraint(term=Attribute() as term, op=Op.EQ, operand=operand) if type(operand) is int:
            return term, frozenset((operand,))
        case Constraint(term=Attribute() as term, op=Op.IN, operand=Multi() as operand):
            numbers = frozenset(operand)
            if {*map(type, numbers)} == {int}:
                return term, numbers
    return None


def checksum(numbers: Iterable[int]) -> int:
    """A hash of a set of numbers; that of a union of disjoint sets is the `xor` of theirs."""
    return reduce(xor, (hash((number,)) for number in numbers), 0)


class Numbering:
    """The bits of the values of each attribute."""

    def __init__(self) -> None:
        self._bits: dict[tuple[Attribute, Number], int] = {}
        self._numbers: list[int] = []
        self._checksums: list[int] = []

    @property
    def is_full(self) -> bool:
        """Whether there are no bits for other numbers any more."""
        return len(self._numbers) >= BITS_MAX

    def listing(self, term: Attribute, numbers: Iterable[int]) -> Listing | None:
        """These numbers of an attribute; None where there are no bits for all of them."""
        mask = 0
        for number in numbers:
            bit = self._bits.get((term, number))
            if bit is None:
                if self.is_full:
                    return None
                bit = self._bits[term, number] = 1 << len(self._numbers)
                self._numbers.append(number)
                self._checksums.append(checksum((number,)))
            mask |= bit
        return Listing(self, term, mask, self.checksum(mask))

    def bit(self, term: Attribute, notification: Notification) -> int:
        """The bit of the number that a notification has there; 0 where no list has it."""
        value = term.value(notification)
        return self._bits.get((term, number_of(value)), 0) if kind_of(value) is Kind.NUMBER else 0

    def numbers(self, mask: int) -> Iterator[int]:
        """The values of the bits."""
        return (self._numbers[place] for place in _bit_numbers(mask))

    def checksum(self, mask: int) -> int:
        """The checksum of the values of the bits."""
        return reduce(xor, map(self._checksums.__getitem__, _bit_numbers(mask)), 0)


def _bit_numbers(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


@dataclass(frozen=True, slots=True)
class Listing:
    """A set of numbers of one attribute."""

    numbering: Numbering
    term: Attribute
    mask: int
    checksum: int

    def united(self, other: Listing) -> Listing:
        """The union with another of the same numbering and attribute."""
        here, there = self.mask & ~other.mask, other.mask & ~self.mask
        # Most often one has the other's numbers and one more: compare the difference, not all.
        base, more = (self, there) if there.bit_count() <= here.bit_count() else (other, here)
        summed = base.checksum ^ self.numbering.checksum(more)
        return Listing(self.numbering, self.term, self.mask | other.mask, summed)

    def spelled(self) -> Filter:
        """The filter that lists them."""
        # They are values of filters already.
        return Constraint(self.term, Op.IN, Multi._of_simple(self.numbering.numbers(self.mask)))
