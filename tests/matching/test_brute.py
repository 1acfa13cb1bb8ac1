"""Brute force is the definition: an id is in the answer iff its filter matches the notification."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.filters.language import parse
from fairlead.matching import EngineUnknown, Statistics, engine_named
from fairlead.matching.brute import Brute
from fairlead.model import Notification
from fairlead_lab.matching import ENGINES

FILTERS = st.builds(
    lambda name, op, bound: parse(f"{name} {op} {bound}"),
    st.sampled_from("ab"),
    st.sampled_from(("=", "!=", "<", ">=")),
    st.integers(0, 3),
)
NOTIFICATIONS = st.dictionaries(st.sampled_from("ab"), st.integers(0, 3)).map(Notification.of)


@given(st.lists(FILTERS, max_size=8), st.lists(NOTIFICATIONS, max_size=5), st.sets(st.integers(0, 7)))
def test_the_answer_is_every_filter_that_matches_in_the_order_of_addition(
    filters: list[object], notifications: list[Notification], removed: set[int]
) -> None:
    engine: Brute[int] = Brute()
    for id, filter in enumerate(filters):
        engine.add(id, filter)
    kept = {id: filter for id, filter in enumerate(filters) if id not in removed}
    for id in removed & set(range(len(filters))):
        engine.remove(id)
    expected = [[id for id, filter in kept.items() if filter.matches(n)] for n in notifications]
    assert [engine.match(n) for n in notifications] == expected
    assert engine.match_batch(notifications) == expected
    assert engine.statistics() == Statistics(
        "brute",
        filters=len(kept),
        notifications=2 * len(notifications),
        tests=2 * len(notifications) * len(kept),
        matches=2 * sum(map(len, expected)),
    )


def test_a_filter_that_was_removed_and_added_again_comes_last() -> None:
    engine: Brute[str] = Brute()
    for id in ("a", "b"):
        engine.add(id, parse("true"))
    engine.remove("a")
    engine.add("a", parse("true"))
    assert engine.match(Notification.of({})) == ["b", "a"]


def test_an_id_that_is_taken_and_one_that_is_not_there_are_errors() -> None:
    engine: Brute[str] = Brute()
    engine.add("a", parse("n = 1"))
    with pytest.raises(ValueError, match="'a' is taken"):
        engine.add("a", parse("n = 2"))
    with pytest.raises(KeyError):
        engine.remove("b")


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_in_the_table_can_be_made_and_is_new_each_time(name: str) -> None:
    engine, other = engine_named(name), engine_named(name)
    engine.add(1, parse("n = 1"))
    assert engine.match(Notification.of({"n": 1})) == [1]
    assert other.match(Notification.of({"n": 1})) == []
    assert engine.statistics().engine == name


def test_an_unknown_engine_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(EngineUnknown, match=r"no matching engine is named 'x'\n  hint: there is .*brute"):
        engine_named("x")
