"""Whoever closes leaves no socket open: neither a client nor a broker, whatever is still to be sent."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.network import sync, wire
from fairlead.network.addresses import Address, Tls
from fairlead.network.channel import Channel
from fairlead.network.server import Server
from fairlead.network.settings import BrokerSettings
from fairlead_lab.testing.brokers import Brokers, on_a_loop


@pytest.fixture
def unclosed() -> Iterator[list[str]]:
    """The resources that were collected without having been closed."""
    found: list[str] = []
    before, sys.unraisablehook = (
        sys.unraisablehook,
        lambda unraisable: found.append(str(unraisable.exc_value)),
    )
    gc.collect()
    found.clear()
    try:
        yield found
    finally:
        sys.unraisablehook = before


def test_a_client_over_tls_leaves_no_transport_open(
    brokers: Brokers, certificate: Tls, unclosed: list[str]
) -> None:
    server = brokers.start("hub", tls=certificate)
    for _ in range(5):
        with sync.connect(f"fairleads://127.0.0.1:{server.port}", tls=certificate) as client:
            client.send({"x": 1})
        gc.collect()
    assert unclosed == []


def _ignore(*_: Any) -> None:
    """What comes is of no interest."""


@on_a_loop
async def test_a_channel_to_one_that_does_not_read_ends_after_the_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        loop = asyncio.get_running_loop()
        make = loop.create_connection(lambda: Channel(_ignore, _ignore, None), *listening.getsockname())
        _, channel = await make
        with listening.accept()[0]:
            channel.write(wire.publish(0, bytes(1 << 25)))
            channel.close()
            await channel.ended(0.01)
            assert channel.closed.done()
            assert channel.transport is not None
            assert channel.transport.get_extra_info("socket").fileno() == -1


@on_a_loop
async def test_a_broker_that_stops_closes_what_it_called_and_what_called_it() -> None:
    one = Server(BrokerSettings("one", Address("127.0.0.1", 0), None))
    await one.start()
    two = Server(
        BrokerSettings("two", Address("127.0.0.1", 0), None, links=(f"fairlead://127.0.0.1:{one.port}",))
    )
    await two.start()
    while len(ends := [end for end in (*one.connections, *two.connections) if end.session is not None]) < 2:
        await asyncio.sleep(0)
    await two.stop()
    await one.stop()
    assert all(end.closed.done() and not end.closed.cancelled() for end in ends)
    assert not one.connections
    assert not two.connections
