"""Detection automata as drawings: DOT for Graphviz, and an SVG that needs nothing besides.

    solid arrow        strong: what is taken lies wholly behind what was taken last
    dashed arrow       weak: it may overlap
    double border      the composite event is there (the generative state of book 7.4.1)
    dotted border      a timer or a window runs (the book's time states)

An arrow says what is taken, which conditions are asked, which timers start, and which windows must not have
passed; a state says on what it fails. States are numbered as in the automaton, from S0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from fairlead.correlation.patterns.automaton import ACCEPTED, Automaton, Move, State
from fairlead.correlation.patterns.durations import render_duration, render_moment
from fairlead.correlation.patterns.model import Atom
from fairlead.correlation.patterns.printer import render_condition, render_event, render_events

__all__ = ["Diagram", "Edge", "Node", "diagram", "dot", "svg"]

STATES: Final = 60
"""How many states are drawn unless more are asked for."""
START, END, MORE = "start", "composite", "more"


@dataclass(frozen=True, slots=True)
class Node:
    """A state: its name, and what is written in it."""

    name: str
    lines: tuple[str, ...]
    is_timed: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow from one node to another, by their names."""

    source: str
    target: str
    lines: tuple[str, ...]
    is_strong: bool = False


@dataclass(frozen=True, slots=True)
class Diagram:
    """What is drawn; the first node is where it starts, the last one where the composite event is."""

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def diagram(automaton: Automaton, states: int = STATES) -> Diagram:
    """The states of an automaton, as many as are asked for, and how one leads to another."""
    found = automaton.explored(states)
    shown = {state.number for state in found}
    edges = [Edge(START, f"S{number}", ()) for number in automaton.initial]
    for state in found:
        edges += (_edge(automaton, state, move, shown) for move in automaton.possible(state))
    nodes = [Node(START, ()), *(_node(automaton, state) for state in found)]
    if any(edge.target == MORE for edge in edges):
        nodes.append(Node(MORE, ("…",)))
    nodes.append(Node(END, (automaton.pattern.name,)))
    return Diagram(str(automaton.pattern), tuple(nodes), tuple(_merged(edges)))


def _node(automaton: Automaton, state: State) -> Node:
    steps = [automaton.steps[number].atom for number in state.atoms]
    lines = [f"S{state.number}", *(f"fails on {each}" for atom in steps for each in _failing(atom))]
    is_timed = any(register in automaton.timer_names for register in state.live)
    return Node(f"S{state.number}", tuple(dict.fromkeys(lines)), is_timed)


def _failing(atom: Atom) -> Iterator[str]:
    if atom.domain is not None:
        yield render_events(atom.domain)
    yield from sorted(atom.domain_timers)


def _edge(automaton: Automaton, state: State, move: Move, shown: set[int]) -> Edge:
    target = END if move.state == ACCEPTED else f"S{move.state}" if move.state in shown else MORE
    lines = [_taken(automaton.steps[number].atom) for number in move.took]
    lines += (f"if {each}" for each in _asked(automaton, move))
    for register in move.armed:
        spec = automaton.timer_specs[register]
        time = render_duration(spec) if isinstance(spec, int) else render_moment(spec)
        lines.append(f"start {automaton.timer_names[register]} = {time}")
    windows = [duration for _, duration in move.closed] + ([] if move.bound is None else [move.bound])
    lines += (f"within {render_duration(each)}" for each in windows)
    is_strong = any(state.strong >> number & 1 for number in move.took)
    return Edge(f"S{state.number}", target, tuple(lines), is_strong)


def _asked(automaton: Automaton, move: Move) -> Iterator[str]:
    """The conditions that may be asked on a move: those whose other steps can have been taken before."""
    repeated = automaton.pattern.repeated_steps
    for number in move.took:
        before = {step.atom.step for step in automaton.steps[: number + 1]} | repeated
        for question in (*automaton.steps[number].questions, *automaton.steps[number].deferred):
            if question.condition.steps <= before:
                yield render_condition(question.condition)
    if move.state == ACCEPTED:
        yield from (render_condition(question.condition) for question in automaton.final)


def _taken(atom: Atom) -> str:
    events = [] if atom.filter is None else [render_event(atom.filter)]
    what = " or ".join([*events, *sorted(atom.timers)])
    return what if what == atom.step else f"{atom.step}: {what}"


def _merged(edges: Iterable[Edge]) -> Iterator[Edge]:
    """Arrows between the same nodes as one, with all that they say."""
    found: dict[tuple[str, str, bool], list[str]] = {}
    for edge in edges:
        lines = found.setdefault((edge.source, edge.target, edge.is_strong), [])
        lines += ["or", *edge.lines] if lines else edge.lines
    for (source, target, is_strong), lines in found.items():
        yield Edge(source, target, tuple(lines), is_strong)


# -- DOT -----------------------------------------------------------------------------------------------------


def dot(automaton: Automaton, states: int = STATES) -> str:
    """The automaton for Graphviz."""
    drawn = diagram(automaton, states)
    lines = ["digraph automaton {", "  rankdir=LR;", f"  label={_dot_text([drawn.title])};"]
    lines.append('  node [shape=box, style=rounded, fontname="monospace"]; edge [fontname="monospace"];')
    for node in drawn.nodes:
        shape = {START: "shape=point", END: "peripheries=2", MORE: "shape=plaintext"}.get(node.name, "")
        style = 'style="rounded,dotted"' if node.is_timed else ""
        lines.append(
            f"  {node.name} [{', '.join(filter(None, (f'label={_dot_text(node.lines)}', shape, style)))}];"
        )
    for edge in drawn.edges:
        style = "solid" if edge.is_strong or edge.source == START else "dashed"
        lines.append(f"  {edge.source} -> {edge.target} [label={_dot_text(edge.lines)}, style={style}];")
    return "\n".join([*lines, "}", ""])


def _dot_text(lines: Sequence[str]) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'


# -- SVG -----------------------------------------------------------------------------------------------------

_CHARACTER, _LINE, _MARGIN = 7.3, 16, 24
"""The width of a character, the height of a line, and the space around all, in pixels."""
_STYLE: Final = """
text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1d2733; }
.title { font-weight: 600; }
.state { fill: #f4f7fb; stroke: #40566f; stroke-width: 1.5; }
.timed { stroke-dasharray: 2 3; }
.arrow { fill: none; stroke: #40566f; stroke-width: 1.5; }
.weak { stroke-dasharray: 6 4; }
.said { paint-order: stroke; stroke: #fff; stroke-width: 4px; }
"""


@dataclass(frozen=True, slots=True)
class _Box:
    """Where a node is drawn: its middle and its size."""

    x: float
    y: float
    width: float
    height: float
    column: int


def svg(automaton: Automaton, states: int = STATES) -> str:
    """The automaton as a picture: columns by the number of steps, from the left to the right."""
    drawn = diagram(automaton, states)
    boxes, width, height = _placed(drawn)
    width = max(width, 2 * _MARGIN + _width([drawn.title]))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">',
        f"<title>{escape(drawn.title)}</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="#40566f"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text class="title" x="{_MARGIN}" y="{_MARGIN}">{escape(drawn.title)}</text>',
    ]
    arrows = [_arrow(edge, boxes[edge.source], boxes[edge.target]) for edge in drawn.edges]
    parts += (path for path, _ in arrows)
    parts += (_state(node, boxes[node.name]) for node in drawn.nodes)
    parts += (said for _, said in arrows)
    return "\n".join([*parts, "</svg>", ""])


def _placed(drawn: Diagram) -> tuple[dict[str, _Box], float, float]:
    """Where the nodes stand, and how large the picture is."""
    columns = _columns(drawn)
    tallest = max((len(edge.lines) for edge in drawn.edges), default=1)
    row = max(2 * tallest * _LINE, max(len(node.lines) for node in drawn.nodes) * _LINE + 2 * _LINE) + 8
    most = max(map(len, columns))
    room = (tallest + 3) * _LINE
    above = any(edge.source == edge.target for edge in drawn.edges)
    top = _MARGIN + _LINE + (room if above else 0)
    boxes: dict[str, _Box] = {}
    x = float(_MARGIN)
    for number, column in enumerate(columns):
        width = max(_node_width(node) for node in column)
        for place, node in enumerate(column):
            y = top + (most - len(column)) * row / 2 + (place + 0.5) * row
            height = max(len(node.lines), 1) * _LINE + 14
            boxes[node.name] = _Box(x + width / 2, y, _node_width(node), height, number)
        names = {node.name for node in column}
        said = [_width(edge.lines) for edge in drawn.edges if edge.source in names]
        x += width + max((each for each in said), default=0) + 56
    below = any(
        boxes[e.target].column <= boxes[e.source].column and e.target != e.source for e in drawn.edges
    )
    return boxes, x, top + most * row + (room if below else 0)


def _columns(drawn: Diagram) -> list[list[Node]]:
    """The nodes by their distance from the start, the composite last; in a column near those that lead there."""
    distance = {START: 0}
    ahead = [START]
    while ahead:
        reached = [e.target for e in drawn.edges if e.source in ahead and e.target not in distance]
        depth = distance[ahead[0]] + 1
        distance.update(dict.fromkeys(reached, depth))
        ahead = list(dict.fromkeys(reached))
    distance[END] = max((d for name, d in distance.items() if name != END), default=0) + 1
    columns: list[list[Node]] = [[] for _ in range(distance[END] + 1)]
    for node in drawn.nodes:
        columns[distance[node.name]].append(node)
    place: dict[str, float] = {}
    for column in columns:
        before = {
            n.name: [place[e.source] for e in drawn.edges if e.target == n.name and e.source in place]
            for n in column
        }
        column.sort(
            key=lambda node: sum(before[node.name]) / len(before[node.name]) if before[node.name] else 0
        )
        place.update({node.name: at - len(column) / 2 for at, node in enumerate(column)})
    return [column for column in columns if column]


def _width(lines: Sequence[str]) -> float:
    return max(map(len, lines), default=0) * _CHARACTER


def _node_width(node: Node) -> float:
    return 12 if node.name == START else max(_width(node.lines) + 20, 44)


def _state(node: Node, box: _Box) -> str:
    if node.name == START:
        return f'<circle cx="{box.x:.1f}" cy="{box.y:.1f}" r="5" fill="#40566f"/>'
    shapes = [_rectangle(box, 0, "state timed" if node.is_timed else "state")]
    if node.name == END:
        shapes.append(_rectangle(box, 3, "state"))
    top = box.y - (len(node.lines) - 1) * _LINE / 2 + 4
    return "".join([*shapes, _text(node.lines, box.x, top, "")])


def _rectangle(box: _Box, inset: float, kind: str) -> str:
    x, y = box.x - box.width / 2 + inset, box.y - box.height / 2 + inset
    width, height = box.width - 2 * inset, box.height - 2 * inset
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="10"/>'


def _text(lines: Sequence[str], x: float, y: float, kind: str) -> str:
    return "".join(
        f'<text class="{kind}" x="{x:.1f}" y="{y + at * _LINE:.1f}" text-anchor="middle">{escape(line)}</text>'
        for at, line in enumerate(lines)
    )


def _arrow(edge: Edge, source: _Box, target: _Box) -> tuple[str, str]:
    """The line and what is written at it: forward as a curve, round a state above it, backward below all."""
    right, left = source.x + source.width / 2, target.x - target.width / 2
    height = len(edge.lines) * _LINE
    if edge.source == edge.target:
        top = source.y - source.height / 2
        path = f"M{source.x - 10:.1f} {top:.1f} C{source.x - 40:.1f} {top - 44:.1f} " + (
            f"{source.x + 40:.1f} {top - 44:.1f} {source.x + 10:.1f} {top:.1f}"
        )
        x, y = source.x, top - 38 - height + _LINE
    elif target.column > source.column:
        is_below = source.y > target.y
        over = 0.0
        if target.column - source.column > 1:  # around what stands between, on the side that it comes from
            over = (0.9 if is_below else -0.9) * max(source.height, height + _LINE)
        bend = max((left - right) / 2, 20)
        path = f"M{right:.1f} {source.y:.1f} C{right + bend:.1f} {source.y + over:.1f} " + (
            f"{left - bend:.1f} {target.y + over:.1f} {left:.1f} {target.y:.1f}"
        )
        x, y = (right + left) / 2, (source.y + target.y) / 2 + 0.75 * over + (14 if over > 0 else 10 - height)
    else:
        bottom, end = source.y + source.height / 2, target.y + target.height / 2
        deep = max(bottom, end) + 50
        path = f"M{source.x:.1f} {bottom:.1f} C{source.x:.1f} {deep:.1f} {target.x:.1f} {deep:.1f} " + (
            f"{target.x:.1f} {end:.1f}"
        )
        x, y = (source.x + target.x) / 2, (bottom + end) / 8 + 0.75 * deep + 14
    kind = "arrow" if edge.is_strong or edge.source == START else "arrow weak"
    return f'<path class="{kind}" d="{path}" marker-end="url(#head)"/>', _text(edge.lines, x, y, "said")
