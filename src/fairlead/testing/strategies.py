"""Hypothesis strategies for values, notifications and filters.

Everything is drawn from a few small pools: numbers from 0 to 6 in halves, short strings of a and b, a handful
of instants, small sets. So constants meet: two constraints on one attribute often cover one another, overlap
by one value, or just miss, and notifications often match. A law on relations is tried best where relations
are frequent; what is to hold for anything at all needs wider pools.

    values, simple_values       what attributes hold
    notifications               of the same names and pools; also with other kinds, records, tuples, trees
    constraints, conjunctions   the built-in constraints; conjunctions have one per attribute
    filters                     Boolean trees; templates, paths, polynomials, methods and extensions by flag
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import product
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fairlead.filters.constraint import KIND_NAMES, Constraint, Extended, Op, Range, TypeName
from fairlead.filters.filter import EVERYTHING, NOTHING, And, Filter, Not, Or
from fairlead.filters.language.arithmetic import Sum, compared, within
from fairlead.filters.paths import Path, Selection
from fairlead.filters.patterns import RegularExpression, SubjectPattern
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Attribute, Inspector, Length, Position, Term
from fairlead.model import Instant, Interval, Multi, Notification, Point, Rectangle

__all__ = [
    "NAMES",
    "Quote",
    "conjunctions",
    "constraints",
    "filters",
    "json_texts",
    "notifications",
    "operations_on",
    "paths",
    "polynomials",
    "schemas",
    "simple_values",
    "templates",
    "values",
]

NAMES: Final = ("a", "a.b", "x", "y")
"""The names that are drawn from unless others are given: one lies within another."""

HOMES: Final = {"a": "number", "a.b": "string", "b": "string", "x": "number", "y": "string"}


def home_of(name: str) -> str:
    """The kind that most values and constraints under a name have, so that they meet; the others have any."""
    return HOMES.get(name) or ("number", "string", "set")[len(name) % 3]


# -- the pools -----------------------------------------------------------------------------------------------

NUMBERS: Final[tuple[Any, ...]] = (*range(7), *(Decimal(n) / 2 for n in range(1, 13, 2)), -1)
STRINGS: Final = ("", "a", "b", "aa", "ab", "ba", "bb", "aab", "aba", "abab")
OCTETS: Final = (b"", b"a", b"b", b"ab", b"ba")
INSTANTS: Final = tuple(Instant(1_714_557_600_000_000 + 500_000 * n) for n in range(4))
TYPES: Final = {"a": frozenset({"a", "aa", "ab"}), "b": frozenset({"b", "ab"}), "aa": frozenset({"aa"})}
"""Types with their subtypes: `ab` is below both `a` and `b`."""
EXPRESSIONS: Final = ("", "a*", "a+b", "(a|b)*b", "[ab]{2}", "(ab)+", "b?a?", ".*aa.*", "(?i)A[^B]*")
SUBJECTS: Final = ("a", "a/*", "a/**", "*/b", "**/b", "**", "*", "a/**/b", "*/*")
LEVELS: Final = ("a", "b", "a/b", "a/a", "b/b", "a/a/b", "a/b/b")
ELEMENTS: Final[tuple[Any, ...]] = (0, 1, 2, "a", "b", True, None)
METHODS: Final = ("id", "price", "live")
STEPS: Final = ("item", "cpu", "notification")

EXTENDED: Final[tuple[tuple[str, Any], ...]] = (
    *product(("set<=", "set>=", "set~"), (b"", b"\x01", b"\x03", b"a", b"ab")),
    *product(("unifies",), ("a", "_X", "f(_X)", "f(a, _Y)", "g(_X, _X)")),
    *product(("&&",), ("x > 1", "x < 1", 'a prefix "a"', "true")),
)

_number = st.sampled_from(NUMBERS)
_numbers = st.one_of(_number, _number.map(float), _number.map(Decimal))
_texts = st.sampled_from(STRINGS + LEVELS)
_coordinate = st.integers(0, 4)
_sets = st.lists(st.sampled_from(ELEMENTS), max_size=3).map(Multi)  # not Python's, where True is 1
_mostly = st.sampled_from((True, True, True, True, False))
_points = st.builds(Point, _coordinate, _coordinate)
_intervals = st.tuples(_coordinate, _coordinate).map(lambda ends: Interval(min(ends), max(ends)))
_rectangles = st.builds(
    lambda across, up: Rectangle(across.low, up.low, across.high, up.high), _intervals, _intervals
)


@dataclass(frozen=True)
class Quote:
    """An object that notifications embed, with inspectors to ask."""

    number: Any
    text: str
    flag: bool

    def id(self) -> str:
        return self.text

    def price(self) -> Any:
        return self.number

    def live(self) -> bool:
        return self.flag


# -- values and notifications --------------------------------------------------------------------------------


_OF_KIND: Final[dict[str, SearchStrategy[Any]]] = {
    "number": _numbers,
    "string": _texts,
    "boolean": st.booleans(),
    "null": st.none(),
    "odd": st.sampled_from((2**53, 2**53 + 1, float("nan"), float("inf"), 0.1, Decimal("0.1"), -0.0)),
    "bytes": st.sampled_from(OCTETS),
    "time": st.sampled_from(INSTANTS),
    "set": _sets,
    "point": _points,
    "interval": _intervals,
    "rectangle": _rectangles,
}
_SIMPLE: Final = ("number", "string", "number", "string", "boolean", "null", "odd", "bytes", "time")


# A kind is drawn first: `one_of` would give each kind as much weight as it has branches.
def simple_values() -> SearchStrategy[Any]:
    """Values that can be elements of sets, mostly numbers and strings; a number comes in any of its types."""
    return st.sampled_from(_SIMPLE).flatmap(_OF_KIND.__getitem__)


def values() -> SearchStrategy[Any]:
    """Values of every kind that can be compared with."""
    return st.sampled_from((*_SIMPLE, "set", "set", "point", "interval", "rectangle")).flatmap(
        _OF_KIND.__getitem__
    )


_values = values()


@st.composite
def notifications(
    draw: st.DrawFn,
    names: Sequence[str] = NAMES,
    *,
    templates: bool = False,
    paths: bool = False,
    methods: bool = False,
) -> Notification:
    """Notifications that give values to some of the names; the flags are those of `filters`."""
    attributes: dict[str, Any] = _record(draw, names)
    if templates and draw(st.booleans()):
        attributes["tuple"] = tuple(draw(st.lists(values(), max_size=3)))
    if paths and draw(st.booleans()):
        item = st.fixed_dictionaries({}, optional={"a": simple_values(), "b": simple_values()})
        nested = st.fixed_dictionaries({}, optional={"a": simple_values(), "cpu": st.lists(item, max_size=2)})
        attributes["item"] = draw(st.lists(nested, max_size=2))
        attributes["cpu"] = draw(item)
    if methods and draw(st.booleans()):
        attributes["quote"] = draw(st.builds(Quote, _number, st.sampled_from(STRINGS), st.booleans()))
    return Notification.of(attributes)


def _record(draw: st.DrawFn, names: Iterable[str], path: str = "") -> dict[str, Any]:
    """A value, a record or nothing for each first step of the names."""
    below: dict[str, list[str]] = {}
    for name in names:
        first, _, rest = name.partition(".")
        below.setdefault(first, []).extend([rest] if rest else [])
    record: dict[str, Any] = {}
    for first, inner in below.items():
        opened = draw(st.booleans()) if inner else False
        if opened:
            record[first] = _record(draw, inner, f"{path}{first}.")
        elif draw(_mostly):
            record[first] = draw(_OF_KIND[home_of(path + first)] if draw(st.booleans()) else _values)
    return record


# -- constraints ---------------------------------------------------------------------------------------------

Operation = tuple[Op, Any]
"""A constraint without its term."""

_EQUALITY: Final = (Op.EQ, Op.NE)
_ORDER: Final = (Op.LT, Op.LE, Op.GT, Op.GE)
_REGIONS: Final = (Op.SUBSET, Op.SUPERSET, Op.DISJOINT, Op.OVERLAPS)


# -- JSON text -------------------------------------------------------------------------------------------------

_JSON_NAMES: Final = ("z", "a", "b.c", "b.d", "e.f.g", "größe", "two words", "B")
"""Names that do not ask for a record where there is a value; out of their order, with dots and without."""
_SPELLINGS: Final = (
    *("0", "-0", "7", "-12", "20.0", "10.10", "1e3", "1E+3", "0.1", "0.00001", "-0.0", "1.50e-7"),
    *("123456789012345678901", "0.12345678901234567890", "1e400", "9007199254740993.0"),
)


def json_texts() -> SearchStrategy[str]:
    """JSON objects as text: numbers in many spellings, arrays with repeats, names in any order."""
    leaves = st.sampled_from((*_SPELLINGS, "true", "false", "null", '""', '"x"', '"\\u00e9"', '"a\\nb"'))
    texts = st.recursive(leaves, lambda inner: _json_arrays(inner) | _json_objects(inner), max_leaves=8)
    return _json_objects(texts)


def _json_arrays(values: SearchStrategy[str]) -> SearchStrategy[str]:
    return st.lists(values, max_size=4).map(lambda items: f"[{', '.join(items)}]")


def _json_objects(values: SearchStrategy[str]) -> SearchStrategy[str]:
    members = st.lists(
        st.tuples(st.sampled_from(_JSON_NAMES), values), max_size=4, unique_by=lambda each: each[0]
    )
    return members.map(lambda pairs: "{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}")


def _each(ops: Iterable[Op], operands: Iterable[Any]) -> tuple[Operation, ...]:
    return tuple(product(ops, operands))


@cache
def _ordered(pool: tuple[Any, ...]) -> SearchStrategy[Operation]:
    """Comparisons, ranges and sets over the constants of an ordered kind."""
    comparisons = _each(_EQUALITY + _ORDER, pool)
    ranges = [
        Range(low, high, low_closed, high_closed)
        for low, high in product(pool, pool)
        for low_closed, high_closed in product((True, False), repeat=2)
        if low < high or (low == high and low_closed and high_closed)
    ]
    sets = st.frozensets(st.sampled_from(pool), min_size=1, max_size=3).map(Multi)
    return st.one_of(
        st.sampled_from(comparisons),
        st.sampled_from(_each((Op.IN_RANGE, Op.NOT_IN_RANGE), ranges)),
        st.tuples(st.sampled_from((Op.IN, Op.NOT_IN)), sets),
    )


@cache
def operations_on(kind: str) -> SearchStrategy[Operation]:
    """Operators with operands for values of one kind; `presence` and `mixed` ask about all kinds."""
    types = [TypeName(name, members) for name, members in TYPES.items()]
    texts = (Op.PREFIX, Op.SUFFIX, Op.SUBSTRING)
    patterns = st.one_of(
        st.sampled_from(_each(texts, STRINGS)),
        st.sampled_from(_each((Op.IS,), types)),
        st.sampled_from(_each((Op.LIKE,), map(RegularExpression, EXPRESSIONS))),
        st.sampled_from(_each((Op.MATCHES,), map(SubjectPattern, SUBJECTS))),
    )
    members = st.tuples(st.sampled_from((Op.CONTAINS, Op.LACKS)), st.sampled_from(ELEMENTS))
    shapes: dict[str, SearchStrategy[Any]] = {"interval": _intervals, "rectangle": _rectangles}
    within: dict[str, SearchStrategy[Any]] = {"interval": _number, "rectangle": _points}
    match kind:
        case "presence":
            asked = [(Op.IS, each) for each in KIND_NAMES.values()]
            return st.sampled_from(((Op.EXISTS, None), (Op.ABSENT, None), (Op.EQ, None), *asked))
        case "mixed":
            return st.tuples(st.just(Op.IN), _sets)
        case "number":
            return _ordered(NUMBERS)
        case "string":
            return st.one_of(_ordered(STRINGS), patterns)
        case "bytes":
            return st.one_of(_ordered(OCTETS), st.sampled_from(_each(texts, OCTETS)))
        case "time":
            return _ordered(INSTANTS)
        case "boolean":
            return st.sampled_from(_each(_EQUALITY, (True, False)))
        case "set":
            return st.one_of(st.tuples(st.sampled_from(_REGIONS + _EQUALITY), _sets), members)
        case "point":
            return st.one_of(
                st.tuples(st.sampled_from((Op.IN, Op.NOT_IN)), _rectangles),
                st.tuples(st.sampled_from(_EQUALITY), _points),
            )
        case "interval" | "rectangle":
            return st.one_of(
                st.tuples(st.sampled_from(_REGIONS + _EQUALITY), shapes[kind]),
                st.tuples(st.sampled_from((Op.CONTAINS, Op.LACKS)), within[kind]),
            )
    raise ValueError(f"no constraints are drawn for {kind!r}")


COMMON: Final = ("presence", "mixed", "number", "string", "set")
RARE: Final = ("bytes", "time", "boolean", "point", "interval", "rectangle")


def _operation(draw: st.DrawFn, kinds: Sequence[str] | None, home: str | None = None) -> Operation:
    if kinds is not None:
        kind = draw(st.sampled_from(kinds))
    elif home is not None and draw(st.booleans()):
        kind = home
    else:
        kind = draw(st.sampled_from(COMMON + COMMON + RARE))
    return draw(operations_on(kind))


# Composites, not `builds`: Hypothesis writes out what a strategy is made of, and the pools are long.
@st.composite
def constraints(
    draw: st.DrawFn, names: Sequence[str] = NAMES, kinds: Sequence[str] | None = None
) -> Constraint:
    """Built-in constraints on attributes; `kinds` narrows them down (see `operations_on`)."""
    name = draw(st.sampled_from(names))
    return Constraint(Attribute(name), *_operation(draw, kinds, home_of(name)))


@st.composite
def _on(draw: st.DrawFn, terms: Sequence[Term], kinds: tuple[str, ...]) -> Constraint:
    return Constraint(draw(st.sampled_from(terms)), *_operation(draw, kinds))


@st.composite
def conjunctions(draw: st.DrawFn, names: Sequence[str] = NAMES, kinds: Sequence[str] | None = None) -> Filter:
    """Conjunctions of at most one built-in constraint per attribute: where relations are exact."""
    size = min(len(names), draw(st.sampled_from((1, 1, 1, 2, 2, 2, 3, 4, 0))))
    constrained = draw(st.lists(st.sampled_from(names), min_size=size, max_size=size, unique=True))
    return And.of([draw(constraints((name,), kinds)) for name in constrained])


# -- filters -------------------------------------------------------------------------------------------------


@st.composite
def templates(draw: st.DrawFn) -> Filter:
    """Templates of one to three positions."""
    size = draw(st.integers(1, 3))
    items = [
        (Op.EXISTS, None) if draw(st.booleans()) else _operation(draw, ("number", "string"))
        for _ in range(size)
    ]
    positions = [Constraint(Position(index), *asked) for index, asked in enumerate(items)]
    return And.of([Constraint(Length(), Op.EQ, size), *positions])


@st.composite
def paths(draw: st.DrawFn) -> Constraint:
    """Path filters, and bounds on how many elements a path selects or misses."""
    step = st.tuples(st.booleans(), st.sampled_from((*STEPS, "*")))
    path = Path(tuple(draw(st.lists(step, min_size=1, max_size=3))))
    condition = draw(st.one_of(st.just(EVERYTHING), _trees(constraints(("a", "b")), 3)))
    misses = draw(st.booleans())
    if not misses and draw(st.booleans()):
        return Constraint(Selection(path, condition), Op.GE, 1)
    bounds = _ordered((0, 1, 2))
    return Constraint(Selection(path, condition, misses), *draw(bounds))


@st.composite
def polynomials(draw: st.DrawFn, names: Sequence[str] = NAMES) -> Constraint:
    """Comparisons of numbers that are computed from attributes."""
    attribute = st.sampled_from([Sum.attribute(name) for name in names])
    factor = st.sampled_from([Sum.number(n) for n in (1, -1, 2, 3, Decimal("0.5"))])
    product_of = st.one_of(attribute, st.builds(Sum.__mul__, attribute, attribute))
    terms = draw(
        st.lists(st.builds(Sum.__mul__, factor, product_of), min_size=1, max_size=3).filter(
            lambda given: _total(given).constant is None
        )
    )
    op, operand = draw(_ordered(NUMBERS))
    total = _total(terms)
    if isinstance(operand, Range | Multi):
        return within(total, op, operand)
    return compared(total, op, Sum.number(operand))


def _total(terms: Iterable[Sum]) -> Sum:
    total = Sum({})
    for term in terms:
        total = total + term
    return total


@st.composite
def _extended(draw: st.DrawFn, names: Sequence[str]) -> Constraint:
    """Constraints with the operators of the extensions that come with Fairlead."""
    return Constraint(
        Attribute(draw(st.sampled_from(names))), Op.EXTENDED, Extended(*draw(st.sampled_from(EXTENDED)))
    )


def filters(
    names: Sequence[str] = NAMES,
    *,
    templates: bool = False,
    paths: bool = False,
    polynomials: bool = False,
    methods: bool = False,
    extensions: bool = False,
    leaves_max: int = 6,
) -> SearchStrategy[Filter]:
    """Boolean trees over constraints on attributes and, by flag, over what else the language has."""
    parts: list[SearchStrategy[Filter]] = [constraints(names)]
    if templates:
        positions = (Length(), Position(0), Position(1))
        parts += [_templates(), _on(positions, ("presence", "number", "string"))]
    if paths:
        parts.append(_paths())
    if polynomials:
        parts.append(_polynomials(names))
    if methods:
        inspectors = tuple(Inspector("quote", method) for method in METHODS)
        parts.append(_on(inspectors, ("presence", "number", "string", "boolean")))
    if extensions:
        parts.append(_extended(names))
    return _trees(st.one_of(parts), leaves_max)


_templates, _paths, _polynomials = templates, paths, polynomials  # the flags of `filters` hide them


def _trees(parts: SearchStrategy[Filter], leaves_max: int) -> SearchStrategy[Filter]:
    """Boolean combinations, built as users build them: joins in joins of the same sort are one."""
    leaves = st.one_of(parts, parts, parts, st.sampled_from((EVERYTHING, NOTHING)))

    def joined(inner: SearchStrategy[Filter]) -> SearchStrategy[Filter]:
        several = st.lists(inner, min_size=2, max_size=3)
        return st.one_of(st.builds(And.of, several), st.builds(Or.of, several), st.builds(Not, inner))

    return st.recursive(leaves, joined, max_leaves=leaves_max)


def schemas(names: Sequence[str] = NAMES) -> SearchStrategy[Schema]:
    """Schemas that declare the types of the pools, and some of the names as whole numbers."""
    types = {"a": (), "b": (), "aa": ("a",), "ab": ("a", "b")}

    def declaring(ints: list[str]) -> Schema:
        outer = [name for name in ints if not any(name.startswith(f"{other}.") for other in ints)]
        return Schema(types=types, attributes=dict.fromkeys(outer, "int"))

    return st.lists(st.sampled_from(names), unique=True).map(declaring)
