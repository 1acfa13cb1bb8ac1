"""Any graph can be drawn: nothing lies over anything else or outside of the frame, and nothing is left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from fairlead.drawing import Edge, Graph, Node, dot, svg, tree

SVG = "{http://www.w3.org/2000/svg}"
WORDS = st.text(st.sampled_from('ab<&"\\ '), max_size=12)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs in which every node can be reached from the first one."""
    names = [f"n{number}" for number in range(draw(st.integers(1, 8)))]
    lines = st.lists(WORDS, max_size=4).map(tuple)
    nodes = [Node(name, draw(lines), border=draw(st.sampled_from(("solid", "dashed")))) for name in names]
    ways = [(draw(st.sampled_from(names[:at])), name) for at, name in enumerate(names) if at]
    ways += draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=4))
    edges = [Edge(a, b, draw(lines), is_dashed=draw(st.booleans())) for a, b in ways]
    return Graph("some", draw(WORDS), tuple(nodes), tuple(edges), is_directed=draw(st.booleans()))


@given(graphs())
def test_nodes_lie_beside_one_another_within_the_frame(graph: Graph) -> None:
    root = ElementTree.fromstring(svg(graph))
    boxes = [
        tuple(float(rectangle.attrib[key]) for key in ("x", "y", "width", "height"))
        for rectangle in root.iter(f"{SVG}rect")
        if rectangle.get("class")
    ]
    assert len(boxes) == len(graph.nodes)
    assert len(root.findall(f"{SVG}path")) == len(graph.edges)
    for x, y, width, height in boxes:
        assert 0 <= x <= x + width <= float(root.attrib["width"])
        assert 0 <= y <= y + height <= float(root.attrib["height"])
    for (x, y, width, height), (other_x, other_y, other_width, other_height) in combinations(boxes, 2):
        assert (
            x + width <= other_x
            or other_x + other_width <= x
            or y + height <= other_y
            or other_y + other_height <= y
        )


@given(graphs())
def test_graphviz_gets_every_node_and_edge_with_its_quotes_in_pairs(graph: Graph) -> None:
    lines = dot(graph).splitlines()
    assert len(lines) == 5 + len(graph.nodes) + len(graph.edges)
    for line in lines:
        assert len(re.findall(r'(?<!\\)(?:\\\\)*"', line)) % 2 == 0


def test_a_tree_as_text() -> None:
    children: dict[str, Sequence[str]] = {"a": ("b", "d"), "b": ("c",), "c": (), "d": ()}
    assert [*tree("a", children.__getitem__, lambda name: (name, f"{name} 2"))] == [
        "a",
        "│  a 2",
        "├─ b",
        "│  │  b 2",
        "│  └─ c",
        "│        c 2",
        "└─ d",
        "      d 2",
    ]
    assert [*tree("b", children.__getitem__, lambda name: (name,), plain=True)] == ["b", "`- c"]


def test_what_cannot_be_reached_from_the_first_node_starts_in_the_first_column() -> None:
    roots = ("one", "other", "third")
    nodes = tuple(Node(name, (name,)) for name in (*roots, "shared"))
    picture = svg(Graph("forest", "", nodes, tuple(Edge(name, "shared") for name in roots)))
    at = {
        name: [*map(float, place)]
        for *place, name in re.findall(r'x="([\d.]+)" y="([\d.]+)">(\w+)<', picture)
    }
    assert at.keys() == {*roots, "shared"}
    assert len({at[name][0] for name in roots}) == 1
    assert len({at[name][1] for name in roots}) == 3
    assert at["shared"][0] > at["one"][0]
