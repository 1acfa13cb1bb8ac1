"""Subscriptions at work: components joined to conjunctions, conjunctions to disjunctions, and many side by side.

    Matcher       one subscription: `feed` gives the relations that a notification completes
    Correlator    many subscriptions: what they have in common is kept and computed once

Law: a correlator gives each subscription what a matcher of its own would give. Two subscriptions share a component
iff it is the same conjunction, with the same choice, and holds the same events; from then on it does the same
for both. So sharing changes nothing, whenever who was added.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from fairlead.correlation.fair.component import Choice, Component
from fairlead.correlation.fair.language import parse
from fairlead.correlation.fair.relations import Events, Relation
from fairlead.correlation.fair.subscriptions import TYPE, UNNAMED, Conjunction, Subscription
from fairlead.correlation.fair.tree import component_of
from fairlead.correlation.kernel import Engine
from fairlead.errors import ValueRefused
from fairlead.filters import EVERYTHING, And, Constraint, Filter
from fairlead.kernels import is_fast
from fairlead.model import Notification
from fairlead.model.encoding import notification_from_json, notification_to_json

if TYPE_CHECKING:
    from fairlead.correlation.fair.bank import Bank, Member

__all__ = ["ComponentState", "ConjunctionState", "Correlator", "Matcher", "Snapshot"]

Id = TypeVar("Id", bound=Hashable)
WORTH: Final = 2_000
"""After so many events were put to components by themselves, some 0.1 s, kernels have paid for themselves."""
NEVER: Final = 1 << 62
CONJUNCTIONS_MAX: Final = 1 << 20
"""More conjunctions than a subscription has."""


@dataclass(frozen=True, slots=True)
class ComponentState:
    """The buffered events of a component, in the order of arrival, and its matches that wait for other
    components."""

    held: Events = ()
    waiting: tuple[Events, ...] = ()


@dataclass(frozen=True, slots=True)
class ConjunctionState:
    """The number of relations that were delivered, and the state of each component, in order."""

    delivered: int
    components: tuple[ComponentState, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a subscription between two notifications: all that what comes next depends on."""

    subscription: Subscription
    choice: Choice
    conjunctions: tuple[ConjunctionState, ...]

    @classmethod
    def initial(cls, subscription: Subscription, choice: Choice = Choice.FIRST_RECEIVED) -> Snapshot:
        """The state before the first notification."""
        return cls(
            subscription,
            choice,
            tuple(
                ConjunctionState(0, (ComponentState(),) * len(conjunction.components))
                for conjunction in subscription.conjunctions
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """The state as JSON, for a subscription that joins; `from_json` reads it."""
        return {
            "subscription": str(self.subscription),
            "choice": self.choice.value,
            "conjunctions": [
                {
                    "delivered": conjunction.delivered,
                    "components": [
                        {
                            "held": _to_json(component.held),
                            "waiting": [_to_json(match) for match in component.waiting],
                        }
                        for component in conjunction.components
                    ],
                }
                for conjunction in self.conjunctions
            ],
        }

    @classmethod
    def from_json(cls, jsonable: Mapping[str, Any]) -> Snapshot:
        """The state of which `to_json` gave this; ValueRefused where it is none."""
        try:
            return cls(
                parse(jsonable["subscription"]),
                Choice(jsonable["choice"]),
                tuple(
                    ConjunctionState(
                        int(conjunction["delivered"]),
                        tuple(
                            ComponentState(
                                _from_json(component["held"]),
                                tuple(_from_json(match) for match in component["waiting"]),
                            )
                            for component in conjunction["components"]
                        ),
                    )
                    for conjunction in jsonable["conjunctions"]
                ),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueRefused(f"not the state of a subscription: {error}") from error


def _to_json(events: Events) -> list[dict[str, Any]]:
    return [notification_to_json(event) for event in events]


def _from_json(jsonable: Iterable[Any]) -> Events:
    return tuple(notification_from_json(each) for each in jsonable)


class _ByType:
    """The engine for a few: the filters of a notification's type are asked, one by one."""

    def __init__(self) -> None:
        self._filters: dict[str, dict[int, Filter]] = {}
        self._types: dict[int, str] = {}

    def add(self, id: int, filter: Filter) -> None:
        first, *rest = filter.parts if isinstance(filter, And) else (filter,)
        assert isinstance(first, Constraint), "the filter of a slot begins with its type"
        self._types[id] = first.operand
        self._filters.setdefault(first.operand, {})[id] = And.of(rest)

    def remove(self, id: int) -> None:
        type = self._types.pop(id)
        del self._filters[type][id]
        if not self._filters[type]:
            del self._filters[type]

    def match(self, notification: Notification) -> list[int]:
        type = notification.get(TYPE)
        filters = self._filters.get(type, {}) if isinstance(type, str) else {}
        return [id for id, filter in filters.items() if filter is EVERYTHING or filter.matches(notification)]

    def match_batch(self, notifications: Iterable[Notification]) -> list[list[int]]:
        return [self.match(each) for each in notifications]


_relation: Final = tuple.__new__
"""A relation of all its fields, in a third of the time that `Relation(…)` takes: there are many."""
_Completed: TypeAlias = dict[int, tuple[Any, Relation]]
"""The completed relations with their recipients, by the rank of the subscription: an event completes one for
each."""


_Readers: TypeAlias = "Sequence[tuple[_Conjunction, int]]"


class _Component:
    """A component that conjunctions read the matches of, by itself or in a bank."""

    def __init__(self, network: Component | Member) -> None:
        self.network = network
        self.readers: list[tuple[_Conjunction, int]] = []  # the same list for good: a bank holds it, too
        """The conjunctions, and which of their components it is."""


class _Conjunction:
    """A conjunction that subscriptions deliver the relations of: the n-th matches of its components, joined."""

    def __init__(self, conjunction: Conjunction, inputs: list[_Component], state: ConjunctionState) -> None:
        self.conjunction = conjunction
        self.inputs = inputs
        self.delivered = state.delivered
        self.waiting = [deque(each.waiting) for each in state.components]
        self._is_alone = len(self.waiting) == 1
        slots = [instance for each in conjunction.components for instance in each.instances]
        self._arranged = [slots.index(instance) for instance in conjunction.instances]
        self.subscribers: dict[int, tuple[Any, str]] = {}
        """The ids and names of subscriptions by rank: by their number, and which of their conjunctions it is."""

    @property
    def state(self) -> ConjunctionState:
        return ConjunctionState(
            self.delivered,
            tuple(
                ComponentState(each.network.held, tuple(waiting))
                for each, waiting in zip(self.inputs, self.waiting, strict=True)
            ),
        )

    def put(self, position: int, match: Events) -> Relation | None:
        """Take in the next match of a component; the relation that it completes, if it does."""
        if self._is_alone:
            self.delivered = number = self.delivered + 1
            return _relation(Relation, (self.conjunction, number, match, UNNAMED))
        self.waiting[position].append(match)
        if not all(self.waiting):
            return None
        events = [event for waiting in self.waiting for event in waiting.popleft()]
        self.delivered += 1
        arranged = tuple([events[slot] for slot in self._arranged])
        return Relation(self.conjunction, self.delivered, arranged)


@dataclass(frozen=True, slots=True)
class _Subscribed(Generic[Id]):
    id: Id
    number: int
    subscription: Subscription
    choice: Choice
    conjunctions: tuple[_Conjunction, ...]


class Correlator(Generic[Id]):
    """Many fair subscriptions under distinct ids, fed with one established order of notifications.

    Deliveries come in the order in which the subscriptions were added and, for each, in the order of its
    conjunctions. `engine` evaluates unary predicates; without one, those on a notification's type are asked. Once
    more than `worth` events have been put to components, those of the common class go into a `Bank`.
    """

    def __init__(self, engine: Engine | None = None, *, worth: int | None = None) -> None:
        worth = WORTH if worth is None else worth
        self._engine: Engine = _ByType() if engine is None else engine
        self._subscribed: dict[Id, _Subscribed[Id]] = {}
        self._conjunctions: dict[tuple[Conjunction, Choice], list[_Conjunction]] = {}
        self._components: dict[tuple[Conjunction, Choice], list[_Component]] = {}
        self._filters: dict[Filter, int] = {}
        self._users: dict[int, int] = {}
        """The number of slots of components that ask for each filter."""
        self._slots: dict[int, dict[tuple[_Component, int], None]] = {}
        """Those of components that are not in the bank."""
        self._bank: Bank | None = None
        self._members: dict[Member, _Component] = {}
        self._worth, self._taken = worth, 0
        self._next = self._filters_seen = 0

    def __len__(self) -> int:
        return len(self._subscribed)

    def add(
        self,
        id: Id,
        subscription: Subscription,
        choice: Choice = Choice.FIRST_RECEIVED,
        *,
        state: Snapshot | None = None,
    ) -> None:
        """Take in a subscription, from now on or from a state; an id that is taken is a ValueError."""
        if id in self._subscribed:
            raise ValueError(f"the id {id!r} is taken")
        state = state or Snapshot.initial(subscription, choice)
        _check(state, subscription, choice)
        conjunctions = tuple(
            self._conjunction(conjunction, choice, each)
            for conjunction, each in zip(subscription.conjunctions, state.conjunctions, strict=True)
        )
        self._next += 1
        for at, node in enumerate(conjunctions):
            node.subscribers[self._next * CONJUNCTIONS_MAX + at] = id, subscription.name
        subscribed = _Subscribed(id, self._next, subscription, choice, conjunctions)
        self._subscribed[id] = subscribed

    def remove(self, id: Id) -> None:
        """Forget a subscription; an id that is not there is a KeyError."""
        subscribed = self._subscribed.pop(id)
        for at, node in enumerate(subscribed.conjunctions):
            del node.subscribers[subscribed.number * CONJUNCTIONS_MAX + at]
            if not node.subscribers:
                _drop(self._conjunctions, (node.conjunction, subscribed.choice), node)
                for position, component in enumerate(node.inputs):
                    component.readers.remove((node, position))
                    if not component.readers:
                        self._forget(component)

    def feed(self, notification: Notification) -> list[tuple[Id, Relation]]:
        """The relations that the next notification of the established order completes, and their subscriptions."""
        numbers = self._engine.match(notification)
        touched: dict[_Component, list[int]] = {}
        for number in numbers:
            for component, slot in self._slots[number]:
                touched.setdefault(component, []).append(slot)
        completed: _Completed = {}
        for component, slots in touched.items():
            assert isinstance(component.network, Component)
            match = component.network.take(notification, slots)
            if match is not None:
                _deliver([(component.readers, match)], completed)
        self._taken += len(touched)
        if self._bank is not None:
            matches, leaving = self._bank.take(notification, numbers)
            _deliver(matches, completed)
            for member, is_held in leaving:
                component = self._members[member]
                self._leave(component)
                assert isinstance(component.network, Component)
                if not is_held:
                    match = component.network.take(notification, [member.queue_index_of(notification)])
                    if match is not None:
                        _deliver([(component.readers, match)], completed)
        elif self._taken > self._worth:
            self._open_bank()
        return [completed[rank] for rank in sorted(completed)]

    def snapshot(self, id: Id) -> Snapshot:
        """The state of a subscription, for one that joins with the same predicate. KeyError if the id is
        unknown."""
        subscribed = self._subscribed[id]
        states = tuple(node.state for node in subscribed.conjunctions)
        return Snapshot(subscribed.subscription, subscribed.choice, states)

    @property
    def components(self) -> int:
        """The number of different components, counted with their states."""
        return sum(map(len, self._components.values()))

    @property
    def in_progress(self) -> int:
        """The number of buffered events, counted for each component."""
        return sum(len(each.network.held) for several in self._components.values() for each in several)

    def _conjunction(self, conjunction: Conjunction, choice: Choice, state: ConjunctionState) -> _Conjunction:
        inputs = [
            self._component(each, choice, component.held)
            for each, component in zip(conjunction.components, state.components, strict=True)
        ]
        same = self._conjunctions.setdefault((conjunction, choice), [])
        for node in same:
            if node.inputs == inputs and node.state == state:
                return node
        node = _Conjunction(conjunction, inputs, state)
        same.append(node)
        for position, component in enumerate(inputs):
            component.readers.append((node, position))
        return node

    def _component(self, conjunction: Conjunction, choice: Choice, held: Events) -> _Component:
        same = self._components.setdefault((conjunction, choice), [])
        for component in same:
            if component.network.held == held:
                return component
        for filter in conjunction.filters.values():
            if filter not in self._filters:
                self._filters_seen += 1
                number = self._filters[filter] = self._filters_seen
                self._slots[number], self._users[number] = {}, 0
                self._engine.add(number, filter)
            self._users[self._filters[filter]] += 1
        component = _Component(component_of(conjunction, choice, held))
        same.append(component)
        self._connect(component)
        if self._bank is not None:
            self._enter(component)
        return component

    def _forget(self, component: _Component) -> None:
        network = component.network
        _drop(self._components, (network.component, network.choice), component)
        if not isinstance(network, Component):
            self._leave(component)
        self._disconnect(component)
        for filter in network.component.filters.values():
            number = self._filters[filter]
            self._users[number] -= 1
            if not self._users[number]:
                del self._slots[number], self._users[number], self._filters[filter]
                self._engine.remove(number)

    def _connect(self, component: _Component) -> None:
        """Let a component be fed by itself."""
        for slot, filter in enumerate(component.network.component.filters.values()):
            self._slots[self._filters[filter]][component, slot] = None

    def _disconnect(self, component: _Component) -> None:
        for slot, filter in enumerate(component.network.component.filters.values()):
            del self._slots[self._filters[filter]][component, slot]

    # -- the bank ----------------------------------------------------------------------------------------------

    def _open_bank(self) -> None:
        """Move what can be into arrays, now that so much comes."""
        self._worth = NEVER
        if is_fast():
            from fairlead.correlation.fair.bank import Bank

            self._bank = Bank()
            for component in [each for same in self._components.values() for each in same]:
                self._enter(component)

    def _enter(self, component: _Component) -> None:
        """Move a component into the bank, if it is of the class, with what it holds."""
        assert self._bank is not None
        network = component.network
        if self._bank.admits(network.component):
            filters = [self._filters[filter] for filter in network.component.filters.values()]
            member = self._bank.add(
                network.component, network.choice, filters, network.held, component.readers
            )
            if member is not None:
                self._disconnect(component)
                component.network = member
                self._members[member] = component

    def _leave(self, component: _Component) -> None:
        """Let a component go on by itself."""
        member = component.network
        assert self._bank is not None
        assert not isinstance(member, Component)
        component.network = component_of(member.component, member.choice, member.held)
        self._bank.remove(member)
        del self._members[member]
        self._connect(component)


T = TypeVar("T")


def _deliver(matches: Iterable[tuple[_Readers, Events]], completed: _Completed) -> None:
    """Hand matches of components to their conjunctions: what they complete by them, and for whom."""
    for readers, match in matches:
        for node, position in readers:
            relation = node.put(position, match)
            if relation is None:
                continue
            for rank, (id, name) in node.subscribers.items():
                completed[rank] = (id, relation if name == UNNAMED else relation.called(name))


def _drop(nodes: dict[tuple[Conjunction, Choice], list[T]], key: tuple[Conjunction, Choice], node: T) -> None:
    nodes[key].remove(node)
    if not nodes[key]:
        del nodes[key]


def _check(state: Snapshot, subscription: Subscription, choice: Choice) -> None:
    if (state.subscription, state.choice) != (subscription, choice):
        raise ValueRefused(
            "the state of another subscription",
            hint="a subscription joins with the state of an identical one with the same choice",
        )
    sizes = [len(each.components) for each in state.conjunctions]
    if sizes != [len(each.components) for each in subscription.conjunctions]:
        raise ValueRefused("a state without some component, or with one too many")


class Matcher:
    """One subscription, fed with the established order. Who is fed the same, delivers the same."""

    def __init__(
        self,
        subscription: Subscription,
        choice: Choice = Choice.FIRST_RECEIVED,
        *,
        state: Snapshot | None = None,
    ) -> None:
        self._correlator: Correlator[None] = Correlator()
        self._correlator.add(None, subscription, choice, state=state)

    @classmethod
    def restore(cls, state: Snapshot) -> Matcher:
        """A matcher that continues from a snapshot."""
        return cls(state.subscription, state.choice, state=state)

    def feed(self, notification: Notification) -> list[Relation]:
        """The relations that the next notification completes, in the order of the conjunctions."""
        return [relation for _, relation in self._correlator.feed(notification)]

    def snapshot(self) -> Snapshot:
        """The state between what was fed and what comes next."""
        return self._correlator.snapshot(None)
