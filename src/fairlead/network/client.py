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

    uplink         the connection: dialled again, with requests and their answers
    channel        one socket, and why there is none
    arguments      filters, instants and durations as users write them
    subscriptions  what users hold
    ordering       deliveries in the total order
    intake         what is delivered: each once
    publications   what is published, until it is safe
    requesting     requests and their replies
    client_transactions  publications and accepted deliveries, together or not at all
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from fairlead.channels import Missed, Quality, channels_of, quality_of
from fairlead.conditions import Condition, condition_of
from fairlead.delivery.discovery import Discovered, What, check_what
from fairlead.delivery.sessions import in_session
from fairlead.errors import (
    AccessRefused,
    BrokerRefused,
    ConnectionEnded,
    FairleadError,
    NetworkError,
    NotThere,
    ProtocolError,
    ValueRefused,
)
from fairlead.filters.filter import Filter
from fairlead.filters.language import render
from fairlead.model import Instant, Notification
from fairlead.model.durations import seconds_of
from fairlead.model.encoding import format_json
from fairlead.model.packed import pack
from fairlead.network import wire
from fairlead.network.addresses import Address, Tls
from fairlead.network.arguments import (
    Patience,
    Since,
    addresses_of,
    durable_id,
    filter_of,
    lease_of,
    microseconds_of,
    patience_seconds,
    terms_of,
)
from fairlead.network.channel import Channel
from fairlead.network.client_transactions import Transaction
from fairlead.network.contexts import client_context
from fairlead.network.incarnations import lineage_of, valid_end
from fairlead.network.intake import Intake
from fairlead.network.ordering import OrderedSubscription, is_ordered, order_of
from fairlead.network.publications import Publications, fail
from fairlead.network.requesting import Answer, Requester, Responding
from fairlead.network.roaming import MovedOut, Roaming
from fairlead.network.source import Source
from fairlead.network.subscriptions import Closed, Delivery, Gap, Subscription
from fairlead.network.uplink import Handlers, Uplink
from fairlead.network.wire import OFF
from fairlead.security.principals import SEPARATOR

if TYPE_CHECKING:
    from fairlead.correlation import fair
    from fairlead.correlation.queries import QueryLike
    from fairlead.delivery import Late
    from fairlead.filters.schema import Schema
    from fairlead.log.lineage import Lineage
    from fairlead.network.detection import Detection
    from fairlead.network.hosted import HostedDetection
    from fairlead.network.reports import TypeStatus
    from fairlead.security.credentials import Credentials
    from fairlead.security.sealing import Sealer
    from fairlead.typed import AsyncTyped

__all__ = ["Client", "Delivery", "Linking", "Subscription", "Transaction", "connect"]

log: Final = logging.getLogger(__name__)

T = TypeVar("T")
Publishable: TypeAlias = Mapping[str, Any] | tuple[Any, ...] | Notification
Clock: TypeAlias = Callable[[], Instant]

QUEUE: Final = 10_000
"""The number of notifications that wait in this process before it stops reading; then the broker's policy
decides."""
TURN_BYTES: Final = 1 << 14
"""After so many bytes without an answer to await, other tasks have their turn."""


class Linking(NamedTuple):
    """The result of a request to link two brokers."""

    neighbour: str
    """The broker that it is with; empty as long as it has not answered."""
    waits: str
    """Why the link is not up yet; empty if it is."""


def connect(
    url: str | Sequence[str] = "fairlead://127.0.0.1:7400",
    *,
    name: str | None = None,
    policy: str = "",
    tls: Tls | None = None,
    patience: Patience = 30.0,
    clock: Clock | None = None,
    credentials: Credentials | None = None,
    sealer: Sealer | None = None,
    schema: Schema | None = None,
    will: Publishable | None = None,
    will_delay: Patience = None,
    roams: Patience = None,
    moved_from: MovedOut | str | None = None,
) -> Client:
    """A client of the broker at this address; it connects when it is entered.

    Of several addresses, it connects to the first broker that can be reached, and to another one when that is
    lost. A client with a subscription that is durable, or that began in the past, has a position in the log of its
    broker, and stays with it.

    `name` is the producer of what it publishes. `policy` is what the broker does when this client is slow:
    "drop" the oldest, "block" those who publish, or "disconnect" it. `patience` is how long, in seconds or as
    "60s", it bears without a broker before what waits for one fails; None: for ever. `clock` stamps what is
    published without a time, and says to patterns how time passes where nothing happens; without it, time passes
    with events only. `credentials` are made by `bearer(token)` or `basic(name, password)` of
    `fairlead.security.credentials`, or a function gives them for each connection. A broker with an access policy
    names a client without a `name` after its principal. `sealer` seals what is published and subscribed to, and
    opens what is delivered (`fairlead.security.sealing`): keys and sealed content stay here. `schema` is that of
    the brokers, who refuse another one: patterns are read with it here. Brokers read filters with it in any case.
    `will` is published by the broker when it loses this client: when the connection ends without `close()`, and
    the client is not back within `will_delay` (seconds, or as "5s").

    With `roams` (a time, in seconds or as "1h") the client may go to any of its brokers, and all its subscriptions
    follow: nothing is lost, comes twice or out of its producer's order. What comes while it is nowhere is kept for
    that time. `moved_from` is what `client.move_out()` returned, elsewhere or in another process: this client goes
    on under its name.
    """
    return Client(
        url,
        name=name,
        policy=policy,
        tls=tls,
        patience=patience,
        clock=clock,
        credentials=credentials,
        sealer=sealer,
        schema=schema,
        will=will,
        will_delay=will_delay,
        roams=roams,
        moved_from=moved_from,
    )


class Client:
    """A client of one broker. Use it as an asynchronous context."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        name: str | None,
        policy: str,
        tls: Tls | None,
        patience: Patience,
        clock: Clock | None,
        credentials: Credentials | None = None,
        sealer: Sealer | None = None,
        schema: Schema | None = None,
        will: Publishable | None = None,
        will_delay: Patience = None,
        roams: Patience = None,
        moved_from: MovedOut | str | None = None,
    ) -> None:
        self._roaming = Roaming(roams, moved_from)
        addresses = addresses_of(url)
        for plain in (each for each in addresses if credentials is not None and not each.secure):
            if not plain.is_loopback:
                raise NetworkError(
                    f"credentials for {plain}, where everybody on the path can read them",
                    hint=f"call {plain._replace(secure=True)}",
                )
        self._is_secure = any(each.secure for each in addresses)
        for plain in (each for each in addresses if tls is not None and not each.secure):
            secure = plain._replace(secure=True)
            raise NetworkError(f"certificates for {plain}, where no TLS is spoken", hint=f"call {secure}")
        name = name or self._roaming.name
        self.name = name or f"client-{uuid.uuid4().hex[:12]}"
        self._tls, self._clock, self._credentials = tls, clock, credentials
        self._sealer, self._schema = sealer, schema
        self._will = None if will is None else Notification.of(will)
        delay = seconds_of(will_delay, "a delay")
        self._will_delay = 0 if delay is None else round(delay * 1e6)
        self._connections = 0
        self._policy, self._is_made_up = policy, not name
        self._session = uuid.uuid4().hex[:12]
        self._uplink = Uplink(
            addresses,
            self._hello,
            patience_seconds(patience),
            Handlers(
                self._welcomed,
                self._disconnected,
                self._received,
                self._accepts,
                self._failed,
                self._has_position,
            ),
        )
        self._flowing = asyncio.Event()
        """Set while publications go to the broker: it is connected, and knows what has been advertised."""
        self._log, self._lineage = "", lineage_of(())
        """The log that the offsets of deliveries are about, and its incarnations."""
        self._version = 0
        self._published = 0
        self._named = 0
        self._sent = False
        """Whether something has been sent that the broker need not have heard."""
        self._publications = Publications()
        self._intake = Intake(self.name, self._uplink.tell, self._uplink.schedule, self._regulate)
        self._installing: dict[int, Subscription] = {}
        self._advertised: dict[str, str] = {}
        self._advertising: set[int] = set()
        self._listens: dict[str, tuple[str, Callable[[bool], object]]] = {}
        self._sources: dict[str, Source] = {}
        self._watches: dict[str, tuple[What, str, asyncio.Queue[Discovered]]] = {}
        self._paused = False
        self._closing = False
        self._requester = Requester(self)

    def _hello(self) -> wire.Hello:
        given, self._connections = self._credentials, self._connections + 1
        self._roaming.connections += 1
        return wire.Hello(
            wire.VERSION,
            "client",
            self.name.rpartition(SEPARATOR)[2] if self._is_made_up else self.name,
            self._policy,
            authorization="" if given is None else str(given() if callable(given) else given),
            oldest=wire.OLDEST,
            is_made_up=self._is_made_up,
            schema="" if self._schema is None else self._schema.fingerprint,
            will=b"" if self._will is None else pack(self._sealed(self._last_will(self._will))),
            will_delay=self._will_delay,
            connection=self._roaming.connections,
        )

    def _last_will(self, will: Notification) -> Notification:
        """The will of this connection: each has one of its own."""
        producer = will.producer or ("" if self._is_made_up else self.name)  # the broker knows a name made up
        return replace(will, id=f"will-{self._session}-{self._connections}", producer=producer)

    @property
    def address(self) -> Address:
        """The address of the broker it is connected to, or calls."""
        return self._uplink.address

    @property
    def broker(self) -> str:
        """The name of the broker it is connected to."""
        return self._uplink.broker

    @property
    def lineage(self) -> Lineage:
        """The incarnations of the log that the ordinals of deliveries are about."""
        return self._lineage

    @property
    def duplicates(self) -> int:
        """The number of publications that were duplicates: published before under the same producer and id."""
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

    def _abandon(self) -> None:
        """Wait for nothing that is in flight: what follows, `close` included, need not end with an answer."""
        self._uplink.fail(Closed("the client is closed"))

    async def open(self) -> None:
        """Connect. ConnectionEnded if no broker can be reached, BrokerRefused if the broker refuses."""
        context = client_context(self._tls) if self._is_secure else None
        self._uplink.open(context)
        try:
            await self._uplink.until(self._uplink.connected)
        except BaseException:
            self._abandon()
            await self.close()
            raise

    async def close(self) -> None:
        """Wait until all publications are acknowledged and all sent notifications were received, then
        disconnect.

        ConnectionEnded, when the client's patience is over before the broker has heard what was sent.
        """
        if self._closing:
            return
        unheard, uplink = False, self._uplink
        if uplink.failure is None:
            await self._publications.settled()
            unheard = not await self._is_heard()
        self._closing = True
        for subscription in list(self._intake.subscriptions.values()):
            subscription._end(Closed("the client is closed"))
        if uplink.failure is None and uplink.connected.is_set():
            uplink.flush()  # what has been accepted, first
            await self._release()
        if uplink.channel is not None:
            uplink.tell(wire.Bye("done"))
        uplink.fail(Closed("the client is closed"))
        await uplink.close()
        if unheard:
            raise ConnectionEnded(
                f"{self.broker} did not receive all notifications in time: one of the destinations is slow",
                hint="`fairlead top` names it; connect(…, patience=…) waits longer",
            )

    # -- what users ask ----------------------------------------------------------------------------------------

    async def publish(self, given: Publishable) -> Notification:
        """Publish, and return the notification with its id and producer when it is synced in the broker's log."""
        notification = self._identified(given)
        packed = pack(self._sealed(notification))
        self._uplink.check_open()
        self._uplink.check_size(len(packed) + 9)
        await self._publications.room()
        self._uplink.check()
        number = self._uplink.next_number()
        await self._stored(number, wire.publish(number, packed))
        return notification

    def _stored(self, number: int, frame: bytes) -> asyncio.Future[None]:
        """Send the frame of a publication, now and with later connections; when it is acknowledged."""
        stored = self._publications.add(number, frame)
        self._roaming.has_published = True
        if self._paused:
            self._regulate()
        if self._flowing.is_set():
            self._send_publication(number, frame)
        return stored

    async def _commit(self, transaction: wire.Transaction) -> asyncio.Future[None]:
        """Send a transaction; when all of it is safe."""
        self._uplink.check_open()
        await self._publications.room()
        await self._uplink.until(self._flowing)
        if self._version < wire.TRANSACTIONS_SINCE:
            raise BrokerRefused(f"{self.broker} knows of no transactions", hint="upgrade the broker")
        number = self._uplink.next_number()
        frame = wire.transaction(number, transaction)
        self._uplink.check_size(len(frame) - 4)
        return self._stored(number, frame)

    def transaction(self, *subscriptions: Subscription) -> Transaction:
        """Begin a transaction: what is published in it, and what is taken of these durable subscriptions in it,
        takes place together, or not at all. Use it as an asynchronous context."""
        return Transaction(self, subscriptions)

    def of(self, cls: type[T]) -> AsyncTyped[T]:
        """This client for instances of a class: a dataclass, a Struct of msgspec, or a model of pydantic.

        Its `publish` takes instances, its subscriptions deliver them (`fairlead.typed`).
        """
        from fairlead.typed import AsyncTyped

        return AsyncTyped(self, cls, self._schema)

    async def send(self, given: Publishable) -> Notification:
        """Publish without an answer: it is not logged, and may be lost with a connection or a broker."""
        notification = self._identified(given)
        packed = pack(self._sealed(notification))
        uplink = self._uplink
        await uplink.until(self._flowing)
        uplink.check_size(len(packed) + 9)
        uplink.send(wire.publish(0, packed))
        self._sent = True
        if uplink.out_bytes >= TURN_BYTES:
            uplink.flush()
            await asyncio.sleep(0)
        if uplink.channel is not None:
            await uplink.channel.may_write.wait()
        return notification

    def subscribe(
        self,
        filter: str | Filter,
        *,
        durable: str = "",
        since: Since | None = None,
        id: str | None = None,
        shared: bool = False,
        per: str = "",
        window: int = 0,
        attempts_max: int = 0,
        accept_within: Patience = None,
        lease: Patience = None,
        order: str = "live",
        lateness: int | str = 0,
        until: Since | None = None,
        backfill: Since | None = None,
        context: str | Filter | None = None,
        on_late: Callable[[Late], object] | None = None,
        retained: Literal["send", "only", "no"] = "send",
        on: str | Condition | None = None,
        want: str | Quality | None = None,
        on_missed: Callable[[Missed], object] | None = None,
    ) -> Subscription:
        """Subscribe to what a filter matches.

        With a name in `durable`, nothing that is published from now on is lost, whether or not this client is
        there: who subscribes again under the name, to the same, goes on where it was. `since` begins in the past,
        as far as the broker's log goes back.

        A durable name that is `shared` has several members: each notification goes to one of them, the one with
        the fewest that are not accepted, and at most `window` of them; with `per`, an attribute, those with one
        value of it go to one member while it has any of them. What is not accepted within `accept_within`
        (seconds, or as "30s") comes again, perhaps to another member. After `attempts_max` attempts that were
        rejected or not accepted in time, it is published as a dead letter instead, of the type "dead".

        A durable name with a `lease` (seconds, or as "10min") ends when nobody has been there for it for so long;
        the broker may grant less: `subscription.lease` is what it has.

        With `order="ordered"`, deliveries come in the one total order, as those of an ordered bus: each when
        the newest event is `lateness` (microseconds, or as "5s") ahead, and all brokers have told that nothing
        before it is on its way. Then `since` and `until` are times of events: the order keys for which the
        subscription is valid; `backfill` begins in the past of the broker's log. `context` is a filter on what
        else has a say in the order, because others follow it: smaller sequence numbers whose times are later,
        and causes. `on_late` is called with what comes behind its place. All brokers need a log.

        What channels retain and the filter matches comes first, unless `retained` is "no", and says so; with
        "only", nothing else comes. A subscription that begins in the past, is shared or ordered gets none of it. A
        durable subscriber gets it once; one that is not durable, again when it was disconnected.

        `on` is a condition beside the filter, such as "celsius changes by 1, per room" (`fairlead.conditions`): of
        what matches, only what the condition lets pass is handed over. It is judged here, and its history is that
        of this subscription: one that is made again begins anew, also under a durable name.

        `want` is the least quality of service that the channels of the filter have to offer, such as
        "order=producer, deadline=10s, durability=logged": otherwise BrokerRefused names the channel. `on_missed`
        is called where a channel has a deadline, and nothing of a key has come in time.
        """
        if retained not in ("send", "only", "no"):
            raise ValueRefused(f"retained values are asked for by 'send', 'only' or 'no', not {retained!r}")
        self._uplink.check()
        terms = terms_of(
            durable,
            shared=shared,
            per=per,
            window=window,
            attempts_max=attempts_max,
            accept_within=accept_within,
        )
        for given in (durable, id or ""):
            if not isinstance(given, str):
                raise ValueRefused(f"a name is a string, not {given!r}")
        lease_us, is_roaming = lease_of(durable, lease), False
        if self._roaming.lease_us and not (since is not None or order != "live" or retained == "only"):
            lease_us = lease_us or self._roaming.lease_us
            if not durable:
                is_roaming = True
                durable = self._roaming.durable_name(self.name, str(id or filter), self._intake.of)
        wanted = "" if want is None else str(quality_of(want))
        condition = None if on is None else condition_of(on)
        if condition is not None and shared:
            raise ValueRefused(
                "a condition is about all that is delivered, and a member of a shared subscriber gets a part",
                hint="leave `on` or `shared` out",
            )
        clear = filter_of(filter, self._schema)
        ordering = order_of(
            order,
            clear,
            lateness=lateness,
            since=since,
            until=until,
            backfill=backfill,
            context=None if context is None else filter_of(context, self._schema),
            on_late=on_late,
            terms=terms,
        )
        clear = clear if ordering is None else ordering.wanted
        made = clear if self._sealer is None else self._sealer.filter(clear)
        name = id or (durable_id(durable, made) if durable else self._fresh("s"))
        if name in self._intake.subscriptions:
            raise BrokerRefused(f"there is a subscription {name!r} already")
        began = since if ordering is None else backfill
        began = None if began is None else microseconds_of(began)
        subscription: Subscription
        if ordering is None:
            subscription = Subscription(self, name, made, durable, began, terms=terms, on=condition)
        else:
            subscription = OrderedSubscription(
                self, name, made, durable, began, order=ordering, on_late=on_late, on=condition
            )
        subscription._lease_us, subscription._want = lease_us, wanted
        subscription._on_missed, subscription._is_roaming = on_missed, is_roaming
        if self._sealer is not None:
            subscription._open_with(self._sealer, clear)
        subscription._retained = (
            retained != "no" and since is None and ordering is None and not terms.is_shared
        )
        subscription._is_of_past = retained == "only"
        if retained == "only" and (durable or not subscription._retained):
            raise ValueRefused("a subscription to retained values only has none of the other terms")
        self._intake.add(subscription)
        return subscription

    async def retained(self, filter: str | Filter = "true") -> list[Notification]:
        """The values that channels retain, at all brokers, and a filter matches."""
        subscription = self.subscribe(filter, retained="only")
        await subscription.installed()
        values = [each.notification for each in subscription.take_waiting()]
        await subscription.close()
        return values

    def detect(
        self,
        pattern: QueryLike,
        *,
        lateness: int | str = 0,
        since: Since | None = None,
        choice: fair.Choice | str | None = None,
        publish: bool = False,
        order: str = "live",
    ) -> Detection:
        """Subscribe to the composite events of a pattern, or to the relations of a fair subscription.

        What they are about is subscribed to, held until the newest event is `lateness` (microseconds, or as
        "5s") ahead, and looked at in the one total order: what is found is what an ordered bus finds. With
        `publish`, composites are published, too, before they are handed out.

        Over several brokers the relations of a fair subscription may differ between clients: an event that is late
        at one client need not be late at another. With `order="ordered"` they do not: each event is looked at when
        all brokers have told that nothing before it is on its way, as with `subscribe`.
        """
        from fairlead.correlation.queries import Query
        from fairlead.network.detection import Detection, OrderedDetection

        made = OrderedDetection if is_ordered(order) else Detection
        return made(self, Query.of(pattern, choice, self._schema), lateness, since, publish=publish)

    def hosted(
        self,
        pattern: QueryLike,
        *,
        choice: fair.Choice | str | None = None,
        durable: str = "",
        since: Since | None = None,
    ) -> HostedDetection:
        """Subscribe to what a detector at a broker finds: the composite events of a pattern, or the relations of a
        fair subscription.

        All who ask for the same get the same results in the same order. The detector begins with the first of
        them, is found by hash among the hosts of the network, and goes on where it was when its broker is killed.
        """
        from fairlead.correlation.queries import Query
        from fairlead.network.hosted import HostedDetection

        return HostedDetection(self, Query.of(pattern, choice, self._schema), durable, since)

    async def forget(self, durable: str, filter: str | Filter | None = None) -> None:
        """End a durable subscriber, with its backlog.

        With a filter, end only its subscription to that; with the last one, it ends.
        """
        if not durable:
            raise ValueRefused("a durable subscriber has a name, which is not empty")
        id = "" if filter is None else durable_id(durable, filter_of(filter, self._schema))
        for subscription in self._intake.of(durable):
            if not id or subscription.id == id:
                self._let_go(subscription, Closed("the durable subscription has been ended"), forgotten=True)
        if not self._intake.of(durable):
            self._intake.forget(durable)
        await self._request_end(lambda number: wire.Unsubscribe(number, id, durable))

    async def request(self, event: Publishable, *, timeout: Patience = 5.0) -> Notification:
        """Send a request, and return the first reply. Requester and responders do not name each other.

        NobodyListens, at once, where nobody is on its way: it is then not published. NoReply where none comes in
        time. Requests and replies are best effort.
        """
        return await self._requester.request(event, timeout)

    def requests(
        self, event: Publishable, *, timeout: Patience = 5.0, enough: int | None = None
    ) -> AsyncIterator[Notification]:
        """Send a request, and iterate over the replies that come within `timeout`, at most `enough` of them."""
        return self._requester.requests(event, timeout, enough)

    def responding(self, filter: str | Filter, answer: Answer) -> Responding:
        """Reply to the requests that match a filter, while the context is entered, with what `answer(request)`
        returns, or what comes of awaiting that; None is no reply."""
        return Responding(self, filter, answer)

    async def redrive(self, durable: str) -> dict[str, int]:
        """Have the dead deliveries of a durable subscriber handed out again: how many are `redriven`, and how many
        are `gone`, because the log has them no more."""
        answer: dict[str, int] = await self._request(lambda number: wire.Redrive(number, durable))
        return answer

    async def advertise(self, filter: str | Filter, *, id: str | None = None) -> str:
        """Say what will be published; the id is for `unadvertise`."""
        text = render(filter_of(filter, self._schema))
        name = id or self._fresh("a")
        await self._request(lambda number: wire.Advertise(number, name, text))
        self._advertised[name] = text
        return name

    async def unadvertise(self, id: str) -> None:
        """Take an advertisement back."""
        is_known = self._advertised.pop(id, None) is not None
        self._uplink.check_open()
        if self._uplink.connected.is_set() or not is_known:  # otherwise it has ended with the connection
            await self._request_end(lambda number: wire.Unadvertise(number, id))

    async def listening(self, filter: str | Filter, tell: Callable[[bool], object]) -> str:
        """Have `tell` called with whether a filter has subscribers: now, and when it changes."""
        text = render(filter_of(filter, self._schema))
        name = self._fresh("l")
        self._listens[name] = (text, tell)
        try:
            await self._request(lambda number: wire.Listen(number, name, text))
        except BaseException:
            del self._listens[name]
            raise
        return name

    async def unlisten(self, id: str) -> None:
        """End the calls."""
        self._listens.pop(id, None)
        await self._request(lambda number: wire.Listen(number, id))

    async def anyone_listens(self, filter: str | Filter) -> bool:
        """Whether anyone, but this client, listens to what a filter matches."""
        heard: list[bool] = []
        await self.unlisten(await self.listening(filter, heard.append))
        return heard[0]

    def source(self, filter: str | Filter, *, linger: Patience = "5s") -> Source:
        """A source of what a filter matches: it publishes only while somebody listens. Use it as an asynchronous
        context. It is quenched when nobody has listened for as long as `linger`."""
        return Source(self, filter, linger)

    async def wants(self, filter: str | Filter = "true") -> Discovered:
        """The part of a filter that others subscribe to, without their names, and that this client may publish.

        The answer covers every subscription that was acknowledged before the question.
        """
        return await self._discovered("wants", filter)

    async def offers(self, filter: str | Filter = "true") -> Discovered:
        """The part of a filter that others advertise, and that this client may subscribe to. The brokers know it
        where they route by advertisements."""
        return await self._discovered("offers", filter)

    async def _discovered(self, what: What, filter: str | Filter, id: str = "") -> Discovered:
        text = render(filter_of(filter, self._schema))
        await self._uplink.until(self._flowing)
        if self._version < wire.DISCOVERY_SINCE:
            raise BrokerRefused(f"{self.broker} does not say what others want", hint="upgrade the broker")
        answer = await self._request(lambda number: wire.Discover(number, what, text, id))
        return Discovered.of(answer, self._schema)

    async def watch(self, what: What, filter: str | Filter = "true") -> AsyncGenerator[Discovered, None]:
        """The answer of `wants` or `offers` (that is `what`): now, and whenever it changes."""
        text, name = render(filter_of(filter, self._schema)), self._fresh("w")
        changes: asyncio.Queue[Discovered] = asyncio.Queue()
        self._watches[name] = (check_what(what), text, changes)
        try:
            last = await self._discovered(what, filter, name)
            while True:
                yield last
                while (answer := await changes.get()) == last:
                    pass
                last = answer
        finally:
            del self._watches[name]
            if not self._closing and self._uplink.connected.is_set():
                self._uplink.tell(wire.Discover(0, what, "", name))

    async def status(self) -> dict[str, Any]:
        """The status of the broker, in figures."""
        answer: dict[str, Any] = await self._request(lambda number: wire.ReportRequest(number, "status"))
        return answer

    async def tables(self) -> dict[str, Any]:
        """The broker's routing tables."""
        answer: dict[str, Any] = await self._request(lambda number: wire.ReportRequest(number, "tables"))
        return answer

    async def examine(self, what: str, **about: Any) -> dict[str, Any]:
        """The answer to `find`, `explain`, `scopes` or `clients`, of the broker (`network.examining`)."""
        text = format_json(about) if about else ""
        answer: dict[str, Any] = await self._request(lambda number: wire.ReportRequest(number, what, text))
        return answer

    async def channels(self) -> list[dict[str, Any]]:
        """The channels of the network: the first that matches a notification is its channel."""
        answer: list[dict[str, Any]] = await self._request(
            lambda number: wire.ReportRequest(number, "channels")
        )
        return answer

    async def durables(self) -> list[dict[str, Any]]:
        """The broker's durable subscribers with their backlogs, the one with the oldest first."""
        answer: list[dict[str, Any]] = await self._request(
            lambda number: wire.ReportRequest(number, "durables")
        )
        return answer

    async def end_client(self, name: str) -> None:
        """Have the broker end the connection of a client; NotThere, if there is none."""
        await self._request(lambda number: wire.Operate(number, "end", name))

    async def drain(self, *, undo: bool = False) -> int:
        """Have the broker end the connections of all other clients, and take none until that is undone.

        It takes clients that are called `operator`. How many connections it ended.
        """
        action = "resume" if undo else "drain"
        answer = await self._request(lambda number: wire.Operate(number, action))
        ended: int = answer["ended"]
        return ended

    async def authenticate(self, credentials: Credentials) -> None:
        """Show new credentials of the same principal, now and with later connections."""
        given = str(credentials() if callable(credentials) else credentials)
        await self._request(lambda number: wire.Authenticate(number, given), again=False)
        self._credentials = credentials

    async def delegate(
        self,
        to: str,
        *,
        subscribe: Sequence[str] = (),
        publish: Sequence[str] = (),
        advertise: Sequence[str] = (),
        until: str | Instant | None = None,
    ) -> str:
        """Give another principal a part of this one's rights, as filters, until an instant; Forbidden.

        The id of the delegation, for `undelegate`.
        """
        id = uuid.uuid4().hex[:16]
        ends = Instant.parse(until) if isinstance(until, str) else until
        filters = [*subscribe], [*publish], [*advertise], None if ends is None else ends.microseconds
        await self._request(lambda number: wire.Delegate(number, id, to, *filters))
        return id

    async def undelegate(self, id: str, *, by: str = "") -> None:
        """End a delegation at once; with the right to manage, that of another giver."""
        await self._request(lambda number: wire.Undelegate(number, id, by))

    async def declare_type(
        self,
        name: str,
        *,
        subscribe: Sequence[str] = (),
        publish: Sequence[str] = (),
        form: Sequence[str] = (),
    ) -> None:
        """Declare a type, or alter one's own: who declares it owns it. Forbidden, where another does.

        The filters are as those of `[types.NAME]` in a policy: of this type, others get what one of `subscribe`
        matches, publish what one of `publish` matches, and everybody publishes what one of `form` matches. It is
        in effect at all connected brokers when this returns.
        """
        filters = [*subscribe], [*publish], [*form]
        await self._request(lambda number: wire.DeclareType(number, name, *filters))

    async def remove_type(self, name: str) -> None:
        """Declare a type no longer; with the right to manage, that of another owner."""
        await self._request(lambda number: wire.RemoveType(number, name))

    async def types(self) -> list[TypeStatus]:
        """The types that were declared by calls; it takes the right to inspect."""
        types: list[TypeStatus] = await self._request(lambda number: wire.ReportRequest(number, "types"))
        return types

    async def reload(self) -> None:
        """Have the broker read its certificates, keys and access policy anew; BrokerRefused if they are wrong."""
        await self._request(lambda number: wire.Operate(number, "reload"))

    async def trace(self, sample: float | None = 1.0) -> None:
        """Have the broker trace what happens at its interface, for the audit, of such a part of all notifications.

        None: no more. It goes on when the broker is started anew.
        """
        name = OFF if sample is None else str(sample)
        await self._request(lambda number: wire.Operate(number, "trace", name))

    async def link(self, url: str) -> Linking:
        """Have the broker call another one, and stay linked to it; BrokerRefused, where that cannot be.

        A broker that is away is waited for, over restarts, too: then the answer says so.
        """
        answer = await self._request(lambda number: wire.Link(number, str(Address.parse(url))))
        return Linking(answer["neighbour"], answer["waits"])

    async def unlink(self, neighbour: str) -> None:
        """Have the broker end a link: to the neighbour of that name, or to the address that it waits for."""
        await self._request_end(lambda number: wire.Unlink(number, neighbour))

    # -- what the broker sends ---------------------------------------------------------------------------------

    def _received(self, channel: Channel, kind: int, payload: bytes) -> None:
        if kind == wire.DELIVER:
            self._intake.delivered(*wire.parse_deliver(payload))
        elif kind == wire.STORED:
            self._publications.stored(wire.parse_numbered(payload)[0])
        elif kind == wire.CONTROL:
            self._dispatch(channel, wire.parse_control(payload))
        else:
            raise ProtocolError(f"brokers do not send frames of the kind {kind} to clients")

    def _dispatch(self, channel: Channel, message: wire.Control) -> None:
        match message:
            case wire.Welcome():
                self._version = wire.agreed_version(message.version, 0)
                self._uplink.welcome(channel, message)
            case wire.Done(number):
                self._answered(number, None)
            case wire.Response(number, answer):
                self._answered(number, answer)
            case wire.Refused(number, reason, durable, is_missing, is_forbidden):
                kind = AccessRefused if is_forbidden else NotThere if is_missing else BrokerRefused
                self._refused(number, kind(reason), durable)
            case wire.Leased(durable, lease):
                self._intake.leased(durable, lease / 1e6)
            case wire.Moved(durable, counter, is_new):
                self._moved(durable, counter, is_new=is_new)
            case wire.Offered(id, tables):
                self._offered(id, tables)
            case wire.Gapped(id, gaps):
                if (subscription := self._intake.subscriptions.get(id)) is not None:
                    subscription.gaps = tuple(
                        Gap(broker, None if begins < 0 else Instant(begins)) for broker, begins in gaps
                    )
            case wire.Granted(id, text, False):
                if (subscription := self._intake.subscriptions.get(id)) is not None:
                    subscription.granted = filter_of(text, self._schema)
            case wire.Repeated(number):
                self._publications.repeated(number)
            case wire.Dropped(count):
                for subscription in self._intake.subscriptions.values():
                    if not subscription.durable:
                        subscription.dropped += count
            case wire.Listening(id, anyone):
                self._tell_listener(id, anyone)
            case wire.Wake(id):
                if id in self._sources:
                    self._sources[id].wake()
                else:
                    self._uplink.tell(wire.Awake(id))
            case wire.Discovered(id, answer):
                if id in self._watches:
                    self._watches[id][2].put_nowait(Discovered.of(answer, self._schema))
            case wire.Ping():
                self._uplink.tell(wire.Pong())
            case wire.Bye(reason, _, is_final):
                channel.reason = reason
                # A client that was welcome before is so again some time, and perhaps at another address.
                if is_final or not (self.broker or self._uplink.has_others):
                    self._uplink.fail(BrokerRefused(reason))
                channel.abort()
            case _:
                pass

    def _offered(self, id: str, tables: list[dict[str, Any]]) -> None:
        subscription = self._intake.subscriptions.get(id)
        try:
            channels = channels_of(tables, self._schema)
        except FairleadError as error:
            log.warning("%s: the channels cannot be read here: %s", self.broker, error)
            return
        if subscription is not None:
            subscription._offered(channels)

    def _welcomed(self, message: wire.Welcome) -> None:
        """A connection stands: say again what the broker may not know, then publish what was not acknowledged."""
        uplink = self._uplink
        self._paused = False
        self.name = message.name
        lineage, has_moved = lineage_of(message.lineage), self._roaming.arrive(message.broker)
        if has_moved:
            self._intake.go_elsewhere()
        elif message.log != self._log:
            self._intake.go_back(0)
        else:
            self._intake.go_back(valid_end(sys.maxsize, self._lineage, lineage, message.end))
        self._log, self._lineage = message.log, lineage
        self._advertising.clear()
        for id, text in self._advertised.items():
            number = uplink.next_number()
            self._advertising.add(number)
            uplink.tell(wire.Advertise(number, id, text))
        if self._roaming.moves and self._roaming.has_published:
            number = uplink.next_number()
            self._advertising.add(number)
            uplink.tell(wire.Follow(number, self._publications.identities))
        for id, (text, _) in self._listens.items():
            uplink.tell(wire.Listen(0, id, text))
        for id, (what, text, _) in self._watches.items():
            uplink.tell(wire.Discover(0, what, text, id))
        self._installing.clear()
        for subscription in list(self._intake.subscriptions.values()):
            if subscription._installed is not None:
                self._send_subscribe(subscription)
        if not self._advertising:
            self._flow()

    def _moved(self, durable: str, counter: int, *, is_new: bool) -> None:
        if is_new and any(each.is_installed for each in self._intake.of(durable)):
            log.warning(
                "no broker knows the durable subscriber %s: it begins anew at %s", durable, self.broker
            )
        self._intake.moved(durable, counter, is_new=is_new)

    async def move(self, url: str | Sequence[str]) -> None:
        """Go to another broker, with all subscriptions that are durable, or may roam.

        When it returns, the client is connected there and its subscriptions have taken effect. What is for them
        at the broker before comes first. Publications are not acknowledged before all that this client published
        before has come wherever it has to.
        """
        addresses = addresses_of(url)
        if any(not each.secure for each in addresses) and self._credentials is not None:
            raise NetworkError("credentials are sent to addresses of fairleads:// alone")
        if any(each.secure for each in addresses) and not self._is_secure:
            raise NetworkError("this client was made without TLS", hint="move to an address of fairlead://")
        self._uplink.check_open()
        self._roaming.is_moving = True
        if self._has_position():
            self._roaming.is_moving = False
            raise ValueRefused(
                "a subscription that began in the past, and is not durable, goes on at its broker alone",
                hint="give it a durable name",
            )
        for subscription in self._intake.subscriptions.values():
            if subscription._installed is not None:
                subscription._installed = asyncio.get_running_loop().create_future()
        self._uplink.go_to(addresses)
        await self._uplink.until(self._uplink.connected)
        for subscription in [*self._intake.subscriptions.values()]:
            if subscription._installed is not None:
                await subscription.installed()

    async def move_out(self) -> MovedOut:
        """Leave the broker: all that was dealt with is accepted, and the connection ends.

        Its durable subscribers are kept. Who connects elsewhere with `moved_from=` what this returns goes on under
        the client's name.
        """
        left = self._roaming.move_out(self.name)
        await self.close()
        return left

    def _disconnected(self) -> None:
        self._flowing.clear()
        for source in self._sources.values():
            source.lost()

    def _has_position(self) -> bool:
        """Whether another broker would not know where a subscription goes on."""
        roams = self._roaming.roams
        return any(
            (each.durable and not roams) or each.since is not None or each._is_ordered
            for each in self._intake.subscriptions.values()
        )

    def _accepts(self) -> list[wire.Control]:
        return self._intake.take_accepts()

    def _flow(self) -> None:
        """All brokers know what has been advertised, and what others want of that is known here: publish."""
        self._flowing.set()
        for number, frame in self._publications.again():
            if len(frame) - 4 > self._uplink.frame_max:
                self._refused(number, BrokerRefused(str(self._uplink.too_long(len(frame) - 4))))
            else:
                self._send_publication(number, frame)

    def _send_publication(self, number: int, frame: bytes) -> None:
        self._publications.sent(number)
        self._uplink.send(frame)

    def _advertised_again(self, number: int) -> bool:
        """Whether that is an answer to what was advertised before, which publications wait for."""
        if number not in self._advertising:
            return False
        self._advertising.discard(number)
        if not self._advertising:
            self._flow()
        return True

    def _failed(self, error: FairleadError) -> None:
        """There will be no connection any more: nobody waits for one."""
        self._publications.refuse_all(error)
        for subscription in self._intake.subscriptions.values():
            subscription._end(error)
            if subscription._installed is not None:
                fail(subscription._installed, error)

    # -- requests ----------------------------------------------------------------------------------------------

    async def _request(self, make: Callable[[int], wire.Control], *, again: bool = True) -> Any:
        return await self._uplink.request(make, again=again, sent=self._read_for_answers)

    async def _request_end(self, make: Callable[[int], wire.Control]) -> None:
        await self._uplink.request_end(make, sent=self._read_for_answers)

    def _read_for_answers(self) -> None:
        """An answer comes behind what waits: read on, whatever waits here."""
        if self._paused:
            self._regulate()

    def _answered(self, number: int, answer: Any) -> None:
        if self._advertised_again(number):
            return
        subscription = self._installing.pop(number, None)
        if subscription is not None and subscription._installed is not None:
            if not subscription._installed.done():
                subscription._installed.set_result(None)
            return
        self._uplink.answer(number, answer)

    def _refused(self, number: int, error: BrokerRefused, durable: str = "") -> None:
        subscription = self._installing.pop(number, None)
        if durable:
            for each in self._intake.of(durable):
                self._let_go(each, error)
            self._intake.forget(durable)
        elif subscription is not None:
            self._let_go(subscription, error)
        elif not (
            self._uplink.refuse(number, error)
            or self._publications.refuse(number, error)
            or self._advertised_again(number)
        ):
            log.warning("%s", error)

    # -- subscriptions -----------------------------------------------------------------------------------------

    def _install(self, subscription: Subscription) -> asyncio.Future[None]:
        uplink = self._uplink
        if not uplink.is_open:
            uplink.check_open()
        subscription._installed = asyncio.get_running_loop().create_future()
        if uplink.failure is not None:
            fail(subscription._installed, uplink.failure)
        elif uplink.connected.is_set():
            self._send_subscribe(subscription)
        return subscription._installed

    def _subscribe_message(self, number: int, subscription: Subscription) -> wire.Subscribe:
        terms, is_new = subscription.terms, subscription.since is None
        return wire.Subscribe(
            number,
            subscription.id,
            render(subscription.filter),
            subscription.durable,
            subscription.since,
            terms.is_shared,
            terms.per,
            terms.window,
            terms.attempts_max,
            terms.accept_within_us,
            subscription._is_ordered,
            subscription._seen if subscription._is_ordered and not subscription.durable and is_new else 0,
            subscription._retained,
            subscription._lease_us,
            subscription._instead,
            subscription._want,
            not is_new,
            self._roaming.moves,
        )

    def _send_subscribe(self, subscription: Subscription) -> None:
        number = self._uplink.next_number()
        frame = wire.control(self._subscribe_message(number, subscription))
        if len(frame) - 4 > self._uplink.frame_max:
            self._let_go(subscription, self._uplink.too_long(len(frame) - 4))
        else:
            self._installing[number] = subscription
            self._uplink.send(frame)
            self._read_for_answers()

    async def _change(self, subscription: Subscription, filter: str | Filter) -> None:
        """Have another filter in the place of a subscription's."""
        if subscription._is_ordered or subscription._is_of_past or subscription.terms.is_shared:
            raise ValueRefused(
                "what is in the total order, of the past alone or shared keeps its filter",
                hint="subscribe to the other filter beside it",
            )
        await subscription.installed()
        clear = filter_of(filter, self._schema)
        made = clear if self._sealer is None else self._sealer.filter(clear)
        if subscription._ended is not None:
            raise subscription._ended
        before = subscription.id, subscription.filter, subscription.granted, subscription._clear
        channels = subscription._channels
        id, durable = before[0], subscription.durable
        name = durable_id(durable, made) if durable and id == durable_id(durable, before[1]) else id
        if name != id and name in self._intake.subscriptions:
            raise BrokerRefused(f"there is a subscription {name!r} already")
        self._set_filter(subscription, name, made, made, clear)
        subscription._instead = id
        try:
            await self._request(lambda number: self._subscribe_message(number, subscription))
        except BrokerRefused:
            if self._intake.subscriptions.get(name) is subscription:
                self._set_filter(subscription, *before)
                if channels is not None:
                    subscription._offered(channels)
            raise
        finally:
            subscription._instead = ""

    def _set_filter(
        self, subscription: Subscription, id: str, filter: Filter, granted: Filter, clear: Filter
    ) -> None:
        if id != subscription.id:
            self._intake.rename(subscription, id)
        subscription.filter, subscription.granted, subscription._clear = filter, granted, clear

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
        if subscription._installed is None or not self._uplink.connected.is_set():
            return  # the broker knows nothing of it, or nothing any more
        with contextlib.suppress(FairleadError):
            self._uplink.flush()  # what has been accepted, first
            await self._request(
                lambda number: (
                    wire.Unsubscribe(number, "" if name else subscription.id, name)
                    if subscription._is_roaming or not name
                    else wire.Release(number, name)
                ),
                again=False,
            )

    async def _is_heard(self) -> bool:
        """Whether the broker has heard what was sent: while somebody slow is to get it, that takes a while."""
        if self._sent and self._uplink.connected.is_set():
            try:
                async with asyncio.timeout(self._uplink.patience_s):
                    await self._request(wire.Ping, again=False)
            except TimeoutError:
                return False
            except FairleadError:
                pass  # what is sent may be lost with a connection
        return True

    async def _release(self) -> None:
        """Let go of all durable subscribers: the broker answers when it is safe what they have accepted."""
        installed = [each for each in self._intake.subscriptions.values() if each._installed is not None]
        ending = {each.durable for each in installed if each._is_roaming and not self._roaming.is_leaving}
        for name in sorted({each.durable for each in installed if each.durable}):

            def let_go(number: int, name: str = name) -> wire.Control:
                return wire.Unsubscribe(number, "", name) if name in ending else wire.Release(number, name)

            with contextlib.suppress(FairleadError):
                await self._request(let_go, again=False)

    def _regulate(self) -> None:
        """Stop reading when too much waits here; but not while an answer is awaited, which comes behind that."""
        awaited = self._publications or self._uplink.has_requests or self._installing or self._advertising
        pause = not awaited and self._intake.waiting > (QUEUE // 2 if self._paused else QUEUE)
        channel = self._uplink.channel
        if pause != self._paused and channel is not None:
            self._paused = pause
            channel.read(not pause)

    def _tell_listener(self, id: str, anyone: bool) -> None:
        if id in self._listens:
            try:
                self._listens[id][1](anyone)
            except Exception:  # what became of it is not the connection's concern
                log.exception("the callback of a listener has failed")

    def _fresh(self, kind: str) -> str:
        self._named += 1
        return f"{kind}{self._named}-{self._session}"

    def _sealed(self, notification: Notification) -> Notification:
        return notification if self._sealer is None else self._sealer.seal(notification)

    def _identified(self, given: Publishable) -> Notification:
        notification = in_session(Notification.of(given))
        if notification.id == "":
            raise ValueRefused("an id is not empty", hint="leave it out, and one is given")
        changes: dict[str, Any] = {}
        if self._clock is not None and notification.time is None:
            notification = notification.stamped(self._clock())
        if not notification.producer:
            changes["producer"] = self.name
        if notification.id is None:
            self._published += 1
            changes["id"] = f"{self._session}-{self._published}"
        return replace(notification, **changes) if changes else notification
