"""A JSON text as a row, matched at once: no object is made of it, nor of anything in it.

What the kernel is not sure to read as `fairlead.ingest` does, it does not read (see `model.json_kernels`).
"""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0917  (what compiles to good code is flat, and has arrays for arguments)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from fairlead.kernels import kernel
from fairlead.matching.columnar.compile import NUMBER, STRING
from fairlead.matching.columnar.kernels.hashing import rolled
from fairlead.matching.columnar.kernels.matching import match_row
from fairlead.matching.columnar.kernels.sections import (
    Collector,
    Rows,
    access_of,
    entries_of,
    patterns_of,
    symbols_of,
    texts_of,
)
from fairlead.matching.columnar.kernels.symbols import find_symbol
from fairlead.model import json_kernels as scanned
from fairlead.model.json_kernels import is_utf8, scan_row
from fairlead.model.values import RANK, Kind

__all__ = ["ARRAYS", "CHECKS", "match_text"]

ABSENT, TEXT, ESCAPED = scanned.ABSENT, scanned.STRING, scanned.ESCAPED
WHOLE, FRACTION, TRUE, FALSE = scanned.WHOLE, scanned.FRACTION, scanned.TRUE, scanned.FALSE
NULL, RECORD = scanned.NULL, scanned.RECORD
_NULL, _BOOLEAN, _RECORD = RANK[Kind.NULL], RANK[Kind.BOOLEAN], RANK[Kind.RECORD]
_EXACT = 2**53
UNSURE = np.int64(-2)

CHECKS = ("specversion", "tuple", "id", "producer", "sequence", "time")
"""The names at the top that mean something to a reader of notifications, whether or not filters ask about them."""
_SPECVERSION, _TUPLE, _ID, _PRODUCER, _SEQUENCE, _TIME = range(6)
_LONG_MONTHS = (1, 3, 5, 7, 8, 10, 12)

ARRAYS = (
    "directory",
    "ints",
    "reals",
    "pool",
    "died",
    "states",
    "coordinates",
    "text_start",
    "text",
    "stamps",
    "scratch",
    "out",
    "counters",
    "names",
    "name_starts",
    "parents",
    "targets",
    "kinds",
    "begins",
    "ends",
    "numbers",
    "open_hashes",
    "open_at",
    "number",
    "number_bytes",
)
"""The arrays whose addresses and lengths the kernel gets, behind the version and the number of texts of a row.

`targets` has, for each name that is wanted, the column of it and the slot of its text; -1 is none.
"""
_TOLD = 2 + 2 * len(ARRAYS)


def _pointer(type):
    """The intrinsic that makes a pointer of an address."""

    @intrinsic
    def pointer(typing, address):
        def made(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(type)(types.int64), made

    return pointer


_ints, _longs, _hashes = _pointer(types.int32), _pointer(types.int64), _pointer(types.uint64)
_reals, _bytes = _pointer(types.float64), _pointer(types.uint8)


@kernel(inline=True)
def digits(letters, at, count):
    """The number that some digits make; -1 where they are none."""
    whole = np.int64(0)
    for each in range(at, at + count):
        if not 48 <= letters[each] <= 57:
            return np.int64(-1)
        whole = whole * 10 + (letters[each] - 48)
    return whole


@kernel(inline=True)
def is_time(letters, begin, end):
    """Whether a text is an instant in the common form: 2026-03-02T09:00:00.5Z."""
    length = end - begin
    if length < 20 or length == 21 or length > 27 or letters[end - 1] != 90:
        return False
    if letters[begin + 4] != 45 or letters[begin + 7] != 45 or letters[begin + 10] != 84:
        return False
    if letters[begin + 13] != 58 or letters[begin + 16] != 58:
        return False
    if length > 20 and (letters[begin + 19] != 46 or digits(letters, begin + 20, length - 21) < 0):
        return False
    month, day = digits(letters, begin + 5, 2), digits(letters, begin + 8, 2)
    if not (1_000 <= digits(letters, begin, 4) < 3_000 and 1 <= month <= 12 and 1 <= day <= 31):
        return False
    if day > 28 and (month == 2 or (day == 31 and month not in _LONG_MONTHS)):
        return False
    hour, minute, second = (
        digits(letters, begin + 11, 2),
        digits(letters, begin + 14, 2),
        digits(letters, begin + 17, 2),
    )
    return 0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60


@kernel(inline=True)
def has_plain_envelope(letters, kinds, begins, ends):
    """Whether a reader of notifications takes the envelope as it is."""
    if kinds[_SPECVERSION] != ABSENT or kinds[_TUPLE] != ABSENT:
        return False
    if not (kinds[_ID] == ABSENT or kinds[_ID] == TEXT or kinds[_ID] == WHOLE):
        return False
    if not (kinds[_PRODUCER] == ABSENT or (kinds[_PRODUCER] == TEXT and ends[_PRODUCER] > begins[_PRODUCER])):
        return False
    if kinds[_ID] == TEXT and ends[_ID] == begins[_ID]:
        return False
    if not (kinds[_SEQUENCE] == ABSENT or (kinds[_SEQUENCE] == WHOLE and begins[_SEQUENCE] >= 0)):
        return False
    return kinds[_TIME] == ABSENT or (kinds[_TIME] == TEXT and is_time(letters, begins[_TIME], ends[_TIME]))


@kernel(inline=True)
def number_symbol(symbols, column, sort, value, number, number_bytes):
    """The symbol of a value that is in the pool as a float."""
    number[0] = value + 0.0
    return find_symbol(symbols, rolled(number_bytes, 0, 8), column, sort, number_bytes, 0, 8)


@kernel(inline=True)
def put_row(
    letters,
    targets,
    kinds,
    begins,
    ends,
    numbers,
    symbols,
    states,
    coordinates,
    text_start,
    text,
    number,
    bits,
):
    """Write the values under the names into the row. False if that is impossible."""
    width = states.shape[1] // 2
    used = np.int64(0)
    for name in range(len(kinds)):
        column, slot = targets[2 * name], targets[2 * name + 1]
        kind = kinds[name]
        if slot >= 0:  # slots ascend along the names
            if kind == TEXT:
                if used + ends[name] - begins[name] > len(text):
                    return False
                for at in range(begins[name], ends[name]):
                    text[used] = letters[at]
                    used += 1
            text_start[slot + 1] = used
        if column < 0 or kind == ABSENT:
            continue
        if kind == TEXT:
            begin, end = begins[name], ends[name]
            states[0, column] = STRING
            h = rolled(letters, begin, end)
            states[0, width + column] = find_symbol(symbols, h, column, STRING, letters, begin, end - begin)
        elif kind in (WHOLE, FRACTION):
            value = numbers[name]
            if kind == WHOLE and not -_EXACT <= begins[name] <= _EXACT:
                return False
            states[0, column] = NUMBER
            coordinates[0, column] = value
            states[0, width + column] = number_symbol(symbols, column, NUMBER, value, number, bits)
        elif kind in (TRUE, FALSE):
            states[0, column] = _BOOLEAN
            value = 1.0 if kind == TRUE else 0.0
            states[0, width + column] = number_symbol(symbols, column, _BOOLEAN, value, number, bits)
        elif kind == NULL:
            states[0, column] = _NULL
            h = rolled(letters, 0, 0)
            states[0, width + column] = find_symbol(symbols, h, column, _NULL, letters, 0, 0)
        elif kind == RECORD:
            states[0, column] = _RECORD
        else:
            return False
    return True


@kernel(types.int64(types.CPointer(types.int64), types.CPointer(types.uint8), types.int32), by_address=True)
def match_text(context, text_of, given_length):
    """Match a JSON text: how many ordinals of filters are in `out`, FULL, or UNSURE."""
    arguments = carray(context, (_TOLD,))
    length = given_length + 0  # as wide as places in the text
    letters = carray(text_of, (length,))
    directory, ints = (
        carray(_longs(arguments[2]), (arguments[3],)),
        carray(_ints(arguments[4]), (arguments[5],)),
    )
    reals, pool = carray(_reals(arguments[6]), (arguments[7],)), carray(_bytes(arguments[8]), (arguments[9],))
    died = carray(_longs(arguments[10]), (arguments[11],))
    states = carray(_ints(arguments[12]), (1, arguments[13]))
    coordinates = carray(_reals(arguments[14]), (1, arguments[15]))
    text_start, text = (
        carray(_ints(arguments[16]), (arguments[17],)),
        carray(_bytes(arguments[18]), (arguments[19],)),
    )
    stamps, scratch = (
        carray(_ints(arguments[20]), (arguments[21],)),
        carray(_ints(arguments[22]), (arguments[23],)),
    )
    out, counters = (
        carray(_ints(arguments[24]), (arguments[25],)),
        carray(_longs(arguments[26]), (arguments[27],)),
    )
    names, name_starts = (
        carray(_bytes(arguments[28]), (arguments[29],)),
        carray(_ints(arguments[30]), (arguments[31],)),
    )
    parents, targets = (
        carray(_ints(arguments[32]), (arguments[33],)),
        carray(_ints(arguments[34]), (arguments[35],)),
    )
    kinds, begins = (
        carray(_bytes(arguments[36]), (arguments[37],)),
        carray(_longs(arguments[38]), (arguments[39],)),
    )
    ends, numbers = (
        carray(_longs(arguments[40]), (arguments[41],)),
        carray(_reals(arguments[42]), (arguments[43],)),
    )
    open_hashes = carray(_hashes(arguments[44]), (arguments[45],))
    open_at = carray(_longs(arguments[46]), (arguments[47] // 4, 4))
    number, bits = (
        carray(_reals(arguments[48]), (arguments[49],)),
        carray(_bytes(arguments[50]), (arguments[51],)),
    )
    kinds[:] = ABSENT
    if not is_utf8(letters, 0, length) or not scan_row(
        letters, 0, length, names, name_starts, parents, kinds, begins, ends, numbers, open_hashes, open_at
    ):
        return UNSURE
    if not has_plain_envelope(letters, kinds, begins, ends):
        return UNSURE
    symbols = symbols_of(directory, ints, pool)
    width = states.shape[1] // 2
    states[0, :width] = 0
    states[0, width:] = -1
    if not put_row(
        letters,
        targets,
        kinds,
        begins,
        ends,
        numbers,
        symbols,
        states,
        coordinates,
        text_start,
        text,
        number,
        bits,
    ):
        return UNSURE
    access, entries = access_of(directory, ints, reals), entries_of(directory, ints, reals)
    no_extras = carray(_ints(arguments[22]), (0, 2))
    rows = Rows(states, coordinates, scratch[:2], no_extras, text_start, text)
    marks, stack = scratch[2 : 2 + width], scratch[2 + width :]
    scratch[0] = scratch[1] = 0
    collector = Collector(
        died, arguments[0], scratch[:0], stamps, len(symbols.columns), out, counters, counters[:0]
    )
    texts, patterns = texts_of(directory, ints), patterns_of(directory, ints, pool)
    counters[1] = 0
    none = np.int64(0)
    count = match_row(none, rows, symbols, texts, access, entries, patterns, collector, marks, stack, none)
    return UNSURE if counters[1] > 0 else count
