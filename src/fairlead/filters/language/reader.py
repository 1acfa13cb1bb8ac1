"""The base of the parsers: inspecting tokens, consuming them, reading values, raising errors.

Every complaint has its place: line, column, and the line with a caret below the column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, ClassVar, Final, TypeVar

from fairlead.errors import FairleadError, FilterError, FilterSyntaxError
from fairlead.filters.constraint import Op
from fairlead.filters.language.lexer import (
    BAD,
    BYTES,
    END,
    NAME,
    NUMBER,
    QUOTED,
    STRING,
    TIME,
    name_in,
    string_in,
    tokens,
)
from fairlead.filters.terms import RESERVED
from fairlead.model import DEPTH_MAX as STEPS_MAX
from fairlead.model import Instant, Interval, Multi, Number, Point, Rectangle, check_name, number_of
from fairlead.model.durations import scan_duration

__all__ = ["Reader", "shape"]

DIGITS_MAX: Final = 10_000
"""The length of a number's digits, those behind the point included: reading them takes time."""

CONSTANTS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
SHAPES: Final[dict[str, tuple[Callable[..., Point | Interval | Rectangle], int]]] = {
    "point": (Point, 2),
    "interval": (Interval, 2),
    "rectangle": (Rectangle, 4),
}
NOT_NUMBERS: Final = frozenset({"inf", "infinity", "nan"})
A_VALUE: Final = ("a value",)
A_DURATION: Final = ("a duration such as 5 minutes",)
WORDS: Final = RESERVED | {op.value for op in Op if op.value.isalpha()} - {Op.EXTENDED.value}
"""The words of the language, for those who write them in capitals."""

_SPELLINGS: Final = {
    "==": "write =",
    "=<": "write <=",
    "=>": "write >=",
    "<>": "write !=",
    "=~": "write ~",
    "&&": "write and",
    "||": "write or",
    "!": "write not",
    "&": "write and",
    "|": "write or",
    "'": 'write strings in double quotes: "IBM"',
    "‘": 'write strings in double quotes: "IBM"',
    "’": 'write strings in double quotes: "IBM"',
    "“": 'write strings in plain double quotes: "IBM"',
    "”": 'write strings in plain double quotes: "IBM"',
    ".": "a number begins with a digit (0.5); a step of a name that is not a plain word is written in backquotes",
}
"""Spellings of other languages, or of what is missing, each with what to write instead."""


T = TypeVar("T")


class Reader:
    """One reading of one text: the tokens, and the number of the next one."""

    __slots__ = ("at", "kinds", "source", "starts", "texts")

    WHOLE: ClassVar[str] = "filter"
    """The name of what is read as a whole, for complaints."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.kinds, self.texts, self.starts = tokens(source)
        self.at = 0

    def value(self, expected: tuple[str, ...] = A_VALUE) -> Any:
        """The value that is written here."""
        kind, word, start = self.kinds[self.at], self.texts[self.at], self.starts[self.at]
        if kind == STRING:
            self.at += 1
            return string_in(word, self.source, start)
        if kind in (NUMBER, "-"):
            return self.number()
        if kind == NAME and word in CONSTANTS:
            self.at += 1
            return CONSTANTS[word]
        if kind == "{":
            return self.located(start, Multi, self.listed("{", "}", self.element))
        if kind == TIME:
            self.at += 1
            return self.located(start, _instant, word[2:-1])
        if kind == BYTES:
            self.at += 1
            return self.located(start, _bytes, word[2:-1])
        if kind == NAME and word in SHAPES and self.kinds[self.at + 1] == "(":
            self.at += 1
            return self.located(start, shape, word, self.listed("(", ")", self.number))
        if kind == NAME and word.lower() in NOT_NUMBERS:
            raise self.refused(f"no value of a filter: {word}", start, hint="exists x, or x is number")
        raise self.unexpected(expected, hint=f'write a string in quotes: "{word}"' if kind == NAME else None)

    def element(self) -> Any:
        """An element of a set; sets in sets are refused before they can nest."""
        if self.kinds[self.at] == "{":
            raise self.refused("a set holds simple values, not sets", self.starts[self.at])
        return self.value()

    def number(self) -> Number:
        sign = "-" if self.kinds[self.at] == "-" else ""
        self.at += len(sign)
        if self.kinds[self.at] != NUMBER:
            raise self.unexpected(("a number",))
        digits = self.texts[self.at]
        self.at += 1
        if len(digits) < 19 and digits.isdecimal():
            return int(sign + digits)
        return self.located(self.starts[self.at - 1], _number, sign, digits)

    def string(self) -> str:
        if self.kinds[self.at] != STRING:
            raise self.unexpected(("a string",))
        found: str = self.value()
        return found

    def listed(self, opening: str, closing: str, read: Callable[[], T]) -> list[T]:
        """Values between brackets, with commas between them."""
        self.expect(opening)
        found: list[T] = []
        while self.kinds[self.at] != closing:
            found.append(read())
            if self.kinds[self.at] != ",":
                break
            self.at += 1
        self.expect(closing, ",")
        return found

    def name(self) -> str:
        """The dotted name here."""
        if self.kinds[self.at] != NAME:
            raise self.unexpected(("a name",))
        spelled = self.texts[self.at]
        self.at += 1
        if "`" not in spelled and spelled.count(".") < STEPS_MAX:
            return spelled
        if any("." in step for step in QUOTED.findall(spelled)):
            raise self.problem(
                "a step of a name has no dots",
                self.starts[self.at - 1],
                hint="steps are joined by dots outside of the backquotes",
            )
        return self.located(self.starts[self.at - 1], check_name, name_in(spelled))

    def duration(self, expected: tuple[str, ...] = A_DURATION) -> int:
        """The duration here, in microseconds."""
        found = self.scanned(scan_duration)
        if found is None:
            raise self.unexpected(expected, hint="units are days, hours, minutes, s, ms and us")
        return found

    def scanned(self, scan: Callable[[str, int], tuple[T, int] | None]) -> T | None:
        """The value that a function scans from the text here; its tokens are consumed."""
        start = self.starts[self.at]
        found = self.located(start, scan, self.source, start)
        if found is None:
            return None
        while self.starts[self.at] < found[1]:
            self.at += 1
        return found[0]

    def took(self, *words: str) -> bool:
        """Consume these words, if they are next. True if they were."""
        end = self.at + len(words)
        if tuple(self.texts[self.at : end]) != words:
            return False
        self.at = end
        return True

    # -- complaints ------------------------------------------------------------------------------------------

    def expect(self, sign: str, *others: str, hint: str | None = None) -> None:
        """Step over a sign; `others` are what might have stood here as well."""
        if self.kinds[self.at] != sign:
            raise self.unexpected((sign, *others), hint=hint)
        self.at += 1

    def located(self, start: int, make: Callable[..., T], *arguments: Any) -> T:
        """The result of `make` for the arguments; if it refuses them, the error with its location."""
        try:
            return make(*arguments)
        except (FairleadError, ValueError) as error:
            raise self.relocated(error, start) from None

    def relocated(self, error: Exception, start: int) -> FilterError:
        """An error without a location, or with one in a regular expression, with its location in the filter."""
        hint = getattr(error, "hint", None)
        reason = str(error).removesuffix(f"\n  hint: {hint}")
        if isinstance(error, FilterSyntaxError):
            reason = reason.partition("\n")[0].removeprefix("line 1, ")
        return self.refused(reason, start, hint=hint)

    def refused(self, what: str, start: int, *, hint: str | None = None) -> FilterError:
        """The complaint that something can be read but means nothing."""
        return FilterError(str(FilterSyntaxError.at(self.source, start, what)), hint=hint)

    def problem(
        self, what: str, start: int, *, expected: tuple[str, ...] = (), hint: str | None = None
    ) -> FilterSyntaxError:
        """The complaint that something cannot be read."""
        return FilterSyntaxError.at(self.source, start, what, expected=expected, hint=hint)

    def unexpected(self, expected: tuple[str, ...], *, hint: str | None = None) -> FilterSyntaxError:
        """The error that the next token is none of those expected."""
        kind, word, start = self.kinds[self.at], self.texts[self.at], self.starts[self.at]
        if kind == BAD:
            what = "string" if word[0] == '"' else "name in backquotes"
            return self.problem(f"this {what} does not end", start, expected=(word[0],))
        for first in (start, start - 1):  # of == and its like, the first = was taken for the operator
            pair = self.source[max(first, 0) : first + 2]
            if len(pair) == 2 and pair in _SPELLINGS:
                return self.problem(f"unexpected {pair}", first, expected=expected, hint=_SPELLINGS[pair])
        shown = word if len(word) <= 40 else f"{word[:40]}…"
        what = f"the {self.WHOLE} ends too early" if kind == END else f"unexpected {shown}"
        return self.problem(what, start, expected=expected, hint=self.spelling() or hint)

    def spelling(self) -> str | None:
        """The replacement for the next word."""
        word = self.texts[self.at]
        if word != word.lower() and word.lower() in WORDS:
            return f"write {word.lower()}"
        return _SPELLINGS.get(word)


def shape(word: str, coordinates: Sequence[Number]) -> Point | Interval | Rectangle:
    """The point, interval or rectangle with these coordinates."""
    made, count = SHAPES[word]
    if len(coordinates) != count:
        raise FilterError(f"{word} takes {count} numbers, not {len(coordinates)}")
    return made(*coordinates)


def _instant(text: str) -> Instant:
    """An instant as RFC 3339 has it; or, outside the years 1 to 9999, as microseconds since 1970."""
    if found := re.fullmatch(r"(-?[0-9]{1,30})us", text):
        return Instant(int(found[1]))
    return Instant.parse(text)


def _bytes(text: str) -> bytes:
    if len(text) % 2 or not re.fullmatch(r"[0-9a-fA-F]*", text):
        raise FilterError(f"not bytes: {text!r}", hint='two hexadecimal digits for each: x"0aff"')
    return bytes.fromhex(text)


def _number(sign: str, digits: str) -> Number:
    """The exact number: by way of Decimal, so that nothing is rounded."""
    mantissa, _, exponent = digits.lower().partition("e")
    if len(mantissa) > DIGITS_MAX or len(exponent) > 8:
        raise FilterError(f"a number of more than {DIGITS_MAX} digits")
    return number_of(Decimal(sign + digits))
