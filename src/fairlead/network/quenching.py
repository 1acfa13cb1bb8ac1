"""Quenched sources: a client may be told that nobody wants what it would publish, and publish nothing meanwhile.

    Laws
    When a subscription is acknowledged, every source whose filter it overlaps with is awake.
    A source is quenched only while it holds a lease. Whoever has not heard for that long counts itself as wanted.

A source asks to be quenched. If nobody listens, it is, for as long as the lease lasts from when it *asked*; the
broker counts from when it heard that, which is later, so its lease ends no earlier than the source's. A barrier
comes to the broker where a subscription somewhere is to be acknowledged. It first wakes the sources that somebody
listens to now, and goes on when they have said that they are awake, or their leases are over. So neither a source
that hangs nor a lost connection holds a subscription back for longer than a lease.

    state      it asks, and nobody listens   somebody listens   it says it is awake, or its lease is over
    awake      quenched                      awake              awake
    quenched   quenched, the lease anew      waking             awake
    waking     waking                        waking             awake; the barriers that wait go on
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from fairlead.broker import Broker
from fairlead.filters.filter import Filter
from fairlead.network import wire
from fairlead.network.barriers import Barriers
from fairlead.network.client_sessions import ClientSession
from fairlead.routing import Entry, Flooding

__all__ = ["LEASE_US", "Listeners", "Quenching"]

LEASE_US: Final = 2_000_000
"""The time a source is quenched for without asking again, in microseconds."""

Key = tuple[ClientSession, str]


@dataclass(slots=True)
class _Quenched:
    """A source that publishes nothing until its lease is over."""

    filter: Filter
    until: int
    is_waking: bool = False


@dataclass(slots=True, eq=False)
class _Waiting:
    """A barrier that goes on when these sources are awake."""

    go: Callable[[], None]
    sources: set[Key] = field(default_factory=set)


class Listeners:
    """The subscribers that a broker knows of, as its routing entries have them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tables = [broker.subscriptions]
        if broker.redundancy is not None:
            self._tables.append(broker.redundancy.others)

    @property
    def are_unknown(self) -> bool:
        """Whether there may be subscribers that this broker does not know of: in a hierarchy only the root knows
        of all, and flooding has no entries of neighbours."""
        broker = self._broker
        return broker.parent is not None or (
            bool(broker.links) and broker.settings.strategy.name == Flooding.name
        )

    def listen(self, client: str, filter: Filter, among: Iterable[Entry] | None = None) -> bool:
        """Whether anyone, but this client, may listen to a filter; `among` these entries, if they are given."""
        if self.are_unknown:
            return True
        broker, catalogue = self._broker, self._broker.catalogue
        published = catalogue.number(catalogue.interest(filter))
        return any(
            destination != client
            and catalogue.overlaps(published, catalogue.number(interest))
            and broker.seam.reaches(client, interest.filter)
            for interest, destination in (broker.entries if among is None else among)
        )

    def follow(self, is_followed: bool) -> None:
        """Keep what is added to the tables from now on, or keep it no longer."""
        for each in self._tables:
            each.added = [] if is_followed else None

    def take_added(self) -> list[Entry]:
        """The entries that were added since this was called last."""
        added = [entry for each in self._tables for entry in each.added or ()]
        self.follow(True)
        return added


class Quenching:
    """The quenched sources of a broker's clients."""

    def __init__(self, listeners: Listeners, barriers: Barriers) -> None:
        self.listeners = listeners
        barriers.wake = self.wake
        self._quenched: dict[Key, _Quenched] = {}
        self._waiting: list[_Waiting] = []

    def __len__(self) -> int:
        return len(self._quenched)

    def ask(self, session: ClientSession, id: str, filter: Filter, now: int) -> bool:
        """A source asks to be quenched; whether it is."""
        known = self._quenched.get((session, id))
        if (known is not None and known.is_waking) or self.listeners.listen(session.client, filter):
            return False
        if not self._quenched:
            self.listeners.follow(True)
        self._quenched[session, id] = _Quenched(filter, now + LEASE_US)
        return True

    def awake(self, session: ClientSession, id: str) -> None:
        """A source is awake: it has said so, or will not publish any more."""
        self._awake([(session, id)])

    def end(self, session: ClientSession) -> None:
        """A client has other rights: it asks again, whoever listens."""
        keys = [key for key in self._quenched if key[0] is session]
        for _, id in keys:
            session.tell(wire.Wake(id))
        self._awake(keys)

    def tick(self, now: int) -> None:
        """Leases may be over."""
        if self._quenched:
            self._awake([key for key, each in self._quenched.items() if each.until <= now])

    def wake(self, go: Callable[[], None]) -> None:
        """Call `go` when every source is awake to which somebody listens."""
        if not self._quenched:
            go()
            return
        added = self.listeners.take_added()
        waking = {key for key, each in self._quenched.items() if self._is_waking(key, each, added)}
        if not waking:
            go()
            return
        self._waiting.append(_Waiting(go, waking))

    def _is_waking(self, key: Key, source: _Quenched, added: list[Entry]) -> bool:
        session, id = key
        if not source.is_waking and self.listeners.listen(session.client, source.filter, added):
            source.is_waking = True
            if not session.ended:
                session.tell(wire.Wake(id))
        return source.is_waking

    def _awake(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._quenched.pop(key, None)
            for each in self._waiting:
                each.sources.discard(key)
        if not self._quenched:
            self.listeners.follow(False)
        going = [each for each in self._waiting if not each.sources]
        self._waiting = [each for each in self._waiting if each.sources]
        for each in going:
            each.go()
