"""The common part of engines that file conjunctions.

    F is found    iff    one of the conjunctions of its normal form is

The counting algorithm, the decision tree and the shared automaton are made for conjunctions. The normal form
makes them work for every filter: it is filed once for each of its conjunctions, whose constraints on one term
are folded into one extent. What has no extent (operators of extensions, path filters, filter objects) is a
literal, verified on the candidates that the extents leave over. A filter that would break up into too many
conjunctions is not filed at all, but asked directly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from fairlead.filters.algebra import algebra_for
from fairlead.filters.filter import Filter
from fairlead.filters.normal import Conjunction, Literal
from fairlead.matching.engine import Id
from fairlead.model import Notification
from fairlead_lab.matching.base import EngineBase, Wanted

__all__ = ["ConjunctiveBase", "Handle"]

Handle: TypeAlias = tuple[int, int]
"""A conjunction: the number of its filter, and its place among that filter's conjunctions."""


class ConjunctiveBase(EngineBase[Id]):
    """Files filters by the conjunctions of their normal form."""

    def __init__(self) -> None:
        super().__init__()
        self._conjunctions: dict[Handle, Conjunction] = {}
        self._parts: dict[int, int] = {}
        self._whole: dict[int, Filter] = {}
        """The filters that are too large to be broken up."""

    @abstractmethod
    def _file_conjunction(self, handle: Handle, conjunction: Conjunction) -> None:
        """Take in a conjunction."""

    @abstractmethod
    def _unfile_conjunction(self, handle: Handle, conjunction: Conjunction) -> None:
        """Forget a conjunction."""

    @abstractmethod
    def _candidates(self, notification: Notification, wanted: Wanted) -> Iterator[Handle]:
        """The conjunctions that match, but for their literals."""

    def _file(self, number: int, filter: Filter) -> None:
        conjunctions = algebra_for().normal(filter).conjunctions
        if conjunctions is None:
            self._whole[number] = filter
            return
        self._parts[number] = len(conjunctions)
        for place, conjunction in enumerate(conjunctions):
            self._conjunctions[number, place] = conjunction
            self._file_conjunction((number, place), conjunction)

    def _unfile(self, number: int, filter: Filter) -> None:
        if self._whole.pop(number, None) is None:
            for place in range(self._parts.pop(number)):
                handle = (number, place)
                self._unfile_conjunction(handle, self._conjunctions.pop(handle))

    def _find(self, notification: Notification, wanted: Wanted) -> Iterator[int]:
        for handle in self._candidates(notification, wanted):
            if wanted(handle[0]) and self._verified(handle, notification):
                yield handle[0]
        for number, filter in self._whole.items():
            if wanted(number) and self._tested(filter, notification):
                yield number

    def _verified(self, handle: Handle, notification: Notification) -> bool:
        """The literals of a candidate hold."""
        return all(
            self._tested(literal.leaf, notification) is literal.positive for literal in self._literals(handle)
        )

    def _literals(self, handle: Handle) -> Iterable[Literal]:
        """The literals of a candidate that are left to verify."""
        return self._conjunctions[handle].literals
