"""The evaluation of FAIDECS (section 6): throughput and latency against the number of subscribers.

Subscribers are spread evenly over the levels of a setup, and ask for the following over types T1 … Tk, where
events have three attributes with values from 0 to 1000, all alike:

    A   level j: T1 ∧ … ∧ Tj, with a comparison between neighbours; all filtering is done by clients
    B   level j: T1 ∧ … ∧ Tj, with a bound for each type, at most half of the values; mergers filter
    C   Ti ∧ Tj with a comparison, for all pairs of types
    D   level j: (T1 ∧ T2) ∨ … ∨ (Tj-1 ∧ Tj), each with a comparison

One process multicasts the events of each type. For the throughput they come as fast as they can be taken; it is
the number of events that a subscriber delivers in a second. For the latency they come at a share of that rate;
it is the time from the multicast of an event to the delivery of a relation that it is part of. Both are given
for each level, and relative to those of ordered merging without replication, 10 subscribers and two types in
setup A.

Nothing is measured but the model: the time that processes take for messages, and that messages are under way.
It says who becomes the bottleneck, and when. What a library does besides, it does not say.

A scenario with `crashes` lets as many replicas of the first subscriber's role stop while the load is greatest, in
systems that can do without them. With `joins`, as many of the subscribers join while latency is measured.

Subscriptions are drawn for each subscriber, so that few of them are identical, and hardly any contains another:
covering agreement says nothing about few subscribers. With `variants` they choose among few subscriptions, of
which those of a level extend those of the level below.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from random import Random
from statistics import fmean
from typing import Any, Final, TypeAlias

from fairlead.audit.fair.run import Delivered, FairRun
from fairlead.audit.fair.run import Multicast as Multicasted
from fairlead.correlation.fair import Subscription, parse
from fairlead.errors import SimulationFailed
from fairlead.model import Notification
from fairlead.model.order import identity_of
from fairlead_lab.broker.fair import Directory
from fairlead_lab.broker.fair.messages import Multicast, Subscribe
from fairlead_lab.simulation.fair.network import FairSimulation
from fairlead_lab.simulation.fair.scenario import SYSTEMS, FairScenario
from fairlead_lab.simulation.fair.sharing import Sharing

__all__ = ["FairCell", "FairResults", "FairRow", "Watch", "evaluate", "fair_cells"]

NODES: Final = tuple(f"node {number}" for number in range(1_000))
"""So many that two roles rarely meet at one of them."""
PER_MACHINE: Final = 15
"""The number of subscribers that share a machine, as in the paper. The token goes round the machines."""
ATTRIBUTES: Final = "abc"
VALUE_MAX: Final = 1_000
BOUNDS: Final = range(250, 501, 50)
EVENTS: Final = (80, 400)
"""The number of events that a point is measured with, at least and at most."""
PART: Final = 0.9
"""The last tenth of the deliveries does not count: by then there is not enough to do."""
LONG_US: Final = 10**12
SETTLED_US: Final = 10_000
"""The time after the last message at which all subscribers are certainly established."""
CRASH_US: Final = 1_000
"""The time after the begin of the load, or after the crash before, at which a replica stops."""


@dataclass(frozen=True, slots=True)
class FairRow:
    """The performance of one system for the subscribers of one level."""

    setup: str
    system: str
    types: int
    subscribers: int
    level: int
    seed: int
    events: int
    """The number of events multicast for the throughput."""
    throughput: float
    """Events that a subscriber delivers in a second."""
    latency_ms: float
    throughput_relative: float = 0.0
    latency_relative: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The row in plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class FairCell:
    """One run of a comparison."""

    setup: str
    system: str
    types: int
    subscribers: int

    def run(self, scenario: FairScenario, watch: Watch | None = None) -> tuple[FairRow, ...]:
        """A row for each level; `watch` gets what has happened."""
        run = _Run(scenario, self)
        rows = run.rows()
        if watch is not None:
            watch(self, run.record())
        return rows


Watch: TypeAlias = Callable[[FairCell, FairRun], object]

BASE: Final = FairCell("A", "faidecs", 2, 10)
"""The run that all others are relative to."""


@dataclass(frozen=True, slots=True)
class FairResults:
    """The rows of runs that were compared."""

    scenario: FairScenario
    rows: tuple[FairRow, ...]

    def json(self) -> str:
        """The results as a file, a row in each line."""
        rows = ",\n".join(f"  {json.dumps(row.to_json())}" for row in self.rows)
        return f'{{"scenario": {json.dumps(self.scenario.to_json())},\n "rows": [\n{rows}\n]}}\n'

    def csv(self) -> str:
        """The rows as a table with a head."""
        written = io.StringIO()
        writer = csv.DictWriter(written, [each.name for each in fields(FairRow)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(row.to_json() for row in self.rows)
        return written.getvalue()


def fair_cells(scenario: FairScenario) -> tuple[FairCell, ...]:
    """All runs of a comparison."""
    types = scenario.types[-1:] if scenario.setup == "C" else scenario.types
    return tuple(
        FairCell(scenario.setup, system, count, subscribers)
        for count in types
        for subscribers in scenario.subscribers
        for system in scenario.systems
    )


def evaluate(
    scenario: FairScenario,
    progress: Callable[[FairCell, int, int], object] | None = None,
    watch: Watch | None = None,
) -> FairResults:
    """Run all systems on the same events and subscriptions.

    `progress` is called before each, with its number; `watch` after it, with what has happened.
    """
    base, *_ = BASE.run(scenario)
    cells = fair_cells(scenario)
    rows: list[FairRow] = []
    for number, cell in enumerate(cells, start=1):
        if progress is not None:
            progress(cell, number, len(cells))
        rows += [relative(row, base) for row in cell.run(scenario, watch)]
    return FairResults(scenario, tuple(rows))


def relative(row: FairRow, base: FairRow) -> FairRow:
    """A row with its figures relative to those of another one."""
    throughput, latency = row.throughput / base.throughput, row.latency_ms / base.latency_ms
    return FairRow(**{**asdict(row), "throughput_relative": throughput, "latency_relative": latency})


# -- a run -------------------------------------------------------------------------------------------------


class _Run:
    """A system with its subscribers, loaded twice."""

    def __init__(self, scenario: FairScenario, cell: FairCell) -> None:
        self._scenario = scenario
        self._cell = cell
        random = Random(f"subscriptions {scenario.seed} {cell.setup} {cell.types} {cell.subscribers}")
        asked = list(_subscriptions(cell, random, scenario.variants))
        self._first = asked[0][1].conjunctions[0]
        self._levels = {f"subscriber {number}": level for number, (level, _) in enumerate(asked)}
        self._random = Random(f"events {scenario.seed} {cell.setup} {cell.types} {cell.subscribers}")
        system = SYSTEMS[cell.system]
        stations = max(3, -(-cell.subscribers // PER_MACHINE))
        self._simulation = FairSimulation(
            Directory(NODES, system.ordering, stations if system.replicas is None else system.replicas),
            [*self._levels, *(f"producer {number}" for number in range(1, cell.types + 1))],
            seed=scenario.seed,
            delay=scenario.delay,
            costs=scenario.costs,
            interval_us=scenario.interval_us,
            matching=Sharing(),
        )
        calls = [(client, Subscribe(each)) for client, (_, each) in zip(self._levels, asked, strict=True)]
        first = max(1, len(calls) - scenario.joins)
        self._joining = calls[first:]
        for client, call in calls[:first]:
            self._simulation.at(0, client, call)
        self._finish()
        if scenario.joins or scenario.variants is not None:
            # Of events that come while some are busy with their last answer, not all have to agree.
            self._simulation.advance(self._simulation.now + SETTLED_US)
        self._numbered = 0

    def rows(self) -> tuple[FairRow, ...]:
        """The figures of each level."""
        scenario, cell = self._scenario, self._cell
        count = max(EVENTS[0], min(EVENTS[1], scenario.effort // cell.subscribers))
        pause = 1
        self._crash(scenario.crashes)
        burst = self._load(count, pause)
        # What was multicast in the time that it took is what the system can carry.
        _, duration = self._pace([each for found in burst.values() for each in found])
        pause = max(1, round(duration / (PART * count) * 100 / scenario.load_percent))
        throughputs = {level: self._throughput(found, level) for level, found in burst.items()}
        self._join(count // 2 * pause)
        latencies = {level: self._latency(found) for level, found in self._load(count // 2, pause).items()}
        if self._joining:  # so that there is something on which those who have joined agree with the others
            self._load(count // 2, pause)
        return tuple(
            FairRow(
                cell.setup,
                cell.system,
                cell.types,
                cell.subscribers,
                level,
                scenario.seed,
                count,
                throughputs[level],
                latencies.get(level, 0.0),
            )
            for level in sorted(throughputs)
        )

    def _load(self, count: int, pause_us: int) -> dict[int, list[Delivered]]:
        """Multicast events, type by type, and let all be delivered: what each level got."""
        simulation, types = self._simulation, self._cell.types
        seen = len(simulation.steps)
        self._begun = simulation.now
        for number in range(count):
            type = number % types + 1
            self._numbered += 1
            event = Notification.of(
                {
                    "id": str(self._numbered),
                    "producer": f"producer {type}",
                    "type": f"T{type}",
                    **{name: self._random.randint(0, VALUE_MAX) for name in ATTRIBUTES},
                }
            )
            simulation.at(self._begun + number * pause_us, f"producer {type}", Multicast(event))
        self._finish()
        self._multicast_at: dict[Any, float] = {}
        found: dict[int, list[Delivered]] = {}
        for step in simulation.steps[seen:]:
            if isinstance(step, Multicasted):
                self._multicast_at[identity_of(step.event)] = step.time
            elif isinstance(step, Delivered):
                found.setdefault(self._levels[step.process], []).append(step)
        return found

    def _crash(self, count: int) -> None:
        """Let replicas of a role stop soon after the load begins, so many or as many as can be done without."""
        directory, now = self._simulation.directory, self._simulation.now
        members = directory.members(directory.serving(self._first))
        for number, process in enumerate(members[: min(count, (directory.replicas - 1) // 2)], start=1):
            self._simulation.crash(now + number * CRASH_US, process)

    def _join(self, load_us: int) -> None:
        """Let the subscribers that are not there yet subscribe, one by one, in the first half of a load."""
        pause = load_us // (2 * len(self._joining) + 2)
        for number, (client, call) in enumerate(self._joining, start=1):
            self._simulation.at(self._simulation.now + number * pause, client, call)

    def record(self) -> FairRun:
        """The record of the run, from the beginning."""
        return self._simulation.record().run

    def _finish(self) -> None:
        if not self._simulation.come_to_rest(self._simulation.now + LONG_US):
            raise SimulationFailed(f"{self._cell} does not come to rest")

    def _throughput(self, deliveries: Sequence[Delivered], level: int) -> float:
        joining = {client for client, _ in self._joining}
        members = sum(each == level for client, each in self._levels.items() if client not in joining)
        events, duration_us = self._pace(deliveries)
        return events / members / duration_us * 1e6

    def _pace(self, deliveries: Sequence[Delivered]) -> tuple[int, float]:
        """The number of events that were delivered, and the time, before the load came to its end."""
        counted = sorted(deliveries, key=_time)[: max(1, round(PART * len(deliveries)))]
        return sum(len(each.relation) for each in counted), counted[-1].time - self._begun

    def _latency(self, deliveries: Sequence[Delivered]) -> float:
        delays = [
            each.time - self._multicast_at[identity]
            for each in deliveries
            for identity in map(identity_of, each.relation)
            if identity in self._multicast_at  # what was left over from the first load waited for long
        ]
        return fmean(delays) / 1_000 if delays else 0.0


def _time(delivery: Delivered) -> float:
    return delivery.time


# -- subscriptions -----------------------------------------------------------------------------------------


def _subscriptions(
    cell: FairCell, random: Random, variants: int | None = None
) -> Iterator[tuple[int, Subscription]]:
    """The level of each subscriber, and what it asks for."""
    levels = [2] if cell.setup == "C" else list(range(2, cell.types + 1))
    pairs = list(combinations(range(1, cell.types + 1), 2))
    words = " or " if cell.setup == "D" else " and "
    known: dict[int, list[str]] = {}
    for number in range(cell.subscribers):
        level = levels[number % len(levels)]
        if variants is None:
            terms = _terms(cell.setup, level, pairs[number % len(pairs)], random)
        else:
            chosen = number // len(levels) % variants
            if chosen not in known:
                known[chosen] = _terms(cell.setup, cell.types, pairs[chosen % len(pairs)], random)
            terms = known[chosen][: _length(cell.setup, level)]
        yield level, parse(words.join(terms))


def _terms(setup: str, level: int, pair: tuple[int, int], random: Random) -> list[str]:
    """The conditions of a subscription, those of the first types first."""
    if setup == "B":
        return [f"T{one}.a < {random.choice(BOUNDS)}" for one in range(1, level + 1)]
    if setup == "C":
        return [_compared(*pair, random)]
    return [_compared(one, one + 1, random) for one in range(1, level)]


def _length(setup: str, level: int) -> int:
    """The number of conditions that a subscription of a level has."""
    return {"B": level, "C": 1}.get(setup, level - 1)


def _compared(one: int, other: int, random: Random) -> str:
    sign = random.choice("<>")
    return f"T{one}.{random.choice(ATTRIBUTES)} {sign} T{other}.{random.choice(ATTRIBUTES)}"
