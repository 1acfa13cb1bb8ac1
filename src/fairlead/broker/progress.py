"""Marks: how far a broker has got with what was published at each broker of the network.

A mark (origin, position) that a neighbour sends says: all that was published at the origin up to this position
and concerns you went before this. The law: when a broker has heard a mark, it has received every notification of
the origin up to the position for which the neighbour's table had it as a destination when the notification passed
there.

A broker hears a mark behind all that it speaks of, so that this is in its log, below the log's end at that time.
It sends the mark on to another neighbour when it has sent all that is below that offset and concerns it. Of its
own publications it sends a mark with the offset up to which it has sent them: positions are offsets, counted from
1. Marks are not logged; they are sent again over each new connection.

A state machine without input and output: `network` has the frames, and calls `marks` from time to time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from fairlead.errors import ProtocolError

__all__ = ["Mark", "Progress"]

ORIGINS_MAX: Final = 100_000
"""The number of brokers in a network of which marks are taken."""


class Mark(NamedTuple):
    """All that was published at the origin up to this position went before this."""

    origin: str
    position: int


class _Heard(NamedTuple):
    """A position that a neighbour has marked, and the log's end then."""

    position: int
    source: str
    end: int


class Progress:
    """The marks that a broker has heard, and which of them it has sent to whom."""

    __slots__ = ("_due", "_heard", "_name", "_sent")

    def __init__(self, name: str) -> None:
        self._name = name
        self._heard: dict[str, _Heard] = {}
        self._due: dict[str, dict[str, _Heard]] = {}
        """By neighbour and origin: the mark that it gets next. A later one does not take its place, or a neighbour
        that is always a little behind would get none."""
        self._sent: dict[str, dict[str, int]] = {}
        """By neighbour and origin: the position of the last mark on this connection."""

    @property
    def positions(self) -> dict[str, int]:
        """The positions up to which all that concerns this broker has arrived here, by the origin."""
        return {origin: heard.position for origin, heard in self._heard.items()}

    def position_of(self, origin: str) -> int:
        """The position up to which all of an origin that concerns this broker has arrived here."""
        heard = self._heard.get(origin)
        return 0 if heard is None else heard.position

    def next_hop(self, origin: str) -> str:
        """The neighbour by which an origin is reached; empty where none has marked anything of it."""
        heard = self._heard.get(origin)
        return "" if heard is None else heard.source

    def sent(self, to: str, origin: str) -> int:
        """The position in the last mark of an origin that a neighbour was sent over this connection."""
        return self._sent.get(to, {}).get(origin, 0)

    def hear(self, source: str, mark: Mark, end: int) -> None:
        """Take a mark from a neighbour; the log ends at this offset. ProtocolError: there are too many origins."""
        if mark.origin == self._name or not mark.origin:
            raise ProtocolError(f"a mark of {mark.origin or 'nobody'!r} comes from another broker")
        if len(self._heard) >= ORIGINS_MAX and mark.origin not in self._heard:
            raise ProtocolError(f"marks of more than {ORIGINS_MAX:,} brokers")
        self._heard[mark.origin] = _Heard(mark.position, source, end)

    def marks(self, to: str, passed: int) -> Iterator[Mark]:
        """The marks that are sent to a neighbour now, to which all below the offset `passed` has been sent that
        concerns it."""
        sent, due = self._sent.setdefault(to, {}), self._due.setdefault(to, {})
        if passed != sent.get(self._name, 0):
            sent[self._name] = passed
            yield Mark(self._name, passed)
        for origin, heard in self._heard.items():
            if to in (heard.source, origin):  # the origin may have been linked elsewhere before
                continue
            mark = heard if heard.end <= passed else due.setdefault(origin, heard)
            if mark.end > passed:
                continue
            if mark is heard:
                due.pop(origin, None)
            else:
                due[origin] = heard
            if mark.position != sent.get(origin):
                sent[origin] = mark.position
                yield Mark(origin, mark.position)

    def connect(self, to: str) -> None:
        """Begin a new connection with a neighbour, which has heard nothing over it."""
        self._sent.pop(to, None)

    def unlink(self, neighbour: str) -> None:
        """Forget a neighbour, and what it has said."""
        self.connect(neighbour)
        self._due.pop(neighbour, None)
        self._forget({origin for origin, heard in self._heard.items() if heard.source == neighbour})

    def take_back(self) -> None:
        """Forget all marks: some of what they speak of is in the log no more, and comes again."""
        self._forget(set(self._heard))

    def _forget(self, origins: set[str]) -> None:
        for origin in origins:
            del self._heard[origin]
            for due in self._due.values():
                due.pop(origin, None)
