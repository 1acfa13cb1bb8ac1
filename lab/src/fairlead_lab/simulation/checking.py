"""Checks every state of a run against the specification of routing (`audit.routing`, book 4.3 and 4.4).

After a step only the broker that took it and its links can have changed, so only these are looked at. What
holds at rest is checked whenever all that was said of filters and links has been heard.

With advertisements a broker tells its neighbours less than it knows, so the remote invariant of subscriptions
is judged at rest, for what is advertised; and a subscription that has crossed an advertisement's end on its way
stays behind, so tables are not always small. Of advertisements all is judged in every state. In a hierarchy
filters go to the parent only, and so do the rules (book 4.6.2). The rules are those of one tree: `forests` has
what can be said where there are several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

from fairlead.audit.report import Finding, Report, Violation
from fairlead.broker import Broker
from fairlead.broker.messages import (
    Admin,
    Batch,
    Call,
    Command,
    Connect,
    Deliver,
    Disconnect,
    Duplicate,
    Effect,
    Forward,
    Link,
    LinkId,
    Message,
    Publish,
    Refuse,
    Send,
    Tick,
    Unlink,
)
from fairlead.errors import ValueRefused
from fairlead.filters.algebra import overlaps
from fairlead.filters.filter import And, Filter
from fairlead.model import Notification
from fairlead.routing import Catalogue, Flooding, ImperfectMerging, Interest, RoutingTable, Strategy
from fairlead_lab.audit.routing import RULES, Breach, Change, Judge, Part, delta, part_of, parts_of
from fairlead_lab.broker import AnyBroker, SendToGroup
from fairlead_lab.simulation.network import Observer, Simulation
from fairlead_lab.simulation.tracing import Declaration, Declarations

__all__ = ["Checker", "is_of_a_tree"]


@dataclass(frozen=True, slots=True)
class _Standing:
    """The standing of one broker with another: a stranger, unless there is a link."""

    link: LinkId | None = None
    is_heard: bool = False
    """Whether the other has said so itself; what it says before belongs to an earlier link."""

    @property
    def is_neighbour(self) -> bool:
        return self.link is not None and self.is_heard


@dataclass(frozen=True, slots=True)
class _View:
    """One of a broker's two tables, and what goes with it."""

    broker: Broker
    advertisements: bool

    @property
    def table(self) -> RoutingTable:
        return self.broker.advertisements if self.advertisements else self.broker.subscriptions

    @property
    def strategy(self) -> Strategy:
        settings = self.broker.settings
        if not self.advertisements:
            return settings.strategy
        assert settings.advertisements is not None
        return settings.advertisements

    @property
    def initial(self) -> Part:
        """T|H for a neighbour H that has said nothing."""
        return Part() if self.advertisements else Part(tuple(self.strategy.initial()))

    def tells_all(self, neighbour: str) -> bool:
        """Whether a neighbour is told all there is, whether or not it can be served."""
        return not self.is_dropping or neighbour == self.broker.parent

    def needed_filters(self, neighbour: str) -> list[Filter]:
        r"""The filters in T\H."""
        return [interest.filter for interest in self.table.but(neighbour)]

    @property
    def is_dropping(self) -> bool:
        """Whether entries that can no longer be served are dropped (book 4.6.1)."""
        return not self.advertisements and self.broker.settings.advertisements is not None

    def retained(self, destination: str, part: Part, after: Mapping[str, Part]) -> Part:
        """A part without what was dropped from it rightly: nothing advertised elsewhere overlaps it."""
        return self._without_unservable(destination, part, {*after.get(destination, Part()).interests})

    def taken_up(self, source: str, part: Part, message: object) -> Part:
        """A part without what this message has brought and nothing advertised elsewhere overlaps: it is dropped
        at once, so it has no part in what the next message of a batch is merged with."""
        if not isinstance(message, Admin) or message.advertisements:
            return part
        return self._without_unservable(source, part, {*part.interests} - {*message.added})

    def _without_unservable(self, destination: str, part: Part, left: set[Interest]) -> Part:
        """A part without what nothing advertised elsewhere overlaps, but for what is left."""
        if not self.is_dropping or destination not in self.broker.advertisements.hearers:
            return part
        offers = [offer.filter for offer in self.broker.advertisements.but(destination)]
        gone = {
            each
            for each in part.interests
            if each not in left and not any(overlaps(each.filter, offer) for offer in offers)
        }
        return Part(
            tuple(each for each in part.interests if each not in gone),
            tuple(merger for merger in part.mergers if merger[0] not in gone),
        )

    def change(self, declared: Iterable[Declaration]) -> Change:
        """The declaration of a client, as admin(S, U): what it asks for is a set of filters."""
        added: list[Interest] = []
        removed: list[Interest] = []
        for each in declared:
            if each.is_advertisement == self.advertisements and each.is_sole:
                owner = each.client if self.strategy.owned else ""
                (removed if each.is_over else added).append(Interest(each.filter, owner))
        return added, removed


class Checker(Observer):
    """Watches a simulation, from now on. It raises at the first breach, or with `collect` keeps them all.

    The seed is the run's, to be named where it fails.
    """

    def __init__(self, simulation: Simulation, *, seed: int | None = None, collect: bool = False) -> None:
        self.steps = 0
        self.breaches: list[tuple[int, Breach]] = []
        """Each with the number of the step after which it was found."""
        self._simulation = simulation
        self._seed = seed
        self._collect = collect
        self._judge = Judge()
        self._declarations = Declarations()
        self._standings: dict[tuple[str, str], _Standing] = {}
        self._brokers: dict[str, Broker] = {}
        self._before: dict[_Place, dict[str, Part]] = {}
        for broker in simulation.brokers.values():
            self._meet(_of_a_tree(broker))
        simulation.observers.append(self)

    def report(self) -> Report:
        """The findings, by rule; the places are numbers of steps. Open is what the algebra cannot decide."""
        matching: dict[str, list[Violation]] = {rule: [] for rule in RULES}
        for step, breach in self.breaches:
            matching[breach.rule].append(Violation(str(breach), (step,)))
        return Report(
            tuple(
                Finding("routing", rule, tuple(violations), self._judge.undecided[rule])
                for rule, violations in matching.items()
            )
        )

    # -- what happens --------------------------------------------------------------------------------------

    def handled(
        self, now: int, broker: AnyBroker, message: Message | Call | Command, effects: list[Effect]
    ) -> None:
        assert isinstance(broker, Broker)
        self.steps += 1
        self._conclude(broker, message, self._step(broker, message, effects))
        self._remember(broker)
        if not isinstance(message, Forward | Publish | Tick):
            self._conclude(broker, message, self._state(broker))
            if self._simulation.is_settled:
                self._conclude(broker, message, self._at_rest())

    def failed(self, now: int, change: str, about: Mapping[str, object]) -> None:
        if change == "recovery":
            name = str(about["broker"])
            self._declarations.forget(name)
            self._standings = {pair: each for pair, each in self._standings.items() if pair[0] != name}
            self._meet(_of_a_tree(self._simulation.brokers[name]))

    def _conclude(self, broker: Broker, message: object, breaches: Iterable[Breach]) -> None:
        for breach in breaches:
            if not self._collect:
                seed = "" if self._seed is None else f"seed {self._seed}, "
                raise AssertionError(f"{seed}step {self.steps}, {broker.name} took in {message}: {breach}")
            self.breaches.append((self.steps, breach))

    @staticmethod
    def _views(broker: Broker) -> Iterator[_View]:
        yield _View(broker, advertisements=False)
        if broker.settings.advertisements is not None:
            yield _View(broker, advertisements=True)

    def _remember(self, broker: Broker) -> None:
        self._brokers[broker.name] = broker
        for view in self._views(broker):
            self._before[broker.name, view.advertisements] = parts_of(view.table)

    def _meet(self, broker: Broker) -> None:
        """A broker as it was made: its neighbours are linked already."""
        self._remember(broker)
        for neighbour, link in broker.links.items():
            self._standings[broker.name, neighbour] = _Standing(link, is_heard=True)

    def _standing(self, broker: str, other: str) -> _Standing:
        return self._standings.get((broker, other), _Standing())

    # -- a step --------------------------------------------------------------------------------------------

    def _step(
        self, broker: Broker, message: Message | Call | Command, effects: list[Effect]
    ) -> Iterator[Breach]:
        declared = self._declarations.take(broker, message, effects)
        if isinstance(message, Forward | Publish):
            yield from self._passed_on(broker, message, effects)
        source = _source_of(message)
        messages = [_opened(each, broker) for each in _each(message)]
        for view in self._views(broker):
            # Where both tables change in turns, one cannot tell from the outside which entries were dropped.
            if view.is_dropping and isinstance(message, Batch) and any(map(_is_advertising, messages)):
                continue
            before = self._before[broker.name, view.advertisements]
            after = parts_of(view.table)
            expected = {place: view.retained(place, part, after) for place, part in before.items()}
            yield from self._judge.restricted_change(broker.name, source, expected, after)
            if source is not None:
                part = self._announced(view, source, before.get(source, Part()), messages)
                if any(change := view.change(declared)):
                    part = delta(view.strategy, broker.catalogue, part, source, change, is_neighbour=False)
                part = view.retained(source, part, after)
                matching = after.get(source, Part())
                yield from self._judge.restricted_impact(broker.name, source, part, matching)
            if not isinstance(message, Batch):
                yield from self._atomic(view, effects)
        if source is not None:
            self._note_standing(broker.name, source, messages)

    def _atomic(self, view: _View, effects: list[Effect]) -> Iterator[Breach]:
        """A neighbour that has heard some of the messages of a step still forwards what is needed all along."""
        name = view.broker.name
        before = self._before[name, view.advertisements]
        sent = Counter(effect.to for effect in effects if isinstance(effect, Send))
        for neighbour, count in sent.items():
            if neighbour not in view.table.hearers:
                continue
            if self._standing(name, neighbour).link != view.broker.links[neighbour]:
                continue  # a new one is told one thing after the other
            if count < 2 or not view.tells_all(neighbour):
                continue
            was = {
                each.filter for place, part in before.items() if place != neighbour for each in part.interests
            }
            needed = [filter for filter in view.needed_filters(neighbour) if filter in was]
            heard = list(self._simulation.in_flight(name, neighbour))
            for end in range(len(heard) - count, len(heard)):
                announced, standing = self._once_heard(view, self._brokers[neighbour], heard[:end])
                if standing.is_neighbour:
                    yield from self._judge.remote_invariant(
                        name, neighbour, needed, announced, rule="atomic change"
                    )

    def _announced(self, view: _View, source: str, part: Part, messages: Iterable[object]) -> Part:
        """Δ at the broker itself: what T|S becomes by these messages of S."""
        broker = view.broker
        standing = self._standing(broker.name, source)
        for message in messages:
            part, standing = _taken_in(
                view, broker.catalogue, source, (message,), part=part, standing=standing
            )
            part = view.taken_up(source, part, message)
        return part

    def _note_standing(self, broker: str, source: str, messages: Iterable[object]) -> None:
        standing = self._standing(broker, source)
        for message in messages:
            standing = _standing_after(standing, message, broker)
        self._standings[broker, source] = standing

    def _passed_on(
        self, broker: Broker, message: Forward | Publish, effects: list[Effect]
    ) -> Iterator[Breach]:
        settings = broker.settings
        if settings.durable or any(isinstance(effect, Refuse | Duplicate) for effect in effects):
            return
        notification, name = message.notification, broker.name
        clients = {
            client: ids
            for client in broker.clients
            if (ids := _matching(self._declarations.of(name, client), notification))
        }
        delivered = [effect for effect in effects if isinstance(effect, Deliver)]
        yield from self._judge.forwarding(name, notification, clients, (each.client for each in delivered))
        for each in delivered:
            if each.subscriptions != clients.get(each.client, each.subscriptions):
                what = f"{name} names {each.subscriptions} of {each.client}, not {clients[each.client]}"
                yield Breach("forwarding", what, notification)
        if not settings.batch_us:
            wanted = {
                neighbour
                for neighbour in broker.neighbours
                if (neighbour == broker.parent and settings.climbs)
                or any(each.filter.matches(notification) for each in broker.subscriptions.of(neighbour))
            }
            sent = [to for effect in effects for to in _receivers(effect)]
            yield from self._judge.forwarding(name, notification, sorted(wanted - {message.source}), sent)

    # -- a state -------------------------------------------------------------------------------------------

    def _state(self, broker: Broker) -> Iterator[Breach]:
        brokers, name = self._brokers, broker.name
        table = broker.subscriptions
        for client in {**dict.fromkeys(broker.clients), **dict.fromkeys(table.destinations_with_entries())}:
            if client not in table.neighbours:
                declared = self._declarations.of(name, client).values()
                yield from self._judge.local_invariant(name, client, part_of(table, client), declared)
        for view in self._views(broker):
            for neighbour in broker.neighbours:
                if not view.is_dropping:
                    part = part_of(view.table, neighbour)
                    yield from self._judge.small_tables(name, view.strategy, neighbour, part)
                yield from self._link(view, brokers[neighbour])
                yield from self._link(_View(brokers[neighbour], view.advertisements), broker)

    def _link(self, view: _View, neighbour: Broker) -> Iterator[Breach]:
        """The remote invariant, from the broker of a view to a neighbour."""
        source, to = view.broker.name, neighbour.name
        if not view.tells_all(to) or to not in view.table.hearers:
            return
        in_flight = [*self._simulation.in_flight(source, to), *view.broker.waiting.get(to, ())]
        announced, standing = self._once_heard(view, neighbour, in_flight)
        if standing.is_neighbour:
            needed_filters = view.needed_filters(to)
            yield from self._judge.remote_invariant(source, to, needed_filters, announced)
            if not isinstance(_View(neighbour, view.advertisements).strategy, Flooding | ImperfectMerging):
                yield from self._judge.nothing_in_vain(source, to, needed_filters, announced)

    def _once_heard(
        self, view: _View, neighbour: Broker, messages: Iterable[Message]
    ) -> tuple[Part, _Standing]:
        """Δ(T_j|i, K) for the broker i of a view and its neighbour j."""
        source = view.broker.name
        there = _View(neighbour, view.advertisements)
        return _taken_in(
            there,
            self._judge.catalogue,
            source,
            (each for message in messages for each in _each(message)),
            part=part_of(there.table, source),
            standing=self._standing(neighbour.name, source),
        )

    # -- at rest -------------------------------------------------------------------------------------------

    def _at_rest(self) -> Iterator[Breach]:
        brokers = self._brokers
        for broker in brokers.values():
            for view in self._views(broker):
                for neighbour in view.table.hearers:
                    if not self._are_linked(broker.name, neighbour):
                        continue
                    there = brokers[neighbour]
                    tells_all = view.tells_all(neighbour)
                    offers = (
                        None if tells_all else _View(there, advertisements=True).needed_filters(broker.name)
                    )
                    announced = part_of(_View(there, view.advertisements).table, broker.name)
                    needed_filters = view.needed_filters(neighbour)
                    yield from self._judge.remote_validity(
                        broker.name, neighbour, needed_filters, announced, offers
                    )
        yield from self._paths()

    def _are_linked(self, one: str, other: str) -> bool:
        near, far = self._standing(one, other), self._standing(other, one)
        return near.is_neighbour and near == far

    def _paths(self) -> Iterator[Breach]:
        offers: dict[str, list[Filter]] = {}
        for at, _, is_advertisement, held in self._declarations:
            if is_advertisement:
                offers.setdefault(at, []).extend(held.values())
        for home, client, is_advertisement, held in self._declarations:
            if is_advertisement or not held:
                continue
            ways = self._paths_to(home)
            for needed_filters in held.values():
                for start, way in ways.items():
                    if self._brokers[start].settings.advertisements is None:
                        yield from self._judge.path_validity(client, needed_filters, way)
                    for offer in offers.get(start, ()):
                        yield from self._judge.path_validity(client, And.of((needed_filters, offer)), way)

    def _paths_to(self, home: str) -> dict[str, list[tuple[str, str, Part]]]:
        """For each broker that is connected to a home, the links on the way there that only filters open."""
        brokers = self._brokers
        ways: dict[str, list[tuple[str, str, Part]]] = {home: []}
        ahead = [home]
        for near in ahead:
            for far in brokers[near].neighbours:
                if far in ways or not self._are_linked(near, far):
                    continue
                is_upward = brokers[far].parent == near and brokers[far].settings.climbs
                link = (far, near, part_of(brokers[far].subscriptions, near))
                ways[far] = ways[near] if is_upward else [link, *ways[near]]
                ahead.append(far)
        return ways


_Place: TypeAlias = tuple[str, bool]
"""A broker's table: of subscriptions, or of advertisements."""


def is_of_a_tree(broker: AnyBroker) -> TypeGuard[Broker]:
    """Whether a broker routes along one tree, so that these rules are about it."""
    return isinstance(broker, Broker) and broker.history is None and broker.settings.widen is None


def _of_a_tree(broker: AnyBroker) -> Broker:
    if is_of_a_tree(broker):
        return broker
    raise ValueRefused("these rules are about routing along one tree", hint="take a ForestChecker")


def _source_of(message: Message | Call | Command) -> str | None:
    if isinstance(message, Link | Unlink):
        return message.neighbour
    return getattr(message, "source", None)


def _each(message: Message | Call | Command) -> Iterator[Message | Call | Command]:
    if isinstance(message, Batch):
        for each in message.messages:
            yield from _each(each)
    else:
        yield message


def _receivers(effect: Any) -> tuple[str, ...]:
    """The neighbours that an effect forwards a notification to."""
    if isinstance(effect, Send | SendToGroup) and isinstance(effect.message, Forward):
        return (effect.to,) if isinstance(effect, Send) else effect.group
    return ()


def _is_advertising(message: object) -> bool:
    return isinstance(message, Admin) and message.advertisements


@dataclass(frozen=True, slots=True)
class _Opened:
    """A broker has opened a link, and named it."""

    link: LinkId


def _opened(message: Message | Call | Command, broker: Broker) -> object:
    """A message, but for a Link: how the link is called is the broker's choice."""
    return _Opened(broker.links[message.neighbour]) if isinstance(message, Link) else message


def _standing_after(standing: _Standing, message: object, broker: str) -> _Standing:
    """The standing of the sender of a message with a broker that has heard it."""
    match message:
        case _Opened(link) if link != standing.link:
            return _Standing(link)
        case Unlink():
            return _Standing()
        case Disconnect(_, link) if link == standing.link:
            return _Standing()
        case Connect(_, link) if link == standing.link:
            return _Standing(link, is_heard=True)
        case Connect(_, link) if link.opener != broker:
            is_awaited = standing.link is not None and not standing.is_heard
            if not is_awaited or (standing.link is not None and standing.link < link):
                return _Standing(link, is_heard=True)
    return standing


def _taken_in(
    view: _View,
    catalogue: Catalogue,
    source: str,
    messages: Iterable[object],
    *,
    part: Part,
    standing: _Standing,
) -> tuple[Part, _Standing]:
    """Δ(T|S, K): T|S once these messages have been heard, and what S is to the broker then."""
    for message in messages:
        was, standing = standing, _standing_after(standing, message, view.broker.name)
        if was.link != standing.link:
            part = Part() if standing.link is None else view.initial
        elif (
            isinstance(message, Admin)
            and message.advertisements == view.advertisements
            and standing.is_neighbour
        ):
            change = (message.added, message.removed)
            part = delta(view.strategy, catalogue, part, source, change, is_neighbour=True)
    return part, standing


def _matching(declared: Mapping[str, Filter], notification: Notification) -> tuple[str, ...]:
    return tuple(sorted(id for id, filter in declared.items() if filter.matches(notification)))
