"""Box extents against membership on a grid: the constants' coordinates, numbers between them, and beyond."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import Undecided, ValueRefused
from fairlead.filters.extents.boxes import INTERVAL, POINT, RECTANGLE, BoxExtent, Space
from fairlead.filters.extents.numbers import Number

# Constants use the coordinates 0, 1 and 2; values also two numbers between, so that an interval fits in.
CONSTANT: list[Number] = [0, 1, 2]
FINE: list[Number] = [
    -2,
    -1,
    0,
    Decimal("0.25"),
    Decimal("0.75"),
    1,
    Decimal("1.25"),
    Decimal("1.75"),
    2,
    3,
    4,
]
COARSE: list[Number] = [-1, 0, Decimal("0.5"), 1, 2]
Value = tuple[Number, ...]


def values(space: Space, numbers: list[Number]) -> list[Value]:
    return [value for value in product(numbers, repeat=space.arity) if space.holds(value)]


def corners(space: Space, value: Value) -> list[tuple[Number, Number]]:
    """Low and high per axis; a point is low and high at once."""
    if space is POINT:
        return [(x, x) for x in value]
    return list(zip(value[: space.axes], value[space.axes :], strict=True))


Meaning = Callable[[list[tuple[Number, Number]], list[tuple[Number, Number]]], bool]


def inside(v: list[tuple[Number, Number]], c: list[tuple[Number, Number]]) -> bool:
    return all(cl <= vl and vh <= ch for (vl, vh), (cl, ch) in zip(v, c, strict=True))


def meets(v: list[tuple[Number, Number]], c: list[tuple[Number, Number]]) -> bool:
    return all(max(vl, cl) <= min(vh, ch) for (vl, vh), (cl, ch) in zip(v, c, strict=True))


MEANING: dict[str, Meaning] = {
    "equals": lambda v, c: v == c,
    "within": inside,
    "subset": inside,
    "superset": lambda v, c: inside(c, v),
    "overlaps": meets,
    "disjoint": lambda v, c: not meets(v, c),
    "contains": lambda v, c: inside(c, v),
    "lacks": lambda v, c: not inside(c, v),
}


def meaning(space: Space, name: str, value: Value, constant: Value) -> bool:
    if name.startswith("not "):
        return not meaning(space, name.removeprefix("not "), value, constant)
    if name in {"contains", "lacks"}:
        constant += constant
    return MEANING[name](corners(space, value), corners(RECTANGLE if name == "within" else space, constant))


def made(space: Space, name: str, constant: Value) -> BoxExtent:
    if name == "within":
        return BoxExtent.within(constant)
    extent: BoxExtent = getattr(BoxExtent, name)(space, constant)
    return extent


def constraints(space: Space) -> list[tuple[str, Value]]:
    constants = values(space, CONSTANT)
    equal = [("equals", c) for c in constants]
    if space is POINT:
        return equal + [("within", c) for c in values(RECTANGLE, CONSTANT)]
    whole = [(name, c) for name in ("subset", "superset", "overlaps", "disjoint") for c in constants]
    points = list(product(CONSTANT, repeat=space.axes))
    return equal + whole + [(name, p) for name in ("contains", "lacks") for p in points]


SPACES = [POINT, INTERVAL, RECTANGLE]
GRIDS = {space.name: values(space, COARSE if space is RECTANGLE else FINE) for space in SPACES}
plane = st.sampled_from([POINT, INTERVAL])


def members(extent: BoxExtent) -> set[Value]:
    return {value for value in GRIDS[extent.space.name] if value in extent}


def combined(space: Space) -> st.SearchStrategy[BoxExtent]:
    single = st.sampled_from(constraints(space)).map(lambda c: made(space, *c))
    return st.recursive(
        single,
        lambda inner: (
            st.tuples(inner, inner).map(lambda p: p[0] | p[1])
            | st.tuples(inner, inner).map(lambda p: p[0] & p[1])
            | inner.map(lambda e: ~e)
        ),
        max_leaves=5,
    )


pairs = plane.flatmap(lambda space: st.tuples(combined(space), combined(space)))


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)
def test_a_constraint_means_what_it_says(space: Space) -> None:
    grid = GRIDS[space.name]
    for name, constant in constraints(space)[:: 7 if space is RECTANGLE else 1]:
        extent = made(space, name, constant)
        assert members(extent) == {v for v in grid if meaning(space, name, v, constant)}
        assert members(~extent) == set(grid) - members(extent)


@pytest.mark.parametrize("space", [POINT, INTERVAL], ids=lambda space: space.name)
def test_every_pair_of_constraints_is_related_exactly(space: Space) -> None:
    rows = [(extent := made(space, *c), members(extent)) for c in constraints(space)]
    for (a, in_a), (b, in_b) in product(rows, rows):
        assert a.covers(b) == (in_a >= in_b)
        assert (a & b).is_empty() == (not in_a & in_b)


@settings(max_examples=100)
@given(pairs)
def test_the_operations_are_those_of_membership(pair: tuple[BoxExtent, BoxExtent]) -> None:
    a, b = pair
    in_a, in_b = members(a), members(b)
    assert members(a & b) == in_a & in_b
    assert members(a | b) == in_a | in_b
    assert members(a - b) == in_a - in_b
    assert members(~a) == set(GRIDS[a.space.name]) - in_a


@settings(max_examples=100)
@given(pairs)
def test_relations_of_any_combination_are_exact(pair: tuple[BoxExtent, BoxExtent]) -> None:
    a, b = pair
    in_a, in_b = members(a), members(b)
    assert a.covers(b) == (in_a >= in_b)
    assert a.is_empty() == (not in_a)
    assert a.is_full() == (len(in_a) == len(GRIDS[a.space.name]))
    assert a != b or in_a == in_b
    assert (a | ~a).is_full()


@settings(max_examples=30)
@given(st.tuples(*[st.sampled_from(constraints(RECTANGLE))] * 3))
def test_relations_of_rectangles_agree_with_a_witness(cs: tuple[tuple[str, Value], ...]) -> None:
    a, b, c = (made(RECTANGLE, *constraint) for constraint in cs)
    left, right = a | b, b & c
    assert left.covers(right)
    rest = c - left
    assert left.covers(c) == rest.is_empty()
    witness = rest.witness()
    assert (witness is None) == rest.is_empty()
    if witness is not None:
        held = [meaning(RECTANGLE, name, witness, constant) for name, constant in cs]
        assert held == [False, False, True]


@settings(max_examples=100)
@given(pairs)
def test_a_witness_is_a_member_or_there_is_none(pair: tuple[BoxExtent, BoxExtent]) -> None:
    for extent in (*pair, pair[0] & pair[1], pair[0] - pair[1]):
        witness = extent.witness()
        assert (witness is None) == extent.is_empty()
        assert witness is None or witness in extent


@settings(max_examples=100)
@given(pairs)
def test_a_form_means_the_extent(pair: tuple[BoxExtent, BoxExtent]) -> None:
    for extent in pair:
        if extent.form is not None:
            name, constant = extent.form
            in_form = {v for v in GRIDS[extent.space.name] if meaning(extent.space, name, v, constant)}
            assert in_form == members(extent)


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)
def test_every_single_constraint_has_a_form_and_so_has_its_negation(space: Space) -> None:
    for name, constant in constraints(space)[:: 11 if space is RECTANGLE else 1]:
        extent = made(space, name, constant)
        for one in (extent, ~extent):
            form = one.form
            assert form is not None
            positive = made(space, form[0].removeprefix("not "), form[1])
            again = ~positive if form[0].startswith("not ") else positive
            assert again.covers(one)
            assert one.covers(again)


def test_forms_prefer_the_simplest_name() -> None:
    assert BoxExtent.subset(INTERVAL, (3, 7)).form == ("subset", (3, 7))
    assert BoxExtent.subset(INTERVAL, (3, 3)).form == ("equals", (3, 3))
    assert BoxExtent.superset(INTERVAL, (3, 3)).form == ("contains", (3,))
    assert BoxExtent.disjoint(RECTANGLE, (0, 0, 2, 2)).form == ("disjoint", (0, 0, 2, 2))
    assert BoxExtent.lacks(RECTANGLE, (1, 2)).form == ("lacks", (1, 2))
    assert (~BoxExtent.within((0, 0, 2, 2))).form == ("not within", (0, 0, 2, 2))
    assert (BoxExtent.contains(INTERVAL, (1,)) & BoxExtent.contains(INTERVAL, (2,))).form == (
        "superset",
        (1, 2),
    )
    assert BoxExtent.everything(INTERVAL).form is None
    assert BoxExtent.nothing(INTERVAL).form is None


def test_intervals_that_share_an_end_overlap() -> None:
    assert (1, 2) in BoxExtent.overlaps(INTERVAL, (2, 3))
    assert (1, 2) not in BoxExtent.disjoint(INTERVAL, (2, 3))


def test_two_rectangles_side_by_side_cover_the_one_across_them() -> None:
    left, right = BoxExtent.within((0, 0, 1, 1)), BoxExtent.within((1, 0, 2, 1))
    assert (left | right).covers(BoxExtent.within((0, 0, 2, 1)))
    assert (left | right) == BoxExtent.within((0, 0, 2, 1))


@pytest.mark.parametrize("value", [(5, 3), (1,), (1, 2, 3)])
def test_coordinates_that_are_no_interval_are_refused(value: Value) -> None:
    assert value not in BoxExtent.everything(INTERVAL)
    with pytest.raises(ValueRefused, match="is no interval"):
        BoxExtent.subset(INTERVAL, value)


def test_too_many_blocks_are_undecided_not_endless() -> None:
    extent = BoxExtent.nothing(RECTANGLE)
    for n in range(200):
        extent |= BoxExtent.equals(RECTANGLE, (n, n, n + 1, n + 1))
    with pytest.raises(Undecided):
        _ = ~extent & ~BoxExtent.superset(RECTANGLE, (0, 0, 1, 1)) & ~extent
