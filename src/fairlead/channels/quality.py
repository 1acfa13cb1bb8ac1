"""The qualities that a channel may prescribe, as frozen values, and how a file has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final

from fairlead.channels.waiting import DISCARDS, PRIORITY_DEFAULT, PRIORITY_MAX
from fairlead.configuration import (
    Key,
    Kind,
    Reader,
    Reading,
    Wrong,
    count,
    expected,
    file_of,
    made,
    one_of,
    parsed,
    text,
    texts,
)
from fairlead.errors import ChannelError, FairleadError
from fairlead.filters.filter import Filter
from fairlead.filters.language import render
from fairlead.model import ABSENT, Instant, Notification
from fairlead.model.durations import duration_of

__all__ = [
    "DEADLINE",
    "DELAY",
    "DISCARD",
    "EXPIRES",
    "FILTER",
    "ORDER",
    "PRIORITY",
    "RETAIN",
    "Delay",
    "Expires",
    "Priority",
    "Retain",
    "channel_duration",
]

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
class _From:
    """An instant that a channel prescribes.

    It is read from an attribute: an instant, or a duration from the publication on (`30s`, or a number of
    seconds). Without that, or where it is neither, `default` holds; None: there is none.
    """

    attribute: Annotated[str, Key("the attribute with an instant, or a duration", text)] = ""
    default: Annotated[str | None, Key("a duration, for what has no such attribute", text)] = None

    def __post_init__(self) -> None:
        kind = type(self).__name__
        if not isinstance(self.attribute, str) or (not self.attribute and self.default is None):
            raise ChannelError(
                f"a channel with {kind.lower()!r} says when",
                hint=f'{kind.lower()}="30s", or {kind}("attribute")',
            )
        if self.default is not None and self.default_us <= 0:
            raise ChannelError(
                f"{kind.lower()!r} of a channel is a time longer than nothing, not {self.default!r}"
            )

    @property
    def default_us(self) -> int:
        """The duration in microseconds; 0: there is none."""
        return 0 if self.default is None else channel_duration(self.default)

    def of(self, notification: Notification, now: int) -> int | None:
        """The instant for what is published now, in microseconds."""
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


class Expires(_From):
    """From this instant on, a notification is handed to nobody for the first time; None: it does not expire."""

    __slots__ = ()


class Delay(_From):
    """Until this instant, a notification is held where it was published; None: it is not held."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Priority:
    """The priority of notifications: a whole number from 0 to 9, of which the higher goes first.

    It is read from an attribute; without that, or where it is no such number, `default` holds.
    """

    attribute: Annotated[str, Key("the attribute with a whole number from 0 to 9", text)] = ""
    default: Annotated[int, Key("the priority of what has no such attribute", count(0, PRIORITY_MAX))] = (
        PRIORITY_DEFAULT
    )

    def __post_init__(self) -> None:
        if not isinstance(self.attribute, str) or _priority(self.default) is None:
            raise ChannelError(
                f"a priority is a whole number from 0 to {PRIORITY_MAX}, not {self.default!r}",
                hint='priority=7, or Priority("urgency", default=4)',
            )

    def of(self, notification: Notification) -> int:
        """The priority of what is published now."""
        found = _priority(notification.get(self.attribute)) if self.attribute else None
        return self.default if found is None else found


def _priority(value: Any) -> int | None:
    """The priority that a value is, if it is one."""
    is_one = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= PRIORITY_MAX
    return value if is_one else None


SECONDS_MAX: Final = 10**12


def channel_duration(text: str) -> int:
    """A duration of a channel in microseconds; ChannelError where it is none."""
    try:
        return duration_of(text)
    except FairleadError as error:
        raise ChannelError(str(error)) from None


def _reading(kind: type[Any], plain: str, plain_types: type | tuple[type, ...], hint: str) -> Reader:
    """A reader of values of a kind: a table of its keys, or a plain value that stands for one of them."""

    def read(given: Any) -> Any:
        if isinstance(given, plain_types) and not isinstance(given, bool):
            return _made(kind, {plain: given})
        if not isinstance(given, Mapping):
            raise expected(hint, given)
        return _made(kind, _table(kind, given))

    return read


def _table(kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    reading = Reading(file_of(kind))
    table = reading.table("", given)
    if reading.problems:
        raise Wrong("; ".join(reading.problems))
    return dict(table)


def _made(kind: type[Any], table: Mapping[str, Any]) -> Any:
    try:
        return kind(**made(kind, {"": table}))
    except FairleadError as error:
        raise Wrong(str(error).replace("\n  hint: ", "; ")) from None


def _write(value: _From | Priority) -> Any:
    if not value.attribute:
        return value.default
    default = {} if value.default is None else {"default": value.default}
    return {"attribute": value.attribute, **default}


EXPIRES: Final = Kind(
    _reading(
        Expires, "default", str, 'a duration, or a table such as { attribute = "ttl", default = "30s" }'
    ),
    _write,
)
DELAY: Final = Kind(
    _reading(Delay, "default", str, 'a duration, or a table such as { attribute = "not_before" }'), _write
)
PRIORITY: Final = Kind(
    _reading(
        Priority, "default", int, 'a whole number, or a table such as { attribute = "urgency", default = 4 }'
    ),
    _write,
)
ORDER: Final = one_of("producer", "priority")
DISCARD: Final = one_of(*DISCARDS)


def _read_duration(given: str) -> str:
    channel_duration(given)
    return given


DEADLINE: Final = parsed(_read_duration)


def _read_retain(given: Any) -> Retain:
    if not isinstance(given, Mapping):
        raise expected('a table such as { per = ["symbol"] }', given)
    retain: Retain = _made(Retain, _table(Retain, given))
    return retain


def _write_retain(retain: Retain) -> dict[str, Any]:
    ends = {} if retain.ends is None else {"ends": _text_of(retain.ends)}
    return {"per": list(retain.per), "count": retain.count, **ends}


RETAIN: Final = Kind(_read_retain, _write_retain)
