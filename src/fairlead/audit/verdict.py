"""Verdicts: what is known about a specification, or a rule of one, after a trace or a part of one."""

from __future__ import annotations

from enum import Enum

__all__ = ["Verdict"]


class Verdict(Enum):
    """It is violated, it is open, it holds. It is open where it depends on what is still to come."""

    VIOLATED = "violated"
    OPEN = "open"
    HOLDS = "holds"

    __hash__ = object.__hash__
