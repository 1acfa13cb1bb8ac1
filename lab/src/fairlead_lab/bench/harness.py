"""The harness of all benchmarks: plans, reports, their JSON, Markdown and plots.

A benchmark is a module with three names. `Plan` says what is measured and how often, `run(plan, report_line)`
measures it, and `Report` declares what follows: goals, tables and panels. All else is here, once: the machine, the
tables in Markdown, the JSON that `--out` writes and `--from` reads, and the plot.

Law: a report that was written and read again has the same figures, goals, tables and panels.
"""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from fairlead.errors import FairleadError
from fairlead_lab.bench.goals import Goal, goals_grid
from fairlead_lab.bench.runner import Spread, described, exponent
from fairlead_lab.bench.tables import Grid, page
from fairlead_lab.plotting import Line, Panel, draw

__all__ = [
    "MEASURED",
    "NOT_RUN",
    "WRONG",
    "OtherBenchmark",
    "Plan",
    "Report",
    "ReportLine",
    "UnknownShape",
    "as_json",
    "line_of",
    "named",
    "of_json",
    "slopes",
    "spark_session",
]

MEASURED, NOT_RUN, WRONG = "measured", "not run", "wrong"
"""The outcomes of a cell of a table."""
ReportLine = Callable[[str], None]
"""Prints a line for each cell as it is done: a run takes minutes."""
Value = TypeVar("Value")


class UnknownShape(FairleadError, LookupError):
    """No shape has this name."""


class OtherBenchmark(FairleadError, ValueError):
    """The JSON of something else than a report of this benchmark."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The measurements to make, and the number of rounds."""

    HASTY: ClassVar[Mapping[str, Any]] = {}
    """The values of a short plan: a look within some minutes."""

    @classmethod
    def short(cls, **values: Any) -> Self:
        """A plan that takes a few minutes, but for what is said."""
        return cls(**{**cls.HASTY, **values})


@dataclass(slots=True)
class Report(ABC):
    """The figures of a run, and what follows from them."""

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    """Of the plot."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    problems: list[str] = field(default_factory=list, kw_only=True)
    """Results that differ from what they must be."""

    @property
    def wrong(self) -> Sequence[object]:
        """Cells and problems in which results differ from what they must be."""
        cells = (cell for cell in getattr(self, "cells", ()) if getattr(cell, "status", "") == WRONG)
        return [*cells, *self.problems]

    @abstractmethod
    def goals(self) -> Iterator[Goal]:
        """The goals, each with the measured figure."""

    @abstractmethod
    def tables(self) -> Iterator[Grid]:
        """A table for each part that was measured."""

    @abstractmethod
    def panels(self) -> Iterator[Panel]:
        """A panel of the plot for each part that was measured."""

    def notes(self) -> list[str]:
        """The explanation of the figures, in a few lines."""
        return []

    def derived(self) -> dict[str, Any]:
        """The figures that follow from others besides goals, for readers of the JSON."""
        return {}

    def grids(self) -> Iterator[Grid]:
        """The problems, the goals that were measured, then the tables."""
        if self.problems:
            yield Grid("Wrong", ("what",), tuple((each,) for each in self.problems))
        if goals := [each for each in self.goals() if each.met is not None]:
            yield goals_grid(goals)
        yield from self.tables()

    def facts(self) -> list[str]:
        """The run in a few lines: on what, when, how busy the machine was, how it was measured."""
        machine = self.machine
        load = " ".join(f"{each:.2f}" for each in machine["load"])
        shares = [share for each in getattr(self, "cells", ()) if (share := getattr(each, "cpu_share", None))]
        busy = f", a measuring process had a core {min(shares):.0%} of the time or more" if shares else ""
        return [
            described(machine) + (f"; {machine['master']}" if "master" in machine else ""),
            f"{machine['date']}; load at the start {load}{busy}",
            *self.notes(),
        ]

    def markdown(self) -> str:
        """The facts and tables for a page."""
        return page(self.facts(), self.grids())

    def to_json(self) -> dict[str, Any]:
        """The figures, with the goals and what else follows from them."""
        goals = [asdict(goal) for goal in self.goals()]
        return {"benchmark": self.NAME, **as_json(self), **self.derived(), "goals": goals}

    @classmethod
    def read(cls, path: Path) -> Self:
        """A report that `to_json` wrote; OtherBenchmark where the file holds none of this benchmark."""
        written = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(written, dict) or written.get("benchmark", cls.NAME) != cls.NAME:
            raise OtherBenchmark("the report of another benchmark")
        try:
            return of_json(cls, written)
        except msgspec.ValidationError as error:
            raise OtherBenchmark(str(error)) from None

    def draw(self, path: Path) -> None:
        """Write the plot as a PNG."""
        machine = self.machine
        where = f"{machine['cpu']}, {machine['cores']} cores, {machine['python']}, {machine['date'][:10]}"
        draw(self.TITLE, f"{where}; medians, slowest and fastest rounds", list(self.panels()), [path])


# -- figures as JSON ---------------------------------------------------------------------------------------


def as_json(value: Any) -> Any:
    """A value, made of dataclasses, as JSON."""
    return msgspec.to_builtins(value)


def of_json(type: type[Value], jsonable: Any) -> Value:
    """The value of which `as_json` gave this."""
    return msgspec.convert(jsonable, type, strict=False)


# -- what several benchmarks do ----------------------------------------------------------------------------


def named(names: Iterable[str], known: Iterable[str], shown: Iterable[str] | None = None) -> list[str]:
    """The shapes of these names, in the order of those known; M4 stands for all that begin with M4-."""
    known = list(known)
    wanted: set[str] = set()
    for name in names:
        key = name.lower()
        chosen = {shape for shape in known if shape.lower() == key or shape.lower().startswith(f"{key}-")}
        if not chosen:
            there = ", ".join(known if shown is None else shown)
            raise UnknownShape(f"no shape is named {name!r}", hint=f"there is {there}")
        wanted |= chosen
    return [shape for shape in known if shape in wanted]


def slopes(points: Iterable[tuple[Any, float, float]]) -> dict[Any, float]:
    """For each key of (key, n, rate), the exponent of the cost against n."""
    by_key: dict[Any, list[tuple[float, float]]] = {}
    for key, n, rate in points:
        by_key.setdefault(key, []).append((n, 1 / rate))
    found = {key: exponent(each) for key, each in by_key.items()}
    return {key: slope for key, slope in found.items() if slope is not None}


def line_of(label: str, points: Iterable[tuple[float, Spread]], **style: Any) -> Line:
    """Medians as a line, with the band of all rounds."""
    several = sorted(points, key=lambda each: each[0])
    return Line(
        label,
        [x for x, _ in several],
        [spread.median for _, spread in several],
        [spread.min for _, spread in several],
        [spread.max for _, spread in several],
        **style,
    )


@contextmanager
def spark_session(report: Report, spark: Any = None) -> Iterator[tuple[Any, Path]]:
    """A session, which is stopped in the end unless it was given, and a directory for what is written.

    Failures of Spark's are raised with their reason.
    """
    from fairlead.spark.failures import reason
    from fairlead.spark.sessions import session

    running = session(app_name="fairlead bench") if spark is None else spark
    try:
        report.machine["versions"]["pyspark"] = running.version
        report.machine["master"] = running.conf.get("spark.master", "?")
        with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as directory:
            yield running, Path(directory)
    except FairleadError:
        raise
    except Exception as error:
        raise reason(error) or error from error
    finally:
        if spark is None:
            running.stop()
