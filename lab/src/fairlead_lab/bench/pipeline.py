"""The pipeline benchmark: matching on Spark against a join, a whole pipeline in batch, and a stream under load.

All of it runs in one session, on the machine's own cores, with what Spark has by default. A ratio is one of two
figures of the same round; absolute numbers stand beside it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from fairlead_lab.bench import harness
from fairlead_lab.bench.floor import AUDITED, FLOOR, GOALS, LARGE, LARGE_S, Floor, measure_floor
from fairlead_lab.bench.goals import Goal, at_least, at_most
from fairlead_lab.bench.harness import ReportLine, line_of, spark_session
from fairlead_lab.bench.jobs import (
    FAIRLEAD,
    HASHES,
    LARGE_N,
    LOOP,
    LOOP_N,
    NEXT_N,
    PARTS,
    Index,
    Job,
    Pace,
    Plan,
    Sampled,
    Workload,
    measure_m1,
    measure_sample,
    measure_stream,
)
from fairlead_lab.bench.runner import Spread, Stopped, fresh, machine, spread_of
from fairlead_lab.bench.scoping import (
    GRAPHS,
    INTERFACES,
    MAPPED,
    MAPPINGS,
    OPEN,
    TIMES,
    UNSCOPED,
    GraphCost,
    Scoped,
    measure_graph,
    measure_scopes,
)
from fairlead_lab.bench.tables import Grid, brief, shown, sized
from fairlead_lab.plotting import COLOURS, GREY, Bar, Line, Panel

__all__ = ["PARTS", "Plan", "Report", "run"]

LOOP_TIMES: Final = 300
NEXT_TIMES: Final = 100
HASHES_TIMES: Final = {LOOP_N: 1, NEXT_N: 3}
COMPILE_S: Final = 30
STREAM_RATE: Final = 50_000
PACED: Final = 10_000
"""The rate at which the latency of a stream is a goal."""
MEDIAN_S, P99_S = 1, 2


# -- running -----------------------------------------------------------------------------------------------


def run(plan: Plan, tell: ReportLine, spark: Any = None) -> Report:
    """Measure what a plan says in a session, a new one unless one is given; `tell` gets a line for every step."""
    report = Report(machine(), asdict(plan))
    if (kernels := _kernels()) is not None:
        report.startup["kernels, loaded by a process"] = kernels
    started = time.perf_counter()
    with spark_session(report, spark) as (running, directory):
        if spark is None:
            report.startup["session"] = time.perf_counter() - started
            tell(f"Spark started in {report.startup['session']:.1f} s")
        _measure(plan, running, directory, report, tell)
    return report


def _measure(plan: Plan, spark: Any, directory: Path, report: Report, tell: ReportLine) -> None:
    load = Workload(directory, plan.rows)
    if "match" in plan.parts:
        tell(f"drawing {plan.rows:,} notifications, and subscriptions")
        found = measure_m1(spark, plan, load, tell)
        report.jobs, report.indexes = found.jobs, found.indexes
        report.startup |= found.startup
        report.problems += found.problems
    if "batch" in plan.parts:
        report.sampled, problems = measure_sample(spark, plan, directory, tell)
        report.problems += problems
    if "floor" in plan.parts:
        report.floors, problems = measure_floor(spark, plan, directory, tell)
        report.problems += problems
    if "scopes" in plan.parts:
        for size, fanout in GRAPHS:
            report.graphs.append(measure_graph(size, fanout))
            tell(f"scopes: a graph of {size:,}, built in {report.graphs[-1].build_s:.1f} s")
        report.scoped, problems = measure_scopes(spark, plan, directory, tell)
        report.problems += problems
    if "stream" in plan.parts:
        report.paces, problems = measure_stream(spark, plan, load, tell)
        report.problems += problems


def _kernels() -> float | None:
    """Seconds to the first answer in a process of its own; it also leaves the kernels compiled on the disk."""
    try:
        fresh("fairlead_lab.bench.cell", {"kernels": True}, 900.0)
        return float(fresh("fairlead_lab.bench.cell", {"kernels": True}, 900.0))
    except Stopped:
        return None


# -- what it says ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Report(harness.Report):
    """The figures of a run, and what follows from them."""

    NAME = "pipeline"
    TITLE = "On Spark"

    startup: dict[str, float] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)
    indexes: list[Index] = field(default_factory=list)
    sampled: Sampled | None = None
    floors: list[Floor] = field(default_factory=list)
    graphs: list[GraphCost] = field(default_factory=list)
    scoped: Scoped | None = None
    paces: list[Pace] = field(default_factory=list)

    def job(self, contender: str, n: int) -> Job | None:
        return next((each for each in self.jobs if (each.contender, each.n) == (contender, n)), None)

    def times(self, job: Job, other: Job | None = None) -> Spread | None:
        """The factor between the throughput of a job and that of another one, by default the join, round by
        round.
        """
        loop = other or self.job(LOOP, self.settings["loop_n"])
        if loop is None:
            return None
        return spread_of(
            [
                (job.rows / own.seconds) / (loop.rows / other.seconds)
                for own, other in zip(job.rounds, loop.rounds, strict=True)
            ]
        )

    @property
    def sustained(self) -> int | None:
        """The highest rate at which the stream kept up."""
        return max((each.rows_per_s for each in self.paces if each.keeps_up), default=None)

    def goals(self) -> Iterator[Goal]:
        """The goals, each beside what was measured; only figures that the goal is about count."""
        comparable = self.settings["loop_n"] == LOOP_N
        for n, asked in ((LOOP_N, LOOP_TIMES), (NEXT_N, NEXT_TIMES)):
            job = self.job(FAIRLEAD, n)
            times = self.times(job) if job is not None and comparable else None
            what = f"n = {sized(n)}, against the join at {sized(LOOP_N)}"
            yield at_least("M1", what, asked, times.median if times else None, "×")
        for n, asked in HASHES_TIMES.items():
            job, hashes = self.job(FAIRLEAD, n), self.job(HASHES, n)
            times = None if job is None or hashes is None else self.times(job, hashes)
            what = f"n = {sized(n)}, against a union of hash joins"
            yield at_least("M1", what, asked, times.median if times else None, "×")
        large, smaller = self.job(FAIRLEAD, LARGE_N), self.job(FAIRLEAD, NEXT_N)
        rate = "not measured" if large is None else f"{brief(large.rate.median)} rows/s"
        yield Goal("M1", f"n = {sized(LARGE_N)}", "completes", rate, None if large is None else True)
        growth = None
        if large is not None and smaller is not None and smaller.pairs:
            cost = smaller.rate.median / large.rate.median
            growth = cost / ((large.pairs / large.rows) / (smaller.pairs / smaller.rows))
        what = f"growth of cost against growth of matches, {sized(NEXT_N)} to {sized(LARGE_N)}"
        yield at_most("M1", what, 1, growth, "")
        compiled = next((each.compile_s for each in self.indexes if each.n == LARGE_N), None)
        yield at_most("M1", f"compiling {sized(LARGE_N)} from JSON lines", COMPILE_S, compiled, " s")
        yield from self._floor_goals()
        if self.scoped is not None:
            for kind in (OPEN, INTERFACES, MAPPINGS, MAPPED):
                times = self.scoped.times(kind)
                what = f"{kind}: a pipeline with scopes against one without, warm"
                yield at_most("scopes", what, TIMES, times.median if times else None, "×")
        if self.paces:
            what = "highest rate that the stream keeps up with"
            yield at_least("stream", what, STREAM_RATE, float(self.sustained or 0), "/s")
        pace = next((each for each in self.paces if each.rows_per_s == PACED), None)
        for what, most, took in (
            ("median", MEDIAN_S, None if pace is None else pace.median_s),
            ("99 in 100", P99_S, None if pace is None else pace.p99_s),
        ):
            yield at_most("stream", f"latency at {PACED:,} rows/s, {what}", most, took, " s")

    def _floor_goals(self) -> Iterator[Goal]:
        for measured in self.floors:
            for contender, most in GOALS.items():
                if contender in measured.rounds:
                    times = measured.times(contender)
                    what = f"{measured.workload}: {contender}, against the floor, warm"
                    yield at_most("pipeline", what, most, times.median if times else None, "×")
            if measured.workload == LARGE:
                warm = [each.seconds for each in measured.rounds[AUDITED][1:]]
                what = f"{measured.rows:,} events, {measured.subscriptions:,} subscriptions, audited, warm"
                yield at_most("pipeline", what, LARGE_S, spread_of(warm).median if warm else None, " s")

    # -- as tables -----------------------------------------------------------------------------------------

    def tables(self) -> Iterator[Grid]:
        """A table for each part that was measured."""
        if self.jobs:
            yield self._jobs_grid()
            yield self._indexes_grid()
        if self.startup:
            rows = tuple((what, brief(seconds)) for what, seconds in self.startup.items())
            yield Grid("Start-up, paid once", ("what", "s"), rows)
        if self.sampled is not None:
            yield self._sample_grid(self.sampled)
        for each in self.floors:
            yield self._floor_grid(each)
        if self.graphs:
            yield self._graphs_grid()
        if self.scoped is not None:
            yield self._scoped_grid(self.scoped)
        if self.paces:
            yield self._paces_grid()

    def _jobs_grid(self) -> Grid:
        rows = []
        for job in sorted(self.jobs, key=lambda job: job.contender != LOOP):
            times = self.times(job)
            ratio = (
                "–" if times is None else f"{brief(times.median)} [{brief(times.low)}, {brief(times.high)}]"
            )
            hashes = self.job(HASHES, job.n)
            joined = None if hashes is None else self.times(job, hashes)
            by_cores = None
            if hashes is not None and hashes.cpu_us_each and job.cpu_us_each:
                by_cores = hashes.cpu_us_each / job.cpu_us_each
            figures = (
                None if joined is None else joined.median,
                by_cores,
                job.pairs / job.rows,
                job.cpu_us_each,
                job.cores,
            )
            rows.append(
                (
                    sized(job.n),
                    job.contender,
                    f"{job.rows:,}",
                    shown(job.rate),
                    ratio,
                    *map(brief, figures),
                )
            )
        ratio = f"× {LOOP} at {sized(self.settings['loop_n'])}"
        against = (f"× {HASHES}", f"× {HASHES}, in time of cores")
        heads = ("n", "who", "rows", "rows /s", ratio, *against, "pairs each", "CPU µs each", "cores")
        return Grid("M1, from Parquet to pairs in Parquet", heads, tuple(rows), left=frozenset({1}))

    def _indexes_grid(self) -> Grid:
        rows = tuple(
            (sized(each.n), *map(brief, (each.compile_s, each.compile_s / each.n * 1e6, each.size / each.n)))
            for each in self.indexes
        )
        heads = ("n", "read and compiled s", "µs each", "bytes each")
        return Grid("Compiled subscriptions", heads, rows, left=frozenset())

    def _sample_grid(self, sampled: Sampled) -> Grid:
        whole = sampled.seconds()
        rows = []
        for stage in (*sampled.stages, None):
            took = sampled.seconds(stage)
            rates = spread_of([sampled.rows / max(each, 1e-3) for each in sampled.each(stage)])
            share = f"{took.median / whole.median:.0%}"
            rows.append((stage or "all", brief(took.median), share, shown(rates)))
        title = (
            f"The demo's pipeline in batch: {sampled.rows:,} rows, {sampled.subscriptions:,} subscriptions, "
            f"{sampled.deliveries:,} deliveries"
        )
        return Grid(title, ("stage", "s", "share", "rows /s"), tuple(rows))

    def _floor_grid(self, measured: Floor) -> Grid:
        rows = []
        for contender in sorted(measured.rounds, key=lambda each: each != FLOOR):
            warm = measured.rounds[contender][1:] or measured.rounds[contender]
            seconds = spread_of([each.seconds for each in warm])
            times, cpu = (measured.times(contender, cpu) for cpu in (False, True))
            figures = [None if each is None else each.median for each in (times, cpu)]
            rows.append((contender, shown(seconds), *map(brief, (*figures, measured.cold(contender)))))
        title = (
            f"Against the floor, {measured.workload}: {measured.rows:,} JSON lines, "
            f"{measured.subscriptions:,} subscriptions, {measured.deliveries:,} deliveries"
        )
        heads = ("who", "s, warm", f"× {FLOOR}", "× in time of cores", "× cold")
        return Grid(title, heads, tuple(rows))

    def _graphs_grid(self) -> Grid:
        rows = tuple(
            (
                f"{each.scopes:,}",
                f"{each.components:,}",
                str(each.levels),
                brief(each.build_s),
                *(brief(took * 1e6) for took in (each.join_s, each.visible_s, each.first_s, each.again_s)),
            )
            for each in self.graphs
        )
        heads = ("scopes", "components", "levels", "build s", "join µs", "visible µs", "reach µs", "again µs")
        return Grid("Scope graphs, seconds of a core", heads, rows, left=frozenset())

    def _scoped_grid(self, scoped: Scoped) -> Grid:
        rows = []
        for kind, rounds in scoped.rounds.items():
            warm = spread_of([each.seconds for each in rounds[1:] or rounds])
            times, cpu = scoped.times(kind), scoped.times(kind, cpu=True)
            ratio = (
                "–" if times is None else f"{brief(times.median)} [{brief(times.low)}, {brief(times.high)}]"
            )
            cores = None if cpu is None else cpu.median
            rows.append((kind, f"{scoped.deliveries[kind]:,}", shown(warm), ratio, brief(cores)))
        title = (
            f"A pipeline with scopes: {scoped.rows:,} JSON lines, {scoped.subscriptions:,} subscriptions of as "
            "many components"
        )
        heads = ("scopes", "deliveries", "s, warm", f"× {UNSCOPED}", "× in time of cores")
        return Grid(title, heads, tuple(rows))

    def _paces_grid(self) -> Grid:
        rows = tuple(
            (
                f"{each.rows_per_s:,}",
                f"{each.rows:,}",
                f"{each.batches:,}",
                *map(brief, (each.median_s, each.p99_s, each.growth)),
                f"{each.released:.1%}",
                f"{each.unfinished:,}",
                "yes" if each.keeps_up else "no",
            )
            for each in self.paces
        )
        heads = (
            "rows /s",
            "rows",
            "batches",
            "median s",
            "99% s",
            "growth s/s",
            "released",
            "unfinished",
            "keeps up",
        )
        title = (
            f"Streaming M1, n = {sized(self.settings['stream_n'])}, from the rename of a file of JSON lines "
            "to its commit"
        )
        return Grid(title, heads, rows, left=frozenset())

    def notes(self) -> list[str]:
        """The explanation of the figures."""
        settings, lines = self.settings, []
        if self.jobs:
            lines.append(
                f"M1: {settings['rounds']} rounds; the median, and in brackets the quartiles; the join gets "
                f"{settings['loop_rows']:,} rows, and its rate holds for any number of them"
            )
        if self.paces:
            best = "below the lowest tried" if self.sustained is None else f"{self.sustained:,} rows/s"
            lines.append(
                f"streaming: {settings['files_per_s']:g} files per second for {settings['stream_s']:g} s at each "
                f"rate; the highest at which it keeps up is {best}"
            )
        return lines

    def derived(self) -> dict[str, Any]:
        """The highest rate at which the stream kept up."""
        return {"sustained": self.sustained}

    def panels(self) -> Iterator[Panel]:
        """Throughput against a join, stages of a batch, latency of a stream."""
        if self.jobs:
            yield Panel(
                "M1, Parquet to pairs",
                xlabel="subscriptions",
                ylabel="rows per second",
                lines=[
                    self._line("nested loop join", LOOP, GREY),
                    self._line(FAIRLEAD, FAIRLEAD, COLOURS[0], is_chief=True),
                ],
                goals=self._requested_rates(),
            )
        if self.sampled is not None:
            stages = {name: self.sampled.seconds(name).median for name in self.sampled.stages}
            rate = self.sampled.rows / self.sampled.seconds().median
            yield Panel(
                "The demo's pipeline in batch",
                f"{self.sampled.rows:,} rows, {brief(rate)} rows/s",
                "seconds",
                bars=[Bar(name, "", each, text=f"{brief(each)} s") for name, each in stages.items()],
            )
        if paces := [pace for pace in self.paces if pace.latency_s]:
            rates = [pace.rows_per_s for pace in paces]
            behind = [pace for pace in paces if not pace.keeps_up]
            yield Panel(
                "Streaming",
                "from the arrival of a file to its commit",
                "rows per second",
                "seconds",
                [
                    Line("median", rates, [pace.median_s or 0.0 for pace in paces]),
                    Line("99 in 100", rates, [pace.p99_s or 0.0 for pace in paces], dash="--"),
                    Line(
                        "falls behind",
                        [pace.rows_per_s for pace in behind],
                        [pace.median_s or 0.0 for pace in behind],
                        colour=COLOURS[6],
                        dash="",
                        marker="X",
                    ),
                ],
            )

    def _line(self, label: str, contender: str, colour: str, *, is_chief: bool = False) -> Line:
        jobs = sorted((job for job in self.jobs if job.contender == contender), key=lambda job: job.n)
        times = [self.times(job) for job in jobs] if is_chief else []
        texts = ["" if each is None else f"{brief(each.median)}×" for each in times]
        points = [(job.n, job.rate) for job in jobs]
        return line_of(label, points, colour=colour, is_chief=is_chief, texts=texts)

    def _requested_rates(self) -> dict[float, str]:
        loop = self.job(LOOP, LOOP_N)
        if loop is None:
            return {}
        asked = {LOOP_N: LOOP_TIMES, NEXT_N: NEXT_TIMES}
        return {loop.rate.median * times: f"goal {times}×, n = {sized(n)}" for n, times in asked.items()}
