"""The matching benchmark: engines side by side on the shapes M1 to M9, and what that says about the goals.

The part `operators` has a shape for each operator of the language: what it costs, against an equality.

A plan is a list of tasks; each runs in a fresh process and becomes a cell. An engine that was too slow with few
subscriptions is not asked with more, and the table says so: a hole has a reason.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Final

from fairlead_lab.bench import harness
from fairlead_lab.bench.cell import BATCH, CHANGES_PER_S, MODES, Cell, Task, made, oracle_sample
from fairlead_lab.bench.goals import Goal, at_least, at_most
from fairlead_lab.bench.harness import MEASURED, NOT_RUN, ReportLine, line_of, named, of_json, slopes
from fairlead_lab.bench.mixture import MIXTURE
from fairlead_lab.bench.runner import Stopped, fresh, machine
from fairlead_lab.bench.tables import Grid, brief, compact, shown, sized
from fairlead_lab.matching.operators import EQUALITY, OPERATORS
from fairlead_lab.matching.shapes import SHAPES
from fairlead_lab.plotting import COLOURS, GREY, Line, Panel, colour_of

__all__ = ["Goal", "Plan", "Report", "run", "shapes_named"]

ENGINES: Final = ("columnar", "counting", "tree", "diagram", "poset", "brute")
"""Those measured unless others are named; `automaton` is for paths, which no shape has."""
PRODUCTION: Final = "columnar"
CHURN_N: Final = 100_000
OPERATORS_N: Final = 10_000
OPERATORS_COST: Final = 10
"""An operator may cost so many times what an equality costs."""
M9_PER_S: Final = 250_000
MILLION: Final = frozenset({"M1", "M4-prefix", "M5", "M6"})
"""The shapes that a full run takes to a million; making the filters of the others takes minutes."""
FILLED_LIKE: Final = {"M3-near": "M3", "M8": "M1"}
"""Shapes with the filters of another: what is too slow to fill there is so here."""
SUSTAINED: Final = 0.95
"""Changes count as sustained if this share of them was made in time."""


def shapes_named(names: Iterable[str]) -> list[str]:
    """The shapes of these names in their order; M4 stands for all that begin with M4, and so does `operators`."""
    return named(names, SHAPES | MIXTURE | OPERATORS, SHAPES)


@dataclass(frozen=True, slots=True)
class Plan(harness.Plan):
    """The measurements to make, and the patience for each; without sizes, those that fit the shape and the
    engine.
    """

    HASTY: ClassVar = {
        "rounds": 3,
        "slice_s": 0.05,
        "pool": 2_000,
        "patience_s": 5.0,
        "churn_s": 2.0,
        "quick": True,
        "kernels": False,
    }

    shapes: tuple[str, ...] = (*SHAPES, *MIXTURE)
    sizes: tuple[int, ...] = ()
    engines: tuple[str, ...] = ENGINES
    rounds: int = 5
    slice_s: float = 0.15
    pool: int = BATCH
    patience_s: float = 6.0
    """For filling, and again for matching; the production engine gets more."""
    production_patience_s: float = 300.0
    churn_s: float = 8.0
    quick: bool = False
    kernels: bool = True
    peers: bool = False

    def sizes_for(self, shape: str) -> tuple[int, ...]:
        if self.sizes:
            return self.sizes
        if shape in OPERATORS:
            return (OPERATORS_N,)
        if shape == "M8":
            return (CHURN_N // 10,) if self.quick else (CHURN_N,)
        if self.quick:
            return (1_000, 10_000)
        return (1_000, 10_000, 100_000, *((1_000_000,) if shape in MILLION else ()))

    def tasks(self) -> Iterator[Task]:
        """Shape by shape, size by size, engine by engine: what is compared runs close together."""
        for shape in self.shapes:
            for n in self.sizes_for(shape):
                for engine in (PRODUCTION,) if shape in OPERATORS else self.engines:
                    yield Task(
                        shape,
                        n,
                        engine,
                        rounds=self.rounds,
                        slice_s=self.slice_s,
                        pool=self.pool,
                        churn_s=self.churn_s,
                        patience_s=self.production_patience_s if engine == PRODUCTION else self.patience_s,
                        from_json=self.peers and engine == PRODUCTION,
                    )


# -- running -----------------------------------------------------------------------------------------------

Measure = Callable[[Task], Cell]
SETTLING_S: Final = 300.0
"""The time a process may take beyond the patience with the engine: to make filters and ask the oracle."""


def in_fresh_process(task: Task) -> Cell:
    """The cell of a task, measured by a process that knows nothing of the others."""
    limit_s = 2 * task.patience_s + task.churn_s + SETTLING_S
    try:
        return of_json(Cell, fresh("fairlead_lab.bench.cell", asdict(task), limit_s))
    except Stopped as stopped:
        return Cell(task.shape, task.n, task.engine, NOT_RUN, str(stopped))


def run(plan: Plan, report_line: ReportLine, measure: Measure = in_fresh_process) -> Report:
    """Measure what a plan says."""
    for engine in plan.engines:
        made(engine)  # a name that is not known is an error now, not in an hour
    report = Report(machine(), _settings(plan))
    if plan.kernels and PRODUCTION in plan.engines:
        report.kernels = _kernels()
    for task in plan.tasks():
        hopeless = _hopeless(task, report.cells)
        cell = measure(task) if hopeless is None else Cell(task.shape, task.n, task.engine, NOT_RUN, hopeless)
        report.cells.append(cell)
        report_line(_line(cell))
    if plan.peers:
        from fairlead_lab.bench.peers import measure_peers

        for cell in measure_peers(plan):
            report.cells.append(cell)
            report_line(_line(cell))
    return report


def _line(cell: Cell) -> str:
    rates = ", ".join(f"{mode} {compact(spread.median)}/s" for mode, spread in cell.rates.items())
    return (
        f"{cell.shape:<12} {sized(cell.n):>5}  {cell.engine:<10} {rates or f'{cell.status}: {cell.reason}'}"
    )


def _settings(plan: Plan) -> dict[str, Any]:
    return {**asdict(plan), "changes_per_s": CHANGES_PER_S}


def _hopeless(task: Task, cells: Sequence[Cell]) -> str | None:
    """Why there is no point in trying: too slow with fewer subscriptions, or would be if cost were linear."""
    alike = {task.shape, FILLED_LIKE.get(task.shape, task.shape)}
    for cell in cells:
        if cell.engine != task.engine or cell.shape not in alike or cell.n > task.n:
            continue
        if cell.status == NOT_RUN and cell.reason.startswith("too slow"):
            where = "" if cell.shape == task.shape else f" on {cell.shape}"
            return f"too slow at {sized(cell.n)}{where}"
        growth = task.n / cell.n
        if cell.fill_s is not None and cell.fill_s * growth > task.patience_s:
            return f"too slow: filling would take {cell.fill_s * growth:,.0f} s or more"
        if "one" in cell.rates:
            questions = 2 * oracle_sample(task.n, task.pool) + task.rounds + 1
            expected_s = questions * growth / cell.rates["one"].median
            # Engines may grow more slowly than the subscriptions do: only the clear cases are left out.
            if expected_s > 4 * task.patience_s:
                return f"too slow: {questions} notifications would take about {expected_s:,.0f} s"
    return None


def _kernels() -> dict[str, float] | None:
    """Seconds to the first answer on a machine that never compiled the kernels, and in every later process."""
    with tempfile.TemporaryDirectory(prefix="fairlead-kernels-") as directory:
        environment = {"NUMBA_CACHE_DIR": directory}
        try:
            first, later = (
                fresh("fairlead_lab.bench.cell", {"kernels": True}, 900.0, environment) for _ in range(2)
            )
        except Stopped:
            return None
    return {"first_s": first, "later_s": later}


# -- what it says ------------------------------------------------------------------------------------------


COLOUR: Final = {PRODUCTION: COLOURS[0], "brute": GREY}
DASHES: Final = {"one": "-", "batch": "--", "arrow": ":", "json": "-.", "churn": (0, (1, 1))}
GOAL_N: Final = 100_000
GOAL_SHAPES: Final = ("M1", "M3", "M3-near", "M4-prefix", "M4-suffix", "M4-substring", "M5")
PEER: Final = "ruler"
ONE_PER_S: Final = 50_000
BATCH_PER_S: Final = 5 * ONE_PER_S
BYTES_EACH: Final = 300
FILL_S: Final = 60
LARGE_N: Final = 1_000_000


@dataclass(slots=True)
class Report(harness.Report):
    """The cells of a run, and what follows from them."""

    NAME = "matching"
    TITLE = "Matching: throughput against the number of subscriptions"

    cells: list[Cell] = field(default_factory=list)
    kernels: dict[str, float] | None = None

    def cell(self, shape: str, n: int, engine: str) -> Cell | None:
        found = (cell for cell in self.cells if (cell.shape, cell.n, cell.engine) == (shape, n, engine))
        return next(found, None)

    def rate(self, shape: str, n: int, engine: str, *modes: str) -> float | None:
        """The best median of some modes."""
        cell = self.cell(shape, n, engine)
        medians = [cell.rates[mode].median for mode in modes if mode in cell.rates] if cell else []
        return max(medians, default=None)

    def growth(self) -> Iterator[tuple[str, str, str, float]]:
        """Shape, engine, mode, and the exponent of the cost of a notification against n."""
        rates = (
            ((cell.shape, cell.engine, mode), cell.n, cell.rates[mode].median)
            for cell in self.cells
            for mode in ("one", "batch", "arrow")
            if mode in cell.rates
        )
        return ((*key, slope) for key, slope in slopes(rates).items())

    def goals(self) -> Iterator[Goal]:
        """The goals, each beside what was measured for the production engine."""
        for shape in GOAL_SHAPES:
            for what, asked, modes in (
                ("one at a time", ONE_PER_S, ("one",)),
                ("in batches", BATCH_PER_S, ("batch", "arrow")),
            ):
                rate = self.rate(shape, GOAL_N, PRODUCTION, *modes)
                yield at_least(shape, f"{what}, n = {sized(GOAL_N)}", asked, rate, "/s")
        mixture = self.rate("M9", OPERATORS_N, PRODUCTION, "arrow")
        yield at_least("M9", f"in Arrow batches, n = {sized(OPERATORS_N)}", M9_PER_S, mixture, "/s")
        if costs := self.operator_costs():
            worst = max(costs, key=costs.__getitem__)
            yield at_most(worst, "the dearest operator, in equalities", OPERATORS_COST, costs[worst], "")
        yield from self._peer_goals()
        large = self.cell("M1", LARGE_N, PRODUCTION)
        where = f"n = {sized(LARGE_N)}"
        yield at_most("M1", f"memory, {where}", BYTES_EACH, large.bytes_each if large else None, " B each")
        yield at_most("M1", f"adding all, {where}", FILL_S, large.fill_s if large else None, " s")
        slopes = {
            (shape, mode): slope for shape, engine, mode, slope in self.growth() if engine == PRODUCTION
        }
        for shape in ("M2", "M6"):
            yield at_most(shape, "exponent of cost against n", 1, slopes.get((shape, "one")), "")
        churn = self.cell("M8", CHURN_N, PRODUCTION)
        yield at_least(
            "M8",
            f"changes sustained, n = {sized(CHURN_N)}",
            CHANGES_PER_S,
            churn.changes_per_s if churn else None,
            "/s",
            tolerance=SUSTAINED,
        )

    def _peer_goals(self) -> Iterator[Goal]:
        """From JSON texts, one at a time, wherever the peer and the production engine were both measured."""
        for cell in self.cells:
            theirs = cell.rates.get("json") if cell.engine == PEER else None
            ours = self.rate(cell.shape, cell.n, PRODUCTION, "json")
            if theirs is not None and ours is not None:
                what = f"from JSON, n = {sized(cell.n)}, against Event Ruler"
                yield at_least(cell.shape, what, 1, ours / theirs.median, "×")

    def operator_costs(self) -> dict[str, float]:
        """The cost of a row of an Arrow batch with filters of each operator, in that of equalities."""
        equality = self.rate(EQUALITY, OPERATORS_N, PRODUCTION, "arrow")
        rates = {name: self.rate(name, OPERATORS_N, PRODUCTION, "arrow") for name in OPERATORS}
        return {name: equality / rate for name, rate in rates.items() if rate and equality}

    # -- as tables -----------------------------------------------------------------------------------------

    def tables(self) -> Iterator[Grid]:
        """A table for each shape, then growth and churn where they were measured."""
        for shape in dict.fromkeys(cell.shape for cell in self.cells):
            if shape not in OPERATORS:
                yield self._shape_grid(shape)
        yield from self._operators_grid()
        yield from self._growth_grid()
        yield from self._churn_grid()

    def _shape_grid(self, shape: str) -> Grid:
        cells = [cell for cell in self.cells if cell.shape == shape]
        modes = [mode for mode in ("batch", "arrow", "json") if any(mode in cell.rates for cell in cells)]
        rows = [self._row(cell, modes) for cell in sorted(cells, key=lambda cell: cell.n)]
        heads = ("n", "engine", "one at a time /s", "× brute", *(f"{MODES[mode]} /s" for mode in modes))
        heads += ("tests", "matches", "add µs", "bytes", "note")
        return Grid(f"{shape}: {_summary(shape)}", heads, tuple(rows), left=frozenset({1, len(heads) - 1}))

    def _row(self, cell: Cell, modes: Sequence[str]) -> tuple[str, ...]:
        first = (sized(cell.n), cell.engine)
        if cell.status != MEASURED:
            return (*first, *["–"] * (6 + len(modes)), f"{cell.status}: {cell.reason}")
        brute, one = self.rate(*_key(cell)[:2], "brute", "one"), self.rate(*_key(cell), "one")
        ratio = brief(one / brute) if one and brute else "–"
        others = [shown(cell.rates.get(mode)) for mode in modes]
        each = None if cell.fill_s is None else cell.fill_s / cell.n * 1e6
        figures = (cell.tests_each, cell.matches_each, each, cell.bytes_each)
        return (*first, shown(cell.rates.get("one")), ratio, *others, *map(brief, figures), "")

    def _operators_grid(self) -> Iterator[Grid]:
        costs = self.operator_costs()
        rows = []
        for cell in self.cells:
            if cell.shape in OPERATORS and cell.status == MEASURED:
                rates = [shown(cell.rates.get(mode)) for mode in ("one", "batch", "arrow")]
                figures = (costs.get(cell.shape), cell.matches_each)
                rows.append((OPERATORS[cell.shape].summary, *rates, *map(brief, figures)))
        if rows:
            heads = (
                "such as",
                *(f"{MODES[mode]} /s" for mode in ("one", "batch", "arrow")),
                "× equality",
                "matches",
            )
            title = f"Operators: {sized(OPERATORS_N)} filters of one operator each, in Arrow batches"
            yield Grid(title, heads, tuple(rows), left=frozenset({0}))

    def _growth_grid(self) -> Iterator[Grid]:
        slopes = {(shape, engine, mode): slope for shape, engine, mode, slope in self.growth()}
        if not slopes:
            return
        engines = list(dict.fromkeys(engine for _, engine, _ in slopes))
        columns = [(engine, "one") for engine in engines]
        columns += [(PRODUCTION, mode) for mode in ("batch", "arrow") if PRODUCTION in engines]
        rows = [
            (shape, *(_slope(slopes.get((shape, *column))) for column in columns))
            for shape in dict.fromkeys(shape for shape, _, _ in slopes)
        ]
        heads = [engine if mode == "one" else f"{engine}, {mode}" for engine, mode in columns]
        yield Grid(
            "Growth: the exponent of the cost of a notification against n", ("shape", *heads), tuple(rows)
        )

    def _churn_grid(self) -> Iterator[Grid]:
        churned = [cell for cell in self.cells if "churn" in cell.rates]
        rows = [
            (
                sized(cell.n),
                cell.engine,
                shown(cell.rates["one"]),
                shown(cell.rates["churn"]),
                brief(cell.changes_per_s),
                brief(cell.pause_ms_max),
            )
            for cell in churned
        ]
        heads = ("n", "engine", "without changes /s", "with changes /s", "changes /s", "longest pause ms")
        if rows:
            yield Grid(
                f"M8: {CHANGES_PER_S:,} added and removed per second", heads, tuple(rows), left=frozenset({1})
            )

    def notes(self) -> list[str]:
        """The explanation of the figures, and the cost of the kernels at first."""
        settings = self.settings
        lines = [
            f"{settings['rounds']} rounds of {settings['slice_s']} s; the median, and in brackets the quartiles"
        ]
        if self.kernels is not None:
            lines.append(
                f"first answer with kernels: {self.kernels['first_s']:.1f} s where they have never been compiled, "
                f"{self.kernels['later_s']:.1f} s in every later process"
            )
        return lines

    def derived(self) -> dict[str, Any]:
        """The exponents of growth."""
        names = ("shape", "engine", "mode", "exponent")
        return {"growth": [dict(zip(names, each, strict=True)) for each in self.growth()]}

    def panels(self) -> Iterator[Panel]:
        """Rates against n, a panel for each shape; the goals are dashed."""
        engines = list(dict.fromkeys(cell.engine for cell in self.cells))
        for shape in SHAPES:
            cells = [cell for cell in self.cells if cell.shape == shape and cell.rates]
            if cells:
                goals: dict[float, str] = {ONE_PER_S: "goal, one at a time", BATCH_PER_S: "goal, in batches"}
                yield Panel(
                    shape,
                    SHAPES[shape].summary,
                    "subscriptions",
                    "notifications per second",
                    [line for engine in engines for line in _lines(engine, engines, cells)],
                    goals=goals if shape in GOAL_SHAPES else {},
                )


def _lines(engine: str, engines: Sequence[str], cells: Sequence[Cell]) -> Iterator[Line]:
    is_chief = engine == PRODUCTION
    for mode, dash in DASHES.items():
        points = [
            (cell.n, cell.rates[mode]) for cell in cells if cell.engine == engine and mode in cell.rates
        ]
        if points and (is_chief or mode not in ("batch", "arrow")):
            label = engine if mode == "one" else f"{engine}, {MODES[mode]}"
            colour = colour_of(engine, COLOUR, engines)
            yield line_of(label, points, colour=colour, dash=dash, is_chief=is_chief)


def _key(cell: Cell) -> tuple[str, int, str]:
    return cell.shape, cell.n, cell.engine


def _slope(slope: float | None) -> str:
    return "–" if slope is None else f"{slope:.2f}"


def _summary(shape: str) -> str:
    found = (SHAPES | MIXTURE).get(shape)
    return "" if found is None else found.summary
