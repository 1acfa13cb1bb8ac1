"""Tables that share what did not change: a new version of a large table costs a small part of a copy.

A scope graph is a value, and every join makes a new one. With 100,000 components a copy of a dictionary takes
milliseconds; a table copies one of its shards, a few microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, TypeVar

__all__ = ["EMPTY", "Table"]

V = TypeVar("V")
SHARDS: Final = 256
SMALL: Final = 64
"""Up to this many entries a table is one dictionary."""


class Table(Mapping[str, V]):
    """An immutable mapping from names. Iteration has no promised order: sort where order matters."""

    __slots__ = ("_shards", "_size")

    _shards: tuple[dict[str, V], ...]
    _size: int

    def __init__(self, entries: Iterable[tuple[str, V]] = ()) -> None:
        whole = dict(entries)
        self._size = len(whole)
        self._shards = (whole,) if len(whole) <= SMALL else _sharded(whole)

    def _shard(self, name: str) -> int:
        return hash(name) % SHARDS if len(self._shards) > 1 else 0

    def __getitem__(self, name: str) -> V:
        return self._shards[self._shard(name)][name]

    def get(self, name: str, default: Any = None) -> Any:
        return self._shards[self._shard(name)].get(name, default)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._shards[self._shard(name)]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._shards)

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self) == dict(other)

    def __hash__(self) -> int:
        return hash(frozenset(self))

    def having(self, name: str, value: V) -> Table[V]:
        """This table with one entry set."""
        if len(self._shards) == 1 and self._size >= SMALL and name not in self:
            return Table([*self.items(), (name, value)])
        number = self._shard(name)
        return self._replaced(number, {**self._shards[number], name: value})

    def without(self, name: str) -> Table[V]:
        """This table without an entry."""
        if name not in self:
            return self
        number = self._shard(name)
        shard = dict(self._shards[number])
        del shard[name]
        return self._replaced(number, shard)

    def _replaced(self, number: int, shard: dict[str, V]) -> Table[V]:
        table: Table[V] = Table.__new__(Table)
        table._size = self._size - len(self._shards[number]) + len(shard)
        table._shards = (*self._shards[:number], shard, *self._shards[number + 1 :])
        return table


def _sharded(whole: dict[str, V]) -> tuple[dict[str, V], ...]:
    shards: tuple[dict[str, V], ...] = tuple({} for _ in range(SHARDS))
    for name, value in whole.items():
        shards[hash(name) % SHARDS][name] = value
    return shards


EMPTY: Final[Table[Any]] = Table()
