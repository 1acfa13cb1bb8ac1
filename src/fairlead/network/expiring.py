"""Notifications expire at the broker that hands them out: from then on nobody is handed one for the first time.

It is looked at when a notification is dispatched, when it is read from the log for a subscriber that was behind or
away, when it waits in the backlog of a slow client, and when it is recalled. What was handed out before, and comes
again, has been promised, and does not expire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fairlead.channels.channel import EXPIRES_MARK
from fairlead.log.records import Stamp
from fairlead.model.packed import unpack
from fairlead.network.calling import Clock
from fairlead.network.once import Once
from fairlead.network.router import Fanout
from fairlead.rules import Seam

if TYPE_CHECKING:
    from fairlead.network.sessions import Counters

__all__ = ["Expiring", "let_expire"]

MARK: Final = EXPIRES_MARK.encode()


class Expiring:
    """The notifications that expire at one broker, by its clock."""

    def __init__(self, seam: Seam, clock: Clock, counters: Counters) -> None:
        self._seam, self._clock, self._counters = seam, clock, counters

    def has_expired(self, packed: bytes) -> bool:
        """Whether a notification has expired."""
        if MARK not in packed:
            return False
        until = self._seam.expires(unpack(packed))
        return until is not None and until <= self._clock.now

    def passes(self, packed: bytes) -> bool:
        """Whether a delivery may be handed out for the first time; if not, it is counted."""
        if self.has_expired(packed):
            self._counters.expired += 1
            return False
        return True

    def pass_on(self, fanout: Fanout, packed: bytes, stamp: Stamp | None) -> Fanout:
        """The fan-out of a notification that is dispatched; of one that has expired, without the recipients."""
        if not self.has_expired(packed):
            return fanout
        self._counters.expired += len(fanout.recipients)
        return Fanout(fanout.links, ())


def let_expire(seam: Seam, clock: Clock, counters: Counters, once: Once) -> Callable[[bytes], bool] | None:
    """Whether a notification may be handed out for the first time, and all that is dispatched is looked at; None:
    no channel lets any expire."""
    if not seam.channels.expire:
        return None
    expiring = Expiring(seam, clock, counters)
    once.pass_on = expiring.pass_on
    return expiring.passes
