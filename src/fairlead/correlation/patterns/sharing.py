"""Sharing: patterns of one form have one automaton, and automata over the same attributes one look-up of values.

    SharedPattern   a pattern that is detected from a rank on, and the queries that have it
    Entry        an automaton with the patterns that share it, each a bit
    Group        the automata of one level that look at the same attributes, with what is in progress by value
    Concerned    what occurrences that match certain filters do to the automata of a group

Law: sharing changes nothing; a pattern's composites are those that a detector of its own would find.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fairlead.correlation.occurrences import Occurrence, Rank
from fairlead.correlation.patterns.automaton import Automaton
from fairlead.correlation.patterns.evaluation import Matched
from fairlead.correlation.patterns.graph import bits
from fairlead.correlation.patterns.instance import Instance
from fairlead.correlation.patterns.model import Atom, Pattern
from fairlead.correlation.patterns.moving import FIRST_OF_ALL
from fairlead.correlation.patterns.reactions import EVERYONE, Reaction
from fairlead.model import Kind, Notification, key_of, kind_of

__all__ = ["Concerned", "Entry", "Group", "Key", "SharedPattern"]

_NO_KEY: Final = frozenset({Kind.ABSENT, Kind.NAN})
Key: TypeAlias = Hashable
"""The key that tells the streams of a pattern with `same` apart."""


@dataclass(eq=False, slots=True)
class SharedPattern:
    """A pattern that is detected from a rank on, without its name and outputs, for all queries that have it."""

    pattern: Pattern
    since: Rank
    types: frozenset[str]
    """The types that it names: composites of others are seen by their types only."""
    atoms: tuple[Atom, ...]
    filters: tuple[tuple[int | None, int | None], ...]
    """The numbers of the filters of each atom, and of its domain."""
    subscribers: dict[str, Pattern] = field(default_factory=dict)
    steps: tuple[str, ...] = ()
    entry: Entry | None = None
    member: int = 0
    """Its bit among those that share its automaton."""
    _carried: tuple[tuple[Pattern, tuple[str, ...]], ...] | None = None

    def __post_init__(self) -> None:
        self.steps = tuple(atom.step for atom in self.atoms)

    def settle(self) -> None:
        """The queries that have it have changed."""
        self._carried = None

    @property
    def carried(self) -> tuple[tuple[Pattern, tuple[str, ...]], ...]:
        """The patterns that differ in what their composites carry, with their ids."""
        if self._carried is None:
            found: dict[Pattern, list[str]] = {}
            for id, pattern in self.subscribers.items():
                found.setdefault(pattern, []).append(id)
            self._carried = tuple((pattern, tuple(sorted(ids))) for pattern, ids in found.items())
        return self._carried


class Entry:
    """An automaton with the patterns that share it."""

    __slots__ = ("_domains", "_takes", "automaton", "everyone", "level", "members", "seeing", "since")

    def __init__(self, automaton: Automaton, level: int) -> None:
        self.automaton = automaton
        self.level = level
        self.members: dict[int, SharedPattern] = {}
        self.everyone = 0
        self.since = FIRST_OF_ALL
        """From here on, all of them see what comes."""
        self.seeing: dict[str, int] = {}
        """The number of patterns that name a type."""
        self._takes: dict[int, dict[int, int]] = {}
        self._domains: dict[int, dict[int, int]] = {}
        """By the numbers of a filter and of an atom: whose atom it is, or the domain of whose atom."""

    @property
    def numbers(self) -> set[int]:
        """The numbers of all filters that concern it."""
        return {*self._takes, *self._domains}

    def starts(self, shared: SharedPattern) -> Iterator[int]:
        """The numbers of the filters with which a match of a pattern may start, and of those that it looks back
        at."""
        for atom, (number, _) in enumerate(shared.filters):
            if number is not None and self.automaton.initial_mask >> atom & 1:
                yield number
        for looking in self.automaton.lookback:
            yield from (number for number in shared.filters[looking.sort] if number is not None)

    def join(self, shared: SharedPattern, member: int | None = None) -> None:
        """Take in a pattern, under the first bit that is free unless one is given."""
        shared.entry, shared.member = self, ~self.everyone & (self.everyone + 1) if member is None else member
        self.members[shared.member] = shared
        for atom, filters in enumerate(shared.filters):
            for concerned, number in zip((self._takes, self._domains), filters, strict=True):
                if number is not None:
                    members = concerned.setdefault(number, {})
                    members[atom] = members.get(atom, 0) | shared.member
        self._note(shared)

    def leave(self, shared: SharedPattern) -> None:
        """Let a pattern go."""
        del self.members[shared.member]
        for atom, filters in enumerate(shared.filters):
            for concerned, number in zip((self._takes, self._domains), filters, strict=True):
                if number is not None and number in concerned:
                    concerned[number][atom] &= ~shared.member
                    if not any(concerned[number].values()):
                        del concerned[number]
        shared.entry = None
        self.everyone, self.since, self.seeing = 0, FIRST_OF_ALL, {}
        for each in self.members.values():
            self._note(each)

    def _note(self, shared: SharedPattern) -> None:
        self.everyone |= shared.member
        self.since = max(self.since, shared.since)
        for type in shared.types:
            self.seeing[type] = self.seeing.get(type, 0) | shared.member

    def of(self, members: int) -> list[SharedPattern]:
        """The patterns of some bits."""
        alone = self.members.get(members)
        return [self.members[each] for each in bits(members)] if alone is None else [alone]

    def reaction(self, matched: Iterable[int]) -> Reaction:
        """The effect of an occurrence that these filters match."""
        taken, domain = [0] * len(self.automaton.steps), [0] * len(self.automaton.steps)
        for number in matched:
            for found, concerned in ((taken, self._takes), (domain, self._domains)):
                for atom, members in concerned.get(number, _NOBODY).items():
                    found[atom] |= members
        return Reaction(self.automaton, self.everyone, tuple(taken), tuple(domain))

    def sifted(self, reaction: Reaction, occurrence: Occurrence) -> Reaction:
        """The same for the members that see an occurrence: their windows have begun, and they name its type."""
        rank, seeing = occurrence.rank, EVERYONE
        if rank < self.since:
            for member, shared in self.members.items():
                if rank < shared.since:
                    seeing &= ~member
        if rank[2]:
            type = occurrence.notification.get("type")
            seeing &= self.seeing.get(type, 0) if isinstance(type, str) else 0
        return reaction if not reaction.concerned & ~seeing else reaction.only(seeing)


_NOBODY: Final[Mapping[int, int]] = {}
Cell: TypeAlias = dict[Entry, Instance]
"""The instances in progress for a value."""


class Group:
    """The automata of one level with the same `same` attributes, and their partial matches for each key."""

    __slots__ = ("_names", "cells", "entries", "starts")

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self.cells: dict[Key, Cell] = {}
        self.entries: dict[Entry, None] = {}
        self.starts: dict[int, dict[Entry, None]] = {}

    def settle(self) -> None:
        """Note what may start with what."""
        self.starts = {}
        for entry in self.entries:
            for shared in entry.members.values():
                self.note(entry, entry.starts(shared))

    def note(self, entry: Entry, starts: Iterable[int]) -> None:
        """Note what an automaton may start with."""
        for number in starts:
            self.starts.setdefault(number, {})[entry] = None

    def instances(self, entry: Entry) -> Iterator[tuple[Key, Instance]]:
        """The instances of an automaton."""
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
        """The key of a notification; None if it is in no stream."""
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


class Concerned(dict[Entry, Reaction]):
    """Occurrences that match certain filters: what they do to the automata of a group."""

    __slots__ = ("_matched", "group", "starting")

    def __init__(self, group: Group, matched: Matched) -> None:
        self.group = group
        self.starting = dict.fromkeys(entry for number in matched for entry in group.starts.get(number, ()))
        """The automata that may start with them, where nothing is in progress."""
        self._matched = matched

    def __missing__(self, entry: Entry) -> Reaction:
        self[entry] = reaction = entry.reaction(self._matched)
        return reaction
