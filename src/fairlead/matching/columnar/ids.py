"""Ids by ordinal, in little memory: a million whole numbers take eight megabytes, and a few more for
lookups.

Law: `picked` gives what was put in, and `find(id)` the ordinals of all ids equal to it, as a dictionary would.

Python keeps an object for each id and each key of a dictionary, some hundred bytes in all. Whole numbers of 64
bits are kept as such; strings in a file as its bytes; other ids as the objects that they are. What finds them is
a sorted array of their hashes, made when it is first asked for.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ids", "Objects", "Strings", "Wholes", "ids_of"]

_FEW: Final = 6
"""So many are picked one by one more quickly than by an array."""


class Ids(Sequence[Any]):
    """Ids by ordinal."""

    one: Callable[[int], Any]
    """The id of an ordinal."""

    def __getitem__(self, at: Any) -> Any:
        return self.one(at)

    @abstractmethod
    def picked(self, ordinals: NDArray[np.int32]) -> list[Any]:
        """The ids of these ordinals."""

    @abstractmethod
    def subset(self, ordinals: NDArray[Any]) -> Ids:
        """Ids of their own for these ordinals."""

    def find(self, id: Any) -> Iterator[int]:
        """The ordinals of the ids that are equal to this one, ascending."""
        hashes, order = self._hashes
        wanted = hash(id)
        at = int(np.searchsorted(hashes, wanted))
        while at < len(hashes) and hashes[at] == wanted:
            ordinal = int(order[at])
            if self.one(ordinal) == id:
                yield ordinal
            at += 1

    @cached_property
    def _hashes(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        hashes = np.fromiter(map(hash, self), np.int64, len(self))
        order = np.argsort(hashes, kind="stable").astype(np.int32)
        return hashes[order], order


class Wholes(Ids):
    """Whole numbers of 64 bits."""

    def __init__(self, numbers: NDArray[np.int64]) -> None:
        self.numbers = numbers
        self.one = numbers.data.__getitem__
        self._lookups = 0
        self._objects: Objects | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def picked(self, ordinals: NDArray[np.int32]) -> list[Any]:
        if len(ordinals) < _FEW:
            return list(map(self.one, ordinals.tolist()))
        if self._objects is not None:
            return self._objects.picked(ordinals)
        # Once as many were made as there are, they are kept: to hand one out again costs a third of making it.
        self._lookups += len(ordinals)
        if self._lookups > len(self.numbers):
            self._objects = Objects(_array(self.numbers.tolist()))
        found: list[Any] = self.numbers.take(ordinals).tolist()
        return found

    def subset(self, ordinals: NDArray[Any]) -> Wholes:
        return Wholes(self.numbers[ordinals])

    def find(self, id: Any) -> Iterator[int]:
        try:
            whole = int(id)
        except (TypeError, ValueError, OverflowError):
            return
        if whole != id or not -(2**63) <= whole < 2**63:  # but 5.0 and True are keys like 5 and 1
            return
        order = self._order
        at = int(np.searchsorted(self.numbers, whole, sorter=order))
        while at < len(self.numbers):
            ordinal = at if order is None else int(order[at])
            if self.one(ordinal) != whole:
                return
            yield ordinal
            at += 1

    @cached_property
    def _order(self) -> NDArray[np.int32] | None:
        """The ordinals in the order of their numbers; None where that is their own."""
        if (self.numbers[1:] >= self.numbers[:-1]).all():
            return None
        return np.argsort(self.numbers, kind="stable").astype(np.int32)


class Objects(Ids):
    """Any ids."""

    def __init__(self, items: NDArray[np.object_]) -> None:
        self._items = items
        self.one = items.item

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def picked(self, ordinals: NDArray[np.int32]) -> list[Any]:
        if len(ordinals) < _FEW:
            return list(map(self.one, ordinals.tolist()))
        found: list[Any] = self._items.take(ordinals).tolist()
        return found

    def subset(self, ordinals: NDArray[Any]) -> Objects:
        return Objects(self._items[ordinals])


class Strings(Ids):
    """Strings one after another in a file, made on demand."""

    def __init__(self, starts: NDArray[np.int64], letters: NDArray[np.uint8]) -> None:
        self._starts, self._letters = starts, letters
        self.one = self._decoded

    def __len__(self) -> int:
        return len(self._starts) - 1

    def _decoded(self, at: int) -> str:
        return self._letters[self._starts[at] : self._starts[at + 1]].tobytes().decode()

    def picked(self, ordinals: NDArray[np.int32]) -> list[Any]:
        return list(map(self.one, ordinals.tolist()))

    def subset(self, ordinals: NDArray[Any]) -> Objects:
        return Objects(_array(list(map(self.one, ordinals.tolist()))))


def ids_of(items: Iterable[Any], before: Ids | None = None) -> Ids:
    """These ids, behind those before them."""
    given = items if isinstance(items, list | array) else list(items)
    if isinstance(given, array) or all(type(item) is int and -(2**63) <= item < 2**63 for item in given):
        fresh: Ids = Wholes(np.array(given, np.int64))
    else:
        fresh = Objects(_array(given))
    if before is None or not len(before):
        return fresh
    if isinstance(before, Wholes) and isinstance(fresh, Wholes):
        return Wholes(np.concatenate((before.numbers, fresh.numbers)))
    return Objects(_array([*before, *fresh]))


def _array(items: Sequence[Any]) -> NDArray[np.object_]:
    """The items as they are: an id may be a tuple, which numpy would take for a row."""
    made = np.empty(len(items), np.object_)
    made[:] = items
    return made
