"""Drives the program of publications (`fairlead.broker.publications`) over the ledger and the sessions.

What is to be logged is appended at once, and waits for the sync; so does all that must not overtake it. Then the
publisher or the neighbour is answered, and each destination gets it: one that is live at once, one that is behind
when it has read on to there (`catch_up`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

from fairlead.broker.publications import (
    NO_OFFSET,
    AcknowledgeAll,
    AnswerDuplicates,
    Append,
    Entry,
    Pending,
    Publications,
    Run,
    SendOn,
)
from fairlead.errors import LogFull
from fairlead.model.order import Identity
from fairlead.network.destinations import Durable
from fairlead.network.ledger import Ledger
from fairlead.network.once import Once
from fairlead.network.router import Fanout
from fairlead.network.sessions import Counters, Session
from fairlead.network.tracing import Tracing

__all__ = ["Dispatch", "Taken"]

log: Final = logging.getLogger(__name__)
_number: Final = itemgetter(2)
_fanout: Final = itemgetter(1)

Taken: TypeAlias = Entry[Fanout, bytes]
"""A notification that was admitted, or has arrived, and is not in the log yet."""


class _LedgerLog:
    """The ledger as the program sees it: publications of clients, and arrivals from neighbours."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @property
    def end(self) -> int:
        return self._ledger.log.end

    def append(self, origin: Session, records: list[tuple[bytes, int]], now: int) -> range:
        return origin.append_to(self._ledger, records, now)


class Dispatch:
    """The notifications that wait for the log to be synced. Without a ledger none waits."""

    def __init__(
        self,
        ledger: Ledger | None,
        once: Once,
        *,
        counters: Counters,
        durables: Mapping[str, Durable],
        tracing: Tracing,
    ) -> None:
        self._tracing = tracing
        self._ledger, self._once, self._counters, self._durables = ledger, once, counters, durables
        self._publications: Publications[Session, Fanout, bytes] = Publications(
            None if ledger is None else _LedgerLog(ledger)
        )
        self.retain: Callable[[bytes, int], object] | None = None
        """Retains what clients have published here, where channels say so."""
        self.pending: Final[deque[Pending[Session, Fanout, bytes]]] = self._publications.pending
        """Publications that wait for the log."""
        if ledger is not None and ledger.log.synced < ledger.log.end:  # opened on a full disk
            self._publications.reached = ledger.log.synced
            self._publications.after_sync(None)

    @property
    def reached(self) -> int:
        """The first offset that has not been sent on."""
        return self._publications.reached

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self._publications.end

    # -- in ----------------------------------------------------------------------------------------------------

    def commit(
        self, session: Session, taken: list[Taken], now: int, append: Append[bytes] | None = None
    ) -> bool:
        """Log what has been taken, and have it sent on when it is synced, in order; `taken` is empty after.

        False: the log has no room for it, and it is refused.
        """
        if not taken:
            return True
        mine = list(taken)
        taken.clear()
        if self._once.spans is not None:
            self._once.spans.taken(mine, now)
        try:
            new = self._publications.commit(session, mine, now, append)
        except LogFull as error:
            self._refuse(session, mine, error)
            return False
        except BaseException:
            session.forget(mine)
            raise
        else:
            self._counters.duplicates += len(mine) - new
            session.took(new, max(map(_number, mine)))
            return True

    def after_sync(self, then: Callable[[], None]) -> None:
        """Do this when all that has been logged is synced."""
        self._publications.after_sync(then)

    def after_saving(self, then: Callable[[], None] | None = None) -> None:
        """The same, when the cursors of the destinations that have been saved are synced as well."""
        self._publications.after_sync(then, 0 if self._ledger is None else self._ledger.log.cursors.version)

    # -- out ---------------------------------------------------------------------------------------------------

    def synced(self, synced: int) -> None:
        """The log is synced below this offset: perform the effects that waited for it."""
        cursors = 0
        if self._ledger is not None:
            self._ledger.synced(synced)
            cursors = self._ledger.log.cursors.synced
        for effect in self._publications.synced(synced, cursors):
            self._CARRY_OUT[type(effect)](self, effect)

    def _send_on(self, effect: SendOn[Session, Fanout, bytes]) -> None:
        tracer = self._tracing.tracer
        if tracer is not None and not effect.origin.logs_relays:
            for offset, _, content, _ in effect.entries:
                if offset != NO_OFFSET:
                    tracer.published(content)
        if self.retain is not None and not effect.origin.logs_relays:
            for offset, _, content, _ in effect.entries:
                self.retain(content, offset)
        for fanout, records in groupby(effect.entries, _fanout):
            try:
                self._once.send_records(fanout, [*records], are_relayed=effect.origin.logs_relays)
            except Exception:
                # A destination that has got one recognises the duplicate; the others get it when they are back.
                log.exception("notifications could not be handed out")
                for session in fanout.sessions():
                    session.end("the broker has failed")

    def _answer_duplicates(self, effect: AnswerDuplicates[Session, Fanout, bytes]) -> None:
        effect.origin.answer_duplicates(effect.entries)

    def _acknowledge(self, effect: AcknowledgeAll[Session]) -> None:
        effect.origin.acknowledge(effect.number)

    def _run(self, effect: Run) -> None:
        try:
            effect.then()
        except Exception:  # others wait for the log, too
            log.exception("what was to happen after a sync has failed")

    _CARRY_OUT: Final[dict[type, Callable[[Any, Any], None]]] = {
        SendOn: _send_on,
        AnswerDuplicates: _answer_duplicates,
        AcknowledgeAll: _acknowledge,
        Run: _run,
    }

    # -- no room -----------------------------------------------------------------------------------------------

    def log_is_full(self, error: LogFull, now: int) -> None:
        """The disk is full: forward synced notifications, retain written ones, refuse the rest."""
        assert self._ledger is not None
        self.synced(self._ledger.log.synced)
        end = self._ledger.take_back(now)
        for durable in self._durables.values():
            durable.take_back(end)
        refused: set[Identity] = set()
        for pending, gone in self._publications.take_back(end):
            session = pending.origin
            assert session is not None
            if lost := session.take_back(pending, gone, self.pending, refused, error):
                pending.number = 0
                self._refuse(session, lost, error)

    def _refuse(self, session: Session, taken: Iterable[Taken], error: LogFull) -> None:
        """The log has no room: publishers are told, neighbours will send it again.

        The connection ends with it: if what follows were taken while what is refused comes once more, because its
        publisher did not get to know, the two would change places.
        """
        taken = list(taken)
        if self._once.spans is not None:
            self._once.spans.refused(taken)
        session.forget(taken)
        session.refuse(taken, str(error))
        session.end(str(error))
