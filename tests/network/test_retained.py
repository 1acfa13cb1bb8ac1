"""Retained values over nodes: a later subscriber gets the last ones, once, and nothing older after a newer one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.channels import Channel, Channels, Retain
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import retaining, sync, wire
from fairlead.network.ledger import Ledger
from fairlead.network.node import Node
from fairlead.network.retaining import Recall, Retaining
from fairlead.network.settings import BrokerSettings
from fairlead.security import Principal
from fairlead_lab.delivery.retaining import retained_for
from fairlead_lab.testing.brokers import Brokers
from fairlead_lab.testing.memory import MemoryDisk
from fairlead_lab.testing.nodes import End, Line

CHANNELS = (
    Channel("quotes", 'type = "Q"', Retain(per=("symbol",), ends='state = "gone"')),
    Channel("history", 'type = "H"', Retain(per=("symbol",), count=2)),
)
FILTERS = ("x > 0", 'symbol = "a"', "true", 'type = "H"')
NODES = 3


def published(given: Sequence[dict[str, object]]) -> list[Notification]:
    return [Notification.of({**each, "id": f"{at}"}) for at, each in enumerate(given)]


things = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from("QQHR"),
            "symbol": st.sampled_from("ab"),
            "x": st.integers(0, 2),
            "producer": st.sampled_from(["p0", "p1", "p2"]),
        },
        optional={"state": st.just("gone")},
    ),
    max_size=10,
).map(lambda every: [{**each, "time": at + 1} for at, each in enumerate(every)])


def line(*, logged: bool = True) -> Line:
    return Line(NODES, make=lambda name: BrokerSettings(name, channels=CHANNELS).broker(), logged=logged)


class Reader(End):
    """A client that subscribes."""

    def got(self, id: str) -> list[tuple[Notification, bool]]:
        """What it was handed for a subscription, and whether that was retained."""
        found = []
        for payload in self.frames(wire.DELIVER):
            _, ids, packed = wire.parse_deliver(payload)
            ids, is_retained = wire.retained_in(ids)
            if id in ids:
                found.append((unpack(packed), is_retained))
        return found

    def done_at(self, number: int) -> int | None:
        """The number of deliveries before the answer to a request."""
        deliveries = 0
        for kind, payload in self.said:
            deliveries += kind == wire.DELIVER
            if kind == wire.CONTROL and wire.parse_control(payload) == wire.Done(number):
                return deliveries
        return None


def reader(node: Node, name: str) -> Reader:
    end = Reader(node)
    end.session = node.greet(end, wire.Hello(wire.VERSION, "client", name), principal=Principal(name))
    return end


def subscribe(end: End, number: int, id: str, filter: str, *, durable: str = "") -> None:
    end.hear(wire.control(wire.Subscribe(number, id, filter, durable, retained=True)))


class Scene:
    """Publishers at each node; each producer publishes at one."""

    def __init__(self, *, logged: bool = True) -> None:
        self.line, self.is_logged = line(logged=logged), logged
        self.publishers = [self.line.client(at, f"p{at}") for at in range(NODES)]
        self.line.settle()

    def publish(self, notification: Notification, number: int) -> None:
        at = int(notification.producer[1:])
        self.publishers[at].hear(wire.publish(number if self.is_logged else 0, pack(notification)))

    def move(self, rng: Random) -> None:
        """Carry on some of what there is to be carried on."""
        for node in rng.sample(self.line.nodes, NODES):
            if rng.random() < 0.5:
                node.flush()
            if rng.random() < 0.5 and node.wants_sync:
                node.synced(0 if node.ledger is None else node.ledger.log.sync())
        for one, other in rng.sample(self.line.links, len(self.line.links)):
            for end, far in ((one, other), (other, one)):
                if rng.random() < 0.5 and (written := end.take()):
                    far.hear(written)


@given(things, st.sampled_from(FILTERS), st.integers(0, NODES - 1), st.booleans(), st.booleans())
@settings(max_examples=40)
def test_a_later_subscriber_gets_the_last_values_of_all_brokers(
    given: list[dict[str, object]], filter: str, at: int, logged: bool, durable: bool
) -> None:
    scene, every = Scene(logged=logged), published(given)
    for number, each in enumerate(every, 1):
        scene.publish(each, number)
        scene.line.settle()
    end = reader(scene.line.nodes[at], "ada")
    subscribe(end, 1, "s", filter, durable="desk" if durable and logged else "")
    scene.line.settle()
    expected = retained_for(Channels(CHANNELS), every, parse(filter))
    got = end.got("s")
    assert sorted(each.id or "" for each, _ in got) == sorted(each.id or "" for each in expected)
    assert all(is_retained for _, is_retained in got)
    assert end.done_at(1) == len(got), "all of it comes before the acknowledgement"


def broken(scene: Scene, every: Sequence[Notification], asked: int, filter: str, end: Reader) -> list[str]:
    """The violations of the law: `asked` were published before the subscription."""
    wanted, channels, got = parse(filter), Channels(CHANNELS), end.got("s")
    ids = [each.id for each, _ in got]
    wrong = [f"{id} twice" for id in {*ids} if ids.count(id) > 1]
    wrong += [f"{each.id} does not match" for each, _ in got if not wanted.matches(each)]
    for value in retained_for(channels, every[:asked], wanted):
        later = [
            each
            for each in every[asked:]
            if channels.of(each) == channels.of(value) and each.get("symbol") == value.get("symbol")
        ]
        if value.id not in ids and not later:
            wrong.append(f"{value.id} is missing")
    places = {each.id: at for at, each in enumerate(every)}
    for at, (each, is_retained) in enumerate(got):
        if is_retained and any(
            other.producer == each.producer
            and other.get("symbol") == each.get("symbol")
            and channels.of(other) == channels.of(each)
            and places[other.id] > places[each.id]
            for other, _ in got[:at]
        ):
            wrong.append(f"{each.id} after a newer one")
    return wrong


def run(seed: int) -> list[str]:
    """What is wrong with a run in which publications, a subscription and links take turns at random."""
    rng = Random(seed)
    scene = Scene()
    every = published(
        [
            {
                "type": rng.choice("QQH"),
                "symbol": rng.choice("ab"),
                "x": rng.randrange(3),
                "producer": f"p{rng.randrange(NODES)}",
                "time": at + 1,
            }
            for at in range(rng.randrange(4, 14))
        ]
    )
    asked, at, filter = rng.randrange(1, len(every)), rng.randrange(NODES), rng.choice(FILTERS)
    others = reader(scene.line.nodes[rng.randrange(NODES)], "bob")
    if rng.random() < 0.5:
        subscribe(others, 1, "o", "true")
    end = reader(scene.line.nodes[at], "ada")
    for number, each in enumerate(every, 1):
        if number - 1 == asked:
            for _ in range(rng.randrange(6)):
                scene.move(rng)
            if rng.random() < 0.5:
                scene.line.settle()
            subscribe(end, 1, "s", filter, durable=rng.choice(["", "desk"]))
        scene.publish(each, number)
        for _ in range(rng.randrange(3)):
            scene.move(rng)
    scene.line.settle()
    wrong = broken(scene, every, asked, filter, end)
    last = Notification.of({"type": "R", "symbol": "a", "x": 2, "producer": "p0", "time": 99, "id": "last"})
    scene.publish(last, 99)
    scene.line.settle()
    is_wanted = parse(filter).matches(last)
    if is_wanted != ("last" in [each.id for each, is_retained in end.got("s") if not is_retained]):
        wrong.append("what comes later does not come")
    return wrong


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_missing_nothing_comes_twice_and_nothing_older_after_a_newer_one(seed: int) -> None:
    assert run(seed) == []


def _never(*arguments: object) -> bool:
    return False


def _always(*arguments: object) -> bool:
    return True


MUTANTS: dict[str, tuple[type, str, Callable[..., object]]] = {
    "what was handed out meanwhile is not noted": (Recall, "is_overtaken", _never),
    "what was on its way comes again": (Recall, "lets_pass", _always),
    "a broker retains nothing of its own": (Retaining, "take", _never),
}


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, method, mutant = MUTANTS[name]
    monkeypatch.setattr(kind, method, mutant)
    assert any(run(seed) for seed in range(200))


def test_a_newer_value_elsewhere_that_does_not_match_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def ids() -> list[str | None]:
        scene = Scene()
        for number, (producer, x) in enumerate([("p0", 1), ("p2", 3)], 1):
            scene.publish(
                Notification.of(
                    {"type": "Q", "symbol": "a", "x": x, "producer": producer, "time": number, "id": f"{x}"}
                ),
                1,
            )
            scene.line.settle()
        end = reader(scene.line.nodes[1], "ada")
        subscribe(end, 1, "s", "x < 3")
        scene.line.settle()
        return [each.id for each, _ in end.got("s")]

    assert ids() == []
    monkeypatch.setattr(Retaining, "_tell_ranks", lambda *arguments: None)
    assert ids() == ["1"]


def test_a_client_gets_a_value_for_the_first_of_its_subscriptions_that_matches() -> None:
    scene = Scene()
    scene.publish(published([{"type": "Q", "symbol": "a", "x": 1, "producer": "p0", "time": 1}])[0], 1)
    scene.line.settle()
    end = reader(scene.line.nodes[1], "ada")
    subscribe(end, 1, "s", "x > 0")
    subscribe(end, 2, "t", "true")
    scene.line.settle()
    assert [len(end.got("s")), len(end.got("t"))] == [1, 0]


# -- over restarts -------------------------------------------------------------------------------------------


class Broker:
    """One broker over a disk that may fail."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.numbers = 0
        self.open()

    def open(self, channels: Sequence[Channel] = CHANNELS) -> None:
        self.ledger = Ledger("/log", self.disk, broker="hub", segment_bytes=2_000, buffer_bytes=400)
        self.node = Node(BrokerSettings("hub", channels=tuple(channels)).broker(), self.ledger, life="1")
        self.publisher = reader(self.node, "publisher")
        self.numbers = 0

    def publish(self, notification: Notification) -> None:
        self.numbers += 1
        self.publisher.hear(wire.publish(self.numbers, pack(notification)))

    def settle(self) -> None:
        while self.node.is_busy or self.node.wants_sync:
            self.node.flush()
            if self.node.wants_sync:
                self.node.synced(self.ledger.log.sync())

    def values(self) -> list[str]:
        end = reader(self.node, "ada")
        subscribe(end, 1, "s", "true")
        self.settle()
        self.node.lost(end.session)
        return sorted(each.id or "" for each, _ in end.got("s"))


@given(
    things, st.integers(0, 10), st.randoms(use_true_random=False), st.sampled_from(["kill", "power", "save"])
)
@settings(max_examples=40)
def test_values_outlive_crashes_and_the_records_that_they_came_in(
    given: list[dict[str, object]], at: int, rng: Random, how: str
) -> None:
    broker, every = Broker(), published(given)
    for number, each in enumerate(every):
        broker.publish(each)
        if rng.random() < 0.7:
            broker.settle()
        if number == at:
            broker.ledger.gather(0)
        if rng.random() < 0.3:
            broker.node.save(0)
    broker.settle()
    if how == "save":
        broker.node.retaining.take(pack(Notification.of({"type": "R"})), -1)
        broker.ledger.gather(0)
        broker.settle()
        broker.ledger.retain(1 << 50, seconds=0)
    if how == "power":
        broker.disk.lose_power(rng)
    else:
        broker.disk.kill()
    broker.open()
    expected = retained_for(Channels(CHANNELS), every, parse("true"))
    assert broker.values() == sorted(each.id or "" for each in expected)


def test_retention_removes_records_and_keeps_values() -> None:
    broker = Broker()
    for at in range(200):
        broker.publish(
            Notification.of({"type": "Q", "symbol": "a" if at == 0 else "b", "producer": "p", "id": f"{at}"})
        )
        broker.settle()
    for _ in range(3):
        broker.node.save(0)
        broker.settle()
        broker.ledger.retain(1 << 50, seconds=0)
    assert broker.ledger.log.first > 100
    assert broker.values() == ["0", "199"]
    broker.disk.kill()
    broker.open()
    assert broker.values() == ["0", "199"]


def test_channels_that_are_new_find_what_the_log_has() -> None:
    broker = Broker()
    broker.disk.kill()
    broker.open([])
    for at, symbol in enumerate("aab"):
        broker.publish(Notification.of({"type": "Q", "symbol": symbol, "producer": "p", "id": f"{at}"}))
        broker.settle()
    broker.ledger.gather(0)
    assert broker.values() == []
    broker.disk.kill()
    broker.open()
    assert broker.values() == ["1", "2"]


# -- over sockets --------------------------------------------------------------------------------------------


def test_values_of_restarted_brokers_come_to_clients_of_others(brokers: Brokers, tmp_path: Path) -> None:
    given = (Channel("quotes", "exists symbol", Retain(per=("symbol",))),)
    hub = brokers.start("hub", tmp_path, channels=given)
    east = brokers.start("east", tmp_path, links=(hub.url,), channels=given)
    with sync.connect(hub.url, name="desk") as client:
        for price in range(3):
            client.publish({"symbol": "IBM", "price": price})
        client.publish({"symbol": "SAP", "price": 9})
        assert client.channels() == [
            {"name": "quotes", "filter": "exists symbol", "retain": {"per": ["symbol"], "count": 1}}
        ]
    port = hub.port
    brokers.stop(hub)
    hub = brokers.start("hub", tmp_path, port, channels=given)
    with sync.connect(east.url, name="ada") as client:
        with client.subscribe("exists price", durable="ada") as prices:  # waits for brokers that are away
            found = [prices.delivery(timeout=60) for _ in range(2)]
            assert [(each.notification.get("price"), each.retained) for each in found] == [
                (2, True),
                (9, True),
            ]
        assert [each.get("price") for each in client.retained("price > 3")] == [9]
        with client.subscribe("exists price", durable="ada") as prices, sync.connect(hub.url) as desk:
            desk.publish({"symbol": "IBM", "price": 4})
            assert prices.delivery(timeout=60).notification.get("price") == 4


def test_a_message_says_all_that_a_broker_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """More values than are told at once, and more keys than are asked about at once."""
    monkeypatch.setattr(retaining, "VALUES_AT_ONCE", 3)
    monkeypatch.setattr(retaining, "KEYS_AT_ONCE", 4)
    monkeypatch.setattr(retaining, "AT_ONCE", 2)
    scene = Scene()
    for at in range(20):
        fields = {"type": "Q", "symbol": f"s{at}", "producer": "p0", "time": at, "id": f"{at}"}
        scene.publish(Notification.of(fields), at + 1)
    scene.line.settle()
    end = reader(scene.line.nodes[2], "ada")
    subscribe(end, 1, "s", "true")
    scene.line.settle()
    assert [each.id for each, _ in end.got("s")] == [f"{at}" for at in range(20)]
