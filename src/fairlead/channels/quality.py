"""The qualities that a channel may prescribe, as frozen values, and how a file has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final

from fairlead.configuration import Key, Kind, Reading, Wrong, count, expected, file_of, made, text, texts
from fairlead.errors import ChannelError, FairleadError
from fairlead.filters.filter import Filter
from fairlead.filters.language import render
from fairlead.model import ABSENT, Instant, Notification
from fairlead.model.durations import duration_of

__all__ = ["EXPIRES", "FILTER", "RETAIN", "Expires", "Retain"]

COUNT_MAX: Final = 1_000


def _text_of(filter: str | Filter) -> str:
    return filter if isinstance(filter, str) else render(filter)


FILTER: Final = Kind(text, _text_of)
"""A filter as a file has it: a text, which is read with the schema later."""


@dataclass(frozen=True, slots=True)
class Retain:
    """The last `count` notifications of each key are kept for those who subscribe later.

    The key is the values of the attributes `per`; that there is none is a value, too. A notification that `ends`
    matches removes its key, and is not kept itself.
    """

    per: Annotated[tuple[str, ...], Key("the attributes whose values make a key", texts)] = ()
    count: Annotated[int, Key("how many of each key are kept", count(1, COUNT_MAX))] = 1
    ends: Annotated[str | Filter | None, Key("notifications that remove their key", FILTER)] = None

    def __post_init__(self) -> None:
        if isinstance(self.per, str) or not all(isinstance(each, str) and each for each in self.per):
            raise ChannelError(
                f"a key is made of names of attributes, not of {self.per!r}", hint='per=("symbol",)'
            )
        object.__setattr__(self, "per", tuple(self.per))
        if (
            isinstance(self.count, bool)
            or not isinstance(self.count, int)
            or not 1 <= self.count <= COUNT_MAX
        ):
            raise ChannelError(f"a channel retains 1 to {COUNT_MAX:,} values of each key, not {self.count!r}")


@dataclass(frozen=True, slots=True)
class Expires:
    """From this instant on, a notification is handed to nobody for the first time.

    It is read from an attribute: an instant, or a duration from the publication on (`30s`, or a number of
    seconds). Without that, or where it is neither, `default` holds; None: it does not expire.
    """

    attribute: Annotated[str, Key("the attribute with an instant, or a duration", text)] = ""
    default: Annotated[str | None, Key("a duration, for what has no such attribute", text)] = None

    def __post_init__(self) -> None:
        if not isinstance(self.attribute, str) or (not self.attribute and self.default is None):
            raise ChannelError(
                "a channel whose notifications expire says when", hint='expires="30s", or Expires("ttl")'
            )
        if self.default is not None and self.default_us <= 0:
            raise ChannelError(f"a notification expires after some time, not after {self.default!r}")

    @property
    def default_us(self) -> int:
        """The duration in microseconds; 0: it does not expire."""
        return 0 if self.default is None else _duration(self.default)

    def of(self, notification: Notification, now: int) -> int | None:
        """The instant at which what is published now expires, in microseconds."""
        value = notification.get(self.attribute) if self.attribute else ABSENT
        match value:
            case Instant():
                return value.microseconds
            case str():
                try:
                    return now + duration_of(value)
                except FairleadError:
                    pass
            case bool():
                pass
            case int() | float() | Decimal() if 0 <= value < SECONDS_MAX:
                return now + round(value * 1_000_000)
        return now + self.default_us if self.default is not None else None


SECONDS_MAX: Final = 10**12


def _duration(text: str) -> int:
    try:
        return duration_of(text)
    except FairleadError as error:
        raise ChannelError(str(error)) from None


def _read_expires(given: Any) -> Expires:
    expires: Expires
    if isinstance(given, str):
        expires = _made(Expires, {"default": given})
        return expires
    if not isinstance(given, Mapping):
        raise expected('a duration, or a table such as { attribute = "ttl", default = "30s" }', given)
    reading = Reading(file_of(Expires))
    table = reading.table("", given)
    if reading.problems:
        raise Wrong("; ".join(reading.problems))
    expires = _made(Expires, table)
    return expires


def _made(kind: type[Any], table: Mapping[str, Any]) -> Any:
    try:
        return kind(**made(kind, {"": table}))
    except FairleadError as error:
        raise Wrong(str(error).replace("\n  hint: ", "; ")) from None


def _write_expires(expires: Expires) -> Any:
    if not expires.attribute:
        return expires.default
    default = {} if expires.default is None else {"default": expires.default}
    return {"attribute": expires.attribute, **default}


EXPIRES: Final = Kind(_read_expires, _write_expires)


def _read_retain(given: Any) -> Retain:
    if not isinstance(given, Mapping):
        raise expected('a table such as { per = ["symbol"] }', given)
    reading = Reading(file_of(Retain))
    table = reading.table("", given)
    if reading.problems:
        raise Wrong("; ".join(reading.problems))
    retain: Retain = _made(Retain, table)
    return retain


def _write_retain(retain: Retain) -> dict[str, Any]:
    ends = {} if retain.ends is None else {"ends": _text_of(retain.ends)}
    return {"per": list(retain.per), "count": retain.count, **ends}


RETAIN: Final = Kind(_read_retain, _write_retain)
