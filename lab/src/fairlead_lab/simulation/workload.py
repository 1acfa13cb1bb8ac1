"""The workload of a run, drawn beforehand: subscriptions, publications, and who has to get what.

A notification has a value for each attribute (`x`, then `y` and `z`); a subscription asks for one value of each,
or for a range of them. Everything is drawn with integers from the seed, so a workload is the same on any
machine and for every algorithm.

    locality    the values of `x` are divided among the regions of the overlay; what is local is drawn from
                the client's part

Since an interest is a box of integers, what each checkpoint must deliver is known without any filter: it is
what the runs are checked against.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Final, TypeAlias

from fairlead.broker.messages import Advertise, Call, Publish, Subscribe, Unsubscribe
from fairlead.filters import Filter, parse
from fairlead.model import Notification
from fairlead.overlay.topology import Topology
from fairlead_lab.simulation.kinds import MILLION
from fairlead_lab.simulation.scenario import ATTRIBUTES, Scenario, WorkloadPlan

__all__ = ["ExpectedDelivery", "LocatedCall", "Phase", "Workload", "workload_of"]

LocatedCall: TypeAlias = tuple[str, Call]
"""A call, and the broker that it reaches."""
ExpectedDelivery: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A subscriber, the id of a notification, and the sorted ids of the subscriptions it matches."""
Span: TypeAlias = tuple[int, int]
"""The values from the first up to, and without, the second."""
Box: TypeAlias = tuple[Span, ...]
"""The values that an interest asks for, of one attribute after the other."""
_PRECISION: Final = 30
_SCALE: Final = 10**12
_TRIES: Final = 64


@dataclass(frozen=True, slots=True)
class Phase:
    """The phase up to a checkpoint: so many subscriptions are there, then publications are measured."""

    subscriptions: int
    changes: tuple[LocatedCall, ...]
    publications: tuple[LocatedCall, ...]
    expected: frozenset[ExpectedDelivery]


@dataclass(frozen=True, slots=True)
class Workload:
    """All that clients do."""

    advertisements: tuple[LocatedCall, ...]
    phases: tuple[Phase, ...]


@lru_cache(maxsize=2)
def workload_of(scenario: Scenario, seed: int) -> Workload:
    """The workload of a scenario under a seed; runs that are compared follow one another, and share it."""
    plan = scenario.workload
    overlay = scenario.topology(seed)
    return _Drawing(scenario, overlay, seed if plan.seed is None else plan.seed).workload()


@dataclass(frozen=True, slots=True)
class _Client:
    name: str
    broker: str
    local: Span
    """The values of its region."""


@dataclass(frozen=True, slots=True)
class _Interest:
    id: str
    client: _Client
    box: Box


@dataclass(slots=True)
class _Standing:
    """The subscriptions that are there, in an order in which any of them is removed at once."""

    interests: list[_Interest] = field(default_factory=list)
    held: set[tuple[str, Box]] = field(default_factory=set)

    def add(self, interest: _Interest) -> None:
        self.interests.append(interest)
        self.held.add((interest.client.name, interest.box))

    def remove(self, place: int) -> _Interest:
        last = self.interests.pop()
        gone = last
        if place < len(self.interests):
            gone, self.interests[place] = self.interests[place], last
        self.held.remove((gone.client.name, gone.box))
        return gone


class _Drawing:
    """Draws a workload. Each kind of thing has a generator of its own, so one does not shift another."""

    def __init__(self, scenario: Scenario, overlay: Topology, seed: int) -> None:
        self._plan: Final[WorkloadPlan] = scenario.workload
        self._everything: Final[Span] = (0, self._plan.values)
        self._weights = _weights(self._plan, Random(f"popularity {seed}"))
        self._interests = Random(f"subscriptions {seed}")
        self._leaving = Random(f"unsubscriptions {seed}")
        self._published = Random(f"publications {seed}")
        self._filters: dict[Box, Filter] = {}
        plan, most = scenario.clients, self._plan.checkpoints[-1]
        brokers = list(scenario.clients.hosts(overlay))
        Random(f"places {seed}").shuffle(brokers)
        regions = overlay.regions(plan.regions)
        region = {broker: number for number, chosen in enumerate(regions) for broker in chosen}

        def clients_at(kind: str, count: int) -> list[_Client]:
            step = max(1, len(brokers) // count)
            chosen = [brokers[number * step % len(brokers)] for number in range(count)]
            return [
                _Client(f"{kind}{number}", broker, self._part(region[broker], plan.regions))
                for number, broker in enumerate(chosen, start=1)
            ]

        self._subscribers = clients_at("s", most if plan.subscribers is None else plan.subscribers)
        self._publishers = clients_at("p", plan.publishers)
        offers = Random(f"offers {seed}")
        self._offers = [self._offer(publisher, offers) for publisher in self._publishers]
        self._advertises = scenario.routing.advertises

    def workload(self) -> Workload:
        advertisements: list[LocatedCall] = []
        if self._advertises:
            advertisements = [
                (client.broker, Advertise(client.name, "a1", self._filter((offer,))))
                for client, offer in zip(self._publishers, self._offers, strict=True)
            ]
        return Workload(tuple(advertisements), tuple(self._phases()))

    def _phases(self) -> Iterator[Phase]:
        standing = _Standing()
        subscribed = published = 0
        for checkpoint in self._plan.checkpoints:
            changes: list[LocatedCall] = []
            coming = checkpoint - len(standing.interests)
            replaced = coming * self._plan.unsubscribe_ppm // MILLION
            for number in range(coming + replaced):
                subscribed += 1
                interest = self._interest(subscribed, standing)
                standing.add(interest)
                call: Call = Subscribe(interest.client.name, interest.id, self._filter(interest.box))
                changes.append((interest.client.broker, call))
                # Spread evenly over the new ones, so that what comes meets what goes.
                if (number + 1) * replaced // (coming + replaced) > number * replaced // (coming + replaced):
                    gone = standing.remove(self._leaving.randrange(len(standing.interests)))
                    changes.append((gone.client.broker, Unsubscribe(gone.client.name, gone.id)))
            publications = [self._publication(published + each) for each in range(self._plan.publications)]
            published += len(publications)
            yield Phase(
                len(standing.interests),
                tuple(changes),
                tuple((broker, publish) for broker, publish, _ in publications),
                _expected(standing, [(publish, value) for _, publish, value in publications]),
            )

    # -- drawing one thing ---------------------------------------------------------------------------------

    def _interest(self, number: int, standing: _Standing) -> _Interest:
        """Nobody holds a filter twice: where one is drawn that the client has, another one is."""
        client = self._subscribers[(number - 1) % len(self._subscribers)]
        for _ in range(_TRIES):
            box = self._box(client)
            if (client.name, box) not in standing.held:
                return _Interest(f"q{number}", client, box)
        # Who has all that is popular takes the first that is free; after it, the next client.
        rank, others = (number - 1) % len(self._subscribers), self._box(client)[1:]
        for each in (*self._subscribers[rank:], *self._subscribers[:rank]):
            for value in range(self._plan.values):
                box = ((value, value + 1), *others)
                if (each.name, box) not in standing.held:
                    return _Interest(f"q{number}", each, box)
        raise AssertionError("a scenario has room for its subscriptions")

    def _box(self, client: _Client) -> Box:
        first = client.local if self._is_local(self._interests) else self._everything
        return tuple(
            self._span(self._everything if place else first) for place in range(self._plan.attributes)
        )

    def _span(self, within: Span) -> Span:
        value = self._value(self._interests, within)
        if self._plan.shape != "intervals":
            return value, value + 1
        return value, min(value + 1 + self._interests.randrange(self._plan.width), within[1])

    def _publication(self, number: int) -> tuple[str, Publish, tuple[int, ...]]:
        random = self._published
        chosen = random.randrange(len(self._publishers))
        publisher, offer = self._publishers[chosen], self._offers[chosen]
        if self._plan.offer_ppm == MILLION and self._is_local(random):
            offer = publisher.local
        names = ATTRIBUTES[: self._plan.attributes]
        values = tuple(
            self._value(random, self._everything if place else offer) for place in range(len(names))
        )
        content = {
            "id": f"n{number + 1}",
            "producer": publisher.name,
            **dict(zip(names, values, strict=True)),
        }
        return publisher.broker, Publish(publisher.name, Notification.of(content)), values

    def _offer(self, publisher: _Client, random: Random) -> Span:
        """The span that a publisher publishes in: everything, or a window among its region's values or all of
        them.
        """
        if self._plan.offer_ppm == MILLION:
            return publisher.local if self._plan.locality_ppm == MILLION else self._everything
        first, end = publisher.local if self._is_local(random) else self._everything
        size = min(max(1, self._plan.values * self._plan.offer_ppm // MILLION), end - first)
        start = first + random.randrange(end - first - size + 1)
        return start, start + size

    def _is_local(self, random: Random) -> bool:
        locality = self._plan.locality_ppm
        return bool(locality) and random.randrange(MILLION) < locality

    def _value(self, random: Random, span: Span) -> int:
        """A value of a span, as often as it weighs."""
        before = self._weights[span[0]]
        drawn = before + random.randrange(self._weights[span[1]] - before)
        return bisect_right(self._weights, drawn) - 1

    def _part(self, region: int, regions: int) -> Span:
        values = self._plan.values
        return region * values // regions, (region + 1) * values // regions

    def _filter(self, box: Box) -> Filter:
        found = self._filters.get(box)
        if found is None:
            text = " and ".join(map(self._filter_text, ATTRIBUTES, box))
            found = self._filters[box] = parse(text)
        return found

    def _filter_text(self, name: str, span: Span) -> str:
        first, end = span
        one = end == first + 1 and self._plan.shape != "intervals"
        return f"{name} = {first}" if one else f"{name} in [{first}, {end})"


def _weights(plan: WorkloadPlan, random: Random) -> list[int]:
    """The weight of the values before each, and last that of all."""
    if plan.shape != "zipf":
        return list(range(plan.values + 1))
    with localcontext() as context:
        # ln and exp are correctly rounded; powers and those of floating point need not be.
        context.prec = _PRECISION
        weights = [
            max(1, int(_SCALE * (-plan.exponent * Decimal(rank).ln()).exp()))
            for rank in range(1, plan.values + 1)
        ]
    random.shuffle(weights)  # or else the first region would have all that is popular
    return [0, *accumulate(weights)]


def _expected(
    standing: _Standing, published: list[tuple[Publish, tuple[int, ...]]]
) -> frozenset[ExpectedDelivery]:
    """By integers alone: a subscription asks for values iff its box has them."""
    by_box: dict[Box, list[_Interest]] = {}
    for interest in standing.interests:
        by_box.setdefault(interest.box, []).append(interest)
    asked: dict[tuple[int, ...], dict[str, tuple[str, ...]]] = {}
    found = []
    for publish, values in published:
        if values not in asked:
            ids: dict[str, list[str]] = {}
            for box, interests in by_box.items():
                if all(first <= value < end for value, (first, end) in zip(values, box, strict=True)):
                    for interest in interests:
                        ids.setdefault(interest.client.name, []).append(interest.id)
            asked[values] = {client: tuple(sorted(each)) for client, each in ids.items()}
        identity = publish.notification.id
        assert identity is not None
        found += [(client, identity, matching) for client, matching in asked[values].items()]
    return frozenset(found)
