"""A delivery begins only while one of the subscriptions that it is for holds.

A receiver is where a subscriber's notifications go: its callback, or its queue. A subscriber has one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias, get_args

from fairlead.channels.waiting import Standing, Waiting
from fairlead.delivery.assigning import Terms
from fairlead.delivery.sessions import call
from fairlead.errors import SubscriptionEnded, SubscriptionRefused
from fairlead.model import Notification
from fairlead.model.durations import seconds_of
from fairlead.model.order import OrderKey

if TYPE_CHECKING:
    from fairlead.audit.recorder import Recorder

__all__ = ["Callback", "Delivery", "Overflow", "Receiver", "check_callable"]

Callback: TypeAlias = Callable[[Notification], object]
Overflow: TypeAlias = Literal["block", "drop_oldest", "drop"]

ERRORS_MAX: Final = 100
"""The number of latest errors a subscriber keeps; all are counted."""


class Group(NamedTuple):
    """The transaction that a delivery belongs to."""

    id: str
    number: int
    """Its number among those that the subscriber gets of it, from 0."""
    of: int
    """The number of versions that the subscriber gets of it."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notification of a subscriber, with the sorted ids of its subscriptions that match."""

    subscriber: str
    notification: Notification
    subscriptions: tuple[str, ...]
    key: OrderKey | None = None
    """Its place in the total order, where delivery is ordered."""
    version: str = ""
    """The tag of a version that mappings of scopes have made; empty for what was published."""
    moved_to: int | None = None
    """The order time of the delivery, where a policy of scopes has moved it."""
    group: Group | None = None
    """The transaction that it belongs to, if any."""
    attempt: int = 1
    """For the how-manieth time it is handed out, where deliveries are accepted."""
    retained: bool = False
    """Whether it was published before the subscription, and retained by a channel."""
    offset: int | None = None
    """The offset of its publication in the log of the bus, where it has one."""
    _settling: Settling | None = field(default=None, repr=False, compare=False)

    def accept(self) -> bool:
        """It is dealt with, and will not come again; False: it is another's by now, or needs no accepting."""
        return self._settling is not None and self._settling.accept()

    def accept_through(self) -> int:
        """This one is dealt with, and so is all that was handed out to this subscriber before it and is not; how
        many that are."""
        return 0 if self._settling is None else self._settling.accept_through()

    def reject(
        self, *, again: bool = False, after: float | str | timedelta | None = None, reason: str = ""
    ) -> None:
        """It is not dealt with: it comes again, not before `after` (seconds, or as "5s"), or is done with."""
        if self._settling is not None:
            self._settling.reject(seconds_of(after, "a delay"), reason, again=again or after is not None)

    def renew(self) -> bool:
        """It is still worked on: the time for accepting it begins anew; False: it is another's by now."""
        return self._settling is not None and self._settling.renew()


class Settling(Protocol):
    """The attempt that a delivery is."""

    def accept(self) -> bool:
        """It is dealt with."""

    def accept_through(self) -> int:
        """It is, and all before it."""

    def reject(self, after: float | None, reason: str, *, again: bool) -> None:
        """It is not."""

    def renew(self) -> bool:
        """It will be."""


class Receiver:
    """The receiver of a subscriber's notifications: its callback, or its queue."""

    __slots__ = (
        *("_callback", "_changed", "_maxsize", "_overflow", "_waiting"),
        *("active", "dropped", "error_count", "errors", "has_expired", "taps"),
    )

    def __init__(self, callback: Callback | None, maxsize: int | None, overflow: Overflow) -> None:
        if maxsize is not None and maxsize < 1:
            raise SubscriptionRefused(f"a queue holds at least one notification, not {maxsize}")
        if overflow not in get_args(Overflow):
            raise SubscriptionRefused(f"overflow is 'block', 'drop_oldest' or 'drop', not {overflow!r}")
        if callback is not None and maxsize is not None:
            raise SubscriptionRefused("a callback has no queue that could be bounded")
        self._callback = callback
        self._maxsize = maxsize
        self._overflow = overflow
        self._waiting: deque[Delivery] | Waiting[Delivery] = deque()
        self._changed = threading.Condition()
        self.active: set[str] = set()
        self.taps: dict[str, Callback] = {}
        """The functions that get the deliveries of single subscriptions, instead of the callback or the queue."""
        self.errors: deque[Exception] = deque(maxlen=ERRORS_MAX)
        self.error_count = 0
        self.dropped = 0
        self.has_expired: Callable[[Delivery], bool] = _never
        """Whether a delivery expires before it is handed over; if so, it is counted."""

    def arrange(self, standing: Callable[[Notification], Standing]) -> None:
        """Have what waits go in another order than it came. To be said before anything comes."""
        self._waiting = Waiting(lambda delivery: standing(delivery.notification))

    def check_same(self, callback: Callback | None) -> None:
        """A subscriber has one receiver: a second callback is refused, none means the one it has."""
        if callback is not None and callback != self._callback:
            raise SubscriptionRefused(
                f"the subscriber has {'another callback' if self._callback else 'a queue'} already",
                hint="leave the callback out, or use another subscriber's name",
            )

    def check_terms(self, terms: Terms | None) -> None:
        """A subscriber's deliveries are accepted on one set of terms, or not at all: others are refused."""
        if terms is not None:
            raise SubscriptionRefused(
                "the subscriber has a receiver whose deliveries are not accepted",
                hint="use another subscriber's name",
            )

    def join(self, identity: str) -> None:
        """One more subscription."""
        self.active.add(identity)

    def receive(self, delivery: Delivery, trace: Recorder | None = None) -> tuple[str, ...]:
        """Take a delivery, unless all the subscriptions that matched have ended; what became of it."""
        taps = [self.taps[id] for id in delivery.subscriptions if id in self.taps]
        is_tapped = bool(taps) and len(taps) == len(delivery.subscriptions)
        with self._changed:
            if self._callback is None and not is_tapped and self._overflow == "block":
                self._changed.wait_for(lambda: self._room() or self._ended(delivery))
            if self._ended(delivery):
                return ("withdrawn",)
            if self.has_expired(delivery):
                return ()
            if trace is not None:  # under the lock that an unsubscription takes as well
                trace.notified(
                    delivery.subscriber,
                    delivery.notification,
                    delivery.subscriptions,
                    delivery.version,
                    delivery.moved_to,
                )
            for tap in taps:
                tap(delivery.notification)
            if is_tapped:
                return ("delivered",)
            if self._callback is None:
                outcomes = ("delivered",) if self._room() else ("delivered", "dropped")
                self._waiting.append(delivery)
                if len(outcomes) > 1:
                    self._discard()
                    self.dropped += 1
                self._changed.notify_all()
                return outcomes
        call(self._callback, delivery.notification)  # without the lock: it may unsubscribe
        return ("delivered",)

    def read(self, delivery: Delivery, trace: Recorder | None = None) -> tuple[str, ...]:
        """Take a delivery from the log of the bus: it was published before the subscription."""
        return self.receive(delivery)

    def take(self, identity: str, timeout: float | None) -> Delivery:
        """The next delivery in the queue; SubscriptionEnded where none is left, and the subscription has ended."""
        if self._callback is not None:
            raise SubscriptionRefused(
                "the subscriber has a callback: there is no queue to read",
                hint="subscribe without a callback",
            )
        with self._changed:
            if not self._changed.wait_for(lambda: self._any() or identity not in self.active, timeout):
                raise TimeoutError(f"no notification within {timeout} s")
            if not self._waiting:
                raise SubscriptionEnded(f"subscription {identity!r} is closed")
            delivery = self._waiting.popleft()
            self._changed.notify_all()
            return delivery

    def leave(self, identity: str) -> bool:
        """End one of the subscriptions; whether it was the last one."""
        with self._changed:
            self.active.discard(identity)
            self.taps.pop(identity, None)
            self._changed.notify_all()
            return not self.active

    def failed(self, error: Exception) -> None:
        """The callback, or a filter, has raised."""
        self.errors.append(error)
        self.error_count += 1

    def _discard(self) -> None:
        """Discard one: that which the channel of the newest says, or the oldest."""
        if isinstance(self._waiting, deque):
            self._waiting.popleft()
        elif self._overflow == "drop":
            self._waiting.discard()
        else:
            self._waiting.discard_oldest()

    def _any(self) -> bool:
        """Whether a delivery waits that has not expired."""
        while self._waiting and self.has_expired(_first(self._waiting)):
            self._waiting.popleft()
            self._changed.notify_all()
        return bool(self._waiting)

    def _room(self) -> bool:
        if self._maxsize is None:
            return True
        self._any()
        return len(self._waiting) < self._maxsize

    def _ended(self, delivery: Delivery) -> bool:
        return self.active.isdisjoint(delivery.subscriptions)

    def __len__(self) -> int:
        return len(self._waiting)


def _first(waiting: deque[Delivery] | Waiting[Delivery]) -> Delivery:
    return waiting[0] if isinstance(waiting, deque) else waiting.first


def _never(delivery: Delivery) -> bool:
    return False


def check_callable(callback: object) -> None:
    """SubscriptionRefused where what is to be called cannot be."""
    if callback is not None and not callable(callback):
        raise SubscriptionRefused(f"the callback cannot be called: {callback!r}")
