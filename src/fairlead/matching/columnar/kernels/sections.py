"""The sections of an index, cut out of its flat arrays and grouped by the kernels that read them."""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairlead.kernels import kernel
from fairlead.matching.columnar.layout import SECTIONS

__all__: list[str] = []

AT = {name: np.int64(2 * number) for number, name in enumerate(SECTIONS)}
"""The index in the directory at which the beginning of each section is written. A plain `int` would be a type
of its own for numba: it would compile a kernel for each."""
_SET_START, _SET_SYMBOL, _CODE = AT["set_start"], AT["set_symbol"], AT["code"]
_SYMBOL_TABLE, _SYMBOL_PRINT = AT["symbol_table"], AT["symbol_print"]
_SYMBOL_COLUMN, _SYMBOL_SORT, _SYMBOL_START = AT["symbol_column"], AT["symbol_sort"], AT["symbol_start"]
_SYMBOL_NODE, _NODES, _ENTRIES, _CHILDREN = AT["symbol_node"], AT["nodes"], AT["entries"], AT["children"]
_SHAPE_COLUMN, _SHAPE_SORT, _SHAPE_RANK = AT["shape_column"], AT["shape_sort"], AT["shape_rank"]
_SHAPE_SCALE, _COLUMN_SHAPES = AT["shape_scale"], AT["column_shapes"]
_HALF_COLUMN, _HALF_RANK, _HALF_START = AT["half_column"], AT["half_rank"], AT["half_start"]
_HALF_BOUND, _HALF_PARTNER, _HALF_SLACK = AT["half_bound"], AT["half_partner"], AT["half_slack"]
_KIND_COLUMN, _KIND_MASK, _KIND_NODE = AT["kind_column"], AT["kind_mask"], AT["kind_node"]
_SKETCH_RANK, _SKETCH_LEAST, _SKETCH_SCALE = AT["sketch_rank"], AT["sketch_least"], AT["sketch_scale"]
_TEXT_COLUMN, _TEXT_SLOT, _TEXT_SORT = AT["text_column"], AT["text_slot"], AT["text_sort"]
_TEXT_START, _TEXT_LENGTH = AT["text_start"], AT["text_length"]
_GRAM_TABLE, _GRAM_PRINT, _GRAM_START = AT["gram_table"], AT["gram_print"], AT["gram_start"]
_GRAM_SYMBOL, _GRAM_OFFSET = AT["gram_symbol"], AT["gram_offset"]
_PATTERN_SYMBOL, _PATTERN_SLOT = AT["pattern_symbol"], AT["pattern_slot"]
_PATTERN_START, _AUTOMATA = AT["pattern_start"], AT["automata"]


@kernel(inline=True, counted=True)
def section(whole, directory, at):
    """A section of an index."""
    return whole[directory[at] : directory[at] + directory[at + 1]]


class Symbols(NamedTuple):
    """The symbols and the hash table that finds them."""

    table: Any
    prints: Any
    columns: Any
    sorts: Any
    starts: Any
    pool: Any


@kernel(inline=True, counted=True)
def symbols_of(directory, ints, pool):
    return Symbols(
        section(ints, directory, _SYMBOL_TABLE),
        section(ints, directory, _SYMBOL_PRINT),
        section(ints, directory, _SYMBOL_COLUMN),
        section(ints, directory, _SYMBOL_SORT),
        section(ints, directory, _SYMBOL_START),
        pool,
    )


class Texts(NamedTuple):
    """The columns with texts to search, the lengths of prefixes and suffixes, the grams of substrings."""

    column: Any
    slot: Any
    sort: Any
    start: Any
    length: Any
    gram_table: Any
    gram_print: Any
    gram_start: Any
    gram_symbol: Any
    gram_offset: Any


@kernel(inline=True, counted=True)
def texts_of(directory, ints):
    return Texts(
        section(ints, directory, _TEXT_COLUMN),
        section(ints, directory, _TEXT_SLOT),
        section(ints, directory, _TEXT_SORT),
        section(ints, directory, _TEXT_START),
        section(ints, directory, _TEXT_LENGTH),
        section(ints, directory, _GRAM_TABLE),
        section(ints, directory, _GRAM_PRINT),
        section(ints, directory, _GRAM_START),
        section(ints, directory, _GRAM_SYMBOL),
        section(ints, directory, _GRAM_OFFSET),
    )


class Patterns(NamedTuple):
    """The symbols that are patterns, the slots of their texts, and the patterns themselves."""

    symbol: Any
    slot: Any
    start: Any
    automata: Any
    text_slots: Any
    """The number of slots of texts that a row has."""
    content_start: Any
    pool: Any


@kernel(inline=True, counted=True)
def patterns_of(directory, ints, pool):
    slots = section(ints, directory, _TEXT_SLOT)
    return Patterns(
        section(ints, directory, _PATTERN_SYMBOL),
        section(ints, directory, _PATTERN_SLOT),
        section(ints, directory, _PATTERN_START),
        section(ints, directory, _AUTOMATA),
        0 if len(slots) == 0 else slots[-1] + 1,
        section(ints, directory, _SYMBOL_START),
        pool,
    )


class Access(NamedTuple):
    """The nodes, and what leads to them."""

    symbol_node: Any
    nodes: Any
    children: Any
    shape_column: Any
    shape_sort: Any
    shape_rank: Any
    shape_scale: Any
    column_shapes: Any
    half_column: Any
    half_rank: Any
    half_start: Any
    half_bound: Any
    half_partner: Any
    half_slack: Any
    kind_column: Any
    kind_mask: Any
    kind_node: Any


@kernel(inline=True, counted=True)
def access_of(directory, ints, reals):
    return Access(
        section(ints, directory, _SYMBOL_NODE),
        section(ints, directory, _NODES),
        section(ints, directory, _CHILDREN),
        section(ints, directory, _SHAPE_COLUMN),
        section(ints, directory, _SHAPE_SORT),
        section(ints, directory, _SHAPE_RANK),
        section(reals, directory, _SHAPE_SCALE),
        section(ints, directory, _COLUMN_SHAPES),
        section(ints, directory, _HALF_COLUMN),
        section(ints, directory, _HALF_RANK),
        section(ints, directory, _HALF_START),
        section(reals, directory, _HALF_BOUND),
        section(ints, directory, _HALF_PARTNER),
        section(reals, directory, _HALF_SLACK),
        section(ints, directory, _KIND_COLUMN),
        section(ints, directory, _KIND_MASK),
        section(ints, directory, _KIND_NODE),
    )


class Entries(NamedTuple):
    """The entries of nodes, the sketches beside them, and the code of their filters."""

    entries: Any
    sketch_rank: Any
    sketch_least: Any
    sketch_scale: Any
    code: Any
    words: Any
    set_start: Any
    set_symbol: Any


@kernel(inline=True, counted=True)
def entries_of(directory, ints, reals):
    code = section(reals, directory, _CODE)
    return Entries(
        section(ints, directory, _ENTRIES),
        section(ints, directory, _SKETCH_RANK),
        section(reals, directory, _SKETCH_LEAST),
        section(reals, directory, _SKETCH_SCALE),
        code,
        code.view(np.int64),
        section(ints, directory, _SET_START),
        section(ints, directory, _SET_SYMBOL),
    )


class Rows(NamedTuple):
    """The values of rows in the columns: ranks and symbols, coordinates, elements, texts."""

    states: Any
    coordinates: Any
    extra_start: Any
    extras: Any
    text_start: Any
    text: Any


class Collector(NamedTuple):
    """The filters that count, and the output of matches."""

    died: Any
    version: Any
    destinations: Any
    stamps: Any
    symbols: Any
    """The number of stamps that are those of symbols; those of destinations come behind them."""
    out: Any
    counters: Any
    tally: Any
