"""A client publishes only what it has advertised (book 2.5.4)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.rules.cells import Cells
from fairlead.rules.rule import Depends, Refusal, Rule

__all__ = ["Advertisements"]


class Advertisements(Rule):
    """Refuses what matches none of the client's active advertisements.

    `advertised` gives the filters that a client advertises now; None: the client may publish anything. `refusal`
    says why a publication is refused.
    """

    def __init__(
        self,
        advertised: Callable[[str], Collection[Filter] | None],
        refusal: Callable[[str, Notification], Refusal],
    ) -> None:
        self._advertised, self._refusal = advertised, refusal
        self._depends = Depends(Cells(), source=True)

    @property
    def depends(self) -> Depends:
        return self._depends

    def changed(self, *added: Filter) -> None:
        """The advertisements have changed; these are new ones."""
        self.version += 1
        for filter in added:
            self._depends.cells.add(filter)

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        advertised = self._advertised(who)
        if advertised is None or any(filter.matches(notification) for filter in advertised):
            return None
        return self._refusal(who, notification)
