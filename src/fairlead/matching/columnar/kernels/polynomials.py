"""Polynomials: columns of numbers computed from others, exactly.

A float stands for its shortest decimal. A decimal of at most fifteen digits is the only one of so few digits that
its float is nearest to, so it is known from the float: as a whole number and a power of ten, which are added and
multiplied without rounding. Where that does not do (longer decimals, results of more digits), floats are computed
with, and the result is good if no bound that it is compared with lies within the error. Only rows where one does
are left to exact arithmetic in Python.
"""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0917  (what compiles to good code is flat, and has arrays for arguments)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from fairlead.kernels import kernel
from fairlead.matching.columnar.compile import INEXACT, NUMBER

__all__: list[str] = []

UNSURE = -1
"""The rank of a number that has to be computed in Python."""
_DIGITS_MAX = 1e15
_WHOLE_MAX = 4e18
_TENS = tuple(10.0**power for power in range(23))
_POWERS = tuple(10**power for power in range(19))
_ROUNDING = 2.0**-52
_LEAST, _MOST = 1e-90, 1e90
"""Between these, products of a few numbers neither overflow nor vanish."""
_DEGREE_MAX = 3


@kernel(inline=True)
def decimals_of(number):
    """The power of ten that makes a float's decimal whole, if it has at most fifteen digits, or -1."""
    if number == np.rint(number):
        return 0 if abs(number) < _DIGITS_MAX else -1
    for power in range(1, 16):
        whole = np.rint(number * _TENS[power])
        if abs(whole) >= _DIGITS_MAX:
            return -1
        if whole / _TENS[power] == number:
            return power
    return -1


@kernel(inline=True)
def exact_value(row, coordinates, first, last, starts, operands, coefficients):
    """The value of a polynomial as a whole number and a power of ten; the power is -1 where it is too long."""
    total, power = np.int64(0), 0
    for monomial in range(first, last):
        if not abs(coefficients[monomial]) < _DIGITS_MAX:
            return total, -1
        product, scale = np.int64(coefficients[monomial]), 0
        for at in range(starts[monomial], starts[monomial + 1]):
            number = coordinates[row, operands[at]]
            places_of = decimals_of(number)
            if places_of < 0:
                return total, -1
            whole = np.rint(number * _TENS[places_of])
            if abs(np.float64(product) * whole) > _WHOLE_MAX:
                return total, -1
            product *= np.int64(whole)
            scale += places_of
        shift = abs(power - scale)
        if shift > 18:
            return total, -1
        if power < scale:
            if abs(np.float64(total) * _TENS[shift]) > _WHOLE_MAX:
                return total, -1
            total *= _POWERS[shift]
            power = scale
        else:
            if abs(np.float64(product) * _TENS[shift]) > _WHOLE_MAX:
                return total, -1
            product *= _POWERS[shift]
        total += product
        if abs(np.float64(total)) > _WHOLE_MAX:
            return total, -1
    while power > 0 and total % 10 == 0:
        total //= 10
        power -= 1
    if abs(np.float64(total)) >= _DIGITS_MAX or power > 22:
        return total, -1
    return total, power


@kernel(inline=True)
def near_value(row, coordinates, first, last, starts, operands, coefficients):
    """The value of a polynomial in floats and its error; infinite, if it is not known."""
    total, error = 0.0, 0.0
    for monomial in range(first, last):
        product = coefficients[monomial]
        degree = starts[monomial + 1] - starts[monomial]
        for at in range(starts[monomial], starts[monomial + 1]):
            number = coordinates[row, operands[at]]
            if number != 0.0 and not _LEAST < abs(number) < _MOST:
                return total, np.inf
            product *= number
        if degree > _DEGREE_MAX or last - first > 64:
            return total, np.inf
        # Each factor and each product is off by one rounding, each sum by one more of what is summed up.
        error += abs(product) * (2 * degree + last - first + 2) * _ROUNDING
        total += product
    return total, error


@kernel(inline=True)
def is_between(low, high, bounds, first, last):
    """Whether one of some sorted bounds lies between two numbers."""
    while first < last:
        middle = (first + last) >> 1
        if bounds[middle] < low:
            first = middle + 1
        elif bounds[middle] > high:
            last = middle
        else:
            return True
    return False


@kernel(inline=True)
def rank_of(row, states, coordinates, first, last, operands):
    """The rank of a polynomial by its operands: absent if one is no finite number, unsure if one is no float."""
    rank = NUMBER
    for at in range(first, last):
        given = states[row, operands[at]]
        if given == INEXACT:
            rank = UNSURE
        elif given != NUMBER or not np.isfinite(coordinates[row, operands[at]]):
            return 0
    return rank


@kernel()
def compute(
    states, coordinates, column, monomial_start, operand_start, operands, coefficients, bound_start, bounds
):
    """Write the values of all polynomials into their columns; how many are left to Python, ranked UNSURE."""
    unsure = 0
    for row in range(len(states)):
        for number in range(len(column)):
            first, last = monomial_start[number], monomial_start[number + 1]
            to = column[number]
            rank = rank_of(row, states, coordinates, operand_start[first], operand_start[last], operands)
            if rank == NUMBER:
                total, power = exact_value(
                    row, coordinates, first, last, operand_start, operands, coefficients
                )
                if power >= 0:
                    coordinates[row, to] = total / _TENS[power]
                else:
                    near, error = near_value(
                        row, coordinates, first, last, operand_start, operands, coefficients
                    )
                    low, high = bound_start[number], bound_start[number + 1]
                    if not np.isfinite(error) or is_between(near - error, near + error, bounds, low, high):
                        rank = UNSURE
                    else:
                        coordinates[row, to] = near
            if rank == UNSURE:
                unsure += 1
            states[row, to] = rank
    return unsure
