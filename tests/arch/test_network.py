"""The parts of a node get what they need as arguments: none of them names the node, or holds one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fairlead.network
from fairlead.network.node import Node
from fairlead_lab.testing.nodes import Line

MODULES = sorted(Path(fairlead.network.__file__).parent.glob("*.py"))
DRIVERS = {"node", "server"}
"""The node itself, and the module that drives it."""


@pytest.mark.parametrize(
    "module", [each for each in MODULES if each.stem not in DRIVERS], ids=lambda each: each.stem
)
def test_no_part_of_a_node_names_it(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    imported = {
        each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "fairlead.network.node"
        for each in node.names
    }
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not imported
    assert not attributes & {"node", "_node"}


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
