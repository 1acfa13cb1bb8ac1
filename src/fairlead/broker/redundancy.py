"""Redundant networks: several ways between two brokers, all of which notifications take.

Each broker declares the interests of its own clients to all others (`notices`), as the strategy would to one
neighbour: covered by one another, or merged. So all brokers have, for each other one, the entries that a neighbour
would have. What matches an entry of a broker is sent to all neighbours that lead there.

A notification that comes by a second way is a copy: on every way the positions of one origin rise, so it is one
whose position is not beyond the last that arrived of its origin. What is in no log has a stamp instead, which
rises in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from fairlead.broker.messages import Forward, Notice
from fairlead.broker.notices import Notices
from fairlead.errors import ProtocolError
from fairlead.model import Notification
from fairlead.routing import Catalogue, Interest, Outcome, RoutingTable, Strategy

__all__ = ["ALL", "Redundancy"]

ALL: Final = "\0all"
"""All other brokers, as the one neighbour that hears of the interests of this broker's clients."""


class Redundancy:
    """The knowledge that a broker of a redundant network has of all others."""

    def __init__(self, name: str, strategy: Strategy, catalogue: Catalogue) -> None:
        self._name, self._strategy, self._catalogue = name, strategy, catalogue
        self._sees_all = bool(strategy.initial())
        self.notices = Notices(name)
        self.others = RoutingTable(catalogue)
        """The interests of all brokers as they have told them, those of this one too."""
        self._know(name)
        self._last: dict[tuple[str, bool], int] = {}
        """By origin, the last position that has arrived, and the last stamp of what is in no log."""

    def _know(self, broker: str) -> None:
        if broker not in self.others.neighbours:
            self.others.add_neighbour(broker, deaf=True)

    # -- what is told ------------------------------------------------------------------------------------

    def declare(self, outcome: Outcome, links: Iterable[str]) -> Notice | None:
        """The interests of this broker's clients have changed: what all others are told, if anything."""
        added = tuple(outcome.subscriptions.get(ALL, ()))
        removed = tuple(outcome.unsubscriptions.get(ALL, ()))
        if not added and not removed:
            return None
        self._strategy.administer(self.others, self._name, added, removed)
        return Notice(self._name, self._name, self.notices.next(), tuple(links), added, removed)

    def linked(self, links: Iterable[str]) -> Notice:
        """This broker has other neighbours."""
        return Notice(self._name, self._name, self.notices.next(), tuple(links))

    def whole(self, links: Iterable[str]) -> list[Notice]:
        """All that this broker knows: its own notice, and those of others."""
        own = self._whole(self._name, self.notices.number, tuple(links))
        notices = self.notices
        return [
            own,
            *(self._whole(each, notices.number_of(each), notices.of(each)) for each in notices.brokers),
        ]

    def _whole(self, broker: str, number: int, neighbours: tuple[str, ...]) -> Notice:
        return Notice(self._name, broker, number, neighbours, tuple(self.others.of(broker)), (), True)

    # -- what is heard -----------------------------------------------------------------------------------

    def hear(self, notice: Notice, links: Iterable[str]) -> Notice | None:
        """Take a notice; what the other neighbours are told, if it is new. ProtocolError: one is missing."""
        broker, number = notice.broker, notice.number
        if broker == self._name:
            return self._defend(notice, tuple(links))
        known = self.notices.number_of(broker)
        if number <= known:
            return None
        self._know(broker)
        if notice.whole:
            self._replace(broker, notice.added)
        elif number == known + 1:
            self._strategy.administer(self.others, broker, notice.added, notice.removed)
        else:
            raise ProtocolError(f"the notice {number} of {broker!r} does not follow {known}")
        self.notices.take(broker, number, notice.neighbours)
        return Notice(
            self._name, broker, number, notice.neighbours, notice.added, notice.removed, notice.whole
        )

    def _replace(self, broker: str, interests: Sequence[Interest]) -> None:
        self.others.remove_all(self.others.of(broker), broker)
        for interest in interests:
            self.others.add(interest, broker)

    def _defend(self, notice: Notice, links: tuple[str, ...]) -> Notice | None:
        """Of an earlier life others know a notice with a greater number: the next one is greater."""
        notices, own = self.notices, {*self.others.of(self._name)}
        has_changed = own != {*notice.added} or set(links) != {*notice.neighbours}
        is_same = notice.number == notices.number and not (notice.whole and has_changed)
        if notice.number < notices.number or is_same:
            return None
        notices.number = notice.number
        return self._whole(self._name, notices.next(), links)

    # -- where notifications go --------------------------------------------------------------------------

    def leading(self, notification: Notification, links: Collection[str]) -> tuple[str, ...]:
        """The neighbours that lead to a broker that asks for a notification."""
        hops = self.notices.hops(links)
        asking: Iterable[str] = hops if self._sees_all else self.others.destinations(notification)
        return tuple(sorted({neighbour for broker in asking for neighbour in hops.get(broker, ())}))

    def is_copy(self, came: Forward) -> bool:
        """Whether a notification has come by another way already; now it has."""
        key, number = (came.origin, came.position > 0), came.position or came.stamp
        if came.origin == self._name or number <= self._last.get(key, 0):
            return True
        self._last[key] = number
        return False
