"""PROCESS: who is responsible for a role, found by everybody alike (FAIDECS 5.2).

A role is the sequence of types that a merger merges, without duplicates; `ALL` is the role of those who order
the events of all types. Its replicas are the nodes closest to its hash on the circle, the closest first.

    Conjunctions over A, B, C, C    role (A, B, C)    which merges (A, B) with (C,)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from fairlead.correlation.fair import Conjunction
from fairlead.correlation.fair.subscriptions import TYPE
from fairlead.errors import ValueRefused
from fairlead.model import Notification
from fairlead_lab.overlay.pastry import Space

__all__ = ["ALL", "Directory", "Ordering", "Role"]

Role: TypeAlias = tuple[str, ...]
ALL: Final[Role] = ()


class Ordering(StrEnum):
    """The process that establishes the order."""

    MERGING = "merging"
    """Mergers, one for each sequence of types: decentralised ordered merging."""
    SEQUENCER = "sequencer"
    """One process for all: total order broadcast."""
    TOKEN = "token"
    """The holder of the token: total order broadcast."""


@dataclass(frozen=True, slots=True)
class Directory:
    """The nodes that there are, and the number of them that share a role."""

    nodes: tuple[str, ...]
    ordering: Ordering = Ordering.MERGING
    replicas: int = 1
    _places: dict[str, int] = field(init=False, repr=False, compare=False)
    _members: dict[Role, tuple[str, ...]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.replicas <= len(set(self.nodes)):
            raise ValueRefused(f"{len(set(self.nodes))} nodes do not make {self.replicas} replicas")
        object.__setattr__(self, "_places", {node: SPACE.named(node) for node in self.nodes})

    def members(self, role: Role) -> tuple[str, ...]:
        """The replicas of a role; the first of those that have not crashed leads."""
        if role not in self._members:
            key = SPACE.named("\0".join(role))
            by_distance = sorted(
                self._places, key=lambda node: (SPACE.distance(self._places[node], key), node)
            )
            self._members[role] = tuple(by_distance[: self.replicas])
        return self._members[role]

    def serving(self, conjunction: Conjunction) -> Role:
        """The role whose order a conjunction is matched in."""
        return tuple(type for type, _ in conjunction.counts) if self._is_merging else ALL

    def entry(self, event: Notification) -> Role:
        """The role that an event is given to first; ValueRefused for one without a type."""
        type = event.get(TYPE)
        if not isinstance(type, str):
            raise ValueRefused("an event that is multicast has a type", hint='such as {"type": "StockQuote"}')
        return (type,) if self._is_merging else ALL

    def parents(self, role: Role) -> tuple[Role, Role] | None:
        """The roles that this one merges, the left and the right; None where events are given to it."""
        return (role[:-1], role[-1:]) if len(role) > 1 else None

    @property
    def _is_merging(self) -> bool:
        return self.ordering is Ordering.MERGING


SPACE: Final = Space()
