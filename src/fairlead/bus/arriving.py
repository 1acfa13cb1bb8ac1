"""The arrival of one publication on an ordered bus. The bus's queue is the memory of identities that the seam
consults."""

from __future__ import annotations

from typing import Final

from fairlead.delivery import Arrival, OrderedQueue
from fairlead.model import Notification
from fairlead.model.order import Identity

__all__ = ["Arriving"]

REPEATED: Final = frozenset({Arrival.DUPLICATE, Arrival.CONFLICT})


class Arriving:
    """The queue of an ordered bus as the `IdentityMemory` of one publication.

    `arrival` is the queue's verdict. It stays None where the seam refuses the publication, and where the queue
    contains its identity already.
    """

    __slots__ = ("_queue", "arrival")

    def __init__(self, queue: OrderedQueue) -> None:
        self._queue = queue
        self.arrival: Arrival | None = None

    def __contains__(self, identity: Identity, /) -> bool:
        return identity in self._queue

    def take(self, notification: Notification, digest: str | None = None) -> Notification | None:
        """Add an admitted notification to the queue, which gives it its id; None where it is a duplicate."""
        self.arrival, identified = self._queue.take(notification)
        return None if self.arrival in REPEATED else identified
