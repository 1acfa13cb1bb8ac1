"""Sets of numbers: unions of intervals, closed under `and`, `or` and `not`.

    x in a  iff  an odd number of cuts lies between x and any number outside of `a`

An extent is the sorted list of its cuts: the places on the number line where membership changes. A cut lies
just below a number, (v, 0), or just above it, (v, 1), so that `[1, 2)` is the cuts (1, 0), (2, 0) and `{5}`
the cuts (5, 0), (5, 1). There are no infinities and no open or closed ends to distinguish: a complement keeps
its cuts, `and` and `or` are one sweep over two sorted lists, and touching intervals merge because a cut at
which nothing changes is not kept. Over the integers the cut above v is the cut below v + 1, so that
`x > 3 and x < 5` is `{4}`. In both domains equal extents have equal cuts: `==` decides identity.

Numbers are ints where whole and normalised Decimals elsewhere. They are compared, which Python does exactly
for this pair, and never rounded. Instants are integers (microseconds), hence discrete.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact
from math import ceil, floor
from typing import Any, NamedTuple, TypeAlias

__all__ = ["Number", "NumberExtent", "Span"]

Number: TypeAlias = int | Decimal
Cut: TypeAlias = tuple[Number, int]

# Sums and halves of decimals are finite decimals: with all the digits there are, nothing is ever rounded.
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])
_HALF = Decimal("0.5")
_MUCH_LONGER = 8
"""So many times as many cuts are searched rather than swept over."""


class Span(NamedTuple):
    """One interval; a bound of None is infinite, and then not closed."""

    lo: Number | None
    hi: Number | None
    lo_closed: bool
    hi_closed: bool


@dataclass(frozen=True, slots=True)
class NumberExtent:
    """A union of disjoint, maximal intervals over the dense or the discrete number line."""

    below: bool
    """Whether the numbers below all cuts are members."""
    cuts: tuple[Cut, ...]
    """Strictly increasing."""
    discrete: bool = False

    @classmethod
    def everything(cls, *, discrete: bool = False) -> NumberExtent:
        return cls(True, (), discrete)

    @classmethod
    def nothing(cls, *, discrete: bool = False) -> NumberExtent:
        return cls(False, (), discrete)

    @classmethod
    def interval(
        cls,
        lo: Number | None,
        hi: Number | None,
        lo_closed: bool = True,
        hi_closed: bool = True,
        *,
        discrete: bool = False,
    ) -> NumberExtent:
        """The numbers between two bounds; None is no bound, and crossed bounds hold nothing between them."""
        cut = _whole_cut if discrete else _dense_cut
        start = None if lo is None else cut(lo, not lo_closed)
        end = None if hi is None else cut(hi, hi_closed)
        if start is not None and end is not None and start >= end:
            return cls(False, (), discrete)
        return cls(start is None, tuple(c for c in (start, end) if c is not None), discrete)

    @classmethod
    def of(cls, numbers: Iterable[Number], *, discrete: bool = False) -> NumberExtent:
        """Exactly these numbers (over the integers: the whole ones among them)."""
        cuts: list[Cut] = []
        if not discrete:
            for number in sorted(set(numbers)):
                cuts += (number, 0), (number, 1)
        else:
            for whole in sorted({floor(number) for number in numbers if _is_whole(number)}):
                if cuts and cuts[-1][0] == whole:
                    cuts[-1] = (whole + 1, 0)
                else:
                    cuts += (whole, 0), (whole + 1, 0)
        return cls(False, tuple(cuts), discrete)

    def __and__(self, other: NumberExtent) -> NumberExtent:
        return self._combined(other, operator.and_)

    def __or__(self, other: NumberExtent) -> NumberExtent:
        return self._combined(other, operator.or_)

    def __sub__(self, other: NumberExtent) -> NumberExtent:
        return self._combined(other, operator.gt)

    def __invert__(self) -> NumberExtent:
        return NumberExtent(not self.below, self.cuts, self.discrete)

    def __contains__(self, value: Any) -> bool:
        if self.discrete and not _is_whole(value):
            return False
        return self.below != bool(bisect_right(self.cuts, (value, 0)) % 2)

    def is_empty(self) -> bool:
        """No number is a member."""
        return not self.below and not self.cuts

    def is_full(self) -> bool:
        """Every number of the domain is a member."""
        return self.below and not self.cuts

    def covers(self, other: NumberExtent) -> bool:
        """Every member of `other` is a member; the sweep stops at the first that is not."""
        if other.below and not self.below:
            return False
        mine, theirs = self.cuts, other.cuts
        if self._is_interval and other._is_interval:  # as most often: compare the bounds
            ends = len(theirs) % 2 == other.below
            is_high_enough = len(mine) % 2 != self.below or (ends and theirs[-1] <= mine[-1])
            return is_high_enough and (self.below or mine[0] <= theirs[0])
        if other.below or len(theirs) % 2 or len(theirs) * _MUCH_LONGER > len(mine):
            return next(_sweep(other, self, operator.gt), None) is None
        # A few intervals among many: each has to lie between two cuts with members in between.
        for start, end in zip(theirs[::2], theirs[1::2], strict=True):
            place = bisect_right(mine, start)
            if self.below == bool(place % 2) or (place < len(mine) and mine[place] < end):
                return False
        return True

    @property
    def _is_interval(self) -> bool:
        """Whether the members are one interval, bounded or not."""
        return 1 <= len(self.cuts) + self.below <= 2

    def witness(self) -> Number | None:
        """The integer nearest to 0 if there is one, else the middle of the first interval."""
        first: Number | None = None
        nearest: int | None = None
        for span in self.intervals:
            number = _simplest(span)
            if not isinstance(number, int):
                first = number if first is None else first
            elif nearest is None or abs(number) < abs(nearest) or number == -nearest > 0:
                nearest = number
        return first if nearest is None else nearest

    @property
    def intervals(self) -> tuple[Span, ...]:
        """The maximal intervals in increasing order; over the integers all finite bounds are closed."""
        bounds: list[Cut | None] = [*self.cuts]
        if self.below:
            bounds.insert(0, None)
        if len(bounds) % 2:
            bounds.append(None)
        return tuple(map(self._span, bounds[::2], bounds[1::2]))

    @property
    def points(self) -> tuple[Number, ...] | None:
        """The members, if each interval is a single number; else None.

        Over the integers [20, 25] is an interval, not six points; `size` counts them.
        """
        spans = self.intervals
        numbers = tuple(lo for lo, hi, _, _ in spans if lo is not None and lo == hi)
        return numbers if len(numbers) == len(spans) else None

    def size(self) -> int | None:
        """The number of members, or None for infinitely many."""
        if not self.discrete:
            points = self.points
            return None if points is None else len(points)
        if self.below or len(self.cuts) % 2:
            return None
        return sum(
            int(end) - int(start)
            for (start, _), (end, _) in zip(self.cuts[::2], self.cuts[1::2], strict=True)
        )

    def hull(self) -> Span | None:
        """The least interval that holds all members, or None if there are none."""
        if self.is_empty():
            return None
        return self._span(
            None if self.below else self.cuts[0],
            None if self.below != bool(len(self.cuts) % 2) else self.cuts[-1],
        )

    def _combined(self, other: NumberExtent, rule: Callable[[bool, bool], bool]) -> NumberExtent:
        assert self.discrete == other.discrete, "dense and discrete numbers are different domains"
        return NumberExtent(rule(self.below, other.below), tuple(_sweep(self, other, rule)), self.discrete)

    def _span(self, start: Cut | None, end: Cut | None) -> Span:
        lo, lo_closed = (None, False) if start is None else (start[0], start[1] == 0)
        hi, hi_closed = (None, False) if end is None else (end[0], end[1] == 1)
        if self.discrete and hi is not None:
            hi, hi_closed = hi - 1, True
        return Span(lo, hi, lo_closed, hi_closed)


def _sweep(a: NumberExtent, b: NumberExtent, rule: Callable[[bool, bool], bool]) -> Iterator[Cut]:
    """The cuts at which `rule(in a, in b)` changes."""
    in_a, in_b = a.below, b.below
    inside = rule(in_a, in_b)
    cuts_a, cuts_b = a.cuts, b.cuts
    end_a, end_b = len(cuts_a), len(cuts_b)
    i = j = 0
    while i < end_a or j < end_b:
        if j == end_b or (i < end_a and cuts_a[i] < cuts_b[j]):
            cut, in_a, i = cuts_a[i], not in_a, i + 1
        elif i == end_a or cuts_b[j] < cuts_a[i]:
            cut, in_b, j = cuts_b[j], not in_b, j + 1
        else:
            cut, in_a, in_b, i, j = cuts_a[i], not in_a, not in_b, i + 1, j + 1
        if rule(in_a, in_b) != inside:
            inside = not inside
            yield cut


def _dense_cut(number: Number, above: bool) -> Cut:
    return number, int(above)


def _whole_cut(number: Number, above: bool) -> Cut:
    """The cut between the same integers, always just below the upper one."""
    return (floor(number) + 1 if above else ceil(number)), 0


def _is_whole(number: Number) -> bool:
    return isinstance(number, int) or number == number.to_integral_value()


def _simplest(span: Span) -> Number:
    """The integer of an interval that is nearest to 0, else its only number or its midpoint."""
    lo, hi, lo_closed, hi_closed = span
    least = None if lo is None else ceil(lo) if lo_closed else floor(lo) + 1
    most = None if hi is None else floor(hi) if hi_closed else ceil(hi) - 1
    if lo is not None and hi is not None and least is not None and most is not None and least > most:
        return lo if lo == hi else _EXACT.multiply(_EXACT.add(lo, hi), _HALF).normalize(_EXACT)
    if least is not None and least > 0:
        return least
    return most if most is not None and most < 0 else 0
