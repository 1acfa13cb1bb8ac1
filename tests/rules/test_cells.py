"""A remembered answer is the one that would be found again, whatever the notification and the filters."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.model import Notification, number_of
from fairlead.model.packed import PlainParts, unpack, unpack_plain
from fairlead.rules import Cells, Memory, is_plain
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


def parts_of(*each: dict[str, Any]) -> list[PlainParts]:
    return [("p", "1", fields) for fields in each]


FIELDS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)


@given(st.lists(filters(), max_size=4), st.lists(FIELDS, min_size=1, max_size=12))
def test_what_is_remembered_is_what_matches(given: list[Filter], streams: list[dict[str, object]]) -> None:
    memory = Memory[tuple[bool, ...]]()
    memory.forget(cells_of(*given).keys())

    def find(packed: bytes) -> tuple[bool, ...]:
        notification = unpack(packed)
        return tuple(filter.matches(notification) for filter in given)

    packed = [msgspec.msgpack.encode(["p", "1", fields]) for fields in streams]
    plain = [(each, parts) for each in packed if (parts := unpack_plain(each)) and is_plain(parts[2])]
    found, several = [find(each) for each, _ in plain], [each for _, each in plain]
    for index, parts in enumerate(several):
        assert memory.of([parts], found[index:].__getitem__) == [found[index]]
    assert memory.of(several, found.__getitem__) == found


@given(st.lists(st.lists(filters(), max_size=3), min_size=1, max_size=3), st.lists(FIELDS, max_size=8))
def test_cells_joined_tell_apart_what_all_filters_together_do(
    given: list[list[Filter]], streams: list[dict[str, object]]
) -> None:
    together = cells_of(*(each for several in given for each in several)).keys()
    joined = Cells.joined(*(cells_of(*several) for several in given)).keys()
    assert (joined is None) == (together is None)
    if joined is not None and together is not None:
        plain = [each for each in parts_of(*streams) if is_plain(each[2])]
        one, other = joined.of(plain), together.of(plain)
        assert [*map(one.index, one)] == [*map(other.index, other)]
        assert one == [*map(joined.one, plain)]


@given(FIELDS)
def test_plain_fields_are_never_refused(fields: dict[str, object]) -> None:
    packed = msgspec.msgpack.encode(["p", "1", fields])
    parts = unpack_plain(packed)
    if parts is not None and is_plain(parts[2]):
        assert isinstance(unpack(packed), Notification)


def test_one_and_true_are_told_apart() -> None:
    memory = Memory[int]()
    memory.forget(cells_of("a = 1 and b = 2").keys())
    values = (1, True, 1.5, "1")
    assert memory.of(parts_of(*[{"a": value} for value in values]), lambda index: index) == [0, 1, 2, 3]


def test_what_is_not_a_number_is_not_below_any() -> None:
    memory = Memory[int]()
    memory.forget(cells_of("a < 5", "a >= 7").keys())
    values = (float("nan"), -1.0, float("-inf"), float("inf"), 7)
    assert memory.of(parts_of(*[{"a": value} for value in values]), lambda index: index) == [0, 1, 1, 3, 4]


def test_numbers_that_no_float_can_hold_are_told_apart() -> None:
    for filter in ("a > 1e400", "a < -1e400", "a in {1, 1e400}", "a in [1, 1e400]"):
        memory = Memory[int]()
        memory.forget(cells_of(filter).keys())
        values = (1, 2, 1e308, 10**400, 10**400 + 1, float("inf"))
        assert memory.of(parts_of(*[{"a": value} for value in values]), lambda index: index) == [*range(6)], (
            filter
        )


def test_an_answer_is_found_once_until_the_tables_change() -> None:
    asked: list[int] = []

    def find(_: int) -> int:
        asked.append(1)
        return len(asked)

    memory = Memory[int]()
    memory.forget(cells_of("a = 1").keys())
    assert memory.of(parts_of(*[{"a": 1, "b": other} for other in range(3)]), find) == [1, 1, 1]
    memory.forget(cells_of("a = 1").keys())
    assert memory.of(parts_of({"a": 1}), find) == [2]
    memory.forget(cells_of("a.b = 1").keys())
    assert memory.of(parts_of({"a": 1}, {"a": 1}), find) == [3, 4]
    memory.forget(cells_of().keys())
    assert memory.of(parts_of({"a": 1}, {"b": 1}), find) == [5, 5]


def test_values_that_never_come_again_are_not_remembered_for_ever() -> None:
    memory = Memory[int]()
    memory.forget(cells_of("a + b > 1").keys())
    assert memory.of(parts_of(*[{"a": number} for number in range(20_000)]), lambda index: index) == [
        *range(20_000)
    ]
    assert not memory._answers


def test_values_that_no_filter_tells_apart_are_one() -> None:
    keys = cells_of("price > 10 and price < 20", "price = 15 or price in {0.1, 7}", 'x in {"a", "b"}').keys()
    assert keys is not None

    def apart(*values: object, name: str = "price") -> int:
        return len(set(keys.of(parts_of(*[{name: value} for value in values]))))

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
    for value, key in zip(values, keys.of(parts_of(*[{"a": value} for value in values])), strict=True):
        found = [filter.matches(Notification.of({"a": value})) for filter in filters]
        assert seen.setdefault(key, found) == found


def test_filters_that_look_at_more_than_attributes_leave_nothing_to_remember() -> None:
    assert cells_of("a.b = 1").keys() is None
    assert cells_of(*(f"a{number} = 1" for number in range(17))).keys() is None
