"""The subscriptions that overlap an advertisement (book 4.6.1).

A subscription is forwarded only towards overlapping advertisements. So there are two tables, each maintained by
an algorithm of its own, and three sets that connect them:

    newly_servable(H, S)   P_B   the filters in T\\H that overlap an advertisement in S, and none that H had made
    unservable(E)          O_B   the entries of neighbours that no advertisement from elsewhere overlaps
    servable(A, H)         Q_B   the filters in A that overlap an advertisement of H
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fairlead.routing.interest import Interest
from fairlead.routing.strategy import Strategy
from fairlead.routing.table import Entry, RoutingTable

__all__ = ["newly_servable", "servable", "unservable"]


def newly_servable(
    strategy: Strategy,
    subscriptions: RoutingTable,
    advertisements: RoutingTable,
    neighbour: str,
    advertised: Iterable[Interest],
) -> list[Interest]:
    """prune(P_B): the interests to send to a neighbour, because it advertises more than before."""
    catalogue = subscriptions.catalogue
    # Not by mergers of its advertisements: an imperfect merger overlaps filters that were never sent to it.
    mergers = advertisements.mergers.get(neighbour, {})
    said = (part for each in advertisements.of(neighbour) for part in mergers.get(each, (each,)))
    before = _numbers(advertisements, said)
    new = _numbers(advertisements, advertised)
    known: dict[Interest, None] = {}
    served: dict[Interest, None] = {}
    for interest in subscriptions.but(neighbour):
        number = catalogue.number(interest)
        if any(catalogue.overlaps(number, each) for each in before):
            known[interest] = None
        elif any(catalogue.overlaps(number, each) for each in new):
            served[interest] = None
    # What the neighbour knows already may cover some of it.
    return [each for each in strategy.prune(subscriptions, [*known, *served]) if each in served]


def unservable(entries: Iterable[Entry], advertisements: RoutingTable) -> Iterator[Entry]:
    """O_B, of these entries of the subscription table.

    A destination that receives no advertisements does not depend on them, so its filters stay (book 4.6.2).
    """
    catalogue = advertisements.catalogue
    offers = [(catalogue.number(interest), source) for interest, source in advertisements]
    told = {*advertisements.hearers}
    for interest, neighbour in entries:
        number = catalogue.number(interest)
        if neighbour in told and not any(
            source != neighbour and catalogue.overlaps(number, offer) for offer, source in offers
        ):
            yield interest, neighbour


def servable(interests: Iterable[Interest], advertisements: RoutingTable, neighbour: str) -> list[Interest]:
    """Q_B."""
    catalogue = advertisements.catalogue
    offers = _numbers(advertisements, advertisements.of(neighbour))
    return [
        interest
        for interest in interests
        if any(catalogue.overlaps(catalogue.number(interest), each) for each in offers)
    ]


def _numbers(table: RoutingTable, interests: Iterable[Interest]) -> list[int]:
    return [table.catalogue.number(interest) for interest in interests]
