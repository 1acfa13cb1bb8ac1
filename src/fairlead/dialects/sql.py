r"""WHERE clauses of Spark SQL and DuckDB on attributes: `price BETWEEN 10 AND 20 AND NOT halted`.

Read is what both understand alike. The logic is SQL's, of three values: a comparison with NULL is unknown,
NOT of unknown is unknown, and a row passes iff the condition is true. An attribute that is absent or null is
NULL. A column has one type, so a value of another kind than the literal it is compared with is NULL to that
comparison.

    =, ==, <>, !=, <, <=, >, >=, BETWEEN, IN       numbers, strings; Booleans with the first four and IN
    <=>, IS [NOT] DISTINCT FROM                    true or false, for NULL as well
    IS [NOT] NULL, TRUE, FALSE, UNKNOWN
    LIKE … ESCAPE, ILIKE                           % is any text, _ any character

Refused by name are arithmetic, functions, CAST and CASE, whose types and rounding differ between the two; a
backslash in a pattern without ESCAPE, which only Spark takes for an escape; double quotes, which are a string
to one and a name to the other. Two columns are compared as values of one kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from fairlead.dialects.dialect import make_callable, translating, written
from fairlead.dialects.expressions import (
    Between,
    Binary,
    Call,
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
from fairlead.dialects.truth import UNKNOWN, Truth, all_of, any_of, both, truth_of
from fairlead.errors import TranslationRefused
from fairlead.filters.constraint import Constraint, Op, Range
from fairlead.filters.extensions.comparing import ComparisonFilter
from fairlead.filters.filter import EVERYTHING, NOTHING, And, Filter, Not, Or
from fairlead.filters.normal import NEGATION
from fairlead.filters.patterns import RegularExpression
from fairlead.filters.terms import Attribute
from fairlead.model import Kind, kind_of

__all__ = ["read", "write"]

_WORDS: Final = frozenset(
    {"AND", "OR", "NOT", "LIKE", "ILIKE", "IN", "BETWEEN", "IS", "NULL", "ESCAPE", "TRUE", "FALSE"}
    | {"UNKNOWN", "DISTINCT", "FROM", "CASE", "CAST", "<=>", "==", "IS TRUTH"}
)
_TOKEN: Final = re.compile(
    r"""(?P<text>'(?:''|[^'])*')
      | (?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w])
      | (?P<name>(?:[^\W\d]\w*|`(?:``|[^`])+`)(?:\.(?:[^\W\d]\w*|`(?:``|[^`])+`))*)
      | (?P<sign><=>|<>|!=|<=|>=|==|[=<>+*/%(),-])""",
    re.VERBOSE,
)


def _text_in(literal: str) -> str:
    if "\\" in literal:
        raise TranslationRefused(
            f"the string {literal} holds a backslash: an escape to Spark SQL, itself to DuckDB"
        )
    return literal[1:-1].replace("''", "'")


def _name_in(name: str) -> str:
    steps = re.findall(r"`((?:``|[^`])+)`|([^\W\d]\w*)", name)
    return ".".join(quoted.replace("``", "`") or plain for quoted, plain in steps)


def _number_in(text: str) -> int | Decimal:
    return int(text) if text.isdecimal() else Decimal(text)


GRAMMAR: Final = Grammar("a WHERE clause", _WORDS, _TOKEN, _text_in, _name_in, _number_in)
_COMPARISONS: Final = {"=": Op.EQ, "<>": Op.NE, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_FLIPPED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}


def read(text: str) -> Filter:
    """The filter of a condition; the word WHERE may stand before it."""
    shortened = re.sub(r"(?i)\A\s*where\b", lambda found: " " * len(found[0]), text)
    with translating("the condition"):
        return truth_of(read_expression(shortened, GRAMMAR), lambda node: _leaf(node, shortened)).true


def write(filter: Filter) -> str:
    """A condition with the same meaning, made of the constraints that SQL has."""
    return written(filter, (_written(filter),), read, "a WHERE clause of both Spark SQL and DuckDB")


# -- from conditions to filters --------------------------------------------------------------------------


def _leaf(node: Node, text: str) -> Truth:
    def refused(problem: str, at: Node = node) -> TranslationRefused:
        return TranslationRefused.at(text, at.start, problem)

    match node:
        case Literal(value=None):
            return UNKNOWN
        case Name(name=name):
            return Truth(_constraint(name, Op.EQ, True), _constraint(name, Op.EQ, False))
        case IsNull(part=Name(name=name), negated=negated):
            there = _present(name)
            return Truth(there, Not(there)) if negated else Truth(Not(there), there)
        case Like(part=Name(name=name), negated=negated):
            try:
                expression = _pattern(node)
            except ValueError as error:
                raise refused(f"in the pattern of {'I' * node.ignores_case}LIKE, {error}") from None
            true = _constraint(name, Op.LIKE, expression)
            found = Truth(true, both(_constraint(name, Op.IS, Kind.STRING), Not(true)))
            return found.negated() if negated else found
        case In(part=part, items=items, negated=negated):
            kinds = {kind_of(each.value) for each in items if isinstance(each, Literal)} - {Kind.NULL}
            if len(kinds) > 1:
                raise refused("IN lists values of one type", items[1])
            found = _leaf(Binary(part.start, items[0].end, "=", part, items[0]), text)
            for each in items[1:]:
                found = any_of(found, _leaf(Binary(part.start, each.end, "=", part, each), text))
            return found.negated() if negated else found
        case Between(part=part, low=low, high=high, negated=negated):
            above = _leaf(Binary(part.start, low.end, ">=", part, low), text)
            below = _leaf(Binary(part.start, high.end, "<=", part, high), text)
            found = all_of(above, below)
            return found.negated() if negated else found
        case Binary(sign=sign, left=Name(name=name), right=Literal(value=value)) if sign in _FLIPPED:
            return _compared(name, sign, value, refused)
        case Binary(sign=sign, left=Literal(value=value), right=Name(name=name)) if sign in _FLIPPED:
            return _compared(name, _FLIPPED[sign], value, refused)
        case Binary(sign=sign, left=Name(name=one), right=Name(name=other)) if sign in _COMPARISONS:
            op = _COMPARISONS[sign]
            return Truth(
                ComparisonFilter.filter(one, op, other), ComparisonFilter.filter(one, NEGATION[op], other)
            )
        case Binary(sign=sign) if sign in "+-*/%":
            raise refused(f"arithmetic ({sign}) differs between Spark SQL and DuckDB")
        case Unary(sign=sign):
            raise refused(f"arithmetic ({sign}) differs between Spark SQL and DuckDB")
        case Call(name=name):
            raise refused(f"the function {name} is not read")
        case Binary(left=left, right=right):
            for part in (left, right):
                if not isinstance(part, Name | Literal):
                    _leaf(part, text)  # which says what is refused
            raise refused("a column is compared with a literal or with a column", left)
        case Literal():
            raise refused("a condition was expected, not a value")
    raise refused("a column was expected here")


def _compared(name: str, sign: str, value: Any, refused: Callable[[str], TranslationRefused]) -> Truth:
    if sign == "<=>":
        same = Not(_present(name)) if value is None else _constraint(name, Op.EQ, value)
        return Truth(same, Not(same))
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        if sign not in ("=", "<>"):
            raise refused(f"Booleans are not compared with {sign}")
        truth = Truth(_constraint(name, Op.EQ, value), _constraint(name, Op.EQ, not value))
        return truth if sign == "=" else truth.negated()
    op = _COMPARISONS[sign]
    return Truth(_constraint(name, op, value), _constraint(name, NEGATION[op], value))


def _constraint(name: str, op: Op, operand: Any = None) -> Constraint:
    return Constraint(Attribute(name), op, operand)


def _present(name: str) -> Filter:
    return both(_constraint(name, Op.EXISTS), Not(_constraint(name, Op.EQ, None)))


def _pattern(node: Like) -> RegularExpression:
    expression = like_expression(node.pattern, node.escape)
    if not node.ignores_case:
        return RegularExpression(expression)
    if not node.pattern.isascii():
        raise ValueError("letters beyond ASCII are folded differently by Spark SQL and DuckDB")
    # The Kelvin sign is a k in lower case, and no letter of ASCII but k has such a third form.
    return RegularExpression(re.sub("[A-Za-z]", _either_case, expression))


def _either_case(letter: re.Match[str]) -> str:
    lower, upper = letter[0].lower(), letter[0].upper()
    third = "\u212a" if lower == "k" else ""
    return f"[{lower}{upper}{third}]"


# -- from filters to conditions --------------------------------------------------------------------------


def _written(filter: Filter) -> str:
    match filter:
        case _ if filter == EVERYTHING:
            return "TRUE"
        case _ if filter == NOTHING:
            return "FALSE"
        case And(parts):
            return " AND ".join(
                f"({_written(part)})" if isinstance(part, Or) else _written(part) for part in parts
            )
        case Or(parts):
            return " OR ".join(map(_written, parts))
        case (
            Not(Constraint(term=Attribute(name), op=Op.EXISTS))
            | Constraint(term=Attribute(name), op=Op.ABSENT)
        ):
            return f"{_quoted(name)} IS NULL"
        case Constraint(term=Attribute(name), op=op, operand=operand):
            column = _quoted(name)
            match op, operand:
                case ((Op.EQ | Op.NE | Op.LT | Op.LE | Op.GT | Op.GE), _):
                    sign = next(sign for sign, each in _COMPARISONS.items() if each is op)
                    return f"{column} {sign} {_literal(operand)}"
                case ((Op.IN | Op.NOT_IN), _):
                    listed = ", ".join(map(_literal, operand))
                    return f"{column} {op.value.upper()} ({listed})"
                case Op.IN_RANGE, Range(low, high, low_closed, high_closed):
                    first, last = ">=" if low_closed else ">", "<=" if high_closed else "<"
                    return f"{column} {first} {_literal(low)} AND {column} {last} {_literal(high)}"
                case ((Op.PREFIX | Op.SUFFIX | Op.SUBSTRING), str()):
                    before, behind = "%" * (op is not Op.PREFIX), "%" * (op is not Op.SUFFIX)
                    escaped = re.sub("[!%_]", r"!\g<0>", operand)
                    return f"{column} LIKE {_literal(before + escaped + behind)} ESCAPE '!'"
    raise TranslationRefused(f"a WHERE clause cannot say: {filter}")


def _quoted(name: str) -> str:
    steps = (
        step
        if re.fullmatch(r"[^\W\d]\w*", step) and step.upper() not in _WORDS
        else f"`{step.replace('`', '``')}`"
        for step in name.split(".")
    )
    return ".".join(steps)


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str() if "\\" not in value:
            return "'" + value.replace("'", "''") + "'"
        case int():
            return str(value)
        case Decimal():
            return format(value, "f")
    raise TranslationRefused(f"a WHERE clause has no literal for {value!r}")


make_callable(__name__)
