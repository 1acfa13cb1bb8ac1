"""The seat: one broker of a network decides where a decision takes one order of all notifications.

RATE, DELAY, HOLD, ONE BY TURN and policies written in Python depend on what came before, and rules (UPDATE ON)
change the graph by what happens. Publications that may come to such a policy or rule travel to the seat
(`rules.integrated`), and stand there in the order in which they arrive. The seat decides as a bus does, by the
same `Running`:

    take(n, now)     the next publication
    advance(now)     time has passed: what policies have delayed is due
    follow(now)      administrators have changed the graph

and returns what is to be published: an *outcome*, a notification of the component `SEAT` that is marked with the
versions and the components that get each, and changes of the graph. An outcome may have versions of several
notifications: one that releases others comes with them. Time is the caller's; a publication without a time has
that of its arrival.

**Durable.** Each step is an entry: what it was about, the time, and who had a matching subscription. Entries
applied once more give the same states and the same outcomes, under the same ids, so a seat that was killed goes on
from its entries, publishes the outcomes once more that it may not have published, and brokers drop the duplicates.
`snapshot` is one entry that stands for all before it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from fairlead.errors import ScopeError
from fairlead.model import Notification, Record
from fairlead.model.encoding import notification_from_json, notification_to_json
from fairlead.model.order import Identity, OrderKey, event_time, identity_of
from fairlead.rules.integrated import CHANGE, SEAT, BrokerScoping, marked
from fairlead.scopes import System, print_statements
from fairlead.scopes.evaluation import Held
from fairlead.scopes.graph import ScopeGraph
from fairlead.scopes.language.statements import Statement
from fairlead.scopes.plan import ScopePlan
from fairlead.scopes.rules import Trigger, memberships
from fairlead.scopes.running import Running, Seen
from fairlead.scopes.states import restore_states, seen_from_json, seen_to_json, states_to_text

__all__ = ["OUTCOME", "Entry", "Seat"]

log: Final = logging.getLogger(__name__)
OUTCOME: Final = "scope outcome"
"""The type of the notifications that carry what the seat has decided."""
IDENTITIES_MAX: Final = 10_000
"""The number of publications remembered: one that comes again is not decided about again."""
GRAPHS_MAX: Final = 64
"""From so many graphs on, those are forgotten in which nothing is held."""

Entry: TypeAlias = dict[str, Any]
"""One step of the seat, as JSON."""
_Rank: TypeAlias = tuple[int, str]
_FIRST: Final[_Rank] = (-1, "")


class Seat:
    """The decisions of a network, at the broker with this rule. Not for several threads.

    `journal` is called with each entry before its outcomes leave; `changed`, when the seat has changed the graph
    of its broker; `end` is the offset of the next record of the broker's log.
    """

    def __init__(self, rule: BrokerScoping) -> None:
        self._rule = rule
        self.journal: Callable[[Entry], None] = lambda entry: None
        self.changed: Callable[[], None] = lambda: None
        self.end: Callable[[], int] = lambda: 0
        self.number = 0
        """The number of steps so far."""
        self._made: list[Statement] = []
        self._system = rule.system
        self._running = Running(rule.system, ordered=False, changed=self._record)
        self._graphs: dict[int, tuple[ScopeGraph, _Rank]] = {}
        self._note_graph()
        self._taken: dict[Identity, None] = {}
        self._answers: list[list[str]] = []
        """The components that had a matching subscription, for each version that was asked about in this
        step."""
        self._is_replaying = False
        self._met = 0

    # -- steps -------------------------------------------------------------------------------------------------

    def take(self, notification: Notification, now: int) -> list[Notification]:
        """Decide about the next publication; what is to be published. One that was decided about gives nothing."""
        if identity_of(notification) in self._taken:
            return []
        return [*self.follow(now), *self._step({"now": now, "take": notification_to_json(notification)})]

    def advance(self, now: int) -> list[Notification]:
        """Time has passed; what is to be published."""
        due = self.next_due
        return [] if due is None or due > now else self._step({"now": now})

    def follow(self, now: int) -> list[Notification]:
        """Take up the graph that the broker has now; what rules make of that."""
        if self._rule.system is self._system:
            return []
        return self._step({"now": now, "graph": list(self._rank)})

    @property
    def next_due(self) -> int | None:
        """The time at which something that was delayed is due."""
        key = self._running.next_due()
        return None if key is None else key.time

    @property
    def held(self) -> int:
        """The number of deliveries that are delayed, and of versions that policies hold."""
        return self._running.delayed() + sum(1 for _ in self._held())

    def replay(self, entry: Mapping[str, Any]) -> list[Notification]:
        """Apply an entry once more; what was to be published."""
        if "state" in entry:
            self._restore(entry)
            return []
        self._is_replaying, self._answers, self._met = True, entry.get("matched", []), 0
        try:
            return self._apply(entry)
        finally:
            self._is_replaying = False

    def _step(self, entry: Entry) -> list[Notification]:
        self._answers = []
        return self._apply(entry, self.journal)

    def _apply(
        self, entry: Mapping[str, Any], journal: Callable[[Entry], None] = lambda entry: None
    ) -> list[Notification]:
        self.number += 1
        self._made = []
        now: int = entry["now"]
        if "graph" in entry:
            self._adopt(tuple(entry["graph"]))
        running = self._running
        seen = self._due(now)
        if "take" in entry:
            notification = notification_from_json(entry["take"])
            self._remember(identity_of(notification))
            time = now if notification.time is None else event_time(notification)
            key = OrderKey(time, notification.producer, notification.sequence, notification.id or "")
            try:
                outcome = running.take(notification, key, self._matched)
            except ScopeError as error:  # too many paths: the publisher is not here any more to hear of it
                log.error("nobody sees %s of %s: %s", notification.id, notification.producer, error)
            else:
                for failure in outcome.failures:
                    log.warning("the %s failed, and let nothing pass: %s", failure.where, failure.reason)
                self._consumed(outcome.seen)
                seen += [*outcome.seen, *self._due(now)]
        journal({**entry, "matched": self._answers})
        return [*self._outcome(seen), *self._change(now)]

    def _due(self, now: int) -> list[Seen]:
        due = self._running.due(now + 1)
        if due and self._running.ruled:
            self._consumed([each for each in due if each.component in self._matched(each.notification)])
        return due

    def _consumed(self, seen: Iterable[Seen]) -> None:
        if self._running.ruled:
            for each in seen:
                event = Trigger("con", each.component, notification=each.notification)
                self._running.happened(event, None)

    def _matched(self, version: Notification) -> Collection[str]:
        if self._is_replaying:
            self._met += 1
            return self._answers[self._met - 1] if self._met <= len(self._answers) else []
        names = sorted(self._rule.subscribers(version))
        self._answers.append(names)
        return names

    # -- what leaves -------------------------------------------------------------------------------------------

    def _outcome(self, seen: Iterable[Seen]) -> list[Notification]:
        versions: dict[tuple[OrderKey, Record], tuple[Notification, list[str]]] = {}
        for each in sorted(seen, key=lambda each: (each.key, each.tag, each.component)):
            slot = (each.key, each.notification.attributes)
            versions.setdefault(slot, (each.notification, []))[1].append(each.component)
        if not versions:
            return []
        outcome = Notification.of({"type": OUTCOME, "producer": SEAT, "id": f"{self.number}"})
        return [marked(outcome, list(versions.values()))]

    def _record(self, statement: Statement, key: OrderKey | None, behind: bool) -> None:
        self._made.append(statement)

    def _change(self, now: int) -> list[Notification]:
        """The changes that rules have made in this step, as one change of the network."""
        if not self._made:
            return []
        id = f"{SEAT} {self.number}"
        known = next((each for each in self._rule.known if self._is_replaying and each.id == id), None)
        at = max(now, self._rank[0] + 1) if known is None else known.time
        text = print_statements(self._made)
        about = {"type": CHANGE, "producer": SEAT, "id": f"{self.number}.change"}
        change = Notification.of({**about, "of": id, "at": at, "text": text})
        if self._rule.learn(change, self.end()):
            self.changed()
        self._settle(self._rule.system if known is None else self._rule.system_until((at, id)), (at, id))
        return [change]

    # -- the graph ---------------------------------------------------------------------------------------------

    @property
    def _rank(self) -> _Rank:
        """The place of the last change that the broker knows."""
        known = self._rule.known
        return known[-1][:2] if known else _FIRST

    def _adopt(self, rank: _Rank) -> None:
        before = self._running.system
        if self._is_replaying:
            after = self._rule.system_until(rank, (self._system, self._at) if self._at < rank else None)
        else:
            after = self._rule.system
        self._settle(after, rank)
        if self._running.ruled:
            for trigger in memberships(before, after):
                self._running.happened(trigger, None)

    def _settle(self, system: System, rank: _Rank | None = None) -> None:
        self._system = system
        self._running.adopt(system)
        self._note_graph(rank)

    def _note_graph(self, rank: _Rank | None = None) -> None:
        """Remember by which changes the graph of now came to be, for what is held in it."""
        self._at = self._rank if rank is None else rank
        graph = self._running.plan_at(None).graph
        self._graphs[id(graph)] = (graph, self._at)
        if len(self._graphs) > GRAPHS_MAX:
            needed = {id(graph), *(id(each.plan.graph) for each in self._held())}
            self._graphs = {key: known for key, known in self._graphs.items() if key in needed}

    def _held(self) -> Iterator[Held]:
        """The versions that policies hold until another notification comes."""
        for state in self._running.state.values():
            if isinstance(state, tuple):
                yield from (each for each in state if isinstance(each, Held))

    # -- snapshots ---------------------------------------------------------------------------------------------

    def snapshot(self) -> Entry:
        """One entry that stands for all steps so far. ScopeError where the state of a function is no JSON."""
        return {
            "state": states_to_text(self._running, self._graph_rank),
            "graph": list(self._at),
            "number": self.number,
            "delayed": [seen_to_json(each) for each in self._running.waiting()],
            "taken": [list(each) for each in self._taken],
        }

    def _graph_rank(self, held: Held) -> list[Any]:
        return list(self._graphs[id(held.plan.graph)][1])

    def _restore(self, entry: Mapping[str, Any]) -> None:
        self._settle(self._rule.system_until(tuple(entry["graph"])), tuple(entry["graph"]))
        plans: dict[_Rank, ScopePlan] = {}

        def plan_of(place: Any) -> ScopePlan:
            rank = (place[0], place[1])
            if rank not in plans:
                graph = self._rule.system_until(rank).graph
                plans[rank] = ScopePlan(graph)
                self._graphs[id(graph)] = (graph, rank)
            return plans[rank]

        self.number = entry["number"]
        restore_states(self._running, entry["state"], plan_of)
        self._running.put_off(seen_from_json(each) for each in entry["delayed"])
        for producer, name in entry["taken"]:
            self._remember(Identity(producer, name))

    def _remember(self, identity: Identity) -> None:
        self._taken[identity] = None
        while len(self._taken) > IDENTITIES_MAX:
            del self._taken[next(iter(self._taken))]
