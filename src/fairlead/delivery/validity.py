"""A subscription or pattern is valid for the order keys in [since, until).

The same in batch and in a stream: whether a subscription sees a notification does not depend on when either
arrived. So a validity cannot begin below the watermark: such a beginning is moved to the watermark, and the
requested one is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairlead.model.order import BEGINNING, OrderKey

__all__ = ["Validity"]


@dataclass(frozen=True, slots=True)
class Validity:
    """The order keys from `since` (None: from the beginning) to before `until` (None: for ever)."""

    since: OrderKey | None = None
    until: OrderKey | None = None
    requested: OrderKey | None = None
    """The requested beginning, where `since` was moved; the least key stands for the very first."""

    def __contains__(self, key: OrderKey) -> bool:
        return (self.since is None or self.since <= key) and (self.until is None or key < self.until)

    @property
    def moved(self) -> bool:
        """Whether it begins later than requested."""
        return self.requested is not None

    @property
    def empty(self) -> bool:
        """Whether it contains no key."""
        return self.since is not None and self.until is not None and self.until <= self.since

    def admitted_at(self, watermark: int) -> Validity:
        """This validity as it takes effect at a watermark: it begins no earlier."""
        if watermark == BEGINNING or (self.since is not None and self.since.time >= watermark):
            return self
        requested = self.requested or self.since or OrderKey.first_at(BEGINNING)
        return replace(self, since=OrderKey.first_at(watermark), requested=requested)

    def ended_at(self, until: OrderKey) -> Validity:
        """This validity, ending there unless it ends earlier."""
        return self if self.until is not None and self.until <= until else replace(self, until=until)
