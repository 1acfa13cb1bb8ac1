"""Graphs as drawings: a tree as text, DOT for Graphviz, and an SVG that needs nothing besides.

    Graph     a title, nodes and edges; the drawing starts with the first node
    Node      a box with lines of text, or a point, or plain text
    Edge      a line from one node to another, with what is written at it; an arrow in a directed graph

The SVG has a column for each distance from the first node. Edges that lead back pass below, loops above a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, Literal, TypeVar

__all__ = ["Edge", "Graph", "Node", "dot", "svg", "tree"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """A node: its name, and what is written in it. The node with a double border is drawn last."""

    name: str
    lines: tuple[str, ...]
    shape: Literal["box", "point", "plain"] = "box"
    border: Literal["solid", "dashed", "dotted", "double"] = "solid"


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge from one node to another, by their names; one that should not be is red."""

    source: str
    target: str
    lines: tuple[str, ...] = ()
    is_dashed: bool = False
    is_wrong: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """A drawing. It starts with the first node, and with those that cannot be reached from one before them."""

    kind: str
    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    is_directed: bool = True


# -- text ----------------------------------------------------------------------------------------------------


def tree(
    root: T,
    children: Callable[[T], Sequence[T]],
    lines: Callable[[T], Sequence[str]],
    plain: bool = False,
) -> Iterator[str]:
    """A tree as text: the lines of each node, the first with its branch, the others below it."""
    last, more, down = ("`- ", "|- ", "|  ") if plain else ("└─ ", "├─ ", "│  ")
    stack = [(root, "", "")]
    while stack:
        node, first, rest = stack.pop()
        below = children(node)
        head, *tail = lines(node)
        yield first + head
        for line in tail:
            yield rest + (down if below else "   ") + line
        for at, each in enumerate(reversed(below)):
            stack.append((each, rest + (more if at else last), rest + (down if at else "   ")))


# -- DOT -----------------------------------------------------------------------------------------------------

_DOT_NODES: Final = {"point": "shape=point", "plain": "shape=plaintext"}
_DOT_BORDERS: Final = {
    "dashed": 'style="rounded,dashed"',
    "dotted": 'style="rounded,dotted"',
    "double": "peripheries=2",
}


def dot(graph: Graph) -> str:
    """The graph for Graphviz."""
    head, line = ("digraph", "->") if graph.is_directed else ("graph", "--")
    lines = [f"{head} {graph.kind} {{", "  rankdir=LR;", f"  label={_quoted(graph.title)};"]
    lines.append('  node [shape=box, style=rounded, fontname="monospace"]; edge [fontname="monospace"];')
    for node in graph.nodes:
        looks = [_DOT_NODES.get(node.shape), _DOT_BORDERS.get(node.border)]
        lines.append(f"  {_quoted(node.name)} [{_joined(f'label={_quoted(*node.lines)}', *looks)}];")
    for edge in graph.edges:
        label = f"label={_quoted(*edge.lines)}" if edge.lines else None
        style = "style=dashed" if edge.is_dashed else "style=solid"
        looks = [label, style, "color=red" if edge.is_wrong else None]
        lines.append(f"  {_quoted(edge.source)} {line} {_quoted(edge.target)} [{_joined(*looks)}];")
    return "\n".join([*lines, "}", ""])


def _joined(*attributes: str | None) -> str:
    return ", ".join(filter(None, attributes))


def _quoted(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'


# -- SVG -----------------------------------------------------------------------------------------------------

_CHARACTER, _LINE, _MARGIN, _GAP = 7.3, 16, 24, 56
"""The width of a character, the height of a line, the space around all and between columns, in pixels."""
_STYLE: Final = """
text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1d2733; text-anchor: middle; }
.title { font-weight: 600; text-anchor: start; }
.node { fill: #f4f7fb; stroke: #40566f; stroke-width: 1.5; }
.edge { fill: none; stroke: #40566f; stroke-width: 1.5; }
.dashed { stroke-dasharray: 6 4; }
.dotted { stroke-dasharray: 2 3; }
.wrong { stroke: #c03434; }
.said { paint-order: stroke; stroke: #fff; stroke-width: 4px; }
"""
_HEAD: Final = (
    '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="#40566f"/></marker></defs>'
)


@dataclass(frozen=True, slots=True)
class _Box:
    """The box of a node in a picture: its middle, its size and its column."""

    x: float
    y: float
    width: float
    height: float
    column: int

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2

    @property
    def top(self) -> float:
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height / 2


def svg(graph: Graph) -> str:
    """The graph as a picture, from the left to the right."""
    boxes, width, height = _boxes(graph)
    width = max(width, 2 * _MARGIN + _width([graph.title]))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">',
        f"<title>{escape(graph.title)}</title>",
        f"<style>{_STYLE}</style>",
        *([_HEAD] if graph.is_directed else ()),
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text class="title" x="{_MARGIN}" y="{_MARGIN}">{escape(graph.title)}</text>',
    ]
    drawn = [_edge(graph, edge, boxes[edge.source], boxes[edge.target]) for edge in graph.edges]
    parts += (path for path, _ in drawn)
    parts += (_node(node, boxes[node.name]) for node in graph.nodes)
    parts += (said for _, said in drawn if said)
    return "\n".join([*parts, "</svg>", ""])


def _boxes(graph: Graph) -> tuple[dict[str, _Box], float, float]:
    """The boxes of the nodes, and the size of the picture."""
    tallest = max((len(edge.lines) for edge in graph.edges), default=0)
    room = (tallest + 3) * _LINE
    boxes: dict[str, _Box] = {}
    sources = _neighbours(graph, backwards=True)
    x = float(_MARGIN)
    for number, column in enumerate(_columns(graph)):
        wide = max(map(_node_width, column))
        wanted = [_mean([boxes[each].y for each in sources[node.name] if each in boxes]) for node in column]
        for node, y in zip(column, _apart(column, wanted, 2 * tallest * _LINE), strict=True):
            boxes[node.name] = _Box(x + wide / 2, y, _node_width(node), _node_height(node), number)
        names = {node.name for node in column}
        said = [_width(edge.lines) for edge in graph.edges if edge.source in names]
        x += wide + max(said, default=0) + _GAP
    above = any(edge.source == edge.target for edge in graph.edges)
    below = any(
        boxes[e.target].column <= boxes[e.source].column and e.target != e.source for e in graph.edges
    )
    highest = min(box.top for box in boxes.values())
    down = _MARGIN + _LINE + max(room if above else 0, tallest * _LINE) + 8 - highest
    boxes = {
        name: _Box(box.x, box.y + down, box.width, box.height, box.column) for name, box in boxes.items()
    }
    bottom = max(box.bottom for box in boxes.values())
    return boxes, x - _GAP + _MARGIN, bottom + _MARGIN + (room if below else tallest * _LINE)


def _columns(graph: Graph) -> list[list[Node]]:
    """The nodes by their distance from where the drawing starts, each column in the order of what leads there."""
    first = graph.nodes[0].name
    ahead = _neighbours(graph)
    distance: dict[str, int] = {}
    for start in graph.nodes:
        reached = [] if start.name in distance else [start.name]
        distance.setdefault(start.name, 0)
        for name in reached:
            for each in ahead[name]:
                if each not in distance:
                    distance[each] = distance[name] + 1
                    reached.append(each)
    last = {node.name for node in graph.nodes if node.border == "double"} - {first}
    end = max((far for name, far in distance.items() if name not in last), default=0) + 1
    distance.update(dict.fromkeys(last, end))
    columns: list[list[Node]] = [[] for _ in range(end + 1)]
    for node in graph.nodes:
        columns[distance[node.name]].append(node)
    before = _neighbours(graph, backwards=True)
    place: dict[str, float] = {}
    for column in columns:
        ranks = {
            node.name: _mean([place[each] for each in before[node.name] if each in place]) for node in column
        }
        column.sort(key=lambda node: ranks[node.name])
        place.update({node.name: at - len(column) / 2 for at, node in enumerate(column)})
    return [column for column in columns if column]


def _neighbours(graph: Graph, *, backwards: bool = False) -> Mapping[str, list[str]]:
    """The nodes that the edges of each node lead to, or come from; in a graph without directions both."""
    found: dict[str, list[str]] = {node.name: [] for node in graph.nodes}
    for edge in graph.edges:
        if not (graph.is_directed and backwards):
            found[edge.source].append(edge.target)
        if not graph.is_directed or backwards:
            found[edge.target].append(edge.source)
    return found


def _apart(column: Sequence[Node], wanted: Sequence[float], least: float) -> list[float]:
    """The middles of a column's nodes: as near as can be to what is wanted, in order and without overlap."""
    slots = [max(_node_height(node) + _LINE, least) + 8 for node in column]
    middles: list[float] = []
    for at, want in enumerate(wanted):
        free = middles[-1] + (slots[at - 1] + slots[at]) / 2 if middles else want
        middles.append(max(want, free))
    shift = _mean(wanted) - _mean(middles)
    return [middle + shift for middle in middles]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _width(lines: Sequence[str]) -> float:
    return max(map(len, lines), default=0) * _CHARACTER


def _node_width(node: Node) -> float:
    return 12 if node.shape == "point" else max(_width(node.lines) + 20, 44)


def _node_height(node: Node) -> float:
    return max(len(node.lines), 1) * _LINE + 14


def _node(node: Node, box: _Box) -> str:
    if node.shape == "point":
        return f'<circle cx="{box.x:.1f}" cy="{box.y:.1f}" r="5" fill="#40566f"/>'
    kind = f"node {node.border}" if node.border in ("dashed", "dotted") else "node"
    insets = () if node.shape == "plain" else (0, 3) if node.border == "double" else (0,)
    shapes = [_rectangle(box, inset, kind) for inset in insets]
    return "".join([*shapes, _text(node.lines, box.x, box.y - (len(node.lines) - 1) * _LINE / 2 + 4)])


def _rectangle(box: _Box, inset: float, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{box.left + inset:.1f}" y="{box.top + inset:.1f}" '
        f'width="{box.width - 2 * inset:.1f}" height="{box.height - 2 * inset:.1f}" rx="10"/>'
    )


def _text(lines: Sequence[str], x: float, y: float, kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return "".join(
        f'<text{of_kind} x="{x:.1f}" y="{y + at * _LINE:.1f}">{escape(line)}</text>'
        for at, line in enumerate(lines)
    )


def _edge(graph: Graph, edge: Edge, source: _Box, target: _Box) -> tuple[str, str]:
    """The line and what is written at it: forward as a curve, round a node above it, backward below all."""
    if not graph.is_directed and target.column < source.column:
        source, target = target, source
    height = len(edge.lines) * _LINE
    if edge.source == edge.target:
        path = f"M{source.x - 10:.1f} {source.top:.1f} C{source.x - 40:.1f} {source.top - 44:.1f} " + (
            f"{source.x + 40:.1f} {source.top - 44:.1f} {source.x + 10:.1f} {source.top:.1f}"
        )
        x, y = source.x, source.top - 38 - height + _LINE
    elif target.column > source.column:
        over = 0.0
        if target.column - source.column > 1:  # around what stands between, on the side that it comes from
            over = (0.9 if source.y > target.y else -0.9) * max(source.height, height + _LINE)
        bend = max((target.left - source.right) / 2, 20)
        path = f"M{source.right:.1f} {source.y:.1f} C{source.right + bend:.1f} {source.y + over:.1f} " + (
            f"{target.left - bend:.1f} {target.y + over:.1f} {target.left:.1f} {target.y:.1f}"
        )
        x = (source.right + target.left) / 2
        y = (source.y + target.y) / 2 + 0.75 * over + (14 if over > 0 else 10 - height)
    elif not graph.is_directed:  # in one column: around, on the right
        right = max(source.right, target.right)
        path = f"M{source.right:.1f} {source.y:.1f} C{right + _GAP / 2:.1f} {source.y:.1f} " + (
            f"{right + _GAP / 2:.1f} {target.y:.1f} {target.right:.1f} {target.y:.1f}"
        )
        x, y = right + _GAP / 2, (source.y + target.y) / 2
    else:
        deep = max(source.bottom, target.bottom) + 50
        path = f"M{source.x:.1f} {source.bottom:.1f} C{source.x:.1f} {deep:.1f} " + (
            f"{target.x:.1f} {deep:.1f} {target.x:.1f} {target.bottom:.1f}"
        )
        x, y = (source.x + target.x) / 2, (source.bottom + target.bottom) / 8 + 0.75 * deep + 14
    kind = f"edge{' dashed' if edge.is_dashed else ''}{' wrong' if edge.is_wrong else ''}"
    head = ' marker-end="url(#head)"' if graph.is_directed else ""
    return f'<path class="{kind}" d="{path}"{head}/>', _text(edge.lines, x, y, "said")
