"""Subscriptions that no advertisement serves any more leave the routing table, as soon as they can.

A neighbour's subscription stays for a while when what was advertised for it is withdrawn: publications may wait
for the neighbour in the log, and are matched when it reads them. When the neighbour has confirmed all that was in
the log by then, the subscription is removed, unless something is advertised for it again.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.broker import Broker
from fairlead.filters.language import render
from fairlead.network.destinations import Link
from fairlead.network.dispatch import Dispatch
from fairlead.network.ledger import InterestsChanged
from fairlead.network.persistence import Persistence
from fairlead.network.router import Router
from fairlead.routing import Entry

__all__ = ["Unserved"]


class Unserved:
    """Entries of the routing table that nothing serves, each with the end of the log when that was seen."""

    def __init__(
        self,
        broker: Broker,
        links: Mapping[str, Link],
        *,
        dispatch: Dispatch,
        persistence: Persistence,
        router: Router,
    ) -> None:
        self._broker, self._links, self._dispatch = broker, links, dispatch
        self._persistence, self._router = persistence, router
        self._waiting: dict[Entry, int] = {}

    def tick(self, now: int) -> None:
        """From time to time: look for such entries, and remove those that no record in the log is for."""
        broker = self._broker
        if broker.may_have_unserved:
            broker.may_have_unserved = False
            for entry in broker.unserved(broker.subscriptions):
                self._waiting.setdefault(entry, self._dispatch.end)
            self._dispatch.after_sync(lambda: None)  # what is in the log by now is sent on
        ready = [entry for entry, end in self._waiting.items() if self._has_passed(entry[1], end)]
        for entry in ready:
            del self._waiting[entry]
        removed = list(broker.unserved(ready))
        for interest, neighbour in removed:
            broker.subscriptions.remove(interest, neighbour)
            if neighbour in self._persistence.state.neighbours:
                text = (render(interest.filter), interest.owner)
                self._persistence.note(InterestsChanged(neighbour, [], [text], False), now)
        if removed:
            self._router.change()

    def _has_passed(self, neighbour: str, end: int) -> bool:
        link = self._links.get(neighbour)
        return link is None or link.cursor(self._dispatch.reached) >= end
