"""The evaluation of one notification in a graph with policies or mappings. Delivery paths differ in the edges
that they took upwards.

A path may not come back into a component that it has left upwards, and with mappings two paths may carry two
versions; so each arrival at a scope has its *trail*. Downwards, evaluation starts at those who subscribe and asks
their superscopes, each once. Scopes with policies and lower ends of mapped edges are always looked at: a policy
has to be asked whether or not somebody listens below, and a mapping may make a version that somebody wants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from fairlead.errors import ScopeError
from fairlead.filters import Filter
from fairlead.model import Notification, Record
from fairlead.model.order import OrderKey, event_time
from fairlead.scopes.interfaces import Crossing, Edge
from fairlead.scopes.mappings import MappingFailed, apply
from fairlead.scopes.policies import ChoiceContext, Direction, Hold, Policy, PolicyFailed, Traverse, choose
from fairlead.scopes.sights import Failure, Matched, Reached, Sight, State, StateKey, tag_of

if TYPE_CHECKING:
    from fairlead.scopes.plan import ScopePlan

__all__ = ["Arrival", "Evaluation", "Governor", "Held", "Route"]


class Governor(NamedTuple):
    """A scope whose traverse policy decides which level gets a version."""

    scope: str
    content: Record


class Route(NamedTuple):
    """The difference between arrivals of one version at one scope: their origin, and the scope that
    governs them."""

    trail: frozenset[str]
    """The components that the path has left upwards; it may not come back into them."""
    governor: Governor | None


class Arrival(NamedTuple):
    time: int
    level: int


_Arrivals: TypeAlias = dict[Route, Arrival]
_Versions: TypeAlias = dict[Record, tuple[Notification, _Arrivals]]
_NOWHERE: Final[_Versions] = {}


class _Present(NamedTuple):
    """A version that a component has to pass on: whose decision it is, and how the version came."""

    owner: str
    direction: Direction
    version: Notification
    arrivals: _Arrivals

    @property
    def time(self) -> int:
        """The least order time of its arrivals."""
        return min(arrival.time for arrival in self.arrivals.values())


@dataclass(frozen=True, slots=True)
class Held:
    """A version that a policy holds until a release, with all that its delivery needs, by the graph of its own
    order key."""

    plan: ScopePlan = field(compare=False, repr=False)
    published: Notification
    key: OrderKey
    version: Notification
    owner: str
    direction: Direction
    names: tuple[str, ...]
    publisher: str | None
    competes: bool
    arrivals: Mapping[Route, Arrival] = field(compare=False, repr=False)


class Evaluation:
    """One notification in a graph with policies or mappings. Delivery paths differ in the edges that they took
    upwards."""

    def __init__(
        self,
        plan: ScopePlan,
        published: Notification,
        matched: Matched,
        key: OrderKey | None,
        state: State,
    ) -> None:
        self.plan, self.graph = plan, plan.graph
        self.published = published
        self.key = key or OrderKey(
            event_time(published), published.producer, published.sequence, published.id or ""
        )
        self.matched, self.state = matched, state
        self.changes: dict[StateKey, Any] = {}
        self.failures: list[Failure] = []
        self.released: list[Sight] = []
        self.publisher: str | None = None
        self.competes = False
        """The publisher is one of those that internal policies choose among."""
        self.resumed = False
        """The notification was held: its publisher has seen it, unless it competes."""
        self.paths = 0
        self._versions: dict[Record, Notification] = {published.attributes: published}
        self._subscribers: dict[Record, frozenset[str]] = {}
        self._internal: dict[str, _Versions] = {}
        self._incoming: dict[str, _Versions] = {}
        self._choices: dict[tuple[str, Direction, Record], Mapping[str, int] | None] = {}
        self._crossed: dict[tuple[str, str, bool, Record], Notification | None] = {}
        self._passed: dict[tuple[int, int], bool] = {}
        self._is_explored = False
        self._applied: dict[tuple[int, int], Notification | None] = {}

    # -- upwards -------------------------------------------------------------------------------------------------

    def publish(self, publisher: str, advertised: Filter | None) -> None:
        """Let a component publish the notification."""
        self.publisher = publisher
        start: _Arrivals = {Route(frozenset(), None): Arrival(self.key.time, 0)}
        if self.graph.is_scope(publisher):
            if self.graph.carries(publisher):
                self._add(self._internal, publisher, self.published, start)
            self._climb(self.plan.above(publisher))
        elif advertised is None or advertised.matches(self.published):
            taken = self._up(publisher, self.published, start)
            policies = [self.graph.scope(scope).internal for scope in taken]
            self.competes = bool(taken) and all(
                any(policy.when.matches(version) for policy in internal)
                for internal, version in zip(policies, taken.values(), strict=True)
            )
            self._climb(self.plan.above(publisher))

    def _climb(self, scopes: Iterable[str]) -> None:
        for scope in scopes:
            versions = self._internal.get(scope, _NOWHERE)
            for version, arrivals in self._in_order(versions):
                self._up(scope, version, arrivals)

    def _up(self, name: str, version: Notification, arrivals: _Arrivals) -> dict[str, Notification]:
        """Send a version from a component into its superscopes; the scopes that took it, with what they took."""
        eligible: dict[str, Notification] = {}
        for parent in self.plan.parents(name):
            crossed = self._cross(parent.edge, parent.outward, version, outward=True)
            if crossed is not None:
                eligible[parent.scope] = crossed
        policies = self.graph.node(name).publishing
        present = _Present(name, Direction.PUBLISHING, version, arrivals)
        delays = self._decide(present, policies, tuple(eligible))
        for scope, delay in delays.items():
            moved = {
                Route(route.trail | {name}, None): Arrival(arrival.time + delay, 0)
                for route, arrival in arrivals.items()
            }
            self._add(self._internal, scope, eligible[scope], moved)
        return {scope: eligible[scope] for scope in delays}

    # -- downwards -----------------------------------------------------------------------------------------------

    def _visible(self, scope: str) -> Iterator[_Present]:
        """All that is visible in a scope: what is internal to it, and what comes in."""
        for version, arrivals in self._in_order(self._internal.get(scope, _NOWHERE)):
            yield _Present(scope, Direction.INTERNAL, version, arrivals)
        for version, arrivals in self._in_order(self.incoming(scope)):
            yield _Present(scope, Direction.DELIVERY, version, arrivals)

    def incoming(self, name: str) -> _Versions:
        """The versions that come down to a component or scope, each with its arrivals."""
        found = self._incoming.get(name)
        if found is not None:
            return found
        for scope in reversed(self.plan.above(name)):  # superscopes first, so that calls do not nest deeply
            if scope != name and scope not in self._incoming:
                self.incoming(scope)
        versions = self._incoming[name] = {}
        if self.graph.is_scope(name) and not self.graph.carries(name):
            return versions
        here: dict[str, _Versions] = {name: versions}
        for parent in self.plan.parents(name):
            for present in self._visible(parent.scope):
                crossed = self._cross(parent.edge, parent.inward, present.version, outward=False)
                if crossed is None:
                    continue
                delays = self._choice(present)
                if delays is not None and name not in delays:
                    continue
                moved = self._descended(present, name, 0 if delays is None else delays[name])
                if moved:
                    self._add(here, name, crossed, moved)
        return versions

    def _descended(self, present: _Present, name: str, delay: int) -> _Arrivals:
        """The arrivals of a version at a scope, as they arrive at one of its members."""
        scope, internal = present.owner, present.direction is Direction.INTERNAL
        governed = not internal and self.graph.scope(scope).traverse is not Traverse.BROADCAST
        moved: _Arrivals = {}
        for route, arrival in present.arrivals.items():
            if name in route.trail or name == self.publisher:
                continue
            governor, level = route.governor, arrival.level + 1
            if governed:
                governor, level = Governor(scope, present.version.attributes), 1
            trail = route.trail | {scope} if internal else route.trail
            moved_to = Arrival(arrival.time + delay, level)
            _keep(moved, Route(trail, governor), moved_to, deepest=self._deepest(governor))
        return moved

    def _deepest(self, governor: Governor | None) -> bool:
        return governor is not None and self.graph.scope(governor.scope).traverse is Traverse.BOTTOM_UP

    # -- choices -------------------------------------------------------------------------------------------------

    def _choice(self, present: _Present) -> Mapping[str, int] | None:
        """The members that get a version, each with its delay; None for all of them. Each is asked once."""
        node = self.graph.scope(present.owner)
        policies = node.internal if present.direction is Direction.INTERNAL else node.delivery
        if not policies:
            return None
        key = (present.owner, present.direction, present.version.attributes)
        if key not in self._choices:
            decided = None
            if self._decides(policies, present.version):
                decided = self._decide(present, policies, self._eligible(present))
            self._choices[key] = decided
        return self._choices[key]

    def _decides(self, policies: tuple[Policy, ...], version: Notification) -> bool:
        """Whether some policy has to say something about a version."""
        return any(
            policy.when.matches(version)
            or (
                isinstance(policy.choice, Hold)
                and (policy.choice.until.matches(version) or policy.choice.discard.matches(version))
            )
            for policy in policies
        )

    def _eligible(self, present: _Present) -> tuple[str, ...]:
        """The members that a version may go to: by their edges, and simple ones by their subscriptions."""
        scope, direction, version, arrivals = present
        subscopes, mapped = self.plan.inside(scope)
        members = self.graph.members(scope)
        plain = [
            name
            for name in self.subscribers(version)
            if name in members and not members[name].mapping.inward and not self.graph.is_scope(name)
        ]
        eligible = []
        for name in sorted({*subscopes, *mapped, *plain}):
            crossing = next(parent.inward for parent in self.plan.parents(name) if parent.scope == scope)
            crossed = self._cross(members[name], crossing, version, outward=False)
            if crossed is None:
                continue
            if name == self.publisher:
                if (
                    self.competes
                    and direction is Direction.INTERNAL
                    and name in self.subscribers(self.published)
                ):
                    eligible.append(name)
                continue
            if all(name in route.trail for route in arrivals):
                continue
            if self.graph.is_scope(name) or name in self.subscribers(crossed):
                eligible.append(name)
        return tuple(eligible)

    def _decide(
        self, present: _Present, policies: tuple[Policy, ...], eligible: tuple[str, ...]
    ) -> dict[str, int]:
        """The chosen ones with their delays, by policies in their order; those that none is about are chosen."""
        owner, direction, version, arrivals = present
        left = eligible
        delays: dict[str, int] = {}
        for number, policy in enumerate(policies):
            key = (owner, direction.value, number)
            if isinstance(policy.choice, Hold) and self._releases(key, policy.choice, version):
                continue
            group = left if policy.among is None else tuple(name for name in left if name in policy.among)
            if not group or not policy.when.matches(version):
                continue
            left = tuple(name for name in left if name not in group)
            context = ChoiceContext(owner, tuple(sorted(group)), version, present.time, self._attributes)
            try:
                chosen, state = choose(policy.choice, context, self._state(key))
            except PolicyFailed as error:
                self.failures.append(Failure(f"{direction.value} policy of {owner}", str(error)))
                continue
            if chosen.held:
                held = Held(
                    plan=self.plan,
                    published=self.published,
                    key=self.key,
                    version=version,
                    owner=owner,
                    direction=direction,
                    names=chosen.names,
                    publisher=self.publisher,
                    competes=self.competes,
                    arrivals=dict(arrivals),
                )
                self.changes[key] = (*(self._state(key) or ()), held)
                continue
            if state is not self._state(key):
                self.changes[key] = state
            delays.update(dict.fromkeys(chosen.names, chosen.delay_us))
        delays.update(dict.fromkeys(left, 0))
        return {name: delays[name] for name in sorted(delays)}

    def _attributes(self, name: str) -> Record:
        return self.graph.node(name).attributes

    def _state(self, key: StateKey) -> Any:
        return self.changes[key] if key in self.changes else self.state.get(key)

    def _releases(self, key: StateKey, choice: Hold, version: Notification) -> bool:
        """Whether a version releases or discards what a policy holds; it then does so, and is not held itself."""
        until = choice.until.matches(version)
        if not until and not choice.discard.matches(version):
            return False
        held: tuple[Held, ...] = self._state(key) or ()
        self.changes[key] = ()
        if until:
            for each in held:
                self._release(each)
        return True

    def _release(self, held: Held) -> None:
        """Let what was held go on, behind the notification that releases it."""
        behind = OrderKey(self.key.time, held.key.producer, held.key.sequence, held.key.id)
        time = self.key.time if behind > self.key else self.key.time + 1
        rest = Evaluation(held.plan, held.published, self.matched, held.key, {**self.state, **self.changes})
        moved = {route: Arrival(max(time, each.time), each.level) for route, each in held.arrivals.items()}
        rest.go_on(held, moved)
        outcome = rest.result()
        self.released += outcome.sights
        self.failures += outcome.failures
        self.changes.update(outcome.changes)

    @classmethod
    def released_at(cls, held: Held, key: OrderKey, matched: Matched, state: State) -> Reached:
        """The deliveries of a held version whose policy has been removed, at an order key."""
        rest = cls(held.plan, held.published, matched, held.key, state)
        time = max(key.time, held.key.time)
        moved = {route: Arrival(max(time, each.time), each.level) for route, each in held.arrivals.items()}
        rest.go_on(held, moved)
        return rest.result()

    def go_on(self, held: Held, arrivals: _Arrivals) -> None:
        """Go on from where a policy held a version: only there, and only with those it had chosen."""
        version = self._version(held.version)
        self.publisher, self.competes, self.resumed = held.publisher, held.competes, True
        if held.direction is Direction.PUBLISHING:
            for parent in self.plan.parents(held.owner):
                crossed = self._cross(parent.edge, parent.outward, version, outward=True)
                if parent.scope in held.names and crossed is not None:
                    moved = {
                        Route(r.trail | {held.owner}, None): Arrival(a.time, 0) for r, a in arrivals.items()
                    }
                    self._add(self._internal, parent.scope, crossed, moved)
            self._climb(scope for scope in self.plan.above(held.owner) if scope != held.owner)
            return
        arrived = self._internal if held.direction is Direction.INTERNAL else self._incoming
        self._add(arrived, held.owner, version, arrivals)
        self._choices[(held.owner, held.direction, version.attributes)] = dict.fromkeys(held.names, 0)

    # -- results -------------------------------------------------------------------------------------------------

    def result(self) -> Reached:
        """The components that see the notification, and in which version."""
        start = self.publisher
        if not self._is_explored:
            self.explore()
        found: dict[tuple[str, Record], int] = {}
        governed: dict[Governor, list[tuple[int, str, Record, int]]] = {}
        for content, version in list(self._versions.items()):
            for name in sorted(self.subscribers(version)):
                if name == start:
                    continue
                _, arrivals = self.incoming(name).get(content, (version, {}))
                for route, arrival in arrivals.items():
                    if route.governor is None:
                        _least(found, (name, content), arrival.time)
                    else:
                        candidate = (arrival.level, name, content, arrival.time)
                        governed.setdefault(route.governor, []).append(candidate)
        self._traverse(found, governed)
        if start is not None and start in self.subscribers(self.published):
            own = self._own_time(start)
            if own is not None:
                _least(found, (start, self.published.attributes), own)
        sights = [
            Sight(name, self._versions[content], tag_of(self._versions[content], self.published), time)
            for (name, content), time in found.items()
        ]
        sights.sort(key=lambda sight: (sight.component, sight.tag))
        return Reached((*sights, *self.released), self.changes, tuple(dict.fromkeys(self.failures)))

    def explore(self) -> list[Notification]:
        """Look at all that has to be looked at, whoever subscribes; the versions that were found.

        In a graph without policies this does not ask `matched`: a caller can match the versions of many
        notifications together, and ask for the result then.
        """
        assert self.publisher is not None
        for name in self.plan.visits(self.publisher):
            for present in self._visible(name) if self.graph.is_scope(name) else ():
                self._choice(present)
            self.incoming(name)
        self._is_explored = True
        return list(self._versions.values())

    def _own_time(self, name: str) -> int | None:
        """When the publisher sees what it published; None where policies chose others."""
        if not self.competes:
            return None if self.resumed else self.key.time
        times = []
        for parent in self.plan.parents(name):
            for version, arrivals in self._in_order(self._internal.get(parent.scope, _NOWHERE)):
                direct = [arrival for route, arrival in arrivals.items() if route.trail == {name}]
                present = _Present(parent.scope, Direction.INTERNAL, version, arrivals)
                delays = self._choice(present) if direct else None
                if delays is not None and name in delays:
                    times += [arrival.time + delays[name] for arrival in direct]
        return min(times, default=None)

    def _traverse(
        self,
        found: dict[tuple[str, Record], int],
        governed: dict[Governor, list[tuple[int, str, Record, int]]],
    ) -> None:
        """Of what a traverse policy governs, keep the level that it prefers.

        A subscope with a traverse policy of its own is one consumer at its level, and active only if that level
        is the one; so governors are settled from the top.
        """
        inner: dict[Governor, list[tuple[Governor, int]]] = {}
        free: set[Governor] = set()
        governors = set(governed)
        pending = list(governors)
        while pending:
            governor = pending.pop()
            for route, arrival in self._at(governor).items():
                if route.governor is None:
                    free.add(governor)
                    continue
                inner.setdefault(route.governor, []).append((governor, arrival.level))
                if route.governor not in governors:
                    governors.add(route.governor)
                    pending.append(route.governor)
        active = set(free)
        for governor in sorted(governors, key=lambda each: len(self.plan.above(each.scope))):
            if governor not in active:
                continue
            consumers = governed.get(governor, [])
            levels = [level for level, *_ in consumers] + [level for _, level in inner.get(governor, ())]
            if not levels:
                continue
            level = max(levels) if self._deepest(governor) else min(levels)
            for at, name, content, time in consumers:
                if at == level:
                    _least(found, (name, content), time)
            active.update(other for other, at in inner.get(governor, ()) if at == level)

    def _at(self, governor: Governor) -> _Arrivals:
        found = self.incoming(governor.scope).get(governor.content)
        return {} if found is None else found[1]

    def versions_in(self, scope: str) -> list[Notification]:
        """The versions that are visible in a scope, in order."""
        if not self.graph.is_scope(scope) or not self.graph.carries(scope):
            return []
        return list(
            {present.version.attributes: present.version for present in self._visible(scope)}.values()
        )

    # -- bookkeeping ---------------------------------------------------------------------------------------------

    def subscribers(self, version: Notification) -> frozenset[str]:
        """The components with a subscription that matches a version; each version is matched once."""
        found = self._subscribers.get(version.attributes)
        if found is None:
            found = self._subscribers[version.attributes] = frozenset(self.matched(version))
        return found

    def _version(self, made: Notification) -> Notification:
        return self._versions.setdefault(made.attributes, made)

    def _cross(
        self, edge: Edge, crossing: Crossing, version: Notification, *, outward: bool
    ) -> Notification | None:
        if crossing.free:
            return version
        key = (edge.member, edge.scope, outward, version.attributes)
        if key not in self._crossed:
            try:
                crossed = self._pass_on(crossing, version)
            except MappingFailed as error:
                ends = (edge.member, edge.scope) if outward else (edge.scope, edge.member)
                self.failures.append(Failure(f"mapping from {ends[0]} to {ends[1]}", str(error)))
                crossed = None
            self._crossed[key] = None if crossed is None else self._version(crossed)
        return self._crossed[key]

    def _pass_on(self, crossing: Crossing, version: Notification) -> Notification | None:
        """The same as `Crossing.pass_on`; edges that have filters or mappings in common share the outcomes."""
        if crossing.closed or not all(self._passes(gate.filter, version) for gate in crossing.before):
            return None
        arriving = self._mapped(crossing, version) if crossing.steps else version
        if arriving is None or not all(self._passes(gate.filter, arriving) for gate in crossing.after):
            return None
        return arriving

    def _passes(self, filter: Filter, version: Notification) -> bool:
        key = (id(filter), id(version))  # the graph keeps its filters, and an evaluation its versions
        found = self._passed.get(key)
        if found is None:
            found = self._passed[key] = filter.matches(version)
        return found

    def _mapped(self, crossing: Crossing, version: Notification) -> Notification | None:
        key = (self.plan.mapping_number(crossing), id(version))
        if key not in self._applied:
            made = apply(crossing.steps, version)
            self._applied[key] = None if made is None else self._version(made)
        return self._applied[key]

    def _add(self, into: dict[str, _Versions], name: str, version: Notification, arrivals: _Arrivals) -> None:
        versions = into.setdefault(name, {})
        _, present = versions.setdefault(version.attributes, (version, {}))
        before = len(present)
        for route, arrival in arrivals.items():
            _keep(present, route, arrival, deepest=self._deepest(route.governor))
        self.paths += len(present) - before
        if self.paths > self.plan.paths_max:
            raise ScopeError(
                f"more than {self.plan.paths_max} delivery paths lead from {self.publisher} to {name}",
                hint="mappings or policies in scopes that share superscopes and members tell all of them apart",
            )

    def _in_order(self, versions: _Versions) -> list[tuple[Notification, _Arrivals]]:
        """Versions by order time and tag, so that policies with a state are asked in one order."""
        if len(versions) < 2:
            return list(versions.values())
        return sorted(
            versions.values(),
            key=lambda each: (min(a.time for a in each[1].values()), tag_of(each[0], self.published)),
        )


def _keep(arrivals: _Arrivals, route: Route, arrival: Arrival, *, deepest: bool) -> None:
    """Add an arrival: of several on one route the least time counts, and the level that the governor prefers."""
    known = arrivals.get(route)
    if known is not None:
        level = max(known.level, arrival.level) if deepest else min(known.level, arrival.level)
        arrival = Arrival(min(known.time, arrival.time), level)
    arrivals[route] = arrival


def _least(found: dict[tuple[str, Record], int], key: tuple[str, Record], time: int) -> None:
    found[key] = min(time, found.get(key, time))
