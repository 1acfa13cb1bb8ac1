"""The broker with its sessions, without sockets: frames in, frames out.

A node drives one `Broker`. The driver of the node, the server or a test, hands it the frames that were received
and the time, carries `flush` out, syncs the log when `wants_sync`, and then calls `synced`. A node never waits.

The node makes its parts, gives each the others that it needs, and takes frames to them. No part has the node:

    admission      a client's publications: admitted, duplicate or refused
    router         where a notification goes: the answers of the seam
    dispatch       log, sync, then send: drives the program of publications
    once           what was published twice is delivered once
    copies         in a redundant network: what comes by several ways is taken once
    catch_up       destinations that are behind read on in the log
    barriers       all brokers have synced what came before
    cuts           all that any broker had logged has come
    persistence    the state and the cursors that outlive the process
    interests      filters: of clients, of neighbours, and what neighbours have to know
    unserved       subscriptions that no advertisement serves any more are removed
    neighbourhood  the links: how they are made and end (`handshakes`, `newcomers`, `cycles`, `calling`)
    clientele      the clients and their requests (`bounds`)
    leaving        the subscriptions of clients that are gone are removed in turns (`turns`)
    durability     the durable subscribers
    handover       those that move from broker to broker
    following      producers that do
    own            what the broker itself publishes: dead letters
    expiring       notifications that are handed to nobody after a while
    retaining      the last values of channels, for those who subscribe later
    history        what was published at other brokers before a subscription
    holding        publications that channels hold until an instant
    wills          what is published for clients that are lost
    memory         one budget for all connections
    backpressure   slow destinations, and connections that wait for them
    inflow         when a connection is read from: states
    outflow        what becomes of notifications for a destination: states
    inspection     the status of the broker
    operations     what an operator asks of it
    tracing        what happens at its interface, for the audit
    guard          what each connection may do, by the access policy
    owned_types    the types that clients declare, and what neighbours know of them
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from fairlead.broker import Broker
from fairlead.broker.progress import Progress
from fairlead.broker.publications import NO_OFFSET
from fairlead.errors import FairleadError, Forbidden, LogFull, ProtocolError, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.log.records import PUBLICATION
from fairlead.model.packed import unpack
from fairlead.network import wire
from fairlead.network.admission import Admission
from fairlead.network.backpressure import Backpressure
from fairlead.network.barriers import Barriers
from fairlead.network.calling import Clock
from fairlead.network.catch_up import CatchUp
from fairlead.network.client_sessions import ClientSession, standing_by
from fairlead.network.clientele import Clientele
from fairlead.network.copies import Copies
from fairlead.network.cuts import Cuts
from fairlead.network.destinations import Durable, Link
from fairlead.network.diagnostics import printable
from fairlead.network.dispatch import Dispatch, Taken
from fairlead.network.durability import Durability
from fairlead.network.examining import Examination
from fairlead.network.expiring import let_expire
from fairlead.network.following import Following
from fairlead.network.guard import Guard
from fairlead.network.handover import Handover
from fairlead.network.handshakes import Handshakes
from fairlead.network.history import Histories
from fairlead.network.holding import Holding
from fairlead.network.inflow import Frame
from fairlead.network.inspection import Inspection
from fairlead.network.interests import Interests
from fairlead.network.leaving import Leaving
from fairlead.network.ledger import Ledger
from fairlead.network.link_sessions import LinkSession
from fairlead.network.memory import Memory
from fairlead.network.neighbourhood import Neighbourhood
from fairlead.network.once import Once
from fairlead.network.operations import Operations
from fairlead.network.own import OwnPublications
from fairlead.network.owned_types import OwnedTypes
from fairlead.network.peers import Peer
from fairlead.network.persistence import Persistence
from fairlead.network.quenching import Listeners, Quenching
from fairlead.network.relays import Relays
from fairlead.network.reports import ChannelReport, Status, Tables
from fairlead.network.retaining import Retaining
from fairlead.network.router import Fanout, Router
from fairlead.network.sessions import Counters, Outgoing, Session
from fairlead.network.settings import Limits
from fairlead.network.tracing import Tracer, Tracing
from fairlead.network.transacting import Transactions
from fairlead.network.turns import Turn
from fairlead.network.unserved import Unserved
from fairlead.network.wills import Wills
from fairlead.security import Principal
from fairlead.security.principals import NOBODY

__all__ = ["Node"]

log: Final = logging.getLogger(__name__)

READ_AT_ONCE: Final = 512
"""The number of records of the log read in one turn, for all destinations that are behind: others wait."""
HEARING: Final = 64
"""The records that handling held frames counts for."""
ANSWERED_AT_ONCE: Final = 1 << 14
"""So many bytes of answers take a turn: in a large network, one answer may take long."""
INTERESTED: Final = (wire.Table, wire.InterestsChanged, wire.Notice, wire.Notices)
"""Messages of neighbours that have filters."""
SLOW_REQUESTS: Final = frozenset({wire.Discover, wire.Listen, wire.Quench})
"""Requests that compare many filters: the next one has to wait for a turn."""


class Node:
    """A broker that is connected to others. Without a ledger it remembers nothing, and nothing is durable."""

    def __init__(
        self,
        broker: Broker,
        ledger: Ledger | None,
        limits: Limits | None = None,
        *,
        life: str,
        now: int = 0,
        turn: Turn | None = None,
    ) -> None:
        self.broker, self.ledger, self.limits = broker, ledger, limits or Limits()
        self.name, self.counters, self.tracing = broker.name, Counters(), Tracing()
        self.clients: dict[str, ClientSession] = {}
        self.durables: dict[str, Durable] = {}
        self.links: dict[str, Link] = {}
        self._brokers: dict[str, LinkSession] = {}
        """The connection with each broker, whether its link is open, new, or has been ended."""
        self.dirty: list[Session] = []
        """The sessions that have something to send, or wait for their turn."""
        self._clock, self.persistence = Clock(now), Persistence(ledger)
        redundancy = broker.redundancy
        if redundancy is not None:
            redundancy.notices.begin(now)
        self.copies = None if redundancy is None else Copies(self.name, life, self.persistence, self._clock)
        self.router = Router(broker, self.links)
        self.once = Once(ledger, self.links, self.counters, self.copies, broker=self.name)
        self.dispatch = Dispatch(
            ledger, self.once, counters=self.counters, durables=self.durables, tracing=self.tracing
        )
        self.catch_up, self.progress = CatchUp(ledger, self.dispatch), Progress(self.name)
        self.barriers = Barriers(
            f"{self.name}/{life}",
            self.links,
            self.dispatch,
            self.tracing,
            is_logged=self.persistence.is_logged,
            redundancy=redundancy,
        )
        self.cuts = Cuts(
            self.name,
            barriers=self.barriers,
            progress=self.progress,
            links=self.links,
            durables=self.durables,
            dispatch=self.dispatch,
        )
        self.backpressure = Backpressure(
            self.router, self.clients, self._brokers, is_logged=self.persistence.is_logged
        )
        self.memory = Memory(self.limits.memory_bytes)
        self.outgoing = Outgoing(
            self.name,
            self.limits,
            self.counters,
            self.dirty,
            self.backpressure,
            self.memory,
            self.tracing,
            self.copies,
            let_expire(broker.seam, self._clock, self.counters, self.once),
            standing_by(broker.seam),
        )
        self._turn_time = time = Turn(lambda: 0.0) if turn is None else turn
        self.interests = Interests(
            broker, self.router, self.links, self.persistence, texts_max=self.limits.texts, turn=time
        )
        self.leaving = Leaving(broker, self.router, self.interests, self._turn_time)
        self.retaining = Retaining(
            broker,
            self.router,
            self.barriers,
            self.interests,
            self.persistence,
            links=self.links,
            once=self.once,
            counters=self.counters,
            dispatch=self.dispatch,
            passes=self.outgoing.passes,
        )
        self.histories = Histories(
            broker,
            self.router,
            self.barriers,
            self.interests,
            self.persistence,
            links=self.links,
            durables=self.durables,
            dispatch=self.dispatch,
            retaining=self.retaining,
            clock=self._clock,
            copies=self.copies,
        )
        self.guard = Guard(
            broker,
            clients=self.clients,
            links=self._brokers,
            regrant=self.interests.regrant,
            redisclose=self.interests.redisclose,
            clock=self._clock,
        )
        self.types = OwnedTypes(broker, self.guard, self.links)
        self.handshakes = Handshakes(broker, life, self.limits.frame_bytes, self.persistence, self.dispatch)
        self.neighbourhood = Neighbourhood(
            broker,
            self.outgoing,
            self.persistence,
            links=self.links,
            sessions=self._brokers,
            clients=self.clients,
            router=self.router,
            dispatch=self.dispatch,
            catch_up=self.catch_up,
            barriers=self.barriers,
            progress=self.progress,
            cuts=self.cuts,
            handshakes=self.handshakes,
            interests=self.interests,
            types=self.types,
            clock=self._clock,
        )
        self.calling = self.neighbourhood.calling
        self.neighbourhood.recalled, self.neighbourhood.past = self.retaining.arrived, self.histories.arrived
        self.own = OwnPublications(self.outgoing, broker, self.router, self.dispatch)
        self.handover = Handover(
            self.name,
            links=self.links,
            durables=self.durables,
            barriers=self.barriers,
            progress=self.progress,
            dispatch=self.dispatch,
            persistence=self.persistence,
            neighbourhood=self.neighbourhood,
            clock=self._clock,
        )
        self.durability = Durability(
            broker,
            self.outgoing,
            self.persistence,
            self.once,
            durables=self.durables,
            router=self.router,
            dispatch=self.dispatch,
            catch_up=self.catch_up,
            barriers=self.barriers,
            interests=self.interests,
            leaving=self.leaving,
            guard=self.guard,
            own=self.own,
            retaining=self.retaining,
            histories=self.histories,
            handover=self.handover,
            clock=self._clock,
        )
        self.operations = Operations(ledger, self.dispatch, clients=self.clients, durables=self.durables)
        self._unserved = Unserved(
            broker, self.links, dispatch=self.dispatch, persistence=self.persistence, router=self.router
        )
        self._inspection = Inspection(
            broker,
            ledger,
            self.counters,
            clients=self.clients,
            links=self.links,
            durables=self.durables,
            dispatch=self.dispatch,
            progress=self.progress,
            copies=self.copies,
            backpressure=self.backpressure,
            calling=self.calling,
            handshakes=self.handshakes,
            memory=self.memory,
            operations=self.operations,
            guard=self.guard,
        )
        self.examination = Examination(
            broker,
            self.router,
            self.clients,
            self.limits,
            is_logged=self.persistence.is_logged,
            clock=lambda: self._clock.now,
        )
        self.wills = Wills(
            broker, self.limits, self.persistence, own=self.own, guard=self.guard, dispatch=self.dispatch
        )
        self.following = Following(
            broker,
            clients=self.clients,
            links=self.links,
            barriers=self.barriers,
            progress=self.progress,
            cuts=self.cuts,
            dispatch=self.dispatch,
        )
        self.clientele = Clientele(
            broker,
            life,
            self.outgoing,
            clients=self.clients,
            router=self.router,
            dispatch=self.dispatch,
            barriers=self.barriers,
            cuts=self.cuts,
            handshakes=self.handshakes,
            interests=self.interests,
            leaving=self.leaving,
            operations=self.operations,
            neighbourhood=self.neighbourhood,
            durability=self.durability,
            retaining=self.retaining,
            wills=self.wills,
            following=self.following,
            is_logged=self.persistence.is_logged,
            guard=self.guard,
            types=self.types,
            quenching=Quenching(Listeners(broker), self.barriers),
            questions={
                "status": lambda _: self._inspection.status(),
                "tables": lambda _: self._inspection.tables(),
                "channels": lambda _: self._inspection.channels(),
                "durables": lambda _: self.operations.backlogs(),
                "types": lambda _: self.types.report(),
                "find": self.examination.find,
                "explain": self.examination.explain,
                "scopes": lambda _: self.examination.scopes(),
                "clients": lambda _: self.examination.clients(),
            },
        )
        self.admission = Admission(
            broker,
            self.router,
            self.dispatch,
            self.once,
            counters=self.counters,
            limits=self.limits,
            guard=self.guard,
            interests=self.interests,
            holding=Holding(broker, self.persistence, self.own, self.dispatch),
        )
        self.interests.granted, self.clientele.send_request = self.clientele.granted, self.admission.request
        self.transactions = Transactions(ledger, self.admission, self.dispatch, self.durability)
        self.interests.end = lambda: self.dispatch.end
        self._handlers: dict[type[Session], Callable[..., None]] = {
            ClientSession: self._from_client,
            LinkSession: self._from_broker,
        }
        self._recall(now)

    def _recall(self, now: int) -> None:
        """Begin with the state that the ledger has."""
        self.neighbourhood.recall(now)
        self.durability.recall(now)
        self.retaining.recall_state()
        self.wills.recall(now)
        if self.ledger is not None:
            for identity in self.ledger.identities:
                self.broker.is_new(identity)
            self.ledger.identities.clear()
        self.admission.holding.recall(now)

    # -- connections -------------------------------------------------------------------------------------------

    def greet(self, peer: Peer, hello: wire.Hello, now: int = 0, principal: Principal = NOBODY) -> Session:
        """Accept a new connection, which acts for this principal. ProtocolError if it is refused."""
        is_client = hello.role == "client"
        wire.agreed_version(hello.version, hello.oldest, 0 if is_client else wire.OLDEST_BETWEEN_BROKERS)
        if len(hello.name.encode()) > wire.NAME_MAX:
            raise ProtocolError(f"a name has at most {wire.NAME_MAX} bytes")
        if not hello.name.isprintable():
            raise ProtocolError(f"a name has printable characters only, unlike {printable(hello.name)}")
        if hello.role not in ("client", "broker"):
            raise ProtocolError(f"neither client nor broker, but {hello.role!r}")
        session: Session
        if is_client:
            session = self.clientele.greet(peer, hello, principal, now)
        else:
            try:
                self.guard.check_link(hello.name, principal, now)
            except Forbidden as error:
                raise ProtocolError(str(error)) from None
            session = self.neighbourhood.greet(peer, hello, now)
        session.follow_inflow()
        return session

    def hello(self, neighbour: str) -> wire.Hello:
        """The declaration of this broker when it calls another; `neighbour` is the other's name, if it is
        known."""
        return self.handshakes.hello(neighbour)

    def welcomed(self, peer: Peer, url: str, welcome: wire.Welcome, now: int = 0) -> LinkSession:
        """A broker that was called has answered."""
        wire.agreed_version(welcome.version, 0, wire.OLDEST_BETWEEN_BROKERS)
        try:
            self.guard.check_neighbour(welcome.broker)
        except Forbidden as error:
            raise ProtocolError(str(error)) from None
        session = self.neighbourhood.welcomed(peer, url, welcome, now)
        session.follow_inflow()
        return session

    def lost(self, session: Session) -> None:
        """A connection has ended."""
        session.lost()

    def keep_links(self, names: Iterable[str], now: int) -> None:
        """Remove all links but those to these neighbours, and call none of them before its address is known.

        A neighbour that has not been connected yet is waited for, as one that is away is.
        """
        self.neighbourhood.keep(names, now)

    @property
    def is_busy(self) -> bool:
        """Whether there is more to do than was done in this turn."""
        return bool(self.dirty or self.leaving.left or self.retaining.is_busy)

    @property
    def sessions(self) -> list[Session]:
        """All connections of clients and brokers."""
        return [*self.clients.values(), *self._brokers.values()]

    # -- frames ------------------------------------------------------------------------------------------------

    def receive(self, session: Session, frames: Iterable[Frame], now: int) -> None:
        """Handle frames that arrived over a connection; a protocol error ends that connection alone."""
        self._turn_time.begin()
        self._receive(session, frames, now)

    def _receive(self, session: Session, frames: Iterable[Frame], now: int) -> None:
        self._clock.now = now
        inflow = session.inflow
        if inflow.has_ended:
            return  # frames behind the gap that ended it must not close the gap
        session.has_spoken = True
        taken: list[Taken] = []
        waiting: list[Frame] = []
        try:
            if self.backpressure.blocking or not inflow.is_open:
                frames = self.backpressure.pass_on(session, frames, waiting)
            self._handlers[type(session)](session, frames, taken, now)
            if taken:
                self.dispatch.commit(session, taken, now)
        except Exception as error:
            # The identities of what was taken are remembered, so it has to be in the log, whatever comes after it.
            with contextlib.suppress(FairleadError):
                self.dispatch.commit(session, taken, now)
            self._end_failed(session, error)
        if self.ledger is None and self.dispatch.pending:
            self.dispatch.synced(0)
        if waiting:
            blocked = not inflow.frames and self.backpressure.blocks(session, *waiting[0])
            inflow.hold(waiting, blocked=blocked)
        if session.waiting:
            session.look_at_answers()
        if not inflow.is_open:
            session.follow_inflow()

    def _end_failed(self, session: Session, error: Exception) -> None:
        """An error ends the connection that it happened on; a mistake of ours is logged with its traceback."""
        if isinstance(error, FairleadError):
            session.end(str(error))
        else:
            log.error("the connection with %s has failed", session.name, exc_info=error)
            session.take_out()
            session.lost()

    def _from_client(
        self, session: ClientSession, frames: Iterable[Frame], taken: list[Taken], now: int
    ) -> None:
        if self.leaving.left and session.client in self.leaving.left:
            session.inflow.hold(frames)  # what it had under this name is still being removed
            return
        frames, enough = iter(frames), session.waiting + ANSWERED_AT_ONCE
        publications: list[bytes] = []
        publish = wire.PUBLISH  # looked up once: most frames are publications
        try:
            for kind, payload in frames:
                if kind == publish:
                    publications.append(payload)
                elif kind == wire.CONTROL:
                    self.admission.take(session, publications, taken, now)
                    self.dispatch.commit(session, taken, now)
                    message = wire.parse_control(payload)
                    if not self.clientele.prepare(session, message, now):
                        session.inflow.hold([(kind, payload), *frames])  # goes on in its next turn
                        return
                    self.clientele.handle(session, message, now)
                    if session.ended:
                        return
                    is_enough = type(message) in SLOW_REQUESTS or session.waiting > enough
                    if is_enough or self._turn_time.is_over:
                        session.inflow.hold(frames)  # the rest when others have had their turn
                elif kind == wire.TRANSACTION:
                    self.admission.take(session, publications, taken, now)
                    self.dispatch.commit(session, taken, now)
                    self.transactions.commit(session, payload, now)
                    if session.ended:
                        return
                else:
                    raise ProtocolError(f"clients do not send frames of the kind {kind}")
        finally:  # also what came before something that is wrong
            self.admission.take(session, publications, taken, now)

    def _from_broker(
        self, session: LinkSession, frames: Iterable[Frame], taken: list[Taken], now: int
    ) -> None:
        router, pending, is_logged = self.router, self.dispatch.pending, self.ledger is not None
        learns_from = self.broker.seam.learns_from
        name, copies = session.name, self.copies
        last = self.neighbourhood.received(session)
        for kind, payload in frames:
            if kind == wire.RELAY:
                number, packed = wire.parse_relay(payload)
                if number:
                    session.arrive(number)
                if last is None:
                    continue  # the link has ended here, and the neighbour does not know yet
                if not number:
                    session.deal(len(packed) if copies is None else len(payload))
                elif number <= last:
                    taken.append((None, packed, last))
                    continue
                last = number or last
                if learns_from:
                    self._learn(packed, now)
                fanout = router.of(packed, name)
                content = payload if copies is not None or (number and is_logged) else packed
                if copies is not None and self._is_copy(name, payload, number, taken):
                    continue
                if number or taken or pending:
                    taken.append((fanout, content, number))
                else:
                    self.counters.received += 1
                    self.once.send(fanout, NO_OFFSET, content, is_relayed=copies is not None)
            elif kind == wire.RELAYS and copies is None:
                if last is None:
                    continue
                several = Relays.read(payload)
                session.deal(several.size)
                for fanout, relays in self._routed(several, name, now):
                    if taken or pending:
                        taken += [(fanout, packed, 0) for packed in relays.each]
                    else:
                        self.counters.received += relays.count
                        self.once.send_all(fanout, relays)
            elif kind == wire.CONTROL:
                self.dispatch.commit(session, taken, now)
                message = session.parts.finish(payload)
                if isinstance(message, wire.Ping):
                    self.neighbourhood.handle(session, message, now)  # is answered in every turn
                else:
                    session.said.append(message)
                    self._hear(session, now)
                if session.ended:
                    return
                last = self.neighbourhood.received(session)
            else:
                self.dispatch.commit(session, taken, now)
                self._framed(session, kind, payload, is_open=last is not None)

    def _is_copy(self, name: str, relay: bytes, number: int, taken: list[Taken]) -> bool:
        """Whether a relay has come by another way; then it is answered, and goes nowhere."""
        assert self.copies is not None
        if self.copies.is_new(name, relay):
            return False
        if number:
            taken.append((None, relay, number))
        else:
            self.counters.duplicates += 1
        return True

    def _framed(self, session: LinkSession, kind: int, payload: bytes, *, is_open: bool) -> None:
        """Handle a frame that says something of others, behind all that came before it."""
        if kind == wire.SKIP:
            session.skip(wire.parse_numbered(payload)[0])
        elif kind == wire.PART:
            session.parts.add(payload)
        elif kind == wire.MARK and self.copies is None:
            if is_open and self.ledger is not None and not session.ended:
                self.progress.hear(session.name, wire.parse_mark(payload), self.dispatch.end)
        else:
            raise ProtocolError(f"brokers do not send frames of the kind {kind}")

    def _routed(self, several: Relays, name: str, now: int) -> Iterator[tuple[Fanout, Relays]]:
        """The fan-outs of several notifications, each by what rules have learned from those before it."""
        if not any(text in several.body for text in self.broker.seam.learns_from):
            yield from self.router.of_all(several, name)
            return
        for packed in several.each:
            self._learn(packed, now)
            yield self.router.of(packed, name), Relays([packed])

    def _learn(self, packed: bytes, now: int) -> None:
        if any(text in packed for text in self.broker.seam.learns_from):
            self.interests.learn(unpack(packed), now)

    def _hear(self, session: LinkSession, now: int) -> None:
        """Handle what a neighbour has said, in its order, until the turn is over."""
        while session.said and not session.ended:
            message = session.said[0]
            if isinstance(message, INTERESTED) and not self.interests.prepare_for(message):
                session.wait_for_turn()
                return
            self.neighbourhood.handle(session, session.said.popleft(), now)

    def flush(self) -> None:
        """Write what is to be sent, and give a turn to each session that waits for one.

        A session that needs another turn is `dirty` again, and one that had none is the first next time.
        """
        self._turn_time.begin()
        if self.cuts.is_waiting:
            self.cuts.look()
        for each in (self.handover, self.following):
            if each.is_waiting:
                each.look()
        dirty = dict.fromkeys(self.dirty)  # each once: one turn is one turn
        self.dirty.clear()
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
                    left = 0 if self._turn_time.is_over else left
                elif session.is_due:
                    late.append(session)
            except Exception as error:
                self._end_failed(session, error)
        self.dirty[:0] = late
        if self.leaving.left:
            self.leaving.go_on(self._clock.now)
        self.retaining.go_on()

    def _turn(self, session: Session, at_most: int) -> int:
        """Handle frames that were held, and read on in the log; how many records (`at_most`) that is worth."""
        looked = 0
        if session.inflow.is_due:
            self._receive(session, session.inflow.take(), self._clock.now)
            looked += HEARING
            session.follow_inflow()
        if isinstance(session, LinkSession) and session.said:
            self._hear(session, self._clock.now)
            looked += HEARING
        for outbox in session.outboxes():
            looked += self.catch_up.turn(outbox, max(0, at_most - looked))
        return looked

    def drained(self, session: Session) -> None:
        """Most of what was sent to a connection has left this process. Nothing follows for an ended session."""
        if session.ended:
            return
        session.waiting = session.peer.buffered()
        session.drained()
        for outbox in session.outboxes():
            self.catch_up.read_on(outbox)
            outbox.drained()

    # -- the trace ---------------------------------------------------------------------------------------------

    def trace(self, tracer: Tracer) -> None:
        """Trace from now on: first what is in the log, then what the clients have, then what happens.

        A durable subscription is ready when a barrier says so: what was published before need not come again.
        """
        if self.ledger is None:
            raise ValueRefused("a broker without a log traces nothing: what it promises is about its log")
        self.stop_tracing()
        self.tracing.tracer = tracer
        with self.ledger.reader(self.ledger.log.first, PUBLICATION, synced=False) as reader:
            tracer.begin(each.payload for each in reader if each.offset < self.dispatch.reached)
        for client, id, filter in self._subscriptions():
            tracer.subscribed(client, id, filter)
        lasting = [
            (durable.client, id)
            for durable in self.durables.values()
            if not durable.ends
            for id in durable.acknowledged
        ]
        ready = () if self.guard.is_on else lasting
        key = self.barriers.next_key()
        self.barriers.begin(wire.Barrier(*key, True), "", lambda: tracer.acknowledged(*key, ready))

    def stop_tracing(self) -> None:
        """Trace nothing more."""
        tracer, self.tracing.tracer = self.tracing.tracer, None
        if tracer is not None:
            tracer.end()

    def _subscriptions(self) -> Iterator[tuple[str, str, Filter]]:
        """The subscriptions of all clients, as they were requested."""
        for name in self.broker.clients:
            declared = self.broker.clients[name].subscriptions
            for id, filter in declared.by_id.items():
                yield name, id, declared.requested.get(id, filter)

    # -- the log -----------------------------------------------------------------------------------------------

    @property
    def wants_sync(self) -> bool:
        """Whether something waits for the log to be synced."""
        return bool(self.dispatch.pending)

    def synced(self, synced: int) -> None:
        """The log is synced below this offset: send on what is in it, and acknowledge it."""
        self.dispatch.synced(synced)

    def log_is_full(self, error: LogFull, now: int) -> None:
        """The disk is full: forward written notifications, refuse the rest; changes of state wait for room."""
        self.progress.take_back()
        self.dispatch.log_is_full(error, now)

    def save(self, now: int) -> None:
        """Write the cursors of all destinations, so that less is sent again after a restart."""
        self.persistence.save(self.links, self.durables, self.dispatch.reached, now)

    # -- beside ------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """From time to time: what has to happen though nothing arrives."""
        self._clock.now = now
        self.memory.check()
        self.guard.tick(now)
        self.backpressure.look_after()
        self.router.tick()
        self.neighbourhood.tick(now)
        self.clientele.tick()
        self.clientele.quenching.tick(now)
        self.cuts.tick()
        self.durability.tick(now)
        self.handover.tick(now)
        self.following.look()
        self.wills.tick(now)
        self.admission.holding.tick(now)
        self._unserved.tick(now)
        self.examination.tick(now)

    def status(self) -> Status:
        """The status of the broker, in figures."""
        return self._inspection.status()

    def tables(self) -> Tables:
        """The routing tables, as text."""
        return self._inspection.tables()

    def examined(self, what: str, about: str = "") -> Any:
        """The answer to a question about this broker, as a client would get it. ValueRefused."""
        return self.clientele.answer(what, about)

    def channels(self) -> list[ChannelReport]:
        """The channels of the network."""
        return self._inspection.channels()

    def close(self, now: int) -> None:
        """End all connections, and close the log."""
        self.wills.close()
        for session in self.sessions:
            session.end("the broker stops")
        for outbox in [*self.links.values(), *self.durables.values()]:
            outbox.close()
        self.save(now)
        if self.tracing.tracer is not None:
            self.tracing.tracer.stop()
        if self.ledger is not None:
            self.ledger.close(self.dispatch.reached, now)
