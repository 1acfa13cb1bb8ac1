"""The costs of a run: an observer that counts, and a row of figures for each checkpoint.

    spurious     a forward that leads to no delivery behind it

Who passed a notification to whom is a tree: of the copies that reach a broker only the first is handled. So a
delivery makes the ways up from its broker to where the notification was published useful, and every forward
that is not on such a way was spurious, duplicates included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Final

from fairlead.broker.messages import (
    Admin,
    Batch,
    Call,
    Command,
    Deliver,
    Forward,
    InTree,
    Message,
    Notice,
    Publish,
    Refuse,
    Send,
    Synced,
    Tick,
)
from fairlead.model import Notification
from fairlead_lab.broker import AnyBroker, Packet, SendToGroup, SpreadingBroker, brokers_within
from fairlead_lab.broker.ring import OnRing
from fairlead_lab.simulation.capacity import Lengths, Station
from fairlead_lab.simulation.network import Observer
from fairlead_lab.simulation.workload import ExpectedDelivery

__all__ = ["CAPACITY_FIGURES", "Metrics", "Row"]

CAPACITY_FIGURES: Final = frozenset(("queue_max", "queue_at", "dropped"))
"""The figures that a scenario without a capacity does not have."""

_PROGRESS_EVERY: Final = 4096
_OWN: Final = frozenset((Tick, Synced, OnRing))
"""Messages that nobody has sent, or that keep a ring: publications cost none of it."""


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one algorithm at one checkpoint. Two runs of the same seed have equal rows."""

    algorithm: str
    topology: str
    brokers: int
    subscriptions: int
    seed: int
    publications: int
    entries_mean: float
    """Routing entries per broker."""
    entries_max: int
    local_mean: float
    """Those for clients, which no algorithm can spare."""
    remote_mean: float
    """Those for neighbours."""
    remote_max: int
    advertisements_mean: float
    admin_messages: int
    """Up to here, those before earlier checkpoints included."""
    admin_filters: int
    """Subscriptions and unsubscriptions in these messages."""
    forwards: int
    """For the publications of this checkpoint, as all that follows."""
    spurious: int
    messages_per_publication: float
    """All that is sent over links: forwards, and answers where overlays are cyclic; a batch counts once."""
    hops_median: int
    hops_p99: int
    delay_us_median: int
    delay_us_p99: int
    deliveries: int
    missing: int
    """Deliveries that should have been."""
    unasked: int
    """Deliveries that should not have been."""
    refused: int
    """Calls of clients that were not granted, up to here."""
    busiest: str
    """The broker that handles the most messages for the publications; `load_max` is how many."""
    load_max: int
    load_mean: float
    delivered: str
    """A hash of what was delivered to whom."""
    queue_max: int = 0
    """With a capacity: how many messages waited for a broker or a link, at most."""
    queue_at: str = ""
    """For which: a broker, or a link as `B1>B2`."""
    dropped: int = 0
    """Notifications that found a queue full."""

    @property
    def is_right(self) -> bool:
        """Whether all was delivered that had to be, and nothing else."""
        return not (self.missing or self.unasked or self.refused)

    @property
    def is_safe(self) -> bool:
        """Whether nothing else was delivered than what had to be."""
        return not (self.unasked or self.refused)

    def to_json(self) -> dict[str, Any]:
        """The figures by name."""
        return asdict(self)


@dataclass(slots=True)
class _Passage:
    """The way of one notification: who got it from whom, first; how far that is; and where it was of use."""

    published: int
    came_from: dict[str, str | None]
    hops: dict[str, int]
    useful: set[str] = field(default_factory=set)


class Metrics(Observer):
    """Counts along. `begin` starts the publications of a checkpoint, `row` ends them."""

    def __init__(self, progress: Callable[[int], object] | None = None) -> None:
        self.steps = 0
        self._progress = progress
        self.decide: Callable[[Deliver], tuple[str, ...]] | None = None
        """The subscriptions that a delivery is for, as its client decides; None: those that the broker names."""
        self._admin_messages = 0
        self._admin_filters = 0
        self._refused: list[Refuse] = []
        self._passages: dict[tuple[str, str | None], _Passage] = {}
        self.begin()

    def begin(self) -> None:
        """Begin the publications of the next checkpoint."""
        self._passages = {}
        self._forwards = 0
        self._sends = 0
        self._useful = 0
        self._load: dict[str, int] = {}
        self._hops: list[int] = []
        self._delays: list[int] = []
        self._delivered: list[ExpectedDelivery] = []
        self._lengths = Lengths()
        self._dropped = 0

    # -- seeing --------------------------------------------------------------------------------------------

    def _count(self, message: Any) -> None:
        kind = type(message)
        if kind is Admin or kind is Notice:
            self._admin_messages += 1
            self._admin_filters += len(message.added) + len(message.removed)
        elif kind is Forward:
            self._forwards += 1
        elif kind is Batch:
            for each in message.messages:
                self._count(each)
        elif kind is InTree or kind is Packet:
            self._count(message.message)

    def handled(
        self, now: int, broker: AnyBroker, message: Message | Call | Command, effects: list[Any]
    ) -> None:
        self.steps += 1
        if self._progress is not None and not self.steps % _PROGRESS_EVERY:
            self._progress(self.steps)
        for effect in effects:
            if type(effect) is Send:
                sent: Any = effect.message
                if type(sent) is OnRing:
                    continue
                self._sends += 1
                if type(sent) is Admin:  # most messages are
                    self._admin_messages += 1
                    self._admin_filters += len(sent.added) + len(sent.removed)
                else:
                    self._count(sent)
            elif type(effect) is SendToGroup:
                self._sends += 1
                for _ in effect.group:
                    self._count(effect.message)
        if type(message) is Admin or type(message) is Notice:
            return
        name = broker.name
        if type(message) not in _OWN:
            self._load[name] = self._load.get(name, 0) + 1
        self._arrived(now, name, message)
        for effect in effects:
            if type(effect) is Deliver:
                self._deliver(now, name, effect)
            elif type(effect) is Refuse:
                self._refused.append(effect)

    def waits(self, now: int, station: Station, length: int) -> None:
        self._lengths.note(now, station, length)

    def failed(self, now: int, change: str, about: Mapping[str, object]) -> None:
        self._dropped += change == "overflow"

    def _arrived(self, now: int, broker: str, message: Any) -> None:
        kind = type(message)
        if kind is Forward:
            assert isinstance(message, Forward)
            passage = self._passages.get(_key(message.notification))
            if passage is not None and broker not in passage.hops:
                passage.came_from[broker] = message.source
                passage.hops[broker] = passage.hops[message.source] + 1
        elif kind is Publish:
            assert isinstance(message, Publish)
            passage = _Passage(now, {broker: None}, {broker: 0})
            self._passages.setdefault(_key(message.notification), passage)
        elif kind is Batch:
            assert isinstance(message, Batch)
            for each in message.messages:
                self._arrived(now, broker, each)
        elif kind is InTree or kind is Packet:
            self._arrived(now, broker, message.message)

    def _deliver(self, now: int, broker: str, effect: Deliver) -> None:
        notification = effect.notification
        ids = effect.subscriptions if self.decide is None else self.decide(effect)
        if not ids:
            return
        passage = self._passages[_key(notification)]
        self._hops.append(passage.hops[broker])
        self._delays.append(now - passage.published)
        self._delivered.append((effect.client, notification.id or "", ids))
        above: str | None = broker
        while above is not None and above not in passage.useful:
            passage.useful.add(above)
            above = passage.came_from[above]
            self._useful += above is not None

    # -- telling -------------------------------------------------------------------------------------------

    @property
    def delivered(self) -> Sequence[ExpectedDelivery]:
        """The deliveries since `begin`, in order."""
        return self._delivered

    @property
    def refusals(self) -> Sequence[Refuse]:
        """The calls that were not granted."""
        return self._refused

    def row(
        self,
        brokers: Iterable[AnyBroker],
        expected: frozenset[ExpectedDelivery],
        *,
        algorithm: str,
        topology: str,
        subscriptions: int,
        seed: int,
    ) -> Row:
        """The figures since `begin`, with the tables as they are now."""
        sizes = [_Sizes.of(broker) for broker in brokers]
        count, publications = len(sizes), len(self._passages)
        delivered = frozenset(self._delivered)
        busiest = max(self._load, key=lambda name: self._load[name], default="")
        hops, delays = sorted(self._hops), sorted(self._delays)
        station, queue_max = self._lengths.longest()
        return Row(
            algorithm=algorithm,
            topology=topology,
            brokers=count,
            subscriptions=subscriptions,
            seed=seed,
            publications=publications,
            entries_mean=_mean(sum(each.local + each.remote for each in sizes), count),
            entries_max=max(each.local + each.remote for each in sizes),
            local_mean=_mean(sum(each.local for each in sizes), count),
            remote_mean=_mean(sum(each.remote for each in sizes), count),
            remote_max=max(each.remote for each in sizes),
            advertisements_mean=_mean(sum(each.advertised for each in sizes), count),
            admin_messages=self._admin_messages,
            admin_filters=self._admin_filters,
            forwards=self._forwards,
            spurious=self._forwards - self._useful,
            messages_per_publication=_mean(self._sends, publications),
            hops_median=_quantile(hops, 50),
            hops_p99=_quantile(hops, 99),
            delay_us_median=_quantile(delays, 50),
            delay_us_p99=_quantile(delays, 99),
            deliveries=len(self._delivered),
            missing=len(expected - delivered),
            unasked=len(self._delivered) - len(expected & delivered),
            refused=len(self._refused),
            busiest=busiest,
            load_max=self._load.get(busiest, 0),
            load_mean=_mean(sum(self._load.values()), count),
            delivered=_digest(self._delivered),
            queue_max=queue_max,
            queue_at=">".join(station),
            dropped=self._dropped,
        )


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The number of a broker's entries, in all trees that it is in."""

    local: int
    remote: int
    advertised: int

    @classmethod
    def of(cls, broker: AnyBroker) -> _Sizes:
        parts = brokers_within(broker)
        entries = sum(len(part.subscriptions) for part in parts)
        remote = sum(len(part.subscriptions.of(each)) for part in parts for each in part.neighbours)
        local = entries - remote
        if isinstance(broker, SpreadingBroker):
            remote += len(broker.remote)
        return cls(local, remote, sum(len(part.advertisements) for part in parts))


def _key(notification: Notification) -> tuple[str, str | None]:
    return notification.producer, notification.id


def _mean(total: int, count: int) -> float:
    return round(total / count, 3) if count else 0.0


def _quantile(ranked: Sequence[int], percent: int) -> int:
    """The least of the values that so many percent are not above; 0 where there are none."""
    return ranked[max(0, -(-len(ranked) * percent // 100) - 1)] if ranked else 0


def _digest(delivered: Iterable[ExpectedDelivery]) -> str:
    found = blake2b(digest_size=8)
    for client, notification, ids in sorted(delivered):
        found.update(f"{client} {notification} {' '.join(ids)}\n".encode())
    return found.hexdigest()
