"""The durable state of a broker. The log is its only storage: reading the log again restores the state.

Three kinds of records: publications of its clients, arrivals from its neighbours, and changes of its state.
Changes are gathered now and then: the whole state is written once more, between `Whole` and `Sealed`, so that
what came before is not needed any longer. If the power fails in between, the changes before it still count.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.delivery.assigning import NEUTRAL, Count, Terms
from fairlead.errors import DamagedLog, LogFull, ValueRefused
from fairlead.log import Disk, Log, Reader
from fairlead.log import Record as LogRecord
from fairlead.log.identities import FirstOffsets, Written
from fairlead.log.lineage import LINEAGE_MAX, Incarnation, Lineage, next_id
from fairlead.log.records import (
    ARRIVAL,
    ARRIVALS,
    NOTIFICATIONS,
    PUBLICATION,
    RECALLED,
    STAMP_BYTES,
    STATE,
    arrival_head,
    notification_in,
    parse_arrival,
    parse_origin,
    parse_stamp,
    recalled_head,
)
from fairlead.model.packed import identity_bytes, identity_in
from fairlead.network.formers import Former, end_former, retire, take_back
from fairlead.network.incarnations import lineage_of, valid_end

__all__ = [
    "RESERVE_BYTES",
    "RETAINED_CURSOR",
    "Accepted",
    "Accounts",
    "Attempts",
    "Changed",
    "Departed",
    "Died",
    "DurableSubscription",
    "Formerly",
    "Heard",
    "Held",
    "InterestsChanged",
    "Keeping",
    "Leased",
    "Ledger",
    "Linked",
    "Noticed",
    "Opened",
    "Owned",
    "Parting",
    "Recalling",
    "Redriven",
    "Remember",
    "Retained",
    "State",
    "Stay",
    "Subscribed",
    "Termed",
    "Transacted",
    "Unlinked",
    "Unsubscribed",
    "Wanted",
    "Willed",
    "attempts",
    "cursor_of_acknowledged",
    "cursor_of_durable",
    "cursor_of_link",
    "termed",
]

STATE_CURSOR: Final = "state"
RETAINED_CURSOR: Final = "retained"
"""The publications from it on are not among the retained values that are in the state."""
IDENTITIES_CURSOR: Final = "identities"
"""The records below it are in the tables of identities, whatever fails. While those can be written, retention
waits for them; where they cannot, it goes on, and the identities are in memory alone."""
IDENTITIES: Final = "identities"
ACKNOWLEDGED: Final = "ack:"
IDENTITY_FILE: Final = "identity"
GATHERED_MIN: Final = 1_000
"""Fewer changes than this are not worth being gathered."""
REMEMBERED: Final = 100_000
"""The number of latest publications that may come again, and be known."""
NEVER: Final = float("inf")
DEAD_MAX: Final = 10_000
"""The number of dead records of a durable subscriber that are known, so that they can be handed out again."""
BUSY: Final = 5_000
"""So many records between two questions whether identities should be written are a burst."""
LOOKED_AT_MAX: Final = 5
"""The factor by which more records are looked at for them: a broker that mostly relays has few of its own."""

FULL_HINT: Final = (
    "make room on the disk, remove durable subscribers that will not return, or shorten the retention"
)
RESERVE_BYTES: Final = 1 << 20
"""Room on the disk that a broker sets aside for changes of its state."""

UNNUMBERED: Final = bytes(8)
"""In the place of a number in a neighbour's log."""

InterestText: TypeAlias = tuple[str, str]


class Subscribed(Struct, frozen=True, array_like=True, tag=True):
    """A durable subscriber has subscribed to a filter, from the record at `since` on."""

    durable: str
    id: str
    filter: str
    since: int


class Changed(Struct, frozen=True, array_like=True, tag=True):
    """A subscription of a durable subscriber has another filter from a record on, and perhaps another id."""

    durable: str
    id: str
    now: str
    filter: str
    at: int


class Formerly(Struct, frozen=True, array_like=True, tag=True):
    """The filter that a subscription had for the records from one up to, and without, another."""

    durable: str
    id: str
    filter: str
    since: int
    until: int
    now: str


class Owned(Struct, frozen=True, array_like=True, tag=True):
    """A durable subscriber acts for this principal: by whose rights, its subscriptions are narrowed."""

    durable: str
    principal: str


class Termed(Struct, frozen=True, array_like=True, tag=True):
    """A durable subscriber has these terms of acceptance (`fairlead.delivery.assigning`)."""

    durable: str
    shared: bool
    per: str
    window: int
    attempts_max: int
    accept_within: int


class Leased(Struct, frozen=True, array_like=True, tag=True):
    """A durable subscriber ends when nobody has been there for it for so many microseconds; 0: it does not."""

    durable: str
    lease: int


class Stay(Struct, frozen=True, array_like=True, tag=True):
    """A durable subscriber has arrived here: its place has this counter, and begins with a cut. The parts are what
    is for it at other places; -1: it is arriving."""

    durable: str
    counter: int
    cut: dict[str, int] = {}
    parts: list[tuple[str, int, dict[str, int]]] = []


class Departed(Struct, frozen=True, array_like=True, tag=True):
    """A durable subscriber has gone to another broker: what is for it here, up to a cut, is kept under this
    name."""

    durable: str
    now: str
    upto: dict[str, int]


class Willed(Struct, frozen=True, array_like=True, tag=True):
    """A client has left a will, which is published when the client is lost; without one, it has none now."""

    client: str
    packed: bytes
    delay: int = 0
    """In microseconds, how long the client may take to come back."""
    principal: str = ""
    """By whose rights it is published."""


class Held(Struct, frozen=True, array_like=True, tag=True):
    """A publication is held until an instant, in microseconds; without one, it is held no longer."""

    key: str
    """Its identity."""
    packed: bytes = b""
    until: int = 0


class Recalling(Struct, frozen=True, array_like=True, tag=True):
    """A durable subscriber begins at a time, and other brokers are asked for what was published since."""

    durable: str
    id: str
    since: int
    begun: int
    """The first record that may be an answer."""
    boundary: int
    """Below this offset, what came from other brokers is among the answers; -1: not all have come."""
    covered: dict[str, int]
    """By broker, the position up to which its publications are among the answers."""
    gaps: list[tuple[str, int]]
    """By broker, when its log begins, where that is later; -1: it has none."""


class Attempts(Struct, frozen=True, array_like=True, tag=True):
    """The attempts and accepted records of a durable subscriber beyond its cursor, instead of those before."""

    durable: str
    counts: list[tuple[int, int, int]]
    """Records that were handed out in vain: offset, attempts, failures."""
    accepted: list[int]


class Died(Struct, frozen=True, array_like=True, tag=True):
    """A durable subscriber has failed on a record too often; the letter is in the log."""

    durable: str
    offset: int
    attempts: int
    reason: str


class Accepted(Struct, frozen=True, array_like=True, tag=True):
    """A transaction has accepted these records of a durable subscriber. What it publishes is in the same group."""

    durable: str
    offsets: list[int]


class Redriven(Struct, frozen=True, array_like=True, tag=True):
    """A dead record is handed out again; `settled`: it has been accepted, or is gone."""

    durable: str
    offset: int
    settled: bool


class Unsubscribed(Struct, frozen=True, array_like=True, tag=True):
    """It does not any longer; without an id, the subscriber is gone."""

    durable: str
    id: str


class InterestsChanged(Struct, frozen=True, array_like=True, tag="Told"):
    """A neighbour has added or removed interests."""

    neighbour: str
    added: list[InterestText]
    removed: list[InterestText]
    advertisements: bool


class Noticed(Struct, frozen=True, array_like=True, tag=True):
    """Another broker of a redundant network has told all of its neighbours, and changes of its interests."""

    broker: str
    number: int
    neighbours: list[str]
    added: list[InterestText]
    removed: list[InterestText]


class Heard(Struct, frozen=True, array_like=True, tag=True):
    """All that a neighbour relayed up to this ordinal is here: copies have no records of their own."""

    neighbour: str
    received: int


class Arrived(Struct, frozen=True, array_like=True, tag=True):
    """The last position of each broker that has arrived here."""

    positions: list[tuple[bytes, bytes, int]]
    """Broker, incarnation of its log, position."""


class Linked(Struct, frozen=True, array_like=True, tag=True):
    """A broker is a neighbour; `url` is where it is called, if this side calls."""

    neighbour: str
    url: str
    log: str = ""
    received: int = 0
    lineage: list[tuple[str, int]] = []
    superseded: list[str] = []


class Parting(Struct, frozen=True, array_like=True, tag=True):
    """A link has ended, and the neighbour has not learnt of it; `url` is the neighbour's address, if this side
    called."""

    neighbour: str
    url: str


class Unlinked(Struct, frozen=True, array_like=True, tag=True):
    """It is not any longer, and knows."""

    neighbour: str


class Wanted(Struct, frozen=True, array_like=True, tag=True):
    """Somebody wants this broker to be linked with the one at this address, which has not answered; or no more."""

    url: str
    wanted: bool


class Opened(Struct, frozen=True, array_like=True, tag="Opened 2"):
    """The broker's process has opened the log: its incarnations up to this one, whose log it is, and which.

    From here on arrivals have stamps. A release that does not know those refuses the log by this record's name.
    """

    lineage: list[tuple[str, int]]
    broker: str
    log: str


class OpenedBefore(Struct, frozen=True, array_like=True, tag="Opened"):
    """The same in a log whose arrivals have no stamps."""

    lineage: list[tuple[str, int]]
    broker: str
    log: str


class Keeping(Struct, frozen=True, array_like=True, tag=True):
    """The values that these channels retain of what was published below an offset follow."""

    channels: str
    reached: int


class Retained(Struct, frozen=True, array_like=True, tag=True):
    """Some of these values."""

    values: list[tuple[str, bytes, int, str, str, bytes, int, bool]]
    """Channel, key, order time and producer of its place, producer, notification, its position in this log or 0,
    and whether it has ended its key."""


class Whole(Struct, frozen=True, array_like=True, tag=True):
    """The records from here to `Sealed` are the whole state."""


class Sealed(Struct, frozen=True, array_like=True, tag=True):
    """It is."""


Change: TypeAlias = (
    Subscribed
    | Changed
    | Formerly
    | Owned
    | Unsubscribed
    | Termed
    | Leased
    | Stay
    | Departed
    | Willed
    | Held
    | Recalling
    | Attempts
    | Died
    | Accepted
    | Redriven
    | InterestsChanged
    | Noticed
    | Heard
    | Arrived
    | Linked
    | Parting
    | Unlinked
    | Wanted
    | Opened
    | OpenedBefore
    | Keeping
    | Retained
    | Whole
    | Sealed
)

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Change)


class DurableSubscription(NamedTuple):
    """One subscription of a durable subscriber: its filter's text, and the first record it is about."""

    filter: str
    since: int


@dataclass(slots=True)
class Neighbour:
    """The durable state of a neighbour."""

    url: str = ""
    log: str = ""
    """The log that `received` is about."""
    received: int = 0
    """The last place of its log of which something arrived."""
    safe: int = 0
    """The last one of those that are safe here: so far it need not be sent again."""
    lineage: Lineage = ()
    """The incarnations of its log, when it connected last."""
    superseded: frozenset[str] = frozenset()
    """The incarnations of its log that others have taken the place of."""
    subscriptions: dict[InterestText, None] = field(default_factory=dict)
    advertisements: dict[InterestText, None] = field(default_factory=dict)

    def interests(self, *, advertisements: bool) -> dict[InterestText, None]:
        """The neighbour's subscriptions, or its advertisements."""
        return self.advertisements if advertisements else self.subscriptions


@dataclass(slots=True)
class Accounts:
    """The accounts of a durable subscriber, beyond its filters and its cursor."""

    terms: Terms = NEUTRAL
    counts: dict[int, Count] = field(default_factory=dict)
    accepted: frozenset[int] = frozenset()
    transacted: set[int] = field(default_factory=set)
    """Records that transactions have accepted, but for those that are below a cursor that is safe."""
    dead: dict[int, Died] = field(default_factory=dict)
    redriven: dict[int, None] = field(default_factory=dict)

    def apply(self, change: Termed | Attempts | Died | Accepted | Redriven) -> None:
        """Take one change in."""
        match change:
            case Termed(_, shared, per, window, attempts_max, accept_within):
                self.terms = Terms(shared, per, window, attempts_max, accept_within)
            case Attempts(_, counts, accepted):
                self.counts = {offset: Count(*count) for offset, *count in counts}
                self.accepted = frozenset(accepted)
            case Died(_, offset):
                self.dead[offset] = change
                self.redriven.pop(offset, None)
                while len(self.dead) > DEAD_MAX:
                    del self.dead[next(iter(self.dead))]
            case Accepted(_, offsets):
                self.transacted.update(offsets)
                for offset in offsets:
                    self.redriven.pop(offset, None)
            case Redriven(_, offset, settled):
                self.dead.pop(offset, None)
                self.redriven.pop(offset, None)
                if not settled:
                    self.redriven[offset] = None

    def changes(self, durable: str) -> Iterator[Change]:
        """Changes that make these accounts of none."""
        if not self.terms.is_neutral:
            yield termed(durable, self.terms)
        if self.counts or self.accepted:
            yield attempts(durable, self.counts, self.accepted)
        if self.transacted:
            yield Accepted(durable, sorted(self.transacted))
        yield from self.dead.values()
        for offset in self.redriven:
            yield Redriven(durable, offset, False)


@dataclass(slots=True)
class Transacted:
    """A transaction in the log: its publications, and what it has accepted."""

    publications: range
    accepted: list[Accepted]
    is_lost: bool = False
    """Whether the log had no room for it after all: then nothing of it has happened."""
    redriven: list[tuple[str, int]] = field(default_factory=list)
    """The records that were dead, had been handed out again, and are accepted."""


@dataclass(slots=True)
class Known:
    """The notice of another broker."""

    number: int = 0
    neighbours: tuple[str, ...] = ()
    interests: dict[InterestText, None] = field(default_factory=dict)


class Remember(NamedTuple):
    """For how long a broker remembers which identities it has delivered, and how many of them at most."""

    identities: int = 5_000_000
    time_us: int = 86_400_000_000


@dataclass(slots=True)
class State:
    """The durable state of a broker."""

    durables: dict[str, dict[str, DurableSubscription]] = field(default_factory=dict)
    former: dict[str, dict[str, Former[str]]] = field(default_factory=dict)
    """By durable subscriber, the filters that its subscriptions had for records that it has not dealt with."""
    accounts: dict[str, Accounts] = field(default_factory=dict)
    """By durable subscriber, where it has terms, or has failed on something."""
    owners: dict[str, str] = field(default_factory=dict)
    """By durable subscriber, the principal that it acts for, where there is an access policy."""
    leases: dict[str, int] = field(default_factory=dict)
    """By durable subscriber, for how long it is kept while nobody is there, in microseconds."""
    stays: dict[str, Stay] = field(default_factory=dict)
    """By durable subscriber, where it has come from another broker."""
    departed: dict[str, dict[str, int]] = field(default_factory=dict)
    """By the name under which it is kept, up to where it is for a durable subscriber that has gone."""
    wills: dict[str, Willed] = field(default_factory=dict)
    """By client, connected or lost."""
    held: dict[str, Held] = field(default_factory=dict)
    """By identity, the publications that channels hold."""
    histories: dict[str, Recalling] = field(default_factory=dict)
    """By durable subscriber, where it began in the past."""
    neighbours: dict[str, Neighbour] = field(default_factory=dict)
    parting: dict[str, str] = field(default_factory=dict)
    """Those that are no neighbours any longer and do not know, and where they can be told."""
    wanted: dict[str, None] = field(default_factory=dict)
    """The addresses that somebody wants to be neighbours, and that have not answered."""
    had_others: bool = False
    """Whether a link has ever been ended."""
    notices: dict[str, Known] = field(default_factory=dict)
    """By broker, in a redundant network."""
    arrived: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    """By broker, in a redundant network: the incarnation of its log, and the last position that has arrived."""
    keeping: Keeping | None = None
    retained: list[Retained] = field(default_factory=list)
    """The retained values, until the broker has taken them over."""
    opened: Opened | None = None
    """The latest opening; a log that was written before openings were recorded has none."""

    def apply(self, change: Change) -> None:
        """Take one change in."""
        match change:
            case Subscribed(durable, id, filter, since):
                self.durables.setdefault(durable, {})[id] = DurableSubscription(filter, since)
            case Unsubscribed(durable, ""):
                for each in self._by_durable:
                    each.pop(durable, None)
            case (
                Owned()
                | Leased()
                | Stay()
                | Departed()
                | Willed()
                | Held()
                | Changed()
                | Formerly()
                | Recalling()
            ):
                self._apply_term(change)
            case Termed() | Attempts() | Died() | Accepted() | Redriven():
                self.accounts.setdefault(change.durable, Accounts()).apply(change)
            case Unsubscribed(durable, id):
                self.durables.get(durable, {}).pop(id, None)
                end_former(self.former.get(durable, {}), id)
            case InterestsChanged(name, added, removed, advertisements):
                self.parting.pop(name, None)
                interests = self.neighbours.setdefault(name, Neighbour()).interests(
                    advertisements=advertisements
                )
                for heard in removed:
                    interests.pop(heard, None)
                interests.update(dict.fromkeys(added))
            case Noticed() | Heard() | Arrived():
                self._apply_redundant(change)
            case Linked(name, url, log, received, lineage, superseded):
                neighbour = self.neighbours.setdefault(name, Neighbour())
                shown = lineage_of(lineage)
                if neighbour.log != log:
                    neighbour.received = neighbour.safe = 0
                else:
                    kept = valid_end(neighbour.received, neighbour.lineage, shown)
                    neighbour.received, neighbour.safe = kept, min(neighbour.safe, kept)
                neighbour.url, neighbour.log = url, log
                neighbour.received = max(neighbour.received, received)
                neighbour.lineage, neighbour.superseded = shown or neighbour.lineage, frozenset(superseded)
                self.parting.pop(name, None)
                self.wanted.pop(url, None)
            case Parting(name, url):
                self.neighbours.pop(name, None)
                self.parting[name] = url
                self.had_others = True
            case Unlinked(name):
                self.neighbours.pop(name, None)
                self.parting.pop(name, None)
                self.had_others = True
            case Wanted(url, True):
                self.wanted[url] = None
            case Wanted(url, False):
                self.wanted.pop(url, None)
            case Opened(lineage, broker, log) | OpenedBefore(lineage, broker, log):
                self.opened = Opened(lineage, broker, log)
            case Keeping() | Retained():
                self._apply_retained(change)

    def _apply_former(self, change: Changed | Formerly) -> None:
        former = self.former.setdefault(change.durable, {})
        if isinstance(change, Formerly):
            former[change.id] = Former(change.filter, change.since, change.until, change.now)
            return
        subscriptions = self.durables.setdefault(change.durable, {})
        retire(subscriptions, former, change.id, change.now, change.at)
        subscriptions[change.now] = DurableSubscription(change.filter, change.at)

    def take_back(self, end: int) -> None:
        """The log ends here: no filter was changed behind it."""
        for former in self.former.values():
            take_back(former, end)

    def _apply_retained(self, change: Keeping | Retained) -> None:
        if isinstance(change, Keeping):
            self.keeping, self.retained = change, []
        else:
            self.retained.append(change)

    def _apply_redundant(self, change: Noticed | Heard | Arrived) -> None:
        match change:
            case Noticed(broker, number, neighbours, added, removed):
                known = self.notices.setdefault(broker, Known())
                known.number, known.neighbours = number, tuple(neighbours)
                for heard in removed:
                    known.interests.pop(heard, None)
                known.interests.update(dict.fromkeys(added))
            case Heard(name, received):
                if name in self.neighbours:
                    self.neighbours[name].received = max(self.neighbours[name].received, received)
            case Arrived(positions):
                self.arrived = {
                    broker: (incarnation, position) for broker, incarnation, position in positions
                }

    @property
    def _by_durable(self) -> Sequence[dict[str, Any]]:
        return (
            self.durables,
            self.former,
            self.owners,
            self.accounts,
            self.leases,
            self.stays,
            self.departed,
            self.histories,
        )

    def _depart(self, durable: str, now: str, upto: dict[str, int]) -> None:
        for each in self._by_durable:
            if durable in each:
                each[now] = each.pop(durable)
        if now in self.stays:
            self.stays[now] = replace(self.stays[now], durable=now)
        self.departed[now] = upto

    def _apply_term(
        self, change: Owned | Leased | Stay | Departed | Willed | Held | Changed | Formerly | Recalling
    ) -> None:
        match change:
            case Recalling(durable):
                self.histories[durable] = change
            case Stay(durable, counter, cut, parts) if counter or cut or parts:
                self.stays[durable] = change
            case Stay(durable):
                self.stays.pop(durable, None)
            case Departed(durable, now, upto):
                self._depart(durable, now, upto)
            case Changed() | Formerly():
                self._apply_former(change)
            case Owned(durable, principal):
                self.owners[durable] = principal
            case Leased(durable, lease) if lease:
                self.leases[durable] = lease
            case Leased(durable):
                self.leases.pop(durable, None)
            case Willed(client, packed) if packed:
                self.wills[client] = change
            case Willed(client):
                self.wills.pop(client, None)
            case Held(key, packed) if packed:
                self.held[key] = change
            case Held(key):
                self.held.pop(key, None)

    def changes(self) -> Iterator[Change]:
        """Changes that make this state of an empty one."""
        if self.opened is not None:
            yield self.opened
        for durable, principal in self.owners.items():
            yield Owned(durable, principal)
        for durable, subscriptions in self.durables.items():
            for id, (filter, since) in subscriptions.items():
                yield Subscribed(durable, id, filter, since)
        for durable, former in self.former.items():
            for id, each in former.items():
                yield Formerly(durable, id, *each)
        for durable, lease in self.leases.items():
            yield Leased(durable, lease)
        yield from self.histories.values()
        yield from self.stays.values()
        for durable, upto in self.departed.items():
            yield Departed(durable, durable, upto)
        yield from self.wills.values()
        yield from self.held.values()
        for durable, accounts in self.accounts.items():
            yield from accounts.changes(durable)
        for name, neighbour in self.neighbours.items():
            yield Linked(
                name,
                neighbour.url,
                neighbour.log,
                neighbour.received,
                list(neighbour.lineage),
                sorted(neighbour.superseded),
            )
            for advertisements in (False, True):
                for heard in neighbour.interests(advertisements=advertisements):
                    yield InterestsChanged(name, [heard], [], advertisements)
        for broker, known in self.notices.items():
            yield Noticed(broker, known.number, list(known.neighbours), list(known.interests), [])
        if self.arrived:
            yield Arrived([(broker, *last) for broker, last in self.arrived.items()])
        for name, url in self.parting.items():
            yield Parting(name, url)
        for url in self.wanted:
            yield Wanted(url, True)
        if self.had_others:
            yield Unlinked("")

    def __len__(self) -> int:
        return sum(1 for _ in self.changes())


class Ledger:
    """The log of a broker, and the state that is in it. Offsets are the log's."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        disk: Disk | None = None,
        *,
        broker: str = "",
        now: int = 0,
        remember: Remember | None = None,
        **options: int,
    ) -> None:
        """Open the log of a broker, or make one; DamagedLog where it is another broker's, or not whole."""
        self.directory, self.disk = os.fspath(directory), disk
        self.log = Log(self.directory, disk=disk, **options)
        self.state = State()
        self.identities: list[tuple[str, str]] = []
        """After opening: the identities of the latest publications, so that a duplicate of one is known."""
        self.content = 0
        """The end of what has been appended; beyond it there are at most changes of cursors."""
        self.retained: Callable[[], list[Change]] = list
        """The retained values, as the broker has them, to be gathered with the state."""
        self._changes = 0
        """The number of changes noted since they were gathered."""
        self._gathered = 0
        """The end of what was written when they were."""
        self._looked = 0
        """The end of the log when it was last asked whether identities should be written."""
        self.parted = 0
        """The end of the log when a link was ended last, or shortly after: what is in the log before that may
        have holes where nobody here asked for what the neighbour had."""
        self._notified = 0
        """The end of the notifications that were appended last."""
        self._full_until: float = 0
        """Since the disk had no room: the end of the notifications that are to be synced until it counts as having
        some again; NEVER, before any were appended."""
        self._unsafe: deque[tuple[int, Change]] = deque()
        """Those that are not known to be safe."""
        self._transactions: deque[Transacted] = deque()
        """The transactions that are not known to be safe."""
        self._safe_cursors: dict[str, int] = {}
        """The cursors when the state was gathered last: those that are safe now are not below them."""
        try:
            self._recover()
            self.firsts = self._recalled(remember or Remember())
            """The first offset of each identity that was delivered, as far as that is remembered."""
            self._open(broker, now)
        except BaseException:
            self.log.close()
            raise
        self.content = self.log.end
        self._needed = min(self.log.cursors[name] for name in self._readers)
        """The first record that some cursor needs that is safe."""
        for neighbour in self.state.neighbours.values():
            neighbour.safe = neighbour.received

    def publications_of(self, packed: list[bytes], now: int) -> range:
        """Append publications of a client, all or none."""
        return self._append_notifications([(PUBLICATION, each) for each in packed], now)

    def transaction(self, packed: list[bytes], accepted: list[Accepted], now: int) -> Transacted:
        """Append the publications of a client, and what it accepts with them: all of it is in the log, or
        nothing."""
        records = [(PUBLICATION, each) for each in packed]
        records += [(STATE, _encoder.encode(each)) for each in accepted]
        offsets = self._append_notifications(records, now, is_group=True)
        made = Transacted(offsets[: len(packed)], accepted)
        for change in accepted:
            redriven = self.state.accounts.setdefault(change.durable, Accounts()).redriven
            made.redriven += [(change.durable, each) for each in change.offsets if each in redriven]
            self._apply(change, offsets.stop - 1)
        self._changes += len(accepted)
        self._transactions.append(made)
        return made

    def arrivals(self, neighbour: str, arrived: list[tuple[bytes, int]], now: int) -> range:
        """Append relays of a neighbour as they came, with their ordinals in its log; all or none."""
        head = arrival_head(neighbour)
        records = [(ARRIVAL, head + relayed) for relayed, _ in arrived]
        offsets = self._append_notifications(records, now)
        self.state.neighbours[neighbour].received = arrived[-1][1]
        return offsets

    def recalled(self, durable: str, neighbour: str, values: list[tuple[bytes, bytes]], now: int) -> range:
        """Append notifications with their stamps, which were published elsewhere before a durable subscriber
        began, for this one alone."""
        head = recalled_head(durable) + arrival_head(neighbour)
        records = [(RECALLED, head + UNNUMBERED + stamp + packed) for packed, stamp in values]
        return self._append_notifications(records, now)

    @property
    def is_full(self) -> bool:
        """Whether the disk is full: changes of state are still taken, notifications are refused.

        It is from the first refusal on, until notifications are synced or `look_for_room` sees room for them.
        """
        return not self.log.reserve.is_held or self._full_until > 0

    def look_for_room(self) -> bool:
        """Set the reserve aside again, where it was used and nothing needs it; whether the disk is not full."""
        if self.is_full and not self._needs_reserve and self.log.reserve.has_room():
            self._full_until = 0
        return not self.is_full

    @property
    def _needs_reserve(self) -> bool:
        """Whether changes of state wait for room."""
        is_waiting = bool(self._unsafe) and self._unsafe[-1][0] >= self.log.synced
        return is_waiting or self.log.cursors.changed

    def _append_notifications(
        self, records: list[tuple[int, bytes]], now: int, *, is_group: bool = False
    ) -> range:
        """Append notifications; LogFull where only the reserve is left, which is for changes of state."""
        reserve = self.log.reserve
        if not reserve.is_held and (self._needs_reserve or not reserve.hold()):
            raise LogFull(f"{self.directory}: the disk is full", hint=FULL_HINT)
        try:
            offsets = self._append(records, now, is_group=is_group)
        except LogFull:
            self._full_until = NEVER
            raise
        self._notified = offsets.stop
        if self._full_until:
            self._full_until = offsets.stop
        return offsets

    def note(self, change: Change, now: int) -> int:
        """Append a change, and let it take effect."""
        offset = self._append([(STATE, _encoder.encode(change))], now).start
        self._apply(change, offset)
        self._changes += 1
        self._unsafe.append((offset, change))
        return offset

    def synced(self, synced: int) -> None:
        """All records below this offset are synced."""
        if synced >= self._full_until:
            self._full_until = 0
        while self._unsafe and self._unsafe[0][0] < synced:
            self._unsafe.popleft()
        while self._transactions and self._transactions[0].publications.start < synced:
            self._transactions.popleft()

    def take_back(self, now: int) -> int:
        """After LogFull: forget what has not been written; but changes have taken effect, and wait for room.

        The offset returned is the first that is not in the log.
        """
        end = self.content = self.log.take_back()
        self.synced(end)
        self._full_until, self._notified = NEVER, min(self._notified, end)
        for transacted in self._transactions:
            self._undo(transacted)
        self._transactions.clear()
        if self._unsafe or self.log.cursors.changed:
            self.log.reserve.release()
        again = [_before(end, change) for _, change in self._unsafe]
        self.state.take_back(end)
        for change in again:
            self.state.apply(change)
        offsets = self._append([(STATE, _encoder.encode(each)) for each in again], now)
        self._unsafe = deque(zip(offsets, again, strict=True))
        return end

    def _undo(self, transacted: Transacted) -> None:
        """A transaction is not in the log."""
        transacted.is_lost = True
        for durable, offsets in ((each.durable, each.offsets) for each in transacted.accepted):
            if durable in self.state.accounts:
                self.state.accounts[durable].transacted.difference_update(offsets)
        for durable, offset in transacted.redriven:
            self.state.accounts[durable].redriven[offset] = None

    def _apply(self, change: Change, offset: int) -> None:
        self.state.apply(change)
        if isinstance(change, Parting | Unlinked):
            self.parted = offset + 1

    def _append(self, records: list[tuple[int, bytes]], now: int, *, is_group: bool = False) -> range:
        append = self.log.append_group if is_group else self.log.append_many
        offsets = append(records, now)
        self.content = offsets.stop
        return offsets

    @property
    def _readers(self) -> list[str]:
        """The cursors of those who still read the log."""
        return [
            name
            for name in self.log.cursors
            if name != IDENTITIES_CURSOR and not name.startswith(ACKNOWLEDGED)
        ]

    def _sync(self) -> None:
        """Sync changes of state and cursors, with the reserve if need be; LogFull where there is still no room.

        Notifications that wait are not written into the reserve.
        """
        try:
            self.log.sync()
        except LogFull:
            if self._notified > self.log.written:
                raise
            self.log.reserve.release()
            self.log.sync()

    # -- identities --------------------------------------------------------------------------------------------

    def _recalled(self, remember: Remember) -> FirstOffsets:
        """The first offsets of identities: those that are in no file are in the latest records."""
        firsts = FirstOffsets(
            f"{self.directory}/{IDENTITIES}",
            end=self.log.end,
            most=remember.identities,
            time_us=remember.time_us,
            disk=self.disk,
        )
        begin = 0 if firsts.is_new else self.log.cursors.get(IDENTITIES_CURSOR, 0)
        begin = max(begin, self.log.first, self.log.end - LOOKED_AT_MAX * REMEMBERED)
        with self._between(begin, self.log.end, *NOTIFICATIONS) as reader:
            for record in reader:
                with contextlib.suppress(ValueRefused):  # whoever reads the record says what is wrong with it
                    firsts.first(identity_bytes(notification_in(record)), record.offset)
        return firsts

    def begin_writing_identities(self, reached: int, now: int) -> bool:
        """Whether those of all records below this offset should be written now, beside the event loop.

        On a full disk they are sooner: retention waits for them. In a burst they are later: writing slows it down.
        """
        is_busy, self._looked = reached - self._looked >= BUSY, reached
        is_due = self.firsts.is_due(now, hurry=self.is_full, busy=is_busy)
        if is_due:
            self.firsts.begin(reached, now)
        return is_due

    def identities_written(self, written: Written | None) -> None:
        """They were: the records need not be read again for them."""
        self.log.cursors[IDENTITIES_CURSOR] = self.firsts.finish(written)

    @property
    def is_scattered(self) -> bool:
        """Whether gathering would make what has to be read on opening much shorter."""
        return self._changes >= GATHERED_MIN and self._changes >= 2 * len(self.state)

    def gather(self, now: int) -> None:
        """Write the whole state anew, so that the log need not retain earlier records for it."""
        for name, accounts in self.state.accounts.items():
            safe = self._safe_cursors.get(cursor_of_durable(name), 0)
            accounts.transacted = {each for each in accounts.transacted if each >= safe}
        cursors = self.log.cursors.snapshot()
        retained = self.retained()
        whole = [Whole(), *self.state.changes(), *retained, Sealed()]
        offsets = self._append([(STATE, _encoder.encode(each)) for each in whole], now)
        self._sync()  # the cursor must not be safe before what it points at
        self._safe_cursors = cursors
        self.log.cursors[STATE_CURSOR] = offsets.start
        if retained and isinstance(retained[0], Keeping):
            self.log.cursors[RETAINED_CURSOR] = retained[0].reached
        self._changes, self._gathered = 0, offsets.stop

    def retain(self, now: int, *, seconds: float | None = None, max_bytes: int | None = None) -> int:
        """Let go of what is old or too much and needed by nobody; the first offset that is still there.

        The state is gathered where it alone would keep a file; but not to take the place of itself alone.
        """
        since = None if seconds is None else now - round(seconds * 1e6)
        remembered = self.log.end
        if not self.firsts.has_failed:
            remembered = self.log.cursors.get(IDENTITIES_CURSOR, remembered)
        needed = min(
            (self.log.cursors[name] for name in self._readers if name not in (STATE_CURSOR, RETAINED_CURSOR)),
            default=remembered,
        )
        left = self.log.retained(since=since, max_bytes=max_bytes, retain_from=min(needed, remembered))
        if left > max(self._gathered, self.log.cursors[STATE_CURSOR]):
            with contextlib.suppress(LogFull):
                self.gather(now)
        needed = min(self.log.cursors[name] for name in self._readers)
        try:
            self._sync()
        except LogFull:  # the cursors that are safe are older ones, and what they point at has to stay
            needed = min(needed, self._needed)
        else:
            self._needed = needed
        first = self.log.retain(since=since, max_bytes=max_bytes, retain_from=min(needed, remembered))
        self.look_for_room()
        return first

    def reader(self, offset: int, *kinds: int, synced: bool = True) -> Reader:
        """A reader of the synced records from an offset on; if not `synced`, of all written ones."""
        return Reader(
            self.directory,
            offset,
            kinds=kinds or None,
            synced=synced,
            index=self.log.index,
            disk=self.disk,
        )

    def close(self, reached: int | None = None, now: int = 0) -> None:
        """Sync and release the log; write the identities too, if those below an offset are known."""
        if reached is not None:
            with contextlib.suppress(OSError):  # then they are read in the log
                self.firsts.abandon()
                self.firsts.begin(reached, now)
                self.identities_written(self.firsts.write(now))
        self.firsts.close()
        self.log.close()

    def _recover(self) -> None:
        if STATE_CURSOR not in self.log.cursors:
            self.log.cursors[STATE_CURSOR] = self.log.first
        # What was written and not synced when the process was killed is in the log like all else.
        self.log.sync()
        begin = self.log.cursors[STATE_CURSOR]
        latest = max(self.log.first, self.log.end - REMEMBERED)
        pending: State | None = None
        with self._between(min(begin, latest), self.log.end) as reader:
            for record in reader:
                if record.kind == PUBLICATION and record.offset >= latest:
                    self.identities.append(identity_in(record.payload))
                elif record.offset < begin:
                    continue
                elif record.kind in ARRIVALS:
                    arrived = parse_arrival(record)
                    neighbour = self.state.neighbours.get(arrived.neighbour)
                    if neighbour is not None:
                        neighbour.received = arrived.offset
                    origin, incarnation = parse_origin(arrived.stamp[STAMP_BYTES:])
                    if incarnation:
                        self.state.arrived[origin] = (incarnation, parse_stamp(arrived.stamp).position)
                elif record.kind == STATE:
                    self._changes += 1
                    match change := parse_change(record):
                        case Whole():
                            pending = State()
                        case Sealed():
                            if pending is not None:
                                self.state = pending
                            pending, self._changes, self._gathered = None, 0, record.offset + 1
                        case _:
                            # To both: if it never comes to `Sealed`, what is noted after it counts all the same.
                            self._apply(change, record.offset)
                            if pending is not None:
                                pending.apply(change)

        self._look_back(latest)
        # Who has been forgotten keeps nothing, though this was killed before it could write that, too.
        known = {
            STATE_CURSOR,
            IDENTITIES_CURSOR,
            RETAINED_CURSOR,
            *map(cursor_of_durable, self.state.durables),
        }
        known |= set(map(cursor_of_link, self.state.neighbours))
        known |= set(map(cursor_of_acknowledged, self.state.neighbours))
        for name in self.log.cursors.keys() - known:
            del self.log.cursors[name]

    def _look_back(self, looked: int) -> None:
        """Further back for publications, where few of the latest records were any."""
        least = max(self.log.first, self.log.end - LOOKED_AT_MAX * REMEMBERED)
        while looked > least and len(self.identities) < REMEMBERED:
            earlier = max(least, looked - REMEMBERED)
            with self._between(earlier, looked, PUBLICATION) as reader:
                self.identities[:0] = [identity_in(record.payload) for record in reader]
            looked = earlier
        del self.identities[:-REMEMBERED]

    def _between(self, offset: int, until: int, *kinds: int) -> Reader:
        index, disk = self.log.index, self.disk
        return Reader(self.directory, offset, until=until, kinds=kinds or None, index=index, disk=disk)

    @property
    def identity(self) -> str:
        """The id of this log, for as long as it exists. Another log in the same directory has another id."""
        assert self.state.opened is not None
        return self.state.opened.log

    @property
    def lineage(self) -> Lineage:
        """The incarnations of this log, the present one last."""
        assert self.state.opened is not None
        return tuple(Incarnation(*each) for each in self.state.opened.lineage)

    def _open(self, broker: str, now: int) -> None:
        """Begin an incarnation, as every opening does: a log and its copy differ from here on."""
        before = self.state.opened
        if before is not None and broker and before.broker not in ("", broker):
            raise DamagedLog(
                f"{self.directory}: this is the log of the broker {before.broker!r}, not of {broker!r}",
                path=self.directory,
                hint=f"start it as {before.broker!r}, or give {broker!r} a directory of its own",
            )
        known = [] if before is None else before.lineage
        lineage = [*known, (next_id([id for id, _ in known], now), self.log.end)][-LINEAGE_MAX:]
        log = self._written_identity() if before is None else before.log
        self.note(Opened(lineage, broker or ("" if before is None else before.broker), log), now)
        with contextlib.suppress(LogFull):  # on a full disk it waits for room, before everything else
            self.log.sync()

    def _written_identity(self) -> str:
        """The identity in the file where older logs had it; a new one where there is none."""
        path = Path(self.directory, IDENTITY_FILE)
        if self.disk is None and path.exists():
            return path.read_text(encoding="ascii").strip()
        return uuid.uuid4().hex


def cursor_of_durable(name: str) -> str:
    """The name of a durable subscriber's cursor in the log."""
    return f"sub:{name}"


def cursor_of_link(name: str) -> str:
    """The name of a neighbour's cursor in the log."""
    return f"link:{name}"


def cursor_of_acknowledged(name: str) -> str:
    """The cursor behind the last record that a neighbour has acknowledged. Retention does not regard it."""
    return f"{ACKNOWLEDGED}{name}"


def termed(durable: str, terms: Terms) -> Termed:
    """The change that gives a durable subscriber its terms."""
    return Termed(
        durable, terms.is_shared, terms.per, terms.window, terms.attempts_max, terms.accept_within_us
    )


def attempts(durable: str, counts: Mapping[int, Count], accepted: Iterable[int]) -> Attempts:
    """The change that says how often records were handed out, and which are accepted beyond the cursor."""
    return Attempts(durable, [(offset, *count) for offset, count in counts.items()], sorted(accepted))


def _before(end: int, change: Change) -> Change:
    """The change, as it is where the log ends here: what comes next comes after it."""
    if isinstance(change, Subscribed) and change.since > end:
        return msgspec.structs.replace(change, since=end)
    if isinstance(change, Changed) and change.at > end:
        return msgspec.structs.replace(change, at=end)
    return change


def parse_change(record: LogRecord) -> Change:
    """The change in a record."""
    try:
        change: Change = _decoder.decode(record.payload)
    except msgspec.DecodeError as error:
        raise DamagedLog(f"the record {record.offset} is no change of a broker's state: {error}") from None
    return change
