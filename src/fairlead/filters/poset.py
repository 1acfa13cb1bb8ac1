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

Conjunctions in the exact class, the plain ones, are kept in chains (see `chains`). The counting index has the
widest filter of each chain, the index of ends the narrowest: where these say yes, a search in the chain finds the
filter at which the answer changes. So of a thousand thresholds on one attribute a dozen are tested. Nothing here
relies on covering being transitive where the algebra is not exact: other filters are tested one by one, and their
relations are kept pair by pair.

Some filters relate to thousands of others. `inserting` makes one test at a time, for callers that have to do other
things in between.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import chain as joined
from itertools import count
from operator import attrgetter, xor
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from fairlead.filters.algebra import Algebra, Normal, algebra_for
from fairlead.filters.chains import Chain, Member, add, highest_below, is_above, lowest_above, remove, steps
from fairlead.filters.counting import CountingIndex, valuation
from fairlead.filters.ends import EndIndex
from fairlead.filters.extents.extent import Extent, Located, located
from fairlead.filters.extents.numbers import NumberExtent
from fairlead.filters.extents.strings import Language
from fairlead.filters.filter import Filter
from fairlead.filters.merging import all_but
from fairlead.filters.normal import Conjunction
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Length, Position, Term
from fairlead.model import ABSENT, Notification, Value

__all__ = ["Poset", "PosetStatistics"]

Id = TypeVar("Id", bound=Hashable)
Result = TypeVar("Result")
_POSITIONS_MAX: Final = 64
_CUTS_MAX: Final = 4
"""Extents of numbers with more cuts are of one shape."""


@dataclass(frozen=True, slots=True)
class PosetStatistics:
    """The number of filters, and of tests of covering that it took to order them."""

    filters: int
    nodes: int
    roots: int
    tests: int


@dataclass(slots=True, eq=False)
class _Node(Member):
    """Identical filters."""

    number: int
    normal: Normal
    exact: bool
    shape: Hashable
    """Of one conjunction of the exact class: among these covering is transitive. None of all others."""
    ids: dict[Any, int]
    """The ids of the filter, each with its number in the order of addition."""
    ends: list[tuple[dict[Term, Value], dict[Term, Value]]]

    @property
    def is_plain(self) -> bool:
        return self.shape is not None

    @property
    def conjunctions(self) -> tuple[Conjunction, ...]:
        return self.normal.conjunctions or ()


_Bounds: TypeAlias = dict[Chain[_Node], _Node]
"""By chain, the member where an answer changes: the lowest one above a filter, or the highest one below it."""
_NONE: Final[frozenset[_Node]] = frozenset()


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
        """Of a chain only the widest filter is in it."""
        self._ends = EndIndex()
        """Of a chain only the narrowest filter is in it."""
        self._above: dict[_Node, set[_Node]] = {}
        """The nodes that cover a node, where one of the two is not plain."""
        self._below: dict[_Node, set[_Node]] = {}
        """The nodes that a node covers, where one of the two is not plain."""
        self._edges: dict[tuple[_Node, bool], list[_Node]] = {}
        """The nodes right above or right below some nodes, as asked for since the last change."""
        self._alike: dict[Hashable, dict[_Node, None]] | None = None
        """The nodes under each of their merge keys, from the first question for them on."""
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
        _last(self.inserting(id, filter))

    def insert(self, id: Id, filter: Filter) -> tuple[list[Id], list[Id]]:
        """Add a filter. Returns the ids of those already there that cover it, and of those that it covers.

        Identical filters are in both; each list is in the order of addition.
        """
        self.add(id, filter)
        node = self._node_of[id]
        above, below = _ids(self._nodes_above(node)), _ids(self._nodes_below(node))
        return [each for each in above if each != id], [each for each in below if each != id]

    def inserting(self, id: Id, filter: Filter) -> Generator[None, None, None]:
        """`add`, test by test. Nothing else may be added or removed before it has ended."""
        if id in self._node_of:
            raise KeyError(f"{id!r} is in the poset already")
        normal = self._algebra.normal(filter)
        node = self._alone.get(_only(normal))
        if node is None:
            node = yield from self._placing(normal)
        node.ids[id] = next(self._serials)
        self._node_of[id] = node
        self._filters[id] = filter

    def remove(self, id: Id) -> Filter:
        """Take a filter out; what only it covered comes up. Returns the filter."""
        node = self._node_of.pop(id)
        del node.ids[id]
        if not node.ids:
            self._delete(node)
        return self._filters.pop(id)

    def _placing(self, normal: Normal) -> Generator[None, None, _Node]:
        """The node for a filter, new unless it has equals."""
        ends, exact = self._ends_of(normal), normal.exact
        shape = _shape_of(normal)
        lowest, above = yield from self._covering(normal, ends, shape)
        highest, below = yield from self._covered_by(normal, shape)
        for chain, node in lowest.items():
            if highest.get(chain) is node:
                return node
        for node in _by_number(above):
            # What is not exact may be covered without being found.
            if node in below or (not (exact and node.exact) and self._covers(normal, node.normal)):
                return node
            if not exact:
                yield
        node = _Node(next(self._numbers), normal, exact, shape, {}, ends)
        self._nodes[node.number] = node
        if shape is not None:
            add(node, shape, lowest, highest)
        self._relate(node, above, below)
        self._file(node)
        self._edges.clear()
        return node

    def _relate(self, node: _Node, above: set[_Node], below: set[_Node]) -> None:
        for mine, theirs, others in ((self._above, self._below, above), (self._below, self._above, below)):
            if others:
                mine[node] = others
            for other in others:
                theirs.setdefault(other, set()).add(node)

    def _delete(self, node: _Node) -> None:
        del self._nodes[node.number]
        self._unfile(node)
        for mine, theirs in ((self._above, self._below), (self._below, self._above)):
            for other in mine.pop(node, ()):
                theirs[other].discard(node)
                if not theirs[other]:
                    del theirs[other]
        if node.is_plain:
            remove(node)
        self._edges.clear()

    # -- questions -----------------------------------------------------------------------------------------

    def matching(self, notification: Notification) -> list[Id]:
        """The ids of the filters that the notification matches, in the order of addition."""
        found: list[_Node] = []
        for node in self._matching_nodes(valuation(notification, self._index.terms())):
            if node.is_plain:
                members = node.chain.members
                last = _last(_reach(members, 0, lambda each: each.normal.filter.matches(notification)))
                found.extend(members[: last + 1])
            elif node.exact or node.normal.filter.matches(notification):
                found.append(node)
        return _ids([*found, *(node for node in self._unindexed if node.normal.filter.matches(notification))])

    def covering(self, filter: Filter) -> list[Id]:
        """The ids of the filters that cover the filter, in the order of addition."""
        normal = self._algebra.normal(filter)
        lowest, above = _last(self._covering(normal, self._ends_of(normal), _shape_of(normal)))
        return _ids(joined(above, *(chain.until(node) for chain, node in lowest.items())))

    def covered_by(self, filter: Filter) -> list[Id]:
        """The ids of the filters that the filter covers, in the order of addition."""
        normal = self._algebra.normal(filter)
        highest, below = _last(self._covered_by(normal, _shape_of(normal)))
        return _ids(joined(below, *(chain.since(node) for chain, node in highest.items())))

    def covers(self, one: Id, other: Id) -> bool:
        """Whether the filter under an id covers the one under another, or is identical to it."""
        return self._is_above(self._node_of[one], self._node_of[other])

    def above(self, id: Id) -> Iterator[Id]:
        """The ids of the filters that cover the one under an id, itself included, in any order."""
        return joined.from_iterable(map(_ids_at, self._nodes_above(self._node_of[id])))

    def below(self, id: Id) -> Iterator[Id]:
        """The ids of the filters that the one under an id covers, itself included, in any order."""
        return joined.from_iterable(map(_ids_at, self._nodes_below(self._node_of[id])))

    def identical(self, id: Id) -> Iterator[Id]:
        """The ids of the filters that cover the one under an id and that it covers, itself included."""
        node = self._node_of[id]
        if node not in self._above:
            return iter(node.ids)
        others = self._above[node] & self._below.get(node, _NONE)
        return joined(node.ids, *(other.ids for other in others))

    def depth(self, id: Id) -> int:
        """The number of different filters that cover the one under an id."""
        node = self._node_of[id]
        pairs = len(self._above.get(node, _NONE))
        return (
            pairs + sum(each.chain.position(each) + 1 for each in lowest_above(node))
            if node.is_plain
            else pairs
        )

    def height(self, id: Id) -> int:
        """The number of different filters that the one under an id covers."""
        node = self._node_of[id]
        pairs = len(self._below.get(node, _NONE))
        below = highest_below(node) if node.is_plain else ()
        return pairs + sum(len(each.chain.members) - each.chain.position(each) for each in below)

    def links(self, id: Id) -> int:
        """The number of relations that are kept for the filter under an id: steps of its chain, and pairs."""
        node = self._node_of[id]
        pairs = len(self._above.get(node, _NONE)) + len(self._below.get(node, _NONE))
        return pairs + steps(node) if node.is_plain else pairs

    def merge_candidates(self, filter: Filter) -> list[Id]:
        """The ids of the filters that constrain the same attributes, and all but one of them identically."""
        one = _only(self._algebra.normal(filter))
        if one is None:
            return []
        if self._alike is None:
            self._alike = {}
            for node in self._nodes.values():
                self._file_alike(node)
        found: dict[_Node, None] = {}
        for term, key in _merge_keys(one):
            for node in self._alike.get(key, ()):
                if _is_alike(one, node.conjunctions[0], term):
                    found[node] = None
        return _ids(found)

    def roots(self) -> list[Id]:
        """The ids of the filters that no other filter covers (identical ones apart)."""
        return _ids(self._roots())

    def parents(self, id: Id) -> list[Id]:
        """The ids of the filters right above."""
        return _ids(self._nearest(self._node_of[id], up=True))

    def children(self, id: Id) -> list[Id]:
        """The ids of the filters right below."""
        return _ids(self._nearest(self._node_of[id], up=False))

    def equals(self, id: Id) -> list[Id]:
        """The ids of the filters that are identical to the one under an id, itself included."""
        return list(self._node_of[id].ids)

    def statistics(self) -> PosetStatistics:
        """Sizes, and the number of tests of covering made so far."""
        return PosetStatistics(
            len(self._node_of), len(self._nodes), sum(1 for _ in self._roots()), self._tests
        )

    def show(self) -> str:
        """The order as an indented tree; a filter below several others is spelled out once."""
        lines: list[str] = []
        shown: set[_Node] = set()
        stack = [(node, 0) for node in reversed(_by_number(self._roots()))]
        while stack:
            node, depth = stack.pop()
            names = ", ".join(map(str, node.ids))
            again = node in shown
            lines.append(f"{'  ' * depth}{names}: {'(above)' if again else node.normal.filter}")
            if not again:
                shown.add(node)
                stack.extend((child, depth + 1) for child in reversed(self._nearest(node, up=False)))
        return "\n".join(lines)

    # -- the order of nodes --------------------------------------------------------------------------------

    def _is_above(self, one: _Node, other: _Node) -> bool:
        if one.is_plain and other.is_plain:
            return is_above(one, other)
        return one is other or one in self._above.get(other, _NONE)

    def _nodes_above(self, node: _Node) -> Iterator[_Node]:
        """The nodes that cover a node, itself included; of a chain, the nearest first."""
        others = self._above.get(node, _NONE)
        if not node.is_plain:
            return joined((node,), others)
        parts = (reversed(lowest.chain.until(lowest)) for lowest in lowest_above(node))
        return joined(joined.from_iterable(parts), others)

    def _nodes_below(self, node: _Node) -> Iterator[_Node]:
        """The nodes that a node covers, itself included; of a chain, the nearest first."""
        others = self._below.get(node, _NONE)
        if not node.is_plain:
            return joined((node,), others)
        parts = (highest.chain.since(highest) for highest in highest_below(node))
        return joined(joined.from_iterable(parts), others)

    def _roots(self) -> Iterator[_Node]:
        for node in self._nodes.values():
            is_top = not node.is_plain or (
                node.chain.top is node and next(_others(lowest_above(node)), None) is None
            )
            if is_top and not self._above.get(node, _NONE) - self._below.get(node, _NONE):
                yield node

    def _nearest(self, node: _Node, *, up: bool) -> list[_Node]:
        """The nodes right above a node, or right below it, in the order of addition."""
        known = self._edges.get((node, up))
        if known is None:
            known = self._edges[node, up] = _by_number(self._find_nearest(node, up=up))
        return known

    def _find_nearest(self, node: _Node, *, up: bool) -> Iterator[_Node]:
        beyond = self._nodes_above if up else self._nodes_below
        back = self._below if up else self._above
        # Of a chain the nearest one counts: each next one is beyond it.
        of_chains: dict[Chain[_Node], _Node] = {}
        others: list[_Node] = []
        found = [each for each in beyond(node) if each is not node and each not in back.get(node, _NONE)]
        for each in found:
            if not each.is_plain:
                others.append(each)
                continue
            known = of_chains.get(each.chain)
            if known is None or (known.rank < each.rank) is up:
                of_chains[each.chain] = each
        candidates = [*of_chains.values(), *others]

        def is_beyond(one: _Node, other: _Node) -> bool:
            """One is strictly farther from the node."""
            wide, narrow = (one, other) if up else (other, one)
            return self._is_above(wide, narrow) and not self._is_above(narrow, wide)

        for one in candidates:
            nearer = candidates if one.is_plain else found
            if not any(is_beyond(one, each) for each in nearer if each is not one):
                yield one

    # -- candidates, then tests ----------------------------------------------------------------------------

    def _covers(self, one: Normal, other: Normal) -> bool:
        self._tests += 1
        return self._algebra.covers(one, other)

    def _covering(
        self, normal: Normal, ends: Any, shape: Hashable
    ) -> Generator[None, None, tuple[_Bounds, set[_Node]]]:
        """The nodes that cover a filter, test by test: the lowest of each chain, those that are tested alone."""
        lowest: _Bounds = {}
        above = set[_Node]()
        for node in self._covering_candidates(normal, ends, shape):
            if shape is None or not node.is_plain:
                if self._covers(node.normal, normal):
                    above.add(node)
                yield
                continue
            chain: Chain[_Node] = node.chain
            members, known = chain.members, lowest.get(chain)
            passed = -1 if known is None else chain.position(known)
            at = yield from _reach(members, passed, lambda each: self._covers(each.normal, normal))
            if at >= 0 and members[at] is not known:
                # What covers this one covers the filter, too.
                for each in lowest_above(members[at]):
                    known = lowest.get(each.chain)
                    if known is None or known.rank < each.rank:
                        lowest[each.chain] = each
        return lowest, above

    def _covered_by(
        self, normal: Normal, shape: Hashable
    ) -> Generator[None, None, tuple[_Bounds, set[_Node]]]:
        """The nodes that a filter covers, test by test: the highest of each chain, those that are tested alone."""
        highest: _Bounds = {}
        below = set[_Node]()
        for node in self._covered_candidates(normal, shape):
            if shape is None or not node.is_plain:
                if self._covers(normal, node.normal):
                    below.add(node)
                yield
                continue
            chain: Chain[_Node] = node.chain
            members, known = chain.members[::-1], highest.get(chain)
            passed = -1 if known is None else len(members) - 1 - chain.position(known)
            at = yield from _reach(members, passed, lambda each: self._covers(normal, each.normal))
            if at >= 0 and members[at] is not known:
                for each in highest_below(members[at]):
                    known = highest.get(each.chain)
                    if known is None or each.rank < known.rank:
                        highest[each.chain] = each
        return highest, below

    def _covering_candidates(self, normal: Normal, ends: Any, shape: Hashable) -> list[_Node]:
        """Every node that may cover a filter; of plain ones, for a plain filter, one of the chain."""
        if normal.conjunctions is None or not ends:  # nothing matches it, so all cover it
            return list(self._nodes.values())
        found = [*self._around(*ends[0]), *self._unindexed]
        if shape is None:
            low, high = map(_located, ends[0])
            return [
                each
                for node in found
                for each in (node.chain.members if node.is_plain else (node,))
                if each is node or (_holds(each.conjunctions, low) and _holds(each.conjunctions, high))
            ]
        # What has most above it implies most; where filters narrow one another, the latest is the nearest.
        return sorted(found, key=_most_above, reverse=True)

    def _covered_candidates(self, normal: Normal, shape: Hashable) -> list[_Node]:
        """Every node that a filter may cover; of plain ones, for a plain filter, one of the chain."""
        if normal.conjunctions is None:
            return list(self._nodes.values())
        found = [*self._within(normal.conjunctions), *self._unindexed]
        if shape is None:
            return [
                each
                for node in found
                for each in (node.chain.members if node.is_plain else (node,))
                if each is node or all(_holds(normal.conjunctions, _located(end)) for end in each.ends[0])
            ]
        return sorted(found, key=_most_below, reverse=True)

    def _matching_nodes(self, values: dict[Term, Value]) -> dict[_Node, None]:
        """The nodes in the index with a conjunction whose extents hold the values."""
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
        """File a node under what it is found by; of a chain, the widest and the narrowest are."""
        if not node.ends:
            self._unindexed[node] = None
            return
        members = node.chain.members if node.is_plain else [node]
        if members[0] is node:
            if len(members) > 1:
                self._unfile_extents(members[1])
            self._file_extents(node)
        if members[-1] is node:
            if len(members) > 1:
                self._ends.remove(members[-2].number, *members[-2].ends[0])
            self._ends.add(node.number, *node.ends[0])
        self._file_alike(node)
        if (only := _only(node.normal)) is not None:
            self._alone[only] = node

    def _unfile(self, node: _Node) -> None:
        if self._unindexed.pop(node, ABSENT) is None:
            return
        members = node.chain.members if node.is_plain else [node]
        if members[0] is node:
            self._unfile_extents(node)
            if len(members) > 1:
                self._file_extents(members[1])
        if members[-1] is node:
            self._ends.remove(node.number, *node.ends[0])
            if len(members) > 1:
                self._ends.add(members[-2].number, *members[-2].ends[0])
        if self._alike is not None and (only := _only(node.normal)) is not None:
            for _, key in _merge_keys(only):
                del self._alike[key][node]
                if not self._alike[key]:
                    del self._alike[key]
        self._alone.pop(_only(node.normal), None)

    def _file_alike(self, node: _Node) -> None:
        if self._alike is not None and (only := _only(node.normal)) is not None:
            for _, key in _merge_keys(only):
                self._alike.setdefault(key, {})[node] = None

    def _file_extents(self, node: _Node) -> None:
        for place, conjunction in enumerate(node.conjunctions):
            self._index.add((node.number, place), conjunction.extents)

    def _unfile_extents(self, node: _Node) -> None:
        for place in range(len(node.conjunctions)):
            self._index.remove((node.number, place))


def _reach(members: list[_Node], passed: int, test: Callable[[_Node], bool]) -> Generator[None, None, int]:
    """The place of the last that passes a test, -1 if none does; all before it do, and none after it.

    Known is that all up to `passed` do. The last of all is tried first: most often it passes.
    """
    failed, place = len(members), len(members) - 1
    while passed + 1 < failed:
        if test(members[place]):
            passed = place
        else:
            failed = place
        yield
        place = 0 if passed < 0 else (passed + failed) // 2
    return passed


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


def _merge_keys(one: Conjunction) -> Iterator[tuple[Term, Hashable]]:
    """For each term a key that conjunctions share which are alike in all others.

    The key is a hash: the others, spelled out for each term, would take memory with the square of their number.
    """
    hashes = {term: hash((term, extent)) for term, extent in one.extents.items()}
    whole = reduce(xor, hashes.values(), hash(frozenset(one.literals)))
    for term, each in hashes.items():
        yield term, (term, whole ^ each)


def _is_alike(one: Conjunction, other: Conjunction, term: Term) -> bool:
    """Whether two conjunctions are alike in all but one term, which both have."""
    return one.extents.keys() == other.extents.keys() and all_but(one, term) == all_but(other, term)


def _present(values: dict[Term, Value]) -> dict[Term, Value]:
    return {term: value for term, value in values.items() if value is not ABSENT}


def _filled(values: dict[Term, Value]) -> dict[Term, Value]:
    """With values at the first positions of a tuple that has them, whatever they are."""
    length = min(values.get(Length(), 0), _POSITIONS_MAX)
    return {**{Position(index): None for index in range(length)}, **values}


_ids_at = attrgetter("ids")


def _by_number(nodes: Iterable[_Node]) -> list[_Node]:
    return sorted(nodes, key=lambda node: node.number)


def _ids(nodes: Iterable[_Node]) -> list[Any]:
    placed = sorted((place, id) for node in nodes for id, place in node.ids.items())
    return [id for _, id in placed]


def _others(nodes: Iterator[_Node]) -> Iterator[_Node]:
    """All but the first."""
    next(nodes)
    return nodes


def _most_above(node: _Node) -> tuple[int, int]:
    return (len(node.chain.above), node.chain.bottom.number) if node.is_plain else (-1, node.number)


def _most_below(node: _Node) -> tuple[int, int]:
    return (len(node.chain.below), node.chain.bottom.number) if node.is_plain else (-1, node.number)


def _located(values: dict[Term, Value]) -> dict[Term, Located]:
    return {term: located(value) for term, value in values.items()}


def _holds(conjunctions: Iterable[Conjunction], values: dict[Term, Located]) -> bool:
    """Whether the extents of one of the conjunctions hold the values."""
    return any(
        all(extent.holds(*values.get(term, _NOWHERE)) for term, extent in one.extents.items())
        for one in conjunctions
    )


_NOWHERE: Final = located(ABSENT)


def _shape_of(normal: Normal) -> Hashable:
    """The shape of a filter of the exact class that is one conjunction; None of all others."""
    only = _only(normal)
    return _shape(only) if only is not None and normal.exact else None


def _shape(conjunction: Conjunction) -> Hashable:
    """A key of filters that may form a long chain: the terms, and the way each is bounded."""
    return frozenset((term, *_bounded(extent)) for term, extent in conjunction.extents.items())


def _bounded(extent: Extent) -> Iterator[Hashable]:
    for kind, piece in extent.pieces.items():
        yield kind
        if isinstance(piece, NumberExtent):
            cuts = piece.cuts
            yield piece.below, min(len(cuts), _CUTS_MAX), len(cuts) == 2 and cuts[0][0] == cuts[1][0]
        elif isinstance(piece, Language):
            form = piece.form or ("",)
            yield form[0], form[0] == "words" and len(form[1]) == 1
