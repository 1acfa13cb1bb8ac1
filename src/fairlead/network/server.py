"""Sockets, timers and the disk: drives a node.

One event loop does everything but syncing the log, which a thread does: while the disk is busy, more comes in,
and the next sync makes all of it safe at once (group commit).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import ssl
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from fairlead.errors import FairleadError, LogFailed, LogFull, NetworkError, ProtocolError, ValueRefused
from fairlead.log.identities import Written
from fairlead.model import Notification
from fairlead.network import wire
from fairlead.network.authentication import Authentication
from fairlead.network.contexts import (
    Refusals,
    client_context,
    load_certificates,
    names_in,
    server_context,
)
from fairlead.network.files import room_for_connections
from fairlead.network.histograms import Histogram
from fairlead.network.interpreter import Settled, prepare
from fairlead.network.ledger import RESERVE_BYTES, Ledger, Remember
from fairlead.network.link_sessions import LinkSession
from fairlead.network.memory import Holder
from fairlead.network.node import Node
from fairlead.network.routed import RouteSpans
from fairlead.network.sessions import Session
from fairlead.network.settings import Address, BrokerSettings
from fairlead.network.tracing import DIRECTORY, SWITCH, Tracer, run_after, sample_of
from fairlead.network.turns import Turn
from fairlead.security import Principal
from fairlead.security.delegations import Delegations
from fairlead.security.types import DeclaredTypes
from fairlead.telemetry import Spans

if TYPE_CHECKING:
    from fairlead.network.hosting import Hosting
    from fairlead.network.scoping import ScopeChanges
    from fairlead.network.seating import Seating

__all__ = ["Server", "run"]

log: Final = logging.getLogger(__name__)

SILENT_S: Final = 15.0
"""After so long without a word from a neighbour its connection counts as dead; it is asked at a third of that."""
UNREAD_S: Final = 1.0
"""The interval at which one that is not read from is told that somebody is there."""
HOUSEKEEPING_S: Final = 0.25
"""The interval at which a node is looked after (`sessions.STUCK_TICKS` counts on that)."""
LINGER_S: Final = 5.0
"""The time a connection that has ended may take to send what was written."""
ACCEPT_TURNS: Final = 5
"""The turns of the event loop in which a connection that was accepted is made."""
CLOSE_S: Final = 1.0
"""The time a broker that stops waits for the last frames of its connections to leave."""
END_S: Final = 5.0
"""The time it waits for its own tasks, which were cancelled, to end."""
ROOM_S: Final = 0.1
"""The time after which a full disk is tried again."""
SAVE_S: Final = 1.0
RETAIN_S: Final = 10.0
BACKOFF_S: Final = (0.05, 5.0)
KEEPALIVE_S: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}
UNREACHED_S: Final = 3.0
"""The time a neighbour may be away before that is said."""
EXPOSED: Final = (
    "THIS BROKER IS OPEN TO EVERYBODY: it listens beyond this machine and has no access policy. Every program that"
    " reaches it may publish, subscribe and manage it. Give it [security] policy, or --insecure if that is meant"
)
EVERYWHERE: Final = ("0.0.0.0", "::")
WORDLESS: Final = "it ends the connection without a word: it may speak TLS, or want a certificate"


def micros() -> int:
    """Now, in microseconds since 1970."""
    return time.time_ns() // 1_000


class Connection(asyncio.Protocol):
    """One socket, on either side."""

    def __init__(self, server: Server, url: str = "") -> None:
        self.server, self.url = server, url
        self.session: Session | None = None
        """While the connection lasts. Then neither holds the other, so that both are freed at once."""
        self.is_welcome = False
        """Whether it ever had a session."""
        self.last_read = self.last_ping = server.loop.time()
        self.is_read = True
        self.closed: asyncio.Future[None] = server.loop.create_future()
        self.reason = ""
        """Why it has ended before anybody was welcomed."""
        self.is_refused = False
        """Whether one side does not want the other; otherwise it may be as good as away."""
        self._frames = wire.Frames(server.node.limits.frame_bytes)
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None

    # -- what the node asks of its peer --

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def buffered(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def close(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            # Who does not read does not keep it open.
            self._lingering = self.server.loop.call_later(LINGER_S, self.abort)

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            self.is_read = False

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self.is_read, self.last_read = True, self.server.loop.time()

    def abort(self) -> None:
        """End it without waiting for what was written."""
        if self._transport is not None:
            self._transport.abort()

    # -- what the loop says --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast(asyncio.Transport, transport)  # uvloop's are no subclasses
        if self.server.is_stopped:  # accepted before, made only now
            made.abort()
            return
        made.set_write_buffer_limits(high=self.server.node.limits.buffer_bytes // 2)
        _keep_alive(made)
        self.server.connections.add(self)
        self._deadline = self.server.loop.call_later(
            self.server.node.limits.handshake_seconds, self._too_late
        )
        if not self.url and (reason := self.server.why_crowded()):
            self._bye(reason)
        if self.url:
            hello = wire.control(self.server.node.hello(self.server.node.calling.calls.get(self.url, "")))
            self.write(wire.checked(hello))

    @property
    def holder(self) -> Holder:
        """The memory that this connection uses."""
        session = self.session
        held = self.buffered() if session is None else session.held_bytes
        return Holder(
            "a connection without a name" if session is None else str(session),
            held + self._frames.waiting,
            self._evict,
        )

    def _evict(self, reason: str) -> None:
        """End it and free what it holds at once, whether or not it reads."""
        session = self.session
        if session is not None:
            session.end(reason, is_final=True)
        self.abort()

    def data_received(self, data: bytes) -> None:
        self.server.node.memory.grow(len(data))
        self.last_read = self.server.loop.time()
        frames = self._frames.feed(data)
        if self.session is None:
            try:
                first = next(frames, None)
                if first is None:
                    return
                session = self._introduced(*first)
            except FairleadError as error:
                self.is_refused = True
                self._bye(str(error))
                return
            if session is None:
                return
            self._welcomed(session)
        assert self.session is not None
        self.server.node.receive(self.session, frames, micros())
        self.server.schedule()

    def _introduced(self, kind: int, payload: bytes) -> Session | None:
        if kind != wire.CONTROL:
            raise ProtocolError("a connection begins with Hello")
        node = self.server.node
        match wire.parse_control(payload):
            case wire.Hello() as hello if not self.url:
                if hello.role == "broker":
                    self._check_name(hello.name)
                return self._authenticated(replace(hello, url=self._seen_from_here(hello.url)))
            case wire.Welcome() as welcome if self.url:
                self._check_name(welcome.broker)
                return node.welcomed(self, self.url, welcome, micros())
            case wire.Bye(reason, broker):
                self.reason, self.is_refused = reason, True
                if broker:
                    node.calling.answers(self.url, broker)
                self.close()
                return None
            case _:
                raise ProtocolError("a connection begins with Hello")

    def _authenticated(self, hello: wire.Hello) -> Session | None:
        """The session of a client or broker whose credentials are right; None while a password is checked."""
        authentication = self.server.authentication
        certificate = None if self._transport is None else self._transport.get_extra_info("peercert")
        if not authentication.is_slow(hello.authorization):
            principal = authentication.principal(hello.authorization, certificate)
            return self.server.node.greet(self, hello, micros(), principal)
        self.pause()
        checking = authentication.check_beside(hello.authorization)
        checking.add_done_callback(lambda done: self._checked(hello, done))
        return None

    def _checked(self, hello: wire.Hello, done: asyncio.Future[Principal]) -> None:
        """A password has been checked: go on with the session, and with what came behind the greeting."""
        if self._transport is None or self._transport.is_closing() or done.cancelled():
            return
        try:
            self._welcomed(self.server.node.greet(self, hello, micros(), done.result()))
        except FairleadError as error:
            self.is_refused = True
            self._bye(str(error))
            return
        self.resume()
        self.data_received(b"")

    def _welcomed(self, session: Session) -> None:
        self.session = session
        if self._deadline is not None:
            self._deadline.cancel()
        self.is_welcome = True
        self._frames.only_checked = isinstance(session, LinkSession)
        log.info("%s is connected", session)

    def _check_name(self, name: str) -> None:
        """ProtocolError, if a broker shows a certificate that is not for its name, where it has to be."""
        tls = self.server.settings.tls
        if tls is None or not tls.names or self._transport is None:
            return
        shown = names_in(self._transport.get_extra_info("peercert"))
        if name not in shown:
            whom = f"for {', '.join(sorted(shown))}" if shown else "for nobody"
            reason = f"a broker {name!r} with a certificate {whom} is not taken in"
            if not self.url:  # whom this side has called is named there
                host = self._transport.get_extra_info("peername")[0]
                self.server.refusals.tell(f"{reason} (from {host})")
            raise ProtocolError(reason)

    def _seen_from_here(self, url: str) -> str:
        """The address at which a broker that called can be called: one that listens everywhere does so where
        it called from.
        """
        if not url or self._transport is None:
            return url
        address = Address.parse(url)
        if address.host not in EVERYWHERE:
            return url
        return str(address._replace(host=self._transport.get_extra_info("peername")[0]))

    def _too_late(self) -> None:
        self._bye("it accepts connections, but sends nothing" if self.url else "there was no handshake")

    def _bye(self, reason: str) -> None:
        self.reason = reason
        log.info("a connection is refused: %s", reason)
        self.write(wire.control(wire.Bye(reason, self.server.node.name)))
        self.close()

    def resume_writing(self) -> None:
        if self.session is not None and not self.session.ended:
            self.server.node.drained(self.session)
            self.server.schedule()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)
        for timer in (self._deadline, self._lingering):
            if timer is not None:
                timer.cancel()
        session, self.session = self.session, None
        if session is not None:
            log.info("%s has disconnected", session)
            self.server.node.lost(session)
            self.server.schedule()
        self._transport = None
        if not self.closed.done():
            self.closed.set_result(None)


class Server:
    """A running broker. `start` and `stop` it on an event loop; `port` is where it listens."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.connections: set[Connection] = set()
        self.refusals = Refusals()
        self.authentication: Authentication
        self.beside: Callable[[], int] = lambda: 0
        """The number of connections that others have on this loop: each is an open file, too."""
        self.node: Node
        self.loop: asyncio.AbstractEventLoop
        self.failure: asyncio.Future[FairleadError]
        """Done when the broker cannot go on, and why."""
        self._contexts: list[ssl.SSLContext] = []
        """Those of its listeners: new connections use the certificates that are in them."""
        self._listening: asyncio.Server | None = None
        self._scheduled = False
        self._full = self._reported_full = self._reported_crowded = False
        self._spans: Spans | None = None
        self._syncing: asyncio.Future[int] | None = None
        self._writing: asyncio.Future[Written | None] | None = None
        self.sync_seconds, self.acknowledgement_seconds = Histogram(), Histogram()
        """The durations of syncs of the log, and of the wait of the first publication of each until it was
        acknowledged."""
        self._sync_began = 0.0
        self._waits_since: float | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self.is_stopped = False
        """Whether `stop` was called: nothing new begins."""
        self._read_at: tuple[int, ...] = self._changed_at()
        """When the files had been changed that the policy and the keys were read from."""

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._listening is not None
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """The URL at which the broker can be reached."""
        return str(self.settings.listen._replace(port=self.port))

    @property
    def is_listening(self) -> bool:
        """Whether new connections are taken."""
        return self._listening is not None and self._listening.is_serving()

    async def start(self) -> None:
        """Open the log, listen, and call the neighbours; NetworkError if that cannot be."""
        self.loop = asyncio.get_running_loop()
        self.failure = self.loop.create_future()
        settings = self.settings
        self.authentication = Authentication(settings.security, settings.name, self.loop, micros)
        context = self.tls_context()
        if settings.spans is not None:
            self._spans = Spans.sent_to(settings.spans, "fairlead-broker", settings.name)
        ledger = None
        if settings.data is not None:
            ledger = Ledger(
                settings.data,
                broker=settings.name,
                now=micros(),
                remember=Remember(settings.remember_most, round(settings.remember_seconds * 1e6)),
                reserve_bytes=RESERVE_BYTES,
            )
        try:
            broker = settings.broker()
            changes = seating = None
            if settings.scopes is not None:
                from fairlead.network.scoping import scope_changes
                from fairlead.network.seating import seating_of

                changes = scope_changes(settings, broker.seam.rules)
                seating = seating_of(settings, changes)
            hosting = None
            if settings.name in settings.detectors:
                from fairlead.network.hosting import hosting_of

                hosting = hosting_of(settings, micros)
            self.node = Node(
                broker,
                ledger,
                settings.limits,
                life=uuid.uuid4().hex,
                now=micros(),
                turn=Turn(time.perf_counter),
            )
            self._listening = await self.loop.create_server(
                lambda: Connection(self),
                settings.listen.host,
                settings.listen.port,
                ssl=context,
                ssl_handshake_timeout=None if context is None else settings.limits.handshake_seconds,
                backlog=1_024,
            )
        except OSError as error:
            if ledger is not None:
                ledger.close()
            if isinstance(error, FairleadError):
                raise
            raise NetworkError(f"cannot listen at {settings.listen}: {error.strerror or error}") from None
        self.node.handshakes.url = self.url
        if self._spans is not None:
            self.node.once.spans = RouteSpans(settings.name, self._spans, micros)
        self._guard()
        if settings.neighbours is not None:
            self.node.keep_links(settings.neighbours, micros())
        for url in settings.links:
            self.node.neighbourhood.call(url, settings.expects)
        self.node.calling.on_change = self._dial_all
        self._dial_all()
        self.node.memory.add(self._holders)
        self._begin(self._housekeeping())
        self._begin_roles(changes, seating, hosting)

    def _begin_roles(
        self, changes: ScopeChanges | None, seating: Seating | None, hosting: Hosting | None
    ) -> None:
        """Have the clients in this process begin that do something for the network."""
        settings, node, own = self.settings, self.node, self.authentication.own
        if changes is not None:
            from fairlead.network.scoping import follow
            from fairlead.network.seating import decide

            changed = asyncio.Event()

            def take(change: Notification) -> None:
                if changes.take(change, node.dispatch.end):
                    node.interests.redeclare(micros())
                changed.set()

            self._begin(follow(self.url, settings, changes, own, take))
            if seating is not None:
                seating.seat.end = lambda: node.dispatch.end
                seating.seat.changed = lambda: node.interests.redeclare(micros())
                self._begin(decide(self.url, settings, seating, own, changed=changed, now=micros))
        if hosting is not None:
            node.operations.detections = hosting.status
            self._begin(hosting.run(self.url, settings, own))

    def _guard(self) -> None:
        """Have the node know by which credentials and policy it decides; say so where it does by none."""
        node, security = self.node, self.settings.security
        node.handshakes.authorization = security.own_credentials()
        node.clientele.principal_of = self.authentication.renewed
        self.authentication.on_refused = node.guard.unauthenticated
        node.operations.reload = self._reload
        node.operations.trace = self._trace
        if self.settings.data is not None and (Path(self.settings.data) / DIRECTORY / SWITCH).exists():
            self._begin_trace()
        if security.log is not None:
            node.guard.records.open(security.log)
        if node.guard.policy is not None:
            node.guard.delegations = Delegations(security.delegations)
            node.guard.declared = DeclaredTypes(security.types)
            node.guard.decide_by(node.guard.policy, micros())
        listeners = (self.settings.listen, self.settings.http, self.settings.mqtt)
        addresses = [each for each in listeners if each is not None]
        node.guard.brokers, node.guard.addresses = security.brokers, security.links
        node.guard.is_exposed = not node.guard.is_on and not all(each.is_loopback for each in addresses)
        if node.guard.is_exposed and not security.insecure:
            log.warning("%s", EXPOSED)

    def _holders(self) -> Iterator[Holder]:
        """All connections, and the clients in this process."""
        for connection in list(self.connections):
            yield connection.holder
        for session in list(self.node.clients.values()):
            if not isinstance(session.peer, Connection):
                yield Holder(str(session), session.held_bytes, partial(session.end, is_final=True))

    def tls_context(self) -> ssl.SSLContext | None:
        """The TLS of a listener of this broker; None where it has no certificate."""
        if self.settings.tls is None:
            return None
        asks = self.settings.security.policy is not None
        context = server_context(self.settings.tls, self.refusals, asks=asks)
        self._contexts.append(context)
        return context

    def _trace(self, given: str) -> None:
        """Begin a trace of a sample, over restarts, or end it."""
        if given != wire.OFF:
            sample_of(given)
        switch = self._traces / SWITCH
        if given == wire.OFF:
            switch.unlink(missing_ok=True)
            self.node.stop_tracing()
            return
        self._traces.mkdir(exist_ok=True)
        switch.write_text(given, encoding="utf-8")
        self._begin_trace()

    @property
    def _traces(self) -> Path:
        settings = self.settings
        if settings.data is None:
            raise ValueRefused("a broker without a log traces nothing: what it promises is about its log")
        if settings.scopes is not None:
            raise ValueRefused(
                "a broker with scopes is not traced: what it delivers follows from their graph, too"
            )
        return Path(settings.data) / DIRECTORY

    def _begin_trace(self) -> None:
        """Trace a run, where an operator has asked for it, now or before the broker was started anew."""
        run, path = run_after(self._traces)
        sample = sample_of((self._traces / SWITCH).read_text(encoding="utf-8"))
        self.node.trace(Tracer(self.settings.name, run, path, sample=sample, schema=self.settings.language))

    def reload(self) -> None:
        """Read the certificates, keys and the policy anew. If one of them cannot be read, nothing changes.

        Certificates are for connections from now on, the policy for all that there are.
        """
        try:
            self._reload()
        except FairleadError as error:
            log.error("the certificates are not reloaded, nor is the policy: %s", error)

    def _reload(self) -> None:
        tls, security = self.settings.tls, self.settings.security
        if tls is None and security.policy is None:
            log.warning("there is nothing to reload: this broker has no certificates and no policy")
            return
        # All of it, before anything changes.
        policy = security.read_policy(self.node.broker.catalogue.schema)
        authenticator = self.authentication.renewed_by(security)
        sealer = None if policy is None else security.sealer(policy)
        tunnel = None if policy is None else security.tunnel(policy, self.settings.name)
        authorization = security.own_credentials()
        if tls is not None:
            server_context(tls)
            for context in self._contexts:
                load_certificates(context, tls)
        self.authentication.take_keys_of(authenticator)
        self.node.handshakes.authorization = authorization
        self._read_at = self._changed_at()
        if policy is not None:
            now = micros()
            self.node.guard.delegations.read()
            self.node.guard.declared.read()
            self.node.guard.decide_by(policy, now, tunnel)
            if sealer is not None:
                self.node.guard.seal_by(sealer)
            self.node.types.read_anew()
            self.node.guard.records.note("reload", policy, now)
            self.schedule()
            log.warning("the access policy is reloaded: it is %s now", policy.fingerprint)
        if tls is not None:
            log.warning("the certificates are reloaded")

    def _changed_at(self) -> tuple[int, ...]:
        """When the files of the policy and of the keys were changed."""
        security = self.settings.security
        files = (security.policy, security.passwords, security.tokens, security.delegations, security.types)
        return tuple(_mtime(each) for each in files if each is not None)

    async def stop(self) -> None:
        """End all connections, sync the log, and close."""
        self.is_stopped = True
        for task in [*self._dialling.values(), *self._tasks]:
            task.cancel()
        if self._listening is not None:
            # What is accepted is made before the listener closes: Python 3.11 leaves the sockets of others open.
            for each in self._listening.sockets:
                self.loop.remove_reader(each.fileno())
            for _ in range(ACCEPT_TURNS):
                await asyncio.sleep(0)
            self._listening.close()
        if self._syncing is not None:
            with contextlib.suppress(FairleadError):
                await self._syncing
        if self._writing is not None:
            await asyncio.wait([self._writing])  # what comes of it is written again with the rest
        connections = list(self.connections)
        with contextlib.suppress(FairleadError):
            self.node.close(micros())
        self.node.guard.records.close()
        self.authentication.close()
        for connection in connections:
            connection.close()
        if connections:
            await asyncio.wait([connection.closed for connection in connections], timeout=CLOSE_S)
        while self.connections:  # those that were accepted meanwhile, too: no socket is left open
            for connection in list(self.connections):
                connection.abort()
            await asyncio.sleep(0)
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=END_S)  # they were cancelled above
        if self._spans is not None:
            await asyncio.to_thread(self._spans.close)

    def why_crowded(self) -> str:
        """Why no more connections are taken; nothing, while they are. It is logged once, until there is room."""
        if self.node.memory.is_exhausted:
            return "the broker's memory is used up"
        room, connections = room_for_connections(), len(self.connections) + self.beside()
        if connections <= room:
            self._reported_crowded = self._reported_crowded and connections > room - room // 10
            return ""
        reason = f"there are {room:,} connections already, as many as the system's limit of open files allows"
        if not self._reported_crowded:
            self._reported_crowded = True
            log.warning("no more connections are taken: %s (ulimit -n)", reason)
        return reason

    # -- the node's work ---------------------------------------------------------------------------------------

    def schedule(self) -> None:
        """Send what is to be sent, and sync what has to be, once this round of reading is over."""
        if not self._scheduled and not self.is_stopped:
            self._scheduled = True
            self.loop.call_soon(self._work)

    def _work(self) -> None:
        self._scheduled = False
        if self.is_stopped:
            return
        self.node.flush()
        if self.node.is_busy:
            self.schedule()
        ledger = self.node.ledger
        if ledger is None:
            return
        if self._waits_since is None and self.node.wants_sync:
            self._waits_since = self.loop.time()
        if self._syncing is not None or self._full:
            return
        if self.node.wants_sync or ledger.log.cursors.changed:
            self._sync_began, waited, self._waits_since = self.loop.time(), self._waits_since, None
            self._syncing = self.loop.run_in_executor(None, ledger.log.sync)
            self._syncing.add_done_callback(partial(self._synced, waited))

    def _synced(self, waited: float | None, done: asyncio.Future[int]) -> None:
        self._syncing = None
        self.sync_seconds.observe(self.loop.time() - self._sync_began)
        error = done.exception()
        if error is None:
            self.node.synced(done.result())
            self._reported_full = (
                self._reported_full and self.node.ledger is not None and self.node.ledger.is_full
            )
            if waited is not None:
                self.acknowledgement_seconds.observe(self.loop.time() - waited)
        elif isinstance(error, LogFull):
            if not self._reported_full:
                log.error("%s", error)
            self.node.log_is_full(error, micros())
            self._full = self._reported_full = True
            self.loop.call_later(ROOM_S, self._look_for_room)
        else:
            self._fail(error)
            return
        self.schedule()

    def _look_for_room(self) -> None:
        self._full = False
        self.schedule()

    def _fail(self, error: BaseException) -> None:
        if not self.failure.done():
            wrapped = (
                error if isinstance(error, FairleadError) else LogFailed(f"the log cannot go on: {error}")
            )
            self.failure.set_result(wrapped)

    async def _housekeeping(self) -> None:
        saved = retained = self.loop.time()
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            now = self.loop.time()
            try:
                self.node.tick(micros())
                for connection in list(self.connections):
                    self._look_after(connection, now)
                # Also while the log is being synced: where much is published, it always is.
                if now - saved >= SAVE_S:
                    saved = now
                    if self.node.guard.is_on and self._changed_at() != self._read_at:
                        self._read_at = self._changed_at()  # what is wrong is said once
                        self.reload()
                    self.authentication.look_after()
                    self.node.save(micros())
                if (ledger := self.node.ledger) is not None:
                    if now - retained >= (SAVE_S if ledger.is_full else RETAIN_S):
                        retained = now
                        self._retain(ledger)
                    if self._writing is None:
                        self._write_identities(ledger)
            except LogFull as error:
                log.error("%s", error)
            except FairleadError as error:
                self._fail(error)
            except Exception:
                log.exception("the broker's housekeeping has failed; the broker continues")
            self.schedule()

    def _write_identities(self, ledger: Ledger) -> None:
        """Have the identities that were delivered written now and then, beside the loop."""
        if ledger.begin_writing_identities(self.node.dispatch.reached, micros()):
            self._writing = self.loop.run_in_executor(None, ledger.firsts.write, micros())
            self._writing.add_done_callback(lambda done: self._identities_written(ledger, done))

    def _identities_written(self, ledger: Ledger, done: asyncio.Future[Written | None]) -> None:
        self._writing = None
        if done.cancelled() or self.is_stopped:
            return
        error = done.exception()
        if error is None:
            ledger.identities_written(done.result())
            self.schedule()
        else:
            if not ledger.firsts.has_failed:
                log.error("the identities of what was delivered cannot be written: %s", error)
            ledger.firsts.abandon()

    def _retain(self, ledger: Ledger) -> None:
        settings = self.settings
        if settings.keep_seconds is not None or settings.keep_bytes is not None:
            ledger.retain(micros(), seconds=settings.keep_seconds, max_bytes=settings.keep_bytes)
        else:
            ledger.look_for_room()

    def _look_after(self, connection: Connection, now: float) -> None:
        session = connection.session
        if session is None or session.ended:
            return
        silent, is_link = now - connection.last_read, isinstance(session, LinkSession)
        if is_link and connection.is_read and silent > SILENT_S:
            log.warning("no word from %s for %.0f s", session.name, silent)
            connection.abort()
        elif (not connection.is_read and now - connection.last_ping > UNREAD_S) or (
            is_link and silent > SILENT_S / 3 and now - connection.last_ping > SILENT_S / 6
        ):
            # Who is not listened to is not silent, and must not take us for dead either. (Clients ask themselves.)
            connection.last_ping = now
            session.tell(wire.Ping())

    # -- links -------------------------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("what the broker does beside has failed", exc_info=error)

    def _dial_all(self) -> None:
        for url in self.node.calling.calls:
            if url not in self._dialling:
                self._dialling[url] = self._begin(self._dial(url))
        for url in list(self._dialling):
            if url not in self.node.calling.calls:
                self._dialling.pop(url).cancel()

    async def _dial(self, url: str) -> None:
        """Call a broker, again and again, and stay connected."""
        least, most = BACKOFF_S
        wait, lost, told = least, self.loop.time(), ""
        calling = self.node.calling
        while True:
            name = self.node.calling.calls.get(url, "")
            if self.node.neighbourhood.is_connected(name):
                await asyncio.sleep(least)  # it has called
                continue
            reason, is_refused = await self._call(url)
            if not reason:
                wait, lost, told = least, self.loop.time(), ""
            elif is_refused:
                calling.refused(url, reason, micros())
            else:
                calling.unreached(url, reason, micros())
            self.schedule()
            # When a network is started, not all of it is there at once.
            late = is_refused or self.loop.time() - lost > UNREACHED_S
            if late and reason not in ("", told) and url in self.node.calling.calls:
                told = reason  # once, not with every call
                log.warning("%s: %s; it is called again and again", url, reason)
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, most)

    async def _call(self, url: str) -> tuple[str, bool]:
        """Call a broker once, until the connection ends; why there was none, and whether one side refused."""
        try:
            address = Address.parse(url)
            context = client_context(self.settings.tls) if address.secure else None
            _, connection = await self.loop.create_connection(
                lambda: Connection(self, url),
                address.host,
                address.port,
                ssl=context,
                ssl_handshake_timeout=None if context is None else self.settings.limits.handshake_seconds,
            )
            await asyncio.wait([connection.closed])  # a cancelled call leaves the future to `stop`
        except (OSError, FairleadError) as error:
            return _unreached(error), isinstance(error, ssl.SSLError | FairleadError)
        if connection.is_welcome:
            return "", False
        return connection.reason or WORDLESS, connection.is_refused


def _mtime(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _keep_alive(transport: asyncio.Transport) -> None:
    """Have the system find out that a machine at the other end is gone, though nobody has anything to say."""
    connected = transport.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in KEEPALIVE_S.items():
        if (option := getattr(socket, name, None)) is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, seconds)


def _unreached(error: Exception) -> str:
    """Why a broker cannot be reached, in words: the system's, where asyncio puts others in their place."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"it is not trusted: {error.verify_message}"
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "RECORD_LAYER_FAILURE"):
            return "it does not speak TLS"
        case ssl.SSLError(reason=str(reason)):
            return f"it does not take this broker: {reason.lower().replace('_', ' ')}"
        case ConnectionError(errno=int(number)):
            return f"it cannot be reached: {os.strerror(number)}"
        case OSError(strerror=str(words)):
            return f"it cannot be reached: {words}"
    return f"it cannot be reached: {error}"


def run(
    settings: BrokerSettings, ready: Callable[[Server], None], stopped: Callable[[], Coroutine[Any, Any, Any]]
) -> None:
    """Run a broker until `stopped` returns; `ready` is called when it listens."""

    async def main() -> None:
        server = Server(settings)
        await server.start()
        settling = asyncio.ensure_future(_settle(server))
        try:
            ready(server)
            stop = asyncio.ensure_future(stopped())
            await asyncio.wait([stop, server.failure], return_when=asyncio.FIRST_COMPLETED)
            if server.failure.done():
                stop.cancel()
                await asyncio.wait([stop])
                raise server.failure.result()
            stop.result()
        finally:
            settling.cancel()
            await server.stop()

    prepare()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main())


async def _settle(server: Server) -> None:
    settled = Settled()
    while True:
        await asyncio.sleep(HOUSEKEEPING_S)
        settled.look_at(len(server.node.broker.catalogue))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where there is one."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
