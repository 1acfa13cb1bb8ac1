"""The client for code without an event loop: the same names, and every call waits.

    with sync.connect("fairlead://localhost:7400", name="desk") as client:
        client.publish({"symbol": "IBM", "price": 101.5})
        with client.subscribe("price > 100", durable="desk") as quotes:
            for notification in quotes:
                ...

It is the asynchronous client, on a loop in a thread of its own, and promises what that one promises. Several
threads may use it. A notification is dealt with when the next one is asked for; with `delivery()`, when it is
accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from fairlead.channels import Missed, Quality
from fairlead.conditions import Condition
from fairlead.delivery.discovery import Discovered, What
from fairlead.errors import ConnectionEnded, NotAcknowledged, SubscriptionEnded, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.model import Instant, Notification
from fairlead.model.order import OrderKey
from fairlead.network import client as asynchronous
from fairlead.network import source
from fairlead.network.addresses import Address, Tls
from fairlead.network.arguments import Patience, Since
from fairlead.network.client import Clock, Linking, Publishable
from fairlead.network.ordering import OrderedSubscription
from fairlead.network.requesting import Answer, Responding
from fairlead.network.roaming import MovedOut
from fairlead.network.subscriptions import Closed, Gap
from fairlead.network.survey import surveyed

if TYPE_CHECKING:
    from fairlead.correlation import fair, patterns
    from fairlead.correlation.patterns.building import Expression
    from fairlead.delivery import Late
    from fairlead.filters.schema import Schema
    from fairlead.log.lineage import Lineage
    from fairlead.network import detection, hosted
    from fairlead.network.reports import TypeStatus
    from fairlead.security.credentials import Credentials
    from fairlead.security.sealing import Sealer
    from fairlead.typed import Typed

__all__ = [
    "Client",
    "Delivery",
    "Detection",
    "HostedDetection",
    "Source",
    "Subscription",
    "Transaction",
    "connect",
]

T = TypeVar("T")
INSTALL_S: Final = 30.0
"""The time a subscription waits for brokers to acknowledge it."""
REACH_S: Final = 2.0
"""The time each broker may take to answer which of its neighbours are away."""


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
    will: asynchronous.Publishable | None = None,
    will_delay: Patience = None,
    roams: Patience = None,
    moved_from: MovedOut | str | None = None,
) -> Client:
    """A client of the broker at this address, or at one of these, as `fairlead.connect` has it."""
    return Client(
        asynchronous.connect(
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
    )


class Client:
    """A client of one broker. Use it in a `with` block."""

    def __init__(self, client: asynchronous.Client) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The producer of what it publishes."""
        return self._client.name

    @property
    def address(self) -> Address:
        """The address of the broker it is connected to, or calls."""
        return self._client.address

    @property
    def broker(self) -> str:
        """The name of the broker it is connected to."""
        return self._client.broker

    @property
    def lineage(self) -> Lineage:
        """The incarnations of the broker's log, in which the offsets of deliveries are."""
        return self._client.lineage

    @property
    def duplicates(self) -> int:
        """The number of publications that were duplicates: published before under the same producer and id."""
        return self._client.duplicates

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect. ConnectionEnded if no broker can be reached, BrokerRefused if the broker refuses."""
        if self._loop is not None:
            return
        self._loop = asyncio.new_event_loop()
        # A daemon: a program that ends without closing it is not held up.
        self._thread = threading.Thread(
            target=run_until_stopped, args=(self._loop,), name="fairlead-client", daemon=True
        )
        self._thread.start()
        try:
            self._wait(self._client.open())
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """Wait until all publications are acknowledged, then disconnect."""
        if self._loop is not None:
            try:
                self._wait(self._client.close())
            finally:
                self._stop()

    def move(self, url: str | Sequence[str]) -> None:
        """Go to another broker, with all subscriptions that are durable, or may roam."""
        self._wait(self._client.move(url))

    def move_out(self) -> MovedOut:
        """Leave the broker; who connects elsewhere with `moved_from=` this goes on."""
        try:
            return self._wait(self._client.move_out())
        finally:
            self._stop()

    def _stop(self) -> None:
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    # -- what users ask ------------------------------------------------------------------------------------------

    def publish(self, given: Publishable) -> Notification:
        """Publish, and return the notification with its id and producer when it is synced in the broker's log."""
        return self._wait(self._client.publish(given))

    def of(self, cls: type[T]) -> Typed[T]:
        """This client for instances of a class, as `Client.of` of the asynchronous client has it."""
        from fairlead.typed import Typed

        return Typed(self, cls, self._client._schema)

    def publishing(self, given: Publishable) -> Future[Notification]:
        """Publish without waiting. The future is done when the notification is synced in the broker's log.

        Many at a time are published in the order of these calls, and become safe together.
        """
        return self._begin(self._client.publish(given))

    def transaction(self, *subscriptions: Subscription) -> Transaction:
        """Begin a transaction: what is published in it, and what is taken of these durable subscriptions in it,
        takes place together, or not at all. Use it as a context."""
        return Transaction(self, self._client.transaction(*(each._subscription for each in subscriptions)))

    def send(self, given: Publishable) -> Notification:
        """Publish without an answer: it is not logged, and may be lost with a connection or a broker."""
        return self._wait(self._client.send(given))

    def subscribe(
        self,
        filter: str | Filter,
        *,
        durable: str = "",
        since: Since | None = None,
        id: str | None = None,
        timeout: float | None = None,
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
        """Subscribe to what a filter matches, as the asynchronous client does; on return every broker knows.

        With a `timeout`, or so many seconds have passed: `is_installed` says which. Without one, NotAcknowledged
        names the brokers that have not acknowledged the subscription within half a minute. What a durable
        subscriber has subscribed to is stored for it in any case, and takes effect there when they are back.
        """

        async def subscribe() -> asynchronous.Subscription:
            made = self._client.subscribe(
                filter,
                durable=durable,
                since=since,
                id=id,
                shared=shared,
                per=per,
                window=window,
                attempts_max=attempts_max,
                accept_within=accept_within,
                lease=lease,
                order=order,
                lateness=lateness,
                until=until,
                backfill=backfill,
                context=context,
                on_late=on_late,
                retained=retained,
                on=on,
                want=want,
                on_missed=on_missed,
            )
            try:
                async with asyncio.timeout(INSTALL_S if timeout is None else timeout):
                    await made.installed()
            except TimeoutError:
                if timeout is None:
                    error = await self._not_acknowledged(durable)
                    await made.close()
                    raise error from None
            return made

        return Subscription(self, self._wait(subscribe()))

    def retained(self, filter: str | Filter = "true") -> list[Notification]:
        """The values that channels retain, at all brokers, and a filter matches."""
        return self._wait(self._client.retained(filter))

    async def _not_acknowledged(self, durable: str) -> NotAcknowledged:
        """The error that names the brokers that have not acknowledged a subscription."""
        status = await self._client.status()
        client = self._client
        found = await surveyed(
            status["url"], tls=client._tls, patience=REACH_S, credentials=client._credentials
        )
        away = [f"{name!r} ({why})" for name, why in sorted(found.absent.items())]
        whom = f"the durable subscription of {durable!r}" if durable else "the subscription"
        where, by = status["broker"], ", ".join(away) or "all brokers"
        return NotAcknowledged(
            f"{whom} is in effect at {where!r}, and is not acknowledged by {by}",
            hint="start them, or unlink those that will not return: fairlead broker unlink",
        )

    def detect(
        self,
        pattern: str | patterns.Pattern | Expression | fair.Subscription,
        *,
        lateness: int | str = 0,
        since: Since | None = None,
        choice: fair.Choice | str | None = None,
        publish: bool = False,
        order: str = "live",
    ) -> Detection:
        """Subscribe to what a pattern, or a fair subscription, finds, as the asynchronous client does."""

        async def detect() -> detection.Detection:
            made = self._client.detect(
                pattern, lateness=lateness, since=since, choice=choice, publish=publish, order=order
            )
            await made.installed()
            return made

        return Detection(self, self._wait(detect()))

    def hosted(
        self,
        pattern: str | patterns.Pattern | Expression | fair.Subscription,
        *,
        choice: fair.Choice | str | None = None,
        durable: str = "",
        since: Since | None = None,
    ) -> HostedDetection:
        """Subscribe to what a detector at a broker finds, as the asynchronous client does."""

        async def subscribe() -> hosted.HostedDetection:
            made = self._client.hosted(pattern, choice=choice, durable=durable, since=since)
            await made.installed()
            return made

        return HostedDetection(self, self._wait(subscribe()))

    def forget(self, durable: str, filter: str | Filter | None = None) -> None:
        """End a durable subscriber, or one of its subscriptions: the broker retains nothing more for it."""
        self._wait(self._client.forget(durable, filter))

    def request(self, event: Publishable, *, timeout: Patience = 5.0) -> Notification:
        """Send a request, and return the first reply; NobodyListens at once, NoReply where none comes in time."""
        return self._wait(self._client.request(event, timeout=timeout))

    def requests(
        self, event: Publishable, *, timeout: Patience = 5.0, enough: int | None = None
    ) -> list[Notification]:
        """Send a request, and return the replies that came within `timeout`, at most `enough` of them."""

        async def replies() -> list[Notification]:
            return [each async for each in self._client.requests(event, timeout=timeout, enough=enough)]

        return self._wait(replies())

    @contextlib.contextmanager
    def responding(self, filter: str | Filter, answer: Answer) -> Iterator[None]:
        """Reply to the requests that match a filter, while the context is entered, with what `answer(request)`
        returns; None is no reply. The client's own thread calls it."""

        async def begin() -> Responding:
            return await self._client.responding(filter, answer).__aenter__()

        made = self._wait(begin())
        try:
            yield
        finally:
            self._wait(made.__aexit__(None, None, None))

    def redrive(self, durable: str) -> dict[str, int]:
        """Have the dead deliveries of a durable subscriber handed out again: how many, and how many are gone."""
        return self._wait(self._client.redrive(durable))

    def advertise(self, filter: str | Filter, *, id: str | None = None) -> str:
        """Say what will be published; the id is for `unadvertise`."""
        return self._wait(self._client.advertise(filter, id=id))

    def unadvertise(self, id: str) -> None:
        """Take an advertisement back."""
        self._wait(self._client.unadvertise(id))

    def listening(self, filter: str | Filter, tell: Callable[[bool], object]) -> str:
        """Have `tell` called, in the client's thread, with whether there are subscribers: now, and when it
        changes."""
        return self._wait(self._client.listening(filter, tell))

    def unlisten(self, id: str) -> None:
        """End the calls."""
        self._wait(self._client.unlisten(id))

    def anyone_listens(self, filter: str | Filter) -> bool:
        """Whether anyone, but this client, listens to what a filter matches."""
        return self._wait(self._client.anyone_listens(filter))

    @contextlib.contextmanager
    def source(self, filter: str | Filter, *, linger: Patience = "5s") -> Iterator[Source]:
        """A source of what a filter matches, while the context is entered: it publishes only while somebody
        listens, as that of the asynchronous client does."""

        async def begin() -> source.Source:
            return await self._client.source(filter, linger=linger).__aenter__()

        made = self._wait(begin())
        try:
            yield Source(self, made)
        finally:
            if self._loop is not None:
                self._wait(made.__aexit__(None, None, None))

    def wants(self, filter: str | Filter = "true") -> Discovered:
        """The part of a filter that others subscribe to, without their names, and that this client may publish."""
        return self._wait(self._client.wants(filter))

    def offers(self, filter: str | Filter = "true") -> Discovered:
        """The part of a filter that others advertise, as far as this client may subscribe to it."""
        return self._wait(self._client.offers(filter))

    def watch(self, what: What, filter: str | Filter = "true") -> Generator[Discovered, None, None]:
        """The answer of `wants` or `offers` (that is `what`): now, and whenever it changes."""
        answers = self._client.watch(what, filter)

        async def following() -> Discovered:
            return await anext(answers)

        try:
            while True:
                yield self._wait(following())
        finally:
            if self._loop is not None:  # the client may be closed before who iterates has let go
                self._wait(answers.aclose())

    def status(self) -> dict[str, Any]:
        """The status of the broker, in figures."""
        return self._wait(self._client.status())

    def examine(self, what: str, **about: Any) -> dict[str, Any]:
        """The answer to `find`, `explain`, `scopes` or `clients`, of the broker's tables."""
        return self._wait(self._client.examine(what, **about))

    def tables(self) -> dict[str, Any]:
        """The broker's routing tables."""
        return self._wait(self._client.tables())

    def channels(self) -> list[dict[str, Any]]:
        """The channels of the network: the first that matches a notification is its channel."""
        return self._wait(self._client.channels())

    def durables(self) -> list[dict[str, Any]]:
        """The broker's durable subscribers with their backlogs, the one with the oldest first."""
        return self._wait(self._client.durables())

    def end_client(self, name: str) -> None:
        """Have the broker end the connection of a client; NotThere, if there is none."""
        self._wait(self._client.end_client(name))

    def drain(self, *, undo: bool = False) -> int:
        """Have the broker end the connections of all other clients, and take none until that is undone."""
        return self._wait(self._client.drain(undo=undo))

    def link(self, url: str) -> Linking:
        """Have the broker call another one, and stay linked to it; BrokerRefused, where that cannot be.

        A broker that is away is waited for, over restarts, too: then the answer says so.
        """
        return self._wait(self._client.link(url))

    def authenticate(self, credentials: Credentials) -> None:
        """Show new credentials of the same principal, before the others expire."""
        self._wait(self._client.authenticate(credentials))

    def delegate(
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
        filters = {"subscribe": subscribe, "publish": publish, "advertise": advertise}
        return self._wait(self._client.delegate(to, **filters, until=until))

    def undelegate(self, id: str, *, by: str = "") -> None:
        """End a delegation at once; with the right to manage, that of another giver."""
        self._wait(self._client.undelegate(id, by=by))

    def declare_type(
        self,
        name: str,
        *,
        subscribe: Sequence[str] = (),
        publish: Sequence[str] = (),
        form: Sequence[str] = (),
    ) -> None:
        """Declare a type, or alter one's own: who declares it owns it. Forbidden, where another does.

        See `fairlead.network.Client.declare_type`.
        """
        self._wait(self._client.declare_type(name, subscribe=subscribe, publish=publish, form=form))

    def remove_type(self, name: str) -> None:
        """Declare a type no longer; with the right to manage, that of another owner."""
        self._wait(self._client.remove_type(name))

    def types(self) -> list[TypeStatus]:
        """The types that were declared by calls; it takes the right to inspect."""
        return self._wait(self._client.types())

    def reload(self) -> None:
        """Have the broker read its certificates, keys and access policy anew; BrokerRefused if they are wrong."""
        self._wait(self._client.reload())

    def trace(self, sample: float | None = 1.0) -> None:
        """Have the broker trace what happens at its interface, for the audit, of such a part of all notifications.

        None: no more. It goes on when the broker is started anew.
        """
        self._wait(self._client.trace(sample))

    def unlink(self, neighbour: str) -> None:
        """Have the broker end a link: to the neighbour of that name, or to the address that it waits for."""
        self._wait(self._client.unlink(neighbour))

    # -- the thread ----------------------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._loop is None:
            work.close()
            raise ConnectionEnded("the client is not open", hint="use it in a `with` block")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        begun = self._begin(work)
        try:
            return begun.result()
        except BaseException:  # interrupted: the work is, too
            begun.cancel()
            raise


def run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped; then end what is under way on it, and close it."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(
            asyncio.sleep(0)
        )  # transports that were aborted close their sockets in a turn
    finally:
        loop.close()


class Delivery:
    """A notification as it was delivered, with the ids of the subscriptions that match."""

    __slots__ = ("_client", "_delivery")

    def __init__(self, client: Client, delivery: asynchronous.Delivery) -> None:
        self._client, self._delivery = client, delivery

    @property
    def notification(self) -> Notification:
        """The notification."""
        return self._delivery.notification

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The ids of the subscriptions that match."""
        return self._delivery.subscriptions

    @property
    def attempt(self) -> int:
        """For the how-manieth time a durable subscriber is handed it."""
        return self._delivery.attempt

    @property
    def key(self) -> OrderKey | None:
        """Its place in the total order, where delivery is ordered."""
        return self._delivery.key

    @property
    def retained(self) -> bool:
        """Whether it was published before the subscription, and retained by a channel."""
        return self._delivery.retained

    def accept(self) -> None:
        """It is dealt with, and will not come again."""
        self._client._wait(self._delivery.accept())

    def accept_through(self) -> int:
        """This one is dealt with, and so is all that was taken from this subscription before it and is not; how
        many that are."""
        return self._client._wait(self._delivery.accept_through())

    def reject(self, *, again: bool = False, after: Patience = None, reason: str = "") -> None:
        """It is not dealt with: it comes again, after others, or is done with all the same.

        The arguments are those of the asynchronous client's deliveries.
        """
        self._client._wait(self._delivery.reject(again=again, after=after, reason=reason))

    def renew(self) -> None:
        """It is still worked on: the time for accepting it begins anew."""
        self._client._wait(self._delivery.renew())


class _Reading:
    """A reading one by one, by at most one thread at a time. Nothing is lost where waiting is given up."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._next: Future[Any] | None = None

    def _take(self, ask: Callable[[], Coroutine[Any, Any, T]], timeout: float | None) -> T:
        # What was asked for before, when somebody did not want to wait any longer, is what comes next.
        if self._next is None:
            self._next = self._client._begin(ask())
        asked: Future[T] = self._next
        try:
            found = asked.result(timeout)
        except TimeoutError:
            if not asked.done():
                raise TimeoutError(f"no notification within {timeout} s") from None
            found = asked.result()
        except Closed as error:
            self._next = None
            raise SubscriptionEnded(str(error)) from None
        except Exception:
            self._next = None
            raise
        self._next = None
        return found


class Subscription(_Reading):
    """The notifications that one filter matches: iterate over it, or wait for `get()`.

    Leaving it as a context, or `close()`, takes it back; a durable one stays at the broker until `client.forget`.
    The last notification is dealt with then, unless an error was raised: who failed on it gets it again.
    """

    def __init__(self, client: Client, subscription: asynchronous.Subscription) -> None:
        super().__init__(client)
        self._subscription = subscription
        self._last: Delivery | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self._subscription.id

    @property
    def filter(self) -> Filter:
        """The filter."""
        return self._subscription.filter

    @property
    def durable(self) -> str:
        """The name of the durable subscriber; empty if there is none."""
        return self._subscription.durable

    @property
    def on(self) -> Condition | None:
        """The condition beside the filter."""
        return self._subscription.on

    @property
    def granted(self) -> Filter:
        """The part of the filter that the broker's access policy grants: only that is delivered."""
        return self._subscription.granted

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Of one that begins in the past: what of it is not there any longer, or could not be asked for."""
        return self._subscription.gaps

    @property
    def lease(self) -> float | None:
        """For how many seconds a durable subscriber is kept while nobody is there; None: until it is ended."""
        return self._subscription.lease

    @property
    def narrowed(self) -> bool:
        """Whether the broker's access policy grants less than the filter."""
        return self._subscription.narrowed

    @property
    def waiting(self) -> int:
        """The number of deliveries that have arrived and not been taken."""
        return self._subscription.waiting

    @property
    def dropped(self) -> int:
        """At most so many deliveries were dropped, because this client or a link was slow."""
        return self._subscription.dropped

    @property
    def is_installed(self) -> bool:
        """Whether every broker that has to know of it does."""
        return self._subscription.is_installed

    def get(self, timeout: float | None = None) -> Notification:
        """The next notification; waits for it, at most `timeout` seconds, then TimeoutError.

        The one before is dealt with by asking. SubscriptionEnded where the subscription is closed.
        """
        self._settle()
        self._last = self.delivery(timeout)
        return self._last.notification

    def delivery(self, timeout: float | None = None) -> Delivery:
        """The next delivery, to be accepted or rejected."""
        return Delivery(self._client, self._take(self._subscription.delivery, timeout))

    def deliveries(self) -> Iterator[Delivery]:
        """The deliveries, each to be accepted or rejected, until the subscription is closed."""
        while True:
            try:
                delivery = self.delivery()
            except SubscriptionEnded:
                return
            yield delivery

    def __iter__(self) -> Iterator[Notification]:
        while True:
            try:
                notification = self.get()
            except SubscriptionEnded:
                return
            yield notification

    def change(self, filter: str | Filter) -> None:
        """Have another filter, in one step: what both filters match is delivered once, at every moment.

        When it returns, every broker that has to know of the new filter does. A durable subscriber gets what was
        published before by the filter before, whether or not it is there. What has arrived stays.
        """
        self._client._wait(self._subscription.change(filter))

    def advance(self, to: Since) -> None:
        """Of an ordered subscription: no event before an instant will be published any more. What is on its way is
        waited for."""
        self._client._wait(self._ordered.advance(to))

    def finish(self) -> None:
        """Of an ordered subscription: nothing more will be published. What has been is delivered, and then the
        iteration ends."""
        self._client._wait(self._ordered.finish())

    @property
    def late(self) -> int:
        """Of an ordered subscription: the number of notifications that came behind their place in the order."""
        return self._ordered.late

    @property
    def held(self) -> int:
        """Of an ordered subscription: the number of notifications that wait for the watermark."""
        return self._ordered.held

    @property
    def _ordered(self) -> OrderedSubscription:
        found = self._subscription
        if not isinstance(found, OrderedSubscription):
            raise ValueRefused("a live subscription has no watermark", hint='subscribe(…, order="ordered")')
        return found

    def close(self) -> None:
        """Unsubscribe. A durable subscription is released, and continues at the broker."""
        self._settle()
        self._client._wait(self._subscription.close())

    def _settle(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.accept()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._last = None
        self.close()


class Source:
    """A source: publications on demand."""

    def __init__(self, client: Client, made: source.Source) -> None:
        self._client, self._source = client, made

    @property
    def discarded(self) -> int:
        """The number of publications that nobody wanted."""
        return self._source.discarded

    @property
    def is_wanted(self) -> bool:
        """Whether somebody may listen: it is not quenched."""

        async def is_wanted() -> bool:
            return self._source.is_wanted

        return self._client._wait(is_wanted())

    def wanted(self, timeout: float | None = None) -> None:
        """Return when somebody listens; TimeoutError after so many seconds."""

        async def wanted() -> None:
            async with asyncio.timeout(timeout):
                await self._source.wanted()

        self._client._wait(wanted())

    def wants(self) -> Discovered:
        """The part of the filter that others subscribe to."""
        return self._client._wait(self._source.wants())

    def publish(self, event: Publishable) -> Notification | None:
        """Publish, and return the notification when it is safe; None where nobody wants it: nothing is sent."""
        return self._client._wait(self._source.publish(event))

    def on_change(self, callback: Callable[[bool], object]) -> None:
        """Call back, in the client's thread, with whether it is wanted, whenever that changes."""
        self._source.on_change(callback)


class Transaction:
    """Publications, and deliveries of durable subscriptions, that are held until the block ends."""

    def __init__(self, client: Client, transaction: asynchronous.Transaction) -> None:
        self._client, self._transaction = client, transaction

    @property
    def state(self) -> str:
        """open, committed, aborted, or unknown, where the connection was lost for good."""
        return self._transaction.state

    def publish(self, event: Publishable) -> Notification:
        """Publish with the others, when the transaction is committed; the notification with its identity."""
        return self._transaction.publish(event)

    def commit(self) -> None:
        """Publish and accept; return when all of it is safe. TransactionRefused: nothing of it has happened."""
        self._client._wait(self._transaction.commit())

    def abort(self) -> None:
        """Publish nothing; what was delivered comes again, at the next attempt."""
        self._client._wait(self._transaction.abort())

    def __len__(self) -> int:
        return len(self._transaction)

    def __enter__(self) -> Self:
        self._client._wait(self._transaction.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client._wait(self._transaction.__aexit__(kind, error, trace))


class HostedDetection(_Reading):
    """The composites of a pattern, or the relations of a fair subscription, from a detector at a broker: iterate
    over it, or wait for `get()`."""

    def __init__(self, client: Client, made: hosted.HostedDetection) -> None:
        super().__init__(client)
        self._detection = made

    @property
    def pattern(self) -> patterns.Pattern | fair.Subscription:
        """The query."""
        return self._detection.pattern

    @property
    def host(self) -> str:
        """The broker that detects."""
        return self._detection.host

    @property
    def dropped(self) -> int:
        """At most so many results were dropped, because this client or a link was slow."""
        return self._detection.dropped

    def get(self, timeout: float | None = None) -> Notification:
        """The next result; waits for it, at most `timeout` seconds, then TimeoutError. The one before is dealt
        with by asking."""
        return self._take(self._detection.get, timeout)

    def __iter__(self) -> Iterator[Notification]:
        while True:
            try:
                found = self.get()
            except SubscriptionEnded:
                return
            yield found

    def close(self) -> None:
        """Unsubscribe. A durable subscription is released, and what the detector finds waits for it."""
        self._client._wait(self._detection.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client._wait(self._detection.__aexit__(kind, error, trace))


class Detection(_Reading):
    """The composites of a pattern, or the relations of a fair subscription: iterate over it, or wait for
    `get()`."""

    def __init__(self, client: Client, made: detection.Detection) -> None:
        super().__init__(client)
        self._detection = made

    @property
    def pattern(self) -> patterns.Pattern | fair.Subscription:
        """The query of this detection."""
        return self._detection.pattern

    @property
    def late(self) -> int:
        """The number of events that came too late to be matched."""
        return self._detection.late

    @property
    def dropped(self) -> int:
        """At most so many events were dropped, because this client or a link was slow."""
        return self._detection.dropped

    def get(self, timeout: float | None = None) -> Notification:
        """The next composite event, or relation; waits for it, at most `timeout` seconds, then TimeoutError.

        SubscriptionEnded where there is none any more.
        """
        return self._take(self._detection.get, timeout)

    def __iter__(self) -> Iterator[Notification]:
        while True:
            try:
                found = self.get()
            except SubscriptionEnded:
                return
            yield found

    def advance(self, to: Instant | None = None) -> None:
        """Let time pass: nothing that happened before `to` is still to come."""

        async def advance() -> None:
            self._detection.advance(to)

        self._client._wait(advance())

    def finish(self) -> None:
        """Nothing more comes: decide what is open with what has come so far. Iterating ends with it."""
        self._client._wait(self._detection.finish())

    def close(self) -> None:
        """Unsubscribe; composites that were detected before can still be read."""
        self._client._wait(self._detection.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
