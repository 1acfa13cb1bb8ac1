"""Where there are several trees, what can be said of every state is, and brokers that are broken are caught."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from fairlead.broker import Broker, Settings
from fairlead.broker.messages import Forward, Publish, Subscribe
from fairlead.filters import parse
from fairlead.model import Notification
from fairlead.routing import Covering, Interest, Outcome, RoutingTable
from fairlead.rules import Route
from fairlead_lab.broker import RendezvousBroker, RendezvousSettings
from fairlead_lab.broker.rendezvous import types_named
from fairlead_lab.routing import CyclicSimple
from fairlead_lab.simulation.forests import ForestChecker
from fairlead_lab.simulation.network import Simulation

RING = {"B1": ("B2", "B3"), "B2": ("B1", "B3"), "B3": ("B1", "B2")}
ABOVE = {"B1": "B2", "B2": "B3", "B3": None}


class PassesOnAgain(Broker):
    """Does not mind whether a notification has come before."""

    def _forward(self, message: Forward, now: int) -> None:
        onward = Forward(self.name, message.notification, message.origin, message.stamp)
        self._send_along(self.seam.route(message.notification, message.source), onward)

    _HANDLERS: ClassVar[dict[type, Any]] = {**Broker._HANDLERS, Forward: _forward}  # type: ignore[misc]


class SendsBack(Broker):
    """Passes a notification on to where it came from."""

    def _destinations(self, notification: Notification, source: str) -> Route:
        return super()._destinations(notification, "")


class DoesNotSubscribe(Broker):
    """Notes a client's subscription, and has no entry for it."""

    def _administer(self, source: str, *change: Any) -> None:
        if source in self.links:
            super()._administer(source, *change)


class KeepsToItself(CyclicSimple):
    """Tells nobody."""

    def administer(self, table: RoutingTable, source: str, *change: Sequence[Interest]) -> Outcome:
        super().administer(table, source, *change)
        return Outcome()


class DoesNotClimb(Covering):
    """Tells nobody, either."""

    def administer(self, table: RoutingTable, source: str, *change: Sequence[Interest]) -> Outcome:
        super().administer(table, source, *change)
        return Outcome()


def played(simulation: Simulation) -> set[str]:
    """Subscriptions, and once they are known a publication: the rules that are broken first."""
    checker = ForestChecker(simulation)
    quote = Notification.of({"type": "q", "price": 5})
    try:
        for broker, client in (("B1", "ada"), ("B2", "cyn"), ("B3", "dan")):
            simulation.call(broker, Subscribe(client, "s1", parse("price > 1")))
        simulation.run()
        simulation.call("B3", Publish("bob", quote))
        simulation.run()
    except AssertionError as broken:
        return {
            rule for rule in ("forwarding", "local invariant", "path", "remote") if f": {rule}" in str(broken)
        }
    assert not checker.report().violated()
    return set()


def cycle(broker: type[Broker] = Broker, strategy: type[CyclicSimple] = CyclicSimple) -> Simulation:
    return Simulation([broker(name, Settings(strategy(), cyclic=True), near) for name, near in RING.items()])


def ring(strategy: type[Covering] = Covering) -> Simulation:
    how = RendezvousSettings(types_named(["q", "r"]), strategy=strategy())
    return Simulation([RendezvousBroker(name, how, lambda _, up=up: up) for name, up in ABOVE.items()])  # type: ignore[misc]


def test_honest_brokers_break_nothing() -> None:
    assert played(cycle()) == played(ring()) == set()


@pytest.mark.parametrize(
    ("simulation", "rule"),
    [
        (cycle(PassesOnAgain), "forwarding"),
        (cycle(SendsBack), "forwarding"),
        (cycle(DoesNotSubscribe), "local invariant"),
        (cycle(strategy=KeepsToItself), "path"),
        (ring(DoesNotClimb), "remote"),
    ],
    ids=["passes on again", "sends back", "does not subscribe", "keeps to itself", "does not climb"],
)
def test_brokers_that_are_broken_are_caught(simulation: Simulation, rule: str) -> None:
    assert played(simulation) == {rule}
