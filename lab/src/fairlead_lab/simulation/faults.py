"""The faults of a run, decided by the seed: none, unless asked for."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Annotated, Final

from fairlead.configuration import Key, Kind, small_tables
from fairlead.errors import ValueRefused
from fairlead_lab.simulation.corruption import Corruption
from fairlead_lab.simulation.kinds import MILLION, MS, PPM, brokers

__all__ = ["NO_FAULTS", "Crash", "Faults", "Partition"]

CUT_OFF: Final = Kind(lambda given: frozenset(brokers(given)), sorted)


@dataclass(frozen=True, slots=True)
class Crash:
    """A broker stops at a time, forgets everything, and comes back empty at another; None: never."""

    broker: Annotated[str, Key("the broker that stops")]
    at: Annotated[int, Key("when it stops", MS, at="at_ms")]
    back: Annotated[int | None, Key("when it is back", MS, at="back_ms", shown="never")] = None

    def __post_init__(self) -> None:
        if self.back is not None and self.back <= self.at:
            raise ValueRefused(f"{self.broker} is back after {self.back} us, before it has gone")


@dataclass(frozen=True, slots=True)
class Partition:
    """No message passes between these brokers and the others in [at, until)."""

    brokers: Annotated[frozenset[str], Key("the brokers that are cut off", CUT_OFF)]
    at: Annotated[int, Key("when the partition begins", MS, at="at_ms")]
    until: Annotated[int, Key("when it ends", MS, at="until_ms")]

    def __post_init__(self) -> None:
        if self.until <= self.at:
            raise ValueRefused(f"a partition ends after {self.until} us, before it begins")


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares of messages, in parts per million, and what happens to brokers and links at which time."""

    loss_ppm: Annotated[int, Key("the share of messages that get lost", PPM, at="loss")] = 0
    duplication_ppm: Annotated[int, Key("the share that arrive twice", PPM, at="duplication")] = 0
    reordering_ppm: Annotated[int, Key("the share that overtake others", PPM, at="reordering")] = 0
    """A message that is reordered does not wait for those sent before it on its link."""
    crashes: Annotated[
        tuple[Crash, ...],
        Key(
            'brokers that stop and come back empty, such as `[{ broker = "B2", at_ms = 50, back_ms = 90 }]`',
            small_tables(Crash, '{ broker = "B2", at_ms = 50, back_ms = 90 }'),
        ),
    ] = ()
    partitions: Annotated[
        tuple[Partition, ...],
        Key(
            'brokers that are cut off, such as `[{ brokers = ["B2"], at_ms = 50, until_ms = 90 }]`',
            small_tables(Partition, '{ brokers = ["B2"], at_ms = 50, until_ms = 90 }'),
        ),
    ] = ()
    corruptions: Annotated[
        tuple[Corruption, ...],
        Key(
            'states that are damaged, such as `[{ broker = "B2", at_ms = 50, what = "entries", share = 0.5 }]`',
            small_tables(Corruption, '{ broker = "B2", at_ms = 50, what = "entries", share = 0.5 }'),
        ),
    ] = ()

    def __post_init__(self) -> None:
        for ppm in (self.loss_ppm, self.duplication_ppm, self.reordering_ppm):
            if not 0 <= ppm <= MILLION:
                raise ValueRefused(f"a share in parts per million is between 0 and a million, not {ppm}")

    def __bool__(self) -> bool:
        return self != NO_FAULTS

    @property
    def has_events(self) -> bool:
        """Whether something happens to brokers at given times."""
        return bool(self.crashes or self.corruptions)

    def copies(self, random: Random) -> int:
        """The number of times that a message arrives."""
        if self.loss_ppm and random.randrange(MILLION) < self.loss_ppm:
            return 0
        if self.duplication_ppm and random.randrange(MILLION) < self.duplication_ppm:
            return 2
        return 1

    def reorders(self, random: Random) -> bool:
        """Whether a message overtakes those before it."""
        return bool(self.reordering_ppm) and random.randrange(MILLION) < self.reordering_ppm

    def separates(self, one: str, other: str, now: int) -> bool:
        """Whether a partition lies between two brokers."""
        return any(
            part.at <= now < part.until and (one in part.brokers) != (other in part.brokers)
            for part in self.partitions
        )


NO_FAULTS: Final = Faults()
