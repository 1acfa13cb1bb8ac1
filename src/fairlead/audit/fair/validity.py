"""Validity: what must eventually be delivered, checked on a finite run (FAIDECS 4.3, liveness).

The paper promises that of infinitely many relations infinitely many are delivered. On a finished run, this checks
what a process had to deliver by its end.

**The order, as far as it is proved.** The order that the system established is not part of a run. Event e is
before f of the same type if some process delivered e before f, or delivered e before f was multicast.

**Conjunction validity.** When a process has delivered its last relation for Φ, the events remain that are
certainly after those of that relation. None of them was disposed of. So if each component of Φ has a match among
them, one more relation had to be delivered. Where a type has several instances, a match may depend on their
order: the verdict is open if that order is not proved, unless `LONG_ENOUGH` relations could have been delivered
in the order of multicast, and none was.

**Event validity** is judged where a type has one instance, and no comparison with others. With several, infix
disposal may discard such an event: with T[1] and T[2].x = 1, the second of T(0), T(0), T(1). An event is missing
if a later one was delivered without it, or if each other component has a further match, as above.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import chain, compress, islice, pairwise, permutations, product
from math import factorial, prod
from typing import Final, TypeAlias

from fairlead.audit.fair.history import Component, FairHistory, Member, RelationDelivery, Shape, finding
from fairlead.audit.history import named
from fairlead.audit.report import Finding, Violation
from fairlead.correlation.fair import Conjunction, Matcher, Subscription
from fairlead.model import Notification
from fairlead.model.order import Identity, identity_of

__all__ = ["LONG_ENOUGH", "conjunction_validity", "event_validity"]

LONG_ENOUGH: Final = 20
"""So many relations count as infinitely many, where nothing is proved about the order of their events."""

PERMUTATIONS_MAX: Final = 720
"""In so many orders of the instances is a relation tried, to see whether their order matters."""

Edges: TypeAlias = dict[Identity, dict[Identity, None]]


def conjunction_validity(history: FairHistory) -> Finding:
    """No relation after the last, though each component has a further match."""
    remaining = _Remaining(history)
    violations, open = [], 0
    for member, shape in _obliged(history):
        further = remaining.further(member, shape)
        sure = further.but(None)
        if sure is _Sure.NO:
            continue
        if history.finished and sure is _Sure.MAYBE:
            more = islice(remaining.events(member, shape, shape.conjunction).relations(), LONG_ENOUGH)
            sure = _Sure.YES if len(list(more)) == LONG_ENOUGH else sure
        if not history.finished or sure is _Sure.MAYBE:
            open += 1
            continue
        row = history.rows.get((member.process, shape), [])
        what = f"{member.process} delivered no relation for {shape} " + (
            f"after {row[-1]}, though there were more" if row else "though there were some"
        )
        indexes = {member.subscribed, *(each.index for each in row[-1:]), *further.indexes(history)}
        violations.append(Violation(what, tuple(sorted(indexes))))
    return finding("conjunction validity", violations, open)


def event_validity(history: FairHistory) -> Finding:
    """Events that match alone and were not delivered, though a later one was or the others have further
    matches."""
    remaining = _Remaining(history)
    violations, open = [], 0
    for member, shape in _obliged(history):
        for component in shape.parts:
            missing = remaining.missing(member, shape, component) if component.is_single else []
            lost = remaining.overtaken(missing, member, shape, component)
            sure = remaining.further(member, shape).but(component) if missing and not lost else _Sure.NO
            if sure is _Sure.YES and history.finished:
                lost = missing
            elif sure is not _Sure.NO:
                open += 1
            if lost:
                first = min(lost, key=lambda each: history.multicasts[each].index)
                more = f", nor {len(lost) - 1:,} more" if len(lost) > 1 else ""
                what = f"{member.process} never delivered {named(first)}{more} for {shape}"
                violations.append(Violation(what, (member.subscribed, history.multicasts[first].index)))
    return finding("event validity", violations, open)


def _obliged(history: FairHistory) -> Iterator[tuple[Member, Shape]]:
    """The processes that must deliver in the end, with each of their conjunctions."""
    return ((each, shape) for each in history.members.values() if each.stays for shape in each.shapes)


# -- remaining events ----------------------------------------------------------------------------------------


class _Sure(Enum):
    """Whether a component has a further match: certainly, in the order of multicast, or not that one knew."""

    YES = "yes"
    MAYBE = "maybe"
    NO = "no"


@dataclass(frozen=True, slots=True)
class _Further:
    """Whether each component has a further match, and the events that make it."""

    sure: dict[Component, _Sure]
    proof: dict[Component, tuple[Identity, ...]]

    def but(self, component: Component | None) -> _Sure:
        """Whether all components but one have a further match."""
        found = {sure for each, sure in self.sure.items() if each is not component}
        return next((each for each in (_Sure.NO, _Sure.MAYBE) if each in found), _Sure.YES)

    def indexes(self, history: FairHistory) -> Iterator[int]:
        return (history.multicasts[identity].index for match in self.proof.values() for identity in match)


class _Remaining:
    """The events that remain for a process once it has delivered its last relation for a conjunction."""

    def __init__(self, history: FairHistory) -> None:
        self._history = history
        self._proved = _Proved(history)
        self._multicast_at = {
            type: [history.multicasts[identity].index for identity in identities]
            for type, identities in history.by_type.items()
        }
        self._further: dict[tuple[Shape, int | tuple[Identity, ...]], _Further] = {}
        self._alone: dict[Component, dict[Identity, None]] = {}

    def further(self, member: Member, shape: Shape) -> _Further:
        """Whether the components have further matches; cached by the last relation."""
        row = self._history.rows.get((member.process, shape))
        key = shape, row[-1].identities if row else member.begun
        if key not in self._further:
            matches = {
                each: next(self.events(member, shape, each.conjunction).relations(), ())
                for each in shape.parts
            }
            sure = {each: self._sure(each, match) for each, match in matches.items()}
            self._further[key] = _Further(sure, matches)
        return self._further[key]

    def events(self, member: Member, shape: Shape, part: Conjunction) -> _Events:
        """The events for a part that are after the last relation, in the order of multicast."""
        row = self._history.rows.get((member.process, shape), [])
        found: set[Identity] = set()
        for type, _ in part.counts:
            if row:
                last = _last(row[-1], type)
                found.update(self._multicast_after(type, self._history.first_delivered[last]))
                found |= self._proved.behind(last) & self._history.multicasts.keys()
            else:
                found.update(self._multicast_after(type, member.begun))
        for each in row:
            found.difference_update(each.identities)
        multicasts = sorted(
            (self._history.multicasts[each] for each in found if self._history.is_certain(each)),
            key=lambda each: each.index,
        )
        return _Events(Subscription((part,)), [each.event for each in multicasts])

    def missing(self, member: Member, shape: Shape, component: Component) -> list[Identity]:
        """The events that fit a component of one event, were to reach the process, and were not delivered."""
        if component not in self._alone:
            self._alone[component] = dict.fromkeys(self._fitting(component))
        absent = self._alone[component].keys() - set(self._delivered(member, shape, component))
        return [each for each in absent if self._history.multicasts[each].index > member.begun]

    def overtaken(
        self, missing: Iterable[Identity], member: Member, shape: Shape, component: Component
    ) -> list[Identity]:
        """The missing events that are certainly before a delivered one."""
        known = [each for each in missing if each in self._history.first_delivered]
        if not known:
            return []
        delivered = self._delivered(member, shape, component)
        return self._proved.before(delivered[-1], known) if delivered else []

    def _multicast_after(self, type: str, index: int) -> list[Identity]:
        multicasts = self._history.by_type.get(type, [])
        return multicasts[bisect_right(self._multicast_at.get(type, []), index) :]

    def _delivered(self, member: Member, shape: Shape, component: Component) -> list[Identity]:
        [index] = shape.parts[component]
        return [each.identities[index] for each in self._history.rows.get((member.process, shape), ())]

    def _fitting(self, component: Component) -> Iterator[Identity]:
        """The events that satisfy a component of one event, and are in the established order."""
        [type] = component.conjunction.signature
        for identity in self._history.by_type.get(type, ()):
            event = self._history.multicasts[identity].event
            if self._history.is_certain(identity) and component.conjunction.holds((event,)):
                yield identity

    def _sure(self, component: Component, match: Sequence[Identity]) -> _Sure:
        """Certain is a match whose instances were received in this order, or match in every order."""
        if not match:
            return _Sure.NO
        instances: dict[str, list[Identity]] = {}
        for identity, type in zip(match, component.conjunction.signature, strict=True):
            instances.setdefault(type, []).append(identity)
        free = [
            not all(self._proved.precedes(*pair) for pair in pairwise(each)) for each in instances.values()
        ]
        if prod(factorial(len(each)) for each in compress(instances.values(), free)) > PERMUTATIONS_MAX:
            return _Sure.MAYBE
        orders = product(
            *(
                permutations(each) if is_free else [each]
                for each, is_free in zip(instances.values(), free, strict=True)
            )
        )
        multicasts = self._history.multicasts
        relations = (
            [multicasts[identity].event for identity in chain.from_iterable(order)] for order in orders
        )
        return _Sure.YES if all(map(component.conjunction.holds, relations)) else _Sure.MAYBE


@dataclass(frozen=True, slots=True)
class _Events:
    """The remaining events, and the subscription that they may match."""

    subscription: Subscription
    events: list[Notification]

    def relations(self) -> Iterator[tuple[Identity, ...]]:
        """The relations that would be delivered, were the events received as they were multicast."""
        matcher = Matcher(self.subscription)
        for event in self.events:
            for relation in matcher.feed(event):
                yield tuple([identity_of(each) for each in relation.events])


def _last(delivery: RelationDelivery, type: str) -> Identity:
    """The last event of a type in a relation, which disposes of all before it."""
    signature = delivery.shape.conjunction.signature
    return delivery.identities[len(signature) - 1 - signature[::-1].index(type)]


# -- the order, as far as it is proved ----------------------------------------------------------------------------


class _Proved:
    """The events of a type that are certainly before others."""

    def __init__(self, history: FairHistory) -> None:
        self._history = history
        self._ancestors: dict[Identity, tuple[set[Identity], int]] = {}

    def precedes(self, one: Identity, two: Identity) -> bool:
        first = self._history.first_delivered.get(one)
        return first is not None and (first < self._history.multicasts[two].index or two in self.behind(one))

    def behind(self, identity: Identity) -> set[Identity]:
        """The events that some process delivered after it."""
        return _reached(identity, self._followers) - {identity}

    def before(self, identity: Identity, known: Iterable[Identity]) -> list[Identity]:
        """Of some delivered events, those before it, or before one that is."""
        if identity not in self._ancestors:
            found = _reached(identity, self._leaders)
            multicasts = [
                self._history.multicasts[each].index for each in found if each in self._history.multicasts
            ]
            self._ancestors[identity] = found, max(multicasts, default=-1)
        ancestors, multicast_at = self._ancestors[identity]
        return [
            each for each in known if each in ancestors or self._history.first_delivered[each] < multicast_at
        ]

    @cached_property
    def _followers(self) -> Edges:
        """For each event those that some process delivered next of its type, for some conjunction."""
        return _edges(pair for each in self._history.chains for pair in pairwise(each.indexes))

    @cached_property
    def _leaders(self) -> Edges:
        return _edges((two, one) for one, others in self._followers.items() for two in others)


def _edges(pairs: Iterable[tuple[Identity, Identity]]) -> Edges:
    edges: Edges = {}
    for one, two in pairs:
        edges.setdefault(one, {})[two] = None
    return edges


def _reached(start: Identity, edges: Edges) -> set[Identity]:
    found, ahead = {start}, [start]
    while ahead:
        for each in edges.get(ahead.pop(), ()):
            if each not in found:
                found.add(each)
                ahead.append(each)
    return found
