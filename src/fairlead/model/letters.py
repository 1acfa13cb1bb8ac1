"""The form of dead letters, as all packages know it; `delivery.dead_letters` writes them."""

from __future__ import annotations

from typing import Final

from fairlead.errors import ValueRefused
from fairlead.model.notification import Notification

__all__ = ["DEAD", "died_in"]

DEAD: Final = "dead"
"""The type of dead letters, and the beginning of their producers' names."""
_PRODUCERS: Final = f"{DEAD}/"


def died_in(notification: Notification) -> Notification | None:
    """The notification that a dead letter is about; None where it is no letter, or one that somebody forged."""
    if not notification.producer.startswith(_PRODUCERS) or notification.get("type") != DEAD:
        return None
    content = notification.content.get("notification")
    if not isinstance(content, dict):
        return None
    try:
        return Notification.of(content)
    except ValueRefused:
        return None
