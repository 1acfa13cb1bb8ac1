"""Matches enumerated from the graph, in the order of preference: those that satisfy the conditions over
tallies.

    search = Search(ends, floor, member, automaton.judging)
    search.paths(allowed)       the paths of a member to the ends that start where they may, the first one first

Paths are tried from their start on, for all nodes together that the same occurrences lead to, whichever steps took
them: places decide before steps do, which are told apart when a path is complete. Every node that can be reached
leads to an end, so without conditions the work is that of writing paths down. With conditions, a beginning is
given up when it does not meet what its continuations need (`Judging`). Where one condition bounds an aggregate, or
compares sums and counts, no beginning fails later than that. Elsewhere some do; what has failed once (nodes, and
what the tallies have come to) is not tried again.

Law: the paths are those of the graph that satisfy the conditions, in the order of preference; but when more than
`FAILURES_MAX` beginnings have come to nothing, no further path is looked for. To balance two sums exactly is
NP-complete: somewhere there has to be a limit.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.correlation.occurrences import Occurrence, Rank
from fairlead.correlation.patterns.graph import (
    Allowed,
    Edge,
    Path,
    Reached,
    Shared,
    Sieve,
    bits,
    leading_to,
    only,
)
from fairlead.correlation.patterns.judging import FREE, Bound, Judging, States, meets

__all__ = ["FAILURES_MAX", "Search", "Seeker"]

log: Final = logging.getLogger(__name__)

STANDS_MAX: Final = 10_000
"""In how many ways different steps may have taken the same occurrences, before it is given up."""
FAILURES_MAX: Final = 100_000
"""The number of beginnings that may come to nothing, for one end and one pattern, before it is given up."""
_Needs = tuple[Bound, ...]


@dataclass(slots=True, eq=False)
class _Stand:
    """The stand of beginnings that took the same occurrences: a node, and the sums of their tallies.

    Where one measure decides, they stand there together, and the tallies are those with the most of it.
    """

    reached: Reached | None
    states: States
    before: list[_Stand]
    """The stands from which they come; none: nothing has been taken."""


@dataclass(slots=True)
class _Beginning:
    """Occurrences that a path begins with, and what is left to be tried behind them, the first last."""

    stands: list[_Stand]
    complete: list[_Stand]
    """Those of its stands at which a path may end, as long as these have not been told."""
    ways: list[list[_Stand]]
    """The stands behind one more occurrence."""
    key: Any
    is_in_vain: bool = field(default=True)


class Search:
    """The paths of a member to some ends; what a path takes starts from `floor` on."""

    def __init__(
        self,
        ends: list[Edge],
        floor: int,
        member: int,
        judging: Judging | None = None,
        *,
        is_complete: bool = True,
        without: Mapping[Rank, int] | None = None,
    ) -> None:
        """`is_complete`: conditions on complete matches are evaluated. Consumed occurrences are not taken."""
        self._member, self._judging, self._is_complete = member, judging, is_complete
        self._failed: set[Any] = set()
        self._is_counted = self._is_crowded = False
        open_to = only(ends, member)
        reached = dict.fromkeys(leading_to(open_to, floor, member))
        self._after: dict[Reached, list[Reached]] = defaultdict(list)
        for node, least in reached:
            for each, members in node.before:
                before = (each, max(least, each.floor))
                if members & member and before in reached:
                    self._after[before].append((node, least))
        self._final = {(node, max(floor, node.floor)) for node, _ in open_to}
        consumed = {rank for rank, members in (without or {}).items() if members & member}
        self._needs = self._needed(
            [each for each in reached if not (each[0].took and each[0].rank in consumed)]
        )
        self._starts = [each for each in reached if each in self._needs and each[0].starts & member]

    @property
    def has_given_up(self) -> bool:
        """Whether too many beginnings have failed, or exist side by side."""
        return self._is_crowded or len(self._failed) > FAILURES_MAX

    def paths(self, allowed: Allowed | None = None, *, last: bool = False) -> Iterator[Path]:
        """The paths from permitted starts, in the order of preference, or in the reverse order."""
        starts = [each for each in self._starts if allowed is None or allowed(each[0].rank) & self._member]
        states: States = () if self._judging is None else self._judging.initial
        root = _Stand(None, states, [])
        waiting = [self._beginning([root], {root: starts}, None, last=last)]
        while waiting and not self.has_given_up:
            begun = waiting[-1]
            if begun.complete and (last or not begun.ways):
                complete, begun.complete, begun.is_in_vain = begun.complete, [], False
                yield from self._written_out(complete, last)
            elif begun.ways:
                further = self._going_on(begun.ways.pop(), last)
                if further is not None:
                    waiting.append(further)
            else:
                waiting.pop()
                if begun.is_in_vain:
                    self._failed.add(begun.key)
                elif waiting:
                    waiting[-1].is_in_vain = False
        if self._judging is not None and self.has_given_up and not self._is_counted:
            self._is_counted = True
            self._judging.given_up += 1
            log.warning(
                "a search for matches was given up after %d beginnings that came to nothing: some may be missing",
                len(self._failed),
            )

    def _going_on(self, stands: list[_Stand], last: bool) -> _Beginning | None:
        """A beginning with one more occurrence; None where nothing comes of it."""
        key = None
        if self._judging is not None:
            stands = self._promising(stands)
            key = frozenset((stand.reached, self._judging.telling(stand.states)) for stand in stands)
            if not stands or key in self._failed:
                return None
        following = {stand: self._after[stand.reached] for stand in stands if stand.reached is not None}
        return self._beginning(stands, following, key, last=last)

    def _beginning(
        self, stands: list[_Stand], following: Mapping[_Stand, Iterable[Reached]], key: Any, *, last: bool
    ) -> _Beginning:
        """The occurrences that may be taken next; time events and sieves, which take nothing, are passed."""
        ways: dict[Any, dict[Any, _Stand]] = {}
        complete = []
        for stand in stands:
            is_over = stand.reached in self._final
            looked_at = [each for each in following[stand] if each in self._needs]
            known = set(looked_at)
            for each in looked_at:  # grows by what leads on without taking anything
                node = each[0]
                if node.took:
                    # Of those that take the same occurrence, the one that takes it more often comes first.
                    self._step(ways.setdefault((node.rank, -len(node.took)), {}), stand, each)
                elif not isinstance(node, Sieve) or all(claim.met(stand.states) for claim in node.claims):
                    is_over = is_over or each in self._final
                    further = [
                        other for other in self._after[each] if other in self._needs and other not in known
                    ]
                    looked_at += further
                    known.update(further)
            if is_over and self._is_satisfied(stand.states):
                complete.append(stand)
        listed = [list(ways[rank].values()) for rank in sorted(ways, reverse=not last)]
        return _Beginning(stands, complete, listed, key)

    def _is_satisfied(self, states: States) -> bool:
        """Whether what is asked of a complete match, if it is, holds."""
        return self._judging is None or not self._is_complete or self._judging.satisfied(states)

    def _step(self, stands: dict[Any, _Stand], stand: _Stand, reached: Reached) -> None:
        """Go on from a stand to a node: those that come there with equal tallies stand together."""
        judging, states, telling = self._judging, stand.states, None
        measured = None
        if judging is not None:
            states = judging.added(states, reached[0].taken)
            measured = None if judging.single is None else judging.single.value(states)
            telling = judging.telling(states) if measured is None else ()
        there = stands.get((reached, telling))
        if there is None:
            stands[reached, telling] = _Stand(reached, states, [stand])
            self._is_crowded = self._is_crowded or len(stands) > STANDS_MAX
            return
        there.before.append(stand)
        known = None if judging is None or judging.single is None else judging.single.value(there.states)
        if measured is not None and measured > known:
            there.states = states

    # -- what is needed

    def _promising(self, stands: list[_Stand]) -> list[_Stand]:
        """Those of whose continuations one may satisfy what is asked."""
        return [stand for stand in stands if self._is_promising(stand, stand.states)]

    def _is_promising(self, stand: _Stand, states: States) -> bool:
        """Whether a beginning that stands there with some tallies may satisfy what is asked."""
        if self._judging is None or stand.reached is None:
            return True
        needs = zip(self._judging.aims, self._needs[stand.reached], strict=True)
        values = ((aim.value(states), bound) for aim, bound in needs)
        return all(value is None or meets(value, bound) for value, bound in values)

    def _written_out(self, complete: list[_Stand], last: bool) -> Iterator[Path]:
        """The paths to some stands, which took the same occurrences, in the order of the steps that took them."""
        judging = self._judging
        levels = [complete]
        while levels[-1][0].before:
            levels.append(list(dict.fromkeys(before for stand in levels[-1] for before in stand.before)))
        levels.reverse()
        (root,) = levels[0]
        waiting: list[tuple[int, Path, dict[_Stand, list[States]]]] = [(0, (), {root: [root.states]})]
        while waiting:
            level, path, standing = waiting.pop()
            if level + 1 == len(levels):
                if any(self._is_satisfied(states) for several in standing.values() for states in several):
                    yield path
                continue
            ways: dict[Path, dict[_Stand, dict[Any, States]]] = {}
            for stand in levels[level + 1]:
                assert stand.reached is not None
                taken = stand.reached[0].taken
                for before in stand.before:
                    for states in standing.get(before, ()):
                        now = states if judging is None else judging.added(states, taken)
                        if self._is_promising(stand, now):
                            telling = None if judging is None else judging.telling(now)
                            ways.setdefault(taken, {}).setdefault(stand, {})[telling] = now
            for taken in sorted(ways, reverse=not last):
                stands = {stand: list(states.values()) for stand, states in ways[taken].items()}
                waiting.append((level + 1, path + taken, stands))

    def _needed(self, reached: list[Reached]) -> dict[Reached, _Needs]:
        """For each node that leads to an end the weakest of what its continuations need."""
        judging = self._judging
        if judging is None:
            return dict.fromkeys(reached, ())
        finally_needed = judging.needed if self._is_complete else (FREE,) * len(judging.aims)
        needs: dict[Reached, _Needs] = {}
        before: dict[Reached, _Needs] = {}
        for each in reversed(reached):
            alternatives = [before[further] for further in self._after[each] if further in before]
            if each in self._final:
                alternatives.append(finally_needed)
            if alternatives:
                needs[each] = tuple(map(min, *alternatives)) if len(alternatives) > 1 else alternatives[0]
                before[each] = _before(judging, each, needs[each])
        return needs


def _before(judging: Judging, reached: Reached, needs: _Needs) -> _Needs:
    """The needs of a beginning that goes on with a node."""
    node, _ = reached
    if node.took:
        element = node.element
        assert isinstance(element, Occurrence)
        return tuple(
            aim.before(node.took, element, bound) for aim, bound in zip(judging.aims, needs, strict=True)
        )
    if isinstance(node, Sieve):
        strongest = list(needs)
        for claim in node.claims:
            for number, bound in judging.claimed(claim):
                strongest[number] = max(strongest[number], bound)
        return tuple(strongest)
    return needs


class Seeker:
    """The best paths to some ends for all members that they are open to."""

    def __init__(self, ends: list[Edge], search: Callable[[int], Search]) -> None:
        """`search`: the search for a member."""
        members = 0
        for _, open_to in ends:
            members |= open_to
        self._searches = {member: search(member) for member in bits(members)}

    def best(self, allowed: Allowed, *, last: bool = False) -> list[Shared]:
        """For each member the first path that starts where it may, or the last; those with the same together."""
        found: dict[tuple[tuple[Rank, int], ...], Shared] = {}
        for member, search in self._searches.items():
            path = next(search.paths(allowed, last=last), None)
            if path is not None:
                key = tuple([(rank, number) for rank, number, _ in path])
                members = found[key][0] if key in found else 0
                found[key] = members | member, path
        return list(found.values())
