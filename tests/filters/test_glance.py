"""Where F covers G, `glance(F)(G)` is true."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.filters import Filter, covers
from fairlead.filters.glance import glance
from fairlead.filters.language import parse
from fairlead.testing import filters

EVERY = {"templates": True, "paths": True, "polynomials": True, "methods": True, "extensions": True}
anything = filters(**EVERY)


@given(anything, anything)
def test_what_covers_is_not_passed_over(one: Filter, other: Filter) -> None:
    for wide, narrow in ((one, other), (one | other, other), (one, one & other), (one, one)):
        assert glance(wide)(narrow) or not covers(wide, narrow)


@given(st.sampled_from(["x > 3", "x exists", 'x = "a"', "x.y = 1", "x absent"]), anything)
def test_what_covers_is_not_passed_over_by_simple_filters(text: str, other: Filter) -> None:
    wide = parse(text.replace("x exists", "exists x").replace("x absent", "absent x"))
    for narrow in (other, wide & other):
        assert glance(wide)(narrow) or not covers(wide, narrow)


@pytest.mark.parametrize(
    ("wide", "narrow", "passed"),
    [
        ('symbol = "IBM"', 'symbol = "SAP" and price > 1', True),
        ("price > 10", 'symbol = "SAP"', True),
        ("price > 10", "price = 9", True),
        ("price > 10", "price = 11", False),
        ("price > 990", "price > 500", True),
        ("price > 990", "price >= 989.5", False),  # near enough to be compared
        ("exists a", "a.b = 1", False),  # a parent is there where a child is
        ("x > 1", "y > 3 and y < 2", False),  # nothing matches it, so everything covers it
    ],
)
def test_most_are_passed_over(wide: str, narrow: str, passed: bool) -> None:
    assert glance(parse(wide))(parse(narrow)) != passed
