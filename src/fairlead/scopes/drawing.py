"""Scope graphs as text, for Graphviz, and as an SVG that needs nothing besides.

Superscopes stand above their members. A scope that is reached over several superscopes is written once in text,
and named again where it is met again.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from fairlead.filters import Filter
from fairlead.scopes.graph import DEFAULT, Component, Node, Scope, ScopeGraph
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


# -- text ------------------------------------------------------------------------------------------------------


def text(graph: ScopeGraph, *, plain: bool = False) -> str:
    """The graph as a tree from its roots down, with interfaces, mappings and policies."""
    names = _shown(graph)
    roots = [name for name in names if not graph.superscopes(name)]
    seen: set[str] = set()
    return "\n".join(line for root in roots for line in _branch(graph, root, None, seen, plain=plain)) + "\n"


_LINES: Final = (
    (("├─ ", "│  "), ("└─ ", "   ")),
    (("|- ", "|  "), ("`- ", "   ")),
)
"""How a branch begins and goes on: for terminals with and without Unicode, for members and for the last one."""


def _branch(graph: ScopeGraph, name: str, edge: Edge | None, seen: set[str], *, plain: bool) -> Iterator[str]:
    node = graph.node(name)
    notes = node_lines(node) + ([] if edge is None else edge_lines(edge))
    again = isinstance(node, Scope) and name in seen
    shown = name_text(name) + ("/" if isinstance(node, Scope) else "")
    if again:
        yield f"{shown} (above)"
        return
    yield f"{shown}{'  ' + '; '.join(notes) if notes else ''}"
    seen.add(name)
    if not isinstance(node, Scope):
        return
    members = sorted(graph.members(name), key=lambda each: (graph.is_scope(each), each))
    for number, member in enumerate(members):
        last = number == len(members) - 1
        branch, rest = _LINES[plain][last]
        inner = _branch(graph, member, graph.members(name)[member], seen, plain=plain)
        for place, line in enumerate(inner):
            yield f"{rest if place else branch}{line}"


# -- DOT -------------------------------------------------------------------------------------------------------


def dot(graph: ScopeGraph) -> str:
    """The graph for Graphviz: an arrow from a member to its superscope."""
    lines = [
        "digraph scopes {",
        "  rankdir=BT;",
        '  node [fontname="monospace"]; edge [fontname="monospace"];',
    ]
    for name in _shown(graph):
        node = graph.node(name)
        style = "shape=ellipse"
        if isinstance(node, Scope):
            style = "shape=box, style=dotted" if node.abstract else "shape=box"
        lines.append(f"  {_quoted(name)} [label={_quoted(name, *node_lines(node))}, {style}];")
    for edge in graph.edges:
        label = edge_lines(edge)
        attributes = f" [label={_quoted(*label)}]" if label else ""
        lines.append(f"  {_quoted(edge.member)} -> {_quoted(edge.scope)}{attributes};")
    return "\n".join([*lines, "}", ""])


def _quoted(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'


# -- SVG -------------------------------------------------------------------------------------------------------

_CHARACTER, _LINE, _MARGIN, _GAP = 7.3, 16, 24, 48
_WIDTH_MAX: Final = 48
_STYLE: Final = """
text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1d2733; }
.name { font-weight: 600; }
.scope { fill: #f4f7fb; stroke: #40566f; stroke-width: 1.5; }
.component { fill: #fff; stroke: #8aa0b8; stroke-width: 1; }
.abstract { stroke-dasharray: 2 3; }
.edge { fill: none; stroke: #40566f; stroke-width: 1.2; }
.said { paint-order: stroke; stroke: #fff; stroke-width: 4px; font-size: 11px; }
"""


def svg(graph: ScopeGraph) -> str:
    """The graph as a picture: each name once, in the row of its depth, roots on top."""
    names = _shown(graph)
    depth: dict[str, int] = {}

    for name in reversed(graph_order(graph, names)):
        depth[name] = 1 + max((depth[scope] for scope in graph.superscopes(name)), default=-1)
    written = {name: [_cut(name), *map(_cut, node_lines(graph.node(name)))] for name in names}
    rows: list[list[str]] = [[] for _ in range(1 + max(depth.values(), default=0))]
    for name in names:
        rows[depth[name]].append(name)
    boxes: dict[str, tuple[float, float, float, float]] = {}
    top, width = float(_MARGIN), 0.0
    for row in rows:
        left = float(_MARGIN)
        height = max((len(written[name]) for name in row), default=0) * _LINE + 12.0
        for name in row:
            wide = max(len(line) for line in written[name]) * _CHARACTER + 16
            boxes[name] = (left, top, wide, len(written[name]) * _LINE + 12.0)
            left += wide + _MARGIN
        width, top = max(width, left), top + height + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {top:.0f}" '
        f'width="{width:.0f}" height="{top:.0f}" role="img">',
        "<title>scope graph</title>",
        f"<style>{_STYLE}</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        *(_line(edge, boxes) for edge in graph.edges),
        *(_box(graph.node(name), written[name], boxes[name]) for name in names),
    ]
    return "\n".join([*parts, "</svg>", ""])


def graph_order(graph: ScopeGraph, names: list[str]) -> list[str]:
    """Names with members before their superscopes, abstract scopes included."""
    order: list[str] = []
    done: set[str] = set()
    stack = [(name, False) for name in names]
    while stack:
        name, ready = stack.pop()
        if ready:
            order.append(name)
        elif name not in done:
            done.add(name)
            stack.append((name, True))
            stack += [(scope, False) for scope in graph.superscopes(name) if scope not in done]
    return order[::-1]


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH_MAX else f"{line[: _WIDTH_MAX - 1]}…"


def _box(node: Node, lines: list[str], box: tuple[float, float, float, float]) -> str:
    left, top, wide, high = box
    kind = "component" if isinstance(node, Component) else "scope abstract" if node.abstract else "scope"
    corner = 10 if isinstance(node, Component) else 3
    said = "".join(
        f'<text{" class=" + chr(34) + "name" + chr(34) if not number else ""} x="{left + 8:.0f}" '
        f'y="{top + 18 + number * _LINE:.0f}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return (
        f'<g><rect class="{kind}" x="{left:.0f}" y="{top:.0f}" width="{wide:.0f}" height="{high:.0f}" '
        f'rx="{corner}"/>{said}</g>'
    )


def _line(edge: Edge, boxes: dict[str, tuple[float, float, float, float]]) -> str:
    (x1, y1, w1, _), (x2, y2, w2, h2) = boxes[edge.member], boxes[edge.scope]
    ax, ay, bx, by = x1 + w1 / 2, y1, x2 + w2 / 2, y2 + h2
    said = "".join(
        f'<text class="said" x="{(ax + bx) / 2 + 4:.0f}" y="{(ay + by) / 2 + number * 13:.0f}">'
        f"{escape(_cut(line))}</text>"
        for number, line in enumerate(edge_lines(edge))
    )
    return f'<path class="edge" d="M{ax:.0f} {ay:.0f}L{bx:.0f} {by:.0f}"/>{said}'
