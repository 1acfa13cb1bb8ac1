"""A client's request gets one answer: that it is done, or why it is refused. A protocol error ends the client.

A name belongs to one connection, the latest one. A client's subscriptions and advertisements end with its
connection, unless they are durable (`durability`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fairlead.broker import Broker
from fairlead.broker import messages as calls
from fairlead.channels import check_offer, quality_of
from fairlead.delivery.discovery import Discovered, Discovery, What, check_what
from fairlead.errors import FairleadError, Forbidden, NotThere, ProtocolError, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.projection import silent_about
from fairlead.network import wire
from fairlead.network.barriers import Barriers
from fairlead.network.bounds import check_filter, check_subscriptions, check_text, size_of
from fairlead.network.client_sessions import ClientSession
from fairlead.network.cuts import Cuts
from fairlead.network.dispatch import Dispatch
from fairlead.network.durability import Durability
from fairlead.network.following import Following
from fairlead.network.guard import Guard
from fairlead.network.handshakes import Handshakes
from fairlead.network.interests import Interests
from fairlead.network.leaving import Leaving
from fairlead.network.neighbourhood import Neighbourhood
from fairlead.network.operations import Operations
from fairlead.network.outflow import Step
from fairlead.network.owned_types import OwnedTypes
from fairlead.network.peers import Peer
from fairlead.network.quenching import Quenching
from fairlead.network.retaining import Retaining
from fairlead.network.router import Router
from fairlead.network.sessions import Outgoing
from fairlead.network.settings import POLICIES
from fairlead.network.wills import Wills
from fairlead.rules import Refusal
from fairlead.security import Delegation, Principal
from fairlead.security.principals import NOBODY
from fairlead.security.rights import ACTIONS
from fairlead.security.types import DeclaredType

__all__ = ["Clientele"]

CHANGES: Final = (wire.Subscribe, wire.Unsubscribe, wire.Advertise, wire.Unadvertise)
"""Requests that change what neighbours have to know."""
ACTION_OF: Final[dict[What, str]] = {"wants": "publish", "offers": "subscribe"}
"""By what a client asks, the action that it has to be allowed."""
COMPARED_AT_ONCE: Final = 20_000
"""The number of routing entries compared in one turn to answer producers whether there are subscribers."""


class Clientele:
    """The connected clients of a broker, and their requests. `questions` answer `ReportRequest` by its subject."""

    def __init__(
        self,
        broker: Broker,
        life: str,
        outgoing: Outgoing,
        *,
        clients: dict[str, ClientSession],
        router: Router,
        dispatch: Dispatch,
        barriers: Barriers,
        cuts: Cuts,
        handshakes: Handshakes,
        interests: Interests,
        leaving: Leaving,
        operations: Operations,
        neighbourhood: Neighbourhood,
        durability: Durability,
        retaining: Retaining,
        wills: Wills,
        following: Following,
        is_logged: bool,
        guard: Guard,
        types: OwnedTypes,
        quenching: Quenching,
        questions: dict[str, Callable[[str], Any]],
    ) -> None:
        self._broker, self._life, self._outgoing, self._clients = broker, life, outgoing, clients
        self._router, self._dispatch, self._barriers, self._cuts = router, dispatch, barriers, cuts
        self._handshakes, self._interests, self._neighbourhood = handshakes, interests, neighbourhood
        self._durability, self._is_logged, self._questions = durability, is_logged, questions
        self._leaving, self._operations, self._guard, self._wills = leaving, operations, guard, wills
        self._types, self._following = types, following
        self._retaining = retaining
        self.principal_of: Callable[[str, int], Principal] = lambda authorization, now: NOBODY
        """The principal of credentials that a client shows later; NotAuthenticated. The driver's to say."""
        self.send_request: Callable[[ClientSession, bytes, int], bool] = lambda session, packed, now: False
        """Send a request on; False: nobody listens. Admission's to do."""
        self.quenching = quenching
        guard.decided.append(self.ask_anew)
        self._named = 0
        self._version = 0
        self._unsure: dict[tuple[ClientSession, str], None] = {}
        """The producers that may have to learn that there are subscribers now, or none any longer."""

    # -- connections -------------------------------------------------------------------------------------------

    def greet(self, peer: Peer, hello: wire.Hello, principal: Principal, now: int) -> ClientSession:
        """Accept a client's connection. ProtocolError if the client is refused."""
        clients, clients_max = self._clients, self._outgoing.limits.clients
        if hello.policy and hello.policy not in POLICIES:
            raise ProtocolError(
                f"no policy for slow clients: {hello.policy!r}; there are {', '.join(POLICIES)}"
            )
        self._handshakes.check_client(hello)
        name = hello.name
        self._operations.check(name)
        if not name:
            self._named += 1
            name = f"{self._broker.name}-{self._life[:8]}-{self._named}"
        try:
            name = self._guard.name_for(name, principal, now, is_made_up=hello.is_made_up or not hello.name)
        except Forbidden as error:
            raise ProtocolError(str(error)) from None
        self._following.check(name, hello.connection)
        # A client that comes back under its name replaces its own connection.
        if name not in clients and len(clients) >= clients_max:
            raise ProtocolError(f"there are {clients_max:,} clients already")
        if name in clients:
            self._wills.revoke(clients[name], now)  # it is not lost
            clients[name].end(f"another connection has taken over the name {name!r}", is_final=True)
        session = ClientSession(
            self._outgoing,
            peer,
            name,
            hello.policy,
            identities=self._broker.identities,
            on_lost=self.lost,
        )
        session.version, session.opened_as = (
            wire.agreed_version(hello.version, hello.oldest),
            hello.connection,
        )
        clients[name] = session
        self._guard.bind(session.client, principal, now)
        self._leaving.welcome(session)
        self._broker.handle(calls.Join(session.client), 0)
        try:
            self._wills.begin(session, hello.will, hello.will_delay, now)
        except ProtocolError:
            session.lost()
            raise
        session.tell(self._handshakes.welcome_client(name, hello))
        return session

    def lost(self, session: ClientSession) -> None:
        """A connection has ended, and the client with it."""
        session.outflow.on(Step.LOSE)
        self._outgoing.backpressure.unblock(session)
        self._wills.lost(session, self._guard.now)
        for durable in list(session.durables.values()):
            self._durability.detach(durable, session)
        if (tracer := self._outgoing.tracing.tracer) is not None:
            tracer.unsubscribed(session.client)
        self._clients.pop(session.name, None)
        self._retaining.end(session.client)
        self._guard.count(session, self._guard.now)
        self._guard.unbind(session.client)
        self._leaving.begin(session.client)

    # -- requests ----------------------------------------------------------------------------------------------

    def prepare(self, session: ClientSession, message: wire.Control, now: int) -> bool:
        """Whether a request takes few steps now; False: the turn is over, and the request continues in the next
        one."""
        if not isinstance(message, CHANGES):
            return True
        filters: list[Filter] = []
        try:
            if isinstance(message, wire.Subscribe | wire.Advertise):
                action = "subscribe" if isinstance(message, wire.Subscribe) else "advertise"
                requested = self._read(message.filter)
                # What it is granted is what is installed, and related to others.
                granted = self._broker.seam.grant(session.client, action, requested, now)
                filters += [] if isinstance(granted, Refusal) else [granted]
            return self._interests.prepare(filters)
        except FairleadError:
            return True  # it is refused when it is handled

    def handle(self, session: ClientSession, message: wire.Control, now: int) -> None:
        """Handle a client's message. ProtocolError if the connection has to end."""
        handler = self._HANDLERS.get(type(message))
        if handler is None:
            raise ProtocolError(f"clients do not send {type(message).__name__}")
        try:
            handler(self, session, message, now)
        except ProtocolError:
            raise
        except Exception as error:
            session.answer_error(getattr(message, "number", 0), error)

    def _subscribe(self, session: ClientSession, message: wire.Subscribe, now: int) -> None:
        if len(message.durable.encode()) > wire.NAME_MAX:
            raise ValueRefused(f"the name of a durable subscriber has at most {wire.NAME_MAX} bytes")
        if not message.durable.isprintable():
            raise ValueRefused("the name of a durable subscriber has printable characters only")
        check_subscriptions(session, self._broker, self._outgoing.limits)
        self._guard.check_subscriptions(session, now)
        filter = self._filter(session, message.filter, now)
        self._router.look_at(filter)
        if message.durable and self._is_logged:
            self._guard.check_durable(session, message.durable, now)
        self._guard.granted(session.client, "subscribe", filter, now)
        self._offer(session, message, filter, now)
        if message.durable or message.since is not None or message.ordered:
            self._durability.subscribe(session, message, filter, now)
        else:
            changes = message.instead == message.id
            wanted = message.retained and not changes
            recall = self._retaining.begin(session, message.id, message.filter, wanted=wanted)
            call = calls.Change if changes else calls.Subscribe
            self._interests.call(call(session.client, message.id, filter), now)
            self._barriers.answer(session, message.number, patient=False, recall=recall)
            if (tracer := self._outgoing.tracing.tracer) is not None:
                if changes:
                    tracer.unsubscribed(session.client, message.id)
                tracer.subscribed(session.client, message.id, filter)
        if not message.durable:
            self._hold(session, "subscription", message, filter)

    def _offer(self, session: ClientSession, message: wire.Subscribe, filter: Filter, now: int) -> None:
        """Tell a subscriber the channels of what it may get; QualityRefused where they offer too little."""
        seam, visible = self._broker.seam, self._guard.visible(session.client, filter, now)
        if message.want:
            check_offer(
                seam.channels,
                visible,
                quality_of(message.want),
                self._broker.catalogue.schema,
                is_logged=self._is_logged,
                is_total=message.ordered,
            )
        if (seam.channels.arrange or seam.channels.expect) and session.version >= wire.OFFERED_SINCE:
            session.tell(wire.Offered(message.id, seam.channels.within(visible)))

    def _hold(
        self,
        session: ClientSession,
        kind: str,
        message: wire.Subscribe | wire.Advertise | wire.Listen | wire.Discover,
        filter: Filter,
    ) -> None:
        """Count a filter that ends with the connection in the budget of memory."""
        own = self._broker.clients[session.client]
        held = own.advertisements if kind == "advertisement" else own.subscriptions
        in_effect = filter if kind == "listen" else held.by_id.get(message.id, filter)
        size = size_of(message.filter, filter) + self._interests.relations_bytes(in_effect)
        session.hold_filter(kind, message.id, size)
        self._outgoing.memory.grow(size)

    def _filter(self, session: ClientSession, text: str, now: int) -> Filter:
        """A client's filter; Forbidden or ValueRefused where it is too large."""
        self._guard.check_filter(session, text, now)
        return self._read(text)

    def _read(self, text: str) -> Filter:
        limits = self._outgoing.limits
        check_text(text, limits)
        filter = self._interests.filter(text)
        check_filter(filter, limits)
        return filter

    def _unsubscribe(self, session: ClientSession, message: wire.Unsubscribe, now: int) -> None:
        if message.durable:
            self._durability.unsubscribe(session, message.durable, message.id, now)
        elif (unnamed := self._durability.unnamed(session, message.id)) is not None:
            self._durability.detach(unnamed)
        else:
            self._interests.call(calls.Unsubscribe(session.client, message.id), now)
            self._retaining.end(session.client, message.id)
        if not message.durable:
            session.hold_filter("subscription", message.id)

        def done() -> None:
            if not message.durable and (tracer := self._outgoing.tracing.tracer) is not None:
                tracer.unsubscribed(session.client, message.id)
            session.tell(wire.Done(message.number))

        self._dispatch.after_sync(done)  # what came before goes to it

    def _release(self, session: ClientSession, message: wire.Release, now: int) -> None:
        if message.durable in session.durables:
            self._durability.detach(session.durables[message.durable], session)
        # What the client has accepted is not delivered again, even after a crash.
        self._dispatch.after_saving(lambda: session.tell(wire.Done(message.number)))

    def _advertise(self, session: ClientSession, message: wire.Advertise, now: int) -> None:
        check_subscriptions(session, self._broker, self._outgoing.limits)
        self._guard.check_subscriptions(session, now)
        filter = self._filter(session, message.filter, now)
        self._guard.granted(session.client, "advertise", filter, now)
        self._interests.call(calls.Advertise(session.client, message.id, filter), now)
        # A broker that is away may have a durable subscriber, which must not miss what is published now.
        self._barriers.answer(session, message.number, patient=self._is_logged)
        self._hold(session, "advertisement", message, filter)

    def _follow(self, session: ClientSession, message: wire.Follow, now: int) -> None:
        self._following.follow(session, message)

    def _unadvertise(self, session: ClientSession, message: wire.Unadvertise, now: int) -> None:
        self._interests.call(calls.Unadvertise(session.client, message.id), now)
        session.hold_filter("advertisement", message.id)
        session.tell(wire.Done(message.number))

    def _accept(self, session: ClientSession, message: wire.Accept, now: int) -> None:
        self._durability.accept(session, message.durable, message.ordinals)

    def _reject(self, session: ClientSession, message: wire.Reject, now: int) -> None:
        self._durability.reject(session, message, now)

    def _renew(self, session: ClientSession, message: wire.Renew, now: int) -> None:
        self._durability.renew(session, message, now)

    def _request(self, session: ClientSession, message: wire.Request, now: int) -> None:
        if not self.send_request(session, message.packed, now):
            raise NotThere("nobody listens")
        session.tell(wire.Done(message.number))

    def _cut(self, session: ClientSession, message: wire.Cut, now: int) -> None:
        self._cuts.ask(
            session, message.number, message.durable or self._durability.name_of(session, message.id)
        )

    def _redrive(self, session: ClientSession, message: wire.Redrive, now: int) -> None:
        answer = self._durability.redrive(session, message.durable, now)
        self._dispatch.after_sync(lambda: session.tell(wire.Response(message.number, answer)))

    def _ask(self, session: ClientSession, message: wire.ReportRequest, now: int) -> None:
        self._guard.check(session, "inspect", now)
        session.tell(wire.Response(message.number, self.answer(message.what, message.about)))

    def answer(self, what: str, about: str = "") -> Any:
        """The answer to a question about the broker itself. ValueRefused."""
        answer = self._questions.get(what)
        if answer is None:
            named = " or ".join(map(repr, self._questions))
            raise ValueRefused(f"there is no report {what!r}; there are {named}")
        return answer(about)

    def _link(self, session: ClientSession, message: wire.Link, now: int) -> None:
        self._guard.check(session, "manage", now)
        self._guard.check_address(message.url)
        self._neighbourhood.calling.ask(session, message.number, message.url, now)

    def _unlink(self, session: ClientSession, message: wire.Unlink, now: int) -> None:
        self._guard.check(session, "manage", now)
        self._neighbourhood.unlink(message.neighbour, now)
        self._dispatch.after_sync(lambda: session.tell(wire.Done(message.number)))

    def _operate(self, session: ClientSession, message: wire.Operate, now: int) -> None:
        self._guard.check(session, "manage", now)
        ended = self._operations.carry_out(session, message.action, message.name)
        session.tell(wire.Response(message.number, {"ended": ended}))

    def _authenticate(self, session: ClientSession, message: wire.Authenticate, now: int) -> None:
        self._guard.renew(session, self.principal_of(message.authorization, now), now)
        session.tell(wire.Done(message.number))

    def _delegate(self, session: ClientSession, message: wire.Delegate, now: int) -> None:
        if not message.id or len(message.id) > wire.NAME_MAX:
            raise ValueRefused(f"the id of a delegation has up to {wire.NAME_MAX} characters")
        grants: dict[str, tuple[Filter, ...]] = {
            action: tuple(self._filter(session, text, now) for text in getattr(message, action))
            for action in ACTIONS
        }
        grants["advertise"] = grants["advertise"] or grants["publish"]
        made = Delegation("", message.to, grants, message.until, message.id)
        self._guard.delegate(session, made, now)
        session.tell(wire.Done(message.number))

    def _undelegate(self, session: ClientSession, message: wire.Undelegate, now: int) -> None:
        self._guard.undelegate(session, message.by, message.id, now)
        session.tell(wire.Done(message.number))

    def _declare_type(self, session: ClientSession, message: wire.DeclareType, now: int) -> None:
        if not message.name or len(message.name.encode()) > wire.NAME_MAX:
            raise ValueRefused(f"the name of a type has up to {wire.NAME_MAX} bytes")
        for text in (*message.subscribe, *message.publish, *message.form):
            self._filter(session, text, now)
        filters = tuple(message.subscribe), tuple(message.publish), tuple(message.form)
        self._types.declare(session, DeclaredType(message.name, "", *filters), now)
        self._barriers.answer(session, message.number, patient=False)

    def _remove_type(self, session: ClientSession, message: wire.RemoveType, now: int) -> None:
        self._types.remove(session, message.name, now)
        self._barriers.answer(session, message.number, patient=False)

    def granted(self, grant: calls.Grant) -> None:
        """A client, or a durable subscriber, has another filter in effect than it requested, or had."""
        self._durability.granted(grant)
        target = self._router.targets.get(grant.client)
        session = target if target is None or isinstance(target, ClientSession) else target.session
        if session is not None:
            self._guard.inform(session, grant)

    def _ping(self, session: ClientSession, message: wire.Ping, now: int) -> None:
        session.tell(wire.Done(message.number) if message.number else wire.Pong())

    def _pong(self, session: ClientSession, message: wire.Pong, now: int) -> None:
        """It is there."""

    def _bye(self, session: ClientSession, message: wire.Bye, now: int) -> None:
        self._wills.revoke(session, now)
        session.lost()

    # -- whether there are subscribers -------------------------------------------------------------------------

    def ask_anew(self, now: int) -> None:
        """The rights of clients have changed: what they have asked about is what they may learn of now."""
        for session in self._clients.values():
            for id, (requested, heard, anyone) in [*session.listens.items()]:
                filter = self._guard.visible(session.client, requested, now, "publish")
                if filter != heard:
                    session.listens[id] = (requested, filter, anyone)
                    self._unsure[session, id] = None
            for id, (what, requested, _, answer) in [*session.discoveries.items()]:
                asked = self._guard.visible(session.client, requested, now, ACTION_OF[what])
                session.discoveries[id] = what, requested, asked, answer
                self._unsure[session, id] = None  # hidden attributes may be others, too
            self.quenching.end(session)

    def _listen(self, session: ClientSession, message: wire.Listen, now: int) -> None:
        if message.filter:
            requested = self._filter(session, message.filter, now)
            filter = self._guard.listened(session, requested, now)
            session.listens[message.id] = (requested, filter, False)
            self._tell_listening(session, message.id, first=True)
            self._hold(session, "listen", message, filter)
        else:
            session.listens.pop(message.id, None)
            session.hold_filter("listen", message.id)
        session.tell(wire.Done(message.number))

    def tick(self) -> None:
        """From time to time, if something has changed: notify producers whether there are subscribers."""
        left = COMPARED_AT_ONCE
        if self._version != self._router.version:
            self._version = self._router.version
            for session in self._clients.values():
                self._unsure.update(((session, id), None) for id in (*session.listens, *session.discoveries))
        while self._unsure and left > 0:
            session, id = next(iter(self._unsure))
            del self._unsure[session, id]
            if id in session.listens and not session.ended:
                self._tell_listening(session, id)
            elif id in session.discoveries and not session.ended:
                self._tell_discovered(session, id)
            left -= sum(map(len, self._broker.tables)) + 1

    def _tell_listening(self, session: ClientSession, id: str, *, first: bool = False) -> None:
        requested, filter, before = session.listens[id]
        anyone = self.quenching.listeners.listen(session.client, filter)
        session.listens[id] = (requested, filter, anyone)
        if first or anyone != before:
            session.tell(wire.Listening(id, anyone))

    def _quench(self, session: ClientSession, message: wire.Quench, now: int) -> None:
        filter = self._guard.listened(session, self._filter(session, message.filter, now), now)
        is_quenched = self.quenching.ask(session, message.id, filter, now)
        session.tell(wire.Response(message.number, is_quenched))

    def _awake(self, session: ClientSession, message: wire.Awake, now: int) -> None:
        self.quenching.awake(session, message.id)

    # -- what others want, and what they offer -----------------------------------------------------------------

    def _discover(self, session: ClientSession, message: wire.Discover, now: int) -> None:
        what = check_what(message.what)
        if message.id and not message.filter:
            session.discoveries.pop(message.id, None)
            session.hold_filter("discovery", message.id)
            session.tell(wire.Done(message.number))
            return
        filter = self._filter(session, message.filter, now)
        asked = self._guard.listened(session, filter, now, ACTION_OF[what])
        answer = self._discovered(session, what, asked)
        if message.id:
            session.discoveries[message.id] = what, filter, asked, answer
            self._hold(session, "discovery", message, asked)
        if message.number:
            session.tell(wire.Response(message.number, answer.to_json()))
        else:  # asked again by a client that has reconnected
            session.tell(wire.Discovered(message.id, answer.to_json()))

    def _discovered(self, session: ClientSession, what: What, asked: Filter) -> Discovered:
        broker, discovery = self._broker, Discovery(asked, self._broker.catalogue.schema)
        is_known = what == "wants" or broker.settings.advertisements is not None
        if self.quenching.listeners.are_unknown:
            discovery.assume()
        elif is_known:
            self._look_for(session, what, discovery)
        return discovery.answer(known=is_known)

    def _look_for(self, session: ClientSession, what: What, discovery: Discovery) -> None:
        """Take the entries of all others into account."""
        seam = self._broker.seam
        # A subscriber may not learn from what others offer what is in attributes that it may not read.
        hidden = seam.hidden(session.client) if what == "offers" else frozenset()
        for interest, destination in self._broker.entries if what == "wants" else self._broker.advertisements:
            if destination == session.client or (
                what == "wants" and not seam.reaches(session.client, interest.filter)
            ):
                continue
            filter = seam.undeclare(interest.filter)
            told = silent_about(filter, hidden)
            # A client's own entry is what it asked for; that of a neighbour may stand for several.
            is_exact = destination not in self._broker.links and told == filter
            if not discovery.add(told, exact=is_exact):
                return

    def _tell_discovered(self, session: ClientSession, id: str) -> None:
        what, requested, asked, before = session.discoveries[id]
        answer = self._discovered(session, what, asked)
        if answer != before:
            session.discoveries[id] = what, requested, asked, answer
            session.tell(wire.Discovered(id, answer.to_json()))

    _HANDLERS: Final[dict[type, Callable[[Any, ClientSession, Any, int], None]]] = {
        wire.Subscribe: _subscribe,
        wire.Unsubscribe: _unsubscribe,
        wire.Release: _release,
        wire.Advertise: _advertise,
        wire.Follow: _follow,
        wire.Unadvertise: _unadvertise,
        wire.Accept: _accept,
        wire.Reject: _reject,
        wire.Renew: _renew,
        wire.Redrive: _redrive,
        wire.Cut: _cut,
        wire.Request: _request,
        wire.Listen: _listen,
        wire.Discover: _discover,
        wire.Quench: _quench,
        wire.Awake: _awake,
        wire.ReportRequest: _ask,
        wire.Authenticate: _authenticate,
        wire.Delegate: _delegate,
        wire.Undelegate: _undelegate,
        wire.DeclareType: _declare_type,
        wire.RemoveType: _remove_type,
        wire.Operate: _operate,
        wire.Link: _link,
        wire.Unlink: _unlink,
        wire.Ping: _ping,
        wire.Pong: _pong,
        wire.Bye: _bye,
    }
