"""The outflow to a destination: one state of a few that decides how notifications for it are handled.

A client, with its subscriptions that are not durable:

    open          notifications are sent at once
    backlogged    they are queued, behind those that could not be sent
    blocking      the queue is full, and the client is to miss nothing: senders wait

A neighbour, and a durable subscriber, have a cursor in the log:

    away          there is no connection; a durable subscriber's records may or may not wait in the log
    … idle        no record of the log waits for the durable subscriber: none is retained for it
    … awaited     the record at its cursor is known to be for it
    connected     there is one; the neighbour has not announced what it subscribes to
    catching up   it reads the log; what is in no log is dropped, and counted
    live          it has caught up: notifications are sent at once
    behind        it was live and reads the log again; of a neighbour, what is in no log is queued at its offset
    … blocking    senders of what is in no log wait for the neighbour

A state machine without input and output: `TABLES` have the transitions. A step that a state has no transition for
cannot happen in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias

__all__ = ["TABLES", "Outflow", "Step", "To", "rendered"]


class To(Enum):
    """The state of a destination; the value is its text."""

    OPEN = "open"
    BACKLOGGED = "backlogged"
    BLOCKING = "blocking"
    AWAY = "away"
    AWAY_IDLE = "away, idle"
    AWAY_AWAITED = "away, awaited"
    CONNECTED = "connected"
    CATCHING_UP = "catching up"
    LIVE = "live"
    LIVE_BLOCKING = "live, blocking"
    BEHIND = "behind"
    BEHIND_BLOCKING = "behind, blocking"

    __hash__ = object.__hash__


class Step(Enum):
    """An event that changes the state of a destination."""

    QUEUE = "a notification is queued"
    EMPTY = "the queue is empty"
    CONNECT = "a connection is made"
    ANNOUNCE = "the neighbour has announced what it subscribes to"
    PASS = "no record that is in the log is for it"
    MEET = "a record of the log is for it"
    CATCH_UP = "nothing is left to be read in the log"
    FALL_BEHIND = "there is no room for a record of the log"
    BLOCK = "senders have to wait"
    UNBLOCK = "there is room again"
    GIVE_UP = "senders wait no longer, until it has caught up"
    LOSE = "the connection has ended"

    __hash__ = object.__hash__


Table: TypeAlias = Mapping[To, Mapping[Step, To]]

CLIENT: Final[Table] = {
    To.OPEN: {Step.QUEUE: To.BACKLOGGED, Step.EMPTY: To.OPEN, Step.LOSE: To.AWAY},
    To.BACKLOGGED: {
        Step.QUEUE: To.BACKLOGGED,
        Step.BLOCK: To.BLOCKING,
        Step.EMPTY: To.OPEN,
        Step.LOSE: To.AWAY,
    },
    To.BLOCKING: {
        Step.QUEUE: To.BLOCKING,
        Step.BLOCK: To.BLOCKING,
        Step.EMPTY: To.OPEN,
        Step.LOSE: To.AWAY,
    },
    To.AWAY: {Step.LOSE: To.AWAY},
}

DURABLE: Final[Table] = {
    To.AWAY: {
        Step.CONNECT: To.BEHIND,
        Step.PASS: To.AWAY_IDLE,
        Step.MEET: To.AWAY_AWAITED,
        Step.LOSE: To.AWAY,
    },
    To.AWAY_IDLE: {Step.CONNECT: To.BEHIND, Step.MEET: To.AWAY_AWAITED, Step.LOSE: To.AWAY},
    To.AWAY_AWAITED: {Step.CONNECT: To.BEHIND, Step.LOSE: To.AWAY},
    To.BEHIND: {Step.CATCH_UP: To.LIVE, Step.LOSE: To.AWAY},
    To.LIVE: {Step.FALL_BEHIND: To.BEHIND, Step.LOSE: To.AWAY},
}

LINK: Final[Table] = {
    To.AWAY: {Step.CONNECT: To.CONNECTED, Step.LOSE: To.AWAY},
    To.CONNECTED: {Step.ANNOUNCE: To.CATCHING_UP, Step.LOSE: To.AWAY},
    To.CATCHING_UP: {
        Step.ANNOUNCE: To.CATCHING_UP,
        Step.CATCH_UP: To.LIVE,
        Step.LOSE: To.AWAY,
    },
    To.LIVE: {
        Step.ANNOUNCE: To.LIVE,
        Step.FALL_BEHIND: To.BEHIND,
        Step.BLOCK: To.LIVE_BLOCKING,
        Step.LOSE: To.AWAY,
    },
    To.LIVE_BLOCKING: {
        Step.ANNOUNCE: To.LIVE_BLOCKING,
        Step.FALL_BEHIND: To.BEHIND_BLOCKING,
        Step.BLOCK: To.LIVE_BLOCKING,
        Step.UNBLOCK: To.LIVE,
        Step.GIVE_UP: To.CATCHING_UP,
        Step.LOSE: To.AWAY,
    },
    To.BEHIND: {
        Step.ANNOUNCE: To.BEHIND,
        Step.CATCH_UP: To.LIVE,
        Step.BLOCK: To.BEHIND_BLOCKING,
        Step.LOSE: To.AWAY,
    },
    To.BEHIND_BLOCKING: {
        Step.ANNOUNCE: To.BEHIND_BLOCKING,
        Step.CATCH_UP: To.LIVE_BLOCKING,
        Step.BLOCK: To.BEHIND_BLOCKING,
        Step.GIVE_UP: To.CATCHING_UP,
        Step.LOSE: To.AWAY,
    },
}

TABLES: Final = {"client": CLIENT, "durable": DURABLE, "link": LINK}
LIVE: Final = frozenset({To.LIVE, To.LIVE_BLOCKING})
READY: Final = frozenset({To.CATCHING_UP, To.LIVE, To.LIVE_BLOCKING, To.BEHIND, To.BEHIND_BLOCKING})
QUEUES: Final = frozenset({To.BACKLOGGED, To.BLOCKING, To.BEHIND, To.BEHIND_BLOCKING})
BLOCKING: Final = frozenset({To.BLOCKING, To.LIVE_BLOCKING, To.BEHIND_BLOCKING})


class Outflow:
    """The state of one destination. Its consequences, which are needed for every notification, are stored."""

    __slots__ = ("_table", "is_blocking", "is_live", "is_ready", "queues", "state")

    def __init__(self, kind: str, state: To) -> None:
        self._table = TABLES[kind]
        self._enter(state)

    def on(self, step: Step) -> None:
        """Take one step. KeyError if it cannot happen in this state."""
        self._enter(self._table[self.state][step])

    def _enter(self, state: To) -> None:
        self.state = state
        self.is_live = state in LIVE
        """Whether notifications are sent at once, as they are released by the log."""
        self.is_ready = state in READY
        """Whether notifications may be sent at all."""
        self.queues = state in QUEUES
        """Whether what is in no log is queued, for a neighbour at its offset; what cannot be sent in another state
        is dropped."""
        self.is_blocking = state in BLOCKING
        """Whether senders wait."""

    def __str__(self) -> str:
        return self.state.value


def rendered(kind: str) -> str:
    """A table as text: a line for each state, with the steps that lead to another one."""
    lines = []
    for state, row in TABLES[kind].items():
        lines.append(state.value)
        lines += [f"    {step.name.lower()} ─▶ {to.value}" for step, to in row.items() if to is not state]
    return "\n".join(lines)
