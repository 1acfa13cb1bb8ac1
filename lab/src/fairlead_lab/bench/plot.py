"""The growth plot: throughput against the number of subscriptions, both logarithmic, one panel per shape.

Engines keep their colours from panel to panel. Medians are joined by lines, the band spans the slowest to the
fastest round, and the goals are dashed.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from pathlib import Path
from typing import Any, Final

from fairlead_lab.bench.cell import MODES, Cell
from fairlead_lab.bench.matching import BATCH_PER_S, GOAL_SHAPES, ONE_PER_S, PRODUCTION, Report
from fairlead_lab.bench.tables import sized
from fairlead_lab.matching.shapes import SHAPES
from fairlead_lab.plotting import pyplot, save

__all__ = ["draw", "tick"]

# Okabe and Ito's colours, which people who see few colours can tell apart as well.
COLOURS: Final = {
    "columnar": "#0072B2",
    "counting": "#E69F00",
    "tree": "#009E73",
    "diagram": "#CC79A7",
    "poset": "#56B4E9",
    "automaton": "#B8A800",
    "brute": "#7F7F7F",
    "ruler": "#D55E00",
    "quamina": "#8C564B",
    "hypermatch": "#7B4FA3",
}
OTHER: Final = "#222222"
LINES: Final = {"one": "-", "batch": "--", "arrow": ":", "json": "-.", "churn": (0, (1, 1))}
MARKERS: Final = {"churn": "X"}
COLUMNS: Final = 4
GOALS: Final = ((ONE_PER_S, "goal, one at a time"), (BATCH_PER_S, "goal, in batches"))


def draw(report: Report, path: Path) -> None:
    """Write the plot of a report as a PNG."""
    drawing = pyplot()
    shapes = [shape for shape in SHAPES if any(cell.rates for cell in report.cells if cell.shape == shape)]
    columns = max(1, min(COLUMNS, len(shapes)))
    rows = max(1, ceil(len(shapes) / columns))
    figure, axes = drawing.subplots(
        rows, columns, figsize=(4.1 * columns + 0.6, 3.3 * rows + 1.7), squeeze=False, sharey=True
    )
    panels = list(axes.flat)
    for panel, shape in zip(panels, shapes, strict=False):
        _panel(panel, shape, report)
    for panel in panels[len(shapes) :]:
        panel.set_visible(False)
    for row in axes:
        row[0].set_ylabel("notifications per second")
    _legend(figure, panels)
    machine = report.machine
    figure.suptitle("Matching: throughput against the number of subscriptions", fontsize=15, weight="bold")
    figure.text(
        0.5,
        1 - 0.62 / figure.get_figheight(),
        f"{machine['cpu']}, one core, {machine['python']}, {machine['date'][:10]}; median, slowest and fastest "
        f"of {report.settings['rounds']} rounds",
        ha="center",
        color="#555555",
    )
    height = figure.get_figheight()
    figure.tight_layout(rect=(0, 0.75 / height, 1, 1 - 0.65 / height))
    save(figure, [path])


def _panel(panel: Any, shape: str, report: Report) -> None:
    cells = sorted((cell for cell in report.cells if cell.shape == shape), key=lambda cell: cell.n)
    # The production engine is drawn last, on top of the others.
    engines = sorted(dict.fromkeys(cell.engine for cell in cells), key=lambda engine: engine == PRODUCTION)
    for engine in engines:
        own = [cell for cell in cells if cell.engine == engine]
        modes = (
            ("one", "batch", "arrow", "json", "churn") if engine == PRODUCTION else ("one", "json", "churn")
        )
        for mode in modes:
            _line(panel, engine, mode, [cell for cell in own if mode in cell.rates])
    if shape in GOAL_SHAPES:
        for rate, label in GOALS:
            panel.axhline(rate, color="#333333", linestyle=(0, (5, 4)), linewidth=0.9, zorder=1)
            panel.annotate(
                label,
                (0.015, rate),
                xycoords=("axes fraction", "data"),
                fontsize=7,
                color="#333333",
                va="bottom",
            )
    panel.set_xscale("log")
    panel.set_yscale("log")
    sizes = sorted({cell.n for cell in cells})
    panel.set_xlim(sizes[0] / 1.6, sizes[-1] * 1.6)
    panel.set_xticks(sizes, [sized(n) for n in sizes])
    panel.xaxis.minorticks_off()
    panel.yaxis.set_major_formatter(lambda value, _: tick(value))
    panel.grid(True, which="major", color="#E4E4E4", linewidth=0.7)
    panel.set_axisbelow(True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    panel.set_title(f"{shape}  {SHAPES[shape].summary}", fontsize=9.5, loc="left")


def tick(value: float) -> str:
    """A power of ten: 1, 100, 10k, 1M."""
    return sized(round(value)) if value >= 1 else f"{value:g}"


def _line(panel: Any, engine: str, mode: str, cells: Iterable[Cell]) -> None:
    points = [(cell.n, cell.rates[mode]) for cell in cells]
    if not points:
        return
    colour, chief = COLOURS.get(engine, OTHER), engine == PRODUCTION
    sizes = [n for n, _ in points]
    panel.plot(
        sizes,
        [spread.median for _, spread in points],
        linestyle=LINES[mode],
        color=colour,
        marker=MARKERS.get(mode, "o"),
        markersize=4.5 if chief else 3.5,
        linewidth=2.2 if chief else 1.3,
        label=engine if mode == "one" else f"{engine}, {MODES[mode]}",
        zorder=4 if chief else 3,
    )
    low, high = [spread.min for _, spread in points], [spread.max for _, spread in points]
    panel.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)


def _legend(figure: Any, panels: Iterable[Any]) -> None:
    """Each line once, for all panels."""
    found: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    labels = sorted(found, key=lambda label: (not label.startswith(PRODUCTION), label))
    figure.legend(
        [found[label] for label in labels],
        labels,
        loc="lower center",
        ncols=max(1, min(len(labels), 6)),
        frameon=False,
        fontsize=9,
        handlelength=3.2,
    )
