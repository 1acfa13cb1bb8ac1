"""Arithmetic over attributes, brought to the form in which equal conditions are equal constraints.

    x + 1 > 5             x > 4
    2 * x = 5             x = 2.5
    3 * x = 1             stays: one third is no decimal
    x < y                 x - y < 0
    (x + y) / 3 = 1       x + y = 3

A `Sum` is an expanded polynomial with rational coefficients; nothing is ever rounded. `compared` and `within`
move all attributes to the left and all numbers to the right, and divide by as much as leaves every number a
finite decimal. Size is bounded, so that a short text cannot ask for much work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import gcd, lcm
from typing import Any, Final

from fairlead.errors import FilterError
from fairlead.filters.constraint import Constraint, Op, Range
from fairlead.filters.terms import Attribute, Polynomial, Term, decimal_of
from fairlead.model import Kind, Multi, Number, kind_of

__all__ = ["Sum", "compared", "presence", "within"]

DEGREE_MAX: Final = 8
MONOMIALS_MAX: Final = 64
BITS_MAX: Final = 4096
"""The length of the numerators and denominators, about 1200 decimal digits."""

TURNED: Final = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
"""The comparison that each becomes when both sides change their sign."""

_CONSTANT: Final[tuple[str, ...]] = ()


@dataclass(frozen=True, slots=True)
class Sum:
    """A polynomial in attributes: from each product of names (sorted) to its coefficient."""

    coefficients: dict[tuple[str, ...], Fraction]

    @classmethod
    def number(cls, value: int | Decimal) -> Sum:
        """A number as an expression."""
        return _bounded({_CONSTANT: Fraction(value)})

    @classmethod
    def attribute(cls, name: str) -> Sum:
        """An attribute as an expression."""
        return cls({(name,): Fraction(1)})

    @property
    def constant(self) -> Fraction | None:
        """Its value, where no attribute is left in it."""
        if any(coefficient for names, coefficient in self.coefficients.items() if names):
            return None
        return self.coefficients.get(_CONSTANT, Fraction(0))

    def __neg__(self) -> Sum:
        return Sum({names: -coefficient for names, coefficient in self.coefficients.items()})

    def __add__(self, other: Sum) -> Sum:
        total = defaultdict(Fraction, self.coefficients)
        for names, coefficient in other.coefficients.items():
            total[names] += coefficient
        return _bounded(total)

    def __sub__(self, other: Sum) -> Sum:
        return self + -other

    def __mul__(self, other: Sum) -> Sum:
        total: defaultdict[tuple[str, ...], Fraction] = defaultdict(Fraction)
        for names, coefficient in self.coefficients.items():
            for others, factor in other.coefficients.items():
                if len(names) + len(others) > DEGREE_MAX:
                    raise FilterError(f"a product of more than {DEGREE_MAX} attributes")
                total[tuple(sorted(names + others))] += coefficient * factor
        return _bounded(total)

    def __truediv__(self, other: Sum) -> Sum:
        divisor = other.constant
        if divisor is None:
            raise FilterError("only numbers can be divided by", hint="multiply both sides instead")
        if divisor == 0:
            raise FilterError("division by zero")
        return self * Sum({_CONSTANT: 1 / divisor})


def compared(left: Sum, op: Op, right: Sum) -> Constraint:
    """The constraint that `left op right` is."""
    term, turned, (bound,) = _settled(left - right, [0])
    return Constraint(term, TURNED.get(op, op) if turned else op, bound)


def within(left: Sum, op: Op, operand: Any) -> Constraint:
    """The constraint that `left in operand` is, for a range or a set of numbers."""
    if isinstance(operand, Range):
        ends = _numbers((operand.low, operand.high))
        term, turned, (low, high) = _settled(left, ends)
        if turned:
            return Constraint(term, op, Range(high, low, operand.high_closed, operand.low_closed))
        return Constraint(term, op, Range(low, high, operand.low_closed, operand.high_closed))
    if not isinstance(operand, Multi):
        raise FilterError("arithmetic gives numbers, which lie in ranges and sets only")
    term, _, elements = _settled(left, _numbers(operand))
    return Constraint(term, op, Multi(elements))


def presence(left: Sum, op: Op) -> Constraint:
    """The constraint `exists left` or `absent left`: whether all its attributes are numbers."""
    _, attributes = _split(left)
    term, _ = Polynomial.normal(attributes)
    if _attribute_in(term):
        raise FilterError(f"{op.value!r} takes a name", hint=f"{op.value} {term}, or {term} is number")
    return Constraint(term, op)


def _bounded(coefficients: dict[tuple[str, ...], Fraction]) -> Sum:
    kept = {names: coefficient for names, coefficient in coefficients.items() if coefficient}
    if len(kept) > MONOMIALS_MAX:
        raise FilterError(f"an expression of more than {MONOMIALS_MAX} products")
    _check_lengths(kept.values())
    return Sum(kept)


def _check_lengths(numbers: Iterable[Fraction]) -> None:
    if any(max(n.numerator.bit_length(), n.denominator.bit_length()) > BITS_MAX for n in numbers):
        raise FilterError("a number in an expression has more than 1200 digits")


def _numbers(values: Iterable[Any]) -> list[Any]:
    numbers = list(values)
    for value in numbers:
        if kind_of(value) is not Kind.NUMBER:
            raise FilterError(f"arithmetic gives numbers, which are never {kind_of(value).value}")
    return numbers


def _split(expression: Sum) -> tuple[Fraction, dict[tuple[str, ...], Fraction]]:
    attributes = {names: c for names, c in expression.coefficients.items() if names and c}
    if not attributes:
        raise FilterError(
            "the comparison is between constants: no attribute is left in it", hint="use true or false"
        )
    return expression.coefficients.get(_CONSTANT, Fraction(0)), attributes


def _settled(expression: Sum, constants: Iterable[Any]) -> tuple[Term, bool, list[Number]]:
    """The least term that the expression's attributes can be written as, whether its sign was changed, and
    the constants that it is now compared with.
    """
    offset, attributes = _split(expression)
    least, scale = Polynomial.normal(attributes)
    moved = [(Fraction(constant) - offset) * scale for constant in constants]
    # Constants like one third are made whole by multiplying both sides ...
    factor = lcm(*(_odd_part(constant.denominator) for constant in moved))
    whole = [constant * factor for constant in moved]
    # ... and a common divisor is taken out again where all constants can be divided by it, too.
    divisor = gcd(*(c * factor for _, c in least.monomials), *(constant.numerator for constant in whole))
    monomials = tuple((names, c * factor // divisor) for names, c in least.monomials)
    settled = [constant / divisor for constant in whole]
    _check_lengths([*settled, *(Fraction(c) for _, c in monomials)])
    term = Polynomial(monomials)
    return _attribute_in(term) or term, scale < 0, [decimal_of(constant) for constant in settled]


def _attribute_in(term: Polynomial) -> Attribute | None:
    match term.monomials:
        case (((name,), 1),):
            return Attribute(name)
    return None


def _odd_part(whole: int) -> int:
    """The odd part of a whole number, without its twos and fives: 1 iff its reciprocal is a finite decimal."""
    for prime in (2, 5):
        while whole % prime == 0:
            whole //= prime
    return whole
