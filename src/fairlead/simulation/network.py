"""An overlay of brokers in one process, in virtual time: the same seed gives the same run, on any machine.

What happens next is the earliest entry of a heap; of those at the same time, the one that was put in first. A
message takes as long as the link's delay says, and never overtakes one sent before it on the same link. Nothing
else is random, so a run is a function of the brokers, the calls, the delays and the seed.

Observers see every step: metrics, traces and the checks of the specification are observers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from itertools import chain
from random import Random
from typing import Final

from fairlead.broker import AnyBroker
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
from fairlead.simulation.delays import Delay
from fairlead.simulation.faults import NO_FAULTS, Crash, Faults

__all__ = ["Observer", "Simulation"]

_LOG_US: Final = 100
"""How long it takes until what a broker gave to its log is safe."""
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


class _Link:
    """What is under way from one broker to another, in the order of sending, and when the last of it arrives."""

    __slots__ = ("arrival", "under_way")

    def __init__(self) -> None:
        self.arrival = 0
        self.under_way: deque[Message] = deque()


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
        self._heap: list[tuple[int, int, str, Message | Call | Command | Crash, _Link | None]] = []
        self._number = 0
        self._links: dict[tuple[str, str], _Link] = {}
        self._untold = 0
        self._untold_by: set[str] = set()
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
        link: _Link | None = None,
    ) -> None:
        self._number += 1
        heappush(self._heap, (time, self._number, broker, message, link))

    # -- running -------------------------------------------------------------------------------------------

    def run(self, until: int | None = None) -> int:
        """Let everything happen, up to a time if one is given; how many steps that took."""
        steps = 0
        while self._heap and (until is None or self._heap[0][0] <= until):
            self.step()
            steps += 1
        if until is not None:
            self.now = max(self.now, until)
        return steps

    def step(self) -> None:
        """Let the next thing happen."""
        self.now, _, name, message, link = heappop(self._heap)
        if link is not None:
            self._arrived(link, message)  # type: ignore[arg-type]
        if isinstance(message, Crash):
            self._crash(message)
            return
        if name in self._down:
            return
        broker = self.brokers[name]
        effects = broker.handle(message, self.now)
        for effect in effects:
            if isinstance(effect, Send):
                self._send(name, effect.to, effect.message)
            elif isinstance(effect, Append):
                self._put(self.now + _LOG_US, name, Synced(effect.number))
            elif isinstance(effect, Wake):
                self._put(effect.at, name, Tick())
        if broker.settings.batch_us:
            self._note_waiting(broker)
        for observer in self.observers:
            observer.handled(self.now, broker, message, effects)

    @property
    def next_time(self) -> int | None:
        """When the next thing happens; None: never."""
        return self._heap[0][0] if self._heap else None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing more will happen."""
        return not self._heap

    @property
    def is_settled(self) -> bool:
        """Whether all that brokers have to tell each other of filters and links has been heard."""
        return not self._untold and not self._untold_by

    def under_way(self, source: str, to: str) -> Iterable[Message]:
        """What is under way from one broker to another, in the order of sending."""
        link = self._links.get((source, to))
        return () if link is None else link.under_way

    def _send(self, source: str, to: str, message: Message) -> None:
        link = self._links.get((source, to))
        if link is None:
            link = self._links[source, to] = _Link()
        arrival = self.now + self._delays()
        copies, overtakes = (1, False) if self._faults is None else self._faulty(self._faults, source, to)
        if not overtakes:
            arrival = link.arrival = max(arrival, link.arrival)
        self._untold += copies * _is_about_filters(message)
        for _ in range(copies):
            link.under_way.append(message)
            self._put(arrival, to, message, link)
        for observer in self.observers:
            observer.sent(self.now, source, to, message)

    def _faulty(self, faults: Faults, source: str, to: str) -> tuple[int, bool]:
        """How often a message arrives, and whether it overtakes those before it."""
        copies = faults.copies(self._chance)
        if copies != 1:
            self._tell("loss" if not copies else "duplication", source=source, to=to)
        if faults.separates(source, to, self.now):
            copies = 0
        return copies, faults.reorders(self._chance)

    def _arrived(self, link: _Link, message: Message) -> None:
        self._untold -= _is_about_filters(message)
        under_way = link.under_way
        if under_way[0] is message:
            under_way.popleft()
        else:
            under_way.remove(message)  # it has overtaken others

    def _note_waiting(self, broker: AnyBroker) -> None:
        if any(map(_is_about_filters, chain.from_iterable(broker.waiting.values()))):
            self._untold_by.add(broker.name)
        else:
            self._untold_by.discard(broker.name)

    def _crash(self, crash: Crash) -> None:
        if crash.broker in self._down:
            self._down.discard(crash.broker)
            assert self._remake is not None
            self.brokers[crash.broker] = self._remake(crash.broker)
            self._tell("recovery", broker=crash.broker)
            return
        self._down.add(crash.broker)
        self._untold_by.discard(crash.broker)
        self._tell("crash", broker=crash.broker)
        if crash.back is not None:
            self._put(crash.back, crash.broker, crash)

    def _tell(self, change: str, **about: object) -> None:
        for observer in self.observers:
            observer.failed(self.now, change, about)


def _is_about_filters(message: Message) -> bool:
    kind = type(message)
    if kind is Batch:
        return any(map(_is_about_filters, message.messages))  # type: ignore[union-attr]
    if kind is InTree:
        return _is_about_filters(message.message)  # type: ignore[union-attr]
    return kind in _ABOUT_FILTERS
