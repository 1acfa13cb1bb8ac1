"""Ordered delivery: buffer until the watermark passes, then release in the total order.

Law: two queues that get the same notifications, in any order of arrival and released at any moments, release
the same sequence, provided that the disorder stays within the allowed lateness (see `fairlead.model.order`).
Later notifications go to the late channel.

An identity is released once, for as long as it is remembered. Of its copies that are held at the same time the
earliest is released, and of those with one time the one with the smallest canonical content. Without disorder
beyond the lateness, the earliest copy is held before the watermark passes it, so arrival does not decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from fairlead.delivery.watermark import Watermark
from fairlead.errors import ValueRefused
from fairlead.model import Notification
from fairlead.model.order import (
    END,
    REMEMBER_US,
    REMEMBERED,
    Identities,
    Identity,
    Ordering,
    OrderKey,
    copy_rank,
    event_time,
    identity_of,
)

__all__ = ["Arrival", "Late", "OrderedQueue"]


class Arrival(Enum):
    """The outcome of a notification's arrival."""

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

    __slots__ = ("_counts", "_identities", "_late", "_late_now", "_ordering", "_watermark")

    def __init__(
        self,
        lateness_us: int = 0,
        sources: Iterable[str] = (),
        *,
        remember_us: int | None = None,
        remembered: int = REMEMBERED,
    ) -> None:
        """Identities are remembered for `remember_us` of order time, by default an hour, at least the lateness."""
        self._watermark = Watermark(lateness_us, sources)
        self._ordering = Ordering()
        self._identities = Identities(
            max(lateness_us, REMEMBER_US) if remember_us is None else remember_us, remembered
        )
        self._late: list[Late] = []
        self._late_now: dict[Identity, Notification] = {}  # since the last release
        self._counts: Counter[Arrival] = Counter()

    @property
    def watermark(self) -> int:
        """Up to where all is released."""
        return self._ordering.bound

    @property
    def counts(self) -> dict[str, int]:
        """The number of arrivals that were buffered, late, duplicates, and in conflict with another copy."""
        return {arrival.value: self._counts[arrival] for arrival in Arrival}

    def __len__(self) -> int:
        """The number of buffered notifications."""
        return len(self._ordering)

    def add(self, notification: Notification, source: str = "") -> Arrival:
        """Take a notification in; it gets an id where it has none."""
        return self.take(notification, source)[0]

    def take(self, notification: Notification, source: str = "") -> tuple[Arrival, Notification]:
        """Add a notification; returns its outcome, and the notification with its id."""
        self._watermark.observe(event_time(notification), source)
        identified = self._identities.identified(notification)
        identity = identity_of(identified)
        arrival = Arrival.HELD
        if identity in self:
            arrival, replaces = self._compared(identified)
            if replaces:
                self._ordering.exchange(identified)
        elif not self._ordering.add(identified):
            self._late.append(Late(identified, self.watermark))
            self._late_now[identity] = identified
            self._identities.settle(identified, self.watermark)
            arrival = Arrival.LATE
        self._counts[arrival] += 1
        return arrival, identified

    def __contains__(self, identity: Identity) -> bool:
        """Whether a notification of this identity is buffered, or was released or late and is remembered."""
        return identity in self._ordering or identity in self._identities

    def compare(self, copy: Notification) -> Arrival:
        """DUPLICATE or CONFLICT: a copy of a notification that the queue contains. The queue does not change."""
        return self._compared(copy)[0]

    def _compared(self, copy: Notification) -> tuple[Arrival, bool]:
        """Compare a copy with the one that is here, and tell whether it is to be released instead.

        Of copies that are buffered at the same time the first by time and canonical content is released.
        """
        identity = identity_of(copy)
        held = self._ordering.copy_of(identity)
        known = self._late_now.get(identity) if held is None else held
        if known is None:
            return Arrival.DUPLICATE, False
        try:
            rank, new = copy_rank(known), copy_rank(copy)
        except ValueRefused:  # a Python object has no content to compare by
            return Arrival.DUPLICATE, False
        arrival = Arrival.DUPLICATE if new[1] == rank[1] else Arrival.CONFLICT
        return arrival, held is not None and new < rank

    def release(self) -> list[tuple[OrderKey, Notification]]:
        """The notifications that the watermark has passed, in the total order."""
        ended = self._watermark.value == END
        released = self._ordering.close() if ended else self._ordering.advance(self._watermark.value)
        for key, notification in released:
            self._identities.settle(notification, key.time)
        self._identities.forget(self.watermark)
        self._late_now.clear()
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
