"""The connection of a client: its deliveries, its backlog when it is slow, and the answers to its publications."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from fairlead.broker.publications import NO_OFFSET, Entry, Pending
from fairlead.broker.published import Published
from fairlead.channels.waiting import Standing, Waiting
from fairlead.delivery.discovery import Discovered, What
from fairlead.errors import FairleadError, Forbidden, LogFull, NotThere
from fairlead.filters.filter import Filter
from fairlead.model.order import Identity, identity_of
from fairlead.model.packed import unpack
from fairlead.network import wire
from fairlead.network.backpressure import Stuck
from fairlead.network.inflow import Event, Inflow
from fairlead.network.outflow import Outflow, Step, To
from fairlead.network.peers import Peer
from fairlead.network.relays import Relays
from fairlead.network.sessions import Outgoing, Session
from fairlead.network.settings import DISCONNECT, DROP

if TYPE_CHECKING:
    from fairlead.network.destinations import Durable, Link, Recipient
    from fairlead.network.ledger import Ledger, Willed
    from fairlead.network.router import Fanout
    from fairlead.rules import Seam

__all__ = ["ClientSession", "standing_by"]

log: Final = logging.getLogger(__name__)

ANSWERS_MAX: Final = 4
"""A bound on answers that wait for a client, in multiples of what may be in flight to it."""
FRAME_HEAD: Final = 5
"""The bytes of a frame before its payload."""
UNHEARD: Final = 4
"""So many times as long, a client may block others that is not read from, and could not be heard."""


class ClientSession(Session):
    """A connected client."""

    @property
    def connection(self) -> Session:
        """Over which it is reached."""
        return self

    def __str__(self) -> str:
        return f"the client {self.name!r}"

    def __init__(
        self,
        outgoing: Outgoing,
        peer: Peer,
        name: str,
        policy: str,
        *,
        identities: Published,
        on_lost: Callable[[ClientSession], None],
    ) -> None:
        super().__init__(outgoing, peer, name, Inflow("client"), on_lost)
        self._identities = identities
        """The identities of what was published at this broker."""
        self.policy = policy or DROP
        self.client = f"c:{name}"
        """The broker's name for it."""
        self.version = wire.VERSION
        """The version of the protocol that is spoken with it."""
        self.opened_as = 0
        """The how-manieth of a client that moves."""
        self.admitted = 0
        """The number of its publications that were admitted, and are not in the log of decisions yet."""
        self.durables: dict[str, Durable] = {}
        self.will: Willed | None = None
        """The notification that is published when it is lost."""
        self.listens: dict[str, tuple[Filter, Filter, bool]] = {}
        self.discoveries: dict[str, tuple[What, Filter, Filter, Discovered]] = {}
        """The questions whose changed answers it gets, with the last answers."""
        self._filter_sizes: dict[tuple[str, str], int] = {}
        self.filter_bytes = 0
        """The size of the filters that end with the connection."""
        standing = outgoing.standing
        self.backlog: deque[bytes] | Waiting[bytes] = deque() if standing is None else Waiting(standing)
        self.backlog_bytes = 0
        self.dropped = 0
        self.outflow = Outflow("client", To.OPEN)
        """The state that decides what becomes of notifications for it."""
        self.stuck = Stuck()

    def deliver(self, offset: int, recipient: Recipient, packed: bytes) -> None:
        """Deliver to a subscription that is not durable."""
        if offset != NO_OFFSET and not self.ended and (tracer := self._outgoing.tracing.tracer) is not None:
            tracer.notified(self.client, packed, recipient.subscriptions)
        self._counters.delivered += 1
        size = len(packed)
        head = recipient.heads.get(size) or recipient.head_of(size)
        if self.outflow.queues or (self.waiting > self._buffer_bytes and self.is_full):
            self._queue(head + packed)
            return
        if not self.out:
            self._turns.append(self)
        self.out += (head, packed)
        self.waiting += size

    def deliver_all(self, recipient: Recipient, relays: Relays) -> None:
        """Deliver several that are in no log."""
        each, size, out = relays.each, relays.size, self.out
        if self.outflow.queues or self.waiting + size > self._buffer_bytes:
            for packed in each:
                self.deliver(NO_OFFSET, recipient, packed)
            return
        if not out:
            self._turns.append(self)
        heads = recipient.heads
        for packed in each:
            out += (heads.get(len(packed)) or recipient.head_of(len(packed)), packed)
        self._counters.delivered += relays.count
        self.waiting += size

    def deliver_records(self, offsets: Sequence[int], recipient: Recipient, relays: Relays) -> None:
        """Deliver several records of the log."""
        if not self.ended and (tracer := self._outgoing.tracing.tracer) is not None:
            for packed in relays.each:
                tracer.notified(self.client, packed, recipient.subscriptions)
        self.deliver_all(recipient, relays)

    def _queue(self, frame: bytes) -> None:
        """The client is slow."""
        if self.ended:
            return
        self.starved = True
        self.outflow.on(Step.QUEUE)
        self.backlog.append(frame)
        self.backlog_bytes += len(frame)
        self._outgoing.memory.grow(len(frame))
        if not self._has_too_much:
            return
        if self.policy == DROP:
            while self._has_too_much:
                self._discard()
                self.dropped += 1
                self._counters.dropped += 1
        elif self.policy == DISCONNECT:
            waiting = len(self.backlog)
            self.backlog.clear()
            self.end(f"too slow: {waiting:,} notifications were waiting", is_final=True)
        else:
            self._outgoing.backpressure.block(self)

    @property
    def held_bytes(self) -> int:
        return super().held_bytes + self.backlog_bytes + self.filter_bytes

    def hold_filter(self, kind: str, id: str, size: int = 0) -> None:
        """A filter of the client takes so much memory from now on; 0, when it is gone."""
        self.filter_bytes += size - self._filter_sizes.pop((kind, id), 0)
        if size:
            self._filter_sizes[kind, id] = size

    @property
    def _has_too_much(self) -> bool:
        limits = self._outgoing.limits
        return len(self.backlog) > limits.queue or self.backlog_bytes > limits.queue_bytes

    def _next(self) -> bytes:
        frame = self.backlog.popleft()
        self.backlog_bytes -= len(frame)
        return frame

    def _discard(self) -> None:
        """Discard one: the one that the channel of the newest says, or the oldest."""
        backlog = self.backlog
        frame = backlog.popleft() if isinstance(backlog, deque) else backlog.discard()
        self.backlog_bytes -= len(frame)

    def drained(self) -> None:
        """There is room again."""
        while self.backlog and not self.is_full:
            self._tell_dropped()
            frame = self._next()
            passes = self._outgoing.passes
            if passes is None or passes(wire.parse_deliver(frame[FRAME_HEAD:])[2]):
                self.send(frame)
        if not self.backlog:
            self._tell_dropped()
            self.outflow.on(Step.EMPTY)
            self._outgoing.backpressure.unblock(self)
        if self.inflow.is_choked and not self.is_full:
            self.inflow.on(Event.UNCHOKE)
            self.follow_inflow()

    def look_at_answers(self) -> None:
        """Block a client that sends requests and does not read the responses until it has read them."""
        if self.waiting > ANSWERS_MAX * self._buffer_bytes:
            self.inflow.on(Event.CHOKE)
            self.starved = True

    @property
    def source(self) -> str:
        return ""

    def outboxes(self) -> Sequence[Durable | Link]:
        return list(self.durables.values())

    def look_after(self) -> None:
        """End a client that blocks publishers and shows no progress. One that is connected and slow sends
        pings."""
        seconds = self._outgoing.limits.block_seconds * (1 if self.is_read else UNHEARD)
        is_silent, self.has_spoken = not self.has_spoken, False
        if self.stuck.has_lasted(seconds, self.gone_out, is_stuck=is_silent):
            reason = (
                f"it has blocked publishers for {seconds} s, and neither received nor sent anything meanwhile"
            )
            self.end(f"{reason}; {len(self.backlog):,} notifications were waiting", is_final=True)

    def answer_error(self, number: int, error: Exception) -> None:
        """Answer a request with the reason why not. A mistake of ours is one, too: or it would be repeated."""
        self._counters.refused += 1
        if isinstance(error, FairleadError):
            reason = str(error)
            log.info("%s is refused: %s", self, reason)
        else:
            reason = f"the broker has failed to do this: {type(error).__name__}: {error}"
            log.error("a request of %s has failed: %s", self, reason, exc_info=error)
        self.tell(
            wire.Refused(
                number,
                reason,
                is_missing=isinstance(error, NotThere),
                is_forbidden=isinstance(error, Forbidden),
            )
        )

    def drop_backlog(self) -> None:
        """Discard the backlog, which was admitted by other rights than the client has now."""
        count = len(self.backlog)
        if count:
            self.backlog.clear()
            self.backlog_bytes = 0
            self.dropped += count
            self._counters.dropped += count
            self.drained()

    def missed(self, count: int) -> None:
        """Notifications that may have been for this client were lost before they arrived here."""
        self.dropped += count
        if not self.backlog and not self.is_full:
            self._tell_dropped()

    def _tell_dropped(self) -> None:
        """Tell the client what it misses, before what comes now."""
        if self.dropped:
            self.tell(wire.Dropped(self.dropped))
            self.dropped = 0

    # -- what it publishes --

    def append_to(self, ledger: Ledger, records: list[tuple[bytes, int]], now: int) -> range:
        return ledger.publications_of([packed for packed, _ in records], now)

    def took(self, new: int, number: int) -> None:
        self._counters.published += new

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
                self._identities.forget(identity_of(unpack(packed)))

    def refuse(self, entries: Iterable[Entry[Fanout, bytes]], reason: str) -> None:
        if not self.ended:
            for number in filter(None, dict.fromkeys(each[2] for each in entries)):
                self._counters.refused += 1
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


def standing_by(seam: Seam) -> Callable[[bytes], Standing] | None:
    """The standing of a frame with a delivery, as the channels say; None: they say nothing of it."""
    if not seam.channels.arrange:
        return None
    return lambda frame: seam.standing(unpack(wire.parse_deliver(frame[FRAME_HEAD:])[2]))
