"""`serve`: HTTP on the broker's loop, from entering the context to leaving it, or a clear reason why not."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairlead.console import serve
from fairlead.errors import NetworkError
from fairlead.network.server import Server
from fairlead.network.settings import Address, BrokerSettings, Tls

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


def test_a_secure_address_is_served_with_the_brokers_certificate(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        [
            *made,
            "-keyout",
            key,
            "-out",
            certificate,
            "-subj",
            "/CN=b",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.create_default_context(cafile=certificate)

    def health(port: int) -> Any:
        with contextlib.closing(
            http.client.HTTPSConnection("127.0.0.1", port, context=context)
        ) as connection:
            connection.request("GET", "/healthz")
            return json.loads(connection.getresponse().read())

    async def served() -> Any:
        server = Server(BrokerSettings("b", LOOPBACK, None, tls=Tls(str(certificate), str(key))))
        await server.start()
        try:
            async with serve(server, LOOPBACK._replace(secure=True)) as serving:
                assert serving.url.startswith("https://")
                return await asyncio.to_thread(health, serving.port)
        finally:
            await server.stop()

    assert asyncio.run(served()) == {"status": "ok"}
