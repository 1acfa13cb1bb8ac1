"""The plot of the network benchmark: rates by setting, latency, safe publications, a line of brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from fairlead_lab.bench.network import FAIRLEAD, MOSQUITTO, NATS, Cell, Report
from fairlead_lab.bench.plot import COLOURS
from fairlead_lab.bench.runner import spread_of
from fairlead_lab.bench.tables import compact, sized
from fairlead_lab.plotting import pyplot, save

__all__ = ["draw"]

COLOUR: Final = {FAIRLEAD: COLOURS["columnar"], MOSQUITTO: COLOURS["brute"], NATS: COLOURS["ruler"]}
GREY: Final = "#555555"
TITLES: Final = {
    "throughput": "Delivered per second",
    "varied": "Delivered per second, prices vary",
    "latency": "Median latency at a fixed rate, µs",
    "durable": "Safe publications per second",
    "line": "Delivered per second, in a line",
}


def draw(report: Report, path: Path) -> None:
    """Write the plot of a report as a PNG: a panel for each part that was measured."""
    drawing = pyplot()
    parts = [part for part in TITLES if any(cell.part == part and cell.rates for cell in report.cells)]
    widths = [max(2, len(_settings(report, part))) for part in parts] or [1]
    figure, axes = drawing.subplots(
        1,
        max(1, len(parts)),
        figsize=(3.0 + 1.45 * sum(widths), 4.8),
        squeeze=False,
        gridspec_kw={"width_ratios": widths},
    )
    for panel, part in zip(axes[0], parts, strict=False):
        _panel(panel, report, part)
    machine = report.machine
    figure.suptitle("The network, 128-byte messages", fontsize=15, weight="bold")
    where = f"{machine['cpu']}, {machine['cores']} cores, {machine['date'][:10]}"
    figure.text(0.5, 0.885, where, ha="center", color=GREY)
    names = [name for name in COLOUR if any(cell.contender == name for cell in report.cells)]
    handles = [drawing.Rectangle((0, 0), 1, 1, color=COLOUR[name]) for name in names]
    figure.legend(handles, names, loc="lower center", ncols=len(names), frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 0.9))
    save(figure, [path])


def _settings(report: Report, part: str) -> list[tuple[str, int, int, int]]:
    return list(dict.fromkeys(cell.setting for cell in report.cells if cell.part == part))


def _panel(panel: Any, report: Report, part: str) -> None:
    """Bars side by side; the whiskers span the slowest to the fastest round."""
    settings = _settings(report, part)
    names = [name for name in COLOUR if any(c.contender == name and c.part == part for c in report.cells)]
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        for number, setting in enumerate(settings):
            cells = [c for c in report.cells if c.contender == name and c.setting == setting and c.rates]
            if not cells:
                continue
            spread = spread_of(_figures(cells[0]))
            at = number + (place - (len(names) - 1) / 2) * width
            whisker = [[spread.median - spread.min], [spread.max - spread.median]]
            panel.bar(at, spread.median, width * 0.94, color=COLOUR[name], yerr=whisker, ecolor=GREY)
            panel.annotate(
                compact(spread.median), (at, spread.max), ha="center", va="bottom", fontsize=8, color=GREY
            )
    panel.set_xticks(range(len(settings)), [_label(setting) for setting in settings], fontsize=9)
    panel.set_title(TITLES[part], fontsize=11)
    panel.yaxis.set_major_formatter(lambda value, _: compact(value) if value else "0")
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    panel.set_axisbelow(True)


def _figures(cell: Cell) -> list[float]:
    return cell.median_us if cell.part == "latency" else cell.rates


def _label(setting: tuple[str, int, int, int]) -> str:
    part, subscribers, others, brokers = setting
    if part in ("line", "varied"):
        who = "1 broker" if brokers == 1 else f"{brokers} brokers"
        return f"{who}\n+ {sized(others)} others" if others else who
    if part == "durable":
        return "fsync"
    who = f"{subscribers}\nsubscriber{'s' * (subscribers > 1)}"
    return f"{who}\n+ {sized(others)} others" if others else who
