"""Changes of scope graphs over the total order, and the rules that make them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import ScopeError
from fairlead.model import Notification
from fairlead.model.order import OrderKey
from fairlead.scopes import ScopePlan, System, parse_statements
from fairlead.scopes.language.statements import Statement
from fairlead.scopes.rules import Trigger, consequences
from fairlead.scopes.timeline import Timeline

START = """
DEFINE SCOPE A AS ALL FROM x
DEFINE SCOPE B AS ALL FROM y INTERFACES INPUT(1), OUTPUT(1)
DEFINE SCOPE C AS
"""
TEXTS = (
    "JOIN x TO B",
    "JOIN y TO A",
    "JOIN B TO A",
    "JOIN A TO B",
    "JOIN B TO C",
    "LEAVE x FROM A",
    "LEAVE y FROM B",
    "DROP SCOPE C",
    "ALTER SCOPE B INTERFACES OUTPUT(Quote)",
    "ALTER SCOPE A ADD ALL FROM z",
    "DEFINE COMPONENT x AS SET rank = 3",
)


def timeline(text: str = START) -> Timeline:
    return Timeline(System.of(parse_statements(text)))


def statement(text: str) -> Statement:
    [found] = parse_statements(text)
    return found


CHANGES = st.lists(
    st.tuples(st.sampled_from(TEXTS), st.integers(0, 20)), max_size=6, unique_by=lambda change: change[1]
)


@given(CHANGES, st.randoms(use_true_random=False))
def test_it_does_not_matter_in_which_order_changes_arrive(changes, rng) -> None:  # type: ignore[no-untyped-def]
    shuffled = rng.sample(changes, len(changes))
    lines = []
    for order in (changes, shuffled):
        line = timeline()
        for text, time in order:
            line = line.changed(statement(text), OrderKey.first_at(time))
        lines.append(line)
    for time in range(22):
        key = OrderKey(time, "p", None, "1")
        assert lines[0].at(key).graph == lines[1].at(key).graph


@given(CHANGES, st.sampled_from(TEXTS), st.integers(0, 20))
def test_a_change_at_a_key_does_not_alter_anything_below_it(changes, text, time) -> None:  # type: ignore[no-untyped-def]
    line = timeline()
    for each, at in changes:
        line = line.changed(statement(each), OrderKey.first_at(at))
    more = line.changed(statement(text), OrderKey.first_at(time))
    for below in range(time):
        key = OrderKey(below, "p", None, "1")
        assert more.at(key).graph == line.at(key).graph


def test_a_change_that_cannot_be_applied_where_it_stands_is_void_and_keeps_its_reason() -> None:
    line = timeline().changed(statement("JOIN x TO C"), OrderKey.first_at(7))
    assert [change.void for change in line.changes] == [""]
    dropped = line.changed(statement("DROP SCOPE C"), OrderKey.first_at(5))
    assert [bool(change.void) for change in dropped.changes] == [False, True]
    assert "C is not defined" in dropped.changes[1].void
    with pytest.raises(ScopeError, match="C is not defined"):
        line.add(statement("DROP SCOPE C"), OrderKey.first_at(5)).add(
            statement("JOIN y TO C"), OrderKey.first_at(8)
        )


def test_a_change_below_the_watermark_is_moved_to_it() -> None:
    line = timeline().changed(statement("JOIN x TO B"), OrderKey.first_at(3), watermark=10)
    assert line.changes[0].key == OrderKey.first_at(10)
    assert line.changes[0].requested == OrderKey.first_at(3)


def test_since_says_when_a_statement_takes_effect() -> None:
    line = timeline().changed(statement("JOIN x TO B SINCE 5"))
    assert "B" not in line.at(OrderKey(4, "p", None, "1")).graph.superscopes("x")
    assert "B" in line.at(OrderKey(5)).graph.superscopes("x")


def sees(line: Timeline, time: int, publisher: str, name: str) -> bool:
    n = Notification.of({"producer": publisher, "id": "n", "time": time})
    graph = line.at(OrderKey.of(n)).graph
    return any(sight.component == name for sight in ScopePlan(graph).reach(n, lambda _: (name,)).sights)


def test_visibility_is_judged_as_of_publication() -> None:
    line = timeline("DEFINE SCOPE S AS ALL FROM X, Y").changed(
        statement("LEAVE X FROM S"), OrderKey.first_at(5)
    )
    assert sees(line, 4, "X", "Y")
    assert not sees(line, 5, "X", "Y")


SESSION = """
DEFINE SCOPE floor AS ALL FROM a, b, c
DEFINE SCOPE session AS SUPERSCOPE ALL FROM floor
  UPDATE ON pub(n : Call) IF n.size > 3 DO CREATE NOW INCLUDE COMPONENT
DEFINE SCOPE log AS
  UPDATE ON join(*, floor) DO JOIN COMPONENT TO log
DEFINE SCOPE desk AS ALL FROM a SUPERSCOPE ALL FROM floor INTERFACES INPUT(1)
  UPDATE ON pub(n : Quote) DO ALTER SCOPE desk SET last = n.price, rank = component.rank
DEFINE COMPONENT b AS SET rank = 7
DEPLOY floor; DEPLOY log; DEPLOY desk;
"""


def publication(**content: object) -> Notification:
    return Notification.of({"producer": "b", "id": "1", "time": 1, **content})


def test_a_session_scope_is_created_with_the_publisher_in_it_from_right_behind_the_trigger() -> None:
    n = publication(type="Call", size=5)
    line = timeline(SESSION).published(n, OrderKey.of(n))
    assert not line.at(OrderKey.of(n)).graph.is_scope("session#1")
    after = line.at(OrderKey(1, "b", None, "2")).graph
    assert sorted(after.members("session#1")) == ["b"]
    assert sorted(after.superscopes("session#1")) == ["floor", "log"], "who joins the floor is logged"
    again = publication(type="Call", size=9, id="3")
    assert line.published(again, OrderKey.of(again)).latest.graph.is_scope("session#2")


def test_a_condition_decides_whether_a_rule_fires() -> None:
    n = publication(type="Call", size=1)
    assert timeline(SESSION).published(n, OrderKey.of(n)).changes == ()


def test_a_rule_sets_attributes_from_what_triggered_it() -> None:
    n = publication(type="Quote", price=12)
    line = timeline(SESSION).published(n, OrderKey.of(n))
    attributes = line.latest.graph.scope("desk").attributes
    assert (attributes["last"], attributes["rank"]) == (12, 7)
    outside = Notification.of({"producer": "stranger", "id": "1", "type": "Quote", "price": 1})
    assert timeline(SESSION).published(outside, OrderKey.of(outside)).changes == (), (
        "it is not visible in the scope"
    )


def test_a_rule_may_be_triggered_by_what_a_rule_did() -> None:
    system = System.of(parse_statements(SESSION))
    found = consequences(system, Trigger("join", "d", scope="floor"))
    assert [str(type(each).__name__) for each in found] == ["Join"]
    both = SESSION + "ALTER SCOPE log ADD UPDATE ON join(*, log) DO LEAVE COMPONENT FROM log"
    system = System.of(parse_statements(both))
    assert len(consequences(system, Trigger("join", "d", scope="floor"))) == 2


def test_rules_that_trigger_one_another_for_ever_are_cut() -> None:
    endless = """
        DEFINE SCOPE A AS
          UPDATE ON leave(*, B) DO JOIN COMPONENT TO A
          UPDATE ON join(*, B) DO LEAVE COMPONENT FROM A
        DEFINE SCOPE B AS
          UPDATE ON join(*, A) DO JOIN COMPONENT TO B
          UPDATE ON leave(*, A) DO LEAVE COMPONENT FROM B
    """
    with pytest.raises(ScopeError, match="more than 100 times"):
        consequences(System.of(parse_statements(endless)), Trigger("leave", "x", scope="B"))


def test_epochs_are_in_order() -> None:
    line = timeline()
    for time in (9, 3, 5):
        line = line.changed(statement("JOIN x TO B"), OrderKey.first_at(time))
    assert all(one.rank <= other.rank for one, other in pairwise(line.changes))
