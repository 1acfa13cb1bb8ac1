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
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from fairlead.correlation.patterns.automaton import EVERYONE
from fairlead.correlation.patterns.occurrences import Occurrence, Rank, TimeEvent
from fairlead.model.order import BEGINNING, END

__all__ = [
    "Allowed",
    "Constituent",
    "Edge",
    "Extent",
    "Node",
    "Path",
    "Shared",
    "Told",
    "best_paths",
    "bits",
    "extent_of",
    "first_paths",
    "nodes_of",
    "only",
    "starting_at",
    "starts_of",
]

Constituent: TypeAlias = tuple[Rank, int, Occurrence]
"""What an atom took; compared by place, then by the number of the atom."""
Path: TypeAlias = tuple[Constituent, ...]
Shared: TypeAlias = tuple[int, Path]
"""Members, and a path that is a match of each of them."""

_NOTHING_MORE: Final = (((2**64,),),)
"""Behind every constituent: of two matches, the one that goes on comes first."""


class Node:
    """An element that matches in progress took last, and where they came from."""

    __slots__ = (
        *("before", "earliest", "element", "first", "floor", "latest", "members", "number"),
        *("starts", "took"),
    )
    registers: tuple[Any, ...] = ()
    at_once: tuple[int, ...] = ()
    """The registers of timers that were started with it and go off at the same moment."""

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
        """Where its matches come from."""
        self.earliest = END
        """When the occurrence ended with which the earliest of its matches started."""
        self.first: Edge | None = None
        """Where that match comes from; None where it starts here, or is not the only one of that moment."""
        self.starts = self.members = 0
        """The members for which a match may start with it, and all for which matches come here."""
        self.latest = BEGINNING
        """The latest time at which one of its matches started; not earlier, at least."""

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
    def place(self) -> Rank:
        """The place of the occurrence that it took."""
        assert isinstance(self.element, Occurrence)
        return self.element.rank

    @property
    def taken(self) -> Path:
        """The constituents that came with it."""
        element = self.element
        if isinstance(element, TimeEvent):
            return ()
        return tuple([(element.rank, number, element) for number in self.took])


class Told(Node):
    """A node whose matches have something to tell besides their state."""

    __slots__ = ("at_once", "registers")

    def __init__(
        self,
        number: int,
        element: Occurrence | TimeEvent,
        took: tuple[int, ...],
        floor: int,
        *,
        registers: tuple[Any, ...],
        at_once: tuple[int, ...],
    ) -> None:
        super().__init__(number, element, took, floor)
        self.registers, self.at_once = registers, at_once


Edge: TypeAlias = tuple[Node, int]
"""A node, and the members for which matches that came there go on."""
_Reached: TypeAlias = tuple[Node, int]
"""A node, and the floor that what leads to it has to keep."""
Allowed: TypeAlias = Callable[[Rank], int]
"""The members for which a match may start with the occurrence at a place."""


def only(edges: list[Edge], members: int) -> list[Edge]:
    """Edges as far as they concern some members."""
    return [(node, some) for node, open_to in edges if (some := open_to & members)]


def bits(members: int) -> Iterable[int]:
    """Each of some members."""
    while members:
        lowest = members & -members
        yield lowest
        members ^= lowest


def _reached(ends: Iterable[Edge], floor: int, member: int = EVERYONE) -> list[_Reached]:
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


def _made(reached: _Reached) -> int:
    return reached[0].number


def _ordered(path: Path) -> tuple[Any, ...]:
    return path + _NOTHING_MORE


def _is_first(path: Path, other: Path) -> bool:
    """Whether a path comes before another one; where one has no further constituent, the other one is first."""
    length, further = len(path), len(other)
    if length == further:
        return path < other
    return path[:further] <= other if length > further else path < other[:length]


def first_paths(ends: list[Edge], floor: int, count: int, member: int) -> list[Path]:
    """A member's first paths to the ends, in order, at most `count`; what a path takes starts from `floor` on.

    They are found from their start on, for all nodes together that the same constituents lead to. Whoever can be
    reached leads to an end, so the work is that of writing them down.
    """
    reached = dict.fromkeys(_reached(only(ends, member), floor, member))
    after: dict[_Reached, list[_Reached]] = defaultdict(list)
    for node, least in reached:
        for each, members in node.before:
            before = (each, max(least, each.floor))
            if members & member and before in reached:
                after[before].append((node, least))
    final = {(node, max(floor, node.floor)) for node, _ in only(ends, member)}
    starts = [each for each in reached if each[0].starts & member]
    found: list[Path] = []
    waiting: list[tuple[Path, list[tuple[Path, list[_Reached]]], bool]] = [
        ((), *_further(starts, after, final))
    ]
    while waiting and len(found) < count:
        path, ways, is_complete = waiting[-1]
        if ways:
            taken, nodes = ways.pop()
            going_on = dict.fromkeys(each for node in nodes for each in after[node])
            further, is_over = _further(going_on, after, final)
            waiting.append((path + taken, further, is_over or not final.isdisjoint(nodes)))
        else:
            waiting.pop()
            if is_complete:
                found.append(path)
    return found


def _further(
    nodes: Iterable[_Reached], after: Mapping[_Reached, list[_Reached]], final: Container[_Reached]
) -> tuple[list[tuple[Path, list[_Reached]]], bool]:
    """What may be taken next, the first last, and by which nodes; and whether time alone leads to an end."""
    ways: dict[Path, list[_Reached]] = {}
    is_over, looked_at = False, list(nodes)
    known = set(looked_at)
    for each in looked_at:  # grows by what time events lead to
        if each[0].took:
            ways.setdefault(each[0].taken, []).append(each)
        else:
            is_over = is_over or each in final
            looked_at += (further for further in after[each] if further not in known)
            known.update(after[each])
    return sorted(ways.items(), key=lambda way: _ordered(way[0]), reverse=True), is_over


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
    for node, least in _reached(ends, floor):
        known: list[Shared] = []
        if node.starts and (starting := node.starts & allowed(node.place)):
            known.append((starting, ()))
        for each, open_to in node.before:
            further = paths.get((each, least if least >= each.floor else each.floor))
            if further is not None:
                _prefer(known, further, open_to, last)
        if known and node.took:
            kept = EVERYONE if without is None else ~without.get(node.place, 0)
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
    """What is held, and what it stands for."""

    nodes: int = 0
    matches: int = 0


def nodes_of(ends: list[Edge]) -> int:
    """How many nodes lead to the ends."""
    return len({node for node, _ in _reached(ends, BEGINNING)})


def extent_of(ends: list[Edge]) -> Extent:
    """The nodes that lead to the ends, and the members' paths; those included that a window has left behind."""
    reached = list(dict.fromkeys(node for node, _ in _reached(ends, BEGINNING)))
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


def starts_of(ends: list[Edge], floor: int, allowed: Allowed) -> dict[Rank, int]:
    """The places of the occurrences with which paths to the ends may start, in order, and for whom."""
    open_to: dict[tuple[Node, int], int] = defaultdict(int)
    for node, members in ends:
        open_to[node, max(floor, node.floor)] |= members
    starts: dict[Rank, int] = defaultdict(int)
    for node, least in reversed(_reached(ends, floor)):
        members = open_to[node, least]
        for each, further in node.before:
            open_to[each, max(least, each.floor)] |= members & further
        starting = members & node.starts
        if starting and (some := starting & allowed(node.place)):
            starts[node.place] |= some
    return dict(sorted(starts.items()))


def starting_at(rank: Rank, members: int) -> Allowed:
    """Allows matches of some members that start with one occurrence only."""
    return lambda start: members if start == rank else 0
