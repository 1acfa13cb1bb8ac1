"""Handles: an advertisement, subscription or detection is in effect until its handle is closed, or its `with`
block ends."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from fairlead.bus.accepting import Attempt
from fairlead.bus.receivers import Delivery, Receiver
from fairlead.conditions import Condition
from fairlead.errors import SubscriptionEnded
from fairlead.filters.filter import Filter
from fairlead.model import Instant, Notification

if TYPE_CHECKING:
    from fairlead.bus.bus import Bus
    from fairlead.bus.transacting import Transaction
    from fairlead.channels import Quality
    from fairlead.correlation import fair, patterns
    from fairlead.correlation.queries import Query

__all__ = ["Advertisement", "Detection", "Subscription"]


@dataclass(frozen=True, slots=True)
class Advertisement:
    """A producer's promise to publish only what matches a filter; as a context manager, until the block ends."""

    producer: str
    filter: Filter
    _bus: Bus = field(repr=False, compare=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bus.unadvertise(self)


class Subscription:
    """A subscription: a handle to end it, and, without a callback, the queue to read from.

    with bus.subscribe("price > 100") as quotes:
        quotes.get()                     the next notification
        for notification in quotes: ...  until the subscription is closed and the queue is read

    Leaving the block ends the subscription. A subscriber's subscriptions read from the same queue.
    """

    __slots__ = (
        *("_bus", "_changes", "_last", "_receiver", "_suppression", "_transaction", "_want"),
        *("filter", "granted", "id", "is_cut", "on", "subscriber"),
    )

    def __init__(
        self,
        bus: Bus,
        id: str,
        subscriber: str,
        filter: Filter,
        receiver: Receiver,
        *,
        granted: Filter | None = None,
        on: Condition | None = None,
    ) -> None:
        self._bus = bus
        self._receiver = receiver
        self._last: Delivery | None = None
        self._transaction: Transaction | None = None
        self.id = id
        self.subscriber = subscriber
        self.filter = filter
        self.granted = filter if granted is None else granted
        """The part of the filter that the rules of the bus grant: only that is delivered."""
        self.on = on
        """The condition beside the filter."""
        self.is_cut = False
        """Whether some of the history that it asked for may have left the log of the bus."""
        self._suppression = None if on is None else on.begin()
        self._want: Quality | None = None
        """The quality of service that it requires."""
        self._changes = 0
        """The number of times that its filter was changed."""

    @property
    def _definition(self) -> Hashable:
        """The definition that a subscriber asks for once."""
        return self.filter if self.on is None else (self.filter, self.on)

    @property
    def _recorded_id(self) -> str:
        """Its id in a trace, where each of its filters is a subscription."""
        return f"{self.id}~{self._changes}" if self._changes else self.id

    @property
    def _is_recorded(self) -> bool:
        """Whether a trace has it: what is delivered for it was published."""
        return True

    @property
    def active(self) -> bool:
        """Whether it still holds."""
        return self.id in self._receiver.active

    @property
    def narrowed(self) -> bool:
        """Whether the rules of the bus grant less than the filter."""
        return self.granted != self.filter

    @property
    def errors(self) -> tuple[Exception, ...]:
        """The latest errors that the subscriber's callback and filters have raised."""
        return tuple(self._receiver.errors)

    @property
    def error_count(self) -> int:
        """The number of errors that they have raised."""
        return self._receiver.error_count

    @property
    def dropped(self) -> int:
        """The number of notifications that later ones have pushed out of the full queue."""
        return self._receiver.dropped

    def get(self, timeout: float | None = None) -> Notification:
        """The next notification; waits for it, at most `timeout` seconds, then TimeoutError.

        SubscriptionEnded where the subscription is closed and the queue has been read. Where deliveries are
        accepted, asking for the next one accepts the one before.
        """
        if self._last is not None:
            self._last.accept()
            self._last = None
        delivery = self.get_delivery(timeout)
        if delivery._settling is not None and self._transaction is None:
            self._last = delivery
        return delivery.notification

    def get_delivery(self, timeout: float | None = None) -> Delivery:
        """Like `get`, and which of the subscriber's subscriptions matched. Where deliveries are accepted, it is to
        be accepted or rejected."""
        delivery = self._receiver.take(self.id, timeout)
        if self._transaction is not None and isinstance(delivery._settling, Attempt):
            self._transaction._took(delivery._settling)
        return delivery

    def change(self, filter: str | Filter, *, at: Instant | None = None) -> None:
        """Have another filter, in one step: what is published before it is for the one before, all else for it.

        On an ordered bus the place is the order time `at`, by default that of the watermark: a notification whose
        key is earlier is for the filter before, whenever it comes.
        """
        self._bus._change(self, filter, at)

    def close(self) -> None:
        """Unsubscribe."""
        self._bus.unsubscribe(self)

    def __len__(self) -> int:
        """The number of notifications in the queue."""
        return len(self._receiver)

    def __bool__(self) -> bool:
        return True  # an empty queue is no missing subscription

    def __iter__(self) -> Iterator[Notification]:
        while True:
            try:
                yield self.get()
            except SubscriptionEnded:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self.active else ", closed"
        return f"<{type(self).__name__} {self.id!r} of {self.subscriber!r}: {self._definition}{state}>"


class Detection(Subscription):
    """A subscription to what a pattern, or a fair subscription, finds. Its filter is what the answers match."""

    __slots__ = ("_question",)

    def __init__(self, bus: Bus, id: str, subscriber: str, question: Query, receiver: Receiver) -> None:
        super().__init__(bus, id, subscriber, question.filter, receiver)
        self._question = question

    @property
    def pattern(self) -> patterns.Pattern | fair.Subscription:
        """The query of this detection."""
        return self._question.about

    @property
    def _definition(self) -> Hashable:
        return self._question

    @property
    def _is_recorded(self) -> bool:
        return self._question.is_public
