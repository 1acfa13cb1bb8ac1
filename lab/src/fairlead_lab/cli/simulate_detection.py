"""`fairlead simulate` for files with `kind = "detection"`: policies for the detection of composite events."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fairlead.cli.inputs import BadInput
from fairlead.cli.terminal import Progress, complain, emit_json, note, say
from fairlead.errors import SimulationFailed

if TYPE_CHECKING:
    from fairlead_lab.bench.tables import Grid
    from fairlead_lab.simulation.detection import DetectionResults, DetectionRow

__all__ = ["run_detection"]

NOT_HERE: Final = ("seeds", "brokers", "subscriptions", "trace", "check")
HEADS: Final = (
    "policy",
    "detectors",
    "events",
    "parts",
    "composites",
    "heartbeats",
    "all",
    "busiest",
    "delay ms",
    "p99",
    "missing",
    "wrong",
    "survives",
    "least",
)
LEGEND: Final = (
    "events to all: messages over links, per event. busiest: what the detectors of one broker hear, in % of "
    "events. delay: from\nthe end of a composite to its delivery. survives: composites that still come when a "
    "host crashes, mean over hosts, and the least."
)


def run_detection(arguments: argparse.Namespace) -> int:
    """Compare, show and keep; the exit code."""
    from fairlead_lab.cli.simulate import refuse_location, spark_for
    from fairlead_lab.simulation.detection import DetectionScenario, compare_detection

    for option in NOT_HERE:
        if getattr(arguments, option):
            raise BadInput(f"--{option} is for routing, and {arguments.scenario} is about detection")
    scenario = DetectionScenario.read(arguments.scenario).changed(
        policies=arguments.algorithm, seed=arguments.seed
    )
    refuse_location(arguments)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    progress = Progress("runs of detection")
    try:
        if arguments.on:
            from fairlead_lab.spark.sweeps import sweep_detection

            results = sweep_detection(spark_for(arguments), scenario)
        else:
            results = compare_detection(scenario, progress.at)
    except SimulationFailed as failure:
        complain(str(failure))
        return 1
    finally:
        progress.done()
    if arguments.out is not None:
        _keep(results, arguments)
    if arguments.json:
        for row in results.rows:
            emit_json(row.to_json())
        return 0
    for grid in _grids(results):
        say(grid.plain())
        say()
    say(LEGEND)
    note(f"{time.monotonic() - started:.1f} s")
    return 0


def _keep(results: DetectionResults, arguments: argparse.Namespace) -> None:
    from fairlead_lab.simulation.detection.plots import draw_detection

    (arguments.out / "results.json").write_text(results.json(), encoding="utf-8")
    (arguments.out / "results.csv").write_text(results.csv(), encoding="utf-8")
    draw_detection(results, arguments.out)
    note(f"kept in {arguments.out}")


def _grids(results: DetectionResults) -> Iterator[Grid]:
    """A table for each detection policy: the distribution policies below one another."""
    from fairlead_lab.bench.tables import Grid

    for consume in dict.fromkeys(row.consume for row in results.rows):
        rows = [row for row in results.rows if row.consume == consume]
        title = f"{consume}; {rows[0].events:,} events, {rows[0].expected:,} composites, seed {rows[0].seed}"
        yield Grid(title, HEADS, tuple(map(_line, rows)))


def _line(row: DetectionRow) -> tuple[str, ...]:
    from fairlead_lab.bench.tables import brief

    def each(messages: int) -> str:
        return brief(messages / max(1, row.events))

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.0%}"

    return (
        row.policy,
        f"{row.detectors:,}",
        each(row.event_messages),
        each(row.part_messages),
        each(row.composite_messages),
        each(row.control_messages),
        each(row.messages),
        f"{row.load_per_event:.0%}",
        brief(row.delay_us_median / 1_000),
        brief(row.delay_us_p99 / 1_000),
        f"{row.missing:,}",
        f"{row.wrong:,}",
        share(row.survived_mean),
        share(row.survived_least),
    )
