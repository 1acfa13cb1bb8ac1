"""JSON texts, matched one at a time without a notification: what a kernel needs for that, as addresses."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.filters.terms import Attribute
from fairlead.matching.columnar.columns import Column, Reader
from fairlead.matching.columnar.kernels.scanned import ARRAYS, CHECKS, match_text
from fairlead.matching.columnar.layout import HAS_BOUNDS
from fairlead.model.json_kernels import DEPTH, KEYS, ROOT

__all__ = ["Scanner", "call"]

SEARCHED_MAX: Final = 1 << 16
"""Texts that are searched may have so many letters in all."""
_READ_OTHERWISE: Final = frozenset(CHECKS) - {"producer"}
"""Of the envelope, what filters see is not always what the text has."""

call: Final = ctypes.PYFUNCTYPE(ctypes.c_int64)(match_text.address)
"""The kernel: it gets a scanner's `context`, a text and its length. Were the types of these declared, ctypes would
make an object for each of them, with every call, which takes longer than all else around the kernel."""


class Scanner:
    """The arrays for one text at a time. One thread at a time."""

    def __init__(self, reader: Reader) -> None:
        index, width = reader.index, reader.width
        names = _Names(reader)
        symbols = len(index.section("symbol_sort"))
        number = np.zeros(1)
        self._arrays: dict[str, NDArray[Any]] = {
            "directory": index.directory,
            "ints": index.ints,
            "reals": index.reals,
            "pool": index.pool,
            "died": np.empty(0, np.int64),
            "states": reader.blank.reshape(-1).copy(),
            "coordinates": np.zeros(width),
            "text_start": np.zeros(reader.texts + 1, np.int32),
            "text": np.zeros(SEARCHED_MAX, np.uint8),
            "stamps": np.zeros(symbols + 1, np.int32),
            "scratch": np.zeros(2 + symbols + width + index.stack_max + 1, np.int32),
            "out": np.zeros(len(index) + 256, np.int32),
            "counters": np.zeros(2, np.int64),
            "names": np.frombuffer(b"".join(names.steps), np.uint8),
            "name_starts": np.cumsum([0, *map(len, names.steps)]).astype(np.int32),
            "parents": np.array(names.parents, np.int32),
            "targets": np.array(names.targets, np.int32).reshape(-1),
            "kinds": np.zeros(len(names.steps), np.uint8),
            "begins": np.zeros(len(names.steps), np.int64),
            "ends": np.zeros(len(names.steps), np.int64),
            "numbers": np.zeros(len(names.steps)),
            "open_hashes": np.zeros(KEYS, np.uint64),
            "open_at": np.zeros(4 * DEPTH, np.int64),
            "number": number,
            "number_bytes": number.view(np.uint8),
        }
        self.out = self._arrays["out"]
        self._context = np.zeros(2 + 2 * len(ARRAYS), np.int64)
        self.context = ctypes.byref(ctypes.c_int64.from_buffer(self._context.data))
        """A reference to all that the kernel is told."""
        self.died: NDArray[np.int64] | None = None
        self.stamp = -1

    @staticmethod
    def reads(reader: Reader) -> bool:
        """Whether texts alone have all that filters need: attributes, and no order of strings."""
        return (
            not reader.polynomials.columns
            and reader.selections is None
            and all(
                isinstance(column.term, Attribute)
                and not column.coordinates
                and not column.flags & HAS_BOUNDS
                and column.term.name.partition(".")[0] not in _READ_OTHERWISE
                for column in reader.columns
            )
        )

    def look_at(self, died: NDArray[np.int64], stamp: int) -> None:
        """Match against the version of this stamp."""
        self.died, self.stamp = died, stamp
        arrays = {**self._arrays, "died": died}
        self._context[0] = stamp
        self._context[2:] = [
            each for name in ARRAYS for each in (arrays[name].ctypes.data, arrays[name].size)
        ]


class _Names:
    """The names that are wanted, as a tree: those of the envelope, then columns by the slots of their texts."""

    def __init__(self, reader: Reader) -> None:
        self.steps = [name.encode() for name in CHECKS]
        self.parents = [ROOT] * len(CHECKS)
        self.targets = [(-1, -1)] * len(CHECKS)
        self._numbers: dict[tuple[int, bytes], int] = {(ROOT, name): at for at, name in enumerate(self.steps)}
        for column in sorted(reader.columns, key=lambda each: each.slot):
            self._add(column)

    def _add(self, column: Column) -> None:
        parent = ROOT
        for step in column.term.name.encode().split(b"."):
            at = self._numbers.setdefault((parent, step), len(self.steps))
            if at == len(self.steps):
                self.steps.append(step)
                self.parents.append(parent)
                self.targets.append((-1, -1))
            parent = at
        self.targets[parent] = column.number, column.slot
