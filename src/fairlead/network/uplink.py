"""The connection of a client to its broker, over any number of sockets: when one is lost, the next one replaces
it.

An uplink dials the broker until the client's patience is over, and again after a lost connection. It buffers
outgoing frames for one write per turn of the event loop, numbers requests, and awaits their answers: one whose
answer was lost with a connection is sent again over the next one.

Of several brokers, the uplink dials the next one where one cannot be reached; a client that has a position in the
log of its broker stays with that one.

The client supplies six functions: `welcomed` (a connection stands), `lost` (it stands no longer), `received` (a
frame has come), `outgoing` (messages for the next write), `failed` (there will be no connection any more), `stays`
(whether it has to stay with its broker).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead.errors import ConnectionEnded, FairleadError, NotThere, ValueRefused
from fairlead.network import wire
from fairlead.network.addresses import Address
from fairlead.network.channel import Channel, NoChannel, call, wants_certificate
from fairlead.network.publications import fail

__all__ = ["Handlers", "Uplink"]

log: Final = logging.getLogger(__name__)

BACKOFF_S: Final = (0.05, 2.0)
HINT: Final = "is a broker running there? `fairlead broker run` starts one"
WORDLESS_MAX: Final = 3
"""So many calls in a row that end without a word after the handshake of TLS are an answer."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """The client's side of an uplink."""

    welcomed: Callable[[wire.Welcome], None]
    lost: Callable[[], None]
    received: Callable[[Channel, int, bytes], None]
    outgoing: Callable[[], Iterable[wire.Control]]
    failed: Callable[[FairleadError], None]
    stays: Callable[[], bool]


class Uplink:
    """The connection. `connected` is set while there is one, `failure` when there will be none."""

    def __init__(
        self,
        addresses: Sequence[Address],
        hello: Callable[[], wire.Hello],
        patience_s: float | None,
        handlers: Handlers,
    ) -> None:
        self._addresses, self._at = addresses, 0
        self.patience_s = patience_s
        self._hello, self._handlers = hello, handlers
        self.broker = ""
        self.version = wire.VERSION
        """The version of the protocol that is spoken with it."""
        """The name of the broker; empty until it has answered once."""
        self.channel: Channel | None = None
        self.connected = asyncio.Event()
        self.failure: FairleadError | None = None
        self.frame_max = wire.FRAME_MAX
        self.out_bytes = 0
        """The size of the frames that wait for the next write."""
        self._out: list[bytes] = []
        self._is_scheduled = False
        self._task: asyncio.Task[None] | None = None
        self._numbers = 0
        self._requests: dict[int, asyncio.Future[Any]] = {}

    @property
    def address(self) -> Address:
        """The broker that it is connected to, or dials."""
        return self._addresses[self._at]

    @property
    def has_others(self) -> bool:
        """Whether there is more than one address."""
        return len(self._addresses) > 1

    def go_to(self, addresses: Sequence[Address]) -> None:
        """End the connection, after what was sent, and dial others."""
        self._addresses, self._at = addresses, 0
        if self.channel is not None:
            self.flush()
            self.connected.clear()
            self.channel.close()

    # -- connecting --------------------------------------------------------------------------------------------

    def open(self, context: ssl.SSLContext | None) -> None:
        """Begin to dial."""
        self._task = asyncio.get_running_loop().create_task(self._stay_connected(context))

    async def close(self) -> None:
        """End the connection, after what was sent, and dial no more."""
        channel = self.channel
        if channel is not None:
            self.flush()
            channel.close()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if channel is not None:
            await channel.ended()

    def kill(self) -> None:
        """End the connection as a killed process does: nothing more is sent."""
        if self.channel is not None:
            self.channel.abort()
        if self._task is not None:
            self._task.cancel()

    async def until(self, reached: asyncio.Event) -> None:
        """Wait for an event that needs a connection; the failure is raised where there will be none."""
        self.check_open()
        if not reached.is_set() and self._task is not None:
            waiting = asyncio.ensure_future(reached.wait())
            try:
                await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
            self.check()

    def fail(self, error: FairleadError) -> None:
        """Give up: every request fails, and the client learns the reason."""
        if self.failure is None:
            self.failure = error
            for request in self._requests.values():
                fail(request, error)
            self._requests.clear()
            self._handlers.failed(error)

    def welcome(self, channel: Channel, welcome: wire.Welcome) -> None:
        """The broker has answered on a new connection."""
        self.channel, self.broker, self.frame_max = channel, welcome.broker, welcome.frame_max
        self.version = welcome.version
        if not channel.met.done():
            channel.met.set_result(True)
        self._out.clear()
        self.connected.set()
        self._handlers.welcomed(welcome)
        self.flush()

    async def _stay_connected(self, context: ssl.SSLContext | None) -> None:
        try:
            await self._dial(context)
        except Exception as error:  # nobody waits for ever for a connection that will not come
            log.exception("the client cannot go on")
            self.fail(ConnectionEnded(f"the client cannot go on: {error!r}"))

    async def _dial(self, trusted: ssl.SSLContext | None) -> None:
        """Connect, again and again, until the client fails or is closed."""
        loop, patience = asyncio.get_running_loop(), self.patience_s
        least, most = BACKOFF_S
        wait, alone_since = least, loop.time()
        wordless = finals = 0
        while True:
            reason = ""
            context = trusted if self.address.secure else None
            try:
                left = None if patience is None else alone_since + patience - loop.time()
                channel = await call(self.address, context, self._hello(), self._make_channel, left)
                await asyncio.wait([channel.closed])  # cancelling this task leaves the future alone
                if channel.is_silent:
                    log.warning("%s sends nothing any more: reconnecting", self.address)
            except NoChannel as none:
                reason = none.reason
                wordless = wordless + 1 if none.wordless and context is not None else 0
                finals = finals + 1 if none.final is not None else 0
                if none.final is not None and finals >= len(self._addresses):
                    self.fail(none.final)
                elif wordless >= WORDLESS_MAX * len(self._addresses):
                    self.fail(wants_certificate(self.address, reason))
            if self.channel is not None:
                self.channel = None
                self._disconnected()
                wait, alone_since = least, loop.time()
            if self.failure is not None:
                return
            if patience is not None and loop.time() - alone_since >= patience:
                why = f": {reason}" if reason else ""
                dialled = [self.address] if self._is_bound() else self._addresses
                where = " and ".join(map(str, dialled))
                self.fail(ConnectionEnded(f"{where} cannot be reached{why}", hint=HINT))
                return
            if self._has_dialled_all():
                await asyncio.sleep(wait * random.uniform(0.5, 1.0))
                wait = min(2 * wait, most)

    def _is_bound(self) -> bool:
        """Whether the client has a position in the log of a broker, which another broker does not know."""
        return bool(self.broker) and self._handlers.stays()

    def _has_dialled_all(self) -> bool:
        """Go on to the next broker; whether that is the first one again."""
        if not self._is_bound():
            self._at = (self._at + 1) % len(self._addresses)
            return self._at == 0
        return True

    def _disconnected(self) -> None:
        self.connected.clear()
        self._handlers.lost()

    def _make_channel(self) -> Channel:
        return Channel(self._handlers.received, self._spoiled, self.patience_s)

    def _spoiled(self, error: FairleadError) -> None:
        """The other side has sent something that is no frame of this protocol."""
        if not self.broker:
            error = ConnectionEnded(f"{self.address} is no broker: {error}")
        self.fail(error)

    # -- checks ------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it dials, or has."""
        return self._task is not None

    def check(self) -> None:
        """Raise the failure, where there is one."""
        if self.failure is not None:
            raise self.failure

    def check_open(self) -> None:
        """Raise where the client failed, or was never opened."""
        self.check()
        if self._task is None:
            raise ConnectionEnded("the client is not open", hint="use it in a `with` block")

    def check_size(self, size: int) -> None:
        """ValueRefused where the broker takes no frame of this size."""
        if size > self.frame_max:
            raise self.too_long(size)

    def too_long(self, size: int) -> ValueRefused:
        """The refusal of a frame of this size."""
        return ValueRefused(f"a frame of {size:,} bytes; the broker takes {self.frame_max:,} at most")

    # -- frames ------------------------------------------------------------------------------------------------

    def next_number(self) -> int:
        """A number for a request or a publication; one connection's numbers rise."""
        self._numbers += 1
        return self._numbers

    def send(self, frame: bytes) -> None:
        """Send a frame with the next write."""
        self._out.append(frame)
        self.out_bytes += len(frame)
        self.schedule()

    def tell(self, message: wire.Control) -> None:
        """Send a message with the next write."""
        self.send(wire.control(message))

    def schedule(self) -> None:
        """Write before the next turn of the event loop."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write now."""
        self._is_scheduled = False
        self._out += map(wire.control, self._handlers.outgoing())
        frames, self._out, self.out_bytes = self._out, [], 0
        if frames and self.channel is not None:
            self.channel.write(b"".join(frames))

    # -- requests ----------------------------------------------------------------------------------------------

    @property
    def has_requests(self) -> bool:
        """Whether an answer is awaited."""
        return bool(self._requests)

    async def request(
        self,
        make: Callable[[int], wire.Control],
        *,
        again: bool = True,
        sent: Callable[[], None] = lambda: None,
    ) -> Any:
        """The broker's answer to the message that `make` makes of a number.

        If the connection is lost before the answer comes, the request is sent `again` over the next one. `sent` is
        called whenever it has been sent.
        """
        while True:
            await self.until(self.connected)
            channel = self.channel
            if channel is None:
                continue  # lost again since
            number = self.next_number()
            frame = wire.control(make(number))
            self.check_size(len(frame) - 4)
            answer = self._requests[number] = asyncio.get_running_loop().create_future()
            self.send(frame)
            sent()
            try:
                await asyncio.wait([answer, channel.closed], return_when=asyncio.FIRST_COMPLETED)
                if answer.done():
                    return answer.result()
            finally:
                self._requests.pop(number, None)
            self.check()
            if not again:
                raise ConnectionEnded("the connection was lost before the broker answered")
            if self.channel is channel:  # nobody else has noticed yet
                self._disconnected()

    async def request_end(
        self, make: Callable[[int], wire.Control], *, sent: Callable[[], None] = lambda: None
    ) -> None:
        """Request that something ends. If a first answer was lost, that it has ended is an answer."""
        times = 0

        def counted(number: int) -> wire.Control:
            nonlocal times
            times += 1
            return make(number)

        try:
            await self.request(counted, sent=sent)
        except NotThere:
            if times == 1:
                raise

    def answer(self, number: int, answer: Any) -> None:
        """The broker has answered a request."""
        request = self._requests.pop(number, None)
        if request is not None and not request.done():
            request.set_result(answer)

    def refuse(self, number: int, error: FairleadError) -> bool:
        """The broker has refused a request; whether there is one with that number."""
        if number not in self._requests:
            return False
        fail(self._requests.pop(number), error)
        return True
