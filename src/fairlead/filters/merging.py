"""Merging: one filter that covers several (book 3.1.2, Table 3.8).

    a merger covers every filter it was made from
    a perfect merger lets in nothing more: it is identical to their disjunction

Filters that differ in one attribute only merge perfectly, by joining that attribute's extents: sets unite,
connected intervals grow together, a constraint and its complement become `exists`. Path filters that differ in the
condition of one path only merge perfectly, too: the condition becomes a disjunction. Others merge imperfectly:
each attribute gets the join of what the filters ask of it, and attributes that only some constrain are
dropped. How much such a merger lets in too much is estimated, and bounded by the caller.

The estimate (see `imperfection`) is the share of the merger that none of the filters wanted. With a sample of
notifications it is measured instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead.errors import Undecided
from fairlead.filters.algebra import Algebra, Normal, algebra_for
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.extensions.classes import merge_objects
from fairlead.filters.extensions.relations import constraint_merge
from fairlead.filters.extents.extent import union
from fairlead.filters.filter import NOTHING, Filter, Or, Tested
from fairlead.filters.imperfection import estimated
from fairlead.filters.normal import Conjunction, Literal
from fairlead.filters.paths import Selection, is_path_filter
from fairlead.filters.schema import Schema
from fairlead.filters.simplify import conjunction_filter
from fairlead.filters.terms import Term
from fairlead.model import Notification

__all__ = ["Merger", "merge"]

ABSORBED_MAX: Final = 400
"""Up to this many conjunctions each is compared with each."""


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
    """One conjunctive filter that covers all, or None where there is none within the bound.

    With a bound of 0 only a perfect merger will do: an estimate of 0 does not make a merger perfect.
    """
    given = list(filters)
    algebra = algebra_for(schema)
    normals = [algebra.normal(filter) for filter in given]
    widest = _widest(normals, algebra)
    if widest is not None:
        return Merger(widest.filter, True)
    if any(normal.conjunctions is None for normal in normals):
        return None
    try:
        parts = merge_perfectly((c for normal in normals for c in normal.conjunctions or ()), algebra)
        merged = _hull(parts) if parts else None
        if merged is None:
            return Merger(NOTHING, True)
        spelled = conjunction_filter(merged, algebra)
    except Undecided:  # an extent that costs too much, or has no spelling of its own
        return None
    if len(parts) == 1 or algebra.covers(Or.of(given), spelled):
        return Merger(spelled, True)
    if imperfection_max <= 0:
        return None
    share = _measured(spelled, given, sample) if sample else estimated(merged, parts)
    return Merger(spelled, False, share) if share <= imperfection_max else None


def _widest(normals: list[Normal], algebra: Algebra) -> Normal | None:
    """One of the filters that covers all of them, if there is one."""
    if not normals:
        return None
    widest = normals[0]
    for normal in normals:
        if not algebra.covers(widest, normal):
            widest = normal
    return widest if all(algebra.covers(widest, normal) for normal in normals) else None


def merge_perfectly(conjunctions: Iterable[Conjunction], algebra: Algebra) -> list[Conjunction]:
    """The same disjunction with as few conjunctions as joining one term at a time gets to."""
    left = list(dict.fromkeys(conjunctions))
    while True:
        joined = _join_extents(left)
        if len(joined) <= ABSORBED_MAX:
            joined = algebra.absorbed(joined)
        joined = _join_literals(joined)
        if len(joined) == len(left):
            return joined
        left = joined


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


def _join_literals(conjunctions: list[Conjunction]) -> list[Conjunction]:
    """Conjunctions alike in all but one literal each, where whoever brought the literals can merge them."""
    alike: dict[Any, list[Conjunction]] = {}
    for one in conjunctions:
        group = alike.setdefault((frozenset(one.extents.items()), len(one.literals)), [])
        for index, other in enumerate(group):
            joined = _joined_literal(other, one)
            if joined is not None:
                group[index] = joined
                break
        else:
            group.append(one)
    return [one for group in alike.values() for one in group]


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
        case Constraint(op=Op.GE, operand=1), Constraint(op=Op.GE, operand=1):
            return _merged_paths(one, other)
        case Tested(), Tested():
            return merge_objects((one, other))
    return None


def _merged_paths(one: Constraint, other: Constraint) -> Constraint | None:
    """Of two filters on the same path, one with either condition: an element meets it iff it meets one of them.

    That holds of path filters, which ask for one element; of counts it does not hold.
    """
    mine, theirs = one.term, other.term
    if not (is_path_filter(one) and is_path_filter(other)):
        return None
    assert isinstance(mine, Selection)
    assert isinstance(theirs, Selection)
    if mine.path != theirs.path:
        return None
    # The conditions stay as they are: the relations know of a disjunction that it is two path filters.
    return Constraint(Selection(mine.path, Or.of((mine.condition, theirs.condition))), Op.GE, 1)


def _hull(conjunctions: list[Conjunction]) -> Conjunction:
    """The least product of extents that covers all: what all constrain, joined term by term."""
    first, *others = conjunctions
    terms = [term for term in first.extents if all(term in other.extents for other in others)]
    literals = [literal for literal in first.literals if all(literal in other.literals for other in others)]
    return Conjunction({term: union(c.extents[term] for c in conjunctions) for term in terms}, literals)


# -- how much too much -------------------------------------------------------------------------------------


def _measured(merged: Filter, given: list[Filter], sample: Sequence[Notification]) -> float:
    """The share of the sampled notifications that the merger lets in and none of the filters wanted."""
    let_in = [n for n in sample if merged.matches(n)]
    unwanted = sum(not any(filter.matches(n) for filter in given) for n in let_in)
    return unwanted / len(let_in) if let_in else 0.0
