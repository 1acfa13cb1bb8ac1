"""The policies side by side as bars: what goes over links, how long it takes, who is loaded, what is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fairlead_lab.plotting import COLOURS, Bar, Panel, draw
from fairlead_lab.simulation.detection.runs import DetectionResults, DetectionRow
from fairlead_lab.simulation.plots import FORMATS

__all__ = ["draw_detection"]

KINDS: Final[Mapping[str, tuple[str, Callable[[DetectionRow], int]]]] = {
    "events": (COLOURS[0], lambda row: row.event_messages),
    "parts": (COLOURS[1], lambda row: row.part_messages),
    "composites": (COLOURS[2], lambda row: row.composite_messages),
    "heartbeats": ("#BBBBBB", lambda row: row.control_messages),
}
CONSUME: Final = {
    "guaranteed": COLOURS[0],
    "best effort": COLOURS[6],
    "timeout": COLOURS[2],
    "probable": COLOURS[3],
}


class Figure(NamedTuple):
    """A figure that is drawn, with a bar for each detection policy."""

    title: str
    unit: str
    value: Callable[[DetectionRow], float]
    mark: Callable[[DetectionRow], float] | None = None
    """A point beside the bar: the worst."""


FIGURES: Final = (
    Figure(
        "Detection delay",
        "ms from the end of a composite to its delivery: median, ◆ 99 %",
        lambda row: row.delay_us_median / 1_000,
        lambda row: row.delay_us_p99 / 1_000,
    ),
    Figure(
        "Load",
        "heard by the detectors of the busiest broker, % of events",
        lambda row: 100 * row.load_per_event,
    ),
    Figure("Detectors", "at all brokers", lambda row: row.detectors),
    Figure("Missing", "% of the composites", lambda row: 100 * row.missing / max(1, row.expected)),
    Figure("Wrong", "% of the composites", lambda row: 100 * row.wrong / max(1, row.expected)),
)
SURVIVAL: Final = Figure(
    "Reliability",
    "% of composites that still come when a host crashes: mean, ◆ least",
    lambda row: 100 * (row.survived_mean or 0.0),
    lambda row: 100 * (row.survived_least or 0.0),
)


def draw_detection(results: DetectionResults, directory: Path) -> list[Path]:
    """Write the bars as PNG and SVG; the files."""
    rows, figures = results.rows, list(FIGURES)
    if any(row.survived_mean is not None for row in rows):
        figures[2] = SURVIVAL
    if not any(row.missing or row.wrong for row in rows):
        figures = figures[:3]
    traffic = Panel(
        "Traffic", xlabel="messages over links, per event", bars=list(_traffic(rows)), is_stacked=True
    )
    panels = [traffic, *(Panel(each.title, xlabel=each.unit, bars=_bars(each, rows)) for each in figures)]
    scenario = results.scenario
    subtitle = (
        f"{len(scenario.topology.brokers)} brokers, {len(scenario.publishers)} publishers, "
        f"{len(scenario.subscriptions)} patterns, {rows[0].events:,} events, {rows[0].expected:,} composites; "
        f"heartbeats every {scenario.heartbeat_us / 1_000:g} ms; seed {scenario.seed}"
    )
    paths = [directory / f"policies.{format}" for format in FORMATS]
    title = f"Detection policies: {scenario.name}"
    return draw(title, subtitle, panels, paths, columns=2 if len(figures) == 3 else 3)


def _traffic(rows: Sequence[DetectionRow]) -> Iterator[Bar]:
    """Messages over links by kind; a row for each policy, with its consumption where there are several."""
    are_several = len({row.consume for row in rows}) > 1
    for row in rows:
        left = 0.0
        for kind, (colour, value) in KINDS.items():
            each = value(row) / max(1, row.events)
            yield Bar(f"{row.policy}, {row.consume}" if are_several else row.policy, kind, each, colour, left)
            left += each


def _bars(figure: Figure, rows: Sequence[DetectionRow]) -> list[Bar]:
    return [
        Bar(
            row.policy,
            row.consume,
            figure.value(row),
            CONSUME[row.consume],
            mark=None if figure.mark is None else figure.mark(row),
        )
        for row in rows
    ]
