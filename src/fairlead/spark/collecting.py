"""Many subscriptions as columns: sorted by id, each once, with the locations that errors name.

A million Python objects would be in the way, so rows become columns chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.errors import FairleadError, PipelineError, ValueRefused
from fairlead.spark.entries import Entry, Location, read_entry, without_location
from fairlead.spark.parts import CHUNK, Content, Subscription

__all__ = ["Locations", "Problems", "distinct", "rows_of"]


class Locations(NamedTuple):
    """The locations of the rows of a content, in two arrays: a million objects would be too many."""

    files: list[str]
    file: NDArray[np.int32]
    line: NDArray[np.int64]

    def at(self, row: int, id: str) -> str:
        """The name of a row in an error message."""
        file, line = self.files[int(self.file[row])], int(self.line[row])
        return f"{file}:{line}" if line else f"{file}, subscription {id!r}"


def rows_of(entries: Iterable[Entry]) -> Iterator[tuple[Location, Subscription]]:
    for entry in entries:
        try:
            row = read_entry(entry)
            if not isinstance(row, Subscription):
                raise ValueRefused(f"the subscription {row.id!r} has no filter")
        except FairleadError as error:
            raise PipelineError(f"{entry.location}: {without_location(error)}") from error
        yield entry.location, row


def distinct(rows: Iterator[tuple[Location, Subscription]]) -> tuple[Content, Locations]:
    """The columns of rows, sorted by id; identical rows count once, different ones under one id are refused."""
    files: dict[str, int] = {}
    file: list[NDArray[np.int32]] = []
    line: list[NDArray[np.int64]] = []
    contents: list[Content] = []
    chunk: list[tuple[Location, Subscription]] = []

    def close() -> None:
        if chunk or not contents:
            contents.append(Content.of([row for _, row in chunk]))
            numbers = [files.setdefault(location.file, len(files)) for location, _ in chunk]
            file.append(np.array(numbers, np.int32))
            line.append(np.array([location.line or 0 for location, _ in chunk], np.int64))
            chunk.clear()

    for each in rows:
        chunk.append(each)
        if len(chunk) == CHUNK:
            close()
    close()
    content = Content.joined(contents)
    locations = Locations(list(files), np.concatenate(file), np.concatenate(line))
    order = pc.sort_indices(content.ids).to_numpy()
    content = content.picked(order)
    locations = locations._replace(file=locations.file[order], line=locations.line[order])
    if len(content.ids) < 2:
        return content, locations

    again = _same(content.ids)
    same = again & _same(content.subscribers) & _same(content.texts)
    same &= (content.since[1:] == content.since[:-1]) & (content.until[1:] == content.until[:-1])
    clashes = np.flatnonzero(again & ~same) + 1
    if len(clashes):
        row = int(clashes[np.lexsort((locations.line[clashes], locations.file[clashes]))[0]])
        id = content.ids[row].as_py()
        raise PipelineError(
            f"{locations.at(row, id)}: the id {id!r} is taken by another subscription,"
            f" {locations.at(row - 1, id)}",
            hint="ids are unique; a subscription that changes is a change, read while the stream runs",
        )
    if again.any():
        first = np.flatnonzero(np.concatenate(([True], ~again)))
        content = content.picked(first)
        locations = locations._replace(file=locations.file[first], line=locations.line[first])
    return content, locations


def _same(names: pa.Array) -> NDArray[np.bool_]:
    """The names that are the same as the one before, as a mask."""
    found: NDArray[np.bool_] = pc.equal(names[1:], names[:-1]).to_numpy(zero_copy_only=False)
    return found


class Problems:
    """The filters that cannot be read: the first one in the order of the input is reported, and how many."""

    def __init__(self, content: Content, locations: Locations) -> None:
        self._content, self._locations = content, locations
        self._count = 0
        self._first: tuple[tuple[int, int], int, FairleadError] | None = None

    def add(self, row: int, error: FairleadError) -> None:
        self._count += 1
        location = int(self._locations.file[row]), int(self._locations.line[row])
        if self._first is None or location < self._first[0]:
            self._first = location, row, error

    def report(self) -> None:
        if self._first is None:
            return
        _, row, error = self._first
        id = self._content.ids[row].as_py()
        more = f"\n  and {self._count - 1} more that cannot be read" if self._count > 1 else ""
        raise PipelineError(f"{self._locations.at(row, id)}: {without_location(error)}{more}") from error
