"""The wills of clients: what is published when one is lost.

A client is lost when its connection ends without a goodbye, and nobody of its name is back in time.

A will is admitted as the client's own publication, when the client is lost, by the rights that it has then. It is
in the log from the connection on, so that it outlives the broker's process: a broker that is started again gives
the clients that it had some time to come back. It has one identity, so it is published once.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from fairlead.broker import Broker
from fairlead.errors import ProtocolError, ValueRefused
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network.bounds import check_identity, check_notification
from fairlead.network.guard import Guard, principal_from_json, principal_to_json
from fairlead.network.ledger import Willed
from fairlead.network.own import OwnPublications
from fairlead.network.persistence import Persistence
from fairlead.network.settings import Limits
from fairlead.rules import Refusal

if TYPE_CHECKING:
    from fairlead.network.client_sessions import ClientSession
    from fairlead.network.dispatch import Dispatch

__all__ = ["Wills"]

log: Final = logging.getLogger(__name__)

GRACE_US: Final = 15_000_000
"""The time that the clients of a broker's last process have for coming back."""
AGAIN_US: Final = 1_000_000
"""When a will is published again, for which the log had no room."""
DELAY_MAX: Final = 1 << 52


@dataclass(frozen=True, slots=True)
class _Due:
    """A will whose client is lost."""

    will: Willed
    admitted: Notification | None
    """None: the client was lost with the process of the broker, and it is admitted when it is published."""
    at: int


class Wills:
    """The wills of a broker's clients."""

    def __init__(
        self,
        broker: Broker,
        limits: Limits,
        persistence: Persistence,
        *,
        own: OwnPublications,
        guard: Guard,
        dispatch: Dispatch,
    ) -> None:
        self._broker, self._limits, self._persistence = broker, limits, persistence
        self._own, self._guard, self._dispatch = own, guard, dispatch
        self._due: dict[str, _Due] = {}
        self._is_closed = False

    def recall(self, now: int) -> None:
        """Those of clients that were connected, or lost, when the broker's last process ended."""
        for name, will in self._persistence.state.wills.items():
            self._due[name] = _Due(will, None, now + max(will.delay, GRACE_US))

    def begin(self, session: ClientSession, packed: bytes, delay: int, now: int) -> None:
        """A client is there, perhaps again, with this will or with none. ProtocolError: it is no publication."""
        self.back(session.name, now)
        if not packed:
            return
        try:
            check_notification(packed, self._limits)
            will = unpack(packed)
            will = replace(will, producer=will.producer or session.name)
            will = will if will.id is not None else replace(will, id=f"will-{uuid.uuid4().hex}")
            check_identity(will.producer, will.id or "", self._limits)
        except ValueRefused as error:
            raise ProtocolError(f"the will cannot be published: {error}") from None
        if not 0 <= delay <= DELAY_MAX:
            raise ProtocolError("the delay of a will is a number of microseconds")
        principal = self._guard.principal(session.client)
        session.will = Willed(
            session.name, pack(will), delay, principal_to_json(principal) if self._guard.is_on else ""
        )
        self._note(session.will, now)

    def back(self, name: str, now: int) -> None:
        """A client of this name is there: what was left for the case that it is not, is nothing any longer."""
        due = self._due.pop(name, None)
        if due is not None and due.admitted is not None:
            self._broker.forget(due.admitted)
        if name in self._persistence.state.wills:
            self._note(Willed(name, b""), now)

    def revoke(self, session: ClientSession, now: int) -> None:
        """A client takes its will back: it says goodbye."""
        if session.will is not None:
            session.will = None
            self._note(Willed(session.name, b""), now)

    def lost(self, session: ClientSession, now: int) -> None:
        """A connection has ended. Its client has its rights, and what it has advertised, until this returns."""
        will, session.will = session.will, None
        if will is None or self._is_closed:
            return
        admitted = self._admitted(will, now)
        if admitted is not None:
            self._due[will.client] = _Due(will, admitted, now + will.delay)
            if not will.delay:
                self._publish(will.client, now)

    def hurry(self, name: str, now: int) -> None:
        """Publish the will of a client that is lost at once, if it has one."""
        if name in self._due:
            self._publish(name, now)

    def tick(self, now: int) -> None:
        """From time to time: publish what is due."""
        for name, due in [*self._due.items()]:
            if due.at <= now:
                self._publish(name, now)

    def close(self) -> None:
        """The broker stops: its clients have done nothing that a will is for."""
        self._is_closed = True

    def _admitted(self, will: Willed, now: int) -> Notification | None:
        """A will as the seam admits it; None, where it is refused, or was published."""
        notification = unpack(will.packed)
        client = f"c:{will.client}"
        admitted = self._broker.seam.take(client, notification, self._broker.identities, now)
        if isinstance(admitted, Notification):
            return admitted
        if isinstance(admitted, Refusal):
            log.warning("the will of %s is refused: %s", will.client, admitted.reason)
            self._guard.refused(client, admitted.reason)
        self._note(Willed(will.client, b""), now)
        return None

    def _recalled(self, will: Willed, now: int) -> Notification | None:
        """One of a client that was lost with the process of the broker: by the rights of its principal now."""
        client = f"c:{will.client}"
        if self._guard.is_on:
            self._guard.bind(client, principal_from_json(will.principal), now)
        try:
            return self._admitted(will, now)
        finally:
            if self._guard.is_on:
                self._guard.unbind(client)

    def _publish(self, name: str, now: int) -> None:
        due = self._due.pop(name)
        admitted = due.admitted or self._recalled(due.will, now)
        if admitted is None:
            return

        def published() -> None:
            if (
                self._persistence.state.wills.get(name) is due.will
            ):  # and no other one of a client that is back
                self._note(Willed(name, b""), now)

        def failed() -> None:
            self._due.setdefault(name, replace(due, admitted=None, at=now + AGAIN_US))

        self._own.publish_admitted(admitted, now, then=published, failed=failed)

    def _note(self, will: Willed, now: int) -> None:
        self._persistence.note(will, now)
        self._dispatch.after_sync(_nothing)  # and not only when something else is synced


def _nothing() -> None:
    """It is safe."""
