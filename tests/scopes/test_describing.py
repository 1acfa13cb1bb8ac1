"""A scope graph as statements, and as text, again."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead.filters import Filter
from fairlead.scopes import ScopeGraph, ScopePlan, System, parse_statements, print_statements
from fairlead.scopes.describing import statements_of
from fairlead_lab.testing.scopes import graphs, matched_by, publications, subscriptions


@given(graphs(mappings=True))
def test_the_statements_of_a_graph_make_the_same_graph(graph: ScopeGraph) -> None:
    statements = statements_of(graph)
    assert System.of(statements).graph == graph
    assert parse_statements(print_statements(statements)) == statements


@given(graphs(mappings=True, policies=True), st.data(), subscriptions())
def test_the_graph_that_statements_describe_delivers_as_the_graph_does(
    graph: ScopeGraph, data: st.DataObject, asked: dict[str, dict[str, Filter]]
) -> None:
    plans = [ScopePlan(each) for each in (graph, System.of(statements_of(graph)).graph)]
    states: list[dict[Any, Any]] = [{}, {}]
    for number in range(3):
        n = data.draw(publications(number))
        found = []
        for plan, state in zip(plans, states, strict=True):
            reached = plan.reach(n, matched_by(asked), state=state)
            state.update(reached.changes)
            found.append(reached.sights)
        assert found[0] == found[1]
