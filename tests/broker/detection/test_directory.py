"""Subscriptions become actions of detectors, as their distribution policies say."""

from __future__ import annotations

import pytest

from fairlead.correlation.patterns import parse
from fairlead.errors import ValueRefused
from fairlead.filters import parse as parse_filter
from fairlead.overlay import Topology
from fairlead_lab.broker.detection import (
    CENTRALISED,
    POLICIES,
    TABLE_7_1,
    Action,
    Decomposition,
    Delegate,
    Destroy,
    Directory,
    Instantiate,
    Locality,
    Migrate,
    Publisher,
    Reuse,
)

LINE = Topology.line(9)
AB, EITHER = parse("A followed by B"), parse("(A followed by B) or (C followed by D)")


def publishers(**rates: float) -> list[Publisher]:
    places = {"A": "B1", "B": "B2", "C": "B8", "D": "B9"}
    return [
        Publisher(type.lower(), broker, parse_filter(f'type = "{type}"'), rates.get(type, 10.0))
        for type, broker in places.items()
    ]


def directory(**rates: float) -> Directory:
    return Directory(LINE, publishers(**rates))


def instantiated(actions: list[Action]) -> dict[str, str]:
    return {each.specification.name: each.broker for each in actions if isinstance(each, Instantiate)}


def test_the_policies_are_those_of_the_book() -> None:
    # Table 7.1
    assert [
        (each.name, each.decomposition.value, each.reuse.value, each.locality.value) for each in TABLE_7_1
    ] == [
        ("minimum latency", "none", "with locality only", "subscribers"),
        ("minimum bandwidth", "for reuse only", "max", "publishers"),
        ("minimum impact", "for reuse only", "max", "none"),
        ("minimum load", "max", "max", "none"),
        ("maximum reliability", "for reuse only", "at least 2", "none"),
    ]
    assert CENTRALISED.locality is Locality.CENTRE
    assert CENTRALISED.decomposition is Decomposition.NONE
    assert POLICIES["maximum reliability"].reuse is Reuse.AT_LEAST_2


def test_one_place_for_everything() -> None:
    known = directory()
    assert instantiated(known.submit("s1", AB, "B1", CENTRALISED)) == {"d1": "B5"}
    assert instantiated(known.submit("s2", EITHER, "B9", CENTRALISED)) == {"d2": "B5"}
    assert known.submit("s3", AB, "B9", CENTRALISED) == []


def test_minimum_latency_detects_at_the_subscriber_and_reuses_only_what_is_near() -> None:
    known, policy = directory(), POLICIES["minimum latency"]
    assert instantiated(known.submit("s1", AB, "B5", policy)) == {"d1": "B5"}
    assert known.submit("s2", AB, "B6", policy) == []
    assert instantiated(known.submit("s3", AB, "B8", policy)) == {"d2": "B8"}


def test_minimum_bandwidth_detects_at_the_publishers_and_reuses_parts() -> None:
    known, policy = directory(A=5.0), POLICIES["minimum bandwidth"]
    assert instantiated(known.submit("s1", AB, "B9", policy)) == {"d1": "B2"}
    first, delegate = known.submit("s2", EITHER, "B9", policy)
    assert isinstance(first, Instantiate)
    assert first.broker in ("B8", "B9")
    assert isinstance(delegate, Delegate)
    assert (delegate.by, delegate.to) == ("d2", "d1")
    assert first.specification.groups == (frozenset({"c"}), frozenset({"d"}), frozenset({"d1"}))


def test_minimum_impact_spreads_the_load() -> None:
    known, policy = directory(), POLICIES["minimum impact"]
    texts = ("A followed by B", "A followed by C", "B followed by C", "A followed by D", "B followed by D")
    for number, text in enumerate(texts):
        known.submit(f"s{number}", parse(text), "B5", policy)
    assert sorted(known.load().values()) == [20.0] * 5


def test_minimum_load_has_a_detector_for_every_part() -> None:
    known, policy = directory(), POLICIES["minimum load"]
    deep = parse("((A followed by B) or (C followed by D)) followed by A as A2")
    made = [
        each.specification for each in known.submit("s1", deep, "B5", policy) if isinstance(each, Instantiate)
    ]
    assert len(made) == 4
    assert max(len(each.groups) for each in made) == 2
    assert len({each.broker for each in known.detectors.values()}) == 4
    (instantiate, delegate) = known.submit(
        "s2", parse("(A followed by B) or (A as a followed by D)"), "B5", policy
    )[1:]
    assert isinstance(instantiate, Instantiate)
    assert isinstance(delegate, Delegate)


def test_maximum_reliability_reuses_only_where_there_are_two() -> None:
    known, policy = directory(), POLICIES["maximum reliability"]
    made = instantiated(known.submit("s1", AB, "B5", policy))
    assert len(made) == len(set(made.values())) == 2
    assert known.submit("s2", AB, "B1", policy) == []
    actions = known.submit("s3", EITHER, "B1", policy)
    assert len(instantiated(actions)) == 2
    assert sorted((each.by, each.to) for each in actions if isinstance(each, Delegate)) == [
        ("d3", "d1"),
        ("d3", "d2"),
        ("d4", "d1"),
        ("d4", "d2"),
    ]


def test_whoever_nobody_needs_is_destroyed_and_nobody_else() -> None:
    known = directory()
    known.submit("s1", EITHER, "B5", POLICIES["minimum load"])
    known.submit("s2", parse("(A followed by B) or C"), "B5", POLICIES["minimum load"])
    names = set(known.detectors)
    destroyed = {each.name for each in known.withdraw("s1") if isinstance(each, Destroy)}
    assert destroyed == {"d1", "d3"}  # the part that s2 needs as well stays
    assert set(known.detectors) == names - destroyed
    known.withdraw("s2")
    assert known.detectors == {}


def test_detectors_move_when_traffic_has_shifted() -> None:
    known, policy = directory(), POLICIES["minimum bandwidth"]
    known.submit("s1", parse("A followed by D"), "B5", policy)
    known.submit("s2", parse("A followed by D"), "B5", POLICIES["minimum latency"])
    assert known.adapt({"a": 10.0}) == []
    assert known.adapt({"a": 1.0, "d": 100.0}) == [Migrate("d1", "B9")]
    assert known.detectors["d1"].broker == "B9"
    assert known.adapt({}) == []


def test_an_id_is_given_once() -> None:
    known = directory()
    known.submit("s1", AB, "B5", CENTRALISED)
    with pytest.raises(ValueRefused, match="taken"):
        known.submit("s1", AB, "B5", CENTRALISED)
