"""Number extents against membership on a grid: whole numbers, halves, and what lies beyond."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.filters.extents.numbers import Number, NumberExtent, Span

interval = NumberExtent.interval


def canonical(halves: int) -> Number:
    return halves // 2 if halves % 2 == 0 else Decimal(halves) / 2


# Ends are multiples of 1/2 in [-3, 3]: quarters up to 4 tell all dense extents over them apart.
ENDS = [canonical(n) for n in range(-6, 7)]
DENSE_GRID: list[Number] = [Decimal(n) / 4 if n % 4 else n // 4 for n in range(-16, 17)]
WHOLE_GRID: list[Number] = list(range(-5, 6))

bounds = st.none() | st.sampled_from(ENDS)


def extents(discrete: bool) -> st.SearchStrategy[NumberExtent]:
    simple = st.builds(
        interval, bounds, bounds, st.booleans(), st.booleans(), discrete=st.just(discrete)
    ) | st.lists(st.sampled_from(ENDS), max_size=4).map(lambda ns: NumberExtent.of(ns, discrete=discrete))
    return st.recursive(
        simple,
        lambda inner: (
            st.tuples(inner, inner).map(lambda p: p[0] | p[1])
            | st.tuples(inner, inner).map(lambda p: p[0] & p[1])
            | inner.map(lambda e: ~e)
        ),
        max_leaves=5,
    )


domains = st.sampled_from([(False, DENSE_GRID), (True, WHOLE_GRID)])
pairs = domains.flatmap(lambda d: st.tuples(st.just(d[1]), extents(d[0]), extents(d[0])))


@settings(max_examples=100)
@given(pairs)
def test_the_operations_are_those_of_membership(
    case: tuple[list[Number], NumberExtent, NumberExtent],
) -> None:
    grid, a, b = case
    for v in grid:
        assert (v in a & b) == (v in a and v in b)
        assert (v in a | b) == (v in a or v in b)
        assert (v in a - b) == (v in a and v not in b)
        assert (v in ~a) == (v not in a)


@settings(max_examples=100)
@given(pairs)
def test_relations_and_equality_are_decided_exactly(
    case: tuple[list[Number], NumberExtent, NumberExtent],
) -> None:
    grid, a, b = case
    in_a, in_b = [v in a for v in grid], [v in b for v in grid]
    assert (a == b) == (in_a == in_b)
    assert a != b or hash(a) == hash(b)
    assert a.covers(b) == all(x or not y for x, y in zip(in_a, in_b, strict=True))
    assert a.is_empty() == (not any(in_a))
    assert a.is_full() == all(in_a)


@settings(max_examples=100)
@given(pairs)
def test_a_witness_is_a_member_and_whole_where_it_can_be(
    case: tuple[list[Number], NumberExtent, NumberExtent],
) -> None:
    grid, a, _ = case
    witness = a.witness()
    assert (witness is None) == a.is_empty()
    assert witness is None or witness in a
    whole = [abs(v) for v in grid if isinstance(v, int) and v in a]
    if whole:
        assert isinstance(witness, int)
        assert abs(witness) == min(whole)


@settings(max_examples=100)
@given(pairs)
def test_the_intervals_are_disjoint_maximal_and_make_up_the_extent(
    case: tuple[list[Number], NumberExtent, NumberExtent],
) -> None:
    _, a, _ = case
    rebuilt = NumberExtent.nothing(discrete=a.discrete)
    for span in a.intervals:
        piece = interval(*span, discrete=a.discrete)
        assert (rebuilt & piece).is_empty()
        rebuilt |= piece
    assert rebuilt == a
    assert len(rebuilt.intervals) == len(a.intervals)
    if a.points is not None:
        assert NumberExtent.of(a.points, discrete=a.discrete) == a
    hull = a.hull()
    assert (hull is None) == a.is_empty()
    if hull is not None:
        around = interval(*hull, discrete=a.discrete)
        assert around.covers(a)
        assert len(around.intervals) == 1
        assert (hull.lo, hull.lo_closed) == (a.intervals[0].lo, a.intervals[0].lo_closed)
        assert (hull.hi, hull.hi_closed) == (a.intervals[-1].hi, a.intervals[-1].hi_closed)


def test_touching_dense_intervals_merge() -> None:
    assert interval(1, 2, True, False) | interval(2, 3) == interval(1, 3)
    assert interval(1, 2, True, False) | interval(2, 3, False, True) != interval(1, 3)


def test_over_the_integers_a_run_of_points_is_an_interval_and_over_the_rationals_it_is_not() -> None:
    assert NumberExtent.of(range(20, 26), discrete=True) == interval(20, 25, discrete=True)
    assert NumberExtent.of(range(20, 26)) != interval(20, 25)


def test_integers_between_open_bounds_are_counted_exactly() -> None:
    above_3 = interval(3, None, False, discrete=True)
    assert above_3 & interval(None, 5, hi_closed=False, discrete=True) == NumberExtent.of([4], discrete=True)
    assert (above_3 & interval(None, 4, hi_closed=False, discrete=True)).is_empty()
    assert interval(Decimal("3.5"), Decimal("4.5"), discrete=True).points == (4,)
    assert interval(20, 25, discrete=True).size() == 6
    assert interval(20, None, discrete=True).size() is None
    assert NumberExtent.of([1, Decimal("1.5")]).size() == 2


def test_a_number_that_is_not_whole_is_in_no_discrete_extent() -> None:
    assert Decimal("1.5") not in NumberExtent.everything(discrete=True)
    assert NumberExtent.of([1, Decimal("1.5")], discrete=True).points == (1,)


def test_spans_say_which_ends_belong() -> None:
    assert (~interval(4, 7)).intervals == (Span(None, 4, False, False), Span(7, None, False, False))
    assert (~interval(4, 7, discrete=True)).intervals == (
        Span(None, 3, False, True),
        Span(8, None, True, False),
    )


def test_large_integers_and_long_decimals_are_not_rounded() -> None:
    big = 2**53
    assert big + 1 not in NumberExtent.of([big])
    lo, hi = Decimal("0." + "1" * 60), Decimal("0." + "1" * 59 + "2")
    between = interval(lo, hi, False, False)
    witness = between.witness()
    assert witness is not None
    assert lo < witness < hi
    assert witness in between
    assert interval(None, -big - 1).witness() == -big - 1


@pytest.mark.parametrize(
    ("extent", "witness"),
    [
        (interval(None, None), 0),
        (interval(3, None, False), 4),
        (interval(None, -3), -3),
        (interval(Decimal("0.25"), Decimal("0.75")), Decimal("0.5")),
        (NumberExtent.of([Decimal("0.3")]), Decimal("0.3")),
        (interval(-9, -2) | interval(2, 9), 2),
        (interval(Decimal("0.1"), Decimal("0.2")) | interval(7, 8), 7),
    ],
)
def test_witnesses_are_simple(extent: NumberExtent, witness: Number) -> None:
    assert extent.witness() == witness


def test_ten_thousand_points_are_no_burden() -> None:
    evens = NumberExtent.of(range(0, 20_000, 2))
    odds = NumberExtent.of(range(1, 20_000, 2))
    assert (evens & odds).is_empty()
    assert (evens | odds).covers(evens)
    assert not evens.covers(odds)
    assert all(n in evens for n in range(0, 20_000, 2))
    assert evens.witness() == 0
