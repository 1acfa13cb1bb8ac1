"""Deterministic automata: the sets of words whose relations can all be decided.

Laws:

- an automaton is always minimal and numbered breadth first, so two automata are equal (`==`, `hash`) iff they
  accept the same words;
- `a.covers(b)` iff every word in `b` is in `a`; `a & b`, `a | b` and `~a` are the Boolean operations on sets
  of words; `a.witness()` is a shortest member, or None iff there is no member.

The letters are the symbols 0 … size-1. A state's row lists where runs of symbols begin and where they lead,
so the alphabet of Unicode costs no more than that of bytes: what counts is the number of runs.

Nothing here recurses on its input. Work beyond `STATES_MAX` states ends in `Undecided`, not in a guess.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from fairlead.errors import Undecided, ValueRefused
from fairlead.filters.alphabets import Alphabet

__all__ = [
    "STATES_MAX",
    "Automaton",
    "NondeterministicAutomaton",
    "above",
    "at_least",
    "at_most",
    "below",
    "between",
    "everything",
    "exactly",
    "interval",
    "nothing",
    "prefix",
    "substring",
    "suffix",
    "words",
]

W = TypeVar("W", str, bytes)

Row = tuple[tuple[int, ...], tuple[int, ...]]
"""The beginnings of the runs of symbols (the first at 0), and the state to which each leads."""

STATES_MAX = 20_000
"""The most states that an automaton, or an intermediate step on the way to one, may have."""

_PAIRS_MAX = 10 * STATES_MAX
"""The most pairs of states that a walk through two automata may visit; it stores nothing else."""

_STEPS_MAX = 2_000_000
"""The most steps for making an automaton deterministic: bounds the time where few states are large sets."""


# ------------------------------------------------------------------------------------------------- automata


@dataclass(frozen=True, slots=True)
class Automaton(Generic[W]):
    """A minimal complete deterministic automaton; state 0 is the initial one.

    Made by the functions of this module only: they keep the form canonical.
    """

    alphabet: Alphabet[W]
    rows: tuple[Row, ...]
    accepting: frozenset[int]

    def __contains__(self, word: W) -> bool:
        rows, state = self.rows, 0
        try:
            symbols = self.alphabet.encode(word)
        except ValueRefused:
            return False
        for symbol in symbols:
            starts, targets = rows[state]
            state = targets[bisect_right(starts, symbol) - 1]
        return state in self.accepting

    def __invert__(self) -> Automaton[W]:
        # Neither minimality nor the numbering looks at which of the two classes is the accepting one.
        rejecting = frozenset(range(len(self.rows))) - self.accepting
        return Automaton(self.alphabet, self.rows, rejecting)

    def __and__(self, other: Automaton[W]) -> Automaton[W]:
        """The product, in which every pair that can no longer accept is one state."""
        dead, other_dead = self.sink(accepting=False), other.sink(accepting=False)
        # One half may be -1, for "has no such state": the other half alone then keeps the pair where it is.
        nowhere = (dead, other_dead)
        numbers: dict[tuple[int, int], int] = {(0, 0): 0}
        pairs = [(0, 0)]
        rows: list[Row] = []
        for left, right in pairs:  # grows while we walk
            starts, targets = [], []
            for start, p, q in _side_by_side(self.rows[left], other.rows[right]):
                pair = nowhere if p == dead or q == other_dead else (p, q)
                number = numbers.get(pair)
                if number is None:
                    number = numbers[pair] = len(pairs)
                    pairs.append(pair)
                    _within(len(pairs), STATES_MAX)
                starts.append(start)
                targets.append(number)
            rows.append((tuple(starts), tuple(targets)))
        accepting = {n for n, (p, q) in enumerate(pairs) if p in self.accepting and q in other.accepting}
        return _canonical(self.alphabet, rows, accepting)

    def __or__(self, other: Automaton[W]) -> Automaton[W]:
        return ~(~self & ~other)

    def covers(self, other: Automaton[W]) -> bool:
        """Every word in `other` is in `self`: no pair is reached where only `other` accepts."""
        full, dead = self.sink(accepting=True), other.sink(accepting=False)
        seen = {(0, 0)}
        waiting = [(0, 0)]
        while waiting:
            mine, theirs = waiting.pop()
            if theirs in other.accepting and mine not in self.accepting:
                return False
            for _, p, q in _side_by_side(self.rows[mine], other.rows[theirs]):
                if p != full and q != dead and (p, q) not in seen:
                    seen.add((p, q))
                    waiting.append((p, q))
            _within(len(seen), _PAIRS_MAX)
        return True

    def is_empty(self) -> bool:
        return not self.accepting

    def is_full(self) -> bool:
        return len(self.accepting) == len(self.rows)

    def sink(self, *, accepting: bool) -> int:
        """The state from which every word is accepted (or none is), or -1; minimality leaves at most one."""
        for state, (_, targets) in enumerate(self.rows):
            if targets == (state,) and (state in self.accepting) == accepting:
                return state
        return -1

    def runs(self, state: int) -> Iterator[tuple[int, int, int]]:
        """The transitions of a state: first symbol, last symbol, target."""
        starts, targets = self.rows[state]
        lasts = [start - 1 for start in starts[1:]] + [self.alphabet.size - 1]
        return zip(starts, lasts, targets, strict=True)

    def witness(self) -> W | None:
        """A shortest member, of the most readable letters; None iff there is no member."""
        distance = self._distances()
        if 0 not in distance:
            return None
        state, symbols = 0, []
        while distance[state]:
            closer = distance[state] - 1
            (_, symbol), state = min(
                (self.alphabet.most_readable(first, last), target)
                for first, last, target in self.runs(state)
                if distance.get(target) == closer
            )
            symbols.append(symbol)
        return self.alphabet.decode(symbols)

    def _distances(self) -> dict[int, int]:
        """The number of letters that each state needs at least to accept."""
        sources = _sources(self.rows)
        distance = dict.fromkeys(self.accepting, 0)
        waiting = list(self.accepting)
        for state in waiting:  # grows while we walk
            for source in sources[state]:
                if source not in distance:
                    distance[source] = distance[state] + 1
                    waiting.append(source)
        return distance

    def measure(self, cap: int) -> tuple[int, int] | None:
        """The number of members and of all their letters, each at most `cap`; None for infinitely many."""
        order = self._topological()
        if order is None:
            return None
        dead = self.sink(accepting=False)
        members: dict[int, int] = {dead: 0}
        letters: dict[int, int] = {dead: 0}
        for state in reversed(order):
            here, below_here = int(state in self.accepting), 0
            for first, last, target in self.runs(state):
                width = last - first + 1
                here += width * members[target]
                below_here += width * (letters[target] + members[target])
            # Capped at each state: without it the numbers themselves could have thousands of digits.
            members[state], letters[state] = min(here, cap), min(below_here, cap)
        return members[0], letters[0]

    def is_finite(self) -> bool:
        return self._topological() is not None

    def _topological(self) -> list[int] | None:
        """The states that can accept, each before its successors; None where they form a cycle."""
        dead = self.sink(accepting=False)
        if dead == 0:
            return []
        indegree = [0] * len(self.rows)
        for state, (_, targets) in enumerate(self.rows):
            if state != dead:
                for target in set(targets):
                    indegree[target] += 1
        if indegree[0]:
            return None
        order = [0]
        for state in order:  # grows while we walk
            for target in set(self.rows[state][1]):
                indegree[target] -= 1
                if not indegree[target] and target != dead:
                    order.append(target)
        return order if len(order) == len(self.rows) - (dead >= 0) else None

    def members(self) -> Iterator[W]:
        """The members of a finite language in their order (of an infinite one, an endless part of them)."""
        dead = self.sink(accepting=False)
        if 0 in self.accepting:
            yield self.alphabet.empty
        symbols: list[int] = []
        path = [self._steps(0, dead)]
        while path:
            step = next(path[-1], None)
            if step is None:
                path.pop()
                del symbols[-1:]
                continue
            symbol, target = step
            symbols.append(symbol)
            if target in self.accepting:
                yield self.alphabet.decode(symbols)
            path.append(self._steps(target, dead))

    def _steps(self, state: int, dead: int) -> Iterator[tuple[int, int]]:
        for first, last, target in self.runs(state):
            if target != dead:
                for symbol in range(first, last + 1):
                    yield symbol, target

    def interval(self) -> tuple[W, W | None] | None:
        """(low, high) iff the members are the words with low <= word < high (None: no upper end)."""
        low = self._least(0, member=True)
        if low is None:
            return None
        high = self._least_missing_above(low)
        if high is None:
            return None
        ends = self.alphabet.decode(low), (self.alphabet.decode(high[0]) if high else None)
        # Guess and verify: only an interval can equal the interval between its own ends.
        return ends if self == interval(self.alphabet, *ends) else None

    def _least(self, state: int, *, member: bool) -> list[int] | None:
        """The symbols of the least word that leads from a state to acceptance (or to rejection), if any."""
        hopeless = self.sink(accepting=not member)
        if state == hopeless:
            return None
        symbols: list[int] = []
        while (state in self.accepting) != member:
            if len(symbols) > len(self.rows):
                return None  # ever smaller words, as among those that end in "b": a, aa, aaa, … before it
            symbol, state = next((f, t) for f, _, t in self.runs(state) if t != hopeless)
            symbols.append(symbol)
        return symbols

    def _least_missing_above(self, low: list[int]) -> list[list[int]] | None:
        """The least word above `low` that is no member, as [word]; [] for none; None for no least one."""
        full = self.sink(accepting=True)
        rest: list[int] | None
        states = [0]
        for symbol in low:
            starts, targets = self.rows[states[-1]]
            states.append(targets[bisect_right(starts, symbol) - 1])
        # In the order of words: first what extends `low`, then what differs from it, as late as possible.
        if states[-1] != full:
            rest = self._least(states[-1], member=False)
            return None if rest is None else [low + rest]
        for length in range(len(low) - 1, -1, -1):
            for first, last, target in self.runs(states[length]):
                if last > low[length] and target != full:
                    rest = self._least(target, member=False)
                    step = [max(first, low[length] + 1)]
                    return None if rest is None else [low[:length] + step + rest]
        return []

    def completed_by(self, letter: W) -> Automaton[W]:
        """The words that the letter completes to a member: `w` for which `w + letter` is one."""
        (symbol,) = self.alphabet.encode(letter)
        accepting = {
            state
            for state, (starts, targets) in enumerate(self.rows)
            if targets[bisect_right(starts, symbol) - 1] in self.accepting
        }
        return _canonical(self.alphabet, self.rows, accepting)

    def __str__(self) -> str:
        """One line per state: `0  'a'…'z' -> 1, other -> 2`; an accepting state has a star."""
        lines = []
        for state in range(len(self.rows)):
            edges = ", ".join(
                f"{self.alphabet.decode([first])!r}…{self.alphabet.decode([last])!r} -> {target}"
                for first, last, target in self.runs(state)
            )
            lines.append(f"{state}{'*' if state in self.accepting else ' '} {edges}")
        return "\n".join(lines)


def _within(reached: int, allowed: int) -> None:
    if reached > allowed:
        raise Undecided(
            f"the automaton grows beyond {allowed} states",
            hint="shorter words or simpler patterns make the relation decidable",
        )


def _side_by_side(left: Row, right: Row) -> Iterator[tuple[int, int, int]]:
    """The common runs of two rows: where each begins, and where it leads on either side."""
    (starts, targets), (other_starts, other_targets) = left, right
    i = j = start = 0
    while True:
        yield start, targets[i], other_targets[j]
        following = starts[i + 1] if i + 1 < len(starts) else None
        other_following = other_starts[j + 1] if j + 1 < len(other_starts) else None
        if following is None and other_following is None:
            return
        if other_following is None or (following is not None and following <= other_following):
            assert following is not None
            start = following
            i += 1
            j += following == other_following
        else:
            start = other_following
            j += 1


def _sources(rows: Sequence[Row]) -> list[set[int]]:
    sources: list[set[int]] = [set() for _ in rows]
    for state, (_, targets) in enumerate(rows):
        for target in targets:
            sources[target].add(state)
    return sources


# --------------------------------------------------------------------------------------- the canonical form


def _canonical(alphabet: Alphabet[W], rows: Sequence[Row], accepting: Collection[int]) -> Automaton[W]:
    """The minimal automaton, numbered breadth first, of any complete one whose initial state is 0."""
    return _numbered(alphabet, rows, accepting, 0, _equivalence(rows, set(accepting)))


def _equivalence(rows: Sequence[Row], accepting: set[int]) -> list[int]:
    """The block of each state; two states share one iff the same words lead from both to acceptance.

    Partition refinement by signatures. All states of a block that are not `touched` have the same signature
    (their runs, with the blocks these lead to). A state is touched when a successor changes its block. The
    largest part of a split block keeps the block's number, so that a state changes its block at most log n
    times (Hopcroft's smaller half): the chains of states that long words make stay cheap. Runs are compared
    as they are; no common refinement of all rows is ever made.
    """
    block = [int(state in accepting) for state in range(len(rows))]
    members: list[list[int]] = [[], []]
    position = [0] * len(rows)
    for state, number in enumerate(block):
        position[state] = len(members[number])
        members[number].append(state)
    sources = _sources(rows)

    def signature(state: int) -> tuple[int, ...]:
        starts, targets = rows[state]
        runs: list[int] = []
        last = -1
        for start, target in zip(starts, targets, strict=True):
            if block[target] != last:
                last = block[target]
                runs += (start, last)
        return tuple(runs)

    touched = {number: set(states) for number, states in enumerate(members) if states}
    while touched:
        number, changed = touched.popitem()
        parts: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for state in changed:
            parts[signature(state)].append(state)
        sizes = {key: len(part) for key, part in parts.items()}
        unchanged = len(members[number]) - len(changed)
        unchanged_key = None
        if unchanged:
            unchanged_key = signature(next(state for state in members[number] if state not in changed))
            sizes[unchanged_key] = sizes.get(unchanged_key, 0) + unchanged
        staying = max(sizes, key=sizes.__getitem__)
        if unchanged_key is not None and unchanged_key != staying:
            parts[unchanged_key].extend([state for state in members[number] if state not in changed])
        moved: list[int] = []
        for key, part in parts.items():
            if key == staying:
                continue
            for state in part:
                _remove(members[number], position, state)
            for place, state in enumerate(part):
                position[state] = place
                block[state] = len(members)
            members.append(part)
            moved += part
        for state in moved:
            for source in sources[state]:
                touched.setdefault(block[source], set()).add(source)
    return block


def _remove(states: list[int], position: list[int], state: int) -> None:
    """Take a state out of a list in constant time: the last one takes its place."""
    last = states.pop()
    if last != state:
        states[position[state]] = last
        position[last] = position[state]


def _numbered(
    alphabet: Alphabet[W], rows: Sequence[Row], accepting: Collection[int], initial: int, block: Sequence[int]
) -> Automaton[W]:
    """The automaton of the blocks that can be reached, numbered breadth first in the order of the symbols."""
    numbers = {block[initial]: 0}
    reached = [initial]
    canonical: list[Row] = []
    for state in reached:  # grows while we walk
        starts: list[int] = []
        targets: list[int] = []
        for start, target in zip(*rows[state], strict=True):
            number = numbers.get(block[target])
            if number is None:
                number = numbers[block[target]] = len(reached)
                reached.append(target)
            if not targets or targets[-1] != number:
                starts.append(start)
                targets.append(number)
        canonical.append((tuple(starts), tuple(targets)))
    _within(len(canonical), STATES_MAX)
    accepted = frozenset(number for number, state in enumerate(reached) if state in accepting)
    return Automaton(alphabet, tuple(canonical), accepted)


def _row(edges: Iterable[tuple[int, int, int]], otherwise: int, size: int) -> Row:
    """The row with these transitions (first, last, target), sorted and disjoint, and one default."""
    starts, targets = [], []
    following = 0
    for first, last, target in edges:
        if following < first:
            starts.append(following)
            targets.append(otherwise)
        starts.append(first)
        targets.append(target)
        following = last + 1
    if following < size:
        starts.append(following)
        targets.append(otherwise)
    return tuple(starts), tuple(targets)


# --------------------------------------------------------------------------------------------- constructors


def nothing(alphabet: Alphabet[W]) -> Automaton[W]:
    """No word."""
    return Automaton(alphabet, (((0,), (0,)),), frozenset())


def everything(alphabet: Alphabet[W]) -> Automaton[W]:
    """All words."""
    return ~nothing(alphabet)


def exactly(alphabet: Alphabet[W], word: W) -> Automaton[W]:
    """The one word."""
    return words(alphabet, (word,))


def words(alphabet: Alphabet[W], members: Iterable[W]) -> Automaton[W]:
    """These words. Taken in their order, no trie is built: all but the last word's path is minimal already.

    The construction is that of Daciuk, Mihov, Watson and Watson (2000).
    """
    register: dict[tuple[bool, tuple[tuple[int, int], ...]], int] = {(False, ()): 0}
    # The path of the last word, not yet numbered: whether each state accepts, and its numbered successors.
    accepts: list[bool] = [False]
    successors: list[list[tuple[int, int]]] = [[]]
    letters: list[int] = []

    def shorten(length: int) -> int:
        """Give the states of the path beyond `length` their numbers; the number of the last one given."""
        number = 0
        while len(accepts) > length:
            number = register.setdefault((accepts.pop(), tuple(successors.pop())), len(register))
            if successors:
                successors[-1].append((letters.pop(), number))
        _within(len(register), STATES_MAX)
        return number

    for word in sorted(set(members)):
        symbols = list(alphabet.encode(word))
        shared = next((n for n, (a, b) in enumerate(zip(letters, symbols, strict=False)) if a != b), None)
        if shared is None:
            shared = min(len(letters), len(symbols))
        shorten(shared + 1)
        for symbol in symbols[shared:]:
            letters.append(symbol)
            accepts.append(False)
            successors.append([])
        _within(len(accepts), STATES_MAX)
        accepts[-1] = True
    initial = shorten(0)
    rows = [_row(((s, s, target) for s, target in edges), 0, alphabet.size) for _, edges in register]
    accepting = {number for (accepting, _), number in register.items() if accepting}
    return _numbered(alphabet, rows, accepting, initial, range(len(rows)))


def prefix(alphabet: Alphabet[W], word: W) -> Automaton[W]:
    """The words that start with `word`."""
    symbols = list(alphabet.encode(word))
    dead, full = len(symbols) + 1, len(symbols)
    _within(dead, STATES_MAX)
    rows = [_row([(symbol, symbol, n + 1)], dead, alphabet.size) for n, symbol in enumerate(symbols)]
    rows += [((0,), (full,)), ((0,), (dead,))]
    return _canonical(alphabet, rows, {full})


def suffix(alphabet: Alphabet[W], word: W) -> Automaton[W]:
    """The words that end with `word`."""
    rows = _searching(alphabet, word)
    return _canonical(alphabet, rows, {len(rows) - 1})


def substring(alphabet: Alphabet[W], word: W) -> Automaton[W]:
    """The words in which `word` occurs."""
    rows = _searching(alphabet, word)
    found = len(rows) - 1
    rows[found] = ((0,), (found,))
    return _canonical(alphabet, rows, {found})


def _searching(alphabet: Alphabet[W], word: W) -> list[Row]:
    """State n has read the first n letters of the word, and no longer beginning of it (Knuth, Morris, Pratt).

    Only transitions to states other than 0 are kept; there are at most twice as many as letters.
    """
    symbols = list(alphabet.encode(word))
    _within(len(symbols), STATES_MAX)
    edges: list[dict[int, int]] = []
    fallback = 0
    for n, symbol in enumerate(symbols):
        failing = edges[fallback] if n else {}
        edges.append({**failing, symbol: n + 1})
        fallback = failing.get(symbol, 0)
    edges.append(edges[fallback] if symbols else {})
    return [_row(((s, s, t) for s, t in sorted(state.items())), 0, alphabet.size) for state in edges]


def at_least(alphabet: Alphabet[W], word: W) -> Automaton[W]:
    """The words >= `word`: a letter below its own ends all hope, one above it all doubt."""
    symbols = list(alphabet.encode(word))
    full, dead = len(symbols), len(symbols) + 1
    _within(dead, STATES_MAX)
    rows: list[Row] = []
    for n, symbol in enumerate(symbols):
        edges = [(0, symbol - 1, dead), (symbol, symbol, n + 1)]
        rows.append(_row(edges if symbol else edges[1:], full, alphabet.size))
    rows += [((0,), (full,)), ((0,), (dead,))]
    return _canonical(alphabet, rows, {full})


def above(alphabet: Alphabet[W], word: W) -> Automaton[W]:
    """The words > `word`: those from its successor on."""
    return at_least(alphabet, word + alphabet.least)


def below(alphabet: Alphabet[W], word: W) -> Automaton[W]:
    """The words < `word`."""
    return ~at_least(alphabet, word)


def at_most(alphabet: Alphabet[W], word: W) -> Automaton[W]:
    """The words <= `word`."""
    return ~above(alphabet, word)


def between(alphabet: Alphabet[W], low: W, high: W) -> Automaton[W]:
    """The words from `low` to `high`, both included."""
    return interval(alphabet, low, high + alphabet.least)


def interval(alphabet: Alphabet[W], low: W, high: W | None) -> Automaton[W]:
    """The words with low <= word < high."""
    lower = at_least(alphabet, low)
    return lower if high is None else lower & below(alphabet, high)


# ----------------------------------------------------------------------------------------- nondeterminism


@dataclass(slots=True)
class NondeterministicAutomaton(Generic[W]):
    """States with any number of transitions and silent moves, under construction."""

    alphabet: Alphabet[W]
    edges: list[list[tuple[int, int, int]]] = field(default_factory=list)
    silent: list[list[int]] = field(default_factory=list)

    def state(self) -> int:
        """One more state."""
        self.edges.append([])
        self.silent.append([])
        return len(self.edges) - 1

    def deterministic(self, initial: int, final: int) -> Automaton[W]:
        """The minimal automaton that accepts the words with some path through this one to `final`."""
        steps = 0
        first = self._closure({initial: None}, final)
        numbers = {first: 0}
        sets = [first]
        rows: list[Row] = []
        for states in sets:  # grows while we walk
            starts: list[int] = []
            targets: list[int] = []
            for start, reached in self._sweep(states):
                closed = self._closure(reached, final)
                number = numbers.get(closed)
                if number is None:
                    number = numbers[closed] = len(sets)
                    sets.append(closed)
                    _within(len(sets), STATES_MAX)
                starts.append(start)
                targets.append(number)
                steps += len(closed) + len(reached) + 1
            if steps > _STEPS_MAX:
                raise Undecided(f"making the automaton deterministic takes more than {_STEPS_MAX} steps")
            rows.append((tuple(starts), tuple(targets)))
        accepting = {number for number, states in enumerate(sets) if final in states}
        return _canonical(self.alphabet, rows, accepting)

    def _closure(self, states: Iterable[int], final: int) -> frozenset[int]:
        """The states that silent moves reach; only those that read a letter or accept tell sets apart."""
        seen = set(states)
        waiting = list(seen)
        while waiting:
            for target in self.silent[waiting.pop()]:
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return frozenset(state for state in seen if self.edges[state] or state == final)

    def _sweep(self, states: Iterable[int]) -> Iterator[tuple[int, dict[int, int]]]:
        """Over the symbols from 0 on: where the set of states reached changes, and the set there."""
        entering: dict[int, list[int]] = defaultdict(list)
        leaving: dict[int, list[int]] = defaultdict(list)
        for state in states:
            for first, last, target in self.edges[state]:
                entering[first].append(target)
                leaving[last + 1].append(target)
        active: dict[int, int] = {}
        for symbol in sorted({0, *entering, *leaving}):
            if symbol >= self.alphabet.size:
                return
            for target in entering.get(symbol, ()):
                active[target] = active.get(target, 0) + 1
            for target in leaving.get(symbol, ()):
                active[target] -= 1
                if not active[target]:
                    del active[target]
            yield symbol, active
