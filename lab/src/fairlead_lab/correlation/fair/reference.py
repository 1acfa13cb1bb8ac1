"""The definition, short and slow; and the paper's Figure 1 to the letter, which is not the same.

    deliveries    what a conjunction delivers, straight from the definition: the oracle of the network
    figure_1      what the search of Figure 1 delivers: it breaks covering agreement, as a test shows

Both take the events in the established order and give relations with the number of the event that completed each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import TypeAlias

from fairlead.correlation.fair.subscriptions import TYPE, Conjunction, Instance, Predicate
from fairlead.model import Notification

__all__ = ["deliveries", "figure_1", "matches"]

Completed: TypeAlias = tuple[int, tuple[Notification, ...]]
"""The number of the event that completed a relation, counted from 0, and the relation."""


def deliveries(
    conjunction: Conjunction, events: Sequence[Notification], *, most_recent: bool = False
) -> list[Completed]:
    """The n-th delivery joins the n-th matches of the components, and comes with the last of them."""
    components = conjunction.components
    found = [matches(each, events, most_recent=most_recent) for each in components]
    instances = [instance for each in components for instance in each.instances]
    joined = []
    for nth in zip(*found, strict=False):
        relation = [event for _, match in nth for event in match]
        in_order = sorted(zip(instances, relation, strict=True), key=lambda placed: placed[0])
        joined.append((max(at for at, _ in nth), tuple(event for _, event in in_order)))
    return joined


def matches(
    component: Conjunction, events: Sequence[Notification], *, most_recent: bool = False
) -> list[Completed]:
    """The matches of a component: as soon as it can, the first relation, with prefix and infix disposal."""
    queues: dict[str, list[int]] = {type: [] for type, _ in component.counts}
    found = []
    for at, event in enumerate(events):
        if (type := event.get(TYPE)) not in queues:
            continue
        queues[type].append(at)
        choices = (combinations(queues[type], count) for type, count in component.counts)
        relations = (tuple(number for chosen in each for number in chosen) for each in product(*choices))
        satisfying = [each for each in relations if component.holds([events[number] for number in each])]
        if satisfying:
            match = max(satisfying) if most_recent else min(satisfying)
            found.append((at, tuple(events[number] for number in match)))
            last = {str(events[number].get(TYPE)): number for number in match}
            queues = {
                type: [number for number in queue if number > last[type]] for type, queue in queues.items()
            }
    return found


def figure_1(conjunction: Conjunction, events: Iterable[Notification]) -> list[Completed]:
    """Figure 1 for one conjunction: one search over all its types, connected or not."""
    signature = conjunction.signature
    queues: dict[str, list[Notification]] = {type: [] for type in signature}

    def match(chosen: tuple[Notification, ...], after: int) -> tuple[Notification, ...]:
        type = signature[len(chosen)]
        for place, event in enumerate(queues[type][after:], after):
            extended = (*chosen, event)
            if len(extended) == len(signature):
                relation = extended if conjunction.holds(extended) else ()
            else:
                relation = match(extended, place + 1 if signature[len(extended)] == type else 0)
            if relation:
                return relation
        return ()

    found = []
    for at, event in enumerate(events):
        if not _enqueued(event, conjunction):
            continue
        queues[str(event.get(TYPE))].append(event)
        relation = match((), 0)
        if relation:
            found.append((at, relation))
            for taken in relation:
                queue = queues[str(taken.get(TYPE))]
                del queue[: next((n + 1 for n, each in enumerate(queue) if each is taken), 0)]
    return found


def _enqueued(event: Notification, conjunction: Conjunction) -> bool:
    """Whether an event satisfies the unary predicates of some instance of its type."""
    return any(_fits(event, instance, conjunction) for instance in _instances(event, conjunction))


def _instances(event: Notification, conjunction: Conjunction) -> Iterator[Instance]:
    return (each for each in conjunction.instances if each.type == event.get(TYPE))


def _fits(event: Notification, instance: Instance, conjunction: Conjunction) -> bool:
    alone = [event] * instance.index
    unary: list[Predicate] = [each for each in conjunction.restrictions if each.instance == instance]
    unary += [each for each in conjunction.comparisons if each.is_unary and each.left.instance == instance]
    return all(each.holds(alone) for each in unary)
