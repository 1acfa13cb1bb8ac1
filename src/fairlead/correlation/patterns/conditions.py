"""The evaluation of conditions and outputs: values of steps, compared as filters compare them, with
exact sums.

    FOLDS[Aggregate.SUM]      an aggregate one value at a time: start() → add(state, value) → … → result(state)
    compare(op, a, b)         the filters' meaning, on fractions as well; absent values satisfy nothing
    value_in(occurrence, r)   what an occurrence has for a reference
    tester(condition)         a condition as a function of the two values it compares
    plan_conditions(pattern)  which conditions each step is tested against, and which the complete match
    outputs(pattern, value)   what a composite carries besides

Law: folding values one by one gives what the aggregate says of all of them. States are immutable, and hashable
where values are; that Python calls two of them equal (True and 1) does not mean that they are the same.

Numbers are exact: a double counts as its shortest decimal, sums and averages are fractions until they are shown.
Infinity has no place in arithmetic: what it enters is absent. `output` is the one place where a fraction may be
rounded: a whole number is an int, else it is the double that stands for it, else the Decimal that is it, and what
no decimal can say, such as a third, is the nearest double.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.model import (
    Aggregate,
    Condition,
    Operand,
    Pattern,
    Reference,
    atoms,
    none_before,
    preceded,
)
from fairlead.errors import ValueRefused
from fairlead.filters import Op
from fairlead.filters.constraint import COMPARED, ORDERED
from fairlead.filters.constraint import compare as compare_values
from fairlead.filters.terms import decimal_of
from fairlead.model import ABSENT, Instant, Kind, kind_of, number_of, value_of

__all__ = [
    "FOLDS",
    "ConditionPlan",
    "Fold",
    "Test",
    "compare",
    "computed",
    "exact",
    "fold_of",
    "output",
    "outputs",
    "plan_conditions",
    "tester",
    "value_in",
]

Test: TypeAlias = Callable[[Any, Any], bool]
"""A condition on the values of its left and right reference; where its right side is a constant, any will do."""


# -- numbers and comparisons -------------------------------------------------------------------------------


def exact(value: Any) -> Any:
    """The very number that a value is, as an int or a Fraction; ABSENT for infinity and what is no number."""
    if type(value) is int or type(value) is Fraction:
        return value
    if kind_of(value) is not Kind.NUMBER:
        return ABSENT
    number = number_of(value)
    if isinstance(number, int):
        return number
    return Fraction(number) if number.is_finite() else ABSENT


def compare(op: Op, left: Any, right: Any) -> bool:
    """Whether two values satisfy a comparison, as filters define it; a fraction is a number."""
    if type(left) is not Fraction and type(right) is not Fraction:
        return compare_values(op, left, right)
    one, other = _rational(left), _rational(right)
    return one is not None and other is not None and bool(COMPARED[op](one, other))


def _rational(value: Any) -> Any:
    if type(value) is Fraction:
        return value
    return number_of(value) if kind_of(value) is Kind.NUMBER else None


# -- aggregates --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fold:
    """An aggregate, one value at a time; ABSENT is added for what a step took without the attribute."""

    initial: Any
    add: Callable[[Any, Any], Any]
    """The state behind one more value."""
    result: Callable[[Any], Any]
    """Computes the aggregate of all that was added, or ABSENT."""

    def start(self) -> Any:
        """The state before the first value."""
        return self.initial


def _counted(count: int, value: Any) -> int:
    return count + 1


def _summed(state: tuple[Any, int], value: Any) -> tuple[Any, int]:
    """(the sum of the numbers so far, how many there were)"""
    number = exact(value)
    if number is ABSENT and kind_of(value) is not Kind.NUMBER:
        return state
    total, count = state
    return (ABSENT if total is ABSENT or number is ABSENT else total + number), count + 1


def _sum(state: tuple[Any, int]) -> Any:
    return state[0] if state[1] else ABSENT


def _average(state: tuple[Any, int]) -> Any:
    total, count = state
    return ABSENT if total is ABSENT or not count else Fraction(total, count)


def _better(op: Op, best: Any, value: Any) -> Any:
    """The better of two; the first value that can be ordered settles the kind."""
    if best is ABSENT:
        return value if kind_of(value) in ORDERED else ABSENT
    return value if compare(op, value, best) else best


def _itself(state: Any) -> Any:
    return state


FOLDS: Final[Mapping[Aggregate, Fold]] = MappingProxyType(
    {
        Aggregate.COUNT: Fold(0, _counted, _itself),
        Aggregate.SUM: Fold((0, 0), _summed, _sum),
        Aggregate.AVG: Fold((0, 0), _summed, _average),
        Aggregate.MIN: Fold(ABSENT, partial(_better, Op.LT), _itself),
        Aggregate.MAX: Fold(ABSENT, partial(_better, Op.GT), _itself),
        Aggregate.FIRST: Fold((), lambda state, value: state or (value,), lambda state: (*state, ABSENT)[0]),
        Aggregate.LAST: Fold(ABSENT, lambda _, value: value, _itself),
    }
)


def value_in(occurrence: Occurrence, reference: Reference) -> Any:
    """The contribution of an occurrence to a reference: its attribute, or that of what comes before it."""
    attribute = reference.attribute
    if reference.back:
        before = occurrence.preceding(reference.bar or reference.step)[: reference.back]
        if reference.lead:
            before = tuple(each for each in before if each.end >= occurrence.start - reference.lead)
        if attribute is None:
            return len(before)
        return before[-1].notification.get(attribute) if len(before) == reference.back else ABSENT
    return ABSENT if attribute is None else occurrence.notification.get(attribute)


def fold_of(reference: Reference) -> Fold:
    """The evaluation of a reference over the occurrences of a step: plain `s.a` is the value of the last one."""
    return FOLDS[reference.aggregate or Aggregate.LAST]


# -- conditions --------------------------------------------------------------------------------------------


def computed(operand: Operand, value: Any) -> Any:
    """factor * value + offset, or value + lapse; ABSENT where the value is no number, or no time."""
    if operand.is_plain:
        return value
    if operand.lapse:
        return Instant(value.microseconds + operand.lapse) if type(value) is Instant else ABSENT
    number = exact(value)
    return ABSENT if number is ABSENT else exact(operand.factor) * number + exact(operand.offset)


def tester(condition: Condition) -> Test:
    """The condition as a test of the values that its left and its right reference have."""
    left, op, right = condition.left, condition.op, condition.right
    if not isinstance(right, Operand):
        return lambda value, _: compare(op, computed(left, value), right)
    if left.is_plain and right.is_plain:
        return partial(compare, op)
    return lambda value, other: compare(op, computed(left, value), computed(right, other))


@dataclass(frozen=True, slots=True)
class ConditionPlan:
    """When the conditions of a pattern are tested."""

    at_steps: Mapping[str, tuple[Condition, ...]]
    """For each step, the conditions on the event that it is about to take, or on its domain if it is silent."""
    at_end: tuple[Condition, ...]
    """The conditions on the complete match."""


def plan_conditions(pattern: Pattern) -> ConditionPlan:
    """The conditions by when they are tested; in both cases only if all steps that they name are bound."""
    steps = [atom.step for atom in atoms(pattern.body)]
    when = {each: pattern.deciding_step(each) for each in pattern.conditions}
    when |= {none_before(step, bar.step, lead): step for step, bar, lead in preceded(pattern.body)}
    return ConditionPlan(
        MappingProxyType({step: tuple(each for each in when if when[each] == step) for step in steps}),
        tuple(each for each in when if when[each] is None),
    )


# -- outputs -----------------------------------------------------------------------------------------------


def output(value: Any) -> Any:
    """A computed value as a composite carries it; ABSENT where it has more digits than a number may have."""
    if type(value) is Fraction:
        return _shown(value)
    try:
        return ABSENT if value is ABSENT else value_of(value)
    except ValueRefused:
        return ABSENT


def _shown(number: Fraction) -> Any:
    try:
        if number.denominator == 1:
            return value_of(number.numerator)
        near = float(number)
        if Fraction(repr(near)) == number or not _is_decimal(number):
            return near
        return decimal_of(number)
    except (OverflowError, ValueRefused):
        return ABSENT


def _is_decimal(number: Fraction) -> bool:
    """Whether finitely many digits write it: its denominator divides a power of ten."""
    return pow(10, number.denominator.bit_length(), number.denominator) == 0


def outputs(pattern: Pattern, value: Callable[[Reference], Any]) -> tuple[tuple[str, Any], ...]:
    """The outputs of a pattern for a match, by the values of references (ABSENT where a step is not
    bound).

    What is absent is left out.
    """
    shown = (
        (each.name, output(computed(each.operand, value(each.operand.reference)))) for each in pattern.outputs
    )
    return tuple(each for each in shown if each[1] is not ABSENT)
