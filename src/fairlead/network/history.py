"""The past of all brokers, for a subscription that begins in it.

    Law
    A subscriber that begins at a time gets each notification that its filter matches and that was published at
    any broker since then, once, and in the order of each broker; what the log of a broker has no longer, and
    brokers that did not answer, it is told of.

A broker's log has what was published there, and what came from others because somebody here wanted it then. So the
first barrier of such a subscription carries its filter and the time to all brokers (`Barrier.history`), each of
which answers with some of what was published at it (`Past`); further barriers ask for the rest. The subscription
came before the barrier: what is published after that is on its way.

What comes is written to the log here, for this subscriber alone (`RECALLED`), so that it is delivered, accepted
and delivered again as all else. Until all has come the subscriber is sent nothing. What had come here from other
brokers before is written again behind that, where it is not among it, and is passed over at its first place
(`History.skips`): else a producer's later notifications would come before its earlier ones.

A durable subscriber whose broker is killed meanwhile begins again when its client is back: what was recalled in
vain is passed over, since it is before `begun`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Final

import msgspec

from fairlead.broker import Broker
from fairlead.errors import FairleadError, Gone, LogFull
from fairlead.filters.filter import NOTHING, Filter
from fairlead.filters.language import render
from fairlead.log import Reader, Record
from fairlead.log.records import (
    ARRIVALS,
    PUBLICATION,
    parse_arrival,
    parse_origin,
    parse_stamp,
    recalled_by,
    stamp,
)
from fairlead.model.packed import identity_bytes, unpack
from fairlead.network import ledger as changes
from fairlead.network import wire
from fairlead.network.barriers import BarrierKey, Barriers
from fairlead.network.calling import Clock
from fairlead.network.copies import Copies
from fairlead.network.destinations import Durable, Link
from fairlead.network.dispatch import Dispatch
from fairlead.network.interests import Interests
from fairlead.network.persistence import Persistence
from fairlead.network.retaining import Retaining
from fairlead.network.router import Router

__all__ = ["Asking", "Histories", "History"]

log: Final = logging.getLogger(__name__)

MESSAGE_BYTES: Final = 1 << 18
"""The size of one message, about."""
BARRIER_BYTES: Final = 1 << 21
"""So much a broker answers to one barrier, about: the next one asks for more."""
LOOKED_AT: Final = 200_000
"""The number of records that a broker looks at for one barrier."""
READ_AT_ONCE: Final = 256
CHUNKS_AT_ONCE: Final = 2
"""So many times that are read in one turn."""
ALL: Final = -1
"""In the place of a position: all that was asked for has come."""
NO_LOG: Final = -1
"""In the place of the time at which a log begins."""
QUESTIONS_MAX: Final = 3
"""The number of times that a broker is asked which answers nothing."""


class History:
    """The past of a durable subscriber, as far as deliveries have to know."""

    def __init__(self, begun: int, boundary: int = -1, covered: dict[str, int] | None = None) -> None:
        self.begun, self.boundary = begun, boundary
        self.covered = covered or {}
        """By broker, the position up to which all that was published there is among what was recalled."""
        self.gaps: list[tuple[str, int]] = []
        self.is_lost = False
        """Whether the log has not taken what has come."""
        self._beyond: dict[str, int] = {}
        """By broker, the first record of this log with a later position: none behind it is among it."""

    @property
    def is_open(self) -> bool:
        """Whether there is more to come: until then nothing is delivered."""
        return self.boundary < 0

    @property
    def is_over(self) -> bool:
        """Whether nothing that comes now can be among what was recalled."""
        return not self.is_open and self._beyond.keys() >= self.covered.keys()

    def skips(self, record: Record) -> bool:
        """Whether what came from another broker is delivered at another place."""
        if record.kind not in ARRIVALS:
            return False
        if record.offset < self.boundary:
            return True
        if not self.covered:
            return False
        broker, position = _position_in(record)
        last = self.covered.get(broker)
        if last is None:
            return False
        if position > last:
            self._beyond[broker] = min(record.offset, self._beyond.get(broker, record.offset))
            return False
        return record.offset < self._beyond.get(broker, record.offset + 1)

    def is_mine(self, record: Record, durable: str) -> bool:
        """Whether this was recalled for the subscriber, by the asking that counts."""
        return record.offset >= self.begun and recalled_by(record) == durable


class Asking:
    """One subscriber's questions about the past, while they are under way."""

    def __init__(
        self, histories: Histories, durable: Durable, id: str, text: str, since: int, *, patient: bool
    ) -> None:
        self._histories, self.text, self.since, self.patient = histories, text, since, patient
        self.durable, self.id = durable, id
        self.after: dict[str, int] = {}
        """By broker, the position up to which all has come; ALL."""
        self.first: dict[str, int] = {}
        """By broker whose log begins later than it was asked for: the position before its first,"""
        self.begins: dict[str, int] = {}
        """and the time."""
        self.ends: dict[str, int] | None = {}
        """The brokers that have passed the barrier, when they are known."""
        self.tried: Counter[str] = Counter()
        self.is_incomplete = False
        self.waiting: list[tuple[str, wire.Past]] | None = []
        """The answers to the first barrier, by the neighbour, before any of it is written."""

    @property
    def history(self) -> History:
        """The past as it has come so far."""
        assert self.durable.history is not None
        return self.durable.history

    def barrier(self, key: BarrierKey) -> wire.Barrier:
        """The barrier that asks for what has not come."""
        self._histories.open[key] = self
        return wire.Barrier(
            *key, self.patient, ends=True, history=self.text, since=self.since, after=dict(self.after)
        )

    def gathered(self, then: Callable[[], None]) -> None:
        """The barrier has been passed: ask for more, or have the subscriber be sent what has come."""
        self._histories.gathered(self, then)

    @property
    def passed(self) -> set[str]:
        """The brokers that are known to have passed the barrier."""
        return {*(self.ends or ())}


class Histories:
    """The subscribers of one broker that begin in the past, and its answers to those of others."""

    def __init__(
        self,
        broker: Broker,
        router: Router,
        barriers: Barriers,
        interests: Interests,
        persistence: Persistence,
        *,
        links: dict[str, Link],
        durables: dict[str, Durable],
        dispatch: Dispatch,
        retaining: Retaining,
        clock: Clock,
        copies: Copies | None,
    ) -> None:
        self._name, self._seam, self._redundancy = broker.name, broker.seam, broker.redundancy
        self._router, self._barriers, self._interests = router, barriers, interests
        self._persistence, self._links, self._durables = persistence, links, durables
        self._dispatch, self._retaining, self._clock = dispatch, retaining, clock
        self._copies = copies
        self.open: dict[BarrierKey, Asking] = {}
        """The questions that began here, by their barrier."""
        self._asking: dict[tuple[str, str], Asking] = {}
        """By durable subscriber and subscription."""
        self.serve: Callable[[Durable], None] = lambda durable: None
        """Called with a subscriber for which all has come."""
        barriers.questioned, barriers.narrowed_past = self.questioned, self.narrowed_past

    # -- a subscription begins ---------------------------------------------------------------------------------

    def restore(self, durable: Durable) -> None:
        """A durable subscriber is there again, after a restart."""
        known = self._persistence.state.histories.get(durable.name)
        if known is not None:
            durable.history = History(known.begun, known.boundary, dict(known.covered))
            durable.history.gaps = [*known.gaps]

    def begin(
        self, durable: Durable, id: str, text: str, since: int | None, *, patient: bool
    ) -> Asking | None:
        """Ask for the past of a subscriber that begins at a time. Without one it is not new: it goes on, unless
        its questions were not answered; None: there is nothing to ask."""
        if since is None:
            known = self._persistence.state.histories.get(durable.name)
            is_open = durable.history is not None and durable.history.is_open
            if known is None or known.id != id or not is_open or (durable.name, id) in self._asking:
                self.tell_gaps(durable, id)
                return None
            since = known.since
        history = durable.history = History(self._dispatch.end, -1 if self._links else 0)
        begins = self._begins(since)
        history.gaps = [] if begins is None else [(self._name, begins)]
        if not self._links:
            if history.gaps:
                self._note(durable, id, since)
                self.tell_gaps(durable, id)
            else:
                durable.history = None
            return None
        self._note(durable, id, since)
        asking = self._asking[durable.name, id] = Asking(self, durable, id, text, since, patient=patient)
        return asking

    def end(self, durable: Durable) -> None:
        """It is a subscriber no longer."""
        for at in [at for at in self._asking if at[0] == durable.name]:
            del self._asking[at]

    def _note(self, durable: Durable, id: str, since: int) -> None:
        history = durable.history
        if history is not None and not durable.ends:
            self._persistence.note(
                changes.Recalling(
                    *(durable.name, id, since, history.begun, history.boundary),
                    dict(history.covered),
                    [*history.gaps],
                ),
                self._clock.now,
            )

    def _begins(self, since: int) -> int | None:
        """When this log begins, if that is later than it is asked for."""
        ledger = self._persistence.ledger
        if ledger is None:
            return NO_LOG
        if not ledger.log.first:
            return None
        with ledger.reader(ledger.log.first) as reader:
            records = reader.read(1)
        first = records[0].time if records else None
        return first if first is not None and first > since else None

    # -- answers -----------------------------------------------------------------------------------------------

    def narrowed_past(self, barrier: wire.Barrier, neighbour: str) -> wire.Barrier:
        """A barrier as a neighbour is told it: of the filter, what it may know."""
        if self._seam.discloses_all(neighbour):
            return barrier
        text = ""
        with suppress(FairleadError):
            part = self._seam.disclose(neighbour, self._interests.filter(barrier.history))
            text = "" if part == NOTHING else render(part)
        return msgspec.structs.replace(barrier, history=text)

    def questioned(self, barrier: wire.Barrier, source: str) -> bool:
        """A barrier asks for the past; whether it has to wait until this broker has answered."""
        link, after = self._links.get(source), barrier.after.get(self._name)
        if link is None or link.session is None or after == ALL:
            return False
        try:
            filter = self._interests.filter(barrier.history)
        except FairleadError:
            return False  # a subscription to it was refused, too
        answer = _Answer(self, barrier, link, filter, after)
        self._retaining.work(lambda: link.session, answer.steps(), CHUNKS_AT_ONCE)
        return True

    def origin_at(self, offset: int) -> bytes:
        """This broker, as the stamp of a publication names it."""
        return self._name.encode() if self._copies is None else self._copies.origin_at(offset)

    def reader(self, offset: int, *kinds: int) -> Reader:
        """A reader of the log, to be closed before anything else happens."""
        ledger = self._persistence.ledger
        assert ledger is not None
        return ledger.reader(offset, *kinds, synced=False)

    def beginning(self, since: int, after: int | None) -> int:
        """The offset of the first record that is asked about, by its time or behind a position."""
        ledger = self._persistence.ledger
        assert ledger is not None
        if after is not None:
            return after
        with self.reader(ledger.log.first, PUBLICATION) as reader:
            return min(reader.find(since), self._dispatch.reached)

    def may_go(self, packed: bytes, source: str, link: Link) -> bool:
        """Whether a neighbour would be relayed a notification now. Where no rule withholds anything, what matches
        goes back to who asked, whatever is advertised now."""
        return not self._seam.restricts or link in self._router.of(packed, source).links

    def arrived(self, name: str, message: wire.Past) -> None:
        """A neighbour has told of the past behind it."""
        key = message.origin, message.number
        asking = self.open.get(key)
        if asking is not None:
            if asking.waiting is None:
                self._take(asking, name, message)
            else:
                asking.waiting.append((name, message))
            return
        for source in self._barriers.sources(key):
            link = self._links.get(source)
            if link is not None and link.session is not None and source != name:
                values = [each for each in message.values if self.may_go(each[0], name, link)]
                link.session.tell(msgspec.structs.replace(message, values=values))

    # -- what has come -----------------------------------------------------------------------------------------

    def gathered(self, asking: Asking, then: Callable[[], None]) -> None:
        """A barrier has been passed."""
        key = next((key for key, each in self.open.items() if each is asking), None)
        if key is not None:
            del self.open[key]
            asking.is_incomplete |= self._barriers.take_away(key)
        if asking.waiting is None:
            self._go_on(asking)
            return
        waiting, asking.waiting = asking.waiting, None
        for _, each in waiting:
            if each.begins is not None:
                asking.begins[each.broker], asking.first[each.broker] = each.begins, each.after
        self._tell_gaps(asking)
        then()
        self._retaining.work(lambda: None, self._begin_with(asking, waiting), CHUNKS_AT_ONCE)

    def _begin_with(self, asking: Asking, waiting: list[tuple[str, wire.Past]]) -> Iterator[None]:
        """Take what the first barrier has brought."""
        answered = {each.broker for _, each in waiting if each.is_last and not each.more}
        is_whole = asking.passed - {self._name} <= answered and self._have_all_answered(asking, answered)
        if is_whole and not any(self._is_news(asking, each) for _, each in waiting):
            self._end(asking, 0)  # all of it has come here before, for others
            return
        if asking.first:
            yield from self._write_again(asking, before=True)
        for name, each in waiting:
            self._take(asking, name, each)
            yield
        self._go_on(asking)

    def _go_on(self, asking: Asking) -> None:
        """Ask for what has not come, or end."""
        if not self._is_asking(asking):
            return
        known = (asking.passed | asking.after.keys()) - {self._name}
        left = {each for each in known if asking.after.get(each) != ALL}
        for each in left:
            asking.tried[each] += asking.after.get(each) is None
        silent = {each for each in left if asking.tried[each] >= QUESTIONS_MAX}
        asking.is_incomplete |= bool(silent)
        if left - silent or not self._have_all_answered(asking, asking.after.keys()):
            asking.ends = {}
            barrier = asking.barrier(self._barriers.next_key())
            self._barriers.begin(barrier, "", lambda: self.gathered(asking, lambda: None), asking.ends)
        else:
            self._retaining.work(lambda: None, self._finish(asking), CHUNKS_AT_ONCE)

    def _have_all_answered(self, asking: Asking, answered: Collection[str]) -> bool:
        """In a redundant network, whether every broker has answered: a barrier that begins again asks nothing."""
        if self._redundancy is None or not asking.patient:
            return True
        return self._redundancy.notices.required(self._links) <= {*answered, self._name}

    def _is_asking(self, asking: Asking) -> bool:
        return self._asking.get((asking.durable.name, asking.id)) is asking

    def _is_news(self, asking: Asking, message: wire.Past) -> bool:
        """Whether some of it has not come here for somebody else."""
        ledger = self._persistence.ledger
        assert ledger is not None
        for packed, _ in message.values:
            known = ledger.firsts.known(identity_bytes(packed))
            if known is None or known < asking.durable.looked:
                return True
        return False

    def _take(self, asking: Asking, name: str, message: wire.Past) -> None:
        """Write what has come, in its order, once; not what comes behind something that was lost on its way."""
        last = asking.after.get(message.broker)
        if not self._is_asking(asking) or last == ALL:
            return
        if message.after > (last or 0) and not (last is None and message.is_first):
            return
        values = [(packed, position) for packed, position in message.values if position > (last or 0)]
        if values:
            source = (message.source or message.broker).encode()
            self._write(asking, name, [(packed, stamp(source, position)) for packed, position in values])
        reached = max(last or 0, message.reached)
        asking.history.covered[message.broker] = reached
        asking.after[message.broker] = ALL if message.is_last and not message.more else reached

    def _write(self, asking: Asking, name: str, values: list[tuple[bytes, bytes]]) -> None:
        ledger = self._persistence.ledger
        assert ledger is not None
        try:
            ledger.recalled(asking.durable.name, name, values, self._clock.now)
        except LogFull as error:
            self._fail(asking, str(error))
        else:
            self._dispatch.after_sync(lambda: None)

    def _fail(self, asking: Asking, reason: str) -> None:
        """The log has no room: whoever asks again begins anew."""
        log.warning("the past of %s cannot be written: %s", asking.durable.name, reason)
        self._asking.pop((asking.durable.name, asking.id), None)
        for member in asking.durable.members:
            member.end(reason)

    def _write_again(self, asking: Asking, *, before: bool = False) -> Iterator[None]:
        """Write again what had come from other brokers and is not among what they have told; `before`: only what
        has left their logs. Nothing more comes between the last step and what follows it."""
        ledger, durable = self._persistence.ledger, asking.durable
        assert ledger is not None
        begin = asking.history.begun if durable.is_idle else durable.looked
        at = max(begin, ledger.log.first)
        while self._is_asking(asking):
            end = self._dispatch.end
            if is_near := end - at <= READ_AT_ONCE:
                try:
                    ledger.log.flush()
                except LogFull as error:
                    self._fail(asking, str(error))
                    return
            with self.reader(at, *ARRIVALS) as reader:
                while reader.offset < end:
                    at = reader.offset
                    for record in reader.read_chunk(min(READ_AT_ONCE, end - at)):
                        self._write_one_again(asking, record, before=before)
                    if not is_near or reader.offset == at:
                        break
                at = reader.offset
            if is_near:
                return
            yield

    def _write_one_again(self, asking: Asking, record: Record, *, before: bool) -> None:
        broker, position = _position_in(record)
        is_gone = position and broker in asking.first and position <= asking.first[broker]
        is_other = not position or position > asking.history.covered.get(broker, 0)
        if (is_gone if before else is_other) and asking.durable.asks_for(record):
            arrived = parse_arrival(record)
            self._write(asking, arrived.neighbour, [(arrived.packed, arrived.stamp or stamp(b"", 0))])

    def _finish(self, asking: Asking) -> Iterator[None]:
        """All brokers have told all: what remains is what had come before from others."""
        yield from self._write_again(asking)
        if self._is_asking(asking):
            self._end(asking, self._dispatch.end)

    def _end(self, asking: Asking, boundary: int) -> None:
        """All has come: the subscriber is sent it, when it is safe."""
        durable, history = asking.durable, asking.history
        if not boundary:
            history.covered.clear()

        def synced() -> None:
            if not self._is_asking(asking):
                return
            if history.is_lost:
                self._fail(asking, "the log had no room")
                return
            del self._asking[durable.name, asking.id]
            history.boundary = boundary
            self._tell_gaps(asking)
            self._note(durable, asking.id, asking.since)
            durable.begin_history()
            self.serve(durable)

        self._dispatch.after_sync(synced)

    def _tell_gaps(self, asking: Asking) -> None:
        here = [each for each in asking.history.gaps if each[0] == self._name]
        away = [("", NO_LOG)] if asking.is_incomplete else []
        gaps = [*here, *sorted(asking.begins.items()), *away]
        if gaps != asking.history.gaps or here:
            asking.history.gaps = gaps
            self.tell_gaps(asking.durable, asking.id)

    def tell_gaps(self, durable: Durable, id: str) -> None:
        """Tell the clients of a subscriber what it does not get."""
        if durable.history is not None and durable.history.gaps:
            for member in durable.members:
                member.tell(wire.Gapped(id, durable.history.gaps))


class _Answer:
    """One answer of this broker: of its past, for a barrier that came over a link."""

    def __init__(
        self, histories: Histories, barrier: wire.Barrier, link: Link, filter: Filter, after: int | None
    ) -> None:
        self._of, self._barrier, self._link, self._filter = histories, barrier, link, filter
        self._session, self._after = link.session, after
        self._key = barrier.origin, barrier.number
        self._is_first = after is None
        self._values: list[tuple[bytes, int]] = []
        self._source, self._size, self._total = b"", 0, 0

    def steps(self) -> Iterator[None]:
        """Answer with some of what was published here, and would go this way now."""
        histories = self._of
        persistence, reached = histories._persistence, histories._dispatch.reached
        at, more = 0, False
        if persistence.is_logged:
            try:
                begun = at = self._after = histories.beginning(self._barrier.since, self._after)
                while at < reached and self._has_room(at - begun):
                    before, at = at, self._look_from(at, reached)
                    if at == before:
                        break
                    yield
                    if self._link.session is not self._session:
                        self._give_up()
                        return
                more = at < reached
            except Gone as gone:  # retention was faster
                at, more = gone.first, True
        self._tell(at, is_last=True, more=more)
        histories._barriers.answered(self._key, histories._name, {})

    def _has_room(self, looked: int) -> bool:
        return self._total + self._size < BARRIER_BYTES and looked < LOOKED_AT

    def _look_from(self, offset: int, reached: int) -> int:
        """Look at some records from an offset on; the first that has not been looked at."""
        with self._of.reader(offset, PUBLICATION) as reader:
            for record in reader.read_chunk(min(READ_AT_ONCE, reached - offset)):
                self._look_at(record)
            return reader.offset

    def _look_at(self, record: Record) -> None:
        source = self._of.origin_at(record.offset)
        if self._values and (source != self._source or self._size >= MESSAGE_BYTES):
            self._tell(record.offset)
        self._source = source
        packed = record.payload
        if self._filter.matches(unpack(packed)) and self._of.may_go(packed, "", self._link):
            self._values.append((packed, record.offset + 1))
            self._size += len(packed)

    def _tell(self, reached: int, *, is_last: bool = False, more: bool = False) -> None:
        begins = self._of._begins(self._barrier.since) if self._is_first else None
        message = wire.Past(
            *(*self._key, self._of._name, self._source.decode(), self._values),
            after=self._after or 0,
            reached=reached,
            is_first=self._is_first,
            is_last=is_last,
            more=more,
            begins=begins,
        )
        if self._link.session is not None:
            self._link.session.tell(message)
        self._values, self._total, self._size = [], self._total + self._size, 0
        self._after, self._is_first = reached, False

    def _give_up(self) -> None:
        """The connection was lost: a patient barrier comes again, and nobody waits for another one."""
        if not self._barrier.patient:
            self._of._barriers.forget(self._key)


def _position_in(record: Record) -> tuple[str, int]:
    """The broker where an arrival was published, and its position there; 0: that is not known."""
    place = parse_stamp(parse_arrival(record).stamp)
    return parse_origin(place.origin.encode())[0].decode(), place.position
