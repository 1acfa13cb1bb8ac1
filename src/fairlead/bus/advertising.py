"""A producer that has advertised publishes nothing else (book 2.5.4); one that never has may publish anything.

One that has revoked all its advertisements may publish nothing.
"""

from __future__ import annotations

from fairlead.bus.handles import Advertisement
from fairlead.errors import NotAdvertised
from fairlead.filters.filter import Filter
from fairlead.model import Notification

__all__ = ["Advertised"]


class Advertised:
    """The active advertisements of a bus, by producer. Whoever uses it holds the bus's lock."""

    __slots__ = ("_active",)

    def __init__(self) -> None:
        self._active: dict[str, dict[Filter, Advertisement]] = {}

    def get(self, producer: str, filter: Filter) -> Advertisement | None:
        """That of a producer with that filter, if it is active."""
        return self._active.get(producer, {}).get(filter)

    def add(self, advertisement: Advertisement) -> None:
        """One more."""
        self._active.setdefault(advertisement.producer, {})[advertisement.filter] = advertisement

    def remove(self, advertisement: Advertisement) -> bool:
        """One less; False where it was not active."""
        active = self._active.get(advertisement.producer, {})
        return active.pop(advertisement.filter, None) is not None

    def allows(self, notification: Notification) -> bool:
        """Whether its producer may publish it."""
        active = self._active.get(notification.producer)
        return active is None or any(filter.matches(notification) for filter in active)

    def refusal(self, notification: Notification) -> NotAdvertised:
        """Why it may not."""
        active = self._active[notification.producer]
        who = (
            f"producer {notification.producer!r}" if notification.producer else "the producer without a name"
        )
        return NotAdvertised(
            f"{who} has advertised nothing that this matches: {dict(notification.attributes)!r}",
            hint=f"it advertises {', or '.join(map(str, active))}" if active else "it has revoked everything",
        )

    @property
    def all(self) -> tuple[Advertisement, ...]:
        """All that may come."""
        return tuple(each for active in self._active.values() for each in active.values())

    def __len__(self) -> int:
        return sum(map(len, self._active.values()))
