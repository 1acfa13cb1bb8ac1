"""Terms: what a constraint is about.

    Attribute    price, position.x              the value under a dotted name
    Inspector    quote.id()                     what an embedded object answers
    Position     the n-th value of the tuple    only templates make these, ("StockQuote", *, 45)
    Length       the tuple's length             likewise
    Polynomial   x + y, price * quantity        a number computed from several attributes
    Selection    //cpu[@clock >= 700]           how many elements of the tree a path selects (see `paths`)

`value(n)` is the value that a notification gives to the term, or ABSENT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import gcd, lcm
from typing import Any, Final, Protocol

from fairlead.errors import ValueRefused
from fairlead.model import ABSENT, Absent, Kind, Notification, Number, Tuple, kind_of, number_of

__all__ = [
    "Attribute",
    "Inspector",
    "Length",
    "Polynomial",
    "Position",
    "Term",
    "quote_name",
    "quote_step",
    "unquote_step",
]

_PLAIN: Final = re.compile(r"[^\W\d]\w*", re.UNICODE)
RESERVED: Final = frozenset(
    {"absent", "and", "count", "exists", "false", "misses", "not", "null", "or", "true"}
)
"""Words that cannot start a name unless it stands in backquotes."""


class Term(Protocol):
    """Something that a notification gives a value to."""

    def value(self, notification: Notification, /) -> Any:
        """The value, or ABSENT."""
        ...


def quote_name(name: str) -> str:
    """A dotted name as the language spells it, with backquotes around steps that are not plain words."""
    return ".".join(
        step if _PLAIN.fullmatch(step) and (index or step not in RESERVED) else quote_step(step)
        for index, step in enumerate(name.split("."))
    )


def quote_step(step: str) -> str:
    """A step in backquotes; what cannot be seen is written by its code point."""
    shown = (f"\\{c}" if c in "\\`" else c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in step)
    return f"`{''.join(shown)}`"


_STEP_ESCAPE: Final = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|(.))", re.DOTALL)


def unquote_step(quoted: str) -> str:
    """The step between backquotes."""
    return _STEP_ESCAPE.sub(_escaped, quoted)


def _escaped(found: re.Match[str]) -> str:
    code, plain = found.groups()
    if code is None:
        return str(plain)
    number = int(code, 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else found[0]


@dataclass(frozen=True, slots=True)
class Attribute:
    """The value under a dotted name."""

    name: str

    def value(self, notification: Notification) -> Any:
        return notification.attributes.lookup(self.name)

    def __str__(self) -> str:
        return quote_name(self.name)


@dataclass(frozen=True, slots=True)
class Inspector:
    """The result of a public method without arguments of the object under a dotted name (book 3.1.4)."""

    name: str
    method: str

    def value(self, notification: Notification) -> Any:
        return notification.ask(self.name, self.method)

    def __str__(self) -> str:
        return f"{quote_name(self.name)}.{quote_name(self.method)}()"


@dataclass(frozen=True, slots=True)
class Position:
    """A value of the tuple, counted from 0."""

    index: int

    def value(self, notification: Notification) -> Any:
        items = notification.get("tuple")
        if isinstance(items, Tuple) and self.index < len(items):
            return items.items[self.index]
        return ABSENT

    def __str__(self) -> str:
        return f"tuple[{self.index}]"


@dataclass(frozen=True, slots=True)
class Length:
    """The number of values of the tuple."""

    def value(self, notification: Notification) -> Any:
        items = notification.get("tuple")
        return len(items) if isinstance(items, Tuple) else ABSENT

    def __str__(self) -> str:
        return "tuple[#]"


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A number computed from several attributes, in one normal form: equal expressions are equal terms.

    Monomials are sorted; coefficients are whole, the first one positive, without a common divisor that
    decimals can be divided by; there is no constant (it moved to the other side of the comparison). Absent
    where any attribute is not a number.
    """

    monomials: tuple[tuple[tuple[str, ...], int], ...]

    @classmethod
    def normal(cls, coefficients: Mapping[tuple[str, ...], Fraction]) -> tuple[Polynomial, Fraction]:
        """The normal form of an expression without constant, and the factor that it was multiplied with."""
        present = sorted((names, c) for names, c in coefficients.items() if c)
        clearing = lcm(*(c.denominator for _, c in present))
        divisor = _decimal_part(gcd(*(int(c * clearing) for _, c in present)))
        scale = Fraction(clearing if present[0][1] > 0 else -clearing, divisor)
        return cls(tuple((names, int(c * scale)) for names, c in present)), scale

    @property
    def names(self) -> frozenset[str]:
        """The attributes it is computed from."""
        return frozenset(name for names, _ in self.monomials for name in names)

    def value(self, notification: Notification) -> Any:
        return computed(self.monomials, notification.get)

    def __str__(self) -> str:
        text = ""
        for names, coefficient in self.monomials:
            sign = "-" if coefficient < 0 else "+"
            factor = "" if abs(coefficient) == 1 else f"{abs(coefficient)} * "
            text += f" {sign} {factor}{' * '.join(map(quote_name, names))}"
        return text.removeprefix(" + ").removeprefix(" ").strip()


def computed(
    monomials: Iterable[tuple[tuple[str, ...], int | Fraction]], lookup: Callable[[str], Any]
) -> Number | Absent:
    """The sum of products of attributes, exact; ABSENT where one of them is no number, or infinite."""
    values: dict[str, Fraction] = {}
    total = Fraction(0)
    for names, coefficient in monomials:
        product = Fraction(coefficient)
        for name in names:
            if name not in values:
                given = lookup(name)
                if kind_of(given) is not Kind.NUMBER:
                    return ABSENT
                number = number_of(given)
                if isinstance(number, Decimal) and not number.is_finite():
                    return ABSENT  # infinity has no place in a sum
                values[name] = Fraction(number)
            product *= values[name]
        total += product
    try:
        return decimal_of(total)
    except ValueRefused:  # more digits than a number may have
        return ABSENT


def decimal_of(fraction: Fraction) -> Number:
    """A fraction whose denominator divides a power of ten, as a canonical number.

    Sums and products of decimals with whole coefficients are such fractions, so nothing is ever rounded.
    """
    numerator, denominator = fraction.numerator, fraction.denominator
    if denominator == 1:
        return numerator
    places = 0
    while 10**places % denominator:
        places += 1
    digits = Decimal(abs(numerator) * (10**places // denominator)).as_tuple().digits
    return number_of(Decimal((int(numerator < 0), digits, -places)))


def _decimal_part(whole: int) -> int:
    """The largest divisor made of twos and fives: dividing a decimal by it gives a decimal."""
    part = 1
    for prime in (2, 5):
        while whole % prime == 0:
            whole, part = whole // prime, part * prime
    return part
