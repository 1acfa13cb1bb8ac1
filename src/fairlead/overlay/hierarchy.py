"""Hierarchies: the brokers of a tree that stand above others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fairlead.overlay.topology import Topology

__all__ = ["Hierarchy", "misplaced_roots"]


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The hierarchy (book 4.6.2): all brokers below a root, in the tree that hangs from the first broker.

    The roots and the brokers outside of their subtrees are peers, so several roots make a hybrid.
    """

    parents: Mapping[str, str]
    children: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, topology: Topology, roots: tuple[str, ...]) -> Hierarchy:
        """The hierarchies below some roots."""
        top = topology.brokers[0]
        above, below = topology.spanning_tree(top), topology.children(top)
        members = [broker for root in roots for broker in topology.subtree(top, root)]
        parents = {
            broker: parent
            for broker in members
            if broker not in roots and (parent := above[broker]) is not None
        }
        return cls(parents, {broker: frozenset(below[broker]) for broker in members})


def misplaced_roots(topology: Topology, roots: Iterable[str]) -> Iterator[str]:
    """The defects of some roots, each in a sentence."""
    top, given = topology.brokers[0], tuple(roots)
    for root in given:
        if root not in topology.brokers:
            yield f"there is no broker {root!r}"
            return
    for root in given:
        for other in given:
            if root != other and other in topology.subtree(top, root):
                yield f"{other} is below {root} already: name one of the two"
