"""F overlaps G iff some notification matches both: symmetric, and `disjoint` is certain."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import laws
from fairlead.filters import Filter, overlaps
from fairlead.model import Notification
from fairlead.testing import filters, notifications

anything = filters(templates=True, paths=True, polynomials=True, methods=True, extensions=True)
observed = st.lists(notifications(templates=True, paths=True, methods=True), min_size=1, max_size=8)


@given(anything, anything)
def test_overlap_is_symmetric(one: Filter, other: Filter) -> None:
    laws.symmetry(one, other)


@given(anything, anything, observed)
def test_disjoint_means_that_no_notification_matches_both(
    one: Filter, other: Filter, seen: list[Notification]
) -> None:
    laws.disjointness(one, other, seen)
    laws.disjointness(one & other, ~one, seen)


@given(filters())
def test_a_filter_and_its_negation_are_disjoint(one: Filter) -> None:
    assert not overlaps(one, ~one)
