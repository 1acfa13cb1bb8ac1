"""One automaton on one stream: the matches in progress, and which of those that end are taken.

With `same`, every value has an instance of its own. An instance is fed occurrences in the order of the stream, and
told when its timers go off; time is what it is told. Elements that no atom and no domain mentions are not its
concern.

What has been taken is kept as what it rules out: `after`, the place behind which matches may start (past,
recent); `started`, the occurrences with which one was taken (next); `consumed` (first). With the occurrences since
the earliest start of a match in progress, this is all of its state: `Kept`, from which the rest is made again by
feeding them once more. The same happens when a match of `first` consumes what others had taken as well.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

from fairlead.correlation.patterns.automaton import (
    ACCEPTED,
    Automaton,
    Move,
    Question,
    Reaction,
    Source,
    State,
    deadline_of,
)
from fairlead.correlation.patterns.graph import Node, Path, best_path, first_paths, starting_at, starts_of
from fairlead.correlation.patterns.model import Take
from fairlead.correlation.patterns.occurrences import Occurrence, Rank
from fairlead.model import key_of
from fairlead.model.order import BEGINNING

__all__ = ["Instance", "Kept", "Seen"]

FIRST_OF_ALL: Final[Rank] = (BEGINNING, BEGINNING, 0, "", False, 0, "")
"""Before every place."""
_UNBOUND: Final = object()


class _Element(NamedTuple):
    """An occurrence, or a time event."""

    occurrence: Occurrence | None
    start: int
    end: int
    timer: str = ""

    @property
    def is_point(self) -> bool:
        return self.start == self.end


@dataclass(frozen=True, slots=True)
class Seen:
    """An occurrence that concerns an instance: which atoms may take it, which domains it is in, as bits."""

    occurrence: Occurrence
    taken: int
    domain: int


@dataclass(frozen=True, slots=True)
class Kept:
    """The state of an instance: with it, another one goes on where this one was left."""

    seen: tuple[Seen, ...]
    after: Rank
    started: frozenset[Rank]
    consumed: frozenset[Rank]
    until: int
    """Time events up to this time have gone off."""


class Instance:
    """The matches of a pattern in progress on one stream."""

    __slots__ = (
        *("_after", "_apart", "_automaton", "_consumed", "_intervals", "_made", "_newest", "_remembers"),
        *("_seen", "_started", "_until", "alarm", "timers", "waiting"),
    )

    def __init__(self, automaton: Automaton, *, remembers: bool = False) -> None:
        self._automaton = automaton
        self.waiting: dict[int, list[Node]] = {}
        self._after = FIRST_OF_ALL
        self._started: set[Rank] = set()
        self._consumed: set[Rank] = set()
        self.timers: list[int] = []
        """When timers go off, or matches may run out of time; a heap."""
        self._apart = automaton.registers > 0 or any(step.questions for step in automaton.steps)
        """Whether matches in one state may differ: by registers, or because what they took has an extent."""
        self._intervals = False
        self._made = 0
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

    def tick(self, time: int) -> tuple[list[Path], list[Path]]:
        """Time events of one moment: the matches that are taken, and those that have run out of time."""
        self._until = time
        while self.timers and self.timers[0] <= time:
            heappop(self.timers)
        taken = self._choose(self._go_off(time), time)
        return taken, self._run_out(time) if self._automaton.pattern.partial else []

    # -- occurrences

    def feed(self, occurrence: Occurrence, reaction: Reaction) -> list[Path]:
        """The next occurrence: the matches that end with it and are taken."""
        self._until = occurrence.end - 1
        if self._remembers:
            self._seen.append(Seen(occurrence, reaction.taken, reaction.domain))
        accepted = self._advance(occurrence, reaction)
        found = self._choose(accepted, occurrence.end) if accepted else []
        if not self.waiting:
            self._trim()
        return found

    def _advance(self, occurrence: Occurrence, reaction: Reaction) -> list[Node]:
        """Move every match that the occurrence concerns, and start what it starts; the nodes that are accepted."""
        self._newest = occurrence.rank
        if occurrence.start != occurrence.end:
            self._apart = self._intervals = True
        if self._apart:
            return self._advance_each(occurrence, reaction.taken, reaction.domain)
        waiting, end = self.waiting, occurrence.end
        fresh: dict[Any, Node] = {}
        for number in tuple(waiting):
            together = reaction[number]
            if together is not None:
                moves, window = together
                nodes = waiting.pop(number)
                if window is not None and nodes[0].latest < end - window:
                    nodes = _recent(nodes, end - window)
                if nodes:
                    for move in moves:
                        self._together(move, occurrence, nodes, fresh)
        if reaction.starts and occurrence.rank > self._after:
            for move in reaction.starts:
                self._together(move, occurrence, None, fresh)
        return self._settle(fresh) if fresh else []

    def _advance_each(self, occurrence: Occurrence, taken: int, domain: int) -> list[Node]:
        """Move the matches one by one: conditions, timers or intervals tell them apart."""
        automaton, waiting = self._automaton, self.waiting
        element = _Element(occurrence, occurrence.start, occurrence.end)
        fresh: dict[Any, Node] = {}
        for number in tuple(waiting):
            state = automaton.state(number)
            takes, fails = taken & state.mask, domain & state.mask
            if takes | fails:
                staying = self._one_by_one(state, element, takes, fails, fresh)
                if staying:
                    waiting[number] = staying
                else:
                    del waiting[number]
        if taken & automaton.initial_mask and occurrence.rank > self._after:
            self._start(element, occurrence, taken, domain, fresh)
        return self._settle(fresh)

    def _start(
        self, element: _Element, occurrence: Occurrence, taken: int, domain: int, fresh: dict[Any, Node]
    ) -> None:
        automaton = self._automaton
        for number in automaton.initial:
            state = automaton.state(number)
            takes = taken & state.mask
            if takes & state.asking:
                takes = self._willing(state, takes, occurrence, (None,) * automaton.registers)
            if takes:
                for move in automaton.moves(number, takes, domain & state.mask & ~takes):
                    self._moved(move, element, None, fresh)

    def _together(
        self, move: Move, occurrence: Occurrence, nodes: list[Node] | None, fresh: dict[Any, Node]
    ) -> None:
        """Move all matches of a state at once: they have no registers that could tell them apart."""
        node = fresh.get(move.target)
        if node is None:
            self._made += 1
            rank, took, end = occurrence.rank, move.took, occurrence.end
            taken: Path = ((rank, took[0], occurrence),)
            if len(took) > 1:
                taken = tuple((rank, number, occurrence) for number in took)
            floor = BEGINNING if move.bound is None else end - move.bound
            node = Node(self._made, taken, end, True, "", (), (), [], False, floor, BEGINNING)
            fresh[move.target] = node
        if nodes is None:
            node.is_start = True
            node.latest = occurrence.start
        else:
            node.before = node.before + nodes if node.before else nodes
            latest = max([each.latest for each in nodes]) if len(nodes) > 1 else nodes[0].latest
            node.latest = max(node.latest, latest)

    def _one_by_one(
        self, state: State, element: _Element, takes: int, fails: int, fresh: dict[Any, Node]
    ) -> list[Node]:
        """Move the matches of a state one by one: conditions, or intervals, tell them apart. Those that stay."""
        automaton = self._automaton
        floor = BEGINNING if state.window is None else element.end - state.window
        staying = []
        for node in self.waiting[state.number]:
            if node.latest < floor:
                continue
            looks = self._looks(state, node, element)
            willing = takes & looks
            if willing & state.asking and element.occurrence is not None:
                willing = self._willing(state, willing, element.occurrence, node.registers)
            failing = fails & looks & ~willing
            if not willing | failing:
                staying.append(node)
                continue
            for move in automaton.moves(state.number, willing, failing):
                self._moved(move, element, node, fresh)
        return staying

    def _looks(self, state: State, node: Node, element: _Element) -> int:
        """The atoms, as bits, for which an element is beyond the point that they wait from."""
        looks = state.mask
        if not state.strong or (not self._intervals and not node.timer):
            return looks
        for number in state.atoms:
            if state.strong >> number & 1:
                mark = self._automaton.steps[number].mark
                end, was_point = (node.end, node.is_point) if mark is None else node.registers[mark]
                same_instant = end == element.start and was_point and element.is_point
                if not (end < element.start or same_instant):
                    looks &= ~(1 << number)
        return looks

    def _willing(self, state: State, takes: int, occurrence: Occurrence, registers: tuple[Any, ...]) -> int:
        """Of the atoms that may take an occurrence, those whose conditions hold."""
        for number in state.atoms:
            if takes >> number & 1:
                questions = self._automaton.steps[number].questions
                if not all(_holds(each, registers, occurrence) for each in questions):
                    takes &= ~(1 << number)
        return takes

    def _moved(self, move: Move, element: _Element, node: Node | None, fresh: dict[Any, Node]) -> None:
        """Move one match, or start one."""
        automaton = self._automaton
        registers = self._changed(move, element, node)
        if registers is None:
            return
        if move.state == ACCEPTED and not all(_holds(each, registers) for each in automaton.final):
            return
        for register in move.cleared:
            registers[register] = None
        floor = BEGINNING if move.bound is None else element.end - move.bound
        key = (move.state, move.took, floor, element.timer, _telling(registers, automaton.valued))
        found = fresh.get(key)
        if found is None:
            fresh[key] = found = self._node(move, element, tuple(registers), floor)
        if node is None:
            found.is_start = True
            found.latest = element.start
        else:
            started = node.latest if element.occurrence is None else min(element.start, node.latest)
            found.before.append(node)
            found.latest = max(found.latest, started)
        for register in move.armed:
            if registers[register] is not None:
                heappush(self.timers, registers[register])

    def _changed(self, move: Move, element: _Element, node: Node | None) -> list[Any] | None:
        """The registers behind a move; None where a window that ends with it was exceeded."""
        automaton = self._automaton
        registers: list[Any] = [None] * automaton.registers if node is None else list(node.registers)
        occurrence, end = element.occurrence, element.end
        if occurrence is not None:
            for number in move.took:
                for register, attribute, fold in automaton.steps[number].bindings:
                    value = None if attribute is None else occurrence.notification.get(attribute)
                    before = registers[register]
                    registers[register] = (fold.add(fold.initial if before is None else before[0], value),)
            for register in move.opened:
                before = registers[register]
                registers[register] = occurrence.start if before is None else min(before, occurrence.start)
        for register, duration in move.closed:
            began = registers[register]
            if began is not None and end - began > duration:
                return None
            registers[register] = None
        for register in move.armed:
            registers[register] = deadline_of(automaton.timer_specs[register], end)
        for register in move.marked:
            registers[register] = (end, element.is_point)
        return registers

    def _node(self, move: Move, element: _Element, registers: tuple[Any, ...], floor: int) -> Node:
        self._made += 1
        occurrence = element.occurrence
        taken = (
            () if occurrence is None else tuple((occurrence.rank, number, occurrence) for number in move.took)
        )
        at_once = tuple(each for each in move.armed if registers[each] == element.end)
        origin = (element.end, element.is_point, element.timer, at_once)
        return Node(self._made, taken, *origin, registers, [], is_start=False, floor=floor, latest=BEGINNING)

    def _settle(self, fresh: dict[Any, Node]) -> list[Node]:
        """Put new nodes where they wait; those that are accepted come back."""
        accepted = []
        for key, node in fresh.items():
            if node.latest < node.floor or (self._intervals and node.latest < self._floor(node.end)):
                continue
            state = key[0]
            if state == ACCEPTED:
                accepted.append(node)
            elif state in self.waiting:
                self.waiting[state].append(node)
            else:
                self.waiting[state] = [node]
            if node.is_start and self._automaton.pattern.partial and self._automaton.window is not None:
                heappush(self.timers, node.taken[0][2].start + self._automaton.window)
        return accepted

    # -- time events

    def _go_off(self, time: int) -> list[Node]:
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
                for node in self.waiting[number]:
                    timer = self._next_timer(state, node, time)
                    if timer is None:
                        staying.append(node)
                        continue
                    moving = True
                    name, takes, fails = timer
                    for move in automaton.moves(number, takes, fails & ~takes):
                        self._moved(move, _Element(None, time, time, name), node, fresh)
                if staying:
                    self.waiting[number] = staying
                else:
                    del self.waiting[number]
            accepted += self._settle(fresh)
        return accepted

    def _next_timer(self, state: State, node: Node, time: int) -> tuple[str, int, int] | None:
        """The next timer of a match that goes off now and is looked at: its name, who takes it, who fails."""
        looks = self._looks(state, node, _Element(None, time, time))
        passed = node.timer if node.end == time else ""
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

    def _may_start(self, node: Node) -> bool:
        rank = node.taken[0][0]
        return rank > self._after and rank not in self._started

    def _is_behind(self, node: Node) -> bool:
        return node.taken[0][0] > self._after

    def _choose(self, accepted: list[Node], end: int) -> list[Path]:
        """Of the matches that end here those that are taken, in order; what that rules out is noted."""
        if not accepted:
            return []
        pattern = self._automaton.pattern
        floor = self._floor(end)
        match pattern.take:
            case Take.ALL:
                taken = first_paths(accepted, floor, pattern.limit)
            case Take.NEXT:
                starts = starts_of(accepted, floor, self._may_start)
                taken = self._one_for_each_start(accepted, floor, starts)
            case Take.FIRST:
                taken = self._consume(accepted, floor)
            case Take.RECENT:
                found = best_path(accepted, floor, self._may_start, last=True)
                taken = [] if found is None else [self._gone_past(found)]
            case Take.PAST:
                taken = []
                while self._after < self._newest:
                    found = best_path(accepted, floor, self._may_start)
                    if found is None:
                        break
                    taken.append(self._gone_past(found))
        if pattern.partial or pattern.take is Take.NEXT:
            self._started.update(path[0][0] for path in taken)
        return taken

    def _floor(self, end: int) -> int:
        window = self._automaton.window
        return BEGINNING if window is None else end - window

    def _one_for_each_start(self, ends: list[Node], floor: int, starts: list[Rank]) -> list[Path]:
        """For each start the first of its matches, in order."""
        found = (best_path(ends, floor, starting_at(rank)) for rank in starts)
        return [path for path in found if path is not None]

    def _gone_past(self, path: Path) -> Path:
        """The next match starts behind what was taken; what is in progress and started before, is over."""
        self._after = path[-1][0]
        if self._newest <= self._after:
            self.waiting.clear()
            self._seen.clear()
        return path

    def _consume(self, accepted: list[Node], floor: int) -> list[Path]:
        """The first match, then the first of those that share nothing with it, and so on."""
        taken: list[Path] = []
        while (found := best_path(accepted, floor, _anywhere, self._consumed)) is not None:
            taken.append(found)
            self._consumed.update(rank for rank, _, _ in found)
        if taken:
            self._again()
        return taken

    def _again(self) -> None:
        """Make the matches in progress again from what was seen: with what is consumed by now, and in order."""
        self.waiting, self.timers = {}, []
        for seen in self._seen:
            while self.timers and self.timers[0] < seen.occurrence.end:
                self._go_off(heappop(self.timers))
            taken = 0 if seen.occurrence.rank in self._consumed else seen.taken
            self._advance(seen.occurrence, self._automaton.reaction(taken, seen.domain))
        while self.timers and self.timers[0] <= self._until:
            self._go_off(heappop(self.timers))
        self._trim()

    def _run_out(self, time: int) -> list[Path]:
        """The matches in progress whose window ends at a time, the first for each start."""
        window = self._automaton.window or 0

        def runs_out(node: Node) -> bool:
            return node.taken[0][2].start + window == time and self._may_start(node)

        ends = list(self._in_time(time))
        starts = starts_of(ends, time - window, runs_out)
        return self._one_for_each_start(ends, time - window, starts)

    def _in_time(self, time: int) -> Iterator[Node]:
        """What waits and has exceeded no window by a time, neither itself nor by where it came from."""
        for number, nodes in self.waiting.items():
            state = self._automaton.state(number)
            floor = BEGINNING if state.window is None else time - state.window
            for node in nodes:
                began = ((node.registers[register], duration) for register, duration in state.windows)
                if all(start is None or time - start <= duration for start, duration in began):
                    yield replace(node, floor=max(node.floor, floor))

    # -- what is kept

    def forget(self, time: int) -> bool:
        """Forget what is too old to matter from a time on; whether nothing is left."""
        for number, nodes in list(self.waiting.items()):
            window = self._automaton.state(number).window
            if window is None:
                continue
            left = [node for node in nodes if node.latest >= time - window]
            if left:
                self.waiting[number] = left
            else:
                del self.waiting[number]
        self._trim()
        return not self.waiting

    def _trim(self) -> None:
        """Keep of what was seen only what came since the earliest start of a match in progress."""
        if not self.waiting:
            self._seen.clear()
            self._consumed.clear()
            self._started.clear()
            return
        if not self._remembers:
            return
        ends = [node for nodes in self.waiting.values() for node in nodes]
        starts = starts_of(ends, BEGINNING, self._is_behind)
        # Of those with which a match was taken, only `next` takes no more; the others have to be known as such.
        if not starts or (self._automaton.pattern.take is Take.NEXT and self._started.issuperset(starts)):
            self.waiting.clear()
            self._trim()
            return
        earliest = starts[0]
        self._seen = [each for each in self._seen if each.occurrence.rank >= earliest]
        self._consumed = {rank for rank in self._consumed if rank >= earliest}
        self._started = {rank for rank in self._started if rank >= earliest}

    def kept(self) -> Kept:
        """The state, from which another instance goes on (`resumed`)."""
        self._trim()
        return Kept(
            tuple(self._seen),
            self._after,
            frozenset(self._started),
            frozenset(self._consumed),
            self._until,
        )

    @classmethod
    def resumed(cls, automaton: Automaton, kept: Kept) -> Instance:
        """An instance that goes on where another one was left."""
        instance = cls(automaton, remembers=True)
        instance._after, instance._until = kept.after, kept.until
        instance._started, instance._consumed = set(kept.started), set(kept.consumed)
        instance._seen = list(kept.seen)
        instance._again()
        return instance


def _anywhere(node: Node) -> bool:
    return True


def _recent(nodes: list[Node], floor: int) -> list[Node]:
    """Nodes without the oldest ones; they stand about in the order in which their matches started."""
    old = 0
    while old < len(nodes) and nodes[old].latest < floor:
        old += 1
    return nodes[old:] if old else nodes


def _holds(question: Question, registers: Sequence[Any], occurrence: Occurrence | None = None) -> bool:
    """Whether a condition holds, or is not asked because something that it names is not bound."""
    left = _value(question.left, registers, occurrence)
    if left is _UNBOUND:
        return True
    right = None if question.right is None else _value(question.right, registers, occurrence)
    return right is _UNBOUND or question.holds(left, right)


def _value(source: Source, registers: Sequence[Any], occurrence: Occurrence | None) -> Any:
    if source.register is None or source.fold is None:
        return _UNBOUND if occurrence is None else occurrence.notification.get(source.attribute or "")
    state = registers[source.register]
    return _UNBOUND if state is None else source.fold.result(state[0])


def _telling(registers: Sequence[Any], valued: Container[int]) -> tuple[Any, ...]:
    """What tells registers apart: values by their keys, for 1 and true are not the same."""
    return tuple(
        _key(state[0]) if state is not None and number in valued else state
        for number, state in enumerate(registers)
    )


def _key(state: Any) -> Any:
    """The key of a value, or of the values that a fold holds on to."""
    return tuple(map(key_of, state)) if type(state) is tuple else key_of(state)
