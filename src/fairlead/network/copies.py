"""Copies: in a redundant network a notification comes by every way there is, and is taken when it comes first.

On every way, and so in every log, the positions of one origin rise (`fairlead.broker.redundancy`). So a copy is
what is not beyond the last position that arrived of its origin. The origin has the incarnation of the log: where
the log was restored from an older copy, positions come again. What is of an earlier incarnation than the last that
arrived is a copy, too. What is in no log is counted by the life of the process that published it, and known as a
copy by that count, in memory alone.

A neighbour that sends a notification has it in its log, and is not sent it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from fairlead.errors import ProtocolError
from fairlead.log.records import STAMP_BYTES, origin_of, parse_origin, parse_relayed, parse_stamp, stamp
from fairlead.network.calling import Clock
from fairlead.network.persistence import Persistence

__all__ = ["Copies"]

LIVES_MAX: Final = 64
"""Of so many lives of one broker the last counts are known, the latest ones."""
_NUMBER: Final = 8
_UNNUMBERED: Final = bytes(_NUMBER)


class Copies:
    """The arrivals at one broker, by their origin."""

    def __init__(self, name: str, life: str, persistence: Persistence, clock: Clock) -> None:
        self.clock = clock
        self._arrived = persistence.state.arrived
        """By broker, the incarnation of its log, and the last position; both are in this log, too."""
        self._counts: dict[bytes, int] = {}
        """The last count of each life, of what is in no log."""
        self._had: dict[str, dict[bytes, int]] = {}
        """By neighbour and origin: the last position that has come over the connection that there is."""
        self._own = name.encode()
        self._life, self._count = origin_of(name, life), 0
        lineage = persistence.lineage
        self._firsts = [first for _, first in lineage]
        self._origins = [origin_of(name, incarnation) for incarnation, _ in lineage]

    # -- what is published here --------------------------------------------------------------------------

    def origin_at(self, offset: int) -> bytes:
        """The origin of a publication in this broker's log."""
        return self._origins[max(0, bisect_right(self._firsts, offset) - 1)]

    def relay_of(self, packed: bytes) -> bytes:
        """A publication that is in no log, as the relay that all neighbours are sent."""
        self._count += 1
        return b"".join((_UNNUMBERED, stamp(self._life, self._count), packed))

    # -- what comes --------------------------------------------------------------------------------------

    def is_new(self, neighbour: str, relay: bytes) -> bool:
        """Whether this has not come by another way; now it has."""
        origin, number, is_logged = _stamp_in(relay)
        broker, incarnation = parse_origin(origin)
        if not is_logged:
            return broker != self._own and self._is_next(broker, origin, number)
        self._had.setdefault(neighbour, {})[origin] = number
        last, reached = self._arrived.get(broker, (b"", 0))
        if broker == self._own or _order(incarnation, number) <= _order(last, reached):
            return False
        self._arrived[broker] = (incarnation, number)
        return True

    def _is_next(self, broker: bytes, life: bytes, count: int) -> bool:
        counts = self._counts
        if count <= counts.get(life, 0):
            return False
        if life not in counts:
            lives = [each for each in counts if parse_origin(each)[0] == broker]
            for each in lives[: max(0, len(lives) - LIVES_MAX + 1)]:
                del counts[each]
        counts[life] = count
        return True

    def give_back(self, relay: bytes) -> None:
        """Forget an arrival, and all behind it of its origin: they are not in the log after all."""
        origin, number, is_logged = _stamp_in(relay)
        broker, incarnation = parse_origin(origin)
        if is_logged and _order(incarnation, number) <= _order(*self._arrived.get(broker, (b"", 0))):
            self._arrived[broker] = (incarnation, number - 1)

    def has(self, neighbour: str, relay: bytes) -> bool:
        """Whether a neighbour has sent this, or something behind it of the same origin."""
        had = self._had.get(neighbour)
        if not had:
            return False
        origin, number, is_logged = _stamp_in(relay)
        return is_logged and number <= had.get(origin, 0)

    def connect(self, neighbour: str) -> None:
        """A new connection: nothing has come over it, whatever became of the neighbour's log."""
        self._had.pop(neighbour, None)

    @property
    def positions(self) -> dict[str, int]:
        """The positions up to which all that concerns this broker has arrived, by the origin."""
        return {broker.decode(errors="replace"): position for broker, (_, position) in self._arrived.items()}


def _stamp_in(relay: bytes) -> tuple[bytes, int, bool]:
    """The origin of a relay; its position, or its count; and whether it is in a log."""
    _, begin = parse_relayed(relay)
    raw = relay[_NUMBER:begin]
    origin, number = raw[STAMP_BYTES:], parse_stamp(raw).position
    if not (origin and number):
        raise ProtocolError("a relay without its origin, in a network with several ways")
    return origin, number, not relay.startswith(_UNNUMBERED)


def _order(incarnation: bytes, position: int) -> tuple[int, bytes, int]:
    """As publications of one broker follow one another (`fairlead.log.lineage.next_id`)."""
    return len(incarnation), incarnation, position
