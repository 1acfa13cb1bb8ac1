"""The arithmetic of a run with faults: what was acknowledged, what arrived, and what should not have been.

The law (docs/reliability.md): of what was acknowledged, a durable subscriber gets all that it matches and whose
publishing began after the subscription was acknowledged; once, in its producer's order; and nobody gets what
does not match.

`Accounts` is told what clients do and see, as they do and see it. It sums up by itself, and it gives the trace,
which `fairlead.audit` judges by the book's specifications: two witnesses that share nothing but what was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from fairlead.audit.trace import Ended, Event, Faulted, Notified, Published, Ready, Subscribed
from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.model.order import Identity, OrderKey, identity_of

__all__ = ["SPECIFICATIONS", "Accounts", "Tally"]

SPECIFICATIONS: Final = ("simple", "fifo")
"""The specifications that the audit judges a live run by: safety and liveness, and the order of each
producer."""
EXAMPLES: Final = 5


@dataclass(frozen=True, slots=True)
class Tally:
    """The sums of a run. The first row of what follows must be zero; `wrong` has examples of what is not."""

    lost: int = 0
    """Acknowledged, and a durable subscriber never got it."""
    duplicated: int = 0
    """Delivered more than once to one process."""
    misdelivered: int = 0
    """Delivered without matching, with another content, or without ever having been published."""
    out_of_order: int = 0
    """Delivered after something that the same producer published later."""

    published: int = 0
    acknowledged: int = 0
    refused: int = 0
    delivered: int = 0
    missed: int = 0
    """Acknowledged, and a best-effort subscriber never got it: that is what best effort means."""
    repeated: int = 0
    """Delivered again to the next process of a durable subscriber that crashed before it had accepted it."""
    wrong: tuple[str, ...] = field(default=(), compare=False)

    @property
    def holds(self) -> bool:
        """Whether nothing happened that must not."""
        return not (self.lost or self.duplicated or self.misdelivered or self.out_of_order)

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Tally)))

    def __str__(self) -> str:
        counts = ", ".join(
            f"{each.name.replace('_', ' ')} {getattr(self, each.name):,}"
            for each in fields(self)
            if each.name != "wrong"
        )
        return "\n".join([counts, *self.wrong])


@dataclass(slots=True)
class _Publication:
    notification: Notification
    number: int
    """Its place among all, in the order in which publishing them began."""
    acknowledged: bool = False
    refused: bool = False


@dataclass(slots=True)
class _Subscription:
    filter: Filter
    durable: bool
    since: int | None = None
    """The number of the next publication when it was acknowledged: from then on it counts."""


class Accounts:
    """The deeds and observations of clients, in one order. A subscriber is known by one name in all its
    lives.
    """

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._publications: dict[Identity, _Publication] = {}
        self._begun = 0
        self._subscriptions: dict[str, dict[str, _Subscription]] = {}
        self._delivered: dict[str, list[tuple[int, Notification, tuple[str, ...]]]] = {}
        self._lives: dict[tuple[str, Identity], set[int]] = {}

    # -- what happens ------------------------------------------------------------------------------------------

    def publishing(self, notification: Notification) -> None:
        """Somebody begins to publish, or does so again after a refusal; whether it arrives is open."""
        identity, event = identity_of(notification), Published(notification, OrderKey.of(notification))
        if self._publications.pop(identity, None) is not None:
            self._events.remove(event)  # what was refused has not happened
        self._begun += 1
        self._publications[identity] = _Publication(notification, self._begun)
        self._events.append(event)

    def acknowledged(self, identity: Identity) -> None:
        """The broker has said that it is safe."""
        self._publications[identity].acknowledged = True

    def refused(self, identity: Identity) -> None:
        """The broker has said no."""
        self._publications[identity].refused = True

    def subscribing(self, subscriber: str, id: str, filter: Filter, *, durable: bool) -> None:
        """Somebody asks for this from now on; it may take effect at any time."""
        self._subscriptions.setdefault(subscriber, {})[id] = _Subscription(filter, durable)
        self._events.append(Subscribed(subscriber, id, filter, ready=False))

    def subscribed(self, subscriber: str, id: str) -> None:
        """The broker has said that it has taken effect; the first time counts."""
        subscription = self._subscriptions[subscriber][id]
        if subscription.since is None:
            subscription.since = self._begun + 1
            if subscription.durable:  # what best effort leaves out is no violation
                self._events.append(Ready(subscriber, id))

    def delivered(
        self, subscriber: str, notification: Notification, ids: Iterable[str], life: int = 0
    ) -> None:
        """A process got it, the first or a later one of its subscriber's."""
        identity, sorted_ids = identity_of(notification), tuple(sorted(ids))
        self._delivered.setdefault(subscriber, []).append((life, notification, sorted_ids))
        lives = self._lives.setdefault((subscriber, identity), set())
        if not lives or life in lives:  # the next process of one that crashed may get it again
            self._events.append(Notified(subscriber, identity, sorted_ids))
        lives.add(life)

    def fault(self, change: str, **about: Any) -> None:
        """Something was broken, or mended."""
        self._events.append(Faulted(change, about))

    # -- what it comes to --------------------------------------------------------------------------------------

    @property
    def open(self) -> list[Identity]:
        """The publications that are neither acknowledged nor refused."""
        return [
            identity
            for identity, each in self._publications.items()
            if not each.acknowledged and not each.refused
        ]

    def trace(self) -> Iterator[Event]:
        """The run as a trace that has ended. What was refused and went nowhere has not happened in it."""
        arrived = {event.identity for event in self._events if isinstance(event, Notified)}
        for event in self._events:
            if isinstance(event, Published) and event.identity not in arrived:
                publication = self._publications[event.identity]
                if publication.refused or not publication.acknowledged:
                    continue
            yield event
        yield Ended()

    def tally(self) -> Tally:
        """The sums."""
        sums = dict.fromkeys((each.name for each in fields(Tally) if each.name != "wrong"), 0)
        examples: dict[str, list[str]] = {}

        def wrong(what: str, example: str) -> None:
            sums[what] += 1
            examples.setdefault(what, []).append(example)

        sums["published"] = len(self._publications)
        sums["acknowledged"] = sum(each.acknowledged for each in self._publications.values())
        sums["refused"] = sum(each.refused for each in self._publications.values())
        for subscriber, subscriptions in self._subscriptions.items():
            deliveries = self._delivered.get(subscriber, [])
            sums["delivered"] += len(deliveries)
            lives: dict[Identity, set[int]] = {}
            last: dict[str, int] = {}
            for life, notification, ids in deliveries:
                identity = identity_of(notification)
                publication = self._publications.get(identity)
                if publication is None:
                    wrong("misdelivered", f"{subscriber} got {identity}, which nobody published")
                    continue
                reason = _unfit(publication.notification, notification, ids, subscriptions)
                if reason:
                    wrong("misdelivered", f"{subscriber} got {identity}, {reason}")
                if life in lives.get(identity, ()):
                    wrong("duplicated", f"{subscriber} got {identity} twice")
                elif identity in lives:
                    sums["repeated"] += 1
                elif publication.number < last.get(identity.producer, 0):
                    wrong("out_of_order", f"{subscriber} got {identity} too late")
                else:
                    last[identity.producer] = publication.number
                lives.setdefault(identity, set()).add(life)
            for identity, durable in self._due(subscriptions):
                if identity not in lives:
                    if durable:
                        wrong("lost", f"{subscriber} never got {identity}")
                    else:
                        sums["missed"] += 1
        found = [f"{what}: {each}" for what, told in examples.items() for each in told[:EXAMPLES]]
        return Tally(**sums, wrong=tuple(found))

    def _due(self, subscriptions: Mapping[str, _Subscription]) -> Iterator[tuple[Identity, bool]]:
        """The publications that have to arrive (True), or might as well have."""
        for identity, publication in self._publications.items():
            if not publication.acknowledged:
                continue
            due = [
                each.durable
                for each in subscriptions.values()
                if each.since is not None
                and publication.number >= each.since
                and each.filter.matches(publication.notification)
            ]
            if due:
                yield identity, any(due)


def _unfit(
    published: Notification,
    delivered: Notification,
    ids: tuple[str, ...],
    subscriptions: Mapping[str, _Subscription],
) -> str:
    """Why this was not to be delivered; empty if it was."""
    if delivered != published:
        return "which was published with another content"
    if not ids:
        return "for no subscription"
    for id in ids:
        if id not in subscriptions:
            return f"for the subscription {id!r}, which it does not have"
        if not subscriptions[id].filter.matches(delivered):
            return f"which its subscription {id!r} does not match"
    return ""
