"""The receiver of a durable subscriber: its ordinals are offsets in the log of the bus.

At most `HELD` deliveries are in memory. What follows is in the log, and is read when there is room: then the
receiver is behind, until it has read all that was published. So a subscriber that comes back to a long log, or one
that is slow, takes no more memory than any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fairlead.bus.accepting import Accepting, Attempt, Bury
from fairlead.bus.history import History
from fairlead.bus.receivers import Callback, Delivery
from fairlead.delivery.assigning import Terms

if TYPE_CHECKING:
    from fairlead.audit.recorder import Recorder

__all__ = ["HELD_MAX", "Durable"]

HELD_MAX: Final = 4096
"""The number of deliveries of a durable subscriber that are in memory at most."""


class Durable(Accepting):
    """The receiver of a durable subscriber, from `offset` on. `read_on` is called for it to be read from the log.

    What is at `live_from` or behind it was published while the subscriber was there.
    """

    __slots__ = (
        *("_history", "_is_behind", "_is_closed", "_read_on"),
        *("held_max", "live_from", "name", "offset"),
    )

    def __init__(
        self,
        callback: Callback | None,
        terms: Terms,
        clock: Callable[[], int] | None,
        bury: Bury,
        *,
        name: str,
        history: History,
        read_on: Callable[[Durable], None],
    ) -> None:
        super().__init__(callback, terms, clock, bury)
        self.name = name
        self.offset = history.cursor(name)
        """The offset of the next record to be looked at."""
        self.live_from = history.end
        self.held_max = HELD_MAX
        self._history, self._read_on = history, read_on
        self._is_behind = self.offset < self.live_from
        self._is_closed = False
        self._assignments.counts.update(history.durables[name].counts)

    @property
    def is_behind(self) -> bool:
        """Whether what follows is to be read from the log."""
        return self._is_behind

    @property
    def durable(self) -> str:
        return self.name

    @property
    def is_called(self) -> bool:
        """Whether it has a callback, and no queue."""
        return self._callback is not None

    @property
    def room(self) -> int:
        """The number of deliveries more that may be in memory."""
        return max(0, self.held_max - len(self._deliveries))

    def receive(self, delivery: Delivery, trace: Recorder | None = None) -> tuple[str, ...]:
        assert delivery.offset is not None, "a bus with a log has given it an offset"
        with self._changed:
            if delivery.offset < self.offset:  # it was read from the log
                return ()
            if self._is_behind or (self._callback is None and not self.room):
                self._is_behind = True
                self._changed.notify_all()
                return ()
        return self._take(delivery, trace)

    def read(self, delivery: Delivery, trace: Recorder | None = None) -> tuple[str, ...]:
        """Take a delivery from the log."""
        assert delivery.offset is not None, "it is from the log"
        if self._history.is_settled(self.name, delivery.offset):
            return ()
        return self._take(delivery, trace if delivery.offset >= self.live_from else None)

    def _take(self, delivery: Delivery, trace: Recorder | None) -> tuple[str, ...]:
        assert delivery.offset is not None, "it is in the log"
        with self._changed:
            self.offset = max(self.offset, delivery.offset + 1)
            if self._callback is None:  # at once: or the cursor could pass it
                return super().receive(delivery, trace)
        return super().receive(delivery, trace)  # without the lock: it calls the callback

    def read_to(self, offset: int, end: int) -> None:
        """All below an offset has been read; there is nothing more where the log has the end `end`."""
        with self._changed:
            self.offset = offset
            self._is_behind = offset < end
            self._changed.notify_all()

    def pass_over(self, offset: int) -> None:
        """Nothing that waits is below an offset: the cursor moves to it, if nothing else holds it back."""
        with self._changed:
            if not self._is_behind and not self._deliveries and self.offset < offset:
                self.offset = offset
                self._history.settle(self.name, None, offset)

    def leave(self, identity: str) -> bool:
        with self._changed:
            last = super().leave(identity)
            if last:  # what is not accepted comes again, to whoever is there next
                self._is_closed, self._is_behind = True, False
                for queue in self._queues.values():
                    queue.clear()
                self._deliveries.clear()
            return last

    def _ordinal_of(self, delivery: Delivery) -> int:
        assert delivery.offset is not None, "it is in the log"
        return delivery.offset

    def _counts(self, attempt: Attempt) -> bool:
        return not self._is_closed and super()._counts(attempt)

    def _settled(self, ordinal: int) -> None:
        if self._is_closed:  # a callback has ended its own subscription, and has returned
            self._history.settle(self.name, ordinal, None)
            return
        super()._settled(ordinal)
        self._history.settle(self.name, ordinal, next(iter(self._deliveries), self.offset))
        if self._is_behind:
            self._changed.notify_all()

    def _handed_again(self, ordinal: int) -> None:
        self._history.fail(self.name, ordinal, self._assignments.counts[ordinal])

    def _fill(self) -> None:
        while self._is_starved():
            self._read_on(self)

    def _is_starved(self) -> bool:
        with self._changed:
            room = self.room
            return (
                self._is_behind
                and self._callback is None
                and room > 0
                and (2 * room >= self.held_max or not any(self._queues.values()))
            )
