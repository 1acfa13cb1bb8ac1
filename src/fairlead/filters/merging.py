"""Merging: one filter that covers several (book 3.1.2, Table 3.8).

    a merger covers every filter it was made from
    a perfect merger lets in nothing more: it is identical to their disjunction

Filters that differ in one attribute only merge perfectly, by joining that attribute's extents: sets unite,
connected intervals grow together, a constraint and its complement become `exists`. Others merge imperfectly:
each attribute gets the join of what the filters ask of it, and attributes that only some constrain are
dropped. How much such a merger lets in too much is estimated, and bounded by the caller.

The estimate is the share of the merger that none of the filters wanted, with attributes taken as independent
and the values of each as spread evenly over the merger's extent (a number line without end is squeezed into a
finite one around the constants that occur). With a sample of notifications it is measured instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any, Final

from fairlead.errors import Undecided
from fairlead.filters.algebra import Algebra, algebra_for
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.extensions.relations import constraint_merge
from fairlead.filters.extents.extent import ALL, BooleanExtent, Extent, union
from fairlead.filters.extents.numbers import NumberExtent
from fairlead.filters.extents.sets import SetExtent
from fairlead.filters.extents.strings import BytesExtent, StringExtent
from fairlead.filters.filter import NOTHING, Filter, Or, Tested
from fairlead.filters.normal import Conjunction, Literal
from fairlead.filters.schema import Schema
from fairlead.filters.simplify import conjunction_filter
from fairlead.filters.terms import Term
from fairlead.model import Notification

__all__ = ["Merger", "merge"]

_EXACT_UNION_MAX: Final = 8
"""Up to this many filters the estimate uses inclusion and exclusion; beyond, a bound."""


@dataclass(frozen=True, slots=True)
class Merger:
    """A filter that covers others, and the share of it that none of them wanted."""

    filter: Filter
    perfect: bool
    imperfection: float = 0.0


def merge(
    filters: Iterable[Filter],
    schema: Schema | None = None,
    *,
    imperfection_max: float = 0.0,
    sample: Sequence[Notification] = (),
) -> Merger | None:
    """One conjunctive filter that covers all, or None where there is none within the bound."""
    given = list(filters)
    algebra = algebra_for(schema)
    normals = [algebra.normal(filter) for filter in given]
    for one in normals:
        if all(algebra.covers(one, other) for other in normals):
            return Merger(one.filter, True)
    if any(normal.conjunctions is None for normal in normals):
        return None
    parts = merge_perfectly((c for normal in normals for c in normal.conjunctions or ()), algebra)
    if not parts:
        return Merger(NOTHING, True)
    if len(parts) == 1:
        return Merger(_spelled(parts[0], algebra, given), True)
    merged = _hull(parts)
    share = _measured(merged, given, sample, algebra) if sample else _estimated(merged, parts)
    if share > imperfection_max:
        return None
    return Merger(_spelled(merged, algebra, given), False, share)


def merge_perfectly(conjunctions: Iterable[Conjunction], algebra: Algebra) -> list[Conjunction]:
    """The same disjunction with as few conjunctions as joining one term at a time gets to."""
    left = list(dict.fromkeys(conjunctions))
    while True:
        joined = _join_literals(_join_extents(_absorbed(left, algebra)), algebra)
        if len(joined) == len(left):
            return joined
        left = joined


def _absorbed(conjunctions: list[Conjunction], algebra: Algebra) -> list[Conjunction]:
    """Without those that another one covers."""
    kept: list[Conjunction] = []
    for one in conjunctions:
        if any(algebra.covers_one(other, one) for other in kept):
            continue
        kept = [other for other in kept if not algebra.covers_one(one, other)]
        kept.append(one)
    return kept


def _join_extents(conjunctions: list[Conjunction]) -> list[Conjunction]:
    """Conjunctions alike in all but one term become one, with the extents of that term joined."""
    left = dict.fromkeys(conjunctions)
    groups: dict[Any, list[Conjunction]] = {}
    for one in conjunctions:
        for term in one.extents:
            groups.setdefault(all_but(one, term), []).append(one)
    for (term, _, _), group in groups.items():
        alike = [one for one in group if one in left]
        if len(alike) < 2:
            continue
        for one in alike:
            del left[one]
        left[alike[0].with_extent(term, union(one.extents[term] for one in alike))] = None
    return list(left)


def all_but(one: Conjunction, term: Term) -> tuple[Term, frozenset[Any], frozenset[Literal]]:
    """A key that conjunctions share which are alike in all but one term."""
    others = frozenset((other, extent) for other, extent in one.extents.items() if other != term)
    return term, others, frozenset(one.literals)


def _join_literals(conjunctions: list[Conjunction], algebra: Algebra) -> list[Conjunction]:
    """Conjunctions alike in all but one literal each, where whoever brought the literals can merge them."""
    left = list(conjunctions)
    for i, one in enumerate(left):
        for other in left[:i]:
            if one.extents == other.extents and (joined := _joined_literal(one, other)) is not None:
                rest = [c for c in left if c is not one and c is not other]
                return [*rest, joined]
    return left


def _joined_literal(one: Conjunction, other: Conjunction) -> Conjunction | None:
    mine = [literal for literal in one.literals if literal not in other.literals]
    theirs = [literal for literal in other.literals if literal not in one.literals]
    if len(mine) != 1 or len(theirs) != 1 or not (mine[0].positive and theirs[0].positive):
        return None
    merged = _merged_leaf(mine[0].leaf, theirs[0].leaf)
    if merged is None:
        return None
    common = (literal for literal in one.literals if literal is not mine[0])
    return Conjunction(one.extents, (*common, Literal(merged)))


def _merged_leaf(one: Filter, other: Filter) -> Filter | None:
    match one, other:
        case Constraint(op=Op.EXTENDED), Constraint(op=Op.EXTENDED) if one.term == other.term:
            return constraint_merge(one, other)
        case Tested(), Tested() if one.name == other.name and hasattr(one.test, "merge"):
            test = one.test.merge([one.test, other.test])
            return None if test is None else Tested(one.name, tuple(test.arguments), test)
    return None


def _hull(conjunctions: list[Conjunction]) -> Conjunction:
    """The least product of extents that covers all: what all constrain, joined term by term."""
    first, *others = conjunctions
    terms = [term for term in first.extents if all(term in other.extents for other in others)]
    literals = [literal for literal in first.literals if all(literal in other.literals for other in others)]
    return Conjunction({term: union(c.extents[term] for c in conjunctions) for term in terms}, literals)


def _spelled(conjunction: Conjunction, algebra: Algebra, given: list[Filter]) -> Filter:
    try:
        return conjunction_filter(conjunction, algebra)
    except Undecided:  # an extent without a spelling of its own
        return Or.of(given)


# -- how much too much -------------------------------------------------------------------------------------


def _measured(
    merged: Conjunction, given: list[Filter], sample: Sequence[Notification], algebra: Algebra
) -> float:
    let_in = [n for n in sample if _spelled(merged, algebra, given).matches(n)]
    unwanted = sum(not any(filter.matches(n) for filter in given) for n in let_in)
    return unwanted / len(let_in) if let_in else 0.0


def _estimated(merged: Conjunction, parts: list[Conjunction]) -> float:
    """One minus the share of the merger that the union of the parts fills."""
    terms = {term for part in parts for term in part.extents}
    scales = {
        term: _Scale(union(part.extents[term] for part in parts if term in part.extents)) for term in terms
    }

    def share(some: Sequence[Conjunction]) -> float:
        common = some[0]
        for part in some[1:]:
            common = common & part
        literals = len(set(common.literals) - set(merged.literals))
        return prod(
            _ratio(scales[term], common.extents[term], merged.extents.get(term)) for term in common.extents
        ) * float(0.5**literals)

    single = [share([part]) for part in parts]
    if len(parts) > _EXACT_UNION_MAX:
        wanted = sum(single)
    else:
        wanted = sum(
            (-1) ** (size + 1) * sum(share(some) for some in combinations(parts, size))
            for size in range(1, len(parts) + 1)
        )
    return 1.0 - min(1.0, max(wanted, *single))


def _ratio(scale: _Scale, part: Extent, whole: Extent | None) -> float:
    total = scale.weight(whole) if whole is not None else scale.everything
    return min(1.0, scale.weight(part) / total) if total else 1.0


class _Scale:
    """Weights for the extents of one term, even over what the filters ask of it."""

    def __init__(self, asked: Extent) -> None:
        self._spread: dict[Any, tuple[float, float]] = {}
        self._counted: dict[Any, bool] = {}
        for kind, piece in asked.pieces.items():
            if isinstance(piece, NumberExtent):
                bounds = [
                    float(end) for span in piece.intervals for end in (span.lo, span.hi) if end is not None
                ]
                centre = sum(bounds) / len(bounds)
                self._spread[kind] = centre, max([abs(bound - centre) for bound in bounds] + [1.0])
                self._counted[kind] = piece.size() is not None
        self.everything = max(1.0, 2.0 * self.weight(asked))
        """What a term weighs that the merger leaves free: twice as much as was asked for."""

    def weight(self, extent: Extent) -> float:
        return sum(self._piece(kind, piece) for kind, piece in extent.pieces.items())

    def _piece(self, kind: Any, piece: Any) -> float:
        match piece:
            case NumberExtent():
                return self._numbers(kind, piece)
            case BooleanExtent():
                return len(piece.members) / 2
            case StringExtent() | BytesExtent():
                return _text_weight(piece)
            case SetExtent():
                return _set_weight(piece)
            case _ if piece is ALL:
                return 2.0
        return 0.5

    def _numbers(self, kind: Any, piece: NumberExtent) -> float:
        if self._counted.get(kind) and (size := piece.size()) is not None:
            return float(size)
        centre, scale = self._spread.get(kind, (0.0, 1.0))

        def squeezed(end: Any, infinite: float) -> float:
            if end is None:
                return infinite
            offset = (float(end) - centre) / scale
            return offset / (1.0 + abs(offset))

        return sum(squeezed(span.hi, 1.0) - squeezed(span.lo, -1.0) for span in piece.intervals)


def _text_weight(piece: Any) -> float:
    match piece.form:
        case ("words", words):
            return 0.001 * len(words)
        case ("prefix" | "suffix" | "substring", word):
            return float(0.5 ** len(word))
    return 0.5


def _set_weight(piece: SetExtent) -> float:
    match piece.form:
        case ("superset" | "disjoint", keys):
            return float(0.5 ** len(keys))
        case ("overlaps", keys):
            return 1.0 - float(0.5 ** len(keys))
    return 0.5
