"""Verification: whether the filter of an entry matches a row, by its code.

An entry has three numbers: where the code of its filter is, and sketches of two of its intervals. The code is
one word with the filter's ordinal, its flags and the number of its literals, and then the literals: a word each,
two more with the bounds of a range, and in a branching program one that says where to go on.
"""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0917, SIM110  (what compiles to good code is flat, and has arrays for arguments)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from fairlead.kernels import kernel
from fairlead.matching.columnar.compile import ANY, EQ, INEXACT, KIND, MEMBER, RANGE, SET, SUBSET, SYMBOL
from fairlead.matching.columnar.kernels.grids import mark_of
from fairlead.matching.columnar.kernels.patterns import is_matched
from fairlead.matching.columnar.layout import BRANCHING, PATTERN

__all__: list[str] = []

FALSE, TRUE, DOUBTFUL = 0, 1, 2


@kernel(inline=True)
def put_marks(entries, rows, row, marks):
    """The marks of a row's numbers; whether sketches can be compared with them."""
    exact = True
    for column in range(len(marks)):
        rank = rows.states[row, column]
        mark = np.int32(-1)
        if rank == entries.sketch_rank[column]:
            value = rows.coordinates[row, column]
            mark = mark_of(value, entries.sketch_least[column], entries.sketch_scale[column])
        elif rank == INEXACT:
            exact = False
        marks[column] = mark
    return exact


@kernel(inline=True)
def fits(sketch, marks):
    """Whether a sketch (a column, and two marks) leaves it open that an interval holds the row's number."""
    if sketch < 0:
        return True
    mark = marks[sketch >> 22]
    return (sketch >> 11) & 2047 <= mark <= sketch & 2047


@kernel(inline=True)
def is_member(symbol, group, entries):
    """Whether a symbol is in a set of symbols, which are sorted."""
    low, high = entries.set_start[group], entries.set_start[group + 1] - 1
    while low <= high:
        middle = (low + high) >> 1
        if entries.set_symbol[middle] < symbol:
            low = middle + 1
        elif entries.set_symbol[middle] > symbol:
            high = middle - 1
        else:
            return True
    return False


@kernel(inline=True)
def has_any(group, set_start, set_symbol, stamps, now):
    """Whether any symbol of a set is stamped."""
    for member in range(set_start[group], set_start[group + 1]):
        if stamps[set_symbol[member]] == now:
            return True
    return False


@kernel(inline=True)
def is_within(extras, first, last, column, group, set_start, set_symbol):
    """Whether all elements of a column are in a set of symbols."""
    for each in range(first, last):
        if extras[each, 0] == column:
            inside = False
            for at in range(set_start[group], set_start[group + 1]):
                if set_symbol[at] == extras[each, 1]:
                    inside = True
                    break
            if not inside:
                return False
    return True


@kernel(inline=True)
def truth_of(at, entries, patterns, rows, row, stamps, now):
    """Whether the literal of a word holds, its negation apart; doubtful if only Python can decide."""
    word = entries.words[at]
    head = word >> 32
    argument = word & 0xFFFFFFFF
    sort = head & 7
    column = head >> 10
    width = rows.states.shape[1] // 2
    if sort == RANGE:
        rank = rows.states[row, column]
        if rank == (head >> 3) & 31:
            return (
                TRUE
                if entries.code[at + 1] <= rows.coordinates[row, column] <= entries.code[at + 2]
                else FALSE
            )
        return DOUBTFUL if rank == INEXACT else FALSE
    if sort == EQ:
        return TRUE if rows.states[row, width + column] == argument else FALSE
    if sort == KIND:
        return TRUE if (argument >> rows.states[row, column]) & 1 == 1 else FALSE
    if sort == SYMBOL:
        if stamps[argument] == now:
            return TRUE
        if head & PATTERN == 0:
            return FALSE
        return TRUE if is_matched(argument, column, patterns, rows, row, stamps, now) else FALSE
    if sort == MEMBER:
        symbol = rows.states[row, width + column]
        return TRUE if symbol >= 0 and is_member(symbol, argument, entries) else FALSE
    if sort == ANY:
        return TRUE if has_any(argument, entries.set_start, entries.set_symbol, stamps, now) else FALSE
    if sort == SUBSET:
        if rows.states[row, column] != SET:
            return FALSE
        first, last = rows.extra_start[row], rows.extra_start[row + 1]
        inside = is_within(rows.extras, first, last, column, argument, entries.set_start, entries.set_symbol)
        return TRUE if inside else FALSE
    return DOUBTFUL


@kernel(inline=True)
def accepts(begin, entries, patterns, rows, row, stamps, now):
    """Whether the code at a position accepts a row; what is doubtful counts as true."""
    head = entries.words[begin]
    branching = (head >> 32) & BRANCHING != 0
    left = head >> 40
    at = begin + 1
    while left > 0:
        word = entries.words[at]
        truth = truth_of(at, entries, patterns, rows, row, stamps, now)
        holds = truth == DOUBTFUL or (truth == TRUE) != ((word >> 40) & 1 == 1)
        at += 3 if (word >> 32) & 7 == RANGE else 1
        if not branching:
            if not holds:
                return False
            left -= 1
        else:
            step = entries.words[at] >> 32 if holds else np.int64(np.int32(entries.words[at] & 0xFFFFFFFF))
            if step < 0:
                return step == -1
            at = begin + step
    return True
