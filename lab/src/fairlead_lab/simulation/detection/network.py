"""Composite events in a simulated network: publishers, subscribers and mobile detectors as clients of its brokers.

    network = DetectionNetwork(topology, publishers, seed=1)
    network.subscribe("s1", parse("A followed by B"), "B7", POLICIES["minimum load"])
    network.settle()
    network.publish(network.now + 5_000, "p1", {"type": "A", …})
    network.run(until=…)
    network.deliveries              what subscribers got, each composite once, and when

All of them are clients: what a broker delivers to them they hear, and what they answer is called at once. A client
is gone with its broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias

from fairlead.broker import Broker, Settings
from fairlead.broker.messages import (
    Call,
    Command,
    Deliver,
    Effect,
    Forward,
    Message,
    Publish,
    Subscribe,
    Tick,
    Wake,
)
from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.correlation.patterns.model import Pattern
from fairlead.errors import ValueRefused
from fairlead.filters import And, Attribute, Constraint, Op
from fairlead.matching import engine_named
from fairlead.model import Instant, Notification
from fairlead.model.order import event_time
from fairlead.overlay.topology import Topology
from fairlead.routing import Catalogue, Covering
from fairlead_lab.broker import AnyBroker
from fairlead_lab.broker.detection import (
    Action,
    Delegate,
    Destroy,
    DetectionPolicy,
    Directory,
    DistributionPolicy,
    Instantiate,
    Migrate,
    MobileDetector,
    Phase,
    Publisher,
    Source,
)
from fairlead_lab.broker.detection.messages import is_control
from fairlead_lab.broker.detection.mobile import Heard, Start, Stop
from fairlead_lab.correlation.patterns.decomposition import PREFIX
from fairlead_lab.simulation.delays import Delay
from fairlead_lab.simulation.faults import NO_FAULTS, Faults
from fairlead_lab.simulation.network import Observer, Simulation

__all__ = ["CompositeReceived", "DetectionNetwork"]

SETTLING_US: Final = 20_000_000
"""The time that construction may take at most."""
Agent: TypeAlias = MobileDetector | Source


@dataclass(frozen=True, slots=True)
class CompositeReceived:
    """A composite that a subscriber got for the first time."""

    subscription: str
    id: str
    end: int
    """When it happened."""
    time: int
    """When it came."""


@dataclass(slots=True)
class _Client:
    broker: str
    agent: Agent


@dataclass(slots=True)
class _Subscriber:
    id: str
    broker: str
    got: dict[str, CompositeReceived] = field(default_factory=dict)
    again: int = 0


class DetectionNetwork(Observer):
    """Brokers, clients, and the detectors that a directory decides on."""

    def __init__(
        self,
        topology: Topology,
        publishers: Iterable[Publisher],
        *,
        seed: int = 0,
        delay: Delay = Delay(),  # noqa: B008  (frozen)
        faults: Faults = NO_FAULTS,
        hosts: Iterable[str] = (),
        detection: DetectionPolicy = DetectionPolicy(),  # noqa: B008  (frozen)
        heartbeat_us: int = 50_000,
    ) -> None:
        if not topology.is_acyclic:
            raise ValueRefused("detectors rely on one way between two brokers: take a tree")
        catalogue = Catalogue(engine_named("brute"))

        def make(name: str) -> Broker:
            return Broker(name, Settings(Covering()), topology.neighbours(name), catalogue)

        self.simulation = Simulation(
            map(make, topology.brokers), seed=seed, delay=delay, faults=faults, remake=make, observers=[self]
        )
        self.publishers = {each.name: each for each in publishers}
        self.directory = Directory(
            topology, self.publishers.values(), hosts=hosts, detection=detection, heartbeat_us=heartbeat_us
        )
        self.traffic: Counter[str] = Counter()
        """Messages over links: events, parts, composites, control and admin."""
        self.consumed: Counter[str] = Counter()
        """The number of notifications that detectors at each broker heard of, but for control."""
        self.actions: list[tuple[int, Action]] = []
        """The actions taken, with their times."""
        self.published: list[Notification] = []
        self._clients: dict[str, _Client] = {}
        self._hosts: dict[str, list[str]] = {}
        self._subscribers: dict[str, _Subscriber] = {}
        self._plans: list[tuple[int, int, Callable[[], None]]] = []
        self._planned = 0
        for each in self.publishers.values():
            self._join(each.name, each.broker, Source(each.name, heartbeat_us))
        self.settle()

    @property
    def now(self) -> int:
        """The time."""
        return self.simulation.now

    @property
    def deliveries(self) -> list[CompositeReceived]:
        """The composites that subscribers got, each once."""
        return [delivery for each in self._subscribers.values() for delivery in each.got.values()]

    @property
    def repeated(self) -> int:
        """The number of composites that came to a subscriber that had got them."""
        return sum(each.again for each in self._subscribers.values())

    @property
    def late(self) -> int:
        """The number of occurrences that came to detectors when their time had passed."""
        return sum(each.late for each in self.detectors.values())

    @property
    def detectors(self) -> dict[str, MobileDetector]:
        """The detectors by the names of their places, old ones included as long as these have not left."""
        return {
            host: client.agent
            for host, client in self._clients.items()
            if isinstance(client.agent, MobileDetector)
        }

    # -- what happens --------------------------------------------------------------------------------------

    def at(self, time: int, what: Callable[[], None]) -> None:
        """Plan something."""
        self._planned += 1
        heappush(self._plans, (max(time, self.now), self._planned, what))

    def publish(self, time: int, publisher: str, attributes: Mapping[str, Any]) -> None:
        """Let a publisher publish at a time, which is that of the event."""

        def publish() -> None:
            broker = self._clients[publisher].broker if publisher in self._clients else None
            if broker is not None:
                fields = {**attributes, "producer": publisher, "time": Instant(self.now)}
                notification = Notification.of({**fields, "id": f"{len(self.published)}"})
                self.published.append(notification)
                self.simulation.call(broker, Publish(publisher, notification))

        self.at(time, publish)

    def subscribe(self, id: str, pattern: Pattern, broker: str, policy: DistributionPolicy) -> None:
        """Have a pattern detected by a policy, for a subscriber at a broker, from now on."""
        actions = self.directory.submit(id, pattern, broker, policy)
        client = f"subscriber {id}"
        self._subscribers[client] = _Subscriber(id, broker)
        filter = And(
            (
                Constraint(Attribute("type"), Op.EQ, pattern.name),
                Constraint(Attribute("pattern"), Op.EQ, pattern.hash),
            )
        )
        self.simulation.call(broker, Subscribe(client, id, filter))
        self._act(actions)

    def unsubscribe(self, id: str) -> None:
        """End a subscription; detectors that nobody needs are destroyed."""
        self._act(self.directory.withdraw(id))

    def adapt(self, rates: Mapping[str, float]) -> None:
        """Let detectors move to where they had better be, now that rates are known."""
        self._act(self.directory.adapt(rates))

    def move(self, detector: str, broker: str) -> None:
        """Let a detector move."""
        self._act([Migrate(detector, broker)])

    def silence(self, publisher: str) -> None:
        """A publisher fails: it sends neither events nor heartbeats any more."""
        del self._clients[publisher]

    def settle(self) -> None:
        """Let all that is under construction become ready."""
        deadline = self.now + SETTLING_US
        while not self.is_settled:
            if not self._step(deadline):
                raise ValueRefused("some detector does not hear of its sources")

    @property
    def is_settled(self) -> bool:
        """Whether brokers know of all subscriptions, and no detector is under construction."""
        due = self.simulation.next_time
        if due is not None and due <= self.now:
            return False  # what was called has not been heard yet
        return self.simulation.is_settled and all(
            each.phase is not Phase.CONSTRUCTION for each in self.detectors.values()
        )

    def run(self, until: int) -> None:
        """Let everything happen up to a time."""
        while self._step(until):
            pass
        self.simulation.run(until)

    def _step(self, until: int) -> bool:
        """Let the next thing happen; whether there is one up to a time."""
        planned = self._plans[0][0] if self._plans else None
        due = self.simulation.next_time
        if due is not None and due <= until and (planned is None or due <= planned):
            self.simulation.step()
        elif planned is not None and planned <= until:
            _, _, what = heappop(self._plans)
            self.simulation.run(planned)
            what()
        else:
            return False
        return True

    # -- actions -------------------------------------------------------------------------------------------

    def _act(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self.actions.append((self.now, action))
            match action:
                case Instantiate(specification, broker):
                    host = f"{specification.name}@1"
                    self._hosts[specification.name] = [host]
                    self._join(host, broker, MobileDetector(specification, host))
                case Migrate(name, to):
                    hosts = self._hosts[name]
                    old = self._clients[hosts[-1]].agent
                    assert isinstance(old, MobileDetector)
                    hosts.append(f"{name}@{len(hosts) + 1}")
                    self._join(hosts[-1], to, MobileDetector(old.specification, hosts[-1], old.host))
                case Destroy(name):
                    for host in self._hosts.pop(name):
                        self._tell(host, Stop())
                case Delegate():
                    pass  # the specification of who delegates says so

    def _join(self, name: str, broker: str, agent: Agent) -> None:
        self._clients[name] = _Client(broker, agent)
        self._tell(name, Start())

    def _tell(self, name: str, what: Start | Stop | Heard | Tick) -> None:
        """Let a client take a step, and carry out what it answers."""
        client = self._clients.get(name)
        if client is None:
            return
        for effect in client.agent.handle(what, self.now):
            if isinstance(effect, Wake):
                self.at(effect.at, lambda: self._tell(name, Tick()))
            else:
                self.simulation.call(client.broker, effect)
        if isinstance(client.agent, MobileDetector) and client.agent.phase is Phase.DESTRUCTION:
            del self._clients[name]

    # -- the observer --------------------------------------------------------------------------------------

    def sent(self, now: int, source: str, to: str, message: Message) -> None:
        """Count what goes over a link."""
        if not isinstance(message, Forward):
            self.traffic["admin"] += 1
            return
        notification = message.notification
        if is_control(notification):
            self.traffic["control"] += 1
        elif notification.producer != PRODUCER:
            self.traffic["events"] += 1
        else:
            is_part = str(notification.get("type")).startswith(PREFIX)
            self.traffic["parts" if is_part else "composites"] += 1

    def handled(
        self, now: int, broker: AnyBroker, message: Message | Call | Command, effects: list[Effect]
    ) -> None:
        """Let clients hear what a broker delivers."""
        for effect in effects:
            if isinstance(effect, Deliver):
                self._deliver(broker.name, effect.client, effect.notification)

    def _deliver(self, broker: str, name: str, notification: Notification) -> None:
        if (subscriber := self._subscribers.get(name)) is not None:
            id = notification.id or ""
            if id in subscriber.got:
                subscriber.again += 1
            else:
                end = event_time(notification)
                subscriber.got[id] = CompositeReceived(subscriber.id, id, end, self.now)
            return
        client = self._clients.get(name)
        if client is not None:
            if isinstance(client.agent, MobileDetector) and not is_control(notification):
                self.consumed[broker] += 1
            self._tell(name, Heard(notification))

    def failed(self, now: int, change: str, about: Mapping[str, object]) -> None:
        """Remove all that was at a broker that crashes."""
        if change == "crash":
            gone = [name for name, client in self._clients.items() if client.broker == about["broker"]]
            for name in gone:
                del self._clients[name]
