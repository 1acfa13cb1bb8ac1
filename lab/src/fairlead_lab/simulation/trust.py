"""Checks every step of a run: nothing reaches a broker that it is not trusted with (book 8.1.4).

    notifications   none is sent to a broker, delivered or logged by one that does not handle it
    filters         none is sent to a broker, or in a table of one, that matches what the broker does not handle
    at home         a client is granted nothing that its broker does not handle

What the algebra cannot decide counts as a breach: where it is not certain, nothing may be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fairlead.broker import Broker
from fairlead.broker.messages import (
    Admin,
    Append,
    Batch,
    Call,
    Command,
    Deliver,
    Effect,
    Forward,
    Message,
    Renew,
    Send,
)
from fairlead.filters import Filter, covers
from fairlead.model import Notification
from fairlead.security import BrokerTrust
from fairlead_lab.broker import AnyBroker
from fairlead_lab.simulation.network import Observer, Simulation

__all__ = ["TrustChecker"]


class TrustChecker(Observer):
    """Watches a simulation, and keeps all breaches."""

    def __init__(self, simulation: Simulation, trust: BrokerTrust) -> None:
        self.trust = trust
        self.breaches: list[str] = []
        self.steps = 0
        self._covered: dict[tuple[Filter, Filter], bool] = {}
        simulation.observers.append(self)

    def handled(
        self, now: int, broker: AnyBroker, message: Message | Call | Command, effects: list[Effect]
    ) -> None:
        assert isinstance(broker, Broker)
        self.steps += 1
        self.breaches += self._effects(broker.name, effects)
        self.breaches += self._state(broker)

    def _effects(self, name: str, effects: Iterable[Effect]) -> Iterator[str]:
        for effect in effects:
            match effect:
                case Send(to, message):
                    yield from self._message(to, message)
                case Deliver(_, notification) | Append(_, _, notification):
                    yield from self._notification(name, notification)

    def _message(self, to: str, message: Message) -> Iterator[str]:
        match message:
            case Batch():
                for each in message.messages:
                    yield from self._message(to, each)
            case Forward():
                yield from self._notification(to, message.notification)
            case Admin():
                yield from self._filters(to, (each.filter for each in (*message.added, *message.removed)))
            case Renew():
                yield from self._filters(to, (each.filter for each in message.interests))

    def _state(self, broker: Broker) -> Iterator[str]:
        initial = {each.filter for each in broker.settings.strategy.initial()}
        for table in broker.tables:
            filters = (interest.filter for interest, _ in table if interest.filter not in initial)
            yield from self._filters(broker.name, filters)

    def _notification(self, name: str, notification: Notification) -> Iterator[str]:
        if not self.trust.limit(name).matches(notification):
            yield f"{name} gets {notification}"

    def _filters(self, name: str, filters: Iterable[Filter]) -> Iterator[str]:
        limit = self.trust.limit(name)
        for filter in filters:
            known = (limit, filter)
            if known not in self._covered:
                self._covered[known] = covers(limit, filter)
            if not self._covered[known]:
                yield f"{name} learns of {filter}"
