"""Whom one notification reaches: visibility, mappings and policies for a whole graph (book 6.2 to 6.5).

    X publishes n        n is internal to every superscope that X's edges and publishing policy let it into
    internal to S        it goes to members of S (internal policy) and up to superscopes (publishing policy)
    incoming to S        it goes to members of S (delivery policy), never up again

A delivery path goes up, then down, and meets no component twice. Content after mappings is a *version*; each
subscriber gets each version once, at the least order time of all paths. A component sees what it publishes,
unmapped, whatever its edges block; but where every scope that took it has an internal policy for it, the
publisher competes like any member.

`ScopePlan` is a graph prepared for this. Upwards it walks from the publisher, whose superscopes are few. Downwards
it starts at the components that have a matching subscription and asks their superscopes, each once: what nobody
asks for is never computed. Only scopes with policies and mapped edges are always evaluated, where the publisher
can reach them at all. A graph of filters alone keeps no paths.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fairlead.filters import Filter
from fairlead.model import Notification
from fairlead.model.order import OrderKey, event_time
from fairlead.scopes.evaluation import Evaluation
from fairlead.scopes.graph import ScopeGraph
from fairlead.scopes.interfaces import Crossing, Edge, effective
from fairlead.scopes.sights import Matched, Reached, Sight, State

__all__ = ["PATHS_MAX", "Parent", "ScopePlan"]

PATHS_MAX: Final = 10_000
"""How many delivery paths of one notification are followed where mappings or policies tell them apart."""


class Parent(NamedTuple):
    """A superscope that carries, and the edge to it with its effective interface."""

    scope: str
    edge: Edge
    outward: Crossing
    inward: Crossing
    out_filters: tuple[Filter, ...] | None
    """The filters of an outward crossing without mapping; None where it is closed."""
    in_filters: tuple[Filter, ...] | None

    @classmethod
    def of(cls, graph: ScopeGraph, edge: Edge) -> Parent:
        """The upper end of an edge."""
        out, inward = effective(graph, edge)
        return cls(edge.scope, edge, out, inward, _filters(out), _filters(inward))


def _filters(crossing: Crossing) -> tuple[Filter, ...] | None:
    return None if crossing.closed else tuple(gate.filter for gate in (*crossing.before, *crossing.after))


class _Place(NamedTuple):
    """Where a component stands: all scopes above it, superscopes first, and its own superscopes."""

    above: tuple[str, ...]
    parents: tuple[Parent, ...]


class ScopePlan:
    """A scope graph prepared for evaluation: what depends on the graph alone is computed once.

    A plan is never changed after it was made but for what it remembers, so threads may share it.
    """

    __slots__ = ("_above", "_inside", "_parents", "_places", "_relevant", "graph", "paths_max")

    def __init__(self, graph: ScopeGraph, paths_max: int = PATHS_MAX) -> None:
        self.graph = graph
        self.paths_max = paths_max
        self._above: dict[tuple[str, ...], list[str]] = {}
        self._parents: dict[str, tuple[Parent, ...]] = {}
        self._places: dict[str, _Place] = {}
        self._relevant: dict[str, tuple[str, ...]] = {}
        self._inside: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def parents(self, name: str) -> tuple[Parent, ...]:
        """The superscopes of a component that carry, by name, with the effective interfaces of the edges."""
        found = self._parents.get(name)
        if found is None:
            graph = self.graph
            found = tuple(Parent.of(graph, edge) for edge in graph.carrying(name))
            if name in graph:
                self._parents[name] = found
        return found

    def above(self, name: str) -> list[str]:
        """The scopes that contain a component at any depth, members first; a scope contains itself."""
        homes = (name,) if self.graph.is_scope(name) else tuple(each.scope for each in self.parents(name))
        found = self._above.get(homes)
        if found is None:
            found = self._above[homes] = self.graph.above(*homes)
        return found

    def relevant(self, name: str) -> tuple[str, ...]:
        """The components with policies or mapped edges that what a component publishes may come to."""
        special = self.graph.special
        if not special:
            return ()
        found = self._relevant.get(name)
        if found is None:
            mine = {name, *self.above(name)}
            found = tuple(
                each for each in sorted(special) if each == name or not mine.isdisjoint(self.above(each))
            )
            if name in self.graph:
                self._relevant[name] = found
        return found

    def inside(self, scope: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The subscopes of a scope that carry, and its simple members whose edges map what comes in; by name."""
        found = self._inside.get(scope)
        if found is None:
            graph, subscopes, mapped = self.graph, [], []
            for member, edge in graph.members(scope).items():
                if graph.is_scope(member):
                    if graph.carries(member):
                        subscopes.append(member)
                elif edge.mapping.inward:
                    mapped.append(member)
            found = self._inside[scope] = (tuple(sorted(subscopes)), tuple(sorted(mapped)))
        return found

    def reach(
        self,
        notification: Notification,
        matched: Matched,
        *,
        key: OrderKey | None = None,
        state: State | None = None,
        advertised: Filter | None = None,
        origin: str | None = None,
    ) -> Reached:
        """Who sees a notification, of those with a matching subscription.

        `matched` gives the components with a subscription that matches a version; it is called once for each
        version. `advertised` is the publisher's base output where it has advertised. `origin` is the component
        that publishes, where that is not the notification's producer; what a scope publishes is internal to it.
        """
        publisher = notification.producer if origin is None else origin
        if not self.relevant(publisher):
            return self._reach_by_filters(notification, matched, publisher, key, advertised)
        evaluation = Evaluation(self, notification, matched, key, state or {})
        evaluation.publish(publisher, advertised)
        return evaluation.result()

    def visible_scopes(
        self, notification: Notification, publisher: str, advertised: Filter | None
    ) -> set[str]:
        """The scopes that a notification is internal to, in a graph of filters alone."""
        return self._internal(notification, publisher, advertised, _Passing(notification))

    def _internal(
        self, notification: Notification, publisher: str, advertised: Filter | None, passes: _Passing
    ) -> set[str]:
        graph = self.graph
        inside = {publisher} if graph.is_scope(publisher) and graph.carries(publisher) else set()
        if advertised is not None and not advertised.matches(notification):
            return inside
        place = self._place(publisher)
        for parent in place.parents:
            if passes(parent.out_filters):
                inside.add(parent.scope)
        for name in reversed(place.above):
            if name in inside:
                for parent in self.parents(name):
                    if parent.scope not in inside and passes(parent.out_filters):
                        inside.add(parent.scope)
        return inside

    def _place(self, name: str) -> _Place:
        found = self._places.get(name)
        if found is None:
            found = _Place(tuple(reversed(self.above(name))), self.parents(name))
            if name in self.graph:
                self._places[name] = found
        return found

    def _reach_by_filters(
        self,
        notification: Notification,
        matched: Matched,
        publisher: str,
        key: OrderKey | None,
        advertised: Filter | None,
    ) -> Reached:
        """Filters only: a scope is visible iff the notification is internal to it or comes in over an edge."""
        time = event_time(notification) if key is None else key.time
        passes, parents = _Passing(notification), self.parents
        visible = dict.fromkeys(self._internal(notification, publisher, advertised, passes), True)
        sights = []
        for name in sorted(matched(notification)):
            if name != publisher:
                place = self._place(name)
                for scope in place.above:  # superscopes first, so that each is known when it is asked for
                    if scope not in visible:
                        visible[scope] = _enters(parents(scope), visible, passes)
                if not _enters(place.parents, visible, passes):
                    continue
            sights.append(Sight(name, notification, "", time))
        return Reached(tuple(sights), {})


class _Passing:
    """Whether crossings without mappings let one notification pass; each filter is evaluated once."""

    __slots__ = ("known", "notification")

    def __init__(self, notification: Notification) -> None:
        self.notification = notification
        self.known: dict[int, bool] = {}

    def __call__(self, filters: tuple[Filter, ...] | None) -> bool:
        if filters is None:
            return False
        for filter in filters:
            place = id(filter)  # the graph keeps its filters alive; comparing them would cost more
            verdict = self.known.get(place)
            if verdict is None:
                verdict = self.known[place] = filter.matches(self.notification)
            if not verdict:
                return False
        return True


def _enters(parents: tuple[Parent, ...], visible: dict[str, bool], passes: _Passing) -> bool:
    """Whether a notification comes in over one of the edges."""
    for parent in parents:  # a loop: `any` with a generator costs more than what it asks
        if visible[parent.scope] and (parent.in_filters == () or passes(parent.in_filters)):
            return True
    return False
