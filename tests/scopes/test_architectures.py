"""The architectures of scopes over a tree of brokers: the book's example, the same deliveries on all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.audit.policies import has_policies
from fairlead.filters import EVERYTHING, Filter
from fairlead.model import Notification
from fairlead.overlay import Topology
from fairlead.scopes import ScopeGraph
from fairlead_lab.scopes import architectures
from fairlead_lab.scopes.architectures import ARCHITECTURES, Overlay, entries
from fairlead_lab.scopes.definition import deliveries
from fairlead_lab.testing.scopes import (
    COMPONENTS,
    event_of,
    graph_of,
    graphs,
    matched_by,
    publications,
    subscriptions,
)

CASES = json.loads((Path(__file__).parents[1] / "corpus" / "scopes.json").read_text())["cases"]


def of_kind(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in CASES if case["kind"] == kind]


def overlay_of(case: Mapping[str, Any]) -> Overlay:
    return Overlay(graph_of(case["graph"]), Topology.explicit(case["links"]), case["at"])


@pytest.mark.parametrize("case", of_kind("overlay"))
def test_overlays_tables_and_look_up_are_as_the_case_says(case: Mapping[str, Any]) -> None:
    overlay, wanted = overlay_of(case), case["expect"]
    assert {
        name: sorted(each) for name, each in overlay.brokers.items() if name in wanted["brokers"]
    } == wanted["brokers"]
    for broker, scope in case["tables"]:
        found = {name: list(each) for name, each in overlay.table(broker, scope)._asdict().items()}
        assert found == wanted["tables"][f"{broker}/{scope}"], (broker, scope)
    for broker in case["lookup"]:
        for scope, towards in wanted["lookup"][broker].items():
            assert overlay.lookup(broker, scope) == towards, (broker, scope)


@pytest.mark.parametrize("case", of_kind("overlay"))
def test_messages_are_as_the_case_says(case: Mapping[str, Any]) -> None:
    overlay = overlay_of(case)
    for producer, mode, *listeners in case["messages"]:
        names = listeners[0] if listeners else [name for name in case["at"] if name != producer]
        asked = {name: [EVERYTHING] for name in names}
        n = Notification.of({"producer": producer, "id": "1"})
        kind, _, broker = mode.partition("@")
        if kind == "combined":
            run = overlay.combined(n, asked)
        else:
            run = overlay.integrated(n, asked, (lambda _, __, at=broker: at) if kind == "gateway" else None)
        said = f"{producer} {mode}" + (f" for {' '.join(names)}" if listeners else "")
        messages, reached = case["expect"]["messages"][said]
        assert (run.messages, sorted(name for name, _ in run.delivered)) == (messages, reached), said


@pytest.mark.parametrize("case", of_kind("accesses"))
def test_accesses_to_the_medium_are_as_the_case_says(case: Mapping[str, Any]) -> None:
    """Up to the middle of the path, then down."""
    path = case["path"]
    producer, *scopes, consumer = path
    top = len(scopes) // 2
    edges = [(producer, scopes[0]), (consumer, scopes[-1])]
    edges += [(scopes[i], scopes[i + 1]) for i in range(top)]
    edges += [(scopes[i + 1], scopes[i]) for i in range(top, len(scopes) - 1)]
    graph = graph_of({"open": True, "scopes": scopes, "edges": [list(edge) for edge in edges]})
    overlay = Overlay(graph, Topology.explicit([("B1", "B2")]), {producer: "B1", consumer: "B2"})
    n = Notification.of({"producer": producer, "id": "1"})
    found = [ARCHITECTURES[name](overlay, n, {consumer: [EVERYTHING]}) for name in ("collapsed", "addresses")]
    relayed = ARCHITECTURES["brokers"](overlay, n, {consumer: [EVERYTHING]})
    assert [*(run.accesses for run in found), relayed.accesses] == case["expect"]
    assert all(run.delivered == {(consumer, "")} for run in (*found, relayed))


TREES = [
    Topology.explicit([("B1", "B2"), ("B2", "B3"), ("B2", "B4"), ("B1", "B5")]),
    Topology.explicit([("B1", "B2"), ("B2", "B3"), ("B3", "B4"), ("B4", "B5")]),
]


@given(graphs(mappings=True), publications(), subscriptions(), st.data())
def test_every_architecture_delivers_what_the_definition_says(
    graph: ScopeGraph, n: Notification, asked: dict[str, dict[str, Filter]], data: st.DataObject
) -> None:
    tree = data.draw(st.sampled_from(TREES))
    names = (*COMPONENTS, "nobody")
    at = {name: data.draw(st.sampled_from(tree.brokers)) for name in names}
    named = {name: filters for name, filters in asked.items() if name in graph}
    overlay = Overlay(graph, tree, {name: home for name, home in at.items() if name in graph})
    wanted = {(name, tag) for name, tag, _ in deliveries(graph, n, matched_by(named))[0]}
    for name, route in ARCHITECTURES.items():
        run = route(overlay, n, {who: list(filters.values()) for who, filters in named.items()})
        assert run.delivered == wanted, name
    assert set(entries(overlay, {})) == set(ARCHITECTURES)


# -- mutants of integrated routing -----------------------------------------------------------------------------


def crosses_at_every_broker(patch: pytest.MonkeyPatch) -> None:
    def crosses(self: Any, copy: Any, _: object, into: str) -> bool:
        return copy.broker in self.overlay.brokers[into]

    patch.setattr(architectures._Routing, "_crosses", crosses)


def crossing_asks_for_entries(patch: pytest.MonkeyPatch) -> None:
    """As the text says: it is denied where an entry points back, and not where the neighbour has the scope."""

    def crosses(self: Any, copy: Any, _: object, into: str) -> bool:
        subscribers = {self.overlay.at.get(name) for name, _ in self.local(into, copy.version)}
        return copy.broker in self.overlay.brokers[into] and copy.link not in subscribers

    patch.setattr(architectures._Routing, "_crosses", crosses)


def one_copy_is_changed_for_all(patch: pytest.MonkeyPatch) -> None:
    def others(self: Any, copy: Any) -> Iterator[tuple[str, str, Any]]:
        version = copy.version
        for member, superscope, other in each(self, copy):
            version = version if other.version.attributes == copy.version.attributes else other.version
            yield member, superscope, other._replace(version=version)

    each = architectures._Routing._others
    patch.setattr(architectures._Routing, "_others", others)


def only_the_last_scope_is_left(patch: pytest.MonkeyPatch) -> None:
    def others(self: Any, copy: Any) -> Iterator[tuple[str, str, Any]]:
        for member, superscope, other in each(self, copy):
            yield member, superscope, other._replace(left=frozenset({copy.scope}))

    each = architectures._Routing._others
    patch.setattr(architectures._Routing, "_others", others)


MUTANTS = (
    crosses_at_every_broker,
    crossing_asks_for_entries,
    one_copy_is_changed_for_all,
    only_the_last_scope_is_left,
)


def wrong_messages() -> list[str]:
    """What is wrong with the book's example, and with what is mapped on several ways."""
    found = []
    for case in (case for case in CASES if case["kind"] == "overlay"):
        overlay = overlay_of(case)
        for producer, mode, *listeners in case["messages"]:
            if mode == "first":
                names = listeners[0] if listeners else [name for name in case["at"] if name != producer]
                n = Notification.of({"producer": producer, "id": "1"})
                run = overlay.integrated(n, {name: [EVERYTHING] for name in names})
                said = f"{producer} first" + (f" for {' '.join(names)}" if listeners else "")
                if [run.messages, sorted(name for name, _ in run.delivered)] != case["expect"]["messages"][
                    said
                ]:
                    found.append(said)
    for case in (case for case in CASES if case["kind"] == "deliver"):
        graph = graph_of(case["graph"])
        if has_policies(graph):
            continue
        names = [each.name for each in graph.components]
        overlay = Overlay(graph, TREES[1], {name: f"B{n % 5 + 1}" for n, name in enumerate(names)})
        asked = {name: {"s": EVERYTHING} for name in names}
        for n in (event_of(each) for each in case["publish"] if each["producer"] in names):
            wanted = {(name, tag) for name, tag, _ in deliveries(graph, n, matched_by(asked))[0]}
            if overlay.integrated(n, {name: [EVERYTHING] for name in names}).delivered != wanted:
                found.append(case["name"])
    return found


def test_integrated_routing_makes_no_mistake_in_the_cases() -> None:
    assert wrong_messages() == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.__name__)
def test_every_mutant_of_integrated_routing_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert wrong_messages()
