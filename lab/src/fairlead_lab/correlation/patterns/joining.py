"""Putting parts together: the matches of a decomposed pattern, from those of its parts (book 7.5.2).

    detector = SubpatternDetector(engine, pattern, split, elsewhere={"part-1f…"})
    detector.feed(occurrence)         for the parts that are detected here
    detector.hear(notification)       a match of a part that was found elsewhere
    detector.advance(bound)           all composites that end before a time, as notifications

Law: whichever parts are detected elsewhere, the composites are those of the whole pattern.

A match of a part is a composite that also says where its elements stand, and from which points of the stream it is
a match (`Head`). Matches are put together at the place of their end, so a chain meets its first part before its
second, and what is taken is decided as for the whole: end by end, in the order of the constituents.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import product
from typing import Any, Final, TypeAlias

from fairlead.correlation.kernel import Engine
from fairlead.correlation.occurrences import Occurrence, Rank, rank_from_json
from fairlead.correlation.patterns.composites import Composite
from fairlead.correlation.patterns.conditions import fold_of, outputs, plan_conditions, tester
from fairlead.correlation.patterns.detector import Detector
from fairlead.correlation.patterns.model import Atom, Condition, Pattern, Reference, Take, Within, atoms
from fairlead.correlation.patterns.moving import FIRST_OF_ALL
from fairlead.model import ABSENT, Kind, Notification, Record, key_of, kind_of
from fairlead.model.encoding import notification_from_json, notification_to_json
from fairlead.model.order import BEGINNING
from fairlead_lab.correlation.patterns.decomposition import (
    Chain,
    Leaf,
    Parallel,
    Split,
    Tree,
    Union,
    Window,
    head_of,
    is_part,
)

__all__ = ["End", "Head", "Match", "SubpatternDetector"]

Key: TypeAlias = tuple[Hashable, ...]
Moment: TypeAlias = tuple[Any, ...]
"""The values that ≺ compares: time events go off behind all occurrences that end at their instant."""
_MATCH: Final = "match"
"""The attribute under which a composite of a part says where its elements stand."""


# -- matches of parts --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class End:
    """The last element of a match: an occurrence, by its rank, or a time event."""

    start: int
    end: int
    rank: Rank | None

    @classmethod
    def of(cls, occurrence: Occurrence) -> End:
        """The end of what an occurrence ends."""
        return cls(occurrence.start, occurrence.end, occurrence.rank)

    @property
    def moment(self) -> Moment:
        """The moment at which it stands."""
        return (self.end, 1) if self.rank is None else _moment_of(self.rank)

    @property
    def is_point(self) -> bool:
        """Whether it has no extent in time."""
        return self.start == self.end

    def precedes(self, occurrence: Occurrence) -> bool:
        """Whether an occurrence that comes later strongly follows it."""
        return self.end < occurrence.start or (
            self.end == occurrence.start and self.is_point and occurrence.is_point
        )


@dataclass(frozen=True, slots=True)
class Head:
    """From which points a match is one: its first element is the first beyond them that its atom cares for.

    An atom cares for what it takes and for what it fails on.
    """

    first: End
    before: Rank | None
    """The last element before it that the atom cares for."""
    latest: int
    """When the latest of those before it started."""
    point: Rank | None
    """The last of those before it that is a point."""

    def admits(self, p: End, *, strong: bool) -> bool:
        """Whether the match is one from an element on, weakly or strongly."""
        first = self.first
        if not p.moment < first.moment:
            return False
        if not strong:
            return self.before is None or _moment_of(self.before) <= p.moment
        if not (p.end < first.start or (p.is_point and first.is_point and p.end == first.end)):
            return False
        # None of those before it strongly follows p: neither by its start, nor as a point of the same instant.
        if self.latest > p.end:
            return False
        return not (
            p.is_point
            and self.point is not None
            and self.point[0] == p.end
            and _moment_of(self.point) > p.moment
        )

    def floor(self, *, strong: bool) -> Moment:
        """It admits nothing that stands before this place."""
        if strong:
            return (self.latest,)
        return () if self.before is None else _moment_of(self.before)


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """The elements that the steps of a part took, the end of that, and the points from which it is a match."""

    constituents: tuple[tuple[str, Occurrence], ...]
    end: End
    heads: tuple[Head, ...] = ()

    @property
    def start(self) -> int:
        """The least start of what was taken."""
        return min(occurrence.start for _, occurrence in self.constituents)

    @property
    def first(self) -> Rank:
        """The place of its first constituent."""
        return min(occurrence.rank for _, occurrence in self.constituents)

    def to_json(self) -> Any:
        """All of it in plain values."""
        return {
            "constituents": [[step, occurrence.to_json()] for step, occurrence in self.constituents],
            "end": _json_of(self.end),
            "heads": [_json_of_head(each) for each in self.heads],
        }

    @classmethod
    def from_json(cls, given: Any) -> Match:
        """The opposite of `to_json`."""
        return cls(
            tuple((step, Occurrence.from_json(encoded)) for step, encoded in given["constituents"]),
            _end_of(given["end"]),
            tuple(map(_head_of, given["heads"])),
        )


def _moment_of(rank: Rank) -> Moment:
    return rank[0], 0, rank


def _maybe_ranked(given: Any) -> Rank | None:
    return None if given is None else rank_from_json(given)


def _json_of(end: End) -> Any:
    return [end.start, end.end, end.rank]


def _end_of(given: Any) -> End:
    return End(given[0], given[1], _maybe_ranked(given[2]))


def _json_of_head(head: Head) -> Any:
    return [_json_of(head.first), head.before, head.latest, head.point]


def _head_of(given: Any) -> Head:
    first, before, latest, point = given
    return Head(_end_of(first), _maybe_ranked(before), latest, _maybe_ranked(point))


# -- parts that are detected here --------------------------------------------------------------------------


@dataclass(slots=True)
class _Cared:
    """The care of a leading atom, so far: the last, the latest start, the last point; and the heads."""

    last: Occurrence
    latest: int
    point: Rank | None
    heads: dict[Rank, Head]

    @classmethod
    def beginning_with(cls, occurrence: Occurrence) -> _Cared:
        point = occurrence.rank if occurrence.is_point else None
        heads = {occurrence.rank: Head(End.of(occurrence), None, BEGINNING, None)}
        return cls(occurrence, occurrence.start, point, heads)

    def add(self, occurrence: Occurrence) -> None:
        self.heads[occurrence.rank] = Head(End.of(occurrence), self.last.rank, self.latest, self.point)
        self.last, self.latest = occurrence, max(self.latest, occurrence.start)
        if occurrence.is_point:
            self.point = occurrence.rank


class _Heads:
    """From which points the matches of a part are matches: its leading atom, for each value of `same`."""

    def __init__(self, pattern: Pattern, atom: Atom) -> None:
        self._same, self._atom = pattern.same, atom
        self._types = pattern.types_named
        self._conditions = plan_conditions(pattern).at_steps[atom.step]
        self._held: list[tuple[Rank, Occurrence]] = []
        self._cared: dict[Key, _Cared] = {}
        self._horizon = _horizon(pattern)

    def feed(self, occurrence: Occurrence) -> None:
        """Hold an occurrence until its time has passed, if the atom cares for it."""
        notification, atom = occurrence.notification, self._atom
        if _key(self._same, notification) is None:
            return
        if occurrence.rank[2] == 1 and notification.get("type") not in self._types:
            return  # composites are seen by their types only
        takes = atom.filter is not None and atom.filter.matches(notification)
        takes = takes and all(_holds(each, (), (atom.step, occurrence)) for each in self._conditions)
        if takes or (atom.domain is not None and atom.domain.matches(notification)):
            heappush(self._held, (occurrence.rank, occurrence))

    def advance(self, bound: int) -> None:
        """Let time pass."""
        while self._held and self._held[0][0][0] < bound:
            _, occurrence = heappop(self._held)
            key = _key(self._same, occurrence.notification) or ()
            cared = self._cared.get(key)
            if cared is None:
                self._cared[key] = _Cared.beginning_with(occurrence)
            else:
                cared.add(occurrence)

    def of(self, constituents: Iterable[tuple[str, Occurrence]]) -> Head:
        """From which points a match is one."""
        first = min((occurrence for _, occurrence in constituents), key=lambda each: each.rank)
        return self._cared[_key(self._same, first.notification) or ()].heads[first.rank]

    def forget(self, bound: int) -> None:
        """Drop the heads of what can end no match from a time on."""
        if self._horizon is not None:
            for cared in self._cared.values():
                for rank in [each for each in cared.heads if each[1] + self._horizon < bound]:
                    del cared.heads[rank]

    def snapshot(self, held: bool) -> Any:
        """The state as JSON."""
        return {
            "held": [each.to_json() for _, each in sorted(self._held)] if held else [],
            "cared": [
                [
                    each.last.to_json(),
                    each.latest,
                    each.point,
                    [_json_of_head(head) for head in each.heads.values()],
                ]
                for each in self._cared.values()
            ],
        }

    def resume(self, state: Any) -> None:
        """Go on from what was kept."""
        for encoded in state["held"]:
            occurrence = Occurrence.from_json(encoded)
            heappush(self._held, (occurrence.rank, occurrence))
        for encoded, latest, point, heads in state["cared"]:
            last = Occurrence.from_json(encoded)
            found = {rank: head for head in map(_head_of, heads) if (rank := head.first.rank) is not None}
            self._cared[_key(self._same, last.notification) or ()] = _Cared(
                last, latest, _maybe_ranked(point), found
            )


def _horizon(pattern: Pattern) -> int | None:
    """The longest time from the start of a match to its end; None: any time."""
    match pattern.body:
        case Within(_, duration):
            return duration
        case Atom():
            return 0
    return None


def _key(same: tuple[str, ...], notification: Notification) -> Key | None:
    """The value that tells streams apart; None where a notification is in none of them."""
    values = [notification.get(name) for name in same]
    if any(kind_of(value) in (Kind.ABSENT, Kind.NAN) for value in values):
        return None
    return tuple(map(key_of, values))


# -- conditions and outputs of complete matches ------------------------------------------------------------


def _holds(
    condition: Condition,
    bound: Iterable[tuple[str, Occurrence]],
    about: tuple[str, Occurrence] | None = None,
) -> bool:
    """Whether a condition holds, or is not asked because something that it names is not bound."""
    values = []
    for reference in condition.references:
        taken = [occurrence for step, occurrence in bound if step == reference.step]
        if about is not None and reference.aggregate is None and reference.step == about[0]:
            taken = [about[1]]
        if not taken:
            return True
        values.append(_value(reference, taken))
    return tester(condition)(values[0], values[-1])


def _value(reference: Reference, taken: Iterable[Occurrence]) -> Any:
    fold = fold_of(reference)
    state = fold.start()
    for occurrence in taken:
        attribute = reference.attribute
        state = fold.add(state, ABSENT if attribute is None else occurrence.notification.get(attribute))
    return fold.result(state)


# -- joining -----------------------------------------------------------------------------------------------


class _Store:
    """Matches that wait for others, for each value of `same`, in the order of their ends."""

    def __init__(self, window: int | None) -> None:
        self._window = window
        self._matches: dict[Key, list[Match]] = {}

    def add(self, key: Key, match: Match) -> None:
        insort(self._matches.setdefault(key, []), match, key=_ended)

    def of(self, key: Key) -> list[Match]:
        return self._matches.get(key, [])

    def between(self, key: Key, low: Moment, high: Moment) -> list[Match]:
        """Those that end from one place on, before another."""
        found = self.of(key)
        return found[bisect_left(found, low, key=_ended) : bisect_left(found, high, key=_ended)]

    def forget(self, bound: int) -> None:
        """Drop what no match that ends from a time on can hold: its window has closed."""
        if self._window is not None:
            floor = bound - self._window
            self._keep(lambda match: match.start >= floor)

    def go_past(self, key: Key, after: Rank) -> None:
        """Drop what would let a match start up to a place."""
        if key in self._matches:
            self._matches[key] = [match for match in self._matches[key] if match.first > after]

    def _keep(self, stays: Callable[[Match], bool]) -> None:
        self._matches = {
            key: left
            for key, matches in self._matches.items()
            if (left := [match for match in matches if stays(match)])
        }

    def __iter__(self) -> Iterator[tuple[Key, Match]]:
        return ((key, match) for key, matches in self._matches.items() for match in matches)


def _ended(match: Match) -> Moment:
    return match.end.moment


class _Joint:
    """Puts the matches of leaves together as a tree says, one by one in the order of their ends."""

    def __init__(self, tree: Tree) -> None:
        self.stores: list[_Store] = []
        self._leaves = 0
        self._top = self._made(tree, None)

    def take(self, leaf: int, key: Key, match: Match) -> list[Match]:
        """The matches of the whole that one of a leaf completes."""
        return self._top(leaf, key, match)

    def _made(self, tree: Tree, window: int | None) -> Callable[[int, Key, Match], list[Match]]:
        """The function that takes a match of a leaf; leaves that are not below it give nothing."""
        match tree:
            case Leaf():
                number, self._leaves = self._leaves, self._leaves + 1
                return lambda leaf, key, match: [match] if leaf == number else []
            case Union(parts):
                several = [self._made(each, window) for each in parts]
                return lambda leaf, key, match: [new for each in several for new in each(leaf, key, match)]
            case Window(part, duration):
                inner = self._made(part, duration if window is None else min(window, duration))
                return lambda leaf, key, match: [
                    new for new in inner(leaf, key, match) if new.end.end - new.start <= duration
                ]
            case Chain(first, second, strong):
                return self._chain(self._made(first, window), self._made(second, window), window, strong)
            case Parallel(parts, free):
                return self._parallel([self._made(each, window) for each in parts], window, free)

    def _store(self, window: int | None) -> _Store:
        self.stores.append(_Store(window))
        return self.stores[-1]

    def _chain(
        self, first: _Taking, second: _Taking, window: int | None, strong: bool
    ) -> Callable[[int, Key, Match], list[Match]]:
        before = self._store(window)

        def take(leaf: int, key: Key, match: Match) -> list[Match]:
            for new in first(leaf, key, match):
                before.add(key, new)
            found = []
            for new in second(leaf, key, match):
                low = max(head.floor(strong=strong) for head in new.heads)
                high = min(head.first.moment for head in new.heads)
                for each in before.between(key, low, high):
                    if strong and not all(each.end.precedes(taken) for _, taken in new.constituents):
                        continue
                    if all(head.admits(each.end, strong=strong) for head in new.heads):
                        found.append(Match(each.constituents + new.constituents, new.end, each.heads))
            return found

        return take

    def _parallel(
        self, parts: list[_Taking], window: int | None, free: bool
    ) -> Callable[[int, Key, Match], list[Match]]:
        stores = [self._store(window) for _ in parts]

        def take(leaf: int, key: Key, match: Match) -> list[Match]:
            found = []
            for own, (part, store) in enumerate(zip(parts, stores, strict=True)):
                for new in part(leaf, key, match):
                    store.add(key, new)
                    others = ([new] if number == own else each.of(key) for number, each in enumerate(stores))
                    found += [joined for each in product(*others) if (joined := _joined(each, free))]
            return found

        return take


_Taking: TypeAlias = Callable[[int, Key, Match], list[Match]]


def _joined(parts: tuple[Match, ...], free: bool) -> Match | None:
    """The matches of parallel parts as one, unless there is no point from which all of them are matches."""
    heads = tuple(head for part in parts for head in part.heads)
    if free:
        # The last element that one of them had to be behind will do, if all of them begin behind it.
        low = max(head.floor(strong=False) for head in heads)
        if not low < min(head.first.moment for head in heads):
            return None
    constituents = tuple(each for part in parts for each in part.constituents)
    return Match(constituents, max((part.end for part in parts), key=lambda end: end.moment), heads)


# -- the whole ---------------------------------------------------------------------------------------------


class _Taken:
    """The matches of a pattern that are taken, for one value of `same`."""

    def __init__(self, pattern: Pattern, example: Notification) -> None:
        self._pattern = pattern
        self.example = example
        """A notification with that value."""
        self.after: Rank = FIRST_OF_ALL
        self.started: set[Rank] = set()

    def take(self, matches: list[Match]) -> Iterator[Match]:
        """Of those with one end, the first one first."""
        take = self._pattern.take
        if take is Take.ALL:
            matches = matches[: self._pattern.limit]
        if take is Take.RECENT:
            matches = [each for each in matches if each.first > self.after][-1:]
        for match in matches:
            if match.first > self.after and match.first not in self.started:
                if take is Take.NEXT:
                    self.started.add(match.first)
                if take in (Take.PAST, Take.RECENT):
                    self.after = max(occurrence.rank for _, occurrence in match.constituents)
                yield match


class SubpatternDetector:
    """Detects a pattern of which some parts may be found elsewhere. Not for several threads at once."""

    def __init__(
        self,
        engine: Engine,
        pattern: Pattern,
        split: Split | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        """`elsewhere`: the types of the parts that are found elsewhere."""
        self.pattern, self.split = pattern, split
        self.elsewhere = frozenset(elsewhere)
        self._leaves = () if split is None else split.leaves
        self._steps = [atom.step for atom in atoms(pattern.body)]
        self._detector = Detector(engine, remembers=True)
        self._joint = None if split is None else _Joint(split.tree)
        self._heads: dict[str, _Heads] = {}
        self._offered = frozenset(part.name for part in self.offers)
        for number, here in enumerate(self.here):
            self._detector.add(str(number), here)
            atom = head_of(here.body)
            if is_part(here) and atom is not None:
                self._heads[here.name] = _Heads(here, atom)
        self._held: list[tuple[Moment, int, int, Match]] = []
        self._count = 0
        self._taken: dict[Key, _Taken] = {}
        self._bound = BEGINNING

    @property
    def here(self) -> tuple[Pattern, ...]:
        """The patterns that an automaton detects here: the parts that are not found elsewhere, or the whole."""
        if self.split is None:
            return (self.pattern,)
        parts = dict.fromkeys(leaf.pattern for leaf in self._leaves)
        return tuple(part for part in parts if part.name not in self.elsewhere)

    @property
    def offers(self) -> tuple[Pattern, ...]:
        """The parts that are detected here and that others could use: all but single atoms."""
        if self.split is None:
            return ()
        return tuple(part for part in self.here if not isinstance(part.body, Atom))

    @property
    def bound(self) -> int:
        """Up to here, exclusively, everything has been found."""
        return self._bound

    @property
    def in_progress(self) -> int:
        """The number of nodes of matches in progress, and of matches that wait for others."""
        waiting = () if self._joint is None else self._joint.stores
        return self._detector.in_progress + sum(1 for store in waiting for _ in store)

    def feed(self, occurrence: Occurrence) -> None:
        """Hold an occurrence until its time has passed; one whose time has passed already is a ValueError."""
        self._detector.feed(occurrence)
        for heads in self._heads.values():
            heads.feed(occurrence)

    def hear(self, notification: Notification) -> None:
        """Hold a match of a part that was found elsewhere, until its time has passed."""
        type, text = notification.get("type"), notification.get(_MATCH)
        if type in self.elsewhere and isinstance(text, str):
            self._hold(str(type), Match.from_json(json.loads(text)))

    def _hold(self, type: str, match: Match) -> None:
        for number, leaf in enumerate(self._leaves):
            if leaf.pattern.name == type:
                named = tuple((leaf.named(step), occurrence) for step, occurrence in match.constituents)
                self._count += 1
                heappush(
                    self._held, (match.end.moment, self._count, number, replace(match, constituents=named))
                )

    def advance(self, bound: int) -> list[Notification]:
        """All composites that end before a time, in order, as notifications; and before them, what is offered."""
        for heads in self._heads.values():
            heads.advance(bound)
        found = []
        for each in self._detector.advance(bound):
            composite = each.composite
            if self._joint is None:
                found.append(self._shown(composite, self._match(composite)))
            else:
                match = self._match(composite)
                self._hold(composite.pattern.name, match)
                if composite.pattern.name in self._offered:
                    found.append(self._shown(composite, match))
        if self._joint is not None:
            found += self._put_together(self._joint, bound)
        for heads in self._heads.values():
            heads.forget(bound)
        self._bound = max(self._bound, bound)
        return found

    def _key(self, match: Match) -> Key:
        return _key(self.pattern.same, match.constituents[0][1].notification) or ()

    def _match(self, composite: Composite) -> Match:
        heads = self._heads.get(composite.pattern.name)
        last = max((occurrence for _, occurrence in composite.constituents), key=lambda each: each.rank)
        by_time = composite.end > last.end
        return Match(
            composite.constituents,
            End(composite.end, composite.end, None) if by_time else End.of(last),
            () if heads is None else (heads.of(composite.constituents),),
        )

    def _put_together(self, joint: _Joint, bound: int) -> list[Notification]:
        found: list[tuple[Composite, Match]] = []
        while self._held and self._held[0][0][0] < bound:
            moment = self._held[0][0]
            complete: dict[Key, list[Match]] = {}
            while self._held and self._held[0][0] == moment:
                _, _, number, held = heappop(self._held)
                for match in joint.take(number, self._key(held), held):
                    complete.setdefault(self._key(held), []).append(match)
            for key, matches in complete.items():
                found += self._take(joint, key, matches)
        for store in joint.stores:
            store.forget(bound)
        found.sort(key=lambda each: each[0].rank)
        return [self._shown(composite, match) for composite, match in found]

    def _take(self, joint: _Joint, key: Key, matches: list[Match]) -> Iterator[tuple[Composite, Match]]:
        assert self.split is not None
        ordered: dict[Moment, Match] = {}
        for match in matches:
            if all(_holds(each, match.constituents) for each in self.split.conditions):
                constituents = sorted(match.constituents, key=self._order)
                ordered.setdefault(
                    (
                        (*((0, each.rank) for _, each in constituents), (1,)),
                        tuple(self._steps.index(step) for step, _ in constituents),
                    ),
                    replace(match, constituents=tuple(constituents)),
                )
        taken = self._taken.get(key)
        if taken is None:
            taken = self._taken[key] = _Taken(self.pattern, matches[0].constituents[0][1].notification)
        for match in taken.take([ordered[each] for each in sorted(ordered)]):
            yield self._composite(match), match
        if self.pattern.take in (Take.PAST, Take.RECENT):
            for store in joint.stores:
                store.go_past(key, taken.after)

    def _order(self, constituent: tuple[str, Occurrence]) -> tuple[Rank, int]:
        step, occurrence = constituent
        return occurrence.rank, self._steps.index(step)

    def _composite(self, match: Match) -> Composite:
        def value(reference: Reference) -> Any:
            taken = [occurrence for step, occurrence in match.constituents if step == reference.step]
            return _value(reference, taken) if taken else ABSENT

        return Composite(self.pattern, match.constituents, match.end.end, outputs(self.pattern, value))

    def _shown(self, composite: Composite, match: Match) -> Notification:
        """A composite as it is published: that of a part says where its elements stand."""
        notification = composite.notification()
        if not is_part(composite.pattern):
            return notification
        text = json.dumps(match.to_json(), ensure_ascii=False, separators=(",", ":"))
        return replace(notification, attributes=Record({**notification.attributes, _MATCH: text}))

    # -- handing over

    def snapshot(self, *, held: bool = True) -> dict[str, Any]:
        """The state as JSON: another one for the same pattern, cut alike, goes on from it (`resume`).

        `held`: with what has come whose time has not passed. Whoever has heard that himself does without.
        """
        stores = () if self._joint is None else self._joint.stores
        waiting = sorted(self._held, key=_arrived) if held else []
        detected = self._detector.snapshot()
        return {
            "bound": self._bound,
            "detector": detected if held else {**detected, "held": []},
            "heads": {name: heads.snapshot(held) for name, heads in self._heads.items()},
            "held": [[number, match.to_json()] for _, _, number, match in waiting],
            "stores": [[match.to_json() for _, match in store] for store in stores],
            "taken": [
                [notification_to_json(each.example), each.after, sorted(each.started)]
                for each in self._taken.values()
            ],
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from what another one kept."""
        self._bound = max(self._bound, state["bound"])
        self._detector.resume(state["detector"])
        for name, heads in state["heads"].items():
            self._heads[name].resume(heads)
        for number, encoded in state["held"]:
            match = Match.from_json(encoded)
            self._count += 1
            heappush(self._held, (match.end.moment, self._count, number, match))
        stores = () if self._joint is None else self._joint.stores
        for store, matches in zip(stores, state["stores"], strict=True):
            for match in map(Match.from_json, matches):
                store.add(self._key(match), match)
        for encoded, after, started in state["taken"]:
            example = notification_from_json(encoded)
            taken = self._taken[_key(self.pattern.same, example) or ()] = _Taken(self.pattern, example)
            taken.after, taken.started = rank_from_json(after), set(map(rank_from_json, started))


def _arrived(held: tuple[Moment, int, int, Match]) -> int:
    return held[1]
