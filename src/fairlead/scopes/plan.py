"""The plan of a graph: the components that one notification reaches, by visibility, mappings and policies (book
6.2 to 6.5).

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

from collections.abc import Iterable
from typing import Final, NamedTuple

from fairlead.filters import Filter
from fairlead.model import Notification, Record
from fairlead.model.order import OrderKey, event_time
from fairlead.scopes.evaluation import Evaluation
from fairlead.scopes.graph import Scope, ScopeGraph
from fairlead.scopes.interfaces import OPEN, Crossing, Edge, effective
from fairlead.scopes.mappings import Steps
from fairlead.scopes.sights import Matched, Reached, Sight, State

__all__ = ["PATHS_MAX", "Ancestry", "Parent", "ScopePlan", "Seer"]

PATHS_MAX: Final = 10_000
"""The number of delivery paths of one notification that are followed where mappings or policies tell them
apart."""


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


class Ancestry(NamedTuple):
    """The ancestry of a component: all scopes above it, superscopes first, and its own superscopes."""

    above: tuple[tuple[str, tuple[Parent, ...]], ...]
    """Each with its own superscopes."""
    parents: tuple[Parent, ...]
    opened: frozenset[str]
    """The scopes from which only open edges lead down here; a scope is one of its own."""
    exact: bool
    """No edge above has a filter inward: `opened` says all."""
    outside: frozenset[str]
    """The scopes to which only open edges lead up from here; a scope is one of its own."""
    outside_exact: bool


class ScopePlan:
    """A scope graph prepared for evaluation: what depends on the graph alone is computed once.

    A plan is never changed after it was made but for what it remembers, so threads may share it.
    """

    __slots__ = (
        "_above",
        "_ancestries",
        "_inside",
        "_mapping_numbers",
        "_mappings",
        "_parents",
        "_relevant",
        "_shared",
        "_visits",
        "graph",
        "paths_max",
    )

    def __init__(self, graph: ScopeGraph, paths_max: int = PATHS_MAX) -> None:
        self.graph = graph
        self.paths_max = paths_max
        self._above: dict[tuple[str, ...], list[str]] = {}
        self._parents: dict[str, tuple[Parent, ...]] = {}
        self._ancestries: dict[str, Ancestry] = {}
        self._shared: dict[tuple[str, ...], Ancestry] = {}
        self._relevant: dict[str, tuple[str, ...]] = {}
        self._inside: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._mappings: dict[int, tuple[Steps, int]] = {}
        self._mapping_numbers: dict[Steps, int] = {}
        self._visits: dict[tuple[str, ...], tuple[str, ...]] = {}

    def succeeded(self, graph: ScopeGraph, moved: Iterable[tuple[str, str]]) -> ScopePlan:
        """The plan of a graph in which simple components have joined or left scopes, and nothing else changed.

        It takes over what this plan remembers of all others, and this plan starts anew.
        """
        plan = ScopePlan(graph, self.paths_max)
        for name in ("_above", "_parents", "_ancestries", "_shared", "_relevant", "_inside"):
            setattr(plan, name, getattr(self, name))
            setattr(self, name, {})
        for component, scope in moved:
            for remembered in (plan._parents, plan._ancestries, plan._relevant):
                remembered.pop(component, None)
            plan._inside.pop(scope, None)
        return plan

    def mapping_number(self, crossing: Crossing) -> int:
        """The number of a crossing's mapping: mappings that do the same have the same."""
        steps = crossing.steps
        found = self._mappings.get(id(steps))
        if found is None:  # comparing steps costs more than the rest of a crossing; what has an id is kept
            number = self._mapping_numbers.setdefault(steps, len(self._mapping_numbers))
            found = self._mappings[id(steps)] = (steps, number)
        return found[1]

    def visits(self, publisher: str) -> tuple[str, ...]:
        """The components to look at even if nobody below subscribes, superscopes first."""
        anchors = self.relevant(publisher)
        found = self._visits.get(anchors)
        if found is None:
            by_depth = sorted(anchors, key=lambda name: (len(self.above(name)), name))
            found = self._visits[anchors] = tuple(by_depth)
        return found

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
                each
                for each in sorted(special)
                if each in mine or (self._is_open_inward(each) and not mine.isdisjoint(self.above(each)))
            )
            if name in self.graph:
                self._relevant[name] = found
        return found

    def _is_open_inward(self, name: str) -> bool:
        """Whether anything can come down to a component at all."""
        return any(not parent.inward.closed for parent in self.parents(name))

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
        """The components with a matching subscription that see a notification.

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

    def evaluation(self, notification: Notification, matched: Matched, key: OrderKey) -> Evaluation:
        """The evaluation of a notification in a graph without policies, up to the question who sees it."""
        evaluation = Evaluation(self, notification, matched, key, {})
        evaluation.publish(notification.producer, None)
        return evaluation

    def visible_versions(self, notification: Notification) -> list[tuple[Notification, list[str]]]:
        """The versions of a notification, each with the scopes where it is visible; policies aside."""
        evaluation = Evaluation(self, notification, lambda _: (), None, {})
        evaluation.publish(notification.producer, None)
        found: dict[Record, tuple[Notification, list[str]]] = {notification.attributes: (notification, [])}
        for scope in self.graph.scopes:
            for version in evaluation.versions_in(scope.name):
                found.setdefault(version.attributes, (version, []))[1].append(scope.name)
        return [(version, sorted(names)) for version, names in found.values()]

    def visible_in(self, notification: Notification, publisher: str) -> set[str]:
        """The scopes in which a notification is visible, in a graph of filters alone: those that it is internal
        to, and those that it comes down into."""
        passes = _Passing(notification)
        visible = set(self._internal(notification, publisher, None, passes))
        stack = list(visible)
        while stack:
            scope = stack.pop()
            for member in self.inside(scope)[0]:
                if member not in visible and any(
                    parent.scope == scope and passes(parent.in_filters) for parent in self.parents(member)
                ):
                    visible.add(member)
                    stack.append(member)
        return visible

    def _internal(
        self, notification: Notification, publisher: str, advertised: Filter | None, passes: _Passing
    ) -> frozenset[str] | set[str]:
        ancestry = self._ancestry(publisher)
        if advertised is not None and not advertised.matches(notification):
            return {publisher} if publisher in ancestry.outside else set()
        if ancestry.outside_exact:
            return ancestry.outside
        inside = set(ancestry.outside)
        for parent in ancestry.parents:
            if passes(parent.out_filters):
                inside.add(parent.scope)
        for name, parents in reversed(ancestry.above):
            if name in inside:
                for parent in parents:
                    if parent.scope not in inside and passes(parent.out_filters):
                        inside.add(parent.scope)
        return inside

    def ancestry(self, name: str) -> Ancestry:
        """The ancestry of a component. Components that see the same share one, as far as that is easy to know."""
        return self._ancestry(name)

    def _ancestry(self, name: str) -> Ancestry:
        found = self._ancestries.get(name)
        if found is None:
            found = self._shared_ancestry(name) or self._own_ancestry(name, self.parents(name))
            if name in self.graph:
                self._ancestries[name] = found
        return found

    def _shared_ancestry(self, name: str) -> Ancestry | None:
        """Simple components in the same scopes, over edges that say nothing, stand at the same place."""
        graph = self.graph
        node = graph.node(name)
        if isinstance(node, Scope) or node.interface is not OPEN:
            return None
        edges = graph.superscopes(name)
        for scope, edge in edges.items():
            if not edge.is_plain or graph.scope(scope).imposed is not OPEN:
                return None
        homes = tuple(edges)
        found = self._shared.get(homes)
        if found is None:
            found = self._shared[homes] = self._own_ancestry(name, self.parents(name))
        return found

    def _own_ancestry(self, name: str, parents: tuple[Parent, ...]) -> Ancestry:
        above = self.above(name)
        for scope in reversed(above):  # superscopes first, so that calls do not nest deeply
            if scope != name and scope not in self._ancestries:
                self._ancestry(scope)
        inside: frozenset[str] = frozenset()
        if self.graph.is_scope(name) and self.graph.carries(name):
            inside = frozenset((name,))
        opened, exact, outside, outside_exact = inside, True, inside, True
        for parent in parents:
            upper = self._ancestry(parent.scope)
            if parent.in_filters == ():
                opened |= upper.opened
                exact = exact and upper.exact
            elif parent.in_filters is not None:
                exact = False
            if parent.out_filters == ():
                outside |= upper.outside
                outside_exact = outside_exact and upper.outside_exact
            elif parent.out_filters is not None:
                outside_exact = False
        scopes = tuple((scope, self.parents(scope)) for scope in reversed(above))
        return Ancestry(scopes, parents, opened, exact, outside, outside_exact)

    def seer(self, notification: Notification, publisher: str, advertised: Filter | None = None) -> Seer:
        """The predicate whether a component sees a notification; `relevant`: filters alone decide that."""
        return Seer(self, notification, publisher, advertised)

    def _reach_by_filters(
        self,
        notification: Notification,
        matched: Matched,
        publisher: str,
        key: OrderKey | None,
        advertised: Filter | None,
    ) -> Reached:
        time = event_time(notification) if key is None else key.time
        sees = Seer(self, notification, publisher, advertised)
        names = sorted(matched(notification))
        return Reached(tuple([Sight(name, notification, "", time) for name in names if sees(name)]), {})


class Seer:
    """The components that see one notification, in a graph of filters alone.

    A scope is visible iff the notification is internal to it or comes in over an edge. Where only open edges lead
    to a component, that is one question about sets; other components ask the scopes above them, each once.
    """

    __slots__ = ("_inside", "_passes", "_plan", "_publisher", "_visible")

    def __init__(
        self, plan: ScopePlan, notification: Notification, publisher: str, advertised: Filter | None
    ) -> None:
        self._plan, self._publisher = plan, publisher
        self._passes = _Passing(notification)
        self._inside = plan._internal(notification, publisher, advertised, self._passes)
        self._visible: dict[str, bool] | None = None

    def __call__(self, name: str) -> bool:
        """Whether a component sees it."""
        return self.each((name,))[0]

    def each(self, names: Iterable[str]) -> list[bool]:
        """Whether each of some components sees it."""
        plan, inside, publisher = self._plan, self._inside, self._publisher
        known, found = plan._ancestries, []
        for name in names:
            ancestry = known.get(name) or plan._ancestry(name)
            found.append(
                not ancestry.opened.isdisjoint(inside)
                or name == publisher
                or (not ancestry.exact and self._asks_above(ancestry))
            )
        return found

    def _asks_above(self, ancestry: Ancestry) -> bool:
        visible, passes = self._visible, self._passes
        if visible is None:
            visible = self._visible = dict.fromkeys(self._inside, True)
        for scope, parents in ancestry.above:  # superscopes first, so that each is known when it is asked for
            if scope not in visible:
                visible[scope] = _enters(parents, visible, passes)
        return _enters(ancestry.parents, visible, passes)


class _Passing:
    """Whether crossings without mappings let one notification pass; each filter is evaluated once."""

    __slots__ = ("known", "notification")

    def __init__(self, notification: Notification) -> None:
        self.notification = notification
        self.known: dict[int, bool] = {}

    def __call__(self, filters: tuple[Filter, ...] | None) -> bool:
        if filters is None:
            return False
        known = self.known
        for filter in filters:
            key = id(filter)  # the graph keeps its filters alive; comparing them would cost more
            if (verdict := known.get(key)) is None:
                verdict = known[key] = filter.matches(self.notification)
            if not verdict:
                return False
        return True


def _enters(parents: tuple[Parent, ...], visible: dict[str, bool], passes: _Passing) -> bool:
    """Whether a notification comes in over one of the edges."""
    for parent in parents:  # a loop: `any` with a generator costs more than what it asks
        scope, _, _, _, _, filters = parent
        if visible[scope] and (filters == () or passes(filters)):
            return True
    return False
