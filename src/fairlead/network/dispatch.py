"""Nothing goes on its way before it is safe, and what is safe goes in the order of the log.

What is to be logged is appended at once, and waits for the sync; so does all that must not overtake it. Then the
publisher or the neighbour is answered, and each destination gets it: one that is live at once, one that is behind
when it has read on to there. What the log has no room for is refused, or sent again by the neighbour it came from.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fairlead.broker import Broker
from fairlead.errors import DamagedLog, FairleadError, Gone, LogFull
from fairlead.log import Reader
from fairlead.log.records import ARRIVAL, PUBLICATION, notification_in, parse_arrival
from fairlead.model.order import identity_of
from fairlead.model.packed import unpack
from fairlead.network import wire
from fairlead.network.ledger import Ledger, Neighbour, State
from fairlead.network.sessions import (
    NO_OFFSET,
    ClientSession,
    Counters,
    Durable,
    Link,
    LinkSession,
    Session,
)
from fairlead.network.ways import Way, Ways

__all__ = ["Dispatch", "Taken"]

log: Final = logging.getLogger(__name__)

Taken: TypeAlias = tuple[Way | None, bytes, int]
"""A notification that has been taken, but not logged: where it goes, if it is new, its bytes, and its number."""


@dataclass(slots=True)
class Pending:
    """What happens when the log is safe up to and including an offset."""

    offset: int
    session: Session | None = None
    number: int = 0
    """Up to which the session is answered then."""
    entries: list[tuple[int, Way, bytes, int]] = field(default_factory=list)
    """What goes on its way then: its offset, where it goes, its bytes, its number."""
    known: list[Taken] = field(default_factory=list)
    """What was published before, and is answered all the same."""
    then: Callable[[], None] | None = None
    cursors: int = 0
    """How many changes of the log's cursors have to be safe as well."""


class Dispatch:
    """What waits for the log, and who is behind. Without a ledger nothing has to wait."""

    def __init__(
        self,
        broker: Broker,
        ledger: Ledger | None,
        *,
        state: State,
        counters: Counters,
        ways: Ways,
        links: Mapping[str, Link],
        durables: Mapping[str, Durable],
    ) -> None:
        self._broker, self._ledger, self._state, self._counters = broker, ledger, state, counters
        self._ways, self._links, self._durables = ways, links, durables
        self.reached = self.end
        """The first offset that has not been dispatched."""
        self.pending: Final[deque[Pending]] = deque()

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return 0 if self._ledger is None else self._ledger.log.end

    # -- in ----------------------------------------------------------------------------------------------------

    def commit(self, session: Session, taken: list[Taken], now: int) -> None:
        """Log what has been taken, and have it dispatched when it is safe, in order; `taken` is empty after."""
        if not taken:
            return
        mine, number = list(taken), max(each[2] for each in taken)
        taken.clear()
        new = [each for each in mine if each[0] is not None]
        self._counters.duplicates += len(mine) - len(new)
        logged = [each for each in new if each[2]] if self._ledger is not None else []
        offsets = iter(range(0))
        if logged:
            assert self._ledger is not None
            try:
                if isinstance(session, LinkSession):
                    offsets = iter(self._ledger.arrivals(session.name, [each[1:] for each in logged], now))
                else:
                    offsets = iter(self._ledger.publications_of([each[1] for each in logged], now))
            except LogFull as error:
                self._refuse(session, mine, error)
                return
            except BaseException:
                self._forget(session, mine)
                raise
        elif isinstance(session, LinkSession) and number:
            self._state.neighbours[session.name].received = number
        if isinstance(session, LinkSession):
            self._counters.received += len(new)
        else:
            self._counters.published += len(new)
        entries = [
            (next(offsets) if number and logged else NO_OFFSET, way, packed, number)
            for way, packed, number in mine
            if way is not None
        ]
        known = [each for each in mine if each[0] is None] if len(new) < len(mine) else []
        self.pending.append(Pending(self.end - 1, session, number, entries, known))

    def after_sync(self, then: Callable[[], None]) -> None:
        """Do this when all that has been logged is safe."""
        self.pending.append(Pending(self.end - 1, then=then))

    def after_saving(self, then: Callable[[], None] | None = None) -> None:
        """The same, when it is safe as well where the destinations are that have been saved."""
        cursors = 0 if self._ledger is None else self._ledger.log.cursors.version
        self.pending.append(Pending(self.end - 1, then=then, cursors=cursors))

    # -- out ---------------------------------------------------------------------------------------------------

    def synced(self, synced: int) -> None:
        """The log is safe below this offset: acknowledge what is in it, and let it go on its way."""
        pending, safe = self.pending, 0
        if self._ledger is not None:
            self._ledger.synced(synced)
            safe = self._ledger.log.cursors.safe
        answered: dict[Session, None] = {}
        while pending and (
            self._ledger is None or (pending[0].offset < synced and pending[0].cursors <= safe)
        ):
            each = pending.popleft()
            if each.session is not None and each.number:
                each.session.numbered = max(each.session.numbered, each.number)
                answered[each.session] = None
                if isinstance(each.session, LinkSession):
                    neighbour = self._state.neighbours.get(each.session.name, Neighbour())
                    neighbour.safe = max(neighbour.safe, each.number)
            for offset, way, packed, _ in each.entries:
                self._send_on(offset, way, packed)
            if isinstance(each.session, ClientSession) and not each.session.ended:
                for _, _, number in each.known:
                    each.session.tell(wire.Repeated(number))
            self.reached = max(self.reached, each.offset + 1)
            if each.then is not None:
                try:
                    each.then()
                except Exception:  # one who waits for the log must not keep it from the others
                    log.exception("what was to happen after a sync has failed")
        if not pending:
            self.reached = max(self.reached, synced)
        for session in answered:
            if not session.ended:
                session.stored()

    def _send_on(self, offset: int, way: Way, packed: bytes) -> None:
        try:
            way.dispatch(offset, packed)
        except Exception:
            # Whoever has got it by then knows that when it comes again; who has not gets it when it is back.
            log.exception("a notification could not be handed out")
            for session in way.sessions():
                session.end("the broker has failed")

    # -- who is behind ---------------------------------------------------------------------------------------

    def read_on(self, outbox: Durable | Link) -> None:
        """Let an outbox that is behind read on when it is its turn; one with nothing left to read is live."""
        session = outbox.session
        if session is None or outbox.live or not outbox.ready:
            return
        if self._ledger is None or outbox.looked >= self.reached:
            outbox.catch_up()
        elif outbox.room > 0 and not session.is_full:
            session.wait_for_turn()

    def turn(self, outbox: Durable | Link, at_most: int) -> int:
        """Read on, as far as there is room; how many records were looked at, which are `at_most` so many."""
        session, looked = outbox.session, 0
        while session is not None and not outbox.live and looked < at_most and not session.ended:
            if outbox.looked >= self.reached or outbox.room <= 0 or session.is_full:
                break
            before = outbox.looked
            try:
                self._read_some(outbox, session, min(at_most - looked, outbox.room, self.reached - before))
            except Gone as gone:
                self._pass_over(outbox, session, gone.first)
            looked += outbox.looked - before
        self.read_on(outbox)
        return looked

    def _read_some(self, outbox: Durable | Link, session: Session, at_most: int) -> None:
        """Send what concerns a destination of the next records, all of which have been dispatched."""
        reader = self._reader(outbox)
        for record in reader.read_chunk(at_most):
            packed = notification_in(record)
            if isinstance(outbox, Durable):
                head = outbox.head_for(unpack(packed), record.offset)
                if head is not None:
                    outbox.unconfirmed[record.offset] = None
                    session.send(wire.deliver(record.offset + 1, head, packed))
                    self._counters.delivered += 1
            elif (
                record.kind == PUBLICATION or parse_arrival(record).neighbour != outbox.name
            ) and outbox in self._ways.of(packed, "").links:
                outbox.send_kept(record.offset)
                outbox.send(record.offset, packed)
        if reader.offset == outbox.looked:
            raise DamagedLog(f"the record {reader.offset} of the log was safe, and is not there any more")
        outbox.looked = reader.offset

    def _reader(self, outbox: Durable | Link) -> Reader:
        assert self._ledger is not None
        reader = outbox.reader()
        if reader is None or reader.offset != outbox.looked:
            # It does not look at the log's marks, which may be behind: what has been dispatched was synced.
            reader = self._ledger.reader(outbox.looked, PUBLICATION, ARRIVAL, synced=False)
            outbox.reader(reader)
        return reader

    def _pass_over(self, outbox: Durable | Link, session: Session, first: int) -> None:
        """Retention was faster: it goes on with what is there, and learns how many records it may have missed."""
        missed, outbox.looked = first - outbox.looked, first
        outbox.close()
        self._counters.dropped += missed
        if isinstance(outbox, Link):
            outbox.lost += missed
        else:
            session.tell(wire.Dropped(missed))

    # -- no room -----------------------------------------------------------------------------------------------

    def log_is_full(self, error: LogFull, now: int) -> None:
        """What is safe goes on its way, what could be written waits on; the rest is refused."""
        assert self._ledger is not None
        self.synced(self._ledger.log.synced)
        end = self._ledger.take_back(now)
        for durable in self._durables.values():
            durable.take_back(end)
        waiting = list(self.pending)
        self.pending.clear()
        refused: set[tuple[str, str]] = set()
        for each in waiting:
            if each.offset >= end:
                # What is to happen when changes are safe happens when they are: they have been appended anew.
                each.offset = end - 1 if each.then is None else self.end - 1
                if isinstance(each.session, LinkSession):
                    self._take_back_arrivals(each, end, error)
                elif each.session is not None:
                    self._take_back_publications(each.session, each, end, refused, error)
            self.pending.append(each)  # at its place: what was written before it is answered before it

    def _take_back_publications(
        self, session: Session, pending: Pending, end: int, refused: set[tuple[str, str]], error: LogFull
    ) -> None:
        """Those of one turn that the log has no room for, and those that came again of what was refused."""
        gone: list[Taken] = [each[1:] for each in pending.entries if each[0] >= end]
        pending.entries = [each for each in pending.entries if each[0] < end]
        refused |= {identity_of(unpack(packed)) for _, packed, _ in gone}
        gone += [each for each in pending.known if refused and identity_of(unpack(each[1])) in refused]
        if gone:
            pending.number = 0
            self._refuse(session, gone, error)

    def _take_back_arrivals(self, pending: Pending, end: int, error: LogFull) -> None:
        """The neighbour sends again what it has not been told to be safe."""
        assert pending.session is not None
        name = pending.session.name
        pending.entries = [each for each in pending.entries if each[0] < end]
        neighbour = self._state.neighbours.get(name)
        if neighbour is None:
            pending.number = 0
            return
        links = [each for each in self.pending if isinstance(each.session, LinkSession)]
        before = [each.number for each in links if each.session is not None and each.session.name == name]
        written = [place for offset, _, _, place in pending.entries if offset != NO_OFFSET]
        pending.number = neighbour.received = max([neighbour.safe, *before, *written])
        link = self._links.get(name)
        if link is not None and link.session is not None:
            link.session.end(str(error))

    def _refuse(self, session: Session, taken: Iterable[Taken], error: FairleadError) -> None:
        """The log has no room: publishers are told, neighbours will send it again.

        The connection ends with it: if what follows were taken while what is refused comes once more, because its
        publisher did not get to know, the two would change places.
        """
        taken = list(taken)
        self._forget(session, taken)
        if isinstance(session, ClientSession) and not session.ended:
            for number in filter(None, (each[2] for each in taken)):
                self._counters.refused += 1
                session.tell(wire.Refused(number, str(error)))
        session.end(str(error))

    def _forget(self, session: Session, taken: Iterable[Taken]) -> None:
        """It is in no log: whoever publishes it again does so for the first time."""
        if isinstance(session, ClientSession):
            for way, packed, _ in taken:
                if way is not None:
                    self._broker.forget(unpack(packed))
