"""Goals: targets, each with the measured figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairlead_lab.bench.tables import Grid, brief

__all__ = ["Goal", "at_least", "at_most", "goals_grid"]

VERDICTS: Final = {True: "yes", False: "no", None: "–"}


@dataclass(frozen=True, slots=True)
class Goal:
    """A target, the measured figure, and whether that is enough; None where it was not measured."""

    shape: str
    what: str
    target: str
    measured: str
    met: bool | None


def at_least(
    shape: str, what: str, target: float, measured: float | None, unit: str, *, tolerance: float = 1.0
) -> Goal:
    """A goal that is met by reaching a figure, or all but reaching it."""
    met = None if measured is None else measured >= target * tolerance
    return Goal(shape, what, f"≥ {target:,}{unit}", _against(measured, target, unit), met)


def at_most(shape: str, what: str, target: float, measured: float | None, unit: str) -> Goal:
    """A goal that is met by staying within a figure."""
    met = None if measured is None else measured <= target
    return Goal(shape, what, f"≤ {target:,}{unit}", _against(measured, target, unit), met)


def goals_grid(goals: list[Goal]) -> Grid:
    """The goals as a table."""
    rows = ((each.shape, each.what, each.target, each.measured, VERDICTS[each.met]) for each in goals)
    heads = ("shape", "goal", "target", "measured", "met")
    return Grid("Goals", heads, tuple(rows), left=frozenset({0, 1}))


def _against(measured: float | None, target: float, unit: str) -> str:
    return "not measured" if measured is None else f"{brief(measured)}{unit} ({brief(measured / target)}×)"
