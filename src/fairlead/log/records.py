"""The records of a broker's log: publications, arrivals from its neighbours, changes of its state.

Whoever reads a broker's log finds the notifications in the records of `NOTIFICATIONS`. Each of them was published
at one broker, its origin, and has a position there: its place in the origin's log, counted from 1. A publication
has neither in its record, for they are the log's own; an arrival has both, as they came. The payloads:

    publication     the notification
    arrival         u16 length of the neighbour's name, the name, then the relay as it came: u64 number in the
                    neighbour's log, the stamp (u64 position, u16 length of the origin's name, the name), and the
                    notification
    first arrival   as logs had it before: u64 number, u16 length of the neighbour's name, the name, the
                    notification; its origin is not known, and its position is 0
    recalled        u16 length of a durable subscriber's name, the name, then an arrival with the number 0: what
                    was published elsewhere before that subscriber began; it is for this one alone

The records of a transaction are those of its publications and one change of state, what is accepted with them; a
record of the kind `GROUP` before them makes them whole (`fairlead.log.format`).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from fairlead.errors import DamagedLog
from fairlead.log.format import Record

__all__ = [
    "ARRIVAL",
    "ARRIVALS",
    "NOTIFICATIONS",
    "PUBLICATION",
    "RECALLED",
    "STAMP_BYTES",
    "STATE",
    "UNSTAMPED_ARRIVAL",
    "Arrival",
    "Stamp",
    "arrival_head",
    "notification_in",
    "origin_of",
    "parse_arrival",
    "parse_origin",
    "parse_relayed",
    "parse_stamp",
    "recalled_by",
    "recalled_head",
    "relayed_in",
    "stamp",
]

PUBLICATION, UNSTAMPED_ARRIVAL, STATE, ARRIVAL, RECALLED = 1, 2, 3, 4, 5
ARRIVALS: Final = (ARRIVAL, UNSTAMPED_ARRIVAL)
NOTIFICATIONS: Final = (PUBLICATION, *ARRIVALS)
"""The kinds of records that have a notification, for whoever wants it."""

_UNSTAMPED: Final = struct.Struct("<QH")
_LENGTH: Final = struct.Struct("<H")
_RELAYED: Final = struct.Struct("<QQH")
_STAMP: Final = struct.Struct("<QH")
_NUMBER_BYTES: Final = 8
STAMP_BYTES: Final = _STAMP.size
"""The length of a stamp without the origin's name."""


_INCARNATION: Final = b"~"
"""In a redundant network, what stands between the name of an origin and the incarnation of its log."""


class Stamp(NamedTuple):
    """The place of a publication: at this broker, as the record with this number of its log, from 1.

    The position 0 says that it is in no log there, or that this is not known.
    """

    origin: str
    position: int


class Arrival(NamedTuple):
    """A notification that a neighbour relayed, and its number in that neighbour's log, counted from 1."""

    neighbour: str
    offset: int
    stamp: bytes
    packed: bytes


def stamp(origin: bytes, position: int) -> bytes:
    """The bytes of a stamp, with the origin's name in UTF-8."""
    return _STAMP.pack(position, len(origin)) + origin


def origin_of(broker: str, incarnation: str) -> bytes:
    """The origin of what is in one incarnation of a broker's log: in another one, positions may come again."""
    return broker.encode() + _INCARNATION + incarnation.encode()


def parse_origin(origin: bytes) -> tuple[bytes, bytes]:
    """The broker's name, and the incarnation of its log; empty where the origin does not say which."""
    broker, _, incarnation = origin.rpartition(_INCARNATION)
    return (broker, incarnation) if broker else (origin, b"")


def parse_relayed(relayed: bytes, at: int = 0) -> tuple[int, int]:
    """The number of a relay that begins at this byte, and where its notification begins; struct.error: it ends
    before that."""
    number, _, length = _RELAYED.unpack_from(relayed, at)
    begin = at + _RELAYED.size + length
    if begin > len(relayed):
        raise struct.error
    return number, begin


def parse_stamp(raw: bytes) -> Stamp:
    """The stamp in its bytes; of none, the stamp of what is in no log."""
    if not raw:
        return Stamp("", 0)
    return Stamp(raw[STAMP_BYTES:].decode(errors="replace"), _STAMP.unpack_from(raw)[0])


def arrival_head(neighbour: str) -> bytes:
    """The beginning of an arrival from this neighbour; the relay follows as it came."""
    name = neighbour.encode()
    return _LENGTH.pack(len(name)) + name


def recalled_head(durable: str) -> bytes:
    """The beginning of what was recalled for this durable subscriber; an arrival follows."""
    return arrival_head(durable)


def recalled_by(record: Record) -> str:
    """The durable subscriber that something was recalled for."""
    begin = _LENGTH.size
    return record.payload[begin : begin + _LENGTH.unpack_from(record.payload)[0]].decode()


def parse_arrival(record: Record) -> Arrival:
    """The notification in a record, and from where it came."""
    payload = record.payload
    try:
        if record.kind == RECALLED:
            payload = payload[_LENGTH.size + _LENGTH.unpack_from(payload)[0] :]
        if record.kind == UNSTAMPED_ARRIVAL:
            number, length = _UNSTAMPED.unpack_from(payload)
            begin = _UNSTAMPED.size
            stamped = end = begin + length
        else:
            begin = _LENGTH.size
            length = _LENGTH.unpack_from(payload)[0]
            number, end = parse_relayed(payload, begin + length)
            stamped = begin + length + _NUMBER_BYTES
        if end > len(payload):
            raise struct.error
    except struct.error:
        raise DamagedLog(f"the record {record.offset} is no arrival: it ends before its head does") from None
    return Arrival(payload[begin : begin + length].decode(), number, payload[stamped:end], payload[end:])


def relayed_in(record: Record) -> bytes:
    """The relay in the record of an arrival, as it came; without an origin, where none is in the record."""
    if record.kind == UNSTAMPED_ARRIVAL:
        arrived = parse_arrival(record)
        return _RELAYED.pack(arrived.offset, 0, 0) + arrived.packed
    return record.payload[_LENGTH.size + _LENGTH.unpack_from(record.payload)[0] :]


def notification_in(record: Record) -> bytes:
    """The packed notification in a record that has one."""
    return record.payload if record.kind == PUBLICATION else parse_arrival(record).packed
