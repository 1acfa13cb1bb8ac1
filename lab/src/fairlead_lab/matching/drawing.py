"""Trees as text, the way they are shown by all engines that have one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["drawn"]

Node = TypeVar("Node")


def drawn(node: Node, below: Callable[[Node], Sequence[tuple[str, Node]]], label: str = "") -> str:
    """A node's label, if it has one, and a line for each node under it; `below` gives labels and nodes."""
    lines = [label.strip()] if label else []
    stack = [("", each, at == 0) for at, each in enumerate(reversed(below(node)))]
    while stack:
        margin, (label, child), last = stack.pop()
        lines.append(f"{margin}{'└─' if last else '├─'} {label}")
        margin += "   " if last else "│  "
        stack.extend((margin, each, at == 0) for at, each in enumerate(reversed(below(child))))
    return "\n".join(lines)
