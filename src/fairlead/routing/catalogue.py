"""All filters of a broker, each once, under a number; and their relations.

    covering(i)      the numbers of the filters that cover filter i, its own included
    covered_by(i)    the numbers of the filters that filter i covers, its own included
    matching(n)      the numbers of the filters that notification n matches

A table evaluates these for its own filters by intersecting sets of numbers. The poset computes the relations once
per filter and keeps them in chains; the matching engine computes the matches once per notification. Brokers in one
process may share a catalogue, and so share that work; a single broker has its own, which drops a filter without
references.

Everything is computed on demand: flooding and simple routing never relate filters. Filters that list numbers,
which merging makes by the hundred thousand, are compared by their bits (see `listing`): they are neither in the
poset nor in the engine, and most of them are never printed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import or_
from typing import Final, Protocol

from fairlead.filters.algebra import Algebra, Normal, algebra_for
from fairlead.filters.filter import Filter, Or
from fairlead.filters.merging import merge
from fairlead.filters.poset import Poset
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Attribute
from fairlead.model import Notification
from fairlead.routing.interest import Interest
from fairlead.routing.listing import Listing, Numbering, listed

__all__ = ["Catalogue", "Matcher"]


class Matcher(Protocol):
    """The interface of a matching engine that a catalogue needs."""

    def add_many(self, subscriptions: Iterable[tuple[int, Filter]], /) -> None: ...
    def remove(self, id: int, /) -> None: ...
    def match(self, notification: Notification, /) -> list[int]: ...


FEW: Final = 48
"""Up to so many filters are compared pairwise: cheaper than inserting them into the poset."""
LISTED: Final = 32
"""So many filters of a row are listed in the time in which the relation of two filters is looked up."""
COMPARED_MAX: Final = 1_000_000
"""The number of comparisons of two filters that are remembered."""
MATCHED_MAX: Final = 256
"""For so many notifications the matches are cached: several brokers match each;"""
MATCHES_MAX: Final = 500_000
"""and so many matches at most, some 20 MB: a notification may match thousands of filters."""
TIDIED_AT_ONCE: Final = 256
RELATIONS_AT_ONCE: Final = 20_000
"""So many are dropped at a time, with so many relations to others: brokers do other things in between."""
IDLE_MAX: Final = 1_000
"""So many filters without references are retained beyond the number of those with: many return soon."""


@dataclass(slots=True)
class _Known:
    """A registered interest: the first of several equal objects, and its references."""

    catalogue: Catalogue
    interest: Interest
    number: int
    era: int
    references: int = 0


class Catalogue:
    """Filters under numbers, with reference counts. `keep` retains all of them."""

    def __init__(self, matcher: Matcher, schema: Schema | None = None, *, keep: bool = False) -> None:
        self._matcher = matcher
        self.schema = schema
        """The schema that the filters were read with."""
        self._algebra: Algebra = algebra_for(schema)
        self._poset: Poset[int] = Poset(schema)
        self._keep = keep
        self._next = 0
        self._era = 0  # in which numbers without references are valid
        self._interests: dict[int, Interest] = {}  # by number, each without an owner
        self._numbers: dict[Interest, int] = {}
        self._known: dict[Interest, _Known] = {}
        self._references: dict[int, int] = {}  # references of each number
        self.idle: dict[int, None] = {}
        """The numbers of filters without references."""
        self._unmatched: dict[int, Interest] = {}
        self._unplaced: dict[int, Interest] = {}
        self._placing: Generator[None, None, None] | None = None
        """The insertion of the first of these, where it was interrupted."""
        self._normals: dict[int, Normal] = {}
        self._numbering = Numbering()
        self._listings: dict[int, Listing] = {}
        self._masks: dict[int, int] = {}  # of these
        self._made: dict[
            int, Attribute
        ] = {}  # the lists that merging has made: notifications are compared here
        self._compared: dict[tuple[int, int], bool] = {}
        self._overlaps: dict[tuple[int, int], bool] = {}
        self._merged: dict[tuple[int, int, float], Interest | None] = {}
        self._has_made_lists = False
        self._matched: dict[int, tuple[Notification, frozenset[int]]] = {}
        self._matches = 0  # in these

    def __len__(self) -> int:
        return len(self._interests)

    # -- adding and removing filters -------------------------------------------------------------------------

    def number(self, interest: Interest) -> int:
        """The number of an interest's filter."""
        known: _Known | None = interest._noted  # first, since this is called a dozen times per message
        if known is not None and known.catalogue is self and (known.references or known.era == self._era):
            return known.number
        known = self._known.get(interest)
        if known is not None:
            return known.number
        nobodys = interest if not interest.owner else Interest(interest.filter)
        number = self._numbers.get(nobodys)
        if number is None:
            number = self._next
            self._next += 1
            self._numbers[nobodys] = number
            self._interests[number] = self._unmatched[number] = self._unplaced[number] = nobodys
            self.idle[number] = None
            self._list(number, nobodys)
        if interest._noted is None:
            interest._noted = _Known(self, interest, number, self._era)
        return number

    def _list(self, number: int, interest: Interest) -> None:
        """Note the numbers that an interest lists, if it does."""
        listing = interest.listing
        if self.schema is not None:
            return
        if listing is None or listing.numbering is not self._numbering:
            found = listed(interest.filter)
            listing = None if found is None else self._numbering.listing(*found)
        if listing is not None:
            self._listings[number] = listing
            self._masks[number] = listing.mask

    def _known_as(self, interest: Interest) -> _Known | None:
        known: _Known | None = interest._noted
        if known is not None and known.catalogue is self and (known.references or known.era == self._era):
            return known
        return self._known.get(interest)

    def interest(self, filter: Filter, owner: str = "") -> Interest:
        """The one object for equal interests, so that they are compared by identity."""
        interest = Interest(filter, owner)
        known = self._known.get(interest)
        return interest if known is None else known.interest

    def retain(self, interest: Interest) -> int:
        """Add a reference to an interest; returns the number of its filter, valid until the last one ends."""
        known: _Known | None = interest._noted
        if known is not None and known.catalogue is self and known.references:
            known.references += 1
            return known.number
        known = self._known.get(interest)
        if known is None:
            number = self.number(interest)
            known = self._known[interest] = interest._noted = _Known(self, interest, number, self._era)
            if number not in self._references:
                self.idle.pop(number, None)
            self._references[number] = self._references.get(number, 0) + 1
        known.references += 1
        return known.number

    def release(self, interest: Interest) -> int:
        """The opposite of `hold`."""
        known = self._known[interest]
        number = known.number
        known.references -= 1
        if not known.references:
            known.interest._noted = None
            del self._known[interest]
            self._references[number] -= 1
            if not self._references[number]:
                del self._references[number]
                self.idle[number] = None
        return number

    def filter(self, number: int) -> Filter:
        """The filter under a number."""
        return self._interests[number].filter

    def tidy(self) -> None:
        """Drop filters without references, some at a time, once there are many; their numbers end here."""
        if len(self.idle) <= IDLE_MAX or self._keep or len(self.idle) <= len(self._references) + IDLE_MAX:
            return
        if self._placing is not None:
            return  # until then no filter leaves the poset
        # All at once where numbers are given anew: those of filters that are dropped are given to others.
        dropped = list(islice(self.idle, None if self._numbering.is_full else TIDIED_AT_ONCE))
        relations = 0
        for number in dropped:
            relations += self._relations(number)
            if relations > RELATIONS_AT_ONCE and not self._numbering.is_full and number != dropped[0]:
                break
            del self.idle[number]
            del self._numbers[self._interests.pop(number)]
            if self._unmatched.pop(number, None) is None and self._made.pop(number, None) is None:
                self._matcher.remove(number)
            if self._unplaced.pop(number, None) is None:
                self._poset.remove(number)
            self._normals.pop(number, None)
            self._listings.pop(number, None)
            self._masks.pop(number, None)
        if self._numbering.is_full:
            self._number_anew()
        self._era += 1
        self._compared.clear()
        self._overlaps.clear()
        self._merged.clear()
        self._forget_matches()

    def _number_anew(self) -> None:
        """Reuse the bits of numbers that no filter lists any more."""
        self._numbering = Numbering()
        self._listings.clear()
        self._masks.clear()
        self._unmatched.update((number, self._interests[number]) for number in self._made)
        self._made.clear()
        for number, interest in self._interests.items():
            self._list(number, interest)

    # -- how they relate -----------------------------------------------------------------------------------

    def covering(self, number: int, among: Set[int] | None = None) -> Set[int]:
        """The filters that cover this one, itself included; of those given, or of all."""
        if among is not None and self._are_compared(number, among):
            masks, mask = self._masks, self._masks.get(number)
            if mask is not None and masks.keys() >= among:
                return {other for other in among if masks[other] | mask == masks[other]}
            return {other for other in among if self.covers(other, number)}
        self._insert()
        poset = self._poset
        if among is None:
            return {*poset.above(number)}
        if LISTED * len(among) < len(poset) and LISTED * len(among) < poset.depth(number):
            return {other for other in among if poset.covers(other, number)}
        return among & {*poset.above(number)}

    def each_covering(self, number: int, among: Set[int]) -> Iterator[int]:
        """The given filters that cover this one, one at a time: often the first decides."""
        if self._are_compared(number, among):
            return iter(self.covering(number, among))
        self._insert()
        return (other for other in self._poset.above(number) if other in among)

    def depth(self, interest: Interest) -> int:
        """The number of filters that are known to cover that of an interest."""
        number = self.number(interest)
        return self._poset.depth(number) if number in self._poset else 0

    def relations(self, interest: Interest) -> int:
        """The number of relations to others that are kept for the filter of an interest; none for a row of filters
        of which each covers the next."""
        return self._relations(self.number(interest))

    def _relations(self, number: int) -> int:
        return self._poset.links(number) if number in self._poset else 0

    def covered_by(self, number: int, among: Set[int] | None = None) -> Set[int]:
        """The filters that this one covers, itself included; of those given, or of all."""
        if among is not None and self._are_compared(number, among):
            masks, mask = self._masks, self._masks.get(number)
            if mask is not None and masks.keys() >= among:
                return {other for other in among if masks[other] | mask == mask}
            return {other for other in among if self.covers(number, other)}
        self._insert()
        poset = self._poset
        if among is None:
            return {*poset.below(number)}
        if LISTED * len(among) < len(poset) and LISTED * len(among) < poset.height(number):
            return {other for other in among if poset.covers(number, other)}
        return among & {*poset.below(number)}

    def identical(self, number: int, among: Set[int] | None = None) -> Set[int]:
        """The filters that match the same notifications, itself included; of those given, or of all."""
        if among is not None and self._unplaced and self._are_compared(number, among):
            return {other for other in among if self.covers(number, other) and self.covers(other, number)}
        self._insert()
        return {other for other in self._poset.identical(number) if among is None or other in among}

    def widest(self, numbers: Set[int]) -> list[int]:
        """Of these filters those that no other covers, and of identical ones the first, in their order."""
        masks = self._masks
        if (len(numbers) <= FEW or self._has_made_lists) and masks.keys() >= numbers:
            return _widest([(number, masks[number]) for number in numbers])
        return [
            number
            for number in numbers
            if all(number <= other and self.covers(number, other) for other in self.covering(number, numbers))
        ]

    def _are_compared(self, number: int, among: Set[int]) -> bool:
        """Whether filters are compared pairwise instead of in the poset."""
        return len(among) <= FEW or (self._has_made_lists and number in self._masks)

    def covers(self, one: int, other: int) -> bool:
        """Whether filter `one` covers filter `other`."""
        if one == other:
            return True
        wide, narrow = self._masks.get(one), self._masks.get(other)
        if wide is not None and narrow is not None:
            return wide | narrow == wide
        if one in self._poset and other in self._poset:
            return self._poset.covers(one, other)
        known = self._compared.get((one, other))
        if known is None:
            if len(self._compared) >= COMPARED_MAX:
                self._compared.clear()
            known = self._algebra.covers(self._normal(one), self._normal(other))
            self._compared[one, other] = known
        return known

    def _normal(self, number: int) -> Normal:
        if number not in self._normals:
            self._normals[number] = self._algebra.normal(self.filter(number))
        return self._normals[number]

    def overlaps(self, one: int, other: int) -> bool:
        """Whether a notification may match both."""
        pair = (one, other) if one < other else (other, one)
        if pair not in self._overlaps:
            if len(self._overlaps) >= COMPARED_MAX:
                self._overlaps.clear()
            self._overlaps[pair] = self._algebra.overlaps(self._normal(one), self._normal(other))
        return self._overlaps[pair]

    def merge_candidates(self, number: int) -> list[int]:
        """The filters that constrain the same attributes, and all but one of them identically."""
        self._insert()
        return self._poset.merge_candidates(self.filter(number))

    def merged(self, one: int, other: int, imperfection_max: float = 0.0) -> Interest | None:
        """An interest that covers both and lets in no more than the bound allows; None where there is none."""
        mine, theirs = self._listings.get(one), self._listings.get(other)
        if mine is not None and theirs is not None and mine.term == theirs.term:
            return self._united(one, other, mine, theirs)
        key = (one, other, imperfection_max)
        if key not in self._merged:
            if len(self._merged) >= COMPARED_MAX:
                self._merged.clear()
            merger = merge(
                (self.filter(one), self.filter(other)), self.schema, imperfection_max=imperfection_max
            )
            self._merged[key] = None if merger is None else self.interest(merger.filter)
        return self._merged[key]

    def _united(self, one: int, other: int, mine: Listing, theirs: Listing) -> Interest:
        both = mine.mask | theirs.mask
        for number, listing in ((one, mine), (other, theirs)):
            if listing.mask == both:
                return self._interests[number]
        self._has_made_lists = True
        return self._interests[self.number(Interest.of(mine.united(theirs)))]

    def is_merger(self, merger: Interest, parts: Iterable[Interest], imperfection_max: float = 0.0) -> bool:
        """Whether an interest that covers the parts lets in no more beyond them than the bound allows."""
        given = tuple(parts)
        whole, listings = self._listing(merger), [*map(self._listing, given)]
        if whole is not None and all(each is not None and each.term == whole.term for each in listings):
            wanted = reduce(or_, (each.mask for each in listings if each is not None), 0)
            return wanted | whole.mask == wanted
        filters = [part.filter for part in given]
        if self._algebra.covers(Or.of(filters), merger.filter):
            return True
        if not imperfection_max:
            return False
        made = merge(filters, self.schema, imperfection_max=imperfection_max)
        return made is not None and self._algebra.covers(made.filter, merger.filter)

    def _listing(self, interest: Interest) -> Listing | None:
        """The numbers that an interest lists, whether or not it has a number here."""
        listing = interest.listing
        if listing is not None and listing.numbering is self._numbering:
            return listing
        known = self._known_as(interest)
        if known is not None:
            return self._listings.get(known.number)
        found = listed(interest.filter) if self.schema is None else None
        return None if found is None else self._numbering.listing(*found)

    def prepare(self, filters: Iterable[Filter], is_enough: Callable[[], bool]) -> bool:
        """Relate new filters to the others ahead of a change, until it is enough; whether all are related.

        A filter may relate to thousands of others. Callers that must not take long call this again and again,
        and make the change, which takes few steps then, when there is nothing left to do.
        """
        numbers = [self.number(self.interest(filter)) for filter in filters]
        if len(self._interests) <= FEW or (self._has_made_lists and self._masks.keys() >= {*numbers}):
            return True
        return self._insert(is_enough)

    def _insert(self, is_enough: Callable[[], bool] = lambda: False) -> bool:
        while self._unplaced:
            number, interest = next(iter(self._unplaced.items()))
            if self._placing is None:
                self._placing = self._poset.inserting(number, interest.filter)
            try:
                while True:
                    next(self._placing)
                    if is_enough():
                        return False
            except StopIteration:
                self._placing = None
            del self._unplaced[number]
            if self._unplaced and is_enough():
                return False
        return True

    # -- matching a notification ----------------------------------------------------------------------

    def matching(self, notification: Notification) -> Set[int]:
        """The filters that a notification matches."""
        if self._unmatched:
            self._take_up_unmatched()
        known = self._matched.get(id(notification))
        if known is not None:
            return known[1]
        found = frozenset((*self._matcher.match(notification), *self._made_for(notification)))
        self._matches += len(found)
        while self._matched and (len(self._matched) >= MATCHED_MAX or self._matches > MATCHES_MAX):
            self._matches -= len(self._matched.pop(next(iter(self._matched)))[1])
        # The notification itself is referenced, so that no other object can get its address.
        self._matched[id(notification)] = (notification, found)
        return found

    def _forget_matches(self) -> None:
        self._matched.clear()
        self._matches = 0

    def _take_up_unmatched(self) -> None:
        """Lists that merging has made are not given to the engine: to take them up would be to spell them all."""
        matched = {}
        for number, interest in self._unmatched.items():
            if interest.listing is not None and number in self._listings:
                self._made[number] = interest.listing.term
            else:
                matched[number] = interest.filter
        self._matcher.add_many(matched.items())
        self._unmatched.clear()
        self._forget_matches()

    def _made_for(self, notification: Notification) -> Iterator[int]:
        terms, masks = {*self._made.values()}, self._masks
        bits = reduce(or_, (self._numbering.bit(term, notification) for term in terms), 0)
        return (number for number in self._made if masks[number] & bits)


def _widest(masks: list[tuple[int, int]]) -> list[int]:
    """The same of filters that list numbers. There are few of them, so each is compared with each."""
    kept = []
    for number, mask in masks:
        for other, wide in masks:
            if wide | mask == wide and (wide != mask or other < number):
                break
        else:
            kept.append(number)
    return kept
