"""Publication on demand: a source publishes only while somebody wants what it has.

    async with client.source("celsius in [-40, 60]") as source:
        await source.wanted()                  somebody listens
        await source.publish({"celsius": 20})  None, and nothing sent, while nobody does

The law: behind the acknowledgement of a subscription, nothing that it matches is discarded. So a source is
quenched by a lease of its broker alone (`quenching`), and counts itself as wanted whenever it holds none.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from fairlead.delivery.discovery import Discovered
from fairlead.errors import BrokerRefused, FairleadError, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import render
from fairlead.model import Notification
from fairlead.model.durations import seconds_of
from fairlead.network import wire
from fairlead.network.arguments import Patience, filter_of
from fairlead.network.quenching import LEASE_US

if TYPE_CHECKING:
    from fairlead.network.client import Client, Publishable
    from fairlead.network.subscriptions import Subscription

__all__ = ["Source"]

LEASE_S: Final = LEASE_US / 1_000_000
RENEWED_S: Final = LEASE_S / 3
"""A source asks again after this time, while it is quenched."""

Reader = Callable[[], Any]


class Source:
    """A source: a client publishes on demand. It is active while its block is entered.

    `linger` is how long nobody has to listen before it is quenched.
    """

    def __init__(self, client: Client, filter: str | Filter, linger: Patience) -> None:
        self._client = client
        self.filter = filter_of(filter, client._schema)
        self._linger = seconds_of(linger, "a time to linger") or 0.0
        self._id = client._fresh("q")
        self._until = 0.0
        """The end of the lease, on the clock of the event loop."""
        self._wakes = 0
        """The number of times it was woken: an answer to what was asked before is out of date."""
        self._last = True
        """Whether it was wanted when callbacks were called last."""
        self._unwanted_since: float | None = None
        self._changed = asyncio.Event()
        self._awake = asyncio.Event()
        self._awake.set()
        self._listening = ""
        self._tasks: list[asyncio.Task[None]] = []
        self._callbacks: list[Callable[[bool], object]] = []
        self._needs: list[tuple[Filter, Callable[[Notification], object], list[Subscription]]] = []
        self.discarded = 0
        """The number of publications that nobody wanted."""

    @property
    def is_wanted(self) -> bool:
        """Whether somebody may listen: it is not quenched."""
        return asyncio.get_running_loop().time() >= self._until

    async def wanted(self) -> None:
        """Return when somebody listens."""
        while not self.is_wanted:
            self._awake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LEASE_S):
                    await self._awake.wait()

    async def wants(self) -> Discovered:
        """The part of the filter that others subscribe to."""
        return await self._client.wants(self.filter)

    async def publish(self, event: Publishable) -> Notification | None:
        """Publish, and return the notification when it is safe; None where nobody wants it: nothing is sent."""
        if not self.is_wanted:
            self.discarded += 1
            return None
        return await self._client.publish(event)

    def on_change(self, callback: Callable[[bool], object]) -> None:
        """Call back with whether it is wanted, whenever that changes."""
        self._callbacks.append(callback)

    def needs(self, filter: str | Filter, into: Callable[[Notification], object]) -> None:
        """Subscribe to what this source is made of, only while it is wanted itself; `into` gets each notification.

        So what nobody wants at the end of a chain is published nowhere along it.
        """
        self._needs.append((filter_of(filter, self._client._schema), into, []))
        self._changed.set()

    def poll(self, read: Reader, *, every: Patience) -> None:
        """Publish what `read()` returns, again and again while it is wanted; None is nothing to publish."""
        seconds = seconds_of(every, "an interval")
        if seconds is None or seconds <= 0:
            raise ValueRefused(f"no interval: {every!r}", hint='every="1s"')
        self._tasks.append(asyncio.ensure_future(self._poll(read, seconds)))

    async def __aenter__(self) -> Self:
        client = self._client
        await client._uplink.until(client._flowing)
        if client._version < wire.DISCOVERY_SINCE:
            raise BrokerRefused(f"{client.broker} cannot quench sources", hint="upgrade the broker")
        client._sources[self._id] = self
        self._listening = await client.listening(self.filter, self._tell)
        self._tasks.append(asyncio.ensure_future(self._stay()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        client = self._client
        client._sources.pop(self._id, None)
        await self._let_go()
        if client._uplink.failure is None and client._uplink.connected.is_set():
            client._uplink.tell(wire.Awake(self._id))
            with suppress(FairleadError):
                await client.unlisten(self._listening)

    # -- how ---------------------------------------------------------------------------------------------------

    def _tell(self, anyone: bool) -> None:
        """The broker says whether anyone listens, some time after that has changed."""
        self._unwanted_since = None if anyone else asyncio.get_running_loop().time()
        self._changed.set()

    def wake(self) -> None:
        """Somebody listens: what is published from now on is published."""
        self._wakes += 1
        self._unwanted_since = asyncio.get_running_loop().time()  # unless `_tell` says otherwise soon
        self._set_until(0.0)
        self._client._uplink.tell(wire.Awake(self._id))
        self._changed.set()

    def lost(self) -> None:
        """The connection is lost: nobody can wake it, so it is awake."""
        self._wakes += 1
        self._set_until(0.0)

    def _set_until(self, until: float) -> None:
        self._until = until
        self._notice()

    def _notice(self) -> None:
        """Say whether it is wanted, where that has changed."""
        is_wanted = self.is_wanted
        if is_wanted:
            self._awake.set()
        if is_wanted != self._last:
            self._last = is_wanted
            self._changed.set()
            for callback in self._callbacks:
                callback(is_wanted)

    async def _stay(self) -> None:
        """Ask to be quenched when nobody has listened for long enough, and again before the lease is over."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            since, wait = self._unwanted_since, None
            if since is not None and (wait := since + self._linger - loop.time()) <= 0:
                wait = RENEWED_S
                await self._ask(loop)
            self._notice()
            await self._follow_needs()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def _ask(self, loop: asyncio.AbstractEventLoop) -> None:
        begun, wakes, text = loop.time(), self._wakes, render(self.filter)
        try:
            answer = await self._client._request(
                lambda number: wire.Quench(number, self._id, text), again=False
            )
        except FairleadError:  # it is awake when the lease is over, and asks again
            return
        if not answer:
            self._unwanted_since = loop.time()  # it lingers anew
        elif self._wakes == wakes:
            self._set_until(begun + LEASE_S)

    async def _follow_needs(self) -> None:
        """Subscribe to what it is made of while it is wanted, and no longer."""
        if not self.is_wanted:
            await self._let_go()
            return
        for filter, into, made in self._needs:
            if not made:
                subscription = self._client.subscribe(filter)
                made.append(subscription)
                await subscription.installed()
                self._tasks.append(asyncio.ensure_future(_hand_over(subscription, into)))

    async def _let_go(self) -> None:
        for _, _, made in self._needs:
            while made:
                with suppress(FairleadError):
                    await made.pop().close()

    async def _poll(self, read: Reader, every: float) -> None:
        while True:
            await self.wanted()
            event = read()
            if isinstance(event, Awaitable) or inspect.isawaitable(event):
                event = await event
            if event is not None:
                await self.publish(event)
            await asyncio.sleep(every)


async def _hand_over(subscription: Subscription, into: Callable[[Notification], object]) -> None:
    async for notification in subscription:
        made = into(notification)
        if inspect.isawaitable(made):
            await made
