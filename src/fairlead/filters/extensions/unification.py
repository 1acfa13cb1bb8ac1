"""Unification of terms: `x unifies "f(_X, 5)"` (siena-x, section 7.2).

Law: an expression unifies with another iff some substitution for the variables of each, renamed apart,
makes the two the same finite term. (x unifies a) covers (x unifies b) iff b is an instance of a: some
substitution for a's variables alone makes it b.

Why this is sound: where x and b have a common instance and b is an instance of a, that instance is one of
a. And why it is complete: put a new constant for each variable of b. The result unifies with b; were it to
unify with a, b would be an instance of a.

The report's one-way unification is laxer: it also lets variables of b take the value of a variable of a.
That is too much where a repeats a variable. f(_X, _X) passes for more general than f(_Y, _Z), yet f(1, 2)
unifies with the latter only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from fairlead.errors import FilterError
from fairlead.filters.constraint import Constraint, Extended
from fairlead.filters.registry import Extension, ExtensionBase, Literal
from fairlead.model import Kind

__all__ = ["LENGTH_MAX", "TERMS", "Expression", "Unifies", "is_instance", "unify"]

LENGTH_MAX: Final = 20_000
"""The most characters an expression may have."""


class Node(NamedTuple):
    """A function with its arguments, a number, a string or a variable."""

    sort: str
    text: str
    arguments: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Expression:
    """A term as a table of its distinct subterms; arguments are indexes into it, and precede the terms that
    contain them.

    Equal subterms are one entry, so they are compared by comparing their places.
    """

    nodes: tuple[Node, ...]

    @property
    def root(self) -> int:
        return len(self.nodes) - 1

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Read an expression of the grammar in Fig. 5, or FilterError. White space around its parts is
        ignored."""
        return _parse(text)


@lru_cache(maxsize=128)
def _parse(text: str) -> Expression:
    if len(text) > LENGTH_MAX:
        raise FilterError(f"a term of more than {LENGTH_MAX} characters")
    places: dict[Node, int] = {}
    opened: list[_Call] = []
    tokens = _tokens(text)
    offset, sort, spelling = next(tokens)
    while True:
        # Here an argument (or the whole expression) starts.
        if sort not in ("name", "number", "string", "variable"):
            raise _unexpected(text, offset, "a name, a number, a string or a variable")
        name = spelling
        start, kind = offset, sort
        offset, sort, spelling = next(tokens)
        if sort == "(" and kind == "name":
            opened.append(_Call(name))
            offset, sort, spelling = next(tokens)
            continue
        if sort == "(":
            raise _unexpected(text, start, "a name before '('")
        place = places.setdefault(Node(kind, name), len(places))
        # And here it has ended, and with it, perhaps, what it is the last argument of.
        while opened and sort == ")":
            call = opened.pop()
            node = Node("name", call.name, (*call.arguments, place))
            place = places.setdefault(node, len(places))
            offset, sort, spelling = next(tokens)
        if not opened:
            if sort != "end":
                raise _unexpected(text, offset, "the end of the expression")
            return Expression(tuple(places))
        if sort != ",":
            raise _unexpected(text, offset, "',' or ')'")
        opened[-1].arguments.append(place)
        offset, sort, spelling = next(tokens)


@dataclass(slots=True)
class _Call:
    """A function whose arguments are being read."""

    name: str
    arguments: list[int] = field(default_factory=list)


_STRING: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_RUN: Final = re.compile(r'[^(),!"]+')
_NUMBER: Final = re.compile(r"([+-]?)0*([0-9]+)", re.ASCII)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def _tokens(text: str) -> Iterator[tuple[int, str, str]]:
    """(offset, sort, canonical spelling) of each token, and at the end an endless row of ends."""
    offset = _after_space(text, 0)
    while offset < len(text):
        string, run = _STRING.match(text, offset), _RUN.match(text, offset)
        if string:
            end = string.end()
            yield offset, "string", _ESCAPED.sub(r"\1", string[1])
        elif run:
            end = run.end()
            yield offset, *_named(text, offset, run[0].rstrip())
        elif text[offset] in "(),":
            end = offset + 1
            yield offset, text[offset], text[offset]
        else:
            raise _unexpected(text, offset, "a complete string" if text[offset] == '"' else "a name")
        offset = _after_space(text, end)
    while True:
        yield len(text), "end", ""


def _after_space(text: str, offset: int) -> int:
    while offset < len(text) and text[offset].isspace():
        offset += 1
    return offset


def _named(text: str, offset: int, run: str) -> tuple[str, str]:
    number = _NUMBER.fullmatch(run)
    if number:  # +5, 5 and 05 are one number; digits may be too many for int()
        return "number", f"{'-' if number[1] == '-' and number[2] != '0' else ''}{number[2]}"
    if run[0].isdigit():
        raise _unexpected(text, offset, "a number, or a name that starts with no digit")
    if run[0] != "_":
        return "name", run
    if len(run) == 1 or run[1] == "_" or run[1].isdigit() or run[1].isspace():
        raise _unexpected(text, offset, "a variable: an underscore and a name")
    return "variable", run


def _unexpected(text: str, offset: int, expected: str) -> FilterError:
    found = repr(text[offset : offset + 20]) if offset < len(text) else "the end"
    return FilterError(f"not a term: expected {expected} at column {offset + 1}, found {found}")


def unify(one: Expression, other: Expression) -> bool:
    """Whether the two have a common instance, their variables renamed apart.

    Huet's algorithm: subterms that have to become equal are put into one class, each pair of functions at
    most once per union, so the time is almost linear, where substituting could take exponential time. The
    occurs check comes last: no class may contain itself.
    """
    shift = len(one.nodes)
    nodes = [*one.nodes, *(_moved(node, shift) for node in other.nodes)]
    parent = list(range(len(nodes)))

    def find(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    waiting = [(one.root, other.root + shift)]
    while waiting:
        left, right = (find(place) for place in waiting.pop())
        if left == right:
            continue
        if nodes[left].sort == "variable":
            parent[left] = right
            continue
        if nodes[right].sort != "variable":
            if not _alike(nodes[left], nodes[right]):
                return False
            waiting.extend(zip(nodes[left].arguments, nodes[right].arguments, strict=True))
        parent[right] = left  # a class is represented by a function or constant of it, if there is one
    return _acyclic(
        {place: [find(each) for each in nodes[find(place)].arguments] for place in map(find, parent)}
    )


def is_instance(specific: Expression, general: Expression) -> bool:
    """Whether a substitution for the variables of `general` alone makes it `specific`."""
    values: dict[int, int] = {}
    seen: set[tuple[int, int]] = set()
    waiting = [(general.root, specific.root)]
    while waiting:
        pair = waiting.pop()
        if pair in seen:
            continue
        seen.add(pair)
        place, target = pair
        node, image = general.nodes[place], specific.nodes[target]
        if node.sort == "variable":
            if values.setdefault(place, target) != target:
                return False
        elif _alike(node, image):
            waiting.extend(zip(node.arguments, image.arguments, strict=True))
        else:
            return False
    return True


def _moved(node: Node, shift: int) -> Node:
    return node._replace(arguments=tuple(place + shift for place in node.arguments))


def _alike(one: Node, other: Node) -> bool:
    return (one.sort, one.text, len(one.arguments)) == (other.sort, other.text, len(other.arguments))


def _acyclic(below: dict[int, list[int]]) -> bool:
    """Take away what has nothing above it until nothing is left, or a cycle."""
    above = dict.fromkeys(below, 0)
    for places in below.values():
        for place in places:
            above[place] += 1
    waiting = [place for place, count in above.items() if not count]
    removed = 0
    while waiting:
        removed += 1
        for place in below[waiting.pop()]:
            above[place] -= 1
            if not above[place]:
                waiting.append(place)
    return removed == len(below)


class Unifies(ExtensionBase):
    """The operator. Values and literals are strings that hold an expression."""

    name = "unifies"
    kinds = frozenset({Kind.STRING})

    def check(self, literal: Literal, /) -> None:
        if not isinstance(literal, str):
            raise FilterError(f"'unifies' takes a string, not {literal!r}", hint='unifies "f(_X, 5)"')
        Expression.parse(literal)

    def holds(self, value: Any, literal: Literal, /) -> bool:
        if not isinstance(value, str) or not isinstance(literal, str):
            return False
        try:
            return unify(Expression.parse(value), Expression.parse(literal))
        except FilterError:
            return False

    def covers(self, one: Constraint, other: Constraint, /) -> bool:
        a, b = _expression(one), _expression(other)
        return a is not None and b is not None and is_instance(b, general=a)

    # overlaps: a value that is a variable unifies with everything, so two of these always overlap.


def _expression(constraint: Constraint) -> Expression | None:
    match constraint.operand:
        case Extended(operator="unifies", literal=str() as literal):
            return Expression.parse(literal)
        case _:
            return None


TERMS: Final = Extension("terms", (Unifies(),))
