"""A producer that has advertised publishes nothing else (book 2.5.4); one that never has may publish anything.

One that has revoked all its advertisements may publish nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from fairlead.bus.handles import Advertisement
from fairlead.errors import NotAdvertised
from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.rules import Advertisements, Refusal

__all__ = ["Advertised"]


class Advertised:
    """The active advertisements of a bus, by producer. Whoever uses it holds the bus's lock."""

    __slots__ = ("_active", "rule")

    def __init__(self) -> None:
        self._active: dict[str, dict[Filter, Advertisement]] = {}
        self.rule = Advertisements(self._filters, self._refusal)

    def get(self, producer: str, filter: Filter) -> Advertisement | None:
        """The active advertisement of a producer with this filter, if there is one."""
        return self._active.get(producer, {}).get(filter)

    def add(self, advertisement: Advertisement) -> None:
        """One more."""
        self._active.setdefault(advertisement.producer, {})[advertisement.filter] = advertisement
        self.rule.changed(advertisement.filter)

    def remove(self, advertisement: Advertisement) -> bool:
        """One less; False where it was not active."""
        active = self._active.get(advertisement.producer, {})
        self.rule.changed()
        return active.pop(advertisement.filter, None) is not None

    def _filters(self, producer: str) -> Collection[Filter] | None:
        """The filters that a producer advertises; None where it never has."""
        return self._active.get(producer)

    def _refusal(self, producer: str, notification: Notification) -> Refusal:
        active = self._active[producer]
        who = f"producer {producer!r}" if producer else "the producer without a name"
        return Refusal(
            f"{who} has advertised nothing that this matches: {dict(notification.attributes)!r}",
            f"it advertises {', or '.join(map(str, active))}" if active else "it has revoked everything",
            NotAdvertised,
        )

    @property
    def all(self) -> tuple[Advertisement, ...]:
        """All that may come."""
        return tuple(each for active in self._active.values() for each in active.values())

    def __len__(self) -> int:
        return sum(map(len, self._active.values()))
