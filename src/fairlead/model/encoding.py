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

JSON has numbers of any size and precision, so its text is read exactly (`parse_json`): a number with a
fraction or an exponent becomes a float where the float stands for that very number, and a Decimal elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from functools import partial
from hashlib import blake2b
from json.encoder import encode_basestring
from typing import Any, Final

from fairlead.errors import ValueRefused
from fairlead.model.notification import Notification
from fairlead.model.tree import ROOT, Element
from fairlead.model.values import (
    ABSENT,
    DEPTH_MAX,
    DIGITS_MAX,
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
    rfc3339,
    set_or_array,
    value_of,
)

__all__ = [
    "DEPTH_MAX",
    "canonical",
    "decode",
    "encode",
    "fields_from_json",
    "fields_to_json",
    "format_json",
    "notification_from_json",
    "notification_to_json",
    "parse_json",
    "parse_number",
    "record_hash",
]

TEXT_DEPTH_MAX: Final = 2 * DEPTH_MAX + 8
"""How deep JSON text may be nested: tags double the levels at worst, and envelopes add a few."""


# -- values to JSON ----------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """The typed JSON form of a value: `decode(encode(v))` is the same value as v."""
    return _encode(_value(value), 0)


def _value(given: Any) -> Value:
    try:
        return value_of(given)
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> ValueRefused:
    return ValueRefused(f"nested more than {DEPTH_MAX} levels deep")


def _below(depth: int) -> int:
    if depth >= DEPTH_MAX:
        raise _too_deep()
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
    return _told_apart(_encode_fields(value, depth))


def _told_apart(fields: dict[str, Any]) -> dict[str, Any]:
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
    return near if _stands_for(near, number) else number


def _stands_for(near: float, exact: Decimal) -> bool:
    return math.isfinite(near) and Decimal(repr(near)) == exact


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
    if type(given) in _SCALARS or isinstance(given, str | int | float | Decimal):
        return value_of(given)
    raise ValueRefused(f"not JSON: {type(given).__qualname__}")


_SCALARS: Final = frozenset({type(None), bool, int, float, Decimal, str})
"""The types of what JSON does not nest."""


def _decode_record(given: dict[str, Any], depth: int) -> Record:
    return Record(_decode_fields(given, depth))


def _decode_fields(given: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """What a record is made of; the record itself checks names and scalars."""
    fields: dict[str, Any] = {}
    below = _below(depth)
    for name, item in given.items():
        level = below
        if "." in name:
            level += name.count(".")
            if level > DEPTH_MAX:
                raise _too_deep()
        fields[name] = item if type(item) in _SCALARS else _decode(item, level)
    return fields


def _decode_items(given: Any, depth: int) -> list[Value]:
    below = _below(depth)
    return [value_of(item) if type(item) in _SCALARS else _decode(item, below) for item in given]


def _read_number(content: Any, _: int) -> Value:
    if content not in ("nan", "inf", "-inf"):
        raise ValueRefused(f'"$number" is "nan", "inf" or "-inf", not {_brief(content)}')
    return float(content)


def _read_decimal(content: Any, _: int) -> Value:
    if not isinstance(content, str) or _DECIMAL.fullmatch(content) is None:
        raise ValueRefused(
            f'"$decimal" is a string of digits, not {_brief(content)}', hint='{"$decimal": "19.90"}'
        )
    return _decimal(content)


def _read_bytes(content: Any, _: int) -> Value:
    try:
        return base64.b64decode(content, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise ValueRefused(f'"$bytes" is a string in base64, not {_brief(content)}') from None


def _read_time(content: Any, _: int) -> Value:
    if isinstance(content, int) and not isinstance(content, bool):
        return Instant(content)
    if isinstance(content, str):
        return Instant.parse(content)
    raise ValueRefused(f'"$time" is an RFC 3339 date-time, not {_brief(content)}')


def _read_record(content: Any, depth: int) -> Value:
    if not isinstance(content, dict):
        raise ValueRefused(f'"$record" is an object, not {_brief(content)}')
    return _decode_record(content, depth)


def _read_items(content: Any, depth: int, *, tag: str, made: Callable[[tuple[Value, ...]], Value]) -> Value:
    if not isinstance(content, list):
        raise ValueRefused(f'"{tag}" is an array, not {_brief(content)}')
    return made(tuple(_decode_items(content, depth)))


def _read_shape(content: Any, depth: int, *, tag: str, made: Callable[..., Value], count: int) -> Value:
    if not isinstance(content, list) or len(content) != count:
        raise ValueRefused(f'"{tag}" is an array of {count} numbers, not {_brief(content)}')
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

_BRIEF: Final = 60


def _brief(content: Any) -> str:
    """What was found, short enough for a sentence; a huge integer is not spelled out."""
    try:
        text = repr(content)
    except (ValueError, RecursionError):
        return f"a very large {type(content).__name__}"
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}…"


# -- notifications -----------------------------------------------------------------------------------------


def fields_to_json(record: Record) -> dict[str, Any]:
    """The attributes of a notification as a flat JSON record: what JSON lines hold."""
    fields = _encode_fields(record, 0)
    if "tuple" in fields:
        fields["tuple"] = _encode_tuple(record["tuple"])
    if isinstance(time := record.lookup("time"), Instant):
        fields["time"] = fields["time"]["$time"]
    elif time is not ABSENT and kind_of(time) in (Kind.STRING, Kind.NUMBER):
        raise ValueRefused(f"the attribute 'time' is an instant, not {_brief(time)}")
    return fields


def _encode_tuple(value: Value) -> Any:
    """What stands under the attribute `tuple`, where a plain array reads as a tuple."""
    match value:
        case Tuple():
            return _encode_items(value, 1)
        case _:
            return _encode(value, 1)


def fields_from_json(jsonable: Any) -> dict[str, Any]:
    """The attributes of a flat JSON record, ready for `Notification.of`."""
    if not isinstance(jsonable, dict):
        raise ValueRefused(f"a notification is a JSON object, not {_json_kind(jsonable)}")
    fields = _decode_fields(jsonable, 0)
    if isinstance(given := jsonable.get("tuple"), list):
        fields["tuple"] = Tuple(tuple(_decode_items(given, 1)))
    if isinstance(time := fields.get("time"), str):
        fields["time"] = Instant.parse(time)
    elif isinstance(time, int) and not isinstance(time, bool):
        fields["time"] = Instant(time)
    return fields


def notification_to_json(notification: Notification) -> dict[str, Any]:
    """A notification with its envelope: `notification_from_json` gives the same notification back."""
    jsonable: dict[str, Any] = {}
    if notification.id is not None:
        jsonable["id"] = notification.id
    if notification.producer:
        jsonable["producer"] = notification.producer
    if notification.time is not None:
        jsonable["time"] = _encode_instant(notification.time)
    if notification.sequence is not None:
        jsonable["sequence"] = notification.sequence
    jsonable["attributes"] = fields_to_json(notification.attributes)
    if notification.document is not None:
        jsonable["document"] = _encode_document(notification.document, _encode_attribute)
    return jsonable


_ENVELOPE: Final[dict[str, type | tuple[type, ...]]] = {
    "id": str,
    "producer": str,
    "time": (str, int),
    "sequence": int,
    "attributes": dict,
    "document": list,
}


def notification_from_json(jsonable: Any) -> Notification:
    """The notification of which `notification_to_json` gave this."""
    if not isinstance(jsonable, dict) or "attributes" not in jsonable:
        raise ValueRefused(f"not a notification with its envelope: {_brief(jsonable)}")
    for name, given in jsonable.items():
        if not isinstance(given, _ENVELOPE.get(name, ())) or isinstance(given, bool):
            raise ValueRefused(f"not a part of a notification: {name!r} with {_brief(given)}")
    document = jsonable.get("document")
    return Notification(
        Notification.of(fields_from_json(jsonable["attributes"])).attributes,
        id=value_of(jsonable.get("id")),
        producer=value_of(jsonable.get("producer", "")),
        time=_read_time(jsonable["time"], 0) if "time" in jsonable else None,
        sequence=jsonable.get("sequence"),
        document=None if document is None else _decode_document(document),
    )


def _encode_attribute(value: Value) -> Any:
    return _encode(value, 1)


def _encode_document(document: Element, encoded: Callable[[Value], Any]) -> list[Any]:
    """A tree as its elements in document order, each with its depth: no nesting, so no depth to bound."""
    return [
        [len(path) - 1, element.name, {name: encoded(value) for name, value in element.attributes.items()}]
        for path, element in document.walk()
    ]


def _decode_document(rows: list[Any]) -> Element:
    open_elements: list[tuple[str, dict[str, Value], list[Element]]] = []

    def close(depth: int) -> None:
        while len(open_elements) > depth:
            name, attributes, children = open_elements.pop()
            open_elements[-1][2].append(Element(name, attributes, tuple(children)))

    for row in rows:
        match row:
            case [int(depth), str(name), dict(attributes)] if (
                1 <= depth <= len(open_elements) <= DEPTH_MAX if open_elements else (depth, name) == (0, ROOT)
            ):
                close(depth)
                values = {value_of(key): _decode(item, 1) for key, item in attributes.items()}
                open_elements.append((value_of(name), values, []))
            case _:
                raise ValueRefused(f"not an element of a document: {_brief(row)}")
    if not open_elements:
        raise ValueRefused("a document without a root")
    close(1)
    name, attributes, children = open_elements.pop()
    return Element(name, attributes, tuple(children))


# -- JSON text ---------------------------------------------------------------------------------------------

_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DECIMAL: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SURE_LENGTH: Final = 16
"""A point and at most fifteen digits: every such decimal is what the float nearest to it stands for."""


def parse_json(text: bytes | str) -> Any:
    """What a JSON text holds, exactly, or ValueRefused with the reason.

    The standard library reads it: msgspec is faster, but keeps the last of two equal names in silence.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise ValueRefused(f"not UTF-8: {error.reason} at byte {error.start + 1}") from None
    try:
        parsed = (_DECODER_OF_SHORT if len(text) <= DIGITS_MAX else _DECODER).decode(text)
    except json.JSONDecodeError as error:
        problem = error.msg[:1].lower() + error.msg[1:]
        raise ValueRefused(f"not JSON: {problem}, line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueRefused:
        raise
    except ValueError:  # the interpreter's own limit, kept also where somebody has changed it
        raise _too_long() from None
    # Neither deep nesting nor a lone surrogate can hide without these signs, and most texts have none.
    if text.count("[") + text.count("{") > TEXT_DEPTH_MAX or "\\u" in text or not _encodable(text):
        _inspect(parsed)
    return parsed


def parse_number(text: str) -> int | float | Decimal | None:
    """The number that a text spells as JSON spells numbers, by the rule of `parse_json`; None elsewhere."""
    found = _JSON_NUMBER.fullmatch(text)
    if found is None:
        return None
    return _fractional(text) if found.lastindex else _whole(text)


def _whole(text: str) -> int:
    if len(text) > DIGITS_MAX and len(text.lstrip("-")) > DIGITS_MAX:
        raise _too_long()
    return int(text)


def _too_long() -> ValueRefused:
    return ValueRefused(f"a number of more than {DIGITS_MAX} digits")


def _fractional(text: str) -> float | Decimal:
    near = float(text)
    if len(text) <= _SURE_LENGTH and "e" not in text and "E" not in text:
        return near
    if float.__repr__(near) == text:  # spelled as it is written: what most programs send
        return near
    exact = _decimal(text)
    return near if _stands_for(near, exact) else exact


def _decimal(text: str) -> Decimal:
    try:
        exact = Decimal(text)
    except InvalidOperation:
        raise ValueRefused(f"a number beyond all bounds: {_brief(text)}") from None
    number_of(exact)
    return exact


def _no_constant(name: str) -> Any:
    raise ValueRefused(f"{name} is not JSON", hint='write {"$number": "nan"}, "inf" or "-inf"')


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueRefused(f"the name {_brief(twice)} stands twice in one object")
    return fields


_decoder: Final = partial(
    json.JSONDecoder, object_pairs_hook=_object, parse_float=_fractional, parse_constant=_no_constant
)
_DECODER_OF_SHORT: Final = _decoder()
"""For texts of at most DIGITS_MAX characters, whose integers need no look at their length."""
_DECODER: Final = _decoder(parse_int=_whole)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _inspect(parsed: Any) -> None:
    """Refuse what is nested too deeply, and strings with lone surrogates."""
    level, depth = [parsed], 0
    while level:
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                value_of(item)
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, dict):
                below.extend(item)
                below.extend(item.values())
        level, depth = below, depth + 1
        if depth > TEXT_DEPTH_MAX and any(isinstance(item, list | dict) for item in level):
            raise _too_deep()


def format_json(jsonable: Any, *, sort_names: bool = False) -> str:
    """Compact JSON text: names in the order given or sorted by code point, other letters than ASCII kept."""
    try:
        return (_text_sorted if sort_names else _text)(jsonable)
    except RecursionError:
        raise ValueRefused("nested too deeply to be written") from None


def _text_of_float(number: float) -> str:
    if not math.isfinite(number):
        raise _not_json(number)
    return float.__repr__(number)


def _text_of_decimal(number: Decimal) -> str:
    if not number.is_finite():
        raise _not_json(number)
    return str(number)


def _not_json(number: float | Decimal) -> ValueRefused:
    return ValueRefused(f"{number} is not JSON", hint="encode values first")


def _writer(*, sort_names: bool) -> Callable[[Any], str]:
    """What writes JSON; the type of an item finds its row, the first of its classes if it has none."""

    def text_by_class(item: Any) -> str:
        for known, text in text_of.items():
            if isinstance(item, known):
                return text(item)
        raise ValueRefused(f"not JSON: {type(item).__qualname__}", hint="encode values first")

    def text_of_object(fields: Mapping[str, Any]) -> str:
        pairs = sorted(fields.items()) if sort_names else fields.items()
        members = [
            f"{encode_basestring(name)}:{text_of.get(type(item), text_by_class)(item)}"
            for name, item in pairs
        ]
        return f"{{{','.join(members)}}}"

    def text_of_array(items: Iterable[Any]) -> str:
        return f"[{','.join([text_of.get(type(item), text_by_class)(item) for item in items])}]"

    text_of: dict[type, Callable[[Any], str]] = {
        str: encode_basestring,
        type(None): _CONSTANTS.__getitem__,
        bool: _CONSTANTS.__getitem__,
        int: lambda whole: int.__repr__(value_of(whole)),
        float: _text_of_float,
        Decimal: _text_of_decimal,
        dict: text_of_object,
        Mapping: text_of_object,
        list: text_of_array,
        tuple: text_of_array,
    }
    return text_by_class


_CONSTANTS: Final = {None: "null", True: "true", False: "false"}
_text: Final = _writer(sort_names=False)
_text_sorted: Final = _writer(sort_names=True)


def _json_kind(given: Any) -> str:
    match given:
        case None | bool():
            return _CONSTANTS[given]
        case str():
            return "a string"
        case int() | float() | Decimal():
            return "a number"
        case list():
            return "an array"
        case _:
            return type(given).__qualname__


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
    return _told_apart(
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
    Kind.SET: lambda value, depth: {"$set": _normal_items(value, depth)},
    Kind.ARRAY: lambda value, depth: {"$array": _normal_items(value, depth)},
    Kind.TUPLE: lambda value, depth: {"$tuple": _normal_items(value, depth)},
    Kind.POINT: lambda value, _: {"$point": [value.x, value.y]},
    Kind.INTERVAL: lambda value, _: {"$interval": [value.low, value.high]},
    Kind.RECTANGLE: lambda value, _: {"$rectangle": [value.left, value.bottom, value.right, value.top]},
    Kind.RECORD: _normal_record,
}


def record_hash(record: Mapping[str, Any], document: Element | None = None) -> str:
    """Thirty-two hexadecimal digits that equal records, with equal documents, share."""
    digest = blake2b(canonical(record), digest_size=16)
    if document is not None:
        rows = _encode_document(document, lambda value: _normal(value, 0))
        digest.update(b"\n" + format_json(rows, sort_names=True).encode())
    return digest.hexdigest()
