"""The orders of delivery (book 2.5.3), each as a program that yields its violations.

Orders are checked on the first delivery of a notification to a component: a repetition violates safety alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from fairlead.audit.history import Delivered, History, Publication
from fairlead.audit.report import Violation
from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.model.order import Identity, OrderKey, causes_of, strong_components

__all__ = ["agreement", "causal", "fifo", "key_rank", "keys", "number_rank", "numbers", "one_order"]


# -- FIFO-producer order (Definition 2.6) ------------------------------------------------------------------


def fifo(history: History) -> Iterator[Violation]:
    """No component is notified about two notifications of one producer in another order than published."""
    for turn in _turns(
        history, lambda notified: notified.own_producer, lambda notified: notified.publication.index
    ):
        whose = turn.behind.publication.event.component or "the same producer"
        yield turn.violation(f"which {whose} had published first")


class _Notified(NamedTuple):
    """A notification of a component, and the publication that it is about."""

    delivered: Delivered
    publication: Publication

    @property
    def own_producer(self) -> tuple[str, str]:
        return self.delivered.component, self.publication.event.component


class _Turn(NamedTuple):
    """The place where a component's notifications turn back."""

    ahead: _Notified
    behind: _Notified

    def violation(self, why: str) -> Violation:
        (one, effect), (two, cause) = self
        places = (cause.index, effect.index, one.index, two.index)
        return Violation(f"{two.component} was notified about {effect} before {cause}, {why}", places)


def _turns(
    history: History,
    slot: Callable[[_Notified], Hashable],
    rank: Callable[[_Notified], Any],
    deliveries: Iterable[Delivered] | None = None,
) -> Iterator[_Turn]:
    """The pairs of one slot in which a smaller rank follows a larger one; those without a rank are ignored."""
    ahead: dict[Hashable, tuple[Any, _Notified]] = {}
    for each in history.delivered if deliveries is None else deliveries:
        publication = history.publications.get(each.identity)
        if publication is None or (own := rank(notified := _Notified(each, publication))) is None:
            continue
        known = ahead.setdefault(slot(notified), (own, notified))
        if own < known[0]:
            yield _Turn(known[1], notified)
        else:
            ahead[slot(notified)] = own, notified


# -- the order of ordered runs -----------------------------------------------------------------------------


def keys(history: History) -> Iterator[Violation]:
    """Nobody's notifications go back in order key."""
    for turn in _turns(
        history,
        lambda notified: notified.delivered.component,
        lambda notified: key_rank(notified.delivered.key_of(notified.publication)),
        [each for each in history.notifications if each.first == each.index],
    ):
        yield turn.violation("which has the smaller order key")


def numbers(history: History) -> Iterator[Violation]:
    """Nobody's notifications go back in one producer's sequence numbers."""
    for turn in _turns(
        history,
        lambda notified: notified.own_producer,
        lambda notified: number_rank(notified.publication.key),
    ):
        yield turn.violation("which has the smaller sequence number")


def key_rank(key: OrderKey) -> tuple[Any, ...]:
    """The comparable part of an order key.

    Composites follow all other notifications of the instant at which they end; their keys do not determine their
    order among each other: their starts do.
    """
    return (key.time, True) if key.producer == PRODUCER else (key.time, False, *key.rank[1:])


def number_rank(key: OrderKey) -> tuple[int, str] | None:
    """The rank of sequence numbers: the ids where they are equal; None where there is none."""
    return None if key.sequence is None else (key.sequence, key.id)


# -- causal order (Definition 2.7) -------------------------------------------------------------------------

Clock = dict[str, int]
"""Per producer the index of its latest publication that is in the past."""


def causal(history: History) -> Iterator[Violation]:
    """No component is notified about an effect before its cause.

    The causes of a publication are all that its producer had published or had been notified about before, those
    that it names, and the causes of those. So the past contains, of each producer, all up to some index, and a
    vector of these indexes represents it exactly. (The book's formula has causes by notification only, yet its
    text has causal order imply FIFO-producer order: that requires the others.)
    """
    pasts = _pasts(history)
    known: dict[str, dict[str, tuple[int, Delivered]]] = {}
    for each in history.delivered:
        publication = history.publications.get(each.identity)
        if publication is None:
            continue
        past = known.setdefault(each.component, {})
        latest = past.get(each.identity.producer)
        if latest is not None and latest[0] >= publication.index:
            effect = history.publications[latest[1].identity]
            yield Violation(
                f"{each.component} was notified about {effect} before its cause {publication}",
                (publication.index, effect.index, latest[1].index, each.index),
            )
        for producer, index in pasts[each.identity].items():
            if producer not in past or past[producer][0] < index:
                past[producer] = index, each


def _pasts(history: History) -> dict[Identity, Clock]:
    """The past of each publication: its own producer's earlier ones included, itself not."""
    pasts: dict[Identity, Clock] = {}
    known: dict[str, Clock] = {}
    for each in history.order:
        if isinstance(each, Delivered):
            publication = history.publications.get(each.identity)
            if publication is not None and publication.index < each.index:
                known[each.component] = _joined(
                    known.get(each.component, {}), pasts[each.identity], publication
                )
            continue
        producer, identity = each.event.component, each.event.identity
        past = known.get(producer, {})
        for cause in causes_of(each.event.notification):
            if cause in pasts and cause != identity:
                past = _joined(past, pasts[cause], history.publications[cause])
        pasts[identity] = past
        known[producer] = {**past, producer: each.index}
    return pasts


def _joined(clock: Clock, past: Clock, publication: Publication) -> Clock:
    """The clock, with a publication and its past."""
    joined = dict(clock)
    for producer, index in (*past.items(), (publication.event.component, publication.index)):
        joined[producer] = max(index, joined.get(producer, index))
    return joined


# -- total order (Definition 2.8) --------------------------------------------------------------------------


def agreement(history: History) -> Iterator[Violation]:
    """No two components are notified about the same two notifications in different orders.

    Two orders of the same set differ iff some neighbours of the one are reversed in the other. Only within a
    knot, where no one order fits all, can two components disagree. One proof for each component will do.
    """
    for knot in _knots(history):
        for number, own in enumerate(knot):
            for other in knot[:number]:
                if found := _reversed(own, other):
                    one, two = found
                    yield Violation(
                        f"{own[one].component} was notified about {own[one]} before {own[two]}, "
                        f"{other[one].component} the other path round",
                        (own[one].index, own[two].index, other[two].index, other[one].index),
                    )
                    break


def one_order(history: History) -> Iterator[Violation]:
    """There is one order of all notifications that no component's notifications contradict.

    More than agreement by pairs, which is all that the book's formula requires: a before b here, b before c
    there, and c before a elsewhere agree by pairs.
    """
    for knot in _knots(history):
        steps = _cycle(knot)
        yield Violation(
            "no one order fits: "
            + ", ".join(f"{one.component} had {one} before {two}" for one, two in steps),
            tuple(each.index for step in steps for each in step),
        )


Own = dict[Identity, Delivered]
"""One component's notifications by identity, in order."""


def _knots(history: History) -> list[list[Own]]:
    """The sets of notifications that no one order fits, each as the components' notifications within it."""
    rows: dict[str, list[Delivered]] = {}
    for each in history.delivered:
        rows.setdefault(each.component, []).append(each)
    numbers = {each.identity: number for number, each in enumerate(_distinct(history))}
    follows: list[list[int]] = [[] for _ in numbers]
    for row in rows.values():
        for one, two in pairwise(row):
            follows[numbers[two.identity]].append(numbers[one.identity])
    knots = [set(component) for component in strong_components(follows) if len(component) > 1]
    return [
        [
            own
            for row in rows.values()
            if len(own := {each.identity: each for each in row if numbers[each.identity] in knot}) > 1
        ]
        for knot in knots
    ]


def _distinct(history: History) -> list[Delivered]:
    return list({each.identity: each for each in history.delivered}.values())


def _reversed(own: Own, other: Own) -> tuple[Identity, Identity] | None:
    """Two that are neighbours among the common ones here, in this order, and reversed there."""
    common = [identity for identity in own if identity in other]
    return next(
        ((one, two) for one, two in pairwise(common) if other[two].index < other[one].index),
        None,
    )


def _cycle(knot: list[Own]) -> list[tuple[Delivered, Delivered]]:
    """A shortest path from a notification of the knot back to itself, each step the order of one component."""
    steps: dict[Identity, list[tuple[Delivered, Delivered]]] = {}
    for own in knot:
        for one, two in pairwise(own.values()):
            steps.setdefault(one.identity, []).append((one, two))
    start = next(iter(knot[0]))
    paths: deque[list[tuple[Delivered, Delivered]]] = deque([[step] for step in steps[start]])
    seen: set[Identity] = set()
    while paths[0][-1][1].identity != start:
        path = paths.popleft()
        for step in steps.get(path[-1][1].identity, ()):
            if step[1].identity not in seen:
                seen.add(step[1].identity)
                paths.append([*path, step])
    return paths[0]
