"""Many components at once, over arrays: the common class, at the speed of a kernel.

    Member    a component in a bank
    Bank      components in which each type has one instance and comparisons form a tree

An event is written into the arrays once, however many components it concerns; they hold its number. What
the arrays cannot hold (a number that no float stands for, the order of strings), and a queue that grows long, make
a component *leave*: it goes on by itself, as a `Component` with what it holds.

Law: a member matches what a `Component` matches, and holds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairlead.correlation.fair import kernels
from fairlead.correlation.fair.component import ORDERED_RANKS, Choice, Layout, Slot
from fairlead.correlation.fair.relations import Events
from fairlead.correlation.fair.subscriptions import TYPE, Conjunction
from fairlead.correlation.fair.tree import compared, is_tree
from fairlead.filters import Op
from fairlead.model import ABSENT, Instant, Notification

__all__ = ["Bank", "Coded", "Member"]

LONG: Final = 16_384
"""A component with a queue of so many events leaves: looking through them takes longer than an index."""
LONG_IN_PAIRS: Final = 256
"""The same where events are compared pair by pair, because the best value of a queue does not tell enough."""
TEXTS_SPARE: Final = 1 << 16
"""So many strings are numbered without a look at which are still held."""

_OPS: Final = {
    Op.EQ: kernels.EQ,
    Op.NE: kernels.NE,
    Op.LT: kernels.LT,
    Op.LE: kernels.LE,
    Op.GT: kernels.GT,
    Op.GE: kernels.GE,
}
ROOM: Final = 1 << 17
"""So many events of components are taken in at a time."""
Ints: TypeAlias = NDArray[np.int32]
Coded: TypeAlias = tuple[NDArray[np.int8], NDArray[np.float64]]
"""A column of values: their kinds, and the numbers that stand for them."""


class Member:
    """A component in a bank: its queues, one for each type, begin at `first`."""

    def __init__(self, bank: Bank, component: Conjunction, choice: Choice) -> None:
        self.bank, self.component, self.choice = bank, component, choice
        self.first = -1
        self.coming: Events = ()
        """The events it holds until there are queues for them."""
        self.readers: Sequence[Any] = ()
        """Those that its matches are for; the bank hands them out with each."""
        layout = Layout(component)
        self.types = tuple(layout.names)
        self.room = 2 + len(self.types)
        """Of a match that is written out."""
        names = [tuple(each) for each in layout.names.values()]
        self.needs = [
            [
                (bank.column(type, names[at][index]), allowed == ORDERED_RANKS)
                for index, allowed in Slot(layout, at).ranks
            ]
            for at, type in enumerate(self.types)
        ]
        self.ties = {
            (near, far): [
                (
                    bank.column(self.types[near], names[near][own]),
                    _OPS[op],
                    bank.column(self.types[far], names[far][other]),
                )
                for own, op, other in comparisons
            ]
            for near, far, comparisons in compared(layout)
        }
        is_ordered = all(len(each) == 1 and each[0][1] >= kernels.LT for each in self.ties.values())
        self.most = bank.long or (LONG if is_ordered or len(self.types) == 2 else LONG_IN_PAIRS)

    def outwards(self, root: int) -> Iterator[tuple[int, int]]:
        """The edges of the tree away from a slot, each after those that lead to it."""
        reached = [root]
        for near in reached:  # grows as it goes outwards
            for one, far in self.ties:
                if one == near and far not in reached:
                    reached.append(far)
                    yield near, far

    @property
    def queues(self) -> range:
        """The numbers of its queues, once there are any."""
        return range(self.first, self.first + len(self.types)) if self.first >= 0 else range(0)

    @property
    def held(self) -> Events:
        """The buffered events, in the order of arrival."""
        return self.bank.held(self)

    def queue_index_of(self, event: Notification) -> int:
        """The index of the slot that an event of its types fills."""
        return self.types.index(event.get(TYPE))

    def can_hold(self, event: Notification) -> bool:
        """Whether the arrays can hold what is compared of an event."""
        names = {column: name for name, column in self.bank.names_of(event)}
        for column, is_ordered in self.needs[self.queue_index_of(event)]:
            kind, _ = self.bank.coded(event.get(names[column]))
            if kind == kernels.OTHER or (is_ordered and kind == kernels.TEXT):
                return False
        return True


class Bank:
    """Components, and the events that they hold."""

    EXACT: Final = 1 << 53
    """Up to here, a float stands for every whole number."""

    def __init__(self, long: int | None = None) -> None:
        """`long`: a component with a queue of so many events leaves."""
        self.long = long
        self._members: dict[Member, tuple[int, ...]] = {}
        """With the numbers of the filters of its places."""
        self._by_queue: dict[int, Member] = {}
        self._columns: dict[str, int] = {}
        self._names: dict[str, list[tuple[str, int]]] = {}
        self._is_laid_out = False
        self._heads = self._tails = self._lengths = np.empty(0, np.int32)
        self._following, self._events, self._alive = (
            np.empty(0, np.int32),
            np.empty(0, np.int32),
            np.empty(0, np.bool_),
        )
        self._free_nodes = 0
        self._values, self._kinds = np.empty((0, 0)), np.empty((0, 0), np.int8)
        self._uses, self._arrived = np.empty(0, np.int32), np.empty(0, np.int64)
        self._free_slots: list[int] = []
        self._objects: list[Any] = []
        """By slot the event, or the number of its row."""
        self._number = 0
        self._texts: dict[str, int] = {}
        self._texts_most, self._text = TEXTS_SPARE, 0
        self._state = np.array([-1, 0, 0], np.int64)
        self._out = self._leaving = np.empty(0, np.int32)

    @property
    def columns(self) -> Iterable[str]:
        """The attributes that are compared."""
        return self._columns

    @staticmethod
    def admits(component: Conjunction) -> bool:
        """Whether a component is of the class."""
        return is_tree(component) and not any(each.is_unary for each in component.comparisons)

    def column(self, type: str, name: str) -> int:
        """The column of an attribute, which is read of events of a type from now on."""
        column = self._columns.setdefault(name, len(self._columns))
        own = self._names.setdefault(type, [])
        if (name, column) not in own:
            own.append((name, column))
        return column

    def names_of(self, event: Notification) -> list[tuple[str, int]]:
        """The attributes that are read of an event, with their columns."""
        type = event.get(TYPE)
        return self._names.get(type, []) if isinstance(type, str) else []

    def add(
        self,
        component: Conjunction,
        choice: Choice,
        filters: Sequence[int],
        held: Iterable[Notification] = (),
        readers: Sequence[Any] = (),
    ) -> Member | None:
        """Add a component with the numbers of its slots' filters, its buffered events, and those who read its
        matches; None if the bank cannot have it."""
        member = Member(self, component, choice)
        member.coming, member.readers = tuple(held), readers
        if not all(map(member.can_hold, member.coming)):
            return None
        self._members[member] = tuple(filters)
        self._is_laid_out = False
        return member

    def remove(self, member: Member) -> None:
        """Let a component go."""
        for queue in member.queues:
            for node in self._nodes(queue):
                self._release(node)
            self._heads[queue], self._lengths[queue] = -1, 0
        del self._members[member]
        self._is_laid_out = False

    def held(self, member: Member) -> Events:
        """The buffered events of a component, in the order of arrival."""
        slots = [int(self._events[node]) for queue in member.queues for node in self._nodes(queue)]
        events = (self._objects[slot] for slot in sorted(slots, key=self._arrived.__getitem__))
        return (*(event for event in events if event is not None), *member.coming)

    def take(
        self, notification: Notification, numbers: Iterable[int]
    ) -> tuple[Iterable[tuple[Sequence[Any], Events]], list[tuple[Member, bool]]]:
        """The matches that an event completes which matches these filters, each with its component's readers, and
        the components that have to leave.

        Of these it is said whether they hold the event already. The matches are to be read before the next event.
        """
        if not self._is_laid_out:
            self._lay_out()
        filters = [number for number in numbers if number in self._counts]
        if not filters:
            return [], []
        slot = self._slot(notification)
        self._make_room(sum(map(self._counts.__getitem__, filters)))
        self._feed(
            np.array([slot], np.int32), np.array([0, len(filters)], np.int32), np.array(filters, np.int32)
        )
        if not self._uses[slot]:
            self._free_slots.append(slot)
        _, count, left = self._state.tolist()
        return self._matches(self._out[:count].tolist()), [
            (self._by_queue[queue], bool(is_held))
            for queue, is_held in batched(self._leaving[: 2 * left].tolist())
        ]

    def _feed(self, slots: Ints, starts: Ints, filters: Ints) -> None:
        """Take in events that are in slots; what comes of it is in the state and what is written out."""
        self._state[1:] = 0
        kernels.feed(
            slots,
            starts,
            filters,
            0,
            *self._static,
            self._heads,
            self._tails,
            self._lengths,
            self._following,
            self._events,
            self._alive,
            self._values,
            self._kinds,
            self._uses,
            self._out,
            self._leaving,
            self._state,
        )

    def take_rows(
        self, columns: Mapping[str, Coded], starts: NDArray[np.int32], numbers: NDArray[np.int32]
    ) -> dict[Member, list[tuple[int, tuple[int, ...]]]] | None:
        """The relations that many events, given as columns, complete: the row of the last event, and the rows of
        all.

        `numbers` are the filters that the events match, those of a row from where `starts` says on. None where a
        component has to leave.
        """
        self._lay_out()
        found: dict[Member, list[tuple[int, tuple[int, ...]]]] = {each: [] for each in self._members}
        counts = np.zeros(int(numbers.max(initial=0)) + 1, np.int64)
        for number, count in self._counts.items():
            if number < len(counts):
                counts[number] = count
        concerned = np.concatenate(([0], np.cumsum(counts[numbers])))[starts]
        begin, rows = 0, self._objects
        while begin < len(starts) - 1:
            room = np.searchsorted(concerned, concerned[begin] + ROOM, "right") - 1
            end = int(min(max(room, begin + 1), begin + ROOM))
            while len(self._free_slots) < end - begin:
                self._find_slots(end - begin)
            slots = np.array(self._free_slots[: end - begin], np.int32)
            del self._free_slots[: end - begin]
            for row, slot in enumerate(slots.tolist(), begin):
                rows[slot] = row
            for name, column in self._columns.items():
                kinds, values = columns[name]
                self._kinds[slots, column] = kinds[begin:end]
                self._values[slots, column] = values[begin:end]
            own = numbers[starts[begin] : starts[end]]
            is_known = counts[own] > 0
            known = np.concatenate(([0], np.cumsum(is_known)))[starts[begin : end + 1] - starts[begin]]
            self._make_room(int(concerned[end] - concerned[begin]))
            self._feed(slots, known.astype(np.int32), own[is_known].astype(np.int32))
            if self._state[kernels.LEFT]:
                return None
            self._free_slots += slots[self._uses[slots] == 0].tolist()
            out, at = self._out[: self._state[kernels.OUT]].tolist(), 0
            while at < len(out):
                member = self._by_queue[out[at + 1]]
                taken = tuple([rows[slot] for slot in out[at + 2 : at + member.room]])
                found[member].append((begin + out[at], taken))
                at += member.room
            begin = end
        return found

    def _matches(self, out: list[int]) -> Iterator[tuple[Sequence[Any], Events]]:
        at, objects, by_queue = 0, self._objects, self._by_queue
        while at < len(out):
            member = by_queue[out[at + 1]]
            end = at + member.room
            yield member.readers, tuple([objects[slot] for slot in out[at + 2 : end]])
            at = end

    # -- events ----------------------------------------------------------------------------------------------

    def _slot(self, notification: Notification) -> int:
        """Write an event into the arrays."""
        if not self._free_slots:
            self._find_slots()
        slot = self._free_slots.pop()
        self._objects[slot] = notification
        self._number += 1
        self._arrived[slot] = self._number
        lookup, values, kinds = notification.attributes.lookup, self._values, self._kinds
        for name, column in self.names_of(notification):
            kinds[slot, column], values[slot, column] = self.coded(lookup(name))
        return slot

    def _find_slots(self, least: int = 1) -> None:
        """Find the slots that nobody holds; where these are few, make as many again."""
        free = np.flatnonzero(self._uses == 0)
        size = len(self._uses)
        if len(free) <= max(size // 2, least):
            more = max(size, least, 64)
            self._uses = np.concatenate((self._uses, np.zeros(more, np.int32)))
            self._arrived = np.concatenate((self._arrived, np.zeros(more, np.int64)))
            self._values = np.concatenate((self._values, np.zeros((more, self._values.shape[1]))))
            self._kinds = np.concatenate((self._kinds, np.zeros((more, self._kinds.shape[1]), np.int8)))
            self._objects += [None] * more
            free = np.concatenate((free, np.arange(size, size + more)))
        self._free_slots = free.tolist()

    def coded(self, value: Any) -> tuple[int, float]:
        """The kind of a value, and its number."""
        match value:
            case bool():
                return kernels.BOOLEAN, value
            case int() if -self.EXACT <= value <= self.EXACT:
                return kernels.NUMBER, value
            case float():
                return (kernels.NUMBER, value) if not isnan(value) else (kernels.NOTHING, 0.0)
            case Instant() if -self.EXACT <= value.microseconds <= self.EXACT:
                return kernels.TIME, value.microseconds
            case str():
                return kernels.TEXT, self._text_number(value)
            case None:
                return kernels.NULL, 0.0
        return (kernels.NOTHING if value is ABSENT else kernels.OTHER), 0.0

    def _text_number(self, text: str) -> int:
        number = self._texts.get(text)
        if number is None:
            if len(self._texts) >= self._texts_most:
                used = self._values[self._uses > 0][self._kinds[self._uses > 0] == kernels.TEXT]
                there = set(used.tolist())
                self._texts = {each: known for each, known in self._texts.items() if known in there}
                self._texts_most = 2 * len(self._texts) + TEXTS_SPARE
            self._text += 1
            number = self._texts[text] = self._text
        return number

    # -- arrays ----------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        """Number the queues of all components anew, with what they hold."""
        members = list(self._members)
        queues = np.array(
            [queue for each in members for queue in (each.queues or [-1] * len(each.types))], np.int64
        )
        is_known = queues >= 0
        for name, nothing in (("_heads", -1), ("_tails", -1), ("_lengths", 0)):
            moved = np.full(len(queues), nothing, np.int32)
            moved[is_known] = getattr(self, name)[queues[is_known]]
            setattr(self, name, moved)
        width = len(self._columns) - self._values.shape[1]
        self._values = np.hstack((self._values, np.zeros((len(self._uses), width))))
        self._kinds = np.hstack((self._kinds, np.zeros((len(self._uses), width), np.int8)))
        spans: list[tuple[int, int]] = []
        edges: list[tuple[int, int, int, int]] = []
        ties: list[tuple[int, int, int]] = []
        needs: list[tuple[int, bool]] = []
        edge_start, need_start = [0], [0]
        by_filter: dict[int, list[int]] = {}
        for each in members:
            first = each.first = len(spans)
            ranges = {}
            for pair, asked in each.ties.items():
                ranges[pair] = len(ties), len(ties) + len(asked)
                ties += asked
            for place, number in enumerate(self._members[each]):
                spans.append((first, first + len(each.types)))
                edges += [
                    (first + near, first + far, *ranges[near, far]) for near, far in each.outwards(place)
                ]
                edge_start.append(len(edges))
                needs += each.needs[place]
                need_start.append(len(needs))
                by_filter.setdefault(number, []).append(first + place)
        self._by_queue = {queue: each for each in members for queue in each.queues}
        self._counts = {number: len(those) for number, those in by_filter.items()}
        starts = np.zeros(max(by_filter, default=0) + 2, np.int32)
        for number, count in self._counts.items():
            starts[number + 1] = count
        per_queue = [(each.choice is Choice.MOST_RECENT, each.most) for each in members for _ in each.types]
        self._static = (
            np.cumsum(starts, dtype=np.int32),
            _ints([queue for number in sorted(by_filter) for queue in by_filter[number]]),
            _ints(spans, 2),
            np.array([newest for newest, _ in per_queue], np.uint8),
            _ints([most for _, most in per_queue]),
            _ints(edge_start),
            _ints(edges, 4),
            _ints(ties, 3),
            _ints(need_start),
            _ints(needs, 2),
        )
        self._widest = max((each.room for each in members), default=0)
        self._is_laid_out = True
        for each in members:
            coming, each.coming = each.coming, ()
            for event in coming:
                self._hold(each, event)

    def _hold(self, member: Member, event: Notification) -> None:
        """Let a component hold an event that it held before."""
        self._make_room(1)
        slot, node = self._slot(event), int(self._state[kernels.FREE])
        self._state[kernels.FREE] = self._following[node]
        queue = member.first + member.queue_index_of(event)
        self._following[node], self._events[node] = -1, slot
        if self._heads[queue] < 0:
            self._heads[queue] = node
        else:
            self._following[self._tails[queue]] = node
        self._tails[queue] = node
        self._lengths[queue] += 1
        self._uses[slot] += 1

    def _make_room(self, concerned: int) -> None:
        """See to it that so many events can be held or matched more."""
        if len(self._out) < concerned * self._widest:
            self._out = np.empty(2 * concerned * self._widest, np.int32)
            self._leaving = np.empty(4 * concerned, np.int32)
        self._free_nodes -= concerned
        if self._free_nodes >= 0:
            return
        size = len(self._events)
        free = size - int(self._lengths.sum())
        if free < 2 * concerned:
            more = max(size, 2 * concerned, 64)
            following = np.arange(size + 1, size + more + 1, dtype=np.int32)
            following[-1] = self._state[kernels.FREE]
            self._state[kernels.FREE] = size
            self._following = np.concatenate((self._following, following))
            self._events = np.concatenate((self._events, np.zeros(more, np.int32)))
            self._alive = np.concatenate((self._alive, np.zeros(more, np.bool_)))
            free += more
        self._free_nodes = free - concerned

    def _nodes(self, queue: int) -> list[int]:
        nodes, node = [], int(self._heads[queue])
        while node >= 0:
            nodes.append(node)
            node = int(self._following[node])
        return nodes

    def _release(self, node: int) -> None:
        self._uses[self._events[node]] -= 1
        self._following[node] = self._state[kernels.FREE]
        self._state[kernels.FREE] = node


def _ints(rows: Sequence[Any], width: int = 0) -> Ints:
    made = np.array(rows, np.int32)
    return made.reshape(-1, width) if width else made


def batched(flat: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Numbers in pairs."""
    return zip(flat[::2], flat[1::2], strict=True)
