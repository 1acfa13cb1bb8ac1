"""The algorithms that a scenario can name, each as what makes the brokers of an overlay.

    make = ALGORITHMS["covering"].makes(scenario, topology, catalogue)
    make("B1")        a broker, with its neighbours, as often as it has to be made

To add one is to add a row. A row says how brokers are made, and where they may stand; all else (clients,
workload, metrics, plots) is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from fairlead.broker import Broker, Settings
from fairlead.filters import Filter, parse
from fairlead.overlay import Hierarchy, Topology
from fairlead.routing import STRATEGIES, Catalogue, Flooding, Simple, Strategy
from fairlead_lab.broker import AnyBroker, RendezvousBroker, RendezvousSettings
from fairlead_lab.broker.rendezvous import hermes, scribe
from fairlead_lab.broker.ring import RingBroker
from fairlead_lab.broker.spreading import GossipBroker, LipsinBroker, MulticastBroker, NeighbourBroker
from fairlead_lab.overlay import Ring, rendezvous_key
from fairlead_lab.routing import CyclicSimple
from fairlead_lab.routing.lipsin import LinkIds
from fairlead_lab.routing.multicast import (
    Clustered,
    DirectGrouping,
    Everyone,
    Ideal,
    ThresholdClustered,
    Unicast,
    clusters_of,
    depth_first,
)

if TYPE_CHECKING:
    from fairlead.rules.rule import Rule
    from fairlead_lab.simulation.scenario import RoutingPlan, Scenario

__all__ = ["ALGORITHMS", "STRATEGIES", "Algorithm", "Hierarchy", "Maker"]

Maker: TypeAlias = Callable[[str], AnyBroker]
"""Makes the broker of a name, with its neighbours, and empty."""

CYCLIC: Final[Mapping[str, Callable[[float], Strategy]]] = MappingProxyType(
    {Flooding.name: STRATEGIES[Flooding.name], Simple.name: lambda imperfection: CyclicSimple()}
)
"""Those that also work in cycles (book 4.6.6), as they do there."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A way to route."""

    makes: Callable[[Scenario, Topology, Catalogue], Maker]
    cyclic: bool = False
    """Whether it works where several ways lead from one broker to another."""
    in_order: bool = True
    """Whether what one producer publishes arrives in its order."""
    ringed: bool = False
    """Whether brokers form a ring, which messages may keep."""
    complete: bool = True
    """Whether all that is wanted is delivered; else with a probability, and nothing else in any case."""
    advertises: bool = False
    """Whether clients have to say what they will publish, whatever the scenario says."""


def _routed(strategy: str, *, hierarchical: bool = False) -> Callable[[Scenario, Topology, Catalogue], Maker]:
    """Brokers that all route by one strategy, as peers or where a hierarchy is asked for, below one another."""

    def makes(scenario: Scenario, topology: Topology, catalogue: Catalogue) -> Maker:
        routing = scenario.routing
        roots = topology.brokers[:1] if hierarchical else routing.roots_in(topology)
        hierarchy = Hierarchy.of(topology, roots)
        cyclic = not topology.is_acyclic
        made = CYCLIC[strategy] if cyclic else STRATEGIES[strategy]
        subscriptions = made(routing.imperfection)
        advertised = routing.advertisements
        known = CYCLIC if cyclic else STRATEGIES
        advertisements = None if advertised is None else known[advertised](routing.imperfection)

        def make(name: str) -> Broker:
            settings = Settings(
                subscriptions,
                advertisements,
                parent=hierarchy.parents.get(name),
                children=hierarchy.children.get(name, frozenset()),
                cyclic=cyclic,
                batch_us=routing.batch_us,
            )
            rules = _rules_of(scenario, topology, name) if scenario.security else ()
            return Broker(name, settings, topology.neighbours(name), catalogue, rules=rules)

        return make

    return makes


def _rules_of(scenario: Scenario, topology: Topology, name: str) -> list[Rule]:
    from fairlead_lab.simulation.secured import rules_of

    return rules_of(scenario, topology, name)


def _redundant(strategy: str) -> Callable[[Scenario, Topology, Catalogue], Maker]:
    """Brokers that send notifications by all ways there are, as live ones do; all know all from the start."""

    def makes(scenario: Scenario, topology: Topology, catalogue: Catalogue) -> Maker:
        settings = Settings(
            STRATEGIES[strategy](scenario.routing.imperfection),
            redundant=True,
            batch_us=scenario.routing.batch_us,
        )

        def make(name: str) -> Broker:
            broker = Broker(name, settings, topology.neighbours(name), catalogue)
            broker.know(topology)
            return broker

        return make

    return makes


def _met(
    settings: Callable[[Mapping[str, Filter]], RendezvousSettings],
) -> Callable[[Scenario, Topology, Catalogue], Maker]:
    """Brokers on a ring, with a tree for each part of the values; the links of the topology are not used."""

    def makes(scenario: Scenario, topology: Topology, catalogue: Catalogue) -> Maker:
        values, count = scenario.workload.values, min(scenario.routing.partitions, scenario.workload.values)
        bounds = [values * part // count for part in range(count + 1)]
        types = {
            f"x{number}": parse(f"x in [{low}, {high})")
            for number, (low, high) in enumerate(pairwise(bounds), start=1)
        }
        how = replace(settings(types), batch_us=scenario.routing.batch_us)
        ring_plan = scenario.ring
        if ring_plan.by_messages:
            return lambda name: RingBroker(
                name, how, catalogue, leaves=ring_plan.leaves, beat_us=ring_plan.beat_us
            )
        ring = Ring.filled(topology.brokers)
        keys = {name: rendezvous_key(name, ring.space) for name in types}

        def make(name: str) -> RendezvousBroker:
            return RendezvousBroker(name, how, lambda type: ring.next_hop(name, keys[type]), catalogue)

        return make

    return makes


def _grouped(
    grouping: Callable[[RoutingPlan, Topology], DirectGrouping],
) -> Callable[[Scenario, Topology, Catalogue], Maker]:
    """Brokers that know what all others want, and send to multicast groups."""

    def makes(scenario: Scenario, topology: Topology, catalogue: Catalogue) -> Maker:
        groups = grouping(scenario.routing, topology)
        return lambda name: MulticastBroker(name, topology.brokers, groups, catalogue)

    return makes


def _clusters(routing: RoutingPlan, topology: Topology) -> list[Sequence[str]]:
    near = depth_first({name: topology.neighbours(name) for name in topology.brokers})
    return clusters_of(near, min(routing.clusters, len(near)))


def _by_neighbours(scenario: Scenario, topology: Topology, catalogue: Catalogue) -> Maker:
    """Brokers of a tree that send to a group of their neighbours."""
    settings = Settings(STRATEGIES["covering"](0.0))
    return lambda name: NeighbourBroker(name, settings, topology.neighbours(name), catalogue)


def _by_links(scenario: Scenario, topology: Topology, catalogue: Catalogue) -> Maker:
    """Brokers that forward by the links in a packet; the first one is the rendezvous broker."""
    ids = LinkIds({name: topology.neighbours(name) for name in topology.brokers}, d=scenario.routing.link_ids)
    return lambda name: LipsinBroker(name, topology.brokers[0], ids, catalogue)


def _by_rumour(scenario: Scenario, topology: Topology, catalogue: Catalogue) -> Maker:
    """Brokers that tell some others; the links of the topology are not used."""
    fanout, seed = scenario.routing.fanout, scenario.seed
    return lambda name: GossipBroker(name, topology.brokers, fanout, catalogue, seed=seed)


GROUPINGS: Final[Mapping[str, Callable[[RoutingPlan, Topology], DirectGrouping]]] = MappingProxyType(
    {
        "unicast": lambda _, topology: Unicast(topology.brokers),
        "everyone": lambda _, topology: Everyone(topology.brokers),
        "ideal": lambda _, topology: Ideal(topology.brokers),
        "clustered": lambda routing, topology: Clustered(_clusters(routing, topology)),
        "threshold": lambda routing, topology: ThresholdClustered(
            _clusters(routing, topology), routing.threshold
        ),
    }
)
"""The ways to group brokers for a multicast (book 4.6.7)."""

ALGORITHMS: Final[Mapping[str, Algorithm]] = MappingProxyType(
    {
        **{name: Algorithm(_routed(name), cyclic=name in CYCLIC) for name in STRATEGIES},
        **{
            f"hierarchical-{name}": Algorithm(_routed(name, hierarchical=True))
            for name in STRATEGIES
            if name != Flooding.name
        },
        **{f"redundant-{name}": Algorithm(_redundant(name), cyclic=True) for name in STRATEGIES},
        "rendezvous": Algorithm(_met(RendezvousSettings), cyclic=True, in_order=False, ringed=True),
        "scribe": Algorithm(_met(scribe), cyclic=True, in_order=False, ringed=True),
        "hermes": Algorithm(_met(hermes), cyclic=True, in_order=False, ringed=True, advertises=True),
        **{
            f"multicast-{name}": Algorithm(_grouped(grouping), cyclic=True)
            for name, grouping in GROUPINGS.items()
        },
        "multicast-neighbours": Algorithm(_by_neighbours),
        "lipsin": Algorithm(_by_links, cyclic=True, in_order=False),
        "gossip": Algorithm(_by_rumour, cyclic=True, in_order=False, complete=False),
    }
)
