"""The subscribers of a bus. A subscriber has one receiver, one subscription per filter or query, and one delivery
per notification.

Subscriptions made under one subscriber's name are that subscriber's; one without that name is a subscriber of its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from fairlead.bus.accepting import Accepting
from fairlead.bus.handing_over import Handover
from fairlead.bus.handles import Subscription
from fairlead.bus.receivers import Callback, Delivery, Overflow, Receiver
from fairlead.errors import SubscriptionRefused
from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.model.order import OrderKey

__all__ = ["Registry"]


class Registry:
    """The active subscriptions of a bus. Whoever uses it holds the bus's lock."""

    __slots__ = ("_by_question", "_ids_made", "_receivers", "by_id", "changes", "hidden")

    def __init__(self) -> None:
        self.by_id: dict[str, Subscription] = {}
        """In the order in which they were made."""
        # Only subscribers that were named: the others cannot be joined.
        self._by_question: dict[tuple[str, Hashable], dict[str, Subscription]] = {}
        self._receivers: dict[str, Receiver] = {}
        self._ids_made = 0
        self.changes = 0
        """The number of times a subscription came or went."""
        self.hidden: Callable[[str], frozenset[str]] = lambda subscriber: frozenset()
        """The attributes that a subscriber does not get to see."""

    def existing(
        self, definition: Hashable, callback: Callback | None, id: str | None, subscriber: str | None
    ) -> Subscription | None:
        """The subscription of this subscriber to the same filter or query, under the given id where there
        is one."""
        known = {} if subscriber is None else self._by_question.get((subscriber, definition), {})
        existing = next(iter(known.values()), None) if id is None else known.get(id)
        if existing is not None:
            existing._receiver.check_same(callback)
        return existing

    def entrance(
        self,
        callback: Callback | None,
        id: str | None,
        subscriber: str | None,
        maxsize: int | None,
        overflow: Overflow,
        *,
        accepting: Callable[[], Accepting] | None = None,
    ) -> tuple[str, Receiver]:
        """The id of a new subscription, and where its notifications go; `accepting` makes that for a subscriber
        whose deliveries are accepted."""
        identity = self._fresh_id() if id is None else id
        if identity in self.by_id:
            raise SubscriptionRefused(f"the id {identity!r} is taken", hint="leave it out to get one")
        receiver = None if subscriber is None else self._receivers.get(subscriber)
        if receiver is None and accepting is not None:
            return identity, accepting()
        if receiver is None:
            return identity, Receiver(callback, maxsize, overflow)
        receiver.check_same(callback)
        receiver.check_terms(None if accepting is None else accepting().terms)
        return identity, receiver

    def receiver(self, subscriber: str) -> Receiver | None:
        """The receiver of a subscriber that was named."""
        return self._receivers.get(subscriber)

    def add(self, subscription: Subscription, *, is_joinable: bool) -> None:
        """One more; its subscriber can be joined by others if it was named."""
        self.changes += 1
        self.by_id[subscription.id] = subscription
        subscription._receiver.join(subscription.id)
        if is_joinable:
            key = subscription.subscriber, subscription._definition
            self._by_question.setdefault(key, {})[subscription.id] = subscription
            self._receivers[subscription.subscriber] = subscription._receiver

    def remove(self, subscription: Subscription) -> None:
        """One less: no delivery to it begins after that."""
        self.changes += 1
        del self.by_id[subscription.id]
        last = subscription._receiver.leave(subscription.id)
        if self._receivers.get(subscription.subscriber) is subscription._receiver:
            self._forget_question(subscription)
            if last:
                del self._receivers[subscription.subscriber]

    def change(self, subscription: Subscription, filter: Filter, granted: Filter) -> None:
        """A subscription has another filter."""
        self.changes += 1
        is_joinable = self._receivers.get(subscription.subscriber) is subscription._receiver
        if is_joinable:
            self._forget_question(subscription)
        subscription.filter, subscription.granted = filter, granted
        if is_joinable:
            key = subscription.subscriber, subscription._definition
            self._by_question.setdefault(key, {})[subscription.id] = subscription

    def _forget_question(self, subscription: Subscription) -> None:
        key = subscription.subscriber, subscription._definition
        alike = self._by_question[key]
        del alike[subscription.id]
        if not alike:
            del self._by_question[key]

    def handovers(
        self,
        notification: Notification,
        matching: Iterable[str],
        key: OrderKey | None = None,
        *,
        is_public: bool = True,
        version: str = "",
        moved_to: int | None = None,
        offset: int | None = None,
    ) -> list[Handover]:
        """One delivery for each subscriber with a matching subscription whose condition does not suppress it.

        The order of calls is the order in which conditions see notifications: once for each delivery.
        """
        concerned: dict[Receiver, list[Subscription]] = {}
        for identity in matching:
            subscription = self.by_id[identity]
            if subscription._suppression is not None and self._is_suppressed(subscription, notification):
                continue
            concerned.setdefault(subscription._receiver, []).append(subscription)
        deliveries = [
            Delivery(
                found[0].subscriber,
                notification,
                tuple(sorted(each.id for each in found)),
                key,
                version,
                moved_to,
                offset=offset,
            )
            for found in concerned.values()
        ]
        handovers = [Handover(*each, is_public) for each in zip(concerned, deliveries, strict=True)]
        return sorted(handovers, key=lambda each: each.delivery.subscriber) if key else handovers

    def _is_suppressed(self, subscription: Subscription, notification: Notification) -> bool:
        """Whether a condition suppresses a notification; it looks at what its subscriber gets to see."""
        assert subscription._suppression is not None
        hidden = self.hidden(subscription.subscriber)
        visible = notification.without(hidden) if hidden else notification
        return not subscription._suppression.passes(visible)

    @property
    def subscribers(self) -> int:
        """The number of subscribers."""
        return len({subscription._receiver for subscription in self.by_id.values()})

    def __len__(self) -> int:
        return len(self.by_id)

    def _fresh_id(self) -> str:
        while True:
            self._ids_made += 1
            if (identity := f"s{self._ids_made}") not in self.by_id:
                return identity
