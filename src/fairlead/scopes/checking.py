"""Checks of a scope graph: suspicious interfaces, edges and policies, reported before anything runs.

An `error` can never be meant: a function that cannot be loaded. A `warning` may be meant: an edge that can never
carry anything, an interface that a second membership goes around. Where the algebra of filters can give one, a
finding has a witness: a notification that shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from fairlead.errors import ScopeError
from fairlead.filters import EVERYTHING, NOTHING, And, Filter, Or
from fairlead.filters.algebra import algebra_for
from fairlead.model import Notification
from fairlead.model.encoding import fields_to_json, format_json
from fairlead.scopes.graph import DEFAULT, Node, Scope, ScopeGraph
from fairlead.scopes.interfaces import Crossing, Edge
from fairlead.scopes.language.statements import Event
from fairlead.scopes.mappings import Code, load, push
from fairlead.scopes.plan import ScopePlan
from fairlead.scopes.policies import Own
from fairlead.scopes.system import System

__all__ = ["Finding", "check"]

PARTS_MAX: Final = 32
"""A union of more filters than this is taken for everything: the check then finds less, never too much."""
PATHS_COUNTED: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, or probably not meant."""

    level: Literal["error", "warning"]
    subject: str
    """The subject: a component, or an edge as `member in scope`."""
    message: str
    witness: Notification | None = None
    """A notification that shows it."""

    def __str__(self) -> str:
        shown = "" if self.witness is None else f"\n  for example {format_json(self.shown)}"
        return f"{self.level}: {self.subject}: {self.message}{shown}"

    @property
    def shown(self) -> Any:
        """The witness as JSON has it."""
        return None if self.witness is None else fields_to_json(self.witness.attributes)

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON has it."""
        found = {"level": self.level, "subject": self.subject, "message": self.message}
        return found if self.witness is None else {**found, "witness": self.shown}


def check(system: System) -> list[Finding]:
    """All findings, errors first, then by subject."""
    plan = ScopePlan(system.graph)
    found = [
        *_functions(system.graph),
        *_isolated(system.graph),
        *_dead_edges(plan),
        *_unused_outputs(plan),
        *_shortcuts(system.graph),
        *_detours(system.graph),
        *_multiplied(plan),
        *_rules(system),
    ]
    if system.definitions and not system.deployed:
        found.append(Finding("warning", "the text", "nothing is deployed"))
    return sorted(found, key=lambda each: (each.level, each.subject, each.message))


def _edge_name(edge: Edge) -> str:
    return f"{edge.member} in {edge.scope}"


def _functions(graph: ScopeGraph) -> Iterator[Finding]:
    """Functions that cannot be loaded."""

    def tried(subject: str, reference: str) -> Iterator[Finding]:
        try:
            load(reference)
        except ScopeError as error:
            yield Finding("error", subject, str(error).partition("\n")[0])

    for edge in graph.edges:
        for step in (*edge.mapping.outward, *edge.mapping.inward):
            if isinstance(step, Code) and step.function is None:
                yield from tried(_edge_name(edge), step.reference)
    nodes: list[Node] = [*graph.scopes, *graph.components]
    for node in nodes:
        policies = list(node.publishing)
        if isinstance(node, Scope):
            policies += [*node.delivery, *node.internal]
        for policy in policies:
            if isinstance(policy.choice, Own) and policy.choice.function is None:
                yield from tried(node.name, policy.choice.reference)


def _isolated(graph: ScopeGraph) -> Iterator[Finding]:
    for component in graph.components:
        if not any(graph.carrying(component.name)):
            yield Finding("warning", component.name, "is in no scope that carries: it sees itself only")


def _dead_edges(plan: ScopePlan) -> Iterator[Finding]:
    """Gates of one direction that contradict each other: each lets something pass, together they let nothing."""
    for edge in plan.graph.edges:
        parent = next((each for each in plan.parents(edge.member) if each.scope == edge.scope), None)
        if parent is None:
            continue
        for word, crossing in (("out", parent.outward), ("in", parent.inward)):
            yield from _contradiction(edge, crossing, word)


def _contradiction(edge: Edge, crossing: Crossing, word: str) -> Iterator[Finding]:
    algebra = algebra_for()
    if crossing.closed:
        return
    so_far: Filter = EVERYTHING
    gates = [(gate, False) for gate in crossing.before] + [(gate, True) for gate in crossing.after]
    mapped = False
    for gate, behind in gates:
        if behind and not mapped:
            so_far, mapped = push(crossing.steps, so_far), True
        if not algebra.overlaps(gate.filter, EVERYTHING):
            message = f"nothing can pass {word}: {gate.interface} of {gate.owner} matches nothing"
            yield Finding("warning", _edge_name(edge), message)
            return
        if not algebra.overlaps(so_far, gate.filter):
            place = f"{gate.interface} of {gate.owner}"
            message = f"nothing can pass {word}: no notification at {place} matches {gate.filter}"
            yield Finding("warning", _edge_name(edge), message, algebra.witness(so_far))
            return
        so_far = And.of((so_far, gate.filter))


def _possible(plan: ScopePlan) -> dict[str, Filter]:
    """For each component a filter that matches whatever can be internal to it, members first."""
    graph = plan.graph
    possible: dict[str, Filter] = {each.name: each.interface.output for each in graph.components}
    order = [name for name in reversed(_top_down(graph)) if graph.is_scope(name)]
    for scope in order:
        parts: list[Filter] = [EVERYTHING] if scope == DEFAULT else []
        for member in sorted(graph.members(scope)):
            parent = next((each for each in plan.parents(member) if each.scope == scope), None)
            if parent is None or parent.outward.closed or EVERYTHING in parts:
                continue
            inner = And.of(
                (possible.get(member, EVERYTHING), *(gate.filter for gate in parent.outward.before))
            )
            pushed = push(parent.outward.steps, inner)
            part = And.of((pushed, *(gate.filter for gate in parent.outward.after)))
            if part not in parts:
                parts.append(part)
        possible[scope] = EVERYTHING if len(parts) > PARTS_MAX or EVERYTHING in parts else Or.of(parts)
    return possible


def _top_down(graph: ScopeGraph) -> list[str]:
    """All scopes, superscopes before their members."""
    return list(reversed(graph.above(*(scope.name for scope in graph.scopes if not scope.abstract))))


def _unused_outputs(plan: ScopePlan) -> Iterator[Finding]:
    """A scope whose members can send nothing that its interface lets out."""
    algebra = algebra_for()
    possible = _possible(plan)
    for scope in plan.graph.scopes:
        inside, output = possible.get(scope.name, NOTHING), scope.interface.output
        if NOTHING in (output, inside) or not any(plan.graph.carrying(scope.name)):
            continue
        if not algebra.overlaps(inside, output):
            message = f"can never output anything: its members never send what matches {output}"
            yield Finding("warning", scope.name, message, algebra.witness(inside))


def _shortcuts(graph: ScopeGraph) -> Iterator[Finding]:
    """A member of S that is in a superscope of S as well: S's interface does not bind it."""
    for edge in graph.edges:
        if not graph.carries(edge.scope):
            continue
        for other in graph.superscopes(edge.member):
            if other != edge.scope and graph.carries(other) and other in graph.above(edge.scope):
                message = f"is also in {other}, so the interface of {edge.scope} does not bind it"
                yield Finding("warning", _edge_name(edge), message)


def _detours(graph: ScopeGraph) -> Iterator[Finding]:
    """A selective interface that another path goes around."""
    for edge in graph.edges:
        if edge.selective.output == EVERYTHING or not graph.carries(edge.scope):
            continue
        target = set(graph.above(edge.scope))
        for other in sorted(graph.superscopes(edge.member)):
            if other != edge.scope and graph.carries(other) and target & set(graph.above(other)):
                shared = sorted(target & set(graph.above(other)))[0]
                message = f"what its selective interface blocks may pass over {other} and {shared}"
                yield Finding("warning", _edge_name(edge), message)
                break


def _multiplied(plan: ScopePlan) -> Iterator[Finding]:
    """A mapped edge below a scope that is reached by several paths: one notification becomes several versions."""
    graph = plan.graph
    for edge in graph.edges:
        if not edge.mapping.outward or not graph.carries(edge.scope):
            continue
        counts = _path_counts(graph, edge.member)
        several = sorted(name for name, count in counts.items() if count > 1)
        if several:
            first = several[0]
            message = f"maps, and {counts[first]} paths lead from {edge.member} to {first}: versions multiply"
            yield Finding("warning", _edge_name(edge), message)


def _path_counts(graph: ScopeGraph, start: str) -> dict[str, int]:
    """The number of upward paths from a component to each scope above it."""
    counts = {start: 1}
    for name in (start, *(each for each in graph.above(start) if each != start)):
        for edge in graph.carrying(name):
            counts[edge.scope] = min(PATHS_COUNTED, counts.get(edge.scope, 0) + counts.get(name, 0))
    return {name: count for name, count in counts.items() if name != start}


def _rules(system: System) -> Iterator[Finding]:
    """Rules whose event no notification can be."""
    algebra = algebra_for()
    for name in sorted(system.deployed):
        for rule in system.deployed[name].rules:
            event: Event = rule.event
            if event.kind in ("pub", "con") and not algebra.overlaps(event.filter, EVERYTHING):
                yield Finding("warning", name, f"a rule waits for what cannot be: {event.filter}")
