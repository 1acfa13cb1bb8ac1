"""Matching on Spark: from a table of notifications to the deliveries they cause.

    a delivery (subscriber, n, ids)    iff    ids are those of the subscriber's subscriptions that n matches and
                                              whose validity contains n's order time, and there is at least one

The columnar engine runs inside an Arrow operator. Each worker process maps the compiled subscriptions into memory
once, however many tasks and micro-batches it is given; the kernels see whole record batches, and what is grouped
and emitted are arrays again. Subscriptions that are too large for one worker are spread by `placement`: each
notification then travels to those workers only whose subscriptions it can match.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray
from pyspark.sql import functions as F
from pyspark.sql import types as T

from fairlead.errors import PipelineError
from fairlead.matching.columnar import Columnar
from fairlead.model.order import BEGINNING, END
from fairlead.spark.frames import ATTRIBUTES, DELIVERY, KEY, RECORD, notifications_in
from fairlead.spark.parts import Part, Table, located, table_of
from fairlead.spark.placement import ANYWHERE, Placement
from fairlead.spark.sessions import is_remote
from fairlead.spark.subscriptions import Subscriptions, SubscriptionsInput, load_extension

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from fairlead.filters import Schema

__all__ = ["MEMORY", "OPENED", "Matcher", "Router", "evened", "keyed", "match", "narrowed", "pairs", "spread"]

MEMORY: Final = 4 << 30
"""How many bytes of compiled subscriptions a worker may map, unless it is told otherwise."""
OPENED: Final[Counter[str]] = Counter()
"""How often this process has opened each part: once, unless it had to make room."""

_TARGET: Final = "target"
_PARTITION: Final = "partition"
_AT_ONCE: Final = 1 << 20
"""About so many matches are held at a time; a batch with more is worked through in pieces."""


# -- the stage ---------------------------------------------------------------------------------------------


def match(
    notifications: DataFrame,
    subscriptions: Subscriptions | SubscriptionsInput | DataFrame | Iterable[Mapping[str, Any]],
    *,
    schema: Schema | None = None,
    payload: bool = False,
    directory: str | Path | None = None,
    memory: int = MEMORY,
    ship: bool | None = None,
) -> DataFrame:
    """The deliveries of notifications: one row per subscriber and notification, with the ids that matched.

    `notifications` are those of `ingest` or `order`, or any table with an `id`: its columns are the attributes,
    null means absent, and `producer`, `time` and `sequence` are taken where they exist. With `payload` the
    content comes along. Subscriptions that are not compiled yet are compiled into `directory`. Compiled ones
    are shipped to workers that may not see the directory: by default to all but those of a local session.
    """
    compiled = subscriptions
    if not isinstance(compiled, Subscriptions):
        spark = notifications.sparkSession
        compiled = Subscriptions.read(compiled, directory or _temporary(), schema=schema, spark=spark)
    _ship(notifications.sparkSession, compiled, ship)
    rows, names = keyed(notifications, _attributes(compiled), payload)
    targets = _targets(compiled, memory)
    carried = [each for each in (RECORD, ATTRIBUTES) if payload and each in rows.columns]
    declared = _declared(rows, carried)
    matcher = Matcher(targets, names, tuple(carried), memory)
    if len(targets) == 1:
        return rows.mapInArrow(matcher, declared)

    placement = compiled.placement or Placement((), 1)
    ways = max(1, int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1) // len(targets))
    router = Router(placement, tuple(frozenset(_buckets(target)) for target in targets), names, ways)
    routed = T.StructType([*rows.schema.fields, _integer(_TARGET), _integer(_PARTITION)])
    sent = rows.mapInArrow(router, routed).repartitionById(len(targets) * ways, F.col(_PARTITION))
    found = sent.mapInArrow(matcher, declared)
    # A subscriber may have subscriptions in several parts; a notification is delivered to it once.
    ids = F.sort_array(F.array_distinct(F.flatten(F.collect_list("subscriptions")))).alias("subscriptions")
    merged = found.groupBy(*DELIVERY[:-1]).agg(ids, *(F.first(each).alias(each) for each in carried))
    return merged.select(*DELIVERY, *carried)


def pairs(deliveries: DataFrame) -> DataFrame:
    """One row per matching subscription, in `subscription`."""
    others = [name for name in deliveries.columns if name != "subscriptions"]
    return deliveries.select(*others, F.explode("subscriptions").alias("subscription"))


def spread(frame: DataFrame, over: int) -> DataFrame:
    """The same rows over so many partitions, if now some partition has much more than its share.

    Looking costs a pass over the input, so this is for what is cheap to read: files, and what is persisted.
    """
    sizes = [row["count"] for row in frame.groupBy(F.spark_partition_id().alias("p")).count().collect()]
    return evened(frame, sizes, over)


def evened(frame: DataFrame, sizes: Sequence[int], over: int) -> DataFrame:
    """The same as `spread`, where it is known already how many rows each partition has."""
    lopsided = bool(sizes) and 2 * max(sizes) * over > 3 * sum(sizes)
    return frame.repartition(over) if lopsided else frame


def _declared(rows: DataFrame, carried: Sequence[str]) -> T.StructType:
    text, whole = T.StringType(), T.LongType()
    types: dict[str, T.DataType] = {"time": whole, "sequence": whole, "subscriptions": T.ArrayType(text)}
    fields = [T.StructField(name, types.get(name, text)) for name in DELIVERY]
    return T.StructType([*fields, *(rows.schema[name] for name in carried)])


def _integer(name: str) -> T.StructField:
    return T.StructField(name, T.IntegerType())


# -- any table as notifications ----------------------------------------------------------------------------


def _attributes(subscriptions: Subscriptions) -> frozenset[str] | None:
    """The attributes that any filter looks at; None where one looks at everything."""
    named = [table_of(part).attributes for part in subscriptions.parts]
    if any(each is None for each in named):
        return None
    return frozenset(name for each in named if each is not None for name in each)


def keyed(
    frame: DataFrame, asked: frozenset[str] | None, payload: bool = False
) -> tuple[DataFrame, tuple[str, ...]]:
    """The order key and the content: whole if it comes along, else what is asked about, a column for each.

    These columns are numbered, for Spark takes a dot in a name for a path; the names are the second result.
    One struct would do, but a sixth of the way to the worker would be spent on making it.
    """
    columns = set(frame.columns)
    if {"producer", "id", "event_time"} <= columns and columns & {RECORD, ATTRIBUTES}:
        time = F.col("time") if "time" in columns else F.coalesce(F.col("event_time"), F.lit(0))
        key = [time.cast("bigint").alias("time"), F.col("producer"), F.col("sequence"), F.col("id")]
        if RECORD in columns:
            return frame.select(*key, F.col("event_time"), F.col(RECORD)), ()
        content = F.col(ATTRIBUTES)
        fields = {
            name: content.getField(name)
            for name in frame.schema[ATTRIBUTES].dataType.fieldNames()  # type: ignore[attr-defined]
        }
    else:
        key = _native_key(frame)
        fields = {name: _quoted(name) for name in frame.columns}
        content = F.struct(*fields.values()).alias(ATTRIBUTES)
    if payload:
        return frame.select(*key, content), ()
    names = _kept(list(fields), asked)
    numbered = (fields[name].alias(f"attribute{number}") for number, name in enumerate(names))
    return frame.select(*key, *numbered), tuple(names)


def narrowed(frame: DataFrame, asked: frozenset[str] | None) -> Column:
    """The typed content of notifications: those of its columns that the asked attributes are in."""
    content = F.col(ATTRIBUTES)
    names = frame.schema[ATTRIBUTES].dataType.fieldNames()  # type: ignore[attr-defined]
    kept = _kept(names, asked)
    if len(kept) == len(names):
        return content
    return F.struct(*(content.getField(name).alias(name) for name in kept)).alias(ATTRIBUTES)


def _kept(names: Sequence[str], asked: frozenset[str] | None) -> list[str]:
    """The columns that the asked attributes are in; one at least, for rows without columns cannot be counted."""
    if asked is None:
        return list(names)
    kept = [
        name
        for name in names
        if any(f"{each}.".startswith(f"{name}.") or name.startswith(f"{each}.") for each in asked)
    ]
    return kept or list(names[:1])


def _quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _native_key(frame: DataFrame) -> list[Column]:
    """The order key of a user's own table: what is not there is empty, and no time is time 0."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    if "id" not in types:
        raise PipelineError(
            f"notifications without an id: the columns are {', '.join(types)}",
            hint="add one, or let `ingest` give one to each row",
        )

    def named(name: str) -> Column:
        _demand(name, types[name], (T.StringType, T.IntegralType), "a string or a whole number")
        return F.col(name).cast("string")

    time, producer, sequence = F.lit(0).cast("bigint"), F.lit(""), F.lit(None).cast("bigint")
    if "time" in types:
        _demand("time", types["time"], (T.TimestampType, T.IntegralType), "a timestamp or whole microseconds")
        given = F.col("time")
        micros = F.unix_micros(given) if isinstance(types["time"], T.TimestampType) else given.cast("bigint")
        time = F.coalesce(micros, time)
    if "producer" in types:
        producer = F.coalesce(named("producer"), producer)
    if "sequence" in types:
        _demand("sequence", types["sequence"], (T.IntegralType,), "a whole number")
        sequence = F.col("sequence").cast("bigint")
    return [
        time.alias("time"),
        producer.alias("producer"),
        sequence.alias("sequence"),
        named("id").alias("id"),
    ]


def _demand(name: str, given: T.DataType, wanted: tuple[type, ...], meaning: str) -> None:
    if not isinstance(given, wanted):
        raise PipelineError(
            f"the column {name!r} is {meaning}, not {given.simpleString()}",
            hint="cast it, or let `ingest` read the table",
        )


# -- shipping ----------------------------------------------------------------------------------------------

_SHIPPED: Final[WeakKeyDictionary[Any, set[str]]] = WeakKeyDictionary()


def _ship(spark: SparkSession, subscriptions: Subscriptions, ship: bool | None) -> None:
    """Give the files to workers that may not see them; names say the content, so nothing is sent twice."""
    if ship is None:
        ship = not (spark.conf.get("spark.master", "") or "").startswith("local") or is_remote(spark)
    if not ship:
        return
    sent = _SHIPPED.setdefault(spark, set())
    for name in subscriptions.files:
        if name not in sent:
            spark.addArtifacts(str(located(subscriptions.directory, name)), file=True)
            sent.add(name)


@cache
def _temporary() -> str:
    """Where subscriptions are compiled that were given without a directory: it goes with this process."""
    directory = tempfile.mkdtemp(prefix="fairlead-subscriptions-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


# -- targets -----------------------------------------------------------------------------------------------


def _targets(subscriptions: Subscriptions, memory: int) -> tuple[Subscriptions, ...]:
    """The subscriptions in portions that a worker can hold, placed ones apart from those that all must visit."""
    if subscriptions.size <= memory or len(subscriptions.parts) <= 1:
        return (subscriptions,)
    portions: list[list[Part]] = []
    for part in sorted(subscriptions.parts, key=lambda part: part.bucket):
        last = portions[-1] if portions else []
        fits = sum(each.size for each in last) + part.size <= memory
        if last and fits and (last[0].bucket == ANYWHERE) == (part.bucket == ANYWHERE):
            last.append(part)
        else:
            portions.append([part])
    return tuple(replace(subscriptions, parts=tuple(portion)) for portion in portions)


def _buckets(target: Subscriptions) -> Iterator[int]:
    return (part.bucket for part in target.parts)


@dataclass(frozen=True, slots=True)
class Router:
    """Sends each notification to the targets that may match it: a row for each, with its number.

    `ways`: over how many partitions the rows for one target go, so that a popular one does not starve.
    """

    placement: Placement
    targets: tuple[frozenset[int], ...]
    names: tuple[str, ...] = ()
    ways: int = 1

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            visits = self._visits(batch)
            rows, targets = np.nonzero(visits)
            sent = batch.take(pa.array(rows))
            partitions = targets * self.ways + rows % self.ways
            arrays = [*sent.columns, pa.array(targets, pa.int32()), pa.array(partitions, pa.int32())]
            yield pa.RecordBatch.from_arrays(arrays, [*batch.schema.names, _TARGET, _PARTITION])

    def _visits(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        if RECORD in batch.schema.names:
            buckets = self.placement.visits_of(notifications_in(batch))
        else:
            buckets = self.placement.visits(_content(batch, self.names))
        every = np.ones(batch.num_rows, np.bool_)
        columns = [
            every if ANYWHERE in target else buckets[:, sorted(target)].any(axis=1) for target in self.targets
        ]
        return np.stack(columns, axis=1)


# -- in the worker -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Matcher:
    """Record batches of keyed notifications in, record batches of deliveries out.

    Of several targets a row says which one it is for. `names` are those of the attributes that are columns.
    """

    targets: tuple[Subscriptions, ...]
    names: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    memory: int = MEMORY

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for target, rows in self._by_target(batch):
                yield from _opened(target, self.memory).deliveries(rows, self.names, self.carried)

    def _by_target(self, batch: pa.RecordBatch) -> Iterator[tuple[Subscriptions, pa.RecordBatch]]:
        if len(self.targets) == 1:
            yield self.targets[0], batch
            return
        numbers = batch.column(_TARGET).to_numpy()
        for number in np.unique(numbers).tolist():
            yield self.targets[number], batch.take(pa.array(np.flatnonzero(numbers == number)))


# Parts and sets of them that this process has open. They outlive tasks: Spark keeps its Python workers.
_PARTS: Final[dict[str, Columnar[int]]] = {}
_SETS: Final[OrderedDict[tuple[Any, ...], _Opened]] = OrderedDict()


def _opened(subscriptions: Subscriptions, memory: int) -> _Opened:
    schema = subscriptions.schema
    fingerprint = None if schema is None else schema.fingerprint
    key = (fingerprint, subscriptions.endings, *((part.name, part.number) for part in subscriptions.parts))
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
    kept = {part.name for each in _SETS.values() for part in each.parts}
    for name in _PARTS.keys() - kept - {part.name for part in wanted.parts}:
        del _PARTS[name]


def _engine(part: Part, table: Table, schema: Schema | None) -> Columnar[int]:
    engine = _PARTS.get(part.name)
    if engine is None:
        engine = _PARTS[part.name] = Columnar.open(located(part.directory, table.filters), schema)
        OPENED[part.name] += 1
    return engine


class _Opened:
    """Some parts as one: the ordinals of a part come behind those of the parts before it."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self.parts = subscriptions.parts
        tables = [table_of(part) for part in self.parts]
        self._engines = [
            _engine(part, table, subscriptions.schema) for part, table in zip(self.parts, tables, strict=True)
        ]
        self._offsets = np.cumsum([0, *map(len, tables)])
        self._ids = _joined([table.ids for table in tables])
        self._subscribers = _joined([table.subscribers for table in tables])
        self._codes = _unified(tables)
        self._since = np.concatenate([np.empty(0, np.int64), *(table.since for table in tables)])
        self._until = np.concatenate([np.empty(0, np.int64), *map(subscriptions.until, self.parts)])
        self._dated = bool((self._since != BEGINNING).any() or (self._until != END).any())
        self._ranks = tables[0].ranks if len(tables) == 1 else None
        self._step = 256

    def deliveries(
        self, batch: pa.RecordBatch, names: Sequence[str], carried: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The deliveries of the rows of a batch, in pieces."""
        notifications = notifications_in(batch) if RECORD in batch.schema.names else None
        start = 0
        while start < batch.num_rows:
            step = self._step
            piece = batch.slice(start, step)
            if notifications is None:
                rows, ordinals = self._matched(_content(piece, names))
            else:
                rows, ordinals = self._matched_one_by_one(notifications[start : start + step])
            # A single notification may match everything, and the next batch another number than this one.
            self._step = max(16, min(1 << 16, _AT_ONCE * piece.num_rows // max(1, len(ordinals))))
            start += step
            if self._dated:
                time = piece.column("time").to_numpy()[rows]
                valid = (self._since[ordinals] <= time) & (time < self._until[ordinals])
                rows, ordinals = rows[valid], ordinals[valid]
            if len(rows):
                yield self._grouped(piece, rows, ordinals, carried)

    def _matched(self, attributes: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows that match, each as often as it does, and the ordinals of what they match."""
        numbers = np.arange(attributes.num_rows)
        rows, ordinals = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for engine, offset in zip(self._engines, self._offsets.tolist(), strict=False):
            found = engine.match_arrow(attributes)
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

    def _grouped(
        self, piece: pa.RecordBatch, rows: Any, ordinals: Any, carried: Sequence[str]
    ) -> pa.RecordBatch:
        """One row for each notification and subscriber, with the ids in order."""
        owner = rows * len(self._subscribers) + self._codes[ordinals]
        if self._ranks is not None:
            order = np.lexsort((self._ranks[ordinals], owner))
        else:
            order = np.argsort(owner, kind="stable")
        rows, ordinals, owner = rows[order], ordinals[order], owner[order]
        first = np.flatnonzero(np.concatenate(([True], owner[1:] != owner[:-1])))
        if self._ranks is None and len(first) < len(owner):
            ordinals = self._in_order_of_ids(owner, ordinals)
        ends = np.append(first, len(owner)).astype(np.int32)
        ids = pa.ListArray.from_arrays(pa.array(ends), self._ids.take(pa.array(ordinals)))
        whom = self._subscribers.take(pa.array(ordinals[first]))
        given = piece.select([*KEY, *carried]).take(pa.array(rows[first]))
        columns = dict(zip(given.schema.names, given.columns, strict=True))
        arrays = {"subscriber": whom, **columns, "subscriptions": ids}
        names = [*DELIVERY, *carried]
        return pa.RecordBatch.from_arrays([arrays[name] for name in names], names)

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


def _content(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The attributes under their names; where there is a struct and it is null, so are they."""
    if not names:
        struct = batch.column(ATTRIBUTES)
        return pa.RecordBatch.from_arrays(struct.flatten(), [field.name for field in struct.type])
    return pa.RecordBatch.from_arrays(batch.columns[len(KEY) : len(KEY) + len(names)], list(names))
