"""Scope graphs as drawings (`fairlead.drawing`): as text, for Graphviz, and as an SVG that needs nothing besides.

Superscopes stand before their members: above them in text, to the left of them in pictures. A scope that is
reached over several superscopes is written once in text, and named again where it is met again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairlead import drawing
from fairlead.filters import Filter
from fairlead.scopes.graph import DEFAULT, Node, Scope, ScopeGraph
from fairlead.scopes.interfaces import CLOSED, OPEN, Edge, Interface
from fairlead.scopes.language.printer import name_text, policy_text, side_text, step_text
from fairlead.scopes.mappings import IDENTITY
from fairlead.scopes.policies import Direction, Traverse

__all__ = ["dot", "edge_lines", "node_lines", "svg", "text"]


def _shown(graph: ScopeGraph) -> list[str]:
    """The components that are drawn: all but a `default` that nobody was put into."""
    return [name for name in graph.names if name != DEFAULT or graph.members(DEFAULT)]


def _interface(interface: Interface) -> str:
    if interface == OPEN:
        return "open"
    if interface == CLOSED:
        return "closed"
    return f"in({_side(interface.input)}) out({_side(interface.output)})"


def _side(filter: Filter) -> str:
    return side_text(filter)


def node_lines(node: Node) -> list[str]:
    """The lines below the name of a component or scope."""
    lines = []
    if isinstance(node, Scope):
        lines.append("abstract" if node.abstract else _interface(node.interface))
        if node.imposed != OPEN:
            lines.append(f"imposes {_interface(node.imposed)}")
        if node.traverse is not Traverse.BROADCAST:
            lines.append(f"traverse {node.traverse.value}")
        for direction, policies in ((Direction.DELIVERY, node.delivery), (Direction.INTERNAL, node.internal)):
            lines += (policy_text(direction, policy) for policy in policies)
    elif node.interface != OPEN:
        lines.append(_interface(node.interface))
    lines += (policy_text(Direction.PUBLISHING, policy) for policy in node.publishing)
    if node.roles:
        lines.append(f"roles {', '.join(sorted(node.roles))}")
    return lines


def edge_lines(edge: Edge) -> list[str]:
    """The lines of an edge, besides its ends."""
    lines = []
    if edge.selective != OPEN:
        lines.append(f"selective {_interface(edge.selective)}")
    if edge.imposed != OPEN:
        lines.append(f"imposed {_interface(edge.imposed)}")
    if edge.mapping != IDENTITY:
        for word, steps in (("outward", edge.mapping.outward), ("inward", edge.mapping.inward)):
            if steps:
                lines.append(f"{word} {{ {', '.join(map(step_text, steps))} }}")
    return lines


_WIDTH_MAX: Final = 48
"""The length of the longest line in a picture; longer ones are cut."""


@dataclass(frozen=True, slots=True)
class _Branch:
    """A line of text, and the branches below it."""

    line: str
    below: tuple[_Branch, ...] = ()


def text(graph: ScopeGraph, *, plain: bool = False) -> str:
    """The graph as a tree from its roots down, with interfaces, mappings and policies."""
    seen: set[str] = set()
    branches = [_branch(graph, name, None, seen) for name in _shown(graph) if not graph.superscopes(name)]
    lines = [
        line
        for branch in branches
        for line in drawing.tree(branch, lambda each: each.below, lambda each: [each.line], plain)
    ]
    return "\n".join([*lines, ""])


def _branch(graph: ScopeGraph, name: str, edge: Edge | None, seen: set[str]) -> _Branch:
    node = graph.node(name)
    if not isinstance(node, Scope):
        return _Branch(_line(node, edge))
    if name in seen:
        return _Branch(f"{name_text(name)}/ (above)")
    seen.add(name)
    edges = graph.members(name)
    members = sorted(edges, key=lambda each: (graph.is_scope(each), each))
    below = tuple([_branch(graph, member, edges[member], seen) for member in members])
    return _Branch(_line(node, edge), below)


def _line(node: Node, edge: Edge | None) -> str:
    notes = node_lines(node) + ([] if edge is None else edge_lines(edge))
    shown = name_text(node.name) + ("/" if isinstance(node, Scope) else "")
    return f"{shown}{'  ' + '; '.join(notes) if notes else ''}"


def dot(graph: ScopeGraph) -> str:
    """The graph for Graphviz."""
    return drawing.dot(_drawn(graph))


def svg(graph: ScopeGraph) -> str:
    """The graph as a picture, each name once."""
    return drawing.svg(_drawn(graph))


def _drawn(graph: ScopeGraph) -> drawing.Graph:
    """A box for each scope, dotted where it is abstract, a name for each component, and lines to their members."""
    names = sorted(_shown(graph) or [DEFAULT], key=lambda name: bool(graph.superscopes(name)))
    edges = [drawing.Edge(edge.scope, edge.member, (*map(_cut, edge_lines(edge)),)) for edge in graph.edges]
    return drawing.Graph(
        "scopes", "scope graph", tuple([_box(graph.node(name)) for name in names]), tuple(edges)
    )


def _box(node: Node) -> drawing.Node:
    lines = (*map(_cut, (node.name, *node_lines(node))),)
    if not isinstance(node, Scope):
        return drawing.Node(node.name, lines, "plain")
    return drawing.Node(node.name, lines, border="dotted" if node.abstract else "solid")


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH_MAX else f"{line[: _WIDTH_MAX - 1]}…"
