"""The specification of what waits at one destination, as a program over what happened there.

It keeps a list and looks through all of it, so that it has nothing in common with `fairlead.channels.waiting`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from fairlead.channels.waiting import Standing

__all__ = ["Step", "outcomes"]

Step: TypeAlias = tuple[Literal["put", "take", "discard"], Standing]
"""Something happens; the standing is that of what is put."""


def outcomes(steps: Iterable[Step]) -> list[int]:
    """The numbers of what was taken and discarded, in the order of the steps; the first that is put is 0."""
    waiting: list[tuple[int, Standing]] = []
    gone: list[int] = []
    number = 0
    for what, standing in steps:
        if what == "put":
            waiting.append((number, standing))
            number += 1
        elif waiting:
            found = max(waiting, key=lambda each: (each[1].rank, -each[0]))
            if what == "discard":
                found = _superfluous(waiting)
            waiting.remove(found)
            gone.append(found[0])
    return gone


def _superfluous(waiting: list[tuple[int, Standing]]) -> tuple[int, Standing]:
    newest = waiting[-1]
    match newest[1].discard:
        case "newest":
            return newest
        case "lowest priority":
            return min(waiting, key=lambda each: each[1].priority)
        case "latest per key":
            alike = [each for each in waiting[:-1] if each[1].key == newest[1].key]
            return (alike or waiting)[0]
    return waiting[0]
