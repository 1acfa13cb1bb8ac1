"""The interests that a broker declares to others on behalf of its clients' filters.

An interest may be wider than the filter (`Settings.widen`), may say more than the filter (`Seam.declare`), and may
have its client as the owner, where a strategy needs that. In cyclic overlays the owner's name is new each time, so
that what is late is known as late.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.broker.clients import Clients
from fairlead.broker.settings import Settings
from fairlead.filters.filter import Filter
from fairlead.routing import Catalogue, Interest
from fairlead.rules import Seam

__all__ = ["Declarations", "Names"]


class Names:
    """Numbers for names that are not used twice, not even after a crash."""

    def __init__(self) -> None:
        self._latest = 0

    def next(self, now: int) -> int:
        """One more: the time, or the number after the last one."""
        self._latest = max(now, self._latest + 1)
        return self._latest


class Declarations:
    """By client and filter, the interest that other brokers have."""

    def __init__(
        self,
        broker: str,
        settings: Settings,
        catalogue: Catalogue,
        clients: Clients,
        *,
        names: Names,
        seam: Seam,
    ) -> None:
        self._broker, self._settings, self._seam = broker, settings, seam
        self._catalogue, self._clients, self._names = catalogue, clients, names
        self._interests: dict[tuple[bool, str, Filter], Interest] = {}

    def add(self, client: str, filter: Filter, now: int, *, advertisements: bool) -> list[Interest]:
        """A client has declared a filter: the interest that is new with it, if one is."""
        strategy = self._settings.advertisements if advertisements else self._settings.strategy
        owner = self._owner(client, now) if strategy is not None and strategy.owned else ""
        widen = self._settings.widen
        interest = self._catalogue.interest(self._entry(client, filter, advertisements=advertisements), owner)
        is_new = widen is None or not self._stands_for_others(client, interest, advertisements)
        self._interests[advertisements, client, filter] = interest
        return [interest] if is_new else []

    def _owner(self, client: str, now: int) -> str:
        """The name under which other brokers know an interest of a client."""
        return f"{client}@{self._broker}#{self._names.next(now)}" if self._settings.cyclic else client

    def _entry(self, client: str, filter: Filter, *, advertisements: bool) -> Filter:
        """The filter that tables have for a client's."""
        if self._settings.widen is not None:
            filter = self._settings.widen(filter)
        return filter if advertisements else self._seam.declare(client, filter)

    def renew(self, client: str) -> tuple[list[Interest], list[Interest]]:
        """The rules have changed: the interests of a client's subscriptions that are new, and those that end.

        One subscription stands for all of a client: rules tell clients apart by name.
        """
        added, removed = [], []
        for filter in self._clients[client].subscriptions.by_filter:
            before = self._interests[False, client, filter]
            entry = self._entry(client, filter, advertisements=False)
            if entry == before.filter:
                break
            now = self._catalogue.interest(entry, before.owner)
            self._interests[False, client, filter] = now
            added.append(now)
            removed.append(before)
        return added, removed

    def remove(self, client: str, filters: Iterable[Filter], *, advertisements: bool) -> list[Interest]:
        """A client has taken filters back: the interests that end with them."""
        ended = dict.fromkeys(self._interests.pop((advertisements, client, filter)) for filter in filters)
        if self._settings.widen is None:
            return list(ended)
        return [each for each in ended if not self._stands_for_others(client, each, advertisements)]

    def own(self, *, advertisements: bool) -> dict[Interest, tuple[str, Filter]]:
        """The interests of this broker's clients, each with its client and filter."""
        return {
            interest: (client, filter)
            for (about, client, filter), interest in self._interests.items()
            if about == advertisements
        }

    def _stands_for_others(self, client: str, interest: Interest, advertisements: bool) -> bool:
        of_client = self._clients[client]
        declared = of_client.advertisements if advertisements else of_client.subscriptions
        return any(
            self._interests.get((advertisements, client, filter)) == interest for filter in declared.by_filter
        )
