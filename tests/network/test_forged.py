"""A relay with a false place ends the connection and changes nothing; a false place that was believed is mended.

Nodes without sockets: a publisher at `b0`, a durable subscriber at `b1`, forged frames on the link between them.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.ledger import Ledger
from fairlead.network.link_sessions import LinkSession
from fairlead.network.neighbourhood import Neighbourhood
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings
from fairlead_lab.testing.memory import MemoryDisk
from fairlead_lab.testing.nodes import End, Line, linked

FAR = 2**61
FORGED = pack(Notification.of({"id": "forged", "producer": "evil", "x": 999}))


class Network:
    """Two linked brokers that can be killed, and all that the durable subscriber has been delivered."""

    def __init__(self) -> None:
        self.line = Line(2)
        self.lives = 0
        self.published: list[int] = []
        self.delivered: dict[int, None] = {}
        self._subscriber = self._subscribe()

    @property
    def sender(self) -> Node:
        return self.line.nodes[0]

    @property
    def receiver(self) -> Node:
        return self.line.nodes[1]

    @property
    def end(self) -> End:
        """The receiver's end of the link."""
        return self.line.links[0][1]

    @property
    def session(self) -> LinkSession:
        session = self.end.session
        assert isinstance(session, LinkSession)
        return session

    @property
    def known(self) -> tuple[int, int, int]:
        """What the receiver remembers of the sender's log, and the end of its own."""
        neighbour = self.receiver.persistence.state.neighbours["b0"]
        return neighbour.received, neighbour.safe, self.receiver.dispatch.end

    def _subscribe(self) -> End:
        end = self.line.client(1, "desk")
        end.hear(wire.control(wire.Subscribe(1, "s", "x >= 0", "desk")))
        self.line.settle()
        return end

    def publish(self, *values: int) -> None:
        """Publish values; those below 0 concern nobody, and leave a gap."""
        client = self.line.client(0, "p")
        for number, x in enumerate(values, 1):
            identity = f"{len(self.published)}"
            client.hear(
                wire.publish(number, pack(Notification.of({"id": identity, "producer": "p", "x": x})))
            )
            self.published.append(x)
        self.line.settle()
        client.node.lost(client.session)
        self._take()

    def _take(self) -> None:
        for payload in self._subscriber.frames(wire.DELIVER):
            notification = unpack(wire.parse_deliver(payload)[2])
            if notification.producer == "p":
                self.delivered[int(str(notification.id))] = None

    def hear(self, *frames: bytes) -> None:
        """Forged frames come over the link."""
        for frame in frames:
            self.end.hear(frame)

    def kill(self, number: int) -> None:
        """Kill a broker and start it again."""
        self._take()
        old = self.line.nodes[number]
        assert old.ledger is not None
        disk = old.ledger.disk
        assert isinstance(disk, MemoryDisk)
        disk.kill()
        self.lives += 1
        name = f"b{number}"
        ledger = Ledger(f"/{name}", disk)
        self.line.nodes[number] = Node(BrokerSettings(name).broker(), ledger, life=f"{self.lives}")
        for end in self.line.links[0]:
            if end.node is not old:
                end.node.lost(end.session)
        self.line.links = []
        if number == 1:
            self._subscriber = self._subscribe()

    def connect(self) -> None:
        """Connect the two brokers anew."""
        for ends in self.line.links:
            for end in ends:
                end.node.lost(end.session)
        self.line.links = [linked(self.sender, self.receiver)]
        self.line.settle()
        self._take()

    def check(self) -> None:
        """All that was published for the subscriber has been delivered, once and in order."""
        self.connect()
        wanted = [number for number, x in enumerate(self.published) if x >= 0]
        assert list(self.delivered) == wanted
        received, safe, _ = self.known
        assert safe <= received <= self.sender.dispatch.reached


values = st.lists(st.integers(-1, 3), max_size=6)
distances = st.integers(-8, 8).filter(lambda each: each != 0) | st.integers(1, FAR)


def reject_forged(network: Network, distance: int) -> None:
    """Forge a relay this far from the next place, with a genuine one behind it."""
    place = network.session.arrived + 1 + distance
    if place <= 0:
        return
    before, session = network.known, network.session
    network.hear(wire.relay(place, wire.NO_STAMP, FORGED), wire.relay(place + 1, wire.NO_STAMP, FORGED))
    assert session.ended
    network.line.settle()
    assert network.known == before


@given(st.lists(st.tuples(values, distances, st.sampled_from(["connect", "kill b0", "kill b1"])), max_size=5))
def test_a_forged_relay_ends_the_connection_and_changes_nothing(
    steps: list[tuple[list[int], int, str]],
) -> None:
    network = Network()
    for published, distance, then in steps:
        network.publish(*published)
        reject_forged(network, distance)
        network.publish(1, -1, 2)  # acknowledged while the link is down
        if then != "connect":
            network.kill(int(then[-1]))
        network.connect()
    network.check()


@given(values, st.integers(1, FAR), values)
def test_a_forged_skip_changes_nothing(before: list[int], distance: int, after: list[int]) -> None:
    network = Network()
    network.publish(*before)
    place = network.session.arrived + 1 + distance
    network.hear(wire.skip(place))
    known, session = network.known[:2], network.session
    network.publish(*after, 1)
    if place > network.sender.dispatch.reached:  # or else a genuine skip may lead further on
        assert session.ended
        assert network.known[:2] == known
    network.check()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_skip_that_goes_back_ends_the_connection(place: int) -> None:
    network = Network()
    network.publish(1, 2, 3)
    network.hear(wire.skip(place))
    assert network.session.ended
    network.check()


def poison(network: Network, place: int) -> None:
    """A skip and a relay that agree are believed, whoever has made them."""
    network.hear(wire.skip(place), wire.relay(place, wire.NO_STAMP, FORGED))
    network.line.settle()
    assert network.known[0] == place


@given(values, values, st.lists(st.sampled_from([0, 1, None]), max_size=4), st.integers(100, FAR))
def test_a_place_beyond_the_end_that_was_believed_is_mended_and_stays_so(
    before: list[int], after: list[int], killed: list[int | None], place: int
) -> None:
    network = Network()
    network.publish(*before)
    poison(network, place)
    network.publish(*after, 1)
    for number in killed:
        if number is not None:
            network.kill(number)
        network.connect()
        network.publish(2, -1)
    network.check()
    network.kill(1)
    network.check()


def test_a_place_that_was_believed_and_is_not_synced_is_mended() -> None:
    network = Network()
    network.publish(1, 2)
    network.hear(wire.skip(FAR), wire.relay(FAR, wire.NO_STAMP, FORGED))
    network.connect()
    assert network.known[1] < FAR
    network.publish(3)
    network.check()


# -- mutants -------------------------------------------------------------------------------------------------


def believe(session: LinkSession, place: int) -> None:
    session.arrived = place


def cut_to_the_end(neighbourhood: Any, linked: Any, said: Any, now: int) -> None:
    known = neighbourhood._persistence.state.neighbours[linked.neighbour]
    known.received = known.safe = said.end


def go_on_from_the_end(neighbourhood: Any, link: Any, said: Any) -> None:
    link.confirm_through(min(said.received, neighbourhood._dispatch.reached) - 1)


def test_a_broker_that_believes_every_place_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkSession, "arrive", believe)
    network = Network()
    network.publish(1)
    with pytest.raises(AssertionError):
        reject_forged(network, FAR)


@pytest.mark.parametrize(
    ("method", "mutant"), [("_go_back", cut_to_the_end), ("_go_on_from", go_on_from_the_end)]
)
def test_a_broker_that_cuts_a_place_to_the_end_is_caught(
    method: str, mutant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Neighbourhood, method, mutant)
    network = Network()
    network.publish(1)
    poison(network, FAR)
    network.publish(2, 3)
    with pytest.raises(AssertionError):
        network.check()
