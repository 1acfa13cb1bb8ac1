"""Small random worlds to try overlays in: a domain so small that filters cover, overlap and merge all the time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import TypeAlias

from fairlead.audit import Event, Notified
from fairlead.broker.messages import Call, Command, Deliver, Effect, Message
from fairlead.bus import Bus
from fairlead.filters import Filter, parse
from fairlead.model import Notification
from fairlead_lab.broker import AnyBroker
from fairlead_lab.simulation.network import Observer

__all__ = ["TYPES", "Delivered", "Deliveries", "expected", "on_the_bus", "some_filter", "some_notification"]

TYPES = ("t0", "t1", "t2")
Delivered: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A client, the id of a notification, and the ids of the client's subscriptions that matched."""


def some_filter(random: Random) -> Filter:
    """A filter over `type` and `price`."""
    type, other = (random.choice(TYPES) for _ in range(2))
    low = random.randrange(12)
    high = low + random.randrange(6)
    return parse(
        random.choice(
            (
                f'type = "{type}"',
                f"price in [{low}, {high}]",
                f'type = "{type}" and price in [{low}, {high}]',
                f"price > {low}",
                f'type in {{"{type}", "{other}"}} and price < {low}',
            )
        )
    )


def some_notification(random: Random, id: str, producer: str) -> Notification:
    """A notification with a type and a price."""
    record = {"type": random.choice(TYPES), "price": random.randrange(14)}
    return replace(Notification.of(record), id=id, producer=producer)


def expected(
    subscriptions: Mapping[str, tuple[str, Filter]], notifications: Iterable[Notification]
) -> list[Delivered]:
    """The deliveries by the definition; subscriptions by their ids, each with its client."""
    found = []
    for notification in notifications:
        matching: dict[str, list[str]] = {}
        for id, (client, filter) in subscriptions.items():
            if filter.matches(notification):
                matching.setdefault(client, []).append(id)
        for client, ids in matching.items():
            found.append((client, str(notification.id), tuple(sorted(ids))))
    return sorted(found)


class Deliveries(Observer):
    """Notes what clients are notified of."""

    def __init__(self) -> None:
        self.all: list[Delivered] = []

    def handled(
        self, now: int, broker: AnyBroker, message: Message | Call | Command, effects: list[Effect]
    ) -> None:
        self.all.extend(
            (effect.client, str(effect.notification.id), effect.subscriptions)
            for effect in effects
            if isinstance(effect, Deliver)
        )


def on_the_bus(
    subscriptions: Mapping[str, tuple[str, Filter]], notifications: Iterable[Notification]
) -> list[Delivered]:
    """The same, as the embedded bus delivers it, in the order in which it does."""
    heard: list[Event] = []
    with Bus(trace=heard.append) as bus:
        for id, (client, filter) in subscriptions.items():
            bus.subscribe(filter, _hear, id=id, subscriber=client)
        for notification in notifications:
            bus.publish(notification)
    return [
        (event.component, event.identity.id, event.subscriptions)
        for event in heard
        if isinstance(event, Notified)
    ]


def _hear(notification: Notification) -> None:
    """Trust the bus: what it says that it delivers is enough."""
