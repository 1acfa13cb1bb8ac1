"""The subscriptions of a client, as users hold them, and their deliveries.

A delivery is dealt with when it is accepted, or when the next one is asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple

from fairlead.channels import Channels, Deadlines, Missed
from fairlead.channels.waiting import Waiting
from fairlead.conditions import Condition, Passing
from fairlead.delivery.assigning import NEUTRAL, Terms
from fairlead.errors import ConnectionEnded, FairleadError, SealBroken
from fairlead.filters.filter import Filter
from fairlead.model import Instant, Notification
from fairlead.model.durations import seconds_of
from fairlead.model.order import OrderKey
from fairlead.model.packed import identity_bytes

if TYPE_CHECKING:
    from fairlead.network.client import Client
    from fairlead.network.client_transactions import Transaction
    from fairlead.security.sealing import Sealer

__all__ = ["Closed", "Delivery", "Gap", "Subscription"]


log: Final = logging.getLogger(__name__)


KNOWN_MAX: Final = 1_000_000
"""So many notifications of a past are remembered, which comes again when the connection was lost."""


class Gap(NamedTuple):
    """A part of the past that a subscription does not get."""

    broker: str
    """Empty: a broker that was away, and did not answer."""
    until: Instant | None
    """When the broker's log begins; None: it has none, or was away."""

    def __str__(self) -> str:
        if not self.broker:
            return "a broker was away"
        return (
            f"{self.broker} has no log"
            if self.until is None
            else f"the log of {self.broker} begins at {self.until}"
        )


class Closed(ConnectionEnded):
    """The subscription, or the client, was closed by this side."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification as it was delivered, with the ids of the subscriptions that match."""

    notification: Notification
    subscriptions: tuple[str, ...]
    durable: str = ""
    ordinal: int = 0
    attempt: int = 1
    """For the how-manieth time a durable subscriber is handed it; after a crash of the broker perhaps one low."""
    key: OrderKey | None = None
    """Its place in the total order, where delivery is ordered."""
    retained: bool = False
    """Whether it was published before the subscription, and retained by a channel."""
    _of: Subscription | None = field(default=None, repr=False, compare=False)

    async def accept(self) -> None:
        """It is dealt with, and will not come again."""
        if self._of is not None:
            self._of._dealt_with(self)

    async def accept_through(self) -> int:
        """This one is dealt with, and so is all that was taken from this subscription before it and is not; how
        many that are."""
        return 0 if self._of is None else self._of._accept_through(self)

    async def reject(
        self, *, again: bool = False, after: int | float | str | timedelta | None = None, reason: str = ""
    ) -> None:
        """It is not dealt with: it comes again, after others, or is done with all the same.

        It does not come again before `after`, in seconds or as "5s". The last reason is in the dead letter,
        where the subscriber has `attempts_max`.
        """
        delay = seconds_of(after, "a delay")
        if self._of is not None:
            after_us = 0 if delay is None else round(delay * 1_000_000)
            self._of._dealt_with(
                self, rejected=True, again=again or after is not None, after_us=after_us, reason=reason
            )

    async def renew(self) -> None:
        """It is still worked on: the time for accepting it begins anew."""
        if self._of is not None and self.ordinal:
            self._of._client._intake.renew(self)


class Subscription:
    """The notifications that one filter matches: iterate over it, or wait for `get()`.

    Leaving it as a context, or `close()`, takes it back; a durable one stays at the broker until `client.forget`.
    The last notification is dealt with then, unless an error was raised: who failed on it gets it again.
    """

    def __init__(
        self,
        client: Client,
        id: str,
        filter: Filter,
        durable: str,
        since: int | None,
        *,
        terms: Terms = NEUTRAL,
        on: Condition | None = None,
    ) -> None:
        self._client = client
        self.terms = terms
        """On which terms deliveries are handed out and accepted."""
        self.id, self.filter, self.durable, self.since = id, filter, durable, since
        self._passing = None if on is None else Passing(on)
        self._retained = False
        """Whether retained values come first."""
        self._instead = ""
        """The id at the broker of the subscription that this one takes the place of, while that is asked for."""
        self._changing: asyncio.Lock | None = None
        self._is_of_past = False
        """Whether nothing else comes."""
        self._lease_us = 0
        """The lease that is asked for, in microseconds; 0: none."""
        self.lease: float | None = None
        """For how many seconds a durable subscriber is kept while nobody is there, once the broker has said so."""
        self._is_roaming = self._is_ordered = False
        """Whether its durable name was made for a client that roams, and ends with it; whether deliveries are put
        in order here."""
        self.granted = filter
        """The part of the filter that the broker's access policy grants: only that is delivered."""
        self.dropped = 0
        """The number of deliveries left out, at most, because this client or a link on the way to it was
        slow."""
        self._queue: deque[Delivery] | Waiting[Delivery] = deque()
        self._want = ""
        """The quality of service that is required."""
        self._on_missed: Callable[[Missed], object] | None = None
        self._channels: Channels | None = None
        """The channels of what may come, once the broker has said so."""
        self._deadlines: Deadlines | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._arrived = asyncio.Event()
        self._last: Delivery | None = None
        self._transaction: Transaction | None = None
        """The transaction that accepts what is taken now."""
        self._ended: FairleadError | None = None
        self._installed: asyncio.Future[None] | None = None
        self.unreadable = 0
        """The number of deliveries that had a sealed attribute that was changed, or is of another
        notification."""
        self._sealer: Sealer | None = None
        self._clear = filter
        """The filter on what the keys of this client open, where something is sealed."""
        self._handed: dict[int, Delivery] = {}
        """Of a durable one, by place, the deliveries that were taken and are not dealt with."""
        self.gaps: tuple[Gap, ...] = ()
        """Of one that begins in the past: what of it is not there any longer, or could not be asked for."""
        self._known: dict[int, None] = {}
        """Of one that is not durable, the identities of what has come."""
        self._seen = 0
        """The last place that came, of what is in no durable subscriber's backlog."""

    @property
    def on(self) -> Condition | None:
        """The condition beside the filter, which is judged here."""
        return None if self._passing is None else self._passing.condition

    @property
    def waiting(self) -> int:
        """The number of deliveries that have arrived and not been taken."""
        return len(self._queue)

    @property
    def narrowed(self) -> bool:
        """Whether the broker's access policy grants less than the filter."""
        return self.granted != self.filter

    @property
    def is_installed(self) -> bool:
        """Whether every broker that has to know of it does."""
        installed = self._installed
        return installed is not None and installed.done() and installed.exception() is None

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
        await asyncio.shield(self._begin())

    async def change(self, filter: str | Filter) -> None:
        """Have another filter, in one step: what both filters match is delivered once, at every moment.

        When it returns, every broker that has to know of the new filter does. A durable subscriber gets what was
        published before by the filter before, whether or not it is there. What has arrived stays.
        """
        if self._changing is None:
            self._changing = asyncio.Lock()
        async with self._changing:
            await self._client._change(self, filter)

    def _begin(self) -> asyncio.Future[None]:
        if self._installed is None:
            self._installed = self._client._install(self)
        return self._installed

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
        """The next delivery, to be accepted or rejected. What has come is not held until every broker knows."""
        self._begin()
        while True:
            while not self._queue:
                if self._ended is not None:
                    raise self._ended
                self._client._intake.check_taken(self)
                self._arrived.clear()
                await self._arrived.wait()
            delivery = self._queue.popleft()
            self._client._intake.taken()
            opened = delivery if self._sealer is None else self._opened(delivery, self._sealer)
            if opened is not None and self._passes(opened):
                if self._transaction is not None:
                    self._transaction._took(opened)
                self._hands(opened)
                return opened

    def _hands(self, delivery: Delivery) -> None:
        """It is taken, and not dealt with."""
        if self.durable:
            self._handed.pop(delivery.ordinal, None)
            self._handed[delivery.ordinal] = delivery

    def _accept_through(self, delivery: Delivery) -> int:
        if delivery.ordinal not in self._handed:
            return 0
        through: list[Delivery] = []
        for each in self._handed.values():
            through.append(each)
            if each.ordinal == delivery.ordinal:
                break
        for each in through:
            self._dealt_with(each)
        return len(through)

    def take_waiting(self) -> list[Delivery]:
        """The deliveries that have come already; nothing is waited for."""
        taken = [each for each in self._take_arrived() if self._passes(each)]
        for each in taken:
            self._hands(each)
        return taken

    def _take_arrived(self) -> list[Delivery]:
        """The same, before the condition has judged them."""
        taken = [self._queue.popleft() for _ in range(len(self._queue))]
        self._client._intake.taken(len(taken))
        if self._sealer is None:
            return taken
        opened = [self._opened(each, self._sealer) for each in taken]
        return [each for each in opened if each is not None]

    def _untaken(self) -> list[Delivery]:
        """The deliveries that have come, which nobody will take."""
        return self._take_arrived()

    def _passes(self, delivery: Delivery) -> bool:
        """Whether the condition lets a delivery pass; one that it does not is dealt with."""
        if self._passing is None or self._passing.passes(delivery.notification, delivery.ordinal):
            return True
        self._dealt_with(delivery)
        return False

    def _open_with(self, sealer: Sealer, clear: Filter) -> None:
        """Open what is delivered, and hand over what a filter matches then."""
        self._sealer, self._clear = sealer, clear

    def _opened(self, delivery: Delivery, sealer: Sealer) -> Delivery | None:
        """A delivery as the keys open it; None where the filter does not match that: it is dealt with."""
        try:
            view = sealer.read(self._clear, delivery.notification)
        except SealBroken:
            self.unreadable += 1
            view = None
        if view is None:
            self._dealt_with(delivery)
            return None
        return replace(delivery, notification=view)

    async def close(self) -> None:
        """Unsubscribe. A durable subscription is released, and continues at the broker."""
        if self._ended is None:
            if self._last is not None:
                self._dealt_with(self._last)
            self._end(Closed("the subscription is closed"))
            await self._client._close(self)

    def _offered(self, channels: Channels) -> None:
        """The channels of what may come: what waits goes as they say, and is expected when they say."""
        self._channels = channels
        queue: deque[Delivery] | Waiting[Delivery] = deque()
        if channels.arrange:
            queue = Waiting(lambda delivery: channels.standing(delivery.notification))
        for each in self._queue:
            queue.append(each)
        self._queue = queue
        if self._on_missed is not None:
            self._deadlines = Deadlines(channels, self._deadlines) if channels.expect else None

    def _has_come(self, packed: bytes, part: int) -> bool:
        """Whether this has come from the past before: it comes again when the connection was lost."""
        key = hash((identity_bytes(packed), part))
        if key in self._known:
            return True
        self._known[key] = None
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return False

    def _put(self, delivery: Delivery) -> None:
        self._queue.append(delivery)
        self._arrived.set()
        if self._deadlines is not None:
            self._deadlines.seen(delivery.notification, _now())
            self._look_at_deadlines()

    def _look_at_deadlines(self) -> None:
        """Tell what was expected and has not come, and look again when something else may be missed."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._deadlines is None or self._on_missed is None or self._ended is not None:
            return
        for missed in self._deadlines.missed(_now()):
            try:
                self._on_missed(missed)
            except Exception:  # what became of it is not the subscription's concern
                log.exception("the on_missed hook failed")
        if (due := self._deadlines.next_time()) is not None:
            loop = asyncio.get_running_loop()
            self._watch = loop.call_later(max(0, due - _now()) / 1e6, self._look_at_deadlines)

    def _end(self, error: FairleadError) -> None:
        if self._ended is None:
            self._ended = error
            if self._watch is not None:
                self._watch.cancel()
            self._arrived.set()

    def _dealt_with(
        self,
        delivery: Delivery,
        *,
        rejected: bool = False,
        again: bool = False,
        after_us: int = 0,
        reason: str = "",
    ) -> None:
        self._handed.pop(delivery.ordinal, None)
        transaction = self._transaction
        if transaction is not None and transaction._has(delivery):
            if not rejected:
                return  # with the transaction
            transaction._drop(delivery)
        if self._passing is not None and not again:
            self._passing.settled(delivery.ordinal)
        if delivery.ordinal:
            self._client._intake.settle(
                delivery, rejected=rejected, again=again, after_us=after_us, reason=reason
            )


def _now() -> int:
    """The time in microseconds."""
    return time.time_ns() // 1_000
