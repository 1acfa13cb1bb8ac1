"""The routing table T of a broker B, and the sets that define the algorithms (book 4.2.2, 4.5).

A routing entry (F, D) routes notifications that match F to D, a neighbour or a local client. With N(F) for the
notifications that F matches, and `F ⊒ G` for N(F) ⊇ N(G):

    of(D)                 T|D    the interests with the destination D
    but(D)                T\\D    the interests with any other destination
    destinations(n)       F_B(n) where n goes
    identical(F, D)       C^I    the interests with the destination D that are identical to F
    covered(F)            C^L    the entries that F covers
    without_identical(F)  D^I    the neighbours H such that nothing in T\\H is identical to F
    without_cover(F)      D^U    the neighbours H such that nothing in T\\H covers F
    without_proper_cover  D^PU   the neighbours H such that nothing in T\\H covers F, but for what is identical

The table also selects the neighbours that receive filters: all, except brokers below this one in a hierarchy
(book 4.6.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Sequence, Set
from itertools import islice
from typing import Final, TypeAlias

from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.routing.catalogue import Catalogue
from fairlead.routing.interest import Interest

__all__ = ["Entry", "RoutingTable"]

Entry: TypeAlias = tuple[Interest, str]
_NONE: Final[dict[Interest, None]] = {}
FEW: Final = 8
"""Up to so many entries of one destination are scanned: cheaper than the index of all destinations."""


class RoutingTable:
    """Routing entries (F, D), indexed by destination and by filter."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.neighbours: dict[str, None] = {}
        """The neighbours, in the order in which they were added."""
        self.deaf: set[str] = set()
        """The neighbours that filters are not forwarded to: those below in a hierarchy."""
        self._others: dict[str, tuple[str, ...]] = {}
        """Per neighbour, a cache of the neighbours that its filters are forwarded to."""
        self.mergers: dict[str, dict[Interest, dict[Interest, None]]] = {}
        """Per destination the interests that this broker made by merging, each with those it was made of."""
        self.ended: dict[Interest, None] = {}
        """In overlays with several paths: interests that have ended."""
        self.added: list[Entry] | None = None
        """The entries that were added since somebody looked, where somebody does."""
        self._by_destination: dict[str, dict[Interest, None]] = {}
        self._appended: dict[str, list[Interest]] = {}
        """Entries added since the last lookup, not indexed yet."""
        self._by_number: dict[int, dict[str, list[Interest]]] = {}
        self._indexed: dict[str, int] = {}
        """The number of interests with a destination that are indexed: the first so many."""
        self._unindexed: dict[str, None] = {}
        """The destinations that have others."""

    def __len__(self) -> int:
        return sum(map(len, list(self._of.values())))  # at once: other threads may look

    def __iter__(self) -> Iterator[Entry]:
        return ((interest, destination) for destination, of in self._of.items() for interest in of)

    def __contains__(self, entry: Entry) -> bool:
        interest, destination = entry
        return interest in self._of.get(destination, _NONE)

    @property
    def _of(self) -> dict[str, dict[Interest, None]]:
        if self._appended:
            for destination, interests in self._appended.items():
                self._by_destination.setdefault(destination, {}).update(dict.fromkeys(interests))
                self._unindexed[destination] = None
            self._appended.clear()
        return self._by_destination

    # -- changes -------------------------------------------------------------------------------------------

    def append(self, interest: Interest, destination: str) -> None:
        """T ∪ {(F, D)}, without checking whether it is new; indexed by the next lookup. With millions of entries
        that takes a third of the time, since a list grows at its end, and a dictionary all over."""
        if self.added is not None:
            self.added.append((interest, destination))
        appended = self._appended.get(destination)
        if appended is None:
            self._appended[destination] = [interest]
        else:
            appended.append(interest)

    def add(self, interest: Interest, destination: str) -> bool:
        """T ∪ {(F, D)}; whether it was new."""
        of = self._of.setdefault(destination, {})
        size = len(of)
        of[interest] = None
        if len(of) == size:
            return False
        if self.added is not None:
            self.added.append((interest, destination))
        self._unindexed[destination] = None
        return True

    @property
    def _at(self) -> dict[int, dict[str, list[Interest]]]:
        """The entries by the numbers of their filters, then by destination. Some algorithms never look up while
        filters are added, and all of those are then indexed at once. The order of the destinations of a number
        depends on when that happens, so nothing may rely on it."""
        if self._appended or self._unindexed:
            self._index()
        return self._by_number

    def _index(self) -> None:
        retain, by_number, entries = self.catalogue.retain, self._by_number, self._of
        for destination in self._unindexed:
            of = entries[destination]
            new = list(islice(reversed(of), len(of) - self._indexed.get(destination, 0)))
            for interest in reversed(new):
                number = retain(interest)
                at = by_number.get(number)
                if at is None:
                    by_number[number] = {destination: [interest]}
                elif destination in at:
                    at[destination].append(interest)
                else:
                    at[destination] = [interest]
            self._indexed[destination] = len(of)
        self._unindexed.clear()

    def rebuild_index(self) -> None:
        """Derive the index from the entries once more, whatever it has been."""
        self._by_number.clear()
        for destination, of in self._of.items():
            for interest in islice(of, self._indexed.get(destination, 0)):
                at = self._by_number.setdefault(self.catalogue.number(interest), {})
                at.setdefault(destination, []).append(interest)

    def remove(self, interest: Interest, destination: str) -> bool:
        """T \\ {(F, D)}; whether it was there."""
        of = self._of.get(destination, _NONE)
        if interest not in of:
            return False
        at = self._at  # a reference is released only after it was taken
        del of[interest]
        self._indexed[destination] = len(of)
        if not of:
            del self._of[destination]
            del self._indexed[destination]
        if destination in self.mergers:
            self.mergers[destination].pop(interest, None)
            if not self.mergers[destination]:
                del self.mergers[destination]
        number = self.catalogue.release(interest)
        there = at[number]
        there[destination].remove(interest)
        if not there[destination]:
            del there[destination]
            if not there:
                del at[number]
        return True

    def remove_all(self, interests: Iterable[Interest], destination: str) -> None:
        """T \\ {(F, D) | F among the interests}."""
        for interest in list(interests):
            self.remove(interest, destination)

    # -- where things go -----------------------------------------------------------------------------------

    def add_neighbour(self, neighbour: str, *, deaf: bool = False) -> None:
        """Add a neighbour, or stop forwarding filters to it."""
        self.neighbours[neighbour] = None
        if deaf:
            self.deaf.add(neighbour)
        self._others.clear()

    def remove_neighbour(self, neighbour: str) -> None:
        """Remove a neighbour; its entries stay until they are removed."""
        del self.neighbours[neighbour]
        self.deaf.discard(neighbour)
        self._others.clear()

    @property
    def hearers(self) -> list[str]:
        """The neighbours that filters are forwarded to."""
        if not self.deaf:
            return list(self.neighbours)
        return [neighbour for neighbour in self.neighbours if neighbour not in self.deaf]

    def hearers_but(self, source: str) -> Sequence[str]:
        """The neighbours that filters from a source are forwarded to."""
        others = self._others.get(source)
        if others is None:
            others = tuple(each for each in self.hearers if each != source)
            if source in self.neighbours:
                self._others[source] = others
        return others

    def destinations(self, notification: Notification) -> dict[str, None]:
        """F_B(n): the destinations with an entry that the notification matches, in the order of their names."""
        at = self._at
        found: set[str] = set()
        for number in at.keys() & self.catalogue.matching(notification):
            found.update(at[number])
        return dict.fromkeys(sorted(found))

    def matching(self, notification: Notification) -> list[Filter]:
        """The filters of the entries that the notification matches, with any destination."""
        return [*map(self.catalogue.filter, sorted(self._at.keys() & self.catalogue.matching(notification)))]

    def matched(self, notification: Notification) -> list[Entry]:
        """The entries that the notification matches, with their destinations."""
        return self._entries(self._at.keys() & self.catalogue.matching(notification))

    # -- lookups -------------------------------------------------------------------------------------

    def of(self, destination: str) -> KeysView[Interest]:
        """T|D."""
        return self._of.get(destination, _NONE).keys()

    def but(self, destination: str) -> Iterator[Interest]:
        """T\\D; an interest with several other destinations is repeated."""
        return (interest for other, of in self._of.items() if other != destination for interest in of)

    def destinations_with_entries(self) -> KeysView[str]:
        """The destinations that have an entry."""
        return self._of.keys()

    def _entries(self, numbers: Set[int]) -> list[Entry]:
        at = self._at
        return [
            (interest, destination)
            for number in sorted(numbers)
            for destination in sorted(at[number])
            for interest in at[number][destination]
        ]

    def _entries_at(self, destination: str, numbers: Set[int]) -> list[Interest]:
        at = self._at
        return [interest for number in sorted(numbers) for interest in at[number].get(destination, ())]

    def _identical(self, interest: Interest) -> Set[int]:
        return self.catalogue.identical(self.catalogue.number(interest), self._at.keys())

    def _covering(self, interest: Interest) -> Iterator[int]:
        return self.catalogue.each_covering(self.catalogue.number(interest), self._at.keys())

    def identical(self, interest: Interest, destination: str) -> list[Interest]:
        """C^I(F, D)."""
        return self._entries_at(destination, self._identical(interest))

    def covered(self, interest: Interest) -> list[Entry]:
        """C^L(F)."""
        return self._entries(self._covered(interest))

    def _covered(self, interest: Interest) -> Set[int]:
        return self.catalogue.covered_by(self.catalogue.number(interest), self._at.keys())

    def covered_at(self, interest: Interest, destination: str) -> list[Interest]:
        """C^L(F, D)."""
        of = self._of.get(destination, _NONE)
        if len(of) > FEW:
            return self._entries_at(destination, self._covered(interest))
        covers, number_of = self.catalogue.covers, self.catalogue.number
        number = number_of(interest) if of else 0
        found = [each for each in of if covers(number, number_of(each))]
        return sorted(found, key=number_of) if len(found) > 1 else found

    def properly_covered(self, interest: Interest) -> list[Entry]:
        """C^L(F) \\ C^I(F)."""
        return self._entries(self._covered(interest) - self._identical(interest))

    def holding(self, interest: Interest) -> set[str]:
        """The destinations with an entry for this very interest."""
        at = self._at.get(self.catalogue.number(interest), ())
        return {destination for destination in at if interest in self._of[destination]}

    def asking(self, interest: Interest) -> set[str]:
        """The destinations with an entry that is identical to F."""
        at = self._at
        return {destination for number in self._identical(interest) for destination in at[number]}

    def without_identical(self, interest: Interest) -> list[str]:
        """D^I(F)."""
        return self._served_from_at_most(self._identical(interest))

    def without_cover(self, interest: Interest) -> list[str]:
        """D^U(F)."""
        return self._served_from_at_most(self._covering(interest))

    def without_proper_cover(self, interest: Interest) -> list[str]:
        """D^PU(F)."""
        identical = self._identical(interest)
        return self._served_from_at_most(
            number for number in self._covering(interest) if number not in identical
        )

    def _served_from_at_most(self, numbers: Iterable[int]) -> list[str]:
        """The neighbours H such that no entry with one of these filters has a destination other than H."""
        serving: set[str] = set()
        at = self._at
        for number in numbers:
            serving.update(at[number])
            # The first entry of a client decides: it serves every neighbour.
            if len(serving) > 1 or serving.isdisjoint(self.neighbours):
                return []
        if not serving:
            return self.hearers
        return [each for each in serving if each in self.neighbours and each not in self.deaf]
