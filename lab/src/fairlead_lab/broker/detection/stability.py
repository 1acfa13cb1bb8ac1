"""When an event may be consumed: detection policies (book 7.5.2).

    best effort   at once
    guaranteed    when it is stable: every source has told that all it publishes later is later. Sources that keep
                  still send heartbeats; one that fails stops the detection
    timeout       as guaranteed, but no source is waited for longer than that
    probable      as guaranteed, but no source is waited for longer than most of what it sent has taken so far: the
                  probability that something is still under way, estimated from the delays observed, is below
                  1 - threshold for all sources together

Law: if every source keeps what its heartbeats say, and what it sends keeps its order, nothing that ends before a
guaranteed bound comes later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from fairlead.errors import ValueRefused
from fairlead.model.order import BEGINNING, END

__all__ = ["Consume", "DetectionPolicy", "Stability"]

MILLION: Final = 1_000_000
DELAYS_MAX: Final = 512
"""The number of delays of a source that are remembered."""
DELAYS_LEAST: Final = 20
"""With fewer, nothing is estimated."""


class Consume(Enum):
    """When an event is consumed."""

    BEST_EFFORT = "best effort"
    GUARANTEED = "guaranteed"
    TIMEOUT = "timeout"
    PROBABLE = "probable"


@dataclass(frozen=True, slots=True)
class DetectionPolicy:
    """When an event is consumed, and what that takes."""

    consume: Consume = Consume.GUARANTEED
    timeout_us: int = 0
    threshold_ppm: int = 990_000
    """The probability that makes an event count as stable."""

    def __post_init__(self) -> None:
        if self.consume is Consume.TIMEOUT and self.timeout_us <= 0:
            raise ValueRefused("a timeout policy says how long a source is waited for")
        if not 0 < self.threshold_ppm < MILLION:
            raise ValueRefused(f"a probability lies between 0 and 1: {self.threshold_ppm} ppm")


@dataclass(slots=True)
class _Heard:
    """The knowledge about a source at one place."""

    until: int = BEGINNING
    """Nothing that comes later ends before this."""
    delays: deque[int] = field(default_factory=lambda: deque(maxlen=DELAYS_MAX))


class Stability:
    """The promises of a detector's sources, and the time up to which its stream is complete.

    Sources are groups of names: redundant detectors of one pattern are a group, of which one is enough. A source
    may move: whoever goes on takes its place when the old one has said its last word.
    """

    def __init__(self, policy: DetectionPolicy, groups: Iterable[frozenset[str]]) -> None:
        self._policy = policy
        self._groups = tuple(groups)
        self._heard: dict[str, _Heard] = {}
        self._host_of: dict[str, str] = {}
        """The host of a source now; its own name, unless it has moved or says otherwise."""

    @property
    def sources(self) -> frozenset[str]:
        """The names of all sources."""
        return frozenset(name for group in self._groups for name in group)

    def heard(self, source: str, host: str, until: int, now: int) -> None:
        """All that a source publishes at a place from here on ends from a time on."""
        self._host_of.setdefault(source, host)
        heard = self._heard.setdefault(host, _Heard())
        if until > heard.until:
            heard.until = until
            heard.delays.append(max(0, now - until))

    def moved(self, source: str, host: str, successor: str) -> None:
        """A source has said its last word at a place; what it has promised holds for the one that goes on."""
        if self._host_of.get(source) == host:
            self._host_of[source] = successor
            old, new = self._heard[host], self._heard.setdefault(successor, _Heard())
            new.until = max(new.until, old.until)

    def bound(self, now: int) -> int:
        """Up to here, exclusively, everything may be consumed."""
        return min((self._until(group, now) for group in self._groups), default=END)

    def _until(self, group: frozenset[str], now: int) -> int:
        places = [self._heard[self._host_of[name]] for name in sorted(group) if name in self._host_of]
        until = max((each.until for each in places), default=BEGINNING)
        patience = self._patience(places)
        return until if patience is None else max(until, now - patience)

    def _patience(self, places: list[_Heard]) -> int | None:
        """The time that a group is waited for; None: for ever."""
        if self._policy.consume is Consume.TIMEOUT:
            return self._policy.timeout_us
        if self._policy.consume is not Consume.PROBABLE:
            return None
        # The chance of being wrong is shared out among the groups, so that their sum stays below it.
        wrong_ppm = (MILLION - self._policy.threshold_ppm) // max(1, len(self._groups))
        waits = [
            sorted(each.delays)[-1 - len(each.delays) * wrong_ppm // MILLION]
            for each in places
            if len(each.delays) >= DELAYS_LEAST
        ]
        return max(waits, default=None)
