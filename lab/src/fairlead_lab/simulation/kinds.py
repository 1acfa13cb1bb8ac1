"""The values of scenario files: shares as parts per million, times as microseconds, names and numbers in
lists.

All that is drawn from them is drawn with integers, so a scenario and a seed are the same run on any machine.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from fairlead.configuration import Kind, Wrong, count, expected, one_of, text

__all__ = ["EXPONENT", "MILLION", "MS", "PERIOD_MS", "PPM", "SEED", "SHARE", "brokers", "names", "rising"]

MILLION: Final = 1_000_000
TIME_MS_MAX: Final = 10**12


def _decimal(given: Any) -> Decimal:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise expected("a number", given)
    exact = Decimal(str(given))
    if not exact.is_finite():
        raise Wrong(f"a number was expected, not {given}")
    return exact


def _parts(share: Any) -> int:
    """A share between 0 and 1, in parts per million."""
    exact = _decimal(share) * MILLION
    if not 0 <= exact <= MILLION:
        raise Wrong(f"a share from 0 to 1 was expected, not {share}")
    if exact != (whole := int(exact)):
        raise Wrong(f"{share} is finer than a millionth")
    return whole


def _microseconds(ms: Any) -> int:
    exact = _decimal(ms) * 1_000
    if not 0 <= exact <= TIME_MS_MAX * 1_000:
        raise Wrong(f"milliseconds from 0 to {TIME_MS_MAX:,} were expected, not {ms}")
    if exact != (whole := int(exact)):
        raise Wrong(f"{ms} ms is finer than a microsecond")
    return whole


def _period(ms: Any) -> int:
    if not (us := _microseconds(ms)):
        raise Wrong("it takes some time from one event to the next")
    return us


def _exponent(given: Any) -> Decimal:
    exact = _decimal(given)
    if not 0 <= exact <= 10:
        raise Wrong(f"a number from 0 to 10 was expected, not {given}")
    return exact


def _number(exact: Decimal) -> int | float:
    return int(exact) if exact == int(exact) else float(exact)


PPM: Final = Kind(_parts, lambda parts: _number(Decimal(parts) / MILLION))
"""A share; its value is in parts per million."""
SHARE: Final = Kind(lambda given: _parts(given) / MILLION)
"""A share, as it is."""
MS: Final = Kind(_microseconds, lambda us: _number(Decimal(us) / 1_000))
"""A time in milliseconds; its value is in microseconds."""
PERIOD_MS: Final = Kind(_period, MS.write)
EXPONENT: Final = Kind(_exponent, _number)
SEED: Final = count(0, 2**63 - 1)


def names(*known: str) -> Callable[[Any], tuple[str, ...]]:
    """One of these names or a list of them."""
    one = one_of(*known)

    def read(given: Any) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(map(one, given if isinstance(given, list) else [given])))
        if not found:
            raise Wrong("the list is empty")
        return found

    return read


def rising(least: int, most: int) -> Callable[[Any], tuple[int, ...]]:
    """A number or a list of numbers, each larger than the one before."""
    one = count(least, most)

    def read(given: Any) -> tuple[int, ...]:
        found = tuple(map(one, given if isinstance(given, list) else [given]))
        if not found or any(after <= before for before, after in pairwise(found)):
            raise Wrong(f"numbers that rise were expected, such as [{least}, {least + 1}]")
        return found

    return read


def brokers(given: Any) -> tuple[str, ...]:
    """A list of brokers' names."""
    if not isinstance(given, list) or not given:
        raise expected('a list of brokers such as ["B1", "B2"]', given)
    return tuple(dict.fromkeys(map(text, given)))
