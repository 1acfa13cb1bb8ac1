"""All path filters in one automaton: the tree is walked once, however many paths there are (book 3.2.5).

After YFilter. Paths that begin alike share states, so

    /notification/auction/item      ├─ /notification
    /notification/auction/item/cpu  │  └─ /auction
    //cpu                           │     └─ /item ▶ …
                                    │        └─ /cpu ▶ …
                                    └─ //cpu ▶ …

A state goes on with a name, with any name (`*`), or, where a path says `//`, stays as long as it likes. The
walk over the elements keeps the set of states that are reached, one set per level: a stack. Where a path ends
in a reached state, the element at hand is selected.

A path filter also has a condition on the attributes of the element. `early` evaluates it there and then, so an
element that fails it counts for nothing. `late` takes note of the element and evaluates the condition when all
paths of a filter have been found and its constraints on attributes hold; it saves the conditions of filters
that fail elsewhere.

Filters are filed by the conjunctions of their normal form. A conjunction waits for the paths that have to
select something, be it one element or at least three; when the last one is found, it is a candidate, and its
counts, its constraints on attributes and its other literals are verified. One that waits for no path, such as
`count(//cpu) = 0`, is always a candidate. A filter without any path is asked directly, as by `brute`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal as Choice
from typing import NamedTuple

from fairlead.drawing import tree
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import EVERYTHING, Filter, leaves
from fairlead.filters.normal import Conjunction, Literal
from fairlead.filters.paths import ANY, Path, Selection, seen_by_filters
from fairlead.matching.engine import Id
from fairlead.model import Notification
from fairlead.model.tree import ROOT, Element
from fairlead_lab.matching.base import Wanted
from fairlead_lab.matching.conjunctive import ConjunctiveBase, Handle

__all__ = ["Automaton", "PathAutomaton"]


@dataclass(slots=True, eq=False)
class _State:
    """The progress along some paths."""

    named: dict[str, _State] = field(default_factory=dict)
    any: _State | None = None
    skipping: _State | None = None
    """The state where paths wait that go on with `//`; it is reached together with this state."""
    stays: bool = False
    ends: dict[Selection, None] = field(default_factory=dict)
    """The selections made here: the paths that have been followed to their end."""

    def next(self, skips: bool, name: str) -> _State:
        """The state after one more step of a path, which is made if need be."""
        state = self
        if skips:
            state = self.skipping = self.skipping or _State(stays=True)
        if name == ANY:
            state.any = state.any or _State()
            return state.any
        return state.named.setdefault(name, _State())

    def forget(self, skips: bool, name: str) -> None:
        """Drop the state after one more step."""
        state = self.skipping if skips else self
        assert state is not None, "the step is there"
        if name == ANY:
            state.any = None
        else:
            del state.named[name]
        if skips and state.is_idle():
            self.skipping = None

    def is_idle(self) -> bool:
        """Nothing ends here, and nothing goes on from here."""
        return not (self.named or self.any or self.skipping or self.ends)

    def steps(self) -> Iterator[tuple[str, _State]]:
        """The ways on, as paths spell them."""
        for skips, state in ((False, self), (True, self.skipping)):
            if state is not None:
                ways = state.named if state.any is None else {**state.named, ANY: state.any}
                yield from ((str(Path(((skips, name),))), below) for name, below in ways.items())


class PathAutomaton:
    """The paths of many selections, prefixes shared.

    n selects e for S    iff    run(tree of n) yields (S, e)
    """

    __slots__ = ("_start",)

    def __init__(self) -> None:
        self._start = _State()

    def add(self, selection: Selection) -> None:
        """Take in the path of a selection."""
        state = self._start
        for step in selection.path.steps:
            state = state.next(*step)
        state.ends[selection] = None

    def remove(self, selection: Selection) -> None:
        """Forget a selection, and the states that only its path needed."""
        states = [self._start]
        for step in selection.path.steps:
            states.append(states[-1].next(*step))
        del states.pop().ends[selection]
        for state, step in zip(reversed(states), reversed(selection.path.steps), strict=True):
            if not state.next(*step).is_idle():
                break
            state.forget(*step)

    def run(self, root: Element) -> Iterator[tuple[Selection, Element]]:
        """Every selection with every element that its path selects, in document order."""
        stack = [(root, self._reached(_with_skipping(self._start), ROOT))]
        while stack:
            element, states = stack.pop()
            for state in states:
                for selection in state.ends:
                    yield selection, element
            if states:
                # `notification` names the root and nothing else: below it, such an element is reached by `*`.
                stack.extend(
                    (child, self._reached(states, child.name if child.name != ROOT else ANY))
                    for child in reversed(element.children)
                )

    def show(self) -> str:
        """The states as a tree of steps; ▶ where paths end."""
        lines = tree(("", self._start), lambda node: _shown_below(node[1]), lambda node: (node[0],))
        return "\n".join([*lines][1:])

    @staticmethod
    def _reached(states: dict[_State, None], name: str) -> dict[_State, None]:
        """The states after an element of this name."""
        reached: dict[_State, None] = {}
        for state in states:
            if state.stays:
                reached[state] = None
            for below in (state.named.get(name), state.any):
                if below is not None:
                    reached.update(_with_skipping(below))
        return reached


def _with_skipping(state: _State) -> dict[_State, None]:
    return {state: None} if state.skipping is None else {state: None, state.skipping: None}


def _shown_below(state: _State) -> list[tuple[str, _State]]:
    return [(step + "".join(map(_shown, below.ends)), below) for step, below in state.steps()]


def _shown(selection: Selection) -> str:
    path = str(Constraint(replace(selection, misses=False), Op.GE, 1))
    return f" ▶ misses({path})" if selection.misses else f" ▶ {path}"


class _Counted(NamedTuple):
    """A constraint on how many elements are selected, or its negation."""

    selection: Selection
    constraint: Constraint
    positive: bool

    @classmethod
    def of(cls, literal: Literal) -> _Counted | None:
        leaf = literal.leaf
        if isinstance(leaf, Constraint) and isinstance(leaf.term, Selection):
            return cls(leaf.term, leaf, literal.positive)
        return None

    def holds(self, number: int) -> bool:
        return self.constraint.holds(number) is self.positive


def _distinct(counted: Iterable[_Counted]) -> tuple[Selection, ...]:
    return tuple(dict.fromkeys(each.selection for each in counted))


class Automaton(ConjunctiveBase[Id]):
    """Path filters in one automaton; `predicates` says when conditions on elements are evaluated."""

    name = "automaton"

    def __init__(self, predicates: Choice["early", "late"] = "late") -> None:
        super().__init__()
        self._early = {"early": True, "late": False}[predicates]
        self._automaton = PathAutomaton()
        self._uses: Counter[Selection] = Counter()
        self._counted: dict[Handle, tuple[_Counted, ...]] = {}
        self._awaited: dict[Handle, tuple[Selection, ...]] = {}
        self._waiting: dict[Selection, dict[Handle, None]] = {}
        self._always: dict[Handle, None] = {}

    def show(self) -> str:
        """The automaton as a tree of steps; ▶ where paths end."""
        return self._automaton.show()

    def _file(self, number: int, filter: Filter) -> None:
        if any(_Counted.of(Literal(leaf)) for leaf in leaves(filter)):
            super()._file(number, filter)
        else:
            self._whole[number] = filter

    def _file_conjunction(self, handle: Handle, conjunction: Conjunction) -> None:
        counted = tuple(filter(None, map(_Counted.of, conjunction.literals)))
        for selection in _distinct(counted):
            self._uses[selection] += 1
            if self._uses[selection] == 1:
                self._automaton.add(selection)
        # What does not hold for a count of 0 has to wait until its path selects something.
        awaited = _distinct(each for each in counted if not each.holds(0))
        for selection in awaited:
            self._waiting.setdefault(selection, {})[handle] = None
        if not awaited:
            self._always[handle] = None
        self._counted[handle], self._awaited[handle] = counted, awaited

    def _unfile_conjunction(self, handle: Handle, conjunction: Conjunction) -> None:
        self._always.pop(handle, None)
        for selection in self._awaited.pop(handle):
            del self._waiting[selection][handle]
            if not self._waiting[selection]:
                del self._waiting[selection]
        for selection in _distinct(self._counted.pop(handle)):
            self._uses[selection] -= 1
            if not self._uses[selection]:
                del self._uses[selection]
                self._automaton.remove(selection)

    def _candidates(self, notification: Notification, wanted: Wanted) -> Iterator[Handle]:
        selected = self._selected(notification)
        numbers: dict[Selection, int] = {}

        def number_of(selection: Selection) -> int:
            if selection not in numbers:
                elements = selected.get(selection, ())
                # Early, only elements that count were kept.
                numbers[selection] = (
                    len(elements) if self._early else sum(self._counts(selection, each) for each in elements)
                )
            return numbers[selection]

        for handle in chain(self._matched_pairs(selected), self._always):
            if wanted(handle[0]) and self._extents_hold(handle, notification):
                self._tests += len(self._counted[handle])
                if all(each.holds(number_of(each.selection)) for each in self._counted[handle]):
                    yield handle

    def _selected(self, notification: Notification) -> dict[Selection, list[Notification]]:
        """The elements that each path selects, as conditions see them; early, those that meet them."""
        selected: dict[Selection, list[Notification]] = {}
        seen: dict[int, Notification] = {}
        root = notification.tree
        for selection, element in self._automaton.run(root):
            if id(element) not in seen:
                seen[id(element)] = seen_by_filters(element)
            if not self._early or self._counts(selection, seen[id(element)]):
                selected.setdefault(selection, []).append(seen[id(element)])
        return selected

    def _counts(self, selection: Selection, element: Notification) -> bool:
        """Whether a selected element meets the condition, or fails it where the misses are counted."""
        if selection.condition == EVERYTHING:
            return not selection.misses
        return self._tested(selection.condition, element) is not selection.misses

    def _matched_pairs(self, selected: Iterable[Selection]) -> Iterator[Handle]:
        """The conjunctions of which all paths that they wait for have selected something."""
        counters: Counter[Handle] = Counter()
        for selection in selected:
            for handle in self._waiting.get(selection, ()):
                counters[handle] += 1
                if counters[handle] == len(self._awaited[handle]):
                    yield handle

    def _extents_hold(self, handle: Handle, notification: Notification) -> bool:
        for term, extent in self._conjunctions[handle].extents.items():
            self._tests += 1
            if term.value(notification) not in extent:
                return False
        return True

    def _literals(self, handle: Handle) -> Iterator[Literal]:
        return (each for each in self._conjunctions[handle].literals if _Counted.of(each) is None)
