"""`serve`: HTTP on the broker's loop, from entering the context to leaving it, or a clear reason why not."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlead.console import HttpLimits, serve
from fairlead.console.serving import Serving
from fairlead.errors import NetworkError
from fairlead.network.server import Server
from fairlead.network.settings import Address, BrokerSettings, Limits, Tls
from fairlead_lab.testing.brokers import self_signed

LOOPBACK = Address("127.0.0.1", 0)


def test_a_port_that_is_taken_is_told(broker: Any) -> None:
    async def again() -> None:
        async with serve(broker.server, Address("127.0.0.1", broker.port)):
            pass

    with pytest.raises(NetworkError, match=r"cannot serve HTTP at http://.*: Address already in use"):
        broker.wait(again())


def test_a_secure_address_needs_a_certificate(broker: Any) -> None:
    async def secure() -> None:
        async with serve(broker.server, Address("127.0.0.1", 0, secure=True)):
            pass

    with pytest.raises(NetworkError, match="give the broker a certificate"):
        broker.wait(secure())


def test_after_the_context_nothing_listens_any_more_and_the_broker_goes_on(broker: Any) -> None:
    async def served() -> int:
        async with serve(broker.server, LOOPBACK) as serving:
            assert serving.url == f"http://127.0.0.1:{serving.port}"
            return serving.port

    port = broker.wait(served())
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", port).request("GET", "/healthz")
    assert broker.ask("GET", "/readyz").json["listening"] is True


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return self_signed(tmp_path_factory.mktemp("tls"))


async def served_securely(settings: BrokerSettings, use: Callable[[Serving], Awaitable[Any]]) -> Any:
    server = Server(settings)
    await server.start()
    try:
        async with serve(server, LOOPBACK._replace(secure=True)) as serving:
            return await use(serving)
    finally:
        await server.stop()


def test_a_secure_address_is_served_with_the_brokers_certificate(tls: Tls) -> None:
    context = ssl.create_default_context(cafile=tls.certificate)

    def health(port: int) -> Any:
        with contextlib.closing(
            http.client.HTTPSConnection("127.0.0.1", port, context=context)
        ) as connection:
            connection.request("GET", "/healthz")
            return json.loads(connection.getresponse().read())

    async def answer(serving: Serving) -> Any:
        assert serving.url.startswith("https://")
        return await asyncio.to_thread(health, serving.port)

    assert asyncio.run(served_securely(BrokerSettings("b", LOOPBACK, None, tls=tls), answer)) == {
        "status": "ok"
    }


def test_a_handshake_that_does_not_come_in_time_ends_the_connection(tls: Tls) -> None:
    settings = BrokerSettings("b", LOOPBACK, None, tls=tls, limits=Limits(handshake_seconds=0.05))

    async def silent(serving: Serving) -> bytes:
        return await answer_to(serving.port, b"")  # at most 20 s: a loop's own limit is 60

    assert asyncio.run(served_securely(settings, silent)) == b""


async def answer_to(port: int, request: bytes) -> bytes:
    """All that is answered to some bytes, up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    await writer.drain()
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer


def test_headers_that_do_not_come_in_time_end_the_connection(broker: Any) -> None:
    async def answers() -> tuple[bytes, bytes, bytes]:
        async with serve(broker.server, LOOPBACK, HttpLimits(headers_s=0.05)) as serving:
            silent = await answer_to(serving.port, b"")
            slow = await answer_to(serving.port, b"GET /healthz HTTP/1.1\r\nHost:")
            reader, writer = await asyncio.open_connection("127.0.0.1", serving.port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.wait_for(reader.readuntil(b'"ok"}'), 20)
            writer.write(b"GET /healthz HT")
            second = await asyncio.wait_for(reader.read(), 20)
            writer.close()
            return silent, slow, second

    silent, slow, second = broker.wait(answers())
    assert silent == b""
    for answer in (slow, second):
        assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_a_request_with_two_lengths_is_refused_and_the_connection_closed(broker: Any) -> None:
    smuggled = (
        b"POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    answer = broker.wait(answer_to(broker.port, smuggled))
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert answer.count(b"HTTP/1.1") == 1


def test_health_responds_at_its_own_listener_however_many_connections_are_silent(broker: Any) -> None:
    asked = b"GET /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    async def answers() -> tuple[bytes, list[bytes]]:
        limits = HttpLimits(connections=50)
        async with serve(broker.server, LOOPBACK, limits, health=LOOPBACK) as serving:
            assert serving.health_port is not None
            silent = [await asyncio.open_connection("127.0.0.1", serving.port) for _ in range(200)]
            crowded = await answer_to(serving.port, asked % b"healthz")
            paths = (b"healthz", b"readyz", b"metrics", b"events")
            found = [await answer_to(serving.health_port, asked % path) for path in paths]
            for _, writer in silent:
                writer.close()
            return crowded, found

    crowded, found = broker.wait(answers())
    assert crowded.startswith(b"HTTP/1.1 503")
    assert [each.split()[1] for each in found] == [b"200", b"200", b"200", b"404"]
