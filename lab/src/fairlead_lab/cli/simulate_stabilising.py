"""`fairlead simulate --stabilise`: how long brokers take to recover from any state, against the bounds."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

from fairlead.cli.terminal import Progress, complain, emit_json, note, say

if TYPE_CHECKING:
    from fairlead_lab.simulation import Cell, Scenario, Simulation
    from fairlead_lab.simulation.stabilising import Recovery

__all__ = ["run_stabilising"]

HEADS: Final = (
    "algorithm",
    "printed ms",
    "bound ms",
    "p50 ms",
    "max ms",
    "above printed",
    "above bound",
    "filters/s",
)
LEGEND: Final = (
    "From the damage to the state of all brokers until the last state that was wrong. printed: the bound of the "
    "book;\nbound: the corrected one. filters/s: messages about filters in a second, without faults."
)


def run_stabilising(
    arguments: argparse.Namespace,
    scenario: Scenario,
    cells: Sequence[Cell],
    watch: Callable[[Simulation], object] | None = None,
) -> int:
    """Damage, measure and show; the exit code: 1 if a run took longer than its bound."""
    from fairlead_lab.bench.tables import Grid
    from fairlead_lab.simulation.stabilising import stabilise

    started, progress = time.monotonic(), Progress("recoveries")
    recoveries: list[Recovery] = []
    try:
        for number, cell in enumerate(cells, start=1):
            sized = scenario.changed(brokers=cell.brokers)
            recoveries.append(stabilise(sized, cell.algorithm, cell.seed, watch=watch))
            progress.at(number)
    finally:
        progress.done()
    if arguments.out is not None:
        whole = json.dumps([each.to_json() for each in recoveries], indent=1)
        (arguments.out / "results.json").write_text(f"{whole}\n", encoding="utf-8")
        note(f"kept in {arguments.out}")
    late = [each for each in recoveries if not each.is_within_bound]
    if arguments.json:
        for each in recoveries:
            emit_json(each.to_json())
    else:
        by_algorithm: dict[str, list[Recovery]] = {}
        for each in recoveries:
            by_algorithm.setdefault(each.algorithm, []).append(each)
        lines = tuple(_line(name, own) for name, own in by_algorithm.items())
        say(Grid(f"{scenario.name}: recovery from any state", HEADS, lines).plain())
        say()
        say(LEGEND)
        if arguments.trace is not None:
            note(f"judge the trace with: fairlead audit {arguments.trace} --spec stabilising")
        note(f"{len(recoveries)} runs, {time.monotonic() - started:.1f} s")
    for each in late[:3]:
        took = "never recovers" if each.took is None else f"takes {each.took / 1_000:g} ms"
        complain(f"{each.algorithm} with seed {each.seed} {took}, the bound is {each.bound / 1_000:g} ms")
    return 1 if late else 0


def _line(name: str, own: Sequence[Recovery]) -> tuple[str, ...]:
    took = [each.took for each in own if each.took is not None]
    most = f"{max(took) / 1_000:,.0f}" if len(took) == len(own) else "never"
    return (
        name,
        f"{own[0].printed_bound / 1_000:,.0f}",
        f"{own[0].bound / 1_000:,.0f}",
        f"{median(took) / 1_000:,.0f}" if took else "-",
        most,
        f"{sum(each.took is None or each.took > each.printed_bound for each in own):,}",
        f"{sum(not each.is_within_bound for each in own):,}",
        f"{sum(each.messages for each in own) // len(own):,}",
    )
