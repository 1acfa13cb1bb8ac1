"""The patterns and fair subscriptions of the components of a bus with scopes, in sets that are evaluated one after
another.

    questions.ask("ada", id, query, since, until)
    questions.of("ada")       the sets of a component: each is fed what the component sees
    questions.in_order()      all sets, each behind those whose public results it may see

A component sees public results of others that are visible to it. Mostly one set has all questions of a component.
Where two components see what both of them make, a question goes into a set of its own, behind those of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Final, NamedTuple

from fairlead.errors import FilterError

if TYPE_CHECKING:
    from fairlead.correlation.queries import Query, QuerySet

__all__ = ["Questions", "Set"]


class Set(NamedTuple):
    """A set of questions: whose it is, and which of its sets."""

    component: str
    number: int


_NONE: Final[Mapping[Set, QuerySet]] = {}


class Questions:
    """Questions under distinct ids, in sets. Not for several threads at once."""

    def __init__(self, make: Callable[[], QuerySet]) -> None:
        self._make: Final = make
        self._of: dict[str, dict[Set, QuerySet]] = {}
        self._contents: dict[Set, dict[str, Query]] = {}
        self._order: tuple[Set, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._of)

    def ask(self, component: str, id: str, question: Query, since: int, until: int) -> None:
        """Add a question. FilterError if it would see its own results."""
        own = self._of.get(component, {})
        new = Set(component, 1 + max((each.number for each in own), default=-1))
        for where in (*own, new):
            asked = {**self._contents, where: {**self._contents.get(where, {}), id: question}}
            try:
                order = _results_first(asked)
            except FilterError:
                if where == new:
                    raise
                continue
            queries = own[where] if where in own else self._make()
            queries.add(id, question, since, until)
            self._of[component], self._contents, self._order = {**own, where: queries}, asked, order
            return

    def remove(self, component: str, id: str) -> tuple[Query, Set | None]:
        """End a question; the question, and the set that is gone with it."""
        own = self._of[component]
        where = next(each for each in own if id in self._contents[each])
        own[where].remove(id)
        question = self._contents[where].pop(id)
        if self._contents[where]:
            return question, None
        del own[where], self._contents[where]
        if not own:
            del self._of[component]
        self._order = tuple(each for each in self._order if each != where)
        return question, where

    def of(self, component: str) -> Mapping[Set, QuerySet]:
        """The sets of a component."""
        return self._of.get(component, _NONE)

    def in_order(self) -> list[tuple[Set, QuerySet]]:
        """All sets, each behind those whose public results it may see."""
        return [(each, self._of[each.component][each]) for each in self._order]

    def all(self) -> Iterator[QuerySet]:
        """All sets, in any order."""
        return (queries for own in self._of.values() for queries in own.values())

    @property
    def is_timed(self) -> bool:
        """Whether some question is about how time passes."""
        return any(each.is_timed for each in self.all())


def _results_first(asked: Mapping[Set, Mapping[str, Query]]) -> tuple[Set, ...]:
    """Sets of questions, each behind those that make what it sees; FilterError where that leads in a circle.

    What a set sees of its own is a matter of its own detectors.
    """
    sees: dict[Set, frozenset[str]] = {}
    makes: dict[Set, frozenset[str]] = {}
    for where, questions in asked.items():
        each = [question.seeing for question in questions.values()]
        sees[where] = frozenset[str]().union(*(one.types for one in each))
        makes[where] = frozenset[str]().union(*(one.makes for one in each))
    behind = {
        where: [other for other in sorted(makes) if other != where and makes[other] & sees[where]]
        for where in sorted(sees)
    }
    try:
        return tuple(TopologicalSorter(behind).static_order())
    except CycleError as error:
        several = error.args[1]
        types = frozenset[str]().union(*(makes[one] & sees[other] for one in several for other in several))
        raise FilterError(f"patterns see their own composites: {' ◀ '.join(sorted(types))}") from None
