"""Scopes as a rule: a notification goes only to components to which it is visible (`fairlead.scopes`).

    bus = Bus(rules=[Scoping(Scopes.read("market.scopes"))])

The producer's and the subscriber's names are the names of components. Visibility is decided after matching, for
those whose subscriptions match. A rule narrows routes and changes no content and no order, so graphs with
mappings, and with policies that delay, hold or count, are refused here. Patterns and fair subscriptions see what
they subscribe to, whatever the scopes say: a rule narrows routes, and detection is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fairlead.errors import ScopeError
from fairlead.filters import Filter
from fairlead.model import Notification
from fairlead.rules.rule import Depends, Refusal, Route, Rule
from fairlead.scopes import Scope, ScopePlan, Scopes, System, parse_statements
from fairlead.scopes.graph import NAMED_BY, Node, ScopeGraph
from fairlead.scopes.mappings import IDENTITY
from fairlead.scopes.policies import Choice, Delay, Hold, One, Own, Policy, Rate

__all__ = ["Scoping", "policies_at", "policies_of", "takes_an_order", "unknown_component"]


class Scoping(Rule):
    """The visibility of a scope graph as a rule. Changes take effect for notifications that are routed after
    them."""

    def __init__(self, scopes: Scopes | System) -> None:
        self.version = 0
        self._set(scopes if isinstance(scopes, System) else scopes.system)

    @property
    def system(self) -> System:
        """Definitions, and what is deployed now."""
        return self._system

    def alter(self, text: str) -> None:
        """Apply statements of the scope graph language, all of them or, where one is refused, none."""
        system = self._system
        for statement in parse_statements(text):
            system = system.apply(statement)
        self._set(system)

    def _set(self, system: System) -> None:
        self._check(system)
        self._system = system
        graph = system.graph
        self._plan = ScopePlan(
            replace(graph, outsiders="isolated") if graph.outsiders == "refused" else graph
        )
        # What is remembered was decided by the graph before; one assignment makes it invalid.
        self.version += 1
        self._depends: Depends | None = None

    def _check(self, system: System) -> None:
        """ScopeError where the rule cannot evaluate a graph."""
        _check_supported(system)

    @property
    def depends(self) -> Depends:
        if self._depends is None:
            self._depends = Depends.on(
                filters=dict.fromkeys(_filters(self._system)),
                producer=True,
                id=any(isinstance(policy.choice, One) for policy in policies_of(self._system)),
            )
        return self._depends

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        names = {name for name, _ in route.clients}
        reached = self._plan.reach(notification, lambda _: names)
        seen = {sight.component for sight in reached.sights}
        if len(seen) == len(names):
            return route
        return Route(route.neighbours, tuple(client for client in route.clients if client[0] in seen))


def unknown_component(graph: ScopeGraph, component: str) -> Refusal | None:
    """Why a component that the graph does not name may not publish; None where it may."""
    if graph.outsiders != "refused" or component in graph:
        return None
    return Refusal(f"no component is named {component}", NAMED_BY, ScopeError)


def _nodes(system: System) -> Iterator[Node]:
    yield from system.graph.scopes
    yield from system.graph.components


def policies_of(system: System) -> Iterator[Policy]:
    """All policies of a graph."""
    for node in _nodes(system):
        yield from policies_at(node)


def policies_at(node: Node) -> Iterator[Policy]:
    """The policies of a component or scope."""
    yield from node.publishing
    if isinstance(node, Scope):
        yield from (*node.delivery, *node.internal)


def takes_an_order(choice: Choice) -> bool:
    """Whether a choice depends on more than the notification: on those before it, or on time."""
    return isinstance(choice, Delay | Hold | Rate | Own) or (isinstance(choice, One) and choice.in_turn)


def _filters(system: System) -> Iterator[Filter]:
    """Every filter that decides whether something passes."""
    interfaces = [node.interface for node in _nodes(system)]
    interfaces += [scope.imposed for scope in system.graph.scopes]
    for edge in system.graph.edges:
        interfaces += [edge.selective, edge.imposed]
    for interface in interfaces:
        yield from (interface.input, interface.output)
    yield from (policy.when for policy in policies_of(system))


def _check_supported(system: System) -> None:
    for edge in system.graph.edges:
        if edge.mapping != IDENTITY:
            raise ScopeError(f"a rule cannot map notifications, and {edge.member} in {edge.scope} does")
    for policy in policies_of(system):
        if takes_an_order(policy.choice):
            raise ScopeError(
                f"a rule cannot delay, hold or count notifications, and a policy does: {policy.choice}"
            )
