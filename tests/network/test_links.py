"""A link comes back whatever its neighbours are like, closes no cycle whoever is away, and loses nothing.

Nodes without sockets, in the simulator: what happens between the steps is said in the test.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from fairlead.errors import NetworkError, NotThere, ProtocolError
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.addresses import Address
from fairlead.network.link_sessions import LinkSession
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings
from fairlead_lab.testing.chaos import LIMITS, End, Plan, SimClient, World


class Hand(SimClient):
    """A client that does what it is told to, at once, and accepts all that it gets."""

    def __init__(self, world: World, name: str, broker: str) -> None:
        super().__init__(world, name, broker)
        self.said: list[wire.Control] = []
        self.stored = 0
        self.seen: list[int] = []
        self.asked: list[wire.Subscribe | wire.Advertise] = []
        world.clients.append(self)
        world.settle()

    def welcomed(self) -> None:
        for each in self.asked:
            self.send(wire.control(each))

    def on_message(self, message: wire.Control) -> None:
        super().on_message(message)
        self.said.append(message)

    def got(self, kind: int, payload: bytes) -> None:
        if kind == wire.STORED:
            self.stored, _ = wire.parse_numbered(payload)
            return
        place, _, packed = wire.parse_deliver(payload)
        self.seen.append(unpack(packed).attributes["x"])
        if place:
            self.send(wire.control(wire.Accept(self.name, [place])))

    def publish(self, x: int, **more: str) -> None:
        self.number += 1
        notification = Notification.of({"x": x, "producer": self.name, "id": f"{x}", **more})
        self.send(wire.publish(self.number, pack(notification)))
        self.world.settle()

    def ask(self, message: Callable[..., wire.Control], *given: object) -> bool:
        """Ask for something that is answered; whether it has been, with Done."""
        self.number += 1
        made = message(self.number, *given)
        if isinstance(made, wire.Subscribe | wire.Advertise):
            self.asked.append(made)
        self.send(wire.control(made))
        self.world.settle()
        return wire.Done(self.number) in self.said

    def subscribe(self, filter: str) -> bool:
        return self.ask(wire.Subscribe, f"s{self.number}", filter, self.name)

    def advertise(self, filter: str) -> bool:
        return self.ask(wire.Advertise, f"a{self.number}", filter)

    @property
    def refusals(self) -> list[str]:
        return [each.reason for each in self.said if isinstance(each, wire.Refused)]

    def leave(self) -> None:
        """Go, and stay away."""
        self.world.clients.remove(self)
        self.send(wire.control(wire.Bye("gone for good")))
        self.world.settle()


def world_of(brokers: int, **plan: object) -> World:
    """A line of brokers: b0, b1, b2."""
    made = World(Plan(brokers=brokers, producers=0, durables=0, listeners=0, **plan))  # type: ignore[arg-type]
    made.settle()
    return made


def node(world: World, name: str) -> Node:
    found = world.hosts[name].node
    assert found is not None
    return found


def narrow(world: World, frame_bytes: int) -> None:
    """Start all brokers again, with shorter frames."""
    for host in world.hosts.values():
        host.kill()
        host.limits = replace(LIMITS, frame_bytes=frame_bytes)
    for host in world.hosts.values():
        host.start()
    world.settle()


def reconnect(world: World) -> None:
    for end in [end for host in world.hosts.values() for end in host.ends]:
        end.cut(world.rng)
    world.settle()


def hold(world: World, one: str, other: str, *, held: bool = True) -> None:
    """Nothing arrives that two brokers send each other."""
    for end in (end for name in (one, other) for end in world.hosts[name].ends):
        if {end.owner.name, end.other.owner.name} == {one, other}:
            end.held = held


def end_apart(world: World, one: str, other: str) -> None:
    """Both brokers end their link, and nothing arrives that either says of it."""
    for name, neighbour in ((one, other), (other, one)):
        node(world, name).neighbourhood.unlink(neighbour, world.now)
    for end in world.hosts[one].ends:
        end.cut(Random(0))
        end.inbox.clear()
        end.other.inbox.clear()


def is_up(world: World, *names: str) -> bool:
    """Whether the brokers are linked, in a row, and notifications go over the links."""
    for one, other in pairwise(names):
        links = [node(world, one).links.get(other), node(world, other).links.get(one)]
        if not all(link is not None and link.ready for link in links):
            return False
    return True


# -- what is too long ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[700] * 9, [20] * 300, [900]])
def test_a_routing_table_that_is_longer_than_a_frame_travels_in_several(lengths: list[int]) -> None:
    world = world_of(3)
    narrow(world, 1_024)
    client = Hand(world, "d", "b0")
    for number, length in enumerate(lengths):
        assert client.subscribe(f's = "{number:03}{"S" * length}"')
    assert client.subscribe("x >= 0")
    reconnect(world)
    assert is_up(world, "b0", "b1", "b2")
    assert len(node(world, "b2").broker.subscriptions) == len(lengths) + 1
    Hand(world, "p", "b2").publish(1)
    assert client.seen == [1]


def test_what_a_neighbour_unlinked_takes_back_may_be_longer_than_a_frame() -> None:
    world = world_of(3)
    narrow(world, 1_024)
    client = Hand(world, "d", "b0")
    for number in range(9):
        assert client.subscribe(f's = "{number}{"S" * 700}"')
    node(world, "b1").neighbourhood.unlink("b0", world.now)
    world.settle()
    assert not len(node(world, "b2").broker.subscriptions)
    assert is_up(world, "b1", "b2")


def test_a_filter_from_a_time_of_longer_frames_gets_to_a_neighbour_all_the_same() -> None:
    world = world_of(2)
    client = Hand(world, "d", "b0")
    assert client.subscribe(f'x >= 0 and not s = "{"S" * 5_000}"')
    client.leave()
    narrow(world, 1_024)
    assert is_up(world, "b0", "b1")
    Hand(world, "p", "b1").publish(1)
    assert node(world, "b0").counters.received == 1


def test_a_table_of_more_than_a_record_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.network.interests.NOTED_AT_ONCE", 100)
    world = world_of(2)
    client = Hand(world, "d", "b0")
    for number in range(20):
        assert client.subscribe(f'x = {number} and s = "{"S" * 30}"')
    reconnect(world)
    world.hosts["b1"].kill()
    world.hosts["b0"].paused = True
    world.hosts["b1"].start()
    assert len(node(world, "b1").broker.subscriptions) == 20


LONG = "p" * 500
"""A broker puts the name of a client that says no producer into its notifications, and makes them longer."""


def test_a_notification_too_large_for_a_neighbour_is_refused_where_it_is_published() -> None:
    world = world_of(2)
    narrow(world, 1_534)
    client, publisher = Hand(world, "d", "b0"), Hand(world, LONG, "b1")
    assert client.subscribe("x >= 0")
    publisher.publish(1, blob="z" * 700, producer="")
    assert len(publisher.refusals) == 1
    assert "neighbours take at most 1,015" in publisher.refusals[0]
    publisher.publish(2, producer="q")
    assert client.seen == [2]
    assert is_up(world, "b0", "b1")
    publisher.publish(1, blob="z", producer="")  # what was refused is no duplicate
    assert client.seen == [2, 1]


def test_a_large_notification_that_nobody_far_wants_is_published() -> None:
    world = world_of(2)
    narrow(world, 1_024)
    near, publisher = Hand(world, "d", "b1"), Hand(world, LONG, "b1")
    assert near.subscribe("x >= 0")
    publisher.publish(1, blob="z" * 700, producer="")
    assert near.seen == [1]


def test_one_from_a_time_of_longer_frames_is_skipped_and_holds_up_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = world_of(3)
    client, between = Hand(world, "d", "b0"), Hand(world, "e", "b1")
    assert client.subscribe("x >= 0")
    assert between.subscribe("x >= 0")
    publisher = Hand(world, "p", "b2")
    world.hosts["b0"].kill()
    publisher.publish(1, blob="z" * 2_000)
    publisher.publish(2)
    narrow(world, 1_024)
    world.heal()
    world.settle()
    assert (client.seen, between.seen, publisher.stored) == ([2], [1, 2], 2)
    assert node(world, "b1").counters.dropped == 1
    assert "does not get to b0" in caplog.text
    assert not world.restless()


@pytest.mark.parametrize("frame_max", [64, 4_096, wire.FRAME_MAX + 1])
def test_whoever_takes_frames_of_another_length_is_no_neighbour(
    frame_max: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_of(1)
    hello = wire.Hello(wire.VERSION, "broker", "n", life="1", frame_max=frame_max)
    for _ in range(2):
        with pytest.raises(ProtocolError, match=f"of up to 1,048,576 bytes, but n of up to {frame_max:,}: "):
            node(world, "b0").greet(End(world.hosts["b0"]), hello)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    welcome = wire.Welcome(wire.VERSION, "n", "b0", life="1", frame_max=frame_max)
    with pytest.raises(ProtocolError, match="frame_bytes is the same in all of a network"):
        node(world, "b0").welcomed(End(world.hosts["b0"]), "fairlead://n:7400", welcome)


# -- cycles -------------------------------------------------------------------------------------------------


def test_a_link_that_closes_a_cycle_by_way_of_a_broker_that_is_away_waits_and_is_ended_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = world_of(3)
    client, publisher = Hand(world, "d", "b2"), Hand(world, "p", "b0")
    assert client.subscribe("x >= 0")
    world.hosts["b1"].kill()
    node(world, "b0").neighbourhood.call("b2")
    world.settle()
    assert "the new link from b0 to b2 waits for b1" in caplog.text
    assert not is_up(world, "b0", "b2")
    publisher.publish(1)
    world.heal()
    world.settle()
    assert "the link from b0 to b2 would close a cycle" in caplog.text
    publisher.publish(2)
    assert client.seen == [1, 2]
    assert not world.restless()
    assert is_up(world, "b0", "b1", "b2")


def test_it_is_open_when_those_it_waits_for_have_been_unlinked_and_they_are_told_when_they_are_back() -> None:
    world = world_of(3)
    client, publisher = Hand(world, "d", "b2"), Hand(world, "p", "b0")
    assert client.subscribe("x >= 0")
    world.hosts["b1"].kill()
    node(world, "b0").neighbourhood.call("b2")
    for name in ("b0", "b2"):
        node(world, name).neighbourhood.unlink("b1", world.now)
    world.settle()
    assert is_up(world, "b0", "b2")
    publisher.publish(1)
    world.hosts["b1"].calls = ()
    world.heal()
    world.settle()
    publisher.publish(2)
    assert client.seen == [1, 2]
    assert not node(world, "b1").links
    assert not world.restless()


def test_a_broker_without_other_links_is_linked_whoever_is_away() -> None:
    world = world_of(3, guests=1)
    world.hosts["b1"].kill()
    node(world, "g0").neighbourhood.call("b0")
    world.settle()
    assert is_up(world, "g0", "b0")


@pytest.mark.parametrize("others", [0, 1])
def test_of_two_links_of_one_broker_that_close_a_cycle_together_the_first_stays(others: int) -> None:
    world = world_of(2, guests=1 + others)
    for number in range(others):
        node(world, f"g{number + 1}").neighbourhood.call("g0")
        world.settle()
    for name in ("b0", "b1"):
        node(world, "g0").neighbourhood.call(name)
    world.settle()
    assert is_up(world, "g0", "b0", "b1")
    assert not world.restless()


@pytest.mark.parametrize("at", ["b0", "b1"])
def test_a_link_waits_for_whoever_was_asked_over_another_new_link_that_has_ended_since(at: str) -> None:
    world = world_of(3, guests=1)
    node(world, "g0").neighbourhood.call(at)
    world.settle()
    hold(world, "g0", at)
    hold(world, "b1", "b2")
    node(world, "b2").neighbourhood.call("b0")
    world.settle()
    # The search for a path from g0 over b2 goes to b1 by way of b0 before it gets there from b2.
    node(world, "g0").neighbourhood.call("b2")
    world.settle()
    hold(world, "b1", "b2", held=False)
    world.settle()
    assert "b0" not in node(world, "b2").links
    assert not is_up(world, "g0", "b2")
    hold(world, "g0", at, held=False)
    world.settle()
    assert is_up(world, "b0", "b1", "b2")
    assert is_up(world, "g0", at)
    assert not world.restless()


def test_a_subscription_is_acknowledged_though_a_broker_that_was_to_say_so_is_linked_elsewhere_now() -> None:
    world = world_of(3, guests=1)
    client = Hand(world, "d", "b0")
    node(world, "g0").neighbourhood.call("b0")
    world.settle()
    hold(world, "b1", "b2")
    world.hosts["g0"].slow = True
    assert not client.subscribe("x >= 0")
    node(world, "b0").neighbourhood.unlink("g0", world.now)
    node(world, "g0").neighbourhood.call("b1")
    world.settle()
    world.hosts["g0"].slow = False
    world.settle()
    hold(world, "b1", "b2", held=False)
    world.settle()
    assert is_up(world, "b0", "b1", "g0")
    assert wire.Done(client.number) in client.said


def test_a_new_link_that_is_interrupted_before_it_is_known_to_close_no_cycle_is_new_again() -> None:
    world = world_of(3)
    world.hosts["b1"].kill()
    node(world, "b0").neighbourhood.call("b2")
    world.settle()
    reconnect(world)
    assert not is_up(world, "b0", "b2")
    world.heal()
    world.settle()
    assert is_up(world, "b0", "b1", "b2")
    assert not world.restless()


def test_a_link_that_one_of_both_has_forgotten_is_new() -> None:
    world = world_of(3)
    world.hosts["b1"].kill()
    node(world, "b0").neighbourhood.forget("b1", world.now)
    node(world, "b0").neighbourhood.call("b2")
    world.settle()
    assert is_up(world, "b0", "b2")
    world.heal()
    world.settle()
    assert not world.restless()
    assert is_up(world, "b0", "b2", "b1")
    assert "b0" not in node(world, "b1").links


@pytest.mark.parametrize("asked", ["b0", "b1"])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_neighbour_that_is_away_when_a_link_is_ended_is_told_when_it_is_back(
    asked: str, restarted: bool
) -> None:
    world = world_of(2)
    for host in world.hosts.values():
        host.calls = ()
    [other] = world.hosts.keys() - {asked}
    world.hosts[other].kill()
    node(world, asked).neighbourhood.unlink(other, world.now)
    world.settle()
    if restarted:
        world.hosts[asked].kill()
    world.heal()
    world.settle()
    for name in world.hosts:
        assert not node(world, name).links
        assert not node(world, name).persistence.state.parting
        assert not node(world, name).calling.calls


def test_a_link_that_both_have_ended_while_they_were_apart_is_new_when_one_asks_for_it() -> None:
    world = world_of(3)
    world.hosts["b1"].calls = world.hosts["b2"].calls = ()
    end_apart(world, "b0", "b1")
    node(world, "b1").neighbourhood.call("b0")
    world.settle()
    assert is_up(world, "b0", "b1", "b2")
    assert not world.restless()


def test_a_broker_whose_power_fails_before_it_remembers_the_end_of_a_link_is_told_again() -> None:
    world = world_of(2)
    world.hosts["b1"].calls = ()
    world.hosts["b0"].slow = True
    end_apart(world, "b0", "b1")
    for _ in range(20):
        world._sweep()
    world.hosts["b0"].kill(Random(0))
    world.heal()
    world.settle()
    assert not node(world, "b0").links
    assert not world.restless()


def test_a_broker_that_is_linked_elsewhere_does_not_say_there_what_it_was_told_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = world_of(3, guests=1)
    publisher = Hand(world, "p", "b1")
    node(world, "g0").neighbourhood.call("b0")
    publisher.publish(1)
    assert node(world, "g0").progress.positions.keys() == {"b0", "b1", "b2"}
    caplog.set_level(logging.INFO)
    node(world, "b0").neighbourhood.unlink("g0", world.now)
    node(world, "g0").neighbourhood.call("b1")
    world.settle()
    assert is_up(world, "b0", "b1", "g0")
    assert "has to go: a mark" not in caplog.text
    assert node(world, "g0").progress.positions.keys() == {"b0", "b1", "b2"}


def test_who_is_asked_to_be_linked_again_is() -> None:
    world = world_of(2)
    world.hosts["b0"].kill()
    node(world, "b1").neighbourhood.unlink("b0", world.now)
    node(world, "b1").neighbourhood.call("b0")
    world.heal()
    world.settle()
    assert is_up(world, "b0", "b1")


# -- advertisements ------------------------------------------------------------------------------------------


@pytest.fixture(params=["identity", "covering", "merging", "flooding"])
def line(request: pytest.FixtureRequest) -> World:
    """Three brokers with advertisements."""
    return world_of(3, strategy=request.param, advertisements="covering")


@pytest.mark.parametrize("away", ["b1", "b2"])
@pytest.mark.parametrize("killed", [False, True])
def test_what_was_acknowledged_arrives_though_its_publisher_has_gone_with_its_advertisement(
    line: World, away: str, killed: bool
) -> None:
    client, publisher = Hand(line, "d", "b2"), Hand(line, "p", "b0")
    assert client.subscribe("x >= 0")
    assert publisher.advertise("x >= 0")
    publisher.publish(1)
    line.hosts[away].kill()
    publisher.publish(2)
    publisher.leave()
    if killed:
        line.hosts["b0"].kill()
    line.heal()
    line.settle()
    assert client.seen == [1, 2]


@pytest.mark.parametrize("covered", [False, True])
@pytest.mark.parametrize("then", ["", "reset", "kill"])
def test_it_arrives_though_the_neighbour_knew_that_before_and_what_covered_the_subscription_is_taken_back(
    line: World, covered: bool, then: str
) -> None:
    client, wide, publisher = Hand(line, "d", "b2"), Hand(line, "w", "b2"), Hand(line, "p", "b0")
    if covered:
        assert wide.subscribe("exists x")
    assert client.subscribe("x >= 0")
    assert publisher.advertise("x >= 0")
    line.hosts["b1"].slow = True  # so that much of it still waits when the publisher is gone
    for x in range(2 * LIMITS.link_window):
        publisher.publish(x)
    publisher.leave()
    if then == "kill":
        line.hosts["b0"].kill()
    if covered:
        assert wide.ask(wire.Unsubscribe, "", "w")
    if then == "reset":
        reconnect(line)
    line.heal()
    line.settle()
    assert client.seen == [*range(2 * LIMITS.link_window)]


def test_what_is_unsubscribed_is_forgotten_though_nobody_advertises_for_it_any_more(line: World) -> None:
    client, publisher = Hand(line, "d", "b2"), Hand(line, "p", "b0")
    assert client.subscribe("x >= 0")
    assert publisher.advertise("x >= 0")
    publisher.leave()
    line.hosts["b0"].kill()
    assert client.ask(wire.Unsubscribe, "", "d")
    line.heal()
    line.settle()
    initial = line.plan.strategy == "flooding"
    for name in line.hosts:
        table = node(line, name).broker.subscriptions
        assert initial or not len(table), name


def test_an_advertisement_is_acknowledged_when_all_subscriptions_for_it_are_known(line: World) -> None:
    client, publisher = Hand(line, "d", "b2"), Hand(line, "p", "b0")
    assert client.subscribe("x >= 0")
    line.hosts["b2"].kill()
    assert not publisher.advertise("x >= 0")
    line.heal()
    line.settle()
    assert wire.Done(publisher.number) in publisher.said
    publisher.publish(1)
    assert client.seen == [1]


# -- who is who ----------------------------------------------------------------------------------------------


def test_a_second_broker_of_the_same_name_is_refused_and_the_first_one_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = world_of(2)
    caplog.set_level(logging.WARNING)
    hello = wire.Hello(wire.VERSION, "broker", "b1", life="another", log="another log")
    for _ in range(2):
        with pytest.raises(ProtocolError, match="has another log"):
            node(world, "b0").greet(End(world.hosts["b0"]), hello, world.now)
    assert caplog.text.count("b0 refuses b1") == 1
    assert is_up(world, "b0", "b1")
    welcome = wire.Welcome(wire.VERSION, "b0", "b1", "another", "another log")
    with pytest.raises(ProtocolError, match="has another log"):
        node(world, "b1").welcomed(End(world.hosts["b1"]), "b0", welcome, world.now)


def test_a_broker_that_has_lost_its_log_is_linked_again_after_it_was_unlinked() -> None:
    world = world_of(2)
    world.hosts["b1"].kill()
    node(world, "b0").neighbourhood.unlink("b1", world.now)
    hello = wire.Hello(wire.VERSION, "broker", "b1", life="another", log="another log")
    assert not node(world, "b0").greet(End(world.hosts["b0"]), hello, world.now).ended


@pytest.mark.parametrize(
    ("one", "other"),
    [(Plan(strategy="flooding"), Plan()), (Plan(advertisements="covering"), Plan())],
)
def test_brokers_that_route_in_ways_that_do_not_go_together_are_not_linked(one: Plan, other: Plan) -> None:
    first, second = (World(replace(plan, brokers=1)) for plan in (one, other))
    hello = replace_name(node(first, "b0").hello("b1"), "b1")
    with pytest.raises(ProtocolError, match=r"b0 routes by .*, but b1 by .*"):
        node(second, "b0").greet(End(second.hosts["b0"]), hello, second.now)


def replace_name(hello: wire.Hello, name: str) -> wire.Hello:
    return wire.Hello(**{**{each: getattr(hello, each) for each in hello.__struct_fields__}, "name": name})


@pytest.mark.parametrize(
    "given", ["fairlead://[", "fairlead://[::1", "fairlead://h:x", "h:70000", "http://h"]
)
def test_what_is_no_address_is_said_to_be_none(given: str) -> None:
    with pytest.raises(NetworkError, match="not the address of a broker"):
        Address.parse(given)
    client = Hand(world_of(1), "c", "b0")
    assert not client.ask(wire.Link, given)
    assert "not the address of a broker" in client.refusals[0]


# -- links that are asked for --------------------------------------------------------------------------------


class Asking(Hand):
    """Asks for links, and tells what the answer was."""

    def link(self, url: str) -> None:
        self.ask(wire.Link, url)

    @property
    def answer(self) -> tuple[str, str] | str | None:
        """Neighbour and what it waits for; why it is refused; or None, as long as there is no answer."""
        for each in self.said:
            if isinstance(each, wire.Refused) and each.number == self.number:
                return each.reason
            if isinstance(each, wire.Response) and each.number == self.number:
                return each.answer["neighbour"], each.answer["waits"]
        return None


def passes(world: World, seconds: float) -> None:
    world.now += round(seconds * 1e6)
    for host in world.hosts.values():
        if host.node is not None:
            host.keep_house()
    world.settle()


def test_who_asks_for_a_link_is_told_when_it_is_there() -> None:
    world = world_of(2, guests=1)
    client = Asking(world, "c", "g0")
    client.link("b0")
    assert client.answer == ("b0", "")
    assert is_up(world, "g0", "b0")
    client.link("b0")
    assert client.answer == ("b0", "")
    assert not node(world, "g0").persistence.state.wanted


def test_a_link_that_closes_a_cycle_is_refused_with_that_reason() -> None:
    world = world_of(3)
    client = Asking(world, "c", "b0")
    client.link("b2")
    assert client.answer == "b2: the link would close a cycle over b1"
    assert not node(world, "b0").persistence.state.wanted
    assert not node(world, "b0").status()["waiting"]


def test_a_link_that_may_close_a_cycle_waits_and_it_is_said_for_whom() -> None:
    world = world_of(3)
    client = Asking(world, "c", "b0")
    world.hosts["b1"].kill()
    client.link("b2")
    assert client.answer is None
    passes(world, 4)
    unknown = "it is not known yet whether it closes a cycle"
    assert client.answer == ("b2", f"{unknown}: all brokers behind b2 are being checked")
    assert (
        node(world, "b0").status()["waiting"]["b2"]["reason"]
        == f"{unknown}: all brokers behind b2 are being checked"
    )
    assert node(world, "b2").status()["waiting"]["b0"]["reason"] == f"{unknown}: b1 cannot be reached"
    link = node(world, "b0").status()["links"]["b1"]
    assert (link["ready"], link["reason"]) == (False, "the connection is lost")
    world.heal()
    world.settle()
    assert all(not node(world, name).status()["waiting"] for name in world.hosts)
    assert "reason" not in node(world, "b0").status()["links"]["b1"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_broker_that_is_away_when_a_link_is_asked_for_is_waited_for_over_restarts(restarted: bool) -> None:
    world = world_of(1, guests=1)
    client = Asking(world, "c", "g0")
    world.hosts["b0"].kill()
    client.link("b0")
    node(world, "g0").neighbourhood.calling.unreached("b0", "it is away", world.now)
    world.settle()
    assert client.answer == ("", "it is away")
    if restarted:
        world.hosts["g0"].kill(world.rng)
    world.heal()
    world.settle()
    assert is_up(world, "g0", "b0")
    world.hosts["g0"].kill()
    world.heal()
    world.settle()
    assert is_up(world, "g0", "b0")
    assert not node(world, "g0").persistence.state.wanted


@pytest.mark.parametrize("restarted", [False, True])
def test_a_link_that_waits_is_ended_by_its_address(restarted: bool) -> None:
    world = world_of(1, guests=1)
    client = Asking(world, "c", "g0")
    world.hosts["b0"].kill()
    client.link("b0")
    assert client.ask(wire.Unlink, "b0")
    if restarted:
        world.hosts["g0"].kill(world.rng)
    world.heal()
    world.settle()
    assert not node(world, "g0").links
    assert not node(world, "g0").calling.calls
    assert not client.ask(wire.Unlink, "b0")


def test_who_is_refused_is_not_called_again_unless_it_was_before() -> None:
    world = world_of(1, guests=1)
    client, calling = Asking(world, "c", "g0"), node(world, "g0").neighbourhood.calling
    world.hosts["b0"].kill()
    client.link("b0")
    calling.refused("b0", "it does not want to", world.now)
    world.settle()
    assert client.answer == "b0: it does not want to"
    assert not node(world, "g0").calling.calls
    calling.call("b0")
    client.link("b0")
    calling.refused("b0", "it does not want to", world.now)
    world.settle()
    assert client.answer == "b0: it does not want to"
    assert node(world, "g0").status()["waiting"]["b0"]["reason"] == "it does not want to"


def test_links_that_a_network_does_not_have_are_not_waited_for_any_longer() -> None:
    world = world_of(1, guests=1)
    client = Asking(world, "c", "g0")
    world.hosts["b0"].kill()
    client.link("b0")
    node(world, "g0").keep_links([], world.now)
    world.settle()
    assert not node(world, "g0").persistence.state.wanted
    assert not node(world, "g0").calling.calls


# -- who answers ---------------------------------------------------------------------------------------------

AT, OTHER = "fairlead://host:7400", "fairlead://host:7401"


class Deaf:
    """The other end of a connection, which keeps nothing."""

    def write(self, data: bytes) -> None: ...

    def buffered(self) -> int:
        return 0

    def close(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


def answered(caller: Node, name: str, at: str = AT) -> LinkSession:
    session = caller.welcomed(Deaf(), at, wire.Welcome(wire.VERSION, name, caller.name))
    caller.synced(0)
    return session


def test_where_a_network_has_a_broker_nobody_else_is_linked_with() -> None:
    caller = Node(BrokerSettings("c").broker(), None, life="1")
    caller.keep_links(["b"], 0)
    caller.neighbourhood.call(AT, "b")
    with pytest.raises(
        ProtocolError, match="'stranger' is not 'b', with which 'c' is linked at this address"
    ):
        answered(caller, "stranger")
    caller.neighbourhood.calling.answers(AT, "stranger")
    assert (caller.calling.calls, caller.links.keys()) == ({AT: "b"}, {"b"})
    assert not caller.neighbourhood.is_connected("stranger")
    answered(caller, "b")
    assert caller.neighbourhood.is_connected("b")


def test_who_takes_the_address_of_a_neighbour_is_linked_with_when_that_was_unlinked_and_it_is_asked_for() -> (
    None
):
    caller = Node(BrokerSettings("c").broker(), None, life="1")
    caller.neighbourhood.call(AT)
    caller.lost(answered(caller, "d"))
    with pytest.raises(ProtocolError, match="if 'd' will not be back there, unlink it first"):
        answered(caller, "e")
    caller.neighbourhood.unlink("d", 0)
    with pytest.raises(ProtocolError, match="'e' is not 'd'"):  # which is called to be told
        answered(caller, "e")
    caller.neighbourhood.call(AT)
    answered(caller, "e")
    assert caller.links.keys() == {"e"}


def test_neighbours_that_have_changed_places_are_found() -> None:
    caller = Node(BrokerSettings("c").broker(), None, life="1")
    caller.keep_links(["d", "e"], 0)
    for url in (AT, OTHER):
        caller.neighbourhood.call(url)
    for session in (answered(caller, "d"), answered(caller, "e", OTHER)):
        caller.lost(session)
    answered(caller, "e")
    assert caller.calling.calls == {AT: "e", OTHER: ""}  # whoever is there is called
    answered(caller, "d", OTHER)
    assert caller.calling.calls == {AT: "e", OTHER: "d"}
    assert all(caller.neighbourhood.is_connected(each) for each in "de")


def test_a_neighbour_that_is_up_may_have_several_addresses() -> None:
    caller = Node(BrokerSettings("c").broker(), None, life="1")
    for url in (AT, OTHER):
        caller.neighbourhood.call(url)
    answered(caller, "d")
    answered(caller, "d", OTHER)
    assert caller.calling.calls == {AT: "d", OTHER: "d"}


def test_who_unlinks_a_neighbour_by_its_address_is_told_its_name() -> None:
    caller = Node(BrokerSettings("c").broker(), None, life="1")
    caller.neighbourhood.call(AT)
    caller.lost(answered(caller, "d"))
    with pytest.raises(NotThere, match="there is no link to 'host'\n  hint: unlink 'd', which is there, by"):
        caller.neighbourhood.unlink("host", 0)
    with pytest.raises(NotThere, match=r"there is no link to 'other:7400'$"):
        caller.neighbourhood.unlink("other:7400", 0)
