"""Numbers as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil, floor, log10

__all__ = ["compact", "duration", "figure", "instant", "many", "percent", "rate", "round_up"]

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def many(count: int, one: str, more: str | None = None) -> str:
    """ "1 row", "2,000 rows"."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def compact(value: float) -> str:
    """Three digits and a unit: 950, 1.2k, 34k, 5.6M."""
    for size, unit in _UNITS:
        # What would round up to the next unit belongs to it: 999,600 is 1M, not 1000k.
        if value >= size * 0.9995:
            scaled = value / size
            return f"{scaled:.1f}".removesuffix(".0") + unit if scaled < 9.95 else f"{scaled:.0f}{unit}"
    return f"{value:.0f}" if value >= 9.95 or value == int(value) else f"{value:.1f}"


def figure(count: int) -> str:
    """A count in full, as long as it has room in a picture."""
    return f"{count:,}" if count < 10_000_000 else compact(count)


def rate(count: float, seconds: float) -> str:
    """A rate per second; a dash if no time has passed."""
    return f"{compact(count / seconds)}/s" if seconds > 0 else "—"


def percent(part: int, whole: int) -> str:
    """A share: "12 %", "0.03 %"; a part is never shown as none or as all of it."""
    if not whole:
        return "—"
    if part in (0, whole):
        return "0 %" if not part else "100 %"
    share = 100 * part / whole
    if share < 0.01:
        return "< 0.01 %"
    digits = 0 if share >= 10 else 1 if share >= 1 else 2
    return f"{min(share, 99):.0f} %" if digits == 0 else f"{share:.{digits}f} %"


def duration(seconds: float) -> str:
    """ "350 ms", "4.2 s", "3 min 20 s", "2 h 5 min"."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.0005 or not seconds else "< 1 ms"
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    parts = [(whole // 86_400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    first = next(place for place, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)


def instant(microseconds: int | None) -> str:
    """A time of the calendar; the ends of time, which a watermark can be at, have none."""
    if microseconds is None:
        return "—"
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return "end" if microseconds > 0 else "—"


def round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, …: where an axis ends."""
    if value <= 0:
        return 1.0
    size = 10.0 ** floor(log10(value))
    return next(
        step * size for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if ceil(value / size * 1e6) / 1e6 <= step
    )
