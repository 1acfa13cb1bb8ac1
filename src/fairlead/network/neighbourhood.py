"""A link is logical: a connection that is lost changes no routing table.

When it is back, both sides say all that they ask of the other, and the difference takes effect at once. Nothing
goes over a new link before it is known that it closes no circle: a probe over it must not come back, and it waits
for all brokers that are away, because they remember their links, too. A link ends when somebody ends it, on either
side; a neighbour that is away then is told when it is back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fairlead.broker import messages as calls
from fairlead.errors import FairleadError, NotThere, ProtocolError
from fairlead.filters.language import render
from fairlead.network import wire
from fairlead.network.calling import Absence, Calling
from fairlead.network.destinations import Link
from fairlead.network.fences import FenceKey, broker_in
from fairlead.network.incarnations import judge, lineage_of, valid_end
from fairlead.network.ledger import Heard, Linked, Neighbour, Parting, Told, Unlinked, cursor_of_link
from fairlead.network.outflow import Step
from fairlead.network.sessions import LinkSession, Peer
from fairlead.network.settings import agreed
from fairlead.routing import Interest
from fairlead.rules import Refusal

if TYPE_CHECKING:
    from fairlead.network.node import Node

__all__ = ["Neighbourhood"]

log: Final = logging.getLogger(__name__)

NOTED_AT_ONCE: Final = 1 << 20
"""How many characters of filters go into one record of the log."""
NOT_YET: Final = "it has not been there since this broker was started"


@dataclass(slots=True)
class Newcomer:
    """A new link: nothing goes over it yet. It is new if either side does not know it."""

    session: LinkSession
    linked: Linked
    said: wire.Hello | wire.Welcome
    since: int
    probe: FenceKey | None = None


class Neighbourhood:
    """The links of a node: how they are made and end, and what neighbours tell each other."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._sessions: dict[str, LinkSession] = {}
        """The connection with each broker, whether its link is open, new, or has been ended."""
        self._newcomers: dict[str, Newcomer] = {}
        self.calling = Calling(node)
        self._doubles: set[tuple[str, str]] = set()
        """Names and logs of brokers that have been refused because there is another one of that name."""
        self._routing = agreed(node.broker.settings)
        self.room = wire.relay_room(node.limits.frame_bytes)
        """The size of the largest notification that neighbours take: all take frames of one length."""

    def recall(self, now: int) -> None:
        """Know the neighbours and what they ask for, as before, and who has still to be told that it is none."""
        node = self._node
        for name, neighbour in node.state.neighbours.items():
            self._new(name)
            self.calling.absent(name, NOT_YET, now)
            if neighbour.url:
                node.calls[neighbour.url] = name
            for advertisements in (True, False):
                told = neighbour.told(advertisements=advertisements)
                added = tuple(self._interest(heard) for heard in told)
                if added:
                    node.broker.handle(calls.Admin(name, added, (), advertisements), now)
        node.calls |= {url: name for name, url in node.state.parting.items() if url}
        self.calling.recall()

    # -- connections -------------------------------------------------------------------------------------------

    def call(self, url: str, expects: str = "") -> None:
        """Call a broker, of this name if one is given, and stay linked with it; NetworkError: it is no address."""
        self.calling.call(url, expects)

    def unsure(self) -> dict[str, Absence]:
        """The new links of which it is not known whether they close a circle, by whom they are with."""
        node, found = self._node, {}
        for name, newcomer in self._newcomers.items():
            if newcomer.session.opened:
                waits = f": all behind {name} are asked"
            else:
                away = node.fences.away_for(name, node.name)
                waits = f": {', '.join(away)} cannot be asked" if away else ""
            found[name] = Absence(f"it is not known yet whether it closes a circle{waits}", newcomer.since)
        return found

    def url_of(self, name: str) -> str:
        """Where a neighbour can be called, as far as is known: where this side calls it, or where it says."""
        link = self._node.links[name]
        said = "" if link.session is None else link.session.url
        called = (url for url, each in self._node.calls.items() if each == name)
        return self._node.state.neighbours[name].url or said or next(called, "")

    def is_connected(self, name: str) -> bool:
        """Whether there is a connection with a broker, over which nothing may go yet."""
        return name in self._sessions

    @property
    def sessions(self) -> list[LinkSession]:
        """All connections with brokers."""
        return list(self._sessions.values())

    def received(self, session: LinkSession) -> int | None:
        """The last place of its neighbour's log of which something arrived; None: nothing may come over it."""
        return self._node.state.neighbours[session.name].received if self._is_open(session) else None

    def _is_open(self, session: LinkSession) -> bool:
        link = self._node.links.get(session.name)
        return link is not None and link.session is session

    def hello(self, neighbour: str) -> wire.Hello:
        """What this side says when it calls a broker; `neighbour` is its name, if that is known."""
        node = self._node
        known = node.state.neighbours.get(neighbour, Neighbour())
        return wire.Hello(
            wire.VERSION,
            "broker",
            node.name,
            life=node.life,
            log=node.log_name,
            others_log=known.log,
            received=known.safe,
            url=node.url,
            knows=neighbour in node.state.neighbours,
            frame_max=node.limits.frame_bytes,
            routing=self._routing,
            lineage=node.lineage,
            others_lineage=list(known.lineage),
            end=node.dispatched,
        )

    def greet(self, peer: Peer, hello: wire.Hello, now: int) -> LinkSession:
        """A broker has called; ProtocolError says why it is not taken in."""
        node, name = self._node, hello.name
        self._check(name, hello, opened=False)
        known = node.state.neighbours.get(name, Neighbour())
        session = LinkSession(node, peer, name, hello.life, hello.frame_max, opened=False, url=hello.url)
        session.tell(
            wire.Welcome(
                wire.VERSION,
                node.name,
                name,
                node.life,
                node.log_name,
                known.log,
                known.safe,
                node.limits.frame_bytes,
                knows=name in node.state.neighbours,
                routing=self._routing,
                lineage=node.lineage,
                others_lineage=list(known.lineage),
                end=node.dispatched,
            )
        )
        self._take_in(session, self._linked(name, known.url, hello), hello, now)
        return session

    def welcomed(self, peer: Peer, url: str, welcome: wire.Welcome, now: int) -> LinkSession:
        """A broker that was called has answered."""
        node, name = self._node, welcome.broker
        was_up = name in self._sessions
        self.calling.check(url, name)
        self._check(name, welcome, opened=True)
        session = LinkSession(node, peer, name, welcome.life, welcome.frame_max, opened=True)
        self.calling.found(url, name, was_up=was_up)
        self._take_in(session, self._linked(name, url, welcome), welcome, now)
        return session

    def _linked(self, name: str, url: str, said: wire.Hello | wire.Welcome) -> Linked:
        """What is remembered of a neighbour from now on."""
        known = self._node.state.neighbours.get(name, Neighbour())
        superseded = judge(known.lineage, known.superseded, lineage_of(said.lineage)).superseded
        return Linked(name, url, said.log, 0, said.lineage, sorted(superseded))

    def lost(self, session: LinkSession) -> None:
        """A connection has ended; the link stays, unless it was new."""
        node, name = self._node, session.name
        if self._sessions.get(name) is session:
            del self._sessions[name]
        newcomer = self._newcomers.get(name)
        if newcomer is not None and newcomer.session is session:
            self._drop(newcomer)
        if self._is_open(session):
            link = node.links[name]
            link.session = None
            link.detach(node.dispatched)
            node.fences.lost(name)
            self.calling.absent(name, "the connection is lost", node.now)
            log.info("%s: the connection with %s is lost", node.name, name)

    def _check(self, name: str, said: wire.Hello | wire.Welcome, *, opened: bool) -> None:
        """ProtocolError says why this broker cannot be a neighbour, or need not be connected with once more."""
        node = self._node
        if name == node.name or not name:
            raise ProtocolError(f"a broker cannot be linked to {name!r}: that is its own name")
        if said.frame_max != node.limits.frame_bytes:
            # What one takes and the other does not would be acknowledged, and lost between them.
            reason = (
                f"{node.name} takes frames of up to {node.limits.frame_bytes:,} bytes, but {name} of up to"
                f" {said.frame_max:,}: frame_bytes is the same in all of a network"
            )
            self._warn_once(name, f"{said.frame_max}", reason)
            raise ProtocolError(reason)
        if said.routing and said.routing != self._routing:
            reason = f"{node.name} routes by {self._routing}, but {name} by {said.routing}"
            self._warn_once(name, said.routing, reason)
            raise ProtocolError(reason)
        known = node.state.neighbours.get(name)
        if known is not None and known.log and known.log != said.log:
            reason = (
                f"this broker {name!r} is not the one that {node.name!r} is linked with: it has another log; names"
                f" are unique, and if {name!r} has lost its log, unlink it first"
            )
            self._warn_once(name, said.log, reason)
            raise ProtocolError(reason)
        if known is not None:
            self._check_copy(name, known, said)
        current = self._sessions.get(name)
        if current is None:
            return
        both_called = current.life == said.life and current.opened != opened
        if both_called and opened != (node.name < name):
            raise ProtocolError("linked already")  # both keep the call of the one whose name is smaller
        current.end("another connection takes the place of this one")

    def _check_copy(self, name: str, known: Neighbour, said: wire.Hello | wire.Welcome) -> None:
        """ProtocolError where a neighbour's log is a copy that must not be used; one that went back is logged."""
        node = self._node
        judgement = judge(known.lineage, known.superseded, lineage_of(said.lineage))
        if judgement.refusal:
            reason = f"{node.name} does not take {name}: {judgement.refusal}"
            self._warn_once(name, said.lineage[-1][0], reason)
            raise ProtocolError(reason)
        if judgement.has_gone_back or said.end < known.received:
            log.warning(
                "%s: the log of %s has gone back, to an older copy: what is acknowledged from now on is delivered,"
                " what it had acknowledged since that copy was made may be lost",
                node.name,
                name,
            )

    def _warn_once(self, name: str, what: str, reason: str) -> None:
        if (name, what) not in self._doubles:
            self._doubles.add((name, what))
            log.warning("%s refuses %s: %s", self._node.name, name, reason)

    def _take_in(
        self, session: LinkSession, linked: Linked, said: wire.Hello | wire.Welcome, now: int
    ) -> None:
        node, name = self._node, session.name
        self._sessions[name] = session
        if name in node.state.parting:
            if said.knows:
                session.tell(wire.Unlink(0, node.name))
                return
            if session.opened and linked.url not in self.calling.wanted:
                self._parted(session, now)
                return
        newcomer = Newcomer(session, linked, said, now)
        if said.knows and name in node.state.neighbours:
            self._open(newcomer, now)
            return
        self._newcomers[name], node.fences.new[name] = newcomer, session
        if session.opened:
            self._probe(newcomer, now)

    # -- new links ---------------------------------------------------------------------------------------------

    def _probe(self, newcomer: Newcomer, now: int) -> None:
        """Look for a way back from a new neighbour; there can be none where this broker has no other one."""
        node, called = self._node, newcomer.session.name

        def done() -> None:
            if self._newcomers.get(called) is not newcomer:
                return
            try:
                self._remember(newcomer, now)
            except FairleadError as error:
                newcomer.session.end(str(error))
            else:
                # Whoever called knows where to call again: so it is the first that must not forget the link.
                node.dispatch.after_sync(proceed)

        def proceed() -> None:
            if self._newcomers.get(called) is newcomer:
                self._open(newcomer, now)

        if not {*node.links, *node.fences.new} - {called}:
            done()
            return
        log.info("%s: is there another way to %s?", node.name, called)
        newcomer.probe = node.fences.next_key()
        node.fences.probe(wire.Probe(*newcomer.probe, called), "", {called}, done)

    def _probed(self, session: LinkSession, probe: wire.Probe, now: int) -> None:
        """Somebody looks for a way back."""
        node, name = self._node, session.name
        fences = node.fences
        answer = wire.Fenced(probe.origin, probe.number)
        if broker_in(probe.origin) == node.name:
            if probe.origin == fences.origin:
                self._is_circle(probe, name, now)
            session.tell(answer)
        elif fences.meets(probe, name):
            log.error("%s is in a circle, with its links to %s and others", node.name, name)
            session.tell(answer)
        else:

            def done() -> None:
                # If the connection has been lost since, the probe comes again over the next one.
                current = self._sessions.get(name)
                if current is not None:
                    current.tell(answer)

            fences.probe(probe, name, {*node.links, *fences.new} - {name}, done)
            if away := fences.away(probe):
                log.warning(
                    "the new link from %s to %s waits for %s, by whom it might close a circle; if they do not come"
                    " back, unlink them at %s",
                    broker_in(probe.origin),
                    probe.called,
                    ", ".join(away),
                    node.name,
                )

    def _is_circle(self, probe: wire.Probe, came_from: str, now: int) -> None:
        """A probe has come back: the link it was sent over goes, or the one it came over, if that is newer."""
        newcomer = self._newcomers.get(probe.called)
        if newcomer is None or newcomer.probe != (probe.origin, probe.number) or came_from == probe.called:
            return
        order = [name for name, each in self._newcomers.items() if each.session.opened]
        if came_from in order and order.index(came_from) > order.index(probe.called):
            return  # that one's probe comes back as well
        log.error(
            "the link from %s to %s would close a circle, by way of %s, and is ended",
            self._node.name,
            probe.called,
            came_from,
        )
        self._give_up(newcomer, f"the link would close a circle, by way of {came_from}", now)

    def _give_up(self, newcomer: Newcomer, reason: str, now: int) -> None:
        """A new link is not to be; if this side or the other remembers it, it is forgotten there."""
        session = newcomer.session
        self.calling.given_up(session.name, reason, now)
        session.tell(wire.Unlink(0, self._node.name))
        session.end(reason)
        if session.name in self._node.links:
            self.forget(session.name, now)
        self._node.on_calls()

    def _drop(self, newcomer: Newcomer) -> None:
        node, name = self._node, newcomer.session.name
        del self._newcomers[name]
        del node.fences.new[name]
        if newcomer.probe is not None:
            node.fences.forget(newcomer.probe)
        if name not in node.links:
            node.fences.gone(name)

    def _open(self, newcomer: Newcomer, now: int) -> None:
        """A link is known, or closes no circle: both sides say what they ask of the other."""
        node, session, said = self._node, newcomer.session, newcomer.said
        name = session.name
        link = self._remember(newcomer, now)
        self._newcomers.pop(name, None)
        node.fences.new.pop(name, None)
        link.session = session
        link.outflow.on(Step.CONNECT)
        if said.others_log and said.others_log == node.log_name:
            self._go_on_from(link, said)
        subscriptions, advertisements, others = node.broker.introduction(name)
        session.tell(wire.Table(_heard(subscriptions), _heard(advertisements), _heard(others)))
        log.info("%s is connected with %s", node.name, name)

    def _go_on_from(self, link: Link, said: wire.Hello | wire.Welcome) -> None:
        """A neighbour is sent what it does not have: from what it has received of this log, as that is now.

        One that has less than it has acknowledged was restored from an older copy, and is sent it again.
        """
        node = self._node
        mine, theirs = lineage_of(node.lineage), lineage_of(said.others_lineage)
        received = valid_end(said.received, theirs, mine, node.dispatched)
        if received < node.acknowledged(link.name):
            log.warning(
                "%s sends %s again what it has lost, from %s on", node.name, link.name, f"{received:,}"
            )
            link.rewind(received)
            node.acknowledge(link.name, received, rewound=True)
        else:
            link.confirm_through(received - 1)

    def _remember(self, newcomer: Newcomer, now: int) -> Link:
        node, linked, said = self._node, newcomer.linked, newcomer.said
        known = node.state.neighbours.get(linked.neighbour)
        shown = lineage_of(linked.lineage)
        if known is None or (known.url, known.log, known.lineage) != (linked.url, linked.log, shown):
            node.note(linked, now)
        elif said.end < known.received:  # it says more has come of its log than there is: that cannot be
            known.received, known.safe = said.end, min(known.safe, said.end)
        return node.links.get(linked.neighbour) or self._new(linked.neighbour)

    def _new(self, name: str) -> Link:
        node = self._node
        node.broker.meet(name)
        link = node.links[name] = Link(node, name, node.place(cursor_of_link(name), node.dispatched))
        node.router.change()
        return link

    def _ready(self, link: Link) -> None:
        """It has announced what it subscribes to, and may be sent to."""
        link.outflow.on(Step.ANNOUNCE)
        self._node.catch_up.read_on(link)
        self._node.fences.ready(link.name)
        self.calling.linked(link.name)

    # -- what neighbours take ----------------------------------------------------------------------------------

    def too_large(self, packed: bytes) -> Refusal:
        """Why a notification cannot be relayed that has more bytes than there is `room`."""
        return Refusal(f"a notification of {len(packed):,} bytes; neighbours take at most {self.room:,}")

    # -- what neighbours say -----------------------------------------------------------------------------------

    def said(self, session: LinkSession, message: wire.Control, now: int) -> None:
        """A neighbour has sent a message; ProtocolError says why the connection ends."""
        match message:
            case wire.Ping():
                session.tell(wire.Pong())
            case wire.Pong():
                pass
            case wire.Bye(reason):
                log.info("%s: %s says goodbye: %s", self._node.name, session.name, reason)
                self._node.lost(session)
            case wire.Unlink():
                self._is_unlinked(session, now)
            case wire.Probe() if session.name not in self._node.state.parting:
                self._probed(session, message, now)
            case wire.Fenced(origin, number):
                self._node.fences.answered((origin, number), session.name)
            case wire.Credit(dealt) if session.granted <= dealt <= session.spent:
                session.granted = dealt
                if self._is_open(session):
                    link = self._node.links[session.name]
                    self._node.catch_up.read_on(link)
                    link.drained()
            case wire.Dropped(count) if 0 <= count <= wire.DROPPED_MAX:
                if self._is_open(session):
                    self._missed(session.name, count)
            case wire.Table() | wire.Tell() | wire.Received() | wire.Fence():
                newcomer = self._newcomers.get(session.name)
                if newcomer is not None and isinstance(message, wire.Table) and not session.opened:
                    self._open(newcomer, now)  # the one that called has found that it closes no circle
                if self._is_open(session):
                    self._asked(self._node.links[session.name], session, message, now)
            case wire.Probe():
                pass
            case _:
                raise ProtocolError(f"brokers do not say {type(message).__name__}")

    def _missed(self, source: str, count: int) -> None:
        """So many did not come from a neighbour. For whom is not known: all who have subscribed here are told."""
        node = self._node
        for session in list(node.clients.values()):
            if node.broker.clients[session.client].subscriptions.by_id or any(
                durable.ends for durable in session.durables.values()
            ):
                session.missed(count)
        for name, link in node.links.items():
            if name != source and node.broker.subscriptions.of(name):
                link.lost += count

    def tick(self) -> None:
        """From time to time: tell neighbours what they have missed."""
        for link in self._node.links.values():
            link.tell_lost()

    def _asked(
        self,
        link: Link,
        session: LinkSession,
        message: wire.Table | wire.Tell | wire.Received | wire.Fence,
        now: int,
    ) -> None:
        node, name = self._node, session.name
        match message:
            case wire.Table(subscriptions, advertisements, others):
                self._replace(name, advertisements, [], now, advertisements=True)
                self._replace(name, subscriptions, others, now, advertisements=False)
                self._ready(link)
            case wire.Tell(added, removed, about_advertisements):
                self._told(name, added, removed, now, advertisements=about_advertisements)
            case wire.Received(place):
                if not 0 <= place <= node.dispatched:
                    raise ProtocolError(f"{place:,} is acknowledged, and the log ends at {node.dispatched:,}")
                link.confirm_through(place - 1)
                node.acknowledge(name, place)
                node.catch_up.read_on(link)
            case wire.Fence(origin, number, _) if origin == node.fences.origin:
                session.tell(wire.Fenced(origin, number))
            case wire.Fence(origin, number, _):

                def answer() -> None:
                    # If the link has been lost since, the fence comes again over the next one.
                    if link.session is not None:
                        link.session.tell(wire.Fenced(origin, number))

                node.fences.begin(message, name, answer)

    def _replace(
        self, name: str, heard: list[Heard], others: list[Heard], now: int, *, advertisements: bool
    ) -> None:
        """What a neighbour asks for, as a whole, in place of what it asked for before.

        What it asks for without anything here being advertised for it stays, if it was known: something may
        have been published for it by those who have gone since.
        """
        broker = self._node.broker
        whole = dict.fromkeys([*heard, *others])
        # The table counts, not what was told: where filters cover others, it has dropped some of that.
        table = broker.advertisements if advertisements else broker.subscriptions
        initial = () if advertisements else broker.settings.strategy.initial()
        known = dict.fromkeys(_heard(each for each in table.of(name) if each not in initial))
        removed = [each for each in known if each not in whole]
        # One of the others may stand for what is removed: it may cover that.
        added = [each for each in (whole if removed else heard) if each not in known]
        told = self._node.state.neighbours[name].told(advertisements=advertisements)
        dropped = [each for each in told if each not in whole and each not in known]
        if added or removed or dropped:
            self._told(name, added, removed, now, advertisements=advertisements, dropped=dropped)

    def _told(
        self,
        name: str,
        added: list[Heard],
        removed: list[Heard],
        now: int,
        *,
        advertisements: bool,
        dropped: Iterable[Heard] = (),
    ) -> None:
        node = self._node
        if advertisements and node.broker.settings.advertisements is None:
            raise ProtocolError("there are no advertisements in this network")
        try:
            more = tuple(self._interest(each) for each in added)
            less = tuple(self._interest(each) for each in removed)
        except FairleadError as error:
            raise ProtocolError(f"a filter that cannot be read here: {error}") from None
        for some in _some([*removed, *dropped]):
            node.note(Told(name, [], some, advertisements), now)
        for some in _some(added):
            node.note(Told(name, some, [], advertisements), now)
        self.carry(node.broker.handle(calls.Admin(name, more, less, advertisements), now))
        node.router.change()

    def _interest(self, heard: Iterable[str]) -> Interest:
        text, owner = heard
        interest = self._node.broker.catalogue.interest(self._node.filter(text), owner)
        self._node.router.look_at(interest.filter)
        return interest

    # -- what neighbours are told ------------------------------------------------------------------------------

    def carry(self, effects: Iterable[calls.Effect]) -> None:
        """Tell the neighbours; whoever cannot be told now is told all when it is back."""
        for effect in effects:
            match effect:
                case calls.Send(to, calls.Admin(_, added, removed, advertisements)):
                    link = self._node.links.get(to)
                    if link is not None and link.session is not None:
                        link.session.tell(wire.Tell(_heard(added), _heard(removed), advertisements))
                case _:
                    pass

    # -- the end of a link -------------------------------------------------------------------------------------

    def unlink(self, name: str, now: int) -> None:
        """End a link, on both sides, when the other one can be told; NotThere says that there is none.

        One that waits for a broker that has not answered is named by its address.
        """
        node = self._node
        newcomer = self._newcomers.get(name)
        if newcomer is None and name not in node.links:
            if not self.calling.hang_up(name, now):
                at = self.calling.neighbour_at(name)
                raise NotThere(
                    f"there is no link to {name!r}",
                    hint=f"unlink {at!r}, which is there, by its name" if at else None,
                )
            node.on_calls()
            return
        if newcomer is not None:
            self._give_up(newcomer, "this link has been ended", now)
            return
        url = node.state.neighbours[name].url
        self._sever(name, Parting(name, url), now)
        if url:
            node.calls[url] = name
        if name in self._sessions:
            self._sessions[name].tell(wire.Unlink(0, node.name))
        node.on_calls()

    def _is_unlinked(self, session: LinkSession, now: int) -> None:
        """The neighbour has ended the link, or has heard that it has been ended."""
        node, name = self._node, session.name
        if name in node.state.parting:
            self._parted(session, now)
            return
        if name in self._newcomers:
            self._drop(self._newcomers[name])
            self.calling.given_up(name, f"{name} has ended the link", now)
            node.on_calls()
        if name in node.links:
            log.info("%s: %s has ended the link", node.name, name)
            self.forget(name, now)

        def confirm() -> None:
            if not session.ended:
                session.tell(wire.Unlink(0, node.name))

        node.dispatch.after_sync(confirm)

    def _parted(self, session: LinkSession, now: int) -> None:
        """A broker that was a neighbour knows that it is none."""
        node = self._node
        node.note(Unlinked(session.name), now)
        if not any(node.calls[url] == session.name for url in self.calling.wanted & node.calls.keys()):
            self.calling.forget(session.name, now)
        session.end("this link has been ended")
        node.on_calls()

    def forget(self, name: str, now: int) -> None:
        """End a link on this side, with all that its neighbour has asked for."""
        self._sever(name, Unlinked(name), now)
        self._node.on_calls()

    def _sever(self, name: str, change: Parting | Unlinked, now: int) -> None:
        node = self._node
        node.note(change, now)
        self.calling.forget(name, now)
        effects = node.broker.handle(calls.Unlink(name), now)
        link = node.links.pop(name)
        link.session = None
        link.outflow.on(Step.LOSE)
        link.close()
        link.give_up()
        node.router.forget(name)
        self.carry(effects)
        node.unplace(cursor_of_link(name))
        node.fences.gone(name)

    def keep(self, names: Iterable[str], now: int) -> None:
        """Have links to these neighbours only, and call nobody before it is said where they are now."""
        node = self._node
        wanted = set(names)
        for name in node.links.keys() - wanted:
            self._sever(name, Parting(name, ""), now)
        for name in sorted(wanted - node.links.keys()):
            node.note(Linked(name, ""), now)
            self._new(name)
            self.calling.absent(name, NOT_YET, now)
        self.calling.keep_none(now)


def _heard(interests: Iterable[Interest]) -> list[Heard]:
    return [(render(interest.filter), interest.owner) for interest in interests]


def _some(heard: Iterable[Heard]) -> Iterator[list[Heard]]:
    """All of it, in pieces that fit into a record."""
    some: list[Heard] = []
    size = 0
    for each in heard:
        length = len(each[0]) + len(each[1])
        if some and size + length > NOTED_AT_ONCE:
            yield some
            some, size = [], 0
        some.append(each)
        size += length
    if some:
        yield some
