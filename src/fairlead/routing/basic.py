"""Flooding, simple routing and identity-based routing (book 4.5.1 to 4.5.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from fairlead.routing.interest import ANYTHING, Interest
from fairlead.routing.strategy import Outcome, Strategy
from fairlead.routing.table import RoutingTable

__all__ = ["Flooding", "Identity", "Simple"]


class Flooding(Strategy):
    """Notifications go everywhere, filters nowhere: T|H = {everything} for every neighbour H, for ever."""

    name: ClassVar[str] = "flooding"
    relates: ClassVar[bool] = False

    def initial(self) -> Sequence[Interest]:
        return (ANYTHING,)

    def administer(
        self,
        table: RoutingTable,
        source: str,
        subscriptions: Sequence[Interest],
        unsubscriptions: Sequence[Interest],
    ) -> Outcome:
        for interest in subscriptions:
            table.add(interest, source)
        table.remove_all(unsubscriptions, source)
        return Outcome()

    def prune(self, table: RoutingTable, interests: Iterable[Interest]) -> list[Interest]:
        return []

    def breach(self, table: RoutingTable, neighbour: str) -> str | None:
        return None if ANYTHING in table.of(neighbour) else "not everything is forwarded"


class Simple(Strategy):
    """Every broker knows every filter: H has T_B\\H from B, once nothing is in flight."""

    name: ClassVar[str] = "simple"
    owned: ClassVar[bool] = True
    relates: ClassVar[bool] = False

    def administer(
        self,
        table: RoutingTable,
        source: str,
        subscriptions: Sequence[Interest],
        unsubscriptions: Sequence[Interest],
    ) -> Outcome:
        others = table.hearers_but(source)
        for interest in subscriptions:
            table.append(interest, source)
        outcome = Outcome((others, tuple(subscriptions)) if subscriptions else None)
        if not unsubscriptions:
            return outcome
        for interest in unsubscriptions:
            table.remove(interest, source)
            # While links change, an interest may arrive from two sides: the entry of the other side is still
            # needed.
            left = table.holding(interest)
            outcome.unsubscribe(interest, [each for each in others if left <= {each}])
        return outcome

    def prune(self, table: RoutingTable, interests: Iterable[Interest]) -> list[Interest]:
        return list(dict.fromkeys(interests))


class Identity(Strategy):
    """Of identical filters, one is sent to a neighbour: no two entries (F, H), (G, H) with F ≡ G (book 4.5.6)."""

    name: ClassVar[str] = "identity"

    def administer(
        self,
        table: RoutingTable,
        source: str,
        subscriptions: Sequence[Interest],
        unsubscriptions: Sequence[Interest],
    ) -> Outcome:
        outcome = Outcome()
        for interest in subscriptions:
            self._remove(table, interest, source)
            outcome.subscribe(interest, self._uninformed(table, interest, source))
            table.add(interest, source)
        for interest in unsubscriptions:
            self._remove(table, interest, source)
            outcome.unsubscribe(interest, self._uninformed(table, interest, source))
        return outcome

    @staticmethod
    def _remove(table: RoutingTable, interest: Interest, source: str) -> None:
        """A neighbour's removal ends all identical entries; a client may have two identical filters."""
        if source in table.neighbours:
            table.remove_all(table.identical(interest, source), source)
        else:
            table.remove(interest, source)

    @staticmethod
    def _uninformed(table: RoutingTable, interest: Interest, source: str) -> list[str]:
        return [each for each in table.without_identical(interest) if each != source]

    def prune(self, table: RoutingTable, interests: Iterable[Interest]) -> list[Interest]:
        distinct: dict[int, Interest] = {}
        for interest in interests:
            number = table.catalogue.number(interest)
            if not table.catalogue.identical(number, distinct.keys()):
                distinct[number] = interest
        return list(distinct.values())

    def breach(self, table: RoutingTable, neighbour: str) -> str | None:
        numbers = {table.catalogue.number(interest): interest for interest in table.of(neighbour)}
        for number, interest in numbers.items():
            for other in table.catalogue.identical(number, numbers.keys()) - {number}:
                return f"both {interest} and {numbers[other]}, which are identical"
        return None
