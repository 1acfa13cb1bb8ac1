"""Identities that earlier batches have settled, in the memory of the driver: a run reads each table once.

Law: `Identities.among` says of a hash whether some table has it, with a time from `since` on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.spark.output import Segment

__all__ = ["Identities"]

Halves = NDArray[np.uint64]


class _Table(NamedTuple):
    """A table: the halves of the hashes, sorted by the first, and the times."""

    first: NDArray[np.uint64]
    second: NDArray[np.uint64]
    times: NDArray[np.int64]

    @classmethod
    def of(cls, table: pa.Table) -> _Table:
        halves = _halves(table.column("identity"))
        order = np.argsort(halves[:, 0])
        return cls(halves[order, 0], halves[order, 1], table.column("time").to_numpy()[order])

    def has(self, halves: Halves, since: int) -> NDArray[np.bool_]:
        """The hashes that it has with a time from `since` on, as a mask."""
        found = np.zeros(len(halves), np.bool_)
        position = np.searchsorted(self.first, halves[:, 0])
        rows = np.arange(len(halves))
        while True:  # an identity may be there twice, and two may share their first half
            rows = rows[position[rows] < len(self.first)]
            rows = rows[self.first[position[rows]] == halves[rows, 0]]
            if not len(rows):
                return found
            at = position[rows]
            found[rows] |= (self.second[at] == halves[rows, 1]) & (self.times[at] >= since)
            position[rows] += 1


class Identities:
    """The tables that a run has read; they stay in the process that has read them."""

    def __init__(self) -> None:
        self._tables: dict[Segment, _Table] = {}

    def __reduce__(self) -> tuple[type[Identities], tuple[()]]:
        return Identities, ()

    def among(
        self, hashes: pa.Array, segments: Iterable[Segment], read: Callable[[Segment], pa.Table], since: int
    ) -> NDArray[np.bool_]:
        """The hashes in the tables of these segments. Others are dropped from memory."""
        known = self._tables
        self._tables = {each: known.get(each) or _Table.of(read(each)) for each in segments}
        halves = _halves(hashes)
        found = np.zeros(len(hashes), np.bool_)
        for table in self._tables.values():
            found |= table.has(halves, since)
        return found


def _halves(hashes: Any) -> Halves:
    """Hashes of 128 bits as two numbers each."""
    whole = hashes.combine_chunks() if isinstance(hashes, pa.ChunkedArray) else hashes
    fixed = whole.cast(pa.binary(16))
    bits = np.frombuffer(fixed.buffers()[1] or b"", np.uint64)
    return bits[2 * fixed.offset : 2 * (fixed.offset + len(fixed))].reshape(-1, 2)
