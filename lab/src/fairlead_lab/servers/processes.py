"""Processes of servers: a free port, a command, a wait until it answers, an end."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["Missing", "free_ports", "listens", "started"]

START_S: Final = 120
END_S: Final = 60


class Missing(RuntimeError):
    """Lack of a thing that a server needs: it is not here and could not be fetched."""


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens at."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for each in probes:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in probes]
    finally:
        for each in probes:
            each.close()


def listens(port: int) -> bool:
    """Whether somebody listens at a port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def started(
    command: Sequence[str],
    log: Path,
    is_ready: Callable[[], bool],
    *,
    env: Mapping[str, str] | None = None,
    end: signal.Signals = signal.SIGTERM,
    user: str | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ready; it ends with the block. RuntimeError, with its log, where it does not become so."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=env, user=user
        )
        try:
            deadline = time.monotonic() + START_S
            while not is_ready():
                if process.poll() is not None or time.monotonic() > deadline:
                    said = log.read_text("utf-8", "replace")[-4_000:]
                    raise RuntimeError(f"{command[0]} did not start:\n{said}")
                time.sleep(0.05)
            yield process
        finally:
            process.send_signal(end)
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
