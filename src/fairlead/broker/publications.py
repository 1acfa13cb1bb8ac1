"""Log, sync, then send: the life of a publication, one program for the simulator and the sockets.

    admitted ──▶ appended ──▶ synced ──▶ forwarded and delivered ──▶ acknowledged
       │                        ▲
       ├─ not to be logged ─────┘          at once, unless something before it waits for the log
       └─ duplicate ───────────────▶ answered, after what came before it

    the log has no room ──▶ refused

A publication with a number is to be logged and acknowledged; one without (0) is neither. What arrives from a
neighbour is the same: its number is its offset in the neighbour's log, counted from 1.

The promises:

- A notification leaves only after its record is synced, in the order of the log.
- Nothing overtakes what waits for the log: what comes behind it waits, too.
- A duplicate is answered, not published again.
- What the log has no room for is refused, and what was refused may be published again.

The program is batch-shaped: a batch is what one client or neighbour said in one turn, and one sync releases many
(group commit). It looks at no content: a notification, or its packed bytes, is handed on as it came. It performs
nothing but `Log.append`, and yields effects, to be carried out in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

__all__ = [
    "NO_OFFSET",
    "AcknowledgeAll",
    "AnswerDuplicates",
    "Append",
    "Effect",
    "Entry",
    "Log",
    "Logged",
    "Pending",
    "Publications",
    "Run",
    "SendOn",
]

Origin = TypeVar("Origin")
"""A client or a neighbour, as the driver knows it."""
Routed = TypeVar("Routed")
"""A route, as the driver knows it."""
Content = TypeVar("Content")
"""A notification, or its packed bytes."""
_Origin_contra = TypeVar("_Origin_contra", contravariant=True)

_number: Final = itemgetter(2)
NO_OFFSET: Final = -1
"""Of a notification that is in no log."""

Entry: TypeAlias = tuple[Routed | None, Content, int]
"""One admitted notification: its route, or None where it is a duplicate; its content; its number."""
Append: TypeAlias = Callable[[list[tuple[Content, int]]], Iterable[int]]
"""Appends contents with their numbers, all or none; their offsets. LogFull: none."""
Logged: TypeAlias = tuple[int, Routed, Content, int]
"""The same, with its offset in the log, or NO_OFFSET."""


class Log(Protocol[_Origin_contra, Content]):
    """The log that the program appends to. Offsets grow."""

    @property
    def end(self) -> int:
        """The offset of the next record."""

    def append(self, origin: _Origin_contra, records: list[tuple[Content, int]], now: int) -> Iterable[int]:
        """Append contents with their numbers, all or none; their offsets. LogFull: none."""


@dataclass(slots=True)
class Pending(Generic[Origin, Routed, Content]):
    """The steps to perform when the log is synced up to and including an offset."""

    offset: int
    origin: Origin | None = None
    number: int = 0
    """Up to which the origin is acknowledged then."""
    entries: list[Logged[Routed, Content]] = field(default_factory=list)
    duplicates: list[Entry[Routed, Content]] = field(default_factory=list)
    then: Callable[[], None] | None = None
    cursors: int = 0
    """The number of changes of the log's cursors that have to be synced as well."""


class SendOn(NamedTuple, Generic[Origin, Routed, Content]):
    """Forward and deliver these, which all came from one origin, along their routes."""

    origin: Origin
    entries: list[Logged[Routed, Content]]


class AnswerDuplicates(NamedTuple, Generic[Origin, Routed, Content]):
    """Acknowledge duplicates. They are as durable as the first publication."""

    origin: Origin
    entries: list[Entry[Routed, Content]]


class Run(NamedTuple):
    """Something else has waited for the log."""

    then: Callable[[], None]


class AcknowledgeAll(NamedTuple, Generic[Origin]):
    """All of this origin's publications up to this number are synced, and sent on."""

    origin: Origin
    number: int


Effect: TypeAlias = (
    AcknowledgeAll[Origin] | SendOn[Origin, Routed, Content] | AnswerDuplicates[Origin, Routed, Content] | Run
)


class Publications(Generic[Origin, Routed, Content]):
    """The publications of one broker between their admission and their end. Without a log nothing has to wait."""

    def __init__(self, log: Log[Origin, Content] | None) -> None:
        self._log = log
        self.reached = self.end
        """The first offset that has not been sent on."""
        self.pending: Final[deque[Pending[Origin, Routed, Content]]] = deque()

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return 0 if self._log is None else self._log.end

    # -- in ----------------------------------------------------------------------------------------------------

    def commit(
        self,
        origin: Origin,
        entries: list[Entry[Routed, Content]],
        now: int,
        append: Append[Content] | None = None,
    ) -> int:
        """Append a batch; returns how many of it are new. If the log raises, nothing of the batch is admitted.

        `append` takes the place of the log's own, for a batch that is in the log as a whole, or not at all.
        """
        new = [each for each in entries if each[0] is not None]
        logged = [each for each in new if each[2]] if self._log is not None else []
        offsets: Iterator[int] = iter(())
        if logged:
            assert self._log is not None
            records = [each[1:] for each in logged]
            offsets = iter(self._log.append(origin, records, now) if append is None else append(records))
        pending = [
            (next(offsets) if number and logged else NO_OFFSET, route, content, number)
            for route, content, number in entries
            if route is not None
        ]
        duplicates = [each for each in entries if each[0] is None] if len(new) < len(entries) else []
        number = max(map(_number, entries))
        self.pending.append(Pending(self.end - 1, origin, number, pending, duplicates))
        return len(new)

    def after_sync(self, then: Callable[[], None] | None, cursors: int = 0) -> None:
        """Do this when all that has been appended is synced, and so many changes of cursors."""
        self.pending.append(Pending(self.end - 1, then=then, cursors=cursors))

    # -- out ---------------------------------------------------------------------------------------------------

    def synced(self, synced: int, cursors: int = 0) -> Iterator[Effect[Origin, Routed, Content]]:
        """The log is synced below this offset, and so many changes of its cursors are."""
        pending = self.pending
        acknowledged: dict[Origin, int] = {}
        while pending and (
            self._log is None or (pending[0].offset < synced and pending[0].cursors <= cursors)
        ):
            each = pending.popleft()
            if each.origin is not None:
                if each.number:
                    acknowledged[each.origin] = max(acknowledged.get(each.origin, 0), each.number)
                if each.entries:
                    yield SendOn(each.origin, each.entries)
                if each.duplicates:
                    yield AnswerDuplicates(each.origin, each.duplicates)
            self.reached = max(self.reached, each.offset + 1)
            if each.then is not None:
                yield Run(each.then)
        if not pending:
            self.reached = max(self.reached, synced)
        for origin, number in acknowledged.items():
            yield AcknowledgeAll(origin, number)

    # -- no room -----------------------------------------------------------------------------------------------

    def take_back(
        self, end: int
    ) -> Iterator[tuple[Pending[Origin, Routed, Content], list[Logged[Routed, Content]]]]:
        """The log ends here, before what was appended: each batch that is concerned, and what is not in the log.

        What waits for something else goes on waiting: changes of state have been appended anew.
        """
        waiting = list(self.pending)
        self.pending.clear()
        for each in waiting:
            if each.offset >= end:
                each.offset = end - 1 if each.then is None else self.end - 1
                gone = [entry for entry in each.entries if entry[0] >= end]
                each.entries = [entry for entry in each.entries if entry[0] < end]
                if each.origin is not None:
                    yield each, gone
            self.pending.append(each)  # at its place: what was written before it is answered before it
