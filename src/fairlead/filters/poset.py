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

Of conjunctions in the exact class not all are tested: what covers a filter that covers F covers F. Nothing here
relies on covering being transitive where the algebra is not exact.

Some filters relate to thousands of others. `inserting` makes one test at a time, for callers that have to do other
things in between.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from math import inf, nan
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, cast

from fairlead.errors import Undecided
from fairlead.filters.algebra import Algebra, Normal, algebra_for
from fairlead.filters.counting import CountingIndex, rounded, rounded_span, valuation
from fairlead.filters.extents.extent import Extent, Located, located
from fairlead.filters.extents.numbers import NumberExtent
from fairlead.filters.filter import Filter
from fairlead.filters.merging import all_but
from fairlead.filters.normal import Conjunction
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Length, Position, Term
from fairlead.model import ABSENT, Key, Kind, Notification, Value, key_of

__all__ = ["Poset", "PosetStatistics"]

Id = TypeVar("Id", bound=Hashable)
Result = TypeVar("Result")
_VALUES_MAX: Final = 256
_POSITIONS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class PosetStatistics:
    """The number of filters, and of tests of covering that it took to order them."""

    filters: int
    nodes: int
    roots: int
    tests: int


@dataclass(slots=True, eq=False)
class _Node:
    """Identical filters, and what is right above and right below them."""

    number: int
    normal: Normal
    exact: bool
    is_plain: bool  # one conjunction of the exact class: among these covering is transitive
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
        self._serials = count()
        self._index = CountingIndex(counted_max=1)
        self._ends = _EndIndex()
        self._alike: dict[Any, dict[_Node, None]] = {}
        self._alone: dict[Conjunction | None, _Node] = {}
        """The nodes of filters that are one conjunction: an equal one is identical without a test."""
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
        self._refuse_known(id)
        normal = self._algebra.normal(filter)
        node = self._alone.get(_only(normal))
        if node is None:
            node, _, _ = _last(self._placing(normal))
        self._join(node, id, filter)

    def insert(self, id: Id, filter: Filter) -> tuple[list[Id], list[Id]]:
        """Add a filter. Returns the ids of those already there that cover it, and of those that it covers.

        Identical filters are in both; each list is in the order of addition.
        """
        return _last(self.inserting(id, filter))

    def inserting(self, id: Id, filter: Filter) -> Generator[None, None, tuple[list[Id], list[Id]]]:
        """`insert`, test by test: the generator returns what `insert` does.

        Nothing else may be added or removed before it has ended.
        """
        self._refuse_known(id)
        node, above, below = yield from self._placing(self._algebra.normal(filter))
        covering, covered = _ids(above), _ids(below)
        self._join(node, id, filter)
        return covering, covered

    def remove(self, id: Id) -> Filter:
        """Take a filter out; what only it covered comes up. Returns the filter."""
        node = self._node_of.pop(id)
        del node.ids[id]
        if not node.ids:
            self._delete(node)
        return self._filters.pop(id)

    def _refuse_known(self, id: Id) -> None:
        if id in self._node_of:
            raise KeyError(f"{id!r} is in the poset already")

    def _join(self, node: _Node, id: Id, filter: Filter) -> None:
        node.ids[id] = next(self._serials)
        self._node_of[id] = node
        self._filters[id] = filter

    def _placing(self, normal: Normal) -> Generator[None, None, tuple[_Node, set[_Node], set[_Node]]]:
        """The node for a filter, new unless it has equals; the nodes that cover it, those that it covers."""
        ends = self._ends_of(normal)
        exact = normal.exact
        is_plain = exact and _only(normal) is not None
        above, below = set[_Node](), set[_Node]()
        implied = set[_Node]()
        # The latest first: where filters narrow one another step by step, the latest is the nearest.
        for node in reversed(self._covering_candidates(normal, ends)):
            if node in implied and node.is_plain:
                continue
            if self._covers(node.normal, normal):
                above.add(node)
                if is_plain and node.is_plain:
                    above.update(each for each in _beyond(node, implied, _right_above) if each.is_plain)
            yield
        implied.clear()
        for node in reversed(self._covered_candidates(normal)):
            if node in implied and node.is_plain:
                continue
            if self._covers(normal, node.normal):
                below.add(node)
                if is_plain and node.is_plain:
                    below.update(each for each in _beyond(node, implied, _right_below) if each.is_plain)
            yield
        for node in _by_number(above):
            # What is not exact may be covered without being found.
            if node in below or (not (exact and node.exact) and self._covers(normal, node.normal)):
                below.add(node)
                return node, above, below
            if not exact:
                yield
        node = _Node(next(self._numbers), normal, exact, is_plain, {}, ends)
        self._insert(node, above, below)
        return node, above, below

    def _insert(self, node: _Node, above: set[_Node], below: set[_Node]) -> None:
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

    def _delete(self, node: _Node) -> None:
        del self._nodes[node.number]
        self._unfile(node)
        parents, children = set(node.above), set(node.below)
        for parent in parents:
            _unlink(parent, node)
        for child in children:
            _unlink(node, child)
        for child in children:
            if node.exact and child.exact and all(parent.exact for parent in parents):
                found = parents.difference(_beyond(child, set()))
            else:  # covering need not be transitive here, so ask again
                found = _lowest(set(self._covering(child.normal, child.ends)) - {child}) - child.above
            for parent in found:
                _link(parent, child)

    # -- questions -----------------------------------------------------------------------------------------

    def matching(self, notification: Notification) -> list[Id]:
        """The ids of the filters that the notification matches, in the order of addition."""
        found = self._matching_nodes(valuation(notification, self._index.terms()))
        return _ids(
            node
            for node in (*found, *self._unindexed)
            if (node.exact and node not in self._unindexed) or node.normal.filter.matches(notification)
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
        one = _only(self._algebra.normal(filter))
        if one is None:
            return []
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
        candidates = self._covering_candidates(normal, ends)
        return (node for node in candidates if self._covers(node.normal, normal))

    def _covered_by(self, normal: Normal) -> Iterator[_Node]:
        return (node for node in self._covered_candidates(normal) if self._covers(normal, node.normal))

    def _covering_candidates(self, normal: Normal, ends: Any) -> list[_Node]:
        """Every node that may cover a filter, in the order of addition."""
        if normal.conjunctions is None or not ends:  # nothing matches it, so all cover it
            return list(self._nodes.values())
        return _by_number([*self._around(*ends[0]), *self._unindexed])

    def _covered_candidates(self, normal: Normal) -> list[_Node]:
        """Every node that a filter may cover, in the order of addition."""
        if normal.conjunctions is None:
            return list(self._nodes.values())
        return _by_number([*self._within(normal.conjunctions), *self._unindexed])

    def _matching_nodes(self, values: dict[Term, Value]) -> dict[_Node, None]:
        """The nodes with a conjunction whose extents hold the values."""
        return self._of(self._index.find(values))

    def _around(self, low: dict[Term, Value], high: dict[Term, Value]) -> dict[_Node, None]:
        """The nodes with a conjunction that holds the one end, and the same or another that holds the other."""
        handles = (
            (node.number, place)
            for node in self._matching_nodes(low)
            for place in range(len(node.conjunctions))
        )
        return self._of(self._index.among(handles, high))

    def _of(self, handles: Iterable[Any]) -> dict[_Node, None]:
        return {self._nodes[number]: None for number, _ in handles}

    def _within(self, conjunctions: tuple[Conjunction, ...]) -> Iterator[_Node]:
        """The nodes whose ends lie in the conjunctions."""
        begin = dict.fromkeys(number for one in conjunctions for number in self._ends.beginning(one.extents))
        end = {number for one in conjunctions for number in self._ends.ending(one.extents, begin)}
        for number in begin:
            node = self._nodes[number]
            # A literal or a sum may rule out an end, which then says nothing: there the first alone decides.
            if number in end or not node.exact:
                yield node

    def _ends_of(self, normal: Normal) -> list[tuple[dict[Term, Value], dict[Term, Value]]]:
        """Per conjunction two valuations that lie far apart in it."""
        found = []
        for conjunction in normal.conjunctions or ():
            closed = conjunction.closed(self._algebra.universe)
            assert closed is not None, "a normal form has no contradictions"
            first = self._algebra.choose(closed, Extent.first)
            last = self._algebra.choose(closed, Extent.last)
            found.append((_filled(_present(first)), _filled(_present(last))))
        return found

    def _file(self, node: _Node) -> None:
        if not node.ends:
            self._unindexed[node] = None
            return
        for place, conjunction in enumerate(node.conjunctions):
            self._index.add((node.number, place), conjunction.extents)
        self._ends.add(node.number, *node.ends[0])
        for key in _merge_keys(node):
            self._alike.setdefault(key, {})[node] = None
        if (only := _only(node.normal)) is not None:
            self._alone[only] = node

    def _unfile(self, node: _Node) -> None:
        if self._unindexed.pop(node, ABSENT) is None:
            return
        for place in range(len(node.conjunctions)):
            self._index.remove((node.number, place))
        self._ends.remove(node.number, *node.ends[0])
        for key in _merge_keys(node):
            del self._alike[key][node]
            if not self._alike[key]:
                del self._alike[key]
        self._alone.pop(_only(node.normal), None)


def _last(steps: Generator[None, None, Result]) -> Result:
    """The result of a generator."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(Result, end.value)


def _only(normal: Normal) -> Conjunction | None:
    """The conjunction of a filter that has one."""
    return normal.conjunctions[0] if normal.conjunctions and len(normal.conjunctions) == 1 else None


def _merge_keys(node: _Node) -> list[Any]:
    one = _only(node.normal)
    return [] if one is None else [all_but(one, term) for term in one.extents]


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


_right_above, _right_below = attrgetter("above"), attrgetter("below")


def _beyond(
    node: _Node, seen: set[_Node], nearest: Callable[[_Node], set[_Node]] = _right_above
) -> Iterator[_Node]:
    """The nodes above a node (or below it), nearest first, that were not seen; they are seen from then on."""
    queue = deque([node])
    while queue:
        for each in nearest(queue.popleft()):
            if each not in seen:
                seen.add(each)
                queue.append(each)
                yield each


class _EndIndex:
    """Numbers of nodes by the values of their two ends. A few others may be among those found."""

    def __init__(self) -> None:
        self._terms: dict[Term, _TermEnds] = {}
        self._numbers: dict[int, None] = {}

    def add(self, number: int, first: dict[Term, Value], last: dict[Term, Value]) -> None:
        self._numbers[number] = None
        for term in {**first, **last}:
            ends = self._terms.get(term)
            if ends is None:
                ends = self._terms[term] = _TermEnds()
            ends.add(number, first.get(term, ABSENT), last.get(term, ABSENT))

    def remove(self, number: int, first: dict[Term, Value], last: dict[Term, Value]) -> None:
        del self._numbers[number]
        for term in {**first, **last}:
            self._terms[term].remove(number, first.get(term, ABSENT))
            if not self._terms[term]:
                del self._terms[term]

    def beginning(self, extents: dict[Term, Extent]) -> list[int]:
        """The nodes whose first end lies in all of the extents.

        The most selective one says where to look, the others are tested, the more selective ones first.
        """
        required = [term for term, extent in extents.items() if not extent.allows(Kind.ABSENT)]
        if not all(term in self._terms for term in required):
            return []
        required.sort(key=lambda term: self._terms[term].count(extents[term]))
        optional = [term for term in extents if term in self._terms and term not in required]
        if not required:
            found = list(self._numbers)
        else:
            term = required.pop(0)
            found = self._terms[term].beginning(extents[term])
        for term in required + optional:
            found = self._terms[term].first.among(found, extents[term])
        return found

    def ending(self, extents: dict[Term, Extent], numbers: Iterable[int]) -> list[int]:
        """Those of the given nodes whose last end lies in all of the extents."""
        found = list(numbers)
        # Spans come first: they are the quickest to test.
        for term, extent in sorted(extents.items(), key=lambda one: not _is_linear(one[1])):
            if term in self._terms:
                found = self._terms[term].last.among(found, extent)
            elif not extent.allows(Kind.ABSENT):
                return []
        return found


class _TermEnds:
    """Numbers of nodes by the values that their ends give to one term."""

    __slots__ = ("_by_key", "_lines", "first", "last")

    def __init__(self) -> None:
        self.first = _Row()
        self.last = _Row()
        self._by_key: dict[Key, dict[int, None]] = {}
        self._lines: dict[Kind, list[tuple[Any, int]]] = {kind: [] for kind in _LINES}
        """Where the first ends are on the number lines, in order."""

    def __bool__(self) -> bool:
        return bool(self.first.located or self.last.located)

    def add(self, number: int, first: Value, last: Value) -> None:
        kind, content = self.first.add(number, first)
        self.last.add(number, last)
        self._by_key.setdefault(key_of(first), {})[number] = None
        if kind in _LINES:
            insort(self._lines[kind], (content, number))

    def remove(self, number: int, first: Value) -> None:
        kind, content = self.first.remove(number)
        self.last.remove(number)
        key = key_of(first)
        del self._by_key[key][number]
        if not self._by_key[key]:
            del self._by_key[key]
        if kind in _LINES:
            line = self._lines[kind]
            del line[bisect_left(line, (content, number))]

    def count(self, extent: Extent) -> int:
        """The number of nodes to look at to find those whose first end is in the extent."""
        values = _few_values(extent)
        if values is not None:
            return sum(len(self._by_key.get(key_of(value), ())) for value in values)
        if _is_linear(extent):
            return sum(end - start for _, start, end in self._stretches(extent))
        return len(self.first.located)

    def beginning(self, extent: Extent) -> list[int]:
        """The nodes whose first end is in the extent."""
        values = _few_values(extent)
        if values is not None:
            return [number for value in values for number in self._by_key.get(key_of(value), ())]
        if _is_linear(extent):
            stretches = self._stretches(extent)
            return [number for line, start, end in stretches for _, number in line[start:end]]
        return self.first.among(self.first.located, extent)

    def _stretches(self, extent: Extent) -> Iterator[tuple[list[tuple[Any, int]], int, int]]:
        """The parts of the lines that lie in an extent of numbers, each from cut to cut."""
        for kind, piece in extent.pieces.items():
            line = self._lines[kind]
            # Numbers of nodes are finite and not negative: a cut is below, or above, all nodes at its place.
            at = [bisect_left(line, (place, inf if above else -1)) for place, above in piece.cuts]
            bounds = [*([0] if piece.below else []), *at, len(line)]
            yield from ((line, start, end) for start, end in zip(bounds[::2], bounds[1::2], strict=False))


class _Row:
    """The values that one end of each node gives to one term; rounded as well where they are numbers."""

    __slots__ = ("_rounded", "located")

    def __init__(self) -> None:
        self.located: dict[int, Located] = {}
        self._rounded: dict[Kind, dict[int, float]] = {kind: {} for kind in _LINES}

    def add(self, number: int, value: Value) -> Located:
        place = self.located[number] = located(value)
        kind, content = place
        if kind in _LINES:
            self._rounded[kind][number] = rounded(content)
        return place

    def remove(self, number: int) -> Located:
        place = self.located.pop(number)
        if place[0] in _LINES:
            del self._rounded[place[0]][number]
        return place

    def among(self, numbers: Iterable[int], extent: Extent) -> list[int]:
        """Those of the numbers whose value is in the extent, and perhaps some whose value is near it."""
        span = rounded_span(extent)
        if span is not None:
            kind, low, high = span
            values = self._rounded[kind]
            return [number for number in numbers if low <= values.get(number, nan) <= high]
        places, holds = self.located, extent.holds
        return [number for number in numbers if holds(*places.get(number, _NOWHERE))]


_LINES: Final = frozenset({Kind.NUMBER, Kind.TIME})
_NOWHERE: Final = located(ABSENT)


def _few_values(extent: Extent) -> tuple[Value, ...] | None:
    try:
        return extent.values(_VALUES_MAX)
    except Undecided:
        return None


def _is_linear(extent: Extent) -> bool:
    return all(isinstance(piece, NumberExtent) for piece in extent.pieces.values())
