"""The work on one batch: what it begins with, what it writes aside, and its commit.

All that a batch needs to know of those before it is in the output: in a stream this runs wherever Spark runs it,
which over Connect is not where the pipeline was started.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import functions as F

from fairlead.audit.trace import Language
from fairlead.correlation.standing import Question
from fairlead.errors import PipelineError
from fairlead.filters.schema import Schema
from fairlead.ingest import Rejection
from fairlead.model.order import BEGINNING, END
from fairlead.spark import trace
from fairlead.spark.config import Config, SubscriptionsSource
from fairlead.spark.delivery import FILES, send, write_files
from fairlead.spark.detection import Detected
from fairlead.spark.frames import ATTRIBUTES, DELIVERY, KEY, PLACE, RECORD, few_rows
from fairlead.spark.ingestion import rejected
from fairlead.spark.matching import evened
from fairlead.spark.ordering import Facts, Ordered, OrderState, watermark_of
from fairlead.spark.output import CHANNELS, Attempt, Counts, Manifest, Output
from fairlead.spark.patterns import PATTERN, Asked, ChangedPatterns, Patterns
from fairlead.spark.publishing import publish
from fairlead.spark.storage import Directory, as_path
from fairlead.spark.subscriptions import (
    SUBSCRIPTION,
    Changed,
    Noun,
    Place,
    Subscriptions,
    SubscriptionsInput,
    entries,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "READ_AHEAD",
    "STANDING",
    "Seen",
    "Standing",
    "Work",
    "check_ids",
    "check_owner",
    "read_patterns",
    "read_subscriptions",
    "schema_of",
    "table_of",
]

REASONS_KEPT: Final = 20
NONE_BEFORE: Final = -1
TABLE: Final = "table"
PROGRESS: Final = "progress"
"""The table of the state with what of patterns is in progress."""
FEW_ROWS: Final = 20_000
SPREAD_ROWS: Final = 5_000
"""A task that matches gets so many rows at least: a smaller one costs more than it saves."""
FEW: Final = 100_000
"""So many events go into one file of a trace: sorting them over several takes a sample first."""
REJECTED: Final = pa.schema(
    [
        ("source", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.binary()),
    ]
)
SUBSCRIBED: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "subscriber", "filter")),
        *((name, pa.int64()) for name in ("from", "until")),
    ]
)
ENDED: Final = pa.schema([field for field in SUBSCRIBED if field.name != "filter"])


def schema_of(config: Config) -> Schema | None:
    """The schema that a pipeline's filters and notifications keep to."""
    return None if config.schema is None else Schema.read(config.schema)


class Standing(NamedTuple):
    """How far a run is."""

    batch: int
    stage: str
    since: float = 0.0
    """When the batch began, by the monotonic clock."""
    rows: int = 0
    """How many rows it has, once they have been looked at."""

    def told(self, now: float) -> str:
        """The batch and its stage; its rows, and how many that is in a second so far."""
        at = f"batch {self.batch}, {self.stage}"
        if not self.rows or now <= self.since:
            return at
        return f"{at}: {self.rows:,} rows, {self.rows / (now - self.since):,.0f}/s"


STANDING: Final[dict[str, Standing]] = {}
"""By output, what this process is working on: over Connect a stream's batches are taken elsewhere."""
READ_AHEAD: Final[dict[str, Changed]] = {}
"""By output, subscriptions that were read before a stream began: its first batch need not read them again."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look at the rows of a batch tells."""

    read: int
    rejected: int
    newest: Mapping[str, int]
    """Per input the newest event time."""
    facts: Facts
    own: int = 0
    """How many a pipeline has published itself: blank, though they have a producer."""

    @classmethod
    def of(cls, rows: DataFrame) -> Seen:
        """Look at rows; this is what reads the input."""
        accepted = F.col("reason").isNull()
        looked = rows.groupBy("source").agg(
            F.count(F.when(accepted, 1)).alias("read"),
            F.count(F.when(~accepted & (F.col("reason") != ""), 1)).alias("rejected"),
            F.count(F.when((F.col("reason") == "") & F.col("producer").isNotNull(), 1)).alias("own"),
            F.max(F.when(accepted, F.coalesce("event_time", F.lit(0)))).alias("newest"),
            *Facts.columns(),
        )
        found = looked.collect()
        facts = Facts(False, False, False)
        for row in found:
            facts |= Facts(row.has_digests, row.has_sequences, row.has_causes)
        newest = {row.source: row.newest for row in found if row.newest is not None}
        read, rejected, own = (sum(row[name] for row in found) for name in ("read", "rejected", "own"))
        return cls(read, rejected, newest, facts, own)


class Work:
    """The work on one batch; left without a commit, it leaves nothing behind that anybody would read."""

    def __init__(self, config: Config, spark: SparkSession, number: int, *, final: bool) -> None:
        self.config, self.spark, self.number, self.final = config, spark, number, final
        self.schema = schema_of(config)
        self._output = Output(config.output)
        self.last = self._output.last() or Manifest(NONE_BEFORE)
        self._attempt = Attempt(self._output, number)
        self._clock = _Clock(config.output, number)
        self._kept: list[Any] = []
        self._rows: dict[str, int] = {}
        self._released: list[int] = []
        self._columns = ""
        self._changed = Changed(Subscriptions(self._output.index.uri))
        self._asked = ChangedPatterns(Patterns())
        self._patterns = ""
        self._first = self.last.batch == NONE_BEFORE
        self.newest: Mapping[str, int] = self.last.newest
        self.watermark = self.last.watermark
        """Up to where notifications are released; known when the rows have been looked at."""
        self._files: Sequence[str] = ()
        self._reasons: Mapping[str, int] = {}
        self._held = Facts(False, False, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        STANDING.pop(self.config.output, None)
        for frame in self._kept:
            frame.unpersist()

    def kept(self, frame: Any) -> Any:
        """The same, computed once, until the work is done."""
        persisted = frame.persist()
        self._kept.append(persisted)
        return persisted

    # -- what it begins with -------------------------------------------------------------------------------

    def look(self, rows: DataFrame) -> Seen:
        """Read the rows; PipelineError where one was rejected and the pipeline says to fail then."""
        self._clock.turn("ingest")
        seen = Seen.of(rows)
        self._clock.count(seen.read + seen.rejected)
        if seen.rejected and self.config.rejected == "fail":
            first = rejected(rows).orderBy("file", "line").first()
            assert first is not None
            rows_of = "1 row" if seen.rejected == 1 else f"{seen.rejected:,} rows"
            raise PipelineError(
                f"{Place(as_path(first.file or first.source), first.line)}: rejected: {first.reason}",
                hint=f'{rows_of} of this batch cannot be read; rejected = "keep" sets such rows aside',
            )
        known = {**dict.fromkeys((each.name for each in self.config.events), BEGINNING), **self.last.newest}
        self.newest, bound = watermark_of(known, seen.newest, self.config.order.lateness_us)
        self.watermark = END if self.final else max(bound, self.last.watermark)
        return seen

    def asked(self) -> tuple[Subscriptions, Patterns]:
        """What is known to be asked for: all at the first batch; later, with the changes that have come since."""
        self._clock.turn("subscribe")
        with self._planned() as self._files:
            self._changed, self._asked = self._subscribed(), self._detecting()
            if self._first or self._files:
                check_ids(self._changed.subscriptions, self._asked.patterns)
        return self._changed.subscriptions, self._asked.patterns

    def _subscribed(self) -> Changed:
        source = self.config.subscriptions
        files = _files_of(source, self._files)
        if self._first:
            ahead = READ_AHEAD.pop(self.config.output, None)
            return ahead or read_subscriptions(
                self.config, self._output.index.uri, self.spark, self.schema, files
            )
        if not files:
            return Changed(self._known())
        return self._known().changed(_entries(source, files, self.spark), self.last.watermark)

    def _known(self) -> Subscriptions:
        """The subscriptions that the batch before has left."""
        return Subscriptions.from_json(self.last.subscriptions, self._output.index.uri, schema=self.schema)

    def _detecting(self) -> ChangedPatterns:
        source = self.config.patterns
        if source is None:
            return ChangedPatterns(Patterns())
        files = _files_of(source, self._files)
        if self._first:
            return read_patterns(self.config, self.spark, self.schema, files)
        known = Patterns.restored(
            self._output.patterns(self.last.patterns), schema=self.schema, extensions=self.config.extensions
        )
        if not files:
            return ChangedPatterns(known)
        return known.changed(_entries(source, files, self.spark, PATTERN), self.last.watermark)

    @contextmanager
    def _planned(self) -> Iterator[Sequence[str]]:
        """The files of changes that this batch takes: those that an earlier attempt at it meant to take.

        A plan that cannot be carried out is dropped by the attempt that made it, so that a file can be put right
        under another name: nobody has seen anything of the batch yet. One that was kept is carried out as it is:
        a table or a callback may have seen the batch.
        """
        if not (watched := self.config.watched):
            yield ()
            return
        files = self._output.plan(self.number)
        if made := files is None:
            taken = set(self._output.taken(self.last))
            files = [file for source in watched for file in _files(source) if file not in taken]
            self._output.keep_plan(self.number, files)
        elif gone := next((file for file in files if not _is_there(file)), None):
            plan = self._output.plan_path(self.number)
            raise PipelineError(
                f"{gone} is gone, and {plan} says that batch {self.number} takes it",
                hint="put the file back, or delete the plan: then the batch takes the files that are there",
            )
        try:
            yield files
        except Exception:
            if made:
                self._output.drop_plan(self.number)
            raise

    def state(self) -> OrderState | None:
        """What the batch before has left."""
        self._clock.turn("order")
        if self._first:
            return None
        held, last = (
            self.spark.read.parquet(self._output.state(self.last.batch, name))
            if self._output.has_state(self.last.batch, name)
            else None
            for name in ("held", "last")
        )
        return OrderState(held, last, self.last.watermark, Facts(**self.last.held))

    def in_progress(self) -> DataFrame | None:
        """What the batch before has left of matches in progress."""
        if self._first or not self._output.has_state(self.last.batch, PROGRESS):
            return None
        return self.spark.read.parquet(self._output.state(self.last.batch, PROGRESS))

    def has_few(self, seen: Seen) -> bool:
        """Whether one task puts the rows in order sooner than many would."""
        return seen.read + self.last.counts.held + self.last.counts.in_progress <= FEW_ROWS

    # -- what it writes ------------------------------------------------------------------------------------

    def count(self, ordered: Ordered) -> None:
        """Find out what became of the notifications; this is what puts them in order."""
        if ATTRIBUTES in ordered.rows.columns:
            spelled = ordered.rows.schema[ATTRIBUTES].dataType.json()
            self._columns = blake2b(spelled.encode(), digest_size=8).hexdigest()
        partition = F.spark_partition_id().alias("partition")
        found = ordered.rows.groupBy("outcome", partition).count().collect()
        rows: Counter[str] = Counter()
        for row in found:
            rows[row["outcome"]] += row["count"]
        self._rows |= rows
        self._released = [row["count"] for row in found if row["outcome"] == "released"]
        self._clock.turn("detect" if self._asked.patterns else "match")

    def count_found(self, found: Detected) -> Detected:
        """Find out how many composites there are, and whether anything is in progress; this detects them.

        The same as it came, except that of few rows many composites can be made.
        """
        if not found.levels:
            return found
        is_composite = F.col("automaton").isNull().alias("is_composite")
        counted = dict(map(tuple, found.rows.groupBy(is_composite).count().collect()))
        self._rows |= {"composites": counted.get(True, 0), PROGRESS: counted.get(False, 0)}
        self._clock.turn("match")
        return replace(found, few=found.few and self._rows["composites"] <= FEW_ROWS)

    def spread(self, released: DataFrame) -> DataFrame:
        """What is released, over several tasks: the order has left the numbers of a producer in one.

        They may be matched in any order, for the key restores it when they are delivered.
        """
        partitions = int(self.spark.conf.get("spark.sql.shuffle.partitions") or 1)
        over = min(partitions, sum(self._released) // SPREAD_ROWS)
        return evened(released, self._released, over) if over > 1 else released

    def has(self, outcome: str) -> bool:
        """Whether there is any row of which this became."""
        return self._rows.get(outcome, 0) > 0

    def deliver(self, deliveries: DataFrame) -> DataFrame:
        """Write deliveries to where the pipeline says; gives them as they were written."""
        sink = self.config.deliveries
        if self._publishes("deliveries"):
            deliveries = self.kept(deliveries)
        if sink.table is not None:
            self._claim(sink.table)
        elif not (self.has("released") or self.has("composites")):
            self._rows["deliveries"] = 0
            return deliveries.limit(0)
        if sink.format == "parquet":
            path = self._attempt.channel("deliveries")
            write_files(deliveries, sink.format, path)
            self._rows["deliveries"] = self._attempt.rows("deliveries")
            # With the columns said, Spark need not look into the files for them.
            columns = deliveries.drop(PLACE).schema
            written = self.spark.read.schema(columns).parquet(path)
            written = written if self.has("deliveries") else deliveries.limit(0)
        else:
            written = self.kept(deliveries)
            self._rows["deliveries"] = written.count()
            if sink.format not in FILES:
                send(
                    written.drop(PLACE),
                    self.number,
                    sink.format,
                    table=sink.table,
                    callback=sink.callback,
                    options=sink.options,
                )
            elif self.has("deliveries"):
                write_files(written, sink.format, self._attempt.channel("deliveries"))
        return written.select(*DELIVERY)

    def publish(self, deliveries: DataFrame, found: Detected) -> None:
        """Publish into the network what the pipeline says; it comes before the commit, and again if that fails."""
        if (to := self.config.publish) is None:
            return
        self._clock.turn("publish")
        frames = []
        if self._publishes("composites") and self.has("composites"):
            frames.append(found.composites.where("is_public"))
        if self._publishes("deliveries") and self.has("deliveries"):
            frames.append(deliveries)
        self._rows["published"] = sum(publish(each, to.url, to.tls) for each in frames)

    def _publishes(self, what: str) -> bool:
        return self.config.publish is not None and what in self.config.publish.what

    def _claim(self, table: str) -> None:
        """A table with rows before the first batch is somebody else's; one that has had ours is still there."""
        if not _is_claimed(table, self._output):
            check_owner(self.spark, table, self._output)
            self._output.keep_note(TABLE, {"table": table})
        elif not self._first and not self.spark.catalog.tableExists(table):
            raise PipelineError(
                f"the table {table} is gone, and with it the batches before this one",
                hint="go on where Spark's catalog has it, and outlives a session; or begin a new output",
            )

    def write(self, *tables: Callable[[], None]) -> None:
        """Write tables of which none needs another, at once: one job alone seldom keeps all cores busy."""
        self._clock.turn("trace")
        with ThreadPoolExecutor(len(tables), "fairlead-write") as threads:
            for written in [threads.submit(table) for table in tables]:
                written.result()

    def write_rejected(self, rows: DataFrame, seen: Seen) -> None:
        """Set aside what could not be read, rows and changes of subscriptions."""
        refused = [
            (source, each)
            for source, changed in (("subscriptions", self._changed), ("patterns", self._asked))
            for each in changed.rejections
        ]
        self._rows["rejected"] = seen.rejected + len(refused)
        if not self.has("rejected"):
            return
        found = rejected(rows) if seen.rejected else self._refused(refused)
        if seen.rejected and refused:
            found = found.unionByName(self._refused(refused))
        self._write("rejected", found, "source", "file", "line", "raw")
        self._reasons = self._counted_reasons()

    def _counted_reasons(self) -> Mapping[str, int]:
        """The commonest reasons for which rows were rejected."""
        if self._rows["rejected"] < FEW:
            told = Counter(self._attempt.column("rejected", "reason"))
            return dict(sorted(told.items(), key=lambda each: (-each[1], each[0]))[:REASONS_KEPT])
        written = self.spark.read.parquet(self._attempt.channel("rejected"))
        counted = written.groupBy("reason").count().orderBy(F.desc("count"), "reason").limit(REASONS_KEPT)
        return {row["reason"]: row["count"] for row in counted.collect()}

    def _refused(self, rejections: Iterable[tuple[str, Rejection]]) -> DataFrame:
        rows = [
            (source, each.source, each.line, each.reason, each.text.encode()) for source, each in rejections
        ]
        return few_rows(self.spark, rows, REJECTED)

    def write_late(self, late: DataFrame) -> None:
        """Write what came too late where it can be seen."""
        if self.has("late"):
            self._write("late", late, "event_time", "producer", "sequence", "id")

    def _write(self, channel: str, frame: DataFrame, *order: str) -> None:
        """Write rows in an order; few of them into one file, for which no sample has to be taken."""
        few = self._rows[channel] < FEW
        ranked = frame.coalesce(1).sortWithinPartitions(*order) if few else frame.sort(*order)
        ranked.write.parquet(self._attempt.channel(channel))

    def write_trace(
        self, released: DataFrame, found: Detected, deliveries: DataFrame, late: DataFrame
    ) -> None:
        """Write down what happened, in the order in which it happened."""
        if self.config.audit.trace:
            begun, over = self._begun(), self._over()
            if self.has("composites"):
                composites = found.composites
                columns = (*KEY, "event_time", RECORD)
                public = composites.where("is_public").select(*columns)
                released = released.select(*columns).unionByName(public)
                if not all(self._question(row).is_public for row in self._asked.patterns.rows):
                    private = composites.where("not is_public").select("producer", "id")
                    deliveries = deliveries.join(found.nearby(private), ["producer", "id"], "left_anti")
            told = trace.trace_of(
                released,
                deliveries,
                subscribed=begun,
                detecting=self._asking(),
                unsubscribed=over,
                late=late if self.has("late") else None,
                final=self.final,
                language=Language.spoken(self.schema) if self._first else None,
            )
            told_first = self._changed.subscriptions.count if self._first else 0
            few = told_first + self._rows.get("released", 0) + self._rows["deliveries"] < FEW
            trace.write(told, self._attempt.channel("trace"), files=1 if few else None)
            self._rows["trace"] = self._attempt.rows("trace")

    def _begun(self) -> DataFrame | None:
        """The subscriptions that begin with this batch."""
        if self._first:
            return self.spark.createDataFrame(table_of(self._changed.subscriptions))
        return self._table(
            [(each.id, each.subscriber, each.filter, each.since, each.until) for each in self._changed.begun]
        )

    def _asking(self) -> DataFrame | None:
        """The patterns that begin with this batch and whose composites are public, with what these match."""
        rows = self._asked.patterns.rows if self._first else self._asked.begun
        public = [(row, question) for row in rows if (question := self._question(row)).is_public]
        return self._table(
            [(row.id, row.subscriber, str(question.filter), *_validity(row)) for row, question in public]
        )

    def _question(self, row: Asked) -> Question:
        return self._asked.patterns.question(row)

    def _table(self, rows: Sequence[tuple[Any, ...]]) -> DataFrame | None:
        return few_rows(self.spark, rows, SUBSCRIBED) if rows else None

    def _over(self) -> DataFrame | None:
        """Those that were there before and end at another place than was told."""
        if self._first or not (self._changed.cut or self._asked.cut):
            return None
        rows = [(each.id, each.subscriber, each.since, each.until) for each in self._changed.cut]
        rows += [
            (row.id, row.subscriber, *_validity(row))
            for row in self._asked.cut
            if self._question(row).is_public
        ]
        return few_rows(self.spark, rows, ENDED)

    def write_state(self, state: OrderState, found: Detected) -> None:
        """Leave to the next batch what it has to know."""
        if self.final:
            return
        if state.held is not None and (self.has("held") or self.has("late") or self.has("known")):
            state.held.write.parquet(self._attempt.state("held"))
            self._held = state.facts
        if state.last is not None:
            state.last.write.parquet(self._attempt.state("last"))
        if self.has(PROGRESS):
            found.state.write.parquet(self._attempt.state(PROGRESS))

    def commit(self, seen: Seen) -> Manifest:
        """The batch is there."""
        self._clock.turn("commit")
        rows = Counter(self._rows)
        manifest = Manifest(
            batch=self.number,
            counts=Counts(
                read=seen.read + seen.rejected,
                rejected=seen.rejected,
                refused=rows["rejected"] - seen.rejected,
                duplicates=rows["duplicate"],
                late=rows["late"],
                released=rows["released"],
                held=rows["held"],
                deliveries=rows["deliveries"],
                composites=rows["composites"],
                in_progress=rows[PROGRESS],
                published=rows["published"],
                own=seen.own,
            ),
            watermark=self.watermark,
            newest=self.newest,
            final=self.final,
            subscriptions=self._changed.subscriptions.to_json(),
            patterns=self._keep_patterns(),
            **self._output.taking(self.last, self._files),
            held=asdict(self._held),
            channels=tuple(name for name in CHANNELS if rows[name] and self._is_ours(name)),
            columns=self._columns,
            reasons=self._reasons,
            seconds=self._clock.elapsed,
            stages=self._clock.laps,
            finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        self._attempt.commit(manifest)
        if self.config.watched:
            self._sweep()
        return manifest

    def _keep_patterns(self) -> str:
        """The file of the patterns that are asked for from now on."""
        if self.config.patterns is not None:
            self._patterns = self._output.keep_patterns(self._asked.patterns.dump())
        return self._patterns

    def _sweep(self) -> None:
        """Remove what is asked for neither in this batch nor in the one before it: somebody may read that.

        Only as the last one: another run may have gone on where this one was believed dead, to the next batch or
        into the midst of it.
        """
        following = self.number + 1
        if not self._output.is_committed(following) and self._output.plan(following) is None:
            kept = self._changed.subscriptions.kept_files
            if not self._first:
                kept |= self._known().kept_files
            for name in set(self._output.index.names()) - kept:
                self._output.index.delete_file(name)
            self._output.sweep_patterns({self.last.patterns, self._patterns})

    def _is_ours(self, channel: str) -> bool:
        return channel != "deliveries" or self.config.deliveries.format in FILES


class _Clock:
    """Which stage a batch is at, and how long each took."""

    def __init__(self, output: str, batch: int) -> None:
        self._started = self._since = time.monotonic()
        self.laps: dict[str, float] = {}
        self._output = output
        self._at = Standing(batch, "ingest", self._started)
        STANDING[output] = self._at

    def turn(self, stage: str) -> None:
        """A stage is over and another begins."""
        now = time.monotonic()
        if lap := round(now - self._since, 3):
            self.laps[self._at.stage] = round(self.laps.get(self._at.stage, 0.0) + lap, 3)
        self._since = now
        STANDING[self._output] = self._at = self._at._replace(stage=stage)

    def count(self, rows: int) -> None:
        """It is known how many rows there are."""
        STANDING[self._output] = self._at = self._at._replace(rows=rows)

    @property
    def elapsed(self) -> float:
        return round(time.monotonic() - self._started, 3)


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


# -- subscriptions -----------------------------------------------------------------------------------------


def table_of(subscriptions: Subscriptions) -> pa.Table:
    """All subscriptions as a table: id, subscriber, filter, from and until."""
    batches = list(subscriptions.tables())
    return (pa.Table.from_batches(batches) if batches else SUBSCRIBED.empty_table()).select(SUBSCRIBED.names)


def read_subscriptions(
    config: Config,
    directory: str,
    spark: SparkSession,
    schema: Schema | None,
    files: Sequence[str] | None = None,
) -> Changed:
    """All subscriptions that there are at the beginning; where they are watched, in these files."""
    source = config.subscriptions
    if not source.watch:
        given = SubscriptionsInput(source.path, source.format, source.options)
        return Changed(
            Subscriptions.read(given, directory, schema=schema, spark=spark, extensions=config.extensions)
        )
    # Where files are changes, the first ones are too: replayed from the beginning, the same order gives the same.
    files = _files(source) if files is None else files
    empty = Subscriptions.read((), directory, schema=schema, extensions=config.extensions)
    changed = empty.changed(_entries(source, files, spark), BEGINNING)
    _check(changed.rejections)
    return changed


def read_patterns(
    config: Config, spark: SparkSession, schema: Schema | None, files: Sequence[str] | None = None
) -> ChangedPatterns:
    """All patterns that there are at the beginning; where they are watched, in these files."""
    source = config.patterns
    if source is None:
        return ChangedPatterns(Patterns())
    if not source.watch:
        given = SubscriptionsInput(source.path, source.format, source.options)
        return ChangedPatterns(Patterns.read(given, schema=schema, spark=spark, extensions=config.extensions))
    files = _files(source) if files is None else files
    empty = Patterns.read((), schema=schema, extensions=config.extensions)
    changed = empty.changed(_entries(source, files, spark, PATTERN), BEGINNING)
    _check(changed.rejections)
    return changed


def check_ids(subscriptions: Subscriptions, patterns: Patterns) -> None:
    """PipelineError where a subscription and a pattern have one id: a delivery would not tell which it was."""
    if shared := subscriptions.among({row.id for row in patterns.rows}):
        more = f" and {len(shared) - 1:,} more" if len(shared) > 1 else ""
        raise PipelineError(
            f"the id {shared[0]!r}{more} is that of a subscription and of a pattern",
            hint="deliveries tell by its id what was asked for: give one of the two another",
        )


def _check(rejections: Sequence[Rejection]) -> None:
    if rejections:
        first = rejections[0]
        raise PipelineError(f"{Place(first.source, first.line)}: {first.reason}")


def _files(source: SubscriptionsSource) -> list[str]:
    directory = Directory(source.path)
    if not directory.is_directory():
        raise PipelineError(
            f"{source.path} is no directory, and what is watched are files in one",
            hint="make it, or name the file without watch = true",
        )
    return [directory.path(name) for name, _ in directory.files()]


def _files_of(source: SubscriptionsSource, files: Iterable[str]) -> list[str]:
    """Of the files of changes those of a source."""
    if not source.watch:
        return []
    directory = f"{Directory(source.path).uri}/"
    return [file for file in files if file.startswith(directory)]


def _is_there(file: str) -> bool:
    directory, _, name = file.rpartition("/")
    return Directory(directory).exists(name)


def _entries(
    source: SubscriptionsSource, files: Iterable[str], spark: SparkSession, noun: Noun = SUBSCRIPTION
) -> Iterable[Any]:
    inputs = (SubscriptionsInput(file, source.format, source.options) for file in files)
    return chain.from_iterable(entries(each, spark, noun=noun) for each in inputs)


def _validity(row: Asked) -> tuple[int | None, int | None]:
    """From when and until when a pattern is asked for; None where that is from the beginning, or for ever."""
    return (None if row.since == BEGINNING else row.since, None if row.until == END else row.until)
