"""Mobile detectors: state machines that are clients of the broker at which they are (book 7.5.2, Fig. 7.11).

    handle(what, now) -> calls to the broker, and Wake

**Construction.** A detector subscribes to what its automata look at, to the composites of the detectors that it
delegates to, and to the heartbeats of all these sources; then it asks them for one. Who answers has heard of its
subscriptions, for links keep their order; so from that time on nothing is missed.

**Control.** It consumes what comes by its detection policy, publishes what it finds, and says up to where that is
all. It moves while traffic flows: the new place is constructed beside the old one, and says from when on it hears
everything. When the old one has come so far it hands its state over, and tells everybody who goes on. What ends
before that is published by the old place, and the rest by the new one.

**Destruction.** It leaves, with all its subscriptions.

Law: under the guaranteed policy a detector publishes exactly the composites of its pattern on what its sources
published since it was constructed, each once, wherever it moved.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, TypeAlias

from msgspec import Struct

from fairlead.broker.messages import Call, Join, Leave, Publish, Subscribe, Tick, Wake
from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.correlation.patterns.model import UNNAMED, Pattern, atoms
from fairlead.filters import Filter
from fairlead.matching.brute import Brute
from fairlead.model import Instant, Notification, Record
from fairlead.model.order import BEGINNING, LatestIdentities, OrderKey, event_time
from fairlead_lab.broker.detection.messages import (
    HEARTBEAT,
    PROBE,
    READY,
    STATE,
    addressed_to,
    heartbeat,
    heartbeats_of,
    of_type,
    probe,
    ready,
    state,
)
from fairlead_lab.broker.detection.stability import Consume, DetectionPolicy, Stability
from fairlead_lab.correlation.patterns.decomposition import PREFIX, Split
from fairlead_lab.correlation.patterns.joining import SubpatternDetector

__all__ = ["Effect", "Heard", "MobileDetector", "Phase", "Source", "Specification", "Start", "Stop"]

REMEMBERED: Final = 100_000
"""The number of notifications that a detector remembers, so that none is taken twice."""


class Start(Struct, frozen=True):
    """Begin."""


class Stop(Struct, frozen=True):
    """Nobody needs it any more."""


class Heard(Struct, frozen=True):
    """The broker has notified it."""

    notification: Notification


Input: TypeAlias = Start | Stop | Heard | Tick
Effect: TypeAlias = Call | Wake


class Phase(Enum):
    """The phase of a detector's life."""

    CONSTRUCTION = "construction"
    CONTROL = "control"
    DESTRUCTION = "destruction"


@dataclass(frozen=True, slots=True)
class Specification:
    """The pattern that a detector detects, its policy, and its sources."""

    name: str
    """Wherever it is."""
    pattern: Pattern
    split: Split | None = None
    delegated: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The types of the parts that other detectors find, with their names: redundant ones, if several."""
    sources: tuple[frozenset[str], ...] = ()
    """The sources it hears of: publishers, and detectors of patterns whose types it names."""
    policy: DetectionPolicy = DetectionPolicy()  # noqa: RUF009  (frozen)
    heartbeat_us: int = 50_000
    reports: bool = False
    """Whether other detectors listen, which have to know up to where it has come."""

    @property
    def groups(self) -> tuple[frozenset[str], ...]:
        """All whose heartbeats it waits for."""
        return tuple(dict.fromkeys((*self.sources, *self.delegated.values())))

    @property
    def waits(self) -> bool:
        """Whether it has to be told of the time: by its policy, or because time events are detected here."""
        if self.policy.consume is not Consume.BEST_EFFORT or self.pattern.partial:
            return True
        return any(atom.timers or atom.domain_timers for atom in atoms(self.pattern.body))

    def filters(self) -> tuple[Filter, ...]:
        """The filters that it looks at: those of the atoms that are detected here, and the parts that are
        not.
        """
        detector = SubpatternDetector(Brute(), self.pattern, self.split, self.delegated)
        looked_at = [
            filter
            for pattern in detector.here
            for atom in atoms(pattern.body)
            for filter in (atom.filter, atom.domain)
            if filter is not None
        ]
        return tuple(dict.fromkeys([*looked_at, *map(of_type, self.delegated)]))


class MobileDetector:
    """One detector at one place: a client of the broker there, by the name of the place."""

    def __init__(self, specification: Specification, host: str, predecessor: str = "") -> None:
        self.specification, self.host = specification, host
        self.phase = Phase.CONSTRUCTION
        self.late = 0
        """The number of notifications that came when their time had passed."""
        self.consumed = 0
        """The number of notifications that were fed to automata, and put together."""
        self._predecessor = predecessor
        self._successor: tuple[str, int] | None = None
        self._types = specification.pattern.types_named
        self._detector = SubpatternDetector(
            Brute(), specification.pattern, specification.split, specification.delegated
        )
        self._stability = Stability(specification.policy, specification.groups)
        self._identities = LatestIdentities(REMEMBERED)
        self._answered: dict[str, int] = {}
        self._requesters: list[str] = []
        self._waiting: list[Notification] = []
        self._since: int | None = None
        self._announced = BEGINNING
        self._unsaid = False
        told = [part.name for part in self._detector.offers]
        if specification.pattern.name != UNNAMED:
            told.append(specification.pattern.name)
        self._alone = told[0] if len(told) == 1 and told[0].startswith(PREFIX) else None
        self._sent = 0
        self._effects: list[Effect] = []

    @property
    def bound(self) -> int:
        """Up to here, exclusively, everything has been found and published."""
        return self._detector.bound

    @property
    def since(self) -> int | None:
        """The time from which on it has heard everything that ends, wherever it was; None: not known yet."""
        return self._since

    @property
    def in_progress(self) -> int:
        """The number of matches in progress."""
        return self._detector.in_progress

    def handle(self, what: Input, now: int) -> list[Effect]:
        """Take one step."""
        effects: list[Effect] = []
        self._effects = effects
        if self.phase is Phase.DESTRUCTION:
            return effects
        match what:
            case Start():
                self._start(now)
            case Stop():
                self._end()
            case Tick():
                if self.phase is Phase.CONSTRUCTION and self._since is None:
                    self._publish(probe, self.host, now)  # some source may not have been there yet
                self._proceed(now)
                self._beat(now)
                self._effects.append(Wake(now + self.specification.heartbeat_us))
            case Heard(notification):
                self._hear(notification, now)
                self._proceed(now)
        return effects

    # -- construction --------------------------------------------------------------------------------------

    def _start(self, now: int) -> None:
        filters = [*self.specification.filters(), addressed_to(self.host)]
        if self.specification.waits and self._stability.sources:
            filters.append(heartbeats_of(self._stability.sources))
        if self.specification.reports:
            filters.append(of_type(PROBE))
        self._effects.append(Join(self.host))
        for number, filter in enumerate(filters):
            self._effects.append(Subscribe(self.host, f"{number}", filter))
        self._publish(probe, self.host, now)  # behind the subscriptions: who hears it has heard of them
        self._effects.append(Wake(now + self.specification.heartbeat_us))
        self._proceed(now)

    def _construct(self, now: int) -> None:
        """Once all sources have answered, it is complete from there on; or its predecessor hands over."""
        groups = self.specification.groups
        if not all(group & self._answered.keys() for group in groups):
            return
        if self._since is None:
            since = max(
                (min(self._answered[name] for name in group if name in self._answered) for group in groups),
                default=BEGINNING,
            )
            self._since = since
            if self._predecessor:
                self._publish(ready, self.host, self._predecessor, since, now)
        if not self._predecessor:
            self._detector.advance(self._since)
            self._control(now)

    def _resume(self, snapshot: Any, now: int) -> None:
        self._detector.resume(snapshot["detector"])
        self._since = snapshot["since"]
        self._control(now)

    def _control(self, now: int) -> None:
        self.phase = Phase.CONTROL
        waiting, self._waiting = self._waiting, []
        for notification in waiting:
            if event_time(notification) >= self.bound:  # the rest was found by the old place
                self._take(notification)
        for host in self._requesters:
            self._answer(host, now)

    # -- control -------------------------------------------------------------------------------------------

    def _hear(self, notification: Notification, now: int) -> None:
        control = self._CONTROL.get(notification.get("type"))
        if control is not None:
            control(self, notification, now)
            return
        if (until := notification.get("until", None)) is not None and notification.producer == PRODUCER:
            self._stability.heard(str(notification.get("source")), str(notification.get("host")), until, now)
        if self._identities.take(notification, None) is None:
            return  # a redundant detector has found it as well
        if notification.producer != PRODUCER:
            self._stability.heard(notification.producer, notification.producer, event_time(notification), now)
        if self.phase is Phase.CONSTRUCTION:
            self._waiting.append(notification)
        else:
            self._take(notification)

    def _hear_heartbeat(self, notification: Notification, now: int) -> None:
        source, host, until = (notification.get(name) for name in ("source", "host", "until"))
        if source not in self._stability.sources:
            return
        self._stability.heard(source, host, until, now)
        if notification.get("to") == self.host:
            self._answered.setdefault(source, until)
        successor = notification.get("successor", "")
        if successor:
            self._stability.moved(source, host, successor)

    def _hear_probe(self, notification: Notification, now: int) -> None:
        asks = str(notification.get("asks"))
        if not self.specification.reports or asks == self.host:
            return
        if self.phase is Phase.CONTROL:
            self._answer(asks, now)
        else:
            self._requesters.append(asks)

    def _hear_ready(self, notification: Notification, now: int) -> None:
        if notification.get("to") == self.host:
            self._successor = str(notification.get("host")), notification.get("since")

    def _hear_state(self, notification: Notification, now: int) -> None:
        if notification.get("to") == self.host and self.phase is Phase.CONSTRUCTION:
            self._resume(json.loads(str(notification.get("state"))), now)

    _CONTROL: Final[Mapping[str, Callable[[MobileDetector, Notification, int], None]]] = {
        HEARTBEAT: _hear_heartbeat,
        PROBE: _hear_probe,
        READY: _hear_ready,
        STATE: _hear_state,
    }

    def _take(self, notification: Notification) -> None:
        """Consume a notification, or hold it until it is stable."""
        type = notification.get("type")
        if notification.get("pattern") == self.specification.pattern.hash:
            return  # nobody sees its own composites
        started = notification.get("interval.start")
        begins = started.microseconds if isinstance(started, Instant) else event_time(notification)
        if self._since is not None and begins < self._since:
            return
        at_once = self.specification.policy.consume is Consume.BEST_EFFORT
        is_late = event_time(notification) < self._detector.bound
        if is_late:
            self.late += 1
            if not at_once:
                return
        if type in self.specification.delegated:
            self._detector.hear(notification)
            bound = event_time(notification) + 1
        elif notification.producer == PRODUCER and type not in self._types:
            return
        else:
            occurrence = _occurrence(notification)
            if is_late:
                occurrence = _moved(occurrence, self._detector.bound)
            self._detector.feed(occurrence)
            bound = occurrence.end + 1
        self.consumed += 1
        if at_once:
            self._advance(max(bound, self._detector.bound))

    def _proceed(self, now: int) -> None:
        if self.phase is Phase.CONSTRUCTION:
            self._construct(now)
        if self.phase is Phase.CONTROL:
            bound = self._stability.bound(now)
            if bound > self._detector.bound:
                self._advance(bound)
                if self._unsaid:
                    self._beat(now)
            if self._successor is not None and self._detector.bound >= self._successor[1]:
                self._hand_over(self._successor[0], now)

    def _advance(self, bound: int) -> None:
        found = self._detector.advance(bound)
        self._unsaid = bool(found)
        if found and self._alone is not None:
            # Who hears of one part only hears all of it in order, so the last match can say that it is the last.
            for number in reversed(range(len(found))):
                if found[number].get("type") == self._alone:
                    found[number] = self._saying(found[number], bound)
                    self._announced, self._unsaid = bound, False
                    break
        self._effects += [Publish(self.host, each) for each in found]

    def _saying(self, notification: Notification, bound: int) -> Notification:
        says = {"source": self.specification.name, "host": self.host, "until": bound}
        return replace(notification, attributes=Record({**notification.attributes, **says}))

    def _beat(self, now: int) -> None:
        """Say up to where all is found, if that has changed."""
        if self.specification.reports and self._announced < self.bound and self.phase is Phase.CONTROL:
            self._announced = self.bound
            self._publish(heartbeat, self.specification.name, self.host, self.bound, now)

    def _answer(self, host: str, now: int) -> None:
        self._publish(heartbeat, self.specification.name, self.host, self.bound, now, answers=host)

    # -- destruction ---------------------------------------------------------------------------------------

    def _hand_over(self, successor: str, now: int) -> None:
        snapshot = {"since": self._since, "detector": self._detector.snapshot(held=False)}
        self._publish(state, self.host, successor, snapshot, now)
        self._publish(heartbeat, self.specification.name, self.host, self.bound, now, successor=successor)
        self._end()

    def _end(self) -> None:
        self.phase = Phase.DESTRUCTION
        self._effects.append(Leave(self.host))

    def _publish(self, message: Callable[..., Notification], *content: Any, **named: Any) -> None:
        self._sent += 1
        self._effects.append(Publish(self.host, message(self._sent, *content, **named)))


def _occurrence(notification: Notification) -> Occurrence:
    if notification.producer != PRODUCER:
        return Occurrence.of(notification, OrderKey.of(notification))
    start, end = notification.get("interval.start"), event_time(notification)
    return Occurrence.composite(notification, start.microseconds, end, str(notification.get("pattern")))


def _moved(occurrence: Occurrence, to: int) -> Occurrence:
    """A late occurrence, moved to the time at which it can be consumed."""
    start = to if occurrence.is_point else occurrence.start
    return Occurrence(occurrence.notification, start, to, (to, start, *occurrence.rank[2:]))


class Source:
    """A publisher that cooperates: it answers probes, and sends heartbeats when it has nothing to say."""

    def __init__(self, name: str, heartbeat_us: int = 50_000) -> None:
        self.name, self._heartbeat_us = name, heartbeat_us
        self._sent = 0

    def handle(self, what: Input, now: int) -> list[Effect]:
        """Take one step."""
        return list(self._effects(what, now))

    def _effects(self, what: Input, now: int) -> Iterator[Effect]:
        match what:
            case Start():
                yield Subscribe(self.name, "probes", of_type(PROBE))
                yield Wake(now + self._heartbeat_us)
            case Tick():
                yield self._beat(now)
                yield Wake(now + self._heartbeat_us)
            case Heard(notification) if notification.get("type") == PROBE:
                yield self._beat(now, str(notification.get("asks")))
            case Stop():
                yield Leave(self.name)

    def _beat(self, now: int, answers: str = "") -> Effect:
        self._sent += 1
        return Publish(self.name, heartbeat(self._sent, self.name, self.name, now, now, answers=answers))
