"""The values that the channels of a bus retain, for those who subscribe later.

A value goes to a subscription when it is made, before all that is published later. A subscriber gets it once: not
where another of its subscriptions matches it, which has brought it already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from fairlead.bus.handing_over import Handover
from fairlead.bus.handles import Subscription
from fairlead.bus.registry import Registry
from fairlead.channels import RetainedValues
from fairlead.model import Notification
from fairlead.model.order import OrderKey
from fairlead.rules import Seam

__all__ = ["Retaining"]


class _Value(NamedTuple):
    notification: Notification
    key: OrderKey | None
    number: int
    """The number of its publication."""


class Retaining:
    """The retained values of one bus. The bus's lock keeps them."""

    def __init__(self, seam: Seam, registry: Registry) -> None:
        self._values = RetainedValues[_Value](seam.channels)
        self._registry = registry
        self._published = 0
        self._without: dict[str, int] = {}
        """Active subscriptions that asked for no retained values, with the number of publications before them."""

    def take(self, notification: Notification, key: OrderKey | None, number: int | None = None) -> None:
        """Retain what takes its place in the order of the bus, if a channel says so; with its number, where the
        bus has a log."""
        self._published = self._published + 1 if number is None else number
        self._values.take(notification, _Value(notification, key, self._published))

    def __iter__(self) -> Iterator[Notification]:
        return (each.content.notification for each in self._values)

    def numbered(self) -> Iterator[tuple[int, Notification]]:
        """The values with the numbers of their publications."""
        return ((each.content.number, each.content.notification) for each in self._values)

    def skip(self, subscription: Subscription) -> None:
        """A subscription gets no retained values."""
        self._without[subscription.id] = self._published

    def handovers(
        self, subscription: Subscription, routed: Callable[[Notification], tuple[list[str], object]]
    ) -> list[Handover]:
        """The deliveries of the retained values that a new subscription matches; `routed` are the ids of all
        subscriptions that a notification goes to."""
        self._without = {id: number for id, number in self._without.items() if id in self._registry.by_id}
        found: list[Handover] = []
        for each in self._values:
            value = each.content
            if not subscription.granted.matches(value.notification):
                continue
            ids, _ = routed(value.notification)
            if subscription.id not in ids or any(self._has(subscription, id, value) for id in ids):
                continue
            found += self._registry.handovers(
                value.notification, [subscription.id], value.key, is_public=False
            )
        return [replace(each, delivery=replace(each.delivery, retained=True)) for each in found]

    def _has(self, subscription: Subscription, id: str, value: _Value) -> bool:
        """Whether another subscription of the same subscriber has brought a value already."""
        other = self._registry.by_id.get(id)
        return (
            other is not None
            and other is not subscription
            and other._receiver is subscription._receiver
            and value.number > self._without.get(id, 0)
        )
