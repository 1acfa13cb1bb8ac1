"""Integrated routing: the scopes of a network of brokers as a rule (book 6.7.4, Figs. 6.20 to 6.27).

Every broker knows the scope graph. The routing tables of all scopes are in the one routing table of a broker:
an entry says in which scopes its subscription is, and a notification, when it is matched with entries, says in
which scopes it is visible.

    entry of a filter F of component Y        F and `$scopes` overlaps {":S" for each scope S that Y is in}
    form of a notification n of component X   n with `$scopes` = {":S" for each scope S where n is visible}

So RT^S, the table of scope S, is the entries with ":S", and a notification goes over a link iff it matches an
entry there of a scope in which it is visible: one message for all of these scopes (5196). The scopes in which a
notification is visible follow from its producer, its content and the graph, so every broker computes the same
ones, and remembers them under what they depend on; nothing is added to the message. Entries are filters, so
every routing algorithm relates and merges them, and F in S never covers G in T: a set that overlaps {":S"} need
not overlap {":T"}. The last edge, from a scope to a client, is decided exactly at the client's broker
(`narrow`).

**Mappings and policies** are evaluated once, at the publisher's broker, with all subscriptions that there are.
The publication is marked with the outcome, which travels and is logged with it: the versions, and the
components that get each. No broker maps or chooses again. For this, entries also name their component:

    entry, in a graph with mappings or policies   F and `$scopes` overlaps {"*", "=Y", ":S", …}
    form of a version that Y and Z get            the version with `$scopes` = {"=Y", "=Z", "!"}

"*" is in every such entry: what matches it says who subscribes, anywhere.

**Policies with a state or a time** (RATE, DELAY, HOLD, ONE BY TURN, a function) and **rules** (UPDATE ON) are
about one order of all notifications that come to them. One broker of the network is the seat, and has that order:
a notification that may come to such a policy is marked for the component `SEAT` alone, and `rules.seat` decides
about it there, once. Without a seat, ONE BY TURN and functions decide in the order of the publisher's broker, and
graphs with the others are refused.

**Changes** are notifications, and take effect at a broker where they come in the order of notifications, before
the next one is routed (`learn`). Links keep the order, so a notification never meets a graph older than that of
its publisher's broker. The broker declares the entries of its clients anew, and remembers from which record of
its log on each graph holds: a subscriber that reads a record later is judged by the graph at that record.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from fairlead.errors import FairleadError, ScopeError
from fairlead.filters import Filter
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import EVERYTHING, And, leaves
from fairlead.filters.terms import Attribute
from fairlead.model import Multi, Notification, Record
from fairlead.model.encoding import format_json, notification_from_json, notification_to_json, parse_json
from fairlead.rules.administration import CHANGE
from fairlead.rules.rule import Depends, Form, Refusal, Route
from fairlead.rules.scoping import Scoping, policies_at, policies_of, takes_an_order, unknown_component
from fairlead.scopes import Scopes, System, parse_statements
from fairlead.scopes.plan import ScopePlan
from fairlead.scopes.policies import Delay, Hold, Rate
from fairlead.scopes.running import is_ruled
from fairlead.scopes.sights import Reached, StateKey
from fairlead.security.rights import ADMINISTRATOR, SCOPES, is_of_scopes

__all__ = [
    "CHANGE",
    "CHANGES",
    "FOLLOWER",
    "MARK",
    "SEAT",
    "BrokerScoping",
    "Change",
    "marked",
    "marked_versions",
    "unmarked",
]

log: Final = logging.getLogger(__name__)
CHANGES: Final = SCOPES
"""The producer of changes of the scope graph of a network: administrators alone publish under this name. Their
clients have it, too, or one that begins with `ADMINISTRATOR`, so that they do not take over one another's."""
FOLLOWER: Final = "scopes@"
"""The beginning of the names of those clients by which brokers follow these changes."""
SEAT: Final = f"{FOLLOWER}!"
"""The component of the broker that decides about policies with a state or a time, and about rules."""
MARK: Final = "$scopes"
"""The attribute that routing entries are about, and under which a publication is marked. Clients cannot use it."""
_ENTRIES: Final = Attribute(MARK)
ANY, ADMINISTRATIVE, NAMED = "*", "@", "!"
GRAPHS_MAX: Final = 1_000
"""The number of earlier graphs remembered, for records that are read later."""


class Change(NamedTuple):
    """A change of the graph: brokers that know the same changes apply them in one order, that of time and id."""

    time: int
    id: str
    text: str


class BrokerScoping(Scoping):
    """The scopes of a network of brokers. Each broker has its own, with the same graph.

    A client's name is the name of its component, durable or not, and a client publishes under its own name: else
    visibility could be forged. One whose component has the attribute `relays` may name other producers.
    `refused` says why there can be neither mappings nor policies, where that is so; `seat`, that one broker of the
    network decides about policies with a state.
    """

    learns_from = CHANGE

    def __init__(self, scopes: Scopes | System, *, refused: str = "", seat: bool = False) -> None:
        self._refused, self._has_seat = refused, seat
        self._seated: dict[str, bool] = {}
        """The producers whose notifications may come to what the seat decides about."""
        self._entries: Callable[[Notification], Iterable[Filter]] = lambda form: ()
        self._state: dict[StateKey, Any] = {}
        """Of policies, as far as this broker has decided."""
        self._tokens: dict[str, Multi] = {}
        self._known: dict[str, Change] = {}
        self.voids: dict[str, str] = {}
        """The changes that could not be applied where they stand, each with the reason."""
        self._earlier: list[tuple[int, ScopePlan]] = []
        """Graphs that held before, each with the first offset from which it no longer did."""
        self._at: ScopePlan | None = None
        self.journal: Callable[[Change, int], None] = lambda change, offset: None
        """Called with a change and the offset from which it holds, before it takes effect."""
        super().__init__(scopes)
        self._base = self._system
        self.statements = str(scopes) if isinstance(scopes, Scopes) else None
        """The graph before any change, as text; None where it was not made of statements."""
        self.outsiders = self._base.graph.outsiders

    # -- the graph ---------------------------------------------------------------------------------------------

    def check(self, system: System) -> None:
        """ScopeError where brokers cannot evaluate a graph."""
        timed = [each.choice for each in policies_of(system) if isinstance(each.choice, Delay | Hold | Rate)]
        ruled = is_ruled(system)
        if (timed or ruled) and not self._has_seat:
            what = (
                "evaluate UPDATE ON"
                if ruled
                else f"delay, hold or limit the rate of notifications: {timed[0]}"
            )
            raise ScopeError(
                f"brokers cannot {what}: no broker is the seat",
                hint="that takes one order of all notifications: name a broker as [scopes] seat, at every broker",
            )
        if (system.graph.special or ruled) and self._refused:
            names = ", ".join(sorted(system.graph.special)[:3]) or "a rule"
            raise ScopeError(
                f"there are neither mappings nor policies here, but {names} has some: {self._refused}"
            )

    def _check(self, system: System) -> None:
        self.check(system)

    def decide_by(self, system: System, offset: int | None = None) -> None:
        """Decide by another graph from now on; records before this offset are judged by the one that held."""
        if offset is not None:
            self._earlier.append((offset, self._plan))
            del self._earlier[:-GRAPHS_MAX]
        self._set(system)

    def _set(self, system: System) -> None:
        super()._set(system)
        self._names = bool(system.graph.special) or is_ruled(system)
        """Whether routing entries say whose they are."""
        self._tokens.clear()
        self._seated.clear()
        self._state.clear()

    @property
    def depends(self) -> Depends:
        if self._depends is None:
            depends = super().depends
            depends.cells.add_attribute(MARK)
            self._depends = replace(depends, source=True, volatile=self._names)
        return self._depends

    def depends_for(self, source: str) -> Depends:
        # Those that change the graph are decided about one by one, in their order.
        is_volatile = _is_administrative(component_of(source))
        return replace(self.depends, volatile=True) if is_volatile else self.depends

    # -- changes -----------------------------------------------------------------------------------------------

    @property
    def known(self) -> list[Change]:
        """The changes, in the order in which they are applied."""
        return sorted(self._known.values())

    def learn(self, notification: Notification, offset: int) -> bool:
        if not _is_administrative(notification.producer) or notification.get("type") != CHANGE:
            return False
        change = change_in(notification)
        return change is not None and self.take(change, offset)

    def take(self, change: Change, offset: int) -> bool:
        """Apply a change, from this record of the log on; False: it is known. One that cannot be applied where it
        stands in the order of changes is void."""
        if change.id in self._known:
            return False
        self.journal(change, offset)
        self.recall(change, offset)
        return True

    def recall(self, change: Change, offset: int) -> None:
        """Apply a change that has been written down."""
        if change.id in self._known:
            return
        is_last = all(change > each for each in self._known.values())
        self._known[change.id] = change
        system = self._system if is_last else self._base
        for each in [change] if is_last else self.known:
            system = self._changed(system, each)
        self.decide_by(system, offset)

    def system_until(
        self, last: tuple[int, str], after: tuple[System, tuple[int, str]] | None = None
    ) -> System:
        """The system behind the changes up to this time and id; `after` is one that is known for earlier ones."""
        system, since = (self._base, (-1, "")) if after is None else after
        for each in self.known:
            if since < each[:2] <= last:
                system = self._changed(system, each)
        return system

    def _changed(self, system: System, change: Change) -> System:
        try:
            changed = system
            for statement in parse_statements(change.text):
                changed = changed.apply(statement)
            self.check(changed)
        except FairleadError as error:
            log.warning("the change %s of the scope graph is void: %s", change.id, error)
            self.voids[change.id] = str(error).partition("\n")[0]
            return system
        self.voids.pop(change.id, None)
        return changed

    def judge_at(self, offset: int | None) -> None:
        """Answer as of a record of the log, until this is called with None."""
        self._at = None
        if offset is not None:
            number = bisect_right(self._earlier, offset, key=lambda each: each[0])
            if number < len(self._earlier):
                self._at = self._earlier[number][1]

    @property
    def changed_at(self) -> int:
        """Answers about records from this offset on are those of now."""
        return self._earlier[-1][0] if self._earlier else 0

    # -- the seam ----------------------------------------------------------------------------------------------

    def attach(self, entries: Callable[[Notification], Iterable[Filter]]) -> None:
        self._entries = entries

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        component, producer = component_of(who), notification.producer
        graph = self._system.graph
        if MARK in notification.attributes and component != SEAT:
            return Refusal(f"the attribute {MARK} is of brokers alone", error=ScopeError)
        if _is_administrative(component) or _is_administrative(producer):
            is_administrator = component.startswith(ADMINISTRATOR)
            if producer == CHANGES if is_administrator else component == (producer or component):
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

    def grant(self, who: str, action: str, filter: Filter, now: int) -> Filter | Refusal:
        for leaf in leaves(filter):
            if isinstance(leaf, Constraint) and leaf.term == _ENTRIES:
                return Refusal(f"the attribute {MARK} is of brokers alone", error=ScopeError)
        return filter

    def declare(self, who: str, filter: Filter) -> Filter:
        component = component_of(who)
        tokens = self._tokens.get(component)
        if tokens is None:
            tokens = self._tokens[component] = Multi(sorted(self._tokens_of(component)))
        return And.of((filter, Constraint(_ENTRIES, Op.OVERLAPS, tokens)))

    def _tokens_of(self, component: str) -> Iterator[str]:
        if _is_administrative(component):
            yield f"={SEAT}" if component == SEAT else ADMINISTRATIVE
            return
        parents = [each for each in self._plan.parents(component) if each.in_filters is not None]
        yield from (f":{parent.scope}" for parent in parents)
        if self._names:
            yield ANY
        # A component sees what it publishes; where an open edge leads there and back, that follows.
        if self._names or not any(each.in_filters == () and each.out_filters == () for each in parents):
            yield f"={component}"

    def undeclare(self, entry: Filter) -> Filter:
        parts = entry.parts if isinstance(entry, And) else (entry,)
        kept = And.of(each for each in parts if not (isinstance(each, Constraint) and each.term == _ENTRIES))
        return EVERYTHING if any(_tokens_in(kept)) else kept

    def reaches(self, who: str, entry: Filter) -> bool:
        component, graph = component_of(who), self._plan.graph
        tokens = [*_tokens_in(entry)]
        return not tokens or any(token[0] in ":=" and graph.visible(component, token[1:]) for token in tokens)

    def forms(self, notification: Notification, source: str) -> Sequence[Form]:
        mark = notification.attributes.lookup(MARK)
        if isinstance(mark, str):
            return [
                Form(_annotated(version, [NAMED, *(f"={name}" for name in names)]), version)
                for version, names in marked_versions(notification)
            ]
        producer = notification.producer
        if _is_administrative(producer):
            return [Form(_annotated(notification, [ADMINISTRATIVE]))]
        scopes = self._judging.visible_in(notification, producer)
        return [Form(_annotated(notification, [f"={producer}", *(f":{each}" for each in scopes)]))]

    @property
    def _judging(self) -> ScopePlan:
        return self._plan if self._at is None else self._at

    def mark(self, notification: Notification, now: int) -> Notification:
        producer = notification.producer
        if _is_administrative(producer):
            return notification
        if self._is_seated(producer):
            return marked(notification, [(notification, [SEAT])])
        if not self._plan.relevant(producer):
            return notification
        reached = self._reached(notification)
        self._state.update(reached.changes)
        for failure in reached.failures:
            log.warning("the %s failed: %s", failure.where, failure.reason)
        return _marked_as(notification, reached)

    def foresee(self, notification: Notification, now: int) -> Notification:
        producer = notification.producer
        if _is_administrative(producer) or self._is_seated(producer) or not self._plan.relevant(producer):
            return self.mark(notification, now)
        return _marked_as(notification, self._reached(notification))

    def _reached(self, notification: Notification) -> Reached:
        return self._plan.reach(notification, self.subscribers, state=self._state)

    def _is_seated(self, producer: str) -> bool:
        """Whether the seat decides about what a component publishes."""
        if not (self._has_seat and self._names):
            return False
        found = self._seated.get(producer)
        if found is None:
            graph = self._plan.graph
            found = is_ruled(self._system) or any(
                takes_an_order(policy.choice)
                for name in self._plan.relevant(producer)
                for policy in policies_at(graph.node(name))
            )
            if producer in graph:
                self._seated[producer] = found
        return found

    def subscribers(self, version: Notification) -> set[str]:
        """The components with a subscription that matches a version, at any broker."""
        return {
            token[1:]
            for entry in self._entries(_annotated(version, [ANY]))
            for token in _tokens_in(entry)
            if token[0] == "="
        }

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        tokens: Any = notification.attributes.lookup(MARK)
        if not isinstance(tokens, Multi):
            return route
        sees: Callable[[str], bool]
        if ADMINISTRATIVE in tokens:
            sees = _is_administrative
        elif NAMED in tokens:
            sees = lambda component: f"={component}" in tokens  # noqa: E731
        else:
            sees = self._judging.seer(notification, notification.producer)
        clients = tuple(client for client in route.clients if sees(component_of(client[0])))
        return route if len(clients) == len(route.clients) else Route(route.neighbours, clients)


def change_in(notification: Notification) -> Change | None:
    """The change that an administrator publishes, or that a broker hands on."""
    text = notification.get("text")
    if not isinstance(text, str):
        return None
    if notification.producer == CHANGES:
        time = 0 if notification.time is None else notification.time.microseconds
        return Change(time, notification.id or "", text)
    at = notification.get("at")
    return Change(at if isinstance(at, int) else 0, str(notification.get("of")), text)


def component_of(client: str) -> str:
    """The component of a client of a broker: `c:desk` and `d:desk` are both `desk`."""
    return client[2:] if client[:2] in ("c:", "d:") else client


def _is_administrative(name: str) -> bool:
    """Whether a component speaks of the scope graph: an administrator, or a broker that follows changes."""
    return is_of_scopes(name)


# -- marks -----------------------------------------------------------------------------------------------------


def _annotated(notification: Notification, tokens: Iterable[str]) -> Notification:
    """A notification with what routing entries are about. Path filters see the tree of the notification itself."""
    fields = {**dict(notification.attributes.items()), MARK: Multi(tokens)}
    return replace(notification, attributes=Record(fields), document=notification.tree)


def _tokens_in(entry: Filter) -> Iterator[str]:
    for leaf in leaves(entry):
        if isinstance(leaf, Constraint) and leaf.term == _ENTRIES:
            yield from leaf.operand


def marked(
    notification: Notification, versions: Sequence[tuple[Notification, Sequence[str]]]
) -> Notification:
    """A publication that is marked with its versions and the components that get each."""
    mark = [
        [None if version.attributes == notification.attributes else notification_to_json(version), *names]
        for version, names in versions
    ]
    return _with_mark(notification, format_json(mark))


def _marked_as(notification: Notification, reached: Reached) -> Notification:
    """A publication that is marked with what has been decided about it."""
    versions: dict[Record, tuple[Notification, list[str]]] = {}
    for sight in sorted(reached.sights, key=lambda each: (each.tag, each.component)):
        found = versions.setdefault(sight.notification.attributes, (sight.notification, []))
        found[1].append(sight.component)
    return marked(notification, list(versions.values()))


def unmarked(notification: Notification) -> Notification:
    """A marked publication as it was published."""
    return _with_mark(notification, None)


def _with_mark(notification: Notification, mark: str | None) -> Notification:
    jsonable = notification_to_json(notification)
    for part in ("attributes", "content"):
        if part in jsonable:
            fields = {name: value for name, value in jsonable[part].items() if name != MARK}
            jsonable[part] = fields if mark is None else {**fields, MARK: mark}
    return notification_from_json(jsonable)


def marked_versions(notification: Notification) -> Iterator[tuple[Notification, list[str]]]:
    """The versions of a marked publication, and the components that get each."""
    original = unmarked(notification)
    for version, *names in parse_json(str(notification.get(MARK)).encode()):
        yield original if version is None else notification_from_json(version), names
