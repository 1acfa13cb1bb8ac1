"""Binary decision diagrams: any Boolean filter, and no predicate is evaluated twice (book 3.2.4).

    n matches F    iff    the way that n takes from F's output node ends at 1

A node asks one predicate and has two edges: high, for the notifications that satisfy it, and low. All filters
live in one table of nodes. Ordered: along every way the predicates come in one fixed order. Reduced: no two
nodes are the same, and no node has both edges lead to one place. So equal functions of the predicates are one
and the same node, whoever asks for them, and filters share all that they have in common.

    F = n1                                        stock = "Foo Inc." and (price > 15 or volume > 1000000)
    n1   stock = "Foo Inc."  high n2   low 0
    n2   price > 15          high 1    low n3
    n3   volume > 1000000    high 1    low 0

The order of the predicates is that of their first appearance, the leaves of a filter from left to right, unless
`order` gives another. People write together what belongs together, and a good order keeps such groups together:
`a1 and b1 or a2 and b2 or …` has two nodes a pair in the order a1, b1, a2, b2, …, and more than 2^n for n pairs
in the order a1, a2, …, b1, b2, …. Finding the best order is NP-hard, and some functions have no good one; so a
filter that would take more than `NODES_MAX` new nodes is left out of the diagram and asked directly.

The book evaluates a diagram in two ways (Figs. 3.16 and 3.17), and so does the engine: `down` walks from each
output node to a terminal and remembers what it learns on the way, so it evaluates no predicate that does not
matter; `up` visits all nodes from the terminals upwards, without a jump. (The text on the latter has low and
high reversed; the figure has them right.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import count
from sys import maxsize
from typing import Final, Literal, TypeAlias

from fairlead.filters.filter import And, Filter, Not, Or
from fairlead.matching.engine import Id
from fairlead.model import Notification
from fairlead_lab.matching.base import EngineBase, Wanted

__all__ = ["NODES_MAX", "Diagram", "NodeTable"]

NODES_MAX: Final = 20_000
"""The number of nodes that one filter may make, those included that are given up again before it is done."""
PAIRS_MAX: Final = 5 * NODES_MAX
"""The number of pairs of nodes that one join may look at."""

FALSE: Final = 0
TRUE: Final = 1
Operation: TypeAlias = Literal["and", "or", "xor"]


def _and(one: int, other: int) -> int | None:
    if FALSE in (one, other):
        return FALSE
    return other if one in (TRUE, other) else one if other == TRUE else None


def _or(one: int, other: int) -> int | None:
    if TRUE in (one, other):
        return TRUE
    return other if one in (FALSE, other) else one if other == FALSE else None


def _xor(one: int, other: int) -> int | None:
    if one == other:
        return FALSE
    if {one, other} == {FALSE, TRUE}:
        return TRUE
    return other if one == FALSE else one if other == FALSE else None


SETTLED: Final[dict[Operation, Callable[[int, int], int | None]]] = {"and": _and, "or": _or, "xor": _xor}
"""The result of joining two nodes where that can be seen without looking below them."""


class _TooLarge(Exception):
    """A filter takes more nodes than it may."""


@dataclass(slots=True, eq=False)
class _Node:
    rank: int
    low: int
    high: int
    uses: int = 0
    """Edges and filters that lead here; a node without any goes."""


class NodeTable:
    """The nodes of all diagrams: each function of the predicates is there once, and only while it is used."""

    __slots__ = ("_fresh", "_ids", "_ranks", "_ranks_next", "_same", "_sharing", "nodes", "predicates")

    def __init__(self, order: Iterable[Filter] = ()) -> None:
        self.nodes: dict[int, _Node] = {}
        self.predicates: dict[int, Filter] = dict(enumerate(dict.fromkeys(order)))
        """The predicates that the nodes of each rank ask."""
        self._ranks = {predicate: rank for rank, predicate in self.predicates.items()}
        self._ranks_next = count(len(self._ranks))
        self._sharing = Counter(list(self.predicates))  # an order that was given is kept, used or not
        self._same: dict[tuple[int, int, int], int] = {}
        self._fresh: list[int] = []
        self._ids = count(2)  # after the terminals; users are younger than what they use

    def predicate(self, predicate: Filter) -> int:
        """The diagram of a single predicate."""
        if predicate not in self._ranks:
            rank = self._ranks[predicate] = next(self._ranks_next)
            self.predicates[rank] = predicate
        return self.node(self._ranks[predicate], FALSE, TRUE)

    def node(self, rank: int, low: int, high: int) -> int:
        """The node for "if the predicate of this rank holds then high, else low"."""
        if low == high:
            return low
        known = self._same.get((rank, low, high))
        if known is not None:
            return known
        made = self._same[rank, low, high] = next(self._ids)
        self.nodes[made] = _Node(rank, low, high)
        self._sharing[rank] += 1
        self._fresh.append(made)
        self.use(low)
        self.use(high)
        if len(self._fresh) > NODES_MAX:
            raise _TooLarge
        return made

    def rank_of(self, node: int) -> int:
        """The place of a node's predicate in the order; the terminals come last."""
        return self.nodes[node].rank if node > TRUE else maxsize

    def join(self, operation: Operation, one: int, other: int) -> int:
        """The diagram of `one and other`, `one or other`, or of "one of them, not both"."""
        settled, done = SETTLED[operation], dict[tuple[int, int], int]()
        stack = [(one, other)]
        while stack:
            pair = stack[-1]
            result = done.get(pair, settled(*pair))
            if result is None:
                rank = min(map(self.rank_of, pair))
                low, high = self._below(pair, rank, "low"), self._below(pair, rank, "high")
                missing = [each for each in (high, low) if each not in done]
                if missing:
                    stack.extend(missing)
                    continue
                result = self.node(rank, done[low], done[high])
            done[pair] = result
            stack.pop()
            if len(done) > PAIRS_MAX:
                raise _TooLarge
        return done[one, other]

    def negation(self, one: int) -> int:
        """The same diagram with 0 and 1 exchanged."""
        return self.join("xor", one, TRUE)

    def use(self, node: int) -> None:
        """Keep a node for one more user."""
        if node > TRUE:
            self.nodes[node].uses += 1

    def release(self, node: int) -> None:
        """One user less; a node without users goes, and with it what only it used."""
        stack = [node]
        while stack:
            each = stack.pop()
            if each > TRUE:
                self.nodes[each].uses -= 1
                stack.extend(self._dropped(each))

    def tidy(self) -> None:
        """Drop what was made on the way to a result and is not part of it."""
        for node in reversed(self._fresh):  # users are younger than what they use
            for below in self._dropped(node):
                if below > TRUE:
                    self.nodes[below].uses -= 1
        self._fresh.clear()

    def _dropped(self, node: int) -> tuple[int, ...]:
        """The targets of a node's edges, if it was dropped because nobody uses it."""
        gone = self.nodes[node]
        if gone.uses:
            return ()
        del self.nodes[node], self._same[gone.rank, gone.low, gone.high]
        self._sharing[gone.rank] -= 1
        if not self._sharing[gone.rank]:
            del self._sharing[gone.rank], self._ranks[self.predicates.pop(gone.rank)]
        return gone.low, gone.high

    def _below(self, pair: tuple[int, int], rank: int, edge: Literal["low", "high"]) -> tuple[int, int]:
        """The targets of two nodes that are asked the predicate of this rank; some are only asked later ones."""
        one, other = (
            getattr(self.nodes[each], edge) if self.rank_of(each) == rank else each for each in pair
        )
        return one, other


class Diagram(EngineBase[Id]):
    """All filters in one shared, ordered and reduced diagram."""

    name = "diagram"

    def __init__(self, order: Iterable[Filter] = (), evaluation: Literal["down", "up"] = "down") -> None:
        super().__init__()
        self._table = NodeTable(order)
        self._outputs: dict[int, int] = {}
        self._direct: dict[int, Filter] = {}
        self._evaluate = {"down": self._down, "up": self._up}[evaluation]

    @property
    def size(self) -> int:
        """The number of nodes, the terminals not counted."""
        return len(self._table.nodes)

    def _file(self, number: int, filter: Filter) -> None:
        try:
            output = self._made(filter)
        except _TooLarge:
            self._direct[number] = filter
        else:
            self._table.use(output)
            self._outputs[number] = output
        finally:
            self._table.tidy()

    def _unfile(self, number: int, filter: Filter) -> None:
        if self._direct.pop(number, None) is None:
            self._table.release(self._outputs.pop(number))

    def _made(self, filter: Filter) -> int:
        """The diagram of a filter."""
        match filter:
            case Not(part):
                return self._table.negation(self._made(part))
            case And(parts):
                return self._joined("and", parts, TRUE)
            case Or(parts):
                return self._joined("or", parts, FALSE)
            case _:
                return self._table.predicate(filter)

    def _joined(self, operation: Operation, parts: tuple[Filter, ...], neutral: int) -> int:
        # From the bottom up: what comes last in the order is joined first, and each join adds on top of it.
        made = sorted((self._made(part) for part in parts), key=self._table.rank_of, reverse=True)
        return reduce(lambda below, above: self._table.join(operation, above, below), made, neutral)

    def _find(self, notification: Notification, wanted: Wanted) -> Iterator[int]:
        value_of = self._evaluate(notification)
        for number, output in self._outputs.items():
            if wanted(number) and value_of(output):
                yield number
        for number, filter in self._direct.items():
            if wanted(number) and self._tested(filter, notification):
                yield number

    def _down(self, notification: Notification) -> Callable[[int], bool]:
        """Evaluation from the output node down (Fig. 3.16), which remembers nodes and predicates."""
        nodes = self._table.nodes
        values = {FALSE: False, TRUE: True}
        holds: dict[int, bool] = {}

        def value_of(output: int) -> bool:
            way, at = [], output
            while at not in values:
                way.append(at)
                node = nodes[at]
                if node.rank not in holds:
                    holds[node.rank] = self._tested(self._table.predicates[node.rank], notification)
                at = node.high if holds[node.rank] else node.low
            values.update(dict.fromkeys(way, values[at]))
            return values[at]

        return value_of

    def _up(self, notification: Notification) -> Callable[[int], bool]:
        """Evaluation of all nodes from the terminals upwards (Fig. 3.17)."""
        nodes = self._table.nodes
        values = {FALSE: False, TRUE: True}
        ranks = {node.rank for node in nodes.values()}
        holds = {rank: self._tested(self._table.predicates[rank], notification) for rank in ranks}
        for at in sorted(nodes):  # a node is always younger than what its edges lead to
            node = nodes[at]
            values[at] = values[node.high] if holds[node.rank] else values[node.low]
        return values.__getitem__

    def show(self) -> str:
        """The output nodes, then the nodes in the order of their predicates with where their edges lead."""
        nodes = self._table.nodes
        listed = sorted(nodes, key=lambda at: (nodes[at].rank, at))
        names = {FALSE: "0", TRUE: "1"} | {at: f"n{place}" for place, at in enumerate(listed, 1)}
        lines = [f"{self._held[number].id} = {names[at]}" for number, at in self._outputs.items()]
        lines += [f"{self._held[number].id} is too large" for number in self._direct]
        texts = [str(self._table.predicates[nodes[at].rank]) for at in listed]
        width = max(map(len, texts), default=0)
        for at, text in zip(listed, texts, strict=True):
            node = nodes[at]
            lines.append(f"{names[at]:<4} {text:<{width}}  high {names[node.high]:<4} low {names[node.low]}")
        return "\n".join(lines)
