"""The layout of an index: three flat arrays and a directory.

A kernel takes four arguments instead of forty (each array that crosses from Python costs a tenth of a
microsecond), and a file of an index is these arrays one after another, so that opening it is mapping it.

`directory[2 * s]` and `directory[2 * s + 1]` are start and length of section s, within `ints`, `reals` or
`pool` by the sort of the section.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BYTE_SECTIONS", "INT_SECTIONS", "REAL_SECTIONS", "SECTIONS"]

INT_SECTIONS: Final = (
    # predicates: sort | rank << 3 | opened << 8 | column << 10, and what it refers to; of symbols, PATTERN
    "predicate_head",
    "predicate_argument",
    "set_start",
    "set_symbol",
    # symbols: interned values, elements and texts, in an open hash table
    "symbol_column",
    "symbol_sort",
    "symbol_start",
    "symbol_print",
    "symbol_table",
    "symbol_node",
    # bounds of ranges of strings and bytes, in order, and where those of each column begin
    "bound_symbol",
    "bound_start",
    # filters, by slot: literals are 2 * predicate + negated
    "filter_start",
    "filter_literal",
    "filter_program",
    "filter_flags",
    "filter_ordinal",
    "jump_true",
    "jump_false",
    # clauses of branching programs: kept for the next merge
    "clause_filter",
    "clause_start",
    "clause_literal",
    # access: nodes (first and last entry, first and last shape by which it is split); an entry is the position of
    # a filter's code and two sketches: column, low and high in eleven bits; -1 is none
    "nodes",
    "entries",
    "shape_column",
    "shape_sort",
    "shape_rank",
    "children",
    "column_shapes",
    # comparisons with one bound: lists of them, sorted by it, whose entries come behind those of the nodes; and
    # the column that their filters compare the other way round (-1: none)
    "half_column",
    "half_rank",
    "half_start",
    "half_partner",
    "kind_column",
    "kind_mask",
    "kind_node",
    "sketch_rank",
    # texts: the columns that have them, the lengths of prefixes and suffixes, grams of substrings
    "text_column",
    "text_slot",
    "text_sort",
    "text_start",
    "text_length",
    "gram_table",
    "gram_print",
    "gram_start",
    "gram_symbol",
    "gram_offset",
    # patterns: their symbols, ascending, the slots of their texts, and where their automata begin (-1: subjects)
    "pattern_symbol",
    "pattern_slot",
    "pattern_start",
    "automata",
    "column_flags",
    # how deep the stack can get
    "extent",
)
REAL_SECTIONS: Final = (
    "range_low",
    "range_high",
    "code",
    "shape_scale",
    "half_bound",
    "half_slack",
    "sketch_least",
    "sketch_scale",
)
"""`code` holds whole numbers as well: eight bytes each, as a kernel takes them."""
BYTE_SECTIONS: Final = ("pool",)
SECTIONS: Final = INT_SECTIONS + REAL_SECTIONS + BYTE_SECTIONS

PATTERN: Final = 1 << 9
"""A flag of a predicate on a symbol, and of its literals: the symbol is a pattern, run when it is asked."""

# Flags of a filter; above them, plus three, the sort of predicate by which it is found.
OPAQUE_FILTER: Final = 1
"""Some literal has to be asked in Python: what the kernel lets through are candidates."""
NEVER: Final = 2
GRANTED: Final = 4
"""The first literal is true whenever the filter is found, so it need not be verified."""

BRANCHING: Final = 8
"""The literals say where to go on; else all of them must be true."""

# Flags of a column: what the row has to say about it.
HAS_VALUES: Final = 1
HAS_RANGES: Final = 2
HAS_ELEMENTS: Final = 4
HAS_TEXTS: Final = 8
HAS_BOUNDS: Final = 16
"""Strings or bytes are compared with bounds; HAS_RANGES is for numbers and instants."""

BY_VALUE: Final = 0
BY_CELL: Final = 1
"""The sorts of shapes by which a node is split."""
