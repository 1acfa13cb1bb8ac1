"""The algorithms that a scenario can name, each as what makes the brokers of an overlay.

    make = ALGORITHMS["covering"].makes(scenario, topology, catalogue)
    make("B1")        a broker, with its neighbours, as often as it has to be made

To add one is to add a row. A row says how brokers are made, and where they may stand; all else (clients,
workload, metrics, plots) is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from fairlead.broker import Broker, Settings
from fairlead.filters import Filter, parse
from fairlead.overlay import Topology
from fairlead.routing import STRATEGIES, Catalogue, Flooding, Simple, Strategy
from fairlead_lab.broker import AnyBroker, RendezvousBroker, RendezvousSettings
from fairlead_lab.broker.rendezvous import hermes, scribe
from fairlead_lab.overlay import Ring, rendezvous_key
from fairlead_lab.routing import CyclicSimple

if TYPE_CHECKING:
    from fairlead_lab.simulation.scenario import Scenario

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
    advertises: bool = False
    """Whether clients have to say what they will publish, whatever the scenario says."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The hierarchy (book 4.6.2): all brokers below a root, in the tree that hangs from the first broker.

    The roots and the brokers outside of their subtrees are peers, so several roots make a hybrid.
    """

    parents: Mapping[str, str]
    children: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, topology: Topology, roots: tuple[str, ...]) -> Hierarchy:
        """The hierarchies below some roots."""
        top = topology.brokers[0]
        above, below = topology.spanning_tree(top), topology.children(top)
        members = [broker for root in roots for broker in topology.subtree(top, root)]
        parents = {
            broker: parent
            for broker in members
            if broker not in roots and (parent := above[broker]) is not None
        }
        return cls(parents, {broker: frozenset(below[broker]) for broker in members})


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
            return Broker(name, settings, topology.neighbours(name), catalogue)

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
        ring = Ring.filled(topology.brokers)
        keys = {name: rendezvous_key(name, ring.space) for name in types}

        def make(name: str) -> RendezvousBroker:
            return RendezvousBroker(name, how, lambda type: ring.next_hop(name, keys[type]), catalogue)

        return make

    return makes


ALGORITHMS: Final[Mapping[str, Algorithm]] = MappingProxyType(
    {
        **{name: Algorithm(_routed(name), cyclic=name in CYCLIC) for name in STRATEGIES},
        **{
            f"hierarchical-{name}": Algorithm(_routed(name, hierarchical=True))
            for name in STRATEGIES
            if name != Flooding.name
        },
        "rendezvous": Algorithm(_met(RendezvousSettings), cyclic=True, in_order=False),
        "scribe": Algorithm(_met(scribe), cyclic=True, in_order=False),
        "hermes": Algorithm(_met(hermes), cyclic=True, in_order=False, advertises=True),
    }
)
