"""The lineage of a neighbour's log: while the neighbour was away it grew, it went back to a copy, or it is a copy
that is refused.

A log that went back (an older backup was restored) is followed: both sides go on from the end of what the two logs
have in common. A copy is refused once another copy has taken its place: two copies that both append would each
acknowledge what the other one does not have. An earlier process of a log is refused, too: its call may arrive
after the call of the process that has opened the log since, and must not take the place of that one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fairlead.log.lineage import Incarnation, Lineage, common_end, is_ancestor

__all__ = ["Judgement", "judge", "lineage_of", "valid_end"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A broker's judgement of the lineage that a neighbour presents."""

    refusal: str = ""
    """Why the neighbour is refused; empty if it is not."""
    has_gone_back: bool = False
    superseded: frozenset[str] = frozenset()
    """The incarnations of the neighbour's log that others have taken the place of."""


def lineage_of(given: Sequence[tuple[str, int]]) -> Lineage:
    """A lineage as it travels."""
    return tuple(Incarnation(*each) for each in given)


def judge(known: Lineage, superseded: Collection[str], lineage: Lineage) -> Judgement:
    """Compare the lineage that is known of a neighbour's log with the one that it presents now."""
    dead = frozenset(superseded)
    again = [each.id for each in lineage if each.id in dead]
    if again:
        return Judgement(
            "its log is a copy that another one has replaced; to continue with this one,"
            " unlink it and link it anew",
            superseded=dead,
        )
    if is_ancestor(known, lineage):
        return Judgement(superseded=dead)
    if lineage and lineage[-1].id in {each.id for each in known}:
        # Every opening begins an incarnation, so this process opened its log before the one that is known did.
        return Judgement("its log has been opened by another process since", superseded=dead)
    present = {each.id for each in lineage}
    return Judgement(
        has_gone_back=True, superseded=dead | {each.id for each in known if each.id not in present}
    )


def valid_end(read: int, known: Lineage, lineage: Lineage, end: int | None = None) -> int:
    """The offset below which all that was read of a log is still in it.

    `end` is where the log ends now; a reader that is beyond it has read of a log that is gone, or was misled.
    """
    fork = common_end(known, lineage)
    bounds = [read, *(each for each in (fork, end) if each is not None)]
    return min(bounds)
