"""F covers G iff every notification that matches G matches F: sound over the whole language."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import laws
from fairlead.filters import Filter
from fairlead.filters.schema import Schema
from fairlead.model import Notification
from fairlead.testing import filters, notifications, schemas

EVERY = {"templates": True, "paths": True, "polynomials": True, "methods": True, "extensions": True}
SEEN = {"templates": True, "paths": True, "methods": True}

anything = filters(**EVERY)
observed = st.lists(notifications(**SEEN), min_size=1, max_size=8)
attributes = filters()


@given(anything, anything, observed)
def test_f_covers_g_means_every_match_of_g_matches_f(
    one: Filter, other: Filter, seen: list[Notification]
) -> None:
    laws.covering(one, other, seen)
    laws.covering(one | other, other, seen)
    laws.covering(one, one & other, seen)


@given(attributes, attributes, st.lists(notifications(), min_size=1, max_size=8), schemas())
def test_under_a_schema_f_covers_g_means_every_admitted_match_of_g_matches_f(
    one: Filter, other: Filter, seen: list[Notification], schema: Schema
) -> None:
    laws.covering(one, other, seen, schema)
    laws.identity(one, other, seen, schema)
    laws.disjointness(one, other, seen, schema)


@given(anything)
def test_every_filter_covers_itself(one: Filter) -> None:
    laws.reflexivity(one)


@given(anything, anything, observed)
def test_identical_filters_match_the_same(one: Filter, other: Filter, seen: list[Notification]) -> None:
    laws.identity(one, other, seen)
    laws.identity(~(one | other), ~one & ~other, seen)
