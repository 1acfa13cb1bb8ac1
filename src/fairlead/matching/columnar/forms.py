"""Many filters as text: what differs between texts of one form is read as columns, and nothing is parsed twice.

    form         a text with "" for every plain string and 0 for every plain number in it
    literals     what stood there

Law: a text that is read by its form has the program that `program_of(parse(text))` has.

The form is parsed once, with marks for literals: strings and numbers that occur nowhere else. Where every mark
turns up exactly once in the program, as a value or as a bound of a range, another literal would turn up in its
position: only the order of bounds, the empty string and the precision of a number decide about the shape of a
conjunction. These are checked for each text. All others, and texts of rare forms, are parsed one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import inf, nextafter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.errors import FairleadError
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Attribute
from fairlead.matching.columnar.compile import EQ, KIND, NUMBER, RANGE, SYMBOL, Predicate, Program, program_of
from fairlead.matching.columnar.table import Ledger

__all__ = ["Conjunction", "FormLiteral", "ledger_of"]

FEW: Final = 16
"""Texts of a form that has fewer are parsed one by one."""
LENGTH_MAX: Final = 10_000
CHUNK: Final = 1 << 18
"""So many texts are looked at together."""
_STRING: Final = r'"[ !#-\[\]-~]*"'
_NUMBER: Final = r"\b[0-9]+(?:\.[0-9]+)?"
_SHORT_NUMBER: Final = r"[0-9]{1,20}(?:\.[0-9]{1,20})?"
_LITERAL: Final = re.compile(r'""|\b0\b')
_FIRST_MARK: Final = 1_000_003
_PLAIN_DIGITS: Final = 15
"""A decimal of so many digits is what its float stands for."""


class Bound(NamedTuple):
    """A bound of a range, or a number: a literal with its sign, or the same for all texts."""

    literal: int | None
    sign: float
    constant: float = 0.0


class FormLiteral(NamedTuple):
    """A literal of a form's program, and what differs in it from text to text."""

    predicate: Predicate
    negative: bool
    values: tuple[Bound, ...]


class Conjunction(NamedTuple):
    """Texts of one form: which they are, their program, and the columns of their literals."""

    rows: NDArray[np.int64]
    literals: tuple[FormLiteral, ...]
    columns: tuple[Any, ...]
    """A dictionary array of strings, or an array of floats."""

    def numbers(self, bound: Bound) -> NDArray[np.float64]:
        """The bound in each of the texts, as a number."""
        return _numbers(bound, self.columns, len(self.rows))


def ledger_of(texts: pa.Array, schema: Schema | None, read: Callable[[int], Filter | None]) -> Ledger:
    """The programs of texts, in their order; `read` reads the text in a row, and one at least of each form."""
    ledger = Ledger()
    ledger.order = np.full(len(texts), -1, np.int64)
    for start in range(0, len(texts), CHUNK):
        part, order = texts[start : start + CHUNK], ledger.order[start : start + CHUNK]
        for found in _conjunctions(part, schema):
            read(start + int(found.rows[0]))
            order[found.rows] = len(ledger) + np.arange(len(found.rows))
            ledger.add_form(found)
        for row in np.flatnonzero(order < 0).tolist():
            if (filter := read(start + row)) is not None:
                order[row] = len(ledger)
                ledger.add(program_of(filter))
    return ledger


def _conjunctions(texts: pa.Array, schema: Schema | None) -> Iterator[Conjunction]:
    """The texts that can be read by their forms, form by form; the others are left out."""
    forms = pc.replace_substring_regex(texts, _STRING, '""')
    forms = pc.replace_substring_regex(forms, _NUMBER, "0").dictionary_encode()
    codes = forms.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(forms.dictionary) + 1))
    for code, form in enumerate(forms.dictionary.to_pylist()):
        rows = order[starts[code] : starts[code + 1]]
        if len(rows) < FEW or len(form) > LENGTH_MAX:
            continue
        literals = _literals(form, schema)
        if literals is not None:
            sure, columns = _columns(form, literals, texts.take(pa.array(rows)))
            if sure.any():
                yield Conjunction(rows[sure], literals, columns)


# -- the form ----------------------------------------------------------------------------------------------


def _literals(form: str, schema: Schema | None) -> tuple[FormLiteral, ...] | None:
    """The program of a form, by the positions of its literals; None where these cannot be told."""
    marks: dict[Any, int] = {}

    def mark(found: re.Match[str]) -> str:
        number = _FIRST_MARK + 7 * len(marks)
        marks[float(number) if found[0] == "0" else f"mark {number}"] = len(marks)
        return str(number) if found[0] == "0" else f'"mark {number}"'

    text = _LITERAL.sub(mark, form)
    try:
        program = program_of(parse(text, schema))
    except FairleadError:
        return None
    literals = _marked(program, marks)
    if literals is None:
        return None
    positions = [each.literal for literal in literals for each in literal.values if each.literal is not None]
    return literals if sorted(positions) == list(range(len(marks))) else None


def _marked(program: Program, marks: dict[Any, int]) -> tuple[FormLiteral, ...] | None:
    if program.jumps is not None or program.opaque or program.never:
        return None
    found = []
    for predicate, negative in program.literals:
        values: tuple[Bound, ...] = ()
        content = predicate.content
        if not isinstance(predicate.term, Attribute):
            return None
        if predicate.sort in (EQ, SYMBOL):
            values = (_bound(content[1], marks),)
        elif predicate.sort == RANGE and content[0] == NUMBER:
            low_open, high_open = predicate.opened
            low = nextafter(content[1], -inf) if low_open else content[1]
            high = nextafter(content[2], inf) if high_open else content[2]
            values = (_bound(low, marks), _bound(high, marks))
        elif predicate.sort != KIND:
            return None
        found.append(FormLiteral(predicate, negative, values))
    return tuple(found)


def _bound(content: Any, marks: dict[Any, int]) -> Bound:
    if type(content) is float:
        sign = -1.0 if content < 0 else 1.0
        return Bound(marks.get(abs(content)), sign, content)
    return Bound(marks.get(content) if type(content) is str else None, 1.0)


# -- its texts ---------------------------------------------------------------------------------------------


def _columns(
    form: str, literals: tuple[FormLiteral, ...], texts: pa.Array
) -> tuple[NDArray[np.bool_], tuple[Any, ...]]:
    """The texts that have the program of the form, as a mask, and the columns of their literals."""
    kinds: list[bool] = []

    def group(found: re.Match[str]) -> str:
        is_number = found[0] == "0"
        kinds.append(is_number)
        name = f"l{len(kinds) - 1}"
        return f"(?P<{name}>{_SHORT_NUMBER})" if is_number else f'"(?P<{name}>{_STRING[1:-1]})"'

    pieces = []
    end = 0
    for found in _LITERAL.finditer(form):
        pieces += [re.escape(form[end : found.start()]), group(found)]
        end = found.end()
    pattern = "".join([*pieces, re.escape(form[end:])])
    if not kinds:
        return np.ones(len(texts), np.bool_), ()
    extracted = pc.extract_regex(texts, f"^{pattern}$")
    sure = extracted.is_valid().to_numpy(zero_copy_only=False)
    columns: list[Any] = []
    for number, is_number in enumerate(kinds):
        written = pc.struct_field(extracted, number).fill_null("0")
        if is_number:
            values = pc.cast(written, pa.float64())
            plain = pc.less_equal(pc.binary_length(written), _PLAIN_DIGITS)
            exact = pc.or_(plain, pc.equal(pc.cast(values, pa.string()), written))
            sure &= exact.to_numpy(zero_copy_only=False)
            columns.append(values.to_numpy())
        else:
            sure &= pc.greater(pc.binary_length(written), 0).to_numpy(zero_copy_only=False)
            columns.append(written)
    for literal in literals:
        if literal.predicate.sort == RANGE:
            low, high = (_numbers(each, columns, len(texts)) for each in literal.values)
            sure &= low < high
    kept = pa.array(sure)
    return sure, tuple(
        each[sure] if isinstance(each, np.ndarray) else each.filter(kept).dictionary_encode()
        for each in columns
    )


def _numbers(bound: Bound, columns: Any, count: int) -> NDArray[np.float64]:
    """The numbers of a bound."""
    if bound.literal is None:
        return np.full(count, bound.constant)
    found: NDArray[np.float64] = bound.sign * columns[bound.literal] + 0.0  # there is one zero
    return found
