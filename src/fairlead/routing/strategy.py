"""The interface of a routing algorithm: `administer` (book 4.2.4) and `prune`.

    administer(T, S, subscriptions, unsubscriptions)    changes T, returns the messages to neighbours

The broker calls it when a client S has subscribed or unsubscribed, or for an admin message from a neighbour S. For
a correct event system (book 4.4, Def. 4.3) it changes only T|S, as a function of T|S and the message alone; T|Y
matches exactly the subscriptions of client Y; and what neighbour H will forward to B, once the messages in flight
have arrived, includes all of T\\H.

The whole state of an algorithm is in the table, so one object serves any number of brokers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from msgspec import Struct

from fairlead.routing.interest import Interest
from fairlead.routing.table import RoutingTable

__all__ = ["Outcome", "Strategy"]


class Outcome(Struct, gc=False):
    """The sets M_S and M_U: the changes to send to each neighbour.

    Most often several neighbours get the same subscriptions and nothing else: then `alike` has them, and the
    sets are not built. Reading the sets builds them.
    """

    alike: tuple[Sequence[str], tuple[Interest, ...]] | None = None
    stale: Sequence[Interest] = ()
    """Interests that were not taken up, because they are known to have ended."""
    _subscriptions: dict[str, dict[Interest, None]] | None = None
    _unsubscriptions: dict[str, dict[Interest, None]] | None = None

    @property
    def subscriptions(self) -> dict[str, dict[Interest, None]]:
        """M_S, by neighbour."""
        if self._subscriptions is None:
            neighbours, interests = self.alike or ((), ())
            self.alike = None
            self._subscriptions = {
                neighbour: dict.fromkeys(interests) for neighbour in neighbours if interests
            }
        return self._subscriptions

    @property
    def unsubscriptions(self) -> dict[str, dict[Interest, None]]:
        """M_U, by neighbour."""
        if self._unsubscriptions is None:
            self.subscriptions  # noqa: B018  (builds the sets: `alike` does not cover this)
            self._unsubscriptions = {}
        return self._unsubscriptions

    def subscribe(self, interest: Interest, neighbours: Iterable[str]) -> None:
        """Tell these neighbours that the interest is there."""
        subscriptions = self.subscriptions
        for neighbour in neighbours:
            subscriptions.setdefault(neighbour, {})[interest] = None

    def unsubscribe(self, interest: Interest, neighbours: Iterable[str]) -> None:
        """Send these neighbours the removal of an interest."""
        for neighbour in neighbours:
            self.unsubscriptions.setdefault(neighbour, {})[interest] = None

    def update(self, other: Outcome) -> None:
        """Add the changes of another outcome."""
        for neighbour, interests in other.subscriptions.items():
            self.subscriptions.setdefault(neighbour, {}).update(interests)
        for neighbour, interests in other.unsubscriptions.items():
            self.unsubscriptions.setdefault(neighbour, {}).update(interests)

    @property
    def neighbours(self) -> list[str]:
        """The neighbours with any change."""
        return list({**self.subscriptions, **self.unsubscriptions})


class Strategy(ABC):
    """A routing algorithm."""

    name: ClassVar[str]
    owned: ClassVar[bool] = False
    """Whether filters are distinguished by their owner, rather than by their extension."""
    relates: ClassVar[bool] = True
    """Whether filters are compared with one another."""

    def initial(self) -> Sequence[Interest]:
        """The entries of a new neighbour."""
        return ()

    @abstractmethod
    def administer(
        self,
        table: RoutingTable,
        source: str,
        subscriptions: Sequence[Interest],
        unsubscriptions: Sequence[Interest],
    ) -> Outcome:
        """Apply subscriptions and unsubscriptions from a source; returns the changes for the neighbours."""

    @abstractmethod
    def prune(self, table: RoutingTable, interests: Iterable[Interest]) -> list[Interest]:
        """Of these interests, those that must be sent for all to be served (book 4.6.1)."""

    def breach(self, table: RoutingTable, neighbour: str) -> str | None:
        """The violation of the invariants of the algorithm by T|H (book 4.5.6); None if there is none."""
        return None
