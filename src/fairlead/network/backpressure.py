"""Backpressure: what is for a destination that cannot keep up, and is to miss nothing, waits where it comes from.

A blocking destination is a client with the policy `block`, or a neighbour. A connection is blocked when its first
frame is for one. Publications that are logged wait for no neighbour: the neighbour reads them in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from fairlead.network import wire
from fairlead.network.inflow import Event, Frame
from fairlead.network.outflow import Step
from fairlead.network.relays import Relays

if TYPE_CHECKING:
    from fairlead.network.client_sessions import ClientSession
    from fairlead.network.destinations import Link
    from fairlead.network.router import Router
    from fairlead.network.sessions import Session

__all__ = ["TICKS", "Backpressure", "Stuck"]

TICKS: Final = 4
"""So many ticks are a second.

Ticks are counted and not seconds: a process that was itself stopped, or busy, for a while has had only one."""


class Stuck:
    """For how many ticks a destination that blocks others has not moved."""

    __slots__ = ("_progress", "_ticks")

    def __init__(self) -> None:
        self._ticks = 0
        self._progress: object = None

    def has_lasted(self, seconds: int, progress: object, *, is_stuck: bool = True) -> bool:
        """Whether others have waited for so long; called with every tick, with what changes when it moves."""
        self._ticks = self._ticks + 1 if is_stuck and progress == self._progress else 0
        self._progress = progress
        return self._ticks >= seconds * TICKS


class Backpressure:
    """The blocking destinations of one broker, and the connections that are blocked."""

    def __init__(self, router: Router, *sessions: Mapping[str, Session], is_logged: bool) -> None:
        self._router, self._sessions, self._is_logged = router, sessions, is_logged
        self.blocking: set[ClientSession | Link] = set()
        """An index of those whose outflow is blocking: whether there are any is asked with every frame."""

    def block(self, target: ClientSession | Link) -> None:
        """A destination cannot keep up, and is to miss nothing: what is for it waits from now on."""
        if not target.outflow.is_blocking:
            self.blocking.add(target)
            target.outflow.on(Step.BLOCK)
            target.stuck = Stuck()

    def unblock(self, target: ClientSession | Link) -> None:
        """The destination has caught up or disconnected: unblock the connections that wait for it."""
        if target in self.blocking:
            self.blocking.discard(target)
            for session in self._blocked():
                session.inflow.on(Event.UNBLOCK)
                session.follow_inflow()

    def look_after(self) -> None:
        """With every tick: nobody waits for ever."""
        for target in list(self.blocking):
            target.look_after()

    def _blocked(self) -> list[Session]:
        return [each for some in self._sessions for each in some.values() if each.inflow.is_blocked]

    @property
    def blocked(self) -> int:
        """The number of connections that a slow destination blocks."""
        return len(self._blocked())

    def pass_on(self, session: Session, frames: Iterable[Frame], waiting: list[Frame]) -> Iterator[Frame]:
        """The frames before the first notification for a blocking destination; the rest is `waiting`."""
        is_waiting = not session.inflow.is_open
        for frame in frames:
            if frame[0] in session.passing:
                yield frame
            elif is_waiting or self.blocks(session, *frame):
                is_waiting = True
                waiting.append(frame)
            else:
                yield frame

    def blocks(self, session: Session, kind: int, payload: bytes) -> bool:
        """Whether a frame has to wait for one of its destinations."""
        source = session.source
        try:
            if kind == wire.RELAYS:
                fanouts = [fanout for fanout, _ in self._router.of_all(Relays.read(payload), source)]
                number = 0
            elif kind == wire.PUBLISH:
                number, packed = wire.parse_numbered(payload)
                fanouts = [self._router.of(packed, source)]
            elif kind == wire.RELAY:
                number, packed = wire.parse_relay(payload)
                fanouts = [self._router.of(packed, source)]
            elif kind == wire.TRANSACTION:
                number, transaction = wire.parse_transaction(payload)
                fanouts = [self._router.of(each, source) for each in transaction.publications]
            else:
                return False
        except Exception:
            return False  # it goes nowhere, and is refused with the reason
        is_logged = number > 0 and self._is_logged
        return any(
            target.outflow.is_blocking
            for fanout in fanouts
            for target in (*(() if is_logged else fanout.links), *(each.target for each in fanout.recipients))
        )
