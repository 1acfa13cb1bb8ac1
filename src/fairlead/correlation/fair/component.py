"""The common base of the engines of a component: its slots, its comparisons, the queues and their
disposal.

    Layout       what is known of a component before any event comes
    Component    its matches, as its events arrive; a `Tree` or a `Network`

The whole state of a component is what is held, in the order of arrival. All else is made from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from itertools import takewhile
from operator import ge, gt, le, lt, ne
from typing import Any, Final, TypeAlias

from fairlead.correlation.fair.subscriptions import MIRRORED, Comparison, Conjunction, Instance, Reference
from fairlead.errors import ValueRefused
from fairlead.filters import Op
from fairlead.filters.constraint import COMPARABLE, ORDERED
from fairlead.model import RANK, Key, Notification, key_of

__all__ = ["COMPARE", "NUMBER", "ORDERED_RANKS", "Choice", "Component", "Event", "Layout", "Slot", "Tie"]


class Choice(Enum):
    """The relation that a match takes of several (FAIDECS 1). A component matches as soon as it can, in
    any case."""

    FIRST_RECEIVED = "first received"
    """The events that came first."""
    MOST_RECENT = "most recent"
    """The events that came last. With `A and B`, where each component is one event, this is as first received."""


Event: TypeAlias = tuple[int, tuple[Key, ...], Notification]
"""An event that is held: its number in the order of arrival, the keys of what is compared, itself.

The last key is the number again, so that the order of instances is one more comparison.
"""

NUMBER: Final = -1
"""The index that stands for the number instead of a key."""

Tie: TypeAlias = tuple[int, int, Op, int]
"""A comparison that a slot demands: with which filled slot, with which key of it, how, and with which own
key."""

ORDERED_RANKS: Final = frozenset(RANK[kind] for kind in ORDERED)
_COMPARABLE: Final = frozenset(RANK[kind] for kind in COMPARABLE)
COMPARE: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    Op.NE: ne,
    Op.LT: lt,
    Op.LE: le,
    Op.GT: gt,
    Op.GE: ge,
}
"""The comparisons of keys of one kind; equal keys are looked up instead."""


class Layout:
    """The static description of a component: its slots, and its comparisons."""

    def __init__(self, component: Conjunction) -> None:
        self.component = component
        self.instances = component.instances
        self.type_numbers = {type: number for number, (type, _) in enumerate(component.counts)}
        self.types = tuple(self.type_numbers[each.type] for each in self.instances)
        """The number of the type of each slot."""
        names: dict[str, dict[str, int]] = {type: {} for type in self.type_numbers}
        for side in (side for each in component.comparisons for side in (each.left, each.right)):
            names[side.instance.type].setdefault(side.name, len(names[side.instance.type]))
        self.names = names
        self._compared: dict[Instance, list[Comparison]] = {each: [] for each in self.instances}
        for comparison in component.comparisons:
            if not comparison.is_unary:
                self._compared[comparison.left.instance].append(comparison)
                self._compared[comparison.right.instance].append(comparison)

    def key_index(self, reference: Reference) -> int:
        return self.names[reference.instance.type][reference.name]

    def ties(self, filled: Mapping[Instance, int], instance: Instance) -> list[Tie]:
        """The comparisons of an instance with the slots that are filled, and its order among those of
        its type.

        Of the instances of its type the nearest on either side are enough, as those are in order among themselves.
        """
        ties = []
        for each in self._compared[instance]:
            is_right = each.right.instance == instance
            own, other = (each.right, each.left) if is_right else (each.left, each.right)
            if other.instance in filled:
                op = each.op if is_right else MIRRORED[each.op]
                ties.append((filled[other.instance], self.key_index(other), op, self.key_index(own)))
        at = self.instances.index(instance)
        older, newer = reversed(self.instances[:at]), self.instances[at + 1 :]
        for op, siblings in ((Op.LT, older), (Op.GT, newer)):
            for sibling in takewhile(lambda other: other.type == instance.type, siblings):
                if sibling in filled:
                    ties.append((filled[sibling], NUMBER, op, NUMBER))
                    break
        return ties

    def neighbours(self, instance: Instance) -> set[Instance]:
        """The instances that one is compared with, and those next to it in the order of its type."""
        sides = {side.instance for each in self._compared[instance] for side in (each.left, each.right)}
        near = (each for each in self.instances if abs(each.index - instance.index) == 1)
        return sides - {instance} | {each for each in near if each.type == instance.type}


class Slot:
    """The conditions on an event in a slot, besides the filter: it must have values that can be compared."""

    __slots__ = ("at", "comparisons", "is_last", "ranks")

    def __init__(self, layout: Layout, at: int) -> None:
        instance = layout.instances[at]
        self.at = at
        self.is_last = instance.index == dict(layout.component.counts)[instance.type]
        ranks: dict[int, frozenset[int]] = {}
        unary = []
        for each in layout.component.comparisons:
            for side in (each.left, each.right):
                if side.instance == instance:
                    allowed = _COMPARABLE if each.op in (Op.EQ, Op.NE) else ORDERED_RANKS
                    index = layout.key_index(side)
                    ranks[index] = ranks.get(index, allowed) & allowed
            if each.is_unary and each.left.instance == instance:
                unary.append((layout.key_index(each.left), each.op, layout.key_index(each.right)))
        self.ranks = tuple(ranks.items())
        self.comparisons = tuple(unary)

    def admits(self, keys: Sequence[Key]) -> bool:
        for index, allowed in self.ranks:
            if keys[index][0] not in allowed:
                return False
        for left, op, right in self.comparisons:
            one, other = keys[left], keys[right]
            if op is Op.EQ:
                if one != other:
                    return False
            elif one[0] != other[0] or not COMPARE[op](one, other):
                return False
        return True


class Component(ABC):
    """The matches of one component, as its events arrive. The whole state is what is held, in order."""

    def __init__(self, layout: Layout, choice: Choice) -> None:
        self.component = layout.component
        self.choice = choice
        self._newest_first = choice is Choice.MOST_RECENT
        self._slots = [Slot(layout, at) for at in range(len(layout.instances))]
        self._names = [tuple(names) for names in layout.names.values()]
        self._types = layout.types
        self._floors = [0] * len(self._names)
        self._queues: list[deque[Event]] = [deque() for _ in self._names]
        self._number = 0

    def _restore(self, held: Iterable[Notification]) -> None:
        for notification in held:
            if self.take(notification, self.slots(notification)) is not None:
                raise ValueRefused(
                    "a state whose buffered notifications make a match: it would have been delivered"
                )

    def slots(self, notification: Notification) -> list[int]:
        """The slots whose filter a notification matches, by their numbers in the signature."""
        filters = self.component.filters.values()
        return [at for at, filter in enumerate(filters) if filter.matches(notification)]

    @property
    def held(self) -> tuple[Notification, ...]:
        """The buffered events, in the order of arrival."""
        events = sorted((event for queue in self._queues for event in queue), key=lambda event: event[0])
        return tuple(notification for _, _, notification in events)

    @property
    @abstractmethod
    def partial_matches(self) -> int:
        """The number of partial matches of several events in memory."""

    def take(self, notification: Notification, slots: Sequence[int]) -> tuple[Notification, ...] | None:
        """The match that a notification completes, if it does; `slots` are those whose filters it matches."""
        if not slots:
            return None
        type = self._types[slots[0]]
        lookup = notification.attributes.lookup
        keys = [key_of(lookup(name)) for name in self._names[type]]
        fitting = [slot for slot in (self._slots[at] for at in sorted(slots)) if slot.admits(keys)]
        if not fitting:
            return None
        self._number += 1
        keys.append((0, self._number))
        match = self._taken((self._number, tuple(keys), notification), type, fitting)
        return None if match is None else tuple([each[2] for each in match])

    @abstractmethod
    def _taken(self, event: Event, type: int, fitting: list[Slot]) -> Sequence[Event] | None:
        """The match that an event completes in one of these slots, by slots; without one, it is held."""

    def _discard(self, match: Sequence[Event]) -> list[tuple[int, Event]]:
        """Discard what a match has taken, and all of the same types that came before (prefix and infix).

        What was held of that is gone now, each with the number of its type.
        """
        gone = []
        for type, event in zip(self._types, match, strict=True):
            self._floors[type] = max(self._floors[type], event[0])
        for type, (queue, floor) in enumerate(zip(self._queues, self._floors, strict=True)):
            while queue and queue[0][0] <= floor:
                gone.append((type, queue.popleft()))
        return gone
