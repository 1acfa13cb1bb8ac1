"""The counting index: which of many conjunctions does a valuation satisfy? (book 3.1.2 "Algorithms", 3.2.2)

    found(v)  iff  every extent of the conjunction holds the value that v gives to its term

Three levels lead from a valuation to the conjunctions: the term, the shape of the extent (single values, a
span of numbers, a prefix, anything else), and the value. Equal extents on one term are kept once, whoever asks
for them. Each extent that holds the term's value adds one to the counts of its conjunctions; those whose count
reaches the number of their extents are found.

Extents that admit absence are not counted but tested at the end, since a term that is absent is never looked
up. With `counted_max` only the most selective extents of each conjunction are counted and all others are
tested: counting `type = "quote"` for every quote would touch most conjunctions, only to find that the symbol is
another one. With a bound of one this is clustering by the most selective constraint (book 3.2.2); within a
cluster, the spans to be tested stand in columns.

A valuation is a notification, or the values that stand for another filter when the poset looks for its
relatives.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import inf
from typing import Any, Final, TypeAlias

from fairlead.filters.extents.extent import Extent, Located, located
from fairlead.filters.extents.numbers import NumberExtent
from fairlead.filters.extents.strings import StringExtent
from fairlead.filters.terms import Attribute, Term
from fairlead.model import ABSENT, Kind, Notification, Record, Value, key_of, kind_of, number_of

__all__ = ["CountingIndex", "SpanIndex", "rounded", "rounded_span", "valuation"]

_VALUES_MAX: Final = 10_000
"""A set of more values than this is tested like any other extent, not filed under each of them."""
_SPAN_SHARE: Final = 0.1
"""The share of all spans that a number is expected to lie in."""


class CountingIndex:
    """Conjunctions of extents under handles of the caller's choice."""

    __slots__ = ("_always", "_counted", "_counted_max", "_posting", "_terms", "_tested", "tests")

    def __init__(self, counted_max: int | None = None) -> None:
        self._counted_max = counted_max
        self._posting: type[_Posting] = _Cluster if counted_max == 1 else _Posting
        self._terms: dict[Term, _TermIndex] = {}
        self._counted: dict[Hashable, tuple[_Predicate, ...]] = {}
        self._tested: dict[Hashable, tuple[_Predicate, ...]] = {}
        self._always: dict[Hashable, None] = {}
        self.tests = 0
        """The number of extents that were found to hold a value, or tested for it, so far."""

    def __len__(self) -> int:
        return len(self._counted)

    def __contains__(self, handle: Hashable) -> bool:
        return handle in self._counted

    def add(self, handle: Hashable, extents: Mapping[Term, Extent]) -> None:
        """File a conjunction; the handle must be new."""
        assert handle not in self._counted, f"{handle!r} is in the index already"
        predicates = [(self._used(term), extent) for term, extent in extents.items()]
        countable = [one for one in predicates if not one[1].allows(Kind.ABSENT)]
        rest = [one for one in predicates if one[1].allows(Kind.ABSENT)]
        if self._counted_max is not None:
            # Those that are left to be tested are tested in this order as well: the first to fail comes first.
            countable = _most_selective_first(countable)
            rest = countable[self._counted_max :] + rest
            countable = countable[: self._counted_max]
        self._counted[handle] = tuple(countable)
        for index, extent in countable:
            index.posting(extent, self._posting).add(handle, rest)
        if rest:
            self._tested[handle] = tuple(rest)
        if not countable:
            self._always[handle] = None

    def remove(self, handle: Hashable) -> None:
        """Take out a conjunction."""
        counted, tested = self._counted.pop(handle), self._tested.pop(handle, ())
        for index, extent in counted:
            index.remove(handle, extent, tested)
        for index, extent in counted + tested:
            if self._counted_max is not None and not extent.allows(Kind.ABSENT):
                index.forget(extent)
            index.uses -= 1
            if not index.uses:
                del self._terms[index.term]
        self._always.pop(handle, None)

    def find(self, values: Mapping[Term, Value]) -> list[Hashable]:
        """The handles whose every extent holds its term's value; terms without a value are absent."""
        located_values = _LocatedValues(values)
        counted = [
            handle
            for term, value in values.items()
            if (index := self._terms.get(term))
            for posting in index.holding(value)
            for handle in posting.near(located_values)
        ]
        self.tests += len(counted)
        if self._counted_max == 1:
            found = counted
        else:
            counts = Counter(counted)
            found = [handle for handle, count in counts.items() if count == len(self._counted[handle])]
        found.extend(self._always)
        if not self._tested:
            return found
        return [handle for handle in found if self._all_hold(self._tested.get(handle, ()), located_values)]

    def among(self, handles: Iterable[Hashable], values: Mapping[Term, Value]) -> list[Hashable]:
        """The handles among the given ones that `find` returns."""
        located_values = _LocatedValues(values)
        return [
            handle
            for handle in handles
            if self._all_hold(self._tested.get(handle, ()), located_values)
            and self._all_hold(self._counted[handle], located_values)
        ]

    def terms(self) -> Iterator[Term]:
        """The terms that some conjunction constrains."""
        return iter(self._terms)

    def _used(self, term: Term) -> _TermIndex:
        index = self._terms.get(term)
        if index is None:
            index = self._terms[term] = _TermIndex(term)
        index.uses += 1
        return index

    def _all_hold(self, predicates: Iterable[_Predicate], located_values: _LocatedValues) -> bool:
        for index, extent in predicates:
            self.tests += 1
            if not extent.holds(*located_values[index]):
                return False
        return True


def valuation(notification: Notification, terms: Iterable[Term]) -> dict[Term, Value]:
    """The values of a notification's attributes, and of those other terms that it gives a value to."""
    values: dict[Term, Value] = {}
    stack: list[tuple[str, Record]] = [("", notification.attributes)]
    while stack:
        prefix, record = stack.pop()
        for name, value in record.items():
            values[Attribute(prefix + name)] = value
            if isinstance(value, Record):
                stack.append((f"{prefix}{name}.", value))
    for term in terms:
        if term not in values and (value := term.value(notification)) is not ABSENT:
            values[term] = value
    return values


class _TermIndex:
    """The extents on one term, by shape."""

    __slots__ = ("_alike", "_by_prefix", "_by_value", "_others", "_postings", "_spans", "term", "uses")

    def __init__(self, term: Term) -> None:
        self.term = term
        self.uses = 0
        """The number of conjunctions that constrain the term, whether they are counted by it or tested."""
        self._alike: Counter[Hashable] = Counter()
        self._postings: dict[Extent, _Posting] = {}
        self._by_value: defaultdict[Any, dict[Extent, _Posting]] = defaultdict(dict)
        self._spans: dict[Kind, SpanIndex] = {}
        self._by_prefix: dict[int, dict[str, dict[Extent, _Posting]]] = {}
        self._others: dict[Extent, _Posting] = {}

    def __bool__(self) -> bool:
        return bool(self._postings)

    def posting(self, extent: Extent, new: Callable[[], _Posting]) -> _Posting:
        """The posting of the extent; made if nobody asked for it before."""
        posting = self._postings.get(extent)
        if posting is None:
            posting = self._postings[extent] = new()
            self._file(extent, posting)
        return posting

    def remove(self, handle: Hashable, extent: Extent, rest: Sequence[_Predicate]) -> None:
        posting = self._postings[extent]
        posting.remove(handle, rest)
        if not posting:
            del self._postings[extent]
            self._unfile(extent)

    def selectivity(self, extent: Extent) -> float:
        """The number of conjunctions so far, roughly, that let a value of the extent through; one more now.

        All that constrain the term are asked, not only those that are counted by it: what is counted is
        chosen by this number, and would otherwise even out between the terms.
        """
        likeness, share = _likeness(extent)
        self._alike[likeness] += 1
        return share * (self._alike[likeness] - 1)

    def forget(self, extent: Extent) -> None:
        likeness, _ = _likeness(extent)
        self._alike[likeness] -= 1
        if not self._alike[likeness]:
            del self._alike[likeness]

    def holding(self, value: Value) -> Iterator[_Posting]:
        """The postings of the extents that hold the value, extent by extent."""
        if by_value := self._by_value.get(key_of(value)):
            yield from by_value.values()
        kind = kind_of(value)
        spans = self._spans.get(kind)
        if spans is not None:
            for extent in spans.stabbed(number_of(value) if kind is Kind.NUMBER else value.microseconds):
                yield self._postings[extent]
        if kind is Kind.STRING:
            for length, prefixes in self._by_prefix.items():
                if length <= len(value) and (by_prefix := prefixes.get(value[:length])):
                    yield from by_prefix.values()
        for extent, posting in self._others.items():
            if value in extent:
                yield posting

    def _file(self, extent: Extent, posting: _Posting) -> None:
        values = extent.values(_VALUES_MAX)
        if values is not None:
            for value in values:
                self._by_value[key_of(value)][extent] = posting
        elif (span := _span_of(extent)) is not None:
            self._spans.setdefault(span[0], SpanIndex()).add(span[1], extent)
        elif (prefix := _prefix_of(extent)) is not None:
            self._by_prefix.setdefault(len(prefix), {}).setdefault(prefix, {})[extent] = posting
        else:
            self._others[extent] = posting

    def _unfile(self, extent: Extent) -> None:
        values = extent.values(_VALUES_MAX)
        if values is not None:
            for value in values:
                _discard(self._by_value, key_of(value), extent)
        elif (span := _span_of(extent)) is not None:
            self._spans[span[0]].remove(span[1], extent)
        elif (prefix := _prefix_of(extent)) is not None:
            _discard(self._by_prefix[len(prefix)], prefix, extent)
            if not self._by_prefix[len(prefix)]:
                del self._by_prefix[len(prefix)]
        else:
            del self._others[extent]


_Predicate: TypeAlias = tuple[_TermIndex, Extent]


class _Posting(dict[Hashable, None]):
    """The conjunctions that ask for one extent."""

    __slots__ = ()

    def add(self, handle: Hashable, rest: Sequence[_Predicate]) -> None:
        """Note a conjunction, given what else is to be tested of it."""
        self[handle] = None

    def remove(self, handle: Hashable, rest: Sequence[_Predicate]) -> None:
        del self[handle]

    def near(self, located_values: _LocatedValues) -> Iterable[Hashable]:
        """Those whose other predicates may hold."""
        return self


class _Cluster(_Posting):
    """A posting that tells many of its conjunctions apart by the first span that is to be tested of each.

    Rounding to floats keeps the order of numbers, if not strictly: a span that holds a number holds it when
    all are rounded. Floats in a row are compared at a fraction of the cost of an exact test.
    """

    __slots__ = ("_columns",)

    def __init__(self) -> None:
        self._columns: dict[tuple[_TermIndex, Kind], _Column] = {}

    def __bool__(self) -> bool:
        return bool(len(self) or self._columns)

    def add(self, handle: Hashable, rest: Sequence[_Predicate]) -> None:
        spanned = _first_span(rest)
        if spanned is None:
            self[handle] = None
        else:
            line, bounds = spanned
            column = self._columns.get(line)
            if column is None:
                column = self._columns[line] = _Column()
            column.add(handle, *bounds)

    def remove(self, handle: Hashable, rest: Sequence[_Predicate]) -> None:
        spanned = _first_span(rest)
        if spanned is None:
            del self[handle]
        else:
            line, _ = spanned
            self._columns[line].remove(handle)
            if not self._columns[line]:
                del self._columns[line]

    def near(self, located_values: _LocatedValues) -> Iterator[Hashable]:
        yield from self
        for (index, wanted), column in self._columns.items():
            kind, number = located_values[index]
            if kind is wanted:
                yield from column.around(rounded(number))


class _Column:
    """Conjunctions with the rounded bounds of a span each."""

    __slots__ = ("_at", "_handles", "_highs", "_lows")

    def __init__(self) -> None:
        self._at: dict[Hashable, int] = {}
        self._handles: list[Hashable] = []
        self._lows = array("d")
        self._highs = array("d")

    def __len__(self) -> int:
        return len(self._handles)

    def add(self, handle: Hashable, low: float, high: float) -> None:
        self._at[handle] = len(self._handles)
        self._handles.append(handle)
        self._lows.append(low)
        self._highs.append(high)

    def remove(self, handle: Hashable) -> None:
        """The last one takes the place of the one that goes."""
        at = self._at.pop(handle)
        last, low, high = self._handles.pop(), self._lows.pop(), self._highs.pop()
        if last != handle:
            self._at[last] = at
            self._handles[at], self._lows[at], self._highs[at] = last, low, high

    def around(self, number: float) -> list[Hashable]:
        rows = zip(self._lows, self._highs, self._handles, strict=True)
        return [handle for low, high, handle in rows if low <= number <= high]


def _first_span(
    predicates: Iterable[_Predicate],
) -> tuple[tuple[_TermIndex, Kind], tuple[float, float]] | None:
    for index, extent in predicates:
        span = rounded_span(extent)
        if span is not None:
            kind, low, high = span
            return (index, kind), (low, high)
    return None


def rounded_span(extent: Extent) -> tuple[Kind, float, float] | None:
    """The rounded bounds of an extent that is a single interval of numbers or of instants."""
    span = _span_of(extent)
    if span is None:
        return None
    kind, ((low, _), (high, _)) = span
    return kind, rounded(low), rounded(high)


def rounded(number: int | Decimal) -> float:
    """The nearest float; infinite where there is none: a <= b implies rounded(a) <= rounded(b)."""
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf


class _LocatedValues(dict[_TermIndex, Located]):
    """A valuation by the index of the term, each value located when it is first tested."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[Term, Value]) -> None:
        self._values = values

    def __missing__(self, index: _TermIndex) -> Located:
        place = self[index] = located(self._values.get(index.term, ABSENT))
        return place


def _most_selective_first(predicates: list[_Predicate]) -> list[_Predicate]:
    shares = [index.selectivity(extent) for index, extent in predicates]
    return [predicates[at] for at in sorted(range(len(predicates)), key=shares.__getitem__)]


def _likeness(extent: Extent) -> tuple[Hashable, float]:
    """The likeness of extents that hold the same values, roughly, and the share of those that do.

    Of several values the first stands for all: the denser the sets, the more of them begin alike.
    """
    values = extent.values(_VALUES_MAX)
    if values is not None:
        return tuple(map(key_of, values[:1])), 1.0
    span = _span_of(extent)
    return (span[0], _SPAN_SHARE) if span is not None else (_prefix_of(extent), 1.0)


def _discard(filed: dict[Any, dict[Extent, _Posting]], key: Any, extent: Extent) -> None:
    del filed[key][extent]
    if not filed[key]:
        del filed[key]


_LOWEST: Final = (Decimal("-Infinity"), 0)
_HIGHEST: Final = (Decimal("Infinity"), 2)
Bounds = tuple[tuple[Any, int], tuple[Any, int]]


def _span_of(extent: Extent) -> tuple[Kind, Bounds] | None:
    """The cuts around an extent that is a single interval of numbers or of instants."""
    if len(extent.pieces) != 1:
        return None
    [(kind, piece)] = extent.pieces.items()
    if not isinstance(piece, NumberExtent) or len(piece.intervals) != 1:
        return None
    cuts = list(piece.cuts)
    low = _LOWEST if piece.below else cuts.pop(0)
    return kind, (low, cuts.pop(0) if cuts else _HIGHEST)


def _prefix_of(extent: Extent) -> str | None:
    if len(extent.pieces) != 1:
        return None
    [piece] = extent.pieces.values()
    form = piece.form if isinstance(piece, StringExtent) else None
    return form[1] if form is not None and form[0] == "prefix" else None


class SpanIndex:
    """Intervals of one number line, indexed by the numbers that they contain.

    Sorted by their low end in blocks that know their highest end, so a question skips whole blocks.
    """

    __slots__ = ("_blocks",)
    BLOCK_MAX: Final = 64

    def __init__(self) -> None:
        self._blocks: list[_Block] = []

    def add(self, bounds: Bounds, extent: Any) -> None:
        entry = (*bounds, _Tie(extent))
        block = self._block_for(entry)
        if block is None:
            block = _Block([])
            self._blocks.append(block)
        insort(block.entries, entry)
        block.highest = max(block.highest, bounds[1])
        if len(block.entries) > self.BLOCK_MAX:
            self._split(block)

    def remove(self, bounds: Bounds, extent: Any) -> None:
        entry = (*bounds, _Tie(extent))
        for at in range(self._first_block(entry), len(self._blocks)):
            block = self._blocks[at]
            if entry in block.entries:
                block.entries.remove(entry)
                if block.entries:
                    block.highest = max(high for _, high, _ in block.entries)
                else:
                    del self._blocks[at]
                return
        raise KeyError(extent)

    def __len__(self) -> int:
        return sum(len(block.entries) for block in self._blocks)

    def stabbed(self, number: Any) -> Iterator[Any]:
        """The entries of the intervals that contain the number."""
        place = (number, 0)
        for block in self._blocks:
            if block.entries[0][0] > place:
                return
            if block.highest > place:
                for low, high, tie in block.entries:
                    if low > place:
                        break
                    if high > place:
                        yield tie.extent

    def _first_block(self, entry: Any) -> int:
        return max(0, bisect_left(self._blocks, entry, key=_first_entry) - 1)

    def _block_for(self, entry: Any) -> _Block | None:
        return self._blocks[self._first_block(entry)] if self._blocks else None

    def _split(self, block: _Block) -> None:
        half = len(block.entries) // 2
        at = self._first_block(block.entries[0])
        while self._blocks[at] is not block:
            at += 1
        self._blocks[at : at + 1] = [_Block(block.entries[:half]), _Block(block.entries[half:])]


class _Block:
    __slots__ = ("entries", "highest")

    def __init__(self, entries: list[Any]) -> None:
        self.entries = entries
        self.highest: Any = max((high for _, high, _ in entries), default=_LOWEST)


def _first_entry(block: _Block) -> Any:
    return block.entries[0]


class _Tie:
    """Orders entries with equal bounds somehow, and the same way each time."""

    __slots__ = ("extent",)

    def __init__(self, extent: Any) -> None:
        self.extent = extent

    def __lt__(self, other: _Tie) -> bool:
        return hash(self.extent) < hash(other.extent)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Tie) and self.extent == other.extent

    __hash__ = None  # type: ignore[assignment]
