"""The decision tree: every filter is a leaf, and a notification is led to exactly those that it matches.

After Aguilera et al. (book 3.2.3). A node tests one term. Its edges are the results that some filter asks for,
and one edge, `*`, is for the filters that do not care. The traversal follows every edge whose test the
notification passes, and `*` always; the filters where it arrives match.

    ├─ stock = "Foo Inc."
    │  ├─ price < 15 ▶ F1
    │  └─ price < 12 ▶ F2
    ├─ stock = "AB Inc."
    │  └─ price > 16 ▶ F3
    └─ *
       └─ volume > 1000000 ▶ F4

Filters that begin alike share the way: `stock = "Foo Inc."` is tested once for F1 and F2. Edges that name
values are found by hash, so a node with ten thousand of them costs one look; the other edges are tested one by
one. On the way down the terms follow one fixed order, that of their first use, or one that is given: terms that
most filters constrain, and with many different values, belong to the top. No node tests a term that nobody
below it asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from fairlead.drawing import tree
from fairlead.errors import Undecided
from fairlead.filters.extents.extent import Extent
from fairlead.filters.normal import Conjunction
from fairlead.filters.simplify import extent_filter
from fairlead.filters.terms import Attribute, Term
from fairlead.matching.engine import Id
from fairlead.model import Key, Notification, Value, key_of
from fairlead_lab.matching.base import Wanted
from fairlead_lab.matching.conjunctive import ConjunctiveBase, Handle

__all__ = ["Tree"]

VALUES_MAX: Final = 256
"""An edge that stands for more values than this is tested, not filed under each of them."""


@dataclass(slots=True, eq=False)
class _Node:
    """A place in the tree: who has arrived, and the test that comes next, if any does."""

    arrived: dict[Handle, None] = field(default_factory=dict)
    term: Term | None = None
    edges: dict[Extent, _Node] = field(default_factory=dict)
    by_value: dict[Key, dict[Extent, None]] = field(default_factory=dict)
    tested: dict[Extent, None] = field(default_factory=dict)
    otherwise: _Node | None = None

    def opened(self, extent: Extent) -> _Node:
        """The node at the end of an edge, which is made if need be."""
        if extent not in self.edges:
            self.edges[extent] = _Node()
            values = _values_of(extent)
            if values is None:
                self.tested[extent] = None
            for value in values or ():
                self.by_value.setdefault(key_of(value), {})[extent] = None
        return self.edges[extent]

    def put(self, edge: Extent | None, node: _Node | None) -> None:
        """Let an edge that is there (None: `*`) lead to another node, or take it away."""
        if edge is None:
            self.otherwise = node
        elif node is not None:
            self.edges[edge] = node
        else:
            self._close(edge)

    def _close(self, extent: Extent) -> None:
        del self.edges[extent]
        self.tested.pop(extent, None)
        for value in _values_of(extent) or ():
            named = self.by_value[key_of(value)]
            del named[extent]
            if not named:
                del self.by_value[key_of(value)]

    def reduced(self) -> _Node | None:
        """The node to stand here: none if nobody arrives, and no test whose result nobody asks for."""
        if self.edges:
            return self
        if self.otherwise is not None:
            self.otherwise.arrived = self.arrived
            return self.otherwise
        self.term = None
        return self if self.arrived else None


def _values_of(extent: Extent) -> tuple[Value, ...] | None:
    """The values that an edge stands for, where they are few enough to file the edge under each."""
    try:
        return extent.values(VALUES_MAX)
    except Undecided:
        return None


class Tree(ConjunctiveBase[Id]):
    """A decision tree over terms. `order` names those that are tested first; the others follow as they come."""

    name = "tree"

    def __init__(self, order: Iterable[str] = ()) -> None:
        super().__init__()
        self._root: _Node | None = None
        self._ranks: dict[Term, int] = {}
        for name in order:
            self._rank(Attribute(name))

    def show(self) -> str:
        """The tree with a line for each edge, and the ids of the filters at the ends."""
        if self._root is None:
            return ""
        root = (self._shown_arrived(self._root).strip(), self._root)
        lines = tree(root, lambda node: self._shown_below(node[1]), lambda node: (node[0],))
        return "\n".join(line for line in lines if line)

    def _candidates(self, notification: Notification, wanted: Wanted) -> Iterator[Handle]:
        values: dict[Term, Value] = {}
        stack = [self._root] if self._root is not None else []
        while stack:
            node = stack.pop()
            yield from node.arrived
            if node.otherwise is not None:
                stack.append(node.otherwise)
            if node.term is not None:
                if node.term not in values:
                    values[node.term] = node.term.value(notification)
                stack.extend(self._passed(node, values[node.term]))

    def _passed(self, node: _Node, value: Value) -> Iterator[_Node]:
        """The targets of the edges whose test the value passes."""
        if node.by_value:
            self._tests += 1
            for extent in node.by_value.get(key_of(value), ()):
                yield node.edges[extent]
        for extent in node.tested:
            self._tests += 1
            if value in extent:
                yield node.edges[extent]

    def _file_conjunction(self, handle: Handle, conjunction: Conjunction) -> None:
        node = self._root = self._root or _Node()
        parent: _Node | None = None
        edge: Extent | None = None
        for term, extent in self._edges_to(conjunction):
            while node.term is not None and self._rank(node.term) < self._rank(term):
                node.otherwise = node.otherwise or _Node()
                parent, edge, node = node, None, node.otherwise
            if node.term is None:
                node.term = term
            elif node.term != term:  # the tree goes on with a later term: this test comes in between
                between = _Node(node.arrived, term, otherwise=node)
                node.arrived = {}
                if parent is None:
                    self._root = between
                else:
                    parent.put(edge, between)
                node = between
            parent, edge, node = node, extent, node.opened(extent)
        node.arrived[handle] = None

    def _unfile_conjunction(self, handle: Handle, conjunction: Conjunction) -> None:
        node = self._root
        trail: list[tuple[_Node, Extent | None]] = []
        for term, extent in self._edges_to(conjunction):
            while node is not None and node.term != term:
                trail.append((node, None))
                node = node.otherwise
            assert node is not None, "what is removed is in the tree"
            trail.append((node, extent))
            node = node.edges[extent]
        assert node is not None, "what is removed is in the tree"
        del node.arrived[handle]
        left = node.reduced()
        for above, edge in reversed(trail):
            above.put(edge, left)
            left = above.reduced()
        self._root = left

    def _edges_to(self, conjunction: Conjunction) -> list[tuple[Term, Extent]]:
        """The edges that lead to a conjunction."""
        return sorted(conjunction.extents.items(), key=lambda edge: self._rank(edge[0]))

    def _rank(self, term: Term) -> int:
        return self._ranks.setdefault(term, len(self._ranks))

    def _shown_below(self, node: _Node) -> list[tuple[str, _Node]]:
        shown = []
        for extent, child in node.edges.items():
            assert node.term is not None, "a node with edges has a test"
            test = extent_filter(node.term, extent, _ANYTHING)
            shown.append((f"{test}{self._shown_arrived(child)}", child))
        return [*shown, ("*", node.otherwise)] if node.otherwise is not None else shown

    def _shown_arrived(self, node: _Node) -> str:
        ids = (str(self._held[number].id) for number, _ in node.arrived)
        return f" ▶ {', '.join(ids)}" if node.arrived else ""


_ANYTHING: Final = ~Extent({})
