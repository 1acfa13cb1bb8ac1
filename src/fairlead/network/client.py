"""The asynchronous client of a broker.

    async with connect("fairlead://localhost:7400", name="desk") as client:
        await client.publish({"symbol": "IBM", "price": 101.5})
        async for notification in client.subscribe('price > 100', durable="desk"):
            ...

It reconnects by itself: what has not been acknowledged is published again (the broker knows it by its id), and
subscriptions go on. To a durable subscriber every notification is delivered exactly once within this process, and
accepted when the next one is asked for; after a crash, from the first one that had not been accepted.

Subscriptions with one durable name are one subscriber's, with one place in the broker's log: take from all of
them, or close them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import ssl
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from fairlead.errors import BrokerRefused, ConnectionEnded, FairleadError, ProtocolError, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse, render
from fairlead.model import Instant, Notification, Record
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.addresses import Address, Tls
from fairlead.network.contexts import client_context

if TYPE_CHECKING:
    from fairlead.correlation import fair, patterns
    from fairlead.correlation.patterns.building import Expression
    from fairlead.network.detection import Detection

__all__ = ["Client", "Delivery", "Subscription", "connect"]

log: Final = logging.getLogger(__name__)

Publishable: TypeAlias = Mapping[str, Any] | tuple[Any, ...] | Notification
Clock: TypeAlias = Callable[[], Instant]

BACKOFF_S: Final = (0.05, 2.0)
IN_FLIGHT: Final = 10_000
"""How many publications may wait for their acknowledgement; beyond, publishing waits."""
QUEUE: Final = 10_000
"""How many notifications wait in this process before it stops reading; then the broker's policy decides."""


def connect(
    url: str = "fairlead://127.0.0.1:7400",
    *,
    name: str | None = None,
    policy: str = "",
    tls: Tls | None = None,
    patience: float | None = 30.0,
    clock: Clock | None = None,
) -> Client:
    """A client of the broker at this address; it connects when it is entered.

    `name` is the producer of what it publishes. `policy` is what the broker does when this client is slow:
    "drop" the oldest, "block" those who publish, or "disconnect" it. `patience` is how many seconds it bears
    without a broker before what waits for one fails; None: for ever. `clock` stamps what is published without a
    time, and says to patterns how time passes where nothing happens; without it, time passes with events only.
    """
    return Client(url, name=name, policy=policy, tls=tls, patience=patience, clock=clock)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification as it was delivered, with the ids of the subscriptions that match."""

    notification: Notification
    subscriptions: tuple[str, ...]
    durable: str = ""
    place: int = 0
    _of: Subscription | None = field(default=None, repr=False, compare=False)

    async def accept(self) -> None:
        """It is dealt with, and will not come again."""
        if self._of is not None:
            self._of._dealt_with(self)

    async def reject(self, *, again: bool = False) -> None:
        """It is not dealt with: it comes again, after others, or is done with all the same."""
        if self._of is not None:
            self._of._dealt_with(self, rejected=True, again=again)


@dataclass(slots=True)
class _Durable:
    """What this process knows of a durable subscriber."""

    seen: int = 0
    """The last place that came."""
    open: dict[int, int] = field(default_factory=dict)
    """Places that are not dealt with, and by how many subscriptions they still have to be."""
    again: set[int] = field(default_factory=set)


class Subscription:
    """What one filter matches: iterate over it, or wait for `get()`.

    Leaving it as a context, or `close()`, takes it back; a durable one stays at the broker until `client.forget`.
    The last notification is dealt with then, unless an error was raised: who failed on it gets it again.
    """

    def __init__(self, client: Client, id: str, filter: Filter, durable: str, since: int | None) -> None:
        self._client = client
        self.id, self.filter, self.durable, self.since = id, filter, durable, since
        self.dropped = 0
        """How many deliveries the broker has left out, because this client was slow."""
        self._queue: deque[Delivery] = deque()
        self._arrived = asyncio.Event()
        self._last: Delivery | None = None
        self._ended: FairleadError | None = None
        self._installed: asyncio.Future[None] | None = None
        self._seen = 0
        """The last place that came, of what is in the past."""

    @property
    def waiting(self) -> int:
        """How many deliveries have come and not been taken."""
        return len(self._queue)

    async def __aenter__(self) -> Subscription:
        await self.installed()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._last = None
        await self.close()

    async def installed(self) -> None:
        """Return when every broker that has to know of it does."""
        if self._installed is None:
            self._installed = self._client._install(self)
        await asyncio.shield(self._installed)

    def __aiter__(self) -> AsyncIterator[Notification]:
        return self._notifications()

    async def _notifications(self) -> AsyncIterator[Notification]:
        with contextlib.suppress(Closed):
            while True:
                yield await self.get()

    async def get(self) -> Notification:
        """The next notification. The one before is dealt with by asking."""
        if self._last is not None:
            self._dealt_with(self._last)
            self._last = None
        self._last = await self.delivery()
        return self._last.notification

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """The deliveries, each to be accepted or rejected."""
        with contextlib.suppress(Closed):
            while True:
                yield await self.delivery()

    async def delivery(self) -> Delivery:
        """The next delivery, to be accepted or rejected."""
        await self.installed()
        while not self._queue:
            if self._ended is not None:
                raise self._ended
            self._arrived.clear()
            await self._arrived.wait()
        delivery = self._queue.popleft()
        self._client._taken()
        return delivery

    def take_waiting(self) -> list[Delivery]:
        """The deliveries that have come already; nothing is waited for."""
        taken = list(self._queue)
        self._queue.clear()
        for _ in taken:
            self._client._taken()
        return taken

    async def close(self) -> None:
        """Take it back; a durable one is only let go of, and goes on at the broker."""
        if self._ended is None:
            if self._last is not None:
                self._dealt_with(self._last)
            self._end(Closed("the subscription is closed"))
            await self._client._close(self)

    def _put(self, delivery: Delivery) -> None:
        self._queue.append(delivery)
        self._arrived.set()

    def _end(self, error: FairleadError) -> None:
        if self._ended is None:
            self._ended = error
            self._arrived.set()

    def _dealt_with(self, delivery: Delivery, *, rejected: bool = False, again: bool = False) -> None:
        if delivery.place:
            self._client._settle(delivery, rejected=rejected, again=again)


class Closed(ConnectionEnded):
    """The subscription, or the client, was closed by this side."""


class _Wire(asyncio.Protocol):
    """The socket."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._frames = wire.Frames(1 << 24)
        self.transport: asyncio.Transport | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.may_write = asyncio.Event()
        self.may_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are no subclasses

    def data_received(self, data: bytes) -> None:
        try:
            for kind, payload in self._frames.feed(data):
                self._client._received(self, kind, payload)
        except FairleadError as error:
            log.warning("%s", error)
            self._client._fail_for_good(error)
            self.abort()

    def pause_writing(self) -> None:
        self.may_write.clear()

    def resume_writing(self) -> None:
        self.may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.may_write.set()
        if not self.closed.done():
            self.closed.set_result(None)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class Client:
    """A client of one broker. Use it as an asynchronous context."""

    def __init__(
        self,
        url: str,
        *,
        name: str | None,
        policy: str,
        tls: Tls | None,
        patience: float | None,
        clock: Clock | None,
    ) -> None:
        self.address = Address.parse(url)
        self.name = name or f"client-{uuid.uuid4().hex[:12]}"
        self.broker = ""
        """The name of the broker it is connected to."""
        self._policy, self._tls, self._patience, self._clock = policy, tls, patience, clock
        self._frame_max = wire.FRAME_MAX
        self._session = uuid.uuid4().hex[:12]
        self._wire: _Wire | None = None
        self._connected = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._out: list[bytes] = []
        self._numbers = 0
        self._published = 0
        self._named = 0
        self._unstored: dict[int, tuple[bytes, asyncio.Future[None]]] = {}
        self._room = asyncio.Event()
        self._room.set()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._installing: dict[int, Subscription] = {}
        self._durables: dict[str, _Durable] = {}
        self._advertised: dict[str, str] = {}
        self._listens: dict[str, tuple[str, Callable[[bool], object]]] = {}
        self._accepts: dict[str, list[int]] = {}
        self._log = ""
        self._waiting = 0
        self._paused = False
        self._failure: FairleadError | None = None
        self._closing = False

    async def __aenter__(self) -> Client:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect; ConnectionEnded if there is no broker, BrokerRefused if it says no."""
        context = client_context(self._tls) if self.address.secure else None
        self._task = asyncio.get_running_loop().create_task(self._stay_connected(context))
        try:
            await self._connected_now()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Wait until all that was published is safe, and go."""
        if self._closing:
            return
        if self._failure is None and self._unstored:
            with contextlib.suppress(FairleadError):
                await asyncio.gather(
                    *(stored for _, stored in self._unstored.values()), return_exceptions=True
                )
        self._closing = True
        for subscription in list(self._subscriptions.values()):
            subscription._end(Closed("the client is closed"))
        if self._wire is not None:
            self._flush()  # what has been accepted, first
            self._tell(wire.Bye("done"))
            self._flush()
            if self._wire is not None and self._wire.transport is not None:
                self._wire.transport.close()
        self._fail_for_good(Closed("the client is closed"))
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    # -- what users ask ----------------------------------------------------------------------------------------

    async def publish(self, given: Publishable) -> Notification:
        """Publish, and return when the notification is safe in the broker's log, with its id and producer."""
        notification = self._identified(given)
        packed = pack(notification)
        self._check_open()
        self._check_size(len(packed) + 9)
        while len(self._unstored) >= IN_FLIGHT:
            self._room.clear()
            await self._room.wait()
        self._check()
        self._numbers += 1
        number = self._numbers
        stored = asyncio.get_running_loop().create_future()
        self._unstored[number] = (packed, stored)
        if self._paused:
            self._regulate()
        if self._connected.is_set():
            self._send(wire.publish(number, packed))
        await stored
        return notification

    async def send(self, given: Publishable) -> Notification:
        """Publish without an answer: it is not logged, and may be lost with a connection or a broker."""
        notification = self._identified(given)
        packed = pack(notification)
        await self._connected_now()
        assert self._wire is not None
        self._check_size(len(packed) + 9)
        self._send(wire.publish(0, packed))
        await self._wire.may_write.wait()
        return notification

    def subscribe(
        self,
        filter: str | Filter,
        *,
        durable: str = "",
        since: Instant | str | int | None = None,
        id: str | None = None,
    ) -> Subscription:
        """Subscribe to what a filter matches.

        With a name in `durable`, nothing that is published from now on is lost, whether or not this client is
        there: who subscribes again under the name goes on where it was. `since` begins in the past, as far as the
        broker's log goes back.
        """
        self._check()
        made = parse(filter) if isinstance(filter, str) else filter
        name = id or (f"{durable}:{render(made)}" if durable else self._fresh("s"))
        if name in self._subscriptions:
            raise BrokerRefused(f"there is a subscription {name!r} already")
        began = None if since is None else _micros(since)
        subscription = self._subscriptions[name] = Subscription(self, name, made, durable, began)
        if durable:
            self._durables.setdefault(durable, _Durable())
        return subscription

    def detect(
        self,
        pattern: str | patterns.Pattern | Expression | fair.Subscription,
        *,
        lateness: int | str = 0,
        since: Instant | str | int | None = None,
        choice: fair.Choice | None = None,
        publish: bool = False,
    ) -> Detection:
        """Subscribe to the composite events of a pattern, or to the relations of a fair subscription.

        What they are about is subscribed to, held until the newest event is `lateness` (microseconds, or as
        "5s") ahead, and looked at in the one total order: what is found is what an ordered bus finds. With
        `publish`, composites are published, too, before they are handed out.
        """
        from fairlead.network.detection import Detection, question_of

        return Detection(self, question_of(pattern, choice), lateness, since, publish=publish)

    async def forget(self, durable: str) -> None:
        """End a durable subscriber: what it has not taken is not kept for it any longer."""
        for subscription in [each for each in self._subscriptions.values() if each.durable == durable]:
            self._let_go(subscription, Closed("the durable subscriber has been ended"))
        self._durables.pop(durable, None)
        await self._ask(lambda number: wire.Unsubscribe(number, "", durable))

    async def advertise(self, filter: str | Filter, *, id: str | None = None) -> str:
        """Say what will be published; the id is for `unadvertise`."""
        text = render(parse(filter) if isinstance(filter, str) else filter)
        name = id or self._fresh("a")
        await self._ask(lambda number: wire.Advertise(number, name, text))
        self._advertised[name] = text
        return name

    async def unadvertise(self, id: str) -> None:
        """Take an advertisement back."""
        self._advertised.pop(id, None)
        await self._ask(lambda number: wire.Unadvertise(number, id))

    async def listening(self, filter: str | Filter, tell: Callable[[bool], object]) -> str:
        """Have `tell` called with whether anyone listens to what a filter matches: now, and when it changes."""
        text = render(parse(filter) if isinstance(filter, str) else filter)
        name = self._fresh("l")
        self._listens[name] = (text, tell)
        try:
            await self._ask(lambda number: wire.Listen(number, name, text))
        except BaseException:
            del self._listens[name]
            raise
        return name

    async def unlisten(self, id: str) -> None:
        """Be told no longer."""
        self._listens.pop(id, None)
        await self._ask(lambda number: wire.Listen(number, id))

    async def anyone_listens(self, filter: str | Filter) -> bool:
        """Whether anyone, but this client, listens to what a filter matches."""
        heard: list[bool] = []
        await self.unlisten(await self.listening(filter, heard.append))
        return heard[0]

    async def status(self) -> dict[str, Any]:
        """How the broker is, in figures."""
        answer: dict[str, Any] = await self._ask(lambda number: wire.Ask(number, "status"))
        return answer

    async def tables(self) -> dict[str, Any]:
        """The broker's routing tables."""
        answer: dict[str, Any] = await self._ask(lambda number: wire.Ask(number, "tables"))
        return answer

    async def link(self, url: str) -> None:
        """Have the broker call another one, and stay linked to it."""
        await self._ask(lambda number: wire.Link(number, str(Address.parse(url))))

    async def unlink(self, neighbour: str) -> None:
        """Have the broker end a link."""
        await self._ask(lambda number: wire.Unlink(number, neighbour))

    # -- connection --------------------------------------------------------------------------------------------

    async def _stay_connected(self, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        least, most = BACKOFF_S
        wait, alone_since = least, loop.time()
        while True:
            reason = ""
            try:
                _, wired = await loop.create_connection(
                    lambda: _Wire(self), self.address.host, self.address.port, ssl=context
                )
                wired.transport.write(  # type: ignore[union-attr]
                    wire.control(wire.Hello(wire.VERSION, "client", self.name, self._policy))
                )
                await wired.closed
            except ssl.SSLCertVerificationError as error:
                self._fail_for_good(ConnectionEnded(f"{self.address} is not trusted: {error.verify_message}"))
            except OSError as error:
                reason = _in_words(error)
            if self._wire is not None:
                self._wire = None
                self._connected.clear()
                wait, alone_since = least, loop.time()
            if self._failure is not None:
                return
            if self._patience is not None and loop.time() - alone_since >= self._patience:
                why = f": {reason}" if reason else ""
                self._fail_for_good(ConnectionEnded(f"{self.address} cannot be reached{why}"))
                return
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, most)

    def _received(self, wired: _Wire, kind: int, payload: bytes) -> None:
        if kind == wire.DELIVER:
            self._delivered(*wire.parse_deliver(payload))
        elif kind == wire.STORED:
            self._stored(wire.parse_numbered(payload)[0])
        elif kind == wire.CONTROL:
            self._told(wired, wire.parse_control(payload))
        else:
            raise ProtocolError(f"brokers do not send frames of the kind {kind} to clients")

    def _told(self, wired: _Wire, message: wire.Control) -> None:
        match message:
            case wire.Welcome():
                self._welcomed(wired, message)
            case wire.Done(number):
                self._resolve(number, None)
            case wire.Told(number, answer):
                self._resolve(number, answer)
            case wire.Refused(number, reason, durable):
                self._refused(number, reason, durable)
            case wire.Dropped(count):
                for subscription in self._subscriptions.values():
                    if not subscription.durable:
                        subscription.dropped += count
            case wire.Listening(id, anyone):
                self._tell_listener(id, anyone)
            case wire.Ping():
                self._tell(wire.Pong())
            case wire.Bye(reason):
                if self._wire is not wired or "taken over" in reason or "too slow" in reason:
                    self._fail_for_good(BrokerRefused(reason))
                wired.abort()
            case _:
                pass

    def _welcomed(self, wired: _Wire, message: wire.Welcome) -> None:
        self._wire, self.broker, self._frame_max = wired, message.broker, message.frame_max
        self._paused = False
        if message.log != self._log:
            self._log = message.log
            for subscription in self._subscriptions.values():
                subscription._seen = 0
            for durable in self._durables.values():
                durable.seen = 0
                durable.open.clear()
        self._out.clear()
        self._connected.set()
        for id, text in self._advertised.items():
            self._tell(wire.Advertise(0, id, text))
        for id, (text, _) in self._listens.items():
            self._tell(wire.Listen(0, id, text))
        self._installing.clear()
        for subscription in list(self._subscriptions.values()):
            if subscription._installed is not None:
                self._send_subscribe(subscription)
        for number, (packed, _) in list(self._unstored.items()):
            if len(packed) + 9 > self._frame_max:
                self._refused(number, str(self._too_long(len(packed) + 9)))
            else:
                self._send(wire.publish(number, packed))
        self._flush()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _check_open(self) -> None:
        self._check()
        if self._task is None:
            raise ConnectionEnded("the client is not open", hint="use it in a `with` block")

    def _check_size(self, size: int) -> None:
        if size > self._frame_max:
            raise self._too_long(size)

    def _too_long(self, size: int) -> ValueRefused:
        return ValueRefused(f"a frame of {size:,} bytes; the broker takes {self._frame_max:,} at most")

    async def _connected_now(self) -> None:
        self._check_open()
        if not self._connected.is_set() and self._task is not None:
            connected = asyncio.ensure_future(self._connected.wait())
            try:
                await asyncio.wait([connected, self._task], return_when=asyncio.FIRST_COMPLETED)
            finally:
                connected.cancel()
            self._check()

    def _fail_for_good(self, error: FairleadError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        for _, stored in self._unstored.values():
            _fail(stored, error)
        self._unstored.clear()
        self._room.set()
        for asked in self._asked.values():
            _fail(asked, error)
        self._asked.clear()
        for subscription in self._subscriptions.values():
            subscription._end(error)
            if subscription._installed is not None:
                _fail(subscription._installed, error)

    # -- frames ------------------------------------------------------------------------------------------------

    def _tell(self, message: wire.Control) -> None:
        self._send(wire.control(message))

    def _send(self, frame: bytes) -> None:
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(frame)

    def _flush(self) -> None:
        for durable, places in self._accepts.items():
            if places:
                self._out.append(wire.control(wire.Accept(durable, places)))
        self._accepts.clear()
        frames, self._out = self._out, []
        if frames and self._wire is not None and self._wire.transport is not None:
            self._wire.transport.write(b"".join(frames))

    async def _ask(self, make: Callable[[int], wire.Control]) -> Any:
        await self._connected_now()
        self._numbers += 1
        number = self._numbers
        frame = wire.control(make(number))
        self._check_size(len(frame) - 4)
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        self._send(frame)
        if self._paused:
            self._regulate()
        assert self._wire is not None
        lost = self._wire.closed
        try:
            await asyncio.wait([asked, lost], return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                self._check()
                raise ConnectionEnded("the connection was lost before the broker answered")
            return asked.result()
        finally:
            self._asked.pop(number, None)

    def _resolve(self, number: int, answer: Any) -> None:
        subscription = self._installing.pop(number, None)
        if subscription is not None and subscription._installed is not None:
            if not subscription._installed.done():
                subscription._installed.set_result(None)
            return
        asked = self._asked.pop(number, None)
        if asked is not None and not asked.done():
            asked.set_result(answer)

    def _refused(self, number: int, reason: str, durable: str = "") -> None:
        error = BrokerRefused(reason)
        subscription = self._installing.pop(number, None)
        if durable:
            self._durables.pop(durable, None)
            for each in [each for each in self._subscriptions.values() if each.durable == durable]:
                self._let_go(each, error)
        elif subscription is not None:
            self._let_go(subscription, error)
        elif number in self._unstored:
            _, stored = self._unstored.pop(number)
            _fail(stored, error)
            self._room.set()
        elif number in self._asked:
            _fail(self._asked.pop(number), error)
        else:
            log.warning("%s", reason)

    def _stored(self, number: int) -> None:
        for each in list(self._unstored):
            if each > number:
                break
            _, stored = self._unstored.pop(each)
            if not stored.done():
                stored.set_result(None)
        self._room.set()

    # -- subscriptions -----------------------------------------------------------------------------------------

    def _install(self, subscription: Subscription) -> asyncio.Future[None]:
        subscription._installed = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            _fail(subscription._installed, self._failure)
        elif self._connected.is_set():
            self._send_subscribe(subscription)
        return subscription._installed

    def _send_subscribe(self, subscription: Subscription) -> None:
        self._numbers += 1
        text = render(subscription.filter)
        frame = wire.control(
            wire.Subscribe(self._numbers, subscription.id, text, subscription.durable, subscription.since)
        )
        if len(frame) - 4 > self._frame_max:
            self._let_go(subscription, self._too_long(len(frame) - 4))
        else:
            self._installing[self._numbers] = subscription
            self._send(frame)
            if self._paused:
                self._regulate()

    def _let_go(self, subscription: Subscription, error: FairleadError) -> None:
        self._drop(subscription)
        subscription._end(error)
        if subscription._installed is not None:
            _fail(subscription._installed, error)

    def _drop(self, subscription: Subscription) -> None:
        """Forget it, and what has come for it and was not taken: that is not accepted, either."""
        self._subscriptions.pop(subscription.id, None)
        while subscription._queue:
            subscription._queue.popleft()
            self._taken()

    async def _close(self, subscription: Subscription) -> None:
        self._drop(subscription)
        name = subscription.durable
        if name and any(each.durable == name for each in self._subscriptions.values()):
            return
        self._durables.pop(name, None)
        if subscription._installed is None or not self._connected.is_set():
            return  # the broker knows nothing of it, or nothing any more
        with contextlib.suppress(FairleadError):
            self._flush()  # what has been accepted, first
            await self._ask(
                lambda number: (
                    wire.Release(number, name) if name else wire.Unsubscribe(number, subscription.id)
                )
            )

    def _delivered(self, place: int, ids: list[str], packed: bytes) -> None:
        found = [self._subscriptions[id] for id in ids if id in self._subscriptions]
        if not found:
            return
        durable = found[0].durable
        if place and not durable:
            # From the past, by a subscription that is not durable: nothing is to be accepted, but room is made.
            self._accept(f"c:{self.name}#{found[0].id}", place)
            if place <= found[0]._seen:
                return  # the connection was lost in between, and the past comes again
            found[0]._seen, place = place, 0
        if place and not self._is_new(self._durables[durable], durable, place, len(found)):
            return
        notification = unpack(packed)
        for subscription in found:
            subscription._put(Delivery(notification, tuple(ids), durable, place, subscription))
            self._waiting += 1
        self._regulate()

    def _regulate(self) -> None:
        """Stop reading when too much waits here; but not while an answer is awaited, which comes behind that."""
        awaited = self._unstored or self._asked or self._installing
        pause = not awaited and self._waiting > (QUEUE // 2 if self._paused else QUEUE)
        if pause != self._paused and self._wire is not None and self._wire.transport is not None:
            self._paused = pause
            if pause:
                self._wire.transport.pause_reading()
            else:
                self._wire.transport.resume_reading()

    def _is_new(self, durable: _Durable, name: str, place: int, subscriptions: int) -> bool:
        if place <= durable.seen and place not in durable.again:
            if place not in durable.open:
                self._accept(name, place)  # the broker has not heard that it is dealt with
            return False
        durable.again.discard(place)
        durable.seen = max(durable.seen, place)
        durable.open[place] = subscriptions
        return True

    def _taken(self) -> None:
        self._waiting -= 1
        if self._paused:
            self._regulate()

    def _settle(self, delivery: Delivery, *, rejected: bool, again: bool) -> None:
        durable = self._durables.get(delivery.durable)
        if durable is None or delivery.place not in durable.open:
            return
        if rejected and again:
            del durable.open[delivery.place]
            durable.again.add(delivery.place)
            self._tell(wire.Reject(delivery.durable, delivery.place, True))
            return
        durable.open[delivery.place] -= 1
        if not durable.open[delivery.place]:
            del durable.open[delivery.place]
            if rejected:
                self._tell(wire.Reject(delivery.durable, delivery.place, False))
            else:
                self._accept(delivery.durable, delivery.place)

    def _accept(self, durable: str, place: int) -> None:
        if not self._accepts:
            asyncio.get_running_loop().call_soon(self._flush)
        self._accepts.setdefault(durable, []).append(place)

    def _tell_listener(self, id: str, anyone: bool) -> None:
        if id in self._listens:
            try:
                self._listens[id][1](anyone)
            except Exception:  # what became of it is not the connection's concern
                log.exception("what is to be told whether anyone listens has failed")

    def _fresh(self, kind: str) -> str:
        self._named += 1
        return f"{kind}{self._named}-{self._session}"

    def _identified(self, given: Publishable) -> Notification:
        notification = Notification.of(given)
        changes: dict[str, Any] = {}
        if self._clock is not None and notification.time is None:
            now = self._clock()
            changes |= {"time": now, "attributes": Record({**dict(notification.attributes), "time": now})}
        if not notification.producer:
            changes["producer"] = self.name
        if notification.id is None:
            self._published += 1
            changes["id"] = f"{self._session}-{self._published}"
        return replace(notification, **changes) if changes else notification


def _fail(future: asyncio.Future[Any], error: FairleadError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # whoever awaits it is told; if nobody does, nothing is said


def _in_words(error: OSError) -> str:
    """The system's words; asyncio puts others in their place, which repeat the address."""
    if isinstance(error, ConnectionError) and error.errno is not None:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _micros(given: Instant | str | int) -> int:
    if isinstance(given, str):
        given = Instant.parse(given)
    return given.microseconds if isinstance(given, Instant) else given
