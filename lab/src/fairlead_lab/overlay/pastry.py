"""A ring of nodes in which every key has a responsible node, and every node finds it in few hops.

The law: a message for a key, sent on by `next_hop` from any node, reaches the live node whose identifier is
closest to the key, and no node twice. With n nodes and digits of base 2^b it takes about log n to that base
(Pastry, book 4.6.8).

A node knows few others. Its **leaf set** are the l/2 next ones on either side of the ring; its **routing table**
has, for every length d of a prefix and every digit c, a node that shares d digits with it and goes on with c.
Identifiers lie on a circle: after the largest comes the smallest, and distances are measured the shorter way.

Whoever joins asks any node, and its request is routed to its own identifier. The nodes on the way hand over
the rows of their tables that fit, the last one its leaf set; then the newcomer makes itself known. Whoever is
found dead is dropped, and what is missing then is asked of others: leaves of leaves, cells of the table of
nodes in the same row. All of it rests on two rules:

- the leaf set is always the nearest of all that a node knows;
- who becomes a leaf is asked for its own leaves.

So leaf sets are right again after any number of failures as long as fewer than l/2 nodes side by side fail at
once: one live leaf is left on that side, and it knows somebody beyond the gap. (The book says that routing fails
beyond l/2; with exactly l/2, too, nobody on a side is left to ask.) If more fail at once, the nodes at the edge
of the gap take the nearest that they know from their tables, or from the other way around the circle, for
leaves, and come nearer by asking those. Thus one gap of any size is closed, in a number of steps that grows with
the nodes and not with their logarithm. Two or more such gaps may leave rings that do not know of each other:
then routes end in their own ring, until a node of one is told of a node of another.

A node is a state machine: a message in, messages out, with no clock and no chance inside. While repairs are
under way a route may end at a node that is not the closest; in `Ring`, which runs all messages to the end, it
never does.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from fairlead.errors import TopologyRefused

__all__ = [
    "Ask",
    "Failed",
    "Goodbye",
    "Hello",
    "Message",
    "NodeId",
    "PastryNode",
    "Ring",
    "Seek",
    "Space",
    "Tell",
    "Welcome",
]

NodeId: TypeAlias = int
"""A place on the circle, of a node or of a key."""
Cell: TypeAlias = tuple[int, int]
"""Row and column of a routing table: how many digits are shared, and the digit that comes next."""

LEAVES: Final = 16
SPARES: Final = 2
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"


@dataclass(frozen=True, slots=True)
class Space:
    """Identifiers of so many digits of base 2^b: 128 bits, unless told otherwise."""

    digits: int = 32
    b: int = 4
    size: int = field(init=False, repr=False, compare=False)
    """The number of identifiers."""

    def __post_init__(self) -> None:
        if not (1 <= self.b <= 5 and 1 <= self.digits * self.b <= 256):
            raise TopologyRefused(
                f"{self.digits} digits of base 2^{self.b} make no identifiers",
                hint="take b from 1 to 5, and at most 256 bits",
            )
        object.__setattr__(self, "size", 1 << self.digits * self.b)

    def named(self, name: str) -> NodeId:
        """The place of a name: its hash, so that names are spread evenly."""
        return int.from_bytes(hashlib.sha256(name.encode()).digest()) >> (256 - self.digits * self.b)

    def read(self, text: str) -> NodeId:
        """The identifier with these digits."""
        found = int(text, 1 << self.b)
        if len(text) != self.digits:
            raise TopologyRefused(f"{text!r} does not have {self.digits} digits")
        return found

    def text(self, id: NodeId) -> str:
        """The digits of an identifier."""
        return "".join(_DIGITS[self.digit(id, position)] for position in range(self.digits))

    def digit(self, id: NodeId, position: int) -> int:
        return id >> self.b * (self.digits - 1 - position) & (1 << self.b) - 1

    def shared(self, one: NodeId, other: NodeId) -> int:
        """The number of digits that both begin with."""
        return self.digits - -(-(one ^ other).bit_length() // self.b)

    def clockwise(self, start: NodeId, end: NodeId) -> int:
        """The distance from one to the other, going up."""
        return (end - start) % self.size

    def distance(self, one: NodeId, other: NodeId) -> int:
        """The distance of two, the shorter way around the circle."""
        apart = abs(one - other)
        return min(apart, self.size - apart)

    def closest(self, ids: Iterable[NodeId], key: NodeId) -> NodeId:
        """The one that is closest to a key; of two, the smaller."""
        return min(ids, key=lambda id: (self.distance(id, key), id))


# -- messages ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seek:
    """A newcomer is looking for its place; these it has met on its way."""

    newcomer: NodeId
    met: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer to a newcomer, from the node closest to it: whom it should know."""

    sender: NodeId
    ids: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Hello:
    """The sender is there."""

    sender: NodeId


@dataclass(frozen=True, slots=True)
class Ask:
    """The sender is there, and asks for leaves, or for candidates for a cell of its routing table."""

    sender: NodeId
    cell: Cell | None = None


@dataclass(frozen=True, slots=True)
class Tell:
    """The answer: these are there, as far as the sender knows."""

    sender: NodeId
    ids: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The sender leaves; these were its leaves."""

    sender: NodeId
    ids: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """A report of the transport: a node is dead, and a message, if there was one, has not reached it."""

    node: NodeId
    undelivered: Message | None = None


Message: TypeAlias = Seek | Welcome | Hello | Ask | Tell | Goodbye | Failed
Effects: TypeAlias = list[tuple[NodeId, Message]]
"""Messages to be sent, each with whom to."""


# -- the node ----------------------------------------------------------------------------------------------


class PastryNode:
    """One node: its leaf set, its routing table, and what it does about them.

    A cell of the routing table has the nearest of its candidates by `proximity` (the smaller the nearer), and
    `spares` further ones as backup. Where proximity is equal, each node prefers others: those whose further
    digits are most like its own. So no node is in everybody's table, and what a table holds depends on whom the
    node was told of and not on the order.
    """

    def __init__(
        self,
        id: NodeId,
        space: Space,
        *,
        leaves: int = LEAVES,
        spares: int = SPARES,
        proximity: Callable[[NodeId], int] | None = None,
    ) -> None:
        if leaves < 2 or leaves % 2:
            raise TopologyRefused(f"a leaf set of {leaves} has no two equal sides", hint="take 2, 4, 6, …")
        self.id: Final = id
        self.space: Final = space
        self._half = leaves // 2
        self._held = 1 + spares
        self._proximity = proximity
        self._larger: list[NodeId] = []  # nearest first, as is the other side
        self._smaller: list[NodeId] = []
        self._table: dict[Cell, tuple[NodeId, ...]] = {}
        # Who was reported dead is dead until it speaks itself: others may go on telling of it for a while.
        self._dead: set[NodeId] = set()

    # -- what it knows -------------------------------------------------------------------------------------

    @property
    def larger(self) -> tuple[NodeId, ...]:
        """The leaves that follow on the circle, nearest first."""
        return tuple(self._larger)

    @property
    def smaller(self) -> tuple[NodeId, ...]:
        """The leaves that precede on the circle, nearest first."""
        return tuple(self._smaller)

    @property
    def leaves(self) -> frozenset[NodeId]:
        """The leaf set. In a small ring the two sides meet, and it holds all the others."""
        return frozenset(self._larger) | frozenset(self._smaller)

    @property
    def known(self) -> frozenset[NodeId]:
        """All in the leaf set and in the routing table, spares included."""
        return self.leaves.union(*self._table.values())

    def candidates(self, row: int, column: int) -> tuple[NodeId, ...]:
        """The nodes in a cell of the routing table: the one to use, then its spares."""
        return self._table.get((row, column), ())

    def next_hop(self, key: NodeId) -> NodeId | None:
        """The next hop of a message for a key; None where this node is the responsible one."""
        space = self.space
        if self._is_among_leaves(key):
            closest = space.closest((self.id, *self._smaller, *self._larger), key)
            return closest if closest != self.id else None
        row = space.shared(self.id, key)
        if found := self._table.get((row, space.digit(key, row))):
            return found[0]
        # The rare case. The next leaf on the way to the key always qualifies: it is closer, and whatever lies
        # between two identifiers begins with all that both begin with.
        own = space.distance(self.id, key)
        return space.closest(
            (id for id in self.known if space.shared(id, key) >= row and space.distance(id, key) < own), key
        )

    def _is_among_leaves(self, key: NodeId) -> bool:
        """Whether a key lies between the outermost leaves, or the leaf set goes all around."""
        if len(self._larger) < self._half:
            return True
        ahead, behind = self._ahead(self._larger[-1]), self._behind(self._smaller[-1])
        return ahead + behind >= self.space.size or self._ahead(key) <= ahead or self._behind(key) <= behind

    # -- what it does --------------------------------------------------------------------------------------

    def join(self, via: NodeId) -> Effects:
        """Ask any node for a place in its ring. If it dies before the answer is there, ask another one."""
        return [(via, Seek(self.id))]

    def leave(self) -> Effects:
        """Say goodbye to all that it knows."""
        return [(id, Goodbye(self.id, tuple(sorted(self.leaves)))) for id in sorted(self.known)]

    def handle(self, message: Message) -> Effects:
        """Take one step."""
        before = self.leaves
        effects = self._HANDLERS[type(message)](self, message)
        for leaf in self._nearest_first(self.leaves - before):
            effects.append((leaf, Ask(self.id)))
        return effects

    def _on_seek(self, message: Seek) -> Effects:
        newcomer = message.newcomer
        # It may have been here before. Who looks for a place is no place to send anything to.
        effects = self._drop(newcomer) if newcomer in self.known else []
        rows = range(self.space.shared(self.id, newcomer) + 1)
        met = {*message.met, self.id}.union(*(ids for (row, _), ids in self._table.items() if row in rows))
        next_hop = self.next_hop(newcomer)
        if next_hop is None:
            return [*effects, (newcomer, Welcome(self.id, tuple(sorted(met | self.leaves))))]
        return [*effects, (next_hop, Seek(newcomer, tuple(sorted(met))))]

    def _on_welcome(self, message: Welcome) -> Effects:
        self._learn_all(message.ids)
        # The leaves hear of it as they are asked.
        return [(id, Hello(self.id)) for id in sorted(self.known - self.leaves)]

    def _on_hello(self, message: Hello) -> Effects:
        self._hear(message.sender)
        return []

    def _on_ask(self, message: Ask) -> Effects:
        self._hear(message.sender)
        if message.cell is None:
            return [(message.sender, Tell(self.id, tuple(sorted(self.leaves))))]
        row, column = message.cell
        fitting = (
            id
            for id in self.known
            if self.space.shared(id, message.sender) == row and self.space.digit(id, row) == column
        )
        return [(message.sender, Tell(self.id, tuple(sorted(fitting))))]

    def _on_tell(self, message: Tell) -> Effects:
        self._hear(message.sender)
        self._learn_all(message.ids)
        return []

    def _on_goodbye(self, message: Goodbye) -> Effects:
        effects = self._drop(message.sender)
        self._learn_all(message.ids)
        return effects

    def _on_failed(self, message: Failed) -> Effects:
        effects = self._drop(message.node)
        seek = message.undelivered
        if isinstance(seek, Seek) and seek.newcomer != self.id:
            effects += self._on_seek(seek)
        return effects

    _HANDLERS: ClassVar[dict[type, Callable[..., Effects]]] = {
        Seek: _on_seek,
        Welcome: _on_welcome,
        Hello: _on_hello,
        Ask: _on_ask,
        Tell: _on_tell,
        Goodbye: _on_goodbye,
        Failed: _on_failed,
    }

    # -- learning and forgetting ---------------------------------------------------------------------------

    def fill(self, ids: Sequence[NodeId]) -> None:
        """Know what one knows who has been told of all these identifiers, which are sorted, without reading all.

        For each row only those that share so many digits are looked at, and they lie side by side; so do, without
        a proximity, those that a cell prefers.
        """
        space, own = self.space, bisect_left(ids, self.id)
        around = [ids[(own + step) % len(ids)] for step in range(-self._half, self._half + 1)]
        self._learn_all(id for id in around if id != self.id)
        low, high, row = 0, len(ids), 0
        while high - low > 1:
            shift = space.b * (space.digits - 1 - row)
            start = self.id >> shift + space.b << shift + space.b
            bounds = [
                bisect_left(ids, start + (column << shift), low, high) for column in range((1 << space.b) + 1)
            ]
            digit = space.digit(self.id, row)
            for column in range(1 << space.b):
                first, end = bounds[column], bounds[column + 1]
                if column != digit and first < end:
                    if self._proximity is None:
                        image = bisect_left(ids, self._image((row, column)), first, end)
                        first, end = max(first, image - self._held), min(end, image + self._held)
                    self._table[row, column] = self._preferred((row, column), ids[first:end])
            low, high, row = bounds[digit], bounds[digit + 1], row + 1

    def _hear(self, sender: NodeId) -> None:
        """Somebody speaks, so it is there."""
        self._dead.discard(sender)
        self._learn_all((sender,))

    def _learn_all(self, ids: Iterable[NodeId]) -> None:
        for id in ids:
            if id == self.id or id in self._dead:
                continue
            cell = self._cell(id)
            held = self._table.get(cell, ())
            if id not in held:
                self._table[cell] = self._preferred(cell, (*held, id))
            self._insert(self._larger, id, self._ahead)
            self._insert(self._smaller, id, self._behind)

    def _insert(self, side: list[NodeId], id: NodeId, offset: Callable[[NodeId], int]) -> None:
        if id not in side and (len(side) < self._half or offset(id) < offset(side[-1])):
            insort(side, id, key=offset)
            del side[self._half :]

    def _drop(self, id: NodeId) -> Effects:
        """Forget a node, and ask for what is missing without it."""
        self._dead.add(id)
        effects: Effects = []
        cell = self._cell(id)
        held = self._table.get(cell, ())
        if id in held:
            self._table[cell] = tuple(each for each in held if each != id)
        # Whoever stands next to a gap knows who is beyond it; of a gap of several, those next to the last one
        # reported are alive.
        beside = {each for side in (self._larger, self._smaller) for each in _beside(side, id)}
        if id in self.leaves:
            others = sorted(self.known - {id}, key=self._ahead)
            self._larger, self._smaller = others[: self._half], others[::-1][: self._half]
            effects += [(leaf, Ask(self.id)) for leaf in self._nearest_first(beside)]
        if held == (id,):
            del self._table[cell]
            effects += [(each, Ask(self.id, cell)) for each in self._in_row(cell[0])]
        return effects

    def _in_row(self, row: int) -> list[NodeId]:
        """The nodes that may know candidates for a row: leaves and entries of the table that share as many
        digits.
        """
        entries = {ids[0] for (each, _), ids in self._table.items() if each == row and ids}
        fitting = {leaf for leaf in self.leaves if self.space.shared(self.id, leaf) >= row}
        return self._nearest_first(entries | fitting)

    def _nearest_first(self, ids: Iterable[NodeId]) -> list[NodeId]:
        return sorted(ids, key=lambda id: (self.space.distance(self.id, id), id))

    def _ahead(self, id: NodeId) -> int:
        return self.space.clockwise(self.id, id)

    def _behind(self, id: NodeId) -> int:
        return self.space.clockwise(id, self.id)

    def _cell(self, id: NodeId) -> Cell:
        row = self.space.shared(self.id, id)
        return row, self.space.digit(id, row)

    def _image(self, cell: Cell) -> NodeId:
        """The id of this node if it were in a cell of its own table."""
        row, column = cell
        change = self.space.digit(self.id, row) ^ column
        return self.id ^ change << self.space.b * (self.space.digits - 1 - row)

    def _preferred(self, cell: Cell, ids: Sequence[NodeId]) -> tuple[NodeId, ...]:
        """Of the candidates for a cell those that it holds, the best first."""
        image, near = self._image(cell), self._proximity
        if near is None:
            ranked = sorted((abs(id - image), id) for id in ids)
            return tuple(id for _, id in ranked[: self._held])
        nearest = sorted((near(id), abs(id - image), id) for id in ids)
        return tuple(id for _, _, id in nearest[: self._held])

    def __str__(self) -> str:
        """The leaf set with the node in its middle, and the rows of the table, with the spares in brackets."""
        text = self.space.text
        sides = (self._smaller[::-1], [self.id], self._larger)
        lines = [" | ".join(" ".join(map(text, side)) for side in sides)]
        for row in sorted({row for row, _ in self._table}):
            cells = (ids for (each, _), ids in sorted(self._table.items()) if each == row)
            shown = (" ".join([text(ids[0]), *(f"({text(spare)})" for spare in ids[1:])]) for ids in cells)
            lines.append(f"row {row}: {'  '.join(shown)}")
        return "\n".join(lines)


def _beside(side: list[NodeId], id: NodeId) -> list[NodeId]:
    """Those before and after an identifier in one side of a leaf set."""
    if id not in side:
        return []
    position = side.index(id)
    return side[max(0, position - 1) : position] + side[position + 1 : position + 2]


# -- all nodes of a process --------------------------------------------------------------------------------


class Ring:
    """The nodes of one process, by the names of their brokers; messages run to the end before a call returns.

    It is also the transport: a message to a node that is not there comes back to its sender as `Failed`. Of a
    failure those hear at once whose leaf it was, for leaves watch each other; others find out when they next
    send something there.

    `identify` gives a name its identifier, the hash unless told otherwise; `proximity` says how far apart two
    brokers are (the smaller the nearer).
    """

    def __init__(
        self,
        space: Space | None = None,
        *,
        leaves: int = LEAVES,
        spares: int = SPARES,
        identify: Callable[[str], NodeId] | None = None,
        proximity: Callable[[str, str], int] | None = None,
    ) -> None:
        self.space: Final = Space() if space is None else space
        self._leaves, self._spares = leaves, spares
        self._identify = self.space.named if identify is None else identify
        self._proximity = proximity
        self._nodes: dict[NodeId, PastryNode] = {}
        self._sorted: list[NodeId] = []
        self._names: dict[NodeId, str] = {}  # of all that ever were: proximity may be asked about the dead

    @classmethod
    def filled(
        cls,
        names: Iterable[str],
        space: Space | None = None,
        *,
        leaves: int = LEAVES,
        spares: int = SPARES,
        identify: Callable[[str], NodeId] | None = None,
        proximity: Callable[[str, str], int] | None = None,
    ) -> Ring:
        """A ring of these brokers in which each has been told of all the others: no messages, and quick."""
        ring = cls(space, leaves=leaves, spares=spares, identify=identify, proximity=proximity)
        for name in names:
            ring._add(name)
        for node in ring._nodes.values():
            node.fill(ring._sorted)
        return ring

    # -- questions -----------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The brokers whose nodes are alive, in the order of their identifiers."""
        return tuple(self._names[id] for id in self._sorted)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._identify(name) in self._nodes

    def node(self, name: str) -> PastryNode:
        """The node of a broker."""
        if (found := self._nodes.get(self._identify(name))) is None:
            raise TopologyRefused(f"{name!r} is not in the ring", hint="it has to `join` first")
        return found

    def name(self, id: NodeId) -> str:
        """The broker whose node has this identifier."""
        return self._names[id]

    def responsible(self, key: NodeId) -> str:
        """The broker that every route for a key has to end at: the closest of all that live."""
        if not self._sorted:
            raise TopologyRefused("nobody is in the ring", hint="somebody has to `join` first")
        position = bisect_left(self._sorted, key)
        sides = self._sorted[position - 1], self._sorted[position % len(self._sorted)]
        return self._names[self.space.closest(sides, key)]

    def next_hop(self, name: str, key: NodeId) -> str | None:
        """The next hop of a message for a key from a broker; None where it is responsible itself.

        A next hop that turns out to be dead is dropped, and another one is taken.
        """
        node = self.node(name)
        while (found := node.next_hop(key)) is not None and found not in self._nodes:
            self._run(node.id, [(found, Hello(node.id))])
        return None if found is None else self._names[found]

    def route(self, start: str, key: NodeId) -> tuple[str, ...]:
        """The brokers that a message for a key passes, from the first to the last."""
        path = [start]
        while (found := self.next_hop(path[-1], key)) is not None:
            path.append(found)
        return tuple(path)

    # -- changes: each returns the number of messages that it took --------------------------------------------

    def join(self, name: str, via: str | None = None) -> int:
        """A broker joins through another one: the first, unless told otherwise."""
        seed = None
        if self._nodes:
            seed = self.node(via).id if via is not None else self._sorted[0]
        node = self._add(name)
        return 0 if seed is None else self._run(node.id, node.join(seed))

    def leave(self, name: str) -> int:
        """A broker says goodbye and leaves."""
        node = self.node(name)
        self._remove(node.id)
        return self._run(node.id, node.leave())

    def fail(self, *names: str) -> int:
        """Some brokers fail at once, without a word."""
        failed = [self.node(name).id for name in names]
        for id in failed:
            self._remove(id)
        # All watchers hear of all of it before anybody is asked.
        waiting: deque[tuple[NodeId, NodeId, Message]] = deque()
        for holder in [self._nodes[id] for id in self._sorted]:
            lost = [id for id in failed if id in holder.leaves]
            for id in lost:
                waiting += ((holder.id, *effect) for effect in holder.handle(Failed(id)))
        return self._run_all(waiting)

    # -- inside --------------------------------------------------------------------------------------------

    def _add(self, name: str) -> PastryNode:
        id = self._identify(name)
        if id in self._nodes:
            raise TopologyRefused(
                f"{name!r} has the place of {self._names[id]!r} in the ring",
                hint="a broker joins once; of two names with one identifier, change one",
            )
        self._names[id] = name
        node = PastryNode(
            id,
            self.space,
            leaves=self._leaves,
            spares=self._spares,
            proximity=None if self._proximity is None else self._proximity_from(name, self._proximity),
        )
        self._nodes[id] = node
        insort(self._sorted, id)
        return node

    def _proximity_from(self, name: str, proximity: Callable[[str, str], int]) -> Callable[[NodeId], int]:
        return lambda id: proximity(name, self._names[id])

    def _remove(self, id: NodeId) -> None:
        del self._nodes[id]
        self._sorted.remove(id)

    def _run(self, sender: NodeId, effects: Effects) -> int:
        return self._run_all(deque((sender, *effect) for effect in effects))

    def _run_all(self, waiting: deque[tuple[NodeId, NodeId, Message]]) -> int:
        """Hand over messages, first come first served, until none is left."""
        handled = 0
        while waiting:
            sender, to, message = waiting.popleft()
            handled += 1
            if to not in self._nodes:
                sender, to, message = to, sender, Failed(to, message)
            if (node := self._nodes.get(to)) is not None:
                waiting += ((node.id, *effect) for effect in node.handle(message))
        return handled
