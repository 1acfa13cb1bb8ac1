"""The differences of two scope graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fairlead.scopes.drawing import edge_lines, node_lines
from fairlead.scopes.graph import ScopeGraph

__all__ = ["Difference", "differences"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is in one graph only, or in both and not the same."""

    sign: str
    """`+` where only the second graph has it, `-` where only the first has it, `~` where they differ."""
    subject: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.sign} {self.subject}{': ' + self.detail if self.detail else ''}"

    def to_json(self) -> dict[str, Any]:
        """The difference as JSON has it."""
        word = {"+": "added", "-": "removed", "~": "changed"}[self.sign]
        return {"change": word, "subject": self.subject, "detail": self.detail}


def differences(one: ScopeGraph, other: ScopeGraph) -> list[Difference]:
    """The changes that turn the first graph into the second: components and scopes, then memberships."""
    return [*_nodes(one, other), *_edges(one, other)]


def _nodes(one: ScopeGraph, other: ScopeGraph) -> Iterator[Difference]:
    for name in sorted({*one.names, *other.names}):
        graph = other if name in other else one
        kind = "scope" if graph.is_scope(name) else "component"
        if name not in other:
            yield Difference("-", f"{kind} {name}")
        elif name not in one:
            yield Difference("+", f"{kind} {name}", "; ".join(node_lines(other.node(name))))
        elif one.node(name) != other.node(name):
            before, after = node_lines(one.node(name)), node_lines(other.node(name))
            yield Difference("~", f"{kind} {name}", _changed(before, after))


def _edges(one: ScopeGraph, other: ScopeGraph) -> Iterator[Difference]:
    before = {(edge.member, edge.scope): edge for edge in one.edges}
    after = {(edge.member, edge.scope): edge for edge in other.edges}
    for member, scope in sorted({*before, *after}):
        key, subject = (member, scope), f"{member} in {scope}"
        if key not in after:
            yield Difference("-", subject)
        elif key not in before:
            yield Difference("+", subject, "; ".join(edge_lines(after[key])))
        elif before[key] != after[key]:
            yield Difference("~", subject, _changed(edge_lines(before[key]), edge_lines(after[key])))


def _changed(before: list[str], after: list[str]) -> str:
    gone = [line for line in before if line not in after]
    new = [line for line in after if line not in before]
    if not gone and not new:
        return "attributes, admission or architecture"
    return f"{'; '.join(gone) or 'nothing'} becomes {'; '.join(new) or 'nothing'}"
