"""Live delivery: at once, in each producer's own order, and no producer starves the others.

Notifications of one producer leave in the order of their sequence numbers, those without one in the order of
arrival. Queued notifications are sorted. One that arrives after a larger number has left is overtaken: delivering
it would violate the producer's order, so it is counted and not queued.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["ProducerQueues"]

Item = TypeVar("Item")


@dataclass(slots=True)
class _Queue(Generic[Item]):
    """The queue of one producer: pairs (sequence number, item)."""

    numbered: list[tuple[int, int, Item]] = field(default_factory=list)
    plain: deque[tuple[int, Item]] = field(default_factory=deque)

    def __bool__(self) -> bool:
        return bool(self.numbered or self.plain)


class ProducerQueues(Generic[Item]):
    """One subscriber's queue, with a queue for each producer within; they take turns."""

    __slots__ = ("_arrivals", "_last", "_overtaken", "_waiting")

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, _Queue[Item]] = OrderedDict()
        self._last: dict[str, int] = {}
        self._arrivals = 0
        self._overtaken = 0

    @property
    def overtaken(self) -> int:
        """The number of notifications that arrived too late for their producer's order."""
        return self._overtaken

    def put(self, item: Item, producer: str, sequence: int | None = None) -> bool:
        """Queue an item of a producer; False where it is overtaken."""
        if sequence is not None and sequence < self._last.get(producer, sequence):
            self._overtaken += 1
            return False
        queue = self._waiting.setdefault(producer, _Queue())
        self._arrivals += 1
        if sequence is None:
            queue.plain.append((self._arrivals, item))
        else:
            # The arrival number orders equal sequence numbers, so that items are never compared.
            insort(queue.numbered, (sequence, self._arrivals, item))
        return True

    def take(self) -> Item | None:
        """The next item: the first of the producer whose turn it is; None where the queue is empty."""
        if not self._waiting:
            return None
        producer, queue = self._waiting.popitem(last=False)
        item = self._first(producer, queue)
        if queue:
            self._waiting[producer] = queue
        return item

    def _first(self, producer: str, queue: _Queue[Item]) -> Item:
        """Items with and without a number form two orders; of their heads, the earlier arrival is first."""
        if queue.plain and not (queue.numbered and queue.numbered[0][1] < queue.plain[0][0]):
            return queue.plain.popleft()[1]
        sequence, _, item = queue.numbered.pop(0)
        self._last[producer] = sequence
        return item

    def __len__(self) -> int:
        return sum(len(queue.numbered) + len(queue.plain) for queue in self._waiting.values())
