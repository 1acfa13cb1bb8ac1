"""Conditional expressions in the manner of SQL, as trees: what CESQL, selectors of JMS and WHERE clauses share.

The dialects differ in the words they know, in how texts and names are written, and in what binds tighter; a
`Grammar` says so. What a tree means is each dialect's own matter. Every node has its location in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from fairlead.errors import TranslationRefused

__all__ = [
    "Between",
    "Binary",
    "Call",
    "Exists",
    "Grammar",
    "In",
    "IsNull",
    "IsTruth",
    "Like",
    "Literal",
    "Name",
    "Node",
    "Unary",
    "like_expression",
    "names_in",
    "read",
]

DEPTH_MAX: Final = 100
COMPARISONS: Final = frozenset({"=", "!=", "<>", "<", "<=", ">", ">="})


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression, and where it begins and ends in the text."""

    start: int = field(compare=False)
    end: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A text, a number, a Boolean, or None for NULL."""

    value: Any


@dataclass(frozen=True, slots=True)
class Name(Node):
    """An attribute."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """NOT, - or +."""

    sign: str
    part: Node


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """AND, OR, XOR, a comparison or arithmetic."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Like(Node):
    """A text and a pattern, with its escape character; '' where there is none."""

    part: Node
    pattern: str
    escape: str
    negated: bool
    ignores_case: bool = False


@dataclass(frozen=True, slots=True)
class In(Node):
    """One of several."""

    part: Node
    items: tuple[Node, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Between(Node):
    """From a bound to another."""

    part: Node
    low: Node
    high: Node
    negated: bool


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    """IS NULL."""

    part: Node
    negated: bool


@dataclass(frozen=True, slots=True)
class IsTruth(Node):
    """IS TRUE, IS FALSE or IS UNKNOWN (None)."""

    part: Node
    truth: bool | None
    negated: bool


@dataclass(frozen=True, slots=True)
class Exists(Node):
    """EXISTS name."""

    name: str


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of arguments; its name is in upper case."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Grammar:
    """The differences between the dialects' texts."""

    language: str
    words: frozenset[str]
    """The words that are no names, in upper case."""
    token: re.Pattern[str]
    """With the groups `text`, `name`, `number` and `sign`."""
    text_in: Callable[[str], str]
    """The text that a literal stands for."""
    name_in: Callable[[str], str] = str
    number_in: Callable[[str], Any] = int
    is_flat: bool = False
    """NOT binds as tightly as a sign, LIKE and IN tighter than arithmetic, AND and OR alike, as in CESQL."""

    def knows(self, word: str) -> bool:
        return word in self.words


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The token as a word or sign; texts and quoted names are none."""
        return self.text.upper() if self.kind in ("name", "sign") else ""


def read(text: str, grammar: Grammar) -> Node:
    """The tree of an expression, or TranslationRefused."""
    return _Parser(text, grammar).whole()


def names_in(node: Node) -> Iterator[Name | Exists]:
    """The attributes of an expression."""
    match node:
        case Name() | Exists():
            yield node
        case Unary(part=part) | Like(part=part) | IsNull(part=part) | IsTruth(part=part):
            yield from names_in(part)
        case Binary(left=left, right=right):
            yield from names_in(left)
            yield from names_in(right)
        case In(part=part, items=items):
            for each in (part, *items):
                yield from names_in(each)
        case Between(part=part, low=low, high=high):
            for each in (part, low, high):
                yield from names_in(each)
        case Call(arguments=arguments):
            for each in arguments:
                yield from names_in(each)


_SPECIAL: Final = re.compile(r"[\\|*+?{}()\[\].^$-]")


def like_expression(pattern: str, escape: str) -> str:
    """The regular expression of a pattern: % is any text, _ any character. ValueError for a bad escape."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        if escape and sign == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                raise ValueError(f"the escape at character {at} stands before %, _ or itself")
            parts.append(_SPECIAL.sub(r"\\\g<0>", pattern[at]))
        elif sign in "%_":
            parts.append(".*" if sign == "%" else ".")
        else:
            parts.append(_SPECIAL.sub(r"\\\g<0>", sign))
        at += 1
    return "".join(parts)


class _Parser:
    def __init__(self, text: str, grammar: Grammar) -> None:
        self._text, self._grammar = text, grammar
        self._tokens = list(self._scan())
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        if self._next.kind == "end":
            raise self._unexpected("an expression")
        found = self._logic() if self._grammar.is_flat else self._or()
        if self._next.kind != "end":
            raise self._unexpected("the end")
        return found

    # -- tokens ------------------------------------------------------------------------------------------

    def _scan(self) -> Iterator[_Token]:
        at, text = 0, self._text
        while True:
            while at < len(text) and text[at].isspace():
                at += 1
            if at == len(text):
                yield _Token("end", "", at, at)
                return
            found = self._grammar.token.match(text, at)
            if found is None or found.end() == at or found.lastgroup is None:
                raise TranslationRefused.at(
                    text, at, f"{text[at]!r} begins nothing in {self._grammar.language}"
                )
            yield _Token(found.lastgroup, found[0], at, found.end())
            at = found.end()

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _takes(self, *words: str) -> bool:
        """Take these words if they are next, one after the other, and the grammar has them."""
        tokens = self._tokens[self._at : self._at + len(words)]
        if [token.word for token in tokens] != list(words):
            return False
        if not all(word in self._grammar.words or not word[0].isalpha() for word in words):
            return False
        self._at += len(words)
        return True

    def _expect(self, word: str) -> _Token:
        if self._next.word != word:
            raise self._unexpected(word)
        return self._take()

    def _unexpected(self, *expected: str) -> TranslationRefused:
        token = self._next
        shown = token.text or "the end"
        return TranslationRefused.at(
            self._text, token.start, f"unexpected {shown} in {self._grammar.language}", expected=expected
        )

    def _refused(self, at: int, problem: str) -> TranslationRefused:
        return TranslationRefused.at(self._text, at, problem)

    # -- logic -------------------------------------------------------------------------------------------

    def _nested(self, rule: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._refused(self._next.start, f"nested more than {DEPTH_MAX} levels deep")
        found = rule()
        self._depth -= 1
        return found

    def _logic(self) -> Node:
        operands, signs = [self._comparison()], []
        while (sign := self._next.word) in ("AND", "OR", "XOR"):
            self._take()
            signs.append(sign)
            operands.append(self._comparison())
        found = operands.pop()
        while operands:
            left = operands.pop()
            found = Binary(left.start, found.end, signs.pop(), left, found)
        return found

    def _joined(self, sign: str, rule: Callable[[], Node]) -> Node:
        found = rule()
        while self._takes(sign):
            right = rule()
            found = Binary(found.start, right.end, sign, found, right)
        return found

    def _or(self) -> Node:
        return self._joined("OR", self._and)

    def _and(self) -> Node:
        return self._joined("AND", self._not)

    def _not(self) -> Node:
        start = self._next.start
        if self._takes("NOT"):
            part = self._nested(self._not)
            return Unary(start, part.end, "NOT", part)
        return self._comparison()

    # -- comparisons -------------------------------------------------------------------------------------

    def _comparison(self) -> Node:
        found = self._sum()
        while True:
            token = self._next
            if token.kind == "sign" and (token.text in COMPARISONS or token.text in ("<=>", "==")):
                if token.text in ("<=>", "==") and not self._grammar.knows(token.text):
                    raise self._unexpected("=")
                self._take()
                right = self._sum()
                sign = {"!=": "<>", "==": "="}.get(token.text, token.text)
                found = Binary(found.start, right.end, sign, found, right)
            elif self._grammar.is_flat:
                return found
            else:
                tested = self._tested(found)
                if tested is None:
                    return found
                found = tested

    def _tested(self, part: Node) -> Node | None:
        """LIKE, IN, BETWEEN or IS behind an operand, or None."""
        if self._takes("IS"):
            return self._is(part)
        negated = self._next.word == "NOT" and self._tokens[self._at + 1].word in _NEGATABLE
        if negated:
            self._take()
        for word in ("LIKE", "ILIKE"):
            if self._takes(word):
                return self._like(part, negated, ignores_case=word == "ILIKE")
        if self._takes("IN"):
            self._expect("(")
            items = [self._item()]
            while self._next.word == ",":
                self._take()
                items.append(self._item())
            return In(part.start, self._expect(")").end, part, tuple(items), negated)
        if self._takes("BETWEEN"):
            low = self._sum()
            if not self._takes("AND"):
                raise self._unexpected("AND")
            high = self._sum()
            return Between(part.start, high.end, part, low, high, negated)
        if negated:
            self._at -= 1
        return None

    def _item(self) -> Node:
        return self._nested(self._logic if self._grammar.is_flat else self._sum)

    def _is(self, part: Node) -> Node:
        negated = self._takes("NOT")
        end = self._next.end
        if self._takes("NULL"):
            return IsNull(part.start, end, part, negated)
        for word, truth in (("TRUE", True), ("FALSE", False), ("UNKNOWN", None)):
            if self._grammar.knows("IS TRUTH") and self._next.word == word:
                self._take()
                return IsTruth(part.start, end, part, truth, negated)
        if self._grammar.knows("DISTINCT") and self._takes("DISTINCT", "FROM"):
            right = self._sum()
            same = Binary(part.start, right.end, "<=>", part, right)
            return same if negated else Unary(part.start, right.end, "NOT", same)
        raise self._unexpected("NULL")

    def _like(self, part: Node, negated: bool, ignores_case: bool) -> Node:
        token = self._next
        if token.kind != "text":
            raise self._unexpected("a text")
        self._take()
        pattern, escape, end = self._grammar.text_in(token.text), "", token.end
        if self._takes("ESCAPE"):
            sign = self._next
            if sign.kind != "text" or len(self._grammar.text_in(sign.text)) != 1:
                raise self._unexpected("one character")
            self._take()
            escape, end = self._grammar.text_in(sign.text), sign.end
        elif self._grammar.knows("\\"):
            escape = "\\"
        return Like(part.start, end, part, pattern, escape, negated, ignores_case)

    # -- arithmetic --------------------------------------------------------------------------------------

    def _sum(self) -> Node:
        return self._computed("+-", self._product)

    def _product(self) -> Node:
        return self._computed("*/%", self._postfixed if self._grammar.is_flat else self._unary)

    def _computed(self, signs: str, rule: Callable[[], Node]) -> Node:
        found = rule()
        while self._next.kind == "sign" and self._next.text in signs:
            sign = self._take().text
            right = rule()
            found = Binary(found.start, right.end, sign, found, right)
        return found

    def _postfixed(self) -> Node:
        found = self._unary()
        while (tested := self._tested(found)) is not None:
            found = tested
        return found

    def _unary(self) -> Node:
        token = self._next
        if token.kind == "sign" and token.text in "+-" and not (token.text == "+" and self._grammar.is_flat):
            self._take()
            part = self._nested(self._unary)
            if isinstance(part, Literal) and type(part.value) in (int, float, Decimal) and token.text == "-":
                return Literal(token.start, part.end, -part.value)
            return Unary(token.start, part.end, token.text, part)
        if self._grammar.is_flat and self._takes("NOT"):
            part = self._nested(self._unary)
            return Unary(token.start, part.end, "NOT", part)
        return self._atom()

    def _atom(self) -> Node:
        token = self._next
        if token.word == "(":
            self._take()
            inner = self._nested(self._logic if self._grammar.is_flat else self._or)
            return replace(inner, start=token.start, end=self._expect(")").end)
        if self._takes("EXISTS"):
            named = self._next
            if named.kind != "name" or named.word in self._grammar.words:
                raise self._unexpected("a name")
            self._take()
            return Exists(token.start, named.end, self._grammar.name_in(named.text))
        if token.kind == "text":
            self._take()
            return Literal(token.start, token.end, self._grammar.text_in(token.text))
        if token.kind == "number":
            self._take()
            try:
                return Literal(token.start, token.end, self._grammar.number_in(token.text))
            except ValueError as error:
                raise self._refused(token.start, str(error)) from None
        if token.kind != "name":
            raise self._unexpected("a value", "a name", "(")
        if token.word in _CONSTANTS and self._grammar.knows(token.word):
            self._take()
            return Literal(token.start, token.end, _CONSTANTS[token.word])
        if self._tokens[self._at + 1].word == "(" and token.word not in self._grammar.words:
            return self._call()
        if token.word in self._grammar.words:
            raise self._unexpected("a value", "a name", "(")
        self._take()
        return Name(token.start, token.end, self._grammar.name_in(token.text))

    def _call(self) -> Node:
        token = self._take()
        self._expect("(")
        arguments: list[Node] = []
        if self._next.word != ")":
            arguments.append(self._item())
            while self._next.word == ",":
                self._take()
                arguments.append(self._item())
        return Call(token.start, self._expect(")").end, token.text.upper(), tuple(arguments))


_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None}
_NEGATABLE: Final = frozenset({"LIKE", "ILIKE", "IN", "BETWEEN"})
