"""simplify(F) is identical to F, and says with one constraint what several said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laws
from fairlead.filters import NOTHING, Filter, parse, simplify
from fairlead.filters.schema import Schema
from fairlead.model import Notification
from fairlead.testing import filters, notifications, schemas

anything = filters(templates=True, paths=True, polynomials=True, methods=True, extensions=True)
observed = st.lists(notifications(templates=True, paths=True, methods=True), min_size=1, max_size=8)
INTS = Schema(attributes={"x": "int"})


@given(anything, observed)
def test_simplifying_keeps_the_meaning(one: Filter, seen: list[Notification]) -> None:
    laws.simplifying(one, seen)


@given(filters(), st.lists(notifications(), min_size=1, max_size=8), schemas())
def test_simplifying_under_a_schema_keeps_the_meaning(
    one: Filter, seen: list[Notification], schema: Schema
) -> None:
    laws.simplifying(one, seen, schema)


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("x >= 3 and x <= 5", "x in [3, 5]"),
        ("x in [3, 7] and x in [5, 8]", "x in [5, 7]"),
        ("a = 1 or a = 2", "a in {1, 2}"),
        ("x > 3 and x < 3", "false"),
        ("x > 5 and x < 5", "false"),
        ('x = 1 and x = "1"', "false"),
        ("x < 4 or x > 7", "x not in [4, 7]"),
        ("x != 1 and x != 2", "x not in {1, 2}"),
        ("x in {1, 2, 3} and x != 2", "x in {1, 3}"),
        ("x in {1, 5} and x > 2", "x = 5"),
        ("not (not (x = 1))", "x = 1"),
        ("not (x = 5)", "not x = 5"),
        ("exists x and not x = 5 and x is number", "x != 5"),
        ('s prefix "a" and s prefix "ab"', 's prefix "ab"'),
        ('s prefix "a" and s prefix "b"', "false"),
        ('s = "ab" and s suffix "b"', 's = "ab"'),
        ('tags superset {"a"} and tags contains "b"', 'tags superset {"a", "b"}'),
        ("absent position and position.x = 1", "false"),
        ("x = true or x = false", "x is boolean"),
        ("true and x = 1", "x = 1"),
        ("true or x = 1", "true"),
        ("false or x = 1", "x = 1"),
    ],
)
def test_constraints_on_one_attribute_become_one(text: str, simple: str) -> None:
    assert simplify(parse(text)) == parse(simple)


def test_whole_numbers_fold_further() -> None:
    assert simplify(parse("x > 3 and x < 5"), INTS) == parse("x = 4")
    assert simplify(parse("x = 1 or x = 2 or x = 3"), INTS) == parse("x in [1, 3]")
    assert simplify(parse("x > 3 and x < 4"), INTS) == NOTHING
    assert simplify(parse("x = 5 or x != 5"), INTS) == parse("exists x")
