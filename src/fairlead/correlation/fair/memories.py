"""The memories of a network: the events of each slot, and those partial matches that no other one makes
useless.

    Memory    the events held for one slot, by the values that are asked for
    States    partial matches over the same slots, without those of which another has all that can be asked

What comes later looks at a partial match in few respects: the values that slots still empty are compared with,
and which events of their type they have to come behind or before. One that is as good as another in each of these
respects leads to a match whenever the other does. So as long as it is there, nothing depends on the other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import ge, le
from typing import Any, Final, TypeAlias

from fairlead.correlation.fair.component import Event, Layout
from fairlead.correlation.fair.subscriptions import Instance
from fairlead.filters import Op
from fairlead.model import Key

__all__ = ["Memory", "Partial", "States"]

Partial: TypeAlias = tuple[Event, ...]
"""Events for some slots, in the order in which these are filled."""

_SPARE: Final = 64
"""The number of events a memory may hold without a look at what is dead."""

_AS_GOOD: Final = {Op.LT: le, Op.LE: le, Op.GT: ge, Op.GE: ge}
"""For each comparison the one that makes a value at least as good: for "less than", "no greater than"; and so
on."""


class Memory:
    """The events held for one slot, by key, in the order of arrival. What is at or below the floor is dead.

    `equal` are the keys that equalities ask for. Where an inequality asks for another one, `marked`, its kind is a
    part of the key, too, and the `best` value under a key (min or max) tells whether any event has to be tried.
    """

    __slots__ = ("best", "buckets", "equal", "floors", "limit", "marked", "marks", "size", "type")

    def __init__(
        self,
        type: int,
        floors: Sequence[int],
        equal: tuple[int, ...],
        marked: int | None,
        best: Callable[[Key, Key], Key],
    ) -> None:
        self.type = type
        self.floors = floors
        self.equal = equal
        self.marked = marked
        self.best = best
        self.clear()

    def clear(self) -> None:
        self.buckets: dict[Any, list[Event]] = {}
        self.marks: dict[Any, Key] = {}
        self.size, self.limit = 0, _SPARE

    def key(self, event: Event) -> tuple[Key, ...]:
        keys = event[1]
        found = [keys[index] for index in self.equal]
        if self.marked is not None:
            found.append(keys[self.marked][:1])
        return tuple(found)

    def add(self, event: Event) -> None:
        if self.size >= self.limit:
            self._sweep()
        key = self.key(event)
        self.buckets.setdefault(key, []).append(event)
        self.size += 1
        if self.marked is not None:
            mark = event[1][self.marked]
            self.marks[key] = self.best(mark, self.marks.get(key, mark))

    def alive(self, key: Any = (), *, newer_than: int = 0, newest_first: bool = False) -> Iterator[Event]:
        """The events under a key that came behind a number, in order."""
        bucket = self.buckets.get(key)
        if bucket is None:
            return iter(())
        floor = self.floors[self.type]
        if bucket[0][0] <= floor:
            cut = bisect_right(bucket, floor, key=_number)
            self.size -= cut
            if cut == len(bucket):
                del self.buckets[key]
                self.marks.pop(key, None)
                return iter(())
            del bucket[:cut]
        if newer_than >= bucket[-1][0]:
            return iter(())
        newer = bucket[bisect_right(bucket, newer_than, key=_number) :] if newer_than else bucket
        return reversed(newer) if newest_first else iter(newer)

    def _sweep(self) -> None:
        floor = self.floors[self.type]
        swept = {
            key: bucket[bisect_right(bucket, floor, key=_number) :] for key, bucket in self.buckets.items()
        }
        self.buckets = {key: bucket for key, bucket in swept.items() if bucket}
        self.marks = {key: mark for key, mark in self.marks.items() if key in self.buckets}
        self.size = sum(map(len, self.buckets.values()))
        self.limit = 2 * self.size + _SPARE


def _number(event: Event) -> int:
    return event[0]


class _State:
    """A partial match, where it stands in what later slots look at, and whether others are left out for it."""

    __slots__ = ("apart", "leaves_out", "marks", "partial")

    def __init__(self, partial: Partial, marks: tuple[Key, ...], apart: tuple[Key, ...]) -> None:
        self.partial = partial
        self.marks = marks
        """The values that have to be less, or greater, than others."""
        self.apart = apart
        """The values that have to differ from others."""
        self.leaves_out = False


class States:
    """Partial matches over some slots, by the values that the next slot is compared with.

    They are grouped by all values that have to be equal to others. In a group the better one is kept of two that
    can be compared in what has to be less or greater. What has to differ from n values to come, all unknown, is
    useless beside n + 1 of different values that are as good: each value to come is in the way of one at most.
    """

    def __init__(self, layout: Layout, filled: Sequence[Instance], key: Callable[[Partial], Any]) -> None:
        asked: dict[tuple[int, int], list[Op]] = {}
        positions = {instance: position for position, instance in enumerate(filled)}
        for empty in (each for each in layout.instances if each not in positions):
            for slot, index, op, _ in layout.ties(positions, empty):
                asked.setdefault((slot, index), []).append(op)
        ways = {at: {_AS_GOOD.get(op, op) for op in ops} for at, ops in asked.items()}
        self._apart = tuple(at for at, way in ways.items() if way == {Op.NE})
        self._ordered = tuple(at for at, way in ways.items() if way in ({le}, {ge}))
        self._as_good = tuple(_AS_GOOD[asked[at][0]] for at in self._ordered)
        self._exact = tuple(at for at in ways if at not in self._apart and at not in self._ordered)
        self._differences = sum(len(asked[at]) for at in self._apart)
        self._types = [layout.type_numbers[each.type] for each in filled]
        self._key = key
        self.clear()

    def clear(self) -> None:
        self._states: dict[Any, dict[Any, list[_State]]] = {}

    def __len__(self) -> int:
        return sum(len(group) for groups in self._states.values() for group in groups.values())

    def __iter__(self) -> Iterator[Partial]:
        return (
            state.partial for groups in self._states.values() for group in groups.values() for state in group
        )

    def under(self, key: Any) -> Iterator[Partial]:
        """The partial matches under a key."""
        return (state.partial for group in self._states.get(key, {}).values() for state in group)

    def add(self, partial: Partial) -> bool:
        """Add a partial match, and remove those that it is as good as. False if others are as good as it."""
        added = _State(partial, _read(partial, self._ordered), _read(partial, self._apart))
        kinds = [value[0] for value in (*added.marks, *added.apart)]
        groups = self._states.setdefault(self._key(partial), {})
        group = groups.setdefault((*_read(partial, self._exact), *kinds), [])
        instead = self._instead_of(added, group)
        for state in instead:
            state.leaves_out = True
        if instead:
            return False
        left = [state for state in group if state.apart != added.apart or not self._is_as_good(added, state)]
        added.leaves_out = len(left) < len(group)
        group[:] = (*left, added)
        return True

    def _instead_of(self, one: _State, group: Sequence[_State]) -> list[_State]:
        """Of a group, some that lead to a match whenever this one does; none if there are no such."""
        chosen: list[_State] = []
        taken: set[tuple[int, Key]] = set()
        for state in group:
            if self._is_as_good(state, one):
                if state.apart == one.apart:
                    return [state]
                values = [
                    (at, value) for at, value in enumerate(state.apart) if value != one.apart[at]
                ]  # where they agree, what is in its way is in the way of both
                if taken.isdisjoint(values):
                    taken.update(values)
                    chosen.append(state)
                    if len(chosen) > self._differences:
                        return chosen
        return []

    def _is_as_good(self, one: _State, other: _State) -> bool:
        """Whether what has to be less is no greater, and the other way round."""
        return all(map(_holds, self._as_good, one.marks, other.marks))

    def dispose(self, floors: Sequence[int]) -> bool:
        """Forget what has an event at or below its type's floor; whether others were left out for that."""
        is_missed = False
        for key, groups in list(self._states.items()):
            for exact, group in list(groups.items()):
                dead = [state for state in group if self._is_dead(state.partial, floors)]
                is_missed |= any(state.leaves_out for state in dead)
                if len(dead) == len(group):
                    del groups[exact]
                elif dead:
                    group[:] = [state for state in group if not self._is_dead(state.partial, floors)]
            if not groups:
                del self._states[key]
        return is_missed

    def _is_dead(self, partial: Partial, floors: Sequence[int]) -> bool:
        return any(event[0] <= floors[type] for event, type in zip(partial, self._types, strict=True))


def _read(partial: Partial, slots: Sequence[tuple[int, int]]) -> tuple[Key, ...]:
    return tuple([partial[slot][1][index] for slot, index in slots])


def _holds(compare: Callable[[Any, Any], bool], one: Key, other: Key) -> bool:
    return compare(one, other)
