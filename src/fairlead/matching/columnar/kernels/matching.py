"""Matching: for each row, every access path into the index, every candidate there, every one verified."""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0917  (what compiles to good code is flat, and has arrays for arguments)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numba
import numpy as np

from fairlead.kernels import kernel
from fairlead.matching.columnar.kernels.access import (
    half_run,
    push,
    push_children,
    push_halves,
    push_kinds,
    push_values,
)
from fairlead.matching.columnar.kernels.sections import (
    Collector,
    Rows,
    access_of,
    entries_of,
    patterns_of,
    symbols_of,
    texts_of,
)
from fairlead.matching.columnar.kernels.texts import stamp, text_hits
from fairlead.matching.columnar.kernels.verification import accepts, fits, put_marks
from fairlead.matching.columnar.layout import OPAQUE_FILTER

__all__: list[str] = []

_LAST = 2147483647
FULL = -1


@kernel(inline=True)
def next_stamp(stamps):
    """The stamp of the next row; after two billion rows, the first again."""
    now = stamps[len(stamps) - 1] + 1
    if now == _LAST:
        stamps[:] = 0
        now = 1
    stamps[len(stamps) - 1] = now
    return now


@kernel(inline=True)
def sorted_distinct(out, begin, end):
    """Sort out[begin:end] and move its distinct values to the front; how many they are."""
    ascending = True
    for at in range(begin + 1, end):
        if out[at] <= out[at - 1]:
            ascending = False
            break
    if ascending:
        return end - begin
    gap = 1
    while 3 * gap + 1 < end - begin:
        gap = 3 * gap + 1
    while gap > 0:  # by insertion at shrinking distances (Shell): numpy's sort takes a second to compile
        for at in range(begin + gap, end):
            value = out[at]
            other = at - gap
            while other >= begin and out[other] > value:
                out[other + gap] = out[other]
                other -= gap
            out[other + gap] = value
        gap //= 3
    distinct = begin
    for at in range(begin + 1, end):
        if out[at] != out[distinct]:
            distinct += 1
            out[distinct] = out[at]
    return distinct + 1 - begin


@kernel(inline=True)
def verify(first, last, entries, patterns, rows, row, marks, exact, now, collector, count):
    """Append the ordinals of the matching filters among a run of entries; FULL where they do not fit."""
    by_destination = len(collector.destinations) > 0
    for entry in range(first, last):
        # Two sketches of intervals beside each entry save most walks to the code.
        if exact and not (
            fits(entries.entries[3 * entry + 1], marks) and fits(entries.entries[3 * entry + 2], marks)
        ):
            continue
        begin = entries.entries[3 * entry]
        head = entries.words[begin]
        ordinal = head & 0xFFFFFFFF
        if len(collector.tally) > 0:
            collector.tally[ordinal] += 1
        if by_destination:
            destination = collector.destinations[ordinal]
            if destination >= 0 and collector.stamps[collector.symbols + destination] == now:
                continue
        if not accepts(begin, entries, patterns, rows, row, collector.stamps, now):
            continue
        if len(collector.died) > 0 and collector.died[ordinal] <= collector.version:
            continue
        if (head >> 32) & OPAQUE_FILTER != 0:
            collector.counters[1] += 1
        elif by_destination and collector.destinations[ordinal] >= 0:
            collector.stamps[collector.symbols + collector.destinations[ordinal]] = now
        if count == len(collector.out):
            return np.int64(FULL)
        collector.out[count] = ordinal
        count += 1
    return count


@kernel(inline=True)
def match_row(row, rows, symbols, texts, access, entries, patterns, collector, marks, stack, begin):
    """Match one row; where its matches end that begin at `begin`, or FULL."""
    now = next_stamp(collector.stamps)
    # A plain 0 is a type of its own for numba: whoever gets it would be compiled twice.
    hits = top = np.int64(0)
    for each in range(rows.extra_start[row], rows.extra_start[row + 1]):
        hits = stamp(rows.extras[each, 1], now, collector.stamps, stack, hits)
    hits = text_hits(rows, row, texts, symbols, now, collector.stamps, stack, hits)
    for each in range(hits):  # a symbol makes room for its node
        top = push(access.symbol_node[stack[each]], stack, top)
    top = push_values(access, rows, row, stack, top)
    top = push_kinds(access, rows, row, stack, top)
    top = push_halves(access, rows, row, stack, top)
    exact = put_marks(entries, rows, row, marks)
    tested = 0
    count = begin
    while top > 0:
        top -= 1
        item = stack[top]
        if item >= 0:
            first, last = access.nodes[4 * item], access.nodes[4 * item + 1]
            top = push_children(access, item, rows, row, stack, top)
        else:
            first, last = half_run(access, -1 - item, rows, row)
        tested += last - first
        count = verify(first, last, entries, patterns, rows, row, marks, exact, now, collector, count)
        if count == FULL:
            return count
    collector.counters[0] += tested
    if count - begin > 1:
        count = begin + sorted_distinct(collector.out, begin, count)
    return count


@kernel()
def match_each(
    first_row, rows, symbols, texts, access, entries, patterns, collector, marks, stack, out_start
):
    """Match the rows from one on; the row at which `out` was full, or the number of rows.

    A kernel of its own that loops over the rows: to hand the sections over for each row takes longer than many a
    row, and in one kernel with those that make the sections the compiler keeps too little in registers.
    """
    count = np.int64(out_start[first_row])
    for row in range(first_row, rows.states.shape[0]):
        end = match_row(row, rows, symbols, texts, access, entries, patterns, collector, marks, stack, count)
        if end == FULL:
            return row
        out_start[row + 1] = count = end
    return rows.states.shape[0]


_ROWS = numba.int64(
    numba.int64[::1],  # directory
    numba.int32[::1],  # ints
    numba.float64[::1],  # reals
    numba.uint8[::1],  # pool
    numba.int32[:, ::1],  # states: ranks, then symbols
    numba.float64[:, ::1],  # places
    numba.int32[::1],  # extra_start
    numba.int32[:, ::1],  # extras: column and symbol of elements
    numba.int32[::1],  # text_start, for each row and text column
    numba.uint8[::1],  # text
    numba.int64[::1],  # died, by ordinal; empty while none has
    numba.int64,  # version
    numba.int32[::1],  # destination of each ordinal, or empty
    numba.int64,  # first row
    numba.int32[::1],  # stamps of symbols, then of destinations; the last one counts
    numba.int32[::1],  # scratch: marks, then the stack, which begins as the symbols of the row
    numba.int32[::1],  # out_start
    numba.int32[::1],  # out
    numba.int64[::1],  # counters: candidates, rechecks
    numba.int64[::1],  # tally: how often each ordinal was verified, or empty
)


@kernel(_ROWS, counted=True)
def match_rows(
    directory,
    ints,
    reals,
    pool,
    states,
    coordinates,
    extra_start,
    extras,
    text_start,
    text,
    died,
    version,
    destinations,
    first_row,
    stamps,
    scratch,
    out_start,
    out,
    counters,
    tally,
):
    """Match rows from `first_row` on; the row at which `out` was full, or the number of rows.

    `out` gets the ordinals of the matching filters, row by row, ascending.
    """
    symbols, texts = symbols_of(directory, ints, pool), texts_of(directory, ints)
    access, entries = access_of(directory, ints, reals), entries_of(directory, ints, reals)
    patterns = patterns_of(directory, ints, pool)
    rows = Rows(states, coordinates, extra_start, extras, text_start, text)
    collector = Collector(died, version, destinations, stamps, len(symbols.columns), out, counters, tally)
    width = states.shape[1] // 2
    marks, stack = scratch[:width], scratch[width:]
    return match_each(
        first_row, rows, symbols, texts, access, entries, patterns, collector, marks, stack, out_start
    )
