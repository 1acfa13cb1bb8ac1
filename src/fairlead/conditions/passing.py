"""A condition judges a delivery once: one that comes again has passed, and passes."""

from __future__ import annotations

from typing import Final

from fairlead.conditions.condition import Condition
from fairlead.model import Notification

__all__ = ["Passing"]


class Passing:
    """The deliveries that a condition lets pass, of a subscriber to whom some come again.

    `ordinal` names a delivery that is to be accepted; 0: it is not, and does not come again.
    """

    __slots__ = ("_passed", "_suppression", "condition")

    def __init__(self, condition: Condition) -> None:
        self.condition: Final = condition
        self._suppression = condition.begin()
        self._passed: set[int] = set()
        """The ordinals that have passed and are not accepted."""

    def passes(self, notification: Notification, ordinal: int = 0) -> bool:
        """Whether a delivery is handed out. Ask in the order of delivery."""
        if ordinal in self._passed:
            return True
        if not self._suppression.passes(notification):
            return False
        if ordinal:
            self._passed.add(ordinal)
        return True

    def settled(self, ordinal: int) -> None:
        """A delivery does not come again."""
        self._passed.discard(ordinal)
