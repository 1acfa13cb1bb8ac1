"""Many patterns at once over one stream: occurrences go in, composite events come out, in their total order.

    detector = Detector(engine)
    detector.add("p1", parse("A followed by B within 1 hour, same room"))
    detector.feed(occurrence)          in any order, as long as its time has not passed
    detector.advance(bound)            all that is certain before a time: [Found(composite, ids), …]

Law: what has been found by a bound depends on the patterns and on the occurrences before it, not on the order
in which they were fed, nor on how often `advance` was called.

Atoms and domains are filters of one matching engine, each distinct one once, so an occurrence touches only
patterns that it may concern. Patterns of one form (`forms`) share an automaton and its graph of matches in
progress: an occurrence moves the matches of all of them at once, and only what is found is found for each. Forms
over the same attributes share the look-up of what is in progress for a value, so that many patterns that wait for
the same event cost nothing where none of them has begun.

Law: sharing changes nothing; a pattern's composites are those that a detector of its own would find.

A pattern that sees composites of another stands on a higher level (`levels`): level by level, and instant by
instant, they are found and enter the streams of those above. Beside them there may be what a `Maker` makes, such
as relations of fair subscriptions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial as partial_of
from heapq import heappop, heappush
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, TypeAlias

from fairlead.correlation.patterns.asking import Asking, Engine, Matched
from fairlead.correlation.patterns.automaton import EVERYONE, Automaton, Reaction
from fairlead.correlation.patterns.composites import Composite
from fairlead.correlation.patterns.conditions import fold_of, outputs
from fairlead.correlation.patterns.forms import form_of
from fairlead.correlation.patterns.graph import Extent, Shared, bits, extent_of, nodes_of
from fairlead.correlation.patterns.instance import FIRST_OF_ALL, Instance, Kept, Seen
from fairlead.correlation.patterns.levels import Maker, Seeing, leveled
from fairlead.correlation.patterns.model import PARTIAL, UNNAMED, Atom, Pattern, Reference, atoms
from fairlead.correlation.patterns.occurrences import Occurrence, Rank
from fairlead.errors import FilterError
from fairlead.filters import Filter
from fairlead.model import ABSENT, Kind, Notification, key_of, kind_of
from fairlead.model.encoding import notification_from_json, notification_to_json
from fairlead.model.order import BEGINNING

__all__ = ["Detector", "Engine", "Found", "outputs_of", "shared_of"]

_NO_KEY: Final = frozenset({Kind.ABSENT, Kind.NAN})
PLANS_MAX: Final = 10_000
"""For how many sets of matching filters it is kept whom they concern."""
VERSION: Final = 1
"""Of the state that is handed over."""
Key: TypeAlias = Hashable
_rank: Final = attrgetter("rank")


@dataclass(frozen=True, slots=True)
class Found:
    """A composite event, and the ids of the patterns that it was found for, sorted."""

    composite: Composite
    ids: tuple[str, ...]


@dataclass(eq=False, slots=True)
class _Asked:
    """A pattern that is looked for from a place on, whatever it is called and gives with a match."""

    pattern: Pattern
    since: Rank
    types: frozenset[str]
    """The types that it names: composites of others are seen by their types only."""
    atoms: tuple[Atom, ...]
    filters: tuple[tuple[int | None, int | None], ...]
    """The numbers of the filters of each atom, and of its domain."""
    asked_by: dict[str, Pattern] = field(default_factory=dict)
    steps: tuple[str, ...] = ()
    entry: _Entry | None = None
    member: int = 0
    """Its bit among those that share its automaton."""
    _carried: tuple[tuple[Pattern, tuple[str, ...]], ...] | None = None

    def __post_init__(self) -> None:
        self.steps = tuple(atom.step for atom in self.atoms)

    def settle(self) -> None:
        """Others ask for it than before."""
        self._carried = None

    @property
    def carried(self) -> tuple[tuple[Pattern, tuple[str, ...]], ...]:
        """The patterns that differ in what their composites carry, with their ids."""
        if self._carried is None:
            found: dict[Pattern, list[str]] = {}
            for id, pattern in self.asked_by.items():
                found.setdefault(pattern, []).append(id)
            self._carried = tuple((pattern, tuple(sorted(ids))) for pattern, ids in found.items())
        return self._carried


class _Entry:
    """An automaton with the patterns that share it."""

    __slots__ = ("_domains", "_takes", "automaton", "everyone", "level", "members", "seeing", "since")

    def __init__(self, automaton: Automaton, level: int) -> None:
        self.automaton = automaton
        self.level = level
        self.members: dict[int, _Asked] = {}
        self.everyone = 0
        self.since = FIRST_OF_ALL
        """From here on, all of them see what comes."""
        self.seeing: dict[str, int] = {}
        """Who names a type."""
        self._takes: dict[int, dict[int, int]] = {}
        self._domains: dict[int, dict[int, int]] = {}
        """By the numbers of a filter and of an atom: whose atom it is, or the domain of whose atom."""

    @property
    def numbers(self) -> set[int]:
        """The numbers of all filters that concern it."""
        return {*self._takes, *self._domains}

    def starts(self, asked: _Asked) -> Iterator[int]:
        """The numbers of the filters with which a match of a pattern may start."""
        for atom, (number, _) in enumerate(asked.filters):
            if number is not None and self.automaton.initial_mask >> atom & 1:
                yield number

    def join(self, asked: _Asked, member: int | None = None) -> None:
        """Take in a pattern, under the first bit that is free unless one is given."""
        asked.entry, asked.member = self, ~self.everyone & (self.everyone + 1) if member is None else member
        self.members[asked.member] = asked
        for atom, filters in enumerate(asked.filters):
            for concerned, number in zip((self._takes, self._domains), filters, strict=True):
                if number is not None:
                    members = concerned.setdefault(number, {})
                    members[atom] = members.get(atom, 0) | asked.member
        self._note(asked)

    def leave(self, asked: _Asked) -> None:
        """Let a pattern go."""
        del self.members[asked.member]
        for atom, filters in enumerate(asked.filters):
            for concerned, number in zip((self._takes, self._domains), filters, strict=True):
                if number is not None and number in concerned:
                    concerned[number][atom] &= ~asked.member
                    if not any(concerned[number].values()):
                        del concerned[number]
        asked.entry = None
        self.everyone, self.since, self.seeing = 0, FIRST_OF_ALL, {}
        for each in self.members.values():
            self._note(each)

    def _note(self, asked: _Asked) -> None:
        self.everyone |= asked.member
        self.since = max(self.since, asked.since)
        for type in asked.types:
            self.seeing[type] = self.seeing.get(type, 0) | asked.member

    def of(self, members: int) -> list[_Asked]:
        """The patterns that some bits stand for."""
        alone = self.members.get(members)
        return [self.members[each] for each in bits(members)] if alone is None else [alone]

    def reaction(self, matched: Iterable[int]) -> Reaction:
        """What an occurrence does that these filters match."""
        taken, domain = [0] * len(self.automaton.steps), [0] * len(self.automaton.steps)
        for number in matched:
            for found, concerned in ((taken, self._takes), (domain, self._domains)):
                for atom, members in concerned.get(number, _NOBODY).items():
                    found[atom] |= members
        return Reaction(self.automaton, self.everyone, tuple(taken), tuple(domain))

    def sifted(self, reaction: Reaction, occurrence: Occurrence) -> Reaction:
        """The same for those who see an occurrence: what they look at has begun, and they name its type."""
        rank, seeing = occurrence.rank, EVERYONE
        if rank < self.since:
            for member, asked in self.members.items():
                if rank < asked.since:
                    seeing &= ~member
        if rank[2]:
            type = occurrence.notification.get("type")
            seeing &= self.seeing.get(type, 0) if isinstance(type, str) else 0
        return reaction if not reaction.concerned & ~seeing else reaction.only(seeing)


_NOBODY: Final[Mapping[int, int]] = {}
_Cell: TypeAlias = dict[_Entry, Instance]
"""What is in progress for a value."""


class _Group:
    """The automata of one level that look at the same attributes, and what is in progress for each value."""

    __slots__ = ("_names", "cells", "entries", "starts")

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self.cells: dict[Key, _Cell] = {}
        self.entries: dict[_Entry, None] = {}
        self.starts: dict[int, dict[_Entry, None]] = {}

    def settle(self) -> None:
        """Note what may start with what."""
        self.starts = {}
        for entry in self.entries:
            for asked in entry.members.values():
                self.note(entry, entry.starts(asked))

    def note(self, entry: _Entry, starts: Iterable[int]) -> None:
        """Note what an automaton may start with."""
        for number in starts:
            self.starts.setdefault(number, {})[entry] = None

    def instances(self, entry: _Entry) -> Iterator[tuple[Key, Instance]]:
        """What an automaton has in progress."""
        for key, cell in list(self.cells.items()):
            if entry in cell:
                yield key, cell[entry]

    def tidy(self, key: Key) -> None:
        """Forget what has nothing in progress for a value."""
        cell = {entry: instance for entry, instance in self.cells[key].items() if not instance.is_idle}
        if cell:
            self.cells[key] = cell
        else:
            del self.cells[key]

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
    """Occurrences that match certain filters: what they do to the automata of a group."""

    __slots__ = ("_matched", "group", "starting")

    def __init__(self, group: _Group, matched: Matched) -> None:
        self.group = group
        self.starting = dict.fromkeys(entry for number in matched for entry in group.starts.get(number, ()))
        """The automata that may start with them, where nothing is in progress."""
        self._matched = matched

    def __missing__(self, entry: _Entry) -> Reaction:
        self[entry] = reaction = entry.reaction(self._matched)
        return reaction


_Plan: TypeAlias = tuple[_Concerned, ...]
_Event: TypeAlias = tuple[Occurrence, Matched]


class Detector:
    """Finds the composite events of many patterns. Not for several threads at once."""

    def __init__(self, engine: Engine, *, remembers: bool = False, maker: Maker | None = None) -> None:
        """`remembers`: keep what is needed to hand the state over (`kept`, `resume`).

        `maker` makes composites beside the patterns, for what is let in with `admit`.
        """
        self._asking = Asking(engine)
        self._remembers = remembers
        self._maker = maker
        self._admitted: dict[str, Seeing] = {}
        self._placed: dict[str, int] = {}
        """What is admitted beside patterns, and on which levels."""
        self._asked: dict[tuple[Pattern, Rank], _Asked] = {}
        self._by_id: dict[str, _Asked] = {}
        self._forms: dict[tuple[Pattern, int], _Entry] = {}
        """The automata that further patterns may share, by their form and level."""
        self._levels: list[dict[tuple[str, ...], _Group]] = [{}]
        self._interested: list[dict[int, dict[_Group, None]]] = [{}]
        self._held: list[Occurrence] = []
        self._plans: list[dict[Matched, _Plan]] = [{}]
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
        return {id: asked.asked_by[id] for id, asked in self._by_id.items()}

    @property
    def automata(self) -> int:
        """How many automata there are: patterns of one form share one."""
        return sum(len(group.entries) for group in self._groups())

    @property
    def in_progress(self) -> int:
        """At how many nodes matches in progress wait, counted for each pattern."""
        return sum(
            members.bit_count() for instance in self._instances() for _, members in instance.in_progress
        )

    @property
    def nodes(self) -> int:
        """How many nodes of matches in progress are held."""
        return sum(nodes_of(instance.in_progress) for instance in self._instances())

    @property
    def extent(self) -> Extent:
        """All nodes that are held, and how many matches in progress they stand for, counted for each pattern."""
        nodes = matches = 0
        for instance in self._instances():
            extent = extent_of(instance.in_progress)
            nodes, matches = nodes + extent.nodes, matches + extent.matches
        return Extent(nodes, matches)

    @property
    def given_up(self) -> int:
        """How often matches of one end were not all looked for: too many beginnings came to nothing."""
        entries = (entry for group in self._groups() for entry in group.entries)
        return sum(judging.given_up for entry in entries if (judging := entry.automaton.judging) is not None)

    def _groups(self) -> Iterator[_Group]:
        return (group for groups in self._levels for group in groups.values())

    def _instances(self) -> Iterator[Instance]:
        return (each for group in self._groups() for cell in group.cells.values() for each in cell.values())

    # -- patterns

    def add(self, id: str, pattern: Pattern, since: Rank = FIRST_OF_ALL) -> None:
        """Look for a pattern among what comes from a place on; an id that is taken is a ValueError."""
        if id in self._by_id:
            raise ValueError(f"the id {id!r} is taken")
        shared = shared_of(pattern)
        asked = self._asked.get((shared, since))
        if asked is None:
            asked = self._asked[shared, since] = self._ask(shared, since)
        asked.asked_by[id] = pattern
        made = pattern.types_made
        is_apart = made.isdisjoint(self._named) and asked.types.isdisjoint(self._made)
        self._made |= made
        self._named |= asked.types
        if is_apart:  # it sees nobody and is not seen, so no level changes: many are added as quickly as few
            if asked.entry is None:
                self._place(asked, 0)
        else:
            try:
                levels = self._leveled()
            except FilterError:
                del asked.asked_by[id]
                self._release(asked)
                raise
            self._arrange(levels)
        self._by_id[id] = asked
        asked.settle()

    def remove(self, id: str) -> None:
        """Stop looking for a pattern; an id that is not there is a KeyError."""
        asked = self._by_id.pop(id)
        del asked.asked_by[id]
        self._release(asked)
        asked.settle()
        self._arrange(self._leveled())

    def admit(self, id: str, seeing: Seeing) -> None:
        """Let in a question of the maker's, under an id that no other has; FilterError where it sees its own."""
        self._admitted[id] = seeing
        try:
            levels = self._leveled()
        except FilterError:
            del self._admitted[id]
            raise
        self._made |= seeing.makes
        self._named |= seeing.types
        self._arrange(levels)

    def dismiss(self, id: str) -> None:
        """Let a question of the maker's go; an id that is not there is a KeyError."""
        del self._admitted[id]
        self._placed.pop(id)
        self._arrange(self._leveled())

    def _ask(self, pattern: Pattern, since: Rank) -> _Asked:
        found = tuple(atoms(pattern.body))
        numbers = tuple((self._number(atom.filter), self._number(atom.domain)) for atom in found)
        return _Asked(pattern, since, pattern.types_named, found, numbers)

    def _number(self, filter: Filter | None) -> int | None:
        return None if filter is None else self._asking.add(filter)

    def _release(self, asked: _Asked) -> None:
        """Let a pattern go that nobody asks for any more."""
        if asked.asked_by:
            return
        if asked.entry is not None:
            self._displace(asked)
        del self._asked[asked.pattern, asked.since]
        for atom in asked.atoms:
            for filter in (atom.filter, atom.domain):
                if filter is not None:
                    self._asking.remove(filter)

    # -- levels

    def _leveled(self) -> dict[_Asked | str, int]:
        """The level of each pattern, and of what is beside them; FilterError where one sees its own composites."""
        looking: dict[_Asked | str, Seeing] = {
            asked: Seeing(asked.types, _names(asked)) for asked in self._asked.values()
        }
        return leveled({**looking, **self._admitted})

    def _arrange(self, levels: dict[_Asked | str, int]) -> None:
        """Put everything on its level, with what it has in progress."""
        for asked, level in levels.items():
            if isinstance(asked, str):
                if self._placed.get(asked) != level:
                    self._placed[asked] = level
                    self._reach(level)
                    if self._maker is not None:
                        self._maker.place(asked, level)
            elif asked.entry is None:
                self._place(asked, level)
            elif asked.entry.level != level:
                member, automaton = asked.member, asked.entry.automaton
                instances = self._displace(asked)
                # By itself: elsewhere its bit may be another's, and states may have other numbers.
                entry = self._join(asked, _Entry(automaton, level), member)
                group = self._group_of(entry)
                for key, instance in instances:
                    group.cells.setdefault(key, {})[entry] = instance
                    self._watch(group, key, entry, instance)

    def _place(self, asked: _Asked, level: int) -> None:
        """Put a pattern on a level, with others of its form."""
        form = form_of(asked.pattern)
        entry = self._forms.get((form, level))
        if entry is None:
            entry = self._forms[form, level] = _Entry(Automaton(form), level)
        self._join(asked, entry)

    def _reach(self, level: int) -> None:
        """See to it that there is a level."""
        while len(self._levels) <= level:
            self._levels.append({})
            self._alarms.append([])
            self._interested.append({})
            self._plans.append({})

    def _join(self, asked: _Asked, entry: _Entry, member: int | None = None) -> _Entry:
        level = entry.level
        self._reach(level)
        entry.join(asked, member)
        group = self._group_of(entry)
        group.entries[entry] = None
        group.note(entry, entry.starts(asked))
        for filters in asked.filters:
            for number in filters:
                if number is not None:
                    self._interested[level].setdefault(number, {})[group] = None
        self._plans[level].clear()
        return entry

    def _displace(self, asked: _Asked) -> list[tuple[Key, Instance]]:
        """Take a pattern from its place, with what it has in progress."""
        entry = asked.entry
        assert entry is not None
        group = self._group_of(entry)
        instances = []
        for key, instance in group.instances(entry):
            alone = instance.split(asked.member)
            if not alone.is_idle:
                instances.append((key, alone))
            if instance.is_idle:
                group.tidy(key)
        entry.leave(asked)
        if not entry.members:
            del group.entries[entry]
            self._forms = {form: each for form, each in self._forms.items() if each is not entry}
        group.settle()
        interested: dict[int, dict[_Group, None]] = {}
        for each in self._levels[entry.level].values():
            for number in {number for entry in each.entries for number in entry.numbers}:
                interested.setdefault(number, {})[each] = None
        self._interested[entry.level] = interested
        self._plans[entry.level].clear()
        return instances

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
        if len(self._levels) > 1:
            return list(_in_order(self._by_instants(stream, bound)))
        if self._admitted:
            self._make(0, due)
        return list(_in_order(self._run(0, stream, bound)))

    def _make(self, level: int, stream: list[Occurrence]) -> list[Occurrence]:
        """What is made beside the patterns of a level and seen above."""
        made = () if self._maker is None else self._maker.make(level, stream)
        return [each for each in made if each.notification.get("type") in self._named]

    def _matched(self, occurrences: list[Occurrence]) -> list[Matched]:
        return self._asking.matched([each.notification for each in occurrences])

    def _by_instants(self, events: list[_Event], bound: int) -> Iterator[Found]:
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
                seen = (each.composite for each in found if each.composite.type in self._named)
                # What looks from different places on may find the same composite; a stream has each once.
                distinct = {composite.rank: composite for composite in seen}
                composites = [composite.occurrence() for composite in distinct.values()]
                if self._admitted:
                    composites += self._make(level, [occurrence for occurrence, _ in stream])
                above = zip(composites, self._matched(composites), strict=True)
                stream = sorted([*stream, *above], key=lambda each: each[0].rank)

    def _run(self, level: int, stream: list[_Event], bound: int) -> list[Found]:
        """Feed a level what comes before a bound, in order, with the time events in between."""
        found: list[Found] = []
        alarms, plans = self._alarms[level], self._plans[level]
        for occurrence, matched in stream:
            if alarms and alarms[0][0] < occurrence.end:
                self._ring(level, occurrence.end, found)
            if matched:
                plan = plans.get(matched)
                if plan is None:
                    plan = self._plan(level, matched)
                for concerned in plan:
                    self._feed(concerned, occurrence, found)
        if alarms and alarms[0][0] < bound:
            self._ring(level, bound, found)
        return found

    def _plan(self, level: int, matched: Matched) -> _Plan:
        """Whom an occurrence concerns that these filters match."""
        interested = self._interested[level]
        groups = dict.fromkeys(group for number in matched for group in interested.get(number, ()))
        plan = tuple(_Concerned(group, matched) for group in groups)
        if len(self._plans[level]) >= PLANS_MAX:
            self._plans[level].clear()
        self._plans[level][matched] = plan
        return plan

    def _feed(self, concerned: _Concerned, occurrence: Occurrence, found: list[Found]) -> None:
        """Tell all automata of a group that have something in progress, or may start with it."""
        group = concerned.group
        key = group.key_of(occurrence.notification)
        if key is None:
            return
        cell = group.cells.get(key)
        if cell is None:
            if not concerned.starting:
                return
            cell = group.cells[key] = {}
        for entry in concerned.starting:
            if entry not in cell:
                cell[entry] = Instance(entry.automaton, remembers=self._remembers)
        rank, idle = occurrence.rank, False
        for entry, instance in cell.items():
            reaction = concerned[entry]
            if rank[2] or rank < entry.since:
                reaction = entry.sifted(reaction, occurrence)
            if reaction.starts or (instance.waiting and reaction.concerned):
                taken = instance.feed(occurrence, reaction)
                if taken:
                    _report(entry, taken, occurrence.end, found)
            if instance.alarm is None or instance.timers:
                self._watch(group, key, entry, instance)
                idle = idle or (instance.alarm is None and instance.is_idle)
        if idle:  # others are asked again when their time comes, for they may well be of use before
            group.tidy(key)

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
            self._watch(group, key, entry, instance)
            if instance.is_idle:
                group.tidy(key)

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
        for group in self._groups():
            for cell in group.cells.values():
                for entry, instance in cell.items():
                    for member, kept in instance.kept():
                        asked = entry.members[member]
                        progress.append(
                            {
                                "pattern": asked.pattern.hash,
                                "since": asked.since,
                                "seen": [number_of(each) for each in kept.seen],
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
        for group in self._groups():
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
        asked = {(pattern.hash, since): each for (pattern, since), each in self._asked.items()}
        resumed: dict[tuple[_Entry, Key], dict[int, Kept]] = {}
        for each in kept["progress"]:
            going_on = asked.get((each["pattern"], _ranked(each["since"])))
            if going_on is None or going_on.entry is None:
                continue
            entry, seen = going_on.entry, tuple(occurrences[at] for at in each["seen"])
            key = self._group_of(entry).key_of(seen[0].notification)
            if key is not None:
                resumed.setdefault((entry, key), {})[going_on.member] = Kept(
                    seen,
                    _ranked(each["after"]),
                    frozenset(map(_ranked, each["started"])),
                    frozenset(map(_ranked, each["consumed"])),
                    each["until"],
                )
        matched = dict(zip(occurrences, self._matched(occurrences), strict=True))
        for (entry, key), members in resumed.items():
            self._resume(entry, key, members, matched)
        self._bound = max(self._bound, kept["bound"])
        for at in kept["held"]:
            self.feed(occurrences[at])

    def _resume(
        self, entry: _Entry, key: Key, kept: dict[int, Kept], matched: dict[Occurrence, Matched]
    ) -> None:
        """Go on with what some of those who share an automaton had in progress for a value."""
        group = self._group_of(entry)
        cell = group.cells.setdefault(key, {})
        if entry in cell:
            kept = {**dict(cell[entry].kept()), **kept}
        seen_by: dict[Rank, tuple[Occurrence, int]] = {}
        for member, each in kept.items():
            for occurrence in each.seen:
                _, members = seen_by.get(occurrence.rank, (None, 0))
                seen_by[occurrence.rank] = occurrence, members | member
        seen = []
        for _, (occurrence, members) in sorted(seen_by.items()):
            filters = matched.get(occurrence) or self._matched([occurrence])[0]
            seen.append(Seen(occurrence, entry.reaction(filters).only(members)))
        instance = cell[entry] = Instance.resumed(entry.automaton, seen, kept)
        self._watch(group, key, entry, instance)
        if instance.is_idle:
            group.tidy(key)


def _ranked(given: Any) -> Rank:
    end, start, composite, origin, has_sequence, sequence, id = given
    return end, start, composite, origin, has_sequence, sequence, id


def shared_of(pattern: Pattern) -> Pattern:
    """A pattern without its name and outputs: patterns that agree in the rest are detected together."""
    sees_unnamed = not pattern.types_named.isdisjoint((UNNAMED, UNNAMED + PARTIAL))
    return replace(pattern, name=pattern.name if sees_unnamed else UNNAMED, outputs=())


def _names(asked: _Asked) -> frozenset[str]:
    """The types of the composites that a pattern makes, by all its names."""
    return frozenset(name for pattern in asked.asked_by.values() for name in pattern.types_made)


def _report(
    entry: _Entry, taken: list[Shared], end: int, found: list[Found], *, partial: bool = False
) -> None:
    """Make the composites of matches that were taken: one for each pattern that differs in what it carries."""
    for members, path in taken:
        named: dict[tuple[str, ...], tuple[tuple[str, Occurrence], ...]] = {}
        for asked in entry.of(members):
            steps = asked.steps
            constituents = named.get(steps)
            if constituents is None:
                constituents = named[steps] = tuple([(steps[number], each) for _, number, each in path])
            for pattern, ids in asked.carried:
                given = outputs_of(pattern, constituents)
                found.append(Found(Composite(pattern, constituents, end, given, partial), ids))


def outputs_of(
    pattern: Pattern, constituents: tuple[tuple[str, Occurrence], ...]
) -> tuple[tuple[str, Any], ...]:
    """What a pattern gives with a match."""
    return outputs(pattern, partial_of(_value, constituents)) if pattern.outputs else ()


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
    """Composites in their total order; ids are computed only where nothing else tells them apart."""
    for _, same_end in groupby(sorted(found, key=_end), key=_end):
        several = list(same_end)
        if len(several) == 1:
            yield several[0]
            continue
        places: dict[tuple[int, str], list[Found]] = {}
        for each in several:
            place = each.composite.start, each.composite.pattern.hash
            places.setdefault(place, []).append(each)
        for _, alike in sorted(places.items()):
            yield from alike if len(alike) == 1 else sorted(alike, key=lambda each: each.composite.id)


def _end(found: Found) -> int:
    return found.composite.end
