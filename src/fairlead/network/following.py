"""A producer goes to another broker: nothing of it is published there before all it published elsewhere has
come.

Otherwise what it publishes there could overtake what is still on its way. So its publications wait for two
barriers, both patient. At the first one brokers end the connections that they have with a client of this name,
take nothing more of it, and answer with the ends of their logs. The second one is passed by each broker when all
up to these ends has come there that concerns it (`fairlead.broker.progress`). The law: what is published
afterwards comes to everybody behind all that the producer published before, at whatever broker.

A broker that has no log marks nothing: where there is one, the first barrier is all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from fairlead.broker import Broker
from fairlead.broker.progress import Progress
from fairlead.errors import ProtocolError
from fairlead.network import wire
from fairlead.network.barriers import NO_LOG, Barriers
from fairlead.network.client_sessions import ClientSession
from fairlead.network.cuts import Cuts, reached_in
from fairlead.network.destinations import Link
from fairlead.network.dispatch import Dispatch

__all__ = ["Following"]

EXPELLED_MAX: Final = 10_000
"""The number of clients that are known to have gone elsewhere."""
GONE: Final = "this client has gone to another broker"


class Following:
    """The producers that come to a broker, and what they wait for."""

    def __init__(
        self,
        broker: Broker,
        *,
        clients: Mapping[str, ClientSession],
        links: Mapping[str, Link],
        barriers: Barriers,
        progress: Progress,
        cuts: Cuts,
        dispatch: Dispatch,
    ) -> None:
        self._broker, self._name, self._clients, self._links = broker, broker.name, clients, links
        self._barriers, self._progress, self._cuts, self._dispatch = barriers, progress, cuts, dispatch
        self._held: list[tuple[Mapping[str, int], Callable[[], None]]] = []
        self._expelled: dict[str, int] = {}
        """By client, the first of its connections that is not refused here."""
        barriers.expel, barriers.hold, barriers.known = self._expel, self._hold, self._known

    def check(self, client: str, connection: int) -> None:
        """ProtocolError for a connection that was opened before one with another broker."""
        if connection and connection < self._expelled.get(client, 0):
            raise ProtocolError(GONE)

    def follow(self, session: ClientSession, message: wire.Follow) -> None:
        """Answer a client when all it has published at other brokers has come."""
        number = message.number
        if not self._barriers.are_answered_with_ends:
            session.tell(wire.Done(number))  # by several ways there is no order between brokers
            return
        ends: dict[str, int] = {}
        known: list[tuple[str, str]] = []

        def done() -> None:
            if not session.ended:
                session.tell(wire.Done(number))

        def ended() -> None:
            for identity in known:
                self._broker.is_new(identity)  # what comes again of it is a duplicate here, too
            if NO_LOG in ends.values():
                done()
                return
            key = self._barriers.next_key()
            self._barriers.begin(wire.Barrier(*key, True, upto=ends), "", done)

        key = self._barriers.next_key()
        barrier = wire.Barrier(
            *key, True, True, expel=session.name, connection=session.opened_as, unsure=message.unsure
        )
        self._barriers.begin(barrier, "", ended, ends, known)

    def _expel(self, client: str, connection: int) -> None:
        self._expelled[client] = max(connection, self._expelled.pop(client, 0))
        while len(self._expelled) > EXPELLED_MAX:
            del self._expelled[next(iter(self._expelled))]
        session = self._clients.get(client)
        if session is not None and session.opened_as < connection:
            session.end(GONE, is_final=True)

    def _known(self, unsure: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        return [each for each in unsure if each in self._broker.identities]

    def _hold(self, upto: Mapping[str, int], go: Callable[[], None]) -> None:
        if not upto or self._has_come(upto):
            go()
            return
        self._held.append((upto, go))

    def _has_come(self, upto: Mapping[str, int]) -> bool:
        for neighbour in self._links:
            self._cuts.hurry(neighbour, upto)
        return reached_in(self._reached, upto)

    def _reached(self, origin: str) -> int:
        return self._dispatch.reached if origin == self._name else self._progress.position_of(origin)

    @property
    def is_waiting(self) -> bool:
        """Whether something is awaited that arrives."""
        return bool(self._held)

    def look(self) -> None:
        """Something may have come: go on with what waited for it."""
        held, self._held = self._held, []
        for upto, go in held:
            if reached_in(self._reached, upto):
                go()
            else:
                self._held.append((upto, go))
