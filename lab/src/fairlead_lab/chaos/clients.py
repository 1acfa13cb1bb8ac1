"""Those who publish and those who listen while the network breaks, and tell the accounts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from random import Random
from typing import Final

from fairlead.errors import BrokerRefused
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead.model.order import identity_of
from fairlead.network.client import Client, Subscription, connect
from fairlead_lab.chaos.accounts import Accounts
from fairlead_lab.chaos.proxy import Proxy

__all__ = ["Producer", "Subscriber"]

REGIONS: Final = ("north", "south", "west")
IN_FLIGHT: Final = 300
BURST_MAX: Final = 8
PAUSE_S: Final = 0.04


class Producer:
    """Publishes unique notifications, many at a time, and waits for each to be acknowledged."""

    def __init__(self, name: str, proxy: Proxy, accounts: Accounts, rng: Random) -> None:
        self.name, self.proxy = name, proxy
        self._accounts, self._rng = accounts, rng
        self._client = connect(_url(proxy), name=name, patience=None)
        self._number = 0
        self._in_flight: set[asyncio.Task[None]] = set()

    async def run(self, until: asyncio.Event) -> None:
        """Publish until then, and return when all has been answered."""
        await self._client.open()
        while not until.is_set():
            for _ in range(self._rng.randint(1, BURST_MAX)):
                task = asyncio.create_task(self._publish())
                self._in_flight.add(task)
                task.add_done_callback(self._in_flight.discard)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(until.wait(), PAUSE_S)
            while len(self._in_flight) > IN_FLIGHT:
                await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)
        if self._in_flight:
            await asyncio.gather(*self._in_flight)

    async def close(self) -> None:
        """Go."""
        await self._client.close()

    async def _publish(self) -> None:
        self._number += 1
        fields = {"x": self._rng.randint(0, 99), "region": self._rng.choice(REGIONS), "n": self._number}
        notification = Notification.of({**fields, "producer": self.name, "id": f"{self.name}-{self._number}"})
        self._accounts.publishing(notification)
        try:
            await self._client.publish(notification)
        except BrokerRefused:
            self._accounts.refused(identity_of(notification))
        else:
            self._accounts.acknowledged(identity_of(notification))


class Subscriber:
    """Listens, durably or not, and takes its time. It may leave and crash, and comes back."""

    def __init__(
        self,
        name: str,
        proxy: Proxy,
        accounts: Accounts,
        filters: Iterable[str],
        *,
        durable: bool,
        pace_s: float = 0.0,
    ) -> None:
        self.name, self.proxy, self.durable = name, proxy, durable
        self._accounts, self._pace_s = accounts, pace_s
        self._filters = {f"{name}.{number}": parse(text) for number, text in enumerate(filters)}
        self.installed = asyncio.Event()
        """Set when all its subscriptions have been acknowledged for the first time."""
        self._waiting_for = set(self._filters)
        self._declared: set[str] = set()
        self._life = -1
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin a life."""
        self._life += 1
        self._client = connect(_url(self.proxy), name=self.name, patience=None)
        self._task = asyncio.create_task(self._listen_to_all(self._client))

    @property
    def lives(self) -> bool:
        """Whether it is there."""
        return self._task is not None

    @property
    def failure(self) -> BaseException | None:
        """Why it does not listen any longer, though nobody has told it to stop."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return None
        return self._task.exception()

    async def leave(self) -> None:
        """Say goodbye."""
        client = await self._stop()
        if client is not None:
            await client.close()

    async def crash(self) -> None:
        """End as a process does that is killed: nothing more is said."""
        client = await self._stop()
        if client is not None:
            client._uplink.kill()

    async def _stop(self) -> Client | None:
        client, task, self._client, self._task = self._client, self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        return client

    async def _listen_to_all(self, client: Client) -> None:
        await client.open()
        listening = []
        for id, filter in self._filters.items():
            if id not in self._declared:
                self._declared.add(id)
                self._accounts.subscribing(id, id, filter, durable=self.durable)
            subscription = client.subscribe(filter, durable=self.name if self.durable else "", id=id)
            listening.append(self._listen_to(subscription))
        await asyncio.gather(*listening)

    async def _listen_to(self, subscription: Subscription) -> None:
        life, id = self._life, subscription.id
        await subscription.installed()
        self._accounts.subscribed(id, id)
        self._waiting_for.discard(id)
        if not self._waiting_for:
            self.installed.set()
        while True:
            delivery = await subscription.delivery()
            self._accounts.delivered(id, delivery.notification, [id], life)
            await delivery.accept()
            if self._pace_s:
                await asyncio.sleep(self._pace_s)


def _url(proxy: Proxy) -> str:
    return f"fairlead://127.0.0.1:{proxy.port}"
