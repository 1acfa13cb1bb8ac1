"""All that is pending is handed over, in its order, by one thread at a time, and without the bus's lock.

The first thread to come does it, until nothing is left; no thread waits for it, unless it asks to (`wait`). So
callbacks may use the bus, and what one raises stops nobody.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from fairlead.bus.receivers import Delivery, Receiver

if TYPE_CHECKING:
    from fairlead.audit.recorder import Recorder
    from fairlead.model import Notification

__all__ = ["ErrorHook", "HandingOver", "Handover"]

log: Final = logging.getLogger(__name__)

ErrorHook: TypeAlias = Callable[[Delivery, Exception], object]


@dataclass(frozen=True, slots=True)
class Handover:
    """A delivery in flight to the receiver that the subscriber had when the notification was published."""

    receiver: Receiver
    delivery: Delivery
    is_public: bool
    """Whether the notification was published: an answer may be for those only who asked."""


class HandingOver:
    """The one list of what is to be handed over. `counts` are the bus's, `lock` keeps both."""

    __slots__ = ("_by", "_counts", "_idle", "_lock", "_on_error", "_trace", "delivering", "hidden", "pending")

    def __init__(
        self,
        lock: threading.RLock,
        counts: dict[str, int],
        *,
        trace: Recorder | None,
        on_error: ErrorHook | None,
    ) -> None:
        self._lock, self._counts = lock, counts
        self._trace, self._on_error = trace, on_error
        self._idle = threading.Condition(lock)
        self._by: int | None = None
        self.pending: Final[deque[Handover | Callable[[], None]]] = deque()
        """Deliveries, and what is to be done when all before it is handed over."""
        self.hidden: Callable[[str], frozenset[str]] = lambda subscriber: frozenset()
        """The attributes that a subscriber does not get to see."""

        self.delivering: Callable[[Notification, str], Notification | None] | None = None
        """Has hooks look at what a subscriber gets; None: it does not get it."""

    def wait(self, timeout: float | None) -> bool:
        """Wait until all is handed over; False where that was not so in time, and at once within a callback."""
        with self._lock:
            if self.is_by_this_thread:
                return False
            done = self._idle.wait_for(lambda: self._by is None, timeout)
        if done:
            self.run()  # what an interrupted callback has left behind
        return done

    @property
    def is_by_this_thread(self) -> bool:
        """Whether the calling thread is handing over: it is within a callback."""
        with self._lock:
            return self._by == threading.get_ident()

    def run(self) -> None:
        """Hand over what is pending, unless a thread is at it already: it stays until all is done."""
        with self._lock:
            if self._by is not None:
                return
            self._by = threading.get_ident()
        try:
            while self._next():
                pass
        except BaseException:  # a callback was interrupted: what is left goes out with the next call
            self._rest()
            raise

    def _next(self) -> bool:
        with self._lock:
            if not self.pending:
                self._rest()  # under the same lock, or a publication could slip in between and be left lying
                return False
            handover = self.pending.popleft()
        if isinstance(handover, Handover):
            self._notify(handover)
        else:
            handover()
        return True

    def _rest(self) -> None:
        with self._lock:
            self._by = None
            self._idle.notify_all()

    def read(self, handover: Handover) -> None:
        """Hand over a delivery that was read from the log of the bus."""
        self._notify(handover, is_read=True)

    @property
    def is_idle(self) -> bool:
        """Whether all that was published is handed over."""
        with self._lock:
            return self._by is None and not self.pending

    def _notify(self, handover: Handover, *, is_read: bool = False) -> None:
        outcomes: tuple[str, ...]
        delivery = handover.delivery
        if hidden := self.hidden(delivery.subscriber):
            delivery = replace(delivery, notification=delivery.notification.without(hidden))
        if self.delivering is not None:
            shown = self.delivering(delivery.notification, delivery.subscriber)
            if shown is None:
                with self._lock:
                    self._counts["withheld"] += 1
                return
            delivery = replace(delivery, notification=shown)
        try:
            trace = self._trace if handover.is_public else None
            receive = handover.receiver.read if is_read else handover.receiver.receive
            outcomes = receive(delivery, trace)
        except Exception as error:  # one subscriber's failure is not the others'
            outcomes = ("delivered",)
            self.failed(handover.receiver, delivery, error)
        with self._lock:
            for outcome in outcomes:
                self._counts[outcome] += 1

    def failed(self, receiver: Receiver, delivery: Delivery, error: Exception) -> None:
        """Count an error of a callback or a filter, and report it to the error handlers."""
        receiver.failed(error)
        with self._lock:
            self._counts["errors"] += 1
        try:
            if self._on_error is not None:
                self._on_error(delivery, error)
                return
        except Exception:
            log.exception("the on_error hook failed")
        log.error("subscriber %r failed on a notification", delivery.subscriber, exc_info=error)
