"""Changes of a scope graph, each with an order key among those of notifications.

A change holds for the order keys from its own on; a change that a rule makes holds from right behind its trigger.
A notification is judged by the graph at its own key, so it does not matter when a change or a notification
arrived: every runtime and every replay agrees on who saw what.

    timeline.at(key)                 the system that a notification with this key is judged by
    timeline.changed(statement, k)   the timeline with one more change
    timeline.published(n, key)       the timeline with what the rules of the graph make of a publication

Changes are applied in the order of their keys, and in the order they were given where keys are equal. A change
that cannot be applied where it stands, because another one took away what it names, is *void*: it changes nothing,
and its reason is kept. So two administrators who change the same scope get one outcome, whoever comes first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from fairlead.errors import ScopeError
from fairlead.model import Notification
from fairlead.model.order import BEGINNING, OrderKey
from fairlead.scopes.language.statements import Statement
from fairlead.scopes.rules import Trigger, consequences
from fairlead.scopes.system import System

__all__ = ["Change", "Timeline"]

_Rank: TypeAlias = tuple[tuple[int, str, bool, int, str], bool]


@dataclass(frozen=True, slots=True)
class Change:
    """A statement that takes effect at an order key, or right behind it."""

    statement: Statement
    key: OrderKey
    behind: bool = False
    requested: OrderKey | None = None
    """The requested key, where it was moved to the watermark."""
    void: str = ""
    """Why the change could not be applied; empty where it was."""

    @property
    def rank(self) -> _Rank:
        """The order of changes."""
        return self.key.rank, self.behind


_FIRST: Final = OrderKey.first_at(BEGINNING)


@dataclass(frozen=True, slots=True)
class Timeline:
    """A system and its changes, frozen."""

    start: System
    changes: tuple[Change, ...] = ()
    systems: tuple[System, ...] = ()
    """The system behind each change."""

    def at(self, key: OrderKey) -> System:
        """The system that a notification with this key is judged by."""
        number = self.number_at(key)
        return self.systems[number - 1] if number else self.start

    def number_at(self, key: OrderKey) -> int:
        """The number of changes that hold for a notification with this key."""
        return bisect_right(self.changes, (key.rank, False), key=lambda change: change.rank)

    def before(self, statement: Statement) -> System:
        """The system that a change of this timeline was applied to."""
        number = next(n for n, change in enumerate(self.changes) if change.statement is statement)
        return self.systems[number - 1] if number else self.start

    def behind(self, watermark: int) -> Timeline:
        """This timeline without the changes that a watermark has passed; it answers for keys from there on."""
        number = bisect_left(self.changes, watermark, key=lambda change: change.key.time)
        if not number:
            return self
        return Timeline(self.systems[number - 1], self.changes[number:], self.systems[number:])

    @property
    def latest(self) -> System:
        """The system behind all changes."""
        return self.systems[-1] if self.systems else self.start

    def changed(
        self,
        statement: Statement,
        key: OrderKey | None = None,
        *,
        watermark: int = BEGINNING,
        behind: bool = False,
    ) -> Timeline:
        """The timeline with one more change, at the key given or at the statement's SINCE.

        A key below the watermark is moved to it: what is released has been judged. A change that is void where it
        stands is kept as such; `add` refuses it instead.
        """
        since = statement.since
        requested = key or (_FIRST if since is None else OrderKey.first_at(since.microseconds))
        late = requested.time < watermark
        change = Change(
            statement,
            OrderKey.first_at(watermark) if late else requested,
            behind,
            requested if late else None,
        )
        number = bisect_right(self.changes, change.rank, key=lambda each: each.rank)
        return self._replayed((*self.changes[:number], change, *self.changes[number:]), number)

    def add(
        self, statement: Statement, key: OrderKey | None = None, *, watermark: int = BEGINNING
    ) -> Timeline:
        """The timeline with one more change; `ScopeError` where it is void."""
        extended = self.changed(statement, key, watermark=watermark)
        known = {id(change) for change in self.changes}
        for change in extended.changes:
            if change.statement is statement and change.void and id(change) not in known:
                raise ScopeError(change.void)
        return extended

    def published(self, notification: Notification, key: OrderKey) -> Timeline:
        """The timeline with what rules make of a publication; the changes hold from right behind it."""
        trigger = Trigger("pub", notification.producer, notification=notification)
        return self.triggered(trigger, key)

    def triggered(self, trigger: Trigger, key: OrderKey) -> Timeline:
        """The timeline with what rules make of an event at a key."""
        timeline = self
        for statement in consequences(self.at(key), trigger, key):
            timeline = timeline.changed(statement, key, behind=True)
        return timeline

    def _replayed(self, changes: tuple[Change, ...], number: int) -> Timeline:
        """The changes from a number on applied anew."""
        system = self.systems[number - 1] if number else self.start
        settled, systems = list(changes[:number]), list(self.systems[:number])
        for change in changes[number:]:
            try:
                system = system.apply(change.statement)
                settled.append(replace(change, void=""))
            except ScopeError as error:
                settled.append(replace(change, void=str(error).partition("\n")[0]))
            systems.append(system)
        return Timeline(self.start, tuple(settled), tuple(systems))
