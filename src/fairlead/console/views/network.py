"""The network that the views show: that of the broker which serves them, or one that a client is connected to.

The law: a view shows what the brokers answer to the one who looks, and changes what that one may change.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias

from fairlead.console.desk import Arrival, Desk
from fairlead.errors import BrokerRefused, NotThere
from fairlead.filters.schema import Schema
from fairlead.model import Instant, Notification
from fairlead.model.encoding import format_json
from fairlead.model.packed import unpack
from fairlead.network import wire
from fairlead.network.addresses import Tls
from fairlead.network.client import Client, connect
from fairlead.network.scoping import ANSWERS, Taken
from fairlead.network.server import Server, micros
from fairlead.network.survey import Seen, Survey, around, surveyed
from fairlead.rules.integrated import CHANGE, CHANGES
from fairlead.security.credentials import Credentials
from fairlead.security.rights import ADMINISTRATOR

__all__ = ["Ask", "Network", "Remote", "Surveys", "Within", "surveys_within"]

FRESH_S: Final = 0.9
"""For so long a survey serves all who look."""
PATIENCE_S: Final = 2.0
"""The time that a broker may take to answer."""
TAKEN_S: Final = 5.0
"""The time that brokers have to take a change of the scope graph before the page says which have not."""

Ask: TypeAlias = Callable[..., Awaitable[dict[str, Any]]]
"""`ask(what, **about)`: the answer of one broker to a question about itself (`fairlead.network.examining`)."""


class Network(Protocol):
    """A network of brokers, as somebody sees it."""

    @property
    def schema(self) -> Schema | None:
        """The schema that filters are read with."""

    @property
    def remark(self) -> str:
        """A remark on what is not shown, and why; empty if all is."""

    async def survey(self) -> Survey:
        """The brokers and their links."""

    def asking(self, broker: str) -> AbstractAsyncContextManager[Ask]:
        """Ask a broker of the survey, over one connection. FairleadError."""

    async def backlogs(self) -> list[dict[str, Any]]:
        """The durable subscribers of the first broker, with what waits for them."""

    async def publish(self, event: Mapping[str, Any]) -> Notification:
        """An event, published and acknowledged."""

    async def redrive(self, durable: str) -> dict[str, int]:
        """The dead deliveries of a durable subscriber, handed out again."""

    async def change_scopes(self, text: str) -> Taken:
        """A change of the scope graph, published; which brokers have taken it after a while. FairleadError."""


class Surveys:
    """Surveys that all who look share: the brokers are asked once, however many windows are open."""

    def __init__(self, take: Callable[[], Awaitable[Survey]]) -> None:
        self._take = take
        self._taken: tuple[float, asyncio.Future[Survey] | None] = 0.0, None

    async def latest(self) -> Survey:
        """A survey that ended less than a second ago, or is still being taken."""
        now = time.monotonic()
        at, known = self._taken
        if known is None or (known.done() and (now - at > FRESH_S or known.cancelled() or known.exception())):
            known = asyncio.ensure_future(self._take())
            self._taken = now, known
            known.add_done_callback(self._done)
        return await asyncio.shield(known)

    def _done(self, survey: asyncio.Future[Survey]) -> None:
        if not survey.cancelled():
            survey.exception()  # nobody may be waiting
        if self._taken[1] is survey:
            self._taken = time.monotonic(), survey


def surveys_within(server: Server) -> Surveys:
    """Surveys of the network of a broker in this process.

    Where it has an access policy, it is alone: the others would have to be shown the credentials of others.
    """

    async def take() -> Survey:
        node = server.node
        status: dict[str, Any] = {**node.status()}
        first = Seen(server.settings.name, status["url"], status)
        if node.guard.is_on:
            return Survey({first.name: first})
        return await around(first, tls=server.settings.tls, patience=PATIENCE_S)

    return Surveys(take)


class Within:
    """The network of the broker in this process, as a principal sees it."""

    def __init__(
        self,
        server: Server,
        surveys: Surveys,
        agent: Callable[[], AbstractAsyncContextManager[Desk]],
        identified: Callable[[Notification], Notification],
        desk: Callable[[str], Desk],
    ) -> None:
        self._server, self._surveys, self._agent, self._identified = server, surveys, agent, identified
        self._desk = desk

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

    async def survey(self) -> Survey:
        return await self._surveys.latest()

    @asynccontextmanager
    async def asking(self, broker: str) -> AsyncIterator[Ask]:
        node = self._server.node
        if broker == node.name:

            async def ask(what: str, **about: Any) -> dict[str, Any]:
                await asyncio.sleep(0)  # the broker goes on between two pieces of a search
                found: dict[str, Any] = node.examined(what, format_json(about) if about else "")
                return found

            yield ask
            return
        async with _connected(await self.survey(), broker, tls=self._server.settings.tls) as ask_there:
            yield ask_there

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

    async def change_scopes(self, text: str) -> Taken:
        desk = self._desk(_administrator())
        try:
            await desk.request(lambda number: wire.Subscribe(number, "answers", ANSWERS))
            made = Notification.of({"type": CHANGE, "text": text})
            change = replace(self._identified(made), producer=CHANGES, time=Instant(micros()))

            async def answers() -> AsyncIterator[Notification]:
                while True:
                    for each in await desk.arrivals(1 << 20):
                        if isinstance(each, Arrival):
                            yield unpack(each.packed)

            await desk.publish([change])
            return await _taken(answers(), change.id or "", await self.survey())
        finally:
            desk.leave()


class Remote:
    """The network of a broker elsewhere, as the owner of the credentials sees it."""

    remark = ""

    def __init__(
        self, client: Client, urls: Sequence[str], tls: Tls | None, credentials: Credentials | None
    ) -> None:
        self._client, self._urls, self._tls, self._credentials = client, urls, tls, credentials
        self.schema: Schema | None = None

        async def take() -> Survey:
            return await surveyed(urls, tls=tls, patience=PATIENCE_S, credentials=credentials)

        self._surveys = Surveys(take)

    async def survey(self) -> Survey:
        return await self._surveys.latest()

    @asynccontextmanager
    async def asking(self, broker: str) -> AsyncIterator[Ask]:
        if broker == self._client.broker:
            yield self._client.examine
            return
        survey = await self.survey()
        async with _connected(survey, broker, tls=self._tls, credentials=self._credentials) as ask:
            yield ask

    async def backlogs(self) -> list[dict[str, Any]]:
        return await self._client.durables()

    async def publish(self, event: Mapping[str, Any]) -> Notification:
        return await self._client.publish(event)

    async def redrive(self, durable: str) -> dict[str, int]:
        return await self._client.redrive(durable)

    async def change_scopes(self, text: str) -> Taken:
        async with connect(
            self._urls,
            name=_administrator(),
            tls=self._tls,
            patience=PATIENCE_S,
            credentials=self._credentials,
            clock=lambda: Instant(micros()),
        ) as client:
            answers = client.subscribe(ANSWERS)
            await answers.installed()
            published = await client.publish({"producer": CHANGES, "type": CHANGE, "text": text})
            return await _taken(aiter(answers), published.id or "", await self.survey())


def _administrator() -> str:
    """The name of a connection that changes the scope graph."""
    return f"{ADMINISTRATOR}{uuid.uuid4().hex[:8]}"


@asynccontextmanager
async def _connected(
    survey: Survey, broker: str, *, tls: Tls | None, credentials: Credentials | None = None
) -> AsyncIterator[Ask]:
    seen = survey.brokers.get(broker)
    if seen is None or seen.status is None:
        raise NotThere(f"{broker} is not there: {'it has gone' if seen is None else seen.problem}")
    tls = tls if seen.url.startswith("fairleads:") else None
    async with connect(seen.url, tls=tls, patience=PATIENCE_S, credentials=credentials) as client:
        if client.broker != broker:
            raise NotThere(f"{client.broker} answers at {seen.url}, and not {broker}")
        yield client.examine


async def _taken(answers: AsyncIterator[Notification], change: str, survey: Survey) -> Taken:
    """The brokers that have taken a change: all that have a log are waited for."""
    brokers = {
        name
        for name, seen in survey.brokers.items()
        if seen.status is None or seen.status.get("log") is not None
    }
    if not brokers:
        raise BrokerRefused("no broker of this network has a log, in which changes of scopes are kept")
    taken = Taken(change, brokers)
    try:
        async with asyncio.timeout(TAKEN_S):
            async for answer in answers:
                taken.hear(answer)
                if not taken.missing:
                    break
    except TimeoutError:
        pass
    return taken
