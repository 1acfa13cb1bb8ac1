"""extent_of(c) holds v iff c.holds(v): every operator, every kind of value, absence included."""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laws
from fairlead.filters import Constraint
from fairlead.filters.terms import Attribute
from fairlead.model import ABSENT, Array, Record, Tuple, value_of
from fairlead.testing import constraints, operations_on, values
from fairlead.testing.strategies import INSTANTS, LEVELS, NUMBERS, OCTETS, STRINGS

KINDS = (
    "presence", "mixed", "number", "string", "bytes", "time", "boolean", "set", "point", "interval", "rectangle",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    ABSENT,
    None,
    Record({"b": 1}),
    Tuple((1,)),
    Array((Record(),)),
    object(),
    float("nan"),
)

POOL = [*NUMBERS, *STRINGS, *LEVELS, *OCTETS, *INSTANTS, *(value for value in OTHERS if value is not ABSENT)]
"""The constants that constraints are drawn with, so that each bound is hit."""

anything = st.one_of(values(), st.sampled_from(OTHERS)).map(
    lambda given: given if given is ABSENT else value_of(given)
)
wholes = st.one_of(st.integers(-2, 8), values(), st.sampled_from(OTHERS)).filter(
    lambda given: not isinstance(given, float | Decimal) or (isfinite(given) and given % 1 == 0)
)


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_the_extent_of_a_constraint_holds_a_value_iff_the_value_satisfies_it(
    kind: str, data: st.DataObject
) -> None:
    constraint = Constraint(Attribute("x"), *data.draw(operations_on(kind)))
    laws.extents(constraint, [*POOL, *data.draw(st.lists(anything, max_size=8))])


@given(constraints(("x",), ("number", "mixed", "presence")), st.lists(wholes, max_size=8))
def test_the_extent_over_the_integers_holds_an_integer_iff_it_satisfies_the_constraint(
    constraint: Constraint, some: list[Any]
) -> None:
    laws.extents(constraint, some, discrete=True)
