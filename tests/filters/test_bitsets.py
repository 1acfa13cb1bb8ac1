"""Bit sets: `set<=`, `set>=` and `set~`, with every relation among them exact."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import FilterError
from fairlead.filters.constraint import Constraint, Extended, Op, Range
from fairlead.filters.extensions import (
    constraint_covers,
    constraint_merge,
    constraint_overlaps,
    operator_named,
)
from fairlead.filters.terms import Attribute
from fairlead.model import ABSENT, Kind

OPERATORS = ("set<=", "set>=", "set~")
X = Attribute("x")


def extended(operator: str, literal: bytes) -> Constraint:
    return Constraint(X, Op.EXTENDED, Extended(operator, literal))


# Literals of up to three bits. The universe has a fourth, which no literal mentions, for those beyond; and
# for each set two byte strings, as there are infinitely many.
MASKS = range(8)
LITERALS = [mask.to_bytes(length, "little") for mask in MASKS for length in (1, 2)]
VALUES = [mask.to_bytes(length, "little") for mask in range(16) for length in (1, 2, 3)] + [b""]
literals = st.sampled_from([*LITERALS, b""])
extended_constraints = st.builds(extended, st.sampled_from(OPERATORS), literals)


def admitted(constraint: Constraint) -> set[bytes]:
    return {value for value in VALUES if constraint.holds(value)}


@pytest.mark.parametrize(("operator", "other"), list(product(OPERATORS, OPERATORS)))
def test_each_pair_of_operators_is_decided_exactly(operator: str, other: str) -> None:
    for a, b in product(LITERALS, LITERALS):
        one, two = extended(operator, a), extended(other, b)
        assert constraint_covers(one, two) == (admitted(one) >= admitted(two)), (one, two)
        assert constraint_overlaps(one, two) == bool(admitted(one) & admitted(two)), (one, two)


@given(extended_constraints, st.sampled_from(VALUES), st.sampled_from([Op.EQ, Op.NE]))
@settings(max_examples=200)
def test_equality_and_inequality_are_decided_exactly(one: Constraint, value: bytes, op: Op) -> None:
    other = Constraint(X, op, value)
    assert constraint_covers(one, other) == (admitted(one) >= admitted(other))
    assert constraint_covers(other, one) == (admitted(other) >= admitted(one))
    assert constraint_overlaps(one, other) == bool(admitted(one) & admitted(other))
    assert constraint_overlaps(other, one) == constraint_overlaps(one, other)


@given(extended_constraints, extended_constraints)
@settings(max_examples=200)
def test_a_merger_admits_what_either_admits_and_nothing_else(one: Constraint, other: Constraint) -> None:
    merged = constraint_merge(one, other)
    if merged is not None:
        assert admitted(merged) == admitted(one) | admitted(other)
    if one.operand.operator == other.operand.operator == "set~":
        assert merged is not None


def test_b_within_a_means_that_meeting_a_covers_meeting_b() -> None:
    assert constraint_covers(extended("set~", b"\x0f"), extended("set~", b"\x05"))
    assert not constraint_covers(extended("set~", b"\x05"), extended("set~", b"\x0f"))


def test_the_special_cases_of_the_report() -> None:
    within = extended("set<=", b"\x0f")
    assert constraint_covers(within, Constraint(X, Op.EQ, b"\x03"))
    assert not constraint_covers(within, Constraint(X, Op.EQ, b"\x10"))
    assert constraint_covers(Constraint(X, Op.NE, b"\x10"), within)
    assert not constraint_covers(Constraint(X, Op.NE, b"\x03"), within)


def test_padding_with_zeros_changes_the_value_but_not_the_set() -> None:
    assert constraint_covers(extended("set<=", b"\x0f"), extended("set<=", b"\x0f\x00"))
    assert constraint_covers(extended("set<=", b"\x0f\x00"), extended("set<=", b"\x0f"))
    assert constraint_covers(extended("set<=", b"\x0f"), Constraint(X, Op.EQ, b"\x0f\x00"))
    assert not constraint_covers(Constraint(X, Op.NE, b"\x0f\x00"), extended("set<=", b"\x0f"))
    assert operator_named("set<=").holds(b"\x0f\x00\x00", b"\x0f")
    assert not operator_named("set<=").holds(b"\x0f\x01", b"\x0f")
    assert operator_named("set>=").holds(b"\x0f", b"\x0f\x00")


def test_having_no_bit_in_particular_covers_whatever_asks_for_bytes() -> None:
    everything = extended("set>=", b"")
    assert constraint_covers(everything, Constraint(X, Op.IS, Kind.BYTES))
    assert constraint_covers(everything, Constraint(X, Op.IN_RANGE, Range(b"a", b"b")))
    assert not constraint_covers(everything, Constraint(X, Op.EXISTS))
    assert not constraint_covers(everything, Constraint(X, Op.IS, Kind.STRING))
    assert constraint_covers(Constraint(X, Op.EXISTS), everything)
    assert constraint_covers(Constraint(X, Op.IS, Kind.BYTES), everything)


def test_meeting_the_empty_set_is_covered_by_everything_and_overlaps_nothing() -> None:
    nothing = extended("set~", b"\x00")
    assert constraint_covers(Constraint(X, Op.PREFIX, b"a"), nothing)
    assert not constraint_overlaps(nothing, Constraint(X, Op.PREFIX, b"a"))
    assert not constraint_overlaps(nothing, nothing)


def test_what_is_not_bytes_is_no_bit_set() -> None:
    for value in ("\x0f", 15, None, ABSENT, True):
        assert not any(operator_named(name).holds(value, b"") for name in OPERATORS)
    assert not constraint_overlaps(extended("set<=", b"\x0f"), Constraint(X, Op.GT, 5))
    assert not constraint_overlaps(extended("set<=", b"\x0f"), Constraint(X, Op.ABSENT))
    with pytest.raises(FilterError, match="takes bytes"):
        operator_named("set<=").check("0f")
