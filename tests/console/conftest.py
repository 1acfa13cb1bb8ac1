"""A broker that serves HTTP on a loop in a thread of its own, and clients made of the standard library."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from fairlead.console import HttpLimits, serve
from fairlead.network.server import Server, _loop_factory
from fairlead.network.settings import Address, BrokerSettings

LOOPBACK = Address("127.0.0.1", 0)
PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def media(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


class Running:
    """A broker with HTTP, in a thread."""

    def __init__(self, settings: BrokerSettings, limits: HttpLimits) -> None:
        self._settings, self._limits = settings, limits
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:  # the loop that brokers really run on
            runner.run(self._main())

    async def _main(self) -> None:
        self.loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self.server = Server(self._settings)
        await self.server.start()
        try:
            async with serve(self.server, LOOPBACK, self._limits) as serving:
                self.serving, self.port = serving, serving.port
                self._ready.set()
                await self._over.wait()
        finally:
            await self.server.stop()

    def tell_to_stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has stopped already
            self.loop.call_soon_threadsafe(self._over.set)

    def stop(self) -> None:
        self.tell_to_stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine returns on the broker's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    def do(self, what: Callable[[], Any]) -> Any:
        """What a function returns on the broker's loop."""

        async def done() -> Any:
            return what()

        return self.wait(done())

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait on the broker's loop until something holds."""

        async def watch() -> None:
            async with asyncio.timeout(PATIENCE_S):
                while not condition():
                    await asyncio.sleep(0.002)

        self.wait(watch())

    # -- clients --

    def ask(
        self, method: str, path: str, body: bytes | str | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            got = connection.getresponse()
            return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())

    def publish(self, content: Any, media: str = "application/json", **headers: str) -> Answer:
        return self.ask("POST", "/events", json.dumps(content), {"Content-Type": media, **headers})

    def events(self, filter: str, *, headers: dict[str, str] | None = None, **query: str) -> Events:
        return Events(
            self.port, f"/events?{urlencode({'filter': filter, **query}, quote_via=quote)}", headers or {}
        )

    def socket(self, filter: str, *, headers: dict[str, str] | None = None, **query: str) -> Socket:
        return Socket(
            self.port, f"/events/ws?{urlencode({'filter': filter, **query}, quote_via=quote)}", headers or {}
        )


class Events:
    """A reader of server-sent events."""

    def __init__(self, port: int, path: str, headers: dict[str, str]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        self._connection.request("GET", path, headers=headers)
        self._answer = self._connection.getresponse()
        self.status, self.media = self._answer.status, self._answer.getheader("Content-Type")

    def next(self) -> dict[str, str]:
        """The fields of the next event; comments are passed over. Empty at the end."""
        fields: dict[str, str] = {}
        while line := self._answer.readline():
            text = line.decode().rstrip("\n")
            if not text and fields:
                return fields
            name, _, value = text.partition(": ")
            if name and not text.startswith(":"):
                fields[name] = value
        return fields

    def event(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self.next()["data"])
        return event

    def line(self) -> str:
        return self._answer.readline().decode()

    def rest(self) -> bytes:
        return self._answer.read()

    def close(self) -> None:
        self._answer.close()
        self._connection.close()

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Socket:
    """A client's end of a WebSocket, by hand."""

    def __init__(self, port: int, path: str, headers: dict[str, str]) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._file = self._socket.makefile("rb")
        fields = {
            "Host": f"127.0.0.1:{port}",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
            **headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.raw(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        self.status = int(self._file.readline().split()[1])
        self.headers: dict[str, str] = {}
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.decode().partition(": ")
            self.headers[name.lower()] = value
        self.body = self._file.read() if self.status != 101 else b""

    def raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def say(self, message: Any) -> None:
        self.raw(masked(1, json.dumps(message).encode()))

    def frame(self) -> tuple[int, bytes]:
        """Opcode and payload of the next frame; (0, b"") when the connection has ended."""
        head = self._file.read(2)
        if len(head) < 2:
            return 0, b""
        size = head[1]
        if size == 126:
            [size] = struct.unpack(">H", self._file.read(2))
        elif size == 127:
            [size] = struct.unpack(">Q", self._file.read(8))
        return head[0] & 15, self._file.read(size)

    def hear(self) -> Any:
        opcode, payload = self.frame()
        assert opcode == 1, (opcode, payload)
        return json.loads(payload)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def masked(opcode: int, payload: bytes, mask: bytes = b"\x01\x02\x03\x04", *, final: bool = True) -> bytes:
    """A client's frame."""
    size, first = len(payload), opcode | (0x80 if final else 0)
    if size <= 125:
        head = struct.pack(">BB", first, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", first, 0x80 | 127, size)
    return head + mask + bytes(each ^ mask[index % 4] for index, each in enumerate(payload))


Start = Callable[..., Running]


@pytest.fixture(scope="package")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """`started(http, **settings)`: a running broker with HTTP, for as long as the tests run."""
    running: list[Running] = []

    def start(http: HttpLimits | None = None, **settings: Any) -> Running:
        base = BrokerSettings("b", LOOPBACK, str(tmp_path_factory.mktemp("data")))
        running.append(Running(replace(base, **settings), http or HttpLimits()))
        return running[-1]

    yield start
    for each in running:
        each.tell_to_stop()
    for each in running:
        each.stop()


@pytest.fixture(scope="package")
def broker(started: Start) -> Running:
    """The broker that most tests share; each uses names of its own."""
    return started()


@pytest.fixture(scope="package")
def masking() -> Callable[..., bytes]:
    return masked
