"""The scope graph: simple components, scopes, and memberships (book 6.2).

    C ◁ S            C is a direct member of S; a component may have several superscopes; no cycles
    v(X, Y)          iff some scope contains both, at any depth, or is one of them (Def. 6.2)
    visibility root  a scope without superscope; v(X, Y) iff X and Y share one (Lemma 6.2)

A graph is a value: a change makes a new one that shares what did not change. An abstract scope groups and does
not carry: nothing is visible through it. Components that the graph does not name are in the scope `default`,
unless the graph isolates or refuses them; a component that it names and that is in no scope sees itself only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from fairlead.errors import NotAdmitted, ScopeError
from fairlead.filters import EVERYTHING, Filter
from fairlead.model import Record
from fairlead.scopes.conditions import holds
from fairlead.scopes.interfaces import CLOSED, OPEN, Edge, Interface
from fairlead.scopes.mappings import IDENTITY, EdgeMapping
from fairlead.scopes.policies import Policy, Traverse
from fairlead.scopes.tables import EMPTY, Table

__all__ = ["DEFAULT", "NAMED_BY", "Component", "Node", "Outsiders", "Scope", "ScopeGraph"]

DEFAULT: Final = "default"
"""The scope of all components that the graph does not name."""
NAMED_BY: Final = "DEFINE COMPONENT names one; JOIN puts it into a scope"
"""A hint: the statements that give a component a name in the graph."""
Outsiders: TypeAlias = Literal["default", "isolated", "refused"]


@dataclass(frozen=True, slots=True)
class Component:
    """A simple component: it publishes and subscribes."""

    name: str
    attributes: Record = field(default_factory=Record)
    roles: frozenset[str] = frozenset()
    interface: Interface = OPEN
    publishing: tuple[Policy, ...] = ()
    mapping: EdgeMapping = IDENTITY
    """The mapping of its edges to superscopes unless they say something else."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A complex component: it has members, and towards its superscopes it is a component itself."""

    name: str
    interface: Interface = CLOSED
    imposed: Interface = OPEN
    abstract: bool = False
    attributes: Record = field(default_factory=Record)
    roles: frozenset[str] = frozenset()
    publishing: tuple[Policy, ...] = ()
    delivery: tuple[Policy, ...] = ()
    internal: tuple[Policy, ...] = ()
    traverse: Traverse = Traverse.BROADCAST
    admits: Filter = EVERYTHING
    """The components that may join: a condition on their attributes, roles and interfaces."""
    mapping: EdgeMapping = IDENTITY
    """The mapping of its edges to superscopes unless they say something else."""
    architecture: str = ""
    """The implementation of the scope, as its deployment says."""

    @property
    def chooses(self) -> bool:
        """Whether a policy decides which components get a notification."""
        return bool(self.delivery or self.internal or self.traverse is not Traverse.BROADCAST)


Node: TypeAlias = Component | Scope
_DEFAULT_SCOPE: Final = Scope(DEFAULT)
_NO_EDGES: Final[Mapping[str, Edge]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class ScopeGraph:
    """A scope graph, frozen. `ScopeGraph.of` makes one; `having` and `without` make others of it."""

    outsiders: Outsiders = DEFAULT
    _nodes: Table[Node] = EMPTY
    _up: Table[Mapping[str, Edge]] = EMPTY
    _members: Table[Table[Edge]] = EMPTY
    _special: frozenset[str] = frozenset()
    """Components with policies, and lower ends of mapped edges: there visibility is more than filters."""

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node] = (),
        edges: Iterable[Edge | tuple[str, str]] = (),
        outsiders: Outsiders = DEFAULT,
    ) -> ScopeGraph:
        """The graph of nodes and edges. A member that is no node is a simple component."""
        known: dict[str, Node] = {DEFAULT: _DEFAULT_SCOPE}
        for node in nodes:
            if node.name in known and node.name != DEFAULT:
                raise ScopeError(f"two components are named {node.name}")
            known[_checked_name(node).name] = node
        up: dict[str, dict[str, Edge]] = {}
        members: dict[str, dict[str, Edge]] = {}
        for given in edges:
            edge = given if isinstance(given, Edge) else Edge(*given)
            known.setdefault(edge.member, Component(edge.member))
            if edge.scope in up.get(edge.member, ()):
                raise ScopeError(f"{edge.member} is a member of {edge.scope} twice")
            _check_scope(known.get(edge.scope), edge)
            up.setdefault(edge.member, {})[edge.scope] = edge
            members.setdefault(edge.scope, {})[edge.member] = edge
        graph = cls(
            outsiders,
            Table(known.items()),
            Table(up.items()),
            Table((scope, Table(below.items())) for scope, below in members.items()),
            frozenset(
                name
                for name, node in known.items()
                if _is_special(node) or any(edge.mapping != IDENTITY for edge in up.get(name, {}).values())
            ),
        )
        graph._check_acyclic()
        return graph

    # -- what it says --------------------------------------------------------------------------------------------

    def node(self, name: str) -> Node:
        """A component or scope; one that the graph does not name is a simple component."""
        return self._nodes.get(name) or Component(name)

    def scope(self, name: str) -> Scope:
        """A scope of the graph."""
        found = self._nodes.get(name)
        if not isinstance(found, Scope):
            raise ScopeError(f"no scope is named {name}" if found is None else f"{name} is no scope")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def is_scope(self, name: str) -> bool:
        """Whether a scope has this name."""
        return isinstance(self._nodes.get(name), Scope)

    @property
    def names(self) -> list[str]:
        """All that the graph names, sorted."""
        return sorted(self._nodes)

    @property
    def scopes(self) -> Iterator[Scope]:
        """All scopes, by name."""
        return (node for name in self.names if isinstance(node := self._nodes[name], Scope))

    @property
    def components(self) -> Iterator[Component]:
        """All simple components that the graph names, by name."""
        return (node for name in self.names if isinstance(node := self._nodes[name], Component))

    @property
    def edges(self) -> Iterator[Edge]:
        """All edges, by member and scope."""
        return (self._up[name][scope] for name in sorted(self._up) for scope in sorted(self._up[name]))

    @property
    def special(self) -> frozenset[str]:
        """Components and scopes with policies, and lower ends of mapped edges."""
        return self._special

    def superscopes(self, name: str) -> Mapping[str, Edge]:
        """The edges from a component to its superscopes, abstract ones included."""
        found: Mapping[str, Edge] | None = self._up.get(name)
        if found is not None:
            return found
        if name in self._nodes or self.outsiders == "isolated":
            return _NO_EDGES
        if self.outsiders == "refused":
            raise ScopeError(f"no component is named {name}", hint=NAMED_BY)
        return {DEFAULT: Edge(name, DEFAULT)}

    def carrying(self, name: str) -> Iterator[Edge]:
        """The edges from a component to superscopes that are not abstract, by name."""
        above = self.superscopes(name)
        return (above[scope] for scope in (above if len(above) < 2 else sorted(above)) if self.carries(scope))

    def carries(self, scope: str) -> bool:
        """Whether a scope is not abstract."""
        return not self.scope(scope).abstract

    def members(self, scope: str) -> Mapping[str, Edge]:
        """The edges from the members of a scope. Those in `default` by rule are not listed."""
        self.scope(scope)
        found: Table[Edge] = self._members.get(scope, EMPTY)
        return found

    def above(self, *names: str) -> list[str]:
        """All scopes that contain one of the names at any depth, or are one; members before their superscopes."""
        order: list[str] = []
        state: dict[str, bool] = {}
        stack = [(name, False) for name in sorted(names, reverse=True)]
        while stack:
            name, left = stack.pop()
            if left:
                state[name] = True
                if self.is_scope(name) or name == DEFAULT:
                    order.append(name)
            elif name not in state:
                state[name] = False
                stack.append((name, True))
                stack += [(edge.scope, False) for edge in self.carrying(name) if edge.scope not in state]
        order.reverse()
        return order

    def roots(self, name: str) -> frozenset[str]:
        """The visibility roots of a component: the scopes without superscope that contain it."""
        return frozenset(each for each in self.above(name) if not any(self.carrying(each)))

    def visible(self, one: str, other: str) -> bool:
        """v(X, Y): whether some scope contains both, at any depth, or they are the same."""
        if one == other:
            return True
        for name in (one, other):
            if self.is_scope(name) and not self.carries(name):
                return False
        return not set(self.above(one)).isdisjoint(self.above(other))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScopeGraph) and all(
            getattr(self, name) == getattr(other, name) for name in ("outsiders", "_nodes", "_up")
        )

    def __hash__(self) -> int:
        return hash((self.outsiders, frozenset(self._nodes)))

    # -- changes -------------------------------------------------------------------------------------------------

    def having_node(self, node: Node) -> ScopeGraph:
        """This graph with a component or scope added or replaced."""
        _checked_name(node)
        present = self._nodes.get(node.name)
        if present is not None and type(present) is not type(node):
            raise ScopeError(f"{node.name} is {'a scope' if isinstance(present, Scope) else 'a component'}")
        changed = replace(self, _nodes=self._nodes.having(node.name, node))
        return changed._marked(node.name)

    def without_node(self, name: str) -> ScopeGraph:
        """This graph without a component or scope. Its members stay, isolated where they are in no other scope."""
        if name == DEFAULT or name not in self._nodes:
            raise ScopeError(f"{name} cannot be dropped" if name == DEFAULT else f"nothing is named {name}")
        changed = self
        for scope in list(self._up.get(name, ())):
            changed = changed.without_edge(name, scope)
        for member in list(self._members.get(name, ())):
            changed = changed.without_edge(member, name)
        return replace(
            changed,
            _nodes=changed._nodes.without(name),
            _up=changed._up.without(name),
            _members=changed._members.without(name),
            _special=changed._special - {name},
        )

    def having_edge(self, edge: Edge) -> ScopeGraph:
        """This graph with an edge added or replaced; a cycle is refused and named."""
        nodes = self._nodes
        if edge.member not in nodes:
            nodes = nodes.having(edge.member, Component(edge.member))
        _check_scope(nodes.get(edge.scope), edge)
        member = nodes[edge.member]
        if edge.scope not in self._up.get(edge.member, ()):
            self._check_admission(member, edge.scope)
            if isinstance(member, Scope) and (path := self._path(edge.scope, edge.member)):
                raise _cycle([edge.member, *path])
        above = {**self._up.get(edge.member, _NO_EDGES), edge.scope: edge}
        below: Table[Edge] = self._members.get(edge.scope, EMPTY)
        changed = replace(
            self,
            _nodes=nodes,
            _up=self._up.having(edge.member, above),
            _members=self._members.having(edge.scope, below.having(edge.member, edge)),
        )
        return changed._marked(edge.member)

    def without_edge(self, member: str, scope: str) -> ScopeGraph:
        """This graph with a component no longer a member of a scope."""
        above = self._up.get(member, _NO_EDGES)
        if scope not in above:
            raise ScopeError(f"{member} is no member of {scope}")
        left = {name: edge for name, edge in above.items() if name != scope}
        changed = replace(
            self,
            _up=self._up.having(member, left),
            _members=self._members.having(scope, self._members[scope].without(member)),
        )
        return changed._marked(member)

    def _marked(self, name: str) -> ScopeGraph:
        mapped = any(edge.mapping != IDENTITY for edge in self._up.get(name, _NO_EDGES).values())
        special = _is_special(self._nodes[name]) or mapped
        if special == (name in self._special):
            return self
        return replace(self, _special=self._special | {name} if special else self._special - {name})

    def _check_admission(self, member: Node, scope: str) -> None:
        condition = self.scope(scope).admits
        if condition != EVERYTHING and not holds(condition, member):
            raise NotAdmitted(
                f"{scope} does not admit {member.name}", hint="its ADMIT condition says whom it does"
            )

    def _path(self, start: str, target: str) -> list[str]:
        """The scopes from one up to another, both included; empty where there is no such path."""
        below: dict[str, str | None] = {start: None}
        stack = [start]
        while stack:
            name = stack.pop()
            if name == target:
                path: list[str] = []
                at: str | None = target
                while at is not None:
                    path.append(at)
                    at = below[at]
                return path[::-1]
            for scope in self._up.get(name, _NO_EDGES):
                if scope not in below:
                    below[scope] = name
                    stack.append(scope)
        return []

    def _check_acyclic(self) -> None:
        state: dict[str, bool] = {}
        for start in sorted(self._up):
            stack: list[tuple[str, Iterator[str]]] = [(start, iter(sorted(self._up[start])))]
            if start in state:
                continue
            state[start] = False
            while stack:
                name, above = stack[-1]
                scope = next(above, None)
                if scope is None:
                    state[name] = True
                    stack.pop()
                elif scope not in state:
                    state[scope] = False
                    stack.append((scope, iter(sorted(self._up.get(scope, ())))))
                elif not state[scope]:
                    open_names = [each for each, _ in stack]
                    raise _cycle([*open_names[open_names.index(scope) :], scope])


def _cycle(path: list[str]) -> ScopeError:
    return ScopeError(
        f"a scope cannot contain itself: {' in '.join(path)}", hint="take one of these memberships away"
    )


def _checked_name(node: Node) -> Any:
    if not isinstance(node.name, str) or not node.name:
        raise ScopeError(f"a component's name is a string that is not empty, not {node.name!r}")
    if node.name == DEFAULT and node != replace(_DEFAULT_SCOPE, attributes=node.attributes):
        raise ScopeError("the scope default is open inside and closed outside, and cannot be changed")
    return node


def _check_scope(found: Any, edge: Edge) -> None:
    if not isinstance(found, Scope):
        problem = "is a simple component" if isinstance(found, Component) else "is not defined"
        raise ScopeError(
            f"{edge.member} cannot be a member of {edge.scope}: {edge.scope} {problem}",
            hint=f"DEFINE SCOPE {edge.scope} AS … and DEPLOY it",
        )
    if edge.member == DEFAULT:
        raise ScopeError("the scope default has no superscopes")


def _is_special(node: Node) -> bool:
    return bool(node.chooses or node.publishing) if isinstance(node, Scope) else bool(node.publishing)
