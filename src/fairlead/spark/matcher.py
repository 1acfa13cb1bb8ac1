"""Matching in a worker: record batches of notifications in; those that match out, each with its
receivers.

A worker process maps the compiled subscriptions into memory once, however many tasks and micro-batches it gets.
The kernels see whole record batches: typed columns as they are, and JSON texts by a scan for what filters name
(`scanning`). A text that the scan is not sure of becomes a notification, as every text does in plain Python.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.matching.columnar import Columnar
from fairlead.model.order import BEGINNING, END
from fairlead.spark.frames import ATTRIBUTES, KEY, RECORD, notifications_in
from fairlead.spark.parts import Part, Table, located, table_of
from fairlead.spark.placement import ANYWHERE, Placement
from fairlead.spark.scanning import columns_in
from fairlead.spark.scoping import Components, ScopeText, Sees
from fairlead.spark.sealing import binding_of, renew_keys
from fairlead.spark.subscriptions import Subscriptions, load_extension

if TYPE_CHECKING:
    from fairlead.filters import Schema
    from fairlead.model import Notification

__all__ = [
    "MEMORY",
    "OPENED",
    "PARTITION",
    "RECEIVERS",
    "TARGET",
    "Matcher",
    "Router",
    "components_of",
    "receivers_in",
    "subscribers_of",
]

MEMORY: Final = 4 << 30
"""The bytes of compiled subscriptions that a worker may map, unless it is told otherwise."""
OPENED: Final[Counter[str]] = Counter()
"""The number of times this process has opened each part: once, unless it had to make room."""
TARGET: Final = "target"
PARTITION: Final = "partition"
RECEIVERS: Final = "receivers"
"""The column with the subscribers of a notification, each with the ids of its subscriptions that match."""
_AT_ONCE: Final = 1 << 20
"""About so many matches are held at a time; a batch with more is worked through in pieces."""


# -- the content of notifications ----------------------------------------------------------------------------


class _Content(NamedTuple):
    """Some rows of keyed notifications: as columns, or as notifications where no columns can speak for them."""

    rows: pa.RecordBatch
    columns: pa.RecordBatch | None
    notifications: Sequence[Notification] = ()

    def slice(self, start: int, size: int) -> _Content:
        columns = None if self.columns is None else self.columns.slice(start, size)
        return _Content(self.rows.slice(start, size), columns, self.notifications[start : start + size])

    @property
    def notification_of(self) -> Callable[[int], Notification] | None:
        """The function that makes the whole notification of a row, where columns do not say all of it."""
        if RECORD not in self.rows.schema.names:
            return None
        return lambda row: notifications_in(self.rows.slice(row, 1))[0]


def _contents(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[_Content]:
    if RECORD not in batch.schema.names:
        yield _Content(batch, _columns(batch, names))
        return
    columns, sure = columns_in(batch.column(RECORD), names)
    if sure.all():
        yield _Content(batch, columns)
        return
    for those, by_column in ((sure, True), (~sure, False)):
        if those.any():
            rows = batch.filter(pa.array(those))
            if by_column:
                yield _Content(rows, columns.filter(pa.array(those)))
            else:
                yield _Content(rows, None, notifications_in(rows))


def _columns(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The attributes under their names; where there is a struct and it is null, so are they."""
    if not names:
        struct = batch.column(ATTRIBUTES)
        return pa.RecordBatch.from_arrays(struct.flatten(), [field.name for field in struct.type])
    return pa.RecordBatch.from_arrays(batch.columns[len(KEY) : len(KEY) + len(names)], list(names))


# -- where notifications go ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Router:
    """Sends each notification to the targets that may match it: a row for each, with its number.

    `copies`: over how many partitions the rows for one target go, so that a popular one does not starve.
    """

    placement: Placement
    targets: tuple[frozenset[int], ...]
    names: tuple[str, ...] = ()
    copies: int = 1

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            visits = self._visits(batch)
            rows, targets = np.nonzero(visits)
            sent = batch.take(pa.array(rows))
            partitions = targets * self.copies + rows % self.copies
            arrays = [*sent.columns, pa.array(targets, pa.int32()), pa.array(partitions, pa.int32())]
            yield pa.RecordBatch.from_arrays(arrays, [*batch.schema.names, TARGET, PARTITION])

    def _visits(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        if RECORD in batch.schema.names:
            columns, sure = columns_in(batch.column(RECORD), self.placement.attributes)
            buckets = self.placement.visits(columns)
            if not sure.all():
                unsure = batch.filter(pa.array(~sure))
                buckets[~sure] = self.placement.visits_of(notifications_in(unsure))
        else:
            buckets = self.placement.visits(_columns(batch, self.names))
        every = np.ones(batch.num_rows, np.bool_)
        columns = [
            every if ANYWHERE in target else buckets[:, sorted(target)].any(axis=1) for target in self.targets
        ]
        return np.stack(columns, axis=1)


# -- who gets them -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Matcher:
    """Record batches of keyed notifications in; out go those that match, with their receivers.

    Of several targets a row says which one it is for. `names` are those of the attributes that are
    columns. `carried` columns come along; with `every`, so do rows that nobody receives. With `scopes` subscribers
    receive what they may see; rows that more than filters decide about are left out.
    """

    targets: tuple[Subscriptions, ...]
    names: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    memory: int = MEMORY
    every: bool = False
    scopes: ScopeText | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            given = batch if self.scopes is None else self.scopes.opened.plain(batch)
            for target, rows in self._by_target(given):
                yield from _opened(target, self.memory).matched(rows, self)

    def _by_target(self, batch: pa.RecordBatch) -> Iterator[tuple[Subscriptions, pa.RecordBatch]]:
        if len(self.targets) == 1:
            yield self.targets[0], batch
            return
        numbers = batch.column(TARGET).to_numpy()
        for number in np.unique(numbers).tolist():
            yield self.targets[number], batch.take(pa.array(np.flatnonzero(numbers == number)))


def components_of(targets: Sequence[Subscriptions]) -> list[Components]:
    """Those who subscribe, for each target."""
    return [_opened(target, MEMORY).components for target in targets]


def receivers_in(
    targets: Sequence[Subscriptions],
    batch: pa.RecordBatch,
    carried: tuple[str, ...],
    seen_in: Callable[[pa.RecordBatch], Sees],
) -> Iterator[pa.RecordBatch]:
    """The rows that somebody who sees them has asked for, with the receivers, for each target."""
    for target in targets:
        wanted = Matcher((target,), (), carried)
        yield from _opened(target, MEMORY).matched(batch, wanted, seen_in)


def subscribers_of(
    targets: Sequence[Subscriptions], notifications: Sequence[Notification], times: Sequence[int]
) -> list[dict[str, list[str]]]:
    """The subscribers of each notification, each with the ids, sorted, that match it and are valid at its time."""
    found: list[dict[str, list[str]]] = [{} for _ in notifications]
    for target in targets:
        for row, subscriber, id in _opened(target, MEMORY).pairs(notifications, times):
            found[row].setdefault(subscriber, []).append(id)
    for each in found:
        for ids in each.values():
            ids.sort()
    return found


# Parts and sets of them that this process has open. They outlive tasks: Spark keeps its Python workers.
_PARTS: Final[dict[tuple[str, str | None], Columnar[int]]] = {}
"""By their names, and the file of keys that they decide with."""
_SETS: Final[OrderedDict[tuple[Any, ...], _Opened]] = OrderedDict()


def _opened(subscriptions: Subscriptions, memory: int) -> _Opened:
    schema = subscriptions.schema
    fingerprint = None if schema is None else schema.fingerprint
    named = ((part.name, part.number) for part in subscriptions.parts)
    key = (fingerprint, subscriptions.keys, subscriptions.endings, *named)
    if subscriptions.keys is not None:
        renew_keys(subscriptions.keys)  # what is open decides with them, too
    found = _SETS.get(key)
    if found is None:
        for name in subscriptions.extensions:
            load_extension(name)
        _make_room(subscriptions, memory)
        found = _SETS[key] = _Opened(subscriptions)
    _SETS.move_to_end(key)
    return found


def _make_room(wanted: Subscriptions, memory: int) -> None:
    """Close what was not used for longest, until what is wanted fits beside the rest."""

    def size() -> int:
        parts = chain(wanted.parts, *(each.parts for each in _SETS.values()))
        return sum({part.name: part.size for part in parts}.values())

    while _SETS and (size() > memory or len(_SETS) >= 8):
        _SETS.popitem(last=False)
    kept = {part.name for part in chain(wanted.parts, *(each.parts for each in _SETS.values()))}
    for key in [key for key in _PARTS if key[0] not in kept]:
        del _PARTS[key]


def _engine(part: Part, table: Table, schema: Schema | None, keys: str | None) -> Columnar[int]:
    engine = _PARTS.get((part.name, keys))
    if engine is None:
        resolve = None if keys is None else binding_of(keys)
        path = located(part.directory, table.filters)
        engine = _PARTS[part.name, keys] = Columnar.open(path, schema, resolve=resolve)
        OPENED[part.name] += 1
    return engine


class _Opened:
    """Some parts as one: the ordinals of a part come behind those of the parts before it."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self.parts = subscriptions.parts
        tables = [table_of(part) for part in self.parts]
        self._engines = [
            _engine(part, table, subscriptions.schema, subscriptions.keys)
            for part, table in zip(self.parts, tables, strict=True)
        ]
        self._offsets = np.cumsum([0, *map(len, tables)])
        self._ids = _joined([table.ids for table in tables])
        self._subscribers = _joined([table.subscribers for table in tables])
        self._codes = _unified(tables)
        self._since = np.concatenate([np.empty(0, np.int64), *(table.since for table in tables)])
        self._until = np.concatenate([np.empty(0, np.int64), *map(subscriptions.until, self.parts)])
        self._dated = bool((self._since != BEGINNING).any() or (self._until != END).any())
        self._ranks = tables[0].ranks if len(tables) == 1 else None
        self._names = tuple(sorted({name for table in tables for name in table.attributes}))
        self._step = 256

    def matched(
        self, batch: pa.RecordBatch, wanted: Matcher, seen_in: Callable[[pa.RecordBatch], Sees] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a batch that match, with their receivers, in pieces. `seen_in` has their visibility where no
        scopes are wanted."""
        scopes = None if wanted.scopes is None else wanted.scopes.opened
        names = self._names if RECORD in batch.schema.names else wanted.names
        if scopes is not None and RECORD in batch.schema.names:
            names = tuple(sorted({*names, *scopes.names(batch)}))
        for content in _contents(batch, names):
            view: Sees | None = None if scopes is None else scopes.visibility(*content)
            if seen_in is not None:
                view = seen_in(content.rows)
            start = 0
            while start < content.rows.num_rows:
                step = self._step
                piece = content.slice(start, step)
                if piece.columns is not None:
                    rows, ordinals = self._matched(piece.columns, piece.notification_of)
                else:
                    rows, ordinals = self._matched_one_by_one(piece.notifications)
                # A single notification may match everything, and the next batch another number than this one.
                self._step = max(16, min(1 << 16, _AT_ONCE * piece.rows.num_rows // max(1, len(ordinals))))
                if view is not None:
                    seen = view.sees(rows + start, self.components, self._codes[ordinals])
                    rows, ordinals = rows[seen], ordinals[seen]
                start += step
                if self._dated:
                    rows, ordinals = self._valid(rows, ordinals, piece.rows.column("time").to_numpy())
                if len(rows) or wanted.every:
                    yield self._grouped(piece.rows, rows, ordinals, wanted)

    @cached_property
    def components(self) -> Components:
        """The subscribers, by code."""
        first = np.full(int(self._codes.max(initial=-1)) + 1, -1, np.int64)
        first[self._codes] = np.arange(len(self._codes))
        return Components(self._subscribers.take(pa.array(first, mask=first < 0)))

    def pairs(
        self, notifications: Sequence[Notification], times: Sequence[int]
    ) -> Iterator[tuple[int, str, str]]:
        """The subscriptions that are valid at the times of notifications and match them: row, subscriber, id."""
        rows, ordinals = self._matched_one_by_one(notifications)
        if self._dated:
            rows, ordinals = self._valid(rows, ordinals, np.asarray(times, np.int64))
        those = pa.array(ordinals)
        subscribers, ids = self._subscribers.take(those).to_pylist(), self._ids.take(those).to_pylist()
        return zip(rows.tolist(), subscribers, ids, strict=True)

    def _valid(
        self, rows: NDArray[np.int64], ordinals: NDArray[np.int64], times: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of matches those with a subscription that is valid at the order time of the row."""
        time = times[rows]
        valid = (self._since[ordinals] <= time) & (time < self._until[ordinals])
        return rows[valid], ordinals[valid]

    def _matched(
        self, attributes: pa.RecordBatch, notification_of: Callable[[int], Notification] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows that match, each as often as it does, and the ordinals of what they match."""
        numbers = np.arange(attributes.num_rows)
        rows, ordinals = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for engine, offset in zip(self._engines, self._offsets.tolist(), strict=False):
            found = engine.match_arrow(attributes, notification_of)
            rows.append(np.repeat(numbers, np.diff(found.starts)))
            ordinals.append(found.ordinals.astype(np.int64) + offset)
        return np.concatenate(rows), np.concatenate(ordinals)

    def _matched_one_by_one(self, notifications: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        numbers = np.arange(len(notifications))
        rows, ordinals = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for engine, offset in zip(self._engines, self._offsets.tolist(), strict=False):
            found = engine.match_batch(notifications)
            counts = np.fromiter(map(len, found), np.int64, len(found))
            rows.append(np.repeat(numbers, counts))
            ordinals.append(np.fromiter(chain.from_iterable(found), np.int64, int(counts.sum())) + offset)
        return np.concatenate(rows), np.concatenate(ordinals)

    def _grouped(self, piece: pa.RecordBatch, rows: Any, ordinals: Any, wanted: Matcher) -> pa.RecordBatch:
        """One row for each notification, with its subscribers and, for each of these, the ids in order."""
        owner = rows * len(self._subscribers) + self._codes[ordinals]
        if self._ranks is not None:
            order = np.lexsort((self._ranks[ordinals], owner))
        else:
            order = np.argsort(owner, kind="stable")
        rows, ordinals, owner = rows[order], ordinals[order], owner[order]
        first = _firsts(owner)
        if self._ranks is None and len(first) < len(owner):
            ordinals = self._in_order_of_ids(owner, ordinals)
        ids = _lists(first, self._ids.take(pa.array(ordinals)))
        whom = self._subscribers.take(pa.array(ordinals[first]))
        receivers = pa.StructArray.from_arrays([whom, ids], ["subscriber", "subscriptions"])
        counts = np.bincount(rows[first], minlength=piece.num_rows)
        given = piece.select([*KEY, *wanted.carried])
        if not wanted.every:
            given, counts = given.take(pa.array(np.flatnonzero(counts))), counts[counts > 0]
        return given.append_column(RECEIVERS, _lists(np.cumsum(counts) - counts, receivers))

    def _in_order_of_ids(self, owner: Any, ordinals: Any) -> Any:
        """The ordinals with those of each owner in the order of their ids, where parts were joined."""
        again = owner[1:] == owner[:-1]
        several = np.flatnonzero(np.concatenate((again, [False])) | np.concatenate(([False], again)))
        ids = self._ids.take(pa.array(ordinals[several]))
        named = pa.table({"owner": owner[several], "id": ids})
        order = pc.sort_indices(named, [("owner", "ascending"), ("id", "ascending")]).to_numpy()
        ordinals = np.array(ordinals)
        ordinals[several] = ordinals[several][order]
        return ordinals


def _firsts(sorted_codes: Any) -> NDArray[np.int64]:
    """The place where each code comes first."""
    if not len(sorted_codes):
        return np.empty(0, np.int64)
    return np.flatnonzero(np.concatenate(([True], sorted_codes[1:] != sorted_codes[:-1])))


def _lists(starts: NDArray[np.int64], items: pa.Array) -> pa.Array:
    """Items as lists, which begin at some places."""
    return pa.ListArray.from_arrays(pa.array(np.append(starts, len(items)).astype(np.int32)), items)


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays or [pa.array([], pa.string())])


def _unified(tables: Sequence[Table]) -> NDArray[np.int64]:
    """The codes of the subscribers of all tables, the same for the same subscriber."""
    if len(tables) == 1:
        return tables[0].codes.astype(np.int64)
    found = [np.empty(0, np.int64)]
    known = pa.array([], pa.string())
    for table in tables:
        _, sample = np.unique(table.codes, return_index=True)
        names = table.subscribers.take(pa.array(sample))
        there = pc.index_in(names, value_set=known)
        new = names.filter(there.is_null())
        codes = there.fill_null(-1).to_numpy().astype(np.int64)
        codes[codes < 0] = len(known) + np.arange(len(new))
        known = pa.concat_arrays([known, new])
        found.append(codes[table.codes])
    return np.concatenate(found)
