"""The plot of the correlation benchmark: throughput against the number of patterns, state, and Spark."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log10
from pathlib import Path
from typing import Any, Final

from fairlead.bench.correlation import EVENTS_PER_S, Report
from fairlead.bench.correlation_cell import CHAINS, DEFINITION, FAIRLEAD, MODES, SEARCH, SHAPES
from fairlead.bench.correlation_spark import JOINS, WINDOWS
from fairlead.bench.plot import COLOURS, pyplot, tick
from fairlead.bench.tables import sized

__all__ = ["draw"]

COLOUR: Final = {
    FAIRLEAD: COLOURS["columnar"],
    CHAINS: COLOURS["counting"],
    SEARCH: COLOURS["counting"],
    DEFINITION: COLOURS["brute"],
    JOINS: COLOURS["brute"],
    WINDOWS: COLOURS["tree"],
}
LINES: Final = {"batch": "--", "one": "-"}
GREY: Final = "#555555"
COLUMNS: Final = 4


def draw(report: Report, path: Path) -> None:
    """Write the plot of a report as a PNG: a panel for each shape, and for what else was measured."""
    drawing = pyplot()
    panels: list[Callable[[Any, Report], None]] = []
    for shape in dict.fromkeys(cell.shape for cell in report.cells if cell.rates):
        panels.append(_of_shape(shape))
    if report.state:
        panels.append(_state)
    if report.jobs:
        panels.append(_jobs)
    rows = max(1, ceil(len(panels) / COLUMNS))
    columns = min(COLUMNS, max(1, len(panels)))
    figure, axes = drawing.subplots(
        rows, columns, figsize=(4.4 * columns + 0.4, 3.6 * rows + 1), squeeze=False
    )
    flat = [panel for row in axes for panel in row]
    for panel, fill in zip(flat, panels, strict=False):
        fill(panel, report)
        panel.grid(True, which="major", color="#E4E4E4", linewidth=0.7)
        panel.set_axisbelow(True)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    for panel in flat[len(panels) :]:
        panel.set_visible(False)
    machine, height = report.machine, figure.get_figheight()
    figure.suptitle(
        "Correlation: events per second against the number of patterns", fontsize=15, weight="bold"
    )
    where = (
        f"{machine['cpu']}, {machine['python']}, {machine['date'][:10]}; median, slowest and fastest round"
    )
    figure.text(0.5, 1 - 0.62 / height, where, ha="center", color=GREY)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.65 / height))
    figure.savefig(path, dpi=130)
    drawing.close(figure)


def _of_shape(shape: str) -> Callable[[Any, Report], None]:
    def fill(panel: Any, report: Report) -> None:
        cells = sorted((cell for cell in report.cells if cell.shape == shape), key=lambda cell: cell.n)
        for contender in dict.fromkeys(cell.contender for cell in cells):
            for mode, style in LINES.items():
                points = [
                    (cell.n, cell.rates[mode])
                    for cell in cells
                    if cell.contender == contender and mode in cell.rates
                ]
                both = contender == FAIRLEAD and not shape.startswith("C3")
                _line(panel, points, contender, style, f"{contender}, {MODES[mode]}" if both else contender)
        if shape == "C1":
            panel.axhline(EVENTS_PER_S, color="#333333", linestyle=(0, (5, 4)), linewidth=0.9, zorder=1)
        _logarithmic(panel, sorted({cell.n for cell in cells}))
        panel.set_title(f"{shape}  {SHAPES.get(shape, '')}"[:62], fontsize=8.5, loc="left")
        panel.legend(frameon=False, fontsize=7)

    return fill


def _line(panel: Any, points: list[Any], contender: str, style: str, label: str) -> None:
    if not points:
        return
    sizes, colour = [n for n, _ in points], COLOUR[contender]
    panel.plot(sizes, [each.median for _, each in points], style, color=colour, marker="o", label=label)
    low, high = [each.min for _, each in points], [each.max for _, each in points]
    panel.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)


def _logarithmic(panel: Any, sizes: list[int]) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(sizes, [sized(n) for n in sizes])
    panel.xaxis.minorticks_off()
    panel.yaxis.set_major_formatter(lambda value, _: tick(value))


def _state(panel: Any, report: Report) -> None:
    """What an iteration holds, against the matches that it stands for, as powers of ten."""
    for pattern, style in zip(dict.fromkeys(row.pattern for row in report.state), ("-", "--"), strict=False):
        rows = [row for row in report.state if row.pattern == pattern]
        events = [row.events for row in rows]
        for what, colour, counts in (
            ("nodes", COLOUR[FAIRLEAD], [row.nodes for row in rows]),
            ("matches", COLOUR[DEFINITION], [int(row.matches) for row in rows]),
        ):
            powers = [log10(max(1, each)) for each in counts]
            panel.plot(events, powers, style, color=colour, marker="o", label=f"{pattern}: {what}")
    panel.set_xscale("log")
    events = sorted({row.events for row in report.state})
    panel.set_xticks(events, [sized(each) for each in events])
    panel.xaxis.minorticks_off()
    panel.set_ylabel("power of ten")
    panel.set_title("In progress: nodes held, matches they stand for", fontsize=8.5, loc="left")
    panel.legend(frameon=False, fontsize=7)


def _jobs(panel: Any, report: Report) -> None:
    """Events per second on Spark."""
    contenders = list(dict.fromkeys(job.contender for job in report.jobs))
    places = list(dict.fromkeys(f"{job.shape}, {sized(job.n)}" for job in report.jobs))
    width = 0.8 / len(contenders)
    for number, contender in enumerate(contenders):
        jobs = [job for job in report.jobs if job.contender == contender]
        at = [places.index(f"{job.shape}, {sized(job.n)}") + (number + 0.5) * width - 0.4 for job in jobs]
        rates = [job.rate.median for job in jobs]
        panel.bar(at, rates, width * 0.9, color=COLOUR[contender], label=contender)
    panel.set_xticks(range(len(places)), places)
    panel.set_yscale("log")
    panel.yaxis.set_major_formatter(lambda value, _: tick(value))
    panel.set_title("On Spark, three steps, from Parquet to Parquet", fontsize=8.5, loc="left")
    panel.legend(frameon=False, fontsize=7)
