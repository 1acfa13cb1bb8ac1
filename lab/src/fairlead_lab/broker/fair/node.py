"""A node: one process that plays the roles which the hash gives to it."""

from __future__ import annotations

from fairlead_lab.broker.fair.directory import Directory, Ordering, Role
from fairlead_lab.broker.fair.merger import Merger
from fairlead_lab.broker.fair.messages import (
    Down,
    Effect,
    Item,
    Message,
    Multicast,
    Subscribe,
    Tick,
    Unsubscribe,
)
from fairlead_lab.broker.fair.token import Station

__all__ = ["INTERVAL_US", "Node"]

INTERVAL_US = 10_000
"""The time a merger is quiet before it tells the time, and the interval of its acknowledgements."""


class Node:
    """A state machine: `handle(message, now)` gives effects. A role begins here with the first word about it."""

    def __init__(self, name: str, directory: Directory, *, interval_us: int = INTERVAL_US) -> None:
        self.name = name
        self.directory = directory
        self.interval_us = interval_us
        self.roles: dict[Role, Merger | Station] = {}
        self._dead: set[str] = set()

    @property
    def is_waiting(self) -> bool:
        """Whether there is something that its roles have yet to do."""
        return any(replica.is_waiting for replica in self.roles.values())

    def handle(self, message: Message, now: int) -> list[Effect]:
        """Take one step, at a time by the caller's clock in microseconds."""
        match message:
            case Down(process=process):
                self._dead.add(process)
                return [effect for replica in [*self.roles.values()] for effect in replica.down(process, now)]
            case Tick():
                return [effect for replica in [*self.roles.values()] for effect in replica.tick(now)]
            case Multicast() | Subscribe() | Unsubscribe():
                raise AssertionError(f"clients are called, nodes are not: {message}")
        role = message.to if isinstance(message, Item) else message.role
        effects: list[Effect] = []
        replica = self.roles.get(role)
        if replica is None:
            made = Station if self.directory.ordering is Ordering.TOKEN else Merger
            replica = self.roles[role] = made(
                self.name, role, self.directory, dead=self._dead, now=now, interval_us=self.interval_us
            )
            effects += replica.start()
        return effects + replica.handle(message, now)
