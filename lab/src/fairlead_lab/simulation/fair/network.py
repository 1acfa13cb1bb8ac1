"""Fair correlation in virtual time: the processes of `broker.fair`, with delays, crashes and the time that work
takes.

The same seed is the same run. Channels are reliable and keep their order: what was sent arrives, even if its
sender crashes afterwards, unless its receiver has crashed (FAIDECS 3). A process handles one message after the
other; each takes a time to receive and a time for every message that is sent for it, and what arrives meanwhile
waits. So whoever has most to do is the bottleneck, as it would be in a network of machines.

A crash is for good. The membership layer notices it after a while and tells all processes at the same time.

    simulation = FairSimulation(Directory(nodes), ["ada", "bob"], seed=7)
    simulation.at(0, "ada", Subscribe(parse("A.x < B.x")))
    record = simulation.run(until=1_000_000)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush
from random import Random
from typing import Annotated, Final, TypeAlias, get_args

from fairlead.audit.fair.run import (
    Crashed,
    Delivered,
    Established,
    FairRun,
    Step,
    Subscribed,
    Unsubscribed,
)
from fairlead.audit.fair.run import Multicast as Multicasted
from fairlead.configuration import Key, count
from fairlead.correlation.fair import Choice, Conjunction, Matcher, Snapshot, Subscription
from fairlead.errors import ValueRefused
from fairlead.model import Notification
from fairlead_lab.broker.fair import INTERVAL_US, Client, Directory, Node, Role
from fairlead_lab.broker.fair.client import Matching
from fairlead_lab.broker.fair.messages import (
    Agreed,
    Call,
    Deliver,
    Down,
    Effect,
    Fixed,
    Item,
    Message,
    Multicast,
    Order,
    Ordered,
    Received,
    Refuse,
    Send,
    Settled,
    Started,
    Subscribe,
    Tick,
    Wake,
)
from fairlead_lab.broker.fair.replica import PULSE
from fairlead_lab.simulation.delays import Delay

__all__ = ["FREE", "Costs", "FairRecord", "FairSimulation", "OrderedEvent"]

DETECTION_US: Final = 50_000


@dataclass(frozen=True, slots=True)
class Costs:
    """The time that a process takes to handle a message, and to send one, in microseconds."""

    receive_us: Annotated[int, Key("how long a process takes to handle a message", count(0, 10**6))] = 0
    send_us: Annotated[int, Key("how long it takes to send one", count(0, 10**6))] = 0


FREE: Final = Costs()


@dataclass(frozen=True, slots=True)
class OrderedEvent:
    """An event in the established order of a role."""

    position: int
    stamp: int
    event: Notification


@dataclass(frozen=True, slots=True)
class FairRecord:
    """The events of a run, and the orders that were established: who replays these gets the same relations."""

    run: FairRun
    orders: Mapping[Role, tuple[OrderedEvent, ...]]
    starts: Mapping[str, tuple[Started, ...]]
    """The beginnings of each client's conjunctions, each with its place in which order."""
    choice: Choice

    def delivered(self, client: str) -> list[tuple[Conjunction, tuple[Notification, ...]]]:
        """The relations that a client has delivered, in order."""
        return [
            (step.conjunction, step.relation)
            for step in self.run.steps
            if isinstance(step, Delivered) and step.process == client
        ]

    def replayed(self, client: str) -> list[tuple[Conjunction, tuple[Notification, ...]]]:
        """The relations to deliver: the orders of its roles, each fed to a matcher, put together by their
        times.
        """
        completed = []
        for start in self.starts.get(client, ()):
            matcher = Matcher(Subscription.of([start.conjunction]), self.choice)
            for placed in self.orders.get(start.role, ()):
                if placed.position > start.origin:
                    for relation in matcher.feed(placed.event):
                        if placed.position > start.at:
                            order = (placed.stamp, start.role, str(start.conjunction))
                            completed.append((order, (start.conjunction, relation.events)))
        return [each for _, each in sorted(completed, key=lambda found: found[0])]


_Process: TypeAlias = Node | Client
_LOCAL: Final = (Down, Tick, *get_args(Call))
"""The messages that come from no other process, and take no time to receive."""


class _Mark(Enum):
    """An event at a process without a message."""

    FREE = "it has done what it was busy with"
    CRASH = "it stops"
    NOTICE = "the membership layer has noticed"


class FairSimulation:
    """Clients and nodes, what is under way between them, and the time."""

    def __init__(
        self,
        directory: Directory,
        clients: Iterable[str],
        *,
        seed: int = 0,
        delay: Delay = Delay(),  # noqa: B008  (frozen)
        costs: Costs = FREE,
        choice: Choice = Choice.FIRST_RECEIVED,
        detection_us: int = DETECTION_US,
        interval_us: int = INTERVAL_US,
        matching: Callable[[Snapshot], Matching] = Matcher.restore,
    ) -> None:
        self.directory = directory
        self.now = 0
        self.choice = choice
        self._interval_us = interval_us
        self.processes: dict[str, _Process] = {
            name: Client(name, directory, choice, interval_us=interval_us, matching=matching)
            for name in clients
        }
        """The clients, and the nodes that somebody has spoken to."""
        if doubled := sorted(set(self.processes) & set(directory.nodes)):
            raise ValueRefused(f"{doubled[0]} is the name of a client and of a node")
        self._delays = delay.drawn(Random(f"delays {seed}"))
        self._costs = costs
        self._detection_us = detection_us
        self._heap: list[tuple[int, int, str, Message | _Mark, bool]] = []
        self._number = 0
        self._arrival: dict[tuple[str, str], int] = {}
        self._busy: dict[str, deque[Message]] = {}
        """The busy processes, with the messages that wait there."""
        self._crashed: dict[str, None] = {}
        self._noticed: list[str] = []
        self._work = 0
        self.steps: list[Step] = []
        """The steps so far, as they were noticed."""
        self._orders: dict[Role, dict[int, OrderedEvent]] = {}
        self._starts: dict[str, dict[Conjunction, Started]] = {}

    # -- what is to happen ---------------------------------------------------------------------------------

    def at(self, time: int, client: str, call: Call) -> None:
        """Let the application at a client call, at a time that has not passed."""
        if client not in self.processes:
            raise ValueRefused(f"there is no client {client!r}")
        self._put(time, client, call)

    def crash(self, time: int, process: str) -> None:
        """Let a client or a node stop for good at a time."""
        if process not in self.processes and process not in self.directory.nodes:
            raise ValueRefused(f"there is no process {process!r}")
        self._put(time, process, _Mark.CRASH)

    def _put(self, time: int, process: str, what: Message | _Mark) -> None:
        if time < self.now:
            raise ValueRefused(f"it is {self.now} already: nothing can happen at {time} any more")
        self._number += 1
        is_work = _is_work(what)
        self._work += is_work
        heappush(self._heap, (time, self._number, process, what, is_work))

    # -- running -------------------------------------------------------------------------------------------

    def run(self, until: int) -> FairRecord:
        """Let everything happen until nothing more is to come, or up to a time; what has happened so far."""
        self.come_to_rest(until)
        return self.record()

    def come_to_rest(self, until: int) -> bool:
        """Let everything happen until nothing more is to come, or up to a time; whether it has come to rest."""
        while self._heap and self._heap[0][0] <= until and not self.is_at_rest:
            self._step()
        return self.is_at_rest

    def advance(self, until: int) -> None:
        """Let the time pass, and all that happens then."""
        while self._heap and self._heap[0][0] <= until:
            self._step()
        self.now = max(self.now, until)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is under way or to be done, but for what goes on for ever: time, acknowledgements."""
        return not self._work and not any(
            process.is_waiting for name, process in self.processes.items() if name not in self._crashed
        )

    def record(self) -> FairRecord:
        """The record of the run so far."""
        steps = sorted(self.steps, key=lambda step: step.time)
        orders = {
            role: tuple(placed for _, placed in sorted(order.items())) for role, order in self._orders.items()
        }
        starts = {client: tuple(found.values()) for client, found in self._starts.items()}
        return FairRecord(FairRun(tuple(steps), self.is_at_rest), orders, starts, self.choice)

    def _step(self) -> None:
        self.now, _, name, what, is_work = heappop(self._heap)
        if isinstance(what, _Mark):
            self._work -= is_work
            self._marked(name, what)
        elif name in self._crashed:
            self._work -= is_work
        elif name in self._busy:
            self._busy[name].append(what)
        else:
            self._serve(name, what)

    def _marked(self, name: str, what: _Mark) -> None:
        match what:
            case _Mark.FREE:
                waiting = self._busy.pop(name, None)
                while waiting and name not in self._busy:
                    self._serve(name, waiting.popleft())
                if waiting:
                    self._busy[name] = waiting
            case _Mark.CRASH:
                if name not in self._crashed:
                    self._crashed[name] = None
                    self._work -= sum(map(_is_work, self._busy.pop(name, ())))
                    self.steps.append(Crashed(name, self.now))
                    self._put(self.now + self._detection_us, name, _Mark.NOTICE)
            case _Mark.NOTICE:
                self._noticed.append(name)
                for process in self.processes:
                    if process not in self._crashed:
                        self._put(self.now, process, Down(name))

    def _process(self, name: str) -> _Process:
        if name not in self.processes:
            node = self.processes[name] = Node(name, self.directory, interval_us=self._interval_us)
            for crashed in self._noticed:
                node.handle(Down(crashed), self.now)
        return self.processes[name]

    def _serve(self, name: str, message: Message) -> None:
        """Let a process handle a message: what it sends leaves one after the other."""
        self._work -= _is_work(message)
        effects = self._process(name).handle(message, self.now)
        clock = self.now + (0 if isinstance(message, _LOCAL) else self._costs.receive_us)
        self._note(name, message, effects, clock)
        for effect in effects:
            match effect:
                case Send(to=to, message=sent):
                    clock += self._costs.send_us
                    link = (name, to)
                    arrival = max(clock + self._delays(), self._arrival.get(link, 0))
                    self._arrival[link] = arrival
                    self._put(arrival, to, sent)
                case Wake(at=at):
                    self._put(at, name, Tick())
        if clock > self.now:
            self._busy[name] = deque()
            self._put(clock, name, _Mark.FREE)

    def _note(self, name: str, message: Message, effects: list[Effect], done: int) -> None:
        """Keep what belongs to the record."""
        if isinstance(message, Call) and not any(isinstance(each, Refuse) for each in effects):
            self.steps.append(_called(name, message, self.now))
        if any(isinstance(each, Started) for each in effects):
            client = self.processes[name]
            if isinstance(client, Client) and client.is_established:
                self.steps.append(Established(name, done))
        for effect in effects:
            match effect:
                case Deliver(relation=relation):
                    self.steps.append(Delivered(name, relation.conjunction, relation.events, done))
                case Ordered(role=role, position=position):
                    placed = OrderedEvent(position, effect.stamp, effect.event)
                    known = self._orders.setdefault(role, {}).setdefault(position, placed)
                    assert known == placed, f"two replicas of {role} differ at {position}"
                case Started(conjunction=conjunction):
                    self._starts.setdefault(name, {})[conjunction] = effect


_ENDLESS: Final = (Tick, Settled, Received, Agreed, Fixed)


def _is_work(what: Message | _Mark) -> bool:
    """Whether a run is not over before this is done."""
    if isinstance(what, Item):
        return bool(what.contents)
    if isinstance(what, Order):
        return what.slot.key[0] != PULSE
    return what is not _Mark.FREE and not isinstance(what, _ENDLESS)


def _called(name: str, call: Call, now: int) -> Step:
    match call:
        case Multicast(event=event):
            return Multicasted(name, event, now)
        case Subscribe(subscription=subscription):
            return Subscribed(name, subscription, now)
        case _:
            return Unsubscribed(name, now)
