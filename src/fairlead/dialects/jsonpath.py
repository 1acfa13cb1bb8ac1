r"""Queries of RFC 9535: `$.items[?@.price > 10 && match(@.name, 'a.*')]`.

An event matches iff the query selects something in its content, as it was published: a list has its order, a
member its name with its dots. All of the standard is read: names, indexes, slices, wildcards, descendants,
filters with comparisons of values and of queries, and the functions length, count, match, search and value.
What the standard refuses is refused: a comparison with a query that may select several values, a function
with the wrong arguments.

A query becomes one filter object, `@jsonpath("…")`, that evaluates it. Regular expressions are those of RFC
9485, run by automata: no expression, not even one that comes with an event, takes longer than its text and
the string do.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any, Final

from fairlead.dialects.dialect import make_callable
from fairlead.dialects.objects import JsonPathQuery
from fairlead.dialects.texts import searched
from fairlead.errors import FairleadError, TranslationRefused
from fairlead.filters.filter import Filter, Tested
from fairlead.filters.patterns import RegularExpression
from fairlead.model import Notification

__all__ = ["evaluator", "read", "write"]

INDEX_MAX: Final = 2**53 - 1
DEPTH_MAX: Final = 100
_BLANKS: Final = " \t\n\r"


def read(text: str) -> Filter:
    """The filter of a query."""
    return JsonPathQuery.filter(text)


def write(filter: Filter) -> str:
    """The query of a filter that was read from one."""
    if isinstance(filter, Tested) and isinstance(filter.test, JsonPathQuery):
        return filter.test.text
    raise TranslationRefused(f"a query of RFC 9535 is written only of what was one; not written is: {filter}")


def evaluator(text: str) -> Callable[[Notification], bool]:
    """A function that says whether a query selects something in the content of a notification."""
    query = _Parser(text).whole()

    def accepts(notification: Notification) -> bool:
        record, content = notification.written()
        root = record if content is None else content
        return any(True for _ in query.select(root, root))

    return accepts


# -- queries -----------------------------------------------------------------------------------------------


class _Nothing:
    """The absence of a value, which is equal to itself only."""


NOTHING: Final = _Nothing()
_Condition = Callable[[Any, Any], bool]
"""Whether a filter holds, given the root and the current value."""
_Value = Callable[[Any, Any], Any]
_Selector = Callable[[Any, Any], Iterator[Any]]
"""The children that a selector selects, given the root and a value."""


@dataclass(frozen=True, slots=True)
class _Segment:
    selectors: tuple[_Selector, ...]
    descends: bool
    is_singular: bool

    def select(self, root: Any, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            for each in _descendants(value) if self.descends else (value,):
                for selector in self.selectors:
                    yield from selector(root, each)


@dataclass(frozen=True, slots=True)
class _Query:
    segments: tuple[_Segment, ...]
    is_absolute: bool

    @property
    def is_singular(self) -> bool:
        """Whether it selects one value at most, whatever the document."""
        return all(segment.is_singular for segment in self.segments)

    def select(self, root: Any, current: Any) -> Iterator[Any]:
        values: Iterator[Any] = iter((root if self.is_absolute else current,))
        for segment in self.segments:
            values = segment.select(root, values)
        return values

    def value(self, root: Any, current: Any) -> Any:
        return next(self.select(root, current), NOTHING)


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descendants(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(reversed(list(_children(each))))


def _member(name: str) -> _Selector:
    def select(_: Any, value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return select


def _element(index: int) -> _Selector:
    def select(_: Any, value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return select


def _slice(start: int | None, end: int | None, step: int | None) -> _Selector:
    def select(_: Any, value: Any) -> Iterator[Any]:
        if isinstance(value, list) and step != 0:
            yield from value[start:end:step]

    return select


def _filtered(condition: _Condition) -> _Selector:
    def select(root: Any, value: Any) -> Iterator[Any]:
        return (each for each in _children(value) if condition(root, each))

    return select


# -- comparisons -------------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _equal(one: Any, other: Any) -> bool:
    if _is_number(one) and _is_number(other):
        return bool(_exact(one) == _exact(other))
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    return bool(one == other)


def _exact(value: Any) -> Any:
    """A float stands for its shortest decimal, as it does for filters."""
    return Decimal(repr(value)) if isinstance(value, float) else value


def _less(one: Any, other: Any) -> bool:
    if _is_number(one) and _is_number(other):
        return bool(_exact(one) < _exact(other))
    return isinstance(one, str) and isinstance(other, str) and one < other


_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": _equal,
    "!=": lambda one, other: not _equal(one, other),
    "<": _less,
    "<=": lambda one, other: _less(one, other) or _equal(one, other),
    ">": lambda one, other: _less(other, one),
    ">=": lambda one, other: _less(other, one) or _equal(one, other),
}


# -- functions ---------------------------------------------------------------------------------------------

_VALUE, _NODES, _LOGICAL = "a value", "a query", "a condition"


def _length(value: Any) -> Any:
    return len(value) if isinstance(value, str | list | dict) else NOTHING


def _described(value: Any, expression: Any, *, anywhere: bool) -> bool:
    if not isinstance(value, str) or not isinstance(expression, str):
        return False
    try:
        return _regular(expression, anywhere).matches(value)
    except FairleadError:  # no expression of RFC 9485, or one that is too large: nothing matches it
        return False


def _single(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else NOTHING


_FUNCTIONS: Final[dict[str, tuple[tuple[str, ...], str, Callable[..., Any]]]] = {
    "count": ((_NODES,), _VALUE, len),
    "length": ((_VALUE,), _VALUE, _length),
    "match": ((_VALUE, _VALUE), _LOGICAL, lambda text, form: _described(text, form, anywhere=False)),
    "search": ((_VALUE, _VALUE), _LOGICAL, lambda text, form: _described(text, form, anywhere=True)),
    "value": ((_NODES,), _VALUE, _single),
}


@lru_cache(maxsize=256)
def _regular(expression: str, anywhere: bool) -> RegularExpression:
    """The automaton of an expression of RFC 9485: a dot is no line break, \\p{Lu} a category of characters."""
    plain = re.sub(r"(\\\\)|\\([pP])\{([A-Z][a-z]?)\}", _spelled_out, expression)
    return RegularExpression(searched(plain, r"[^\n\r]", anywhere=anywhere))


def _spelled_out(found: re.Match[str]) -> str:
    backslash, sign, name = found.groups()
    if backslash:
        return backslash
    before = re.sub(r"\\.", "", found.string[: found.start()])
    in_class = before.rfind("[") > before.rfind("]")
    runs = _category(name)
    if in_class and sign == "P":
        runs = _rest(runs)
    ranges = "".join(f"{_shown(first)}-{_shown(last)}" for first, last in runs)
    return ranges if in_class else f"[{'^' * (sign == 'P')}{ranges}]"


def _shown(code: int) -> str:
    """A character in a class; those of ASCII may be signs there."""
    return f"\\x{code:02x}" if code < 0x80 else chr(code)


@cache
def _categories() -> dict[str, list[tuple[int, int]]]:
    """The characters of each category, as ranges."""
    found: dict[str, list[tuple[int, int]]] = {}
    for code in (*range(0xD800), *range(0xE000, 0x110000)):
        runs = found.setdefault(unicodedata.category(chr(code)), [])
        if runs and runs[-1][1] == code - 1:
            runs[-1] = (runs[-1][0], code)
        else:
            runs.append((code, code))
    return found


def _category(name: str) -> list[tuple[int, int]]:
    runs = sorted(run for each, some in _categories().items() if each.startswith(name) for run in some)
    if not runs:
        raise TranslationRefused(f"no category of characters is named {name}")
    return runs


def _rest(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    every = sorted(run for some in _categories().values() for run in some)
    return [run for run in every if run not in set(runs)]


# -- from text to queries ----------------------------------------------------------------------------------

_INDEX: Final = re.compile(r"0|-?[1-9][0-9]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SHORTHAND: Final = re.compile(
    r"[A-Za-z_\u0080-\ud7ff\ue000-\U0010ffff][0-9A-Za-z_\u0080-\ud7ff\ue000-\U0010ffff]*"
)
_FUNCTION: Final = re.compile(r"([a-z][a-z_0-9]*)\(")
_WORD: Final = re.compile(r"(true|false|null)(?![0-9A-Za-z_(])")
_SIGN: Final = re.compile(r"==|!=|<=|>=|<|>")
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "/": "/", "\\": "\\"}


class _Parser:
    """A function for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def whole(self) -> _Query:
        if not self._takes("$"):
            raise self._refused("a query begins with $")
        query = self._query(is_absolute=True)
        if self._at < len(self._text):
            raise self._refused("unexpected text behind the query")
        return query

    # -- characters ----------------------------------------------------------------------------------------

    def _refused(self, problem: str, at: int | None = None) -> TranslationRefused:
        return TranslationRefused.at(self._text, self._at if at is None else at, problem)

    def _takes(self, sign: str) -> bool:
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        return True

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise self._refused(f"{sign} was expected")

    def _blank(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _BLANKS:
            self._at += 1

    def _matched(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found[0]

    # -- segments ------------------------------------------------------------------------------------------

    def _query(self, *, is_absolute: bool) -> _Query:
        segments: list[_Segment] = []
        while True:
            start = self._at
            self._blank()
            segment = self._segment()
            if segment is None:
                self._at = start
                return _Query(tuple(segments), is_absolute)
            segments.append(segment)

    def _segment(self) -> _Segment | None:
        if self._takes(".."):
            if self._text.startswith("[", self._at):
                return self._bracketed(descends=True)
            return _Segment((self._shorthand(),), descends=True, is_singular=False)
        if self._takes("."):
            is_wild = self._text.startswith("*", self._at)
            return _Segment((self._shorthand(),), descends=False, is_singular=not is_wild)
        if self._text.startswith("[", self._at):
            return self._bracketed(descends=False)
        return None

    def _shorthand(self) -> _Selector:
        if self._takes("*"):
            return lambda _, value: _children(value)
        name = self._matched(_SHORTHAND)
        if name is None:
            raise self._refused("a name or * was expected")
        return _member(name)

    def _bracketed(self, *, descends: bool) -> _Segment:
        self._expect("[")
        selectors = [self._selector()]
        while self._takes(","):
            selectors.append(self._selector())
        self._expect("]")
        singular = len(selectors) == 1 and selectors[0][1] and not descends
        return _Segment(tuple(selector for selector, _ in selectors), descends, singular)

    def _selector(self) -> tuple[_Selector, bool]:
        """A selector, and whether it selects one value at most."""
        self._blank()
        found = self._one_selector()
        self._blank()
        return found

    def _one_selector(self) -> tuple[_Selector, bool]:
        if self._takes("*"):
            return (lambda _, value: _children(value)), False
        if self._takes("?"):
            self._blank()
            return _filtered(self._or()), False
        if self._text[self._at : self._at + 1] in ("'", '"'):
            return _member(self._string()), True
        start = self._at
        first = self._index()
        here = self._at
        self._blank()
        if not self._takes(":"):
            self._at = here
            if first is None:
                raise self._refused("a selector was expected", start)
            return _element(first), True
        self._blank()
        end = self._index()
        self._blank()
        step = None
        if self._takes(":"):
            self._blank()
            step = self._index()
        return _slice(first, end, step), False

    def _index(self) -> int | None:
        start = self._at
        digits = self._matched(_INDEX)
        if digits is None:
            return None
        if abs(int(digits)) > INDEX_MAX:
            raise self._refused(f"the index {digits} has more than 53 bits", start)
        if self._text[self._at : self._at + 1].isdigit():
            raise self._refused("an index has no leading zeros", start)
        return int(digits)

    def _string(self) -> str:
        quote = self._text[self._at]
        self._at += 1
        parts: list[str] = []
        while not self._takes(quote):
            sign = self._text[self._at : self._at + 1]
            if not sign or sign < " ":
                raise self._refused(
                    "a string does not end" if not sign else "a control character in a string"
                )
            parts.append(self._escape(quote) if sign == "\\" else sign)
            self._at += sign != "\\"
        return "".join(parts)

    def _escape(self, quote: str) -> str:
        sign = self._text[self._at + 1 : self._at + 2]
        if sign and (sign in _ESCAPES or sign == quote):
            self._at += 2
            return _ESCAPES.get(sign, sign)
        pair = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})").match(
            self._text, self._at
        )
        if pair is not None:
            self._at = pair.end()
            return chr(0x10000 + (int(pair[1], 16) - 0xD800) * 0x400 + int(pair[2], 16) - 0xDC00)
        single = re.compile(r"\\u(?![dD][89a-fA-F])([0-9a-fA-F]{4})").match(self._text, self._at)
        if single is None:
            raise self._refused("an escape that strings do not have")
        self._at = single.end()
        return chr(int(single[1], 16))

    # -- filters -------------------------------------------------------------------------------------------

    def _or(self) -> _Condition:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._refused(f"nested more than {DEPTH_MAX} levels deep")
        parts = self._joined("||", self._and)
        self._depth -= 1
        return parts[0] if len(parts) == 1 else lambda root, each: any(part(root, each) for part in parts)

    def _and(self) -> _Condition:
        parts = self._joined("&&", self._basic)
        return parts[0] if len(parts) == 1 else lambda root, each: all(part(root, each) for part in parts)

    def _joined(self, sign: str, rule: Callable[[], _Condition]) -> list[_Condition]:
        parts = [rule()]
        while True:
            here = self._at
            self._blank()
            if not self._takes(sign):
                self._at = here
                return parts
            self._blank()
            parts.append(rule())

    def _basic(self) -> _Condition:
        if self._takes("!"):
            self._blank()
            return self._negated()
        if self._takes("("):
            return self._parenthesised()
        start = self._at
        kind, operand, is_singular = self._operand()
        here = self._at
        self._blank()
        sign = self._matched(_SIGN)
        if sign is None:
            self._at = here
            return self._test(kind, operand, start)
        left = self._comparable(kind, operand, is_singular, start)
        self._blank()
        start = self._at
        right = self._comparable(*self._operand(), start)
        holds = _COMPARE[sign]
        return lambda root, each: holds(left(root, each), right(root, each))

    def _negated(self) -> _Condition:
        if self._takes("("):
            inner = self._parenthesised()
        else:
            start = self._at
            kind, operand, _ = self._operand()
            inner = self._test(kind, operand, start)
        return lambda root, each: not inner(root, each)

    def _parenthesised(self) -> _Condition:
        self._blank()
        inner = self._or()
        self._blank()
        self._expect(")")
        return inner

    def _test(self, kind: str, operand: Any, start: int) -> _Condition:
        """A query that selects something, or a function that says yes."""
        if kind == _NODES:
            query: _Query = operand
            return lambda root, each: any(True for _ in query.select(root, each))
        if kind == _LOGICAL:
            condition: _Condition = operand
            return condition
        raise self._refused("a value is no condition: it is compared", start)

    def _comparable(self, kind: str, operand: Any, is_singular: bool, start: int) -> _Value:
        if kind == _NODES:
            if not is_singular:
                raise self._refused("a query that may select several values is not compared", start)
            query: _Query = operand
            return query.value
        if kind == _LOGICAL:
            raise self._refused("a condition is not compared", start)
        value: _Value = operand
        return value

    def _operand(self) -> tuple[str, Any, bool]:
        """A literal, a query or a function: its type, itself, and whether it has one value at most."""
        text, at = self._text, self._at
        if text.startswith(("@", "$"), at):
            self._at += 1
            query = self._query(is_absolute=text[at] == "$")
            return _NODES, query, query.is_singular
        if text[at : at + 1] in ("'", '"'):
            return _VALUE, _constant(self._string()), True
        if (word := self._matched(_WORD)) is not None:
            return _VALUE, _constant({"true": True, "false": False, "null": None}[word]), True
        if text[at : at + 1] in tuple("-0123456789") and (digits := self._matched(_NUMBER)) is not None:
            number = Decimal(digits)
            return _VALUE, _constant(int(number) if number == number.to_integral_value() else number), True
        named = _FUNCTION.match(text, at)
        if named is None:
            raise self._refused("a query, a literal or a function was expected")
        self._at = named.end()
        return self._function(named[1], at)

    def _function(self, name: str, start: int) -> tuple[str, Any, bool]:
        if name not in _FUNCTIONS:
            raise self._refused(f"the function {name} is not defined", start)
        types, result, function = _FUNCTIONS[name]
        arguments: list[_Value] = []
        self._blank()
        while not self._takes(")"):
            if arguments:
                self._expect(",")
                self._blank()
            if len(arguments) == len(types):
                raise self._refused(f"the function {name} takes {len(types)} arguments")
            arguments.append(self._argument(name, types[len(arguments)]))
            self._blank()
        if len(arguments) < len(types):
            raise self._refused(f"the function {name} takes {len(types)} arguments", start)

        def computed(root: Any, each: Any) -> Any:
            return function(*(argument(root, each) for argument in arguments))

        return result, computed, True

    def _argument(self, function: str, wanted: str) -> _Value:
        start = self._at
        kind, operand, is_singular = self._operand()
        if wanted == _NODES:
            if kind != _NODES:
                raise self._refused(f"the function {function} takes a query", start)
            query: _Query = operand
            return lambda root, each: list(query.select(root, each))
        return self._comparable(kind, operand, is_singular, start)


def _constant(value: Any) -> _Value:
    return lambda _root, _each: value


make_callable(__name__)
