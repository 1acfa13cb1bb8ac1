"""The packets that are under way in one session, in either direction: a state machine without input and output.

Outward, a delivery at QoS 1 is `SENT` until PUBACK. One at QoS 2 is `SENT` until PUBREC, then `RELEASED` until
PUBCOMP. It is accepted when the client has it: with PUBACK, or with PUBREC. No more than the client's receive
maximum are under way; the others wait, in their order. Inward, a publication at QoS 2 is `TAKEN` until it is safe,
then `SAFE` until PUBREL: its packet id names this publication alone, and what comes again under it is published
under the same name, so that it is known.

The law: over any number of lost connections, each delivery at QoS 2 is handed to the client's application once,
and each publication at QoS 2 is published once.

Way not taken: an entry for each packet with a flag for each thing that may have happened to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

__all__ = ["Accept", "Effect", "Flow", "Inward", "Outward", "Publish", "Release"]

IDS: Final = 65_535
"""The number of packet ids."""


class Outward(Enum):
    """The states of a delivery that is under way."""

    LOST = "lost"
    """It was sent over a connection that has ended, and comes again."""
    SENT = "sent"
    RELEASED = "released"


class Inward(Enum):
    """The states of a publication at QoS 2."""

    TAKEN = "taken"
    SAFE = "safe"


@dataclass(frozen=True, slots=True)
class Publish:
    """Send a delivery, under this packet id; `is_again`: it may have been sent before."""

    id: int
    content: Any
    is_again: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Send PUBREL."""

    id: int


@dataclass(frozen=True, slots=True)
class Accept:
    """The client has the delivery of this key."""

    key: Hashable


Effect: TypeAlias = Publish | Release | Accept


@dataclass(slots=True)
class _Sending:
    key: Hashable
    qos: int
    state: Outward = Outward.SENT


class Flow:
    """The packet ids of a session, which outlives connections."""

    def __init__(self) -> None:
        self.receive_max = IDS
        """The number of deliveries that may be under way to the client."""
        self._sending: dict[int, _Sending] = {}
        self._id_of: dict[Hashable, int] = {}
        """By the key of a delivery that may come again, its packet id."""
        self._waiting: deque[tuple[Hashable, int, Any, bool, int]] = deque()
        self.size = 0
        """The size of what waits until less is under way."""
        self._open = 0
        self._last = 0
        self._taking: dict[int, tuple[Inward, str]] = {}
        """By packet id, the state of a publication, and the name that it is published under."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing is under way, or waits."""
        return not (self._sending or self._waiting or self._taking)

    # -- outward -----------------------------------------------------------------------------------------------

    def deliver(
        self, key: Hashable, qos: int, content: Any, *, is_again: bool = False, size: int = 0
    ) -> list[Effect]:
        """A delivery at QoS 1 or 2. Its key is the same when it comes again."""
        known = self._id_of.get(key)
        if known is not None and self._sending[known].state is Outward.SENT:
            return []  # it is under way
        self._waiting.append((key, qos, content, is_again, size))
        self.size += size
        return self._send()

    def _send(self) -> list[Effect]:
        effects: list[Effect] = []
        while self._waiting and self._open < self.receive_max:
            key, qos, content, is_again, size = self._waiting[0]
            known = self._id_of.get(key)
            if known is None and len(self._sending) == IDS:
                break
            self._waiting.popleft()
            self.size -= size
            if known is None:
                known = self._next_id()
                self._sending[known] = _Sending(key, qos)
                self._id_of[key] = known
            else:
                self._sending[known].state, is_again = Outward.SENT, True
            self._open += 1
            effects.append(Publish(known, content, is_again))
        return effects

    def _next_id(self) -> int:
        while True:
            self._last = self._last % IDS + 1
            if self._last not in self._sending:
                return self._last

    def acknowledged(self, id: int) -> list[Effect]:
        """PUBACK."""
        sending = self._sending.get(id)
        if sending is None or sending.qos != 1 or sending.state is not Outward.SENT:
            return []
        self._end(id)
        return [Accept(sending.key), *self._send()]

    def received(self, id: int, *, is_refused: bool = False) -> list[Effect] | None:
        """PUBREC; None: nothing is known of this packet id. A client that refuses a delivery has dealt with it."""
        sending = self._sending.get(id)
        if sending is None or sending.qos != 2:
            return None
        if sending.state is Outward.RELEASED:
            return [Release(id)]
        if sending.state is Outward.LOST:
            return None
        self._id_of.pop(sending.key, None)
        if is_refused:
            self._end(id)
            return [Accept(sending.key), *self._send()]
        sending.state = Outward.RELEASED
        return [Accept(sending.key), Release(id)]

    def completed(self, id: int) -> list[Effect]:
        """PUBCOMP."""
        sending = self._sending.get(id)
        if sending is None or sending.state is not Outward.RELEASED:
            return []
        self._end(id)
        return self._send()

    def dropped(self, id: int) -> list[Effect]:
        """It cannot be sent to this client: it is done with as if the client had it."""
        key = self._sending[id].key
        self._end(id)
        return [Accept(key), *self._send()]

    def _end(self, id: int) -> None:
        self._id_of.pop(self._sending.pop(id).key, None)
        self._open -= 1

    def lost(self) -> None:
        """The connection has ended. What the client has not acknowledged comes again, under its packet id."""
        self._waiting.clear()
        self._open = self.size = 0
        for sending in self._sending.values():
            if sending.state is Outward.SENT:
                sending.state = Outward.LOST

    def resumed(self, receive_max: int) -> list[Effect]:
        """The client is back: what it has received is released once more, before anything else is sent."""
        self.receive_max = receive_max
        released = [id for id, each in self._sending.items() if each.state is Outward.RELEASED]
        self._open = len(released)
        return [Release(id) for id in released]

    # -- inward ------------------------------------------------------------------------------------------------

    def take(self, id: int, name: str) -> str | None:
        """PUBLISH at QoS 2: the name to publish it under, the given one for a new one; None: it is safe."""
        state, known = self._taking.setdefault(id, (Inward.TAKEN, name))
        return known if state is Inward.TAKEN else None

    def made_safe(self, id: int) -> None:
        """It is in the log: PUBREC says so."""
        if id in self._taking:
            self._taking[id] = Inward.SAFE, ""

    def refused(self, id: int) -> None:
        """It was not published: its packet id is free."""
        self._taking.pop(id, None)

    def released(self, id: int) -> bool:
        """PUBREL; whether the packet id was known."""
        return self._taking.pop(id, None) is not None

    @property
    def taken(self) -> int:
        """The number of publications at QoS 2 that are under way."""
        return len(self._taking)
