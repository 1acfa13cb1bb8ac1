"""The correlation benchmark: patterns in process and on Spark, beside what one would use instead.

A plan is a list of tasks; each runs in a fresh process and becomes a cell. A contender that is slow does as many
events as it can in its time, and the table says how many: nothing is extrapolated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from math import log10
from typing import Any, ClassVar, Final

from fairlead_lab.bench import harness
from fairlead_lab.bench.correlation_cell import (
    CHAINS,
    CONTENDERS,
    DEFINITION,
    FAIRLEAD,
    MODES,
    SEARCH,
    SHAPES,
    CorrelationCell,
    CorrelationTask,
    StateRow,
)
from fairlead_lab.bench.correlation_spark import JOINS, WINDOWS, SparkJob, measure_spark
from fairlead_lab.bench.goals import Goal, at_least, at_most
from fairlead_lab.bench.harness import (
    MEASURED,
    NOT_RUN,
    ReportLine,
    line_of,
    named,
    of_json,
    slopes,
    spark_session,
)
from fairlead_lab.bench.runner import Spread, Stopped, exponent, fresh, machine, spread_of
from fairlead_lab.bench.tables import Grid, brief, compact, shown, sized
from fairlead_lab.plotting import COLOURS, GREY, Bar, Line, Panel

__all__ = ["PARTS", "Plan", "Report", "run", "shapes_named"]

PARTS: Final = ("embedded", "state", "spark")
COLOUR: Final = {
    FAIRLEAD: COLOURS[0],
    CHAINS: COLOURS[1],
    SEARCH: COLOURS[7],
    DEFINITION: GREY,
    JOINS: GREY,
    WINDOWS: COLOURS[2],
}
LABELS: Final = {
    (FAIRLEAD, "batch"): "Fairlead, in batches",
    (FAIRLEAD, "one"): "Fairlead, one at a time",
    (CHAINS, "one"): "a chain of partial matches for each pattern",
    (SEARCH, "batch"): "the search of the fair paper",
    (DEFINITION, "batch"): "the definition",
}
EVENTS_PER_S: Final = 200_000
SPARK_TIMES: Final = (
    ("C1", 1, WINDOWS, 1.0),
    ("C2", 1, JOINS, 5.0),
    ("C1-apart", 100, JOINS, 5.0),
)
"""The factors by which a number of patterns is to be as fast as a query on Spark."""
FAIR_ON_SPARK: Final = 20_000
FAIR_IN_PROCESS: Final = {10: 31_400, 1_000: 3_000}
"""Events per second; the first is what the paper reached with 65 machines."""
ALIKE_EXPONENT: Final = 0.1
"""Cost that does not grow: room for the noise of measuring."""


def shapes_named(names: Iterable[str]) -> list[str]:
    """The shapes of these names in their order; C3 stands for all that begin with C3-, and so on."""
    return named(names, SHAPES)


@dataclass(frozen=True, slots=True)
class Plan(harness.Plan):
    """The measurements to make, and the patience for each."""

    HASTY: ClassVar = {
        "shapes": ("C1", "C1-apart", "C2", "C3-A"),
        "sizes": (1, 100),
        "events": 10_000,
        "rounds": 3,
        "patience_s": 0.2,
        "fairlead_patience_s": 1.0,
        "state_sizes": (10, 50),
        "spark_patterns": (("C1", 1), ("C2", 1), ("C3-B", 1)),
        "spark_events": 50_000,
        "spark_rounds": 1,
    }

    parts: tuple[str, ...] = PARTS
    shapes: tuple[str, ...] = tuple(SHAPES)
    sizes: tuple[int, ...] = (1, 10, 100, 1_000)
    events: int = 100_000
    rounds: int = 5
    batch: int = 1_000
    sensors: int = 100
    patience_s: float = 2.0
    fairlead_patience_s: float = 2.0
    state_sizes: tuple[int, ...] = (10, 50, 200)
    spark_patterns: tuple[tuple[str, int], ...] = (
        ("C1", 1),
        ("C1-apart", 100),
        ("C2", 1),
        ("C3-A", 10),
        ("C3-B", 10),
    )
    spark_events: int = 200_000
    """With few, what any query costs on Spark would be measured."""
    spark_rounds: int = 3

    def tasks(self) -> Iterator[CorrelationTask]:
        """Shape by shape, size by size, contender by contender: what is compared runs close together."""
        for shape in self.shapes:
            for n in self.sizes:
                for contender in CONTENDERS[shape]:
                    yield CorrelationTask(
                        shape,
                        n,
                        contender,
                        events=self.events,
                        rounds=self.rounds,
                        batch=self.batch,
                        sensors=self.sensors,
                        patience_s=self.fairlead_patience_s if contender == FAIRLEAD else self.patience_s,
                    )


# -- running -----------------------------------------------------------------------------------------------

Measure = Callable[[CorrelationTask], CorrelationCell]
CELL: Final = "fairlead_lab.bench.correlation_cell"
SETTLING_S: Final = 300.0
"""The time a process may take beyond its passes: to draw the workload, and to ask the definition."""


def in_fresh_process(task: CorrelationTask) -> CorrelationCell:
    """The cell of a task, measured by a process that knows nothing of the others."""
    limit_s = (2 * task.rounds + 6) * task.patience_s + SETTLING_S
    try:
        return of_json(CorrelationCell, fresh(CELL, asdict(task), limit_s))
    except Stopped as stopped:
        return CorrelationCell(task.shape, task.n, task.contender, NOT_RUN, str(stopped))


def run(plan: Plan, tell: ReportLine, measure: Measure = in_fresh_process, spark: Any = None) -> Report:
    """Measure what a plan says; `tell` gets a line for every step."""
    report = Report(machine(), asdict(plan))
    if "embedded" in plan.parts:
        for task in plan.tasks():
            report.cells.append(measure(task))
            tell(_line(report.cells[-1]))
    if "state" in plan.parts:
        report.state = [StateRow(**row) for row in fresh(CELL, {"state": plan.state_sizes}, SETTLING_S)]
    if "spark" in plan.parts:
        with spark_session(report, spark) as (running, directory):
            report.jobs, report.problems = measure_spark(
                running,
                directory,
                tell,
                patterns=plan.spark_patterns,
                events=plan.spark_events,
                sensors=plan.sensors,
                rounds=plan.spark_rounds,
            )
    return report


def _line(cell: CorrelationCell) -> str:
    rates = ", ".join(f"{MODES[mode]} {brief(spread.median)}/s" for mode, spread in cell.rates.items())
    told = f"{rates} on {cell.events:,} events" if rates else f"{cell.status}: {cell.reason}"
    return f"{cell.shape:<9} {sized(cell.n):>5}  {cell.contender:<10} {told}"


# -- what it says ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Report(harness.Report):
    """The figures of a run, and what follows from them."""

    NAME = "correlation"
    TITLE = "Correlation: events per second and core, against the number of patterns"

    cells: list[CorrelationCell] = field(default_factory=list)
    state: list[StateRow] = field(default_factory=list)
    jobs: list[SparkJob] = field(default_factory=list)

    def cell(self, shape: str, n: int, contender: str = FAIRLEAD) -> CorrelationCell | None:
        key = shape, n, contender
        return next((each for each in self.cells if (each.shape, each.n, each.contender) == key), None)

    def job(self, shape: str, n: int, contender: str = FAIRLEAD) -> SparkJob | None:
        key = shape, n, contender
        return next((each for each in self.jobs if (each.shape, each.n, each.contender) == key), None)

    def times(self, cell: CorrelationCell) -> float | None:
        """The factor between the throughput of Fairlead's best and that of another contender."""
        own = self.cell(cell.shape, cell.n)
        ours, theirs = _best(own) if own is not None else None, _best(cell)
        return ours / theirs if ours and theirs else None

    def growth(self) -> Iterator[tuple[str, str, float]]:
        """Shape, contender, and the exponent of the cost of an event against the number of patterns."""
        rates = (((each.shape, each.contender), each.n, rate) for each in self.cells if (rate := _best(each)))
        return ((*key, slope) for key, slope in slopes(rates).items())

    def goals(self) -> Iterator[Goal]:
        """The goals, each beside what was measured for Fairlead."""
        first = self.cell("C1", 1)
        rate = first.rates["batch"].median if first is not None and "batch" in first.rates else None
        yield at_least("C1", "one pattern, one core, in batches", EVENTS_PER_S, rate, "/s")
        slopes = {shape: slope for shape, contender, slope in self.growth() if contender == FAIRLEAD}
        for shape in ("C1", "C2"):
            what = "alike: exponent of cost against patterns"
            yield at_most(shape, what, ALIKE_EXPONENT, slopes.get(shape), "")
        for shape in ("C1-apart", "C1-half", "C2-apart"):
            what = "unlike: growth of cost against growth of matches"
            yield at_most(shape, what, 1, self._against_matches(shape), "")
        for pattern in dict.fromkeys(row.pattern for row in self.state):
            points = [(row.events, row.nodes) for row in self.state if row.pattern == pattern]
            what = f"{pattern}: exponent of nodes held against events"
            slope = exponent(points)
            yield at_most("C2", what, 1, None if slope is None else round(slope, 3), "")

        yield from self._spark_goals()

    def _spark_goals(self) -> Iterator[Goal]:
        for shape, n, other, least in SPARK_TIMES:
            own, theirs = self.job(shape, n), self.job(shape, n, other)
            times = None
            if own is not None and theirs is not None:
                rounds = zip(own.seconds, theirs.seconds, strict=True)
                times = spread_of([slower / ours for ours, slower in rounds]).median
            yield at_least(shape, f"{n} on Spark, against {other}", least, times, "×")
        job = self.job("C3-A", 10)
        what = "10 fair conjunctions on Spark"
        yield at_least("C3-A", what, FAIR_ON_SPARK, None if job is None else job.rate.median, "/s")
        for n, least in FAIR_IN_PROCESS.items():
            cell = self.cell("C3-A", n)
            what = f"{n:,} fair conjunctions, one core"
            yield at_least("C3-A", what, least, None if cell is None else _best(cell), "/s")

    def _against_matches(self, shape: str) -> float | None:
        """The growth of the cost divided by that of the matches, from the fewest patterns to the most."""
        cells = [each for each in self.cells if each.shape == shape and each.contender == FAIRLEAD]
        points = [
            (1 / rate, each.matches_each)
            for each in sorted(cells, key=lambda each: each.n)
            if (rate := _best(each)) and each.matches_each
        ]
        if len(points) < 2:
            return None
        (cost, matches), (cost_max, matches_max) = points[0], points[-1]
        return (cost_max / cost) / (matches_max / matches)

    # -- as tables -----------------------------------------------------------------------------------------

    def tables(self) -> Iterator[Grid]:
        """A table for each shape, growth, state, and Spark."""
        for shape in dict.fromkeys(cell.shape for cell in self.cells):
            yield self._shape_grid(shape)
        yield from self._growth_grid()
        if self.state:
            yield self._state_grid()
        if self.jobs:
            yield self._jobs_grid()

    def _shape_grid(self, shape: str) -> Grid:
        heads: tuple[str, ...] = ("n", "who", "events", "in batches /s", "one at a time /s", "Fairlead ×")
        heads += ("matches", "latency ms, batches", "one", "held", "note")
        rows = [
            self._row(cell)
            for cell in sorted((each for each in self.cells if each.shape == shape), key=lambda each: each.n)
        ]
        title = f"{shape}: {SHAPES.get(shape, '')}"
        return Grid(title, heads, tuple(rows), left=frozenset({1, len(heads) - 1}))

    def _row(self, cell: CorrelationCell) -> tuple[str, ...]:
        first = (sized(cell.n), cell.contender)
        if cell.status != MEASURED:
            return (*first, *["–"] * 8, f"{cell.status}: {cell.reason}")
        rates = [shown(cell.rates.get(mode)) for mode in ("batch", "one")]
        ratio = "" if cell.contender == FAIRLEAD else brief(self.times(cell))
        latency = [_latency(cell.latency_ms.get(mode)) for mode in ("batch", "one")]
        figures = (
            brief(cell.matches_each),
            *latency,
            "–" if cell.state_max is None else f"{cell.state_max:,}",
        )
        return (*first, f"{cell.events:,}", *rates, ratio, *figures, "")

    def _growth_grid(self) -> Iterator[Grid]:
        slopes = {(shape, contender): slope for shape, contender, slope in self.growth()}
        if not slopes:
            return
        contenders = list(dict.fromkeys(contender for _, contender in slopes))
        rows = tuple(
            (shape, *(_slope(slopes.get((shape, contender))) for contender in contenders))
            for shape in dict.fromkeys(shape for shape, _ in slopes)
        )
        title = "Growth: the exponent of the cost of an event against the number of patterns"
        yield Grid(title, ("shape", *contenders), rows)

    def _state_grid(self) -> Grid:
        rows = tuple(
            (
                row.pattern,
                f"{row.events:,}",
                f"{row.nodes:,}",
                _large(int(row.matches)),
                "–" if row.written_out is None else f"{row.written_out:,}",
                brief(row.first_ms),
            )
            for row in self.state
        )
        heads = (
            "A followed by …, then C",
            "events",
            "nodes",
            "matches they stand for",
            "written out",
            "100 ms",
        )
        return Grid("State: matches in progress, A and B in turns, before any C", heads, rows)

    def _jobs_grid(self) -> Grid:
        rows = []
        for job in self.jobs:
            own = self.job(job.shape, job.n)
            ratios = (
                spread_of([theirs / ours for ours, theirs in zip(own.seconds, job.seconds, strict=True)])
                if own is not None and job is not own
                else None
            )
            times = "" if ratios is None else f"{brief(ratios.median)} {_between(ratios)}"
            by_cores = None
            if own is not None and job is not own and own.cpu_us_each and job.cpu_us_each:
                by_cores = job.cpu_us_each / own.cpu_us_each
            rows.append(
                (
                    job.shape,
                    sized(job.n),
                    job.contender,
                    f"{job.events:,}",
                    shown(job.rate),
                    times,
                    brief(job.cpu_us_each),
                    "" if by_cores is None else brief(by_cores),
                    f"{job.matches:,}",
                )
            )
        cores = ("CPU µs each", "Fairlead ×, in time of cores")
        heads = ("shape", "n", "who", "events", "events /s", "Fairlead ×", *cores, "matches")
        title = "On Spark, from Parquet to matches in Parquet; of patterns one for each start"
        return Grid(title, heads, tuple(rows), left=frozenset({0, 2}))

    def notes(self) -> list[str]:
        """The explanation of the figures."""
        settings = self.settings
        return [
            f"{settings['events']:,} events, a millisecond apart, of {settings['sensors']} sensors, or as many as "
            f"{settings['patience_s']:g} s are enough for ({settings['fairlead_patience_s']:g} s for Fairlead)",
            f"{settings['rounds']} rounds, {settings.get('spark_rounds', 3)} on Spark; the median, and in "
            "brackets the quartiles; a batch has "
            f"{settings['batch']:,} events; rates are per second of a core; latency is that of half of the "
            "matches, and of 99 in 100",
        ]

    def derived(self) -> dict[str, Any]:
        """The exponents of growth."""
        names = ("shape", "contender", "exponent")
        return {"growth": [dict(zip(names, each, strict=True)) for each in self.growth()]}

    def panels(self) -> Iterator[Panel]:
        """Throughput against the number of patterns, a panel for each shape; state; and Spark."""
        for shape in dict.fromkeys(cell.shape for cell in self.cells if cell.rates):
            goals: dict[float, str] = {EVENTS_PER_S: f"goal {sized(EVENTS_PER_S)}/s"} if shape == "C1" else {}
            lines = list(self._lines(shape))
            yield Panel(shape, SHAPES.get(shape, ""), "patterns", "events per second", lines, goals=goals)
        if self.state:
            subtitle = "iteration in progress: powers of ten of nodes, and of the matches that they stand for"
            yield Panel(
                "State", subtitle, "events", "power of ten", list(self._state_lines()), is_linear=True
            )
        if self.jobs:
            bars = [
                Bar(
                    f"{job.shape}, n = {sized(job.n)}",
                    job.contender,
                    job.rate.median,
                    COLOUR[job.contender],
                    text=f"{compact(job.rate.median)}/s",
                )
                for job in self.jobs
            ]
            subtitle = "one match for each start, from Parquet to matches in Parquet"
            yield Panel("Spark", subtitle, "events per second", bars=bars)

    def _lines(self, shape: str) -> Iterator[Line]:
        cells = [cell for cell in self.cells if cell.shape == shape]
        for contender in dict.fromkeys(cell.contender for cell in cells):
            for mode, dash in (("batch", "-"), ("one", "--")):
                own = [each for each in cells if each.contender == contender and mode in each.rates]
                if own:
                    points = [(each.n, each.rates[mode]) for each in own]
                    label = LABELS.get((contender, mode), contender)
                    is_chief = contender == FAIRLEAD
                    yield line_of(label, points, colour=COLOUR[contender], dash=dash, is_chief=is_chief)

    def _state_lines(self) -> Iterator[Line]:
        for pattern, dash in zip(dict.fromkeys(row.pattern for row in self.state), ("-", "--"), strict=False):
            rows = [row for row in self.state if row.pattern == pattern]
            for what, colour, counts in (
                ("matches", GREY, [int(row.matches) for row in rows]),
                ("nodes", COLOURS[0], [row.nodes for row in rows]),
            ):
                powers = [log10(max(1, each)) for each in counts]  # of numbers that no double holds, as well
                yield Line(
                    f"{what}: {pattern}", [row.events for row in rows], powers, colour=colour, dash=dash
                )


def _best(cell: CorrelationCell) -> float | None:
    """The best median of a cell's modes."""
    return max((spread.median for spread in cell.rates.values()), default=None)


def _latency(found: tuple[float, float] | None) -> str:
    return "–" if found is None else f"{brief(found[0])}, {brief(found[1])}"


def _between(spread: Spread) -> str:
    return f"[{brief(spread.low)}, {brief(spread.high)}]"


def _slope(slope: float | None) -> str:
    return "–" if slope is None else f"{slope:.2f}"


def _large(count: int) -> str:
    """A number of any size: in full, or by its power of ten."""
    return f"{count:,}" if count < 10**9 else f"10^{len(str(count)) - 1}"
