"""Marks: how far all that was published at a broker has come, in the order of what is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker.progress import Mark, Progress
from fairlead.errors import ProtocolError
from fairlead.log.records import NOTIFICATIONS, PUBLICATION, parse_arrival, parse_stamp
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.destinations import Link
from fairlead.network.node import Node
from fairlead_lab.testing.nodes import End, Line, linked

BROKERS = 3


def identities(node: Node) -> dict[str, dict[int, tuple[int, str]]]:
    """The notifications in a node's log: by their origin and position, `x` and the id."""
    found: dict[str, dict[int, tuple[int, str]]] = {}
    assert node.ledger is not None
    with node.ledger.reader(0, *NOTIFICATIONS, synced=False) as reader:
        for record in reader.read(1 << 20):
            if record.kind == PUBLICATION:
                origin, position, packed = node.name, record.offset + 1, record.payload
            else:
                arrived = parse_arrival(record)
                (origin, position), packed = parse_stamp(arrived.stamp), arrived.packed
            content = unpack(packed)
            found.setdefault(origin, {})[position] = (int(str(content.attributes["x"])), str(content.id))
    return found


class Network:
    """A line of nodes that is driven step by step. What is published with an `x` of at most n concerns node n."""

    def __init__(self) -> None:
        self.line = Line(BROKERS)
        self.nodes, self.links = self.line.nodes, self.line.links
        self.publishers = [self.line.client(at, f"p{at}") for at in range(BROKERS)]
        for at in range(BROKERS):
            end = self.line.client(at, f"s{at}")
            self.say(end, wire.control(wire.Subscribe(1, "s", f"x <= {at}")))
        self.line.settle()
        self.count = 0
        self.received: dict[tuple[str, str], set[int]] = {}
        self.readers: dict[End, wire.Frames] = {}

    def say(self, end: End, frame: bytes) -> None:
        end.hear(frame)
        end.node.flush()

    def publish(self, at: int, x: int) -> None:
        self.count += 1
        notification = Notification.of({"x": x, "id": str(self.count), "producer": f"p{at}"})
        self.say(self.publishers[at], wire.publish(self.count, pack(notification)))

    def sync(self, at: int, _: int) -> None:
        node = self.nodes[at]
        assert node.ledger is not None
        node.synced(node.ledger.log.sync())
        node.flush()

    def tick(self, at: int, now: int) -> None:
        self.nodes[at].tick(now)
        self.nodes[at].flush()

    def carry(self, at: int, size: int) -> None:
        """Some bytes go over one direction of a link; marks among them are checked."""
        one, other = (*self.links, *((other, one) for one, other in self.links))[at % (2 * len(self.links))]
        raw, one.written = one.written[: 200 * size], one.written[200 * size :]
        if raw and not other.session.ended:
            self.hear(other, raw)

    def hear(self, end: End, raw: bytes) -> None:
        """What arrives at a node: each mark comes behind all that it speaks of."""
        node = end.node
        for kind, payload in self.readers.setdefault(end, wire.Frames()).feed(raw):
            if kind == wire.RELAY:
                _, packed = wire.parse_relay(payload)
                origin, position = parse_stamp(payload[8 : -len(packed)])
                self.received.setdefault((node.name, origin), set()).add(position)
            elif kind == wire.MARK:
                origin, position = wire.parse_mark(payload)
                self.check(node, origin, position, self.received.get((node.name, origin), set()))
        end.hear(raw)
        node.flush()

    def turn(self, at: int, _: int) -> None:
        node = self.nodes[at]
        for end in self.ends(node):
            node.drained(end.session)
        node.flush()

    def ends(self, node: Node) -> list[End]:
        return [end for pair in self.links for end in pair if end.node is node]

    def reconnect(self, at: int, _: int) -> None:
        at %= len(self.links)
        one, other = self.links[at]
        for end in (one, other):
            end.session.lost()
        self.links[at] = linked(one.node, other.node)

    def check(self, node: Node, origin: str, position: int, here: Iterable[int]) -> None:
        """Check the law: what concerns this node and was published there up to the position is here."""
        number = self.nodes.index(node)
        published = identities(next(each for each in self.nodes if each.name == origin)).get(origin, {})
        missing = {place for place, (x, _) in published.items() if place <= position and x <= number}
        assert missing <= set(here)


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["publish"] * 4 + ["sync"] * 3 + ["carry"] * 6 + ["tick"] * 3 + ["turn", "reconnect"]
        ),
        st.integers(0, BROKERS - 1),
        st.integers(0, 5),
    ),
    max_size=60,
)


def run(plan: list[tuple[str, int, int]], window: int) -> Network:
    network = Network()
    for node in network.nodes:
        for link in node.links.values():
            link.window = window
    for do, at, number in plan:
        getattr(network, do)(at + BROKERS * (number % 2) * (do == "carry"), number)
    for _ in range(BROKERS + 1):
        network.line.settle()
        for at in range(BROKERS):
            network.tick(at, 0)
    network.line.settle()
    for node in network.nodes:
        here = identities(node)
        for origin, position in node.progress.positions.items():
            network.check(node, origin, position, here.get(origin, ()))
        for positions in here.values():
            assert list(positions) == sorted(positions), "in every log, positions of one origin rise"
    return network


@settings(max_examples=settings.default.max_examples // 2)
@given(steps, st.sampled_from([1, 3, 4_096]))
def test_what_a_mark_speaks_of_has_arrived_before_it(plan: list[tuple[str, int, int]], window: int) -> None:
    network = run(plan, window)
    for node in network.nodes:
        others = {each.name for each in network.nodes if each is not node}
        assert set(node.progress.positions) == others, "marks come through the whole network"
        for other in network.nodes:
            published = identities(other).get(other.name, {})
            if other is not node:
                assert node.progress.positions[other.name] >= max(published, default=0)


PLAN = [
    ("publish", 0, 0),
    ("publish", 2, 0),
    ("sync", 0, 0),
    ("sync", 2, 0),
    ("tick", 0, 0),
    ("tick", 2, 0),
] * 3
CARRY = [("carry", at, number) for at in range(BROKERS) for number in (4, 5)]
BEHIND = [*PLAN, *CARRY, ("tick", 1, 0), *CARRY] * 4


def catches(mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the law fails under a mutant. It holds without."""
    run(BEHIND, 1)
    mutate(monkeypatch)
    try:
        run(BEHIND, 1)
    except AssertionError:
        return True
    return False


def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks that do not wait for an outbox that is behind."""
    monkeypatch.setattr(Link, "passed", property(lambda link: link._dispatch.reached))


def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks that are sent on at once."""
    hear = Progress.hear
    monkeypatch.setattr(Progress, "hear", lambda self, source, mark, end: hear(self, source, mark, 0))


def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks of what is in the log and has not been sent on."""
    monkeypatch.setattr(Link, "passed", property(lambda link: link._dispatch.end))


@pytest.mark.parametrize("mutant", [ahead, hasty, unsynced])
def test_a_mark_that_comes_too_early_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert catches(mutant, monkeypatch)


def test_a_neighbour_that_is_always_a_little_behind_gets_marks() -> None:
    progress, sent = Progress("b"), []
    for turn in range(1, 20):
        progress.hear("a", Mark("a", turn), end=10 * turn)
        sent += [mark for mark in progress.marks("c", 10 * turn - 5) if mark.origin == "a"]
    assert sent == [Mark("a", turn) for turn in range(1, 19)]


def test_marks_that_have_not_changed_are_sent_again_over_a_new_connection_only() -> None:
    progress = Progress("b")
    progress.hear("a", Mark("a", 7), end=3)
    assert [*progress.marks("c", 3)] == [Mark("b", 3), Mark("a", 7)]
    assert [*progress.marks("c", 3)] == []
    assert [*progress.marks("a", 3)] == [Mark("b", 3)], "not back to where it came from"
    progress.connect("c")
    assert [*progress.marks("c", 3)] == [Mark("b", 3), Mark("a", 7)]


def test_a_log_that_goes_back_forgets_what_it_was_told_of() -> None:
    progress = Progress("b")
    progress.hear("a", Mark("a", 7), end=9)
    assert [*progress.marks("c", 3)] == [Mark("b", 3)]
    progress.take_back()
    assert [*progress.marks("c", 20)] == [Mark("b", 20)]
    progress.hear("a", Mark("a", 8), end=20)
    progress.unlink("a")
    assert progress.positions == {}


@pytest.mark.parametrize("origin", ["b", ""])
def test_a_mark_of_a_broker_about_itself_is_not_taken_from_another(origin: str) -> None:
    with pytest.raises(ProtocolError, match="comes from another broker"):
        Progress("b").hear("a", Mark(origin, 1), 0)


def test_brokers_without_a_log_send_no_marks() -> None:
    line = Line(2, logged=False)
    for node in line.nodes:
        node.tick(0)
    line.settle()
    assert all(not end.frames(wire.MARK) for pair in line.links for end in pair)
