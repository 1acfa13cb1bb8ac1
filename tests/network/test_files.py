"""Connections never take the last open files, by whichever protocol they come."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairlead import connect
from fairlead.console import serve
from fairlead.errors import BrokerRefused
from fairlead.network import files
from fairlead.network.addresses import Address
from fairlead.network.server import Server
from fairlead.network.settings import BrokerSettings
from fairlead_lab.testing.brokers import on_a_loop

HERE = Address("127.0.0.1", 0)
CROWDED = "there are 3 connections already, as many as the system's limit of open files allows"


@on_a_loop
async def test_http_connections_that_say_nothing_count_as_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "file_limits", lambda: (4, 4))
    server = Server(BrokerSettings("b", HERE, str(tmp_path)))
    await server.start()
    try:
        async with serve(server, HERE) as serving:
            async with connect(server.url):
                idle = [await asyncio.open_connection(HERE.host, serving.port) for _ in range(2)]
                while server.beside() < 2:
                    await asyncio.sleep(0)
                reader, refused = await asyncio.open_connection(HERE.host, serving.port)
                refusal = (await reader.read()).decode()  # to its end, though nothing was asked
                refused.close()
                assert refusal.startswith("HTTP/1.1 503 ")
                assert refusal.endswith(CROWDED)
                with pytest.raises(BrokerRefused, match=CROWDED):
                    await connect(server.url).open()
            for _, writer in idle:
                writer.close()
            while server.beside():
                await asyncio.sleep(0)
            async with connect(server.url) as client:
                await client.publish({"x": 1})
        assert not server.beside()
    finally:
        await server.stop()
