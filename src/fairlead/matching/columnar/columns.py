"""Rows: the values of notifications in the columns of an index, as arrays for a kernel.

For each column the rank of the value's kind, the number of its symbol (-1 if no filter mentions it) and its place
on the line; besides, the elements of sets and the bytes of texts, where filters ask for such.

One notification at a time is written into arrays that are there already. Batches of notifications are written
column by column, record batches of Arrow without a Python object per row. The coordinates of a shape are written
with it; polynomials are computed when all else is there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from math import inf, isnan
from operator import add, itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.filters.terms import Attribute, Polynomial
from fairlead.matching.columnar import kernels
from fairlead.matching.columnar.compile import (
    BYTES,
    INEXACT,
    NUMBER,
    SET,
    STRING,
    TIME,
    Sort,
    exact_float,
    symbol_of,
)
from fairlead.matching.columnar.derived import Coordinate, Tree, coordinates_of
from fairlead.matching.columnar.index import Index
from fairlead.matching.columnar.layout import HAS_ELEMENTS, HAS_RANGES, HAS_VALUES
from fairlead.matching.columnar.selections import Selections
from fairlead.matching.columnar.table import content_of
from fairlead.model import ABSENT, Kind, Multi, Notification, kind_of, number_of
from fairlead.model.values import RANK

__all__ = ["Column", "Desk", "Reader", "Rows", "put_elements"]

_NAN: Final = RANK[Kind.NAN]
_EXACT: Final = 2**53
_ABSENCE: Final = type(ABSENT)


@dataclass(slots=True)
class Rows:
    """Arrays for `kernels.match_rows`, and the rows that it cannot decide alone.

    `inexact`: rows with a number that no float stands for; matches are to be verified. `exotic`: rows and
    columns where an interval or a rectangle stands and filters ask what it contains.
    """

    states: NDArray[np.int32]
    coordinates: NDArray[np.float64]
    extra_start: NDArray[np.int32]
    extras: NDArray[np.int32]
    text_start: NDArray[np.int32]
    text: NDArray[np.uint8]
    inexact: list[int]
    exotic: list[tuple[int, int]]


class Reader:
    """Reads notifications for one index."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.width = len(index.columns)
        flags = index.section("column_flags").tolist()
        slots = dict(
            zip(index.section("text_column").tolist(), index.section("text_slot").tolist(), strict=True)
        )
        self.texts = 1 + max(slots.values(), default=-1)
        self.columns = [
            Column(number, term, flags[number], slots.get(number, -1))
            for number, term in enumerate(index.columns)
        ]
        self._paths: dict[str, int] = {}
        self._intern(index)
        # Plain names are found while walking over a notification; others are looked up one by one.
        self.plain: dict[str, Column] = {}
        self.deep: list[Column] = []
        by_term = {column.term: column for column in self.columns}
        for column in self.columns:
            match column.term:
                case Polynomial():
                    pass
                case Tree():
                    self._tree = column.number
                case Coordinate(shape, axis):
                    by_term[shape].coordinates.append((axis, column))
                case Attribute(name) if "." not in name:
                    self.plain[name] = column
                case _:
                    self.deep.append(column)
        self.polynomials = Polynomials(self.columns, index)
        self.selections = Selections(self._paths) if self._paths else None
        self.blank = np.zeros((1, 2 * self.width), np.int32)
        self.blank[:, self.width :] = -1

    def _intern(self, index: Index) -> None:
        """The symbols of the index as dictionaries."""
        columns, sorts = index.section("symbol_column").tolist(), index.section("symbol_sort").tolist()
        starts, pool = index.section("symbol_start").tolist(), index.pool.tobytes()
        for symbol, (number, sort) in enumerate(zip(columns, sorts, strict=True)):
            column, data = self.columns[number], pool[starts[symbol] : starts[symbol + 1]]
            if sort == STRING:
                column.strings[data.decode()] = symbol
            elif sort == NUMBER:
                column.numbers[content_of(sort, data)] = symbol
            elif sort < Sort.PREFIX:
                column.others[sort, content_of(sort, data)] = symbol
            elif sort == Sort.ELEMENT + STRING:
                column.element_strings[data.decode()] = symbol
            elif sort == Sort.PATH:
                self._paths[data.decode()] = symbol
            elif Sort.ELEMENT <= sort < Sort.BINARY:
                column.elements[sort, content_of(sort, data)] = symbol
        for symbol in index.section("bound_symbol").tolist():
            sort, data = sorts[symbol], pool[starts[symbol] : starts[symbol + 1]]
            if sort == Sort.BOUND + STRING:
                self.columns[columns[symbol]].string_bounds.append(data.decode())
            else:
                self.columns[columns[symbol]].bytes_bounds.append(data)

    # -- one notification ----------------------------------------------------------------------------------

    def read(self, notification: Notification, desk: Desk) -> bool:
        """Write a notification onto a desk; whether the kernel can decide it alone."""
        states, coordinates, width = desk.states, desk.coordinates, self.width
        states[:] = desk.blank
        plain = self.plain
        desk.settled = True
        if desk.busy:
            desk.clear()
        for name, value in notification.attributes._fields.items():
            column = plain.get(name)
            if column is None:
                continue
            sort = type(value)
            number = column.number
            if sort is str:
                states[number] = STRING
                if column.strings:
                    states[width + number] = column.strings.get(value, -1)
                if column.string_bounds:
                    coordinates[number] = _coordinate(column.string_bounds, value)
                if column.slot >= 0:
                    desk.pieces[column.slot] = value.encode()
                    desk.busy = True
            elif (sort is float and not isnan(value)) or (sort is int and -_EXACT <= value <= _EXACT):
                states[number] = NUMBER
                coordinates[number] = value
                if column.numbers:
                    states[width + number] = column.numbers.get(value, -1)
            else:
                self._read_other(column, value, desk)
        for column in self.deep:
            value = column.term.value(notification)
            if value is not ABSENT:
                self._read_other(column, value, desk)
        if self.selections is not None:
            for symbol in self.selections.held(notification):
                desk.elements.append((self._tree, symbol))
                desk.busy = True
        if self.polynomials.columns:
            for column, _ in self.polynomials.compute(desk.rows):
                self._read_other(column, column.term.value(notification), desk)
        if desk.busy:
            desk.finish()
        return desk.settled

    def _read_other(self, column: Column, value: Any, desk: Desk) -> None:
        rank, symbol, coordinate = column.read(value)
        if column.coordinates:
            for each, coordinate in column.parts(value):
                self._read_other(each, coordinate, desk)
        number = column.number
        desk.states[number] = rank
        desk.states[self.width + number] = symbol
        desk.coordinates[number] = coordinate
        if rank == INEXACT:
            desk.settled = False
        elif rank == SET:
            if column.flags & HAS_ELEMENTS:
                desk.elements.extend(
                    [(number, column.element_symbol(each)) for each in value._by_key.values()]
                )
                desk.busy = True
        elif column.slot >= 0 and rank in (STRING, BYTES):
            desk.pieces[column.slot] = value.encode() if rank == STRING else value
            desk.busy = True
        elif column.is_exotic(rank, value):
            desk.exotic.append((0, number))
            desk.busy = True
            desk.settled = False

    # -- batches -------------------------------------------------------------------------------------------

    def read_all(self, notifications: Sequence[Notification]) -> Rows:
        """A batch of notifications, column by column."""
        rows = self.blank_rows(len(notifications))
        elements: list[NDArray[np.int32]] = []
        pieces: dict[int, Sequence[Any]] = {}
        for column, values in self._transposed(notifications):
            self.read_column(column, values, rows, elements)
            if column.slot >= 0:
                pieces[column.slot] = values
        self.compute(rows, notifications.__getitem__)
        if self.selections is not None:
            held = [
                (row, symbol)
                for row, notification in enumerate(notifications)
                for symbol in self.selections.held(notification)
            ]
            elements.append(self.held(held))
        if elements:
            put_elements(rows, np.concatenate(elements))
        self._put_texts(rows, [pieces[slot] for slot in range(self.texts)])
        return rows

    def held(self, symbols: Any) -> NDArray[np.int32]:
        """Rows and the symbols of path filters that they hold, as elements."""
        pairs = np.array(symbols, np.int32).reshape(-1, 2)
        return np.insert(pairs, 1, self._tree, axis=1)

    def compute(self, rows: Rows, notification_of: Callable[[int], Notification]) -> None:
        """Compute the polynomials of rows whose attributes are there."""
        if self.polynomials.columns:
            for column, row in self.polynomials.compute(rows):
                self.put(column, column.term.value(notification_of(row)), row, rows)

    def _transposed(self, notifications: Sequence[Notification]) -> Iterator[tuple[Column, Sequence[Any]]]:
        """The columns with their values in each notification, or ABSENT."""
        fields = [notification.attributes._fields for notification in notifications]
        names = list(self.plain)
        if len(names) > 1:
            try:  # the usual case, notifications of one form, without Python code for every value
                values: Iterable[Sequence[Any]] = zip(*map(itemgetter(*names), fields), strict=True)
            except KeyError:
                values = ([each.get(name, ABSENT) for each in fields] for name in names)
        else:
            values = ([each.get(name, ABSENT) for each in fields] for name in names)
        yield from zip(self.plain.values(), values, strict=True)
        for column in self.deep:
            yield column, [column.term.value(notification) for notification in notifications]

    def read_column(
        self, column: Column, values: Sequence[Any], rows: Rows, elements: list[NDArray[np.int32]]
    ) -> None:
        """Write the values of one column into a batch of rows; to `elements`, those of its sets."""
        sorts = set(map(type, values))
        at: Any = slice(None)
        if _ABSENCE in sorts:
            at = np.flatnonzero([value is not ABSENT for value in values])
            values = [value for value in values if value is not ABSENT]
            sorts.discard(_ABSENCE)
        number, width, size = column.number, self.width, len(values)
        if sorts == {str}:
            rows.states[at, number] = STRING
            if column.strings:
                found = map(column.strings.get, values, repeat(-1))
                rows.states[at, width + number] = np.fromiter(found, np.int32, size)
            if column.string_bounds:
                below = map(bisect_left, repeat(column.string_bounds), values)
                up_to = map(bisect_right, repeat(column.string_bounds), values)
                rows.coordinates[at, number] = np.fromiter(map(add, below, up_to), np.float64, size)
        elif sorts == {float} or (sorts == {int} and min(values) >= -_EXACT and max(values) <= _EXACT):
            coordinates = np.fromiter(values, np.float64, size)
            rows.coordinates[at, number] = coordinates
            rows.states[at, number] = NUMBER
            if sorts == {float} and (strange := np.isnan(coordinates)).any():
                rows.states[np.arange(len(rows.states))[at][strange], number] = _NAN
            if column.numbers:
                found = map(column.numbers.get, values, repeat(-1))
                rows.states[at, width + number] = np.fromiter(found, np.int32, size)
        elif sorts == {Multi}:
            rows.states[at, number] = SET
            if column.flags & HAS_ELEMENTS:
                elements.append(_elements(column, np.arange(len(rows.states), dtype=np.int32)[at], values))
        elif size:
            self._read_each(column, np.arange(len(rows.states))[at].tolist(), values, rows, elements)

    def _read_each(
        self,
        column: Column,
        numbers: list[int],
        values: Sequence[Any],
        rows: Rows,
        elements: list[NDArray[np.int32]],
    ) -> None:
        """Write values of several kinds into these rows, one by one."""
        sets = [
            (row, value)
            for row, value in zip(numbers, values, strict=True)
            if self.put(column, value, row, rows) == SET
        ]
        if sets and column.flags & HAS_ELEMENTS:
            owners = np.array([row for row, _ in sets], np.int32)
            elements.append(_elements(column, owners, [value for _, value in sets]))

    def put(self, column: Column, value: Any, row: int, rows: Rows) -> int:
        """Write one value into a batch of rows; the rank of its kind."""
        rank, symbol, coordinate = column.read(value)
        if column.coordinates:
            for each, coordinate in column.parts(value):
                self.put(each, coordinate, row, rows)
        rows.states[row, column.number] = rank
        rows.states[row, self.width + column.number] = symbol
        rows.coordinates[row, column.number] = coordinate
        if rank == INEXACT:
            rows.inexact.append(row)
        elif column.is_exotic(rank, value):
            rows.exotic.append((row, column.number))
        return rank

    def blank_rows(self, size: int) -> Rows:
        """Rows in which everything is absent."""
        return Rows(
            np.repeat(self.blank, size, axis=0),
            np.zeros((size, self.width)),
            np.zeros(size + 1, np.int32),
            np.empty((0, 2), np.int32),
            np.zeros(size * self.texts + 1, np.int32),
            np.empty(0, np.uint8),
            [],
            [],
        )

    def _put_texts(self, rows: Rows, pieces: list[Sequence[Any]]) -> None:
        if not pieces:
            return
        in_order = (
            pieces[0] if len(pieces) == 1 else [piece for row in zip(*pieces, strict=True) for piece in row]
        )
        if set(map(type, in_order)) == {str} and (text := "".join(in_order)).isascii():
            lengths, joined = map(len, in_order), text.encode()
        else:
            texts = [
                value.encode() if type(value) is str else value if type(value) is bytes else b""
                for value in in_order
            ]
            lengths, joined = map(len, texts), b"".join(texts)
        np.cumsum(np.fromiter(lengths, np.int32, len(in_order)), out=rows.text_start[1:])
        rows.text = np.frombuffer(bytearray(joined), np.uint8)


def _elements(column: Column, rows: NDArray[np.int32], values: Sequence[Multi]) -> NDArray[np.int32]:
    """The elements of the sets in these rows, as (row, column, symbol)."""
    parts = [value._by_key.values() for value in values]
    flat = list(chain.from_iterable(parts))
    found = np.empty((len(flat), 3), np.int32)
    found[:, 0] = np.repeat(rows, np.fromiter(map(len, parts), np.int32, len(parts)))
    found[:, 1] = column.number
    symbols = (
        map(column.element_strings.get, flat, repeat(-1))
        if set(map(type, flat)) == {str}
        else map(column.element_symbol, flat)
    )
    found[:, 2] = np.fromiter(symbols, np.int32, len(flat))
    return found


def put_elements(rows: Rows, elements: NDArray[np.int32]) -> None:
    """Put elements, given as (row, column, symbol) in any order, into rows."""
    elements = elements[np.argsort(elements[:, 0], kind="stable")]
    np.cumsum(np.bincount(elements[:, 0], minlength=len(rows.states)), out=rows.extra_start[1:])
    rows.extras = np.ascontiguousarray(elements[:, 1:])


def _coordinate(bounds: list[Any], value: Any) -> int:
    """The place of a string among bounds (see `placed`)."""
    below = bisect_left(bounds, value)
    return 2 * below + (below < len(bounds) and bounds[below] == value)


class Column:
    """One column: its predicates, and the symbols that they mention."""

    __slots__ = (
        "_sorted",
        "bytes_bounds",
        "coordinates",
        "element_strings",
        "elements",
        "flags",
        "number",
        "numbers",
        "others",
        "slot",
        "string_bounds",
        "strings",
        "term",
    )

    def __init__(self, number: int, term: Any, flags: int, slot: int) -> None:
        self.number, self.term, self.flags, self.slot = number, term, flags, slot
        self.strings: dict[str, int] = {}
        self.string_bounds: list[str] = []
        self.bytes_bounds: list[bytes] = []
        self.numbers: dict[float, int] = {}
        self.others: dict[tuple[int, Any], int] = {}
        self._sorted: tuple[NDArray[np.float64], NDArray[np.int32]] | None = None
        self.elements: dict[tuple[int, Any], int] = {}
        self.element_strings: dict[str, int] = {}
        self.coordinates: list[tuple[int, Column]] = []
        """The columns of its coordinates, where filters ask for such."""

    def parts(self, value: Any) -> list[tuple[Column, Any]]:
        """The coordinates of a shape that filters need."""
        found = coordinates_of(value)
        return [(column, found[axis]) for axis, column in self.coordinates if axis < len(found)]

    def numbered(self, coordinates: NDArray[np.float64]) -> NDArray[np.int32] | None:
        """The symbols of numbers, by search in the sorted ones that filters mention; None if there are none."""
        if not self.numbers:
            return None
        keys, symbols = self.sorted_numbers
        at = np.minimum(np.searchsorted(keys, coordinates), len(keys) - 1)
        return np.where(keys[at] == coordinates, symbols[at], -1).astype(np.int32)

    def read(self, value: Any) -> tuple[int, int, float]:
        """The rank, the symbol and the coordinate of a value."""
        rank = RANK[kind_of(value)]
        if rank == STRING:
            return rank, self.strings.get(value, -1), _coordinate(self.string_bounds, value)
        if rank == NUMBER:
            return self._read_number(value)
        if rank == TIME:
            coordinate = float(value.microseconds)
            exact = exact_float(value.microseconds)
            found = self.others.get((rank, exact if exact is not None else str(value.microseconds)), -1)
            return rank, found, coordinate
        coordinate = _coordinate(self.bytes_bounds, value) if rank == BYTES else 0.0
        if self.flags & HAS_VALUES and self.others:
            symbol = symbol_of(value)
            return rank, -1 if symbol is None else self.others.get(symbol, -1), coordinate
        return rank, -1, coordinate

    def _read_number(self, value: Any) -> tuple[int, int, float]:
        exact = value if type(value) is float else exact_float(number_of(value))
        if exact is not None:
            return NUMBER, self.numbers.get(exact, -1), exact
        number = number_of(value)
        symbol = self.others.get((INEXACT, str(number)), -1)
        if not self.flags & HAS_RANGES:
            return NUMBER, symbol, 0.0
        try:
            return INEXACT, symbol, float(number)
        except OverflowError:
            return INEXACT, symbol, 1.7976931348623157e308 if number > 0 else -1.7976931348623157e308

    @property
    def sorted_numbers(self) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """The numbers that filters mention, ascending, and their symbols."""
        if self._sorted is None:
            keys = np.fromiter(self.numbers, np.float64, len(self.numbers))
            symbols = np.fromiter(self.numbers.values(), np.int32, len(self.numbers))
            order = np.argsort(keys)
            self._sorted = keys[order], symbols[order]
        return self._sorted

    def numbered_elements(self, numbers: NDArray[np.float64]) -> NDArray[np.int32]:
        """The symbols of numbers as elements; -1 for those that no filter mentions."""
        known = {
            each: symbol for (sort, each), symbol in self.elements.items() if sort == Sort.ELEMENT + NUMBER
        }
        if not known:
            return np.full(len(numbers), -1, np.int32)
        keys, symbols = np.array(list(known)), np.fromiter(known.values(), np.int32, len(known))
        order = np.argsort(keys)
        at = np.minimum(np.searchsorted(keys, numbers, sorter=order), len(keys) - 1)
        return np.where(keys[order][at] == numbers, symbols[order][at], -1).astype(np.int32)

    def element_symbol(self, element: Any) -> int:
        """The symbol of an element of a set; -1 if no filter mentions it."""
        if type(element) is str:
            return self.element_strings.get(element, -1)
        symbol = symbol_of(element)
        return -1 if symbol is None else self.elements.get((Sort.ELEMENT + symbol[0], symbol[1]), -1)

    def is_exotic(self, rank: int, value: Any) -> bool:
        """Whether predicates need more of a value than the arrays have: the content of an interval, or
        comparisons with an instant centuries away."""
        if rank == TIME:
            return bool(self.flags & HAS_RANGES) and exact_float(value.microseconds) is None
        return bool(self.flags & HAS_ELEMENTS) and rank in _EXOTIC


_EXOTIC: Final = (RANK[Kind.INTERVAL], RANK[Kind.RECTANGLE])


class Polynomials:
    """The columns that are computed from others, as a kernel takes them."""

    def __init__(self, columns: Sequence[Column], index: Index) -> None:
        self.columns = [column for column in columns if isinstance(column.term, Polynomial)]
        if not self.columns:
            return
        number_of = {column.term: column.number for column in columns}
        monomials = [column.term.monomials for column in self.columns]
        flat = [each for polynomial in monomials for each in polynomial]
        self._column = np.array([column.number for column in self.columns], np.int32)
        self._monomial_start = _starts(monomials)
        self._operand_start = _starts([names for names, _ in flat])
        self._operands = np.array(
            [number_of[Attribute(each)] for names, _ in flat for each in names], np.int32
        )
        # What no whole number of 53 bits can hold makes every row unsure.
        self._coefficients = np.array([float(c) if abs(c) < _EXACT else inf for _, c in flat])
        bounds = [
            np.unique(np.concatenate((index.bounds(each.number), [*each.numbers]))) for each in self.columns
        ]
        self._bound_start = _starts(bounds)
        self._bounds = np.concatenate(bounds)

    def compute(self, rows: Rows) -> Iterator[tuple[Column, int]]:
        """Compute the columns for rows; returns the columns and rows that need exact arithmetic."""
        unsure = kernels.compute(
            rows.states,
            rows.coordinates,
            self._column,
            self._monomial_start,
            self._operand_start,
            self._operands,
            self._coefficients,
            self._bound_start,
            self._bounds,
        )
        width = rows.states.shape[1] // 2
        for column in self.columns:
            symbols = column.numbered(rows.coordinates[:, column.number])
            if symbols is not None:
                known = rows.states[:, column.number] == NUMBER
                rows.states[:, width + column.number] = np.where(known, symbols, -1)
        if unsure:
            for column in self.columns:
                for row in np.flatnonzero(rows.states[:, column.number] == kernels.UNSURE).tolist():
                    yield column, row


def _starts(lists: Sequence[Any]) -> NDArray[np.int32]:
    return np.cumsum([0, *map(len, lists)]).astype(np.int32)


class Desk:
    """The arrays for one notification at a time, and the scratch space of a kernel. One thread at a time."""

    def __init__(self, reader: Reader, destinations: int = 0) -> None:
        index, width = reader.index, reader.width
        self.rows = Rows(
            reader.blank.copy(),
            np.zeros((1, width)),
            np.zeros(2, np.int32),
            np.zeros((16, 2), np.int32),
            np.zeros(reader.texts + 1, np.int32),
            np.zeros(256, np.uint8),
            [],
            [],
        )
        self.states: Any = self.rows.states.reshape(-1).data
        self.coordinates: Any = self.rows.coordinates.reshape(-1).data
        self.blank = reader.blank.reshape(-1).data
        self.pieces: list[bytes] = [b""] * reader.texts
        self.elements: list[tuple[int, int]] = []
        self.exotic: list[tuple[int, int]] = []
        self.busy = False
        self.settled = True
        symbols = len(index.section("symbol_sort"))
        self.stamps = np.zeros(symbols + destinations + 1, np.int32)
        self.scratch = np.zeros(symbols + width + index.stack_max + 1, np.int32)
        self.out_start = np.zeros(2, np.int32)
        self.out = np.zeros(256, np.int32)
        self.counters = np.zeros(2, np.int64)

    def clear(self) -> None:
        """Forget the elements and texts of the notification before."""
        self.pieces = [b""] * len(self.pieces)
        self.elements.clear()
        self.exotic.clear()
        self.rows.extra_start[1] = 0
        self.rows.text_start[:] = 0
        self.busy = False

    def finish(self) -> None:
        """Put the elements and texts that were collected into the arrays."""
        rows = self.rows
        if self.elements:
            if len(self.elements) > len(rows.extras):
                rows.extras = np.zeros((2 * len(self.elements), 2), np.int32)
            rows.extras[: len(self.elements)] = self.elements
            rows.extra_start[1] = len(self.elements)
        if self.pieces:
            data = b"".join(self.pieces)
            if len(data) > len(rows.text):
                rows.text = np.zeros(2 * len(data), np.uint8)
            rows.text.data[: len(data)] = data
            at = 0
            for slot, piece in enumerate(self.pieces, 1):
                at += len(piece)
                rows.text_start[slot] = at
