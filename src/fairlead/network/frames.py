"""A stream of bytes as frames, each with a length and a kind; and pieces of the stream with a checksum.

The layout is described in `wire`. `Frames` reads a stream, however it was split; `checked` writes checked pieces.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final
from zlib import crc32

from fairlead.errors import ProtocolError

__all__ = [
    "CHECKED",
    "CONTROL",
    "DELIVER",
    "FRAME_MAX",
    "FRAME_MIN",
    "HEAD",
    "MARK",
    "PART",
    "PUBLISH",
    "RELAY",
    "RELAYS",
    "SKIP",
    "STORED",
    "TRANSACTION",
    "Frames",
    "Verified",
    "checked",
    "checked_pieces",
]

FRAME_MAX: Final = 1 << 20
"""The longest frame that is taken if nothing else is said."""
FRAME_MIN: Final = 1 << 10
"""A broker that takes no frames of this length cannot work."""

CONTROL, PUBLISH, DELIVER, RELAY, STORED, PART, RELAYS, CHECKED, SKIP, MARK, TRANSACTION = range(11)
KINDS: Final = 11
CHECKED_BYTES: Final = (1 << 16) + (1 << 10)
"""A checked piece is this long at most: its reader waits for its end. A frame of several notifications fits in."""
PARTS_MAX: Final = 64
"""A checksum of more parts than this takes longer than to join them first."""

HEAD: Final = struct.Struct("<IB")
_CHECKED: Final = struct.Struct("<IBI")
_CRC: Final = struct.Struct("<I")


def checked(frames: bytes, frame_max: int = FRAME_MAX) -> bytes:
    """A stream of frames in checked pieces, none of which is longer than a frame may be."""
    return b"".join(checked_pieces([frames], frame_max)) if frames else b""


def checked_pieces(frames: Sequence[bytes], frame_max: int) -> list[bytes | memoryview]:
    """The same of a stream in parts, to be joined: one piece, where it is not too long."""
    step = min(CHECKED_BYTES, frame_max - 5)
    size = sum(map(len, frames))
    if len(frames) > PARTS_MAX or size > step:
        frames = [b"".join(frames)]
    if size <= step:
        crc = 0
        for each in frames:
            crc = crc32(each, crc)
        return [_CHECKED.pack(size + 5, CHECKED, crc), *frames]
    whole = memoryview(frames[0])
    pieces: list[bytes | memoryview] = []
    for start in range(0, size, step):
        piece = whole[start : start + step]
        pieces += (_CHECKED.pack(len(piece) + 5, CHECKED, crc32(piece)), piece)
    return pieces


class Verified(bytes):
    """The payload of a frame of several notifications that filled a checked piece, and can be forwarded
    unchanged."""

    crc: int
    """The checksum of the whole frame."""

    @property
    def length(self) -> int:
        """The length of the piece, from its head."""
        return len(self) + 10

    @property
    def head(self) -> bytes:
        """The bytes before the payload in the piece."""
        return _CHECKED.pack(self.length, CHECKED, self.crc) + HEAD.pack(len(self) + 1, RELAYS)


class Frames:
    """Cuts the bytes of a connection, however they were split, into frames (kind, payload).

    The frames inside checked pieces come out as all others do; `only_checked` refuses those outside.
    """

    def __init__(self, limit: int = FRAME_MAX, *, is_inside: bool = False) -> None:
        self._limit, self._is_inside = limit, is_inside
        self._rest = b""
        self._inner: Frames | None = None
        self.only_checked = False

    @property
    def waiting(self) -> int:
        """The number of bytes of an unfinished frame."""
        return len(self._rest) + (0 if self._inner is None else self._inner.waiting)

    def _unchecked(self, payload: memoryview) -> Iterator[tuple[int, bytes]]:
        """The frames that a checked piece completes; ProtocolError if it is not what was sent."""
        if self._is_inside:
            raise ProtocolError("a checked piece inside a checked piece")
        content = payload[_CRC.size :]
        crc = crc32(content)
        if len(payload) < _CRC.size or crc != _CRC.unpack_from(payload)[0]:
            raise ProtocolError("bytes were changed in transit: the checksum is wrong")
        if self._inner is None:
            self._inner = Frames(self._limit, is_inside=True)
        if not self._inner._rest and content[:5] == HEAD.pack(len(content) - 4, RELAYS):
            whole = Verified(content[5:])
            whole.crc = crc
            return iter([(RELAYS, whole)])
        return self._inner.feed(content)

    def feed(self, chunk: bytes | memoryview) -> Iterator[tuple[int, bytes]]:
        """The frames that this chunk completes; ProtocolError at the first that is none."""
        raw = self._rest + chunk if self._rest else chunk
        position, end, limit = 0, len(raw), self._limit
        is_view = (
            type(raw) is memoryview
        )  # of a checked piece: its frames are copied once, into their payloads
        unpack = HEAD.unpack_from
        try:
            while end - position >= 5:
                length, kind = unpack(raw, position)
                if not 0 < length <= limit or kind >= KINDS:
                    raise ProtocolError(_why_not(length, kind, limit))
                stop = position + 4 + length
                if stop > end:
                    break
                start, position = position + 5, stop
                if kind == CHECKED:
                    yield from self._unchecked(memoryview(raw)[start:stop])
                elif self.only_checked:
                    raise ProtocolError(f"a frame of the kind {kind} without a checksum")
                else:
                    payload = raw[start:stop]
                    yield kind, (bytes(payload) if is_view else payload)  # type: ignore[misc]  # bytes otherwise
        finally:
            self._rest = bytes(raw[position:])


def _why_not(length: int, kind: int, limit: int) -> str:
    if not length:
        return "a frame without content"
    if length > limit:
        return f"a frame of {length:,} bytes; at most {limit:,} are taken"
    return f"a frame of the unknown kind {kind}"
