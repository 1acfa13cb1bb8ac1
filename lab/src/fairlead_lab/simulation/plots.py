"""The curves of a comparison: what each algorithm costs against the number of subscriptions.

One panel per figure, one line per algorithm, in the same colour in all of them. Where several seeds were run
the line joins the medians and the band spans from the least to the most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from fairlead_lab.plotting import COLOURS, GREY, Line, Panel, colour_of, draw
from fairlead_lab.simulation.metrics import Row
from fairlead_lab.simulation.runs import Results

__all__ = ["FORMATS", "draw_curves"]

COLOUR: Final = {
    "flooding": GREY,
    "simple": COLOURS[6],
    "identity": COLOURS[1],
    "covering": COLOURS[0],
    "merging": COLOURS[2],
    "imperfect": COLOURS[3],
}
MARKERS: Final = {
    "flooding": "x",
    "simple": "s",
    "identity": "^",
    "covering": "o",
    "merging": "D",
    "imperfect": "v",
}
HIERARCHICAL: Final = "hierarchical-"
FORMATS: Final = ("png", "svg")


class Figure(NamedTuple):
    """A figure that is drawn: its title and unit, and its value for a row."""

    title: str
    unit: str
    value: Callable[[Row], float]
    is_share: bool = False


FIGURES: Final = (
    Figure("Routing tables", "entries for neighbours, per broker", lambda row: row.remote_mean),
    Figure("Largest table", "entries at the broker with most", lambda row: row.entries_max),
    Figure("Filters sent", "admin messages so far", lambda row: row.admin_messages),
    Figure("Notifications", "forwards per publication", lambda row: row.forwards / max(1, row.publications)),
    Figure(
        "In vain", "spurious forwards, % of all", lambda row: 100 * row.spurious / max(1, row.forwards), True
    ),
    Figure(
        "Load",
        "at the busiest broker, % of publications",
        lambda row: 100 * row.load_max / max(1, row.publications),
        True,
    ),
    Figure("Hops", "median until delivery", lambda row: row.hops_median),
    Figure("Delay", "median until delivery, ms", lambda row: row.delay_us_median / 1_000),
)


def draw_curves(results: Results, directory: Path) -> list[Path]:
    """Write the curves as PNG and SVG, one picture for each number of brokers; the files."""
    written = []
    sizes = list(dict.fromkeys(row.brokers for row in results.rows))
    for brokers in sizes:
        rows = [row for row in results.rows if row.brokers == brokers]
        panels = [
            Panel(
                each.title,
                xlabel="subscriptions",
                ylabel=each.unit,
                lines=_lines(each, rows),
                is_linear=each.is_share,
            )
            for each in FIGURES
        ]
        stem = "curves" if len(sizes) == 1 else f"curves-{brokers}"
        paths = [directory / f"{stem}.{format}" for format in FORMATS]
        written += draw(f"Routing: {results.scenario.name}", _subtitle(results, rows), panels, paths)
    return written


def _subtitle(results: Results, rows: Sequence[Row]) -> str:
    plan = results.scenario.workload
    seeds = len({row.seed for row in rows})
    parts = [
        f"{rows[0].brokers:,} brokers, {rows[0].topology}",
        f"{plan.shape} over {plan.values:,} values",
        f"{plan.publications:,} publications at each point",
        f"seed {rows[0].seed}" if seeds == 1 else f"{seeds} seeds",
    ]
    return "; ".join(parts)


def _lines(figure: Figure, rows: Sequence[Row]) -> list[Line]:
    """A line for each algorithm; a hierarchy has the colour of what it is a hierarchy of, and is dashed."""
    algorithms = list(dict.fromkeys(row.algorithm for row in rows))
    lines = []
    for name in algorithms:
        values: dict[int, list[float]] = {}
        for row in rows:
            if row.algorithm == name:
                values.setdefault(row.subscriptions, []).append(figure.value(row))
        xs, base = sorted(values), name.removeprefix(HIERARCHICAL)
        has_band = any(len(each) > 1 for each in values.values())
        lines.append(
            Line(
                name,
                xs,
                [median(values[x]) for x in xs],
                [min(values[x]) for x in xs] if has_band else (),
                [max(values[x]) for x in xs] if has_band else (),
                colour_of(base, COLOUR, algorithms if base in algorithms else [base]),
                "-" if base == name else "--",
                MARKERS.get(base, "P"),
            )
        )
    return lines
