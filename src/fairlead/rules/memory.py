"""Remembered answers: one per key, computed for the first notification with that key and valid until it is
forgotten.

Where keys hardly ever come again, remembering is not worth it, and every answer is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar, cast

from fairlead.model.packed import PlainParts
from fairlead.rules.cells import Keys

__all__ = ["Memory"]

T = TypeVar("T")

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

    def of(self, parts: Sequence[PlainParts], find: Callable[[int], T]) -> list[T]:
        """The answers about plain notifications; `find` finds those that are not remembered, by their index."""
        if self._keys is None:
            return [find(index) for index in range(len(parts))]
        if len(parts) == 1:
            return [self.one(parts[0], find)]
        keys = self._keys.of(parts)
        if (
            keys and keys[0] == keys[-1] and keys.count(keys[0]) == len(keys)
        ):  # as long as a stream stays the same
            answer = self._answers.get(keys[0])
            if answer is None:
                answer = self._answer(keys[0], find, 0)
                self._hits -= 1
            self._hits += len(keys)
            return [answer] * len(keys)
        found = [*map(self._answers.get, keys)]
        if None in found:
            return [self._answer(key, find, index) for index, key in enumerate(keys)]
        self._hits += len(keys)
        return cast(list[T], found)

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
