"""Many patterns at once over one stream: occurrences go in, composite events come out, in their total order.

    detector = Detector(engine)
    detector.add("p1", parse("A followed by B within 1 hour, same room"))
    detector.feed(occurrence)          in any order, as long as its time has not passed
    detector.advance(bound)            all that is certain before a time: [Found(composite, ids), …]

Law: what has been found by a bound depends on the patterns and on the occurrences before it, not on the order
in which they were fed, nor on how often `advance` was called.

Atoms and domains are filters of one matching engine, each distinct one once, so an occurrence touches only
patterns that it may concern. Patterns that differ in their name and in what they give with a match share an
automaton; those over the same attributes share the look-up of what is in progress for a value, so that many
patterns that wait for the same event cost nothing where none of them has begun.

A pattern that sees composites of another stands on a higher level: level by level, and instant by instant,
they are found and enter the streams of those above.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial as partial_of
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, Protocol, TypeAlias

from fairlead.correlation.patterns.automaton import Automaton, Reaction
from fairlead.correlation.patterns.composites import PARTIAL, Composite
from fairlead.correlation.patterns.conditions import fold_of, outputs
from fairlead.correlation.patterns.graph import Extent, Path, extent_of
from fairlead.correlation.patterns.instance import FIRST_OF_ALL, Instance, Kept, Seen
from fairlead.correlation.patterns.model import Pattern, Reference, atoms
from fairlead.correlation.patterns.occurrences import Occurrence, Rank
from fairlead.errors import FilterError
from fairlead.filters import Attribute, Constraint, Filter, Op
from fairlead.filters.filter import leaves
from fairlead.model import ABSENT, Kind, Multi, Notification, key_of, kind_of
from fairlead.model.encoding import notification_from_json, notification_to_json
from fairlead.model.order import BEGINNING

__all__ = ["Detector", "Engine", "Found", "types_named"]

_TYPE: Final = Attribute("type")
_NO_KEY: Final = frozenset({Kind.ABSENT, Kind.NAN})
PLANS_MAX: Final = 10_000
"""For how many sets of matching filters it is kept whom they concern."""
VERSION: Final = 1
"""Of the state that is handed over."""
Key: TypeAlias = Hashable
_rank: Final = attrgetter("rank")


class Engine(Protocol):
    """What finds the filters that a notification matches: any of the matching engines."""

    def add(self, id: int, filter: Filter, /) -> None:
        """Take in a filter."""

    def remove(self, id: int, /) -> None:
        """Forget it."""

    def match(self, notification: Notification, /) -> list[int]:
        """The ids of all filters that match."""

    def match_batch(self, notifications: Iterable[Notification], /) -> list[list[int]]:
        """`match` of each."""


@dataclass(frozen=True, slots=True)
class Found:
    """A composite event, and the ids of the patterns that it was found for, sorted."""

    composite: Composite
    ids: tuple[str, ...]


@dataclass(eq=False, slots=True)
class _Entry:
    """An automaton with those who share it."""

    automaton: Automaton
    since: Rank
    """It sees what comes from this place on."""
    types: frozenset[str]
    """The types that it names: composites of others are seen by their types only."""
    bits: dict[int, tuple[int, int]]
    """By the number of a filter: the atoms that take what it matches, and those that have it in their domain."""
    starts: frozenset[int]
    """The numbers of the filters with which a match may start."""
    level: int = 0
    asked_by: dict[str, Pattern] = field(default_factory=dict)

    carried: tuple[tuple[Pattern, tuple[str, ...]], ...] = ()
    """The patterns that differ in what their composites carry, with their ids."""

    def settle(self) -> None:
        """Note who shares it."""
        found: dict[Pattern, list[str]] = {}
        for id, pattern in self.asked_by.items():
            found.setdefault(pattern, []).append(id)
        self.carried = tuple((pattern, tuple(sorted(ids))) for pattern, ids in found.items())

    def concern(self, matched: Iterable[int]) -> tuple[int, int]:
        """The atoms that take an occurrence which these filters match, and those that have it in their domain."""
        taken = domain = 0
        for number in matched:
            bits = self.bits.get(number)
            if bits is not None:
                taken |= bits[0]
                domain |= bits[1]
        return taken, domain


class _Group:
    """The patterns of one level that look at the same attributes, and what is in progress for each value."""

    __slots__ = ("_names", "cells", "entries", "starts")

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self.cells: dict[Key, dict[_Entry, Instance]] = {}
        self.entries: set[_Entry] = set()
        self.starts: dict[int, list[_Entry]] = {}

    def add(self, entry: _Entry) -> None:
        self.entries.add(entry)
        for number in entry.starts:
            self.starts.setdefault(number, []).append(entry)

    def remove(self, entry: _Entry) -> dict[Key, Instance]:
        """Take an entry out, with what it has in progress."""
        self.entries.discard(entry)
        for number in entry.starts:
            self.starts[number].remove(entry)
        found = {key: cell.pop(entry) for key, cell in self.cells.items() if entry in cell}
        self.cells = {key: cell for key, cell in self.cells.items() if cell}
        return found

    def key_of(self, notification: Notification) -> Key | None:
        """The value that tells streams apart; None where the notification is in none of them."""
        if not self._names:
            return ()
        if len(self._names) == 1:
            value = notification.attributes.lookup(self._names[0])
            if type(value) is str:  # the usual value is its own key: all other keys are tuples
                return value
            return None if kind_of(value) in _NO_KEY else key_of(value)
        values = [notification.get(name) for name in self._names]
        if any(kind_of(value) in _NO_KEY for value in values):
            return None
        return tuple(map(key_of, values))


class _Concerned(dict[_Entry, Reaction]):
    """Occurrences that match certain filters: what they do to the patterns of a group."""

    __slots__ = ("_matched", "group", "starting")

    def __init__(self, group: _Group, matched: tuple[int, ...]) -> None:
        self.group = group
        self.starting: dict[_Entry, Instance | None] = dict.fromkeys(
            entry for number in matched for entry in group.starts.get(number, ())
        )
        """The patterns that may start with them, where nothing is in progress."""
        self._matched = matched

    def __missing__(self, entry: _Entry) -> Reaction:
        self[entry] = reaction = entry.automaton.reaction(*entry.concern(self._matched))
        return reaction


_Plan: TypeAlias = tuple[_Concerned, ...]


class Detector:
    """Finds the composite events of many patterns. Not for several threads at once."""

    def __init__(self, engine: Engine, *, remembers: bool = False) -> None:
        """`remembers`: keep what is needed to hand the state over (`kept`, `resume`)."""
        self._engine = engine
        self._remembers = remembers
        self._numbers: dict[Filter, int] = {}
        self._uses: dict[int, int] = {}
        self._entries: dict[tuple[Pattern, Rank], _Entry] = {}
        self._by_id: dict[str, _Entry] = {}
        self._levels: list[dict[tuple[str, ...], _Group]] = [{}]
        self._interested: list[dict[int, list[_Group]]] = [{}]
        self._held: list[Occurrence] = []
        self._plans: list[dict[tuple[int, ...], _Plan]] = [{}]
        self._alarms: list[list[tuple[int, int, _Group, Key, _Entry]]] = [[]]
        self._set = 0
        self._bound = BEGINNING
        self._made: set[str] = set()
        self._named: set[str] = set()
        """The types that patterns make, and those that they name; of all that were ever added."""

    @property
    def bound(self) -> int:
        """Up to here, exclusively, everything has been found."""
        return self._bound

    @property
    def patterns(self) -> Mapping[str, Pattern]:
        """The patterns by their ids."""
        return {id: entry.asked_by[id] for id, entry in self._by_id.items()}

    @property
    def automata(self) -> int:
        """How many automata there are: patterns that are alike share one."""
        return len(self._entries)

    @property
    def in_progress(self) -> int:
        """How many nodes of matches in progress are held."""
        return sum(
            len(nodes)
            for groups in self._levels
            for group in groups.values()
            for cell in group.cells.values()
            for instance in cell.values()
            for nodes in instance.waiting.values()
        )

    @property
    def extent(self) -> Extent:
        """All nodes that are held, and how many matches in progress they stand for."""
        nodes = matches = 0
        for group in (group for groups in self._levels for group in groups.values()):
            for instance in (instance for cell in group.cells.values() for instance in cell.values()):
                extent = extent_of([node for waiting in instance.waiting.values() for node in waiting])
                nodes, matches = nodes + extent.nodes, matches + extent.matches
        return Extent(nodes, matches)

    # -- patterns

    def add(self, id: str, pattern: Pattern, since: Rank = FIRST_OF_ALL) -> None:
        """Look for a pattern among what comes from a place on; an id that is taken is a ValueError."""
        if id in self._by_id:
            raise ValueError(f"the id {id!r} is taken")
        shared = replace(pattern, name="composite", outputs=())
        entry = self._entries.get((shared, since))
        if entry is None:
            entry = self._entry(shared, since)
        before = dict(entry.asked_by)
        entry.asked_by[id] = pattern
        self._entries[shared, since] = entry
        made = _names_of(pattern)
        is_apart = made.isdisjoint(self._named) and entry.types.isdisjoint(self._made)
        self._made |= made
        self._named |= entry.types
        if is_apart:  # it sees nobody and is not seen, so no level changes: many are added as quickly as few
            self._by_id[id] = entry
            entry.settle()
            if not before:
                self._place(entry)
            return
        try:
            levels = self._leveled()
        except CycleError as error:
            circle = " ◀ ".join(sorted({name for each in error.args[1] for name in _names(each)}))
            entry.asked_by = before
            if not before:
                del self._entries[shared, since]
                self._release(entry)
            raise FilterError(f"patterns see their own composites: {circle}") from None
        self._by_id[id] = entry
        entry.settle()
        self._arrange(levels)

    def remove(self, id: str) -> None:
        """Stop looking for a pattern; an id that is not there is a KeyError."""
        entry = self._by_id.pop(id)
        del entry.asked_by[id]
        if not entry.asked_by:
            self._group_of(entry).remove(entry)
            del self._entries[entry.automaton.pattern, entry.since]
            self._release(entry)
        entry.settle()
        self._arrange(self._leveled())

    def _entry(self, pattern: Pattern, since: Rank) -> _Entry:
        automaton = Automaton(pattern)
        bits: dict[int, tuple[int, int]] = {}
        starts = set()
        for step in automaton.steps:
            if step.atom.filter is not None:
                number = self._number(step.atom.filter)
                takes, domain = bits.get(number, (0, 0))
                bits[number] = takes | 1 << step.number, domain
                if automaton.initial_mask >> step.number & 1:
                    starts.add(number)
            if step.atom.domain is not None:
                number = self._number(step.atom.domain)
                takes, domain = bits.get(number, (0, 0))
                bits[number] = takes, domain | 1 << step.number
        return _Entry(automaton, since, types_named(pattern), bits, frozenset(starts))

    def _number(self, filter: Filter) -> int:
        """The number of a filter, which it keeps for as long as an atom or a domain has it."""
        number = self._numbers.get(filter)
        if number is None:
            number = self._numbers[filter] = self._set = self._set + 1
            self._engine.add(number, filter)
        self._uses[number] = self._uses.get(number, 0) + 1
        return number

    def _release(self, entry: _Entry) -> None:
        for step in entry.automaton.steps:
            for filter in (step.atom.filter, step.atom.domain):
                if filter is None:
                    continue
                number = self._numbers[filter]
                self._uses[number] -= 1
                if not self._uses[number]:
                    del self._uses[number], self._numbers[filter]
                    self._engine.remove(number)

    # -- levels

    def _leveled(self) -> dict[_Entry, int]:
        """The level of each automaton: above all whose composites it sees."""
        makes: dict[str, list[_Entry]] = {}
        for entry in self._entries.values():
            for name in _names(entry):
                makes.setdefault(name, []).append(entry)
        sees = {
            entry: {each for name in entry.types for each in makes.get(name, ())} - {entry}
            for entry in self._entries.values()
        }
        levels: dict[_Entry, int] = {}
        for entry in TopologicalSorter(sees).static_order():
            levels[entry] = 1 + max((levels[each] for each in sees[entry]), default=-1)
        return levels

    def _arrange(self, levels: dict[_Entry, int]) -> None:
        """Put every automaton on its level, with what it has in progress."""
        height = 1 + max(levels.values(), default=0)
        while len(self._levels) < height:
            self._levels.append({})
            self._alarms.append([])
        for entry, level in levels.items():
            group = self._levels[entry.level].get(entry.automaton.pattern.same)
            instances: dict[Key, Instance] = {}
            if group is not None and entry in group.entries:
                if entry.level == level:
                    continue
                instances = group.remove(entry)
            entry.level = level
            group = self._group_of(entry)
            group.add(entry)
            for key, instance in instances.items():
                group.cells.setdefault(key, {})[entry] = instance
                self._watch(group, key, entry, instance)
        self._interested = []
        self._plans = [{} for _ in self._levels]
        for groups in self._levels:
            interested: dict[int, list[_Group]] = {}
            for group in groups.values():
                for number in {number for entry in group.entries for number in entry.bits}:
                    interested.setdefault(number, []).append(group)
            self._interested.append(interested)

    def _place(self, entry: _Entry) -> None:
        """Put an automaton on the first level, where nothing else changes thereby."""
        group = self._group_of(entry)
        group.add(entry)
        for number in entry.bits:
            groups = self._interested[0].setdefault(number, [])
            if group not in groups:
                groups.append(group)
        self._plans[0].clear()

    def _group_of(self, entry: _Entry) -> _Group:
        same = entry.automaton.pattern.same
        return self._levels[entry.level].setdefault(same, _Group(same))

    # -- the stream

    def feed(self, occurrence: Occurrence) -> None:
        """Hold an occurrence until its time has passed; one whose time has passed already is a ValueError."""
        if occurrence.end < self._bound:
            raise ValueError(f"everything before {self._bound} has been found: {occurrence!r}")
        self._held.append(occurrence)

    def advance(self, bound: int) -> list[Found]:
        """All composites that end before a time, in order; nothing else will be fed that ends before it."""
        due = sorted((each for each in self._held if each.end < bound), key=_rank)
        self._held = [each for each in self._held if each.end >= bound]
        self._bound = max(self._bound, bound)
        stream = list(zip(due, self._matched(due), strict=True))
        found = self._run(0, stream, bound) if len(self._levels) == 1 else self._by_instants(stream, bound)
        return list(_in_order(found))

    def _matched(self, occurrences: list[Occurrence]) -> list[list[int]]:
        return self._engine.match_batch([each.notification for each in occurrences]) if occurrences else []

    def _by_instants(self, events: list[tuple[Occurrence, list[int]]], bound: int) -> Iterator[Found]:
        """Instant by instant, and within one level by level: what is found below enters above."""
        at = 0
        while True:
            due = [alarms[0][0] for alarms in self._alarms if alarms and alarms[0][0] < bound]
            if at < len(events):
                due.append(events[at][0].end)
            if not due:
                return
            now, upto = min(due), at
            while upto < len(events) and events[upto][0].end == now:
                upto += 1
            stream, at = events[at:upto], upto
            for level in range(len(self._levels)):
                found = self._run(level, stream, now + 1)
                yield from found
                # What looks from different places on may find the same composite; a stream has each once.
                distinct = {each.composite.rank: each.composite for each in found}
                composites = [composite.occurrence() for composite in distinct.values()]
                above = zip(composites, self._matched(composites), strict=True)
                stream = sorted([*stream, *above], key=lambda each: each[0].rank)

    def _run(self, level: int, stream: list[tuple[Occurrence, list[int]]], bound: int) -> list[Found]:
        """Feed a level what comes before a bound, in order, with the time events in between."""
        found: list[Found] = []
        alarms, plans = self._alarms[level], self._plans[level]
        for occurrence, matched in stream:
            if alarms and alarms[0][0] < occurrence.end:
                self._ring(level, occurrence.end, found)
            if matched:
                filters = tuple(matched)
                plan = plans.get(filters)
                if plan is None:
                    plan = self._plan(level, filters)
                for concerned in plan:
                    self._feed(concerned, occurrence, found)
        if alarms and alarms[0][0] < bound:
            self._ring(level, bound, found)
        return found

    def _plan(self, level: int, matched: tuple[int, ...]) -> _Plan:
        """Whom an occurrence concerns that these filters match."""
        interested = self._interested[level]
        groups = dict.fromkeys(group for number in matched for group in interested.get(number, ()))
        plan = tuple(_Concerned(group, matched) for group in groups)
        if len(self._plans[level]) >= PLANS_MAX:
            self._plans[level].clear()
        self._plans[level][matched] = plan
        return plan

    def _feed(self, concerned: _Concerned, occurrence: Occurrence, found: list[Found]) -> None:
        group = concerned.group
        key = group.key_of(occurrence.notification)
        if key is None:
            return
        cell = group.cells.get(key)
        instances = concerned.starting if cell is None else {**concerned.starting, **cell}
        rank = occurrence.rank
        for entry, in_progress in instances.items():
            reaction = concerned[entry]
            if not reaction.concerns or rank < entry.since:
                continue
            if rank[2] and occurrence.notification.get("type") not in entry.types:
                continue
            instance = in_progress
            if instance is None:
                instance = Instance(entry.automaton, remembers=self._remembers)
                group.cells.setdefault(key, {})[entry] = instance
            paths = instance.feed(occurrence, reaction)
            if paths:
                _report(entry, paths, occurrence.end, found)
            if not instance.waiting or instance.alarm is None or instance.timers:
                self._keep_or_drop(group, key, entry, instance)

    def _keep_or_drop(self, group: _Group, key: Key, entry: _Entry, instance: Instance) -> None:
        if instance.is_idle:
            del group.cells[key][entry]
            if not group.cells[key]:
                del group.cells[key]
        else:
            self._watch(group, key, entry, instance)

    def _watch(self, group: _Group, key: Key, entry: _Entry, instance: Instance) -> None:
        """See to it that an instance is told of its next time event, and asked what it can forget."""
        if instance.alarm is not None and (instance.due is None or instance.alarm <= instance.due):
            return
        wanted = instance.next_alarm
        if wanted is not None and (instance.alarm is None or wanted < instance.alarm):
            instance.alarm = wanted
            self._set += 1
            heappush(self._alarms[entry.level], (wanted, self._set, group, key, entry))

    def _ring(self, level: int, bound: int, found: list[Found]) -> None:
        """Let pass the time up to a bound, exclusively."""
        alarms = self._alarms[level]
        while alarms and alarms[0][0] < bound:
            now, _, group, key, entry = heappop(alarms)
            instance = group.cells.get(key, {}).get(entry)
            if instance is None or instance.alarm != now:
                continue
            instance.alarm = None
            if instance.due is not None and instance.due <= now:
                taken, ran_out = instance.tick(now)
                _report(entry, taken, now, found)
                _report(entry, ran_out, now, found, partial=True)
            instance.forget(now)
            self._keep_or_drop(group, key, entry, instance)

    # -- handing over

    def kept(self) -> dict[str, Any]:
        """The state as JSON: a detector with the same patterns goes on from it as this one would (`resume`)."""
        if not self._remembers:
            raise ValueError("a detector that is to hand over its state is made with remembers=True")
        numbers: dict[Rank, int] = {}
        occurrences: list[Any] = []

        def number_of(occurrence: Occurrence) -> int:
            number = numbers.setdefault(occurrence.rank, len(occurrences))
            if number == len(occurrences):
                occurrences.append([occurrence.rank, notification_to_json(occurrence.notification)])
            return number

        progress = []
        for group in (group for groups in self._levels for group in groups.values()):
            for cell in group.cells.values():
                for entry, instance in cell.items():
                    kept = instance.kept()
                    if kept.seen:
                        progress.append(
                            {
                                "pattern": entry.automaton.pattern.hash,
                                "since": entry.since,
                                "seen": [number_of(each.occurrence) for each in kept.seen],
                                "after": kept.after,
                                "started": sorted(kept.started),
                                "consumed": sorted(kept.consumed),
                                "until": kept.until,
                                "alarm": instance.next_alarm,
                            }
                        )
        held = [number_of(occurrence) for occurrence in sorted(self._held)]
        return {
            "version": VERSION,
            "bound": self._bound,
            "occurrences": occurrences,
            "held": held,
            "progress": progress,
        }

    def clear(self) -> None:
        """Forget all that has been fed; the patterns stay, as compiled as they are."""
        for group in (group for groups in self._levels for group in groups.values()):
            group.cells.clear()
        for alarms in self._alarms:
            alarms.clear()
        self._held.clear()
        self._bound = BEGINNING

    def resume(self, kept: Mapping[str, Any]) -> None:
        """Go on from what another detector kept; what it had in progress for patterns unknown here is dropped."""
        if kept["version"] != VERSION:
            raise ValueError(f"a state of version {kept['version']}, where {VERSION} is read")
        occurrences = []
        for rank, encoded in kept["occurrences"]:
            notification = notification_from_json(encoded)
            occurrences.append(Occurrence(notification, rank[1], rank[0], _ranked(rank)))
        matched = self._engine.match_batch([each.notification for each in occurrences])
        entries = {(pattern.hash, since): entry for (pattern, since), entry in self._entries.items()}
        for each in kept["progress"]:
            entry = entries.get((each["pattern"], _ranked(each["since"])))
            if entry is None:
                continue
            seen = tuple(Seen(occurrences[at], *entry.concern(matched[at])) for at in each["seen"])
            instance = Instance.resumed(
                entry.automaton,
                Kept(
                    seen,
                    _ranked(each["after"]),
                    frozenset(map(_ranked, each["started"])),
                    frozenset(map(_ranked, each["consumed"])),
                    each["until"],
                ),
            )
            group = self._group_of(entry)
            key = group.key_of(seen[0].occurrence.notification)
            if key is not None and not instance.is_idle:
                group.cells.setdefault(key, {})[entry] = instance
                self._watch(group, key, entry, instance)
        self._bound = max(self._bound, kept["bound"])
        for at in kept["held"]:
            self.feed(occurrences[at])


def _ranked(given: Any) -> Rank:
    end, start, composite, origin, has_sequence, sequence, id = given
    return end, start, composite, origin, has_sequence, sequence, id


def types_named(pattern: Pattern) -> frozenset[str]:
    """The types that the atoms and domains of a pattern name: `type = "spike"`, or in a list."""
    return frozenset(
        name
        for atom in atoms(pattern.body)
        for filter in (atom.filter, atom.domain)
        if filter is not None
        for leaf in leaves(filter)
        if isinstance(leaf, Constraint) and leaf.term == _TYPE
        for name in _listed(leaf)
    )


def _listed(constraint: Constraint) -> Iterator[str]:
    operand: Any = constraint.operand
    if constraint.op is Op.EQ and isinstance(operand, str):
        yield operand
    elif constraint.op is Op.IN and isinstance(operand, Multi):
        yield from (each for each in operand if isinstance(each, str))


def _names(entry: _Entry) -> set[str]:
    """The types of the composites that an automaton's patterns make."""
    return {name for pattern in entry.asked_by.values() for name in _names_of(pattern)}


def _names_of(pattern: Pattern) -> set[str]:
    return {pattern.name + ending for ending in (("", PARTIAL) if pattern.partial else ("",))}


def _report(entry: _Entry, paths: list[Path], end: int, found: list[Found], *, partial: bool = False) -> None:
    """Make the composites of matches that were taken: one for each pattern that differs in what it carries."""
    steps = entry.automaton.steps
    for path in paths:
        constituents = tuple((steps[number].atom.step, occurrence) for _, number, occurrence in path)
        for pattern, ids in entry.carried:
            given = outputs(pattern, partial_of(_value, constituents)) if pattern.outputs else ()
            found.append(Found(Composite(pattern, constituents, end, given, partial), ids))


def _value(constituents: Iterable[tuple[str, Occurrence]], reference: Reference) -> Any:
    """What a reference says of a complete match."""
    fold = fold_of(reference)
    state, bound = fold.start(), False
    for step, occurrence in constituents:
        if step == reference.step:
            attribute = reference.attribute
            state = fold.add(state, ABSENT if attribute is None else occurrence.notification.get(attribute))
            bound = True
    return fold.result(state) if bound else ABSENT


def _in_order(found: Iterable[Found]) -> Iterator[Found]:
    """Composites in their total order; ids are computed only where ends do not tell them apart."""
    for _, same_end in groupby(sorted(found, key=_end), key=_end):
        several = list(same_end)
        yield from several if len(several) == 1 else sorted(several, key=lambda each: each.composite.rank)


def _end(found: Found) -> int:
    return found.composite.end
