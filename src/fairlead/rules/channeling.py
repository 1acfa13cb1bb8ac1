"""The rule of channels: which quality of service a notification has, decided once, where it is published.

The answer follows from the content of a notification: all brokers with the same channels give the same one. What
depends on more than that, such as the time at which something was published, is marked on the notification, and
travels with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fairlead.channels import Channels, Expires, Priority
from fairlead.channels.channel import EXPIRES_MARK, PRIORITY_MARK
from fairlead.model import Instant, Notification
from fairlead.rules.rule import Depends, Rule

__all__ = ["Channeling"]

CLIENT: Final = "c:"
_NOTHING: Final = Depends()


class Channeling(Rule):
    """The channels of a bus or of a network of brokers.

    What a channel retains has a time: values of several producers are compared by it, at several brokers.
    """

    def __init__(self, channels: Channels) -> None:
        self.channels: Channels = channels
        # What is marked is looked at one by one; neutral channels leave all paths as they are.
        self._of_clients = _NOTHING if channels.are_neutral else replace(_NOTHING, volatile=True)

    def depends_for(self, source: str) -> Depends:
        return self._of_clients if source.startswith(CLIENT) else _NOTHING

    def mark(self, notification: Notification, now: int) -> Notification:
        if self.channels.are_neutral:
            return notification
        channel = self.channels.of(notification)
        if channel is None:
            return notification
        if channel.prior is not None:
            notification = self._with_priority(notification, channel.prior)
        if channel.expiry is not None:
            notification = self._with_expiry(notification, channel.expiry, now)
        if channel.retain is None or notification.time is not None or not now:
            return notification
        return notification.stamped(Instant(now))

    @staticmethod
    def _with_priority(notification: Notification, priority: Priority) -> Notification:
        """The same holds for a priority; a name that is the mark's own is no other attribute."""
        if priority.attribute and PRIORITY_MARK in notification.attributes:
            return notification
        return notification.marked(PRIORITY_MARK, priority.of(notification))

    @staticmethod
    def _with_expiry(notification: Notification, expires: Expires, now: int) -> Notification:
        """A channel that says one duration for all prescribes; otherwise what the publisher said stays."""
        if expires.attribute and EXPIRES_MARK in notification.attributes:
            return notification
        until = expires.of(notification, now)
        return notification if until is None else notification.marked(EXPIRES_MARK, Instant(until))
