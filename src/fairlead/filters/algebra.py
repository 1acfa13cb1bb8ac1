"""The algebra of filters: identical, covers, overlaps.

    F covers G      iff  every notification that matches G matches F
    F overlaps G    iff  some notification matches both
    F identical G   iff  each covers the other

All three are sound everywhere: when unsure, `covers` says no and `overlaps` says yes, for a lost optimisation
is cheaper than a lost event. They are exact for every filter whose leaves are built-in constraints on
attributes, up to a budget: the normal form makes each filter a union of products of extents, and both
questions are about whether such a set is empty. `relate` says whether its answer is exact.

A filter that matches nothing is covered by every other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final
from typing import Literal as Choice

from fairlead.errors import Undecided, ValueRefused
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.extensions.relations import answer, constraint_covers, constraint_overlaps
from fairlead.filters.extents.extent import Extent, single
from fairlead.filters.filter import EVERYTHING, NOTHING, And, Filter, Not, Or, Tested
from fairlead.filters.normal import Closure, Conjunction, Literal, Normaliser, Universe, depends, holders_of
from fairlead.filters.paths import Selection, selection_covers, selection_overlaps
from fairlead.filters.registry import generation
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Attribute, Length, Polynomial, Position, Term
from fairlead.model import ABSENT, Key, Kind, Notification, Tuple, Value, key_of, kind_of

__all__ = ["Algebra", "Normal", "Relation", "covers", "identical", "overlaps", "relate", "witness"]

RelationName = Choice["identical", "covers", "covered", "overlaps", "disjoint"]

PAIRS_MAX: Final = 200_000
"""The number of pairs of conjunctions that are compared for one answer."""
COMPARED_MAX: Final = 50_000
"""The number of them that are looked at closely before `covers` gives up and says no."""
SUBTRACTED_MAX: Final = 50_000
"""The number of extents that the subtractions for one answer may touch before `covers` gives up and says
no."""
LITERALS_MAX: Final = 64
"""Up to this many literals of a conjunction are compared with each other."""
_REMEMBERED: Final = 4096
_REMEMBERED_SIZE: Final = 256
"""Normal forms of more conjunctions are made anew when they are needed again."""


@dataclass(frozen=True, slots=True)
class Relation:
    """The relation of two filters, and whether it is certain."""

    name: RelationName
    exact: bool

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Normal:
    """A filter with its normal form; None where it would be too large."""

    filter: Filter
    conjunctions: tuple[Conjunction, ...] | None

    @property
    def exact(self) -> bool:
        """Every question about it has a certain answer: nothing in it depends on what we cannot see."""
        return self.conjunctions is not None and all(
            not conjunction.literals
            and all(isinstance(term, Attribute | Position | Length) for term in conjunction.extents)
            for conjunction in self.conjunctions
        )


@dataclass(slots=True)
class Algebra:
    """The relations between filters, given a schema (or none). Answers are cached per filter."""

    schema: Schema | None = None
    envelope: bool = True
    universe: Universe = field(init=False)
    _normals: OrderedDict[Filter, Normal] = field(init=False, repr=False, default_factory=OrderedDict)
    _generation: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        self.universe = Universe(self.schema, self.envelope)

    def normal(self, filter: Filter | Normal) -> Normal:
        """The normal form of a filter; the latest are remembered."""
        if isinstance(filter, Normal):
            return filter
        if self._generation != generation():  # operators mean something else now
            self._generation = generation()
            self._normals.clear()
        known = self._normals.get(filter)
        if known is None:
            try:
                known = Normal(filter, self._live(Normaliser(self.universe).conjunctions(filter)))
            except Undecided:
                known = Normal(filter, None)
            if len(known.conjunctions or ()) <= _REMEMBERED_SIZE:
                self._normals[filter] = known
            if len(self._normals) > _REMEMBERED:
                self._normals.popitem(last=False)
        return known

    def _live(self, conjunctions: Iterable[Conjunction]) -> tuple[Conjunction, ...]:
        return tuple(c for c in conjunctions if not self.is_empty(c))

    # -- the three relations -------------------------------------------------------------------------------

    def covers(self, one: Filter | Normal, other: Filter | Normal) -> bool:
        """Every notification that matches the other matches the one. Sound: unsure is no."""
        first, second = self.normal(one), self.normal(other)
        if first.conjunctions is None or second.conjunctions is None:
            return _covers_by_structure(first.filter, second.filter)
        try:
            _within_budget(first, second)
            known = frozenset(first.conjunctions)
            covering = _Alternatives(first.conjunctions, self.universe)
            budget = _Budget()
            return all(
                given in known or self._covered(given, covering, budget) for given in second.conjunctions
            )
        except Undecided:
            return _covers_by_structure(first.filter, second.filter)

    def overlaps(self, one: Filter | Normal, other: Filter | Normal) -> bool:
        """Some notification matches both. Sound: unsure is yes."""
        first, second = self.normal(one), self.normal(other)
        if first.conjunctions is None or second.conjunctions is None:
            return NOTHING not in (first.filter, second.filter)
        try:
            _within_budget(first, second)
            return any(not self.is_empty(a & b) for a in first.conjunctions for b in second.conjunctions)
        except Undecided:
            return True

    def identical(self, one: Filter | Normal, other: Filter | Normal) -> bool:
        """The same notifications match both. Sound: unsure is no."""
        return self.covers(one, other) and self.covers(other, one)

    def relate(self, one: Filter | Normal, other: Filter | Normal) -> Relation:
        """The closest relation that is known to hold, and whether a closer one is excluded for certain."""
        first, second = self.normal(one), self.normal(other)
        forth, back = self.covers(first, second), self.covers(second, first)
        if forth and back:
            return Relation("identical", True)
        if forth or back:
            unsettled = second if back else first
            exact = self._certainly_beyond(unsettled, first if back else second)
            return Relation("covers" if forth else "covered", exact)
        if not self.overlaps(first, second):
            return Relation("disjoint", True)
        exact = self._certainly_beyond(first, second) and self._certainly_beyond(second, first)
        return Relation("overlaps", exact and self.witness(And.of((first.filter, second.filter))) is not None)

    def _certainly_beyond(self, one: Normal, other: Normal) -> bool:
        """A notification is known that matches the one and not the other."""
        return one.exact and other.exact and self.witness(one, but_not=other) is not None

    # -- one conjunction -----------------------------------------------------------------------------------

    def is_empty(self, conjunction: Conjunction) -> bool:
        """Certainly no notification matches."""
        closed = conjunction.closed(self.universe)
        if closed is None:
            return True
        literals = conjunction.literals
        if not literals or len(literals) > LITERALS_MAX:
            return False
        return any(
            self._disjoint(literals[i], literals[j]) for i in range(len(literals)) for j in range(i)
        ) or any(self._none_left(term, conjunction) for term in _constrained_terms(literals))

    def _none_left(self, term: Term, conjunction: Conjunction) -> bool:
        """Few values are possible for the term, and the literals on it exclude each of them."""
        values = conjunction.projection(term, self.universe).values()
        return values is not None and not any(_allowed(value, term, conjunction) for value in values)

    def _covered(self, given: Conjunction, covering: _Alternatives, budget: _Budget) -> bool:
        """Every notification that matches `given` matches one of the covering conjunctions."""
        closed = given.closed(self.universe)
        if any(self.covers_one(one, given) for one in budget.each(covering.covering(closed))):
            return True
        if len(covering.all) < 2 or self._is_beyond(given, closed, covering):
            return False
        return self._rest(given, covering.all, budget) is None

    def _is_beyond(
        self, given: Conjunction, closed: dict[Term, Extent] | None, covering: _Alternatives
    ) -> bool:
        """A notification is easily found that matches the given conjunction and no covering one.

        Two are tried: that takes far less than to subtract all.
        """
        if closed is None or given.literals or not all(isinstance(term, Attribute) for term in closed):
            return False
        for pick in (Extent.first, Extent.last):
            values = _present_in(self.choose(closed, pick))
            if not any(_may_hold(one, values, self.universe) for one in covering.holding(values)):
                return True
        return False

    def covers_one(self, one: Conjunction, given: Conjunction) -> bool:
        """One conjunction covers another by itself."""
        if not all(self._extent_covers(term, extent, given) for term, extent in one.extents.items()):
            return False
        missing = [literal for literal in one.literals if literal not in given.literals]
        if len(missing) * len(given.literals) > LITERALS_MAX**2:
            return False
        return all(
            any(self._literal_covers(literal, known) for known in given.literals)
            or self._holds_on_all_values(literal, given)
            for literal in missing
        )

    def absorbed(self, conjunctions: Iterable[Conjunction]) -> list[Conjunction]:
        """The conjunctions without those that another one covers."""
        kept: list[Conjunction] = []
        for one in conjunctions:
            if any(self.covers_one(other, one) for other in kept):
                continue
            kept = [other for other in kept if not self.covers_one(one, other)]
            kept.append(one)
        return kept

    def _extent_covers(self, term: Term, extent: Extent, given: Conjunction) -> bool:
        possible = given.projection(term, self.universe)
        if extent.covers(possible):
            return True
        if not any(term == other for other in _constrained_terms(given.literals)):
            return False
        # What the extent leaves out may be few values, which the literals of the given filter exclude.
        left_out = (possible & ~extent).values()
        return left_out is not None and not any(_allowed(value, term, given) for value in left_out)

    def _holds_on_all_values(self, literal: Literal, given: Conjunction) -> bool:
        leaf = literal.leaf
        if not isinstance(leaf, Constraint) or leaf.op is not Op.EXTENDED:
            return False
        values = given.projection(leaf.term, self.universe).values()
        return values is not None and all(leaf.holds(value) is literal.positive for value in values)

    def _rest(
        self, given: Conjunction, covering: tuple[Conjunction, ...], budget: _Budget
    ) -> Conjunction | None:
        """A part of `given` that no covering conjunction reaches, or None; `given` minus each in turn.

        Depth first: where something is left, it is found long before everything else has been subtracted.
        """
        left: list[tuple[Iterator[Conjunction], int]] = [(iter((given,)), 0)]
        while left:
            parts, done = left[-1]
            part = next(parts, None)
            if part is None:
                left.pop()
                continue
            budget.spend(1 + len(part.extents))
            if self.is_empty(part):
                continue
            for index in range(done, len(covering)):
                budget.spend(1)
                if not self.is_empty(part & covering[index]):
                    left.append((self._outside(part, covering[index]), index + 1))
                    break
            else:
                return part
        return None

    def _outside(self, part: Conjunction, one: Conjunction) -> Iterator[Conjunction]:
        """The part minus a conjunction, piece by piece, leaving aside terms on which all is let through.

        a and not (b and c) = (a and not b) or (a and b and not c), so the pieces stay products of extents.
        """
        held = part
        for term, extent in one.extents.items():
            if not extent.covers(part.projection(term, self.universe)):
                yield held & Conjunction({term: ~extent})
                held = held & Conjunction({term: extent})
        for literal in one.literals:
            yield held & Conjunction({}, (Literal(literal.leaf, not literal.positive),))
            held = held & Conjunction({}, (literal,))

    # -- literals: operators of extensions, path filters, filter objects -----------------------------------

    def _literal_covers(self, one: Literal, other: Literal) -> bool:
        if one.leaf == other.leaf:
            return one.positive == other.positive
        match one.positive, other.positive:
            case True, True:
                return self._leaf_covers(one.leaf, other.leaf)
            case False, False:
                return self._leaf_covers(other.leaf, one.leaf)
            case False, True:
                return not self._leaf_overlaps(one.leaf, other.leaf)
        return False

    def _disjoint(self, one: Literal, other: Literal) -> bool:
        """Certainly no notification satisfies both."""
        if one.leaf == other.leaf:
            return one.positive != other.positive
        match one.positive, other.positive:
            case True, True:
                return not self._leaf_overlaps(one.leaf, other.leaf)
            case True, False:
                return self._leaf_covers(other.leaf, one.leaf)
            case False, True:
                return self._leaf_covers(one.leaf, other.leaf)
        return False

    def _leaf_covers(self, one: Filter, other: Filter) -> bool:
        match one, other:
            case Constraint(term=Selection()), Constraint(term=Selection()):
                return selection_covers(one, other, _CONDITIONS.covers)
            case Constraint(op=Op.EXTENDED), Constraint(op=Op.EXTENDED) if one.term == other.term:
                return constraint_covers(one, other)
            case Tested(), Tested() if one.name == other.name:
                return bool(answer(False, one.test.covers, other.test))
        return False

    def _leaf_overlaps(self, one: Filter, other: Filter) -> bool:
        match one, other:
            case Constraint(term=Selection()), Constraint(term=Selection()):
                return selection_overlaps(one, other, _CONDITIONS.covers, _CONDITIONS.overlaps)
            case Constraint(op=Op.EXTENDED), Constraint(op=Op.EXTENDED) if one.term == other.term:
                return constraint_overlaps(one, other)
            case Tested(), Tested() if one.name == other.name:
                pairs = ((one.test, other.test), (other.test, one.test))
                return all(
                    not hasattr(asked, "overlaps") or answer(True, asked.overlaps, given)
                    for asked, given in pairs
                )
        return True

    # -- witnesses -----------------------------------------------------------------------------------------

    def witness(
        self, filter: Filter | Normal, *, but_not: Filter | Normal | None = None
    ) -> Notification | None:
        """A notification that matches the filter (but not the other), or None if the search has no
        result.

        For filters of the exact class None means that there is none.
        """
        for conjunction in self._parts_beyond(self.normal(filter), but_not):
            found = self.example(conjunction)
            if found is not None:
                return found
        return None

    def _parts_beyond(self, given: Normal, but_not: Filter | Normal | None) -> Iterable[Conjunction]:
        if given.conjunctions is None:
            return
        if but_not is None:
            yield from given.conjunctions
            return
        excluded = self.normal(but_not).conjunctions
        if excluded is None:
            return
        budget = _Budget()
        for conjunction in given.conjunctions:
            try:
                rest = self._rest(conjunction, excluded, budget)
            except Undecided:
                continue
            if rest is not None:
                yield rest

    def example(self, conjunction: Conjunction) -> Notification | None:
        """A notification that matches a conjunction of the exact class, with few attributes."""
        closed = conjunction.closed(self.universe)
        if closed is None or conjunction.literals:
            return None
        if not all(isinstance(term, Attribute | Position | Length) for term in closed):
            return None
        try:
            return _notification(self.choose(closed, _simplest))
        except ValueRefused:  # at the ends of what values can be, such as more digits than a number may have
            return None

    def choose(self, closed: dict[Term, Extent], pick: Callable[[Extent], Value]) -> dict[Term, Value]:
        """A value for each term, such that a notification could give all of them.

        Choosing one value can narrow what its relatives may be, so these are chosen one at a time.
        """
        holders = {held for term in closed for held in holders_of(term)}
        # A polynomial and its attributes have no forest: each value is possible, not all of them together.
        related = {
            term: extent
            for term, extent in closed.items()
            if (depends(term) or term in holders) and not isinstance(term, Polynomial)
        }
        values = {term: pick(extent) for term, extent in closed.items() if term not in related}
        closure = Closure(related, self.universe)
        for term in sorted(related, key=_by_depth):
            value = values[term] = pick(closure.extents[term])
            left = closure.narrow(term, single(value, discrete=self.universe.discrete(term)))
            assert left, "a value of a closed extent leaves values for the others"
        return values


def _simplest(extent: Extent) -> Value:
    return ABSENT if extent.allows(Kind.ABSENT) else extent.witness()


def _by_depth(term: Term) -> tuple[int, str]:
    return (term.name.count("."), term.name) if isinstance(term, Attribute) else (1 << 30, str(term))


def _notification(values: dict[Term, Value]) -> Notification:
    """The notification that gives each term its chosen value."""
    present = {term: value for term, value in values.items() if value is not ABSENT}
    named = {term.name: value for term, value in present.items() if isinstance(term, Attribute)}
    holders = {holder.name for name in named for holder in holders_of(Attribute(name))}
    fields: dict[str, Any] = {}
    within: dict[str, Any] = {"": fields}
    for name in sorted(named, key=lambda name: name.count(".")):
        value: Any = named[name]
        if name in holders:  # what it holds comes next
            value = within[name] = SimpleNamespace() if kind_of(value) is Kind.OBJECT else {}
        above, _, step = name.rpartition(".")
        if isinstance(within[above], dict):
            within[above][step] = value
        else:
            setattr(within[above], step, value)
    positions = {term.index: value for term, value in present.items() if isinstance(term, Position)}
    length = max([present.get(Length(), 0), *(index + 1 for index in positions)])
    if positions or Length() in present:
        fields["tuple"] = Tuple(tuple(positions.get(index) for index in range(length)))
    return Notification.of(fields)


@dataclass(slots=True)
class _Budget:
    """The number of subtractions that one answer may still take."""

    left: int = SUBTRACTED_MAX
    pairs: int = COMPARED_MAX

    def each(self, conjunctions: Iterable[Conjunction]) -> Iterator[Conjunction]:
        """The conjunctions that one is compared with."""
        for one in conjunctions:
            self.pairs -= 1
            if self.pairs < 0:
                raise Undecided("too many pairs of conjunctions to compare")
            yield one

    def spend(self, extents: int) -> None:
        self.left -= extents
        if self.left < 0:
            raise Undecided("too many parts to subtract")


class _Alternatives:
    """Conjunctions, each under an attribute that every notification it matches has, if there is one.

    If they have one value for it, then under that as well.
    """

    def __init__(self, conjunctions: tuple[Conjunction, ...], universe: Universe) -> None:
        self.all = conjunctions
        self._under: dict[tuple[Term, Key | None], list[Conjunction]] = {}
        self._others: list[Conjunction] = []
        for one in conjunctions:
            term = None if len(conjunctions) < 2 else _required_term(one, universe)
            if term is None:
                self._others.append(one)
            else:
                self._under.setdefault((term, _only_value(one.extents[term])), []).append(one)

    def covering(self, closed: Mapping[Term, Extent] | None) -> Iterator[Conjunction]:
        """Those that may cover a conjunction with these extents."""
        if closed is None:
            return iter(self.all)
        return self._among((term, _only_value(extent)) for term, extent in closed.items())

    def holding(self, values: Mapping[Term, Value]) -> Iterator[Conjunction]:
        """Those that may match a notification with these attributes, and no others."""
        return self._among((term, key_of(value)) for term, value in values.items())

    def _among(self, keys: Iterable[tuple[Term, Key | None]]) -> Iterator[Conjunction]:
        yield from self._others
        for term, key in keys:
            yield from self._under.get((term, None), ())
            if key is not None:
                yield from self._under.get((term, key), ())


def _only_value(extent: Extent) -> Key | None:
    try:
        values = extent.values(1)
    except Undecided:
        return None
    return key_of(values[0]) if values is not None and len(values) == 1 else None


def _required_term(conjunction: Conjunction, universe: Universe) -> Term | None:
    """The attribute that tells most about what matches."""
    required = [each for each in conjunction.extents if _is_required(each, conjunction, universe)]
    return next(
        (each for each in required if _only_value(conjunction.extents[each]) is not None), None
    ) or next(iter(required), None)


def _is_required(term: Term, conjunction: Conjunction, universe: Universe) -> bool:
    """Whether a notification without the attribute does not match, and there may be one.

    What stands within a record or a tuple follows from other terms, and is left aside.
    """
    return (
        isinstance(term, Attribute)
        and "." not in term.name
        and term.name != "tuple"
        and not conjunction.extents[term].allows(Kind.ABSENT)
        and universe.extent(term).allows(Kind.ABSENT)
    )


def _present_in(values: dict[Term, Value]) -> dict[Term, Value]:
    return {term: value for term, value in values.items() if value is not ABSENT}


def _may_hold(one: Conjunction, values: dict[Term, Value], universe: Universe) -> bool:
    """Unless a notification with these attributes, and no others, certainly does not match."""
    return all(
        values[term] in extent if term in values else not _is_required(term, one, universe)
        for term, extent in one.extents.items()
    )


def _within_budget(first: Normal, second: Normal) -> None:
    if len(first.conjunctions or ()) * len(second.conjunctions or ()) > PAIRS_MAX:
        raise Undecided("too many pairs of conjunctions to compare")


def _constrained_terms(literals: Iterable[Literal]) -> set[Term]:
    """The terms that operators of extensions constrain."""
    return {
        literal.leaf.term
        for literal in literals
        if isinstance(literal.leaf, Constraint) and literal.leaf.op is Op.EXTENDED
    }


def _allowed(value: Any, term: Term, conjunction: Conjunction) -> bool:
    """The literals on a term let the value through."""
    return all(
        literal.leaf.holds(value) is literal.positive
        for literal in conjunction.literals
        if isinstance(literal.leaf, Constraint)
        and literal.leaf.op is Op.EXTENDED
        and literal.leaf.term == term
    )


def _covers_by_structure(one: Filter, other: Filter, choices: frozenset[Filter] | None = None) -> bool:
    """Whether the structure shows covering without a normal form: for filters too large to be broken up.

    `choices` are the alternatives of the one, which are collected only once.
    """
    if choices is None:
        choices = frozenset(one.parts if isinstance(one, Or) else (one,))
    if other in choices or one in (other, EVERYTHING) or other == NOTHING:
        return True
    if isinstance(other, Or):
        return all(_covers_by_structure(one, part, choices) for part in other.parts)
    if isinstance(one, And):
        known = frozenset(other.parts if isinstance(other, And) else (other,))
        return all(part in known or _covers_by_structure(part, other) for part in one.parts)
    if isinstance(other, And):
        return one in other.parts or not choices.isdisjoint(other.parts)
    return isinstance(one, Not) and isinstance(other, Not) and _covers_by_structure(other.part, one.part)


_CONDITIONS: Final = Algebra(envelope=False)
"""Relations between the conditions of path filters, which are about elements and know no schema."""


# -- with the default algebra ------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def algebra_for(schema: Schema | None = None) -> Algebra:
    """The algebra of a schema. The latest few are cached, with their answers."""
    return Algebra(schema)


def covers(one: Filter, other: Filter, schema: Schema | None = None) -> bool:
    """Every notification that matches the other matches the one. Sound: unsure is no."""
    return algebra_for(schema).covers(one, other)


def overlaps(one: Filter, other: Filter, schema: Schema | None = None) -> bool:
    """Some notification matches both. Sound: unsure is yes."""
    return algebra_for(schema).overlaps(one, other)


def identical(one: Filter, other: Filter, schema: Schema | None = None) -> bool:
    """The same notifications match both. Sound: unsure is no."""
    return algebra_for(schema).identical(one, other)


def relate(one: Filter, other: Filter, schema: Schema | None = None) -> Relation:
    """The relation of two filters: identical, covers, covered, overlaps or disjoint."""
    return algebra_for(schema).relate(one, other)


def witness(
    filter: Filter, *, but_not: Filter | None = None, schema: Schema | None = None
) -> Notification | None:
    """A notification that matches the filter (but not the other), or None if the search has no result."""
    return algebra_for(schema).witness(filter, but_not=but_not)
