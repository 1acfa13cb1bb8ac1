"""The worked cases: graphs of the book's figures and settlements, with their outcomes written down by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead.filters import parse
from fairlead.model.order import order_keys
from fairlead.scopes.plan import ScopePlan
from fairlead.scopes.sights import Sight
from fairlead_lab.scopes.definition import deliveries, delivery_paths, visible
from fairlead_lab.testing.scopes import event_of, graph_of, matched_by

CASES = json.loads((Path(__file__).parents[1] / "corpus" / "scopes.json").read_text())["cases"]


def of_kind(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in CASES if case["kind"] == kind]


@pytest.mark.parametrize("case", of_kind("visible"))
def test_visibility_is_as_the_case_says(case: Mapping[str, Any]) -> None:
    graph = graph_of(case["graph"])
    literal = visible(graph, [name for row in case["expect"] for name in row[:2]])
    for one, other, outcome in case["expect"]:
        assert graph.visible(one, other) is outcome, (one, other)
        assert ((one, other) in literal) is outcome, (one, other)


@pytest.mark.parametrize("case", of_kind("paths"))
def test_delivery_paths_are_as_the_case_says(case: Mapping[str, Any]) -> None:
    found = delivery_paths(graph_of(case["graph"]), *case["between"])
    assert sorted(map(list, found)) == sorted(case["expect"])


def outcome(case: Mapping[str, Any]) -> dict[str, list[Sight]]:
    """What is seen of each publication, in the total order, with the states of policies carried on."""
    plan = ScopePlan(graph_of(case["graph"]))
    filters = {
        name: {id: parse(text) for id, text in each.items()} for name, each in case["subscriptions"].items()
    }
    advertised = {
        name: parse(" or ".join(f"({text})" for text in texts))
        for name, texts in case.get("advertisements", {}).items()
    }
    events = [event_of(each) for each in case["publish"]]
    keys = order_keys(events)
    state: dict[Any, Any] = {}
    seen: dict[str, list[Sight]] = {str(event.id): [] for event in events}
    for key, event in sorted(zip(keys, events, strict=True), key=lambda pair: pair[0].rank):
        reached = plan.reach(
            event, matched_by(filters), key=key, state=state, advertised=advertised.get(event.producer)
        )
        assert not reached.failures
        state.update(reached.changes)
        for sight in reached.sights:
            seen[str(sight.notification.id)].append(sight)
    return seen


def ids_of(case: Mapping[str, Any], sight: Sight) -> list[str]:
    filters = case["subscriptions"][sight.component]
    return sorted(id for id, text in filters.items() if parse(text).matches(sight.notification))


def content_of(sight: Sight) -> dict[str, Any]:
    return {k: v for k, v in sight.notification.attributes.items() if k not in ("id", "producer", "time")}


@pytest.mark.parametrize("case", of_kind("deliver"))
def test_deliveries_are_as_the_case_says(case: Mapping[str, Any]) -> None:
    seen = outcome(case)
    times = {each["id"]: each.get("time", 0) for each in case["publish"]}
    contents = {each["id"]: each["content"] for each in case["publish"]}
    for id, expected in case["expect"].items():
        if "count" in expected:
            assert len(seen[id]) == expected["count"]
            assert {sight.component for sight in seen[id]} <= set(expected["among"])
            continue
        assert {sight.component for sight in seen[id]} == set(expected), id
        for name, rows in expected.items():
            mine = [sight for sight in seen[id] if sight.component == name]
            whole = [row if isinstance(row, dict) else {"ids": rows} for row in rows]
            whole = whole if isinstance(rows[0], dict) else [{"ids": rows}]
            assert len(mine) == len(whole)
            for row in whole:
                held = case["graph"]["scopes"].get("S", {}).get("internal", {}).get("kind") == "hold"
                assert any(
                    ids_of(case, sight) == sorted(row["ids"])
                    and content_of(sight) == row.get("content", contents[id])
                    and (held or sight.time == times[id] + row.get("delay", 0))
                    for sight in mine
                ), (id, name)


@pytest.mark.parametrize("case", of_kind("deliver"))
def test_the_definition_delivers_as_the_case_says(case: Mapping[str, Any]) -> None:
    if any(about.get("internal", {}).get("kind") == "hold" for about in case["graph"]["scopes"].values()):
        return  # the definition is about one notification at a time
    graph = graph_of(case["graph"])
    filters = {
        name: {id: parse(text) for id, text in each.items()} for name, each in case["subscriptions"].items()
    }
    seen = outcome(case)
    state: Any = {}
    for event in sorted(map(event_of, case["publish"]), key=lambda e: (e.time.microseconds, e.id)):  # type: ignore[union-attr]
        texts = case.get("advertisements", {}).get(event.producer)
        advertised = parse(" or ".join(f"({text})" for text in texts)) if texts else parse("true")
        found, state = deliveries(graph, event, matched_by(filters), state=state, advertised=advertised)
        assert found == {(sight.component, sight.tag, sight.time) for sight in seen[str(event.id)]}, event.id
