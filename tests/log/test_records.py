"""The records of a broker's log: what is written is read, and what an older release wrote is read, too."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import DamagedLog
from fairlead.log import Record
from fairlead.log.records import (
    ARRIVAL,
    PUBLICATION,
    UNSTAMPED_ARRIVAL,
    Stamp,
    arrival_head,
    notification_in,
    parse_arrival,
    parse_stamp,
    relayed_in,
    stamp,
)

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(0, 2**64 - 1)


@given(names, numbers, names, numbers, st.binary(max_size=40))
def test_an_arrival_is_read_as_it_was_written(
    neighbour: str, number: int, origin: str, position: int, packed: bytes
) -> None:
    published = stamp(origin.encode(), position)
    relayed = struct.pack("<Q", number) + published + packed
    record = Record(7, 0, ARRIVAL, arrival_head(neighbour) + relayed)
    assert relayed_in(record) == relayed
    assert parse_arrival(record) == (neighbour, number, published, packed)
    assert parse_stamp(published) == Stamp(origin, position)
    assert notification_in(record) == packed


@given(names, numbers, st.binary(max_size=40))
def test_an_arrival_of_an_older_release_has_no_origin(neighbour: str, number: int, packed: bytes) -> None:
    name = neighbour.encode()
    payload = struct.pack("<QH", number, len(name)) + name + packed
    arrived = parse_arrival(Record(7, 0, UNSTAMPED_ARRIVAL, payload))
    assert arrived == (neighbour, number, b"", packed)
    assert parse_stamp(arrived.stamp) == Stamp("", 0)
    stamped = relayed_in(Record(7, 0, UNSTAMPED_ARRIVAL, payload))
    assert stamped == struct.pack("<Q", number) + stamp(b"", 0) + packed


@given(st.data())
def test_an_arrival_that_ends_before_its_stamp_does_is_damage(data: st.DataObject) -> None:
    whole = arrival_head("north") + struct.pack("<Q", 5) + stamp(b"west", 9)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DamagedLog, match="the record 7 is no arrival"):
        parse_arrival(Record(7, 0, ARRIVAL, whole[:cut]))


def test_a_publication_is_its_notification() -> None:
    assert notification_in(Record(0, 0, PUBLICATION, b"packed")) == b"packed"
