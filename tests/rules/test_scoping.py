"""Scopes as a rule of the seam: the bus delivers to those only who may see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import fairlead as fl
from fairlead.filters import Filter
from fairlead.model import Notification
from fairlead.rules import Route
from fairlead.rules.scoping import Scoping
from fairlead.scopes import ScopeGraph, ScopePlan, System
from fairlead_lab.testing.scopes import event_of, graph_of, graphs, matched_by, publications, subscriptions

CASES = json.loads((Path(__file__).parents[1] / "corpus" / "scopes.json").read_text())["cases"]


def scoping(graph: ScopeGraph) -> Scoping:
    rule = Scoping(fl.Scopes())
    rule._set(System(graph))
    return rule


def supported() -> list[Any]:
    """The cases about deliveries that a rule can decide: without mappings and policies with a state."""
    found = []
    for case in CASES:
        if case["kind"] == "deliver" and "advertisements" not in case:
            try:
                scoping(graph_of(case["graph"]))
            except fl.ScopeError:
                continue
            found.append(pytest.param(case, id=case["name"]))
    return found


@pytest.mark.parametrize("case", supported())
def test_a_bus_delivers_as_the_case_says(case: dict[str, Any]) -> None:
    bus = fl.Bus(rules=[scoping(graph_of(case["graph"]))])
    seen: dict[str, list[str]] = {each["id"]: [] for each in case["publish"]}

    def receiver(name: str) -> Any:
        return lambda notification: seen[notification.id].append(name)

    for name, filters in case["subscriptions"].items():
        receive = receiver(name)
        for id, text in filters.items():
            bus.subscribe(text, receive, subscriber=name, id=f"{name}.{id}")
    for each in case["publish"]:
        bus.publish(event_of(each))
    for id, expected in case["expect"].items():
        if "count" in expected:
            assert len(seen[id]) == expected["count"]
            assert set(seen[id]) <= set(expected["among"])
        else:
            assert set(seen[id]) == set(expected), id


@given(graphs(), publications(), subscriptions())
def test_a_route_is_narrowed_to_those_whom_the_plan_reaches(
    graph: ScopeGraph, n: Notification, asked: dict[str, dict[str, Filter]]
) -> None:
    names = sorted(matched_by(asked)(n))
    route = Route(("b2",), tuple((name, (f"{name}.1",)) for name in names))
    narrowed = scoping(graph).narrow(route, n, "")
    sights = ScopePlan(graph).reach(n, matched_by(asked)).sights
    assert [name for name, _ in narrowed.clients] == sorted({sight.component for sight in sights})
    assert narrowed.neighbours == ("b2",)


def test_a_change_takes_effect_for_what_is_published_after_it() -> None:
    rule = Scoping(fl.Scopes.parse("DEFINE SCOPE S AS ALL FROM x; DEFINE SCOPE T AS ALL FROM y"))
    bus = fl.Bus(rules=[rule])
    seen: list[Any] = []
    bus.subscribe("true", lambda n: seen.append(n.id), subscriber="y")
    bus.publish({"producer": "x", "id": "1"})
    version = rule.version
    rule.alter("JOIN y TO S")
    assert rule.version > version
    bus.publish({"producer": "x", "id": "2"})
    rule.alter("LEAVE y FROM S")
    bus.publish({"producer": "x", "id": "3"})
    assert seen == ["2"]


def test_a_change_that_is_refused_changes_nothing() -> None:
    rule = Scoping(fl.Scopes.parse("DEFINE SCOPE S AS ALL FROM x"))
    with pytest.raises(fl.ScopeError, match="nowhere is not defined"):
        rule.alter("JOIN y TO S; JOIN y TO nowhere")
    assert "y" not in rule.system.graph


def test_components_that_the_graph_does_not_name_are_among_themselves() -> None:
    bus = fl.Bus(rules=[Scoping(fl.Scopes.parse("DEFINE SCOPE S AS ALL FROM x"))])
    seen: list[str] = []
    for name in ("x", "a", "b"):
        bus.subscribe("true", lambda _, name=name: seen.append(name), subscriber=name)
    bus.publish({"producer": "a", "id": "1"})
    assert sorted(seen) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "DEFINE SCOPE T AS; DEFINE SCOPE S AS ALL FROM x SUPERSCOPE ALL FROM T MAP OUTWARD { RENAME a TO b }",
            "map",
        ),
        ("DEFINE SCOPE S AS ALL FROM x INTERNAL POLICY DELAY 3s", "delay"),
        ("DEFINE SCOPE S AS ALL FROM x INTERNAL POLICY ONE BY TURN", "delay, hold or count"),
    ],
)
def test_what_a_rule_cannot_do_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(fl.ScopeError, match=f"a rule cannot.*{complaint}"):
        Scoping(fl.Scopes.parse(text))
