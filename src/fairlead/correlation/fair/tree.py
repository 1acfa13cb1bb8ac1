"""A component whose comparisons form a tree. It makes no partial matches: each event only knows its
partners.

    A ── B ── C           b is *offered* to A iff some c compares with it; and to C iff some a does
         │                a match is there when an event arrives to which every neighbour offers something
         D

Where types have one instance each and the pairs that are compared form a tree, a match exists for an event iff it
does on every branch by itself. So it is enough to know, from each slot towards each neighbour, which events have
support in all other directions; for an inequality the best value among them answers. What arrives changes that
only where it is better than what was there. What a network of joins would write out as partial matches, up to the
product of the queues, is here the sum of the queues.

The match itself is looked for when there is one, and so without going back: of the events that take part in some
match, the first of the first slot is taken, what does not go with it is left out, and so on in the order of the
signature.

Law: a tree matches what a network matches, and holds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import ge, gt, le, lt, ne
from typing import Any, Final

from fairlead.correlation.fair.component import COMPARE, Choice, Component, Event, Layout, Slot
from fairlead.correlation.fair.network import Network
from fairlead.correlation.fair.subscriptions import MIRRORED, Comparison, Conjunction
from fairlead.filters import Op
from fairlead.model import Key, Notification

__all__ = ["Tree", "compared", "component_of", "is_tree"]

_BETTER: Final = {lt: lt, le: lt, gt: gt, ge: gt}
"""Of what is offered and has to be less than something, what is less is better; and so on."""
_NO_MARK: Final[Key] = (0,)


def component_of(
    component: Conjunction, choice: Choice = Choice.FIRST_RECEIVED, held: Iterable[Notification] = ()
) -> Component:
    """The engine of a component: a tree if it is one and has several joins, otherwise a network."""
    is_simple = len(component.counts) < 3  # a single join has no partial matches
    return (Tree if is_tree(component) and not is_simple else Network)(component, choice, held)


def is_tree(component: Conjunction) -> bool:
    """Whether each type has one instance and, as the component is connected, there is one pair less than types."""
    pairs = {_pair(each) for each in component.comparisons if not each.is_unary}
    return all(count == 1 for _, count in component.counts) and len(pairs) == len(component.counts) - 1


def _pair(comparison: Comparison) -> frozenset[Any]:
    return frozenset({comparison.left.instance, comparison.right.instance})


class _Offer:
    """The events of a slot that have support in all directions but that of the neighbour they are offered to.

    Where the best one under a key is all that matters, those are kept that are better than all that came later:
    when one is disposed of, with all before it, the next one is the best.
    """

    __slots__ = (
        *("_buckets", "_comparisons", "_equal", "_inequality", "_is_better", "_lasting"),
        *("is_exact", "numbers"),
    )

    def __init__(self, comparisons: Sequence[tuple[int, Op, int]]) -> None:
        """A comparison: which key of what is offered, compared how, with which key of the neighbour's."""
        self._equal = [(own, other) for own, op, other in comparisons if op is Op.EQ]
        self._comparisons = [(own, COMPARE[op], other) for own, op, other in comparisons if op is not Op.EQ]
        self._inequality = next((each for each in self._comparisons if each[1] is not ne), None)
        self._is_better = None if self._inequality is None else _BETTER[self._inequality[1]]
        self.is_exact = self._comparisons == ([] if self._inequality is None else [self._inequality])
        """Whether the best one under a key is all that matters."""
        self.clear()

    def clear(self) -> None:
        self._lasting: dict[Any, list[tuple[int, Key]]] = {}
        """Under a key the numbers and marks, in order, of those that are better than all later ones."""
        self._buckets: dict[Any, list[Event]] = {}
        """Under a key all of them, where more than the best matters."""
        self.numbers: set[int] = set()

    def _keyed(self, event: Event) -> tuple[Any, Key]:
        """The key under which an event is offered, and the mark that tells how good it is."""
        keys = event[1]
        key: Any = tuple([keys[own] for own, _ in self._equal])
        if self._inequality is None:
            return key, _NO_MARK
        mark = keys[self._inequality[0]]
        return (*key, mark[:1]), mark

    def add(self, event: Event) -> bool:
        """Offer one more event; whether that can be of use to anybody."""
        number = event[0]
        self.numbers.add(number)
        key, mark = self._keyed(event)
        if not self.is_exact:
            self._buckets.setdefault(key, []).append(event)
        lasting, is_better = self._lasting.setdefault(key, []), self._is_better
        best = lasting[0][1] if lasting else None
        at = len(lasting)
        while at and lasting[at - 1][0] > number:
            at -= 1
        if at < len(lasting) and (is_better is None or not is_better(mark, lasting[at][1])):
            return not self.is_exact  # a later one is as good
        first = at
        while first and (is_better is None or not is_better(lasting[first - 1][1], mark)):
            first -= 1
        lasting[first:at] = [(number, mark)]
        return not self.is_exact or lasting[0][1] != best

    def remove(self, event: Event) -> bool:
        """One has been disposed of, as have all before it; whether that can be to anybody's disadvantage."""
        if event[0] not in self.numbers:
            return False
        self.numbers.discard(event[0])
        key, _ = self._keyed(event)
        if not self.is_exact:
            self._buckets[key] = [each for each in self._buckets[key] if each[0] != event[0]]
        lasting = self._lasting[key]
        best, gone = lasting[0][1], 0
        while gone < len(lasting) and lasting[gone][0] <= event[0]:
            gone += 1
        del lasting[:gone]
        if not lasting:
            del self._lasting[key]
            return True
        return not self.is_exact or lasting[0][1] != best

    @property
    def best(self) -> dict[Any, Key]:
        """The best mark under each key."""
        return {key: lasting[0][1] for key, lasting in self._lasting.items()}

    def has_for(self, event: Event) -> bool:
        """Whether something goes with an event of the neighbour's."""
        keys = event[1]
        key: Any = tuple([keys[other] for _, other in self._equal])
        if self._inequality is not None:
            _, compare, other = self._inequality
            key = (*key, keys[other][:1])
            lasting = self._lasting.get(key)
            if lasting is None or not compare(lasting[0][1], keys[other]):
                return False
        elif key not in self._lasting:
            return False
        return self.is_exact or any(self.goes_with(each, event) for each in self._buckets[key])

    def goes_with(self, offered: Event, event: Event) -> bool:
        """Whether the two compare as asked."""
        keys, others = offered[1], event[1]
        for own, other in self._equal:
            if keys[own] != others[other]:
                return False
        for own, compare, other in self._comparisons:
            left, right = keys[own], others[other]
            if left[0] != right[0] or not compare(left, right):
                return False
        return True

    def fresh(self) -> _Offer:
        """The same comparisons, and nothing offered."""
        offer: _Offer = object.__new__(_Offer)
        for name in ("_equal", "_comparisons", "_inequality", "_is_better", "is_exact"):
            setattr(offer, name, getattr(self, name))
        offer.clear()
        return offer


class Tree(Component):
    """A component whose comparisons form a tree over its types. A slot is a type here."""

    def __init__(
        self,
        component: Conjunction,
        choice: Choice = Choice.FIRST_RECEIVED,
        held: Iterable[Notification] = (),
    ) -> None:
        assert is_tree(component), "comparisons form a cycle, or a type has several instances"
        layout = Layout(component)
        super().__init__(layout, choice)
        self._offers: dict[tuple[int, int], _Offer] = {}
        """From a slot to a neighbour."""
        self._neighbours: list[list[int]] = [[] for _ in self._names]
        for slot, neighbour, comparisons in compared(layout):
            self._offers[slot, neighbour] = _Offer(comparisons)
            self._neighbours[slot].append(neighbour)
        self._inwards = sorted(self._offers, key=lambda pair: self._depth(*pair))
        """Pairs, each behind those that what is offered there depends on."""
        self._restore(held)

    def _depth(self, slot: int, neighbour: int) -> int:
        return 1 + max(
            (self._depth(each, slot) for each in self._neighbours[slot] if each != neighbour), default=0
        )

    @property
    def partial_matches(self) -> int:
        return 0

    def _taken(self, event: Event, type: int, fitting: list[Slot]) -> Sequence[Event] | None:
        lacking = [each for each in self._neighbours[type] if not self._offers[each, type].has_for(event)]
        if not lacking:
            match = self._first(event, type)
            self._offer_less(self._discard(match))
            return match
        self._queues[type].append(event)
        if len(lacking) == 1:
            self._offer(event, type, lacking[0])
        return None

    def _offer(self, event: Event, slot: int, neighbour: int) -> None:
        """Offer an event to a neighbour, and to others what thereby has support."""
        offered = [(event, slot, neighbour)]
        while offered:
            one, slot, neighbour = offered.pop()
            offer = self._offers[slot, neighbour]
            if not offer.add(one):
                continue
            for further in self._neighbours[neighbour]:
                if further != slot:
                    known = self._offers[neighbour, further].numbers
                    offered += (
                        (each, neighbour, further)
                        for each in self._queues[neighbour]
                        if each[0] not in known
                        and offer.goes_with(one, each)
                        and self._is_supported(each, neighbour, further)
                    )

    def _is_supported(self, event: Event, slot: int, but: int) -> bool:
        """Whether an event is offered something by all neighbours but one."""
        return all(self._offers[each, slot].has_for(event) for each in self._neighbours[slot] if each != but)

    def _offer_less(self, gone: Iterable[tuple[int, Event]]) -> None:
        """Offer what is left, after some have been disposed of: what had support by these only has none now."""
        worse = set()
        for slot, event in gone:
            for neighbour in self._neighbours[slot]:
                if self._offers[slot, neighbour].remove(event):
                    worse.add((slot, neighbour))
        for slot, neighbour in self._inwards:
            if all((each, slot) not in worse for each in self._neighbours[slot] if each != neighbour):
                continue
            offer = self._offers[slot, neighbour]
            best = offer.best
            offer.clear()
            for event in self._queues[slot]:
                if self._is_supported(event, slot, neighbour):
                    offer.add(event)
            if not offer.is_exact or offer.best != best:
                worse.add((slot, neighbour))

    def _first(self, event: Event, slot: int) -> list[Event]:
        """The match to take of those with an event: there is one.

        What stands at the end of a branch is looked for only when it is its turn. The first that goes with others
        is taken, and those before it are disposed of with it: so nobody is passed over twice.
        """
        ends = {each for each, near in enumerate(self._neighbours) if len(near) == 1} - {slot}
        candidates: list[list[Event]] = [[] for _ in self._names]
        candidates[slot] = [event]
        towards = [(each, slot) for each in self._neighbours[slot]]
        for each, back in towards:  # grows as it goes outwards
            if each not in ends:
                known = self._offers[each, back].numbers
                candidates[each] = [event for event in self._queues[each] if event[0] in known]
                towards += ((further, each) for further in self._neighbours[each] if further != back)
        self._narrow(candidates, slot, everywhere=True)
        for each in range(len(candidates)):
            if each in ends:
                candidates[each] = [self._first_at(each, candidates[self._neighbours[each][0]])]
                self._narrow(candidates, each)
            elif len(candidates[each]) > 1:
                candidates[each] = [candidates[each][-1 if self._newest_first else 0]]
                self._narrow(candidates, each)
        return [events[0] for events in candidates]

    def _first_at(self, end: int, candidates: Iterable[Event]) -> Event:
        """The first event at the end of a branch that goes with one of its neighbour's candidates."""
        offer = self._offers[self._neighbours[end][0], end].fresh()
        for each in candidates:
            offer.add(each)
        queue = self._queues[end]
        return next(filter(offer.has_for, reversed(queue) if self._newest_first else queue))

    def _narrow(self, candidates: list[list[Event]], slot: int, *, everywhere: bool = False) -> None:
        """Leave out what goes with none of a slot's candidates; then what went with that only, and so on.

        Where nothing is left out, all beyond goes together still; `everywhere` does not rely on that.
        """
        outwards = [(slot, each) for each in self._neighbours[slot]]
        for here, there in outwards:
            if not candidates[there]:
                continue  # the end of a branch, whose turn has not come
            offer = self._offers[here, there].fresh()
            for event in candidates[here]:
                offer.add(event)
            left = [event for event in candidates[there] if offer.has_for(event)]
            if everywhere or len(left) < len(candidates[there]):
                candidates[there] = left
                outwards += ((there, each) for each in self._neighbours[there] if each != here)


def compared(layout: Layout) -> Iterable[tuple[int, int, list[tuple[int, Op, int]]]]:
    """Places that are compared, in either direction: from, to, and how."""
    pairs: dict[tuple[int, int], list[tuple[int, Op, int]]] = {}
    for each in layout.component.comparisons:
        if not each.is_unary:
            left, right = (layout.type_numbers[side.instance.type] for side in (each.left, each.right))
            one, other = layout.key_index(each.left), layout.key_index(each.right)
            pairs.setdefault((left, right), []).append((one, each.op, other))
            pairs.setdefault((right, left), []).append((other, MIRRORED[each.op], one))
    return [(slot, neighbour, comparisons) for (slot, neighbour), comparisons in pairs.items()]
