"""A run of fair correlation, indexed: multicasts, deliveries, and the periods of subscriptions.

The index of a step is its number in the run. Equal conjunctions are one `Shape`, and their equal components one
`Component`, so that both are compared and looked up by identity, not by content.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from fairlead.audit.fair.run import (
    Crashed,
    Delivered,
    Established,
    FairRun,
    Multicast,
    Step,
    Subscribed,
    Unsubscribed,
)
from fairlead.audit.history import named
from fairlead.audit.report import Finding, Violation
from fairlead.correlation.fair import Conjunction, Subscription
from fairlead.correlation.fair.subscriptions import TYPE
from fairlead.errors import TraceRefused, ValueRefused
from fairlead.model import Notification
from fairlead.model.order import Identity, identity_of

__all__ = [
    "Chain",
    "Component",
    "FairHistory",
    "Member",
    "MulticastEvent",
    "RelationDelivery",
    "Shape",
    "finding",
    "listed",
]

Thing = TypeVar("Thing", bound=Hashable)


@dataclass(frozen=True, slots=True)
class MulticastEvent:
    """A multicast event: the index of the step, the process, the event."""

    index: int
    process: str
    event: Notification


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """A component of conjunctions."""

    conjunction: Conjunction

    @property
    def is_single(self) -> bool:
        """Whether it is about one event, so that no other decides whether it matches."""
        return len(self.conjunction.instances) == 1


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A conjunction, and the slots of each component's events in its relations."""

    conjunction: Conjunction
    parts: dict[Component, tuple[int, ...]]

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its events, each once."""
        return tuple(type for type, _ in self.conjunction.counts)

    def slots_of(self, part: Conjunction) -> tuple[int, ...]:
        """The slots of a part's events in a relation of the whole."""
        return tuple(self.conjunction.instances.index(instance) for instance in part.instances)

    def __str__(self) -> str:
        return str(self.conjunction)


@dataclass(slots=True)
class Member:
    """A process that subscribed: the indexes at which it subscribed, was established, and left or crashed."""

    process: str
    subscription: Subscription
    shapes: tuple[Shape, ...]
    subscribed: int
    begun: int
    over: int | None = None

    @property
    def stays(self) -> bool:
        """Whether it must deliver in the end: it has neither crashed nor unsubscribed."""
        return self.over is None


@dataclass(frozen=True, slots=True)
class RelationDelivery:
    """A relation that was delivered."""

    index: int
    process: str
    shape: Shape
    relation: tuple[Notification, ...]
    identities: tuple[Identity, ...]

    @property
    def fits(self) -> bool:
        """Whether it has as many events as the conjunction; admission checks which."""
        return len(self.relation) == len(self.shape.conjunction.instances)

    def __str__(self) -> str:
        return listed(self.identities)


@dataclass(frozen=True, slots=True)
class Chain(Generic[Thing]):
    """Things in the order in which a process delivered them, each where it was first delivered."""

    process: str
    shape: Shape | None
    """The conjunction that they were delivered for, where it is one."""
    indexes: dict[Thing, int]

    def __str__(self) -> str:
        return self.process if self.shape is None else f"{self.process} for {self.shape}"


class FairHistory:
    """The content of a run, read once; TraceRefused for an impossible run."""

    def __init__(self, run: FairRun) -> None:
        self.finished = run.finished
        self.multicasts: dict[Identity, MulticastEvent] = {}
        self.by_type: dict[str, list[Identity]] = {}
        """The events multicast of each type, in the order of the indexes."""
        self.members: dict[str, Member] = {}
        self.crashed: set[str] = set()
        self.deliveries: list[RelationDelivery] = []
        self.first_delivered: dict[Identity, int] = {}
        """The index at which each event was first delivered, by any process."""
        self._shapes: dict[Conjunction, Shape] = {}
        self._components: dict[Conjunction, Component] = {}
        self._shapes_by_id: dict[int, Shape] = {}
        for index, step in enumerate(run.steps):
            try:
                self._take(index, step)
            except ValueRefused as error:
                raise TraceRefused(f"step {index}: {error}") from None

    def is_certain(self, identity: Identity) -> bool:
        """Whether an event is or will be in the established order: its process is correct, or one delivered it."""
        return self.multicasts[identity].process not in self.crashed or identity in self.first_delivered

    @cached_property
    def rows(self) -> dict[tuple[str, Shape], list[RelationDelivery]]:
        """The deliveries of each process for each conjunction, in order."""
        rows: dict[tuple[str, Shape], list[RelationDelivery]] = {}
        for each in self.deliveries:
            if each.fits:
                rows.setdefault((each.process, each.shape), []).append(each)
        return rows

    @cached_property
    def chains(self) -> list[Chain[Identity]]:
        """The events of one type that a process delivered for one conjunction.

        Those of one relation are in the order of its slots: the instances of a type are in the order in which
        they were received.
        """
        chains: dict[tuple[str, Shape, object], Chain[Identity]] = {}
        for each in self.deliveries:
            for identity, event in zip(each.identities, each.relation, strict=True):
                key = each.process, each.shape, event.get(TYPE)
                chain = chains.get(key)
                if chain is None:
                    chain = chains[key] = Chain(each.process, each.shape, {})
                chain.indexes.setdefault(identity, each.index)
        return list(chains.values())

    def _take(self, index: int, step: Step) -> None:
        match step:
            case Delivered(process, conjunction, relation):
                identities = tuple([identity_of(event) for event in relation])
                for identity in identities:
                    self.first_delivered.setdefault(identity, index)
                self.deliveries.append(
                    RelationDelivery(index, process, self._shape(conjunction), relation, identities)
                )
            case Multicast(process, event):
                identity = identity_of(event)
                known = self.multicasts.setdefault(identity, MulticastEvent(index, process, event))
                if known.index != index:
                    raise TraceRefused(
                        f"step {index}: {named(identity)} was multicast before, by step {known.index}"
                    )
                self.by_type.setdefault(str(event.get(TYPE)), []).append(identity)
            case Subscribed(process, subscription):
                shapes = tuple(self._shape(each) for each in subscription.conjunctions)
                known_as = self.members.setdefault(
                    process, Member(process, subscription, shapes, index, index)
                )
                if known_as.subscribed != index:
                    raise TraceRefused(
                        f"step {index}: {process!r} has subscribed before, by step {known_as.subscribed}",
                        hint="a process has one subscription; another subscription is another process",
                    )
            case Established(process):
                self._member(index, process).begun = index
            case Unsubscribed(process):
                self._end(self._member(index, process), index)
            case Crashed(process):
                self.crashed.add(process)
                if process in self.members:
                    self._end(self.members[process], index)

    def _member(self, index: int, process: str) -> Member:
        if process not in self.members:
            raise TraceRefused(f"step {index}: {process!r} has not subscribed")
        return self.members[process]

    def _end(self, member: Member, index: int) -> None:
        if member.over is None:
            member.over = index

    def _shape(self, conjunction: Conjunction) -> Shape:
        """The one shape of equal conjunctions. Objects are cached by address: the run references them."""
        shape = self._shapes_by_id.get(id(conjunction))
        if shape is None:
            shape = self._shapes.get(conjunction)
            if shape is None:
                shape = self._shapes[conjunction] = Shape(conjunction, {})
                for each in conjunction.components:
                    component = self._components.setdefault(each, Component(each))
                    shape.parts[component] = shape.slots_of(each)
            self._shapes_by_id[id(conjunction)] = shape
        return shape


def listed(identities: Iterable[Identity]) -> str:
    """The name of a relation in a report."""
    return f"[{', '.join(map(named, identities))}]"


def finding(rule: str, violations: Iterable[Violation], open: int = 0) -> Finding:
    """The finding for one property, violations in the order of the steps that prove them."""
    return Finding("fair", rule, tuple(sorted(violations, key=lambda each: each.indexes)), open)
