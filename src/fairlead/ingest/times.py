"""The notation of times in records: text in some format, or a number of some unit.

""                  RFC 3339; without an offset, or without a time of day, as UTC; whole numbers are microseconds
s, ms, us, ns       a number of seconds, milliseconds, microseconds or nanoseconds since 1970, also as text
%d.%m.%Y %H:%M      the fields that `datetime.strptime` knows; without %z, as UTC
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from fairlead.errors import ValueRefused
from fairlead.model import Instant, Kind, kind_of, number_of
from fairlead.model.encoding import parse_number

__all__ = ["ANY", "UNITS", "Times", "suspected_unit"]

UNITS: Final = {"s": Decimal(10**6), "ms": Decimal(10**3), "us": Decimal(1), "ns": Decimal("0.001")}
"""The number of microseconds in each unit."""
_PLAUSIBLE: Final = range(Instant.parse("2000-01-01").microseconds, Instant.parse("2100-01-01").microseconds)


@dataclass(frozen=True, slots=True)
class Times:
    """A notation of times. ValueRefused if `form` is neither a unit nor a format of fields."""

    form: str = ""

    def __post_init__(self) -> None:
        if self.form and self.form not in UNITS and "%" not in self.form:
            raise ValueRefused(
                f"not a form of times: {self.form!r}",
                hint="a unit (s, ms, us, ns), or the fields of datetime.strptime, such as %d.%m.%Y %H:%M:%S",
            )

    def instant(self, given: Any) -> Any:
        """The instant of a value, or ValueRefused; instants and null stay as they are."""
        if given is None or isinstance(given, Instant | dt.datetime):
            return given
        if self.form in UNITS:
            return self._counted(given)
        if not isinstance(given, str):
            if self.form:
                raise ValueRefused(f"a time is text in the form {self.form}, not {kind_of(given).value}")
            return given
        return self._spelled(given) if self.form else Instant.parse(given)

    def _counted(self, given: Any) -> Instant:
        number = parse_number(given.strip()) if isinstance(given, str) else given
        if number is None or kind_of(number) is not Kind.NUMBER:
            raise ValueRefused(f"a time is a number of {self.form}")
        microseconds = Decimal(number_of(number)) * UNITS[self.form]
        if microseconds != (whole := int(microseconds)):
            raise ValueRefused("finer than a microsecond")
        return Instant(whole)

    def _spelled(self, given: str) -> Instant:
        try:
            moment = dt.datetime.strptime(given.strip(), self.form)
        except ValueError:
            raise ValueRefused(f"a time is text in the form {self.form}") from None
        return Instant.of(moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC))


ANY: Final = Times()


def suspected_unit(times: Iterable[Instant]) -> str | None:
    """The unit that whole numbers were probably written in, where they were read as microseconds and are not.

    None where any of them lies in this century, or where no unit puts all of them there, as with small numbers.
    """
    counted = [each.microseconds for each in times]
    if not counted or any(each in _PLAUSIBLE for each in counted):
        return None
    for unit in ("ms", "s", "ns"):
        if all(int(each * UNITS[unit]) in _PLAUSIBLE for each in counted):
            return unit
    return None
