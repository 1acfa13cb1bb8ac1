"""What a client asks is answered, once: that it is done, or why it is refused. Only what makes no sense ends it.

A name belongs to one connection, the latest one. What a client asks for ends with its connection, unless it is
durable (`durability`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from fairlead.broker import messages as calls
from fairlead.errors import FairleadError, NotThere, ProtocolError, ValueRefused
from fairlead.network import wire
from fairlead.network.sessions import ClientSession, Peer
from fairlead.network.settings import POLICIES

if TYPE_CHECKING:
    from fairlead.network.node import Node

__all__ = ["NAME_MAX", "Clientele"]

log: Final = logging.getLogger(__name__)

NAME_MAX: Final = 500
"""The longest name of a client, a broker or a durable subscriber: the log keeps a place under it."""
COMPARED_AT_ONCE: Final = 20_000
"""How many routing entries are looked at in one turn to tell producers whether anyone listens."""


class Clientele:
    """The connected clients of a node, and what they ask."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._named = 0
        self._version = 0
        self._unsure: dict[tuple[ClientSession, str], None] = {}
        """Who may have to be told that anyone listens now, or that nobody does."""

    # -- connections -------------------------------------------------------------------------------------------

    def greet(self, peer: Peer, hello: wire.Hello) -> ClientSession:
        """A client has called; ProtocolError says why it is not taken in."""
        node = self._node
        if hello.policy and hello.policy not in POLICIES:
            raise ProtocolError(
                f"no policy for slow clients: {hello.policy!r}; there are {', '.join(POLICIES)}"
            )
        # Who comes back under its name takes the place that it has.
        if hello.name not in node.clients and len(node.clients) >= node.limits.clients:
            raise ProtocolError(f"there are {node.limits.clients:,} clients already")
        name = hello.name
        if not name:
            self._named += 1
            name = f"{node.name}-{node.life[:8]}-{self._named}"
        if name in node.clients:
            node.clients[name].end(f"another connection has taken over the name {name!r}", is_final=True)
        session = ClientSession(node, peer, name, hello.policy)
        node.clients[name] = node.router.targets[session.client] = session
        node.broker.handle(calls.Join(session.client), 0)
        session.tell(
            wire.Welcome(
                wire.VERSION,
                node.name,
                name,
                log=node.log_name,
                frame_max=node.limits.frame_bytes,
                lineage=node.lineage,
                end=node.dispatched,
            )
        )
        return session

    def lost(self, session: ClientSession) -> None:
        """A connection has ended, and the client with it."""
        node = self._node
        node.unblock(session)
        for durable in list(session.durables.values()):
            node.durability.detach(durable)
        node.clients.pop(session.name, None)
        node.leave(session.client)

    # -- what clients say --------------------------------------------------------------------------------------

    def said(self, session: ClientSession, message: wire.Control, now: int) -> None:
        """A client has sent a message; ProtocolError says why the connection ends."""
        node, durability = self._node, self._node.durability
        number = getattr(message, "number", 0)
        try:
            match message:
                case wire.Subscribe():
                    self._subscribe(session, message, now)
                case wire.Unsubscribe():
                    self._unsubscribe(session, message, now)
                case wire.Release(number, name):
                    if name in session.durables:
                        durability.detach(session.durables[name])
                    # What it has accepted does not come again, whatever is killed after this.
                    node.dispatch.after_saving(lambda: session.tell(wire.Done(number)))
                case wire.Advertise(number, id, text):
                    node.call(calls.Advertise(session.client, id, node.filter(text)), now)
                    # Who is away may have a durable subscriber, which must not miss what is published now.
                    node.fences.answer(session, number, patient=node.ledger is not None)
                case wire.Unadvertise(number, id):
                    node.call(calls.Unadvertise(session.client, id), now)
                    session.tell(wire.Done(number))
                case wire.Accept(name, places):
                    durability.accept(session, name, places)
                case wire.Reject(name, place, again):
                    durability.reject(session, name, place, again=again)
                case wire.Listen():
                    self._listen(session, message)
                case wire.Ask(number, what):
                    session.tell(wire.Told(number, self._told(what)))
                case wire.Link(number, url):
                    node.neighbourhood.calling.ask(session, number, url, now)
                case wire.Unlink(number, neighbour):
                    node.neighbourhood.unlink(neighbour, now)
                    node.dispatch.after_sync(lambda: session.tell(wire.Done(number)))
                case wire.Ping(number):
                    session.tell(wire.Done(number) if number else wire.Pong())
                case wire.Pong():
                    pass
                case wire.Bye():
                    node.lost(session)
                case _:
                    raise ProtocolError(f"clients do not say {type(message).__name__}")
        except ProtocolError:
            raise
        except Exception as error:
            self.refuse(session, number, error)

    def refuse(self, session: ClientSession, number: int, error: Exception) -> None:
        """Tell a client why not. Where that is our fault, too: else it would come back and ask for it again."""
        self._node.counters.refused += 1
        if isinstance(error, FairleadError):
            reason = str(error)
            log.info("%s is refused: %s", session, reason)
        else:
            reason = f"the broker has failed to do this: {type(error).__name__}: {error}"
            log.error("%s asks for something, and %s", session, reason, exc_info=error)
        session.tell(wire.Refused(number, reason, is_missing=isinstance(error, NotThere)))

    def _subscribe(self, session: ClientSession, message: wire.Subscribe, now: int) -> None:
        node = self._node
        if len(message.durable.encode()) > NAME_MAX:
            raise ValueRefused(f"the name of a durable subscriber has at most {NAME_MAX} bytes")
        if not message.durable.isprintable():
            raise ValueRefused("the name of a durable subscriber has printable characters only")
        filter = node.filter(message.filter)
        node.router.look_at(filter)
        if message.durable or message.since is not None:
            node.durability.subscribe(session, message, filter, now)
            return
        node.call(calls.Subscribe(session.client, message.id, filter), now)
        node.fences.answer(session, message.number, patient=False)

    def _unsubscribe(self, session: ClientSession, message: wire.Unsubscribe, now: int) -> None:
        node, durability = self._node, self._node.durability
        if message.durable:
            durability.unsubscribe(session, message.durable, message.id, now)
        elif (passing := durability.passing(session, message.id)) is not None:
            durability.detach(passing)
        else:
            node.call(calls.Unsubscribe(session.client, message.id), now)
        node.dispatch.after_sync(lambda: session.tell(wire.Done(message.number)))

    def _told(self, what: str) -> Any:
        if what == "status":
            return self._node.status()
        if what == "tables":
            return self._node.tables()
        raise ValueRefused(f"there is nothing to say about {what!r}; ask for 'status' or 'tables'")

    # -- whether anyone listens --------------------------------------------------------------------------------

    def _listen(self, session: ClientSession, message: wire.Listen) -> None:
        if message.filter:
            session.listens[message.id] = (self._node.filter(message.filter), False)
            self._tell_listening(session, message.id, first=True)
        else:
            session.listens.pop(message.id, None)
        session.tell(wire.Done(message.number))

    def tick(self) -> None:
        """From time to time, when something has changed: tell producers whether anyone listens."""
        node, left = self._node, COMPARED_AT_ONCE
        if self._version != node.router.version:
            self._version = node.router.version
            for session in node.clients.values():
                self._unsure.update(((session, id), None) for id in session.listens)
        while self._unsure and left > 0:
            session, id = next(iter(self._unsure))
            del self._unsure[session, id]
            if id in session.listens and not session.ended:
                self._tell_listening(session, id)
                left -= len(node.broker.subscriptions) + 1

    def _tell_listening(self, session: ClientSession, id: str, *, first: bool = False) -> None:
        filter, before = session.listens[id]
        broker = self._node.broker
        catalogue = broker.catalogue
        asked = catalogue.number(catalogue.interest(filter))
        anyone = any(
            catalogue.overlaps(asked, catalogue.number(interest))
            for interest, destination in broker.subscriptions
            if destination != session.client
        )
        session.listens[id] = (filter, anyone)
        if first or anyone != before:
            session.tell(wire.Listening(id, anyone))
