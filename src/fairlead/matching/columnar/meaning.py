"""The meaning of a predicate in Python: exactly that of the constraint it was compiled from.

The delta verifies with it, and so does the base where a kernel cannot decide: for numbers that no float stands
for, and for filters with opaque parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from math import inf, nextafter
from typing import Any, Final

from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import Filter
from fairlead.matching.columnar.compile import (
    ANY,
    BYTES,
    EQ,
    INEXACT,
    KIND,
    MEMBER,
    NUMBER,
    OPAQUE,
    RANGE,
    STRING,
    SUBSET,
    SYMBOL,
    TEXTUAL,
    TIME,
    TRUE,
    Literal,
    Predicate,
    Program,
    Sort,
    symbol_of,
)
from fairlead.matching.columnar.selections import path_filter
from fairlead.model import Instant, Kind, Multi, Notification, key_of, kind_of, number_of
from fairlead.model.values import RANK

__all__ = ["Test", "accepts", "holds", "is_exact", "score_of", "test_of", "value_of_symbol"]

Test = Callable[[Any], bool]
_EXACT: Final = 2**53


def is_exact(value: Any) -> bool:
    """Whether a number is compared with floats as Python compares it."""
    return type(value) is float or (type(value) is int and -_EXACT <= value <= _EXACT)


_TEXT_TEST: Final[dict[int, Callable[[Any, Any], bool]]] = {
    Sort.PREFIX: lambda text, part: text.startswith(part),
    Sort.SUFFIX: lambda text, part: text.endswith(part),
    Sort.SUBSTRING: lambda text, part: part in text,
}


def value_of_symbol(sort: int, content: Any) -> Any:
    """The value of a symbol; for texts, the text."""
    if sort in (STRING, BYTES) or sort >= Sort.BINARY or Sort.PREFIX <= sort < Sort.ELEMENT:
        return content
    rank = sort % Sort.ELEMENT
    if rank == NUMBER:
        return number_of(content)
    if rank == INEXACT:
        return number_of(Decimal(content))
    if rank == TIME:
        return Instant(int(content))
    if rank == RANK[Kind.BOOLEAN]:
        return bool(content)
    if rank == RANK[Kind.NULL]:
        return None
    return content


def test_of(predicate: Predicate) -> Test:
    """Whether a value (or ABSENT) satisfies a predicate; for opaque ones, whether a notification does."""
    return _TESTS[predicate.sort](predicate)


def _kind(predicate: Predicate) -> Test:
    mask = predicate.content
    return lambda value: bool(mask >> RANK[kind_of(value)] & 1)


def _equal(predicate: Predicate) -> Test:
    wanted = predicate.content
    if wanted[0] == STRING:
        text = wanted[1]
        return lambda value: type(value) is str and value == text
    if wanted[0] == NUMBER:
        number = wanted[1]
        return lambda value: value == number if is_exact(value) else symbol_of(value) == wanted
    return lambda value: symbol_of(value) == wanted


def _member(predicate: Predicate) -> Test:
    wanted = predicate.content
    return lambda value: ((STRING, value) if type(value) is str else symbol_of(value)) in wanted


def _between(predicate: Predicate) -> Test:
    rank, low, high = predicate.content
    low_open, high_open = predicate.opened
    text = str if rank == STRING else bytes

    def test(value: Any) -> bool:
        return (
            type(value) is text
            and (low is None or (low < value if low_open else low <= value))
            and (high is None or (value < high if high_open else value <= high))
        )

    return test


def _range(predicate: Predicate) -> Test:
    rank, low, high = predicate.content
    if rank in TEXTUAL:
        return _between(predicate)
    low_open, high_open = predicate.opened
    least = nextafter(low, -inf) if low_open else low
    most = nextafter(high, inf) if high_open else high

    def test(value: Any) -> bool:
        if type(value) is float or is_exact(value):
            return bool(rank == NUMBER and low <= value <= high)
        if RANK[kind_of(value)] != rank:
            return False
        number = number_of(value) if rank == NUMBER else value.microseconds
        if least != -inf and (number <= number_of(least) if low_open else number < number_of(least)):
            return False
        return bool(most == inf or (number < number_of(most) if high_open else number <= number_of(most)))

    return test


def _symbol(predicate: Predicate) -> Test:
    sort, content = predicate.content
    if Sort.ELEMENT <= sort < Sort.BINARY:
        element = value_of_symbol(sort, content)
        key, contains = key_of(element), Constraint(predicate.term, Op.CONTAINS, element).holds
        return lambda value: value.has_key(key) if type(value) is Multi else contains(value)
    if sort == Sort.PATH:
        constraint = path_filter(content)
        by_none = constraint.holds(0)
        return lambda notification: constraint.matches(notification) is not by_none
    if sort in Sort.PATTERNS:
        return lambda value: type(value) is str and content.matches(value)
    text, test = type(content), _TEXT_TEST[sort % Sort.BINARY]
    return lambda value: type(value) is text and test(value, content)


def _elements(predicate: Predicate) -> Multi:
    return Multi(value_of_symbol(*symbol) for symbol in predicate.content)


def _any(predicate: Predicate) -> Test:
    return Constraint(predicate.term, Op.OVERLAPS, _elements(predicate)).holds


def _subset(predicate: Predicate) -> Test:
    return Constraint(predicate.term, Op.SUBSET, _elements(predicate)).holds


def _opaque(predicate: Predicate) -> Test:
    filter: Filter = predicate.content
    return lambda notification: bool(filter.matches(notification))


_TESTS: Final[dict[int, Callable[[Predicate], Test]]] = {
    KIND: _kind,
    EQ: _equal,
    MEMBER: _member,
    RANGE: _range,
    SYMBOL: _symbol,
    ANY: _any,
    SUBSET: _subset,
    OPAQUE: _opaque,
}


def holds(literal: Literal, notification: Notification) -> bool:
    """Whether a notification satisfies a literal."""
    predicate, negative = literal
    given = notification if predicate.sort == OPAQUE else predicate.term.value(notification)
    return test_of(predicate)(given) is not negative


def accepts(program: Program, notification: Notification) -> bool:
    """Whether a program accepts a notification: the definition that kernels are compared with."""
    if program.never:
        return False
    if program.jumps is None:
        return all(holds(literal, notification) for literal in program.literals)
    return run(program.jumps, lambda place: holds(program.literals[place], notification))


def score_of(program: Program, notification: Notification) -> float:
    """The degree to which a notification matches: of a conjunction, the share of its literals that hold; else 0
    or 1."""
    if program.jumps is not None or program.never or not program.literals:
        return float(accepts(program, notification))
    return sum(holds(literal, notification) for literal in program.literals) / len(program.literals)


def run(jumps: Sequence[tuple[int, int]], ask: Callable[[int], bool]) -> bool:
    """Follow a branching program to its end."""
    place = 0
    while place >= 0:
        place = jumps[place][0 if ask(place) else 1]
    return place == TRUE
