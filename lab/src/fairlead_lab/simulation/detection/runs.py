"""From a scenario to rows of figures: distribution and detection policies on the same events.

What has to be found is known: the composites of the patterns on all events in their total order, found by one
detector that has them all. Under the guaranteed policy, and without faults, every run must find exactly these.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from random import Random
from statistics import fmean
from typing import Any, Final

from fairlead.correlation.patterns import Detector, Occurrence, Pattern
from fairlead.errors import SimulationFailed
from fairlead.matching.brute import Brute
from fairlead.model import Notification
from fairlead.model.order import OrderKey, event_time
from fairlead_lab.broker.detection import POLICIES, Consume, Migrate
from fairlead_lab.simulation.delays import Delay
from fairlead_lab.simulation.detection.network import CompositeReceived, DetectionNetwork
from fairlead_lab.simulation.detection.scenario import DetectionScenario
from fairlead_lab.simulation.faults import NO_FAULTS, Crash, Faults

__all__ = [
    "DetectionResults",
    "DetectionRow",
    "compare_detection",
    "detect_in_order",
    "detection_cells",
    "detection_row",
]

DRAIN_US: Final = 1_000_000
"""The time a run goes on behind the last event, until all that is under way has come."""
RECENT_US: Final = 1_000_000
"""Over which time rates are observed."""


@dataclass(frozen=True, slots=True)
class DetectionRow:
    """The cost of a pair of policies, and its quality."""

    policy: str
    consume: str
    seed: int
    events: int
    """Events that were published."""
    detectors: int
    hosts: int
    """The brokers at which they are."""
    moved: int
    """The number of times one of them moved."""
    event_messages: int
    """Messages over links: events, matches of parts, composites, heartbeats and the like, filters."""
    part_messages: int
    composite_messages: int
    control_messages: int
    admin_messages: int
    load_max: int
    """Notifications that the detectors at the busiest broker heard."""
    busiest: str
    delay_us_median: int
    """From the end of a composite to its delivery."""
    delay_us_p99: int
    expected: int
    detected: int
    missing: int
    wrong: int
    repeated: int
    late: int
    survived_mean: float | None = None
    """The share of composites behind the crash of a host that still come: mean over all hosts, and the least."""
    survived_least: float | None = None

    @property
    def messages(self) -> int:
        """Notifications over links, without those about filters."""
        return self.event_messages + self.part_messages + self.composite_messages + self.control_messages

    @property
    def load_per_event(self) -> float:
        """The share of events that the busiest broker's detectors hear, which may be more than one."""
        return self.load_max / max(1, self.events)

    @property
    def errors(self) -> float:
        """Composites that are missing, or should not be, as a share of what is expected."""
        return (self.missing + self.wrong) / max(1, self.expected)

    def to_json(self) -> dict[str, Any]:
        """The row in plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class DetectionResults:
    """The rows of runs that were compared."""

    scenario: DetectionScenario
    rows: tuple[DetectionRow, ...]

    def json(self) -> str:
        """The results as a file, a row in each line."""
        rows = ",\n".join(f"  {json.dumps(row.to_json())}" for row in self.rows)
        return f'{{"scenario": {json.dumps(self.scenario.to_json())},\n "rows": [\n{rows}\n]}}\n'

    def csv(self) -> str:
        """The rows as a table with a head."""
        written = io.StringIO()
        writer = csv.DictWriter(written, [each.name for each in fields(DetectionRow)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(row.to_json() for row in self.rows)
        return written.getvalue()


def compare_detection(
    scenario: DetectionScenario, starting: Callable[[int], object] | None = None
) -> DetectionResults:
    """Run all policies on the same events; `told` is called before each run, with its number."""
    rows: list[DetectionRow] = []
    for policy, consume in detection_cells(scenario):
        if starting is not None:
            starting(len(rows) + 1)
        rows.append(detection_row(scenario, policy, consume))
    return DetectionResults(scenario, tuple(rows))


def detection_cells(scenario: DetectionScenario) -> tuple[tuple[str, str], ...]:
    """All runs of a comparison: a distribution policy and a detection policy each."""
    return tuple((policy, consume) for consume in scenario.consume for policy in scenario.policies)


def detect_in_order(
    patterns: dict[str, Pattern], events: Iterable[Notification], until: int
) -> dict[tuple[str, str], int]:
    """By the ids of subscription and composite, when it ends: all that end before a time, in the total order."""
    detector = Detector(Brute())
    for id, pattern in patterns.items():
        detector.add(id, pattern)
    for event in events:
        detector.feed(Occurrence.of(event, OrderKey.of(event)))
    return {
        (id, found.composite.id): found.composite.end for found in detector.advance(until) for id in found.ids
    }


@dataclass(frozen=True, slots=True)
class _Run:
    """One run: the network when it is over, and the time and traffic of publishing."""

    network: DetectionNetwork
    traffic: Counter[str]
    began: int
    until: int

    def got(self) -> dict[tuple[str, str], CompositeReceived]:
        """The composites that subscribers got, of those that end before the last event."""
        return {
            (each.subscription, each.id): each for each in self.network.deliveries if each.end < self.until
        }


def detection_row(scenario: DetectionScenario, policy: str, consume: str) -> DetectionRow:
    """The figures of one run; SimulationFailed where the guaranteed policy misses something."""
    run = _run(scenario, policy, consume)
    network = run.network
    patterns = {f"s{number}": each.pattern for number, each in enumerate(scenario.subscriptions, start=1)}
    expected = detect_in_order(patterns, network.published, run.until)
    got = run.got()
    missing, wrong = expected.keys() - got.keys(), got.keys() - expected.keys()
    if Consume(consume) is Consume.GUARANTEED and scenario.fail_us is None and (missing or wrong):
        raise SimulationFailed(
            f"{policy}, {consume}, seed {scenario.seed}: {len(missing)} composites are missing, "
            f"{len(wrong)} should not be",
            hint=f"fairlead simulate {scenario.source} --algorithm '{policy}' --seed {scenario.seed}",
        )
    delays = sorted(each.time - each.end for each in got.values()) or [0]
    (busiest, load), *_ = sorted(network.consumed.items(), key=lambda each: (-each[1], each[0])) or [("", 0)]
    row = DetectionRow(
        policy=policy,
        consume=consume,
        seed=scenario.seed,
        events=len(network.published),
        detectors=len(network.directory.detectors),
        hosts=len({each.broker for each in network.directory.detectors.values()}),
        moved=sum(isinstance(action, Migrate) for _, action in network.actions),
        event_messages=run.traffic["events"],
        part_messages=run.traffic["parts"],
        composite_messages=run.traffic["composites"],
        control_messages=run.traffic["control"],
        admin_messages=run.traffic["admin"],
        load_max=load,
        busiest=busiest,
        delay_us_median=delays[len(delays) // 2],
        delay_us_p99=delays[len(delays) * 99 // 100],
        expected=len(expected),
        detected=len(got),
        missing=len(missing),
        wrong=len(wrong),
        repeated=network.repeated,
        late=network.late,
    )
    if scenario.crash_us is None:
        return row
    survived = list(_survived(scenario, policy, consume, run, expected))
    return replace(row, survived_mean=round(fmean(survived), 4), survived_least=round(min(survived), 4))


def _survived(
    scenario: DetectionScenario,
    policy: str,
    consume: str,
    run: _Run,
    expected: dict[tuple[str, str], int],
) -> Iterator[float]:
    """For each host, the share of composites that end behind its crash and still come."""
    assert scenario.crash_us is not None
    at = run.began + scenario.crash_us
    after = {each for each, end in expected.items() if end >= at}
    used = {each.broker for each in run.network.directory.detectors.values()}
    for host in scenario.hosts or scenario.topology.brokers:
        if host not in used:
            yield 1.0
            continue
        faults = Faults(crashes=(Crash(host, at),))
        crashed = _run(scenario, policy, consume, faults)
        yield len(after & crashed.got().keys()) / max(1, len(after))


def _run(scenario: DetectionScenario, policy: str, consume: str, faults: Faults = NO_FAULTS) -> _Run:
    network = DetectionNetwork(
        scenario.topology,
        [each.publisher for each in scenario.publishers],
        seed=scenario.seed,
        delay=scenario.delay,
        faults=faults,
        hosts=scenario.hosts,
        detection=scenario.detection(consume),
        heartbeat_us=scenario.heartbeat_us,
    )
    for number, each in enumerate(scenario.subscriptions, start=1):
        network.subscribe(f"s{number}", each.pattern, each.broker, POLICIES[policy])
        network.settle()
    network.traffic.clear()
    began = network.now
    until = began + scenario.duration_us
    _publish(scenario, network, began)
    if scenario.adapt_us is not None:
        network.at(began + scenario.adapt_us, lambda: network.adapt(_rates(network)))
    if scenario.fail_us is not None:
        failing = scenario.publishers[0].publisher.name
        network.at(began + scenario.fail_us, lambda: network.silence(failing))
    network.run(until)
    traffic = Counter(network.traffic)
    network.run(until + DRAIN_US)
    return _Run(network, traffic, began, until)


def _publish(scenario: DetectionScenario, network: DetectionNetwork, began: int) -> None:
    """Plan the events: the same for all policies, from where they begin."""
    for plan in scenario.publishers:
        name = plan.publisher.name
        chance = Random(f"{name} {scenario.seed}")
        early = Delay(0, plan.every_us, "exponential").drawn(chance)
        late = Delay(0, plan.later_every_us or plan.every_us, "exponential").drawn(chance)
        time = early()
        while time < scenario.duration_us:
            event = {"type": plan.type, "k": chance.randrange(plan.keys), "x": chance.randrange(plan.values)}
            network.publish(began + time, name, event)
            has_shifted = scenario.shift_us is not None and time >= scenario.shift_us
            time += (late if has_shifted else early)()


def _rates(network: DetectionNetwork) -> dict[str, float]:
    """The rate of each publisher lately, in events per second."""
    counted = Counter(
        each.producer for each in network.published if event_time(each) >= network.now - RECENT_US
    )
    return {name: counted[name] * 1_000_000 / RECENT_US for name in network.publishers}
