"""A run of fair correlation, indexed: who multicast, subscribed and delivered what, from where to where.

What a step is called is its place, its number in the run. Equal conjunctions are one `Shape`, and their equal
components one `Component`, so that both are compared and looked up by what they are and not by what they say.
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

__all__ = ["Chain", "Component", "Delivery", "FairHistory", "Member", "Shape", "Told", "finding", "listed"]

Thing = TypeVar("Thing", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Told:
    """An event that was multicast: where, and by whom."""

    place: int
    process: str
    event: Notification


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """A component of conjunctions."""

    conjunction: Conjunction

    @property
    def is_single(self) -> bool:
        """Whether it asks for one event, so that no other decides whether it matches."""
        return len(self.conjunction.instances) == 1


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A conjunction, and where the events of each component stand in its relations."""

    conjunction: Conjunction
    parts: dict[Component, tuple[int, ...]]

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its events, each once."""
        return tuple(type for type, _ in self.conjunction.counts)

    def places_of(self, part: Conjunction) -> tuple[int, ...]:
        """Where the events of a relation of a part stand in a relation of the whole."""
        return tuple(self.conjunction.instances.index(instance) for instance in part.instances)

    def __str__(self) -> str:
        return str(self.conjunction)


@dataclass(slots=True)
class Member:
    """A process that subscribed: where it asked, where it was established, and where it left or crashed."""

    process: str
    subscription: Subscription
    shapes: tuple[Shape, ...]
    asked: int
    begun: int
    over: int | None = None

    @property
    def stays(self) -> bool:
        """Whether it is owed something at last: it has neither crashed nor unsubscribed."""
        return self.over is None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A relation that was delivered."""

    place: int
    process: str
    shape: Shape
    relation: tuple[Notification, ...]
    identities: tuple[Identity, ...]

    @property
    def fits(self) -> bool:
        """Whether it has as many events as the conjunction asks for; what they are is admission's matter."""
        return len(self.relation) == len(self.shape.conjunction.instances)

    def __str__(self) -> str:
        return listed(self.identities)


@dataclass(frozen=True, slots=True)
class Chain(Generic[Thing]):
    """Things in the order in which a process delivered them, each where it was first delivered."""

    process: str
    shape: Shape | None
    """The conjunction that they were delivered for, where it is one."""
    places: dict[Thing, int]

    def __str__(self) -> str:
        return self.process if self.shape is None else f"{self.process} for {self.shape}"


class FairHistory:
    """All that a run tells, read once; TraceRefused where no run can be like that."""

    def __init__(self, run: FairRun) -> None:
        self.finished = run.finished
        self.told: dict[Identity, Told] = {}
        self.by_type: dict[str, list[Identity]] = {}
        """What was multicast of each type, in the order of the places."""
        self.members: dict[str, Member] = {}
        self.crashed: set[str] = set()
        self.deliveries: list[Delivery] = []
        self.first_delivered: dict[Identity, int] = {}
        """Where each event was first delivered, whoever did."""
        self._shapes: dict[Conjunction, Shape] = {}
        self._components: dict[Conjunction, Component] = {}
        self._met: dict[int, Shape] = {}
        for place, step in enumerate(run.steps):
            try:
                self._take(place, step)
            except ValueRefused as error:
                raise TraceRefused(f"step {place}: {error}") from None

    def is_certain(self, identity: Identity) -> bool:
        """Whether an event has or gets its place in the order: its process is correct, or somebody had it."""
        return self.told[identity].process not in self.crashed or identity in self.first_delivered

    @cached_property
    def rows(self) -> dict[tuple[str, Shape], list[Delivery]]:
        """What each process delivered for each conjunction, in order."""
        rows: dict[tuple[str, Shape], list[Delivery]] = {}
        for each in self.deliveries:
            if each.fits:
                rows.setdefault((each.process, each.shape), []).append(each)
        return rows

    @cached_property
    def chains(self) -> list[Chain[Identity]]:
        """The events of one type that a process delivered for one conjunction.

        Those of one relation come in the order of its places: the instances of a type are in the order in which
        they were received.
        """
        chains: dict[tuple[str, Shape, object], Chain[Identity]] = {}
        for each in self.deliveries:
            for identity, event in zip(each.identities, each.relation, strict=True):
                key = each.process, each.shape, event.get(TYPE)
                chain = chains.get(key)
                if chain is None:
                    chain = chains[key] = Chain(each.process, each.shape, {})
                chain.places.setdefault(identity, each.place)
        return list(chains.values())

    def _take(self, place: int, step: Step) -> None:
        match step:
            case Delivered(process, conjunction, relation):
                identities = tuple([identity_of(event) for event in relation])
                for identity in identities:
                    self.first_delivered.setdefault(identity, place)
                self.deliveries.append(
                    Delivery(place, process, self._shape(conjunction), relation, identities)
                )
            case Multicast(process, event):
                identity = identity_of(event)
                known = self.told.setdefault(identity, Told(place, process, event))
                if known.place != place:
                    raise TraceRefused(
                        f"step {place}: {named(identity)} was multicast before, by step {known.place}"
                    )
                self.by_type.setdefault(str(event.get(TYPE)), []).append(identity)
            case Subscribed(process, subscription):
                shapes = tuple(self._shape(each) for each in subscription.conjunctions)
                known_as = self.members.setdefault(
                    process, Member(process, subscription, shapes, place, place)
                )
                if known_as.asked != place:
                    raise TraceRefused(
                        f"step {place}: {process!r} has subscribed before, by step {known_as.asked}",
                        hint="a process has one subscription; who asks again is another process",
                    )
            case Established(process):
                self._member(place, process).begun = place
            case Unsubscribed(process):
                self._end(self._member(place, process), place)
            case Crashed(process):
                self.crashed.add(process)
                if process in self.members:
                    self._end(self.members[process], place)

    def _member(self, place: int, process: str) -> Member:
        if process not in self.members:
            raise TraceRefused(f"step {place}: {process!r} has not subscribed")
        return self.members[process]

    def _end(self, member: Member, place: int) -> None:
        if member.over is None:
            member.over = place

    def _shape(self, conjunction: Conjunction) -> Shape:
        """The one shape of equal conjunctions. Objects that were met are known by address: the run keeps them."""
        shape = self._met.get(id(conjunction))
        if shape is None:
            shape = self._shapes.get(conjunction)
            if shape is None:
                shape = self._shapes[conjunction] = Shape(conjunction, {})
                for each in conjunction.components:
                    component = self._components.setdefault(each, Component(each))
                    shape.parts[component] = shape.places_of(each)
            self._met[id(conjunction)] = shape
        return shape


def listed(identities: Iterable[Identity]) -> str:
    """How a relation is called in a report."""
    return f"[{', '.join(map(named, identities))}]"


def finding(rule: str, violations: Iterable[Violation], open: int = 0) -> Finding:
    """What is found about one property, violations in the order of the steps that prove them."""
    return Finding("fair", rule, tuple(sorted(violations, key=lambda each: each.places)), open)
