"""In cyclic overlays everybody gets everything once, and what is remembered stays bounded (book 4.6.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairlead.broker import Broker, Settings
from fairlead.broker.history import STAMP_EVERY
from fairlead.broker.messages import (
    Advertise,
    Forward,
    Link,
    Message,
    Publish,
    Subscribe,
    Unlink,
    Unsubscribe,
)
from fairlead.filters import Filter, parse
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.overlay import Topology
from fairlead.routing import Catalogue, Flooding, Interest, Strategy
from fairlead.routing.interest import ANYTHING
from fairlead_lab.routing import CyclicSimple
from fairlead_lab.simulation.forests import ForestChecker
from fairlead_lab.simulation.network import Observer, Simulation
from fairlead_lab.testing.worlds import Deliveries, expected, on_the_bus, some_filter, some_notification

STEPS_MAX = 200_000
CLIENTS = ("ada", "bob", "cyn", "dan")
KINDS: dict[str, tuple[type[Strategy], type[Strategy] | None]] = {
    "flooding": (Flooding, None),
    "simple": (CyclicSimple, None),
    "simple with advertisements": (CyclicSimple, CyclicSimple),
}


class Forwards(Observer):
    """How often each notification was sent from broker to broker."""

    def __init__(self) -> None:
        self.counts: Counter[Notification] = Counter()

    def sent(self, now: int, source: str, to: str, message: Message) -> None:
        if isinstance(message, Forward):
            self.counts[message.notification] += 1


class World:
    """A cyclic overlay that changes, clients that subscribe and publish, all drawn from a seed."""

    def __init__(
        self,
        seed: int,
        kind: str,
        brokers: int | None = None,
        extra: int | None = None,
        *,
        in_order: bool = True,
    ) -> None:
        self.random = random = Random(seed)
        size = random.randrange(2, 8) if brokers is None else brokers
        more = random.randrange(5) if extra is None else extra
        self.topology = Topology.cyclic(size, min(more, (size - 1) * (size - 2) // 2), random)
        strategy, advertised = KINDS[kind]
        offers = None if advertised is None else advertised()
        how = Settings(strategy(), offers, cyclic=True, in_order=in_order)
        self.producers: dict[str, str] = {}
        catalogue = Catalogue(engine_named("columnar"), keep=True)
        self.simulation = Simulation(
            [Broker(name, how, self.topology.neighbours(name), catalogue) for name in self.topology.brokers],
            seed=seed,
        )
        self.checker = ForestChecker(self.simulation)
        self.deliveries = Deliveries()
        self.simulation.observers.append(self.deliveries)
        self.at = {client: random.choice(self.topology.brokers) for client in CLIENTS}
        self.subscriptions: dict[str, tuple[str, Filter]] = {}
        self.published = 0
        if advertised is not None:
            for client in CLIENTS:
                self.simulation.call(self.at[client], Advertise(client, "a", parse("exists price")))

    def live(self, steps: int) -> None:
        time = 0
        for number in range(steps):
            time += self.random.randrange(2_500)
            chance = self.random.random()
            if chance < 0.15:
                self._change(time)
            elif chance < 0.3:
                client = self.random.choice(CLIENTS)
                self.simulation.at(time, self.at[client], Publish(client, self.notification(client)))
            elif self.subscriptions and chance < 0.55:
                id = self.random.choice(sorted(self.subscriptions))
                client, _ = self.subscriptions.pop(id)
                self.simulation.at(time, self.at[client], Unsubscribe(client, id))
            else:
                self._subscribe(time, f"s{number}")

    def _change(self, time: int) -> None:
        one, other = sorted(self.random.sample(self.topology.brokers, 2))
        if other not in self.topology.neighbours(one):
            self.topology = self.topology.with_link(one, other)
            self.simulation.at(time, one, Link(other))
            return
        links = [link for link in self.topology.links if set(link) != {one, other}]
        if _connected(self.topology.brokers, links):
            self.topology = self.topology.without_link(one, other)
            self.simulation.at(time, one, Unlink(other))

    def _subscribe(self, time: int, id: str) -> None:
        client, filter = self.random.choice(CLIENTS), some_filter(self.random)
        if (client, filter) not in self.subscriptions.values():
            self.subscriptions[id] = (client, filter)
            self.simulation.at(time, self.at[client], Subscribe(client, id, filter))

    def notification(self, producer: str) -> Notification:
        self.published += 1
        self.producers[str(self.published)] = producer
        return some_notification(self.random, str(self.published), producer)

    def lost(self) -> Iterator[tuple[str, Interest, str]]:
        """The entries that do not lead to a client, from broker to broker."""
        brokers = {
            name: broker for name, broker in self.simulation.brokers.items() if isinstance(broker, Broker)
        }
        for start, broker in brokers.items():
            for number, table in enumerate(broker.tables):
                for interest, destination in table:
                    at, towards, seen = start, destination, {start}
                    while towards in brokers and interest != ANYTHING:
                        onward = brokers[towards].tables[number].holding(interest)
                        if towards in seen or not onward:
                            yield start, interest, destination
                            break
                        seen.add(towards)
                        at, (towards,) = towards, onward
                    else:
                        assert towards in brokers or towards in brokers[at].clients

    def settle(self) -> None:
        for _ in range(STEPS_MAX):
            if self.simulation.is_quiet:
                return
            self.simulation.step()
        raise AssertionError("something travels for ever")


def _connected(brokers: tuple[str, ...], links: list[tuple[str, str]]) -> bool:
    reached = {brokers[0]}
    while True:
        new = {end for link in links for end in link if reached & set(link)} - reached
        if not new:
            return len(reached) == len(brokers)
        reached |= new


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40 if settings.default and settings.default.max_examples == 100 else 2_000)
@given(seed=st.integers(0, 2**32))
@example(151)  # advertisements come and go with links, and filters that nobody can serve meanwhile stay
def test_at_rest_everybody_gets_everything_once_whatever_has_happened(kind: str, seed: int) -> None:
    world = World(seed, kind)
    world.live(world.random.randrange(1, 40))
    world.settle()
    seen = [delivered[:2] for delivered in world.deliveries.all]
    assert len(seen) == len(set(seen)), "nobody gets anything twice, not even while the overlay changes"
    world.deliveries.all.clear()
    assert [*world.lost()] == []
    forwards = Forwards()
    world.simulation.observers.append(forwards)
    published = []
    for _ in range(30):
        client = world.random.choice(CLIENTS)
        published.append(world.notification(client))
        world.simulation.call(world.at[client], Publish(client, published[-1]))
    world.settle()
    assert sorted(world.deliveries.all) == expected(world.subscriptions, published)
    assert sorted(world.deliveries.all) == sorted(on_the_bus(world.subscriptions, published))
    assert not world.checker.report().open
    # Flooding: every broker passes it on to all neighbours but the one it came from.
    brokers = world.simulation.brokers.values()
    flooded = sum(len(broker.neighbours) for broker in brokers) - (len(brokers) - 1)  # type: ignore[union-attr]
    assert all(count <= flooded for count in forwards.counts.values())
    assert kind != "flooding" or all(forwards.counts[each] == flooded for each in published)


@pytest.mark.parametrize("kind", KINDS)
def test_histories_stay_short_however_much_is_published(kind: str) -> None:
    world = World(7, kind, brokers=6, extra=5)
    for client in CLIENTS:
        world.simulation.call(world.at[client], Subscribe(client, "all", parse("exists price")))
    world.settle()
    longest = 0
    for number in range(1_000):
        client = CLIENTS[number % len(CLIENTS)]
        world.simulation.call(world.at[client], Publish(client, world.notification(client)))
        world.settle()
        histories = [broker.history for broker in world.simulation.brokers.values()]  # type: ignore[union-attr]
        longest = max(longest, *(len(history) for history in histories if history is not None))
    assert len(world.deliveries.all) == 1_000 * len(CLIENTS)
    assert longest <= len(set(world.at.values())) * 2 * STAMP_EVERY


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(list(KINDS)))
def test_what_one_producer_publishes_arrives_in_its_order_on_whatever_trees(seed: int, kind: str) -> None:
    """And once it has all arrived nothing is left waiting, also where links go while it is under way."""
    world = World(seed, kind)
    for number in range(12):
        world._subscribe(0, f"s{number}")
    world.settle()
    time = world.simulation.now
    for _ in range(40):
        time += world.random.randrange(800)
        client = world.random.choice(CLIENTS[:2])
        world.simulation.at(time, world.at[client], Publish(client, world.notification(client)))
    world.settle()
    for client in CLIENTS:
        for producer in CLIENTS:
            heard = [int(id) for at, id, _ in _of_producer(world, producer) if at == client]
            assert heard == sorted(heard)
    for number in range(20):
        time += world.random.randrange(800)
        client = world.random.choice(CLIENTS)
        world.simulation.at(
            max(time, world.simulation.now), world.at[client], Publish(client, world.notification(client))
        )
        if number % 5 == 0:
            world._change(max(time, world.simulation.now))
    world.settle()
    assert not any(broker._queues for broker in world.simulation.brokers.values())  # type: ignore[union-attr]


def test_without_waiting_what_goes_along_another_tree_may_arrive_first() -> None:
    """So the test above would notice."""
    found = 0
    for seed in range(40):
        world = World(seed, "simple", in_order=False)
        for number in range(12):
            world._subscribe(0, f"s{number}")
        world.settle()
        for number in range(40):
            world.simulation.at(
                world.simulation.now + number, world.at["ada"], Publish("ada", world.notification("ada"))
            )
        world.settle()
        for client in CLIENTS:
            heard = [int(id) for at, id, _ in _of_producer(world, "ada") if at == client]
            found += heard != sorted(heard)
    assert found


def _of_producer(world: World, producer: str) -> list[Any]:
    return [each for each in world.deliveries.all if world.producers[each[1]] == producer]


def test_trees_of_different_subscriptions_use_different_links() -> None:
    """The load is spread over the links, as the book says, rather than over those of one tree."""
    world = World(3, "simple", brokers=8, extra=10)
    for number, broker in enumerate(world.topology.brokers):
        world.simulation.at(number * 10_000, broker, Subscribe(f"c{number}", "s", parse(f"price = {number}")))
    world.settle()
    used = {
        frozenset((name, destination))
        for name, broker in world.simulation.brokers.items()
        for _, destination in broker.subscriptions  # type: ignore[union-attr]
        if destination in world.topology.brokers
    }
    assert len(used) > len(world.topology.brokers) - 1
