"""The publications of a client until they are acknowledged, by number. They are sent again after a
reconnection."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fairlead.errors import FairleadError
from fairlead.model.packed import identity_in
from fairlead.network import wire
from fairlead.network.frames import HEAD

__all__ = ["Publications", "fail"]

IN_FLIGHT: Final = 10_000
"""The number of publications that may wait for their acknowledgement; beyond, publishing waits."""


class Publications:
    """The publications of one client that are not acknowledged, in order."""

    def __init__(self) -> None:
        self._unstored: dict[int, tuple[bytes, asyncio.Future[None]]] = {}
        self._room = asyncio.Event()
        self._room.set()
        self._sent = self._resent = 0
        """The last one that was sent, and the last that was sent over more than one connection."""
        self.duplicates = 0
        """The number of publications that had been published before, under the same producer and id."""

    def __bool__(self) -> bool:
        return bool(self._unstored)

    async def room(self) -> None:
        """Return when there is room for one more."""
        while len(self._unstored) >= IN_FLIGHT:
            self._room.clear()
            await self._room.wait()

    def add(self, number: int, frame: bytes) -> asyncio.Future[None]:
        """Add the frame of a publication; the future is done when it is acknowledged."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unstored[number] = (frame, stored)
        return stored

    def sent(self, number: int) -> None:
        """The publication is in flight."""
        self._sent = number

    def again(self) -> list[tuple[int, bytes]]:
        """All of them, for a new connection."""
        self._resent = self._sent
        return [(number, frame) for number, (frame, _) in self._unstored.items()]

    @property
    def identities(self) -> list[tuple[str, str]]:
        """Producers and ids of those that are not acknowledged."""
        found: list[tuple[str, str]] = []
        for frame, _ in self._unstored.values():
            payload = frame[HEAD.size :]
            if HEAD.unpack_from(frame)[1] == wire.PUBLISH:
                found.append(identity_in(wire.parse_numbered(payload)[1]))
            else:
                found += map(identity_in, wire.parse_transaction(payload)[1].publications)
        return found

    def stored(self, number: int) -> None:
        """All publications up to this one are acknowledged."""
        for each in list(self._unstored):
            if each > number:
                break
            _, stored = self._unstored.pop(each)
            if not stored.done():
                stored.set_result(None)
        self._room.set()

    def repeated(self, number: int) -> None:
        """The broker knew it. What was sent over two connections may be its own duplicate, and is not counted."""
        self.duplicates += number > self._resent

    def refuse(self, number: int, error: FairleadError) -> bool:
        """The broker refuses a publication. True if there is one with this number."""
        if number not in self._unstored:
            return False
        fail(self._unstored.pop(number)[1], error)
        self._room.set()
        return True

    def refuse_all(self, error: FairleadError) -> None:
        """None will be."""
        for _, stored in self._unstored.values():
            fail(stored, error)
        self._unstored.clear()
        self._room.set()

    async def settled(self) -> None:
        """Return when each is acknowledged or refused."""
        if self._unstored:
            await asyncio.gather(*(stored for _, stored in self._unstored.values()), return_exceptions=True)


def fail(future: asyncio.Future[Any], error: FairleadError) -> None:
    """Fail a future, without a warning if nobody awaits it."""
    if not future.done():
        future.set_exception(error)
        future.exception()
