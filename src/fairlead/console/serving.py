"""Serves HTTP on the event loop of a running broker."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fairlead.console.gateway import Gateway, HttpLimits
from fairlead.console.websockets import WebSocketProtocol
from fairlead.errors import NetworkError
from fairlead.network.server import Server
from fairlead.network.settings import Address, http_url

__all__ = ["Serving", "serve"]

REFUSAL: Final = (
    "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: text/plain\r\n"
    "content-length: {length}\r\n\r\n{reason}"
)


@dataclass(frozen=True, slots=True)
class Serving:
    """HTTP as it is served: where, and by what."""

    url: str
    port: int
    gateway: Gateway


@contextlib.asynccontextmanager
async def serve(server: Server, address: Address, limits: HttpLimits | None = None) -> AsyncIterator[Serving]:
    """Serve HTTP for a broker that has been started, until the context is left; leave it before the broker stops.

    A secure address is served with the broker's certificate. NetworkError if that cannot be.
    """
    gateway = Gateway(server, limits)
    config = uvicorn.Config(
        gateway.app,
        http=_protocol_of(server),
        ws=WebSocketProtocol,
        lifespan="off",
        log_config=None,
        access_log=server.settings.access_log,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=gateway.limits.connections,
        timeout_graceful_shutdown=1,
    )
    config.load()
    if address.secure:
        if server.settings.tls is None:
            raise NetworkError(
                f"HTTP at {http_url(address)} is to be secure", hint="give the broker a certificate: [tls]"
            )
        config.ssl = server.tls_context()
    listening = _listen(address)
    port = listening.getsockname()[1]
    http = _Uvicorn(config)
    server.beside = lambda: len(http.server_state.connections)
    serving = asyncio.create_task(http.serve(sockets=[listening]))
    try:
        await http.begun.wait()
        if not http.started:
            await serving
        yield Serving(http_url(address._replace(port=port)), port, gateway)
    finally:
        gateway.close()
        http.should_exit = True
        await serving
        server.beside = lambda: 0


def _protocol_of(server: Server) -> type[H11Protocol]:
    """HTTP for a broker whose last open files are reserved for its log."""

    class Protocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if reason := server.why_crowded():
                # Before any request: a silent connection takes a file, too.
                transport.write(REFUSAL.format(length=len(reason), reason=reason).encode())
                transport.close()

    return Protocol


class _Uvicorn(uvicorn.Server):
    """uvicorn as a guest on a loop that is not its own."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the broker's."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.begun.set()


def _listen(address: Address) -> socket.socket:
    try:
        [(family, *_, place), *_] = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        return socket.create_server(place[:2], family=family, backlog=1_024)
    except OSError as error:
        raise NetworkError(f"cannot serve HTTP at {http_url(address)}: {error.strerror or error}") from None
