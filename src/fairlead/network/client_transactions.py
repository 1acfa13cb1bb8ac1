"""Transactions of a client: publications and accepted deliveries that take place together, or not at all.

    async with client.transaction(jobs) as t:
        job = await jobs.get()
        t.publish({"result": work(job)})

Left without an error, the block is committed: what was published in it is in the broker's log, and what was
taken of `jobs` in it is accepted, or nothing of both. Left with an error, nothing is published, and what was taken
comes again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from fairlead.delivery.transacting import check_open
from fairlead.errors import AccessRefused, BrokerRefused, TransactionRefused, ValueRefused
from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.network import wire
from fairlead.network.subscriptions import Delivery, Subscription

if TYPE_CHECKING:
    from fairlead.network.client import Client, Publishable

__all__ = ["Transaction"]


class Transaction:
    """Publications, and deliveries of durable subscriptions, that are held until the block ends."""

    def __init__(self, client: Client, subscriptions: Sequence[Subscription]) -> None:
        for each in subscriptions:
            if not each.durable:
                raise ValueRefused(
                    "a transaction accepts what durable subscribers get", hint='subscribe(…, durable="work")'
                )
        self._client, self._subscriptions = client, tuple(subscriptions)
        self.id = secrets.token_hex(16)
        self.state = "open"
        """open, committed or aborted."""
        self._packed: list[bytes] = []
        self._deliveries: list[Delivery] = []

    def publish(self, event: Publishable) -> Notification:
        """Publish with the others, when the transaction is committed; the notification with its identity."""
        check_open(self.state)
        given = Notification.of(event)
        if given.id is None:
            given = replace(given, id=f"{self.id}-{len(self._packed)}")
        notification = self._client._identified(given)
        self._packed.append(pack(self._client._sealed(notification)))
        return notification

    async def commit(self) -> None:
        """Publish and accept; return when all of it is safe.

        TransactionRefused: nothing was published, and what was delivered comes again. An error of the connection
        says nothing of the kind: the transaction may have been committed.
        """
        check_open(self.state)
        self.state = "committing"
        if not (self._packed or self._deliveries):
            self._end("committed")
            return
        try:
            claims = self._client._intake.claims(self._deliveries)
            stored = await self._client._commit(wire.Transaction(self._packed, claims))
        except BaseException as error:  # it was not sent
            self._take_back()
            if isinstance(error, ValueRefused):
                raise TransactionRefused(str(error)) from None
            raise
        stored.add_done_callback(self._answered)
        try:
            await asyncio.shield(stored)
        except AccessRefused:
            raise
        except BrokerRefused as refused:
            raise TransactionRefused(str(refused)) from None

    def _answered(self, stored: asyncio.Future[None]) -> None:
        """The transaction is safe, or it is refused; after another error nobody knows."""
        error = None if stored.cancelled() else stored.exception()
        if error is None and not stored.cancelled():
            for each in self._deliveries:
                self._client._intake.transacted(each)
            self._end("committed")
        elif isinstance(error, BrokerRefused):
            self._take_back()
        else:
            self._end("unknown")

    async def abort(self) -> None:
        """Publish nothing; what was delivered comes again, at the next attempt."""
        check_open(self.state)
        self._take_back()

    def __len__(self) -> int:
        return len(self._packed)

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.state == "open":
            if kind is None:
                await self.commit()
            else:
                self._take_back()

    # -- what subscriptions ask --------------------------------------------------------------------------------

    def _begin(self) -> None:
        check_open(self.state)
        for each in self._subscriptions:
            if each._transaction is not None:
                raise TransactionRefused("the subscription is in another transaction", hint="one at a time")
        for each in self._subscriptions:
            each._transaction = self

    def _took(self, delivery: Delivery) -> None:
        if delivery.ordinal:  # what was not logged is not accepted
            self._deliveries.append(delivery)

    def _has(self, delivery: Delivery) -> bool:
        return any(_is_same(each, delivery) for each in self._deliveries)

    def _drop(self, delivery: Delivery) -> None:
        self._deliveries = [each for each in self._deliveries if not _is_same(each, delivery)]

    def _take_back(self) -> None:
        self._end("aborted")
        for each in self._deliveries:
            self._client._intake.settle(each, rejected=True, again=True, reason="a transaction was aborted")

    def _end(self, state: str) -> None:
        self.state = state
        for each in self._subscriptions:
            if each._transaction is self:
                each._transaction = None


def _is_same(one: Delivery, other: Delivery) -> bool:
    return (one.durable, one.ordinal, one._of) == (other.durable, other.ordinal, other._of)
