"""Durations and moments as text: `5 minutes`, `1h30m`, `19:00`, `2026-01-01T00:00:00Z`.

    duration     whole microseconds: 2 days, 1 hour, 5 minutes, 90 s, 250 ms, 3 us
    moment       a time of day in UTC, or an instant

Law: what is written reads back to the same; of all spellings, the one with the largest unit that is exact.
"""

from __future__ import annotations

import math
import re
from datetime import time as TimeOfDay
from datetime import timedelta
from fractions import Fraction
from typing import Final, TypeAlias

from fairlead.errors import FilterError, ValueRefused
from fairlead.model.values import Instant

__all__ = [
    "Moment",
    "duration_of",
    "moment_of",
    "render_duration",
    "render_moment",
    "scan_duration",
    "scan_moment",
    "seconds_of",
]

Moment: TypeAlias = Instant | TimeOfDay

_SCALE: Final = {
    "day": (86_400_000_000, "d"),
    "hour": (3_600_000_000, "h"),
    "minute": (60_000_000, "min"),
    "s": (1_000_000, "s"),
    "ms": (1_000, "ms"),
    "us": (1, "us"),
}
"""The units that durations are written in, with their length and their sign in formulas."""
_SPELLINGS: Final = {
    "day": ("days", "day", "d"),
    "hour": ("hours", "hour", "hrs", "hr", "h"),
    "minute": ("minutes", "minute", "mins", "min", "m"),
    "s": ("seconds", "second", "secs", "sec", "s"),
    "ms": ("milliseconds", "millisecond", "ms"),
    "us": ("microseconds", "microsecond", "us", "µs", "μs"),
}
_MICROSECONDS: Final = {
    **{spelling: _SCALE[unit][0] for unit, spellings in _SPELLINGS.items() for spelling in spellings},
    **dict.fromkeys(("weeks", "week", "w"), 7 * _SCALE["day"][0]),
}
_UNIT = "|".join(sorted(_MICROSECONDS, key=len, reverse=True))
_SUMMAND: Final = re.compile(rf"\s*([0-9]{{1,19}}(?:\.[0-9]{{1,9}})?)\s*({_UNIT})(?![^\W\d])")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)")
_TIME_OF_DAY: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?Z?(?![\w:.])")
_HINT: Final = "a duration is a number and a unit: 90 s, 5 minutes, 1h30m, 250 ms, 2 days"


def scan_duration(source: str, start: int = 0) -> tuple[int, int] | None:
    """The duration at a position of a text, in microseconds, and the position after it."""
    total, end = Fraction(0), start
    while found := _SUMMAND.match(source, end):
        total += Fraction(found[1]) * _MICROSECONDS[found[2]]
        end = found.end()
    if end == start:
        return None
    if total.denominator != 1:
        raise FilterError("a duration is a whole number of microseconds")
    return total.numerator, end


def scan_moment(source: str, start: int = 0) -> tuple[Moment, int] | None:
    """The instant or time of day at a position of a text, and the position after it."""
    if found := _INSTANT.match(source, start):
        return Instant.parse(found[0]), found.end()
    if found := _TIME_OF_DAY.match(source, start):
        hour, minute, second, fraction = found.groups()
        try:
            moment = TimeOfDay(int(hour), int(minute), int(second or 0), int((fraction or "").ljust(6, "0")))
        except ValueError:
            raise FilterError(f"no time of day: {found[0]}") from None
        return moment, found.end()
    return None


def duration_of(given: int | str | timedelta) -> int:
    """A duration as users of Python give it, in microseconds."""
    match given:
        case str():
            found = scan_duration(given)
            if found is None or given[found[1] :].strip():
                raise FilterError(f"not a duration: {given!r}", hint=_HINT)
            return found[0]
        case timedelta():
            return given // timedelta(microseconds=1)
    return given


def moment_of(given: str | Moment) -> Moment:
    """An instant or a time of day as users of Python give it."""
    if not isinstance(given, str):
        return given
    text = given.strip()
    if found := re.fullmatch(r"(-?\d{1,30})us", text):
        return Instant(int(found[1]))
    scanned = scan_moment(text)
    if scanned is None or scanned[1] != len(text):
        raise FilterError(f"not a moment: {given!r}", hint="a moment is 19:00 or 2026-01-01T00:00:00Z")
    return scanned[0]


def seconds_of(given: float | str | timedelta | None, name: str) -> float | None:
    """A duration in seconds, given as such or as a text; None means without end. `name` is for the refusal."""
    if isinstance(given, str | timedelta):
        given = duration_of(given) / 1e6
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or math.isnan(given) or given < 0:
        raise ValueRefused(f"{name} is a number of seconds, or as '60s', or None: not {given!r}")
    return given


def render_duration(duration: int, *, short: bool = False) -> str:
    """A duration in the largest unit that is exact: `90 s`, `1 hour`; short, as in formulas: `1 h`."""
    unit = next(unit for unit, (length, _) in _SCALE.items() if duration % length == 0)
    length, sign = _SCALE[unit]
    plural = "s" if duration != length and len(unit) > 2 else ""
    return f"{duration // length} {sign if short else unit + plural}"


def render_moment(moment: Moment) -> str:
    """A time of day without the zeros at its end, or an instant."""
    if isinstance(moment, TimeOfDay):
        return moment.isoformat(timespec="auto" if moment.second or moment.microsecond else "minutes")
    text = str(moment)
    return f't"{text}"' if text.endswith("us") else text
