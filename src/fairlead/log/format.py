"""The bytes of a log and what they mean; the package's docstring is the law. Nothing here touches a disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError
from zlib import crc32

import msgspec

from fairlead.errors import DamagedLog

__all__ = [
    "CURSORS",
    "FIRST_BYTES",
    "GROUP",
    "MARKS_AT",
    "MARKS_BYTES",
    "MARK_BYTES",
    "MAX_OFFSET",
    "MAX_PAYLOAD",
    "NEVER",
    "RECORD_HEAD",
    "REMOVED",
    "SUFFIX",
    "VERSION",
    "Head",
    "Record",
    "Run",
    "decode_cursors",
    "decode_marks",
    "encode_cursors",
    "encode_group",
    "encode_mark",
    "encode_record",
    "group_count",
    "head_length",
    "hop",
    "intact",
    "name_of",
    "offsets_in",
    "run_of",
    "whole_records",
]

MAGIC = b"\x89FLOG\r\n\x1a"
VERSION = 1
SUFFIX = ".log"

CURSORS = 0
"""The kind of the records that change cursors."""
GROUP = 30
"""The kind of a record that begins a group: the records behind it, whose number it has, are there with it or not
at all. A group is in one segment."""
MAX_PAYLOAD = 1 << 24
MAX_OFFSET = 1 << 63
REMOVED = (1 << 64) - 1
"""Stands for the offset of a cursor that is removed."""
NEVER = -(1 << 63)
"""Earlier than every time: the latest time where there is no record."""

_OPENING = Struct("<8sHHI")
_MARK = Struct("<QI")
_FIXED = Struct("<QqI")
_CURSOR_NAME, _CURSOR_OFFSET = Struct("<H"), Struct("<Q")
_CRC = Struct("<I")
_GROUP = Struct("<I")
_RECORD = Struct("<IIQqH")
_RECORD_REST = Struct("<IQqH")

FIRST_BYTES = _OPENING.size
MARKS_AT, MARK_BYTES, MARKS_BYTES = _OPENING.size, _MARK.size, 2 * _MARK.size
_FIXED_AT = MARKS_AT + MARKS_BYTES
_CURSORS_AT = _FIXED_AT + _FIXED.size
RECORD_HEAD = _RECORD.size


class Record(msgspec.Struct, frozen=True):
    """A record as it is read; a structure of msgspec, as millions are made, and dataclasses are slow."""

    offset: int
    time: int
    kind: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a segment: where it begins, how old the segment before is, and the cursors so far."""

    base: int
    latest_before: int = NEVER
    cursors: dict[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The head's bytes, with marks that declare all before this segment synced."""
        rest = _FIXED.pack(self.base, self.latest_before, len(self.cursors)) + encode_cursors(self.cursors)
        opening = _OPENING.pack(MAGIC, VERSION, 0, _FIXED_AT + len(rest) + _CRC.size)
        return opening + 2 * encode_mark(self.base) + rest + _CRC.pack(crc32(rest, crc32(opening)))

    @classmethod
    def decode(cls, raw: bytes, path: str) -> Head:
        """The head that a segment's first `head_length` bytes are, or DamagedLog."""
        opening, rest = raw[:FIRST_BYTES], raw[_FIXED_AT : -_CRC.size]
        if len(raw) != head_length(opening, path) or raw[-4:] != _CRC.pack(crc32(rest, crc32(opening))):
            raise DamagedLog(f"{path}: the head of this segment is damaged", path=path)
        base, latest_before, count = _FIXED.unpack_from(rest)
        cursors = dict(decode_cursors(rest[_FIXED.size :]))
        if len(cursors) != count or name_of(base) != path.rpartition("/")[2]:
            raise DamagedLog(f"{path}: this segment is that of the record {base}: it was renamed", path=path)
        return cls(base, latest_before, cursors)


def head_length(opening: bytes, path: str) -> int:
    """The length of the head that begins with these bytes; a foreign or newer one is refused by name."""
    if len(opening) < FIRST_BYTES or not opening.startswith(MAGIC):
        raise DamagedLog(f"{path}: this is not a segment of a Fairlead log", path=path)
    _, version, _, length = _OPENING.unpack(opening)
    if version != VERSION:
        hint = "read it with the version of Fairlead that wrote it, or a newer one"
        raise DamagedLog(f"{path}: format {version} is not known, only {VERSION}", path=path, hint=hint)
    if not _CURSORS_AT + _CRC.size <= length <= _CURSORS_AT + _CRC.size + MAX_PAYLOAD:
        raise DamagedLog(f"{path}: the head of this segment is damaged", path=path)
    return int(length)


def name_of(base: int) -> str:
    """The file name of the segment that begins with this offset."""
    return f"{base:020d}{SUFFIX}"


def offsets_in(names: Iterable[str]) -> list[int]:
    """The first offsets of the segments among these file names, in order."""
    stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdigit())


def encode_mark(offset: int) -> bytes:
    raw = _CURSOR_OFFSET.pack(offset)
    return raw + _CRC.pack(crc32(raw))


def decode_marks(raw: bytes, path: str) -> tuple[int, int]:
    """The two marks of a segment; one that is torn counts as -1, and both cannot be."""
    marks = []
    for at in (0, MARK_BYTES):
        offset, crc = _MARK.unpack_from(raw, at)
        marks.append(offset if crc == crc32(raw[at : at + 8]) else -1)
    if max(marks) < 0:
        raise DamagedLog(f"{path}: both marks of this segment are damaged", path=path)
    return marks[0], marks[1]


def encode_cursors(cursors: dict[str, int]) -> bytes:
    parts = []
    for name, offset in cursors.items():
        encoded = name.encode()
        parts += [_CURSOR_NAME.pack(len(encoded)), encoded, _CURSOR_OFFSET.pack(offset)]
    return b"".join(parts)


def decode_cursors(raw: bytes) -> Iterator[tuple[str, int]]:
    at = 0
    while at < len(raw):
        end = at + 2 + _CURSOR_NAME.unpack_from(raw, at)[0]
        yield raw[at + 2 : end].decode(), _CURSOR_OFFSET.unpack_from(raw, end)[0]
        at = end + 8


def encode_record(offset: int, time: int, kind: int, payload: bytes) -> bytes:
    try:
        rest = _RECORD_REST.pack(len(payload), offset, time, kind) + payload
    except StructError:
        raise ValueError(f"no record: time {time} is not 64 bits, or kind {kind} not 16") from None
    return _CRC.pack(crc32(rest)) + rest


def intact(crc: int, rest: memoryview) -> bool:
    """A record is whole iff the CRC that it begins with is that of all the rest."""
    return crc32(rest) == crc


@dataclass(slots=True)
class Run:
    """The whole records at the start of a chunk: `records`, `size` in bytes, and what stopped it.

    `wanted` bytes are needed for one record more; it is 0 where the next record is not whole, or not wanted.
    """

    records: list[Record]
    size: int = 0
    wanted: int = 0


def run_of(chunk: bytes, offset: int, stop: int) -> Run:
    """The records from `offset` up to `stop` that a chunk begins with, as far as they are whole."""
    view, unpack, found = memoryview(chunk), _RECORD.unpack_from, list[Record]()
    keep, at, length = found.append, 0, len(chunk)
    while offset < stop:
        if at + RECORD_HEAD > length:
            return Run(found, at, RECORD_HEAD)
        crc, size, number, time, kind = unpack(chunk, at)
        if number != offset or size > MAX_PAYLOAD:
            return Run(found, at)
        end = at + RECORD_HEAD + size
        if end > length:
            return Run(found, at, end - at)
        if not intact(crc, view[at + 4 : end]):
            return Run(found, at)
        keep(Record(number, time, kind, chunk[at + RECORD_HEAD : end]))
        at, offset = end, offset + 1
    return Run(found, at)


def hop(chunk: bytes, offset: int, stop: int, since: int) -> tuple[int, int, int, bool]:
    """Pass records below `stop` and before the time `since` by their lengths, without reading their
    content.

    Gives how many, their size in bytes (the last may end beyond the chunk), the latest time of them, and whether
    `since` was met.
    """
    unpack, at, last, first, latest = _RECORD.unpack_from, 0, len(chunk) - RECORD_HEAD, offset, NEVER
    while offset < stop and at <= last:
        _, size, number, time, _ = unpack(chunk, at)
        if number != offset or size > MAX_PAYLOAD:
            break
        if time > latest:
            if time >= since:
                return offset - first, at, latest, True
            latest = time
        at, offset = at + RECORD_HEAD + size, offset + 1
    return offset - first, at, latest, False


def encode_group(offset: int, time: int, records: list[tuple[int, bytes]]) -> list[bytes]:
    """The records of a group, its beginning first."""
    begin = encode_record(offset, time, GROUP, _GROUP.pack(len(records)))
    numbered = enumerate(records, offset + 1)
    return [begin, *(encode_record(each, time, kind, payload) for each, (kind, payload) in numbered)]


def group_count(payload: bytes | bytearray | memoryview) -> int:
    """The number of records in the group that a record with this payload begins."""
    return int(_GROUP.unpack_from(payload)[0])


def whole_records(raw: bytes | bytearray, length: int) -> tuple[int, int]:
    """The number of whole records in the first `length` bytes of encoded records, and their size.

    Of a group either all records are counted, or none.
    """
    count = at = 0
    open_until = whole_count = whole_at = 0
    while at + RECORD_HEAD <= length:
        _, size, _, _, kind = _RECORD.unpack_from(raw, at)
        end = at + RECORD_HEAD + size
        if end > length:
            break
        count += 1
        if kind == GROUP:
            open_until = count + group_count(raw[at + RECORD_HEAD : end])
        at = end
        if count >= open_until:
            whole_count, whole_at = count, at
    return whole_count, whole_at
