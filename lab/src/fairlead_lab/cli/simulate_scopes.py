"""`fairlead simulate` for files with `kind = "scopes"`: the architectures of scopes."""

from __future__ import annotations

import argparse
import json
import time
from typing import Final

from fairlead.cli.inputs import BadInput
from fairlead.cli.terminal import Progress, complain, emit_json, note, say
from fairlead.errors import SimulationFailed

__all__ = ["run_scopes"]

NOT_HERE: Final = ("seeds", "brokers", "subscriptions", "trace", "check", "on", "master", "remote")
HEADS: Final = ("architecture", "messages", "accesses", "entries")
LEGEND: Final = (
    "messages: between brokers, per publication. accesses: to the communication medium, likewise. entries: of the "
    "tables of\nall brokers. All architectures deliver the same."
)


def run_scopes(arguments: argparse.Namespace) -> int:
    """Compare, show and keep; the exit code."""
    from dataclasses import replace

    from fairlead_lab.bench.tables import Grid, brief
    from fairlead_lab.simulation.scopes import ScopesScenario, compare_scopes, draw_scopes

    for option in NOT_HERE:
        if getattr(arguments, option):
            raise BadInput(f"--{option} is for routing, and {arguments.scenario} is about scopes")
    scenario = ScopesScenario.read(arguments.scenario)
    if arguments.seed is not None:
        scenario = replace(scenario, seed=arguments.seed)
    started, progress = time.monotonic(), Progress("depths of scope graphs")
    try:
        rows = compare_scopes(scenario, progress.at)
    except SimulationFailed as failure:
        complain(str(failure))
        return 1
    finally:
        progress.done()
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        whole = json.dumps([row.to_json() for row in rows], indent=1)
        (arguments.out / "results.json").write_text(f"{whole}\n", encoding="utf-8")
        draw_scopes(scenario, rows, arguments.out)
        note(f"kept in {arguments.out}")
    if arguments.json:
        for row in rows:
            emit_json(row.to_json())
        return 0
    for depth in scenario.depths:
        own = [row for row in rows if row.depth == depth]
        reached = own[0].deliveries / own[0].publications
        title = f"depth {depth}: {own[0].scopes:,} scopes, {reached:.1f} deliveries of each publication"
        lines = tuple(
            (
                row.architecture,
                brief(row.messages / row.publications),
                brief(row.accesses / row.publications),
                f"{row.entries:,}",
            )
            for row in own
        )
        say(Grid(title, HEADS, lines).plain())
        say()
    say(LEGEND)
    note(f"{time.monotonic() - started:.1f} s")
    return 0
