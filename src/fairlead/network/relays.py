"""Relays: consecutive notifications that are in no log travel in one frame as long as they have the same next
hop.

A broker on that way need not take them apart: it looks where they go, and passes on the bytes as they came. Where
they part, they are cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress
from operator import itemgetter
from typing import Final

from fairlead.model.packed import PlainColumns, PlainParts, columns_of, cut, identity_in, unpack_all_plain
from fairlead.network import wire

__all__ = ["Relays"]

_identity: Final = itemgetter(0, 1)


class Relays:
    """Packed notifications in order: in one piece, or one by one. Either form is made on demand."""

    __slots__ = ("_array", "_body", "_columns", "_each", "_plain", "_size", "count")

    def __init__(self, each: list[bytes], plain: list[PlainParts] | None = None) -> None:
        self.count = len(each)
        self._plain = plain
        self._columns: PlainColumns | None = None
        self._each: list[bytes] | None = each
        self._array = b""
        """The payload of the frame that they came in."""
        self._body: bytes | None = each[0] if self.count == 1 else None
        self._size: int | None = None if self._body is None else len(self._body)

    @classmethod
    def read(cls, payload: bytes) -> Relays:
        """The notifications of a frame. ProtocolError if it cannot be read."""
        read = cls([])
        read.count = wire.parse_relays(payload)
        read._array, read._size = payload, len(payload) - wire.RELAYS_ARRAY
        read._each = None
        return read

    @property
    def verified(self) -> wire.Verified | None:
        """The payload of the frame that they came in, if they came in a checked piece of their own."""
        return self._array if isinstance(self._array, wire.Verified) else None

    @property
    def body(self) -> bytes:
        """All of them, one behind the other."""
        if self._body is None:
            self._body = self._array[wire.RELAYS_ARRAY :] if self._array else b"".join(self.each)
        return self._body

    @property
    def size(self) -> int:
        """Their size in bytes."""
        if self._size is None:
            self._size = sum(map(len, self.each))
        return self._size

    @property
    def each(self) -> list[bytes]:
        """One by one; ValueRefused if what came in a frame is nothing of that kind."""
        if self._each is None:
            self._each = cut(self._array)
        return self._each

    def halves(self) -> tuple[Relays, Relays]:
        """The first half, and the second."""
        middle = self.count // 2
        return Relays(self.each[:middle]), Relays(self.each[middle:])

    @property
    def plain(self) -> list[PlainParts] | None:
        """Producer, id and fields of each, if all fields' values of all are plain."""
        if self._plain is None:
            # What came one by one is read so: pieces that are no notifications may be some when put together.
            self._plain = unpack_all_plain(self._array if self._each is None else self._each)
        return self._plain

    @property
    def columns(self) -> PlainColumns:
        """The columns of `plain`, where all of them are."""
        if self._columns is None:
            self._columns = columns_of(self.plain or ())
        return self._columns

    @property
    def identities(self) -> list[tuple[str, str]]:
        """Producer and id of each."""
        plain = self.plain
        if plain is None:
            return [identity_in(packed) for packed in self.each]
        return [*map(_identity, plain)]

    def only(self, chosen: Iterable[bool]) -> Relays:
        """Some of them: those that are chosen."""
        return Relays([*compress(self.each, chosen)])
