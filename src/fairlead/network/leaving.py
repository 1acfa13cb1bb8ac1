"""A client that leaves takes its subscriptions along, some in each turn: others do not wait for all of them.

Nothing is delivered to it meanwhile. A client that comes back under its name is heard when the last one is gone.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from fairlead.broker import Broker
from fairlead.broker import messages as calls
from fairlead.network.interests import Interests
from fairlead.network.router import Router
from fairlead.network.turns import Turn

if TYPE_CHECKING:
    from fairlead.network.client_sessions import ClientSession

__all__ = ["Leaving"]

AT_ONCE: Final = 32
"""A client with no more subscriptions than this leaves at once."""


class Leaving:
    """Clients and durable subscribers that are gone, with the subscriptions that are still in the tables."""

    def __init__(self, broker: Broker, router: Router, interests: Interests, turn: Turn) -> None:
        self._broker, self._router, self._interests, self._turn = broker, router, interests, turn
        self.left: Final[dict[str, deque[str]]] = {}
        """Their subscriptions by client, as the broker calls it."""
        self._back: dict[str, ClientSession] = {}
        """Clients that have come back under one of these names."""

    def begin(self, client: str) -> None:
        """A client is gone."""
        self._router.targets.pop(client, None)
        self._back.pop(client, None)
        if client in self.left:
            return
        clients = self._broker.clients
        filters = clients[client].subscriptions.by_id if client in clients else {}
        if len(filters) > AT_ONCE:
            # The narrow ones first: a wide one that goes first uncovers them, and neighbours get them for nothing.
            catalogue = self._broker.catalogue
            depths = {id: catalogue.depth(catalogue.interest(filter)) for id, filter in filters.items()}
            self.left[client] = deque(sorted(filters, key=depths.__getitem__, reverse=True))
            self._router.change()
        else:
            self._interests.leave(client)

    def welcome(self, session: ClientSession) -> None:
        """A client has come, perhaps back: it is a destination as soon as what it had is gone."""
        if session.client in self.left:
            self._back[session.client] = session
        else:
            self._router.targets[session.client] = session

    def go_on(self, now: int) -> None:
        """Take subscriptions out of the tables until the turn is over; one at least."""
        if not self._interests.prepare():
            return
        for client, ids in list(self.left.items()):
            while ids:
                self._interests.call(calls.Unsubscribe(client, ids.popleft()), now)
                if self._turn.is_over:
                    break
            if ids:
                return
            del self.left[client]
            self._interests.leave(client)
            if (back := self._back.pop(client, None)) is not None:
                self._broker.handle(calls.Join(client), now)
                self._router.targets[client] = back
                self._router.change()
            if self._turn.is_over:
                return
