"""JSON text, read and written exactly: what was read is written as it stood.

Numbers have any size and precision. One with a fraction or an exponent becomes a float where the float stands for
that very number, and a Decimal elsewhere. A number that is not spelled as Python spells it (10.10, 1e3) remembers
its spelling: `WrittenFloat`, `WrittenDecimal` and `WrittenInt` are numbers like any other, and are written as they
were read. Names keep their order.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from functools import partial
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Any, Final

from fairlead.errors import ValueRefused
from fairlead.model.values import DEPTH_MAX, DIGITS_MAX, number_of, value_of

__all__ = [
    "DECIMAL",
    "WRITTEN",
    "WrittenDecimal",
    "WrittenFloat",
    "WrittenInt",
    "brief",
    "decimal_of",
    "format_json",
    "json_kind",
    "parse_json",
    "parse_number",
    "stands_for",
    "too_deep",
]

TEXT_DEPTH_MAX: Final = 2 * DEPTH_MAX + 8
"""The depth to which JSON text may be nested: tags double the levels at worst, and envelopes add a few."""
_BRIEF: Final = 60


def too_deep() -> ValueRefused:
    """The refusal of what is nested too deeply."""
    return ValueRefused(f"nested more than {DEPTH_MAX} levels deep")


def brief(content: Any) -> str:
    """A value, short enough for a sentence; a huge integer is not spelled out."""
    try:
        text = repr(content)
    except (ValueError, RecursionError):
        return f"a very large {type(content).__name__}"
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}…"


# -- numbers as they were written ----------------------------------------------------------------------------


class WrittenFloat(float):
    """A float that is spelled otherwise than Python spells it: `str` and `format_json` give its own spelling."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, value: float, text: str) -> WrittenFloat:
        made = super().__new__(cls, value)
        made.text = text
        return made

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return WrittenFloat, (float(self), self.text)


class WrittenDecimal(Decimal):
    """A number in JSON text that no float represents."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> WrittenDecimal:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __str__(self, eng: bool = False, context: Any = None) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return WrittenDecimal, (self.text,)


class WrittenInt(int):
    """A whole number that is spelled otherwise than Python spells it: -0."""

    text: str

    def __new__(cls, value: int, text: str) -> WrittenInt:
        made = super().__new__(cls, value)
        made.text = text
        return made

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return WrittenInt, (int(self), self.text)


WRITTEN: Final = frozenset({WrittenFloat, WrittenDecimal, WrittenInt})


# -- JSON text ---------------------------------------------------------------------------------------------

_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
DECIMAL: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SURE_LENGTH: Final = 16
"""A point and at most fifteen digits: every such decimal is what the float nearest to it stands for."""
_SMALL: Final = ("0.0000", "-0.0000")
"""Python spells what begins like this with an exponent."""
_MINUS_ZERO: Final = re.compile(r"-0(?![0-9.eE])")


def parse_json(text: bytes | str) -> Any:
    """The exact value of a JSON text, or ValueRefused with the reason.

    The standard library reads it: msgspec is faster, but keeps the last of two equal names in silence.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise ValueRefused(f"not UTF-8: {error.reason} at byte {error.start + 1}") from None
    try:
        any_int = len(text) > DIGITS_MAX or ("-0" in text and _MINUS_ZERO.search(text) is not None)
        parsed = (_DECODER if any_int else _DECODER_OF_SHORT).decode(text)
    except json.JSONDecodeError as error:
        problem = error.msg[:1].lower() + error.msg[1:]
        raise ValueRefused(f"not JSON: {problem}, line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise too_deep() from None
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
    if text == "-0":
        return WrittenInt(0, text)
    if len(text) > DIGITS_MAX and len(text.lstrip("-")) > DIGITS_MAX:
        raise _too_long()
    return int(text)


def _too_long() -> ValueRefused:
    return ValueRefused(f"a number of more than {DIGITS_MAX} digits")


def _fractional(text: str) -> float | Decimal:
    near = float(text)
    has_exponent = "e" in text or "E" in text
    is_sure = len(text) <= _SURE_LENGTH and not has_exponent
    if is_sure and (text[-1] != "0" or text[-2] == ".") and not text.startswith(_SMALL):
        return near  # spelled as Python spells it: what most programs send
    if float.__repr__(near) == text:
        return near
    if is_sure or stands_for(near, decimal_of(text)):
        return WrittenFloat(near, text)
    return WrittenDecimal(text)


def stands_for(near: float, exact: Decimal) -> bool:
    """Whether a float represents a decimal: its shortest decimal is that one."""
    return math.isfinite(near) and Decimal(float.__repr__(near)) == exact


def decimal_of(text: str) -> Decimal:
    """The decimal that a text spells, or ValueRefused where it is beyond all bounds."""
    try:
        exact = Decimal(text)
    except InvalidOperation:
        raise ValueRefused(f"a number beyond all bounds: {brief(text)}") from None
    number_of(exact)
    return exact


def _no_constant(name: str) -> Any:
    raise ValueRefused(f"{name} is not JSON", hint='write {"$number": "nan"}, "inf" or "-inf"')


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueRefused(f"the name {brief(twice)} is twice in one object")
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
            raise too_deep()


def format_json(jsonable: Any, *, sort_names: bool = False) -> str:
    """Compact JSON text: names in the order given or sorted by code point, letters beyond ASCII unescaped."""
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
    """The writer of an item's JSON; the type of an item finds its row, the first of its classes if it has
    none.
    """

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
        **dict.fromkeys(WRITTEN, attrgetter("text")),
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


def json_kind(given: Any) -> str:
    """The kind of a JSON value, in words."""
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
