"""A partial order, kept as chains, in memory that grows with their number and not with that of related pairs.

    a chain           members in a row, the widest first: each covers all that follow
    steps of D to C   for each member of D the lowest member of C above it, written down where it changes

Covering is transitive, so what is above a member in another chain is a beginning of that chain, and the lower the
member, the longer the beginning. A step function says where it ends:

    C   x > 1 ── x > 2 ── x > 3 ── x > 9              steps of D to C:  d1 → x > 2,  d3 → x > 9
                   │                 │
    D              d1 ── d2 ───────── d3

So a thousand thresholds on one attribute take a chain and no steps, where all pairs would be half a million. At
worst, with chains of one member each, there is a step for each related pair. The way not taken is a graph of
direct covers: it is as small, but every question walks it, and so does every change.

Who puts a member in knows what is above and below it (`add`); nothing here compares members.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

__all__ = ["Chain", "Member", "add", "highest_below", "is_above", "lowest_above", "remove", "steps"]

_GAP: Final = 1 << 32
_rank = attrgetter("rank")


class Member:
    """A member of a chain: the chain, and a number that grows along it."""

    __slots__ = ("chain", "rank")
    chain: Chain[Any]
    rank: int


Of = TypeVar("Of", bound=Member)


class Chain(Generic[Of]):
    """Members of one shape, the widest first, and the steps to chains with members above these."""

    __slots__ = ("above", "below", "members", "shape")

    def __init__(self, shape: Hashable) -> None:
        self.shape = shape
        self.members: list[Of] = []
        self.above: dict[Chain[Of], list[Of]] = {}
        """The steps to each chain, one after the other: a member of this chain, then the one above it."""
        self.below: dict[Chain[Of], None] = {}
        """The chains with steps to this one."""

    @property
    def top(self) -> Of:
        """The widest member."""
        return self.members[0]

    @property
    def bottom(self) -> Of:
        """The narrowest member."""
        return self.members[-1]

    def position(self, member: Of) -> int:
        """The number of members before this one."""
        return bisect_left(self.members, member.rank, key=_rank)

    def until(self, member: Of) -> list[Of]:
        """The members from the widest to this one."""
        if self.members[-1] is member:
            return self.members[:]
        return self.members[: self.position(member) + 1]

    def since(self, member: Of) -> list[Of]:
        """The members from this one to the narrowest."""
        if self.members[0] is member:
            return self.members[:]
        return self.members[self.position(member) :]

    def lowest_above(self, member: Of, steps: list[Of]) -> Of | None:
        """The lowest member of another chain above a member of this one, by the steps to that chain."""
        at = _count(steps, 0, member.rank + 1)
        return steps[2 * at - 1] if at else None

    def highest_below(self, member: Of, steps: list[Of]) -> Of | None:
        """The highest member of another chain below a member of this one, by the steps from that chain."""
        at = _count(steps, 1, member.rank)
        return steps[2 * at] if 2 * at < len(steps) else None

    def insert(self, member: Of, at: int) -> None:
        """Put a member in at a place."""
        low = self.members[at - 1].rank if at else None
        high = self.members[at].rank if at < len(self.members) else None
        if low is None or high is None:
            member.rank = high - _GAP if high is not None else low + _GAP if low is not None else 0
        else:
            member.rank = (low + high) // 2
        member.chain = self
        self.members.insert(at, member)
        if member.rank == low:  # no number is left between the two
            for place, each in enumerate(self.members):
                each.rank = place * _GAP


# -- coming and going ----------------------------------------------------------------------------------


def add(member: Of, shape: Hashable, above: Mapping[Chain[Of], Of], below: Mapping[Chain[Of], Of]) -> None:
    """Put a member in; given are, by chain, the lowest member above it and the highest below it."""
    chain, at = _fitting(shape, above, below)
    chain.insert(member, at)
    for other, lowest in above.items():
        if other is not chain:
            _raise(chain, other, member, lowest)
    for other, highest in below.items():
        if other is not chain:
            _raise(other, chain, highest, member)


def remove(member: Of) -> None:
    """Take a member out. What is above it stays above what is below it."""
    chain: Chain[Of] = member.chain
    at = chain.position(member)
    before = chain.members[at - 1] if at else None
    after = chain.members[at + 1] if at + 1 < len(chain.members) else None
    for other, steps in list(chain.above.items()):
        step = 2 * _count(steps, 0, member.rank)
        if step < len(steps) and steps[step] is member:
            if after is None or (step + 2 < len(steps) and steps[step + 2] is after):
                _drop(chain, other, steps, step)
            else:
                steps[step] = after
    for other in list(chain.below):
        steps = other.above[chain]
        step = 2 * _count(steps, 1, member.rank)
        if step < len(steps) and steps[step + 1] is member:
            if before is None or (step and steps[step - 1] is before):
                _drop(other, chain, steps, step)
            else:
                steps[step + 1] = before
    del chain.members[at]


# -- questions -----------------------------------------------------------------------------------------


def is_above(one: Of, other: Of) -> bool:
    """Whether one member is above the other, or the same."""
    chain: Chain[Of] = other.chain
    if one.chain is chain:
        return one.rank <= other.rank
    steps = chain.above.get(one.chain)
    lowest = None if steps is None else chain.lowest_above(other, steps)
    return lowest is not None and one.rank <= lowest.rank


def lowest_above(member: Of) -> Iterator[Of]:
    """By chain, the lowest member above a member; of its own chain, the member itself."""
    chain: Chain[Of] = member.chain
    rank = member.rank
    yield member
    for steps in chain.above.values():
        lowest = steps[-1] if steps[-2].rank <= rank else chain.lowest_above(member, steps)
        if lowest is not None:
            yield lowest


def highest_below(member: Of) -> Iterator[Of]:
    """By chain, the highest member below a member; of its own chain, the member itself."""
    chain: Chain[Of] = member.chain
    rank = member.rank
    yield member
    for other in chain.below:
        steps = other.above[chain]
        highest = steps[0] if steps[1].rank >= rank else chain.highest_below(member, steps)
        if highest is not None:
            yield highest


def steps(member: Of) -> int:
    """The number of steps that begin at a member, or lead to it."""
    chain: Chain[Of] = member.chain
    return sum(_has(steps, 0, member) for steps in chain.above.values()) + sum(
        _has(other.above[chain], 1, member) for other in chain.below
    )


def _fitting(
    shape: Hashable, above: Mapping[Chain[Of], Of], below: Mapping[Chain[Of], Of]
) -> tuple[Chain[Of], int]:
    """The longest chain of a shape whose every member is above or below, and the place there; or a new one.

    Only what is alike stands in one chain: a narrow filter at the end of a row of thresholds would end the row.
    """
    best, at = None, 0
    for chain in {**above, **below}:
        if chain.shape != shape or (best is not None and len(chain.members) <= len(best.members)):
            continue
        first = chain.position(above[chain]) + 1 if chain in above else 0
        last = chain.position(below[chain]) if chain in below else len(chain.members)
        if first == last:
            best, at = chain, first
    return (Chain(shape), 0) if best is None else (best, at)


def _count(steps: list[Of], side: int, rank: int) -> int:
    """The number of steps that begin at (0), or lead to (1), a member before a rank."""
    low, high = 0, len(steps) // 2
    while low < high:
        middle = (low + high) // 2
        if steps[2 * middle + side].rank < rank:
            low = middle + 1
        else:
            high = middle
    return low


def _has(steps: list[Of], side: int, member: Of) -> bool:
    at = 2 * _count(steps, side, member.rank) + side
    return at < len(steps) and steps[at] is member


def _raise(chain: Chain[Of], other: Chain[Of], start: Of, lowest: Of) -> None:
    """From a member of a chain on, a member of the other chain is above."""
    steps = chain.above.get(other)
    if steps is None:
        chain.above[other] = [start, lowest]
        other.below[chain] = None
        return
    at = end = _count(steps, 0, start.rank)
    if at and steps[2 * at - 1].rank >= lowest.rank:
        return
    while 2 * end < len(steps) and steps[2 * end + 1].rank <= lowest.rank:
        end += 1
    if end == at and _has(steps, 0, start):
        return  # it has a lower one
    steps[2 * at : 2 * end] = (start, lowest)


def _drop(chain: Chain[Of], other: Chain[Of], steps: list[Of], step: int) -> None:
    del steps[step : step + 2]
    if not steps:
        del chain.above[other]
        del other.below[chain]
