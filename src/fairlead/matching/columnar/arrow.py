"""Record batches of Arrow as rows: column by column, without a Python object per row.

Null means absent. A column may be named by the whole dotted name or lie within structs. A struct with one field,
named by a tag of the typed encoding such as `$point`, is the value that it encodes. Strings, binaries, numbers,
booleans, instants, shapes, tuples, and lists of strings and of numbers are read from Arrow's buffers; other types,
value by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.errors import ValueRefused
from fairlead.filters.terms import Attribute, Length, Position
from fairlead.matching.columnar import kernels
from fairlead.matching.columnar.columns import Column, Reader, Rows, put_elements
from fairlead.matching.columnar.compile import BYTES, NUMBER, SET, STRING, TIME, Sort
from fairlead.matching.columnar.derived import Pair
from fairlead.matching.columnar.layout import HAS_BOUNDS, HAS_ELEMENTS, HAS_RANGES, HAS_VALUES
from fairlead.model import ABSENT, Kind, Notification
from fairlead.model.tree import ROOT
from fairlead.model.typed import TAGS, decode
from fairlead.model.values import RANK

__all__ = ["notification_at", "notifications_of", "read_batch"]

_BOOLEAN: Final = RANK[Kind.BOOLEAN]
_NAN: Final = RANK[Kind.NAN]
_RECORD: Final = RANK[Kind.RECORD]
_INTERVAL: Final = RANK[Kind.INTERVAL]
_SHAPES: Final = {
    "$point": (RANK[Kind.POINT], 2),
    "$interval": (_INTERVAL, 2),
    "$rectangle": (RANK[Kind.RECTANGLE], 4),
}
"""The tags of shapes: the rank of their kind, and how many coordinates they have."""
_EXACT: Final = 2**53


def notification_at(batch: pa.RecordBatch, row: int) -> Notification:
    """The notification in a row of a batch."""
    [record] = batch.slice(row, 1).to_pylist()
    return Notification.of(_without_nulls(record))


def notifications_of(batch: pa.RecordBatch) -> list[Notification]:
    """The notifications in the rows of a batch: `notification_at` of each."""
    return [Notification.of(_without_nulls(record)) for record in batch.to_pylist()]


def _without_nulls(record: dict[str, Any]) -> dict[str, Any]:
    """A record without its nulls, and with the values that tagged structs stand for."""
    return {name: _plain(value) for name, value in record.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return decode(value) if len(value) == 1 and next(iter(value)) in TAGS else _without_nulls(value)
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [_plain(item) for item in value]
    return value


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
        self._reader.compute(self._rows, lambda row: notification_at(self._batch, row))
        self._hold_paths()
        if self._elements:
            put_elements(self._rows, np.concatenate(self._elements))
        self._put_texts()
        return self._rows

    def _read(self, column: Column) -> None:
        match column.term:
            case Attribute(name):
                array = self._find(name)
                if array is None:
                    self._read_parent(column, name)
                else:
                    self._read_array(column, name, array)
            case Pair() as pair:
                self._read_pair(column, pair)
            case Position() | Length() if "tuple" in self._batch.schema.names:
                self._read_tuple(column, self._find("tuple"))
            case _:
                pass  # computed from others, read with the shape, or asked of objects, which Arrow has none of

    def _read_array(self, column: Column, name: str, array: Any) -> None:
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
        elif pa.types.is_struct(kind) and kind.num_fields == 1 and kind.field(0).name in TAGS:
            self._read_tagged(column, kind.field(0).name, array)
        elif pa.types.is_struct(kind):
            self._rows.states[_valid(array), column.number] = _RECORD
        elif name != "tuple" and _is_list(kind) and not array.flatten().null_count and _is_plain(array):
            self._read_lists(column, array)
        else:
            self._read_others(column, name, array)

    def _read_pair(self, column: Column, pair: Pair) -> None:
        """The comparison of two columns: at once where they are of one plain type, else row by row."""
        one, other = self._find(pair.one), self._find(pair.other)
        plain = [each for each in (one, other) if each is not None and _is_compared(each.type)]
        if len(plain) < 2 or one.type != other.type or "time" in (pair.one, pair.other):
            rows = (notification_at(self._batch, row) for row in range(self._size))
            self._read_each(column, [*map(pair.value, rows)])
            return
        one, other = (each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in plain)
        equal = pc.equal(one, other)
        found = pc.cast(equal, pa.int64())
        if pair.is_ordered:
            found = pc.if_else(equal, 0, pc.if_else(pc.less(one, other), -1, 1))
        if pa.types.is_floating(one.type):  # NaN compares with nothing
            found = pc.if_else(pc.or_(pc.is_nan(one), pc.is_nan(other)), None, found)
        self._read_integers(column, found)

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
            index, coordinates = self._reader.index, np.empty(len(array))
            line = 2 * column.number + (rank == BYTES)
            kernels.locate_strings(
                index.directory, index.ints, index.pool, line, starts, letters, valid, coordinates
            )
            self._rows.coordinates[:, column.number] = coordinates
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
        coordinates = np.asarray(array.cast(pa.float64()).to_numpy(zero_copy_only=False))
        self._rows.coordinates[:, column.number] = np.where(valid, coordinates, 0.0)
        self._put(column, NUMBER, valid, column.numbered(coordinates))
        self._rows.states[valid & np.isnan(coordinates), column.number] = _NAN

    def _read_integers(self, column: Column, array: Any) -> None:
        valid = _valid(array)
        whole = array.fill_null(0).to_numpy(zero_copy_only=False)
        coordinates = whole.astype(np.float64)
        self._rows.coordinates[:, column.number] = coordinates
        self._put(column, NUMBER, valid, column.numbered(coordinates))
        for row in np.flatnonzero(valid & (np.abs(coordinates) >= _EXACT)).tolist():
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
        coordinates = whole.astype(np.float64)
        self._rows.coordinates[:, column.number] = coordinates
        symbols = None
        if column.flags & HAS_VALUES and column.others:
            distinct, back = np.unique(coordinates, return_inverse=True)
            symbols = np.array([column.others.get((TIME, each), -1) for each in distinct.tolist()])[back]
        self._put(column, TIME, valid, symbols)
        if column.flags & (HAS_RANGES | HAS_VALUES):
            for row in np.flatnonzero(valid & (np.abs(coordinates) >= _EXACT)).tolist():
                self._rows.exotic.append((row, column.number))

    def _read_lists(self, column: Column, array: Any) -> None:
        valid = _valid(array)
        self._put(column, SET, valid)
        if not column.flags & HAS_ELEMENTS:
            return
        flat = array.flatten()
        if _is_text(flat.type):
            starts, letters = _buffers(flat)
            rank = BYTES if _is_binary(flat.type) else STRING
            all_there = np.ones(len(flat), np.bool_)
            symbols = self._symbols(column, Sort.ELEMENT + rank, starts, letters, all_there)
        else:
            symbols = column.numbered_elements(flat.cast(pa.float64()).to_numpy(zero_copy_only=False))
        owner = np.repeat(np.arange(self._size, dtype=np.int32), _lengths(array))
        number = np.full(len(flat), column.number, np.int32)
        self._elements.append(np.stack((owner, number, symbols), axis=1))

    def _read_tagged(self, column: Column, tag: str, array: Any) -> None:
        """Values in the typed encoding: shapes by their coordinates, others one by one."""
        inner = pc.struct_field(array, 0)
        valid = _valid(array)
        if tag in _SHAPES and _is_list(inner.type) and _is_number(inner.type.value_type):
            rank, size = _SHAPES[tag]
            flat = inner.flatten()
            exotic = column.flags & HAS_ELEMENTS and rank == _INTERVAL
            if not flat.null_count and not exotic and (_lengths(inner) == size * valid).all():
                self._put(column, rank, valid)
                for axis, each in column.coordinates:
                    if axis < size:
                        at = np.cumsum(valid) * size - size + axis
                        taken = flat.take(pa.array(at, mask=~valid))
                        self._read_array(each, "", taken)
                return
        self._read_each(column, [ABSENT if each is None else decode(each) for each in array.to_pylist()])

    def _read_tuple(self, column: Column, array: Any) -> None:
        """A value of the tuple, or its length."""
        flat = array.flatten() if _is_list(array.type) else None
        if flat is None or flat.null_count or not (_is_text(flat.type) or _is_number(flat.type)):
            values = [column.term.value(notification_at(self._batch, row)) for row in range(self._size)]
            self._read_each(column, values)
            return
        lengths, valid = _lengths(array), _valid(array)
        if isinstance(column.term, Length):
            self._read_integers(column, pa.array(lengths, mask=~valid))
            return
        index = column.term.index
        at = np.cumsum(lengths) - lengths + index
        self._read_array(column, "", flat.take(pa.array(at, mask=lengths <= index)))

    def _hold_paths(self) -> None:
        """The path filters that rows satisfy."""
        selections = self._reader.selections
        if selections is None:
            return
        held: list[Any] = []
        nested = [
            number
            for number, field in enumerate(self._batch.schema)
            if selections.names is None or _leads_to(field.name, field.type, selections.names)
        ]
        flat = all(_is_flat(self._batch.schema.field(number)) for number in nested)
        if flat and selections.names is not None:
            for group in selections.groups:
                for number in nested:
                    if group.path.selects((ROOT, self._batch.schema.names[number])):
                        elements, owner = _elements_in(self._batch.column(number))
                        held.append(group.held_in_rows(elements, owner, self._size))
            self._elements += map(self._reader.held, held)
            return
        there = np.zeros(self._size, np.bool_) if selections.names else np.ones(self._size, np.bool_)
        for number in nested:
            there |= _valid(self._batch.column(number))
        for row in np.flatnonzero(there).tolist():
            held += [(row, symbol) for symbol in selections.held(notification_at(self._batch, row))]
        self._elements.append(self._reader.held(held))

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


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _is_plain(array: Any) -> bool:
    """Whether a list has strings, or numbers that floats stand for."""
    kind = array.type.value_type
    if not pa.types.is_integer(kind):
        return _is_text(kind) or _is_number(kind)
    ends = pc.min_max(array.flatten())
    return ends["min"].as_py() is None or -_EXACT < ends["min"].as_py() <= ends["max"].as_py() < _EXACT


def _lengths(array: Any) -> NDArray[np.int64]:
    """The number of items of each list; of null, none."""
    lengths: NDArray[np.int64] = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def _is_compared(kind: Any) -> bool:
    """Whether Arrow compares the values of a type as filters do."""
    return bool(_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _leads_to(name: str, kind: Any, names: set[str]) -> bool:
    """Whether a column can have elements of these names, at any depth."""
    if any(step in names for step in name.split(".")):
        return "." in name or pa.types.is_nested(kind)
    inner = kind.value_type if _is_list(kind) else kind
    return pa.types.is_struct(inner) and any(_leads_to(field.name, field.type, names) for field in inner)


def _is_flat(field: Any) -> bool:
    """Whether a column holds records, or lists of records, of simple values under plain names."""
    inner = field.type.value_type if _is_list(field.type) else field.type
    return (
        pa.types.is_struct(inner)
        and "." not in field.name
        and not (inner.num_fields == 1 and inner.field(0).name in TAGS)
        and not any(pa.types.is_nested(each.type) or "." in each.name for each in inner)
        and inner.num_fields > 0
    )


def _elements_in(array: Any) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
    """The records in a column as rows, and the row that each is from."""
    owner = np.arange(len(array))
    if _is_list(array.type):
        owner = np.repeat(owner, _lengths(array))
        array = array.flatten()
    valid = _valid(array)
    records = array.filter(pa.array(valid))
    return pa.RecordBatch.from_struct_array(records), owner[valid]


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
