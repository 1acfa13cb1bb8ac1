"""Deliveries in the one total order, over the network.

    subscription = client.subscribe("price > 100", order="ordered", lateness="5s")

Law: the deliveries are those of an ordered bus on which the same is published, one after the other as the
brokers have logged it, with a disorder within the allowed lateness, whatever arrives here when, and whatever
fails in between. The `context` brings what else has a say in that order: see below.

Deliveries are held in an `OrderedQueue`, as on the bus. On the bus the newest event says how far all has come;
here older ones may be on their way. So the newest event that has come is a *bound*, which is asked about: the
broker answers (`wire.Cut`) behind all that any broker had logged before it was asked. What is logged after that
is published after the newest event, and older by the allowed lateness at most. Then the watermark is at that
time, less the lateness.

**Context.** The order time of a notification is raised to that of those it follows: smaller sequence numbers of
its producer, and causes. Only those that come here can raise it. Where the times of a producer do not go back
along its sequence numbers, and causes did not happen later, nothing is raised. Otherwise `context` is a filter
on what else is brought here to establish the order; it is not delivered. With "true" the order is the bus's in
any case.

`Arrangement` is a state machine without input and output; `OrderedSubscription` has the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from fairlead.channels import Channels
from fairlead.conditions import Condition
from fairlead.delivery import Arrival, Late, OrderedQueue, Validity
from fairlead.delivery.assigning import Terms
from fairlead.errors import BrokerRefused, FairleadError, ValueRefused
from fairlead.filters.filter import Filter, Or
from fairlead.model.durations import duration_of
from fairlead.model.order import (
    BEGINNING,
    END,
    REMEMBER_US,
    Identity,
    OrderKey,
    event_time,
    identity_of,
)
from fairlead.network import wire
from fairlead.network.arguments import Since, microseconds_of
from fairlead.network.subscriptions import Closed, Delivery, Subscription

if TYPE_CHECKING:
    from fairlead.network.client import Client

__all__ = ["Arrangement", "Order", "OrderedSubscription", "is_ordered", "order_of"]

log: Final = logging.getLogger(__name__)

NETWORK: Final = "network"
"""The source of the queue's watermark that is never heard: so the watermark is where punctuations put it."""
ALWAYS: Final = Validity()
TICK_S: Final = 0.25
"""The time after which the client's clock is looked at while nothing comes."""


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a subscription: what it is about, and what else takes part in the order."""

    filter: Filter
    context: Filter | None = None
    lateness_us: int = 0
    validity: Validity = ALWAYS
    is_timed: bool = False
    """Whether the watermark itself counts, also where it releases nothing."""

    @property
    def wanted(self) -> Filter:
        """The filter on all that has to be brought here."""
        return self.filter if self.context is None else Or.of([self.filter, self.context])


class Arrangement:
    """Deliveries in any order in; those of the subscription in the total order out.

    `settle` is called with a delivery that nobody is handed: it is a duplicate, late, or not of the subscription.
    """

    __slots__ = ("_held", "_order", "_queue", "_settle", "_times", "conflicts", "declared", "late", "newest")

    def __init__(self, order: Order, settle: Callable[[Delivery], object]) -> None:
        self._order, self._settle = order, settle
        self._queue = OrderedQueue(
            order.lateness_us, (NETWORK,), remember_us=max(order.lateness_us, REMEMBER_US)
        )
        self._held: dict[Identity, Delivery] = {}
        self._times: list[int] = []
        """The event times of what is held, as a heap; and some of what is not."""
        self.newest = BEGINNING
        """The time of the newest event that has come."""
        self.declared = BEGINNING
        """The time before which no event will be published any more, as the subscriber has declared."""
        self.late = self.conflicts = 0

    @property
    def watermark(self) -> int:
        """Everything below has been released."""
        return self._queue.watermark

    @property
    def held(self) -> int:
        """The number of notifications that are held, those of the context included."""
        return len(self._queue)

    @property
    def is_over(self) -> bool:
        """Whether no delivery can come any more: the watermark has passed the end of the validity."""
        until = self._order.validity.until
        return self.watermark == END or (until is not None and until.time <= self.watermark)

    def take(self, delivery: Delivery) -> Late | None:
        """Take a delivery in; what is late is returned."""
        notification = delivery.notification
        self.newest = max(self.newest, event_time(notification))
        arrival, identified = self._queue.take(notification)
        if arrival is Arrival.HELD:
            self._held[identity_of(identified)] = delivery
            heappush(self._times, event_time(identified))
            return None
        self._settle(delivery)
        if arrival is Arrival.CONFLICT:
            self.conflicts += 1
        if arrival is not Arrival.LATE:
            return None
        self.late += 1
        (late,) = self._queue.take_late()
        return late

    def bound(self, now: int | None = None) -> int | None:
        """Up to where the watermark may be put if all that is logged by now has come; None: nothing is gained.

        `now` is what a clock says, whose time passes though nothing comes.
        """
        while self._times and self._times[0] < self._queue.watermark:
            heappop(self._times)
        newest = max(self.newest, BEGINNING if now is None else now)
        bound = max(newest - self._order.lateness_us if newest > BEGINNING else BEGINNING, self.declared)
        if self._order.is_timed:
            return bound if bound > max(self._queue.watermark, BEGINNING) else None
        if not self._queue:
            return None
        least = self._times[0] if self._times else self._queue.watermark
        return bound if bound > max(least, self._queue.watermark) else None

    def complete(self, bound: int) -> list[Delivery]:
        """All that is older than this has come: the deliveries of the subscription below, in the total order."""
        if bound == END:
            self._queue.close()
        else:
            self._queue.punctuate(bound)
        released = []
        for key, notification in self._queue.release():
            delivery = self._held.pop(identity_of(notification), None)
            if delivery is None:
                continue  # it has been given up
            if key in self._order.validity and self._order.filter.matches(notification):
                released.append(replace(delivery, notification=notification, key=key))
            else:
                self._settle(delivery)
        return released

    def give_up(self) -> list[Delivery]:
        """Return the deliveries that are held, which nobody will be handed."""
        held, self._held = self._held, {}
        return [*held.values()]


class OrderedSubscription(Subscription):
    """The notifications that a filter matches, in the one total order.

    A delivery comes when all brokers have told that nothing before it is still on its way; a broker that is
    away is waited for. Where the validity ends, the subscription does. `late` counts what came behind its
    place.
    """

    def __init__(
        self,
        client: Client,
        id: str,
        filter: Filter,
        durable: str,
        backfill: int | None,
        *,
        order: Order,
        on_late: Callable[[Late], object] | None = None,
        on: Condition | None = None,
    ) -> None:
        super().__init__(client, id, filter, durable, backfill, on=on)
        self.order, self._is_ordered = order, True
        self._arrangement = Arrangement(order, self._dealt_with)
        self._released: deque[Delivery] = deque()
        self._cut: asyncio.Task[int] | None = None
        self._on_late = on_late

    @property
    def validity(self) -> Validity:
        """The order keys that it is about."""
        return self.order.validity

    @property
    def watermark(self) -> int:
        """The order time up to which all is delivered, in microseconds."""
        return self._arrangement.watermark

    @property
    def held(self) -> int:
        """The number of notifications that wait for the watermark."""
        return self._arrangement.held + len(self._queue)

    @property
    def late(self) -> int:
        """The number of notifications that came behind their place in the order, and are not delivered."""
        return self._arrangement.late

    @property
    def conflicts(self) -> int:
        """The number of duplicates that had other content than the copy that was there."""
        return self._arrangement.conflicts

    @property
    def waiting(self) -> int:
        return len(self._released)

    def take_waiting(self) -> list[Delivery]:
        self._take_in()
        return self.take_released()

    def _untaken(self) -> list[Delivery]:
        return [*self._take_arrived(), *self._arrangement.give_up(), *self._released]

    def take_released(self) -> list[Delivery]:
        """The deliveries that are released, and not taken; what has come since stays held."""
        released = [*self._released]
        self._released.clear()
        return [each for each in released if self._passes(each)]

    def follow_time(self) -> None:
        """Move the watermark on where it releases nothing, too. To be said before anything comes."""
        self.order = replace(self.order, is_timed=True)
        self._arrangement = Arrangement(self.order, self._dealt_with)

    async def delivery(self) -> Delivery:
        self._begin()
        while True:
            while not self._released:
                if self._ended is not None:
                    raise self._ended
                await self._look()
            delivery = self._released.popleft()
            if self._passes(delivery):
                return delivery

    def declare(self, to: int) -> None:
        """Declare that no event before a time will be published any more, and wait for nothing."""
        self._arrangement.declared = max(self._arrangement.declared, to)
        self._arrived.set()

    async def advance(self, to: Since) -> None:
        """Declare that no event before an instant will be published any more; what is under way is waited for."""
        self._complete(await self._reached(microseconds_of(to)))

    async def finish(self) -> None:
        """Declare that nothing more will be published: what has been is delivered, and then the iteration ends."""
        self._complete(await self._reached(END))

    async def close(self) -> None:
        if self._cut is not None:
            self._cut.cancel()
        await super().close()

    # -- how -----------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Wait for something to come, or for the broker's answer, and release what can be."""
        self._client._intake.check_taken(self)
        self._arrived.clear()
        self._take_in()
        if self._cut is not None and self._cut.done():
            cut, self._cut = self._cut, None
            if not cut.cancelled():
                self._complete(cut.result())
        if self._released:
            return
        if self._arrangement.is_over:
            self._end(Closed("no more can be in its validity"))
            await self._client._close(self)
            return
        clock = self._client._clock
        if self._cut is None:
            bound = self._arrangement.bound(None if clock is None else clock().microseconds)
            if bound is not None:
                self._cut = asyncio.ensure_future(self._reached(bound))
                self._cut.add_done_callback(self._answered)
        if self._ended is None:
            is_timed = clock is not None and (self.held > 0 or self.order.is_timed)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_S if is_timed else None):
                    await self._arrived.wait()

    async def _reached(self, bound: int) -> int:
        """A bound, when all has come that was logged anywhere before this call."""
        await self.installed()
        client = self._client
        if client._uplink.version < wire.CUTS_SINCE:
            raise BrokerRefused(
                f"the broker {client.broker!r} speaks version {client._uplink.version} of the protocol, and"
                " establishes no order",
                hint="bring it up to date",
            )
        answer = await client._request(lambda number: wire.Cut(number, self.durable, self.id))
        self._seen = max(self._seen, int(answer["passed"]))
        return bound

    def _answered(self, cut: asyncio.Task[int]) -> None:
        """The broker has answered, or never will: whoever waits for a delivery gets to know."""
        self._arrived.set()
        if not cut.cancelled():
            cut.exception()  # is raised where it is looked at, if anybody does

    def _take_in(self) -> None:
        for delivery in self._take_arrived():
            late = self._arrangement.take(delivery)
            if late is not None and self._on_late is not None:
                try:
                    self._on_late(late)
                except Exception:  # what became of it is not the subscription's concern
                    log.exception("the on_late hook failed")

    def _offered(self, channels: Channels) -> None:
        super()._offered(channels)
        self._queue = deque(self._queue)  # the total order is the one that counts

    def _complete(self, bound: int) -> None:
        self._take_in()
        self._released += self._arrangement.complete(bound)
        self._arrived.set()

    def _end(self, error: FairleadError) -> None:
        super()._end(error)
        if self._cut is not None:
            self._cut.cancel()


def is_ordered(order: str) -> bool:
    """Whether an argument says so; ValueRefused for anything but "live" and "ordered"."""
    if order not in ("live", "ordered"):
        raise ValueRefused(f"the order is 'live' or 'ordered', not {order!r}")
    return order == "ordered"


def order_of(
    order: str,
    filter: Filter,
    *,
    lateness: int | str,
    since: Since | None,
    until: Since | None,
    backfill: Since | None,
    context: Filter | None,
    on_late: object,
    terms: Terms,
) -> Order | None:
    """The order of a subscription with these arguments; None: it is live. ValueRefused where they contradict."""
    lateness_us = duration_of(lateness)
    if not is_ordered(order):
        if lateness_us or any(each is not None for each in (until, backfill, context, on_late)):
            raise ValueRefused(
                "lateness, until, backfill, context and on_late are about the total order",
                hint='subscribe(…, order="ordered")',
            )
        return None
    if not terms.is_neutral:
        raise ValueRefused(
            "what comes again, or is shared, is not in the total order",
            hint="leave out shared, per, window, attempts_max and accept_within",
        )
    bounds = [None if each is None else OrderKey.first_at(microseconds_of(each)) for each in (since, until)]
    validity = Validity(*bounds)
    if validity.empty:
        raise ValueRefused(f"it would end before it begins: since {since}, until {until}")
    return Order(filter, context, lateness_us, validity)
