"""Publication on demand on a bus: a source publishes only while somebody wants what it has.

Whether that is so is known at every moment: nothing that a subscription matches is discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from fairlead.bus.handles import Detection, Subscription
from fairlead.delivery.discovery import Discovered
from fairlead.filters import overlaps
from fairlead.filters.filter import Filter
from fairlead.model import Notification

if TYPE_CHECKING:
    from fairlead.bus.bus import Bus

__all__ = ["Source"]


class Source:
    """A source: publications on demand, until it is closed, or its block ends."""

    def __init__(self, bus: Bus, filter: Filter, producer: str) -> None:
        self._bus, self.filter, self.producer = bus, filter, producer
        self._version: object = None
        self._is_wanted = True
        self._last: bool | None = None
        """Whether it was wanted when callbacks were called last."""
        self._callbacks: list[Callable[[bool], object]] = []
        self._needs: list[tuple[Filter, Callable[[Notification], object]]] = []
        self._made: list[Subscription] = []
        self.discarded = 0
        """The number of publications that nobody wanted."""

    @property
    def is_wanted(self) -> bool:
        """Whether somebody listens, besides this source to what it needs."""
        bus = self._bus
        with bus._lock:
            version = bus._registry.changes, bus._seam.grant_version
            if version != self._version:
                self._version, self._is_wanted = version, any(map(self._is_listener, bus.subscriptions))
            return self._is_wanted

    def _is_listener(self, subscription: Subscription) -> bool:
        if subscription in self._made:
            return False
        wanted = (
            subscription._question.filters if isinstance(subscription, Detection) else (subscription.granted,)
        )
        return any(overlaps(self.filter, each, self._bus._schema) for each in wanted)

    def wants(self) -> Discovered:
        """The part of the filter that is subscribed to."""
        return self._bus.wants(self.filter)

    def publish(self, event: Mapping[str, Any] | tuple[Any, ...] | Notification) -> Notification | None:
        """Publish, as `Bus.publish` does; None where nobody wants it."""
        if not self.is_wanted:
            self.discarded += 1
            return None
        notification = Notification.of(event)
        if self.producer and not notification.producer:
            notification = replace(notification, producer=self.producer)
        return self._bus.publish(notification)

    def poll(self, read: Callable[[], Mapping[str, Any] | Notification | None]) -> Notification | None:
        """Publish what `read()` returns, which is called only while somebody listens; None: nothing to publish."""
        if not self.is_wanted:
            return None
        event = read()
        return None if event is None else self.publish(event)

    def on_change(self, callback: Callable[[bool], object]) -> None:
        """Call back with whether it is wanted: now, and whenever that changes."""
        self.look()
        self._callbacks.append(callback)
        callback(self.is_wanted)

    def needs(self, filter: str | Filter, into: Callable[[Notification], object]) -> None:
        """Subscribe to what this source is made of, only while it is wanted itself; `into` gets each notification.

        So what nobody wants at the end of a chain is published nowhere along it.
        """
        self.look()
        self._needs.append((self._bus._parsed(filter), into))
        if self.is_wanted:
            self._follow()

    def look(self) -> None:
        """Follow a change of subscriptions."""
        is_wanted = self.is_wanted
        if is_wanted == self._last:
            return
        self._last = is_wanted
        if is_wanted:
            self._follow()
        else:
            self._let_go()
        for callback in self._callbacks:
            callback(is_wanted)

    def _follow(self) -> None:
        for filter, into in self._needs[len(self._made) :]:
            self._made.append(self._bus.subscribe(filter, into))
            self._version = None  # that one does not count

    def _let_go(self) -> None:
        made, self._made = self._made, []
        for each in made:
            each.close()

    def close(self) -> None:
        """End the source, and what it has subscribed to."""
        if self in self._bus._sources:
            self._bus._sources.remove(self)
        self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
