"""Bad input to scopes: each a clear error or a settled outcome, and nothing is lost."""

from __future__ import annotations

import re

import pytest

from fairlead.bus import Bus
from fairlead.errors import FairleadError, ScopeError
from fairlead.model import Instant
from fairlead.scopes import Scopes


def ids(subscription: object) -> list[str]:
    return sorted(str(subscription.get(0).id) for _ in range(len(subscription)))  # type: ignore[attr-defined, arg-type]


def test_a_cycle_is_refused_where_it_is_defined_and_where_a_change_would_close_it() -> None:
    two = "DEFINE SCOPE A AS SUPERSCOPE ALL FROM B; DEFINE SCOPE B AS SUPERSCOPE ALL FROM A"
    with pytest.raises(ScopeError, match="B in A in B"):
        Scopes.parse(two)
    bus = Bus(scopes=Scopes.parse("DEFINE SCOPE A AS ALL FROM B; DEFINE SCOPE B AS ALL FROM c"))
    with pytest.raises(ScopeError, match=re.escape("in B in A")):
        bus.scopes.alter("JOIN A TO B")
    assert bus.scopes.graph.visible("c", "A")


def test_a_component_in_no_scope_sees_and_reaches_only_itself() -> None:
    bus = Bus(scopes=Scopes.parse("DEFINE COMPONENT lone AS SET x = 1; DEFINE SCOPE S AS ALL FROM a"))
    lone, a = bus.component("lone").subscribe("true"), bus.component("a").subscribe("true")
    bus.component("lone").publish({"id": "1"})
    bus.component("a").publish({"id": "2"})
    assert (ids(lone), ids(a)) == (["1"], ["2"])


@pytest.mark.parametrize("given", ["x >", "x in [3, 1", "= 3"])
def test_an_interface_that_is_no_filter_is_shown_where_it_stands(given: str) -> None:
    with pytest.raises(FairleadError, match="line 2, column"):
        Scopes.parse(f"DEFINE SCOPE S AS ALL FROM a\n  INTERFACES INPUT({given}), OUTPUT(1)")


@pytest.mark.parametrize("function", ["json:loads", "builtins:len", "builtins:str"])
def test_a_mapping_that_raises_or_makes_no_notification_lets_nothing_pass_and_is_counted(
    function: str,
) -> None:
    text = f"""
    DEFINE SCOPE Outer AS ALL FROM Inner, out
    DEFINE SCOPE Inner AS ALL FROM a, b INTERFACES INPUT(0), OUTPUT(1) MAP OUTWARD {function}
    """
    bus = Bus(scopes=Scopes.parse(text))
    inside, outside = bus.component("b").subscribe("true"), bus.component("out").subscribe("true")
    bus.component("a").publish({"x": 1})
    assert (len(inside), len(outside), bus.statistics().errors) == (1, 0, 1)


def test_a_scope_that_goes_while_messages_are_under_way_judges_those_that_were_before() -> None:
    bus = Bus(scopes=Scopes.parse("DEFINE SCOPE S AS ALL FROM a, b"), order="ordered", lateness_us=100)
    b = bus.component("b").subscribe('type = "x"')
    bus.component("a").publish({"id": "before", "type": "x", "time": Instant(10)})
    bus.scopes.alter("DROP SCOPE S SINCE 20")
    bus.component("a").publish({"id": "after", "type": "x", "time": Instant(30)})
    bus.component("a").publish({"id": "overtaken", "type": "x", "time": Instant(15)})
    bus.close()
    assert ids(b) == ["before", "overtaken"]


def test_the_members_of_a_scope_that_is_gone_are_in_no_other_scope() -> None:
    bus = Bus(scopes=Scopes.parse("DEFINE SCOPE S AS ALL FROM a, b"))
    stranger, b = bus.component("stranger").subscribe("exists x"), bus.component("b").subscribe("exists x")
    bus.scopes.drop("S")
    bus.component("a").publish({"x": 1})
    assert (len(stranger), len(b)) == (0, 0)


def test_two_administrators_who_change_the_same_scope_get_one_outcome_whoever_is_first() -> None:
    outcomes = []
    changes = ("DROP SCOPE S SINCE 20", "JOIN c TO S SINCE 10", "LEAVE b FROM S SINCE 15")
    for order in (changes, changes[::-1]):
        bus = Bus(scopes=Scopes.parse("DEFINE SCOPE S AS ALL FROM a, b"), order="ordered", lateness_us=100)
        found = {name: bus.component(name).subscribe('type = "x"') for name in ("b", "c")}
        for change in order:
            bus.scopes.alter(change)
        for time in (5, 12, 17, 25):
            bus.component("a").publish({"id": str(time), "type": "x", "time": Instant(time)})
        bus.close()
        outcomes.append({name: ids(each) for name, each in found.items()})
    assert outcomes[0] == outcomes[1] == {"b": ["12", "5"], "c": ["12", "17"]}
