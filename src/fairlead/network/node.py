"""The broker with its sessions, without sockets: frames in, frames out.

A node drives one `Broker`, keeps its ledger, and knows who is connected. Whoever drives the node, the server or a
test, hands it what has been received and the time, carries `flush` out, and syncs the log when `wants_sync`,
telling the node when that is done. A node never waits.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from fairlead.broker import Broker
from fairlead.broker import messages as calls
from fairlead.errors import FairleadError, LogFull, ProtocolError, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse, render
from fairlead.log.records import ARRIVAL, PUBLICATION, notification_in, parse_arrival
from fairlead.model import Notification
from fairlead.model.order import identity_of
from fairlead.model.packed import pack, unpack, unpack_plain
from fairlead.network import wire
from fairlead.network.ledger import (
    Change,
    Heard,
    Ledger,
    Linked,
    Neighbour,
    State,
    Subscribed,
    Told,
    Unlinked,
    Unsubscribed,
)
from fairlead.network.routes import Names, Routes, is_plain
from fairlead.network.sessions import (
    NO_OFFSET,
    ClientSession,
    Counters,
    Durable,
    Link,
    LinkSession,
    Peer,
    Session,
    Stop,
)
from fairlead.network.settings import POLICIES, Limits
from fairlead.routing import Interest

__all__ = ["Node"]

log: Final = logging.getLogger(__name__)

READ_AT_ONCE: Final = 256
ANSWERS_MAX: Final = 4
"""How many times what may be under way to a client may wait for it in answers."""
NAME_MAX: Final = 500
"""The longest name of a client, a broker or a durable subscriber: the log keeps a place under it."""


@dataclass(frozen=True, slots=True)
class Way:
    """Where a notification goes: `broker.Route`, with the destinations themselves."""

    links: tuple[Link, ...]
    stops: tuple[Stop, ...]


Taken: TypeAlias = tuple[Way | None, bytes, int]
"""A notification that has been taken, but not logged: where it goes, if it is new, its bytes, and its number."""


@dataclass(slots=True)
class Wave:
    """A fence on its way: who has not answered, and what happens when all have."""

    key: tuple[str, int]
    asked_by: str
    patient: bool
    waiting: set[str]
    done: Callable[[], None]


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


# -- the node ------------------------------------------------------------------------------------------------


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
        self.dispatched = 0 if ledger is None else ledger.log.end
        """The first offset that has not been dispatched."""
        self.calls: dict[str, str] = {}
        """Where this side calls: the neighbours' addresses, each with its name, once that is known."""
        self.on_calls: Callable[[], None] = lambda: None
        """Called when that changes."""
        self.url = ""
        """Where this broker can be called."""
        self._targets: dict[str, ClientSession | Durable] = {}
        self._routes: dict[str, Routes[Way]] = {}
        self._names = Names()
        self._pending: deque[Pending] = deque()
        self._waves: dict[tuple[str, int], Wave] = {}
        self._fences = 0
        self._named = 0
        self._blocking: set[ClientSession] = set()
        self._texts: dict[str, Filter] = {}
        self._tables_changed = self._was_changed = False
        self._recall(now)

    # -- what it remembers -------------------------------------------------------------------------------------

    def _recall(self, now: int) -> None:
        for name, neighbour in self.state.neighbours.items():
            self._new_link(name)
            if neighbour.url:
                self.calls[neighbour.url] = name
            for advertisements in (True, False):
                told = neighbour.told(advertisements=advertisements)
                added = tuple(self._interest(heard) for heard in told)
                if added:
                    self.broker.handle(calls.Admin(name, added, (), advertisements), now)
        for name, subscriptions in self.state.durables.items():
            since = min((since for _, since in subscriptions.values()), default=self.dispatched)
            durable = self._new_durable(name, self._place(f"sub:{name}", since))
            for id, (text, since) in subscriptions.items():
                filter = self._filter(text)
                durable.subscriptions[id] = (filter, since)
                self.broker.handle(calls.Subscribe(durable.client, id, filter), now)
                self._names.add(filter)
        if self.ledger is not None:
            for packed in self.ledger.publications:
                notification = unpack(packed)
                self.broker.is_new((notification.producer, notification.id or ""))
            self.ledger.publications.clear()

    def _place(self, name: str, first: int) -> int:
        """Where a destination is in the log; a new one is at `first`, and the log is told so at once."""
        if self.ledger is None:
            return first
        return self.ledger.log.cursors.setdefault(name, first)

    def _note(self, change: Change, now: int) -> None:
        if self.ledger is None:
            self.state.apply(change)
        else:
            self.ledger.note(change, now)

    def save(self, now: int) -> None:
        """Note where every destination is, so that less is sent again after a restart."""
        if self.ledger is None:
            return
        cursors = self.ledger.log.cursors
        places = {f"link:{name}": link for name, link in self.links.items()}
        durables = {f"sub:{name}": each for name, each in self.durables.items() if not each.ends}
        for name, outbox in {**places, **durables}.items():
            # Not beyond the content: or changes of cursors would change the cursors, for ever.
            cursor = min(outbox.cursor(self.dispatched), self.ledger.content)
            if cursors.get(name) != cursor:
                cursors[name] = cursor
        if self.ledger.is_scattered:
            self.ledger.gather(now)

    # -- connections -------------------------------------------------------------------------------------------

    def greet(self, peer: Peer, hello: wire.Hello, now: int = 0) -> Session:
        """Take a new connection in; ProtocolError says why not."""
        if hello.version != wire.VERSION:
            raise ProtocolError(
                f"version {hello.version} of the protocol is not spoken here; version {wire.VERSION} is"
            )
        if len(hello.name.encode()) > NAME_MAX:
            raise ProtocolError(f"a name has at most {NAME_MAX} bytes")
        if hello.role == "client":
            return self._greet_client(peer, hello)
        if hello.role == "broker":
            return self._greet_broker(peer, hello, now)
        raise ProtocolError(f"neither client nor broker, but {hello.role!r}")

    def _greet_client(self, peer: Peer, hello: wire.Hello) -> ClientSession:
        if hello.policy and hello.policy not in POLICIES:
            raise ProtocolError(
                f"no policy for slow clients: {hello.policy!r}; there are {', '.join(POLICIES)}"
            )
        if len(self.clients) >= self.limits.clients:
            raise ProtocolError(f"there are {self.limits.clients:,} clients already")
        name = hello.name
        if not name:
            self._named += 1
            name = f"{self.name}-{self.life[:8]}-{self._named}"
        if name in self.clients:
            self.clients[name].end(f"another connection has taken over the name {name!r}")
        session = ClientSession(self, peer, name, hello.policy)
        self.clients[name] = self._targets[session.client] = session
        self.broker.handle(calls.Join(session.client), 0)
        session.tell(
            wire.Welcome(wire.VERSION, self.name, name, log=self._log_name, frame_max=self.limits.frame_bytes)
        )
        return session

    def _greet_broker(self, peer: Peer, hello: wire.Hello, now: int) -> LinkSession:
        self._check_link(hello.name, hello.life, opened=False)
        known = self.state.neighbours.get(hello.name, Neighbour())
        session = LinkSession(self, peer, hello.name, hello.life, opened=False, url=hello.url)
        session.tell(
            wire.Welcome(
                wire.VERSION, self.name, hello.name, self.life, self._log_name, known.log, known.safe
            )
        )
        self._attach(session, Linked(hello.name, known.url, hello.log), hello.others_log, hello.received, now)
        return session

    def hello(self, neighbour: str) -> wire.Hello:
        """What this side says when it calls a broker; `neighbour` is its name, if that is known."""
        known = self.state.neighbours.get(neighbour, Neighbour())
        return wire.Hello(
            wire.VERSION,
            "broker",
            self.name,
            life=self.life,
            log=self._log_name,
            others_log=known.log,
            received=known.safe,
            url=self.url,
        )

    def welcomed(self, peer: Peer, url: str, welcome: wire.Welcome, now: int = 0) -> LinkSession:
        """A broker that was called has answered."""
        self._check_link(welcome.broker, welcome.life, opened=True)
        session = LinkSession(self, peer, welcome.broker, welcome.life, opened=True)
        self.calls[url] = welcome.broker
        linked = Linked(welcome.broker, url, welcome.log)
        self._attach(session, linked, welcome.others_log, welcome.received, now)
        return session

    def _check_link(self, name: str, life: str, *, opened: bool) -> None:
        if name == self.name or not name:
            raise ProtocolError(f"a broker cannot be linked to {name!r}: that is its own name")
        link = self.links.get(name)
        if link is None or link.session is None:
            return
        current = link.session
        both_called = current.life == life and current.opened != opened
        if both_called and opened != (self.name < name):
            raise ProtocolError("linked already")  # both keep the call of the one whose name is smaller
        current.end("another connection takes the place of this one")

    @property
    def _log_name(self) -> str:
        return "" if self.ledger is None else self.ledger.identity

    def _attach(self, session: LinkSession, linked: Linked, others_log: str, received: int, now: int) -> None:
        name = session.name
        known = self.state.neighbours.get(name)
        if known is None or (known.url, known.log) != (linked.url, linked.log):
            self._note(linked, now)
        link = self.links.get(name) or self._new_link(name)
        link.session, link.ready = session, False
        if received and others_log and others_log == self._log_name:
            link.confirm_through(min(received, self.dispatched) - 1)
        subscriptions, advertisements = self.broker.introduction(name)
        session.tell(
            wire.Table(
                [_heard(interest) for interest in subscriptions],
                [_heard(interest) for interest in advertisements],
            )
        )
        if known is None and session.opened:
            self._probe(link)

    def _probe(self, link: Link) -> None:
        """Nothing goes over a new link until it is known that it closes no circle: a fence must not come back."""
        assert link.session is not None
        self._fences += 1
        key = link.probe = (self._origin, self._fences)

        def done() -> None:
            if link.probe == key:
                link.probe = None
                self._ready(link)

        self._waves[key] = Wave(key, "", False, {link.name}, done)
        link.session.tell(wire.Fence(*key, False))

    @property
    def _origin(self) -> str:
        return f"{self.name}/{self.life}"

    def _ready(self, link: Link) -> None:
        """It has said what it asks for, and may be sent to."""
        if link.session is None or not link.introduced or link.probe is not None:
            return
        link.ready = True
        self._pump(link)
        for wave in list(self._waves.values()):
            if link.name in wave.waiting:
                self._pass_fence(wave, link.name)

    def _new_link(self, name: str) -> Link:
        self.broker.meet(name)
        link = self.links[name] = Link(self, name, self._place(f"link:{name}", self.dispatched))
        self._change_tables()
        return link

    def lost(self, session: Session) -> None:
        """A connection has ended."""
        if session.ended:
            return
        session.ended = True
        if session.out:
            session.peer.write(b"".join(session.out))
            session.out.clear()
        session.peer.close()
        if isinstance(session, ClientSession):
            self.unblock(session)
            for durable in list(session.durables.values()):
                self._detach(durable)
            self.clients.pop(session.name, None)
            self._targets.pop(session.client, None)
            self._carry(self.broker.handle(calls.Leave(session.client), 0))
            self._change_tables()
        elif isinstance(session, LinkSession):
            link = self.links.get(session.name)
            if link is not None and link.session is session:
                link.session, link.ready, link.introduced, link.probe = None, False, False, None
                link.detach(self.dispatched)
                for wave in list(self._waves.values()):
                    if not wave.patient:
                        self._answered(wave, session.name)

    def _detach(self, durable: Durable) -> None:
        if durable.session is not None:
            durable.session.durables.pop(durable.name, None)
            durable.session = None
        durable.detach(self.dispatched)
        if durable.ends:
            self._end_durable(durable)

    # -- frames ------------------------------------------------------------------------------------------------

    def receive(self, session: Session, frames: Iterable[tuple[int, bytes]], now: int) -> None:
        """Handle what came over a connection; after a protocol error it is closed, and nobody else minds."""
        if session.ended:
            return  # what comes behind the gap that ended it must not close the gap
        taken: list[Taken] = []
        try:
            if isinstance(session, ClientSession):
                self._from_client(session, frames, taken, now)
            elif isinstance(session, LinkSession):
                self._from_broker(session, frames, taken, now)
            self._commit(session, taken, now)
        except FairleadError as error:
            with contextlib.suppress(FairleadError):
                self._commit(session, taken, now)
            session.end(str(error))
        if self.ledger is None:
            self.synced(0)
        if session.waiting > ANSWERS_MAX * self.limits.buffer_bytes and isinstance(session, ClientSession):
            # It asks, and does not read the answers: nothing more is asked before it has.
            session.choked = session.starved = True
            session.peer.pause()

    def _from_client(
        self, session: ClientSession, frames: Iterable[tuple[int, bytes]], taken: list[Taken], now: int
    ) -> None:
        # Most frames are publications of plain fields without an answer, and this is their way.
        plain = self.broker.settings.advertisements is None
        for kind, payload in frames:
            if kind == wire.PUBLISH:
                number, packed = wire.parse_numbered(payload)
                parts = unpack_plain(packed) if plain else None
                if parts is not None and parts[0] and parts[1] and is_plain(parts[2]):
                    if self.broker.is_new(parts[:2]):
                        way = self._ways().of(parts[2], self._plain_way, packed, "")
                    else:
                        way = None
                else:
                    try:
                        way, packed = self._admitted(session, packed)
                    except ValueRefused as error:
                        self.counters.refused += 1
                        if number:
                            session.tell(wire.Refused(number, str(error)))
                        continue
                if number or taken or self._pending:
                    taken.append((way, packed, number))
                elif way is not None:
                    self.counters.published += 1
                    self._dispatch(NO_OFFSET, way, packed)
            elif kind == wire.CONTROL:
                self._commit(session, taken, now)
                self._asked(session, wire.parse_control(payload), now)
                if session.ended:
                    return
            else:
                raise ProtocolError(f"clients do not send frames of the kind {kind}")

    def _from_broker(
        self, session: LinkSession, frames: Iterable[tuple[int, bytes]], taken: list[Taken], now: int
    ) -> None:
        name = session.name
        neighbour = self.state.neighbours[name]
        last = neighbour.received
        for kind, payload in frames:
            if kind == wire.RELAY:
                place, packed = wire.parse_numbered(payload)
                if place and place <= last:
                    taken.append((None, packed, last))
                    continue
                last = place or last
                way = self._way_of(packed, name)
                if place or taken or self._pending:
                    taken.append((way, packed, place))
                else:
                    self.counters.received += 1
                    self._dispatch(NO_OFFSET, way, packed)
            elif kind == wire.CONTROL:
                self._commit(session, taken, now)
                self._told(session, wire.parse_control(payload), now)
                if session.ended or name not in self.state.neighbours:
                    return
            else:
                raise ProtocolError(f"brokers do not send frames of the kind {kind}")

    def flush(self) -> None:
        """Hand out all that is to be sent. Whoever was full and is not any more may leave more to be sent."""
        dirty, self.dirty = self.dirty, []
        for session in dirty:
            session.flush()
            if session.starved and not session.is_full:
                session.starved = False
                self.drained(session)

    def drained(self, session: Session) -> None:
        """What was sent to a connection has mostly gone out."""
        session.waiting = session.peer.buffered()
        if isinstance(session, ClientSession):
            session.drained()
            if session.choked and not session.is_full:
                session.choked = False
                if not self._blocking:
                    session.peer.resume()
            for durable in list(session.durables.values()):
                self._pump(durable)
        elif (link := self.links.get(session.name)) is not None:
            self._pump(link)

    def block(self, session: ClientSession) -> None:
        """A client cannot keep up and nothing may be dropped: nobody may publish for now."""
        if not self._blocking:
            for each in self._publishers():
                each.peer.pause()
        self._blocking.add(session)

    def unblock(self, session: ClientSession) -> None:
        """It has caught up, or is gone."""
        if session in self._blocking:
            self._blocking.discard(session)
            if not self._blocking:
                for each in self._publishers():
                    if not (isinstance(each, ClientSession) and each.choked):
                        each.peer.resume()

    def _publishers(self) -> list[Session]:
        links = [link.session for link in self.links.values() if link.session is not None]
        return [*self.clients.values(), *links]

    # -- notifications -----------------------------------------------------------------------------------------

    def _commit(self, session: Session, taken: list[Taken], now: int) -> None:
        """Log what has been taken, and have it dispatched when it is safe, in order; `taken` is empty after."""
        if not taken:
            return
        mine, number = list(taken), max(each[2] for each in taken)
        taken.clear()
        new = [each for each in mine if each[0] is not None]
        self.counters.duplicates += len(mine) - len(new)
        logged = [each for each in new if each[2]] if self.ledger is not None else []
        offsets = iter(range(0))
        if logged:
            assert self.ledger is not None
            try:
                if isinstance(session, LinkSession):
                    offsets = iter(self.ledger.arrivals(session.name, [each[1:] for each in logged], now))
                else:
                    offsets = iter(self.ledger.publications_of([each[1] for each in logged], now))
            except LogFull as error:
                self._refuse(session, mine, error)
                return
        elif isinstance(session, LinkSession) and number:
            self.state.neighbours[session.name].received = number
        if isinstance(session, LinkSession):
            self.counters.received += len(new)
        else:
            self.counters.published += len(new)
        entries = [
            (next(offsets) if number and logged else NO_OFFSET, way, packed, number)
            for way, packed, number in mine
            if way is not None
        ]
        known = [each for each in mine if each[0] is None] if len(new) < len(mine) else []
        self._pending.append(Pending(self._end - 1, session, number, entries, known))

    @property
    def _end(self) -> int:
        return 0 if self.ledger is None else self.ledger.log.end

    def _admitted(self, session: ClientSession, packed: bytes) -> tuple[Way | None, bytes]:
        """Where a publication goes that is not plain, and its bytes as they go there.

        Nowhere, if it was published before; ValueRefused says why it cannot be.
        """
        notification = unpack(packed)
        admitted = self.broker.admit(session.client, notification)
        if isinstance(admitted, str):
            if notification.id is not None and self.broker.knows(notification):
                return None, packed
            raise ValueRefused(admitted)
        return self._way(admitted, ""), packed if admitted is notification else pack(admitted)

    def _refuse(self, session: Session, taken: Iterable[Taken], error: FairleadError) -> None:
        """The log has no room: publishers are told, neighbours will send it again.

        The connection ends with it: if what follows were taken while what is refused comes once more, because its
        publisher did not get to know, the two would change places.
        """
        if isinstance(session, ClientSession):
            for way, packed, number in taken:
                if way is not None:
                    self.broker.forget(unpack(packed))
                if number and not session.ended:
                    self.counters.refused += 1
                    session.tell(wire.Refused(number, str(error)))
        session.end(str(error))

    def _ways(self, source: str = "") -> Routes[Way]:
        """The ways that are remembered for what comes from there."""
        if self._tables_changed:
            self._tables_changed = False
            for each in self._routes.values():
                each.forget(self._names.names)
        routes = self._routes.get(source)
        if routes is None:
            routes = self._routes[source] = Routes()
            routes.forget(self._names.names)
        return routes

    def _way_of(self, packed: bytes, source: str) -> Way:
        parts = unpack_plain(packed)
        if parts is not None and is_plain(parts[2]):
            return self._ways(source).of(parts[2], self._plain_way, packed, source)
        return self._plain_way(packed, source)

    def _plain_way(self, packed: bytes, source: str) -> Way:
        return self._way(unpack(packed), source)

    def _way(self, notification: Notification, source: str) -> Way:
        route = self.broker.route(notification, source)
        targets = [(self._targets.get(client), ids) for client, ids in route.clients]
        return Way(
            tuple(self.links[name] for name in route.neighbours),
            tuple(Stop(target, wire.deliver_head(ids)) for target, ids in targets if target is not None),
        )

    def _dispatch(self, offset: int, way: Way, packed: bytes) -> None:
        for link in way.links:
            link.relay(offset, packed)
        for stop in way.stops:
            stop.target.deliver(offset, stop, packed)

    # -- the log -----------------------------------------------------------------------------------------------

    @property
    def wants_sync(self) -> bool:
        """Whether something waits for the log to be synced."""
        return bool(self._pending)

    def synced(self, synced: int) -> None:
        """The log is safe below this offset: acknowledge what is in it, and let it go on its way."""
        if self.ledger is not None:
            self.ledger.synced(synced)
        pending = self._pending
        answered: dict[Session, None] = {}
        durable = self.ledger is not None
        while pending and (pending[0].offset < synced or not durable):
            each = pending.popleft()
            if each.session is not None and each.number:
                each.session.numbered = max(each.session.numbered, each.number)
                answered[each.session] = None
                if isinstance(each.session, LinkSession):
                    neighbour = self.state.neighbours.get(each.session.name, Neighbour())
                    neighbour.safe = max(neighbour.safe, each.number)
            for offset, way, packed, _ in each.entries:
                self._dispatch(offset, way, packed)
            self.dispatched = max(self.dispatched, each.offset + 1)
            if each.then is not None:
                each.then()
        self.dispatched = max(self.dispatched, synced)
        for session in answered:
            if not session.ended:
                session.stored()

    def log_is_full(self, error: LogFull, now: int) -> None:
        """What could be written goes on its way, the rest is refused; what else waits, waits for room."""
        assert self.ledger is not None
        self.synced(self.ledger.log.synced)
        end = self.ledger.take_back(now)
        for durable in self.durables.values():
            durable.take_back(end)
        waiting, self._pending = self._pending, deque()
        refused: set[tuple[str, str]] = set()
        for each in waiting:
            if each.then is not None:
                self._after_sync(each.then)
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
                self._dispatch(offset, way, packed)
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
                self._dispatch(offset, way, packed)
        neighbour = self.state.neighbours.get(name)
        if neighbour is None:
            return
        written = [place for offset, _, _, place in pending.entries if NO_OFFSET < offset < end]
        neighbour.received = neighbour.safe = max([neighbour.safe, *written])
        link = self.links.get(name)
        if link is not None and link.session is not None:
            link.session.end(str(error))

    def _after_sync(self, then: Callable[[], None]) -> None:
        self._pending.append(Pending(self._end - 1, then=then))

    def _pump(self, outbox: Durable | Link) -> None:
        """Let an outbox that is behind read on, as far as there is room."""
        session = outbox.session
        if session is None or (isinstance(outbox, Link) and not outbox.ready):
            return
        if self.ledger is None:
            outbox.live = True
            return
        while not outbox.live and outbox.has_room and not session.is_full and not session.ended:
            if outbox.looked >= self.dispatched:
                outbox.live = True
                outbox.close()
                return
            reader = outbox.reader()
            if reader is None or reader.offset != outbox.looked:
                first = max(outbox.looked, self.ledger.log.first)
                reader = outbox.reader(self.ledger.reader(first, PUBLICATION, ARRIVAL))
                assert reader is not None
            room = min(READ_AT_ONCE, outbox.window - len(outbox.unconfirmed))
            records = [each for each in reader.read(room) if each.offset < self.dispatched]
            for record in records:
                packed = notification_in(record)
                frame: bytes | None = None
                if isinstance(outbox, Durable):
                    head = outbox.head_for(unpack(packed), record.offset)
                    if head is not None:
                        frame = wire.deliver(record.offset + 1, head, packed)
                        self.counters.delivered += 1
                elif (
                    record.kind == PUBLICATION or parse_arrival(record).neighbour != outbox.name
                ) and outbox in self._way_of(packed, "").links:
                    frame = wire.relay(record.offset + 1, packed)
                    self.counters.relayed += 1
                if frame is not None:
                    outbox.unconfirmed[record.offset] = None
                    session.send(frame)
            outbox.looked = records[-1].offset + 1 if records else min(reader.offset, self.dispatched)
            if not records and outbox.looked < self.dispatched:
                outbox.looked = self.dispatched  # nothing but changes of state is left

    # -- clients -----------------------------------------------------------------------------------------------

    def _asked(self, session: ClientSession, message: wire.Control, now: int) -> None:
        number = getattr(message, "number", 0)
        try:
            match message:
                case wire.Subscribe():
                    self._subscribe(session, message, now)
                case wire.Unsubscribe():
                    self._unsubscribe(session, message, now)
                case wire.Release():
                    self._release(session, message)
                case wire.Advertise(number, id, text):
                    self._call(calls.Advertise(session.client, id, self._filter(text)), now)
                    self._fence(session, number, patient=False)
                case wire.Unadvertise(number, id):
                    self._call(calls.Unadvertise(session.client, id), now)
                    session.tell(wire.Done(number))
                case wire.Accept(durable, places):
                    self._accept(session, durable, places)
                case wire.Reject(durable, place, again):
                    self._reject(session, durable, place, again=again)
                case wire.Listen(number, id, text):
                    if text:
                        session.listens[id] = (self._filter(text), False)
                        self._tell_listening(session, id, first=True)
                    else:
                        session.listens.pop(id, None)
                    session.tell(wire.Done(number))
                case wire.Ask(number, what):
                    session.tell(wire.Told(number, self._answer(what)))
                case wire.Link(number, url):
                    self.calls.setdefault(url, "")
                    self.on_calls()
                    session.tell(wire.Done(number))
                case wire.Unlink(number, neighbour):
                    self._unlink(neighbour, now)
                    session.tell(wire.Done(number))
                case wire.Ping():
                    session.tell(wire.Pong())
                case wire.Pong():
                    pass
                case wire.Bye():
                    self.lost(session)
                case _:
                    raise ProtocolError(f"clients do not say {type(message).__name__}")
        except ProtocolError:
            raise
        except FairleadError as error:
            self.counters.refused += 1
            session.tell(wire.Refused(number, str(error)))

    def _filter(self, text: str) -> Filter:
        filter = self._texts.get(text)
        if filter is None:
            if len(self._texts) > self.limits.texts:
                self._texts.clear()
            filter = self._texts[text] = parse(text)
        return filter

    def _interest(self, heard: Iterable[str]) -> Interest:
        text, owner = heard
        interest = self.broker.catalogue.interest(self._filter(text), owner)
        self._names.add(interest.filter)
        return interest

    def _call(self, call: calls.Call, now: int) -> None:
        effects = self.broker.handle(call, now)
        for effect in effects:
            if isinstance(effect, calls.Refuse):
                raise ValueRefused(effect.reason)
        self._carry(effects)
        self._change_tables()

    def _carry(self, effects: Iterable[calls.Effect]) -> None:
        """Tell the neighbours; whoever cannot be told now is told all when it is back."""
        for effect in effects:
            match effect:
                case calls.Send(to, calls.Admin(_, added, removed, advertisements)):
                    link = self.links.get(to)
                    if link is not None and link.session is not None:
                        link.session.tell(
                            wire.Tell(
                                [_heard(each) for each in added],
                                [_heard(each) for each in removed],
                                advertisements,
                            )
                        )
                case _:
                    pass

    def _change_tables(self) -> None:
        self._tables_changed = True

    def _subscribe(self, session: ClientSession, message: wire.Subscribe, now: int) -> None:
        name = message.durable
        if len(name.encode()) > NAME_MAX:
            raise ValueRefused(f"the name of a durable subscriber has at most {NAME_MAX} bytes")
        filter = self._filter(message.filter)
        self._names.add(filter)
        if not name and message.since is None:
            self._call(calls.Subscribe(session.client, message.id, filter), now)
            self._fence(session, message.number, patient=False)
            return
        if self.ledger is None:
            raise ValueRefused("this broker keeps no log, so nothing is durable and there is no past here")
        ends = not name
        if ends:
            name = f"{session.client}#{message.id}"
        durable = self.durables.get(name)
        if durable is None:
            durable = self._new_durable(name, self._first_since(message.since), ends=ends)
        known = durable.subscriptions.get(message.id)
        if known is not None and known[0] != filter:
            raise ValueRefused(f"the id {message.id!r} is taken")
        if known is None:
            since = durable.looked if not durable.subscriptions else self._end
            self._call(calls.Subscribe(durable.client, message.id, filter), now)
            durable.subscriptions[message.id] = (filter, since)
            if not ends:
                self._note(Subscribed(name, message.id, render(filter), since), now)
        if durable.session is not session:
            if durable.session is not None:
                durable.session.tell(
                    wire.Refused(0, f"another client is the durable subscriber {name!r} now", name)
                )
                self._detach(durable)
            durable.session = session
            session.durables[name] = durable
        self._fence(session, message.number, patient=not ends)
        # What it missed follows when those who asked before have been answered.
        self._after_sync(lambda: self._pump(durable))

    def _first_since(self, since: int | None) -> int:
        """The offset of the first record that has this time or a later one."""
        assert self.ledger is not None
        if since is None:
            return self._end
        with self.ledger.reader(self.ledger.log.first) as reader:
            return min(reader.find(since), self._end)

    def _new_durable(self, name: str, cursor: int, *, ends: bool = False) -> Durable:
        durable = self.durables[name] = Durable(self, name, cursor, ends=ends)
        self._targets[durable.client] = durable
        return durable

    def _end_durable(self, durable: Durable) -> None:
        self._carry(self.broker.handle(calls.Leave(durable.client), 0))
        self._targets.pop(durable.client, None)
        self.durables.pop(durable.name, None)
        self._change_tables()
        if self.ledger is not None and f"sub:{durable.name}" in self.ledger.log.cursors:
            del self.ledger.log.cursors[f"sub:{durable.name}"]

    def _unsubscribe(self, session: ClientSession, message: wire.Unsubscribe, now: int) -> None:
        name = message.durable
        ephemeral = self.durables.get(f"{session.client}#{message.id}")
        if not name and ephemeral is not None:
            self._detach(ephemeral)
        elif not name:
            self._call(calls.Unsubscribe(session.client, message.id), now)
        else:
            durable = self.durables.get(name)
            if durable is None or (message.id and message.id not in durable.subscriptions):
                raise ValueRefused(f"there is no durable subscription {name!r} {message.id!r}")
            if message.id:
                self._call(calls.Unsubscribe(durable.client, message.id), now)
                del durable.subscriptions[message.id]
            self._note(Unsubscribed(name, message.id), now)
            if not durable.subscriptions or not message.id:
                if message.id:
                    self._note(Unsubscribed(name, ""), now)
                self._detach(durable)
                self._end_durable(durable)
        self._after_sync(lambda: session.tell(wire.Done(message.number)))

    def _release(self, session: ClientSession, message: wire.Release) -> None:
        if message.durable in session.durables:
            self._detach(session.durables[message.durable])
        session.tell(wire.Done(message.number))

    def _accept(self, session: ClientSession, name: str, places: list[int]) -> None:
        durable = session.durables.get(name)
        if durable is not None:
            for place in places:
                durable.confirm(place - 1)
            self._pump(durable)

    def _reject(self, session: ClientSession, name: str, place: int, *, again: bool) -> None:
        durable = session.durables.get(name)
        if durable is None or place - 1 not in durable.unconfirmed:
            return
        self.counters.rejected += 1
        if not again:
            durable.confirm(place - 1)
            self._pump(durable)
            return
        assert self.ledger is not None
        with self.ledger.reader(place - 1, PUBLICATION, ARRIVAL) as reader:
            [record] = reader.read(1)
        packed = notification_in(record)
        head = durable.head_for(unpack(packed), record.offset)
        if head is None:  # the subscription it came for is gone
            durable.confirm(place - 1)
        else:
            session.send(wire.deliver(place, head, packed))

    # -- fences ------------------------------------------------------------------------------------------------

    def _fence(self, session: ClientSession, number: int, *, patient: bool) -> None:
        """Answer a client when all brokers that have to know have made it safe."""

        def done() -> None:
            if not session.ended:
                session.tell(wire.Done(number))

        self._fences += 1
        key = (self._origin, self._fences)
        self._after_sync(lambda: self._begin_wave(key, "", done, patient=patient))

    def _begin_wave(
        self, key: tuple[str, int], asked_by: str, done: Callable[[], None], *, patient: bool
    ) -> None:
        waiting = {name for name, link in self.links.items() if name != asked_by and (patient or link.ready)}
        wave = self._waves[key] = Wave(key, asked_by, patient, waiting, done)
        for name in waiting:
            self._pass_fence(wave, name)
        self._finish(wave)

    def _pass_fence(self, wave: Wave, name: str) -> None:
        link = self.links[name]
        if link.session is not None and link.ready:
            link.session.tell(wire.Fence(*wave.key, wave.patient))

    def _answered(self, wave: Wave, name: str) -> None:
        wave.waiting.discard(name)
        self._finish(wave)

    def _finish(self, wave: Wave) -> None:
        if not wave.waiting and self._waves.pop(wave.key, None) is not None:
            wave.done()

    # -- links -------------------------------------------------------------------------------------------------

    def _told(self, session: LinkSession, message: wire.Control, now: int) -> None:
        link = self.links.get(session.name)
        if link is None or link.session is not session:
            return
        match message:
            case wire.Table(subscriptions, advertisements):
                self._replace(session.name, advertisements, now, advertisements=True)
                self._replace(session.name, subscriptions, now, advertisements=False)
                link.introduced = True
                self._ready(link)
            case wire.Tell(added, removed, about_advertisements):
                self._heard(session.name, added, removed, now, advertisements=about_advertisements)
            case wire.Received(place):
                link.confirm_through(place - 1)
                self._pump(link)
            case wire.Fence(origin, number, _) if origin == self._origin:
                session.tell(wire.Fenced(origin, number))
                self._open_circle((origin, number), session.name, now)
            case wire.Fence(origin, number, patient):

                def answer() -> None:
                    # If the link has been lost since, the fence comes again over the next one.
                    if link.session is not None:
                        link.session.tell(wire.Fenced(origin, number))

                key, name = (origin, number), session.name
                self._after_sync(lambda: self._begin_wave(key, name, answer, patient=patient))
            case wire.Fenced(origin, number):
                if (origin, number) in self._waves:
                    self._answered(self._waves[origin, number], session.name)
            case wire.Unlink():
                self._forget_link(session.name, now)
            case wire.Ping():
                session.tell(wire.Pong())
            case wire.Pong():
                pass
            case wire.Bye():
                self.lost(session)
            case _:
                raise ProtocolError(f"brokers do not say {type(message).__name__}")

    def _open_circle(self, key: tuple[str, int], came_from: str, now: int) -> None:
        """A fence has come back: the link it was sent over closes a circle, and goes."""
        for link in list(self.links.values()):
            if link.probe == key and link.name != came_from:
                log.error("the link from %s to %s would close a circle, and is ended", self.name, link.name)
                self._unlink(link.name, now)

    def _replace(self, name: str, heard: list[Heard], now: int, *, advertisements: bool) -> None:
        """What a neighbour asks for, as a whole, in place of what it asked for before."""
        whole = dict.fromkeys(heard)
        # The table counts, not what was told: where filters cover others, it has dropped some of that.
        table = self.broker.advertisements if advertisements else self.broker.subscriptions
        initial = () if advertisements else self.broker.settings.strategy.initial()
        known = dict.fromkeys(
            (render(each.filter), each.owner) for each in table.of(name) if each not in initial
        )
        added = [each for each in whole if each not in known]
        removed = [each for each in known if each not in whole]
        told = self.state.neighbours[name].told(advertisements=advertisements)
        dropped = [each for each in told if each not in whole and each not in known]
        if added or removed or dropped:
            self._heard(name, added, removed, now, advertisements=advertisements, dropped=dropped)

    def _heard(
        self,
        name: str,
        added: list[Heard],
        removed: list[Heard],
        now: int,
        *,
        advertisements: bool,
        dropped: Iterable[Heard] = (),
    ) -> None:
        if advertisements and self.broker.settings.advertisements is None:
            raise ProtocolError("there are no advertisements in this network")
        try:
            more = tuple(self._interest(each) for each in added)
            less = tuple(self._interest(each) for each in removed)
        except FairleadError as error:
            raise ProtocolError(f"a filter that cannot be read here: {error}") from None
        self._note(Told(name, added, [*removed, *dropped], advertisements), now)
        self._carry(self.broker.handle(calls.Admin(name, more, less, advertisements), now))
        self._change_tables()

    def _unlink(self, name: str, now: int) -> None:
        link = self.links.get(name)
        if link is None:
            raise ValueRefused(f"there is no link to {name!r}")
        if link.session is not None:
            link.session.tell(wire.Unlink(0, self.name))
        self._forget_link(name, now)

    def _forget_link(self, name: str, now: int) -> None:
        link = self.links[name]
        session = link.session
        self._note(Unlinked(name), now)
        self.calls = {url: called for url, called in self.calls.items() if called != name}
        effects = self.broker.handle(calls.Unlink(name), now)
        del self.links[name]
        link.close()
        self._routes.pop(name, None)
        self._change_tables()
        self._carry(effects)
        if session is not None:
            session.end("this link has been ended")
        if self.ledger is not None and f"link:{name}" in self.ledger.log.cursors:
            del self.ledger.log.cursors[f"link:{name}"]
        for wave in list(self._waves.values()):
            self._answered(wave, name)
        self.on_calls()

    def keep_links(self, names: Iterable[str], now: int) -> None:
        """Have links to these neighbours only, and call nobody before it is said where they are now.

        Those that have not been connected yet are waited for, as those that are away are.
        """
        wanted = set(names)
        for name in self.links.keys() - wanted:
            self._forget_link(name, now)
        for name in sorted(wanted - self.links.keys()):
            self._note(Linked(name, ""), now)
            self._new_link(name)
        self.calls.clear()

    # -- what people ask ---------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """From time to time: tell producers whether anyone listens, and make ready what comes next."""
        if self._tables_changed and not self._was_changed:
            self._was_changed = True
        elif self._was_changed:
            # They have not changed since, so the first notification need not wait for the filters to be arranged.
            self._was_changed = False
            self.broker.catalogue.matching(Notification.of({}))
        for session in self.clients.values():
            for id in session.listens:
                self._tell_listening(session, id)

    def _tell_listening(self, session: ClientSession, id: str, *, first: bool = False) -> None:
        filter, before = session.listens[id]
        catalogue = self.broker.catalogue
        asked = catalogue.number(catalogue.interest(filter))
        anyone = any(
            catalogue.overlaps(asked, catalogue.number(interest))
            for interest, destination in self.broker.subscriptions
            if destination != session.client
        )
        session.listens[id] = (filter, anyone)
        if first or anyone != before:
            session.tell(wire.Listening(id, anyone))

    def _answer(self, what: str) -> Any:
        if what == "status":
            return self.status()
        if what == "tables":
            return self.tables()
        raise ValueRefused(f"there is nothing to say about {what!r}; ask for 'status' or 'tables'")

    def status(self) -> dict[str, Any]:
        """How the broker is, in figures."""
        counters = self.counters
        log = None if self.ledger is None else self.ledger.log
        return {
            "broker": self.name,
            "url": self.url,
            "clients": len(self.clients),
            "queued": sum(len(session.backlog) for session in self.clients.values()),
            "blocking": len(self._blocking),
            "subscriptions": sum(
                len(self.broker.clients[each].subscriptions.by_id) for each in self.broker.clients
            ),
            "routing_entries": len(self.broker.subscriptions),
            "counters": {name: getattr(counters, name) for name in Counters.__slots__},
            "log": None
            if log is None
            else {"first": log.first, "end": log.end, "synced": log.synced, "bytes": log.size},
            "links": {
                name: {
                    "connected": link.session is not None,
                    "ready": link.ready,
                    "behind": self.dispatched - link.cursor(self.dispatched),
                    "unconfirmed": len(link.unconfirmed),
                    "url": self.state.neighbours[name].url
                    or ("" if link.session is None else link.session.url),
                }
                for name, link in self.links.items()
            },
            "durables": {
                name: {
                    "connected": durable.session is not None,
                    "behind": self.dispatched - durable.cursor(self.dispatched),
                    "unconfirmed": len(durable.unconfirmed),
                }
                for name, durable in self.durables.items()
                if not durable.ends
            },
        }

    def tables(self) -> dict[str, Any]:
        """The routing tables, as text."""
        tables = [self.broker.subscriptions, self.broker.advertisements]
        subscriptions, advertisements = (
            [[render(interest.filter), destination] for interest, destination in table] for table in tables
        )
        return {
            "broker": self.name,
            "neighbours": sorted(self.links),
            "subscriptions": subscriptions,
            "advertisements": advertisements,
        }

    def close(self, now: int) -> None:
        """Say goodbye to everyone, and make all safe."""
        for session in self._publishers():
            session.end("the broker stops")
        for outbox in [*self.links.values(), *self.durables.values()]:
            outbox.close()
        self.save(now)
        if self.ledger is not None:
            self.ledger.close()


def _heard(interest: Interest) -> Heard:
    return render(interest.filter), interest.owner
