"""The last values of each key, for those who subscribe later.

The newest value of a key is the last one that its producer has published; of several producers, the one that is
last by time and then by the producer's name, as in the total order. So an older value that arrives late, from
another producer, takes nobody's place. One without a time is newest when it comes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from fairlead.channels.channel import Channel, Channels
from fairlead.model import ABSENT, Notification
from fairlead.model.typed import canonical

__all__ = ["RetainedKey", "RetainedValue", "RetainedValues", "retained_key"]

Content = TypeVar("Content")
"""A notification, or its packed bytes."""
RetainedKey: TypeAlias = tuple[str, bytes]
"""The name of a channel, and a digest of the values of a key."""
Rank: TypeAlias = tuple[int, str]
"""Order time and producer: the place of a value among those of its key."""

KEYS_MAX: Final = 1_000_000
ENDED_MAX: Final = 100_000
"""So many keys that have ended are remembered, the latest ones: an older value does not bring them back."""
_rank: Final = attrgetter("rank")


def retained_key(channel: Channel, notification: Notification) -> RetainedKey:
    """The key of a notification in a channel that retains values."""
    assert channel.retain is not None
    values = (notification.get(name) for name in channel.retain.per)
    text = b"\0".join(b"" if each is ABSENT else canonical(each) for each in values)
    return channel.name, blake2b(text, digest_size=16).digest()


class RetainedValue(NamedTuple, Generic[Content]):
    """A value that is retained."""

    key: RetainedKey
    rank: Rank
    producer: str
    content: Content
    is_end: bool = False
    """Whether it has ended its key."""


class RetainedValues(Generic[Content]):
    """The values that the channels retain, of at most `keys_max` keys: beyond that, the keys that have not had a
    value for longest go, and are counted."""

    def __init__(self, channels: Channels, keys_max: int = KEYS_MAX) -> None:
        self._channels, self._keys_max = channels, keys_max
        self._values: OrderedDict[RetainedKey, list[RetainedValue[Content]]] = OrderedDict()
        """By key the latest ones in their order; the keys in the order of their last publication."""
        self._ended: OrderedDict[RetainedKey, RetainedValue[Content]] = OrderedDict()
        self.dropped = 0
        """The number of keys that there was no room for."""

    def take(self, notification: Notification, content: Content) -> RetainedValue[Content] | None:
        """Retain what was published, in the order of each producer's publications; None: it is in no channel that
        retains values, or older than what is value."""
        channel = self._channels.of(notification)
        if channel is None or channel.retain is None:
            return None
        key, time = retained_key(channel, notification), notification.time
        rank = (0 if time is None else time.microseconds, notification.producer)
        values, ended = self._values.get(key, []), self._ended.get(key)
        known = values if ended is None else [ended, *values]
        before = [each.rank for each in known if time is None or each.producer == notification.producer]
        rank = max([rank, *before])
        is_end = self._channels.ends(channel, notification)
        return self.restore(
            RetainedValue(key, rank, notification.producer, content, is_end), channel.retain.count
        )

    def restore(
        self, value: RetainedValue[Content], count: int | None = None
    ) -> RetainedValue[Content] | None:
        """Retain a value whose rank is known; None: it is older than what is value."""
        key = value.key
        if count is None:
            channel = next((each for each in self._channels if each.name == key[0]), None)
            if channel is None or channel.retain is None:
                return None
            count = channel.retain.count
        ended = self._ended.get(key)
        if ended is not None and value.rank < ended.rank:
            return None
        values = self._values.get(key, [])
        at = bisect_right(values, value.rank, key=_rank)
        if value.is_end:
            self._end(value, values[at:])
            return value
        if at == 0 and len(values) >= count:
            return None
        values = [*values[:at], value, *values[at:]][-count:]
        is_newest = values[-1] is value
        self._values[key] = values
        if is_newest:
            self._values.move_to_end(key)
        while len(self._values) > self._keys_max:
            self._values.popitem(last=False)
            self.dropped += 1
        return value

    def _end(self, value: RetainedValue[Content], later: list[RetainedValue[Content]]) -> None:
        self._ended[value.key] = value
        self._ended.move_to_end(value.key)
        while len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)
        if later:
            self._values[value.key] = later
        else:
            self._values.pop(value.key, None)

    def of(self, key: RetainedKey) -> list[RetainedValue[Content]]:
        """All that is known of a key: the last value that has ended it, and its values, in their order."""
        ended = self._ended.get(key)
        return [*([] if ended is None else [ended]), *self._values.get(key, ())]

    def __iter__(self) -> Iterator[RetainedValue[Content]]:
        """The values, in the order of the last publications of their keys, those of one key in theirs."""
        for values in self._values.values():
            yield from values

    def ended(self) -> Iterator[RetainedValue[Content]]:
        """The notifications that have ended keys."""
        yield from self._ended.values()

    def __len__(self) -> int:
        """The number of keys that have a value."""
        return len(self._values)
