"""Damage is decided by the seed, hits the part that is named and nothing else, and is noticed by the checker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker import Broker
from fairlead.broker.messages import Admin, Batch, Forward, InTree, Passed, Stamp
from fairlead.errors import ScenarioError, ValueRefused
from fairlead.filters import parse
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.model.order import Identity
from fairlead.routing import Catalogue, Interest
from fairlead_lab.broker import Packet
from fairlead_lab.broker.packets import Hops
from fairlead_lab.routing.chance import seeded
from fairlead_lab.simulation import Faults, Observer, Scenario, Simulation, run
from fairlead_lab.simulation.algorithms import ALGORITHMS
from fairlead_lab.simulation.checking import Checker
from fairlead_lab.simulation.corruption import PARTS, Corruption, corrupt_broker, corrupt_message
from fairlead_lab.simulation.workload import workload_of


def scenario(**changes: Any) -> Scenario:
    tables: dict[str, Any] = {
        "topology": {"shape": "line", "brokers": 4},
        "routing": {"algorithm": ["merging"]},
        "workload": {
            "subscriptions": [12, 24],
            "publications": 20,
            "values": 8,
            "shape": "intervals",
            "width": 3,
        },
        "clients": {"subscribers": 7},
    }
    for name, table in changes.items():
        tables[name] = {**tables.get(name, {}), **table}
    return Scenario.of(tables, source="tiny.toml")


def brokers(seed: int, algorithm: str = "merging", shape: str = "line") -> dict[str, Broker]:
    """Brokers whose clients have subscribed, with everything heard."""
    chosen = scenario(topology={"shape": shape}, routing={"algorithm": [algorithm]})
    topology = chosen.topology(seed)
    make = ALGORITHMS[algorithm].makes(chosen, topology, Catalogue(engine_named("columnar"), keep=True))
    simulation = Simulation(map(make, topology.brokers), seed=seed)
    for at, call in workload_of(chosen, seed).phases[0].changes:
        simulation.call(at, call)
    simulation.run()
    return simulation.brokers  # type: ignore[return-value]


def state(broker: Broker) -> dict[str, Any]:
    """All that can be damaged of a broker, by the name of the part."""
    tables = broker.subscriptions, broker.advertisements
    return {
        "entries": [sorted((str(interest), to) for interest, to in table) for table in tables],
        "mergers": [
            {
                to: {str(one): sorted(map(str, of)) for one, of in each.items()}
                for to, each in table.mergers.items()
            }
            for table in tables
        ],
        "flags": [set(broker._awaited), *(set(table.deaf) for table in tables)],
        "clocks": (broker._names._latest, None if broker.history is None else broker.history._last),
        "clients": {
            name: {id: str(filter) for id, filter in broker.clients[name].subscriptions.by_id.items()}
            for name in broker.clients
        },
        "indexes": [
            {number: {to: sorted(map(str, of)) for to, of in at.items()} for number, at in table._at.items()}
            for table in tables
        ],
        "histories": [
            sorted(memory._younger | memory._older)
            for memory in (broker.identities.sent._latest, broker._delivered)
        ],
        "rom": (
            str(type(broker.settings.strategy)),
            dict(broker.links),
            list(broker.subscriptions.neighbours),
        ),
    }


FOLLOWS = {"entries": {"indexes", "mergers"}, "spurious": {"entries", "indexes"}}
"""Parts that are computed from another, and change with it: the index, and mergers that have no entry any
more."""


@pytest.mark.parametrize("part", [each for each in PARTS if each not in ("messages", "insertions")])
@settings(max_examples=max(5, (settings.default.max_examples if settings.default else 100) // 10))
@given(seed=st.integers(0, 2**32), share=st.sampled_from([0, 500_000, 1_000_000]))
def test_the_same_seed_damages_the_same_and_nothing_but_what_is_named(
    part: str, seed: int, share: int
) -> None:
    algorithm, shape = ("simple", "ring") if part == "clocks" else ("merging", "line")
    corruption = Corruption("B2", 0, part, share)
    before, first, second = (brokers(seed, algorithm, shape)["B2"] for _ in range(3))
    counts = [corrupt_broker(each, corruption, seeded(seed)) for each in (first, second)]
    was, now = state(before), state(first)
    assert counts[0] == counts[1]
    assert now == state(second)
    changed = {name for name in was if was[name] != now[name]}
    assert changed <= {part} | FOLLOWS.get(part, set())
    if not share:
        assert counts[0] == 0
        assert not changed
    if share == 1_000_000 and counts[0] > 2:
        assert changed


def breaches_of(faulty: Scenario, seed: int) -> list[Any]:
    checkers: list[Checker] = []
    run(faulty, "simple", seed=seed, watch=lambda each: checkers.append(Checker(each, collect=True)))
    return checkers[0].breaches


@pytest.mark.parametrize("part", ["entries", "clients", "flags"])
def test_a_checker_notices_damage(part: str) -> None:
    """Every invariant of routing is about entries, clients, and who hears what."""
    noticed = 0
    for seed in range(3):
        faulty = scenario(
            faults={"corruptions": [{"broker": "B2", "at_ms": 40, "what": part}]},
            routing={"algorithm": ["simple"]},
        )
        noticed += bool(breaches_of(faulty, seed))
    assert noticed


class Failures(Observer):
    def __init__(self) -> None:
        self.all: list[tuple[str, dict[str, Any]]] = []

    def failed(self, now: int, change: str, about: Any) -> None:
        self.all.append((change, dict(about)))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("algorithm", ["merging", "rendezvous"])
def test_a_run_goes_on_whatever_is_damaged_and_is_the_same_run_again(part: str, algorithm: str) -> None:
    rows = [{"broker": name, "at_ms": at, "what": part} for name, at in (("B2", 20), ("B3", 30), ("B2", 50))]
    faulty = scenario(faults={"corruptions": rows})
    seen = [Failures(), Failures()]
    runs = [
        run(faulty, algorithm, seed=2, watch=lambda simulation, each=each: simulation.observers.append(each))  # type: ignore[misc]
        for each in seen
    ]
    assert runs[0] == runs[1]
    assert seen[0].all == seen[1].all
    corrupted = [about for change, about in seen[0].all if change == "corruption"]
    assert [(about["broker"], about["what"]) for about in corrupted] == [
        (row["broker"], part) for row in rows
    ]


def test_a_broker_that_recovers_from_a_crash_is_not_damaged_any_more() -> None:
    fragile = scenario(
        faults={
            "corruptions": [{"broker": "B2", "at_ms": 40, "what": "indexes"}],
            "crashes": [{"broker": "B2", "at_ms": 41, "back_ms": 42}],
        }
    )
    simulations: list[Simulation] = []
    run(fragile, "merging", watch=simulations.append)
    assert simulations[0]._damaged == set()
    assert state(simulations[0].brokers["B2"])["rom"][2] == ["B1", "B3"]  # type: ignore[arg-type]


def messages() -> Iterator[Any]:
    one, two = Interest(parse("x > 1")), Interest(parse("x > 2"))
    quote = Notification.of({"id": "n", "producer": "p", "x": 2_000, "text": "t"})
    yield Admin("a", (one,), (two,))
    yield Forward("a", quote, "o", 3, 4)
    yield Passed("a", Identity("p", "n"))
    yield Batch("a", (Admin("a", (one,)),))
    yield InTree("a", "t", Forward("a", quote))
    yield Packet("a", Hops(1), Forward("a", quote))


@pytest.mark.parametrize("message", list(messages()), ids=lambda message: type(message).__name__)
def test_a_damaged_message_is_of_the_same_kind_and_source_with_other_content(message: Any) -> None:
    damaged = corrupt_message(message, seeded(1))
    assert type(damaged) is type(message)
    assert damaged.source == message.source
    assert damaged != message
    if isinstance(message, Forward):
        assert (damaged.notification.id, damaged.notification.attributes["text"]) == ("n", "t")


def test_a_message_without_content_stays_as_it_is() -> None:
    assert corrupt_message(Stamp("a", "o", 1), seeded(1)) == Stamp("a", "o", 1)


def test_a_scenario_names_parts_and_brokers_that_there_are() -> None:
    with pytest.raises(ScenarioError, match="entries"):
        scenario(faults={"corruptions": [{"broker": "B2", "at_ms": 1, "what": "entry"}]})
    with pytest.raises(ScenarioError, match="corruptions: there is no broker 'B9'"):
        scenario(faults={"corruptions": [{"broker": "B9", "at_ms": 1, "what": "entries"}]})
    with pytest.raises(ValueRefused, match="no part of a broker's state"):
        Corruption("B1", 0, "settings")
    assert Faults(corruptions=(Corruption("B1", 0, "flags"),))
