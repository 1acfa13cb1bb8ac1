"""Many filters in the order of covering (book 3.1.2 "Algorithms"; SIENA's poset).

    F is above G  iff  F covers G and G does not cover F

Identical filters share a node; an edge leads from a node to those right below it; the roots are what a broker
has to pass on. Four questions are answered without testing all filters:

    matching(n)          the filters that a notification matches
    covering(F)          the filters that cover F
    covered_by(F)        the filters that F covers
    merge_candidates(F)  the filters that are identical to F in all but one attribute

The idea behind the second and the third: whatever covers F matches every notification that F matches, so it
matches two far ends of F, and these are looked up in the counting index like notifications. The other way
round, what F covers has ends that F matches, and these are looked up by value. What is found this way is
tested by the algebra; what is not found needs no test. Merge candidates are found by hash, under all of their
constraints but one.

Nothing here relies on covering being transitive where the algebra is not exact.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Generic, TypeVar

from fairlead.errors import Undecided
from fairlead.filters.algebra import Algebra, Normal, algebra_for
from fairlead.filters.counting import CountingIndex, valuation
from fairlead.filters.extents.extent import Extent
from fairlead.filters.extents.numbers import NumberExtent
from fairlead.filters.filter import Filter
from fairlead.filters.merging import all_but
from fairlead.filters.normal import Conjunction
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Length, Position, Term
from fairlead.model import ABSENT, RANK, Kind, Notification, Value, key_of, kind_of, number_of

__all__ = ["Poset", "PosetStatistics"]

Id = TypeVar("Id", bound=Hashable)
_VALUES_MAX: Final = 256
_POSITIONS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class PosetStatistics:
    """How many filters there are, and how many tests of covering it took to keep them in order."""

    filters: int
    nodes: int
    roots: int
    tests: int


@dataclass(slots=True, eq=False)
class _Node:
    """Identical filters, and what is right above and right below them."""

    number: int
    normal: Normal
    ids: dict[Any, int]  # with the place of each in the order of addition
    ends: list[tuple[dict[Term, Value], dict[Term, Value]]]
    above: set[_Node] = field(default_factory=set)
    below: set[_Node] = field(default_factory=set)

    @property
    def conjunctions(self) -> tuple[Conjunction, ...]:
        return self.normal.conjunctions or ()


class Poset(Generic[Id]):
    """Filters under ids, ordered by covering; filters come and go."""

    def __init__(self, schema: Schema | None = None) -> None:
        self._algebra: Algebra = algebra_for(schema)
        self._node_of: dict[Id, _Node] = {}
        self._filters: dict[Id, Filter] = {}
        self._nodes: dict[int, _Node] = {}
        self._numbers = count()
        self._places = count()
        self._index = CountingIndex(counted_max=1)
        self._ends = _EndIndex()
        self._alike: dict[Any, dict[_Node, None]] = {}
        self._unindexed: dict[_Node, None] = {}
        self._tests = 0

    def __len__(self) -> int:
        return len(self._node_of)

    def __contains__(self, id: object) -> bool:
        return id in self._node_of

    def __iter__(self) -> Iterator[Id]:
        return iter(self._node_of)

    def __getitem__(self, id: Id) -> Filter:
        """The filter under an id."""
        return self._filters[id]

    # -- coming and going ----------------------------------------------------------------------------------

    def add(self, id: Id, filter: Filter) -> None:
        """Put a filter into the order; the id must be new."""
        if id in self._node_of:
            raise KeyError(f"{id!r} is in the poset already")
        normal = self._algebra.normal(filter)
        ends = self._ends_of(normal)
        above = set(self._covering(normal, ends))
        same = next((node for node in above if self._covers(normal, node.normal)), None)
        if same is None:
            same = self._insert(normal, ends, above)
        same.ids[id] = next(self._places)
        self._node_of[id] = same
        self._filters[id] = filter

    def remove(self, id: Id) -> Filter:
        """Take a filter out; what only it covered comes up. Returns the filter."""
        node = self._node_of.pop(id)
        del node.ids[id]
        if not node.ids:
            self._delete(node)
        return self._filters.pop(id)

    def _insert(self, normal: Normal, ends: Any, above: set[_Node]) -> _Node:
        node = _Node(next(self._numbers), normal, {}, ends)
        below = set(self._covered_by(normal))
        self._nodes[node.number] = node
        self._file(node)
        parents = _lowest(above)
        children = {one for one in below if below.isdisjoint(one.above)}
        for child in children:
            for parent in parents & child.above:  # the new node stands between them
                _unlink(parent, child)
        for parent in parents:
            _link(parent, node)
        for child in children:
            _link(node, child)
        return node

    def _delete(self, node: _Node) -> None:
        del self._nodes[node.number]
        self._unfile(node)
        parents, children = set(node.above), set(node.below)
        for parent in parents:
            _unlink(parent, node)
        for child in children:
            _unlink(node, child)
        for child in children:
            if node.normal.exact and child.normal.exact and all(p.normal.exact for p in parents):
                found = parents - _all_above(child)
            else:  # covering need not be transitive here, so ask again
                found = _lowest(set(self._covering(child.normal, child.ends)) - {child}) - child.above
            for parent in found:
                _link(parent, child)

    # -- questions -----------------------------------------------------------------------------------------

    def matching(self, notification: Notification) -> list[Id]:
        """The ids of the filters that the notification matches, in the order of addition."""
        found = dict.fromkeys(self._found(valuation(notification, self._index.terms())))
        return _ids(
            node
            for node in (*found, *self._unindexed)
            if (node.normal.exact and node not in self._unindexed) or node.normal.filter.matches(notification)
        )

    def covering(self, filter: Filter) -> list[Id]:
        """The ids of the filters that cover the filter, in the order of addition."""
        normal = self._algebra.normal(filter)
        return _ids(self._covering(normal, self._ends_of(normal)))

    def covered_by(self, filter: Filter) -> list[Id]:
        """The ids of the filters that the filter covers, in the order of addition."""
        return _ids(self._covered_by(self._algebra.normal(filter)))

    def merge_candidates(self, filter: Filter) -> list[Id]:
        """The ids of the filters that constrain the same attributes, and all but one of them identically."""
        conjunctions = self._algebra.normal(filter).conjunctions or ()
        if len(conjunctions) != 1:
            return []
        [one] = conjunctions
        found: dict[_Node, None] = {}
        for term in one.extents:
            found.update(self._alike.get(all_but(one, term), {}))
        return _ids(found)

    def roots(self) -> list[Id]:
        """The ids of the filters that no other filter covers (identical ones apart)."""
        return _ids(node for node in self._nodes.values() if not node.above)

    def parents(self, id: Id) -> list[Id]:
        """The ids of the filters right above."""
        return _ids(self._node_of[id].above)

    def children(self, id: Id) -> list[Id]:
        """The ids of the filters right below."""
        return _ids(self._node_of[id].below)

    def equals(self, id: Id) -> list[Id]:
        """The ids of the filters that are identical to the one under an id, itself included."""
        return list(self._node_of[id].ids)

    def statistics(self) -> PosetStatistics:
        """Sizes, and the number of tests of covering made so far."""
        roots = sum(not node.above for node in self._nodes.values())
        return PosetStatistics(len(self._node_of), len(self._nodes), roots, self._tests)

    def show(self) -> str:
        """The order as an indented tree; a filter below several others is spelled out once."""
        lines: list[str] = []
        shown: set[_Node] = set()
        stack = [(node, 0) for node in reversed(_by_number(n for n in self._nodes.values() if not n.above))]
        while stack:
            node, depth = stack.pop()
            names = ", ".join(map(str, node.ids))
            again = node in shown
            lines.append(f"{'  ' * depth}{names}: {'(above)' if again else node.normal.filter}")
            if not again:
                shown.add(node)
                stack.extend((child, depth + 1) for child in reversed(_by_number(node.below)))
        return "\n".join(lines)

    # -- candidates, then tests ----------------------------------------------------------------------------

    def _covers(self, one: Normal, other: Normal) -> bool:
        self._tests += 1
        return self._algebra.covers(one, other)

    def _covering(self, normal: Normal, ends: Any) -> Iterator[_Node]:
        candidates: Iterable[_Node]
        if normal.conjunctions is None:
            candidates = list(self._nodes.values())
        elif not ends:
            candidates = list(self._nodes.values())  # nothing matches it, so all cover it
        else:
            low, high = ends[0]
            some = dict.fromkeys(self._found(low))
            candidates = [*(node for node in some if _holds(node, high)), *self._unindexed]
        return (node for node in candidates if self._covers(node.normal, normal))

    def _covered_by(self, normal: Normal) -> Iterator[_Node]:
        if normal.conjunctions is None:
            candidates: Iterable[_Node] = list(self._nodes.values())
        else:
            candidates = dict.fromkeys(
                node for conjunction in normal.conjunctions for node in self._within(conjunction)
            )
            empty = (node for node in self._unindexed if node not in candidates)
            candidates = [*candidates, *empty]
        return (node for node in candidates if self._covers(normal, node.normal))

    def _found(self, values: dict[Term, Value]) -> Iterator[_Node]:
        """The nodes with a conjunction whose extents hold the values."""
        return (self._nodes[handle[0]] for handle in self._index.find(values))  # type: ignore[index]

    def _within(self, one: Conjunction) -> Iterator[_Node]:
        """The nodes whose first end lies in a conjunction, by way of its most selective term."""
        required = {t: extent for t, extent in one.extents.items() if not extent.allows(Kind.ABSENT)}
        if required:
            term = min(required, key=lambda term: self._ends.spread(term, required[term]))
            numbers: Iterable[int] = self._ends.inside(term, required[term])
        else:
            numbers = list(self._nodes)
        for number in numbers:
            node = self._nodes[number]
            if node.ends and all(
                node.ends[0][0].get(t, ABSENT) in extent for t, extent in one.extents.items()
            ):
                yield node

    def _ends_of(self, normal: Normal) -> list[tuple[dict[Term, Value], dict[Term, Value]]]:
        """Per conjunction two valuations that lie far apart in it."""
        found = []
        for conjunction in normal.conjunctions or ():
            closed = conjunction.closed(self._algebra.universe)
            assert closed is not None, "a normal form has no contradictions"
            first = self._algebra.choose(closed, lambda extent: extent.ends()[0])
            last = self._algebra.choose(closed, lambda extent: extent.ends()[1])
            found.append((_filled(_present(first)), _filled(_present(last))))
        return found

    def _file(self, node: _Node) -> None:
        if not node.ends:
            self._unindexed[node] = None
            return
        for place, conjunction in enumerate(node.conjunctions):
            self._index.add((node.number, place), conjunction.extents)
        self._ends.add(node.number, node.ends[0][0])
        for key in _merge_keys(node):
            self._alike.setdefault(key, {})[node] = None

    def _unfile(self, node: _Node) -> None:
        if self._unindexed.pop(node, ABSENT) is None:
            return
        for place in range(len(node.conjunctions)):
            self._index.remove((node.number, place))
        self._ends.remove(node.number, node.ends[0][0])
        for key in _merge_keys(node):
            del self._alike[key][node]
            if not self._alike[key]:
                del self._alike[key]


def _holds(node: _Node, values: dict[Term, Value]) -> bool:
    """One of the node's conjunctions has the values in its extents."""
    return any(
        all(values.get(term, ABSENT) in extent for term, extent in conjunction.extents.items())
        for conjunction in node.conjunctions
    )


def _merge_keys(node: _Node) -> list[Any]:
    if len(node.conjunctions) != 1:
        return []
    [one] = node.conjunctions
    return [all_but(one, term) for term in one.extents]


def _present(values: dict[Term, Value]) -> dict[Term, Value]:
    return {term: value for term, value in values.items() if value is not ABSENT}


def _filled(values: dict[Term, Value]) -> dict[Term, Value]:
    """With values at the first positions of a tuple that has them, whatever they are."""
    length = min(values.get(Length(), 0), _POSITIONS_MAX)
    return {**{Position(index): None for index in range(length)}, **values}


def _by_number(nodes: Iterable[_Node]) -> list[_Node]:
    return sorted(nodes, key=lambda node: node.number)


def _ids(nodes: Iterable[_Node]) -> list[Any]:
    placed = sorted((place, id) for node in nodes for id, place in node.ids.items())
    return [id for _, id in placed]


def _link(parent: _Node, child: _Node) -> None:
    parent.below.add(child)
    child.above.add(parent)


def _unlink(parent: _Node, child: _Node) -> None:
    parent.below.discard(child)
    child.above.discard(parent)


def _lowest(nodes: set[_Node]) -> set[_Node]:
    """Those that are not right above another one of them."""
    return nodes - {above for node in nodes for above in node.above}


def _all_above(node: _Node) -> set[_Node]:
    found: set[_Node] = set()
    stack = list(node.above)
    while stack:
        one = stack.pop()
        if one not in found:
            found.add(one)
            stack.extend(one.above)
    return found


class _EndIndex:
    """Numbers of nodes by the value that their first end gives to a term."""

    def __init__(self) -> None:
        self._by_key: dict[Term, dict[Any, dict[int, Value]]] = {}
        self._sorted: dict[tuple[Term, Kind], list[Any]] = {}

    def add(self, number: int, values: dict[Term, Value]) -> None:
        for term, value in values.items():
            keys = self._by_key.setdefault(term, {})
            key = key_of(value)
            if key not in keys:
                keys[key] = {}
                if kind_of(value) in _LINES:
                    insort(self._sorted.setdefault((term, kind_of(value)), []), _place(value))
            keys[key][number] = value

    def remove(self, number: int, values: dict[Term, Value]) -> None:
        for term, value in values.items():
            keys, key = self._by_key[term], key_of(value)
            del keys[key][number]
            if not keys[key]:
                del keys[key]
                if kind_of(value) in _LINES:
                    places = self._sorted[term, kind_of(value)]
                    del places[bisect_left(places, _place(value))]
            if not keys:
                del self._by_key[term]

    def spread(self, term: Term, extent: Extent) -> int:
        """How many nodes would have to be looked at."""
        by_key = self._by_key.get(term, {})
        return sum(len(by_key[key]) for key in self._keys(term, extent))

    def inside(self, term: Term, extent: Extent) -> list[int]:
        """The nodes whose end has a value in the extent; a few others may be among them."""
        by_key = self._by_key.get(term, {})
        return [number for key in self._keys(term, extent) for number in by_key[key]]

    def _keys(self, term: Term, extent: Extent) -> Iterator[Any]:
        by_key = self._by_key.get(term, {})
        try:
            values = extent.values(_VALUES_MAX)
        except Undecided:
            values = None
        if values is not None:
            yield from (key for key in map(key_of, values) if key in by_key)
        elif all(isinstance(piece, NumberExtent) for piece in extent.pieces.values()):
            for kind, piece in extent.pieces.items():
                yield from self._between(term, kind, piece)
        else:
            yield from by_key

    def _between(self, term: Term, kind: Kind, piece: NumberExtent) -> Iterator[Any]:
        places = self._sorted.get((term, kind), [])
        rank = RANK[kind]
        for span in piece.intervals:
            start = 0 if span.lo is None else bisect_left(places, span.lo)
            end = len(places) if span.hi is None else bisect_right(places, span.hi)
            yield from ((rank, place) for place in places[start:end])


_LINES: Final = frozenset({Kind.NUMBER, Kind.TIME})


def _place(value: Value) -> Any:
    return number_of(value) if kind_of(value) is Kind.NUMBER else value.microseconds
