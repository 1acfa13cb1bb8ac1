"""Where a notification goes: the same way as every other one that the filters cannot tell from it.

So a way is looked for once, and remembered until the routing tables or the destinations change (`routes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from fairlead.broker import Broker
from fairlead.broker.broker import Route
from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.model.packed import unpack, unpack_plain
from fairlead.network import wire
from fairlead.network.relays import Relays
from fairlead.network.routes import Cells, Routes, is_plain
from fairlead.network.sessions import ClientSession, Durable, Link, Session, Stop

__all__ = ["Way", "Ways", "together"]

WAYS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """Where a notification goes: `broker.Route`, with the destinations themselves. Equal ways are one."""

    links: tuple[Link, ...]
    stops: tuple[Stop, ...]

    def dispatch(self, offset: int, packed: bytes) -> None:
        """Hand a notification to all destinations."""
        for link in self.links:
            link.relay(offset, packed)
        for stop in self.stops:
            stop.target.deliver(offset, stop, packed)

    def dispatch_all(self, relays: Relays) -> None:
        """Hand several that are in no log to all destinations."""
        for link in self.links:
            link.relay_all(relays)
        for stop in self.stops:
            stop.target.deliver_all(stop, relays)

    def sessions(self) -> list[Session]:
        """The connections of those destinations that are connected."""
        targets = [stop.target for stop in self.stops]
        found = [each.session for each in (*self.links, *targets) if not isinstance(each, ClientSession)]
        return [
            *(each for each in targets if isinstance(each, ClientSession)),
            *(each for each in found if each is not None),
        ]


class Ways:
    """The ways through one broker, over the links that there are, to the clients that there are."""

    def __init__(self, broker: Broker, links: Mapping[str, Link]) -> None:
        self._broker, self._links = broker, links
        self.targets: dict[str, ClientSession | Durable] = {}
        """Connected clients and durable subscribers, as the broker calls them."""
        self._routes: dict[str, Routes[Way]] = {}
        self._ways: dict[Route, Way] = {}
        self._cells = Cells()
        self._changed = self._was_changed = False
        self.version = 0
        """How often the tables or the destinations have changed."""

    def look_at(self, filter: Filter) -> None:
        """One more filter decides where notifications go."""
        self._cells.add(filter)

    def change(self) -> None:
        """The tables or the destinations have changed: no way that is remembered counts any more."""
        self._changed = True
        self._ways.clear()
        self.version += 1

    def forget(self, source: str) -> None:
        """Nothing comes from there any more."""
        self._routes.pop(source, None)
        self.change()

    def remembered(self, source: str = "") -> Routes[Way]:
        """The ways that are remembered for what comes from there."""
        if self._changed:
            self._changed = False
            for each in self._routes.values():
                each.forget(self._cells)
        routes = self._routes.get(source)
        if routes is None:
            routes = self._routes[source] = Routes()
            routes.forget(self._cells)
        return routes

    def of(self, packed: bytes, source: str) -> Way:
        """The way of a notification that comes from there."""
        parts = unpack_plain(packed)
        if parts is not None and is_plain(parts[2]):
            [way] = self.remembered(source).of([parts[2]], lambda _: self.found(packed, source))
            return way
        return self.found(packed, source)

    def found(self, packed: bytes, source: str) -> Way:
        """The same, found by matching, whatever is remembered."""
        return self.way(unpack(packed), source)

    def way(self, notification: Notification, source: str) -> Way:
        """The same, of a notification that has been unpacked."""
        route = self._broker.route(notification, source)
        way = self._ways.get(route)
        if way is None:
            if len(self._ways) >= WAYS_MAX:
                self._ways.clear()
            targets = [(self.targets.get(client), ids) for client, ids in route.clients]
            way = self._ways[route] = Way(
                tuple(self._links[name] for name in route.neighbours),
                tuple(Stop(target, wire.deliver_head(ids)) for target, ids in targets if target is not None),
            )
        return way

    def of_all(self, relays: Relays, source: str) -> Iterator[tuple[Way, Relays]]:
        """The ways of several notifications that come from there: those that stay together, in their order."""
        parts = relays.plain
        fields = None if parts is None else [each for _, _, each in parts]
        if fields is not None and is_plain(*fields):
            return together(self.of_plain(relays, fields, source), relays)
        return together([self.of(packed, source) for packed in relays.each], relays)

    def of_plain(self, relays: Relays, fields: Sequence[dict[str, Any]], source: str) -> list[Way]:
        """The way of each of several with plain fields."""
        return self.remembered(source).of(fields, lambda place: self.found(relays.each[place], source))

    def tick(self) -> None:
        """From time to time: arrange the filters, so that the first notification need not wait for that."""
        if self._changed and not self._was_changed:
            self._was_changed = True
        elif self._was_changed:  # not at once: changes seldom come alone
            self._was_changed = False
            self._broker.catalogue.matching(Notification.of({}))


def together(ways: Sequence[Way], relays: Relays) -> Iterator[tuple[Way, Relays]]:
    """Those next to each other that go one way, in their order: all at once, where that is so."""
    if ways and all(way is ways[0] for way in ways):
        yield ways[0], relays
        return
    for way, some in groupby(zip(ways, relays.each, strict=True), itemgetter(0)):
        yield way, Relays([packed for _, packed in some])
