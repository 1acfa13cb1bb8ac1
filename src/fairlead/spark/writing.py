"""The tables that a batch writes: deliveries, rejected and late rows, the trace, and the state for the
next batch.

Nobody sees any of it before the batch is committed, but for what is handed over to others: a table of Spark's
replaces the partition of the batch, so that it may be repeated; a callback and other sinks hear of it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from fairlead.audit.trace import Language, ScopeChanged
from fairlead.errors import PipelineError
from fairlead.ingest import Rejection
from fairlead.ingest.rejection import kind_of_reason
from fairlead.spark import kafka, postgres, trace
from fairlead.spark.advertising import advertised_of
from fairlead.spark.asking import Demand
from fairlead.spark.batch import POLICIES, PROGRESS, WAITING, Batch, Composites, Outcomes, Seen
from fairlead.spark.delivery import FILES, send, write_files
from fairlead.spark.detection import Detected
from fairlead.spark.frames import KEY, MOVED, RANK, RECORD, VERSION, few_rows, table_of_rows
from fairlead.spark.grants import granted
from fairlead.spark.ingestion import rejected
from fairlead.spark.matcher import RECEIVERS
from fairlead.spark.matching import with_receivers
from fairlead.spark.ordering import Facts, Ordered, OrderState
from fairlead.spark.output import Output, Segment
from fairlead.spark.publishing import publish
from fairlead.spark.scoping import SCOPE_CHANGES, ChangedScopes
from fairlead.spark.subscriptions import Subscriptions
from fairlead.spark.tables import TABLES, append
from fairlead.spark.versions import Decided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "REJECTED",
    "TEXT",
    "Rejected",
    "at_once",
    "check_owner",
    "public_composites",
    "publish_all",
    "reasons_in",
    "rejected_changes",
    "scope_events",
    "segments_after",
    "write_deliveries",
    "write_late",
    "write_rejected",
    "write_remembered",
    "write_state",
    "write_trace",
]

TABLE: Final = "table"
REASONS_MAX: Final = 20
FEW: Final = 100_000
"""So many rows go into one file: sorting them over several takes a sample first."""
MERGED_RATIO: Final = 2
SEGMENTS_MAX: Final = 16
TEXT: Final = pa.schema([("text", pa.string())])
REJECTED: Final = pa.schema(
    [
        ("source", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.binary()),
    ]
)


def at_once(*tables: Callable[[], Any]) -> list[Any]:
    """Write tables of which none needs another, together: one job alone seldom keeps all cores busy."""
    with ThreadPoolExecutor(len(tables), "fairlead-write") as threads:
        return [written.result() for written in [threads.submit(table) for table in tables]]


# -- deliveries ----------------------------------------------------------------------------------------------


def write_deliveries(batch: Batch, deliveries: DataFrame, *, some: bool) -> int:
    """Write deliveries to the pipeline's sink, if there are `some`; returns their number."""
    sink = batch.config.deliveries
    if sink.format == TABLE and sink.table is not None:
        _claim(batch, sink.table)
    elif not some:
        return 0
    if sink.format == "parquet":
        write_files(deliveries, sink.format, batch.attempt.channel("deliveries"))
        return batch.attempt.rows("deliveries")
    if sink.format == kafka.SINK:
        return kafka.write(deliveries, batch)
    if sink.format == postgres.SINK:
        return postgres.write(deliveries, batch)
    written = batch.persist(deliveries)
    count = int(written.count())
    if sink.format in TABLES:
        append(written.drop(RANK), batch.number, sink, batch.output)
    elif sink.format not in FILES:
        send(
            written.drop(RANK),
            batch.number,
            sink.format,
            table=sink.table,
            callback=sink.callback,
            options=sink.options,
        )
    elif count:
        write_files(written, sink.format, batch.attempt.channel("deliveries"))
        batch.attempt.name_lines("deliveries")
    return count


def publish_all(batch: Batch, deliveries: DataFrame, detected: Detected, composites: Composites) -> int:
    """Publish to the network, before the commit; a batch that fails to commit is published again."""
    to = batch.config.publish
    if to is None:
        return 0
    frames = []
    if "composites" in to.what and composites.detected:
        frames.append(detected.composites.where("is_public"))
    if "deliveries" in to.what:
        frames.append(deliveries)
    return sum(publish(each, to.url, to.tls) for each in frames)


def _claim(batch: Batch, table: str) -> None:
    """A table with rows before the first batch is somebody else's; one that has had ours is still there."""
    if not _is_claimed(table, batch.output):
        check_owner(batch.spark, table, batch.output)
        batch.output.keep_note(TABLE, {"table": table})
    elif batch.last is not None and not batch.spark.catalog.tableExists(table):
        raise PipelineError(
            f"the table {table} is missing, and with it the batches before this one",
            hint="go on where Spark's catalog has it, and outlives a session; or begin a new output",
        )


def check_owner(spark: SparkSession, table: str, output: Output) -> None:
    """PipelineError where a table has rows that this output knows nothing of."""
    known = _is_claimed(table, output)
    if not known and spark.catalog.tableExists(table) and not spark.table(table).isEmpty():
        raise PipelineError(
            f"the table {table} has rows already, and not from this pipeline",
            hint="name another table, or empty that one",
        )


def _is_claimed(table: str, output: Output) -> bool:
    """Whether a batch of this output has begun to write to a table.

    To this one: the note of a run that committed nothing stays when another configuration takes over.
    """
    note = output.note(TABLE)
    return note is not None and note.get("table") == table


# -- what is not delivered -----------------------------------------------------------------------------------


class Rejected(NamedTuple):
    """The records and changes that could not be read: their number, and the commonest reasons."""

    number: int = 0
    reasons: Mapping[str, int] = {}


def write_rejected(batch: Batch, rows: DataFrame, seen: Seen, demand: Demand) -> Rejected:
    """Set aside what could not be read, rows and changes of subscriptions."""
    changes = demand.rejections
    count = seen.rejected + len(changes)
    if not count:
        return Rejected()
    frames = [rejected(rows)] if seen.rejected else []
    if changes:
        frames.append(batch.spark.createDataFrame(rejected_changes(changes)))
    found = reduce(DataFrame.unionByName, frames)
    _write(batch, "rejected", found, count, "source", "file", "line", "raw")
    return Rejected(count, _reasons(batch, count))


def rejected_changes(changes: Iterable[tuple[str, Rejection]]) -> pa.Table:
    """The changes of subscriptions and patterns that could not be taken, as rows."""
    rows = [(source, each.source, each.line, each.reason, each.text.encode()) for source, each in changes]
    return table_of_rows(rows, REJECTED)


def _reasons(batch: Batch, count: int) -> Mapping[str, int]:
    """The commonest kinds of reasons for which rows were rejected: what differs in its values only is one."""
    if count < FEW:
        return reasons_in(batch.attempt.column("rejected", "reason"))
    written = batch.spark.read.parquet(batch.attempt.channel("rejected"))
    return _by_kind({row[0]: row[1] for row in written.groupBy("reason").count().toLocalIterator()})


def reasons_in(reasons: Iterable[str]) -> Mapping[str, int]:
    """The commonest kinds of some reasons, and how often each was given."""
    return _by_kind(Counter(reasons))


def _by_kind(reasons: Mapping[str, int]) -> Mapping[str, int]:
    kinds: Counter[str] = Counter()
    for reason, number in reasons.items():
        kinds[kind_of_reason(reason)] += number
    return dict(sorted(kinds.items(), key=lambda each: (-each[1], each[0]))[:REASONS_MAX])


def write_grants(
    batch: Batch, demand: Demand, received: DataFrame, detected: Detected, composites: Composites
) -> int:
    """Write which rules let deliveries pass, where that is asked for; how many rows there are."""
    rules = demand.rules if batch.config.audits_grants else None
    if rules is None:
        return 0
    answers = detected.answers(demand.subscriptions, payload=True) if composites.detected else None
    found = batch.persist(granted(received, rules, answers))
    count = int(found.count())
    _write(batch, "grants", found, count, "subscriber", *KEY, VERSION, "subscription", "role", "rule")
    return count


def write_late(batch: Batch, late: DataFrame, count: int) -> int:
    """Write what came too late where it can be seen."""
    if count:
        _write(batch, "late", late, count, "event_time", "producer", "sequence", "id")
    return count


def _write(batch: Batch, channel: str, frame: DataFrame, count: int, *order: str) -> None:
    """Write rows in an order; few of them into one file, for which no sample has to be taken."""
    ranked = frame.coalesce(1).sortWithinPartitions(*order) if count < FEW else frame.sort(*order)
    ranked.write.parquet(batch.attempt.channel(channel))


# -- the trace -----------------------------------------------------------------------------------------------


def write_trace(
    batch: Batch,
    demand: Demand,
    notifications: DataFrame,
    *,
    composites: DataFrame | None,
    late: DataFrame | None,
    events: int,
) -> int:
    """Write down what happened, in the order in which it happened; how many events there are.

    `notifications` and public `composites` have their receivers; there are about so many `events`.
    """
    if not batch.config.audit.trace:
        return 0
    spark = batch.spark
    if composites is not None:
        versions = (name for name in (VERSION, MOVED) if name in notifications.columns)
        columns = (*KEY, "event_time", RECORD, *versions, RECEIVERS)
        notifications = notifications.select(*columns).unionByName(composites.select(*columns))
    subscribed, detecting, ended = (
        None if rows is None else spark.createDataFrame(rows)
        for rows in (demand.begun(), demand.detecting_from_now(), demand.over())
    )
    schema = demand.subscriptions.schema
    advertised = advertised_of(batch.config, schema) if demand.is_first else None
    told = trace.trace_of(
        notifications,
        subscribed=subscribed,
        detecting=detecting,
        unsubscribed=ended,
        advertised=spark.createDataFrame(advertised.table()) if advertised is not None else None,
        late=late,
        final=batch.final,
        language=Language.spoken(schema) if demand.is_first else None,
        scopes=scope_events(demand),
    )
    first = demand.subscriptions.count if demand.is_first else 0
    trace.write(told, batch.attempt.channel("trace"), files=1 if events + first < FEW else None)
    return batch.attempt.rows("trace")


def scope_events(demand: Demand) -> Sequence[ScopeChanged]:
    """The scope graph and its changes in the first batch; later, the changes that are new."""
    if demand.scoping is None:
        return ()
    begun = demand.scoping.scopes.events() if demand.is_first else demand.scoping.events
    return [*begun, *demand.scoping.fired]


def public_composites(detected: Detected, subscriptions: Subscriptions) -> DataFrame:
    """The composites that everybody may see, with their receivers."""
    if detected.answered:
        return detected.public
    public = detected.composites.where("is_public").select(*KEY, "event_time", RECORD)
    return with_receivers(public, detected.answers(subscriptions))


# -- the state -----------------------------------------------------------------------------------------------


def write_state(  # noqa: PLR0917  # each stage leaves something
    batch: Batch,
    state: OrderState,
    detected: Detected,
    outcomes: Outcomes,
    composites: Composites,
    decided: Decided | None = None,
    scoping: ChangedScopes | None = None,
) -> Facts | None:
    """Leave to the next batch what it has to know; the facts of what is held."""
    if batch.final:
        return None
    facts = None
    if state.held is not None and (outcomes["held"] or outcomes["late"] or outcomes["known"]):
        state.held.write.parquet(batch.attempt.state("held"))
        facts = state.facts
    if state.last is not None:
        state.last.write.parquet(batch.attempt.state("last"))
    if composites.in_progress:
        detected.state.write.parquet(batch.attempt.state(PROGRESS))
    if decided is not None:
        decided.waiting.coalesce(1).write.parquet(batch.attempt.state(WAITING))
        if states := decided.states:
            _write_text(batch, POLICIES, states)
    if scoping is not None and scoping.changes:
        _write_text(batch, SCOPE_CHANGES, scoping.changes)
    return facts


def _write_text(batch: Batch, name: str, text: str) -> None:
    """A table of the state that is one text."""
    few_rows(batch.spark, [(text,)], TEXT).coalesce(1).write.parquet(batch.attempt.state(name))


def write_remembered(batch: Batch, ordered: Ordered, outcomes: Outcomes) -> tuple[Segment, ...]:
    """Remember the identities that a batch has settled; the tables from now on.

    A table takes over those before it that are not much larger, so there are few of them, and an identity is
    written again a few times only. What is to be forgotten is left out then, or goes with its whole table.
    """
    kept, merged, new = segments_after(batch, outcomes, ordered.bound)
    if new is None:
        return kept
    identities = ordered.remembered_with(batch.remembered(merged))
    (identities.coalesce(1) if new.rows < FEW else identities).write.parquet(batch.attempt.remembered)
    return (*kept, new)


def segments_after(
    batch: Batch, outcomes: Outcomes, bound: int
) -> tuple[tuple[Segment, ...], Sequence[Segment], Segment | None]:
    """The tables that stay, those that the new one takes over, and the new one, if there is one."""
    if batch.final:
        return (), (), None
    remember_us = batch.config.order.remember_us
    kept = [each for each in batch.before.remembered if each.bound >= bound - remember_us]
    rows = outcomes["released"] + outcomes["late"]
    if not rows or not remember_us:
        return tuple(kept), (), None
    merged: list[Segment] = []
    while kept and (kept[-1].rows <= MERGED_RATIO * rows or len(kept) >= SEGMENTS_MAX):
        merged.append(kept.pop())
        rows += merged[-1].rows
    return tuple(kept), merged, Segment(batch.number, rows, bound)
