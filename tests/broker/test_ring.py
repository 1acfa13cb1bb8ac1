"""A ring that is kept by messages: brokers join, leave and fail in virtual time, and everybody gets everything."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker.messages import Advertise, Join, Publish, Refuse, Subscribe, Unsubscribe
from fairlead.errors import ScenarioError, SimulationFailed
from fairlead.filters import Filter, parse
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.routing import Catalogue
from fairlead_lab.broker import RendezvousSettings
from fairlead_lab.broker.rendezvous import hermes, scribe, types_named
from fairlead_lab.broker.ring import Depart, Enter, OnRing, RingBroker
from fairlead_lab.overlay import Ring, Space, rendezvous_key
from fairlead_lab.simulation import Scenario, compare, run
from fairlead_lab.simulation.faults import Crash, Faults
from fairlead_lab.simulation.network import Observer, Simulation
from fairlead_lab.testing.worlds import (
    TYPES,
    Deliveries,
    expected,
    on_the_bus,
    some_filter,
    some_notification,
)

NAMED = types_named(TYPES)
KINDS = {"rendezvous": RendezvousSettings(NAMED), "Scribe": scribe(NAMED), "Hermes": hermes(NAMED)}
CLIENTS = ("ada", "bob", "cyn", "dan")
BEAT_US = 20_000
SETTLED_US = 30 * BEAT_US
EXAMPLES = settings.default.max_examples if settings.default else 100


class World:
    """Brokers that enter a ring one by one, clients at those that stay, and others that come and go."""

    def __init__(self, seed: int, kind: str, broker: type[RingBroker] = RingBroker) -> None:
        self.random = random = Random(seed)
        how, catalogue = KINDS[kind], Catalogue(engine_named("columnar"), keep=True)
        self.stable = [f"B{number}" for number in range(1, random.randrange(3, 8))]
        self.guests = [f"G{number}" for number in range(1, random.randrange(1, 5))]
        names = [*self.stable, *self.guests]

        def make(name: str) -> RingBroker:
            return broker(name, how, catalogue, leaves=4, beat_us=BEAT_US)

        leaving = {name: random.choice(["leaves", "fails", "stays"]) for name in self.guests}
        self.begins = SETTLED_US
        at = {name: self.begins + random.randrange(4 * BEAT_US) for name in self.guests}
        crashes = tuple(Crash(name, at[name]) for name in self.guests if leaving[name] == "fails")
        self.simulation = Simulation(map(make, names), seed=seed, faults=Faults(crashes=crashes), remake=make)
        self.deliveries = Deliveries()
        self.simulation.observers.append(self.deliveries)
        for number, name in enumerate(names):
            enter = Enter(None if not number else "B1")
            late = name in self.guests and leaving[name] == "stays" and random.random() < 0.7
            self.simulation.at(at[name] if late else number * random.choice([0, 5_000]), name, enter)
            if leaving.get(name) == "leaves":
                self.simulation.at(at[name], name, Depart())
        self.members = [name for name in names if leaving.get(name, "stays") == "stays"]
        self.simulation.run(self.begins - 1)
        self.at = {client: random.choice(self.stable) for client in CLIENTS}
        self.subscriptions: dict[str, tuple[str, Filter]] = {}
        if how.advertisements is not None:
            for client in CLIENTS:
                self.simulation.call(self.at[client], Advertise(client, "a", parse("exists price")))

    def live(self, steps: int) -> None:
        """Let clients subscribe and unsubscribe while the ring changes, and all of it settle."""
        for number in range(steps):
            client, filter = self.random.choice(CLIENTS), some_filter(self.random)
            if self.subscriptions and self.random.random() < 0.3:
                id = self.random.choice(sorted(self.subscriptions))
                owner, _ = self.subscriptions.pop(id)
                self.simulation.call(self.at[owner], Unsubscribe(owner, id))
            elif (client, filter) not in self.subscriptions.values():
                self.subscriptions[f"s{number}"] = (client, filter)
                self.simulation.call(self.at[client], Subscribe(client, f"s{number}", filter))
            self.simulation.run(self.simulation.now + self.random.randrange(BEAT_US // 2))
        self.simulation.run(max(self.simulation.now, self.begins) + SETTLED_US)

    def publish(self, count: int) -> list[Notification]:
        published = []
        for number in range(count):
            client = self.random.choice(CLIENTS)
            published.append(some_notification(self.random, str(number), client))
            self.simulation.call(self.at[client], Publish(client, published[-1]))
        self.simulation.run(self.simulation.now + SETTLED_US)
        return published

    def broker(self, name: str) -> RingBroker:
        found = self.simulation.brokers[name]
        assert isinstance(found, RingBroker)
        return found


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=max(4, EXAMPLES // 25))
@given(seed=st.integers(0, 2**32))
def test_everybody_gets_everything_once_the_ring_has_settled(kind: str, seed: int) -> None:
    world = World(seed, kind)
    world.live(world.random.randrange(1, 15))
    published = world.publish(12)
    assert sorted(world.deliveries.all) == expected(world.subscriptions, published)
    assert sorted(world.deliveries.all) == sorted(on_the_bus(world.subscriptions, published))


@settings(max_examples=max(4, EXAMPLES // 25))
@given(seed=st.integers(0, 2**32))
def test_settled_brokers_agree_with_a_ring_that_knows_everything(seed: int) -> None:
    """Leaf sets that messages have repaired are those of a ring that is told of everybody."""
    world = World(seed, "rendezvous")
    world.live(1)
    oracle = Ring.filled(world.members, leaves=4)
    for name in world.members:
        node = world.broker(name).node
        assert world.broker(name).is_member
        assert (node.larger, node.smaller) == (oracle.node(name).larger, oracle.node(name).smaller)
    keys = {each: rendezvous_key(each, Space()) for each in TYPES}
    for each, key in keys.items():
        roots = [name for name in world.members if world.broker(name).node.next_hop(key) is None]
        assert roots == [oracle.responsible(key)], each


class Traffic(Observer):
    """Counts the messages of the ring."""

    def __init__(self) -> None:
        self.count = 0

    def sent(self, now: int, source: str, to: str, message: Any) -> None:
        self.count += isinstance(message, OnRing)


def test_a_broker_outside_of_the_ring_refuses_clients_and_asks_until_it_is_answered() -> None:
    catalogue = Catalogue(engine_named("columnar"))
    brokers = [RingBroker(name, KINDS["rendezvous"], catalogue, beat_us=1_000) for name in ("a", "b")]
    simulation = Simulation(brokers, faults=Faults(loss_ppm=700_000), seed=3)
    traffic = Traffic()
    simulation.observers.append(traffic)
    assert isinstance(brokers[1].handle(Join("ada"), 0)[0], Refuse)
    simulation.call("a", Enter())
    simulation.call("b", Enter("a"))
    simulation.run(200_000)
    assert brokers[1].is_member
    assert traffic.count > 20


# -- mutants -----------------------------------------------------------------------------------------------


class NeverDrops(RingBroker):
    """A broker that takes nobody for failed."""

    def _dropped(self, name: str, now: int) -> list[Any]:
        return []


class DoesNotClimb(RingBroker):
    """A broker that stays below its first parent."""

    def _climb_all(self, now: int) -> list[Any]:
        return []


class LeavesInSilence(RingBroker):
    """A broker that nobody watches, and that does not say goodbye."""

    def _depart(self, now: int) -> list[Any]:
        self.is_member = False
        return []

    def _dropped(self, name: str, now: int) -> list[Any]:
        return []


@pytest.mark.parametrize("broker", [NeverDrops, DoesNotClimb, LeavesInSilence])
def test_a_broken_ring_is_caught(broker: type[RingBroker]) -> None:
    wrong = 0
    for seed in range(12):
        world = World(seed, "rendezvous", broker)
        world.live(10)
        published = world.publish(12)
        wrong += sorted(world.deliveries.all) != expected(world.subscriptions, published)
        if wrong:
            break
    assert wrong


# -- in scenarios ------------------------------------------------------------------------------------------


def scenario(**changes: Any) -> Scenario:
    tables: dict[str, Any] = {
        "topology": {"shape": "balanced", "brokers": 12},
        "routing": {"algorithm": ["flooding", "rendezvous", "hermes"], "partitions": 9},
        "workload": {"subscriptions": [5, 10, 15], "publications": 15, "values": 9},
        "clients": {"places": ["B1", "B2", "B8", "B9", "B10", "B11", "B12"]},
        "ring": {
            "beat_ms": 200,
            "settle_ms": 3000,
            "leaves": 4,
            # The roots of all types, as it happens.
            "changes": [
                {"broker": "B3", "what": "joins", "at": 5},
                {"broker": "B4", "what": "fails", "at": 10},
                {"broker": "B6", "what": "fails", "at": 10},
                {"broker": "B7", "what": "leaves", "at": 10},
                {"broker": "B3", "what": "fails", "at": 15},
            ],
        },
    }
    for name, table in changes.items():
        tables[name] = {**tables.get(name, {}), **table}
    return Scenario.of(tables, source="ring.toml")


def test_a_scenario_in_which_brokers_join_leave_and_fail_delivers_what_flooding_delivers() -> None:
    assert all(row.is_right for row in compare(scenario()).rows)


def test_a_ring_that_nobody_repairs_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RingBroker, "_dropped", NeverDrops._dropped)
    monkeypatch.setattr(RingBroker, "_climb_all", DoesNotClimb._climb_all)
    with pytest.raises(SimulationFailed):
        run(scenario(), "rendezvous")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"broker": "B1", "what": "fails", "at": 5}, "others join through it"),
        ({"broker": "B2", "what": "fails", "at": 5}, "clients are there"),
        ({"broker": "B5", "what": "fails", "at": 7}, "which is no checkpoint"),
        ({"broker": "B99", "what": "fails", "at": 5}, "there is no broker 'B99'"),
    ],
)
def test_a_change_that_means_nothing_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        scenario(ring={"changes": [change]})


def test_a_broker_joins_once_and_leaves_or_fails_once() -> None:
    twice = [{"broker": "B5", "what": "leaves", "at": each} for each in (5, 10)]
    with pytest.raises(ScenarioError, match="leaves before"):
        scenario(ring={"changes": twice})
    with pytest.raises(ScenarioError, match="no two equal sides"):
        scenario(ring={"leaves": 5})
