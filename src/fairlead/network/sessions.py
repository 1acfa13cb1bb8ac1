"""Sessions: connections of clients and neighbours that are known by name. A session ends with its connection.

`inflow` says when a session is read from. Notifications are for destinations: for the client of a session, or for
those of `destinations`, which outlive sessions.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from fairlead.broker.publications import NO_OFFSET, Entry, Pending
from fairlead.errors import LogFull
from fairlead.filters.filter import Filter
from fairlead.model.order import Identity, identity_of
from fairlead.model.packed import unpack
from fairlead.network import wire
from fairlead.network.inflow import Event, Inflow, State
from fairlead.network.outflow import Outflow, Step, To
from fairlead.network.relays import Relays
from fairlead.network.settings import DISCONNECT, DROP

if TYPE_CHECKING:
    from fairlead.network.destinations import Durable, Link, Recipient
    from fairlead.network.ledger import Ledger
    from fairlead.network.node import Node
    from fairlead.network.router import Fanout

__all__ = [
    "GONE",
    "ClientSession",
    "Counters",
    "LinkSession",
    "Peer",
    "Session",
    "Stuck",
]

log: Final = logging.getLogger(__name__)

ANSWERS_MAX: Final = 4
"""How many times what may be in flight to a client may wait for it in answers."""
TICKS: Final = 4
"""So many ticks are a second.

Ticks are counted and not seconds: a process that was itself stopped, or busy, for a while has had only one."""
UNHEARD: Final = 4
"""So many times as long, a client may hold up others that is not read from, and could not be heard."""
RELAYS_BYTES: Final = 1 << 16
"""How long a frame of several notifications becomes: what is read at once should hold a few."""


class Peer(Protocol):
    """The other end of a connection, as the one who drives the node sees it."""

    def write(self, data: bytes) -> None:
        """Send, some time."""

    def buffered(self) -> int:
        """How many bytes have been written and not sent."""

    def close(self) -> None:
        """End the connection when what was written has been sent."""

    def pause(self) -> None:
        """Read nothing more from it, for now."""

    def resume(self) -> None:
        """Read from it again."""


class _Gone:
    """The peer of a connection that has ended."""

    def write(self, data: bytes) -> None:
        """Nobody is there."""

    def buffered(self) -> int:
        """Nothing waits."""
        return 0

    def close(self) -> None:
        """It is closed."""

    def pause(self) -> None:
        """Nothing comes."""

    def resume(self) -> None:
        """Nothing comes."""


GONE: Final[Peer] = _Gone()


@dataclass(slots=True)
class Counters:
    """What a node has done, since it was started."""

    published: int = 0
    delivered: int = 0
    relayed: int = 0
    received: int = 0
    duplicates: int = 0
    refused: int = 0
    dropped: int = 0
    rejected: int = 0


@dataclass(slots=True)
class Stuck:
    """For how many ticks somebody who holds up others has not moved."""

    ticks: int = 0
    place: object = None

    def has_lasted(self, seconds: int, place: object, *, is_stuck: bool = True) -> bool:
        """Whether others have waited for so long; asked with every tick, with where it is."""
        self.ticks = self.ticks + 1 if is_stuck and place == self.place else 0
        self.place = place
        return self.ticks >= seconds * TICKS


class Session(ABC):
    """One connection that has introduced itself."""

    def __init__(self, node: Node, peer: Peer, name: str, inflow: Inflow) -> None:
        self.node, self.peer, self.name = node, peer, name
        self.out: list[bytes] = []
        self.waiting = 0
        """Bytes that are on their way out, roughly: exact after each flush."""
        self.acknowledged = 0
        """The last number that has been acknowledged."""
        self.starved = False
        """Whether something could not be sent because it was full."""
        self.is_due = False
        """Whether it waits for its turn: to read on in the log, or to have more of what it said heard."""
        self.inflow = inflow
        """What is read from it, and which frames are held."""
        self.written = 0
        """How many bytes have been handed out."""
        self.is_read = True
        self.has_spoken = False

    passing: ClassVar[frozenset[int]] = frozenset()
    """The kinds of frames that are handled past those that are held."""

    @property
    @abstractmethod
    def source(self) -> str:
        """The neighbour that notifications come from; empty for a client."""

    @property
    def ended(self) -> bool:
        """Whether the connection has ended."""
        return self.inflow.state is State.ENDED

    @property
    def is_full(self) -> bool:
        """Whether nothing should be sent for now."""
        if self.waiting <= self.node.limits.buffer_bytes:
            return False
        self.flush()
        self.starved = self.waiting > self.node.limits.buffer_bytes
        return self.starved

    def flush(self) -> None:
        """Hand out what is to be sent."""
        if self.out and not self.ended:
            frames = self.take_out()
            self.written += len(frames)
            self.peer.write(frames)
            self.waiting = self.peer.buffered()

    @property
    def gone_out(self) -> int:
        """How many bytes the other side has taken, or the system has for it."""
        return self.written - self.peer.buffered()

    def take_out(self) -> bytes:
        """What is to be sent, and is not any longer."""
        frames = b"".join(self.out)
        self.out.clear()
        return frames

    def send(self, frame: bytes) -> None:
        """Send a frame with the next flush."""
        if not self.out:
            self.node.dirty.append(self)
        self.out.append(frame)
        self.waiting += len(frame)

    def tell(self, message: wire.Control) -> None:
        """Send a message with the next flush."""
        self.send(wire.control(message))

    def wait_for_turn(self) -> None:
        """There is more to be done for it than may be done at once: it goes on with the next flush."""
        if not self.is_due:
            self.is_due = True
            self.node.dirty.append(self)

    def follow_inflow(self) -> None:
        """Do what follows from the state of the inflow: read or do not read, and wait for a turn."""
        inflow = self.inflow
        if inflow.is_due:
            self.wait_for_turn()
        if inflow.is_read != self.is_read and not self.ended:
            self.is_read = inflow.is_read
            (self.peer.resume if self.is_read else self.peer.pause)()

    @abstractmethod
    def outboxes(self) -> Sequence[Durable | Link]:
        """Those that are reached over it."""

    @abstractmethod
    def lost(self) -> None:
        """The connection has ended."""

    @abstractmethod
    def drained(self) -> None:
        """There is room again."""

    @abstractmethod
    def look_at_answers(self) -> None:
        """See whether the other side reads what it is sent."""

    # -- what the program of publications asks of those whom they come from --

    @abstractmethod
    def append_to(self, ledger: Ledger, records: list[tuple[bytes, int]], now: int) -> range:
        """Append what came, with its numbers, all or none; LogFull: none."""

    @abstractmethod
    def took(self, new: int, number: int) -> None:
        """So many new ones were committed, the last of all with this number."""

    @abstractmethod
    def acknowledge(self, number: int) -> None:
        """All up to this number is synced, and sent on."""

    @abstractmethod
    def answer_duplicates(self, entries: Iterable[Entry[Fanout, bytes]]) -> None:
        """These came again."""

    @abstractmethod
    def forget(self, entries: Iterable[Entry[Fanout, bytes]]) -> None:
        """These are in no log: whoever publishes them again does so for the first time."""

    @abstractmethod
    def refuse(self, entries: Iterable[Entry[Fanout, bytes]], reason: str) -> None:
        """These have no effect."""

    @abstractmethod
    def take_back(
        self,
        pending: Pending[Session, Fanout, bytes],
        gone: list[tuple[int, Fanout, bytes, int]],
        earlier: Iterable[Pending[Session, Fanout, bytes]],
        refused: set[Identity],
        error: LogFull,
    ) -> list[Entry[Fanout, bytes]]:
        """The log has no room for a part of a batch, which is `gone`; what has to be refused of the batch.

        `earlier` are the batches before it, and `refused` is what was refused of them, and of this one.
        """

    def end(self, reason: str, *, is_final: bool = False) -> None:
        """Say goodbye."""
        if not self.ended:
            log.info("%s has to go: %s", self, reason)
            self.tell(wire.Bye(reason, is_final=is_final))
            self.node.lost(self)


class ClientSession(Session):
    """A connected client."""

    @property
    def connection(self) -> Session:
        """Over which it is reached."""
        return self

    def __str__(self) -> str:
        return f"the client {self.name!r}"

    def __init__(self, node: Node, peer: Peer, name: str, policy: str) -> None:
        super().__init__(node, peer, name, Inflow("client"))
        self.policy = policy or DROP
        self.client = f"c:{name}"
        """What the broker calls it."""
        self.durables: dict[str, Durable] = {}
        self.listens: dict[str, tuple[Filter, bool]] = {}
        self.backlog: deque[bytes] = deque()
        self.kept_bytes = 0
        self.dropped = 0
        self.outflow = Outflow("client", To.OPEN)
        """What becomes of notifications for it."""
        self.stuck = Stuck()

    def deliver(self, offset: int, recipient: Recipient, packed: bytes) -> None:
        """Deliver to a subscription that is not durable."""
        self.node.counters.delivered += 1
        size = len(packed)
        head = recipient.heads.get(size) or recipient.head_of(size)
        if self.backlog or self.is_full:
            self._keep_back(head + packed)
            return
        if not self.out:
            self.node.dirty.append(self)
        self.out += (head, packed)
        self.waiting += size

    def deliver_all(self, recipient: Recipient, relays: Relays) -> None:
        """Deliver several that are in no log."""
        if self.backlog or self.waiting + relays.size > self.node.limits.buffer_bytes:
            for packed in relays.each:
                self.deliver(NO_OFFSET, recipient, packed)
            return
        if not self.out:
            self.node.dirty.append(self)
        heads = recipient.heads
        for packed in relays.each:
            self.out += (heads.get(len(packed)) or recipient.head_of(len(packed)), packed)
        self.node.counters.delivered += relays.count
        self.waiting += relays.size

    def _keep_back(self, frame: bytes) -> None:
        """The client is slow."""
        if self.ended:
            return
        self.starved = True
        self.outflow.on(Step.QUEUE)
        self.backlog.append(frame)
        self.kept_bytes += len(frame)
        if not self._has_too_much:
            return
        if self.policy == DROP:
            while self._has_too_much:
                self._next()
                self.dropped += 1
                self.node.counters.dropped += 1
        elif self.policy == DISCONNECT:
            waiting = len(self.backlog)
            self.backlog.clear()
            self.end(f"too slow: {waiting:,} notifications were waiting", is_final=True)
        else:
            self.node.block(self)

    @property
    def _has_too_much(self) -> bool:
        limits = self.node.limits
        return len(self.backlog) > limits.queue or self.kept_bytes > limits.queue_bytes

    def _next(self) -> bytes:
        frame = self.backlog.popleft()
        self.kept_bytes -= len(frame)
        return frame

    def drained(self) -> None:
        """There is room again."""
        while self.backlog and not self.is_full:
            self._tell_dropped()
            self.send(self._next())
        if not self.backlog:
            self._tell_dropped()
            self.outflow.on(Step.EMPTY)
            self.node.unblock(self)
        if self.inflow.is_choked and not self.is_full:
            self.inflow.on(Event.UNCHOKE)
            self.follow_inflow()

    def look_at_answers(self) -> None:
        """A client that asks and does not read the answers asks nothing more before it has."""
        if self.waiting > ANSWERS_MAX * self.node.limits.buffer_bytes:
            self.inflow.on(Event.CHOKE)
            self.starved = True

    @property
    def source(self) -> str:
        return ""

    def outboxes(self) -> Sequence[Durable | Link]:
        return list(self.durables.values())

    def lost(self) -> None:
        self.outflow.on(Step.LOSE)
        self.node.clientele.lost(self)

    def look_after(self) -> None:
        """See to it that nobody waits for a client that is gone: one that is there and slow says so."""
        seconds = self.node.limits.block_seconds * (1 if self.is_read else UNHEARD)
        is_silent, self.has_spoken = not self.has_spoken, False
        if self.stuck.has_lasted(seconds, self.gone_out, is_stuck=is_silent):
            reason = f"it has held up others for {seconds} s, in which it took nothing and said nothing"
            self.end(f"{reason}; {len(self.backlog):,} notifications were waiting", is_final=True)

    def missed(self, count: int) -> None:
        """So many that may have been for it were lost on their way here."""
        self.dropped += count
        if not self.backlog and not self.is_full:
            self._tell_dropped()

    def _tell_dropped(self) -> None:
        """What is missing is missing before what comes now."""
        if self.dropped:
            self.tell(wire.Dropped(self.dropped))
            self.dropped = 0

    # -- what it publishes --

    def append_to(self, ledger: Ledger, records: list[tuple[bytes, int]], now: int) -> range:
        return ledger.publications_of([packed for packed, _ in records], now)

    def took(self, new: int, number: int) -> None:
        self.node.counters.published += new

    def acknowledge(self, number: int) -> None:
        if number > self.acknowledged and not self.ended:
            self.acknowledged = number
            self.send(wire.stored(number))

    def answer_duplicates(self, entries: Iterable[Entry[Fanout, bytes]]) -> None:
        if not self.ended:
            for _, _, number in entries:
                self.tell(wire.Repeated(number))

    def forget(self, entries: Iterable[Entry[Fanout, bytes]]) -> None:
        for fanout, packed, _ in entries:
            if fanout is not None:
                self.node.broker.forget(unpack(packed))

    def refuse(self, entries: Iterable[Entry[Fanout, bytes]], reason: str) -> None:
        if not self.ended:
            for number in filter(None, (each[2] for each in entries)):
                self.node.counters.refused += 1
                self.tell(wire.Refused(number, reason))

    def take_back(
        self,
        pending: Pending[Session, Fanout, bytes],
        gone: list[tuple[int, Fanout, bytes, int]],
        earlier: Iterable[Pending[Session, Fanout, bytes]],
        refused: set[Identity],
        error: LogFull,
    ) -> list[Entry[Fanout, bytes]]:
        """All that is gone, and what came again of what was refused."""
        lost: list[Entry[Fanout, bytes]] = [each[1:] for each in gone]
        refused |= {identity_of(unpack(packed)) for _, packed, _ in lost}
        return lost + [
            each for each in pending.duplicates if refused and identity_of(unpack(each[1])) in refused
        ]


class LinkSession(Session):
    """A connection to a neighbour. `opened` says whether this side called."""

    def __str__(self) -> str:
        return f"the broker {self.name!r}"

    def __init__(
        self, node: Node, peer: Peer, name: str, life: str, frame_max: int, *, opened: bool, url: str = ""
    ) -> None:
        super().__init__(node, peer, name, Inflow("link", node.limits.queue_bytes))
        self.life, self.frame_max, self.opened, self.url = life, frame_max, opened, url
        self.parts = wire.Parts()
        self.room = min(RELAYS_BYTES, wire.relay_room(frame_max))
        """How many bytes of several notifications go into one frame."""
        self.spent = self.granted = 0
        """Bytes of notifications in no log: that were sent, and that the other side has dealt with."""
        self.dealt = self._told = 0
        """The same of what came: that has been dealt with here, and that the other side knows of."""
        self._head = self._count = self._size = 0
        """Of the frame that is open: where its head will stand, how many notifications it has, and their size."""

    passing = frozenset({wire.CONTROL, wire.PART})
    """Of a neighbour, only notifications wait: what else it says changes nothing about where they go."""

    @property
    def source(self) -> str:
        return self.name

    def outboxes(self) -> Sequence[Durable | Link]:
        link = self.node.links.get(self.name)
        return [link] if link is not None and link.session is self else []

    def lost(self) -> None:
        self.node.neighbourhood.lost(self)

    def drained(self) -> None:
        """What waits for the neighbour is in its outbox."""

    def look_at_answers(self) -> None:
        """What a neighbour is answered is bounded by what it relays."""

    def relay(self, body: bytes, count: int = 1) -> None:
        """Send notifications that are in no log, in one frame with those before them, if there is room in it."""
        if not self._count or self._size + len(body) > self.room:
            super().send(self._close_frame())
            self._head = len(self.out) - 1
        size = len(body)
        self.out.append(body)
        self._count += count
        self._size += size
        self.waiting += size
        self.spent += size

    @property
    def is_spent(self) -> bool:
        """Whether no more should be sent of what is in no log, before the other side has dealt with some."""
        return self.spent - self.granted > self.node.limits.buffer_bytes

    def deal(self, size: int) -> None:
        """So many bytes of what came and is in no log have been dealt with."""
        self.dealt += size
        if self.dealt - self._told > self.node.limits.buffer_bytes // 4:
            self._told = self.dealt
            self.tell(wire.Credit(self.dealt))

    def _close_frame(self) -> bytes:
        """Nothing more comes into the frame that is open. (The head of the next one is not known yet.)"""
        if self._count:
            self.out[self._head] = wire.relays_before(self._count, self._size)
            self._count = self._size = 0
        return b""

    def send(self, frame: bytes) -> None:
        self._close_frame()
        super().send(frame)

    def take_out(self) -> bytes:
        self._close_frame()
        return wire.checked(super().take_out(), self.frame_max)

    def tell(self, message: wire.Control) -> None:
        for frame in wire.control_in_parts(message, self.frame_max):
            self.send(frame)

    # -- what it has relayed --

    def append_to(self, ledger: Ledger, records: list[tuple[bytes, int]], now: int) -> range:
        return ledger.arrivals(self.name, records, now)

    def took(self, new: int, number: int) -> None:
        self.node.counters.received += new
        if number and self.node.ledger is None:
            self.node.state.neighbours[self.name].received = number

    def acknowledge(self, number: int) -> None:
        neighbour = self.node.state.neighbours.get(self.name)
        if neighbour is not None:
            neighbour.safe = max(neighbour.safe, number)
        if number > self.acknowledged and not self.ended:
            self.acknowledged = number
            self.tell(wire.Received(number))

    def answer_duplicates(self, entries: Iterable[Entry[Fanout, bytes]]) -> None:
        """The neighbour is acknowledged, which is enough."""

    def forget(self, entries: Iterable[Entry[Fanout, bytes]]) -> None:
        """No identities are remembered of what a neighbour relays."""

    def refuse(self, entries: Iterable[Entry[Fanout, bytes]], reason: str) -> None:
        """The neighbour sends it again."""

    def take_back(
        self,
        pending: Pending[Session, Fanout, bytes],
        gone: list[tuple[int, Fanout, bytes, int]],
        earlier: Iterable[Pending[Session, Fanout, bytes]],
        refused: set[Identity],
        error: LogFull,
    ) -> list[Entry[Fanout, bytes]]:
        """Nothing is refused: the neighbour sends again what it has not been told to be synced."""
        neighbour = self.node.state.neighbours.get(self.name)
        if neighbour is None:
            pending.number = 0
            return []
        before = [
            each.number
            for each in earlier
            if isinstance(each.origin, LinkSession) and each.origin.name == self.name
        ]
        written = [number for offset, _, _, number in pending.entries if offset != NO_OFFSET]
        pending.number = neighbour.received = max([neighbour.safe, *before, *written])
        link = self.node.links.get(self.name)
        if link is not None and link.session is not None:
            link.session.end(str(error))
        return []
