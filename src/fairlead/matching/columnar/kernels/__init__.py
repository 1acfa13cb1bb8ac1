"""The kernels: loops over the flat arrays of an index, compiled once per machine.

    matching        the rows of a batch: which filters each of them matches
      access        the ways into an index: values, cells, elements, texts, kinds, bounds
      verification  whether a candidate matches: its code, literal by literal
      patterns      whether a text matches a regular expression, or a subject a pattern
      scanned       a JSON text as a row, matched at once; called by address
    polynomials     columns that are computed from others
    texts           the prefixes, suffixes and substrings that a text has
    symbols         the hash table of the values that filters mention
    grids           cells of intervals, and the nodes below a node
    hashing         the hashes of all of these
    scores          how nearly a row matches every filter
    building        the loops of building an index

A kernel that others call is inlined into them; what they share are the sections of the index (`sections`), as
named tuples. `match_rows` alone has its signature spelled out: it is compiled, or loaded, when it is imported.
"""

from __future__ import annotations

from fairlead.matching.columnar.kernels.building import (
    GRID_SLACK,
    INACCESSIBLE,
    choose,
    encode,
    first_seen,
    number_predicates,
    options,
    pick,
    post,
    sketch,
)
from fairlead.matching.columnar.kernels.grids import make_child_table
from fairlead.matching.columnar.kernels.matching import match_rows
from fairlead.matching.columnar.kernels.polynomials import UNSURE, compute
from fairlead.matching.columnar.kernels.scores import score_slots
from fairlead.matching.columnar.kernels.symbols import (
    find_strings,
    find_symbols,
    locate_strings,
    make_symbol_table,
    rank_bounds,
)
from fairlead.matching.columnar.kernels.texts import copy_texts, list_grams, make_gram_table

__all__ = [
    "GRID_SLACK",
    "INACCESSIBLE",
    "UNSURE",
    "choose",
    "compute",
    "copy_texts",
    "encode",
    "find_strings",
    "find_symbols",
    "first_seen",
    "list_grams",
    "locate_strings",
    "make_child_table",
    "make_gram_table",
    "make_symbol_table",
    "match_rows",
    "number_predicates",
    "options",
    "pick",
    "post",
    "rank_bounds",
    "score_slots",
    "sketch",
]
