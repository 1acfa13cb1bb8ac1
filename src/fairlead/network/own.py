"""The publications of a broker itself, such as dead letters: logged and sent on as those of its clients are.

They are no client's: rules about who may publish what do not concern them. Where they go is the seam's answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from fairlead.broker import Broker
from fairlead.broker.publications import Entry, Pending
from fairlead.errors import LogFull
from fairlead.model import Notification
from fairlead.model.order import Identity, identity_of
from fairlead.model.packed import pack, unpack
from fairlead.network.inflow import Inflow
from fairlead.network.peers import GONE
from fairlead.network.router import Fanout, Router
from fairlead.network.sessions import Outgoing, Session

if TYPE_CHECKING:
    from fairlead.network.destinations import Durable, Link
    from fairlead.network.dispatch import Dispatch
    from fairlead.network.ledger import Ledger

__all__ = ["OwnPublications"]

log: Final = logging.getLogger(__name__)


class OwnPublications(Session):
    """The broker as a publisher: a session without a connection, which never ends."""

    def __init__(self, outgoing: Outgoing, broker: Broker, router: Router, dispatch: Dispatch) -> None:
        super().__init__(outgoing, GONE, broker.name, Inflow("client"), lambda session: None)
        self._broker, self._router, self._dispatch = broker, router, dispatch
        self._number = 0
        self._then: dict[int, tuple[Callable[[], None], Callable[[], None]]] = {}

    def publish(
        self,
        notification: Notification,
        now: int,
        *,
        then: Callable[[], None] = lambda: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Publish; `then` is called when it is safe, or was so before, and `failed` when the log has no room."""
        if self._broker.identities.take(notification) is None:
            then()
        else:
            self.publish_admitted(notification, now, then=then, failed=failed)

    def publish_admitted(
        self,
        notification: Notification,
        now: int,
        *,
        then: Callable[[], None] = lambda: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """The same with what has been admitted, and whose identity is remembered."""
        self._number += 1
        number = self._number
        marked = self._broker.seam.mark(notification, now)
        try:
            fanout = self._router.fanout(marked, "")
        except BaseException:
            self._broker.identities.forget(identity_of(notification))
            raise
        self._then[number] = (then, failed)
        self._dispatch.commit(self, [(fanout, pack(marked), number)], now)

    def append_to(self, ledger: Ledger, records: list[tuple[bytes, int]], now: int) -> range:
        return ledger.publications_of([packed for packed, _ in records], now)

    def took(self, new: int, number: int) -> None:
        self._counters.published += new

    def acknowledge(self, number: int) -> None:
        for each in [each for each in self._then if each <= number]:
            self._then.pop(each)[0]()

    def answer_duplicates(self, entries: Iterable[Entry[Fanout, bytes]]) -> None:
        """There are none: what is known is not committed."""

    def forget(self, entries: Iterable[Entry[Fanout, bytes]]) -> None:
        for _, packed, _ in entries:
            self._broker.identities.forget(identity_of(unpack(packed)))

    def refuse(self, entries: Iterable[Entry[Fanout, bytes]], reason: str) -> None:
        for _, _, number in entries:
            if number in self._then:
                log.warning("%s could not publish: %s", self._outgoing.broker, reason)
                self._then.pop(number)[1]()

    def take_back(
        self,
        pending: Pending[Session, Fanout, bytes],
        gone: list[tuple[int, Fanout, bytes, int]],
        earlier: Iterable[Pending[Session, Fanout, bytes]],
        refused: set[Identity],
        error: LogFull,
    ) -> list[Entry[Fanout, bytes]]:
        return [each[1:] for each in gone]

    def end(self, reason: str, *, is_final: bool = False) -> None:
        """It does not end."""

    @property
    def source(self) -> str:
        return ""

    def outboxes(self) -> list[Durable | Link]:
        return []

    def drained(self) -> None:
        """Nothing is sent to it."""

    def look_at_answers(self) -> None:
        """Nothing is sent to it."""
