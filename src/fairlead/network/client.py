"""The asynchronous client of a broker.

    async with connect("fairlead://localhost:7400", name="desk") as client:
        await client.publish({"symbol": "IBM", "price": 101.5})
        async for notification in client.subscribe('price > 100', durable="desk"):
            ...

It reconnects by itself: what has not been acknowledged is published again (the broker knows it by its id), and
subscriptions go on. To a durable subscriber every notification is delivered exactly once within this process, and
accepted when the next one is asked for; after a crash, from the first one that had not been accepted.

Subscriptions with one durable name are one subscriber's, with one place in the broker's log: take from all of
them, or close them all. Who comes back under the name asks for all that it asked for before; what it does not
want any longer, it takes back with `forget(name, filter)`.

    channel        one connection, and why there is none
    subscriptions  what users hold
    intake         what is delivered: each once
    publications   what is published, until it is safe
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import ssl
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from fairlead.errors import (
    BrokerRefused,
    ConnectionEnded,
    FairleadError,
    NetworkError,
    NotThere,
    ProtocolError,
    ValueRefused,
)
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse, render
from fairlead.model import Instant, Notification, Record
from fairlead.model.packed import pack
from fairlead.network import wire
from fairlead.network.addresses import Address, Tls
from fairlead.network.channel import Channel, NoChannel, call, wants_certificate
from fairlead.network.contexts import client_context
from fairlead.network.intake import Intake
from fairlead.network.publications import Publications, fail
from fairlead.network.subscriptions import Closed, Delivery, Subscription

if TYPE_CHECKING:
    from fairlead.correlation import fair
    from fairlead.correlation.standing import Asked
    from fairlead.network.detection import Detection

__all__ = ["Client", "Delivery", "Linking", "Subscription", "connect"]

log: Final = logging.getLogger(__name__)

Publishable: TypeAlias = Mapping[str, Any] | tuple[Any, ...] | Notification
Clock: TypeAlias = Callable[[], Instant]
Since: TypeAlias = Instant | datetime | str | int
Patience: TypeAlias = float | str | timedelta | None

BACKOFF_S: Final = (0.05, 2.0)
QUEUE: Final = 10_000
"""How many notifications wait in this process before it stops reading; then the broker's policy decides."""
TURN_BYTES: Final = 1 << 14
"""After so many bytes that nobody has to wait for, others have their turn."""
HINT: Final = "is a broker running there? `fairlead broker run` starts one"
WORDLESS_MAX: Final = 3
"""So many calls in a row that end without a word after the handshake of TLS are an answer."""


class Linking(NamedTuple):
    """What became of a link that was asked for."""

    neighbour: str
    """The broker that it is with; empty as long as it has not answered."""
    waits: str
    """Why the link is not up yet; empty if it is."""


def connect(
    url: str = "fairlead://127.0.0.1:7400",
    *,
    name: str | None = None,
    policy: str = "",
    tls: Tls | None = None,
    patience: Patience = 30.0,
    clock: Clock | None = None,
) -> Client:
    """A client of the broker at this address; it connects when it is entered.

    `name` is the producer of what it publishes. `policy` is what the broker does when this client is slow:
    "drop" the oldest, "block" those who publish, or "disconnect" it. `patience` is how long, in seconds or as
    "60s", it bears without a broker before what waits for one fails; None: for ever. `clock` stamps what is
    published without a time, and says to patterns how time passes where nothing happens; without it, time passes
    with events only.
    """
    return Client(url, name=name, policy=policy, tls=tls, patience=patience, clock=clock)


class Client:
    """A client of one broker. Use it as an asynchronous context."""

    def __init__(
        self,
        url: str,
        *,
        name: str | None,
        policy: str,
        tls: Tls | None,
        patience: Patience,
        clock: Clock | None,
    ) -> None:
        self.address = Address.parse(url)
        if tls is not None and not self.address.secure:
            secure = self.address._replace(secure=True)
            raise NetworkError(
                f"certificates for {self.address}, where no TLS is spoken", hint=f"call {secure}"
            )
        self.name = name or f"client-{uuid.uuid4().hex[:12]}"
        self.broker = ""
        """The name of the broker it is connected to."""
        self._policy, self._tls, self._clock = policy, tls, clock
        self._patience_s = _patience_s(patience)
        self._frame_max = wire.FRAME_MAX
        self._session = uuid.uuid4().hex[:12]
        self._task: asyncio.Task[None] | None = None
        self._wire: Channel | None = None
        self._connected = asyncio.Event()
        self._flowing = asyncio.Event()
        """Set while publications go to the broker: it is connected, and knows what has been advertised."""
        self._log = ""
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._is_due = False
        self._numbers = 0
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._published = 0
        self._named = 0
        self._sent = False
        """Whether something has been sent that the broker need not have heard."""
        self._publications = Publications()
        self._intake = Intake(self.name, self._tell, self._schedule, self._regulate)
        self._installing: dict[int, Subscription] = {}
        self._advertised: dict[str, str] = {}
        self._advertising: set[int] = set()
        self._listens: dict[str, tuple[str, Callable[[bool], object]]] = {}
        self._paused = False
        self._failure: FairleadError | None = None
        self._closing = False

    @property
    def duplicates(self) -> int:
        """How many of its publications had been published before, under the same producer and id."""
        return self._publications.duplicates

    async def __aenter__(self) -> Client:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except ConnectionEnded:
            if error is None:
                raise

    async def open(self) -> None:
        """Connect; ConnectionEnded if there is no broker, BrokerRefused if it says no."""
        context = client_context(self._tls) if self.address.secure else None
        self._task = asyncio.get_running_loop().create_task(self._stay_connected(context))
        try:
            await self._until(self._connected)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Wait until all that was published is safe, and all that was sent has been heard, and go.

        ConnectionEnded, when the client's patience is over before the broker has heard what was sent.
        """
        if self._closing:
            return
        unheard = False
        if self._failure is None:
            await self._publications.settled()
            unheard = not await self._is_heard()
        self._closing = True
        for subscription in list(self._intake.subscriptions.values()):
            subscription._end(Closed("the client is closed"))
        if self._failure is None and self._connected.is_set():
            self._flush()  # what has been accepted, first
            await self._release()
        if self._wire is not None:
            self._tell(wire.Bye("done"))
            self._flush()
            self._wire.close()
        self._fail_for_good(Closed("the client is closed"))
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if unheard:
            raise ConnectionEnded(
                f"{self.broker} did not hear in time all that was sent: somebody who is slow is to get it",
                hint="`fairlead top` says who; connect(…, patience=…) waits longer",
            )

    # -- what users ask ----------------------------------------------------------------------------------------

    async def publish(self, given: Publishable) -> Notification:
        """Publish, and return when the notification is safe in the broker's log, with its id and producer."""
        notification = self._identified(given)
        packed = pack(notification)
        self._check_open()
        self._check_size(len(packed) + 9)
        await self._publications.room()
        self._check()
        self._numbers += 1
        stored = self._publications.add(self._numbers, packed)
        if self._paused:
            self._regulate()
        if self._flowing.is_set():
            self._send_publication(self._numbers, packed)
        await stored
        return notification

    async def send(self, given: Publishable) -> Notification:
        """Publish without an answer: it is not logged, and may be lost with a connection or a broker."""
        notification = self._identified(given)
        packed = pack(notification)
        await self._until(self._flowing)
        self._check_size(len(packed) + 9)
        self._send(wire.publish(0, packed))
        self._sent = True
        if self._out_bytes >= TURN_BYTES:
            self._flush()
            await asyncio.sleep(0)
        if self._wire is not None:
            await self._wire.may_write.wait()
        return notification

    def subscribe(
        self,
        filter: str | Filter,
        *,
        durable: str = "",
        since: Since | None = None,
        id: str | None = None,
    ) -> Subscription:
        """Subscribe to what a filter matches.

        With a name in `durable`, nothing that is published from now on is lost, whether or not this client is
        there: who subscribes again under the name, to the same, goes on where it was. `since` begins in the past,
        as far as the broker's log goes back.
        """
        self._check()
        for given in (durable, id or ""):
            if not isinstance(given, str):
                raise ValueRefused(f"a name is a string, not {given!r}")
        made = _filter(filter)
        name = id or (_id_of(durable, made) if durable else self._fresh("s"))
        if name in self._intake.subscriptions:
            raise BrokerRefused(f"there is a subscription {name!r} already")
        began = None if since is None else _micros(since)
        subscription = Subscription(self, name, made, durable, began)
        self._intake.add(subscription)
        return subscription

    def detect(
        self,
        pattern: Asked,
        *,
        lateness: int | str = 0,
        since: Since | None = None,
        choice: fair.Choice | str | None = None,
        publish: bool = False,
    ) -> Detection:
        """Subscribe to the composite events of a pattern, or to the relations of a fair subscription.

        What they are about is subscribed to, held until the newest event is `lateness` (microseconds, or as
        "5s") ahead, and looked at in the one total order: what is found is what an ordered bus finds. With
        `publish`, composites are published, too, before they are handed out.

        Over several brokers the relations of a fair subscription may differ between clients: an event that is late
        at one client need not be late at another.
        """
        from fairlead.correlation.standing import Question
        from fairlead.network.detection import Detection

        return Detection(self, Question.of(pattern, choice), lateness, since, publish=publish)

    async def forget(self, durable: str, filter: str | Filter | None = None) -> None:
        """End a durable subscriber: what it has not taken is not kept for it any longer.

        With a filter, end only its subscription to that; with the last one, it ends.
        """
        if not durable:
            raise ValueRefused("a durable subscriber has a name, which is not empty")
        id = "" if filter is None else _id_of(durable, _filter(filter))
        for subscription in self._intake.of(durable):
            if not id or subscription.id == id:
                self._let_go(subscription, Closed("the durable subscription has been ended"), forgotten=True)
        if not self._intake.of(durable):
            self._intake.forget(durable)
        await self._take_back(lambda number: wire.Unsubscribe(number, id, durable))

    async def advertise(self, filter: str | Filter, *, id: str | None = None) -> str:
        """Say what will be published; the id is for `unadvertise`."""
        text = render(_filter(filter))
        name = id or self._fresh("a")
        await self._ask(lambda number: wire.Advertise(number, name, text))
        self._advertised[name] = text
        return name

    async def unadvertise(self, id: str) -> None:
        """Take an advertisement back."""
        is_known = self._advertised.pop(id, None) is not None
        self._check_open()
        if self._connected.is_set() or not is_known:  # otherwise it has ended with the connection
            await self._take_back(lambda number: wire.Unadvertise(number, id))

    async def listening(self, filter: str | Filter, tell: Callable[[bool], object]) -> str:
        """Have `tell` called with whether anyone listens to what a filter matches: now, and when it changes."""
        text = render(_filter(filter))
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

    async def link(self, url: str) -> Linking:
        """Have the broker call another one, and stay linked to it; BrokerRefused, where that cannot be.

        A broker that is away is waited for, over restarts, too: then the answer says so.
        """
        answer = await self._ask(lambda number: wire.Link(number, str(Address.parse(url))))
        return Linking(answer["neighbour"], answer["waits"])

    async def unlink(self, neighbour: str) -> None:
        """Have the broker end a link: to the neighbour of that name, or to the address that it waits for."""
        await self._take_back(lambda number: wire.Unlink(number, neighbour))

    # -- connection --------------------------------------------------------------------------------------------

    async def _stay_connected(self, context: ssl.SSLContext | None) -> None:
        try:
            await self._call_again_and_again(context)
        except Exception as error:  # nobody waits for ever for what will not come
            log.exception("the client cannot go on")
            self._fail_for_good(ConnectionEnded(f"the client cannot go on: {error!r}"))

    async def _call_again_and_again(self, context: ssl.SSLContext | None) -> None:
        loop, patience = asyncio.get_running_loop(), self._patience_s
        hello = wire.Hello(wire.VERSION, "client", self.name, self._policy)
        least, most = BACKOFF_S
        wait, alone_since, wordless = least, loop.time(), 0
        while True:
            reason = ""
            try:
                left = None if patience is None else alone_since + patience - loop.time()
                channel = await call(
                    self.address,
                    context,
                    hello,
                    lambda: Channel(self._received, self._failed, patience),
                    left,
                )
                await channel.closed
                if channel.is_silent:
                    log.warning("%s says nothing any more: it is called again", self.address)
            except NoChannel as none:
                reason = none.reason
                wordless = wordless + 1 if none.wordless and context is not None else 0
                if none.final is not None:
                    self._fail_for_good(none.final)
                elif wordless >= WORDLESS_MAX:
                    self._fail_for_good(wants_certificate(self.address, reason))
            if self._wire is not None:
                self._wire = None
                self._connected.clear()
                self._flowing.clear()
                wait, alone_since = least, loop.time()
            if self._failure is not None:
                return
            if patience is not None and loop.time() - alone_since >= patience:
                why = f": {reason}" if reason else ""
                self._fail_for_good(ConnectionEnded(f"{self.address} cannot be reached{why}", hint=HINT))
                return
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, most)

    def _failed(self, error: FairleadError) -> None:
        if not self.broker:
            error = ConnectionEnded(f"{self.address} is no broker: it says {error}")
        self._fail_for_good(error)

    def _received(self, wired: Channel, kind: int, payload: bytes) -> None:
        if kind == wire.DELIVER:
            self._intake.delivered(*wire.parse_deliver(payload))
        elif kind == wire.STORED:
            self._publications.stored(wire.parse_numbered(payload)[0])
        elif kind == wire.CONTROL:
            self._told(wired, wire.parse_control(payload))
        else:
            raise ProtocolError(f"brokers do not send frames of the kind {kind} to clients")

    def _told(self, wired: Channel, message: wire.Control) -> None:
        match message:
            case wire.Welcome():
                self._welcomed(wired, message)
            case wire.Done(number):
                self._resolve(number, None)
            case wire.Told(number, answer):
                self._resolve(number, answer)
            case wire.Refused(number, reason, durable, is_missing):
                self._refused(number, (NotThere if is_missing else BrokerRefused)(reason), durable)
            case wire.Repeated(number):
                self._publications.repeated(number)
            case wire.Dropped(count):
                for subscription in self._intake.subscriptions.values():
                    if not subscription.durable:
                        subscription.dropped += count
            case wire.Listening(id, anyone):
                self._tell_listener(id, anyone)
            case wire.Ping():
                self._tell(wire.Pong())
            case wire.Bye(reason, _, is_final):
                wired.reason = reason
                # One that was welcome before is so again some time, unless it has to go for good.
                if not self.broker or is_final:
                    self._fail_for_good(BrokerRefused(reason))
                wired.abort()
            case _:
                pass

    def _welcomed(self, wired: Channel, message: wire.Welcome) -> None:
        self._wire, self.broker, self._frame_max = wired, message.broker, message.frame_max
        if not wired.met.done():
            wired.met.set_result(True)
        self._paused = False
        if message.log != self._log:
            self._log = message.log
            self._intake.begin_anew()
        self._out.clear()
        self._connected.set()
        self._advertising.clear()
        for id, text in self._advertised.items():
            self._numbers += 1
            self._advertising.add(self._numbers)
            self._tell(wire.Advertise(self._numbers, id, text))
        for id, (text, _) in self._listens.items():
            self._tell(wire.Listen(0, id, text))
        self._installing.clear()
        for subscription in list(self._intake.subscriptions.values()):
            if subscription._installed is not None:
                self._send_subscribe(subscription)
        if not self._advertising:
            self._flow()
        self._flush()

    def _flow(self) -> None:
        """All brokers know what has been advertised, and what others want of that is known here: publish."""
        self._flowing.set()
        for number, packed in self._publications.again():
            if len(packed) + 9 > self._frame_max:
                self._refused(number, BrokerRefused(str(self._too_long(len(packed) + 9))))
            else:
                self._send_publication(number, packed)

    def _send_publication(self, number: int, packed: bytes) -> None:
        self._publications.sent(number)
        self._send(wire.publish(number, packed))

    def _advertised_again(self, number: int) -> bool:
        """Whether that is an answer to what was advertised before, which publications wait for."""
        if number not in self._advertising:
            return False
        self._advertising.discard(number)
        if not self._advertising:
            self._flow()
        return True

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _check_open(self) -> None:
        self._check()
        if self._task is None:
            raise self._not_open()

    def _not_open(self) -> ConnectionEnded:
        return ConnectionEnded("the client is not open", hint="use it in a `with` block")

    def _check_size(self, size: int) -> None:
        if size > self._frame_max:
            raise self._too_long(size)

    def _too_long(self, size: int) -> ValueRefused:
        return ValueRefused(f"a frame of {size:,} bytes; the broker takes {self._frame_max:,} at most")

    async def _until(self, reached: asyncio.Event) -> None:
        """Wait for a connection, or for it to be ready for publications."""
        self._check_open()
        if not reached.is_set() and self._task is not None:
            waiting = asyncio.ensure_future(reached.wait())
            try:
                await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
            self._check()

    def _fail_for_good(self, error: FairleadError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        self._publications.refuse_all(error)
        for asked in self._asked.values():
            fail(asked, error)
        self._asked.clear()
        for subscription in self._intake.subscriptions.values():
            subscription._end(error)
            if subscription._installed is not None:
                fail(subscription._installed, error)

    # -- frames ------------------------------------------------------------------------------------------------

    def _tell(self, message: wire.Control) -> None:
        self._send(wire.control(message))

    def _send(self, frame: bytes) -> None:
        self._out.append(frame)
        self._out_bytes += len(frame)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_due = False
        self._out += map(wire.control, self._intake.take_accepts())
        frames, self._out, self._out_bytes = self._out, [], 0
        if frames and self._wire is not None:
            self._wire.write(b"".join(frames))

    async def _ask(self, make: Callable[[int], wire.Control], *, again: bool = True) -> Any:
        """The broker's answer; if the connection is lost before it comes, the next one is asked `again`."""
        while True:
            await self._until(self._connected)
            channel = self._wire
            if channel is None:
                continue  # lost again since
            self._numbers += 1
            number = self._numbers
            frame = wire.control(make(number))
            self._check_size(len(frame) - 4)
            asked = self._asked[number] = asyncio.get_running_loop().create_future()
            self._send(frame)
            if self._paused:
                self._regulate()
            try:
                await asyncio.wait([asked, channel.closed], return_when=asyncio.FIRST_COMPLETED)
                if asked.done():
                    return asked.result()
            finally:
                self._asked.pop(number, None)
            self._check()
            if not again:
                raise ConnectionEnded("the connection was lost before the broker answered")
            if self._wire is channel:  # nobody else has noticed yet
                self._connected.clear()
                self._flowing.clear()

    async def _take_back(self, make: Callable[[int], wire.Control]) -> None:
        """Ask for an end. If the answer was lost with a connection, it may have been done, and that is as good."""
        times = 0

        def counted(number: int) -> wire.Control:
            nonlocal times
            times += 1
            return make(number)

        try:
            await self._ask(counted)
        except NotThere:
            if times == 1:
                raise

    def _resolve(self, number: int, answer: Any) -> None:
        if self._advertised_again(number):
            return
        subscription = self._installing.pop(number, None)
        if subscription is not None and subscription._installed is not None:
            if not subscription._installed.done():
                subscription._installed.set_result(None)
            return
        asked = self._asked.pop(number, None)
        if asked is not None and not asked.done():
            asked.set_result(answer)

    def _refused(self, number: int, error: BrokerRefused, durable: str = "") -> None:
        subscription = self._installing.pop(number, None)
        if durable:
            for each in self._intake.of(durable):
                self._let_go(each, error)
            self._intake.forget(durable)
        elif subscription is not None:
            self._let_go(subscription, error)
        elif number in self._asked:
            fail(self._asked.pop(number), error)
        elif not self._publications.refuse(number, error) and not self._advertised_again(number):
            log.warning("%s", error)

    # -- subscriptions -----------------------------------------------------------------------------------------

    def _install(self, subscription: Subscription) -> asyncio.Future[None]:
        if self._task is None:
            raise self._not_open()
        subscription._installed = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            fail(subscription._installed, self._failure)
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

    def _let_go(self, subscription: Subscription, error: FairleadError, *, forgotten: bool = False) -> None:
        self._intake.drop(subscription, forgotten=forgotten)
        subscription._end(error)
        if subscription._installed is not None:
            fail(subscription._installed, error)

    async def _close(self, subscription: Subscription) -> None:
        self._intake.drop(subscription)
        name = subscription.durable
        if name and self._intake.of(name):
            return
        self._intake.forget(name)
        if subscription._installed is None or not self._connected.is_set():
            return  # the broker knows nothing of it, or nothing any more
        with contextlib.suppress(FairleadError):
            self._flush()  # what has been accepted, first
            await self._ask(
                lambda number: (
                    wire.Release(number, name) if name else wire.Unsubscribe(number, subscription.id)
                ),
                again=False,
            )

    async def _is_heard(self) -> bool:
        """Whether the broker has heard what was sent: while somebody slow is to get it, that takes a while."""
        if self._sent and self._connected.is_set():
            try:
                async with asyncio.timeout(self._patience_s):
                    await self._ask(wire.Ping, again=False)
            except TimeoutError:
                return False
            except FairleadError:
                pass  # what is sent may be lost with a connection
        return True

    async def _release(self) -> None:
        """Let go of all durable subscribers: the broker answers when it is safe what they have accepted."""
        installed = [each for each in self._intake.subscriptions.values() if each._installed is not None]
        for name in sorted({each.durable for each in installed if each.durable}):
            with contextlib.suppress(FairleadError):
                await self._ask(lambda number, name=name: wire.Release(number, name), again=False)  # type: ignore[misc]

    def _regulate(self) -> None:
        """Stop reading when too much waits here; but not while an answer is awaited, which comes behind that."""
        awaited = self._publications or self._asked or self._installing or self._advertising
        pause = not awaited and self._intake.waiting > (QUEUE // 2 if self._paused else QUEUE)
        if pause != self._paused and self._wire is not None:
            self._paused = pause
            self._wire.read(not pause)

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
        if notification.id == "":
            raise ValueRefused("an id is not empty", hint="leave it out, and one is given")
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


def _filter(given: str | Filter) -> Filter:
    """What is meant; what cannot be said to a broker is refused here, and not when it is said."""
    made = parse(given) if isinstance(given, str) else given
    if not isinstance(made, Filter):
        raise ValueRefused(
            f"no filter: {given!r}", hint="a text such as 'price > 100', or what `parse` makes"
        )
    render(made)
    return made


def _id_of(durable: str, filter: Filter) -> str:
    """The id of a durable subscription that was given none: the same whenever it is subscribed to."""
    return f"{durable}:{render(filter)}"


def _patience_s(given: Patience) -> float | None:
    if isinstance(given, str | timedelta):
        from fairlead.correlation.patterns.durations import duration_of

        given = duration_of(given) / 1e6
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or math.isnan(given) or given < 0:
        raise ValueRefused(f"patience is a number of seconds, or as '60s', or None: not {given!r}")
    return given


def _micros(given: Since) -> int:
    match given:
        case str():
            return Instant.parse(given).microseconds
        case datetime():
            return Instant.of(given).microseconds
        case Instant():
            return given.microseconds
        case int() if not isinstance(given, bool):
            return given
    raise ValueRefused(
        f"no time: {given!r}", hint="an Instant, a datetime, RFC 3339, or microseconds since 1970"
    )
