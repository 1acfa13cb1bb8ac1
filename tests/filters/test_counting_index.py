"""The counting index against asking every conjunction."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.filters import Filter, parse
from fairlead.filters.algebra import algebra_for
from fairlead.filters.counting import CountingIndex, rounded, valuation
from fairlead.filters.extents.extent import Extent, located
from fairlead.filters.terms import Attribute, Term
from fairlead.model import ABSENT, Instant, Notification, Value
from fairlead.testing import conjunctions, filters, notifications

COUNT = settings.default.max_examples
BOUNDS = pytest.mark.parametrize("counted_max", [None, 1, 2])


def extents_of(filter: Filter) -> list[dict[Term, Extent]]:
    return [conjunction.extents for conjunction in algebra_for().normal(filter).conjunctions or ()]


def only(text: str) -> dict[Term, Extent]:
    [extents] = extents_of(parse(text))
    return extents


def holds(extents: Mapping[Term, Extent], values: Mapping[Term, Value]) -> bool:
    return all(values.get(term, ABSENT) in extent for term, extent in extents.items())


@BOUNDS
@given(some=st.lists(filters() | conjunctions(), max_size=8), n=notifications(), data=st.data())
@settings(max_examples=COUNT)
def test_found_iff_every_extent_holds_its_value(
    counted_max: int | None, some: list[Filter], n: Notification, data: st.DataObject
) -> None:
    index = CountingIndex(counted_max)
    filed = dict(enumerate(extents for one in some for extents in extents_of(one)))
    for number, extents in filed.items():
        index.add(number, extents)
    for number in data.draw(st.lists(st.sampled_from(sorted(filed)), unique=True) if filed else st.just([])):
        index.remove(number)
        del filed[number]
    assert set(index.terms()) == {term for extents in filed.values() for term in extents}
    values = valuation(n, list(index.terms()))
    found = {number for number, extents in filed.items() if holds(extents, values)}
    assert sorted(index.find(values)) == sorted(found)  # type: ignore[type-var]
    assert set(index.among(filed, values)) == found


NEAR = ["0.1", "0.1000000000000000000001", "0.0999999999999999999999", "1e400", "1e401", "-1e400", "7"]


@BOUNDS
def test_numbers_that_round_to_one_float_are_told_apart(counted_max: int | None) -> None:
    index = CountingIndex(counted_max)
    filed: dict[int, dict[Term, Extent]] = {}
    for low in NEAR:
        for high in NEAR:
            if Decimal(low) <= Decimal(high):
                for bounds in (f"[{low}, {high}]", f"({low}, {high})" if low != high else f"[{low}, {high}]"):
                    number = len(filed)
                    filed[number] = only(f'symbol = "a" and price in {bounds}')
                    index.add(number, filed[number])
    for number in list(filed)[::3]:
        index.remove(number)
        del filed[number]
    for price in map(Decimal, NEAR):
        values: dict[Term, Value] = {Attribute("symbol"): "a", Attribute("price"): price}
        expected = {number for number, extents in filed.items() if holds(extents, values)}
        assert set(index.find(values)) == expected


def test_instants_and_numbers_on_one_term_are_kept_apart() -> None:
    index = CountingIndex(1)
    index.add("numbers", only('k = "a" and at in [0, 1000]'))
    index.add("instants", only('k = "a" and at > t"1970-01-01T00:00:00Z"'))
    k, at = Attribute("k"), Attribute("at")
    assert index.find({k: "a", at: 500}) == ["numbers"]
    assert index.find({k: "a", at: Instant(500)}) == ["instants"]
    assert index.find({k: "a"}) == []


def test_a_conjunction_is_filed_under_what_few_others_ask_for() -> None:
    index = CountingIndex(1)
    size = 2_000
    for number in range(size):
        low = number % 90
        index.add(number, only(f'type = "q" and symbol = "s{number % 50}" and price in [{low}, {low + 9}]'))
    before = index.tests
    values: dict[Term, Value] = {Attribute("type"): "q", Attribute("symbol"): "s7", Attribute("price"): 42}
    found = index.find(values)
    # Of the 40 with the symbol, those whose price is right are found, and have their type and price tested.
    assert 0 < len(found) <= 10
    assert index.tests - before <= 3 * len(found) + 20


def test_what_is_taken_out_no_longer_counts_as_alike() -> None:
    index = CountingIndex(1)
    for number in range(100):
        index.add(number, only(f'a = "same" and b = "b{number}"'))
    for number in range(100):
        index.remove(number)
    assert len(index) == 0
    assert list(index.terms()) == []
    assert index.find({Attribute("a"): "same", Attribute("b"): "b1"}) == []


@given(st.lists(st.integers() | st.decimals(allow_nan=False, allow_infinity=False), min_size=2))
@settings(max_examples=COUNT)
def test_rounding_keeps_the_order_of_numbers(numbers: list[int | Decimal]) -> None:
    assert all(
        rounded(one) <= rounded(other) for one, other in pairwise(sorted([*numbers, 10**400, -(10**400)]))
    )


@given(conjunctions(), notifications())
@settings(max_examples=COUNT)
def test_a_located_value_is_held_iff_the_value_is_in_the_extent(one: Filter, n: Notification) -> None:
    for extents in extents_of(one):
        for term, extent in extents.items():
            for value in [*valuation(n, [term]).values(), ABSENT, extent.first(), extent.last()]:
                assert extent.holds(*located(value)) == (value in extent)
            assert extent.first() in extent
            assert extent.last() in extent
