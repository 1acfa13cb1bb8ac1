"""Security in a scenario: brokers that are trusted with a part, or have no keys, and the check of every state.

    [security]
    trusted = 0.5         half of the brokers handle everything, the others a part of the values of x
    keys = 0.3            or: the last attribute is sealed, and every third broker has the key

    Laws
    In every state: nothing reaches a broker that it does not handle, and none learns of a filter that matches such
    a thing (`trust.TrustChecker`).
    What a subscription asks for arrives iff all brokers on the way handle it; with `seal`, iff both ends do.
    With sealed attributes the same arrives as without, whichever brokers have keys; what is sealed is in clear in
    no message and no filter.

Trust and keys are drawn from the scenario's seed and the topology alone, so that every algorithm has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from random import Random
from typing import Any, Final

from msgspec import structs

from fairlead.broker.messages import Admin, Batch, Call, Deliver, Forward, Message, Publish, Renew, Subscribe
from fairlead.errors import SimulationFailed
from fairlead.filters import EVERYTHING, Constraint, Filter, parse
from fairlead.filters.filter import leaves
from fairlead.filters.terms import Attribute
from fairlead.model import Notification
from fairlead.overlay.topology import Topology
from fairlead.rules.rule import Rule
from fairlead.rules.sealing import Sealing
from fairlead.rules.trust import Trust
from fairlead.security import AccessPolicy, BrokerTrust
from fairlead.security.sealing import Annotations, Keyring, Sealer
from fairlead.security.sealing.sharing import Identity
from fairlead.security.sealing.tunnels import Tunnel
from fairlead_lab.broker import AnyBroker
from fairlead_lab.simulation.guarding import SecurityPlan
from fairlead_lab.simulation.kinds import MILLION
from fairlead_lab.simulation.network import Observer, Simulation
from fairlead_lab.simulation.scenario import ATTRIBUTES, Scenario
from fairlead_lab.simulation.trust import TrustChecker
from fairlead_lab.simulation.workload import ExpectedDelivery, LocatedCall, Phase, Workload

__all__ = ["Secured", "rules_of"]

CLASS: Final = "city"
FIRST: Final = "x"


# -- drawing -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _trust(
    plan: SecurityPlan, values: int, topology: Topology, seed: int
) -> tuple[AccessPolicy, dict[str, Identity]]:
    """A policy of what brokers handle; with their identities, where they seal for one another."""
    random = Random(f"trust {seed} {topology.links}")
    handles: dict[str, tuple[Filter, ...]] = {}
    for name in topology.brokers:
        is_trusted, part = random.randrange(MILLION) < plan.trusted_ppm, random.randrange(max(1, plan.parts))
        if is_trusted:
            handles[name] = (EVERYTHING,)
        elif plan.parts:
            low, high = part * values // plan.parts, (part + 1) * values // plan.parts
            handles[name] = (parse(f"{FIRST} in [{low}, {high})"),)
        else:
            handles[name] = ()
    seals = plan.untrusted == "seal"
    identities = {name: Identity.new() for name in topology.brokers} if seals else {}
    publics = {name: each.public for name, each in identities.items()}
    trust = BrokerTrust(handles, "seal" if seals else "cut", None, publics)
    return AccessPolicy(trust=trust, tell=False), identities


@lru_cache(maxsize=8)
def _keyring(seed: int) -> Keyring:
    """The key of the one class, the same in each run."""
    keys = Keyring()
    keys.add((CLASS, 1), blake2b(f"key {seed}".encode(), digest_size=32).digest(), 0)
    return keys


def _annotations(attribute: str, *, tokens: bool) -> Annotations:
    annotations = Annotations.of({"*": {attribute: CLASS}})
    return replace(annotations, tokens=frozenset({CLASS})) if tokens else annotations


def rules_of(scenario: Scenario, topology: Topology, name: str) -> list[Rule]:
    """The rules of one broker, each time new ones."""
    plan, seed, values = scenario.security, scenario.seed, scenario.workload.values
    rules: list[Rule] = []
    if plan.limits:
        policy, identities = _trust(plan, values, topology, seed)
        links = {each: topology.neighbours(each) for each in topology.brokers}
        publics = policy.trust.publics
        tunnel = Tunnel(name, identities[name], publics) if identities else None
        rules.append(Trust(name, policy, links if identities else None, tunnel))
    if plan.keys_ppm is not None:
        has_keys = Random(f"keys {seed} {name}").randrange(MILLION) < plan.keys_ppm
        keys = _keyring(seed) if has_keys else Keyring()
        attribute = ATTRIBUTES[scenario.workload.attributes - 1]
        rules.append(Sealing(Sealer(_annotations(attribute, tokens=plan.tokens), keys)))
    return rules


# -- a run -------------------------------------------------------------------------------------------------------


class Secured:
    """The security of one run: what clients say, what they make of what they get, and what has to arrive."""

    def __init__(self, scenario: Scenario, topology: Topology, workload: Workload) -> None:
        plan, seed, values = scenario.security, scenario.seed, scenario.workload.values
        self._plan, self._topology = plan, topology
        self._policy = _trust(plan, values, topology, seed)[0] if plan.limits else None
        self._attribute = ATTRIBUTES[scenario.workload.attributes - 1]
        self._sealer: Sealer | None = None
        if plan.keys_ppm is not None:
            self._sealer = Sealer(_annotations(self._attribute, tokens=plan.tokens), _keyring(seed))
        self._at: dict[str, str] = {}
        self._filters: dict[str, Filter] = {}
        self._sealed: dict[Filter, Filter] = {}
        self._published: dict[str, tuple[str, Notification]] = {}
        for phase in workload.phases:
            for broker, call in (*phase.changes, *phase.publications):
                if isinstance(call, Subscribe):
                    self._at[call.source], self._filters[call.id] = broker, call.filter
                elif isinstance(call, Publish):
                    self._published[str(call.notification.id)] = broker, call.notification
        self._checkers: list[TrustChecker | SealedChecker] = []

    def watch(self, simulation: Simulation) -> None:
        """Check every state of a run from now on."""
        if self._policy is not None:
            self._checkers.append(TrustChecker(simulation, self._policy.trust))
        if self._sealer is not None:
            self._checkers.append(SealedChecker(simulation, self._attribute))

    def check(self) -> None:
        """SimulationFailed where a broker has got what it must not have."""
        breaches = [each for checker in self._checkers for each in checker.breaches]
        if breaches:
            raise SimulationFailed(f"{len(breaches)} breaches of trust, such as: {breaches[0]}")

    # -- clients -----------------------------------------------------------------------------------------------

    def calls(self, calls: Iterable[LocatedCall]) -> list[LocatedCall]:
        """The calls of clients, sealed. Nobody publishes at a broker what it does not handle."""
        return [(broker, self._said(call)) for broker, call in calls if self._is_taken(broker, call)]

    def _is_taken(self, broker: str, call: Call) -> bool:
        return not isinstance(call, Publish) or self._handles(broker, call.notification)

    def _said(self, call: Call) -> Call:
        sealer = self._sealer
        if sealer is None:
            return call
        if isinstance(call, Publish):
            return structs.replace(call, notification=sealer.seal(call.notification))
        if isinstance(call, Subscribe):
            sealed = self._sealed.get(call.filter)
            if sealed is None:
                sealed = self._sealed[call.filter] = sealer.filter(call.filter)
            return structs.replace(call, filter=sealed)
        return call

    @property
    def decide(self) -> Callable[[Deliver], tuple[str, ...]] | None:
        """The decision of a client about a delivery: which of its subscriptions it is for; None: all of them."""
        return None if self._sealer is None else self._decided

    def _decided(self, delivered: Deliver) -> tuple[str, ...]:
        assert self._sealer is not None
        view = self._sealer.view(delivered.notification)
        return tuple(id for id in delivered.subscriptions if self._filters[id].matches(view))

    # -- what has to arrive --------------------------------------------------------------------------------------

    def expected(self, phase: Phase) -> frozenset[ExpectedDelivery]:
        """The deliveries of a phase that have a way."""
        if self._policy is None:
            return phase.expected
        return frozenset(each for each in phase.expected if self._arrives(each))

    def _arrives(self, delivery: ExpectedDelivery) -> bool:
        client, id, _ = delivery
        start, notification = self._published[id]
        end = self._at[client]
        if self._plan.untrusted == "seal":
            return all(self._handles(each, notification) for each in (start, end))
        return all(self._handles(each, notification) for each in self._path(start, end))

    def _handles(self, broker: str, notification: Notification) -> bool:
        return self._policy is None or self._policy.trust.limit(broker).matches(notification)

    def _path(self, start: str, end: str) -> list[str]:
        """The brokers from one to another, in a tree."""
        came: dict[str, str] = {start: start}
        ahead = [start]
        for near in ahead:
            for far in self._topology.neighbours(near):
                if far not in came:
                    came[far] = near
                    ahead.append(far)
        path = [end]
        while path[-1] != start:
            path.append(came[path[-1]])
        return path


class SealedChecker(Observer):
    """Checks that a sealed attribute is in clear in no notification, and in no filter that a broker is told."""

    def __init__(self, simulation: Simulation, attribute: str) -> None:
        self.breaches: list[str] = []
        self._attribute = attribute
        self._clear: dict[Filter, bool] = {}
        simulation.observers.append(self)

    def sent(self, now: int, source: str, to: str, message: Message) -> None:
        self.breaches += self._breaches_of(to, message)

    def handled(self, now: int, broker: AnyBroker, message: Any, effects: list[Any]) -> None:
        if isinstance(message, Publish | Subscribe):
            self.breaches += self._breaches_of(broker.name, message)

    def _breaches_of(self, to: str, message: Any) -> Iterator[str]:
        match message:
            case Batch():
                for each in message.messages:
                    yield from self._breaches_of(to, each)
            case Forward() | Publish():
                if not isinstance(message.notification.get(self._attribute), bytes):
                    yield f"{to} gets {message.notification}"
            case Subscribe():
                yield from self._learnt(to, [message.filter])
            case Admin():
                yield from self._learnt(to, [each.filter for each in (*message.added, *message.removed)])
            case Renew():
                yield from self._learnt(to, [each.filter for each in message.interests])

    def _learnt(self, to: str, filters: Iterable[Filter]) -> Iterator[str]:
        for filter in filters:
            if filter not in self._clear:
                self._clear[filter] = any(
                    isinstance(leaf, Constraint) and leaf.term == Attribute(self._attribute)
                    for leaf in leaves(filter)
                )
            if self._clear[filter]:
                yield f"{to} learns of {filter}"
