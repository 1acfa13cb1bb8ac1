"""Queues of what waits at one destination: which of it goes next, and which goes where there is too much.

    Laws
    Next is what has the highest rank; of equals, what has waited longest.
    Where there is too much, the standing of the newest says which goes: the oldest of all; the newest; of those
    with the lowest priority, the newest included, the oldest; the oldest of those with its key, or of all where
    there is none.

A bus queue, the backlog of a slow client at a broker, and the queue in a client's process are each one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args

__all__ = ["DISCARDS", "PRIORITY_DEFAULT", "PRIORITY_MAX", "UNMARKED", "Discard", "Standing", "Waiting"]

Item = TypeVar("Item")

PRIORITY_MAX: Final = 9
PRIORITY_DEFAULT: Final = 4
Discard: TypeAlias = Literal["oldest", "newest", "lowest priority", "latest per key"]
DISCARDS: Final[tuple[str, ...]] = get_args(Discard)


class Standing(NamedTuple):
    """The standing of something that waits, among all that waits with it."""

    rank: int = PRIORITY_DEFAULT
    """The higher goes first."""
    priority: int = PRIORITY_DEFAULT
    """The lowest goes first where there is too much, if that is how it is decided."""
    discard: str = "oldest"
    """One of `DISCARDS`: which goes where this is one too much."""
    key: Hashable = None
    """Later ones with the same key replace it."""


UNMARKED: Final = Standing()
"""The standing of what is in no channel."""


class Waiting(Generic[Item]):
    """A queue of what waits at one destination. Whoever uses it from several threads holds a lock."""

    __slots__ = ("_items", "_keyed", "_newest", "_prior", "_ranked", "_standing")

    def __init__(self, standing: Callable[[Item], Standing]) -> None:
        self._standing = standing
        self._items: dict[int, tuple[Item, Standing]] = {}
        """In the order of arrival, by number."""
        self._ranked: dict[int, dict[int, None]] = {}
        self._prior: dict[int, dict[int, None]] = {}
        self._keyed: dict[Hashable, dict[int, None]] = {}
        self._newest = 0

    def append(self, item: Item) -> None:
        """One more."""
        self._newest += 1
        standing = self._standing(item)
        self._items[self._newest] = item, standing
        for index, value in self._indices(standing):
            index.setdefault(value, {})[self._newest] = None

    @property
    def first(self) -> Item:
        """The one that goes next."""
        return self._items[self._next()][0]

    def popleft(self) -> Item:
        """Take the one that goes next."""
        return self._remove(self._next())

    def discard(self) -> Item:
        """Take the one that goes where the newest is one too much."""
        newest = next(reversed(self._items))
        standing = self._items[newest][1]
        match standing.discard:
            case "newest":
                return self._remove(newest)
            case "lowest priority":
                return self._remove(next(iter(self._prior[min(self._prior)])))
            case "latest per key":
                older = next(iter(self._keyed[standing.key]))
                return self._remove(older) if older != newest else self.discard_oldest()
        return self.discard_oldest()

    def discard_oldest(self) -> Item:
        """Take the one that has waited longest."""
        return self._remove(next(iter(self._items)))

    def clear(self) -> None:
        """Forget all of it."""
        for each in (self._items, self._ranked, self._prior, self._keyed):
            each.clear()

    def _next(self) -> int:
        return next(iter(self._ranked[max(self._ranked)]))

    def _indices(self, standing: Standing) -> tuple[tuple[dict[Hashable, dict[int, None]], Hashable], ...]:
        return (self._ranked, standing.rank), (self._prior, standing.priority), (self._keyed, standing.key)  # type: ignore[return-value]

    def _remove(self, number: int) -> Item:
        item, standing = self._items.pop(number)
        for index, value in self._indices(standing):
            alike = index[value]
            del alike[number]
            if not alike:
                del index[value]
        return item

    def __iter__(self) -> Iterator[Item]:
        """In the order of arrival."""
        return iter([item for item, _ in self._items.values()])

    def __len__(self) -> int:
        return len(self._items)
