"""A broker as a process. It runs until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from fairlead.network.files import FILES_BESIDE, file_limits
from fairlead.network.server import Server, run
from fairlead.network.settings import BrokerSettings

__all__ = ["Beside", "serve"]

log: Final = logging.getLogger(__name__)

T = TypeVar("T")
Beside: TypeAlias = Callable[[Server], contextlib.AbstractAsyncContextManager[T]]
"""A context that runs beside a broker, on its loop: entered when it has been started, left before it
stops."""


def serve(
    settings: BrokerSettings,
    ready: Callable[[Server, T | None], None],
    *,
    beside: Beside[T] | None = None,
    lifeline: bool = False,
) -> None:
    """Run a broker until SIGINT or SIGTERM, and with a lifeline until standard input ends. SIGHUP reloads it.

    `ready` is called when it listens, with what runs beside it. A lifeline is for whoever starts brokers as its
    children: they end with it, however it ends.
    """
    _raise_file_limit(settings.limits.clients)
    stop = asyncio.Event()
    started: list[Server] = []

    def begun(server: Server) -> None:
        # Before anybody is told that it runs: from then on it may be told to stop.
        for number in (signal.SIGINT, signal.SIGTERM):
            server.loop.add_signal_handler(number, stop.set)
        server.loop.add_signal_handler(signal.SIGHUP, server.reload)
        if lifeline:
            threading.Thread(target=_hold, args=(server.loop, stop), daemon=True).start()
        started.append(server)

    async def stopped() -> None:
        [server] = started
        async with contextlib.AsyncExitStack() as stack:
            ready(server, None if beside is None else await stack.enter_async_context(beside(server)))
            await stop.wait()

    run(settings, begun, stopped)


def _hold(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    while os.read(0, 4_096):
        pass
    with contextlib.suppress(RuntimeError):  # the loop is closed: the broker has stopped already
        loop.call_soon_threadsafe(stop.set)


def _raise_file_limit(clients: int) -> None:
    """Every connection is an open file, and the log needs some: as many as the system lets this process have."""
    limits = file_limits()
    wanted = clients + FILES_BESIDE
    if limits is None or limits[0] >= wanted:
        return
    import resource

    soft, hard = limits
    if (most := min(wanted, hard)) > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    if most < wanted:
        log.info(
            "the system lets this process have %s open files, fewer than clients are allowed", f"{most:,}"
        )
