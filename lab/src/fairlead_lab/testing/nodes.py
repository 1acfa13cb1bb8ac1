"""Nodes without sockets: what one has written, whoever drives the test carries on to the other.

End(node)               one end of a connection to a node, with all that the node has said there
linked(left, right)     the two ends of a new link
Line(brokers)           nodes in a line, each linked with the next
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from fairlead.broker import Broker
from fairlead.network import wire
from fairlead.network.ledger import Ledger
from fairlead.network.node import Node
from fairlead.network.sessions import Session
from fairlead.network.settings import BrokerSettings, Limits
from fairlead.security import Principal
from fairlead_lab.testing.memory import MemoryDisk

__all__ = ["End", "Line", "linked"]


class End:
    """One end of a connection to a node; while it is `stuck`, nothing that the node has written goes out."""

    session: Session
    """The node's name for the other end."""

    def __init__(self, node: Node) -> None:
        self.node, self.written, self.closed = node, b"", False
        self.paused = False
        """Whether the node does not want to hear more."""
        self.stuck = 0
        """The number of bytes that seem to wait in the connection's own buffer."""
        self.said: list[tuple[int, bytes]] = []
        """All frames that it has ever written."""
        self._frames, self._heard = wire.Frames(), wire.Frames()

    def write(self, data: bytes) -> None:
        """Take what the node has to say."""
        self.written += data
        self.said += self._frames.feed(data)

    def take(self) -> bytes:
        """The bytes that go out now."""
        if self.stuck:
            return b""
        written, self.written = self.written, b""
        return written

    def buffered(self) -> int:
        """The number of bytes that wait."""
        return self.stuck + len(self.written)

    def close(self) -> None:
        """The node ends the connection."""
        self.closed = True

    def pause(self) -> None:
        """The node does not want to hear more for a while."""
        self.paused = True

    def resume(self) -> None:
        """The node wants to hear more."""
        self.paused = False

    def hear(self, chunk: bytes) -> None:
        """Take what comes in for the node."""
        self.node.receive(self.session, self._heard.feed(chunk), 0)

    def let_go(self) -> None:
        """Be stuck no more."""
        self.stuck = 0
        self.node.drained(self.session)

    def frames(self, *kinds: int) -> list[bytes]:
        """The payloads of some kinds."""
        return [payload for kind, payload in self.said if kind in kinds]

    @property
    def dropped(self) -> int:
        """The number of notifications that the node has said it left out."""
        told = map(wire.parse_control, self.frames(wire.CONTROL))
        return sum(each.count for each in told if isinstance(each, wire.Dropped))


def linked(left: Node, right: Node) -> tuple[End, End]:
    """Connect two nodes, which are linked from then on: the right one calls the left one."""
    ends, url = (End(left), End(right)), f"fairlead://{left.name}:7400"
    right.neighbourhood.call(url)
    ends[0].session = left.greet(
        ends[0], right.hello(right.calling.calls.get(url, "")), principal=Principal(right.name)
    )
    left.flush()
    (_, welcome), *behind = wire.Frames().feed(ends[0].take())
    said = wire.parse_control(welcome)
    assert isinstance(said, wire.Welcome)
    ends[1].session = right.welcomed(ends[1], url, said)
    right.receive(ends[1].session, behind, 0)
    return ends


class Line:
    """Nodes in a line, with logs in memory if `logged`; all take frames of this length."""

    def __init__(
        self,
        brokers: int = 3,
        frame_bytes: int = wire.FRAME_MAX,
        make: Callable[[str], Broker] = lambda name: BrokerSettings(name).broker(),
        *,
        logged: bool = True,
    ) -> None:
        limits = Limits(frame_bytes=frame_bytes)
        self.nodes = [
            Node(make(name), Ledger(f"/{name}", MemoryDisk()) if logged else None, limits, life=name)
            for name in (f"b{number}" for number in range(brokers))
        ]
        self.links = [linked(*pair) for pair in pairwise(self.nodes)]
        self.settle()

    def client(self, at: int, name: str) -> End:
        """A client that is connected to one of them."""
        end = End(self.nodes[at])
        end.session = end.node.greet(end, wire.Hello(wire.VERSION, "client", name), principal=Principal(name))
        return end

    def settle(self) -> None:
        """Carry all on, and sync the logs, until nothing is left to be done."""
        moved = True
        while moved:
            moved = False
            for node in self.nodes:
                node.flush()
                moved |= node.is_busy
                if node.wants_sync:
                    node.synced(0 if node.ledger is None else node.ledger.log.sync())
                    moved = True
            for one, other in (*self.links, *((other, one) for one, other in self.links)):
                if written := one.take():
                    other.hear(written)
                    moved = True
