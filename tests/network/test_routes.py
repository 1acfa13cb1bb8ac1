"""A remembered route is the one that would be found again, whatever the notification and the filters."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.model import Notification, number_of
from fairlead.model.packed import unpack, unpack_plain
from fairlead.network.routes import Cells, Routes, is_plain
from fairlead.testing.strategies import filters

NAMES = ("a", "b", "price", "time", "id", "n.m")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.floats(),
    st.sampled_from(["", "x", "1", "2024-05-01T10:00:00Z"]),
)


def cells_of(*filters: Filter | str) -> Cells:
    cells = Cells()
    for filter in filters:
        cells.add(parse(filter) if isinstance(filter, str) else filter)
    return cells


FIELDS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)


@given(st.lists(filters(), max_size=4), st.lists(FIELDS, min_size=1, max_size=12))
def test_what_is_remembered_is_what_matches(given: list[Filter], streams: list[dict[str, object]]) -> None:
    routes = Routes[tuple[bool, ...]]()
    routes.forget(cells_of(*given))

    def find(packed: bytes) -> tuple[bool, ...]:
        notification = unpack(packed)
        return tuple(filter.matches(notification) for filter in given)

    packed = [msgspec.msgpack.encode(["p", "1", fields]) for fields in streams]
    plain = [(each, parts[2]) for each in packed if (parts := unpack_plain(each)) and is_plain(parts[2])]
    found, fields = [find(each) for each, _ in plain], [each for _, each in plain]
    for place, each in enumerate(fields):
        assert routes.of([each], found[place:].__getitem__) == [found[place]]
    assert routes.of(fields, found.__getitem__) == found


@given(FIELDS)
def test_plain_fields_are_never_refused(fields: dict[str, object]) -> None:
    packed = msgspec.msgpack.encode(["p", "1", fields])
    parts = unpack_plain(packed)
    if parts is not None and is_plain(parts[2]):
        assert isinstance(unpack(packed), Notification)


def test_one_and_true_are_told_apart() -> None:
    routes = Routes[int]()
    routes.forget(cells_of("a = 1 and b = 2"))
    values = (1, True, 1.5, "1")
    assert routes.of([{"a": value} for value in values], lambda place: place) == [0, 1, 2, 3]


def test_what_is_not_a_number_is_not_below_any() -> None:
    routes = Routes[int]()
    routes.forget(cells_of("a < 5", "a >= 7"))
    values = (float("nan"), -1.0, float("-inf"), float("inf"), 7)
    assert routes.of([{"a": value} for value in values], lambda place: place) == [0, 1, 1, 3, 4]


def test_numbers_that_no_float_can_hold_are_told_apart() -> None:
    for filter in ("a > 1e400", "a < -1e400", "a in {1, 1e400}", "a in [1, 1e400]"):
        routes = Routes[int]()
        routes.forget(cells_of(filter))
        values = (1, 2, 1e308, 10**400, 10**400 + 1, float("inf"))
        assert routes.of([{"a": value} for value in values], lambda place: place) == [*range(6)], filter


def test_a_route_is_looked_for_once_until_the_tables_change() -> None:
    asked: list[int] = []

    def find(_: int) -> int:
        asked.append(1)
        return len(asked)

    routes = Routes[int]()
    routes.forget(cells_of("a = 1"))
    assert routes.of([{"a": 1, "b": other} for other in range(3)], find) == [1, 1, 1]
    routes.forget(cells_of("a = 1"))
    assert routes.of([{"a": 1}], find) == [2]
    routes.forget(cells_of("a.b = 1"))
    assert routes.of([{"a": 1}, {"a": 1}], find) == [3, 4]
    routes.forget(cells_of())
    assert routes.of([{"a": 1}, {"b": 1}], find) == [5, 5]


def test_values_that_never_come_again_are_not_remembered_for_ever() -> None:
    routes = Routes[int]()
    routes.forget(cells_of("a + b > 1"))
    assert routes.of([{"a": number} for number in range(20_000)], lambda place: place) == [*range(20_000)]
    assert not routes._routes


def test_values_that_no_filter_tells_apart_go_one_way() -> None:
    keys = cells_of("price > 10 and price < 20", "price = 15 or price in {0.1, 7}", 'x in {"a", "b"}').keys()
    assert keys is not None

    def apart(*values: object, name: str = "price") -> int:
        return len(set(keys([{name: value} for value in values])))

    assert apart(11, 12.5, 14.999, 14) == 1
    assert apart(9, 10, 11, 15, 16, 20, 21, 7, 0.1, 0.2, 0, None, True, "a", ...) == 15
    assert apart(0.1, 0.10000000000000002, 0.09999999999999999) == 3
    assert apart("c", "d", "") == 1
    assert apart("a", "b", "c", name="x") == 3


EDGES = (float("nan"), float("inf"), float("-inf"))
CLOSE = st.sampled_from([0.1, 0.2, 0.3, 0.1 + 0.2, 1e16, 2.0**53, 2.5, 5e-324, 1e-7])


@given(
    st.lists(st.sampled_from(["=", "<", "<=", ">", ">=", "!="]), min_size=1, max_size=3),
    st.lists(CLOSE | st.integers(2**53 - 2, 2**53 + 2) | st.integers(-2, 3), min_size=1, max_size=3),
    st.lists(
        CLOSE | st.integers(2**53 - 3, 2**53 + 3) | st.integers(-3, 4) | st.sampled_from(EDGES),
        min_size=2,
        max_size=8,
    ),
)
def test_numbers_in_one_cell_match_alike(ops: list[str], cuts: list[float], values: list[float]) -> None:
    filters = [parse(f"a {op} {number_of(cut)}") for op in ops for cut in cuts]
    keys = cells_of(*filters).keys()
    assert keys is not None
    seen: dict[object, list[bool]] = {}
    for value, key in zip(values, keys([{"a": value} for value in values]), strict=True):
        found = [filter.matches(Notification.of({"a": value})) for filter in filters]
        assert seen.setdefault(key, found) == found


def test_filters_that_look_at_more_than_attributes_leave_nothing_to_remember() -> None:
    assert cells_of("a.b = 1").keys() is None
    assert cells_of(*(f"a{number} = 1" for number in range(17))).keys() is None
