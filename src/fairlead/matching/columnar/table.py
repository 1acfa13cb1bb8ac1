"""The table: programs as plain arrays, in no particular order of access.

A `Ledger` writes programs down one by one, in Python; it interns columns, symbols, sets and predicates, so that
what many filters share is there once. Its `Table` is what an index is built from, and what is left of an old
index when the next one is built: `joined` puts the survivors of the one and the programs of the other together,
and drops what nobody refers to any more.

A range of strings or bytes has symbols for bounds, kept in order beside the symbols. Which places on the line that
makes depends on all bounds there are: `placed` says it when an index is built.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.filters.filter import Filter
from fairlead.filters.terms import Attribute, Polynomial
from fairlead.matching.columnar.compile import (
    ANY,
    BYTES,
    EQ,
    KIND,
    MEMBER,
    NUMBER,
    OPAQUE,
    RANGE,
    SUBSET,
    SYMBOL,
    TEXTUAL,
    TIME,
    Literal,
    Predicate,
    Program,
    Sort,
    is_pattern,
)
from fairlead.matching.columnar.kernels import number_predicates
from fairlead.matching.columnar.layout import NEVER, OPAQUE_FILTER, PATTERN
from fairlead.matching.columnar.patterns import pattern_bytes, regex_of, subject_of
from fairlead.model import Kind
from fairlead.model.values import RANK

if TYPE_CHECKING:
    from fairlead.matching.columnar.forms import Conjunction, FormLiteral

__all__ = [
    "Ledger",
    "Table",
    "bound_starts",
    "closed_ranges",
    "compacted",
    "content_bytes",
    "content_of",
    "joined",
    "operands_of",
    "selected",
    "spread",
]

Ints = NDArray[np.int32]
Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Table:
    """Programs in arrays; the names are those of the sections of an index."""

    columns: tuple[Any, ...]
    opaques: tuple[Filter, ...]
    symbol_column: Ints
    symbol_sort: Ints
    symbol_start: Ints
    pool: NDArray[np.uint8]
    bound_symbol: Ints
    """The symbols that are bounds, by column, sort and content."""
    set_start: Ints
    set_symbol: Ints
    predicate_head: Ints
    predicate_argument: Ints
    range_low: Reals
    range_high: Reals
    """Numbers; for strings and bytes the numbers of symbols, or infinity for none."""
    filter_start: Ints
    filter_literal: Ints
    filter_program: Ints
    filter_flags: Ints
    jump_true: Ints
    jump_false: Ints
    clause_filter: Ints
    clause_start: Ints
    clause_literal: Ints

    def __len__(self) -> int:
        return len(self.filter_start) - 1

    # -- reading a program back ----------------------------------------------------------------------------

    def symbol(self, number: int) -> tuple[int, Any]:
        sort = int(self.symbol_sort[number])
        start, end = int(self.symbol_start[number]), int(self.symbol_start[number + 1])
        return sort, content_of(sort, self.pool[start:end].tobytes())

    def predicate(self, number: int) -> Predicate:
        head, argument = int(self.predicate_head[number]), int(self.predicate_argument[number])
        sort = head & 7
        if sort == OPAQUE:
            return Predicate(sort, None, self.opaques[argument])
        term = self.columns[head >> 10]
        if sort == KIND:
            return Predicate(sort, term, argument)
        if sort in (EQ, SYMBOL):
            return Predicate(sort, term, self.symbol(argument))
        if sort == RANGE:
            rank, opened = head >> 3 & 31, (bool(head >> 8 & 1), bool(head >> 9 & 1))
            bounds: tuple[Any, ...] = float(self.range_low[argument]), float(self.range_high[argument])
            if rank in TEXTUAL:
                bounds = tuple(self.symbol(int(bound))[1] if isfinite(bound) else None for bound in bounds)
            return Predicate(sort, term, (rank, *bounds), opened)
        members = self.set_symbol[self.set_start[argument] : self.set_start[argument + 1]]
        return Predicate(sort, term, frozenset(self.symbol(int(member)) for member in members))

    def literals(self, slot: int) -> list[Literal]:
        found = self.filter_literal[self.filter_start[slot] : self.filter_start[slot + 1]]
        return [(self.predicate(int(literal) >> 1), bool(literal & 1)) for literal in found]

    def program(self, slot: int) -> Program:
        """The program in a slot; it accepts what the filter matched that it was made from."""
        flags, start = int(self.filter_flags[slot]), int(self.filter_program[slot])
        literals = tuple(self.literals(slot))
        opaque = bool(flags & OPAQUE_FILTER)
        if flags & NEVER:
            return Program((), never=True)
        if start < 0:
            return Program(literals, opaque=opaque)
        end = start + len(literals)
        true, false = self.jump_true[start:end].tolist(), self.jump_false[start:end].tolist()
        return Program(literals, tuple(zip(true, false, strict=True)), None, opaque)


def content_bytes(content: Any) -> bytes:
    """The content of a symbol as the pool keeps it: strings in UTF-8, where parts stay parts."""
    if type(content) is str:
        return content.encode()
    if type(content) is float:
        return struct.pack("<d", content)
    return content if type(content) is bytes else pattern_bytes(content)


def content_of(sort: int, data: bytes) -> Any:
    """The content of a symbol of this sort that the pool keeps as these bytes."""
    if sort in Sort.PATTERNS:
        return regex_of(data) if sort == Sort.REGEX else subject_of(data)
    rank = sort % Sort.ELEMENT
    if Sort.BINARY <= sort < Sort.BOUND or rank in (BYTES, _NULL):
        return data
    if len(data) == 8 and rank in (NUMBER, TIME, _BOOLEAN):
        return struct.unpack("<d", data)[0]
    return data.decode()


_NULL: Final = RANK[Kind.NULL]
_BOOLEAN: Final = RANK[Kind.BOOLEAN]


# -- writing programs down ---------------------------------------------------------------------------------


class Ledger:
    """Programs, written down one after the other."""

    def __init__(self) -> None:
        self._columns: dict[Any, int] = {}
        self._symbols: dict[tuple[int, int, Any], int] = {}
        self._symbol_column, self._symbol_sort = array("i"), array("i")
        self._symbol_start = array("i", [0])
        self._pool = bytearray()
        self._sets: dict[tuple[int, ...], int] = {}
        self._set_start, self._set_symbol = array("i", [0]), array("i")
        self._predicates: dict[tuple[int, int], int] = {}
        self._opaques: list[Filter] = []
        self._head, self._argument = array("i"), array("i")
        self._low, self._high = array("d"), array("d")
        self._start, self._literal = array("i", [0]), array("i")
        self._program, self._flags = array("i"), array("i")
        self._true, self._false = array("i"), array("i")
        self._clause_filter, self._clause_start = array("i"), array("i", [0])
        self._clause_literal = array("i")
        self.order: NDArray[Any] | None = None
        """The number of each program's entry, where programs were not written down in their order."""

    def __len__(self) -> int:
        return len(self._program)

    def add(self, program: Program) -> None:
        number = len(self._program)
        for predicate, negative in program.literals:
            self._literal.append(2 * self._predicate(predicate) + negative)
        self._start.append(len(self._literal))
        self._flags.append(OPAQUE_FILTER * program.opaque | NEVER * program.never)
        if program.jumps is None:
            self._program.append(-1)
            return
        self._program.append(len(self._true))
        for true, false in program.jumps:
            self._true.append(true)
            self._false.append(false)
        for clause in program.clauses or ():
            self._clause_filter.append(number)
            self._clause_literal.extend(clause)
            self._clause_start.append(len(self._clause_literal))

    def add_form(self, form: Conjunction) -> None:
        """Many conjunctions of one form."""
        count, width = len(form.rows), len(form.literals)
        literals = np.empty((count, width), np.int32)
        for at, each in enumerate(form.literals):
            literals[:, at] = 2 * self._predicates_of(each, form) + each.negative
        self._start.frombytes(_i32(self._start[-1] + width * np.arange(1, count + 1)))
        self._literal.frombytes(literals.tobytes())
        self._flags.frombytes(bytes(4 * count))
        self._program.frombytes(_i32(np.full(count, -1)))

    def _predicates_of(self, literal: FormLiteral, form: Conjunction) -> NDArray[Any]:
        """The predicates that a literal of a form is in each of its texts."""
        predicate, values, count = literal.predicate, literal.values, len(form.rows)
        if all(each.literal is None for each in values):
            return np.full(count, self._predicate(predicate))
        if predicate.sort == RANGE:
            low, high = map(form.numbers, values)
            low_open, high_open = predicate.opened
            first, argument = len(self._head), len(self._low)
            self._low.frombytes((np.nextafter(low, inf) if low_open else low).tobytes())
            self._high.frombytes((np.nextafter(high, -inf) if high_open else high).tobytes())
            head = _range_head(self._column(predicate.term), predicate.content[0], predicate.opened)
            self._head.frombytes(_i32(np.full(count, head)))
            self._argument.frombytes(_i32(argument + np.arange(count)))
            return first + np.arange(count)
        [value] = values
        assert value.literal is not None
        column = form.columns[value.literal]
        if isinstance(column, np.ndarray):
            numbers, codes = np.unique(form.numbers(value), return_inverse=True)
            distinct = numbers.tolist()
        else:
            distinct, codes = column.dictionary.to_pylist(), column.indices.to_numpy()
        sort = predicate.content[0]
        predicates = [self._predicate(predicate._replace(content=(sort, each))) for each in distinct]
        made: NDArray[Any] = np.array(predicates, np.int64)[codes]
        return made

    def _predicate(self, predicate: Predicate) -> int:
        sort, term, content, opened = predicate
        column = 0 if sort == OPAQUE else self._column(term)
        if sort == RANGE:  # mostly distinct: the table finds the equal ones more cheaply
            rank, low, high = content
            if rank in TEXTUAL:
                low = -inf if low is None else self._symbol(column, Sort.BOUND + rank, low)
                high = inf if high is None else self._symbol(column, Sort.BOUND + rank, high)
            self._low.append(low)
            self._high.append(high)
            self._head.append(_range_head(column, rank, opened))
            self._argument.append(len(self._low) - 1)
            return len(self._head) - 1
        head = sort | column << 10
        if sort == KIND:
            argument = content
        elif sort == OPAQUE:
            argument = len(self._opaques)
            self._opaques.append(content)
        elif sort in (EQ, SYMBOL):
            argument = self._symbol(column, *content)
            head |= PATTERN * is_pattern(predicate)
        else:
            argument = self._set(tuple(sorted(self._symbol(column, *symbol) for symbol in content)))
        found = self._predicates.setdefault((head, argument), len(self._head))
        if found == len(self._head):
            self._head.append(head)
            self._argument.append(argument)
        return found

    def _column(self, term: Any) -> int:
        found = self._columns.get(term)
        if found is None:
            for each in operands_of(term):
                self._columns.setdefault(each, len(self._columns))
            found = self._columns[term] = len(self._columns)
        return found

    def _symbol(self, column: int, sort: int, content: Any) -> int:
        found = self._symbols.setdefault((column, sort, content), len(self._symbol_sort))
        if found == len(self._symbol_sort):
            self._symbol_column.append(column)
            self._symbol_sort.append(sort)
            self._pool += content_bytes(content)
            self._symbol_start.append(len(self._pool))
        return found

    def _set(self, members: tuple[int, ...]) -> int:
        found = self._sets.setdefault(members, len(self._sets))
        if found == len(self._set_start) - 1:
            self._set_symbol.extend(members)
            self._set_start.append(len(self._set_symbol))
        return found

    def _bounds(self) -> Ints:
        """The symbols that are bounds, in order; the order of their bytes is that of strings."""
        column, sort, start = self._symbol_column, self._symbol_sort, self._symbol_start
        bounds = np.flatnonzero(np.frombuffer(sort, np.int32) >= Sort.BOUND).tolist() if sort else []
        bounds.sort(
            key=lambda symbol: (
                column[symbol],
                sort[symbol],
                bytes(self._pool[start[symbol] : start[symbol + 1]]),
            )
        )
        return np.array(bounds, np.int32)

    def table(self) -> Table:
        """The table of all entries. The ledger must not change afterwards: the arrays are shared."""

        def ints(numbers: array[int]) -> Ints:
            return np.frombuffer(numbers, np.int32) if len(numbers) else np.empty(0, np.int32)

        def reals(numbers: array[float]) -> Reals:
            return np.frombuffer(numbers, np.float64) if len(numbers) else np.empty(0, np.float64)

        table = Table(
            columns=tuple(self._columns),
            opaques=tuple(self._opaques),
            symbol_column=ints(self._symbol_column),
            symbol_sort=ints(self._symbol_sort),
            symbol_start=ints(self._symbol_start),
            pool=np.frombuffer(self._pool, np.uint8) if self._pool else np.empty(0, np.uint8),
            bound_symbol=self._bounds(),
            set_start=ints(self._set_start),
            set_symbol=ints(self._set_symbol),
            predicate_head=ints(self._head),
            predicate_argument=ints(self._argument),
            range_low=reals(self._low),
            range_high=reals(self._high),
            filter_start=ints(self._start),
            filter_literal=ints(self._literal),
            filter_program=ints(self._program),
            filter_flags=ints(self._flags),
            jump_true=ints(self._true),
            jump_false=ints(self._false),
            clause_filter=ints(self._clause_filter),
            clause_start=ints(self._clause_start),
            clause_literal=ints(self._clause_literal),
        )
        return table if self.order is None else selected(table, self.order)


def _range_head(column: int, rank: int, opened: tuple[bool, bool]) -> int:
    return RANGE | rank << 3 | opened[0] << 8 | opened[1] << 9 | column << 10


def _i32(numbers: NDArray[Any]) -> bytes:
    return numbers.astype(np.int32).tobytes()


# -- putting tables together -------------------------------------------------------------------------------

Find = Callable[[Table], Ints]
"""The numbers that an older table has given to the symbols of a newer one; -1 where it has none."""


Rank = Callable[[Table, Ints, Table], Ints]
"""For the bounds with these numbers in a table: before which of another table's bounds they belong."""


def joined(old: Table, new: Table, find: Find, rank: Rank) -> Table:
    """The programs of two tables, those of the old one first."""
    columns = {term: number for number, term in enumerate(old.columns)}
    # Opaque predicates are about no column in particular; they count as about the first.
    column_of = np.array([columns.setdefault(term, len(columns)) for term in new.columns] or [0], np.int32)
    renamed = replace(new, symbol_column=_through(column_of, new.symbol_column))
    symbol_of = find(renamed)
    fresh = np.flatnonzero(symbol_of < 0)
    symbol_of[fresh] = len(old.symbol_sort) + np.arange(len(fresh), dtype=np.int32)
    fresh_start, fresh_bytes = gathered(new.symbol_start, fresh)

    sort = new.predicate_head & 7
    argument = new.predicate_argument.copy()
    names = (sort == EQ) | (sort == SYMBOL)
    argument[names] = _through(symbol_of, argument[names])
    argument[(sort == MEMBER) | (sort == ANY) | (sort == SUBSET)] += len(old.set_start) - 1
    argument[sort == RANGE] += len(old.range_low)
    argument[sort == OPAQUE] += len(old.opaques)
    textual = textual_ranges(new)
    low, high = (_renamed(bounds, textual, symbol_of) for bounds in (new.range_low, new.range_high))
    head = (new.predicate_head & 1023) | (_through(column_of, new.predicate_head >> 10) << 10)
    programs = np.where(new.filter_program < 0, -1, new.filter_program + len(old.jump_true))
    return Table(
        columns=tuple(columns),
        opaques=old.opaques + new.opaques,
        symbol_column=_both(old.symbol_column, renamed.symbol_column[fresh]),
        symbol_sort=_both(old.symbol_sort, new.symbol_sort[fresh]),
        symbol_start=_starts(old.symbol_start, fresh_start),
        pool=np.concatenate((old.pool, new.pool[fresh_bytes])),
        bound_symbol=_with_bounds(old, renamed, symbol_of, rank),
        set_start=_starts(old.set_start, new.set_start),
        set_symbol=_both(old.set_symbol, _through(symbol_of, new.set_symbol)),
        predicate_head=_both(old.predicate_head, head),
        predicate_argument=_both(old.predicate_argument, argument),
        range_low=np.concatenate((old.range_low, low)),
        range_high=np.concatenate((old.range_high, high)),
        filter_start=_starts(old.filter_start, new.filter_start),
        filter_literal=_both(old.filter_literal, new.filter_literal + 2 * len(old.predicate_head)),
        filter_program=_both(old.filter_program, programs),
        filter_flags=_both(old.filter_flags, new.filter_flags),
        jump_true=_both(old.jump_true, new.jump_true),
        jump_false=_both(old.jump_false, new.jump_false),
        clause_filter=_both(old.clause_filter, new.clause_filter + len(old)),
        clause_start=_starts(old.clause_start, new.clause_start),
        clause_literal=_both(old.clause_literal, new.clause_literal),
    )


def _with_bounds(old: Table, new: Table, symbol_of: Ints, rank: Rank) -> Ints:
    """The bounds of both tables in order; the columns of the new one are named as in the old."""
    bounds = new.bound_symbol[symbol_of[new.bound_symbol] >= len(old.symbol_sort)]
    if not len(bounds):
        return old.bound_symbol
    bounds = bounds[np.lexsort((new.symbol_sort[bounds], new.symbol_column[bounds]))]
    return np.insert(old.bound_symbol, rank(new, bounds, old), symbol_of[bounds])


def textual_ranges(table: Table) -> NDArray[np.bool_]:
    """The ranges with symbols for bounds."""
    found = np.zeros(len(table.range_low), np.bool_)
    textual = (table.predicate_head & 7 == RANGE) & np.isin(table.predicate_head >> 3 & 31, TEXTUAL)
    found[table.predicate_argument[textual]] = True
    return found


def _renamed(bounds: Reals, textual: NDArray[np.bool_], symbol_of: NDArray[Any]) -> Reals:
    """Bounds of ranges where symbols have got other numbers."""
    named = textual & np.isfinite(bounds)
    if not named.any():
        return bounds
    bounds = bounds.copy()
    bounds[named] = symbol_of[bounds[named].astype(np.int64)]
    return bounds


def closed_ranges(table: Table) -> tuple[Reals, Reals]:
    """The low and the high ends of all ranges as closed intervals on the line.

    Of strings and bytes, bound k of a column has the place 2k + 1, and what lies between it and the next one has
    2k + 2: so a value's place is the number of bounds below it plus the number of bounds up to it.
    """
    textual = textual_ranges(table)
    if not textual.any():
        return table.range_low, table.range_high
    starts = bound_starts(table)
    bounds = table.bound_symbol
    coordinate_of = np.zeros(len(table.symbol_sort))
    coordinate_of[bounds] = 2 * (np.arange(len(bounds)) - starts[_line(table, bounds)]) + 1
    low, high = (_renamed(ends, textual, coordinate_of) for ends in (table.range_low, table.range_high))
    predicate = np.flatnonzero(table.predicate_head & 7 == RANGE)
    opened = np.zeros(len(low), np.int32)
    opened[table.predicate_argument[predicate]] = table.predicate_head[predicate] >> 8 & 3
    return low + (textual & (opened & 1 != 0)), high - (textual & (opened & 2 != 0))


def bound_starts(table: Table) -> Ints:
    """The start of the bounds of each column: those of strings, then those of bytes."""
    lines = np.arange(2 * max(1, len(table.columns)) + 1)
    return np.searchsorted(_line(table, table.bound_symbol), lines).astype(np.int32)


def _line(table: Table, bounds: Ints) -> Ints:
    line: Ints = 2 * table.symbol_column[bounds] + (table.symbol_sort[bounds] == Sort.BOUND + BYTES)
    return line


def selected(table: Table, slots: NDArray[Any]) -> Table:
    """The programs in these slots, in this order; what they refer to stays as it is."""
    starts, positions = gathered(table.filter_start, slots)
    branching = np.flatnonzero(table.filter_program[slots] >= 0)
    lengths = np.diff(table.filter_start)[slots[branching]]
    program = np.full(len(slots), -1, np.int32)
    program[branching] = np.cumsum(lengths) - lengths
    jumps = spread(table.filter_program[slots[branching]], lengths)
    slot_of = np.full(len(table), -1, np.int32)
    slot_of[slots] = np.arange(len(slots), dtype=np.int32)
    clauses = np.flatnonzero(slot_of[table.clause_filter] >= 0) if len(table.clause_filter) else _NONE
    clauses = clauses[np.argsort(slot_of[table.clause_filter[clauses]], kind="stable")]
    clause_start, clause_places = gathered(table.clause_start, clauses)
    return replace(
        table,
        filter_start=starts,
        filter_literal=table.filter_literal[positions],
        filter_program=program,
        filter_flags=table.filter_flags[slots],
        jump_true=table.jump_true[jumps],
        jump_false=table.jump_false[jumps],
        clause_filter=slot_of[table.clause_filter[clauses]],
        clause_start=clause_start,
        clause_literal=table.clause_literal[clause_places],
    )


def compacted(table: Table) -> Table:
    """The same programs; equal predicates are one, numbered as they are first used; nothing is left unused."""
    representatives, literal_of = _distinct_predicates(table)
    head, argument = table.predicate_head[representatives], table.predicate_argument[representatives].copy()
    sort = head & 7

    ranges = np.flatnonzero(sort == RANGE)
    range_used = argument[ranges]
    textual = textual_ranges(table)[range_used]
    low, high = table.range_low[range_used], table.range_high[range_used]
    argument[ranges] = np.arange(len(ranges), dtype=np.int32)

    grouped = np.flatnonzero((sort == MEMBER) | (sort == ANY) | (sort == SUBSET))
    sets, set_of = np.unique(argument[grouped], return_inverse=True)
    argument[grouped] = set_of
    set_start, members = gathered(table.set_start, sets)
    set_symbol = table.set_symbol[members]

    named = np.flatnonzero((sort == EQ) | (sort == SYMBOL))
    ends = np.concatenate((low[textual], high[textual]))
    ends = ends[np.isfinite(ends)].astype(np.int64)
    symbols = np.unique(np.concatenate((argument[named], set_symbol, ends)))
    number_of = np.full(len(table.symbol_sort), -1, np.int32)
    number_of[symbols] = np.arange(len(symbols), dtype=np.int32)
    argument[named] = number_of[argument[named]]
    set_symbol = number_of[set_symbol]
    bounds = number_of[table.bound_symbol]
    # The order of the symbols within a set may have changed when tables were joined.
    set_symbol = set_symbol[np.lexsort((set_symbol, np.repeat(np.arange(len(sets)), np.diff(set_start))))]
    symbol_start, letters = gathered(table.symbol_start, symbols)

    asked = np.flatnonzero(sort == OPAQUE)
    opaques = tuple(table.opaques[number] for number in argument[asked])
    argument[asked] = np.arange(len(asked), dtype=np.int32)

    columns = np.unique(np.concatenate((head >> 10, table.symbol_column[symbols])))
    columns = _with_operands(table.columns, columns)
    head = (head & 1023) | (np.searchsorted(columns, head >> 10).astype(np.int32) << 10)
    return replace(
        table,
        columns=tuple(table.columns[number] for number in columns) if table.columns else (),
        opaques=opaques,
        symbol_column=np.searchsorted(columns, table.symbol_column[symbols]).astype(np.int32),
        symbol_sort=table.symbol_sort[symbols],
        symbol_start=symbol_start,
        pool=table.pool[letters],
        bound_symbol=bounds[bounds >= 0],
        set_start=set_start,
        set_symbol=set_symbol,
        predicate_head=head.astype(np.int32),
        predicate_argument=argument.astype(np.int32),
        range_low=_renamed(low, textual, number_of),
        range_high=_renamed(high, textual, number_of),
        filter_literal=literal_of,
    )


def operands_of(term: Any) -> list[Attribute]:
    """The columns that a column is computed from."""
    return list(map(Attribute, sorted(term.names))) if isinstance(term, Polynomial) else []


def _with_operands(terms: Sequence[Any], columns: NDArray[Any]) -> NDArray[Any]:
    """Columns, ascending, with those that they are computed from."""
    if not any(isinstance(term, Polynomial) for term in terms):
        return columns
    number_of = {term: number for number, term in enumerate(terms)}
    operands = [number_of[each] for number in columns.tolist() for each in operands_of(terms[number])]
    return np.union1d(columns, np.array(operands, columns.dtype))


def _distinct_predicates(table: Table) -> tuple[NDArray[Any], Ints]:
    """The predicates that literals refer to, equal ones once, in order of first use; the literals renumbered."""
    predicate = table.filter_literal >> 1
    if not len(predicate):
        return _NONE, table.filter_literal
    low, high = np.zeros(len(table.predicate_head)), np.zeros(len(table.predicate_head))
    ranged = np.flatnonzero(table.predicate_head & 7 == RANGE)
    low[ranged] = table.range_low[table.predicate_argument[ranged]]
    high[ranged] = table.range_high[table.predicate_argument[ranged]]
    argument = table.predicate_argument.copy()
    argument[ranged] = 0  # a range is what it is by its bounds
    representatives = np.empty(len(argument), np.int64)
    literal = np.empty(len(predicate), np.int32)
    count = number_predicates(
        table.filter_literal,
        _prints(table.predicate_head, argument, low, high),
        table.predicate_head,
        argument,
        low,
        high,
        np.full(2 << len(argument).bit_length(), -1, np.int32),
        np.full(len(argument), -1, np.int32),
        representatives,
        literal,
    )
    return representatives[:count], literal


def _prints(head: Ints, argument: Ints, low: Reals, high: Reals) -> NDArray[np.uint64]:
    bounds = _stirred((low + 0.0).view(np.uint64)) + (high + 0.0).view(np.uint64) * np.uint64(3)
    return _stirred(bounds + argument.astype(np.uint64) + _stirred(head.astype(np.uint64)))


def _stirred(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


_NONE: Final = np.empty(0, np.int64)


def gathered(start: Ints, rows: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """For lists one after another: the starts of the lists of these rows, and the positions of their items."""
    lengths = np.diff(start)[rows] if len(rows) else np.empty(0, np.int32)
    starts = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(lengths, out=starts[1:])
    return starts, spread(start[rows], lengths)


def spread(first: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.int64]:
    """first[0], first[0] + 1 … (lengths[0] numbers), first[1], first[1] + 1 …"""
    if not len(lengths):
        return _NONE
    ends = np.cumsum(lengths, dtype=np.int64)
    positions: NDArray[np.int64] = np.arange(ends[-1]) + np.repeat(
        first.astype(np.int64) - (ends - lengths), lengths
    )
    return positions


def _through(mapping: NDArray[Any], numbers: Ints) -> Ints:
    return mapping[numbers].astype(np.int32) if len(numbers) else numbers


def _both(one: NDArray[Any], other: NDArray[Any]) -> Ints:
    return np.concatenate((one, other)).astype(np.int32, copy=False)


def _starts(one: Ints, other: Ints) -> Ints:
    return _both(one, other[1:] + one[-1])
