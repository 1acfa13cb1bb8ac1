"""Serves HTTP on the event loop of a running broker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from fairlead.console.gateway import PEER, Gateway, HttpLimits
from fairlead.console.problems import Problem
from fairlead.errors import NetworkError
from fairlead.network.memory import Holder
from fairlead.network.server import Server
from fairlead.network.settings import Address, http_url

__all__ = ["Serving", "listen", "serve"]

quiet_log: Final = logging.getLogger("uvicorn.error.websockets")
quiet_log.setLevel(logging.WARNING)  # without an access log, nobody is told who connects

REFUSAL: Final = (
    "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: text/plain\r\n"
    "content-length: {length}\r\n\r\n{reason}"
)

TIMEOUT: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
VERSION: Final = "13"
"""The version of WebSockets."""
HEALTH_CONNECTIONS: Final = 100
"""The number of connections that may ask for health and metrics at once, at a listener of their own."""


@dataclass(frozen=True, slots=True)
class Serving:
    """HTTP as it is served: where, and by what."""

    url: str
    port: int
    gateway: Gateway
    health_port: int | None = None
    """The port at which health and metrics are served by themselves."""


@contextlib.asynccontextmanager
async def serve(
    server: Server, address: Address, limits: HttpLimits | None = None, health: Address | None = None
) -> AsyncIterator[Serving]:
    """Serve HTTP for a broker that has been started, until the context is left; leave it before the broker stops.

    A secure address is served with the broker's certificate. Health and metrics are served at the address
    `health`, too: a listener of their own responds whatever happens at the other. NetworkError if that cannot be.
    """
    gateway = Gateway(server, limits)
    async with contextlib.AsyncExitStack() as stack:
        checked = None
        if health is not None:
            most = replace(gateway.limits, connections=HEALTH_CONNECTIONS)
            checked = await stack.enter_async_context(_listening(server, gateway.health, health, most))
        http = await stack.enter_async_context(_listening(server, gateway.app, address, gateway.limits))
        server.beside = lambda: len(http.server_state.connections)
        holders = partial(_holders, http)
        server.node.memory.add(holders)
        try:
            url = http_url(address._replace(port=http.port))
            yield Serving(url, http.port, gateway, None if checked is None else checked.port)
        finally:
            gateway.close()
            server.node.memory.remove(holders)
            server.beside = lambda: 0


def _holders(http: _Uvicorn) -> Iterator[Holder]:
    """The connections over HTTP, with what they do not read; what they send is bounded by uvicorn."""
    for connection in list(http.server_state.connections):
        transport = connection.transport
        if transport is not None and not transport.is_closing():
            size = transport.get_write_buffer_size()
            yield Holder("a connection over HTTP", size, partial(_abort, transport))


def _abort(transport: asyncio.Transport, reason: str) -> None:
    transport.abort()


@contextlib.asynccontextmanager
async def _listening(
    server: Server, app: Any, address: Address, limits: HttpLimits
) -> AsyncIterator[_Uvicorn]:
    """Serve an application at an address, until the context is left."""
    config = uvicorn.Config(
        _unambiguous(app),
        http=_protocol_of(server, limits),
        ws=_WebSocket,
        ws_max_size=limits.message_bytes,
        ws_ping_interval=limits.ping_s,
        ws_ping_timeout=limits.ping_s,
        ws_per_message_deflate=False,  # nothing has to be inflated
        lifespan="off",
        log_config=None,
        access_log=server.settings.access_log,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=1,
    )
    config.load()
    if address.secure:
        if server.settings.tls is None:
            raise NetworkError(
                f"HTTP at {http_url(address)} is to be secure", hint="give the broker a certificate: [tls]"
            )
        config.ssl = server.tls_context()
    listening = listen(address)
    http = _Uvicorn(config, listening, server.settings.limits.handshake_seconds)
    serving = asyncio.create_task(http.serve(sockets=[listening]))
    try:
        await http.begun.wait()
        if not http.started:
            await serving
        yield http
    finally:
        http.should_exit = True
        await serving


def _unambiguous(app: Any) -> Any:
    """An application behind a look at how a request says where it ends.

    A proxy and a server that believe one of two lengths each see different requests on one connection.
    """

    async def look(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            names = [name for name, _ in scope["headers"]]
            if b"content-length" in names and b"transfer-encoding" in names:
                problem = Problem(
                    400,
                    "a request has a Content-Length or a Transfer-Encoding",
                    headers={"Connection": "close"},
                )
                await problem.response()(scope, receive, send)
                return
        await app(scope, receive, send)

    return look


def _protocol_of(server: Server, limits: HttpLimits) -> type[H11Protocol]:
    """HTTP for a broker whose last open files are reserved for its log; headers come in time, or not at all."""

    class Protocol(H11Protocol):
        _headers: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.app_state = {**self.app_state, PEER: transport.get_extra_info("peercert")}
            self._headers = self.loop.call_later(limits.headers_s, self._give_up)
            if reason := server.why_crowded():
                # Before any request: a silent connection takes a file, too.
                transport.write(REFUSAL.format(length=len(reason), reason=reason).encode())
                transport.close()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._stop_waiting()
            elif self._headers is None and self.conn.trailing_data[0]:
                self._headers = self.loop.call_later(limits.headers_s, self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _stop_waiting(self) -> None:
            if self._headers is not None:
                self._headers.cancel()
                self._headers = None

        def _give_up(self) -> None:
            """The headers of a request have not come in time."""
            self._headers = None
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                if self.conn.trailing_data[0]:
                    self.transport.write(TIMEOUT)
                self.transport.close()

    return Protocol


class _WebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, with care for clients that do not read, and for those of before RFC 6455."""

    def __init__(self, config: uvicorn.Config, *others: Any, **named: Any) -> None:
        super().__init__(config, *others, **named)
        if not config.access_log:
            self.logger = quiet_log

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # a client that does not read gets no pongs either: they would pile up

    def handle_connect(self, event: Request) -> None:
        if event.headers.get("Sec-WebSocket-Version") == VERSION:
            super().handle_connect(event)
            return
        refusal = self.conn.reject(426, f"version {VERSION} of WebSockets is spoken here")
        refusal.headers["Sec-WebSocket-Version"] = VERSION  # RFC 6455, 4.4
        self.conn.send_response(refusal)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.handshake_complete = self.close_sent = True
        self.transport.close()


class _Uvicorn(uvicorn.Server):
    """uvicorn as a guest on a loop that is not its own, with a limit for TLS handshakes."""

    def __init__(self, config: uvicorn.Config, listening: socket.socket, handshake_seconds: float) -> None:
        super().__init__(config)
        self.port = listening.getsockname()[1]
        self.begun = asyncio.Event()
        self._handshake_seconds = handshake_seconds

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the broker's."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen as uvicorn does, which passes no limit for handshakes on to the loop."""
        config = self.config
        protocol: Any = config.http_protocol_class
        factory = partial(
            protocol, config=config, server_state=self.server_state, app_state=self.lifespan.state
        )
        limit = None if config.ssl is None else self._handshake_seconds
        try:
            self.servers = [
                await asyncio.get_running_loop().create_server(
                    factory, sock=each, ssl=config.ssl, backlog=config.backlog, ssl_handshake_timeout=limit
                )
                for each in sockets or ()
            ]
            self.started = True
        finally:
            self.begun.set()


def listen(address: Address) -> socket.socket:
    """A socket that listens at an address. NetworkError."""
    try:
        [(family, *_, place), *_] = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        return socket.create_server(place[:2], family=family, backlog=1_024)
    except OSError as error:
        raise NetworkError(f"cannot serve HTTP at {http_url(address)}: {error.strerror or error}") from None
