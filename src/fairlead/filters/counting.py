"""The counting index: which of many conjunctions does a valuation satisfy? (book 3.1.2 "Algorithms", 3.2.2)

    found(v)  iff  every extent of the conjunction holds the value that v gives to its term

Three levels lead from a valuation to the conjunctions: the term, the shape of the extent (single values, a
span of numbers, a prefix, anything else), and the value. Equal extents on one term are kept once, whoever asks
for them. Each extent that holds the term's value adds one to the counts of its conjunctions; those whose count
reaches the number of their extents are found.

Extents that admit absence are not counted but tested at the end, since a term that is absent is never looked
up. With `counted_max` only the most selective extents of each conjunction are counted and all others are
tested: counting `type = "quote"` for every quote would touch most conjunctions, only to find that the symbol is
another one. With a bound of one this is clustering by the most selective constraint (book 3.2.2).

A valuation is a notification, or the values that stand for another filter when the poset looks for its
relatives.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from fairlead.filters.extents.extent import Extent
from fairlead.filters.extents.numbers import NumberExtent
from fairlead.filters.extents.strings import StringExtent
from fairlead.filters.terms import Attribute, Term
from fairlead.model import ABSENT, Kind, Notification, Record, Value, key_of, kind_of, number_of

__all__ = ["CountingIndex", "SpanIndex", "valuation"]

_VALUES_MAX: Final = 10_000
"""A set of more values than this is tested like any other extent, not filed under each of them."""
_SPAN_SHARE: Final = 0.1
"""The share of all spans that a number is expected to lie in."""


class CountingIndex:
    """Conjunctions of extents under handles of the caller's choice."""

    __slots__ = ("_always", "_asked", "_counted", "_counted_max", "_terms", "_tested", "tests")

    def __init__(self, counted_max: int | None = None) -> None:
        self._counted_max = counted_max
        self._terms: dict[Term, _TermIndex] = {}
        self._counted: dict[Hashable, dict[Term, Extent]] = {}
        self._tested: dict[Hashable, dict[Term, Extent]] = {}
        self._always: dict[Hashable, None] = {}
        self._asked: Counter[Term] = Counter()
        self.tests = 0
        """How many extents were found to hold a value, or tested for it, so far."""

    def __len__(self) -> int:
        return len(self._counted)

    def __contains__(self, handle: Hashable) -> bool:
        return handle in self._counted

    def add(self, handle: Hashable, extents: Mapping[Term, Extent]) -> None:
        """File a conjunction; the handle must be new."""
        assert handle not in self._counted, f"{handle!r} is in the index already"
        countable = [term for term, extent in extents.items() if not extent.allows(Kind.ABSENT)]
        if self._counted_max is not None:
            countable.sort(key=lambda term: self._hits(term, extents[term]))
        counted = self._counted[handle] = {term: extents[term] for term in countable[: self._counted_max]}
        for term, extent in counted.items():
            self._terms.setdefault(term, _TermIndex()).add(handle, extent)
        if len(counted) < len(extents):
            rest = {term: extent for term, extent in extents.items() if term not in counted}
            self._tested[handle] = rest
            self._asked.update(rest.keys())
        if not counted:
            self._always[handle] = None

    def remove(self, handle: Hashable) -> None:
        """Take out a conjunction."""
        for term, extent in self._counted.pop(handle).items():
            index = self._terms[term]
            index.remove(handle, extent)
            if not index:
                del self._terms[term]
        for term in self._tested.pop(handle, ()):
            self._asked[term] -= 1
            if not self._asked[term]:
                del self._asked[term]
        self._always.pop(handle, None)

    def find(self, values: Mapping[Term, Value]) -> list[Hashable]:
        """The handles whose every extent holds its term's value; terms without a value are absent."""
        counts: defaultdict[Hashable, int] = defaultdict(int)
        for term, value in values.items():
            index = self._terms.get(term)
            if index is not None:
                for handle in index.holding(value):
                    counts[handle] += 1
        self.tests += sum(counts.values())
        found = [handle for handle, count in counts.items() if count == len(self._counted[handle])]
        found.extend(self._always)
        return [handle for handle in found if self._admits(handle, values)]

    def terms(self) -> Iterator[Term]:
        """The terms that some conjunction constrains."""
        return iter(self._terms.keys() | self._asked.keys())

    def _hits(self, term: Term, extent: Extent) -> float:
        """How many conjunctions would be counted, roughly, whenever a value lies in the extent."""
        index = self._terms.get(term)
        return 0.0 if index is None else index.hits(extent)

    def _admits(self, handle: Hashable, values: Mapping[Term, Value]) -> bool:
        for term, extent in self._tested.get(handle, {}).items():
            self.tests += 1
            if values.get(term, ABSENT) not in extent:
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

    __slots__ = ("_by_prefix", "_by_value", "_others", "_postings", "_spans")

    def __init__(self) -> None:
        self._postings: dict[Extent, dict[Hashable, None]] = {}
        self._by_value: defaultdict[Any, dict[Extent, None]] = defaultdict(dict)
        self._spans: dict[Kind, SpanIndex] = {}
        self._by_prefix: dict[int, dict[str, dict[Extent, None]]] = {}
        self._others: dict[Extent, None] = {}

    def __bool__(self) -> bool:
        return bool(self._postings)

    def add(self, handle: Hashable, extent: Extent) -> None:
        posting = self._postings.get(extent)
        if posting is None:
            posting = self._postings[extent] = {}
            self._file(extent)
        posting[handle] = None

    def remove(self, handle: Hashable, extent: Extent) -> None:
        posting = self._postings[extent]
        del posting[handle]
        if not posting:
            del self._postings[extent]
            self._unfile(extent)

    def hits(self, extent: Extent) -> float:
        """How many handles, roughly, are found for a value that lies in the extent."""
        own = float(len(self._postings.get(extent, ())))
        span = _span_of(extent)
        spans = self._spans.get(span[0]) if span is not None else None
        others = len(self._others) if extent.values(_VALUES_MAX) is None and span is None else 0
        return own + others + (_SPAN_SHARE * len(spans) if spans is not None else 0.0)

    def holding(self, value: Value) -> Iterator[Hashable]:
        for extent in self._extents_holding(value):
            yield from self._postings[extent]

    def _extents_holding(self, value: Value) -> Iterator[Extent]:
        yield from self._by_value.get(key_of(value), ())
        kind = kind_of(value)
        spans = self._spans.get(kind)
        if spans is not None:
            yield from spans.stabbed(number_of(value) if kind is Kind.NUMBER else value.microseconds)
        if kind is Kind.STRING:
            for length, prefixes in self._by_prefix.items():
                if length <= len(value):
                    yield from prefixes.get(value[:length], ())
        for extent in self._others:
            if value in extent:
                yield extent

    def _file(self, extent: Extent) -> None:
        values = extent.values(_VALUES_MAX)
        if values is not None:
            for value in values:
                self._by_value[key_of(value)][extent] = None
        elif (span := _span_of(extent)) is not None:
            self._spans.setdefault(span[0], SpanIndex()).add(span[1], extent)
        elif (prefix := _prefix_of(extent)) is not None:
            self._by_prefix.setdefault(len(prefix), {}).setdefault(prefix, {})[extent] = None
        else:
            self._others[extent] = None

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


def _discard(filed: dict[Any, dict[Extent, None]], key: Any, extent: Extent) -> None:
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
    """Intervals of one number line, to be asked for those that contain a number.

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
        """What was filed under the intervals that contain the number."""
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
