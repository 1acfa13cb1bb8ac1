"""A bridge between Kafka and a network of brokers: topics to notifications, and notifications to topics.

    Inward      records of topics are published; they are committed when the broker has acknowledged them
    Outward     what a durable subscription delivers is written in transactions, which hold its position in the log

Each once in both directions. Inward, a record that is taken again has the identity that it had before, and the
broker remembers identities: one without an id has that of its headers, or of its place. Outward, a delivery that
comes again lies at or below the position that the last transaction holds. Beside the position stands the
incarnation of the broker's log: where the log has gone back to a copy, what lies behind the copy's end is new.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from fairlead.errors import BrokerRefused
from fairlead.ingest.rejection import Rejection
from fairlead.kafka.reading import Reader
from fairlead.kafka.records import PLAIN, Reading, Taken
from fairlead.kafka.writing import Position, Sent, Writer
from fairlead.log.lineage import Lineage

if TYPE_CHECKING:
    from fairlead.model import Notification
    from fairlead.network.client import Client
    from fairlead.network.subscriptions import Delivery

__all__ = ["Inward", "Outward", "Passed", "serve", "valid_position"]

TOGETHER: Final = 500
"""So many records are published, or written, together: far fewer than the identities that a broker remembers."""
TURN_S: Final = 0.2


@dataclass(slots=True)
class Passed:
    """Numbers of what a bridge has passed on, and of what it has not."""

    passed: int = 0
    rejected: int = 0
    """Records that are no notifications, and those that the broker refused."""
    repeated: int = 0
    """Deliveries that came again, and were in the topic already."""


@dataclass(frozen=True, slots=True)
class Inward:
    """From topics into the network."""

    settings: Mapping[str, str]
    topics: Sequence[str]
    group: str
    reading: Reading = PLAIN
    on_rejected: Callable[[str, str], object] = lambda place, reason: None
    """Gets the place of each record that is not passed on, and the reason."""

    async def run(self, client: Client, passed: Passed, is_over: Callable[[], bool]) -> None:
        """Pass records on until it is over."""
        with ExitStack() as stack:
            reader = await asyncio.to_thread(
                lambda: stack.enter_context(Reader(self.settings, self.group, self.topics))
            )
            while not is_over():
                taken = await asyncio.to_thread(reader.take, TOGETHER, TURN_S)
                if not taken:
                    continue
                reasons = await asyncio.gather(*(self._publish(client, each) for each in taken))
                for each, reason in zip(taken, reasons, strict=True):
                    if reason:
                        passed.rejected += 1
                        self.on_rejected(each.at, reason)
                    else:
                        passed.passed += 1
                await asyncio.to_thread(reader.commit)

    async def _publish(self, client: Client, taken: Taken) -> str:
        """Publish a record; the reason why it is none, or the broker does not take it, or nothing."""
        read = self.reading.read(taken)
        if read is None:
            return ""
        if isinstance(read, Rejection):
            return read.reason
        try:
            await client.publish(identified(read, taken))
        except BrokerRefused as error:
            return str(error)
        return ""


def serve(client: Client, bridge: Inward | Outward, passed: Passed) -> None:
    """Run a bridge until SIGINT or SIGTERM; what is under way is passed on first."""

    async def work() -> None:
        over = asyncio.Event()
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, over.set)
        async with client:
            await bridge.run(client, passed, over.is_set)

    asyncio.run(work())


def identified(notification: Notification, taken: Taken) -> Notification:
    """A notification with an identity: its own, that of its record's headers, or that of the record's place."""
    headers = {name: value.decode("utf-8", "replace") for name, value in taken.headers if value is not None}
    producer = notification.producer or headers.get("producer") or f"kafka:{taken.topic}/{taken.partition}"
    if notification.id is not None:
        return replace(notification, producer=producer)
    if "producer" in headers and "id" in headers:
        return replace(notification, producer=producer, id=headers["id"])
    return replace(notification, producer=producer, id=f"{taken.at}")


@dataclass(frozen=True, slots=True)
class Outward:
    """From the network into a topic."""

    settings: Mapping[str, str]
    topic: str
    name: str
    """That of the durable subscription, and of the transactions."""
    filter: str
    key: str | None = None
    """The attribute whose value is the key of a record; by default the producer is, so its order is kept."""

    async def run(self, client: Client, passed: Passed, is_over: Callable[[], bool]) -> None:
        """Pass deliveries on until it is over."""
        with ExitStack() as stack:
            writer = await asyncio.to_thread(
                lambda: stack.enter_context(Writer(self.settings, f"fairlead-bridge-{self.name}"))
            )
            held = await asyncio.to_thread(writer.held, self.topic)
            async with client.subscribe(self.filter, durable=self.name) as subscription:
                reading = asyncio.ensure_future(subscription.delivery())
                try:
                    while not is_over():
                        done, _ = await asyncio.wait([reading], timeout=TURN_S)
                        if not done:
                            continue
                        deliveries = [reading.result(), *subscription.take_waiting()]
                        reading = asyncio.ensure_future(subscription.delivery())
                        held = await self._pass_on(client, writer, deliveries, held, passed)
                finally:
                    reading.cancel()

    async def _pass_on(
        self,
        client: Client,
        writer: Writer,
        deliveries: Sequence[Delivery],
        held: Position,
        passed: Passed,
    ) -> Position:
        lineage = client.lineage
        known = valid_position(held, lineage)
        new = [each for each in deliveries if each.ordinal > known]
        passed.repeated += len(deliveries) - len(new)
        if new:
            current = lineage[-1].id if lineage else ""
            held = Position(max(each.ordinal for each in new), current)
            records = [self._record(each.notification) for each in new]
            await asyncio.to_thread(writer.write, records, self.topic, held.at, held.beside)
            passed.passed += len(new)
        for each in deliveries:
            await each.accept()
        return held

    def _record(self, notification: Notification) -> Sent:
        key = notification.producer if self.key is None else notification.get(self.key)
        identity = (("producer", notification.producer), ("id", notification.id or ""))
        headers = tuple((name, value.encode()) for name, value in identity)
        return Sent(
            self.topic,
            notification.to_json().encode(),
            None if key is None else str(key).encode(),
            headers,
        )


def valid_position(held: Position, lineage: Lineage) -> int:
    """The ordinal up to which what a log holds now has been passed on.

    The log grew under other incarnations since, or it went back: then a position behind the place where the
    next incarnation begins is that of a record that is gone.
    """
    known = [each.id for each in lineage]
    if not held.beside or held.beside not in known:
        return 0 if held.beside else held.at
    later = lineage[known.index(held.beside) + 1 :]
    return min([held.at, *(each.first for each in later)])
