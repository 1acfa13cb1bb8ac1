"""JSON texts as columns: whole record batches, and of each record only the attributes that are needed.

Law: where a scan is sure of a text, the exact reader (`fairlead.ingest.records`) reads it too, and a column of the
scan has the value that this reader finds under its name; null means that there is none. Where it is not sure, it
says so, and the exact reader decides: names that stand twice or hold dots or escapes, values in typed form other
than points, numbers that a float cannot hold, escapes in a string that is asked for, deep nesting, bytes that are
not UTF-8, and all that is not JSON.

The text itself is never changed: it stays what was published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.errors import ValueRefused
from fairlead.model import Instant
from fairlead.model import json_kernels as kernels

__all__ = ["Mask", "Scan", "buffers_of", "columns_in", "scan"]

Mask: TypeAlias = NDArray[np.bool_]

_EXACT: Final = 2**53
_INSTANT: Final = pa.timestamp("us", "UTC")
_COMMON_TIME: Final = r"\A[12]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z\z"
"""The form that Arrow and `Instant.parse` read alike."""


@dataclass(frozen=True, slots=True)
class _Names:
    """Dotted names as a tree: of each step its letters, and the step above it."""

    columns: dict[str, int]
    letters: NDArray[np.uint8]
    starts: NDArray[np.int32]
    parents: NDArray[np.int32]


@lru_cache(maxsize=64)
def _names(wanted: tuple[str, ...]) -> _Names:
    columns: dict[str, int] = {}
    steps: list[bytes] = []
    parents: list[int] = []
    for name in wanted:
        parent, path = kernels.ROOT, ""
        for step in name.split("."):
            path = f"{path}.{step}" if path else step
            if path not in columns:
                columns[path] = len(steps)
                steps.append(step.encode())
                parents.append(parent)
            parent = columns[path]
    starts = np.zeros(len(steps) + 1, np.int32)
    np.cumsum([len(step) for step in steps], out=starts[1:])
    letters = np.frombuffer(bytearray(b"".join(steps)), np.uint8)
    return _Names(columns, letters, starts, np.array(parents, np.int32))


def scan(texts: pa.Array, names: Sequence[str]) -> Scan:
    """Look for dotted names in an array of texts, strings or bytes."""
    return Scan(texts, _names(tuple(names)))


def columns_in(texts: pa.Array, names: Sequence[str]) -> tuple[pa.RecordBatch, Mask]:
    """The attributes under some names, a column for each, and which rows these columns speak for."""
    found = scan(texts, names)
    arrays = {name: array for name in names if (array := _attribute(found, name)) is not None}
    # A batch without a column would have no rows.
    return pa.record_batch(arrays or {"": pa.nulls(len(texts))}), found.sure


def _attribute(found: Scan, name: str) -> pa.Array | None:
    match name:
        case "time":
            return found.instants(name).cast(_INSTANT)
        case "tuple":
            found.sure &= ~found.has(name)
            return None
        case "sequence":  # a string of digits is a number there
            found.sure &= ~found.has_string(name)
            return found.column(name)
        case _:
            return found.column(name)


class Scan:
    """The result of a scan. `sure` has for each row whether it can be relied on; reading a column may lower it."""

    def __init__(self, texts: pa.Array, names: _Names) -> None:
        self._names = names
        self._starts, self._letters = buffers_of(texts)
        shape = len(texts), len(names.parents)
        self._kinds = np.zeros(shape, np.uint8)
        self._begins, self._ends = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self._numbers = np.zeros(shape, np.float64)
        self.sure: Mask = np.zeros(len(texts), np.bool_)
        kernels.scan(
            self._letters,
            self._starts,
            names.letters,
            names.starts,
            names.parents,
            self._kinds,
            self._begins,
            self._ends,
            self._numbers,
            self.sure,
            np.empty(kernels.KEYS, np.uint64),
            np.empty((kernels.DEPTH, 4), np.int64),
        )

    def has(self, name: str) -> Mask:
        """The rows that have something under a name."""
        return np.asarray(self._kinds_of(name) != kernels.ABSENT)

    def has_string(self, name: str) -> Mask:
        """The rows that have a string under a name."""
        kinds = self._kinds_of(name)
        return np.asarray((kinds == kernels.STRING) | (kinds == kernels.ESCAPED))

    def column(self, name: str) -> pa.Array | None:
        """The values under a name, in one column of the type that most have; None where nobody has any.

        Rows that have values of other types are not sure.
        """
        kinds = self._kinds_of(name)
        there = self.sure & (kinds != kernels.ABSENT)
        counts = np.bincount(_FORM_OF[kinds[there]], minlength=len(_FORMS) + 1)
        if not counts.any():
            return None
        form = int(counts[:-1].argmax())
        fitting = there & (_FORM_OF[kinds] == form)
        self.sure &= fitting | ~there
        if not fitting.any():
            return None
        return _FORMS[form](self, name, fitting)

    def texts(self, name: str) -> pa.Array:
        """The strings and whole numbers under a name, as text; rows with anything else are not sure."""
        kinds = self._kinds_of(name)
        is_string, is_whole = kinds == kernels.STRING, kinds == kernels.WHOLE
        self.sure &= is_string | is_whole | (kinds == kernels.ABSENT)
        strings = self._strings(name, self.sure & is_string)
        if not (self.sure & is_whole).any():
            return strings
        digits = self._wholes(name, self.sure & is_whole).cast(pa.string())
        return pc.coalesce(strings, digits)

    def wholes(self, name: str) -> pa.Array:
        """The whole numbers under a name; rows with anything else are not sure."""
        kinds = self._kinds_of(name)
        self.sure &= (kinds == kernels.WHOLE) | (kinds == kernels.ABSENT)
        return self._wholes(name, self.sure & (kinds == kernels.WHOLE))

    def instants(self, name: str) -> pa.Array:
        """The instants under a name, in microseconds; rows with what is none, or spelled oddly, are not sure."""
        kinds = self._kinds_of(name)
        self.sure &= (kinds == kernels.STRING) | (kinds == kernels.WHOLE) | (kinds == kernels.ABSENT)
        spelled, counted = self.sure & (kinds == kernels.STRING), self.sure & (kinds == kernels.WHOLE)
        found = self._parsed(name, spelled)
        return pc.coalesce(found, self._wholes(name, counted)) if counted.any() else found

    # -- by form -------------------------------------------------------------------------------------------

    def _kinds_of(self, name: str) -> NDArray[np.uint8]:
        return self._kinds[:, self._names.columns[name]]

    def _wholes(self, name: str, rows: Mask) -> pa.Array:
        return pa.array(self._begins[:, self._names.columns[name]], pa.int64(), mask=~rows)

    def _strings(self, name: str, rows: Mask) -> pa.Array:
        column = self._names.columns[name]
        begins = np.where(rows, self._begins[:, column], 0)
        ends = np.where(rows, self._ends[:, column], 0)
        return _sliced(self._letters, begins, ends, rows)

    def _numbers_of(self, name: str, rows: Mask) -> pa.Array:
        """Whole numbers where all are, else floats; a number that a float cannot hold is not sure."""
        column, kinds = self._names.columns[name], self._kinds_of(name)
        if not (rows & (kinds != kernels.WHOLE)).any():
            return self._wholes(name, rows)
        whole = rows & (kinds == kernels.WHOLE)
        self.sure &= ~(whole & (np.abs(self._numbers[:, column]) >= _EXACT))
        numbers = self._numbers[:, column].copy()
        if (long := rows & (kinds == kernels.LONG)).any():
            spelled = self._strings(name, long)
            near = spelled.cast(pa.float64())
            # The shortest spelling of the float is what it stands for.
            same = pc.equal(near.cast(pa.string()), spelled).fill_null(False).to_numpy(zero_copy_only=False)
            self.sure &= ~long | same
            numbers[long] = near.fill_null(0.0).to_numpy(zero_copy_only=False)[long]
        return pa.array(numbers, pa.float64(), mask=~rows)

    def _booleans(self, name: str, rows: Mask) -> pa.Array:
        return pa.array(self._kinds_of(name) == kernels.TRUE, pa.bool_(), mask=~rows)

    def _records(self, name: str, rows: Mask) -> pa.Array:
        """That there is a record: what is in it has columns of its own."""
        nothing = pa.nulls(len(rows), pa.int8())
        return pa.StructArray.from_arrays([nothing], ["_"], mask=pa.array(~rows))

    def _lists(self, name: str, rows: Mask) -> pa.Array:
        column = self._names.columns[name]
        begins, ends = np.where(rows, self._begins[:, column], 0), np.where(rows, self._ends[:, column], 0)
        counts = np.zeros(len(rows), np.int64)
        kernels.count_strings(self._letters, begins, ends, counts)
        string_begins, string_ends = (np.zeros(int(counts.sum()), np.int64) for _ in range(2))
        kernels.find_strings(self._letters, begins, ends, string_begins, string_ends)
        items = _sliced(self._letters, string_begins, string_ends)
        offsets = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), items, mask=pa.array(~rows))

    def _parsed(self, name: str, rows: Mask) -> pa.Array:
        spelled = self._strings(name, rows)
        common = pc.match_substring_regex(spelled, _COMMON_TIME).fill_null(True)
        if pc.all(common, min_count=0).as_py():
            try:
                return spelled.cast(_INSTANT).cast(pa.int64())
            except pa.ArrowInvalid:  # some day or minute that the calendar has not
                common = pa.array([each is None or _is_time(each) for each in spelled.to_pylist()])
        mask = common.to_numpy(zero_copy_only=False)
        self.sure &= mask | ~rows
        return pc.if_else(common, spelled, None).cast(_INSTANT).cast(pa.int64())


_FORM_OF: Final = np.full(kernels.ESCAPED + 1, 5, np.int64)
for _form, _kinds in enumerate(
    (
        (kernels.STRING,),
        (kernels.WHOLE, kernels.FRACTION, kernels.LONG),
        (kernels.TRUE, kernels.FALSE),
        (kernels.LIST,),
        (kernels.RECORD,),
    )
):
    _FORM_OF[list(_kinds)] = _form
_FORMS: Final[tuple[Any, ...]] = (
    Scan._strings,
    Scan._numbers_of,
    Scan._booleans,
    Scan._lists,
    Scan._records,
)


def _sliced(
    letters: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64], valid: Mask | None = None
) -> pa.Array:
    """Slices of letters as strings."""
    offsets = np.zeros(len(begins) + 1, np.int64)
    np.cumsum(ends - begins, out=offsets[1:])
    copied = np.empty(int(offsets[-1]), np.uint8)
    kernels.copy_slices(letters, begins, ends, offsets, copied)
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(copied)]
    return pa.Array.from_buffers(pa.string(), len(begins), buffers)


def buffers_of(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The starts and the letters of an array of strings or bytes, wherever in its buffers it begins."""
    if pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type):
        texts = texts.cast(pa.binary())
    _, starts, letters = texts.buffers()
    if starts is None or not len(texts):
        return np.zeros(len(texts) + 1, np.int64), np.empty(0, np.uint8)
    given = np.frombuffer(starts, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    used = np.empty(0, np.uint8) if letters is None else np.frombuffer(letters, np.uint8)
    return given.astype(np.int64) - int(given[0]), used[int(given[0]) : int(given[-1])].copy()


def _is_time(text: str) -> bool:
    try:
        Instant.parse(text)
    except ValueRefused:
        return False
    return pc.match_substring_regex(pa.array([text]), _COMMON_TIME)[0].as_py() is True
