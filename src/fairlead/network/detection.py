"""Patterns and fair subscriptions over the network, detected by the client.

    async with client.detect("A followed by B within 1 hour", lateness="5s") as composites:
        async for composite in composites:
            ...

Law: for the same events, with a disorder within the allowed lateness, what is found is what an ordered bus finds
that has no others. It is what a bus with all events finds as long as the times of a producer do not go back, and
what an event names as its causes did not happen later: these put an event further behind in the total order, also
where they are no part of the pattern, and then nobody here has seen them.

One subscription, to whatever one of the atoms matches, brings the events. They are held until the newest is
`lateness` ahead, leave in the one total order, and go through the kernel of all runtimes (`correlation.queries`).
That order is also the one that fair subscriptions are about. **Over several brokers their relations may differ
between clients**: an event that comes later than `lateness` allows is late at one client and not at another, and
what a fair subscription disposes of depends on every event. Creating such a detection logs a warning.

With `order="ordered"` no detection looks before all brokers have told that nothing earlier is on its way
(`ordering`). Then what is late does not depend on the way to a client: for what is published within the
lateness, in the order in which brokers log, nothing is late anywhere, and all clients get the same relations in
the same order, whatever fails.

Where the client has a clock, time passes while nothing comes, so that what is absent is found without another
event; `advance` lets it pass by hand. A detection sees what is published while it stands, and with `since` what
was published before: so it gets its state back after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Final, Self

from fairlead.correlation import fair, patterns
from fairlead.correlation.queries import Query, QuerySet
from fairlead.delivery import Arrival, OrderedQueue
from fairlead.errors import SubscriptionEnded
from fairlead.filters.filter import Or
from fairlead.matching import engine_named
from fairlead.model import Instant, Notification
from fairlead.model.durations import duration_of
from fairlead.model.order import OrderKey
from fairlead.network.arguments import Since
from fairlead.network.client import Client
from fairlead.network.ordering import OrderedSubscription
from fairlead.network.subscriptions import Closed, Subscription

__all__ = ["Detection", "OrderedDetection"]

log: Final = logging.getLogger(__name__)

UNFAIR: Final = (
    "over several brokers, the relations of a fair subscription may differ between clients: "
    'an event that is late at one client need not be at another; detect(…, order="ordered") waits for all brokers'
)
TICK_S: Final = 0.25
"""The interval of looks at the clock while nothing comes."""


class Detection:
    """The composites of a pattern, or the relations of a fair subscription: iterate over it, or wait for
    `get()`."""

    def __init__(
        self,
        client: Client,
        question: Query,
        lateness: int | str = 0,
        since: Since | None = None,
        *,
        publish: bool = False,
    ) -> None:
        self._client, self._question, self._publish = client, question, publish
        self._lateness_us = duration_of(lateness)
        self._queue = OrderedQueue(self._lateness_us)
        self._standing = QuerySet(lambda: engine_named("columnar"))
        self._standing.add("", question)
        self._subscription = self._subscribed(since)
        self._results: deque[Notification] = deque()
        self._ended = False

    def _subscribed(self, since: Since | None) -> Subscription:
        """The subscription to whatever one of the atoms matches."""
        if not self._question.is_pattern:
            log.warning("%s: %s", self._question, UNFAIR)
        return self._client.subscribe(Or.of(dict.fromkeys(self._question.filters)), since=since)

    @property
    def pattern(self) -> patterns.Pattern | fair.Subscription:
        """The query of this detection."""
        return self._question.about

    @property
    def late(self) -> int:
        """The number of events that came too late to be matched."""
        return self._queue.counts[Arrival.LATE.value]

    @property
    def held(self) -> int:
        """The number of events that are buffered until time has passed."""
        return len(self._queue)

    @property
    def dropped(self) -> int:
        """At most so many events were dropped, because this client or a link was slow."""
        return self._subscription.dropped

    async def __aenter__(self) -> Self:
        await self.installed()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def installed(self) -> None:
        """Return when every broker that has to know of it does."""
        await self._subscription.installed()

    def __aiter__(self) -> AsyncIterator[Notification]:
        return self._notifications()

    async def _notifications(self) -> AsyncIterator[Notification]:
        while True:
            try:
                found = await self.get()
            except SubscriptionEnded:
                return
            yield found

    async def get(self) -> Notification:
        """The next composite event, or relation; SubscriptionEnded where there is none any more."""
        while not self._results:
            if self._ended:
                raise SubscriptionEnded("the detection is over")
            await self._look()
        found = self._results[0]
        if self._publish:
            await self._client.publish(found)
        return self._results.popleft()

    def advance(self, to: Instant | None = None) -> None:
        """Let time pass: nothing that happened before `to` is still to come.

        Without `to`, up to what the client's clock says, less the allowed lateness.
        """
        self._take_waiting()
        self._queue.punctuate(self._declared(to).microseconds)
        self._release()
        self._subscription._arrived.set()  # somebody may wait

    def _declared(self, to: Instant | None) -> Instant:
        """The time that is declared: by default what the client's clock says, less the allowed lateness."""
        if to is not None:
            return to
        if (clock := self._client._clock) is None:
            raise ValueError("to when? the client has no clock: advance(Instant(…)), or connect(…, clock=…)")
        return Instant(clock().microseconds - self._lateness_us)

    async def finish(self) -> None:
        """Nothing more comes: decide what is open with what has come so far. Iterating ends with it."""
        if not self._ended:
            self._take_waiting()
            self._queue.close()
            self._release()
            await self.close()

    async def close(self) -> None:
        """Unsubscribe; composites that were detected before can still be read."""
        self._ended = True
        await self._subscription.close()

    async def _look(self) -> None:
        """Wait for events, or for time to pass, and find what they complete."""
        self._subscription._begin()
        arrived = self._subscription._arrived
        clocked = self._client._clock is not None
        try:
            async with asyncio.timeout(TICK_S if clocked else None):
                await arrived.wait()
        except TimeoutError:
            self.advance()
            return
        arrived.clear()
        self._take_waiting()
        self._release()
        ended = self._subscription._ended
        if isinstance(ended, Closed):
            self._ended = True
        elif ended is not None and not self._results:
            arrived.set()
            raise ended

    def _take_waiting(self) -> None:
        for delivery in self._subscription.take_waiting():
            self._queue.add(delivery.notification)

    def _release(self) -> None:
        self._match(self._queue.release(), self._queue.watermark)
        self._queue.take_late()

    def _match(self, released: Sequence[tuple[OrderKey, Notification]], watermark: int) -> None:
        """Take what has been released, in its order, and find what it completes."""
        answers = self._standing.results(released, watermark)
        self._results.extend(answer.notification for answer in answers)
        for failure in self._standing.take_failures():
            log.warning("a filter failed on the event %s: %s", failure.notification.id, failure.error)


class OrderedDetection(Detection):
    """A detection over an ordered subscription: what is found does not depend on what arrives here when."""

    _subscription: OrderedSubscription

    def _subscribed(self, since: Since | None) -> Subscription:
        subscription = self._client.subscribe(
            Or.of(dict.fromkeys(self._question.filters)),
            order="ordered",
            lateness=self._lateness_us,
            backfill=since,
        )
        assert isinstance(subscription, OrderedSubscription)
        subscription.follow_time()
        return subscription

    @property
    def late(self) -> int:
        return self._subscription.late

    @property
    def held(self) -> int:
        return self._subscription.held

    def advance(self, to: Instant | None = None) -> None:
        self._subscription.declare(self._declared(to).microseconds)

    async def finish(self) -> None:
        if not self._ended:
            await self._subscription.finish()
            self._take()
            await self.close()

    async def _look(self) -> None:
        try:
            await self._subscription._look()
        except Closed:
            self._ended = True
        self._take()
        ended = self._subscription._ended
        if isinstance(ended, Closed):
            self._ended = True
        elif ended is not None and not self._results:
            raise ended

    def _take(self) -> None:
        released = [(each.key, each.notification) for each in self._subscription.take_released()]
        self._match([(key, each) for key, each in released if key is not None], self._subscription.watermark)
