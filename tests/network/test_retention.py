"""A durable subscriber that nothing waits for keeps nothing from retention; what waits for it stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.errors import NotAcknowledged
from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.network import sync, wire
from fairlead.network import sync as sync_module
from fairlead.network.ledger import Ledger, cursor_of_acknowledged
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings
from fairlead_lab.testing.brokers import Brokers
from fairlead_lab.testing.memory import MemoryDisk
from fairlead_lab.testing.nodes import End, Line

Until = Callable[[Callable[[], object]], None]


class Host:
    """A broker with a log in small segments, which may be started again."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.start()

    def start(self) -> None:
        self.ledger = Ledger("/b", self.disk, segment_bytes=2_000)
        self.node = Node(BrokerSettings("b").broker(), self.ledger, life="b")
        self.number = 0

    def client(self, name: str) -> End:
        end = End(self.node)
        end.session = self.node.greet(end, wire.Hello(wire.VERSION, "client", name))
        return end

    def settle(self) -> None:
        while self.node.dirty or self.node.wants_sync:
            self.node.flush()
            self.node.synced(self.ledger.log.sync())

    def publish(self, source: End, x: int, count: int = 1) -> None:
        for _ in range(count):
            self.number += 1
            notification = Notification.of({"x": x, "producer": "p", "id": f"{x}-{self.number}"})
            source.hear(wire.publish(self.number, pack(notification)))
            self.settle()

    def subscribe(self) -> End:
        desk = self.client("desk")
        desk.hear(wire.control(wire.Subscribe(1, "s", "x = 7", durable="desk")))
        self.settle()
        return desk

    def retain(self) -> int:
        """Let go of what is needed by nobody; the first offset that is left."""
        self.node.tick(0)
        self.node.save(0)
        self.ledger.firsts.begin(self.node.dispatch.reached, 0)  # as the server has it done now and then
        self.ledger.identities_written(self.ledger.firsts.write(0))
        self.settle()
        return self.ledger.retain(0, max_bytes=1)


@pytest.mark.parametrize("restarts", [False, True])
def test_who_is_away_and_matches_nothing_keeps_nothing(restarts: bool) -> None:
    host = Host()
    desk, source = host.subscribe(), host.client("p")
    host.node.lost(desk.session)
    host.publish(source, 1, 200)
    if restarts:
        host.node.close(0)
        host.start()
        source = host.client("p")
        host.number = 1_000
    assert host.retain() > 150
    host.publish(source, 1, 50)
    host.publish(source, 7)
    first = host.ledger.log.end
    host.publish(source, 1, 200)
    assert first - 60 < host.retain() <= first  # it waits, and so does what comes behind it
    back = host.subscribe()
    [delivery] = back.frames(wire.DELIVER)
    assert (
        wire.parse_deliver(delivery)[0] == host.node.durables["desk"].cursor(host.node.dispatch.reached) + 1
    )
    back.hear(wire.control(wire.Accept("desk", [wire.parse_deliver(delivery)[0]])))
    host.settle()
    host.node.lost(back.session)
    assert host.retain() > first


def test_what_was_not_accepted_waits_and_is_delivered_again() -> None:
    host = Host()
    desk, source = host.subscribe(), host.client("p")
    host.publish(source, 7)
    host.node.lost(desk.session)
    host.publish(source, 1, 300)
    host.retain()
    assert len(host.subscribe().frames(wire.DELIVER)) == 1


def test_an_unlinked_neighbour_has_no_cursors() -> None:
    line = Line(2)
    one = line.nodes[0]
    desk = line.client(1, "desk")
    desk.hear(wire.control(wire.Subscribe(1, "s", "exists x", durable="desk")))
    line.settle()
    source = line.client(0, "p")
    source.hear(wire.publish(1, pack(Notification.of({"x": 1, "producer": "p", "id": "1"}))))
    line.settle()
    one.save(0)
    assert one.ledger is not None
    assert cursor_of_acknowledged("b1") in one.ledger.log.cursors
    source.hear(wire.control(wire.Unlink(2, "b1")))
    line.settle()
    one.save(0)
    assert not [name for name in one.ledger.log.cursors if name.endswith("b1")]


def test_a_durable_subscription_waits_with_a_bound_and_names_who_cannot_acknowledge(
    brokers: Brokers, tmp_path: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_module, "INSTALL_S", 0.5)
    a = brokers.start("a", tmp_path)
    b = brokers.start("b", tmp_path, links=(a.url,))
    c = brokers.start("c", tmp_path, links=(b.url,))
    until(lambda: len(b.node.links) == 2 and all(each.ready for each in list(b.node.links.values())))
    brokers.stop(c)
    with sync.connect(a.url, name="desk") as client:
        with pytest.raises(NotAcknowledged, match=r"'desk' is in effect at 'a', .* by 'c'") as refused:
            client.subscribe("exists x", durable="desk")
        assert "unlink" in str(refused.value)
        assert "desk" in client.status()["durables"]
        client.publish({"x": 1})
    with sync.connect(b.url, name="operator") as operator:
        operator.unlink("c")
    with sync.connect(a.url, name="desk") as client, client.subscribe("exists x", durable="desk") as desk:
        assert desk.get(timeout=15).get("x") == 1


def test_a_link_is_answered_when_what_is_subscribed_to_behind_it_is_in_effect(
    brokers: Brokers, tmp_path: Path, until: Until
) -> None:
    a, b, c, d = (brokers.start(name, tmp_path) for name in "abcd")
    with sync.connect(b.url) as client:
        client.link(a.url)
    with sync.connect(d.url) as client:
        client.link(c.url)
    with sync.connect(d.url, name="desk") as client, client.subscribe("exists x", durable="desk"):
        pass
    with sync.connect(b.url) as client, sync.connect(a.url, name="p") as source:
        client.link(c.url)
        source.publish({"x": 1})
    with sync.connect(d.url, name="desk") as client, client.subscribe("exists x", durable="desk") as desk:
        assert desk.get(timeout=15).get("x") == 1
