"""The plot of the correlation benchmark: throughput against the number of patterns, state, and Spark.

Contenders keep their colours from panel to panel, and all panels of throughput have one scale, so that heights can
be compared. Medians are joined by lines, and a band spans the slowest to the fastest round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil, log10
from pathlib import Path
from textwrap import fill
from typing import Any, Final

from fairlead_lab.bench.correlation import EVENTS_PER_S, Report
from fairlead_lab.bench.correlation_cell import CHAINS, DEFINITION, FAIRLEAD, SEARCH, SHAPES, CorrelationCell
from fairlead_lab.bench.correlation_spark import JOINS, WINDOWS
from fairlead_lab.bench.plot import COLOURS, tick
from fairlead_lab.bench.tables import compact, sized
from fairlead_lab.plotting import pyplot, save

__all__ = ["draw"]

COLOUR: Final = {
    FAIRLEAD: COLOURS["columnar"],
    CHAINS: COLOURS["counting"],
    SEARCH: COLOURS["quamina"],
    DEFINITION: COLOURS["brute"],
    JOINS: COLOURS["brute"],
    WINDOWS: COLOURS["tree"],
}
LABELS: Final = {
    (FAIRLEAD, "batch"): "Fairlead, in batches",
    (FAIRLEAD, "one"): "Fairlead, one at a time",
    (CHAINS, "one"): "a chain of partial matches for each pattern",
    (SEARCH, "batch"): "the search of the fair paper",
    (DEFINITION, "batch"): "the definition",
}
SPARK: Final = {FAIRLEAD: "Fairlead"}
LINES: Final = {"batch": "-", "one": (0, (4, 2))}
INK, GREY, PALE = "#222222", "#666666", "#E4E4E4"
COLUMNS: Final = 4
WIDTH, HEIGHT = 4.3, 3.5
HEAD: Final = 1.45
"""Inches for the title, where it was measured, and what the lines mean."""

_Fill = Callable[[Any, Report], None]


def draw(report: Report, path: Path) -> None:
    """Write the plot of a report as a PNG: a panel for each shape, and for what else was measured."""
    drawing = pyplot()
    shapes = dict.fromkeys(cell.shape for cell in report.cells if cell.rates)
    panels: list[_Fill] = [_of_shape(shape) for shape in shapes]
    panels += [_state] if report.state else []
    panels += [_jobs] if report.jobs else []
    columns = min(COLUMNS, max(1, len(panels)))
    rows = max(1, ceil(len(panels) / columns))
    size = max(WIDTH * columns, 8.0), HEIGHT * rows + HEAD
    figure, axes = drawing.subplots(rows, columns, figsize=size, squeeze=False)
    flat = [panel for row in axes for panel in row]
    for panel, fill_in in zip(flat, panels, strict=False):
        fill_in(panel, report)
        panel.set_axisbelow(True)
        panel.tick_params(labelsize=8, color=PALE, labelcolor=GREY)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            panel.spines[side].set_color(PALE)
    for panel in flat[len(panels) :]:
        panel.set_visible(False)
    _head(figure, flat, report)
    figure.tight_layout(rect=(0, 0, 1, 1 - HEAD / size[1]), h_pad=2.2, w_pad=2.0)
    save(figure, [path])


def _head(figure: Any, panels: Iterable[Any], report: Report) -> None:
    """The title, where and when, and what the lines mean: once, for all panels."""
    machine, height = report.machine, figure.get_figheight()
    at = {"ha": "left", "va": "top", "x": 0.012}
    title = "Correlation: events per second and core, against the number of patterns"
    figure.text(**at, y=1 - 0.18 / height, s=title, fontsize=15, weight="bold", color=INK)
    where = (
        f"{machine['cpu']}, {machine['python']}, {machine['date'][:10]}; medians, and the band of all rounds"
    )
    figure.text(**at, y=1 - 0.52 / height, s=where, fontsize=9, color=GREY)
    found: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    known = [label for label in LABELS.values() if label in found]
    if known:
        figure.legend(
            [found[label] for label in known],
            known,
            loc="upper left",
            bbox_to_anchor=(0.005, 1 - 0.72 / height),
            ncols=len(known),
            frameon=False,
            fontsize=9,
            labelcolor=INK,
            handlelength=3.6,
        )


# -- throughput --------------------------------------------------------------------------------------------


def _of_shape(shape: str) -> _Fill:
    def fill_in(panel: Any, report: Report) -> None:
        cells = sorted((cell for cell in report.cells if cell.shape == shape), key=lambda cell: cell.n)
        for contender in dict.fromkeys(cell.contender for cell in cells):
            for mode in LINES:
                _line(
                    panel,
                    [each for each in cells if each.contender == contender and mode in each.rates],
                    mode,
                )
        _logarithmic(panel, sorted({cell.n for cell in cells}), _bounds(report.cells))
        if shape == "C1":
            panel.axhline(EVENTS_PER_S, color=INK, linestyle=(0, (1, 2)), linewidth=1, zorder=1)
            panel.annotate(
                f"goal {sized(EVENTS_PER_S)}/s",
                (0.5, EVENTS_PER_S),
                xycoords=("axes fraction", "data"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=7.5,
                color=INK,
            )
        _titled(panel, shape, SHAPES.get(shape, ""))

    return fill_in


def _line(panel: Any, cells: list[CorrelationCell], mode: str) -> None:
    if not cells:
        return
    colour, spreads = COLOUR[cells[0].contender], [cell.rates[mode] for cell in cells]
    sizes, medians = [cell.n for cell in cells], [each.median for each in spreads]
    is_own = cells[0].contender == FAIRLEAD
    panel.plot(
        sizes,
        medians,
        color=colour,
        linestyle=LINES[mode],
        linewidth=2 if is_own else 1.4,
        marker="o",
        markersize=4.5,
        zorder=3 if is_own else 2,
        label=LABELS.get((cells[0].contender, mode), cells[0].contender),
    )
    low, high = [each.min for each in spreads], [each.max for each in spreads]
    panel.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
    if is_own and ("batch" in cells[0].rates) == (mode == "batch"):  # the best of its own says its figures
        for n, median in zip(sizes, medians, strict=True):
            panel.annotate(
                compact(median),
                (n, median),
                xytext=(0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=7.5,
                color=colour,
            )


def _bounds(cells: Iterable[CorrelationCell]) -> tuple[float, float]:
    """Whole powers of ten around all that was measured: one scale for all panels."""
    rates = [spread for cell in cells for spread in cell.rates.values()]
    low = min((max(each.min, 1e-3) for each in rates), default=1)
    high = max((each.max for each in rates), default=10)
    return 10 ** int(log10(low) // 1), 10 ** ceil(log10(max(high, EVENTS_PER_S)) + 0.15)


def _logarithmic(panel: Any, sizes: list[int], bounds: tuple[float, float]) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_ylim(*bounds)
    panel.set_xticks(sizes, [sized(n) for n in sizes])
    panel.set_xlim(sizes[0] / 1.7, sizes[-1] * 1.7)
    panel.minorticks_off()
    panel.yaxis.set_major_formatter(lambda value, _: tick(value))
    panel.grid(visible=True, axis="y", color=PALE, linewidth=0.7)
    panel.set_xlabel("patterns", fontsize=8, color=GREY, labelpad=1)


def _titled(panel: Any, title: str, subtitle: str) -> None:
    """A name, and below it what it stands for."""
    lines = fill(subtitle, 60)
    panel.set_title(lines, fontsize=8, color=GREY, loc="left", pad=6)
    panel.annotate(
        title,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 10 + 11 * (lines.count("\n") + 1)),
        textcoords="offset points",
        fontsize=10,
        weight="bold",
        color=INK,
        annotation_clip=False,
    )


# -- the rest ----------------------------------------------------------------------------------------------


def _state(panel: Any, report: Report) -> None:
    """What an iteration holds, against the matches that it stands for."""
    names = list(dict.fromkeys(row.pattern for row in report.state))
    for pattern, style in zip(names, ("-", (0, (4, 2))), strict=False):
        rows = [row for row in report.state if row.pattern == pattern]
        events = [row.events for row in rows]
        for what, colour, counts in (
            ("matches", COLOURS["brute"], [int(row.matches) for row in rows]),
            ("nodes", COLOUR[FAIRLEAD], [row.nodes for row in rows]),
        ):
            powers = [log10(max(1, each)) for each in counts]  # of numbers that no double holds, as well
            label = f"{what}: {pattern}"
            panel.plot(events, powers, linestyle=style, color=colour, marker="o", markersize=4.5, label=label)
    events = sorted({row.events for row in report.state})
    panel.set_xscale("log")
    panel.set_xticks(events, [sized(each) for each in events])
    panel.minorticks_off()
    panel.yaxis.get_major_locator().set_params(integer=True, nbins=5)
    panel.yaxis.set_major_formatter(lambda value, _: f"$10^{{{value:.0f}}}$")
    panel.grid(visible=True, axis="y", color=PALE, linewidth=0.7)
    panel.set_xlabel("events", fontsize=8, color=GREY, labelpad=1)
    panel.legend(frameon=False, fontsize=7.5, loc="upper left", labelcolor=INK)
    _titled(panel, "State", "iteration in progress: nodes held, and the matches that they stand for")


def _jobs(panel: Any, report: Report) -> None:
    """Events per second on Spark, as bars with their figures."""
    places = list(dict.fromkeys((job.shape, job.n) for job in report.jobs))
    contenders = list(dict.fromkeys(job.contender for job in report.jobs))
    height = 0.8 / len(contenders)
    for number, contender in enumerate(contenders):
        jobs = [job for job in report.jobs if job.contender == contender]
        at = [places.index((job.shape, job.n)) + (number + 0.5) * height - 0.4 for job in jobs]
        rates = [job.rate.median for job in jobs]
        panel.barh(at, rates, height * 0.88, color=COLOUR[contender])
        for y, rate in zip(at, rates, strict=True):
            panel.annotate(
                f"{SPARK.get(contender, contender)}  {compact(rate)}/s",
                (rate, y),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
                color=INK,
            )
    panel.set_yticks(range(len(places)), [f"{shape}\n{_patterns(n)}" for shape, n in places])
    panel.tick_params(axis="y", length=0)
    panel.invert_yaxis()
    panel.set_xlim(0, 1.75 * max(job.rate.median for job in report.jobs))
    panel.xaxis.set_major_formatter(lambda value, _: tick(value))
    panel.xaxis.get_major_locator().set_params(nbins=4)
    panel.grid(visible=True, axis="x", color=PALE, linewidth=0.7)
    panel.set_xlabel("events per second", fontsize=8, color=GREY, labelpad=1)
    _titled(panel, "Spark", "one match for each start, from Parquet to matches in Parquet")


def _patterns(n: int) -> str:
    return "1 pattern" if n == 1 else f"{sized(n)} patterns"
