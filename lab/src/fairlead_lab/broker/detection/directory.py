"""The directory of detectors: subscriptions to patterns turned into actions of mobile detectors (book 7.5.2).

    directory.submit("s1", pattern, "B7", policy)   -> Instantiate, Delegate, …
    directory.withdraw("s1")                        -> Destroy, …
    directory.adapt(rates)                          -> Migrate, …

Law: every part that somebody needs has a detector, and every detector is needed by somebody. What is done depends
on nothing but what was submitted before, so all who know that come to the same decisions.

A part is the same wherever it stands (`decomposition.Leaf`), so detectors are found by their patterns. What is
known of the network are hops, who publishes what and how often, and what detectors have to consume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from fairlead.correlation.patterns.model import UNNAMED, Atom, Pattern, atoms
from fairlead.errors import ValueRefused
from fairlead.filters import Filter, overlaps
from fairlead.matching.brute import Brute
from fairlead.overlay.topology import Topology
from fairlead_lab.broker.detection.mobile import Specification
from fairlead_lab.broker.detection.policies import Decomposition, DistributionPolicy, Locality, Reuse
from fairlead_lab.broker.detection.stability import DetectionPolicy
from fairlead_lab.correlation.patterns.decomposition import Split, is_part, split, whole
from fairlead_lab.correlation.patterns.joining import SubpatternDetector

__all__ = [
    "Action",
    "Delegate",
    "Destroy",
    "DetectorPlacement",
    "Directory",
    "Instantiate",
    "Migrate",
    "Publisher",
]

NEAR: int = 1
"""The number of hops a detector may be away to be reused for its locality."""
WORTHWHILE: float = 0.95
"""The share of its traffic that moving a detector must leave at most."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """A source of events: where it is, what it publishes, and how often."""

    name: str
    broker: str
    filter: Filter
    rate: float = 1.0
    """Events per second, as far as is known."""


@dataclass(slots=True)
class DetectorPlacement:
    """A detector: what it does, where it is, and who needs it."""

    specification: Specification
    broker: str
    policy: DistributionPolicy
    near: str
    """The broker of the subscriber that it was made for."""
    offers: tuple[Pattern, ...] = ()
    """The parts that it detects and others may use, besides its pattern."""
    users: set[str] = field(default_factory=set)
    """Subscriptions, and detectors that delegate to it."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.specification.name


@dataclass(frozen=True, slots=True)
class Instantiate:
    """Make a detector at a broker."""

    specification: Specification
    broker: str


@dataclass(frozen=True, slots=True)
class Delegate:
    """Leave a part to a detector that is there already."""

    by: str
    to: str
    part: str


@dataclass(frozen=True, slots=True)
class Migrate:
    """Move a detector to another broker."""

    name: str
    to: str


@dataclass(frozen=True, slots=True)
class Destroy:
    """End a detector."""

    name: str


Action: TypeAlias = Instantiate | Delegate | Migrate | Destroy


class Directory:
    """The detectors of a network, and what to do for whom."""

    def __init__(
        self,
        topology: Topology,
        publishers: Iterable[Publisher],
        *,
        hosts: Iterable[str] = (),
        detection: DetectionPolicy = DetectionPolicy(),  # noqa: B008  (frozen)
        heartbeat_us: int = 50_000,
    ) -> None:
        self.detectors: dict[str, DetectorPlacement] = {}
        self._topology = topology
        self._publishers = {each.name: each for each in publishers}
        self._hosts = tuple(hosts) or topology.brokers
        self._detection, self._heartbeat_us = detection, heartbeat_us
        self._subscriptions: dict[str, tuple[str, ...]] = {}
        self._hops: dict[tuple[str, str], int] = {}
        self._made = 0

    def submit(self, id: str, pattern: Pattern, broker: str, policy: DistributionPolicy) -> list[Action]:
        """Have a pattern detected for a subscriber at a broker."""
        if id in self._subscriptions:
            raise ValueRefused(f"the id {id!r} is taken")
        actions: list[Action] = []
        names = self._provide(pattern, broker, policy, actions)
        self._subscriptions[id] = names
        for name in names:
            self.detectors[name].users.add(id)
        return actions

    def withdraw(self, id: str) -> list[Action]:
        """A subscriber has gone: what nobody else needs is destroyed."""
        actions: list[Action] = []
        for name in self._subscriptions.pop(id):
            self._release(name, id, actions)
        return actions

    def adapt(self, rates: Mapping[str, float]) -> list[Action]:
        """Move detectors that have to be near publishers, now that it is known how often these publish."""
        for name, rate in rates.items():
            self._publishers[name] = replace(self._publishers[name], rate=rate)
        return [self._move(placed, to) for placed in self.detectors.values() for to in self._better(placed)]

    def _better(self, placed: DetectorPlacement) -> Iterator[str]:
        if placed.policy.locality is Locality.PUBLISHERS:
            cost = self._cost(placed.specification, placed.near)
            best = min(self._hosts, key=cost)
            if cost(best) <= WORTHWHILE * cost(placed.broker) and best != placed.broker:
                yield best

    def _move(self, placed: DetectorPlacement, to: str) -> Migrate:
        placed.broker = to
        return Migrate(placed.name, to)

    # -- detectors for a pattern ---------------------------------------------------------------------------

    def _provide(
        self, pattern: Pattern, near: str, policy: DistributionPolicy, actions: list[Action]
    ) -> tuple[str, ...]:
        """The detectors of a pattern: some that are there, or new ones."""
        there = self._reusable(pattern, near, policy)
        wanted = 2 if policy.reuse is Reuse.AT_LEAST_2 else 1
        if len(there) >= wanted:
            return there[:wanted]
        names = list(there)
        while len(names) < min(wanted, len(self._hosts)):
            names.append(self._instantiate(pattern, near, policy, names, actions))
        return tuple(names)

    def _reusable(self, pattern: Pattern, near: str, policy: DistributionPolicy) -> tuple[str, ...]:
        """The detectors of a pattern that may be used, the nearest first."""
        found = [
            each
            for each in self.detectors.values()
            if each.specification.pattern == pattern or pattern in each.offers
        ]
        if policy.reuse is Reuse.WITH_LOCALITY:
            found = [each for each in found if self.hops(each.broker, near) <= NEAR]
        return tuple(each.name for each in sorted(found, key=lambda each: self.hops(each.broker, near)))

    def _instantiate(
        self,
        pattern: Pattern,
        near: str,
        policy: DistributionPolicy,
        beside: Iterable[str],
        actions: list[Action],
    ) -> str:
        """A new detector, not where its redundant ones are."""
        cut, parts = self._decompose(pattern, near, policy)
        delegated: dict[str, frozenset[str]] = {}
        handed: list[Delegate] = []
        self._made += 1
        name = f"d{self._made}"
        for part in parts:
            before = set(self.detectors)
            names = self._provide(part, near, policy, actions)
            delegated[part.name] = frozenset(names)
            handed += [Delegate(name, each, part.name) for each in names if each in before]
            for each in names:
                self.detectors[each].users.add(name)
        specification = Specification(
            name,
            pattern,
            cut,
            delegated,
            self._sources(pattern, cut, delegated),
            self._detection,
            self._heartbeat_us,
            reports=cut is not None or is_part(pattern) or pattern.name != UNNAMED,
        )
        offers = SubpatternDetector(Brute(), pattern, cut, delegated).offers
        taken = {self.detectors[each].broker for each in beside}
        hosts = [host for host in self._hosts if host not in taken] or list(self._hosts)
        broker = self._choose_host(specification, near, policy.locality, hosts)
        self.detectors[name] = DetectorPlacement(specification, broker, policy, near, offers)
        actions += [Instantiate(specification, broker), *handed]
        return name

    def _decompose(
        self, pattern: Pattern, near: str, policy: DistributionPolicy
    ) -> tuple[Split | None, tuple[Pattern, ...]]:
        """The cut of a pattern, and the parts of it that others detect."""
        if policy.decomposition is Decomposition.NONE:
            return None, ()
        needed = 2 if policy.reuse is Reuse.AT_LEAST_2 else 1

        def is_there(part: Pattern) -> bool:
            return len(self._reusable(part, near, policy)) >= needed

        as_part = None if is_part(pattern) else whole(pattern)
        if as_part is not None and is_there(as_part.leaves[0].pattern):
            return as_part, (as_part.leaves[0].pattern,)
        if policy.decomposition is Decomposition.MAX:
            cut = split(pattern)
            chosen: Callable[[Pattern], bool] = _is_compound
        else:
            cut = split(pattern, is_there)
            chosen = is_there
        leaves = () if cut is None else cut.leaves
        parts = tuple(part for part in dict.fromkeys(leaf.pattern for leaf in leaves) if chosen(part))
        return (cut, parts) if parts else (as_part, ())  # in one piece, which others can use

    def _sources(
        self, pattern: Pattern, cut: Split | None, delegated: Mapping[str, frozenset[str]]
    ) -> tuple[frozenset[str], ...]:
        """The publishers of what is looked at here; detectors of patterns that are named, among them."""
        here = SubpatternDetector(Brute(), pattern, cut, delegated).here
        looked_at = {
            filter
            for each in here
            for atom in atoms(each.body)
            for filter in (atom.filter, atom.domain)
            if filter is not None
        }
        publishers = [
            frozenset({each.name})
            for each in self._publishers.values()
            if any(overlaps(filter, each.filter) for filter in looked_at)
        ]
        named = {name for each in here for name in each.types_named}
        by_type: dict[str, set[str]] = {}
        for placed in self.detectors.values():
            if placed.specification.pattern.name in named:
                by_type.setdefault(placed.specification.pattern.hash, set()).add(placed.name)
        return (*publishers, *map(frozenset, by_type.values()))

    def _release(self, name: str, user: str, actions: list[Action]) -> None:
        placed = self.detectors[name]
        placed.users.discard(user)
        if not placed.users:
            del self.detectors[name]
            actions.append(Destroy(name))
            for names in placed.specification.delegated.values():
                for each in sorted(names):
                    self._release(each, name, actions)

    # -- places --------------------------------------------------------------------------------------------

    def hops(self, one: str, other: str) -> int:
        """The number of links between two brokers."""
        key = (min(one, other), max(one, other))
        if key not in self._hops:
            self._hops[key] = len(self._topology.path(*key)) - 1
        return self._hops[key]

    def _choose_host(
        self, specification: Specification, near: str, locality: Locality, hosts: list[str]
    ) -> str:
        match locality:
            case Locality.SUBSCRIBERS:
                return min(hosts, key=lambda host: self.hops(host, near))
            case Locality.PUBLISHERS:
                return min(hosts, key=self._cost(specification, near))
            case Locality.NONE:
                load = self.load()
                return min(hosts, key=lambda host: load.get(host, 0.0))
            case Locality.CENTRE:
                brokers = self._topology.brokers
                return min(hosts, key=lambda host: sum(self.hops(host, each) for each in brokers))

    def load(self) -> dict[str, float]:
        """The load of the detectors at each broker, in events per second."""
        found: dict[str, float] = {}
        for placed in self.detectors.values():
            rate = sum(self._rate(group) for group in placed.specification.groups)
            found[placed.broker] = found.get(placed.broker, 0.0) + rate
        return found

    def _rate(self, group: frozenset[str]) -> float:
        """The rate of a source. Detectors let few things through."""
        rates = (self._publishers[name].rate for name in group if name in self._publishers)
        return sum(rates, 0.0) or self._least

    @property
    def _least(self) -> float:
        return 0.1 * min((each.rate for each in self._publishers.values()), default=1.0)

    def _cost(self, specification: Specification, near: str) -> Callable[[str], float]:
        """The traffic that a detector at a broker causes, in events and hops per second."""
        coming = [
            (self._publishers[name].broker, self._publishers[name].rate)
            if name in self._publishers
            else (self.detectors[name].broker, self._least)
            for group in specification.groups
            for name in sorted(group)
        ]

        def cost(host: str) -> float:
            inputs = sum(rate * self.hops(host, broker) for broker, rate in coming)
            return inputs + self._least * self.hops(host, near)

        return cost


def _is_compound(part: Pattern) -> bool:
    return not isinstance(part.body, Atom)
