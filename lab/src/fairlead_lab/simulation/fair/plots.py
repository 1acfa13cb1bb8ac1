"""The curves of the evaluation: throughput above and latency below, a column for each number of types.

In each panel there is a line for each system, for its deepest level; and dotted lines for the levels above it, of
ordered merging alone, which is the only one that has levels. All is relative to the first point of setup A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from fairlead_lab.plotting import COLOURS, Line, Panel, draw
from fairlead_lab.simulation.fair.evaluation import FairResults, FairRow
from fairlead_lab.simulation.fair.scenario import SYSTEMS
from fairlead_lab.simulation.plots import FORMATS

__all__ = ["draw_fair"]

COLOUR: Final = dict(zip(SYSTEMS, (COLOURS[at] for at in (0, 0, 6, 6, 2)), strict=True))
MARKERS: Final = dict(zip(SYSTEMS, "ooss^", strict=True))
TITLES: Final = {
    "A": "conjunctions, filtered by clients",
    "B": "conjunctions, filtered by mergers",
    "C": "conjunctions over all pairs of types",
    "D": "disjunctions",
}
LEVELLED: Final = "faidecs"
Value = Callable[[FairRow], float]
FIGURES: Final[tuple[tuple[str, str, Value], ...]] = (
    ("Throughput", "events delivered per second, relative", lambda row: row.throughput_relative),
    ("Latency", "multicast to delivery, relative", lambda row: row.latency_relative),
)


def draw_fair(results: FairResults, directory: Path) -> list[Path]:
    """Write the curves as PNG and SVG; the files."""
    types = list(dict.fromkeys(row.types for row in results.rows))
    panels = [
        Panel(
            f"{title}, {count} types",
            xlabel="subscribers",
            ylabel=unit,
            lines=list(_lines(value, [row for row in results.rows if row.types == count])),
        )
        for title, unit, value in FIGURES
        for count in types
    ]
    scenario, costs = results.scenario, results.scenario.costs
    title = f"Fair correlation, setup {scenario.setup}: {TITLES[scenario.setup]}"
    subtitle = (
        f"{costs.receive_us} µs to receive a message, {costs.send_us} µs to send one; latency at "
        f"{scenario.load_percent} % of each system's throughput; seed {scenario.seed}"
    )
    paths = [directory / f"curves.{format}" for format in FORMATS]
    return draw(title, subtitle, panels, paths, columns=len(types))


def _lines(value: Value, rows: Sequence[FairRow]) -> Iterator[Line]:
    deepest = max(row.level for row in rows)
    for system in dict.fromkeys(row.system for row in rows):
        for level in sorted({row.level for row in rows}, reverse=True):
            if level != deepest and system != LEVELLED:
                continue
            points = {
                row.subscribers: value(row) for row in rows if (row.system, row.level) == (system, level)
            }
            xs = sorted(points)
            yield Line(
                SYSTEMS[system].title + ("" if level == deepest else f", level {level}"),
                xs,
                [points[x] for x in xs],
                colour=COLOUR[system],
                dash=":" if level != deepest else "--" if system.endswith("replicated") else "-",
                marker=MARKERS[system] if level == deepest else None,
                is_chief=level == deepest,
            )
