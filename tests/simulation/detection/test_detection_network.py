"""Detection in a network: the same composites as in one place, wherever detectors are and wherever they move."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.correlation.patterns import Pattern, parse
from fairlead.errors import ValueRefused
from fairlead.filters import parse as parse_filter
from fairlead.overlay import Topology
from fairlead_lab.broker.detection import POLICIES, Consume, DetectionPolicy, Publisher
from fairlead_lab.simulation import Crash, Delay, Faults
from fairlead_lab.simulation.detection import DetectionNetwork, detect_in_order

PATTERNS = {
    "s1": parse("A followed by B, same k"),
    "s2": parse("(A followed by B) or (C followed by D within 40 ms), same k, taking all matches"),
    "s3": parse("any order of (A followed by B) and (C followed by D) within 60 ms, same k"),
    "s4": parse("A then no B within 20 ms, same k"),
    "s5": parse("C followed by (A followed by B without D) within 80 ms, taking the most recent"),
}
MS = 1_000


def network(
    topology: Topology, *, seed: int = 0, places: Mapping[str, str] | None = None, **settings: object
) -> DetectionNetwork:
    brokers = topology.brokers
    where = places or {type: brokers[(number * 3) % len(brokers)] for number, type in enumerate("ABCD")}
    publishers = [
        Publisher(type.lower(), broker, parse_filter(f'type = "{type}"')) for type, broker in where.items()
    ]
    settings = {"heartbeat_us": 20 * MS, "delay": Delay(MS, 3 * MS, "exponential"), **settings}
    return DetectionNetwork(topology, publishers, seed=seed, **settings)  # type: ignore[arg-type]


def published(net: DetectionNetwork, seed: int, events: int = 120) -> int:
    """Let some events be published at random; when the last one is."""
    chance, time = Random(seed), net.now
    for _ in range(events):
        time += chance.randrange(10 * MS)
        type = chance.choice("ABCD")
        net.publish(time, type.lower(), {"type": type, "k": chance.randrange(2)})
    return time


def judged(
    net: DetectionNetwork, patterns: Mapping[str, Pattern], until: int
) -> tuple[set[object], set[object]]:
    """What is missing, and what should not be."""
    expected = detect_in_order(dict(patterns), net.published, until).keys()
    assert expected
    got = {(each.subscription, each.id) for each in net.deliveries if each.end < until}
    return set(expected - got), set(got - expected)


@given(
    st.integers(1, 9),
    st.sampled_from(sorted(POLICIES)),
    st.sets(st.sampled_from(sorted(PATTERNS)), min_size=1, max_size=3),
    st.integers(0, 10_000),
    st.lists(st.integers(0, 600), max_size=3),
)
@settings(max_examples=12)
def test_guaranteed_detection_finds_what_one_detector_finds_in_the_total_order(
    brokers: int, policy: str, ids: set[str], seed: int, moves: list[int]
) -> None:
    chance = Random(seed)
    topology = Topology.random_tree(brokers, chance)
    net = network(topology, seed=seed)
    patterns = {id: PATTERNS[id] for id in sorted(ids)}
    for id, pattern in patterns.items():
        net.subscribe(id, pattern, chance.choice(topology.brokers), POLICIES[policy])
    net.settle()
    until = published(net, seed, events=80)
    for move in moves:  # while traffic flows
        name, broker = chance.choice(sorted(net.directory.detectors)), chance.choice(topology.brokers)
        net.at(net.now + move * MS, lambda name=name, broker=broker: net.move(name, broker))  # type: ignore[misc]
    net.run(until + 1_000 * MS)
    assert judged(net, patterns, until) == (set(), set())
    assert net.late == 0
    assert net.repeated == 0


def test_detectors_that_are_made_while_traffic_flows_find_all_that_happens_since() -> None:
    net = network(Topology.line(6), seed=3)
    net.subscribe("s1", PATTERNS["s1"], "B6", POLICIES["minimum bandwidth"])
    net.settle()
    until = published(net, 3)
    net.run(net.now + 200 * MS)
    net.subscribe("s2", PATTERNS["s2"], "B1", POLICIES["minimum bandwidth"])  # a part of it is there
    made = net.directory.detectors["d2"]
    assert made.specification.delegated
    net.run(until + 1_000 * MS)
    since = net.detectors["d2@1"].since
    assert since is not None
    late = [each for each in net.published if each.time is not None and each.time.microseconds >= since]
    expected = detect_in_order({"s2": PATTERNS["s2"]}, late, until).keys()
    got = {
        (each.subscription, each.id)
        for each in net.deliveries
        if each.end < until and each.subscription == "s2"
    }
    assert 0 < len(late) < len(net.published)
    assert got == expected


def test_unsubscribing_ends_the_detectors_and_their_traffic() -> None:
    net = network(Topology.line(6))
    net.subscribe("s1", PATTERNS["s2"], "B6", POLICIES["minimum load"])
    net.settle()
    assert len(net.detectors) == 3
    net.unsubscribe("s1")
    net.run(net.now + 500 * MS)
    assert net.detectors == {}
    before = net.traffic["events"]
    published(net, 1)
    net.run(net.now + 2_000 * MS)
    assert net.traffic["events"] == before


def test_redundant_detectors_survive_a_crash_and_each_composite_comes_once() -> None:
    # A star, so that nobody but the detector is lost with its broker.
    star = Topology.star(9)
    places = {"A": "B2", "B": "B3", "C": "B4", "D": "B5"}
    found = {}
    for policy in ("minimum impact", "maximum reliability"):
        faults = Faults(crashes=(Crash("B7", 600 * MS),))
        net = network(star, seed=1, places=places, hosts=["B7", "B8"], faults=faults)
        net.subscribe("s2", PATTERNS["s2"], "B6", POLICIES[policy])
        net.settle()
        until = published(net, 1, events=200)
        net.run(until + 1_000 * MS)
        missing, wrong = judged(net, {"s2": PATTERNS["s2"]}, until)
        assert not wrong
        found[policy] = not missing
        assert len({(each.subscription, each.id) for each in net.deliveries}) == len(net.deliveries)
    assert found == {"minimum impact": False, "maximum reliability": True}
    assert net.repeated == 0


@pytest.mark.parametrize(
    ("policy", "goes_on"),
    [
        (DetectionPolicy(Consume.GUARANTEED), False),
        (DetectionPolicy(Consume.TIMEOUT, timeout_us=150 * MS), True),
        (DetectionPolicy(Consume.PROBABLE, threshold_ppm=999_000), True),
    ],
)
def test_a_source_that_fails_stops_guaranteed_detection_and_a_timeout_goes_on(
    policy: DetectionPolicy, goes_on: bool
) -> None:
    net = network(Topology.line(5), seed=2, detection=policy)
    pattern = parse("(A followed by B) or D, same k")
    net.subscribe("s1", pattern, "B3", POLICIES["centralised"])
    net.settle()
    until = published(net, 2, events=200)
    failing = (net.now + until) // 2
    net.at(failing, lambda: net.silence("d"))
    net.run(until + 1_000 * MS)
    behind = [each for each in net.deliveries if each.end > failing + 50 * MS]
    assert bool(behind) == goes_on


def test_best_effort_is_quicker_and_may_be_wrong() -> None:
    delays, errors = {}, {}
    for consume in (Consume.GUARANTEED, Consume.BEST_EFFORT):
        net = network(Topology.line(7), seed=5, detection=DetectionPolicy(consume))
        net.subscribe("s2", PATTERNS["s2"], "B4", POLICIES["minimum load"])
        net.settle()
        until = published(net, 5, events=200)
        net.run(until + 1_000 * MS)
        missing, wrong = judged(net, {"s2": PATTERNS["s2"]}, until)
        errors[consume] = len(missing) + len(wrong)
        waited = sorted(each.time - each.end for each in net.deliveries)
        delays[consume] = waited[len(waited) // 2]
    assert errors[Consume.GUARANTEED] == 0 < errors[Consume.BEST_EFFORT]
    assert delays[Consume.BEST_EFFORT] < delays[Consume.GUARANTEED]


def test_patterns_over_composites_of_others_hear_of_them() -> None:
    below, above = parse("pair: A followed by B, same k"), parse("pair followed by C, taking all matches")
    net = network(Topology.line(5), seed=4)
    net.subscribe("s1", below, "B1", POLICIES["minimum latency"])
    net.settle()
    net.subscribe("s2", above, "B5", POLICIES["minimum latency"])
    net.settle()
    until = published(net, 4)
    net.run(until + 1_000 * MS)
    assert judged(net, {"s1": below, "s2": above}, until) == (set(), set())


def test_detectors_need_one_way_between_two_brokers() -> None:
    with pytest.raises(ValueRefused, match="take a tree"):
        network(Topology.ring(4))


def test_a_detector_without_its_sources_is_never_ready() -> None:
    net = network(Topology.line(3))
    net.silence("a")
    net.subscribe("s1", PATTERNS["s1"], "B1", POLICIES["centralised"])
    with pytest.raises(ValueRefused, match="does not hear"):
        net.settle()
