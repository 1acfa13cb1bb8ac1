"""No duplicates in cyclic overlays, with a history that stays bounded (book 4.6.6).

    a notification is handled when it comes for the first time, and never again
    its id is forgotten only when no copy of it is under way

A broker remembers the ids of what it has handled. When may it forget one? The book lets neighbours promise
each other a least time of what they will still send, each the minimum of what the others promised. Around a
cycle every promise waits for itself, so none would ever rise; and cycles are what histories are for. Here the
broker where a notification was published learns that it is done: whoever is sent it answers, at once if it is
a duplicate or ends there, else when all those answered to whom it was passed on (the termination of a
diffusing computation, after Dijkstra and Scholten). Then the broker tells all others up to which time its own
publications are done, and they forget them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.model.order import Identity

__all__ = ["History"]

STAMP_EVERY: Final = 32
"""So many publications of a broker end before it tells the others to forget them."""


@dataclass(slots=True)
class _Passage:
    """A notification on its way: whom it came from, and who has still to answer."""

    origin: str
    stamp: int
    sender: str | None
    waiting: set[str]


class History:
    """The notifications that a broker has handled and that may still arrive again."""

    def __init__(self, broker: str, stamp_every: int = STAMP_EVERY) -> None:
        self._broker = broker
        self._stamp_every = stamp_every
        self._seen: dict[str, dict[Identity, int]] = {}
        self._in_flight: dict[Identity, _Passage] = {}
        self._done: dict[str, int] = {}
        self._ended = 0
        self._last = 0
        self._over: list[Identity] = []

    def __len__(self) -> int:
        return sum(map(len, self._seen.values()))

    def stamp(self, now: int) -> int:
        """A time for a publication: now, or a moment after the last one."""
        self._last = max(now, self._last + 1)
        return self._last

    def is_new(self, identity: Identity, origin: str, stamp: int) -> bool:
        """Whether a notification has not been handled."""
        return stamp >= self._done.get(origin, 0) and identity not in self._seen.get(origin, ())

    def begin(
        self, identity: Identity, origin: str, stamp: int, sender: str | None, passed_to: Iterable[str]
    ) -> str | None:
        """Begin to handle a notification; returns the neighbour to answer, if an answer can be given at once."""
        self._seen.setdefault(origin, {})[identity] = stamp
        self._in_flight[identity] = _Passage(origin, stamp, sender, set(passed_to))
        return self._settle(identity)

    def answered(self, identity: Identity, neighbour: str) -> str | None:
        """A neighbour has answered; returns the neighbour to answer in turn, if all answers have arrived."""
        passage = self._in_flight.get(identity)
        if passage is None:
            return None
        passage.waiting.discard(neighbour)
        return self._settle(identity)

    def lost(self, neighbour: str) -> list[tuple[Identity, str]]:
        """A neighbour has disconnected and will not answer; returns the answers that are possible now, by
        notification."""
        due = []
        for identity in [key for key, passage in self._in_flight.items() if neighbour in passage.waiting]:
            sender = self.answered(identity, neighbour)
            if sender is not None:
                due.append((identity, sender))
        return due

    def _settle(self, identity: Identity) -> str | None:
        passage = self._in_flight[identity]
        if passage.waiting:
            return None
        del self._in_flight[identity]
        if passage.sender is None:
            self._ended += 1
            self._over.append(identity)
        return passage.sender

    def over(self) -> list[Identity]:
        """The publications of this broker that have left the network since the last call."""
        over, self._over = self._over, []
        return over

    def news(self) -> int | None:
        """The time up to which this broker's publications are done, once enough of them are."""
        if self._ended < self._stamp_every:
            return None
        self._ended = 0
        own = [each.stamp for each in self._in_flight.values() if each.sender is None]
        time = min(own, default=self._last + 1)
        return time if self.forget(self._broker, time) else None

    def forget(self, origin: str, time: int) -> bool:
        """Forget the publications of a broker before this time, which have left the network. True if that
        is new."""
        if time <= self._done.get(origin, 0):
            return False
        self._done[origin] = time
        left = {identity: stamp for identity, stamp in self._seen.pop(origin, {}).items() if stamp >= time}
        if left:
            self._seen[origin] = left
        return True
