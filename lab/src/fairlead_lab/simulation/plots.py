"""The curves of a comparison: what each algorithm costs against the number of subscriptions.

One panel per figure, one line per algorithm, in the same colour in all of them. Where several seeds were run
the line joins the medians and the band spans from the least to the most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from fairlead_lab.plotting import pyplot, save
from fairlead_lab.simulation.metrics import Row
from fairlead_lab.simulation.runs import Results

__all__ = ["draw"]

# Okabe and Ito's colours, which people who see few colours can tell apart as well.
COLOURS: Final = {
    "flooding": "#7F7F7F",
    "simple": "#D55E00",
    "identity": "#E69F00",
    "covering": "#0072B2",
    "merging": "#009E73",
    "imperfect": "#CC79A7",
}
OTHERS: Final = ("#56B4E9", "#8C564B", "#7B4FA3", "#B8A800", "#222222")
MARKERS: Final = {
    "flooding": "x",
    "simple": "s",
    "identity": "^",
    "covering": "o",
    "merging": "D",
    "imperfect": "v",
}
HIERARCHICAL: Final = "hierarchical-"
COLUMNS: Final = 4
FORMATS: Final = ("png", "svg")


class Panel(NamedTuple):
    """A figure to be drawn: what it is called, and how a row gives it."""

    title: str
    unit: str
    value: Callable[[Row], float]
    is_share: bool = False


PANELS: Final = (
    Panel("Routing tables", "entries for neighbours, per broker", lambda row: row.remote_mean),
    Panel("Largest table", "entries at the broker with most", lambda row: row.entries_max),
    Panel("Filters under way", "admin messages so far", lambda row: row.admin_messages),
    Panel("Notifications", "forwards per publication", lambda row: row.forwards / max(1, row.publications)),
    Panel(
        "In vain", "spurious forwards, % of all", lambda row: 100 * row.spurious / max(1, row.forwards), True
    ),
    Panel(
        "Load",
        "at the busiest broker, % of publications",
        lambda row: 100 * row.load_max / max(1, row.publications),
        True,
    ),
    Panel("Hops", "median until delivery", lambda row: row.hops_median),
    Panel("Delay", "median until delivery, ms", lambda row: row.delay_us_median / 1_000),
)


def draw(results: Results, directory: Path) -> list[Path]:
    """Write the curves as PNG and SVG, one picture for each number of brokers; the files."""
    drawing = pyplot()
    written = []
    sizes = list(dict.fromkeys(row.brokers for row in results.rows))
    for brokers in sizes:
        rows = [row for row in results.rows if row.brokers == brokers]
        figure = _figure(drawing, results, rows)
        stem = "curves" if len(sizes) == 1 else f"curves-{brokers}"
        written += save(figure, [directory / f"{stem}.{format}" for format in FORMATS])
    return written


def _figure(drawing: Any, results: Results, rows: Sequence[Row]) -> Any:
    grid = -(-len(PANELS) // COLUMNS)
    figure, axes = drawing.subplots(grid, COLUMNS, figsize=(4.4 * COLUMNS, 3.5 * grid + 1.3), squeeze=False)
    algorithms = list(dict.fromkeys(row.algorithm for row in rows))
    styles = _styles(algorithms)
    for panel, axis in zip(PANELS, axes.flat, strict=False):
        _panel(axis, panel, rows, algorithms, styles)
    height = figure.get_figheight()
    scenario = results.scenario
    figure.suptitle(f"Routing: {scenario.name}", fontsize=15, weight="bold", y=1 - 0.12 / height)
    figure.text(0.5, 1 - 0.62 / height, _subtitle(results, rows), ha="center", color="#555555")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    lines = -(-len(labels) // 6)
    figure.legend(
        handles,
        labels,
        loc="lower center",
        ncols=min(6, len(labels)),
        frameon=False,
        fontsize=9.5,
        handlelength=3,
    )
    figure.tight_layout(rect=(0, (0.2 + 0.27 * lines) / height, 1, 1 - 0.55 / height), w_pad=2.2, h_pad=1.8)
    return figure


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


def _styles(algorithms: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A hierarchy has the colour of what it is a hierarchy of, and its line is dashed."""
    others = iter(OTHERS * 4)
    styles: dict[str, dict[str, Any]] = {}
    for name in algorithms:
        base = name.removeprefix(HIERARCHICAL)
        styles[name] = {
            "color": COLOURS[base] if base in COLOURS else next(others),
            "marker": MARKERS.get(base, "P"),
            "linestyle": "--" if base != name else "-",
            "markerfacecolor": "white" if base != name else None,
        }
    return styles


def _panel(
    axis: Any,
    panel: Panel,
    rows: Sequence[Row],
    algorithms: Sequence[str],
    styles: dict[str, dict[str, Any]],
) -> None:
    drawn = []
    sizes = sorted({row.subscriptions for row in rows})
    for place, name in enumerate(algorithms):
        by_size = [
            sorted(panel.value(row) for row in rows if row.algorithm == name and row.subscriptions == size)
            for size in sizes
        ]
        points = [(size, values) for size, values in zip(sizes, by_size, strict=True) if values]
        xs = [size for size, _ in points]
        middle = [median(values) for _, values in points]
        drawn += middle
        # Lines that lie on one another: those drawn first are wider, and show below the later ones.
        width = 1.4 + 2.6 * (len(algorithms) - 1 - place) / max(1, len(algorithms) - 1)
        axis.plot(
            xs,
            middle,
            linewidth=width,
            markersize=3.5 + width,
            label=name,
            clip_on=False,
            zorder=3 + place / 10,
            **styles[name],
        )
        if any(len(values) > 1 for _, values in points):
            low, high = [values[0] for _, values in points], [values[-1] for _, values in points]
            axis.fill_between(xs, low, high, color=styles[name]["color"], alpha=0.15, linewidth=0)
    scale(axis, sizes, drawn, linear=panel.is_share)
    axis.set_title(panel.title, fontsize=11, weight="bold", loc="left")
    axis.set_ylabel(panel.unit, fontsize=9)
    axis.set_xlabel("subscriptions", fontsize=9)
    axis.tick_params(labelsize=8.5)
    axis.grid(True, which="major", color="#E4E4E4", linewidth=0.7)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def scale(axis: Any, sizes: Sequence[int], drawn: Sequence[float], *, linear: bool) -> None:
    """Logarithmic where figures lie far apart; where some are 0, linear around it."""
    if sizes[-1] >= 8 * sizes[0]:
        axis.set_xscale("log")
        axis.set_xticks(_apart(sizes), [_short(size) for size in _apart(sizes)])
        axis.xaxis.minorticks_off()
    positive = [value for value in drawn if value > 0]
    if not linear and positive and max(positive) > 30 * min(positive):
        if len(positive) == len(drawn):
            axis.set_yscale("log")
        else:
            axis.set_yscale("symlog", linthresh=min(positive))
            axis.set_ylim(bottom=0)
        axis.set_ylim(top=max(positive) * 1.6)
        axis.yaxis.minorticks_off()
    else:
        axis.set_ylim(bottom=0, top=max(positive, default=1) * 1.08)
    axis.yaxis.set_major_formatter(lambda value, _: _short(value))


def _apart(sizes: Sequence[int]) -> list[int]:
    """Of these numbers, those that are far enough from one another to be written side by side."""
    kept = [sizes[-1]]
    for size in reversed(sizes[:-1]):
        if size * 1.45 <= kept[-1]:
            kept.append(size)
    return kept[::-1]


def _short(value: float) -> str:
    """1,500 as 1.5k."""
    for unit, name in ((10**6, "M"), (10**3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"
