"""A client of the broker in its own process: the other end of a socket, without the socket.

The broker treats it like any client: it is counted, it may be too slow, and its queue is bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from fairlead.errors import AccessRefused, BrokerRefused, ConnectionEnded, FairleadError, NotThere
from fairlead.model import Instant, Notification
from fairlead.model.order import identity_of
from fairlead.model.packed import pack
from fairlead.network import wire
from fairlead.network.destinations import Durable
from fairlead.network.server import Server, micros
from fairlead.network.sessions import Session
from fairlead.network.subscriptions import Gap
from fairlead.security import Principal
from fairlead.security.principals import NOBODY

__all__ = ["Arrival", "Desk", "Dropped", "Gapped"]

HEAD: Final = 5
"""The bytes of a frame before its payload; between objects of one process only the payload is handed on."""
ANY_LENGTH: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class Arrival:
    """A delivered notification, packed, and its offset in the broker's log; 0: best effort."""

    offset: int
    packed: bytes
    attempt: int = 1
    retained: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """The number of notifications that were dropped here, because they were not read in time."""

    count: int


@dataclass(frozen=True, slots=True)
class Gapped:
    """The parts of the past that are missing, in words."""

    reasons: tuple[str, ...]


Arrived: TypeAlias = Arrival | Dropped | Gapped


class Desk:
    """One client session of a running broker. ProtocolError if the broker takes no more clients."""

    def __init__(
        self, server: Server, policy: str = "", principal: Principal = NOBODY, *, name: str = ""
    ) -> None:
        self._server = server
        self._frames = wire.Frames(ANY_LENGTH)
        self._numbers = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._unstored: dict[int, asyncio.Future[Any]] = {}
        self._arrived: deque[Arrived] = deque()
        self._waiting = 0
        self._is_behind = False
        self._news = asyncio.Event()
        self._may_publish = asyncio.Event()
        self._may_publish.set()
        self.ended: str | None = None
        """Why it is over, once it is."""
        high = server.node.limits.buffer_bytes // 2
        self._high, self._low = high, high // 4
        self.session: Session = server.node.greet(
            self, wire.Hello(wire.VERSION, "client", name, policy), micros(), principal
        )
        server.schedule()

    # -- the node's side ---------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        for kind, payload in self._frames.feed(data):
            if kind == wire.DELIVER:
                offset, head, packed = wire.parse_deliver(payload)
                head, is_retained = wire.retained_in(head)
                self._put(Arrival(offset, packed, wire.attempt_in(head)[1], is_retained))
            elif kind == wire.STORED:
                self._stored(wire.parse_numbered(payload)[0])
            else:
                self._on_message(wire.parse_control(payload))

    def buffered(self) -> int:
        return self._waiting

    def close(self) -> None:
        self._end("the broker has ended the session")

    def pause(self) -> None:
        self._may_publish.clear()

    def resume(self) -> None:
        self._may_publish.set()

    def _on_message(self, message: wire.Control) -> None:
        match message:
            case wire.Done(number):
                self._answer(number, None)
            case wire.Response(number, answer):
                self._answer(number, answer)
            case wire.Refused(0, reason) | wire.Bye(reason):
                self._end(reason)
            case wire.Refused(number, reason, _, is_missing, is_forbidden):
                kind = AccessRefused if is_forbidden else NotThere if is_missing else BrokerRefused
                self._answer(number, kind(reason))
            case wire.Dropped(count):
                self._put(Dropped(count))
            case wire.Gapped(_, gaps):
                found = (Gap(broker, None if begins < 0 else Instant(begins)) for broker, begins in gaps)
                self._put(Gapped(tuple(map(str, found))))
            case _:
                pass

    def _put(self, arrived: Arrived) -> None:
        self._arrived.append(arrived)
        self._waiting += _size(arrived)
        self._is_behind = self._is_behind or self._waiting > self._high
        self._news.set()

    def _stored(self, number: int) -> None:
        for each in [each for each in self._unstored if each <= number]:
            self._answer(each, None)

    def _answer(self, number: int, answer: Any) -> None:
        future = self._answers.pop(number, None) or self._unstored.pop(number, None)
        if future is None or future.done():
            return
        if isinstance(answer, FairleadError):
            future.set_exception(answer)
            future.exception()  # a waiting caller gets the error; without one, it is not logged
        else:
            future.set_result(answer)

    def _end(self, reason: str) -> None:
        if self.ended is None:
            self.ended = reason
            self._may_publish.set()
            self._news.set()
            for number in [*self._answers, *self._unstored]:
                self._answer(number, ConnectionEnded(reason))

    # -- the gateway's side -----------------------------------------------------------------------------------

    def begin(self, make: Callable[[int], wire.Control]) -> asyncio.Future[Any]:
        """Send a request to the broker at once; the response is a future."""
        number, answer = self._numbered(self._answers)
        self.send(make(number))
        return answer

    async def request(self, make: Callable[[int], wire.Control]) -> Any:
        """The broker's response; BrokerRefused has its reason."""
        return await self.begin(make)

    def send(self, message: wire.Control) -> None:
        """Send the broker a message without a response."""
        self._hand_over([(wire.CONTROL, wire.control(message)[HEAD:])])

    async def publish(self, notifications: Sequence[Notification]) -> list[bool]:
        """Publish all of them, and return when their records are synced: which of them are duplicates.

        Several are one transaction: those that are new are published together, or none is, whatever fails.
        BrokerRefused has the reason why none.
        """
        await self._may_publish.wait()
        known: set[tuple[str, str]] = set()
        repeated, packed = [], []
        for notification in notifications:
            identity = identity_of(notification)
            repeated.append(identity in known or self._server.node.broker.knows(notification))
            known.add(identity)
            packed.append(pack(notification))
        if packed:
            number, answer = self._numbered(self._unstored)
            if len(packed) == 1:
                frame = wire.PUBLISH, wire.publish(number, packed[0])[HEAD:]
            else:
                whole = wire.Transaction(packed, new_only=True)
                frame = wire.TRANSACTION, wire.transaction(number, whole)[HEAD:]
            self._hand_over([frame])
            await answer
        return repeated

    def durable(self, name: str) -> Durable | None:
        """The broker's own view of the durable subscriber that this client is."""
        found = self._server.node.durables.get(name)
        return found if found is not None and found.session is self.session else None

    async def retained(self, filter: str) -> list[bytes]:
        """The retained values that a filter matches, packed. BrokerRefused where the broker does not take it."""
        answer = self.begin(lambda number: wire.Subscribe(number, "retained", filter, retained=True))
        found: list[Arrived] = []
        while not answer.done() or self._arrived:
            if self._arrived:
                found += await self.arrivals(ANY_LENGTH)
                continue
            self._check()
            self._news.clear()
            news = asyncio.ensure_future(self._news.wait())
            await asyncio.wait([answer, news], return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
        answer.result()
        return [each.packed for each in found if isinstance(each, Arrival) and each.retained]

    async def arrivals(self, room: int) -> list[Arrived]:
        """The deliveries that have arrived, up to so many bytes but at least one. ConnectionEnded when none will
        follow."""
        while not self._arrived:
            self._check()
            self._news.clear()
            await self._news.wait()
        taken: list[Arrived] = []
        while self._arrived and room > 0:
            taken.append(self._arrived.popleft())
            size = _size(taken[-1])
            room -= size
            self._waiting -= size
        if self._is_behind and self._waiting <= self._low:
            self._is_behind = False
            if not self.session.ended:
                self._server.node.drained(self.session)
                self._server.schedule()
        return taken

    @property
    def is_busy(self) -> bool:
        """Whether a caller waits for a response."""
        return bool(self._answers or self._unstored)

    def leave(self) -> None:
        """End the session."""
        self._end("the client has left")
        self._server.node.lost(self.session)
        self._server.schedule()

    def _numbered(self, where: dict[int, asyncio.Future[Any]]) -> tuple[int, asyncio.Future[Any]]:
        self._check()
        self._numbers += 1
        answer = where[self._numbers] = asyncio.get_running_loop().create_future()
        return self._numbers, answer

    def _hand_over(self, frames: Iterable[tuple[int, bytes]]) -> None:
        if self.ended is None:
            self._server.node.receive(self.session, frames, micros())
            self._server.schedule()

    def _check(self) -> None:
        if self.ended is not None:
            raise ConnectionEnded(self.ended)


def _size(arrived: Arrived) -> int:
    return len(arrived.packed) if isinstance(arrived, Arrival) else 0
