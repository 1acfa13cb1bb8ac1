"""Checks every step of a run: nothing reaches a broker that it is not trusted with (book 8.1.4).

    notifications   none is sent to a broker, delivered or logged by one that does not handle it
    filters         none is sent to a broker, or in a table of one, that matches what the broker does not handle
    at home         a client is granted nothing that its broker does not handle

Where the policy seals, a broker may get notifications of any type with nothing in clear but the type, and learn of
filters on the type of such notifications.

What the algebra cannot decide counts as a breach: where it is not certain, nothing may be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

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
from fairlead.filters import Filter, Or, covers, parse
from fairlead.filters.naming import Attributes
from fairlead.model import Notification
from fairlead.security import BrokerTrust
from fairlead.security.trust import SEALED
from fairlead_lab.broker import AnyBroker
from fairlead_lab.simulation.network import Observer, Simulation

__all__ = ["TrustChecker"]

_IN_CLEAR: Final = frozenset({"type", SEALED})
_IS_SEALED: Final = parse(f"exists `{SEALED}`")


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
            # Of a merger, its parts: the broker itself has made it.
            learnt = (
                part.filter
                for interest, source in table
                for part in table.mergers.get(source, {}).get(interest, (interest,))
            )
            yield from self._filters(broker.name, (each for each in learnt if each not in initial))

    def _notification(self, name: str, notification: Notification) -> Iterator[str]:
        is_sealed = self.trust.seals and {*notification.attributes} <= _IN_CLEAR
        if not is_sealed and not self.trust.limit(name).matches(notification):
            yield f"{name} gets {notification}"

    def _about_clear(self, filter: Filter) -> Iterator[Filter]:
        """The alternatives of a filter that are not about the type of sealed notifications alone."""
        for each in filter.parts if self.trust.seals and isinstance(filter, Or) else (filter,):
            read = Attributes.of(each)
            is_of_types = self.trust.seals and not read.is_whole and read.names <= _IN_CLEAR
            if not (is_of_types and covers(_IS_SEALED, each)):
                yield each

    def _filters(self, name: str, filters: Iterable[Filter]) -> Iterator[str]:
        limit = self.trust.limit(name)
        for filter in filters:
            known = (limit, filter)
            if known not in self._covered:
                self._covered[known] = all(covers(limit, each) for each in self._about_clear(filter))
            if not self._covered[known]:
                yield f"{name} learns of {filter}"
