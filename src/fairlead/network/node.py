"""The broker with its sessions, without sockets: frames in, frames out.

A node drives one `Broker`, keeps its ledger, and knows who is connected. Whoever drives the node, the server or a
test, hands it what has been received and the time, carries `flush` out, and syncs the log when `wants_sync`,
telling the node when that is done. A node never waits.

Here is the way of a notification, from a frame to its destinations, and what all parts share. The parts:

    admission      what clients publish: that it is new, and may be
    router         where a notification goes: the answers of the seam
    dispatch       log, sync, then send: drives the program of publications
    catch_up       those who are behind read on in the log
    fences         that all brokers have made safe what came before
    neighbourhood  the links: how they are made and end, what neighbours tell each other
    calling        whom it calls, and why a link is not up
    clientele      the clients, and what they ask
    durability     the durable subscribers
    inflow         when a connection is read from: states
    outflow        what becomes of notifications for a destination: states
    inspection     what the node says of itself
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from fairlead.broker import Broker
from fairlead.broker import messages as calls
from fairlead.broker.publications import NO_OFFSET
from fairlead.errors import FairleadError, LogFull, NotThere, ProtocolError, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.network import inspection, wire
from fairlead.network.admission import Admission
from fairlead.network.catch_up import CatchUp
from fairlead.network.clientele import NAME_MAX, Clientele
from fairlead.network.destinations import Durable, Link
from fairlead.network.diagnostics import printable
from fairlead.network.dispatch import Dispatch, Taken
from fairlead.network.durability import Durability
from fairlead.network.fences import Fences
from fairlead.network.inflow import Event, Frame
from fairlead.network.ledger import (
    Change,
    Ledger,
    State,
    cursor_of_acknowledged,
    cursor_of_durable,
    cursor_of_link,
)
from fairlead.network.neighbourhood import Neighbourhood
from fairlead.network.outbox import Outbox
from fairlead.network.outflow import Step
from fairlead.network.relays import Relays
from fairlead.network.router import Router
from fairlead.network.sessions import (
    GONE,
    ClientSession,
    Counters,
    LinkSession,
    Peer,
    Session,
    Stuck,
)
from fairlead.network.settings import Limits

__all__ = ["Node"]

log: Final = logging.getLogger(__name__)

READ_AT_ONCE: Final = 512
"""How many records of the log are looked at in one turn, for all who are behind: others wait meanwhile."""
HEARING: Final = 64
"""How many of them it is worth to go on with what somebody said."""
ANSWERED_AT_ONCE: Final = 1 << 14
"""So many bytes of answers take a turn: in a large network, one answer may take long."""


class Node:
    """A broker that is connected to others. Without a ledger it remembers nothing, and nothing is durable."""

    def __init__(
        self, broker: Broker, ledger: Ledger | None, limits: Limits | None = None, *, life: str, now: int = 0
    ) -> None:
        self.broker, self.ledger, self.limits, self.life = broker, ledger, limits or Limits(), life
        self.name = broker.name
        self.state = State() if ledger is None else ledger.state
        self.counters = Counters()
        self.clients: dict[str, ClientSession] = {}
        self.durables: dict[str, Durable] = {}
        self.links: dict[str, Link] = {}
        self.dirty: list[Session] = []
        self.calls: dict[str, str] = {}
        """Where this side calls: the neighbours' addresses, each with its name, once that is known."""
        self.on_calls: Callable[[], None] = lambda: None
        """Called when that changes."""
        self.url = ""
        """Where this broker can be called."""
        self.blocking: set[ClientSession | Link] = set()
        """Whoever cannot keep up and is to miss nothing: what is for them waits where it comes from."""
        self._acknowledged: dict[str, int] = {}
        """How far each neighbour has acknowledged this log."""
        self.router = Router(broker, self.links)
        self.dispatch = Dispatch(ledger, counters=self.counters, durables=self.durables)
        self.catch_up = CatchUp(ledger, self.dispatch)
        self.fences = Fences(f"{self.name}/{life}", self.links, self.dispatch)
        self.neighbourhood = Neighbourhood(self)
        self.durability = Durability(self)
        self.clientele = Clientele(self)
        self.admission = Admission(self)
        self._handlers: dict[type[Session], Callable[..., None]] = {
            ClientSession: self._from_client,
            LinkSession: self._from_broker,
        }
        self._texts: dict[str, Filter] = {}
        self._now = now
        self._recall(now)

    # -- what it remembers -------------------------------------------------------------------------------------

    def _recall(self, now: int) -> None:
        self.neighbourhood.recall(now)
        self.durability.recall(now)
        if self.ledger is not None:
            for identity in self.ledger.identities:
                self.broker.is_new(identity)
            self.ledger.identities.clear()

    @property
    def log_name(self) -> str:
        """The log's identity; empty if there is none."""
        return "" if self.ledger is None else self.ledger.identity

    @property
    def dispatched(self) -> int:
        """The first offset that has not been dispatched."""
        return self.dispatch.reached

    @property
    def now(self) -> int:
        """The time when something came, or was looked after, last."""
        return self._now

    def place(self, name: str, first: int) -> int:
        """Where a destination is in the log; a new one is at `first`, and the log is told so at once."""
        if self.ledger is None:
            return first
        return self.ledger.log.cursors.setdefault(name, first)

    def unplace(self, name: str) -> None:
        """There is no such destination any more: nothing is kept for it."""
        if self.ledger is not None and name in self.ledger.log.cursors:
            del self.ledger.log.cursors[name]

    def note(self, change: Change, now: int) -> None:
        """Change the state, and remember it."""
        if self.ledger is None:
            self.state.apply(change)
        else:
            self.ledger.note(change, now)

    @property
    def lineage(self) -> list[tuple[str, int]]:
        """The incarnations of the log; none if there is no log."""
        return [] if self.ledger is None else [(each.id, each.first) for each in self.ledger.lineage]

    def acknowledged(self, neighbour: str) -> int:
        """All records below this offset that concern a neighbour have been acknowledged by it."""
        if neighbour not in self._acknowledged and self.ledger is not None:
            self._acknowledged[neighbour] = self.ledger.log.cursors.get(cursor_of_acknowledged(neighbour), 0)
        return self._acknowledged.get(neighbour, 0)

    def acknowledge(self, neighbour: str, end: int, *, rewound: bool = False) -> None:
        """A neighbour has acknowledged the records below this offset; `rewound`: and no others any longer."""
        if rewound or end > self.acknowledged(neighbour):
            self._acknowledged[neighbour] = (
                end  # `save` writes it: a cursor for each would be a sync for each
            )

    def save(self, now: int) -> None:
        """Note where every destination is, so that less is sent again after a restart."""
        if self.ledger is None:
            return
        for name, link in self.links.items():
            self.save_place(cursor_of_link(name), link)
            if name in self._acknowledged:
                self.ledger.log.cursors[cursor_of_acknowledged(name)] = self._acknowledged[name]
        for name, durable in self.durables.items():
            if not durable.ends:
                self.save_place(cursor_of_durable(name), durable)
        if self.ledger.is_scattered:
            self.ledger.gather(now)

    def save_place(self, name: str, outbox: Outbox) -> None:
        """Note where one destination is; that is safe with the next sync."""
        if self.ledger is not None:
            # Not beyond the content: or changes of cursors would change the cursors, for ever.
            self.ledger.log.cursors[name] = min(outbox.cursor(self.dispatched), self.ledger.content)

    # -- connections -------------------------------------------------------------------------------------------

    def greet(self, peer: Peer, hello: wire.Hello, now: int = 0) -> Session:
        """Take a new connection in; ProtocolError says why not."""
        if hello.version != wire.VERSION:
            raise ProtocolError(
                f"version {hello.version} of the protocol is not spoken here; version {wire.VERSION} is"
            )
        if len(hello.name.encode()) > NAME_MAX:
            raise ProtocolError(f"a name has at most {NAME_MAX} bytes")
        if not hello.name.isprintable():
            raise ProtocolError(f"a name has printable characters only, unlike {printable(hello.name)}")
        if hello.role not in ("client", "broker"):
            raise ProtocolError(f"neither client nor broker, but {hello.role!r}")
        is_client = hello.role == "client"
        greet = self.clientele.greet(peer, hello) if is_client else self.neighbourhood.greet(peer, hello, now)
        greet.follow_inflow()
        return greet

    def hello(self, neighbour: str) -> wire.Hello:
        """What this side says when it calls a broker; `neighbour` is its name, if that is known."""
        return self.neighbourhood.hello(neighbour)

    def welcomed(self, peer: Peer, url: str, welcome: wire.Welcome, now: int = 0) -> LinkSession:
        """A broker that was called has answered."""
        session = self.neighbourhood.welcomed(peer, url, welcome, now)
        session.follow_inflow()
        return session

    def lost(self, session: Session) -> None:
        """A connection has ended."""
        if session.ended:
            return
        session.inflow.end()
        if session.out:
            session.peer.write(session.take_out())
        session.peer.close()
        session.lost()
        session.peer = GONE  # which holds the session: what has ended is freed at once

    def keep_links(self, names: Iterable[str], now: int) -> None:
        """Have links to these neighbours only, and call nobody before it is said where they are now.

        Those that have not been connected yet are waited for, as those that are away are.
        """
        self.neighbourhood.keep(names, now)

    # -- frames ------------------------------------------------------------------------------------------------

    def receive(self, session: Session, frames: Iterable[Frame], now: int) -> None:
        """Handle what came over a connection; after a protocol error it is closed, and nobody else minds."""
        self._now = now
        if session.ended:
            return  # what comes behind the gap that ended it must not close the gap
        session.has_spoken = True
        taken: list[Taken] = []
        waiting: list[Frame] = []
        inflow = session.inflow
        try:
            if self.blocking or not inflow.is_open:
                frames = self._let_through(session, frames, waiting)
            self._handlers[type(session)](session, frames, taken, now)
            self.dispatch.commit(session, taken, now)
        except Exception as error:
            # What has been taken is known from now on, so it has to be in the log, whatever comes after it.
            with contextlib.suppress(FairleadError):
                self.dispatch.commit(session, taken, now)
            self._end_failed(session, error)
        if self.ledger is None:
            self.dispatch.synced(0)
        if waiting:
            inflow.hold(waiting, blocked=not inflow.frames and self._is_blocked(session, *waiting[0]))
        session.look_at_answers()
        if not inflow.is_open:
            session.follow_inflow()

    def _let_through(
        self, session: Session, frames: Iterable[Frame], waiting: list[Frame]
    ) -> Iterator[Frame]:
        """What comes before the first notification for a destination that is too slow; the rest is `waiting`."""
        is_waiting = not session.inflow.is_open
        for frame in frames:
            if frame[0] in session.passing:
                yield frame
            elif is_waiting or self._is_blocked(session, *frame):
                is_waiting = True
                waiting.append(frame)
            else:
                yield frame

    def _is_blocked(self, session: Session, kind: int, payload: bytes) -> bool:
        """Whether a frame has to wait for one of its destinations. What is logged waits for no neighbour."""
        source = session.source
        try:
            if kind == wire.RELAYS:
                found = [fanout for fanout, _ in self.router.of_all(Relays.read(payload), source)]
                number = 0
            elif kind in (wire.PUBLISH, wire.RELAY):
                number, packed = wire.parse_numbered(payload)
                found = [self.router.of(packed, source)]
            else:
                return False
        except Exception:
            return False  # it goes nowhere: whoever takes it says why
        is_logged = number > 0 and self.ledger is not None
        return any(
            target in self.blocking
            for fanout in found
            for target in (*(() if is_logged else fanout.links), *(each.target for each in fanout.recipients))
        )

    def _end_failed(self, session: Session, error: Exception) -> None:
        """Whatever goes wrong with one connection ends that one; if it is our fault, we want to know."""
        if isinstance(error, FairleadError):
            session.end(str(error))
        else:
            log.error("the connection with %s has failed", session.name, exc_info=error)
            session.take_out()
            self.lost(session)

    def _from_client(
        self, session: ClientSession, frames: Iterable[Frame], taken: list[Taken], now: int
    ) -> None:
        frames, enough = iter(frames), session.waiting + ANSWERED_AT_ONCE
        publications: list[tuple[int, bytes]] = []
        try:
            for kind, payload in frames:
                if kind == wire.PUBLISH:
                    publications.append(wire.parse_numbered(payload))
                elif kind == wire.CONTROL:
                    self.admission.take(session, publications, taken, now)
                    self.dispatch.commit(session, taken, now)
                    message = wire.parse_control(payload)
                    self.clientele.said(session, message, now)
                    if session.ended:
                        return
                    if isinstance(message, wire.Listen) or session.waiting > enough:
                        session.inflow.hold(frames)  # the rest when others have had their turn
                else:
                    raise ProtocolError(f"clients do not send frames of the kind {kind}")
        finally:  # also what came before something that is wrong
            self.admission.take(session, publications, taken, now)

    def _from_broker(
        self, session: LinkSession, frames: Iterable[Frame], taken: list[Taken], now: int
    ) -> None:
        router, pending = self.router, self.dispatch.pending
        name = session.name
        last = self.neighbourhood.received(session)
        for kind, payload in frames:
            if kind == wire.RELAY:
                if last is None:
                    continue  # the link has ended here, and the neighbour does not know yet
                number, packed = wire.parse_numbered(payload)
                if not number:
                    session.deal(len(packed))
                if number and number <= last:
                    taken.append((None, packed, last))
                    continue
                last = number or last
                fanout = router.of(packed, name)
                if number or taken or pending:
                    taken.append((fanout, packed, number))
                else:
                    self.counters.received += 1
                    fanout.send(NO_OFFSET, packed)
            elif kind == wire.RELAYS:
                if last is None:
                    continue
                several = Relays.read(payload)
                session.deal(several.size)
                for fanout, relays in router.of_all(several, name):
                    if taken or pending:
                        taken += [(fanout, packed, 0) for packed in relays.each]
                    else:
                        self.counters.received += relays.count
                        fanout.send_all(relays)
            elif kind == wire.CONTROL:
                self.dispatch.commit(session, taken, now)
                self.neighbourhood.said(session, session.parts.finish(payload), now)
                if session.ended:
                    return
                last = self.neighbourhood.received(session)
            elif kind == wire.PART:
                session.parts.add(payload)
            else:
                raise ProtocolError(f"brokers do not send frames of the kind {kind}")

    def flush(self) -> None:
        """Hand out all that is to be sent, and let those have a turn who wait for one.

        Whoever is not through with it is `dirty` again, and whoever had none is the first to have one next time.
        """
        dirty, self.dirty = dict.fromkeys(self.dirty), []  # each once: one turn is one turn
        late: list[Session] = []
        left = READ_AT_ONCE
        for session in dirty:
            try:
                session.flush()
                if session.starved and not session.is_full:
                    session.starved = False
                    self.drained(session)
                if session.is_due and left > 0:
                    session.is_due = False
                    left -= self._turn(session, left)
                elif session.is_due:
                    late.append(session)
            except Exception as error:
                self._end_failed(session, error)
        self.dirty[:0] = late

    def _turn(self, session: Session, at_most: int) -> int:
        """Hear more of what a connection said, and let it read on; how many records (`at_most`) that is worth."""
        looked = 0
        if session.inflow.is_due:
            self.receive(session, session.inflow.take(), self._now)
            looked += HEARING
            session.follow_inflow()
        for outbox in session.outboxes():
            looked += self.catch_up.turn(outbox, max(0, at_most - looked))
        return looked

    def drained(self, session: Session) -> None:
        """What was sent to a connection has mostly gone out."""
        session.waiting = session.peer.buffered()
        session.drained()
        for outbox in session.outboxes():
            self.catch_up.read_on(outbox)
            outbox.drained()

    def block(self, target: ClientSession | Link) -> None:
        """A destination cannot keep up, and nothing is to be left out: what is for it waits from now on."""
        if target not in self.blocking:
            self.blocking.add(target)
            target.outflow.on(Step.BLOCK)
            target.stuck = Stuck()

    def unblock(self, target: ClientSession | Link) -> None:
        """It has caught up, or is gone: whoever waits for it goes on."""
        if target in self.blocking:
            self.blocking.discard(target)
            for each in self.sessions:
                if each.inflow.is_blocked:
                    each.inflow.on(Event.UNBLOCK)
                    each.follow_inflow()

    @property
    def blocked(self) -> int:
        """How many connections wait for a destination that is too slow."""
        return sum(each.inflow.is_blocked for each in self.sessions)

    @property
    def sessions(self) -> list[Session]:
        """All connections of clients and neighbours."""
        return [*self.clients.values(), *self.neighbourhood.sessions]

    # -- the log -----------------------------------------------------------------------------------------------

    @property
    def wants_sync(self) -> bool:
        """Whether something waits for the log to be synced."""
        return bool(self.dispatch.pending)

    def synced(self, synced: int) -> None:
        """The log is safe below this offset: acknowledge what is in it, and let it go on its way."""
        self.dispatch.synced(synced)

    def log_is_full(self, error: LogFull, now: int) -> None:
        """What could be written goes on its way, the rest is refused; what else waits, waits for room."""
        self.dispatch.log_is_full(error, now)

    # -- the broker --------------------------------------------------------------------------------------------

    def filter(self, text: str) -> Filter:
        """The filter that a text says; the same texts come often."""
        filter = self._texts.get(text)
        if filter is None:
            if len(self._texts) > self.limits.texts:
                self._texts.clear()
            filter = self._texts[text] = parse(text)
        return filter

    def call(self, call: calls.Call, now: int) -> None:
        """Tell the broker what a client asks for, and the neighbours what follows; FairleadError says why not."""
        effects = self.broker.handle(call, now)
        for effect in effects:
            if isinstance(effect, calls.Refuse):
                raise (NotThere if effect.is_missing else ValueRefused)(effect.reason)
        self.neighbourhood.carry(effects)
        self.router.change()

    def leave(self, client: str) -> None:
        """Tell the broker that a client is gone, with all that it has asked for."""
        self.router.targets.pop(client, None)
        self.neighbourhood.carry(self.broker.handle(calls.Leave(client), 0))
        self.router.change()

    def tick(self, now: int) -> None:
        """From time to time: tell producers whether anyone listens, and make ready what comes next."""
        self._now = now
        for target in list(self.blocking):
            target.look_after()
        self.router.tick()
        self.neighbourhood.calling.tick(now)
        self.neighbourhood.tick()
        self.clientele.tick()
        self.durability.tick(now)

    def status(self) -> dict[str, Any]:
        """How the broker is, in figures."""
        return inspection.status(self)

    def tables(self) -> dict[str, Any]:
        """The routing tables, as text."""
        return inspection.tables(self)

    def close(self, now: int) -> None:
        """Say goodbye to everyone, and make all safe."""
        for session in self.sessions:
            session.end("the broker stops")
        for outbox in [*self.links.values(), *self.durables.values()]:
            outbox.close()
        self.save(now)
        if self.ledger is not None:
            self.ledger.close()
