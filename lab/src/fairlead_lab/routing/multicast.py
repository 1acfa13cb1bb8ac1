"""Multicast groups for notifications (book 4.6.7, after Opyrchal et al.).

    whoever wants a notification gets it
    ideal and clustered groups reach nobody else

A grouping says which groups of brokers are set up beforehand, and which of them a notification is sent to:

    Unicast              no groups: a send for each broker that wants it
    Everyone             one group of all brokers: flooding with a single send
    Ideal                a group for every set of brokers: a single send, exactly to those who want it
    Clustered            ideal within each cluster of a partition: at most one send per cluster
    ThresholdClustered   where more than T brokers of a cluster want it, the whole cluster gets it
    NeighbourMatching    step by step through a tree of brokers: at each one, a group of its neighbours

**How many groups.** `groups` counts those that some notification uses. The book counts with two measures
(`groups_in_the_book`): 2^N and C·2^(N/C) include the empty set, once per cluster, that nothing is ever sent
to; its formula (4.35) for thresholds does not, but leaves out the group of each whole cluster, that what
exceeds the threshold is sent to. So ten brokers in two clusters with T = 2 need 62 and 32 groups, where the
book has 64 and 30. And C clusters save a factor of 2^(N-N/C)/C over ideal groups, not 2^C/C.

The book's wording also has a threshold on all receivers together, and what exceeds it sent to all clusters;
its formula, which takes subsets of each cluster, fits a threshold per cluster as well, and that sends less.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from math import comb
from typing import ClassVar, TypeAlias

__all__ = [
    "Audience",
    "Clustered",
    "Cost",
    "DirectGrouping",
    "Everyone",
    "Group",
    "Grouping",
    "Ideal",
    "MulticastSend",
    "NeighbourMatching",
    "ThresholdClustered",
    "Unicast",
    "clusters_of",
    "compare",
    "depth_first",
]

Group: TypeAlias = frozenset[str]
"""The brokers that get what is sent to a multicast address."""
Audience: TypeAlias = tuple[str, Set[str]]
"""The broker where a notification is published, and the brokers that want it."""


@dataclass(frozen=True, slots=True)
class MulticastSend:
    """One send to one group. A sender that is a member does not hear itself."""

    sender: str
    group: Group

    @property
    def reached(self) -> Group:
        """The brokers that get it."""
        return self.group - {self.sender}


class Grouping(ABC):
    """Brokers in multicast groups."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def groups(self) -> int:
        """The number of groups to set up: those that some notification is sent to."""

    @property
    def groups_in_the_book(self) -> int:
        """The same by the formulas of the book, where it has one."""
        return self.groups

    @abstractmethod
    def sends(self, source: str, receivers: Set[str]) -> list[MulticastSend]:
        """The sends, in this order, for a notification that comes from a broker and that these want."""


class DirectGrouping(Grouping):
    """Groups that the source sends to itself, so it has to know who wants what (book 4.6.7)."""

    def __init__(self, brokers: Iterable[str]) -> None:
        self._brokers = frozenset(brokers)

    @abstractmethod
    def groups_for(self, receivers: Set[str]) -> list[Group]:
        """Groups that hold all these brokers together."""

    def sends(self, source: str, receivers: Set[str]) -> list[MulticastSend]:
        if unknown := (receivers | {source}) - self._brokers:
            raise ValueError(f"not in any group: {', '.join(sorted(unknown))}")
        # The source has it already. What is left of a set of brokers without the source is a set as well.
        sends = (MulticastSend(source, group) for group in self.groups_for(receivers - {source}))
        return [each for each in sends if each.reached]


class Unicast(DirectGrouping):
    """No groups, nobody reached in vain, and a send for each broker that wants the notification."""

    name: ClassVar[str] = "unicast"

    @property
    def groups(self) -> int:
        return 0

    def groups_for(self, receivers: Set[str]) -> list[Group]:
        return [frozenset((each,)) for each in sorted(receivers)]


class Everyone(DirectGrouping):
    """One group and one send, whoever wants the notification, and even if nobody does: flooding."""

    name: ClassVar[str] = "flooding"

    @property
    def groups(self) -> int:
        return 1

    def groups_for(self, receivers: Set[str]) -> list[Group]:
        return [self._brokers]


class Clustered(DirectGrouping):
    """CGM: in each cluster, a group for every set of its brokers."""

    name: ClassVar[str] = "clustered"

    def __init__(self, clusters: Iterable[Iterable[str]]) -> None:
        self._clusters = [frozenset(each) for each in clusters]
        super().__init__(broker for each in self._clusters for broker in each)
        if len(self._brokers) != sum(map(len, self._clusters)):
            raise ValueError("a broker is in one cluster only")

    @property
    def groups(self) -> int:
        return sum(2 ** len(each) - 1 for each in self._clusters)

    @property
    def groups_in_the_book(self) -> int:
        return sum(2 ** len(each) for each in self._clusters)

    def groups_for(self, receivers: Set[str]) -> list[Group]:
        wanting = ((cluster, cluster & receivers) for cluster in self._clusters)
        return [self._group(cluster, some) for cluster, some in wanting if some]

    def _group(self, cluster: Group, wanting: Group) -> Group:
        """The group for those of a cluster that want a notification."""
        return wanting


class Ideal(Clustered):
    """A group for every set of brokers, so a single send reaches exactly the right ones: one big cluster."""

    name: ClassVar[str] = "ideal"

    def __init__(self, brokers: Iterable[str]) -> None:
        super().__init__([brokers])


class ThresholdClustered(Clustered):
    """TCGM: in each cluster, a group for every set of up to T of its brokers, and one of them all."""

    name: ClassVar[str] = "threshold clustered"

    def __init__(self, clusters: Iterable[Iterable[str]], threshold: int) -> None:
        super().__init__(clusters)
        if threshold < 0:
            raise ValueError(f"a threshold is not negative: {threshold}")
        self.threshold = threshold

    @property
    def groups(self) -> int:
        return self.groups_in_the_book + sum(len(each) > self.threshold for each in self._clusters)

    @property
    def groups_in_the_book(self) -> int:
        sizes = range(1, self.threshold + 1)
        return sum(comb(len(each), size) for each in self._clusters for size in sizes)

    def _group(self, cluster: Group, wanting: Group) -> Group:
        return cluster if len(wanting) > self.threshold else wanting


class NeighbourMatching(Grouping):
    """A notification goes through a tree of brokers, and each sends it to a group of its neighbours.

    Brokers between the source and those who want it get it to pass it on. `among` groups the neighbours of
    each broker: ideally, or with clusters and a threshold where that takes too many groups. What reaches a
    neighbour behind which nobody wants it ends there. Groups are counted for each broker that sends to them.
    """

    name: ClassVar[str] = "neighbour matching"

    def __init__(
        self,
        neighbours: Mapping[str, Iterable[str]],
        among: Callable[[Sequence[str]], DirectGrouping] = Ideal,
    ) -> None:
        self._neighbours = {broker: sorted(set(each)) for broker, each in neighbours.items()}
        _check_tree(self._neighbours)
        self._among = {broker: among(each) for broker, each in self._neighbours.items()}

    @property
    def groups(self) -> int:
        return sum(each.groups for each in self._among.values())

    @property
    def groups_in_the_book(self) -> int:
        return sum(each.groups_in_the_book for each in self._among.values())

    def sends(self, source: str, receivers: Set[str]) -> list[MulticastSend]:
        if unknown := (receivers | {source}) - self._neighbours.keys():
            raise ValueError(f"not in the tree: {', '.join(sorted(unknown))}")
        order = list(_walk(self._neighbours, source))
        next_hops: dict[str, set[str]] = {}
        for broker, before in reversed(order):
            if before is not None and (broker in receivers or broker in next_hops):
                next_hops.setdefault(before, set()).add(broker)
        sends = (
            MulticastSend(broker, group)
            for broker, _ in order
            if broker in next_hops
            for group in self._among[broker].groups_for(next_hops[broker])
        )
        return [each for each in sends if each.reached]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a grouping: groups to set up, and in all notifications together, sends and deliveries."""

    grouping: str
    groups: int
    notifications: int
    sends: int
    deliveries: int
    spurious: int
    """Deliveries to brokers that do not want the notification, or that have it already."""

    @property
    def sends_per_notification(self) -> float:
        """The number of sends of a notification, on average."""
        return self.sends / self.notifications if self.notifications else 0.0

    @property
    def spurious_per_notification(self) -> float:
        """The number of brokers that a notification reaches in vain, on average."""
        return self.spurious / self.notifications if self.notifications else 0.0


def compare(audiences: Iterable[Audience], groupings: Iterable[Grouping]) -> list[Cost]:
    """The same notifications with each grouping."""
    audiences = list(audiences)
    wanted = sum(len(receivers - {source}) for source, receivers in audiences)
    costs = []
    for grouping in groupings:
        sends = [send for source, receivers in audiences for send in grouping.sends(source, receivers)]
        deliveries = sum(len(each.reached) for each in sends)
        costs.append(
            Cost(
                grouping=grouping.name,
                groups=grouping.groups,
                notifications=len(audiences),
                sends=len(sends),
                deliveries=deliveries,
                spurious=deliveries - wanted,
            )
        )
    return costs


def clusters_of(order: Sequence[str], count: int) -> list[Sequence[str]]:
    """A partition into so many runs of an order, their sizes as equal as can be, the larger ones first."""
    if not 1 <= count <= max(1, len(order)):
        raise ValueError(f"{len(order)} brokers do not form {count} clusters")
    size, larger = divmod(len(order), count)
    starts = [number * size + min(number, larger) for number in range(count + 1)]
    return [order[start:end] for start, end in pairwise(starts)]


def depth_first(neighbours: Mapping[str, Iterable[str]], start: str | None = None) -> list[str]:
    """The brokers of an overlay in an order in which those near to each other mostly are neighbours.

    Depth first from a broker, neighbours by name; the same whatever the order in which they are given.
    """
    return [broker for broker, _ in _walk(neighbours, start)]


def _walk(neighbours: Mapping[str, Iterable[str]], start: str | None) -> Iterator[tuple[str, str | None]]:
    """Each broker, with the one before it on the way from the start of its part of the overlay."""
    seen: set[str] = set()
    for root in sorted(neighbours) if start is None else [start, *sorted(neighbours)]:
        ahead: list[tuple[str, str | None]] = [(root, None)]
        while ahead:
            broker, before = ahead.pop()
            if broker not in seen:
                seen.add(broker)
                yield broker, before
                ahead += ((each, broker) for each in sorted(neighbours[broker], reverse=True))


def _check_tree(neighbours: Mapping[str, Sequence[str]]) -> None:
    for broker, others in neighbours.items():
        for other in others:
            if other == broker or broker not in neighbours.get(other, ()):
                raise ValueError(f"{broker} and {other} are not neighbours of each other")
    roots = sum(before is None for _, before in _walk(neighbours, None))
    links = sum(map(len, neighbours.values())) // 2
    if roots != 1 or links != len(neighbours) - 1:
        raise ValueError("neighbour matching needs brokers that are connected as a tree")
