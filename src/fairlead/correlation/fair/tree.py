"""A component whose comparisons form a tree: partial matches are never made, only who has whom is known.

    A ── B ── C           b is *offered* to A iff some c compares with it; and to C iff some a does
         │                a match is there when an event arrives to which every neighbour offers something
         D

Where types have one instance each and the pairs that are compared form a tree, a match exists for an event iff it
does on every branch by itself. So it is enough to know, from each place towards each neighbour, which events have
support in all other directions; for an inequality the best value among them answers. What arrives changes that
only where it is better than what was there. What a network of joins would write out as partial matches, up to the
product of the queues, is here the sum of the queues.

The match itself is looked for when there is one, and so without going back: of the events that take part in some
match, the first of the first place is taken, what does not go with it is left out, and so on in the order of the
signature.

Law: a tree matches what a network matches, and holds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import ge, gt, le, lt, ne
from typing import Any, Final

from fairlead.correlation.fair.component import COMPARE, Choice, Component, Event, Layout, Place
from fairlead.correlation.fair.network import Network
from fairlead.correlation.fair.subscriptions import MIRRORED, Comparison, Conjunction
from fairlead.filters import Op
from fairlead.model import Key, Notification

__all__ = ["Tree", "component_of"]

_BEST: Final = {lt: min, le: min, gt: max, ge: max}
"""Of what is offered and has to be less than something, the least is the best; and so on."""


def component_of(
    component: Conjunction, choice: Choice = Choice.FIRST_RECEIVED, held: Iterable[Notification] = ()
) -> Component:
    """What matches a component: a tree where it is one and of several joins, a network otherwise."""
    is_simple = len(component.counts) < 3  # a single join has no partial matches
    return (Tree if _is_tree(component) and not is_simple else Network)(component, choice, held)


def _is_tree(component: Conjunction) -> bool:
    """Whether each type has one instance and, as the component is connected, there is one pair less than types."""
    pairs = {_pair(each) for each in component.comparisons if not each.is_unary}
    return all(count == 1 for _, count in component.counts) and len(pairs) == len(component.counts) - 1


def _pair(comparison: Comparison) -> frozenset[Any]:
    return frozenset({comparison.left.instance, comparison.right.instance})


class _Offer:
    """The events of a place that have support in all directions but that of the neighbour they are offered to."""

    __slots__ = ("_best", "_buckets", "_comparisons", "_equal", "_exact", "_inequality", "_marks", "numbers")

    def __init__(self, comparisons: Sequence[tuple[int, Op, int]]) -> None:
        """A comparison: which key of what is offered, compared how, with which key of the neighbour's."""
        self._equal = [(own, other) for own, op, other in comparisons if op is Op.EQ]
        self._comparisons = [(own, COMPARE[op], other) for own, op, other in comparisons if op is not Op.EQ]
        self._inequality = next((each for each in self._comparisons if each[1] is not ne), None)
        self._best = min if self._inequality is None else _BEST[self._inequality[1]]
        self._exact = self._comparisons == ([] if self._inequality is None else [self._inequality])
        """Whether the best one under a key is all that matters."""
        self.clear()

    def clear(self) -> None:
        self._buckets: dict[Any, list[Event]] = {}
        self._marks: dict[Any, Key] = {}
        self.numbers: set[int] = set()

    def add(self, event: Event) -> bool:
        """Offer one more event; whether that can be of use to anybody."""
        self.numbers.add(event[0])
        keys = event[1]
        key: Any = tuple([keys[own] for own, _ in self._equal])
        if self._inequality is not None:
            mark = keys[self._inequality[0]]
            key = (*key, mark[:1])
            known = self._marks.get(key)
            best = self._marks[key] = mark if known is None else self._best(known, mark)
            is_better = best != known
        else:
            is_better = key not in self._buckets
        if self._exact and key in self._buckets:
            return is_better
        self._buckets.setdefault(key, []).append(event)
        return is_better or not self._exact

    def has_for(self, event: Event) -> bool:
        """Whether something goes with an event of the neighbour's."""
        keys = event[1]
        key: Any = tuple([keys[other] for _, other in self._equal])
        if self._inequality is not None:
            _, compare, other = self._inequality
            key = (*key, keys[other][:1])
            mark = self._marks.get(key)
            if mark is None or not compare(mark, keys[other]):
                return False
        bucket = self._buckets.get(key)
        if bucket is None:
            return False
        return self._exact or any(self.goes_with(each, event) for each in bucket)

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
        for name in ("_equal", "_comparisons", "_inequality", "_best", "_exact"):
            setattr(offer, name, getattr(self, name))
        offer.clear()
        return offer


class Tree(Component):
    """A component whose comparisons form a tree over its types. A place is a type here."""

    def __init__(
        self,
        component: Conjunction,
        choice: Choice = Choice.FIRST_RECEIVED,
        held: Iterable[Notification] = (),
    ) -> None:
        assert _is_tree(component), "comparisons go round in a circle, or a type has several instances"
        layout = Layout(component)
        super().__init__(layout, choice)
        self._offers: dict[tuple[int, int], _Offer] = {}
        """From a place to a neighbour."""
        self._neighbours: list[list[int]] = [[] for _ in self._names]
        for place, neighbour, comparisons in _compared(layout):
            self._offers[place, neighbour] = _Offer(comparisons)
            self._neighbours[place].append(neighbour)
        self._inwards = sorted(self._offers, key=lambda pair: self._depth(*pair))
        """Pairs, each behind those that what is offered there depends on."""
        self._restore(held)

    def _depth(self, place: int, neighbour: int) -> int:
        return 1 + max(
            (self._depth(each, place) for each in self._neighbours[place] if each != neighbour), default=0
        )

    @property
    def partial_matches(self) -> int:
        return 0

    def _taken(self, event: Event, type: int, fitting: list[Place]) -> Sequence[Event] | None:
        lacking = [each for each in self._neighbours[type] if not self._offers[each, type].has_for(event)]
        if not lacking:
            match = self._first(event, type)
            self._discard(match)
            self._offer_again()
            return match
        self._queues[type].append(event)
        if len(lacking) == 1:
            self._offer(event, type, lacking[0])
        return None

    def _offer(self, event: Event, place: int, neighbour: int) -> None:
        """Offer an event to a neighbour, and to others what thereby has support."""
        offered = [(event, place, neighbour)]
        while offered:
            one, place, neighbour = offered.pop()
            offer = self._offers[place, neighbour]
            if not offer.add(one):
                continue
            for further in self._neighbours[neighbour]:
                if further != place:
                    known = self._offers[neighbour, further].numbers
                    offered += (
                        (each, neighbour, further)
                        for each in self._queues[neighbour]
                        if each[0] not in known
                        and offer.goes_with(one, each)
                        and self._is_supported(each, neighbour, further)
                    )

    def _is_supported(self, event: Event, place: int, but: int) -> bool:
        """Whether an event is offered something by all neighbours but one."""
        return all(
            self._offers[each, place].has_for(event) for each in self._neighbours[place] if each != but
        )

    def _offer_again(self) -> None:
        """Offer what is left, after a match has taken what it took."""
        for place, neighbour in self._inwards:
            offer = self._offers[place, neighbour]
            offer.clear()
            for event in self._queues[place]:
                if self._is_supported(event, place, neighbour):
                    offer.add(event)

    def _first(self, event: Event, place: int) -> list[Event]:
        """The match to take of those with an event: there is one."""
        candidates: list[list[Event]] = [[] for _ in self._names]
        candidates[place] = [event]
        towards = [(each, place) for each in self._neighbours[place]]
        for each, back in towards:  # grows as it goes outwards
            known = self._offers[each, back].numbers
            candidates[each] = [event for event in self._queues[each] if event[0] in known]
            towards += ((further, each) for further in self._neighbours[each] if further != back)
        self._narrow(candidates, place, everywhere=True)
        for each in range(len(candidates)):
            if len(candidates[each]) > 1:
                candidates[each] = [candidates[each][-1 if self._newest_first else 0]]
                self._narrow(candidates, each)
        return [events[0] for events in candidates]

    def _narrow(self, candidates: list[list[Event]], place: int, *, everywhere: bool = False) -> None:
        """Leave out what goes with none of a place's candidates; then what went with that only, and so on.

        Where nothing is left out, all beyond goes together still; `everywhere` does not rely on that.
        """
        outwards = [(place, each) for each in self._neighbours[place]]
        for here, there in outwards:
            offer = self._offers[here, there].fresh()
            for event in candidates[here]:
                offer.add(event)
            left = [event for event in candidates[there] if offer.has_for(event)]
            if everywhere or len(left) < len(candidates[there]):
                candidates[there] = left
                outwards += ((there, each) for each in self._neighbours[there] if each != here)


def _compared(layout: Layout) -> Iterable[tuple[int, int, list[tuple[int, Op, int]]]]:
    """Places that are compared, in either direction: from, to, and how."""
    pairs: dict[tuple[int, int], list[tuple[int, Op, int]]] = {}
    for each in layout.component.comparisons:
        if not each.is_unary:
            left, right = (layout.type_numbers[side.instance.type] for side in (each.left, each.right))
            one, other = layout.key_index(each.left), layout.key_index(each.right)
            pairs.setdefault((left, right), []).append((one, each.op, other))
            pairs.setdefault((right, left), []).append((other, MIRRORED[each.op], one))
    return [(place, neighbour, comparisons) for (place, neighbour), comparisons in pairs.items()]
