"""The backlog of one destination, a neighbour or a durable subscriber, in log order.

An outbox that has caught up is live: it is handed notifications as they are dispatched. One that has not (its
destination is away, or slow) is at an offset of the log, and reads on from there when there is room. So what waits
for a destination takes no memory, however long it waits.

The law: all records below `cursor` have been confirmed, or do not concern the destination.
"""

from __future__ import annotations

from typing import Final

from fairlead.log import Reader
from fairlead.log.records import NOTIFICATIONS
from fairlead.network.outflow import Outflow, Step

__all__ = ["WINDOW", "Outbox"]

WINDOW: Final = 4_096
"""The number of notifications that may be in flight to a destination."""


class Outbox:
    """One destination of the log. `looked` is the first offset that it has not examined."""

    __slots__ = ("_reader", "looked", "outflow", "unconfirmed", "window")

    def __init__(self, outflow: Outflow, cursor: int, window: int = WINDOW) -> None:
        self.outflow = outflow
        """The state that decides what becomes of notifications for it."""
        self.looked = cursor
        self.window = window
        self.unconfirmed: dict[int, None] = {}
        self._reader: Reader | None = None

    @property
    def live(self) -> bool:
        """Whether it has caught up."""
        return self.outflow.is_live

    @property
    def room(self) -> int:
        """The number of notifications that may still be sent."""
        return self.window - len(self.unconfirmed)

    @property
    def kinds(self) -> tuple[int, ...]:
        """The kinds of records that may be for it."""
        return NOTIFICATIONS

    def cursor(self, dispatched: int) -> int:
        """The offset from which it would continue after an interruption; `dispatched` is the first offset that is
        not dispatched."""
        if self.unconfirmed:
            return next(iter(self.unconfirmed))
        return dispatched if self.live else self.looked

    def hand_out(self) -> None:
        """Send what waits beside the log, before more is read; most destinations have nothing there."""

    def catch_up(self) -> None:
        """Nothing is left to be read: it is handed what is dispatched from now on."""
        self.outflow.on(Step.CATCH_UP)
        self.close()

    def fall_behind(self, offset: int) -> None:
        """It could not take the record at this offset, and will read on from there."""
        self.outflow.on(Step.FALL_BEHIND)
        self.looked = offset

    def seek(self, offset: int) -> None:
        """Read on from another offset, whether or not it has caught up."""
        if self.live:
            self.outflow.on(Step.FALL_BEHIND)
        self.looked = offset

    def detach(self, dispatched: int) -> None:
        """The destination is away: what it has not confirmed is sent again when it is back."""
        self.looked = self.cursor(dispatched)
        self.outflow.on(Step.LOSE)
        self.unconfirmed.clear()
        self.close()

    def confirm(self, offset: int) -> bool:
        """A notification is acknowledged. True if it was in flight."""
        return self.unconfirmed.pop(offset, self) is None

    def confirm_through(self, offset: int) -> None:
        """All up to this one are dealt with."""
        for each in list(self.unconfirmed):
            if each > offset:
                break
            del self.unconfirmed[each]
        if not self.live:
            self.looked = max(self.looked, offset + 1)

    def rewind(self, offset: int) -> None:
        """The destination has lost what it had confirmed from this offset on: it is sent again."""
        self.unconfirmed.clear()
        self.close()
        self.seek(min(offset, self.looked))

    def reader(self, opened: Reader | None = None) -> Reader | None:
        """The reader of this destination. It stays open, unless another one is given."""
        if opened is not None:
            self.close()
            self._reader = opened
        return self._reader

    def close(self) -> None:
        """Let go of the reader."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
