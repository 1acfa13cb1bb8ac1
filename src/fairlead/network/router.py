"""The seam's answers, with the destinations themselves: a route has names, a fan-out has links and sessions.

Answers about plain notifications are remembered under all that they depend on (`Seam.keys`), until the routing
tables, the destinations or the state of a rule change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias

from fairlead.broker import Broker
from fairlead.filters.filter import Filter
from fairlead.log import Record
from fairlead.log.records import notification_in
from fairlead.model import Notification
from fairlead.model.packed import PlainParts, pack, unpack, unpack_plain
from fairlead.network.client_sessions import ClientSession
from fairlead.network.destinations import Durable, Link, Recipient, neighbour_in
from fairlead.network.relays import Relays
from fairlead.network.sessions import Session
from fairlead.rules import Memory, Refusal, Route, is_plain

__all__ = ["Fanout", "Router", "Verdict", "together"]

_fields: Final = itemgetter(2)
FANOUTS_MAX: Final = 10_000
MEMORIES_MAX: Final = 1_000
"""For how many clients verdicts are remembered, where rules tell clients apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Fanout:
    """A `Route` with the destination objects themselves. Equal routes share one fan-out."""

    links: tuple[Link, ...]
    recipients: tuple[Recipient, ...]

    def relay(self, offset: int, content: bytes, *, is_relayed: bool) -> None:
        """Hand a notification, or a relay as it came, to the neighbours only."""
        for link in self.links:
            link.relay(offset, content, is_relayed=is_relayed)

    def deliver(self, offset: int, packed: bytes) -> None:
        """Hand a notification to the recipients only."""
        for recipient in self.recipients:
            recipient.target.deliver(offset, recipient, recipient.shown(packed))

    def relay_records(self, offsets: Sequence[int], contents: Sequence[bytes], *, are_relayed: bool) -> None:
        """Hand several records of the log to the neighbours only."""
        for link in self.links:
            for offset, content in zip(offsets, contents, strict=True):
                link.relay(offset, content, is_relayed=are_relayed)

    def deliver_records(self, offsets: Sequence[int], packed: list[bytes]) -> None:
        """Hand several records of the log to the recipients only."""
        relays = Relays(packed)
        for recipient in self.recipients:
            recipient.target.deliver_records(offsets, recipient, recipient.of(relays))

    def relay_all(self, relays: Relays) -> None:
        """Hand several that are in no log to the neighbours only."""
        for link in self.links:
            link.relay_all(relays)

    def send_all(self, relays: Relays) -> None:
        """Hand several that are in no log to all destinations."""
        for link in self.links:
            link.relay_all(relays)
        for recipient in self.recipients:
            recipient.target.deliver_all(recipient, recipient.of(relays))

    def deliver_all(self, relays: Relays) -> None:
        """Hand several that are in no log to the recipients only."""
        for recipient in self.recipients:
            recipient.target.deliver_all(recipient, recipient.of(relays))

    def sessions(self) -> list[Session]:
        """The connections of those destinations that are connected."""
        connected = [each.connection for each in (*self.links, *(each.target for each in self.recipients))]
        return [each for each in connected if each is not None]


Verdict: TypeAlias = Fanout | Refusal


class Router:
    """The routes through one broker, over the links that there are, to the clients that there are."""

    def __init__(self, broker: Broker, links: Mapping[str, Link]) -> None:
        self._broker, self._links, self._seam = broker, links, broker.seam
        self.targets: dict[str, ClientSession | Durable] = {}
        """Connected clients and durable subscribers, as the broker calls them."""
        self._routes: dict[str, Memory[Fanout]] = {}
        """By the neighbour that notifications come from; from clients, by nothing."""
        self._verdicts: dict[str, Memory[Verdict]] = {}
        """By client; all have the same one, where no rule tells clients apart."""
        self._fanouts: dict[Route, Fanout] = {}
        self._is_changed = self._was_changed = False
        self._seen = self._made_by = self._seam.version
        self.version = 0
        """The number of changes of the tables and the destinations."""

    def look_at(self, filter: Filter) -> None:
        """One more filter decides where notifications go."""
        self._seam.look_at(filter)
        self._is_changed = (
            True  # the cells of what is remembered may be others, whether or not it is installed
        )

    def change(self) -> None:
        """The tables or the destinations have changed: nothing that is remembered counts any more."""
        self._is_changed = True
        self._fanouts.clear()
        self._verdicts.clear()
        for memory in self._routes.values():
            memory.forget(None)  # at once: it would hold on to destinations that are gone
        self.version += 1

    def forget(self, source: str) -> None:
        """Nothing comes from this neighbour any more."""
        self._routes.pop(source, None)
        self.change()

    # -- where a notification goes -------------------------------------------------------------------------------

    def of(self, packed: bytes, source: str) -> Fanout:
        """The fan-out of a notification that comes from this neighbour."""
        parts = unpack_plain(packed)
        if parts is not None and is_plain(parts[2]):
            return self.of_parts(packed, parts, source)
        return self.computed_route(packed, source)

    def of_parts(self, packed: bytes, parts: PlainParts, source: str) -> Fanout:
        """The fan-out of a plain notification that comes from this neighbour."""
        return self._remembered(source).one(parts, lambda _: self.computed_route(packed, source))

    def computed_route(self, packed: bytes, source: str) -> Fanout:
        """The fan-out of a notification as the seam computes it, whatever is remembered."""
        return self.fanout(unpack(packed), source)

    def fanout(self, notification: Notification, source: str) -> Fanout:
        """The same, of a notification that has been unpacked."""
        route = self._seam.route(notification, source)
        if route.versions:
            return self._made(route)  # for this notification alone
        if self._made_by != self._seam.version:  # recipients have what is hidden from them
            self._made_by = self._seam.version
            self._fanouts.clear()
        fanout = self._fanouts.get(route)
        if fanout is None:
            if len(self._fanouts) >= FANOUTS_MAX:
                self._fanouts.clear()
            fanout = self._fanouts[route] = self._made(route)
        return fanout

    def _made(self, route: Route) -> Fanout:
        links = tuple(self._links[name] for name in route.neighbours)
        return Fanout(links, self._recipients(route))

    def _recipients(self, route: Route) -> tuple[Recipient, ...]:
        targets = [(self.targets.get(client), ids) for client, ids in route.clients]
        hidden = self._seam.hidden
        recipients = [
            Recipient(target, ids, hidden=hidden(target.client))
            for target, ids in targets
            if target is not None
        ]
        each_number = Counter(client for client, _, _ in route.versions)
        numbers: Counter[str] = Counter()
        for client, ids, version in route.versions:
            target = self.targets.get(client)
            if target is not None:
                numbers[client] += 1
                part = (numbers[client], each_number[client])
                recipients.append(Recipient(target, ids, pack(version), part, hidden(target.client)))
        return tuple(recipients)

    def of_record(self, record: Record) -> Fanout:
        """The fan-out of a record of the log, by the state that the rules had there."""
        packed, source = notification_in(record), neighbour_in(record)
        if record.offset >= self._seam.changed_at:
            return self.of(packed, source)
        return self._made(self._seam.route_of_record(unpack(packed), source, record.offset))

    def recipients_of(self, record: Record, target: Durable) -> list[Recipient]:
        """A durable subscriber on the route of a record of the log, once for each version that it gets."""
        packed, source = notification_in(record), neighbour_in(record)
        if record.offset >= self._seam.changed_at:
            recipients = self.of(packed, source).recipients
        else:
            route = self._broker.route_to(target.client, unpack(packed), source, record.offset)
            recipients = self._recipients(route)
        return [each for each in recipients if each.target is target]

    def of_all(self, relays: Relays, source: str) -> Iterable[tuple[Fanout, Relays]]:
        """The fan-outs of several notifications from this neighbour: those that stay together, in their order."""
        parts = relays.plain
        if parts is not None and is_plain(*map(_fields, parts)):
            return together(self.of_plain(relays, parts, source), relays)
        return together([self.of(packed, source) for packed in relays.each], relays)

    def of_plain(self, relays: Relays, parts: Sequence[PlainParts], source: str) -> list[Fanout]:
        """The fan-out of each of several plain notifications."""
        return self._remembered(source).of(
            parts, lambda index: self.computed_route(relays.each[index], source)
        )

    def remembered_verdicts(self, who: str) -> Memory[Verdict] | None:
        """The remembered verdicts about a client's plain publications; None: each has to be decided about by
        itself (`Seam.is_plain_enough`)."""
        if self._is_changed or self._seen != self._seam.version:
            self._renew()
        memory = self._verdicts.get(who)
        if memory is None and self._seam.is_plain_enough(who):
            if len(self._verdicts) >= MEMORIES_MAX:
                self._verdicts.clear()
            source = self._seam.remembered_as(who)
            memory = self._verdicts.get(source)
            if memory is None:
                memory = self._verdicts[source] = Memory()
                memory.forget(self._seam.keys(source))
            self._verdicts[who] = memory
        return memory

    def verdicts(
        self, who: str, memory: Memory[Verdict], relays: Relays, parts: Sequence[PlainParts], now: int
    ) -> Sequence[Verdict]:
        """Of each of several plain publications of a client: where it goes, or why it is refused."""
        return memory.of(parts, lambda index: self._verdict(who, relays.each[index], now), relays.columns)

    def verdict(
        self, who: str, memory: Memory[Verdict], packed: bytes, parts: PlainParts, now: int
    ) -> Verdict:
        """The same of one."""
        return memory.one(parts, lambda _: self._verdict(who, packed, now))

    def _verdict(self, who: str, packed: bytes, now: int) -> Verdict:
        if self._seam.admits_all:
            return self.computed_route(packed, "")
        admitted = self._seam.admit(who, unpack(packed), now)
        return admitted if isinstance(admitted, Refusal) else self.fanout(admitted, "")

    # -- what is remembered --------------------------------------------------------------------------------------

    def _remembered(self, source: str) -> Memory[Fanout]:
        if self._is_changed or self._seen != self._seam.version:
            self._renew()
        memory = self._routes.get(source)
        if memory is None:
            memory = self._routes[source] = Memory()
            memory.forget(self._seam.keys(source))
        return memory

    def _renew(self) -> None:
        """Forget what is remembered: it may hold no longer."""
        self._is_changed, self._seen = False, self._seam.version
        self._verdicts.clear()
        for source, memory in self._routes.items():
            memory.forget(self._seam.keys(source))

    def tick(self) -> None:
        """From time to time: arrange the filters, so that the first notification need not wait for that."""
        if self._is_changed and not self._was_changed:
            self._was_changed = True
        elif self._was_changed:  # not at once: changes seldom come alone
            self._was_changed = False
            self._broker.catalogue.matching(Notification.of({}))


def together(fanouts: Sequence[Fanout], relays: Relays) -> Iterable[tuple[Fanout, Relays]]:
    """Notifications that follow one another with one fan-out, in their order: all at once, where that is so."""
    if fanouts and fanouts.count(fanouts[0]) == len(fanouts):  # they are compared by identity
        return ((fanouts[0], relays),)
    return _runs(fanouts, relays)


def _runs(fanouts: Sequence[Fanout], relays: Relays) -> Iterator[tuple[Fanout, Relays]]:
    each, plain, at = relays.each, relays.plain, 0
    for fanout, group in groupby(fanouts):
        until = at + sum(1 for _ in group)
        yield fanout, Relays(each[at:until], None if plain is None else plain[at:until])
        at = until
