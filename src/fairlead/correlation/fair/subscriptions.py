"""Subscriptions: disjunctions of conjunctions of predicates over T[i].a (FAIDECS 4.1), and what they mean (4.2).

    Instance       T[i]             an event of type T; a predicate that asks for nothing else
    Restriction    T[i](filter)     a unary predicate: an ordinary filter, which matching engines can evaluate
    Comparison     T[i].a < U[j].b  a binary predicate, or a unary one where both sides are the same instance

Conjunctions and subscriptions are kept in one form: predicates sorted, each once, comparisons with the smaller
side to the left. So two that differ only in how they were written are equal, and the order that the paper assumes
on predicates and conjunctions is the order of names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, total_ordering
from types import MappingProxyType
from typing import Final, TypeAlias

from fairlead.correlation.reading import NAMELESS
from fairlead.errors import FilterError
from fairlead.filters import EVERYTHING, And, Attribute, Constraint, Filter, Op
from fairlead.filters.constraint import compare
from fairlead.filters.printing import text_of
from fairlead.model import Notification, check_name, value_of

__all__ = [
    "INSTANCES_MAX",
    "TYPE",
    "UNNAMED",
    "Comparison",
    "Conjunction",
    "Instance",
    "Predicate",
    "Reference",
    "Restriction",
    "Subscription",
]

TYPE: Final = "type"
"""The attribute that holds a notification's type."""

UNNAMED: Final = "relation"
"""The name of a subscription without one: the type of what it delivers."""

INSTANCES_MAX: Final = 100
"""The number of events a relation may be made of."""

MIRRORED: Final = {
    Op.EQ: Op.EQ,
    Op.NE: Op.NE,
    Op.LT: Op.GT,
    Op.GT: Op.LT,
    Op.LE: Op.GE,
    Op.GE: Op.LE,
}
"""The operators of comparisons, with what they are when the sides change slots."""


@dataclass(frozen=True, slots=True, order=True)
class Instance:
    """T[i]: the i-th event of type T in a relation, counted from 1. T[i] requires T[1] to T[i-1] as well."""

    type: str
    index: int = 1

    def __post_init__(self) -> None:
        if not self.type:
            raise FilterError("a type without a name")
        value_of(self.type)
        if self.index < 1:
            raise FilterError(
                f"there is no {self.type}[{self.index}]", hint=f"the first instance is {self.type}[1]"
            )
        if self.index > INSTANCES_MAX:
            raise FilterError(f"a relation has at most {INSTANCES_MAX} events: {self.type}[{self.index}]")

    def holds(self, relation: Sequence[Notification]) -> bool:
        """True: the signature requires the type already (FAIDECS 4.2)."""
        return True

    def event(self, relation: Sequence[Notification]) -> Notification | None:
        """The event of this instance in a relation, if there is one."""
        types = [event.get(TYPE) for event in relation]
        if self.type not in types:
            return None
        slot = types.index(self.type) + self.index - 1
        return relation[slot] if slot < len(types) and types[slot] == self.type else None


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """T[i].a: an attribute of an instance."""

    instance: Instance
    name: str

    def __post_init__(self) -> None:
        check_name(self.name)


@dataclass(frozen=True, slots=True)
class Restriction:
    """A filter that one instance has to match."""

    instance: Instance
    filter: Filter

    def holds(self, relation: Sequence[Notification]) -> bool:
        """Whether the instance is there and matches."""
        event = self.instance.event(relation)
        return event is not None and self.filter.matches(event)


@total_ordering
@dataclass(frozen=True, slots=True)
class Comparison:
    """Two attributes compared. As with filters, what is absent or of another kind compares with nothing."""

    left: Reference
    op: Op
    right: Reference

    def __post_init__(self) -> None:
        if self.op not in MIRRORED:
            raise FilterError(f"{self.op.value!r} does not compare two attributes")
        if self.left == self.right:
            raise FilterError("an attribute is compared with itself", hint="T[1](exists a) requires it")
        if self.right < self.left:
            left, right = self.right, self.left
            object.__setattr__(self, "op", MIRRORED[self.op])
            object.__setattr__(self, "left", left)
            object.__setattr__(self, "right", right)

    @property
    def is_unary(self) -> bool:
        """Whether both sides belong to one event."""
        return self.left.instance == self.right.instance

    def holds(self, relation: Sequence[Notification]) -> bool:
        """Whether both instances are there and satisfy the comparison."""
        left, right = self.left.instance.event(relation), self.right.instance.event(relation)
        if left is None or right is None:
            return False
        return compare(self.op, left.get(self.left.name), right.get(self.right.name))

    def __lt__(self, other: Comparison) -> bool:
        return (self.left, self.right, self.op.value) < (other.left, other.right, other.op.value)


Predicate: TypeAlias = Instance | Restriction | Comparison


@dataclass(frozen=True)
class Conjunction:
    """Predicates that hold together. `Conjunction.of` makes one, in the one form that equal ones have."""

    counts: tuple[tuple[str, int], ...]
    """The types in order, each with the number of its instances."""
    restrictions: tuple[Restriction, ...] = ()
    """At most one for each instance."""
    comparisons: tuple[Comparison, ...] = ()

    @classmethod
    def of(cls, predicates: Iterable[Predicate]) -> Conjunction:
        """The conjunction of predicates in any order; ⊤ is the one that is left out."""
        counts: dict[str, int] = {}
        filters: dict[Instance, list[Filter]] = {}
        comparisons: set[Comparison] = set()
        for predicate in predicates:
            match predicate:
                case Instance():
                    mentioned = [predicate]
                case Restriction(instance, filter):
                    mentioned = [instance]
                    filters.setdefault(instance, []).append(filter)
                case Comparison(left, _, right):
                    mentioned = [left.instance, right.instance]
                    comparisons.add(predicate)
            for instance in mentioned:
                counts[instance.type] = max(counts.get(instance.type, 0), instance.index)
        if not counts:
            raise FilterError(
                "a conjunction without a type would be delivered without an event",
                hint="name a type, such as StockQuote",
            )
        if sum(counts.values()) > INSTANCES_MAX:
            raise FilterError(f"a relation has at most {INSTANCES_MAX} events")
        restrictions = [(instance, _joined(parts)) for instance, parts in sorted(filters.items())]
        return cls(
            tuple(sorted(counts.items())),
            tuple(Restriction(*each) for each in restrictions if each[1] != EVERYTHING),
            tuple(sorted(comparisons)),
        )

    @cached_property
    def instances(self) -> tuple[Instance, ...]:
        """The slots of a relation, in order."""
        return tuple(Instance(type, i) for type, count in self.counts for i in range(1, count + 1))

    @property
    def signature(self) -> tuple[str, ...]:
        """T(Φ): the type of each event of a relation, in order (FAIDECS 4.2)."""
        return tuple(instance.type for instance in self.instances)

    @cached_property
    def filters(self) -> Mapping[Instance, Filter]:
        """For each slot the filter of its events, type included: for a matching engine."""
        unary = {each.instance: each.filter for each in self.restrictions}
        return MappingProxyType(
            {
                instance: And.of(
                    (Constraint(Attribute(TYPE), Op.EQ, instance.type), unary.get(instance, EVERYTHING))
                )
                for instance in self.instances
            }
        )

    @cached_property
    def components(self) -> tuple[Conjunction, ...]:
        """The smallest conjunctions over disjoint types that it is made of, in order."""
        group = {type: {type} for type, _ in self.counts}
        for each in self.comparisons:
            one, other = group[each.left.instance.type], group[each.right.instance.type]
            if one is not other:
                one |= other
                group.update(dict.fromkeys(other, one))
        distinct = {id(types): types for types in group.values()}
        return tuple(self._over(types) for types in distinct.values())

    def _over(self, types: set[str]) -> Conjunction:
        return Conjunction(
            tuple(each for each in self.counts if each[0] in types),
            tuple(each for each in self.restrictions if each.instance.type in types),
            tuple(each for each in self.comparisons if each.left.instance.type in types),
        )

    def holds(self, relation: Sequence[Notification]) -> bool:
        """Φ[e1, …, en]: whether all predicates hold on a relation (FAIDECS 4.2)."""
        return all(each.holds(relation) for each in self.predicates)

    def admits(self, relation: Sequence[Notification]) -> bool:
        """Whether a relation may be delivered: it has the signature, and all predicates hold (admission)."""
        return tuple(event.get(TYPE) for event in relation) == self.signature and self.holds(relation)

    def __and__(self, other: Conjunction) -> Conjunction:
        return Conjunction.of((*self.predicates, *other.predicates))

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        """Predicates that it is the conjunction of."""
        last = (Instance(*each) for each in self.counts)
        return (*last, *self.restrictions, *self.comparisons)

    @cached_property
    def text(self) -> str:
        """The canonical text, by which relations are distinguished."""
        return text_of(self)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Subscription:
    """Alternatives, each once and in order. `Subscription.of` makes one from conjunctions in any order."""

    conjunctions: tuple[Conjunction, ...]
    name: str = UNNAMED
    """The `type` of its relations; those of one with a name of its own are public."""

    def __post_init__(self) -> None:
        if not self.name:
            raise FilterError("an empty name")
        if self.name in NAMELESS and self.name != UNNAMED:
            raise FilterError(f"{self.name} is the type of unnamed detections", hint="name it otherwise")
        value_of(self.name)

    @classmethod
    def of(cls, conjunctions: Iterable[Conjunction], name: str = UNNAMED) -> Subscription:
        """The disjunction of conjunctions, without identical ones (FAIDECS 4.1)."""
        distinct = {str(each): each for each in conjunctions}
        if not distinct:
            raise FilterError("a subscription has at least one conjunction")
        return cls(tuple(distinct[text] for text in sorted(distinct)), name)

    @property
    def is_public(self) -> bool:
        """Whether its relations are public: it has a name by which others can subscribe to them."""
        return self.name != UNNAMED

    @cached_property
    def signature(self) -> tuple[str, ...]:
        """T(Ψ): the in-order union of the conjunctions' signatures."""
        counts: dict[str, int] = {}
        for type, count in (each for conjunction in self.conjunctions for each in conjunction.counts):
            counts[type] = max(counts.get(type, 0), count)
        return tuple(type for type, count in sorted(counts.items()) for _ in range(count))

    def holds(self, relation: Sequence[Notification]) -> bool:
        """Ψ[e1, …, en]: whether some conjunction holds on a relation."""
        return any(conjunction.holds(relation) for conjunction in self.conjunctions)

    def __or__(self, other: Subscription) -> Subscription:
        """The disjunction of both: another one, which has no name."""
        return Subscription.of((*self.conjunctions, *other.conjunctions))

    def __str__(self) -> str:
        return text_of(self)


def _joined(filters: Sequence[Filter]) -> Filter:
    """The conjunction of filters on one instance: flat, each part once, in the order of their texts."""
    joined = And.of(filters)
    parts = joined.parts if isinstance(joined, And) else (joined,)
    distinct = {str(part): part for part in parts}
    return And.of(distinct[text] for text in sorted(distinct))
