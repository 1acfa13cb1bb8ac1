"""Deadlines on a bus: who is told that nothing of a key has come in time.

The bus looks when something is published, and when it is told that time passes: it has no thread of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from fairlead.channels import Channels, Deadlines, Missed
from fairlead.model import Notification

__all__ = ["Expecting", "OnMissed"]

log: Final = logging.getLogger(__name__)

OnMissed = Callable[[Missed], object]


class Expecting:
    """The subscriptions of a bus that are told what is missing. Whoever uses it holds the bus's lock."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._of: dict[str, tuple[Deadlines, OnMissed]] = {}

    def add(self, id: str, on_missed: OnMissed | None) -> None:
        """One more subscription, if it wants to be told."""
        if on_missed is not None:
            self._of[id] = Deadlines(self._channels), on_missed

    def remove(self, id: str) -> None:
        """One less, if it was there."""
        self._of.pop(id, None)

    def seen(self, ids: Iterable[str], notification: Notification, now: int) -> None:
        """A notification is for these subscriptions."""
        for id in ids if self._of else ():
            if id in self._of:
                self._of[id][0].seen(notification, now)

    def take_missed(self, now: int) -> list[Callable[[], None]]:
        """Calls that tell what is missing, to be made behind all that is handed over now."""
        return [
            partial(_tell, on_missed, missed)
            for deadlines, on_missed in self._of.values()
            for missed in deadlines.missed(now)
        ]


def _tell(on_missed: OnMissed, missed: Missed) -> None:
    try:
        on_missed(missed)
    except Exception:  # what became of it is not the publisher's concern
        log.exception("the on_missed hook failed")
