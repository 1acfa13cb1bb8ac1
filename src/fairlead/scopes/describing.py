"""The statements that describe a scope graph: what was made by changes, or in Python, as text again.

Law: the graph that the statements make delivers as the graph does. They make the same graph, but for policies
that are limited to some and name others than members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from fairlead.filters import EVERYTHING, NOTHING, Filter
from fairlead.scopes.graph import DEFAULT, Component, Node, Scope, ScopeGraph
from fairlead.scopes.interfaces import OPEN, Edge, Interface
from fairlead.scopes.language.statements import (
    Alter,
    Border,
    Define,
    Features,
    Join,
    Properties,
    Selection,
    Source,
    Statement,
)
from fairlead.scopes.mappings import IDENTITY
from fairlead.scopes.policies import Direction, Policy, Traverse

__all__ = ["statements_of"]


def statements_of(graph: ScopeGraph) -> tuple[Statement, ...]:
    """Statements that make the same graph, superscopes first."""
    return tuple(_statements(graph))


def _statements(graph: ScopeGraph) -> Iterator[Statement]:
    scopes = [scope for scope in graph.scopes if scope.name != DEFAULT]
    for scope in scopes:
        yield Define(scope.name, (), _features(scope), abstract=scope.abstract)
    for scope in scopes:
        for selection in _upwards(scope, graph.superscopes(scope.name).values()):
            yield Alter(scope.name, "add", (selection,))
    for component in graph.components:
        edges = list(graph.superscopes(component.name).values())
        whole = _features(component)
        if edges and whole == Features() and all(edge.is_plain for edge in edges):
            yield from (Join(component.name, edge.scope) for edge in edges)
        else:
            policies = tuple(_limited(component.publishing, graph.superscopes(component.name)))
            yield Define(component.name, (*_upwards(component, edges), *policies), whole, component=True)
    for scope in scopes:
        yield from _downwards(scope, graph.members(scope.name).values())
        yield from _policies(graph, scope)
        if scope.admits != EVERYTHING:  # last: those who are members already need not be admitted again
            yield Alter(scope.name, "", (), Features(admits=scope.admits))


def _features(node: Node) -> Features:
    """All but what stands with selections; of a scope, without its policies."""
    missing = NOTHING if isinstance(node, Scope) else EVERYTHING
    return Features(
        border=_border(node.interface, missing),
        imposed=_border(node.imposed, EVERYTHING) if isinstance(node, Scope) else Border(),
        roles=tuple(sorted(node.roles)),
        attributes=tuple(node.attributes.items()),
        policies=() if isinstance(node, Scope) else tuple(_plain(Direction.PUBLISHING, node.publishing)),
        traverse=node.traverse
        if isinstance(node, Scope) and node.traverse is not Traverse.BROADCAST
        else None,
        outward=None if node.mapping == IDENTITY else node.mapping.outward,
        inward=None if node.mapping == IDENTITY else node.mapping.inward,
    )


def _border(interface: Interface, missing: Filter) -> Border:
    return Border(
        None if interface.input == missing else interface.input,
        None if interface.output == missing else interface.output,
    )


def _upwards(node: Component | Scope, edges: Iterable[Edge]) -> Iterator[Selection]:
    for edge in sorted(edges, key=lambda each: each.scope):
        inherited = edge.mapping == node.mapping
        properties = Properties(
            _border(edge.selective, EVERYTHING),
            outward=None if inherited else edge.mapping.outward,
            inward=None if inherited else edge.mapping.inward,
        )
        yield Selection((Source(edge.scope),), superscopes=True, properties=properties)


def _downwards(scope: Scope, edges: Iterable[Edge]) -> Iterator[Statement]:
    for edge in sorted(edges, key=lambda each: each.member):
        if edge.imposed != OPEN:
            properties = Properties(_border(edge.imposed, EVERYTHING))
            yield Alter(scope.name, "add", (Selection((Source(edge.member),), properties=properties),))


def _plain(direction: Direction, policies: Iterable[Policy]) -> Iterator[tuple[Direction, Policy]]:
    return ((direction, each) for each in policies if each.among is None)


def _limited(policies: Iterable[Policy], superscopes: Collection[str]) -> Iterator[Selection]:
    for each in policies:
        if each.among is not None and (among := sorted(each.among.intersection(superscopes))):
            properties = Properties(policies=((Direction.PUBLISHING, Policy(each.choice, each.when)),))
            yield Selection(tuple(map(Source, among)), superscopes=True, properties=properties)


def _policies(graph: ScopeGraph, scope: Scope) -> Iterator[Statement]:
    """One statement for each policy: the first that is about a notification decides, so their order counts."""
    for direction in Direction:
        upward = direction is Direction.PUBLISHING
        others = graph.superscopes(scope.name) if upward else graph.members(scope.name)
        for policy in getattr(scope, direction.value):
            whole = ((direction, Policy(policy.choice, policy.when)),)
            if policy.among is None:
                yield Alter(scope.name, "add", (), Features(policies=whole))
            elif among := sorted(policy.among.intersection(others)):
                sources = tuple(map(Source, among))
                selection = Selection(sources, superscopes=upward, properties=Properties(policies=whole))
                yield Alter(scope.name, "add", (selection,))
