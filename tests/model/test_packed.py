"""Packed and unpacked again, a notification is the same one; bytes that nothing was packed to are refused."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import ValueRefused
from fairlead.model import Instant, Notification
from fairlead.model.encoding import notification_to_json
from fairlead.model.packed import pack, unpack
from fairlead.testing.strategies import notifications


@given(
    notifications(),
    st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.none() | st.integers(-(2**70), 2**70),
    st.none() | st.integers(0, 2**50).map(Instant),
)
def test_a_notification_comes_back_as_it_was(
    notification: Notification, id: str | None, producer: str, sequence: int | None, time: Instant | None
) -> None:
    given = replace(notification, id=id, producer=producer, sequence=sequence, time=time)
    back = unpack(pack(given))
    assert notification_to_json(back) == notification_to_json(given)
    assert back == given


def test_a_number_that_messagepack_cannot_hold_travels_as_json() -> None:
    given = Notification.of({"x": 2**100, "id": "1", "producer": "p"})
    assert pack(given)[:1] == b"{"
    assert unpack(pack(given)) == given


@given(
    st.binary(max_size=30)
    | st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3) | st.floats(),
        lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ).map(msgspec.msgpack.encode)
)
def test_whatever_the_bytes_they_are_a_notification_or_refused(raw: bytes) -> None:
    try:
        notification = unpack(raw)
    except ValueRefused:
        return
    assert isinstance(notification, Notification)


@pytest.mark.parametrize(
    "parts", [[], ["p", "i"], ["p", "i", {}, 1], [1, "i", {}], ["p", 2, {}], ["p", "i", 5]]
)
def test_what_is_no_notification_is_refused(parts: list[object]) -> None:
    with pytest.raises(ValueRefused):
        unpack(msgspec.msgpack.encode(parts))
