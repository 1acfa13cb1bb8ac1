"""A broker as a process that can be killed, paused, and robbed of what its disk had not made safe."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from fairlead.log import Disk, SparseIndex
from fairlead.log.copies import back_up, restore
from fairlead.log.format import offsets_in
from fairlead.log.segment import Segment
from fairlead.network import wire
from fairlead.network.addresses import HOST, free_ports

__all__ = ["BrokerProcess", "truncate_unsynced"]

START_S = 60.0
MEMORY_BYTES = 1 << 24
"""The memory that all connections of a broker may hold."""
FRAME_BYTES = 900_000


def truncate_unsynced(directory: Path, rng: Random) -> int:
    """Do to a log what a power failure may: cut off what is beyond the mark, and break the rest; bytes cut off."""
    bases = offsets_in(os.listdir(directory))
    if not bases:
        return 0
    with Segment(Disk(), str(directory), bases[-1], update=True) as last:
        _, safe, _ = last.skip(SparseIndex(), stop=last.mark())
        size = last.size()
        if size == safe:
            return 0
        end = rng.randint(safe, size)
        os.ftruncate(last.file, end)
        if end > safe and rng.random() < 0.5:
            os.pwrite(last.file, rng.randbytes(1), rng.randrange(safe, end))
        return size - end


@contextlib.contextmanager
def pressure(port: int) -> Iterator[None]:
    """Connections that begin frames and do not finish them: several times what the broker may hold."""
    begun = wire.control(wire.Hello(wire.VERSION, "client", "x" * FRAME_BYTES))[:-1]
    with contextlib.ExitStack() as stack:
        for _ in range(4 * MEMORY_BYTES // FRAME_BYTES):
            with contextlib.suppress(OSError):  # the broker is down, or has ended the connection
                connection = stack.enter_context(socket.create_connection((HOST, port), timeout=1.0))
                connection.setblocking(False)
                connection.send(begun)
        yield


class BrokerProcess:
    """`fairlead broker run`, on a port and a directory of its own, as often as it takes."""

    def __init__(self, name: str, directory: Path, links: list[str]) -> None:
        self.name, self.links = name, links
        self.data = directory / name
        [self.port] = free_ports([HOST])
        self.starts = 0
        self._log = (directory / f"{name}.err").open("ab")
        self._file = directory / f"{name}.toml"
        self._file.write_text(f"[limits]\nmemory_bytes = {MEMORY_BYTES}\n", encoding="utf-8")
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """The address at which it listens."""
        return f"fairlead://127.0.0.1:{self.port}"

    @property
    def runs(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it, and return when it listens."""
        options = [
            "-c",
            str(self._file),
            "--name",
            self.name,
            "--listen",
            f"127.0.0.1:{self.port}",
            "--data",
            str(self.data),
        ]
        for link in self.links:
            options += ["--link", link]
        self.starts += 1
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "fairlead", "broker", "run", "--stdin", *options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._log,
        )
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), START_S)
        if b"listens" not in line:
            raise RuntimeError(f"{self.name} did not start: {line!r}; see {self._log.name}")

    async def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self.runs:
            self._process.kill()
            await self._process.wait()

    def restore(self) -> None:
        """Have its log come back from a backup; to be called while it does not run."""
        copy, old = self.data.with_suffix(".backup"), self.data.with_suffix(".old")
        back_up(self.data, copy)
        self.data.rename(old)
        restore(copy, self.data)
        for each in (copy, old):
            shutil.rmtree(each)

    def clone(self, directory: Path) -> BrokerProcess:
        """The same broker with a copy of its log, in an empty directory and on another port."""
        back_up(self.data, directory / self.name)
        return BrokerProcess(self.name, directory, self.links)

    def pause(self) -> None:
        """It stands still."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on."""
        self._signal(signal.SIGCONT)

    async def stop(self) -> None:
        """Tell it to stop, and wait until it has."""
        if self._process is not None and self.runs:
            self.resume()
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), START_S)
            except TimeoutError:
                await self.kill()
        self._log.close()

    def _signal(self, number: int) -> None:
        if self._process is not None and self.runs:
            self._process.send_signal(number)
