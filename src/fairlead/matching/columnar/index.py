"""The base: an immutable index over any number of filters, three flat arrays that kernels walk.

Law: an index finds a filter for a row iff the filter's program accepts it, with two exceptions that it says of
itself: filters with opaque parts, and rows with a number that no float stands for, come out as candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.filters.filter import Filter
from fairlead.filters.terms import Length
from fairlead.matching.columnar import kernels
from fairlead.matching.columnar.access import Observed, Tree, hang
from fairlead.matching.columnar.compile import (
    ANY,
    EQ,
    MEMBER,
    RANGE,
    SUBSET,
    SYMBOL,
    TEXTUAL,
    Program,
    Sort,
)
from fairlead.matching.columnar.layout import (
    BYTE_SECTIONS,
    GRANTED,
    HAS_BOUNDS,
    HAS_ELEMENTS,
    HAS_RANGES,
    HAS_TEXTS,
    HAS_VALUES,
    INT_SECTIONS,
    OPAQUE_FILTER,
    PATTERN,
    REAL_SECTIONS,
    SECTIONS,
)
from fairlead.matching.columnar.patterns import automaton_in
from fairlead.matching.columnar.table import (
    Ints,
    Ledger,
    Reals,
    Table,
    bound_starts,
    closed_ranges,
    compacted,
    joined,
    operands_of,
    selected,
)

__all__ = ["Index"]

_FROM_TABLE: Final = tuple(each.name for each in fields(Table) if each.name not in ("columns", "opaques"))
_FROM_TREE: Final = tuple(
    each.name for each in fields(Tree) if each.name not in ("table", "ordinal", "paths", "stack_max")
)
GRAM_MAX: Final = 16
PROGRAMS_MAX: Final = 4_096


class Index:
    """Filters in slots, in the order of their access paths; `ordinal` is their number in the order of addition."""

    def __init__(  # noqa: PLR0917  (the arrays, in the order of the file)
        self,
        columns: Sequence[Any],
        opaques: Sequence[Filter],
        directory: NDArray[np.int64],
        ints: Ints,
        reals: NDArray[np.float64],
        pool: NDArray[np.uint8],
    ) -> None:
        self.columns = tuple(columns) or (Length(),)
        self.opaques = tuple(opaques)
        self.directory, self.ints, self.reals, self.pool = directory, ints, reals, pool
        self.stack_max = int(self.section("extent")[0])
        self._programs: dict[int, Program] = {}

    def __len__(self) -> int:
        return len(self.section("filter_ordinal"))

    def section(self, name: str) -> NDArray[Any]:
        """A section by its name, as a view."""
        at = 2 * SECTIONS.index(name)
        start, length = int(self.directory[at]), int(self.directory[at + 1])
        whole = self.ints if name in INT_SECTIONS else self.reals if name in REAL_SECTIONS else self.pool
        return whole[start : start + length]

    @property
    def nbytes(self) -> int:
        """The memory of the arrays."""
        return self.directory.nbytes + self.ints.nbytes + self.reals.nbytes + self.pool.nbytes

    @cached_property
    def table(self) -> Table:
        """The programs, as views of the sections."""
        sections = {name: self.section(name) for name in _FROM_TABLE}
        return Table(columns=self.columns, opaques=self.opaques, **sections)

    @cached_property
    def slot_of(self) -> Ints:
        """The slot of each ordinal."""
        slots = np.empty(len(self), np.int32)
        slots[self.section("filter_ordinal")] = np.arange(len(self), dtype=np.int32)
        return slots

    def program(self, ordinal: int) -> Program:
        """The program of a filter that is evaluated in Python; the latest are cached."""
        found = self._programs.get(ordinal)
        if found is None:
            if len(self._programs) >= PROGRAMS_MAX:
                self._programs.clear()
            found = self._programs[ordinal] = self.table.program(int(self.slot_of[ordinal]))
        return found

    @cached_property
    def range_ends(self) -> tuple[Reals, Reals]:
        """The ends of all ranges on the line."""
        return closed_ranges(self.table)

    def bounds(self, column: int) -> Reals:
        """The numbers that ranges on a column begin or end with."""
        table = self.table
        ranged = (table.predicate_head & 7 == RANGE) & (table.predicate_head >> 10 == column)
        argument = table.predicate_argument[ranged]
        found: Reals = np.concatenate((table.range_low[argument], table.range_high[argument]))
        return found[np.isfinite(found)]

    @cached_property
    def opaque(self) -> NDArray[np.bool_]:
        """Whether the filter of an ordinal has opaque parts."""
        flags = self.section("filter_flags")[self.slot_of]
        found: NDArray[np.bool_] = flags & OPAQUE_FILTER != 0
        return found

    @cached_property
    def patterned(self) -> NDArray[np.bool_]:
        """Whether the filter of an ordinal has patterns."""
        table = self.table
        patterns = (table.predicate_head & 7 == SYMBOL) & (table.predicate_head & PATTERN != 0)
        found = np.zeros(len(self), np.bool_)
        found[self._owners(patterns)] = True
        return found

    @cached_property
    def has_opaque(self) -> bool:
        return bool(self.opaque.any())

    def asking(self, column: int) -> list[int]:
        """The ordinals of the filters with predicates on a column."""
        ordinals: list[int] = self._owners(self.table.predicate_head >> 10 == column).tolist()
        return ordinals

    def _owners(self, predicates: NDArray[np.bool_]) -> Ints:
        """The ordinals of the filters that have one of these predicates."""
        table = self.table
        owner = np.repeat(np.arange(len(table)), np.diff(table.filter_start))
        ordinals: Ints = self.section("filter_ordinal")[
            np.unique(owner[predicates[table.filter_literal >> 1]])
        ]
        return ordinals

    # -- building ------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, programs: Sequence[Program]) -> Index:
        """An index of programs, in the order in which they were added."""
        ledger = Ledger()
        for program in programs:
            ledger.add(program)
        return cls.build(ledger.table())

    @classmethod
    def build(cls, table: Table, observed: Observed | None = None) -> Index:
        """An index of the programs of a table."""
        return cls._built(compacted(table), observed)

    @classmethod
    def _built(cls, table: Table, observed: Observed | None) -> Index:
        low, high = closed_ranges(table)
        tree = hang(replace(table, range_low=low, range_high=high), observed)
        code_start, code = _code(tree.table, tree.ordinal)
        table = replace(tree.table, range_low=table.range_low, range_high=table.range_high)
        sections: dict[str, NDArray[Any]] = {
            **{name: getattr(table, name) for name in _FROM_TABLE},
            "bound_start": bound_starts(table),
            **{name: getattr(tree, name) for name in _FROM_TREE},
            **_texts(table),
            **_symbol_table(table),
            "code": code,
            "entries": _located(tree.entries, code_start),
            "filter_ordinal": tree.ordinal,
            "filter_flags": table.filter_flags | (tree.paths + 3) << 8,
            "column_flags": _column_flags(table),
            "extent": np.array([tree.stack_max], np.int32),
        }
        return cls(table.columns, table.opaques, *_packed(sections))

    def merged(self, alive: NDArray[Any], newcomers: Table, observed: Observed | None = None) -> Index:
        """The index of the programs with these ordinals, ascending, and of further ones behind them.

        What was observed is by the symbols of this index, and is passed on to the next.
        """
        survivors = selected(self.table, self.slot_of[alive])
        table = compacted(joined(survivors, newcomers, self._find, _ranked))
        if observed is not None:
            known = self._find(table)
            hits = np.append(observed.hits, 0)  # the last one for symbols that are new
            observed = Observed(observed.rows, hits[known])
        return Index._built(table, observed)

    def _find(self, table: Table) -> Ints:
        found = np.empty(len(table.symbol_sort), np.int32)
        kernels.find_symbols(
            self.directory,
            self.ints,
            self.pool,
            table.symbol_column,
            table.symbol_sort,
            table.symbol_start,
            table.pool,
            found,
        )
        return found


def _ranked(table: Table, bounds: Ints, known: Table) -> Ints:
    ranks = np.empty(len(bounds), np.int32)
    kernels.rank_bounds(
        table.symbol_column,
        table.symbol_sort,
        table.symbol_start,
        table.pool,
        bounds,
        known.symbol_column,
        known.symbol_sort,
        known.symbol_start,
        known.pool,
        known.bound_symbol,
        ranks,
    )
    return ranks


def _packed(
    sections: dict[str, NDArray[Any]],
) -> tuple[NDArray[np.int64], Ints, NDArray[np.float64], NDArray[np.uint8]]:
    directory = np.zeros(2 * len(SECTIONS), np.int64)
    wholes: list[NDArray[Any]] = []
    for names, dtype in ((INT_SECTIONS, np.int32), (REAL_SECTIONS, np.float64), (BYTE_SECTIONS, np.uint8)):
        size = sum(len(sections[name]) for name in names)
        whole = np.empty(size, dtype)
        at = 0
        for name in names:
            section = sections[name]
            entry = 2 * SECTIONS.index(name)
            directory[entry], directory[entry + 1] = at, len(section)
            whole[at : at + len(section)] = section
            at += len(section)
        wholes.append(whole)
    return directory, *wholes  # type: ignore[return-value]


def _code(table: Table, ordinals: Ints) -> tuple[Ints, NDArray[np.float64]]:
    """The start of the code of each slot, and the code."""
    sizes = 1 + 2 * (table.predicate_head & 7 == RANGE).astype(np.int32)
    size = np.append(0, np.cumsum(sizes[table.filter_literal >> 1]))
    starts = table.filter_start
    count = 1 + size[starts[1:]] - size[starts[:-1]]
    count += np.where(table.filter_program >= 0, np.diff(starts), 0)
    granted = np.flatnonzero(table.filter_flags & GRANTED)
    count[granted] -= sizes[table.filter_literal[starts[granted]] >> 1]
    code_start = np.append(0, np.cumsum(count)).astype(np.int32)
    code = np.zeros(int(code_start[-1]))
    kernels.encode(
        starts,
        table.filter_literal,
        table.filter_program,
        table.filter_flags,
        ordinals,
        table.jump_true,
        table.jump_false,
        table.predicate_head,
        table.predicate_argument,
        table.range_low,
        table.range_high,
        code_start,
        np.empty(int(np.diff(starts).max(initial=0)), np.int64),
        code,
    )
    return code_start[:-1], code


def _located(entries: Ints, code_start: Ints) -> Ints:
    """Entries with the positions of codes instead of slots."""
    entries[::3] = code_start[entries[::3]]
    return entries


def _symbol_table(table: Table) -> dict[str, NDArray[Any]]:
    symbols = len(table.symbol_sort)
    size = 1 << max(1, (2 * symbols).bit_length())
    slots, prints = np.full(size, -1, np.int32), np.zeros(symbols, np.int32)
    kernels.make_symbol_table(
        table.symbol_column, table.symbol_sort, table.symbol_start, table.pool, slots, prints
    )
    return {"symbol_table": slots, "symbol_print": prints}


def _column_flags(table: Table) -> Ints:
    """The questions of predicates about each column, as flags, so that a row need not say more than that."""
    flags = np.zeros(max(1, len(table.columns)), np.int32)
    sort, column = table.predicate_head & 7, table.predicate_head >> 10
    for asked, flag in ((EQ, HAS_VALUES), (MEMBER, HAS_VALUES), (ANY, HAS_ELEMENTS)):
        flags[column[sort == asked]] |= flag
    textual = np.isin(table.predicate_head >> 3 & 31, TEXTUAL)
    flags[column[(sort == RANGE) & textual]] |= HAS_BOUNDS
    flags[column[(sort == RANGE) & ~textual]] |= HAS_RANGES
    flags[column[sort == SUBSET]] |= HAS_ELEMENTS
    symbols = table.predicate_argument[sort == SYMBOL]
    element = table.symbol_sort[symbols] & (Sort.ELEMENT | Sort.BINARY) == Sort.ELEMENT
    flags[table.symbol_column[symbols[element]]] |= HAS_ELEMENTS
    flags[table.symbol_column[symbols[~element]]] |= HAS_TEXTS
    number_of = {term: number for number, term in enumerate(table.columns)}
    for term in table.columns:
        for operand in operands_of(term):  # its numbers are computed with, exact or not
            flags[number_of[operand]] |= HAS_RANGES
    return flags


# -- texts -------------------------------------------------------------------------------------------------


def _texts(table: Table) -> dict[str, NDArray[Any]]:
    """The lengths of prefixes and suffixes in each column, and the grams by which substrings are found.

    A substring is found by its rarest gram, of 1, 2, 4, 8 or 16 bytes: the longest size that it has room for.
    """
    sort = table.symbol_sort
    patterns = np.flatnonzero(np.isin(sort, Sort.PATTERNS)).astype(np.int32)
    textual = (sort & Sort.ELEMENT == 0) & (sort % Sort.BINARY >= Sort.PREFIX)
    textual[np.isin(sort, (*Sort.PATTERNS, Sort.PATH))] = False
    length = np.diff(table.symbol_start)
    # A column with patterns needs its texts, though nothing is looked up in them.
    entries: list[tuple[int, int, list[int]]] = [
        (column, Sort.REGEX, []) for column in np.unique(table.symbol_column[patterns]).tolist()
    ]
    for column, kind in np.unique(
        np.stack((table.symbol_column[textual], sort[textual]), axis=1), axis=0
    ).tolist():
        lengths = np.unique(length[(table.symbol_column == column) & (sort == kind)])
        if kind % Sort.BINARY == Sort.SUBSTRING:
            lengths = np.unique(_gram_size(lengths))
        entries.append((column, kind, lengths.tolist()))
    entries.sort()
    columns = sorted({column for column, _, _ in entries})
    starts = np.cumsum([0, *(len(lengths) for _, _, lengths in entries)])
    parts = np.flatnonzero(textual & (sort % Sort.BINARY == Sort.SUBSTRING)).astype(np.int32)
    return {
        "text_column": np.array([column for column, _, _ in entries], np.int32),
        "text_slot": np.array([columns.index(column) for column, _, _ in entries], np.int32),
        "text_sort": np.array([kind for _, kind, _ in entries], np.int32),
        "text_start": starts.astype(np.int32),
        "text_length": np.array([size for _, _, lengths in entries for size in lengths], np.int32),
        **_grams(table, parts, length[parts]),
        **_patterns(table, patterns, columns),
    }


def _patterns(table: Table, patterns: Ints, columns: Sequence[int]) -> dict[str, NDArray[Any]]:
    """The patterns by symbol: the slots of their texts, and the automata of regular expressions."""
    pool, bounds = table.pool, table.symbol_start
    automata = [
        automaton_in(pool[bounds[symbol] : bounds[symbol + 1]].tobytes())
        if table.symbol_sort[symbol] == Sort.REGEX
        else b""
        for symbol in patterns.tolist()
    ]
    sizes = np.array([len(each) // 4 for each in automata], np.int32)
    return {
        "pattern_symbol": patterns,
        "pattern_slot": np.searchsorted(columns, table.symbol_column[patterns]).astype(np.int32),
        "pattern_start": np.where(sizes > 0, np.cumsum(sizes) - sizes, -1).astype(np.int32),
        "automata": np.frombuffer(b"".join(automata), np.int32),
    }


def _gram_size(lengths: NDArray[Any]) -> Ints:
    sizes: Ints = (1 << np.floor(np.log2(np.clip(lengths, 1, GRAM_MAX))).astype(np.int32)).astype(np.int32)
    return sizes


def _grams(table: Table, parts: Ints, lengths: Ints) -> dict[str, NDArray[Any]]:
    sizes = _gram_size(lengths)
    total = int((lengths - sizes + 1).sum())
    mixed, owner, offset = np.empty(total, np.uint64), np.empty(total, np.int32), np.empty(total, np.int32)
    kernels.list_grams(
        parts,
        sizes,
        table.symbol_column,
        table.symbol_sort,
        table.symbol_start,
        table.pool,
        mixed,
        owner,
        offset,
    )
    _, which, counts = np.unique(mixed, return_inverse=True, return_counts=True)
    rarest_first = np.lexsort((offset, counts[which], owner))
    _, first = np.unique(owner[rarest_first], return_index=True)
    chosen = rarest_first[first]
    chosen = chosen[np.argsort(mixed[chosen], kind="stable")]
    groups, heads = np.unique(mixed[chosen], return_index=True)
    size = 1 << max(1, (2 * len(groups)).bit_length())
    slots, prints = np.full(size, -1, np.int32), np.zeros(size, np.int32)
    kernels.make_gram_table(groups, slots, prints)
    return {
        "gram_table": slots,
        "gram_print": prints,
        "gram_start": np.append(heads, len(chosen)).astype(np.int32),
        "gram_symbol": owner[chosen],
        "gram_offset": offset[chosen],
    }
