"""Requests of a client and the replies to them (`fairlead.delivery.requesting`), over a network of brokers.

A client has one standing subscription to its replies, which every broker knows before its first request: so
a request costs no subscription. Requests and replies are best effort. The broker answers at once where nobody
listens: no client and no neighbour is on the route of the request, which then has not been published.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from fairlead.delivery.requesting import IS_REQUEST, Event, OpenRequests, replies_to, reply_of, request_of
from fairlead.delivery.sessions import session
from fairlead.errors import FairleadError, NobodyListens, NoReply, NotThere, RequestRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead.model.durations import seconds_of
from fairlead.model.packed import pack
from fairlead.network import wire
from fairlead.network.arguments import Patience, filter_of
from fairlead.network.subscriptions import Closed, Subscription

if TYPE_CHECKING:
    from fairlead.network.client import Client

__all__ = ["Answer", "Replies", "Requester", "Responding"]

log: Final = logging.getLogger(__name__)

Answer: TypeAlias = Callable[[Notification], Event | Awaitable[Event | None] | None]


class Replies:
    """The replies to a request, as they come: iterate over them, until enough have come or the time is over."""

    def __init__(self, request: Notification, timeout: Patience, enough: int | None) -> None:
        if enough is not None and enough < 1:
            raise RequestRefused(f"at least one reply is enough, not {enough}")
        self.request = request
        self._seconds, self._enough = seconds_of(timeout, "a timeout"), enough
        self._came: asyncio.Queue[Notification] = asyncio.Queue()

    def _tell(self, reply: Notification) -> None:
        self._came.put_nowait(reply)

    async def each(self) -> AsyncIterator[Notification]:
        """The replies."""
        count = 0
        try:
            async with asyncio.timeout(self._seconds):
                while self._enough is None or count < self._enough:
                    reply = await self._came.get()
                    count += 1
                    yield reply
        except TimeoutError:
            return


class Requester:
    """The requests of one client: its token, its standing subscription, its open requests."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._open = OpenRequests()
        self._subscription: Subscription | None = None
        self._taking: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def requests(
        self, event: Event, timeout: Patience, enough: int | None
    ) -> AsyncIterator[Notification]:
        """Send a request, and iterate over its replies."""
        await self._subscribe()
        client = self._client
        replies = Replies(client._identified(request_of(event, self._open.token)), timeout, enough)
        packed = pack(client._sealed(replies.request))
        self._open.open(replies.request, replies._tell)
        try:
            client._uplink.check_size(len(packed) + 32)
            await client._request(lambda number: wire.Request(number, packed), again=False)
            async for reply in replies.each():
                yield reply
        except NotThere:
            raise NobodyListens(
                "nobody listens: no subscription matches the request",
                hint="client.responding(filter, answer) replies to requests",
            ) from None
        finally:
            self._open.close(replies.request)

    async def request(self, event: Event, timeout: Patience) -> Notification:
        """Send a request, and wait for the first reply."""
        found = self.requests(event, timeout, 1)
        try:
            async for reply in found:
                return reply
        finally:
            await found.aclose()  # type: ignore[attr-defined]
        raise NoReply(
            f"no reply within {timeout}", hint="somebody may listen to the request, but did not reply in time"
        )

    async def _subscribe(self) -> None:
        """Subscribe to the replies, once: every broker knows before the first request."""
        async with self._lock:
            if self._subscription is None:
                self._subscription = self._client.subscribe(replies_to(self._open.token))
                await self._subscription.installed()
                self._taking = asyncio.ensure_future(self._take(self._subscription))

    async def _take(self, subscription: Subscription) -> None:
        try:
            while True:
                self._open.take(await subscription.get())
        except FairleadError:  # the client is closed, or gave up
            return


class Responding:
    """A responder, while its block is entered: it replies to the requests that match a filter."""

    def __init__(self, client: Client, filter: str | Filter, answer: Answer) -> None:
        self._client, self._answer = client, answer
        self.subscription = client.subscribe(parse(IS_REQUEST) & filter_of(filter))
        self._replying: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.subscription.installed()
        self._replying = asyncio.ensure_future(self._reply())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.subscription.close()
        if self._replying is not None:
            await self._replying

    async def _reply(self) -> None:
        while True:
            try:
                request = await self.subscription.get()
            except (Closed, FairleadError):
                return
            try:
                with session(request):
                    found = self._answer(request)
                    content = await found if inspect.isawaitable(found) else found
                    if content is not None:
                        responder = self._client._session
                        await self._client.send(reply_of(request, content, responder, self._client.name))
            except Exception:  # one request that cannot be answered is not the others'
                log.exception("a request could not be answered")
