"""A network as a drawing: a tree of text, DOT for Graphviz, and an SVG that needs nothing besides.

A link that is down is dashed; so is the border of a broker that could not be asked. A link that closes a circle,
which the brokers of a network must not have, is red.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from fairlead.network.survey import Survey

__all__ = ["described", "dot", "entries", "svg", "text", "tree"]

CLIENTS: Final = {"c:": "client", "d:": "durable"}
"""How a routing table's destinations begin that are no neighbours."""


def tree(
    root: str,
    children: Mapping[str, Sequence[str]],
    lines: Callable[[str], Sequence[str]],
    plain: bool = False,
) -> Iterator[str]:
    """A tree as text: the lines of each node, the first with its branch, the others below it."""
    last, more, down = ("`- ", "|- ", "|  ") if plain else ("└─ ", "├─ ", "│  ")

    def branch(name: str, first: str, rest: str) -> Iterator[str]:
        below = children.get(name, ())
        head, *tail = lines(name)
        yield first + head
        for line in tail:
            yield rest + (down if below else "   ") + line
        for each in below:
            is_last = each == below[-1]
            yield from branch(each, rest + (last if is_last else more), rest + ("   " if is_last else down))

    return branch(root, "", "")


def text(survey: Survey, *, tables: bool = False, plain: bool = False) -> str:
    """The brokers as a tree; with their routing tables where those were asked for."""
    parents = {each: name for name, below in survey.children().items() for each in below}

    def lines(name: str) -> list[str]:
        parent = parents.get(name)
        is_up = parent is None or survey.is_up(parent, name)
        state = "" if is_up else f"  (the link is down{survey.why_down(str(parent), name)})"
        return ["  ".join(described(survey, name)) + state, *(entries(survey, name) if tables else ())]

    drawn = [*tree(survey.first, survey.children(), lines, plain)]
    drawn += (f"{a} - {b} closes a circle: end one of its links" for a, b in survey.beside())
    drawn += (f"{each.broker} - {each.other} {each}" for each in survey.waits)
    return "\n".join([*drawn, ""])


def described(survey: Survey, name: str) -> list[str]:
    """A broker in words: its name, where it is, and what it has."""
    seen = survey.brokers[name]
    if seen.status is None:
        return [name, seen.problem]
    behind = sum(link["behind"] for link in seen.status["links"].values())
    figures = [
        _counted(seen.status["clients"] - 1, "client"),  # the one that asks is not meant
        _counted(seen.status["subscriptions"], "subscription"),
        *([f"{behind:,} behind"] if behind else ()),
    ]
    return [name, seen.url, ", ".join(figures)]


def entries(survey: Survey, name: str) -> list[str]:
    """The routing table of a broker, an entry in a line: the filter, and where what it matches goes."""
    tables = survey.brokers[name].tables or {}
    return [
        *(f"{filter} -> {_destination(to)}" for filter, to in tables.get("subscriptions", ())),
        *(f"{filter} <- {_destination(to)}" for filter, to in tables.get("advertisements", ())),
    ]


def _destination(name: str) -> str:
    kind = CLIENTS.get(name[:2])
    return name if kind is None else f"{kind} {name[2:]}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _lines(survey: Survey, name: str, tables: bool) -> list[str]:
    waits = (f"{each.other} {each}" for each in survey.waits if each.broker == name)
    return [*described(survey, name), *waits, *(entries(survey, name) if tables else ())]


# -- DOT -----------------------------------------------------------------------------------------------------


def dot(survey: Survey, *, tables: bool = False) -> str:
    """The network for Graphviz."""
    lines = ["graph network {", "  rankdir=LR;", '  node [shape=box, style=rounded, fontname="monospace"];']
    for name, seen in survey.brokers.items():
        style = ', style="rounded,dashed"' if seen.status is None else ""
        lines.append(f"  {_quoted(name)} [label={_quoted(*_lines(survey, name, tables))}{style}];")
    circles = survey.beside()
    for a, b in survey.links:
        style = "solid" if survey.is_up(a, b) else "dashed"
        colour = ", color=red" if (a, b) in circles else ""
        lines.append(f"  {_quoted(a)} -- {_quoted(b)} [style={style}{colour}];")
    return "\n".join([*lines, "}", ""])


def _quoted(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'


# -- SVG -----------------------------------------------------------------------------------------------------

_CHARACTER, _LINE, _MARGIN, _GAP = 7.3, 16, 24, 72
"""The width of a character, the height of a line, the space around all and between columns, in pixels."""
_STYLE: Final = """
text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1d2733; }
.name { font-weight: 600; }
.broker { fill: #f4f7fb; stroke: #40566f; stroke-width: 1.5; }
.link { fill: none; stroke: #40566f; stroke-width: 1.5; }
.circle { stroke: #c03434; }
.down { stroke-dasharray: 6 4; }
"""


@dataclass(frozen=True, slots=True)
class _Box:
    """Where a broker is drawn: its left edge, its middle line and its size."""

    x: float
    y: float
    width: float
    height: float


def svg(survey: Survey, *, tables: bool = False) -> str:
    """The network as a picture: the first broker on the left, its neighbours beside it, and so on."""
    written = {name: _lines(survey, name, tables) for name in survey.brokers}
    boxes = _placed(survey, written)
    width = max(box.x + box.width for box in boxes.values()) + _MARGIN
    height = max(box.y + box.height / 2 for box in boxes.values()) + _MARGIN
    circles = survey.beside()
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">',
        f"<title>{escape(', '.join(survey.brokers))}</title>",
        f"<style>{_STYLE}</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for a, b in survey.links:
        kind = f"link{'' if survey.is_up(a, b) else ' down'}{' circle' if (a, b) in circles else ''}"
        one, other = sorted((boxes[a], boxes[b]), key=lambda box: (box.x, box.y))
        parts.append(_line(one, other, kind))
    for name, box in boxes.items():
        kind = "broker down" if survey.brokers[name].status is None else "broker"
        parts.append(_broker(written[name], box, kind))
    return "\n".join([*parts, "</svg>", ""])


def _placed(survey: Survey, written: Mapping[str, Sequence[str]]) -> dict[str, _Box]:
    """Columns by the distance from the first; leaves below one another, others beside the middle of theirs."""
    children = survey.children()
    depth = {survey.first: 0}
    for name, below in _downwards(survey.first, children):
        depth.update(dict.fromkeys(below, depth[name] + 1))
    widths: dict[int, float] = {}
    for name, lines in written.items():
        width = max(map(len, lines)) * _CHARACTER + 20
        widths[depth[name]] = max(widths.get(depth[name], 0), width)
    left = {column: _MARGIN + sum(widths[each] + _GAP for each in range(column)) for column in widths}
    boxes: dict[str, _Box] = {}
    bottom = float(_MARGIN)

    def place(name: str) -> float:
        nonlocal bottom
        height = len(written[name]) * _LINE + 14
        top = bottom
        middles = [place(each) for each in children[name]]
        y = (middles[0] + middles[-1]) / 2 if middles else top + height / 2
        y = max(y, top + height / 2)
        bottom = max(bottom, y + height / 2 + _LINE)
        boxes[name] = _Box(left[depth[name]], y, widths[depth[name]], height)
        return y

    place(survey.first)
    return boxes


def _downwards(root: str, children: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Sequence[str]]]:
    ahead = [root]
    for name in ahead:
        yield name, children[name]
        ahead += children[name]


def _line(one: _Box, other: _Box, kind: str) -> str:
    if one.x == other.x:  # in one column: around, on the right
        right = max(one.x + one.width, other.x + other.width)
        return (
            f'<path class="{kind}" d="M{right:.1f} {one.y:.1f} C{right + _GAP / 2:.1f} {one.y:.1f} '
            f'{right + _GAP / 2:.1f} {other.y:.1f} {right:.1f} {other.y:.1f}"/>'
        )
    start, end = one.x + one.width, other.x
    bend = (end - start) / 2
    return (
        f'<path class="{kind}" d="M{start:.1f} {one.y:.1f} C{start + bend:.1f} {one.y:.1f} '
        f'{end - bend:.1f} {other.y:.1f} {end:.1f} {other.y:.1f}"/>'
    )


def _broker(lines: Sequence[str], box: _Box, kind: str) -> str:
    top = box.y - box.height / 2
    parts = [
        f'<rect class="{kind}" x="{box.x:.1f}" y="{top:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="10"/>'
    ]
    parts += (
        f'<text{_classed("name" if not at else "")} x="{box.x + 10:.1f}" '
        f'y="{top + 7 + (at + 0.75) * _LINE:.1f}">{escape(line)}</text>'
        for at, line in enumerate(lines)
    )
    return "".join(parts)


def _classed(name: str) -> str:
    return f' class="{name}"' if name else ""
