"""The plots of the laboratory: panels as values, and the one program that draws them.

    draw("Matching", "one core", [Panel("M1", lines=(Line("columnar", xs, ys),))], [Path("matching.png")])

A panel has lines over a logarithmic axis, or horizontal bars in named rows. A series has the same colour in all
panels, and all panels share one legend. Medians are joined by lines, and a band or a whisker spans the slowest to
the fastest round. The same panels give the same file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any, Final

__all__ = ["COLOURS", "GREY", "Bar", "Line", "Panel", "colour_of", "draw", "short"]

# Okabe and Ito's colours, which people with colour blindness can tell apart as well.
COLOURS: Final = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#B8A800",
    "#D55E00",
    "#8C564B",
    "#7B4FA3",
)
GREY: Final = "#7F7F7F"
INK, MUTED, PALE = "#222222", "#555555", "#E4E4E4"
COLUMNS: Final = 4
WIDTH, HEIGHT = 4.4, 3.5
ROW: Final = 0.36
"""Inches for a row of bars."""


@dataclass(frozen=True, slots=True)
class Line:
    """A series of points, sorted by x."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    colour: str = COLOURS[0]
    dash: Any = "-"
    marker: str | None = "o"
    is_chief: bool = False
    """Drawn on top, and wider."""
    texts: Sequence[str] = ()
    """The texts written at the points."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a row, from `left` on."""

    row: str
    label: str
    value: float
    colour: str = COLOURS[0]
    left: float = 0.0
    low: float | None = None
    high: float | None = None
    mark: float | None = None
    """A point beside the bar: the worst case."""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines or bars under a title."""

    title: str
    subtitle: str = ""
    xlabel: str = ""
    ylabel: str = ""
    lines: Sequence[Line] = ()
    bars: Sequence[Bar] = ()
    goals: Mapping[float, str] = field(default_factory=dict)
    """Figures that are asked for, as dashed lines with a label."""
    is_linear: bool = False
    """Whether the figures are not drawn logarithmically even where they lie far apart."""
    is_stacked: bool = False
    """Whether the bars of a row lie behind one another, from `left` on."""


def draw(
    title: str, subtitle: str, panels: Sequence[Panel], paths: Iterable[Path], columns: int = COLUMNS
) -> list[Path]:
    """Draw panels into files, whose names say their formats; the files."""
    drawing = _pyplot()
    columns = max(1, min(columns, len(panels)))
    lines = max(1, ceil(len(panels) / columns))
    rows = max((len({bar.row for bar in panel.bars}) for panel in panels), default=0)
    height = max(HEIGHT, 1.2 + ROW * rows * _most_in_a_row(panels)) * lines + 1.3
    width = max(WIDTH * columns, 8.0)
    figure, axes = drawing.subplots(lines, columns, figsize=(width, height), squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=False):
        (_fill_bars if panel.bars else _fill_lines)(axis, panel)
        _dress(axis, panel)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    figure.suptitle(title, fontsize=15, weight="bold", color=INK, y=1 - 0.12 / height)
    figure.text(0.5, 1 - 0.62 / height, subtitle, ha="center", color=MUTED)
    legend_lines = _legend(figure, axes.flat)
    figure.tight_layout(
        rect=(0, (0.1 + 0.27 * legend_lines) / height, 1, 1 - 0.6 / height), w_pad=2.2, h_pad=1.8
    )
    written = list(paths)
    for path in written:
        # Without a date in it, the same figure is the same file.
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, dpi=130, metadata=metadata)
    drawing.close(figure)
    return written


def _pyplot() -> Any:
    """The library that draws, without a display; it is imported only to draw."""
    matplotlib = import_module("matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "fairlead"
    return import_module("matplotlib.pyplot")


def colour_of(name: str, known: Mapping[str, str], others: Sequence[str]) -> str:
    """The colour of a series: a chosen one, or the next of the palette by its position among the others."""
    return known[name] if name in known else COLOURS[others.index(name) % len(COLOURS)]


def short(value: float) -> str:
    """A figure in few characters: 950, 1.5k, 2M."""
    for unit, name in ((10**6, "M"), (10**3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


# -- lines -------------------------------------------------------------------------------------------------


def _fill_lines(axis: Any, panel: Panel) -> None:
    # A line without points would have room made for it where the figure begins.
    for number, line in enumerate(each for each in panel.lines if each.xs):
        axis.plot(
            line.xs,
            line.ys,
            color=line.colour,
            linestyle=line.dash,
            marker=line.marker,
            markersize=5 if line.is_chief else 4,
            linewidth=2.2 if line.is_chief else 1.4,
            markerfacecolor=line.colour if line.dash == "-" else "white",
            label=line.label,
            clip_on=False,
            zorder=(4 if line.is_chief else 3) + number / 100,
        )
        if line.low:
            axis.fill_between(line.xs, line.low, line.high, color=line.colour, alpha=0.15, linewidth=0)
        for x, y, text in zip(line.xs, line.ys, line.texts, strict=False):
            _write(axis, text, (x, y), (0, 6), ha="center", color=line.colour)
    for figure, label in panel.goals.items():
        axis.axhline(figure, color=INK, linestyle=(0, (5, 4)), linewidth=0.9, zorder=1)
        axis.annotate(
            label,
            (0.985, figure),
            xycoords=("axes fraction", "data"),
            fontsize=7,
            color=INK,
            va="bottom",
            ha="right",
        )
    xs = sorted({x for line in panel.lines for x in line.xs})
    drawn = [y for line in panel.lines for y in (*line.ys, *line.low, *line.high)]
    _scale(axis, xs, [*drawn, *panel.goals], is_linear=panel.is_linear)
    axis.set_xlabel(panel.xlabel, fontsize=9)
    axis.set_ylabel(panel.ylabel, fontsize=9)


def _scale(axis: Any, xs: Sequence[float], drawn: Sequence[float], *, is_linear: bool) -> None:
    """Logarithmic where figures lie far apart; where some are 0, linear around it."""
    if xs and xs[-1] >= 8 * xs[0] > 0:
        ticks = _apart(xs)
        axis.set_xscale("log")
        axis.set_xticks(ticks, [short(x) for x in ticks])
        axis.xaxis.minorticks_off()
    positive = [value for value in drawn if value > 0]
    if not is_linear and positive and max(positive) > 30 * min(positive):
        if len(positive) == len(drawn):
            axis.set_yscale("log")
            axis.set_ylim(bottom=min(positive) / 1.4)
        else:
            axis.set_yscale("symlog", linthresh=min(positive))
            axis.set_ylim(bottom=0)
        axis.set_ylim(top=max(positive) * 1.6)
        axis.yaxis.minorticks_off()
    else:
        axis.set_ylim(bottom=0, top=max(positive, default=1) * 1.08)
    axis.yaxis.set_major_formatter(lambda value, _: short(value))


def _apart(xs: Sequence[float]) -> list[float]:
    """Of these numbers, those that are far enough from one another to be written side by side."""
    apart = [xs[-1]]
    for x in reversed(xs[:-1]):
        if x * 1.45 <= apart[-1]:
            apart.append(x)
    return apart[::-1]


# -- bars --------------------------------------------------------------------------------------------------


def _labels(panel: Panel) -> list[str]:
    """The series of a panel that lie beside one another in a row."""
    return [""] if panel.is_stacked else list(dict.fromkeys(bar.label for bar in panel.bars))


def _most_in_a_row(panels: Iterable[Panel]) -> float:
    return max((max(1.0, len(_labels(panel)) / 2) for panel in panels if panel.bars), default=1.0)


def _fill_bars(axis: Any, panel: Panel) -> None:
    rows, labels = list(dict.fromkeys(bar.row for bar in panel.bars)), _labels(panel)
    thickness = 0.8 / len(labels)
    labelled: set[str] = set()
    for bar in panel.bars:
        lane = 0 if panel.is_stacked else labels.index(bar.label)
        at = rows.index(bar.row) + (lane - (len(labels) - 1) / 2) * thickness
        whisker = (
            None if bar.low is None or bar.high is None else [[bar.value - bar.low], [bar.high - bar.value]]
        )
        axis.barh(
            at,
            bar.value,
            thickness * 0.9,
            left=bar.left,
            color=bar.colour,
            xerr=whisker,
            ecolor=MUTED,
            label=None if bar.label in labelled else bar.label,
        )
        labelled.add(bar.label)
        if bar.mark is not None:
            axis.plot([bar.mark], [at], "D", color=INK, markersize=4, clip_on=False)
        if bar.text:
            _write(
                axis,
                bar.text,
                (bar.left + (bar.value if bar.high is None else bar.high), at),
                (4, 0),
                va="center",
            )
    axis.set_yticks(range(len(rows)), rows)
    axis.invert_yaxis()
    ends = (bar.left + max(bar.value, bar.high or 0.0, bar.mark or 0.0) for bar in panel.bars)
    axis.set_xlim(0, 1.2 * max(ends, default=1) or 1)
    axis.tick_params(axis="y", length=0)
    axis.xaxis.set_major_formatter(lambda value, _: short(value))
    axis.set_xlabel(panel.xlabel, fontsize=9)


# -- both --------------------------------------------------------------------------------------------------


def _write(axis: Any, text: str, at: tuple[float, float], offset: tuple[int, int], **style: Any) -> None:
    axis.annotate(
        text, at, xytext=offset, textcoords="offset points", fontsize=7.5, **{"color": MUTED, **style}
    )


def _dress(axis: Any, panel: Panel) -> None:
    """The title, and below it what it stands for; no frame."""
    subtitle = fill(panel.subtitle, 62)
    axis.set_title(subtitle, fontsize=8, color=MUTED, loc="left", pad=6)
    axis.annotate(
        panel.title,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 8 + 11 * (subtitle.count("\n") + 1 if subtitle else 0)),
        textcoords="offset points",
        fontsize=10.5,
        weight="bold",
        color=INK,
        annotation_clip=False,
    )
    axis.tick_params(labelsize=8.5, color=PALE)
    axis.grid(visible=True, which="major", axis="x" if panel.bars else "both", color=PALE, linewidth=0.7)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _legend(figure: Any, axes: Iterable[Any]) -> int:
    """Each series once, for all panels; how many lines that takes."""
    series: dict[str, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        series |= {label: handle for label, handle in zip(labels, handles, strict=True) if label}
    if not series:
        return 0
    columns = min(6, len(series))
    figure.legend(
        series.values(), series, loc="lower center", ncols=columns, frameon=False, fontsize=9, handlelength=3
    )
    return ceil(len(series) / columns)
