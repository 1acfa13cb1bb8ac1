"""Brokers for tests: a loop for each test, or brokers on a loop of their own, in a thread."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from fairlead.network.addresses import Address, Tls
from fairlead.network.server import Server
from fairlead.network.settings import BrokerSettings
from fairlead.network.sync import run_until_stopped

__all__ = ["PATIENCE_S", "Brokers", "on_a_loop", "self_signed", "wait_until"]

PATIENCE_S: Final = 40.0
"""The time a test waits before it fails; a loaded machine takes its time."""
LOOK_S: Final = 0.002
"""The interval of looks at a condition: a thread that asks all the time would hold up those it waits for."""


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(LOOK_S)


def self_signed(directory: Path, name: str = "hub") -> Tls:
    """A certificate that vouches for itself, for this name and the loopback address."""
    shown, key = directory / "certificate.pem", directory / "key.pem"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,DNS:east,IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", "-x509", *kind, *subject, "-keyout", key, "-out", shown],
        check=True,
        capture_output=True,
    )
    return Tls(str(shown), str(key), str(shown))


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, run with a deadline."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE_S):
                await test(*arguments, **named)

        asyncio.run(bounded())

    return run


class Brokers:
    """Brokers at ports that are free; with a log where a directory is given for it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=run_until_stopped, args=(self._loop,), daemon=True)
        self._thread.start()
        self._running: list[Server] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, name: str = "b", path: Path | None = None, port: int = 0, **settings: Any) -> Server:
        """A broker that listens, and logs below `path` if that is given."""
        data = None if path is None else str(path / name)
        server = Server(BrokerSettings(name, Address("127.0.0.1", port), data, **settings))
        self._wait(server.start())
        self._running.append(server)
        return server

    def stop(self, server: Server) -> None:
        """End it, as a signal would."""
        self._running.remove(server)
        self._wait(server.stop())

    def close(self) -> None:
        """End them all, the last one first."""
        for server in reversed(self._running[:]):
            self.stop(server)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _wait(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)
