"""Merging-based routing (book 4.5.5), on top of covering: filters with the same destination become one.

    perfect     a merger matches what the filters it was made of match, and nothing else
    imperfect   it may match more, up to a share that the caller sets, for neighbours only: a client must
                receive nothing that it has not subscribed to

Only the broker that made a merger knows its constituents; to all others it is a filter like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import ClassVar, Final

from fairlead.errors import ValueRefused
from fairlead.routing.covering import Covering
from fairlead.routing.interest import Interest
from fairlead.routing.strategy import Outcome
from fairlead.routing.table import RoutingTable

__all__ = ["ImperfectMerging", "Merging"]

TRIED_MAX: Final = 16
"""Up to so many entries are tried for a merger; beyond, candidates for a perfect one are found by hash."""


class Merging(Covering):
    """Perfect merging."""

    name: ClassVar[str] = "merging"
    imperfection_max: float = 0.0

    def administer(
        self,
        table: RoutingTable,
        source: str,
        subscriptions: Sequence[Interest],
        unsubscriptions: Sequence[Interest],
    ) -> Outcome:
        if unsubscriptions:
            return self._leave(table, source, list(subscriptions), list(unsubscriptions))
        outcome = Outcome()
        # One after the other: a merger of one may cover the next.
        for interest in subscriptions:
            arriving = self._arrive(table, source, interest)
            if arriving is not None:
                told = super().administer(table, source, (arriving,), ())
                if len(subscriptions) == 1:
                    return told  # as most often: nothing to put together
                outcome.update(told)
        return outcome

    # -- subscriptions -------------------------------------------------------------------------------------

    def _arrive(self, table: RoutingTable, source: str, interest: Interest) -> Interest | None:
        """Add it to a merger that covers it (None), or extend one, or make one; else it stays as it is."""
        if source in table.neighbours:
            table.remove_all(table.covered_at(interest, source), source)
        if self._join_merger(table, interest, source):
            return None
        made = self._merged(table, interest, source)
        if made is None:
            return interest
        merger, parts = made
        self._absorb(table, source, merger, parts)
        return merger

    @staticmethod
    def _join_merger(table: RoutingTable, interest: Interest, source: str) -> bool:
        """Add an interest to a merger that covers it, if there is one: its neighbours know that one already."""
        mergers = {
            table.catalogue.number(merger): parts for merger, parts in table.mergers.get(source, {}).items()
        }
        covering = table.catalogue.covering(table.catalogue.number(interest), mergers.keys())
        if not covering:
            return False
        mergers[min(covering)][interest] = None
        return True

    def _merged(
        self, table: RoutingTable, interest: Interest, source: str
    ) -> tuple[Interest, dict[Interest, None]] | None:
        """A merger of an interest with entries of the same destination, and its constituents."""
        bound = self.imperfection_max if source in table.neighbours else 0.0
        mergers = table.mergers.get(source, {})
        parts: dict[Interest, None] = {interest: None}
        merger, is_made = interest, False
        for other in self._partners(table, interest, source, bound):
            wider = table.catalogue.merged(
                table.catalogue.number(merger), table.catalogue.number(other), bound
            )
            if wider is None:
                continue
            wanted = {**parts, **mergers.get(other, {other: None})}
            if self._is_allowed(table, wider, wanted, bound):
                merger, parts, is_made = wider, wanted, True
        return (merger, parts) if is_made else None

    @staticmethod
    def _is_allowed(table: RoutingTable, merger: Interest, parts: dict[Interest, None], bound: float) -> bool:
        """One perfect step after another stays perfect; imperfect ones add up, so the whole is judged."""
        return not bound or table.catalogue.is_merger(merger, parts, bound)

    @staticmethod
    def _partners(table: RoutingTable, interest: Interest, source: str, bound: float) -> list[Interest]:
        """Mergers first, since one that can be extended is extended."""
        catalogue, of = table.catalogue, table.of(source)
        if len(of) <= TRIED_MAX:
            found = dict.fromkeys(of)
        else:
            close = {*catalogue.merge_candidates(catalogue.number(interest))}
            found = {each: None for each in of if catalogue.number(each) in close} if close else {}
        if bound:
            found.update(dict.fromkeys(islice(reversed(list(of)), TRIED_MAX)))
        mergers = table.mergers.get(source, {})
        found.pop(interest, None)
        return sorted(found, key=lambda each: each not in mergers)

    @staticmethod
    def _absorb(table: RoutingTable, source: str, merger: Interest, parts: dict[Interest, None]) -> None:
        """Move the entries that a merger covers from the table into the merger."""
        mergers = table.mergers.get(source, {})
        held = dict(parts)
        absorbed = table.covered_at(merger, source)
        for covered in absorbed:
            held.update(mergers.get(covered, {covered: None}))
        table.remove_all([*absorbed, *(each for each in table.of(source) if each in parts)], source)
        if source in table.neighbours:
            catalogue = table.catalogue
            numbers = {catalogue.number(part): part for part in held}
            held = {numbers[number]: None for number in catalogue.widest(numbers.keys())}
        table.mergers.setdefault(source, {})[merger] = held

    # -- unsubscriptions -----------------------------------------------------------------------------------

    def _leave(
        self, table: RoutingTable, source: str, arriving: list[Interest], leaving: list[Interest]
    ) -> Outcome:
        """Mergers that have lost a part and are no longer mergers of the rest fall apart."""
        remote = source in table.neighbours
        for interest in (*arriving, *leaving) if remote else ():
            table.remove_all(table.covered_at(interest, source), source)
        bound = self.imperfection_max if remote else 0.0
        # The source removes its own interests, not the mergers that fall apart with them.
        coming, going = tuple(arriving), tuple(leaving)
        for merger, parts in list(table.mergers.get(source, {}).items()):
            lost = self._lost(table, parts, coming, going) if remote else parts.keys() & {*going}
            if not lost:
                continue
            for part in lost:
                del parts[part]
            if parts and table.catalogue.is_merger(merger, parts, bound):
                continue
            table.remove(merger, source)
            arriving = [*arriving, *parts]
            leaving = [*leaving, merger]
        arriving = [each for each in arriving if not self._join_merger(table, each, source)]
        if remote:
            # What a merger was made of may be covered by another entry by now (book 4.5.6 wants one of them).
            held = {table.catalogue.number(interest) for interest in table.of(source)}
            arriving = [
                each
                for each in self.prune(table, arriving)
                if not table.catalogue.covering(table.catalogue.number(each), held)
            ]
        else:
            # Each filter of a client counts, also one that another covers: none is pruned. But
            # a merger of others stays, though the client's own filter of that extent has been removed.
            standing = table.mergers.get(source, {})
            leaving = [each for each in leaving if each not in standing]
            table.remove_all(leaving, source)
        return super().administer(table, source, arriving, self.prune(table, leaving))

    @staticmethod
    def _lost(
        table: RoutingTable,
        parts: dict[Interest, None],
        arriving: Sequence[Interest],
        leaving: Sequence[Interest],
    ) -> list[Interest]:
        """The interests covered by a removed filter, and not by its replacement."""
        catalogue = table.catalogue
        coming = {catalogue.number(interest) for interest in arriving}
        going = {catalogue.number(interest) for interest in leaving}
        lost = []
        for part in parts:
            number = catalogue.number(part)
            if catalogue.covering(number, going) and not catalogue.covering(number, coming):
                lost.append(part)
        return lost

    def breach(self, table: RoutingTable, neighbour: str) -> str | None:
        """And a merger is in the table, and covers all that it was made of."""
        catalogue, of = table.catalogue, table.of(neighbour)
        for merger, parts in table.mergers.get(neighbour, {}).items():
            if merger not in of:
                return f"no {merger}, which was made of {[*map(str, parts)]}"
            for part in parts:
                if not catalogue.covers(catalogue.number(merger), catalogue.number(part)):
                    return f"{merger}, made of {part}, which it does not cover"
        return super().breach(table, neighbour)


class ImperfectMerging(Merging):
    """Imperfect merging: at most the share `imperfection_max` of a merger matches none of its constituents."""

    name: ClassVar[str] = "imperfect"

    def __init__(self, imperfection_max: float = 0.2) -> None:
        if not 0 <= imperfection_max <= 1:
            raise ValueRefused(f"an imperfection is a share between 0 and 1, not {imperfection_max}")
        self.imperfection_max = imperfection_max
