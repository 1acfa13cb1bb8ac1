"""All filters that a broker has to do with, each once, under a number; and how they relate.

    covering(i)      the numbers of the filters that cover filter i, its own included
    covered_by(i)    the numbers of the filters that filter i covers, its own included
    matching(n)      the numbers of the filters that notification n matches

A table asks these questions of the filters it holds. It answers them by intersecting numbers: the relations
themselves are found once per filter, by the poset, and what a notification matches once per notification, by
the matching engine. So brokers in one process may share a catalogue, and share that work; a broker alone has
its own, and forgets a filter that nobody holds any more.

Nothing is computed before it is asked for: flooding and simple routing never relate filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Final, Protocol

from fairlead.filters.algebra import Algebra, Normal, algebra_for
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import Filter, Or
from fairlead.filters.merging import merge
from fairlead.filters.poset import Poset
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Attribute, Term
from fairlead.model import Multi, Notification
from fairlead.routing.interest import Interest

__all__ = ["Catalogue", "Matcher"]


class Matcher(Protocol):
    """What a catalogue asks of a matching engine."""

    def add_many(self, subscriptions: Iterable[tuple[int, Filter]], /) -> None: ...
    def remove(self, id: int, /) -> None: ...
    def match(self, notification: Notification, /) -> list[int]: ...


FEW: Final = 48
"""Among so few filters, each is compared with each: cheaper than to find a filter's place in the poset."""
COMPARED_MAX: Final = 1_000_000
"""How many comparisons of two filters are remembered."""
MATCHED_MAX: Final = 256
"""Of so many notifications it is remembered what they match: several brokers ask about each."""
IDLE_MAX: Final = 1_000
"""So many filters that nobody holds are kept beyond as many as are held: many come back soon."""


@dataclass(slots=True)
class _Known:
    """An interest that is held, as the object that was held first, or that a number was asked for."""

    catalogue: Catalogue
    interest: Interest
    number: int
    era: int
    held: int = 0


@dataclass(frozen=True, slots=True)
class _Points:
    """A filter that asks for one of some numbers.

    Merging makes many of them, of hundreds of numbers each: as sets they are compared and united at once, and
    nobody asks for their normal forms. Without a schema all of these are dense, so that they stay points.
    """

    term: Term
    numbers: frozenset[int]

    @classmethod
    def of(cls, filter: Filter) -> _Points | None:
        """The numbers that a filter lists; None where it says something else."""
        match filter:
            case Constraint(term=Attribute() as term, op=Op.EQ, operand=operand) if type(operand) is int:
                return cls(term, frozenset((operand,)))
            case Constraint(term=Attribute() as term, op=Op.IN, operand=Multi() as operand):
                numbers = frozenset(operand)
                if {*map(type, numbers)} == {int}:
                    return cls(term, numbers)
        return None


class Catalogue:
    """Filters under numbers, counted by how many hold them. `keep` never forgets one."""

    def __init__(self, matcher: Matcher, schema: Schema | None = None, *, keep: bool = False) -> None:
        self._matcher = matcher
        self._schema = schema
        self._algebra: Algebra = algebra_for(schema)
        self._poset: Poset[int] = Poset(schema)
        self._keep = keep
        self._next = 0
        self._era = 0  # in which numbers that nobody holds are good
        self._filters: dict[int, Filter] = {}
        self._numbers: dict[Filter, int] = {}
        self._known: dict[Interest, _Known] = {}
        self._held: dict[int, int] = {}  # of each number, how many interests are held
        self.idle: dict[int, None] = {}
        """The numbers of filters that nobody holds."""
        self._unmatched: dict[int, Filter] = {}
        self._unplaced: dict[int, Filter] = {}
        self._above: dict[int, set[int]] = {}
        self._below: dict[int, set[int]] = {}
        self._same: dict[int, set[int]] = {}
        self._normals: dict[int, Normal] = {}
        self._points: dict[int, _Points | None] = {}
        self._compared: dict[tuple[int, int], bool] = {}
        self._overlaps: dict[tuple[int, int], bool] = {}
        self._merged: dict[tuple[int, int, float], Interest | None] = {}
        self._matched: dict[int, tuple[Notification, frozenset[int]]] = {}

    def __len__(self) -> int:
        return len(self._filters)

    # -- filters come and go -------------------------------------------------------------------------------

    def number(self, interest: Interest) -> int:
        """The number of an interest's filter."""
        known = self._known_as(interest)
        if known is not None:
            return known.number
        number = self._numbers.get(interest.filter)
        if number is None:
            number = self._next
            self._next += 1
            self._numbers[interest.filter] = number
            self._filters[number] = self._unmatched[number] = self._unplaced[number] = interest.filter
            self.idle[number] = None
        if interest._noted is None:
            interest._noted = _Known(self, interest, number, self._era)
        return number

    def _known_as(self, interest: Interest) -> _Known | None:
        known: _Known | None = interest._noted
        if known is not None and known.catalogue is self and (known.held or known.era == self._era):
            return known
        return self._known.get(interest)

    def interest(self, filter: Filter, owner: str = "") -> Interest:
        """The one object for an interest that is held, so that comparing it costs nothing."""
        interest = Interest(filter, owner)
        known = self._known.get(interest)
        return interest if known is None else known.interest

    def hold(self, interest: Interest) -> int:
        """The number of an interest's filter, which stays as long as somebody holds it."""
        known: _Known | None = interest._noted
        if known is None or known.catalogue is not self or not known.held:
            known = self._known.get(interest)
        if known is None:
            number = self.number(interest)
            known = self._known[interest] = interest._noted = _Known(self, interest, number, self._era)
            if number not in self._held:
                self.idle.pop(number, None)
            self._held[number] = self._held.get(number, 0) + 1
        known.held += 1
        return known.number

    def release(self, interest: Interest) -> int:
        """The opposite of `hold`."""
        known = self._known[interest]
        number = known.number
        known.held -= 1
        if not known.held:
            known.interest._noted = None
            del self._known[interest]
            self._held[number] -= 1
            if not self._held[number]:
                del self._held[number]
                self.idle[number] = None
        return number

    def filter(self, number: int) -> Filter:
        """The filter under a number."""
        return self._filters[number]

    def tidy(self) -> None:
        """Forget what nobody holds, once there is much of it; numbers that are not held end here."""
        if len(self.idle) <= IDLE_MAX or self._keep or len(self.idle) <= len(self._held) + IDLE_MAX:
            return
        for number in self.idle:
            del self._numbers[self._filters.pop(number)]
            if self._unmatched.pop(number, None) is None:
                self._matcher.remove(number)
            if self._unplaced.pop(number, None) is None:
                self._poset.remove(number)
                for other in self._same.pop(number) - {number}:
                    self._same[other].discard(number)
                for other in self._above.pop(number) - {number}:
                    self._below[other].discard(number)
                for other in self._below.pop(number) - {number}:
                    self._above[other].discard(number)
            self._normals.pop(number, None)
            self._points.pop(number, None)
        self.idle.clear()
        self._era += 1
        self._compared.clear()
        self._overlaps.clear()
        self._merged.clear()
        self._matched.clear()

    # -- how they relate -----------------------------------------------------------------------------------

    def covering(self, number: int, among: Set[int] | None = None) -> Set[int]:
        """The filters that cover this one, itself included; of those given, or of all."""
        if among is not None and len(among) <= FEW:
            return {other for other in among if self.covers(other, number)}
        self._place()
        return self._above[number] if among is None else among & self._above[number]

    def covered_by(self, number: int, among: Set[int] | None = None) -> Set[int]:
        """The filters that this one covers, itself included; of those given, or of all."""
        if among is not None and len(among) <= FEW:
            return {other for other in among if self.covers(number, other)}
        self._place()
        return self._below[number] if among is None else among & self._below[number]

    def identical(self, number: int, among: Set[int] | None = None) -> Set[int]:
        """The filters that match the same notifications, itself included; of those given, or of all."""
        if among is not None and len(among) <= FEW:
            return {other for other in among if self.covers(number, other) and self.covers(other, number)}
        self._place()
        return self._same[number] if among is None else among & self._same[number]

    def covers(self, one: int, other: int) -> bool:
        """Whether filter `one` covers filter `other`."""
        if one == other:
            return True
        above = self._above.get(other)
        if above is not None and one in self._above:
            return one in above
        known = self._compared.get((one, other))
        if known is None:
            if len(self._compared) >= COMPARED_MAX:
                self._compared.clear()
            known = self._covers_points(one, other)
            if known is None:
                known = self._algebra.covers(self._normal(one), self._normal(other))
            self._compared[one, other] = known
        return known

    def _covers_points(self, one: int, other: int) -> bool | None:
        """The same for filters that list numbers, by sets alone; None for others."""
        wide, narrow = self._points_under(one), self._points_under(other)
        if wide is None or narrow is None or wide.term != narrow.term:
            return None
        return wide.numbers >= narrow.numbers

    def _points_under(self, number: int) -> _Points | None:
        if number not in self._points:
            self._points[number] = self._points_of(self._filters[number])
        return self._points[number]

    def _points_of(self, filter: Filter) -> _Points | None:
        return None if self._schema is not None else _Points.of(filter)

    def _normal(self, number: int) -> Normal:
        if number not in self._normals:
            self._normals[number] = self._algebra.normal(self._filters[number])
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
        self._place()
        return self._poset.merge_candidates(self._filters[number])

    def merged(self, one: int, other: int, imperfection_max: float = 0.0) -> Interest | None:
        """An interest that covers both and lets in no more than the bound allows; None where there is none."""
        key = (one, other, imperfection_max)
        if key not in self._merged:
            if len(self._merged) >= COMPARED_MAX:
                self._merged.clear()
            self._merged[key] = self._merge(one, other, imperfection_max)
        return self._merged[key]

    def _merge(self, one: int, other: int, imperfection_max: float) -> Interest | None:
        mine, theirs = self._points_under(one), self._points_under(other)
        if mine is not None and theirs is not None and mine.term == theirs.term:
            both = mine.numbers | theirs.numbers
            for number, points in ((one, mine), (other, theirs)):
                if len(points.numbers) == len(both):
                    return self.interest(self._filters[number])
            listed = Multi._of_simple(both)  # they are values of filters already
            made = self.interest(Constraint(mine.term, Op.IN, listed))
            self._points.setdefault(self.number(made), _Points(mine.term, both))
            return made
        merger = merge(
            (self._filters[one], self._filters[other]), self._schema, imperfection_max=imperfection_max
        )
        return None if merger is None else self.interest(merger.filter)

    def is_merger(self, filter: Filter, parts: Iterable[Filter], imperfection_max: float = 0.0) -> bool:
        """Whether a filter that covers the parts lets in no more beyond them than the bound allows."""
        given = tuple(parts)
        listed = self._points_of(filter)
        if listed is not None:
            points = [self._points_of(part) for part in given]
            if all(each is not None and each.term == listed.term for each in points):
                return listed.numbers <= frozenset().union(*(each.numbers for each in points if each))
        if self._algebra.covers(Or.of(given), filter):
            return True
        if not imperfection_max:
            return False
        merger = merge(given, self._schema, imperfection_max=imperfection_max)
        return merger is not None and self._algebra.covers(merger.filter, filter)

    def _place(self) -> None:
        if not self._unplaced:
            return
        for number, filter in self._unplaced.items():
            above, below = self._poset.place(number, filter)
            self._above[number] = {number, *above}
            self._below[number] = {number, *below}
            self._same[number] = self._above[number] & self._below[number]
            for other in above:
                self._below[other].add(number)
            for other in below:
                self._above[other].add(number)
            for other in self._same[number] - {number}:
                self._same[other].add(number)
        self._unplaced.clear()

    # -- whom a notification concerns ----------------------------------------------------------------------

    def matching(self, notification: Notification) -> Set[int]:
        """The filters that a notification matches."""
        if self._unmatched:
            self._matcher.add_many(self._unmatched.items())
            self._unmatched.clear()
            self._matched.clear()
        known = self._matched.get(id(notification))
        if known is not None:
            return known[1]
        if len(self._matched) >= MATCHED_MAX:
            del self._matched[next(iter(self._matched))]
        found = frozenset(self._matcher.match(notification))
        # The notification itself is kept, so that no other object can have its place in memory.
        self._matched[id(notification)] = (notification, found)
        return found
