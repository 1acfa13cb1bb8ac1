"""The counting algorithm: a conjunction matches iff as many of its predicates hold as it has (book 3.2.2).

Two phases. The first finds all predicates that hold, each once however many filters share it, and tests none
of the others: three levels of an index lead to them, from the name over the operator to the value. The second
adds one to the counter of every conjunction that contains a predicate found.

    {stock = "Foo", price = 12}          predicates        counters     needed
      stock ── = ──── "Foo" ──────────▶  stock = "Foo"  ──▶ F1: 2         2   ▶ F1 matches
      price ─┬ < ──── 15 ─────────────▶  price < 15     ──▶ F2: 1         2
             └ > ──── 16               (not reached: F2 = stock = "Foo" and price > 16)

The index is `fairlead.filters.counting.CountingIndex`, which the poset uses too. Its statistics count one test
per term that is looked up, and one per candidate and literal that is verified.

Where the values of an attribute are few, even less is needed: which predicates hold for a value is written
down once, as a row of bits, and whole conjunctions are found with one `and` per attribute (`PredicateTable`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from fairlead.filters.counting import CountingIndex, valuation
from fairlead.filters.extents.extent import Extent
from fairlead.filters.normal import Conjunction
from fairlead.filters.terms import Attribute, Term
from fairlead.matching.engine import Id
from fairlead.model import ABSENT, Key, Kind, Notification, Record, Value, key_of
from fairlead_lab.matching.base import Wanted
from fairlead_lab.matching.conjunctive import ConjunctiveBase, Handle

__all__ = ["Counting", "PredicateTable", "few_valued"]

Extents: TypeAlias = Mapping[Term, Extent]
VALUES_MAX: Final = 1024
"""More values of one attribute than this are not few: further ones are worked out each time they come."""


class Counting(ConjunctiveBase[Id]):
    """Conjunctions under counters. `few` names attributes that have few values; they get a predicate table.

    With `counted_max` only the most selective predicates of a conjunction are counted, and the others are
    tested when these hold. A bound of 1 is clustering by the most selective predicate.
    """

    name = "counting"

    def __init__(self, few: Iterable[str] = (), counted_max: int | None = None) -> None:
        super().__init__()
        self._index = CountingIndex(counted_max)
        self.table = PredicateTable(few)
        self._rows: dict[Handle, int] = {}
        self._by_row: dict[int, dict[Handle, Extents]] = {}
        self._terms: Counter[Term] = Counter()
        self._computed: dict[Term, None] = {}
        """The terms that are not plain names: the notification has to be asked for their values."""

    def _file_conjunction(self, handle: Handle, conjunction: Conjunction) -> None:
        tabled, counted = self._split(conjunction)
        for term in counted:
            self._terms[term] += 1
            if not (isinstance(term, Attribute) and "." not in term.name):
                self._computed[term] = None
        if tabled:
            self._rows[handle] = self.table.add(tabled)
        if self._is_indexed(tabled, counted):
            self._index.add(handle, counted)
        else:
            self._by_row.setdefault(self._rows[handle], {})[handle] = counted

    def _unfile_conjunction(self, handle: Handle, conjunction: Conjunction) -> None:
        tabled, counted = self._split(conjunction)
        for term in counted:
            self._terms[term] -= 1
            if not self._terms[term]:
                del self._terms[term]
                self._computed.pop(term, None)
        if self._is_indexed(tabled, counted):
            self._index.remove(handle)
        else:
            self._by_row[self._rows[handle]].pop(handle)
        if tabled:
            row = self._rows.pop(handle)
            self.table.remove(tabled)
            if not self._by_row.get(row, True):
                del self._by_row[row]

    def _candidates(self, notification: Notification, wanted: Wanted) -> Iterator[Handle]:
        values = valuation(notification, self._computed)
        self._tests += sum(term in self._terms for term in values)
        tests_before = self.table.tests
        satisfied = self.table.satisfied(values)
        self._tests += self.table.tests - tests_before
        for handle in self._index.find(values):
            row = self._rows.get(handle)  # type: ignore[call-overload]
            if row is None or satisfied >> row & 1:
                yield handle  # type: ignore[misc]
        for row in _bits(satisfied):
            for handle, rest in self._by_row.get(row, {}).items():
                if wanted(handle[0]) and all(self._holds(extent, values, t) for t, extent in rest.items()):
                    yield handle

    def _holds(self, extent: Extent, values: Mapping[Term, Value], term: Term) -> bool:
        self._tests += 1
        return values.get(term, ABSENT) in extent

    def _split(self, conjunction: Conjunction) -> tuple[Extents, Extents]:
        """The constraints of a conjunction that the table holds, and those that are left to be counted."""
        tabled = {t: extent for t, extent in conjunction.extents.items() if t in self.table}
        return tabled, {t: extent for t, extent in conjunction.extents.items() if t not in tabled}

    @staticmethod
    def _is_indexed(tabled: Extents, counted: Extents) -> bool:
        """The counters find it; what only asks for absences beside its row is found by the row."""
        return not tabled or any(not extent.allows(Kind.ABSENT) for extent in counted.values())


class PredicateTable:
    """Conjunctions on attributes with few values: one column per value, one bit per conjunction.

        r is satisfied    iff    bit r is set in the column of every attribute's value

    Absence is a value like any other here. Columns are made when a value is first seen, so it does not
    matter whether the values were declared or are just few. Equal conjunctions share a bit.
    """

    __slots__ = ("_columns", "_free", "_rows", "_uses", "tests")

    def __init__(self, names: Iterable[str]) -> None:
        self._columns: dict[Term, dict[Key, tuple[Value, int]]] = {Attribute(name): {} for name in names}
        self._rows: dict[int, Extents] = {}
        self._uses: dict[frozenset[tuple[Term, Extent]], list[int]] = {}
        """Row and number of users of a conjunction."""
        self._free: list[int] = []
        self.tests = 0
        """Columns looked up, and predicates tested to make columns."""

    def __contains__(self, term: object) -> bool:
        return term in self._columns

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, extents: Extents) -> int:
        """The row of a conjunction on the table's attributes, new unless an equal one is there."""
        key = frozenset(extents.items())
        if key in self._uses:
            self._uses[key][1] += 1
            return self._uses[key][0]
        row = self._free.pop() if self._free else len(self._rows)
        self._uses[key] = [row, 1]
        self._rows[row] = dict(extents)
        for term, columns in self._columns.items():
            for at, (value, bits) in columns.items():
                columns[at] = value, bits | self._bit(row, term, value)
        return row

    def remove(self, extents: Extents) -> None:
        """Give up one use of a conjunction's row."""
        key = frozenset(extents.items())
        self._uses[key][1] -= 1
        row, uses = self._uses[key]
        if not uses:
            del self._uses[key], self._rows[row]
            self._free.append(row)
            for columns in self._columns.values():
                for at, (value, bits) in columns.items():
                    columns[at] = value, bits & ~(1 << row)

    def satisfied(self, values: Mapping[Term, Value]) -> int:
        """The rows that hold for the values, as bits."""
        if not self._rows:
            return 0
        bits = -1
        for term in self._columns:
            bits &= self._column(term, values.get(term, ABSENT))
        return bits

    def show(self) -> str:
        """The columns seen so far, attribute by attribute; `1` where a conjunction allows the value."""
        lines = []
        for term, columns in self._columns.items():
            shown = [_shown(value) for value, _ in columns.values()]
            lines.append("".join([f"{term!s:12}", *(f"  {value}" for value in shown)]))
            for row in sorted(self._rows):
                marks = ("1" if bits >> row & 1 else "." for _, bits in columns.values())
                cells = (f"  {mark:>{len(value)}}" for mark, value in zip(marks, shown, strict=True))
                lines.append("".join([f"{f'r{row}':>12}", *cells]))
        return "\n".join(lines)

    def _column(self, term: Term, value: Value) -> int:
        self.tests += 1
        columns, key = self._columns[term], key_of(value)
        if key in columns:
            return columns[key][1]
        bits = 0
        for row in self._rows:
            bits |= self._bit(row, term, value)
        if len(columns) < VALUES_MAX:
            columns[key] = value, bits
        return bits

    def _bit(self, row: int, term: Term, value: Value) -> int:
        extent = self._rows[row].get(term)
        self.tests += extent is not None
        return (extent is None or value in extent) << row


def few_valued(notifications: Iterable[Notification], values_max: int = 16) -> tuple[str, ...]:
    """The names of the attributes that have at most so many different values in a sample."""
    seen: dict[str, set[Key]] = {}
    for notification in notifications:
        for term, value in valuation(notification, ()).items():
            if isinstance(term, Attribute) and not isinstance(value, Record):
                seen.setdefault(term.name, set()).add(key_of(value))
    return tuple(name for name, keys in sorted(seen.items()) if len(keys) <= values_max)


def _bits(row: int) -> Iterator[int]:
    while row:
        lowest = row & -row
        yield lowest.bit_length() - 1
        row ^= lowest


def _shown(value: Any) -> str:
    return "absent" if value is ABSENT else str(value)
