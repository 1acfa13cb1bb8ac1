"""Ordered delivery: buffer until the watermark passes, then release in the total order.

Law: two queues that get the same notifications, in any order of arrival and released at any moments, release
the same sequence, provided that the disorder stays within the allowed lateness (see `fairlead.model.order`).
Of copies of one notification with different content, the smallest is released, whichever came first.
Later notifications go to the late channel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from fairlead.delivery.watermark import Watermark
from fairlead.errors import ValueRefused
from fairlead.model import Notification
from fairlead.model.encoding import canonical_content
from fairlead.model.order import END, Identities, Ordering, OrderKey, event_time, identity_of

__all__ = ["Arrival", "Late", "OrderedQueue"]


class Arrival(Enum):
    """What became of a notification on arrival."""

    HELD = "held"
    LATE = "late"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    """A duplicate with other content than the copy that was there."""


@dataclass(frozen=True, slots=True)
class Late:
    """A notification that arrived below the watermark, and the watermark at that time."""

    notification: Notification
    watermark: int


class OrderedQueue:
    """Buffers notifications until the watermark passes them.

    The last release decides whether an arrival is late, not the arrivals since: within one batch, no
    notification makes another late.
    """

    __slots__ = ("_counts", "_identities", "_late", "_ordering", "_watermark")

    def __init__(self, lateness_us: int = 0, sources: Iterable[str] = ()) -> None:
        self._watermark = Watermark(lateness_us, sources)
        self._ordering = Ordering()
        self._identities = Identities()
        self._late: list[Late] = []
        self._counts: Counter[Arrival] = Counter()

    @property
    def watermark(self) -> int:
        """Up to where all is released."""
        return self._ordering.bound

    @property
    def counts(self) -> dict[str, int]:
        """How many arrivals were buffered, late, duplicates and in conflict with another copy."""
        return {arrival.value: self._counts[arrival] for arrival in Arrival}

    def __len__(self) -> int:
        """How many are buffered."""
        return len(self._ordering)

    def add(self, notification: Notification, source: str = "") -> Arrival:
        """Take a notification in; it gets an id where it has none."""
        return self.take(notification, source)[0]

    def take(self, notification: Notification, source: str = "") -> tuple[Arrival, Notification]:
        """Add a notification; returns its outcome, and the notification with its id."""
        self._watermark.observe(event_time(notification), source)
        identified = self._identities.take(notification)
        arrival = Arrival.HELD
        if identified is None or identity_of(identified) in self._ordering:
            arrival = self._repeated(notification if identified is None else identified)
        elif not self._ordering.add(identified):
            self._late.append(Late(identified, self.watermark))
            arrival = Arrival.LATE
        self._counts[arrival] += 1
        return arrival, identified or notification

    def _repeated(self, copy: Notification) -> Arrival:
        """Of copies that are buffered at the same time the one with the smallest canonical content is released.

        So arrival does not decide, and the copies need not come in any order.
        """
        held = self._ordering.copy_of(identity_of(copy))
        if held is None:
            return Arrival.DUPLICATE
        try:
            contents = canonical_content(held), canonical_content(copy)
        except ValueRefused:  # a Python object has no content to compare by
            return Arrival.DUPLICATE
        if contents[1] < contents[0]:
            self._ordering.exchange(copy)
        return Arrival.DUPLICATE if contents[0][0] == contents[1][0] else Arrival.CONFLICT

    def release(self) -> list[tuple[OrderKey, Notification]]:
        """What the watermark has passed, in the total order."""
        if self._watermark.value == END:
            return self._ordering.close()
        released = self._ordering.advance(self._watermark.value)
        self._identities.forget(self.watermark)
        return released

    def punctuate(self, time: int) -> None:
        """Declare that no earlier event will arrive: the next release does not wait for one."""
        self._watermark.reach(time)

    def close(self, source: str | None = None) -> None:
        """Declare that a source, or every source, has ended: the next release does not wait for it."""
        if source is None:
            self._watermark.end()
        else:
            self._watermark.close(source)

    def take_late(self) -> list[Late]:
        """The late notifications since the last call, in the order of arrival."""
        late, self._late = self._late, []
        return late
