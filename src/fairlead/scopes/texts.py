"""Mappings over records of JSON text: whole arrays of texts, without an object for each.

    Rewriting.of(steps)        the steps that a kernel runs over texts; None where a step is not one of these
    rewriting.on(letters, …)   the mapped texts, and which rows are certain

Law: where a row is certain, its text is that of `fairlead.scopes.mappings.apply`, to the byte, and its mark is the
tag of that version. Where it is not (nested records, lists, names with dots, numbers beyond what a float is sure
of), `apply` decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.filters.terms import decimal_of
from fairlead.model import ABSENT, Instant
from fairlead.model.encoding import format_json
from fairlead.scopes import text_kernels as kernels
from fairlead.scopes.mappings import (
    Assign,
    Computed,
    Constant,
    Converted,
    Copied,
    Drop,
    Expression,
    Keep,
    Rename,
    Step,
)

__all__ = ["Letters", "Rewriting", "Rewritten", "Starts", "tag_texts"]

Letters = NDArray[np.uint8]
Starts = NDArray[np.int64]

_CONVERSIONS: Final = {
    "text": kernels.TEXT_OF,
    "number": kernels.NUMBER_OF,
    "boolean": kernels.BOOLEAN_OF,
    "time": kernels.TIME_OF,
}


class Rewritten(NamedTuple):
    """Texts after a mapping."""

    letters: Letters
    starts: Starts
    """The records as they are written."""
    plain_letters: Letters
    plain_starts: Starts
    """The same with plain decimals, for filters to look at."""
    marks: NDArray[np.uint64]
    """The tag of each content, as a number."""
    sure: NDArray[np.bool_]


class _NotText(Exception):
    """A step that no kernel runs."""


class _Pool:
    """The letters of a program."""

    def __init__(self) -> None:
        self.letters = bytearray()

    def add(self, text: str) -> tuple[int, int]:
        begin = kernels.POOL + len(self.letters)
        self.letters += text.encode()
        return begin, kernels.POOL + len(self.letters)

    def name(self, name: str) -> tuple[int, int]:
        if (
            not name.isascii()
            or "." in name
            or name == "tuple"
            or name.startswith("$")
            or not name.isprintable()
        ):
            raise _NotText
        if format_json(name) != f'"{name}"':
            raise _NotText
        return self.add(name)


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Steps that a kernel runs over texts."""

    program: NDArray[np.int64]
    letters: bytes

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Rewriting | None:
        """The program of steps; None where one of them is not for a kernel."""
        pool, rows = _Pool(), [[0] * kernels.WIDTH for _ in range(0)]
        try:
            for step in steps:
                rows += ([*row, *[0] * (kernels.WIDTH - len(row))] for row in _compiled(step, pool))
        except _NotText:
            return None
        program = np.array(rows, np.int64).reshape(-1, kernels.WIDTH)
        return cls(program, bytes(pool.letters))

    def on(self, letters: Letters, starts: Starts) -> Rewritten:
        """The texts after these steps."""
        rows = len(starts) - 1
        pool = np.zeros(len(self.letters) + kernels.SCRATCH, np.uint8)
        pool[: len(self.letters)] = np.frombuffer(self.letters, np.uint8)
        longest = int(np.diff(starts).max(initial=0))
        room = len(letters) + len(letters) // 2 + rows * (len(self.letters) + 64)
        canonical = np.empty(64 + 8 * longest + 64 * kernels.FIELDS + len(pool), np.uint8)
        fields = np.empty((2, kernels.FIELDS, 5), np.int64)
        while True:
            made = Rewritten(
                np.empty(room, np.uint8),
                np.zeros(rows + 1, np.int64),
                np.empty(room, np.uint8),
                np.zeros(rows + 1, np.int64),
                np.zeros(rows, np.uint64),
                np.zeros(rows, np.bool_),
            )
            done = kernels.rewrite(
                letters,
                starts,
                pool,
                len(self.letters),
                self.program,
                made.letters,
                made.starts,
                made.plain_letters,
                made.plain_starts,
                made.marks,
                made.sure,
                fields[0],
                fields[1],
                np.empty(kernels.FIELDS, np.int64),
                np.empty(40, np.uint64),
                canonical,
            )
            if done == rows:
                return made
            room = 2 * room + 1024
            canonical = np.empty(2 * len(canonical), np.uint8)


def _compiled(step: Step, pool: _Pool) -> Iterable[list[int]]:
    match step:
        case Drop(name):
            return [[kernels.DROP, *pool.name(name)]]
        case Rename(old, new):
            return [[kernels.RENAME, *pool.name(new), *pool.name(old)]]
        case Keep(names):
            return [[kernels.KEEP], *([kernels.KEPT, *pool.name(name)] for name in names)]
        case Assign(name, expression):
            return _assigned(pool.name(name), expression, pool)
    raise _NotText


def _assigned(name: tuple[int, int], expression: Expression, pool: _Pool) -> list[list[int]]:
    match expression:
        case Constant(value):
            if value is ABSENT:
                return [[kernels.DROP, *name]]
            text, form = _constant(value)
            return [[kernels.ASSIGN, *name, *pool.add(text), form]]
        case Copied(other):
            return [[kernels.COPY, *name, *pool.name(other)]]
        case Converted(kind, other):
            return [[_CONVERSIONS[kind], *name, *pool.name(other)]]
        case Computed(monomials):
            rows = [[kernels.COMPUTE, *name]]
            for names, coefficient in monomials:
                rows.append([kernels.MONOMIAL, *_mantissa(coefficient)])
                rows += ([kernels.FACTOR, *pool.name(each)] for each in names)
            return rows
    raise _NotText


def _constant(value: Any) -> tuple[str, int]:
    """The letters of a value, and its form."""
    match value:
        case None:
            return "", kernels.NULL
        case bool():
            return "", kernels.TRUE if value else kernels.FALSE
        case str():
            return format_json(value)[1:-1], kernels.TEXT
        case int() if abs(value) < 10**17:
            return str(value), kernels.INT
        case Instant() if not str(value).endswith("us"):
            return str(value), kernels.INSTANT
        case Decimal() if value.is_finite() and "." in str(value) and "E" not in str(value):
            if len(str(value)) <= 17 and not str(value).endswith("0"):
                return str(value), kernels.DECIMAL
    raise _NotText


def _mantissa(coefficient: Fraction) -> tuple[int, int]:
    """A decimal as a whole number and its places."""
    exact = Decimal(decimal_of(coefficient))
    places = max(0, -int(exact.as_tuple().exponent))
    whole = int(exact.scaleb(places))
    if abs(whole) >= 10**15 or places > 15:
        raise _NotText
    return whole, places


def tag_texts(marks: NDArray[np.uint64]) -> list[str]:
    """The tags of contents, as deliveries have them."""
    digits = marks.astype("<u8").tobytes().hex()
    return [digits[at : at + 16] for at in range(0, len(digits), 16)]
