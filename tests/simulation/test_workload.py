"""What clients do is drawn from the seed alone, with integers, and says itself who must get what."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker.messages import Advertise, Publish, Subscribe, Unsubscribe
from fairlead.filters import Filter
from fairlead_lab.simulation import Scenario
from fairlead_lab.simulation.workload import Workload, workload_of


def scenario(**workload: object) -> Scenario:
    clients = {key: workload.pop(key) for key in ("subscribers", "publishers", "regions") if key in workload}
    routing = {key: workload.pop(key) for key in ("advertisements",) if key in workload}
    return Scenario.of(
        {
            "topology": {"shape": "balanced", "brokers": 7},
            "clients": clients,
            "routing": routing,
            "workload": {"subscriptions": [20, 50], "publications": 30, "values": 40, **workload},
        }
    )


def standing(workload: Workload, phases: int) -> dict[tuple[str, str], Filter]:
    """The subscriptions that are there at a checkpoint, by client and id."""
    found: dict[tuple[str, str], Filter] = {}
    for phase in workload.phases[:phases]:
        for _, call in phase.changes:
            if isinstance(call, Subscribe):
                assert (call.source, call.id) not in found
                assert call.filter not in [own for (client, _), own in found.items() if client == call.source]
                found[call.source, call.id] = call.filter
            else:
                assert isinstance(call, Unsubscribe)
                del found[call.source, call.id]
    return found


@settings(max_examples=25)
@given(
    shape=st.sampled_from(["uniform", "zipf", "intervals"]),
    attributes=st.integers(1, 3),
    unsubscribe=st.sampled_from([0, 0.1, 0.5, 1]),
    locality=st.sampled_from([0, 0.5, 1]),
    subscribers=st.sampled_from([3, 10, 50]),
    seed=st.integers(0, 2**32),
)
def test_what_is_expected_is_what_the_filters_match(
    *, shape: str, attributes: int, unsubscribe: float, locality: float, subscribers: int, seed: int
) -> None:
    drawn = workload_of(
        scenario(
            shape=shape,
            attributes=attributes,
            unsubscribe=unsubscribe,
            locality=locality,
            subscribers=subscribers,
            regions=2,
            **({"width": 30} if shape == "intervals" else {}),
        ),
        seed,
    )
    for number, phase in enumerate(drawn.phases, start=1):
        there = standing(drawn, number)
        assert len(there) == phase.subscriptions == (20, 50)[number - 1]
        expected = {}
        for _, call in phase.publications:
            assert isinstance(call, Publish)
            for (client, id), filter in there.items():
                if filter.matches(call.notification):
                    expected.setdefault((client, call.notification.id), []).append(id)
        assert phase.expected == {(*key, tuple(sorted(ids))) for key, ids in expected.items()}


def test_the_same_seed_draws_the_same_and_another_one_does_not() -> None:
    first = workload_of(scenario(), 1)
    workload_of.cache_clear()
    assert workload_of(scenario(), 1) == first
    assert workload_of(scenario(), 2) != first


def test_a_seed_of_its_own_holds_in_all_runs() -> None:
    assert workload_of(scenario(seed=5), 1) == workload_of(scenario(seed=5), 2)


def test_another_checkpoint_does_not_change_what_comes() -> None:
    few, many = workload_of(scenario(), 1), workload_of(scenario(subscriptions=[10, 20, 30, 50]), 1)
    assert [call for phase in few.phases for call in phase.changes] == [
        call for phase in many.phases for call in phase.changes
    ]


def test_few_values_are_popular_by_zipf() -> None:
    drawn = workload_of(scenario(shape="zipf", subscriptions=2000, values=100), 1)
    asked = Counter(
        str(call.filter) for _, call in drawn.phases[0].changes if isinstance(call, Subscribe)
    ).most_common()
    # Of 100 ranks by Zipf's law the first has a share of 1/H(100) = 19.3 %, and twice that of the second.
    assert 330 < asked[0][1] < 440
    assert 1.5 < asked[0][1] / asked[1][1] < 2.6


def test_what_is_local_stays_in_the_values_of_the_region() -> None:
    drawn = workload_of(scenario(locality=1, regions=2), 1)
    regions = scenario(regions=2).topology(1).regions(2)
    for phase in drawn.phases:
        for broker, call in phase.publications:
            assert isinstance(call, Publish)
            value = call.notification.get("x")
            assert broker in regions[0 if value < 20 else 1]


@pytest.mark.parametrize("locality", [0, 0.5, 1])
def test_publishers_publish_what_they_advertise(locality: float) -> None:
    drawn = workload_of(scenario(advertisements="covering", offer=0.2, locality=locality, regions=2), 1)
    offers = {call.source: call.filter for _, call in drawn.advertisements if isinstance(call, Advertise)}
    for phase in drawn.phases:
        for _, call in phase.publications:
            assert isinstance(call, Publish)
            assert offers[call.source].matches(call.notification)
