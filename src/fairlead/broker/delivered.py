"""The identities that a broker has delivered: copies come from several sources, and are delivered once.

A publisher's own broker knows its duplicates (`published`). Copies that were published at several brokers meet
where the subscribers are: each broker remembers what it has delivered to its own clients, and leaves them out of
the route of a copy. The copy still goes to the neighbours: what they have delivered, they know themselves.

What is in no log is remembered in memory, the latest ones of all sources. What is in a log is remembered by it
(`log.identities`), and what was delivered without a log does not make known the same one that is in one: a durable
subscriber may have missed it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Generic, TypeVar

__all__ = ["Delivered"]

Identity = TypeVar("Identity", bound=Hashable)
"""A producer and an id, in a form that is the same for each copy."""

LATEST: Final = 100_000
"""The number of identities remembered, at least."""


class Delivered(Generic[Identity]):
    """The latest identities. There are two sets of them: the older one goes when the younger one is full."""

    __slots__ = ("_latest", "_older", "_younger")

    def __init__(self, latest: int = LATEST) -> None:
        self._latest = latest
        self._younger: set[Identity] = set()
        self._older: set[Identity] = set()

    def take(self, identity: Identity) -> bool:
        """Whether it was not delivered before; now it was."""
        if identity in self._younger or identity in self._older:
            return False
        self.add(identity)
        return True

    def add(self, identity: Identity) -> None:
        """It was delivered."""
        self._younger.add(identity)
        if len(self._younger) >= self._latest:
            self._age()

    def take_all(self, identities: Sequence[Identity]) -> list[bool] | None:
        """Record several identities as delivered; returns which of them are new. None if all of them are."""
        younger, new = self._younger, set(identities)  # a set: their hashes are computed once
        if len(new) < len(identities) or not (younger.isdisjoint(new) and self._older.isdisjoint(new)):
            return [self.take(each) for each in identities]
        younger |= new
        if len(younger) >= self._latest:
            self._age()
        return None

    def forget(self, identity: Identity) -> None:
        """As if it had not been delivered."""
        self._younger.discard(identity)
        self._older.discard(identity)

    def __contains__(self, identity: object) -> bool:
        return identity in self._younger or identity in self._older

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def _age(self) -> None:
        self._younger, self._older = set(), self._younger
