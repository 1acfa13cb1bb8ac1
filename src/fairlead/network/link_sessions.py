"""The connection with a neighbour: frames of several notifications, credit, and how arrivals are answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from fairlead.broker.publications import NO_OFFSET, Entry, Pending
from fairlead.errors import LogFull, ProtocolError
from fairlead.model.order import Identity
from fairlead.network import wire
from fairlead.network.backpressure import Stuck
from fairlead.network.inflow import Inflow
from fairlead.network.ledger import Heard
from fairlead.network.peers import Peer
from fairlead.network.persistence import Persistence
from fairlead.network.sessions import Outgoing, Session

if TYPE_CHECKING:
    from fairlead.network.destinations import Durable, Link
    from fairlead.network.ledger import Ledger
    from fairlead.network.relays import Relays
    from fairlead.network.router import Fanout

__all__ = ["LinkSession"]

CHALLENGE_S: Final = 5
"""The time a neighbour has to answer when another process connects under its name."""
RELAYS_BYTES: Final = 1 << 16
"""The length that a frame of several notifications grows to: what is read at once should hold a few."""
SMALL: Final = 4
"""A frame that is shorter than such a part of that is joined with others."""


class LinkSession(Session):
    """A connection to a neighbour. `opened`: this side called."""

    def __str__(self) -> str:
        return f"the broker {self.name!r}"

    def __init__(
        self,
        outgoing: Outgoing,
        peer: Peer,
        name: str,
        said: wire.Hello | wire.Welcome,
        *,
        persistence: Persistence,
        links: Mapping[str, Link],
        on_lost: Callable[[LinkSession], None],
        opened: bool,
        url: str = "",
    ) -> None:
        super().__init__(outgoing, peer, name, Inflow("link", outgoing.limits.queue_bytes), on_lost)
        self.life, self.frame_max, self.opened, self.url = said.life, said.frame_max, opened, url
        self._persistence, self._links = persistence, links
        self._origin, self._copies = outgoing.broker.encode(), outgoing.copies
        self.parts = wire.Parts()
        self.said: deque[wire.Control] = deque()
        """Messages that are not handled yet: the first one has many filters, which take several turns."""
        self.room = min(RELAYS_BYTES, wire.relay_room(self.frame_max))
        """The number of bytes of several notifications that go into one frame."""
        self.spent = self.granted = 0
        """Bytes of notifications in no log: that were sent, and that the other side has dealt with."""
        self.dealt = self._credited = 0
        """The same of what came: that has been dealt with here, and that the other side knows of."""
        self.relayed = self.arrived = 0
        """The place of the last record that was relayed over this connection, and of the last one that arrived."""
        self._challenge: Stuck | None = None
        """For how long it has not answered, since another process has connected under its name."""
        self._head = self._count = self._size = 0
        """Of the frame that is open: where its head will stand, how many notifications it has, and their size."""
        self._borders: dict[int, bool] = {}
        """The beginnings of checked pieces in `out`, so that a long frame of several notifications is one by
        itself; and whether they are checked already: those that go on as they came."""

    passing = frozenset({wire.CONTROL, wire.PART})
    """Of a neighbour, only notifications wait: what else it says changes nothing about where they go."""
    logs_relays = True

    @property
    def source(self) -> str:
        return self.name

    def outboxes(self) -> Sequence[Durable | Link]:
        link = self._links.get(self.name)
        return [link] if link is not None and link.session is self else []

    def drained(self) -> None:
        """A neighbour's backlog is in its outbox: there is nothing to do."""

    def look_at_answers(self) -> None:
        """Responses to a neighbour are bounded by what it relays: there is nothing to do."""

    def relay_all(self, relays: Relays) -> None:
        """Send several that are in no log: as they came, with the checksum that they have, where they are many."""
        verified = relays.verified
        if verified is None or relays.size < self.room // SMALL or verified.length > self.frame_max:
            self.relay(relays.body, relays.count)
            return
        self.send(verified.head)
        self._borders[len(self.out) - 1] = True
        self.out.append(verified)
        self._borders[len(self.out)] = False
        self.waiting += relays.size
        self.spent += relays.size

    def relay(self, body: bytes, count: int = 1) -> None:
        """Send notifications that are in no log, in one frame with those before them, if there is room in it."""
        if not self._count or self._size + len(body) > self.room:
            super().send(self._close_frame())
            self._head = len(self.out) - 1
            self._borders[self._head] = False
        size = len(body)
        self.out.append(body)
        self._count += count
        self._size += size
        self.waiting += size
        self.spent += size

    def challenge(self) -> None:
        """Another process has connected under this name: see whether this one is still there."""
        if self._challenge is None:
            self._challenge, self.has_spoken = Stuck(), False
            self.tell(wire.Ping())

    def look_after(self) -> None:
        """With every tick: a connection that was challenged and does not answer ends."""
        if self._challenge is None:
            return
        if self.has_spoken:
            self._challenge = None
        elif self._challenge.has_lasted(CHALLENGE_S, None, is_stuck=self.is_read):
            self.end("another process has connected under this name, and this one does not answer")

    def relay_record(self, ordinal: int, content: bytes, *, is_relayed: bool) -> None:
        """Relay a record of the log: a notification that was published here, or a relay as it came.

        Its ordinal is announced if it does not follow the one before.
        """
        if ordinal != self.relayed + 1:
            self.send(wire.skip(ordinal))
        self.relayed = ordinal
        if is_relayed:
            self.send(wire.relay_on(ordinal, content))
        else:
            origin = self._origin if self._copies is None else self._copies.origin_at(ordinal - 1)
            self.send(wire.relay_own(ordinal, origin, content))

    def skip(self, ordinal: int) -> None:
        """The neighbour announces the ordinal of the next record. ProtocolError if ordinals go back."""
        if ordinal <= self.arrived:
            raise ProtocolError(f"record {ordinal:,} is announced, but {self.arrived:,} has arrived")
        self.arrived = ordinal - 1

    def arrive(self, ordinal: int) -> None:
        """A record has arrived. ProtocolError if its ordinal is neither the next one nor announced."""
        if ordinal != self.arrived + 1:
            raise ProtocolError(f"record {ordinal:,} is relayed, but the next one is {self.arrived + 1:,}")
        self.arrived = ordinal

    @property
    def is_spent(self) -> bool:
        """Whether no more should be sent of what is in no log, before the other side has dealt with some."""
        return self.spent - self.granted > self._buffer_bytes

    def deal(self, size: int) -> None:
        """Count bytes of unlogged notifications that have been handled."""
        self.dealt += size
        if self.dealt - self._credited > self._buffer_bytes // 4:
            self._credited = self.dealt
            self.tell(wire.Credit(self.dealt))

    def _close_frame(self) -> bytes:
        """Nothing more comes into the frame that is open. (The head of the next one is not known yet.)"""
        if self._count:
            self.out[self._head] = wire.relays_before(self._count, self._size)
            if self._size >= self.room // SMALL:
                self._borders[len(self.out)] = False
            self._count = self._size = 0
        return b""

    def send(self, frame: bytes) -> None:
        self._close_frame()
        super().send(frame)

    def take_out(self) -> bytes:
        self._close_frame()
        pieces: list[bytes | memoryview] = []
        for start, end in pairwise([*({0: False} | self._borders), len(self.out)]):
            if some := self.out[start:end]:
                pieces += some if self._borders.get(start) else wire.checked_pieces(some, self.frame_max)
        self._borders.clear()
        self.out.clear()
        return b"".join(pieces)

    def tell(self, message: wire.Control) -> None:
        for frame in wire.control_in_parts(message, self.frame_max):
            self.send(frame)

    # -- what it has relayed --

    def append_to(self, ledger: Ledger, records: list[tuple[bytes, int]], now: int) -> range:
        return ledger.arrivals(self.name, records, now)

    def took(self, new: int, number: int) -> None:
        self._counters.received += new
        neighbour = self._persistence.state.neighbours[self.name]
        if number and not self._persistence.is_logged:
            neighbour.received = number
        elif self._copies is not None and number > neighbour.received:
            self._persistence.note(Heard(self.name, number), self._copies.clock.now)

    def acknowledge(self, number: int) -> None:
        neighbour = self._persistence.state.neighbours.get(self.name)
        if neighbour is not None and number <= neighbour.received:  # unless its log has gone back meanwhile
            neighbour.safe = max(neighbour.safe, number)
        if number > self.acknowledged and not self.ended:
            self.acknowledged = number
            self.tell(wire.Received(number))

    def answer_duplicates(self, entries: Iterable[Entry[Fanout, bytes]]) -> None:
        """The neighbour is acknowledged, which is enough."""

    def forget(self, entries: Iterable[Entry[Fanout, bytes]]) -> None:
        """No identities are remembered of what a neighbour relays; only how far it has come."""
        for fanout, content, number in entries:
            if number and fanout is not None:
                self._give_back(content)

    def _give_back(self, content: bytes) -> None:
        if self._copies is not None and self._persistence.is_logged:
            self._copies.give_back(content)

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
        """Refuse nothing: the neighbour sends again all that is not acknowledged."""
        for _, _, content, _ in gone:
            self._give_back(content)
        neighbour = self._persistence.state.neighbours.get(self.name)
        if neighbour is None:
            pending.number = 0
            return []
        before = [
            each.number for each in earlier if each.origin is not None and each.origin.source == self.name
        ]
        written = [number for offset, _, _, number in pending.entries if offset != NO_OFFSET]
        pending.number = neighbour.received = max([neighbour.safe, *before, *written])
        link = self._links.get(self.name)
        if link is not None and link.session is not None:
            link.session.end(str(error))
        return []
