"""The loops that scan JSON text: compiled once per machine, like those of the columnar engine.

`scan` is sure of a text only where the standard library would read it and nothing in it has a meaning of its own
to `fairlead.model.encoding`. Every doubt ends the row: the exact reader decides.
"""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0915, PLR0917, PLR1714, SIM110  (what compiles to good code is flat, and has arrays for arguments)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from fairlead.kernels import kernel

__all__ = [
    "ABSENT",
    "ESCAPED",
    "FALSE",
    "FRACTION",
    "LIST",
    "LONG",
    "NULL",
    "RECORD",
    "STRING",
    "TAGGED",
    "TRUE",
    "WHOLE",
    "is_utf8",
    "is_word",
    "read_number",
    "read_string",
    "scan_row",
    "skip_space",
    "spelled_float",
]

ABSENT, STRING, WHOLE, FRACTION, LONG, TRUE, FALSE, LIST, RECORD, TAGGED, NULL, ESCAPED = range(12)
"""The kind of value that a row has under a name. A LONG fraction has more digits than a float is sure of; a
TAGGED value is a point; an ESCAPED string has a backslash in it."""

ROOT, NOBODY = -1, -2
DEPTH = 32
KEYS = 256
"""So many names may be open in the objects of a row at a time."""
POWERS = np.array([10.0**each for each in range(23)])
"""Those that are floats."""
DIGITS = 15
"""A whole number of so many digits divided by a power of ten of at most as many is rounded once, so rightly."""
WHOLE_DIGITS = 18
LARGEST = 10**17
"""A number that was read up to here is longer than any that a float stands for."""
LENGTH_MAX = 300


@kernel()
def skip_space(letters, at, end):
    while at < end and (letters[at] == 32 or letters[at] == 9 or letters[at] == 10 or letters[at] == 13):
        at += 1
    return at


@kernel()
def is_utf8(letters, at, end):
    """Whether letters are UTF-8: no form longer than it need be, no half of a pair, nothing beyond Unicode."""
    while at < end:
        first = letters[at]
        at += 1
        if first < 128:
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if at + more > end:
            return False
        second = letters[at]
        if (
            (first == 0xE0 and second < 0xA0)
            or (first == 0xED and second > 0x9F)
            or (first == 0xF0 and second < 0x90)
            or (first == 0xF4 and second > 0x8F)
        ):
            return False
        for _ in range(more):
            if letters[at] & 0xC0 != 0x80:
                return False
            at += 1
    return True


@kernel()
def read_string(letters, at, end):
    """Behind the string that begins with the quote at a place, and whether it has a backslash; -1 in doubt."""
    escaped = False
    at += 1
    while at < end:
        letter = letters[at]
        if letter == 34:
            return at + 1, escaped
        if letter < 32:
            return -1, escaped
        if letter == 92:
            escaped = True
            at += 1
            # \u may be half a character, and a doubt is cheaper than a look.
            if at >= end or not (
                letters[at] == 34
                or letters[at] == 92
                or letters[at] == 47
                or letters[at] == 98
                or letters[at] == 102
                or letters[at] == 110
                or letters[at] == 114
                or letters[at] == 116
            ):
                return -1, escaped
        at += 1
    return -1, escaped


@kernel()
def _divided(whole, places):
    """The float nearest to whole / 10 ** places, and how far that is from it; nan where two may be nearest."""
    power = POWERS[places]
    high = float(whole)
    first = high / power
    # What is left over, without rounding: the product of two floats is the sum of two (Dekker).
    product, one, other = first * power, first * 134217729.0, power * 134217729.0
    one_high, other_high = one - (one - first), other - (other - power)
    one_low, other_low = first - one_high, power - other_high
    low = (
        (one_high * other_high - product) + one_high * other_low + one_low * other_high
    ) + one_low * other_low
    second = (((high - product) - low) + float(whole - np.int64(high))) / power
    nearest = first + second
    rest = second - (nearest - first)
    if abs(rest) > 0.499 * (np.nextafter(nearest, np.inf) - nearest):
        return np.nan, rest
    return nearest, rest


@kernel()
def spelled_float(whole, decimals):
    """The float whose shortest spelling has these digits; nan where that is not sure."""
    if decimals >= len(POWERS) or whole >= 10**17 or whole % 10 == 0:
        return np.nan
    nearest, rest = _divided(whole, decimals)
    if not abs(rest) * POWERS[decimals] < 0.499:  # another spelling of this length may be nearer
        return np.nan
    for shorter in (whole // 10, whole // 10 + 1):
        other = _divided(shorter, decimals - 1)[0]
        if other == nearest or np.isnan(other):
            return np.nan
    return nearest


@kernel()
def read_number(letters, at, end):
    """Behind the number at a place, its kind, its digits as a whole number, how many stand behind the point."""
    first = at
    negative = letters[at] == 45
    if negative:
        at += 1
    begin = at
    whole = np.int64(0)
    while at < end and 48 <= letters[at] <= 57:
        if at - begin < WHOLE_DIGITS:
            whole = whole * 10 + (letters[at] - 48)
        at += 1
    count = at - begin
    if count == 0 or (letters[begin] == 48 and count > 1):
        return -1, 0, whole, 0
    kind, places = WHOLE, 0
    if at < end and letters[at] == 46:
        point = at
        at += 1
        while at < end and 48 <= letters[at] <= 57:
            if whole < LARGEST:
                whole = whole * 10 + (letters[at] - 48)
            at += 1
        places = at - point - 1
        if places == 0 or at - first > LENGTH_MAX:
            return -1, 0, whole, 0
        kind = FRACTION if count + places <= DIGITS else LONG
    elif count > WHOLE_DIGITS:
        return -1, 0, whole, 0
    if at < end and (letters[at] == 101 or letters[at] == 69):
        return -1, 0, whole, 0
    return at, kind, -whole if negative else whole, places


@kernel()
def is_word(letters, at, end, word):
    """Whether a word stands at a place."""
    if end - at < len(word):
        return False
    for step in range(len(word)):
        if letters[at + step] != word[step]:
            return False
    return True


@kernel()
def _point(letters, at, end):
    """Behind `$point":[1,2.5]}`, which begins at a place; -1 in doubt."""
    if not is_word(letters, at, end, _POINT):
        return -1
    at = skip_space(letters, at + len(_POINT), end)
    for mark in (58, 91):
        if at >= end or letters[at] != mark:
            return -1
        at = skip_space(letters, at + 1, end)
    for mark in (44, 93):
        if at >= end:
            return -1
        at = read_number(letters, at, end)[0]
        if at < 0:
            return -1
        at = skip_space(letters, at, end)
        if at >= end or letters[at] != mark:
            return -1
        at = skip_space(letters, at + 1, end)
    return at + 1 if at < end and letters[at] == 125 else -1


_POINT = np.frombuffer(b'$point"', np.uint8)
_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)
_NULL = np.frombuffer(b"null", np.uint8)


@kernel()
def _child(letters, begin, end, names, name_starts, parents, node):
    """The name among those wanted below a node; NOBODY where nobody wants it."""
    if node == NOBODY:
        return NOBODY
    length = end - begin
    for number in range(len(parents)):
        first = name_starts[number]
        if parents[number] != node or name_starts[number + 1] - first != length:
            continue
        step = 0
        while step < length and letters[begin + step] == names[first + step]:
            step += 1
        if step == length:
            return number
    return NOBODY


@kernel()
def scan_row(
    letters, at, end, names, name_starts, parents, kinds, begins, ends, numbers, open_hashes, open_at
):
    """Whether a row is sure; what it has under each name is put down."""
    # Of each open container: the node, whether it is an object, where its names begin, whether it has a member.
    at = skip_space(letters, at, end)
    if at >= end or letters[at] != 123:
        return False
    depth, known = 0, 0
    open_at[0, 0], open_at[0, 1], open_at[0, 2], open_at[0, 3] = ROOT, 1, 0, 0
    at += 1
    while depth >= 0:
        at = skip_space(letters, at, end)
        if at >= end:
            return False
        node, is_object = open_at[depth, 0], open_at[depth, 1]
        if letters[at] == (125 if is_object else 93):
            at += 1
            if node >= 0:
                ends[node] = at
            known = open_at[depth, 2]
            depth -= 1
            continue
        if open_at[depth, 3]:
            if letters[at] != 44:
                return False
            at = skip_space(letters, at + 1, end)
            if at >= end:
                return False
        first_member = not open_at[depth, 3]
        open_at[depth, 3] = 1
        target = NOBODY
        if is_object:
            if letters[at] != 34:
                return False
            begin = at + 1
            if begin < end and letters[begin] == 36:
                # A tag: a value of a kind of its own. Of these, points are known.
                at = _point(letters, begin, end) if first_member and depth else -1
                if at < 0:
                    return False
                if node >= 0:
                    kinds[node] = TAGGED
                known = open_at[depth, 2]
                depth -= 1
                continue
            at, escaped = read_string(letters, at, end)
            if at < 0 or escaped or at - 1 == begin or known >= KEYS:
                return False
            mark = np.uint64(14695981039346656037)
            for step in range(begin, at - 1):
                if letters[step] == 46:
                    return False
                mark = (mark ^ np.uint64(letters[step])) * np.uint64(1099511628211)
            for other in range(open_at[depth, 2], known):
                if open_hashes[other] == mark:
                    return False
            open_hashes[known] = mark
            known += 1
            target = _child(letters, begin, at - 1, names, name_starts, parents, node)
            at = skip_space(letters, at, end)
            if at >= end or letters[at] != 58:
                return False
            at = skip_space(letters, at + 1, end)
            if at >= end:
                return False
        letter = letters[at]
        if letter == 34:
            begin = at + 1
            at, escaped = read_string(letters, at, end)
            if at < 0 or (escaped and not is_object and node >= 0):
                return False
            if target >= 0:
                kinds[target] = ESCAPED if escaped else STRING
                begins[target], ends[target] = begin, at - 1
            continue
        if not is_object and node >= 0:
            return False  # a list that somebody wants has something else than strings
        if letter == 123 or letter == 91:
            if depth + 1 >= DEPTH:
                return False
            if target >= 0:
                kinds[target] = RECORD if letter == 123 else LIST
                begins[target] = at
            depth += 1
            open_at[depth, 0], open_at[depth, 1] = target, letter == 123
            open_at[depth, 2], open_at[depth, 3] = known, 0
            at += 1
        elif letter == 45 or 48 <= letter <= 57:
            begin = at
            at, kind, whole, places = read_number(letters, at, end)
            if at < 0:
                return False
            if target >= 0:
                number = whole / 10.0**places
                if kind == LONG:
                    spelled = spelled_float(abs(whole), places)
                    if not np.isnan(spelled):
                        kind, number = FRACTION, -spelled if whole < 0 else spelled
                kinds[target] = kind
                begins[target], ends[target] = (whole, 0) if kind == WHOLE else (begin, at)
                numbers[target] = number
        elif is_word(letters, at, end, _TRUE):
            at += 4
            if target >= 0:
                kinds[target] = TRUE
        elif is_word(letters, at, end, _FALSE):
            at += 5
            if target >= 0:
                kinds[target] = FALSE
        elif is_word(letters, at, end, _NULL):
            at += 4
            if target >= 0:
                kinds[target] = NULL
        else:
            return False
    return skip_space(letters, at, end) == end


@kernel(
    "void(uint8[::1], int64[::1], uint8[::1], int32[::1], int32[::1], uint8[:, ::1], int64[:, ::1], "
    "int64[:, ::1], float64[:, ::1], boolean[::1], uint64[::1], int64[:, ::1])"
)
def scan(
    letters, starts, names, name_starts, parents, kinds, begins, ends, numbers, sure, open_hashes, open_at
):
    """The values of each text under each name, and whether they are certain; the last two are scratch space."""
    for row in range(len(starts) - 1):
        sure[row] = scan_row(
            letters,
            starts[row],
            starts[row + 1],
            names,
            name_starts,
            parents,
            kinds[row],
            begins[row],
            ends[row],
            numbers[row],
            open_hashes,
            open_at,
        ) and is_utf8(letters, starts[row], starts[row + 1])


@kernel("void(uint8[::1], int64[::1], int64[::1], int64[::1], uint8[::1])")
def copy_slices(letters, begins, ends, to, copied):
    """Copy slices of letters, one behind the other: slice n goes to position `to[n]`."""
    for row in range(len(begins)):
        target = to[row]
        for at in range(begins[row], ends[row]):
            copied[target] = letters[at]
            target += 1


@kernel("void(uint8[::1], int64[::1], int64[::1], int64[::1])")
def count_strings(letters, begins, ends, counts):
    """The number of strings in each list; a list has nothing else, and no backslashes."""
    for row in range(len(begins)):
        quotes = 0
        for at in range(begins[row], ends[row]):
            quotes += letters[at] == 34
        counts[row] = quotes // 2


@kernel("void(uint8[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def find_strings(letters, begins, ends, string_begins, string_ends):
    """The beginnings and ends of the strings of lists, list by list."""
    number = 0
    for row in range(len(begins)):
        within = False
        for at in range(begins[row], ends[row]):
            if letters[at] == 34:
                if within:
                    string_ends[number] = at
                    number += 1
                else:
                    string_begins[number] = at + 1
                within = not within
