"""Remembered answers: one per key, computed for the first notification with that key and valid until it is
forgotten.

Where keys hardly ever come again, remembering is not worth it, and every answer is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from fairlead.model.packed import PlainColumns, PlainParts, columns_of
from fairlead.rules.cells import Few, Keys, Same

__all__ = ["Memory"]

T = TypeVar("T")
Columns: TypeAlias = Sequence[Sequence[Any] | Same | Few]

REMEMBERED_MAX: Final = 10_000
TRIED: Final = 4_096
"""After so many notifications it is looked at whether remembering has been worth it."""


class Memory(Generic[T]):
    """The answers about plain notifications from one source."""

    def __init__(self) -> None:
        self._answers: dict[Any, T] = {}
        self._keys: Keys | None = None
        self._hits = self._misses = 0

    def forget(self, keys: Keys | None) -> None:
        """Forget all answers, and note the version that new ones depend on."""
        self._answers.clear()
        self._hits = self._misses = 0
        self._keys = keys

    def of(
        self, parts: Sequence[PlainParts], find: Callable[[int], T], columns: PlainColumns | None = None
    ) -> list[T]:
        """The answers about plain notifications; `find` finds those that are not remembered, by their index.

        `columns` are those of the parts, where they are there already.
        """
        if self._keys is None:
            return [find(index) for index in range(len(parts))]
        if len(parts) < 2:
            return [self.one(each, find) for each in parts]
        if not self._keys.columns:
            cells: Columns = []
        else:
            cells = self._keys.columns_of(columns_of(parts) if columns is None else columns)
        varied = [index for index, each in enumerate(cells) if type(each) is not Same]
        if not varied:
            self._hits += len(parts) - 1
            return [self._answer(_key(cells), find, 0)] * len(parts)
        few = cells[varied[0]]
        if len(varied) == 1 and type(few) is Few:
            return self._of_few(cells, varied[0], few, find)
        keys = _all_keys(cells, len(parts))
        found = [*map(self._answers.get, keys)]
        if None in found:
            return [self._answer(key, find, index) for index, key in enumerate(keys)]
        self._hits += len(keys)
        return cast(list[T], found)

    def _of_few(self, cells: Columns, varied: int, few: Few, find: Callable[[int], T]) -> list[T]:
        """The answers where one column alone varies, between few values: each of these is looked up once."""
        answers: dict[Any, T] = {}
        for value, cell in few.cells.items():
            key = _key([*cells[:varied], Same(cell), *cells[varied + 1 :]])
            answer = self._answers.get(key)
            answers[value] = self._answer(key, find, few.values.index(value)) if answer is None else answer
        self._hits += len(few.values)
        first, *others = answers.values()
        if all(each is first for each in others):
            return [first] * len(few.values)
        return [*map(answers.__getitem__, few.values)]

    def one(self, parts: PlainParts, find: Callable[[int], T]) -> T:
        """The answer about one plain notification."""
        if self._keys is None:
            return find(0)
        return self._answer(self._keys.one(parts), find, 0)

    def _answer(self, key: Any, find: Callable[[int], T], index: int) -> T:
        answer = self._answers.get(key)
        if answer is not None:
            self._hits += 1
            return answer
        self._misses += 1
        if self._misses > TRIED and self._misses > 3 * self._hits:
            self._keys = None  # until the tables change
            self._answers.clear()
            return find(index)
        if len(self._answers) >= REMEMBERED_MAX:
            self._answers.clear()
        answer = self._answers[key] = find(index)
        return answer


def _key(cells: Columns) -> Any:
    """The key of notifications with these cells, one of each column."""
    key = tuple([each.cell for each in cast(Sequence[Same], cells)])
    return key[0] if len(key) == 1 else key


def _all_keys(cells: Columns, count: int) -> list[Any]:
    every = [
        repeat(each.cell, count) if type(each) is Same else each.each() if type(each) is Few else each
        for each in cells
    ]
    return [*every[0]] if len(every) == 1 else [*zip(*every, strict=True)]
