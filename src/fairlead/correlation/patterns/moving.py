"""The transitions of partial matches: with an occurrence, and when their timers go off.

    moving.advance(occurrence, reaction)    the matches that end with an occurrence
    moving.go_off(time)                     those that end with the time events of a moment

Matches in one state move together where nothing else tells them apart. Conditions, timers and events with an
extent do: then each node is looked at by itself. Time is what it is told. Which of the matches that end are taken
is not decided here (`instance`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from heapq import heappush
from typing import Any, Final

from fairlead.correlation.occurrences import Occurrence, TimeEvent, first_rank
from fairlead.correlation.patterns.automaton import ACCEPTED, Automaton, State, deadline_of
from fairlead.correlation.patterns.conditions import value_in
from fairlead.correlation.patterns.graph import (
    AnnotatedNode,
    Edge,
    Entry,
    Node,
    Sieve,
    entered_before,
    only,
)
from fairlead.correlation.patterns.judging import Claim, Hull, holds, joined
from fairlead.correlation.patterns.reactions import EVERYONE, Course, Move, Reaction
from fairlead.model import key_of
from fairlead.model.order import BEGINNING

__all__ = ["FIRST_OF_ALL", "Moving"]

FIRST_OF_ALL: Final = first_rank(BEGINNING)
"""Before every place."""


class Moving:
    """The matches in progress on one stream, of all patterns that share an automaton."""

    __slots__ = ("_apart", "_automaton", "_intervals", "_made", "_newest", "timers", "waiting")

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self.waiting: dict[int, list[Edge]] = {}
        """By the number of a state: the nodes whose matches are in it, and for whom."""
        self.timers: list[int] = []
        """When timers go off, or matches may run out of time; a heap."""
        self._apart = automaton.has_distinguishable_matches
        """Whether matches in one state may differ: by registers, or because what they took has an extent."""
        self._intervals = False
        self._made = 0
        self._newest = FIRST_OF_ALL

    # -- time

    @property
    def due(self) -> int | None:
        """The time when the next timer goes off, or a match may run out of time; None if there is none."""
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

    def drop(self, members: int) -> None:
        """Forget what some members have in progress."""
        left = {number: some for number, edges in self.waiting.items() if (some := only(edges, ~members))}
        self.waiting = left

    def _floor(self, end: int) -> int:
        window = self._automaton.window
        return BEGINNING if window is None else end - window

    # -- occurrences

    def advance(self, occurrence: Occurrence, reaction: Reaction, starting: int = EVERYONE) -> list[Edge]:
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
        passing: list[tuple[int, Edge]] = []
        for number in tuple(waiting):
            courses = reaction.courses(number)
            if courses:
                staying = self._one_by_one(self._automaton.state(number), occurrence, courses, fresh, passing)
                if staying:
                    waiting[number] = staying
                else:
                    del waiting[number]
        for number, edge in passing:
            waiting.setdefault(number, []).append(edge)
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
                        if move.took:
                            self._moved(move, occurrence, None, some, fresh)

    def _one_by_one(
        self,
        state: State,
        occurrence: Occurrence,
        courses: tuple[Course, ...],
        fresh: dict[Any, Node],
        passing: list[tuple[int, Edge]],
    ) -> list[Edge]:
        """Move the matches of a state one by one. Those that stay; `passing` gets those that pass the occurrence
        over, and are in another state behind it.
        """
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
                            if not move.took:
                                passed = (source, some)
                                if move.state == state.number:
                                    staying.append(passed)
                                else:
                                    passing.append((move.state, passed))
                                continue
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
            found = fresh[key] = AnnotatedNode(
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
                for register, reference, fold in automaton.steps[number].bindings:
                    value = value_in(element, reference)
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

    def go_off(self, time: int) -> list[Edge]:
        """Let the timers of a moment go off, in the order of their names, until no relevant one is left."""
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
    """The values that tell registers apart, by their keys, for 1 and true are not the same."""
    return tuple(
        _key(state[0]) if state is not None and number in valued else state
        for number, state in enumerate(registers)
    )


def _key(state: Any) -> Any:
    """The key of a value, or of the values that a fold holds on to."""
    return tuple(map(key_of, state)) if type(state) is tuple else key_of(state)
