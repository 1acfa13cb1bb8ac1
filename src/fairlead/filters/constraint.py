"""Constraints: a term, an operator and its operand (book 3.1.2, the triple of name, operator and constants).

A constraint on an absent term, or on a value of another kind than its operand's, is false; `!=` and `not in`
included. Two constraints are equal iff they have the same term, operator and operand, where numbers are
compared as numbers (10 and 10.0) and booleans are no numbers.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from fairlead.errors import FilterError
from fairlead.filters.filter import Filter
from fairlead.filters.operators import Op
from fairlead.filters.patterns import RegularExpression, SubjectPattern
from fairlead.filters.registry import operator_named
from fairlead.filters.terms import Term
from fairlead.model import (
    ABSENT,
    Interval,
    Key,
    Kind,
    Multi,
    Notification,
    Point,
    Rectangle,
    key_of,
    kind_of,
    number_of,
    value_of,
)

log: Final = logging.getLogger(__name__)

__all__ = ["Constraint", "Extended", "Op", "Range", "TypeName", "compare"]


@dataclass(frozen=True, slots=True)
class Range:
    """The operand of `in [a, b]`: two bounds of one ordered kind, each in or out."""

    low: Any
    high: Any
    low_closed: bool = True
    high_closed: bool = True


@dataclass(frozen=True, slots=True)
class TypeName:
    """The operand of `is`: a type of the schema with the names of all its subtypes, itself included.

    The lattice is closed, so `type is T` means that `type` is one of finitely many strings.
    """

    name: str
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class Extended:
    """The operand of an operator that an extension brings: the operator's name and the literal."""

    operator: str
    literal: str | bytes


ORDERED: Final = frozenset({Kind.NUMBER, Kind.STRING, Kind.BYTES, Kind.TIME})
"""The kinds whose values can be compared with < and >."""
TEXTUAL: Final = frozenset({Kind.STRING, Kind.BYTES})
COMPARABLE: Final = ORDERED | {
    Kind.NULL,
    Kind.BOOLEAN,
    Kind.SET,
    Kind.POINT,
    Kind.INTERVAL,
    Kind.RECTANGLE,
}
"""The kinds that = and != can name."""
KIND_NAMES: Final = {kind.value: kind for kind in Kind if kind not in (Kind.ABSENT, Kind.NAN, Kind.NULL)}
"""The kinds that `is` can ask for besides the types of the schema: `price is number`."""

_PLAIN: Final = frozenset({int, float})
_EXACT_BELOW: Final = 2.0**53

_SETS: Final = frozenset({Op.SUBSET, Op.SUPERSET, Op.DISJOINT, Op.OVERLAPS})
_ORDER: Final = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
_RANGES: Final = frozenset({Op.IN_RANGE, Op.NOT_IN_RANGE})
_TEXTS: Final = frozenset({Op.PREFIX, Op.SUFFIX, Op.SUBSTRING})


@dataclass(frozen=True, slots=True, eq=False)
class Constraint(Filter):
    """One condition on one term."""

    term: Term
    op: Op
    operand: Any = None
    key: Key = field(init=False, repr=False)
    _bound: Any = field(init=False, repr=False, default=...)
    """The operand as a float, where ints and floats compare with that one as they do with the operand; None: there
    is none; ...: nobody has asked."""

    def __post_init__(self) -> None:
        operand = _checked(self.op, self.operand)
        object.__setattr__(self, "operand", operand)
        object.__setattr__(self, "key", (self.term, self.op, _operand_key(operand)))

    def matches(self, notification: Notification) -> bool:
        return self.holds(self.term.value(notification))

    def holds(self, value: Any) -> bool:
        """Whether a value (or ABSENT) satisfies the constraint."""
        if type(value) in _PLAIN:  # the common case, without numbers in canonical form
            bound = self._bound
            if bound is ...:
                bound = _float_of(self.op, self.operand)
                object.__setattr__(self, "_bound", bound)
            if bound is not None:
                return bool(COMPARED[self.op](value, bound))
        return HOLDS[self.op](value, self.operand)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constraint) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _float_of(op: Op, operand: Any) -> float | None:
    """The float that stands for an operand in comparisons with ints and floats.

    A float is the number of its shortest decimal. Among floats these have the floats' order, and below 2**53 a
    float that is no integer has its decimal between the same integers. NaN is neither less nor more, nor equal.
    """
    if (op is not Op.EQ and op not in _ORDER) or kind_of(operand) is not Kind.NUMBER:
        return None
    if not -_EXACT_BELOW < operand < _EXACT_BELOW:
        return None
    bound = float(operand)
    return bound if number_of(bound) == operand else None


# -- what each operator means ------------------------------------------------------------------------------


def _comparable(value: Any, operand: Any) -> tuple[Any, Any] | None:
    """Two values of one ordered kind in a form that Python compares as we mean it, or None."""
    kind = kind_of(value)
    if kind not in ORDERED or kind is not kind_of(operand):
        return None
    if kind is Kind.NUMBER:
        return number_of(value), number_of(operand)
    return value, operand


def _less(value: Any, operand: Any) -> bool:
    pair = _comparable(value, operand)
    return pair is not None and pair[0] < pair[1]


def _at_most(value: Any, operand: Any) -> bool:
    pair = _comparable(value, operand)
    return pair is not None and pair[0] <= pair[1]


def _more(value: Any, operand: Any) -> bool:
    pair = _comparable(value, operand)
    return pair is not None and pair[0] > pair[1]


def _at_least(value: Any, operand: Any) -> bool:
    pair = _comparable(value, operand)
    return pair is not None and pair[0] >= pair[1]


def _in_range(value: Any, operand: Range) -> bool:
    above = _at_least if operand.low_closed else _more
    below = _at_most if operand.high_closed else _less
    return above(value, operand.low) and below(value, operand.high)


def _not_in_range(value: Any, operand: Range) -> bool:
    return kind_of(value) is kind_of(operand.low) and not _in_range(value, operand)


def _equal(value: Any, operand: Any) -> bool:
    if type(value) is str or type(operand) is str:  # the common case, without the detour over keys
        return bool(value == operand)
    return key_of(value) == key_of(operand)


def _unequal(value: Any, operand: Any) -> bool:
    return kind_of(value) is kind_of(operand) and key_of(value) != key_of(operand)


def _in(value: Any, operand: Multi | Rectangle) -> bool:
    if isinstance(operand, Rectangle):
        return isinstance(value, Point) and _point_inside(value, operand)
    return operand.has_key(key_of(value))


def _not_in(value: Any, operand: Multi | Rectangle) -> bool:
    if isinstance(operand, Rectangle):
        return isinstance(value, Point) and not _point_inside(value, operand)
    return not operand.has_key(key_of(value)) and kind_of(value) in {kind_of(item) for item in operand}


def _point_inside(point: Point, box: Rectangle) -> bool:
    return box.left <= point.x <= box.right and box.bottom <= point.y <= box.top


def _prefix(value: Any, operand: Any) -> bool:
    return type(value) is type(operand) and value.startswith(operand)


def _suffix(value: Any, operand: Any) -> bool:
    return type(value) is type(operand) and value.endswith(operand)


def _substring(value: Any, operand: Any) -> bool:
    return type(value) is type(operand) and operand in value


def _matches(value: Any, operand: RegularExpression | SubjectPattern) -> bool:
    return isinstance(value, str) and operand.matches(value)


def _is(value: Any, operand: TypeName | Kind) -> bool:
    if isinstance(operand, Kind):
        return kind_of(value) is operand
    return isinstance(value, str) and value in operand.members


def _sides(value: Any) -> tuple[tuple[Any, Any], ...]:
    """An interval or a rectangle as its extensions along each axis."""
    if isinstance(value, Interval):
        return ((value.low, value.high),)
    return ((value.left, value.right), (value.bottom, value.top))


def _inside(inner: Any, outer: Any) -> bool:
    return all(
        low <= a and b <= high for (a, b), (low, high) in zip(_sides(inner), _sides(outer), strict=True)
    )


def _touch(one: Any, other: Any) -> bool:
    return all(a <= high and low <= b for (a, b), (low, high) in zip(_sides(one), _sides(other), strict=True))


def _subset(value: Any, operand: Any) -> bool:
    if isinstance(operand, Multi):
        return isinstance(value, Multi) and value.keys <= operand.keys
    return type(value) is type(operand) and _inside(value, operand)


def _superset(value: Any, operand: Any) -> bool:
    if isinstance(operand, Multi):
        return isinstance(value, Multi) and value.keys >= operand.keys
    return type(value) is type(operand) and _inside(operand, value)


def _disjoint(value: Any, operand: Any) -> bool:
    if isinstance(operand, Multi):
        return isinstance(value, Multi) and value.keys.isdisjoint(operand.keys)
    return type(value) is type(operand) and not _touch(value, operand)


def _overlaps(value: Any, operand: Any) -> bool:
    if isinstance(operand, Multi):
        return isinstance(value, Multi) and not value.keys.isdisjoint(operand.keys)
    return type(value) is type(operand) and _touch(value, operand)


def _contains(value: Any, operand: Any) -> bool:
    if isinstance(value, Multi):
        return value.has_key(key_of(operand))
    if isinstance(value, Interval) and kind_of(operand) is Kind.NUMBER:
        return bool(value.low <= number_of(operand) <= value.high)
    return isinstance(value, Rectangle) and isinstance(operand, Point) and _point_inside(operand, value)


def _lacks(value: Any, operand: Any) -> bool:
    asked = (
        (isinstance(value, Multi) and not isinstance(operand, Point))
        or (isinstance(value, Interval) and kind_of(operand) is Kind.NUMBER)
        or (isinstance(value, Rectangle) and isinstance(operand, Point))
    )
    return asked and not _contains(value, operand)


def _extended(value: Any, operand: Extended) -> bool:
    operator = operator_named(operand.operator)
    if kind_of(value) not in operator.kinds:
        return False
    try:
        return bool(operator.holds(value, operand.literal))
    except Exception:  # an operator that fails on a value is not true of it; the others go on
        log.exception("the operator %s failed on a value", operand.operator)
        return False


HOLDS: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    Op.EXISTS: lambda value, _: value is not ABSENT,
    Op.ABSENT: lambda value, _: value is ABSENT,
    Op.EQ: _equal,
    Op.NE: _unequal,
    Op.LT: _less,
    Op.LE: _at_most,
    Op.GT: _more,
    Op.GE: _at_least,
    Op.IN_RANGE: _in_range,
    Op.NOT_IN_RANGE: _not_in_range,
    Op.IN: _in,
    Op.NOT_IN: _not_in,
    Op.PREFIX: _prefix,
    Op.SUFFIX: _suffix,
    Op.SUBSTRING: _substring,
    Op.LIKE: _matches,
    Op.MATCHES: _matches,
    Op.IS: _is,
    Op.SUBSET: _subset,
    Op.SUPERSET: _superset,
    Op.CONTAINS: _contains,
    Op.LACKS: _lacks,
    Op.DISJOINT: _disjoint,
    Op.OVERLAPS: _overlaps,
    Op.EXTENDED: _extended,
}


COMPARED: Final[dict[Op, Callable[[Any, Any], Any]]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
"""The operators that compare two values, on values that Python compares as we mean it."""
_NATIVE: Final = frozenset({int, str, bytes})
"""The types whose values are such, among their own."""


def compare(op: Op, value: Any, other: Any) -> bool:
    """Whether two values satisfy a comparison, as if one were the operand of a constraint on the other.

    So absence, NaN, and what no constraint can name compare with nothing, not even with themselves.
    """
    if type(value) is type(other) and type(value) in _NATIVE:  # the common case
        return bool(COMPARED[op](value, other))
    return kind_of(value) in COMPARABLE and HOLDS[op](value, other)


# -- what an operand may be --------------------------------------------------------------------------------


def _checked(op: Op, operand: Any) -> Any:
    """The operand in canonical form, or FilterError where the operator cannot take it."""
    if op in (Op.EXISTS, Op.ABSENT):
        if operand is not None:
            raise FilterError(f"{op.value!r} takes no operand")
        return None
    if op in _RANGES:
        return _checked_range(operand)
    if op in (Op.LIKE, Op.MATCHES, Op.IS, Op.EXTENDED):
        return operand
    value = _canonical(operand)
    kind = kind_of(value)
    if op in _ORDER and kind not in ORDERED:
        raise FilterError(f"{op.value!r} compares numbers, strings, bytes and times, not {kind.value}")
    if op in _TEXTS and kind not in TEXTUAL:
        raise FilterError(f"{op.value!r} takes a string, not {kind.value}")
    if op in _SETS and kind not in (Kind.SET, Kind.INTERVAL, Kind.RECTANGLE):
        raise FilterError(f"{op.value!r} takes a set, an interval or a rectangle, not {kind.value}")
    if op in (Op.IN, Op.NOT_IN) and kind not in (Kind.SET, Kind.RECTANGLE):
        raise FilterError(f"{op.value!r} takes a set, a range or a rectangle, not {kind.value}")
    if op in (Op.CONTAINS, Op.LACKS) and kind not in ORDERED | {Kind.BOOLEAN, Kind.NULL, Kind.POINT}:
        raise FilterError(f"{op.value!r} takes one element, not {kind.value}")
    if op in (Op.EQ, Op.NE) and kind not in COMPARABLE:
        raise FilterError(f"{op.value!r} cannot compare with {kind.value}")
    if op is Op.NE and kind is Kind.NULL:
        raise FilterError("'!= null' would be false for every value", hint="exists x and not x = null")
    if op is Op.NOT_IN and kind is Kind.SET:
        if None in value:
            raise FilterError(
                "'not in' with null: other kinds than the elements' are never matched",
                hint="exists x and not x in {null, ...}",
            )
        if not len(value):
            raise FilterError("'not in {}' names no kind of value", hint="exists x")
    return value


_CANONICAL: Final = frozenset({int, str})
"""The types of elements of a set that are literals as they are: sets of hundreds of them are made by merging."""


def _canonical(operand: Any) -> Any:
    """A literal as the algebra keeps it: whole floats are ints, other floats are decimals."""
    value = value_of(operand)
    match kind_of(value):
        case Kind.NAN:
            raise FilterError("a filter cannot compare with NaN: nothing equals it")
        case Kind.NUMBER:
            number = number_of(value)
            if isinstance(number, Decimal) and not number.is_finite():
                raise FilterError("a filter cannot compare with infinity", hint="exists x, or x is number")
            return number
        case Kind.SET:
            if all(type(element) in _CANONICAL for element in value):
                return value.as_set()
            return Multi(map(_canonical, value)).as_set()
        case _:
            return value


def _checked_range(given: Any) -> Range:
    if not isinstance(given, Range):
        raise FilterError(f"'in [low, high]' takes a range, not {given!r}")
    low, high = _canonical(given.low), _canonical(given.high)
    kind = kind_of(low)
    if kind not in ORDERED or kind is not kind_of(high):
        raise FilterError(
            f"the bounds of a range are two numbers, strings, bytes or times, not {kind.value} and "
            f"{kind_of(high).value}"
        )
    if low > high or (low == high and not (given.low_closed and given.high_closed)):
        hint = "a set is written {...}" if kind in TEXTUAL else "use false"
        raise FilterError("a range that holds nothing: its bounds are not in order", hint=hint)
    return Range(low, high, given.low_closed, given.high_closed)


def _operand_key(operand: Any) -> Any:
    if isinstance(operand, Range):
        return (key_of(operand.low), key_of(operand.high), operand.low_closed, operand.high_closed)
    if isinstance(operand, Extended | TypeName | Kind | RegularExpression | SubjectPattern):
        return operand
    return key_of(operand)
