"""One component: what arrives is combined with the partial matches that are held, never searched for again.

The slots of the component are joined one after another, so that few of those joined have still to be compared.
Every join has two memories, one of the partial matches over the slots before it and one of the events for its own
slot, both indexed by the values that its equalities ask for:

    partial matches over p1 … pj  ──┐
                                    ├──▶  partial matches over p1 … pj+1  ──▶ …
    events that may stand in pj+1 ──┘

An event that arrives meets the partial matches of its slot; each result goes on and meets the events held for the
slots that follow. Of the partial matches over the same slots one is kept only if no other is as good in all that
later slots look at. So a network does not hold all of them, up to the product of the queues, but the few that
decide whether there is a match.

*Which* one it is, is then searched for, once. The event that completes it stands in the last slot of its type
(see the package); the others are filled in the order of the signature, by the first event first. What has failed
is remembered in the same way: a partial match that is no better than one that failed is not tried.

Disposal moves a floor for each type: what has an event at or below its floor is dead. Where others were left out
for that, the partial matches are made again from the events that are held. With two slots there are none: an
event that arrives finds its partner, or does not.

Law: a network matches what the definition says; what it leaves out changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import ge, gt, ne
from typing import Any, TypeAlias

from fairlead.correlation.fair.component import COMPARE, NUMBER, Choice, Component, Event, Layout, Slot
from fairlead.correlation.fair.memories import Memory, Partial, States
from fairlead.correlation.fair.subscriptions import Conjunction, Instance
from fairlead.filters import Op
from fairlead.model import Key, Notification

__all__ = ["Network"]

Remembering: TypeAlias = Callable[[Instance, tuple[int, ...], int | None, Callable[[Key, Key], Key]], Memory]
"""The memory of a slot, by certain keys; one for all that look for the same."""


class _Step:
    """A step that fills a slot once others are filled: the events that go with theirs."""

    __slots__ = ("_comparisons", "_equal", "_inequality", "_older", "_takes_new", "memory")

    def __init__(
        self, layout: Layout, filled: Sequence[Instance], instance: Instance, remember: Remembering
    ) -> None:
        ties = layout.ties({each: at for at, each in enumerate(filled)}, instance)
        self._equal = [(slot, index) for slot, index, op, _ in ties if op is Op.EQ]
        self._comparisons = [
            (slot, index, COMPARE[op], own) for slot, index, op, own in ties if op is not Op.EQ
        ]
        inequalities = (each for each in self._comparisons if each[1] != NUMBER and each[2] is not ne)
        self._inequality = next(inequalities, None)
        self._older = next((slot for slot, index, op, _ in ties if (index, op) == (NUMBER, Op.LT)), None)
        """The slot of its type that has to be the older one, if such a slot is filled."""
        self._takes_new = not any((index, op) == (NUMBER, Op.GT) for _, index, op, _ in ties)
        """Whether an event that has just come can follow what is held: not where a later instance is filled."""
        own_equal = tuple(own for *_, op, own in ties if op is Op.EQ)
        if self._inequality is None:
            self.memory = remember(instance, own_equal, None, min)
        else:
            _, _, compare, own_marked = self._inequality
            best = min if compare in (gt, ge) else max
            self.memory = remember(instance, own_equal, own_marked, best)

    def key(self, partial: Partial) -> tuple[Key, ...]:
        """The values that an event has to have to follow, and the kind of the one that an inequality asks for."""
        keys = [partial[slot][1][index] for slot, index in self._equal]
        if self._inequality is not None:
            slot, index, _, _ = self._inequality
            keys.append(partial[slot][1][index][:1])
        return tuple(keys)

    def events_for(self, partial: Partial, *, newest_first: bool = False) -> Iterator[Event]:
        """The events that are held and may follow a partial match, in order."""
        key = self.key(partial)
        if self._inequality is not None and (mark := self.memory.marks.get(key)) is not None:
            slot, index, compare, _ = self._inequality
            if not compare(partial[slot][1][index], mark):
                return iter(())
        newer_than = 0 if self._older is None else partial[self._older][0]
        events = self.memory.alive(key, newer_than=newer_than, newest_first=newest_first)
        if not self._comparisons:
            return events
        return (event for event in events if self._holds(partial, event))

    def partials_for(self, event: Event, states: States) -> Iterator[Partial]:
        """The partial matches that an event which has just come may follow."""
        if not self._takes_new:
            return iter(())
        return (partial for partial in states.under(self.memory.key(event)) if self._holds(partial, event))

    def _holds(self, partial: Partial, event: Event) -> bool:
        """Whether the two compare as asked, apart from what has been looked up."""
        keys = event[1]
        for slot, index, compare, own in self._comparisons:
            left, right = partial[slot][1][index], keys[own]
            if left[0] != right[0] or not compare(left, right):
                return False
        return True


class _Search:
    """The match of an event that completes one, found slot by slot in the order of the signature."""

    def __init__(self, layout: Layout, completed: Instance, remember: Remembering) -> None:
        order = [completed, *(each for each in layout.instances if each != completed)]
        self._arranged = [order.index(instance) for instance in layout.instances]
        self._steps = [
            _Step(layout, order[:level], instance, remember) for level, instance in enumerate(order)
        ][1:]
        self._failed = [States(layout, order[:level], _anywhere) for level in range(2, len(order))]
        """For each number of slots but the first and the last: what leads nowhere."""

    def match(self, event: Event, newest_first: bool) -> Sequence[Event] | None:
        """The match to take of those with an event, by slots; None if there is none."""
        for failed in self._failed:
            failed.clear()
        found = self._completed((event,), newest_first)
        return None if found is None else [found[slot] for slot in self._arranged]

    def _completed(self, partial: Partial, newest_first: bool) -> Partial | None:
        level = len(partial) - 1
        if level == len(self._steps):
            return partial
        for event in self._steps[level].events_for(partial, newest_first=newest_first):
            extended = (*partial, event)
            if level < len(self._failed) and not self._failed[level].add(extended):
                continue
            found = self._completed(extended, newest_first)
            if found is not None:
                return found
        return None


def _anywhere(partial: Partial) -> Any:
    return ()


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
        memories: dict[Any, Memory] = {}

        def remember(instance: Instance, *keys: Any) -> Memory:
            type = layout.type_numbers[instance.type]
            return memories.setdefault((instance, *keys), Memory(type, self._floors, *keys))

        last = [slot for slot in self._slots if slot.is_last]
        self._searches = [_Search(layout, layout.instances[slot.at], remember) for slot in last]
        """For each type, with an event in its last slot."""
        order = _joined_in_order(layout) if len(layout.instances) > 2 else ()
        self._levels = {layout.instances.index(instance): level for level, instance in enumerate(order)}
        """The level at which a slot is joined; with two slots, nothing is."""
        self._steps = [_Step(layout, order[:level], each, remember) for level, each in enumerate(order)]
        self._states = [States(layout, order[:level], step.key) for level, step in enumerate(self._steps)]
        """For each level the partial matches up to it: for the first, the empty one."""
        for states in self._states[:1]:
            states.add(())
        self._memories: list[list[Memory]] = [
            [memory for (known, *_), memory in memories.items() if known == instance]
            for instance in layout.instances
        ]
        self._restore(held)

    @property
    def partial_matches(self) -> int:
        return sum(map(len, self._states[2:]))

    def _taken(self, event: Event, type: int, fitting: list[Slot]) -> Sequence[Event] | None:
        if self._may_match(event, fitting):
            match = self._searches[type].match(event, self._newest_first)
            if match is not None:
                self._dispose(match)
                return match
            assert not self._steps, "the network knows whether there is a match"
        self._queues[type].append(event)
        for slot in fitting:
            for memory in self._memories[slot.at]:
                memory.add(event)
        return None

    def _may_match(self, event: Event, fitting: list[Slot]) -> bool:
        """Whether a new event completes a match; with two slots, whether it stands where it could."""
        if not self._steps:
            return fitting[-1].is_last
        levels = {self._levels[slot.at] for slot in fitting}
        grown: list[Partial] = []
        for level, step in enumerate(self._steps):
            if not grown and level not in levels:
                continue
            met = step.partials_for(event, self._states[level]) if level in levels else ()
            found = chain(
                ((*partial, event) for partial in met),
                ((*partial, other) for partial in grown for other in step.events_for(partial)),
            )
            if level == len(self._steps) - 1:
                return next(found, None) is not None
            grown = [partial for partial in found if self._states[level + 1].add(partial)]
        return False

    def _dispose(self, match: Sequence[Event]) -> None:
        self._discard(match)
        if not any(self._queues):
            for memory in chain.from_iterable(self._memories):
                if memory.size:
                    memory.clear()
        if any(states.dispose(self._floors) for states in self._states):
            for states in self._states[1:]:
                states.clear()
            for step, states, longer in zip(self._steps, self._states, self._states[1:], strict=False):
                for partial in states:
                    for event in step.events_for(partial):
                        longer.add((*partial, event))


def _joined_in_order(layout: Layout) -> tuple[Instance, ...]:
    """The first slot, then always one that leaves the fewest open: joined, and compared with what is not yet."""
    around = {each: layout.neighbours(each) for each in layout.instances}
    order = {layout.instances[0]: 0}

    def cost(instance: Instance) -> tuple[int, bool, Instance]:
        joined = {*order, instance}
        is_equal = any(op is Op.EQ for _, _, op, _ in layout.ties(order, instance))
        return sum(not around[each] <= joined for each in joined), not is_equal, instance

    while len(order) < len(layout.instances):
        order[min((each for each in layout.instances if each not in order), key=cost)] = len(order)
    return tuple(order)
