"""A merger covers all that it was made from; a perfect one lets in nothing more."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import laws
from fairlead.filters import NOTHING, Filter, Selection, covers, identical, merge, parse
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.schema import Schema
from fairlead.model import Notification
from fairlead.testing import conjunctions, filters, notifications, paths, schemas

anything = filters(templates=True, paths=True, polynomials=True, methods=True, extensions=True)
observed = st.lists(notifications(templates=True, paths=True, methods=True), min_size=1, max_size=8)
INTS = Schema(attributes={"x": "int", "y": "int"})


@given(st.lists(anything, min_size=1, max_size=3), observed)
def test_a_merger_covers_each_and_a_perfect_one_lets_in_nothing_more(
    some: list[Filter], seen: list[Notification]
) -> None:
    laws.merging(some, seen)


@given(paths(), st.lists(conjunctions(("x", "y")), min_size=2, max_size=3), observed)
def test_path_filters_that_differ_in_one_condition_merge_perfectly(
    one: Constraint, conditions: list[Filter], seen: list[Notification]
) -> None:
    assert isinstance(one.term, Selection)
    some: list[Filter] = [Constraint(Selection(one.term.path, each), Op.GE, 1) for each in conditions]
    merger = laws.merging(some, seen)
    assert merger is not None
    assert merger.perfect


@given(
    st.lists(conjunctions(("x", "y")), min_size=2, max_size=4),
    st.lists(notifications(), min_size=1, max_size=8),
    st.one_of(st.none(), schemas()),
    st.sampled_from((0.0, 0.2, 0.5, 0.9, 1.0)),
)
def test_a_merger_stays_within_the_bound(
    some: list[Filter], seen: list[Notification], schema: Schema | None, bound: float
) -> None:
    merger = laws.merging(some, seen, schema, imperfection_max=bound)
    if bound == 0.0:
        assert merger is None or merger.perfect
    if bound == 1.0:
        assert merger is not None


@given(st.lists(conjunctions(("x", "y")), min_size=2, max_size=3), st.one_of(st.none(), schemas()), st.data())
@settings(max_examples=settings.default.max_examples // 2)
def test_merging_is_independent_of_the_order_up_to_identity(
    some: list[Filter], schema: Schema | None, data: st.DataObject
) -> None:
    for bound in (0.0, 1.0):
        expected = merge(some, schema, imperfection_max=bound)
        for order in permutations(some):
            merger = merge(order, schema, imperfection_max=bound)
            assert (merger is None) is (expected is None)
            if merger is not None and expected is not None:
                assert merger.perfect is expected.perfect
                assert identical(merger.filter, expected.filter, schema)


@given(
    st.lists(conjunctions(("x", "y"), ("number", "string")), min_size=2, max_size=3),
    st.lists(notifications(("x", "y")), min_size=1, max_size=30),
)
def test_with_a_sample_the_imperfection_is_measured(some: list[Filter], sample: list[Notification]) -> None:
    merger = laws.merging(some, sample, imperfection_max=1.0, sample=sample)
    assert merger is not None
    let_in = [n for n in sample if merger.filter.matches(n)]
    unwanted = [n for n in let_in if not any(one.matches(n) for one in some)]
    assert merger.imperfection == (len(unwanted) / len(let_in) if let_in else 0.0)


# -- Table 3.8 -----------------------------------------------------------------------------------------------

# A constraint is false on values of another kind, so where the book says "exists x" only the values of one
# kind are let in; under a schema that declares x, that is all there is.
TABLE = [
    ("x in {1, 2}", "x in {2, 3}", "x in {1, 2, 3}", "x in {1, 2, 3}"),
    ("x = 1", "x = 2", "x in {1, 2}", "x in {1, 2}"),
    ("x not in {1, 2}", "x not in {3}", "x is number", "exists x"),
    ("x not in {1, 2}", "x not in {2, 3}", "x not in {2}", "x not in {2}"),
    ("x != 1", "x != 2", "x is number", "exists x"),
    ("x = 5", "x != 5", "x is number", "exists x"),
    ("x < 5", "x > 3", "x is number", "exists x"),
    ("x < 5", "x >= 5", "x is number", "exists x"),
    ("x <= 5", "x > 5", "x is number", "exists x"),
    ("x <= 5", "x >= 4", "x is number", "exists x"),
    ("x < 5", "x > 5", "x != 5", "x != 5"),
    ("x < 4", "x > 7", "x not in [4, 7]", "x not in [4, 7]"),
    ("x in [2, 4]", "x in [3, 5]", "x in [2, 5]", "x in [2, 5]"),
    ("x in [2, 4]", "x in (4, 6)", "x in [2, 6)", "x in [2, 6)"),
    ("x in [2, 4]", "x = 5", None, "x in [2, 5]"),
]


@pytest.mark.parametrize(("one", "other", "merged", "declared"), TABLE)
def test_table_3_8_on_simple_values_row_by_row(
    one: str, other: str, merged: str | None, declared: str
) -> None:
    given = [parse(f"{one} and y = 3"), parse(f"{other} and y = 3")]
    found = merge(given)
    if merged is None:
        assert found is None or identical(found.filter, parse(f"({one} or {other}) and y = 3"))
    else:
        assert found is not None
        assert found.perfect
        assert identical(found.filter, parse(f"{merged} and y = 3")), str(found.filter)
    found = merge(given, INTS)
    assert found is not None
    assert found.perfect
    assert identical(found.filter, parse(f"{declared} and y = 3"), INTS), str(found.filter)


TAGS = Schema(attributes={"tags": "set"})


@pytest.mark.parametrize("schema", [None, TAGS], ids=["no schema", "schema"])
def test_table_3_8_overlaps_row_by_row(schema: Schema | None) -> None:
    given = [parse("tags overlaps {1, 2}"), parse("tags overlaps {2, 3}")]
    merger = merge(given, schema)
    assert merger is not None
    assert merger.perfect
    assert merger.filter == parse("tags overlaps {1, 2, 3}")


@pytest.mark.parametrize("schema", [None, TAGS], ids=["no schema", "schema"])
@pytest.mark.parametrize(
    ("one", "other", "claimed"),
    [
        ("tags disjoint {1}", "tags disjoint {2}", "exists tags"),
        ("tags disjoint {1, 3}", "tags disjoint {2, 3}", "tags disjoint {3}"),
    ],
)
def test_table_3_8_is_wrong_about_disjoint_sets_and_we_are_not(
    one: str, other: str, claimed: str, schema: Schema | None
) -> None:
    # X = {1, 2} meets both M1 and M2, so neither filter wants it, though M1 and M2 have nothing in common.
    both = Notification.of({"tags": {1, 2}})
    given = [parse(one), parse(other)]
    assert parse(claimed).matches(both)
    assert not any(each.matches(both) for each in given)
    merger = merge(given, schema)
    assert merger is None or (merger.perfect and not merger.filter.matches(both))
    imperfect = merge(given, schema, imperfection_max=1.0)
    assert imperfect is not None
    assert all(covers(imperfect.filter, each, schema) for each in given)


# -- beyond the table ----------------------------------------------------------------------------------------


def test_boxes_that_fill_a_box_merge_though_no_two_of_them_do() -> None:
    pinwheel = ["x in [0, 2) and y in [0, 1)", "x in [2, 3) and y in [0, 2)", "x in [1, 3) and y in [2, 3)",
                "x in [0, 1) and y in [1, 3)", "x in [1, 2) and y in [1, 2)"]  # fmt: skip
    merger = merge(map(parse, pinwheel))
    assert merger is not None
    assert merger.perfect
    assert identical(merger.filter, parse("x in [0, 3) and y in [0, 3)"))
    assert merge(map(parse, pinwheel[:4])) is None


def test_merging_nothing_gives_the_filter_that_matches_nothing() -> None:
    merger = merge([])
    assert merger is not None
    assert merger.perfect
    assert merger.filter == NOTHING


def test_a_close_miss_is_less_imperfect_than_a_wide_one() -> None:
    def imperfection(*texts: str) -> float:
        merger = merge(map(parse, texts), imperfection_max=1.0)
        assert merger is not None
        assert not merger.perfect
        return merger.imperfection

    near = imperfection("x in [0, 10] and y in [0, 10]", "x in [1, 11] and y in [0, 11]")
    far = imperfection("x in [0, 1] and y in [0, 1]", "x in [50, 51] and y in [50, 51]")
    assert 0 < near < far < 1
    dropped = imperfection("x = 1", "y = 2")
    assert 0 < dropped < 1


def test_numbers_beyond_any_float_can_be_weighed() -> None:
    merger = merge(
        [parse(f"x = {10**400} and y = 1"), parse(f"x > -{10**500} and x < 0 and y > 1e1000")],
        imperfection_max=1.0,
    )
    assert merger is not None
    assert 0 <= merger.imperfection <= 1


def test_a_sum_of_names_that_cannot_all_be_numbers_is_never_there() -> None:
    contradiction = parse("a * a + 2 * a * a.b = 0")
    assert identical(contradiction, NOTHING)
    merger = laws.merging([contradiction, ~contradiction], [])
    assert merger is not None
    assert merger.perfect
