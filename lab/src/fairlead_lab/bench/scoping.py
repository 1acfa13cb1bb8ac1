"""Scopes: the costs of building, changing and asking a graph, and of a pipeline with scopes against one without.

    a figure of a scoped pipeline    =    its time / that of the same pipeline without scopes, in the same round

The pipelines have the same notifications and subscriptions, one of each component, in 100 desks of ten groups.
`open` lets everything pass, so its deliveries are those without scopes: they are counted. `interfaces` has filters
both ways at every border, and delivers about half. With `mappings` one desk in twenty maps what crosses its
border, so that what it publishes, and what comes in to it, becomes a version. With `mapped borders` every desk
does.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from fairlead.model import Notification
from fairlead.scopes import ScopeGraph, ScopePlan, System, parse_statements
from fairlead_lab.bench.cores import Round, ratios, timed
from fairlead_lab.bench.jobs import CHUNK, Plan, Tell, notifications
from fairlead_lab.bench.runner import Spread, spread_of
from fairlead_lab.matching.shapes import SHAPES

if TYPE_CHECKING:
    from fairlead.spark.config import Config

__all__ = [
    "GRAPHS",
    "INTERFACES",
    "MAPPED",
    "MAPPINGS",
    "OPEN",
    "TIMES",
    "UNSCOPED",
    "GraphCost",
    "Scoped",
    "measure_graph",
    "measure_scopes",
]

UNSCOPED, OPEN, INTERFACES, MAPPINGS = "no scopes", "open", "interfaces", "mappings"
MAPPED: Final = "mapped borders"
TIMES: Final = 1.5
"""The goal for a scoped publication, in multiples of the cost without scopes."""
DESKS, GROUPS = 100, 10
BEGINNING_US: Final = 1_700_000_000_000_000
GRAPHS: Final = ((100, 10), (1_000, 10), (10_000, 10), (10_000, 2))
"""Numbers of scopes, each with the number of subscopes that a scope has."""
QUESTIONS: Final = 200


# -- the graph -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GraphCost:
    """Seconds of a core that a graph takes."""

    scopes: int
    components: int
    levels: int
    build_s: float
    join_s: float
    """A component joins a scope."""
    visible_s: float
    """A question whether one component is visible to another."""
    first_s: float
    """The time to find which of ten components sees a notification, asked for the first time."""
    again_s: float


def _graph_text(scopes: int, fanout: int) -> tuple[str, int]:
    """A tree of scopes with ten components in each and a filter at each border, and the number of its levels."""
    lines, level_of = [], [1] * scopes
    for number in range(scopes):
        below = [each for each in range(number * fanout + 1, number * fanout + fanout + 1) if each < scopes]
        for each in below:
            level_of[each] = level_of[number] + 1
        members = [*(f"s{each}" for each in below), *(f"c{10 * number + each}" for each in range(10))]
        passed = f"x > {number % 7}"
        lines.append(
            f"DEFINE SCOPE s{number} AS ALL FROM {', '.join(members)} INTERFACES INPUT({passed}), OUTPUT(1)"
        )
    return "\n".join(lines), max(level_of)


def measure_graph(scopes: int, fanout: int, rng: Random | None = None) -> GraphCost:
    """One graph, built from its statements, changed and asked."""
    rng = rng or Random(1)
    text, levels = _graph_text(scopes, fanout)
    statements = parse_statements(text)
    components = 10 * scopes
    started = time.process_time()
    system = System.of(statements)
    graph: ScopeGraph = system.graph
    build = time.process_time() - started
    names = [(f"c{rng.randrange(components)}", f"s{rng.randrange(scopes)}") for _ in range(QUESTIONS)]
    joins = parse_statements("\n".join(f"JOIN new{each} TO {scope}" for each, (_, scope) in enumerate(names)))

    def join() -> None:
        changed = system
        for statement in joins:
            changed = changed.apply(statement)
        _ = changed.graph

    plan = ScopePlan(graph)
    pairs = [(rng.randrange(components), rng.randrange(components)) for _ in range(QUESTIONS)]
    asked = [
        (
            Notification.of({"producer": f"c{one}", "id": str(number), "x": number % 8}),
            tuple(f"c{rng.randrange(components)}" for _ in range(10)),
        )
        for number, (one, _) in enumerate(pairs)
    ]

    def reach() -> None:
        for notification, those in asked:
            plan.reach(notification, partial(_given, those))

    return GraphCost(
        scopes,
        components,
        levels,
        build,
        _each(join),
        _each(lambda: [graph.visible(f"c{one}", f"c{other}") for one, other in pairs]),
        _each(reach),
        _each(reach),
    )


def _given(names: tuple[str, ...], _: Notification) -> tuple[str, ...]:
    return names


def _each(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) / QUESTIONS


# -- the pipeline --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scoped:
    """Pipelines with scopes and without, round by round."""

    rows: int
    subscriptions: int
    rounds: dict[str, tuple[Round, ...]] = field(default_factory=dict)
    """Of each contender; the first round is the cold one."""
    deliveries: dict[str, int] = field(default_factory=dict)

    def times(self, contender: str, cpu: bool = False) -> Spread | None:
        """The time of a contender as a multiple of that without scopes, warm."""
        found = ratios(self.rounds[contender], self.rounds[UNSCOPED], cpu=cpu)
        return spread_of(found) if found else None


def measure_scopes(spark: Any, plan: Plan, directory: Path, tell: Tell) -> tuple[Scoped, list[str]]:
    """The pipeline without scopes and with graphs of several kinds; and what was not as it must be."""
    from fairlead.spark.running import Pipeline

    home, problems = directory / "scopes", []
    rows, n = plan.events // 4, plan.subscriptions
    config = _written(home, rows, n)
    rounds: dict[str, list[Round]] = {}
    deliveries: dict[str, int] = {}
    contenders = {UNSCOPED: config}
    for kind in (OPEN, INTERFACES, MAPPINGS, MAPPED):
        contenders[kind] = _scoped(config, home, kind, n)

    def run(kind: str) -> None:
        deliveries[kind] = Pipeline(contenders[kind], spark).run().deliveries

    for number in range(plan.sample_rounds + 1):
        for kind in contenders:
            took = timed(partial(run, kind))
            rounds.setdefault(kind, []).append(took)
            shutil.rmtree(config.output)
            cold = "" if number else ", cold"
            tell(f"scopes: {kind} {took.seconds:.1f} s, {took.cpu_s or 0:.1f} s of cores{cold}")
    if deliveries[OPEN] != deliveries[UNSCOPED]:
        problems.append(
            f"scopes: {deliveries[OPEN]:,} deliveries in open scopes, {deliveries[UNSCOPED]:,} without"
        )
    return Scoped(rows, n, {kind: tuple(each) for kind, each in rounds.items()}, deliveries), problems


def _written(home: Path, rows: int, n: int) -> Config:
    """The notifications and subscriptions, with a pipeline for them."""
    from fairlead.spark.config import Config

    (home / "events").mkdir(parents=True)
    for start in range(0, rows, CHUNK):
        rng = Random(start)
        drawn = notifications(start, min(rows, start + CHUNK)).to_pylist()
        lines = (
            json.dumps({**row, "producer": f"u{rng.randrange(n)}", "time": BEGINNING_US + int(row["id"])})
            for row in drawn
        )
        (home / "events" / f"{start:09}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    with (home / "subscriptions.jsonl").open("w", encoding="utf-8") as file:
        for number, filter in enumerate(SHAPES["M1"].filters(n, Random(1))):
            category = str(filter).partition(" and ")[0].strip("(")  # so that a notification finds several
            row = {"id": f"s{number}", "subscriber": f"u{number}", "filter": category}
            file.write(f"{json.dumps(row)}\n")
    given = {
        "name": "scopes",
        "mode": "batch",
        "output": str(home / "out"),
        "events": {"path": str(home / "events"), "format": "json"},
        "subscriptions": {"path": str(home / "subscriptions.jsonl")},
        "report": False,
    }
    return Config.of(given)


def _scoped(config: Config, home: Path, kind: str, n: int) -> Config:
    from fairlead.spark.config import ScopesSource

    path = home / f"{kind}.scopes"
    path.write_text(_desks(kind, n))
    return replace(config, scopes=ScopesSource(str(path)))


def _desks(kind: str, n: int) -> str:
    """A world of groups of desks, with a border around each."""

    def border(number: int, one: str, other: str) -> str:
        if kind == OPEN:
            return "INTERFACES INPUT(1), OUTPUT(1)"
        return f"INTERFACES INPUT({one} > 0.{number % 5}), OUTPUT({other} > 0.{number % 4})"

    lines = [f"DEFINE SCOPE World AS ALL FROM {', '.join(f'g{each}' for each in range(GROUPS))}"]
    for group in range(GROUPS):
        desks = ", ".join(f"d{each}" for each in range(group, DESKS, GROUPS))
        lines.append(f"DEFINE SCOPE g{group} AS ALL FROM {desks} {border(group, 'x0', 'x1')}")
    for desk in range(DESKS):
        traders = ", ".join(f"u{each}" for each in range(desk, n, DESKS))
        mapping = "MAP OUTWARD { y = x4 * 1.08, DROP x4 } MAP INWARD { x4 = y, DROP y }"
        is_mapped = kind == MAPPED or (kind == MAPPINGS and desk % 20 == 0)
        mapped = f" {mapping}" if is_mapped else ""
        lines.append(f"DEFINE SCOPE d{desk} AS ALL FROM {traders} {border(desk, 'x2', 'x3')}{mapped}")
    return "\n".join(lines)
