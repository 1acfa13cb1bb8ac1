"""The poset against testing all pairs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.filters import Filter, Schema, covers, parse
from fairlead.filters.poset import Poset
from fairlead.model import Notification
from fairlead.testing import conjunctions, filters, notifications

COUNT = settings.default.max_examples


def poset_of(some: list[Filter]) -> Poset[int]:
    poset: Poset[int] = Poset()
    for number, one in enumerate(some):
        poset.add(number, one)
    return poset


def check_order(poset: Poset[int]) -> None:
    """Edges, roots and classes are those of the covering relation, computed by testing all pairs."""
    ids = list(poset)
    above = {(a, b): covers(poset[a], poset[b]) and not covers(poset[b], poset[a]) for a in ids for b in ids}
    for b in ids:
        parents = {a for a in ids if above[a, b]}
        nearest = {a for a in parents if not any(above[a, c] for c in parents)}
        assert set(poset.parents(b)) == nearest
        assert set(poset.equals(b)) == {
            a for a in ids if covers(poset[a], poset[b]) and covers(poset[b], poset[a])
        }
        assert all(b in poset.children(a) for a in nearest)
    assert set(poset.roots()) == {b for b in ids if not any(above[a, b] for a in ids)}


@given(st.lists(conjunctions(), max_size=8))
@settings(max_examples=COUNT)
def test_edges_and_roots_are_those_of_the_covering_relation(some: list[Filter]) -> None:
    check_order(poset_of(some))


@given(st.lists(conjunctions(), min_size=1, max_size=8), st.data())
@settings(max_examples=COUNT)
def test_removing_brings_up_what_was_covered(some: list[Filter], data: st.DataObject) -> None:
    poset = poset_of(some)
    for number in data.draw(st.permutations(range(len(some))))[: data.draw(st.integers(0, len(some)))]:
        assert poset.remove(number) == some[number]
    check_order(poset)


@given(st.lists(filters(), max_size=6), filters(), notifications())
@settings(max_examples=COUNT)
def test_lookups_are_those_of_testing_all(some: list[Filter], one: Filter, n: Notification) -> None:
    poset = poset_of(some)
    assert poset.matching(n) == [i for i, f in enumerate(some) if f.matches(n)]
    assert set(poset.covered_by(one)) <= {i for i, f in enumerate(some) if covers(one, f)}
    assert set(poset.covering(one)) <= {i for i, f in enumerate(some) if covers(f, one)}


@given(st.lists(conjunctions(), max_size=8), conjunctions(), notifications())
@settings(max_examples=COUNT)
def test_in_the_exact_class_lookups_find_all(some: list[Filter], one: Filter, n: Notification) -> None:
    poset = poset_of(some)
    assert set(poset.matching(n)) == {i for i, f in enumerate(some) if f.matches(n)}
    assert set(poset.covered_by(one)) == {i for i, f in enumerate(some) if covers(one, f)}
    assert set(poset.covering(one)) == {i for i, f in enumerate(some) if covers(f, one)}


@given(st.lists(conjunctions(), max_size=8), st.data())
@settings(max_examples=COUNT)
def test_placing_tells_what_covers_and_what_is_covered(some: list[Filter], data: st.DataObject) -> None:
    poset: Poset[int] = Poset()
    there: dict[int, Filter] = {}
    for number, one in enumerate(some):
        above = [i for i, f in there.items() if covers(f, one)]
        below = [i for i, f in there.items() if covers(one, f)]
        assert poset.insert(number, one) == (above, below)
        there[number] = one
        if data.draw(st.booleans()):
            del there[number]
            poset.remove(number)
    check_order(poset)


@given(st.lists(filters(), max_size=6))
@settings(max_examples=COUNT)
def test_placing_answers_as_the_lookups_do(some: list[Filter]) -> None:
    poset: Poset[int] = Poset()
    for number, one in enumerate(some):
        above, below = poset.covering(one), poset.covered_by(one)
        inserted = poset.insert(number, one)
        assert inserted[0] == above
        assert set(below) <= set(inserted[1]) <= {*below, *poset.equals(number)}
        assert not {number} & {*inserted[0], *inserted[1]}


ROWS = st.one_of(
    st.integers(0, 9).map(lambda n: f"x > {n}"),
    st.integers(0, 9).map(lambda n: f"x < {n}"),
    st.integers(0, 9).map(lambda n: f"x = {n}"),
    st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda pair: f"x in [{min(pair)}, {max(pair)}]"),
    st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda pair: f"x > {pair[0]} and y > {pair[1]}"),
    st.tuples(st.integers(0, 9), st.integers(0, 2)).map(lambda pair: f"x > {pair[0]} or y = {pair[1]}"),
    st.text("ab", max_size=3).map(lambda text: f's prefix "{text}"'),
    st.sets(st.integers(0, 3), min_size=1).map(lambda some: f"x in {{{', '.join(map(str, sorted(some)))}}}"),
    st.sampled_from(("exists x", "not x > 4", "x > 5 and x < 3", "true")),
).map(parse)
"""Filters of which many are nested in others: thresholds, intervals, prefixes, sets; some are disjunctions."""


@given(st.lists(st.tuples(ROWS, st.integers(0, 20)), max_size=14))
@settings(max_examples=COUNT)
def test_the_order_is_that_of_all_pairs_whoever_comes_and_goes(plan: list[tuple[Filter, int]]) -> None:
    poset: Poset[int] = Poset()
    for number, (one, leaving) in enumerate(plan):
        poset.add(number, one)
        if leaving in poset:
            poset.remove(leaving)
    ids = list(poset)
    related = {(a, b) for a in ids for b in ids if covers(poset[a], poset[b])}
    assert {(a, b) for a in ids for b in ids if poset.covers(a, b)} == related
    for one in ids:
        above, below = ({a for a in ids if (a, one) in related}, {b for b in ids if (one, b) in related})
        assert sorted(poset.above(one)) == sorted(above)
        assert sorted(poset.below(one)) == sorted(below)
        assert sorted(poset.identical(one)) == sorted(above & below) == sorted(poset.equals(one))
        assert poset.depth(one) <= len(above)
        assert poset.height(one) <= len(below)
    check_order(poset)
    for x in (0, 2.5, 5, 9):
        n = Notification.of({"x": x, "y": 1, "s": "ab"})
        assert poset.matching(n) == [one for one in ids if poset[one].matches(n)]


@pytest.mark.parametrize("shuffled", [False, True])
def test_nested_filters_take_few_tests_and_no_relations(shuffled: bool) -> None:
    thresholds = [f"price > {n}" for n in range(500)]
    others = [f'symbol = "S{n % 20}" and price > {n}' for n in range(200)]
    texts = [*thresholds, *others]
    if shuffled:
        random.Random(5).shuffle(texts)
    poset = poset_of([parse(text) for text in texts])
    assert poset.statistics().tests < 30 * len(texts)
    # A row has no relations; each of the others has the one to the lowest threshold above it.
    assert sum(poset.links(number) for number in poset) <= 2 * len(others)
    for number, text in enumerate(texts):
        if text in thresholds:
            assert poset.depth(number) == thresholds.index(text) + 1


def test_placing_an_identical_filter_names_it_on_both_sides() -> None:
    poset = poset_of([parse("x > 1"), parse("x > 2"), parse("x > 3")])
    assert poset.insert(3, parse("not x <= 2 and x > 2.0")) == ([0, 1], [1, 2])
    with pytest.raises(KeyError, match="already"):
        poset.insert(3, parse("x > 2"))


def test_merge_candidates_differ_in_one_attribute() -> None:
    poset = poset_of(
        [
            parse("x = 5 and y in {2, 3}"),
            parse("x = 6 and y in {4, 5}"),
            parse("x = 5 and y = 3 and z = 1"),
            parse("x = 5"),
            parse("x in [5, 5] and y > 7"),
        ]
    )
    assert poset.merge_candidates(parse("x = 5 and y in {4, 5}")) == [0, 1, 4]


def test_unsubscribing_the_cover_brings_the_covered_back() -> None:
    poset = poset_of([parse("x > 1"), parse("x > 2"), parse("x > 3"), parse("y = 1")])
    assert poset.roots() == [0, 3]
    poset.remove(0)
    assert poset.roots() == [1, 3]
    assert poset.children(1) == [2]


def test_the_order_is_shown_as_a_tree() -> None:
    poset = poset_of([parse("x > 1"), parse("x > 2"), parse("x > 1.0"), parse("x > 2 and y = 1")])
    assert poset.show() == "0, 2: x > 1\n  1: x > 2\n    3: x > 2 and y = 1"


def test_a_schema_decides_what_is_identical() -> None:
    poset: Poset[str] = Poset(Schema(types={}, attributes={"price": "int"}))
    poset.add("set", parse("price in {20, 21, 22, 23, 24, 25}"))
    poset.add("range", parse("price in [20, 25]"))
    assert poset.equals("set") == ["set", "range"]


def sample_filter(rng: random.Random) -> str:
    """Subscriptions as they come: a symbol or a few, a range of prices, sometimes a sector."""
    parts = [f'type = "{rng.choice(["quote", "order", "news"])}"']
    if rng.random() < 0.8:
        parts.append(f'symbol = "S{rng.randrange(300)}"')
    if rng.random() < 0.7:
        low = rng.randrange(0, 1000)
        parts.append(f"price in [{low}, {low + rng.randrange(1, 200)}]")
    if rng.random() < 0.3:
        parts.append(f"volume > {rng.randrange(0, 1000)}")
    return " and ".join(parts)


@pytest.mark.parametrize("size", [4_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_thousands_of_filters_need_far_fewer_tests_than_there_are_pairs(size: int) -> None:
    rng = random.Random(7)
    poset: Poset[int] = Poset()
    for number in range(size):
        poset.add(number, parse(sample_filter(rng)))
    building = poset.statistics()
    pairs = size * (size - 1)
    # All pairs of 10,000 would be 99,990,000 tests; an insertion makes a few dozen.
    assert building.tests < pairs / 100
    asked = [parse(sample_filter(rng)) for _ in range(50)]
    before = poset.statistics().tests
    answers: list[tuple[Any, Any]] = [(poset.covering(one), poset.covered_by(one)) for one in asked]
    made = poset.statistics().tests - before
    useful = sum(len(up) + len(down) for up, down in answers)
    assert made < 50 * 2 * size / 50
    assert made <= 3 * useful + 50 * 20


def test_terms_that_are_only_tested_are_asked_for_as_well() -> None:
    poset = poset_of(
        [parse("not q.x = 5"), parse("not tuple[0] = 5"), parse("a = 1 and b = 2 and x + y = 5")]
    )
    q = type("Q", (), {"x": 5})()
    assert poset.matching(Notification.of({"q": q})) == [1]
    assert poset.matching(Notification.of((5, 6))) == [0]
    assert poset.matching(Notification.of({"a": 1, "b": 2, "x": 2, "y": 3})) == [0, 1, 2]


def test_a_polynomial_over_an_attribute_and_its_parent_can_be_filed() -> None:
    poset = poset_of([parse("not a + a.b = 0")])
    assert poset.matching(Notification.of({"a": {"b": 1}})) == [0]


def test_positions_that_a_longer_tuple_has_are_seen() -> None:
    poset = poset_of([parse("exists tuple[0]"), parse("tuple[1] = 5"), parse("tuple[#] = 3")])
    assert poset.roots() == [0]
    assert poset.covering(parse("tuple[1] = 5")) == [0, 1]
    assert poset.covered_by(parse("exists tuple[0]")) == [0, 1, 2]
