"""Decoding what was encoded gives the same value; equal bytes mean equal values."""

from __future__ import annotations

import json
import sys
from collections import OrderedDict
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import ValueRefused
from fairlead.model import (
    Array,
    Element,
    Instant,
    Interval,
    Kind,
    Multi,
    Notification,
    Point,
    Record,
    Rectangle,
    Tuple,
    key_of,
    kind_of,
)
from fairlead.model.encoding import (
    DEPTH_MAX,
    canonical,
    canonical_content,
    content_hash,
    decode,
    encode,
    fields_from_json,
    fields_to_json,
    format_json,
    notification_from_json,
    notification_to_json,
    parse_json,
    parse_number,
)

# -- every kind of value, with the numbers and names that are likely to be confused ------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
numbers = (
    st.integers()
    | st.sampled_from([0, 1, 2**53, 2**53 + 1, 10**23, -(10**400)])
    | st.floats(allow_nan=False)
    | st.sampled_from([0.1, 1.0, -0.0, 1e23, 5e-324, 1e300])
    | st.decimals(allow_nan=False, allow_infinity=False, places=3)
    | st.sampled_from(
        list(map(Decimal, ["0.1", "0.10", "1.0", "1E+23", "-0", "Infinity", "1E-400", "1E+400", "1.5E+4000"]))
    )
)
finite = st.integers(-20, 20) | st.floats(-20, 20) | st.decimals(-20, 20, places=2) | st.just(10**40)
instants = st.integers(-(2**58), 2**58).map(Instant) | st.just(Instant(10**30))
simple = (
    st.none()
    | st.booleans()
    | numbers
    | st.sampled_from([float("nan"), Decimal("NaN")])
    | texts
    | st.binary(max_size=5)
    | instants
)
boxes = st.tuples(finite, finite, finite, finite).map(
    lambda c: Rectangle(min(c[0], c[2]), min(c[1], c[3]), max(c[0], c[2]), max(c[1], c[3]))
)
intervals = st.tuples(finite, finite).map(lambda pair: Interval(min(pair), max(pair)))
names = st.sampled_from(["a", "b", "$time", "$record", "$set", "$x", "tuple", "time", "é", "$"])


def containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    rows = st.lists(values, max_size=3).map(tuple)
    return rows.map(Array) | rows.map(Tuple) | st.dictionaries(names, values, max_size=3).map(Record)


flat = simple | st.lists(simple, max_size=4).map(Multi) | st.builds(Point, finite, finite) | intervals | boxes
values = st.recursive(flat, containers, max_leaves=8)


@given(values)
@settings(max_examples=300)
def test_decoding_what_was_encoded_gives_the_same_value(value: Any) -> None:
    assert key_of(decode(encode(value))) == key_of(value)


@given(values)
@settings(max_examples=200)
def test_every_value_survives_as_text(value: Any) -> None:
    assert key_of(decode(parse_json(format_json(encode(value)).encode()))) == key_of(value)


@given(values)
@settings(max_examples=100)
def test_what_is_written_is_json_that_others_read(value: Any) -> None:
    assert json.loads(format_json(encode(value))) == encode(value)


@given(st.dictionaries(names, values.filter(lambda value: kind_of(value) is not Kind.OBJECT), max_size=4))
@settings(max_examples=150)
def test_a_flat_record_survives_with_plain_tuples_and_times(fields: dict[str, Any]) -> None:
    if kind_of(fields.get("time")) in (Kind.STRING, Kind.NUMBER):
        del fields["time"]
    if kind_of(fields.get("tuple")) in (Kind.SET, Kind.ARRAY):  # what stands there is read by position
        del fields["tuple"]
    record = Record(fields)
    assert Record(fields_from_json(parse_json(format_json(fields_to_json(record))))) == record


@given(values, values)
@settings(max_examples=300)
def test_canonical_bytes_are_equal_iff_the_values_are(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) == (key_of(one) == key_of(other))
    assert canonical(decode(encode(one))) == canonical(one)


@given(simple, simple)
@settings(max_examples=300)
def test_canonical_bytes_of_simple_values_are_equal_iff_the_values_are(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) == (key_of(one) == key_of(other))


LOOKALIKES: list[Any] = [
    None,
    False,
    True,
    0,
    1,
    0.5,
    "1",
    "null",
    b"1",
    Instant(1),
    float("nan"),
    float("inf"),
    float("-inf"),
    Multi(()),
    Array(()),
    Tuple(()),
    Record(),
    Multi([1]),
    Array((1,)),
    Tuple((1,)),
    Record({"a": 1}),
    Record({"$set": Multi([1])}),
    Record({"$record": Record({"$set": 1})}),
    Record({"$decimal": "1"}),
    Record({"$time": "1970-01-01T00:00:00Z"}),
    Array((Record(),)),
    Tuple((Record(),)),
    Point(1, 1),
    Interval(1, 1),
    Rectangle(1, 1, 1, 1),
    2**53,
    2**53 + 1,
]


def test_no_two_lookalikes_share_a_form() -> None:
    assert len({canonical(value) for value in LOOKALIKES}) == len(LOOKALIKES)
    assert len({format_json(encode(value)) for value in LOOKALIKES}) == len(LOOKALIKES)
    for value in LOOKALIKES:
        assert key_of(decode(encode(value))) == key_of(value)


@pytest.mark.parametrize("one", [1, 1.0, Decimal("1"), Decimal("1.000"), Decimal("10E-1")])
def test_one_is_one_however_it_is_written(one: Any) -> None:
    assert canonical(one) == b"1"


def test_a_double_and_a_decimal_tenth_are_one_number() -> None:
    assert canonical(0.1) == canonical(Decimal("0.10")) == b"0.1"
    assert canonical(1e23) == canonical(10**23)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("19.90"), '{"$decimal":"19.90"}'),
        (b"\xde\xad\xbe\xef", '{"$bytes":"3q2+7w=="}'),
        (Instant.parse("2024-05-01T12:00:00+02:00"), '{"$time":"2024-05-01T10:00:00Z"}'),
        ({"b", "a"}, '["a","b"]'),
        (Array((1, 2)), '{"$array":[1,2]}'),
        ([{"x": 1}], '[{"x":1}]'),
        (Tuple(("b", "a")), '{"$tuple":["b","a"]}'),
        (Point(0.5, 1), '{"$point":[0.5,1]}'),
        (Interval(Decimal("0.1"), 2), '{"$interval":[0.1,2]}'),
        (Rectangle(0, 0, 1, 2), '{"$rectangle":[0,0,1,2]}'),
        (float("nan"), '{"$number":"nan"}'),
        ({"$time": 1}, '{"$record":{"$time":1}}'),
        ({"$time": 1, "x": 2}, '{"$time":1,"x":2}'),
        ("Grüße", '"Grüße"'),
        (2**100, "1267650600228229401496703205376"),
    ],
)
def test_the_typed_form_is_as_documented(value: Any, text: str) -> None:
    assert format_json(encode(value)) == text
    assert canonical(decode(parse_json(text))) == canonical(value)


def test_the_digits_of_a_decimal_are_kept() -> None:
    assert str(decode(encode(Decimal("19.90")))) == "19.90"


def test_a_python_object_has_no_json_form() -> None:
    for function in (encode, canonical):
        with pytest.raises(ValueRefused, match="no JSON form"):
            function(object())


def test_tags_of_others_read_as_records() -> None:
    assert decode({"$ref": "#/a"}) == Record({"$ref": "#/a"})


@pytest.mark.parametrize(
    "jsonable",
    [
        {"$decimal": "NaN"},
        {"$decimal": 1},
        {"$decimal": "1E+99999"},
        {"$decimal": "1E+99999999999999999999"},
        {"$decimal": "١"},
        {"$bytes": "?"},
        {"$bytes": 1},
        {"$bytes": "é"},
        {"$time": "yesterday"},
        {"$time": True},
        {"$number": "1"},
        {"$number": []},
        {"$set": 1},
        {"$set": [{}]},
        {"$array": {}},
        {"$tuple": None},
        {"$point": [1]},
        {"$point": [1, "x"]},
        {"$point": [1, {"$number": "inf"}]},
        {"$interval": [2, 1]},
        {"$rectangle": [0, 0, 0, {}]},
        {"$record": []},
        {"a.b": 1, "a": 2},
        {"": 1},
        {"x": object()},
    ],
)
def test_a_malformed_tag_is_refused(jsonable: Any) -> None:
    with pytest.raises(ValueRefused):
        decode(jsonable)


# -- JSON text ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("-0", 0),
        ("1.0", 1.0),
        ("0.1", 0.1),
        ("0.10", 0.1),
        ("1e23", 1e23),
        ("1e5", 100000.0),
        ("0.1000000000000000055511", Decimal("0.1000000000000000055511")),
        ("9007199254740993", 9007199254740993),
        ("9007199254740993.0", Decimal("9007199254740993.0")),
        ("1e400", Decimal("1e400")),
        ("1e-400", Decimal("1e-400")),
        ("123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_numbers_are_read_exactly(text: str, expected: Any) -> None:
    found = parse_json(text)
    assert isinstance(found, type(expected))
    assert found == expected
    assert format_json(found) == text
    assert parse_number(text) == found


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
@settings(max_examples=300)
def test_a_number_means_the_same_as_its_text(text: str) -> None:
    assert key_of(parse_json(text)) == key_of(Decimal(text))
    assert key_of(parse_number(text)) == key_of(Decimal(text))


@pytest.mark.parametrize(
    "text", ["", "01", "+1", ".5", "1.", "1e", "0x1", " 1", "1_0", "٣", "NaN", "Infinity"]
)
def test_what_json_does_not_spell_as_a_number_is_none(text: str) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": 1, "a": 2}', "is twice"),
        (b'[{"x": {"a": 1, "b": 2, "a": 1}}]', "'a' is twice"),
        (b"[NaN]", "NaN is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
        (b'"\\ud800"', "lone surrogate"),
        (b'[{"\\udc00x": 1}]', "lone surrogate"),
        (b'"\xff"', "not UTF-8: invalid start byte at byte 2"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b"[1,]", "not JSON: .*line 1 column"),
        (b"", "not JSON: expecting value"),
        (b"1 2", "not JSON: extra data"),
        (b'"a\nb"', "not JSON: invalid control character"),
        (b"1" * 4301, "more than 4300 digits"),
        (b"1e99999", "more than 4300 digits"),
        (b"1e99999999999999999999", "beyond all bounds"),
        (b"[" * 1000 + b"]" * 1000, "levels deep"),
        (b"[" * 300 + b"]" * 300, "levels deep"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "levels deep"),
        ("\ufeff1", "not JSON"),
        ('"\ud800"', "lone surrogate"),
    ],
)
def test_text_that_is_not_exact_json_is_refused_with_the_reason(text: bytes | str, reason: str) -> None:
    with pytest.raises(ValueRefused, match=reason):
        parse_json(text)


def test_surrogate_pairs_are_one_character() -> None:
    assert parse_json(rb'"\ud83d\ude00"') == "\N{GRINNING FACE}"


def test_the_longest_integer_survives_and_longer_ones_are_refused() -> None:
    assert parse_json("9" * 4300) == 10**4300 - 1
    assert format_json(encode(10**4300 - 1)) == "9" * 4300
    for function in (encode, canonical, format_json):
        with pytest.raises(ValueRefused, match="more than 4300 digits"):
            function(10**4300)


def test_names_are_written_as_given_or_sorted() -> None:
    assert format_json({"b": 1, "a": [True, None, Decimal("1.50"), {}, []]}) == (
        '{"b":1,"a":[true,null,1.50,{},[]]}'
    )
    assert format_json({"b": {"d": 1, "c": 2}, "a": 3}, sort_names=True) == '{"a":3,"b":{"c":2,"d":1}}'


@pytest.mark.parametrize("jsonable", [float("nan"), Decimal("Infinity"), {1, 2}, b"x", object()])
def test_what_is_not_json_is_not_written(jsonable: Any) -> None:
    with pytest.raises(ValueRefused, match="not JSON"):
        format_json([jsonable])


# -- depth -------------------------------------------------------------------------------------------------


def nested(levels: int) -> Record:
    record = Record({"$time": 1})
    for _ in range(levels - 1):
        record = Record({"$time": record})
    return record


def test_values_are_nested_up_to_a_bound_in_every_form() -> None:
    deepest = nested(DEPTH_MAX)
    assert decode(parse_json(format_json(encode(deepest)))) == deepest
    assert canonical(deepest)
    flat_form = {"x": nested(DEPTH_MAX - 1)}
    assert Record(fields_from_json(fields_to_json(Record(flat_form)))) == Record(flat_form)


@pytest.mark.parametrize("levels", [DEPTH_MAX + 1, 10_000])
def test_a_value_that_is_nested_deeper_is_refused(levels: int) -> None:
    given_by_user: Any = {}
    for _ in range(levels - 1):
        given_by_user = {"a": given_by_user}
    for function in (encode, canonical, Record):
        with pytest.raises(ValueRefused, match="levels deep"):
            function(given_by_user)
    with pytest.raises(ValueRefused, match="levels deep"):
        nested(levels)


def test_the_steps_of_a_dotted_name_are_levels() -> None:
    assert decode({".".join("a" * DEPTH_MAX): 1})
    for steps in (DEPTH_MAX + 1, 10_000):
        with pytest.raises(ValueRefused, match="levels deep"):
            decode({".".join("a" * steps): 1})


def test_python_values_nested_too_deeply_are_refused() -> None:
    given_by_user: Any = 1
    for _ in range(10_000):
        given_by_user = [given_by_user, {}]
    with pytest.raises(ValueRefused, match="deep"):
        encode(given_by_user)


# -- notifications -----------------------------------------------------------------------------------------


def test_a_notification_survives_with_its_envelope_and_its_document() -> None:
    document = Element(
        "notification",
        {"id": "7"},
        (
            Element("cpu", {"clock": 700, "price": Decimal("19.90")}, (Element("core"), Element("core"))),
            Element("case"),
        ),
    )
    notification = Notification(
        attributes=Record({"x": [1, 2], "tuple": Tuple(("b", "a", "b")), "time": Instant(5)}),
        id="7",
        producer="/sensors",
        time=Instant(10**30),
        sequence=2**70,
        document=document,
    )
    text = format_json(notification_to_json(notification))
    assert notification_from_json(parse_json(text)) == notification


@given(st.dictionaries(names, values, max_size=3))
@settings(max_examples=100)
def test_every_notification_survives(fields: dict[str, Any]) -> None:
    fields.pop("time", None)
    notification = Notification.of(fields)
    assert notification_from_json(parse_json(format_json(notification_to_json(notification)))) == notification


def test_tuples_and_times_are_plain_at_the_top() -> None:
    notification = Notification.of({"tuple": ["b", "a"], "time": "2024-05-01T10:00:00Z"})
    jsonable = fields_to_json(notification.attributes)
    assert jsonable == {"tuple": ["b", "a"], "time": "2024-05-01T10:00:00Z"}
    assert Notification.of(fields_from_json(jsonable)) == notification


@pytest.mark.parametrize(
    "jsonable",
    [
        None,
        {},
        {"attributes": []},
        {"attributes": {}, "id": 1},
        {"attributes": {}, "time": "soon"},
        {"attributes": {}, "sequence": True},
        {"attributes": {}, "other": 1},
        {"attributes": {}, "document": []},
        {"attributes": {}, "document": [[0, "cpu", {}]]},
        {"attributes": {}, "document": [[0, "notification", {}], [0, "notification", {}]]},
        {"attributes": {}, "document": [[0, "notification", {}], [2, "cpu", {}]]},
        {"attributes": {}, "document": [[0, "notification", {}], 7]},
        {"attributes": {}, "document": [[n, "a" if n else "notification", {}] for n in range(200)]},
        {"attributes": {}, "id": "\ud800"},
    ],
)
def test_a_malformed_notification_is_refused(jsonable: Any) -> None:
    with pytest.raises(ValueRefused):
        notification_from_json(jsonable)


def test_records_share_a_hash_iff_they_have_the_same_content_to_the_letter() -> None:
    def hashed(text: str) -> str:
        return content_hash(Notification.read(parse_json(text)))

    assert hashed('{"a": 1, "b": [2, 1]}') == hashed('{"a":1,"b":[2,1]}')
    assert len(hashed("{}")) == 32
    for other in (
        '{"b": [2, 1], "a": 1}',
        '{"a": 1, "b": [1, 2]}',
        '{"a": 1.0, "b": [2, 1]}',
        '{"a": "1", "b": [2, 1]}',
    ):
        assert hashed('{"a": 1, "b": [2, 1]}') != hashed(other)


def test_copies_mean_the_same_whatever_the_order_of_their_names() -> None:
    one = canonical_content(Notification.of({"a": 1, "b": {"x": 0.1, "y": {2, 3}}}))
    other = canonical_content(Notification.of({"b.y": [3, 2.0], "b.x": Decimal("0.10"), "a": 1.0}))
    assert one[0] == other[0]
    assert one[1] != other[1]
    assert one[0] != canonical_content(Notification.of({"a": 1}))[0]


def test_documents_tell_records_apart() -> None:
    documents = [None, Element("notification"), Element("notification", {}, (Element("cpu", {"clock": 1}),))]
    notifications = [Notification(Record(), document=document) for document in documents]
    assert len({content_hash(each) for each in notifications}) == 3
    assert len({canonical_content(each)[0] for each in notifications}) == 3
    one, other = (Notification(Record(), document=Element("notification", {"a": a})) for a in (1, 1.0))
    assert canonical_content(one) == canonical_content(other)


# -- the short ways: the bytes and the values of the long ones ----------------------------------------------


def nested_in(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
        max_leaves=10,
    )


jsonables = nested_in(texts)


@given(jsonables, st.booleans())
@settings(max_examples=200)
def test_what_is_written_is_what_the_standard_library_writes(jsonable: Any, sort_names: bool) -> None:
    expected = json.dumps(jsonable, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_names)
    assert format_json(jsonable, sort_names=sort_names) == expected


class Name(str):
    pass


class Whole(int):
    pass


class Real(float):
    pass


def the_long_way(jsonable: Any) -> Any:
    """The same, in types that are told by their classes."""
    match jsonable:
        case dict():
            return OrderedDict((Name(name), the_long_way(item)) for name, item in jsonable.items())
        case list():
            return tuple(map(the_long_way, jsonable))
        case str():
            return Name(jsonable)
        case int() if not isinstance(jsonable, bool):
            return Whole(jsonable)
        case float():
            return Real(jsonable)
        case _:
            return jsonable


@given(jsonables, st.booleans())
def test_what_is_written_depends_on_no_subclass(jsonable: Any, sort_names: bool) -> None:
    written = format_json(the_long_way(jsonable), sort_names=sort_names)
    assert written == format_json(jsonable, sort_names=sort_names)


def test_a_name_that_is_no_string_is_not_written() -> None:
    with pytest.raises(TypeError):
        format_json({"a": {1: 2}})


@given(st.floats() | st.floats(1e-6, 1e-3) | st.floats(2.0**52, 2.0**54) | st.floats(-1e6, 1e6))
@settings(max_examples=400)
def test_the_canonical_bytes_of_a_float_are_those_of_its_shortest_decimal(number: float) -> None:
    assert canonical(number) == canonical(Decimal(repr(number)))


@given(
    st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.from_regex(r"-?(0|[1-9][0-9]{0,17})\.[0-9]{1,18}([eE][+-]?[0-9]{1,3})?", fullmatch=True)
)
@settings(max_examples=400)
def test_a_fraction_is_a_float_iff_the_float_stands_for_it(text: str) -> None:
    near, exact = float(text), Decimal(text)
    stands = Decimal(repr(near)) == exact
    found = parse_json(text)
    assert isinstance(found, float if stands else Decimal)
    assert found == (near if stands else exact)
    assert format_json(found) == text


@pytest.fixture
def no_limit_of_digits() -> Iterator[None]:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(limit)


@pytest.mark.usefixtures("no_limit_of_digits")
@pytest.mark.parametrize("frame", ["{}", "[{}]", "-{}", '{{"a": {}}}'])
def test_long_integers_are_refused_whatever_the_interpreter_allows(frame: str) -> None:
    assert parse_json(frame.format("9" * 4300))
    with pytest.raises(ValueRefused, match="more than 4300 digits"):
        parse_json(frame.format("1" * 4301))
    with pytest.raises(ValueRefused, match="more than 4300 digits"):
        format_json([10**4300])


untagged = st.sampled_from(["a", "b", "c", "c.d", "tags", "tuple", "é", ""])
clock_times = st.just("2024-05-01T10:00:00Z") | st.integers(0, 2**50) | st.none()


@given(st.dictionaries(untagged, nested_in(untagged), max_size=4), clock_times)
@settings(max_examples=200)
def test_a_plain_record_is_the_same_notification_as_json_and_as_a_mapping(
    fields: dict[str, Any], time: Any
) -> None:
    fields = {**fields, "time": time}
    try:
        expected = repr(Notification.of(fields))
    except ValueRefused:  # of two faults the one or the other is named first
        with pytest.raises(ValueRefused):
            Notification.of(fields_from_json(fields))
    else:
        assert repr(Notification.of(fields_from_json(fields))) == expected
        assert repr(Notification.of(fields_from_json(parse_json(json.dumps(fields))))) == expected
