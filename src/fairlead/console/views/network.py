"""The network that the views show: that of the broker which serves them, or one that a client is connected to.

The law: a view shows what the brokers answer to the one who looks, and changes what that one may change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

from fairlead.console.desk import Desk
from fairlead.filters.schema import Schema
from fairlead.model import Notification
from fairlead.network import wire
from fairlead.network.addresses import Tls
from fairlead.network.client import Client
from fairlead.network.server import Server
from fairlead.network.survey import Seen, Survey, around, surveyed
from fairlead.security.credentials import Credentials

__all__ = ["Network", "Remote", "Surveys", "Within", "surveys_within"]

FRESH_S: Final = 0.9
"""For so long a survey serves all who look."""
PATIENCE_S: Final = 2.0
"""The time that a broker may take to answer."""


class Network(Protocol):
    """A network of brokers, as somebody sees it."""

    @property
    def schema(self) -> Schema | None:
        """The schema that filters are read with."""

    @property
    def remark(self) -> str:
        """A remark on what is not shown, and why; empty if all is."""

    async def survey(self, *, tables: bool = False) -> Survey:
        """The brokers and their links."""

    async def backlogs(self) -> list[dict[str, Any]]:
        """The durable subscribers of the first broker, with what waits for them."""

    async def publish(self, event: Mapping[str, Any]) -> Notification:
        """An event, published and acknowledged."""

    async def redrive(self, durable: str) -> dict[str, int]:
        """The dead deliveries of a durable subscriber, handed out again."""


class Surveys:
    """Surveys that all who look share: the brokers are asked once, however many windows are open."""

    def __init__(self, take: Callable[[bool], Awaitable[Survey]]) -> None:
        self._take = take
        self._taken: dict[bool, tuple[float, asyncio.Future[Survey]]] = {}

    async def latest(self, tables: bool) -> Survey:
        """A survey that began less than a second ago, or is still being taken."""
        now = time.monotonic()
        at, known = self._taken.get(tables, (0.0, None))
        if known is None or (known.done() and (now - at > FRESH_S or known.cancelled() or known.exception())):
            known = asyncio.ensure_future(self._take(tables))
            known.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # nobody may be waiting
            self._taken[tables] = now, known
        return await asyncio.shield(known)


def surveys_within(server: Server) -> Surveys:
    """Surveys of the network of a broker in this process.

    Where it has an access policy, it is alone: the others would have to be shown the credentials of others.
    """

    async def take(tables: bool) -> Survey:
        node = server.node
        status: dict[str, Any] = {**node.status()}
        shown: dict[str, Any] | None = {**node.tables()} if tables else None
        first = Seen(server.settings.name, status["url"], status, shown)
        if node.guard.is_on:
            return Survey({first.name: first})
        return await around(first, tables=tables, tls=server.settings.tls, patience=PATIENCE_S)

    return Surveys(take)


class Within:
    """The network of the broker in this process, as a principal sees it."""

    def __init__(
        self,
        server: Server,
        surveys: Surveys,
        agent: Callable[[], AbstractAsyncContextManager[Desk]],
        identified: Callable[[Notification], Notification],
    ) -> None:
        self._server, self._surveys, self._agent, self._identified = server, surveys, agent, identified

    @property
    def schema(self) -> Schema | None:
        return self._server.node.broker.catalogue.schema

    @property
    def remark(self) -> str:
        if not self._server.node.guard.is_on:
            return ""
        return (
            "This broker has an access policy and shows itself alone. "
            "fairlead console asks all brokers with your credentials."
        )

    async def survey(self, *, tables: bool = False) -> Survey:
        return await self._surveys.latest(tables)

    async def backlogs(self) -> list[dict[str, Any]]:
        return [{**each} for each in self._server.node.operations.backlogs()]

    async def publish(self, event: Mapping[str, Any]) -> Notification:
        notification = self._identified(Notification.of(event))
        async with self._agent() as agent:
            await agent.publish([notification])
        return notification

    async def redrive(self, durable: str) -> dict[str, int]:
        async with self._agent() as agent:
            found: dict[str, int] = await agent.request(lambda number: wire.Redrive(number, durable))
        return found


class Remote:
    """The network of a broker elsewhere, as the owner of the credentials sees it."""

    remark = ""

    def __init__(
        self, client: Client, urls: Sequence[str], tls: Tls | None, credentials: Credentials | None
    ) -> None:
        self._client = client
        self.schema: Schema | None = None

        async def take(tables: bool) -> Survey:
            return await surveyed(urls, tables=tables, tls=tls, patience=PATIENCE_S, credentials=credentials)

        self._surveys = Surveys(take)

    async def survey(self, *, tables: bool = False) -> Survey:
        return await self._surveys.latest(tables)

    async def backlogs(self) -> list[dict[str, Any]]:
        return await self._client.durables()

    async def publish(self, event: Mapping[str, Any]) -> Notification:
        return await self._client.publish(event)

    async def redrive(self, durable: str) -> dict[str, int]:
        return await self._client.redrive(durable)
