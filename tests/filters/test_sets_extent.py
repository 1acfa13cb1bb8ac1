"""Set extents against enumeration: all subsets of four named elements and one fresh element.

One fresh element is enough: constraints tell members apart only by the named elements and by whether there
are others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import Undecided
from fairlead.filters.extents.sets import SetExtent

NAMED = "abcd"
FRESH = "new"
Value = frozenset[str]


def subsets(elements: Iterable[str]) -> list[Value]:
    pool = list(elements)
    return [frozenset(c) for n in range(len(pool) + 1) for c in combinations(pool, n)]


VALUES = subsets([*NAMED, FRESH])
SETS = subsets(NAMED)

MEANING: dict[str, Callable[[Value, Value], bool]] = {
    "subset": lambda x, m: x <= m,
    "superset": lambda x, m: x >= m,
    "disjoint": lambda x, m: not x & m,
    "overlaps": lambda x, m: bool(x & m),
    "equals": lambda x, m: x == m,
}


def meaning(name: str, value: Value, elements: Value) -> bool:
    if name.startswith("not "):
        return not MEANING[name.removeprefix("not ")](value, elements)
    return MEANING[name](value, elements)


def made(name: str, elements: Iterable[str]) -> SetExtent:
    extent: SetExtent = getattr(SetExtent, name)(elements)
    return extent


def members(extent: SetExtent) -> set[Value]:
    return {value for value in VALUES if value in extent}


def fresh(named: frozenset[object]) -> str:
    assert FRESH not in named
    return FRESH


singles = st.builds(made, st.sampled_from(sorted(MEANING)), st.sampled_from(SETS))
combined = st.recursive(
    singles,
    lambda inner: (
        st.tuples(inner, inner).map(lambda p: p[0] | p[1])
        | st.tuples(inner, inner).map(lambda p: p[0] & p[1])
        | inner.map(lambda e: ~e)
    ),
    max_leaves=8,
)


def test_a_constraint_means_what_it_says() -> None:
    for name, elements in product(MEANING, SETS):
        extent = made(name, elements)
        assert members(extent) == {v for v in VALUES if meaning(name, v, elements)}
        assert members(~extent) == set(VALUES) - members(extent)


def test_every_pair_of_constraints_is_related_exactly() -> None:
    rows = [
        (made(name, elements), {v for v in VALUES if meaning(name, v, elements)})
        for name in MEANING
        for elements in SETS
    ]
    for (a, in_a), (b, in_b) in product(rows, rows):
        assert a.covers(b) == (in_a >= in_b)
        assert (a & b).is_empty() == (not in_a & in_b)
        assert (a == b) == (in_a == in_b)


@settings(max_examples=150)
@given(combined, combined)
def test_the_operations_are_those_of_membership(a: SetExtent, b: SetExtent) -> None:
    in_a, in_b = members(a), members(b)
    assert members(a & b) == in_a & in_b
    assert members(a | b) == in_a | in_b
    assert members(~a) == set(VALUES) - in_a


@settings(max_examples=150)
@given(combined, combined)
def test_relations_of_any_combination_are_exact(a: SetExtent, b: SetExtent) -> None:
    in_a, in_b = members(a), members(b)
    assert a.covers(b) == (in_a >= in_b)
    assert a.is_empty() == (not in_a)
    assert a.is_full() == (len(in_a) == len(VALUES))
    assert a != b or in_a == in_b
    assert (a | ~a) == SetExtent.everything()
    assert (a & ~a) == SetExtent.nothing()


@settings(max_examples=150)
@given(combined)
def test_a_witness_is_a_member_or_there_is_none(a: SetExtent) -> None:
    witness = a.witness(fresh)
    assert (witness is None) == (not members(a))
    assert witness is None or witness in a


@settings(max_examples=150)
@given(combined)
def test_an_extent_is_the_or_of_the_ands_it_lists(a: SetExtent) -> None:
    listed = a.alternatives()
    in_listed = {
        v for v in VALUES if any(all(meaning(n, v, frozenset(map(str, m))) for n, m in c) for c in listed)
    }
    assert in_listed == members(a)
    if a.form is not None:
        name, elements = a.form
        assert {v for v in VALUES if meaning(name, v, frozenset(map(str, elements)))} == members(a)


def test_constraints_on_one_element_have_one_normal_form() -> None:
    has = SetExtent.contains("a")
    assert has == SetExtent.superset("a") == SetExtent.overlaps("a") == ~SetExtent.lacks("a")
    assert hash(has) == hash(SetExtent.overlaps("a"))
    assert SetExtent.lacks("a") == SetExtent.disjoint("a") == ~SetExtent.superset("a")


def test_constraints_on_no_element_are_trivial() -> None:
    assert SetExtent.superset("") == SetExtent.disjoint("") == SetExtent.everything()
    assert SetExtent.overlaps("") == SetExtent.nothing()
    assert SetExtent.subset("") == SetExtent.equals("")


@pytest.mark.parametrize("name", ["subset", "superset", "disjoint", "overlaps", "equals"])
def test_a_single_constraint_is_printed_as_itself(name: str) -> None:
    elements = frozenset("ab")
    negated = {"disjoint": "overlaps", "overlaps": "disjoint"}.get(name, f"not {name}")
    assert made(name, elements).form == (name, elements)
    assert (~made(name, elements)).form == (negated, elements)


def test_a_conjunction_lists_its_constraints() -> None:
    both = SetExtent.superset("a") & SetExtent.overlaps("bc") & ~SetExtent.superset("bcd")
    assert both.form is None
    assert both.alternatives() == (
        (("not superset", frozenset("bcd")), ("overlaps", frozenset("bc")), ("superset", frozenset("a"))),
    )
    assert SetExtent.everything().alternatives() == ((),)
    assert SetExtent.nothing().alternatives() == ()


def test_overlaps_merge_by_table_3_8() -> None:
    assert SetExtent.overlaps("ab") | SetExtent.overlaps("bc") == SetExtent.overlaps("abc")


def test_table_3_8_lets_1_2_through_when_it_merges_disjoint_constraints() -> None:
    """The table calls disjoint (M1 & M2) a perfect merger of disjoint M1 and disjoint M2; it lets in more."""
    both = SetExtent.disjoint({1, 3}) | SetExtent.disjoint({2, 3})
    table = SetExtent.disjoint({3})
    assert table.covers(both)
    assert not both.covers(table)
    assert {1, 2} in table
    assert {1, 2} not in both
    assert both == table & ~SetExtent.superset({1, 2})


def test_table_3_8_lets_1_2_through_when_the_sets_have_nothing_in_common() -> None:
    either = SetExtent.disjoint({1}) | SetExtent.disjoint({2})
    assert not either.is_full()
    assert (~either).witness() == frozenset({1, 2})


def test_witnesses_are_small_and_a_fresh_element_is_asked_for_only_where_needed() -> None:
    assert SetExtent.everything().witness() == frozenset()
    assert (
        SetExtent.overlaps("ab") & SetExtent.overlaps("bc") & SetExtent.overlaps("bd")
    ).witness() == frozenset({"b"})
    assert (~SetExtent.subset("ab")).witness(lambda named: ("new", len(named))) == frozenset({("new", 2)})
    assert (~SetExtent.subset({0, 1})).witness() == frozenset({2})


def test_a_value_that_is_no_set_is_no_member() -> None:
    assert "ab" not in SetExtent.everything()


def test_sets_of_ten_thousand_elements_are_no_burden() -> None:
    many, more = (
        [getattr(SetExtent, name)(m) for name in sorted(MEANING)]
        for m in (range(10_000), range(5_000, 15_000))
    )
    related = 0
    for a, b in product([*many, *map(operator.invert, many)], [*more, *map(operator.invert, more)]):
        witness = (a & b).witness()
        assert witness is None or witness in a
        related += a.covers(b) + (a | b).is_full()
    assert related > 0


def test_ten_thousand_alternatives_are_no_burden() -> None:
    parts = [SetExtent.superset({n, n + 1}) for n in range(10_000)]
    while len(parts) > 1:
        parts = [a | b for a, b in zip(parts[::2], [*parts[1::2], SetExtent.nothing()], strict=False)]
    (union,) = parts
    assert union.covers(SetExtent.superset({7, 8, 9}))
    assert not union.covers(SetExtent.superset({7}))
    assert union & SetExtent.subset({1, 2}) == SetExtent.equals({1, 2})


def test_constraints_too_entangled_are_undecided_not_endless() -> None:
    # n + 1 pigeons in n holes: X holds (pigeon, hole) pairs, and the search has no short refutation.
    holes = range(9)
    pigeons = range(10)
    housed = SetExtent.everything()
    for pigeon in pigeons:
        housed &= SetExtent.overlaps({(pigeon, hole) for hole in holes})
    shared = SetExtent.nothing()
    for hole in holes:
        for a, b in combinations(pigeons, 2):
            shared |= SetExtent.superset({(a, hole), (b, hole)})
    with pytest.raises(Undecided):
        shared.covers(housed)
