"""The jobs of the pipeline benchmark on one Spark session: M1 against a join, the whole pipeline, and a
stream.

    a job's speed counts    iff    its pairs are those of the conditions, tested one by one

Rounds go around: each contender once, then each once more, so that a busy minute of the machine hits all alike.
Before a round is timed the contender is given a few rows, and one round is not counted: what is paid once, such as
compiling Spark's plans and opening an index in a worker, is told apart as start-up.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from math import ceil
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow import parquet as pq

from fairlead.errors import FairleadError
from fairlead_lab.bench import harness
from fairlead_lab.bench.cores import Round, timed
from fairlead_lab.bench.runner import Spread, spread_of
from fairlead_lab.bench.tables import brief
from fairlead_lab.matching.shapes import CATEGORIES, MEASURES, SHAPES, VALUES

__all__ = [
    "FAIRLEAD",
    "GROWTH_MAX",
    "HASHES",
    "LARGE_N",
    "LOOP",
    "LOOP_N",
    "M1",
    "NEXT_N",
    "PARTS",
    "Index",
    "Job",
    "Pace",
    "Plan",
    "Sampled",
    "Workload",
    "expected_pairs",
    "latencies",
    "measure_m1",
    "measure_sample",
    "measure_stream",
    "notifications",
    "oracle_rows",
    "startup",
]

FAIRLEAD, LOOP, HASHES = "fairlead", "nested loop", "hash joins"
TEXTS: Final = tuple(f"c{each}" for each in range(CATEGORIES))
NUMBERS: Final = tuple(f"x{each}" for each in range(MEASURES))
FEW: Final = 200
"""So many rows wake a contender before it is timed."""
CHUNK: Final = 20_000
ORACLE_ROWS: Final = 2_000
ORACLE_TESTS: Final = 20_000_000
Tell = Callable[[str], None]
Pair = tuple[str, str]


PARTS: Final = ("match", "batch", "floor", "scopes", "stream")
LOOP_N: Final = 10_000
NEXT_N: Final = 100_000
LARGE_N: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Plan(harness.Plan):
    """The measurements to make; in a short plan, fixed costs show in the figures."""

    HASTY: ClassVar = {
        "rows": 300_000,
        "loop_rows": 2_000,
        "rounds": 2,
        "events": 30_000,
        "sample_rounds": 1,
        "stream_rates": (1_000, 5_000),
        "stream_s": 20.0,
    }

    parts: tuple[str, ...] = PARTS
    sizes: tuple[int, ...] = (LOOP_N, NEXT_N)
    large: bool = False
    """Also a million subscriptions, and a whole pipeline with a million events."""
    rows: int = 2_000_000
    """Notifications; with fewer, what a query costs in any case would show."""
    loop_n: int = LOOP_N
    loop_rows: int = 8_000
    """Notifications for the join. Its cost is a number of tests for each, so more would not change its rate."""
    rounds: int = 5
    events: int = 200_000
    subscriptions: int = 10_000
    sample_rounds: int = 3
    large_events: int = LARGE_N
    large_subscriptions: int = NEXT_N
    stream_n: int = 10_000
    stream_rates: tuple[int, ...] = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
    files_per_s: float = 4.0
    stream_s: float = 30.0

    def matched(self) -> list[tuple[int, int]]:
        """Numbers of subscriptions, each with the notifications for it; a million finds ten for each."""
        sizes = dict.fromkeys((*self.sizes, *((LARGE_N,) if self.large else ())))
        return [(n, self.rows if n < LARGE_N else max(1, self.rows // 4)) for n in sorted(sizes)]


# -- the workload ------------------------------------------------------------------------------------------


def notifications(start: int, stop: int) -> pa.Table:
    """M1's notifications with the ids from `start` up to `stop`, drawn column by column."""
    count = stop - start
    rng = np.random.default_rng(start)
    values = pa.array([f"v{each}" for each in range(VALUES)])
    columns = {"id": pc.cast(pa.array(np.arange(start, stop)), pa.string())}
    columns |= {name: values.take(pa.array(rng.integers(0, VALUES, count))) for name in TEXTS}
    columns |= {name: pa.array(rng.random(count)) for name in NUMBERS}
    return pa.table(columns)


def expected_pairs(rows: pa.Table, conditions: pa.Table) -> set[Pair]:
    """The pairs of some notifications, each held against every row of conditions: the oracle."""
    found: set[Pair] = set()
    ids = conditions.column("subscription")
    for row in rows.to_pylist():
        passing = pa.array(np.ones(len(ids), np.bool_))
        for name, test in (
            *((f"{each}_is", pc.equal) for each in TEXTS),
            *((f"{each}_from", pc.less_equal) for each in NUMBERS),
            *((f"{each}_to", pc.greater_equal) for each in NUMBERS),
        ):
            holds = test(conditions.column(name), row[name.partition("_")[0]])
            passing = pc.and_(passing, pc.fill_null(holds, True))
        found |= {(row["id"], subscription) for subscription in ids.filter(passing).to_pylist()}
    return found


def oracle_rows(n: int) -> int:
    """The number of notifications that the oracle can look at: with many subscriptions, few."""
    return max(2, min(ORACLE_ROWS, ORACLE_TESTS // n))


@dataclass(slots=True)
class Workload:
    """M1 on disk: notifications in Parquet, and for each n subscriptions as Fairlead and as a join take them."""

    directory: Path
    rows: int
    tables: dict[int, str] = field(default_factory=dict)
    """The tables that have the notifications with ids below a number."""

    def upto(self, count: int) -> str:
        """The first so many notifications, in files enough for every core: Spark does not split small ones."""
        if count not in self.tables:
            directory = self.directory / f"notifications-{count}"
            directory.mkdir(parents=True)
            # All are drawn at once, so that fewer are the first of more.
            table = self.first(count) if count < self.rows else notifications(0, count)
            files = min(count, 2 * (os.cpu_count() or 1))
            bounds = [count * each // files for each in range(files + 1)]
            for number, (low, high) in enumerate(pairwise(bounds)):
                pq.write_table(table.slice(low, high - low), directory / f"{number:04}.parquet")
            self.tables[count] = str(directory)
        return self.tables[count]

    def first(self, count: int) -> pa.Table:
        """The first so many notifications, here."""
        return pq.read_table(self.upto(self.rows)).slice(0, count)

    def subscriptions(self, n: int) -> str:
        """n subscriptions as JSON lines; their conditions lie beside them."""
        path = self.directory / f"subscriptions-{n}.jsonl"
        if not path.exists():
            self._write_subscriptions(n, path)
        return str(path)

    def conditions(self, n: int) -> str:
        """The conditions of n subscriptions, in Parquet."""
        self.subscriptions(n)
        return str(self.directory / f"conditions-{n}.parquet")

    def _write_subscriptions(self, n: int, path: Path) -> None:
        from fairlead_lab.spark.baseline import conditions_of, conditions_schema

        schema = conditions_schema(TEXTS, NUMBERS)
        given = ((f"s{number}", filter) for number, filter in enumerate(SHAPES["M1"].filters(n, Random(1))))
        with (
            open(path, "w", encoding="utf-8") as lines,
            pq.ParquetWriter(self.directory / f"conditions-{n}.parquet", schema) as conditions,
        ):
            while chunk := list(islice(given, CHUNK)):
                lines.writelines(f"{json.dumps({'id': id, 'filter': str(filter)})}\n" for id, filter in chunk)
                conditions.write_table(conditions_of(chunk, schema))


# -- start-up ----------------------------------------------------------------------------------------------


def startup(spark: Any, subscriptions: Any, few: str) -> dict[str, float]:
    """Seconds of what is paid once in a session: its first query, a worker's first match and the one after."""
    from fairlead.spark.matching import match

    found = {"first query": _seconds(spark.range(10).count)}
    for name in ("first match, in fresh workers", "the same again"):
        found[name] = _seconds(lambda: match(spark.read.parquet(few), subscriptions).count())
    return found


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


# -- M1 ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """One contender on one number of subscriptions, from Parquet to pairs in Parquet."""

    contender: str
    n: int
    rows: int
    pairs: int
    rounds: tuple[Round, ...]

    @property
    def rate(self) -> Spread:
        """Notifications per second."""
        return spread_of([self.rows / each.seconds for each in self.rounds])

    @property
    def cpu_us_each(self) -> float | None:
        """The time of cores that a notification takes."""
        used = [each.cpu_s for each in self.rounds if each.cpu_s is not None]
        return statistics.median(used) / self.rows * 1e6 if used else None

    @property
    def cores(self) -> float | None:
        """The number of cores at work."""
        used = [each.cpu_s / each.seconds for each in self.rounds if each.cpu_s is not None]
        return statistics.median(used) if used else None


@dataclass(frozen=True, slots=True)
class Index:
    """Compiled subscriptions."""

    n: int
    compile_s: float
    """To read them as JSON lines, parse and compile them."""
    size: int
    """In bytes, as a worker maps it."""


class M1(NamedTuple):
    """The results on M1, and the differences from what they must be."""

    jobs: list[Job]
    indexes: list[Index]
    startup: dict[str, float]
    problems: list[str]


@dataclass(slots=True)
class _Contender:
    name: str
    n: int
    rows: int
    frame: Callable[[str], Any]
    """The pairs of the notifications at a path."""
    rounds: list[Round] = field(default_factory=list)
    written: Path | None = None


def measure_m1(spark: Any, plan: Plan, load: Workload, tell: Tell) -> M1:
    """M1 from Parquet to pairs, Fairlead beside the join."""
    from fairlead.spark.matching import match, pairs
    from fairlead.spark.subscriptions import Subscriptions, SubscriptionsInput
    from fairlead_lab.spark.baseline import hash_joins, nested_loop

    few = load.upto(min(FEW, load.rows))
    contenders, indexes = [], []
    starting: dict[str, float] = {}

    def fairlead(compiled: Subscriptions) -> Callable[[str], Any]:
        return lambda path: pairs(match(spark.read.parquet(path), compiled)).select("id", "subscription")

    def join(path: str) -> Any:
        return nested_loop(spark.read.parquet(path), spark.read.parquet(load.conditions(plan.loop_n)))

    def hashed(n: int) -> Callable[[str], Any]:
        return lambda path: hash_joins(spark.read.parquet(path), spark.read.parquet(load.conditions(n)))

    contenders.append(_Contender(LOOP, plan.loop_n, min(plan.loop_rows, plan.rows), join))
    for n, rows in plan.matched():
        given = SubscriptionsInput(load.subscriptions(n))
        started = time.perf_counter()
        compiled = Subscriptions.read(given, load.directory / "index")
        indexes.append(Index(n, time.perf_counter() - started, compiled.size))
        tell(
            f"{n:,} subscriptions compiled in {indexes[-1].compile_s:.1f} s, {compiled.size / n:,.0f} B each"
        )
        contenders.append(_Contender(FAIRLEAD, n, rows, fairlead(compiled)))
        if n <= NEXT_N:
            contenders.append(_Contender(HASHES, n, rows, hashed(n)))
        starting = starting or startup(spark, compiled, few)

    for number in range(plan.rounds + 1):
        for each in contenders:
            taken = _timed(each, load, few, number)
            counted = "" if number else ", not counted"
            tell(f"{each.name}, n = {each.n:,}: {each.rows / taken.seconds:,.0f} rows/s{counted}")
            if number:
                each.rounds.append(taken)
    jobs = [_job(spark, each) for each in contenders]
    return M1(jobs, indexes, starting, _differences(spark, load, contenders))


def _timed(contender: _Contender, load: Workload, few: str, number: int) -> Round:
    """A round: a few rows to wake up, then all of them, with the clock running."""
    rows = load.upto(contender.rows)
    contender.frame(few).count()
    if contender.written is not None:
        shutil.rmtree(contender.written)
    contender.written = load.directory / f"pairs-{contender.name}-{contender.n}-{number}"
    return timed(lambda: contender.frame(rows).write.parquet(str(contender.written)))


def _job(spark: Any, contender: _Contender) -> Job:
    found = spark.read.parquet(str(contender.written)).count()
    return Job(contender.name, contender.n, contender.rows, found, tuple(contender.rounds))


def _differences(spark: Any, load: Workload, contenders: Sequence[_Contender]) -> list[str]:
    """The differences of pairs from the oracle's, and of Fairlead's from the join's on the rows that both
    did.
    """
    problems: list[str] = []
    joined = next((each for each in contenders if each.name == LOOP), None)
    for each in contenders:
        count = min(each.rows, oracle_rows(each.n))
        wanted = expected_pairs(load.first(count), pq.read_table(load.conditions(each.n)))
        problems += _compared(
            f"{each.name}, n = {each.n:,}", _pairs(spark, each, count), wanted, "the oracle"
        )
        if joined is not None and each is not joined and each.n == joined.n:
            both = min(each.rows, joined.rows)
            found, joint = _pairs(spark, each, both), _pairs(spark, joined, both)
            problems += _compared(f"{each.name}, n = {each.n:,}", found, joint, "the join")
    return problems


def _pairs(spark: Any, contender: _Contender, count: int) -> list[Pair]:
    return _below(spark.read.parquet(str(contender.written)), count)


def _below(pairs: Any, count: int) -> list[Pair]:
    """The pairs of the first so many notifications."""
    found = pairs.where(f"cast(id as bigint) < {count}").select("id", "subscription").collect()
    return [(row[0], row[1]) for row in found]


def _compared(
    who: str, found: Sequence[Pair], wanted: Sequence[Pair] | set[Pair], whose: str
) -> Iterator[str]:
    if sorted(found) != sorted(wanted):
        missing, more = set(wanted) - set(found), set(found) - set(wanted)
        twice = len(found) - len(set(found))
        yield f"{who}: {len(missing)} pairs of {whose} are missing, {len(more)} are not there, {twice} come twice"


# -- the whole pipeline ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sampled:
    """The demo's sample through a pipeline in batch mode, some times."""

    rows: int
    subscriptions: int
    deliveries: int
    stages: dict[str, tuple[float, ...]]
    """Seconds of each stage, once per round; the audit and the report stand last."""
    first_s: float
    """The whole of a first run, which is not counted."""

    def each(self, stage: str | None) -> Sequence[float]:
        """Seconds of a stage, or of all together, once per round."""
        if stage is None:
            return [sum(each) for each in zip(*self.stages.values(), strict=True)]
        return self.stages[stage]

    def seconds(self, stage: str | None = None) -> Spread:
        return spread_of(self.each(stage))


AFTERWARDS: Final = "audit, report"


def measure_sample(spark: Any, plan: Plan, directory: Path, tell: Tell) -> tuple[Sampled, list[str]]:
    """The demo's sample, whole, in batch mode; and what was not as it must be."""
    from fairlead.spark.config import Config
    from fairlead.spark.running import Pipeline
    from fairlead.spark.sample import write_sample

    sample = write_sample(directory / "sample", events=plan.events, subscriptions=plan.subscriptions)
    config = replace(Config.read(sample.pipeline), mode="batch")
    stages: dict[str, list[float]] = {}
    problems: list[str] = []
    deliveries: set[int] = set()
    first_s, rows = 0.0, 0
    for number in range(plan.sample_rounds + 1):
        output = directory / f"sample-{number}"
        pipeline = Pipeline(replace(config, output=str(output)), spark)
        summary = pipeline.run()
        manifest = pipeline.output.manifest(0)
        rows = manifest.counts.read
        deliveries.add(summary.deliveries)
        tell(
            f"the sample in batch mode: {rows / summary.seconds:,.0f} rows/s{'' if number else ', not counted'}"
        )
        if number:
            laps = {**manifest.stages, AFTERWARDS: summary.seconds - sum(manifest.stages.values())}
            for stage, seconds in laps.items():
                stages.setdefault(stage, []).append(seconds)
        else:
            first_s = summary.seconds
        told = (rows, summary.duplicates, summary.rejected, sorted(set(summary.verdicts.values())))
        wanted = (
            plan.events + sample.duplicates + sample.broken,
            sample.duplicates,
            sample.broken,
            ["holds"],
        )
        if told != wanted:
            problems.append(f"the sample: rows, duplicates, rejected and verdicts are {told}, not {wanted}")
        shutil.rmtree(output)
    if len(deliveries) > 1:
        problems.append(
            f"the sample: the same input gave different numbers of deliveries: {sorted(deliveries)}"
        )
    found = Sampled(
        rows,
        plan.subscriptions,
        max(deliveries),
        {name: tuple(each) for name, each in stages.items()},
        first_s,
    )
    return found, problems


# -- a stream ----------------------------------------------------------------------------------------------

GROWTH_MAX: Final = 0.1
"""Latency that grows by more than this, in seconds per second, shows a stream that falls behind."""
BEGINNING_US: Final = 1_700_000_000_000_000
POLL_S: Final = 0.005
PATIENCE_S: Final = 120.0
DRAIN_S_MIN: Final = 10.0


@dataclass(frozen=True, slots=True)
class Pace:
    """A stream at one rate: files that appear at fixed intervals, and how long each took to be delivered."""

    rows_per_s: int
    files_per_s: float
    rows: int
    batches: int
    latency_s: tuple[float, ...]
    """From the rename of each file to the commit of its batch, in the order of the renames."""
    unfinished: int = 0
    """Files that were not committed when the stream had been given as long again, or ten seconds."""
    released: float = 1.0
    """The share of the rows that were delivered with the batch they came in; the others wait for the watermark."""

    @property
    def median_s(self) -> float | None:
        return self._within(0.5)

    @property
    def p99_s(self) -> float | None:
        """So long or shorter it took for 99 files in 100."""
        return self._within(0.99)

    def _within(self, share: float) -> float | None:
        ranked = sorted(self.latency_s)
        return ranked[ceil(share * len(ranked)) - 1] if ranked else None

    @property
    def growth(self) -> float:
        """By how many seconds a second's files are later than those of the second before."""
        if len(self.latency_s) < 2:
            return 0.0
        instants = [number / self.files_per_s for number in range(len(self.latency_s))]
        return statistics.linear_regression(instants, self.latency_s).slope

    @property
    def keeps_up(self) -> bool:
        return self.unfinished == 0 and self.growth <= GROWTH_MAX


def latencies(
    dropped: Sequence[tuple[float, int]], committed: Sequence[tuple[float, int]]
) -> Iterator[float | None]:
    """The time from the appearance of each file to its commit; None for those that are not committed.

    Both are instants with the number of rows up to then. Files are taken in the order in which they appear, so a
    file is committed by the first batch that has as many rows behind it.
    """
    rows = [each for _, each in committed]
    for appeared, upto in dropped:
        directory = bisect_left(rows, upto)
        yield committed[directory][0] - appeared if directory < len(committed) else None


def measure_stream(spark: Any, plan: Plan, load: Workload, tell: Tell) -> tuple[list[Pace], list[str]]:
    """One stream at one rate after the other, until it does not come to an end; and what went wrong."""
    from fairlead.spark.config import Config, Events, Order, Stream, SubscriptionsSource
    from fairlead.spark.matching import pairs
    from fairlead.spark.running import Pipeline

    watched = load.directory / "watched"
    watched.mkdir()
    config = Config(
        name="a stream of M1",
        output=str(load.directory / "stream"),
        events=(Events(str(watched), "json"),),
        subscriptions=SubscriptionsSource(load.subscriptions(plan.stream_n)),
        mode="stream",
        order=Order(0, final=False),
        # A batch begins as soon as the one before is done, and takes all that is there.
        stream=Stream(trigger_us=0, max_files=100_000),
    )
    pipeline = Pipeline(config, spark)
    with _Running(pipeline) as running:
        feed = _Feed(load.directory / "staged", watched, running)
        feed.drop(feed.staged(1, 2), 1.0)
        if not feed.wait(PATIENCE_S):
            raise FairleadError(f"the stream has committed nothing within {PATIENCE_S:.0f} s")
        feed.pace(plan.stream_rates[0], plan.files_per_s, plan.stream_s)  # not counted
        feed.wait(PATIENCE_S)
        paces = []
        for rate in plan.stream_rates:
            pace = feed.pace(rate, plan.files_per_s, plan.stream_s)
            paces.append(pace)
            state = "keeps up" if pace.keeps_up else "falls behind"
            tell(
                f"streaming {rate:,} rows/s: median {brief(pace.median_s)} s, 99% {brief(pace.p99_s)} s, {state}"
            )
            if not feed.wait(PATIENCE_S):
                break
        read = running.commits[-1][1]
    count = min(read - 1, oracle_rows(plan.stream_n))  # the newest waits for one that is newer
    wanted = expected_pairs(feed.first(count), pq.read_table(load.conditions(plan.stream_n)))
    delivered = pipeline.output.read(spark)
    found = [] if delivered is None else _below(pairs(delivered), count)
    problems = [*_compared("the stream", found, wanted, "the oracle")]
    for name in ("rejected", "late", "duplicates"):
        if some := sum(getattr(each.counts, name) for each in pipeline.output.manifests()):
            problems.append(f"the stream: {some:,} rows are {name}")
    return paces, problems


class _Running:
    """A pipeline that runs in a thread of its own, and the commits that it makes."""

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        self._manifests = Path(pipeline.config.output, "_fairlead", "manifests")
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="fairlead-bench-stream", daemon=True)
        self.commits: list[tuple[float, int]] = []
        """When each batch was committed, and how many rows were read up to then."""
        self.released: list[int] = []

    def __enter__(self) -> _Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipeline.stop()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._pipeline.run()
        except BaseException as error:
            self._failure = error

    def look(self) -> None:
        """Take note of the commits since the last look; a failure of the pipeline is raised."""
        if not self._thread.is_alive():
            raise self._failure or FairleadError("the stream has ended by itself")
        output = self._pipeline.output
        for number in output.batches()[len(self.commits) :]:
            counts = output.manifest(number).counts
            read = self.commits[-1][1] if self.commits else 0
            instant = (self._manifests / f"{number:08}.json").stat().st_mtime
            self.commits.append((instant, read + counts.read))
            self.released.append(counts.released)


class _Feed:
    """Files of notifications that appear in a watched directory when they are due, each at once and whole."""

    def __init__(self, staging: Path, watched: Path, running: _Running) -> None:
        staging.mkdir()
        self._staging, self._watched, self._running = staging, watched, running
        self._rows = self._files = 0
        self._tables: list[pa.Table] = []
        self._dropped_rows = 0

    def staged(self, files: int, rows: int) -> deque[tuple[Path, int]]:
        """So many files of so many rows, written but not yet there for the stream."""
        found: deque[tuple[Path, int]] = deque()
        for _ in range(files):
            table = notifications(self._rows, self._rows + rows)
            times = pa.array(range(BEGINNING_US + self._rows, BEGINNING_US + self._rows + rows))
            if sum(map(len, self._tables)) < ORACLE_ROWS:
                self._tables.append(table)
            path = self._staging / f"{self._files:08}.jsonl"
            records = table.append_column("time", times).to_pylist()
            path.write_text("".join(f"{json.dumps(each)}\n" for each in records), encoding="utf-8")
            self._rows, self._files = self._rows + rows, self._files + 1
            found.append((path, rows))
        return found

    def first(self, count: int) -> pa.Table:
        """The first so many notifications of all."""
        return pa.concat_tables(self._tables).slice(0, count)

    def drop(self, files: deque[tuple[Path, int]], files_per_s: float) -> list[tuple[float, int]]:
        """Let files appear at fixed intervals; when each did, and how many rows there were up to then."""
        dropped = []
        started = time.perf_counter()
        for number, (path, rows) in enumerate(files):
            while (left := started + number / files_per_s - time.perf_counter()) > 0:
                time.sleep(min(left, POLL_S))
            self._dropped_rows += rows
            dropped.append((time.time(), self._dropped_rows))
            path.rename(self._watched / path.name)
        return dropped

    def wait(self, limit_s: float) -> bool:
        """Wait until all that has appeared is committed, or the time is over; whether all is."""
        deadline = time.monotonic() + limit_s
        self._running.look()
        while time.monotonic() < deadline and not self._is_done():
            time.sleep(POLL_S)
            self._running.look()
        return self._is_done()

    def _is_done(self) -> bool:
        commits = self._running.commits
        return bool(commits) and commits[-1][1] >= self._dropped_rows

    def pace(self, rate: int, files_per_s: float, length_s: float) -> Pace:
        """The stream at a rate for some time, and for as long again to come to an end."""
        rows = max(1, round(rate / files_per_s))
        before = len(self._running.commits)
        dropped = self.drop(self.staged(max(1, round(length_s * files_per_s)), rows), files_per_s)
        self.wait(max(length_s, DRAIN_S_MIN))
        commits, released = self._running.commits, sum(self._running.released[before:])
        found = list(latencies(dropped, commits))
        done = [each for each in found if each is not None]
        taken = rows * len(done)
        return Pace(
            rate,
            files_per_s,
            rows * len(dropped),
            len(commits) - before,
            tuple(done),
            unfinished=len(found) - len(done),
            released=min(1.0, released / taken) if taken else 0.0,
        )
