"""The laws of the algebra, each a function that fails where the law is broken.

The tests draw the arguments with Hypothesis, and try on broken algebras whether the laws see the break. Every
law takes the schema under which the filters are compared; notifications that it does not admit say nothing.

    covering, disjointness, identity    sound everywhere: what they claim holds for each notification
    reflexivity, symmetry               everywhere
    completeness                        a witness shows whatever a relation denies; where relations are exact
    transitivity, antisymmetry          likewise
    normalising, simplifying, merging   keep the meaning
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairlead.errors import ValueRefused
from fairlead.filters.algebra import algebra_for, covers, identical, overlaps, relate, witness
from fairlead.filters.constraint import Constraint, TypeName
from fairlead.filters.extents.extent import extent_of
from fairlead.filters.filter import And, Filter, Or, leaves
from fairlead.filters.language import parse
from fairlead.filters.merging import Merger, merge
from fairlead.filters.paths import Selection
from fairlead.filters.schema import Schema
from fairlead.filters.simplify import simplify
from fairlead.model import Notification, Value

__all__ = [
    "antisymmetry",
    "completeness",
    "covering",
    "disjointness",
    "exactness",
    "extents",
    "identity",
    "merging",
    "normalising",
    "reading",
    "reflexivity",
    "simplifying",
    "symmetry",
    "transitivity",
]


def admitted(notifications: Iterable[Notification], schema: Schema | None) -> list[Notification]:
    """The notifications that come through the door of a schema, as it lets them in."""
    found = []
    for notification in notifications:
        try:
            found.append(schema.admit(notification) if schema else notification)
        except ValueRefused:
            continue
    return found


# -- extents ---------------------------------------------------------------------------------------------------


def extents(constraint: Constraint, values: Iterable[Value], *, discrete: bool = False) -> None:
    """The extent of a constraint holds a value, or ABSENT, iff the value satisfies the constraint."""
    extent = extent_of(constraint, discrete=discrete)
    for value in values:
        assert (value in extent) is constraint.holds(value), (str(constraint), value)
    if not extent.is_empty():
        assert constraint.holds(extent.witness()), (str(constraint), extent.witness())


# -- relations: everywhere -------------------------------------------------------------------------------------


def reflexivity(one: Filter, schema: Schema | None = None) -> None:
    """F covers F, and is identical to it."""
    assert covers(one, one, schema)
    assert relate(one, one, schema).name == "identical"


def covering(
    one: Filter, other: Filter, notifications: Iterable[Notification], schema: Schema | None = None
) -> None:
    """F covers G means: every match of G matches F."""
    if covers(one, other, schema):
        for n in admitted(notifications, schema):
            assert one.matches(n) or not other.matches(n), n


def disjointness(
    one: Filter, other: Filter, notifications: Iterable[Notification], schema: Schema | None = None
) -> None:
    """F and G disjoint means: no notification matches both."""
    if not overlaps(one, other, schema):
        for n in admitted(notifications, schema):
            assert not (one.matches(n) and other.matches(n)), n


def identity(
    one: Filter, other: Filter, notifications: Iterable[Notification], schema: Schema | None = None
) -> None:
    """F identical to G means: the same notifications match both."""
    if identical(one, other, schema):
        for n in admitted(notifications, schema):
            assert one.matches(n) is other.matches(n), n


def symmetry(one: Filter, other: Filter, schema: Schema | None = None) -> None:
    """F overlaps G iff G overlaps F; the relation read backwards is the converse relation."""
    assert overlaps(one, other, schema) is overlaps(other, one, schema)
    forth, back = relate(one, other, schema), relate(other, one, schema)
    assert back.name == {"covers": "covered", "covered": "covers"}.get(forth.name, forth.name)
    assert back.exact is forth.exact


# -- relations: where they are exact ---------------------------------------------------------------------------


def completeness(one: Filter, other: Filter, schema: Schema | None = None) -> None:
    """Where F does not cover G, a witness matches G and not F; where they overlap, one matches both."""
    if not covers(one, other, schema):
        beyond = witness(other, but_not=one, schema=schema)
        assert beyond is not None, "nothing shows that it does not cover"
        assert admitted([beyond], schema) == [beyond], beyond
        assert other.matches(beyond), beyond
        assert not one.matches(beyond), beyond
    common = witness(And.of((one, other)), schema=schema)
    assert (common is not None) is overlaps(one, other, schema), common
    if common is not None:
        assert admitted([common], schema) == [common], common
        assert one.matches(common), common
        assert other.matches(common), common


def exactness(one: Filter, other: Filter, schema: Schema | None = None) -> None:
    """`relate` is certain of its answer, and the answer is the closest that holds."""
    relation = relate(one, other, schema)
    assert relation.exact, relation
    forth, back = covers(one, other, schema), covers(other, one, schema)
    expected = {(True, True): "identical", (True, False): "covers", (False, True): "covered"}
    apart = "overlaps" if overlaps(one, other, schema) else "disjoint"
    assert relation.name == expected.get((forth, back), apart)


def transitivity(one: Filter, other: Filter, third: Filter, schema: Schema | None = None) -> None:
    """F covers G and G covers H means: F covers H."""
    if covers(one, other, schema) and covers(other, third, schema):
        assert covers(one, third, schema)


def antisymmetry(one: Filter, other: Filter, schema: Schema | None = None) -> None:
    """F covers G and G covers F iff they are identical."""
    both = covers(one, other, schema) and covers(other, one, schema)
    assert identical(one, other, schema) is both
    assert (relate(one, other, schema).name == "identical") is both


# -- what keeps the meaning ------------------------------------------------------------------------------------


def reading(one: Filter, schema: Schema | None = None) -> None:
    """The text of a filter is read back as the same filter, where its types are known."""
    if schema is not None or not _typed(one):
        assert parse(str(one), schema) == one, str(one)


def _typed(one: Filter) -> bool:
    """Whether the filter, or the condition of a path in it, asks for a type of a schema."""
    return any(
        isinstance(leaf.operand, TypeName)
        or (isinstance(leaf.term, Selection) and _typed(leaf.term.condition))
        for leaf in leaves(one)
        if isinstance(leaf, Constraint)
    )


def normalising(one: Filter, notifications: Iterable[Notification], schema: Schema | None = None) -> None:
    """n matches F iff n matches one of F's conjunctions."""
    normal = algebra_for(schema).normal(one)
    if normal.conjunctions is None:  # too many: the filter is compared by its structure
        return
    for n in admitted(notifications, schema):
        found = any(
            all(term.value(n) in extent for term, extent in conjunction.extents.items())
            and all(literal.filter().matches(n) for literal in conjunction.literals)
            for conjunction in normal.conjunctions
        )
        assert found is one.matches(n), n


def simplifying(one: Filter, notifications: Iterable[Notification], schema: Schema | None = None) -> Filter:
    """simplify(F) is identical to F, matches the same, is simple already, and can be read back."""
    simple = simplify(one, schema)
    assert identical(simple, one, schema), str(simple)
    for n in admitted(notifications, schema):
        assert simple.matches(n) is one.matches(n), (str(simple), n)
    assert identical(simplify(simple, schema), simple, schema)
    reading(simple, schema)
    return simple


def merging(
    filters: Sequence[Filter],
    notifications: Iterable[Notification],
    schema: Schema | None = None,
    *,
    imperfection_max: float = 0.0,
    sample: Sequence[Notification] = (),
) -> Merger | None:
    """A merger covers all that it was made from; a perfect one lets in nothing more, others say how much."""
    merger = merge(filters, schema, imperfection_max=imperfection_max, sample=sample)
    if merger is None:
        return None
    wanted = Or.of(filters)
    for each in filters:
        assert covers(merger.filter, each, schema), str(each)
    assert 0.0 <= merger.imperfection <= max(0.0, imperfection_max)
    if merger.perfect:
        assert merger.imperfection == 0.0
        assert identical(merger.filter, wanted, schema)
    for n in admitted(notifications, schema):
        let_in = merger.filter.matches(n)
        assert let_in or not wanted.matches(n), n
        assert wanted.matches(n) or not (let_in and merger.perfect), n
    reading(merger.filter, schema)
    return merger
