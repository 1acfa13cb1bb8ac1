"""Trees of types on a ring: everybody gets everything, also after brokers have joined and left (book 4.6.3)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairlead.broker.messages import (
    Advertise,
    Climb,
    Connect,
    Deliver,
    Forward,
    InTree,
    Leave,
    Publish,
    Refuse,
    Send,
    Subscribe,
    Unlink,
    Unsubscribe,
)
from fairlead.errors import ValueRefused
from fairlead.filters import Filter, Schema, parse
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.routing import Catalogue, Identity, ImperfectMerging, Merging, Simple
from fairlead_lab.broker import RendezvousBroker, RendezvousSettings
from fairlead_lab.broker.rendezvous import hermes, scribe, types_named
from fairlead_lab.overlay import Ring, parent
from fairlead_lab.simulation.forests import ForestChecker
from fairlead_lab.simulation.network import Simulation
from fairlead_lab.testing.worlds import (
    TYPES,
    Deliveries,
    expected,
    on_the_bus,
    some_filter,
    some_notification,
)

NAMED = types_named(TYPES)
CLIENTS = ("ada", "bob", "cyn", "dan")
KINDS = {
    "covering": RendezvousSettings(NAMED),
    "simple": RendezvousSettings(NAMED, strategy=Simple()),
    "identity": RendezvousSettings(NAMED, strategy=Identity()),
    "merging": RendezvousSettings(NAMED, strategy=Merging()),
    "imperfect merging": RendezvousSettings(NAMED, strategy=ImperfectMerging(0.3)),
    "batched": RendezvousSettings(NAMED, batch_us=700),
    "Scribe": scribe(NAMED),
    "Hermes": hermes(NAMED),
}


class World:
    """Brokers on a ring, and clients that subscribe."""

    def __init__(self, seed: int, how: RendezvousSettings) -> None:
        self.random = random = Random(seed)
        self.how = how
        names = [f"B{number}" for number in range(1, random.randrange(2, 12))]
        self.ring = Ring.filled(names)
        self.catalogue = Catalogue(engine_named("columnar"), keep=True)
        self.simulation = Simulation([self.broker(name) for name in names], seed=seed)
        self.checker = ForestChecker(self.simulation)
        self.deliveries = Deliveries()
        self.simulation.observers.append(self.deliveries)
        self.at = {client: random.choice(names) for client in CLIENTS}
        self.subscriptions: dict[str, tuple[str, Filter]] = {}
        self.gone: list[str] = []
        if how.advertisements is not None:
            for client in CLIENTS:
                self.simulation.call(self.at[client], Advertise(client, "a", parse("exists price")))

    def broker(self, name: str) -> RendezvousBroker:
        return RendezvousBroker(name, self.how, lambda type: parent(self.ring, name, type), self.catalogue)

    def live(self, steps: int) -> None:
        time = self.simulation.now
        for number in range(steps):
            time += self.random.randrange(2_500)
            if self.subscriptions and self.random.random() < 0.35:
                id = self.random.choice(sorted(self.subscriptions))
                client, _ = self.subscriptions.pop(id)
                self.simulation.at(time, self.at[client], Unsubscribe(client, id))
                continue
            client, filter = self.random.choice(CLIENTS), some_filter(self.random)
            if (client, filter) not in self.subscriptions.values():
                self.subscriptions[f"s{number}"] = (client, filter)
                self.simulation.at(time, self.at[client], Subscribe(client, f"s{number}", filter))
        self.simulation.run(self.random.choice([None, time]))  # what comes next may find much under way

    def change(self, number: int) -> None:
        """A broker joins the ring, which may be one that has failed, or one without clients fails; and ways to the
        roots change."""
        brokers = self.simulation.brokers
        idle = [name for name in self.ring.names if name not in self.at.values()]
        if idle and self.random.random() < 0.5:
            gone = self.random.choice(idle)
            self.gone.append(gone)
            self.ring.fail(gone)
            for name in self.ring.names:
                self.simulation.call(name, Unlink(gone))
        else:
            name = self.gone.pop() if self.gone and self.random.random() < 0.8 else f"N{number}"
            self.ring.join(name)
            brokers[name] = self.broker(name)
        for broker in map(brokers.__getitem__, self.ring.names):
            assert isinstance(broker, RendezvousBroker)
            for tree in broker.trees:
                self.simulation.call(broker.name, Climb(parent(self.ring, broker.name, tree), tree))
        self.simulation.run()

    def publish(self, count: int) -> list[Notification]:
        self.simulation.run()
        published = []
        for number in range(count):
            client = self.random.choice(CLIENTS)
            published.append(some_notification(self.random, str(number), client))
            self.simulation.call(self.at[client], Publish(client, published[-1]))
        self.simulation.run()
        return published


def always(parent: str | None) -> Callable[[str], str | None]:
    """One parent in all trees."""
    return lambda type: parent


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15 if settings.default and settings.default.max_examples == 100 else 500)
@given(seed=st.integers(0, 2**32), changes=st.integers(0, 6))
@example(1157520414, 2)  # two brokers climb away from each other, with messages under way between them
def test_everybody_gets_what_it_asked_for(kind: str, seed: int, changes: int) -> None:
    world = World(seed, KINDS[kind])
    world.live(world.random.randrange(1, 30))
    for number in range(changes):
        world.change(number)
    published = world.publish(30)
    assert sorted(world.deliveries.all) == expected(world.subscriptions, published)
    assert sorted(world.deliveries.all) == sorted(on_the_bus(world.subscriptions, published))
    assert not world.checker.report().open


def test_a_notification_turns_off_where_it_meets_a_subscription_and_still_climbs() -> None:
    """Fig. 4.32: B1, B3 and B5 are on the ways of the subscriptions, R is the rendezvous node."""
    above = {"B1": "B3", "B2": "B3", "B3": "R", "B4": "R", "B5": "R", "R": None}
    how = RendezvousSettings(types_named(["quote"]))
    brokers = {name: RendezvousBroker(name, how, always(up)) for name, up in above.items()}
    simulation = Simulation(brokers.values())
    deliveries = Deliveries()
    simulation.observers.append(deliveries)
    simulation.call("B1", Subscribe("ada", "s1", parse("price > 10")))
    simulation.call("B5", Subscribe("bob", "s2", parse("price > 20")))
    simulation.run()
    assert {name for name, broker in brokers.items() if broker.trees} == {"B1", "B3", "B5", "R"}
    simulation.call("B2", Publish("p", Notification.of({"type": "quote", "price": 15})))
    simulation.run()
    assert [delivered[0] for delivered in deliveries.all] == ["ada"]
    assert "B4" not in {name for name, broker in brokers.items() if broker.trees}


def test_with_advertisements_notifications_need_not_pass_the_rendezvous_node() -> None:
    above = {"B1": "B2", "B2": "R", "R": None}
    how = hermes(types_named(["q"]))
    brokers = [RendezvousBroker(name, how, always(up)) for name, up in above.items()]
    simulation = Simulation(brokers)
    simulation.call("B2", Advertise("p", "a", parse("price > 0")))
    simulation.call("B1", Subscribe("ada", "s1", parse("price > 10")))
    simulation.run()
    effects = brokers[1].handle(Publish("p", Notification.of({"type": "q", "price": 11})), 0)
    assert [effect.to for effect in effects if isinstance(effect, Send)] == ["B1"]
    effects = brokers[1].handle(Publish("p", Notification.of({"type": "q", "price": 5})), 0)
    assert effects == []


def test_scribe_tells_of_topics_only_and_filters_at_the_client() -> None:
    one = RendezvousBroker("B1", scribe(types_named(["q", "r"])), lambda _: "R")
    met, told = one.handle(Subscribe("ada", "s1", parse('type = "q" and price > 10')), 0)
    assert isinstance(met, Send)
    assert isinstance(met.message, InTree)
    assert isinstance(told, Send)
    assert str(told.message.message.added[0]) == 'type = "q"'  # type: ignore[union-attr]
    assert one.handle(InTree("R", "q", Connect("R", met.message.message.link)), 0) == []  # type: ignore[union-attr]
    assert one.handle(Subscribe("ada", "s2", parse('type = "q" and price > 20')), 0) == []
    cheap, dear = (Notification.of({"type": "q", "price": price}) for price in (5, 15))
    assert one.handle(InTree("R", "q", Forward("R", cheap)), 0) == []
    assert one.handle(InTree("R", "q", Forward("R", dear)), 0) == [Deliver("ada", dear, ("s1",))]
    assert one.handle(Unsubscribe("ada", "s1"), 0) == []
    assert len(one.handle(Unsubscribe("ada", "s2"), 0)) == 1


def test_a_subscription_to_a_type_is_in_the_trees_of_its_subtypes() -> None:
    schema = Schema({"event": (), "quote": ("event",), "trade": ("event",), "other": ()})
    how = hermes(types_named(("event", "quote", "trade", "other")), schema)
    one = RendezvousBroker("B1", how, lambda _: None)
    one.handle(Subscribe("ada", "s1", parse("type is event", schema)), 0)
    assert set(one.trees) == {"event", "quote", "trade"}


def test_what_has_no_place_is_refused() -> None:
    one = RendezvousBroker("B1", RendezvousSettings(types_named(["q"])), lambda _: None)
    assert one.handle(Publish("p", Notification.of({"type": "z"})), 0) == [
        Refuse("p", "this notification is of no type that there is")
    ]
    assert one.handle(Subscribe("ada", "s1", parse('type = "z"')), 0) == [
        Refuse("ada", "this filter matches nothing of any type that there is")
    ]
    one.handle(Subscribe("ada", "s1", parse("x > 1")), 0)
    assert one.handle(Subscribe("ada", "s1", parse("x > 2")), 0) == [Refuse("ada", "the id 's1' is taken")]
    assert one.handle(Unsubscribe("ada", "s9"), 0) == [
        Refuse("ada", "there is nothing under the id 's9'", True)
    ]
    one.handle(Leave("ada"), 0)
    assert one.handle(Publish("p", Notification.of({"type": "q", "x": 2})), 0) == []
    with pytest.raises(ValueRefused, match="types"):
        RendezvousSettings({})


def test_a_type_may_be_any_part_of_what_is_published() -> None:
    how = RendezvousSettings({"low": parse("price < 10"), "high": parse("price >= 10")})
    one = RendezvousBroker("B1", how, lambda _: None)
    one.handle(Subscribe("ada", "s1", parse("price in [5, 15]")), 0)
    assert set(one.trees) == {"low", "high"}
    for price in (7, 12):
        [delivery] = one.handle(Publish("p", Notification.of({"price": price})), 0)
        assert isinstance(delivery, Deliver)


def test_who_has_left_the_ring_refuses_clients_and_passes_over_what_is_late() -> None:
    ring = Ring.filled(["B1", "B2"])
    one = RendezvousBroker(
        "B1", RendezvousSettings(types_named(["q"])), lambda type: parent(ring, "B1", type)
    )
    ring.leave("B1")
    [refusal] = one.handle(Subscribe("ada", "s1", parse("x > 1")), 0)
    assert isinstance(refusal, Refuse)
    assert "B1" in refusal.reason
    assert one.handle(InTree("B2", "q", Forward("B2", Notification.of({"type": "q", "x": 2}))), 0) == []


def test_who_has_failed_and_comes_back_under_its_name_is_heard() -> None:
    how = RendezvousSettings(types_named(["q"]))
    root = RendezvousBroker("R", how, always(None))
    for now in (1, 3):  # the second time as one that knows of nothing before
        below = RendezvousBroker("B", how, always("R"))
        for effect in below.handle(Subscribe("ada", "s1", parse("price > 1")), now):
            assert isinstance(effect, Send)
            root.handle(effect.message, now)
        sent = root.handle(Publish("p", Notification.of({"type": "q", "price": 5, "n": now})), now)
        assert [effect.to for effect in sent if isinstance(effect, Send)] == ["B"]
        root.handle(Unlink("B"), now)
