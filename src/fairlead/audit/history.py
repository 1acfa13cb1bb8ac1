"""A trace, indexed: publications, deliveries, and the periods of subscriptions and advertisements.

The specification variables of the book (S_Y, P_X, D_Y, A_X; 2.5.2) at any index follow from the periods:
`F in S_Y` for a notification at an index iff a period of F has begun and is not over, by index or by order key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fairlead.audit.trace import (
    Advertised,
    Ended,
    Event,
    Faulted,
    Notified,
    Published,
    Ready,
    ScopeChanged,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from fairlead.errors import TraceRefused
from fairlead.model.order import Identity, OrderKey

__all__ = ["Delivered", "History", "Period", "Publication", "TraceRefused", "named"]


@dataclass(slots=True)
class Period:
    """The period in which a subscription or an advertisement is active.

    It begins at its index and ends at one, unless it ends at an order key; within, it is valid for the order keys
    in [since, until). From the index `ready` on it is in effect.
    """

    declared: Subscribed | Advertised
    begun: int
    ready: int | None
    until: OrderKey | None
    over: int | None = None

    def has_begun(self, index: int, key: OrderKey) -> bool:
        """Whether it concerns a notification with that key, at that index, unless it is over."""
        since = self.declared.since
        return self.begun < index and (since is None or since <= key)

    def holds(self, index: int, key: OrderKey) -> bool:
        """Whether it concerns a notification with that key, at that index."""
        over = self.over is not None and self.over < index
        return self.has_begun(index, key) and not over and (self.until is None or key < self.until)

    def binds(self, index: int, key: OrderKey) -> bool:
        """Whether a notification published at that index with that key must be delivered.

        Not where it ends at an index: the system "does not have to notify the component about any notifications
        that … are published in the meantime; it may nevertheless do so" (book 2.5.2). One that begins and ends
        at order keys is taken to the letter, wherever the publication is in the trace.
        """
        if self.over is not None or (self.until is not None and self.until <= key):
            return False
        if self.declared.since is not None:
            return self.declared.since <= key
        return self.ready is not None and self.ready < index


@dataclass(frozen=True, slots=True)
class Publication:
    """pub(X, n) and its index."""

    index: int
    event: Published

    @property
    def key(self) -> OrderKey:
        return self.event.key

    def __str__(self) -> str:
        return named(self.event.identity)


@dataclass(frozen=True, slots=True)
class Delivered:
    """notify(Y, n) and its index."""

    index: int
    component: str
    identity: Identity
    first: int
    """The index of the first such event: its own, unless it is a repetition."""
    version: str = ""
    order: int | None = None
    """The order time of the delivery, where it is not the publication's."""

    def key_of(self, publication: Publication) -> OrderKey:
        """The order key of the delivery."""
        return publication.key if self.order is None else replace(publication.key, time=self.order)

    def __str__(self) -> str:
        return named(self.identity)


def named(identity: Identity) -> str:
    """The name of a notification in a report."""
    return f"{identity.producer}/{identity.id}" if identity.producer else identity.id


@dataclass(slots=True)
class History:
    """The content of a trace. `History.of` reads it once, from front to back."""

    publications: dict[Identity, Publication] = field(default_factory=dict)
    notifications: list[Delivered] = field(default_factory=list)
    subscriptions: list[Period] = field(default_factory=list)
    advertisements: list[Period] = field(default_factory=list)
    scope_changes: list[tuple[int, ScopeChanged]] = field(default_factory=list)
    ended: bool = False
    repeated: int = 0
    """Publications of an identity that was published before. A duplicate is dropped: the first of them counts."""
    recovery_point: int | None = -1
    """The index from which on a self-stabilising system has to be right; None where the last fault is too
    recent."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        """The history of a trace; TraceRefused where no run can have it."""
        return _Reader().read(events)

    @property
    def order(self) -> list[Publication | Delivered]:
        """Publications and first notifications, by index: the subject of the orders of book 2.5.3."""
        found: list[Publication | Delivered] = [*self.publications.values(), *self.delivered]
        return sorted(found, key=lambda each: each.index)

    @property
    def delivered(self) -> list[Delivered]:
        """The notifications without repetitions: a repetition offends safety, not the orders.

        Nor are those here that a policy of scopes has moved to another order time: they keep to no other order.
        """
        return [each for each in self.notifications if each.first == each.index and each.order is None]


class _Reader:
    """Reads events into a history."""

    def __init__(self) -> None:
        self._history = History()
        self._open: dict[tuple[type, str, str], Period] = {}
        self._first: dict[tuple[str, Identity, str], int] = {}

    def read(self, events: Iterable[Event]) -> History:
        for index, event in enumerate(events):
            if self._history.ended:
                raise TraceRefused(f"event {index}: the trace has events after its end")
            self._take(index, event)
        return self._history

    def _take(self, index: int, event: Event) -> None:
        history = self._history
        match event:
            case Published():
                known = history.publications.setdefault(event.identity, Publication(index, event))
                history.repeated += known.index != index
            case Notified(component, identity, _, version, order):
                first = self._first.setdefault((component, identity, version), index)
                history.notifications.append(Delivered(index, component, identity, first, version, order))
            case ScopeChanged() if "text" in event.about:
                history.scope_changes.append((index, event))
            case Subscribed():
                self._begin(index, event, history.subscriptions)
            case Advertised():
                self._begin(index, event, history.advertisements)
            case Unsubscribed(component, id, until):
                self._end(index, (Subscribed, component, id), until)
            case Unadvertised(component, id, until):
                self._end(index, (Advertised, component, id), until)
            case Ready(component, id, advertisement):
                period = self._open.get((Advertised if advertisement else Subscribed, component, id))
                if period is not None and period.ready is None:
                    period.ready = index
            case Faulted(change):
                history.recovery_point = index if change == "recovered" else None
            case Ended():
                history.ended = True

    def _begin(self, index: int, event: Subscribed | Advertised, periods: list[Period]) -> None:
        slot = (type(event), event.component, event.id)
        active = self._open.get(slot)
        if active is None:
            period = Period(event, index, index if event.ready else None, event.until)
            self._open[slot] = period
            periods.append(period)
        elif active.declared.filter != event.filter:
            raise TraceRefused(
                f"event {index}: {event.id!r} of {event.component!r} has another filter already"
            )

    def _end(self, index: int, slot: tuple[type, str, str], until: OrderKey | None) -> None:
        """Ending an inactive period changes nothing (book 2.5.2: the operations are idempotent)."""
        period = self._open.pop(slot, None)
        if period is None:
            return
        if until is None:
            period.over = index
        else:
            period.until = until if period.until is None else min(period.until, until)
