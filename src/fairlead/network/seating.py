"""The seat of a network's scopes at its broker: a client that decides, and a file beside the log (`rules.seat`).

Publications come to the seat as to any durable subscriber. Each step is written into `seat.jsonl` before what
follows from it is published, and a publication is accepted when that is in the log. So a broker that was killed
has lost nothing: it reads the file, publishes once more what may not have been published, under the same ids,
and gets the publications again that it had not accepted, of which it knows which ones it has decided about.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairlead.errors import NetworkError, ScopeError
from fairlead.model import Notification
from fairlead.network.client import Client, connect
from fairlead.network.journal import Journal
from fairlead.network.roles import publish_all
from fairlead.network.scoping import ScopeChanges
from fairlead.network.subscriptions import Delivery
from fairlead.rules.integrated import SEAT, BrokerScoping
from fairlead.rules.seat import Seat

if TYPE_CHECKING:
    from fairlead.network.settings import BrokerSettings

__all__ = ["Seating", "decide", "seating_of"]

log: Final = logging.getLogger(__name__)
FILE: Final = "seat.jsonl"


class Seating:
    """The seat of a broker, as a file has it."""

    def __init__(self, rule: BrokerScoping, path: Path) -> None:
        self.seat = Seat(rule)
        self.unpublished: list[Notification] = []
        """Outcomes that may not have been published when the broker stopped."""
        self.journal = Journal(path)
        self._read()
        self.seat.journal = self.journal.write

    def _read(self) -> None:
        made: list[tuple[int, Notification]] = []
        done = 0
        for entry in self.journal.entries():
            if "done" in entry:
                done = entry["done"]
            else:
                made += [(self.seat.number, each) for each in self.seat.replay(entry)]
                done = max(done, entry.get("number", 0))
        self.unpublished = [each for number, each in made if number > done]

    def published(self) -> None:
        """Note that all that followed from the steps so far is in the log of the broker."""
        self.journal.write({"done": self.seat.number})
        if self.journal.is_long:
            try:
                whole = self.seat.snapshot()
            except ScopeError as error:
                log.warning("the file of the seat cannot be shortened: %s", error)
                self.journal.defer()
            else:
                self.journal.replace(whole)


def seating_of(settings: BrokerSettings, changes: ScopeChanges | None) -> Seating | None:
    """The seat, at the broker that is to have it. NetworkError where that broker has no log."""
    if settings.seat != settings.name:
        return None
    if changes is None or settings.data is None:
        raise NetworkError(
            f"[scopes] seat: {settings.name} has no log",
            hint="what policies hold or delay is kept beside the log: name a broker that has one",
        )
    return Seating(changes.rule, Path(settings.data) / FILE)


async def decide(
    url: str,
    settings: BrokerSettings,
    seating: Seating,
    credentials: str,
    *,
    changed: asyncio.Event,
    now: Callable[[], int],
) -> None:
    """Have the broker at this address be the seat, for as long as it runs; `changed`: the graph has changed."""
    seat = seating.seat
    async with connect(url, name=SEAT, tls=settings.tls, patience=None, credentials=credentials) as client:
        arriving: asyncio.Task[Delivery] | None = None
        try:
            if settings.routing.advertisements is not None:
                await client.advertise("true")  # so that subscriptions are known here
            subscription = client.subscribe("true", durable=SEAT)
            await _publish(client, seating, seating.unpublished)
            while True:
                if arriving is None:
                    arriving = asyncio.ensure_future(subscription.delivery())
                due = seat.next_due
                changing = asyncio.ensure_future(changed.wait())
                wait_s = None if due is None else max(0, due - now()) / 1e6
                await asyncio.wait((arriving, changing), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                changing.cancel()
                changed.clear()
                outcomes = seat.follow(now())
                taken: list[Delivery] = []
                if arriving.done():
                    taken = [arriving.result(), *subscription.take_waiting()]
                    arriving = None
                for delivery in taken:
                    outcomes += seat.take(delivery.notification, now())
                outcomes += seat.advance(now())
                await _publish(client, seating, outcomes)
                for delivery in taken:
                    await delivery.accept()
        finally:
            if arriving is not None:
                arriving.cancel()
            client._abandon()  # the broker stops, and answers no more
            seating.journal.close()


async def _publish(client: Client, seating: Seating, outcomes: list[Notification]) -> None:
    """Publish what follows from steps, which are on the disk before."""
    if outcomes:
        seating.journal.sync()
        await publish_all(client, outcomes, "the seat")
        seating.published()
