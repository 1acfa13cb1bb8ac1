"""Publications that a channel holds until an instant: at the broker where they were published, in its log.

A publication that is held is admitted at once, by the rights that its client has then, and acknowledged when it is
in the log. When its instant has come it takes its place there, and goes to whoever is subscribed by then. It keeps
its identity: what is published again while it is held is a duplicate. One that is best effort is held in memory.

    Law
    What was acknowledged is published once, and not before its instant, whatever becomes of the broker's process.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fairlead.broker import Broker
from fairlead.errors import ValueRefused
from fairlead.model import Notification
from fairlead.model.packed import identity_in, pack, unpack
from fairlead.network.ledger import Held
from fairlead.network.own import OwnPublications
from fairlead.network.persistence import Persistence

if TYPE_CHECKING:
    from fairlead.network.dispatch import Dispatch

__all__ = ["Holding"]

log: Final = logging.getLogger(__name__)

HELD_MAX: Final = 10_000
"""The number of publications that a broker holds at most."""
AGAIN_US: Final = 1_000_000
"""When one is published again, for which the log had no room."""


class Holding:
    """The publications that one broker holds."""

    def __init__(
        self, broker: Broker, persistence: Persistence, own: OwnPublications, dispatch: Dispatch
    ) -> None:
        self._broker, self._persistence, self._own, self._dispatch = broker, persistence, own, dispatch
        self._due: list[tuple[int, int, Notification, bool]] = []
        """By instants, and of one instant as they were published; whether each is in the log."""
        self._number = 0
        self.send: Callable[[Notification, int], None] = _nowhere
        """Sends on what is best effort."""

    def __len__(self) -> int:
        return len(self._due)

    def hold(
        self, notification: Notification, until: int, now: int, *, is_logged: bool, then: Callable[[], None]
    ) -> None:
        """Hold a publication that was admitted; `then` is called when it is safe. ValueRefused: there are too
        many."""
        if len(self._due) >= HELD_MAX:
            raise ValueRefused(
                f"the broker holds {HELD_MAX:,} publications already, and no more",
                hint="publish it again later",
            )
        if is_logged:
            packed = pack(notification)
            self._persistence.note(Held(_key(packed), packed, until), now)
            self._dispatch.after_sync(then)
        self._wait(notification, until, is_logged=is_logged)

    def recall(self, now: int) -> None:
        """Those that were held when the broker's last process ended."""
        for key, held in [*self._persistence.state.held.items()]:
            notification = unpack(held.packed)
            if self._broker.identities.take(notification) is None:
                self._persistence.note(Held(key), now)  # it was published
            else:
                self._wait(notification, held.until, is_logged=True)

    def tick(self, now: int) -> None:
        """From time to time: publish what is due."""
        while self._due and self._due[0][0] <= now:
            _, _, notification, is_logged = heapq.heappop(self._due)
            if is_logged:
                self._publish(notification, now)
            else:
                self.send(notification, now)

    def _wait(self, notification: Notification, until: int, *, is_logged: bool) -> None:
        self._number += 1
        heapq.heappush(self._due, (until, self._number, notification, is_logged))

    def _publish(self, notification: Notification, now: int) -> None:
        key = _key(pack(notification))

        def published() -> None:
            self._persistence.note(Held(key), now)

        def failed() -> None:
            if self._broker.identities.take(notification) is not None:
                self._wait(notification, now + AGAIN_US, is_logged=True)

        self._own.publish_admitted(notification, now, then=published, failed=failed)


def _key(packed: bytes) -> str:
    producer, id = identity_in(packed)
    return f"{len(producer)} {producer}{id}"


def _nowhere(notification: Notification, now: int) -> None:
    log.error("nothing sends what was held")
