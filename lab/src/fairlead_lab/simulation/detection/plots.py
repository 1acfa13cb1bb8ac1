"""The policies side by side as bars: what goes over links, how long it takes, who is loaded, what is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from fairlead_lab.plotting import pyplot, save
from fairlead_lab.simulation.detection.runs import DetectionResults, DetectionRow
from fairlead_lab.simulation.plots import FORMATS

__all__ = ["draw_detection"]

# Okabe and Ito's colours, which people who see few colours can tell apart as well.
KINDS: Final[Mapping[str, tuple[str, Callable[[DetectionRow], int]]]] = {
    "events": ("#0072B2", lambda row: row.event_messages),
    "parts": ("#E69F00", lambda row: row.part_messages),
    "composites": ("#009E73", lambda row: row.composite_messages),
    "heartbeats": ("#BBBBBB", lambda row: row.control_messages),
}
CONSUME: Final = {
    "guaranteed": "#0072B2",
    "best effort": "#D55E00",
    "timeout": "#009E73",
    "probable": "#CC79A7",
}


class Panel(NamedTuple):
    """A figure to be drawn, with a bar for each detection policy."""

    title: str
    unit: str
    value: Callable[[DetectionRow], float]
    mark: Callable[[DetectionRow], float] | None = None
    """A point beside the bar: the worst."""


PANELS: Final = (
    Panel(
        "Detection delay",
        "ms from the end of a composite to its delivery: median, ◆ 99 %",
        lambda row: row.delay_us_median / 1_000,
        lambda row: row.delay_us_p99 / 1_000,
    ),
    Panel(
        "Load",
        "heard by the detectors of the busiest broker, % of events",
        lambda row: 100 * row.load_per_event,
    ),
    Panel("Detectors", "at all brokers", lambda row: row.detectors),
    Panel("Missing", "% of the composites", lambda row: 100 * row.missing / max(1, row.expected)),
    Panel("Wrong", "% of the composites", lambda row: 100 * row.wrong / max(1, row.expected)),
)
SURVIVAL: Final = Panel(
    "Reliability",
    "% of composites that still come when a host crashes: mean, ◆ least",
    lambda row: 100 * (row.survived_mean or 0.0),
    lambda row: 100 * (row.survived_least or 0.0),
)


def draw_detection(results: DetectionResults, directory: Path) -> list[Path]:
    """Write the bars as PNG and SVG; the files."""
    drawing = pyplot()
    rows = results.rows
    panels = list(PANELS)
    if any(row.survived_mean is not None for row in rows):
        panels[2] = SURVIVAL
    if not any(row.missing or row.wrong for row in rows):
        panels = panels[:3]
    columns = 2 if len(panels) == 3 else 3
    lines = -(-(len(panels) + 1) // columns)
    policies = list(dict.fromkeys(row.policy for row in rows))
    consumes = list(dict.fromkeys(row.consume for row in rows))
    height = lines * (1.1 + 0.34 * len(policies) * max(1, len(consumes) / 2)) + 1.5
    figure, axes = drawing.subplots(
        lines, columns, figsize=(5.2 * columns, height), squeeze=False, sharey=True
    )
    _traffic(axes.flat[0], rows, policies, consumes)
    for axis, panel in zip(axes.flat[1:], panels, strict=False):
        _panel(axis, panel, rows, policies, consumes)
    for axis in axes.flat[len(panels) + 1 :]:
        axis.set_visible(False)
    axes.flat[0].set_yticks(range(len(policies)), policies)
    axes.flat[0].invert_yaxis()
    scenario = results.scenario
    figure.suptitle(f"Detection policies: {scenario.name}", fontsize=15, weight="bold", y=1 - 0.12 / height)
    subtitle = (
        f"{len(scenario.topology.brokers)} brokers, {len(scenario.publishers)} publishers, "
        f"{len(scenario.subscriptions)} patterns, {rows[0].events:,} events, {rows[0].expected:,} composites; "
        f"heartbeats every {scenario.heartbeat_us / 1_000:g} ms; seed {scenario.seed}"
    )
    figure.text(0.5, 1 - 0.62 / height, subtitle, ha="center", color="#555555")
    if len(consumes) > 1:
        handles, labels = axes.flat[1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False, fontsize=9.5)
    bottom = 0.35 if len(consumes) > 1 else 0.05
    figure.tight_layout(rect=(0, bottom / height, 1, 1 - 0.6 / height), w_pad=1.6, h_pad=1.6)
    return save(figure, [directory / f"policies.{format}" for format in FORMATS])


def _traffic(
    axis: Any, rows: Sequence[DetectionRow], policies: Sequence[str], consumes: Sequence[str]
) -> None:
    for kind, (colour, value) in KINDS.items():
        for row in rows:
            place, thickness = _place(row, policies, consumes)
            left = 0.0
            for before, (_, measure) in KINDS.items():
                if before == kind:
                    break
                left += measure(row) / max(1, row.events)
            label = kind if row is rows[0] else None
            axis.barh(place, value(row) / max(1, row.events), thickness, left=left, color=colour, label=label)
    _dressed(axis, "Traffic", "messages over links, per event")
    axis.legend(
        fontsize=8,
        frameon=False,
        loc="lower center",
        bbox_to_anchor=(0.6, 1.0),
        ncols=4,
        handlelength=1,
        columnspacing=1,
    )


def _panel(
    axis: Any, panel: Panel, rows: Sequence[DetectionRow], policies: Sequence[str], consumes: Sequence[str]
) -> None:
    labelled: set[str] = set()
    for row in rows:
        place, thickness = _place(row, policies, consumes)
        label = None if row.consume in labelled else row.consume
        labelled.add(row.consume)
        axis.barh(place, panel.value(row), thickness, color=CONSUME[row.consume], label=label)
        if panel.mark is not None:
            axis.plot([panel.mark(row)], [place], "D", color="#222222", markersize=4, clip_on=False)
    _dressed(axis, panel.title, panel.unit)


def _place(row: DetectionRow, policies: Sequence[str], consumes: Sequence[str]) -> tuple[float, float]:
    """Where a bar stands, and how thick it is."""
    thickness = 0.78 / len(consumes)
    offset = consumes.index(row.consume) - (len(consumes) - 1) / 2
    return policies.index(row.policy) + offset * thickness, thickness * 0.9


def _dressed(axis: Any, title: str, unit: str) -> None:
    axis.set_title(title, fontsize=11, weight="bold", loc="left")
    axis.set_xlabel(unit, fontsize=9)
    axis.set_xlim(left=0)
    axis.tick_params(labelsize=9)
    axis.grid(True, axis="x", color="#E4E4E4", linewidth=0.7)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
