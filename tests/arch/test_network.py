"""The parts of a node get what they need as arguments: none of them names the node, or holds one."""

from __future__ import annotations

import ast
from pathlib import Path

import fairlead.network
from fairlead.network.node import Node
from fairlead_lab.testing.nodes import Line
from fairlead_lab.testing.sources import nodes_of

MODULES = sorted(Path(fairlead.network.__file__).parent.glob("*.py"))
DRIVERS = {"node", "server"}
"""The node itself, and the module that drives it."""


def names_of_a_node(module: Path) -> set[str]:
    """What a module imports of the node's, and its attributes that are called like one."""
    names = set()
    for node in nodes_of(module):
        match node:
            case ast.ImportFrom(module="fairlead.network.node", names=imported):
                names.update(each.name for each in imported)
            case ast.Attribute(attr="node" | "_node" as name):
                names.add(name)
    return names


def test_no_part_of_a_node_names_it() -> None:
    named = {each.stem: names_of_a_node(each) for each in MODULES if each.stem not in DRIVERS}
    assert {module: names for module, names in named.items() if names} == {}


def test_no_part_of_a_node_holds_it() -> None:
    line = Line(2)
    [node, _] = line.nodes
    line.client(0, "c")
    parts = [
        *vars(node).values(),
        *vars(node.neighbourhood).values(),
        *node.sessions,
        *node.links.values(),
    ]
    assert len(parts) > 30
    for part in parts:
        for name, value in _attributes(part):
            assert not isinstance(getattr(value, "__self__", value), Node), f"{type(part).__name__}.{name}"


def _attributes(part: object) -> list[tuple[str, object]]:
    slots = [name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())]
    named = {name: getattr(part, name, None) for name in slots} | getattr(part, "__dict__", {})
    return [(name, value) for name, value in named.items() if name != "peer"]
