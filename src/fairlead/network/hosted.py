"""The results of a detector at a broker, for a client that has asked for them.

    async with client.hosted("A followed by B within 1 hour", durable="desk") as composites:
        async for composite in composites:
            ...

Law: all who ask for the same query get the same results in the same order, each from the time on when its
subscription has taken effect; whatever fails, and whichever broker they are at.

The home of the query detects (`broker.hosting`); here is a subscription to what it publishes. The client
subscribes first, and asks then, so that it misses nothing. It asks again from time to time: a detector that nobody
listened to has ended, and begins anew.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from fairlead.broker.hosting import ASK, HostedQuery
from fairlead.correlation import fair, patterns
from fairlead.correlation.queries import Query
from fairlead.errors import BrokerRefused, FairleadError, NobodyListens, NoReply
from fairlead.model import Notification
from fairlead.network.arguments import Since
from fairlead.network.subscriptions import Closed

if TYPE_CHECKING:
    from fairlead.network.client import Client

__all__ = ["HostedDetection"]

REPLY_S: Final = 5.0
"""The time a reply is waited for, before the request is repeated."""
AGAIN_S: Final = (0.05, 0.1, 0.2, 0.5)
"""The times between requests, until the detector is at work; the last one from then on."""
SHARE: Final = 3
"""So many requests are made while the host waits for one."""


class HostedDetection:
    """The composites of a pattern, or the relations of a fair subscription, from its home: iterate over it, or
    wait for `get()`."""

    def __init__(self, client: Client, query: Query, durable: str = "", since: Since | None = None) -> None:
        self._client, self._query = client, HostedQuery(query)
        self._subscription = client.subscribe(self._query.filter, durable=durable, since=since)
        self._renewing: asyncio.Task[None] | None = None
        self._linger_s = 60.0
        self.host = ""
        """The broker that detects, once it is at work."""

    @property
    def pattern(self) -> patterns.Pattern | fair.Subscription:
        """The query."""
        return self._query.query.about

    @property
    def dropped(self) -> int:
        """At most so many results were dropped, because this client or a link was slow."""
        return self._subscription.dropped

    async def __aenter__(self) -> Self:
        await self.installed()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._subscription._last = None  # who failed on it gets it again
        await self.close()

    async def installed(self) -> None:
        """Return when the detector is at work: all that is published from now on, it hears.

        BrokerRefused, where no broker replies within the client's patience.
        """
        await self._subscription.installed()
        if self._renewing is not None:
            return
        try:
            async with asyncio.timeout(self._client._uplink.patience_s):
                await self._until_ready()
        except TimeoutError:
            await self.close()
            raise BrokerRefused(
                f"no broker has begun to detect {self._query.query}"
                + (f": {self.host} waits for brokers that are away" if self.host else ""),
                hint="hosts are named in [detection] of broker.toml or topology.toml",
            ) from None
        self._renewing = asyncio.ensure_future(self._renew())

    async def _until_ready(self) -> None:
        waits = iter(AGAIN_S)
        while not await self._ask():
            await asyncio.sleep(next(waits, AGAIN_S[-1]))

    async def _renew(self) -> None:
        with contextlib.suppress(FairleadError):
            while True:
                await asyncio.sleep(self._linger_s / SHARE)
                await self._until_ready()

    async def _ask(self) -> bool:
        """Whether the detector is at work; it begins, where it is not there."""
        about = {"type": ASK, "durable": bool(self._subscription.durable), **self._query.to_json()}
        try:
            reply = await self._client.request(about, timeout=REPLY_S)
        except (NobodyListens, NoReply):
            return False
        if (reason := reply.get("refused", None)) is not None:
            raise BrokerRefused(str(reason))
        self.host, self._linger_s = str(reply.get("host")), float(reply.get("linger"))
        return reply.get("ready") is True

    def __aiter__(self) -> AsyncIterator[Notification]:
        return self._results()

    async def _results(self) -> AsyncIterator[Notification]:
        with contextlib.suppress(Closed):
            while True:
                yield await self.get()

    async def get(self) -> Notification:
        """The next result. The one before is dealt with by asking."""
        if self._renewing is None:
            await self.installed()
        return self._query.result_of(await self._subscription.get())

    async def close(self) -> None:
        """Unsubscribe. A durable subscription is released, and what the detector finds waits for it."""
        if self._renewing is not None:
            self._renewing.cancel()
        await self._subscription.close()
