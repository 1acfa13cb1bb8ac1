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
from typing import Final

from fairlead.errors import ScopeError
from fairlead.filters import Filter
from fairlead.model import Notification
from fairlead.rules.rule import Depends, Refusal, Route, Rule
from fairlead.scopes import Scope, ScopePlan, Scopes, System, parse_statements
from fairlead.scopes.graph import NAMED_BY, Node, ScopeGraph
from fairlead.scopes.mappings import IDENTITY
from fairlead.scopes.policies import Delay, Hold, One, Own, Policy, Rate

__all__ = ["BrokerScoping", "Scoping", "unknown_component"]


CHANGES: Final = "scopes"
"""The client whose publications change the scope graph of a network; nobody else publishes under this name."""
CHANGE: Final = "scope change"
FOLLOWER: Final = "scopes@"
"""How the names of clients begin by which brokers follow these changes."""


class Scoping(Rule):
    """The visibility of a scope graph as a rule. Changes take effect for notifications that are routed after
    them."""

    def __init__(self, scopes: Scopes) -> None:
        self.version = 0
        self._set(scopes.system)

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
        _check_supported(system)
        self._system = system
        graph = system.graph
        self._plan = ScopePlan(
            replace(graph, outsiders="isolated") if graph.outsiders == "refused" else graph
        )
        # What is remembered was decided by the graph before; one assignment makes it invalid.
        self.version += 1
        self._depends: Depends | None = None

    @property
    def depends(self) -> Depends:
        if self._depends is None:
            self._depends = Depends.on(
                filters=dict.fromkeys(_filters(self._system)),
                producer=True,
                id=any(isinstance(policy.choice, One) for policy in _policies(self._system)),
            )
        return self._depends

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        names = {name for name, _ in route.clients}
        reached = self._plan.reach(notification, lambda _: names)
        seen = {sight.component for sight in reached.sights}
        if len(seen) == len(names):
            return route
        return Route(route.neighbours, tuple(client for client in route.clients if client[0] in seen))


class BrokerScoping(Scoping):
    """The visibility of a scope graph at a broker: each broker decides for its own clients.

    A client's name is the name of its component, durable or not, and a client publishes under its own name: else
    visibility could be forged. One whose component has the attribute `relays` may name other producers. A choice
    among members of several brokers would need one place that makes it, so policies are refused here.
    """

    def _set(self, system: System) -> None:
        self.check(system)
        super()._set(system)

    def check(self, system: System) -> None:
        """ScopeError where brokers cannot evaluate a graph."""
        if system.graph.special:
            names = ", ".join(sorted(system.graph.special)[:3])
            raise ScopeError(
                f"brokers know neither mappings nor policies of scopes, and these have some: {names}"
            )

    def decide_by(self, system: System) -> None:
        """Decide by another graph from now on."""
        self._set(system)

    @property
    def depends(self) -> Depends:
        return replace(super().depends, source=True)

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        component, producer = _component(who), notification.producer
        graph = self._system.graph
        if _is_administrative(component) or _is_administrative(producer):
            if component == (producer or component):
                return None
            return Refusal(f"{component} cannot publish as {producer}", error=ScopeError)
        unknown = unknown_component(graph, component)
        if unknown is not None:
            return unknown
        if not producer or producer == component or graph.node(component).attributes.get("relays") is True:
            return None
        return Refusal(
            f"{component} cannot publish as {producer}",
            hint="leave the producer out, or give the component the attribute `relays`",
            error=ScopeError,
        )

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        if _is_administrative(notification.producer):
            clients = tuple(each for each in route.clients if _component(each[0]).startswith(FOLLOWER))
        else:
            sees = self._plan.seer(notification, notification.producer)
            clients = tuple(client for client in route.clients if sees(_component(client[0])))
        return route if len(clients) == len(route.clients) else Route(route.neighbours, clients)


def unknown_component(graph: ScopeGraph, component: str) -> Refusal | None:
    """Why a component that the graph does not name may not publish; None where it may."""
    if graph.outsiders != "refused" or component in graph:
        return None
    return Refusal(f"no component is named {component}", NAMED_BY, ScopeError)


def _is_administrative(name: str) -> bool:
    """Whether a component speaks of the scope graph: an administrator, or a broker that follows changes."""
    return name == CHANGES or name.startswith(FOLLOWER)


def _component(client: str) -> str:
    """The component of a client of a broker: `c:desk` and `d:desk` are both `desk`."""
    return client[2:] if client[:2] in ("c:", "d:") else client


def _nodes(system: System) -> Iterator[Node]:
    yield from system.graph.scopes
    yield from system.graph.components


def _policies(system: System) -> Iterator[Policy]:
    for node in _nodes(system):
        yield from node.publishing
        if isinstance(node, Scope):
            yield from (*node.delivery, *node.internal)


def _filters(system: System) -> Iterator[Filter]:
    """Every filter that decides whether something passes."""
    interfaces = [node.interface for node in _nodes(system)]
    interfaces += [scope.imposed for scope in system.graph.scopes]
    for edge in system.graph.edges:
        interfaces += [edge.selective, edge.imposed]
    for interface in interfaces:
        yield from (interface.input, interface.output)
    yield from (policy.when for policy in _policies(system))


def _check_supported(system: System) -> None:
    for edge in system.graph.edges:
        if edge.mapping != IDENTITY:
            raise ScopeError(f"a rule cannot map notifications, and {edge.member} in {edge.scope} does")
    for policy in _policies(system):
        choice = policy.choice
        if isinstance(choice, Delay | Hold | Rate | Own) or (isinstance(choice, One) and choice.in_turn):
            raise ScopeError(f"a rule cannot delay, hold or count notifications, and a policy does: {choice}")
