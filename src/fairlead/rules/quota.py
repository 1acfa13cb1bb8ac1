"""A principal publishes at most so many notifications, and bytes, in a second, by its roles."""

from __future__ import annotations

from typing import Final

from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.rules.access import Access
from fairlead.rules.rule import Depends, Refusal, Rule

__all__ = ["Quota"]

SECOND_US: Final = 1_000_000
COUNTED_MAX: Final = 10_000
"""For how many principals a second is counted."""
PUBLICATIONS, BYTES = LIMITS = ("publications_per_second", "bytes_per_second")
_COUNTS: Final = Depends(source=True, volatile=True)
_NOTHING: Final = Depends(source=True)


class Quota(Rule):
    """Refuses what a principal publishes beyond its limits in a second. All its clients count together."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._counts: dict[str, tuple[int, int, int]] = {}
        """By principal: the second, and how many notifications and bytes it has published in it."""

    @property
    def depends(self) -> Depends:
        return _COUNTS

    def depends_for(self, source: str) -> Depends:
        return _COUNTS if self.concerns(source) else _NOTHING

    def concerns(self, source: str) -> bool:
        """Only clients of principals with such a limit have to be asked about one by one."""
        return bool(source) and any(each in self._access.limits(source) for each in LIMITS)

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        limits = self._access.rights(who, now).limits
        publications, size = limits.get(PUBLICATIONS), limits.get(BYTES)
        if publications is None and size is None:
            return None
        second, count, total = self._counts.get(self._access.principal(who).name, (0, 0, 0))
        if second != now // SECOND_US:
            count = total = 0
        if publications is not None and count >= publications:
            return Refusal(f"more than {publications:,} publications a second")
        if size is not None and total + len(pack(notification)) > size:
            return Refusal(f"more than {size:,} bytes a second")
        return None

    def published(self, who: str, notification: Notification, now: int) -> None:
        limits = self._access.rights(who, now).limits
        if not any(each in limits for each in LIMITS):
            return
        name, this = self._access.principal(who).name, now // SECOND_US
        second, count, total = self._counts.get(name, (this, 0, 0))
        if second != this:
            count = total = 0
        if len(self._counts) >= COUNTED_MAX:
            self._counts = {each: held for each, held in self._counts.items() if held[0] == this}
        size = len(pack(notification)) if BYTES in limits else 0
        self._counts[name] = (this, count + 1, total + size)
