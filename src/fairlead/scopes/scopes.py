"""A whole scope graph, from its text: read, inspected, and handed to a runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fairlead.filters import Schema
from fairlead.model import Notification
from fairlead.scopes.checking import Finding, check
from fairlead.scopes.documents import from_document, read_statements, to_document
from fairlead.scopes.explaining import SightExplanation, explain
from fairlead.scopes.graph import Outsiders, ScopeGraph
from fairlead.scopes.language import parse_statements, print_statements
from fairlead.scopes.language.statements import Statement
from fairlead.scopes.paths import paths_between
from fairlead.scopes.plan import ScopePlan
from fairlead.scopes.sights import Reached
from fairlead.scopes.system import System

__all__ = ["Scopes"]


@dataclass(frozen=True)
class Scopes:
    """A scope graph: `Scopes.parse(text)` or `Scopes.read(path)`; frozen, and `str()` gives the text back."""

    statements: tuple[Statement, ...] = ()
    outsiders: Outsiders = "default"
    """The treatment of components that the graph does not name: a scope of their own, isolation, or
    refusal."""

    def __post_init__(self) -> None:
        _ = self.system  # whatever does not resolve is refused here

    @classmethod
    def parse(cls, text: str, schema: Schema | None = None, *, outsiders: Outsiders = "default") -> Scopes:
        """The scope graph that a text describes."""
        return cls(parse_statements(text, schema), outsiders)

    @classmethod
    def read(
        cls, path: str | Path, schema: Schema | None = None, *, outsiders: Outsiders = "default"
    ) -> Scopes:
        """The scope graph of a file: text, or JSON or TOML by its suffix."""
        return cls(read_statements(path, schema), outsiders)

    @classmethod
    def from_document(cls, document: Any, schema: Schema | None = None) -> Scopes:
        """The scope graph of a document as JSON or TOML has it."""
        return cls(from_document(document, schema))

    def to_document(self) -> dict[str, Any]:
        """The statements as JSON has them."""
        return to_document(self.statements)

    @cached_property
    def system(self) -> System:
        """Definitions, and what is deployed."""
        return System.of(self.statements, self.outsiders)

    @property
    def graph(self) -> ScopeGraph:
        """The graph of what is deployed."""
        return self.system.graph

    @cached_property
    def plan(self) -> ScopePlan:
        """The graph prepared for evaluation."""
        return ScopePlan(self.graph)

    def members(self, scope: str) -> list[str]:
        """The direct members of a scope, by name."""
        return sorted(self.graph.members(scope))

    def roots(self, name: str) -> frozenset[str]:
        """The visibility roots of a component."""
        return self.graph.roots(name)

    def visible(self, one: str, other: str) -> bool:
        """Whether some scope contains both, interfaces aside."""
        return self.graph.visible(one, other)

    def paths(self, one: str, other: str) -> list[tuple[str, ...]]:
        """Delivery paths from one component to another, shortest first."""
        return paths_between(self.graph, one, other)

    def reach(self, given: Mapping[str, Any] | Notification) -> Reached:
        """The components that see a notification of its producer, if every component subscribes to everything."""
        everybody = [component.name for component in self.graph.components]
        return self.plan.reach(Notification.of(given), lambda _: everybody)

    def explain(self, given: Mapping[str, Any] | Notification, to: str) -> SightExplanation:
        """Why a component sees a notification, or what stops it."""
        return explain(self.plan, Notification.of(given), to)

    def check(self) -> list[Finding]:
        """The suspicious parts of the graph, with witnesses."""
        return check(self.system)

    def __str__(self) -> str:
        return print_statements(self.statements)
