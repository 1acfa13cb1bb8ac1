"""A trace, indexed: who published, subscribed and advertised what, from where to where.

The specification variables of the book (S_Y, P_X, D_Y, A_X; 2.5.2) at any place follow from the periods:
`F in S_Y` for a notification at a place iff a period of F has begun and is not over, by place or by order key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fairlead.audit.trace import (
    Advertised,
    Ended,
    Event,
    Notified,
    Published,
    Ready,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from fairlead.errors import TraceRefused
from fairlead.model.order import Identity, OrderKey

__all__ = ["Delivered", "History", "Period", "Publication", "TraceRefused", "named"]


@dataclass(slots=True)
class Period:
    """From when to when a subscription or an advertisement held.

    It begins at its place and ends at one, unless it ends at an order key; within, it holds for the order keys
    in [since, until). From the place `ready` on it must have effect.
    """

    declared: Subscribed | Advertised
    begun: int
    ready: int | None
    until: OrderKey | None
    over: int | None = None

    def has_begun(self, place: int, key: OrderKey) -> bool:
        """Whether it concerns a notification with that key, at that place, unless it is over."""
        since = self.declared.since
        return self.begun < place and (since is None or since <= key)

    def holds(self, place: int, key: OrderKey) -> bool:
        """Whether it concerns a notification with that key, at that place."""
        over = self.over is not None and self.over < place
        return self.has_begun(place, key) and not over and (self.until is None or key < self.until)

    def binds(self, place: int, key: OrderKey) -> bool:
        """Whether what is published at that place with that key must be delivered.

        Not where it ends at a place: the system "does not have to notify the component about any notifications
        that … are published in the meantime; it may nevertheless do so" (book 2.5.2). One that begins and ends
        at order keys is kept to the letter, wherever the publication stands.
        """
        if self.over is not None or (self.until is not None and self.until <= key):
            return False
        if self.declared.since is not None:
            return self.declared.since <= key
        return self.ready is not None and self.ready < place


@dataclass(frozen=True, slots=True)
class Publication:
    """pub(X, n) and its place."""

    place: int
    event: Published

    @property
    def key(self) -> OrderKey:
        return self.event.key

    def __str__(self) -> str:
        return named(self.event.identity)


@dataclass(frozen=True, slots=True)
class Delivered:
    """notify(Y, n) and its place."""

    place: int
    component: str
    identity: Identity
    first: int
    """The place of the first such event: its own, unless it is a repetition."""

    def __str__(self) -> str:
        return named(self.identity)


def named(identity: Identity) -> str:
    """How a notification is called in a report."""
    return f"{identity.producer}/{identity.id}" if identity.producer else identity.id


@dataclass(slots=True)
class History:
    """All that a trace tells. `History.of` reads it once, from front to back."""

    publications: dict[Identity, Publication] = field(default_factory=dict)
    notifications: list[Delivered] = field(default_factory=list)
    subscriptions: list[Period] = field(default_factory=list)
    advertisements: list[Period] = field(default_factory=list)
    ended: bool = False

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        """The history of a trace; TraceRefused where no run can have it."""
        return _Reader().read(events)

    @property
    def order(self) -> list[Publication | Delivered]:
        """Publications and first notifications, by place: what the orders of book 2.5.3 speak about."""
        found: list[Publication | Delivered] = [*self.publications.values(), *self.delivered]
        return sorted(found, key=lambda each: each.place)

    @property
    def delivered(self) -> list[Delivered]:
        """The notifications without repetitions: a repetition offends safety, not the orders."""
        return [each for each in self.notifications if each.first == each.place]


class _Reader:
    """Reads events into a history."""

    def __init__(self) -> None:
        self._history = History()
        self._open: dict[tuple[type, str, str], Period] = {}
        self._first: dict[tuple[str, Identity], int] = {}

    def read(self, events: Iterable[Event]) -> History:
        for place, event in enumerate(events):
            if self._history.ended:
                raise TraceRefused(f"event {place}: the trace goes on behind its end")
            self._take(place, event)
        return self._history

    def _take(self, place: int, event: Event) -> None:
        history = self._history
        match event:
            case Published():
                known = history.publications.setdefault(event.identity, Publication(place, event))
                if known.place != place:
                    raise TraceRefused(
                        f"event {place}: {known} was published before, by event {known.place}",
                        hint="a notification is published at most once; a duplicate is dropped, not published",
                    )
            case Notified(component, identity):
                first = self._first.setdefault((component, identity), place)
                history.notifications.append(Delivered(place, component, identity, first))
            case Subscribed():
                self._begin(place, event, history.subscriptions)
            case Advertised():
                self._begin(place, event, history.advertisements)
            case Unsubscribed(component, id, until):
                self._end(place, (Subscribed, component, id), until)
            case Unadvertised(component, id, until):
                self._end(place, (Advertised, component, id), until)
            case Ready(component, id, advertisement):
                period = self._open.get((Advertised if advertisement else Subscribed, component, id))
                if period is not None and period.ready is None:
                    period.ready = place
            case Ended():
                history.ended = True

    def _begin(self, place: int, event: Subscribed | Advertised, periods: list[Period]) -> None:
        slot = (type(event), event.component, event.id)
        active = self._open.get(slot)
        if active is None:
            period = Period(event, place, place if event.ready else None, event.until)
            self._open[slot] = period
            periods.append(period)
        elif active.declared.filter != event.filter:
            raise TraceRefused(
                f"event {place}: {event.id!r} of {event.component!r} has another filter already"
            )

    def _end(self, place: int, slot: tuple[type, str, str], until: OrderKey | None) -> None:
        """Ending what is not active changes nothing (book 2.5.2: the operations are idempotent)."""
        period = self._open.pop(slot, None)
        if period is None:
            return
        if until is None:
            period.over = place
        else:
            period.until = until if period.until is None else min(period.until, until)
