"""Sessions: connections of clients and neighbours that are known by name. A session ends with its connection.

`inflow` says when a session is read from. Notifications are for destinations: for the client of a session, or for
those of `destinations`, which outlive sessions.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fairlead.broker.publications import Entry, Pending
from fairlead.channels.waiting import Standing
from fairlead.errors import LogFull
from fairlead.model.order import Identity
from fairlead.network import wire
from fairlead.network.backpressure import Backpressure
from fairlead.network.inflow import Inflow
from fairlead.network.memory import Memory
from fairlead.network.peers import GONE, Peer
from fairlead.network.settings import Limits
from fairlead.network.tracing import Tracing

if TYPE_CHECKING:
    from fairlead.network.copies import Copies
    from fairlead.network.destinations import Durable, Link
    from fairlead.network.ledger import Ledger
    from fairlead.network.router import Fanout

__all__ = ["Counters", "Outgoing", "Session"]

log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Counters:
    """The counters of a node since its start."""

    published: int = 0
    delivered: int = 0
    relayed: int = 0
    received: int = 0
    duplicates: int = 0
    refused: int = 0
    dropped: int = 0
    rejected: int = 0
    expired: int = 0


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The state that all sessions and destinations of one broker share."""

    broker: str
    limits: Limits
    counters: Counters
    turns: list[Session]
    """The sessions that have something to send, or wait for their turn; the first has waited for longest."""
    backpressure: Backpressure
    memory: Memory
    tracing: Tracing
    copies: Copies | None = None
    """The arrivals by several ways, in a redundant network."""
    passes: Callable[[bytes], bool] | None = None
    """Whether a notification may be handed out for the first time, where some expire; None: each may."""
    standing: Callable[[bytes], Standing] | None = None
    """The standing of a delivery among all that waits for a slow client; None: each goes in its turn."""


class Session(ABC):
    """One connection that has introduced itself."""

    def __init__(
        self, outgoing: Outgoing, peer: Peer, name: str, inflow: Inflow, on_lost: Callable[[Any], None]
    ) -> None:
        self.peer, self.name = peer, name
        self._outgoing, self._on_lost = outgoing, on_lost
        self._counters, self._turns = outgoing.counters, outgoing.turns
        self._buffer_bytes = outgoing.limits.buffer_bytes
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
        """The state that decides what is read from it, and the frames that are held."""
        self.written = 0
        """The number of bytes handed out."""
        self.is_read = True
        self.has_spoken = False

    passing: ClassVar[frozenset[int]] = frozenset()
    """The kinds of frames that are handled past those that are held."""
    logs_relays: ClassVar[bool] = False
    """Whether what is logged of it are relays as they came, and not notifications."""

    @property
    @abstractmethod
    def source(self) -> str:
        """The neighbour that notifications come from; empty for a client."""

    @property
    def ended(self) -> bool:
        """Whether the connection has ended."""
        return self.inflow.has_ended

    @property
    def is_full(self) -> bool:
        """Whether nothing should be sent for now."""
        if self.waiting <= self._buffer_bytes:
            return False
        self.flush()
        self.starved = self.waiting > self._buffer_bytes
        return self.starved

    def flush(self) -> None:
        """Hand out what is to be sent."""
        if self.out and not self.inflow.has_ended:
            if (tracer := self._outgoing.tracing.tracer) is not None:
                tracer.flush()  # before the frames that follow from what it has traced
            frames = self.take_out()
            self.written += len(frames)
            self.peer.write(frames)
            self.waiting = self.peer.buffered()
            if self.waiting:
                self._outgoing.memory.grow(len(frames))

    @property
    def held_bytes(self) -> int:
        """The bytes that are pending for this session, in either direction."""
        return max(self.waiting, self.peer.buffered()) + self.inflow.size

    @property
    def gone_out(self) -> int:
        """The number of bytes that the other side, or the operating system for it, has accepted."""
        return self.written - self.peer.buffered()

    def take_out(self) -> bytes:
        """Take all pending output."""
        frames = b"".join(self.out)
        self.out.clear()
        return frames

    def send(self, frame: bytes) -> None:
        """Send a frame with the next flush."""
        if not self.out:
            self._turns.append(self)
        self.out.append(frame)
        self.waiting += len(frame)

    def tell(self, message: wire.Control) -> None:
        """Send a message with the next flush."""
        self.send(wire.control(message))

    def wait_for_turn(self) -> None:
        """Schedule the session for the next flush: it has more work than one turn allows."""
        if not self.is_due:
            self.is_due = True
            self._turns.append(self)

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
        """The outboxes that are served over this session."""

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
        """New publications of this session were committed, the last one with this number."""

    @abstractmethod
    def acknowledge(self, number: int) -> None:
        """All up to this number is synced, and sent on."""

    @abstractmethod
    def answer_duplicates(self, entries: Iterable[Entry[Fanout, bytes]]) -> None:
        """These came again."""

    @abstractmethod
    def forget(self, entries: Iterable[Entry[Fanout, bytes]]) -> None:
        """Forget publications that are in no log: publishing them again is no duplicate."""

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
            self.lost()

    def lost(self) -> None:
        """The connection has ended, or ends now."""
        if self.ended:
            return
        self.inflow.end()
        if self.out:
            if (tracer := self._outgoing.tracing.tracer) is not None:
                tracer.flush()
            self.peer.write(self.take_out())
        self.peer.close()
        self._on_lost(self)
        self.peer = GONE  # which holds the session: what has ended is freed at once
