"""A composite event to be shown: what it is made of, each with the time and a few words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from fairlead.model import Array, Instant, Notification, Record

__all__ = ["CompositeExample", "Constituent"]

WORDS_MAX: Final = 4
"""So many attributes tell one constituent from another."""
UNTOLD: Final = frozenset({"id", "producer", "sequence", "time", "type", "interval"})
"""Attributes that are said elsewhere, or go without saying."""


@dataclass(frozen=True, slots=True)
class Constituent:
    """A constituent: its step, its time in microseconds, its type and some of its attributes."""

    step: str
    name: str
    time: int
    type: str
    about: str


@dataclass(frozen=True, slots=True)
class CompositeExample:
    """A composite event: the id of its pattern, its interval, and its constituents in order."""

    pattern: str
    type: str
    start: int
    end: int
    constituents: tuple[Constituent, ...]

    @classmethod
    def of(cls, composite: Notification, pattern: str) -> CompositeExample:
        """The example of a composite, as `fairlead.correlation.patterns.composites` makes it."""
        interval = composite.get("interval")
        start, end = (interval[name].microseconds for name in ("start", "end"))
        seen: Counter[str] = Counter()
        constituents = []
        for each in composite.get("constituents"):
            step, time = each["step"], each.get("time")
            taken = composite.get(step)
            content = list(taken)[seen[step]] if isinstance(taken, Array) else taken
            seen[step] += 1
            constituents.append(
                Constituent(
                    step,
                    f"{each['producer']}/{each['id']}" if each["producer"] else each["id"],
                    time.microseconds if isinstance(time, Instant) else start,
                    str(content.get("type", "")),
                    _about(content),
                )
            )
        return cls(pattern, composite.get("type"), start, end, tuple(constituents))

    @property
    def waited(self) -> bool:
        """Whether it ends with time rather than with an event: something did not happen."""
        return all(each.time < self.end for each in self.constituents)


def _about(content: Record) -> str:
    told = [
        f"{name} {value}"
        for name, value in content.items()
        if name not in UNTOLD and not isinstance(value, Record | Array) and _is_short(value)
    ]
    return ", ".join(told[:WORDS_MAX])


def _is_short(value: Any) -> bool:
    return len(str(value)) <= 24
