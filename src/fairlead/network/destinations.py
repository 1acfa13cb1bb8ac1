"""Destinations that outlive connections: neighbours and durable subscribers.

A destination has a session while it is connected, a cursor in the log always (`outbox`), and a state (`outflow`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from fairlead.broker.handover import Cut, is_for, number_for, offset_in, rank_of
from fairlead.broker.progress import Progress
from fairlead.broker.publications import NO_OFFSET
from fairlead.delivery.assigning import NEUTRAL, Assignments, Count, Handout, Terms
from fairlead.filters.filter import Filter
from fairlead.log import Record
from fairlead.log.records import (
    NOTIFICATIONS,
    PUBLICATION,
    RECALLED,
    notification_in,
    parse_arrival,
    parse_stamp,
    relayed_in,
)
from fairlead.model.packed import pack, unpack
from fairlead.model.values import ABSENT, key_of
from fairlead.network import wire
from fairlead.network.backpressure import Stuck
from fairlead.network.formers import Former, ids_at, take_back
from fairlead.network.once import Once
from fairlead.network.outbox import Outbox
from fairlead.network.outflow import Outflow, Step, To
from fairlead.network.relays import Relays
from fairlead.network.sessions import Outgoing, Session

if TYPE_CHECKING:
    from fairlead.network.calling import Clock
    from fairlead.network.client_sessions import ClientSession
    from fairlead.network.dispatch import Dispatch
    from fairlead.network.history import History
    from fairlead.network.link_sessions import LinkSession
    from fairlead.network.router import Router

__all__ = ["Durable", "Link", "Recipient"]

log: Final = logging.getLogger(__name__)

HEADS_MAX: Final = 256
"""The number of beginnings of deliveries remembered for a recipient, by length."""
HELD_MAX: Final = 1 << 40
"""The number of notifications that may be under way to a client that puts them in order."""
REPORTED_MAX: Final = 2
"""So many times what may be in flight to a neighbour may wait for it before it is not sent what it misses."""
STUCK_S: Final = 15
"""The time that others wait in vain for a neighbour that is not heard, and takes nothing."""


class Durable(Outbox):
    """A durable subscriber, whether or not a client is there for it.

    One without terms has a client, a cursor, and what the client has not confirmed. With terms, and from the first
    delivery that comes again on, `assignments` say who holds what; `unconfirmed` are all records that are not
    settled, so that the cursor is the same in either case.
    """

    __slots__ = (
        *(
            "_changed",
            "_clock",
            "_record_at",
            "_session",
            "assignments",
            "done",
            "lease",
            "left",
            "redriven",
            "taking",
            "terms",
        ),
        *(
            "_counters",
            "_once",
            "_passes",
            "_router",
            "_tracing",
            "acknowledged",
            "attached",
            "claimed",
            "client",
            "ends",
            "name",
        ),
        *("dropped", "former", "granted", "history", "subscriptions"),
        *("_broker", "after", "after_end", "arriving", "attaches", "counter", "moves", "upto"),
    )

    def __init__(
        self,
        outgoing: Outgoing,
        name: str,
        cursor: int,
        router: Router,
        once: Once,
        *,
        clock: Clock,
        record_at: Callable[[int], Record | None],
        ends: bool = False,
    ) -> None:
        super().__init__(Outflow("durable", To.AWAY), cursor, outgoing.limits.window)
        self._counters, self._router, self._once, self.name = outgoing.counters, router, once, name
        self._tracing, self._passes, self._broker = outgoing.tracing, outgoing.passes, outgoing.broker
        self.client = f"d:{name}"
        self.counter = self.attaches = self.moves = 0
        """The counter of its place here (`broker.handover`); how often a client has become this subscriber
        in this process, and how often that client had gone to another broker before."""
        self.arriving = False
        """Whether what is for it at other brokers comes first."""
        self.after: Cut = {}
        """A cut: all that is not beyond it is for the places before, while some of that may still come here."""
        self.after_end: int | None = None
        """All that is not beyond is in the log below this offset, once that is known."""
        self.upto: Cut = {}
        """Of one that has gone to another broker: what is beyond is for its place there."""
        self.ends = ends
        """Whether it ends with its session: so one can subscribe to the past without being durable."""
        self._clock, self._record_at = clock, record_at
        self._session: ClientSession | None = None
        self.terms = NEUTRAL
        self.lease = 0
        """For how long it is kept while nobody is there, in microseconds; 0: until it is ended."""
        self.left = clock.now
        """Since when nobody has been there, if nobody is."""
        self.assignments: Assignments[ClientSession] | None = None
        """The members' shares of the deliveries, where they have to be known."""
        self.done: set[int] = set()
        """Records beyond the cursor that are settled, where assignments are known."""
        self.redriven: set[int] = set()
        """Dead records that are handed out again. The cursor does not regard them."""
        self.taking: set[int] = set()
        """Records that a transaction accepts which is not safe in the log yet."""
        self._changed = False
        self.subscriptions: dict[str, tuple[Filter, int]] = {}
        """As they were requested, each with the first record that it is about."""
        self.former: dict[str, Former[Filter]] = {}
        """The filters that they had for records that are not dealt with, under ids of their own."""
        self.history: History | None = None
        """The past of other brokers, where it begins in the past."""
        self.granted: dict[str, Filter] = {}
        """The filters in effect, where the access policy narrows them."""
        self.claimed: set[str] = set()
        """Those of them that its client has asked for since it is there."""
        self.attached = 0
        """Since when, in microseconds."""
        self.dropped = 0
        """The number of dropped records that may have been for it, and that no client of it knows of."""
        self.acknowledged: set[str] = set()
        """Those that are known wherever they have to be."""

    @property
    def ready(self) -> bool:
        """Whether it may be sent something: not before its client has subscribed to all filters of the durable
        name, since until then it could not accept every delivery; nor before all of its past has come, or what is
        for it at other brokers."""
        return self.is_claimed and not self.arriving and (self.history is None or not self.history.is_open)

    @property
    def is_claimed(self) -> bool:
        """Whether its client has subscribed to all filters of the durable name."""
        return len(self.claimed) == len(self.subscriptions)

    @property
    def kinds(self) -> tuple[int, ...]:
        """The kinds of records that may be for it."""
        return NOTIFICATIONS if self.history is None else (*NOTIFICATIONS, RECALLED)

    @property
    def _reads(self) -> bool:
        """Whether it has to look at each record: for which of its filters it is, or whether it was recalled."""
        return bool(self.former or self.after or self.upto) or (
            self.history is not None and not self.history.is_over
        )

    def begin_history(self) -> None:
        """All of its past has come."""
        if self.history is not None and self.is_idle:
            self.meet(self.history.begun)
        elif self.history is not None:
            self.looked = min(self.looked, self.history.begun)

    def number_of(self, offset: int) -> int:
        """The number of a delivery; 0 for what is in no log."""
        return 0 if offset == NO_OFFSET else number_for(self.counter, offset)

    def offset_of(self, number: int) -> int:
        """The offset of a delivery; NO_OFFSET: it is none of this place."""
        return offset_in(number) if rank_of(number) == self.counter else NO_OFFSET

    def _is_mine(self, record: Record) -> bool:
        """Whether a record is between the cuts of this place."""
        if record.kind == PUBLICATION:
            return is_for(self._broker, record.offset + 1, self.after, self.upto)
        return is_for(*parse_stamp(parse_arrival(record).stamp), self.after, self.upto)

    def hold_any(self) -> None:
        """Its client holds what comes until all before that has come: any number may be under way to it."""
        self.window = HELD_MAX
        if self.assignments is not None:
            self.assignments.window = HELD_MAX

    def handed_over(self, reached: int) -> int:
        """The offset below which everything for it has been sent; all below `reached` has been sent on to those
        that are live."""
        if self.assignments is not None and self.assignments.waiting:
            return 0
        return reached if self.live else self.looked

    def drained(self) -> None:
        """There is room again: it reads on."""

    @property
    def session(self) -> ClientSession | None:
        """The client that is the subscriber now; of several members, one that can be sent something, if any
        can."""
        if self.assignments is None or not self.terms.is_shared:
            return self._session
        members = self.assignments.members
        return next((each for each in members if not each.is_full), next(iter(members), None))

    @property
    def members(self) -> list[ClientSession]:
        """The clients that are connected under its name."""
        if self.assignments is not None:
            return [*self.assignments.members]
        return [] if self._session is None else [self._session]

    @property
    def room(self) -> int:
        if self.assignments is not None:
            return self.assignments.room
        return self.window - len(self.unconfirmed)

    # -- attempts ----------------------------------------------------------------------------------------------

    def account(self, counts: Mapping[int, Count] | None = None) -> Assignments[ClientSession]:
        """Know from now on who holds what."""
        if self.assignments is None:
            self.assignments = Assignments(self.terms, counts, self.window)
            if self._session is not None:
                self.assignments.join(self._session)
                for offset in self.unconfirmed:
                    self.assignments.offer(offset, self._clock.now)
        return self.assignments

    def change_terms(self, terms: Terms) -> None:
        """Have other terms from now on. Nobody is there."""
        counts = None if self.assignments is None else self.assignments.counts
        self.terms, waiting = terms, [*self.unconfirmed]
        self.assignments = None
        if not terms.is_neutral or counts or waiting:
            assignments = self.account(counts)
            for offset in sorted({*waiting, *self.redriven}):
                if (record := self._record_at(offset)) is not None:
                    assignments.wait(offset, 0, self._key_of(notification_in(record)))

    def change_accounts(self) -> None:
        """An attempt has failed: the ledger has to know."""
        self._changed = True

    def take_accounts(self) -> tuple[dict[int, Count], list[int]] | None:
        """The accounts that the ledger has to know beyond the cursor; None: they have not changed."""
        assignments = self.assignments
        if assignments is None or not self._changed:
            return None
        self._changed = False
        cursor = next(iter(self.unconfirmed), None)
        if cursor is None and not (self.live or self.is_idle):
            cursor = self.looked  # what is behind it has not been read, and may be settled
        self.done = set() if cursor is None else {offset for offset in self.done if offset >= cursor}
        counts, done = dict(assignments.counts), sorted(self.done)
        is_open = len(assignments) or counts or self.unconfirmed or self.redriven or self.done
        if self.terms.is_neutral and not is_open:
            self.assignments = None  # as if nothing had ever come again
        return counts, done

    def accept(self, session: ClientSession, offset: int) -> bool:
        """A client has dealt with a record; whether it was the client's to deal with."""
        if self.assignments is None:
            return self.confirm(offset)
        if not self.assignments.accept(session, offset):
            return False
        self.settled(offset)
        return True

    def claims(self, session: ClientSession, offset: int) -> bool:
        """Whether a client holds a record, and no transaction is accepting it; from now on it is known who holds
        what."""
        return offset not in self.taking and self.account().holds(session, offset)

    def settled(self, offset: int) -> None:
        """A record is done with: accepted, dead, or nobody's any longer."""
        assert self.assignments is not None
        self.assignments.settle(offset)
        self.redriven.discard(offset)
        if self.unconfirmed.pop(offset, self) is None:
            self.done.add(offset)
        self._changed = True

    def seek(self, offset: int) -> None:
        """Read on from another offset: its client has seen what is before it, and gets what is behind it.

        One member of several does not speak for the others: then nothing happens.
        """
        if self.terms.is_shared:
            return
        if self.assignments is not None:
            for each in [*self.unconfirmed]:
                if each < offset:
                    self.settled(each)
                else:
                    self.assignments.withdraw(each)
                    del self.unconfirmed[each]
            self.done = {each for each in self.done if each < offset}
        super().seek(offset)

    def redrive(self, offset: int) -> None:
        """Hand a dead record out again, as if it had never been."""
        record = self._record_at(offset)
        if record is not None:
            self.redriven.add(offset)
            self.account().wait(offset, 0, self._key_of(notification_in(record)))

    def hand_out(self) -> None:
        """Hand out what waits, as far as there is room and its time has come."""
        assignments = self.assignments
        if assignments is None or not self.ready:
            return
        for handout in assignments.assign(self._clock.now, _may):
            record = self._record_at(handout.ordinal)
            deliveries = [] if record is None else self.deliveries_of(record)
            if deliveries and (handout.attempt > 1 or self._may_begin(record)):
                self._hand(handout, deliveries)
            else:  # the subscription it came for is gone, or the record is, or it has expired
                self.settled(handout.ordinal)

    def _hand(self, handout: Handout[ClientSession], deliveries: Sequence[tuple[bytes, bytes]]) -> None:
        for head, packed in deliveries:
            if handout.attempt == 1:
                self._trace(head, packed)
            is_told = handout.attempt > 1 and handout.member.version >= wire.ATTEMPTS_SINCE
            told = wire.deliver_again(head, handout.attempt) if is_told else head
            handout.member.send(wire.deliver(self.number_of(handout.ordinal), told, packed))
            self._counters.delivered += 1

    def _offer(self, offset: int, deliveries: Sequence[tuple[bytes, bytes]]) -> None:
        """Hand a record of the log to one of the members, or let it wait for one."""
        assert self.assignments is not None
        if offset in self.unconfirmed or offset in self.done:
            return
        self.unconfirmed[offset] = None
        key = self._key_of(deliveries[0][1])
        handout = self.assignments.offer(offset, self._clock.now, key, _may)
        if handout is not None:
            self._hand(handout, deliveries)

    def _key_of(self, packed: bytes) -> Hashable:
        if not self.terms.per:
            return None
        value = unpack(packed).get(self.terms.per)
        return None if value is ABSENT else key_of(value)

    def _deliver_assigned(self, offset: int, recipient: Recipient, packed: bytes) -> None:
        assert self.assignments is not None
        session = self.session
        if session is None:
            if self.is_idle and offset != NO_OFFSET:
                self.meet(offset)
        elif offset == NO_OFFSET:
            ids = self._ids_now(recipient) if self.former else recipient.ids
            if not self.live or session.is_full:
                self._counters.dropped += bool(ids)
            elif ids:
                self._counters.delivered += 1
                session.send(wire.deliver(0, ids, packed))
        elif self.live and (self._reads or self.room <= 0 or session.is_full or recipient.part[1] > 1):
            self.fall_behind(offset)
            session.wait_for_turn()
        elif self.live:
            self._offer(offset, [(recipient.ids, packed)])

    # -- deliveries --------------------------------------------------------------------------------------------

    def deliver(self, offset: int, recipient: Recipient, packed: bytes) -> None:
        """Deliver what is dispatched now."""
        if self.assignments is not None:
            self._deliver_assigned(offset, recipient, packed)
            return
        session, ids = self._session, recipient.ids
        if session is None:
            if self.is_idle and offset != NO_OFFSET:
                self.meet(offset)
            return
        if offset == NO_OFFSET:
            if self.former and not (ids := self._ids_now(recipient)):
                return
            if not self.live or session.is_full:
                self._counters.dropped += 1
                if self.ends:
                    session.missed(1)
                return
        elif not self.live:
            return
        elif self._reads or self.room <= 0 or session.is_full:
            self.fall_behind(offset)
            if self._reads:
                session.wait_for_turn()
            return
        else:
            self.unconfirmed[offset] = None
            self._trace(ids, packed)
        self._counters.delivered += 1
        session.send(wire.deliver(self.number_of(offset), ids, packed))

    def _ids_now(self, recipient: Recipient) -> bytes:
        """The head of a delivery of what is in no log: it is for the present filters; empty where none matches."""
        ids = tuple(id for id in recipient.subscriptions if id in self.subscriptions)
        return wire.deliver_head(ids, recipient.part) if ids else b""

    def _trace(self, head: bytes, packed: bytes) -> None:
        """Trace that a record of the log is handed out."""
        if (tracer := self._tracing.tracer) is not None:
            tracer.notified(self.client, packed, wire.subscriptions_in(head))

    def deliver_all(self, recipient: Recipient, relays: Relays) -> None:
        """Deliver several that are in no log."""
        for packed in relays.each:
            self.deliver(NO_OFFSET, recipient, packed)

    @property
    def connection(self) -> Session | None:
        """Over which it is reached, if it is."""
        return self.session

    def deliver_records(self, offsets: Sequence[int], recipient: Recipient, relays: Relays) -> None:
        """Deliver several records of the log that are dispatched now."""
        for offset, packed in zip(offsets, relays.each, strict=True):
            self.deliver(offset, recipient, packed)

    @property
    def is_idle(self) -> bool:
        """Whether it is away and no record waits for it: then none is retained for it."""
        return self.outflow.state is To.AWAY_IDLE

    def meet(self, offset: int) -> None:
        """It is away, and the first record that is for it has this offset."""
        self.looked = offset
        self.outflow.on(Step.MEET)

    def cursor(self, dispatched: int) -> int:
        return dispatched if self.is_idle and not self.unconfirmed else super().cursor(dispatched)

    def leave(self, session: ClientSession | None, dispatched: int) -> bool:
        """A client is not this subscriber any longer, or none is; whether nobody is left."""
        if self.unconfirmed and not self.ends:
            self.account()
        if session is self._session:
            self._session = None
        if self.assignments is None:
            self.detach(dispatched)
            return True
        self._changed = True
        for member in self.members if session is None else (session,):
            self.assignments.leave(member)
        if self.assignments.members:
            return False
        if self.live:
            self.looked = dispatched
        self.outflow.on(Step.LOSE)
        self.close()
        self._rest(dispatched)
        return True

    def detach(self, dispatched: int) -> None:
        super().detach(dispatched)
        self._rest(dispatched)

    def _rest(self, dispatched: int) -> None:
        if self.looked >= dispatched:
            self.outflow.on(Step.PASS)

    def attach(self, session: ClientSession, dispatched: int, now: int) -> None:
        """A client is this subscriber from now on, or one of its members."""
        if (tracer := self._tracing.tracer) is not None:
            tracer.again(self.client)
        is_first = not self.members
        self.attaches += 1
        if is_first:
            if self.assignments is None:
                self.looked = self.cursor(dispatched)
            elif self.is_idle:
                self.looked = dispatched
            self.attached = now
            self.outflow.on(Step.CONNECT)
        if self.assignments is not None:
            self.assignments.join(session)
        if not self.terms.is_shared:
            self._session = session
        self._tell_dropped()

    def concerns(self, record: Record) -> bool:
        """Whether a record of the log is for this subscriber, which has not been handed it."""
        return bool(self.deliveries_of(record)) and self._may_begin(record)

    def _may_begin(self, record: Record | None) -> bool:
        """Whether a record may be handed out for the first time: it has not expired."""
        return self._passes is None or record is None or self._passes(notification_in(record))

    def take_back(self, end: int) -> None:
        """The log ends before what it was thought to: what comes next is for this subscriber all the same."""
        self.looked = min(self.looked, end)
        for id, (filter, since) in self.subscriptions.items():
            self.subscriptions[id] = (filter, min(since, end))
        take_back(self.former, end)
        if self.history is not None and self.history.is_open:
            self.history.is_lost = True

    def asks_for(self, record: Record) -> bool:
        """Whether one of its subscriptions is about a record, wherever that is delivered."""
        return any(
            ids_at(record.offset, each.subscriptions, self.subscriptions, self.former)
            for each in self._router.recipients_of(record, self)
        ) and self._once.is_first_in_log(record.offset, notification_in(record))

    def deliveries_of(self, record: Record) -> list[tuple[bytes, bytes]]:
        """The deliveries of a record, each with its head: none, one, or one for each version."""
        return [
            (wire.deliver_head(ids, (number, of)), packed)
            for ids, number, of, packed in self.versions_of(record)
        ]

    def versions_of(self, record: Record) -> list[tuple[tuple[str, ...], int, int, bytes]]:
        """The same, with the ids of the subscriptions, the number of the version and how many there are."""
        if (self.after or self.upto) and record.kind != RECALLED and not self._is_mine(record):
            return []
        history, is_recalled = self.history, record.kind == RECALLED
        if history is None:
            if is_recalled:
                return []
        elif history.skips(record) or (is_recalled and not history.is_mine(record, self.name)):
            return []
        packed = notification_in(record)
        mine = [
            (ids_at(record.offset, each.subscriptions, self.subscriptions, self.former), each)
            for each in self._router.recipients_of(record, self)
        ]
        mine = [(ids, each) for ids, each in mine if ids]
        if not mine or not (is_recalled or self._once.is_first_in_log(record.offset, packed)):
            return []
        return [(ids, number, len(mine), each.shown(packed)) for number, (ids, each) in enumerate(mine, 1)]

    def send_record(self, record: Record) -> None:
        """Deliver a record of the log, if it concerns this subscriber."""
        if self.assignments is not None:
            is_known = record.offset in self.assignments.counts
            deliveries = self.deliveries_of(record)
            if deliveries and (is_known or self._may_begin(record)):
                self._offer(record.offset, deliveries)
            return
        session = self._session
        if session is None:
            return
        deliveries = self.deliveries_of(record)
        for head, packed in deliveries if deliveries and self._may_begin(record) else ():
            self.unconfirmed[record.offset] = None
            self._trace(head, packed)
            session.send(wire.deliver(self.number_of(record.offset), head, packed))
            self._counters.delivered += 1

    def missed(self, count: int) -> None:
        """Count records that may have matched and that it does not get."""
        self._counters.dropped += count
        self.dropped += count
        self._tell_dropped()

    def drop_before(self, offset: int, dispatched: int) -> int:
        """Drop all that waits before an offset; how many records that are."""
        count = offset - self.cursor(dispatched)
        if count <= 0:
            return 0
        self.close()
        if self.assignments is not None:
            for each in [each for each in self.unconfirmed if each < offset]:
                self.settled(each)
        self.confirm_through(offset - 1)
        self.missed(count)
        return count

    def _tell_dropped(self) -> None:
        """Tell its client, or the next one, how many it did not get."""
        if self.dropped and (session := self.session) is not None:
            session.tell(wire.Dropped(self.dropped))
            self.dropped = 0


def _may(session: ClientSession) -> bool:
    return not session.is_full


class Recipient:
    """A client on a notification's route, and for which of its subscriptions the notification is."""

    __slots__ = ("content", "heads", "hidden", "ids", "part", "subscriptions", "target")

    def __init__(
        self,
        target: ClientSession | Durable,
        subscriptions: tuple[str, ...],
        content: bytes = b"",
        part: tuple[int, int] = (1, 1),
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        self.target, self.subscriptions, self.hidden = target, subscriptions, hidden
        self.content = content
        """The version that it gets; empty where that is the notification as it travels."""
        self.part = part
        """The number of its version, and how many versions it gets."""
        self.ids = wire.deliver_head(subscriptions, part)
        self.heads: dict[int, bytes] = {}
        """The bytes before a best-effort delivery's notification, by the length of that."""

    def of(self, relays: Relays) -> Relays:
        """Notifications as this client gets them."""
        if not self.content and not self.hidden:
            return relays
        return Relays([self.shown(each) for each in ([self.content] if self.content else relays.each)])

    def shown(self, packed: bytes) -> bytes:
        """A notification as this client gets it: its version, without the attributes that are hidden from it."""
        packed = self.content or packed
        if not self.hidden:
            return packed
        notification = unpack(packed)
        shown = notification.without(self.hidden)
        return packed if shown is notification else pack(shown)

    def head_of(self, size: int) -> bytes:
        """The head of a delivery, before a notification of this length."""
        if len(self.heads) >= HEADS_MAX:
            self.heads.clear()
        head = self.heads[size] = wire.deliver_before(self.ids, size)
        return head


class Link(Outbox):
    """The backlog of a neighbour.

    A notification in no log goes at once, or is queued between the records before and after it. From then on the
    senders of more wait, until the neighbour has dealt with enough: so the queue stays short. While the neighbour
    is away, or has not caught up since it is back, such a notification is dropped, and counted.
    """

    __slots__ = (
        *("_counters", "_dispatch", "_outgoing", "_passed", "_queue", "_router"),
        *("has_warned", "largest", "largest_relayed", "lost", "name", "session", "stuck"),
    )

    def __init__(
        self, outgoing: Outgoing, name: str, cursor: int, router: Router, dispatch: Dispatch
    ) -> None:
        super().__init__(Outflow("link", To.AWAY), cursor, outgoing.limits.link_window)
        self.name = name
        self._outgoing, self._counters = outgoing, outgoing.counters
        self._router, self._dispatch = router, dispatch
        self.session: LinkSession | None = None
        self.largest = wire.relay_room(outgoing.limits.frame_bytes)
        """The size of the largest notification that the neighbour takes."""
        self.largest_relayed = outgoing.limits.frame_bytes - 1
        """The same with its number and stamp."""
        self.has_warned = False
        """Whether a notification was too large for it."""
        self.lost = 0
        """The number of notifications that it did not get, will not get, and does not know of yet."""
        self._queue: deque[tuple[int, bytes]] = deque()
        """The notifications in no log that wait, each with the first offset behind it."""
        self._passed = 0
        """The first offset behind what has been dispatched to it, while it is behind."""
        self.stuck = Stuck()

    def relay(self, offset: int, content: bytes, *, is_relayed: bool = False) -> None:
        """Relay what is dispatched now: a notification, or a record that is a relay as it came."""
        session, copies = self.session, self._outgoing.copies
        is_logged = offset != NO_OFFSET
        if copies is not None and is_relayed and copies.has(self.name, content):
            return
        if session is None or not self.outflow.is_live:
            if is_logged:
                self._passed = offset + 1
            else:
                self._enqueue([content])
        elif is_logged and (session.is_full or self.room <= 0):
            self.fall_behind(offset)
            self._passed = offset + 1
        else:
            if not is_logged and (session.is_spent or session.is_full):
                if copies is not None:
                    self._lose(1)
                    return
                self._outgoing.backpressure.block(self)
            self.send(offset, content, is_relayed=is_relayed)

    def send(self, offset: int, content: bytes, *, is_relayed: bool = False) -> None:
        """Send it over the connection that there is, whether or not there is room."""
        session = self.session
        assert session is not None
        if len(content) > (self.largest_relayed if is_relayed else self.largest):
            self.skip(len(content))
            return
        self._counters.relayed += 1
        if offset != NO_OFFSET:
            self.unconfirmed[offset] = None
            session.relay_record(offset + 1, content, is_relayed=is_relayed)
        elif self._outgoing.copies is not None:
            session.spent += len(content)
            session.send(wire.relay_on(0, content))
        elif content[:1] == b"{":  # JSON text is in no array
            session.spent += len(content)
            session.send(wire.relay(0, wire.NO_STAMP, content))
        else:
            session.relay(content)

    def relay_all(self, relays: Relays) -> None:
        """Relay several that are in no log."""
        session = self.session
        if session is None or not self.outflow.is_live:
            self._enqueue(relays.each)
        elif relays.count > 1 and relays.size > session.room:
            for half in relays.halves():
                self.relay_all(half)
        elif relays.size > self.largest:
            self.skip(relays.size)
        else:
            if session.is_spent or session.is_full:
                self._outgoing.backpressure.block(self)
            self._counters.relayed += relays.count
            session.relay_all(relays)

    @property
    def ready(self) -> bool:
        """Whether the neighbour has announced what it subscribes to on this connection."""
        return self.outflow.is_ready

    @property
    def passed(self) -> int:
        """All that concerns the neighbour below this offset has been sent."""
        return self._dispatch.reached if self.outflow.is_live else self.looked

    def send_marks(self, progress: Progress) -> None:
        """Send the marks that have changed, behind all that they speak of; later, if there is no room."""
        session = self.session
        if session is not None and self.ready and not session.is_full:
            for mark in progress.marks(self.name, self.passed):
                session.send(wire.mark(mark))

    @property
    def connection(self) -> Session | None:
        """Over which it is reached, if it is."""
        return self.session

    def send_record(self, record: Record) -> None:
        """Relay a record of the log, if it concerns the neighbour and does not come from it."""
        if self in self._router.of_record(record).links:
            self.send_queued(record.offset)
            if record.kind == PUBLICATION:
                self.send(record.offset, record.payload)
                return
            relay, copies = relayed_in(record), self._outgoing.copies
            if copies is None or not copies.has(self.name, relay):
                self.send(record.offset, relay, is_relayed=True)

    def missed(self, count: int) -> None:
        """Count records that may have matched and are in the log no more."""
        self._lose(count)

    def _enqueue(self, each: list[bytes]) -> None:
        """These cannot go now."""
        if self.outflow.queues and self._outgoing.copies is None:
            self._queue.extend((self._passed, packed) for packed in each)
            self._outgoing.backpressure.block(self)
        else:
            self._lose(len(each))

    def send_queued(self, offset: int | None = None) -> None:
        """Send what was queued before a record, by default all."""
        while self._queue and (offset is None or self._queue[0][0] <= offset):
            self.send(NO_OFFSET, self._queue.popleft()[1])

    def catch_up(self) -> None:
        super().catch_up()
        self.send_queued()
        self.drained()

    def drained(self) -> None:
        """There is room again."""
        session = self.session
        if (
            self.outflow.state is To.LIVE_BLOCKING
            and session is not None
            and not (session.is_spent or session.is_full)
        ):
            self.outflow.on(Step.UNBLOCK)
            self._outgoing.backpressure.unblock(self)

    def detach(self, dispatched: int) -> None:
        super().detach(dispatched)
        self.give_up()

    def look_after(self) -> None:
        """See to it that nobody waits for it for ever.

        Links wait for others further on, and those in the end for a client. But one whose neighbour is not heard,
        because too much of what it said waits here, may wait for answers that stand behind that.
        """
        session = self.session
        is_deaf = session is not None and not session.is_read
        progress = None if session is None else (session.gone_out, self.looked, len(self.unconfirmed))
        if self.stuck.has_lasted(STUCK_S, progress, is_stuck=is_deaf):
            log.warning(
                "%s: nobody waits for %s any longer, which does not answer", self._outgoing.broker, self.name
            )
            self.give_up()

    def give_up(self) -> None:
        """Nobody waits for it any longer, until it has caught up."""
        if self.outflow.is_live:
            self.looked = self._dispatch.reached
        if self.outflow.is_blocking:
            self.outflow.on(Step.GIVE_UP)
        self._lose(len(self._queue))
        self._queue.clear()
        self._outgoing.backpressure.unblock(self)

    def _lose(self, count: int) -> None:
        self._counters.dropped += count
        self.lost += count

    def report_lost(self) -> None:
        """Send the neighbour how many it has missed: subscribers behind it have to know.

        Also where the connection is full, which is when things are lost; but not without bound.
        """
        session = self.session
        if session is None or not self.ready or not self.lost:
            return
        if session.waiting <= REPORTED_MAX * self._outgoing.limits.buffer_bytes:
            count = min(self.lost, wire.DROPPED_MAX)
            session.tell(wire.Dropped(count))
            self.lost -= count

    def skip(self, size: int) -> None:
        """The neighbour does not take what is as large as this, and would end the connection, for ever."""
        self._lose(1)
        if not self.has_warned:
            self.has_warned = True
            log.error(
                "%s: a notification of %s bytes does not get to %s, which takes at most %s; nor do others",
                self._outgoing.broker,
                f"{size:,}",
                self.name,
                f"{self.largest:,}",
            )


def neighbour_in(record: Record) -> str:
    """The neighbour that a record came from; empty where a client published it."""
    return "" if record.kind == PUBLICATION else parse_arrival(record).neighbour
