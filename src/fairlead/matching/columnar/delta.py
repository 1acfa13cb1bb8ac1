"""The delta: a few thousand filters in dictionaries, ready the moment they are added. No arrays, no compiler.

Every filter hangs on one clause of its program (see `compile`): on the values, elements, prefixes, grams or
intervals of which one must be there for the filter to match. `match` looks up what a notification has, and puts
to the test only the filters that it finds.

Everything here only grows: lists are appended to, nothing is taken out, so a reader in another thread may read
while a writer adds. What a reader must not see yet, or not any more, it knows by its number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
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
    TIME,
    Literal,
    Program,
    Sort,
    exact_float,
    program_of,
    symbol_of,
)
from fairlead.matching.columnar.meaning import run, test_of
from fairlead.model import ABSENT, Kind, Multi, Notification, kind_of, number_of
from fairlead.model.values import RANK

__all__ = ["Delta"]

Check = Callable[[list[Any], Notification], bool]
_GRAM: Final = 3
"""Substrings are found by one of their grams of this many characters."""


class Delta:
    """Filters by number, 0, 1, 2 …, in the order in which they were added."""

    __slots__ = ("_always", "_columns", "_listed", "_names", "checks", "filters", "paths", "programs")

    def __init__(self) -> None:
        self.filters: list[Filter] = []
        self.programs: list[Program] = []
        self.checks: list[Check] = []
        self.paths: list[str] = []
        self._columns: dict[Any, _Column] = {}
        self._listed: list[_Column] = []
        self._names: list[tuple[str | None, Any]] = []
        self._always: list[int] = []

    def __len__(self) -> int:
        return len(self.filters)

    def add(self, filter: Filter, program: Program | None = None) -> int:
        """Take in a filter; its number."""
        number = len(self.filters)
        program = program or program_of(filter)
        self.programs.append(program)
        self.checks.append(self._check(program))
        self.paths.append(self._hang(number, program))
        self.filters.append(filter)
        return number

    def candidates(self, values: list[Any]) -> Iterator[list[int]]:
        """Lists of the numbers of the filters that values, one for each column, give a chance."""
        yield self._always
        for column, value in zip(self._listed, values, strict=False):
            yield from column.hits(value)

    def values(self, notification: Notification) -> list[Any]:
        """The values of the columns in a notification."""
        fields = notification.attributes._fields
        absent = ABSENT
        return [
            fields.get(name, absent) if name is not None else term.value(notification)
            for name, term in self._names
        ]

    def _column(self, term: Any) -> _Column:
        column = self._columns.get(term)
        if column is None:
            column = _Column(len(self._names))
            plain = isinstance(term, Attribute) and "." not in term.name
            self._names.append((term.name if plain else None, term))
            self._columns[term] = column
            self._listed.append(column)
        return column

    # -- access --------------------------------------------------------------------------------------------

    def _hang(self, number: int, program: Program) -> str:
        if program.never:
            return "never"
        clauses = program.clauses
        if clauses is None:
            clauses = tuple(
                (place,)
                for place, (predicate, negative) in enumerate(program.literals)
                if not negative and predicate.sort in _COST
            )
        best = min(clauses, key=lambda clause: self._cost(program, clause), default=None)
        if best is None:
            self._always.append(number)
            return "always"
        for place in best:
            predicate, _ = program.literals[place]
            self._column(predicate.term).add(predicate, number)
        return " or ".join(_PATH[program.literals[place][0].sort] for place in best)

    def _cost(self, program: Program, clause: tuple[int, ...]) -> float:
        """How many candidates a clause is likely to bring: what hangs there already is what is popular."""
        return sum(
            _COST[predicate.sort](self._columns.get(predicate.term), predicate.content)
            for predicate, _ in (program.literals[place] for place in clause)
        )

    # -- verification --------------------------------------------------------------------------------------

    def _check(self, program: Program) -> Check:
        if program.never:
            return lambda values, notification: False
        tests = [self._test(literal) for literal in program.literals]
        if program.jumps is None:
            if len(tests) == 1:
                return tests[0]
            return lambda values, notification: all(test(values, notification) for test in tests)
        jumps = program.jumps
        return lambda values, notification: run(jumps, lambda place: tests[place](values, notification))

    def _test(self, literal: Literal) -> Check:
        predicate, negative = literal
        test = test_of(predicate)
        if predicate.sort == OPAQUE:
            return lambda values, notification: test(notification) is not negative
        at = self._column(predicate.term).number
        if negative:
            return lambda values, notification: not test(values[at])
        return lambda values, notification: test(values[at])


class _Column:
    """What hangs on one column: lists of filters by value, element, text, interval and kind."""

    __slots__ = (
        "_by_element",
        "_by_kind",
        "_by_mask",
        "_by_value",
        "_grams",
        "_grids",
        "_highs",
        "_lows",
        "_texts",
        "_wide",
        "number",
        "ranges",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.ranges = 0
        self._by_value: dict[Any, list[int]] = {}
        self._by_element: dict[Any, list[int]] = {}
        self._by_mask: dict[int, list[int]] = {}
        self._by_kind: list[tuple[int, list[int]]] = []
        self._grids: dict[tuple[int, int], dict[int, list[int]]] = {}
        self._lows: dict[int, list[tuple[float, int]]] = {}
        self._highs: dict[int, list[tuple[float, int]]] = {}
        self._wide: dict[int, list[int]] = {}
        self._texts: dict[tuple[int, int], dict[Any, list[int]]] = {}
        self._grams: dict[int, dict[Any, list[tuple[Any, int]]]] = {}

    def add(self, predicate: Any, number: int) -> None:
        content = predicate.content
        match predicate.sort:
            case _ if predicate.sort == KIND:
                self._add_kind(content, number)
            case _ if predicate.sort == EQ:
                self._by_value.setdefault(content, []).append(number)
            case _ if predicate.sort == MEMBER:
                for symbol in content:
                    self._by_value.setdefault(symbol, []).append(number)
            case _ if predicate.sort == RANGE:
                self._add_range(content, number)
            case _ if predicate.sort == ANY:
                for symbol in content:
                    self._by_element.setdefault(symbol, []).append(number)
            case _:
                self._add_symbol(content, number)

    def _add_kind(self, mask: int, number: int) -> None:
        if mask in self._by_mask:
            self._by_mask[mask].append(number)
        else:
            self._by_mask[mask] = [number]
            self._by_kind.append((mask, self._by_mask[mask]))

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

    def _add_range(self, content: tuple[int, float, float], number: int) -> None:
        rank, low, high = content
        self.ranges += 1
        if low == -inf:
            insort(self._highs.setdefault(rank, []), (high, number))
        elif high == inf:
            insort(self._lows.setdefault(rank, []), (low, number))
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
        for mask, numbers in self._by_kind:
            if mask >> rank & 1:
                yield numbers
        if value is ABSENT:
            return
        if self._by_value:
            symbol = (STRING, value) if rank == STRING else symbol_of(value)
            found = self._by_value.get(symbol)
            if found is not None:
                yield found
        if rank in (NUMBER, TIME):
            if self.ranges:
                yield from self._range_hits(rank, value)
        elif rank in (STRING, BYTES):
            if self._texts or self._grams:
                yield from self._text_hits(value, Sort.BINARY if rank == BYTES else 0)
        elif kind is Kind.SET and self._by_element:
            yield from self._element_hits(value)

    def _element_hits(self, value: Multi) -> Iterator[list[int]]:
        for element in value:
            symbol = symbol_of(element)
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
        lows = self._lows.get(rank)
        if lows:
            yield [number for _, number in lows[: bisect_right(lows, (most, 1 << 62))]]
        highs = self._highs.get(rank)
        if highs:
            yield [number for _, number in highs[bisect_left(highs, (least, -1)) :]]

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

    def sizes(self, symbol: Any, element: bool) -> int:
        return len((self._by_element if element else self._by_value).get(symbol, ()))


def _grams(text: Any) -> list[Any]:
    return [text[at : at + _GRAM] for at in range(len(text) - _GRAM + 1)]


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


def _popular(column: _Column | None, symbol: Any, element: bool) -> float:
    return 1.0 + (column.sizes(symbol, element) if column else 0)


def _text_or_element(column: _Column | None, symbol: Any) -> float:
    return _popular(column, symbol, True) if Sort.ELEMENT <= symbol[0] < Sort.BINARY else 1.5


def _range_cost(column: _Column | None, content: tuple[int, float, float]) -> float:
    bounded = isfinite(content[1]) and isfinite(content[2])
    return 8.0 + (0.1 if bounded else 0.5) * (column.ranges if column else 0)


_COST: Final[dict[int, Callable[[_Column | None, Any], float]]] = {
    EQ: lambda column, symbol: _popular(column, symbol, False),
    MEMBER: lambda column, symbols: sum(_popular(column, symbol, False) for symbol in symbols),
    SYMBOL: _text_or_element,
    ANY: lambda column, symbols: sum(_popular(column, symbol, True) for symbol in symbols),
    RANGE: _range_cost,
    KIND: lambda column, mask: 1e6 if mask != ALL_KINDS else 1e7,
}
_PATH: Final = {
    EQ: "value",
    MEMBER: "value",
    SYMBOL: "symbol",
    ANY: "symbol",
    RANGE: "range",
    KIND: "kind",
}
