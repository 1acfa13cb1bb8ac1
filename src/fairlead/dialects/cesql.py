r"""CloudEvents SQL, version 1: `type LIKE 'com.example.%' AND EXISTS subject AND INT(hop) < INT(ttl)`.

An event passes iff the expression is the Boolean true, and no error arose where it was evaluated. Errors are
a missing attribute, a failed cast, a division by zero, and a function that does not take its arguments. AND
and OR evaluate from left to right: `x = 1 OR TRUE` has an error where x is missing, `TRUE OR x = 1` has none.

    =, !=, <>          the left operand is cast to the type of the right one
    <, <=, >, >=       both operands are cast to integers
    LIKE               the operand is cast to a string; % and _ are wildcards, \% and \_ are not
    IN                 the elements are cast to the type of the operand, one after the other
    a bare name        is cast to a Boolean, unless it is the whole expression: then it has to be one

A string is an integer if it has an optional sign, digits, and a value of 32 bits, a Boolean if it is `true`
or `false` in any case. A Boolean is the integer 1 or 0; an integer is a Boolean by BOOL(x) only. Attributes
are context attributes of CloudEvents; `data` is not one of them. A number that no CloudEvent carries (with a
fraction, or of more than 32 bits) is compared as the number it is. An integer operation whose result has more
than 32 bits is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final

from fairlead.dialects import truth
from fairlead.dialects.dialect import make_callable, translating, written
from fairlead.dialects.expressions import (
    Binary,
    Call,
    Exists,
    Grammar,
    In,
    Like,
    Literal,
    Name,
    Node,
    Unary,
    like_expression,
    names_in,
)
from fairlead.dialects.expressions import read as read_expression
from fairlead.dialects.numerals import whole_number
from fairlead.dialects.objects import CesqlExpression
from fairlead.dialects.truth import FALSE, TRUE, UNKNOWN, Truth, both, either
from fairlead.dialects.writing import Conditions, Wildcard, glob_of
from fairlead.errors import TranslationRefused
from fairlead.filters.algebra import overlaps
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import NOTHING, And, Filter, Not, Or, Tested
from fairlead.filters.patterns import RegularExpression
from fairlead.filters.terms import Attribute
from fairlead.model import Instant, Kind, Multi, Notification, kind_of, number_of

__all__ = ["evaluator", "read", "write"]

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
_WORDS: Final = frozenset({"AND", "OR", "XOR", "NOT", "LIKE", "EXISTS", "IN", "TRUE", "FALSE", "\\"})
_TOKEN: Final = re.compile(
    r"""(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
      | (?P<name>[0-9]*[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z_]*)?)
      | (?P<number>[0-9]+)
      | (?P<sign><>|!=|<=|>=|[=<>+*/%(),-])""",
    re.VERBOSE | re.DOTALL,
)


def _text_in(literal: str) -> str:
    quote = literal[0]
    return literal[1:-1].replace(f"\\{quote}", quote)


def _number_in(digits: str) -> int:
    number = int(digits)
    if number > -INT_MIN:  # the sign is read before it
        raise ValueError(f"the integer {digits} has more than 32 bits")
    return number


GRAMMAR: Final = Grammar("CESQL", _WORDS, _TOKEN, _text_in, str.lower, _number_in, is_flat=True)


def read(text: str) -> Filter:
    """The filter of an expression."""
    tree = _checked(text)
    if isinstance(tree, Name):  # nothing casts it
        return Constraint(Attribute(tree.name), Op.EQ, True)
    if not _is_boolean(tree):
        return NOTHING
    with translating("the expression"):
        return _Reader(text).truth(tree).true


def write(filter: Filter) -> str:
    """An expression with the same meaning: where one casts, there is seldom one for a plain constraint."""
    if isinstance(filter, Constraint) and isinstance(filter.term, Attribute) and filter.operand is True:
        return written(filter, (filter.term.name,), read, _Expression.language)  # nothing casts it
    candidates = (_Expression(guards=guards).text(filter) for guards in (False, True))
    return written(filter, candidates, read, _Expression.language)


class _Expression(Conditions):
    """The spelling of expressions."""

    language = "CESQL"

    def present(self, name: str) -> str:
        return f"EXISTS {self._attribute(name)}"

    def absent(self, name: str) -> str:
        return f"NOT EXISTS {self._attribute(name)}"

    def object(self, test: Tested) -> str:
        if isinstance(test.test, CesqlExpression):
            return test.test.text
        raise self.refused(test)

    def text(self, filter: Filter) -> str:
        return super().text(_without_kinds(filter))

    def leaf(self, constraint: Constraint, name: str) -> str:
        attribute = self._attribute(name)
        match constraint.op, constraint.operand:
            case op, operand if op in _SPELLED:
                return f"{attribute} {_SPELLED[op]} {self._literal(operand)}"
            case Op.IN | Op.NOT_IN as op, operand:
                return f"{attribute} {op.value.upper()} ({', '.join(map(self._literal, operand))})"
            case (Op.PREFIX | Op.SUFFIX | Op.SUBSTRING) as op, str(text):
                before = () if op is Op.PREFIX else (Wildcard.ANY,)
                behind = () if op is Op.SUFFIX else (Wildcard.ANY,)
                return self._like(attribute, (*before, text, *behind))
            case Op.LIKE, RegularExpression(text=expression):
                glob = glob_of(expression)
                if glob is not None and not glob.ignores_case:
                    return self._like(attribute, glob.parts)
        raise self.refused(constraint)

    def _like(self, attribute: str, parts: Iterable[str | Wildcard]) -> str:
        texts = (
            _LIKE[part] if isinstance(part, Wildcard) else self._plain(part, r"\\\g<0>") for part in parts
        )
        return f"{attribute} LIKE '{''.join(texts)}'"

    def _plain(self, text: str, wild: str = r"\g<0>") -> str:
        """A text between quotes."""
        if "\\" in text:
            raise TranslationRefused(
                f"CESQL has no literal for {text!r}: a backslash stands before a quote only"
            )
        return re.sub("[%_]", wild, text).replace("'", "\\'")

    def _attribute(self, name: str) -> str:
        if not re.fullmatch("[a-z0-9]*[a-z][a-z0-9]*", name) or name.upper() in _WORDS or name == "data":
            raise TranslationRefused(f"{name!r} is no context attribute of CloudEvents")
        return name

    def _literal(self, value: Any) -> str:
        match value:
            case bool():
                return "TRUE" if value else "FALSE"
            case str():
                return f"'{self._plain(value)}'"
            case int() if INT_MIN <= value <= INT_MAX:
                return str(value)
        raise TranslationRefused(f"CESQL has no literal for {value!r}")


_SPELLED: Final = {Op.EQ: "=", Op.NE: "!=", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}
_LIKE: Final = {Wildcard.ANY: "%", Wildcard.ONE: "_"}
_KINDS: Final = frozenset({Kind.STRING, Kind.NUMBER, Kind.BOOLEAN})


def _without_kinds(filter: Filter) -> Filter:
    """The same, where what says that an attribute has a value of CloudEvents says that it is there."""
    match filter:
        case And(parts):
            return And.of(_without_kinds(part) for part in parts)
        case Or(parts) if parts:
            term = _term_of(parts[0])
            kinds = {
                part.operand
                for part in parts
                if isinstance(part, Constraint) and part.op is Op.IS and part.term == term
            }
            if term is not None and kinds == _KINDS and len(parts) == len(_KINDS):
                return And.of((Constraint(term, Op.EXISTS), Not(Constraint(term, Op.EQ, None))))
            return Or.of(_without_kinds(part) for part in parts if not _is_cast(part, parts))
        case Not(part):
            return Not(_without_kinds(part))
    return filter


def _is_cast(part: Filter, parts: tuple[Filter, ...]) -> bool:
    """Whether a part is about the strings that are cast to what another part is about."""
    if not isinstance(part, Constraint) or part.op is not Op.LIKE:
        return False
    return any(
        isinstance(each, Constraint)
        and each.term == part.term
        and kind_of(each.operand) in (Kind.NUMBER, Kind.BOOLEAN)
        for each in parts
    )


def _term_of(filter: Filter) -> Attribute | None:
    return filter.term if isinstance(filter, Constraint) and isinstance(filter.term, Attribute) else None


def _checked(text: str) -> Node:
    """The tree of a text whose functions and names exist."""
    tree = read_expression(text, GRAMMAR)
    _check(text, tree)
    for name in names_in(tree):
        if name.name == "data" or "_" in name.name:
            raise TranslationRefused.at(
                text, name.start, f"{name.name} is no context attribute of CloudEvents"
            )
    return tree


def _check(text: str, node: Node) -> None:
    match node:
        case Literal(value=int(value)) if not isinstance(value, bool) and not INT_MIN <= value <= INT_MAX:
            raise TranslationRefused.at(text, node.start, f"the integer {value} has more than 32 bits")
        case Call(name=name, arguments=arguments):
            if name not in _FUNCTIONS:
                raise TranslationRefused.at(text, node.start, f"the function {name} is not defined in CESQL")
            least, most, _, _ = _FUNCTIONS[name]
            if not least <= len(arguments) <= (len(arguments) if most is None else most):
                count = len(arguments)
                raise TranslationRefused.at(
                    text, node.start, f"the function {name} of {count} arguments is not defined"
                )
            for each in arguments:
                _check(text, each)
        case Unary(part=part) | Like(part=part):
            _check(text, part)
        case Binary(left=left, right=right):
            _check(text, left)
            _check(text, right)
        case In(part=part, items=items):
            for each in (part, *items):
                _check(text, each)


def _is_boolean(node: Node) -> bool:
    """Whether an expression that is no name gives a Boolean, if anything."""
    match node:
        case Literal(value=value):
            return isinstance(value, bool)
        case Unary(sign=sign):
            return sign == "NOT"
        case Binary(sign=sign):
            return sign not in _ARITHMETIC
        case Call(name=name):
            return _FUNCTIONS[name][3] is bool
    return True


# -- from expressions to filters -------------------------------------------------------------------------

_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC: Final = frozenset("+-*/%")
_INTEGERS: Final = RegularExpression(r"-?[0-9]+(\.[0-9]+)?")


class _Reader:
    """Makes pairs of filters of the Boolean parts of an expression."""

    def __init__(self, text: str) -> None:
        self._text = text

    def truth(self, node: Node) -> Truth:
        """When a part, cast to a Boolean, is true and when it is false; else there is an error."""
        if not any(names_in(node)):
            return self._constant(node)
        match node:
            case Unary(sign="NOT", part=part):
                return self.truth(part).negated()
            case Binary(sign="AND", left=left, right=right):
                return truth.then_all_of(self.truth(left), self.truth(right))
            case Binary(sign="OR", left=left, right=right):
                return truth.then_any_of(self.truth(left), self.truth(right))
            case Binary(sign="XOR", left=left, right=right):
                return truth.exclusive(self.truth(left), self.truth(right))
            case Exists(name=name):
                return _exists(name)
            case Name(name=name) if name != "time":
                return _cast_to_boolean(name)
            case Binary(sign=sign, left=Name(name=name), right=Literal(value=value)) if name != "time":
                return _compared(name, sign, value)
            case Binary(sign=sign, left=Literal(value=value), right=Name(name=name)) if (
                sign in _FLIPPED and name != "time"
            ):
                return _compared(name, _FLIPPED[sign], value)
            case Like(part=Name(name=name)) if name != "time":
                return self._like(node, name)
            case In(part=Name(name=name), items=items, negated=negated) if name != "time" and all(
                isinstance(each, Literal) for each in items
            ):
                found = _among(name, [each.value for each in items if isinstance(each, Literal)])
                return found.negated() if negated else found
        return self._evaluated(node)

    def _constant(self, node: Node) -> Truth:
        try:
            value = _to_boolean(_evaluate(node, Notification.of({})))
        except _Error:
            return UNKNOWN
        return TRUE if value else FALSE

    def _evaluated(self, node: Node) -> Truth:
        """Evaluation of what no constraint states. NOT casts to a Boolean, as the context of the part does."""
        part = self._text[node.start : node.end]
        if _is_boolean(node):
            return Truth(CesqlExpression.filter(part), CesqlExpression.filter(f"NOT ({part})"))
        return Truth(CesqlExpression.filter(f"NOT (NOT ({part}))"), CesqlExpression.filter(f"NOT ({part})"))

    def _like(self, node: Like, name: str) -> Truth:
        described = _like_pattern(node.pattern)
        likes: list[Filter] = [_constraint(name, Op.LIKE, described)]
        likes += [
            _constraint(name, Op.EQ, value) for value in (True, False) if described.matches(_text_of(value))
        ]
        if overlaps(_constraint("x", Op.LIKE, described), _constraint("x", Op.LIKE, _INTEGERS)):
            # The text of a number: no constraint of ours looks at it.
            text = f"{name} LIKE {_quoted(node.pattern)}"
            likes.append(both(_is(name, Kind.NUMBER), CesqlExpression.filter(text)))
        found = _known(name, either(*likes))
        return found.negated() if node.negated else found


def _like_pattern(pattern: str) -> RegularExpression:
    """A backslash escapes the wildcards only; elsewhere it is itself."""
    escaped = re.sub(r"\\(?![%_])", r"\\\\", pattern)
    return RegularExpression(like_expression(escaped, "\\"))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


def _constraint(name: str, op: Op, operand: Any = None) -> Constraint:
    return Constraint(Attribute(name), op, operand)


def _is(name: str, *kinds: Kind) -> Filter:
    return Or.of(_constraint(name, Op.IS, kind) for kind in kinds)


def _known(name: str, true: Filter) -> Truth:
    """Of an operand that is always cast: where it has a type, what is not true is false."""
    return Truth(true, both(_is(name, Kind.STRING, Kind.NUMBER, Kind.BOOLEAN), Not(true)))


_REQUIRED: Final = frozenset({"id", "source", "specversion", "type"})
"""An event is assumed to be valid, so these exist."""


def _exists(name: str) -> Truth:
    if name in _REQUIRED:
        return TRUE
    there = both(_constraint(name, Op.EXISTS), Not(_constraint(name, Op.EQ, None)))
    return Truth(there, Not(there))


def _cast_to_boolean(name: str) -> Truth:
    return Truth(
        either(_constraint(name, Op.EQ, True), _described(name, "(?i)true")),
        either(_constraint(name, Op.EQ, False), _described(name, "(?i)false")),
    )


def _described(name: str, expression: str) -> Constraint:
    return _constraint(name, Op.LIKE, RegularExpression(expression))


def _compared(name: str, sign: str, value: Any) -> Truth:
    if sign in _FLIPPED:
        try:
            return _ordered(name, sign, _to_integer(value))
        except _Error:
            return UNKNOWN
    match value:
        case bool():
            found = _cast_to_boolean(name)
            found = found if value else found.negated()
        case int():
            found = _ordered(name, "=", value)
        case _:
            found = _known(name, _same_text(name, value))
    return found.negated() if sign == "<>" else found


def _same_text(name: str, text: str) -> Filter:
    """The value, cast to a string, is the text."""
    values: list[Any] = [text]
    values += [value for value in (True, False) if _text_of(value) == text]
    if re.fullmatch(r"0|-?[1-9][0-9]*", text):
        values.append(int(text))
    elif re.fullmatch(r"-?(0|[1-9][0-9]*)\.[0-9]*[1-9]", text):
        values.append(Decimal(text))
    return _constraint(name, Op.EQ, text) if len(values) == 1 else _constraint(name, Op.IN, Multi(values))


_SIGNS: Final[dict[str, tuple[Op, Callable[[int, int], bool]]]] = {
    "=": (Op.EQ, lambda one, other: one == other),
    "<": (Op.LT, lambda one, other: one < other),
    "<=": (Op.LE, lambda one, other: one <= other),
    ">": (Op.GT, lambda one, other: one > other),
    ">=": (Op.GE, lambda one, other: one >= other),
}
_BOUNDS: Final[dict[str, Callable[[int], tuple[int, int]]]] = {
    "=": lambda value: (value, value),
    "<": lambda value: (INT_MIN, value - 1),
    "<=": lambda value: (INT_MIN, value),
    ">": lambda value: (value + 1, INT_MAX),
    ">=": lambda value: (value, INT_MAX),
}


def _ordered(name: str, sign: str, value: int) -> Truth:
    """The value, cast to an integer, compared: numbers, the digits of strings, and Booleans."""
    op, holds = _SIGNS[sign]
    truths = [flag for flag in (True, False) if holds(int(flag), value)]
    low, high = _BOUNDS[sign](value)
    true = either(
        _constraint(name, op, value),
        *(_constraint(name, Op.EQ, flag) for flag in truths),
        *([_described(name, whole_number(max(low, INT_MIN), min(high, INT_MAX)))] if low <= high else ()),
    )
    cast = either(_is(name, Kind.NUMBER, Kind.BOOLEAN), _described(name, whole_number(INT_MIN, INT_MAX)))
    return Truth(true, both(cast, Not(true)))


def _among(name: str, values: list[Any]) -> Truth:
    """IN with literals: cast to the operand's type, one after the other, until one is equal or fails."""
    texts = _constraint(name, Op.IN, Multi(map(_text_of, values)))
    true: list[Filter] = [texts]
    false: list[Filter] = [both(_is(name, Kind.STRING), Not(texts))]
    for kind, cast in ((Kind.NUMBER, _to_integer), (Kind.BOOLEAN, _to_boolean)):
        equal, failed = [], False
        for value in values:
            try:
                equal.append(cast(value))
            except _Error:
                failed = True
                break
        if equal:
            true.append(_constraint(name, Op.IN, Multi(equal)))
        if not failed:
            false.append(both(_is(name, kind), Not(_constraint(name, Op.IN, Multi(equal)))))
    return Truth(either(*true), either(*false))


# -- evaluation ------------------------------------------------------------------------------------------


class _Error(Exception):
    """An error of the standard: of a cast, of mathematics, of a function, or a missing attribute."""


def evaluator(text: str) -> Callable[[Notification], bool]:
    """A function that says whether an event passes an expression."""
    tree = _checked(text)

    def accepts(notification: Notification) -> bool:
        try:
            return _evaluate(tree, notification) is True
        except _Error:
            return False

    return accepts


def _evaluate(node: Node, event: Notification) -> Any:
    match node:
        case Literal(value=value):
            return value
        case Name(name=name):
            return _attribute(name, event)
        case Exists(name=name):
            return name in _REQUIRED or kind_of(event.get(name)) not in (Kind.ABSENT, Kind.NULL)
        case Unary(sign="NOT", part=part):
            return not _to_boolean(_evaluate(part, event))
        case Unary(part=part):
            return _bounded(-_to_integer(_evaluate(part, event)))
        case Binary(sign="AND" | "OR" | "XOR" as sign, left=left, right=right):
            first = _to_boolean(_evaluate(left, event))
            if first is (sign == "OR") and sign != "XOR":
                return first
            second = _to_boolean(_evaluate(right, event))
            return first is not second if sign == "XOR" else second
        case Binary(sign=sign, left=left, right=right):
            return _operated(sign, _evaluate(left, event), _evaluate(right, event))
        case Like(part=part, pattern=pattern, negated=negated):
            return _like_pattern(pattern).matches(_text_of(_evaluate(part, event))) is not negated
        case In(part=part, items=items, negated=negated):
            value = _evaluate(part, event)
            return any(_same_type(_evaluate(each, event), value) == value for each in items) is not negated
        case Call(name=name, arguments=arguments):
            _, _, function, _ = _FUNCTIONS[name]
            return function(*(_evaluate(each, event) for each in arguments))
    raise AssertionError(f"no evaluation of {type(node).__name__}")


def _attribute(name: str, event: Notification) -> Any:
    value = event.get(name)
    match kind_of(value):
        case Kind.STRING | Kind.BOOLEAN:
            return value
        case Kind.NUMBER:
            return number_of(value)
        case Kind.TIME:
            written = event.content.get(name)
            return written if isinstance(written, str) else str(value)
    raise _Error(f"{name} has no type of CESQL")


def _operated(sign: str, left: Any, right: Any) -> Any:
    if sign in _ARITHMETIC:
        return _computed(sign, _to_integer(left), _to_integer(right))
    if sign in _FLIPPED:
        return _SIGNS[sign][1](_to_integer(left), _to_integer(right))
    equal = _same_type(left, right) == right
    return equal if sign == "=" else not equal


def _computed(sign: str, left: int, right: int) -> int:
    if not (isinstance(left, int) and isinstance(right, int)):
        raise _Error("arithmetic is for integers")
    if sign in "/%":
        if right == 0:
            raise _Error("division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return _bounded(quotient if sign == "/" else left - right * quotient)
    return _bounded(left + right if sign == "+" else left - right if sign == "-" else left * right)


def _bounded(value: int) -> int:
    if not isinstance(value, int) or not INT_MIN <= value <= INT_MAX:
        raise _Error("more than 32 bits")
    return value


def _same_type(value: Any, other: Any) -> Any:
    """A value, cast to the type of another."""
    cast = _to_boolean if isinstance(other, bool) else _text_of if isinstance(other, str) else _to_integer
    return cast(value)


def _to_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise _Error(f"{value!r} is no Boolean")


def _to_integer(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str):
        return value
    if not re.fullmatch(r"[+-]?[0-9]+", value) or len(value.lstrip("+-0")) > 10:
        raise _Error(f"{value!r} is no integer")
    return _bounded(int(value))


def _text_of(value: bool | int | Decimal | str | Instant) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return (
        value if isinstance(value, str) else format(value, "f") if not isinstance(value, int) else str(value)
    )


# -- functions -------------------------------------------------------------------------------------------


def _cut(text: Any, count: Any, *, from_the_end: bool) -> str:
    whole, length = _text_of(text), _to_integer(count)
    if length < 0:
        raise _Error("a negative length")
    if not from_the_end:
        return whole[:length]
    return whole[len(whole) - length :] if length < len(whole) else whole


def _substring(text: Any, position: Any, length: Any = None) -> str:
    whole, start = _text_of(text), _to_integer(position)
    count = None if length is None else _to_integer(length)
    if abs(start) > len(whole) or (count is not None and count < 0):
        raise _Error("a position beyond the text")
    if start == 0:
        return ""
    first = start - 1 if start > 0 else len(whole) + start
    return whole[first:] if count is None else whole[first : first + count]


def _absolute(value: Any) -> int:
    return _bounded(abs(_to_integer(value)))


def _explicit_boolean(value: Any) -> bool:
    return value != 0 if kind_of(value) is Kind.NUMBER else _to_boolean(value)


_FUNCTIONS: Final[dict[str, tuple[int, int | None, Callable[..., Any], type]]] = {
    "ABS": (1, 1, _absolute, int),
    "BOOL": (1, 1, _explicit_boolean, bool),
    "CONCAT": (0, None, lambda *parts: "".join(map(_text_of, parts)), str),
    "CONCAT_WS": (1, None, lambda between, *parts: _text_of(between).join(map(_text_of, parts)), str),
    "INT": (1, 1, _to_integer, int),
    "LEFT": (2, 2, lambda text, count: _cut(text, count, from_the_end=False), str),
    "LENGTH": (1, 1, lambda text: len(_text_of(text)), int),
    "LOWER": (1, 1, lambda text: _text_of(text).lower(), str),
    "RIGHT": (2, 2, lambda text, count: _cut(text, count, from_the_end=True), str),
    "STRING": (1, 1, _text_of, str),
    "SUBSTRING": (2, 3, _substring, str),
    "TRIM": (1, 1, lambda text: _text_of(text).strip(), str),
    "UPPER": (1, 1, lambda text: _text_of(text).upper(), str),
}
"""The functions: how many arguments they take (None: any number), what they give, and of which type."""


make_callable(__name__)
