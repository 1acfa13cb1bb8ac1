"""The rule of the future: what is dated too far ahead of the clock is refused.

One notification from the year 2062 would move the watermark there, and whatever is published after it would be
late for ever: for an ordered bus, and for patterns on every runtime.
"""

from __future__ import annotations

from typing import Final

from fairlead.model import Instant, Notification
from fairlead.rules.rule import Depends, Refusal, Rule

__all__ = ["Ahead"]

_ON_TIME: Final = Depends.on("time", volatile=True)


class Ahead(Rule):
    """Refuses what is dated more than so many microseconds ahead of the clock. Without a clock, nothing is."""

    depends = _ON_TIME

    def __init__(self, ahead_us: int) -> None:
        self._ahead_us = ahead_us

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        time = notification.time
        if not now or time is None or time.microseconds - now <= self._ahead_us:
            return None
        return Refusal(f"the time lies too far ahead: {time}, and it is {Instant(now)}")
