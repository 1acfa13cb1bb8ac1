"""Filters in normal form: a disjunction of folded conjunctions (book 3.1.2).

    n matches F  iff  n matches one of F's conjunctions

Within a conjunction all constraints on one term are folded into one extent, negations included, so that
`x >= 3 and x <= 5` is `x in [3, 5]`, and a contradiction is seen as such. What has no extent (operators of
extensions, path filters, filter objects) stays as a literal beside the extents.

Terms can depend on each other: `position.x < 3` implies that `position` is there and holds fields, `absent
position` that `position.x` is absent too, `x + y = 5` that x and y are numbers, a template that the tuple has
its length. `closed` makes what follows explicit. The dependencies form a forest, so this local reasoning is
complete: what is left on each term is exactly what some matching notification gives to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final

from fairlead.errors import Undecided
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.extents.extent import PRESENT, Extent, extent_of, meet, union
from fairlead.filters.extents.numbers import NumberExtent
from fairlead.filters.extents.strings import StringExtent
from fairlead.filters.filter import And, Filter, Not, Or, Tested
from fairlead.filters.paths import Selection, is_path_filter
from fairlead.filters.registry import operator_named
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Attribute, Inspector, Length, Polynomial, Position, Term
from fairlead.model import TUPLE_MAX, Kind

__all__ = [
    "CONJUNCTIONS_MAX",
    "Closure",
    "Conjunction",
    "Literal",
    "Normaliser",
    "Universe",
    "depends",
    "holders_of",
]

CONJUNCTIONS_MAX: Final = 4096
"""A filter that breaks up into more conjunctions than this is compared by its structure only."""

_TUPLE: Final = Attribute("tuple")
_LENGTH: Final = Length()
_EVERYTHING: Final = ~Extent({})
_ABSENT: Final = Extent.of_kinds(Kind.ABSENT)
_RECORDS: Final = Extent.of_kinds(Kind.RECORD)
_HOLDERS: Final = _RECORDS | Extent.of_kinds(Kind.OBJECT)  # whose members are public: no underscore
_NUMBERS: Final = Extent.of_kinds(Kind.NUMBER)

NEGATION: Final = {
    Op.EQ: Op.NE,
    Op.NE: Op.EQ,
    Op.LT: Op.GE,
    Op.GE: Op.LT,
    Op.GT: Op.LE,
    Op.LE: Op.GT,
    Op.IN: Op.NOT_IN,
    Op.NOT_IN: Op.IN,
    Op.IN_RANGE: Op.NOT_IN_RANGE,
    Op.NOT_IN_RANGE: Op.IN_RANGE,
}
"""The complements among the operators, for terms that always have a number: the counts of path filters."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A leaf that has no extent, or its negation."""

    leaf: Filter
    positive: bool = True

    def filter(self) -> Filter:
        return self.leaf if self.positive else Not(self.leaf)


def _lengths(low: int, high: int = TUPLE_MAX) -> Extent:
    return Extent.of_piece(Kind.NUMBER, NumberExtent.interval(low, high, discrete=True))


@dataclass(frozen=True, slots=True)
class Universe:
    """The possible values of each term: as the schema declares, and as a notification ensures."""

    schema: Schema | None = None
    envelope: bool = True
    """Whether `time`, `id` and the like are the notification's own; the attributes of an element are not."""
    _known: dict[Term, Extent] = field(default_factory=dict, compare=False, repr=False)

    def extent(self, term: Term) -> Extent:
        """Every value, or ABSENT, that a notification can give to the term."""
        known = self._known.get(term)
        if known is None:
            known = self._make(term)
            if known is not _EVERYTHING:  # of names that nothing is known about there is no end
                self._known[term] = known
        return known

    def bounded(self, term: Term, extent: Extent) -> Extent:
        """The part of an extent that is possible."""
        possible = self.extent(term)
        return extent if possible is _EVERYTHING else extent & possible

    def discrete(self, term: Term) -> bool:
        """Whether the term's numbers are whole."""
        if isinstance(term, Attribute):
            declared = self.schema.domain(term.name) if self.schema else None
            whole = declared is not None and declared.integer
            return whole or (self.envelope and term.name in _ENVELOPE_NUMBERS)
        return isinstance(term, Length | Selection)

    def _make(self, term: Term) -> Extent:
        held = _holder(term)
        if held is not None and (self.extent(held[0]) & held[1]).is_empty():
            return _ABSENT  # nothing lies within what is declared to be a number
        match term:
            case Attribute(name):
                declared = self.schema.domain(name) if self.schema else None
                found = _ENVELOPE.get(name, _EVERYTHING) if self.envelope else _EVERYTHING
                if name == "type" and self.schema is not None and self.schema.has_types:
                    types = StringExtent.words(*self.schema.concrete)
                    found &= _ABSENT | Extent.of_piece(Kind.STRING, types)
                if declared is not None:
                    kinds = {declared.kind, Kind.ABSENT} | ({Kind.NULL} if declared.nullable else set())
                    found &= Extent.of_kinds(*kinds)
                return found
            case Length():
                return _ABSENT | _lengths(0)
            case Position(index) if index >= TUPLE_MAX:
                return _ABSENT
            case Polynomial():
                # Names that cannot all be numbers, such as a and a.b, have no sum.
                names = map(Attribute, term.names)
                numbers: dict[Term, Extent] = {name: self.bounded(name, _NUMBERS) for name in names}
                return _ABSENT if _close(numbers, self) is None else _ABSENT | _NUMBERS
            case _:
                return _EVERYTHING


_ENVELOPE_NUMBERS: Final = frozenset({"id", "producer", "sequence"})
_ENVELOPE: Final = {
    "id": Extent.of_kinds(Kind.ABSENT, Kind.NULL, Kind.STRING, Kind.NUMBER),
    "producer": Extent.of_kinds(Kind.ABSENT, Kind.NULL, Kind.STRING, Kind.NUMBER),
    "sequence": Extent.of_kinds(Kind.ABSENT, Kind.NULL, Kind.NUMBER),
    "time": Extent.of_kinds(Kind.ABSENT, Kind.NULL, Kind.TIME),
    "tuple": ~Extent.of_kinds(Kind.SET, Kind.ARRAY),
}
"""The extents that a notification ensures for the attributes that have a meaning of their own."""


class Conjunction:
    """A conjunctive filter after folding: one extent per term, and the literals that have none."""

    __slots__ = ("_closed", "_hash", "extents", "literals")

    def __init__(self, extents: Mapping[Term, Extent], literals: Iterable[Literal] = ()) -> None:
        self.extents = dict(extents)
        self.literals = tuple(dict.fromkeys(literals))
        self._closed: dict[Term, Extent] | bool | None = False
        self._hash: int | None = None

    def __and__(self, other: Conjunction) -> Conjunction:
        extents = dict(self.extents)
        for term, extent in other.extents.items():
            extents[term] = extents[term] & extent if term in extents else extent
        return Conjunction(extents, self.literals + other.literals)

    def with_extent(self, term: Term, extent: Extent) -> Conjunction:
        """The same, with the extent of one term replaced."""
        return Conjunction({**self.extents, term: extent}, self.literals)

    def closed(self, universe: Universe) -> dict[Term, Extent] | None:
        """The extents with all that follows from them made explicit, or None where they contradict."""
        if self._closed is False:
            self._closed = _close(self._stated(universe), universe)
        return self._closed  # type: ignore[return-value]

    def _stated(self, universe: Universe) -> dict[Term, Extent]:
        stated = {term: universe.bounded(term, extent) for term, extent in self.extents.items()}
        for literal in self.literals:
            if literal.positive and isinstance(literal.leaf, Constraint) and literal.leaf.op is Op.EXTENDED:
                term = literal.leaf.term
                stated[term] = stated.get(term, universe.extent(term)) & _operator_kinds(literal.leaf)
        return stated

    def projection(self, term: Term, universe: Universe) -> Extent:
        """The possible values of a term in matching notifications; empty if the conjunction contradicts itself."""
        closed = self.closed(universe)
        if closed is None:
            return Extent({})
        if term in closed:
            return closed[term]
        if not _related(term, closed):
            return universe.extent(term)
        wider = _close({**closed, term: universe.extent(term)}, universe)
        return Extent({}) if wider is None else wider[term]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Conjunction)
            and self.extents == other.extents
            and set(self.literals) == set(other.literals)
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((frozenset(self.extents.items()), frozenset(self.literals)))
        return self._hash

    def __repr__(self) -> str:
        return f"Conjunction({self.extents!r}, {self.literals!r})"


def _operator_kinds(constraint: Constraint) -> Extent:
    return Extent.of_kinds(*operator_named(constraint.operand.operator).kinds)


# -- what follows from what --------------------------------------------------------------------------------


def _holder(term: Term) -> tuple[Attribute, Extent] | None:
    """The attribute that must be there, and of which kinds, for the term to have a value."""
    match term:
        case Attribute(name) if "." in name:
            above, _, step = name.rpartition(".")
            return Attribute(above), _RECORDS if step.startswith("_") else _HOLDERS
        case Inspector(name, _):
            return Attribute(name), Extent.of_kinds(Kind.OBJECT)
        case Position() | Length():
            return _TUPLE, Extent.of_kinds(Kind.TUPLE)
    return None


def holders_of(term: Term) -> Iterator[Attribute]:
    """The terms that must be there for a term to have a value, from the nearest outwards."""
    held = _holder(term)
    while held is not None:
        yield held[0]
        held = _holder(held[0])


def _related(term: Term, extents: Mapping[Term, Extent]) -> bool:
    """Whether the extents of other terms can bear on a term."""
    match term:
        case Attribute(name):
            return name == "tuple" or any(
                isinstance(other, Inspector | Polynomial | Position | Length)
                or (isinstance(other, Attribute) and _kin(name, other.name))
                for other in extents
            )
        case Polynomial():
            return False
    return True


def _kin(one: str, other: str) -> bool:
    return one.startswith(f"{other}.") or other.startswith(f"{one}.")


def _close(stated: Mapping[Term, Extent], universe: Universe) -> dict[Term, Extent] | None:
    """The extents with what follows from them, or None where a term has no value left."""
    if not any(map(depends, stated)):  # the common case: plain names have nothing to do with each other
        return None if any(extent.is_empty() for extent in stated.values()) else dict(stated)
    closure = Closure(stated, universe)
    return closure.extents if closure.settle(list(closure.extents)) else None


class Closure:
    """Extents whose consequences are drawn along the forest of terms, and that can be narrowed further."""

    __slots__ = ("_below", "_universe", "extents")

    def __init__(self, stated: Mapping[Term, Extent], universe: Universe) -> None:
        self._universe = universe
        self.extents = dict(stated)
        for holder in {holder for term in stated for holder in holders_of(term)}:
            # What is said of a reaches a.b.c by way of a.b.
            self.extents.setdefault(holder, universe.extent(holder))
        self._below: dict[Term, list[Term]] = {}
        for term in self.extents:
            self._index(term)

    def narrow(self, term: Term, extent: Extent) -> bool:
        """Take away what is not in the extent, and what follows from that; False where nothing is left."""
        self.extents[term] = self.extents[term] & extent
        return self.settle([term])

    def settle(self, pending: list[Term]) -> bool:
        """Draw the consequences of the pending terms until nothing changes; False where nothing is left."""
        while pending:
            term = pending.pop()
            if self.extents[term].is_empty():
                return False
            for other, bound in self._consequences(term):
                known = self.extents.get(other)
                before = self._universe.extent(other) if known is None else known
                if bound.covers(before):
                    continue
                self.extents[other] = before & bound
                if known is None:
                    self._index(other)
                pending.append(other)
        return True

    def _index(self, term: Term) -> None:
        held = _holder(term)
        if held is not None:
            self._below.setdefault(held[0], []).append(term)

    def _consequences(self, term: Term) -> Iterator[tuple[Term, Extent]]:
        """The consequences of the extent of one term for others."""
        extent = self.extents[term]
        present = not extent.allows(Kind.ABSENT)
        held = _holder(term)
        if held is not None:
            holder, kinds = held
            if present:
                yield holder, kinds
            elif (above := self.extents.get(holder)) is not None and (above & kinds).is_empty():
                yield term, _ABSENT
        match term:
            case Attribute():
                yield from self._of_holder(term, extent)
            case Polynomial() if present:
                yield from ((Attribute(name), _NUMBERS) for name in term.names)
            case Position(index):
                if present:
                    yield _LENGTH, _lengths(index + 1)
                elif extent == _ABSENT:
                    yield _LENGTH, _ABSENT | _lengths(0, index)
                yield from _of_lengths(self.extents.get(_LENGTH, self._universe.extent(_LENGTH)), (term,))
            case Length():
                below = self._below.get(_TUPLE, ())
                yield from _of_lengths(extent, [other for other in below if isinstance(other, Position)])
                if extent == _ABSENT:
                    yield _TUPLE, ~Extent.of_kinds(Kind.TUPLE)

    def _of_holder(self, term: Attribute, extent: Extent) -> Iterator[tuple[Term, Extent]]:
        """The consequences for what is under a name: nothing, if it cannot hold anything; a length, if it is
        a tuple.
        """
        for other in list(self._below.get(term, ())):
            held = _holder(other)
            if held is not None and (extent & held[1]).is_empty():
                yield other, _ABSENT
        if term.name == "tuple" and list(extent.pieces) == [Kind.TUPLE]:
            yield _LENGTH, _lengths(0)


def depends(term: Term) -> bool:
    """Whether the term can have anything to do with other terms."""
    return not isinstance(term, Attribute) or "." in term.name or term.name == "tuple"


def _of_lengths(lengths: Extent, positions: Iterable[Position]) -> Iterator[tuple[Term, Extent]]:
    """Positions beyond the tuple's length are absent, those within it are not."""
    for position in positions:
        if (lengths & _lengths(position.index + 1)).is_empty():
            yield position, _ABSENT
        elif _lengths(position.index + 1).covers(lengths):
            yield position, PRESENT


# -- from filters to conjunctions --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Normaliser:
    """Breaks filters up into conjunctions, over one universe."""

    universe: Universe

    def conjunctions(self, filter: Filter) -> tuple[Conjunction, ...]:
        """The conjunctions whose disjunction the filter is; none that contradicts itself plainly."""
        return tuple(
            conjunction
            for conjunction in self._alternatives(filter, True)
            if conjunction.closed(self.universe) is not None
        )

    def _alternatives(self, node: Filter, positive: bool) -> list[Conjunction]:
        match node:
            case Not(part):
                return self._alternatives(part, not positive)
            case And(parts) | Or(parts):
                sides = (self._alternatives(part, positive) for part in parts)
                return _all_of(sides) if isinstance(node, And) == positive else _any_of(sides)
            case Constraint():
                return self._leaf(node, positive)
            case Tested():
                return [Conjunction({}, (Literal(node, positive),))]
        raise AssertionError(f"no normal form for {type(node).__name__}")

    def _leaf(self, constraint: Constraint, positive: bool) -> list[Conjunction]:
        if constraint.op is Op.EXTENDED:
            return [Conjunction({}, (Literal(constraint, positive),))]
        if isinstance(constraint.term, Selection):
            if constraint.term.path.is_empty():  # such as //a/notification: the root is nowhere else
                return [Conjunction({})] if constraint.holds(0) is positive else []
            if is_path_filter(constraint) and isinstance(constraint.term.condition, Or):
                # Some element meets one of several conditions iff one of them is met by some element.
                parts = (
                    replace(constraint, term=replace(constraint.term, condition=part))
                    for part in constraint.term.condition.parts
                )
                return self._alternatives(Or.of(parts), positive)
            return [Conjunction({}, (_count_literal(constraint, positive),))]
        extent = extent_of(constraint, discrete=self.universe.discrete(constraint.term))
        if not positive:
            extent = ~extent
        return [] if extent.is_empty() else [Conjunction({constraint.term: extent})]


def _count_literal(constraint: Constraint, positive: bool) -> Literal:
    """A path filter or its negation; a count is always there, so its negation is the opposite comparison."""
    compares = list(extent_of(constraint, discrete=True).pieces) == [Kind.NUMBER]
    if positive or not compares or constraint.op not in NEGATION:
        return Literal(constraint, positive)
    return Literal(Constraint(constraint.term, NEGATION[constraint.op], constraint.operand))


def _any_of(sides: Iterable[list[Conjunction]]) -> list[Conjunction]:
    """`or`: all alternatives, those on one and the same single term joined into one."""
    single: dict[Any, list[Extent]] = {}
    found: list[Conjunction] = []
    for side in sides:
        for conjunction in side:
            if len(conjunction.extents) == 1 and not conjunction.literals:
                [(term, extent)] = conjunction.extents.items()
                single.setdefault(term, []).append(extent)
            else:
                found.append(conjunction)
    found.extend(Conjunction({term: union(extents)}) for term, extents in single.items())
    distinct = list(dict.fromkeys(found))
    _bound(len(distinct))
    return distinct


def _all_of(sides: Iterable[list[Conjunction]]) -> list[Conjunction]:
    """`and`: what has one alternative is met first, so that contradictions cut the product early."""
    listed = list(sides)
    stated: dict[Term, list[Extent]] = {}
    literals: list[Literal] = []
    for [only] in (side for side in listed if len(side) == 1):
        literals += only.literals
        for term, extent in only.extents.items():
            stated.setdefault(term, []).append(extent)
    folded = {term: meet(extents) for term, extents in stated.items()}

    def product(left: list[Conjunction], right: list[Conjunction]) -> list[Conjunction]:
        _bound(len(left) * len(right))
        joined = (one & other for one in left for other in right)
        return list(dict.fromkeys(c for c in joined if not _plainly_empty(c)))

    several = sorted((side for side in listed if len(side) != 1), key=len)
    return reduce(product, several, [c for c in [Conjunction(folded, literals)] if not _plainly_empty(c)])


def _plainly_empty(conjunction: Conjunction) -> bool:
    return any(extent.is_empty() for extent in conjunction.extents.values())


def _bound(size: int) -> None:
    if size > CONJUNCTIONS_MAX:
        raise Undecided(f"a filter of more than {CONJUNCTIONS_MAX} conjunctions")
