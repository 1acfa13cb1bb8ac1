"""What can go wrong, decided by the seed: nothing, unless asked for."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from fairlead.errors import ValueRefused

__all__ = ["NO_FAULTS", "Crash", "Faults", "Partition"]

_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Crash:
    """A broker stops at a time, forgets everything, and comes back empty at another; None: never."""

    broker: str
    at: int
    back: int | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """No message passes between these brokers and the others in [at, until)."""

    brokers: frozenset[str]
    at: int
    until: int


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares of messages, in parts per million, and what happens to brokers and links at which time."""

    loss_ppm: int = 0
    duplication_ppm: int = 0
    reordering_ppm: int = 0
    """A message that is reordered does not wait for those sent before it on its link."""
    crashes: tuple[Crash, ...] = ()
    partitions: tuple[Partition, ...] = ()

    def __post_init__(self) -> None:
        for ppm in (self.loss_ppm, self.duplication_ppm, self.reordering_ppm):
            if not 0 <= ppm <= _MILLION:
                raise ValueRefused(f"a share in parts per million is between 0 and a million, not {ppm}")

    def __bool__(self) -> bool:
        return self != NO_FAULTS

    def copies(self, random: Random) -> int:
        """How often a message arrives."""
        if self.loss_ppm and random.randrange(_MILLION) < self.loss_ppm:
            return 0
        if self.duplication_ppm and random.randrange(_MILLION) < self.duplication_ppm:
            return 2
        return 1

    def reorders(self, random: Random) -> bool:
        """Whether a message overtakes those before it."""
        return bool(self.reordering_ppm) and random.randrange(_MILLION) < self.reordering_ppm

    def separates(self, one: str, other: str, now: int) -> bool:
        """Whether a partition lies between two brokers."""
        return any(
            part.at <= now < part.until and (one in part.brokers) != (other in part.brokers)
            for part in self.partitions
        )


NO_FAULTS: Final = Faults()
