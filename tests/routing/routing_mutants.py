"""Brokers and strategies that are broken on purpose, each in one thing, and the rules that have to see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from fairlead.broker import Broker
from fairlead.broker.messages import Admin, Batch, Deliver, Forward, Leave, Link, Send
from fairlead.model import Notification
from fairlead.routing import (
    Covering,
    Identity,
    ImperfectMerging,
    Interest,
    Merging,
    Outcome,
    RoutingTable,
    Simple,
    Strategy,
)
from fairlead.routing.table import Entry
from fairlead.rules import Route

# -- strategies ------------------------------------------------------------------------------------------------


class ForgetsOneNeighbour(Simple):
    """Does not tell the last of its neighbours."""

    def administer(self, table: RoutingTable, source: str, *change: Sequence[Interest]) -> Outcome:
        outcome = super().administer(table, source, *change)
        outcome.subscriptions.pop(table.hearers[-1] if table.hearers else "", None)
        return outcome


class IgnoresUnsubscriptions(Simple):
    """Keeps what its clients no longer ask for."""

    def administer(self, table: RoutingTable, source: str, *change: Sequence[Interest]) -> Outcome:
        return super().administer(table, source, change[0], ())


class UnsubscribesWhatOthersNeed(Identity):
    """Passes an unsubscription on, although somebody else asks for the same."""

    def administer(self, table: RoutingTable, source: str, *change: Sequence[Interest]) -> Outcome:
        outcome = super().administer(table, source, *change)
        for interest in change[1]:
            outcome.unsubscribe(interest, [each for each in table.hearers if each != source])
        return outcome


class IdentityOverAll(Identity):
    """Removes what others have asked for identically."""

    @staticmethod
    def _remove(table: RoutingTable, interest: Interest, source: str) -> None:
        for place in list(table.destinations_with_entries()):
            table.remove_all(table.identical(interest, place), place)


class CoveringOverAll(Covering):
    """Removes what is covered from all destinations."""

    @staticmethod
    def _remove(table: RoutingTable, interest: Interest, source: str) -> None:
        for each, place in table.covered(interest):
            table.remove(each, place)


class PrunesClients(Covering):
    """Takes a client's filter for one that speaks for all that it covers, as if it were a neighbour's."""

    @staticmethod
    def _remove(table: RoutingTable, interest: Interest, source: str) -> None:
        table.remove_all(table.covered_at(interest, source), source)


class KeepsTheCovered(Covering):
    """Does not remove what a neighbour's new filter covers."""

    @staticmethod
    def _remove(table: RoutingTable, interest: Interest, source: str) -> None:
        table.remove(interest, source)


class ForgetsTheUncovered(Covering):
    """Takes a wide filter back, and says nothing of the narrow ones that it had covered."""

    def _announce_uncovered(
        self, table: RoutingTable, source: str, uncovered: dict[Entry, None], outcome: Outcome
    ) -> None:
        pass


class NeverTakesApart(Merging):
    """A merger stays, whatever it has lost."""

    def _leave(
        self, table: RoutingTable, source: str, arriving: list[Interest], leaving: list[Interest]
    ) -> Outcome:
        lost: set[Interest] = set()
        for parts in table.mergers.get(source, {}).values():
            gone = parts.keys() & {*leaving}
            if len(gone) < len(parts):
                lost |= gone
                for each in gone:
                    del parts[each]
        left = [each for each in leaving if each not in lost]
        return super()._leave(table, source, arriving, left) if left or arriving else Outcome()


class ForgetsTheParts(Merging):
    """A merger that has lost a part goes away with all the others."""

    def _leave(
        self, table: RoutingTable, source: str, arriving: list[Interest], leaving: list[Interest]
    ) -> Outcome:
        for parts in table.mergers.get(source, {}).values():
            if parts.keys() & {*leaving}:
                leaving = [*leaving, *(each for each in parts if each not in leaving)]
        return super()._leave(table, source, arriving, leaving)


class MergesClientsImperfectly(ImperfectMerging):
    """Lets a client have what it has not asked for."""

    def _merged(self, table: RoutingTable, interest: Interest, source: str) -> Any:
        is_client = source not in table.neighbours
        table.add_neighbour(source)
        try:
            return super()._merged(table, interest, source)
        finally:
            if is_client:
                table.remove_neighbour(source)


# -- brokers ---------------------------------------------------------------------------------------------------


class SendsBack(Broker):
    """One broker returns what it is sent. (One only: two would do so for ever.)"""

    def _destinations(self, notification: Notification, source: str) -> Route:
        route = super()._destinations(notification, source)
        back = (source,) if self.name == "B0" and source in self.neighbours else ()
        return Route((*route.neighbours, *back), route.clients)

    def _is_first(self, notification: Notification, *, is_logged: bool) -> bool:
        return True  # and does not remember what it has delivered


class DeliversAnything(Broker):
    """Whoever subscribes to something gets everything."""

    def _send_along(self, route: Route, message: Forward) -> tuple[str, ...]:
        passed_to = super()._send_along(route, message)
        reached = {effect.client for effect in self._effects if isinstance(effect, Deliver)}
        for client in self.clients:
            if client not in reached and self.clients[client].subscriptions.by_id:
                self._effects.append(Deliver(client, message.notification, ()))
        return passed_to


class DeliversTwice(Broker):
    """Notifies a client once for each of its subscriptions that match."""

    def _send_along(self, route: Route, message: Forward) -> tuple[str, ...]:
        passed_to = super()._send_along(route, message)
        self._effects += [
            effect
            for effect in list(self._effects)
            if isinstance(effect, Deliver)
            for _ in effect.subscriptions[1:]
        ]
        return passed_to


class NamesTheWrongSubscriptions(Broker):
    """Says that a subscription matched which did not."""

    def _send_along(self, route: Route, message: Forward) -> tuple[str, ...]:
        passed_to = super()._send_along(route, message)
        for place, effect in enumerate(self._effects):
            if isinstance(effect, Deliver):
                ids = tuple(sorted(self.clients[effect.client].subscriptions.by_id))
                self._effects[place] = Deliver(effect.client, effect.notification, ids)
        return passed_to


class LosesTheOrder(Broker):
    """Holds a notification until the next one for the same client, and delivers that first."""

    def _send_along(self, route: Route, message: Forward) -> tuple[str, ...]:
        passed_to = super()._send_along(route, message)
        held: dict[str, Deliver] = self.__dict__.setdefault("held", {})
        for effect in [each for each in self._effects if isinstance(each, Deliver)]:
            if effect.client in held:
                self._effects.append(held.pop(effect.client))
            else:
                self._effects.remove(effect)
                held[effect.client] = effect
        return passed_to


class ForgetsTheParent(Broker):
    """Does not pass notifications up."""

    def _destinations(self, notification: Notification, source: str) -> Route:
        parent, self.parent = self.parent, None
        try:
            return super()._destinations(notification, source)
        finally:
            self.parent = parent


class TwoMessages(Broker):
    """Takes a filter back in one message, and tells what that uncovers in the next."""

    def _send(self, to: str, message: Any) -> None:
        if isinstance(message, Admin) and message.added and message.removed:
            super()._send(to, Admin(self.name, (), message.removed, message.advertisements))
            message = Admin(self.name, message.added, (), message.advertisements)
        super()._send(to, message)


class KeepsUnsubscriptions(Broker):
    """Does not tell its neighbours that something is no longer needed."""

    def _send(self, to: str, message: Any) -> None:
        if isinstance(message, Admin):
            if not message.added:
                return
            message = Admin(self.name, message.added, (), message.advertisements)
        super()._send(to, message)


class AsksForCoveringAdvertisements(Broker):
    """Forwards a subscription only where something is advertised that covers it."""

    def _tell(self, source: str, outcome: Outcome, *, advertisements: bool) -> None:
        if not advertisements:
            for neighbour, interests in outcome.subscriptions.items():
                number, covers = self.catalogue.number, self.catalogue.covers
                offers = [number(each) for each in self.advertisements.of(neighbour)]
                outcome.subscriptions[neighbour] = {
                    each: None for each in interests if any(covers(offer, number(each)) for offer in offers)
                }
        super()._tell(source, outcome, advertisements=advertisements)


class IgnoresNewAdvertisements(Broker):
    """Does not forward what has become servable."""

    def _administer_advertisements(self, source: str, *change: Iterable[Interest]) -> None:
        before = len(self._effects)
        super()._administer_advertisements(source, *change)
        self._effects[before:] = [
            effect
            for effect in self._effects[before:]
            if not (isinstance(effect, Send) and effect.to == source)
        ]


class DropsTheServable(Broker):
    """When something is no longer advertised, drops all that overlaps it."""

    def _administer_advertisements(self, source: str, *change: Iterable[Interest]) -> None:
        added, removed = map(tuple, change)
        super()._administer_advertisements(source, added, removed)
        number, overlaps = self.catalogue.number, self.catalogue.overlaps
        for neighbour in self.advertisements.hearers:
            for interest in list(self.subscriptions.of(neighbour)):
                if any(overlaps(number(interest), number(each)) for each in removed):
                    self.subscriptions.remove(interest, neighbour)


class SaysNothingToNewNeighbours(Broker):
    """Connects, and exchanges no filters."""

    def _announce(self, strategy: Strategy, table: RoutingTable, neighbour: str) -> None:
        pass


class KeepsTheDead(Broker):
    """Parts from a neighbour, and keeps its filters."""

    def _remove_neighbour(self, neighbour: str) -> None:
        del self.links[neighbour]
        for table in (self.subscriptions, self.advertisements):
            table.remove_neighbour(neighbour)


class TrustsEarlierLinks(Broker):
    """Takes in what a neighbour had sent before the link was cut and tied again."""

    def _link_at_once(self, command: Link, now: int) -> None:
        self._link(command, now)
        self._awaited.discard(command.neighbour)

    _HANDLERS: ClassVar[dict[type, Any]] = {**Broker._HANDLERS, Link: _link_at_once}  # type: ignore[misc]


class ForgetsWhoLeaves(Broker):
    """Lets a client go, and does not cancel its subscriptions."""

    def _leave(self, call: Leave, now: int) -> None:
        if call.source in self.clients:
            self.clients.leave(call.source)

    _HANDLERS: ClassVar[dict[type, Any]] = {**Broker._HANDLERS, Leave: _leave}  # type: ignore[misc]


class UnpacksBackwards(Broker):
    """Handles the messages of a batch in the wrong order."""

    def _batch(self, message: Batch, now: int) -> None:
        super()._batch(Batch(message.source, message.messages[::-1]), now)

    _HANDLERS: ClassVar[dict[type, Any]] = {**Broker._HANDLERS, Batch: _batch}  # type: ignore[misc]


@dataclass(frozen=True)
class Mutant:
    """What is broken, in which setting, and who sees it."""

    caught_by: frozenset[str]
    strategy: Callable[[], Strategy] = Covering
    honest: Callable[[], Strategy] | None = None
    """The strategy that is not broken, where it is the strategy that is."""
    broker: type[Broker] = Broker
    advertisements: Callable[[], Strategy] | None = None
    options: dict[str, Any] = field(default_factory=dict)


def caught_by(*rules: str, **mutant: Any) -> Mutant:
    return Mutant(frozenset(rules), **mutant)


RELINKED: Final = {"relinks": True}
MUTANTS: Final[dict[str, Mutant]] = {
    # strategies
    "tells all neighbours but one": caught_by(
        "routing: remote invariant",
        "routing: path validity",
        "simple: liveness",
        strategy=ForgetsOneNeighbour,
        honest=Simple,
    ),
    "ignores unsubscriptions of clients": caught_by(
        "routing: local invariant", "simple: subscribed", strategy=IgnoresUnsubscriptions, honest=Simple
    ),
    "forwards an unsubscription of what others need": caught_by(
        "routing: remote invariant",
        "routing: remote validity",
        "simple: liveness",
        strategy=UnsubscribesWhatOthersNeed,
        honest=Identity,
    ),
    "identity removes entries of other destinations": caught_by(
        "routing: restricted change",
        "routing: local invariant",
        "simple: liveness",
        strategy=IdentityOverAll,
        honest=Identity,
    ),
    "covering removes entries of other destinations": caught_by(
        "routing: restricted change",
        "routing: local invariant",
        "simple: liveness",
        strategy=CoveringOverAll,
        honest=Covering,
    ),
    "prunes filters of local clients": caught_by(
        "routing: local invariant", "simple: liveness", strategy=PrunesClients, honest=Covering
    ),
    "keeps what a neighbour's filter covers": caught_by(
        "routing: small tables", strategy=KeepsTheCovered, honest=Covering
    ),
    "does not restore the covered": caught_by(
        "routing: remote invariant",
        "routing: path validity",
        "simple: liveness",
        strategy=ForgetsTheUncovered,
        honest=Covering,
    ),
    "never takes a merger apart": caught_by(
        "routing: local invariant",
        "routing: nothing in vain",
        "simple: subscribed",
        strategy=NeverTakesApart,
        honest=Merging,
    ),
    "loses the parts of a merger": caught_by(
        "routing: local invariant",
        "routing: remote invariant",
        "simple: liveness",
        strategy=ForgetsTheParts,
        honest=Merging,
    ),
    "merges imperfectly for clients": caught_by(
        "routing: local invariant",
        "simple: subscribed",
        strategy=MergesClientsImperfectly,
        honest=ImperfectMerging,
    ),
    # notifications
    # A broker delivers an identity once, so that nobody gets what comes back twice.
    "sends back to the source": caught_by("routing: forwarding", "no more than flooding", broker=SendsBack),
    "delivers what does not match": caught_by(
        "routing: forwarding", "simple: subscribed", broker=DeliversAnything
    ),
    "delivers once per subscription": caught_by("routing: forwarding", "simple: once", broker=DeliversTwice),
    "names subscriptions that do not match": caught_by(
        "routing: forwarding", "as the bus", broker=NamesTheWrongSubscriptions
    ),
    "loses the order of a queue": caught_by("fifo: order", "causal: order", broker=LosesTheOrder),
    "does not pass notifications to the parent": caught_by(
        "routing: forwarding", "simple: liveness", broker=ForgetsTheParent, options={"shape": "hierarchy"}
    ),
    "unpacks batches backwards": caught_by(
        "routing: restricted impact", "fifo: order", broker=UnpacksBackwards
    ),
    # filters
    "unsubscribes and uncovers in two messages": caught_by("routing: atomic change", broker=TwoMessages),
    "drops unsubscriptions between brokers": caught_by(
        "routing: nothing in vain", broker=KeepsUnsubscriptions, strategy=Simple
    ),
    "forgets to cancel when a client leaves": caught_by(
        "routing: local invariant", "simple: subscribed", broker=ForgetsWhoLeaves
    ),
    # advertisements
    "forwards only what an advertisement covers": caught_by(
        "routing: remote validity",
        "routing: path validity",
        "advertisements: liveness",
        broker=AsksForCoveringAdvertisements,
        advertisements=Simple,
    ),
    "does not forward the newly servable": caught_by(
        "routing: remote validity",
        "routing: path validity",
        "advertisements: liveness",
        broker=IgnoresNewAdvertisements,
        advertisements=Identity,
    ),
    "drops what can be served": caught_by(
        "routing: restricted change",
        "routing: remote validity",
        broker=DropsTheServable,
        advertisements=Covering,
    ),
    # links
    "exchanges no filters when it connects": caught_by(
        "routing: remote invariant",
        "simple: liveness",
        broker=SaysNothingToNewNeighbours,
        options=RELINKED,
    ),
    "keeps the filters of a dead neighbour": caught_by(
        "routing: restricted impact", "routing: nothing in vain", broker=KeepsTheDead, options=RELINKED
    ),
    "trusts what was said over an earlier link": caught_by(
        "routing: restricted impact", broker=TrustsEarlierLinks, options={**RELINKED, "steps_max": 60}
    ),
}
