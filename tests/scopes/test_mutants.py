"""Evaluations that are broken on purpose, one way each: some case of the corpus catches every one."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fairlead.filters import NOTHING, And
from fairlead.scopes import evaluation, parse_statements, plan, policies, system
from fairlead.scopes.evaluation import Evaluation
from fairlead.scopes.graph import DEFAULT, ScopeGraph
from fairlead.scopes.interfaces import Crossing, Edge, Effective, Interface, effective
from fairlead.scopes.plan import Ancestry, ScopePlan
from fairlead.scopes.policies import Chain, ChoiceContext, Chosen, Direction, Hold, One
from fairlead.scopes.sights import Reached, Sight
from fairlead_lab.scopes.definition import delivery_paths

HERE = Path(__file__).parent
Patch = pytest.MonkeyPatch


def sibling(name: str) -> ModuleType:
    known = f"scopes_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, HERE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


# -- interfaces and mappings -----------------------------------------------------------------------------------


def with_edges(patch: Patch, change: Callable[[ScopeGraph, Edge], Effective]) -> None:
    patch.setattr(plan, "effective", change)


def without_gates(drop: Callable[[Any], bool]) -> Callable[[ScopeGraph, Edge], Effective]:
    def changed(graph: ScopeGraph, edge: Edge) -> Effective:
        def kept(crossing: Crossing) -> Crossing:
            return Crossing.of(
                [gate for gate in crossing.before if not drop(gate)],
                crossing.steps,
                [gate for gate in crossing.after if not drop(gate)],
            )

        out, inward = effective(graph, edge)
        return Effective(kept(out), kept(inward))

    return changed


def roots_only(patch: Patch) -> None:
    with_edges(patch, without_gates(lambda gate: True))


def open_by_default(patch: Patch) -> None:
    with_edges(patch, without_gates(lambda gate: gate.interface == "base" and gate.filter == NOTHING))


def selective_ignored(patch: Patch) -> None:
    with_edges(patch, without_gates(lambda gate: gate.interface == "selective"))


def imposed_on_all_ignored(patch: Patch) -> None:
    with_edges(patch, without_gates(lambda gate: gate.interface == "imposed on all members"))


def _joined(interfaces: list[Interface]) -> Interface:
    return Interface(
        And.of([each.input for each in interfaces]), And.of([each.output for each in interfaces])
    )


def selective_for_all_superscopes(patch: Patch) -> None:
    def changed(graph: ScopeGraph, edge: Edge) -> Effective:
        every = [each.selective for each in graph.superscopes(edge.member).values()]
        return effective(graph, replace(edge, selective=_joined(every)))

    with_edges(patch, changed)


def imposed_on_one_for_all(patch: Patch) -> None:
    def changed(graph: ScopeGraph, edge: Edge) -> Effective:
        every = [each.imposed for each in graph.members(edge.scope).values()]
        return effective(graph, replace(edge, imposed=_joined(every)))

    with_edges(patch, changed)


def imposed_before_the_mapping(patch: Patch) -> None:
    def changed(graph: ScopeGraph, edge: Edge) -> Effective:
        out, inward = effective(graph, edge)
        return Effective(Crossing.of((*out.before, *out.after), out.steps, ()), inward)

    with_edges(patch, changed)


def selective_after_the_mapping(patch: Patch) -> None:
    def changed(graph: ScopeGraph, edge: Edge) -> Effective:
        out, inward = effective(graph, edge)
        late = [gate for gate in out.before if gate.interface == "selective"]
        early = [gate for gate in out.before if gate.interface != "selective"]
        return Effective(Crossing.of(early, out.steps, (*late, *out.after)), inward)

    with_edges(patch, changed)


def inside_mapped_too(patch: Patch) -> None:
    def changed(graph: ScopeGraph, edge: Edge) -> Effective:
        out, inward = effective(graph, edge)
        above = [
            each.mapping.outward for each in graph.superscopes(edge.scope).values() if each.mapping.outward
        ]
        return Effective(
            Crossing.of(out.before, (*out.steps, *(above[0] if above else ())), out.after), inward
        )

    with_edges(patch, changed)


def members_of_nothing_are_outsiders(patch: Patch) -> None:
    """Who is in no scope, as when its only one was dropped, comes into the scope of those nobody names."""
    right = ScopeGraph.superscopes

    def changed(self: ScopeGraph, name: str) -> Mapping[str, Edge]:
        above = right(self, name)
        return above if above or self.is_scope(name) else {DEFAULT: Edge(name, DEFAULT)}

    patch.setattr(ScopeGraph, "superscopes", changed)


def folded_across_imposed_interfaces(patch: Patch) -> None:
    """All simple components of the same scopes stand at one place, whatever their edges say."""

    def shared(self: ScopePlan, name: str) -> Ancestry | None:
        graph = self.graph
        if graph.is_scope(name):
            return None
        homes = tuple(graph.superscopes(name))
        if homes not in self._shared:
            self._shared[homes] = self._own_ancestry(name, self.parents(name))
        return self._shared[homes]

    patch.setattr(ScopePlan, "_shared_ancestry", shared)


# -- paths and versions ----------------------------------------------------------------------------------------


def after_reach(patch: Patch, change: Callable[[ScopePlan, Any, list[Sight]], list[Sight]]) -> None:
    right = ScopePlan.reach

    def changed(self: ScopePlan, n: Any, matched: Any, **more: Any) -> Reached:
        found = right(self, n, matched, **more)
        return Reached(tuple(change(self, n, list(found.sights))), found.changes, found.failures)

    patch.setattr(ScopePlan, "reach", changed)


def incoming_goes_up_again(patch: Patch) -> None:
    def changed(self: ScopePlan, n: Any, matched: Any, publisher: str, *_: Any) -> Reached:
        seen = {publisher}
        edges = [(e, effective(self.graph, e)) for e in self.graph.edges if self.graph.carries(e.scope)]
        while True:
            more = {e.scope for e, f in edges if e.member in seen and f.outward.pass_on(n) is not None}
            more |= {
                e.member
                for e, f in edges
                if e.scope in seen and f.inward.pass_on(n) is not None and self.graph.is_scope(e.member)
            }
            if more <= seen:
                break
            seen |= more
        names = {e.member for e, f in edges if e.scope in seen and f.inward.pass_on(n) is not None} | {
            publisher
        }
        return Reached(tuple(Sight(name, n, "", 0) for name in sorted(names & set(matched(n)))), {})

    patch.setattr(ScopePlan, "_reach_by_filters", changed)


def subscription_judges_the_original(patch: Patch) -> None:
    right = ScopePlan.reach
    patch.setattr(
        ScopePlan, "reach", lambda self, n, matched, **more: right(self, n, lambda _: matched(n), **more)
    )


def echo(patch: Patch) -> None:
    right = evaluation.Route
    patch.setattr(evaluation, "Route", lambda trail, governor: right(frozenset(), governor))


def echo_over_a_shortcut(patch: Patch) -> None:
    right = Evaluation._up

    def changed(self: Evaluation, name: str, version: Any, arrivals: Any) -> Any:
        forgotten = {evaluation.Route(frozenset(), r.governor): a for r, a in arrivals.items()}
        return right(self, name, version, forgotten)

    patch.setattr(Evaluation, "_up", changed)


def one_per_identity(patch: Patch) -> None:
    after_reach(
        patch, lambda _, n, sights: list({(s.component, s.notification.id): s for s in sights}.values())
    )


def one_per_path(patch: Patch) -> None:
    def repeated(self: ScopePlan, n: Any, sights: list[Sight]) -> list[Sight]:
        return [
            s for s in sights for _ in range(max(1, len(delivery_paths(self.graph, n.producer, s.component))))
        ]

    after_reach(patch, repeated)


def tag_by_path(patch: Patch) -> None:
    def tagged(self: ScopePlan, n: Any, sights: list[Sight]) -> list[Sight]:
        return [
            s._replace(tag=f"{s.tag}{path}" if path else s.tag)
            for s in sights
            for path in range(max(1, len(delivery_paths(self.graph, n.producer, s.component))))
        ]

    after_reach(patch, tagged)


def latest_delay_wins(patch: Patch) -> None:
    def latest(found: dict[Any, int], place: Any, time: int) -> None:
        found[place] = max(time, found.get(place, time))

    patch.setattr(evaluation, "_least", latest)


def abstract_carries(patch: Patch) -> None:
    patch.setattr(ScopeGraph, "carries", lambda self, scope: True)


def no_own(patch: Patch) -> None:
    after_reach(patch, lambda _, n, sights: [sight for sight in sights if sight.component != n.producer])


# -- policies --------------------------------------------------------------------------------------------------


def delivery_policy_for_internal(patch: Patch) -> None:
    right = Evaluation._choice
    patch.setattr(
        Evaluation,
        "_choice",
        lambda self, present: right(self, present._replace(direction=Direction.DELIVERY)),
    )


def policy_before_eligibility(patch: Patch) -> None:
    patch.setattr(
        Evaluation, "_eligible", lambda self, present: tuple(sorted(self.graph.members(present.owner)))
    )


def policy_per_member(patch: Patch) -> None:
    right = Evaluation._decide

    def changed(self: Evaluation, present: Any, given: Any, eligible: tuple[str, ...]) -> dict[str, int]:
        found: dict[str, int] = {}
        for name in eligible:
            found |= right(self, present, given, (name,))
        return found

    patch.setattr(Evaluation, "_decide", changed)


def turn_for_each_path(patch: Patch) -> None:
    right = policies.CHOOSE[One]

    def counted(choice: Any, context: ChoiceContext, state: Any) -> tuple[Chosen, Any]:
        for _ in range(2):  # as if what is there had come on two ways
            chosen, state = right(choice, context, state)
        return chosen, state

    patch.setattr(policies, "CHOOSE", {**policies.CHOOSE, One: counted})


def chain_restarts(patch: Patch) -> None:
    def restarted(choice: Chain, context: ChoiceContext, state: Any) -> tuple[Chosen, Any]:
        return Chosen(tuple(name for name in choice.names if name in context.eligible)[:1]), state

    patch.setattr(policies, "CHOOSE", {**policies.CHOOSE, Chain: restarted})


def traverse_for_internal(patch: Patch) -> None:
    right = Evaluation._visible

    def changed(self: Evaluation, scope: str) -> Any:
        return (each._replace(direction=Direction.DELIVERY) for each in right(self, scope))

    patch.setattr(Evaluation, "_visible", changed)


def traverse_by_interface(patch: Patch) -> None:
    right = ScopePlan.reach

    def changed(self: ScopePlan, n: Any, matched: Any, **more: Any) -> Reached:
        everybody = [each.name for each in self.graph.components]
        found = right(self, n, lambda _: everybody, **more)
        return Reached(
            tuple(s for s in found.sights if s.component in matched(s.notification)), found.changes
        )

    patch.setattr(ScopePlan, "reach", changed)


def abort_ignored(patch: Patch) -> None:
    right = Evaluation._releases
    patch.setattr(
        Evaluation,
        "_releases",
        lambda self, place, choice, version: right(self, place, Hold(choice.until), version),
    )


def top_ascending(patch: Patch) -> None:
    right = policies.ranked
    patch.setattr(policies, "ranked", lambda *given: right(*given)[::-1])


def name_means_members(patch: Patch) -> None:
    right = system._base

    def changed(known: Any, source: Any, selection: Any, owner: str) -> Any:
        if source.depth == 0 and known.graph.is_scope(source.name):
            return list(known.graph.members(source.name))
        return right(known, source, selection, owner)

    patch.setattr(system, "_base", changed)


MUTANTS = [
    roots_only,
    open_by_default,
    selective_ignored,
    imposed_on_all_ignored,
    selective_for_all_superscopes,
    imposed_on_one_for_all,
    imposed_before_the_mapping,
    selective_after_the_mapping,
    inside_mapped_too,
    folded_across_imposed_interfaces,
    incoming_goes_up_again,
    subscription_judges_the_original,
    echo,
    echo_over_a_shortcut,
    one_per_identity,
    one_per_path,
    tag_by_path,
    latest_delay_wins,
    abstract_carries,
    no_own,
    delivery_policy_for_internal,
    policy_before_eligibility,
    policy_per_member,
    turn_for_each_path,
    chain_restarts,
    traverse_for_internal,
    traverse_by_interface,
    abort_ignored,
    top_ascending,
    name_means_members,
]


def failing(cases: list[Mapping[str, Any]]) -> list[str]:
    """The names of the cases whose outcome is not as they say."""
    corpus, language = sibling("test_corpus"), sibling("test_language")
    judges = {
        "visible": corpus.test_visibility_is_as_the_case_says,
        "deliver": corpus.test_deliveries_are_as_the_case_says,
        "select": language.test_a_selection_takes_what_the_case_says,
    }
    found = []
    for case in cases:
        try:
            if case["kind"] in judges:
                judges[case["kind"]](case)
        except (AssertionError, pytest.fail.Exception, KeyError, IndexError):
            found.append(case["name"])
    return found


def test_what_is_not_broken_fails_no_case() -> None:
    assert failing(sibling("test_corpus").CASES) == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.__name__)
def test_a_mutant_fails_some_case(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    assert failing(sibling("test_corpus").CASES) != []


def test_members_of_a_dropped_scope_are_no_outsiders(monkeypatch: Patch) -> None:
    statements = parse_statements("DEFINE SCOPE S AS ALL FROM x, y\nDROP SCOPE S")

    def visible(*pair: str) -> bool:
        return system.System.of(statements[:1]).apply(statements[1]).graph.visible(*pair)

    assert visible("nobody", "named")
    assert not visible("x", "y")
    assert not visible("x", "nobody")
    members_of_nothing_are_outsiders(monkeypatch)
    assert visible("x", "nobody")
