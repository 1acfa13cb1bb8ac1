"""Instants: points in time, in whole microseconds, and their spelling as RFC 3339 has it.

    Instant.parse("2024-05-01T10:00:00Z")     the instant of a text
    str(instant)                              the text of an instant

Law: for the years 1 to 9999, parse of str is the identity.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from fairlead.errors import ValueRefused

__all__ = ["Instant", "Since", "microseconds_of", "rfc3339"]

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)?)?", re.ASCII
)
_USUAL = re.compile(r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d{3}|\.\d{6})?Z", re.ASCII)
"""The spelling that most sources use, all of which `datetime.fromisoformat` reads as RFC 3339 has it."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_PLAIN = _EPOCH.replace(tzinfo=None)  # what has no zone is written sooner
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A point in time: whole microseconds since 1970-01-01T00:00:00Z."""

    microseconds: int

    @classmethod
    def parse(cls, text: str) -> Instant:
        """The instant that an RFC 3339 date-time names; finer than microseconds is refused.

        Without an offset it is UTC, without a time of day midnight: the forms that tables and logs have.
        """
        if _USUAL.fullmatch(text) is not None:
            try:
                return cls((dt.datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND)
            except ValueError:
                pass  # no such day or minute, as is said below
        matched = _RFC3339.fullmatch(text)
        if matched is None:
            raise ValueRefused(
                f"not an instant: {text!r}",
                hint="write it as RFC 3339 has it: 2024-05-01T10:00:00Z",
            )
        *fields, fraction, offset = matched.groups(default="")
        fraction = fraction.rstrip("0")
        if len(fraction) > 6:
            raise ValueRefused(f"finer than a microsecond: {text!r}")
        zone = "+00:00" if offset in ("", "Z", "z") else offset
        if zone[1:3] > "23" or zone[4:6] > "59":
            raise ValueRefused(f"not an instant: {text!r} (an offset is less than a day)")
        shift = dt.timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
        try:
            local = dt.datetime(*(int(each or 0) for each in fields), tzinfo=dt.UTC)  # type: ignore[misc, arg-type]
        except ValueError as error:
            raise ValueRefused(f"not an instant: {text!r} ({error})") from None
        since = (local - _EPOCH) // _MICROSECOND + int(fraction.ljust(6, "0"))
        return cls(since - (shift if zone[0] == "+" else -shift) // _MICROSECOND)

    @classmethod
    def of(cls, moment: dt.datetime) -> Instant:
        """The instant of an aware datetime."""
        if moment.tzinfo is None:
            raise ValueRefused(
                f"a datetime without a time zone: {moment!r}", hint="give it one, such as datetime.UTC"
            )
        return cls((moment - _EPOCH) // _MICROSECOND)

    def datetime(self) -> dt.datetime:
        """The same instant as an aware datetime in UTC."""
        return _EPOCH + dt.timedelta(microseconds=self.microseconds)

    def __str__(self) -> str:
        return rfc3339(self.microseconds) or f"{self.microseconds}us"


@lru_cache(maxsize=256)  # an event's time is written in its envelope and again among its attributes
def rfc3339(microseconds: int) -> str | None:
    """The date-time of an instant; None outside the years 1 to 9999, where offsets can carry an instant."""
    try:
        return f"{(_EPOCH_PLAIN + dt.timedelta(microseconds=microseconds)).isoformat()}Z"
    except OverflowError:
        return None


Since: TypeAlias = Instant | dt.datetime | str | int
"""A time in the past, in one of its forms: an integer is microseconds since 1970."""


def microseconds_of(given: Since) -> int:
    """An instant in microseconds since 1970."""
    match given:
        case str():
            return Instant.parse(given).microseconds
        case dt.datetime():
            return Instant.of(given).microseconds
        case Instant():
            return given.microseconds
        case int() if not isinstance(given, bool):
            return given
    raise ValueRefused(
        f"no time: {given!r}", hint="an Instant, a datetime, RFC 3339, or microseconds since 1970"
    )
