"""The definitions, word for word, for small graphs: what everything else is compared with.

    visible          the least relation of Def. 6.2
    delivery_paths   every path that goes up, then down, and meets no component twice (Def. 6.4, Lemma 6.1)
    deliveries       every path is followed edge by edge (Def. 6.10); policies are asked about the set of paths
                     that have come to a scope

Paths are written out in full, so the cost grows with their number. Nothing here is shared with the evaluation but
the steps of mappings and the choices of policies; HOLD, which joins several notifications, is left to cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

from fairlead.errors import ScopeError
from fairlead.filters import EVERYTHING, Filter
from fairlead.model import Notification
from fairlead.model.order import event_time
from fairlead.scopes.graph import Scope, ScopeGraph
from fairlead.scopes.interfaces import Edge
from fairlead.scopes.mappings import apply
from fairlead.scopes.paths import upward_paths
from fairlead.scopes.policies import ChoiceContext, Direction, Hold, Policy, Traverse, choose
from fairlead.scopes.sights import State, StateKey, tag_of

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


@dataclass(frozen=True)
class _Walk:
    """A path so far: the components it met, with the version that it brought to each."""

    path: tuple[str, ...]
    versions: tuple[Notification, ...]
    turn: int | None
    """The number of the component at which it turned down."""
    time: int

    @property
    def end(self) -> str:
        return self.path[-1]

    @property
    def version(self) -> Notification:
        return self.versions[-1]

    def on(self, name: str, version: Notification, delay: int, *, down: bool) -> _Walk:
        turn = len(self.path) - 1 if down and self.turn is None else self.turn
        return _Walk((*self.path, name), (*self.versions, version), turn, self.time + delay)


def _passed(filters: Iterable[Filter], notification: Notification) -> bool:
    return all(each.matches(notification) for each in filters)


def _outward(graph: ScopeGraph, edge: Edge, n: Notification) -> Notification | None:
    """Def. 6.10, outward: base, selective, mapping, imposed on the member, imposed on all."""
    if not _passed((graph.node(edge.member).interface.output, edge.selective.output), n):
        return None
    mapped = apply(edge.mapping.outward, n)
    outer = (edge.imposed.output, graph.scope(edge.scope).imposed.output)
    return mapped if mapped is not None and _passed(outer, mapped) else None


def _inward(graph: ScopeGraph, edge: Edge, n: Notification) -> Notification | None:
    """Def. 6.10, inward: imposed on all, imposed on the member, mapping, selective, base."""
    if not _passed((graph.scope(edge.scope).imposed.input, edge.imposed.input), n):
        return None
    mapped = apply(edge.mapping.inward, n)
    inner = (edge.selective.input, graph.node(edge.member).interface.input)
    return mapped if mapped is not None and _passed(inner, mapped) else None


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
    return _Definition(graph, notification, matched, dict(state or {})).run(
        event_time(notification) if time is None else time, advertised
    )


class _Definition:
    def __init__(
        self,
        graph: ScopeGraph,
        published: Notification,
        matched: Callable[[Notification], Iterable[str]],
        state: dict[StateKey, Any],
    ) -> None:
        self.graph, self.published, self.matched, self.state = graph, published, matched, state
        self.competes = False

    def run(self, time: int, advertised: Filter) -> tuple[set[tuple[str, str, int]], State]:
        publisher = self.published.producer
        start = _Walk((publisher,), (self.published,), None, time)
        walks = self._ascend(start, advertised)
        order = sorted({*self.graph.names, publisher}, key=self._height)
        for scope in order:
            if self.graph.is_scope(scope):
                walks += self._descend(scope, [walk for walk in walks if walk.end == scope])
        arrived = [
            walk
            for walk in walks
            if walk.turn is not None and len(walk.path) > 1 and walk.end in set(self.matched(walk.version))
        ]
        found: dict[tuple[str, str], int] = {}
        for walk in self._traversed(arrived):
            place = (walk.end, tag_of(walk.version, self.published))
            found[place] = min(walk.time, found.get(place, walk.time))
        if publisher in set(self.matched(self.published)) and not self.competes:
            found[publisher, ""] = time
        return {(name, tag, at) for (name, tag), at in found.items()}, self.state

    def _height(self, name: str) -> int:
        """Superscopes before members."""
        above = [each.scope for each in self.graph.superscopes(name).values()]
        return 1 + max((self._height(scope) for scope in above), default=0)

    # -- up

    def _ascend(self, start: _Walk, advertised: Filter) -> list[_Walk]:
        walks: list[_Walk] = []
        frontier = [start] if advertised.matches(self.published) else []
        while frontier:
            lowest = max(self._height(walk.end) for walk in frontier)
            name = min(walk.end for walk in frontier if self._height(walk.end) == lowest)
            here = [walk for walk in frontier if walk.end == name]
            frontier = [walk for walk in frontier if walk.end != name]
            walks += here
            for version, group in self._by_version(here):
                eligible = {}
                for edge in self.graph.superscopes(name).values():
                    crossed = _outward(self.graph, edge, version) if self.graph.carries(edge.scope) else None
                    if crossed is not None:
                        eligible[edge.scope] = crossed
                policies = self.graph.node(name).publishing
                chosen = self._chosen(name, Direction.PUBLISHING, policies, set(eligible), group)
                if name == start.end:
                    self.competes = bool(chosen) and all(
                        any(
                            policy.when.matches(eligible[scope])
                            for policy in self.graph.scope(scope).internal
                        )
                        for scope in chosen
                    )
                for scope, delay in chosen.items():
                    frontier += [walk.on(scope, eligible[scope], delay, down=False) for walk in group]
        return walks

    # -- down

    def _descend(self, scope: str, here: list[_Walk]) -> list[_Walk]:
        node, members = self.graph.scope(scope), self.graph.members(scope)
        moved: list[_Walk] = []
        sides = ((Direction.INTERNAL, node.internal), (Direction.DELIVERY, node.delivery))
        names = {*members, *(name for w in here for name in self.matched(w.version))}
        for direction, policies in sides:
            walks = [walk for walk in here if (walk.turn is None) == (direction is Direction.INTERNAL)]
            for version, group in self._by_version(walks):
                eligible: dict[str, Notification] = {}
                asking: set[str] = set()
                for name in sorted(names):
                    edge = self.graph.superscopes(name).get(scope)
                    crossed = None if edge is None else _inward(self.graph, edge, version)
                    if crossed is None or (self.graph.is_scope(name) and not self.graph.carries(name)):
                        continue
                    eligible[name] = crossed
                    if self._asks(name, crossed, direction, group):
                        asking.add(name)
                chosen = dict.fromkeys(eligible, 0)
                if any(policy.when.matches(version) for policy in policies):
                    chosen = self._chosen(scope, direction, policies, asking, group)
                for name, delay in chosen.items():
                    for walk in group:
                        if name == self.published.producer and len(walk.path) == 2 and self.competes:
                            moved.append(
                                _Walk((*walk.path, name), (self.published,) * 3, 1, walk.time + delay)
                            )
                        elif name not in walk.path:
                            moved.append(walk.on(name, eligible[name], delay, down=True))
        return moved

    def _asks(self, name: str, version: Notification, direction: Direction, group: list[_Walk]) -> bool:
        if name == self.published.producer:
            own = name in set(self.matched(self.published))
            return self.competes and direction is Direction.INTERNAL and own
        if all(name in walk.path for walk in group):
            return False
        return self.graph.is_scope(name) or name in set(self.matched(version))

    # -- policies

    def _by_version(self, walks: list[_Walk]) -> list[tuple[Notification, list[_Walk]]]:
        def tag(walk: _Walk) -> str:
            return tag_of(walk.version, self.published)

        groups = [list(group) for _, group in groupby(sorted(walks, key=tag), key=tag)]
        groups.sort(key=lambda group: (min(walk.time for walk in group), tag(group[0])))
        return [(group[0].version, group) for group in groups]

    def _chosen(
        self,
        owner: str,
        direction: Direction,
        policies: tuple[Policy, ...],
        eligible: set[str],
        walks: list[_Walk],
    ) -> dict[str, int]:
        """The members that get what walks have brought to their common end, all in one version."""
        version = walks[0].version
        chosen: dict[str, int] = {}
        left = set(eligible)
        for number, policy in enumerate(policies):
            if isinstance(policy.choice, Hold):
                raise ScopeError("the definition has no HOLD")
            group = left if policy.among is None else left & policy.among
            if not group or not policy.when.matches(version):
                continue
            left = left - group
            time = min(walk.time for walk in walks)
            context = ChoiceContext(
                owner, tuple(sorted(group)), version, time, lambda n: self.graph.node(n).attributes
            )
            place = (owner, direction.value, number)
            answer, self.state[place] = choose(policy.choice, context, self.state.get(place))
            chosen |= dict.fromkeys(answer.names, answer.delay_us)
        return chosen | dict.fromkeys(left, 0)

    # -- traverse

    def _governors(self, walk: _Walk) -> list[int]:
        """The numbers of the scopes on a path that it comes into from above and that have a traverse policy."""
        assert walk.turn is not None
        return [
            number
            for number in range(walk.turn + 1, len(walk.path) - 1)
            if isinstance(node := self.graph.node(walk.path[number]), Scope)
            and node.traverse is not Traverse.BROADCAST
        ]

    def _traversed(self, walks: list[_Walk], depth: int = 0) -> list[_Walk]:
        """Of what a scope with a traverse policy takes, only the level that it prefers; outer scopes first."""
        free = [walk for walk in walks if len(self._governors(walk)) <= depth]
        governed = [walk for walk in walks if len(self._governors(walk)) > depth]

        def governor(walk: _Walk) -> tuple[str, str]:
            number = self._governors(walk)[depth]
            return walk.path[number], tag_of(walk.versions[number], self.published)

        kept: list[_Walk] = []
        for (scope, _), group in groupby(sorted(governed, key=governor), key=governor):
            found = list(group)
            levels = [self._level(walk, depth) for walk in found]
            prefer = max if self.graph.scope(scope).traverse is Traverse.BOTTOM_UP else min
            best = prefer(levels)
            kept += [walk for walk, level in zip(found, levels, strict=True) if level == best]
        return free + (self._traversed(kept, depth + 1) if kept else [])

    def _level(self, walk: _Walk, depth: int) -> int:
        """The depth of a consumer below its governor; a scope that governs itself is one consumer."""
        numbers = self._governors(walk)
        below = numbers[depth + 1] if depth + 1 < len(numbers) else len(walk.path) - 1
        return below - numbers[depth]
