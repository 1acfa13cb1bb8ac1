"""The loops that map records of JSON text: a program of steps over the fields of each text.

`rewrite` is sure of a text only where it knows every field of it in the form in which `fairlead.model.encoding`
would write it again: flat, with plain names, and with values that have one spelling. Every doubt leaves the row to
`fairlead.scopes.mappings.apply`.
"""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0915, PLR0917, PLR1714, SIM109  (what compiles to good code is flat)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from fairlead.kernels import kernel
from fairlead.model.json_kernels import (
    LONG,
    WHOLE,
    is_utf8,
    is_word,
    read_number,
    read_string,
    skip_space,
    spelled_float,
)

__all__ = [
    "ASSIGN",
    "BOOLEAN_OF",
    "COMPUTE",
    "COPY",
    "DECIMAL",
    "DROP",
    "FACTOR",
    "FALSE",
    "FLOAT",
    "INSTANT",
    "INT",
    "KEEP",
    "KEPT",
    "MONOMIAL",
    "NULL",
    "NUMBER_OF",
    "POOL",
    "RENAME",
    "TEXT",
    "TEXT_OF",
    "TIME_OF",
    "TRUE",
    "WHOLE_FLOAT",
    "WIDTH",
    "rewrite",
]

TEXT, INT, FLOAT, WHOLE_FLOAT, DECIMAL, TRUE, FALSE, NULL, INSTANT = range(9)
"""The form of a value. The letters of a TEXT stand between its quotes, those of a WHOLE_FLOAT before its point."""
DROP, RENAME, ASSIGN, COPY, KEEP, KEPT, COMPUTE, MONOMIAL, FACTOR = range(9)
TEXT_OF, NUMBER_OF, BOOLEAN_OF, TIME_OF = range(9, 13)
WIDTH = 7
"""A step: what it is, a name, another name or value, a form or number, a further number."""
POOL = 1 << 40
"""Letters from here on are those of the program; below, those of the texts."""
FIELDS = 128
SCRATCH = 4096
"""So many letters of a row may be computed."""
LIMBS, BASE = 3, 10**9
"""Computed numbers have at most 27 digits: no more than decimals of the standard library keep without rounding."""
POWERS = 10 ** np.arange(9, dtype=np.int64)
LAST_US = 253_402_300_800_000_000
"""The end of the year 9999, in microseconds."""

_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)
_NULL = np.frombuffer(b"null", np.uint8)
_TIME = np.frombuffer(b"time", np.uint8)
_TUPLE = np.frombuffer(b"tuple", np.uint8)
_ID = np.frombuffer(b"id", np.uint8)
_CAUSE = np.frombuffer(b"cause", np.uint8)
_PRODUCER = np.frombuffer(b"producer", np.uint8)
_SEQUENCE = np.frombuffer(b"sequence", np.uint8)
_DECIMAL_TAG = np.frombuffer(b'{"$decimal":"', np.uint8)
_TIME_TAG = np.frombuffer(b'{"$time":"', np.uint8)
_TAG_END = np.frombuffer(b'"}', np.uint8)
_POINT_ZERO = np.frombuffer(b".0", np.uint8)


@kernel()
def _is(letters, begin, end, word):
    return end - begin == len(word) and is_word(letters, begin, end, word)


@kernel()
def _digits(letters, at, count):
    found = 0
    for step in range(at, at + count):
        if letters[step] < 48 or letters[step] > 57:
            return -1
        found = found * 10 + letters[step] - 48
    return found


@kernel()
def _is_instant(letters, begin, end):
    """Whether letters are a time as it is written: 2026-01-31T12:00:00Z, or with six places of seconds."""
    if (end - begin != 20 and end - begin != 27) or letters[end - 1] != 90:
        return False
    if letters[begin + 4] != 45 or letters[begin + 7] != 45 or letters[begin + 10] != 84:
        return False
    if letters[begin + 13] != 58 or letters[begin + 16] != 58:
        return False
    if end - begin == 27 and (letters[begin + 19] != 46 or _digits(letters, begin + 20, 6) <= 0):
        return False
    year, month, day = (
        _digits(letters, begin, 4),
        _digits(letters, begin + 5, 2),
        _digits(letters, begin + 8, 2),
    )
    hour, minute, second = (
        _digits(letters, begin + 11, 2),
        _digits(letters, begin + 14, 2),
        _digits(letters, begin + 17, 2),
    )
    if year < 1000 or month < 1 or month > 12 or day < 1:
        return False
    days = 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31
    if month == 2:
        days = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return day <= days and 0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 59


@kernel()
def _number_form(letters, begin, end):
    """The form of the number from a place to another, and where its letters end; -1 in doubt."""
    at, kind, whole, places = read_number(letters, begin, end)
    if at != end:
        return -1, end
    negative = letters[begin] == 45
    if kind == WHOLE:
        return (-1, end) if negative and whole == 0 else (INT, end)
    if negative:
        whole = -whole
    if whole == 0 or places > 18:
        return -1, end
    if kind == LONG and np.isnan(spelled_float(whole, places)):
        return -1, end
    limit = np.int64(1)
    for _ in range(places):
        limit *= 10
    if whole < limit // 10_000:  # spelled with an exponent
        return -1, end
    while letters[end - 1] == 48:
        end -= 1
    return (WHOLE_FLOAT, end - 1) if letters[end - 1] == 46 else (FLOAT, end)


@kernel()
def _decimal_form(letters, begin, end):
    """Whether letters are a decimal as it is written, with places and without a zero at its end."""
    at = begin + (begin < end and letters[begin] == 45)
    first, point = at, -1
    for step in range(at, end):
        if letters[step] == 46:
            if point >= 0:
                return False
            point = step
        elif letters[step] < 48 or letters[step] > 57:
            return False
    if point <= first or point == end - 1 or end - first - 1 > 9 * LIMBS or letters[end - 1] == 48:
        return False
    if letters[first] != 48:
        return True
    if point != first + 1:
        return False
    zeros = 0
    while letters[point + 1 + zeros] == 48:
        zeros += 1
    return zeros <= 5  # else spelled with an exponent


@kernel()
def _read(letters, at, end, fields):
    """The number of fields of a text, which are put down; -1 in doubt."""
    at = skip_space(letters, at, end)
    if at >= end or letters[at] != 123:
        return -1
    at += 1
    count = 0
    while True:
        at = skip_space(letters, at, end)
        if at >= end:
            return -1
        if letters[at] == 125:
            return count if skip_space(letters, at + 1, end) == end else -1
        if count:
            if letters[at] != 44:
                return -1
            at = skip_space(letters, at + 1, end)
        if at >= end or letters[at] != 34 or count >= FIELDS:
            return -1
        begin = at + 1
        at, escaped = read_string(letters, at, end)
        if at < 0 or escaped or at - 1 == begin or letters[begin] == 36:
            return -1
        for step in range(begin, at - 1):
            if letters[step] == 46 or letters[step] >= 127:
                return -1
        key_end = at - 1
        for other in range(count):
            first = fields[other, 0]
            if fields[other, 1] - first == key_end - begin:
                step = 0
                while step < key_end - begin and letters[first + step] == letters[begin + step]:
                    step += 1
                if step == key_end - begin:
                    return -1
        fields[count, 0], fields[count, 1] = begin, key_end
        at = skip_space(letters, at, end)
        if at >= end or letters[at] != 58:
            return -1
        at = skip_space(letters, at + 1, end)
        if at >= end:
            return -1
        letter = letters[at]
        if letter == 34:
            first = at + 1
            at, escaped = read_string(letters, at, end)
            if at < 0:
                return -1
            if escaped:
                for step in range(first, at - 2):
                    if letters[step] == 92 and letters[step + 1] == 47:  # a slash needs no backslash
                        return -1
            fields[count, 2], fields[count, 3], fields[count, 4] = first, at - 1, TEXT
            if _is(letters, begin, key_end, _TIME):
                if not _is_instant(letters, first, at - 1):
                    return -1
                fields[count, 4] = INSTANT
            elif _is(letters, begin, key_end, _SEQUENCE):
                return -1
        elif letter == 123:
            if is_word(letters, at, end, _DECIMAL_TAG):
                first, form = at + len(_DECIMAL_TAG), DECIMAL
            elif is_word(letters, at, end, _TIME_TAG):
                first, form = at + len(_TIME_TAG), INSTANT
            else:
                return -1
            at = first
            while at < end and letters[at] != 34:
                at += 1
            if not is_word(letters, at, end, _TAG_END):
                return -1
            if form == DECIMAL and not _decimal_form(letters, first, at):
                return -1
            if form == INSTANT and not _is_instant(letters, first, at):
                return -1
            fields[count, 2], fields[count, 3], fields[count, 4] = first, at, form
            at += len(_TAG_END)
        elif letter == 45 or 48 <= letter <= 57:
            first = at
            while at < end and (letters[at] == 45 or letters[at] == 46 or 48 <= letters[at] <= 57):
                at += 1
            form, last = _number_form(letters, first, at)
            if form < 0:
                return -1
            fields[count, 2], fields[count, 3], fields[count, 4] = first, last, form
        elif is_word(letters, at, end, _TRUE):
            at += 4
            fields[count, 2], fields[count, 3], fields[count, 4] = 0, 0, TRUE
        elif is_word(letters, at, end, _FALSE):
            at += 5
            fields[count, 2], fields[count, 3], fields[count, 4] = 0, 0, FALSE
        elif is_word(letters, at, end, _NULL):
            at += 4
            fields[count, 2], fields[count, 3], fields[count, 4] = 0, 0, NULL
        else:
            return -1
        if _is(letters, begin, key_end, _TUPLE):
            return -1
        if _is(letters, begin, key_end, _TIME) and fields[count, 4] != INSTANT and fields[count, 4] != INT:
            return -1
        count += 1


@kernel()
def _letter(letters, pool, at):
    return pool[at - POOL] if at >= POOL else letters[at]


@kernel()
def _same(letters, pool, begin, end, other, other_end):
    if end - begin != other_end - other:
        return False
    for step in range(end - begin):
        if _letter(letters, pool, begin + step) != _letter(letters, pool, other + step):
            return False
    return True


@kernel()
def _find(letters, pool, fields, count, begin, end):
    for number in range(count):
        if _same(letters, pool, fields[number, 0], fields[number, 1], begin, end):
            return number
    return -1


@kernel()
def _move(fields, number, into, to):
    """Copy a field; an assignment of rows would allocate."""
    for each in range(5):
        into[to, each] = fields[number, each]


@kernel()
def _remove(fields, count, number):
    if number < 0:
        return count
    for at in range(number, count - 1):
        _move(fields, at + 1, fields, at)
    return count - 1


@kernel()
def _put(letters, pool, fields, count, name, name_end, begin, end, form):
    """The number of fields once a name has a value: in its place where it is there, else at the end."""
    number = _find(letters, pool, fields, count, name, name_end)
    if number < 0:
        if count >= FIELDS:
            return -1
        number = count
        count += 1
        fields[number, 0], fields[number, 1] = name, name_end
    fields[number, 2], fields[number, 3], fields[number, 4] = begin, end, form
    return count


@kernel()
def _is_envelope(letters, pool, fields, number):
    begin, end = fields[number, 0], fields[number, 1]
    if begin >= POOL:
        return False  # no step makes one
    return (
        _is(letters, begin, end, _ID)
        or _is(letters, begin, end, _TIME)
        or _is(letters, begin, end, _CAUSE)
        or _is(letters, begin, end, _PRODUCER)
        or _is(letters, begin, end, _SEQUENCE)
    )


@kernel()
def _whole(letters, pool, begin, end):
    """The whole number of some letters, of at most 17 digits."""
    whole = np.int64(0)
    for at in range(begin, end):
        whole = whole * 10 + (_letter(letters, pool, at) - 48)
    return whole


# A number is three limbs in an array, the lowest first, and stands apart from its sign and its places.


@kernel()
def _times_small(limbs, at, factor, more):
    """Multiply a number by a small one, and add another; whether it fits."""
    for step in range(at, at + LIMBS):
        value = limbs[step] * factor + more
        limbs[step] = value % BASE
        more = value // BASE
    return more == 0


@kernel()
def _load(letters, pool, begin, end, limbs, at):
    """Put down a number of decimal digits; its places, or -1 where it does not fit, and whether it is negative."""
    places, behind, negative = 0, False, False
    for step in range(at, at + LIMBS):
        limbs[step] = 0
    for step in range(begin, end):
        letter = _letter(letters, pool, step)
        if letter == 45:
            negative = True
        elif letter == 46:
            behind = True
        else:
            if not _times_small(limbs, at, 10, np.int64(letter - 48)):
                return -1, negative
            places += behind
    return places, negative


@kernel()
def _times(limbs, one, other, into):
    """Multiply two numbers into a third place, then into the first; whether it fits."""
    for step in range(into, into + LIMBS):
        limbs[step] = 0
    for low in range(LIMBS):
        more = np.int64(0)
        for high in range(LIMBS):
            value = limbs[one + low] * limbs[other + high] + more
            if low + high >= LIMBS:
                if value:
                    return False
                continue
            value += limbs[into + low + high]
            limbs[into + low + high] = value % BASE
            more = value // BASE
        if more:
            return False
    for step in range(LIMBS):
        limbs[one + step] = limbs[into + step]
    return True


@kernel()
def _without_zeros(limbs, at, places):
    """Take away the zeros at the end of a number's places; the places that are left."""
    if limbs[at] == 0 and limbs[at + 1] == 0 and limbs[at + 2] == 0:
        return 0
    while places > 0 and limbs[at] % 10 == 0:
        rest = np.int64(0)
        for step in range(at + LIMBS - 1, at - 1, -1):
            value = rest * BASE + limbs[step]
            limbs[step] = value // 10
            rest = value % 10
        places -= 1
    return places


@kernel()
def _add(limbs, one, one_negative, other, other_negative):
    """Add the second number to the first; whether it fits, and whether the sum is negative."""
    if one_negative == other_negative:
        more = np.int64(0)
        for step in range(LIMBS):
            value = limbs[one + step] + limbs[other + step] + more
            limbs[one + step] = value % BASE
            more = value // BASE
        return more == 0, one_negative
    smaller = False
    for step in range(LIMBS - 1, -1, -1):
        if limbs[one + step] != limbs[other + step]:
            smaller = limbs[one + step] < limbs[other + step]
            break
    less = np.int64(0)
    for step in range(LIMBS):
        value = limbs[one + step] - limbs[other + step]
        value = (-value if smaller else value) - less
        less = np.int64(value < 0)
        limbs[one + step] = value + BASE if value < 0 else value
    return True, other_negative if smaller else one_negative


@kernel()
def _computed(letters, pool, fields, count, program, step, scratch, limbs):
    """The sum of the monomials behind a step: its form (-1: none, -2: in doubt), and where its letters end."""
    total, product, factor, room = 0, LIMBS, 2 * LIMBS, 3 * LIMBS
    for at in range(LIMBS):
        limbs[total + at] = 0
    total_places, total_negative = 0, False
    at = step + 1
    # A value that is no number leaves the whole expression without one, whatever else is in doubt.
    last = at
    while last < len(program) and (program[last, 0] == MONOMIAL or program[last, 0] == FACTOR):
        if program[last, 0] == FACTOR:
            number = _find(letters, pool, fields, count, program[last, 1], program[last, 2])
            if number < 0:
                return -1, scratch
            form = fields[number, 4]
            if form != INT and form != FLOAT and form != WHOLE_FLOAT and form != DECIMAL:
                return -1, scratch
        last += 1
    while at < last:
        negative, places = program[at, 1] < 0, program[at, 2]
        rest = abs(program[at, 1])
        for limb in range(LIMBS):
            limbs[product + limb] = rest % BASE
            rest //= BASE
        at += 1
        while at < last and program[at, 0] == FACTOR:
            number = _find(letters, pool, fields, count, program[at, 1], program[at, 2])
            own, is_negative = _load(letters, pool, fields[number, 2], fields[number, 3], limbs, factor)
            if own < 0 or not _times(limbs, product, factor, room):
                return -2, scratch
            places += own
            negative = negative != is_negative
            at += 1
        places = _without_zeros(limbs, product, places)
        while places != total_places:
            fits = _times_small(limbs, total if places > total_places else product, 10, np.int64(0))
            if not fits:
                return -2, scratch
            if places > total_places:
                total_places += 1
            else:
                places += 1
        fits, total_negative = _add(limbs, total, total_negative, product, negative)
        if not fits:
            return -2, scratch
    return _written_number(limbs, total, total_negative, total_places, pool, scratch)


@kernel()
def _written_number(limbs, at, negative, places, pool, scratch):
    """Write a number: its form (-2: in doubt), and where its letters end."""
    places = _without_zeros(limbs, at, places)
    digits = 0  # without those in front
    for place in range(9 * LIMBS - 1, -1, -1):
        if limbs[at + place // 9] // POWERS[place % 9] % 10:
            digits = place + 1
            break
    if places and digits < places - 5:
        return -2, scratch  # spelled with an exponent
    if scratch + 9 * LIMBS + 3 > len(pool) or (not places and digits > 17):
        return -2, scratch
    if negative and digits:
        pool[scratch] = 45
        scratch += 1
    for place in range(max(digits, places + 1) - 1, -1, -1):
        if place == places - 1:
            pool[scratch] = 46
            scratch += 1
        pool[scratch] = 48 + limbs[at + place // 9] // POWERS[place % 9] % 10
        scratch += 1
    return (DECIMAL if places else INT), scratch


@kernel()
def _converted(letters, pool, kind, begin, end, form):
    """A value as another kind: its form (-1: none, -2: in doubt), and where its letters end."""
    if kind == TEXT_OF:
        if form == NULL:
            return -1, end
        return TEXT, end
    if kind == NUMBER_OF:
        if form == INT or form == FLOAT or form == WHOLE_FLOAT or form == DECIMAL:
            return form, end
        if form != TEXT:
            return -1, end
        if begin >= POOL or begin == end:
            return -2, end
        return _number_form_or_doubt(letters, begin, end)
    if kind == BOOLEAN_OF:
        if form == TRUE or form == FALSE:
            return form, end
        if form != TEXT:
            return -1, end
        if begin >= POOL:
            return -2, end
        if _is(letters, begin, end, _TRUE):
            return TRUE, end
        return (FALSE, end) if _is(letters, begin, end, _FALSE) else (-1, end)
    if form == INSTANT:
        return INSTANT, end
    if form == INT:
        return -2, end
    if form != TEXT:
        return -1, end
    if begin < POOL and _is_instant(letters, begin, end):
        return INSTANT, end
    return -2, end


@kernel()
def _number_form_or_doubt(letters, begin, end):
    form, last = _number_form(letters, begin, end)
    return (-2, last) if form < 0 else (form, last)


@kernel()
def _run(letters, pool, scratch, program, fields, others, count, limbs):
    """Let a program change the fields of a row; how many there are then, -1 in doubt."""
    step = 0
    while step < len(program):
        kind, name, name_end = program[step, 0], program[step, 1], program[step, 2]
        other, other_end = program[step, 3], program[step, 4]
        if kind == DROP:
            count = _remove(fields, count, _find(letters, pool, fields, count, name, name_end))
        elif kind == ASSIGN:
            count = _put(letters, pool, fields, count, name, name_end, other, other_end, program[step, 5])
        elif kind == RENAME or kind == COPY:
            number = _find(letters, pool, fields, count, other, other_end)
            if number < 0:
                count = _remove(fields, count, _find(letters, pool, fields, count, name, name_end))
            else:
                begin, end, form = fields[number, 2], fields[number, 3], fields[number, 4]
                if kind == RENAME:
                    count = _remove(fields, count, number)
                count = _put(letters, pool, fields, count, name, name_end, begin, end, form)
        elif kind == KEEP:
            for number in range(count):
                _move(fields, number, others, number)
            known, count = count, 0
            for number in range(known):
                if _is_envelope(letters, pool, others, number):
                    _move(others, number, fields, count)
                    count += 1
            while step + 1 < len(program) and program[step + 1, 0] == KEPT:
                step += 1
                number = _find(letters, pool, others, known, program[step, 1], program[step, 2])
                if number >= 0:
                    begin, end, form = others[number, 2], others[number, 3], others[number, 4]
                    key, key_end = others[number, 0], others[number, 1]
                    count = _put(letters, pool, fields, count, key, key_end, begin, end, form)
        elif kind == COMPUTE:
            form, last = _computed(letters, pool, fields, count, program, step, scratch, limbs)
            if form == -2:
                return -1
            if form == -1:
                count = _remove(fields, count, _find(letters, pool, fields, count, name, name_end))
            else:
                count = _put(letters, pool, fields, count, name, name_end, POOL + scratch, POOL + last, form)
                scratch = last
            while step + 1 < len(program) and (
                program[step + 1, 0] == MONOMIAL or program[step + 1, 0] == FACTOR
            ):
                step += 1
        else:
            number = _find(letters, pool, fields, count, other, other_end)
            form = -1
            begin = end = np.int64(0)
            if number >= 0:
                begin, end = fields[number, 2], fields[number, 3]
                given = fields[number, 4]
                if kind == TEXT_OF and (given == TRUE or given == FALSE):
                    return -1
                form, end = _converted(letters, pool, kind, begin, end, given)
            if form == -2:
                return -1
            if form == -1:
                count = _remove(fields, count, _find(letters, pool, fields, count, name, name_end))
            else:
                count = _put(letters, pool, fields, count, name, name_end, begin, end, form)
        if count < 0:
            return -1
        step += 1
    return count


@kernel()
def _put_digits(pool, at, value, count):
    for place in range(count):
        pool[at + count - 1 - place] = 48 + value % 10
        value //= 10
    return at + count


@kernel()
def _date_of(letters, pool, scratch, fields, count):
    """Write the time of a row that has microseconds as a date; where the letters end, -1 in doubt."""
    for number in range(count):
        if fields[number, 4] != INT or not _is(letters, fields[number, 0], fields[number, 1], _TIME):
            continue
        if fields[number, 3] - fields[number, 2] > 17 or letters[fields[number, 2]] == 45:
            return -1
        micros = _whole(letters, pool, fields[number, 2], fields[number, 3])
        if micros >= LAST_US:
            return -1
        seconds, micros = micros // 1_000_000, micros % 1_000_000
        days, seconds = seconds // 86_400, seconds % 86_400
        # The calendar repeats after 146,097 days; a year begins in March, so that a leap day is its last.
        days += 719_468
        era, day = days // 146_097, days % 146_097
        year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
        day -= 365 * year + year // 4 - year // 100
        month = (5 * day + 2) // 153
        day -= (153 * month + 2) // 5 - 1
        month = month + 3 if month < 10 else month - 9
        year = year + era * 400 + (month <= 2)
        at = _put_digits(pool, scratch, year, 4)
        for mark, value in ((45, month), (45, day), (84, seconds // 3600), (58, seconds // 60 % 60)):
            pool[at] = mark
            at = _put_digits(pool, at + 1, value, 2)
        pool[at] = 58
        at = _put_digits(pool, at + 1, seconds % 60, 2)
        if micros:
            pool[at] = 46
            at = _put_digits(pool, at + 1, micros, 6)
        pool[at] = 90
        fields[number, 2], fields[number, 3], fields[number, 4] = POOL + scratch, POOL + at + 1, INSTANT
        return at + 1
    return scratch


@kernel()
def _copy(letters, pool, begin, end, written, at):
    for step in range(begin, end):
        written[at] = _letter(letters, pool, step)
        at += 1
    return at


@kernel()
def _copy_word(word, written, at):
    for step in range(len(word)):
        written[at + step] = word[step]
    return at + len(word)


WRITTEN, PLAIN, CANONICAL = range(3)


@kernel()
def _write(letters, pool, fields, count, order, mode, written, at):
    """Write the fields of a row in an order; where they end."""
    written[at] = 123
    at += 1
    for place in range(count):
        number = order[place]
        if place:
            written[at] = 44
            at += 1
        begin, end, form = fields[number, 2], fields[number, 3], fields[number, 4]
        written[at] = 34
        at = _copy(letters, pool, fields[number, 0], fields[number, 1], written, at + 1)
        written[at], written[at + 1] = 34, 58
        at += 2
        key, key_end = fields[number, 0], fields[number, 1]
        is_time = key < POOL and _is(letters, key, key_end, _TIME)
        if form == TEXT or (form == INSTANT and is_time and mode != CANONICAL):
            written[at] = 34
            at = _copy(letters, pool, begin, end, written, at + 1)
            written[at] = 34
            at += 1
        elif form == TRUE:
            at = _copy_word(_TRUE, written, at)
        elif form == FALSE:
            at = _copy_word(_FALSE, written, at)
        elif form == NULL:
            at = _copy_word(_NULL, written, at)
        elif form == INSTANT:
            at = _copy_word(_TIME_TAG, written, at)
            at = _copy_word(_TAG_END, written, _copy(letters, pool, begin, end, written, at))
        elif form == DECIMAL and mode == WRITTEN:
            at = _copy_word(_DECIMAL_TAG, written, at)
            at = _copy_word(_TAG_END, written, _copy(letters, pool, begin, end, written, at))
        else:
            at = _copy(letters, pool, begin, end, written, at)
            if form == WHOLE_FLOAT and mode == WRITTEN:
                at = _copy_word(_POINT_ZERO, written, at)
    written[at] = 125
    return at + 1


@kernel()
def _is_above(letters, pool, one, one_end, other, other_end):
    """Whether a name comes behind another one."""
    length = min(one_end - one, other_end - other)
    for step in range(length):
        here, there = _letter(letters, pool, one + step), _letter(letters, pool, other + step)
        if here != there:
            return here > there
    return one_end - one > other_end - other


@kernel()
def _sort(letters, pool, fields, count, order):
    for number in range(count):
        at = number
        while at > 0 and _is_above(
            letters,
            pool,
            fields[order[at - 1], 0],
            fields[order[at - 1], 1],
            fields[number, 0],
            fields[number, 1],
        ):
            order[at] = order[at - 1]
            at -= 1
        order[at] = number


# -- the hash of a version -------------------------------------------------------------------------------------

_IV = np.array(
    [
        0x6A09E667F3BCC908,
        0xBB67AE8584CAA73B,
        0x3C6EF372FE94F82B,
        0xA54FF53A5F1D36F1,
        0x510E527FADE682D1,
        0x9B05688C2B3E6C1F,
        0x1F83D9ABFB41BD6B,
        0x5BE0CD19137E2179,
    ],
    np.uint64,
)
_SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    np.int64,
)


@kernel()
def _turned(word, by):
    return (word >> np.uint64(by)) | (word << np.uint64(64 - by))


@kernel()
def _mix(v, a, b, c, d, x, y):
    v[a] = v[a] + v[b] + x
    v[d] = _turned(v[d] ^ v[a], 32)
    v[c] = v[c] + v[d]
    v[b] = _turned(v[b] ^ v[c], 24)
    v[a] = v[a] + v[b] + y
    v[d] = _turned(v[d] ^ v[a], 16)
    v[c] = v[c] + v[d]
    v[b] = _turned(v[b] ^ v[c], 63)


@kernel()
def blake2b_of(letters, size, state, v, block):
    """The first eight bytes, in their order, of BLAKE2b with a digest of eight bytes (RFC 7693)."""
    for at in range(8):
        state[at] = _IV[at]
    state[0] = state[0] ^ np.uint64(0x01010000 ^ 8)
    at = 0
    while True:
        count = min(128, size - at)
        is_last = at + count >= size
        for word in range(16):
            value = np.uint64(0)
            for byte in range(8):
                place = word * 8 + byte
                if place < count:
                    value = value | (np.uint64(letters[at + place]) << np.uint64(8 * byte))
            block[word] = value
        at += count
        for word in range(8):
            v[word], v[word + 8] = state[word], _IV[word]
        v[12] = v[12] ^ np.uint64(at)
        if is_last:
            v[14] = ~v[14]
        for turn in range(12):
            s = _SIGMA[turn % 10]
            _mix(v, 0, 4, 8, 12, block[s[0]], block[s[1]])
            _mix(v, 1, 5, 9, 13, block[s[2]], block[s[3]])
            _mix(v, 2, 6, 10, 14, block[s[4]], block[s[5]])
            _mix(v, 3, 7, 11, 15, block[s[6]], block[s[7]])
            _mix(v, 0, 5, 10, 15, block[s[8]], block[s[9]])
            _mix(v, 1, 6, 11, 12, block[s[10]], block[s[11]])
            _mix(v, 2, 7, 8, 13, block[s[12]], block[s[13]])
            _mix(v, 3, 4, 9, 14, block[s[14]], block[s[15]])
        for word in range(8):
            state[word] = state[word] ^ v[word] ^ v[word + 8]
        if is_last:
            return state[0]


@kernel(
    "int64(uint8[::1], int64[::1], uint8[::1], int64, int64[:, ::1], uint8[::1], int64[::1], uint8[::1], "
    "int64[::1], uint64[::1], boolean[::1], int64[:, ::1], int64[:, ::1], int64[::1], uint64[::1], uint8[::1])"
)
def rewrite(
    letters,
    starts,
    pool,
    scratch,
    program,
    written,
    written_starts,
    plain,
    plain_starts,
    marks,
    sure,
    fields,
    others,
    order,
    words,
    canonical,
):
    """Run a program over texts. Of each row: the record as it is written, the same with plain decimals, the hash
    of its canonical form, and whether they are certain.

    The letters of the program are in the pool, and from `scratch` on there is room for those that are computed.
    The last five arrays are scratch space. Returns the first row without room for it, or the number of rows.
    """
    at = plain_at = np.int64(0)
    for row in range(len(starts) - 1):
        sure[row], marks[row] = False, np.uint64(0)
        count = -1
        if is_utf8(letters, starts[row], starts[row + 1]):
            count = _read(letters, starts[row], starts[row + 1], fields)
        if count >= 0:
            free = _date_of(letters, pool, scratch, fields, count)
            count = -1 if free < 0 else _run(letters, pool, free, program, fields, others, count, order)
        if count >= 0:
            room = 2
            for number in range(count):
                room += fields[number, 1] - fields[number, 0] + fields[number, 3] - fields[number, 2] + 22
            if at + room > len(written) or plain_at + room > len(plain) or room > len(canonical):
                return row
            for number in range(count):
                order[number] = number
            at = _write(letters, pool, fields, count, order, WRITTEN, written, at)
            plain_at = _write(letters, pool, fields, count, order, PLAIN, plain, plain_at)
            _sort(letters, pool, fields, count, order)
            size = _write(letters, pool, fields, count, order, CANONICAL, canonical, 0)
            marks[row] = blake2b_of(canonical, size, words[:8], words[8:24], words[24:40])
            sure[row] = True
        written_starts[row + 1], plain_starts[row + 1] = at, plain_at
    return len(starts) - 1
