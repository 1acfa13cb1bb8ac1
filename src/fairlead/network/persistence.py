"""The state of a broker that outlives its process, with or without a ledger, and the cursors of its destinations.

Without a ledger the state is in memory alone: nothing is durable, and every destination starts at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fairlead.network.ledger import (
    Change,
    Ledger,
    State,
    attempts,
    cursor_of_acknowledged,
    cursor_of_durable,
    cursor_of_link,
)
from fairlead.network.outbox import Outbox

if TYPE_CHECKING:
    from fairlead.network.destinations import Durable, Link

__all__ = ["Persistence"]


class Persistence:
    """The state, and how far each destination is in the log."""

    def __init__(self, ledger: Ledger | None) -> None:
        self.ledger = ledger
        self.state = State() if ledger is None else ledger.state
        self._acknowledged: dict[str, int] = {}
        """The offset up to which each neighbour has acknowledged this log."""

    @property
    def is_logged(self) -> bool:
        """Whether there is a log."""
        return self.ledger is not None

    @property
    def log_name(self) -> str:
        """The log's identity; empty if there is none."""
        return "" if self.ledger is None else self.ledger.identity

    @property
    def lineage(self) -> list[tuple[str, int]]:
        """The incarnations of the log; none if there is no log."""
        return [] if self.ledger is None else [(each.id, each.first) for each in self.ledger.lineage]

    def note(self, change: Change, now: int) -> None:
        """Change the state, and remember it."""
        if self.ledger is None:
            self.state.apply(change)
        else:
            self.ledger.note(change, now)

    # -- cursors -------------------------------------------------------------------------------------------------

    def cursor(self, name: str, first: int) -> int:
        """The cursor of a destination; that of a new one is `first`, and the log has it at once."""
        if self.ledger is None:
            return first
        return self.ledger.log.cursors.setdefault(name, first)

    def remove_neighbour(self, name: str) -> None:
        """A broker is no neighbour any longer: it has no cursor, and what it acknowledged does not count."""
        self._acknowledged.pop(name, None)
        self.remove_cursor(cursor_of_link(name))
        self.remove_cursor(cursor_of_acknowledged(name))

    def remove_cursor(self, name: str) -> None:
        """The destination has ended: no record is retained for it."""
        if self.ledger is not None and name in self.ledger.log.cursors:
            del self.ledger.log.cursors[name]

    def rename_cursor(self, name: str, now: str) -> None:
        """A destination has another name."""
        if self.ledger is not None and name in self.ledger.log.cursors:
            self.ledger.log.cursors[now] = self.ledger.log.cursors[name]
            del self.ledger.log.cursors[name]

    def save_cursor(self, name: str, outbox: Outbox, dispatched: int) -> None:
        """Write the cursor of one destination; the next sync makes it durable."""
        if self.ledger is not None:
            # Not beyond the content: or changes of cursors would change the cursors, for ever.
            self.ledger.log.cursors[name] = min(outbox.cursor(dispatched), self.ledger.content)

    def save_durable(self, durable: Durable, dispatched: int, now: int) -> None:
        """Write the cursor of a durable subscriber, and what is known beyond it."""
        self.save_cursor(cursor_of_durable(durable.name), durable, dispatched)
        accounts = durable.take_accounts()
        if accounts is not None:
            self.note(attempts(durable.name, *accounts), now)

    def acknowledged(self, neighbour: str) -> int:
        """All records below this offset that concern a neighbour have been acknowledged by it."""
        if neighbour not in self._acknowledged and self.ledger is not None:
            self._acknowledged[neighbour] = self.ledger.log.cursors.get(cursor_of_acknowledged(neighbour), 0)
        return self._acknowledged.get(neighbour, 0)

    def acknowledge(self, neighbour: str, end: int, *, rewound: bool = False) -> None:
        """A neighbour has acknowledged the records below this offset; `rewound`: and no others any longer."""
        if rewound or end > self.acknowledged(neighbour):
            self._acknowledged[neighbour] = (
                end  # `save` writes it: a cursor for each would be a sync for each
            )

    def save(
        self, links: Mapping[str, Link], durables: Mapping[str, Durable], dispatched: int, now: int
    ) -> None:
        """Write all cursors, so that less is sent again after a restart."""
        if self.ledger is None:
            return
        for name, link in links.items():
            self.save_cursor(cursor_of_link(name), link, dispatched)
            if name in self._acknowledged:
                self.ledger.log.cursors[cursor_of_acknowledged(name)] = self._acknowledged[name]
        for durable in durables.values():
            if not durable.ends:
                self.save_durable(durable, dispatched, now)
        if self.ledger.is_scattered:
            self.ledger.gather(now)
