"""WebSockets (RFC 6455) for uvicorn, which leaves them to a library of its own; ours need little of one.

`Messages` is the protocol without sockets: bytes in, messages out; an invalid message ends the connection with
the code of the RFC. No extension is negotiated, so nothing has to be inflated.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import struct
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

from uvicorn.config import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState

from fairlead.errors import ProtocolError

__all__ = ["CLOSE", "PING", "PONG", "TEXT", "Broken", "Message", "Messages", "WebSocketProtocol", "frame"]

log: Final = logging.getLogger(__name__)

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = OPCODES = (0, 1, 2, 8, 9, 10)
NORMAL, GOING_AWAY, PROTOCOL_ERROR, NO_CODE, ABNORMAL, NOT_UTF8, TOO_BIG, FAILED = (
    *(1000, 1001, 1002, 1005, 1006, 1007, 1009, 1011),
)
MESSAGE_BYTES_MAX: Final = 1 << 20
CONTROL_BYTES_MAX: Final = 125
WAITING_MAX: Final = 32
"""How many messages of a client wait to be dealt with before nothing more is read from it."""
BEAT_S: Final = 20.0
"""After so long without a message a client is pinged, and after as long again without a response disconnected."""
SECRET: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Broken(ProtocolError):
    """An invalid WebSocket message; `code` is sent in the closing frame."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Message(NamedTuple):
    """A whole message, or a control frame."""

    opcode: int
    payload: bytes


def frame(opcode: int, payload: bytes) -> bytes:
    """The one unmasked frame of a message."""
    size = len(payload)
    if size <= CONTROL_BYTES_MAX:
        head = struct.pack(">BB", 0x80 | opcode, size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", 0x80 | opcode, 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, 127, size)
    return head + payload


class Messages:
    """Assembles a client's frames into messages."""

    def __init__(self, limit: int = MESSAGE_BYTES_MAX) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._opcode = 0
        self._begun = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """The messages that this chunk completes; Broken at the first thing that is none."""
        self._rest += chunk
        while (taken := self._frame()) is not None:
            final, opcode, payload = taken
            if opcode >= CLOSE:
                yield Message(opcode, payload)
                continue
            if (opcode == CONTINUATION) != bool(self._opcode):
                raise Broken(
                    PROTOCOL_ERROR, "a message began within another, or goes on without having begun"
                )
            self._opcode = self._opcode or opcode
            self._begun += payload
            if len(self._begun) > self._limit:
                raise Broken(TOO_BIG, f"a message of more than {self._limit:,} bytes")
            if final:
                message = Message(self._opcode, bytes(self._begun))
                self._opcode, self._begun = 0, bytearray()
                yield message

    def _frame(self) -> tuple[bool, int, bytes] | None:
        """The next frame, if it is whole."""
        rest = self._rest
        if len(rest) < 2:
            return None
        final, opcode, size = bool(rest[0] & 0x80), rest[0] & 0x0F, rest[1] & 0x7F
        if rest[0] & 0x70 or opcode not in OPCODES:
            raise Broken(PROTOCOL_ERROR, "a frame of an unknown kind")
        if not rest[1] & 0x80:
            raise Broken(PROTOCOL_ERROR, "a client masks its frames")
        if opcode >= CLOSE and (size > CONTROL_BYTES_MAX or not final):
            raise Broken(PROTOCOL_ERROR, "a control frame is short, and in one piece")
        start = 2 + {126: 2, 127: 8}.get(size, 0)
        if len(rest) < start:
            return None
        if size > CONTROL_BYTES_MAX:
            size = int.from_bytes(rest[2:start])
        if size > self._limit:
            raise Broken(TOO_BIG, f"a message of more than {self._limit:,} bytes")
        end = start + 4 + size
        if len(rest) < end:
            return None
        payload = _unmasked(bytes(rest[start : start + 4]), bytes(rest[start + 4 : end]))
        del rest[:end]
        return final, opcode, payload


def _unmasked(mask: bytes, payload: bytes) -> bytes:
    size = len(payload)
    pattern = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(pattern)).to_bytes(size)


def _closing(payload: bytes) -> int:
    """The code of a closing frame."""
    if not payload:
        return NO_CODE
    code = int.from_bytes(payload[:2])
    if len(payload) < 2 or not (
        code in range(1000, 1004) or code in range(1007, 1015) or 3000 <= code < 5000
    ):
        raise Broken(PROTOCOL_ERROR, "a closing frame without a code that may be sent")
    _text(payload[2:])
    return code


def _text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise Broken(NOT_UTF8, "text that is not UTF-8") from None


class WebSocketProtocol(asyncio.Protocol):
    """One connection, from the request to upgrade on: what uvicorn's `Config(ws=…)` takes."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._app, self._state, self._app_state = config.loaded_app, server_state, app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._messages = Messages()
        self._heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._transport: asyncio.Transport
        self._answer = b""
        """The header that accepts the upgrade; empty before the request."""
        self._denied: tuple[int, list[tuple[bytes, bytes]]] | None = None
        self._is_open = False
        self._is_over = False
        self._asked = False
        self._beat: asyncio.TimerHandle | None = None

    # -- the loop's side ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are no subclasses
        self._state.connections.add(cast(Any, self))

    def data_received(self, data: bytes) -> None:
        self._asked = False
        if not self._answer:
            self._requested(data)
            return
        try:
            for message in self._messages.feed(data):
                self._received(*message)
                if self._is_over:
                    return
        except Broken as error:
            self._end(error.code, str(error))

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(cast(Any, self))
        self._over(ABNORMAL)

    def shutdown(self) -> None:
        """The server stops."""
        self._end(GOING_AWAY, "the broker stops")

    # -- the handshake -----------------------------------------------------------------------------------------

    def _requested(self, head: bytes) -> None:
        """uvicorn hands over the request as it has read it."""
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        fields = [line.partition(": ")[::2] for line in lines if line]
        headers = {name: value.strip() for name, value in fields}
        key = headers.get("sec-websocket-key", "")
        if headers.get("sec-websocket-version") != "13":
            self._deny(426, [(b"sec-websocket-version", b"13")], b"version 13 of WebSockets is spoken here")
            return
        if method != "GET" or not _is_key(key):
            self._deny(400, [], b"not a request for a WebSocket")
            return
        proof = base64.b64encode(hashlib.sha1(key.encode() + SECRET, usedforsecurity=False).digest())
        self._answer = (
            b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + proof + b"\r\n"
        )
        path, _, query = target.partition("?")
        scope: dict[str, Any] = {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "wss" if is_ssl(self._transport) else "ws",
            "server": get_local_addr(self._transport),
            "client": get_remote_addr(self._transport),
            "root_path": "",
            "path": unquote(path),
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields],
            "subprotocols": [],
            "state": self._app_state.copy(),
            "extensions": {"websocket.http.response": {}},
        }
        self._heard.put_nowait({"type": "websocket.connect"})
        task = self._loop.create_task(self._run(scope))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    async def _run(self, scope: dict[str, Any]) -> None:
        try:
            await self._app(cast(Any, scope), cast(Any, self._receive), cast(Any, self._send))
        except Exception:
            log.exception("a WebSocket's application failed")
        if self._is_open:
            self._end(FAILED, "")
        elif not self._is_over:
            self._deny(500, [], b"")

    def _deny(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self._is_over = True
        head = [b"HTTP/1.1 %d %s\r\n" % (status, HTTPStatus(status).phrase.encode())]
        all_headers = [*headers, (b"connection", b"close")]
        if not any(name == b"content-length" for name, _ in headers):
            all_headers.append((b"content-length", b"%d" % len(body)))
        head += [b"%s: %s\r\n" % each for each in all_headers]
        self._transport.write(b"".join(head) + b"\r\n" + body)
        self._transport.close()

    # -- frames ------------------------------------------------------------------------------------------------

    def _received(self, opcode: int, payload: bytes) -> None:
        match opcode:
            case 1:
                self._put({"type": "websocket.receive", "text": _text(payload)})
            case 2:
                self._put({"type": "websocket.receive", "bytes": payload})
            case 8:
                code = _closing(payload)
                self._end(NORMAL if code == NO_CODE else code, "", heard=code)
            case 9 if self._may_write.is_set():  # a client that does not read gets no responses either
                self._transport.write(frame(PONG, payload))
            case _:
                pass

    def _put(self, message: dict[str, Any]) -> None:
        self._heard.put_nowait(message)
        if self._heard.qsize() >= WAITING_MAX:
            self._transport.pause_reading()

    def _ask(self) -> None:
        if self._asked:
            self._transport.abort()
            return
        self._asked = True
        self._transport.write(frame(PING, b""))
        self._beat = self._loop.call_later(BEAT_S, self._ask)

    def _end(self, code: int, reason: str, *, heard: int | None = None) -> None:
        """Say goodbye, once."""
        if self._is_open and not self._is_over:
            self._transport.write(frame(CLOSE, struct.pack(">H", code) + _short(reason)))
        self._over(code if heard is None else heard)
        self._transport.close()

    def _over(self, code: int) -> None:
        if not self._is_over:
            self._is_over = True
            self._heard.put_nowait({"type": "websocket.disconnect", "code": code, "reason": ""})
        self._is_open = False
        self._may_write.set()
        if self._beat is not None:
            self._beat.cancel()

    # -- the application's side -------------------------------------------------------------------------------

    async def _receive(self) -> dict[str, Any]:
        message = await self._heard.get()
        if self._heard.qsize() == WAITING_MAX // 2 and not self._transport.is_closing():
            self._transport.resume_reading()
        return message

    async def _send(self, message: dict[str, Any]) -> None:
        await self._may_write.wait()
        if self._is_over:
            raise OSError("the client has gone")
        match message["type"]:
            case "websocket.accept":
                self._is_open = True
                headers = b"".join(b"%s: %s\r\n" % each for each in message.get("headers", ()))
                self._transport.write(
                    b"HTTP/1.1 101 Switching Protocols\r\n" + self._answer + headers + b"\r\n"
                )
                self._beat = self._loop.call_later(BEAT_S, self._ask)
            case "websocket.send":
                text = message.get("text")
                payload = message["bytes"] if text is None else text.encode()
                self._transport.write(frame(BINARY if text is None else TEXT, payload))
            case "websocket.close" if self._is_open:
                self._end(message.get("code", NORMAL), message.get("reason") or "")
            case "websocket.close":
                self._deny(403, [], b"")
            case "websocket.http.response.start":
                self._denied = (message["status"], list(message.get("headers", ())))
            case "websocket.http.response.body" if self._denied is not None:
                self._deny(*self._denied, message.get("body", b""))
            case other:
                raise RuntimeError(f"no message for a WebSocket: {other}")


def _short(reason: str) -> bytes:
    """As much of a reason as a closing frame has room for."""
    return reason.encode()[: CONTROL_BYTES_MAX - 2].decode(errors="ignore").encode()


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except (ValueError, binascii.Error):
        return False
