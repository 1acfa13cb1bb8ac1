"""The connection with a neighbour: frames of several notifications, credit, and how arrivals are answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from fairlead.broker.publications import NO_OFFSET, Entry, Pending
from fairlead.errors import LogFull
from fairlead.model.order import Identity
from fairlead.network import wire
from fairlead.network.inflow import Inflow
from fairlead.network.peers import Peer
from fairlead.network.persistence import Persistence
from fairlead.network.sessions import Outgoing, Session

if TYPE_CHECKING:
    from fairlead.network.destinations import Durable, Link
    from fairlead.network.ledger import Ledger
    from fairlead.network.router import Fanout

__all__ = ["LinkSession"]

RELAYS_BYTES: Final = 1 << 16
"""How long a frame of several notifications becomes: what is read at once should hold a few."""


class LinkSession(Session):
    """A connection to a neighbour. `opened` says whether this side called."""

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
        self.parts = wire.Parts()
        self.room = min(RELAYS_BYTES, wire.relay_room(self.frame_max))
        """How many bytes of several notifications go into one frame."""
        self.spent = self.granted = 0
        """Bytes of notifications in no log: that were sent, and that the other side has dealt with."""
        self.dealt = self._credited = 0
        """The same of what came: that has been dealt with here, and that the other side knows of."""
        self._head = self._count = self._size = 0
        """Of the frame that is open: where its head will stand, how many notifications it has, and their size."""
        self._borders: list[int] = []
        """Where frames of several begin: a frame that is in one checked piece is not copied together again."""

    passing = frozenset({wire.CONTROL, wire.PART})
    """Of a neighbour, only notifications wait: what else it says changes nothing about where they go."""

    @property
    def source(self) -> str:
        return self.name

    def outboxes(self) -> Sequence[Durable | Link]:
        link = self._links.get(self.name)
        return [link] if link is not None and link.session is self else []

    def drained(self) -> None:
        """What waits for the neighbour is in its outbox."""

    def look_at_answers(self) -> None:
        """What a neighbour is answered is bounded by what it relays."""

    def relay(self, body: bytes, count: int = 1) -> None:
        """Send notifications that are in no log, in one frame with those before them, if there is room in it."""
        if not self._count or self._size + len(body) > self.room:
            super().send(self._close_frame())
            self._head = len(self.out) - 1
            self._borders.append(self._head)
        size = len(body)
        self.out.append(body)
        self._count += count
        self._size += size
        self.waiting += size
        self.spent += size

    @property
    def is_spent(self) -> bool:
        """Whether no more should be sent of what is in no log, before the other side has dealt with some."""
        return self.spent - self.granted > self._buffer_bytes

    def deal(self, size: int) -> None:
        """So many bytes of what came and is in no log have been dealt with."""
        self.dealt += size
        if self.dealt - self._credited > self._buffer_bytes // 4:
            self._credited = self.dealt
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
        borders = [0, *self._borders[1:], len(self.out)]
        pieces: list[bytes | memoryview] = []
        for start, end in pairwise(borders):
            pieces += wire.checked_pieces(self.out[start:end], self.frame_max)
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
        if number and not self._persistence.is_logged:
            self._persistence.state.neighbours[self.name].received = number

    def acknowledge(self, number: int) -> None:
        neighbour = self._persistence.state.neighbours.get(self.name)
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
