"""A broker that recovers from any state: all that it remembers is leased (book 8.2.3).

    Refresh       a client renews a subscription or an advertisement
    overrun       the clock of the broker, which goes round in a leasing period, begins anew

Settings, neighbours and code are never damaged. Everything else is renewed by clients, derived from what is, or
forgotten after two leasing periods: entries of tables and their flags, mergers, indexes, filters of local clients,
links that wait for an answer, neighbours that are not sent filters, and identities of publications, which would
otherwise swallow a publication for ever.

An unsubscription is sent at once; leases are for what is not unsubscribed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct

from fairlead.broker.broker import Broker, Settings
from fairlead.broker.declarations import Declarations
from fairlead.broker.messages import Call, Command, Effect, Message, Send, Wake
from fairlead.filters.filter import Filter
from fairlead.routing import Catalogue, Interest, RoutingTable
from fairlead_lab.broker.leases import Leases
from fairlead_lab.routing.leased import Leased, LeasedTable

__all__ = ["Expired", "LeasedBroker", "Refresh"]

_Declared: TypeAlias = tuple[bool, str, str]
"""Whether it is an advertisement, the client, and the id."""


class Refresh(Struct, frozen=True):
    """A client renews its subscription, or its advertisement: it is in effect with this filter from now on."""

    source: str
    id: str
    filter: Filter
    advertisement: bool = False


class Expired(Struct, frozen=True):
    """These interests have fallen apart, and are renewed no longer. Those that they stood for are sent with their
    next renewal."""

    source: str
    interests: tuple[Interest, ...]
    advertisements: bool = False


class _LeasedDeclarations(Declarations):
    """Interests with an id of their own: of two entries with one id, the one that was not renewed is wrong."""

    def _owner(self, client: str, now: int) -> str:
        return f"{client}@{self._broker}#{self._names.next(now)}"

    def forget(self, client: str, filter: Filter, *, advertisements: bool) -> None:
        """Forget an interest, whether or not it is known."""
        self._interests.pop((advertisements, client, filter), None)

    def retain(self, declared: set[tuple[bool, str, Filter]]) -> None:
        """Forget all others."""
        for key in self._interests.keys() - declared:
            del self._interests[key]


class LeasedBroker(Broker):
    """A broker whose state is leased."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        neighbours: Iterable[str],
        catalogue: Catalogue,
        leases: Leases,
    ) -> None:
        self.leases = leases
        super().__init__(name, settings, neighbours, catalogue)
        self._declarations: _LeasedDeclarations = _LeasedDeclarations(
            name, settings, catalogue, self.clients, names=self._names, seam=self.seam
        )
        self.phase: int | None = None
        """The clock begins anew at all times that are this one modulo the leasing period; None before the first
        step. However it is damaged, an overrun is at most a leasing period away."""
        self._overran_at = 0
        self._wakes_at: int | None = None
        self._refreshed: dict[_Declared, None] = {}
        self._remembered: set[tuple[str, str]] = set()
        """The identities that were known at the last overrun."""

    def _new_table(self) -> RoutingTable:
        return LeasedTable(self.catalogue, self.leases.covers)

    def handle(self, message: Message | Call | Command, now: int) -> list[Effect]:
        """Take one step, at a time by the caller's clock in microseconds; before it an overrun, if one is due."""
        if self.phase is None:
            self.phase = self._overran_at = now
        expired: list[Effect] = []
        if self._overran_at > now or self._due() <= now:
            expired = self.overrun()
            self._overran_at = now
        effects = [*expired, *super().handle(message, now)]
        if self._wakes_at is None or self._wakes_at <= now:
            self._wakes_at = self._due()
            effects.append(Wake(self._wakes_at))
        return effects

    def _due(self) -> int:
        """The time of the next overrun."""
        assert self.phase is not None
        since = self._overran_at
        return since + ((self.phase - since) % self.leases.lease or self.leases.lease)

    # -- clients -------------------------------------------------------------------------------------------

    def _install(self, client: str, id: str, filter: Filter, now: int) -> None:
        self._refreshed[False, client, id] = None
        super()._install(client, id, filter, now)

    def _install_advertisement(self, client: str, id: str, filter: Filter, now: int) -> None:
        self._refreshed[True, client, id] = None
        super()._install_advertisement(client, id, filter, now)

    def _refresh(self, call: Refresh, now: int) -> None:
        if call.advertisement and self.settings.advertisements is None:
            return
        client, is_offer = self.clients.join(call.source), call.advertisement
        declared = client.advertisements if is_offer else client.subscriptions
        before = declared.by_id.get(call.id)
        if before is not None and before != call.filter:
            self._forget(is_offer, call.source, call.id)
        self._refreshed[is_offer, call.source, call.id] = None
        if call.id not in declared.by_id:
            if is_offer:
                declared.add(call.id, call.filter)
            else:
                self.clients.subscribe(call.source, call.id, call.filter)
        own = self._declarations.own(advertisements=is_offer)
        interest = next((each for each, of in own.items() if of == (call.source, call.filter)), None)
        if interest is None:
            self._declarations.add(call.source, call.filter, now, advertisements=is_offer)
            interest = self._declarations._interests[is_offer, call.source, call.filter]
        if is_offer:
            self._administer_advertisements(call.source, (interest,), ())
            self._advertised.changed()
        else:
            self._administer(call.source, (interest,), ())

    def _forget(self, is_offer: bool, client: str, id: str) -> None:
        """Forget what a client has declared, without telling anybody: others forget it by themselves."""
        if is_offer:
            removed = self.clients[client].advertisements.remove(id)
        else:
            removed = self.clients.unsubscribe(client, id)
        if removed is not None and removed[1]:
            self._declarations.forget(client, removed[0], advertisements=is_offer)

    # -- overrun -------------------------------------------------------------------------------------------

    def overrun(self) -> list[Effect]:
        """Forget what was not renewed since the last overrun, and give all else a second chance."""
        effects: list[Effect] = []
        for advertisements, strategy, table in self._leased_tables():
            effects += self._expiries(strategy.overrun(table), advertisements)
        self._expire_declared()
        self._heal_links()
        self._expire_identities()
        return effects

    def _leased_tables(self) -> Iterator[tuple[bool, Leased, LeasedTable]]:
        for advertisements, strategy, table in (
            (False, self.settings.strategy, self.subscriptions),
            (True, self.settings.advertisements, self.advertisements),
        ):
            if strategy is not None:
                assert isinstance(strategy, Leased)
                assert isinstance(table, LeasedTable)
                yield advertisements, strategy, table

    def _expiries(self, expired: dict[str, list[Interest]], advertisements: bool) -> list[Effect]:
        return [
            Send(neighbour, Expired(self.name, tuple(interests), advertisements))  # type: ignore[arg-type]
            for neighbour, interests in expired.items()
        ]

    def _expire(self, message: Expired, now: int) -> None:
        if self.hears(message.source):
            for advertisements, strategy, table in self._leased_tables():
                if advertisements == message.advertisements:
                    expired = strategy.expire(table, message.source, message.interests)
                    self._effects += self._expiries(expired, advertisements)

    def _expire_declared(self) -> None:
        declared = set()
        for name in [*self.clients]:
            client = self.clients[name]
            for is_offer, of in ((False, client.subscriptions), (True, client.advertisements)):
                for id, filter in [*of.by_id.items()]:
                    if (is_offer, name, id) in self._refreshed:
                        declared.add((is_offer, name, filter))
                    else:
                        self._forget(is_offer, name, id)
        self._declarations.retain(declared)
        self._refreshed.clear()
        self._advertised.changed()

    def _heal_links(self) -> None:
        """No link waits for an answer any longer: one takes far less than a leasing period. Which neighbours are
        below follows from the settings."""
        self._awaited.clear()
        settings = self.settings
        for neighbour in self.links:
            below = neighbour in settings.children or (settings.grows and neighbour != self.parent)
            for table, deaf in (
                (self.advertisements, below),
                (self.subscriptions, below and settings.climbs),
            ):
                table.deaf.discard(neighbour)
                table.add_neighbour(neighbour, deaf=deaf)

    def _expire_identities(self) -> None:
        """Forget the identities that were known at the last overrun already."""
        for identity in self._remembered:
            self.identities.forget(identity)
            self.identities.sent.forget(identity)
        self._remembered = {
            *((producer, id) for producer, ids in self.identities._producers.items() for id in ids),
            *((each[0], each[1]) for memory in (self.identities.sent._latest,) for each in memory._younger),
            *((each[0], each[1]) for memory in (self.identities.sent._latest,) for each in memory._older),
        }
        self._delivered._age()
        self._logged._age()

    _HANDLERS: ClassVar[dict[type, Any]] = {**Broker._HANDLERS, Refresh: _refresh, Expired: _expire}
