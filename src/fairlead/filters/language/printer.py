"""From filters to text, in the one canonical spelling.

Law: `parse(render(F)) == F`. Parentheses stand only where they are needed; numbers, strings and sets have one
spelling each; characters that cannot be seen are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from fairlead.errors import FilterError
from fairlead.filters.constraint import Constraint, Extended, Op, Range, TypeName
from fairlead.filters.filter import EVERYTHING, And, Filter, Not, Or, Tested
from fairlead.filters.paths import Selection
from fairlead.filters.patterns import SubjectPattern
from fairlead.filters.printing import text_of
from fairlead.filters.terms import Attribute, Length, Position, Term, quote_name
from fairlead.model import Instant, Interval, Kind, Multi, Point, Rectangle, kind_of, number_of

__all__ = ["render"]

_OR, _AND, _NOT = range(3)
"""The strength with which the context binds a filter that is written in it."""


@text_of.register
def render(filter: Filter) -> str:
    """The text of a filter."""
    return _text(filter, _OR, in_path=False)


def _text(filter: Filter, binding: int, *, in_path: bool) -> str:
    match filter:
        case Constraint():
            return _constraint(filter, in_path=in_path)
        case And(()):
            return "true"
        case Or(()):
            return "false"
        case And(parts):
            texts = _conjuncts(parts, in_path=in_path)
            text = " and ".join(texts)
            return f"({text})" if binding > _AND and len(texts) > 1 else text
        case Or(parts):
            text = " or ".join([_text(part, _AND, in_path=in_path) for part in parts])
            return f"({text})" if binding > _OR else text
        case Not(part):
            return f"not {_text(part, _NOT, in_path=in_path)}"
        case Tested("some", (str(name), str(condition))):
            return f"some {quote_name(name)} ({condition})"
        case Tested(name, arguments):
            return f"@{quote_name(name)}({', '.join(map(_value, arguments))})"
    raise FilterError(f"the language has no text for {type(filter).__name__}")


def _conjuncts(parts: Sequence[Filter], *, in_path: bool) -> list[str]:
    """The parts of a conjunction; those that make up a template are written as one."""
    texts: list[str] = []
    at = 0
    while at < len(parts):
        size = 0 if in_path else _template_size(parts, at)
        if size:
            items = [_item(part) for part in parts[at + 1 : at + 1 + size]]
            texts.append(f"({', '.join(items)}{',' if size == 1 else ''})")
        else:
            texts.append(_text(parts[at], _NOT, in_path=in_path))
        at += 1 + size
    return texts


def _template_size(parts: Sequence[Filter], at: int) -> int:
    """The number of positions of the template that begins at a part; 0 if none does."""
    match parts[at]:
        case Constraint(Length(), Op.EQ, int(size)) if 0 < size < len(parts) - at:
            for index, part in enumerate(parts[at + 1 : at + 1 + size]):
                if not isinstance(part, Constraint) or part.term != Position(index) or part.op is Op.ABSENT:
                    return 0
            return size
    return 0


def _item(part: Filter) -> str:
    assert isinstance(part, Constraint), "a template was found to be made of constraints"
    if part.op is Op.EXISTS:
        return "*"
    return _value(part.operand) if part.op is Op.EQ else _test(part)


def _constraint(constraint: Constraint, *, in_path: bool) -> str:
    term = constraint.term
    if in_path and not isinstance(term, Attribute):
        raise FilterError(f"the condition of a path is about attributes, not about {term}")
    if isinstance(term, Selection) and not term.misses and (constraint.op, constraint.operand) == (Op.GE, 1):
        return _path(term)
    name = f"@{term}" if in_path else _term(term)
    if constraint.op in (Op.EXISTS, Op.ABSENT):
        return f"{constraint.op.value} {name}"
    return f"{name} {_test(constraint)}"


def _term(term: Term) -> str:
    if isinstance(term, Selection):
        return f"{'misses' if term.misses else 'count'}({_path(term)})"
    return str(term)


def _path(selection: Selection) -> str:
    if selection.condition == EVERYTHING:
        return str(selection.path)
    return f"{selection.path}[{_text(selection.condition, _OR, in_path=True)}]"


def _test(constraint: Constraint) -> str:
    """A constraint without what it is about: its operator and its operand."""
    op, operand = constraint.op, constraint.operand
    match operand:
        case Range(low, high, low_closed, high_closed):
            word = "in" if op is Op.IN_RANGE else "not in"
            return f"{word} {'(['[low_closed]}{_value(low)}, {_value(high)}{')]'[high_closed]}"
        case TypeName(name):
            return f"is {quote_name(name)}"
        case Kind():
            return f"is {operand.value}"
        case Extended(name, literal):
            return f"{name} {_value(literal)}"
        case SubjectPattern(text, "/"):
            return f"matches {_string(text)}"
        case SubjectPattern(text, separator):
            return f"matches {_string(text)} by {_string(separator)}"
    return f"{op.value} {_string(operand.text) if op is Op.LIKE else _value(operand)}"


def _value(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case bytes():
            return f'x"{value.hex()}"'
        case Instant():
            return f't"{value}"'
        case Multi():
            return f"{{{', '.join(map(_value, value))}}}"
        case Point(x, y):
            return f"point({_number(x)}, {_number(y)})"
        case Interval(low, high):
            return f"interval({_number(low)}, {_number(high)})"
        case Rectangle():
            sides = (value.left, value.bottom, value.right, value.top)
            return f"rectangle({', '.join(map(_number, sides))})"
    if kind_of(value) is not Kind.NUMBER:
        raise FilterError(f"the language has no text for the value {value!r}")
    return _number(value)


def _number(value: Any) -> str:
    return str(number_of(value)).lower()


_UNSEEN: Final = re.compile(
    '["\\\\\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]'
)
"""Control characters, and those that no reader sees or that turn the direction of the text around them."""
_ESCAPES: Final = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r"}


def _string(text: str) -> str:
    escaped = _UNSEEN.sub(lambda found: _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04x}", text)
    return f'"{escaped}"'
