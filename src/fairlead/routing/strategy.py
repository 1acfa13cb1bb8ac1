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
from dataclasses import dataclass, field
from typing import ClassVar

from fairlead.routing.interest import Interest
from fairlead.routing.table import RoutingTable

__all__ = ["Outcome", "Strategy"]


@dataclass(slots=True)
class Outcome:
    """The sets M_S and M_U: what each neighbour is to be told."""

    subscriptions: dict[str, dict[Interest, None]] = field(default_factory=dict)
    unsubscriptions: dict[str, dict[Interest, None]] = field(default_factory=dict)
    stale: list[Interest] = field(default_factory=list)
    """What was not taken up, because it is known to have ended."""

    def subscribe(self, interest: Interest, neighbours: Iterable[str]) -> None:
        """Tell these neighbours that the interest is there."""
        for neighbour in neighbours:
            self.subscriptions.setdefault(neighbour, {})[interest] = None

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
