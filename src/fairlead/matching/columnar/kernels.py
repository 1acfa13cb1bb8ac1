"""The kernels: loops over the flat arrays of an index, compiled once per machine.

Signatures are spelled out and the machine code is cached on disk, so only the first process that ever gets
here waits for the compiler (see `cache`).
"""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0915, PLR0917, SIM110  (what compiles to good code is flat, and has arrays for arguments)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numba
import numpy as np

from fairlead.matching.columnar.cache import kernel
from fairlead.matching.columnar.compile import (
    ANY,
    EQ,
    INEXACT,
    KIND,
    MEMBER,
    NUMBER,
    OPAQUE,
    RANGE,
    SET,
    STRING,
    SUBSET,
    SYMBOL,
    Sort,
)
from fairlead.matching.columnar.layout import BRANCHING, BY_VALUE, GRANTED, NEVER, OPAQUE_FILTER, SECTIONS

__all__: list[str] = []

_AT = {name: 2 * number for number, name in enumerate(SECTIONS)}
(
    PREDICATE_HEAD,
    PREDICATE_ARGUMENT,
    SET_START,
    SET_SYMBOL,
    SYMBOL_COLUMN,
    SYMBOL_SORT,
    SYMBOL_START,
    SYMBOL_PRINT,
    SYMBOL_TABLE,
    SYMBOL_NODE,
    BOUND_SYMBOL,
    BOUND_START,
    FILTER_START,
    FILTER_LITERAL,
    FILTER_PROGRAM,
    FILTER_FLAGS,
    FILTER_ORDINAL,
    JUMP_TRUE,
    JUMP_FALSE,
    CLAUSE_FILTER,
    CLAUSE_START,
    CLAUSE_LITERAL,
    NODES,
    NODE_FILTER,
    SHAPE_COLUMN,
    SHAPE_SORT,
    SHAPE_RANK,
    CHILDREN,
    COLUMN_SHAPES,
    HALF_COLUMN,
    HALF_RANK,
    HALF_START,
    HALF_FILTER,
    KIND_COLUMN,
    KIND_MASK,
    KIND_NODE,
    SKETCH_RANK,
    TEXT_COLUMN,
    TEXT_SLOT,
    TEXT_SORT,
    TEXT_START,
    TEXT_LENGTH,
    GRAM_TABLE,
    GRAM_PRINT,
    GRAM_START,
    GRAM_SYMBOL,
    GRAM_OFFSET,
    COLUMN_FLAGS,
    EXTENT,
    RANGE_LOW,
    RANGE_HIGH,
    CODE,
    SHAPE_SCALE,
    HALF_BOUND,
    SKETCH_LEAST,
    SKETCH_SCALE,
    POOL,
) = _AT.values()

PREFIX, SUFFIX, SUBSTRING, BINARY = Sort.PREFIX, Sort.SUFFIX, Sort.SUBSTRING, Sort.BINARY
_BASE = np.uint64(0x9E3779B97F4A7C15)
_STIR = np.uint64(0xBF58476D1CE4E5B9)
_BIG = 4.0e18


@kernel()
def section(whole, directory, at):
    """A section of an index."""
    return whole[directory[at] : directory[at] + directory[at + 1]]


@kernel()
def stirred(h, salt):
    h = h + np.uint64(salt) * _BASE
    h ^= h >> np.uint64(30)
    h *= _STIR
    h ^= h >> np.uint64(27)
    h *= np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel()
def rolled(data, start, end):
    """The polynomial hash of data[start:end]."""
    h = np.uint64(0)
    for at in range(start, end):
        h = h * _BASE + np.uint64(data[at] + 1)
    return h


@kernel()
def rolled_back(data, start, end):
    """The same of the bytes in reverse: suffixes are the prefixes of reversed strings."""
    h = np.uint64(0)
    for at in range(end - 1, start - 1, -1):
        h = h * _BASE + np.uint64(data[at] + 1)
    return h


@kernel()
def salt_of(column, sort, length):
    return (np.int64(column) * 256 + sort) * 65537 + length


@kernel()
def print_of(h):
    """Thirty-one bits of a hash that its place in a table does not depend on."""
    return np.int32(h >> np.uint64(33))


@kernel()
def same(data, start, pool, pool_start, length):
    for at in range(length):
        if data[start + at] != pool[pool_start + at]:
            return False
    return True


@kernel()
def find_symbol(h, column, sort, data, start, length, table, prints, columns, sorts, symbol_start, pool):
    """The symbol with this content, whose rolled hash is h, or -1."""
    if len(table) == 0:
        return np.int32(-1)
    h = stirred(h, salt_of(column, sort, length))
    mask = len(table) - 1
    mark = print_of(h)
    at = np.int64(h & np.uint64(mask))
    while table[at] >= 0:
        symbol = table[at]
        if (
            prints[symbol] == mark
            and columns[symbol] == column
            and sorts[symbol] == sort
            and symbol_start[symbol + 1] - symbol_start[symbol] == length
            and same(data, start, pool, symbol_start[symbol], length)
        ):
            return symbol
        at = (at + 1) & mask
    return np.int32(-1)


@kernel()
def make_symbol_table(columns, sorts, starts, pool, table, prints):
    """Fill the open hash table of all symbols; a suffix is hashed from its end."""
    mask = len(table) - 1
    for symbol in range(len(columns)):
        start, end = starts[symbol], starts[symbol + 1]
        backward = sorts[symbol] % BINARY == SUFFIX
        h = rolled_back(pool, start, end) if backward else rolled(pool, start, end)
        h = stirred(h, salt_of(columns[symbol], sorts[symbol], end - start))
        prints[symbol] = print_of(h)
        at = np.int64(h & np.uint64(mask))
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = symbol


@kernel()
def find_symbols(directory, ints, pool, columns, sorts, starts, data, found):
    """The numbers of many symbols, given as an index gives its own; -1 for unknown ones."""
    table = section(ints, directory, SYMBOL_TABLE)
    prints = section(ints, directory, SYMBOL_PRINT)
    known_columns = section(ints, directory, SYMBOL_COLUMN)
    known_sorts = section(ints, directory, SYMBOL_SORT)
    known_starts = section(ints, directory, SYMBOL_START)
    for each in range(len(columns)):
        start, end = starts[each], starts[each + 1]
        backward = sorts[each] % BINARY == SUFFIX
        h = rolled_back(data, start, end) if backward else rolled(data, start, end)
        found[each] = find_symbol(
            h,
            columns[each],
            sorts[each],
            data,
            start,
            end - start,
            table,
            prints,
            known_columns,
            known_sorts,
            known_starts,
            pool,
        )


@kernel()
def find_strings(directory, ints, pool, column, sort, starts, data, valid, found, stride):
    """The symbols of a column of strings, as Arrow keeps them; found has one every `stride` places."""
    table = section(ints, directory, SYMBOL_TABLE)
    prints = section(ints, directory, SYMBOL_PRINT)
    known_columns = section(ints, directory, SYMBOL_COLUMN)
    known_sorts = section(ints, directory, SYMBOL_SORT)
    known_starts = section(ints, directory, SYMBOL_START)
    for row in range(len(starts) - 1):
        if not valid[row]:
            found[row * stride] = -1
            continue
        start, end = starts[row], starts[row + 1]
        found[row * stride] = find_symbol(
            rolled(data, start, end),
            column,
            sort,
            data,
            start,
            end - start,
            table,
            prints,
            known_columns,
            known_sorts,
            known_starts,
            pool,
        )


@kernel()
def order_of(data, start, end, pool, pool_start, pool_end):
    """Negative, zero or positive: how bytes compare with bytes of the pool."""
    for at in range(min(end - start, pool_end - pool_start)):
        one, other = data[start + at], pool[pool_start + at]
        if one != other:
            return -1 if one < other else 1
    return (end - start) - (pool_end - pool_start)


@kernel()
def place_strings(directory, ints, pool, line, starts, data, valid, places):
    """The places of a column of strings, as Arrow keeps them, among the bounds of a line (see `placed`)."""
    bounds = section(ints, directory, BOUND_SYMBOL)
    lines = section(ints, directory, BOUND_START)
    known_starts = section(ints, directory, SYMBOL_START)
    for row in range(len(starts) - 1):
        first, last = lines[line], lines[line + 1]
        place = 0
        while valid[row] and first < last:
            middle = (first + last) >> 1
            symbol = bounds[middle]
            order = order_of(
                data, starts[row], starts[row + 1], pool, known_starts[symbol], known_starts[symbol + 1]
            )
            if order == 0:
                first, place = middle, 1
                break
            if order < 0:
                last = middle
            else:
                first = middle + 1
        places[row] = 2 * (first - lines[line]) + place


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


@kernel()
def cell_of(value, scale):
    """Which cell of a grid a value lies in; beyond the range of whole numbers, the last one."""
    scaled = np.floor(value * scale)
    if scaled > _BIG:
        scaled = _BIG
    elif scaled < -_BIG:
        scaled = -_BIG
    return np.int64(scaled)


@kernel()
def mark_of(value, least, scale):
    """A number in eleven bits. Monotone: what lies between two numbers has its mark between theirs."""
    scaled = (value - least) * scale
    if not scaled > 0.0:
        return np.int32(0)
    return np.int32(2047) if scaled >= 2047.0 else np.int32(scaled)


@kernel()
def child_hash(shape, key):
    return stirred(np.uint64(key), shape + 1)


@kernel()
def find_child(shape, key, table):
    """The node below a shape for a value or a cell, or -1.

    Only a print is compared: a wrong child, once in billions, brings candidates that are then verified.
    """
    h = child_hash(shape, key)
    mask = len(table) // 2 - 1
    mark = print_of(h)
    at = np.int64(h & np.uint64(mask))
    while table[2 * at + 1] >= 0:
        if table[2 * at] == mark:
            return table[2 * at + 1]
        at = (at + 1) & mask
    return np.int32(-1)


@kernel()
def make_child_table(shapes, keys, numbers, table):
    """Fill a table of pairs, a print and a node; -1 is no node."""
    mask = len(table) // 2 - 1
    for each in range(len(shapes)):
        h = child_hash(shapes[each], keys[each])
        at = np.int64(h & np.uint64(mask))
        while table[2 * at + 1] >= 0:
            at = (at + 1) & mask
        table[2 * at] = print_of(h)
        table[2 * at + 1] = numbers[each]


@kernel()
def text_hits(
    text,
    start,
    end,
    entry,
    column,
    binary,
    now,
    count,
    hits,
    stamps,
    table,
    prints,
    symbol_column,
    symbol_sort,
    symbol_start,
    pool,
    text_sort,
    text_start,
    text_length,
    gram_table,
    gram_print,
    gram_start,
    gram_symbol,
    gram_offset,
):
    """Stamp and collect the prefixes, suffixes and substrings that a text has."""
    size = end - start
    sort = text_sort[entry]
    if sort & BINARY != binary:
        return count
    if sort % BINARY == SUBSTRING:
        for which in range(text_start[entry], text_start[entry + 1]):
            gram = text_length[which]
            if gram > size:
                continue
            power = np.uint64(1)
            for _ in range(gram - 1):
                power = power * _BASE
            h = rolled(text, start, start + gram)
            salt = salt_of(column, sort, gram)
            mask = len(gram_table) - 1
            for at in range(start, end - gram + 1):
                if at > start:
                    h = (h - np.uint64(text[at - 1] + 1) * power) * _BASE + np.uint64(text[at + gram - 1] + 1)
                mixed = stirred(h, salt)
                mark = print_of(mixed)
                place = np.int64(mixed & np.uint64(mask))
                while gram_table[place] >= 0:
                    if gram_print[place] == mark:
                        group = gram_table[place]
                        for each in range(gram_start[group], gram_start[group + 1]):
                            symbol = gram_symbol[each]
                            first = at - gram_offset[each]
                            length = symbol_start[symbol + 1] - symbol_start[symbol]
                            if (
                                stamps[symbol] != now
                                and first >= start
                                and first + length <= end
                                and symbol_column[symbol] == column
                                and symbol_sort[symbol] == sort
                                and same(text, first, pool, symbol_start[symbol], length)
                            ):
                                stamps[symbol] = now
                                hits[count] = symbol
                                count += 1
                        break
                    place = (place + 1) & mask
        return count
    h = np.uint64(0)
    done = 0
    for which in range(text_start[entry], text_start[entry + 1]):
        length = text_length[which]
        if length > size:
            break
        first = start
        if sort % BINARY == PREFIX:
            for at in range(done, length):
                h = h * _BASE + np.uint64(text[start + at] + 1)
        else:
            first = end - length
            for at in range(done, length):
                h = h * _BASE + np.uint64(text[end - 1 - at] + 1)
        done = length
        symbol = find_symbol(
            h,
            column,
            sort,
            text,
            first,
            length,
            table,
            prints,
            symbol_column,
            symbol_sort,
            symbol_start,
            pool,
        )
        if symbol >= 0 and stamps[symbol] != now:
            stamps[symbol] = now
            hits[count] = symbol
            count += 1
    return count


@kernel()
def within(extras, first, last, column, set_symbol, set_start, group):
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


@kernel()
def sorted_distinct(out, begin, end):
    """Sort out[begin:end] and move its distinct values to the front; how many they are."""
    ascending = True
    for at in range(begin + 1, end):
        if out[at] <= out[at - 1]:
            ascending = False
            break
    if ascending:
        return end - begin
    if end - begin <= 24:
        for at in range(begin + 1, end):
            value = out[at]
            other = at - 1
            while other >= begin and out[other] > value:
                out[other + 1] = out[other]
                other -= 1
            out[other + 1] = value
    else:
        out[begin:end].sort()
    kept = begin
    for at in range(begin + 1, end):
        if out[at] != out[kept]:
            kept += 1
            out[kept] = out[at]
    return kept + 1 - begin


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
    numba.int32[::1],  # scratch: hits, then the stack
    numba.int32[::1],  # out_start
    numba.int32[::1],  # out
    numba.int64[::1],  # counters: candidates, rechecks
    numba.int64[::1],  # tally: how often each ordinal was verified, or empty
)


@kernel(_ROWS)
def match_rows(
    directory,
    ints,
    reals,
    pool,
    states,
    places,
    extra_start,
    extras,
    text_at,
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
    set_start = section(ints, directory, SET_START)
    set_symbol = section(ints, directory, SET_SYMBOL)
    symbol_column = section(ints, directory, SYMBOL_COLUMN)
    symbol_sort = section(ints, directory, SYMBOL_SORT)
    symbol_start = section(ints, directory, SYMBOL_START)
    symbol_print = section(ints, directory, SYMBOL_PRINT)
    symbol_table = section(ints, directory, SYMBOL_TABLE)
    symbol_node = section(ints, directory, SYMBOL_NODE)
    nodes = section(ints, directory, NODES)
    node_filter = section(ints, directory, NODE_FILTER)
    shape_column = section(ints, directory, SHAPE_COLUMN)
    shape_sort = section(ints, directory, SHAPE_SORT)
    shape_rank = section(ints, directory, SHAPE_RANK)
    children = section(ints, directory, CHILDREN)
    column_shapes = section(ints, directory, COLUMN_SHAPES)
    half_column = section(ints, directory, HALF_COLUMN)
    half_rank = section(ints, directory, HALF_RANK)
    half_start = section(ints, directory, HALF_START)
    half_filter = section(ints, directory, HALF_FILTER)
    kind_column = section(ints, directory, KIND_COLUMN)
    kind_mask = section(ints, directory, KIND_MASK)
    kind_node = section(ints, directory, KIND_NODE)
    sketch_rank = section(ints, directory, SKETCH_RANK)
    text_column = section(ints, directory, TEXT_COLUMN)
    text_slot = section(ints, directory, TEXT_SLOT)
    text_sort = section(ints, directory, TEXT_SORT)
    text_start = section(ints, directory, TEXT_START)
    text_length = section(ints, directory, TEXT_LENGTH)
    gram_table = section(ints, directory, GRAM_TABLE)
    gram_print = section(ints, directory, GRAM_PRINT)
    gram_start = section(ints, directory, GRAM_START)
    gram_symbol = section(ints, directory, GRAM_SYMBOL)
    gram_offset = section(ints, directory, GRAM_OFFSET)
    code = section(reals, directory, CODE)
    words = code.view(np.int64)
    shape_scale = section(reals, directory, SHAPE_SCALE)
    sketch_least = section(reals, directory, SKETCH_LEAST)
    sketch_scale = section(reals, directory, SKETCH_SCALE)
    half_bound = section(reals, directory, HALF_BOUND)

    width = states.shape[1] // 2
    rows = states.shape[0]
    symbols = len(symbol_column)
    texts = len(text_column)
    slots = 0 if texts == 0 else text_slot[texts - 1] + 1
    by_destination = len(destinations) > 0
    count = out_start[first_row]
    for row in range(first_row, rows):
        now = stamps[len(stamps) - 1] + 1
        if now == 2147483647:
            stamps[:] = 0
            now = 1
        stamps[len(stamps) - 1] = now
        begin = count
        tested = 0

        # What the row has besides plain values: elements of sets, and texts.
        found = 0
        first_extra, last_extra = extra_start[row], extra_start[row + 1]
        for each in range(first_extra, last_extra):
            symbol = extras[each, 1]
            if symbol >= 0 and stamps[symbol] != now:
                stamps[symbol] = now
                scratch[found] = symbol
                found += 1
        for entry in range(texts):
            column = text_column[entry]
            rank = states[row, column]
            at = row * slots + text_slot[entry]
            if text_at[at + 1] > text_at[at]:
                found = text_hits(
                    text,
                    text_at[at],
                    text_at[at + 1],
                    entry,
                    column,
                    0 if rank == STRING else BINARY,
                    now,
                    found,
                    scratch,
                    stamps,
                    symbol_table,
                    symbol_print,
                    symbol_column,
                    symbol_sort,
                    symbol_start,
                    pool,
                    text_sort,
                    text_start,
                    text_length,
                    gram_table,
                    gram_print,
                    gram_start,
                    gram_symbol,
                    gram_offset,
                )

        # Every way into the index, one after the other; `source` says which part of the row is asked next.
        bottom = symbols + width
        sketching = True
        for column in range(width):
            rank = states[row, column]
            mark = np.int32(-1)
            if rank == sketch_rank[column]:
                mark = mark_of(places[row, column], sketch_least[column], sketch_scale[column])
            elif rank == INEXACT:
                sketching = False
            scratch[symbols + column] = mark
        source = 0
        column = 0
        each = 0
        half = 0
        while True:
            top = bottom
            from_half = -1
            half_first = 0
            half_last = 0
            if source == 0:  # the values of the columns, and the cells they lie in
                if column == width:
                    source = 1
                    each = 0
                    continue
                rank = states[row, column]
                if rank != 0:
                    symbol = states[row, width + column]
                    if symbol >= 0 and symbol_node[symbol] >= 0:
                        scratch[top] = symbol_node[symbol]
                        top += 1
                    plain = NUMBER if rank == INEXACT else rank
                    value = places[row, column]
                    for shape in range(column_shapes[column], column_shapes[column + 1]):
                        if shape_rank[shape] != plain:
                            continue
                        cell = cell_of(value, shape_scale[shape])
                        child = find_child(shape, cell, children)
                        if child >= 0:
                            scratch[top] = child
                            top += 1
                        if rank == INEXACT:
                            for toward in (-np.inf, np.inf):
                                other = cell_of(np.nextafter(value, toward), shape_scale[shape])
                                if other != cell:
                                    child = find_child(shape, other, children)
                                    if child >= 0:
                                        scratch[top] = child
                                        top += 1
                column += 1
            elif source == 1:  # elements and texts
                if each == found:
                    source = 2
                    each = 0
                    continue
                node = symbol_node[scratch[each]]
                if node >= 0:
                    scratch[top] = node
                    top += 1
                each += 1
            elif source == 2:  # kinds, absence among them
                if each == len(kind_column):
                    source = 3
                    continue
                if (kind_mask[each] >> states[row, kind_column[each]]) & 1 == 1:
                    scratch[top] = kind_node[each]
                    top += 1
                each += 1
            else:  # comparisons with one bound: those met are a run of the sorted bounds
                if half == len(half_column):
                    break
                rank = states[row, half_column[half]]
                wanted = half_rank[half] & 31
                if rank == wanted or (rank == INEXACT and wanted == NUMBER):
                    value = places[row, half_column[half]]
                    first, last = half_start[half], half_start[half + 1]
                    if half_rank[half] & 32 == 0:  # at least: all bounds up to the value
                        if rank == INEXACT:
                            value = np.nextafter(value, np.inf)
                        half_first = first
                        while first < last:
                            middle = (first + last) >> 1
                            if half_bound[middle] <= value:
                                first = middle + 1
                            else:
                                last = middle
                        half_last = first
                    else:  # at most: all bounds from the value on
                        if rank == INEXACT:
                            value = np.nextafter(value, -np.inf)
                        half_last = last
                        while first < last:
                            middle = (first + last) >> 1
                            if half_bound[middle] < value:
                                first = middle + 1
                            else:
                                last = middle
                        half_first = first
                    from_half = half
                half += 1

            while top > bottom or from_half >= 0:
                if from_half >= 0:
                    first, last = half_first, half_last
                    from_half = -1
                    in_half = True
                else:
                    top -= 1
                    node = scratch[top]
                    first, last = nodes[4 * node], nodes[4 * node + 1]
                    in_half = False
                    for shape in range(nodes[4 * node + 2], nodes[4 * node + 3]):
                        split = shape_column[shape]
                        rank = states[row, split]
                        if shape_sort[shape] == BY_VALUE:
                            symbol = states[row, width + split]
                            if symbol >= 0:
                                child = find_child(shape, symbol, children)
                                if child >= 0:
                                    scratch[top] = child
                                    top += 1
                        elif rank == shape_rank[shape] or (rank == INEXACT and shape_rank[shape] == NUMBER):
                            value = places[row, split]
                            cell = cell_of(value, shape_scale[shape])
                            child = find_child(shape, cell, children)
                            if child >= 0:
                                scratch[top] = child
                                top += 1
                            if rank == INEXACT:
                                for toward in (-np.inf, np.inf):
                                    other = cell_of(np.nextafter(value, toward), shape_scale[shape])
                                    if other != cell:
                                        child = find_child(shape, other, children)
                                        if child >= 0:
                                            scratch[top] = child
                                            top += 1
                tested += last - first
                for place in range(first, last):
                    # Two sketches of intervals beside each entry save most walks to the code.
                    if sketching:
                        sketch = half_filter[3 * place + 1] if in_half else node_filter[3 * place + 1]
                        if sketch >= 0:
                            mark = scratch[symbols + (sketch >> 22)]
                            if mark < (sketch >> 11) & 2047 or mark > sketch & 2047:
                                continue
                        sketch = half_filter[3 * place + 2] if in_half else node_filter[3 * place + 2]
                        if sketch >= 0:
                            mark = scratch[symbols + (sketch >> 22)]
                            if mark < (sketch >> 11) & 2047 or mark > sketch & 2047:
                                continue
                    # A filter's code: its ordinal, flags and number of literals, then the literals.
                    at = half_filter[3 * place] if in_half else node_filter[3 * place]
                    head = words[at]
                    ordinal = head & 0xFFFFFFFF
                    flags = (head >> 32) & 0xFF
                    left = head >> 40
                    begin_code = at
                    at += 1
                    if len(tally) > 0:
                        tally[ordinal] += 1
                    if by_destination:
                        destination = destinations[ordinal]
                        if destination >= 0 and stamps[symbols + destination] == now:
                            continue
                    accepted = True
                    while left > 0:
                        word = words[at]
                        head = word >> 32
                        argument = word & 0xFFFFFFFF
                        sort = head & 7
                        asked = head >> 10
                        truth = False
                        doubtful = False
                        if sort == RANGE:
                            rank = states[row, asked]
                            if rank == (head >> 3) & 31:
                                value = places[row, asked]
                                truth = code[at + 1] <= value <= code[at + 2]
                            elif rank == INEXACT:
                                doubtful = True
                            at += 2
                        elif sort == EQ:
                            truth = states[row, width + asked] == argument
                        elif sort == KIND:
                            truth = (argument >> states[row, asked]) & 1 == 1
                        elif sort == SYMBOL:
                            truth = stamps[argument] == now
                        elif sort == MEMBER:
                            symbol = states[row, width + asked]
                            if symbol >= 0:
                                low, high = set_start[argument], set_start[argument + 1] - 1
                                while low <= high:
                                    middle = (low + high) >> 1
                                    if set_symbol[middle] < symbol:
                                        low = middle + 1
                                    elif set_symbol[middle] > symbol:
                                        high = middle - 1
                                    else:
                                        truth = True
                                        break
                        elif sort == ANY:
                            for member in range(set_start[argument], set_start[argument + 1]):
                                if stamps[set_symbol[member]] == now:
                                    truth = True
                                    break
                        elif sort == SUBSET:
                            truth = states[row, asked] == SET and within(
                                extras, first_extra, last_extra, asked, set_symbol, set_start, argument
                            )
                        else:
                            doubtful = True  # only Python can say: it passes, negated or not
                        truth = doubtful or truth != ((head >> 8) & 1 == 1)
                        at += 1
                        if flags & BRANCHING == 0:
                            if not truth:
                                accepted = False
                                break
                            left -= 1
                        else:
                            step = words[at] >> 32 if truth else np.int64(np.int32(words[at] & 0xFFFFFFFF))
                            if step < 0:
                                accepted = step == -1
                                break
                            at = begin_code + step
                    if not accepted or (len(died) > 0 and died[ordinal] <= version):
                        continue
                    if flags & OPAQUE_FILTER != 0:
                        counters[1] += 1
                    elif by_destination and destinations[ordinal] >= 0:
                        stamps[symbols + destinations[ordinal]] = now
                    if count == len(out):
                        return row
                    out[count] = ordinal
                    count += 1

        if count - begin > 1:
            count = begin + sorted_distinct(out, begin, count)
        counters[0] += tested
        out_start[row + 1] = count
    return rows


@kernel()
def list_grams(parts, sizes, columns, sorts, starts, pool, mixed, owner, offset):
    """Every gram of every substring: its hash, whose it is and where in it."""
    count = 0
    for each in range(len(parts)):
        symbol, size = parts[each], sizes[each]
        salt = salt_of(columns[symbol], sorts[symbol], size)
        start, end = starts[symbol], starts[symbol + 1]
        for at in range(start, end - size + 1):
            mixed[count] = stirred(rolled(pool, at, at + size), salt)
            owner[count] = symbol
            offset[count] = at - start
            count += 1


@kernel()
def make_gram_table(groups, slots, prints):
    mask = len(slots) - 1
    for group in range(len(groups)):
        at = np.int64(groups[group] & np.uint64(mask))
        while slots[at] >= 0:
            at = (at + 1) & mask
        slots[at] = group
        prints[at] = print_of(groups[group])


@kernel()
def encode(
    starts,
    literals,
    programs,
    flags,
    ordinals,
    jump_true,
    jump_false,
    heads,
    arguments,
    low,
    high,
    code_start,
    code,
):
    """Write the code of every slot: what a kernel reads about a filter lies in one piece."""
    words = code.view(np.int64)
    places = np.zeros(1 << 10, np.int64)
    for slot in range(len(programs)):
        begin, start, end = code_start[slot], starts[slot], starts[slot + 1]
        branching = programs[slot] >= 0
        flag = flags[slot] & 0xFF | (BRANCHING if branching else 0)
        if flag & GRANTED != 0:
            start += 1
        words[begin] = np.int64(ordinals[slot]) | np.int64(flag) << 32 | np.int64(end - start) << 40
        if end - start > len(places):
            places = np.zeros(2 * (end - start), np.int64)
        at = begin + 1
        for each in range(start, end):
            places[each - start] = at - begin
            at += 2 if branching else 1
            if heads[literals[each] >> 1] & 7 == RANGE:
                at += 2
        for each in range(start, end):
            at = begin + places[each - start]
            predicate = literals[each] >> 1
            head = np.int64(heads[predicate]) & ~np.int64(0x300) | np.int64(literals[each] & 1) << 8
            words[at] = head << 32 | np.int64(arguments[predicate])
            at += 1
            if head & 7 == RANGE:
                code[at] = low[arguments[predicate]]
                code[at + 1] = high[arguments[predicate]]
                at += 2
            if branching:
                true, false = (
                    jump_true[programs[slot] + each - start],
                    jump_false[programs[slot] + each - start],
                )
                true_at = places[true] if true >= 0 else np.int64(true)
                false_at = places[false] if false >= 0 else np.int64(false)
                words[at] = true_at << 32 | (false_at & 0xFFFFFFFF)


@kernel()
def copy_texts(starts, letters, text_start, text, slot, slots):
    """Put the strings of one column between those of the others, row by row."""
    for row in range(len(starts) - 1):
        to = text_start[row * slots + slot]
        length = text_start[row * slots + slot + 1] - to
        for at in range(length):
            text[to + at] = letters[starts[row] + at]


@kernel()
def score_slots(directory, ints, low, high, states, places, extras, elements, stamps, scores):
    """The share of literals that are true, for each slot; of a branching program, -1.

    `low` and `high` are the ranges, as places on the line.
    """
    heads = section(ints, directory, PREDICATE_HEAD)
    arguments = ints[directory[PREDICATE_ARGUMENT] :]
    set_start = ints[directory[SET_START] :]
    set_symbol = ints[directory[SET_SYMBOL] :]
    starts = ints[directory[FILTER_START] :]
    literals = ints[directory[FILTER_LITERAL] :]
    programs = ints[directory[FILTER_PROGRAM] :]
    flags = ints[directory[FILTER_FLAGS] :]
    width = states.shape[1] // 2
    now = stamps[len(stamps) - 1]
    truths = np.zeros(len(heads), np.bool_)
    for predicate in range(len(heads)):
        head, argument = heads[predicate], arguments[predicate]
        sort, column = head & 7, head >> 10
        rank, symbol = states[0, column], states[0, width + column]
        if sort == RANGE:
            value = places[0, column]
            truths[predicate] = rank == (head >> 3) & 31 and low[argument] <= value <= high[argument]
        elif sort == EQ:
            truths[predicate] = symbol == argument
        elif sort == KIND:
            truths[predicate] = (argument >> rank) & 1 == 1
        elif sort == SYMBOL:
            truths[predicate] = stamps[argument] == now
        elif sort == SUBSET:
            truths[predicate] = rank == SET and within(
                extras, 0, elements, column, set_symbol, set_start, argument
            )
        elif sort != OPAQUE:
            for at in range(set_start[argument], set_start[argument + 1]):
                member = set_symbol[at]
                if (sort == MEMBER and member == symbol) or (sort == ANY and stamps[member] == now):
                    truths[predicate] = True
                    break
    for slot in range(len(scores)):
        start, end = starts[slot], starts[slot + 1]
        if programs[slot] >= 0:
            scores[slot] = -1.0
            continue
        met = 0
        for at in range(start, end):
            if truths[literals[at] >> 1] != (literals[at] & 1 == 1):
                met += 1
        if end > start:
            scores[slot] = met / (end - start)
        else:
            scores[slot] = 0.0 if flags[slot] & NEVER != 0 else 1.0
