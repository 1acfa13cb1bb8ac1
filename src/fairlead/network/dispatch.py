"""Nothing goes on its way before it is safe, and what is safe goes in the order of the log.

What is to be logged is appended at once, and waits for the sync; so does all that must not overtake it. Then the
publisher or the neighbour is answered, and each destination gets it: one that is live at once, one that is behind
when it has read on to there. What the log has no room for is refused, or sent again by the neighbour it came from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fairlead.broker import Broker
from fairlead.errors import FairleadError, LogFull
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

READ_AT_ONCE: Final = 256

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

    # -- out ---------------------------------------------------------------------------------------------------

    def synced(self, synced: int) -> None:
        """The log is safe below this offset: acknowledge what is in it, and let it go on its way."""
        if self._ledger is not None:
            self._ledger.synced(synced)
        pending = self.pending
        answered: dict[Session, None] = {}
        durable = self._ledger is not None
        while pending and (pending[0].offset < synced or not durable):
            each = pending.popleft()
            if each.session is not None and each.number:
                each.session.numbered = max(each.session.numbered, each.number)
                answered[each.session] = None
                if isinstance(each.session, LinkSession):
                    neighbour = self._state.neighbours.get(each.session.name, Neighbour())
                    neighbour.safe = max(neighbour.safe, each.number)
            for offset, way, packed, _ in each.entries:
                way.dispatch(offset, packed)
            self.reached = max(self.reached, each.offset + 1)
            if each.then is not None:
                each.then()
        self.reached = max(self.reached, synced)
        for session in answered:
            if not session.ended:
                session.stored()

    def read_on(self, outbox: Durable | Link) -> None:
        """Let an outbox that is behind read on, as far as there is room."""
        session = outbox.session
        if session is None or (isinstance(outbox, Link) and not outbox.ready):
            return
        if self._ledger is None:
            outbox.live = True
            return
        while not outbox.live and outbox.has_room and not session.is_full and not session.ended:
            if outbox.looked >= self.reached:
                outbox.live = True
                outbox.close()
                return
            reader = outbox.reader()
            if reader is None or reader.offset != outbox.looked:
                first = max(outbox.looked, self._ledger.log.first)
                reader = outbox.reader(self._ledger.reader(first, PUBLICATION, ARRIVAL))
                assert reader is not None
            room = min(READ_AT_ONCE, outbox.window - len(outbox.unconfirmed))
            records = [each for each in reader.read(room) if each.offset < self.reached]
            for record in records:
                packed = notification_in(record)
                frame: bytes | None = None
                if isinstance(outbox, Durable):
                    head = outbox.head_for(unpack(packed), record.offset)
                    if head is not None:
                        frame = wire.deliver(record.offset + 1, head, packed)
                        self._counters.delivered += 1
                elif (
                    record.kind == PUBLICATION or parse_arrival(record).neighbour != outbox.name
                ) and outbox in self._ways.of(packed, "").links:
                    frame = wire.relay(record.offset + 1, packed)
                    self._counters.relayed += 1
                if frame is not None:
                    outbox.unconfirmed[record.offset] = None
                    session.send(frame)
            outbox.looked = records[-1].offset + 1 if records else min(reader.offset, self.reached)
            if not records and outbox.looked < self.reached:
                outbox.looked = self.reached  # nothing but changes of state is left

    # -- no room -----------------------------------------------------------------------------------------------

    def log_is_full(self, error: LogFull, now: int) -> None:
        """What could be written goes on its way, the rest is refused; what else waits, waits for room."""
        assert self._ledger is not None
        self.synced(self._ledger.log.synced)
        end = self._ledger.take_back(now)
        for durable in self._durables.values():
            durable.take_back(end)
        waiting = list(self.pending)
        self.pending.clear()
        refused: set[tuple[str, str]] = set()
        for each in waiting:
            if each.then is not None:
                self.after_sync(each.then)
            if isinstance(each.session, LinkSession):
                self._take_back_arrivals(each, end, error)
            elif each.session is not None:
                self._take_back_publications(each.session, each, end, refused, error)

    def _take_back_publications(
        self, session: Session, pending: Pending, end: int, refused: set[tuple[str, str]], error: LogFull
    ) -> None:
        """Those of one turn that the log has no room for, and those that came again of what was refused."""
        gone: list[Taken] = []
        for offset, way, packed, number in pending.entries:
            if offset < end:
                way.dispatch(offset, packed)
            else:
                gone.append((way, packed, number))
                refused.add(identity_of(unpack(packed)))
        gone += [each for each in pending.known if refused and identity_of(unpack(each[1])) in refused]
        if gone:
            self._refuse(session, gone, error)
        elif not session.ended:
            session.numbered = max(session.numbered, pending.number)
            session.stored()

    def _take_back_arrivals(self, pending: Pending, end: int, error: LogFull) -> None:
        """The neighbour sends again what it has not been told to be safe."""
        assert pending.session is not None
        name = pending.session.name
        for offset, way, packed, _ in pending.entries:
            if offset < end:
                way.dispatch(offset, packed)
        neighbour = self._state.neighbours.get(name)
        if neighbour is None:
            return
        written = [place for offset, _, _, place in pending.entries if NO_OFFSET < offset < end]
        neighbour.received = neighbour.safe = max([neighbour.safe, *written])
        link = self._links.get(name)
        if link is not None and link.session is not None:
            link.session.end(str(error))

    def _refuse(self, session: Session, taken: Iterable[Taken], error: FairleadError) -> None:
        """The log has no room: publishers are told, neighbours will send it again.

        The connection ends with it: if what follows were taken while what is refused comes once more, because its
        publisher did not get to know, the two would change places.
        """
        if isinstance(session, ClientSession):
            for way, packed, number in taken:
                if way is not None:
                    self._broker.forget(unpack(packed))
                if number and not session.ended:
                    self._counters.refused += 1
                    session.tell(wire.Refused(number, str(error)))
        session.end(str(error))
