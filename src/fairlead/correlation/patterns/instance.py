"""One automaton on one stream: the selection among matches that end, and the state of partial matches.

With `same`, every value has an instance of its own. An instance is fed occurrences in the order of the stream, and
told when its timers go off; time is what it is told. Elements that no atom and no domain mentions are not its
concern.

It has a *member*, a bit, for each of the patterns that share the automaton. They differ in what their atoms take
and have in their domains (`Reaction`), so their matches go different ways over one graph; and each takes matches
as if it were alone. Law: what is taken for a member does not depend on which others there are.

What has been taken is kept as what it rules out, for whom: `after`, the place behind which matches may start
(past, recent); `started`, the occurrences with which one was taken (next); `consumed` (first). With the
occurrences since the earliest start of a match in progress, this is all of a member's state (`MemberState`), from
which the rest is made again by feeding them once more. The same happens when a match of `first` consumes what
others had taken as well. Then even what had come to nothing may go on, as if it had never met what is consumed: so
with `first`, all is kept since nothing was in progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import heappop
from itertools import islice
from typing import Final, NamedTuple, Protocol

from fairlead.correlation.occurrences import Before, Occurrence, Rank
from fairlead.correlation.patterns.automaton import Automaton
from fairlead.correlation.patterns.graph import (
    Allowed,
    Edge,
    Node,
    Path,
    Shared,
    best_paths,
    bits,
    only,
    prune,
    starting_at,
    starts_of,
)
from fairlead.correlation.patterns.model import Take
from fairlead.correlation.patterns.moving import FIRST_OF_ALL, Moving
from fairlead.correlation.patterns.reactions import EVERYONE, Reaction
from fairlead.correlation.patterns.searching import Search, Seeker
from fairlead.model.order import BEGINNING

__all__ = ["Instance", "MemberState", "Seen"]


class _Best(Protocol):
    """Finds the first match of each member that starts where it may, or the last one."""

    def __call__(self, allowed: Allowed, *, last: bool = False) -> list[Shared]: ...


class Seen(NamedTuple):
    """An occurrence that concerns an instance, and what it does there."""

    occurrence: Occurrence
    reaction: Reaction


@dataclass(frozen=True, slots=True)
class MemberState:
    """The state of a member, from which another instance continues."""

    seen: tuple[Occurrence, ...]
    after: Rank
    started: frozenset[Rank]
    consumed: frozenset[Rank]
    until: int
    """Time events up to this time have gone off."""
    before: Before = ()
    """The occurrences before the first that was seen, as far as steps look back."""

    @property
    def witness(self) -> Occurrence:
        """One of its occurrences, all of which have the same key."""
        return self.seen[0] if self.seen else next(found[0] for _, found in self.before if found)


class Instance(Moving):
    """The matches on one stream, of all patterns that share an automaton, and what has been taken of them."""

    __slots__ = (
        "_after",
        "_before",
        "_consumed",
        "_looking",
        "_prunes",
        "_remembers",
        "_seen",
        "_started",
        "_until",
        "alarm",
    )

    def __init__(self, automaton: Automaton, *, remembers: bool = False) -> None:
        super().__init__(automaton)
        self._after: dict[Rank, int] = {}
        self._started: dict[Rank, int] = {}
        self._consumed: dict[Rank, int] = {}
        self._prunes = 100
        self.alarm: int | None = None
        """When whoever drives it has planned to come back."""
        self._until = BEGINNING
        self._remembers = remembers or automaton.pattern.take is Take.FIRST
        self._seen: list[Seen] = []
        self._before: dict[str, tuple[Occurrence, ...]] = {}
        """For the steps that look back: the last occurrences of their sorts, the nearest first."""
        self._looking = 0
        """The member that looks back: such a pattern shares its automaton with no other."""

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self._before

    def tick(self, time: int) -> tuple[list[Shared], list[Shared]]:
        """Time events of one moment: the matches that are taken, and those that have run out of time."""
        self._until = time
        while self.timers and self.timers[0] <= time:
            heappop(self.timers)
        accepted = self.go_off(time)
        taken = self._choose(accepted, time) if accepted else []
        return taken, [] if self._automaton.runs_out is None else self._run_out(time)

    def feed(self, occurrence: Occurrence, reaction: Reaction) -> list[Shared]:
        """The next occurrence: the matches that end with it and are taken."""
        if self._automaton.lookback:
            occurrence = self._with_preceding(occurrence, reaction)
        if self._remembers:
            self._seen.append(Seen(occurrence, reaction))
        accepted = self.advance(occurrence, reaction)
        found = self._choose(accepted, occurrence.end) if accepted else []
        if not self.waiting:
            self._trim()
        return found

    def _with_preceding(self, occurrence: Occurrence, reaction: Reaction) -> Occurrence:
        """The next occurrence, with what comes before it; it comes before those that follow."""
        bare, before = occurrence.behind(()), []
        self._looking |= reaction.concerned
        for sort, of, step, depth in self._automaton.lookback:
            found = self._before.get(step, ())
            if reaction.is_sort_of(of):
                before.append((step, found))
            if reaction.is_sort_of(sort):
                self._before[step] = (bare, *found)[:depth]
        return bare.behind(tuple(before))

    # -- what is taken

    def _is_behind(self, start: Rank) -> int:
        """For whom a match may start at a place by what was taken: behind it."""
        ruled_out = 0
        for after, members in self._after.items():
            if start <= after:
                ruled_out |= members
        return ~ruled_out

    def _may_start(self, start: Rank) -> int:
        return self._is_behind(start) & ~self._started.get(start, 0)

    def _choose(self, accepted: list[Edge], end: int) -> list[Shared]:
        """Of the matches that end here those that are taken; what that rules out is noted."""
        pattern = self._automaton.pattern
        floor = self._floor(end)
        match pattern.take:
            case Take.ALL:
                taken = list(self._all_of(accepted, floor, pattern.limit))
            case Take.NEXT:
                taken = self._one_for_each_start(accepted, floor, self._may_start)
            case Take.FIRST:
                taken = self._consume(accepted, floor)
            case Take.RECENT:
                taken = self._best(accepted, floor)(self._may_start, last=True)
                self._go_past(taken, accepted)
            case Take.PAST:
                taken = []
                ends = accepted
                while ends:
                    found = self._best(ends, floor)(self._may_start)
                    taken += found
                    ends = only(ends, self._go_past(found, ends))
        if pattern.partial or pattern.take is Take.NEXT:
            for members, path in taken:
                _note(self._started, path[0][0], members)
        return taken

    def _best(
        self,
        ends: list[Edge],
        floor: int,
        *,
        without: Mapping[Rank, int] | None = None,
        is_complete: bool = True,
    ) -> _Best:
        """The search for the first match of each member, or the last one; complete ones satisfy all
        conditions.
        """
        judging = self._automaton.judging
        if judging is None:
            return partial(best_paths, ends, floor, without=without)
        return Seeker(
            ends,
            lambda member: Search(ends, floor, member, judging, is_complete=is_complete, without=without),
        ).best

    def _all_of(self, ends: list[Edge], floor: int, limit: int) -> Iterator[Shared]:
        """Every match of each member, the first ones."""
        members = 0
        for _, open_to in ends:
            members |= open_to
        for member in bits(members):
            search = Search(ends, floor, member, self._automaton.judging)
            for path in islice(search.paths(), limit):
                yield member, path

    def _one_for_each_start(
        self, ends: list[Edge], floor: int, allowed: Allowed, *, is_complete: bool = True
    ) -> list[Shared]:
        """For each start the first of its matches."""
        starts = starts_of(ends, floor, allowed)
        best = self._best(ends, floor, is_complete=is_complete)
        return [found for rank, members in starts.items() for found in best(starting_at(rank, members))]

    def _go_past(self, taken: list[Shared], ends: list[Edge]) -> int:
        """The next match starts behind what was taken. For whom that leaves something in progress."""
        left = over = 0
        for members, path in taken:
            last = path[-1][0] if self._automaton.pattern.resume is None else self._resumes(path, ends)
            if last >= self._newest:
                over |= members
            else:
                left |= members
                self._after = {**_noted(self._after, ~members), last: members}
        if over:
            self.drop(over)
        return left

    def _resumes(self, path: Path, ends: list[Edge]) -> Rank:
        """The place behind which the next match starts, if not behind the last event of this one.

        It starts with an event of a step. All that could start before is in progress, or ends here.
        """
        resume, first = self._automaton.pattern.resume, path[0][0]
        assert resume is not None
        number = self._automaton.number_of(resume.step)
        places = [rank for rank, taking, _ in path if taking == number]
        if not places:
            return path[-1][0]
        place = places[-1 if resume.is_last else 0]
        if place == first:
            return first
        starts = starts_of([*self.in_progress, *ends], BEGINNING, _anywhere)
        return max(rank for rank in (first, *starts) if rank < place)

    def _consume(self, accepted: list[Edge], floor: int) -> list[Shared]:
        """The first match, then the first of those that share nothing with it, and so on."""
        taken: list[Shared] = []
        while found := self._best(accepted, floor, without=self._consumed)(_anywhere):
            taken += found
            for members, path in found:
                for rank, _, _ in path:
                    _note(self._consumed, rank, members)
        if taken:
            self._again()
        return taken

    def _again(self) -> None:
        """Make the matches in progress again from what was seen: with what is consumed by now, and in order."""
        self.waiting, self.timers = {}, []
        until = self._until_now()
        seen, self._seen = self._seen, []
        for each in seen:
            occurrence, reaction = each
            while self.timers and self.timers[0] < occurrence.end:
                self.go_off(heappop(self.timers))
            if not self.waiting:
                self._seen.clear()  # what comes from here on meets nothing of that, and cannot consume it
            consumed = self._consumed.get(occurrence.rank)
            self.advance(
                occurrence,
                reaction if consumed is None else reaction.without(consumed),
                self._is_behind(occurrence.rank),
            )
            self._seen.append(each)
        while self.timers and self.timers[0] <= until:
            self.go_off(heappop(self.timers))
        self._trim()

    def _run_out(self, time: int) -> list[Shared]:
        """The matches in progress whose window ends at a time, the first for each start."""
        window = self._automaton.window or 0

        def runs_out(start: Rank) -> int:
            return self._may_start(start) if start[1] + window == time else 0

        waiting = list(self._in_time(time))
        return self._one_for_each_start(waiting, time - window, runs_out, is_complete=False)

    def _in_time(self, time: int) -> Iterator[Edge]:
        """The waiting edges that have exceeded no window by a time, neither themselves nor by their origins."""
        for number, edges in self.waiting.items():
            state = self._automaton.state(number)
            floor = BEGINNING if state.window is None else time - state.window
            for node, members in edges:
                began = ((node.registers[register], duration) for register, duration in state.windows)
                if all(start is None or time - start <= duration for start, duration in began):
                    above = Node(self._made + 2, node.element, (), floor)
                    above.reach([(node, members)])
                    yield above, members

    # -- what is kept

    def _until_now(self) -> int:
        """Time events up to here have gone off."""
        return max(self._until, self._newest[0] - 1)

    def forget(self, time: int) -> None:
        """Forget what is too old to matter from a time on."""
        for number, edges in list(self.waiting.items()):
            window = self._automaton.state(number).window
            if window is None:
                continue
            left = [edge for edge in edges if edge[0].latest >= time - window]
            if left:
                self.waiting[number] = left
            else:
                del self.waiting[number]
        if self._made >= self._prunes:
            windows = [self._automaton.state(number).window for number in self.waiting]
            if windows and None not in windows:
                nodes = prune(self.in_progress, time - max(filter(None, windows)))
                self._prunes = self._made + max(100, 4 * nodes)  # now and then: it costs as much as there is
        floor = self._floor(time)
        self._started = {rank: members for rank, members in self._started.items() if rank[1] >= floor}
        self._seen = [each for each in self._seen if each.occurrence.end >= floor]
        self._trim()

    def _trim(self) -> dict[Rank, int]:
        """Keep of what was seen only what may matter; the starts of matches in progress."""
        if not self.waiting:
            self._seen.clear()
            self._after.clear()
            self._consumed.clear()
            self._started.clear()
        if not self.waiting or not self._remembers:
            return {}
        starts = starts_of(self.in_progress, BEGINNING, self._is_behind)
        # Of those with which a match was taken, only `next` takes no more; the others have to be known as such.
        over = self._started if self._automaton.pattern.take is Take.NEXT else {}
        going_on = 0
        for rank, members in starts.items():
            going_on |= members & ~over.get(rank, 0)
        self.drop(~going_on)
        if not self.waiting:
            return self._trim()
        starts = {rank: some for rank, members in starts.items() if (some := members & going_on)}
        earliest = self._earliest(next(iter(starts)))
        self._seen = [each for each in self._seen if each.occurrence.rank >= earliest]
        for noted in (self._consumed, self._started):
            for rank in [rank for rank in noted if rank < earliest]:
                del noted[rank]
        return starts

    def _earliest(self, start: Rank) -> Rank:
        """From where on what was seen may matter to matches of which the earliest in progress starts here."""
        return self._seen[0].occurrence.rank if self._automaton.pattern.take is Take.FIRST else start

    def states(self) -> Iterator[tuple[int, MemberState]]:
        """The state of each member with partial matches, from which another instance continues."""
        starts = self._trim()
        earliest: dict[int, Rank] = {}
        if not starts and self._before:  # nothing is in progress, but what comes next has something before it
            yield self._looking, MemberState((), *_NOTHING, self._until_now(), self._before_all(()))
        for rank, members in starts.items():
            for member in bits(members):
                earliest.setdefault(member, rank)
        for member, first in earliest.items():
            start = self._earliest(first)
            seen = tuple(
                each.occurrence
                for each in self._seen
                if each.occurrence.rank >= start and each.reaction.concerned & member
            )
            yield (
                member,
                MemberState(
                    seen,
                    max((rank for rank, some in self._after.items() if some & member), default=FIRST_OF_ALL),
                    frozenset(
                        rank for rank, some in self._started.items() if some & member and rank >= start
                    ),
                    frozenset(
                        rank for rank, some in self._consumed.items() if some & member and rank >= start
                    ),
                    self._until_now(),
                    self._before_all(seen),
                ),
            )

    def _before_all(self, seen: Iterable[Occurrence]) -> Before:
        """The occurrences before the first of those that are seen until now."""
        found: dict[str, tuple[Occurrence, ...]] = {}
        for occurrence in seen:
            for step, before in occurrence.before:
                found.setdefault(step, before)
        return tuple((step, found.get(step, before)) for step, before in self._before.items())

    @classmethod
    def resumed(cls, automaton: Automaton, seen: list[Seen], states: Mapping[int, MemberState]) -> Instance:
        """An instance that continues from the states of others; each state has the occurrences that it needs."""
        instance = cls(automaton, remembers=True)
        instance._seen = seen
        if automaton.lookback:
            for each in states.values():
                instance._before.update(each.before)
                instance._looking = next(iter(states))
            instance._seen = [
                Seen(instance._with_preceding(occurrence, reaction), reaction)
                for occurrence, reaction in seen
            ]
        for member, each in states.items():
            _note(instance._after, each.after, member)
            for rank in each.started:
                _note(instance._started, rank, member)
            for rank in each.consumed:
                _note(instance._consumed, rank, member)
            instance._until = max(instance._until, each.until)
        instance._again()
        return instance

    def split(self, member: int) -> Instance:
        """Move the partial matches of a member to an instance of their own."""
        other = Instance(self._automaton, remembers=self._remembers)
        other.waiting = {
            number: some for number, edges in self.waiting.items() if (some := only(edges, member))
        }
        other._after = _noted(self._after, member)
        other._started = _noted(self._started, member)
        other._consumed = _noted(self._consumed, member)
        other.timers = list(self.timers)
        other._apart, other._intervals = self._apart, self._intervals
        other._made, other._newest, other._until = self._made, self._newest, self._until
        other._seen = [
            Seen(occurrence, reaction.only(member))
            for occurrence, reaction in self._seen
            if reaction.concerned & member
        ]
        if self._looking & member:
            other._before, other._looking = dict(self._before), self._looking
        self.leave(member)
        return other

    def leave(self, member: int) -> None:
        """Forget a member, whose bit another one may get."""
        self.drop(member)
        self._after = _noted(self._after, ~member)
        self._started = _noted(self._started, ~member)
        self._consumed = _noted(self._consumed, ~member)
        if self._looking & member:
            self._before, self._looking = {}, 0
        self._seen = [
            Seen(occurrence, reaction.only(~member))
            if reaction.concerned & member
            else Seen(occurrence, reaction)
            for occurrence, reaction in self._seen
            if reaction.concerned & ~member
        ]


_NOTHING: Final[tuple[Rank, frozenset[Rank], frozenset[Rank]]] = (FIRST_OF_ALL, frozenset(), frozenset())
"""The notes of a member of which nothing is in progress."""


def _note(noted: dict[Rank, int], rank: Rank, members: int) -> None:
    noted[rank] = noted.get(rank, 0) | members


def _noted(noted: dict[Rank, int], members: int) -> dict[Rank, int]:
    """The notes of some members."""
    return {rank: some for rank, each in noted.items() if (some := each & members)}


def _anywhere(start: Rank) -> int:
    return EVERYONE
