"""Random scenarios: a tree of brokers, and clients that do anything at any time, while messages are under way.

A scenario is a value, drawn from a source of chance: a seeded one, or Hypothesis's, which then finds a small
one that fails. `play` runs it with any strategies and brokers, under all specifications, and ends with
publications at rest, which the embedded bus gets as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeAlias

from fairlead import Bus
from fairlead.audit import Event, Notified, Report, audit
from fairlead.broker import Broker, Settings
from fairlead.broker.messages import (
    Advertise,
    Batch,
    Call,
    Deliver,
    Effect,
    Forward,
    Join,
    Leave,
    Link,
    Message,
    Publish,
    Subscribe,
    Unadvertise,
    Unlink,
    Unsubscribe,
)
from fairlead.filters import Filter, parse
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.routing import (
    Catalogue,
    Covering,
    Flooding,
    Identity,
    ImperfectMerging,
    Merging,
    Simple,
    Strategy,
)
from fairlead_lab.simulation.checking import Checker
from fairlead_lab.simulation.network import Observer, Simulation
from fairlead_lab.simulation.tracing import Tracer

STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "flooding": Flooding,
    "simple": Simple,
    "identity": Identity,
    "covering": Covering,
    "merging": Merging,
    "imperfect": lambda: ImperfectMerging(0.4),
}
PAIRS = [("flooding", None)] + [
    (one, other)
    for one in STRATEGIES
    if one != "flooding"
    for other in (None, *STRATEGIES)
    if other != "flooding"  # book 4.6.1: any algorithm for advertisements, but flooding
]
GAP_US = 2500
"""A message takes from 1 to 3 ms, so most steps meet messages under way."""


@dataclass(frozen=True)
class Say:
    """A client calls."""

    broker: str
    call: Call


@dataclass(frozen=True)
class Cut:
    """A broker parts from a neighbour."""

    broker: str
    neighbour: str


@dataclass(frozen=True)
class Tie:
    """A broker is linked to another, and the overlay is a tree again."""

    broker: str
    neighbour: str


Step: TypeAlias = Say | Cut | Tie
Delivered: TypeAlias = tuple[str, str, tuple[str, ...]]
"""Subscriber, id of the notification, ids of the subscriptions."""


@dataclass(frozen=True)
class Scenario:
    """Who is there, and what happens, each thing so many microseconds after the one before."""

    parents: tuple[int, ...]
    """Broker i + 1 is linked to broker `parents[i]`."""
    below: frozenset[int] = frozenset()
    """The brokers whose link to their parent is one of a hierarchy."""
    steps: tuple[tuple[int, Step], ...] = ()
    finale: tuple[Say, ...] = ()
    seed: int = 0
    batch_us: int = 0
    shares_catalogue: bool = True

    @property
    def names(self) -> list[str]:
        return [f"B{i}" for i in range(len(self.parents) + 1)]

    def settings(self, i: int, strategy: Strategy, advertisements: Strategy | None) -> Settings:
        above = f"B{self.parents[i - 1]}" if i in self.below else None
        beneath = frozenset(f"B{j}" for j in self.below if self.parents[j - 1] == i)
        return Settings(strategy, advertisements, above, beneath, batch_us=self.batch_us)

    def neighbours(self, i: int) -> list[str]:
        above = [f"B{self.parents[i - 1]}"] if i else []
        return above + [f"B{j + 1}" for j, parent in enumerate(self.parents) if parent == i]


# -- drawing -------------------------------------------------------------------------------------------------


def a_filter(random: Random) -> Filter:
    """Of a small pool, so that filters are often identical, cover one another, merge, and overlap."""
    topics = [f'"t{random.randrange(3)}"' for _ in range(2)]
    low = random.randrange(8)
    prices = f"price in [{low}, {low + random.randrange(5)}]"
    match random.randrange(7):
        case 0:
            text = f"topic = {topics[0]}"
        case 1:
            text = prices
        case 2:
            text = f"topic = {topics[0]} and {prices}"
        case 3:
            text = f"price > {low}"
        case 4:
            text = f"topic in {{{topics[0]}, {topics[1]}}} and price < {low + 2}"
        case 5:  # identical to another spelling
            text = f"not (price < {low} or price > {low + 2}) and exists price"
        case _:
            text = f"price in [{low}, {low + 2}]"
    return parse(text)


def a_notification(random: Random, id: str, producer: str) -> Notification:
    content = {"topic": f"t{random.randrange(3)}", "price": random.randrange(12)}
    return replace(Notification.of(content), id=id, producer=producer)


@dataclass
class _Drawing:
    """Keeps track of what has been declared, so that what is drawn makes sense."""

    random: Random
    brokers: list[str]
    advertises: bool
    links: set[tuple[str, str]]
    pool: list[Filter]
    moves: bool = True
    """Whether brokers may be linked elsewhere; in a hierarchy it is settled who is below whom."""
    homes: dict[str, str] = field(default_factory=dict)
    subscribed: dict[tuple[str, str], Filter] = field(default_factory=dict)
    advertised: dict[tuple[str, str], Filter] = field(default_factory=dict)
    cut: tuple[str, str] | None = None
    made: int = 0

    def fresh(self, letter: str) -> str:
        self.made += 1
        return f"{letter}{self.made}"

    def client(self) -> str:
        """One that is there, or now and then a new one."""
        if not self.homes or (len(self.homes) < 4 and not self.random.randrange(4)):
            self.homes[self.fresh("c")] = self.random.choice(self.brokers)
        return self.random.choice(sorted(self.homes))

    def say(self, call: Call) -> Say:
        return Say(self.homes[call.source], call)

    def publication(self) -> Say:
        client = self.client()
        return self.say(Publish(client, a_notification(self.random, self.fresh("n"), client)))

    def step(self) -> Step | None:
        if self.advertises and not self.random.randrange(4):
            if self.random.randrange(5) < 3:
                return self._declare(self.advertised, Advertise, "a")
            return self._revoke(self.advertised, Unadvertise)
        chance = self.random.randrange(20)
        if chance < 8:
            return self._declare(self.subscribed, Subscribe, "s")
        if chance < 14:
            return self._revoke(self.subscribed, Unsubscribe)
        if chance < 17:
            # While the overlay is in two parts, nobody can promise a delivery.
            return self.publication() if self.cut is None else None
        if chance < 18:
            return self.say(Join(self.client()))
        return self._leave() if chance < 19 else self._relink()

    def _declare(self, held: dict[tuple[str, str], Filter], call: Any, letter: str) -> Say | None:
        client = self.client()
        filter = self.random.choice(self.pool) if self.random.randrange(2) else a_filter(self.random)
        if any(owner == client and filter == other for (owner, _), other in held.items()):
            return None
        id = self.fresh(letter)
        held[client, id] = filter
        return self.say(call(client, id, filter))

    def _revoke(self, held: dict[tuple[str, str], Filter], call: Any) -> Say | None:
        if not held:
            return None
        client, id = self.random.choice(sorted(held))
        del held[client, id]
        return self.say(call(client, id))

    def _leave(self) -> Say | None:
        """Who comes back elsewhere is somebody new: what is under way may reach both places."""
        if not self.homes:
            return None
        client = self.random.choice(sorted(self.homes))
        said = self.say(Leave(client))
        for held in (self.subscribed, self.advertised):
            for slot in [each for each in held if each[0] == client]:
                del held[slot]
        if self.random.randrange(2):
            del self.homes[client]
        return said

    def _relink(self) -> Step | None:
        if not self.links:
            return None
        if self.cut is None:
            self.cut = self.random.choice(sorted(self.links))
            self.links.discard(self.cut)
            return Cut(*self._either_way(self.cut))
        return self.mend()

    def mend(self) -> Tie:
        """The same link again, or where that is allowed, another between the two parts."""
        assert self.cut is not None
        one, other = self.cut
        self.cut = None
        if self.moves and self.random.randrange(2):
            one = self.random.choice(sorted(self._side(one)))
            other = self.random.choice(sorted(self._side(other)))
        self.links.add((one, other))
        return Tie(*self._either_way((one, other)))

    def _side(self, start: str) -> set[str]:
        side = {start}
        while more := {
            b for pair in self.links for a, b in (pair, pair[::-1]) if a in side and b not in side
        }:
            side |= more
        return side

    def _either_way(self, pair: tuple[str, str]) -> tuple[str, str]:
        return pair if self.random.randrange(2) else pair[::-1]


def scenario(
    random: Random,
    *,
    advertises: bool = False,
    shape: str = "peers",
    relinks: bool = False,
    steps_max: int = 24,
    brokers_max: int = 6,
) -> Scenario:
    """Draw one. The shape is "peers", "hierarchy" or "hybrid"."""
    count = random.randrange(1, brokers_max + 1)
    parents = tuple(random.randrange(i) for i in range(1, count))
    below: set[int] = set()
    for i in range(1, count):
        if shape == "hierarchy" or (
            shape == "hybrid" and (parents[i - 1] in below or (random.randrange(2) and i > 1))
        ):
            below.add(i)
    names = [f"B{i}" for i in range(count)]
    links = {(f"B{parent}", f"B{i + 1}") for i, parent in enumerate(parents)} if relinks else set()
    pool = [a_filter(random) for _ in range(4)]
    drawing = _Drawing(random, names, advertises, links, pool, moves=not below)
    steps: list[tuple[int, Step]] = []
    for _ in range(random.randrange(1, steps_max + 1)):
        step = drawing.step()
        if step is not None:
            steps.append((random.randrange(GAP_US), step))
    if drawing.cut is not None:
        steps.append((random.randrange(GAP_US), drawing.mend()))
    return Scenario(
        parents,
        frozenset(below),
        tuple(steps),
        tuple(drawing.publication() for _ in range(8)),
        seed=random.randrange(1000),
        batch_us=random.choice([0, 0, 0, 1500]),
        shares_catalogue=bool(random.randrange(2)),
    )


# -- playing -------------------------------------------------------------------------------------------------


class Passages(Observer):
    """Counts how often each notification is passed on, and how many are under way."""

    def __init__(self, simulation: Simulation) -> None:
        self.forwards: Counter[str] = Counter()
        self.delivered: list[Delivered] = []
        self._simulation = simulation
        self._in_flight = 0
        simulation.observers.append(self)

    @property
    def are_over(self) -> bool:
        waiting = (each for broker in self._simulation.brokers.values() for each in broker.waiting.values())
        return not self._in_flight and not any(_forwards(message) for each in waiting for message in each)

    def sent(self, now: int, source: str, to: str, message: Message) -> None:
        for forward in _forwards(message):
            self.forwards[str(forward.notification.id)] += 1
            self._in_flight += 1

    def handled(self, now: int, broker: Any, message: Any, effects: list[Effect]) -> None:
        self._in_flight -= len(_forwards(message))
        self.delivered += [
            (effect.client, str(effect.notification.id), effect.subscriptions)
            for effect in effects
            if isinstance(effect, Deliver)
        ]


def _forwards(message: Any) -> list[Forward]:
    if isinstance(message, Batch):
        return [each for each in message.messages if isinstance(each, Forward)]
    return [message] if isinstance(message, Forward) else []


@dataclass
class Played:
    """How it went."""

    scenario: Scenario
    routing: Report
    trace: Report
    events: list[Event]
    delivered: list[Delivered]
    """In the end, at rest."""
    expected: list[Delivered]
    """The deliveries of the embedded bus."""
    forwards: Counter[str]

    @property
    def violated(self) -> set[str]:
        """The rules that are broken, by specification."""
        broken = {
            f"{specification}: {rule}"
            for report in (self.routing, self.trace)
            for specification, rule in report.violated()
        }
        if sorted(self.delivered) != sorted(self.expected):
            broken.add("as the bus")
        if any(count > len(self.scenario.parents) for count in self.forwards.values()):
            broken.add("no more than flooding")
        return broken

    def explained(self) -> Iterator[str]:
        for report in (self.routing, self.trace):
            for (specification, rule), finding in report.violated().items():
                for violation in finding.violations[:2]:
                    yield f"{specification}: {rule}: {violation.what} {violation.indexes}"
        yield f"missed {sorted({*self.expected} - {*self.delivered})}"
        yield f"in vain {sorted({*self.delivered} - {*self.expected})}"


def play(
    scenario: Scenario,
    strategy: Strategy,
    advertisements: Strategy | None = None,
    *,
    broker: type[Broker] = Broker,
    checked: bool = True,
) -> Played:
    """Run a scenario, and judge it."""
    catalogue = Catalogue(engine_named("columnar")) if scenario.shares_catalogue else None
    simulation = Simulation(
        [
            broker(name, scenario.settings(i, strategy, advertisements), scenario.neighbours(i), catalogue)
            for i, name in enumerate(scenario.names)
        ],
        seed=scenario.seed,
    )
    checker = Checker(simulation, collect=True) if checked else None
    events: list[Event] = []
    tracer = Tracer(simulation, events.append)
    passages = Passages(simulation)
    for gap, step in scenario.steps:
        simulation.run(until=simulation.now + gap)
        _take(simulation, passages, step)
    simulation.run()
    passages.delivered.clear()
    expected = on_the_bus(scenario, advertises=advertisements is not None)
    for said in scenario.finale:
        simulation.call(said.broker, said.call)
    simulation.run()
    tracer.close()
    specification = "simple" if advertisements is None else "advertisements"
    trace = audit(events, specification, "fifo", "causal")
    routing = checker.report() if checker is not None else Report(())
    return Played(scenario, routing, trace, events, passages.delivered, expected, passages.forwards)


def _take(simulation: Simulation, passages: Passages, step: Step) -> None:
    """An administrator waits for notifications under way before links change: these would go astray, or
    come twice (book 4.6.4 leaves that open). Filters may be under way."""
    if isinstance(step, Say):
        simulation.call(step.broker, step.call)
        return
    broker, other = simulation.brokers[step.broker], simulation.brokers[step.neighbour]
    assert isinstance(broker, Broker)
    assert isinstance(other, Broker)
    if isinstance(step, Cut):
        _until(simulation, lambda: passages.are_over)
        simulation.call(step.broker, Unlink(step.neighbour))
        _until(simulation, lambda: step.neighbour not in broker.neighbours)
        return
    if step.broker not in other.neighbours:
        everywhere = simulation.brokers.values()
        _until(simulation, lambda: all(_is_mutual(simulation, each) for each in everywhere))
    simulation.call(step.broker, Link(step.neighbour))
    _until(simulation, lambda: step.neighbour in broker.neighbours)
    _until(simulation, lambda: simulation.is_settled)


def _is_mutual(simulation: Simulation, broker: Any) -> bool:
    return all(broker.name in _neighbours(simulation, each) for each in broker.neighbours)


def _neighbours(simulation: Simulation, name: str) -> list[str]:
    broker = simulation.brokers[name]
    assert isinstance(broker, Broker)
    return broker.neighbours


def _until(simulation: Simulation, condition: Callable[[], bool]) -> None:
    while not condition():
        simulation.step()


def on_the_bus(scenario: Scenario, *, advertises: bool) -> list[Delivered]:
    """The same calls, with everybody on one embedded bus: what the final publications lead to."""
    heard: list[Event] = []
    offers: dict[tuple[str, str], Filter] = {}
    with Bus(trace=heard.append) as bus:
        for _, step in scenario.steps:
            match step:
                case Say(_, Subscribe(client, id, filter)):
                    bus.subscribe(filter, _hear, id=id, subscriber=client)
                case Say(_, Unsubscribe(_, id)):
                    bus.unsubscribe(id)
                case Say(_, Advertise(client, id, filter)):
                    offers[client, id] = filter
                case Say(_, Unadvertise(client, id)):
                    del offers[client, id]
                case Say(_, Leave(client)):
                    for subscription in bus.subscriptions:
                        if subscription.subscriber == client:
                            bus.unsubscribe(subscription)
                    offers = {slot: filter for slot, filter in offers.items() if slot[0] != client}
        for said in scenario.finale:
            assert isinstance(said.call, Publish)
            client, notification = said.call.source, said.call.notification
            own = [filter for (owner, _), filter in offers.items() if owner == client]
            if not advertises or any(filter.matches(notification) for filter in own):
                bus.publish(notification)
    return [
        (event.component, event.identity.id, event.subscriptions)
        for event in heard
        if isinstance(event, Notified)
    ]


def _hear(notification: Notification) -> None:
    """Bus and brokers are compared by what they say they deliver."""
