"""Whoever is slow and asks to miss nothing holds up those who publish for it, wherever they are, and nobody else.

Nodes without sockets, in a tree: what one has written waits until the other wants to hear it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.backpressure import TICKS
from fairlead.network.client_sessions import UNHEARD, ClientSession
from fairlead.network.destinations import STUCK_S
from fairlead.network.ledger import Ledger
from fairlead.network.link_sessions import LinkSession
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings, Limits
from fairlead_lab.testing.memory import MemoryDisk
from fairlead_lab.testing.nodes import End, linked

LIMITS = Limits(buffer_bytes=300, queue=3, link_window=3)
HEARD = 10
"""The number of publications that are read from a connection at once."""


class Reader(End):
    """A client that takes what it is sent, or does not."""

    reads = True

    @property
    def delivered(self) -> list[tuple[str, int]]:
        found = [unpack(wire.parse_deliver(payload)[2]) for payload in self.frames(wire.DELIVER)]
        return [(each.producer, each.get("x")) for each in found]


class Publisher(End):
    """A client that publishes when it is heard."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.outgoing: deque[bytes] = deque()

    @property
    def acknowledged(self) -> int:
        return max([wire.parse_numbered(payload)[0] for payload in self.frames(wire.STORED)], default=0)


class Tree:
    """Brokers, each but the first linked with one that comes before it."""

    def __init__(self, parents: list[int], *, logged: bool = False, limits: Limits = LIMITS) -> None:
        self.limits = limits
        self.nodes = [self._node(f"b{at}", logged=logged) for at in range(len(parents) + 1)]
        self.links = [
            linked(self.nodes[parent], self.nodes[at]) for at, parent in enumerate(parents, start=1)
        ]
        self.readers: list[Reader] = []
        self.publishers: list[Publisher] = []
        self.published = 0
        self.settle()

    def _node(self, name: str, *, logged: bool) -> Node:
        ledger = Ledger(f"/{name}", MemoryDisk()) if logged else None
        return Node(BrokerSettings(name).broker(), ledger, self.limits, life=name, now=1)

    def reader(self, at: int, text: str, policy: str = "block") -> Reader:
        end = Reader(self.nodes[at])
        end.session = end.node.greet(
            end, wire.Hello(wire.VERSION, "client", f"r{len(self.readers)}", policy), 1
        )
        self.readers.append(end)
        end.hear(wire.control(wire.Subscribe(1, "s", text)))
        self.settle()
        return end

    def publisher(self, at: int) -> Publisher:
        end = Publisher(self.nodes[at])
        end.session = end.node.greet(end, wire.Hello(wire.VERSION, "client", f"p{len(self.publishers)}"), 1)
        self.publishers.append(end)
        self.settle()
        return end

    def publish(self, by: Publisher, count: int = 1, *, acknowledged: bool = False, **fields: Any) -> None:
        for _ in range(count):
            self.published += 1
            content = {"producer": by.session.name, "id": f"{self.published}", "x": self.published, **fields}
            number = self.published if acknowledged else 0
            by.outgoing.append(wire.publish(number, pack(Notification.of(content))))

    def step(self) -> bool:
        """Everybody has a turn; whether something has moved."""
        moved = False
        for node in self.nodes:
            moved = moved or bool(node.dirty) or node.wants_sync
            node.flush()
            if node.wants_sync:
                node.synced(0 if node.ledger is None else node.ledger.log.sync())
            node.flush()
        for one, other in (*self.links, *((other, one) for one, other in self.links)):
            if one.written and not other.paused:
                other.hear(one.take())
                one.node.drained(one.session)
                moved = True
        for reader in self.readers:
            if reader.written and reader.reads:
                reader.take()
                reader.node.drained(reader.session)
                moved = True
        for publisher in self.publishers:
            if publisher.take():
                publisher.node.drained(publisher.session)
                moved = True
            if publisher.outgoing and not publisher.paused:
                some = [publisher.outgoing.popleft() for _ in range(min(HEARD, len(publisher.outgoing)))]
                publisher.hear(b"".join(some))
                moved = True
        return moved

    def settle(self) -> None:
        for _ in range(10_000):
            if not self.step():
                return
        raise AssertionError("never quiet")

    def pass_time(self) -> None:
        for _ in range(STUCK_S * TICKS + 2):
            for node in self.nodes:
                node.tick(1)
            self.settle()

    @property
    def dropped(self) -> int:
        return sum(node.counters.dropped for node in self.nodes)

    def check_bounds(self) -> None:
        """What waits in brokers is little, however long somebody is slow."""
        for reader in self.readers:
            session = reader.session
            assert isinstance(session, ClientSession)
            assert len(session.backlog) <= LIMITS.queue + 3 * HEARD * len(self.nodes)
        for node in self.nodes:
            for link in node.links.values():
                session = link.session
                assert session is None or session.inflow.size <= LIMITS.buffer_bytes + 2_000 + 200 * HEARD
                assert len(link._queue) <= 3 * HEARD * len(self.nodes)
        for pair in self.links:
            for end in pair:
                assert len(end.written) <= LIMITS.buffer_bytes + 200 * HEARD


def test_who_sends_waits_for_a_slow_consumer_however_far_it_is_and_nothing_is_lost() -> None:
    tree = Tree([0, 1, 2])
    slow = tree.reader(3, "x > 0")
    publisher = tree.publisher(0)
    slow.reads = False
    tree.publish(publisher, 1_000)
    tree.settle()
    tree.check_bounds()
    assert publisher.paused
    assert len(publisher.outgoing) > 800
    slow.reads = True
    tree.settle()
    assert [x for _, x in slow.delivered] == list(range(1, 1_001))
    assert not tree.dropped
    assert not slow.dropped
    assert not publisher.paused


def test_who_publishes_nothing_for_the_slow_one_does_not_wait() -> None:
    tree = Tree([0, 1])
    slow, quick = tree.reader(2, "k = 1"), tree.reader(2, "k = 2")
    held, free = tree.publisher(0), tree.publisher(0)
    slow.reads = False
    tree.publish(held, 500, k=1)
    tree.settle()
    near = tree.reader(0, "k = 3")
    tree.publish(free, 200, k=3)
    tree.settle()
    assert held.paused
    assert not free.paused
    assert len(near.delivered) == 200
    slow.reads = True
    tree.publish(free, 1, k=2)
    tree.settle()
    assert len(slow.delivered) == 500
    assert len(quick.delivered) == 1
    assert not tree.dropped


def test_who_drops_the_oldest_holds_up_nobody() -> None:
    tree = Tree([0])
    slow, quick = tree.reader(1, "x > 0", "drop"), tree.reader(1, "x > 0")
    publisher = tree.publisher(0)
    slow.reads = False
    tree.publish(publisher, 300)
    tree.settle()
    assert not publisher.outgoing
    assert len(quick.delivered) == 300
    slow.reads = True
    tree.settle()
    assert len(slow.delivered) + slow.dropped == 300


def test_while_a_neighbour_is_away_nobody_waits_for_it() -> None:
    tree = Tree([0])
    slow = tree.reader(1, "x > 0")
    publisher = tree.publisher(0)
    slow.reads = False
    tree.publish(publisher, 300)
    tree.settle()
    assert publisher.paused
    for end in tree.links.pop():
        end.node.lost(end.session)
    tree.settle()
    assert not publisher.outgoing
    assert not publisher.paused
    tree.links.append(linked(*tree.nodes))
    slow.reads = True
    tree.settle()
    tree.pass_time()
    came = [x for _, x in slow.delivered]
    assert came == sorted(set(came))
    # What was in the connection when it broke is not counted.
    assert 300 - 100 <= len(came) + slow.dropped <= 300


def test_for_a_client_that_takes_nothing_and_says_nothing_nobody_waits_long() -> None:
    tree = Tree([])
    gone, there = tree.reader(0, "k = 1"), tree.reader(0, "k = 2")
    publisher, other = tree.publisher(0), tree.publisher(0)
    gone.reads = there.reads = False
    tree.publish(publisher, 300, k=1)
    tree.publish(other, 300, k=2)
    tree.settle()
    assert publisher.paused
    assert other.paused
    for _ in range((LIMITS.block_seconds + 2) * TICKS):
        there.hear(wire.control(wire.Pong()))
        tree.nodes[0].tick(1)
        tree.settle()
    assert gone.closed
    assert "has blocked publishers" in str(wire.parse_control(gone.frames(wire.CONTROL)[-1]))
    assert not publisher.outgoing
    assert not there.closed
    assert other.paused
    there.reads = True
    tree.settle()
    assert len(there.delivered) == 300


@pytest.mark.parametrize("dealt", [-1, 1 << 40])
def test_a_credit_that_cannot_be_ends_the_connection_only(dealt: int) -> None:
    tree = Tree([0])
    near, far = tree.reader(0, "x > 0"), tree.reader(1, "x > 0")
    publisher = tree.publisher(0)
    tree.publish(publisher, 3)
    tree.settle()
    end, _ = tree.links[0]
    end.hear(wire.control(wire.Credit(dealt)))
    assert end.closed
    tree.publish(publisher, 3)
    tree.settle()
    assert len(near.delivered) == 6
    assert len(far.delivered) == 3


def test_what_is_acknowledged_waits_for_no_neighbour() -> None:
    tree = Tree([0], logged=True)
    slow = tree.reader(1, "k = 1")
    publisher = tree.publisher(0)
    slow.reads = False
    tree.publish(publisher, 300, acknowledged=True, k=1)
    tree.settle()
    assert publisher.acknowledged == 300
    tree.check_bounds()
    slow.reads = True
    tree.settle()
    assert [x for _, x in slow.delivered] == list(range(1, 301))
    assert not tree.dropped


def test_what_is_sent_keeps_its_place_between_what_is_acknowledged() -> None:
    tree = Tree([0, 1], logged=True)
    slow = tree.reader(2, "x > 0")
    publisher = tree.publisher(0)
    for round in range(20):
        slow.reads = round % 3 == 2
        for number in range(60):
            tree.publish(publisher, acknowledged=(round * number) % 4 == 1)
        tree.settle()
        tree.check_bounds()
    slow.reads = True
    tree.settle()
    assert [x for _, x in slow.delivered] == list(range(1, tree.published + 1))
    assert not tree.dropped


def test_one_that_waits_for_itself_and_takes_nothing_has_to_go_some_time() -> None:
    tree = Tree([])
    chatty, other = tree.reader(0, "k = 1"), tree.publisher(0)
    chatty.reads = False
    for number in range(100):
        content = {"producer": "r0", "id": f"r{number}", "x": number, "k": 1}
        chatty.hear(wire.publish(0, pack(Notification.of(content))))
    tree.publish(other, 100, k=1)
    tree.settle()
    assert chatty.paused
    assert other.paused
    for _ in range(LIMITS.block_seconds * UNHEARD * TICKS + 2):
        tree.nodes[0].tick(1)
        tree.settle()
    assert chatty.closed
    assert not other.outgoing


def test_what_neighbours_say_of_themselves_is_heard_past_what_waits() -> None:
    tree = Tree([0, 0], logged=True)
    slow = tree.reader(2, "k = 1")
    publisher = tree.publisher(1)
    slow.reads = False
    tree.publish(publisher, 300, k=1)
    tree.publish(publisher, 3, acknowledged=True, k=1)
    tree.settle()
    assert publisher.paused
    assert any(
        isinstance(each.session, LinkSession) and each.session.inflow.is_blocked for each in tree.links[0]
    )
    quick = tree.reader(1, "k = 2")
    told = [wire.parse_control(payload) for payload in quick.frames(wire.CONTROL)]
    assert wire.Done(1) in told
    tree.publish(tree.publisher(0), 5, k=2)
    tree.publish(tree.publisher(2), 5, k=2)
    tree.settle()
    assert len(quick.delivered) == 10
    slow.reads = True
    tree.settle()
    assert [x for _, x in slow.delivered] == list(range(1, 304))


def crossed(limits: Limits = LIMITS, seed: int = 6) -> tuple[Tree, list[Reader], list[Publisher]]:
    """Two brokers that have sent each other much, over a third one that is behind on both sides."""
    tree = Tree([0, 0], logged=True, limits=limits)
    readers = [tree.reader(at, f"k = {at}") for at in (1, 2)]
    publishers = [tree.publisher(at) for at in (1, 2)]
    for reader in readers:
        reader.reads = False
    random = Random(seed)
    for _ in range(300):
        for publisher, k in zip(publishers, (2, 1), strict=True):
            tree.publish(publisher, acknowledged=random.random() < 0.1, k=k)
    tree.settle()
    for reader in readers:
        reader.reads = True
    tree.settle()
    return tree, readers, publishers


def test_neighbours_do_not_wait_for_each_others_answers() -> None:
    tree, readers, _ = crossed()
    assert [len(reader.delivered) for reader in readers] == [300, 300]
    assert not tree.dropped


def test_neighbours_of_which_too_much_waits_to_hear_them_do_not_wait_for_ever() -> None:
    # Whether they come to wait for each other depends on the order of single frames: with some seed they do.
    tries = (crossed(replace(LIMITS, queue_bytes=0), seed) for seed in range(30))
    tree, readers, publishers = next(each for each in tries if all(one.outgoing for one in each[2]))
    for _ in range(10):
        tree.pass_time()
    assert not any(publisher.outgoing for publisher in publishers)
    assert sum(len(reader.delivered) for reader in readers) == 600 - tree.dropped
    assert tree.dropped > 0


def test_what_is_sent_behind_what_is_acknowledged_waits_as_well() -> None:
    tree = Tree([0], logged=True)
    slow = tree.reader(1, "k = 1")
    other, publisher = tree.publisher(0), tree.publisher(0)
    slow.reads = False
    tree.publish(other, 1_000, acknowledged=True, k=9)
    tree.publish(publisher, 1_000, k=1)
    tree.settle()
    tree.check_bounds()
    assert other.acknowledged == 1_000
    assert publisher.paused
    slow.reads = True
    tree.settle()
    assert len(slow.delivered) == 1_000


def test_what_is_sent_over_a_link_that_is_behind_waits_until_it_has_caught_up() -> None:
    tree = Tree([0], logged=True)
    slow = tree.reader(1, "k = 1")
    publisher = tree.publisher(0)
    slow.reads = False
    tree.publish(publisher, 50, acknowledged=True, k=1)
    tree.settle()
    assert publisher.acknowledged == 50
    assert not tree.nodes[0].links["b1"].live
    tree.publish(publisher, 200, k=1)
    tree.settle()
    tree.check_bounds()
    assert publisher.paused
    slow.reads = True
    tree.settle()
    assert [x for _, x in slow.delivered] == list(range(1, 251))


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], list[tuple[str, int, int]]]:
    parents = [draw(st.integers(0, at)) for at in range(draw(st.integers(0, 3)))]
    places = st.lists(st.integers(0, len(parents)), min_size=1, max_size=3)
    steps = st.tuples(
        st.sampled_from(["send", "send", "publish", "both", "stop", "read", "settle"]),
        st.integers(0, 2),
        st.integers(0, 3),
    )
    return parents, draw(places), draw(places), draw(st.lists(steps, min_size=5, max_size=40))


@given(runs(), st.booleans())
def test_nothing_is_lost_doubled_or_out_of_order_whoever_is_slow_and_when(
    run: tuple[list[int], list[int], list[int], list[tuple[str, int, int]]], logged: bool
) -> None:
    parents, reading, publishing, steps = run
    tree = Tree(parents, logged=logged)
    readers = [tree.reader(at, f"k <= {number}") for number, at in enumerate(reading)]
    publishers = [tree.publisher(at) for at in publishing]
    for reader in readers:
        reader.reads = False
    sent: list[tuple[str, int, int]] = []
    for what, who, k in steps:
        publisher, reader = publishers[who % len(publishers)], readers[who % len(readers)]
        match what:
            case "send" | "publish" | "both":
                before = tree.published
                for number in range(25):
                    is_acknowledged = what == "publish" or (what == "both" and number % 5 == 0)
                    tree.publish(publisher, acknowledged=is_acknowledged, k=k)
                sent += ((publisher.session.name, x, k) for x in range(before + 1, tree.published + 1))
                tree.step()
            case "stop" | "read":
                reader.reads = what == "read"
            case _:
                tree.settle()
                tree.check_bounds()
    for reader in readers:
        reader.reads = True
    tree.settle()
    for number, reader in enumerate(readers):
        wanted = [(name, x) for name, x, k in sent if k <= number]
        for publisher in publishers:
            name = publisher.session.name
            came = [x for each, x in reader.delivered if each == name]
            asked = [x for each, x in wanted if each == name]
            assert came == asked
    assert not any(publisher.outgoing for publisher in publishers)
    assert not tree.dropped
