"""Brokers for tests that have no event loop of their own: on one loop, in a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.network.server import Server
from fairlead.network.settings import Address, BrokerSettings

PATIENCE_S = 20.0


class Brokers:
    """Brokers at ports that are free; with a log where a directory is given for it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._running: list[Server] = []

    def start(self, name: str = "b", path: Path | None = None, port: int = 0, **settings: Any) -> Server:
        data = None if path is None else str(path / name)
        server = Server(BrokerSettings(name, Address("127.0.0.1", port), data, **settings))
        self._wait(server.start())
        self._running.append(server)
        return server

    def stop(self, server: Server) -> None:
        self._running.remove(server)
        self._wait(server.stop())

    def close(self) -> None:
        for server in reversed(self._running[:]):
            self.stop(server)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    made = Brokers()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Wait for a condition, with a deadline."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"

    return wait
