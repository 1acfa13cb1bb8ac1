"""Notifications of a bus expire by its clock: from that instant on nobody is handed one for the first time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fairlead.bus.receivers import Delivery
from fairlead.rules import Seam

__all__ = ["Expiring"]


class Expiring:
    """The deliveries that have expired, of one bus. `now` is its clock, in microseconds.

    It has a lock of its own, since receivers ask while they hold theirs, which goes behind that of the bus.
    """

    def __init__(self, seam: Seam, now: Callable[[], int]) -> None:
        self._seam, self._now = seam, now
        self._lock = threading.Lock()
        self.count = 0
        """The number of deliveries that have expired."""

    def has_expired(self, delivery: Delivery) -> bool:
        """Whether a delivery has expired that nobody has been handed yet; it is then counted."""
        until = self._seam.expires(delivery.notification)
        if until is None or until > self._now():
            return False
        with self._lock:
            self.count += 1
        return True
