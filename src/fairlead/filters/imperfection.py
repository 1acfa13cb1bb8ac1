"""The imperfection of a merger: an estimate, from the filters alone, of what it matches beyond the
merged filters.

    imperfection = 1 - (share of the merger that the filters fill together)

Attributes are taken as independent, the kinds of values of an attribute as equally likely, and the values of a
kind as spread evenly: over the merger's own extent where that is bounded (two boxes in a larger one fill what
their areas say), else over the whole kind. A number line without end is squeezed into a finite one around the
constants that occur; a single number or word weighs a thousandth of its kind, a text pattern halves with every
character, an element of a set is there or not with equal chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from typing import Any, Final

from fairlead.filters.extents.extent import ALL, BooleanExtent, Extent
from fairlead.filters.extents.numbers import NumberExtent, Span
from fairlead.filters.extents.sets import SetExtent
from fairlead.filters.extents.strings import BytesExtent, StringExtent
from fairlead.filters.normal import Conjunction

__all__ = ["estimated"]

_EXACT_UNION_MAX: Final = 8
"""Up to this many filters are united by inclusion and exclusion; more are taken as independent."""
_SINGLE: Final = 0.001
"""The weight of one number or one word within its kind."""
_FAR: Final = 10**100


class _Whole:
    """The demand of a merger on one term, measured once for all of its parts."""

    __slots__ = ("_sizes", "extent")

    def __init__(self, extent: Extent) -> None:
        self.extent = extent
        self._sizes: dict[Any, tuple[int | None, float | None, float]] = {}

    def share(self, part: Extent) -> float:
        weights = [
            self._within(kind, part.pieces.get(kind), piece) for kind, piece in self.extent.pieces.items()
        ]
        return sum(weights) / len(weights) if weights else 0.0

    def _within(self, kind: Any, part: Any, whole: Any) -> float:
        if part is None:
            return 0.0
        if part is whole:
            return 1.0
        if isinstance(whole, NumberExtent) and isinstance(part, NumberExtent):
            return self._of_numbers(kind, part, whole)
        return min(1.0, _weight(part) / _weight(whole))

    def _of_numbers(self, kind: Any, part: NumberExtent, whole: NumberExtent) -> float:
        if kind not in self._sizes:
            spans, scale = whole.intervals, _scale(whole)
            bounded = spans[0].lo is not None and spans[-1].hi is not None
            self._sizes[kind] = whole.size(), _length(spans) if bounded else None, scale
        size, length, scale = self._sizes[kind]
        if size is not None:
            return (part.size() or 0) / size
        if length is None:
            return min(1.0, _squeezed(part, scale) / _squeezed(whole, scale))
        return _length(part.intervals) / length if length else 1.0


def estimated(merged: Conjunction, parts: Sequence[Conjunction]) -> float:
    """One minus the share of the merger that the union of the parts fills."""
    wholes = {term: _Whole(extent) for term, extent in merged.extents.items()}

    def share(some: Sequence[Conjunction]) -> float:
        common = some[0]
        for part in some[1:]:
            common = common & part
        literals = len(set(common.literals) - set(merged.literals))
        return prod(
            (
                wholes[term].share(extent) if term in wholes else _share_of_all(extent)
                for term, extent in common.extents.items()
            ),
            start=float(0.5**literals),
        )

    single = [share([part]) for part in parts]
    if len(parts) > _EXACT_UNION_MAX:
        wanted = 1.0 - prod(1.0 - one for one in single)
    else:
        wanted = sum(
            (-1) ** (size + 1) * sum(share(some) for some in combinations(parts, size))
            for size in range(1, len(parts) + 1)
        )
    return 1.0 - min(1.0, max(wanted, *single))


def _share_of_all(part: Extent) -> float:
    """The share that a part has of all values, where the merger asks for nothing."""
    weights = [_weight(piece) for piece in part.pieces.values()]
    return sum(weights) / len(weights) if weights else 0.0


def _length(spans: Sequence[Span]) -> float:
    return sum(_float(span.hi) - _float(span.lo) for span in spans)


def _scale(piece: NumberExtent) -> float:
    """The size of the numbers that an extent is about."""
    bounds = [_float(end) for span in piece.intervals for end in (span.lo, span.hi) if end is not None]
    return max([abs(bound) for bound in bounds] + [1.0])


def _squeezed(piece: NumberExtent, scale: float) -> float:
    """The share of the number line, squeezed so that numbers of that size are half way out, that is filled."""

    def coordinate(end: Any, infinite: float) -> float:
        if end is None:
            return infinite
        offset = _float(end) / scale
        return 0.5 + 0.5 * offset / (1.0 + abs(offset))

    total = sum(coordinate(span.hi, 1.0) - coordinate(span.lo, 0.0) for span in piece.intervals)
    return max(total, _SINGLE)


def _weight(piece: Any) -> float:
    """The share of its kind that a piece takes up."""
    match piece:
        case _ if piece is ALL:
            return 1.0
        case NumberExtent():
            size = piece.size()
            return min(1.0, _SINGLE * size) if size is not None else _squeezed(piece, _scale(piece))
        case BooleanExtent():
            return len(piece.members) / 2
        case StringExtent() | BytesExtent():
            return _text_weight(piece.form)
        case SetExtent():
            return _set_weight(piece.form)
    return 0.5


def _text_weight(form: Any) -> float:
    match form:
        case ("words", words):
            return min(1.0, _SINGLE * len(words))
        case ("not words", _):
            return 1.0
        case ("prefix" | "suffix" | "substring", word):
            return max(_SINGLE, float(0.5 ** len(word)))
    return 0.5


def _set_weight(form: Any) -> float:
    match form:
        case ("superset" | "disjoint", keys):
            return float(0.5 ** len(keys))
        case ("overlaps", keys):
            return 1.0 - float(0.5 ** len(keys))
    return 0.5


def _float(number: Any) -> float:
    """Near enough; numbers beyond any float are at its far end, with room to add them up."""
    return float(max(-_FAR, min(_FAR, number)))
