"""Routing entries that are leased: who does not renew an entry loses it (book 8.2.3).

Second chance: an entry is fresh from its (re)insertion to the next overrun of the broker's clock. At an overrun
all entries that are not fresh are deleted, silently, and none is fresh then. So

    an entry that is renewed once in the leasing period never goes
    an entry that nobody renews is gone after two leasing periods

A renewal travels as a subscription does. Algorithms that leave out what other filters stand for have to ask
which of these are still renewed. The book counts entries that are fresh. That loses notifications without any
fault as soon as two clients have the same filter: per period the first renewal is passed on, early in one period
and late in the next, so that the neighbour waits for up to a leasing and a refresh period. Here an entry
suppresses others towards a neighbour if it is fresh and *represents* them: it was the last one of its extent
that was passed on to that neighbour. Every renewal of a representative is passed on, so a neighbour never waits
longer than the client's refresh period and the jitter of its path.

With `covers = "any"`, as printed, a proper cover suppresses also where it is not fresh. That sends fewer
messages, and takes longer to recover.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

from fairlead.routing import Catalogue, Entry, Interest, Outcome, RoutingTable, Strategy
from fairlead.routing.covering import Covering
from fairlead.routing.merging import Merging

__all__ = ["COVERS", "Covers", "Leased", "LeasedTable"]

Covers: TypeAlias = Literal["fresh", "any", "printed"]
COVERS: Final = ("fresh", "any", "printed")
"""The covers that suppress a renewal: fresh representatives; likewise, and any proper cover; fresh entries
and any proper cover, as the book has it."""


class LeasedTable(RoutingTable):
    """Routing entries with their flags, and the representatives of each neighbour."""

    def __init__(self, catalogue: Catalogue, covers: Covers = "fresh") -> None:
        super().__init__(catalogue)
        self.covers = covers
        self.fresh: set[Entry] = set()
        """The entries that were renewed since the last overrun; of mergers, those with a part that was."""
        self.renewed_parts: set[Entry] = set()
        """The constituents of mergers that were renewed since the last overrun: a merger may be a part of
        itself."""
        self.representatives: dict[str, set[Entry]] = {}
        """By neighbour, the entries that were passed on to it last."""
        self.counts_all = False
        """Whether all entries count, as they do for an unsubscription: what is left is asked for."""

    def is_fresh(self, interest: Interest, destination: str) -> bool:
        """Whether an entry was renewed since the last overrun."""
        return (interest, destination) in self.fresh

    def without_cover(self, interest: Interest) -> list[str]:
        if self.covers == "fresh" or self.counts_all:
            return super().without_cover(interest)
        served = {*super().without_identical(interest)}
        return [each for each in self._without_any(interest) if each in served]

    def without_proper_cover(self, interest: Interest) -> list[str]:
        if self.covers == "fresh" or self.counts_all:
            return super().without_proper_cover(interest)
        return self._without_any(interest)

    def _without_any(self, interest: Interest) -> list[str]:
        """D^PU by entries of both flags."""
        self.counts_all = True
        try:
            return super().without_proper_cover(interest)
        finally:
            self.counts_all = False

    def _served_from_at_most(self, numbers: Iterable[int]) -> list[str]:
        if self.counts_all:
            return super()._served_from_at_most(numbers)
        at, fresh = self._at, self.fresh
        suppressing = [
            (interest, destination)
            for number in numbers
            for destination, interests in at[number].items()
            for interest in interests
            if (interest, destination) in fresh
        ]
        return [each for each in self.hearers if not self._is_represented(each, suppressing)]

    def _is_represented(self, neighbour: str, entries: Iterable[Entry]) -> bool:
        known = self.representatives.get(neighbour, ())
        return any(
            entry[1] != neighbour and (self.covers == "printed" or entry in known) for entry in entries
        )

    def represent(self, entry: Entry, neighbour: str, *, by_covering: bool) -> None:
        """An entry was passed on to a neighbour: from now on it stands for all others of its extent."""
        catalogue, number = self.catalogue, self.catalogue.number(entry[0])
        represents = self.representatives.setdefault(neighbour, set())
        for other in [*represents]:
            theirs = catalogue.number(other[0])
            if catalogue.covers(number, theirs) and (by_covering or catalogue.covers(theirs, number)):
                represents.discard(other)
        represents.add(entry)

    def entries_of_owner(self, owner: str) -> list[Entry]:
        """The entries with an owner, with any destination."""
        return [(interest, destination) for interest, destination in self if interest.owner == owner]


class Leased(Strategy):
    """A routing algorithm whose entries are leased: a subscription that is known already is a renewal."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.name = strategy.name  # type: ignore[misc]
        self.owned = strategy.owned  # type: ignore[misc]
        self.relates = strategy.relates  # type: ignore[misc]

    def initial(self) -> Sequence[Interest]:
        return self.strategy.initial()

    def prune(self, table: RoutingTable, interests: Iterable[Interest]) -> list[Interest]:
        return self.strategy.prune(table, interests)

    def administer(
        self,
        table: RoutingTable,
        source: str,
        subscriptions: Sequence[Interest],
        unsubscriptions: Sequence[Interest],
    ) -> Outcome:
        assert isinstance(table, LeasedTable)
        if self.owned:
            for interest in subscriptions:
                self._drop_namesakes(table, interest, source)
        if unsubscriptions:
            return self._end(table, source, subscriptions, unsubscriptions)
        if not isinstance(self.strategy, Merging):
            outcome = self.strategy.administer(table, source, subscriptions, ())
            self._renewed(table, source, subscriptions, outcome)
            return outcome
        outcome = Outcome()
        for interest in subscriptions:
            outcome.update(self._renew_part(table, source, interest))
        return outcome

    @staticmethod
    def _drop_namesakes(table: LeasedTable, interest: Interest, source: str) -> None:
        """An id belongs to one entry: another filter or destination under it is a corrupted one."""
        for other, destination in table.entries_of_owner(interest.owner):
            if destination != source or other != interest:
                table.remove(other, destination)

    def _renewed(
        self, table: LeasedTable, source: str, subscriptions: Iterable[Interest], outcome: Outcome
    ) -> None:
        table.fresh.update((interest, source) for interest in subscriptions)
        if self.relates:
            by_covering = isinstance(self.strategy, Covering)
            for neighbour, interests in outcome.subscriptions.items():
                for interest in interests:
                    table.represent((interest, source), neighbour, by_covering=by_covering)

    def _renew_part(self, table: LeasedTable, source: str, interest: Interest) -> Outcome:
        """Renew an interest that may be a part of a merger: with it the merger is renewed."""
        mergers = table.mergers.get(source, {})
        merger = next(
            (each for each, parts in mergers.items() if interest in parts and each in table.of(source)), None
        )
        if merger is None:
            outcome = self.strategy.administer(table, source, (interest,), ())
            mergers = table.mergers.get(source, {})
            merger = next((each for each, parts in mergers.items() if interest in parts), None)
            joined = merger is not None and not outcome.neighbours
            if not joined:
                self._renewed(table, source, (interest if merger is None else merger,), outcome)
                table.renewed_parts.add((interest, source))
                return outcome
        assert merger is not None
        parts = table.mergers[source][merger]
        outcome = Covering.administer(self.strategy, table, source, (merger,), ())  # type: ignore[arg-type]
        table.mergers.setdefault(source, {})[merger] = parts
        self._renewed(table, source, (merger,), outcome)
        table.renewed_parts.add((interest, source))
        return outcome

    def _end(
        self,
        table: LeasedTable,
        source: str,
        subscriptions: Sequence[Interest],
        unsubscriptions: Sequence[Interest],
    ) -> Outcome:
        """End entries. A neighbour that still has to know of something is sent it once more: the renewals of the
        entry that represented it have ended."""
        ended = {(interest, source) for interest in unsubscriptions}
        represented = {each: ended & known for each, known in table.representatives.items() if ended & known}
        table.counts_all = True
        try:
            outcome = self.strategy.administer(table, source, subscriptions, unsubscriptions)
        finally:
            table.counts_all = False
        table.renewed_parts -= ended
        table.fresh -= ended
        renewed = {(interest, source) for interest in subscriptions}
        table.fresh |= renewed
        if isinstance(self.strategy, Merging):
            table.renewed_parts |= renewed
        for known in table.representatives.values():
            known.difference_update(ended)
        if not self.relates:
            return outcome
        by_covering = isinstance(self.strategy, Covering)
        for neighbour, entries in represented.items():
            for interest, _ in entries:
                if interest not in outcome.unsubscriptions.get(neighbour, {}):
                    heir = self._heir(table, interest, neighbour, by_covering=by_covering)
                    if heir is not None:
                        outcome.subscribe(heir, [neighbour])
        for neighbour, interests in outcome.subscriptions.items():
            for interest in interests:
                for destination in table.holding(interest) - {neighbour}:
                    table.represent((interest, destination), neighbour, by_covering=by_covering)
        return outcome

    @staticmethod
    def _heir(
        table: LeasedTable, interest: Interest, neighbour: str, *, by_covering: bool
    ) -> Interest | None:
        """An entry of another destination that stands for an interest from now on."""
        catalogue, number = table.catalogue, table.catalogue.number(interest)
        for other in table.but(neighbour):
            theirs = catalogue.number(other)
            if catalogue.covers(theirs, number) and (by_covering or catalogue.covers(number, theirs)):
                return other
        return None

    # -- overrun -------------------------------------------------------------------------------------------

    def overrun(self, table: LeasedTable) -> dict[str, list[Interest]]:
        """Delete what is not fresh, give all else a second chance, and derive what is derived once more.

        Plain entries go silently. The mergers that have fallen apart are returned, by neighbour that has to be
        sent that they have expired: parts that are still renewed would renew a merger with parts that are not,
        at every broker for two more periods.
        """
        table.rebuild_index()
        initial = {*self.initial()}
        expired: dict[str, list[Interest]] = {}
        for destination in [*table.destinations_with_entries()]:
            for merger, parts in [*table.mergers.get(destination, {}).items()]:
                left = {part: None for part in parts if (part, destination) in table.renewed_parts}
                self._reduce(table, destination, merger, left, expired)
            for interest in [*table.of(destination)]:
                is_initial = interest in initial and destination in table.neighbours
                if not is_initial and not table.is_fresh(interest, destination):
                    table.remove(interest, destination)
        for neighbour in table.neighbours if initial else ():
            for interest in initial:
                table.add(interest, neighbour)
        for neighbour, known in list(table.representatives.items()):
            table.representatives[neighbour] = {entry for entry in known if entry in table}
        table.fresh.clear()
        table.renewed_parts.clear()
        return expired

    def expire(
        self, table: LeasedTable, source: str, interests: Iterable[Interest]
    ) -> dict[str, list[Interest]]:
        """Delete entries of a source, which have expired there; returns those that expire with them, by neighbour.

        Nobody is sent what they covered. That would revive what nobody renews; what somebody renews is passed on
        with its next renewal.
        """
        expired: dict[str, list[Interest]] = {}
        for interest in interests:
            table.fresh.discard((interest, source))
            for merger, parts in [*table.mergers.get(source, {}).items()]:
                if interest in parts:
                    left = {part: None for part in parts if part != interest}
                    self._reduce(table, source, merger, left, expired)
            if interest not in table.mergers.get(source, {}) and table.remove(interest, source):
                self._note_expired(table, (interest, source), expired)
        return expired

    def _reduce(
        self,
        table: LeasedTable,
        destination: str,
        merger: Interest,
        left: dict[Interest, None],
        expired: dict[str, list[Interest]],
    ) -> None:
        """Parts of a merger have gone. If it is none of the others, it falls apart into them."""
        bound = getattr(self.strategy, "imperfection_max", 0.0) if destination in table.neighbours else 0.0
        mergers = table.mergers[destination]
        if merger not in table.of(destination):
            del mergers[merger]
            if not mergers:
                del table.mergers[destination]
        elif left and (len(left) == len(mergers[merger]) or table.catalogue.is_merger(merger, left, bound)):
            mergers[merger] = left
            table.fresh.add((merger, destination))
            return
        else:
            table.remove(merger, destination)
            self._note_expired(table, (merger, destination), expired)
        for part in left:
            table.add(part, destination)
            table.fresh.add((part, destination))

    @staticmethod
    def _note_expired(table: LeasedTable, entry: Entry, expired: dict[str, list[Interest]]) -> None:
        for neighbour, known in table.representatives.items():
            if entry in known and neighbour in table.neighbours:
                known.discard(entry)
                expired.setdefault(neighbour, []).append(entry[0])
