"""The curves of the evaluation: throughput above and latency below, a column for each number of types.

In each panel there is a line for each system, for its deepest level; and thin lines for the levels above it, of
ordered merging alone, which is the only one that has levels. All is relative to the first point of setup A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from fairlead_lab.plotting import pyplot, save
from fairlead_lab.simulation.fair.evaluation import FairResults, FairRow
from fairlead_lab.simulation.fair.scenario import SYSTEMS
from fairlead_lab.simulation.plots import FORMATS, scale

__all__ = ["draw_fair"]

COLOURS: Final = dict(zip(SYSTEMS, ("#0072B2", "#0072B2", "#D55E00", "#D55E00", "#009E73"), strict=True))
MARKERS: Final = dict(zip(SYSTEMS, "ooss^", strict=True))
TITLES: Final = {
    "A": "conjunctions, filtered by clients",
    "B": "conjunctions, filtered by mergers",
    "C": "conjunctions over all pairs of types",
    "D": "disjunctions",
}
LEVELLED: Final = "faidecs"


class Panel(NamedTuple):
    """A figure to be drawn."""

    title: str
    unit: str
    value: Callable[[FairRow], float]


PANELS: Final = (
    Panel("Throughput", "events delivered per second, relative", lambda row: row.throughput_relative),
    Panel("Latency", "multicast to delivery, relative", lambda row: row.latency_relative),
)


def draw_fair(results: FairResults, directory: Path) -> list[Path]:
    """Write the curves as PNG and SVG; the files."""
    drawing = pyplot()
    types = list(dict.fromkeys(row.types for row in results.rows))
    figure, axes = drawing.subplots(
        len(PANELS), len(types), figsize=(4.4 * max(2, len(types)), 8.3), squeeze=False, sharey="row"
    )
    for line, panel in zip(axes, PANELS, strict=True):
        span = [panel.value(row) for row in results.rows]
        for axis, count in zip(line, types, strict=True):
            _panel(axis, panel, [row for row in results.rows if row.types == count], span)
    scenario = results.scenario
    height = figure.get_figheight()
    title = f"Fair correlation, setup {scenario.setup}: {TITLES[scenario.setup]}"
    figure.suptitle(title, fontsize=15, weight="bold", y=1 - 0.12 / height)
    costs = scenario.costs
    subtitle = (
        f"{costs.receive_us} µs to receive a message, {costs.send_us} µs to send one; latency at "
        f"{scenario.load_percent} % of each system's throughput; seed {scenario.seed}"
    )
    figure.text(0.5, 1 - 0.62 / height, subtitle, ha="center", color="#555555")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False, fontsize=9.5, handlelength=3)
    figure.tight_layout(rect=(0, 0.8 / height, 1, 1 - 0.55 / height), w_pad=2.2, h_pad=1.8)
    return save(figure, [directory / f"curves.{format}" for format in FORMATS])


def _panel(axis: Any, panel: Panel, rows: Sequence[FairRow], span: Sequence[float]) -> None:
    sizes = sorted({row.subscribers for row in rows})
    deepest = max(row.level for row in rows)
    for system in dict.fromkeys(row.system for row in rows):
        for level in sorted({row.level for row in rows}):
            if level != deepest and system != LEVELLED:
                continue
            points = {
                row.subscribers: panel.value(row)
                for row in rows
                if (row.system, row.level) == (system, level)
            }
            xs = [size for size in sizes if size in points]
            ys = [points[size] for size in xs]
            is_replicated = system.endswith("replicated")
            axis.plot(
                xs,
                ys,
                color=COLOURS[system],
                linestyle="--" if is_replicated else "-",
                linewidth=2 if level == deepest else 0.8,
                marker=MARKERS[system] if level == deepest else None,
                markerfacecolor="white" if is_replicated else COLOURS[system],
                markersize=5.5,
                label=SYSTEMS[system].title if level == deepest else None,
                clip_on=False,
                zorder=3,
            )
            if level != deepest:
                axis.annotate(
                    f"level {level}",
                    (xs[0], ys[0]),
                    xytext=(4, 3),
                    textcoords="offset points",
                    fontsize=7.5,
                    color="#555555",
                )
    scale(axis, sizes, span, linear=False)
    if axis.get_yscale() == "log":
        axis.set_ylim(bottom=min(span) / 1.3)
    axis.set_title(f"{panel.title}, {rows[0].types} types", fontsize=11, weight="bold", loc="left")
    axis.set_ylabel(panel.unit, fontsize=9)
    axis.set_xlabel("subscribers", fontsize=9)
    axis.tick_params(labelsize=8.5, labelleft=True)
    axis.grid(True, which="major", color="#E4E4E4", linewidth=0.7)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
