"""Deadlines of channels: each key has a notification at least so often, or its subscriber is told.

    Law
    A deadline of a key is missed iff nothing of the key has come for so long since its last notification; that is
    told once, and anew when something has come and the same happens again. A key without any misses nothing.

The program has no clock: who drives it says what time it is.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, Final, NamedTuple

from fairlead.channels.channel import PRODUCER, Channel, Channels
from fairlead.model import ABSENT, Instant, Notification

__all__ = ["Deadlines", "Missed"]

KEYS_MAX: Final = 100_000
"""The number of keys that are watched; of more, those without a notification for longest are not."""


class Missed(NamedTuple):
    """Nothing of a key has come in time."""

    channel: str
    key: Mapping[str, Any]
    """The names of the key with their values; those that the last notification did not have are not there."""
    since: Instant
    """When its last notification came."""


class _Watched(NamedTuple):
    channel: Channel
    last: Notification
    at: int


class Deadlines:
    """The keys of one subscription that something is expected of. Times are in microseconds.

    One that takes the place of another goes on with its keys.
    """

    def __init__(self, channels: Channels, before: Deadlines | None = None) -> None:
        self._channels = channels
        self._watched: OrderedDict[Hashable, _Watched] = OrderedDict()
        self._due: list[tuple[int, int, Hashable]] = []
        """A time for each key that is watched, at which to look whether something has come since."""
        self._number = 0
        for watched in before._watched.values() if before is not None else ():
            self.seen(watched.last, watched.at)

    def seen(self, notification: Notification, now: int) -> None:
        """A notification has come."""
        channel = self._channels.of(notification)
        if channel is None or channel.deadline is None:
            return
        key = (channel.name, *channel.key_of(notification))
        if key not in self._watched:
            self._expect(key, now + channel.deadline_us)
        self._watched[key] = _Watched(channel, notification, now)
        self._watched.move_to_end(key)
        if len(self._watched) > KEYS_MAX:
            self._watched.popitem(last=False)

    def missed(self, now: int) -> list[Missed]:
        """The keys whose deadline has passed, by the times at which something has come."""
        found: list[Missed] = []
        while self._due and self._due[0][0] <= now:
            _, _, key = heapq.heappop(self._due)
            watched = self._watched.get(key)
            if watched is None:
                continue
            if (until := watched.at + watched.channel.deadline_us) > now:
                self._expect(key, until)
                continue
            del self._watched[key]
            found.append(Missed(watched.channel.name, _named(watched), Instant(watched.at)))
        return sorted(found, key=lambda each: each.since)

    def _expect(self, key: Hashable, until: int) -> None:
        self._number += 1
        heapq.heappush(self._due, (until, self._number, key))

    def next_time(self) -> int | None:
        """Before when no deadline is missed; None: nothing is expected."""
        return self._due[0][0] if self._due else None


def _named(watched: _Watched) -> dict[str, Any]:
    last = watched.last
    values = {name: last.producer if name == PRODUCER else last.get(name) for name in watched.channel.key}
    return {name: value for name, value in values.items() if value is not ABSENT}
