"""Recovery from any state, measured: how long after a fault the tables are right again, and stay so (book 8.2).

    recovery = stabilise(scenario, "covering", seed)
    recovery.took <= recovery.bound

An overlay of leased brokers, or of brokers that build their tables anew, has clients that renew their
subscriptions. At one time the state of all brokers is damaged: entries, flags, clocks, mergers, indexes, filters
of clients, memories of publications, messages in flight, and messages that nobody has sent. A checker judges
each broker after each of its steps, with messages in flight, since leases never rest:

    complete   a notification that a client has asked for is forwarded to it, whichever broker it is at
    clean      nothing is forwarded that nobody behind the neighbour has asked for, nor delivered to a local client
    known      no publication counts as known that was never made

The ideal is computed from the subscriptions of clients and the topology alone. After the bound, publications at
all brokers have to reach exactly their subscribers, once, so that the checker is checked, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from fairlead.broker import Broker, Settings
from fairlead.broker.messages import Advertise, Deliver, Publish, Subscribe, Tick
from fairlead.filters import Filter
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.overlay import Topology
from fairlead.routing import STRATEGIES, Catalogue
from fairlead_lab.broker import AnyBroker, LeasedBroker, RebuildingBroker
from fairlead_lab.broker.leased import Refresh
from fairlead_lab.broker.leases import Leases, Rebuilding
from fairlead_lab.routing.chance import seeded
from fairlead_lab.routing.leased import Leased
from fairlead_lab.simulation.algorithms import Hierarchy
from fairlead_lab.simulation.corruption import PARTS, Corruption
from fairlead_lab.simulation.faults import Faults
from fairlead_lab.simulation.kinds import MILLION
from fairlead_lab.simulation.network import Observer, Simulation
from fairlead_lab.simulation.scenario import Scenario
from fairlead_lab.simulation.workload import workload_of

__all__ = [
    "Recovery",
    "StabilisingChecker",
    "leased_maker",
    "leases_of",
    "rebuilding_of",
    "stabilise",
]

PROBES_MAX: Final = 256
"""So many notifications stand for all."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A recovery from a fault; times in microseconds."""

    algorithm: str
    seed: int
    took: int | None
    """The time from the fault to the last state that was wrong; None where the last state of all is wrong."""
    bound: int
    printed_bound: int
    wrong_before: int
    """The states that were wrong before the fault, once all had subscribed: without a fault there is none."""
    wrong_deliveries: int
    """Of the publications after the bound: missing, unasked for, or repeated."""
    messages: int
    """The messages about filters in a second, at rest."""

    @property
    def is_within_bound(self) -> bool:
        """Whether it kept its promise."""
        return self.took is not None and self.took <= self.bound and not self.wrong_deliveries

    def to_json(self) -> dict[str, Any]:
        """All of it in plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


def _delays(scenario: Scenario) -> tuple[int, int]:
    """The least and the greatest delay of a link."""
    delay = scenario.delay
    if delay.shape == "constant":
        return delay.least + delay.spread, delay.least + delay.spread
    return delay.least, delay.least + 2 * delay.spread


def leases_of(scenario: Scenario, overlay: Topology) -> Leases:
    """The leases that a scenario asks for, with a leasing period from its delays."""
    plan, (least, most) = scenario.leases, _delays(scenario)
    covers: Any = plan.covers
    advertises = scenario.routing.advertisements is not None
    if plan.lease_us is None:
        return Leases.automatic(plan.refresh_us, least, most, overlay.diameter, covers, advertises=advertises)
    return Leases(plan.refresh_us, plan.lease_us, least, most, overlay.diameter, covers, advertises)


def rebuilding_of(scenario: Scenario, overlay: Topology) -> Rebuilding:
    """The periods in which tables are built anew, likewise."""
    plan, (_, most) = scenario.leases, _delays(scenario)
    advertises = scenario.routing.advertisements is not None
    least = Rebuilding.least_period(plan.refresh_us, most, overlay.diameter, advertises=advertises)
    period = least if plan.lease_us is None else plan.lease_us
    return Rebuilding(plan.refresh_us, period, most, overlay.diameter, overlay.brokers[0], advertises)


def stabilise(
    scenario: Scenario,
    algorithm: str,
    seed: int,
    *,
    damage: bool = True,
    watch: Callable[[Simulation], object] | None = None,
) -> Recovery:
    """Damage everything at one time, and wait until all is right again; `watch` gets the simulation beforehand."""
    run = _Run(scenario, algorithm, seed, damage=damage)
    if watch is not None:
        watch(run.simulation)
    return run.recovery()


class StabilisingChecker(Observer):
    """Judges each broker after each step against what clients ask for, and remembers when it was wrong last."""

    def __init__(
        self,
        simulation: Simulation,
        overlay: Topology,
        algorithm: str,
        *,
        subscriptions: Iterable[tuple[str, Subscribe]],
        advertised: Mapping[str, Iterable[Filter]] | None,
        probes: Iterable[Notification],
    ) -> None:
        self.last_wrong: int | None = None
        self.wrong: set[str] = set()
        self.deliveries: list[tuple[str, str, tuple[str, ...]]] = []
        self.published: set[tuple[str, str]] = set()
        self._simulation = simulation
        self._strategy = algorithm.removeprefix("hierarchical-")
        self._probes = list(probes)
        self._masks: dict[Filter, int] = {}
        self._local: dict[str, dict[str, dict[str, Filter]]] = {name: {} for name in overlay.brokers}
        for broker, call in subscriptions:
            self._local[broker].setdefault(call.source, {})[call.id] = call.filter
        offered = {} if advertised is None else {at: self._union(of) for at, of in advertised.items()}
        self._required: dict[tuple[str, str], int] = {}
        self._allowed: dict[tuple[str, str], int] = {}
        for broker in overlay.brokers:
            for neighbour in overlay.neighbours(broker):
                behind = _behind(overlay, broker, neighbour)
                wanted = self._union(
                    filter for name in behind for own in self._local[name].values() for filter in own.values()
                )
                offers = 0
                for at, mask in offered.items():
                    offers |= 0 if at in behind else mask
                self._allowed[broker, neighbour] = wanted
                self._required[broker, neighbour] = wanted if advertised is None else wanted & offers
        simulation.observers.append(self)

    def _mask(self, filter: Filter) -> int:
        """The probes that a filter matches, as bits."""
        mask = self._masks.get(filter)
        if mask is None:
            mask = sum(1 << bit for bit, probe in enumerate(self._probes) if filter.matches(probe))
            self._masks[filter] = mask
        return mask

    def _union(self, filters: Iterable[Filter]) -> int:
        united = 0
        for filter in filters:
            united |= self._mask(filter)
        return united

    def handled(self, now: int, broker: AnyBroker, message: Any, effects: list[Any]) -> None:
        if isinstance(message, Publish):
            self.published.add((message.notification.producer, message.notification.id or ""))
        for effect in effects:
            if isinstance(effect, Deliver):
                self.deliveries.append(
                    (effect.client, effect.notification.id or "", tuple(effect.subscriptions))
                )
        self._judge(now, broker)

    def failed(self, now: int, change: str, about: Mapping[str, object]) -> None:
        if "broker" in about:
            self._judge(now, self._simulation.brokers[str(about["broker"])])

    def _judge(self, now: int, broker: AnyBroker) -> None:
        was_wrong = bool(self.wrong)
        if self.breach(broker) is None:
            self.wrong.discard(broker.name)
        else:
            self.wrong.add(broker.name)
        if self.wrong or was_wrong:
            self.last_wrong = now

    def judge_all(self, now: int) -> None:
        """Judge all brokers, from now on."""
        self.wrong.clear()
        self.last_wrong = None
        for broker in self._simulation.brokers.values():
            self._judge(now, broker)

    # -- one broker ----------------------------------------------------------------------------------------

    def breach(self, broker: AnyBroker) -> str | None:
        """The first thing that is wrong with the state of a broker; None where it is right."""
        parts = broker.generations if isinstance(broker, RebuildingBroker) else [broker]
        memory = broker.front if isinstance(broker, RebuildingBroker) else broker
        masks: dict[str, int] = {}
        unrelated: set[str] = set()
        for part in parts:
            assert isinstance(part, Broker)
            table = part.subscriptions
            for number, at in table._at.items():
                mask = self._mask(part.catalogue.filter(number))
                for destination in at:
                    masks[destination] = masks.get(destination, 0) | mask
                    if mask and not mask & self._allowed.get((broker.name, destination), 0):
                        unrelated.add(destination)
        first = parts[0]
        assert isinstance(first, Broker)
        assert isinstance(memory, Broker)
        for neighbour in first.links:
            problem = self._breach_at(first, neighbour, masks.pop(neighbour, 0), neighbour in unrelated)
            if problem is not None:
                return problem
        return self._local_breach(parts, masks) or self._memory_breach(memory)  # type: ignore[arg-type]

    def _breach_at(self, broker: Broker, neighbour: str, mask: int, is_unrelated: bool) -> str | None:
        if neighbour in broker._awaited:
            return f"{broker.name} does not hear {neighbour}"
        if self._strategy == "flooding":
            full = (1 << len(self._probes)) - 1
            return None if mask == full else f"{broker.name} does not flood to {neighbour}"
        if neighbour == broker.parent:
            return None  # it gets everything, and tells nothing
        required, allowed = self._required[broker.name, neighbour], self._allowed[broker.name, neighbour]
        if required & ~mask:
            return f"{broker.name} does not forward to {neighbour} what was asked for there"
        is_clean = not is_unrelated if self._strategy == "imperfect" else not mask & ~allowed
        return None if is_clean else f"{broker.name} forwards to {neighbour} what nobody asked for there"

    def _local_breach(self, parts: list[Broker], masks: dict[str, int]) -> str | None:
        name = parts[0].name
        asked = self._local[name]
        for client in {*asked, *masks}:
            wanted = self._union(asked.get(client, {}).values())
            if masks.get(client, 0) != wanted:
                return f"{name} does not deliver to {client} what it asked for, and that only"
        for client, own in asked.items():
            known: dict[str, Filter] = {}
            for part in parts:
                if client in part.clients:
                    for id, filter in part.clients[client].subscriptions.by_id.items():
                        if known.setdefault(id, filter) != filter:
                            return f"{name} has two filters of {client} as {id}"
            if known != own:
                return f"{name} has other subscriptions of {client}"
        return None

    def _memory_breach(self, broker: Broker) -> str | None:
        for memory in (broker.identities.sent._latest, broker._delivered):
            for identities in (memory._younger, memory._older):
                if any((each[0], each[1]) not in self.published for each in identities):
                    return f"{broker.name} takes a publication for known that was never made"
        return None


def _behind(overlay: Topology, broker: str, neighbour: str) -> set[str]:
    """The brokers on the other side of a link."""
    behind, ahead = {neighbour}, [neighbour]
    while ahead:
        for each in overlay.neighbours(ahead.pop()):
            if each != broker and each not in behind:
                behind.add(each)
                ahead.append(each)
    return behind


def leased_maker(
    scenario: Scenario,
    overlay: Topology,
    algorithm: str,
    leases: Leases | Rebuilding,
    catalogue: Catalogue,
) -> Callable[[str], AnyBroker]:
    """The maker of the brokers of an overlay whose state is leased, or built anew."""
    routing = scenario.routing
    strategy = algorithm.removeprefix("hierarchical-")
    roots = overlay.brokers[:1] if algorithm.startswith("hierarchical-") else routing.roots_in(overlay)
    hierarchy = Hierarchy.of(overlay, roots)
    subscriptions = STRATEGIES[strategy](routing.imperfection)
    advertised = routing.advertisements
    advertisements = None if advertised is None else STRATEGIES[advertised](routing.imperfection)

    def make(name: str) -> AnyBroker:
        parent, children = hierarchy.parents.get(name), hierarchy.children.get(name, frozenset())
        if isinstance(leases, Rebuilding):
            settings = Settings(subscriptions, advertisements, parent=parent, children=children)
            return RebuildingBroker(name, settings, overlay.neighbours(name), catalogue, leases)
        leased = Leased(subscriptions), None if advertisements is None else Leased(advertisements)
        settings = Settings(*leased, parent=parent, children=children)
        return LeasedBroker(name, settings, overlay.neighbours(name), catalogue, leases)

    return make


class _Run:
    """One run: clients subscribe and renew, everything is damaged, and all becomes right again."""

    def __init__(self, scenario: Scenario, algorithm: str, seed: int, *, damage: bool) -> None:
        self._algorithm, self._seed = algorithm, seed
        self._scenario = scenario
        self._chance = seeded("stabilising", seed)
        overlay = self._overlay = scenario.topology(seed)
        self._strategy = algorithm.removeprefix("hierarchical-")
        plan = scenario.leases
        self._leases: Leases | Rebuilding
        self._leases = rebuilding_of(scenario, overlay) if plan.rebuild else leases_of(scenario, overlay)
        period = self._leases.period if isinstance(self._leases, Rebuilding) else self._leases.lease
        self.bound = (
            self._leases.bound if isinstance(self._leases, Rebuilding) else self._leases.bound(self._strategy)
        )
        self._settled = 2 * period
        self._fault_at = self._settled + 2 * period + self._chance.randrange(period)
        self._ends_at = self._fault_at + self.bound + 2 * period
        workload = workload_of(scenario, seed)
        changes = [each for phase in workload.phases for each in phase.changes]
        self._subscriptions = [(at, call) for at, call in changes if isinstance(call, Subscribe)]
        self._advertisements = [
            (at, call) for at, call in workload.advertisements if isinstance(call, Advertise)
        ]
        self._advertises = scenario.routing.advertisements is not None
        self._publications = [each for phase in workload.phases for each in phase.publications]
        catalogue = Catalogue(engine_named("columnar"))
        faults = Faults(corruptions=tuple(self._corruptions()) if damage else ())
        self.simulation = Simulation(
            map(leased_maker(scenario, overlay, algorithm, self._leases, catalogue), overlay.brokers),
            seed=seed,
            delay=scenario.delay,
            faults=faults,
        )
        advertised: dict[str, list[Filter]] = {}
        for at, call in self._advertisements:
            advertised.setdefault(at, []).append(call.filter)
        self._checker = StabilisingChecker(
            self.simulation,
            overlay,
            algorithm,
            subscriptions=self._subscriptions,
            advertised=advertised if self._advertises else None,
            probes=self._probes(),
        )

    def _corruptions(self) -> Iterable[Corruption]:
        """All parts of all brokers, each to a share of its own; or what the scenario says."""
        if self._scenario.faults.corruptions:
            for each in self._scenario.faults.corruptions:
                yield Corruption(each.broker, self._fault_at, each.what, each.share_ppm)
            return
        for broker in self._overlay.brokers:
            for part in PARTS:
                yield Corruption(broker, self._fault_at, part, self._chance.randrange(MILLION + 1))

    def _probes(self) -> list[Notification]:
        """Notifications that stand for all: those that are published, each content once."""
        contents = {
            frozenset(call.notification.attributes.items()): call.notification
            for _, call in self._publications
            if isinstance(call, Publish)
        }
        return list(contents.values())[:PROBES_MAX]

    def recovery(self) -> Recovery:
        simulation, checker = self.simulation, self._checker
        refresh = self._leases.refresh
        for name in self._overlay.brokers:
            simulation.at(self._chance.randrange(refresh), name, Tick())
        for at, offer in self._advertisements if self._advertises else ():
            simulation.at(0, at, offer)
            self._renew(at, Refresh(offer.source, offer.id, offer.filter, True), refresh)
        for at, call in self._subscriptions:
            simulation.at(0, at, call)
            self._renew(at, Refresh(call.source, call.id, call.filter), refresh)
        simulation.run(self._settled)
        checker.judge_all(simulation.now)
        sent = _Sent()
        simulation.observers.append(sent)
        simulation.run(self._fault_at - 1)
        wrong_before = int(checker.last_wrong is not None)
        messages = sent.about_filters * MILLION // max(1, self._fault_at - self._settled)
        simulation.observers.remove(sent)
        simulation.run(self._fault_at + 1)
        self._publish_probes("early")  # nobody promises anything of them
        simulation.run(self._fault_at + self.bound)
        simulation.report("recovered", within=self.bound)
        wrong_deliveries = self._publish_probes()
        simulation.run(self._ends_at)
        since = (checker.last_wrong or self._fault_at) - self._fault_at
        took = None if checker.wrong else max(0, since)
        printed = (
            self._leases.printed_bound
            if isinstance(self._leases, Rebuilding)
            else self._leases.printed_bound(self._strategy)
        )
        return Recovery(
            self._algorithm, self._seed, took, self.bound, printed, wrong_before, wrong_deliveries, messages
        )

    def _renew(self, at: str, call: Refresh, every: int) -> None:
        """Let a client renew, at times of its own."""
        for time in range(self._chance.randrange(every), self._ends_at, every):
            self.simulation.at(time, at, call)  # type: ignore[arg-type]

    def _publish_probes(self, which: str = "probe") -> int:
        """Publish at all brokers, and count what is not delivered as it should be."""
        simulation, checker = self.simulation, self._checker
        chance = Random(f"{which} {self._seed}")
        before = len(checker.deliveries)
        offers: dict[str, list[tuple[str, Filter]]] = {}
        for at, offer in self._advertisements:
            offers.setdefault(at, []).append((offer.source, offer.filter))
        expected: dict[tuple[str, str], tuple[str, ...]] = {}
        for number, probe in enumerate(checker._probes):
            at, client = chance.choice(self._overlay.brokers), f"{which}{number}"
            if self._advertises:
                able = [
                    (broker, source)
                    for broker, own in offers.items()
                    for source, filter in own
                    if filter.matches(probe)
                ]
                if not able:
                    continue
                at, client = chance.choice(able)
            id = f"{which}{number}"
            notification = replace(probe, id=id, producer=client)
            simulation.at(simulation.now, at, Publish(client, notification))
            for _, call in self._subscriptions:
                if call.filter.matches(probe):
                    key = (call.source, id)
                    expected[key] = tuple(sorted((*expected.get(key, ()), call.id)))
        leases = self._leases
        simulation.run(simulation.now + leases.diameter * leases.delay_max + 1)
        delivered = checker.deliveries[before:]
        right = {(client, id, ids) for (client, id), ids in expected.items()}
        return len(right.symmetric_difference(delivered)) + len(delivered) - len({*delivered})


class _Sent(Observer):
    """Counts the messages about filters."""

    def __init__(self) -> None:
        self.about_filters = 0

    def sent(self, now: int, source: str, to: str, message: Any) -> None:
        self.about_filters += 1
