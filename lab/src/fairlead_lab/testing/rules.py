"""Toy rules, honest and not: what a rule may depend on, and a mutant for each that forgets to declare it.

NoEvil       the producer "evil" may not publish              depends on the producer
NotFor       what X produces is not delivered to Y            depends on the producer
NotForOf     the same, and concerns one client alone          depends on the producer
OnlyOf       only one client may publish                      depends on the source
NoDuck       no publication has the attribute duck = true     depends on an attribute
AtMost       a producer publishes at most so many a second    volatile
OneByOne     admits everything, and is volatile: with it, nothing is remembered, and no fast path is taken
"""

from __future__ import annotations

from collections import deque

from fairlead.model import Notification
from fairlead.rules import Depends, Refusal, Route, Rule

__all__ = [
    "FORGETFUL",
    "AtMost",
    "ForgetsThatItCounts",
    "NoDuck",
    "NoEvil",
    "NotFor",
    "NotForOf",
    "OneByOne",
    "OnlyOf",
]


class OneByOne(Rule):
    """Every publication is asked about by itself."""

    depends = Depends(volatile=True)


class NoEvil(Rule):
    """The producer "evil" may not publish."""

    depends = Depends(producer=True)

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        return Refusal("evil may not publish") if notification.producer == "evil" else None


class NotFor(Rule):
    """A rule: the publications of one producer are not delivered to one client."""

    depends = Depends(producer=True)

    def __init__(self, producer: str, client: str) -> None:
        self.producer, self.client = producer, client

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        if notification.producer != self.producer:
            return route
        return Route(route.neighbours, tuple(each for each in route.clients if each[0] != self.client))


class NotForOf(NotFor):
    """The same, and it concerns the publications of one client alone."""

    def __init__(self, producer: str, client: str, publisher: str) -> None:
        super().__init__(producer, client)
        self.publisher = publisher

    def concerns(self, source: str) -> bool:
        return source == self.publisher


class OnlyOf(Rule):
    """Only one client may publish."""

    depends = Depends(source=True)

    def __init__(self, client: str) -> None:
        self.client = client

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        return None if who == self.client else Refusal(f"only {self.client} may publish")


class NoDuck(Rule):
    """No publication is about ducks."""

    depends = Depends.on("duck")

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        return Refusal("no ducks") if notification.get("duck") is True else None


class AtMost(Rule):
    """A producer publishes at most so many notifications a second."""

    depends = Depends(volatile=True)

    def __init__(self, count: int) -> None:
        self.count = count
        self._times: dict[str, deque[int]] = {}

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        times = self._times.get(notification.producer, ())
        recent = sum(now - time < 1_000_000 for time in times)
        return Refusal(f"more than {self.count} a second") if recent >= self.count else None

    def published(self, who: str, notification: Notification, now: int) -> None:
        times = self._times.setdefault(notification.producer, deque(maxlen=self.count))
        times.append(now)


class _ForgetsTheProducer(NoEvil):
    depends = Depends()


class _ForgetsTheProducerOfARoute(NotFor):
    depends = Depends()


class _ForgetsTheSource(OnlyOf):
    depends = Depends()


class _ForgetsTheAttribute(NoDuck):
    depends = Depends()


class ForgetsThatItCounts(AtMost):
    """A mutant that no seam takes: it counts publications, and does not declare it."""

    depends = Depends(producer=True)


FORGETFUL = (
    _ForgetsTheProducer,
    lambda: _ForgetsTheProducerOfARoute("p", "c:s0"),
    lambda: _ForgetsTheSource("c:p0"),
    _ForgetsTheAttribute,
)
"""Mutants: each depends on something that it does not declare."""
