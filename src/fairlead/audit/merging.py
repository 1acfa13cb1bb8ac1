"""The traces of several brokers as one: an order of all events in which nothing comes before what it follows.

    of each broker          the runs by their numbers, each in its own order
    a publication           is before its deliveries
    a barrier               is at every broker before it is acknowledged

So a subscription becomes ready behind everything that a broker had logged before it knew of the subscription.
Where these leave an order open, any is right: a specification that holds of one holds of what happened.

What a broker knows from its log when its first run begins comes first of all: it is owed to nobody, and a
delivery of it is no invention. A publication that is traced again, because another run read it in the log,
counts once. A delivery that repeats one from before a fault `again` of its component is the same delivery,
handed out to a client that is back. Subscriptions that a new run has again go on.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from fairlead.audit.trace import (
    Ended,
    Event,
    Faulted,
    Language,
    Notified,
    Published,
    Ready,
    Subscribed,
    TopologyChanged,
    Unsubscribed,
)
from fairlead.errors import TraceRefused
from fairlead.model.order import Identity

__all__ = ["ACKNOWLEDGED", "AGAIN", "BARRIER", "BEGUN", "BROKER", "is_of_a_broker", "merged"]

BROKER: Final = "broker"
"""The change that begins the run of a broker: its name, the run's number, and the sample."""
BEGUN: Final = "begun"
"""The change behind what was in the log when the run began."""
BARRIER: Final = "barrier"
"""The change that a barrier is at this broker."""
ACKNOWLEDGED: Final = "acknowledged"
"""The change that a barrier which began here has been passed everywhere."""
AGAIN: Final = "again"
"""The fault after which a component may be handed again what it has not accepted."""


def is_of_a_broker(events: Sequence[Event]) -> bool:
    """Whether a trace is one of several: it begins with the name of its broker."""
    heads = [each for each in events[:2] if not isinstance(each, Language)]
    return bool(heads) and isinstance(heads[0], TopologyChanged) and heads[0].change == BROKER


def merged(traces: Iterable[Sequence[Event]], *, at_rest: bool = False) -> Iterator[Event]:
    """The events of the runs of all brokers in one order; `at_rest`: all required deliveries have been made.

    TraceRefused: they are not all of one network, with one language and one sample, or contradict one another.
    """
    brokers, language = _by_broker(traces)
    if language is not None:
        yield language
    yield from _Merge(brokers).events()
    if at_rest:
        yield Ended()


def _by_broker(traces: Iterable[Sequence[Event]]) -> tuple[dict[str, list[Event]], Language | None]:
    runs: dict[tuple[str, int], Sequence[Event]] = {}
    languages, samples = list[Language | None](), set[Any]()
    for events in traces:
        if not is_of_a_broker(events):
            raise TraceRefused("one of several traces does not begin with the name of its broker")
        begins = 1 if isinstance(events[0], Language) else 0
        languages.append(events[0] if isinstance(events[0], Language) else None)
        head = events[begins]
        assert isinstance(head, TopologyChanged)
        name, run = str(head.about.get("broker")), int(head.about.get("run", 0))
        samples.add(head.about.get("sample"))
        if (name, run) in runs:
            raise TraceRefused(f"there are two traces of the run {run} of {name!r}")
        runs[name, run] = events[begins:]
    if len(samples) > 1 or any(each != languages[0] for each in languages):
        raise TraceRefused("the traces are of different samples, or in different languages")
    brokers: dict[str, list[Event]] = {}
    for (name, _), events in sorted(runs.items(), key=lambda each: each[0]):
        brokers.setdefault(name, []).extend(events)
    return brokers, languages[0] if languages else None


class _Merge:
    """The events that are left of each broker, and what has been given."""

    def __init__(self, brokers: dict[str, list[Event]]) -> None:
        first = {name: _history(events) for name, events in brokers.items()}
        self._history = [each for name, events in brokers.items() for each in events[: first[name]]]
        self._left = {name: deque(events[first[name] :]) for name, events in brokers.items()}
        everything = [each for events in brokers.values() for each in events]
        self._awaited = {each.identity for each in everything if isinstance(each, Published)}
        self._barriers = Counter(_barrier(each) for each in everything if _is(each, BARRIER))
        self._active: set[tuple[str, str]] = set()
        self._ready: set[tuple[str, str]] = set()
        self._delivered: dict[str, dict[Identity, int]] = {}
        """By component: the number of faults `again` before its first delivery of each."""
        self._again: Counter[str] = Counter()

    def events(self) -> Iterator[Event]:
        """All, each behind what it follows."""
        for event in self._history:
            yield from self._given(event)
        while any(self._left.values()):
            moved = False
            for events in self._left.values():
                # Publications come last, so that as many of them as can be are owed to as many as can be.
                while events and not isinstance(events[0], Published) and self._may_come(events[0]):
                    moved = True
                    yield from self._given(events.popleft())
            if not moved:
                published = [each for each in self._left.values() if each and isinstance(each[0], Published)]
                if not published:
                    raise TraceRefused("the traces contradict one another: each waits for another")
                for events in published:
                    yield from self._given(events.popleft())

    def _lost(self, broker: str) -> Iterator[Event]:
        """A broker begins a run: what its clients had, and is not durable, has ended with the one before."""
        for component, id in sorted(self._active):
            if component.startswith(broker) and not _is_durable(component.removeprefix(broker)):
                yield from self._given(Unsubscribed(component, id))

    def _may_come(self, event: Event) -> bool:
        if isinstance(event, Notified):
            return event.identity not in self._awaited
        return not _is(event, ACKNOWLEDGED) or not self._barriers[_barrier(event)]

    def _given(self, event: Event) -> Iterator[Event]:
        if isinstance(event, Published):
            if event.identity in self._awaited:
                self._awaited.discard(event.identity)
                yield event
        elif isinstance(event, Notified):
            faults = self._again[event.component]
            before = self._delivered.setdefault(event.component, {}).setdefault(event.identity, faults)
            if before == faults:
                yield event
            self._delivered[event.component][event.identity] = faults
        elif isinstance(event, Subscribed):
            if (event.component, event.id) not in self._active:
                self._active.add((event.component, event.id))
                yield event
        elif isinstance(event, Unsubscribed):
            key = event.component, event.id
            self._active.discard(key)
            self._ready.discard(key)
            yield event
        elif isinstance(event, Ready):
            if (event.component, event.id) not in self._ready:
                self._ready.add((event.component, event.id))
                yield event
        elif isinstance(event, Faulted) and event.change == AGAIN:
            self._again[str(event.about.get("component"))] += 1
        elif isinstance(event, TopologyChanged) and event.change == BROKER:
            yield from self._lost(f"{event.about['broker']}/")
        elif _is(event, BARRIER):
            self._barriers[_barrier(event)] -= 1
        elif not isinstance(event, TopologyChanged | Language | Ended):
            yield event


def _is_durable(client: str) -> bool:
    """Whether a broker calls a durable subscriber so; one that has but a position is named after its client."""
    return client.startswith("d:") and not client.startswith("d:c:")


def _history(events: Sequence[Event]) -> int:
    """The number of events with which a broker's first run begins: what was in its log."""
    return next((at + 1 for at, each in enumerate(events) if _is(each, BEGUN)), 0)


def _is(event: Event, change: str) -> bool:
    return isinstance(event, TopologyChanged) and event.change == change


def _barrier(event: Event) -> tuple[str, int]:
    assert isinstance(event, TopologyChanged)
    origin, number = event.about["barrier"]
    return str(origin), int(number)
