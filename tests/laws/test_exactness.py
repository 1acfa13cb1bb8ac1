"""Where relations are exact: conjunctions of one built-in constraint per attribute, and beyond.

Stronger than the theory asks: the laws hold for Boolean filters over built-in constraints on attributes and
positions of templates, up to a budget.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import laws
from fairlead.filters import And, Filter
from fairlead.filters.schema import Schema
from fairlead.testing import conjunctions, filters, schemas, templates

DEEP = ("a", "a.b", "a.b.c", "x")
"""Names within names within names."""
ENVELOPE = ("id", "time", "time.x", "tuple", "tuple.x", "sequence")
"""Names that a notification knows something about."""

exact = st.one_of(
    conjunctions(),
    conjunctions(DEEP),
    conjunctions(("x",)),
    st.builds(lambda one, other: And.of((one, other)), templates(), conjunctions(("x", "tuple"))),
)
schema_or_none = st.one_of(st.none(), schemas(), schemas(DEEP))


@given(exact, exact, schema_or_none)
def test_where_f_does_not_cover_g_a_witness_matches_g_and_not_f(
    one: Filter, other: Filter, schema: Schema | None
) -> None:
    laws.completeness(one, other, schema)
    laws.completeness(other, one, schema)


@given(exact, exact, schema_or_none)
def test_relate_is_certain(one: Filter, other: Filter, schema: Schema | None) -> None:
    laws.exactness(one, other, schema)
    laws.symmetry(one, other, schema)


@given(exact, exact, exact, schema_or_none)
def test_covering_is_transitive(one: Filter, other: Filter, third: Filter, schema: Schema | None) -> None:
    for a, b, c in ((one, other, third), (one, other, one & third), (one | other, one, one & third)):
        laws.transitivity(a, b, c, schema)


@given(st.lists(conjunctions(("x",), ("number",)), min_size=3, max_size=6), schema_or_none)
def test_covering_is_transitive_among_many_on_one_attribute(
    some: list[Filter], schema: Schema | None
) -> None:
    for one in some:
        for other in some:
            for third in some:
                laws.transitivity(one, other, third, schema)


@given(exact, exact, schema_or_none)
def test_covering_is_antisymmetric_up_to_identity(one: Filter, other: Filter, schema: Schema | None) -> None:
    laws.antisymmetry(one, other, schema)


@given(filters(DEEP, templates=True), filters(DEEP, templates=True), schema_or_none)
def test_boolean_filters_over_attributes_are_related_exactly(
    one: Filter, other: Filter, schema: Schema | None
) -> None:
    laws.completeness(one, other, schema)
    laws.exactness(one, other, schema)


@given(filters(ENVELOPE, templates=True), filters(ENVELOPE, templates=True))
@settings(max_examples=settings.default.max_examples // 2)
def test_what_every_notification_makes_sure_of_is_known(one: Filter, other: Filter) -> None:
    laws.completeness(one, other)
    laws.exactness(one, other)
