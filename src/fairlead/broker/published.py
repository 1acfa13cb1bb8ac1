"""The identities of publications: what was acknowledged is known when its publisher sends it again.

How much it may send again, it decides itself: all that waited for an acknowledgement. So each producer's latest
publications are remembered, whatever others publish meanwhile; if that is too much in all, those give way first
who have many, and then those who have been silent for longest.

What was sent without asking for an answer is in no log, and does not make the same one known that asks for one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, Final

from fairlead.broker.delivered import Delivered
from fairlead.model import Notification
from fairlead.model.order import Identity, LatestIdentities, identity_of

__all__ = ["Published", "Sent"]

EACH: Final = 100_000
"""The number of identities of one producer that are remembered, at most;"""
FAIR: Final = 10_000
"""the number that is remembered whatever others do: a client has no more in flight;"""
TOTAL: Final = 500_000
"""and the number of all."""
SENT: Final = 100_000
"""The number of best-effort identities remembered, at least: nobody waits for an answer about them."""


class Sent:
    """The latest publications without an acknowledgement, each with an id. Acknowledged ones are known
    here, too."""

    __slots__ = ("_latest", "_published")

    def __init__(self, published: Published, remembered: int) -> None:
        self._published, self._latest = published, Delivered[tuple[str, str]](remembered)

    def take(self, notification: Notification, digest: str | None = None) -> Notification | None:
        """The notification, which is now remembered; None where it was seen before."""
        assert digest is None
        return notification if self.take_identity(identity_of(notification)) else None

    def take_identity(self, identity: tuple[str, str]) -> bool:
        """Whether producer and id were not seen before; now they were."""
        return identity not in self._published and self._latest.take(identity)

    def take_all(self, identities: Sequence[tuple[str, str]]) -> list[bool] | None:
        """Record several identities as seen; returns which of them are new. None if all of them are."""
        if self._published and any(map(self._published.__contains__, identities)):
            return [*map(self.take_identity, identities)]
        return self._latest.take_all(identities)

    def forget(self, identity: tuple[str, str]) -> None:
        """As if it had not been seen."""
        self._latest.forget(identity)

    def __contains__(self, identity: Any) -> bool:
        return identity in self._published or identity in self._latest


class Published(LatestIdentities):
    """The latest publications of each producer."""

    __slots__ = ("_batch", "_fair", "_ids", "_latest", "_producers", "_size", "_total", "sent")

    def __init__(self, each: int = EACH, fair: int = FAIR, total: int = TOTAL) -> None:
        super().__init__(each)
        self._fair, self._total, self._size = fair, total, 0
        self._producers: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()
        """Their ids, by producer, with the batch that each came in; who published last is last."""
        self._batch = 0
        self._latest: str | None = None
        self._ids: OrderedDict[str, int] = OrderedDict()
        """Of the producer that published last: it is likely to go on."""
        self.sent = Sent(self, SENT)

    def take_identity(self, identity: tuple[str, str]) -> bool:
        """Whether producer and id were not seen before; now they were."""
        producer, id = identity
        ids = self._of(producer)
        if id in ids:
            return False
        ids[id] = 0
        self._size += 1
        if len(ids) > self._remembered:
            ids.popitem(last=False)
            self._size -= 1
        elif self._size > self._total:
            self._make_room()
        return True

    def take_all(self, identities: Sequence[tuple[str, str]]) -> list[bool] | None:
        """Record several identities as seen; returns which of them are new. None if all of them are."""
        producers, ids = zip(*identities, strict=True)
        if len(set(ids)) < len(ids) or len(set(producers)) > 1 or len(ids) > self._fair:
            return [*map(self.take_identity, identities)]
        known = self._of(producers[0])
        self._batch, before = self._batch + 1, len(known)
        taken = [*map(known.setdefault, ids, repeat(self._batch))]
        self._size += len(known) - before
        for _ in range(len(known) - self._remembered):
            known.popitem(last=False)
            self._size -= 1
        if self._size > self._total:
            self._make_room()
        return None if taken.count(self._batch) == len(taken) else [each == self._batch for each in taken]

    def latest_of(self, producer: str) -> Iterator[str]:
        """The ids of a producer's publications, the latest one first."""
        return reversed(self._producers.get(producer, {}))

    def _of(self, producer: str) -> OrderedDict[str, int]:
        """The ids of a producer, which publishes now."""
        if producer != self._latest:
            self._latest, self._ids = producer, self._producers.setdefault(producer, OrderedDict())
            self._producers.move_to_end(producer)
        return self._ids

    def memory(self, number: int, id: str | None) -> LatestIdentities | Sent:
        """The memory in which a publication is looked up and remembered. One with a number is acknowledged."""
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
