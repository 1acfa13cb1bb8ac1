"""Serves MQTT on the event loop of a running broker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from fairlead.errors import NetworkError
from fairlead.mqtt.connection import Connection
from fairlead.mqtt.mapping import Mapping
from fairlead.mqtt.sessions import Sessions
from fairlead.network.memory import Holder
from fairlead.network.server import Server
from fairlead.network.settings import TOPIC, Address, mqtt_url

__all__ = ["Listener", "Serving", "serve"]

TICK_S: Final = 1.0
CLOSE_S: Final = 1.0
"""The time for the last packets of connections to leave."""


class Listener:
    """The clients of MQTT of one broker, over whatever they are connected."""

    def __init__(self, server: Server, topic: str = TOPIC) -> None:
        self.server = server
        self.mapping = Mapping(topic)
        self.sessions = Sessions(server.node)
        self.connections: set[Connection] = set()
        self.is_closed = False
        self.packet_max = server.node.limits.frame_bytes // 2
        """The longest packet that is taken: as a notification, it has to fit into a frame."""

    def holders(self) -> Iterator[Holder]:
        """The memory of connections that have no session."""
        for connection in [*self.connections]:
            if connection.session is None:
                yield connection.holder

    async def close(self) -> None:
        """End all connections."""
        self.is_closed = True
        self.server.node.wills.close()
        connections = [*self.connections]
        for connection in connections:
            connection.stop()
        if connections:
            await asyncio.wait([each.closed for each in connections], timeout=CLOSE_S)
        while self.connections:
            for connection in [*self.connections]:
                connection.abort()
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Serving:
    """MQTT as it is served."""

    address: Address
    listener: Listener

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self.address.port

    @property
    def url(self) -> str:
        """The address at which clients connect."""
        return mqtt_url(self.address)


@contextlib.asynccontextmanager
async def serve(server: Server, address: Address) -> AsyncIterator[Serving]:
    """Serve MQTT for a broker that has been started, until the context is left; leave it before the broker stops.

    With TLS where the broker has a certificate. NetworkError if that cannot be.
    """
    listener = Listener(server, server.settings.mqtt_topic)
    context = server.tls_context()
    try:
        listening = await server.loop.create_server(
            lambda: Connection(listener),
            address.host,
            address.port,
            ssl=context,
            ssl_handshake_timeout=None if context is None else server.settings.limits.handshake_seconds,
            backlog=1_024,
        )
    except OSError as error:
        raise NetworkError(
            f"cannot serve MQTT at {address.host}:{address.port}: {error.strerror or error}"
        ) from None
    port: int = listening.sockets[0].getsockname()[1]
    others = server.beside
    server.beside = lambda: others() + len(listener.connections)
    server.node.memory.add(listener.holders)
    looking = asyncio.create_task(_look_after(listener))
    try:
        yield Serving(address._replace(port=port, secure=context is not None), listener)
    finally:
        looking.cancel()
        listening.close()
        await listener.close()
        server.node.memory.remove(listener.holders)
        server.beside = others


async def _look_after(listener: Listener) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        listener.sessions.tick()
