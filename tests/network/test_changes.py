"""A subscription is changed in one step: nothing that both filters match is missed, and nothing comes twice.

A durable subscriber gets each record of the log by the filter that it had when the record came.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker import Broker
from fairlead.broker import messages as calls
from fairlead.errors import BrokerRefused
from fairlead.filters import parse
from fairlead.log.records import NOTIFICATIONS, notification_in
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import connect, formers, sync, wire
from fairlead.network.destinations import Durable
from fairlead.network.durability import Durability
from fairlead.network.ledger import Formerly, Ledger
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings
from fairlead_lab.testing.brokers import Brokers, on_a_loop
from fairlead_lab.testing.memory import MemoryDisk
from fairlead_lab.testing.nodes import End, Line

FILTERS = ("x < 3", "x >= 2", "x in {1, 4}", "true", "x = 9")
ROUTINGS = ("flooding", "identity", "covering", "merging")


class World:
    """Brokers in a line, a subscriber at the first one, and producers everywhere; what is under way waits."""

    def __init__(self, seed: int, *, durable: bool, routing: str) -> None:
        self.random, self.durable = Random(seed), durable
        self.line = Line(3, make=lambda name: BrokerSettings(name, algorithm=routing).broker())
        self.host = self.line.nodes[0]
        self.producers = [self.line.client(at, f"p{at}") for at in range(3)]
        self.filters, self.places = [FILTERS[0]], [0]
        self.published: list[tuple[str, int, int, int]] = []
        """Of each: id, x, the number of the filter that was acknowledged last, and of the latest at the end."""
        self.said: list[End] = []
        self.numbers = 0
        self.attach()
        self.line.settle()

    def attach(self) -> None:
        self.end = self.line.client(0, "s")
        self.said.append(self.end)
        self.ask()

    def id_of(self, filter: str) -> str:
        return f"d:{filter}" if self.durable else "s"

    def ask(self, instead: str = "") -> None:
        self.numbers += 1
        filter, durable = self.filters[-1], "d" if self.durable else ""
        made = wire.Subscribe(self.numbers, self.id_of(filter), filter, durable, instead=instead)
        self.host.receive(self.end.session, wire.Frames().feed(wire.control(made)), 0)

    def change(self) -> None:
        filter = self.random.choice(FILTERS)
        if filter != self.filters[-1]:
            before, ledger = self.id_of(self.filters[-1]), self.host.ledger
            assert ledger is not None
            self.filters.append(filter)
            self.places.append(ledger.log.end)
            self.ask(before)

    def publish(self) -> None:
        producer, x = self.random.choice(self.producers), self.random.randrange(6)
        id = f"n{len(self.published)}"
        packed = pack(Notification.of({"x": x, "id": id, "producer": producer.session.name}))
        self.published.append((id, x, self.acknowledged, -1))
        frame = wire.publish(len(self.published), packed)
        producer.node.receive(producer.session, wire.Frames().feed(frame), 0)

    @property
    def acknowledged(self) -> int:
        """The filters whose change was answered, so far."""
        told = map(wire.parse_control, self.end.frames(wire.CONTROL))
        done = sum(isinstance(each, wire.Done) for each in told)
        return max(0, len(self.filters) - 1 - (self.asked - done))

    @property
    def asked(self) -> int:
        return self.numbers - self.asked_before

    asked_before = 0

    def carry(self) -> None:
        """Carry a part of what waits."""
        self.random.choice(self.line.nodes).flush()
        for node in self.line.nodes:
            if node.wants_sync and self.random.random() < 0.5:
                assert node.ledger is not None
                node.synced(node.ledger.log.sync())
        one, other = self.random.choice(self.line.links)
        for here, there in ((one, other), (other, one)):
            if self.random.random() < 0.7 and (written := here.take()):
                at = self.random.randrange(len(written) + 1)
                here.written = written[at:] + here.written
                there.hear(written[:at])

    def settle(self) -> None:
        self.line.settle()
        last = len(self.filters) - 1
        self.published = [(*each[:3], last if each[3] < 0 else each[3]) for each in self.published]

    def lose(self) -> None:
        self.host.lost(self.end.session)
        self.asked_before = self.numbers
        self.attach()

    def run(self, steps: int) -> None:
        most = [self.publish, self.carry, self.carry, self.change]
        for _ in range(steps):
            self.random.choice(most)()
            if self.durable and self.random.random() < 0.1:
                self.lose()
            if self.random.random() < 0.1:
                self.settle()
        self.settle()
        self.host.tick(10**9)
        self.settle()

    def delivered(self) -> list[tuple[int, str, tuple[str, ...]]]:
        """By the place in the log, once each: who takes deliveries knows a place that has come before."""
        found: dict[tuple[int, str], tuple[str, ...]] = {}
        for end in self.said:
            for payload in end.frames(wire.DELIVER):
                place, ids, packed = wire.parse_deliver(payload)
                at = place, str(unpack(packed).id)
                assert found.setdefault(at, tuple(ids)) or self.durable, f"{at} twice"
                found[at] = tuple(ids)
        return [(place, id, ids) for (place, id), ids in found.items()]


def check_a_plain_subscriber(seed: int, routing: str) -> None:
    """What all filters of the time match is delivered, what none matches is not, and nothing comes twice."""
    world = World(seed, durable=False, routing=routing)
    world.run(40)
    delivered = [id for _, id, _ in world.delivered()]
    assert len(delivered) == len(set(delivered))
    for id, x, first, last in world.published:
        matching = {
            parse(each).matches(Notification.of({"x": x})) for each in world.filters[first : last + 1]
        }
        if len(matching) == 1:
            assert (id in delivered) == matching.pop(), (id, x, world.filters[first : last + 1])
    check_order(world)


def check_order(world: World) -> None:
    order = {id: number for number, (id, *_) in enumerate(world.published)}
    for producer in world.producers:
        own = [
            order[id]
            for end in world.said[-1:]
            for id, of in (
                (str(unpack(packed).id), unpack(packed).producer)
                for _, _, packed in map(wire.parse_deliver, end.frames(wire.DELIVER))
            )
            if of == producer.session.name
        ]
        assert own == sorted(own)


def check_a_durable_subscriber(seed: int, routing: str) -> None:
    """Each record of its log is delivered iff the filter matches that it had at that place."""
    world = World(seed, durable=True, routing=routing)
    world.run(40)
    ledger = world.host.ledger
    assert ledger is not None
    expected = []
    with ledger.reader(0, *NOTIFICATIONS, synced=False) as reader:
        for record in reader:
            at = max(each for each, place in enumerate(world.places) if place <= record.offset)
            notification = unpack(notification_in(record))
            if parse(world.filters[at]).matches(notification):
                expected.append((record.offset + 1, notification.id))
    assert sorted((place, id) for place, id, _ in world.delivered()) == expected
    check_nothing_is_missed(world)


def check_nothing_is_missed(world: World) -> None:
    """What came to the log is what was asked for: whatever all filters of the time match is there."""
    delivered = {id for _, id, _ in world.delivered()}
    for id, x, first, last in world.published:
        if all(parse(each).matches(Notification.of({"x": x})) for each in world.filters[first : last + 1]):
            assert id in delivered, (id, x)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(ROUTINGS))
def test_a_plain_subscriber_misses_nothing_that_both_filters_match(seed: int, routing: str) -> None:
    check_a_plain_subscriber(seed, routing)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(ROUTINGS))
def test_a_durable_subscriber_gets_each_record_by_the_filter_of_its_time(seed: int, routing: str) -> None:
    check_a_durable_subscriber(seed, routing)


def test_at_no_moment_does_a_neighbour_know_neither_filter() -> None:
    for routing in ROUTINGS:
        frames = 1
        at = 0
        while at <= frames:
            world = World(0, durable=False, routing=routing)
            world.filters.append("x in {1, 4}")
            world.ask("s")
            world.host.flush()
            here, there = world.line.links[0]
            said = [wire.control(wire.parse_control(each)) for _, each in wire.Frames().feed(here.take())]
            frames = len(said)
            there.hear(b"".join(said[:at]))
            for producer in world.producers[1:]:
                packed = pack(Notification.of({"x": 1, "id": producer.session.name, "producer": "p"}))
                producer.node.receive(producer.session, wire.Frames().feed(wire.publish(1, packed)), 0)
                producer.node.flush()
            there.hear(b"".join(said[at:]))
            world.settle()
            assert sorted(id for _, id, _ in world.delivered()) == ["p1", "p2"], (routing, at)
            at += 1
        assert frames > 1 or routing == "flooding"


# -- one broker with a log that survives ------------------------------------------------------------------------


class Host:
    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.numbers = 0
        self.open()

    def open(self) -> None:
        self.ledger = Ledger("/log", self.disk, broker="hub")
        self.node = Node(BrokerSettings("hub").broker(), self.ledger, life="1")

    def client(self) -> End:
        end = End(self.node)
        end.session = self.node.greet(end, wire.Hello(wire.VERSION, "client", "s"))
        return end

    def ask(self, end: End, filter: str, instead: str = "") -> None:
        self.numbers += 1
        self.say(end, wire.control(wire.Subscribe(self.numbers, filter, filter, "d", instead=instead)))

    def say(self, end: End, frame: bytes) -> None:
        self.node.receive(end.session, wire.Frames().feed(frame), 0)
        while self.node.is_busy or self.node.wants_sync:
            self.node.flush()
            self.node.synced(self.ledger.log.sync())
        self.node.flush()

    def publish(self, *values: int) -> None:
        end = self.client()
        for x in values:
            self.numbers += 1
            packed = pack(Notification.of({"x": x, "id": str(self.numbers), "producer": "p"}))
            self.say(end, wire.publish(self.numbers, packed))
        self.node.lost(end.session)

    def kill(self) -> None:
        self.ledger.log.close()
        self.open()


def got(end: End) -> list[tuple[object, list[str]]]:
    heard = map(wire.parse_deliver, end.frames(wire.DELIVER))
    return [(unpack(packed).get("x"), wire.attempt_in(ids)[0]) for _, ids, packed in heard]


def accept(host: Host, end: End) -> None:
    places = [wire.parse_deliver(payload)[0] for payload in end.frames(wire.DELIVER)]
    host.say(end, wire.control(wire.Accept("d", places)))


def backlog_of_two_filters() -> Host:
    host = Host()
    end = host.client()
    host.ask(end, "x = 1")
    host.node.lost(end.session)
    host.publish(1, 2)
    again = host.client()
    host.ask(again, "x = 2", "x = 1")
    host.node.lost(again.session)
    host.publish(1, 2)
    return host


def test_a_backlog_is_delivered_by_the_filters_of_its_times_over_a_kill_and_gathering() -> None:
    host = backlog_of_two_filters()
    host.kill()
    host.ledger.gather(0)
    host.kill()
    assert any(isinstance(each, Formerly) for each in host.ledger.state.changes())
    end = host.client()
    host.ask(end, "x = 2")
    assert got(end) == [(1, ["x = 2"]), (2, ["x = 2"])]


def test_a_former_filter_ends_when_its_records_are_dealt_with() -> None:
    host = backlog_of_two_filters()
    end = host.client()
    host.ask(end, "x = 2")
    host.node.tick(1)
    assert [str(each.filter) for each in host.node.durables["d"].former.values()] == ["x = 1"]
    accept(host, end)
    host.node.tick(2)
    assert host.node.durables["d"].former == {}
    assert [str(each.filter) for each, _ in host.node.broker.entries] == ["x = 2"]
    host.kill()
    assert host.node.durables["d"].former == {}


def test_who_asks_for_the_former_filter_is_told_of_the_present_one() -> None:
    host = backlog_of_two_filters()
    end = host.client()
    host.ask(end, "x = 1")
    (refused,) = [
        each for each in map(wire.parse_control, end.frames(wire.CONTROL)) if type(each) is wire.Refused
    ]
    assert "is bound to 'x = 2'" in refused.reason


def test_a_change_that_is_asked_for_twice_is_one() -> None:
    host = backlog_of_two_filters()
    end = host.client()
    host.ask(end, "x = 2", "x = 1")
    host.ask(end, "x = 2", "x = 1")
    assert list(host.node.durables["d"].subscriptions) == ["x = 2"]
    assert got(end) == [(1, ["x = 2"]), (2, ["x = 2"])]


def test_an_ended_subscription_leaves_no_former_filter() -> None:
    host = backlog_of_two_filters()
    end = host.client()
    host.ask(end, "x = 2")
    host.say(end, wire.control(wire.Unsubscribe(99, "", "d")))
    assert [*host.node.broker.entries] == []
    host.kill()
    assert (host.ledger.state.former, host.ledger.state.durables) == ({}, {})


def test_the_log_of_a_full_disk_ends_before_the_change() -> None:
    host = backlog_of_two_filters()
    ((since, until),) = [(each.since, each.until) for each in host.ledger.state.former["d"].values()]
    assert since < until
    host.ledger.state.take_back(since)
    assert [(each.since, each.until) for each in host.ledger.state.former["d"].values()] == [(since, since)]


# -- over sockets ----------------------------------------------------------------------------------------------


def test_clients_change_what_they_subscribe_to(tmp_path: Path) -> None:
    with Brokers() as brokers:
        hub = brokers.start("hub", tmp_path)
        with sync.connect(hub.url) as client, sync.connect(hub.url) as producer:
            plain = client.subscribe("x = 1")
            desk = client.subscribe("x = 1", durable="desk")
            producer.publish({"x": 1})
            plain.change("x = 2")
            desk.change("x = 2")
            assert (str(plain.filter), str(desk.filter), desk.id) == ("x = 2", "x = 2", "desk:x = 2")
            for x in (1, 2):
                producer.publish({"x": x})
            assert [plain.get(20).get("x"), plain.get(20).get("x")] == [1, 2]
            assert [desk.get(20).get("x"), desk.get(20).get("x")] == [1, 2]
            desk.change("x = 1")
            producer.publish({"x": 1})
            assert desk.get(20).get("x") == 1
        with sync.connect(hub.url) as client:
            client.subscribe("x = 1", durable="desk").close()


def test_a_change_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    with Brokers() as brokers:
        hub = brokers.start("hub", tmp_path)
        with sync.connect(hub.url) as client:
            desk = client.subscribe("x = 1", durable="desk")
            shared = client.subscribe("x = 1", durable="team", shared=True)
            with pytest.raises(Exception, match="keeps its filter"):
                shared.change("x = 2")
            other = client.subscribe("x = 2", durable="desk")
            with pytest.raises(BrokerRefused, match="there is a subscription"):
                desk.change("x = 2")
            client.publish({"x": 1})
            assert desk.get(20).get("x") == 1
            assert other.id == "desk:x = 2"


@on_a_loop
async def test_a_change_outlives_the_connection(tmp_path: Path) -> None:
    with Brokers() as brokers:
        hub = brokers.start("hub", tmp_path)
        async with (
            connect(hub.url) as client,
            connect(hub.url) as producer,
            client.subscribe("x = 1", durable="desk") as desk,
            client.subscribe("x = 1") as plain,
        ):
            channel = client._uplink.channel
            assert channel is not None
            channel.abort()
            await desk.change("x = 2")
            await plain.change("x = 2")
            for x in (1, 2):
                await producer.publish({"x": x})
            assert [(await desk.get()).get("x"), (await plain.get()).get("x")] == [2, 2]


# -- broken ones are found -------------------------------------------------------------------------------------


def _removes_first(self: Broker, client: str, id: str, filter: Any, now: int, *, advertisement: bool) -> None:
    self._unsubscribe(calls.Unsubscribe(client, id), now)
    self._install(client, id, filter, now)


def _forgets_the_former(
    subscriptions: dict[str, Any], former: dict[str, Any], id: str, now: str, at: int
) -> str:
    subscriptions.pop(id, None)
    return ""


def _without_places(offset: int, ids: Any, subscriptions: Any, former: Any) -> tuple[str, ...]:
    return tuple(sorted({former[id].now if id in former else id for id in ids}))


def _one_more(offset: int, ids: Any, subscriptions: Any, former: Any) -> tuple[str, ...]:
    late = {id: each._replace(until=each.until + 2) for id, each in former.items()}
    return formers.ids_at(offset, ids, subscriptions, late)


def _ends_formers_at_once(self: Durability, durable: Durable, now: int) -> None:
    for id in [*durable.former]:
        self._end_former(durable, id, now)


def durable_seeds() -> None:
    for seed, routing in zip(range(40), ROUTINGS * 10, strict=True):
        check_a_durable_subscriber(seed, routing)


@pytest.mark.parametrize(
    ("where", "name", "broken", "law"),
    [
        ("fairlead.network.durability", "retire", _forgets_the_former, durable_seeds),
        ("fairlead.network.destinations", "ids_at", _without_places, durable_seeds),
        ("fairlead.network.destinations", "ids_at", _one_more, durable_seeds),
        (Broker, "_replace", _removes_first, test_at_no_moment_does_a_neighbour_know_neither_filter),
        (
            Durability,
            "_end_formers",
            _ends_formers_at_once,
            test_a_former_filter_ends_when_its_records_are_dealt_with,
        ),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_a_broken_broker_is_found(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, broken: object, law: Callable[[], None]
) -> None:
    if isinstance(where, str):
        monkeypatch.setattr(f"{where}.{name}", broken)
    else:
        monkeypatch.setattr(where, name, broken)
    with pytest.raises((AssertionError, KeyError)):
        law()
