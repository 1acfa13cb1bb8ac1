"""Matches in progress as a graph: one node for an element and a state, however many matches meet there.

    A1 ─▶ A2 ─▶ A3            `1 or more A followed by B`: five nodes and their edges stand for every match, and
     ╲     ╲     ╲            none is written out before it is asked for
      ╲─────╲─────▶ B

A match is a path from a node at which it may start to the node at which it was accepted. Matches that are in the
same state with equal registers behave alike from there on, so they share the nodes that follow.

Patterns of one form share the graph as well. Each is a *member*, a bit; an edge has the members for which it was
gone, and a node those for which a match may start with it. What members have in common is there once.

Law: the paths to a node that are open to a member all the way are exactly that member's matches in progress that
took the node's element last and are in its state. They are listed in the order of preference, with work that
grows with the nodes and with what is asked for, never with the number of paths.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeAlias

from fairlead.correlation.occurrences import Occurrence, Rank, TimeEvent
from fairlead.correlation.patterns.judging import Claim, Hull
from fairlead.correlation.patterns.reactions import EVERYONE
from fairlead.model.order import BEGINNING, END

__all__ = [
    "Allowed",
    "AnnotatedNode",
    "Constituent",
    "Edge",
    "Entry",
    "Extent",
    "Node",
    "Path",
    "Reached",
    "Shared",
    "Sieve",
    "best_paths",
    "bits",
    "entered_before",
    "extent_of",
    "leading_to",
    "nodes_of",
    "only",
    "prune",
    "starting_at",
    "starts_of",
]

Constituent: TypeAlias = tuple[Rank, int, Occurrence]
"""The occurrence that an atom took: its rank, the number of the atom, the occurrence."""
Path: TypeAlias = tuple[Constituent, ...]
Shared: TypeAlias = tuple[int, Path]
"""Members, and a path that is a match of each of them."""


class Node:
    """An element that matches in progress took last, and where they came from."""

    __slots__ = (
        *("before", "earliest", "element", "first", "floor", "latest", "members", "number"),
        *("starts", "took"),
    )
    registers: tuple[Any, ...] = ()
    hulls: tuple[Hull, ...] = ()
    at_once: tuple[int, ...] = ()
    """The registers of timers that were started with it and go off at the same moment."""
    entered: tuple[int, ...] = ()
    """The scopes that its matches enter here: what they take there strongly follows its element."""

    def __init__(
        self, number: int, element: Occurrence | TimeEvent, took: tuple[int, ...], floor: int
    ) -> None:
        self.number = number
        """Nodes are numbered as they are made, so each comes behind those that lead to it."""
        self.element = element
        self.took = took
        """The atoms that took it; none takes a time event as a constituent."""
        self.floor = floor
        """Matches with constituents that started before this time do not lead here: a window has closed."""
        self.before: list[Edge] = []
        """The edges over which its matches come."""
        self.earliest = END
        """When the occurrence ended with which the earliest of its matches started."""
        self.first: Edge | None = None
        """The edge over which that match comes; None where it starts here, or is not the only one of that
        moment."""
        self.starts = self.members = 0
        """The members for which a match may start with it, and all for which matches come here."""
        self.latest = BEGINNING
        """The latest time at which one of its matches started; not earlier, at least."""

    def prune(self, floor: int) -> None:
        """Let go what leads here from matches that all started before a time."""
        self._come_from([edge for edge in self.before if edge[0].latest >= floor])

    def only_from(self, edges: list[Edge]) -> Node:
        """The same, but that matches come here from nowhere else."""
        other = copy(self)
        other._come_from(edges)
        return other

    def _come_from(self, edges: list[Edge]) -> None:
        starts, self.before = self.starts, []
        self.starts = self.members = 0
        self.earliest, self.first, self.latest = END, None, BEGINNING
        if starts:
            self.begin(starts)
        if edges:
            self.reach(edges)

    def begin(self, members: int) -> None:
        """Matches of some members may start here."""
        element = self.element
        self.starts |= members
        self.members |= members
        self.latest = element.start
        if element.end <= self.earliest:
            self.earliest, self.first = element.end, None

    def reach(self, edges: list[Edge]) -> None:
        """Matches come here, too, from elsewhere."""
        members, earliest, first, latest = self.members, self.earliest, self.first, self.latest
        for edge in edges:
            node, some = edge
            members |= some
            if node.earliest < earliest:
                earliest, first = node.earliest, edge
            elif node.earliest == earliest:
                first = None
            if node.latest > latest:  # noqa: PLR1730  (this is where detectors spend their time)
                latest = node.latest
        if latest > self.element.start and self.took:
            latest = self.element.start
        self.members, self.earliest, self.first, self.latest = members, earliest, first, latest
        self.before = self.before + edges if self.before else edges

    @property
    def rank(self) -> Rank:
        """The rank of the occurrence that it took."""
        assert isinstance(self.element, Occurrence)
        return self.element.rank

    @property
    def taken(self) -> Path:
        """The constituents that came with it."""
        element = self.element
        if isinstance(element, TimeEvent):
            return ()
        return tuple([(element.rank, number, element) for number in self.took])


class Entry(Node):
    """A node whose matches enter scopes."""

    __slots__ = ("entered",)


class AnnotatedNode(Node):
    """A node whose matches have registers, hulls or scopes besides their state."""

    __slots__ = ("at_once", "entered", "hulls", "registers")

    def __init__(
        self,
        number: int,
        element: Occurrence | TimeEvent,
        took: tuple[int, ...],
        floor: int,
        *,
        registers: tuple[Any, ...],
        hulls: tuple[Hull, ...] = (),
        at_once: tuple[int, ...] = (),
        entered: tuple[int, ...] = (),
    ) -> None:
        super().__init__(number, element, took, floor)
        self.registers, self.at_once, self.entered = registers, at_once, entered
        self.hulls = hulls
        """Between what the values of tallies lie in all its matches."""


class Sieve(AnnotatedNode):
    """The matches of another node that satisfy a claim, in a node of their own."""

    __slots__ = ("claims", "sifted")

    def __init__(
        self, number: int, sifted: Node, members: int, claims: tuple[Claim, ...], hulls: tuple[Hull, ...]
    ) -> None:
        super().__init__(
            number,
            sifted.element,
            (),
            BEGINNING,
            registers=sifted.registers,
            hulls=hulls,
            at_once=sifted.at_once,
        )
        self.sifted = sifted
        self.claims = claims
        self.reach([(sifted, members)])

    def only_from(self, edges: list[Edge]) -> Node:
        other = super().only_from(edges)
        assert isinstance(other, Sieve)
        ((other.sifted, _),) = edges
        return other


Edge: TypeAlias = tuple[Node, int]
"""A node, and the members for which matches that came there go on."""
Reached: TypeAlias = tuple[Node, int]
"""A node, and the floor that what leads to it has to keep."""
Allowed: TypeAlias = Callable[[Rank], int]
"""The members for which a match may start with the occurrence of a rank."""


def entered_before(node: Node, scope: int, start: int) -> Node | None:
    """The matches of a node that entered a scope behind what was over before a time; None: there are none.

    Nodes from which others come as well are there twice then. That takes an event with an extent that began before
    the last one was over, so it is not provided for beforehand.
    """
    known: dict[Node, Node | None] = {}
    waiting = [node]
    while waiting:
        at = waiting[-1]
        if scope in at.entered:
            known[at] = at if at.element.end < start else None
        elif at not in known:
            unknown = [each for each, _ in at.before if each not in known]
            if unknown:
                waiting += unknown
                continue
            edges = [(other, some) for each, some in at.before if (other := known[each]) is not None]
            known[at] = at if edges == at.before else at.only_from(edges) if edges else None
        waiting.pop()
    return known[node]


def only(edges: list[Edge], members: int) -> list[Edge]:
    """Edges as far as they concern some members."""
    return [(node, some) for node, open_to in edges if (some := open_to & members)]


def bits(members: int) -> Iterable[int]:
    """Each of some members."""
    while members:
        lowest = members & -members
        yield lowest
        members ^= lowest


def leading_to(ends: Iterable[Edge], floor: int, member: int = EVERYONE) -> list[Reached]:
    """The nodes on paths to the ends, in order, each with every floor under which it is reached."""
    waiting = [(node, floor if floor >= node.floor else node.floor) for node, _ in ends]
    found = set(waiting)
    reachable = []
    while waiting:
        reached = waiting.pop()
        node, least = reached
        if node.took and node.element.start < least:
            continue
        reachable.append(reached)
        for each, open_to in node.before:
            further = (each, least if least >= each.floor else each.floor)
            if open_to & member and further not in found:
                found.add(further)
                waiting.append(further)
    if len(reachable) > 1:
        reachable.sort(key=_made)
    return reachable


def _made(reached: Reached) -> int:
    return reached[0].number


def _is_first(path: Path, other: Path) -> bool:
    """Whether a path comes before another one: by the places of its occurrences, then by its steps.

    Where one has no further constituent, the other one is first.
    """
    for one, another in zip(path, other, strict=False):
        if one[0] != another[0]:
            return one[0] < another[0]
    return path < other if len(path) == len(other) else len(path) > len(other)


def best_paths(
    ends: list[Edge],
    floor: int,
    allowed: Allowed,
    without: Mapping[Rank, int] | None = None,
    *,
    last: bool = False,
) -> list[Shared]:
    """For each member the first path to the ends in the order of preference, or the last one.

    It starts where it may, and takes nothing that the member has to do without. Members with the same path come
    together, and a member comes at most once.
    """
    chosen: list[Shared] = []
    if not last and without is None and len(ends) == 1:
        node, members = ends[0]
        found = _earliest(node, members, floor, allowed)
        if found is not None:
            chosen.append(found)
            members &= ~found[0]
            if not members:
                return chosen
            ends = [(node, members)]
    paths: dict[tuple[Node, int], list[Shared]] = {}
    for node, least in leading_to(ends, floor):
        known: list[Shared] = []
        if node.starts and (starting := node.starts & allowed(node.rank)):
            known.append((starting, ()))
        for each, open_to in node.before:
            further = paths.get((each, least if least >= each.floor else each.floor))
            if further is not None:
                _prefer(known, further, open_to, last)
        if known and node.took:
            kept = EVERYONE if without is None else ~without.get(node.rank, 0)
            taken = node.taken
            known = [(some, path + taken) for members, path in known if (some := members & kept)]
        if known:
            paths[(node, least)] = known
    for node, open_to in ends:
        _prefer(chosen, paths.get((node, max(floor, node.floor)), []), open_to, last)
    return chosen


def _earliest(node: Node, members: int, floor: int, allowed: Allowed) -> Shared | None:
    """The first path of all, and those of the members who have it and may take it; None where nobody does.

    It is one of those that start earliest, so no others are looked at; and who has it needs no further search.
    """
    path: Path = ()
    floor = max(floor, node.floor)
    end, open_to = node, members
    while node.first is not None:
        path = node.taken + path
        node, some = node.first
        open_to &= some
        floor = max(floor, node.floor)
    if node.before:
        known = _first_of(end)
        if known is None:
            return None
        path, open_to = known[1], members & known[0]
    else:
        path, open_to = node.taken + path, open_to & node.starts
    if _start(path) < floor:
        return None
    open_to &= allowed(path[0][0])
    return (open_to, path) if open_to else None


def _first_of(end: Node) -> Shared | None:
    """The first path to a node where several start earliest; None where one of these has left a window."""
    paths: dict[Node, Shared] = {}
    earliest, waiting = end.earliest, [end]
    while waiting:
        node = waiting[-1]
        further = [edge for edge in node.before if edge[0].earliest == earliest]
        unknown = [each for each, _ in further if each not in paths]
        if unknown:
            waiting += unknown
            continue
        waiting.pop()
        members = 0
        best: Path | None = None
        if node.starts and node.element.end == earliest:
            members, best = node.starts, ()
        for each, open_to in further:
            some, path = paths[each]
            if best is None or _is_first(path, best):
                members, best = some & open_to, path
        if best is None:
            return None
        best += node.taken
        if node.floor != BEGINNING and _start(best) < node.floor:
            return None
        paths[node] = members, best
    return paths[end]


def _start(path: Path) -> int:
    return min([occurrence.start for _, _, occurrence in path])


def _prefer(found: list[Shared], others: list[Shared], open_to: int, last: bool) -> None:
    """Take in other paths, as far as they are open, where a member has none or a worse one."""
    for members, path in others:
        rest = members & open_to
        if not rest:
            continue
        for at, (having, own) in enumerate(found):
            if having & rest:
                if _is_first(own, path) if last else _is_first(path, own):
                    found[at] = (having & ~rest, own)
                else:
                    rest &= ~having
        if rest:
            found[:] = [each for each in found if each[0]]
            found.append((rest, path))


@dataclass(frozen=True, slots=True)
class Extent:
    """The number of nodes, and of the partial matches that they represent."""

    nodes: int = 0
    matches: int = 0


def nodes_of(ends: list[Edge]) -> int:
    """The number of nodes that lead to the ends."""
    return len({node for node, _ in leading_to(ends, BEGINNING)})


def extent_of(ends: list[Edge]) -> Extent:
    """The nodes that lead to the ends, and the members' paths; those included that a window has left behind."""
    reached = list(dict.fromkeys(node for node, _ in leading_to(ends, BEGINNING)))
    matches = 0
    for member in bits(_joined(ends)):
        paths: dict[Node, int] = {}
        for node in reached:
            came = sum(paths.get(each, 0) for each, members in node.before if members & member)
            paths[node] = bool(node.starts & member) + came
        matches += sum(paths.get(node, 0) for node, members in ends if members & member)
    return Extent(len(reached), matches)


def _joined(edges: Iterable[Edge]) -> int:
    joined = 0
    for _, members in edges:
        joined |= members
    return joined


def prune(ends: list[Edge], floor: int) -> int:
    """Let go all that leads to the ends from matches that started before a time; how many nodes are left.

    Nodes of a repetition lead to one another for as long as there is no end to it.
    """
    left = 0
    for node, _ in leading_to(ends, BEGINNING):
        if node.latest >= floor:
            node.prune(floor)
            left += 1
    return left


def starts_of(ends: list[Edge], floor: int, allowed: Allowed) -> dict[Rank, int]:
    """The ranks of the occurrences with which paths to the ends may start, in order, and for which patterns."""
    open_to: dict[tuple[Node, int], int] = defaultdict(int)
    for node, members in ends:
        open_to[node, max(floor, node.floor)] |= members
    starts: dict[Rank, int] = defaultdict(int)
    for node, least in reversed(leading_to(ends, floor)):
        members = open_to[node, least]
        for each, further in node.before:
            open_to[each, max(least, each.floor)] |= members & further
        starting = members & node.starts
        if starting and (some := starting & allowed(node.rank)):
            starts[node.rank] |= some
    return dict(sorted(starts.items()))


def starting_at(rank: Rank, members: int) -> Allowed:
    """Allows matches of some members that start with one occurrence only."""
    return lambda start: members if start == rank else 0
