"""Record batches of Arrow as rows: column by column, without a Python object per row.

Null means absent. A column may be named by the whole dotted name or lie within structs. Strings, binaries,
numbers, booleans, instants and lists of strings are read from Arrow's buffers; other types, value by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.errors import ValueRefused
from fairlead.filters.terms import Attribute
from fairlead.matching.columnar import kernels
from fairlead.matching.columnar.columns import Column, Reader, Rows, put_elements
from fairlead.matching.columnar.compile import BYTES, NUMBER, SET, STRING, TIME, Sort
from fairlead.matching.columnar.layout import HAS_BOUNDS, HAS_ELEMENTS, HAS_RANGES, HAS_VALUES
from fairlead.model import ABSENT, Kind, Notification
from fairlead.model.values import RANK

__all__ = ["notification_at", "notifications_of", "read_batch"]

_BOOLEAN: Final = RANK[Kind.BOOLEAN]
_NAN: Final = RANK[Kind.NAN]
_RECORD: Final = RANK[Kind.RECORD]
_EXACT: Final = 2**53


def notification_at(batch: pa.RecordBatch, row: int) -> Notification:
    """The notification in a row of a batch."""
    [record] = batch.slice(row, 1).to_pylist()
    return Notification.of(_without_nulls(record))


def notifications_of(batch: pa.RecordBatch) -> list[Notification]:
    """The notifications in the rows of a batch: `notification_at` of each."""
    return [Notification.of(_without_nulls(record)) for record in batch.to_pylist()]


def _without_nulls(record: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_nulls(value) if isinstance(value, dict) else value
        for name, value in record.items()
        if value is not None
    }


def read_batch(reader: Reader, batch: pa.RecordBatch) -> Rows:
    """The rows of a batch for the index of a reader."""
    return _Reading(reader, batch).rows()


class _Reading:
    """One batch being read."""

    def __init__(self, reader: Reader, batch: pa.RecordBatch) -> None:
        self._reader, self._batch, self._size = reader, batch, batch.num_rows
        self._rows = reader.blank_rows(batch.num_rows)
        self._elements: list[NDArray[np.int32]] = []
        self._texts: dict[int, tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.bool_]]] = {}

    def rows(self) -> Rows:
        for column in self._reader.columns:
            self._read(column)
        if self._elements:
            put_elements(self._rows, np.concatenate(self._elements))
        self._put_texts()
        return self._rows

    def _read(self, column: Column) -> None:
        if not isinstance(column.term, Attribute):
            if "tuple" in self._batch.schema.names:
                self._read_each(
                    column,
                    [column.term.value(notification_at(self._batch, row)) for row in range(self._size)],
                )
            return
        name = column.term.name
        array = self._find(name)
        if array is None:
            self._read_parent(column, name)
            return
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        kind = array.type
        if name == "time" and not pa.types.is_timestamp(kind):
            values = [
                ABSENT if each is None else Notification.of({"time": each}).get("time")
                for each in array.to_pylist()
            ]
            self._read_each(column, values)
        elif pa.types.is_null(kind):
            return
        elif _is_text(kind):
            self._read_texts(column, array)
        elif pa.types.is_floating(kind):
            self._read_floats(column, array)
        elif pa.types.is_integer(kind):
            self._read_integers(column, array)
        elif pa.types.is_boolean(kind):
            self._read_booleans(column, array)
        elif pa.types.is_timestamp(kind):
            self._read_instants(column, array)
        elif pa.types.is_struct(kind):
            self._rows.states[_valid(array), column.number] = _RECORD
        elif (
            _is_list(kind)
            and _is_text(kind.value_type)
            and not array.flatten().null_count
            and name != "tuple"
        ):
            self._read_lists(column, array)
        else:
            self._read_others(column, name, array)

    def _find(self, name: str) -> Any:
        """The array under a dotted name, through structs where need be."""
        names = self._batch.schema.names
        if name in names:
            return self._batch.column(name)
        steps = name.split(".")
        for count in range(len(steps) - 1, 0, -1):
            outer = ".".join(steps[:count])
            if outer in names:
                array = self._batch.column(outer)
                for step in steps[count:]:
                    if not pa.types.is_struct(array.type) or array.type.get_field_index(step) < 0:
                        return None
                    array = pc.struct_field(array, step)
                return array
        return None

    def _read_parent(self, column: Column, name: str) -> None:
        """A name whose parts have columns of their own: a record wherever one of them is there."""
        for each in self._batch.schema.names:
            if each.startswith(f"{name}."):
                self._rows.states[_valid(self._batch.column(each)), column.number] = _RECORD

    # -- by type -------------------------------------------------------------------------------------------

    def _put(self, column: Column, rank: int, valid: NDArray[np.bool_], symbols: Any = None) -> None:
        states, number = self._rows.states, column.number
        states[:, number] = np.where(valid, rank, 0)
        if symbols is not None:
            states[:, self._reader.width + number] = np.where(valid, symbols, -1)

    def _read_texts(self, column: Column, array: Any) -> None:
        rank = BYTES if _is_binary(array.type) else STRING
        starts, letters = _buffers(array)
        valid = _valid(array)
        symbols = self._symbols(column, rank, starts, letters, valid) if column.flags & HAS_VALUES else None
        self._put(column, rank, valid, symbols)
        if column.flags & HAS_BOUNDS:
            index, places = self._reader.index, np.empty(len(array))
            line = 2 * column.number + (rank == BYTES)
            kernels.place_strings(
                index.directory, index.ints, index.pool, line, starts, letters, valid, places
            )
            self._rows.places[:, column.number] = places
        if column.slot >= 0:
            self._texts[column.slot] = starts, letters, valid

    def _symbols(self, column: Column, sort: int, starts: Any, letters: Any, valid: Any) -> NDArray[np.int32]:
        index = self._reader.index
        found = np.empty(len(starts) - 1, np.int32)
        kernels.find_strings(
            index.directory, index.ints, index.pool, column.number, sort, starts, letters, valid, found
        )
        return found

    def _read_floats(self, column: Column, array: Any) -> None:
        valid = _valid(array)
        places = np.asarray(array.cast(pa.float64()).to_numpy(zero_copy_only=False))
        self._rows.places[:, column.number] = np.where(valid, places, 0.0)
        self._put(column, NUMBER, valid, _numbered(column, places))
        self._rows.states[valid & np.isnan(places), column.number] = _NAN

    def _read_integers(self, column: Column, array: Any) -> None:
        valid = _valid(array)
        whole = array.fill_null(0).to_numpy(zero_copy_only=False)
        places = whole.astype(np.float64)
        self._rows.places[:, column.number] = places
        self._put(column, NUMBER, valid, _numbered(column, places))
        for row in np.flatnonzero(valid & (np.abs(places) >= _EXACT)).tolist():
            self._reader.put(column, int(whole[row]), row, self._rows)

    def _read_booleans(self, column: Column, array: Any) -> None:
        valid = _valid(array)
        true = array.fill_null(False).to_numpy(zero_copy_only=False)
        one, zero = (column.others.get((_BOOLEAN, value), -1) for value in (1.0, 0.0))
        self._put(column, _BOOLEAN, valid, np.where(true, one, zero))

    def _read_instants(self, column: Column, array: Any) -> None:
        if array.type.tz is None:
            raise ValueRefused(
                f"timestamps without a time zone under {column.term}", hint="give the column one, such as UTC"
            )
        valid = _valid(array)
        try:
            exact = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
        except pa.ArrowInvalid:
            raise ValueRefused(f"finer than a microsecond, or too far away, under {column.term}") from None
        whole = exact.fill_null(0).to_numpy(zero_copy_only=False)
        places = whole.astype(np.float64)
        self._rows.places[:, column.number] = places
        symbols = None
        if column.flags & HAS_VALUES and column.others:
            distinct, back = np.unique(places, return_inverse=True)
            symbols = np.array([column.others.get((TIME, each), -1) for each in distinct.tolist()])[back]
        self._put(column, TIME, valid, symbols)
        if column.flags & (HAS_RANGES | HAS_VALUES):
            for row in np.flatnonzero(valid & (np.abs(places) >= _EXACT)).tolist():
                self._rows.exotic.append((row, column.number))

    def _read_lists(self, column: Column, array: Any) -> None:
        valid = _valid(array)
        self._put(column, SET, valid)
        if not column.flags & HAS_ELEMENTS:
            return
        flat = array.flatten()
        starts, letters = _buffers(flat)
        rank = BYTES if _is_binary(flat.type) else STRING
        symbols = self._symbols(column, Sort.ELEMENT + rank, starts, letters, np.ones(len(flat), np.bool_))
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        owner = np.repeat(np.arange(self._size, dtype=np.int32), lengths)
        number = np.full(len(flat), column.number, np.int32)
        self._elements.append(np.stack((owner, number, symbols), axis=1))

    def _read_others(self, column: Column, name: str, array: Any) -> None:
        """Values of other types, one by one, as a notification would have them."""
        first = name.split(".", maxsplit=1)[0]
        alone = Notification.of
        values = [
            ABSENT if each is None else alone({first: _without_nulls({"v": each})["v"]}).get(first)
            for each in array.to_pylist()
        ]
        self._read_each(column, values)

    def _read_each(self, column: Column, values: Sequence[Any]) -> None:
        self._reader.read_column(column, values, self._rows, self._elements)
        if column.slot >= 0:
            texts = [
                each.encode() if type(each) is str else each if type(each) is bytes else b""
                for each in values
            ]
            starts = np.zeros(len(texts) + 1, np.int64)
            np.cumsum([len(each) for each in texts], out=starts[1:])
            letters = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
            self._texts[column.slot] = starts, letters, np.ones(len(texts), np.bool_)

    def _put_texts(self) -> None:
        slots = self._reader.texts
        if not self._texts:
            return
        lengths = np.zeros((self._size, slots), np.int32)
        for slot, (starts, _, valid) in self._texts.items():
            lengths[:, slot] = np.where(valid, np.diff(starts), 0)
        np.cumsum(lengths.reshape(-1), out=self._rows.text_start[1:])
        text = np.empty(int(self._rows.text_start[-1]), np.uint8)
        for slot, (starts, letters, _) in self._texts.items():
            kernels.copy_texts(starts, letters, self._rows.text_start, text, slot, slots)
        self._rows.text = text


def _numbered(column: Column, places: NDArray[np.float64]) -> NDArray[Any] | None:
    """The symbols of numbers, by search in the sorted ones that filters mention."""
    if not column.numbers:
        return None
    keys, symbols = column.sorted_numbers
    at = np.minimum(np.searchsorted(keys, places), len(keys) - 1)
    return np.where(keys[at] == places, symbols[at], -1)


def _is_binary(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)) or _is_binary(kind)


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _valid(array: Any) -> NDArray[np.bool_]:
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    valid: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return np.array(valid)


def _buffers(array: Any) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The starts and the letters of an array of strings, wherever in its buffers it begins."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, starts, letters = array.buffers()
    if starts is None or not len(array):
        return np.zeros(len(array) + 1, np.int64), np.empty(0, np.uint8)
    given = np.frombuffer(starts, np.int64 if wide else np.int32)[
        array.offset : array.offset + len(array) + 1
    ]
    first, last = int(given[0]), int(given[-1])
    used = np.frombuffer(letters, np.uint8)[first:last] if letters is not None else np.empty(0, np.uint8)
    return given.astype(np.int64) - first, np.array(used)
