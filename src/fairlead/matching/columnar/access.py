"""The choice of access: what each filter hangs on, and how long lists are split (book 3.2, clustering).

A filter is a candidate whenever what it hangs on is there, so it should hang on what is there least often:
`chance` guesses how often a predicate is true, from the values that filters ask for and, as notifications come
by, from the values that these have. The filters on one value make a node. Where a node is long, because its
value is popular or because there is nothing better, its filters are split by another of their predicates, and
so on: a tree of hash tables, like the BE-tree's partitions (Sadoghi and Jacobsen), built in one pass per level.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.matching.columnar.compile import (
    ANY,
    BYTES,
    EQ,
    KIND,
    MEMBER,
    NUMBER,
    OPAQUE,
    RANGE,
    STRING,
    SYMBOL,
    TIME,
    Sort,
)
from fairlead.matching.columnar.kernels import (
    GRID_SLACK,
    INACCESSIBLE,
    choose,
    first_seen,
    make_child_table,
    options,
    pick,
    post,
    sketch,
)
from fairlead.matching.columnar.layout import BY_CELL, BY_VALUE, GRANTED, NEVER, PATTERN
from fairlead.matching.columnar.table import Ints, Reals, Table, selected, spread

__all__ = ["Observed", "Tree", "chances", "hang"]

LONG: Final = 256
"""Nodes with more filters than this are split."""
DEPTH_MAX: Final = 5
OBSERVED_MIN: Final = 256
"""From so many notifications on, what they have counts for more than what filters ask for."""

# Codes of shapes: a column and how it is asked; for cells the line (see `_lines`) and the grid's level.
_CELLS: Final = 1 << 31
_LEVELS: Final = 2048
_PARTNERS: Final = 1 << 30
"""Of a list of bounds: times this, the partner (see `_Postings`) and how far away its bounds are."""
_LINES: Final = (NUMBER, TIME, STRING, BYTES)
"""The kinds whose values lie on a line."""


def _lines(heads: Ints) -> NDArray[np.int64]:
    """For the heads of ranges, the numbers of the lines they are on: a column and a kind."""
    kind = np.zeros(32, np.int64)
    kind[list(_LINES)] = np.arange(len(_LINES))
    lines: NDArray[np.int64] = (heads >> 10).astype(np.int64) * len(_LINES) + kind[heads >> 3 & 31]
    return lines


@dataclass(slots=True)
class Observed:
    """Statistics of notifications: how many were read, and how many of them had each symbol."""

    rows: int
    hits: NDArray[np.int64]


def chances(table: Table, observed: Observed | None = None) -> Reals:
    """The estimated probability of each predicate, between 0 and 1."""
    sort, argument = table.predicate_head & 7, table.predicate_argument
    uses = np.bincount(table.filter_literal >> 1, minlength=len(sort)).astype(np.float64)
    symbol = _symbol_chances(table, sort, argument, uses)
    if observed is not None and observed.rows >= OBSERVED_MIN:
        seen = (
            table.symbol_sort & (Sort.PREFIX | Sort.BINARY) == 0
        )  # values and elements; texts are not counted
        symbol = np.where(seen, (observed.hits + 0.25) / (observed.rows + 1.0), symbol)
    chance: Reals = np.full(len(sort), 0.5)
    chance[sort == KIND] = 0.9
    named = (sort == EQ) | (sort == SYMBOL)
    chance[named] = symbol[argument[named]]
    grouped = (sort == MEMBER) | (sort == ANY)
    if grouped.any():
        totals = np.add.reduceat(np.append(symbol[table.set_symbol], 0.0), table.set_start[:-1])
        chance[grouped] = totals[argument[grouped]]
    ranged = np.flatnonzero(sort == RANGE)
    if len(ranged):
        chance[ranged] = _range_chances(
            _lines(table.predicate_head[ranged]),
            table.range_low[argument[ranged]],
            table.range_high[argument[ranged]],
        )
    np.clip(chance, 1e-9, 1.0, out=chance)
    return chance


def _symbol_chances(table: Table, sort: Ints, argument: Ints, uses: Reals) -> Reals:
    """Filters ask for what notifications have: a symbol's share among those of its column and sort."""
    asked = np.zeros(len(table.symbol_sort))
    named = (sort == EQ) | (sort == SYMBOL)
    np.add.at(asked, argument[named], uses[named])
    for member_sort in (MEMBER, ANY):
        grouped = np.flatnonzero(sort == member_sort)
        if len(grouped):
            sets = argument[grouped]
            lengths = np.diff(table.set_start)[sets]
            members = table.set_symbol[spread(table.set_start[sets], lengths)]
            np.add.at(asked, members, np.repeat(uses[grouped], lengths))
    family = table.symbol_column.astype(np.int64) * 256 + table.symbol_sort
    _, member_of = np.unique(family, return_inverse=True)
    totals = np.bincount(member_of, asked) if len(asked) else asked
    share: Reals = asked / np.maximum(totals[member_of], 1.0)
    return share


def _range_chances(line: NDArray[np.int64], low: Reals, high: Reals) -> Reals:
    """The share of an interval in the stretch that all bounds on the line span."""
    size = int(line.max()) + 1
    least, most = np.full(size, np.inf), np.full(size, -np.inf)
    for bound in (low, high):
        finite = np.isfinite(bound)
        np.minimum.at(least, line[finite], bound[finite])
        np.maximum.at(most, line[finite], bound[finite])
    first, last = least[line], most[line]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        share = (np.minimum(high, last) - np.maximum(low, first)) / (last - first)
    share = np.where(np.isfinite(share), share, 0.5)
    bounded = np.isfinite(low) & np.isfinite(high)
    # A comparison with one bound cannot be split further, and values beyond all bounds are likely.
    chance: Reals = np.where(bounded, np.clip(share, 1e-4, 1.0), np.clip(share * 1.5 + 0.05, 0.0, 1.0))
    return chance


# -- shapes ------------------------------------------------------------------------------------------------


def levels(low: Reals, high: Reals) -> Ints:
    """The exponent of the grid for an interval, which touches two to five of its cells.

    Exponents are even, so that few grids need to be asked; the cells are never finer than the floats around
    the interval are apart.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.abs(high - low)
    magnitude = np.maximum(np.abs(low), np.abs(high))
    exponent = np.maximum(np.frexp(width)[1], np.frexp(magnitude)[1] - 48)
    exponent = np.clip(np.where(np.isfinite(width), exponent, 1000), -900, 1000)
    level: Ints = ((exponent - 1) // 2 * 2).astype(np.int32)
    return level


@dataclass(slots=True)
class Tree:
    """The access structure, as sections of the index."""

    table: Table
    ordinal: Ints
    paths: Ints
    """By which sort of predicate each slot is found; -1 always, -2 never, -3 by several."""
    symbol_node: Ints
    nodes: Ints
    entries: Ints
    shape_column: Ints
    shape_sort: Ints
    shape_rank: Ints
    shape_scale: Reals
    children: Ints
    column_shapes: Ints
    half_column: Ints
    half_rank: Ints
    half_start: Ints
    half_bound: Reals
    half_partner: Ints
    half_slack: Reals
    sketch_rank: Ints
    sketch_least: Reals
    sketch_scale: Reals
    kind_column: Ints
    kind_mask: Ints
    kind_node: Ints
    stack_max: int


def hang(table: Table, observed: Observed | None = None) -> Tree:
    """Choose what each filter hangs on, put the filters into that order, and split what is long."""
    shapes = _Shapes.of(table, chances(table, observed))
    literal, chosen = _chosen(table, shapes)
    postings = _Postings.of(table, literal, chosen, shapes)

    # Filters are put into the order in which they are found, so that a node's filters lie side by side.
    slot_of = np.full(len(table), -1, np.int32)
    first_seen(postings.owner, slot_of)
    by_slot = np.argsort(slot_of, kind="stable").astype(np.int32)
    table = selected(replace(table, filter_literal=literal), by_slot)
    chosen = chosen[by_slot]
    postings.owner = slot_of[postings.owner]
    granted, paths = _granted(table, chosen, shapes)
    flags = table.filter_flags & 0xFF & ~GRANTED | np.where(granted, GRANTED, 0).astype(np.int32)
    return _Growth(replace(table, filter_flags=flags), by_slot, paths, chosen, shapes).tree(postings)


@dataclass(slots=True)
class _Shapes:
    """For each predicate: its sort and chance, and the grid that a bounded range is kept in."""

    sort: Ints
    chance: Reals
    bounded: NDArray[np.bool_]
    code: NDArray[np.int64]
    scale: Reals
    low: Reals
    high: Reals

    @classmethod
    def of(cls, table: Table, chance: Reals) -> _Shapes:
        sort, code = table.predicate_head & 7, (table.predicate_head >> 10).astype(np.int64)
        size = len(sort)
        low, high = np.full(size, -np.inf), np.full(size, np.inf)
        ranged = np.flatnonzero(sort == RANGE)
        low[ranged] = table.range_low[table.predicate_argument[ranged]]
        high[ranged] = table.range_high[table.predicate_argument[ranged]]
        bounded = (sort == RANGE) & np.isfinite(low) & np.isfinite(high)
        level, scale = levels(low[bounded], high[bounded]), np.ones(size)
        scale[bounded] = np.ldexp(1.0, -level)
        code[bounded] = _CELLS + _lines(table.predicate_head[bounded]) * _LEVELS + level + _LEVELS // 2
        return cls(sort, chance, bounded, code, scale, low, high)


def _chosen(table: Table, shapes: _Shapes) -> tuple[Ints, Ints]:
    """The literals in the order of verification, and what each filter hangs on.

    For a conjunction that is its first literal (0), for a branching program the number of a clause; -1 where
    there is nothing, so that it is a candidate always.
    """
    predicate = table.filter_literal >> 1
    negative = table.filter_literal & 1 == 1
    likely = np.where(negative, 1.0 - shapes.chance[predicate], shapes.chance[predicate])
    pattern = (shapes.sort == SYMBOL) & (table.predicate_head & PATTERN != 0)
    likely[pattern[predicate]] = 1.5  # what costs more to ask comes later
    likely[shapes.sort[predicate] == OPAQUE] = 2.0
    accessible = (np.isin(shapes.sort, _ACCESSIBLE) & ~pattern)[predicate] & ~negative
    slack = np.where(shapes.bounded, GRID_SLACK, 1.0)[predicate]
    cost = np.where(accessible, likely * slack, INACCESSIBLE)
    clause_of = np.searchsorted(table.clause_filter, np.arange(len(table) + 1)).astype(np.int32)
    literal, chosen = table.filter_literal.copy(), np.empty(len(table), np.int32)
    choose(
        table.filter_start,
        literal,
        likely,
        cost,
        table.filter_program,
        clause_of,
        table.clause_start,
        table.clause_literal,
        chosen,
    )
    chosen[table.filter_flags & NEVER != 0] = _NEVER
    return literal, chosen


_ACCESSIBLE: Final = (KIND, EQ, MEMBER, RANGE, SYMBOL, ANY)
_EXACT: Final = (KIND, EQ, MEMBER, SYMBOL, ANY)
_NEVER: Final = -2


def _granted(table: Table, chosen: Ints, shapes: _Shapes) -> tuple[NDArray[np.bool_], Ints]:
    """Whether being found proves the first literal, and by which sort of predicate a slot is found."""
    plain = (chosen == 0) & (table.filter_program < 0)
    first = np.zeros(len(table), np.int64)
    first[plain] = table.filter_literal[table.filter_start[:-1][plain]] >> 1
    if not len(shapes.sort):
        return plain, np.where(chosen == _NEVER, -2, -1).astype(np.int32)
    sort = shapes.sort[first]
    paths = np.where(plain, sort, np.where(chosen == _NEVER, -2, np.where(chosen < 0, -1, -3)))
    exact = np.isin(sort, _EXACT) | ((sort == RANGE) & ~shapes.bounded[first])
    return plain & exact, paths.astype(np.int32)


@dataclass(slots=True)
class _Postings:
    """The postings of filters, sorted: by value, by cell, by kind, or by a bound."""

    how: NDArray[np.int8]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    bound: Reals
    owner: Ints
    slack: Reals
    """Of a bound: how far it is from that of a comparison the other way round."""

    @classmethod
    def of(cls, table: Table, literal: Ints, chosen: Ints, shapes: _Shapes) -> _Postings:
        arguments = (
            table.filter_start,
            literal,
            table.filter_program,
            chosen,
            table.clause_start,
            table.clause_literal,
            table.predicate_head,
            table.predicate_argument,
            table.set_start,
            table.set_symbol,
            shapes.code,
            shapes.scale,
            shapes.low,
            shapes.high,
        )
        none = np.empty(0, np.int64)
        size = post(*arguments, np.empty(0, np.int8), none, none, np.empty(0), np.empty(0, np.int32))
        made = cls(
            np.empty(size, np.int8),
            np.empty(size, np.int64),
            np.zeros(size, np.int64),
            np.zeros(size),
            np.empty(size, np.int32),
            np.zeros(size),
        )
        post(*arguments, made.how, made.first, made.second, made.bound, made.owner)
        made._find_partners(table, literal, shapes)
        order = np.lexsort((made.owner, made.bound, made.second, made.first, made.how))
        return cls(
            made.how[order],
            made.first[order],
            made.second[order],
            made.bound[order],
            made.owner[order],
            made.slack[order],
        )

    def _find_partners(self, table: Table, literal: Ints, shapes: _Shapes) -> None:
        """Tell apart, among the bounds that filters hang on, by what the filters compare the other way round.

        `A <= d and B >= c`: whoever finds d from A on finds no c beyond B, so no d beyond B + (d - c). The nearest
        c is taken, and bounds whose c is about as far away make one list.
        """
        halves = np.flatnonzero(self.how == _BY_BOUND)
        predicate = literal >> 1
        at = np.flatnonzero(
            (shapes.sort[predicate] == RANGE) & ~shapes.bounded[predicate] & (literal & 1 == 0)
        )
        filters = np.repeat(np.arange(len(table)), np.diff(table.filter_start))[at]
        starts = np.searchsorted(filters, np.arange(len(table) + 1))
        owner = self.owner[halves]
        counts = np.where(table.filter_program[owner] < 0, np.diff(starts)[owner], 0)
        half = np.repeat(np.arange(len(halves)), counts)
        other = predicate[at[spread(starts[owner], counts)]]
        is_upper = np.isfinite(shapes.high[other])
        head = table.predicate_head[other]
        is_partner = (self.first[halves][half] & 31) == (head >> 3 & 31)
        is_partner &= (self.first[halves][half] & 32 == 0) == is_upper
        half, other, is_upper = half[is_partner], other[is_partner], is_upper[is_partner]
        bound = self.bound[halves][half]
        with np.errstate(over="ignore", invalid="ignore"):
            apart = np.where(is_upper, shapes.high[other] - bound, bound - shapes.low[other])
        order = np.lexsort((table.predicate_head[other], np.abs(apart), half))
        half, other, apart = half[order], other[order], np.nextafter(apart[order], np.inf)
        chosen, heads = np.unique(half, return_index=True)
        usable = np.isfinite(apart[heads])
        chosen, heads = chosen[usable], heads[usable]
        partner = (table.predicate_head[other[heads]] >> 10).astype(np.int64) + 1
        level = levels(np.zeros(len(heads)), apart[heads]) + _LEVELS // 2
        self.first[halves[chosen]] += (partner * _LEVELS + level) * _PARTNERS
        self.slack[halves[chosen]] = apart[heads]


class _Growth:
    """A tree while it grows, level by level."""

    def __init__(self, table: Table, ordinal: Ints, paths: Ints, chosen: Ints, shapes: _Shapes) -> None:
        self._table, self._ordinal, self._paths = table, ordinal, paths
        self._chosen, self._shapes = chosen, shapes
        self._nodes = 0
        self._codes: list[NDArray[np.int64]] = []
        self._holders: list[NDArray[np.int64]] = []
        self._children: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._settled: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._ruler = _Ruler.of(table)

    def tree(self, postings: _Postings) -> Tree:
        table = self._table
        columns = max(1, len(table.columns))
        at_half = int(np.searchsorted(postings.how, _BY_BOUND))
        how, first, second = postings.how[:at_half], postings.first[:at_half], postings.second[:at_half]
        node, heads = _groups(how, first, second)
        self._nodes = len(heads)

        by_symbol = np.flatnonzero(how[heads] == _BY_SYMBOL)
        symbol_node = np.full(len(table.symbol_sort), -1, np.int32)
        symbol_node[first[heads[by_symbol]]] = by_symbol
        by_cell = np.flatnonzero(how[heads] == _BY_GRID)
        codes, shape = np.unique(first[heads[by_cell]], return_inverse=True)
        self._codes.append(codes)
        self._holders.append(np.full(len(codes), -1, np.int64))
        self._children.append((shape, second[heads[by_cell]], by_cell))
        by_kind = np.flatnonzero(how[heads] == _BY_KIND)

        owner = postings.owner[:at_half]
        used = np.where((self._chosen[owner] == 0) & (table.filter_program[owner] < 0), 1, 0)
        self._split(node, owner, used.astype(np.uint64))

        half, half_heads = _groups(postings.first[at_half:])
        half_key, half_partner = np.divmod(postings.first[at_half:][half_heads], _PARTNERS)[::-1]
        slack = np.maximum.reduceat(postings.slack[at_half:], half_heads) if len(half) else np.empty(0)
        node_start, listed = self._lists()
        halves = self._sketched(postings.owner[at_half:], np.ones(len(half), np.uint64))
        shape_code = np.concatenate(self._codes)
        holder = np.concatenate(self._holders)
        cells = shape_code >= _CELLS
        grid = (shape_code - _CELLS) // _LEVELS
        shape_column = np.where(cells, grid // len(_LINES), shape_code)
        level = np.where(cells, (shape_code - _CELLS) % _LEVELS - _LEVELS // 2, 0)
        roots = len(codes)
        node_shapes = np.searchsorted(holder[roots:], np.arange(self._nodes + 1)) + roots
        column_shapes = np.searchsorted(shape_column[:roots], np.arange(columns + 1))
        widest = int(np.diff(node_shapes).max(initial=0))
        return Tree(
            table=table,
            ordinal=self._ordinal,
            paths=self._paths,
            symbol_node=symbol_node,
            nodes=np.stack((node_start[:-1], node_start[1:], node_shapes[:-1], node_shapes[1:]), axis=1)
            .astype(np.int32)
            .reshape(-1),
            entries=np.concatenate((listed, halves)),
            shape_column=shape_column.astype(np.int32),
            shape_sort=np.where(cells, BY_CELL, BY_VALUE).astype(np.int32),
            shape_rank=np.array(_LINES, np.int32)[np.where(cells, grid % len(_LINES), 0)],
            shape_scale=np.ldexp(1.0, -level),
            children=self._child_table(),
            column_shapes=column_shapes.astype(np.int32),
            half_column=(half_key >> 8).astype(np.int32),
            half_rank=(half_key & 255).astype(np.int32),
            half_start=(np.append(half_heads, len(half)) + len(listed) // 3).astype(np.int32),
            half_bound=postings.bound[at_half:],
            half_partner=(half_partner // _LEVELS - 1).astype(np.int32),
            half_slack=slack,
            sketch_rank=self._ruler.rank,
            sketch_least=self._ruler.least,
            sketch_scale=self._ruler.scale,
            kind_column=(first[heads[by_kind]] >> 32).astype(np.int32),
            kind_mask=(first[heads[by_kind]] & 0xFFFFFFFF).astype(np.int32),
            kind_node=by_kind.astype(np.int32),
            stack_max=columns + 3 * roots + len(by_kind) + len(half_heads) + 3 * widest * (DEPTH_MAX + 1),
        )

    def _split(self, node: NDArray[Any], slot: Ints, used: NDArray[np.uint64]) -> None:
        """Split the long nodes by what their filters ask besides, again and again."""
        table, shapes = self._table, self._shapes
        room = _ROOM * len(table)
        for _ in range(DEPTH_MAX):
            long = np.bincount(node, minlength=1)[node] > LONG if len(node) else np.zeros(0, np.bool_)
            self._settled.append((node[~long], slot[~long], used[~long]))
            node, slot, used = node[long].astype(np.int64), slot[long], used[long]
            if not len(node):
                return
            arguments = (
                node,
                slot,
                used,
                table.filter_start,
                table.filter_literal,
                table.filter_program,
                shapes.sort,
                shapes.bounded,
                shapes.code,
                shapes.chance,
            )
            none = np.empty(0, np.int32)
            size = options(*arguments, none, none, np.empty(0, np.int64))
            entry, position = np.empty(size, np.int32), np.empty(size, np.int32)
            key = np.empty(size, np.int64)
            options(*arguments, entry, position, key)
            _, which, counts = np.unique(key, return_inverse=True, return_counts=True)
            choice = np.full(len(node), -1, np.int32)
            pick(
                entry,
                position,
                counts[which],
                slot,
                table.filter_start,
                table.filter_literal,
                shapes.sort,
                shapes.chance,
                np.full(len(choice), _WORTH),
                choice,
            )
            moving = np.flatnonzero(choice >= 0)
            self._settled.append((node[choice < 0], slot[choice < 0], used[choice < 0]))
            if not len(moving):
                return
            option = choice[moving]
            predicate = table.filter_literal[table.filter_start[slot[moving]] + position[option]] >> 1
            by_cell = shapes.bounded[predicate]
            scale = shapes.scale[predicate]
            from_cell = np.where(by_cell, np.floor(shapes.low[predicate] * scale), 0)
            to_cell = np.where(by_cell, np.floor(shapes.high[predicate] * scale), 0)
            from_cell, to_cell = np.minimum(from_cell, to_cell), np.maximum(from_cell, to_cell)
            copies = (to_cell - from_cell).astype(np.int64) + 1
            room -= int(copies.sum())
            if room < 0:  # a pathological mix: longer lists are better than unbounded memory
                self._settled.append((node[moving], slot[moving], used[moving]))
                return
            codes, shape = np.unique(key[option], return_inverse=True)
            base = sum(map(len, self._codes))
            self._codes.append(codes & 0xFFFFFFFF)
            self._holders.append(codes >> 32)
            symbol = np.where(by_cell, 0, table.predicate_argument[predicate])
            content = spread(np.where(by_cell, from_cell, symbol).astype(np.int64), copies)
            shape = np.repeat(shape + base, copies)
            slot = np.repeat(slot[moving], copies)
            used = np.repeat(used[moving] | (np.uint64(1) << position[option].astype(np.uint64)), copies)
            order = np.lexsort((slot, content, shape))
            shape, content, slot, used = shape[order], content[order], slot[order], used[order]
            node, heads = _groups(shape, content)
            node = node + self._nodes
            self._children.append((shape[heads], content[heads], np.arange(len(heads)) + self._nodes))
            self._nodes += len(heads)
        self._settled.append((node, slot, used))

    def _lists(self) -> tuple[Ints, Ints]:
        """The filters of each node with their sketches, one list after another."""
        node, slot, used = (np.concatenate(parts) for parts in zip(*self._settled, strict=True))
        order = np.lexsort((slot, node))
        start = np.searchsorted(node[order], np.arange(self._nodes + 1))
        return start.astype(np.int32), self._sketched(slot[order].astype(np.int32), used[order])

    def _sketched(self, slot: Ints, used: NDArray[np.uint64]) -> Ints:
        """Triples: a slot and the sketches of two intervals that the way to it says nothing about."""
        table, shapes, ruler = self._table, self._shapes, self._ruler
        entries = np.full((len(slot), 3), -1, np.int32)
        entries[:, 0] = slot
        sketch(
            slot,
            used,
            table.filter_start,
            table.filter_literal,
            table.filter_program,
            table.predicate_head,
            shapes.low,
            shapes.high,
            ruler.rank,
            ruler.least,
            ruler.scale,
            entries,
        )
        return entries.reshape(-1)

    def _child_table(self) -> Ints:
        shape = np.concatenate([each for each, _, _ in self._children]).astype(np.int64)
        content = np.concatenate([each for _, each, _ in self._children]).astype(np.int64)
        number = np.concatenate([each for _, _, each in self._children]).astype(np.int32)
        table = np.full(4 << (2 * len(shape)).bit_length(), -1, np.int32)
        make_child_table(shape, content, number, table)
        return table


@dataclass(slots=True)
class _Ruler:
    """The sketch of each column's numbers: the stretch between all bounds, in equal parts."""

    rank: Ints
    least: Reals
    scale: Reals

    @classmethod
    def of(cls, table: Table) -> _Ruler:
        width = max(1, len(table.columns))
        least, most = np.full(width, np.inf), np.full(width, -np.inf)
        rank = np.full(width, -2, np.int32)  # no value has this rank
        ranged = np.flatnonzero(table.predicate_head & 7 == RANGE)
        column, ranks = table.predicate_head[ranged] >> 10, table.predicate_head[ranged] >> 3 & 31
        rank[column] = ranks  # where a column has several kinds, the last one met is sketched
        sketched = rank[column] == ranks
        for bounds in (table.range_low, table.range_high):
            bound = bounds[table.predicate_argument[ranged]]
            finite = sketched & np.isfinite(bound)
            np.minimum.at(least, column[finite], bound[finite])
            np.maximum.at(most, column[finite], bound[finite])
        rank[SKETCHED_MAX:] = -2
        with np.errstate(all="ignore"):
            scale = 2047.0 / (most - least)
        usable = np.isfinite(least) & np.isfinite(scale)
        return cls(rank, np.where(usable, least, 0.0), np.where(usable, scale, 0.0))


SKETCHED_MAX: Final = 512
"""A sketch has nine bits for the column."""

_WORTH: Final = 0.6
"""A split must leave less than this share of an entry's work."""
_ROOM: Final = 16
"""The number of entries per filter that the splitting may make in all."""

_BY_SYMBOL, _BY_GRID, _BY_KIND, _BY_BOUND = range(4)


def _groups(*keys: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For sorted keys: the number of the run of equal ones that each belongs to, and where runs begin."""
    if not len(keys[0]):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    fresh = np.zeros(len(keys[0]), np.bool_)
    fresh[0] = True
    for key in keys:
        fresh[1:] |= key[1:] != key[:-1]
    return np.cumsum(fresh) - 1, np.flatnonzero(fresh)
