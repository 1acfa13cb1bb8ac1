"""Every value has one kind; two values are the same iff their keys are equal."""

from __future__ import annotations

import datetime as dt
import pickle
from collections import OrderedDict
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import ValueRefused
from fairlead.model import (
    ABSENT,
    Array,
    Instant,
    Interval,
    Kind,
    Multi,
    Point,
    Record,
    Rectangle,
    Tuple,
    key_of,
    kind_of,
    number_of,
    value_of,
)

numbers = (
    st.integers()
    | st.integers(2**53 - 2, 2**53 + 2)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False, places=2)
    | st.sampled_from([0.1, 1e23, 10**23, Decimal("0.1"), Decimal("1E+23"), 2.0**53, 5e-324, -0.0])
)


def exactly(number: float | Decimal) -> Fraction:
    """The oracle: a float stands for its shortest decimal, everything else for itself."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


@given(numbers, numbers)
@settings(max_examples=300)
def test_numbers_have_one_key_iff_they_are_one_number(one: Any, other: Any) -> None:
    assert (key_of(one) == key_of(other)) == (exactly(one) == exactly(other))
    assert (key_of(one) < key_of(other)) == (exactly(one) < exactly(other))


@given(numbers)
def test_the_canonical_number_is_the_number(number: Any) -> None:
    assert Fraction(number_of(number)) == exactly(number)
    assert number_of(number_of(number)) == number_of(number)


def test_neighbours_beyond_the_floats_differ() -> None:
    assert key_of(2**53) != key_of(2**53 + 1)
    assert key_of(2.0**53) == key_of(2**53)


def test_a_double_stands_for_its_shortest_decimal() -> None:
    assert key_of(0.1) == key_of(Decimal("0.1")) == key_of(Decimal("0.10"))
    assert key_of(0.1) != key_of(Decimal.from_float(0.1))
    assert key_of(1e23) == key_of(10**23)


def test_booleans_are_not_numbers() -> None:
    assert kind_of(True) is Kind.BOOLEAN
    assert key_of(True) != key_of(1)
    assert len(Multi([1, True, 1.0, Decimal("1.0")]).elements) == 2


def test_nan_is_one_value_of_its_own_kind() -> None:
    assert kind_of(float("nan")) is kind_of(Decimal("NaN")) is kind_of(Decimal("sNaN")) is Kind.NAN
    assert key_of(float("nan")) == key_of(Decimal("NaN"))


class Level(IntEnum):
    HIGH = 3


class Thing:
    pass


@pytest.mark.parametrize(
    ("given_by_user", "kind"),
    [
        (None, Kind.NULL),
        (False, Kind.BOOLEAN),
        (Level.HIGH, Kind.NUMBER),
        (Decimal("Infinity"), Kind.NUMBER),
        ("a", Kind.STRING),
        (bytearray(b"a"), Kind.BYTES),
        (memoryview(b"a"), Kind.BYTES),
        (dt.datetime(2024, 5, 1, tzinfo=dt.UTC), Kind.TIME),
        ({1, 2}, Kind.SET),
        ([1, "a", None], Kind.SET),
        ((1, 2), Kind.SET),
        ([], Kind.SET),
        ([1, [2]], Kind.ARRAY),
        ([{"a": 1}], Kind.ARRAY),
        ({"a": 1}, Kind.RECORD),
        (Tuple((1, 2)), Kind.TUPLE),
        (Point(1, 2), Kind.POINT),
        (Interval(1, 2), Kind.INTERVAL),
        (Rectangle(0, 0, 1, 1), Kind.RECTANGLE),
        (Thing(), Kind.OBJECT),
    ],
)
def test_what_users_write_becomes_a_value_of_one_kind(given_by_user: Any, kind: Kind) -> None:
    value = value_of(given_by_user)
    assert kind_of(value) is kind
    assert value_of(value) == value


@pytest.mark.parametrize(
    "make",
    [
        lambda: value_of("\ud800"),
        lambda: value_of(ABSENT),
        lambda: value_of({"a": "\udfff"}),
        lambda: value_of(Decimal("1E+7000")),
        lambda: value_of(Decimal("1E-7000")),
        lambda: value_of(dt.datetime(2024, 5, 1)),
        lambda: value_of(10**4300),
        lambda: value_of(Decimal("1E+4300")),
        lambda: Point(Decimal("Infinity"), 0),
        lambda: Interval(10**5000, 1),
        lambda: Record({".".join("a" * 101): 1}),
        lambda: Tuple((10**4300,)),
        lambda: Multi([[1]]),
        lambda: Multi([{"a": 1}]),
        lambda: Point(float("nan"), 0),
        lambda: Point(float("inf"), 0),
        lambda: Point("1", 0),
        lambda: Point(True, 0),
        lambda: Interval(2, 1),
        lambda: Rectangle(0, 0, -1, 0),
        lambda: Record({"a..b": 1}),
        lambda: Record({"": 1}),
        lambda: Record({".a": 1}),
        lambda: Record({"a.": 1}),
        lambda: Record({1: 2}),
    ],
)
def test_what_no_notification_may_hold_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueRefused):
        make()


# -- instants ----------------------------------------------------------------------------------------------


@given(st.datetimes(timezones=st.just(dt.UTC)))
def test_an_instant_survives_as_text_and_as_datetime(moment: dt.datetime) -> None:
    instant = Instant.of(moment)
    assert instant.datetime() == moment
    assert Instant.parse(str(instant)) == instant


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2024-05-01T12:00:00+02:00", "2024-05-01T10:00:00Z"),
        ("2024-05-01t10:00:00z", "2024-05-01T10:00:00Z"),
        ("2024-05-01T10:00:00.5-00:30", "2024-05-01T10:30:00.500000Z"),
        ("2024-05-01T10:00:00.1234560000Z", "2024-05-01T10:00:00.123456Z"),
    ],
)
def test_one_instant_has_many_spellings(text: str, same: str) -> None:
    assert Instant.parse(text) == Instant.parse(same)


@pytest.mark.parametrize(
    "text",
    [
        "2024-02-30T10:00:00Z",
        "2024-05-01T25:00:00Z",
        "2024-05-01T10:00:00.1234567Z",
        "2024-05-01T10:00:00+24:00",
        "2024-05-01T10:00:00-00:60",
        "2024-05-01T10:00:00Z\n",
        "٢٠٢٤-05-01T10:00:00Z",
        "now",
        "",
    ],
)
def test_what_names_no_instant_exactly_is_refused(text: str) -> None:
    with pytest.raises(ValueRefused):
        Instant.parse(text)


def test_an_offset_can_carry_an_instant_beyond_the_calendar() -> None:
    beyond = Instant.parse("9999-12-31T23:59:59-23:00")
    assert beyond > Instant.parse("9999-12-31T23:59:59Z")
    assert str(beyond).endswith("us")


# -- sets, lists, records ----------------------------------------------------------------------------------

simple = st.none() | st.booleans() | numbers | st.text("ab", max_size=2) | st.binary(max_size=1)


@given(st.lists(simple), simple)
def test_a_set_holds_what_was_put_in(items: list[Any], other: Any) -> None:
    held = Multi(items)
    assert all(item in held for item in items)
    assert (other in held) == (key_of(other) in {key_of(item) for item in items})
    assert held == Multi(reversed(items))
    assert hash(held) == hash(Multi(reversed(items)))
    assert list(map(key_of, held.elements)) == sorted(held.keys)
    assert list(map(key_of, held)) == list(map(key_of, items))
    assert list(map(key_of, held.as_set())) == sorted(held.keys)


def test_lists_keep_order_and_repetition_and_sets_do_not() -> None:
    assert Tuple((1, 2)) != Tuple((2, 1))
    assert Tuple((1, 1)) != Tuple((1,))
    assert Tuple((1,)) == Tuple((1.0,))
    assert Tuple((1,)) != Array((1,))
    assert Multi([2, 1, 1]) == Multi([1, 2])
    assert len({key_of(Multi(())), key_of(Array(())), key_of(Tuple(()))}) == 3


def test_dotted_names_open_up_into_records() -> None:
    record = Record({"a.b": 1, "a.c.d": 2, "a": {"c": {"e": 3}}, "f": {"g.h": 4}})
    assert record == Record({"a": {"b": 1, "c": {"d": 2, "e": 3}}, "f": {"g": {"h": 4}}})
    assert record["a.c.e"] == 3
    assert record.lookup("a.b.c") is ABSENT
    assert "f.g" in record
    assert "f.x" not in record
    assert 1 not in record
    with pytest.raises(KeyError):
        record["x"]


@pytest.mark.parametrize(
    "fields",
    [
        {"a": 1, "a.b": 2},
        {"a.b": 2, "a": 1},
        {"a.b": 1, "a": {"b": 2}},
        {"a": {"b": 1}, "a.b": 1},
        {"a": {"b.c": 1, "b": {"c": 2}}},
        {"a": [1], "a.b": 1},
    ],
)
def test_names_that_clash_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueRefused, match=r"given twice|value already"):
        Record(fields)


def test_records_are_compared_by_content_whatever_the_order() -> None:
    one, other = Record({"a": 1, "b": {"c": 2}}), Record({"b.c": 2.0, "a": Decimal("1.0")})
    assert one == other
    assert hash(one) == hash(other)
    assert one != Record({"a": True, "b.c": 2})


def test_public_members_of_objects_are_reached_by_dotted_names() -> None:
    class Quote:
        symbol = "IBM"
        _secret = 1

        def ask(self) -> int:
            return 2

    record = Record({"quote": Quote()})
    assert record["quote.symbol"] == "IBM"
    assert record.lookup("quote._secret") is ABSENT
    assert record.lookup("quote.ask") is ABSENT


@pytest.mark.parametrize(
    "value",
    [
        Multi([1, "a"]),
        Tuple((1,)),
        Array(()),
        Record({"a.b": {1}}),
        Instant(5),
        Point(0.5, 1),
        Interval(1, 2),
    ],
)
def test_values_travel_between_processes(value: Any) -> None:
    assert pickle.loads(pickle.dumps(value)) == value


# -- the short ways: what is done quickly for the usual types and spellings is what is done for all ---------


class Name(str):
    """A string whose type is not `str`: it is told by its class, the long way."""


class Whole(int):
    pass


class Real(float):
    pass


class Row(list[Any]):
    pass


def outcome(make: Callable[[], Any]) -> Any:
    """What comes out, down to types, order and levels, or the reason of the refusal."""
    try:
        return shape(make())
    except ValueRefused as error:
        return str(error)


def shape(value: Any) -> Any:
    match value:
        case Record():
            return "record", value.levels, [(type(name), name, shape(item)) for name, item in value.items()]
        case Array() | Tuple():
            return type(value), value.levels, list(map(shape, value))
        case Multi():
            return Multi, list(map(shape, value))
        case _:
            return type(value), repr(value)


def the_long_way(written: Any) -> Any:
    """The same, in subclasses of the types that users write most."""
    match written:
        case dict():
            return OrderedDict((Name(name), the_long_way(item)) for name, item in written.items())
        case list():
            return Row(map(the_long_way, written))
        case str():
            return Name(written)
        case int() if not isinstance(written, bool):
            return Whole(written)
        case float():
            return Real(written)
        case _:
            return written


steps = st.sampled_from(["a", "b", "c", "é", "a.b", "a.c", "b.a.c", "", ".a", "a..b", "\ud800"])
written = st.recursive(
    simple
    | st.sampled_from([4299, 4300]).map(lambda digits: 10**digits)
    | st.sampled_from(["é", "\ud800", ABSENT, Decimal("1E+5000"), float("nan")]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(steps, inner, max_size=4),
    max_leaves=10,
)


@given(written)
@settings(max_examples=300)
def test_the_type_of_what_users_write_changes_only_how_soon_it_is_a_value(given_by_user: Any) -> None:
    assert outcome(lambda: value_of(given_by_user)) == outcome(lambda: value_of(the_long_way(given_by_user)))


def depth(value: Any) -> int:
    """The oracle of `levels`: a simple value has none, what holds values one more than the deepest of them."""
    match value:
        case Record():
            return 1 + max(map(depth, value.values()), default=0)
        case Array() | Tuple() | Multi():
            return 1 + max(map(depth, value), default=0)
        case _:
            return 0


@given(st.dictionaries(st.sampled_from(["a", "b.c", "b.d"]), written, min_size=1))
def test_the_levels_of_a_record_are_counted_as_it_is_made(fields: dict[str, Any]) -> None:
    try:
        record = Record(fields)
    except ValueRefused:
        return
    assert record.levels == depth(record)


@given(st.lists(simple | st.just(Decimal("NaN"))))
def test_a_list_of_simple_values_is_the_set_of_them(items: list[Any]) -> None:
    assert outcome(lambda: value_of(items)) == outcome(lambda: Multi(items))


@given(numbers | st.floats(1e-8, 1e-2) | st.floats(2.0**52, 2.0**54))
@settings(max_examples=300)
def test_the_number_of_a_float_is_that_of_its_shortest_decimal(number: Any) -> None:
    decimal = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    assert str(number_of(number)) == str(number_of(decimal))


clocks = st.builds(
    "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}".format,
    st.sampled_from([0, 1, 1969, 1970, 2023, 2024, 9999]),
    st.integers(0, 13),
    st.sampled_from([0, 1, 28, 29, 30, 31, 32]),
    st.sampled_from([0, 1, 23, 24, 25, 99]),
    st.sampled_from([0, 59, 60]),
    st.sampled_from([0, 59, 60]),
    st.sampled_from(["", ".000", ".123", ".123456", ".1", ".1234567", ".1234560", "."]),
)


@given(clocks)
@settings(max_examples=400)
def test_the_usual_spelling_of_an_instant_means_what_every_other_does(clock: str) -> None:
    usual = outcome(lambda: Instant.parse(f"{clock}Z"))
    for zone in ("z", "+00:00", "-00:00"):
        other = outcome(lambda zone=zone: Instant.parse(f"{clock}{zone}"))  # type: ignore[misc]
        assert usual == (other.replace(f"{clock}{zone}", f"{clock}Z") if isinstance(other, str) else other)


@given(st.integers(-(10**17), 3 * 10**17).map(Instant))
def test_an_instant_is_written_as_its_datetime_is(instant: Instant) -> None:
    if instant < Instant.parse("0001-01-01T00:00:00Z") or instant > Instant.parse(
        "9999-12-31T23:59:59.999999Z"
    ):
        assert str(instant) == f"{instant.microseconds}us"
    else:
        assert str(instant) == instant.datetime().isoformat().replace("+00:00", "Z")


@given(st.dictionaries(st.sampled_from(["a", "b", "c.d", "c.e"]), simple))
def test_the_views_of_a_record_are_what_its_names_lead_to(fields: dict[str, Any]) -> None:
    record = Record(fields)
    assert list(record.items()) == [(name, record[name]) for name in record]
    assert list(record.values()) == [record[name] for name in record]


def test_a_dotted_name_after_many_levels_costs_no_more_than_one_look_at_each() -> None:
    looked = 0

    class Counted(dict[str, Any]):
        def items(self) -> Any:
            nonlocal looked
            looked += 1
            return super().items()

    nested: Any = 1
    for _ in range(50):
        nested = Counted({"a": nested, "x.y": 1})
    Record(nested)
    assert looked == 50


def test_a_record_is_pickled_without_its_hash_which_another_process_computes_otherwise() -> None:
    record = Record({"a": 1, "b": {"c": "text"}})
    assert hash(record) == hash(Record({"b": {"c": "text"}, "a": 1.0}))
    again = pickle.loads(pickle.dumps(record))
    assert again == record
    assert not hasattr(again, "_hash")
    assert hash(again) == hash(record)
