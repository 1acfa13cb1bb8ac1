"""The choices of transmission policies, followed path by path (book 6.5), for the audit.

    Walks(graph, notification, matched, decide).run()    who gets which version, and when

Every path is written out edge by edge (Def. 6.10); policies are asked about the set of paths that have come to a
scope. Nothing here is shared with the evaluation that the runtimes run (`fairlead.scopes.plan`) but the steps of
mappings and the table of choices. The cost grows with the number of paths.

What decides is given: `Replay` makes the choices that the total order gives, with the states that all
notifications before have left; `Law` goes through all choices that the law of a policy allows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from fairlead.errors import TraceRefused
from fairlead.filters import EVERYTHING, Filter
from fairlead.model import Notification
from fairlead.model.order import OrderKey
from fairlead.scopes.graph import Scope, ScopeGraph
from fairlead.scopes.interfaces import Edge
from fairlead.scopes.mappings import MappingFailed, Step, apply
from fairlead.scopes.policies import (
    ChoiceContext,
    Direction,
    Hold,
    One,
    Own,
    Policy,
    PolicyFailed,
    Rate,
    Traverse,
    choose,
)
from fairlead.scopes.sights import StateKey, tag_of

__all__ = ["Decide", "Law", "Limit", "Replay", "Walk", "Walks"]

_PATHS_MAX: Final = 100_000
Matched: TypeAlias = Callable[[Notification], Collection[str]]


class Limit(NamedTuple):
    """A policy with a law about several notifications, and the component that it let something pass to."""

    slot: StateKey
    name: str
    policy: Policy


@dataclass(frozen=True, slots=True)
class Walk:
    """A path so far: the components it met, with the version that it brought to each."""

    path: tuple[str, ...]
    versions: tuple[Notification, ...]
    turn: int | None
    """The number of the component at which it turned down."""
    time: int
    limits: frozenset[Limit] = frozenset()
    """The policies on it that may have let nothing pass, as far as the law says."""

    @property
    def end(self) -> str:
        """The component that it has come to."""
        return self.path[-1]

    @property
    def version(self) -> Notification:
        """The version that it has brought there."""
        return self.versions[-1]

    def on(self, name: str, version: Notification, choice: Chosen, *, down: bool) -> Walk:
        """The path with one more step."""
        turn = len(self.path) - 1 if down and self.turn is None else self.turn
        return Walk(
            (*self.path, name),
            (*self.versions, version),
            turn,
            self.time + choice.delay_us,
            self.limits | choice.limits,
        )


class Chosen(NamedTuple):
    """A chosen component gets a version after a delay."""

    delay_us: int = 0
    limits: frozenset[Limit] = frozenset()


_AT_ONCE: Final = Chosen()


@dataclass(frozen=True, slots=True)
class Question:
    """A policy is asked: where it is, what it chooses among, and the paths that have come there."""

    walks: Walks
    slot: StateKey
    policy: Policy
    context: ChoiceContext
    arrived: tuple[Walk, ...]


class Decide(Protocol):
    """The maker of the choices of policies."""

    def passes(self, walks: Walks, slot: StateKey, hold: Hold, version: Notification) -> bool:
        """Whether a version releases or discards what a policy holds, and so is not held itself."""

    def choose(self, question: Question) -> Mapping[str, Chosen]:
        """The components that get a version."""


def _passed(filters: Iterable[Filter], notification: Notification) -> bool:
    return all(each.matches(notification) for each in filters)


def _mapped(steps: tuple[Step, ...], notification: Notification) -> Notification | None:
    try:
        return apply(steps, notification)
    except MappingFailed:  # it lets nothing pass
        return None


def _outward(graph: ScopeGraph, edge: Edge, n: Notification) -> Notification | None:
    """Def. 6.10, outward: base, selective, mapping, imposed on the member, imposed on all."""
    if not _passed((graph.node(edge.member).interface.output, edge.selective.output), n):
        return None
    mapped = _mapped(edge.mapping.outward, n)
    outer = (edge.imposed.output, graph.scope(edge.scope).imposed.output)
    return mapped if mapped is not None and _passed(outer, mapped) else None


def _inward(graph: ScopeGraph, edge: Edge, n: Notification) -> Notification | None:
    """Def. 6.10, inward: imposed on all, imposed on the member, mapping, selective, base."""
    if not _passed((graph.scope(edge.scope).imposed.input, edge.imposed.input), n):
        return None
    mapped = _mapped(edge.mapping.inward, n)
    inner = (edge.selective.input, graph.node(edge.member).interface.input)
    return mapped if mapped is not None and _passed(inner, mapped) else None


@dataclass(frozen=True, slots=True)
class _Held:
    """The paths that a policy holds."""

    walks: Walks
    slot: StateKey
    names: tuple[str, ...]
    arrived: tuple[Walk, ...]

    def resumed(self, matched: Matched, time: int) -> Walks:
        """The rest of the way, from a time on: only there, and only to those that were chosen."""
        moved = tuple(replace(each, time=max(time, each.time)) for each in self.arrived)
        return replace(self.walks, matched=matched, held=replace(self, arrived=moved))


@dataclass
class Walks:
    """All paths of one notification in one graph, as far as policies let them go."""

    graph: ScopeGraph
    published: Notification
    matched: Matched
    decide: Decide
    key: OrderKey
    origin: str | None = None
    """The component that it comes from, where that is not its producer."""
    advertised: Filter = EVERYTHING
    competes: bool = False
    """Whether the publisher is one of those that internal policies choose among."""
    held: _Held | None = None
    """The choices held before, where these are the rest of their paths."""

    @cached_property
    def publisher(self) -> str:
        """The component that the paths begin at."""
        return self.published.producer if self.origin is None else self.origin

    @cached_property
    def _heights(self) -> dict[str, int]:
        return {}

    def height(self, name: str) -> int:
        """A number that is smaller for superscopes."""
        found = self._heights.get(name)
        if found is None:
            above = [each.scope for each in self.graph.superscopes(name).values()]
            found = self._heights[name] = 1 + max(map(self.height, above), default=0)
        return found

    def tag(self, version: Notification) -> str:
        """The tag of a version."""
        return tag_of(version, self.published)

    def run(self) -> dict[tuple[str, str], list[Walk]]:
        """The paths that arrive, by component and by the tag of the version that it gets."""
        start, walks = Walk((self.publisher,), (self.published,), None, self.key.time), []
        if self.held is not None:
            walks = self._resumed(self.held)
        elif self.advertised.matches(self.published):
            walks = self._ascend([start])
        for scope in sorted(self._scopes(walks), key=lambda name: (self.height(name), name)):
            walks += self._descend(scope, [walk for walk in walks if walk.end == scope])
            if len(walks) > _PATHS_MAX:
                raise TraceRefused(f"more than {_PATHS_MAX} delivery paths lead from {self.publisher}")
        arrived = [
            walk
            for walk in walks
            if walk.turn is not None and len(walk.path) > 1 and walk.end in self.matched(walk.version)
        ]
        found: dict[tuple[str, str], list[Walk]] = {}
        for walk in self._traversed(arrived):
            found.setdefault((walk.end, self.tag(walk.version)), []).append(walk)
        if self.held is None and not self.competes and self.publisher in self.matched(self.published):
            found[self.publisher, ""] = [start]
        return found

    def _scopes(self, walks: Iterable[Walk]) -> set[str]:
        """The scopes that something can come to: those that paths have come to, and all below them."""
        found: set[str] = set()
        pending = [walk.end for walk in walks if self.graph.is_scope(walk.end)]
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending += (each for each in self.graph.members(name) if self.graph.is_scope(each))
        return found

    # -- up

    def _ascend(self, frontier: list[Walk]) -> list[Walk]:
        walks: list[Walk] = []
        while frontier:
            lowest = max(self.height(walk.end) for walk in frontier)
            name = min(walk.end for walk in frontier if self.height(walk.end) == lowest)
            here = [walk for walk in frontier if walk.end == name]
            frontier = [walk for walk in frontier if walk.end != name]
            walks += here
            if len(walks) > _PATHS_MAX:
                raise TraceRefused(f"more than {_PATHS_MAX} delivery paths lead from {self.publisher}")
            for version, group in self._by_version(here):
                eligible = {}
                for edge in self.graph.carrying(name):
                    crossed = _outward(self.graph, edge, version)
                    if crossed is not None:
                        eligible[edge.scope] = crossed
                policies = self.graph.node(name).publishing
                chosen = self._chosen(name, Direction.PUBLISHING, policies, set(eligible), group)
                if name == self.publisher and not self.graph.is_scope(name):
                    self.competes = bool(chosen) and all(
                        any(each.when.matches(eligible[scope]) for each in self.graph.scope(scope).internal)
                        for scope in chosen
                    )
                for scope, choice in chosen.items():
                    frontier += [walk.on(scope, eligible[scope], choice, down=False) for walk in group]
        return walks

    # -- down

    def _descend(self, scope: str, here: list[Walk]) -> list[Walk]:
        node, members = self.graph.scope(scope), self.graph.members(scope)
        moved: list[Walk] = []
        always = {name for name in members if members[name].mapping.inward or self.graph.is_scope(name)}
        for direction, policies in ((Direction.INTERNAL, node.internal), (Direction.DELIVERY, node.delivery)):
            walks = [walk for walk in here if (walk.turn is None) == (direction is Direction.INTERNAL)]
            for version, group in self._by_version(walks):
                eligible: dict[str, Notification] = {}
                asking: set[str] = set()
                for name in sorted({*always, *self.matched(version)}):
                    edge = self.graph.superscopes(name).get(scope)
                    crossed = None if edge is None else _inward(self.graph, edge, version)
                    if crossed is None or (self.graph.is_scope(name) and not self.graph.carries(name)):
                        continue
                    eligible[name] = crossed
                    if self._asks(name, crossed, direction, group):
                        asking.add(name)
                chosen = dict.fromkeys(eligible, _AT_ONCE)
                if self._is_held_at(scope, direction, version):
                    assert self.held is not None
                    chosen = {name: _AT_ONCE for name in eligible if name in self.held.names}
                elif any(_concerns(policy, version) for policy in policies):
                    chosen = dict(self._chosen(scope, direction, policies, asking, group))
                for name, choice in chosen.items():
                    for walk in group:
                        if name == self.publisher and len(walk.path) == 2 and self.competes:
                            own = replace(walk, time=walk.time + choice.delay_us)
                            own = replace(own, limits=walk.limits | choice.limits)
                            moved.append(
                                replace(own, path=(*walk.path, name), versions=(self.published,) * 3, turn=1)
                            )
                        elif name not in walk.path:
                            moved.append(walk.on(name, eligible[name], choice, down=True))
        return moved

    def _asks(self, name: str, version: Notification, direction: Direction, group: list[Walk]) -> bool:
        if name == self.publisher:
            return self.competes and direction is Direction.INTERNAL and name in self.matched(self.published)
        if all(name in walk.path for walk in group):
            return False
        return self.graph.is_scope(name) or name in self.matched(version)

    # -- what was held

    def _resumed(self, held: _Held) -> list[Walk]:
        owner, direction, _ = held.slot
        if direction != Direction.PUBLISHING.value:
            return list(held.arrived)
        frontier: list[Walk] = []
        for edge in self.graph.carrying(owner):
            for walk in held.arrived:
                crossed = _outward(self.graph, edge, walk.version)
                if edge.scope in held.names and crossed is not None:
                    frontier.append(walk.on(edge.scope, crossed, _AT_ONCE, down=False))
        return self._ascend(frontier)

    def _is_held_at(self, scope: str, direction: Direction, version: Notification) -> bool:
        if self.held is None or self.held.slot[:2] != (scope, direction.value):
            return False
        return self.held.arrived[0].version.attributes == version.attributes

    # -- policies

    def _by_version(self, walks: list[Walk]) -> list[tuple[Notification, list[Walk]]]:
        def tag(walk: Walk) -> str:
            return self.tag(walk.version)

        groups = [list(group) for _, group in groupby(sorted(walks, key=tag), key=tag)]
        groups.sort(key=lambda group: (min(walk.time for walk in group), tag(group[0])))
        return [(group[0].version, group) for group in groups]

    def _chosen(
        self,
        owner: str,
        direction: Direction,
        policies: tuple[Policy, ...],
        eligible: set[str],
        walks: list[Walk],
    ) -> Mapping[str, Chosen]:
        """The members that get what walks have brought to their common end, all in one version."""
        version, left = walks[0].version, set(eligible)
        chosen: dict[str, Chosen] = {}
        for number, policy in enumerate(policies):
            slot = (owner, direction.value, number)
            if isinstance(policy.choice, Hold) and self.decide.passes(self, slot, policy.choice, version):
                continue
            group = left if policy.among is None else left & policy.among
            if not group or not policy.when.matches(version):
                continue
            left = left - group
            time = min(walk.time for walk in walks)
            context = ChoiceContext(
                owner, tuple(sorted(group)), version, time, lambda name: self.graph.node(name).attributes
            )
            chosen |= self.decide.choose(Question(self, slot, policy, context, tuple(walks)))
        return chosen | dict.fromkeys(left, _AT_ONCE)

    # -- traverse

    def _governors(self, walk: Walk) -> list[int]:
        """The numbers of the scopes on a path that it comes into from above and that have a traverse policy."""
        assert walk.turn is not None
        return [
            number
            for number in range(walk.turn + 1, len(walk.path) - 1)
            if isinstance(node := self.graph.node(walk.path[number]), Scope)
            and node.traverse is not Traverse.BROADCAST
        ]

    def _traversed(self, walks: list[Walk], depth: int = 0) -> list[Walk]:
        """Of what a scope with a traverse policy takes, only the level that it prefers; outer scopes first."""
        free = [walk for walk in walks if len(self._governors(walk)) <= depth]
        governed = [walk for walk in walks if len(self._governors(walk)) > depth]

        def governor(walk: Walk) -> tuple[str, str]:
            number = self._governors(walk)[depth]
            return walk.path[number], self.tag(walk.versions[number])

        kept: list[Walk] = []
        for (scope, _), group in groupby(sorted(governed, key=governor), key=governor):
            found = list(group)
            levels = [self._level(walk, depth) for walk in found]
            prefer = max if self.graph.scope(scope).traverse is Traverse.BOTTOM_UP else min
            best = prefer(levels)
            kept += [walk for walk, level in zip(found, levels, strict=True) if level == best]
        return free + (self._traversed(kept, depth + 1) if kept else [])

    def _level(self, walk: Walk, depth: int) -> int:
        """The depth of a consumer below its governor; a scope that governs itself is one consumer."""
        numbers = self._governors(walk)
        below = numbers[depth + 1] if depth + 1 < len(numbers) else len(walk.path) - 1
        return below - numbers[depth]


def _concerns(policy: Policy, version: Notification) -> bool:
    choice = policy.choice
    return policy.when.matches(version) or (
        isinstance(choice, Hold) and (choice.until.matches(version) or choice.discard.matches(version))
    )


Arrived: TypeAlias = dict[tuple[str, str], list[Walk]]


@dataclass
class Replay:
    """The choices of the total order: each policy goes on from the state that all before it have left."""

    state: dict[StateKey, Any] = field(default_factory=dict)
    released: list[tuple[Walks, Arrived]] = field(default_factory=list)
    """Paths of earlier notifications that policies have released since the last look."""
    _graph: ScopeGraph | None = None

    def take(self, walks: Walks) -> Arrived:
        """The paths of the next notification of the order that arrive."""
        if self._graph is not None and walks.graph is not self._graph:
            self._leave(self._graph, walks)
        self._graph = walks.graph
        return walks.run()

    def _leave(self, before: ScopeGraph, walks: Walks) -> None:
        """Forget the states of policies that the next graph does not have; what they held goes on."""
        for slot in [each for each in self.state if not _is_same(before, walks.graph, each)]:
            state = self.state.pop(slot)
            for each in state if isinstance(state, tuple) else ():
                if isinstance(each, _Held):
                    rest = each.resumed(walks.matched, max(walks.key.time, each.walks.key.time))
                    self.released.append((rest, rest.run()))

    def passes(self, walks: Walks, slot: StateKey, hold: Hold, version: Notification) -> bool:
        """Whether a version releases or discards what a policy holds; what is released goes on behind it."""
        until = hold.until.matches(version)
        if not until and not hold.discard.matches(version):
            return False
        held = self.state.get(slot, ())
        self.state[slot] = ()
        for each in held if until else ():
            own = each.walks.key
            behind = replace(own, time=walks.key.time) > walks.key
            rest = each.resumed(walks.matched, walks.key.time if behind else walks.key.time + 1)
            self.released.append((rest, rest.run()))
        return True

    def choose(self, question: Question) -> Mapping[str, Chosen]:
        """The choice of the state that there is."""
        slot = question.slot
        try:
            chosen, state = choose(question.policy.choice, question.context, self.state.get(slot))
        except PolicyFailed:  # it lets nothing pass
            return {}
        if chosen.held:
            held = _Held(question.walks, slot, chosen.names, question.arrived)
            self.state[slot] = (*(self.state.get(slot) or ()), held)
            return {}
        self.state[slot] = state
        return dict.fromkeys(chosen.names, Chosen(chosen.delay_us))


def _is_same(before: ScopeGraph, after: ScopeGraph, slot: StateKey) -> bool:
    policy = _policy_at(before, slot)
    return policy is not None and policy == _policy_at(after, slot)


def _policy_at(graph: ScopeGraph, slot: StateKey) -> Policy | None:
    owner, direction, number = slot
    if owner not in graph:
        return None
    policies: tuple[Policy, ...] = getattr(graph.node(owner), direction, ())
    return policies[number] if number < len(policies) else None


@dataclass
class Law:
    """One way through the choices that the laws of policies allow: exactly one of n, and which one is free; at
    most so many in a window, behind a release, or as a function in Python says, and whether at all is free.

    `turns` are the numbers of the options that were taken where there were several; `next_turns` are those of the
    next way through.
    """

    turns: tuple[int, ...] = ()
    options: list[int] = field(default_factory=list)
    """The number of options, each time."""
    releases: list[StateKey] = field(default_factory=list)
    """The policies that the notification lets go of what they hold."""

    def passes(self, walks: Walks, slot: StateKey, hold: Hold, version: Notification) -> bool:
        """Whether a version releases or discards what a policy holds."""
        if hold.until.matches(version):
            self.releases.append(slot)
            return True
        return hold.discard.matches(version)

    def choose(self, question: Question) -> Mapping[str, Chosen]:
        """A choice that the law allows."""
        policy, names = question.policy, question.context.eligible
        match policy.choice:
            case One():
                number = self.turns[len(self.options)] if len(self.options) < len(self.turns) else 0
                self.options.append(len(names))
                return {names[number]: _AT_ONCE}
            case Rate() | Hold() | Own():
                limits = {name: frozenset({Limit(question.slot, name, policy)}) for name in names}
                return {name: Chosen(0, limits[name]) for name in names}
            case _:
                chosen, _ = choose(policy.choice, question.context, None)
                return dict.fromkeys(chosen.names, Chosen(chosen.delay_us))

    @property
    def next_turns(self) -> tuple[int, ...] | None:
        """The next way through; None where this was the last one."""
        turns = [*self.turns, *[0] * (len(self.options) - len(self.turns))][: len(self.options)]
        while turns and turns[-1] + 1 >= self.options[len(turns) - 1]:
            turns.pop()
        if not turns:
            return None
        return (*turns[:-1], turns[-1] + 1)
