"""The filters of atoms and domains, evaluated by one matching engine, each distinct one once.

    evaluation = FilterEvaluation(engine)
    number = evaluation.add(filter)           the number of a filter, for as long as a pattern uses it
    evaluation.matched(notifications)         for each, the numbers of the filters that it matches

Law: the filters that a notification matches are a function of the attributes that the filters name. Where that is
a single one, as with steps that name a type of events and nothing else, the engine is called once for each value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from fairlead.correlation.kernel import Engine
from fairlead.filters import Attribute, Constraint, Filter
from fairlead.filters.constraint import Extended
from fairlead.filters.filter import leaves
from fairlead.model import Notification

__all__ = ["FilterEvaluation", "Matched"]

CACHE_MAX: Final = 10_000
"""For how many values of an attribute the matching filters are cached."""
Matched: TypeAlias = tuple[int, ...]
"""The numbers of the filters that match."""


class FilterEvaluation:
    """The filters in use, by number."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._numbers: dict[Filter, int] = {}
        self._uses: Counter[Filter] = Counter()
        self._names: Counter[str | None] = Counter()
        """The attributes that filters name, and how many do; None for what depends on something else."""
        self._made = 0
        self._cache: dict[Any, Matched] = {}

    def add(self, filter: Filter) -> int:
        """The number of a filter, which stays the same for as long as the filter is used."""
        if filter not in self._numbers:
            self._made += 1
            self._numbers[filter] = self._made
            self._engine.add(self._made, filter)
            self._names.update(set(_named(filter)))
            self._cache.clear()
        self._uses[filter] += 1
        return self._numbers[filter]

    def remove(self, filter: Filter) -> None:
        """Use a filter once less."""
        self._uses[filter] -= 1
        if not self._uses[filter]:
            del self._uses[filter]
            self._engine.remove(self._numbers.pop(filter))
            self._names = +(self._names - Counter(set(_named(filter))))
            self._cache.clear()

    def matched(self, notifications: list[Notification]) -> list[Matched]:
        """The filters that each notification matches."""
        names = list(self._names)
        if len(names) != 1 or names[0] is None:
            return self._evaluate(notifications)
        name, cache = names[0], self._cache
        values = [each.attributes.lookup(name) for each in notifications]
        if {*map(type, values)} != {str}:
            return self._evaluate(notifications)  # among numbers, Python calls alike what filters tell apart
        if new := {
            value: each for value, each in zip(values, notifications, strict=True) if value not in cache
        }:
            if len(cache) + len(new) > CACHE_MAX:
                cache.clear()
                return self._evaluate(notifications)
            cache.update(zip(new, self._evaluate(list(new.values())), strict=True))
        return [cache[value] for value in values]

    def _evaluate(self, notifications: list[Notification]) -> list[Matched]:
        return list(map(tuple, self._engine.match_batch(notifications))) if notifications else []


def _named(filter: Filter) -> Iterator[str | None]:
    """The attributes that a filter depends on; None for something else."""
    for leaf in leaves(filter):
        match leaf:
            case Constraint(Attribute(name), _, operand) if not isinstance(operand, Extended):
                yield name
            case _:
                yield None
