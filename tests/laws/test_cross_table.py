"""Every operator against every other on the same kind of value, by enumeration (Tables 3.1-3.7 and beyond).

A universe of values is small enough to be enumerated and rich enough to tell the constraints of a table
apart: constants are few, and between, below and above any two of them there are further values. So F covers G
iff no value of the universe satisfies G and not F. The dumb side is `Constraint.holds` alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import combinations, product
from random import Random
from typing import Any

import pytest
from hypothesis import settings

from fairlead.filters import Constraint, Filter, Op, Range, covers, identical, overlaps, relate
from fairlead.filters.constraint import KIND_NAMES, TypeName
from fairlead.filters.patterns import RegularExpression, SubjectPattern
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Attribute
from fairlead.model import (
    ABSENT,
    Array,
    Instant,
    Interval,
    Multi,
    Point,
    Record,
    Rectangle,
    Tuple,
    value_of,
)

X = Attribute("x")
INTS = Schema(attributes={"x": "int"})
PAIRS = 20 * settings.default.max_examples
"""The number of pairs of one table that are compared."""

Asked = tuple[Op, Any]
OTHERS: list[Any] = [
    *(ABSENT, None, True, False, float("nan"), 1, 77, "a", "?", b"?", Instant(99), Multi(["?"])),
    *(
        Point(9, 9),
        Interval(9, 9),
        Rectangle(9, 9, 9, 9),
        Tuple((1,)),
        Record(),
        Array((Record(),)),
        object(),
    ),
]
"""Values of every kind, for what is asked of all kinds."""


def each(ops: Iterable[Op], operands: Iterable[Any]) -> list[Asked]:
    return list(product(ops, operands))


def ordered(constants: list[Any]) -> list[Asked]:
    ranges = [
        Range(low, high, *closed)
        for low, high in product(constants, constants)
        for closed in product((True, False), repeat=2)
        if low < high or (low == high and all(closed))
    ]
    sets = [Multi(some) for size in (1, 2, 3) for some in combinations(constants, size)]
    return [
        *each((Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE), constants),
        *each((Op.IN_RANGE, Op.NOT_IN_RANGE), ranges),
        *each((Op.IN, Op.NOT_IN), sets),
    ]


def words(alphabet: str, length_max: int) -> list[str]:
    return ["".join(word) for size in range(length_max + 1) for word in product(alphabet, repeat=size)]


def subsets(elements: list[Any]) -> list[Multi]:
    return [Multi(some) for size in range(len(elements) + 1) for some in combinations(elements, size)]


def intervals(ends: list[Any]) -> list[Interval]:
    return [Interval(low, high) for low in ends for high in ends if low <= high]


def rectangles(ends: list[Any]) -> list[Rectangle]:
    sides = intervals(ends)
    return [Rectangle(a.low, b.low, a.high, b.high) for a in sides for b in sides]


QUARTERS = [Decimal(n) / 4 for n in range(-2, 11)]
HALVES = [Decimal(n) / 2 for n in range(-1, 6)]
TEXTS = (Op.PREFIX, Op.SUFFIX, Op.SUBSTRING)
REGIONS = (Op.SUBSET, Op.SUPERSET, Op.DISJOINT, Op.OVERLAPS, Op.EQ, Op.NE)
MEMBERS = (Op.CONTAINS, Op.LACKS)
PRESENCE: list[Asked] = [
    (Op.EXISTS, None),
    (Op.ABSENT, None),
    (Op.EQ, None),
    *((Op.IS, kind) for kind in KIND_NAMES.values()),
    (Op.IN, Multi([None, True, "a", 1])),
]
PATTERNS = ["a*", "a+b", "(a|b)*b", "[ab]{2}", "a?b?", ".*ab.*", ""]
SUBJECTS = ["a", "a/*", "a/**", "*/b", "**/b", "**", "*", "a/**/b"]
TYPES = {"a": {"a", "aa", "ab"}, "b": {"b", "ab"}, "aa": {"aa"}, "none": set[str]()}


# name: the constraints, and the values to tell them apart
TABLES: dict[str, tuple[list[Asked], list[Any]]] = {
    "numbers": (ordered([0, 1, 2]), QUARTERS),
    "whole numbers": (ordered([0, 1, Decimal("1.5"), 2, 3]), list(range(-2, 6))),
    "times": (ordered([Instant(n) for n in (0, 2, 4, 5)]), [Instant(n) for n in range(-2, 8)]),
    # "`" is just below "a" and "c" above "b"; the least character follows each word at once
    "strings": (
        [*ordered(["", "a", "ab", "b"]), *each(TEXTS, words("ab", 2))],
        words("\0`abc", 4) + words("ab", 6),
    ),
    "patterns": (
        [
            *each((Op.LIKE,), map(RegularExpression, PATTERNS)),
            *each((Op.IS,), [TypeName(name, frozenset(members)) for name, members in TYPES.items()]),
            *each(TEXTS, words("ab", 2)),
            *each((Op.EQ, Op.NE, Op.LT, Op.GE), ["a", "ab", "b"]),
        ],
        words("`abc", 5) + words("ab", 7),
    ),
    "subjects": (
        [
            *each((Op.MATCHES,), map(SubjectPattern, SUBJECTS)),
            *each(TEXTS, ["a", "b", "/", "a/"]),
            *each((Op.EQ, Op.NE, Op.LT, Op.GE), ["a", "a/b"]),
        ],
        words("./abc", 5),
    ),
    "bytes": (
        [*ordered([b"", b"a", b"b"]), *each(TEXTS, [b"", b"a", b"b", b"ab"])],
        [word.encode() for word in words("\0`abc", 4)],
    ),
    "booleans": (each((Op.EQ, Op.NE), [True, False]), [True, False]),
    "sets": (
        [*each(REGIONS, subsets([0, 1, "a"])), *each(MEMBERS, [0, 1, "a", None])],
        [*subsets([0, 1, "a", None, "fresh"]), *intervals([-1, 0, Decimal("0.5"), 1, 2])],
    ),
    "points": (
        [
            *each((Op.IN, Op.NOT_IN), rectangles([0, 1, 2])),
            *each((Op.EQ, Op.NE), [Point(x, y) for x in (0, 1) for y in (0, 1)]),
        ],
        [Point(x, y) for x in HALVES for y in HALVES],
    ),
    "intervals": (
        [*each(REGIONS, intervals([0, 1, 2])), *each(MEMBERS, [0, 1, 2])],
        [*intervals(QUARTERS), *subsets([0, 1, 2, "fresh"])],
    ),
    "rectangles": (
        [*each(REGIONS, rectangles([0, 1])), *each(MEMBERS, [Point(x, y) for x in (0, 1) for y in (0, 1)])],
        rectangles([Decimal(n) / 2 for n in range(-1, 4)]),
    ),
}


@dataclass(frozen=True)
class Row:
    """A constraint with the places of the universe's values that satisfy it, as the bits of a number."""

    filter: Filter
    satisfied: int


@cache
def table(name: str) -> tuple[Row, ...]:
    asked, universe = TABLES[name]
    others = [ABSENT] if name == "whole numbers" else OTHERS
    values = [value if value is ABSENT else value_of(value) for value in [*universe, *others]]
    rows = []
    for op, operand in [*asked, *PRESENCE]:
        constraint = Constraint(X, op, operand)
        rows.append(Row(constraint, sum(1 << i for i, value in enumerate(values) if constraint.holds(value))))
    return tuple(rows)


def pairs(rows: tuple[Row, ...], seed: str) -> Iterable[tuple[Row, Row]]:
    """All pairs, or a fair sample where they are many."""
    if len(rows) ** 2 <= PAIRS:
        return product(rows, rows)
    rng = Random(seed)
    return ((rng.choice(rows), rng.choice(rows)) for _ in range(PAIRS))


def check(one: Row, other: Row, schema: Schema | None) -> None:
    """Relations of two constraints are those of the values that satisfy them."""
    said = str(one.filter), str(other.filter)
    assert covers(one.filter, other.filter, schema) is (not other.satisfied & ~one.satisfied), said
    assert overlaps(one.filter, other.filter, schema) is bool(one.satisfied & other.satisfied), said
    assert identical(one.filter, other.filter, schema) is (one.satisfied == other.satisfied), said


@pytest.mark.parametrize("name", TABLES)
def test_each_pair_of_operators_is_related_as_the_values_that_satisfy_them(name: str) -> None:
    schema = INTS if name == "whole numbers" else None
    for one, other in pairs(table(name), name):
        check(one, other, schema)


@pytest.mark.parametrize("name", TABLES)
def test_negations_and_joins_are_related_as_the_values_that_satisfy_them(name: str) -> None:
    schema = INTS if name == "whole numbers" else None
    rows = table(name)
    rng = Random(name)
    exists, absent = rows[len(TABLES[name][0])], rows[len(TABLES[name][0]) + 1]
    everything = exists.satisfied | absent.satisfied
    for _ in range(settings.default.max_examples):
        one, other, third = rng.choice(rows), rng.choice(rows), rng.choice(rows)
        either = Row(one.filter | other.filter, one.satisfied | other.satisfied)
        both = Row(one.filter & other.filter, one.satisfied & other.satisfied)
        negated = Row(~third.filter, everything & ~third.satisfied)
        check(either, negated, schema)
        assert not (third.satisfied & ~either.satisfied) or not covers(either.filter, third.filter, schema)
        assert not (both.satisfied & third.satisfied) or overlaps(both.filter, third.filter, schema)
        assert relate(either.filter, third.filter, schema).exact
        assert relate(both.filter, negated.filter, schema).exact


def test_the_tables_have_every_built_in_operator() -> None:
    asked = {op for constraints, _ in TABLES.values() for op, _ in [*constraints, *PRESENCE]}
    assert asked == set(Op) - {Op.EXTENDED}
