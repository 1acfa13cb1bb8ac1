"""What a routing algorithm is: an instance of `administer` (book 4.2.4), and the `prune` that goes with it.

    administer(T, S, subscriptions, unsubscriptions)    changes T, returns what to tell which neighbour

It is called when a client S has subscribed or unsubscribed, or when an admin message has come from a neighbour
S. For its outcome to be a correct event system (book 4.4, Def. 4.3) it changes only T|S, in a way that depends
on T|S and the message alone; T|Y matches what client Y subscribes to, no more and no less; and what neighbour
H will forward to B, once the messages under way have arrived, includes all that is in T\\H.

All algorithms keep their whole state in the table, so one object serves any number of brokers.
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
    """The sets M_S and M_U: what each neighbour is to be told.

    Most often some neighbours are told of the same subscriptions, and that is all: then `alike` has them, and
    no sets are made. To look at the sets makes them.
    """

    alike: tuple[Sequence[str], tuple[Interest, ...]] | None = None
    stale: Sequence[Interest] = ()
    """What was not taken up, because it is known to have ended."""
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
            self.subscriptions  # noqa: B018  (they are not all there is to tell any more)
            self._unsubscriptions = {}
        return self._unsubscriptions

    def subscribe(self, interest: Interest, neighbours: Iterable[str]) -> None:
        """Tell these neighbours that the interest is there."""
        subscriptions = self.subscriptions
        for neighbour in neighbours:
            subscriptions.setdefault(neighbour, {})[interest] = None

    def unsubscribe(self, interest: Interest, neighbours: Iterable[str]) -> None:
        """Tell these neighbours that the interest has gone."""
        for neighbour in neighbours:
            self.unsubscriptions.setdefault(neighbour, {})[interest] = None

    def update(self, other: Outcome) -> None:
        """Tell what another outcome tells as well."""
        for neighbour, interests in other.subscriptions.items():
            self.subscriptions.setdefault(neighbour, {}).update(interests)
        for neighbour, interests in other.unsubscriptions.items():
            self.unsubscriptions.setdefault(neighbour, {}).update(interests)

    @property
    def neighbours(self) -> list[str]:
        """Who is told anything."""
        return list({**self.subscriptions, **self.unsubscriptions})


class Strategy(ABC):
    """A routing algorithm."""

    name: ClassVar[str]
    owned: ClassVar[bool] = False
    """Whether filters are told apart by their owner, rather than by what they match."""

    def initial(self) -> Sequence[Interest]:
        """What the table holds for a neighbour before anything was said."""
        return ()

    @abstractmethod
    def administer(
        self,
        table: RoutingTable,
        source: str,
        subscriptions: Sequence[Interest],
        unsubscriptions: Sequence[Interest],
    ) -> Outcome:
        """Take in subscriptions and unsubscriptions from a source, and say what to tell the neighbours."""

    @abstractmethod
    def prune(self, table: RoutingTable, interests: Iterable[Interest]) -> list[Interest]:
        """Of these interests, those that have to be told for all to be served (book 4.6.1)."""

    def breach(self, table: RoutingTable, neighbour: str) -> str | None:
        """What is wrong with T|H, by the invariants of the algorithm (book 4.5.6); None where nothing is."""
        return None
