"""Normalisation keeps the meaning: n matches F iff n matches one of F's conjunctions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import laws
from fairlead.filters import Filter
from fairlead.filters.schema import Schema
from fairlead.model import Notification
from fairlead.testing import filters, notifications, schemas

anything = filters(templates=True, paths=True, polynomials=True, methods=True, extensions=True, leaves_max=10)
observed = st.lists(notifications(templates=True, paths=True, methods=True), min_size=1, max_size=8)


@given(anything, observed)
def test_a_notification_matches_a_filter_iff_it_matches_one_of_its_conjunctions(
    one: Filter, seen: list[Notification]
) -> None:
    laws.normalising(one, seen)


@given(filters(leaves_max=10), st.lists(notifications(), min_size=1, max_size=8), schemas())
def test_so_it_is_under_a_schema(one: Filter, seen: list[Notification], schema: Schema) -> None:
    laws.normalising(one, seen, schema)
