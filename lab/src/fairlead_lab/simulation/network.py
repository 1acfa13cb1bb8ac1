"""An overlay of brokers in one process, in virtual time: the same seed gives the same run, on any machine.

What happens next is the earliest entry of a heap; of those at the same time, the one that was put in first. A
message takes as long as the link's delay says, and never overtakes one sent before it on the same link. Nothing
else is random, so a run is a function of the brokers, the calls, the delays and the seed.

With keyed delays a run does not even depend on the order of sending: a delay and a fault are functions of the
link and of what is sent, and of several messages that reach a broker at one time, calls come first, then the
messages of each neighbour, by the order of the brokers. So a part of an overlay runs as it does in the whole,
given what enters it.

With a capacity, brokers and links take their time, and messages wait for them (`simulation.capacity`).

Observers see every step: metrics, traces and the checks of the specification are observers.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Any, Final

from msgspec import Struct

from fairlead.broker import Broker
from fairlead.broker.messages import (
    Admin,
    Append,
    Batch,
    Call,
    Climb,
    Command,
    Connect,
    Disconnect,
    Effect,
    Forward,
    InTree,
    Link,
    Message,
    Notice,
    Renew,
    Send,
    Synced,
    Tick,
    Unlink,
    Wake,
)
from fairlead.errors import ValueRefused
from fairlead.model.order import identity_of
from fairlead_lab.broker import AnyBroker, Packet, SendToGroup, brokers_within
from fairlead_lab.broker.ring import Depart, Enter, RingCommand
from fairlead_lab.routing.chance import seeded
from fairlead_lab.simulation.capacity import NO_CAPACITY, Capacity, Server, Station, carries_notification
from fairlead_lab.simulation.corruption import Corruption, corrupt_broker, corrupt_message, invented_message
from fairlead_lab.simulation.delays import Delay
from fairlead_lab.simulation.faults import NO_FAULTS, Crash, Faults

__all__ = ["Observer", "Simulation"]

_LOG_US: Final = 100
"""The time until a record that a broker gave to its log is safe."""
_NUMBERS: Final = 48
"""A moment is one integer, which compares fast: the time, then a number that rises."""
_KEYED_NUMBERS: Final = 128
"""With keyed delays it is the time, the broker, whether it is a call or a message, whose, and which of these."""
_OWN: Final = frozenset((Tick, Synced))
_FREE: Final = frozenset((Tick, Synced, Link, Unlink, Climb, Enter, Depart))
"""Commands take no time, and wait for nothing."""
_ABOUT_FILTERS: Final = frozenset((Admin, Notice, Renew, Connect, Disconnect))
"""The messages between brokers about filters and links. It is asked of every message, hence no
`isinstance`."""

_ENVELOPES: Final = frozenset((InTree, Packet))
"""Messages around another one."""


class Observer:
    """Sees every step of a run; does nothing by itself."""

    def sent(self, now: int, source: str, to: str, message: Message) -> None:
        """A message has been given to a link."""

    def handled(
        self, now: int, broker: AnyBroker, message: Message | Call | Command, effects: list[Effect]
    ) -> None:
        """A broker has taken a step."""

    def failed(self, now: int, change: str, about: Mapping[str, object]) -> None:
        """Something has gone wrong, as it was asked to."""

    def waits(self, now: int, station: Station, length: int) -> None:
        """So many messages wait for a broker or a link from now on."""


class _Done(Struct, frozen=True):
    """A server is done with its message, unless the broker has crashed since."""

    server: Server[Any]
    station: Station


_EVENTS: Final = frozenset((Crash, Corruption, _Done))
"""Entries of the heap that are no messages."""


class Simulation:
    """Brokers, what is under way between them, and the time."""

    def __init__(
        self,
        brokers: Iterable[AnyBroker],
        *,
        seed: int = 0,
        delay: Delay = Delay(),  # noqa: B008  (frozen)
        faults: Faults = NO_FAULTS,
        capacity: Capacity = NO_CAPACITY,
        keyed: bool = False,
        remake: Callable[[str], AnyBroker] | None = None,
        observers: Iterable[Observer] = (),
    ) -> None:
        self.brokers: dict[str, AnyBroker] = {broker.name: broker for broker in brokers}
        self.now = 0
        self.observers = list(observers)
        self._seed, self._delay, self._keyed = seed, delay, keyed
        self._delays = delay.drawn(Random(f"delays {seed}"))
        self._shift = _KEYED_NUMBERS if keyed else _NUMBERS
        self._ranks = {name: rank for rank, name in enumerate(self.brokers)}
        self._sequences: dict[int, int] = {}
        """With keyed delays, how many entries of a kind there were, to tell them apart."""
        self._sent_on: dict[tuple[str, str], int] = {}
        """And how many messages without a notification a link has carried."""
        self._capacity = capacity
        self._servers: dict[Station, Server[Any]] = {}
        self._damaged: set[str] = set()
        """The brokers whose state was corrupted: an error of theirs is part of the experiment."""
        self._chance = Random(f"faults {seed}")
        self._faults = faults if faults else None
        self._remake = remake
        self._down: set[str] = set()
        self._heap: list[int] = []
        self._ahead: dict[int, tuple[str, Any, str | None]] = {}
        """By moment: a broker, what reaches it, and over a link, who sent it."""
        self._number = 0
        self._arrivals: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """From whom to whom: when the last of what is under way arrives."""
        self._in_flight: dict[tuple[str, str], deque[Message]] | None = None
        """From whom to whom: what is under way. Most runs never ask, so it is kept from the first question on."""
        self._filters_in_flight = 0
        """The number of messages in flight that are about filters or links."""
        self._sent: list[Callable[[int, str, str, Message], None]] = []
        """Functions called when a message is sent, while things happen."""
        self._waits: list[Callable[[int, Station, int], None]] = []
        if faults.crashes and remake is None:
            raise ValueRefused("brokers that crash and come back have to be made again: give `remake`")
        for crash in faults.crashes:
            self._put(crash.at, crash.broker, crash)
        for corruption in faults.corruptions:
            self._put(corruption.at, corruption.broker, corruption)

    # -- what is to happen ---------------------------------------------------------------------------------

    def at(self, time: int, broker: str, call: Call | Command | RingCommand) -> None:
        """Let a client call, or let a command reach a broker, at a time that has not passed."""
        if time < self.now:
            raise ValueRefused(f"it is {self.now} already: nothing can happen at {time} any more")
        if broker not in self.brokers:
            raise ValueRefused(f"there is no broker {broker!r}")
        self._put(time, broker, call)

    def call(self, broker: str, call: Call | Command | RingCommand) -> None:
        """Let a client call, or let a command reach a broker, now."""
        self.at(self.now, broker, call)

    def fail(self, broker: str) -> None:
        """Let a broker crash now, for good."""
        self._put(self.now, broker, Crash(broker, self.now))

    def _put(
        self,
        time: int,
        broker: str,
        message: Message | Call | Command | RingCommand | Crash | Corruption | _Done,
        source: str | None = None,
    ) -> None:
        if self._keyed:
            moment = self._keyed_moment(time, broker, message, source)
        else:
            self._number += 1
            moment = time << _NUMBERS | self._number
        heappush(self._heap, moment)
        self._ahead[moment] = (broker, message, source)

    def _keyed_moment(self, time: int, broker: str, message: object, source: str | None) -> int:
        """A moment that does not depend on what else happens in the overlay."""
        ranks = self._ranks
        kind = 3 if source is not None else 2 if type(message) in _OWN else 1 if type(message) is _Done else 0
        slot = ranks.setdefault(broker, len(ranks)) << 40 | kind << 32
        slot |= 0 if source is None else ranks.setdefault(source, len(ranks))
        number = self._sequences[slot] = self._sequences.get(slot, 0) + 1
        return time << _KEYED_NUMBERS | slot << 48 | number

    # -- running -------------------------------------------------------------------------------------------

    def run(self, until: int | None = None) -> int:
        """Let everything happen, up to a time if one is given; how many steps that took."""
        steps = self._happen(until)
        if until is not None:
            self.now = max(self.now, until)
        return steps

    def step(self) -> None:
        """Let the next thing happen."""
        self._happen(steps_max=1)

    def _happen(self, until: int | None = None, steps_max: int | None = None) -> int:
        """The loop that all time is spent in: hence no `isinstance`, and what it uses has a name of its own."""
        heap, ahead, brokers, down = self._heap, self._ahead, self.brokers, self._down
        observed = [observer.handled for observer in self.observers]
        self._sent = [each.sent for each in self.observers if type(each).sent is not Observer.sent]
        self._waits = [each.waits for each in self.observers if type(each).waits is not Observer.waits]
        is_plain = not (self._sent or self._faults or self._capacity.link_rate or self._keyed)
        service = self._capacity.service_us
        delay, arrivals, shift = self._delays, self._arrivals, self._shift
        latest = inf if until is None else ((until + 1) << shift) - 1
        steps = 0
        while heap and steps != steps_max and heap[0] <= latest:
            steps += 1
            moment = heappop(heap)
            self.now = now = moment >> shift
            name, message, source = ahead.pop(moment)
            if source is None and type(message) in _EVENTS:
                done = self._event(message)
                if done is None:
                    continue
                message, source = done
            elif service and type(message) not in _FREE:
                self._queue(name, message, source)
                continue
            if source is not None and self._in_flight is not None:
                self._arrived(source, name, message)
            if name in down:
                continue
            broker = brokers[name]
            effects: list[Any] = (
                broker.handle(message, now) if not self._damaged else self._handle(broker, message)
            )
            for effect in effects:
                kind = type(effect)
                if kind is Send:
                    if is_plain and self._in_flight is None:
                        to, of = effect.to, arrivals[name]
                        arrival, last = now + delay(), of.get(to, 0)
                        of[to] = arrival = arrival if arrival > last else last
                        self._number = number = self._number + 1
                        moment = arrival << _NUMBERS | number
                        heappush(heap, moment)
                        ahead[moment] = (to, effect.message, name)
                    else:
                        self._send(name, effect.to, effect.message)
                elif kind is SendToGroup:
                    for to in effect.group:
                        self._send(name, to, effect.message)
                elif kind is Append:
                    self._put(now + _LOG_US, name, Synced(effect.offset))
                elif kind is Wake:
                    self._put(effect.at, name, Tick())
            for handled in observed:
                handled(now, broker, message, effects)
        return steps

    def _handle(self, broker: AnyBroker, message: Message | Call | Command) -> list[Effect]:
        """A step of a broker that may have been damaged: if it cannot take it, the message is lost."""
        try:
            return broker.handle(message, self.now)
        except Exception as error:
            if broker.name not in self._damaged:
                raise
            self.report("breakdown", broker=broker.name, error=f"{type(error).__name__}: {error}")
            return []

    def _event(self, event: Crash | Corruption | _Done) -> tuple[Any, str | None] | None:
        """Let happen what is no message; the message and its sender, where a broker is done with one."""
        match event:
            case Crash():
                self._crash(event)
            case Corruption():
                self._corrupt(event)
            case _Done(server, station) if self._servers.get(station) is server:
                done = server.end()
                self._serve(server, station)
                if len(station) == 1:
                    return done  # type: ignore[no-any-return]
                source, to = station
                self._depart(source, to, done[0])
        return None

    @property
    def next_time(self) -> int | None:
        """When the next thing happens; None: never."""
        return self._heap[0] >> self._shift if self._heap else None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing more will happen."""
        return not self._heap

    @property
    def is_settled(self) -> bool:
        """Whether all that brokers have to tell each other of filters and links has been heard."""
        self._watched()
        up = (broker for name, broker in self.brokers.items() if name not in self._down)
        waiting = (message for broker in up for messages in broker.waiting.values() for message in messages)
        return not self._filters_in_flight and not any(map(_is_about_filters, waiting))

    def in_flight(self, source: str, to: str) -> Iterable[Message]:
        """The messages under way from one broker to another, in the order of sending."""
        return self._watched().get((source, to), ())

    def _watched(self) -> dict[tuple[str, str], deque[Message]]:
        if self._in_flight is None:
            self._in_flight = {}
            for name, message, sender in self._ahead.values():
                if sender is not None:
                    self._note_in_flight(sender, name, message)
            for station, server in self._servers.items():
                for message, sender in server:
                    if sender is not None:
                        self._note_in_flight(sender, station[-1], message)
        return self._in_flight

    def _note_in_flight(self, source: str, to: str, message: Message) -> None:
        if self._in_flight is not None:
            self._in_flight.setdefault((source, to), deque()).append(message)
            self._filters_in_flight += _is_about_filters(message)

    def _arrived(self, source: str, to: str, message: Message) -> None:
        """A message is in flight no longer: it is handled, or lost."""
        if self._in_flight is not None:
            self._filters_in_flight -= _is_about_filters(message)
            _take_out(self._in_flight[source, to], message)

    def _send(self, source: str, to: str, message: Message) -> None:
        """Send a message; the loop does it itself where links have neither faults nor limits and nobody looks."""
        self._note_in_flight(source, to, message)
        for sent in self._sent:
            sent(self.now, source, to, message)
        if not self._capacity.link_rate:
            self._depart(source, to, message)
            return
        self._queue_at((source, to), message, source)

    def _depart(self, source: str, to: str, message: Message) -> None:
        """A message sets out on a link."""
        arrivals = self._arrivals[source]
        identity = self._identity_on(source, to, message) if self._keyed else ()
        took = self._delay.of(self._seed, (source, to), *identity) if identity else self._delays()
        arrival, last = self.now + took, arrivals.get(to, 0)
        copies, overtakes = 1, False
        if self._faults is not None:
            chance = seeded("faults", self._seed, source, to, *identity) if identity else self._chance
            copies, overtakes = self._faulty(self._faults, chance, source, to)
        if not overtakes:
            arrivals[to] = arrival = max(arrival, last)
        if not copies:
            self._arrived(source, to, message)
        for number in range(copies):
            self._put(arrival, to, message, source)
            if number:
                self._note_in_flight(source, to, message)

    def _identity_on(self, source: str, to: str, message: Any) -> tuple[int | str, ...]:
        """The identity of the notification that a message carries; of others, their number on the link."""
        inner = message
        while type(inner) in _ENVELOPES:
            inner = inner.message
        if type(inner) is Forward:
            return ("notification", *identity_of(inner.notification))
        number = self._sent_on[source, to] = self._sent_on.get((source, to), 0) + 1
        return ("control", number)

    def _faulty(self, faults: Faults, chance: Random, source: str, to: str) -> tuple[int, bool]:
        """The number of times that a message arrives, and whether it overtakes those before it."""
        copies = faults.copies(chance)
        if copies != 1:
            self.report("loss" if not copies else "duplication", source=source, to=to)
        if faults.separates(source, to, self.now):
            copies = 0
        return copies, faults.reorders(chance)

    # -- waiting -------------------------------------------------------------------------------------------

    def _queue(self, name: str, message: Any, source: str | None) -> None:
        """A message has reached a broker, and waits until it is handled."""
        if name in self._down:
            if source is not None:
                self._arrived(source, name, message)
            return
        self._queue_at((name,), message, source)

    def _queue_at(self, station: Station, message: Any, source: str | None) -> None:
        server = self._servers.get(station)
        if server is None:
            server = self._servers[station] = Server(self._capacity.queue_max)
        if server.put((message, source), carries_notification=carries_notification(message)):
            self._serve(server, station)
            return
        if source is not None:
            self._arrived(source, station[-1], message)
        self.report("overflow", station=list(station))

    def _serve(self, server: Server[Any], station: Station) -> None:
        """Let a server begin with what is next, if it is idle."""
        if server.begin():
            is_broker = len(station) == 1
            took = self._capacity.service_us if is_broker else self._capacity.transmission_us
            self._put(self.now + took, station[0], _Done(server, station))
        for waits in self._waits:
            waits(self.now, station, len(server))

    # -- faults --------------------------------------------------------------------------------------------

    def _corrupt(self, corruption: Corruption) -> None:
        """Damage the state of a broker, or the messages that are in flight to it."""
        name = corruption.broker
        if name in self._down:
            return
        chance = seeded("corruption", self._seed, name, corruption.at, corruption.what)
        if corruption.what == "messages":
            damaged = self._corrupt_messages(corruption, chance)
        elif corruption.what == "insertions":
            damaged = self._insert_messages(corruption, chance)
        else:
            damaged = corrupt_broker(self.brokers[name], corruption, chance)
        self._damaged.add(name)
        self.report("corruption", broker=name, what=corruption.what, damaged=damaged)

    def _corrupt_messages(self, corruption: Corruption, chance: Random) -> int:
        self._in_flight = None  # counted anew when somebody asks
        self._filters_in_flight = 0
        damaged = 0
        for moment in sorted(self._ahead):
            name, message, source = self._ahead[moment]
            if name == corruption.broker and source is not None and corruption.hits(chance):
                self._ahead[moment] = (name, corrupt_message(message, chance), source)
                damaged += 1
        return damaged

    def _insert_messages(self, corruption: Corruption, chance: Random) -> int:
        """Put messages in flight that nobody has sent: each arrives as if it had just been, or some time ago."""
        broker, damaged = self.brokers[corruption.broker], 0
        part = brokers_within(broker)[0] if brokers_within(broker) else None
        owners = sorted({interest.owner for table in broker.tables for interest, _ in table}) or [""]
        for neighbour in sorted(part.links) if part is not None else ():
            for _ in range(1 + chance.randrange(3)):
                if corruption.hits(chance):
                    damaged += 1
                    message: Message = invented_message(neighbour, chance, owners)
                    if not isinstance(broker, Broker):
                        trees = [*getattr(broker, "trees", ())]
                        message = InTree(neighbour, trees[chance.randrange(len(trees))], message)
                    arrival = self.now + chance.randrange(1 + self._delay.least + 2 * self._delay.spread)
                    arrivals = self._arrivals[neighbour]
                    arrivals[corruption.broker] = arrival = max(arrival, arrivals.get(corruption.broker, 0))
                    self._note_in_flight(neighbour, corruption.broker, message)
                    self._put(arrival, corruption.broker, message, neighbour)
        return damaged

    def _crash(self, crash: Crash) -> None:
        if crash.broker in self._down:
            self._down.discard(crash.broker)
            assert self._remake is not None
            self.brokers[crash.broker] = self._remake(crash.broker)
            self._damaged.discard(crash.broker)
            self.report("recovery", broker=crash.broker)
            return
        self._down.add(crash.broker)
        for message, source in self._servers.pop((crash.broker,), ()):
            if source is not None:
                self._arrived(source, crash.broker, message)
        self.report("crash", broker=crash.broker)
        if crash.back is not None:
            self._put(crash.back, crash.broker, crash)

    def report(self, change: str, **about: object) -> None:
        """Let all observers know of a fault, or of what follows from one."""
        for observer in self.observers:
            observer.failed(self.now, change, about)


def _take_out(in_flight: deque[Message], message: Message) -> None:
    if in_flight[0] is message:
        in_flight.popleft()
    else:
        in_flight.remove(message)  # it has overtaken others


def _is_about_filters(message: Message) -> bool:
    kind = type(message)
    if kind is Batch:
        return any(map(_is_about_filters, message.messages))  # type: ignore[union-attr]
    if kind in _ENVELOPES:
        return _is_about_filters(message.message)  # type: ignore[union-attr]
    return kind in _ABOUT_FILTERS
