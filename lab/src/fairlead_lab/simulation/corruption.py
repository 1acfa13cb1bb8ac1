"""Damage to the state of a broker, decided by the seed (book 8.2: arbitrary transient faults).

    the same seed does the same damage
    settings, neighbours and code are never damaged; of the rest, only the part that is named
    a share of 1 damages everything there is of that part

| part       | damage |
| ---------- | ------ |
| `entries`  | routing entries vanish, change their destination or take the filter of another entry |
| `mergers`  | the record of what a merger was made of is lost, or names other constituents |
| `flags`    | links count as not yet answered; neighbours count as brokers below, and are told nothing |
| `clocks`   | the clocks that name links and stamp publications are set to other times |
| `clients`  | subscriptions of local clients vanish, or get the filter of another one |
| `indexes`  | entries are missing from the index by filter, or are found under another one |
| `messages` | messages in flight to the broker carry other filters, other values, or nothing |

A broker whose state is damaged may be unable to take a step. The message is lost then, and the run goes on: that a
broker recovers from any state is the business of a routing algorithm that stabilises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType
from typing import Annotated, Any, Final

from msgspec import structs

from fairlead.broker import Broker
from fairlead.broker.messages import Admin, Batch, Forward, InTree, Passed
from fairlead.configuration import Key, one_of, quoted
from fairlead.errors import ValueRefused
from fairlead.model import Notification
from fairlead.routing import RoutingTable
from fairlead_lab.broker import AnyBroker, Packet, brokers_within
from fairlead_lab.simulation.kinds import MILLION, MS, PPM

__all__ = ["PARTS", "Corruption", "corrupt_broker", "corrupt_message"]

PARTS: Final = ("entries", "mergers", "flags", "clocks", "clients", "indexes", "messages")
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
        Key("the part", one_of("entries", "mergers", "flags", "clocks", "clients", "indexes", "messages")),
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
    return damaged


def _clocks(broker: Broker, corruption: Corruption, random: Random) -> int:
    clocks: list[tuple[Any, str]] = [(broker._names, "_latest")]
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


_DAMAGES: Final[Mapping[str, Callable[[Broker, Corruption, Random], int]]] = MappingProxyType(
    {
        "entries": _entries,
        "mergers": _mergers,
        "flags": _flags,
        "clocks": _clocks,
        "clients": _clients,
        "indexes": _indexes,
    }
)
# -- messages ----------------------------------------------------------------------------------------------


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
