"""A link is logical: a connection that is lost changes no routing table.

When it is back, both sides say all that they ask of the other, and the difference takes effect at once. Nothing
goes over a new link before it is known that it closes no circle. A link ends when somebody ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from fairlead.broker import messages as calls
from fairlead.errors import FairleadError, ProtocolError, ValueRefused
from fairlead.filters.language import render
from fairlead.network import wire
from fairlead.network.fences import FenceKey
from fairlead.network.ledger import Heard, Linked, Neighbour, Told, Unlinked
from fairlead.network.sessions import Link, LinkSession, Peer
from fairlead.routing import Interest

if TYPE_CHECKING:
    from fairlead.network.node import Node

__all__ = ["Neighbourhood"]

log: Final = logging.getLogger(__name__)


class Neighbourhood:
    """The links of a node: how they are made and end, and what neighbours tell each other."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def recall(self, now: int) -> None:
        """Know the neighbours and what they ask for, as before."""
        node = self._node
        for name, neighbour in node.state.neighbours.items():
            self._new(name)
            if neighbour.url:
                node.calls[neighbour.url] = name
            for advertisements in (True, False):
                told = neighbour.told(advertisements=advertisements)
                added = tuple(self._interest(heard) for heard in told)
                if added:
                    node.broker.handle(calls.Admin(name, added, (), advertisements), now)

    # -- connections -------------------------------------------------------------------------------------------

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
        )

    def greet(self, peer: Peer, hello: wire.Hello, now: int) -> LinkSession:
        """A broker has called; ProtocolError says why it is not taken in."""
        node = self._node
        self._check(hello.name, hello.life, opened=False)
        known = node.state.neighbours.get(hello.name, Neighbour())
        session = LinkSession(node, peer, hello.name, hello.life, opened=False, url=hello.url)
        session.tell(
            wire.Welcome(wire.VERSION, node.name, hello.name, node.life, node.log_name, known.log, known.safe)
        )
        self._attach(session, Linked(hello.name, known.url, hello.log), hello.others_log, hello.received, now)
        return session

    def welcomed(self, peer: Peer, url: str, welcome: wire.Welcome, now: int) -> LinkSession:
        """A broker that was called has answered."""
        node = self._node
        self._check(welcome.broker, welcome.life, opened=True)
        session = LinkSession(node, peer, welcome.broker, welcome.life, opened=True)
        node.calls[url] = welcome.broker
        linked = Linked(welcome.broker, url, welcome.log)
        self._attach(session, linked, welcome.others_log, welcome.received, now)
        return session

    def lost(self, session: LinkSession) -> None:
        """A connection has ended; the link stays."""
        link = self._node.links.get(session.name)
        if link is not None and link.session is session:
            link.session, link.ready, link.introduced, link.probe = None, False, False, None
            link.detach(self._node.dispatched)
            self._node.fences.lost(session.name)

    def _check(self, name: str, life: str, *, opened: bool) -> None:
        node = self._node
        if name == node.name or not name:
            raise ProtocolError(f"a broker cannot be linked to {name!r}: that is its own name")
        link = node.links.get(name)
        if link is None or link.session is None:
            return
        current = link.session
        both_called = current.life == life and current.opened != opened
        if both_called and opened != (node.name < name):
            raise ProtocolError("linked already")  # both keep the call of the one whose name is smaller
        current.end("another connection takes the place of this one")

    def _attach(self, session: LinkSession, linked: Linked, others_log: str, received: int, now: int) -> None:
        node, name = self._node, session.name
        known = node.state.neighbours.get(name)
        if known is None or (known.url, known.log) != (linked.url, linked.log):
            node.note(linked, now)
        link = node.links.get(name) or self._new(name)
        link.session, link.ready = session, False
        if received and others_log and others_log == node.log_name:
            link.confirm_through(min(received, node.dispatched) - 1)
        subscriptions, advertisements = node.broker.introduction(name)
        session.tell(
            wire.Table(
                [_heard(interest) for interest in subscriptions],
                [_heard(interest) for interest in advertisements],
            )
        )
        if known is None and session.opened:
            self._probe(link)

    def _new(self, name: str) -> Link:
        node = self._node
        node.broker.meet(name)
        link = node.links[name] = Link(node, name, node.place(f"link:{name}", node.dispatched))
        node.ways.change()
        return link

    def _probe(self, link: Link) -> None:
        """Nothing goes over a new link until it is known that it closes no circle: a fence must not come back."""
        key = link.probe = self._node.fences.next_key()

        def done() -> None:
            if link.probe == key:
                link.probe = None
                self._ready(link)

        self._node.fences.probe(key, link, done)

    def _ready(self, link: Link) -> None:
        """It has said what it asks for, and may be sent to."""
        if link.session is None or not link.introduced or link.probe is not None:
            return
        link.ready = True
        self._node.dispatch.read_on(link)
        self._node.fences.ready(link.name)

    # -- what neighbours say -----------------------------------------------------------------------------------

    def said(self, session: LinkSession, message: wire.Control, now: int) -> None:
        """A neighbour has sent a message; ProtocolError says why the connection ends."""
        node = self._node
        link = node.links.get(session.name)
        if link is None or link.session is not session:
            return
        match message:
            case wire.Table(subscriptions, advertisements):
                self._replace(session.name, advertisements, now, advertisements=True)
                self._replace(session.name, subscriptions, now, advertisements=False)
                link.introduced = True
                self._ready(link)
            case wire.Tell(added, removed, about_advertisements):
                self._told(session.name, added, removed, now, advertisements=about_advertisements)
            case wire.Received(place):
                link.confirm_through(place - 1)
                node.dispatch.read_on(link)
            case wire.Fence(origin, number, _) if origin == node.fences.origin:
                session.tell(wire.Fenced(origin, number))
                self._open_circle((origin, number), session.name, now)
            case wire.Fence(origin, number, patient):

                def answer() -> None:
                    # If the link has been lost since, the fence comes again over the next one.
                    if link.session is not None:
                        link.session.tell(wire.Fenced(origin, number))

                node.fences.begin((origin, number), session.name, answer, patient=patient)
            case wire.Fenced(origin, number):
                node.fences.answered((origin, number), session.name)
            case wire.Unlink():
                self.forget(session.name, now)
            case wire.Ping():
                session.tell(wire.Pong())
            case wire.Pong():
                pass
            case wire.Bye():
                node.lost(session)
            case _:
                raise ProtocolError(f"brokers do not say {type(message).__name__}")

    def _open_circle(self, key: FenceKey, came_from: str, now: int) -> None:
        """A fence has come back: the link it was sent over closes a circle, and goes."""
        for link in list(self._node.links.values()):
            if link.probe == key and link.name != came_from:
                log.error(
                    "the link from %s to %s would close a circle, and is ended", self._node.name, link.name
                )
                self.unlink(link.name, now)

    def _replace(self, name: str, heard: list[Heard], now: int, *, advertisements: bool) -> None:
        """What a neighbour asks for, as a whole, in place of what it asked for before."""
        broker = self._node.broker
        whole = dict.fromkeys(heard)
        # The table counts, not what was told: where filters cover others, it has dropped some of that.
        table = broker.advertisements if advertisements else broker.subscriptions
        initial = () if advertisements else broker.settings.strategy.initial()
        known = dict.fromkeys(_heard(each) for each in table.of(name) if each not in initial)
        added = [each for each in whole if each not in known]
        removed = [each for each in known if each not in whole]
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
        node.note(Told(name, added, [*removed, *dropped], advertisements), now)
        self.carry(node.broker.handle(calls.Admin(name, more, less, advertisements), now))
        node.ways.change()

    def _interest(self, heard: Iterable[str]) -> Interest:
        text, owner = heard
        interest = self._node.broker.catalogue.interest(self._node.filter(text), owner)
        self._node.ways.look_at(interest.filter)
        return interest

    # -- what neighbours are told ------------------------------------------------------------------------------

    def carry(self, effects: Iterable[calls.Effect]) -> None:
        """Tell the neighbours; whoever cannot be told now is told all when it is back."""
        for effect in effects:
            match effect:
                case calls.Send(to, calls.Admin(_, added, removed, advertisements)):
                    link = self._node.links.get(to)
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

    # -- the end of a link -------------------------------------------------------------------------------------

    def unlink(self, name: str, now: int) -> None:
        """End a link, on both sides; ValueRefused says that there is none."""
        link = self._node.links.get(name)
        if link is None:
            raise ValueRefused(f"there is no link to {name!r}")
        if link.session is not None:
            link.session.tell(wire.Unlink(0, self._node.name))
        self.forget(name, now)

    def forget(self, name: str, now: int) -> None:
        """End a link on this side, with all that its neighbour has asked for."""
        node = self._node
        link = node.links[name]
        session = link.session
        node.note(Unlinked(name), now)
        node.calls = {url: called for url, called in node.calls.items() if called != name}
        effects = node.broker.handle(calls.Unlink(name), now)
        del node.links[name]
        link.close()
        node.ways.forget(name)
        self.carry(effects)
        if session is not None:
            session.end("this link has been ended")
        node.unplace(f"link:{name}")
        node.fences.gone(name)
        node.on_calls()

    def keep(self, names: Iterable[str], now: int) -> None:
        """Have links to these neighbours only, and call nobody before it is said where they are now."""
        node = self._node
        wanted = set(names)
        for name in node.links.keys() - wanted:
            self.forget(name, now)
        for name in sorted(wanted - node.links.keys()):
            node.note(Linked(name, ""), now)
            self._new(name)
        node.calls.clear()


def _heard(interest: Interest) -> Heard:
    return render(interest.filter), interest.owner
