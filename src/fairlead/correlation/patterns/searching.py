"""Matches written out of the graph, in the order of preference: those that satisfy what is asked about tallies.

    search = Search(ends, floor, member, automaton.judging)
    search.paths(allowed)       the paths of a member to the ends that start where they may, the first one first

Paths are tried from their start on, for all nodes together that the same constituents lead to. Whoever can be
reached leads to an end, so without conditions the work is that of writing paths down. With conditions, a beginning
is given up when it does not meet what its continuations need (`Judging`). Where one condition bounds an aggregate,
or compares sums and counts, no beginning fails later than that. Elsewhere some do; what has failed once (nodes,
and what the tallies have come to) is not tried again.

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
    ordered,
)
from fairlead.correlation.patterns.judging import FREE, Bound, Judging, States, meets
from fairlead.correlation.patterns.occurrences import Occurrence, Rank

__all__ = ["FAILURES_MAX", "Search", "Seeker"]

log: Final = logging.getLogger(__name__)

FAILURES_MAX: Final = 100_000
"""How many beginnings may come to nothing, for one end and one pattern, before it is given up."""
_Needs = tuple[Bound, ...]


@dataclass(slots=True)
class _Beginning:
    """Constituents that a path begins with, and what is left to be tried behind them, the first last."""

    path: Path
    states: States
    ways: list[tuple[Path, list[Reached]]]
    is_complete: bool
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
        """`is_complete`: what is asked of complete matches is asked. Nothing is taken that is consumed."""
        self._member, self._judging, self._is_complete = member, judging, is_complete
        self._failed: set[Any] = set()
        self._is_counted = False
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
            [each for each in reached if not (each[0].took and each[0].place in consumed)]
        )
        self._starts = [each for each in reached if each in self._needs and each[0].starts & member]

    @property
    def has_given_up(self) -> bool:
        """Whether too many beginnings have come to nothing."""
        return len(self._failed) > FAILURES_MAX

    def paths(self, allowed: Allowed | None = None, *, last: bool = False) -> Iterator[Path]:
        """Those that start where they may, in the order of preference, or in the opposite order."""
        starts = [each for each in self._starts if allowed is None or allowed(each[0].place) & self._member]
        states: States = () if self._judging is None else self._judging.initial
        beginning = self._beginning((), states, starts, [], key=None, last=last)
        waiting = [] if beginning is None else [beginning]
        while waiting and not self.has_given_up:
            begun = waiting[-1]
            if begun.is_complete and (last or not begun.ways):
                begun.is_complete = begun.is_in_vain = False
                yield begun.path
            elif begun.ways:
                taken, nodes = begun.ways.pop()
                further = self._going_on(begun, taken, nodes, last)
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
                FAILURES_MAX,
            )

    def _going_on(
        self, begun: _Beginning, taken: Path, nodes: list[Reached], last: bool
    ) -> _Beginning | None:
        """A beginning with further constituents, to which some nodes lead; None where nothing comes of it."""
        states, judging = begun.states, self._judging
        if judging is None:
            key = None
        else:
            states = judging.added(states, taken)
            nodes = self._promising(nodes, states)
            key = (tuple(nodes), judging.telling(states))
            if not nodes or key in self._failed:
                return None
        following = dict.fromkeys(each for node in nodes for each in self._after[node])
        return self._beginning(begun.path + taken, states, following, nodes, key=key, last=last)

    def _beginning(
        self,
        path: Path,
        states: States,
        following: Iterable[Reached],
        nodes: list[Reached],
        *,
        key: Any,
        last: bool,
    ) -> _Beginning | None:
        """What may be taken next, and by which nodes; time events and sieves, which take nothing, are passed."""
        ways: dict[Path, list[Reached]] = {}
        is_over = not self._final.isdisjoint(nodes)
        looked_at = [each for each in following if each in self._needs]
        known = set(looked_at)
        for each in looked_at:  # grows by what leads on without taking anything
            node = each[0]
            if node.took:
                ways.setdefault(node.taken, []).append(each)
            elif not isinstance(node, Sieve) or all(claim.met(states) for claim in node.claims):
                is_over = is_over or each in self._final
                further = [
                    other for other in self._after[each] if other in self._needs and other not in known
                ]
                looked_at += further
                known.update(further)
        if is_over and self._judging is not None and self._is_complete:
            is_over = self._judging.satisfied(states)
        listed = sorted(ways.items(), key=lambda way: ordered(way[0]), reverse=not last)
        return _Beginning(path, states, listed, is_over, key)

    # -- what is needed

    def _promising(self, nodes: list[Reached], states: States) -> list[Reached]:
        """The nodes of whose continuations one may satisfy what is asked."""
        judging = self._judging
        assert judging is not None
        values = [aim.value(states) for aim in judging.aims]
        return [
            each
            for each in nodes
            if all(
                value is None or meets(value, bound)
                for value, bound in zip(values, self._needs[each], strict=True)
            )
        ]

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
    """What is needed of a beginning that goes on with a node."""
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
