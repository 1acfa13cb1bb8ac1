"""A small batch, in the driver: the stages over tables in memory, where a job of Spark's costs more than the rows.

Law: of the same rows, after the same batches, `take` writes what the stages on Spark write, row by row, and
commits the same manifest but for the times in it. So each batch may take either path, and a batch that is repeated
after a crash may take the other one.

What workers do in the stages is done here by the same functions over record batches (`OrderAtOnce`, `Matcher`).
What Spark does between them, a row for each receiver, the sort and the files, is done over columns. Rows are
sorted by numbers: each notification has a rank in the total order, each subscriber one among subscribers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from hashlib import md5
from math import inf
from operator import add
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray
from pyspark.sql import functions as F

from fairlead.audit.parquet import SCHEMA as TRACE
from fairlead.audit.trace import (
    LANGUAGE_VERSION,
    SCOPES_VERSION,
    VERSION,
    Language,
    ScopeChanged,
    event_to_json,
)
from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.errors import PipelineError
from fairlead.model.encoding import format_json
from fairlead.model.order import BEGINNING
from fairlead.spark.advertising import advertised_of
from fairlead.spark.asking import Demand
from fairlead.spark.batch import (
    FEW_ROWS,
    POLICIES,
    PROGRESS,
    REMEMBERED,
    WAITING,
    Batch,
    Bounds,
    Composites,
    Outcomes,
    Seen,
    Written,
)
from fairlead.spark.beside import Beside
from fairlead.spark.config import Events
from fairlead.spark.delivery import FILES, Lines
from fairlead.spark.detection import PROGRESS as PROGRESS_TYPES
from fairlead.spark.detection import detected, detected_here
from fairlead.spark.doors import BLANK, ENVELOPE_ARROW, ORIGIN, OUTCOME_TYPES, TextDoor
from fairlead.spark.frames import DELIVERY, KEY, MOVED, PUBLISHED, RANK, RECORD
from fairlead.spark.frames import VERSION as TAG
from fairlead.spark.groups import RANK_TYPES
from fairlead.spark.ingestion import KAFKA
from fairlead.spark.kafka import SINK, write_rows
from fairlead.spark.matcher import MEMORY, RECEIVERS, Matcher
from fairlead.spark.nearby import Limits, is_nearby, rows_nearby
from fairlead.spark.orderer import HELD, KNOWN, LATE, RELEASED, OrderAtOnce
from fairlead.spark.ordering import LAST, Facts
from fairlead.spark.output import Manifest, Segment
from fairlead.spark.scoping import SCOPE_CHANGES
from fairlead.spark.storage import size_of
from fairlead.spark.versions import LATER, DecidedHere, decided_here
from fairlead.spark.writing import (
    REJECTED,
    TEXT,
    Rejected,
    reasons_in,
    rejected_changes,
    scope_events,
    segments_after,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["by_subscriber", "collected", "subscribed", "take"]

ROWS_MAX: Final = 250_000
"""So many rows, with those that are held, are dealt with here sooner than by jobs."""
IDENTITIES_MAX: Final = 5_000_000
"""So many identities that are remembered are looked at here."""
BYTES_MAX: Final = 256 << 20
"""So many bytes of text are brought here at most: where the texts of many rows are long, they go to jobs."""
NEARBY_MAX: Final = Limits(1_000_000, 512 << 20)
"""The limits of what comes through files, where jobs have no other machine: they take twice the time of
cores."""
LARGE_BYTES: Final = 8 << 20
"""From so many bytes on workers read files, where they are on this machine."""
FIRST_MAX: Final = 1_000
GROWTH: Final = 8
"""A batch is rarely so many times as large as the one before: it is not tried with more."""
LONG: Final = "is_long"
FILE_ROWS: Final = 100_000
"""So many deliveries of a bucket go into a file."""

Numbers = NDArray[np.int64]
_HELD: Final = pa.schema(
    [*ENVELOPE_ARROW.items(), (RECORD, pa.string()), ("time", pa.int64()), ("late", pa.bool_())]
)
"""The columns of the rows that are held, as the order leaves them to the next batch."""
_GIVEN: Final = _HELD.append(pa.field("arrived", pa.bool_()))
_LAST: Final = pa.schema([(name, _HELD.field(name).type) for name in LAST])
_RECEIVERS: Final = pa.list_(
    pa.struct([("subscriber", pa.string()), ("subscriptions", pa.list_(pa.string()))])
)
_PLAIN: Final = {"string": pa.string(), "bigint": pa.int64(), "binary": pa.binary()}
_NO_ROWS: Final = pa.schema(
    [
        *ENVELOPE_ARROW.items(),
        (RECORD, pa.string()),
        *((name, _PLAIN[kind]) for name, kind in OUTCOME_TYPES.items()),
    ]
)


def collected(batch: Batch, demand: Demand, rows: DataFrame, door: TextDoor | None) -> pa.Table | None:
    """The rows of a batch, if it is small and asks for nothing that only Spark can do; one job finds out.

    Where `rows` are raw records, a `door` makes rows of them.
    """
    config = batch.config
    texts = (RECORD, PUBLISHED, "raw") if door is None else ("value",)
    if (
        not {*texts} <= {*rows.columns}
        or config.publish is not None
        or (demand.policy is not None and bool(demand.policy.protected))
        or config.audits_grants
        or config.deliveries.format not in (*FILES, SINK)
        or demand.subscriptions.size > MEMORY
    ):
        return None
    most = _rows_expected(batch) - batch.before.counts.held
    if demand.scopes is not None and not demand.scopes.opened.is_filters_only:
        most = min(most, FEW_ROWS)  # of more, all cores make notifications
    if most <= 0 or batch.state_size("held") > BYTES_MAX // 8:
        return None
    if sum(each.rows for each in batch.before.remembered) > IDENTITIES_MAX:
        return None
    if door is None:
        return _brought(rows, texts, min(most, ROWS_MAX))
    if _is_large(batch) and is_nearby(batch.spark):
        content = rows.select(F.col("value").cast("binary"), *({ORIGIN} & {*rows.columns}))
        read = rows_nearby(content, door, Limits(most, NEARBY_MAX.bytes))
    else:
        found = _brought(rows, texts, min(most, ROWS_MAX))
        read = None if found is None else list(door(found.cast(_binary(found.schema)).to_batches()))
    if read is None:
        return None
    made = pa.Table.from_batches(read) if read else _NO_ROWS.empty_table()
    # What lies too far ahead of the clock is rejected by a stage of Spark's.
    latest = pc.max(made.column("event_time")).as_py()
    return made if latest is None or latest <= batch.now_us + config.order.ahead_us else None


def _brought(rows: DataFrame, texts: Iterable[str], most: int) -> pa.Table | None:
    """Rows as they are, through the JVM; None where they are many, or one of them is long."""
    if most <= 0:
        return None
    size = reduce(add, (F.coalesce(F.octet_length(name), F.lit(0)) for name in texts))
    is_long = size > BYTES_MAX // most
    bounded = {name: F.when(~is_long, F.col(name)) for name in texts}
    found = rows.withColumns({**bounded, LONG: is_long}).limit(most + 1).toArrow()
    if found.num_rows > most or pc.any(found.column(LONG)).as_py():
        return None
    return found.drop_columns([LONG])


def _binary(schema: pa.Schema) -> pa.Schema:
    """The same with `value` as bytes."""
    return schema.set(schema.get_field_index("value"), pa.field("value", pa.binary()))


def _rows_expected(batch: Batch) -> int:
    """The number of rows that a batch is tried with: a large one should not be read twice."""
    most = NEARBY_MAX if is_nearby(batch.spark) else Limits(ROWS_MAX, BYTES_MAX)
    if batch.config.mode == "batch":
        return most.rows if _size(batch.config.events) <= most.bytes else 0
    return min(most.rows, max(FIRST_MAX, GROWTH * batch.before.counts.read))


def _is_large(batch: Batch) -> bool:
    """Whether a batch has so much that workers are started for it."""
    if batch.config.mode == "batch":
        return _size(batch.config.events) > LARGE_BYTES
    return batch.before.counts.read > FEW_ROWS


def _size(inputs: Iterable[Events]) -> float:
    """The bytes of the files of all inputs; without end, where one cannot see them from here."""
    paths = [each.path for each in inputs]
    try:
        return sum(map(size_of, filter(None, paths))) if None not in paths else inf
    except (OSError, ValueError, PipelineError):
        return inf


def take(batch: Batch, demand: Demand, rows: DataFrame, given: pa.Table) -> Manifest:
    """Take the rows of a batch, which are here, through all stages to the commit."""
    seen = batch.heed(Seen.of_table(given), rows)
    bounds = batch.bounds(seen)
    writing = _Writing(batch)

    batch.at("order")
    placed = _ordered(batch, given, bounds)
    released, late = _became(placed, RELEASED), _late(placed, batch.before.watermark)
    outcomes = Outcomes(
        Counter(placed.column("outcome").to_pylist()), (), "", _late_by_us(late, batch.before.watermark)
    )
    batch.check_late(outcomes, seen)

    batch.at("detect" if demand.patterns else "match")
    found = _Detected.of(batch, demand, released, bounds.watermark, batch.beside(demand))

    batch.at("match")
    sink, traced = batch.config.deliveries, batch.config.audit.trace
    decided = _decided(batch, demand, released, bounds)
    demand = demand if decided is None else demand.ruled(decided)
    matched = _Matched.of(released, found, demand, decided, payload=sink.payload or traced)
    count = writing.deliveries(matched)

    batch.at("trace")
    unread = writing.rejected(given, seen, demand)
    writing.late(late)
    told = writing.trace(demand, matched, late) if traced else 0
    held = None if batch.final else writing.state(placed, outcomes, seen.facts, bounds.watermark)
    if not batch.final:
        if found.state.num_rows:
            writing.table(f"state/{PROGRESS}", found.state)
        writing.scopes(demand, decided)
    remembered = writing.remembered(released, late, outcomes, bounds.watermark)

    batch.at("commit")
    counts = {"deliveries": count, "late": late.num_rows, "rejected": unread.number, "trace": told}
    return batch.commit(
        demand=demand,
        seen=seen,
        bounds=bounds,
        outcomes=outcomes,
        composites=Composites(found.composites.num_rows, found.state.num_rows),
        written=Written(counts, unread.reasons, 0, held, remembered),
    )


# -- the order -----------------------------------------------------------------------------------------------


def _ordered(batch: Batch, rows: pa.Table, bounds: Bounds) -> pa.Table:
    """The outcome of each notification, arrived or held before: `time` where it is fixed, and `outcome`."""
    arrivals = rows.filter(rows.column("reason").is_null())
    new = {"time": None, "late": False, "arrived": True}
    tables = [
        _filled(arrivals, _GIVEN, new),
        _filled(batch.state_table("held", _HELD), _GIVEN, {"arrived": False}),
        _filled(_known(batch, arrivals), _GIVEN, {"event_time": BEGINNING, "late": True, "arrived": False}),
        _filled(batch.state_table("last", _LAST), _GIVEN),
    ]
    given = pa.concat_tables(tables).combine_chunks()
    order = OrderAtOnce(RECORD, RECORD, batch.before.watermark, bounds.watermark)
    made = list(order(given.to_batches()))
    if not made:
        schema = pa.schema([*_HELD.remove(_HELD.get_field_index("late")), ("outcome", pa.string())])
        return schema.empty_table()
    return pa.Table.from_batches(made)


def _known(batch: Batch, arrivals: pa.Table) -> pa.Table:
    """Of the identities that have arrived those that are remembered, each once."""
    named = arrivals.filter(arrivals.column("id").is_valid()).select(["producer", "id"])
    if not batch.before.remembered or not named.num_rows:
        return named.slice(0, 0)
    since = batch.remembered_since(batch.before.watermark)
    there = batch.identities.among(_hashes(named), batch.before.remembered, batch.remembered_in, since)
    return named.filter(pa.array(there)).group_by(["producer", "id"]).aggregate([])


def _hashes(named: pa.Table) -> pa.Array:
    """Identities in 128 bits, as the stages on Spark have them (`ordering.hashed`)."""
    names = zip(named.column("producer").to_pylist(), named.column("id").to_pylist(), strict=True)
    made = [
        md5(f"{len(producer)}/{producer}/{id}".encode(), usedforsecurity=False).digest()
        for producer, id in names
    ]
    return pa.array(made, pa.binary())


def _late_by_us(late: pa.Table, watermark: int) -> int:
    """The distance of the latest late row from the watermark."""
    oldest = pc.min(late.column("event_time").fill_null(0)).as_py()
    return 0 if oldest is None else max(0, watermark - oldest)


def _filled(table: pa.Table, schema: pa.Schema, given: Mapping[str, Any] | None = None) -> pa.Table:
    """A table with all columns of a schema: those that are given, its own, and nulls."""
    given = given or {}
    arrays = []
    for field in schema:
        if field.name in given:
            arrays.append(pa.repeat(pa.scalar(given[field.name], field.type), table.num_rows))
        elif field.name in table.column_names:
            arrays.append(table.column(field.name).cast(field.type))
        else:
            arrays.append(pa.nulls(table.num_rows, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _became(placed: pa.Table, outcome: str) -> pa.Table:
    return placed.filter(pc.equal(placed.column("outcome"), outcome)).drop_columns(["outcome"])


def _late(placed: pa.Table, watermark: int) -> pa.Table:
    """The rows that came after their place had been passed, in the order in which they are written."""
    late = _became(placed, LATE).drop_columns(["time"])
    late = late.append_column("watermark", pa.array(np.full(late.num_rows, watermark, np.int64)))
    return late.take(pa.array(_order(late, "event_time", "producer", "sequence", "id")))


def _order(table: pa.Table, *names: str) -> Numbers:
    """The order of rows that are sorted by some columns; nulls come first, as in Spark."""
    columns: dict[str, Any] = {}
    for name in names:
        column = table.column(name)
        if column.null_count:
            columns[f"has {name}"] = column.is_valid().cast(pa.int8())
        columns[name] = column
    leading = table.column(names[0])
    if pa.types.is_integer(leading.type) and not leading.null_count:
        numbers = leading.to_numpy()
        order: Numbers = np.argsort(numbers, kind="stable")
        if (np.diff(numbers[order]) > 0).all():  # the first column tells all rows apart
            return order
    keys = [(name, "ascending") for name in columns]
    found: Numbers = pc.sort_indices(pa.table(columns), keys).to_numpy()
    return found.astype(np.int64)


def _in_order(table: pa.Table, order: Numbers) -> pa.Table:
    """The rows of a table in an order; nothing is copied where they stand in it."""
    stands = bool((order == np.arange(table.num_rows)).all())
    return table if stands else table.take(pa.array(order))


def _ranks(order: Numbers) -> Numbers:
    """The rank of each row, where they are sorted so."""
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


# -- what could not be read ----------------------------------------------------------------------------------


def _refused(rows: pa.Table) -> pa.Table:
    """The records that could not be read, with the reason and where they stood."""
    reason = rows.column("reason")
    refused = rows.filter(pc.and_kleene(reason.is_valid(), pc.not_equal(reason, BLANK)))
    file, block, ordinal = (_single(refused.column(name)) for name in ("file", "block", "ordinal"))
    is_kafka = pc.starts_with(file, KAFKA).fill_null(False)
    of_block = pc.if_else(block.is_valid(), pc.add(pc.add(ordinal, _rows_before(rows, file, block)), 1), None)
    columns = {
        "source": refused.column("source"),
        "file": pc.if_else(is_kafka, pc.binary_join_element_wise(file, block.cast(pa.string()), "/"), file),
        "line": pc.if_else(is_kafka, ordinal, of_block),
        "reason": refused.column("reason"),
        "raw": refused.column("raw"),
    }
    return pa.table(columns, schema=REJECTED)


def _rows_before(rows: pa.Table, files: pa.Array, blocks: pa.Array) -> pa.Array:
    """The number of rows in a file before each of some blocks: Spark cuts large files into blocks."""
    counted = rows.group_by(["file", "block"]).aggregate([([], "count_all")]).to_pylist()
    before: dict[tuple[Any, Any], int] = {}
    so_far: Counter[Any] = Counter()
    for row in sorted(counted, key=lambda row: row["block"] or 0):
        before[row["file"], row["block"]] = so_far[row["file"]]
        so_far[row["file"]] += row["count_all"]
    asked = zip(files.to_pylist(), blocks.to_pylist(), strict=True)
    return pa.array([before[each] for each in asked], pa.int64())


# -- who gets what -------------------------------------------------------------------------------------------


def _with_receivers(given: pa.Table, demand: Demand, carried: tuple[str, ...]) -> pa.Table:
    """Notifications with those who get them, in any order."""
    match = Matcher((demand.subscriptions,), (), carried, MEMORY, every=True, scopes=demand.scopes)
    schema = pa.schema([*(given.schema.field(name) for name in (*KEY, *carried)), (RECEIVERS, _RECEIVERS)])
    return pa.Table.from_batches(match(given.combine_chunks().to_batches()), schema=schema)


def _decided(batch: Batch, demand: Demand, released: pa.Table, bounds: Bounds) -> DecidedHere | None:
    """The decisions of scopes with mappings and policies; None if scopes are filters alone, or there are none."""
    if demand.scopes is None or demand.scopes.opened.is_filters_only:
        return None
    return decided_here(
        released.take(pa.array(_order(released, *KEY))),
        demand.subscriptions,
        demand.scopes,
        states="" if batch.last is None else batch.output.state_text(batch.last.batch, POLICIES),
        moved=batch.state_table(WAITING, LATER),
        since=batch.before.watermark,
        bound=bounds.watermark,
    )


class _Detected(NamedTuple):
    """The composites of patterns, and their matches in progress."""

    composites: pa.Table
    state: pa.Table
    related: bool = False
    """Whether there may be relations: they stand between what else is delivered at an instant."""
    answers: pa.Table | None = None
    """The versions of composites with those who get them, where there are scopes."""

    @classmethod
    def of(
        cls, batch: Batch, demand: Demand, released: pa.Table, bound: int, beside: Beside | None
    ) -> _Detected:
        if not demand.patterns:
            return cls(pa.table({"id": pa.array([], pa.string())}), pa.table({}))
        progress = pa.schema([(name, _PLAIN[kind]) for name, kind in PROGRESS_TYPES.items()])
        if released.num_rows + batch.before.counts.in_progress <= FEW_ROWS:
            buckets = int(batch.spark.conf.get("spark.sql.shuffle.partitions") or 1)
            before = batch.state_table(PROGRESS, progress)
            found = detected_here(released, demand.patterns, before, bound, buckets, beside)
        else:  # an event becomes an object there, and all cores make them
            frame = batch.spark.createDataFrame(released.select([*KEY, "event_time", RECORD]))
            by_jobs = detected(frame, demand.patterns, batch.in_progress(), bound, beside=beside)
            found = by_jobs.rows.toArrow()
        is_composite = found.column("automaton").is_null()
        state = found.filter(pc.invert(is_composite)).select(progress.names)
        related = any(row.choice for row in demand.patterns.rows)
        composites = found.filter(is_composite)
        if beside is None:
            return cls(composites, state, related)
        published = pc.equal(composites.column(TAG), "")
        return cls(composites.filter(published), state, related, composites)

    @property
    def private(self) -> list[str]:
        """The ids of those that are for those only who asked for them."""
        if "is_public" not in self.composites.column_names:
            return []
        ids: list[str] = self.composites.filter(pc.invert(self.composites["is_public"]))["id"].to_pylist()
        return ids

    def joining(
        self, matched: pa.Table, demand: Demand, carried: tuple[str, ...]
    ) -> tuple[pa.Table, tuple[str, ...]]:
        """Notifications with their receivers together with composites, and the columns that rank them."""
        if self.answers is not None:
            joined = _filled(self.answers, matched.schema, {MOVED: False})
            return self._ranked(matched, joined, self.answers.column(RANK))
        own = self.composites.select([*KEY, "event_time", RECORD])
        own = own.append_column(PUBLISHED, pa.nulls(own.num_rows, pa.string()))
        public = self.composites.column("is_public")
        seen = _with_receivers(own.filter(public), demand, ())
        answers: dict[str, dict[str, set[str]]] = {id: {} for id in own.column("id").to_pylist()}
        asked = zip(answers, self.composites.column("patterns").to_pylist(), strict=True)
        for id, patterns in asked:
            for each in patterns:
                answers[id].setdefault(each["subscriber"], set()).add(each["id"])
        for id, receivers in zip(seen["id"].to_pylist(), seen[RECEIVERS].to_pylist(), strict=True):
            for each in receivers:
                answers[id].setdefault(each["subscriber"], set()).update(each["subscriptions"])
        lists = [
            [{"subscriber": whom, "subscriptions": sorted(ids)} for whom, ids in each.items()]
            for each in answers.values()
        ]
        joined = own.select([*KEY, *carried]).append_column(RECEIVERS, pa.array(lists, _RECEIVERS))
        return self._ranked(matched, joined, self.composites.column(RANK))

    def _ranked(self, matched: pa.Table, joined: pa.Table, ranks: Any) -> tuple[pa.Table, tuple[str, ...]]:
        """Both together, by the place that each has at its instant: what has none comes first."""
        place = _single(ranks)
        places = {name: f"{RANK} {name}" for name in RANK_TYPES}
        for name, column in places.items():
            joined = joined.append_column(column, place.field(name))
            stands = self.related and name in KEY[1:]
            nothing = pa.nulls(matched.num_rows, place.type.field(name).type)
            matched = matched.append_column(column, matched.column(name) if stands else nothing)
        ranked = ("time", *places.values(), *KEY[1:])
        return pa.concat_tables([matched, joined.cast(matched.schema)]), ranked


class _Matched(NamedTuple):
    """Notifications in the total order, and their deliveries, sorted by nothing."""

    notifications: pa.Table
    """The order key and, where it is wanted, the content; by rank."""
    rank: Numbers
    """For each delivery the notification."""
    subscriber: Numbers
    """For each delivery the number of who gets it, among the names."""
    names: pa.Array
    """The subscribers, by name."""
    subscriptions: pa.Array
    """For each delivery the ids that match."""

    is_public: NDArray[np.bool_]
    """For each notification whether the trace tells of it: of a composite for those only who asked it does not."""

    @classmethod
    def of(
        cls,
        released: pa.Table,
        found: _Detected,
        demand: Demand,
        decided: DecidedHere | None = None,
        *,
        payload: bool,
    ) -> _Matched:
        carried = ("event_time", RECORD, PUBLISHED) if payload else ()
        given = released.select([*KEY, "event_time", RECORD, PUBLISHED])
        matched = _with_receivers(given, demand, carried)
        ranked: tuple[str, ...] = KEY
        if decided is not None:
            matched = _filled(matched, _versions(matched.schema), {TAG: "", MOVED: False})
            matched = pa.concat_tables([matched, _filled(decided.received, matched.schema)])
        if found.composites.num_rows:
            matched, ranked = found.joining(matched, demand, carried)
        if decided is not None:
            ranked = (*ranked, TAG)
        matched = _in_order(matched, _order(matched, *ranked)).combine_chunks()
        receivers = _single(matched.column(RECEIVERS))
        each = receivers.flatten()
        coded = each.field("subscriber").dictionary_encode()
        by_name = pc.sort_indices(coded.dictionary).to_numpy().astype(np.int64)
        private = set(found.private)
        is_public = [id not in private for id in matched.column("id").to_pylist()] if private else []
        return cls(
            matched.drop_columns([RECEIVERS]),
            pc.list_parent_indices(receivers).to_numpy().astype(np.int64),
            _ranks(by_name)[coded.indices.to_numpy()],
            coded.dictionary.take(pa.array(by_name)),
            each.field("subscriptions"),
            np.array(is_public or [True] * matched.num_rows, np.bool_),
        )

    def buckets(self, number: int) -> Numbers:
        """For each delivery its bucket."""
        of_name = [crc32(name.encode()) % number for name in self.names.to_pylist()]
        return np.array(of_name, np.int64)[self.subscriber]

    def rows(self, deliveries: Numbers, *, payload: bool) -> pa.Table:
        """Some deliveries as rows, in the order in which they are named."""
        of = self.rank[deliveries]
        key = self.notifications.select(KEY).take(pa.array(of))
        whom = self.names.take(pa.array(self.subscriber[deliveries]))
        columns = [whom, *key.columns, self.subscriptions.take(pa.array(deliveries))]
        names = list(DELIVERY)
        if TAG in self.notifications.column_names:
            columns.append(self.notifications.column(TAG).take(pa.array(of)))
            names.append(TAG)
        if not payload:
            return pa.Table.from_arrays(columns, names)
        # Each content once: Parquet writes numbers of texts, and so need not look for equal ones.
        used, at = np.unique(of, return_inverse=True)
        published = pc.coalesce(*(self.notifications.column(name) for name in (PUBLISHED, RECORD)))
        contents = _single(published).take(pa.array(used))
        content = pa.DictionaryArray.from_arrays(pa.array(at.astype(np.int32)), contents)
        return pa.Table.from_arrays([*columns, content], [*names, RECORD])


def _versions(schema: pa.Schema) -> pa.Schema:
    """Notifications with their versions, and whether policies have moved them."""
    return schema.append(pa.field(TAG, pa.string())).append(pa.field(MOVED, pa.bool_()))


def _texts(rows: pa.Table) -> pa.Table:
    """The same with the content as text."""
    if RECORD not in rows.column_names:
        return rows
    at = rows.schema.get_field_index(RECORD)
    return rows.set_column(at, RECORD, rows.column(RECORD).cast(pa.string()))


def _single(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


# -- what is written -----------------------------------------------------------------------------------------


class _Writing:
    """The tables that a batch writes aside."""

    def __init__(self, batch: Batch) -> None:
        self._batch, self._config = batch, batch.config

    def deliveries(self, matched: _Matched) -> int:
        """Write deliveries by bucket, each subscriber's in the total order; how many there are."""
        sink = self._config.deliveries
        bucket = matched.buckets(sink.buckets)
        order = np.lexsort((matched.rank, matched.subscriber, bucket))
        if sink.format == SINK:
            rows = _texts(matched.rows(order, payload=sink.payload))
            return write_rows(rows.append_column("bucket", pa.array(bucket[order])), self._batch)
        starts = np.flatnonzero(np.diff(bucket[order], prepend=-1))
        # A large bucket goes into several files, one behind the other: so all cores write it.
        files = [
            (first, number, min(first + FILE_ROWS, end))
            for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=False)
            for number, first in enumerate(range(start, end, FILE_ROWS))
        ]

        def write(file: tuple[int, int, int]) -> None:
            first, number, end = file
            rows = matched.rows(order[first:end], payload=sink.payload)
            name = f"deliveries/bucket={bucket[order[first]]}/part-{number:05}"
            if sink.format == "json":
                self._write_lines(name, rows)
            else:
                self._write(name, rows)

        with ThreadPoolExecutor(os.cpu_count() or 1, "fairlead-write") as threads:
            list(threads.map(write, files))
        return len(order)

    def _write_lines(self, name: str, rows: pa.Table) -> None:
        texts = (batch.column("value").to_pylist() for batch in Lines(())(_texts(rows).to_batches()))
        with self._batch.attempt.create(f"{name}.jsonl") as file:
            file.writelines(f"{text}\n".encode() for some in texts for text in some)

    def table(self, name: str, rows: pa.Table) -> None:
        """Write a table of a channel, or of the state, into one file."""
        self._write(f"{name}/part-00000", rows)

    def _write(self, name: str, rows: pa.Table) -> None:
        from pyarrow import parquet

        with self._batch.attempt.create(f"{name}.parquet") as file:
            # Without Arrow's own schema: what is a dictionary here is text to everybody who reads it.
            parquet.write_table(
                rows,
                file,
                store_schema=False,
                dictionary_pagesize_limit=BYTES_MAX,
                write_statistics=[name for name in rows.column_names if name in KEY or name == "subscriber"],
            )

    def rejected(self, rows: pa.Table, seen: Seen, demand: Demand) -> Rejected:
        """Set aside what could not be read, rows and changes of subscriptions."""
        changes = rejected_changes(demand.rejections)
        if not seen.rejected and not changes.num_rows:
            return Rejected()
        found = pa.concat_tables([_refused(rows), changes])
        self.table("rejected", found.take(pa.array(_order(found, "source", "file", "line", "raw"))))
        return Rejected(found.num_rows, reasons_in(found.column("reason").to_pylist()))

    def late(self, late: pa.Table) -> None:
        """Write what came too late where it can be seen."""
        if late.num_rows:
            self.table("late", late)

    def trace(self, demand: Demand, matched: _Matched, late: pa.Table) -> int:
        """Write down what happened, in the order in which it happened; how many events there are."""
        language = Language.spoken(demand.subscriptions.schema) if demand.is_first else None
        begun = [
            subscribed("sub", rows, ready=ready)
            for ready, rows in ((True, demand.begun()), (False, demand.detecting_from_now()))
            if rows is not None
        ]
        advertised = advertised_of(self._config, demand.subscriptions.schema) if demand.is_first else None
        parts = [
            *([] if language is None else [_spoken(language)]),
            *map(_scoped, scope_events(demand)),
            *([] if advertised is None else [_advertised(advertised.table())]),
            *([] if (over := demand.over()) is None else [by_subscriber(subscribed("unsub", over))]),
            *([] if not begun else [by_subscriber(pa.concat_tables(begun))]),
            _published(matched),
            _faults(late),
            *([_events("end", 1)] if self._batch.final else []),
        ]
        events = pa.concat_tables(parts)
        self.table("trace", events)
        return int(events.num_rows)

    def state(self, placed: pa.Table, outcomes: Outcomes, arrived: Facts, bound: int) -> Facts | None:
        """Leave to the next batch what it has to know; the facts of what is held."""
        before = self._batch.before
        facts = arrived | Facts(**before.held) if before.held else arrived
        outcome = placed.column("outcome")
        is_held = pc.equal(outcome, HELD)
        is_past = pc.is_in(outcome, pa.array([LATE, KNOWN]))
        happened = placed.column("event_time").fill_null(0)
        remembered = pc.and_(is_past, pc.greater_equal(happened, bound))
        remembered = pc.and_(remembered, placed.column("digest").is_valid())
        some = bool(outcomes[HELD] or outcomes[LATE] or outcomes[KNOWN])
        if some:
            held = placed.append_column("late", pc.invert(is_held)).filter(pc.or_(is_held, remembered))
            self.table("state/held", held.select(_HELD.names))
        last = self._last(placed, facts)
        if last.num_rows:
            self.table("state/last", last)
        return facts if some else None

    def scopes(self, demand: Demand, decided: DecidedHere | None) -> None:
        """Leave to the next batch what scopes have to know."""
        if decided is not None and decided.waiting.num_rows:
            self.table(f"state/{WAITING}", decided.waiting)
        texts = {
            POLICIES: "" if decided is None else decided.states,
            SCOPE_CHANGES: "" if demand.scoping is None else demand.scoping.changes,
        }
        for name, text in texts.items():
            if text:
                self.table(f"state/{name}", pa.table([[text]], schema=TEXT))

    def remembered(
        self, released: pa.Table, late: pa.Table, outcomes: Outcomes, bound: int
    ) -> tuple[Segment, ...]:
        """Remember the identities that the batch has settled; the tables from now on."""
        kept, merged, new = segments_after(self._batch, outcomes, bound)
        if new is None:
            return kept
        earlier = pa.concat_tables([REMEMBERED.empty_table(), *map(self._batch.remembered_in, merged)])
        since = self._batch.remembered_since(bound)
        tables = [earlier.filter(pc.greater_equal(earlier.column("time"), since))]
        for settled, time in ((released, "time"), (late, "watermark")):
            own = settled.filter(settled.column("digest").is_null())
            tables.append(pa.table([_hashes(own), own.column(time)], schema=REMEMBERED))
        self.table("remembered", pa.concat_tables(tables))
        return (*kept, new)

    def _last(self, placed: pa.Table, facts: Facts) -> pa.Table:
        """Per producer the key of the largest number that is fixed."""
        before = self._batch.state_table("last", _LAST)
        if not facts.has_sequences:
            return before
        fixed = pc.and_(
            pc.is_in(placed.column("outcome"), pa.array([RELEASED, HELD])),
            pc.and_(placed.column("time").is_valid(), placed.column("sequence").is_valid()),
        )
        every = pa.concat_tables([placed.filter(fixed).select(LAST).cast(_LAST), before])
        ranked = every.take(pa.array(_order(every, *LAST))).combine_chunks()
        producer = _single(ranked.column("producer")).dictionary_encode().indices.to_numpy()
        if not len(producer):
            return ranked
        return ranked.filter(pa.array(np.append(producer[1:] != producer[:-1], True)))


# -- the trace -----------------------------------------------------------------------------------------------


def _events(kind: str, count: int, v: int | pa.Array = VERSION, **columns: Any) -> pa.Table:
    """So many events of a kind: the columns that are given, and nulls."""
    versions = pa.repeat(pa.scalar(v), count) if isinstance(v, int) else v
    return _filled(pa.table({"v": versions, **columns}), TRACE, {"event": kind})


def _spoken(language: Language) -> pa.Table:
    about = format_json(event_to_json(language)["about"])
    return _events("language", 1, LANGUAGE_VERSION, about=[about])


def _scoped(event: ScopeChanged) -> pa.Table:
    about = [format_json(dict(event.about))]
    return _events("scope", 1, SCOPES_VERSION, change=[event.change], about=about)


def _advertised(rows: pa.Table) -> pa.Table:
    columns = {"component": rows["producer"], "advertisement": rows["id"], "filter": rows["filter"]}
    ready = pa.repeat(pa.scalar(True), rows.num_rows)
    return _events("adv", rows.num_rows, **columns, ready=ready)


def subscribed(kind: str, rows: pa.Table, *, ready: bool = True) -> pa.Table:
    """The events of subscriptions that begin or end."""
    since, id = (_single(rows.column(name)) for name in ("from", "id"))
    # An id may be used again, so its beginning is part of the name.
    named = pc.coalesce(pc.binary_join_element_wise(id, since.cast(pa.string()), "@"), id)
    columns = {
        "component": rows.column("subscriber"),
        "subscription": named,
        "until": _first_at(rows, "until"),
    }
    if kind == "sub":
        columns |= {
            "filter": rows.column("filter"),
            "from": _first_at(rows, "from"),
            "ready": pa.repeat(pa.scalar(ready), rows.num_rows),
        }
    return _events(kind, rows.num_rows, **columns)


def by_subscriber(events: pa.Table) -> pa.Table:
    """Events of subscriptions in the order in which a trace has them."""
    return events.take(pa.array(_order(events, "component", "subscription")))


def _first_at(rows: pa.Table, name: str) -> pa.Array:
    """The least order key of an order time."""
    time = _single(rows.column(name)).cast(pa.int64())
    empty = pa.repeat(pa.scalar(""), rows.num_rows)
    parts = [time, empty, pa.nulls(rows.num_rows, pa.int64()), empty]
    fields = list(TRACE.field("from").type)
    return pa.StructArray.from_arrays(parts, fields=fields, mask=time.is_null())


def _published(matched: _Matched) -> pa.Table:
    """The publications, each with the notifications about it and about its versions."""
    given = matched.notifications
    told = np.flatnonzero(matched.is_public[matched.rank])
    of, whose = matched.rank[told], matched.subscriber[told]
    columns = {name: given.column(name) for name in (*KEY, "event_time", RECORD)}
    about = given.select([name for name in (*KEY, TAG, MOVED) if name in given.column_names]).take(
        pa.array(of)
    )
    is_published = np.ones(given.num_rows, np.bool_)
    extra: dict[str, Any] = {}
    ranked: tuple[str, ...] = KEY[1:]
    if TAG in given.column_names:
        is_own = pc.and_(pc.equal(given.column(TAG), ""), pc.invert(given.column(MOVED)))
        is_published = is_own.to_numpy()
        extra = {
            "v": pa.array(np.where(is_published, VERSION, SCOPES_VERSION)[of], TRACE.field("v").type),
            "time": pc.if_else(about.column(MOVED), about.column("time"), None),
            TAG: pc.if_else(pc.equal(about.column(TAG), ""), None, about.column(TAG)),
        }
        ranked = (*ranked, TAG)
    both = pa.concat_tables(
        [
            _events("pub", given.num_rows, **columns),
            _events(
                "notify",
                len(told),
                component=matched.names.take(pa.array(whose)),
                producer=about.column("producer"),
                id=about.column("id"),
                subscriptions=matched.subscriptions.take(pa.array(told)),
                **extra,
            ),
        ]
    )
    # Composites are published behind what else happens at their instant.
    behind = pc.equal(given.column("producer"), PRODUCER).cast(pa.int8())
    place = _ranks(_order(given.append_column("behind", behind), "time", "behind", *ranked))
    first = np.concatenate((place, place[of]))
    then = np.concatenate((np.full(given.num_rows, -1, np.int64), whose))
    shown = np.concatenate((matched.is_public & is_published, np.ones(len(told), np.bool_)))
    order = np.lexsort((then, first))
    return both.combine_chunks().take(pa.array(order[shown[order]]))


def _faults(late: pa.Table) -> pa.Table:
    """That something came too late."""
    told = late.select(["source", "producer", "id", "digest", "event_time", "sequence"]).to_pylist()
    about = sorted(_json(row) for row in told)
    return _events("fault", len(about), change=pa.repeat(pa.scalar("late"), len(about)), about=about)


def _json(row: Mapping[str, Any]) -> str:
    """A row as Spark writes it: without what is null, and with control characters as Java escapes them."""
    given = (
        f'"{name}":{value}' if isinstance(value, int) else f'"{name}":"{value.translate(_ESCAPES)}"'
        for name, value in row.items()
        if value is not None
    )
    return f"{{{','.join(given)}}}"


_ESCAPES: Final = {
    **{each: f"\\u{each:04X}" for each in range(32)},
    **{ord(letter): f"\\{short}" for letter, short in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}
