"""A durable name is one name in the whole network: whoever subscribes under it at another broker moves it there.

A broker where the name is new seeks it. A patient barrier carries it to all brokers, and the answers have their
places of the subscriber and the ends of their logs (`barriers`). From then on it is known what is for which place
(`fairlead.broker.handover`): the ends are the cut with which the new place begins.

What is for the places before stays in the logs where it is. The new broker fetches it from there, over the links,
hands it to the client, and tells how far the client has dealt with it. Then come its own records, beyond the cut.
A place is left, under a name of its own, from the first question for it on; it ends when all is dealt with.

Every message may be lost, and is asked for again; every answer is about the offset that was asked for. Both sides
note in their ledgers what they have agreed on before they act on it. So a broker that is killed goes on where it
was; while it is away, what is for its place waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fairlead.broker.handover import HERE, Fetching, Holding, Part, number_for, offset_in, parts_of, rank_of
from fairlead.broker.progress import Progress
from fairlead.errors import FairleadError, Gone, ValueRefused
from fairlead.log.records import NOTIFICATIONS
from fairlead.network import wire
from fairlead.network.barriers import NO_LOG, Barriers
from fairlead.network.client_sessions import ClientSession
from fairlead.network.cuts import reached_in
from fairlead.network.destinations import Durable, Link
from fairlead.network.dispatch import Dispatch
from fairlead.network.ledger import Stay, Unsubscribed
from fairlead.network.persistence import Persistence

if TYPE_CHECKING:
    from fairlead.network.calling import Clock
    from fairlead.network.durability import Durability
    from fairlead.network.neighbourhood import Neighbourhood

__all__ = ["Handover", "left_name", "public_name"]

log: Final = logging.getLogger(__name__)

LEFT: Final = "\x1f"
"""Between the name of a durable subscriber and the counter of a place that it has left. Clients give no such
name."""
REPLAY_BYTES: Final = 1 << 15
"""The size of the records in one answer, about."""
READ_AT_ONCE: Final = 512
"""The number of records that are looked at for one answer."""
AGAIN_TICKS: Final = 2
"""For so many ticks an answer is awaited before the question is repeated."""


@dataclass(slots=True)
class _Request:
    """A client that waits for a subscription to take effect, and what is done then."""

    session: ClientSession
    id: str
    done: Callable[[], None]


@dataclass(slots=True)
class _Arrival:
    """A subscriber that has come, and is not all here."""

    durable: Durable
    moves: int
    requests: list[_Request] = field(default_factory=list)
    sought: int = 0
    """The number of the latest question."""
    lacking: frozenset[str] = frozenset()
    """The subscriptions that it has elsewhere, and that the client has not asked for here."""
    parts: list[Fetching] | None = None
    """The parts that are for it at other places, once they are known."""
    asks: int = 0
    """The number of ticks since the latest of them was asked to be left; 0: it has been."""

    @property
    def is_sought(self) -> bool:
        return self.parts is None

    @property
    def is_unsure(self) -> bool:
        """Whether it may have to be sought again."""
        return self.parts is None or self.asks > 0


@dataclass(slots=True)
class _Waiting:
    """A question that is answered when there is something to say."""

    message: wire.Fetch
    seen: tuple[int, bool]


class Handover:
    """The durable subscribers that come to a broker, and those that have gone."""

    def __init__(
        self,
        name: str,
        *,
        links: Mapping[str, Link],
        durables: Mapping[str, Durable],
        barriers: Barriers,
        progress: Progress,
        dispatch: Dispatch,
        persistence: Persistence,
        neighbourhood: Neighbourhood,
        clock: Clock,
    ) -> None:
        self._name, self._links, self._durables = name, links, durables
        self._barriers, self._progress, self._dispatch = barriers, progress, dispatch
        self._persistence, self._clock = persistence, clock
        self.durability: Durability
        self._arrivals: dict[str, _Arrival] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._looking: dict[str, int] = {}
        """The names for which somebody here waits to know whether they are in use, and how many do."""
        self._newest: dict[str, int] = {}
        """By the name under which a place is kept, the latest place that has asked for it."""
        barriers.holdings = self.holdings
        neighbourhood.handed_over = self.handle

    def seeks(self, *, patient: bool) -> bool:
        """Whether the name may be in use elsewhere, and that can be found out: now, or at some time."""
        there = self._links if patient else [each for each in self._links.values() if each.ready]
        return bool(there) and self._persistence.is_logged and self._barriers.are_answered_with_ends

    # -- arriving ----------------------------------------------------------------------------------------------

    def look_for(self, name: str, then: Callable[[bool], None]) -> None:
        """Find out whether a name is in use at another broker that is connected now, and go on with that."""
        self._looking[name] = self._looking.get(name, 0) + 1
        held: list[wire.HoldingText] = []

        def looked_up() -> None:
            self._looking[name] -= 1
            if not self._looking[name]:
                del self._looking[name]
            if any(broker > self._name for broker, counter, *_ in held if counter == HERE):
                self.look_for(name, then)  # another one is just making it, and goes first
            else:
                then(any(counter != HERE for _, counter, *_ in held))

        key = self._barriers.next_key()
        self._barriers.begin(wire.Barrier(*key, False, True, seek=name), "", looked_up, {}, held)

    def recall(self, durable: Durable) -> None:
        """Restore the place of a subscriber, as the ledger has it."""
        state = self._persistence.state
        durable.upto = state.departed.get(durable.name, {})
        stay = state.stays.get(durable.name)
        if stay is None:
            return
        durable.counter, durable.after = max(stay.counter, 0), stay.cut
        if stay.counter == HERE:
            durable.arriving = True
            self._arrivals[durable.name] = _Arrival(durable, 0)
        elif stay.parts and not durable.upto:
            self._fetch_from(_Arrival(durable, 0), stay)

    def forget_sought(self) -> None:
        """A process has begun: nobody is there for what was sought when the one before ended."""
        for arrival in [each for each in self._arrivals.values() if each.is_sought]:
            self._give_up(arrival)

    def expect(self, name: str, now: int) -> None:
        """A subscriber of this name begins to arrive: note it before its first filter."""
        self._persistence.note(Stay(name, HERE), now)

    def is_sought(self, durable: Durable) -> bool:
        """Whether it is not known yet where a subscriber has been."""
        arrival = self._arrivals.get(durable.name)
        return arrival is not None and arrival.is_sought

    def is_unsure(self, durable: Durable) -> bool:
        """The same, or that the place before has not been left yet."""
        arrival = self._arrivals.get(durable.name)
        return arrival is not None and arrival.is_unsure

    def seek(
        self, durable: Durable, session: ClientSession, id: str, moves: int, done: Callable[[], None]
    ) -> None:
        """Find out where a subscriber has been, once every broker knows what it has subscribed to here."""
        arrival = self._arrivals.get(durable.name)
        if arrival is None:
            arrival = self._arrivals[durable.name] = _Arrival(durable, moves)
        durable.arriving = True
        arrival.moves = max(arrival.moves, moves)
        arrival.requests.append(_Request(session, id, done))
        if arrival.is_sought:
            self._ask(arrival)

    def _ask(self, arrival: _Arrival) -> None:
        key = self._barriers.next_key()
        arrival.sought = key[1]
        ends: dict[str, int] = {}
        held: list[wire.HoldingText] = []
        self._barriers.begin(
            wire.Barrier(
                *key,
                True,
                True,
                seek=arrival.durable.name,
                moves=arrival.moves,
                client=_client_of(arrival.durable),
            ),
            "",
            lambda: self._answered(arrival, key[1], ends, held),
            ends,
            held,
        )

    def _answered(
        self, arrival: _Arrival, number: int, ends: dict[str, int], held: list[wire.HoldingText]
    ) -> None:
        durable = arrival.durable
        if self._arrivals.get(durable.name) is not arrival or arrival.sought != number:
            return  # it has been given up, or is sought once more
        rivals = [(moves, broker) for broker, counter, *_, moves in held if counter == HERE]
        if max(rivals, default=(-1, "")) > (arrival.moves, self._name):
            self._refuse(
                arrival, ValueRefused(f"another client is the durable subscriber {durable.name!r} now")
            )
            return
        holdings = [Holding(*each[:6]) for each in held if each[1] != HERE]
        fixed = sorted({each.broker for each in holdings if each.is_fixed})
        without = sorted(name for name, end in ends.items() if end == NO_LOG)
        if holdings and (fixed or without):
            self._refuse(arrival, _cannot_move(durable.name, fixed, without))
            return
        lacking = frozenset(id for each in holdings for id in each.ids) - durable.subscriptions.keys()
        if lacking and all(len(each.ids) for each in holdings):
            arrival.lacking = lacking  # the client is to ask for them; then it is sought again
            return
        self._settle(arrival, holdings, ends)

    def _settle(self, arrival: _Arrival, holdings: list[Holding], ends: dict[str, int]) -> None:
        """It is known where the subscriber has been."""
        durable, now = arrival.durable, self._clock.now
        counter, parts = parts_of(holdings, ends)
        if parts:
            stay = Stay(durable.name, counter, ends, [(*each[:2], dict(each.upto)) for each in parts])
            durable.counter, durable.after = counter, ends
            log.info("%s comes here from %s", durable.name, ", ".join(each.broker for each in parts))
        else:
            stay = Stay(durable.name, 0)
        self._persistence.note(stay, now)
        if parts:
            self._fetch_from(arrival, stay, parts[-1].offer)
            self._dispatch.after_sync(lambda: self._claim(arrival))
        else:
            del self._arrivals[durable.name]
            durable.arriving = False
            self._dispatch.after_sync(lambda: self._arrived(arrival))

    def _arrived(self, arrival: _Arrival) -> None:
        """The subscriber is here: what is for it elsewhere comes first."""
        requests, arrival.requests = arrival.requests, []
        durable = arrival.durable
        for session in durable.members if arrival.moves else ():
            session.tell(wire.Moved(durable.name, durable.counter, not arrival.parts))
        for each in requests:
            if not each.session.ended:
                each.done()
        self.durability.serve(arrival.durable)

    def _fetch_from(self, arrival: _Arrival, stay: Stay, offer: str = "") -> None:
        durable = arrival.durable
        parts = parts_in(stay)
        arrival.parts = [Fetching(each) for each in [*parts[:-1], parts[-1]._replace(offer=offer)]]
        arrival.asks = 1
        durable.arriving = True
        self._arrivals[durable.name] = arrival

    def _claim(self, arrival: _Arrival) -> None:
        """Ask the latest place to be left. Until it has been, nothing is known for sure."""
        if arrival.parts and self._arrivals.get(arrival.durable.name) is arrival:
            self._question(arrival.durable, arrival.parts[-1], 0)

    def _seek_again(self, arrival: _Arrival) -> None:
        """The latest place has not been left: somebody has come back there, or was there before."""
        durable = arrival.durable
        if not durable.members:
            self._give_up(arrival)
            return
        arrival.parts, arrival.asks = None, 0
        durable.counter, durable.after, durable.after_end = 0, {}, None
        self._persistence.note(Stay(durable.name, HERE), self._clock.now)
        self._ask(arrival)

    def _refuse(self, arrival: _Arrival, error: FairleadError) -> None:
        for each in arrival.requests:
            each.session.tell(wire.Refused(0, str(error), arrival.durable.name))
        self._give_up(arrival)

    def _give_up(self, arrival: _Arrival) -> None:
        """A subscriber does not come here after all. Nothing has been promised yet."""
        durable = arrival.durable
        self._arrivals.pop(durable.name, None)
        if self._durables.get(durable.name) is durable:
            self._persistence.note(Unsubscribed(durable.name, ""), self._clock.now)
            self.durability.end(durable)
            self._dispatch.after_sync(lambda: None)

    def holdings(self, barrier: wire.Barrier) -> list[wire.HoldingText]:
        """The places that a subscriber has here which some broker seeks."""
        held: list[wire.HoldingText] = []
        if barrier.seek in self._looking and not barrier.patient and barrier.origin != self._barriers.origin:
            held.append((self._name, HERE, [], {}, False, "", 0))
        for durable in [each for each in self._durables.values() if public_name(each.name) == barrier.seek]:
            if durable.ends:
                continue
            arrival = self._arrivals.get(durable.name)
            if arrival is None or not arrival.is_sought:
                is_fixed = not durable.terms.is_neutral or durable.history is not None
                ids, cut = [*durable.subscriptions], dict(durable.after or self._cut_of(durable))
                if durable.moves > barrier.moves and _client_of(durable) == barrier.client:
                    held.append(
                        (self._name, HERE, [], {}, False, "", durable.moves)
                    )  # it has been there before
                held.append((self._name, durable.counter, ids, cut, is_fixed, self._offer(durable), 0))
            elif barrier.origin == self._barriers.origin:
                continue
            elif not barrier.patient:
                held.append((self._name, 0, [], {}, False, "", 0))  # in use, wherever it will be
            elif not durable.members or (arrival.moves, self._name) < (
                barrier.moves,
                barrier.origin.rpartition("/")[0],
            ):
                self._refuse(
                    arrival, ValueRefused(f"another client is the durable subscriber {durable.name!r} now")
                )
            else:
                held.append((self._name, HERE, [], {}, False, "", arrival.moves))
        return held

    def _offer(self, durable: Durable) -> str:
        return f"{self._barriers.origin}:{durable.attaches}"

    def _cut_of(self, durable: Durable) -> dict[str, int]:
        stay = self._persistence.state.stays.get(durable.name)
        return {} if stay is None else stay.cut

    # -- fetching ----------------------------------------------------------------------------------------------

    def go_on(self, durable: Durable) -> None:
        """Ask for what is for a subscriber elsewhere, if its client is there and there is room."""
        arrival = self._arrivals.get(durable.name)
        if arrival is None or arrival.is_unsure:
            return
        assert arrival.parts is not None
        session = durable.session
        part = next((each for each in arrival.parts if not each.is_read), None)
        if part is None:
            durable.arriving = False
            return
        room = durable.window - sum(len(each.open) for each in arrival.parts)
        if session is None or not durable.is_claimed or part.idle or room <= 0 or session.is_full:
            return
        self._question(durable, part, room)

    def _question(self, durable: Durable, part: Fetching, room: int) -> None:
        part.idle = min(room, 1)
        broker, counter, upto, offer = part.part
        self._send(
            wire.Fetch(
                broker,
                self._name,
                durable.name,
                counter,
                durable.counter,
                dict(upto),
                part.since,
                part.done,
                room,
                offer,
            )
        )

    def _replay(self, message: wire.Replay, now: int) -> None:
        arrival = self._arrivals.get(message.durable)
        part = None if arrival is None else _part_of(arrival, message.origin, message.counter)
        if arrival is None or part is None:
            return
        durable = arrival.durable
        if arrival.asks:
            if message.is_stale or message.is_gone:
                self._seek_again(arrival)
            elif arrival.parts is not None and part is arrival.parts[-1]:
                arrival.asks = 0
                self._arrived(arrival)
        elif message.is_stale:
            for session in durable.members:
                session.tell(wire.Refused(0, _moved_on(durable.name), durable.name))
                self.durability.detach(durable, session)
        elif message.is_gone:
            part.is_read = True
            part.open.clear()
            self._remove(arrival, part, now)
        elif durable.session is not None and part.idle:
            sent = {each[0]: each for each in message.records}
            if part.take(message.since, message.end, sent.items(), is_all=message.is_all):
                self._hand_out(durable, part, message.records)
                self._look_at(durable, part)
        self.durability.serve(durable)

    def _hand_out(self, durable: Durable, part: Fetching, records: Iterable[wire.ReplayRecord]) -> None:
        session = durable.session
        assert session is not None
        for offset, ids, number, of, packed in records:
            known = tuple(id for id in ids if id in durable.subscriptions)
            head = wire.deliver_head(known or tuple(sorted(durable.subscriptions)[:1]), (number, of))
            session.send(wire.deliver(number_for(part.part.counter, offset), head, packed))

    def accept(self, durable: Durable, number: int) -> None:
        """A client has dealt with what is in the log of another broker, or of this one for a place before."""
        arrival = self._arrivals.get(durable.name)
        for part in () if arrival is None or arrival.parts is None else arrival.parts:
            if part.part.counter == rank_of(number) and part.accept(offset_in(number)):
                self._look_at(durable, part)

    def reject(self, durable: Durable, message: wire.Reject) -> None:
        """A client has not dealt with it: it is at the end of what has come, or done with all the same."""
        arrival = self._arrivals.get(durable.name)
        offset, rank = offset_in(message.ordinal), rank_of(message.ordinal)
        for part in () if arrival is None or arrival.parts is None else arrival.parts:
            if part.part.counter != rank or offset not in part.open:
                continue
            record = part.open[offset]
            if message.again and durable.session is not None:
                self._hand_out(durable, part, [record])  # type: ignore[list-item]
            elif part.accept(offset):
                self._look_at(durable, part)

    def _look_at(self, durable: Durable, part: Fetching) -> None:
        if part.is_over:
            self._send(wire.Forget(part.part.broker, self._name, durable.name, part.part.counter))

    def _forgotten(self, message: wire.Forgotten, now: int) -> None:
        arrival = self._arrivals.get(message.durable)
        part = None if arrival is None else _part_of(arrival, message.origin, message.counter)
        if arrival is not None and part is not None and part.is_over:
            self._remove(arrival, part, now)
            self._dispatch.after_sync(lambda: None)

    def _remove(self, arrival: _Arrival, part: Fetching, now: int) -> None:
        """Nothing is left at a place before."""
        assert arrival.parts is not None
        arrival.parts.remove(part)
        self._note(arrival.durable, arrival.parts, now)
        if not arrival.parts:
            del self._arrivals[arrival.durable.name]
            arrival.durable.arriving = False

    def _note(self, durable: Durable, parts: list[Fetching], now: int) -> None:
        left = [(*each.part[:2], dict(each.part.upto)) for each in parts]
        self._persistence.note(Stay(durable.name, durable.counter, dict(durable.after), left), now)

    def detached(self, durable: Durable) -> None:
        """The client of a subscriber has gone: what it has not dealt with comes again."""
        arrival = self._arrivals.get(durable.name)
        if arrival is None:
            return
        if arrival.is_sought:
            self._give_up(arrival)
            return
        arrival.requests.clear()
        for part in arrival.parts or ():
            if not part.is_over:
                part.begin_again()
                durable.arriving = True

    def ended(self, durable: Durable) -> None:
        """A subscriber has ended here: its places elsewhere are told once; their leases end them otherwise."""
        self._waiting.pop(durable.name, None)
        self._newest.pop(durable.name, None)
        arrival = self._arrivals.pop(durable.name, None)
        for part in [] if arrival is None else arrival.parts or []:
            self._send(wire.Forget(part.part.broker, self._name, durable.name, part.part.counter))

    # -- leaving -----------------------------------------------------------------------------------------------

    def _fetch(self, message: wire.Fetch, now: int) -> None:
        left_as = left_name(message.durable, message.counter)
        if left_as not in self._durables:
            here = self._durables.get(message.durable)
            if here is None or here.counter != message.counter or self.is_sought(here):
                self._answer(message, is_gone=True)
                return
            if self.is_unsure(here):
                return  # it is asked again when that is decided
            if message.room or message.offer != self._offer(here):
                self._answer(message, is_stale=True)
                return
            for session in here.members:
                session.tell(wire.Refused(0, _moved_on(here.name), here.name))
            self._arrivals.pop(here.name, None)  # whoever asks fetches what is for the places before, too
            self.durability.depart(here, left_as, message.upto, now)
        durable = self._durables[left_as]
        is_other = not message.room and message.upto != durable.upto
        if is_other or message.asking < self._newest.setdefault(left_as, message.asking):
            self._answer(message, is_stale=True)
            return
        self._newest[left_as] = message.asking
        durable.left = now
        if not message.room:
            self._dispatch.after_sync(lambda: self._answer(message))
            return
        reached = self._dispatch.reached
        if message.done > durable.cursor(reached):
            durable.seek(message.done)
        self._waiting[left_as] = _Waiting(message, (-1, False))
        self._look_up(left_as)

    def _look_up(self, left_as: str) -> None:
        """Answer a question, if there is something to say that has not been said."""
        waiting, durable = self._waiting[left_as], self._durables[left_as]
        now = self._state(durable)
        if now == waiting.seen:
            return
        waiting.seen = now
        message, (reached, is_complete) = waiting.message, now
        start = max(message.since, durable.cursor(reached))
        records, end = self._portion(durable, start, message.room, reached)
        is_all = is_complete and end >= reached
        if records or is_all:
            del self._waiting[left_as]
            self._answer(message, end=end, records=records, is_all=is_all)

    def _state(self, durable: Durable) -> tuple[int, bool]:
        return self._dispatch.reached, reached_in(self._reached, durable.upto)

    def _reached(self, origin: str) -> int:
        return self._dispatch.reached if origin == self._name else self._progress.position_of(origin)

    def _portion(
        self, durable: Durable, start: int, most: int, reached: int
    ) -> tuple[list[wire.ReplayRecord], int]:
        """The next records that are for a place that was left, and up to where that is all of them."""
        ledger = self._persistence.ledger
        assert ledger is not None
        records: list[wire.ReplayRecord] = []
        size, at = 0, max(start, ledger.log.first)
        with ledger.reader(at, *NOTIFICATIONS, synced=False) as reader:
            while at < reached and len(records) < most and size < REPLAY_BYTES:
                try:
                    chunk = reader.read_chunk(min(READ_AT_ONCE, reached - at))
                except Gone:
                    break
                for record in chunk:
                    if len(records) >= most or size >= REPLAY_BYTES:
                        return records, record.offset
                    if record.offset in durable.done:
                        continue
                    for ids, number, of, packed in durable.versions_of(record):
                        records.append((record.offset, [*ids], number, of, packed))
                        size += len(packed)
                if reader.offset == at:
                    break
                at = reader.offset
        return records, at

    def _answer(
        self,
        message: wire.Fetch,
        *,
        end: int = 0,
        records: Iterable[wire.ReplayRecord] = (),
        is_all: bool = False,
        is_gone: bool = False,
        is_stale: bool = False,
    ) -> None:
        self._send(
            wire.Replay(
                message.origin,
                self._name,
                message.durable,
                message.counter,
                message.since,
                end,
                [*records],
                is_all,
                is_gone,
                is_stale,
            )
        )

    def _forget(self, message: wire.Forget, now: int) -> None:
        left_as = left_name(message.durable, message.counter)
        durable = self._durables.get(left_as)
        if durable is not None:
            self._persistence.note(Unsubscribed(left_as, ""), now)
            self.durability.end(durable)
        answer = wire.Forgotten(message.origin, self._name, message.durable, message.counter)
        self._dispatch.after_sync(lambda: self._send(answer))

    # -- the way there -----------------------------------------------------------------------------------------

    def handle(self, message: wire.Handing, now: int) -> None:
        """A message for this broker, or for another one that is reached through it."""
        if message.to != self._name:
            self._send(message)
        elif isinstance(message, wire.Fetch):
            self._fetch(message, now)
        elif isinstance(message, wire.Replay):
            self._replay(message, now)
        elif isinstance(message, wire.Forget):
            self._forget(message, now)
        else:
            self._forgotten(message, now)

    def _send(self, message: wire.Handing) -> None:
        """Send a message on; what cannot go now is asked for again."""
        if message.to == self._name:
            self._dispatch.after_sync(lambda: self.handle(message, self._clock.now))
            return
        link = self._links.get(message.to) or self._links.get(self._progress.next_hop(message.to))
        if link is not None and link.session is not None and link.ready:
            link.session.tell(message)

    @property
    def is_waiting(self) -> bool:
        """Whether somebody waits for what arrives."""
        return bool(self._waiting)

    def look(self) -> None:
        """Something may have arrived for which somebody waits."""
        for left_as in [*self._waiting]:
            if left_as in self._durables:
                self._look_up(left_as)
            else:
                del self._waiting[left_as]

    def tick(self, now: int) -> None:
        """From time to time: ask again for what was not answered, and look whether all has come."""
        self.look()
        for arrival in [*self._arrivals.values()]:
            self._tick(arrival)
        for durable in [*self._durables.values()]:
            if durable.after and not durable.upto:
                self._bound(durable, now)

    def _tick(self, arrival: _Arrival) -> None:
        if arrival.asks:
            arrival.asks += 1
            if arrival.asks % AGAIN_TICKS == 0:
                self._claim(arrival)
            return
        for part in arrival.parts or ():
            if part.is_over:
                self._look_at(arrival.durable, part)
            elif part.idle:
                part.idle = 0 if part.idle > AGAIN_TICKS else part.idle + 1
        if arrival.parts is not None and arrival.durable.session is not None:
            self.durability.serve(arrival.durable)

    def _bound(self, durable: Durable, now: int) -> None:
        """Bound a subscriber no longer, when all that is for its places before has passed here."""
        if durable.after_end is None:
            if reached_in(self._reached, durable.after):
                durable.after_end = self._dispatch.end
        elif not durable.arriving and durable.handed_over(self._dispatch.reached) >= durable.after_end:
            durable.after, durable.after_end = {}, None
            arrival = self._arrivals.get(durable.name)
            self._note(durable, [] if arrival is None else arrival.parts or [], now)

    def lacking(self, durable: Durable) -> frozenset[str]:
        """The subscriptions of a subscriber elsewhere that its client has not asked for here."""
        arrival = self._arrivals.get(durable.name)
        return frozenset() if arrival is None else arrival.lacking

    def roams(self) -> list[dict[str, object]]:
        """The subscribers that come here, and from where; and those that have gone, and left something here."""
        coming: list[dict[str, object]] = [
            {
                "name": name,
                "from": [] if each.parts is None else [part.part.broker for part in each.parts],
                "state": "sought" if each.is_unsure else "arriving" if each.durable.arriving else "arrived",
            }
            for name, each in self._arrivals.items()
        ]
        gone: list[dict[str, object]] = [
            {"name": public_name(each.name), "from": [self._name], "state": "left"}
            for each in self._durables.values()
            if each.upto
        ]
        return coming + gone


def left_name(durable: str, counter: int) -> str:
    """The name under which a place is kept that a durable subscriber has left."""
    return f"{durable}{LEFT}{counter}"


def public_name(durable: str) -> str:
    """The name of a durable subscriber, as clients give it."""
    return durable.partition(LEFT)[0]


def parts_in(stay: Stay) -> list[Part]:
    """The parts that are for a subscriber at other places."""
    return [Part(*each) for each in stay.parts]


def _part_of(arrival: _Arrival, broker: str, counter: int) -> Fetching | None:
    return next((each for each in arrival.parts or () if each.part[:2] == (broker, counter)), None)


def _client_of(durable: Durable) -> str:
    session = durable.session
    return "" if session is None else session.name


def _moved_on(name: str) -> str:
    return f"another client is the durable subscriber {name!r} now, at another broker"


def _cannot_move(name: str, fixed: list[str], without: list[str]) -> ValueRefused:
    if fixed:
        return ValueRefused(
            f"the durable subscriber {name!r} is at {', '.join(fixed)}, and is shared, counts attempts or began in"
            " the past: it does not move",
            hint=f"subscribe at {fixed[0]}, or end it there",
        )
    return ValueRefused(
        f"the durable subscriber {name!r} cannot move: {', '.join(without)} has no log, so that nothing is known"
        " of its place"
    )
