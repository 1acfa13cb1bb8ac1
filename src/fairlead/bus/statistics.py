"""The figures of a bus: its state, and counters of everything that it delivers, drops or refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairlead.matching import Statistics

__all__ = ["COUNTED", "BusStatistics"]

COUNTED: Final = (
    *("published", "duplicates", "conflicts", "late", "not_advertised", "refused", "composites", "delivered"),
    *("withdrawn", "withheld", "dropped", "errors"),
)


@dataclass(frozen=True, slots=True)
class BusStatistics:
    """The state and the counters of a bus."""

    published: int
    duplicates: int
    """Publications with an identity that was published before, and the same content."""
    conflicts: int
    """Likewise, with other content. A live bus delivers the first copy, an ordered one the earliest."""
    late: int
    """Came after the watermark had passed their place in the order. (On a live bus, patterns did not see them.)"""
    held: int
    """Wait for the watermark."""
    not_advertised: int
    refused: int
    """Refused by another rule."""
    composites: int
    """Composite events, and relations, that were found."""
    delivered: int
    """Handed over to a callback or a queue."""
    withdrawn: int
    """Not handed over, because the subscriber had unsubscribed in between."""
    withheld: int
    """Publications and deliveries that hooks have withheld."""
    dropped: int
    """Pushed out of a full queue by later ones."""
    errors: int
    """Callbacks and filters that raised."""
    expired: int
    """Deliveries that expired before they were handed over."""
    delayed: int
    """Publications that channels hold until an instant."""
    subscribers: int
    subscriptions: int
    advertisements: int
    matching: Statistics
