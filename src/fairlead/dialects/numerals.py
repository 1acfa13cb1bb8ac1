"""Regular expressions for whole numbers that are written in strings."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["whole_number"]


def whole_number(low: int, high: int) -> str:
    """The decimal texts of the numbers from low to high: with a sign or without, leading zeros do not count."""
    parts = []
    if high >= 0:
        parts.append(rf"\+?0*({'|'.join(_digits(max(low, 0), high))})")
    if low <= 0:
        least, most = max(-high, 0), -low
        parts.append(f"-0*({'|'.join(_digits(least, most))})")
    return "|".join(parts)


def _digits(low: int, high: int) -> Iterator[str]:
    """Alternatives for the numbers from low to high, which are not negative, without leading zeros but for 0."""
    while low <= high:
        text = str(low)
        # The longest run of free digits at the end, so that the whole block lies within the bounds.
        free = 0
        while low % 10 ** (free + 1) == 0 and low + 10 ** (free + 1) - 1 <= high and free + 1 < len(text):
            free += 1
        step = 10**free
        first = low // step % 10
        last = min(9, first + (high - low + 1) // step - 1)
        head = text[: len(text) - free - 1]
        digit = f"[{first}-{last}]" if first < last else str(first)
        yield f"{head}{digit}{'[0-9]' + (f'{{{free}}}' if free > 1 else '') if free else ''}"
        low += (last - first + 1) * step
