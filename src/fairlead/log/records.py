"""The records of a broker's log: publications, arrivals from its neighbours, changes of its state.

Whoever reads a broker's log finds the notifications in the records of the first two kinds.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from fairlead.errors import DamagedLog
from fairlead.log.format import Record

__all__ = ["ARRIVAL", "PUBLICATION", "STATE", "Arrival", "arrival", "notification_in", "parse_arrival"]

PUBLICATION, ARRIVAL, STATE = 1, 2, 3

_ARRIVED: Final = struct.Struct("<QH")


class Arrival(NamedTuple):
    """A notification that a neighbour relayed, and its number in that neighbour's log, counted from 1."""

    neighbour: str
    offset: int
    packed: bytes


def arrival(neighbour: str, offset: int, packed: bytes) -> bytes:
    """The payload of an arrival."""
    name = neighbour.encode()
    return b"".join((_ARRIVED.pack(offset, len(name)), name, packed))


def parse_arrival(record: Record) -> Arrival:
    """The notification in a record, and from where it came."""
    start = _ARRIVED.size
    if len(record.payload) < start:
        raise DamagedLog(f"the record {record.offset} is no arrival: it ends before its head does")
    offset, length = _ARRIVED.unpack_from(record.payload)
    return Arrival(record.payload[start : start + length].decode(), offset, record.payload[start + length :])


def notification_in(record: Record) -> bytes:
    """The packed notification in a record that has one."""
    return record.payload if record.kind == PUBLICATION else parse_arrival(record).packed
