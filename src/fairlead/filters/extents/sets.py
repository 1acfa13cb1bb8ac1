"""Sets of multi values: every Boolean combination of the constraints of book Table 3.7, exactly.

    X in a  for finite sets X of elements of an infinite universe; elements are opaque hashable keys

Every constraint says that X keeps clear of a group of elements, or that it does not; a group is finite or has
a finite complement:

    X disjoint M   X meets nothing of M                  X overlaps M   X meets M
    X subset M     X meets nothing outside of M          X superset M   X meets {a}, for each a in M

So an extent is a union of boxes. A box asks for required elements, excludes a group, and keeps clauses, each
"X meets a group or lacks some of a set". Clauses are what denials of boxes are made of (not (superset R and
disjoint D) is one clause), and `or` of two clauses is a clause: the rule of book Table 3.8 that overlaps M1
or overlaps M2 is overlaps (M1 | M2) needs no code of its own. Emptiness of a box is a small satisfiability
problem: units are propagated, elements that no clause wants absent are added freely, and what remains is
searched within a budget (`Undecided` beyond). With one or two constraints nothing remains to be searched.

Boxes are kept in a normal form that makes equal what is written differently (contains a, superset {a},
overlaps {a}), but `==` is structural: it does not decide identity, `covers` both ways does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations, count, permutations, product
from math import prod
from typing import Any, TypeAlias

from fairlead.errors import Undecided

__all__ = ["Form", "SetExtent"]

Key: TypeAlias = Hashable
Keys: TypeAlias = frozenset[Hashable]
Form: TypeAlias = tuple[str, Keys]

_NONE: Keys = frozenset()

_BOXES_MAX = 20_000  # boxes or alternatives made for one answer
_ANSWER_EFFORT = 300_000  # clauses and elements looked at for one answer
_TIDY_EFFORT = 100_000  # and for a smaller normal form, which is worth less
_TIDY_MAX = 16  # boxes or clauses compared pairwise for it
_FRESH: Key = object()  # stands for an element that is not named


class _Effort:
    """The effort that one question may still take."""

    __slots__ = ("left",)

    def __init__(self, limit: int = _ANSWER_EFFORT) -> None:
        self.left = limit

    def spend(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            raise Undecided("constraints on a multi value are entangled beyond the budget")


@dataclass(frozen=True, slots=True)
class _Group:
    """Finitely many elements, or all elements but finitely many."""

    elements: Keys = _NONE
    cofinite: bool = False

    def __invert__(self) -> _Group:
        return _Group(self.elements, not self.cofinite)

    def __or__(self, other: _Group) -> _Group:
        if not self.cofinite and not other.cofinite:
            return _Group(self.elements | other.elements)
        return _Group.union((self, other))

    def __sub__(self, other: _Group) -> _Group:
        return ~(~self | other)

    def __le__(self, other: _Group) -> bool:
        return not (self - other)

    def __bool__(self) -> bool:
        return self.cofinite or bool(self.elements)

    def __contains__(self, key: Key) -> bool:
        return (key in self.elements) != self.cofinite

    def meets(self, keys: Keys) -> bool:
        return not (keys <= self.elements if self.cofinite else keys.isdisjoint(self.elements))

    @staticmethod
    def union(groups: Sequence[_Group]) -> _Group:
        finite = _NONE.union(*(group.elements for group in groups if not group.cofinite))
        missing = [group.elements for group in groups if group.cofinite]
        return _Group(frozenset.intersection(*missing) - finite, True) if missing else _Group(finite)


_EMPTY = _Group()


@dataclass(frozen=True, slots=True)
class _Clause:
    """X meets a group, or lacks some element of a set."""

    meets: _Group = _EMPTY
    lacks: Keys = _NONE

    @staticmethod
    def union(clauses: Sequence[_Clause]) -> _Clause:
        """An `or` of clauses is a clause."""
        return _Clause(
            _Group.union([clause.meets for clause in clauses]), _NONE.union(*(c.lacks for c in clauses))
        )

    def __le__(self, other: _Clause) -> bool:
        """Whether all that satisfies this clause satisfies the other, since each of its ways is one there."""
        return self.lacks <= other.lacks and self.meets <= other.meets

    def holds(self, value: Keys) -> bool:
        return self.meets.meets(value) or not self.lacks <= value

    def forms(self) -> tuple[Form, ...]:
        """The clause as an `or` of constraints."""
        group, lacks = self.meets, self.lacks
        if group.cofinite and group.elements == lacks:
            return (("not equals", lacks),)
        met = ((("not subset" if group.cofinite else "overlaps"), group.elements),) if group else ()
        return (*met, ("not superset", lacks)) if lacks else met


@dataclass(frozen=True, slots=True)
class _Box:
    """X has all required elements, meets nothing of the excluded group, and satisfies every clause."""

    required: Keys = _NONE
    excluded: _Group = _EMPTY
    clauses: frozenset[_Clause] = frozenset()

    def holds(self, value: Keys) -> bool:
        return (
            self.required <= value
            and not self.excluded.meets(value)
            and all(clause.holds(value) for clause in self.clauses)
        )

    def __and__(self, other: _Box) -> _Box | None:
        return _settled(
            self.required | other.required, self.excluded | other.excluded, self.clauses | other.clauses
        )

    def denial(self) -> Iterator[_Box]:
        """Boxes that together hold what this one does not: one for the elements, one per clause."""
        elements = _settled(clauses=[_Clause(self.excluded, self.required)])
        if elements is not None:
            yield elements
        for clause in self.clauses:
            denied = _settled(clause.lacks, clause.meets)
            if denied is not None:
                yield denied

    def covers(self, other: _Box, effort: _Effort) -> bool:
        if not self.clauses and not other.clauses:
            # The other's smallest member shows a missing requirement, one more element a missing exclusion.
            return self.required <= other.required and self.excluded <= other.excluded
        return all(
            _member(rest, effort) is None for denied in self.denial() if (rest := other & denied) is not None
        )

    def named(self) -> Keys:
        mentioned = (c.meets.elements | c.lacks for c in self.clauses)
        return self.required.union(self.excluded.elements, *mentioned)

    def only_clause(self) -> _Clause | None:
        """The clause that says all this box says, if one does."""
        facts = len(self.required) + len(self.clauses) + _weight(self.excluded)
        if facts != 1:
            return None
        if self.clauses:
            return next(iter(self.clauses))
        return _Clause(_Group(self.required), self.excluded.elements)

    def joined(self, other: _Box) -> _Box | None:
        """The one box that is the union, where the two differ in one fact each and both facts are clauses."""
        if self.excluded.cofinite or other.excluded.cofinite:
            if self.excluded != other.excluded:
                return None
            own, its = self._facts_beyond(other, _NONE), other._facts_beyond(self, _NONE)
            excluded = self.excluded
        else:
            shared = self.excluded.elements & other.excluded.elements
            own, its = self._facts_beyond(other, shared), other._facts_beyond(self, shared)
            excluded = _Group(shared)
        if own is None or its is None:
            return None
        # Never None: a union of boxes that have members has one.
        return _settled(
            self.required & other.required,
            excluded,
            [*(self.clauses & other.clauses), _Clause.union((own, its))],
        )

    def _facts_beyond(self, other: _Box, shared: Keys) -> _Clause | None:
        """The single fact that only this box states, as a clause."""
        required, clauses = self.required - other.required, self.clauses - other.clauses
        lacking = _NONE if self.excluded.cofinite else self.excluded.elements - shared
        return _Box(required, _Group(lacking), clauses).only_clause()

    def sort_key(self) -> tuple[Any, ...]:
        excluded = self.excluded
        clauses = [(c.meets.cofinite, _sort_key(c.meets.elements), _sort_key(c.lacks)) for c in self.clauses]
        return _sort_key(self.required), excluded.cofinite, _sort_key(excluded.elements), sorted(clauses)

    def conjuncts(self) -> Iterator[tuple[Form, ...]]:
        """The box as an `and` of `or`s of constraints."""
        excluded, required = self.excluded, self.required
        if excluded.cofinite and excluded.elements == required:
            yield (("equals", required),)
        else:
            if required:
                yield (("superset", required),)
            if excluded:
                yield ((("subset" if excluded.cofinite else "disjoint"), excluded.elements),)
        for clause in self.clauses:
            yield clause.forms()


_ALL = _Box()


@dataclass(frozen=True, slots=True)
class SetExtent:
    """A union of boxes."""

    boxes: frozenset[_Box]

    @classmethod
    def everything(cls) -> SetExtent:
        return cls(frozenset({_ALL}))

    @classmethod
    def nothing(cls) -> SetExtent:
        return cls(frozenset())

    @classmethod
    def subset(cls, elements: Iterable[Key]) -> SetExtent:
        return cls._of(_settled(excluded=_Group(frozenset(elements), True)))

    @classmethod
    def superset(cls, elements: Iterable[Key]) -> SetExtent:
        return cls._of(_settled(required=frozenset(elements)))

    @classmethod
    def contains(cls, element: Key) -> SetExtent:
        return cls.superset((element,))

    @classmethod
    def lacks(cls, element: Key) -> SetExtent:
        return cls.disjoint((element,))

    @classmethod
    def disjoint(cls, elements: Iterable[Key]) -> SetExtent:
        return cls._of(_settled(excluded=_Group(frozenset(elements))))

    @classmethod
    def overlaps(cls, elements: Iterable[Key]) -> SetExtent:
        return cls._of(_settled(clauses=[_Clause(_Group(frozenset(elements)))]))

    @classmethod
    def equals(cls, elements: Iterable[Key]) -> SetExtent:
        keys = frozenset(elements)
        return cls._of(_settled(keys, _Group(keys, True)))

    @classmethod
    def _of(cls, box: _Box | None) -> SetExtent:
        return cls(frozenset() if box is None else frozenset({box}))

    def __and__(self, other: SetExtent) -> SetExtent:
        return SetExtent(_tidy(_products(self.boxes, other.boxes)))

    def __or__(self, other: SetExtent) -> SetExtent:
        return SetExtent(_tidy(self.boxes | other.boxes))

    def __invert__(self) -> SetExtent:
        # A box without clauses is denied by one clause: all of those make one box, at once.
        plain, others = _denied_plain(self.boxes)
        boxes = frozenset(() if plain is None else (plain,))
        for box in others:
            boxes = _tidy(_products(boxes, frozenset(box.denial())))
        return SetExtent(boxes)

    def __contains__(self, value: Any) -> bool:
        keys = frozenset(value) if isinstance(value, AbstractSet) else None
        return keys is not None and any(box.holds(keys) for box in self.boxes)

    def is_empty(self) -> bool:
        """No set is a member."""
        effort = _Effort()
        return all(_member(box, effort) is None for box in self.boxes)

    def is_full(self) -> bool:
        """Every set is a member."""
        return not _escapes(_ALL, self.boxes, _Effort())

    def covers(self, other: SetExtent) -> bool:
        """Every member of `other` is a member."""
        effort = _Effort()
        return all(box in self.boxes or not _escapes(box, self.boxes, effort) for box in other.boxes)

    def witness(self, fresh: Callable[[Keys], Key] | None = None) -> Keys | None:
        """A small member; `fresh(named)` gives an element that is not named (by default an integer)."""
        effort = _Effort()
        found = [
            member - {_FRESH} | {(fresh or _unnamed)(box.named())} if _FRESH in member else member
            for box in self.boxes
            if (member := _member(box, effort)) is not None
        ]
        return min(found, key=_sort_key, default=None)

    @property
    def form(self) -> Form | None:
        """The constraint, where the extent is a single one: ("subset", M), ("not equals", M), …

        Names: subset, superset, disjoint, overlaps, equals, not subset, not superset, not equals.
        """
        if len(self.boxes) != 1:
            return None
        forms = [form for ways in next(iter(self.boxes)).conjuncts() for form in ways]
        return forms[0] if len(forms) == 1 else None

    def alternatives(self) -> tuple[tuple[Form, ...], ...]:
        """The extent as an `or` of `and`s of constraints, in a fixed order; everything is one empty `and`."""
        conjunctions = [list(box.conjuncts()) for box in self.boxes]
        _check_count(sum(prod(map(len, ways)) for ways in conjunctions))
        found = {
            tuple(sorted(set(choice), key=lambda form: (form[0], _sort_key(form[1]))))
            for ways in conjunctions
            for choice in product(*ways)
        }
        return tuple(sorted(found, key=lambda forms: [(name, _sort_key(keys)) for name, keys in forms]))


def _settled(
    required: Keys = _NONE, excluded: _Group = _EMPTY, clauses: Iterable[_Clause] = ()
) -> _Box | None:
    """The box in normal form, or None where propagating units shows that it is empty.

    Clauses are cut down to what the required and excluded elements leave open; one that has a single way left
    becomes a required or an excluded element.
    """
    while True:
        if excluded.meets(required):
            return None
        kept: set[_Clause] = set()
        more: set[Key] = set()
        fewer: set[Key] = set()
        for clause in clauses:
            if (
                clause.meets.meets(required)
                or excluded.meets(clause.lacks)
                or clause.meets.meets(clause.lacks)
            ):
                continue
            meets, lacks = clause.meets - excluded, clause.lacks - required
            match _weight(meets), len(lacks):
                case 0, 0:
                    return None
                case 1, 0:
                    more |= meets.elements
                case 0, 1:
                    fewer |= lacks
                case _:
                    kept.add(_Clause(meets, lacks))
        if not more and not fewer:
            return _Box(required, excluded, _irredundant(kept))
        required, excluded, clauses = required | more, excluded | _Group(frozenset(fewer)), kept


def _weight(group: _Group) -> int:
    """The number of elements, where all that matters of infinitely many is that they are neither 0 nor 1."""
    return 2 if group.cofinite else len(group.elements)


def _irredundant(clauses: set[_Clause]) -> frozenset[_Clause]:
    if not 1 < len(clauses) <= _TIDY_MAX:
        return frozenset(clauses)
    return frozenset(c for c in clauses if not any(other <= c for other in clauses if other is not c))


def _member(box: _Box, effort: _Effort) -> Keys | None:
    """A small member, if there is one; `_FRESH` in it is any element that the box does not name.

    The required elements alone are the first try. A clause that they fail wants one more element of its group
    (what it could lack is required by now). An element that no clause wants absent does no harm; only for
    another one the search must come back and try without it.
    """
    cost = 0  # of a step is due when another one is needed: large sets alone are no reason to give up
    open_boxes = [box]
    while open_boxes:
        current = open_boxes.pop()
        failed = [clause.meets for clause in current.clauses if not clause.lacks]
        wanted = Counter(a for group in failed if not group.cofinite for a in group.elements)
        if not wanted:
            # Only infinite groups are failed, if any: one new element is in all of them.
            return current.required | {_FRESH} if failed else current.required
        effort.spend(cost)
        unwanted = _NONE.union(*(clause.lacks for clause in current.clauses))
        free = wanted.keys() - unwanted
        chosen = min(free or wanted, key=lambda a: (-wanted[a], repr(a)))
        tries = [] if free else [_Box(excluded=_Group(frozenset({chosen})))]
        tries.append(_Box(required=frozenset({chosen})))
        open_boxes += (rest for fact in tries if (rest := current & fact) is not None)
        cost = wanted.total() + len(unwanted) + 4 * len(current.clauses)
    return None


def _escapes(box: _Box, covering: frozenset[_Box], effort: _Effort) -> bool:
    """Some member of the box is in none of the covering boxes."""
    sample = _member(box, effort)
    if sample is None:
        return False
    # Most questions end here: with a member that no box holds, or a box that holds all members.
    holding = [own for own in covering if own.holds(sample)]
    if not holding or any(own.covers(box, effort) for own in holding):
        return not holding
    plain, others = _denied_plain(covering)
    start = None if plain is None else box & plain
    open_boxes = [] if start is None else [(start, 0)]
    while open_boxes:
        current, place = open_boxes.pop()
        if place == len(others):
            if _member(current, effort) is not None:
                return True
            continue
        effort.spend(1 + len(current.clauses))
        parts = (current & denied for denied in others[place].denial())
        open_boxes += ((part, place + 1) for part in parts if part is not None)
    return False


def _denied_plain(boxes: frozenset[_Box]) -> tuple[_Box | None, list[_Box]]:
    """The box outside of all boxes without clauses, and the boxes with clauses, those with fewest first."""
    denied = _settled(clauses=[_Clause(box.excluded, box.required) for box in boxes if not box.clauses])
    return denied, sorted((box for box in boxes if box.clauses), key=lambda box: len(box.clauses))


def _products(left: frozenset[_Box], right: frozenset[_Box]) -> frozenset[_Box]:
    _check_count(len(left) * len(right))
    return frozenset(box for a, b in product(left, right) if (box := a & b) is not None)


def _tidy(boxes: frozenset[_Box]) -> frozenset[_Box]:
    """The same union with fewer boxes: empty and covered ones dropped, those one fact apart joined."""
    clauses = [clause for box in boxes if (clause := box.only_clause()) is not None]
    if len(clauses) > 1:
        rest = [box for box in boxes if box.only_clause() is None]
        joint = _settled(clauses=[_Clause.union(clauses)])
        boxes = frozenset(rest if joint is None else [*rest, joint])
    effort = _Effort(_TIDY_EFFORT)
    joined: frozenset[_Box] | None = boxes
    while joined is not None and len(joined) <= _TIDY_MAX:
        boxes = _maximal(joined, effort)
        joined = _joined(boxes)
    if 1 < len(boxes) <= _TIDY_MAX and _surely_cover(boxes, _ALL, effort):
        return frozenset({_ALL})
    return boxes


def _maximal(boxes: frozenset[_Box], effort: _Effort) -> frozenset[_Box]:
    """The boxes that are not empty and not covered by another one."""
    rest = {box for box in boxes if not _surely_cover(frozenset(), box, effort)}
    over = {(a, b) for a, b in permutations(rest, 2) if _surely_cover(frozenset({a}), b, effort)}
    # Of two boxes with the same members the first in a fixed order stays.
    return frozenset(rest) - {b for a, b in over if (b, a) not in over or a.sort_key() < b.sort_key()}


def _joined(boxes: frozenset[_Box]) -> frozenset[_Box] | None:
    """Two boxes joined into one, the first in a fixed order where there is a choice."""
    joins = {join: {a, b} for a, b in combinations(boxes, 2) if (join := a.joined(b)) is not None}
    if not joins:
        return None
    join = next(iter(joins)) if len(joins) == 1 else min(joins, key=_Box.sort_key)
    return boxes - joins[join] | {join}


def _surely_cover(covering: frozenset[_Box], box: _Box, effort: _Effort) -> bool:
    """Whether all members of the box are covered, and it is cheap to know: a normal form can do without."""
    try:
        return not _escapes(box, covering, effort)
    except Undecided:
        return False


def _check_count(boxes: int) -> None:
    if boxes > _BOXES_MAX:
        raise Undecided("constraints on a multi value fall into too many alternatives")


def _unnamed(named: Keys) -> Key:
    return next(n for n in count() if n not in named)


def _sort_key(keys: Keys) -> tuple[int, list[str]]:
    """A fixed order of sets whose elements may not be ordered: small ones first, then by what is written."""
    return len(keys), sorted(map(repr, keys))
