"""A proxy between two ends of a connection, which does to it what networks do.

TCP hides losses and duplicates, so what is left is time and ends: bytes come late, or not for a while, or a
connection breaks, in the middle of a frame as likely as not. What comes twice comes because somebody sends again
what was received: `silence` takes the answers away and then breaks the connection, so that it must. What TCP's
checksum misses is a flipped bit, and what a faulty neighbour sends may be well-formed and false: `flip`, `forge`.
"""

from __future__ import annotations

import asyncio
import contextlib
from random import Random

from fairlead.network import wire

__all__ = ["Proxy"]

CHUNK = 1 << 16


class Proxy:
    """Passes on whatever comes, in either direction, until it is told otherwise.

    `is_framed` says that these are frames between brokers, so that it is known where one ends.
    """

    def __init__(self, target: int, rng: Random, *, is_framed: bool = False) -> None:
        self.target, self._rng, self._is_framed = target, rng, is_framed
        self._listening: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._passes = asyncio.Event()
        self._passes.set()
        self._refuses = self._tears = self._silences = self._flips = False
        self._forged = b""
        self._delay_s = 0.0

    async def start(self) -> None:
        """Listen on a port of 127.0.0.1."""
        self._listening = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    @property
    def port(self) -> int:
        """The port at which it listens."""
        assert self._listening is not None
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """End everything."""
        if self._listening is not None:
            self._listening.close()
        self.heal()
        self.break_all()
        if self._passing:
            await asyncio.wait(self._passing)

    # -- what can be done to it --------------------------------------------------------------------------------

    def break_all(self) -> None:
        """All connections end at once."""
        for writer in list(self._writers):
            writer.transport.abort()

    def part(self) -> None:
        """Nothing gets through, and new connections are refused."""
        self._refuses = True
        self.break_all()

    def hold(self) -> None:
        """Nothing gets through for now; nobody is told."""
        self._passes.clear()

    def delay(self, seconds: float) -> None:
        """Everything takes so much longer."""
        self._delay_s = seconds

    def tear(self) -> None:
        """Pass on a part of what comes next, and then break the connection."""
        self._tears = True

    def silence(self) -> None:
        """Lose what the target says; `heal` breaks the connections, so that it is asked again."""
        self._silences = True

    def flip(self) -> None:
        """One bit of what comes next is flipped."""
        self._flips = True

    def forge(self, frame: bytes) -> None:
        """This frame is passed on behind the next one that is whole."""
        self._forged = frame

    def heal(self) -> None:
        """All is well again."""
        if self._silences:
            self.break_all()
        self._refuses = self._tears = self._silences = self._flips = False
        self._forged = b""
        self._delay_s = 0.0
        self._passes.set()

    # -- bytes -------------------------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._connect(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            there, onward = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(onward)
        try:
            await asyncio.gather(self._pass(reader, onward, back=False), self._pass(there, writer, back=True))
        finally:
            for each in (writer, onward):
                self._writers.discard(each)
                each.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, back: bool) -> None:
        frames = wire.Frames()
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await self._passes.wait()
                if self._silences and back:
                    continue
                if self._tears:
                    self._tears = False
                    writer.write(chunk[: self._rng.randrange(len(chunk))])
                    break
                for _ in frames.feed(chunk) if self._is_framed else ():
                    pass
                if self._flips:
                    self._flips, flipped = False, bytearray(chunk)
                    bit = self._rng.randrange(8 * len(chunk))
                    flipped[bit // 8] ^= 1 << bit % 8
                    chunk = bytes(flipped)
                writer.write(chunk)
                if self._forged and not frames.waiting:
                    writer.write(self._forged)
                    self._forged = b""
                await writer.drain()
        if not writer.transport.is_closing():
            # What was written is sent, and then nothing: both directions end.
            writer.close()
