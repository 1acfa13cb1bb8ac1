"""The delta: a few thousand filters in dictionaries, ready the moment they are added. No arrays, no compiler.

Every filter hangs on one clause of its program (see `compile`): on the values, elements, prefixes, grams or
intervals of which one must be there for the filter to match. `match` looks up what a notification has, and puts
to the test only the filters that it finds.

Everything here only grows: lists are appended to, nothing is taken out, so a reader in another thread may read
while a writer adds. What a reader must not see yet, or not any more, it knows by its number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from math import floor, frexp, inf, isfinite, ldexp, nextafter
from typing import Any, Final

from fairlead.filters.filter import Filter
from fairlead.filters.terms import Attribute
from fairlead.matching.columnar.compile import (
    ALL_KINDS,
    ANY,
    BYTES,
    EQ,
    INEXACT,
    KIND,
    MEMBER,
    NUMBER,
    OPAQUE,
    RANGE,
    STRING,
    SYMBOL,
    TEXTUAL,
    TIME,
    Literal,
    Program,
    Sort,
    exact_float,
    program_of,
    symbol_of,
)
from fairlead.matching.columnar.meaning import Test, is_exact, run, test_of
from fairlead.model import ABSENT, Kind, Multi, Notification, kind_of, number_of
from fairlead.model.values import RANK

__all__ = ["Delta"]

Check = Callable[[dict[str, Any], Notification], bool]
"""Whether a filter that was found matches: the fields of the notification, and the notification."""
_Step = tuple[str | None, Any, Test, bool]
"""A plain name or none, the term (None for opaque tests), the test, and what it should say."""
_GRAM: Final = 3
"""Substrings are found by one of their grams of this many characters."""


class Delta:
    """Filters by number, 0, 1, 2 …, in the order in which they were added."""

    __slots__ = ("_always", "_columns", "_deep", "_plain", "checks", "filters", "paths", "programs")

    def __init__(self) -> None:
        self.filters: list[Filter] = []
        self.programs: list[Program] = []
        self.checks: list[Check] = []
        self.paths: list[str] = []
        self._columns: dict[Any, _Column] = {}
        # The columns that something hangs on; others are only tested.
        self._plain: list[tuple[str, _Column]] = []
        self._deep: list[tuple[Any, _Column]] = []
        self._always: list[int] = []

    def __len__(self) -> int:
        return len(self.filters)

    def add(self, filter: Filter, program: Program | None = None) -> int:
        """Take in a filter; its number."""
        number = len(self.filters)
        program = program or program_of(filter)
        self.programs.append(program)
        best = self._best(program)
        self.checks.append(_check(program, best))
        self.paths.append(self._hang(number, program, best))
        self.filters.append(filter)
        return number

    def candidates(self, notification: Notification) -> list[list[int]]:
        """Lists of the numbers of the filters that a notification gives a chance."""
        found = [self._always] if self._always else []
        fields = notification.attributes._fields
        absent = ABSENT
        for name, column in self._plain:
            value = fields.get(name, absent)
            # The usual values of the usual columns, without a call.
            if type(value) is str and column.bare:
                hit = column.by_string.get(value)
                if hit is not None:
                    found.append(hit)
            elif value is not absent or column.by_kind:
                found.extend(column.hits(value))
        for term, column in self._deep:
            found.extend(column.hits(term.value(notification)))
        return found

    def _column(self, term: Any) -> _Column:
        column = self._columns.get(term)
        if column is None:
            column = self._columns[term] = _Column()
        return column

    # -- access --------------------------------------------------------------------------------------------

    def _best(self, program: Program) -> tuple[int, ...] | None:
        """The clause that a program hangs on, as places of literals."""
        clauses = program.clauses
        if clauses is None:
            clauses = tuple(
                (index,)
                for index, (predicate, negative) in enumerate(program.literals)
                if not negative and predicate.sort in _COST
            )
        best = min(clauses, key=lambda clause: self._cost(program, clause), default=None)
        if best is not None and self._cost(program, best) == inf:
            best = None
        for predicate, _ in program.literals:
            if predicate.sort in _ASKED:
                column = self._column(predicate.term)
                for symbol in _ASKED[predicate.sort](predicate.content):
                    column.ask(symbol)
        return best

    def _hang(self, number: int, program: Program, best: tuple[int, ...] | None) -> str:
        if program.never:
            return "never"
        if best is None:
            self._always.append(number)
            return "always"
        for index in best:
            predicate, _ = program.literals[index]
            term, column = predicate.term, self._column(predicate.term)
            column.add(predicate, number)
            if not column.listed:
                column.listed = True
                plain = _plain_name(term)
                if plain is None:
                    self._deep.append((term, column))
                else:
                    self._plain.append((plain, column))
        return " or ".join(_PATH[program.literals[index][0].sort] for index in best)

    def _cost(self, program: Program, clause: tuple[int, ...]) -> float:
        """The likelihood that a clause is true."""
        return sum(
            _COST[predicate.sort](self._column(predicate.term), predicate.content)
            for predicate, _ in (program.literals[index] for index in clause)
        )


# -- verification ------------------------------------------------------------------------------------------


def _plain_name(term: Any) -> str | None:
    """The name under which a term is found among the fields of a notification, if it is."""
    return term.name if isinstance(term, Attribute) and "." not in term.name else None


def _check(program: Program, hanging: tuple[int, ...] | None) -> Check:
    if program.jumps is not None:
        jumps, asks = program.jumps, [_all([_step(literal)]) for literal in program.literals]
        return lambda fields, notification: run(jumps, lambda index: asks[index](fields, notification))
    # Being found proves what it hangs on, if that is a value.
    proved = hanging[0] if hanging and program.literals[hanging[0]][0].sort in (EQ, MEMBER) else -1
    steps = [_step(literal) for index, literal in enumerate(program.literals) if index != proved]
    return _all(sorted(steps, key=lambda step: (step[0] is None, step[1] is None)))


def _step(literal: Literal) -> _Step:
    predicate, negative = literal
    if predicate.sort == OPAQUE:
        return None, None, test_of(predicate), not negative
    return _plain_name(predicate.term), predicate.term, test_of(predicate), not negative


def _all(steps: list[_Step]) -> Check:
    """Whether all tests say what they should, those on plain names first and opaque ones last."""
    plain = [(name, test, wanted) for name, _, test, wanted in steps if name is not None]
    rest = [(term, test, wanted) for name, term, test, wanted in steps if name is None]
    absent = ABSENT

    def check(fields: dict[str, Any], notification: Notification) -> bool:
        for name, test, wanted in plain:
            if test(fields.get(name, absent)) is not wanted:
                return False
        for term, test, wanted in rest:
            if test(notification if term is None else term.value(notification)) is not wanted:
                return False
        return True

    return check


class _Column:
    """The filters indexed under one column: lists by value, element, text, interval and kind."""

    __slots__ = (
        "_by_element",
        "_by_mask",
        "_by_number",
        "_by_value",
        "_grams",
        "_grids",
        "_highs",
        "_lows",
        "_stems",
        "_symbol_counts",
        "_texts",
        "_total",
        "_wide",
        "bare",
        "by_kind",
        "by_string",
        "listed",
        "ranges",
    )

    def __init__(self) -> None:
        self.listed = False
        self.bare = True
        """Of strings, it is only asked which they are."""
        self.ranges = 0
        self._symbol_counts: dict[Any, int] = {}
        self._total: dict[int, int] = {}
        self.by_string: dict[str, list[int]] = {}
        self._by_number: dict[float, list[int]] = {}
        self._by_value: dict[Any, list[int]] = {}
        self._by_element: dict[Any, list[int]] = {}
        self._by_mask: dict[int, list[int]] = {}
        self.by_kind: list[tuple[int, list[int]]] = []
        self._grids: dict[tuple[int, int], dict[int, list[int]]] = {}
        self._lows: dict[int, list[tuple[Any, int]]] = {}
        self._highs: dict[int, list[tuple[Any, int]]] = {}
        self._stems: dict[tuple[int, int], dict[Any, list[tuple[Any, Any, int]]]] = {}
        self._wide: dict[int, list[int]] = {}
        self._texts: dict[tuple[int, int], dict[Any, list[int]]] = {}
        self._grams: dict[int, dict[Any, list[tuple[Any, int]]]] = {}

    def add(self, predicate: Any, number: int) -> None:
        content = predicate.content
        if predicate.sort not in (EQ, MEMBER, ANY):
            self.bare = False
        match predicate.sort:
            case _ if predicate.sort == KIND:
                self._add_kind(content, number)
            case _ if predicate.sort == EQ:
                self._add_value(content, number)
            case _ if predicate.sort == MEMBER:
                for symbol in content:
                    self._add_value(symbol, number)
            case _ if predicate.sort == RANGE:
                self._add_range(content, number)
            case _ if predicate.sort == ANY:
                for symbol in content:
                    self._by_element.setdefault(symbol, []).append(number)
            case _:
                self._add_symbol(content, number)

    def _add_value(self, symbol: tuple[int, Any], number: int) -> None:
        sort, content = symbol
        by_value: dict[Any, list[int]] = self._by_value
        if sort == STRING:
            by_value = self.by_string
        elif sort == NUMBER:
            by_value = self._by_number
        by_value.setdefault(content if by_value is not self._by_value else symbol, []).append(number)

    def _add_kind(self, mask: int, number: int) -> None:
        if mask in self._by_mask:
            self._by_mask[mask].append(number)
        else:
            self._by_mask[mask] = [number]
            self.by_kind.append((mask, self._by_mask[mask]))

    def _add_symbol(self, symbol: tuple[int, Any], number: int) -> None:
        sort, content = symbol
        if Sort.ELEMENT <= sort < Sort.BINARY:
            self._by_element.setdefault((sort, content), []).append(number)
            # An interval, too, contains numbers.
            if sort in (Sort.ELEMENT + NUMBER, Sort.ELEMENT + INEXACT):
                self._add_kind(1 << RANK[Kind.INTERVAL], number)
            return
        if sort % Sort.BINARY == Sort.SUBSTRING:
            grams = self._grams.setdefault(sort, {})
            short = len(content) < _GRAM
            gram = content if short else min(_grams(content), key=lambda each: len(grams.get(each, ())))
            grams.setdefault(gram, []).append((content, number))
            return
        by_text = self._texts.setdefault((sort, len(content)), {})
        by_text.setdefault(content, []).append(number)

    def _add_range(self, content: tuple[int, Any, Any], number: int) -> None:
        rank, low, high = content
        self.ranges += 1
        if low is None or low == -inf:
            insort(self._highs.setdefault(rank, []), (high, number))
        elif high is None or high == inf:
            insort(self._lows.setdefault(rank, []), (low, number))
        elif rank in TEXTUAL:
            # What lies between two strings begins as both of them do, and goes on between where they part.
            stem = _stem(low, high)
            by_stem = self._stems.setdefault((rank, len(stem)), {})
            parting = low[len(stem) : len(stem) + 1], high[len(stem) : len(stem) + 1]
            by_stem.setdefault(stem, []).append((*parting, number))
        elif not isfinite(high - low):
            self._wide.setdefault(rank, []).append(number)
        else:
            # Cells at least as wide as the interval, so it touches at most two; finer than the floats around
            # it are apart makes no sense.
            level = max(frexp(abs(high - low))[1], frexp(max(abs(low), abs(high)))[1] - 50, -1000)
            cells = self._grids.setdefault((rank, level), {})
            for cell in {floor(ldexp(low, -level)), floor(ldexp(high, -level))}:
                cells.setdefault(cell, []).append(number)

    # -- what a value hits ---------------------------------------------------------------------------------

    def hits(self, value: Any) -> Iterator[list[int]]:
        kind = kind_of(value)
        rank = RANK[kind]
        for mask, numbers in self.by_kind:
            if mask >> rank & 1:
                yield numbers
        if value is ABSENT:
            return
        found = self._named(rank, value)
        if found is not None:
            yield found
        if rank in (NUMBER, TIME):
            if self.ranges:
                yield from self._range_hits(rank, value)
        elif rank in TEXTUAL:
            if self.ranges:
                yield from self._between_hits(rank, value)
            if self._texts or self._grams:
                yield from self._text_hits(value, Sort.BINARY if rank == BYTES else 0)
        elif kind is Kind.SET and self._by_element:
            yield from self._element_hits(value)

    def _named(self, rank: int, value: Any) -> list[int] | None:
        """The filters indexed under a value itself."""
        if rank == STRING:
            return self.by_string.get(value)
        if rank == NUMBER and is_exact(value):
            return self._by_number.get(value)
        symbol = symbol_of(value) if self._by_value or self._by_number else None
        if symbol is None:
            return None
        return self._by_number.get(symbol[1]) if symbol[0] == NUMBER else self._by_value.get(symbol)

    def _element_hits(self, value: Multi) -> Iterator[list[int]]:
        for element in value.elements:
            symbol = (STRING, element) if type(element) is str else symbol_of(element)
            if symbol is not None:
                found = self._by_element.get((Sort.ELEMENT + symbol[0], symbol[1]))
                if found is not None:
                    yield found

    def _range_hits(self, rank: int, value: Any) -> Iterator[list[int]]:
        least, most = _around(rank, value)
        for (grid_rank, level), cells in list(self._grids.items()):
            if grid_rank == rank and isfinite(least) and isfinite(most):
                for cell in {floor(ldexp(least, -level)), floor(ldexp(most, -level))}:
                    found = cells.get(cell)
                    if found is not None:
                        yield found
        if rank in self._wide:
            yield self._wide[rank]
        yield from self._bound_hits(rank, least, most)

    def _between_hits(self, rank: int, value: Any) -> Iterator[list[int]]:
        for (stem_rank, length), by_stem in list(self._stems.items()):
            if stem_rank == rank:
                found = by_stem.get(value[:length])
                if found is not None:
                    next_one = value[length : length + 1]
                    yield [number for low, high, number in found if low <= next_one <= high]
        yield from self._bound_hits(rank, value, value)

    def _bound_hits(self, rank: int, least: Any, most: Any) -> Iterator[list[int]]:
        """Those with one bound. A run is cut out again if, meanwhile, a writer has put in another bound."""
        for bounds, upward in ((self._lows.get(rank), True), (self._highs.get(rank), False)):
            if bounds:
                size, run = -1, bounds
                while size != len(bounds):
                    size = len(bounds)
                    run = (
                        bounds[: bisect_right(bounds, (most, 1 << 62))]
                        if upward
                        else bounds[bisect_left(bounds, (least, -1)) :]
                    )
                yield [number for _, number in run]

    def _text_hits(self, text: Any, binary: int) -> Iterator[list[int]]:
        size = len(text)
        for (sort, length), by_text in list(self._texts.items()):
            if sort & Sort.BINARY == binary and length <= size:
                part = text[:length] if sort % Sort.BINARY == Sort.PREFIX else text[size - length :]
                found = by_text.get(part)
                if found is not None:
                    yield found
        grams = self._grams.get(Sort.SUBSTRING + binary)
        if grams:
            for short in range(1, _GRAM + 1):
                for gram in {text[at : at + short] for at in range(size - short + 1)}:
                    found_pairs = grams.get(gram)
                    if found_pairs is not None:
                        yield [number for part, number in found_pairs if part in text]

    # -- how often something is there ----------------------------------------------------------------------

    def ask(self, symbol: tuple[int, Any]) -> None:
        """Note that a filter asks for a symbol."""
        self._symbol_counts[symbol] = self._symbol_counts.get(symbol, 0) + 1
        self._total[symbol[0]] = self._total.get(symbol[0], 0) + 1

    def share(self, symbol: tuple[int, Any]) -> float:
        """Filters ask for what notifications have: a symbol's share among those of its sort.

        A few that nobody has asked for yet are reckoned with as well.
        """
        return (self._symbol_counts.get(symbol, 0) + 0.5) / (self._total.get(symbol[0], 0) + 5.0)


def _grams(text: Any) -> list[Any]:
    return [text[at : at + _GRAM] for at in range(len(text) - _GRAM + 1)]


def _stem(one: Any, other: Any) -> Any:
    """The common beginning of two strings."""
    for length, (letter, other_letter) in enumerate(zip(one, other, strict=False)):
        if letter != other_letter:
            return one[:length]
    return min(one, other, key=len)


def _around(rank: int, value: Any) -> tuple[float, float]:
    """The float of a number, twice; or, where none stands for it, floats on both sides of it."""
    if type(value) is float:
        return value, value
    number = number_of(value) if rank == NUMBER else value.microseconds
    exact = exact_float(number)
    if exact is not None:
        return exact, exact
    try:
        near = float(number)
    except OverflowError:
        return (1.7976931348623157e308, inf) if number > 0 else (-inf, -1.7976931348623157e308)
    return nextafter(near, -inf), nextafter(near, inf)


def _shares(column: _Column, symbols: Iterable[Any]) -> float:
    return sum(map(column.share, symbols))


_TEXT_COST, _ELEMENT_COST = 0.05, 0.02
"""To look up all that a text begins with or contains, or all elements, costs more than to look up a value."""


_UNLISTED: Final = (*Sort.PATTERNS, Sort.PATH)
"""Symbols that lead to nothing here: they are only tested."""


def _symbol_cost(column: _Column, symbol: Any) -> float:
    if symbol[0] in _UNLISTED:
        return inf
    element = Sort.ELEMENT <= symbol[0] < Sort.BINARY
    return column.share(symbol) + (_ELEMENT_COST if element else _TEXT_COST)


def _range_cost(column: _Column, content: tuple[int, Any, Any]) -> float:
    rank, low, high = content
    bounded = None not in (low, high) if rank in TEXTUAL else isfinite(low) and isfinite(high)
    return 0.2 if bounded else 0.6


_COST: Final[dict[int, Callable[[_Column, Any], float]]] = {
    EQ: lambda column, symbol: column.share(symbol),
    MEMBER: _shares,
    SYMBOL: _symbol_cost,
    ANY: _shares,
    RANGE: _range_cost,
    KIND: lambda column, mask: 1e6 if mask != ALL_KINDS else 1e7,
}
_ASKED: Final[dict[int, Callable[[Any], Iterable[Any]]]] = {
    EQ: lambda symbol: (symbol,),
    SYMBOL: lambda symbol: (symbol,),
    MEMBER: lambda symbols: symbols,
    ANY: lambda symbols: symbols,
}
"""The symbols that a predicate asks for."""
_PATH: Final = {
    EQ: "value",
    MEMBER: "value",
    SYMBOL: "symbol",
    ANY: "symbol",
    RANGE: "range",
    KIND: "kind",
}
