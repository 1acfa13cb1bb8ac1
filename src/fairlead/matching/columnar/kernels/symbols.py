"""Symbols: the values, elements, texts and bounds that filters mention, looked up by their bytes."""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0917, SIM110  (what compiles to good code is flat, and has arrays for arguments)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from fairlead.kernels import kernel
from fairlead.matching.columnar.compile import Sort
from fairlead.matching.columnar.kernels.hashing import print_of, rolled, rolled_back, salt_of, stirred
from fairlead.matching.columnar.kernels.sections import AT, section, symbols_of

__all__: list[str] = []

_BOUND_SYMBOL, _BOUND_START, _SYMBOL_START = AT["bound_symbol"], AT["bound_start"], AT["symbol_start"]
SUFFIX, BINARY = Sort.SUFFIX, Sort.BINARY


@kernel(inline=True)
def same(data, start, pool, pool_start, length):
    """Whether two stretches of bytes are equal."""
    for at in range(length):
        if data[start + at] != pool[pool_start + at]:
            return False
    return True


@kernel(inline=True)
def find_symbol(symbols, h, column, sort, data, start, length):
    """The symbol with this content, whose rolled hash is h, or -1."""
    if len(symbols.table) == 0:
        return np.int32(-1)
    h = stirred(h, salt_of(column, sort, length))
    mask = len(symbols.table) - 1
    mark = print_of(h)
    at = np.int64(h & np.uint64(mask))
    while symbols.table[at] >= 0:
        symbol = symbols.table[at]
        if (
            symbols.prints[symbol] == mark
            and symbols.columns[symbol] == column
            and symbols.sorts[symbol] == sort
            and symbols.starts[symbol + 1] - symbols.starts[symbol] == length
            and same(data, start, symbols.pool, symbols.starts[symbol], length)
        ):
            return symbol
        at = (at + 1) & mask
    return np.int32(-1)


@kernel(inline=True)
def hash_of(sort, data, start, end):
    """The hash of a symbol's content; a suffix is hashed from its end."""
    if sort % BINARY == SUFFIX:
        return rolled_back(data, start, end)
    return rolled(data, start, end)


@kernel()
def make_symbol_table(columns, sorts, starts, pool, table, prints):
    """Fill the open hash table of all symbols."""
    mask = len(table) - 1
    for symbol in range(len(columns)):
        start, end = starts[symbol], starts[symbol + 1]
        h = hash_of(sorts[symbol], pool, start, end)
        h = stirred(h, salt_of(columns[symbol], sorts[symbol], end - start))
        prints[symbol] = print_of(h)
        at = np.int64(h & np.uint64(mask))
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = symbol


@kernel(counted=True)
def find_symbols(directory, ints, pool, columns, sorts, starts, data, numbers):
    """The numbers of many symbols, given as an index gives its own; -1 for unknown ones."""
    symbols = symbols_of(directory, ints, pool)
    for each in range(len(columns)):
        start, end = starts[each], starts[each + 1]
        h = hash_of(sorts[each], data, start, end)
        numbers[each] = find_symbol(symbols, h, columns[each], sorts[each], data, start, end - start)


@kernel(counted=True)
def find_strings(directory, ints, pool, column, sort, starts, data, valid, numbers):
    """The symbols of a column of strings, as Arrow holds them."""
    symbols = symbols_of(directory, ints, pool)
    for row in range(len(starts) - 1):
        if valid[row]:
            start, end = starts[row], starts[row + 1]
            h = rolled(data, start, end)
            numbers[row] = find_symbol(symbols, h, column, sort, data, start, end - start)
        else:
            numbers[row] = -1


@kernel(inline=True)
def order_of(data, start, end, pool, pool_start, pool_end):
    """Negative, zero or positive: how bytes compare with bytes of the pool."""
    for at in range(min(end - start, pool_end - pool_start)):
        one, other = data[start + at], pool[pool_start + at]
        if one != other:
            return -1 if one < other else 1
    return (end - start) - (pool_end - pool_start)


@kernel(counted=True)
def locate_strings(directory, ints, pool, line, starts, data, valid, coordinates):
    """The coordinates of strings among the bounds of a line (see `table.closed_ranges`); the strings as Arrow
    holds them."""
    bounds = section(ints, directory, _BOUND_SYMBOL)
    lines = section(ints, directory, _BOUND_START)
    known_starts = section(ints, directory, _SYMBOL_START)
    for row in range(len(starts) - 1):
        first, last = lines[line], lines[line + 1]
        on_bound = 0
        while valid[row] and first < last:
            middle = (first + last) >> 1
            symbol = bounds[middle]
            order = order_of(
                data, starts[row], starts[row + 1], pool, known_starts[symbol], known_starts[symbol + 1]
            )
            if order == 0:
                first, on_bound = middle, 1
                break
            if order < 0:
                last = middle
            else:
                first = middle + 1
        coordinates[row] = 2 * (first - lines[line]) + on_bound


@kernel()
def rank_bounds(
    columns, sorts, starts, data, bounds, known_columns, known_sorts, known_starts, pool, known, ranks
):
    """Before which of the known bounds each of these belongs, none of which is known."""
    for each in range(len(bounds)):
        new = bounds[each]
        first, last = 0, len(known)
        while first < last:
            middle = (first + last) >> 1
            old = known[middle]
            order = np.int64(columns[new]) - known_columns[old]
            if order == 0:
                order = np.int64(sorts[new]) - known_sorts[old]
            if order == 0:
                order = np.int64(
                    order_of(
                        data, starts[new], starts[new + 1], pool, known_starts[old], known_starts[old + 1]
                    )
                )
            if order < 0:
                last = middle
            else:
                first = middle + 1
        ranks[each] = first
