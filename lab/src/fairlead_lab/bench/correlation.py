"""The correlation benchmark: patterns in process and on Spark, beside what one would use instead.

A plan is a list of tasks; each runs in a fresh process and becomes a cell. A contender that is slow does as many
events as it can in its time, and the table says how many: nothing is extrapolated.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from fairlead.errors import FairleadError
from fairlead_lab.bench.cell import MEASURED, NOT_RUN, WRONG
from fairlead_lab.bench.correlation_cell import (
    CONTENDERS,
    FAIRLEAD,
    MODES,
    SHAPES,
    CorrelationCell,
    CorrelationTask,
    StateRow,
)
from fairlead_lab.bench.correlation_spark import SparkJob, measure_spark
from fairlead_lab.bench.goals import Goal, at_least, at_most, goals_grid
from fairlead_lab.bench.matching import UnknownShape
from fairlead_lab.bench.runner import Spread, Stopped, described, exponent, fresh, machine, spread_of
from fairlead_lab.bench.tables import Grid, brief, page, shown, sized

__all__ = ["PARTS", "Plan", "Report", "run", "shapes_named"]

PARTS: Final = ("embedded", "state", "spark")
EVENTS_PER_S: Final = 200_000
ALIKE_EXPONENT: Final = 0.1
"""Cost that does not grow: room for the noise of measuring."""


def shapes_named(names: Iterable[str]) -> list[str]:
    """The shapes of these names in their order; C3 stands for all that begin with C3-, and so on."""
    wanted: set[str] = set()
    for name in names:
        key = name.lower()
        found = {shape for shape in SHAPES if shape.lower() == key or shape.lower().startswith(f"{key}-")}
        if not found:
            raise UnknownShape(f"no shape is named {name!r}", hint=f"there is {', '.join(SHAPES)}")
        wanted |= found
    return [shape for shape in SHAPES if shape in wanted]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, and how patiently."""

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

    @classmethod
    def short(cls, **given: Any) -> Plan:
        """A look within two minutes: fewer shapes, events, patterns and rounds."""
        hasty = {
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
        return cls(**{**hasty, **given})

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
"""What a process may take beyond its passes: to draw the workload, and to ask the definition."""


def in_fresh_process(task: CorrelationTask) -> CorrelationCell:
    """The cell of a task, measured by a process that knows nothing of the others."""
    limit_s = (2 * task.rounds + 6) * task.patience_s + SETTLING_S
    try:
        return CorrelationCell.of_json(fresh(CELL, asdict(task), limit_s))
    except Stopped as stopped:
        return CorrelationCell(task.shape, task.n, task.contender, NOT_RUN, str(stopped))


def run(
    plan: Plan, tell: Callable[[str], None], measure: Measure = in_fresh_process, spark: Any = None
) -> Report:
    """Carry a plan out; `tell` hears of every step."""
    report = Report(machine(), asdict(plan))
    if "embedded" in plan.parts:
        for task in plan.tasks():
            report.cells.append(measure(task))
            tell(_line(report.cells[-1]))
    if "state" in plan.parts:
        report.state = [StateRow(**row) for row in fresh(CELL, {"state": plan.state_sizes}, SETTLING_S)]
    if "spark" in plan.parts:
        report.jobs, report.problems = _on_spark(plan, report, tell, spark)
    return report


def _line(cell: CorrelationCell) -> str:
    rates = ", ".join(f"{MODES[mode]} {brief(spread.median)}/s" for mode, spread in cell.rates.items())
    told = f"{rates} on {cell.events:,} events" if rates else f"{cell.status}: {cell.reason}"
    return f"{cell.shape:<9} {sized(cell.n):>5}  {cell.contender:<10} {told}"


def _on_spark(
    plan: Plan, report: Report, tell: Callable[[str], None], spark: Any
) -> tuple[list[SparkJob], list[str]]:
    from fairlead.spark.failures import reason
    from fairlead.spark.sessions import session

    running = session(app_name="fairlead bench") if spark is None else spark
    try:
        report.machine["versions"]["pyspark"] = running.version
        report.machine["master"] = running.conf.get("spark.master", "?")
        with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as directory:
            return measure_spark(
                running,
                Path(directory),
                tell,
                patterns=plan.spark_patterns,
                events=plan.spark_events,
                sensors=plan.sensors,
                rounds=plan.spark_rounds,
            )
    except FairleadError:
        raise
    except Exception as error:
        raise reason(error) or error from error
    finally:
        if spark is None:
            running.stop()


# -- what it says ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Report:
    """All that a run found, and what follows from it."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    cells: list[CorrelationCell] = field(default_factory=list)
    state: list[StateRow] = field(default_factory=list)
    jobs: list[SparkJob] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> Sequence[object]:
        """Where matches differ from what they must be."""
        return [*(cell for cell in self.cells if cell.status == WRONG), *self.problems]

    def cell(self, shape: str, n: int, contender: str = FAIRLEAD) -> CorrelationCell | None:
        key = shape, n, contender
        return next((each for each in self.cells if (each.shape, each.n, each.contender) == key), None)

    def job(self, shape: str, n: int, contender: str = FAIRLEAD) -> SparkJob | None:
        key = shape, n, contender
        return next((each for each in self.jobs if (each.shape, each.n, each.contender) == key), None)

    def times(self, cell: CorrelationCell) -> float | None:
        """How many times the throughput of another contender Fairlead's best is."""
        own = self.cell(cell.shape, cell.n)
        ours, theirs = _best(own) if own is not None else None, _best(cell)
        return ours / theirs if ours and theirs else None

    def growth(self) -> Iterator[tuple[str, str, float]]:
        """Shape, contender, and the exponent of the cost of an event against the number of patterns."""
        for shape, contender in dict.fromkeys((cell.shape, cell.contender) for cell in self.cells):
            cells = [each for each in self.cells if (each.shape, each.contender) == (shape, contender)]
            slope = exponent([(each.n, 1 / rate) for each in cells if (rate := _best(each))])
            if slope is not None:
                yield shape, contender, slope

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

    def grids(self) -> Iterator[Grid]:
        """What differs, the goals, then a table for each shape, growth, state, and Spark."""
        if self.problems:
            yield Grid("Wrong", ("what",), tuple((each,) for each in self.problems))
        if self.cells or self.state:
            yield goals_grid([each for each in self.goals() if each.met is not None])
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
            rows.append(
                (
                    job.shape,
                    sized(job.n),
                    job.contender,
                    f"{job.events:,}",
                    shown(job.rate),
                    times,
                    f"{job.matches:,}",
                )
            )
        heads = ("shape", "n", "who", "events", "events /s", "Fairlead ×", "matches")
        title = "On Spark, from Parquet to matches in Parquet; of patterns one for each start"
        return Grid(title, heads, tuple(rows), left=frozenset({0, 2}))

    def facts(self) -> list[str]:
        """The run in a few lines: where, when, how, how busy."""
        machine, settings = self.machine, self.settings
        load = " ".join(f"{each:.2f}" for each in machine["load"])
        shares = [cell.cpu_share for cell in self.cells if cell.cpu_share is not None]
        busy = f", a measuring process had a core {min(shares):.0%} of the time or more" if shares else ""
        return [
            described(machine) + (f"; {machine['master']}" if "master" in machine else ""),
            f"{machine['date']}; load at the start {load}{busy}",
            f"{settings['events']:,} events, a millisecond apart, of {settings['sensors']} sensors, or as many as "
            f"{settings['patience_s']:g} s are enough for ({settings['fairlead_patience_s']:g} s for Fairlead)",
            f"{settings['rounds']} rounds; the median, and in brackets the quartiles; a batch has "
            f"{settings['batch']:,} events; rates are per second of a core; latency is that of half of the "
            "matches, and of 99 in 100",
        ]

    def markdown(self) -> str:
        """The tables for a page."""
        return page(self.facts(), self.grids())

    # -- as JSON -------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything, with what follows from it."""
        return {
            "benchmark": "correlation",
            "machine": self.machine,
            "settings": self.settings,
            "cells": [cell.to_json() for cell in self.cells],
            "state": [asdict(each) for each in self.state],
            "jobs": [asdict(each) for each in self.jobs],
            "problems": self.problems,
            "growth": [
                {"shape": shape, "contender": contender, "exponent": slope}
                for shape, contender, slope in self.growth()
            ],
            "goals": [asdict(goal) for goal in self.goals()],
        }

    @classmethod
    def of_json(cls, given: dict[str, Any]) -> Self:
        """A report that was written down; what follows from it is found anew."""
        return cls(
            given["machine"],
            given["settings"],
            [CorrelationCell.of_json(each) for each in given["cells"]],
            [StateRow(**each) for each in given["state"]],
            [SparkJob.of_json(each) for each in given["jobs"]],
            given["problems"],
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls.of_json(json.loads(path.read_text(encoding="utf-8")))


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
