"""A link is logical: a connection that is lost changes no routing table.

When the connection is back, both sides announce their interests (`interests`). A new link carries nothing before
it is known that it closes no cycle (`cycles`). A link ends when somebody ends it, on either side; a neighbour that
is away then learns of it when it is back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from fairlead.broker import Broker
from fairlead.broker.progress import Progress
from fairlead.errors import NotThere, ProtocolError
from fairlead.network import wire
from fairlead.network.barriers import Barriers
from fairlead.network.calling import Calling, Clock
from fairlead.network.catch_up import CatchUp
from fairlead.network.client_sessions import ClientSession
from fairlead.network.cuts import Cuts
from fairlead.network.cycles import Cycles
from fairlead.network.destinations import Link
from fairlead.network.dispatch import Dispatch
from fairlead.network.handshakes import Handshakes
from fairlead.network.incarnations import lineage_of, valid_end
from fairlead.network.interests import Interests
from fairlead.network.ledger import Linked, Parting, Unlinked, cursor_of_link
from fairlead.network.link_sessions import LinkSession
from fairlead.network.newcomers import Newcomer, Newcomers
from fairlead.network.outflow import Step
from fairlead.network.owned_types import OwnedTypes
from fairlead.network.peers import Peer
from fairlead.network.persistence import Persistence
from fairlead.network.router import Router
from fairlead.network.sessions import Outgoing

__all__ = ["Neighbourhood"]

log: Final = logging.getLogger(__name__)

NOT_YET: Final = "it has not been there since this broker was started"
MARKS_AGAIN: Final = 20
"""After so many ticks all marks are sent again."""


class Neighbourhood:
    """The links of a broker: how they are made and end, and what neighbours send but notifications."""

    def __init__(
        self,
        broker: Broker,
        outgoing: Outgoing,
        persistence: Persistence,
        *,
        links: dict[str, Link],
        sessions: dict[str, LinkSession],
        clients: Mapping[str, ClientSession],
        router: Router,
        dispatch: Dispatch,
        catch_up: CatchUp,
        barriers: Barriers,
        progress: Progress,
        cuts: Cuts,
        handshakes: Handshakes,
        interests: Interests,
        types: OwnedTypes,
        clock: Clock,
    ) -> None:
        self._name, self._broker = broker.name, broker
        self._outgoing, self._persistence = outgoing, persistence
        self._links, self._sessions, self._clients = links, sessions, clients
        self._router, self._dispatch, self._catch_up = router, dispatch, catch_up
        self._barriers, self._progress, self._cuts = barriers, progress, cuts
        self._handshakes, self._interests = handshakes, interests
        self._types, self._clock = types, clock
        self._newcomers = Newcomers(broker.name, barriers)
        self.calling = Calling(
            broker.name,
            links=links,
            persistence=persistence,
            dispatch=dispatch,
            newcomers=self._newcomers,
            clock=clock,
        )
        self.calling.settle = self._settle
        self._ticks = 0
        self.recalled: Callable[[str, wire.Recalled], None] = lambda name, message: None
        """Called with what brokers behind a neighbour retain."""
        self.past: Callable[[str, wire.Past], None] = lambda name, message: None
        """Called with what they say of their logs."""
        self.handed_over: Callable[[wire.Handing, int], None] = lambda message, now: None
        """Called with what brokers say about durable subscribers that move."""
        self._cycles = Cycles(
            broker.name,
            links=links,
            sessions=sessions,
            newcomers=self._newcomers,
            barriers=barriers,
            dispatch=dispatch,
            remember=self._remember,
            open=self._open,
            give_up=self._give_up,
            is_redundant=broker.redundancy is not None,
        )

    def recall(self, now: int) -> None:
        """The neighbours and their interests, as the state has them; and links whose end is not known to both."""
        state = self._persistence.state
        if self._broker.redundancy is not None:
            self._interests.recall_notices(now)
        for name, neighbour in state.neighbours.items():
            self._new(name)
            self.calling.absent(name, NOT_YET, now)
            if neighbour.url:
                self.calling.calls[neighbour.url] = name
            self._interests.recall(name, now)
        self.calling.calls |= {url: name for name, url in state.parting.items() if url}
        self.calling.recall()

    # -- connections -------------------------------------------------------------------------------------------

    def call(self, url: str, expects: str = "") -> None:
        """Call a broker, of this name if one is given, and stay linked with it; NetworkError: it is no address."""
        self.calling.call(url, expects)

    def is_connected(self, name: str) -> bool:
        """Whether there is a connection with a broker, over which nothing may go yet."""
        return name in self._sessions

    def received(self, session: LinkSession) -> int | None:
        """The last offset of its neighbour's log that has arrived; None: nothing may come over it."""
        if not self._is_open(session):
            return None
        return self._persistence.state.neighbours[session.name].received

    def _is_open(self, session: LinkSession) -> bool:
        link = self._links.get(session.name)
        return link is not None and link.session is session

    def greet(self, peer: Peer, hello: wire.Hello, now: int) -> LinkSession:
        """Accept a broker's connection. ProtocolError if it is refused."""
        name = hello.name
        self._handshakes.check(name, hello, self._sessions.get(name), opened=False)
        known = self._persistence.state.neighbours.get(name)
        session = self._session(peer, name, hello, opened=False, url=hello.url)
        session.tell(self._handshakes.welcome(name, hello))
        linked = self._handshakes.linked(name, "" if known is None else known.url, hello)
        self._take_in(session, linked, hello, now)
        return session

    def welcomed(self, peer: Peer, url: str, welcome: wire.Welcome, now: int) -> LinkSession:
        """A broker that was called has answered."""
        name = welcome.broker
        was_up = name in self._sessions
        self.calling.check(url, name)
        self._handshakes.check(name, welcome, self._sessions.get(name), opened=True)
        session = self._session(peer, name, welcome, opened=True)
        self.calling.reached(url, name, was_up=was_up)
        self._take_in(session, self._handshakes.linked(name, url, welcome), welcome, now)
        return session

    def _session(
        self, peer: Peer, name: str, said: wire.Hello | wire.Welcome, *, opened: bool, url: str = ""
    ) -> LinkSession:
        return LinkSession(
            self._outgoing,
            peer,
            name,
            said,
            persistence=self._persistence,
            links=self._links,
            on_lost=self.lost,
            opened=opened,
            url=url,
        )

    def lost(self, session: LinkSession) -> None:
        """A connection has ended; the link stays, unless it was new."""
        name = session.name
        if self._sessions.get(name) is session:
            del self._sessions[name]
        newcomer = self._newcomers.get(name)
        if newcomer is not None and newcomer.session is session:
            self._drop(newcomer)
        if self._is_open(session):
            link = self._links[name]
            link.session = None
            link.detach(self._dispatch.reached)
            self._barriers.lost(name)
            self.calling.absent(name, "the connection is lost", self._clock.now)
            log.info("%s: the connection with %s is lost", self._name, name)

    def _take_in(
        self, session: LinkSession, linked: Linked, said: wire.Hello | wire.Welcome, now: int
    ) -> None:
        name, state = session.name, self._persistence.state
        self._sessions[name] = session
        if name in state.parting:
            if said.knows:
                self._tell_ended(session)
                return
            if session.opened and linked.url not in self.calling.wanted:
                self._parted(session, now)
                return
        newcomer = Newcomer(session, linked, said, now)
        if said.knows and name in state.neighbours:
            self._open(newcomer, now)
            return
        self._newcomers.add(newcomer)
        if session.opened:
            self._cycles.probe(newcomer, now)

    # -- links -------------------------------------------------------------------------------------------------

    def _open(self, newcomer: Newcomer, now: int) -> None:
        """A link is known, or closes no cycle: both sides announce their interests."""
        session, said = newcomer.session, newcomer.said
        name = session.name
        link = self._remember(newcomer, now)
        self._newcomers.remove(name)
        link.session = session
        self._progress.connect(name)
        if self._outgoing.copies is not None:
            self._outgoing.copies.connect(name)
        link.outflow.on(Step.CONNECT)
        if said.others_log and said.others_log == self._persistence.log_name:
            self._go_on_from(link, said)
        self._types.introduce(name)  # what others may have of them, before anything is sent
        if self._broker.redundancy is None:
            session.tell(self._interests.announcement(name))
        else:
            session.tell(self._interests.notices())
        log.info("%s is connected with %s", self._name, name)

    def _go_on_from(self, link: Link, said: wire.Hello | wire.Welcome) -> None:
        """A neighbour is sent what it does not have: from what it has received of this log, as that is now.

        One that has less than it has acknowledged was restored from an older copy, and is sent it again. One that
        says it has more than there is was misled: it is sent all that it has not acknowledged.
        """
        mine, theirs = lineage_of(self._persistence.lineage), lineage_of(said.others_lineage)
        received = valid_end(said.received, theirs, mine, self._dispatch.reached)
        if received < self._persistence.acknowledged(link.name):
            log.warning(
                "%s sends %s again what it has lost, from %s on", self._name, link.name, f"{received:,}"
            )
            link.rewind(received)
            self._persistence.acknowledge(link.name, received, rewound=True)
        elif said.received <= self._dispatch.reached:
            link.confirm_through(received - 1)

    def _remember(self, newcomer: Newcomer, now: int) -> Link:
        linked, said = newcomer.linked, newcomer.said
        known = self._persistence.state.neighbours.get(linked.neighbour)
        shown = lineage_of(linked.lineage)
        if known is None or (known.url, known.log, known.lineage) != (linked.url, linked.log, shown):
            is_beyond = known is not None and known.log == linked.log and said.end < known.received
            self._persistence.note(linked, now)
        else:
            is_beyond = said.end < known.received
        if is_beyond:
            self._go_back(linked, said, now)
        return self._links.get(linked.neighbour) or self._new(linked.neighbour)

    def _go_back(self, linked: Linked, said: wire.Hello | wire.Welcome, now: int) -> None:
        """More has arrived of a neighbour's log than is in it: only what was acknowledged in truth has arrived.

        The neighbour sends all the rest again.
        """
        known = self._persistence.state.neighbours[linked.neighbour]
        received = min(known.received, said.acknowledged, said.end)
        log.warning(
            "%s: the log of %s ends at %s, before what was received of it: this broker goes back to %s",
            *(self._name, linked.neighbour, f"{said.end:,}", f"{received:,}"),
        )
        # In the state, what was received of a log goes back only where the log is taken for another one.
        self._persistence.note(replace(linked, log=""), now)
        self._persistence.note(replace(linked, received=received), now)
        known.safe = received

    def _new(self, name: str) -> Link:
        cursor = self._persistence.cursor(cursor_of_link(name), self._dispatch.reached)
        link = self._links[name] = Link(self._outgoing, name, cursor, self._router, self._dispatch)
        self._interests.add_neighbour(name)
        return link

    def _ready(self, link: Link) -> None:
        """The neighbour has announced its interests, and may be sent notifications."""
        link.outflow.on(Step.ANNOUNCE)
        self._catch_up.read_on(link)
        self._barriers.ready(link.name)
        self.calling.linked(link.name)

    def _settle(self, then: Callable[[], None]) -> None:
        """Do something when all brokers know what is subscribed to behind the links that there are."""
        self._barriers.begin(wire.Barrier(*self._barriers.next_key(), False), "", then)

    # -- what neighbours send ----------------------------------------------------------------------------------

    def handle(self, session: LinkSession, message: wire.Control, now: int) -> None:
        """Handle a neighbour's message. ProtocolError if the connection has to end."""
        handler = self._HANDLERS.get(type(message))
        if handler is None:
            raise ProtocolError(f"brokers do not send {type(message).__name__}")
        handler(self, session, message, now)

    def _ping(self, session: LinkSession, message: wire.Ping, now: int) -> None:
        session.tell(wire.Pong())

    def _pong(self, session: LinkSession, message: wire.Pong, now: int) -> None:
        """It is there."""

    def _bye(self, session: LinkSession, message: wire.Bye, now: int) -> None:
        log.info("%s: %s closes the connection: %s", self._name, session.name, message.reason)
        session.lost()

    def _unlinked(self, session: LinkSession, message: wire.Unlink, now: int) -> None:
        """The neighbour has ended the link, or has learnt that it has been ended."""
        name = session.name
        if name in self._persistence.state.parting:
            self._parted(session, now)
            return
        newcomer = self._newcomers.get(name)
        if newcomer is not None:
            self._drop(newcomer)
            self.calling.given_up(name, f"{name} has ended the link", now)
            self.calling.on_change()
        if name in self._links:
            log.info("%s: %s has ended the link", self._name, name)
            self.forget(name, now)
        self._tell_ended(session)

    def _tell_ended(self, session: LinkSession) -> None:
        """Tell a neighbour that the link has ended, when that outlives a power failure here."""

        def tell() -> None:
            if not session.ended:
                session.tell(wire.Unlink(0, self._name))

        self._dispatch.after_sync(tell)

    def _probe(self, session: LinkSession, message: wire.Probe, now: int) -> None:
        # One that does not know yet that the link has ended is told so; one that wants a new link is answered.
        if session.name not in self._persistence.state.parting or session.name in self._newcomers:
            self._cycles.probed(session, message, now)

    def _passed(self, session: LinkSession, message: wire.Passed, now: int) -> None:
        key = (message.origin, message.number)
        self._barriers.answered(
            key,
            session.name,
            message.ends,
            message.reached,
            away=message.away,
            held=message.held or message.known,
        )

    def _recalled(self, session: LinkSession, message: wire.Recalled, now: int) -> None:
        if self._is_open(session):
            self.recalled(session.name, message)

    def _past(self, session: LinkSession, message: wire.Past, now: int) -> None:
        if self._is_open(session):
            self.past(session.name, message)

    def _credit(self, session: LinkSession, message: wire.Credit, now: int) -> None:
        if not session.granted <= message.dealt <= session.spent:
            raise ProtocolError(f"credit for {message.dealt:,} bytes, of {session.spent:,} that were sent")
        session.granted = message.dealt
        if self._is_open(session):
            link = self._links[session.name]
            self._catch_up.read_on(link)
            link.drained()

    def _dropped(self, session: LinkSession, message: wire.Dropped, now: int) -> None:
        if not 0 <= message.count <= wire.DROPPED_MAX:
            raise ProtocolError(f"{message.count:,} notifications cannot have been dropped")
        if self._is_open(session):
            self._missed(session.name, message.count)

    def _missed(self, source: str, count: int) -> None:
        """A neighbour has dropped so many. Their destinations are not known: all subscribers here learn of it."""
        for session in list(self._clients.values()):
            if self._broker.clients[session.client].subscriptions.by_id or any(
                durable.ends for durable in session.durables.values()
            ):
                session.missed(count)
        if self._outgoing.copies is not None:
            return  # it may have come by another way; and told on, it would go round for ever
        for name, link in self._links.items():
            if name != source and self._broker.subscriptions.of(name):
                link.lost += count

    def _table(self, session: LinkSession, message: wire.Table, now: int) -> None:
        newcomer = self._newcomers.get(session.name)
        if newcomer is not None and not session.opened:
            self._open(newcomer, now)  # the caller has learnt that the link closes no cycle
        if self._is_open(session):
            self._interests.replace(session.name, message, now)
            self._ready(self._links[session.name])

    def _notices(self, session: LinkSession, message: wire.Notices, now: int) -> None:
        newcomer = self._newcomers.get(session.name)
        if newcomer is not None and not session.opened:
            self._open(newcomer, now)
        if self._is_open(session):
            for broker, number, neighbours, interests in message.notices:
                told = wire.Notice(broker, number, neighbours, interests, [], True)
                self._interests.hear(session.name, told, now)
            self._ready(self._links[session.name])

    def _notice(self, session: LinkSession, message: wire.Notice, now: int) -> None:
        if self._is_open(session):
            self._interests.hear(session.name, message, now)

    def _types_declared(self, session: LinkSession, message: wire.Types, now: int) -> None:
        self._types.hear(session.name, message, now)  # over a new link, too: they come before all else

    def _tell(self, session: LinkSession, message: wire.InterestsChanged, now: int) -> None:
        if self._is_open(session):
            self._interests.change(session.name, message, now)

    def _received(self, session: LinkSession, message: wire.Received, now: int) -> None:
        if not self._is_open(session):
            return
        end, link = message.ordinal, self._links[session.name]
        if not 0 <= end <= self._dispatch.reached:
            raise ProtocolError(f"{end:,} is acknowledged, and the log ends at {self._dispatch.reached:,}")
        link.confirm_through(end - 1)
        self._persistence.acknowledge(session.name, end)
        self._catch_up.read_on(link)

    def _barrier(self, session: LinkSession, message: wire.Barrier, now: int) -> None:
        if not self._is_open(session):
            return
        link, ends = self._links[session.name], dict[str, int]()
        held: list[Any] = []
        if message.origin == self._barriers.origin or self._barriers.has_come(message):
            session.tell(wire.Passed(message.origin, message.number))
            return

        def passed(reached: Collection[str]) -> None:
            away = self._barriers.take_away((message.origin, message.number))
            # If the connection has been lost since, the barrier comes again over the next one.
            if link.session is not None:
                link.session.tell(
                    wire.Passed(
                        message.origin,
                        message.number,
                        ends,
                        sorted(reached),
                        away,
                        held if message.seek else [],
                        [] if message.seek else held,
                    )
                )
                if message.ends:
                    self._cuts.hurry(link.name, ends)

        self._barriers.pass_on(message, session.name, passed, ends if message.ends else None, held)

    def _hand_over(self, session: LinkSession, message: wire.Handing, now: int) -> None:
        if self._is_open(session):
            self.handed_over(message, now)

    _HANDLERS: Final[dict[type, Callable[[Any, LinkSession, Any, int], None]]] = {
        wire.Ping: _ping,
        wire.Pong: _pong,
        wire.Bye: _bye,
        wire.Unlink: _unlinked,
        wire.Probe: _probe,
        wire.Barrier: _barrier,
        wire.Passed: _passed,
        wire.Recalled: _recalled,
        wire.Past: _past,
        wire.Credit: _credit,
        wire.Dropped: _dropped,
        wire.Table: _table,
        wire.InterestsChanged: _tell,
        wire.Notices: _notices,
        wire.Notice: _notice,
        wire.Types: _types_declared,
        wire.Received: _received,
        wire.Fetch: _hand_over,
        wire.Replay: _hand_over,
        wire.Forget: _hand_over,
        wire.Forgotten: _hand_over,
    }

    def tick(self, now: int) -> None:
        """From time to time: answer requests for links, and send marks, and how many a neighbour has missed."""
        self.calling.tick(now)
        self._barriers.tick()
        self._ticks += 1
        repeats = self._ticks % MARKS_AGAIN == 0
        for session in list(self._sessions.values()):
            session.look_after()
        for link in self._links.values():
            link.report_lost()
            if self._persistence.is_logged and self._outgoing.copies is None:
                # A neighbour whose disk was full has forgotten them. One that is not heard gets none: what went to
                # it would look like progress to those who wait for it.
                if repeats and link.session is not None and link.session.is_read:
                    self._progress.connect(link.name)
                link.send_marks(self._progress)

    # -- the end of a link -------------------------------------------------------------------------------------

    def unlink(self, name: str, now: int) -> None:
        """End a link on both sides, on the other one when it can be reached. NotThere if there is no such link.

        One that waits for a broker that has not answered is named by its address.
        """
        newcomer = self._newcomers.get(name)
        if newcomer is None and name not in self._links:
            if not self.calling.hang_up(name, now):
                at = self.calling.neighbour_at(name)
                raise NotThere(
                    f"there is no link to {name!r}",
                    hint=f"unlink {at!r}, which is there, by its name" if at else None,
                )
            self.calling.on_change()
            return
        if newcomer is not None:
            self._give_up(newcomer, "this link has been ended", now)
            return
        url = self._persistence.state.neighbours[name].url
        self._sever(name, Parting(name, url), now)
        if url:
            self.calling.calls[url] = name
        if name in self._sessions:
            self._tell_ended(self._sessions[name])
        self.calling.on_change()

    def _give_up(self, newcomer: Newcomer, reason: str, now: int) -> None:
        """A new link is not to be; if this side or the other remembers it, it is forgotten there."""
        session = newcomer.session
        self.calling.given_up(session.name, reason, now)
        session.tell(wire.Unlink(0, self._name))
        session.end(reason)
        if session.name in self._links:
            self.forget(session.name, now)
        self.calling.on_change()

    def _drop(self, newcomer: Newcomer) -> None:
        name = newcomer.session.name
        self._newcomers.remove(name)
        if newcomer.probe is not None:
            self._barriers.forget(newcomer.probe)
        if name not in self._links:
            self._barriers.remove_neighbour(name)
        self._progress.unlink(name)

    def _parted(self, session: LinkSession, now: int) -> None:
        """A broker that was a neighbour knows that it is none."""
        name, calls = session.name, self.calling.calls
        self._persistence.note(Unlinked(name), now)
        if not any(calls[url] == name for url in self.calling.wanted & calls.keys()):
            self.calling.forget(name, now)
        session.end("this link has been ended")
        self.calling.on_change()

    def forget(self, name: str, now: int) -> None:
        """End a link on this side, with all interests of its neighbour."""
        self._sever(name, Unlinked(name), now)
        self.calling.on_change()

    def _sever(self, name: str, change: Parting | Unlinked, now: int) -> None:
        self._persistence.note(change, now)
        self._handshakes.ending.add(name)
        self._dispatch.after_sync(partial(self._handshakes.ending.discard, name))
        self.calling.forget(name, now)
        link = self._links.pop(name)
        link.session = None
        link.outflow.on(Step.LOSE)
        link.close()
        link.give_up()
        self._interests.remove_neighbour(name, now)
        self._persistence.remove_neighbour(name)
        self._barriers.remove_neighbour(name)
        self._progress.unlink(name)

    def keep(self, names: Iterable[str], now: int) -> None:
        """Remove all links but those to these neighbours, and call none of them before its address is known."""
        wanted = set(names)
        for name in self._links.keys() - wanted:
            self._sever(name, Parting(name, ""), now)
        for name in sorted(wanted - self._links.keys()):
            self._persistence.note(Linked(name, ""), now)
            self._new(name)
            self.calling.absent(name, NOT_YET, now)
        self.calling.keep_none(now)
