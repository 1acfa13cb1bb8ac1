"""Multicast groups, links in Bloom filters and gossip deliver as the bus does, and broken brokers are caught."""

from __future__ import annotations

from collections.abc import Set
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker.messages import Deliver, Leave, Publish, Subscribe, Unsubscribe
from fairlead.errors import SimulationFailed, ValueRefused
from fairlead.filters import Filter, parse
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.overlay import Topology
from fairlead.routing import Catalogue
from fairlead_lab.broker.spreading import GossipBroker, LipsinBroker, MulticastBroker
from fairlead_lab.routing.epidemic import miss_probability
from fairlead_lab.routing.lipsin import LinkIds
from fairlead_lab.routing.multicast import Clustered, Group, Ideal, MulticastSend, Unicast
from fairlead_lab.simulation import Scenario, Simulation, compare, run
from fairlead_lab.simulation.algorithms import ALGORITHMS, Algorithm
from fairlead_lab.simulation.spreading import SpreadChecker
from fairlead_lab.testing.worlds import Deliveries, expected, on_the_bus, some_filter, some_notification

CLIENTS = ("ada", "bob", "cyn", "dan")
MULTICAST = [name for name in ALGORITHMS if name.startswith("multicast")]
SPREADING = [*MULTICAST, "lipsin", "gossip"]
EXAMPLES = settings.default.max_examples if settings.default else 100


def scenario(**changes: Any) -> Scenario:
    tables: dict[str, Any] = {
        "topology": {"shape": "balanced", "brokers": 9},
        "routing": {"algorithm": ["flooding", *SPREADING], "fanout": 8},
        "workload": {
            "subscriptions": [8, 20],
            "publications": 25,
            "shape": "intervals",
            "values": 12,
            "width": 4,
            "unsubscribe": 0.3,
        },
        "clients": {"subscribers": 12},
    }
    for name, table in changes.items():
        tables[name] = {**tables.get(name, {}), **table} if isinstance(table, dict) else table
    return Scenario.of(tables, source="tiny.toml")


@settings(max_examples=max(3, EXAMPLES // 25))
@given(
    shape=st.sampled_from(["line", "star", "balanced", "random"]),
    attributes=st.integers(1, 2),
    checked=st.sampled_from(SPREADING),
    seed=st.integers(0, 2**32),
)
def test_every_scheme_delivers_what_flooding_delivers(
    shape: str, attributes: int, checked: str, seed: int
) -> None:
    chosen = scenario(seed=seed, topology={"shape": shape}, workload={"attributes": attributes})
    rows = compare(chosen).rows  # which fails unless each delivers what is expected
    run(chosen, checked, check=True)
    assert {row.algorithm for row in rows} == {"flooding", *SPREADING}
    assert all(row.is_right for row in rows)  # with a fan-out of all others, gossip reaches everybody


@settings(max_examples=max(3, EXAMPLES // 25))
@given(extra=st.integers(0, 6), link_ids=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_cycles_and_false_positives_change_no_delivery(extra: int, link_ids: int, seed: int) -> None:
    names = [name for name in ("flooding", *SPREADING) if ALGORITHMS[name].cyclic]
    chosen = scenario(
        seed=seed,
        topology={"shape": "cyclic", "extra": extra},
        routing={"algorithm": names, "link_ids": link_ids},
    )
    assert all(row.is_right for row in compare(chosen).rows)
    run(chosen, "lipsin", check=True)


def test_a_full_bloom_filter_misses_nobody_and_costs_links() -> None:
    chosen = scenario(topology={"brokers": 120, "fanout": 3}, workload={"width": 12, "subscriptions": [70]})
    flooding, lipsin = (run(chosen, name)[-1] for name in ("flooding", "lipsin"))
    assert lipsin.is_right
    assert lipsin.delivered == flooding.delivered
    assert lipsin.spurious > 0


# -- worlds with real filters, against the bus -------------------------------------------------------------


class World:
    """Brokers of a random graph, and clients that subscribe, unsubscribe and leave."""

    def __init__(self, seed: int, kind: str) -> None:
        self.random = random = Random(seed)
        names = [f"B{number}" for number in range(1, random.randrange(3, 9))]
        links = [(random.choice(names[:at]), name) for at, name in enumerate(names) if at]
        for one, other in (random.sample(names, 2) for _ in range(random.randrange(3))):
            if (one, other) not in links and (other, one) not in links:
                links.append((one, other))
        overlay = Topology.explicit(links)
        catalogue = Catalogue(engine_named("columnar"), keep=True)
        tables = {"topology": {"shape": "explicit", "links": [list(each) for each in links]}}
        plan = Scenario.of(
            {**tables, "workload": {"subscriptions": 1}, "routing": {"algorithm": kind, "fanout": 50}}
        )
        make = ALGORITHMS[kind].makes(plan, overlay, catalogue)
        self.simulation = Simulation(map(make, overlay.brokers), seed=seed)
        self.checker = SpreadChecker(self.simulation)
        self.deliveries = Deliveries()
        self.simulation.observers.append(self.deliveries)
        self.at = {client: random.choice(names) for client in CLIENTS}
        self.subscriptions: dict[str, tuple[str, Filter]] = {}

    def live(self, steps: int) -> None:
        for number in range(steps):
            self.simulation.run(self.simulation.now + self.random.randrange(4_000))
            client, turn = self.random.choice(CLIENTS), self.random.random()
            mine = sorted(id for id, (owner, _) in self.subscriptions.items() if owner == client)
            if turn < 0.05:
                for id in mine:
                    del self.subscriptions[id]
                self.simulation.call(self.at[client], Leave(client))
            elif turn < 0.35 and mine:
                id = self.random.choice(mine)
                del self.subscriptions[id]
                self.simulation.call(self.at[client], Unsubscribe(client, id))
            else:
                filter = some_filter(self.random)
                self.subscriptions[f"s{number}"] = (client, filter)
                self.simulation.call(self.at[client], Subscribe(client, f"s{number}", filter))

    def publish(self, count: int) -> list[Notification]:
        self.simulation.run()
        published = []
        for number in range(count):
            client = self.random.choice(CLIENTS)
            published.append(some_notification(self.random, str(number), client))
            self.simulation.call(self.at[client], Publish(client, published[-1]))
        self.simulation.run()
        return published


KINDS = [name for name in SPREADING if ALGORITHMS[name].cyclic]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=max(5, EXAMPLES // 15))
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 25))
def test_random_worlds_deliver_what_the_bus_delivers(kind: str, seed: int, steps: int) -> None:
    world = World(seed, kind)
    world.live(steps)
    published = world.publish(20)
    assert sorted(world.deliveries.all) == expected(world.subscriptions, published)
    assert sorted(world.deliveries.all) == sorted(on_the_bus(world.subscriptions, published))
    assert not world.checker.report().open


def test_a_notification_is_published_once_and_gets_an_id_where_it_has_none() -> None:
    catalogue = Catalogue(engine_named("columnar"))
    broker = GossipBroker("a", ["a", "b"], 1, catalogue)
    broker.handle(Subscribe("ada", "s", parse("x > 0")), 0)
    first, again, other = (
        broker.handle(Publish("p", Notification.of(each)), 0)
        for each in ({"id": "1", "x": 1}, {"id": "1", "x": 1}, {"x": 1})
    )
    assert [type(effect).__name__ for effect in first] == ["Deliver", "Send"]
    assert [type(effect).__name__ for effect in again] == ["Duplicate"]
    assert other[0].notification.id is not None
    with pytest.raises(ValueRefused, match="rumour"):
        GossipBroker("a", ["a"], 0, catalogue)


# -- what it costs, and what probability promises ----------------------------------------------------------


def test_gossip_misses_what_the_formula_says_and_misdelivers_nothing() -> None:
    """π = (1 - f/n)^((1-π)n); measured over 120 publications among 60 brokers."""
    for fanout in (2, 3, 5):
        chosen = scenario(
            topology={"brokers": 60},
            routing={"algorithm": "gossip", "fanout": fanout},
            workload={
                "subscriptions": [60],
                "publications": 120,
                "values": 3,
                "width": 1,
                "unsubscribe": 0,
            },
            clients={"subscribers": 60, "publishers": 20},
        )
        (row,) = run(chosen, "gossip")
        missed = row.missing / (row.missing + row.deliveries)
        assert row.unasked == 0
        assert abs(missed - miss_probability(60, fanout)) < 0.2 * miss_probability(60, fanout) + 0.01
    assert miss_probability(60, 59) == 0


def test_groups_cost_what_the_models_say() -> None:
    rows = {row.algorithm: row for row in compare(scenario(workload={"subscriptions": [20]})).rows}
    ideal, unicast = rows["multicast-ideal"], rows["multicast-unicast"]
    assert ideal.messages_per_publication <= 1
    assert rows["multicast-everyone"].messages_per_publication == 1
    assert rows["multicast-everyone"].forwards == 8 * 25
    assert ideal.forwards == unicast.forwards == 25 * unicast.messages_per_publication
    assert ideal.spurious == unicast.spurious == rows["multicast-clustered"].spurious == 0
    assert unicast.messages_per_publication >= rows["multicast-clustered"].messages_per_publication
    # Groups of neighbours send as often as brokers pass something on, and reach whom covering reaches.
    assert rows["multicast-neighbours"].messages_per_publication < rows["multicast-neighbours"].forwards / 25


# -- mutants -----------------------------------------------------------------------------------------------


class LeavesOneOut(Ideal):
    """A group that lacks a member."""

    def groups_for(self, receivers: Set[str]) -> list[Group]:
        return super().groups_for(frozenset(sorted(receivers)[1:]))


class SendsTwice(Unicast):
    """A grouping that reaches some twice."""

    def sends(self, source: str, receivers: Set[str]) -> list[MulticastSend]:
        return super().sends(source, receivers) * 2


class ReachesOthers(Clustered):
    """A grouping that sends to whole clusters."""

    def _group(self, cluster: Group, wanting: Group) -> Group:
        return cluster


class KeepsToItself(MulticastBroker):
    """A broker whose clients' second thoughts stay unknown."""

    def _announce(self, news: Any) -> list[Any]:
        return super()._announce(news) if not news.removed else []


class DeliversAgain(GossipBroker):
    """A broker that does not remember what it has seen."""

    def _deliver(self, notification: Notification) -> Any:
        super()._deliver(notification)
        route = self.local.seam.route(notification, "")
        return [Deliver(client, notification, ids) for client, ids in route.clients]


class LosesALink(LinkIds):
    """Link ids with a tree that lacks its last link."""

    def tree(self, source: str, receivers: Set[str]) -> Any:
        return dict(
            list(super().tree(source, receivers).items())[:-1]
            if source == "B1"
            else super().tree(source, receivers)
        )


def multicast(broker: Any, grouping: Any) -> Algorithm:
    return Algorithm(
        lambda _, topology, catalogue: (
            lambda name: broker(name, topology.brokers, grouping(topology), catalogue)
        )
    )


MUTANTS = {
    "leaves one out": multicast(MulticastBroker, lambda topology: LeavesOneOut(topology.brokers)),
    "sends twice": multicast(MulticastBroker, lambda topology: SendsTwice(topology.brokers)),
    "reaches others": multicast(MulticastBroker, lambda topology: ReachesOthers([topology.brokers])),
    "keeps to itself": multicast(KeepsToItself, lambda topology: Ideal(topology.brokers)),
    "delivers again": Algorithm(
        lambda _, topology, catalogue: (
            lambda name: DeliversAgain(name, topology.brokers, 2, catalogue, rounds_max=3)
        ),
        complete=False,
    ),
    "loses a link": Algorithm(
        lambda _, topology, catalogue: (
            lambda name: LipsinBroker(
                name,
                "B1",
                LosesALink({each: topology.neighbours(each) for each in topology.brokers}),
                catalogue,
            )
        )
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_scheme_is_caught(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {**ALGORITHMS, "mutant": MUTANTS[mutant]}
    monkeypatch.setattr("fairlead_lab.simulation.runs.ALGORITHMS", row)
    with pytest.raises(SimulationFailed):
        run(scenario(), "mutant", check=True)
