"""One connection of a client to its broker. A broker that sends nothing counts as dead within seconds.

Whoever calls is told why there is no connection in words that help: that the other side speaks TLS, or does not,
or wants a certificate. What cannot get better by trying again is `final`.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from typing import Final, TypeAlias, cast

from fairlead.errors import ConnectionEnded, FairleadError
from fairlead.network import wire
from fairlead.network.addresses import Address

__all__ = ["Channel", "NoChannel", "Received", "call", "wants_certificate"]

FRAME_MAX: Final = 1 << 25
"""More than any broker takes, so more than any has to deliver."""
ATTEMPT_S: Final = 5.0
"""The time a broker may take to answer a call."""
ATTEMPT_LEAST_S: Final = 1.0
"""The time it may take at least, however short the patience is."""
TICK_S: Final = 2.5
TICK_LEAST_S: Final = 0.5
ASK_TICKS, DEAD_TICKS = 2, 4
"""After so many ticks without a word the broker is asked whether it is there, and given up.

Ticks and not seconds: a process that was itself stopped, or busy, for a while has had only one of them."""
PROBE_S: Final = 2.0
CLOSE_S: Final = 2.0
"""The time the last frames may take to leave, and TLS to say goodbye, when a connection is closed."""
WORDLESS: Final = "it ends connections without a word"

Received: TypeAlias = Callable[["Channel", int, bytes], None]


class NoChannel(Exception):
    """Why there is no connection."""

    def __init__(self, reason: str, *, final: ConnectionEnded | None = None, wordless: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.final, self.wordless = reason, final, wordless


class Channel(asyncio.Protocol):
    """The socket: `received` is called with every frame, `failed` with what is wrong about one."""

    def __init__(
        self, received: Received, failed: Callable[[FairleadError], None], patience_s: float | None
    ) -> None:
        self._received, self._failed = received, failed
        # Who has little patience will not bear more silence than that.
        self._tick_s = (
            TICK_S if patience_s is None else min(TICK_S, max(TICK_LEAST_S, patience_s / DEAD_TICKS))
        )
        self._frames = wire.Frames(FRAME_MAX)
        self._ticks = 0
        self._ticking: asyncio.TimerHandle | None = None
        self._reading = True
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self.met: asyncio.Future[bool] = self._loop.create_future()
        """Done when the broker has said welcome, or the connection has ended before: whether it has."""
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.heard = self.is_silent = False
        self.error: Exception | None = None
        """The error that ended it."""
        self.reason = ""
        """Why the broker has ended it."""
        self.may_write = asyncio.Event()
        self.may_write.set()

    # -- what the loop says --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are no subclasses
        self._ticking = self._loop.call_later(self._tick_s, self._tick)

    def data_received(self, data: bytes) -> None:
        self.heard, self._ticks = True, 0
        try:
            for kind, payload in self._frames.feed(data):
                self._received(self, kind, payload)
        except FairleadError as error:
            self._failed(error)
            self.abort()

    def pause_writing(self) -> None:
        self.may_write.clear()

    def resume_writing(self) -> None:
        self.may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        if self._ticking is not None:
            self._ticking.cancel()
        self.may_write.set()
        if not self.met.done():
            self.met.set_result(False)
        if not self.closed.done():
            self.closed.set_result(None)

    def _tick(self) -> None:
        self._ticking = self._loop.call_later(self._tick_s, self._tick)
        self._ticks = self._ticks + 1 if self._reading else 0
        if not self._reading and self.may_write.is_set():
            self.write(wire.control(wire.Pong()))  # others may have to wait for this client: it is there
        if self._ticks >= DEAD_TICKS:
            self.is_silent = True
            self.abort()
        elif self._ticks == ASK_TICKS:
            self.write(wire.control(wire.Ping()))

    # -- what the client asks --

    def write(self, frames: bytes) -> None:
        """Send, some time."""
        if self.transport is not None and not self.transport.is_closing():  # uvloop raises then
            self.transport.write(frames)

    def read(self, reading: bool) -> None:
        """Read on, or nothing more for now; the broker is not to blame for that silence."""
        if self.transport is not None and reading != self._reading:
            self._reading = reading
            if reading:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def close(self) -> None:
        """End it when what was written has been sent."""
        if self.transport is not None:
            self.transport.close()

    async def ended(self, limit_s: float = CLOSE_S) -> None:
        """Wait until a connection that is closed has ended; after the limit it is aborted.

        The socket is closed only then: an event loop that stops before would leave it open.
        """
        if self.transport is not None:
            try:
                await asyncio.wait([self.closed], timeout=limit_s)
            finally:  # one who is cancelled does not wait, and leaves nothing open either
                self.abort()
            await asyncio.wait([self.closed])

    def abort(self) -> None:
        """End it at once."""
        if self.transport is not None:
            self.transport.abort()


async def call(
    address: Address,
    context: ssl.SSLContext | None,
    hello: wire.Hello,
    make: Callable[[], Channel],
    left_s: float | None,
) -> Channel:
    """A connection that the broker has accepted. NoChannel, with the reason, if there is none.

    `left_s` is how long one would wait for it, all in all.
    """
    limit = ATTEMPT_S if left_s is None else min(ATTEMPT_S, max(ATTEMPT_LEAST_S, left_s))
    channel: Channel | None = None
    try:
        async with asyncio.timeout(limit):
            loop = asyncio.get_running_loop()
            _, channel = await loop.create_connection(make, address.host, address.port, ssl=context)
            channel.write(wire.control(hello))
            is_welcome = await channel.met
    except TimeoutError:
        if channel is not None:
            channel.abort()
        raise NoChannel(
            "it does not answer" if channel is None else "it accepts connections, but sends nothing"
        ) from None
    except OSError as error:
        raise _refused(address, error) from None
    except BaseException:
        if channel is not None:
            channel.abort()
        raise
    if not is_welcome:
        raise await _ended(address, channel, context)
    return channel


async def _ended(address: Address, channel: Channel, context: ssl.SSLContext | None) -> NoChannel:
    """Why a connection has ended before anybody was welcomed."""
    if isinstance(channel.error, ssl.SSLError):
        return _refused(address, channel.error)
    if channel.heard:
        return NoChannel(channel.reason or "it has ended the connection")
    if context is None and await _speaks_tls(address):
        secure = address._replace(secure=True)
        error = ConnectionEnded(f"{address} speaks TLS, and nothing else", hint=f"call it as {secure}")
        return NoChannel(str(error), final=error)
    return NoChannel(WORDLESS, wordless=True)


def _refused(address: Address, error: OSError) -> NoChannel:
    match error:
        case ssl.SSLCertVerificationError():
            final = ConnectionEnded(f"{address} is not trusted: {error.verify_message}")
        case ssl.SSLEOFError():
            return NoChannel(WORDLESS, wordless=True)
        case ssl.SSLError(reason=str(reason)) if "ALERT" in reason:
            final = wants_certificate(address, reason)
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "RECORD_LAYER_FAILURE"):
            plain = address._replace(secure=False)
            final = ConnectionEnded(f"{address} does not speak TLS", hint=f"call it as {plain}")
        case ssl.SSLError():
            final = ConnectionEnded(f"{address} does not speak TLS as it should: {error.reason or error}")
        case _:
            return NoChannel(_in_words(error))
    return NoChannel(str(final), final=final)


def wants_certificate(address: Address, why: str) -> ConnectionEnded:
    """The error of a broker that closes the connection after the handshake: it may want a certificate."""
    return ConnectionEnded(
        f"{address} does not take this client: {why.lower().replace('_', ' ')}",
        hint="it may want a certificate: Tls(certificate, key), or --certificate and --key",
    )


async def _speaks_tls(address: Address) -> bool:
    """Whether TLS is spoken there, by whomever."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(PROBE_S):
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(
                asyncio.Protocol, address.host, address.port, ssl=context
            )
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:  # TimeoutError, too
        return False
    transport.abort()
    return True


def _in_words(error: OSError) -> str:
    """The system's words; asyncio puts others in their place, which repeat the address."""
    if isinstance(error, ConnectionError) and error.errno is not None:
        return os.strerror(error.errno)
    return error.strerror or str(error)
