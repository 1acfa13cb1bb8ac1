"""A scenario that is played: a run whose links break and whose brokers are damaged when somebody says so.

    recording = Play(scenario, "covering").recorded((Broken("B1", "B2", 40_000, 80_000),))

The law: a run is a function of the scenario, the algorithm, the seed and the faults. So who breaks a link now gets
the same run up to now, and another one from there; and what a broker knew at a time is found by playing up to it.

Where routing entries are leased, a broken link loses what is sent over it, and nobody is told: entries behind it
fall apart, and are renewed when it is whole. Elsewhere both brokers are told that the link is gone, and later that
it is back, as brokers are in a network whose connections end.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeAlias

from fairlead.broker.messages import (
    Admin,
    Batch,
    Connect,
    Deliver,
    Disconnect,
    Effect,
    Forward,
    InTree,
    Link,
    Notice,
    Publish,
    Renew,
    Subscribe,
    Tick,
    Unlink,
)
from fairlead.errors import ValueRefused
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.model.encoding import format_json, notification_to_json
from fairlead.routing import Catalogue
from fairlead_lab.broker import AnyBroker, Packet, brokers_within
from fairlead_lab.broker.leased import Refresh
from fairlead_lab.broker.leases import Rebuilding
from fairlead_lab.simulation import Scenario, Simulation
from fairlead_lab.simulation.algorithms import ALGORITHMS
from fairlead_lab.simulation.corruption import PARTS, Corruption
from fairlead_lab.simulation.faults import Faults
from fairlead_lab.simulation.kinds import MILLION
from fairlead_lab.simulation.network import Observer
from fairlead_lab.simulation.stabilising import leased_maker, leases_of, rebuilding_of
from fairlead_lab.simulation.workload import workload_of

__all__ = ["Broken", "Damaged", "Fault", "Play", "Recording", "Sent"]

PUBLICATIONS_MAX: Final = 60
"""So many publications are played: nobody looks at more."""
MESSAGES_MAX: Final = 30_000
"""So many messages are recorded."""
TEXT_MAX: Final = 160
FILTERS, NOTIFICATION, OTHER = "filters", "notification", "other"


@dataclass(frozen=True, slots=True)
class Broken:
    """No message passes between two brokers in [at, until)."""

    one: str
    other: str
    at: int
    until: int


@dataclass(frozen=True, slots=True)
class Damaged:
    """Part of all that a broker remembers is damaged at a time."""

    broker: str
    at: int


Fault: TypeAlias = Broken | Damaged


@dataclass(frozen=True, slots=True)
class Sent:
    """A message over a link; `arrived` is None where it was lost."""

    at: int
    arrived: int | None
    source: str
    to: str
    kind: str
    text: str


@dataclass(slots=True)
class Publication:
    """A publication: who wanted it, and who was notified when."""

    id: str
    at: int
    broker: str
    text: str
    wanted: frozenset[str]
    notified: dict[str, int] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """Those who wanted it, and were not notified."""
        return sorted(self.wanted - self.notified.keys())


@dataclass(frozen=True, slots=True)
class Recording:
    """The messages, publications and tables of a run."""

    end: int
    begins: int
    """The time of the first publication."""
    messages: Sequence[Sent]
    left_out: int
    """The number of messages that were not recorded: there were too many."""
    publications: Sequence[Publication]
    entries: Mapping[str, Sequence[tuple[int, int]]]
    """By broker, the number of its routing entries from a time on."""

    @property
    def missing(self) -> int:
        return sum(len(each.missing) for each in self.publications)


class Play:
    """A scenario with one algorithm and one seed. Each run is made anew."""

    def __init__(
        self, scenario: Scenario, algorithm: str, seed: int | None = None, subscriptions: int | None = None
    ) -> None:
        checkpoint = scenario.workload.checkpoints[0] if subscriptions is None else subscriptions
        self.scenario = scenario.changed(subscriptions=[checkpoint])
        self.algorithm = algorithm
        self.seed = scenario.seed if seed is None else seed
        self.overlay = self.scenario.topology(self.seed)
        self.is_leased: Final = bool(scenario.leases.refresh_us)
        self._workload = workload_of(self.scenario, self.seed)
        if ALGORITHMS[algorithm].ringed or not _has_links(algorithm):
            raise ValueRefused(
                f"{algorithm} does not use the links of the overlay, so there is nothing to be seen on them",
                hint=f"{', '.join(name for name in ALGORITHMS if _has_links(name))} do",
            )

    @property
    def links(self) -> list[tuple[str, str]]:
        """The links of the overlay, each once."""
        found = {
            (min(one, other), max(one, other))
            for one in self.overlay.brokers
            for other in self.overlay.neighbours(one)
        }
        return sorted(found)

    def recorded(self, faults: Sequence[Fault] = ()) -> Recording:
        """A run from its beginning to its end."""
        simulation, plan = self._prepared(faults)
        delay = self.scenario.delay
        recorder = _Recorder(simulation, plan.publications, delay.least + 4 * delay.spread)
        simulation.observers.append(recorder)
        simulation.run(plan.end)
        return recorder.recording(plan.begins, plan.end)

    def tables(self, broker: str, at: int, faults: Sequence[Fault] = ()) -> list[tuple[str, str]]:
        """The routing table of a broker at a time: destinations and filters, in order."""
        simulation, _ = self._prepared(faults)
        simulation.run(at)
        return sorted(
            (destination, str(interest.filter))
            for table in simulation.brokers[broker].tables
            for interest, destination in table
        )

    # -- before it runs ------------------------------------------------------------------------------------

    def _prepared(self, faults: Sequence[Fault]) -> tuple[Simulation, _Plan]:
        scenario, overlay = self.scenario, self.overlay
        for each in faults:
            self._check(each)
        catalogue = Catalogue(engine_named("columnar"))
        broken = [each for each in faults if isinstance(each, Broken)]
        if self.is_leased:
            leases = (
                rebuilding_of(scenario, overlay) if scenario.leases.rebuild else leases_of(scenario, overlay)
            )
            make = leased_maker(scenario, overlay, self.algorithm, leases, catalogue)
            period = leases.period if isinstance(leases, Rebuilding) else leases.lease
            plan = self._plan(settle=2 * period, last=6 * period)
        else:
            make = ALGORITHMS[self.algorithm].makes(scenario, overlay, catalogue)
            settle = (overlay.diameter + 2) * (scenario.delay.least + 2 * scenario.delay.spread)
            plan = self._plan(settle=settle, last=0)
        simulation = Simulation(
            map(make, overlay.brokers),
            seed=self.seed,
            delay=scenario.delay,
            faults=_Cut.of(broken if self.is_leased else (), self._corruptions(faults)),
        )
        for at, broker, call in plan.calls:
            simulation.at(at, broker, call)
        if self.is_leased:
            self._renew(simulation, plan, scenario.leases.refresh_us)
        else:
            for each in broken:
                for one, other in ((each.one, each.other), (each.other, each.one)):
                    simulation.at(each.at, one, Unlink(other))
                    if each.until <= plan.end:
                        simulation.at(each.until, one, Link(other))
        return simulation, plan

    def _check(self, fault: Fault) -> None:
        if isinstance(fault, Broken):
            if (min(fault.one, fault.other), max(fault.one, fault.other)) not in self.links:
                raise ValueRefused(f"there is no link between {fault.one!r} and {fault.other!r}")
            if not 0 <= fault.at < fault.until:
                raise ValueRefused("a link is whole again after it breaks, and not before")
            return
        if fault.broker not in self.overlay.brokers:
            raise ValueRefused(f"there is no broker {fault.broker!r}")
        if not self.is_leased:
            raise ValueRefused(
                "only brokers whose state is leased recover from damage", hint="give the scenario [leases]"
            )

    def _corruptions(self, faults: Iterable[Fault]) -> tuple[Corruption, ...]:
        return tuple(
            Corruption(each.broker, each.at, part, MILLION)
            for each in faults
            if isinstance(each, Damaged)
            for part in PARTS
        )

    def _plan(self, *, settle: int, last: int) -> _Plan:
        """Clients subscribe one after the other; then they publish, and long enough for faults to heal."""
        (phase,) = self._workload.phases
        every = self.scenario.workload.every_us
        calls: list[tuple[int, str, Any]] = []
        for number, (broker, call) in enumerate((*self._workload.advertisements, *phase.changes)):
            calls.append((number * every, broker, call))
        begins = len(calls) * every + settle
        chosen = phase.publications[:PUBLICATIONS_MAX]
        every = max(every, settle // 12, last // max(len(chosen), 1))
        wanted: defaultdict[str, set[str]] = defaultdict(set)
        for client, notification, _ in phase.expected:
            wanted[notification].add(client)
        publications = {}
        for number, (broker, call) in enumerate(chosen):
            assert isinstance(call, Publish)
            at, id = begins + number * every, call.notification.id or ""
            calls.append((at, broker, call))
            text = _content(call.notification)
            publications[id] = Publication(id, at, broker, text, frozenset(wanted[id]))
        return _Plan(calls, publications, begins, begins + len(chosen) * every + settle)

    def _renew(self, simulation: Simulation, plan: _Plan, refresh: int) -> None:
        """Brokers and clients renew all the time, each at times of its own."""
        chance = Random(f"renewals {self.seed}")
        for name in self.overlay.brokers:
            simulation.at(chance.randrange(refresh), name, Tick())
        for at, broker, call in plan.calls:
            if isinstance(call, Subscribe):
                renewed = Refresh(call.source, call.id, call.filter)
                for time in range(at + chance.randrange(1, refresh), plan.end, refresh):
                    simulation.at(time, broker, renewed)  # type: ignore[arg-type]


def _has_links(algorithm: str) -> bool:
    return ALGORITHMS[algorithm].complete and algorithm.removeprefix("hierarchical-").removeprefix(
        "redundant-"
    ) in {"flooding", "simple", "identity", "covering", "merging", "imperfect"}


@dataclass(frozen=True, slots=True)
class _Plan:
    calls: Sequence[tuple[int, str, Any]]
    publications: Mapping[str, Publication]
    begins: int
    end: int


@dataclass(frozen=True, slots=True)
class _Cut(Faults):
    """Links that lose what is sent over them."""

    broken: tuple[Broken, ...] = ()

    @classmethod
    def of(cls, broken: Sequence[Broken], corruptions: tuple[Corruption, ...]) -> Faults:
        return (
            cls(corruptions=corruptions, broken=tuple(broken)) if broken else Faults(corruptions=corruptions)
        )

    def separates(self, one: str, other: str, now: int) -> bool:
        return any(
            {one, other} == {each.one, each.other} and each.at <= now < each.until for each in self.broken
        )


# -- recording -----------------------------------------------------------------------------------------------


class _Recorder(Observer):
    """Records what is sent, when it arrives, who is notified, and how tables grow and shrink."""

    def __init__(self, simulation: Simulation, publications: Mapping[str, Publication], slowest: int) -> None:
        self._publications, self._slowest = publications, slowest
        self._in_flight: defaultdict[tuple[str, str], deque[tuple[Any, int]]] = defaultdict(deque)
        self._messages: list[list[Any]] = []
        self._left_out = 0
        self._entries: dict[str, list[tuple[int, int]]] = {name: [(0, 0)] for name in simulation.brokers}

    def sent(self, now: int, source: str, to: str, message: Any) -> None:
        if len(self._messages) >= MESSAGES_MAX:
            self._left_out += 1
            return
        kind, text = _in_words(message)
        self._in_flight[source, to].append((message, len(self._messages)))
        self._messages.append([now, None, source, to, kind, text])

    def handled(self, now: int, broker: AnyBroker, message: Any, effects: list[Effect]) -> None:
        ahead = self._in_flight.get((getattr(message, "source", ""), broker.name))
        if ahead:
            for place, (each, number) in enumerate(ahead):
                if each is message:
                    self._messages[number][1] = now
                    del ahead[place]
                    break
        for effect in effects:
            if isinstance(effect, Deliver):
                told = self._publications.get(effect.notification.id or "")
                if told is not None:
                    told.notified.setdefault(effect.client, now)
        count = sum(len(table) for part in brokers_within(broker) for table in part.tables)
        entries = self._entries[broker.name]
        if entries[-1][1] != count:
            entries.append((now, count))

    def recording(self, begins: int, end: int) -> Recording:
        return Recording(
            end,
            begins,
            [Sent(at, self._arrived(at, arrived, end), *rest) for at, arrived, *rest in self._messages],
            self._left_out,
            list(self._publications.values()),
            self._entries,
        )

    def _arrived(self, at: int, arrived: int | None, end: int) -> int | None:
        """The time of arrival; a message that was sent shortly before the end is under way, and not lost."""
        return end if arrived is None and at + self._slowest > end else arrived


def _in_words(message: Any) -> tuple[str, str]:
    """The kind of a message, and what it says."""
    match message:
        case InTree() | Packet():
            return _in_words(message.message)
        case Batch():
            kinds, texts = zip(*map(_in_words, message.messages), strict=True)
            return (NOTIFICATION if NOTIFICATION in kinds else kinds[0]), _cut("; ".join(texts))
        case Forward():
            notification = message.notification
            return NOTIFICATION, _cut(f"{notification.id} {_content(notification)}")
        case Admin() | Renew() | Notice():
            added = getattr(message, "added", getattr(message, "interests", ()))
            signs = [f"+ {each.filter}" for each in added]
            signs += [f"− {each.filter}" for each in getattr(message, "removed", ())]
            return FILTERS, _cut(", ".join(signs) or "nothing new")
        case Connect() | Disconnect():
            return FILTERS, type(message).__name__.lower()
    return OTHER, type(message).__name__.lower()


def _content(notification: Notification) -> str:
    attributes = notification_to_json(notification)["attributes"]
    return format_json({name: value for name, value in attributes.items() if name not in ("id", "producer")})


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
