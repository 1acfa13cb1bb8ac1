"""The inflow of a connection: what is read from it, and when, as one state of a few.

    reading          frames are handled as they arrive
    waiting          frames are held, and handled when the connection has a turn
    blocked          frames are held: the first one is for a destination that is too slow
    choked           a client does not read its answers: nothing more is read from it until it has
    over the limit   a neighbour has more bytes held than the limit: nothing more is read until it has had a turn
    ended            nothing is handled any more

A state machine without input and output: `TABLES` have the transitions of a client's and of a neighbour's
connection, `READS` and `DUE` what follows from a state. An event that a state has no transition for cannot happen
in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, TypeAlias

__all__ = ["CLIENT", "DUE", "LINK", "READS", "TABLES", "Event", "Frame", "Inflow", "State", "rendered"]

Frame: TypeAlias = tuple[int, bytes]


class State(Enum):
    """The state of a connection; the value is its text."""

    READING = "reading"
    WAITING = "waiting for its turn"
    BLOCKED = "blocked"
    CHOKED = "choked by unread answers"
    CHOKED_WAITING = "choked by unread answers, waiting"
    CHOKED_BLOCKED = "choked by unread answers, blocked"
    FULL_WAITING = "over the limit, waiting for its turn"
    FULL_BLOCKED = "over the limit, blocked"
    ENDED = "ended"

    __hash__ = object.__hash__  # Enum's takes long, and states are looked up with every frame


class Event(Enum):
    """An event that changes the state of a connection."""

    HOLD = "frames are pending"
    BLOCK = "frames are pending, the first one for a slow destination"
    UNBLOCK = "the destination has caught up, or is disconnected"
    CHOKE = "too many answers are unread"
    UNCHOKE = "enough answers have been read"
    FILL = "more bytes are pending than the limit"
    TURN = "its turn has come: pending frames are handled"
    END = "the connection has ended"

    __hash__ = object.__hash__


Table: TypeAlias = Mapping[State, Mapping[Event, State]]

_ENDED: Final = {State.ENDED: dict.fromkeys(Event, State.ENDED)}


def _ending(table: dict[State, dict[Event, State]]) -> Table:
    """The table, with the end: it may come in every state."""
    return {state: {**row, Event.END: State.ENDED} for state, row in table.items()} | _ENDED


CLIENT: Final = _ending(
    {
        State.READING: {
            Event.HOLD: State.WAITING,
            Event.BLOCK: State.BLOCKED,
            Event.CHOKE: State.CHOKED,
        },
        State.WAITING: {
            Event.HOLD: State.WAITING,
            Event.CHOKE: State.CHOKED_WAITING,
            Event.TURN: State.READING,
        },
        State.BLOCKED: {
            Event.HOLD: State.BLOCKED,
            Event.UNBLOCK: State.WAITING,
            Event.CHOKE: State.CHOKED_BLOCKED,
        },
        State.CHOKED: {
            Event.HOLD: State.CHOKED_WAITING,
            Event.BLOCK: State.CHOKED_BLOCKED,
            Event.CHOKE: State.CHOKED,
            Event.UNCHOKE: State.READING,
        },
        State.CHOKED_WAITING: {
            Event.HOLD: State.CHOKED_WAITING,
            Event.CHOKE: State.CHOKED_WAITING,
            Event.UNCHOKE: State.WAITING,
        },
        State.CHOKED_BLOCKED: {
            Event.HOLD: State.CHOKED_BLOCKED,
            Event.UNBLOCK: State.CHOKED_WAITING,
            Event.CHOKE: State.CHOKED_BLOCKED,
            Event.UNCHOKE: State.BLOCKED,
        },
    }
)
"""A client is read from while nothing of it is held, and while it reads its answers."""

LINK: Final = _ending(
    {
        State.READING: {
            Event.HOLD: State.WAITING,
            Event.BLOCK: State.BLOCKED,
        },
        State.WAITING: {
            Event.HOLD: State.WAITING,
            Event.FILL: State.FULL_WAITING,
            Event.TURN: State.READING,
        },
        State.BLOCKED: {
            Event.HOLD: State.BLOCKED,
            Event.UNBLOCK: State.WAITING,
            Event.FILL: State.FULL_BLOCKED,
        },
        State.FULL_WAITING: {
            Event.HOLD: State.FULL_WAITING,
            Event.FILL: State.FULL_WAITING,
            Event.TURN: State.READING,
        },
        State.FULL_BLOCKED: {
            Event.HOLD: State.FULL_BLOCKED,
            Event.UNBLOCK: State.FULL_WAITING,
            Event.FILL: State.FULL_BLOCKED,
        },
    }
)
"""A neighbour is read from past what is held, up to a limit: what it says of itself is handled at once."""

TABLES: Final = {"client": CLIENT, "link": LINK}
BLOCKED: Final = frozenset({State.BLOCKED, State.CHOKED_BLOCKED, State.FULL_BLOCKED})
CHOKED: Final = frozenset({State.CHOKED, State.CHOKED_WAITING, State.CHOKED_BLOCKED})
DUE: Final = frozenset({State.WAITING, State.FULL_WAITING})
"""The states in which a connection waits for its turn."""
READS: Final = {
    "client": frozenset({State.READING}),
    "link": frozenset({State.READING, State.WAITING, State.BLOCKED}),
}
"""The states in which a connection is read from."""


class Inflow:
    """The state of one connection, and the frames that are held. `limit` is that of a neighbour, in bytes.

    The consequences of the state that are needed for every publication are stored.
    """

    __slots__ = ("_limit", "_reads", "_table", "frames", "has_ended", "is_open", "size", "state")

    def __init__(self, kind: str, limit: int | None = None) -> None:
        self._table, self._reads, self._limit = TABLES[kind], READS[kind], limit
        self._enter(State.READING)
        self.frames: list[Frame] = []
        """Those that are held, in their order."""
        self.size = 0
        """Their bytes."""

    def on(self, event: Event) -> None:
        """Take one step. KeyError if the event cannot happen in this state."""
        self._enter(self._table[self.state][event])

    def _enter(self, state: State) -> None:
        self.state = state
        self.is_open = state is State.READING
        """Whether frames are handled as they arrive."""
        self.has_ended = state is State.ENDED
        """Whether the connection has ended."""

    def hold(self, frames: Iterable[Frame], *, blocked: bool = False) -> None:
        """Hold frames back: the first one is for a slow destination, if it is `blocked`."""
        if self.has_ended:
            return
        more = list(frames)
        self.frames += more
        self.size += sum(len(payload) for _, payload in more)
        self.on(Event.BLOCK if blocked else Event.HOLD)
        if self._limit is not None and self.size > self._limit:
            self.on(Event.FILL)

    def take(self) -> list[Frame]:
        """The frames that are held, in its turn; none are held after."""
        self.on(Event.TURN)
        frames, self.frames, self.size = self.frames, [], 0
        return frames

    def end(self) -> None:
        """Nothing is handled any more."""
        self.on(Event.END)
        self.frames, self.size = [], 0

    @property
    def is_read(self) -> bool:
        """Whether the connection is read from."""
        return self.state in self._reads

    @property
    def is_due(self) -> bool:
        """Whether it waits for its turn."""
        return self.state in DUE

    @property
    def is_blocked(self) -> bool:
        """Whether its first frame is for a destination that is too slow."""
        return self.state in BLOCKED

    @property
    def is_choked(self) -> bool:
        """Whether it does not read its answers."""
        return self.state in CHOKED

    def __str__(self) -> str:
        return self.state.value


def rendered(kind: str) -> str:
    """A table as text: a line for each state, with the events that lead to another one."""
    lines = []
    for state, row in TABLES[kind].items():
        steps = [f"{event.name.lower()} ─▶ {to.value}" for event, to in row.items() if to is not state]
        mark = "read" if state in READS[kind] else "    "
        lines.append(f"{mark}  {state.value}")
        lines += [f"          {step}" for step in steps]
    return "\n".join(lines)
