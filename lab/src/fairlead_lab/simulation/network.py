"""An overlay of brokers in one process, in virtual time: the same seed gives the same run, on any machine.

What happens next is the earliest entry of a heap; of those at the same time, the one that was put in first. A
message takes as long as the link's delay says, and never overtakes one sent before it on the same link. Nothing
else is random, so a run is a function of the brokers, the calls, the delays and the seed.

Observers see every step: metrics, traces and the checks of the specification are observers.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Any, Final

from fairlead.broker.messages import (
    Admin,
    Append,
    Batch,
    Call,
    Command,
    Connect,
    Disconnect,
    Effect,
    InTree,
    Message,
    Renew,
    Send,
    Synced,
    Tick,
    Wake,
)
from fairlead.errors import ValueRefused
from fairlead_lab.broker import AnyBroker
from fairlead_lab.simulation.delays import Delay
from fairlead_lab.simulation.faults import NO_FAULTS, Crash, Faults

__all__ = ["Observer", "Simulation"]

_LOG_US: Final = 100
"""How long it takes until what a broker gave to its log is safe."""
_NUMBERS: Final = 48
"""A moment is one integer, which compares fast: the time, then a number that rises."""
_ABOUT_FILTERS: Final = frozenset((Admin, Renew, Connect, Disconnect))
"""What brokers tell each other of filters and links. It is asked of every message, hence no `isinstance`."""


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


class Simulation:
    """Brokers, what is under way between them, and the time."""

    def __init__(
        self,
        brokers: Iterable[AnyBroker],
        *,
        seed: int = 0,
        delay: Delay = Delay(),  # noqa: B008  (frozen)
        faults: Faults = NO_FAULTS,
        remake: Callable[[str], AnyBroker] | None = None,
        observers: Iterable[Observer] = (),
    ) -> None:
        self.brokers: dict[str, AnyBroker] = {broker.name: broker for broker in brokers}
        self.now = 0
        self.observers = list(observers)
        self._delays = delay.drawn(Random(f"delays {seed}"))
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
        """How much of it is about filters or links."""
        self._sent: list[Callable[[int, str, str, Message], None]] = []
        """What is called when a message is sent, while things happen."""
        if faults.crashes and remake is None:
            raise ValueRefused("brokers that crash and come back have to be made again: give `remake`")
        for crash in faults.crashes:
            self._put(crash.at, crash.broker, crash)

    # -- what is to happen ---------------------------------------------------------------------------------

    def at(self, time: int, broker: str, call: Call | Command) -> None:
        """Let a client call, or let a command reach a broker, at a time that has not passed."""
        if time < self.now:
            raise ValueRefused(f"it is {self.now} already: nothing can happen at {time} any more")
        if broker not in self.brokers:
            raise ValueRefused(f"there is no broker {broker!r}")
        self._put(time, broker, call)

    def call(self, broker: str, call: Call | Command) -> None:
        """Let a client call, or let a command reach a broker, now."""
        self.at(self.now, broker, call)

    def _put(
        self,
        time: int,
        broker: str,
        message: Message | Call | Command | Crash,
        source: str | None = None,
    ) -> None:
        self._number += 1
        moment = time << _NUMBERS | self._number
        heappush(self._heap, moment)
        self._ahead[moment] = (broker, message, source)

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
        is_plain = not self._sent and self._faults is None
        delay, arrivals = self._delays, self._arrivals
        latest = inf if until is None else ((until + 1) << _NUMBERS) - 1
        steps = 0
        while heap and steps != steps_max and heap[0] <= latest:
            steps += 1
            moment = heappop(heap)
            self.now = now = moment >> _NUMBERS
            name, message, source = ahead.pop(moment)
            if source is not None:
                if self._in_flight is not None:
                    self._filters_in_flight -= _is_about_filters(message)
                    _take_out(self._in_flight[source, name], message)
            elif type(message) is Crash:
                self._crash(message)
                continue
            if name in down:
                continue
            broker = brokers[name]
            effects: list[Any] = broker.handle(message, now)
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
                elif kind is Append:
                    self._put(now + _LOG_US, name, Synced(effect.offset))
                elif kind is Wake:
                    self._put(effect.at, name, Tick())
            for handled in observed:
                handled(now, broker, message, effects)
        return steps

    @property
    def next_time(self) -> int | None:
        """When the next thing happens; None: never."""
        return self._heap[0] >> _NUMBERS if self._heap else None

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
                    self._in_flight.setdefault((sender, name), deque()).append(message)
                    self._filters_in_flight += _is_about_filters(message)
        return self._in_flight

    def _send(self, source: str, to: str, message: Message) -> None:
        """Send a message; the loop does this itself where links have no faults and nobody looks at them."""
        arrivals = self._arrivals[source]
        arrival, last = self.now + self._delays(), arrivals.get(to, 0)
        copies, overtakes = (1, False) if self._faults is None else self._faulty(self._faults, source, to)
        if not overtakes:
            arrivals[to] = arrival = max(arrival, last)
        for _ in range(copies):
            self._put(arrival, to, message, source)
        if self._in_flight is not None:
            self._in_flight.setdefault((source, to), deque()).extend([message] * copies)
            self._filters_in_flight += copies * _is_about_filters(message)
        for sent in self._sent:
            sent(self.now, source, to, message)

    def _faulty(self, faults: Faults, source: str, to: str) -> tuple[int, bool]:
        """The number of times that a message arrives, and whether it overtakes those before it."""
        copies = faults.copies(self._chance)
        if copies != 1:
            self._tell("loss" if not copies else "duplication", source=source, to=to)
        if faults.separates(source, to, self.now):
            copies = 0
        return copies, faults.reorders(self._chance)

    def _crash(self, crash: Crash) -> None:
        if crash.broker in self._down:
            self._down.discard(crash.broker)
            assert self._remake is not None
            self.brokers[crash.broker] = self._remake(crash.broker)
            self._tell("recovery", broker=crash.broker)
            return
        self._down.add(crash.broker)
        self._tell("crash", broker=crash.broker)
        if crash.back is not None:
            self._put(crash.back, crash.broker, crash)

    def _tell(self, change: str, **about: object) -> None:
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
    if kind is InTree:
        return _is_about_filters(message.message)  # type: ignore[union-attr]
    return kind in _ABOUT_FILTERS
