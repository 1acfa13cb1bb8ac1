"""Many patterns at once over one stream: occurrences go in, composite events come out, in their total order.

    detector = Detector(engine)
    detector.add("p1", parse("A followed by B within 1 hour, same room"))
    detector.feed(occurrence)
    detector.advance(bound)            the composites that end before a time: [Detected(composite, ids), …]

It is a `Kernel`, whose laws hold.

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

from collections.abc import Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, Final, TypeAlias

from fairlead.correlation.kernel import Detected, Engine, Kernel
from fairlead.correlation.occurrences import Occurrence, Rank, first_rank
from fairlead.correlation.patterns.automaton import Automaton
from fairlead.correlation.patterns.composites import Composite
from fairlead.correlation.patterns.evaluation import FilterEvaluation, Matched
from fairlead.correlation.patterns.forms import form_of
from fairlead.correlation.patterns.graph import Extent, extent_of, nodes_of
from fairlead.correlation.patterns.handover import Progress, decoded, encoded
from fairlead.correlation.patterns.instance import Instance, MemberState, Seen
from fairlead.correlation.patterns.levels import Maker, Seeing, leveled
from fairlead.correlation.patterns.model import PARTIAL, UNNAMED, Pattern, atoms
from fairlead.correlation.patterns.partial import Partial, partials
from fairlead.correlation.patterns.reporting import in_order, report
from fairlead.correlation.patterns.sharing import Concerned, Entry, Group, Key, SharedPattern
from fairlead.errors import FilterError
from fairlead.filters import Filter
from fairlead.model.order import BEGINNING

__all__ = ["Detector", "shared_of"]

PLANS_MAX: Final = 10_000
"""For how many sets of matching filters it is kept whom they concern."""
_rank: Final = attrgetter("rank")


_Plan: TypeAlias = tuple[Concerned, ...]
_Event: TypeAlias = tuple[Occurrence, Matched]


class Detector(Kernel[Pattern, Composite]):
    """Detects the composites of many patterns."""

    def __init__(self, engine: Engine, *, remembers: bool = False, maker: Maker | None = None) -> None:
        """`remembers`: retain what a `snapshot` needs.

        `maker` makes composites beside the patterns, for what is let in with `admit`.
        """
        super().__init__()
        self._evaluation = FilterEvaluation(engine)
        self._remembers = remembers
        self._maker = maker
        self._admitted: dict[str, Seeing] = {}
        self._levels_by_id: dict[str, int] = {}
        """The queries admitted beside patterns, with their levels."""
        self._shared: dict[tuple[Pattern, Rank], SharedPattern] = {}
        self._by_id: dict[str, SharedPattern] = {}
        self._forms: dict[tuple[Pattern, int], Entry] = {}
        """The automata that further patterns may share, by their form and level."""
        self._levels: list[dict[tuple[str, ...], Group]] = [{}]
        self._interested: list[dict[int, dict[Group, None]]] = [{}]
        self._plans: list[dict[Matched, _Plan]] = [{}]
        self._alarms: list[list[tuple[int, int, Group, Key, Entry]]] = [[]]
        self._set = 0
        self._made: set[str] = set()
        self._named: set[str] = set()
        """The types that patterns make, and those that they name; of all that were ever added."""

    @property
    def patterns(self) -> Mapping[str, Pattern]:
        """The patterns by their ids."""
        return {id: shared.subscribers[id] for id, shared in self._by_id.items()}

    @property
    def automata(self) -> int:
        """The number of automata: patterns of one form share one."""
        return sum(len(group.entries) for group in self._groups())

    @property
    def in_progress(self) -> int:
        """At how many nodes matches in progress wait, counted for each pattern."""
        return sum(
            members.bit_count() for instance in self._instances() for _, members in instance.in_progress
        )

    @property
    def nodes(self) -> int:
        """The number of nodes of partial matches."""
        return sum(nodes_of(instance.in_progress) for instance in self._instances())

    @property
    def extent(self) -> Extent:
        """All nodes, and the number of partial matches that they represent, counted for each pattern."""
        nodes = matches = 0
        for instance in self._instances():
            extent = extent_of(instance.in_progress)
            nodes, matches = nodes + extent.nodes, matches + extent.matches
        return Extent(nodes, matches)

    def partial(self, now: int, limit: int = 100) -> list[Partial]:
        """The matches in progress at a time, at most so many: for whoever looks at the detector."""
        found: list[Partial] = []
        for group in self._groups():
            for entry in group.entries:
                steps = next(iter(entry.members.values())).steps
                for _, instance in group.instances(entry):
                    found += partials(entry.automaton, steps, instance, now, limit - len(found))
                    if len(found) >= limit:
                        return found
        return found

    @property
    def given_up(self) -> int:
        """The number of searches for matches of one end that were cut off, after too many failed beginnings."""
        entries = (entry for group in self._groups() for entry in group.entries)
        return sum(judging.given_up for entry in entries if (judging := entry.automaton.judging) is not None)

    def _groups(self) -> Iterator[Group]:
        return (group for groups in self._levels for group in groups.values())

    def _instances(self) -> Iterator[Instance]:
        return (each for group in self._groups() for cell in group.cells.values() for each in cell.values())

    # -- patterns

    def add(self, id: str, query: Pattern, since: int = BEGINNING) -> None:
        if id in self._by_id:
            raise ValueError(f"the id {id!r} is in use")
        shared_pattern, first = shared_of(query), first_rank(since)
        shared = self._shared.get((shared_pattern, first))
        if shared is None:
            shared = self._shared[shared_pattern, first] = self._share(shared_pattern, first)
        shared.subscribers[id] = query
        made = query.types_made
        is_apart = made.isdisjoint(self._named) and shared.types.isdisjoint(self._made)
        self._made |= made
        self._named |= shared.types
        if is_apart:  # it sees nobody and is not seen, so no level changes: many are added as quickly as few
            if shared.entry is None:
                self._assign_level(shared, 0)
        else:
            try:
                levels = self._leveled()
            except FilterError:
                del shared.subscribers[id]
                self._release(shared)
                raise
            self._arrange(levels)
        self._by_id[id] = shared
        shared.settle()

    def remove(self, id: str) -> None:
        shared = self._by_id.pop(id)
        del shared.subscribers[id]
        self._release(shared)
        shared.settle()
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
        self._levels_by_id.pop(id)
        self._arrange(self._leveled())

    def _share(self, pattern: Pattern, since: Rank) -> SharedPattern:
        found = tuple(atoms(pattern.body))
        numbers = tuple((self._number(atom.filter), self._number(atom.domain)) for atom in found)
        return SharedPattern(pattern, since, pattern.types_named, found, numbers)

    def _number(self, filter: Filter | None) -> int | None:
        return None if filter is None else self._evaluation.add(filter)

    def _release(self, shared: SharedPattern) -> None:
        """Let a pattern go that nobody asks for any more."""
        if shared.subscribers:
            return
        if shared.entry is not None:
            self._displace(shared)
        del self._shared[shared.pattern, shared.since]
        for atom in shared.atoms:
            for filter in (atom.filter, atom.domain):
                if filter is not None:
                    self._evaluation.remove(filter)

    # -- levels

    def _leveled(self) -> dict[SharedPattern | str, int]:
        """The level of each pattern, and of what is beside them; FilterError where one sees its own composites."""
        looking: dict[SharedPattern | str, Seeing] = {
            shared: Seeing(shared.types, _names(shared)) for shared in self._shared.values()
        }
        return leveled({**looking, **self._admitted})

    def _arrange(self, levels: dict[SharedPattern | str, int]) -> None:
        """Put everything on its level, with what it has in progress."""
        for shared, level in levels.items():
            if isinstance(shared, str):
                if self._levels_by_id.get(shared) != level:
                    self._levels_by_id[shared] = level
                    self._reach(level)
                    if self._maker is not None:
                        self._maker.assign_level(shared, level)
            elif shared.entry is None:
                self._assign_level(shared, level)
            elif shared.entry.level != level:
                member, automaton = shared.member, shared.entry.automaton
                instances = self._displace(shared)
                # By itself: elsewhere its bit may be another's, and states may have other numbers.
                entry = self._join(shared, Entry(automaton, level), member)
                group = self._group_of(entry)
                for key, instance in instances:
                    group.cells.setdefault(key, {})[entry] = instance
                    self._watch(group, key, entry, instance)

    def _assign_level(self, shared: SharedPattern, level: int) -> None:
        """Put a pattern on a level, with others of its form; by itself, if it looks back."""
        if shared.pattern.lookback:  # what comes before an event depends on what the steps take
            self._join(shared, Entry(Automaton(shared.pattern), level))
            return
        form = form_of(shared.pattern)
        entry = self._forms.get((form, level))
        if entry is None:
            entry = self._forms[form, level] = Entry(Automaton(form), level)
        self._join(shared, entry)

    def _reach(self, level: int) -> None:
        """See to it that there is a level."""
        while len(self._levels) <= level:
            self._levels.append({})
            self._alarms.append([])
            self._interested.append({})
            self._plans.append({})

    def _join(self, shared: SharedPattern, entry: Entry, member: int | None = None) -> Entry:
        level = entry.level
        self._reach(level)
        entry.join(shared, member)
        group = self._group_of(entry)
        group.entries[entry] = None
        group.note(entry, entry.starts(shared))
        for filters in shared.filters:
            for number in filters:
                if number is not None:
                    self._interested[level].setdefault(number, {})[group] = None
        self._plans[level].clear()
        return entry

    def _displace(self, shared: SharedPattern) -> list[tuple[Key, Instance]]:
        """Take a pattern from its place, with what it has in progress."""
        entry = shared.entry
        assert entry is not None
        group = self._group_of(entry)
        instances = []
        for key, instance in group.instances(entry):
            alone = instance.split(shared.member)
            if not alone.is_idle:
                instances.append((key, alone))
            if instance.is_idle:
                group.tidy(key)
        entry.leave(shared)
        if not entry.members:
            del group.entries[entry]
            self._forms = {form: each for form, each in self._forms.items() if each is not entry}
        group.settle()
        interested: dict[int, dict[Group, None]] = {}
        for each in self._levels[entry.level].values():
            for number in {number for entry in each.entries for number in entry.numbers}:
                interested.setdefault(number, {})[each] = None
        self._interested[entry.level] = interested
        self._plans[entry.level].clear()
        return instances

    def _group_of(self, entry: Entry) -> Group:
        same = entry.automaton.pattern.same
        return self._levels[entry.level].setdefault(same, Group(same))

    # -- the stream

    def _detect(self, ready: list[Occurrence], bound: int) -> list[Detected[Composite]]:
        ready.sort(key=_rank)
        stream = list(zip(ready, self._matched(ready), strict=True))
        if len(self._levels) > 1:
            return list(in_order(self._by_instants(stream, bound)))
        if self._admitted:
            self._make(0, ready, bound)
        return list(in_order(self._run(0, stream, bound)))

    def _make(self, level: int, stream: list[Occurrence], bound: int) -> list[Occurrence]:
        """Make the occurrences beside the patterns of a level that are seen above it."""
        made = () if self._maker is None else self._maker.make(level, stream, bound)
        return [each for each in made if each.notification.get("type") in self._named]

    def _matched(self, occurrences: list[Occurrence]) -> list[Matched]:
        return self._evaluation.matched([each.notification for each in occurrences])

    def _by_instants(self, events: list[_Event], bound: int) -> Iterator[Detected[Composite]]:
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
                    composites += self._make(level, [occurrence for occurrence, _ in stream], now + 1)
                if composites:  # others may have found it, too, and have made it public
                    known = {occurrence.rank for occurrence, _ in stream}
                    composites = [each for each in composites if each.rank not in known]
                above = zip(composites, self._matched(composites), strict=True)
                stream = sorted([*stream, *above], key=lambda each: each[0].rank)

    def _run(self, level: int, stream: list[_Event], bound: int) -> list[Detected[Composite]]:
        """Feed a level what comes before a bound, in order, with the time events in between."""
        found: list[Detected[Composite]] = []
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
        """The automata that an occurrence concerns which these filters match."""
        interested = self._interested[level]
        groups = dict.fromkeys(group for number in matched for group in interested.get(number, ()))
        plan = tuple(Concerned(group, matched) for group in groups)
        if len(self._plans[level]) >= PLANS_MAX:
            self._plans[level].clear()
        self._plans[level][matched] = plan
        return plan

    def _feed(self, concerned: Concerned, occurrence: Occurrence, found: list[Detected[Composite]]) -> None:
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
            if reaction.starts or (reaction.concerned and (instance.waiting or entry.automaton.lookback)):
                taken = instance.feed(occurrence, reaction)
                if taken:
                    report(entry, taken, occurrence.end, found)
            if instance.alarm is None or instance.timers:
                self._watch(group, key, entry, instance)
                idle = idle or (instance.alarm is None and instance.is_idle)
        if idle:  # others are asked again when their time comes, for they may well be of use before
            group.tidy(key)

    def _watch(self, group: Group, key: Key, entry: Entry, instance: Instance) -> None:
        """See to it that an instance is told of its next time event, and asked what it can forget."""
        if instance.alarm is not None and (instance.due is None or instance.alarm <= instance.due):
            return
        wanted = instance.next_alarm
        if wanted is not None and (instance.alarm is None or wanted < instance.alarm):
            instance.alarm = wanted
            self._set += 1
            heappush(self._alarms[entry.level], (wanted, self._set, group, key, entry))

    def _ring(self, level: int, bound: int, found: list[Detected[Composite]]) -> None:
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
                report(entry, taken, now, found)
                report(entry, ran_out, now, found, partial=True)
            instance.forget(now)
            self._watch(group, key, entry, instance)
            if instance.is_idle:
                group.tidy(key)

    # -- handing over

    def snapshot(self) -> dict[str, Any]:
        if not self._remembers:
            raise ValueError("a snapshot needs a detector that was made with remembers=True")
        progress = (
            Progress(shared.pattern.hash, shared.since, state, instance.next_alarm)
            for group in self._groups()
            for cell in group.cells.values()
            for entry, instance in cell.items()
            for member, state in instance.states()
            for shared in (entry.members[member],)
        )
        return encoded(self._bound, sorted(self._buffered), progress)

    def clear(self) -> None:
        super().clear()
        for group in self._groups():
            group.cells.clear()
        for alarms in self._alarms:
            alarms.clear()

    def resume(self, state: Mapping[str, Any]) -> None:
        saved = decoded(state)
        shared = {(pattern.hash, since): each for (pattern, since), each in self._shared.items()}
        resumed: dict[tuple[Entry, Key], dict[int, MemberState]] = {}
        for each in saved.progress:
            going_on = shared.get((each.pattern, each.since))
            if going_on is None or going_on.entry is None:
                continue
            key = self._group_of(going_on.entry).key_of(each.state.witness.notification)
            if key is not None:
                resumed.setdefault((going_on.entry, key), {})[going_on.member] = each.state
        matched = dict(zip(saved.occurrences, self._matched(saved.occurrences), strict=True))
        for (entry, key), members in resumed.items():
            self._resume(entry, key, members, matched)
        self._bound = max(self._bound, saved.bound)
        for occurrence in saved.held:
            self.feed(occurrence)

    def _resume(
        self, entry: Entry, key: Key, states: dict[int, MemberState], matched: dict[Occurrence, Matched]
    ) -> None:
        """Go on with what some of those who share an automaton had in progress for a value."""
        group = self._group_of(entry)
        cell = group.cells.setdefault(key, {})
        if entry in cell:
            states = {**dict(cell[entry].states()), **states}
        seen_by: dict[Rank, tuple[Occurrence, int]] = {}
        for member, each in states.items():
            for occurrence in each.seen:
                _, members = seen_by.get(occurrence.rank, (None, 0))
                seen_by[occurrence.rank] = occurrence, members | member
        seen = []
        for _, (occurrence, members) in sorted(seen_by.items()):
            filters = matched.get(occurrence) or self._matched([occurrence])[0]
            seen.append(Seen(occurrence, entry.reaction(filters).only(members)))
        instance = cell[entry] = Instance.resumed(entry.automaton, seen, states)
        self._watch(group, key, entry, instance)
        if instance.is_idle:
            group.tidy(key)


def shared_of(pattern: Pattern) -> Pattern:
    """A pattern without its name and outputs: patterns that agree in the rest are detected together.

    Outputs that look back stay: for them, more is held.
    """
    sees_unnamed = not pattern.types_named.isdisjoint((UNNAMED, UNNAMED + PARTIAL))
    outputs = tuple(each for each in pattern.outputs if each.operand.reference.back)
    name = pattern.name if sees_unnamed else UNNAMED
    return replace(pattern, name=name, outputs=outputs, left_out=())


def _names(shared: SharedPattern) -> frozenset[str]:
    """The types of the composites that a pattern makes, by all its names."""
    return frozenset(name for pattern in shared.subscribers.values() for name in pattern.types_made)
