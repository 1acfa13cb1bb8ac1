"""The two far ends of filters, by value: whose ends lie in given extents?

Whatever F covers has ends that F matches. So those that F may cover are found among many by the values of their
ends, as `counting` finds those that may cover F.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from math import inf, nan
from typing import Any, Final

from fairlead.errors import Undecided
from fairlead.filters.counting import rounded, rounded_span
from fairlead.filters.extents.extent import Extent, Located, located
from fairlead.filters.extents.numbers import NumberExtent
from fairlead.filters.terms import Term
from fairlead.model import ABSENT, Key, Kind, Value, key_of

__all__ = ["EndIndex"]

_VALUES_MAX: Final = 256


class EndIndex:
    """Numbers of nodes by the values of their two ends. A few others may be among those found."""

    def __init__(self) -> None:
        self._terms: dict[Term, _TermEnds] = {}
        self._numbers: dict[int, None] = {}

    def add(self, number: int, first: dict[Term, Value], last: dict[Term, Value]) -> None:
        """File a node under its two ends."""
        self._numbers[number] = None
        for term in {**first, **last}:
            ends = self._terms.get(term)
            if ends is None:
                ends = self._terms[term] = _TermEnds()
            ends.add(number, first.get(term, ABSENT), last.get(term, ABSENT))

    def remove(self, number: int, first: dict[Term, Value], last: dict[Term, Value]) -> None:
        """Take a node out, given the same ends."""
        del self._numbers[number]
        for term in {**first, **last}:
            self._terms[term].remove(number, first.get(term, ABSENT))
            if not self._terms[term]:
                del self._terms[term]

    def beginning(self, extents: dict[Term, Extent]) -> list[int]:
        """The nodes whose first end lies in all of the extents.

        The most selective one says where to look, the others are tested, the more selective ones first.
        """
        required = [term for term, extent in extents.items() if not extent.allows(Kind.ABSENT)]
        if not all(term in self._terms for term in required):
            return []
        required.sort(key=lambda term: self._terms[term].count(extents[term]))
        optional = [term for term in extents if term in self._terms and term not in required]
        if not required:
            found = list(self._numbers)
        else:
            term = required.pop(0)
            found = self._terms[term].beginning(extents[term])
        for term in required + optional:
            found = self._terms[term].first.among(found, extents[term])
        return found

    def ending(self, extents: dict[Term, Extent], numbers: Iterable[int]) -> list[int]:
        """Those of the given nodes whose last end lies in all of the extents."""
        found = list(numbers)
        # Spans come first: they are the quickest to test.
        for term, extent in sorted(extents.items(), key=lambda one: not _is_linear(one[1])):
            if term in self._terms:
                found = self._terms[term].last.among(found, extent)
            elif not extent.allows(Kind.ABSENT):
                return []
        return found


class _TermEnds:
    """Numbers of nodes by the values that their ends give to one term."""

    __slots__ = ("_by_key", "_lines", "first", "last")

    def __init__(self) -> None:
        self.first = _Row()
        self.last = _Row()
        self._by_key: dict[Key, dict[int, None]] = {}
        self._lines: dict[Kind, list[tuple[Any, int]]] = {kind: [] for kind in _LINES}
        """The first ends on the number lines, in order."""

    def __bool__(self) -> bool:
        return bool(self.first.located or self.last.located)

    def add(self, number: int, first: Value, last: Value) -> None:
        kind, content = self.first.add(number, first)
        self.last.add(number, last)
        self._by_key.setdefault(key_of(first), {})[number] = None
        if kind in _LINES:
            insort(self._lines[kind], (content, number))

    def remove(self, number: int, first: Value) -> None:
        kind, content = self.first.remove(number)
        self.last.remove(number)
        key = key_of(first)
        del self._by_key[key][number]
        if not self._by_key[key]:
            del self._by_key[key]
        if kind in _LINES:
            line = self._lines[kind]
            del line[bisect_left(line, (content, number))]

    def count(self, extent: Extent) -> int:
        """The number of nodes to look at to find those whose first end is in the extent."""
        values = _few_values(extent)
        if values is not None:
            return sum(len(self._by_key.get(key_of(value), ())) for value in values)
        if _is_linear(extent):
            return sum(end - start for _, start, end in self._stretches(extent))
        return len(self.first.located)

    def beginning(self, extent: Extent) -> list[int]:
        """The nodes whose first end is in the extent."""
        values = _few_values(extent)
        if values is not None:
            return [number for value in values for number in self._by_key.get(key_of(value), ())]
        if _is_linear(extent):
            stretches = self._stretches(extent)
            return [number for line, start, end in stretches for _, number in line[start:end]]
        return self.first.among(self.first.located, extent)

    def _stretches(self, extent: Extent) -> Iterator[tuple[list[tuple[Any, int]], int, int]]:
        """The parts of the lines that lie in an extent of numbers, each from cut to cut."""
        for kind, piece in extent.pieces.items():
            line = self._lines[kind]
            # Numbers of nodes are finite and not negative: a cut is below, or above, all nodes at its place.
            at = [bisect_left(line, (place, inf if above else -1)) for place, above in piece.cuts]
            bounds = [*([0] if piece.below else []), *at, len(line)]
            yield from ((line, start, end) for start, end in zip(bounds[::2], bounds[1::2], strict=False))


class _Row:
    """The values that one end of each node gives to one term; rounded as well where they are numbers."""

    __slots__ = ("_rounded", "located")

    def __init__(self) -> None:
        self.located: dict[int, Located] = {}
        self._rounded: dict[Kind, dict[int, float]] = {kind: {} for kind in _LINES}

    def add(self, number: int, value: Value) -> Located:
        place = self.located[number] = located(value)
        kind, content = place
        if kind in _LINES:
            self._rounded[kind][number] = rounded(content)
        return place

    def remove(self, number: int) -> Located:
        place = self.located.pop(number)
        if place[0] in _LINES:
            del self._rounded[place[0]][number]
        return place

    def among(self, numbers: Iterable[int], extent: Extent) -> list[int]:
        """Those of the numbers whose value is in the extent, and perhaps some whose value is near it."""
        span = rounded_span(extent)
        if span is not None:
            kind, low, high = span
            values = self._rounded[kind]
            return [number for number in numbers if low <= values.get(number, nan) <= high]
        places, holds = self.located, extent.holds
        return [number for number in numbers if holds(*places.get(number, _NOWHERE))]


_LINES: Final = frozenset({Kind.NUMBER, Kind.TIME})
_NOWHERE: Final = located(ABSENT)


def _few_values(extent: Extent) -> tuple[Value, ...] | None:
    try:
        return extent.values(_VALUES_MAX)
    except Undecided:
        return None


def _is_linear(extent: Extent) -> bool:
    return all(isinstance(piece, NumberExtent) for piece in extent.pieces.values())
