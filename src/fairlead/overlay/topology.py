"""The topology of an overlay. It is connected, and every answer about it depends on its content only.

Ties are broken by the order of the brokers, B2 before B10, so the same links give the same paths, trees and
regions everywhere. Random choices come from the generator that is passed in, by integers alone.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from random import Random
from types import MappingProxyType
from typing import Final, TypeAlias

from fairlead.errors import TopologyRefused

__all__ = ["SHAPES", "Link", "Topology", "topology"]

Link: TypeAlias = tuple[str, str]
"""Two brokers that are neighbours; which of them is named first means nothing."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Brokers and the links between them; from each broker there is a path to every other.

    Equal topologies have the same brokers in the same order and the same links, however they were listed.
    """

    brokers: tuple[str, ...]
    links: tuple[Link, ...]
    _neighbours: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rank = _ranks(self.brokers)
        adjacent: dict[str, dict[str, None]] = {broker: {} for broker in self.brokers}
        for a, b in self.links:
            _check_link(a, b, rank)
            adjacent[a][b] = adjacent[b][a] = None
        ordered = {broker: tuple(sorted(found, key=rank.__getitem__)) for broker, found in adjacent.items()}
        links = tuple((a, b) for a in self.brokers for b in ordered[a] if rank[a] < rank[b])
        object.__setattr__(self, "links", links)
        object.__setattr__(self, "_neighbours", ordered)
        reached = self._distances(self.brokers[0])
        if apart := [broker for broker in self.brokers if broker not in reached]:
            raise TopologyRefused(
                f"the topology is in pieces: no way leads from {self.brokers[0]} to {_some(apart)}",
                hint="add a link between the pieces",
            )

    # -- makers --------------------------------------------------------------------------------------------

    @classmethod
    def line(cls, n: int) -> Topology:
        """B1 - B2 - … - Bn."""
        names = _names(n)
        return cls(names, tuple(pairwise(names)))

    @classmethod
    def ring(cls, n: int) -> Topology:
        """A line whose ends are linked; from three brokers on, a cycle."""
        names = _names(n)
        closing = ((names[-1], names[0]),) if n > 2 else ()
        return cls(names, (*pairwise(names), *closing))

    @classmethod
    def star(cls, n: int) -> Topology:
        """B1 in the middle, linked to all the others."""
        centre, *others = names = _names(n)
        return cls(names, tuple((centre, other) for other in others))

    @classmethod
    def balanced_tree(cls, n: int, fanout: int = 2) -> Topology:
        """A tree level by level from B1, with `fanout` brokers below each."""
        if fanout < 1:
            raise TopologyRefused(f"a fanout of {fanout} leaves no place below B1", hint="take 1 or more")
        names = _names(n)
        return cls(names, tuple((names[(i - 1) // fanout], names[i]) for i in range(1, n)))

    @classmethod
    def random_tree(cls, n: int, rng: Random) -> Topology:
        """Each broker is linked to one of those before it, all of them equally likely."""
        names = _names(n)
        return cls(names, tuple((names[rng.randrange(i)], names[i]) for i in range(1, n)))

    @classmethod
    def cyclic(cls, n: int, extra_links: int, rng: Random) -> Topology:
        """A random tree and so many further links, each of which closes a cycle."""
        tree = cls.random_tree(n, rng)
        pairs = n * (n - 1) // 2
        if not 0 <= extra_links <= pairs - (n - 1):
            raise TopologyRefused(
                f"{extra_links} links cannot be added to a tree of {n} brokers",
                hint=f"take 0 to {pairs - (n - 1)}",
            )
        links = dict.fromkeys(tree.links)
        wanted = n - 1 + extra_links
        if 2 * wanted > pairs:
            # Drawing until a pair is new would be slow where few are.
            absent = [pair for pair in combinations(tree.brokers, 2) if pair not in links]
            rng.shuffle(absent)
            links |= dict.fromkeys(absent[:extra_links])
        while len(links) < wanted:
            a, b = rng.randrange(n), rng.randrange(n)
            if a != b:
                links[tree.brokers[min(a, b)], tree.brokers[max(a, b)]] = None
        return cls(tree.brokers, tuple(links))

    @classmethod
    def explicit(cls, links: Iterable[Sequence[str]], brokers: Iterable[str] | None = None) -> Topology:
        """These links between these brokers, or between those that the links name, in natural order."""
        pairs = [tuple(link) for link in links]
        if odd := [pair for pair in pairs if len(pair) != 2]:
            raise TopologyRefused(f"{list(odd[0])} is no link", hint="a link joins two brokers")
        if brokers is None:
            brokers = sorted({name for pair in pairs for name in pair}, key=_natural)
        return cls(tuple(brokers), tuple((a, b) for a, b in pairs))

    # -- questions -----------------------------------------------------------------------------------------

    def neighbours(self, broker: str) -> tuple[str, ...]:
        """The brokers that are linked to this one, in order."""
        self._check(broker)
        return self._neighbours[broker]

    def distances(self, start: str) -> dict[str, int]:
        """The distance of each broker from one, in links, nearest first."""
        self._check(start)
        return self._distances(start)

    @property
    def is_acyclic(self) -> bool:
        """Whether there is only one path between any two brokers."""
        return len(self.links) == len(self.brokers) - 1

    @property
    def diameter(self) -> int:
        """The number of links on the longest of all shortest paths."""
        one_end = _farthest(self._distances(self.brokers[0]))
        from_end = self._distances(one_end)
        longest = max(from_end.values())
        if self.is_acyclic:
            return longest
        if all(len(found) == 2 for found in self._neighbours.values()):
            return len(self.brokers) // 2  # one cycle: all are alike, and bounds would spare no search
        # Nobody is farther from anybody than via a third. Asked from the middle first, this bound leaves few
        # brokers whose own distances have to be computed (the bounds of Takes and Kosters).
        bound = dict.fromkeys(self.brokers, len(self.brokers))
        start = self.path(one_end, _farthest(from_end))[longest // 2]
        while bound:
            distances = self._distances(start)
            own = max(distances.values())
            longest = max(longest, own)
            bound = {
                broker: least
                for broker, known in bound.items()
                if broker != start and (least := min(known, own + distances[broker])) > longest
            }
            start = max(bound, key=bound.__getitem__, default=start)
        return longest

    def path(self, a: str, b: str) -> tuple[str, ...]:
        """A shortest path from a to b, both included: the one in b's spanning tree."""
        self._check(a)
        parents = self.spanning_tree(b)
        found, parent = [a], parents[a]
        while parent is not None:
            found.append(parent)
            parent = parents[parent]
        return tuple(found)

    def spanning_tree(self, root: str) -> dict[str, str | None]:
        """The parent of each broker: of its neighbours that are nearest to the root, the first in order."""
        self._check(root)
        distances = self._distances(root)
        return {
            broker: next((each for each in self._neighbours[broker] if distances[each] < own), None)
            for broker, own in distances.items()
        }

    def children(self, root: str) -> dict[str, tuple[str, ...]]:
        """The brokers right below each, in the hierarchy that is the root's spanning tree."""
        found: dict[str, list[str]] = {broker: [] for broker in self.brokers}
        parents = self.spanning_tree(root)
        for broker in self.brokers:
            if (parent := parents[broker]) is not None:
                found[parent].append(broker)
        return {broker: tuple(below) for broker, below in found.items()}

    def subtree(self, root: str, broker: str) -> tuple[str, ...]:
        """A broker and all below it, in the root's spanning tree; the broker itself is first."""
        self._check(broker)
        children = self.children(root)
        found = [broker]
        for each in found:
            found += children[each]
        return tuple(found)

    def regions(self, k: int) -> tuple[tuple[str, ...], ...]:
        """k connected parts that hold every broker once, of about equal size where the links allow it.

        Parts are cut off B1's spanning tree one by one, each time the subtree whose size is nearest to an
        equal share of the rest. A line falls into equal parts; of a star, all but one are single brokers.
        """
        if not 1 <= k <= len(self.brokers):
            raise TopologyRefused(
                f"{len(self.brokers)} brokers do not make {k} regions", hint=f"take 1 to {len(self.brokers)}"
            )
        root = self.brokers[0]
        rank = {broker: place for place, broker in enumerate(self.brokers)}
        parents, children = self.spanning_tree(root), self.children(root)
        size = dict.fromkeys(parents, 1)
        for broker, parent in reversed(parents.items()):  # children before parents
            if parent is not None:
                size[parent] += size[broker]
        parts = []
        for missing in range(k, 1, -1):
            rest = len(size)
            # In whole numbers: |size of the subtree - rest / missing|, times missing. A subtree too large to
            # leave a broker for each part that is missing is farther from the share than a single broker.
            _, _, head = min(
                (abs(held * missing - rest), rank[broker], broker)
                for broker, held in size.items()
                if broker != root
            )
            above = parents[head]
            while above is not None:
                size[above] -= size[head]
                above = parents[above]
            part = [head]
            for broker in part:
                del size[broker]
                part += (child for child in children[broker] if child in size)
            parts.append(part)
        parts.append(list(size))
        ordered = (tuple(sorted(part, key=rank.__getitem__)) for part in parts)
        return tuple(sorted(ordered, key=lambda part: rank[part[0]]))

    # -- changes -------------------------------------------------------------------------------------------

    def with_link(self, a: str, b: str) -> Topology:
        """The same with one more link; a new broker is last."""
        added = tuple(name for name in (a, b) if name not in self._neighbours)
        return Topology((*self.brokers, *added), (*self.links, (a, b)))

    def without_link(self, a: str, b: str) -> Topology:
        """The same without a link; refused where this leaves two pieces."""
        if b not in self.neighbours(a):
            raise TopologyRefused(f"{a} and {b} are not linked")
        return Topology(self.brokers, tuple(link for link in self.links if set(link) != {a, b}))

    def without(self, broker: str) -> Topology:
        """The same without a broker and its links; refused where this leaves pieces.

        A broker within a tree is taken out of it by `with_link` between its neighbours, and then this.
        """
        self._check(broker)
        return Topology(
            tuple(each for each in self.brokers if each != broker),
            tuple(link for link in self.links if broker not in link),
        )

    # -- inside --------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return "\n".join(
            f"{broker}: {' '.join(found)}".rstrip() for broker, found in self._neighbours.items()
        )

    def _check(self, broker: str) -> None:
        if broker not in self._neighbours:
            raise TopologyRefused(f"there is no broker {broker!r}", hint=f"there are {_some(self.brokers)}")

    def _distances(self, start: str) -> dict[str, int]:
        """The distance of each broker that can be reached, in links, nearest first."""
        found, waiting = {start: 0}, deque([start])
        while waiting:
            broker = waiting.popleft()
            next_distance = found[broker] + 1
            for neighbour in self._neighbours[broker]:
                if neighbour not in found:
                    found[neighbour] = next_distance
                    waiting.append(neighbour)
        return found


SHAPES: Final[Mapping[str, Callable[[int, int, int, Random], Topology]]] = MappingProxyType(
    {
        "line": lambda n, fanout, extra, rng: Topology.line(n),
        "star": lambda n, fanout, extra, rng: Topology.star(n),
        "balanced tree": lambda n, fanout, extra, rng: Topology.balanced_tree(n, fanout),
        "random tree": lambda n, fanout, extra, rng: Topology.random_tree(n, rng),
        "cyclic": lambda n, fanout, extra, rng: Topology.cyclic(n, extra, rng),
        "ring": lambda n, fanout, extra, rng: Topology.ring(n),
    }
)
"""The shapes that are made from a number of brokers, the fanout, the number of extra links, and chance."""


def topology(
    shape: str,
    brokers: int,
    *,
    fanout: int = 2,
    extra: int = 0,
    seed: int = 0,
    links: Iterable[Sequence[str]] | None = None,
) -> Topology:
    """The topology that a scenario describes: one of the `SHAPES`, or "explicit" with its links.

    The words of a shape may be joined by a blank, a hyphen or an underscore.
    """
    words = re.sub("[-_]", " ", shape)
    if (words == "explicit") != (links is not None):
        raise TopologyRefused(
            f"the shape {shape!r} and a list of links do not go together"
            if links is not None
            else "the shape 'explicit' needs its links",
            hint='write shape = "explicit" and links = [["B1", "B2"], …], or another shape and no links',
        )
    if links is not None:
        return Topology.explicit(links, _names(brokers))
    if words not in SHAPES:
        raise TopologyRefused(f"no shape is named {shape!r}", hint=f"there is explicit, {', '.join(SHAPES)}")
    return SHAPES[words](brokers, fanout, extra, Random(seed))


def _names(n: int) -> tuple[str, ...]:
    if n < 1:
        raise TopologyRefused(f"{n} brokers make no topology", hint="take 1 or more")
    return tuple(f"B{number}" for number in range(1, n + 1))


def _ranks(brokers: tuple[str, ...]) -> dict[str, int]:
    if not brokers:
        raise TopologyRefused("there are no brokers", hint="a topology has one or more")
    rank = {broker: place for place, broker in enumerate(brokers)}
    if len(rank) < len(brokers):
        twice = [broker for place, broker in enumerate(brokers) if rank[broker] != place]
        raise TopologyRefused(f"more than one broker is named {_some(twice)}")
    return rank


def _check_link(a: str, b: str, rank: Mapping[str, int]) -> None:
    if a == b:
        raise TopologyRefused(f"{a} is linked to itself", hint="a link joins two brokers")
    if unknown := [name for name in (a, b) if name not in rank]:
        raise TopologyRefused(
            f"the link {a} - {b} names {_some(unknown)}, which is no broker",
            hint=f"there are {_some(list(rank))}",
        )


def _farthest(distances: Mapping[str, int]) -> str:
    return max(distances, key=distances.__getitem__)


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """B2 before B10: runs of digits are compared as numbers, and sort after other text."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(int(part), "") if part[0] in "0123456789" else (-1, part) for part in parts], name


def _some(names: Iterable[str]) -> str:
    first, *others = names
    return first if not others else f"{first} … {others[-1]}" if len(others) > 1 else f"{first}, {others[0]}"
