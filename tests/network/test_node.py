"""What a node refuses has no effect: it is not a duplicate, not acknowledged, and not in the way of others."""

from __future__ import annotations

from fairlead.errors import LogFull
from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.network import wire
from fairlead.network.ledger import Ledger
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings
from fairlead_lab.testing.memory import MemoryDisk


class Written:
    """A peer that keeps what is sent to it."""

    def __init__(self) -> None:
        self.raw = b""

    def write(self, data: bytes) -> None:
        self.raw += data

    def buffered(self) -> int:
        return 0

    def close(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stored(self) -> list[int]:
        frames = wire.Frames().feed(self.raw)
        return [wire.parse_numbered(payload)[0] for kind, payload in frames if kind == wire.STORED]

    def refused(self) -> list[int]:
        frames = wire.Frames().feed(self.raw)
        said = [wire.parse_control(payload) for kind, payload in frames if kind == wire.CONTROL]
        return [message.number for message in said if isinstance(message, wire.Refused)]


def fine(number: int) -> bytes:
    return wire.publish(number, pack(Notification.of({"id": str(number), "producer": "p", "x": number})))


def test_a_refused_publication_is_neither_a_duplicate_nor_acknowledged() -> None:
    ledger = Ledger("d", MemoryDisk())
    node, peer = Node(BrokerSettings("b").broker(), ledger, life="1"), Written()
    session = node.greet(peer, wire.Hello(wire.VERSION, "client", "p"))
    node.receive(session, wire.Frames().feed(fine(1) + wire.publish(2, b"nonsense")), 0)
    node.synced(ledger.log.sync())
    node.flush()
    assert (peer.stored(), peer.refused()) == ([1], [2])
    assert (node.counters.refused, node.counters.duplicates) == (1, 0)


def test_what_was_no_notification_does_not_matter_when_the_disk_is_full() -> None:
    disk = MemoryDisk()
    ledger = Ledger("d", disk)
    node, peer = Node(BrokerSettings("b").broker(), ledger, life="1"), Written()
    session = node.greet(peer, wire.Hello(wire.VERSION, "client", "p"))
    node.receive(session, wire.Frames().feed(fine(1) + wire.publish(2, b"nonsense") + fine(3)), 0)
    node.log_is_full(LogFull("no room"), 0)
    node.flush()
    assert sorted(peer.refused()) == [1, 2, 3]
    assert peer.stored() == []
