"""The schedule of faults: the same seed gives the same schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

__all__ = ["FAULTS", "Fault", "schedule"]

FAULTS: Final[dict[str, str]] = {
    "kill": "a broker is killed (-9) and started again",
    "truncate": "a broker is killed, and what its log has beyond the last sync is cut off, or torn",
    "restore": "a broker is killed, and goes on with a log that was restored from a backup",
    "pressure": "connections fill a broker's memory with frames that they do not finish",
    "pause": "a broker stands still (SIGSTOP), and goes on",
    "partition": "two brokers cannot reach each other: connections break, and none is made",
    "hold": "nothing gets through between two, and nobody is told",
    "delay": "what passes between two takes longer",
    "tear": "a connection breaks in the middle of a frame",
    "flip": "a bit of what passes between two brokers is flipped",
    "forge": "a relay with an offset that the log does not have is put into what passes between two brokers",
    "clone": "a copy of a broker's directory is run beside the broker",
    "silence": "a publisher gets no acknowledgements, and then loses its connection: it publishes again",
    "leave": "a subscriber goes away, and comes back",
    "crash": "a subscriber ends without a word, and begins anew from what it has accepted",
}
"""The faults by name."""
ABOUT_BROKERS: Final = frozenset({"kill", "truncate", "restore", "pressure", "pause"})
ABOUT_LINKS: Final = frozenset({"flip", "forge"})
"""Clients' frames have no checksums: there TLS protects."""
ABOUT_SUBSCRIBERS: Final = frozenset({"leave", "crash"})
WEIGHTS: Final = {"kill": 3, "truncate": 2}


@dataclass(frozen=True, slots=True)
class Fault:
    """At a time, in seconds from the beginning, something happens to someone, and lasts."""

    at_s: float
    kind: str
    target: str
    seconds: float


def schedule(
    seed: int,
    seconds: float,
    *,
    brokers: Sequence[str],
    links: Sequence[str],
    producers: Sequence[str],
    subscribers: Sequence[str],
    callers: Sequence[str] = (),
    per_second: float = 2.5,
) -> list[Fault]:
    """Faults over so many seconds, one or two at a time on average; the last ends with them.

    `callers` are the brokers that call another one: a copy of any other one would reach nobody.
    """
    rng = Random(seed)
    names, weights = list(FAULTS), [WEIGHTS.get(name, 1) for name in FAULTS]
    faults = []
    for _ in range(round(seconds * per_second)):
        kind = rng.choices(names, weights)[0]
        if kind in ABOUT_BROKERS:
            target = rng.choice(brokers)
        elif kind == "clone":
            target = rng.choice(callers or brokers)
        elif kind in ABOUT_LINKS:
            target = rng.choice(links)
        elif kind in ABOUT_SUBSCRIBERS:
            target = rng.choice(subscribers)
        elif kind == "silence":
            target = rng.choice(producers)
        else:
            target = rng.choice([*links, *links, *producers, *subscribers])
        at = rng.uniform(0, 0.9 * seconds)
        faults.append(Fault(at, kind, target, rng.uniform(0.05, min(1.5, seconds - at))))
    return sorted(faults, key=lambda fault: fault.at_s)
