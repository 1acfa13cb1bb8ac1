"""Detection automata: the states of partial matches, and their transitions with the next element.

    Quote followed by Trade        ─▶ (Quote) ─▶ (Trade) ─▶ ((accepted))

A state is what is left of the pattern's body after what was taken (its residual), where every choice has been
made: which alternative, whether to go round once more. So in a state each branch waits for exactly one atom, and
what happens with an element depends on the state and on three answers for each atom that it waits for: the
element is taken, it makes the match fail, or it is passed over. States are made when they are first reached.

What residuals cannot hold is in the registers of a match: when timers go off, when a window that is not at the
head of the pattern began, what conditions compare. A window at the head needs none: all that a match in progress
has taken lies in it. A register is cleared in every state that can make no use of it any more, so matches that
cannot differ from now on have equal registers.

Law: from a state, the automaton reaches acceptance by exactly the elements by which the residual matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from datetime import time as TimeOfDay
from itertools import product
from typing import Final, NamedTuple

from fairlead.correlation.patterns.conditions import Fold, fold_of, plan_conditions, tester
from fairlead.correlation.patterns.judging import Judging, Question, Source, Tally
from fairlead.correlation.patterns.model import (
    Aggregate,
    Atom,
    Both,
    Concat,
    Condition,
    Either,
    Iterate,
    Operand,
    Part,
    Pattern,
    Permutation,
    Reference,
    Sequence,
    Timing,
    Unless,
    Within,
    can_be_skipped,
    preceded,
)
from fairlead.correlation.patterns.model import atoms as atoms_of
from fairlead.correlation.patterns.reactions import Move
from fairlead.correlation.patterns.residuals import (
    Arm,
    Bar,
    Barred,
    Behind,
    Chain,
    Choice,
    Close,
    Enter,
    Framed,
    Guarded,
    Leaf,
    Loop,
    Mark,
    Maybe,
    Noted,
    Parallel,
    Prefer,
    Residual,
    Scope,
    Shuffle,
    Side,
    Then,
    Timed,
    Timer,
    Took,
    Transition,
    Tree,
    Wait,
    Window,
    armed_timers,
    atoms_ahead,
    bits_of,
    scopes_of,
    side_by_side,
    waits_of,
    windows_of,
)
from fairlead.errors import FilterError
from fairlead.model import Instant

__all__ = [
    "ACCEPTED",
    "Automaton",
    "State",
    "Step",
    "deadline_of",
]

ACCEPTED: Final = -1
"""The number of the state in which nothing is left."""
STATES_MAX: Final = 100_000
"""The number of states an automaton may come to have: parallel parts multiply theirs."""


# -- what runs use -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Step:
    """An atom with its number, and the checks and changes when it takes an occurrence."""

    number: int
    atom: Atom
    timers: frozenset[int]
    """The registers of the timers that it takes."""
    domain_timers: frozenset[int]
    questions: tuple[Question, ...]
    """Questions about an occurrence before it is taken or, if the atom is silent, counts as in its domain."""
    deferred: tuple[Question, ...]
    """The same about tallies: matches that are not told apart may give different answers."""
    bindings: tuple[tuple[int, Reference, Fold], ...]
    """The registers that change when it is taken, with the attribute that is folded into them."""
    mark: int | None
    """The position where a parallel branch keeps the element that a strong step has to follow."""


@dataclass(slots=True)
class State:
    """A state of partial matches. `mask` has the bit of each atom."""

    number: int
    residual: Residual
    atoms: tuple[int, ...]
    mask: int
    strong: int
    """The atoms whose element has to strongly follow what was taken last, as bits."""
    asking: int
    """The atoms that ask conditions, as bits."""
    deferring: int
    """Those that ask conditions about tallies."""
    silent: int
    """Those that take no occurrence: their conditions are asked of what is in their domain."""
    timers: tuple[int, ...]
    """The registers of timers that some atom looks at, in the order of the timers' names."""
    window: int | None
    """The shortest window at the head that it is inside of."""
    windows: tuple[tuple[int, int], ...]
    """The others: (register, duration)."""
    scopes: tuple[tuple[int, int], ...]
    """The scopes that it is in, with the atoms that are waited for there, as bits."""
    live: frozenset[int]
    moves: dict[tuple[int, int], tuple[Move, ...]] = field(default_factory=dict)


class Looking(NamedTuple):
    """The occurrences that are looked back at: those of a step's sort, or those that a bar would take."""

    sort: int
    """The atom whose sort it is."""
    of: int
    """The atom that asks: what it may take, or has in its domain, is marked with what comes before."""
    step: str
    depth: int
    """The number of occurrences that are kept."""


class Automaton:
    """The automaton of a pattern's body, with its conditions."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self._numbers = {atom.step: number for number, atom in enumerate(atoms_of(pattern.body))}
        self.timer_names: dict[int, str] = {}
        self.timer_specs: dict[int, int | Instant | TimeOfDay] = {}
        self._atom_timers: dict[int, tuple[frozenset[int], frozenset[int]]] = {}
        self._windows: dict[int, frozenset[int]] = {}
        self._in_parallel: set[int] = set()
        self.references: dict[Reference, int] = {}
        """The registers of what conditions speak of."""
        self.registers = 0
        """The number of registers of a match."""
        self._scopes_made = 0
        self._tallies: dict[Reference, int] = {}
        body = self._numbered(pattern.body, head=True, timers={}, windows=frozenset(), parallel=False)
        plan = plan_conditions(pattern)
        self.final = tuple(self._question(each, self._tally) for each in plan.at_end)
        """Questions about the complete match: about tallies only."""
        self.steps = tuple(
            self._step(number, atom, plan.at_steps[atom.step])
            for number, atom in enumerate(atoms_of(pattern.body))
        )
        for step in self.steps:
            step.bindings = tuple(
                (register, reference, fold_of(reference))
                for reference, register in self.references.items()
                if reference.step == step.atom.step
            )
        self.valued = frozenset(
            register
            for reference, register in self.references.items()
            if reference.aggregate not in (Aggregate.COUNT, Aggregate.SUM, Aggregate.AVG)
        )
        """The registers that hold values as they came, which are told apart by their keys."""
        self.judging = self._judging()
        """Judges tallies; None where no question is about them."""
        marked = {bar.step: step for step, bar, _ in preceded(pattern.body)}
        self.lookback = tuple(
            Looking(self._numbers[step], self._numbers[marked.get(step, step)], step, depth)
            for step, depth in pattern.lookback.items()
        )
        """The sorts of occurrences that are looked back at."""
        self.window = pattern.body.duration if isinstance(pattern.body, Within) else None
        """The window around the whole pattern: what is older can be forgotten."""
        self.runs_out = self.window if pattern.partial else None
        """When it is reported that a match has run out of time: so long after it began."""
        self.bars = tuple(step.atom.bars for step in self.steps)
        """The atoms that are bars: what they would take is not consumed."""
        self.has_distinguishable_matches = (
            self.registers > 0
            or any(step.questions or step.deferred for step in self.steps)
            or not pattern.is_settled_by_steps
        )
        """Whether matches in one state may differ, by their registers or by what conditions say, or may pass over
        an element in two ways.
        """
        self._states: list[State] = []
        self._known: dict[Residual, int] = {}
        self.initial: tuple[int, ...] = tuple(
            self._interned(residual)
            for residual, _ in self._begin(body, strong=False)
            if residual is not None
        )
        self.initial_mask = 0
        for number in self.initial:
            self.initial_mask |= self._states[number].mask

    def number_of(self, step: str) -> int:
        """The number of a step."""
        return self._numbers[step]

    def state(self, number: int) -> State:
        """The state of a number."""
        return self._states[number]

    def moves(self, number: int, taken: int, failing: int) -> tuple[Move, ...]:
        """The transitions from a state with an element that these atoms take, and on which these fail."""
        state = self._states[number]
        known = state.moves.get((taken, failing))
        if known is None:
            transitions = self._advanced(state.residual, taken, failing)
            known = tuple(self._move(residual, ops) for residual, ops in transitions)
            state.moves[(taken, failing)] = known
        return known

    def explored(self, limit: int = 1_000) -> tuple[State, ...]:
        """All states that can be reached, at most as many as the limit: for drawings."""
        seen, waiting = set(self.initial), list(self.initial)
        while waiting and len(seen) < limit:
            state = self._states[waiting.pop()]
            for move in self.possible(state):
                if move.state != ACCEPTED and move.state not in seen:
                    seen.add(move.state)
                    waiting.append(move.state)
        return tuple(self._states[number] for number in sorted(seen))

    def possible(self, state: State) -> Iterator[Move]:
        """The moves of a state with an element that one atom alone takes, for each of its atoms."""
        for atom in state.atoms:
            yield from (move for move in self.moves(state.number, 1 << atom, 0) if move.took)

    # -- numbering

    def _numbered(
        self,
        part: Part,
        *,
        head: bool,
        timers: Mapping[str, int],
        windows: frozenset[int],
        parallel: bool,
    ) -> Tree:
        """`head`: nothing can have been taken before; windows: those with registers that it lies in."""

        def inner(part: Part, head: bool = False, parallel: bool = parallel) -> Tree:
            return self._numbered(part, head=head, timers=timers, windows=windows, parallel=parallel)

        match part:
            case Atom():
                number = self._numbers[part.step]
                self._atom_timers[number] = (
                    frozenset(timers[name] for name in part.timers),
                    frozenset(timers[name] for name in part.domain_timers),
                )
                self._windows[number] = windows
                if parallel:
                    self._in_parallel.add(number)
                return Leaf(number)
            case Concat(first, second):
                return Chain(inner(first, head), inner(second), False)
            case Sequence(first, second):
                return Chain(inner(first, head), self._scoped(second, inner(second)), True)
            case Iterate(repeated, least, most, greedy, until):
                bar = None if until is None else self._barring(until, windows, parallel)
                return Loop(inner(repeated), least, most, greedy, bar)
            case Permutation(parts):
                return Shuffle(tuple(map(inner, parts)))
            case Unless(guarded, bar_atom, is_next, lead):
                number = self._barring(bar_atom, windows, parallel)
                if lead is not None:  # a condition says it
                    return inner(guarded, head)
                return Guarded(inner(guarded, head), number, Bar.NEXT if is_next else Bar.WITHOUT)
            case Either(parts):
                return Choice(tuple(inner(each, head) for each in parts))
            case Both(parts):
                return Parallel(tuple(inner(each, parallel=True) for each in parts))
            case Timing(first, second, timer, spec):
                register = self._register()
                self.timer_names[register], self.timer_specs[register] = timer, spec
                then = self._numbered(
                    second, head=False, timers={**timers, timer: register}, windows=windows, parallel=parallel
                )
                return Chain(inner(first, head), Timer(then, register), False)
            case Within(framed, duration):
                if head:
                    return Window(inner(framed, head=True), duration, None)
                register = self._register()
                tree = self._numbered(
                    framed, head=False, timers=timers, windows=windows | {register}, parallel=parallel
                )
                return Window(tree, duration, register)

    def _barring(self, bar: Atom, windows: frozenset[int], parallel: bool) -> int:
        """The number of a bar, which is a leaf of no tree."""
        tree = self._numbered(bar, head=False, timers={}, windows=windows, parallel=parallel)
        assert isinstance(tree, Leaf)
        return tree.atom

    def _scoped(self, part: Part, tree: Tree) -> Tree:
        if not _is_weak_inside(part):
            return tree
        self._scopes_made += 1
        return Scope(tree, self._scopes_made)

    def _register(self) -> int:
        self.registers += 1
        return self.registers - 1

    def _question(
        self, condition: Condition, number_of: Callable[[Reference], int], step: str = ""
    ) -> Question:
        """A condition, with where its two values come from."""

        def source(operand: Operand) -> Source:
            reference = operand.reference
            if reference.aggregate is None and reference.step == step:
                return Source(None, reference, None)
            return Source(number_of(reference), reference, fold_of(reference))

        left, right = condition.left, condition.right
        return Question(
            condition, tester(condition), source(left), source(right) if isinstance(right, Operand) else None
        )

    def _held(self, reference: Reference) -> int:
        """The register in which the value of a reference is held."""
        if reference not in self.references:
            self.references[reference] = self._register()
        return self.references[reference]

    def _tally(self, reference: Reference) -> int:
        return self._tallies.setdefault(reference, len(self._tallies))

    def _judging(self) -> Judging | None:
        repeated = self.pattern.repeated_steps
        tallies = [
            Tally(self._numbers[each.step], each, fold_of(each), each.step in repeated)
            for each in self._tallies
        ]
        deferred = [each for step in self.steps for each in step.deferred]
        return Judging(tallies, self.final, deferred) if tallies else None

    def _is_deferred(self, condition: Condition) -> bool:
        """Whether it speaks of an aggregate that has many values in matches that are alike otherwise.

        What was taken last has not: it is told by the node, but for what else a round may take.
        """
        return any(
            each.aggregate not in (None, Aggregate.LAST) and each.step in self.pattern.repeated_steps
            for each in condition.references
        )

    def _step(self, number: int, atom: Atom, conditions: Iterable[Condition]) -> Step:
        timers, domain_timers = self._atom_timers[number]
        questions, deferred = [], []
        for each in conditions:
            if self._is_deferred(each):
                deferred.append(self._question(each, self._tally, atom.step))
            else:
                questions.append(self._question(each, self._held, atom.step))
        mark = self._register() if number in self._in_parallel else None
        return Step(number, atom, timers, domain_timers, tuple(questions), tuple(deferred), (), mark)

    # -- residuals

    def _begin(self, tree: Tree, *, strong: bool) -> Iterator[Transition]:
        """The ways to begin: every choice made up to the first atom of each branch. None: it takes nothing."""
        match tree:
            case Leaf(atom):
                yield Wait(atom, strong), (Mark(atom),) if strong and atom in self._in_parallel else ()
            case Chain(first, second, strongly):
                # Where the first part took nothing, there is nothing that the second has to be behind.
                directly = second.part if isinstance(second, Scope) else second
                for head, ops in self._begin(first, strong=strong):
                    if head is not None and not isinstance(head, Maybe):
                        yield Then(head, second, strongly), ops
                        continue
                    for rest, more in self._begin(directly, strong=strong):
                        yield _preferring(head, second, strongly, rest), ops + more
            case Loop():
                yield from self._rounds(tree, strong=strong)
            case Choice(parts):
                for part in parts:
                    yield from self._begin(part, strong=strong)
            case Parallel(parts):
                for transitions in product(*(tuple(self._begin(part, strong=strong)) for part in parts)):
                    yield side_by_side(transitions)
            case Shuffle(parts):
                for at, part in enumerate(parts):
                    others = parts[:at] + parts[at + 1 :]
                    left = others[0] if len(others) == 1 else Shuffle(others)
                    for head, ops in self._begin(part, strong=strong):
                        assert head is not None
                        yield Then(head, left, False), ops
            case Guarded(part, atom, bar):
                marks = (Mark(atom),) if strong and atom in self._in_parallel else ()
                for head, ops in self._begin(part, strong=strong):
                    assert head is not None
                    yield Barred(head, Wait(atom, strong), bar), (*ops, *marks)
            case Timer(part, register):
                for head, ops in self._begin(part, strong=strong):
                    yield (None if head is None else Timed(head, register)), (Arm(register), *ops)
            case Scope(part, number):
                for head, ops in self._begin(part, strong=strong):
                    yield (None, ops) if head is None else (_behind(head, number), (Enter(number), *ops))
            case Window(part, _, _):
                for head, ops in self._begin(part, strong=strong):
                    yield (None if head is None else Framed(head, tree)), ops

    def _rounds(self, loop: Loop, *, strong: bool) -> Iterator[Transition]:
        """The ways to begin with rounds: none, where there need not be any, or one more."""
        least, most = loop.least, loop.most
        begun: list[Transition] = []
        if most != 0:
            left = None if most is None else most - 1
            again = replace(loop, least=max(least - 1, 0), most=left, is_barred=loop.bar is not None)
            for head, ops in self._begin(loop.part, strong=strong):
                barred = head
                if head is not None and loop.is_barred and loop.bar is not None:
                    barred = Barred(head, Wait(loop.bar, False), Bar.UNTIL)
                goes_on = barred is not None and again.most != 0
                begun.append((Then(barred, again, False) if barred and goes_on else barred, ops))
        if least == 0 and loop.greedy and begun:
            for head, ops in begun:  # one step is repeated, so there is one
                assert head is not None
                yield Maybe(head), ops
            return
        if least == 0:
            yield None, ()
        yield from begun

    def _advanced(self, residual: Residual, taken: int, failing: int) -> Iterator[Transition]:
        """The rest of a residual when an element comes that some atoms take and on which some fail."""
        match residual:
            case Wait(atom, _):
                if taken >> atom & 1:
                    yield None, (Took(atom),)
                    if self.steps[atom].atom.any:
                        yield residual, ()
                elif not failing >> atom & 1:
                    yield residual, ()
            case Then(head, rest, strong):
                for left, ops in self._advanced(head, taken, failing):
                    if left is not None and not isinstance(left, Maybe):
                        yield Then(left, rest, strong), ops
                        continue
                    for begun, more in self._begin(rest, strong=strong):
                        yield _preferring(left, rest, strong, begun), ops + more
            case Barred(head, wait, bar):
                yield from self._past_bar(head, wait, bar, taken, failing)
            case Prefer(head, rest):
                yield from self._preferred(head, rest, taken, failing)
            case Maybe():
                raise AssertionError("what follows greedy rounds is known before the next element")
            case Side(branches):
                for transitions in product(
                    *(tuple(self._advanced(each, taken, failing)) for each in branches)
                ):
                    yield side_by_side(transitions)
            case Timed(head, register):
                for left, ops in self._advanced(head, taken, failing):
                    yield (None if left is None else Timed(left, register)), ops
            case Behind(head, scope):
                for left, ops in self._advanced(head, taken, failing):
                    yield (None if left is None else _behind(left, scope)), ops
            case Framed(head, window):
                for left, ops in self._advanced(head, taken, failing):
                    yield (None, (*ops, Close(window))) if left is None else (Framed(left, window), ops)

    def _past_bar(
        self, head: Residual, wait: Wait, bar: Bar, taken: int, failing: int
    ) -> Iterator[Transition]:
        """The rest of a part that has a bar."""
        is_barred = taken >> wait.atom & 1
        if is_barred and bar is not Bar.WITHOUT:
            return
        transitions = tuple(self._advanced(head, taken, failing))
        if is_barred and not any(map(_took, transitions)):
            return
        is_over = bar is Bar.NEXT and failing >> wait.atom & 1
        for left, ops in transitions:
            yield (left if left is None or is_over else Barred(left, wait, bar)), ops

    def _preferred(self, head: Residual, rest: Residual, taken: int, failing: int) -> Iterator[Transition]:
        """The rest of greedy rounds beside what follows: what is a further round is nothing else."""
        rounds = tuple(self._advanced(head, taken, failing))
        if any(map(_took, rounds)):
            yield from rounds
            return
        following = tuple(self._advanced(rest, taken, failing))
        yield from filter(_took, following)
        waiting = [left for left, ops in following if left is not None and not _took((left, ops))]
        for left, _ in rounds:  # passed over, in one way
            assert left is not None
            yield from ((Prefer(left, each), ()) for each in waiting)
            if not waiting:
                yield left, ()
        if not rounds:
            yield from ((each, ()) for each in waiting)

    def _interned(self, residual: Residual) -> int:
        known = self._known.get(residual)
        if known is not None:
            return known
        number = len(self._states)
        if number >= STATES_MAX:
            raise FilterError(
                f"the pattern's automaton has more than {STATES_MAX:,} states",
                hint="write fewer in any order",
            )
        waits = tuple(waits_of(residual))
        steps = [self.steps[wait.atom] for wait in waits]
        frames = list(windows_of(residual))
        looked_at = {timer for step in steps for timer in step.timers | step.domain_timers}
        self._states.append(
            State(
                number,
                residual,
                tuple(wait.atom for wait in waits),
                bits_of(wait.atom for wait in waits),
                bits_of(wait.atom for wait in waits if wait.strong),
                bits_of(step.number for step in steps if step.questions),
                bits_of(step.number for step in steps if step.deferred),
                bits_of(step.number for step in steps if step.atom.filter is None),
                tuple(sorted(looked_at, key=lambda timer: self.timer_names[timer])),
                min((each.duration for each in frames if each.register is None), default=None),
                tuple((each.register, each.duration) for each in frames if each.register is not None),
                tuple(scopes_of(residual)),
                frozenset(self._live(residual)),
            )
        )
        self._known[residual] = number
        return number

    def _live(self, residual: Residual) -> Iterator[int]:
        """The registers that may still be of use."""
        ahead = frozenset(atoms_ahead(residual))
        for register, reference in ((register, reference) for reference, register in self.references.items()):
            questions = (each for number in ahead for each in self.steps[number].questions)
            if any(reference in each.condition.references for each in questions):
                yield register
        yield from armed_timers(residual)
        yield from (each.register for each in windows_of(residual) if each.register is not None)
        for wait in waits_of(residual):
            mark = self.steps[wait.atom].mark
            if wait.strong and mark is not None:
                yield mark

    def _move(self, residual: Residual | None, ops: tuple[Noted, ...]) -> Move:
        state = ACCEPTED if residual is None else self._interned(residual)
        took = tuple(sorted(op.atom for op in ops if isinstance(op, Took)))
        armed = tuple(op.register for op in ops if isinstance(op, Arm))
        marked = tuple(
            mark for op in ops if isinstance(op, Mark) and (mark := self.steps[op.atom].mark) is not None
        )
        windows = [op.window for op in ops if isinstance(op, Close)]
        closed = tuple((each.register, each.duration) for each in windows if each.register is not None)
        opened = tuple(sorted({register for atom in took for register in self._windows[atom]}))
        bound = min((each.duration for each in windows if each.register is None), default=None)
        live = frozenset() if residual is None else self._states[state].live
        cleared = tuple(register for register in range(self.registers) if register not in live)
        entered = tuple(op.scope for op in ops if isinstance(op, Enter))
        return Move(state, took, armed, marked, closed, opened, bound, cleared, entered)


def _took(transition: Transition) -> bool:
    """Whether something is taken."""
    return any(isinstance(op, Took) for op in transition[1])


def _preferring(head: Maybe | None, rest: Tree, strong: bool, begun: Residual | None) -> Residual | None:
    """The residual of what follows when it has begun; greedy rounds that may go on have precedence over it."""
    if head is None:
        return begun
    assert begun is not None
    return Prefer(Then(head.head, rest, strong), begun)


def _behind(head: Residual, scope: int) -> Residual:
    return Maybe(Behind(head.head, scope)) if isinstance(head, Maybe) else Behind(head, scope)


def deadline_of(spec: int | Instant | TimeOfDay, started: int) -> int:
    """When a timer goes off that was started at a time."""
    if isinstance(spec, int):
        return started + spec
    if isinstance(spec, Instant):
        return max(spec.microseconds, started)
    moment = Instant(started).datetime()
    due = datetime.combine(moment.date(), spec, tzinfo=UTC)
    return Instant.of(due if due > moment else due + timedelta(days=1)).microseconds


def _is_weak_inside(part: Part) -> bool:
    """Whether a later element of a part may start before its first one does."""
    match part:
        case Atom():
            return False
        case Concat() | Timing():
            return True
        case Sequence(first, second):
            return _is_weak_inside(first) or (can_be_skipped(first) and _is_weak_inside(second))
        case Either(parts) | Both(parts):
            return any(map(_is_weak_inside, parts))
        case Permutation():
            return True
        case Unless(inner, _):
            return _is_weak_inside(inner)
        case Iterate(inner, _, most):
            return most != 1 or _is_weak_inside(inner)
        case Within(inner, _):
            return _is_weak_inside(inner)
