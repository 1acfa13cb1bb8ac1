"""Damage to the state of a broker, decided by the seed (book 8.2: arbitrary transient faults).

    the same seed does the same damage
    settings, neighbours and code are never damaged; of the rest, only the part that is named
    a share of 1 damages everything there is of that part

| part       | damage |
| ---------- | ------ |
| `entries`  | routing entries vanish, change their destination or take the filter of another entry |
| `mergers`  | the record of what a merger was made of is lost, or names other constituents |
| `flags`    | links count as not yet answered; neighbours count as brokers below, and are told nothing; of leased
               entries, which are fresh and which represent others |
| `clocks`   | the clocks that name links, stamp publications and end leases are set to other times |
| `clients`  | subscriptions of local clients vanish, or get the filter of another one |
| `indexes`  | entries are missing from the index by filter, or are found under another one |
| `spurious` | there are entries that nobody has asked for, with invented filters |
| `histories` | publications that were never made count as known: those of a producer's next numbers |
| `messages` | messages in flight to the broker carry other filters, other values, or nothing |
| `insertions` | messages that nobody has sent are in flight to the broker |

A broker whose state is damaged may be unable to take a step. The message is lost then, and the run goes on: that a
broker recovers from any state is the business of a routing algorithm that stabilises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType
from typing import Annotated, Any, Final

from msgspec import structs

from fairlead.broker import Broker
from fairlead.broker.messages import Admin, Batch, Forward, InTree, Passed
from fairlead.configuration import Key, one_of, quoted
from fairlead.errors import ValueRefused
from fairlead.filters import Filter, parse
from fairlead.model import Notification
from fairlead.model.order import Identity
from fairlead.routing import Interest, RoutingTable
from fairlead_lab.broker import AnyBroker, LeasedBroker, Packet, brokers_within
from fairlead_lab.routing.leased import LeasedTable
from fairlead_lab.simulation.kinds import MILLION, MS, PPM

__all__ = ["PARTS", "Corruption", "corrupt_broker", "corrupt_message", "invented_message"]

PARTS: Final = (
    "entries",
    "mergers",
    "flags",
    "clocks",
    "clients",
    "indexes",
    "spurious",
    "histories",
    "messages",
    "insertions",
)
"""The parts that can be damaged."""
CLOCK_MAX: Final = 1 << 40
"""A clock that is damaged shows anything below this time, in microseconds: twelve days."""


@dataclass(frozen=True, slots=True)
class Corruption:
    """A part of a broker's state is damaged at a time."""

    broker: Annotated[str, Key("the broker whose state is damaged")]
    at: Annotated[int, Key("when that happens", MS, at="at_ms")]
    what: Annotated[
        str,
        Key("the part", one_of(*PARTS)),
    ]
    share_ppm: Annotated[int, Key("the share of it that is damaged", PPM, at="share")] = MILLION

    def __post_init__(self) -> None:
        if self.what not in PARTS:
            raise ValueRefused(f"no part of a broker's state is called {self.what!r}", hint=quoted(PARTS))

    def hits(self, random: Random) -> bool:
        """Whether the next thing is damaged."""
        return random.randrange(MILLION) < self.share_ppm


def corrupt_broker(broker: AnyBroker, corruption: Corruption, random: Random) -> int:
    """Damage a part of a broker's state; returns how many things of it were damaged."""
    damage = _DAMAGES[corruption.what]
    return sum(damage(part, corruption, random) for part in brokers_within(broker))


# -- tables ------------------------------------------------------------------------------------------------


def _entries(broker: Broker, corruption: Corruption, random: Random) -> int:
    return sum(_table_entries(table, corruption, random) for table in broker.tables)


def _table_entries(table: RoutingTable, corruption: Corruption, random: Random) -> int:
    entries = sorted(table, key=lambda entry: (str(entry[0]), entry[1]))
    destinations = sorted({destination for _, destination in entries} | table.neighbours.keys())
    hit = [entry for entry in entries if corruption.hits(random)]
    for interest, destination in hit:
        change = random.randrange(3)
        others = [each for each in destinations if each != destination]
        table.remove(interest, destination)
        if change == 1 and others:
            table.add(interest, others[random.randrange(len(others))])
        elif change == 2:
            table.add(entries[random.randrange(len(entries))][0], destination)
    return len(hit)


def _mergers(broker: Broker, corruption: Corruption, random: Random) -> int:
    damaged = 0
    for table in broker.tables:
        for destination in sorted(table.mergers):
            mergers = table.mergers[destination]
            constituents = [each for of in mergers.values() for each in of]
            for merger in sorted(mergers, key=str):
                if corruption.hits(random):
                    damaged += 1
                    if random.randrange(2):
                        del mergers[merger]
                    else:
                        mergers[merger] = {constituents[random.randrange(len(constituents))]: None}
    return damaged


def _flags(broker: Broker, corruption: Corruption, random: Random) -> int:
    damaged = 0
    for neighbour in sorted(broker.links):
        if corruption.hits(random):
            damaged += 1
            flags = (broker._awaited, broker.subscriptions.deaf, broker.advertisements.deaf)
            flags[random.randrange(len(flags))].symmetric_difference_update((neighbour,))
            for table in (broker.subscriptions, broker.advertisements):
                table._others.clear()  # what is cached follows from the flags
    leased = [table for table in broker.tables if isinstance(table, LeasedTable)]
    return damaged + sum(_leased_flags(table, corruption, random) for table in leased)


def _leased_flags(table: LeasedTable, corruption: Corruption, random: Random) -> int:
    """The flags of leased entries, and which of them represent others."""
    damaged = 0
    for entry in sorted(table, key=lambda entry: (str(entry[0]), entry[1])):
        if corruption.hits(random):
            damaged += 1
            table.fresh.symmetric_difference_update((entry,))
            table.renewed_parts.symmetric_difference_update((entry,))
            for neighbour in sorted(table.neighbours):
                if random.randrange(2):
                    table.representatives.setdefault(neighbour, set()).symmetric_difference_update((entry,))
    return damaged


def _clocks(broker: Broker, corruption: Corruption, random: Random) -> int:
    clocks: list[tuple[Any, str]] = [(broker._names, "_latest")]
    if isinstance(broker, LeasedBroker):
        clocks.append((broker, "phase"))
    if broker.history is not None:
        clocks.append((broker.history, "_last"))
    hit = [clock for clock in clocks if corruption.hits(random)]
    for clock, name in hit:
        setattr(clock, name, random.randrange(CLOCK_MAX))
    return len(hit)


def _clients(broker: Broker, corruption: Corruption, random: Random) -> int:
    """The filters of local clients, and what follows from them: the ids that a delivery names."""
    clients = broker.clients
    declared = [
        (client, id, filter)
        for client in sorted(clients)
        for id, filter in sorted(clients[client].subscriptions.by_id.items())
    ]
    hit = [each for each in declared if corruption.hits(random)]
    for client, id, _ in hit:
        clients.unsubscribe(client, id)
        if random.randrange(2):
            clients.subscribe(client, id, declared[random.randrange(len(declared))][2])
    return len(hit)


def _indexes(broker: Broker, corruption: Corruption, random: Random) -> int:
    damaged = 0
    for table in broker.tables:
        index = table._at
        for number in sorted(index):
            if corruption.hits(random):
                damaged += 1
                there = index.pop(number)
                if index and random.randrange(2):
                    numbers = sorted(index)
                    index[numbers[random.randrange(len(numbers))]] = there
    return damaged


def _spurious(broker: Broker, corruption: Corruption, random: Random) -> int:
    """Entries that nobody has asked for, as many as there are, and one: for neighbours, for clients that are
    there, and for some that never were. Some of them are wide, so that they cover what is asked for."""
    damaged = 0
    for table in broker.tables:
        destinations = sorted({*table.neighbours, *table.destinations_with_entries(), "nobody"})
        for _ in range(len(table) + 1):
            if corruption.hits(random):
                damaged += 1
                destination = destinations[random.randrange(len(destinations))]
                interest = broker.catalogue.interest(_invented(random), _owner(table, random))
                table.add(interest, destination)
                if isinstance(table, LeasedTable) and random.randrange(2):
                    table.fresh.add((interest, destination))
    return damaged


def _owner(table: RoutingTable, random: Random) -> str:
    owners = sorted({interest.owner for interest, _ in table})
    return owners[random.randrange(len(owners))] if owners else ""


def _invented(random: Random) -> Filter:
    low = random.randrange(24)
    return parse(f"x in [{low}, {low + 1 + random.randrange(32)})")


def _histories(broker: Broker, corruption: Corruption, random: Random) -> int:
    """The next publications of each producer count as published and as delivered."""
    damaged = 0
    for client in sorted(broker.clients):
        for number in range(1, 65):
            if corruption.hits(random):
                damaged += 1
                identity = Identity(client, str(number))
                broker.identities.sent._latest.add(identity)
                broker._delivered.add(identity)
    return damaged


_DAMAGES: Final[Mapping[str, Callable[[Broker, Corruption, Random], int]]] = MappingProxyType(
    {
        "entries": _entries,
        "mergers": _mergers,
        "flags": _flags,
        "clocks": _clocks,
        "clients": _clients,
        "indexes": _indexes,
        "spurious": _spurious,
        "histories": _histories,
    }
)
# -- messages ----------------------------------------------------------------------------------------------


def invented_message(source: str, random: Random, owners: Sequence[str] = ("",)) -> Admin:
    """A message that nobody has sent: about a filter, which is added or removed."""
    interest = Interest(_invented(random), owners[random.randrange(len(owners))])
    return Admin(source, (interest,)) if random.randrange(4) else Admin(source, (), (interest,))


def corrupt_message(message: Any, random: Random) -> Any:
    """A message of the same kind and source, with other content."""
    match message:
        case InTree(source, tree, inner):
            return InTree(source, tree, corrupt_message(inner, random))
        case Packet(source, header, inner):
            return Packet(source, header, corrupt_message(inner, random))
        case Batch(source, messages):
            return Batch(source, tuple(corrupt_message(each, random) for each in messages))
        case Admin(source, added, removed, advertisements):
            # What was added is removed, or the other way round; or nothing is left of it.
            swapped = random.randrange(2)
            return Admin(source, removed, added if swapped else (), advertisements)
        case Forward():
            return structs.replace(message, notification=_other_content(message.notification, random))
        case Passed(source, identity):
            return Passed(source, identity._replace(id=f"{identity.id}~"))
        case _:
            return message


def _other_content(notification: Notification, random: Random) -> Notification:
    """The same notification with the values of its numbers exchanged for others."""
    values = {
        name: random.randrange(1_000) if isinstance(value, int) else value
        for name, value in notification.attributes.items()
    }
    return replace(notification, attributes=Notification.of(values).attributes)
