"""One batch: the state that it begins with, a first scan of its rows, and its commit.

All that a batch has to know of those before it is in the output: in a stream this runs wherever Spark runs it,
which over Connect is not where the pipeline was started. What comes of a batch are values, each made from those
before it:

    Seen       counts, facts and newest times: one job, which reads the input
    Bounds     how far the watermark moves
    Outcomes   what became of the notifications: one job, which puts them in order
    Composites what patterns have found: one job, which detects them
    Written    what `writing` has put aside

`Batch.commit` makes the manifest of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import functions as F

from fairlead.errors import PipelineError
from fairlead.model.order import BEGINNING, END
from fairlead.spark.arrivals import is_within_a_tie
from fairlead.spark.asking import Demand
from fairlead.spark.beside import Beside
from fairlead.spark.config import Config, format_duration
from fairlead.spark.delivery import FILES
from fairlead.spark.detection import Detected
from fairlead.spark.doors import BLANK
from fairlead.spark.frames import ATTRIBUTES
from fairlead.spark.identities import Identities
from fairlead.spark.ingestion import AHEAD, not_ahead, notifications, rejected
from fairlead.spark.matching import evened, targets_of
from fairlead.spark.orderer import DOUBTFUL
from fairlead.spark.ordering import Facts, Ordered, OrderState, order, watermark_of
from fairlead.spark.output import CHANNELS, Attempt, Counts, Manifest, Output, Segment
from fairlead.spark.scoping import POLICIES
from fairlead.spark.storage import as_path
from fairlead.spark.subscriptions import Location, Subscriptions
from fairlead.spark.versions import Decided, decided

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "POLICIES",
    "PROGRESS",
    "WAITING",
    "Batch",
    "Bounds",
    "Composites",
    "Outcomes",
    "Progress",
    "Seen",
    "Standing",
    "Written",
]

NOTHING_YET: Final = Manifest(-1)
"""The manifest that stands for the commit before the first batch."""
REMEMBERED: Final = pa.schema([("identity", pa.binary()), ("time", pa.int64())])
PROGRESS: Final = "progress"
"""The table of the state with what of patterns is in progress."""
WAITING: Final = "waiting"
"""The table of the state with versions that policies have moved to order times behind the watermark."""
FEW_ROWS: Final = 20_000
"""So few are dealt with by one task sooner than by many."""
ORDERED_AT_ONCE: Final = 250_000
"""So many one task puts in order: it looks at columns, and a shuffle of all rows costs more."""
SPREAD_ROWS: Final = 5_000
"""A task that matches gets so many rows at least: a smaller one costs more than it saves."""


# -- how far a run is ----------------------------------------------------------------------------------------


class Standing(NamedTuple):
    """The progress of a run."""

    batch: int
    stage: str
    since: float = 0.0
    """When the batch began, by the monotonic clock."""
    rows: int = 0
    """The number of its rows, once they have been looked at."""

    def describe(self, now: float) -> str:
        """The batch and its stage; its rows, and how many that is in a second so far."""
        at = f"batch {self.batch}, {self.stage}"
        if not self.rows or now <= self.since:
            return at
        return f"{at}: {self.rows:,} rows, {self.rows / (now - self.since):,.0f}/s"


@dataclass(slots=True)
class Progress:
    """The progress of a run for observers in this process. Over Connect, batches run in another one."""

    standing: Standing | None = None

    def __reduce__(self) -> tuple[type[Progress], tuple[()]]:
        return Progress, ()


class _Clock:
    """The stage that a batch is at, and the time that each stage took."""

    def __init__(self, batch: int, progress: Progress) -> None:
        self._started = self._since = time.monotonic()
        self.laps: dict[str, float] = {}
        self._progress = progress
        self._at = progress.standing = Standing(batch, "ingest", self._started)

    def turn(self, stage: str) -> None:
        """A stage is over and another begins."""
        now = time.monotonic()
        if lap := round(now - self._since, 3):
            self.laps[self._at.stage] = round(self.laps.get(self._at.stage, 0.0) + lap, 3)
        self._since = now
        self._at = self._progress.standing = self._at._replace(stage=stage)

    def count(self, rows: int) -> None:
        """It is known how many rows there are."""
        self._at = self._progress.standing = self._at._replace(rows=rows)

    @property
    def elapsed(self) -> float:
        return round(time.monotonic() - self._started, 3)


# -- values --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of one scan of the rows of a batch."""

    read: int
    rejected: int
    newest: Mapping[str, int]
    """Per input the newest event time."""
    facts: Facts
    own: int = 0
    """The number that pipelines have published themselves: blank, though they have a producer."""
    ahead: int = 0
    """The number of rejected rows that lie too far ahead of the clock."""

    @classmethod
    def of(cls, rows: DataFrame) -> Seen:
        """Look at rows; this is what reads the input."""
        accepted = F.col("reason").isNull()
        looked = rows.groupBy("source").agg(
            F.count(F.when(accepted, 1)).alias("read"),
            F.count(F.when(~accepted & (F.col("reason") != ""), 1)).alias("rejected"),
            F.count(F.when((F.col("reason") == "") & F.col("producer").isNotNull(), 1)).alias("own"),
            F.count(F.when(F.col("reason").startswith(AHEAD), 1)).alias("ahead"),
            F.max(F.when(accepted, F.coalesce("event_time", F.lit(0)))).alias("newest"),
            *Facts.columns(),
        )
        found = looked.collect()
        facts = Facts(False, False, False)
        for row in found:
            facts |= Facts(row.has_digests, row.has_sequences, row.has_causes)
        newest = {row.source: row.newest for row in found if row.newest is not None}
        counted = ("read", "rejected", "own", "ahead")
        read, rejected, own, ahead = (sum(row[name] for row in found) for name in counted)
        return cls(read, rejected, newest, facts, own, ahead)

    @classmethod
    def of_table(cls, rows: pa.Table) -> Seen:
        """The same of rows that are here."""
        reason, blank = rows.column("reason"), pc.equal(rows.column("reason"), BLANK).fill_null(False)
        accepted = rows.filter(reason.is_null())
        times = pa.table({"source": accepted["source"], "time": accepted["event_time"].fill_null(0)})
        newest = times.group_by("source").aggregate([("time", "max")])
        there = (rows.column(name).null_count < rows.num_rows for name in ("digest", "sequence", "causes"))
        return cls(
            accepted.num_rows,
            rows.num_rows - accepted.num_rows - pc.sum(blank, min_count=0).as_py(),
            dict(zip(newest["source"].to_pylist(), newest["time_max"].to_pylist(), strict=True)),
            Facts(*there),
            pc.sum(pc.and_(blank, rows.column("producer").is_valid()), min_count=0).as_py(),
            pc.sum(pc.starts_with(reason, AHEAD), min_count=0).as_py(),
        )


class Bounds(NamedTuple):
    """The watermark before and after a batch."""

    newest: Mapping[str, int]
    watermark: int
    """Up to where notifications are released."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of the notifications of a batch: how many were released, held, late, …"""

    rows: Counter[str]
    released_by_task: Sequence[int]
    columns: str
    """A digest of the typed columns that notifications have, if any."""
    late_by_us: int = 0
    """The distance behind the watermark at which the latest one came."""

    @classmethod
    def of(cls, ordered: Ordered) -> Outcomes:
        """Count what became of them; this is what puts them in order."""
        columns = ""
        if ATTRIBUTES in ordered.rows.columns:
            spelled = ordered.rows.schema[ATTRIBUTES].dataType.json()
            columns = blake2b(spelled.encode(), digest_size=8).hexdigest()
        task = F.spark_partition_id().alias("task")
        oldest = F.min(F.coalesce("event_time", F.lit(0))).alias("oldest")
        counted = ordered.rows.groupBy("outcome", task).agg(F.count("*").alias("count"), oldest).collect()
        rows: Counter[str] = Counter()
        for row in counted:
            rows[row["outcome"]] += row["count"]
        late = [ordered.before.bound - row["oldest"] for row in counted if row["outcome"] == "late"]
        released = [row["count"] for row in counted if row["outcome"] == "released"]
        return cls(rows, released, columns, max([0, *late]))

    def spread(self, released: DataFrame) -> DataFrame:
        """The released notifications over several tasks. Ordering has left the numbers of a producer in
        one task.

        They may be matched in any order, for the key restores it when they are delivered.
        """
        partitions = int(released.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
        over = min(partitions, self.rows["released"] // SPREAD_ROWS)
        return evened(released, self.released_by_task, over) if over > 1 else released

    def __getitem__(self, outcome: str) -> int:
        return self.rows[outcome]


class Composites(NamedTuple):
    """The number of composites, and the number of automata and keys with partial matches."""

    detected: int = 0
    in_progress: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """The tables that were written: the number of rows of each channel, and the rest of the manifest's entries
    about them."""

    rows: Mapping[str, int]
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why rows were rejected."""
    published: int = 0
    held: Facts | None = None
    """Facts about the rows that are held back, where there are any."""
    remembered: Sequence[Segment] = ()
    """The segments of the identities that are remembered from now on."""


# -- the batch -----------------------------------------------------------------------------------------------


class Batch:
    """The work on one batch; left without a commit, it leaves nothing behind that anybody would read."""

    def __init__(
        self,
        config: Config,
        spark: SparkSession,
        number: int,
        *,
        final: bool,
        progress: Progress | None = None,
        identities: Identities | None = None,
    ) -> None:
        self.config, self.spark, self.number, self.final = config, spark, number, final
        self.identities: Final = identities or Identities()
        self.output: Final = Output(config.output)
        self.last: Final = self.output.last()
        """The commit before this one; None where this is the first."""
        self.attempt: Final = Attempt(self.output, number)
        self.now_us: Final = self.output.clock(number) or time.time_ns() // 1_000
        self._progress = progress or Progress()
        self._clock = _Clock(number, self._progress)
        self._persisted: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.standing = None
        for frame in self._persisted:
            frame.unpersist()

    def at(self, stage: str) -> None:
        """Begin a stage, for the clock and for observers."""
        self._clock.turn(stage)

    def persist(self, frame: Any) -> Any:
        """The same, computed once, until the work is done."""
        persisted = frame.persist()
        self._persisted.append(persisted)
        return persisted

    @property
    def before(self) -> Manifest:
        """The commit before this one, or an empty one."""
        return self.last or NOTHING_YET

    # -- what it begins with -------------------------------------------------------------------------------

    def look(self, rows: DataFrame) -> Seen:
        """Read the rows; PipelineError where more were rejected than the pipeline allows."""
        return self.heed(Seen.of(rows), rows)

    def heed(self, seen: Seen, rows: DataFrame) -> Seen:
        """Accept the result of a scan. PipelineError if more rows were rejected than the pipeline allows."""
        self._clock.count(seen.read + seen.rejected)
        if self.config.rejected.is_exceeded(seen.rejected, seen.read + seen.rejected):
            first = rejected(rows).orderBy("file", "line").first()
            assert first is not None
            rows_of = "1 row" if seen.rejected == 1 else f"{seen.rejected:,} rows"
            raise PipelineError(
                f"{Location(as_path(first.file or first.source), first.line)}: rejected: {first.reason}",
                hint=f"{rows_of} of the {seen.read + seen.rejected:,} of this batch cannot be read; "
                'rejected = "keep" sets such rows aside',
            )
        if seen.ahead:  # should the batch be repeated, the same rows are
            self.output.keep_clock(self.number, self.now_us)
        return seen

    def not_ahead(self, rows: DataFrame) -> DataFrame:
        """The rows, with those rejected that lie too far ahead of the clock and would move the watermark there."""
        return not_ahead(rows, self.now_us, self.config.order.ahead_us)

    def check_late(self, outcomes: Outcomes, seen: Seen) -> None:
        """PipelineError where more rows are late than the pipeline allows; nothing of the batch is delivered."""
        late, behind_us = outcomes["late"], outcomes.late_by_us
        if self.config.order.late.is_exceeded(late, seen.read):
            wanted = format_duration(behind_us + self.config.order.lateness_us)
            raise PipelineError(
                f"{late:,} of the {seen.read:,} rows of this batch are late",
                hint=f'lateness = "{wanted}" would have waited for them; [order] late = "keep" sets them aside',
            )

    def bounds(self, seen: Seen) -> Bounds:
        """The move of the watermark; the final batch moves it past everything.

        It stays where the batch ends between files with the same time of change: the next ones may be earlier.
        """
        known = {**dict.fromkeys((each.name for each in self.config.events), BEGINNING), **self.before.newest}
        newest, bound = watermark_of(known, seen.newest, self.config.order.lateness_us, self.config.idle_us)
        if self.final:
            return Bounds(newest, END)
        if self.config.mode == "stream" and is_within_a_tie(self.config, self.output.checkpoint, self.number):
            bound = self.before.watermark
        return Bounds(newest, max(bound, self.before.watermark))

    def state(self) -> OrderState | None:
        """The state of the order that the batch before has left."""
        if self.last is None:
            return None
        held, last = (self._table(name) for name in ("held", "last"))
        remembered = self.remembered(self.last.remembered)
        return OrderState(held, last, self.last.watermark, Facts(**self.last.held), remembered)

    def remembered(self, segments: Sequence[Segment]) -> DataFrame | None:
        """The identities in tables that earlier batches have left."""
        if not segments:
            return None
        return self.spark.read.parquet(*map(self.output.remembered, segments))

    def ordered(self, rows: DataFrame, seen: Seen, bounds: Bounds) -> tuple[Ordered, Outcomes]:
        """The outcome of each notification; copies that are in conflict take a second pass."""
        ordered = self.persist(
            order(
                notifications(rows),
                self.state(),
                bounds.watermark,
                seen.facts,
                few=self.orders_at_once(seen),
                remember_us=self.config.order.remember_us,
            )
        )
        outcomes = Outcomes.of(ordered)
        if outcomes[DOUBTFUL]:
            ordered = self.persist(ordered.settled())
            outcomes = Outcomes.of(ordered)
        return ordered, outcomes

    def decided(self, released: DataFrame, demand: Demand, bounds: Bounds) -> Decided | None:
        """The decisions of scopes with mappings, policies and rules about the released notifications; None if
        scopes are filters alone, or there are none."""
        scopes, subscriptions = demand.scopes, demand.subscriptions
        if scopes is None or scopes.opened.is_filters_only:
            return None
        states = "" if self.last is None else self.output.state_text(self.last.batch, POLICIES)
        moved = None if self.last is None else self._table(WAITING)
        found = decided(
            released,
            subscriptions,
            scopes,
            states=states,
            moved=moved,
            since=self.before.watermark,
            bound=bounds.watermark,
        )
        made: Decided = self.persist(found)
        return made

    def beside(self, demand: Demand) -> Beside | None:
        """The scopes that patterns have beside them, if there are both."""
        if demand.scopes is None or not demand.patterns:
            return None
        targets = targets_of(self.spark, demand.subscriptions)
        return Beside(demand.scopes, targets, self.before.watermark)

    def in_progress(self) -> DataFrame | None:
        """The partial matches that the batch before has left."""
        return None if self.last is None else self._table(PROGRESS)

    def _table(self, name: str) -> DataFrame | None:
        number = self.before.batch
        if not self.output.has_state(number, name):
            return None
        return self.spark.read.parquet(self.output.state(number, name))

    def state_size(self, name: str) -> int:
        """The size on disk of a table of the state that the batch before has left, in bytes."""
        return sum(size for _, size in self.output.state_files(self.before.batch, name))

    def state_table(self, name: str, schema: pa.Schema) -> pa.Table:
        """A table of that state, here; empty where there is none."""
        from pyarrow import parquet

        tables = [
            parquet.read_table(self.output.root.open(file), columns=schema.names).cast(schema)
            for file, _ in self.output.state_files(self.before.batch, name)
        ]
        return pa.concat_tables([schema.empty_table(), *tables])

    def remembered_in(self, segment: Segment) -> pa.Table:
        """The identities in a table that an earlier batch has left, here."""
        from pyarrow import parquet

        files = self.output.remembered_files(segment)
        tables = [parquet.read_table(self.output.root.open(file)).cast(REMEMBERED) for file in files]
        return pa.concat_tables([REMEMBERED.empty_table(), *tables])

    def remembered_since(self, bound: int) -> int:
        """The least time of identities that are remembered at a bound."""
        return max(bound - self.config.order.remember_us, BEGINNING)

    def has_few(self, seen: Seen) -> bool:
        """Whether one task finds what patterns mean sooner than many would."""
        counts = self.before.counts
        return seen.read + counts.held + counts.in_progress <= FEW_ROWS

    def orders_at_once(self, seen: Seen) -> bool:
        """Whether one task puts the rows in order sooner than many would.

        Where there are neither numbers nor causes nor equal records, nothing but copies has to be found, and all
        cores look for these.
        """
        facts = seen.facts | Facts(**self.before.held) if self.before.held else seen.facts
        plain = not (facts.has_sequences or facts.has_causes or facts.has_digests)
        return seen.read + self.before.counts.held <= (FEW_ROWS if plain else ORDERED_AT_ONCE)

    @staticmethod
    def count_composites(detected: Detected) -> tuple[Detected, Composites]:
        """Detect composites; returns the number of them, and of partial matches.

        What was found comes back as it came, except that of few rows many composites can be made.
        """
        if not detected.levels:
            return detected, Composites()
        is_composite = F.col("automaton").isNull().alias("is_composite")
        counted = dict(map(tuple, detected.counted.groupBy(is_composite).count().collect()))
        composites = Composites(counted.get(True, 0), counted.get(False, 0))
        return replace(detected, few=detected.few and composites.detected <= FEW_ROWS), composites

    # -- its end -------------------------------------------------------------------------------------------

    def commit(
        self,
        *,
        demand: Demand,
        seen: Seen,
        bounds: Bounds,
        outcomes: Outcomes,
        composites: Composites,
        written: Written,
    ) -> Manifest:
        """The batch is there."""
        patterns = ""
        if self.config.patterns is not None:
            patterns = self.output.keep_patterns(demand.patterns.dump())
        rows = {**written.rows, "access": self._write_decisions(demand)}
        channels = [
            name
            for name in CHANNELS
            if rows.get(name) and (name != "deliveries" or self.config.deliveries.format in FILES)
        ]
        manifest = Manifest(
            batch=self.number,
            counts=Counts(
                read=seen.read + seen.rejected,
                rejected=seen.rejected,
                refused=len(demand.rejections),
                duplicates=outcomes["duplicate"],
                conflicts=outcomes["conflict"],
                late_by_us=outcomes.late_by_us,
                late=outcomes["late"],
                released=outcomes["released"],
                held=outcomes["held"],
                deliveries=written.rows.get("deliveries", 0),
                composites=composites.detected,
                in_progress=composites.in_progress,
                published=written.published,
                own=seen.own,
            ),
            watermark=bounds.watermark,
            newest=bounds.newest,
            final=self.final,
            subscriptions=demand.subscriptions.to_json(),
            patterns=patterns,
            **self.output.taking(self.before, demand.files),
            held=asdict(written.held or Facts(False, False, False)),
            remembered=written.remembered,
            channels=tuple(channels),
            columns=outcomes.columns,
            reasons=written.reasons,
            seconds=self._clock.elapsed,
            stages=self._clock.laps,
            finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        self.attempt.commit(manifest)
        if self.before.remembered:
            self.output.sweep_remembered(self.before, manifest)
        if self.config.watched:
            self.sweep(demand, patterns)
        return manifest

    def _write_decisions(self, demand: Demand) -> int:
        """Write what the access policy decided about the subscriptions that the batch has read; how many."""
        if demand.gate is None or not demand.gate.lines:
            return 0
        with self.attempt.create("access/part-00000.jsonl") as file:
            file.write(demand.gate.written(self.number, self.now_us))
        return len(demand.gate.lines)

    def sweep(self, demand: Demand, patterns: str = "") -> None:
        """Remove compiled subscriptions that neither this batch nor the one before uses: a reader may still have
        those.

        Only as the last one: another run may have gone on where this one was believed dead, to the next batch or
        into the midst of it.
        """
        following = self.number + 1
        if self.output.is_committed(following) or self.output.plan(following) is not None:
            return
        live_files = demand.subscriptions.live_files
        if self.last is not None:
            schema, index = demand.subscriptions.schema, self.output.index.uri
            live_files |= Subscriptions.from_json(self.last.subscriptions, index, schema=schema).live_files
        for name in set(self.output.index.names()) - live_files:
            self.output.index.delete_file(name)
        self.output.sweep_patterns({self.before.patterns, patterns})
