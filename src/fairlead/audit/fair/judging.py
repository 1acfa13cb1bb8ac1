"""The properties of fair correlation, as programs over a run (FAIDECS 4.3 and 4.4).

    no duplication            a process delivers an event at most once for a conjunction
    no creation               it delivers only events that were multicast before, unchanged
    admission                 it delivers for its own conjunctions only, and relations that satisfy them
    event validity            an event that no comparison ties to others is eventually delivered, where the other
                              components of the conjunction continue to match
    conjunction validity      as long as relations are possible, relations are delivered
    covering agreement        of a relation that any process delivers for Φ and Ψ, where Ψ's types come after those
                              of Φ, every process with Φ delivers the part that is Φ's
    event total order         no two deliver the same two events of one type in different orders
    conjunction total order   no two deliver the same two matches of a component in different orders, whatever the
                              component is joined with
    disjunction total order   no two deliver the same two relations, of whatever conjunctions, in different orders

Safety and the orders hold or are violated. The others are liveness properties: where a run is not finished,
missing deliveries are open; `validity` defines what is checked of a finished one.

**Required deliveries.** A process that crashed or unsubscribed need not deliver any more, and the events of a
crashed process are required only where some process delivered them. A process that is established while the
system runs has a copy of the queues of one with the same subscription, and must deliver what is completed by
later multicasts. Where there was none, it begins with empty queues. It must then agree with processes that take
over from it; with others only where no event of the types had been multicast before.

**One order.** The formulas compare two processes at a time, and so allow a before b here, b before c there and c
before a elsewhere; that is reported as well. To their letter, T[2] and T could never deliver the same two events,
which the one delivers together and the other apart; so the events of one relation count in the order of its slots.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final, TypeAlias, TypeVar

from fairlead.audit.fair.history import (
    Chain,
    Component,
    FairHistory,
    Member,
    RelationDelivery,
    Shape,
    finding,
    listed,
)
from fairlead.audit.fair.run import FairRun
from fairlead.audit.fair.validity import conjunction_validity, event_validity
from fairlead.audit.history import named
from fairlead.audit.report import Finding, Report, Violation
from fairlead.model.order import Identity, strong_components

__all__ = ["PROPERTIES", "audit_fair"]

Thing = TypeVar("Thing", bound=Hashable)

Part: TypeAlias = tuple[Component | Shape, tuple[Identity, ...]]
"""The events of a match or of a relation, and the component or shape they were delivered for."""


def audit_fair(run: FairRun, *properties: str) -> Report:
    """Judge a run by the properties that are named; by all of them where none is.

    TraceRefused where no run can be like that: a process that subscribes twice, an event that is multicast twice.
    """
    unknown = set(properties) - set(PROPERTIES)
    if unknown:
        raise ValueError(f"no such property: {', '.join(sorted(unknown))}")
    history = FairHistory(run)
    return Report(tuple(PROPERTIES[name](history) for name in properties or PROPERTIES))


# -- safety ----------------------------------------------------------------------------------------------------


def _no_duplication(history: FairHistory) -> Finding:
    first: dict[tuple[str, Shape, Identity], int] = {}
    violations = []
    for each in history.deliveries:
        for number, identity in enumerate(each.identities):
            before = first.setdefault((each.process, each.shape, identity), each.index)
            if before != each.index or identity in each.identities[:number]:
                what = f"{each.process} delivered {named(identity)} again for {each.shape}"
                violations.append(Violation(what, tuple(sorted({before, each.index}))))
                break
    return finding("no duplication", violations)


def _no_creation(history: FairHistory) -> Finding:
    return finding("no creation", (found for each in history.deliveries for found in _created(each, history)))


def _created(delivery: RelationDelivery, history: FairHistory) -> Iterator[Violation]:
    for identity, event in zip(delivery.identities, delivery.relation, strict=True):
        multicast = history.multicasts.get(identity)
        what = f"{delivery.process} delivered {named(identity)}"
        if multicast is None:
            yield Violation(f"{what}, which nobody multicast", (delivery.index,))
        elif multicast.index > delivery.index:
            yield Violation(f"{what} before it was multicast", (delivery.index, multicast.index))
        elif multicast.event is not event and multicast.event != event:
            yield Violation(
                f"{what} with another content than was multicast", (multicast.index, delivery.index)
            )


def _admission(history: FairHistory) -> Finding:
    admitted: dict[tuple[Shape, tuple[int, ...]], bool] = {}
    violations = []
    for each in history.deliveries:
        # The run references its events, so addresses identify them: many processes deliver the same.
        key = each.shape, tuple(map(id, each.relation))
        if key not in admitted:
            admitted[key] = each.shape.conjunction.admits(each.relation)
        if not admitted[key]:
            violations.append(_unfit(each, "which it does not satisfy", ()))
        member = history.members.get(each.process)
        if member is None or member.subscribed > each.index:
            violations.append(_unfit(each, "without a subscription", ()))
        elif member.over is not None and member.over < each.index:
            violations.append(_unfit(each, "when its subscription was over", (member.over,)))
        elif each.shape not in member.shapes:
            violations.append(_unfit(each, "to which it did not subscribe", (member.subscribed,)))
    return finding("admission", violations)


def _unfit(delivery: RelationDelivery, why: str, proof: tuple[int, ...]) -> Violation:
    what = f"{delivery.process} delivered {delivery} for {delivery.shape}, {why}"
    return Violation(what, (*proof, delivery.index))


# -- the total orders ------------------------------------------------------------------------------------------


def _event_order(history: FairHistory) -> Finding:
    return finding("event total order", _contradictions(history.chains))


def _conjunction_order(history: FairHistory) -> Finding:
    """A part that two conjunctions share, of types that the rest of neither has, is made of common components.

    If the matches of each are in one order, so are the relations of the part, which are delivered with them.
    """
    chains: list[Chain[Part]] = []
    for (process, shape), row in history.rows.items():
        for component, indexes in shape.parts.items():
            matches: dict[Part, int] = {}
            for each in row:
                match = tuple([each.identities[index] for index in indexes])
                matches.setdefault((component, match), each.index)
            chains.append(Chain(process, shape, matches))
    return finding("conjunction total order", _contradictions(chains))


def _disjunction_order(history: FairHistory) -> Finding:
    chains: dict[str, Chain[Part]] = {}
    for each in history.deliveries:
        own = chains.setdefault(each.process, Chain(each.process, None, {}))
        own.indexes.setdefault((each.shape, each.identities), each.index)
    return finding("disjunction total order", _contradictions(chains.values()))


def _contradictions(chains: Iterable[Chain[Thing]]) -> Iterator[Violation]:
    """The chains that no one order fits: by pairs where two contradict each other, else the cycle that they make.

    Two contradict each other iff neighbours among what they have in common are reversed; both are then in one
    knot, a strong component of the graph of neighbours. One proof for each chain will do.
    """
    for knot in _knots(list(chains)):
        violations = []
        for number, own in enumerate(knot):
            for other in knot[:number]:
                if found := _reversed(own, other):
                    one, two = found
                    what = f"{own} delivered {_item(one)} before {_item(two)}, {other} in the opposite order"
                    indexes = own.indexes[one], own.indexes[two], other.indexes[two], other.indexes[one]
                    violations.append(Violation(what, indexes))
                    break
        yield from violations or [_cycle(knot)]


def _knots(chains: Sequence[Chain[Thing]]) -> list[list[Chain[Thing]]]:
    """The sets of things that no one order fits: of each, the different chains within it."""
    numbers: dict[Thing, int] = {}
    follows: list[list[int]] = []
    for each in chains:
        for thing in each.indexes:
            if thing not in numbers:
                numbers[thing] = len(follows)
                follows.append([])
        for one, two in pairwise(each.indexes):
            follows[numbers[two]].append(numbers[one])
    knot_of = {
        number: knot
        for knot, members in enumerate(part for part in strong_components(follows) if len(part) > 1)
        for number in members
    }
    if not knot_of:
        return []
    knots: dict[int, dict[tuple[Thing, ...], Chain[Thing]]] = {}
    for each in chains:
        within: dict[int, dict[Thing, int]] = {}
        for thing, index in each.indexes.items():
            if (knot := knot_of.get(numbers[thing])) is not None:
                within.setdefault(knot, {})[thing] = index
        for knot, indexes in within.items():
            knots.setdefault(knot, {}).setdefault(tuple(indexes), Chain(each.process, each.shape, indexes))
    return [list(knot.values()) for knot in knots.values()]


def _reversed(own: Chain[Thing], other: Chain[Thing]) -> tuple[Thing, Thing] | None:
    """Two that are neighbours among the common ones here, in this order, and reversed there."""
    ranks = {thing: rank for rank, thing in enumerate(other.indexes)}
    common = [thing for thing in own.indexes if thing in ranks]
    return next(((one, two) for one, two in pairwise(common) if ranks[two] < ranks[one]), None)


def _cycle(knot: Sequence[Chain[Thing]]) -> Violation:
    """A shortest path from a thing back to itself, each step the order of one process."""
    steps: dict[Thing, list[tuple[Chain[Thing], Thing]]] = {}
    for each in knot:
        for one, two in pairwise(each.indexes):
            steps.setdefault(one, []).append((each, two))
    start = next(thing for thing in knot[0].indexes if thing in steps)
    paths: deque[list[tuple[Chain[Thing], Thing, Thing]]] = deque(
        [(by, start, after)] for by, after in steps[start]
    )
    seen: set[Thing] = set()
    while paths[0][-1][2] != start:
        path = paths.popleft()
        for by, after in steps.get(path[-1][2], ()):
            if after not in seen:
                seen.add(after)
                paths.append([*path, (by, path[-1][2], after)])
    orders = ", ".join(f"{by} delivered {_item(one)} before {_item(two)}" for by, one, two in paths[0])
    return Violation(
        f"no one order fits: {orders}",
        tuple(by.indexes[thing] for by, one, two in paths[0] for thing in (one, two)),
    )


def _item(thing: Hashable) -> str:
    """An event, or the events of a match or relation with their component or shape."""
    match thing:
        case Identity():
            return named(thing)
        case (Component() | Shape(), tuple(identities)):
            return listed(identities)
    raise AssertionError(thing)


# -- agreement ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Origin:
    """The owner of the queues that a process has: a founder, whose queues are empty at an index."""

    founder: str
    index: int


_BEGINNING: Final = _Origin("", -1)
"""The origin of all processes that were established before any relevant multicast."""


def _covering_agreement(history: FairHistory) -> Finding:
    """A relation delivered for a conjunction, or as a part of one, must be delivered by all that agree on it."""
    origins = _Origins(history)
    parts = _parts(shape for member in history.members.values() for shape in member.shapes)
    owed: dict[tuple[Shape, _Origin], dict[tuple[Identity, ...], RelationDelivery]] = {}
    for (process, shape), row in history.rows.items():
        for part, indexes in parts.get(shape, ()):
            if (mind := origins.mind(process, shape, part)) is not None:
                relations = owed.setdefault((part, mind), {})
                for each in row:
                    relations.setdefault(tuple([each.identities[index] for index in indexes]), each)
    violations, open = [], 0
    for member in history.members.values():
        for shape in member.shapes if member.stays else ():
            mind = origins.mind(member.process, shape, shape)
            if mind is None:
                continue
            own = {each.identities for each in history.rows.get((member.process, shape), ())}
            for relation, by in owed.get((shape, mind), {}).items():
                if relation in own or not _completed_after(member.begun, relation, history):
                    continue
                if not history.finished:
                    open += 1
                    continue
                what = f"{member.process} never delivered {listed(relation)} for {shape}, as {by.process} did"
                extended = "" if by.shape is shape else f" for {by.shape}"
                violations.append(Violation(what + extended, (member.subscribed, by.index)))
    return finding("covering agreement", violations, open)


def _parts(shapes: Iterable[Shape]) -> dict[Shape, list[tuple[Shape, tuple[int, ...]]]]:
    """For each conjunction those that it extends to the right, and the slots of their events in its relations.

    Only to the right: mergers keep the order of the first types, whatever is merged into it (FAIDECS 5.2).
    """
    asking: dict[Component, list[Shape]] = {}
    distinct = list(dict.fromkeys(shapes))
    for shape in distinct:
        for component in shape.parts:
            asking.setdefault(component, []).append(shape)
    return {
        shape: [
            (part, shape.slots_of(part.conjunction))
            for part in dict.fromkeys(chain.from_iterable(asking[component] for component in shape.parts))
            if part.types == shape.types[: len(part.types)] and part.parts.keys() <= shape.parts.keys()
        ]
        for shape in distinct
    }


def _completed_after(index: int, relation: Sequence[Identity], history: FairHistory) -> bool:
    """Whether an event of the relation was multicast behind an index; not, where one never was."""
    multicasts = [history.multicasts.get(identity) for identity in relation]
    return all(multicasts) and any(each is not None and each.index > index for each in multicasts)


class _Origins:
    """The queues that each process began with, and where. Those of one mind have to agree."""

    def __init__(self, history: FairHistory) -> None:
        self._first = {
            type: history.multicasts[identities[0]].index for type, identities in history.by_type.items()
        }
        self._origins: dict[tuple[str, Shape], _Origin] = {}
        asking: dict[Shape, list[Member]] = {}
        for member in sorted(history.members.values(), key=lambda each: each.begun):
            for shape in member.shapes:
                earlier = asking.setdefault(shape, [])
                origin = self._origin(member, shape, earlier)
                if origin is not None:
                    self._origins[member.process, shape] = origin
                earlier.append(member)

    def mind(self, process: str, shape: Shape, part: Shape) -> _Origin | None:
        """Processes with the same result agree on a part of the conjunction; None where that is unknown.

        Where no event of the part's types had been multicast when the queues were empty, all agree. Else
        processes agree that have the same subscription and their queues from one founder.
        """
        origin = self._origins.get((process, shape))
        if origin is None or self._is_whole(origin, part):
            return origin and _BEGINNING
        return origin if part is shape else None

    def _is_whole(self, origin: _Origin, part: Shape) -> bool:
        return all(self._first.get(type, origin.index) >= origin.index for type in part.types)

    def _origin(self, member: Member, shape: Shape, earlier: list[Member]) -> _Origin | None:
        fresh = _Origin(member.process, member.begun)
        there = [each for each in earlier if each.over is None or each.over > member.subscribed]
        if not there or self._is_whole(fresh, shape):
            return fresh
        minds = {self.mind(each.process, shape, shape) for each in there}
        steady = any(
            each.begun <= member.subscribed and (each.over is None or each.over > member.begun)
            for each in there
        )
        return self._origins.get((there[0].process, shape)) if steady and len(minds) == 1 else None


PROPERTIES: Final[dict[str, Callable[[FairHistory], Finding]]] = {
    "no duplication": _no_duplication,
    "no creation": _no_creation,
    "admission": _admission,
    "event validity": event_validity,
    "conjunction validity": conjunction_validity,
    "covering agreement": _covering_agreement,
    "event total order": _event_order,
    "conjunction total order": _conjunction_order,
    "disjunction total order": _disjunction_order,
}
"""The properties by name, in the paper's order."""
