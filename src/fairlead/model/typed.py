"""Values as JSON, and as bytes to hash: decoding what was encoded gives the same value, whatever its kind.

    null, boolean, string, int, float    plain JSON; integers of any size
    Decimal                              {"$decimal": "19.90"}, its digits kept
    not a number, infinity               {"$number": "nan"}, "inf", "-inf"
    bytes                                {"$bytes": "3q2+7w=="}, base64
    time                                 {"$time": "2024-05-01T10:00:00Z"}
    set                                  [1, 2], or {"$set": [1, 2]}: an array of simple values reads as a set
    array                                [{"x": 1}], or {"$array": [1, 2]} where it would read as a set
    tuple                                {"$tuple": [1, 2]}
    point, interval, rectangle           {"$point": [x, y]}, {"$interval": [low, high]},
                                         {"$rectangle": [left, bottom, right, top]}
    record                               {"x": 1}, or {"$record": {"$time": 1}} where it would read as a tag

An object with one name that starts with `$` and is none of these tags reads as a record: other people's
conventions, such as {"$ref": "..."}, pass through. At the top of a notification stand attributes, never a
tag; there `tuple` is a plain array and `time` a plain string, which read back as a tuple and an instant.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final

from fairlead.errors import ValueRefused
from fairlead.model.instants import rfc3339
from fairlead.model.text import (
    DECIMAL,
    WRITTEN,
    brief,
    decimal_of,
    format_json,
    json_kind,
    stands_for,
    too_deep,
)
from fairlead.model.values import (
    ABSENT,
    DEPTH_MAX,
    Array,
    Instant,
    Interval,
    Kind,
    Multi,
    Number,
    Point,
    Record,
    Rectangle,
    Tuple,
    Value,
    is_simple,
    kind_of,
    number_of,
    set_or_array,
    value_of,
)

__all__ = ["TAGS", "canonical", "decode", "encode", "fields_from_json", "fields_to_json", "given_to_json"]


# -- values to JSON ----------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """The typed JSON form of a value: `decode(encode(v))` is the same value as v."""
    return _encode(_value(value), 0)


def _value(given: Any) -> Value:
    try:
        return value_of(given)
    except RecursionError:
        raise too_deep() from None


def _below(depth: int) -> int:
    if depth >= DEPTH_MAX:
        raise too_deep()
    return depth + 1


def _encode(value: Value, depth: int) -> Any:
    return _FORMS[kind_of(value)](value, depth)


def _encode_items(items: Iterable[Value], depth: int) -> list[Any]:
    below = _below(depth)
    return [item if type(item) in _PLAIN else _encode(item, below) for item in items]


def _encode_fields(record: Record, depth: int) -> dict[str, Any]:
    below = _below(depth)
    return {name: item if type(item) in _PLAIN else _encode(item, below) for name, item in record.items()}


def _encode_array(value: Array, depth: int) -> Any:
    items = _encode_items(value, depth)
    return {"$array": items} if all(map(is_simple, value)) else items


def _encode_record(value: Record, depth: int) -> dict[str, Any]:
    published = value.published
    if published is None or not published.is_read_alone:
        return _distinct(_encode_fields(value, depth))
    return _distinct({**published.whole, **_tagged(published.record, value)})


def _tagged(written: dict[str, Any], read: Record) -> dict[str, Any]:
    """The fields that need no tag at the top of a notification, tagged: this one stands within another one."""
    tagged: dict[str, Any] = {}
    for name, tag, kind in (("time", "$time", Instant), ("tuple", "$tuple", Tuple)):
        if isinstance(read.lookup(name), kind) and not isinstance(written.get(name, {}), dict):
            tagged[name] = {tag: written[name]}
    if isinstance(written.get("sequence"), str):
        tagged["sequence"] = read.lookup("sequence")
    return tagged


def _distinct(fields: dict[str, Any]) -> dict[str, Any]:
    """The form of a record, which is not to read as a tag."""
    return {"$record": fields} if len(fields) == 1 and next(iter(fields)).startswith("$") else fields


def _refuse_object(value: Any, _: int) -> Any:
    raise ValueRefused(f"a Python object has no JSON form: {type(value).__qualname__}")


def _refuse_absent(_: Any, __: int) -> Any:
    raise ValueRefused("what is absent has no JSON form")


def _encode_number(value: float | Decimal, _: int = 0) -> Any:
    if isinstance(value, int):
        return value
    if not _is_finite(value):
        return {"$number": "inf" if value > 0 else "-inf"}
    return value if isinstance(value, float) else {"$decimal": str(value)}


def _is_finite(value: float | Decimal) -> bool:
    """`math.isfinite` would make a float of its argument first, and a large decimal infinite."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) or value.is_finite()


def _encode_instant(instant: Instant) -> str | int:
    return rfc3339(instant.microseconds) or instant.microseconds


def _coordinates(*numbers: Number) -> list[Any]:
    """Coordinates are kept in canonical form, so a float that stands for the same number will do."""
    return [_encode_number(_shortest(number)) for number in numbers]


def _shortest(number: Number) -> float | Decimal:
    if isinstance(number, int):
        return number
    near = float(number)
    return near if stands_for(near, number) else number


def _as_it_is(value: Value, _: int) -> Any:
    return value


_PLAIN: Final = frozenset({type(None), bool, int, str})
"""The types whose values are their own form."""

_FORMS: Final[dict[Kind, Callable[[Any, int], Any]]] = {
    Kind.NULL: _as_it_is,
    Kind.BOOLEAN: _as_it_is,
    Kind.NUMBER: _encode_number,
    Kind.NAN: lambda _, __: {"$number": "nan"},
    Kind.STRING: _as_it_is,
    Kind.BYTES: lambda value, _: {"$bytes": base64.b64encode(value).decode("ascii")},
    Kind.TIME: lambda value, _: {"$time": _encode_instant(value)},
    Kind.SET: _encode_items,
    Kind.ARRAY: _encode_array,
    Kind.TUPLE: lambda value, depth: {"$tuple": _encode_items(value, depth)},
    Kind.POINT: lambda value, _: {"$point": _coordinates(value.x, value.y)},
    Kind.INTERVAL: lambda value, _: {"$interval": _coordinates(value.low, value.high)},
    Kind.RECTANGLE: lambda value, _: {
        "$rectangle": _coordinates(value.left, value.bottom, value.right, value.top)
    },
    Kind.RECORD: _encode_record,
    Kind.OBJECT: _refuse_object,
    Kind.ABSENT: _refuse_absent,
}


# -- JSON to values ----------------------------------------------------------------------------------------


def decode(jsonable: Any) -> Value:
    """The value of a typed JSON form, as a JSON parser gives it."""
    return _decode(jsonable, 0)


def _decode(given: Any, depth: int) -> Value:
    if isinstance(given, dict):
        if len(given) == 1:
            ((tag, content),) = given.items()
            reader = _READERS.get(tag)
            if reader is not None:
                return reader(content, depth)
        return _decode_record(given, depth)
    if isinstance(given, list):
        return set_or_array(_decode_items(given, depth))
    if type(given) in _SCALARS or isinstance(given, str | int | float):
        return value_of(given)
    raise ValueRefused(f"not JSON: {type(given).__qualname__}")


_SCALARS: Final = frozenset({type(None), bool, int, float, str, *WRITTEN})
"""The types of what JSON does not nest."""


def _decode_record(given: dict[str, Any], depth: int) -> Record:
    return Record(_decode_fields(given, depth))


def _decode_fields(given: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """The fields of a record; the record itself checks names and scalars."""
    fields: dict[str, Any] = {}
    below = _below(depth)
    for name, item in given.items():
        level = below
        if "." in name:
            level += name.count(".")
            if level > DEPTH_MAX:
                raise too_deep()
        fields[name] = item if type(item) in _SCALARS else _decode(item, level)
    return fields


def _decode_items(given: Any, depth: int) -> list[Value]:
    below = _below(depth)
    return [value_of(item) if type(item) in _SCALARS else _decode(item, below) for item in given]


def _read_number(content: Any, _: int) -> Value:
    if content not in ("nan", "inf", "-inf"):
        raise ValueRefused(f'"$number" is "nan", "inf" or "-inf", not {brief(content)}')
    return float(content)


def _read_decimal(content: Any, _: int) -> Value:
    if not isinstance(content, str) or DECIMAL.fullmatch(content) is None:
        raise ValueRefused(
            f'"$decimal" is a string of digits, not {brief(content)}', hint='{"$decimal": "19.90"}'
        )
    return decimal_of(content)


def _read_bytes(content: Any, _: int) -> Value:
    try:
        return base64.b64decode(content, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise ValueRefused(f'"$bytes" is a string in base64, not {brief(content)}') from None


def _read_time(content: Any, _: int) -> Value:
    if isinstance(content, int) and not isinstance(content, bool):
        return Instant(content)
    if isinstance(content, str):
        return Instant.parse(content)
    raise ValueRefused(f'"$time" is an RFC 3339 date-time, not {brief(content)}')


def _read_record(content: Any, depth: int) -> Value:
    if not isinstance(content, dict):
        raise ValueRefused(f'"$record" is an object, not {brief(content)}')
    return _decode_record(content, depth)


def _read_items(content: Any, depth: int, *, tag: str, made: Callable[[tuple[Value, ...]], Value]) -> Value:
    if not isinstance(content, list):
        raise ValueRefused(f'"{tag}" is an array, not {brief(content)}')
    return made(tuple(_decode_items(content, depth)))


def _read_shape(content: Any, depth: int, *, tag: str, made: Callable[..., Value], count: int) -> Value:
    if not isinstance(content, list) or len(content) != count:
        raise ValueRefused(f'"{tag}" is an array of {count} numbers, not {brief(content)}')
    return made(*(_decode(item, DEPTH_MAX) for item in content))  # a number has no levels below it


_READERS: Final[dict[str, Callable[[Any, int], Value]]] = {
    "$array": partial(_read_items, tag="$array", made=Array),
    "$bytes": _read_bytes,
    "$decimal": _read_decimal,
    "$interval": partial(_read_shape, tag="$interval", made=Interval, count=2),
    "$number": _read_number,
    "$point": partial(_read_shape, tag="$point", made=Point, count=2),
    "$record": _read_record,
    "$rectangle": partial(_read_shape, tag="$rectangle", made=Rectangle, count=4),
    "$set": partial(_read_items, tag="$set", made=Multi),
    "$time": _read_time,
    "$tuple": partial(_read_items, tag="$tuple", made=Tuple),
}
TAGS: Final = frozenset(_READERS)
"""The names of the objects that stand for a value other than a record."""


# -- attributes ----------------------------------------------------------------------------------------------


def fields_to_json(record: Record) -> dict[str, Any]:
    """The attributes of a notification as a flat JSON record: what JSON lines hold."""
    fields = _encode_fields(record, 0)
    if "tuple" in fields:
        fields["tuple"] = _encode_tuple(record["tuple"])
    if isinstance(time := record.lookup("time"), Instant):
        fields["time"] = fields["time"]["$time"]
    elif time is not ABSENT and kind_of(time) in (Kind.STRING, Kind.NUMBER):
        raise ValueRefused(f"the attribute 'time' is an instant, not {brief(time)}")
    return fields


def _encode_tuple(value: Value) -> Any:
    """The encoding of the attribute `tuple`, where a plain array reads as a tuple."""
    match value:
        case Tuple():
            return _encode_items(value, 1)
        case _:
            return _encode(value, 1)


def fields_from_json(jsonable: Any, *, is_time_read: bool = True) -> dict[str, Any]:
    """The attributes of a flat JSON record, ready for `Notification.of`; on request with the time as it
    is written."""
    if not isinstance(jsonable, dict):
        raise ValueRefused(f"a notification is a JSON object, not {json_kind(jsonable)}")
    fields = _decode_fields(jsonable, 0)
    if isinstance(given := jsonable.get("tuple"), list):
        fields["tuple"] = Tuple(tuple(_decode_items(given, 1)))
    if not is_time_read:
        return fields
    if isinstance(time := fields.get("time"), str):
        fields["time"] = Instant.parse(time)
    elif isinstance(time, int) and not isinstance(time, bool):
        fields["time"] = Instant(time)
    return fields


def given_to_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes as users gave them, as a flat JSON record: names with their dots, in the order given."""
    record = {name: _given_to_json(value) for name, value in fields.items()}
    for name, tag in (("time", "$time"), ("tuple", "$tuple")):
        match record.get(name):
            case {**content} if list(content) == [tag]:
                record[name] = content[tag]
    return record


def _given_to_json(given: Any) -> Any:
    """The JSON form of a value; an object that has none stays as it is."""
    if type(given) in _PLAIN or type(given) in WRITTEN:
        return given
    if isinstance(given, Mapping) and not isinstance(given, Record):
        return _distinct({name: _given_to_json(item) for name, item in given.items()})
    if isinstance(given, list | tuple):
        return [_given_to_json(item) for item in given]
    value = value_of(given)
    return given if kind_of(value) is Kind.OBJECT else _encode(value, 0)


# -- bytes to hash -----------------------------------------------------------------------------------------


def canonical(value: Any) -> bytes:
    """One byte string per value: equal iff the values are the same, that is, iff their keys are.

    It is JSON with numbers in canonical form, sets in the order of their keys, names sorted, and every kind
    that is not plain JSON tagged, so no two kinds meet.
    """
    return format_json(_normal(_value(value), 0), sort_names=True).encode()


def _normal(value: Value, depth: int) -> Any:
    return _NORMAL_FORMS[kind_of(value)](value, depth)


def _normal_items(items: Iterable[Value], depth: int) -> list[Any]:
    below = _below(depth)
    return [item if type(item) in _PLAIN else _normal(item, below) for item in items]


def _normal_record(value: Record, depth: int) -> dict[str, Any]:
    below = _below(depth)
    return _distinct(
        {name: item if type(item) in _PLAIN else _normal(item, below) for name, item in value.items()}
    )


def _normal_number(value: float | Decimal, _: int) -> Any:
    if type(value) is float and _FIXED_FROM <= abs(value) < _FIXED_BELOW and not value.is_integer():
        return value
    number = number_of(value)
    return number if _is_finite(number) else _encode_number(number)


_FIXED_FROM: Final = 1e-4
_FIXED_BELOW: Final = 2.0**53
"""Between these a float that is not whole is written without an exponent, as the decimal it stands for is."""

_NORMAL_FORMS: Final = {
    **_FORMS,
    Kind.NUMBER: _normal_number,
    Kind.SET: lambda value, depth: {"$set": _normal_items(value.elements, depth)},
    Kind.ARRAY: lambda value, depth: {"$array": _normal_items(value, depth)},
    Kind.TUPLE: lambda value, depth: {"$tuple": _normal_items(value, depth)},
    Kind.POINT: lambda value, _: {"$point": [value.x, value.y]},
    Kind.INTERVAL: lambda value, _: {"$interval": [value.low, value.high]},
    Kind.RECTANGLE: lambda value, _: {"$rectangle": [value.left, value.bottom, value.right, value.top]},
    Kind.RECORD: _normal_record,
}
