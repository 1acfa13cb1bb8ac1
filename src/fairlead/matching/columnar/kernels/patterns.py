"""Patterns: whether a text matches a regular expression or a pattern of subjects."""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0917  (what compiles to good code is flat, and has arrays for arguments)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from fairlead.kernels import kernel
from fairlead.matching.columnar.compile import STRING
from fairlead.matching.columnar.kernels.symbols import same

__all__: list[str] = []

_STAR = np.uint8(42)


@kernel(inline=True)
def number_of(symbols, symbol):
    """The position of a symbol among those of patterns, which ascend."""
    low, high = 0, len(symbols)
    while low < high:
        middle = (low + high) >> 1
        if symbols[middle] < symbol:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def is_matched(symbol, column, patterns, rows, row, stamps, now):
    """Whether the text of a row's column matches the pattern of a symbol; it is stamped with the answer."""
    if stamps[symbol] == -now:
        return False
    matched = False
    if rows.states[row, column] == STRING:
        number = number_of(patterns.symbol, symbol)
        at = row * patterns.text_slots + patterns.slot[number]
        start, end = rows.text_start[at], rows.text_start[at + 1]
        begin = patterns.start[number]
        if begin >= 0:
            matched = is_accepted(rows.text, start, end, patterns.automata, begin)
        else:
            first, last = patterns.content_start[symbol], patterns.content_start[symbol + 1]
            matched = is_subject(rows.text, start, end, patterns.pool, first, last)
    stamps[symbol] = now if matched else -now
    return matched


@kernel()
def is_accepted(text, start, end, automata, begin):
    """Whether an automaton accepts a text in UTF-8; see `patterns` for its form.

    A state that leads nowhere but to itself has decided.
    """
    state = 0
    at = start
    while at < end:
        head, following = automata[begin + state], automata[begin + state + 1]
        row, row_end = begin + (head >> 1), begin + (following >> 1)
        if row_end - row == 2 and automata[row + 1] == state:
            return head & 1 == 1
        point = np.int32(text[at])
        length = 1 if point < 0x80 else 2 if point < 0xE0 else 3 if point < 0xF0 else 4
        if length > 1:
            point &= 0xFF >> (length + 1)
            for each in range(1, length):
                point = point << 6 | (np.int32(text[at + each]) & 0x3F)
            if point >= 0xE000:
                point -= 0x800  # symbols are numbered without the surrogates
        at += length
        while row + 2 < row_end and automata[row + 2] <= point:
            row += 2
        state = automata[row + 1]
    return automata[begin + state] & 1 == 1


@kernel(inline=True)
def level_end(data, at, end, separator, pool, width):
    """The end of the level that begins at a position."""
    while at + width <= end and not same(data, at, pool, separator, width):
        at += 1
    return at if at + width <= end else end


@kernel()
def is_subject(text, start, end, pool, separator, pattern_end):
    """Whether a subject matches a pattern, level by level; only the last ** ever needs to take one more level.

    The pattern is a separator and what follows it. A position behind the end says that no level is left.
    """
    first = np.int32(pool[separator])
    width = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    level = np.int64(separator + width)
    at = np.int64(start)
    retry_at, retry_level = np.int64(-1), np.int64(-1)
    while at <= end:
        if level <= pattern_end:
            level_stop = level_end(pool, level, pattern_end, separator, pool, width)
            after = level_stop + width if level_stop < pattern_end else pattern_end + 1
            size = level_stop - level
            if size == 2 and pool[level] == _STAR and pool[level + 1] == _STAR:
                retry_at, retry_level = at, after
                level = after
                continue
            at_end = level_end(text, at, end, separator, pool, width)
            any_level = size == 1 and pool[level] == _STAR
            if any_level or (at_end - at == size and same(text, at, pool, level, size)):
                at = at_end + width if at_end < end else np.int64(end + 1)
                level = after
                continue
        if retry_level < 0:
            return False
        at_end = level_end(text, retry_at, end, separator, pool, width)
        retry_at = at_end + width if at_end < end else np.int64(end + 1)
        at, level = retry_at, retry_level
    while level <= pattern_end:
        level_stop = level_end(pool, level, pattern_end, separator, pool, width)
        if level_stop - level != 2 or pool[level] != _STAR or pool[level + 1] != _STAR:
            return False
        level = level_stop + width if level_stop < pattern_end else pattern_end + 1
    return True
