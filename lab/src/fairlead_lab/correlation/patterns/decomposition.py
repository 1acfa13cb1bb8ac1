"""Decomposition: a pattern as parts that are detected elsewhere, put together again (book 7.5.2).

    split(pattern, wanted)     the pattern with every part cut out that is wanted, or None
    splits(pattern)            every way to cut a pattern
    whole(pattern)             the pattern as a single part, and what is taken of it
    Split.leaves               the parts: patterns of their own, which report all of their matches

Law: from the matches of the parts, the whole is found exactly: the same composites, with the same ids.

**What can be cut.** Alternation, parallelisation and both kinds of chains fall into what they are made of; a
window stays with the whole and is handed down to the parts as well. Iteration and timing stay in one piece. A
part takes at least one occurrence, and it must be plain which of its matches a time event has ended: if there
is a timer, it has a duration, and one atom waits for it.

**From where.** A part on its own is matched from every point of the stream, in its place from one point only:
`[A] ; ([B] ; [C])` takes the first B behind A, while the part finds every B with its C. In a parallelisation,
all branches are matched from the same point. So a match of a part says from which points it is one (`Head`):
those from where its first element is the first that its leading atom takes or fails on. Parts of which this is
asked, the right ones of chains and those in parallel, begin with one atom that cannot be passed over.

**What cannot.** A condition that is asked of an element decides whether it is taken or skipped, so it must lie
within one part; what is asked of the complete match is asked of the whole. `taking the first` skips what other
matches have consumed, and partial matches are about what waits: both need the whole. All else that is taken
depends on nothing but the matches. And where a pattern names the types of composites, every atom of it sees
these: a part that would not, though it could take one, cannot be cut out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import product
from typing import Final, TypeAlias

from fairlead.correlation.patterns.conditions import plan_conditions
from fairlead.correlation.patterns.model import (
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
    Sequence,
    Take,
    Timing,
    Unless,
    Within,
    atoms,
    can_be_empty,
    can_be_skipped,
)
from fairlead.filters import Attribute, Constraint, Op, overlaps

__all__ = [
    "PREFIX",
    "UNLIMITED",
    "Chain",
    "Leaf",
    "Parallel",
    "Split",
    "Tree",
    "Union",
    "Window",
    "head_of",
    "is_part",
    "split",
    "splits",
    "whole",
]

UNLIMITED: Final = 2**62
"""Parts report every match."""
PREFIX: Final = "part-"
"""The beginning of the types of parts."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part that is detected as a pattern of its own."""

    pattern: Pattern
    """Takes all; its steps are called s1, s2, … so that the same part of two patterns is the same pattern."""
    steps: tuple[str, ...]
    """The names that the whole has for them."""

    def named(self, step: str) -> str:
        """The whole's name of a step."""
        return self.steps[int(step[1:]) - 1]


@dataclass(frozen=True, slots=True)
class Union:
    """The matches of any part."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Parallel:
    """A match of each part, all from the same point."""

    parts: tuple[Tree, ...]
    free: bool
    """Whether that may be any point of the stream."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A match of the first part, then one of the second from its end."""

    first: Tree
    second: Tree
    strong: bool


@dataclass(frozen=True, slots=True)
class Window:
    """The matches of a part that fit in a window."""

    part: Tree
    duration: int


Tree: TypeAlias = Leaf | Union | Parallel | Chain | Window


@dataclass(frozen=True, slots=True)
class Split:
    """A pattern, how its parts are put together, and what is asked of the complete match only."""

    pattern: Pattern
    tree: Tree
    conditions: tuple[Condition, ...]

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The parts, from left to right."""
        return tuple(_leaves(self.tree))

    def __str__(self) -> str:
        return _drawn(self.tree)


def is_part(pattern: Pattern) -> bool:
    """Whether a pattern is a part of another: its composites say from where they are matched."""
    return pattern.name.startswith(PREFIX)


def split(pattern: Pattern, wanted: Callable[[Pattern], bool] = lambda part: True) -> Split | None:
    """Cut out all parts that are wanted, the largest ones; the rest stays as large as it can.

    None where there is no such part, or the pattern stays in one piece. By default the top is cut into what it is
    made of.
    """
    cutter = _Cutter(pattern)

    def choose(place: _Position) -> tuple[Tree, bool] | None:
        """The tree of a part, and whether something in it is wanted."""
        leaf = cutter.leaf(place)
        if leaf is not None and not place.is_top and wanted(leaf.pattern):
            return leaf, True
        below = [choose(each) for each in cutter.opened(place)]
        chosen = [each for each in below if each is not None]
        if len(chosen) == len(below) > 0 and (leaf is None or any(is_wanted for _, is_wanted in chosen)):
            return cutter.closed(place, [tree for tree, _ in chosen]), any(found for _, found in chosen)
        return None if leaf is None else (leaf, False)

    found = choose(cutter.top) if cutter.is_open else None
    return cutter.checked(found[0]) if found is not None and found[1] else None


def whole(pattern: Pattern) -> Split | None:
    """The pattern as one part, of which only what is taken is decided apart: others can use that part as well."""
    cutter = _Cutter(pattern)
    leaf = cutter.leaf(cutter.top) if cutter.is_open else None
    return None if leaf is None else Split(pattern, leaf, ())


def splits(pattern: Pattern) -> Iterator[Split]:
    """Every way to cut a pattern into parts; not the one that leaves it whole."""
    cutter = _Cutter(pattern)

    def trees(place: _Position) -> Iterator[Tree]:
        leaf = cutter.leaf(place)
        if leaf is not None and not place.is_top:
            yield leaf
        below = [tuple(trees(each)) for each in cutter.opened(place)]
        if below:
            for chosen in product(*below):
                yield cutter.closed(place, chosen)

    if cutter.is_open:
        for tree in trees(cutter.top):
            if (found := cutter.checked(tree)) is not None:
                yield found


# -- cutting -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Position:
    """A part of a pattern, and what its place asks of it."""

    part: Part
    needs_head: bool = False
    """It has to say from which points it is matched."""
    free: bool = True
    """It is matched from every point of the stream, if from the same one as others."""
    window: int | None = None
    """All of it lies in a window of this length."""
    is_top: bool = False


class _Cutter:
    """The sound cuts of one pattern."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._conditions = plan_conditions(pattern)
        self.is_open = pattern.take is not Take.FIRST and not pattern.partial and pattern.is_settled_by_steps
        self.top = _Position(pattern.body, is_top=True)

    def leaf(self, place: _Position) -> Leaf | None:
        """The part as a pattern of its own, if it can be one."""
        part = place.part
        if can_be_empty(part) or can_be_skipped(part) or not _ends_plainly(part):
            return None
        if place.needs_head and head_of(part) is None:
            return None
        return _leaf(self._pattern, part, place.window)

    def opened(self, place: _Position) -> tuple[_Position, ...]:
        """The positions of a part, if it can be cut there."""
        part = place.part
        match part:
            case Either(parts):
                return tuple(replace(place, part=each, is_top=False) for each in parts)
            case Both(parts) if not self._spans(parts):
                return tuple(replace(place, part=each, needs_head=True, is_top=False) for each in parts)
            case Concat(first, second) | Sequence(first, second) if not self._spans((first, second)):
                if can_be_skipped(first) or can_be_skipped(second):
                    return ()
                before = replace(place, part=first, is_top=False)
                return before, replace(before, part=second, needs_head=True, free=False)
            case Within(inner, duration):
                window = duration if place.window is None else min(duration, place.window)
                return (replace(place, part=inner, window=window),)
        return ()

    def closed(self, place: _Position, parts: Iterable[Tree]) -> Tree:
        """The opposite of opening."""
        below = tuple(parts)
        match place.part:
            case Either():
                return Union(below)
            case Both():
                return Parallel(below, place.free)
            case Within(_, duration):
                return Window(below[0], duration)
        first, second = below
        return Chain(first, second, isinstance(place.part, Sequence))

    def checked(self, tree: Tree) -> Split | None:
        """The split, unless a part would see less than the whole; or would be all of it."""
        leaves = tuple(_leaves(tree))
        if len(leaves) < 2:
            return None
        named = self._pattern.types_named
        for leaf in leaves:
            unseen = named - leaf.pattern.types_named
            for atom in atoms(leaf.pattern.body):
                for filter in (atom.filter, atom.domain):
                    if filter is not None and any(overlaps(filter, _of_type(name)) for name in unseen):
                        return None
        inside = {each for leaf in leaves for each in self._pattern.conditions if each.steps <= {*leaf.steps}}
        return Split(
            self._pattern, tree, tuple(each for each in self._conditions.at_end if each not in inside)
        )

    def _spans(self, parts: Iterable[Part]) -> bool:
        """Whether some condition that is asked of an element compares steps of different parts."""
        steps = [{atom.step for atom in atoms(part)} for part in parts]
        at_steps = {each for conditions in self._conditions.at_steps.values() for each in conditions}
        return any(sum(not each.steps.isdisjoint(own) for own in steps) > 1 for each in at_steps)


def _leaf(pattern: Pattern, part: Part, window: int | None) -> Leaf:
    steps = tuple(atom.step for atom in atoms(part))
    names = {step: f"s{number}" for number, step in enumerate(steps, start=1)}
    body = _renamed(part, names)
    if window is not None and not isinstance(part, Atom) and not _is_shorter(part, window):
        body = Within(body, window)
    inside = (each for each in pattern.conditions if each.steps <= names.keys())
    found = Pattern(
        body,
        same=pattern.same,
        conditions=tuple(sorted({_spoken(each, names) for each in inside}, key=repr)),
        take=Take.ALL,
        limit=UNLIMITED,
    )
    digest = blake2b(str(found).encode(), digest_size=8).hexdigest()
    return Leaf(replace(found, name=PREFIX + digest), steps)


def _is_shorter(part: Part, window: int) -> bool:
    return isinstance(part, Within) and part.duration <= window


def _ends_plainly(part: Part) -> bool:
    """Whether the end of a match can be told from its constituents and its time."""
    match part:
        case Timing(first, Atom(), _, int()):
            return not _has_timers(first)
        case Within(inner, _):
            return _ends_plainly(inner)
    return not _has_timers(part)


def _has_timers(part: Part) -> bool:
    match part:
        case Timing():
            return True
        case Concat(first, second) | Sequence(first, second):
            return _has_timers(first) or _has_timers(second)
        case Either(parts) | Both(parts):
            return any(map(_has_timers, parts))
        case Iterate(inner, _, _) | Within(inner, _):
            return _has_timers(inner)
    return False


def head_of(part: Part) -> Atom | None:
    """The one atom that all matches of a part begin with, if there is one."""
    match part:
        case Atom():
            return part
        case Concat(first, _) | Sequence(first, _) | Timing(first, _, _, _):
            return head_of(first)
        case Iterate(inner, least, _):
            return head_of(inner) if least else None
        case Within(inner, _):
            return head_of(inner)
    return None


def _renamed(part: Part, names: Mapping[str, str]) -> Part:
    match part:
        case Atom():
            return replace(part, step=names[part.step])
        case Concat(first, second) | Sequence(first, second):
            return type(part)(_renamed(first, names), _renamed(second, names))
        case Timing(first, second, _, _):
            return replace(part, first=_renamed(first, names), second=_renamed(second, names))
        case Either(parts) | Both(parts):
            return type(part)(tuple(_renamed(each, names) for each in parts))
        case Iterate(inner, _, _) | Within(inner, _):
            return replace(part, part=_renamed(inner, names))
        case Permutation() | Unless():
            raise AssertionError("patterns with bars and permutations are not cut")


def _spoken(condition: Condition, names: Mapping[str, str]) -> Condition:
    """A condition about renamed steps."""

    def operand(given: Operand) -> Operand:
        return replace(given, reference=replace(given.reference, step=names[given.reference.step]))

    right = condition.right
    return Condition(
        operand(condition.left), condition.op, operand(right) if isinstance(right, Operand) else right
    )


def _of_type(name: str) -> Constraint:
    return Constraint(Attribute("type"), Op.EQ, name)


def _leaves(tree: Tree) -> Iterator[Leaf]:
    match tree:
        case Leaf():
            yield tree
        case Union(parts) | Parallel(parts, _):
            for each in parts:
                yield from _leaves(each)
        case Chain(first, second, _):
            yield from _leaves(first)
            yield from _leaves(second)
        case Window(part, _):
            yield from _leaves(part)


def _drawn(tree: Tree) -> str:
    match tree:
        case Leaf(pattern, _):
            return f"⟨{pattern.name}⟩"
        case Union(parts):
            return f"({' | '.join(map(_drawn, parts))})"
        case Parallel(parts, _):
            return f"({' || '.join(map(_drawn, parts))})"
        case Chain(first, second, strong):
            return f"({_drawn(first)}{' ; ' if strong else ' '}{_drawn(second)})"
        case Window(part, duration):
            return f"{_drawn(part)} within {duration} us"
