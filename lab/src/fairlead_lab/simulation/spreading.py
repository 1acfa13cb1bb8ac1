"""Checks every state of a run in which notifications are spread without routing tables on the way.

    delivery          what reaches a broker for the first time goes to exactly the clients that want it, once
    group             in multicast: the groups that a notification is sent to hold every broker that wants it, as
                      far as the sender knows; without a threshold they hold nobody else
    remote validity   at rest: whoever has to know what the clients of a broker want knows all of it, and no more

Who has to know is every broker in multicast, the rendezvous broker in LIPSIN, and nobody in gossip.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.audit.report import Finding, Report, Violation
from fairlead.broker.messages import (
    Batch,
    Call,
    Command,
    Deliver,
    Duplicate,
    Forward,
    Message,
    Publish,
    Refuse,
)
from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.model.order import Identity, identity_of
from fairlead_lab.audit.routing import Breach
from fairlead_lab.broker import AnyBroker, Packet, SendToGroup, SpreadingBroker
from fairlead_lab.broker.spreading import LipsinBroker, MulticastBroker
from fairlead_lab.routing.multicast import Everyone, ThresholdClustered
from fairlead_lab.simulation.network import Observer, Simulation
from fairlead_lab.simulation.tracing import Declarations

__all__ = ["SpreadChecker"]

RULES = ("delivery", "group", "remote validity")


class SpreadChecker(Observer):
    """Watches a simulation, from now on. It raises at the first breach, or with `collect` collects them all."""

    def __init__(self, simulation: Simulation, *, collect: bool = False) -> None:
        self.steps = 0
        self.breaches: list[tuple[int, Breach]] = []
        """Each with the number of the step after which it was found."""
        self._simulation = simulation
        self._collect = collect
        self._declarations = Declarations()
        self._seen: set[tuple[str, Identity]] = set()
        simulation.observers.append(self)

    def report(self) -> Report:
        """All breaches, by rule; the locations are numbers of steps."""
        return Report(
            tuple(
                Finding(
                    "spreading",
                    rule,
                    tuple(Violation(str(each), (step,)) for step, each in self.breaches if each.rule == rule),
                    0,
                )
                for rule in RULES
            )
        )

    def handled(
        self, now: int, broker: AnyBroker, message: Message | Call | Command, effects: list[Any]
    ) -> None:
        self.steps += 1
        changes = self._declarations.take(broker, message, effects)
        for breach in self._breaches(
            broker, message, effects, is_at_rest=bool(changes) or _is_admin(message)
        ):
            if not self._collect:
                raise AssertionError(f"step {self.steps}, {broker.name} took in {message}: {breach}")
            self.breaches.append((self.steps, breach))

    def _breaches(
        self, broker: AnyBroker, message: Any, effects: list[Any], *, is_at_rest: bool
    ) -> Iterator[Breach]:
        assert isinstance(broker, SpreadingBroker)
        yield from self._delivery(broker, message, effects)
        yield from self._groups(broker, message, effects)
        if is_at_rest and self._simulation.is_settled:
            yield from self._at_rest()

    # -- a step --------------------------------------------------------------------------------------------

    def _delivery(self, broker: SpreadingBroker, message: Any, effects: list[Any]) -> Iterator[Breach]:
        notification = _notification_in(message)
        delivered = [(each.client, each.subscriptions) for each in effects if isinstance(each, Deliver)]
        wanted: list[tuple[str, tuple[str, ...]]] = []
        is_refused = any(isinstance(each, Refuse | Duplicate) for each in effects)
        if notification is not None and not is_refused:
            identity = identity_of(notification)
            if (broker.name, identity) not in self._seen:
                wanted = self._clients_for(broker.name, notification)
            self._seen.add((broker.name, identity))
        if sorted(delivered) != sorted(wanted):
            yield Breach("delivery", f"{broker.name} delivers to {delivered}, not to {wanted}", notification)

    def _clients_for(self, broker: str, notification: Notification) -> list[tuple[str, tuple[str, ...]]]:
        clients = []
        for at, client, is_advertisement, held in self._declarations:
            if at == broker and not is_advertisement:
                ids = tuple(sorted(id for id, filter in held.items() if filter.matches(notification)))
                if ids:
                    clients.append((client, ids))
        return clients

    def _groups(self, broker: SpreadingBroker, message: Any, effects: list[Any]) -> Iterator[Breach]:
        if not isinstance(broker, MulticastBroker) or not isinstance(message, Publish):
            return
        if any(isinstance(each, Refuse | Duplicate) for each in effects):
            return
        notification = message.notification
        known = {to for interest, to in broker.remote if interest.filter.matches(notification)}
        reached = [to for each in effects if isinstance(each, SendToGroup) for to in each.group]
        may_reach_others = isinstance(broker.grouping, Everyone | ThresholdClustered)
        if len(set(reached)) < len(reached) or not known <= set(reached):
            yield Breach(
                "group", f"{broker.name} reaches {sorted(reached)}, and {sorted(known)} want it", notification
            )
        elif not may_reach_others and known != set(reached):
            yield Breach(
                "group", f"{broker.name} reaches {sorted(reached)}, not {sorted(known)}", notification
            )

    # -- at rest -------------------------------------------------------------------------------------------

    def _at_rest(self) -> Iterator[Breach]:
        wanted: dict[str, set[Filter]] = {name: set() for name in self._simulation.brokers}
        for at, _, is_advertisement, held in self._declarations:
            if not is_advertisement:
                wanted[at].update(held.values())
        for observer, home in self._who_knows_whom():
            known = {interest.filter for interest in observer.remote.of(home)}
            if known != wanted[home]:
                what = f"{observer.name} knows of {home} {known}, and its clients want {wanted[home]}"
                yield Breach("remote validity", what)

    def _who_knows_whom(self) -> Iterator[tuple[SpreadingBroker, str]]:
        for broker in self._simulation.brokers.values():
            if isinstance(broker, MulticastBroker):
                yield from ((broker, home) for home in self._simulation.brokers if home != broker.name)
            elif isinstance(broker, LipsinBroker) and broker.is_rendezvous:
                yield from ((broker, home) for home in self._simulation.brokers)


def _notification_in(message: Any) -> Notification | None:
    inner = message.message if isinstance(message, Packet) else message
    return inner.notification if isinstance(inner, Forward | Publish) else None


def _is_admin(message: Any) -> bool:
    return not isinstance(message, Batch | Publish) and _notification_in(message) is None
