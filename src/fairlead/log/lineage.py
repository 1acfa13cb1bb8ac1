"""A lineage is the list of a log's incarnations: the writers that opened it, and at which offset.

Every opening of a log begins an incarnation with an id of its own. Two logs with a common history share the first
incarnations of their lineages, and every record below the first difference. So a reader that remembers the lineage
it has seen, and how far it has read, can tell what became of a log meanwhile:

- the log grew: the lineage that the reader knows is the beginning of the log's;
- the log went back, to an older backup or a copy of its directory: the lineages differ, and the offset returned by
  `common_end` is where the reader's knowledge ends.

The law: for logs A and B that were copied from one another and grew, records below `common_end(A, B)` are the same
in both, and no greater offset has that property unless both appended the same bytes.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["LINEAGE_MAX", "Incarnation", "Lineage", "common_end", "is_ancestor", "next_id", "shortened"]

_TIME, _CHANCE = 14, 10
"""The digits of an id that are the time, and those that are chance."""
LINEAGE_MAX: Final = 256
"""A lineage names at most so many incarnations, the latest ones."""


class Incarnation(NamedTuple):
    """The records from the offset `first` on, up to the next incarnation's, were appended under this id."""

    id: str
    first: int


Lineage = tuple[Incarnation, ...]


def next_id(known: Sequence[str], now: int) -> str:
    """The id of a log's next incarnation, at a time in microseconds: ids of one lineage sort as they follow one
    another, shorter ones of earlier releases first, and a log and its copy have different ones."""
    latest = int(known[-1][:_TIME], 16) if known and len(known[-1]) == _TIME + _CHANCE else 0
    return f"{max(now, latest + 1):0{_TIME}x}{uuid.uuid4().hex[:_CHANCE]}"


def shortened(lineage: Sequence[Incarnation]) -> Lineage:
    """The latest incarnations of a lineage."""
    return tuple(lineage[-LINEAGE_MAX:])


def is_ancestor(known: Sequence[Incarnation], lineage: Sequence[Incarnation]) -> bool:
    """Whether a log with this lineage continues the log whose lineage is known."""
    return not known or known[-1].id in {each.id for each in lineage}


def common_end(known: Sequence[Incarnation], lineage: Sequence[Incarnation]) -> int | None:
    """The first offset at which two logs may differ; None where no incarnation follows those in common.

    A reader that has read up to some offset of the log with the known lineage has read the same records of the
    other log, up to the smaller of the two offsets.
    """
    if not known or not lineage:
        return None
    offsets = {each.id: number for number, each in enumerate(lineage)}
    common = next((number for number in reversed(range(len(known))) if known[number].id in offsets), None)
    if common is None:  # no incarnation in common: nothing that was read can be relied on
        return 0
    forks = [
        branch[place].first
        for branch, place in ((known, common + 1), (lineage, offsets[known[common].id] + 1))
        if place < len(branch)
    ]
    return min(forks, default=None)
