"""Texts: the prefixes, suffixes and substrings of a text that filters mention.

Prefixes and suffixes are looked up by every length that occurs. A substring is found by one of its grams, a few
bytes that are rare; the hash of a window of that size rolls over the text.
"""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# ruff: noqa: PLR0917  (what compiles to good code is flat, and has arrays for arguments)
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from fairlead.kernels import kernel
from fairlead.matching.columnar.compile import STRING, Sort
from fairlead.matching.columnar.kernels.hashing import BASE, print_of, rolled, salt_of, stirred
from fairlead.matching.columnar.kernels.symbols import find_symbol, same

__all__: list[str] = []

PREFIX, SUBSTRING, BINARY = Sort.PREFIX, Sort.SUBSTRING, Sort.BINARY


@kernel(inline=True)
def stamp(symbol, now, stamps, hits, count):
    """Collect a symbol, once."""
    if symbol >= 0 and stamps[symbol] != now:
        stamps[symbol] = now
        hits[count] = symbol
        count += 1
    return count


@kernel(inline=True)
def text_hits(rows, row, texts, symbols, now, stamps, hits, count):
    """Stamp and collect what the texts of a row begin with, end with and contain."""
    entries = len(texts.column)
    slots = 0 if entries == 0 else texts.slot[entries - 1] + 1
    for entry in range(entries):
        at = row * slots + texts.slot[entry]
        start, end = rows.text_start[at], rows.text_start[at + 1]
        if start == end or texts.start[entry] == texts.start[entry + 1]:
            continue
        binary = 0 if rows.states[row, texts.column[entry]] == STRING else BINARY
        sort = texts.sort[entry]
        if sort & BINARY != binary:
            continue
        if sort % BINARY == SUBSTRING:
            count = substrings(rows.text, start, end, entry, texts, symbols, now, stamps, hits, count)
        else:
            count = affixes(rows.text, start, end, entry, texts, symbols, now, stamps, hits, count)
    return count


@kernel()
def affixes(text, start, end, entry, texts, symbols, now, stamps, hits, count):
    """The prefixes, or the suffixes, of a text; their lengths ascend, so one hash grows along."""
    column, sort = texts.column[entry], texts.sort[entry]
    forward = sort % BINARY == PREFIX
    h = np.uint64(0)
    done = 0
    for which in range(texts.start[entry], texts.start[entry + 1]):
        length = texts.length[which]
        if length > end - start:
            break
        for at in range(done, length):
            h = h * BASE + np.uint64((text[start + at] if forward else text[end - 1 - at]) + 1)
        done = length
        first = start if forward else end - length
        symbol = find_symbol(symbols, h, column, sort, text, first, length)
        count = stamp(symbol, now, stamps, hits, count)
    return count


@kernel()
def substrings(text, start, end, entry, texts, symbols, now, stamps, hits, count):
    """The substrings of a text: for each size of grams, a window over all of it."""
    column, sort = texts.column[entry], texts.sort[entry]
    mask = len(texts.gram_table) - 1
    for which in range(texts.start[entry], texts.start[entry + 1]):
        size = texts.length[which]
        if size > end - start:
            continue
        power = np.uint64(1)
        for _ in range(size - 1):
            power = power * BASE
        h = rolled(text, start, start + size)
        salt = salt_of(column, sort, size)
        for at in range(start, end - size + 1):
            if at > start:
                h = (h - np.uint64(text[at - 1] + 1) * power) * BASE + np.uint64(text[at + size - 1] + 1)
            mixed = stirred(h, salt)
            mark = print_of(mixed)
            slot = np.int64(mixed & np.uint64(mask))
            while texts.gram_table[slot] >= 0:
                if texts.gram_print[slot] == mark:
                    group = texts.gram_table[slot]
                    count = around(
                        text, start, end, at, group, column, sort, texts, symbols, now, stamps, hits, count
                    )
                    break
                slot = (slot + 1) & mask
    return count


@kernel(inline=True)
def around(text, start, end, at, group, column, sort, texts, symbols, now, stamps, hits, count):
    """The substrings of a group with one gram that occur in full around it."""
    for each in range(texts.gram_start[group], texts.gram_start[group + 1]):
        symbol = texts.gram_symbol[each]
        first = at - texts.gram_offset[each]
        length = symbols.starts[symbol + 1] - symbols.starts[symbol]
        if (
            stamps[symbol] != now
            and first >= start
            and first + length <= end
            and symbols.columns[symbol] == column
            and symbols.sorts[symbol] == sort
            and same(text, first, symbols.pool, symbols.starts[symbol], length)
        ):
            stamps[symbol] = now
            hits[count] = symbol
            count += 1
    return count


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
    """Fill the open hash table of grams."""
    mask = len(slots) - 1
    for group in range(len(groups)):
        at = np.int64(groups[group] & np.uint64(mask))
        while slots[at] >= 0:
            at = (at + 1) & mask
        slots[at] = group
        prints[at] = print_of(groups[group])


@kernel()
def copy_texts(starts, letters, text_start, text, slot, slots):
    """Put the strings of one column between those of the others, row by row."""
    for row in range(len(starts) - 1):
        to = text_start[row * slots + slot]
        length = text_start[row * slots + slot + 1] - to
        for at in range(length):
            text[to + at] = letters[starts[row] + at]
