"""Covering-based routing (book 4.5.4): only filters that no other covers are sent to a neighbour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from fairlead.routing.interest import Interest
from fairlead.routing.strategy import Outcome, Strategy
from fairlead.routing.table import Entry, RoutingTable

__all__ = ["Covering"]


class Covering(Strategy):
    """No two entries (F, H), (G, H) for a neighbour H with F ⊒ G (book 4.5.6).

    A message has subscriptions only, or unsubscriptions together with the subscriptions that these uncover:
    both in one message, since between two the table of the receiver would have neither, and lose
    notifications.
    """

    name: ClassVar[str] = "covering"

    def administer(
        self,
        table: RoutingTable,
        source: str,
        subscriptions: Sequence[Interest],
        unsubscriptions: Sequence[Interest],
    ) -> Outcome:
        outcome = Outcome()
        if not unsubscriptions:
            for interest in subscriptions:
                self._remove(table, interest, source)
                outcome.subscribe(interest, self._but(source, table.without_cover(interest)))
                table.add(interest, source)
            return outcome
        for interest in unsubscriptions:
            self._remove(table, interest, source)
        # These entries may have been covered by nothing else, so others may not know of them.
        uncovered: dict[Entry, None] = {}
        for interest in unsubscriptions:
            outcome.unsubscribe(interest, self._but(source, table.without_cover(interest)))
            uncovered.update(dict.fromkeys(table.properly_covered(interest)))
        for interest in subscriptions:
            table.add(interest, source)
            uncovered[interest, source] = None
        self._announce_uncovered(table, source, uncovered, outcome)
        return outcome

    def _announce_uncovered(
        self, table: RoutingTable, source: str, uncovered: dict[Entry, None], outcome: Outcome
    ) -> None:
        """Of identical filters one is sent, and never to its own destination if that is the only one."""
        done: set[int] = set()
        for interest, _ in uncovered:
            number = table.catalogue.number(interest)
            if table.catalogue.identical(number, done):
                continue
            done.add(number)
            asking = table.asking(interest)
            told = self._but(source, table.without_proper_cover(interest))
            outcome.subscribe(interest, [each for each in told if asking != {each}])

    @staticmethod
    def _but(source: str, neighbours: Iterable[str]) -> list[str]:
        return [each for each in neighbours if each != source]

    @staticmethod
    def _remove(table: RoutingTable, interest: Interest, source: str) -> None:
        """A neighbour's removal ends all entries that the filter covers; a client's this filter only."""
        if source in table.neighbours:
            table.remove_all(table.covered_at(interest, source), source)
        else:
            table.remove(interest, source)

    def prune(self, table: RoutingTable, interests: Iterable[Interest]) -> list[Interest]:
        catalogue = table.catalogue
        given = {catalogue.number(interest): interest for interest in interests}
        return [given[number] for number in catalogue.widest(given.keys())]

    def breach(self, table: RoutingTable, neighbour: str) -> str | None:
        numbers = {table.catalogue.number(interest): interest for interest in table.of(neighbour)}
        for number, interest in numbers.items():
            for other in table.catalogue.covering(number, numbers.keys()) - {number}:
                return f"both {interest} and {numbers[other]}, which covers it"
        return None
