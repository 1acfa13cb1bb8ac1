"""Simple routing in cyclic overlays (book 4.6.6): for every subscription a spanning tree of its own.

A filter is taken from whom it comes first, and only from there; so the entries for it form a tree that leads
to its client, and the load is spread over all links rather than over those of one tree.

The book's figure passes unsubscriptions on whether or not there was an entry to remove: around a cycle they
would travel for ever. Here one that removes nothing ends. And since an unsubscription may overtake its
subscription on another way round, a broker that has seen an interest end does not take it up again. So an
owner's name is used once: who subscribes again does so under another. That also mends a tree that has lost a
link: what hung on it ends, and the broker of the client is asked to start anew (see `Broker`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from fairlead.routing.basic import Simple
from fairlead.routing.interest import Interest
from fairlead.routing.strategy import Outcome
from fairlead.routing.table import RoutingTable

__all__ = ["CyclicSimple"]

ENDED_MAX: Final = 10_000
"""The number of ended interests that a broker remembers."""


class CyclicSimple(Simple):
    """Of each interest a broker has one entry, with the destination it came from first."""

    name: ClassVar[str] = "cyclic"

    def administer(
        self,
        table: RoutingTable,
        source: str,
        subscriptions: Sequence[Interest],
        unsubscriptions: Sequence[Interest],
    ) -> Outcome:
        new = []
        stale = []
        for interest in subscriptions:
            if interest in table.ended:
                stale.append(interest)
            elif table.holding(interest) <= {source}:
                new.append(interest)
        gone = [interest for interest in unsubscriptions if (interest, source) in table]
        for interest in unsubscriptions:
            table.ended[interest] = None
        while len(table.ended) > ENDED_MAX:
            del table.ended[next(iter(table.ended))]
        outcome = super().administer(table, source, new, gone)
        outcome.stale = stale
        return outcome
