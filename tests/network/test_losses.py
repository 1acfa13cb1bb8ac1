"""What is lost while a neighbour is away is counted, and whoever might have got it is told how many there were."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.destinations import REPORTED_MAX
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings, Limits
from fairlead_lab.testing.nodes import End, linked

LIMITS = Limits(buffer_bytes=1_000)


class Heard(End):
    """The end of a client, and what it was told."""

    @property
    def delivered(self) -> list[int]:
        return [unpack(wire.parse_deliver(payload)[2]).get("x") for payload in self.frames(wire.DELIVER)]


class Line:
    """Brokers without logs in a line: what is published at the first goes to the last."""

    def __init__(self, brokers: int = 3, algorithm: str = "covering") -> None:
        self.nodes = [
            Node(BrokerSettings(f"b{at}", algorithm=algorithm).broker(), None, LIMITS, life=f"{at}")
            for at in range(brokers)
        ]
        self.links = [linked(*pair) for pair in pairwise(self.nodes)]
        self.publisher = self.client(0, "p")
        self._published = 0
        self.settle()

    def client(self, at: int, name: str, *filters: str) -> Heard:
        end = Heard(self.nodes[at])
        end.session = end.node.greet(end, wire.Hello(wire.VERSION, "client", name))
        for number, text in enumerate(filters, 1):
            end.hear(wire.control(wire.Subscribe(number, f"s{number}", text)))
        self.settle()
        return end

    def settle(self) -> None:
        moved = True
        while moved:
            for node in self.nodes:
                node.flush()
            moved = False
            for one, other in (*self.links, *((other, one) for one, other in self.links)):
                if written := one.take():
                    other.hear(written)
                    moved = True

    def send(self, count: int) -> None:
        for _ in range(count):
            self._published += 1
            sent = Notification.of({"x": self._published, "producer": "p", "id": f"{self._published}"})
            self.publisher.hear(wire.publish(0, pack(sent)))
        self.settle()

    def part(self) -> None:
        """The connection between the first two is lost."""
        for end in self.links.pop(0):
            end.node.lost(end.session)

    def join(self) -> End:
        """It is back: the end of the first."""
        self.links.insert(0, linked(*self.nodes[:2]))
        self.settle()
        return self.links[0][0]

    def pass_time(self) -> None:
        for node in self.nodes:
            node.tick(0)
            self.settle()


FULL = LIMITS.buffer_bytes + 1


@pytest.mark.parametrize("algorithm", ["covering", "flooding"])
def test_what_is_lost_while_a_neighbour_is_away_is_told_to_all_behind_it_who_have_subscribed(
    algorithm: str,
) -> None:
    line = Line(3, algorithm)
    near, middle, far = (line.client(at, f"c{at}", "x > 0") for at in range(3))
    silent = line.client(2, "silent")
    line.send(1)
    line.part()
    line.send(5)
    line.pass_time()
    assert (middle.dropped, far.dropped) == (0, 0)
    line.join()
    line.pass_time()
    line.send(1)
    assert near.delivered == list(range(1, 8))
    assert middle.delivered == far.delivered == [1, 7]
    assert (near.dropped, middle.dropped, far.dropped, silent.dropped) == (0, 5, 5, 0)
    line.pass_time()
    assert far.dropped == 5
    assert [node.counters.dropped for node in line.nodes] == [5, 0, 0]


def test_a_neighbour_that_reads_nothing_is_told_nothing_without_end() -> None:
    line = Line(2)
    line.client(1, "c", "x > 0")
    line.part()
    line.send(3)
    link = line.join()
    link.stuck = link.session.waiting = REPORTED_MAX * FULL
    line.pass_time()
    assert not link.dropped
    assert line.nodes[0].links["b1"].lost == 3


def test_a_client_that_is_full_is_told_when_there_is_room() -> None:
    line = Line(2)
    far = line.client(1, "c", "x > 0")
    line.part()
    line.send(2)
    line.join()
    far.stuck = far.session.waiting = FULL
    line.pass_time()
    assert far.dropped == 0
    far.let_go()
    line.settle()
    assert far.dropped == 2


@given(steps=st.lists(st.sampled_from(["send", "part", "join", "full", "free", "time"]), max_size=30))
def test_what_is_delivered_and_what_is_told_to_be_lost_is_all_that_was_sent(steps: list[str]) -> None:
    line = Line(2)
    far = line.client(1, "c", "x > 0")
    sent = 0
    for step in steps:
        match step:
            case "send":
                line.send(1)
                sent += 1
            case "part" if line.links:
                for end in line.links[0]:
                    end.let_go()
                line.settle()  # what was in the connection is not counted
                line.part()
            case "join" if not line.links:
                line.join()
            case "full" if line.links:
                link, _ = line.links[0]
                link.stuck = link.session.waiting = FULL
            case "free" if line.links:
                line.links[0][0].let_go()
            case _:
                line.pass_time()
        line.settle()
    if not line.links:
        line.join()
    line.links[0][0].let_go()
    line.settle()
    line.pass_time()
    assert len(far.delivered) + far.dropped == sent


@pytest.mark.parametrize("count", [-1, wire.DROPPED_MAX + 1])
def test_a_count_that_cannot_be_ends_the_connection_only(count: int) -> None:
    line = Line(2)
    far = line.client(1, "c", "x > 0")
    _, end = line.links[0]
    end.hear(wire.control(wire.Dropped(count)))
    assert end.closed
    assert (far.dropped, far.closed) == (0, False)
