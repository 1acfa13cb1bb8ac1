"""All brokers agree on one dissemination tree for each type, and nobody had to tell them.

The hash of a type's name is a key; the broker that is responsible for it is the type's rendezvous node. A
broker's parent in the tree is its next hop towards the key. Every broker has one parent, and every way ends at
the rendezvous node, so all the ways together are a tree: what is sent up meets whatever subscriptions were
sent up before (book 4.6.3; Scribe builds such trees for topics, Hermes for types, with filters in them).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fairlead.errors import TopologyRefused
from fairlead_lab.overlay.pastry import NodeId, Ring, Space

__all__ = ["Trees", "parent", "rendezvous_key"]


def rendezvous_key(type_name: str, space: Space | None = None) -> NodeId:
    """The place of a type on the circle: the hash of its name."""
    return (Space() if space is None else space).named(type_name)


def parent(ring: Ring, broker: str, type_name: str) -> str | None:
    """The next hop from a broker to the rendezvous node of a type; None where it is that node itself."""
    return ring.next_hop(broker, rendezvous_key(type_name, ring.space))


@dataclass(frozen=True, slots=True)
class Trees:
    """The dissemination trees of some types, as the ring gives them now: the parent of each broker in each.

    A tree has the brokers that belong to it (those with subscriptions, say), all on their ways to the
    rendezvous node, and that node. It grows as in Scribe: a way ends where it meets a broker that is there.
    """

    parents: Mapping[str, Mapping[str, str | None]]

    @classmethod
    def of(cls, ring: Ring, members: Mapping[str, Iterable[str]]) -> Trees:
        """For each type that is named, the tree of these brokers."""
        found: dict[str, dict[str, str | None]] = {}
        for type_name, brokers in members.items():
            tree: dict[str, str | None] = {ring.responsible(rendezvous_key(type_name, ring.space)): None}
            for broker in brokers:
                below = broker
                while below not in tree:
                    tree[below] = above = parent(ring, below, type_name)
                    assert above is not None, f"{below} takes itself for the rendezvous node of {type_name}"
                    below = above
            found[type_name] = tree
        return cls(found)

    @classmethod
    def spanning(cls, ring: Ring, types: Iterable[str]) -> Trees:
        """For each type, the tree that all brokers of the ring are in."""
        return cls.of(ring, dict.fromkeys(types, ring.names))

    def rendezvous(self, type_name: str) -> str:
        """The root of a type's tree."""
        return next(broker for broker, above in self._tree(type_name).items() if above is None)

    def path(self, type_name: str, broker: str) -> tuple[str, ...]:
        """The brokers from one of the tree to the rendezvous node, both included."""
        tree = self._tree(type_name)
        if broker not in tree:
            raise TopologyRefused(f"{broker!r} is not in the tree of {type_name!r}")
        found, above = [broker], tree[broker]
        while above is not None:
            found.append(above)
            above = tree[above]
        return tuple(found)

    def children(self, type_name: str) -> dict[str, tuple[str, ...]]:
        """The brokers that each broker of a tree sends to on the way down; none at the leaves."""
        tree = self._tree(type_name)
        found: dict[str, list[str]] = {broker: [] for broker in tree}
        for broker, above in tree.items():
            if above is not None:
                found[above].append(broker)
        return {broker: tuple(below) for broker, below in found.items()}

    def depth(self, type_name: str) -> int:
        """The number of hops on the longest way to the rendezvous node."""
        children = self.children(type_name)
        level, depth = [self.rendezvous(type_name)], -1
        while level:
            level, depth = [child for broker in level for child in children[broker]], depth + 1
        return depth

    def stress(self) -> dict[str, int]:
        """The number of a broker's children, over all trees: what forwarding costs it."""
        found: dict[str, int] = {}
        for type_name in self.parents:
            for broker, below in self.children(type_name).items():
                found[broker] = found.get(broker, 0) + len(below)
        return found

    def _tree(self, type_name: str) -> Mapping[str, str | None]:
        if type_name not in self.parents:
            raise TopologyRefused(
                f"there is no tree for {type_name!r}", hint="name the type when they are made"
            )
        return self.parents[type_name]
