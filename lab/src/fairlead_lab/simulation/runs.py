"""From a scenario to figures: a run gives whole curves, and runs that are compared must deliver the same.

    rows = run(scenario, "covering")
    results = compare(scenario)

Subscriptions arrive up to a checkpoint, the network comes to rest, the publications of that checkpoint are
measured, and then it goes on to the next. What was delivered is compared with what the workload asks for, at
every checkpoint; what fails says how to repeat it.
"""

from __future__ import annotations

import csv
import gc
import io
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from fairlead.broker import Broker
from fairlead.errors import FairleadError, SimulationFailed
from fairlead.matching import engine_named
from fairlead.routing import Catalogue
from fairlead_lab.broker import SpreadingBroker
from fairlead_lab.broker.ring import Depart, Enter
from fairlead_lab.simulation.algorithms import ALGORITHMS
from fairlead_lab.simulation.metrics import CAPACITY_FIGURES, Metrics, Row
from fairlead_lab.simulation.network import Simulation
from fairlead_lab.simulation.scenario import RingPlan, Scenario
from fairlead_lab.simulation.workload import LocatedCall, Workload, workload_of

if TYPE_CHECKING:
    from fairlead.overlay import Topology
    from fairlead_lab.simulation.secured import Secured

__all__ = ["Cell", "Results", "cells_of", "compare", "run"]

JOIN_EVERY_US: Final = 5_000
"""The time from one broker that joins the first ring to the next."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a comparison: an algorithm, a number of brokers, a seed."""

    algorithm: str
    brokers: int
    seed: int

    def command(self, scenario: Scenario, *, check: bool = False) -> str:
        """The command that repeats this run alone."""
        words = ["fairlead", "simulate", scenario.source, "--algorithm", self.algorithm]
        words += ["--seed", str(self.seed), "--brokers", str(self.brokers)]
        words += ["--subscriptions", *map(str, scenario.workload.checkpoints)]
        return shlex.join([*words, "--check"] if check else words)

    def run(
        self,
        scenario: Scenario,
        *,
        check: bool = False,
        watch: Callable[[Simulation], object] | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> tuple[Row, ...]:
        """The rows of this run."""
        chosen = scenario.changed(brokers=self.brokers)
        return run(chosen, self.algorithm, seed=self.seed, check=check, watch=watch, progress=progress)


@dataclass(frozen=True, slots=True)
class Results:
    """The rows of runs that were compared."""

    scenario: Scenario
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        if not self.scenario.loses:
            _check_agreement(self.scenario, self.rows)

    def to_json(self) -> dict[str, Any]:
        """The scenario and the rows."""
        return {"scenario": self.scenario.to_json(), "rows": [row.to_json() for row in self.rows]}

    def json(self) -> str:
        """The results as a file, a row in each line."""
        rows = ",\n".join(f"  {json.dumps(row.to_json())}" for row in self.rows)
        return f'{{"scenario": {json.dumps(self.scenario.to_json())},\n "rows": [\n{rows}\n]}}\n'

    def csv(self) -> str:
        """The rows as a table with a head."""
        text = io.StringIO()
        names = [each.name for each in fields(Row)]
        if not self.scenario.capacity:
            names = [name for name in names if name not in CAPACITY_FIGURES]
        writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(row.to_json() for row in self.rows)
        return text.getvalue()


def run(
    scenario: Scenario,
    algorithm: str,
    *,
    seed: int | None = None,
    check: bool = False,
    watch: Callable[[Simulation], object] | None = None,
    progress: Callable[[int], object] | None = None,
) -> tuple[Row, ...]:
    """Simulate one algorithm: a row for each checkpoint; SimulationFailed where it does not do what it should.

    With `check` every state is checked against the specification of routing, which takes its time. `watch` is
    given the simulation before it starts, to add observers to it; `progress` is called now and then with the
    number of steps taken.
    """
    seed = scenario.seed if seed is None else seed
    cell = Cell(algorithm, scenario.overlay.brokers, seed)
    rows: list[Row] = []

    def watched(simulation: Simulation) -> None:
        if check:
            _check(simulation)
        if watch is not None:
            watch(simulation)

    try:
        with _uncollected():
            rows.extend(_run(scenario, cell, watched, progress))
    except Exception as error:
        reached = f"after the {rows[-1].subscriptions:,} subscriptions that went well: " if rows else ""
        kind = "" if isinstance(error, FairleadError | _Wrong) else f"{type(error).__name__}: "
        problem = f"{reached}{kind}{error}"
        raise _failed(scenario, cell, problem, check=check) from error
    return tuple(rows)


def _check(simulation: Simulation) -> None:
    """By the specification of one tree, or by what can be said where there are several."""
    from fairlead_lab.simulation.checking import Checker, is_of_a_tree
    from fairlead_lab.simulation.forests import ForestChecker
    from fairlead_lab.simulation.spreading import SpreadChecker

    if any(each.seam.rules for each in simulation.brokers.values() if isinstance(each, Broker)):
        return  # what brokers are told follows from trust, which is checked in any case
    if all(map(is_of_a_tree, simulation.brokers.values())):
        Checker(simulation)
    elif any(isinstance(each, SpreadingBroker) for each in simulation.brokers.values()):
        SpreadChecker(simulation)
    else:
        ForestChecker(simulation)


class _Wrong(Exception):
    """Something else was delivered than the workload asks for."""


def _run(
    scenario: Scenario,
    cell: Cell,
    watch: Callable[[Simulation], object],
    progress: Callable[[int], object] | None,
) -> Iterator[Row]:
    if scenario.security:
        scenario = replace(scenario, seed=cell.seed)
    topology = scenario.topology(cell.seed)
    workload = workload_of(scenario, cell.seed)
    catalogue = Catalogue(engine_named("columnar"))
    make = ALGORITHMS[cell.algorithm].makes(scenario, topology, catalogue)
    metrics = Metrics(progress)
    secured = _secured(scenario, topology, workload)
    if secured is not None:
        metrics.decide = secured.decide
    simulation = Simulation(
        map(make, topology.brokers),
        seed=cell.seed,
        delay=scenario.delay,
        faults=scenario.faults,
        capacity=scenario.capacity,
        keyed=scenario.keyed,
        remake=make,
        observers=[metrics],
    )
    watch(simulation)
    if secured is not None:
        secured.watch(simulation)
    brokers = simulation.brokers
    # One workload serves all algorithms of a scenario, and some of them refuse advertisements.
    advertisements = [
        each for each in workload.advertisements if brokers[each[0]].settings.advertisements is not None
    ]
    rests: int | None = scenario.rest_us if scenario.faults.has_events else None
    by_messages = ALGORITHMS[cell.algorithm].ringed and scenario.ring.by_messages
    if by_messages:  # brokers beat all the time
        rests = scenario.ring.settle_us
        _form_ring(scenario.ring, simulation, topology.brokers)
    _happen(scenario, simulation, advertisements, rests)
    for phase in workload.phases:
        changes, publications, expected = phase.changes, phase.publications, phase.expected
        if secured is not None:
            changes, publications = tuple(secured.calls(changes)), tuple(secured.calls(publications))
            expected = secured.expected(phase)
        _happen(scenario, simulation, changes, rests)
        if by_messages:
            _change_ring(scenario.ring, simulation, topology.brokers[0], phase.subscriptions)
        metrics.begin()
        _happen(scenario, simulation, publications, rests)
        if secured is not None:
            secured.check()
        row = metrics.row(
            simulation.brokers.values(),
            expected,
            algorithm=cell.algorithm,
            topology=scenario.overlay.shape,
            subscriptions=phase.subscriptions,
            seed=cell.seed,
        )
        is_right = row.is_right if ALGORITHMS[cell.algorithm].complete else row.is_safe
        if not (scenario.loses or is_right):
            raise _Wrong(_difference(row, metrics, expected))
        yield row


def _secured(scenario: Scenario, topology: Topology, workload: Workload) -> Secured | None:
    if not scenario.security:
        return None
    from fairlead_lab.simulation.secured import Secured

    return Secured(scenario, topology, workload)


def _form_ring(ring: RingPlan, simulation: Simulation, brokers: Sequence[str]) -> None:
    """Let brokers join one after the other, through the first."""
    for number, name in enumerate(name for name in brokers if name not in ring.newcomers()):
        simulation.at(simulation.now + number * JOIN_EVERY_US, name, Enter(brokers[0] if number else None))
    simulation.run(simulation.now + len(brokers) * JOIN_EVERY_US + ring.settle_us)


def _change_ring(ring: RingPlan, simulation: Simulation, first: str, checkpoint: int) -> None:
    """Let brokers join, leave and fail, all at once, and the others repair the ring."""
    changes = [change for change in ring.changes if change.at == checkpoint]
    for change in changes:
        if change.what == "fails":
            simulation.fail(change.broker)
        else:
            simulation.call(change.broker, Enter(first) if change.what == "joins" else Depart())
    if changes:
        simulation.run(simulation.now + ring.settle_us)


def _happen(
    scenario: Scenario, simulation: Simulation, calls: Sequence[LocatedCall], rests: int | None
) -> None:
    """Let clients call one after the other, and the network come to rest: for so long, if it never does."""
    if not calls:
        return
    last = simulation.now
    for number, (broker, call) in enumerate(calls):
        last = simulation.now + number * scenario.workload.every_us
        simulation.at(last, broker, call)
    # A fault that is still to come keeps the simulation busy; waiting for it would bring it about now.
    simulation.run(until=None if rests is None else last + rests)


def _difference(row: Row, metrics: Metrics, expected: frozenset[Any]) -> str:
    """The difference between the deliveries and those expected, with one example of each kind."""
    delivered = frozenset(metrics.delivered)
    parts = []
    if row.refused:
        refusal = metrics.refusals[0]
        parts.append(f"{row.refused} calls were refused, such as one of {refusal.client}: {refusal.reason}")
    if row.missing:
        client, notification, ids = min(expected - delivered)
        parts.append(f"{row.missing} deliveries are missing, such as {notification} to {client} for {ids[0]}")
    if row.unasked:
        extra = sorted(delivered - expected) or sorted(metrics.delivered)
        client, notification, _ = extra[0]
        parts.append(f"{row.unasked} deliveries are too many, such as {notification} to {client}")
    return f"at {row.subscriptions} subscriptions {'; '.join(parts)}"


def _failed(scenario: Scenario, cell: Cell, problem: str, *, check: bool = False) -> SimulationFailed:
    return SimulationFailed(
        f"{cell.algorithm} on {cell.brokers} brokers with seed {cell.seed}, {problem}",
        hint=f"this repeats it: {cell.command(scenario, check=check)}",
    )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Tables of millions of entries hold no garbage, and looking for it among them takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# -- comparing ---------------------------------------------------------------------------------------------


def cells_of(
    scenario: Scenario, *, brokers: Iterable[int] = (), seeds: Iterable[int] = ()
) -> tuple[Cell, ...]:
    """All runs of a comparison: sizes, then seeds, then algorithms, so that those of one workload are together."""
    sizes = tuple(brokers) or (scenario.overlay.brokers,)
    chosen = tuple(seeds) or (scenario.seed,)
    return tuple(
        Cell(algorithm, size, seed)
        for size in sizes
        for seed in chosen
        for algorithm in scenario.routing.algorithms
    )


def compare(
    scenario: Scenario,
    cells: Iterable[Cell] | None = None,
    *,
    check: bool = False,
    watch: Callable[[Simulation], object] | None = None,
    progress: Callable[[Cell, int], object] | None = None,
) -> Results:
    """Run all algorithms on the same scenario; SimulationFailed unless all deliver the same."""
    rows: list[Row] = []
    for cell in cells_of(scenario) if cells is None else cells:
        progress_of_cell = None if progress is None else lambda steps, cell=cell: progress(cell, steps)
        rows += cell.run(scenario, check=check, watch=watch, progress=progress_of_cell)
    return Results(scenario, tuple(rows))


def _check_agreement(scenario: Scenario, rows: Iterable[Row]) -> None:
    first: dict[tuple[int, int, int], Row] = {}
    for row in rows:
        if not ALGORITHMS[row.algorithm].complete:
            continue
        other = first.setdefault((row.brokers, row.subscriptions, row.seed), row)
        if row.delivered != other.delivered:
            cell = Cell(row.algorithm, row.brokers, row.seed)
            raise _failed(
                scenario,
                cell,
                f"at {row.subscriptions} subscriptions: it delivers otherwise than {other.algorithm}",
            )
