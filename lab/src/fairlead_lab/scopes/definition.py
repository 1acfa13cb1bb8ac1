"""The definitions, word for word, for small graphs: what everything else is compared with.

    visible          the least relation of Def. 6.2
    delivery_paths   every path that goes up, then down, and meets no component twice (Def. 6.4, Lemma 6.1)
    deliveries       every path is followed edge by edge (Def. 6.10); policies are asked about the set of paths
                     that have come to a scope

Paths are written out in full, so the cost grows with their number. The audit follows paths in the same way
(`fairlead.audit.choices`), and nothing of it is shared with the evaluation but the steps of mappings and the table
of choices. What a policy holds, and joins with later notifications, is left to the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, product

from fairlead.audit.choices import Replay, Walks
from fairlead.errors import ScopeError
from fairlead.filters import EVERYTHING, Filter
from fairlead.model import Notification
from fairlead.model.order import OrderKey, event_time
from fairlead.scopes.graph import Scope, ScopeGraph
from fairlead.scopes.interfaces import Edge
from fairlead.scopes.paths import upward_paths
from fairlead.scopes.policies import Hold, Policy
from fairlead.scopes.sights import State

__all__ = ["deliveries", "delivery_paths", "visible"]


def _edges(graph: ScopeGraph, names: Iterable[str]) -> list[Edge]:
    every = set(names) | set(graph.names)
    return [
        edge
        for name in sorted(every)
        for edge in graph.superscopes(name).values()
        if graph.carries(edge.scope)
    ]


def visible(graph: ScopeGraph, names: Iterable[str]) -> set[tuple[str, str]]:
    """v, restricted to these names and the graph's: reflexive, symmetric, and v(S, Y) and X ◁ S give v(X, Y)."""
    every = set(names) | set(graph.names)
    carrying = {name for name in every if not (graph.is_scope(name) and not graph.carries(name))}
    edges = [edge for edge in _edges(graph, names) if edge.member in carrying]
    relation = {(name, name) for name in every}
    while True:
        more = {(other, one) for one, other in relation}
        more |= {(edge.member, other) for edge in edges for one, other in relation if one == edge.scope}
        if more <= relation:
            return relation
        relation |= more


def delivery_paths(graph: ScopeGraph, one: str, other: str) -> list[tuple[str, ...]]:
    """Every path from one component up to a scope and down to the other, without a component twice."""
    found = set()
    for up, down in product(upward_paths(graph, one), upward_paths(graph, other)):
        path = up + down[-2::-1]
        if up[-1] == down[-1] and len(set(path)) == len(path):
            found.add(path)
    return sorted(found)


def deliveries(
    graph: ScopeGraph,
    notification: Notification,
    matched: Callable[[Notification], Iterable[str]],
    *,
    time: int | None = None,
    state: State | None = None,
    advertised: Filter = EVERYTHING,
) -> tuple[set[tuple[str, str, int]], State]:
    """The versions seen, as (component, tag, time), and the states of policies after that."""
    policies = [policy for name in graph.special for policy in _policies(graph, name)]
    if any(isinstance(policy.choice, Hold) for policy in policies):
        raise ScopeError("the definition has no HOLD")
    place = event_time(notification) if time is None else time
    key = OrderKey(place, notification.producer, notification.sequence, notification.id or "")
    replay = Replay(dict(state or {}))
    walks = Walks(graph, notification, lambda n: set(matched(n)), replay, key, advertised=advertised)
    found = {(*sight, min(walk.time for walk in ways)) for sight, ways in walks.run().items()}
    return found, replay.state


def _policies(graph: ScopeGraph, name: str) -> Iterable[Policy]:
    node = graph.node(name)
    own = (node.delivery, node.internal) if isinstance(node, Scope) else ()
    return chain(node.publishing, *own)
