"""A scope graph in use: the notifications of one order, one after another, with changes of the graph between them.

    running = Running(scopes.system)
    running.take(n, key, matched)       who sees the next notification: now, and later where policies delay it
    running.due(key)                    what was delayed to before a key
    running.change(statements, key)     a change, from an order key on; without keys, from the next notification on

Law: what `take` and `due` return is a function of the notifications, the changes and their keys; it does not
depend on when a change was made, as long as the watermark had not passed it.

Policies have a state, which advances with every notification. A policy that is changed or taken away loses its
state; what it held is released where the change stands, by the graph that it was judged by, so nothing is lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from fairlead.errors import ScopeError
from fairlead.filters import Filter
from fairlead.model import Notification
from fairlead.model.order import BEGINNING, OrderKey, event_time
from fairlead.scopes.evaluation import Evaluation, Held
from fairlead.scopes.graph import Scope, ScopeGraph
from fairlead.scopes.language.statements import Alter, Define, Deploy, DropScope, Join, Leave, Statement
from fairlead.scopes.plan import ScopePlan
from fairlead.scopes.policies import Direction, Policy
from fairlead.scopes.rules import Trigger, consequences, memberships
from fairlead.scopes.sights import Failure, Matched, Sight, StateKey
from fairlead.scopes.system import System
from fairlead.scopes.timeline import Timeline

__all__ = ["NOTICES", "Changed", "Notice", "Outcome", "Running", "Seen", "is_ruled", "policy_at"]

NOTICES: Final = "scopes"
"""The producer of notifications about scopes themselves."""
_PLANS_MAX: Final = 8
_CHANGES_MAX: Final = 256


Changed: TypeAlias = Callable[[Statement, OrderKey | None, bool], object]
"""A function called with each change: the statement, its order key where it has one, whether it holds behind
that."""


_Made: TypeAlias = tuple[Statement, OrderKey | None, bool]


class Seen(NamedTuple):
    """A component sees a version of a notification at an order key; `moved` where a policy has moved the key."""

    component: str
    notification: Notification
    tag: str
    key: OrderKey
    moved: bool


class Outcome(NamedTuple):
    """The components that see a notification, now and later, and the mappings and policies written in Python that
    failed."""

    seen: tuple[Seen, ...]
    later: tuple[Seen, ...]
    """The deliveries that policies delay: `Running.due` returns them when their time has come."""
    failures: tuple[Failure, ...]


class Notice(NamedTuple):
    """A scope is about to be removed: its members see this notice, by the graph that still has it."""

    scope: str
    notification: Notification
    key: OrderKey
    plan: ScopePlan


class Running:
    """A scope graph with its changes, the states of policies and what they delay. Not for several threads.

    Without `ordered` the order is that in which notifications are taken: a change holds from the next one on.
    """

    __slots__ = (
        "_changed",
        "_delayed",
        "_last",
        "_notices",
        "_ordered",
        "_plans",
        "_ruled",
        "last_key",
        "state",
        "timeline",
    )

    def __init__(self, system: System, *, ordered: bool = True, changed: Changed | None = None) -> None:
        self.timeline = Timeline(system)
        self.state: dict[StateKey, Any] = {}
        self._ordered, self._changed = ordered, changed
        self._plans: dict[int, tuple[ScopeGraph, ScopePlan]] = {}
        self._delayed: list[tuple[Any, str, str, Seen]] = []
        self._notices = 0
        self._last: ScopeGraph = system.graph
        """The graph that the states of policies belong to."""
        self.last_key: OrderKey | None = None
        """The order key of the last notification that was taken."""
        self._ruled = is_ruled(system)

    # -- the graph -----------------------------------------------------------------------------------------------

    @property
    def ruled(self) -> bool:
        """Whether rules may change the graph."""
        return self._ruled

    @property
    def system(self) -> System:
        """Definitions, and what is deployed, behind all changes."""
        return self.timeline.latest

    def plan_at(self, key: OrderKey | None) -> ScopePlan:
        """The graph that a notification with this key is judged by, prepared for evaluation."""
        timeline = self.timeline
        graph = (timeline.latest if key is None else timeline.at(key)).graph
        known = self._plans.get(id(graph))
        if known is None:
            while len(self._plans) >= _PLANS_MAX:
                del self._plans[next(iter(self._plans))]
            known = self._plans[id(graph)] = (graph, ScopePlan(_lenient(graph)))
        return known[1]

    @property
    def last_graph(self) -> ScopeGraph:
        """The graph that the states of policies belong to."""
        return self._last

    def continue_from(self, state: dict[StateKey, Any], last: OrderKey | None) -> None:
        """Go on with the states that another run had left behind a key of the same timeline."""
        self.state, self.last_key = state, last
        if last is not None:
            self._last = self.plan_at(last).graph

    def resume(self, timeline: Timeline) -> None:
        """Go on with the changes that another run has made."""
        self.timeline = timeline
        self._ruled = any(map(is_ruled, (timeline.start, *timeline.systems)))

    def adopt(self, system: System) -> None:
        """Go on with a graph that others have made: from the next notification on. For runs without order keys."""
        self.timeline = Timeline(system)
        self._ruled = is_ruled(system)

    def put_off(self, seen: Iterable[Seen]) -> None:
        """Delay deliveries as another run had delayed them."""
        for each in seen:
            heapq.heappush(self._delayed, (each.key.rank, each.tag, each.component, each))

    def waiting(self) -> list[Seen]:
        """The delayed deliveries, in order."""
        return [each for *_, each in sorted(self._delayed, key=lambda entry: entry[:3])]

    def check_component(self, name: str) -> None:
        """Refuse a component that the graph does not name, if outsiders are refused.

        The ancestry of a component is computed here, so that the first notification to it does not pay for that.
        """
        self.system.graph.superscopes(name)
        self.plan_at(None).ancestry(name)

    def change(
        self, statements: Sequence[Statement], key: OrderKey | None = None, *, watermark: int = BEGINNING
    ) -> list[Notice]:
        """Apply statements, all of them or, where one is refused, none; the notices that are to be taken.

        With keys each statement holds from its own SINCE on, else from `key`; what the watermark has passed begins
        at the watermark.
        """
        timeline, ruled = self.timeline, self._ruled
        notices: list[Notice] = []
        made: list[_Made] = []
        for statement in statements:
            before = timeline.latest
            if self._ordered:
                given = key if statement.since is None else None
                timeline = timeline.add(statement, given, watermark=watermark)
            elif statement.since is not None:
                raise ScopeError("SINCE is an order time, and there is no total order here")
            else:
                timeline = Timeline(timeline.latest.apply(statement))
            ruled = ruled or _has_rules(statement)
            if isinstance(statement, DropScope) and before.graph.is_scope(statement.name):
                notices.append(self._notice(timeline, statement, before))
            at, behind = _key_of(timeline, statement)
            made.append((statement, at, behind))
            if ruled:
                timeline = self._follow(timeline, before, statement, at, made)
        self._succeed(timeline.latest.graph, statements)
        self.timeline, self._ruled = timeline, ruled
        self._tell(made)
        return notices

    def _tell(self, made: Iterable[_Made]) -> None:
        if self._changed is not None:
            for each in made:
                self._changed(*each)

    def _notice(self, timeline: Timeline, statement: DropScope, before: System) -> Notice:
        self._notices += 1
        at = next((each.key for each in timeline.changes if each.statement is statement), None)
        time = 0 if at is None or at.time == BEGINNING else at.time
        notification = _notice_about(statement.name, self._notices)
        system = before if at is None else timeline.before(statement)
        key = OrderKey(time, NOTICES, None, notification.id or "")
        return Notice(statement.name, notification, key, ScopePlan(_lenient(system.graph)))

    def _follow(
        self,
        timeline: Timeline,
        before: System,
        statement: Statement,
        key: OrderKey | None,
        made: list[_Made],
    ) -> Timeline:
        """The timeline that rules make of the joins and leaves of a change, from right behind it on."""
        after = timeline.latest
        if key is not None:
            before, after = timeline.before(statement), timeline.at(key)
        for trigger in memberships(before, after):
            timeline = self._triggered(timeline, trigger, key, made)
        return timeline

    def _triggered(
        self, timeline: Timeline, trigger: Trigger, key: OrderKey | None, made: list[_Made]
    ) -> Timeline:
        if self._ordered and key is not None:
            for statement in consequences(timeline.at(key), trigger, key):
                timeline = timeline.changed(statement, key, behind=True)
                made.append((statement, key, True))
            return timeline
        system = timeline.latest
        for statement in consequences(system, trigger):
            system = system.apply(statement)
            made.append((statement, None, False))
        return Timeline(system)

    def happened(self, trigger: Trigger, key: OrderKey | None) -> None:
        """Let rules act on an event: a subscription, a consumption. Their changes hold from right behind it."""
        if self._ruled:
            made: list[_Made] = []
            self.timeline = self._triggered(self.timeline, trigger, key, made)
            self._tell(made)

    def _succeed(self, graph: ScopeGraph, statements: Sequence[Statement]) -> None:
        """Hand the present plan's knowledge to the next one, where simple components joined and left only."""
        if self._ordered or not all(isinstance(each, Join | Leave) for each in statements):
            return
        before = self.timeline.latest.graph
        known = self._plans.pop(id(before), None)
        names = [(each.component, each.scope) for each in statements if isinstance(each, Join | Leave)]
        if known is None or any(name is None or graph.is_scope(name) for name, _ in names):
            return
        if graph.special != before.special:
            return
        plan = known[1].succeeded(_lenient(graph), [(name or "", scope) for name, scope in names])
        self._plans[id(graph)] = (graph, plan)

    def settle(self, watermark: int) -> None:
        """Forget the changes that the watermark has passed; what is judged from now on has greater keys."""
        if len(self.timeline.changes) > _CHANGES_MAX:
            self.timeline = self.timeline.behind(watermark)

    # -- notifications -------------------------------------------------------------------------------------------

    def take(
        self,
        notification: Notification,
        key: OrderKey | None,
        matched: Matched,
        *,
        origins: Iterable[str] | None = None,
        advertised: Filter | None = None,
        plan: ScopePlan | None = None,
    ) -> Outcome:
        """The components that see the next notification at once; delayed ones are `due` later.

        `origins` are the components that it comes from, where that is not its producer. Several see what each
        of them would: a composite that several have asked for. `plan` is the graph if it is not that of the key.
        """
        plan = plan or self.plan_at(key)
        self.last_key = key
        given = [notification.producer] if origins is None else sorted(set(origins))
        place = key or _unordered(notification)
        sights: dict[tuple[str, str, OrderKey], tuple[Sight, OrderKey]] = {}
        failures: list[Failure] = []
        for sight in self._released(plan.graph, place, matched):
            _least(sights, sight, place)
        for origin in given:
            reached = plan.reach(
                notification, matched, key=place, state=self.state, advertised=advertised, origin=origin
            )
            if reached.changes:
                self.state.update(reached.changes)
            failures += reached.failures
            for sight in reached.sights:
                _least(sights, sight, place)
        if self._ruled:
            self.happened(Trigger("pub", given[0], notification=notification), key)
        return self._outcome(sights.values(), place, tuple(failures))

    def _outcome(
        self, sights: Iterable[tuple[Sight, OrderKey]], place: OrderKey, failures: tuple[Failure, ...]
    ) -> Outcome:
        now: list[Seen] = []
        later: list[Seen] = []
        for sight, own in sights:
            released = own is not place
            if not released and sight.time == own.time:
                now.append(Seen(sight.component, sight.notification, sight.tag, own, moved=False))
                continue
            moved = replace(own, time=sight.time)
            seen = Seen(sight.component, sight.notification, sight.tag, moved, moved=True)
            if released and not self._ordered and sight.time <= place.time + 1:
                now.append(seen)  # there is no total order in which it would stand behind its release
            else:
                heapq.heappush(self._delayed, (moved.rank, seen.tag, seen.component, seen))
                later.append(seen)
        return Outcome(tuple(now), tuple(later), failures)

    def due(self, before: OrderKey | int) -> list[Seen]:
        """The delayed deliveries before a key or time, in order, each once."""
        bound = (before,) if isinstance(before, int) else before.rank
        due = []
        while self._delayed and self._delayed[0][0] < bound:
            due.append(heapq.heappop(self._delayed)[3])
        return due

    def delayed(self) -> int:
        """The number of delayed deliveries."""
        return len(self._delayed)

    def next_due(self) -> OrderKey | None:
        """The least key of what waits."""
        return self._delayed[0][3].key if self._delayed else None

    def _released(self, graph: ScopeGraph, key: OrderKey, matched: Matched) -> Iterator[Sight]:
        """Forget the states of policies that are not the same any more; release what they held."""
        if graph is self._last:
            return
        before, self._last = self._last, graph
        for state_key in [each for each in self.state if not _is_same_policy(before, graph, each)]:
            state = self.state.pop(state_key)
            for held in state if isinstance(state, tuple) else ():
                if isinstance(held, Held):
                    reached = Evaluation.released_at(held, key, matched, self.state)
                    self.state.update(reached.changes)
                    yield from reached.sights


def _key_of(timeline: Timeline, statement: Statement) -> tuple[OrderKey | None, bool]:
    return next(
        ((each.key, each.behind) for each in timeline.changes if each.statement is statement), (None, False)
    )


def _notice_about(scope: str, number: int) -> Notification:
    """The notice that the members of a scope get before it goes."""
    return Notification.of(
        {
            "type": "scope",
            "change": "destroyed",
            "scope": scope,
            "producer": NOTICES,
            "id": f"{scope} destroyed {number}",
        }
    )


def _lenient(graph: ScopeGraph) -> ScopeGraph:
    """Unnamed components are refused where they enter; later, one that was not there yet sees itself only."""
    return replace(graph, outsiders="isolated") if graph.outsiders == "refused" else graph


def _unordered(notification: Notification) -> OrderKey:
    return OrderKey(
        event_time(notification), notification.producer, notification.sequence, notification.id or ""
    )


def _least(
    sights: dict[tuple[str, str, OrderKey], tuple[Sight, OrderKey]], sight: Sight, place: OrderKey
) -> None:
    """Keep one sight for each component and version, the earliest."""
    own = place
    if sight.notification.id != place.id or sight.notification.producer != place.producer:
        own = _unordered(
            sight.notification
        )  # released: it has its own identity, and comes behind its release
    slot = (sight.component, sight.tag, own)
    known = sights.get(slot)
    if known is None or sight.time < known[0].time:
        sights[slot] = (sight, own)


def is_ruled(system: System) -> bool:
    """Whether rules (UPDATE ON) may change a system."""
    return any(each.rules for each in system.deployed.values()) or any(
        each.features.rules for each in system.definitions.values()
    )


def _has_rules(statement: Statement) -> bool:
    return isinstance(statement, Define | Deploy | Alter) and bool(statement.features.rules)


def policy_at(graph: ScopeGraph, key: StateKey) -> Policy | None:
    """The policy that a state belongs to; None where the graph has no such policy."""
    owner, direction, number = key
    if owner not in graph:
        return None
    node = graph.node(owner)
    match Direction(direction):
        case Direction.PUBLISHING:
            found = node.publishing
        case Direction.DELIVERY:
            found = node.delivery if isinstance(node, Scope) else ()
        case Direction.INTERNAL:
            found = node.internal if isinstance(node, Scope) else ()
    return found[number] if number < len(found) else None


def _is_same_policy(before: ScopeGraph, after: ScopeGraph, key: StateKey) -> bool:
    policy = policy_at(before, key)
    return policy is not None and policy == policy_at(after, key)
