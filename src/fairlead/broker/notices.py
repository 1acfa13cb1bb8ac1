"""Notices: what each broker of a redundant network tells all others of itself, its neighbours and its interests.

In a network with several ways, a filter that is passed on from neighbour to neighbour comes back, and entries keep
each other alive after their subscriber has gone. So brokers do not pass on what others asked for as their own.
Each broker has a notice, with a number that grows, and every broker has the latest notices of all. A notice is
replaced by its own broker only.

    edge          two brokers whose notices name each other; this broker's neighbours are known first-hand
    hops(B)       the neighbours from which B can be reached without coming back here
    required      the brokers that may be there: all that are named, from here on, by somebody who is named

A notification that B asks for is sent to all of `hops(B)`. The law: while there is a way of brokers and links that
all know of, and that work, a notification gets over it. For let X be the last broker on that way that has it:
the rest of the way does not come back to X, so the next broker is among its hops. That one drops it only if it
has something later of the same origin from a broker Y that did not send this: then B cannot be reached from there
but over Y, so Y is on the rest of the way, has the notification, and X was not the last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

__all__ = ["Notices"]


class Notices:
    """The notices that a broker has, but for the interests, which are in a routing table."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.number = 0
        """Of the broker's own notice."""
        self._of: dict[str, tuple[int, tuple[str, ...]]] = {}
        self._hops: dict[str, tuple[str, ...]] | None = None

    def begin(self, now: int) -> None:
        """Begin a new life: the number is greater than those before, as far as the clock goes forward."""
        self.number = max(self.number, now)

    def next(self) -> int:
        """The number of the broker's next notice."""
        self._hops = None
        self.number += 1
        return self.number

    def number_of(self, broker: str) -> int:
        """The number of the latest notice of a broker; 0 where there is none."""
        return self._of[broker][0] if broker in self._of else 0

    def of(self, broker: str) -> tuple[str, ...]:
        """The neighbours of another broker."""
        return self._of[broker][1] if broker in self._of else ()

    def take(self, broker: str, number: int, neighbours: Iterable[str]) -> None:
        """Take another broker's notice in."""
        known = self._of.get(broker)
        self._of[broker] = (number, tuple(neighbours))
        if known is None or known[1] != self._of[broker][1]:
            self._hops = None

    @property
    def brokers(self) -> list[str]:
        """The brokers whose notices are known."""
        return list(self._of)

    def hops(self, links: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """By broker, the neighbours that lead there; `links` are this broker's neighbours."""
        if self._hops is None:
            self._hops = self._computed(links)
        return self._hops

    def changed(self) -> None:
        """This broker has other neighbours than before."""
        self._hops = None

    def _computed(self, links: Collection[str]) -> dict[str, tuple[str, ...]]:
        leading: dict[str, list[str]] = {}
        pieces: dict[str, list[str]] = {}
        for neighbour in sorted(links):
            if neighbour not in pieces:
                piece = self._piece(neighbour)
                pieces |= dict.fromkeys(piece, piece)
            for broker in pieces[neighbour]:
                leading.setdefault(broker, []).append(neighbour)
        return {broker: tuple(neighbours) for broker, neighbours in leading.items()}

    def _piece(self, start: str) -> list[str]:
        """The brokers that can be reached from one without coming here."""
        found = {start: None}
        for broker in (waiting := [start]):
            for other in self.of(broker):
                if other != self._name and other not in found and broker in self.of(other):
                    found[other] = None
                    waiting.append(other)
        return waiting

    def required(self, links: Collection[str]) -> set[str]:
        """All brokers that may be there, without this one."""
        found = dict.fromkeys(links)
        for broker in (waiting := list(found)):
            for other in self.of(broker):
                if other != self._name and other not in found:
                    found[other] = None
                    waiting.append(other)
        return set(waiting)
