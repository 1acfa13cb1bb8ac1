"""A constraint on plain numbers holds where the meaning of its operator says so."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.errors import ValueRefused
from fairlead.filters import constraint
from fairlead.filters.constraint import HOLDS, Constraint, Op
from fairlead.filters.terms import Attribute
from fairlead.model import kind_of, value_of
from fairlead.model.values import Kind

BIG = 2**53


def is_a_number(value: Any) -> bool:
    """Whether a notification may have it."""
    try:
        return kind_of(value_of(value)) in (Kind.NUMBER, Kind.NAN)
    except ValueRefused:
        return False


NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.integers(BIG - 3, BIG + 3),
    st.sampled_from(
        [0.1, 0.2, 0.3, 0.1 + 0.2, -0.0, 1e22, 1e23, 5e-324, math.inf, -math.inf, math.nan, 2.0**53, 2.5]
    ),
    st.sampled_from([Decimal("0.1"), Decimal("0.30000000000000001"), Decimal("1e23"), Decimal("2.50")]),
    st.floats(),
    st.integers(),
).filter(is_a_number)
OPERATORS = st.sampled_from([Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE])


@given(OPERATORS, NUMBERS.filter(lambda each: kind_of(each) is Kind.NUMBER), NUMBERS | st.booleans())
@example(Op.LT, Decimal("1e23"), 10**23 - 1)
@example(Op.EQ, 10**23, 1e23)
@example(Op.NE, 1, math.nan)
@example(Op.EQ, 1, True)
@example(Op.GT, Decimal("0.30000000000000001"), 0.3)
def test_the_quick_comparison_is_that_of_the_canonical_numbers(op: Op, operand: Any, value: Any) -> None:
    judge = Constraint(Attribute("x"), op, operand)
    expected = HOLDS[op](value, judge.operand)
    assert judge.holds(value) is expected
    assert judge.holds(value) is expected  # with what the first answer has left behind


@pytest.mark.parametrize("mutant", ["any number", "any operator"])
def test_a_comparison_of_other_numbers_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Floats for numbers that they do not stand for, and for an operator that asks for the kind."""
    meant = constraint._float_of

    def bound(op: Op, operand: Any) -> float | None:
        if mutant == "any operator":
            return meant(Op.EQ, operand)
        return float(operand) if op in (Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE) else None

    monkeypatch.setattr(constraint, "_float_of", bound)
    with pytest.raises(AssertionError):
        test_the_quick_comparison_is_that_of_the_canonical_numbers()
