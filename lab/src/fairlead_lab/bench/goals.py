"""Goals: what was asked for, beside what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairlead_lab.bench.tables import Grid, brief

__all__ = ["Goal", "at_least", "at_most", "goals_grid"]

VERDICTS: Final = {True: "yes", False: "no", None: "–"}


@dataclass(frozen=True, slots=True)
class Goal:
    """What was asked for, what was measured, and whether that is enough; None where it was not measured."""

    shape: str
    what: str
    asked: str
    measured: str
    met: bool | None


def at_least(
    shape: str, what: str, asked: float, found: float | None, unit: str, *, tolerance: float = 1.0
) -> Goal:
    """A goal that is met by reaching a figure, or all but reaching it."""
    met = None if found is None else found >= asked * tolerance
    return Goal(shape, what, f"≥ {asked:,}{unit}", _against(found, asked, unit), met)


def at_most(shape: str, what: str, asked: float, found: float | None, unit: str) -> Goal:
    """A goal that is met by staying within a figure."""
    met = None if found is None else found <= asked
    return Goal(shape, what, f"≤ {asked:,}{unit}", _against(found, asked, unit), met)


def goals_grid(goals: list[Goal]) -> Grid:
    """The goals as a table."""
    rows = ((each.shape, each.what, each.asked, each.measured, VERDICTS[each.met]) for each in goals)
    heads = ("shape", "goal", "asked", "measured", "met")
    return Grid("Goals", heads, tuple(rows), left=frozenset({0, 1}))


def _against(found: float | None, asked: float, unit: str) -> str:
    return "not measured" if found is None else f"{brief(found)}{unit} ({brief(found / asked)}×)"
