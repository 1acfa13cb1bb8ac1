"""The pipeline benchmark: matching on Spark against a join, a whole pipeline in batch, and a stream under load.

All of it runs in one session, on the machine's own cores, with what Spark has by default. A ratio is one of two
figures of the same round; absolute numbers stand beside it.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from fairlead.errors import FairleadError
from fairlead_lab.bench.floor import FLOOR, GOALS, Floor, measure_floor
from fairlead_lab.bench.goals import Goal, at_least, at_most, goals_grid
from fairlead_lab.bench.jobs import (
    FAIRLEAD,
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
from fairlead_lab.bench.runner import Spread, Stopped, described, fresh, machine, spread_of
from fairlead_lab.bench.tables import Grid, brief, page, shown, sized

__all__ = ["PARTS", "Plan", "Report", "run"]

LOOP_TIMES: Final = 200
NEXT_TIMES: Final = 100


# -- running -----------------------------------------------------------------------------------------------


def run(plan: Plan, tell: Callable[[str], None], spark: Any = None) -> Report:
    """Carry a plan out in a session, a new one unless one is given; `tell` hears of every step."""
    report = Report(machine(), asdict(plan))
    if (kernels := _kernels()) is not None:
        report.startup["kernels, loaded by a process"] = kernels
    from fairlead.spark.sessions import session

    running = spark
    if running is None:
        started = time.perf_counter()
        running = session(app_name="fairlead bench")
        report.startup["session"] = time.perf_counter() - started
        tell(f"Spark started in {report.startup['session']:.1f} s")
    try:
        report.machine["versions"]["pyspark"] = running.version
        report.machine["master"] = running.conf.get("spark.master", "?")
        with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as directory:
            _measure(plan, running, Path(directory), report, tell)
    except FairleadError:
        raise
    except Exception as error:
        from fairlead.spark.failures import reason

        raise reason(error) or error from error
    finally:
        if spark is None:
            running.stop()
    return report


def _measure(plan: Plan, spark: Any, place: Path, report: Report, tell: Callable[[str], None]) -> None:
    load = Workload(place, plan.rows)
    if "match" in plan.parts:
        tell(f"drawing {plan.rows:,} notifications, and subscriptions")
        found = measure_m1(spark, plan, load, tell)
        report.jobs, report.indexes = found.jobs, found.indexes
        report.startup |= found.startup
        report.problems += found.problems
    if "batch" in plan.parts:
        report.sampled, problems = measure_sample(spark, plan, place, tell)
        report.problems += problems
    if "floor" in plan.parts:
        report.floors, problems = measure_floor(spark, plan, place, tell)
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
class Report:
    """All that a run found, and what follows from it."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    startup: dict[str, float] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)
    indexes: list[Index] = field(default_factory=list)
    sampled: Sampled | None = None
    floors: list[Floor] = field(default_factory=list)
    paces: list[Pace] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        """Where results differ from what they must be."""
        return self.problems

    def job(self, contender: str, n: int) -> Job | None:
        return next((each for each in self.jobs if (each.contender, each.n) == (contender, n)), None)

    def times(self, job: Job) -> Spread | None:
        """How many times the join's throughput a job reaches, round by round."""
        loop = self.job(LOOP, self.settings["loop_n"])
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
        large, smaller = self.job(FAIRLEAD, LARGE_N), self.job(FAIRLEAD, NEXT_N)
        rate = "not measured" if large is None else f"{brief(large.rate.median)} rows/s"
        yield Goal("M1", f"n = {sized(LARGE_N)}", "completes", rate, None if large is None else True)
        growth = None
        if large is not None and smaller is not None and smaller.pairs:
            cost = smaller.rate.median / large.rate.median
            growth = cost / ((large.pairs / large.rows) / (smaller.pairs / smaller.rows))
        what = f"growth of cost against growth of matches, {sized(NEXT_N)} to {sized(LARGE_N)}"
        yield at_most("M1", what, 1, growth, "")
        for measured in self.floors:
            for contender, most in GOALS.items():
                if contender in measured.rounds:
                    times = measured.times(contender)
                    what = f"{measured.workload}: {contender}, against the floor, warm"
                    yield at_most("pipeline", what, most, times.median if times else None, "×")

    # -- as tables -----------------------------------------------------------------------------------------

    def grids(self) -> Iterator[Grid]:
        """What differs, the goals, then a table for each part that was measured."""
        if self.problems:
            yield Grid("Wrong", ("what",), tuple((each,) for each in self.problems))
        if self.jobs or self.floors:
            yield goals_grid(list(self.goals()))
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
        if self.paces:
            yield self._paces_grid()

    def _jobs_grid(self) -> Grid:
        rows = []
        for job in sorted(self.jobs, key=lambda job: job.contender != LOOP):
            times = self.times(job)
            ratio = (
                "–" if times is None else f"{brief(times.median)} [{brief(times.low)}, {brief(times.high)}]"
            )
            figures = (job.pairs / job.rows, job.cpu_us_each, job.cores)
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
        heads = ("n", "who", "rows", "rows /s", ratio, "pairs each", "CPU µs each", "cores")
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

    def facts(self) -> list[str]:
        """The run in a few lines: where, when, how."""
        machine, settings = self.machine, self.settings
        load = " ".join(f"{each:.2f}" for each in machine["load"])
        lines = [
            f"{described(machine)}; {machine.get('master', '?')}",
            f"{machine['date']}; load at the start {load}",
        ]
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

    def markdown(self) -> str:
        """The tables for a page."""
        return page(self.facts(), self.grids())

    # -- as JSON -------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything, with what follows from it."""
        return {
            "benchmark": "pipeline",
            "machine": self.machine,
            "settings": self.settings,
            "startup": self.startup,
            "jobs": [asdict(each) for each in self.jobs],
            "indexes": [asdict(each) for each in self.indexes],
            "sampled": None if self.sampled is None else asdict(self.sampled),
            "floors": [asdict(each) for each in self.floors],
            "paces": [asdict(each) for each in self.paces],
            "problems": self.problems,
            "goals": [asdict(goal) for goal in self.goals()],
            "sustained": self.sustained,
        }

    @classmethod
    def of_json(cls, given: dict[str, Any]) -> Self:
        """A report that was written down; what follows from it is found anew."""
        sampled = given["sampled"]
        return cls(
            given["machine"],
            given["settings"],
            given["startup"],
            [Job.of_json(each) for each in given["jobs"]],
            [Index(**each) for each in given["indexes"]],
            None if sampled is None else Sampled.of_json(sampled),
            [Floor.of_json(each) for each in given.get("floors", ())],
            [Pace.of_json(each) for each in given["paces"]],
            given["problems"],
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls.of_json(json.loads(path.read_text(encoding="utf-8")))
