"""The identities of publications: what was acknowledged is known when its publisher sends it again.

How much it may send again, it decides itself: all that waited for an acknowledgement. So each producer's latest
publications are remembered, whatever others publish meanwhile; if that is too much in all, those give way first
who have many, and then those who have been silent for longest.

What was sent without asking for an answer is in no log, and does not make the same one known that asks for one.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from fairlead.model.order import Identity, LatestIdentities

__all__ = ["Published", "Sent"]

EACH: Final = 100_000
"""How many of one producer are remembered, at most;"""
FAIR: Final = 10_000
"""how many, whatever others do: a client has no more under way;"""
TOTAL: Final = 500_000
"""and of all."""
SENT: Final = 100_000
"""How many of those are remembered that nobody asked an answer for."""


class Sent(LatestIdentities):
    """What was sent without asking for an answer. What was acknowledged is known here, too."""

    __slots__ = ("_published",)

    def __init__(self, published: Published, remembered: int) -> None:
        super().__init__(remembered)
        self._published = published

    def take_identity(self, identity: tuple[str, str]) -> bool:
        # As the base does it, without calling it: this is asked of every notification that is sent.
        seen = self._seen
        if identity in seen or (self._published._size and identity in self._published):
            return False
        seen[identity] = None
        if len(seen) > self._remembered:
            seen.popitem(last=False)
        return True

    def __contains__(self, identity: Any) -> bool:
        return identity in self._published or super().__contains__(identity)


class Published(LatestIdentities):
    """The latest publications of each producer."""

    __slots__ = ("_fair", "_ids", "_latest", "_producers", "_size", "_total", "sent")

    def __init__(self, each: int = EACH, fair: int = FAIR, total: int = TOTAL) -> None:
        super().__init__(each)
        self._fair, self._total, self._size = fair, total, 0
        self._producers: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()
        """Their ids, by producer; who published last is last."""
        self._latest: str | None = None
        self._ids: OrderedDict[str, None] = OrderedDict()
        """Of the producer that published last: it is likely to go on."""
        self.sent = Sent(self, SENT)

    def take_identity(self, identity: tuple[str, str]) -> bool:
        """Whether producer and id were not seen before; now they were."""
        producer, id = identity
        if producer != self._latest:
            self._latest, self._ids = producer, self._producers.setdefault(producer, OrderedDict())
            self._producers.move_to_end(producer)
        ids = self._ids
        if id in ids:
            return False
        ids[id] = None
        self._size += 1
        if len(ids) > self._remembered:
            ids.popitem(last=False)
            self._size -= 1
        elif self._size > self._total:
            self._make_room()
        return True

    def memory(self, number: int, id: str | None) -> LatestIdentities:
        """Where a publication is looked up and remembered: with a number, it asks for an answer."""
        return self if number or id is None else self.sent

    def forget(self, identity: tuple[str, str]) -> None:
        """As if it had not been seen."""
        ids = self._producers.get(identity[0])
        if ids is not None and identity[1] in ids:
            del ids[identity[1]]
            self._size -= 1

    def __contains__(self, identity: Identity | tuple[str, str]) -> bool:
        return identity[1] in self._producers.get(identity[0], ())

    def __len__(self) -> int:
        return self._size

    def _make_room(self) -> None:
        """Enough for a while: that all producers are looked through must be worth it."""
        enough = self._total - self._total // 10
        for ids in self._producers.values():
            excess = min(len(ids) - self._fair, self._size - enough)
            for _ in range(excess):
                ids.popitem(last=False)
            self._size -= max(0, excess)
        while self._size > enough:
            _, ids = self._producers.popitem(last=False)
            self._size -= len(ids)
        for producer in [each for each, ids in self._producers.items() if not ids]:
            del self._producers[producer]
        self._latest = None
