"""Laws of scopes on random graphs, against the definitions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import ScopeError
from fairlead.filters import EVERYTHING, NOTHING, Filter
from fairlead.model import Notification
from fairlead.scopes.graph import Scope, ScopeGraph
from fairlead.scopes.interfaces import OPEN, Edge, Interface
from fairlead.scopes.mappings import apply, inverse, pull, push
from fairlead.scopes.plan import ScopePlan
from fairlead.testing import filters as any_filters
from fairlead.testing import notifications
from fairlead_lab.scopes.definition import deliveries, delivery_paths, visible
from fairlead_lab.testing.scopes import (
    COMPONENTS,
    FILTERS,
    graphs,
    matched_by,
    publications,
    steps,
    subscriptions,
)

Subscriptions = dict[str, dict[str, Filter]]


def reached(graph: ScopeGraph, n: Notification, asked: Subscriptions) -> set[tuple[str, str, int]]:
    found = ScopePlan(graph).reach(n, matched_by(asked))
    return {(sight.component, sight.tag, sight.time) for sight in found.sights}


EVERYBODY: Subscriptions = {name: {"s": EVERYTHING} for name in (*COMPONENTS, "nobody")}


@given(graphs(filters=False))
def test_visibility_is_the_least_relation_and_a_common_root_and_an_up_down_path(graph: ScopeGraph) -> None:
    names = [*graph.names, "nobody"]
    literal = visible(graph, names)
    for one in names:
        for other in names:
            outcome = graph.visible(one, other)
            assert outcome is graph.visible(other, one)
            assert outcome is ((one, other) in literal)
            assert outcome is (one == other or bool(delivery_paths(graph, one, other)))
            if one != other and all(not graph.is_scope(each) or graph.carries(each) for each in (one, other)):
                assert outcome is not graph.roots(one).isdisjoint(graph.roots(other))


@given(graphs(), publications(), subscriptions())
def test_a_graph_of_filters_delivers_as_the_definition_does(
    graph: ScopeGraph, n: Notification, asked: Subscriptions
) -> None:
    assert reached(graph, n, asked) == deliveries(graph, n, matched_by(asked))[0]


@given(graphs(mappings=True), publications(), subscriptions())
def test_a_graph_with_mappings_delivers_as_the_definition_does(
    graph: ScopeGraph, n: Notification, asked: Subscriptions
) -> None:
    assert reached(graph, n, asked) == deliveries(graph, n, matched_by(asked))[0]


@given(graphs(mappings=True, policies=True), st.data(), subscriptions())
def test_policies_with_state_choose_as_the_definition_does(
    graph: ScopeGraph, data: st.DataObject, asked: Subscriptions
) -> None:
    plan, state, literal = ScopePlan(graph), {}, {}
    for number in range(1, 5):
        n = data.draw(publications(number))
        found = plan.reach(n, matched_by(asked), state=state)
        state.update(found.changes)
        expected, literal = deliveries(graph, n, matched_by(asked), state=literal)
        assert {(sight.component, sight.tag, sight.time) for sight in found.sights} == expected
        assert {k: v for k, v in state.items() if v} == {k: v for k, v in literal.items() if v}


@given(publications(), subscriptions())
def test_one_scope_for_all_is_no_scopes(n: Notification, asked: Subscriptions) -> None:
    together = ScopeGraph.of([Scope("all")], [(name, "all") for name in (*COMPONENTS, "nobody")])
    everybody = {(name, "", 1) for name in matched_by(asked)(n)}
    assert reached(ScopeGraph.of(), n, asked) == everybody
    assert reached(together, n, asked) == everybody


@given(graphs(), publications(), st.sampled_from(COMPONENTS), st.data())
def test_another_edge_takes_nobody_away(
    graph: ScopeGraph, n: Notification, member: str, data: st.DataObject
) -> None:
    scope = data.draw(st.sampled_from([each.name for each in graph.scopes if each.name != "default"]))
    if scope in graph.superscopes(member) or member not in graph:
        return
    more = graph.having_edge(Edge(member, scope))
    assert reached(graph, n, EVERYBODY) <= reached(more, n, EVERYBODY)


@given(graphs(), publications(), st.data())
def test_closing_an_edge_adds_nobody_and_opening_it_takes_nobody_away(
    graph: ScopeGraph, n: Notification, data: st.DataObject
) -> None:
    edges = list(graph.edges)
    if not edges:
        return
    edge = data.draw(st.sampled_from(edges))
    closed = graph.having_edge(Edge(edge.member, edge.scope, imposed=Interface(NOTHING, NOTHING)))
    opened = graph.having_edge(Edge(edge.member, edge.scope))
    assert reached(closed, n, EVERYBODY) <= reached(graph, n, EVERYBODY) <= reached(opened, n, EVERYBODY)


@given(graphs(policies=True), publications(), subscriptions())
def test_policies_add_nobody(graph: ScopeGraph, n: Notification, asked: Subscriptions) -> None:
    nodes = [
        Scope(each.name, each.interface, each.imposed, each.abstract)
        for each in graph.scopes
        if each.name != "default"
    ]
    free = ScopeGraph.of([*nodes, *(type(each)(each.name) for each in graph.components)], graph.edges)
    assert {(name, tag) for name, tag, _ in reached(graph, n, asked)} <= {
        (name, tag) for name, tag, _ in reached(free, n, asked)
    }


@given(graphs(), publications(), subscriptions(), st.data())
def test_an_open_scope_in_an_edge_changes_nobody(
    graph: ScopeGraph, n: Notification, asked: Subscriptions, data: st.DataObject
) -> None:
    edges = list(graph.edges)
    if not edges:
        return
    edge = data.draw(st.sampled_from(edges))
    middle = Edge("between", edge.scope, imposed=Interface(OPEN.input, OPEN.output))
    lower = Edge(edge.member, "between", edge.selective, edge.imposed, edge.mapping)
    top = graph.scope(edge.scope)
    between = Scope("between", interface=OPEN, imposed=top.imposed, abstract=top.abstract)
    longer = graph.without_edge(edge.member, edge.scope).having_node(between)
    longer = longer.having_edge(middle).having_edge(lower)
    assert reached(longer, n, asked) == reached(graph, n, asked)


@given(steps(), any_filters(names=("x", "y", "z")), publications())
def test_a_filter_pulled_back_matches_what_becomes_a_match(
    made: Any, filter: Filter, n: Notification
) -> None:
    pulled = pull(made, filter)
    if pulled is not None:
        mapped = apply(made, n)
        assert pulled.matches(n) is (mapped is not None and filter.matches(mapped))


@given(steps(), any_filters(names=("a", "a.b", "x", "y")), notifications(names=("a", "a.b", "x", "y")))
def test_a_filter_pulled_back_is_right_for_nested_records_too(
    made: Any, filter: Filter, n: Notification
) -> None:
    pulled = pull(made, filter)
    if pulled is not None:
        mapped = apply(made, n)
        assert pulled.matches(n) is (mapped is not None and filter.matches(mapped))


@given(steps(), st.sampled_from(FILTERS), publications())
def test_a_filter_pushed_forward_matches_all_that_matches_become(
    made: Any, filter: Filter, n: Notification
) -> None:
    mapped = apply(made, n)
    if mapped is not None and filter.matches(n):
        assert push(made, filter).matches(mapped)


@given(steps(), publications())
def test_a_mapping_keeps_identity_and_order(made: Any, n: Notification) -> None:
    mapped = apply(made, n)
    if mapped is not None:
        assert (mapped.producer, mapped.id, mapped.time, mapped.sequence) == (
            n.producer,
            n.id,
            n.time,
            n.sequence,
        )
        for name in ("producer", "id", "time"):
            assert mapped.get(name) == n.get(name)


@given(publications())
def test_renaming_can_be_undone(n: Notification) -> None:
    from fairlead.scopes.mappings import Rename

    there = (Rename("x", "price"), Rename("y", "size"))
    back = inverse(there)
    assert back is not None
    mapped = apply(there, n)
    assert mapped is not None
    assert apply(back, mapped) == n


def test_a_cycle_is_refused_and_named() -> None:
    graph = ScopeGraph.of([Scope("A"), Scope("B"), Scope("C")], [("A", "B"), ("B", "C")])
    with pytest.raises(ScopeError, match="C in A in B in C"):
        graph.having_edge(Edge("C", "A"))
    with pytest.raises(ScopeError, match="A in B in A"):
        ScopeGraph.of([Scope("A"), Scope("B")], [("A", "B"), ("B", "A")])
    with pytest.raises(ScopeError, match="A in A"):
        ScopeGraph.of([Scope("A")], [("A", "A")])
