"""Message selectors of JMS (Jakarta Messaging 3, section 3.8): `JMSPriority > 4 AND symbol IN ('IBM', 'SAP')`.

A selector is a conditional expression of SQL-92, with its three-valued logic: a comparison with a property
that is missing is unknown, NOT of unknown is unknown, and a message passes iff the selector is true. Values
of unlike types are not equal, and not unequal: such a comparison is false. Strings and Booleans are compared
with = and <> only.

    =, <>, <, <=, >, >=, BETWEEN      numbers; the first two also strings and Booleans
    IN, LIKE … ESCAPE                 a property with strings; % is any text, _ any character
    IS NULL                           the property is missing, or null
    +, -, *, /                        arithmetic of Java: whole numbers stay whole, others are doubles

Properties and header fields are attributes of that name (`JMSPriority`, `JMSType`). Arithmetic, and
comparisons of two properties, are evaluated; all else becomes constraints.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final

from fairlead.dialects.dialect import make_callable, translating, written
from fairlead.dialects.expressions import (
    Between,
    Binary,
    Grammar,
    In,
    IsNull,
    Like,
    Literal,
    Name,
    Node,
    Unary,
    like_expression,
)
from fairlead.dialects.expressions import read as read_expression
from fairlead.dialects.objects import JmsExpression
from fairlead.dialects.truth import Truth, both, truth_of
from fairlead.dialects.writing import Conditions, Wildcard, glob_of
from fairlead.errors import TranslationRefused
from fairlead.filters.constraint import Constraint, Op, Range
from fairlead.filters.filter import NOTHING, Filter, Not, Tested
from fairlead.filters.patterns import RegularExpression
from fairlead.filters.terms import Attribute
from fairlead.model import Kind, Multi, Notification, kind_of, number_of

__all__ = ["evaluator", "read", "write"]

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
EXACT_MAX: Final = 2**53
"""Whole numbers up to here are exact as doubles; comparisons with larger ones round, and are evaluated."""
_WORDS: Final = frozenset(
    {"AND", "OR", "NOT", "LIKE", "IN", "BETWEEN", "IS", "NULL", "ESCAPE", "TRUE", "FALSE"}
)
_TOKEN: Final = re.compile(
    r"""(?P<text>'(?:''|[^'])*')
      | (?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?|[0-9]+[eE][+-]?[0-9]+[fFdD]?|[0-9]+[lL]?)
      | (?P<name>[^\W\d][\w$]*|\$[\w$]*)
      | (?P<sign><>|<=|>=|[=<>+*/(),-])""",
    re.VERBOSE,
)


def _number_in(text: str) -> int | float:
    if text.rstrip("lL").isdecimal():
        if len(text) > 1 and text.startswith("0"):
            raise ValueError(f"the octal or hexadecimal literal {text} is not read")
        number = int(text.rstrip("lL"))
        if number > -LONG_MIN:
            raise ValueError(f"the number {text} has more than 64 bits")
        return number
    if text[-1] in "fF":
        raise ValueError(f"the literal {text} of single precision is not read")
    return float(text.rstrip("dD"))


GRAMMAR: Final = Grammar(
    "a message selector",
    _WORDS,
    _TOKEN,
    lambda literal: literal[1:-1].replace("''", "'"),
    number_in=_number_in,
)


def read(text: str) -> Filter:
    """The filter of a selector."""
    tree = _checked(text)
    with translating("the selector"):
        return truth_of(tree, lambda node: _leaf(node, text)).true


def write(filter: Filter) -> str:
    """A selector with the same meaning, of the constraints that a selector has."""
    return written(filter, (_Selector().text(filter),), read, _Selector.language)


class _Selector(Conditions):
    """The spelling of selectors."""

    language = "a message selector"
    everything = "TRUE"

    def present(self, name: str) -> str:
        return f"{self._identifier(name)} IS NOT NULL"

    def absent(self, name: str) -> str:
        return f"{self._identifier(name)} IS NULL"

    def object(self, test: Tested) -> str:
        if isinstance(test.test, JmsExpression):
            return test.test.text
        raise self.refused(test)

    def leaf(self, constraint: Constraint, name: str) -> str:
        column = self._identifier(name)
        match constraint.op, constraint.operand:
            case (Op.IN | Op.NOT_IN) as op, operand if all(isinstance(each, str) for each in operand):
                return f"{column} {op.value.upper()} ({', '.join(map(self._literal, operand))})"
            case Op.IN, operand:
                return f"({' OR '.join(f'{column} = {self._literal(each)}' for each in operand)})"
            case Op.IN_RANGE, Range(low, high, True, True):
                return f"{column} BETWEEN {self._literal(low)} AND {self._literal(high)}"
            case Op.IN_RANGE, Range(low, high, low_closed, high_closed):
                first, last = ">=" if low_closed else ">", "<=" if high_closed else "<"
                return f"({column} {first} {self._literal(low)} AND {column} {last} {self._literal(high)})"
            case (Op.PREFIX | Op.SUFFIX | Op.SUBSTRING) as op, str(text):
                before = () if op is Op.PREFIX else (Wildcard.ANY,)
                behind = () if op is Op.SUFFIX else (Wildcard.ANY,)
                return self._like(column, (*before, text, *behind))
            case Op.LIKE, RegularExpression(text=expression):
                glob = glob_of(expression)
                if glob is not None and not glob.ignores_case:
                    return self._like(column, glob.parts)
            case Op.IS, Kind.STRING:
                return f"{column} LIKE '%'"
            case Op.IS, Kind.BOOLEAN:
                return f"({column} = TRUE OR {column} = FALSE)"
            case op, operand if op in _SIGNS:
                return f"{column} {_SIGNS[op]} {self._literal(operand)}"
        raise self.refused(constraint)

    def _like(self, column: str, parts: Iterable[str | Wildcard]) -> str:
        pattern = "".join(
            _LIKE[part] if isinstance(part, Wildcard) else re.sub("[!%_]", r"!\g<0>", part) for part in parts
        )
        escape = " ESCAPE '!'" if "!" in pattern else ""
        return f"{column} LIKE {self._literal(pattern)}{escape}"

    def _identifier(self, name: str) -> str:
        if not re.fullmatch(r"[^\W\d][\w$]*", name) or name.upper() in _WORDS:
            raise TranslationRefused(f"{name!r} is no name of a property")
        return name

    def _literal(self, value: Any) -> str:
        match value:
            case bool():
                return "TRUE" if value else "FALSE"
            case str():
                return "'" + value.replace("'", "''") + "'"
            case int() if abs(value) <= EXACT_MAX:
                return str(value)
            case int() | Decimal() | float() if float(value) == value and math.isfinite(value):
                return repr(float(value))
        raise TranslationRefused(f"a selector has no literal for {value!r}")


_LIKE: Final = {Wildcard.ANY: "%", Wildcard.ONE: "_"}


# -- checks that need no message -------------------------------------------------------------------------

_LOGIC: Final = frozenset({"AND", "OR"})
_COMPARISONS: Final = {"=": Op.EQ, "<>": Op.NE, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_SIGNS: Final = {op: sign for sign, op in _COMPARISONS.items()}
_FLIPPED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _checked(text: str) -> Node:
    """The tree of a selector; what cannot be a selector whatever the message is refused."""
    tree = read_expression(text, GRAMMAR)
    _check(tree, text, is_condition=True)
    return tree


def _check(node: Node, text: str, *, is_condition: bool) -> None:
    def refused(problem: str, at: Node = node) -> TranslationRefused:
        return TranslationRefused.at(text, at.start, problem)

    def operands(*parts: Node) -> None:
        for part in parts:
            _check(part, text, is_condition=False)

    match node:
        case Unary(sign="NOT", part=part):
            _check(part, text, is_condition=True)
        case Binary(sign=sign, left=left, right=right) if sign in _LOGIC:
            _check(left, text, is_condition=True)
            _check(right, text, is_condition=True)
        case Binary(sign=sign, left=left, right=right) if sign in _COMPARISONS:
            operands(left, right)
            types = {_type(left), _type(right)} - {None}
            if len(types) > 1:
                raise refused("values of unlike types are compared")
            if types & {str, bool} and sign not in ("=", "<>"):
                raise refused(f"strings and Booleans are not compared with {sign}")
        case Binary(left=left, right=right) | Between(low=left, high=right):
            if isinstance(node, Between):
                operands(node.part)
            operands(left, right)
            for part in (left, right, *((node.part,) if isinstance(node, Between) else ())):
                if _type(part) in (str, bool):
                    raise refused("arithmetic and BETWEEN are for numbers", part)
        case Unary(part=part):
            operands(part)
        case Like(part=part, pattern=pattern, escape=escape):
            if not isinstance(part, Name):
                raise refused("LIKE is for a property")
            try:
                like_expression(pattern, escape)
            except ValueError as error:
                raise refused(f"in the pattern of LIKE, {error}") from None
        case In(part=part, items=items):
            if not isinstance(part, Name):
                raise refused("IN is for a property")
            for each in items:
                if not isinstance(each, Literal) or not isinstance(each.value, str):
                    raise refused("IN lists strings", each)
        case IsNull(part=part):
            if not isinstance(part, Name):
                raise refused("IS NULL is for a property")
        case Name():
            pass
        case Literal(value=None):
            raise refused("NULL stands behind IS only")
        case Literal():
            if is_condition and not isinstance(node.value, bool):
                raise refused("a condition was expected, not a value")
        case _:
            raise refused("functions are no part of a selector")
    if is_condition and isinstance(node, Binary | Unary) and _type(node) is float:
        raise refused("a condition was expected, not a number")


def _type(node: Node) -> type | None:
    """The type of an operand: str, bool, float for any number, or None where the message decides."""
    match node:
        case Literal(value=value):
            return type(value) if isinstance(value, str | bool) else float
        case Name():
            return None
        case Binary(sign=sign):
            return float if sign in "+-*/" else bool
        case Unary(sign=sign):
            return bool if sign == "NOT" else float
    return bool


# -- from selectors to filters ---------------------------------------------------------------------------


def _leaf(node: Node, text: str) -> Truth:
    match node:
        case Name(name=name):
            return Truth(_constraint(name, Op.EQ, True), _constraint(name, Op.EQ, False))
        case IsNull(part=Name(name=name), negated=negated):
            there = _present(name)
            return Truth(there, Not(there)) if negated else Truth(Not(there), there)
        case Like(part=Name(name=name), negated=negated):
            expression = RegularExpression(like_expression(node.pattern, node.escape))
            return _known(name, _constraint(name, Op.LIKE, expression), negated)
        case In(part=Name(name=name), items=items, negated=negated):
            values = Multi(each.value for each in items if isinstance(each, Literal))
            return _known(name, _constraint(name, Op.IN, values), negated)
        case Between(
            part=Name(name=name), low=Literal(value=low), high=Literal(value=high), negated=negated
        ) if _is_exact(low) and _is_exact(high):
            if negated:
                below, above = (_constraint(name, Op.LT, low), _constraint(name, Op.GT, high))
                return _known(name, below | above, False)
            inside = _constraint(name, Op.IN_RANGE, Range(low, high)) if low <= high else NOTHING
            return _known(name, inside, False)
        case Binary(sign=sign, left=Name(name=name), right=Literal(value=value)) if _is_exact(value):
            return _known(name, _constraint(name, _COMPARISONS[sign], value), False)
        case Binary(sign=sign, left=Literal(value=value), right=Name(name=name)) if _is_exact(value):
            return _known(name, _constraint(name, _COMPARISONS[_FLIPPED[sign]], value), False)
    part = text[node.start : node.end]
    return Truth(JmsExpression.filter(part), JmsExpression.filter(f"NOT ({part})"))


def _is_exact(value: Any) -> bool:
    """Whether a comparison of Java with the value is one of ours."""
    if isinstance(value, str | bool):
        return True
    return bool(math.isfinite(value) and abs(value) < EXACT_MAX)


def _constraint(name: str, op: Op, operand: Any = None) -> Constraint:
    return Constraint(Attribute(name), op, operand)


def _present(name: str) -> Filter:
    return both(_constraint(name, Op.EXISTS), Not(_constraint(name, Op.EQ, None)))


def _known(name: str, true: Filter, negated: bool) -> Truth:
    """A test of a property: unknown where it is missing, else true or false."""
    found = Truth(true, both(_present(name), Not(true)))
    return found.negated() if negated else found


# -- evaluation ------------------------------------------------------------------------------------------


def evaluator(text: str) -> Callable[[Notification], bool]:
    """A function that says whether a message passes a selector."""
    tree = _checked(text)
    return lambda notification: _condition(tree, notification) is True


def _condition(node: Node, message: Notification) -> bool | None:
    """True, False, or None for unknown."""
    match node:
        case Unary(sign="NOT", part=part):
            inner = _condition(part, message)
            return None if inner is None else not inner
        case Binary(sign=sign, left=left, right=right) if sign in _LOGIC:
            pair = (_condition(left, message), _condition(right, message))
            decisive = sign == "OR"
            return decisive if decisive in pair else None if None in pair else not decisive
        case Binary(sign=sign, left=left, right=right):
            return _compared(sign, _value(left, message), _value(right, message))
        case Between(part=part, low=low, high=high, negated=negated):
            value = _value(part, message)
            above = _compared("<" if negated else ">=", value, _value(low, message))
            below = _compared(">" if negated else "<=", value, _value(high, message))
            pair = (above, below)
            return negated if negated in pair else None if None in pair else not negated
        case Like(part=part, negated=negated):
            value = _value(part, message)
            if value is None:
                return None
            expression = RegularExpression(like_expression(node.pattern, node.escape))
            return (isinstance(value, str) and expression.matches(value)) is not negated
        case In(part=part, items=items, negated=negated):
            value = _value(part, message)
            if value is None:
                return None
            return any(isinstance(each, Literal) and each.value == value for each in items) is not negated
        case IsNull(part=part, negated=negated):
            return (_value(part, message) is None) is not negated
    value = _value(node, message)
    return value if isinstance(value, bool) else None


def _value(node: Node, message: Notification) -> Any:
    match node:
        case Literal(value=value):
            return value
        case Name(name=name):
            return _property(message.get(name))
        case Unary(sign=sign, part=part) if sign != "NOT":
            value = _value(part, message)
            return None if not _is_number(value) else -value if sign == "-" else value
        case Binary(sign=sign, left=left, right=right) if sign in "+-*/":
            return _computed(sign, _value(left, message), _value(right, message))
    return _condition(node, message)


class _Other:
    """A value of no type of JMS: equal to nothing, and there."""


def _property(value: Any) -> Any:
    match kind_of(value):
        case Kind.ABSENT | Kind.NULL:
            return None
        case Kind.STRING | Kind.BOOLEAN:
            return value
        case Kind.NUMBER:
            number = number_of(value)
            return number if isinstance(number, int) else float(number)
        case Kind.NAN:
            return math.nan
    return _Other()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _compared(sign: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if _is_number(left) and _is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            left, right = _double(left), _double(right)
    elif type(left) is not type(right) or isinstance(left, _Other) or sign not in ("=", "<>"):
        return False
    match sign:
        case "=":
            return bool(left == right)
        case "<>":
            return bool(left < right or left > right) if _is_number(left) else bool(left != right)
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
    return bool(left >= right)


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _computed(sign: str, left: Any, right: Any) -> Any:
    """The arithmetic of Java; None where an operand is none, or where a whole number is divided by zero."""
    if not (_is_number(left) and _is_number(right)):
        return None
    if isinstance(left, int) and isinstance(right, int):
        if sign != "/":
            return _long(left + right if sign == "+" else left - right if sign == "-" else left * right)
        if right == 0:
            return None
        return _long(abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1))
    one, other = _double(left), _double(right)
    if sign == "/":
        if other == 0:
            return (
                math.nan
                if one == 0 or math.isnan(one)
                else math.copysign(math.inf, one) * math.copysign(1, other)
            )
        return one / other
    return one + other if sign == "+" else one - other if sign == "-" else one * other


def _long(value: int) -> int:
    """A whole number of 64 bits, as it comes out of an overflow."""
    return (value - LONG_MIN) % 2**64 + LONG_MIN


make_callable(__name__)
