"""Path filters by symbols: those that a notification's tree satisfies, computed for all of them
together.

Path filters with the same path share the walk over the tree. The elements that it selects are matched against all
their conditions by an engine of their own, as notifications are; in Arrow, as rows.

Law: the symbol of a path filter is held iff the filter says otherwise of the notification than of one in which its
path selects nothing. So most notifications hold no symbol, whether filters ask for some elements or for none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from fairlead.filters.constraint import Constraint, Op, TypeName
from fairlead.filters.filter import EVERYTHING, And, Filter, Not, Or
from fairlead.filters.language import parse
from fairlead.filters.paths import ANY, Path, Selection, seen_by_filters
from fairlead.model import Array, Multi, Notification, Record
from fairlead.model.tree import ROOT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Group", "Selections", "path_filter", "text_of"]

_parsed = lru_cache(maxsize=4_096)(parse)


def text_of(constraint: Constraint) -> str | None:
    """A path filter as a text that reads without a schema; None if something in it has no text."""
    plain = _plain(constraint)
    return None if plain is None else str(plain)


def path_filter(text: str) -> Constraint:
    """The path filter that `text_of` wrote."""
    found = _parsed(text)
    assert isinstance(found, Constraint)
    return found


def _plain(filter: Filter) -> Filter | None:
    """The same filter with the members of types instead of their names."""
    match filter:
        case And(parts) | Or(parts):
            plain = [_plain(part) for part in parts]
            return None if None in plain else type(filter)(tuple(plain))  # type: ignore[arg-type]
        case Not(part):
            inner = _plain(part)
            return None if inner is None else Not(inner)
        case Constraint(term, op, operand):
            if isinstance(operand, TypeName):
                return Constraint(term, Op.IN, Multi(sorted(operand.members)))
            if isinstance(term, Selection):
                condition = _plain(term.condition)
                if condition is None:
                    return None
                return Constraint(Selection(term.path, condition, term.misses), op, operand)
            return filter
        case _:
            return None


class Use(NamedTuple):
    """A path filter that counts what a condition accepts, or misses."""

    constraint: Constraint
    misses: bool
    symbol: int

    def is_held(self, matched: int, selected: int) -> bool:
        count = selected - matched if self.misses else matched
        return self.constraint.holds(count) != self.constraint.holds(0)


class Group:
    """The path filters with one path."""

    def __init__(self, path: Path) -> None:
        from fairlead.matching.columnar.engine import Columnar

        self.path = path
        self._conditions: dict[Filter, int] = {}
        self._engine: Columnar[int] = Columnar()
        self._ids: list[int] = []
        self._uses: list[list[Use]] = []
        self._always: list[Use] = []
        """The uses that are asked for every selected element, whether the condition accepts it or not."""

    def add(self, constraint: Constraint, symbol: int) -> None:
        selection: Any = constraint.term
        number = self._conditions.setdefault(selection.condition, len(self._uses))
        if number == len(self._uses):
            self._uses.append([])
            if selection.condition != EVERYTHING:
                self._engine.add(number, selection.condition)
                self._ids.append(number)
        use = Use(constraint, selection.misses, symbol)
        self._uses[number].append(use)
        if selection.condition == EVERYTHING or selection.misses:
            self._always.append(use)

    def held(self, elements: Sequence[Notification]) -> Iterator[int]:
        """The symbols that are held where the path selects these elements."""
        matched = Counter(number for element in elements for number in self._engine.match(element))
        return self._settled(matched, len(elements))

    def held_in_rows(self, elements: Any, owner: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """Rows and the symbols that they hold, as pairs, where the path selects these elements in so many rows.

        The elements are the rows of a record batch; `owner` has the row that each belongs to.
        """
        import numpy as np

        selected = np.bincount(owner, minlength=size)
        most = int(selected.max(initial=0)) + 1
        row, number = np.empty(0, np.int64), np.empty(0, np.int64)
        if len(self._engine):
            found = self._engine.match_arrow(elements)
            ids = np.array(self._ids)
            row, number = np.repeat(owner, np.diff(found.starts)), ids[found.ordinals]
        key, count = np.unique(row * len(self._uses) + number, return_counts=True)
        row, number = np.divmod(key, max(1, len(self._uses)))
        pairs = [np.empty((0, 2), np.int64)]
        # What holds depends on three small numbers, of which few combinations occur.
        forms, which = np.unique((number * most + count) * most + selected[row], return_inverse=True)
        symbols = [
            self._held_by(form // most // most, form // most % most, form % most) for form in forms.tolist()
        ]
        lengths = np.array([len(each) for each in symbols], np.int64)
        if lengths.any():
            flat = np.array([symbol for each in symbols for symbol in each])
            starts = np.cumsum(lengths) - lengths
            times = lengths[which]
            within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
            pairs.append(
                np.stack((np.repeat(row, times), flat[np.repeat(starts[which], times) + within]), axis=1)
            )
        for use in self._always:
            counts = np.zeros(size, np.int64)
            condition = self._conditions[use.constraint.term.condition]  # type: ignore[attr-defined]
            if condition == self._conditions.get(EVERYTHING, -1):
                counts = selected
            else:
                counts[row[number == condition]] = count[number == condition]
            forms, which = np.unique(counts * most + selected, return_inverse=True)
            held = np.array([use.is_held(*divmod(form, most)) for form in forms.tolist()], np.bool_)[which]
            rows = np.flatnonzero(held & (selected > 0))
            pairs.append(np.stack((rows, np.full(len(rows), use.symbol)), axis=1))
        return np.concatenate(pairs)

    def _held_by(self, number: int, count: int, selected: int) -> list[int]:
        """The symbols that are held where a condition accepts so many of the selected elements."""
        return [use.symbol for use in self._uses[number] if not use.misses and use.is_held(count, selected)]

    def _settled(self, matched: Mapping[int, int], selected: int) -> Iterator[int]:
        everything = self._conditions.get(EVERYTHING, -1)
        for number, count in matched.items():
            yield from self._held_by(number, count, selected)
        for use in self._always:
            number = self._conditions[use.constraint.term.condition]  # type: ignore[attr-defined]
            count = selected if number == everything else matched.get(number, 0)
            if use.is_held(count, selected):
                yield use.symbol


class Selections:
    """The path filters of an index."""

    def __init__(self, symbols: Mapping[str, int]) -> None:
        groups: dict[Path, Group] = {}
        for text, symbol in symbols.items():
            constraint = path_filter(text)
            path = constraint.term.path  # type: ignore[attr-defined]
            if path not in groups:
                groups[path] = Group(path)
            groups[path].add(constraint, symbol)
        self.groups = list(groups.values())
        ends = {path.steps[-1][1] for path in groups}
        self.names = None if ends & {ANY, ROOT} else ends
        """The names of the elements that paths select; None where they can have any name."""

    def held(self, notification: Notification) -> Iterator[int]:
        """The symbols that a notification holds."""
        made_of_fields = self.names is not None and notification.document is None
        if made_of_fields and not _leads_to(notification.attributes._fields, self.names or set()):
            return
        tree = notification.tree
        for group in self.groups:
            elements = [seen_by_filters(element) for element in group.path.select(tree)]
            if elements:
                yield from group.held(elements)


def _leads_to(fields: Mapping[str, Any], names: set[str]) -> bool:
    """Whether a record has an element of one of these names, at any depth."""
    for name, value in fields.items():
        if type(value) is Record:
            if name in names or _leads_to(value._fields, names):
                return True
        elif type(value) is Array and (
            name in names
            or any(_leads_to(item._fields, names) for item in value.items if type(item) is Record)
        ):
            return True
    return False
