"""One component: what arrives is combined with the partial matches that are held, never searched for again.

The places of the component are joined one after another, each along a comparison with those before it where there
is one. Every join has two memories, one of the partial matches over the places before it and one of the events for
its own place, both indexed by the values that its equalities ask for, and with the bound that an inequality has to
pass:

    partial matches over p1 … pj  ──┐
                                    ├──▶  partial matches over p1 … pj+1  ──▶ …
    events that may stand in pj+1 ──┘

An event that arrives meets the partial matches of its place; each result goes on and meets the events held for the
places that follow. Only the last instance of its type can complete a match (see the package), so only there
the results are looked at. They come in the order of the joins, oldest first, and the search ends at the first
where that order is the signature's; elsewhere it goes on among those that agree in the places that both share.

Disposal moves a floor for each type: what has an event at or below its floor is dead, is passed over,
and is swept away before a memory grows to twice what it held when it was last swept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import chain, takewhile
from operator import ge, gt, le, lt, ne
from typing import Any, Final, TypeAlias

from fairlead.correlation.fair.subscriptions import MIRRORED, Comparison, Conjunction, Instance, Reference
from fairlead.filters import Op
from fairlead.filters.constraint import COMPARABLE, ORDERED
from fairlead.model import RANK, Key, Notification, key_of

__all__ = ["COMPARE", "Choice", "Component", "Event", "Layout", "Network"]


class Choice(Enum):
    """Which of several relations a match takes (FAIDECS 1); a component matches as soon as it can, in any case."""

    FIRST_RECEIVED = "first received"
    """The events that came first."""
    MOST_RECENT = "most recent"
    """The events that came last. With `A and B`, where each component is one event, this is as first received."""


Event: TypeAlias = tuple[int, tuple[Key, ...], Notification]
"""An event that is held: its number in the order of arrival, the keys of what is compared, itself."""

Partial: TypeAlias = tuple[Event, ...]
"""Events for the first places, in the order of the joins. Python compares them by the events' numbers."""

_ORDERED: Final = frozenset(RANK[kind] for kind in ORDERED)
_COMPARABLE: Final = frozenset(RANK[kind] for kind in COMPARABLE)
COMPARE: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    Op.NE: ne,
    Op.LT: lt,
    Op.LE: le,
    Op.GT: gt,
    Op.GE: ge,
}
"""How keys of one kind compare; equal keys are found by looking them up."""


_SPARE: Final = 64
"""How many partial matches a memory may hold without a look at what is dead."""


class _Memory:
    """Partial matches by key, in order. `floors` are the network's, `types` say whose apply to the events.

    Where an inequality is to hold with what is asked for, `marked` is its side here and `best` (min or max) tells
    the most promising one under each key: if that one fails, no other has to be tried.
    """

    __slots__ = ("best", "buckets", "floors", "limit", "marked", "marks", "size", "types")

    def __init__(self, types: Sequence[int], floors: list[int]) -> None:
        self.types = tuple(types)
        self.floors = floors
        self.marked: tuple[int, int] | None = None
        self.best: Callable[[Key, Key], Key] = min
        self.clear()

    def clear(self) -> None:
        self.buckets: dict[Any, list[Partial]] = {}
        self.marks: dict[Any, Key] = {}
        self.size, self.limit = 0, _SPARE

    def add(self, key: Any, partial: Partial) -> None:
        if self.size >= self.limit:
            self.sweep()
        insort(self.buckets.setdefault(key, []), partial)
        self.size += 1
        if self.marked is not None:
            mark = partial[self.marked[0]][1][self.marked[1]]
            self.marks[key] = self.best(mark, self.marks.get(key, mark))

    def alive(self, key: Any, newest_first: bool, newer_than: int = 0) -> Iterator[Partial]:
        """The partial matches under a key, in order, without those that disposal has taken an event of.

        `newer_than` passes over those that begin with an event up to that number.
        """
        bucket = self.buckets.get(key)
        if bucket is None:
            return
        floor = self.floors[self.types[0]]
        if bucket[0][0][0] <= floor:  # the oldest stand first
            cut = bisect_right(bucket, floor, key=_first_number)
            self.size -= cut
            if cut == len(bucket):
                self.drop(key)
                return
            del bucket[:cut]
        if newer_than >= bucket[-1][0][0]:
            return
        newer = bucket[bisect_right(bucket, newer_than, key=_first_number) :] if newer_than else bucket
        inner = reversed(newer) if newest_first else iter(newer)
        if len(self.types) == 1:
            yield from inner
            return
        dead = 0
        for partial in inner:
            if self.is_alive(partial):
                yield partial
            else:
                dead += 1
        if dead > len(bucket) // 2:
            bucket[:] = filter(self.is_alive, bucket)
            self.size -= dead
            if not bucket:
                self.drop(key)

    def drop(self, key: Any) -> None:
        del self.buckets[key]
        self.marks.pop(key, None)

    def is_alive(self, partial: Partial) -> bool:
        floors = self.floors
        return all(event[0] > floors[type] for event, type in zip(partial, self.types, strict=True))

    def sweep(self) -> None:
        swept = {
            key: [each for each in bucket if self.is_alive(each)] for key, bucket in self.buckets.items()
        }
        self.buckets = {key: bucket for key, bucket in swept.items() if bucket}
        self.marks = {key: mark for key, mark in self.marks.items() if key in self.buckets}
        self.size = sum(map(len, self.buckets.values()))
        self.limit = 2 * self.size + _SPARE


def _first_number(partial: Partial) -> int:
    return partial[0][0]


class _Join:
    """How the events of one place are combined with the partial matches over the places before it."""

    __slots__ = (
        "comparisons",
        "equal_left",
        "equal_right",
        "events",
        "inequality",
        "partials",
        "siblings",
        "takes_new",
    )

    def __init__(self, layout: Layout, level: int, floors: list[int]) -> None:
        instance = layout.order[level]
        earlier = layout.order[:level]
        types = [layout.type_numbers[each.type] for each in layout.order]
        self.partials = _Memory(types[:level], floors)
        self.events = _Memory(types[level : level + 1], floors)
        same_type = [(each, at) for at, each in enumerate(earlier) if each.type == instance.type]
        self.siblings = tuple((at, each < instance) for each, at in same_type)
        """The places of the same type before it, and whether the event there has to be the older one."""
        self.takes_new = not any(each > instance for each, _ in same_type)
        """Whether an event that has just come can follow what is held: not where a later instance is bound."""
        equalities, comparisons = [], []
        for each in layout.between(earlier, instance):
            other, own = layout.sides(each, instance)
            # From the point of view of the partial match: its side stands to the left.
            op = each.op if each.right.instance == instance else MIRRORED[each.op]
            place, index = earlier.index(other.instance), layout.key_index(other)
            if op is Op.EQ:
                equalities.append((place, index, layout.key_index(own)))
            else:
                comparisons.append((place, index, COMPARE[op], layout.key_index(own)))
        self.equal_left = tuple((place, index) for place, index, _ in equalities)
        self.equal_right = tuple(own for *_, own in equalities)
        self.comparisons = tuple(comparisons)
        self.inequality = next((each for each in comparisons if each[2] is not ne), None)
        if self.inequality is not None:
            place, index, compare, own_index = self.inequality
            is_ascending = compare in (lt, le)
            self.partials.marked, self.partials.best = (place, index), min if is_ascending else max
            self.events.marked, self.events.best = (0, own_index), max if is_ascending else min

    def left_key(self, partial: Partial) -> tuple[Key, ...]:
        """The values that an event has to have to follow, and the kind of the one that an inequality asks for."""
        keys = [partial[place][1][index] for place, index in self.equal_left]
        if self.inequality is not None:
            keys.append(partial[self.inequality[0]][1][self.inequality[1]][:1])
        return tuple(keys)

    def right_key(self, event: Event) -> tuple[Key, ...]:
        keys = [event[1][index] for index in self.equal_right]
        if self.inequality is not None:
            keys.append(event[1][self.inequality[3]][:1])
        return tuple(keys)

    def partials_for(self, event: Event, newest_first: bool) -> Iterator[Partial]:
        """The partial matches that an event may follow, as far as the index tells."""
        key = self.right_key(event)
        if self.inequality is not None and (mark := self.partials.marks.get(key)) is not None:
            _, _, compare, own_index = self.inequality
            if not compare(mark, event[1][own_index]):
                return iter(())
        return self.partials.alive(key, newest_first)

    def events_for(self, partial: Partial, newest_first: bool) -> Iterator[Partial]:
        """The events that may follow a partial match, as far as the index tells."""
        key = self.left_key(partial)
        if self.inequality is not None and (mark := self.events.marks.get(key)) is not None:
            place, index, compare, _ = self.inequality
            if not compare(partial[place][1][index], mark):
                return iter(())
        newer_than = max([partial[place][0] for place, is_older in self.siblings if is_older], default=0)
        return self.events.alive(key, newest_first, newer_than)

    def holds(self, partial: Partial, event: Event) -> bool:
        """Whether the event may follow: of its type in order, and compared as asked."""
        number, keys, _ = event
        for place, is_older in self.siblings:
            other = partial[place][0]
            if not (other < number if is_older else other > number):
                return False
        for place, index, compare, own in self.comparisons:
            left, right = partial[place][1][index], keys[own]
            if left[0] != right[0] or not compare(left, right):
                return False
        return True


class Layout:
    """What is known of a component before any event comes: the order of its joins, and what is compared."""

    def __init__(self, component: Conjunction) -> None:
        self.component = component
        self.instances = component.instances
        self.type_numbers = {type: number for number, (type, _) in enumerate(component.counts)}
        self.order = self._joined_in_order()
        names: dict[str, dict[str, int]] = {type: {} for type in self.type_numbers}
        for side in (side for each in component.comparisons for side in (each.left, each.right)):
            names[side.instance.type].setdefault(side.name, len(names[side.instance.type]))
        self.names = names

    def _joined_in_order(self) -> tuple[Instance, ...]:
        """The first place, then always one that an equality, or else a comparison, ties to those before it."""
        order = [self.instances[0]]
        while len(order) < len(self.instances):
            rest = [each for each in self.instances if each not in order]
            order.append(min(rest, key=lambda each: (self._looseness(order, each), each)))
        return tuple(order)

    def _looseness(self, bound: Sequence[Instance], instance: Instance) -> int:
        ops = {each.op for each in self.between(bound, instance)}
        return 0 if Op.EQ in ops else 1 if ops else 2

    def between(self, bound: Sequence[Instance], instance: Instance) -> list[Comparison]:
        """The comparisons of an instance with those that are bound."""
        return [
            each
            for each in self.component.comparisons
            if (each.left.instance == instance and each.right.instance in bound)
            or (each.right.instance == instance and each.left.instance in bound)
        ]

    def sides(self, comparison: Comparison, instance: Instance) -> tuple[Reference, Reference]:
        """The other side of a comparison, and the side of an instance."""
        if comparison.left.instance == instance:
            return comparison.right, comparison.left
        return comparison.left, comparison.right

    def key_index(self, reference: Reference) -> int:
        return self.names[reference.instance.type][reference.name]


class _Place:
    """What an event needs to stand in a place, besides the filter: values that can be compared as is asked."""

    __slots__ = ("comparisons", "is_last", "level", "ranks")

    def __init__(self, layout: Layout, instance: Instance) -> None:
        self.level = layout.order.index(instance)
        self.is_last = instance.index == dict(layout.component.counts)[instance.type]
        ranks: dict[int, frozenset[int]] = {}
        unary = []
        for each in layout.component.comparisons:
            for side in (each.left, each.right):
                if side.instance == instance:
                    allowed = _COMPARABLE if each.op in (Op.EQ, Op.NE) else _ORDERED
                    index = layout.key_index(side)
                    ranks[index] = ranks.get(index, allowed) & allowed
            if each.is_unary and each.left.instance == instance:
                unary.append((layout.key_index(each.left), each.op, layout.key_index(each.right)))
        self.ranks = tuple(ranks.items())
        self.comparisons = tuple(unary)

    def admits(self, keys: tuple[Key, ...]) -> bool:
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
        self._places = [_Place(layout, instance) for instance in layout.instances]
        self._names = [tuple(names) for names in layout.names.values()]
        self._types = [layout.type_numbers[instance.type] for instance in layout.order]
        """The type of each place, in the order of the joins."""
        self._floors = [0] * len(self._names)
        self._queues: list[deque[Event]] = [deque() for _ in self._names]
        self._number = 0

    def _restore(self, held: Iterable[Notification]) -> None:
        for notification in held:
            match = self.take(notification, self.places(notification))
            assert match is None, "what is held makes no match"

    def places(self, notification: Notification) -> list[int]:
        """The places whose filter a notification matches, by their numbers in the signature."""
        filters = self.component.filters.values()
        return [at for at, filter in enumerate(filters) if filter.matches(notification)]

    @property
    def held(self) -> tuple[Notification, ...]:
        """What is held, in the order of arrival."""
        events = sorted((event for queue in self._queues for event in queue), key=lambda event: event[0])
        return tuple(notification for _, _, notification in events)

    @property
    @abstractmethod
    def partial_matches(self) -> int:
        """How many partial matches of several events are in memory, dead ones that await sweeping included."""

    def take(self, notification: Notification, places: Sequence[int]) -> tuple[Notification, ...] | None:
        """The match that a notification completes, if it does; `places` are those whose filters it matches."""
        fitting = [self._places[at] for at in sorted(places)]
        if not fitting:
            return None
        type = self._types[fitting[0].level]
        lookup = notification.attributes.lookup
        keys = tuple([key_of(lookup(name)) for name in self._names[type]])
        fitting = [place for place in fitting if place.admits(keys)]
        if not fitting:
            return None
        self._number += 1
        return self._taken((self._number, keys, notification), type, fitting)

    @abstractmethod
    def _taken(self, event: Event, type: int, fitting: list[_Place]) -> tuple[Notification, ...] | None:
        """The match that an event completes in one of these places; without one, it is held."""

    def _discard(self, match: Partial) -> None:
        """Discard what a match has taken, and all of the same types that came before (prefix and infix)."""
        for type, event in zip(self._types, match, strict=True):
            self._floors[type] = max(self._floors[type], event[0])
        for queue, floor in zip(self._queues, self._floors, strict=True):
            while queue and queue[0][0] <= floor:
                queue.popleft()


class Network(Component):
    """A component as a network of joins: any comparisons, any number of instances of a type."""

    def __init__(
        self,
        component: Conjunction,
        choice: Choice = Choice.FIRST_RECEIVED,
        held: Iterable[Notification] = (),
    ) -> None:
        assert len(component.components) == 1, "types that no comparison connects are matched separately"
        layout = Layout(component)
        super().__init__(layout, choice)
        self._last = len(layout.order) - 1
        self._into = {level: _Join(layout, level, self._floors) for level in range(1, len(layout.order))}
        self._signature = [layout.order.index(instance) for instance in layout.instances]
        agreeing = takewhile(lambda pair: pair[0] == pair[1], enumerate(self._signature))
        self._shared = len(list(agreeing))
        """In how many places, from the first on, the order of the joins is that of the signature."""
        self._restore(held)

    @property
    def partial_matches(self) -> int:
        return sum(join.partials.size for level, join in self._into.items() if level > 1)

    def _taken(self, event: Event, type: int, fitting: list[_Place]) -> tuple[Notification, ...] | None:
        grown: list[tuple[int, Partial]] = []
        for place in reversed(fitting):
            found = self._joined(event, place.level, grown)
            match = self._chosen(found)
            if match is not None:
                assert place.is_last, "nothing of its type has come after it"
                self._dispose(match)
                return tuple([match[level][2] for level in self._signature])
        self._hold(event, type, fitting, grown)
        return None

    def _joined(self, event: Event, level: int, grown: list[tuple[int, Partial]]) -> Iterator[Partial]:
        """The complete matches with a new event in the place of a level; the others on the way are noted."""
        if not level:
            yield from self._extended((event,), 0, grown)
            return
        join = self._into[level]
        if join.takes_new:
            for partial in join.partials_for(event, self._newest_first):
                if join.holds(partial, event):
                    yield from self._extended((*partial, event), level, grown)

    def _extended(self, partial: Partial, level: int, grown: list[tuple[int, Partial]]) -> Iterator[Partial]:
        """The complete matches that a partial match up to a level leads to."""
        if level == self._last:
            yield partial
            return
        grown.append((level, partial))
        join = self._into[level + 1]
        for (event,) in join.events_for(partial, self._newest_first):
            if join.holds(partial, event):
                yield from self._extended((*partial, event), level + 1, grown)

    def _chosen(self, found: Iterator[Partial]) -> Partial | None:
        """The match to take, of those that are found in the order of the joins."""
        first = next(found, None)
        if first is None or self._shared > self._last:
            return first
        agreeing = takewhile(lambda each: each[: self._shared] == first[: self._shared], found)
        choose = max if self._newest_first else min
        return choose(chain((first,), agreeing), key=lambda each: [each[level] for level in self._signature])

    def _hold(
        self, event: Event, type: int, places: Iterable[_Place], grown: Iterable[tuple[int, Partial]]
    ) -> None:
        self._queues[type].append(event)
        for place in places:
            if place.level:
                join = self._into[place.level]
                join.events.add(join.right_key(event), (event,))
        for level, partial in grown:
            join = self._into[level + 1]
            join.partials.add(join.left_key(partial), partial)

    def _dispose(self, match: Partial) -> None:
        self._discard(match)
        if not any(self._queues):
            for join in self._into.values():
                join.partials.clear()
                join.events.clear()
