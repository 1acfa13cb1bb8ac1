"""A client that goes from broker to broker: how often it has, and what it takes along.

The durable subscribers of a client follow it, because a durable name is one name in the whole network
(`fairlead.network.handover`). A client that roams has durable names for its other subscriptions, too, with a
lease: without one, what is published while it is between two brokers would be nobody's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import sha256
from itertools import count
from typing import Final, NamedTuple

import msgspec

from fairlead.errors import ValueRefused
from fairlead.network.arguments import Patience, lease_of

__all__ = ["MovedOut", "Roaming"]

ROAMING: Final = "roaming"
"""The beginning of the durable names of subscriptions that have none of their own."""


class MovedOut(NamedTuple):
    """The name and the moves of a client, for the one that goes on elsewhere: `connect(…, moved_from=…)`. As text,
    it can be sent or kept."""

    name: str
    moves: int
    broker: str
    connections: int

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def of(cls, given: MovedOut | str) -> MovedOut:
        """The value, of itself or of its text; ValueRefused for any other text."""
        if isinstance(given, MovedOut):
            return given
        try:
            return msgspec.json.decode(given, type=cls)
        except (msgspec.MsgspecError, TypeError):
            raise ValueRefused(
                f"nobody moved out with {given!r}", hint="moved_from is what client.move_out() returned"
            ) from None


class Roaming:
    """The moves of one client."""

    def __init__(self, roams: Patience, moved_from: MovedOut | str | None) -> None:
        self.lease_us = 0 if roams is None else lease_of(ROAMING, roams)
        """The time for which brokers keep what is for it while it is nowhere; 0: it does not roam."""
        before = None if moved_from is None else MovedOut.of(moved_from)
        self.name = "" if before is None else before.name
        self.moves = 0 if before is None else before.moves
        """The number of times it has gone to another broker."""
        self.connections = 0 if before is None else before.connections
        """The number of connections that it has opened."""
        self._broker = "" if before is None else before.broker
        self.has_published = before is not None
        """Whether something may be on its way that it published at a broker before."""
        self.is_moving = self.is_leaving = False

    @property
    def roams(self) -> bool:
        """Whether it may go to any of its brokers."""
        return self.lease_us > 0 or self.is_moving

    def arrive(self, broker: str) -> bool:
        """It is connected with this broker; whether it has moved, to another one than before. A client that does
        not roam is a new one there."""
        has_moved = (self.roams or self.moves > 0 or bool(self.name)) and self._broker not in ("", broker)
        self._broker = broker
        self.moves += has_moved
        self.is_moving = False
        return has_moved

    def durable_name(self, client: str, subscribed: str, known: Callable[[str], Collection[object]]) -> str:
        """The durable name of a subscription that has none: the same in whoever goes on for this client."""
        named = f"{ROAMING}:{client}:{sha256(subscribed.encode()).hexdigest()[:16]}"
        number = next(number for number in count(1) if not known(f"{named}:{number}"))
        return f"{named}:{number}"

    def move_out(self, name: str) -> MovedOut:
        """The value for who goes on."""
        self.is_leaving = True
        return MovedOut(name, self.moves, self._broker, self.connections)
