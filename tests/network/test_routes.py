"""A remembered route is the one that would be found again, whatever the notification and the filters."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead.model.packed import unpack, unpack_plain
from fairlead.network.routes import Names, Routes, is_plain, names_in
from fairlead.testing.strategies import filters

NAMES = ("a", "b", "price", "time", "id", "n.m")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.floats(),
    st.sampled_from(["", "x", "1", "2024-05-01T10:00:00Z"]),
)
FIELDS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)


@given(st.lists(filters(), max_size=4), st.lists(FIELDS, min_size=1, max_size=12))
def test_what_is_remembered_is_what_matches(given: list[Filter], streams: list[dict[str, object]]) -> None:
    names, routes = Names(), Routes[tuple[bool, ...]]()
    for filter in given:
        names.add(filter)
    routes.forget(names.names)

    def find(packed: bytes) -> tuple[bool, ...]:
        notification = unpack(packed)
        return tuple(filter.matches(notification) for filter in given)

    for fields in streams:
        packed = msgspec.msgpack.encode(["p", "1", fields])
        parts = unpack_plain(packed)
        if parts is not None and is_plain(parts[2]):
            assert routes.of(parts[2], find, packed) == find(packed)


@given(FIELDS)
def test_plain_fields_are_never_refused(fields: dict[str, object]) -> None:
    packed = msgspec.msgpack.encode(["p", "1", fields])
    parts = unpack_plain(packed)
    if parts is not None and is_plain(parts[2]):
        assert isinstance(unpack(packed), Notification)


def test_one_and_true_are_told_apart() -> None:
    routes = Routes[int]()
    routes.forget(frozenset({"a", "b"}))
    found = [routes.of({"a": value}, lambda value=value: hash(repr(value))) for value in (1, True, 1.5, "1")]
    assert len(set(found)) == 4


def test_a_route_is_looked_for_once_until_the_tables_change() -> None:
    asked: list[int] = []

    def find() -> int:
        asked.append(1)
        return len(asked)

    routes = Routes[int]()
    routes.forget(frozenset({"a"}))
    assert [routes.of({"a": 1, "b": other}, find) for other in range(3)] == [1, 1, 1]
    routes.forget(frozenset({"a"}))
    assert routes.of({"a": 1}, find) == 2
    routes.forget(None)
    assert [routes.of({"a": 1}, find), routes.of({"a": 1}, find)] == [3, 4]


def test_values_that_never_come_again_are_not_remembered_for_ever() -> None:
    routes = Routes[int]()
    routes.forget(frozenset({"a"}))
    for number in range(20_000):
        assert routes.of({"a": number}, int, number) == number
    assert not routes._routes


def test_what_filters_look_at() -> None:
    assert names_in([parse("a = 1 and (b > 2 or not exists c)"), parse("d in {1, 2}")]) == {
        "a",
        "b",
        "c",
        "d",
    }
    assert names_in([parse("a.b = 1")]) is None
