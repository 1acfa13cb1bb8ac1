"""One automaton on one stream: the matches in progress, and which of those that end are taken.

With `same`, every value has an instance of its own. An instance is fed occurrences in the order of the stream, and
told when its timers go off; time is what it is told. Elements that no atom and no domain mentions are not its
concern.

It has a *member*, a bit, for each of the patterns that share the automaton. They differ in what their atoms take
and have in their domains (`Reaction`), so their matches go different ways over one graph; and each takes matches
as if it were alone. Law: what is taken for a member does not depend on which others there are.

What has been taken is kept as what it rules out, for whom: `after`, the place behind which matches may start
(past, recent); `started`, the occurrences with which one was taken (next); `consumed` (first). With the
occurrences since the earliest start of a match in progress, this is all of a member's state: `Kept`, from which
the rest is made again by feeding them once more. The same happens when a match of `first` consumes what others
had taken as well. Then even what had come to nothing may go on, as if it had never met what is consumed: so with
`first`, all is kept since nothing was in progress.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from fairlead.correlation.patterns.automaton import (
    ACCEPTED,
    EVERYONE,
    Automaton,
    Course,
    Move,
    Reaction,
    State,
    deadline_of,
)
from fairlead.correlation.patterns.graph import (
    Allowed,
    Edge,
    Entry,
    Node,
    Shared,
    Sieve,
    Told,
    best_paths,
    bits,
    entered_before,
    only,
    prune,
    starting_at,
    starts_of,
)
from fairlead.correlation.patterns.judging import Claim, Hull, holds, joined
from fairlead.correlation.patterns.model import Take
from fairlead.correlation.patterns.occurrences import Occurrence, Rank, TimeEvent
from fairlead.correlation.patterns.searching import Search, Seeker
from fairlead.model import key_of
from fairlead.model.order import BEGINNING

__all__ = ["FIRST_OF_ALL", "Instance", "Kept", "Seen"]

FIRST_OF_ALL: Final[Rank] = (BEGINNING, BEGINNING, 0, "", False, 0, "")
"""Before every place."""


class _Best(Protocol):
    """Finds the first match of each member that starts where it may, or the last one."""

    def __call__(self, allowed: Allowed, *, last: bool = False) -> list[Shared]: ...


class Seen(NamedTuple):
    """An occurrence that concerns an instance, and what it does there."""

    occurrence: Occurrence
    reaction: Reaction


@dataclass(frozen=True, slots=True)
class Kept:
    """The state of a member: with it, another instance goes on where this one was left."""

    seen: tuple[Occurrence, ...]
    after: Rank
    started: frozenset[Rank]
    consumed: frozenset[Rank]
    until: int
    """Time events up to this time have gone off."""


class Instance:
    """The matches in progress on one stream, of all patterns that share an automaton."""

    __slots__ = (
        *("_after", "_apart", "_automaton", "_consumed", "_intervals", "_made", "_newest", "_prunes"),
        *("_remembers", "_seen", "_started", "_until", "alarm", "timers", "waiting"),
    )

    def __init__(self, automaton: Automaton, *, remembers: bool = False) -> None:
        self._automaton = automaton
        self.waiting: dict[int, list[Edge]] = {}
        """By the number of a state: the nodes whose matches are in it, and for whom."""
        self._after: dict[Rank, int] = {}
        self._started: dict[Rank, int] = {}
        self._consumed: dict[Rank, int] = {}
        self.timers: list[int] = []
        """When timers go off, or matches may run out of time; a heap."""
        self._apart = automaton.tells_apart
        """Whether matches in one state may differ: by registers, or because what they took has an extent."""
        self._intervals = False
        self._made, self._prunes = 0, 100
        self._newest = FIRST_OF_ALL
        self.alarm: int | None = None
        """When whoever drives it has planned to come back."""
        self._until = BEGINNING
        self._remembers = remembers or automaton.pattern.take is Take.FIRST
        self._seen: list[Seen] = []

    # -- time

    @property
    def due(self) -> int | None:
        """When the next timer goes off, or a match may run out of time; None: never, as it stands."""
        return self.timers[0] if self.timers else None

    @property
    def next_alarm(self) -> int | None:
        """When something has to be done at the latest: a time event, or forgetting what is too old."""
        windows = [window for number in self.waiting if (window := self._automaton.state(number).window)]
        if not windows:
            return self.due
        old = self._newest[0] + min(windows) + 1
        return old if self.due is None else min(old, self.due)

    @property
    def is_idle(self) -> bool:
        """Whether it is as if it had seen nothing, or nothing that still matters."""
        return not self.waiting

    @property
    def in_progress(self) -> list[Edge]:
        """All nodes whose matches wait for something."""
        return [edge for edges in self.waiting.values() for edge in edges]

    def tick(self, time: int) -> tuple[list[Shared], list[Shared]]:
        """Time events of one moment: the matches that are taken, and those that have run out of time."""
        self._until = time
        while self.timers and self.timers[0] <= time:
            heappop(self.timers)
        accepted = self._go_off(time)
        taken = self._choose(accepted, time) if accepted else []
        return taken, [] if self._automaton.runs_out is None else self._run_out(time)

    # -- occurrences

    def feed(self, occurrence: Occurrence, reaction: Reaction) -> list[Shared]:
        """The next occurrence: the matches that end with it and are taken."""
        if self._remembers:
            self._seen.append(Seen(occurrence, reaction))
        accepted = self._advance(occurrence, reaction)
        found = self._choose(accepted, occurrence.end) if accepted else []
        if not self.waiting:
            self._trim()
        return found

    def _advance(self, occurrence: Occurrence, reaction: Reaction, starting: int = EVERYONE) -> list[Edge]:
        """Move every match that the occurrence concerns, and start what it starts; the nodes that are accepted."""
        self._newest = occurrence.rank
        if occurrence.start != occurrence.end:
            self._apart = self._intervals = True
        if self._apart:
            return self._advance_each(occurrence, reaction, starting)
        waiting, end = self.waiting, occurrence.end
        fresh: dict[Any, Node] = {}
        for number in tuple(waiting):
            together = reaction[number]
            if together is None:
                continue
            concerned, ways, window = together
            edges = waiting.pop(number)
            if window is not None and edges[0][0].latest < end - window:
                edges = _recent(edges, end - window)
            if concerned != EVERYONE and (staying := only(edges, ~concerned)):
                waiting[number] = staying
            for members, moves in ways:
                going = edges if members == EVERYONE else only(edges, members)
                if going:
                    for move in moves:
                        self._reached(move, occurrence, fresh).reach(going)
        for members, move in reaction.starts:
            if some := members & starting:
                self._reached(move, occurrence, fresh).begin(some)
        return self._settle(fresh) if fresh else []

    def _reached(self, move: Move, occurrence: Occurrence, fresh: dict[Any, Node]) -> Node:
        """The node to which a move leads matches that have nothing but their state to tell."""
        node = fresh.get(move.target)
        if node is None:
            self._made += 2
            floor = BEGINNING if move.bound is None else occurrence.end - move.bound
            if move.entered:
                node = Entry(self._made, occurrence, move.took, floor)
                node.entered = move.entered
            else:
                node = Node(self._made, occurrence, move.took, floor)
            fresh[move.target] = node
        return node

    # -- one by one: conditions, timers or intervals tell matches apart

    def _advance_each(self, occurrence: Occurrence, reaction: Reaction, starting: int) -> list[Edge]:
        waiting = self.waiting
        fresh: dict[Any, Node] = {}
        for number in tuple(waiting):
            courses = reaction.courses(number)
            if courses:
                staying = self._one_by_one(self._automaton.state(number), occurrence, courses, fresh)
                if staying:
                    waiting[number] = staying
                else:
                    del waiting[number]
        self._start(occurrence, reaction, starting, fresh)
        return self._settle(fresh)

    def _start(
        self, occurrence: Occurrence, reaction: Reaction, starting: int, fresh: dict[Any, Node]
    ) -> None:
        automaton = self._automaton
        for number in automaton.initial:
            state = automaton.state(number)
            for members, taking, fails in reaction.courses(number):
                takes = taking
                if takes & state.asking:
                    takes = self._willing(state, takes, occurrence, (None,) * automaton.registers)
                if takes and (some := members & starting):
                    for move in automaton.moves(number, takes, fails & ~takes):
                        self._moved(move, occurrence, None, some, fresh)

    def _one_by_one(
        self, state: State, occurrence: Occurrence, courses: tuple[Course, ...], fresh: dict[Any, Node]
    ) -> list[Edge]:
        """Move the matches of a state one by one. Those that stay."""
        automaton = self._automaton
        floor = BEGINNING if state.window is None else occurrence.end - state.window
        is_scoped = bool(state.scopes) and not occurrence.is_point
        staying = []
        for node, waiting in self.waiting[state.number]:
            if node.latest < floor:
                continue
            looks, left = self._looks(state, node, occurrence), waiting
            for members, takes, fails in courses:
                some = waiting & members
                if not some:
                    continue
                willing = (takes | fails & state.silent) & looks
                if willing & state.asking:
                    willing = self._willing(state, willing, occurrence, node.registers)
                parts: Iterable[tuple[Node, int]] = ((node, willing),)
                if willing & state.deferring:
                    parts = self._sifted(state, node, some, willing, occurrence)
                for source, answering in parts:
                    taking = answering & ~state.silent
                    failing = (fails & looks & ~state.silent | answering & state.silent) & ~taking
                    if taking | failing:
                        for move in automaton.moves(state.number, taking, failing):
                            behind = _behind(state, source, move, occurrence) if is_scoped else source
                            if behind is not None:
                                self._moved(move, occurrence, behind, some, fresh)
                    elif source is node:
                        continue
                    else:
                        staying.append((source, some))
                    left &= ~some
            if left:
                staying.append((node, left))
        return staying

    def _looks(self, state: State, node: Node, element: Occurrence | TimeEvent) -> int:
        """The atoms, as bits, for which an element is beyond the point that they wait from."""
        looks = state.mask
        if not state.strong or (not self._intervals and isinstance(node.element, Occurrence)):
            return looks
        for number in state.atoms:
            if state.strong >> number & 1:
                mark = self._automaton.steps[number].mark
                last = node.element
                end, was_point = (last.end, last.is_point) if mark is None else node.registers[mark]
                same_instant = end == element.start and was_point and element.is_point
                if not (end < element.start or same_instant):
                    looks &= ~(1 << number)
        return looks

    def _willing(self, state: State, takes: int, occurrence: Occurrence, registers: tuple[Any, ...]) -> int:
        """Of the atoms that may take an occurrence, or fail on it, those whose conditions hold."""
        for number in state.atoms:
            if takes >> number & 1:
                questions = self._automaton.steps[number].questions
                if not all(holds(each, registers, occurrence) for each in questions):
                    takes &= ~(1 << number)
        return takes

    def _sifted(
        self, state: State, node: Node, members: int, willing: int, occurrence: Occurrence
    ) -> Iterator[tuple[Node, int]]:
        """The matches of a node by what they answer about tallies: where they are, and which atoms are willing."""
        judging = self._automaton.judging
        assert judging is not None
        parts: list[tuple[int, tuple[Claim, ...]]] = [(willing, ())]
        for number in state.atoms:
            for question in self._automaton.steps[number].deferred:
                answer = judging.answer(question, occurrence, node.hulls)
                asked, parts = parts, []
                for takes, claims in asked:
                    refusing = takes & ~(1 << number)
                    if takes == refusing or answer is True:
                        parts.append((takes, claims))
                    elif answer is False:
                        parts.append((refusing, claims))
                    else:
                        parts.append((takes, (*claims, Claim(question, occurrence, True))))
                        parts.append((refusing, (*claims, Claim(question, occurrence, False))))
        for takes, claims in parts:
            source = self._sieve(node, members, claims) if claims else node
            if source is not None:
                yield source, takes

    def _sieve(self, node: Node, members: int, claims: tuple[Claim, ...]) -> Node | None:
        """The matches of a node that claims are true of; None where there are none."""
        judging = self._automaton.judging
        assert judging is not None
        sifted = node
        if isinstance(node, Sieve):  # one behind the other is one
            sifted, claims = node.sifted, judging.merged((*node.claims, *claims))
        hulls = judging.narrowed(sifted.hulls, claims)
        return None if hulls is None else Sieve(sifted.number + 1, sifted, members, claims, hulls)

    def _moved(
        self,
        move: Move,
        element: Occurrence | TimeEvent,
        node: Node | None,
        members: int,
        fresh: dict[Any, Node],
    ) -> None:
        """Move one match, or start one."""
        automaton = self._automaton
        registers = self._changed(move, element, node)
        if registers is None:
            return
        for register in move.cleared:
            registers[register] = None
        floor = BEGINNING if move.bound is None else element.end - move.bound
        timer = element.timer if isinstance(element, TimeEvent) else ""
        key = (move.state, move.took, floor, timer, move.entered, _telling(registers, automaton.valued))
        hulls: tuple[Hull, ...] = ()
        if automaton.judging is not None and automaton.judging.hulls:
            hulls = automaton.judging.hulls if node is None else node.hulls
            if isinstance(element, Occurrence):
                hulls = automaton.judging.grown(hulls, move.took, element)
        found = fresh.get(key)
        if found is None:
            self._made += 2
            took = () if timer else move.took
            at_once = tuple(each for each in move.armed if registers[each] == element.end)
            found = fresh[key] = Told(
                self._made,
                element,
                took,
                floor,
                registers=tuple(registers),
                hulls=hulls,
                at_once=at_once,
                entered=move.entered,
            )
        elif hulls:
            found.hulls = tuple(map(joined, found.hulls, hulls))
        if node is None:
            found.begin(members)
        else:
            found.reach([(node, members)])
        for register in move.armed:
            if registers[register] is not None:
                heappush(self.timers, registers[register])

    def _changed(self, move: Move, element: Occurrence | TimeEvent, node: Node | None) -> list[Any] | None:
        """The registers behind a move; None where a window that ends with it was exceeded."""
        automaton = self._automaton
        registers: list[Any] = [None] * automaton.registers if node is None else list(node.registers)
        if isinstance(element, Occurrence):
            for number in move.took:
                for register, attribute, fold in automaton.steps[number].bindings:
                    value = None if attribute is None else element.notification.get(attribute)
                    before = registers[register]
                    registers[register] = (fold.add(fold.initial if before is None else before[0], value),)
            for register in move.opened:
                before = registers[register]
                registers[register] = element.start if before is None else min(before, element.start)
        for register, duration in move.closed:
            began = registers[register]
            if began is not None and element.end - began > duration:
                return None
            registers[register] = None
        for register in move.armed:
            registers[register] = deadline_of(automaton.timer_specs[register], element.end)
        for register in move.marked:
            registers[register] = (element.end, element.is_point)
        return registers

    def _settle(self, fresh: dict[Any, Node]) -> list[Edge]:
        """Put new nodes where they wait; those that are accepted come back."""
        accepted = []
        waiting, runs_out = self.waiting, self._automaton.runs_out
        for key, node in fresh.items():
            if node.latest < node.floor or (self._intervals and node.latest < self._floor(node.element.end)):
                continue
            state = key[0]
            if state == ACCEPTED:
                accepted.append((node, node.members))
            elif state in waiting:
                waiting[state].append((node, node.members))
            else:
                waiting[state] = [(node, node.members)]
            if runs_out is not None and node.starts:
                heappush(self.timers, node.element.start + runs_out)
        return accepted

    # -- time events

    def _go_off(self, time: int) -> list[Edge]:
        """Let the timers of a moment go off, in the order of their names, until none is left that is looked at."""
        automaton, accepted = self._automaton, []
        moving = True
        while moving:
            moving = False
            fresh: dict[Any, Node] = {}
            for number in list(self.waiting):
                state = automaton.state(number)
                if not state.timers:
                    continue
                staying = []
                for node, members in self.waiting[number]:
                    timer = self._next_timer(state, node, time)
                    if timer is None:
                        staying.append((node, members))
                        continue
                    moving = True
                    name, takes, fails = timer
                    for move in automaton.moves(number, takes, fails & ~takes):
                        self._moved(move, TimeEvent(time, name), node, members, fresh)
                if staying:
                    self.waiting[number] = staying
                else:
                    del self.waiting[number]
            accepted += self._settle(fresh)
        return accepted

    def _next_timer(self, state: State, node: Node, time: int) -> tuple[str, int, int] | None:
        """The next timer of a match that goes off now and is looked at: its name, who takes it, who fails."""
        looks = self._looks(state, node, TimeEvent(time, ""))
        last = node.element
        passed = last.timer if isinstance(last, TimeEvent) and last.end == time else ""
        for register in state.timers:
            name = self._automaton.timer_names[register]
            if node.registers[register] != time or (name <= passed and register not in node.at_once):
                continue
            steps = [self._automaton.steps[number] for number in state.atoms if looks >> number & 1]
            takes = sum(1 << step.number for step in steps if register in step.timers)
            fails = sum(1 << step.number for step in steps if register in step.domain_timers)
            if takes | fails:
                return name, takes, fails
        return None

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
                self._go_past(taken)
            case Take.PAST:
                taken = []
                ends = accepted
                while ends:
                    found = self._best(ends, floor)(self._may_start)
                    taken += found
                    ends = only(ends, self._go_past(found))
        if pattern.partial or pattern.take is Take.NEXT:
            for members, path in taken:
                _note(self._started, path[0][0], members)
        return taken

    def _floor(self, end: int) -> int:
        window = self._automaton.window
        return BEGINNING if window is None else end - window

    def _best(
        self,
        ends: list[Edge],
        floor: int,
        *,
        without: Mapping[Rank, int] | None = None,
        is_complete: bool = True,
    ) -> _Best:
        """How the first match of each member is found, or the last one; complete ones satisfy all conditions."""
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

    def _go_past(self, taken: list[Shared]) -> int:
        """The next match starts behind what was taken. For whom that leaves something in progress."""
        left = over = 0
        for members, path in taken:
            last = path[-1][0]
            if last >= self._newest:
                over |= members
            else:
                left |= members
                self._after = {**_noted(self._after, ~members), last: members}
        if over:
            self.drop(over)
        return left

    def drop(self, members: int) -> None:
        """Forget what some members have in progress."""
        left = {number: some for number, edges in self.waiting.items() if (some := only(edges, ~members))}
        self.waiting = left

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
                self._go_off(heappop(self.timers))
            if not self.waiting:
                self._seen.clear()  # what comes from here on meets nothing of that, and cannot consume it
            consumed = self._consumed.get(occurrence.rank)
            self._advance(
                occurrence,
                reaction if consumed is None else reaction.without(consumed),
                self._is_behind(occurrence.rank),
            )
            self._seen.append(each)
        while self.timers and self.timers[0] <= until:
            self._go_off(heappop(self.timers))
        self._trim()

    def _run_out(self, time: int) -> list[Shared]:
        """The matches in progress whose window ends at a time, the first for each start."""
        window = self._automaton.window or 0

        def runs_out(start: Rank) -> int:
            return self._may_start(start) if start[1] + window == time else 0

        waiting = list(self._in_time(time))
        return self._one_for_each_start(waiting, time - window, runs_out, is_complete=False)

    def _in_time(self, time: int) -> Iterator[Edge]:
        """What waits and has exceeded no window by a time, neither itself nor by where it came from."""
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
                kept = prune(self.in_progress, time - max(filter(None, windows)))
                self._prunes = self._made + max(100, 4 * kept)  # now and then: it costs as much as there is
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

    def kept(self) -> Iterator[tuple[int, Kept]]:
        """The state of each member that has something in progress, from which another instance goes on."""
        starts = self._trim()
        earliest: dict[int, Rank] = {}
        for rank, members in starts.items():
            for member in bits(members):
                earliest.setdefault(member, rank)
        for member, first in earliest.items():
            start = self._earliest(first)
            seen = (each for each in self._seen if each.occurrence.rank >= start)
            yield (
                member,
                Kept(
                    tuple(each.occurrence for each in seen if each.reaction.concerned & member),
                    max((rank for rank, some in self._after.items() if some & member), default=FIRST_OF_ALL),
                    frozenset(
                        rank for rank, some in self._started.items() if some & member and rank >= start
                    ),
                    frozenset(
                        rank for rank, some in self._consumed.items() if some & member and rank >= start
                    ),
                    self._until_now(),
                ),
            )

    @classmethod
    def resumed(cls, automaton: Automaton, seen: list[Seen], kept: Mapping[int, Kept]) -> Instance:
        """An instance that goes on where others were left; what was seen is said with what it does, for whom."""
        instance = cls(automaton, remembers=True)
        instance._seen = seen
        for member, each in kept.items():
            _note(instance._after, each.after, member)
            for rank in each.started:
                _note(instance._started, rank, member)
            for rank in each.consumed:
                _note(instance._consumed, rank, member)
            instance._until = max(instance._until, each.until)
        instance._again()
        return instance

    def split(self, member: int) -> Instance:
        """What a member has in progress, as an instance of its own; nothing of it is left here."""
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
        self.leave(member)
        return other

    def leave(self, member: int) -> None:
        """Forget a member, whose bit may come to stand for another one."""
        self.drop(member)
        self._after = _noted(self._after, ~member)
        self._started = _noted(self._started, ~member)
        self._consumed = _noted(self._consumed, ~member)
        self._seen = [
            Seen(occurrence, reaction.only(~member))
            if reaction.concerned & member
            else Seen(occurrence, reaction)
            for occurrence, reaction in self._seen
            if reaction.concerned & ~member
        ]


def _note(noted: dict[Rank, int], rank: Rank, members: int) -> None:
    noted[rank] = noted.get(rank, 0) | members


def _noted(noted: dict[Rank, int], members: int) -> dict[Rank, int]:
    """What is noted for some members."""
    return {rank: some for rank, each in noted.items() if (some := each & members)}


def _anywhere(start: Rank) -> int:
    return EVERYONE


def _behind(state: State, node: Node, move: Move, occurrence: Occurrence) -> Node | None:
    """The matches of a node that may take an occurrence by the scopes they are in.

    A strong chain asks that all of its second part comes behind the first (book 7.4.2). The first element is
    seen to before; of later ones only those can fail that have an extent.
    """
    if node.element.end < occurrence.start:
        return node
    left: Node | None = node
    for scope, atoms in state.scopes:
        if left is not None and any(atoms >> number & 1 for number in move.took):
            left = entered_before(left, scope, occurrence.start)
    return left


def _recent(edges: list[Edge], floor: int) -> list[Edge]:
    """Edges without the oldest ones; they stand about in the order in which their matches started."""
    old = 0
    while old < len(edges) and edges[old][0].latest < floor:
        old += 1
    return edges[old:] if old else edges


def _telling(registers: Sequence[Any], valued: Container[int]) -> tuple[Any, ...]:
    """What tells registers apart: values by their keys, for 1 and true are not the same."""
    return tuple(
        _key(state[0]) if state is not None and number in valued else state
        for number, state in enumerate(registers)
    )


def _key(state: Any) -> Any:
    """The key of a value, or of the values that a fold holds on to."""
    return tuple(map(key_of, state)) if type(state) is tuple else key_of(state)
