"""Conditions: aggregates folded one by one, exact numbers, and comparisons as filters make them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.correlation.patterns import conditions  # `tester` would be taken for a test
from fairlead.correlation.patterns.conditions import (
    FOLDS,
    compare,
    computed,
    exact,
    output,
    outputs,
    plan_conditions,
)
from fairlead.correlation.patterns.language import parse
from fairlead.correlation.patterns.model import Aggregate, Operand, Reference
from fairlead.filters import Attribute, Constraint, Op
from fairlead.filters.constraint import ORDERED
from fairlead.model import ABSENT, Instant, Kind, Multi, Notification, Record, key_of, kind_of, value_of

NAN, INFINITY = float("nan"), float("inf")
COMPARATORS = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)
NUMBERS = st.one_of(
    st.integers(-5, 5),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
)
VALUES = st.one_of(
    NUMBERS,
    st.sampled_from([ABSENT, None, True, False, NAN, "", "a", "b", b"a", Instant(1), Instant(2), "1"]),
    st.sampled_from([Multi([1]), Multi([1.0]), Record({"x": 1})]),
)
X = Reference("s", "x")


def folded(aggregate: Aggregate, *values: Any) -> Any:
    fold = FOLDS[aggregate]
    return fold.result(reduce(fold.add, values, fold.start()))


# -- aggregates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aggregate", "values", "expected"),
    [
        (Aggregate.COUNT, (), 0),
        (Aggregate.COUNT, (1, ABSENT, "a"), 3),
        (Aggregate.SUM, (), ABSENT),
        (Aggregate.SUM, ("a", None, True, NAN, ABSENT), ABSENT),
        (Aggregate.SUM, (1, "a", 2), 3),
        (Aggregate.SUM, (0.1, 0.2), Fraction(3, 10)),
        (Aggregate.SUM, (0.1, Decimal("0.9")), 1),
        (Aggregate.SUM, (2**70, -(2**70), 1), 1),
        (Aggregate.SUM, (1, INFINITY, 2), ABSENT),
        (Aggregate.AVG, (1, 2), Fraction(3, 2)),
        (Aggregate.AVG, (1, ABSENT, 2, 3), 2),
        (Aggregate.AVG, (INFINITY, -INFINITY), ABSENT),
        (Aggregate.AVG, (), ABSENT),
        (Aggregate.MIN, (3, 1.5, 2), 1.5),
        (Aggregate.MIN, (3, "a", 2), 2),
        (Aggregate.MIN, ("b", 1, "a"), "a"),
        (Aggregate.MIN, (ABSENT, True, NAN, 4), 4),
        (Aggregate.MIN, (1, -INFINITY), -INFINITY),
        (Aggregate.MAX, (Instant(1), Instant(3), Instant(2)), Instant(3)),
        (Aggregate.MAX, (), ABSENT),
        (Aggregate.FIRST, (), ABSENT),
        (Aggregate.FIRST, (None, 1), None),
        (Aggregate.FIRST, (ABSENT, 1), ABSENT),
        (Aggregate.LAST, (1, 2), 2),
        (Aggregate.LAST, (1, ABSENT), ABSENT),
        (Aggregate.LAST, (), ABSENT),
    ],
)
def test_what_an_aggregate_is_of_some_values(aggregate: Aggregate, values: Any, expected: Any) -> None:
    assert folded(aggregate, *values) == expected


@given(st.lists(VALUES, max_size=8))
def test_folding_gives_what_the_aggregate_says_of_all(values: list[Any]) -> None:
    numbers = [Fraction(repr(v) if isinstance(v, float) else v) for v in values if kind_of(v) is Kind.NUMBER]
    ordered = [value for value in values if kind_of(value) in ORDERED]
    alike = [value for value in ordered if kind_of(value) is kind_of(ordered[0])]
    assert folded(Aggregate.COUNT, *values) == len(values)
    assert folded(Aggregate.SUM, *values) == (sum(numbers) if numbers else ABSENT)
    assert folded(Aggregate.AVG, *values) == (sum(numbers) / Fraction(len(numbers)) if numbers else ABSENT)
    assert folded(Aggregate.FIRST, *values) is (values[0] if values else ABSENT)
    assert folded(Aggregate.LAST, *values) is (values[-1] if values else ABSENT)
    if alike:
        assert key_of(folded(Aggregate.MIN, *values)) == min(map(key_of, alike))
        assert key_of(folded(Aggregate.MAX, *values)) == max(map(key_of, alike))
    else:
        assert folded(Aggregate.MIN, *values) is folded(Aggregate.MAX, *values) is ABSENT


@given(st.sampled_from(Aggregate), st.lists(VALUES, max_size=5))
def test_states_can_be_shared(aggregate: Aggregate, values: list[Any]) -> None:
    fold, state = FOLDS[aggregate], FOLDS[aggregate].start()
    for value in values:
        before, shown = state, hash(state)
        state = fold.add(state, value)
        assert hash(before) == shown
        assert state == fold.add(before, value)


# -- comparisons -------------------------------------------------------------------------------------------


@given(VALUES, VALUES, st.sampled_from(COMPARATORS))
def test_values_compare_as_a_constraint_compares_them(left: Any, right: Any, op: Op) -> None:
    nameable = ORDERED if op in COMPARATORS[2:] else ORDERED | {Kind.BOOLEAN, Kind.SET, Kind.NULL}
    if op is Op.NE:
        nameable = nameable - {Kind.NULL}
    if kind_of(right) in nameable:
        assert compare(op, left, right) is Constraint(Attribute("x"), op, right).holds(left)
    else:
        assert compare(op, left, right) is (op is Op.EQ and left is None and right is None)


@given(NUMBERS, NUMBERS, st.sampled_from(COMPARATORS))
def test_a_fraction_is_a_number_among_others(left: Any, right: Any, op: Op) -> None:
    fraction = Fraction(exact(left))
    assert compare(op, fraction, right) is compare(op, left, right)
    assert compare(op, right, fraction) is compare(op, right, left)


@pytest.mark.parametrize("op", COMPARATORS)
def test_what_is_no_number_compares_with_no_fraction(op: Op) -> None:
    third = Fraction(1, 3)
    assert not any(compare(op, third, other) for other in (ABSENT, None, True, NAN, "1", Record({})))
    assert compare(op, third, INFINITY) is (op in (Op.NE, Op.LT, Op.LE))


# -- operands and conditions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "offset", "value", "expected"),
    [
        (1, 0, "a", "a"),
        (1.0, 0, ABSENT, ABSENT),
        (2, 1, 3, 7),
        (1.1, 0, 100, 110),
        (1, -0.1, 0.3, Fraction(1, 5)),
        (Decimal("0.5"), 0, Fraction(1, 3), Fraction(1, 6)),
        (2, 0, "a", ABSENT),
        (2, 0, True, ABSENT),
        (2, 0, INFINITY, ABSENT),
        (1, 1, ABSENT, ABSENT),
    ],
)
def test_arithmetic_is_exact_and_for_numbers_only(
    factor: Any, offset: Any, value: Any, expected: Any
) -> None:
    assert computed(Operand(X, factor, offset), value) == expected


@pytest.mark.parametrize(
    ("condition", "left", "right", "holds"),
    [
        ("A.x < B.x", 1, 2, True),
        ("A.x < B.x", "a", "b", True),
        ("A.x < B.x", 1, "b", False),
        ("A.x != B.x", 1, "b", False),
        ("A.x != B.x", ABSENT, 1, False),
        ("A.x = B.x", ABSENT, ABSENT, False),
        ("A.x = B.x", None, None, True),
        ("A.x = B.x", NAN, NAN, False),
        ("B.x > 1.1 * A.x", 110.5, 100, True),
        ("B.x > 1.1 * A.x", 110, 100, False),
        ("B.x >= A.x + 0.1", 0.3, 0.2, True),
        ('A.x = "a"', "a", ABSENT, True),
        ("A.x >= 3", 2, 5, False),
        ("avg(A.x) < 0.34", Fraction(1, 3), ABSENT, True),
    ],
)
def test_a_condition_tests_two_values(condition: str, left: Any, right: Any, holds: bool) -> None:
    pattern = parse(f"A followed by B, {condition}")
    assert conditions.tester(pattern.conditions[0])(left, right) is holds


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("A followed by B, A.x < B.x", ["B"]),
        ("A followed by B, A.x < 3", ["A"]),
        ("1 or more A followed by B, sum(A.x) < B.x", ["B"]),
        ("1 or more A, A.x > avg(A.x)", ["A"]),
        ("1 or more A, count(A) >= 3", []),
        ("1 or more A followed by B, max(A.x) > last(B.x)", []),
        ("any order of A and B, A.x < B.x", []),
        ("any order of A and B, A.x < A.y", ["A"]),
        ("any order of (A followed by B) and C, A.x < B.x", ["B"]),
        ("any order of (A followed by B) and C, B.x < C.x", []),
        ("(any order of A and B) followed by C, A.x < C.x", ["C"]),
        ("any order of (1 or more A) and B, count(A) < B.x", []),
        ("(any order of (any order of A and B) and C) or D, A.x < B.x", []),
        ("exactly 2 (any order of A and B) followed by C within 5 s, A.x < B.x", []),
        ("A starting timer t for 5 s then (any order of A as b and B before timer t), b.x < B.x", []),
    ],
)
def test_when_a_condition_is_evaluated(text: str, steps: list[str]) -> None:
    pattern = parse(text)
    plan = plan_conditions(pattern)
    assert [step for step, some in plan.at_steps.items() if some] == steps
    assert plan.at_end == (() if steps else pattern.conditions)


# -- outputs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Fraction(6, 3), 2),
        (Fraction(3, 10), 0.3),
        (Fraction(1, 3), 1 / 3),
        (Fraction("0.12345678901234567890123"), Decimal("0.12345678901234567890123")),
        (Fraction(10**30) + Fraction(1, 2), Decimal(f"{10**30}.5")),
        (Fraction(10**5000), ABSENT),
        (Fraction(10**500, 3), ABSENT),
        (0.5, 0.5),
        ("a", "a"),
        (None, None),
        (ABSENT, ABSENT),
    ],
)
def test_how_a_computed_value_is_carried(value: Any, shown: Any) -> None:
    carried = output(value)
    assert type(carried) is type(shown)
    assert carried == shown


@given(st.fractions())
def test_what_decimals_can_say_is_never_rounded(number: Fraction) -> None:
    carried = output(number)
    assert value_of(carried) == carried
    error = abs(exact(carried) - number)
    assert error == 0 or (type(carried) is float and error <= abs(number) / 2**52)
    assert key_of(output(exact(carried))) == key_of(carried)


def test_a_whole_number_with_too_many_digits_is_absent() -> None:
    assert output(10**5000) is ABSENT


def test_outputs_that_are_absent_are_left_out() -> None:
    pattern = parse("1 or more A followed by B, giving total = 2 * sum(A.x), name = B.name, none = B.y")
    values = {"A": Fraction(1, 4), "B": ABSENT}
    assert outputs(pattern, lambda reference: values[reference.step]) == (("total", 0.5),)


def test_a_sum_is_what_filters_find() -> None:
    total = output(folded(Aggregate.SUM, 0.1, 0.2))
    assert Constraint(Attribute("total"), Op.EQ, Decimal("0.3")).matches(Notification.of({"total": total}))
