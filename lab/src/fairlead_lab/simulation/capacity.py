"""Brokers that take their time, links that carry so many messages in a second, and what waits for either.

    a server takes one message at a time, control before notifications, and each class in the order of arrival
    nothing waits while a server is idle
    arrived = served + waiting + dropped; only notifications are dropped, and only where a queue is full

So the time at which a message is served follows from the arrivals alone (Lindley's recursion). Without a
capacity a broker takes no time and a link carries everything at once, as the routing figures assume.

Control is what brokers and clients say of filters and links: if it waited behind notifications, a congested
network could not be relieved (book 8.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

from fairlead.broker.messages import Batch, Forward, InTree, Publish
from fairlead.configuration import Key, count
from fairlead_lab.broker import Packet
from fairlead_lab.simulation.kinds import MILLION, MS

__all__ = ["NO_CAPACITY", "Capacity", "Lengths", "Server", "Station", "carries_notification"]

RATE_MAX: Final = MILLION
"""Messages in a second; time is counted in microseconds."""
QUEUE_MAX: Final = 1_000_000_000

Station: TypeAlias = tuple[str, ...]
"""The name of a broker, or the names of the sender and the receiver of a link."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Capacity:
    """Limits of brokers and links; 0 stands for none."""

    service_us: Annotated[
        int, Key("how long a broker takes for one message; 0: no time at all", MS, at="broker_ms")
    ] = 0
    link_rate: Annotated[
        int,
        Key(
            "how many messages a link carries in a second, in each direction; 0: any number",
            count(0, RATE_MAX),
        ),
    ] = 0
    queue_max: Annotated[
        int,
        Key(
            "how many notifications wait for a broker or a link, at most: others are dropped; 0: any number",
            count(0, QUEUE_MAX),
        ),
    ] = 0

    def __bool__(self) -> bool:
        return bool(self.service_us or self.link_rate)

    @property
    def transmission_us(self) -> int:
        """The time that a message occupies a link for."""
        return -(-MILLION // self.link_rate) if self.link_rate else 0

    @property
    def may_drop(self) -> bool:
        """Whether a notification may be lost in a queue that is full."""
        return bool(self) and self.queue_max > 0


NO_CAPACITY: Final = Capacity()


def carries_notification(message: Any) -> bool:
    """Whether a message carries a notification; everything else is control."""
    kind = type(message)
    if kind is Batch:
        return any(map(carries_notification, message.messages))
    if kind is InTree or kind is Packet:
        return carries_notification(message.message)
    return kind is Forward or kind is Publish


class Server(Generic[T]):
    """One server with a queue for control and one for notifications."""

    __slots__ = ("_control", "_limit", "_notifications", "current")

    def __init__(self, limit: int = 0) -> None:
        self._control: deque[T] = deque()
        self._notifications: deque[T] = deque()
        self._limit = limit
        self.current: T | None = None
        """The message that is being served."""

    def __len__(self) -> int:
        """The number of messages that wait."""
        return len(self._control) + len(self._notifications)

    def __iter__(self) -> Iterator[T]:
        """All messages at this server, in the order in which they will be done."""
        if self.current is not None:
            yield self.current
        yield from self._control
        yield from self._notifications

    def put(self, message: T, *, carries_notification: bool) -> bool:
        """Let a message wait; False where it is a notification and the queue is full."""
        if not carries_notification:
            self._control.append(message)
        elif self._limit and self.current is not None and len(self._notifications) >= self._limit:
            return False
        else:
            self._notifications.append(message)
        return True

    def begin(self) -> bool:
        """Begin with the next message; False where there is none, or the server is busy."""
        if self.current is not None or not len(self):
            return False
        self.current = (self._control or self._notifications).popleft()
        return True

    def end(self) -> T:
        """The message that is done."""
        done, self.current = self.current, None
        assert done is not None, "nothing was being served"
        return done


@dataclass(slots=True)
class _Length:
    """The length of one queue over time."""

    now: int = 0
    length: int = 0
    most: int = 0
    area: int = 0
    """Messages times microseconds."""
    since: int = 0


@dataclass(slots=True)
class Lengths:
    """The lengths of all queues of a run: the longest, and the mean over time. An observer's `waits` feeds it."""

    _by_station: dict[Station, _Length] = field(default_factory=dict)

    def note(self, now: int, station: Station, length: int) -> None:
        """So many messages wait from now on."""
        queue = self._by_station.get(station)
        if queue is None:
            queue = self._by_station[station] = _Length(now, since=now)
        queue.area += queue.length * (now - queue.now)
        queue.now, queue.length, queue.most = now, length, max(queue.most, length)

    def longest(self) -> tuple[Station, int]:
        """The station with the longest queue, and how long it was."""
        found: tuple[Station, int] = ((), 0)
        for station, queue in self._by_station.items():
            if queue.most > found[1]:
                found = station, queue.most
        return found

    def means(self, now: int) -> Mapping[Station, float]:
        """By station, the mean length from the first message up to now."""
        return {
            station: round((queue.area + queue.length * (now - queue.now)) / (now - queue.since), 3)
            for station, queue in self._by_station.items()
            if now > queue.since
        }
