"""Path filters: how many elements of a notification's tree a path selects and a condition accepts (book
3.1.3).

    /notification/auction/item     absolute: the elements whose path from the root is this one
    //item/cpu                     abbreviated: the elements whose path ends so
    //item//cpu, /notification/*   a descendant at any depth; any one name

Laws: a path covers another iff every element that the other selects, in whatever tree, is selected by it;
two paths are disjoint iff no element in any tree is selected by both. Paths are regular languages over
names, so both are decided, not guessed.

The root is the one element that `notification` names, and `notification` names nothing else: an element below
the root that happens to be called so is reached by `*` only. That is what lets `/notification` cover
`//notification`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from fairlead.errors import FilterError, Undecided, ValueRefused
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.extents.numbers import NumberExtent
from fairlead.filters.filter import EVERYTHING, NOTHING, Filter, leaves
from fairlead.filters.terms import Attribute, Inspector, Polynomial, quote_name, quote_step
from fairlead.model import Kind, Multi, Notification, Record, check_name, kind_of, number_of
from fairlead.model.tree import ROOT, Element

__all__ = [
    "ANY",
    "Path",
    "Selection",
    "conjunction_covers",
    "is_path_filter",
    "names_disjoint",
    "path_filters_disjoint",
    "selection_covers",
    "selection_overlaps",
]

ANY: Final = "*"
"""The step that every name satisfies."""

_OTHER: Final = ""
"""Stands for all names that neither of two paths mentions: no element has the empty name."""

_STEPS_MAX: Final = 200_000
"""The number of steps a comparison of two paths may take before it is `Undecided`."""

Covers: TypeAlias = Callable[[Filter, Filter], bool]
Overlaps: TypeAlias = Callable[[Filter, Filter], bool]


@dataclass(frozen=True, slots=True)
class Path:
    """A path: steps of (may skip any number of elements first, name or `*`).

    It is run as an automaton whose state n means "the first n steps are done". A set of states is an
    integer, one bit per state, so a tree is searched with two `and`s and a shift per element, whatever the
    path.
    """

    steps: tuple[tuple[bool, str], ...]
    _skipping: int = field(init=False, repr=False, compare=False)
    """The states that may stay where they are, whatever the name."""
    _passing: int = field(init=False, repr=False, compare=False)
    """The states that go on with every name."""
    _named: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """The states that go on with a given name, below the root."""
    _first: int = field(init=False, repr=False, compare=False)
    """The states at the root, without those that can never reach the end."""
    _end: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.steps or not all(name for _, name in self.steps):
            raise FilterError("a path has at least one step, and every step has a name")
        skipping = passing = at_root = 0
        named: dict[str, int] = {}
        for n, (skips, name) in enumerate(self.steps):
            skipping |= skips << n
            if name == ANY:
                passing |= 1 << n
            elif name == ROOT:
                at_root |= 1 << n
            else:
                named[name] = named.get(name, 0) | 1 << n
        # Below the root no element is named `notification`: a state that still waits for it waits in vain.
        hopeful = -1 << at_root.bit_length()
        first = (1 & skipping | (1 & (passing | at_root)) << 1) & hopeful
        for slot, value in (
            ("_skipping", skipping),
            ("_passing", passing),
            ("_named", named),
            ("_first", first),
            ("_end", 1 << len(self.steps)),
        ):
            object.__setattr__(self, slot, value)

    def selects(self, names: tuple[str, ...]) -> bool:
        """Whether the element with these names on the path from the root is selected."""
        if not names:
            return False
        states = self._first
        for name in names[1:]:
            states = self._step(states, name)
        return bool(states & self._end)

    def select(self, root: Element) -> Iterator[Element]:
        """The elements that the path selects in a tree, in document order."""
        waiting = [(root, self._first)]
        while waiting:
            element, states = waiting.pop()
            if states & self._end:
                yield element
            for child in reversed(element.children):
                below = self._step(states, child.name)
                if below:
                    waiting.append((child, below))

    def is_empty(self) -> bool:
        """No element of any tree is selected, as by `/cpu`: the root is named otherwise."""
        return not self._first

    def covers(self, other: Path) -> bool:
        """Every element that `other` selects, in whatever tree, is selected."""
        return self._includes(other, above=False)

    def leads_to(self, other: Path) -> bool:
        """Every element that `other` selects is selected, or lies below one that is."""
        return self._includes(other, above=True)

    def disjoint(self, other: Path) -> bool:
        """No element of any tree is selected by both."""
        waiting = [(p, q) for p in _bits(self._first) for q in _bits(other._first)]
        seen = set(waiting)
        while waiting:
            p, q = waiting.pop()
            if p == len(self.steps) and q == len(other.steps):
                return False
            for pair in _joint_moves(self.steps[p : p + 1], p, other.steps[q : q + 1], q):
                if pair not in seen:
                    seen.add(pair)
                    waiting.append(pair)
            if len(seen) > _STEPS_MAX:
                raise Undecided(f"whether two paths are disjoint takes more than {_STEPS_MAX} steps")
        return True

    def identical(self, other: Path) -> bool:
        """Both select the same elements in every tree."""
        return self.covers(other) and other.covers(self)

    def __str__(self) -> str:
        return "".join(
            f"{'//' if skips else '/'}{ANY if name == ANY else _quote_step(name)}"
            for skips, name in self.steps
        )

    def _step(self, states: int, name: str) -> int:
        return states & self._skipping | (states & (self._passing | self._named.get(name, 0))) << 1

    def _includes(self, other: Path, *, above: bool) -> bool:
        """Walk the states of `other` one by one, beside the set of states that this path can then be in."""
        if self.steps == other.steps:
            return True
        letters = {*self._named, *other._named, _OTHER}
        waiting = [(position, self._first) for position in _bits(other._first)]
        smallest: dict[int, list[int]] = {}
        steps = 0
        while waiting:
            position, states = waiting.pop()
            known = smallest.setdefault(position, [])
            steps += len(known) + len(letters)
            if steps > _STEPS_MAX:
                raise Undecided(f"whether a path covers another takes more than {_STEPS_MAX} steps")
            # What can be done from fewer states can be done from more: only the smallest sets matter.
            if any(fewer & states == fewer for fewer in known):
                continue
            known[:] = [more for more in known if states & more != states]
            known.append(states)
            arrived = states & self._end
            if above and arrived:
                continue
            if not states or (position == len(other.steps) and not arrived):
                return False  # every state of `other` that is reached can still reach its end
            for letter in letters:
                ours = self._step(states, letter)
                waiting.extend((theirs, ours) for theirs in _bits(other._step(1 << position, letter)))
        return True


_ROOT_ONLY: Final = Path(((False, ROOT),))


def _bits(states: int) -> Iterator[int]:
    while states:
        lowest = states & -states
        yield lowest.bit_length() - 1
        states ^= lowest


def _joint_moves(
    one: tuple[tuple[bool, str], ...], p: int, other: tuple[tuple[bool, str], ...], q: int
) -> Iterator[tuple[int, int]]:
    """The places of two paths after one more name, given the next step of each (none at its end)."""
    for skips, name in one:
        for other_skips, other_name in other:
            if other_skips:
                yield p + 1, q
            if skips:
                yield p, q + 1
            if name == other_name or ANY in (name, other_name):
                yield p + 1, q + 1


def _quote_step(name: str) -> str:
    if "." not in name:
        return quote_name(name)
    return quote_step(name)  # an element's name is one name, dots or not


@dataclass(frozen=True, slots=True)
class Selection:
    """The number of elements that the path selects and that meet the condition (`misses`: that do not).

    The condition is a filter whose attributes are those of the element. A path filter is the constraint
    that this number is at least 1; bounds on it are the interval constraints that book 3.1.3 mentions.
    """

    path: Path
    condition: Filter = EVERYTHING
    misses: bool = False

    def value(self, notification: Notification) -> int:
        selected = self.path.select(notification.tree)
        if self.condition == EVERYTHING:
            return 0 if self.misses else sum(1 for _ in selected)
        return sum(self.condition.matches(seen_by_filters(element)) != self.misses for element in selected)


def is_path_filter(constraint: Constraint) -> bool:
    """Whether a constraint requires one element that the path selects and the condition accepts."""
    term = constraint.term
    return (
        isinstance(term, Selection) and not term.misses and (constraint.op, constraint.operand) == (Op.GE, 1)
    )


def seen_by_filters(element: Element) -> Notification:
    """An element in the form that conditions test: a notification with the element's attributes."""
    try:
        return Notification(Record(element.attributes))
    except ValueRefused:
        return Notification(Record(_addressable(element.attributes)))


def _addressable(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that dotted names can reach.

    XML also allows names such as `a..b`, and `a` beside `a.b`. The latter is given up: the relations
    between filters rely on `exists a.b` implying a record under `a`.
    """
    kept = {}
    for name, value in attributes.items():
        steps = name.split(".")
        if any(".".join(steps[:n]) in attributes for n in range(1, len(steps))):
            continue
        try:
            kept[check_name(name)] = value
        except ValueRefused:
            continue
    return kept


# -- relations between path filters --------------------------------------------------------------------------


def selection_covers(one: Constraint, other: Constraint, covers: Covers) -> bool:
    """Every notification that satisfies `other` satisfies `one`; True only if that is certain.

    Both constrain a `Selection`; `covers` relates their conditions. The path filter P1 = (S1, C1) covers P2
    = (S2, C2) if S1 covers S2 and C1 covers C2 (Corollary 3.5). Then the count of P1 is never below that of
    P2, so what is known of one count bounds the other.
    """
    if one == other:
        return True
    allowed, given = _counts(one, covers), _counts(other, covers)
    if given is not None and given.is_empty():
        return True
    if allowed is None or given is None:
        return False
    first, second = _selection(one), _selection(other)
    return allowed.covers(_range_of(first, covers) & _implied(first, second, given, covers))


def selection_overlaps(one: Constraint, other: Constraint, covers: Covers, overlaps: Overlaps) -> bool:
    """Some notification satisfies both; False only if that is certainly not so.

    Different elements can satisfy different path filters, even with contradictory conditions, so path
    filters are rarely disjoint. They are if the counts of one rule out those of the other, or if both speak
    of the root, of which there is one.
    """
    allowed, given = _counts(one, covers), _counts(other, covers)
    if (allowed is not None and allowed.is_empty()) or (given is not None and given.is_empty()):
        return False
    if allowed is None or given is None:
        return True
    first, second = _selection(one), _selection(other)
    if (allowed & _implied(first, second, given, covers)).is_empty():
        return False
    if (given & _implied(second, first, allowed, covers)).is_empty():
        return False
    both_ask_the_root = (
        0 not in allowed
        and 0 not in given
        and not (first.misses or second.misses)
        and _selects_root_only(first)
        and _selects_root_only(second)
    )
    return not both_ask_the_root or overlaps(first.condition, second.condition)


def conjunction_covers(ones: Iterable[Constraint], others: Iterable[Constraint], covers: Covers) -> bool:
    """A conjunction of path filters covers another if each of its parts covers a part of the other
    (Corollary 3.6)."""
    given = tuple(others)
    return all(any(selection_covers(one, other, covers) for other in given) for one in ones)


def names_disjoint(one: Filter, other: Filter) -> bool:
    """No attribute is constrained in both: what the book calls disjoint with respect to the constrained
    attributes.

    A property of names. `@a = 1` and `@b = 2` are disjoint in this sense and yet overlap.
    """
    return _constrained(one).isdisjoint(_constrained(other))


def path_filters_disjoint(one: Selection, other: Selection) -> bool:
    """The paths are disjoint, or the conditions are with respect to their names: the premise of Corollary
    3.6."""
    return one.path.disjoint(other.path) or names_disjoint(one.condition, other.condition)


def _selection(constraint: Constraint) -> Selection:
    term = constraint.term
    assert isinstance(term, Selection), f"not a path filter: {constraint!r}"
    return term


def _constrained(condition: Filter) -> frozenset[str]:
    names: set[str] = set()
    for leaf in leaves(condition):
        match leaf:
            case Constraint(term=Attribute(name=name) | Inspector(name=name)):
                names.add(name)
            case Constraint(term=Polynomial() as polynomial):
                names |= polynomial.names
            case _:
                pass
    return frozenset(names)


def _implied(one: Selection, other: Selection, given: NumberExtent, covers: Covers) -> NumberExtent:
    """The counts that `one` can have where `other` has one of the given counts (which are not empty)."""
    span = given.hull()
    assert span is not None, "counts that are given are possible"
    more, fewer = _includes(one, other, covers), _includes(other, one, covers)
    if more and fewer:
        return given
    if more:
        return _at_least(span.lo or 0)
    if span.lo and _always(one, covers) and _settled(one.path.leads_to, other.path):
        return _at_least(1)  # what is selected by the one lies above whatever is selected by the other
    return _between(0, span.hi) if fewer else _at_least(0)


def _includes(one: Selection, other: Selection, covers: Covers) -> bool:
    """Every element that `other` counts is counted by `one`; True only if certain."""
    if one.misses != other.misses or not _settled(one.path.covers, other.path):
        return False
    if one.misses:  # an element that fails C2 fails C1, if C1 implies C2
        return covers(other.condition, one.condition)
    return covers(one.condition, other.condition)


def _range_of(selection: Selection, covers: Covers) -> NumberExtent:
    """The counts that any notification can give: there is one root, and a contradiction is met nowhere."""
    if selection.path.is_empty() or _never(selection, covers):
        return _between(0, 0)
    least = int(selection.path.selects((ROOT,)) and _always(selection, covers))
    return _between(least, 1 if _selects_root_only(selection) else None)


def _selects_root_only(selection: Selection) -> bool:
    return _settled(_ROOT_ONLY.covers, selection.path)


def _always(selection: Selection, covers: Covers) -> bool:
    """Every selected element counts; True only if certain."""
    if selection.misses:
        return covers(NOTHING, selection.condition)
    return covers(selection.condition, EVERYTHING)


def _never(selection: Selection, covers: Covers) -> bool:
    """No selected element counts; True only if certain."""
    if selection.misses:
        return covers(selection.condition, EVERYTHING)
    return covers(NOTHING, selection.condition)


def _settled(relation: Callable[[Path], bool], path: Path) -> bool:
    try:
        return relation(path)
    except Undecided:
        return False


def _counts(constraint: Constraint, covers: Covers) -> NumberExtent | None:
    """The counts that satisfy the constraint, of those that are possible; None where only an extension
    knows."""
    accepted = _accepted(constraint)
    return None if accepted is None else accepted & _range_of(_selection(constraint), covers)


def _accepted(constraint: Constraint) -> NumberExtent | None:
    """The whole numbers for which the constraint holds. A count is a number and is never absent."""
    op, operand = constraint.op, constraint.operand
    match op:
        case Op.EXTENDED:
            return None
        case Op.EXISTS:
            return _at_least(0)
        case Op.IS if operand is Kind.NUMBER:
            return _at_least(0)
        case Op.IN | Op.NOT_IN if isinstance(operand, Multi):
            numbers = [number_of(item) for item in operand if kind_of(item) is Kind.NUMBER]
            listed = NumberExtent.of(numbers, discrete=True)
            return listed if op is Op.IN else ~listed if numbers else _NO_COUNT
        case Op.IN_RANGE | Op.NOT_IN_RANGE if kind_of(operand.low) is Kind.NUMBER:
            inside = _between(operand.low, operand.high, operand.low_closed, operand.high_closed)
            return inside if op is Op.IN_RANGE else ~inside
        case _ if kind_of(operand) is Kind.NUMBER and op in _COMPARISONS:
            return _COMPARISONS[op](number_of(operand))
        case _:
            return _NO_COUNT


def _between(low: Any, high: Any, low_closed: bool = True, high_closed: bool = True) -> NumberExtent:
    return NumberExtent.interval(low, high, low_closed, high_closed, discrete=True)


def _at_least(low: Any) -> NumberExtent:
    return _between(low, None)


_NO_COUNT: Final = NumberExtent.nothing(discrete=True)
_COMPARISONS: Final[Mapping[Op, Callable[[Any], NumberExtent]]] = {
    Op.EQ: lambda count: NumberExtent.of([count], discrete=True),
    Op.NE: lambda count: ~NumberExtent.of([count], discrete=True),
    Op.LT: lambda count: _between(None, count, high_closed=False),
    Op.LE: lambda count: _between(None, count),
    Op.GT: lambda count: _between(count, None, low_closed=False),
    Op.GE: _at_least,
}
