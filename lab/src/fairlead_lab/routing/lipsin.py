"""Source routing with link ids in Bloom filters: LIPSIN (Jokela et al., SIGCOMM 2009).

    an element that was inserted is found; one that was not is found with a small probability
    whoever wants a packet gets it; it may also take links that nobody asked for

Every directed link has an id of m bits, k of them ones. Whoever knows the topology (a rendezvous node) takes the
union of the ids of all links of a dissemination tree and puts it into the packet: the **zFilter**. A node
forwards on each of its links whose id is contained in it. So nodes keep no state for subscriptions, only the
ids of their own links, and the price is false positives: links whose ones happen to be all set.

A link may have d ids. The source then has d zFilters for the same tree and sends the one with the fewest ones,
for a link that is not in the tree is taken with probability (share of ones)^k. The packet names which of the d
it carries.

On a cyclic graph false positives may close a cycle. A node forwards a packet once only, and not back to where
it came from; so every packet ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import exp
from random import Random
from typing import Final, TypeAlias

from fairlead_lab.routing.chance import seeded

__all__ = [
    "BloomFilter",
    "FalsePositives",
    "Link",
    "LinkIds",
    "Passage",
    "ZFilter",
    "deliver",
    "measure",
]

Link: TypeAlias = tuple[str, str]
"""A directed link: from a node to a neighbour."""

WIDTH: Final = 248
"""Bits of an id and of a zFilter, as in LIPSIN: with an index of eight bits, 32 bytes of a packet."""
ONES: Final = 5
"""Ones in an id, as in LIPSIN."""


def _ones(rng: Random, width: int, ones: int) -> int:
    """A word of so many bits, so many of them ones."""
    word = 0
    while word.bit_count() < ones:
        word |= 1 << rng.randrange(width)
    return word


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A set of elements in m bits: each sets k of them, found by hashing. Frozen: inserting gives a new one."""

    m: int = WIDTH
    k: int = ONES
    bits: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.m:
            raise ValueError(f"an element sets between 1 and all of {self.m} bits, not {self.k}")

    def word(self, element: str) -> int:
        """The k bits of an element. They differ, so that an element never counts for less."""
        return _ones(seeded(element), self.m, self.k)

    def insert(self, element: str) -> BloomFilter:
        """With one element more."""
        return replace(self, bits=self.bits | self.word(element))

    def contains(self, element: str) -> bool:
        """Whether all bits of an element are set: true if it was inserted, and with `estimate` if it was not."""
        word = self.word(element)
        return self.bits & word == word

    def union(self, other: BloomFilter) -> BloomFilter:
        """The filter of the elements of both."""
        if (self.m, self.k) != (other.m, other.k):
            raise ValueError("only filters with the same m and k can be united")
        return replace(self, bits=self.bits | other.bits)

    @property
    def fill(self) -> float:
        """The share of ones."""
        return self.bits.bit_count() / self.m

    @property
    def false_positives(self) -> float:
        """The probability that an element is found that was not inserted: fill^k."""
        return float(self.fill**self.k)

    def estimate(self, n: int) -> float:
        """The same before anything is inserted, for n elements: (1 - e^(-kn/m))^k."""
        return float((1 - exp(-self.k * n / self.m)) ** self.k)


@dataclass(frozen=True, slots=True)
class ZFilter:
    """The filter in a packet: the united ids of some links, and which of each link's ids they are."""

    index: int
    bits: int

    def contains(self, id: int) -> bool:
        """Whether all ones of a link id are set."""
        return self.bits & id == id


class LinkIds:
    """The ids of all directed links of a graph: d words of m bits for each, k of them ones.

    The ids with index i are the same whatever d is, so more of them never give a zFilter with more ones.
    """

    def __init__(
        self,
        neighbours: Mapping[str, Iterable[str]],
        m: int = WIDTH,
        k: int = ONES,
        d: int = 1,
        seed: int = 0,
    ) -> None:
        if not 1 <= k <= m or d < 1:
            raise ValueError(f"no ids of {m} bits with {k} ones, {d} per link")
        self.m, self.k, self.d = m, k, d
        self._ids: dict[str, dict[str, tuple[int, ...]]] = {
            node: {
                each: tuple(_ones(seeded(seed, index, node, each), m, k) for index in range(d))
                for each in sorted(others)
            }
            for node, others in neighbours.items()
        }
        for node, others in self._ids.items():
            if unknown := others.keys() - self._ids.keys():
                raise ValueError(f"{node} has neighbours that are no nodes: {', '.join(sorted(unknown))}")

    @property
    def nodes(self) -> Sequence[str]:
        """All nodes, as they were given."""
        return list(self._ids)

    def neighbours(self, node: str) -> Sequence[str]:
        """The neighbours of a node, by name."""
        return list(self._ids[node])

    def id(self, link: Link, index: int = 0) -> int:
        """One of the d ids of a link."""
        node, neighbour = link
        return self._ids[node][neighbour][index]

    def zfilter(self, links: Iterable[Link]) -> ZFilter:
        """The filter of some links: of the d ones there are, that with the fewest ones."""
        words = [0] * self.d
        for node, neighbour in links:
            for index, id in enumerate(self._ids[node][neighbour]):
                words[index] |= id
        index = min(range(self.d), key=lambda each: words[each].bit_count())
        return ZFilter(index, words[index])

    def fill(self, zfilter: ZFilter) -> float:
        """The share of ones in a filter; to the power of k, the probability of a false positive."""
        return zfilter.bits.bit_count() / self.m

    def forward(self, zfilter: ZFilter, node: str, came_from: str | None = None) -> list[str]:
        """The neighbours that a node forwards a packet to. All it looks at is the packet and its own links."""
        return [
            neighbour
            for neighbour, ids in self._ids[node].items()
            if neighbour != came_from and zfilter.contains(ids[zfilter.index])
        ]

    def tree(self, source: str, receivers: Set[str]) -> dict[Link, None]:
        """The links of shortest paths from a source to all receivers: a tree, the nearer links first."""
        before: dict[str, str] = {source: source}
        order = [source]
        for node in order:
            for each in self._ids[node]:
                if each not in before:
                    before[each] = node
                    order.append(each)
        if unreachable := receivers - before.keys():
            raise ValueError(f"no way from {source} to {', '.join(sorted(unreachable))}")
        needed = set(receivers)
        for node in reversed(order):
            if node in needed:
                needed.add(before[node])
        return {(before[node], node): None for node in order[1:] if node in needed}


@dataclass(frozen=True, slots=True)
class Passage:
    """The way of one packet."""

    zfilter: ZFilter
    tree: tuple[Link, ...]
    """The links that were asked for."""
    links: tuple[Link, ...]
    """The links that it took, in this order."""
    reached: frozenset[str]
    """The nodes that got it, the source among them."""
    tests: int
    """The number of times a node compared the filter with the id of a link that is not in the tree."""

    @property
    def false_positives(self) -> tuple[Link, ...]:
        """The links that it took and that were not asked for."""
        tree = set(self.tree)
        return tuple(link for link in self.links if link not in tree)


def deliver(ids: LinkIds, source: str, receivers: Set[str]) -> Passage:
    """Send a packet from a source to receivers, and follow it."""
    tree = ids.tree(source, receivers)
    zfilter = ids.zfilter(tree)
    links: list[Link] = []
    tests = 0
    came_from: dict[str, str | None] = {source: None}
    ahead = [source]
    for node in ahead:
        sender = came_from[node]
        tests += sum(each != sender and (node, each) not in tree for each in ids.neighbours(node))
        for neighbour in ids.forward(zfilter, node, sender):
            links.append((node, neighbour))
            if neighbour not in came_from:
                came_from[neighbour] = node
                ahead.append(neighbour)
    return Passage(zfilter, tuple(tree), tuple(links), frozenset(came_from), tests)


@dataclass(frozen=True, slots=True)
class FalsePositives:
    """The behaviour of some packets to equally many receivers, all together."""

    receivers: int
    packets: int
    tree_links: int
    links: int
    false_positives: int
    tests: int
    ones: int
    """Ones in all zFilters."""
    expected: float
    """False positives to be expected: fill^k for each test."""
    m: int

    @property
    def links_per_tree(self) -> float:
        """The size of a tree, on average."""
        return self.tree_links / self.packets

    @property
    def fill(self) -> float:
        """The share of ones, on average."""
        return self.ones / (self.packets * self.m)

    @property
    def rate(self) -> float:
        """The share of the links that were not asked for and taken."""
        return self.false_positives / self.tests if self.tests else 0.0

    @property
    def expected_rate(self) -> float:
        """The same, by the fill of the filters."""
        return self.expected / self.tests if self.tests else 0.0

    @property
    def efficiency(self) -> float:
        """The share of the links taken that were asked for."""
        return 1 - self.false_positives / self.links if self.links else 1.0


def measure(ids: LinkIds, sizes: Iterable[int], packets: int = 100, seed: int = 0) -> list[FalsePositives]:
    """Packets from anywhere to so many receivers anywhere, for each of some sizes; the nodes are connected."""
    if packets < 1:
        raise ValueError(f"nothing to measure in {packets} packets")
    rows = []
    for size in sizes:
        nodes = sorted(ids.nodes)
        if size >= len(nodes):
            raise ValueError(f"there are no {size} receivers and a source among {len(nodes)} nodes")
        rng = seeded(seed, size)  # for each size its own, so that a row does not depend on the others
        passages = []
        for _ in range(packets):
            rng.shuffle(nodes)
            passages.append(deliver(ids, nodes[0], set(nodes[1 : size + 1])))
        rows.append(
            FalsePositives(
                receivers=size,
                packets=packets,
                tree_links=sum(len(each.tree) for each in passages),
                links=sum(len(each.links) for each in passages),
                false_positives=sum(len(each.false_positives) for each in passages),
                tests=sum(each.tests for each in passages),
                ones=sum(each.zfilter.bits.bit_count() for each in passages),
                expected=sum(each.tests * ids.fill(each.zfilter) ** ids.k for each in passages),
                m=ids.m,
            )
        )
    return rows
