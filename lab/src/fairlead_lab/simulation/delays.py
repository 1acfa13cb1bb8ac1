"""The delays of messages: distributions over whole microseconds, the same on every machine.

Floating-point functions differ in their last bits from one library to another, so none is used to draw: a
delay is an integer drawn uniformly, or an entry drawn from a table that exact decimal arithmetic has made.

    Delay.of(seed, link, identity)   the same notification takes the same time on the same link, in every run

Delays that are drawn in the order of sending differ between two algorithms, whose messages differ. Where runs are
compared notification by notification, delays are keyed instead: each is a function of what it is the delay of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache
from itertools import chain
from random import Random
from typing import Annotated, Final, Literal, TypeAlias

from fairlead.configuration import Key
from fairlead.errors import ValueRefused
from fairlead_lab.routing.chance import seeded
from fairlead_lab.simulation.kinds import MS

__all__ = ["Delay", "DelayShape"]

DelayShape: TypeAlias = Literal["constant", "uniform", "exponential"]
_STEPS: Final = 4096
"""Of so many entries a table is made, and so many delays are drawn at a time."""


@dataclass(frozen=True, slots=True)
class Delay:
    """A delay of `least` microseconds, and beyond it one of mean `spread`, by the shape."""

    least: Annotated[int, Key("how long a message takes on a link, at least", MS, at="least_ms")] = 1_000
    spread: Annotated[int, Key("how much longer, on average", MS, at="spread_ms")] = 1_000
    shape: Annotated[
        DelayShape,
        Key("how the time beyond the least is spread: `constant`, `uniform`, `exponential`"),
    ] = "uniform"

    def __post_init__(self) -> None:
        if self.least < 0 or self.spread < 0:
            raise ValueRefused(f"a delay is not negative: {self.least}, {self.spread}")

    def drawn(self, random: Random) -> Callable[[], int]:
        """A function that draws delays."""
        least, spread = self.least, self.spread
        if self.shape == "constant" or not spread:
            fixed = least + spread
            return lambda: fixed
        if self.shape == "uniform":
            return _uniform(random, least, 2 * spread + 1)
        quantiles = _exponential(spread)
        return lambda: least + quantiles[random.randrange(_STEPS)]

    def of(self, seed: int, link: tuple[str, str], *identity: int | str) -> int:
        """The delay of what has this identity on a link: a function of the arguments."""
        least, spread = self.least, self.spread
        if self.shape == "constant" or not spread:
            return least + spread
        random = seeded("delay", seed, *link, *identity)
        if self.shape == "uniform":
            return least + random.randrange(2 * spread + 1)
        return least + _exponential(spread)[random.randrange(_STEPS)]


def _uniform(random: Random, least: int, count: int) -> Callable[[], int]:
    """Draws what `least + random.randrange(count)` draws, many at a time: there are millions of messages."""
    getrandbits, bits = random.getrandbits, count.bit_length()

    def draws() -> Iterator[list[int]]:
        while True:
            drawn = [getrandbits(bits) for _ in range(_STEPS)]
            yield [least + each for each in drawn if each < count]

    return chain.from_iterable(draws()).__next__


@cache
def _exponential(mean: int) -> tuple[int, ...]:
    """The middle of each of equally likely parts of an exponential distribution."""
    with localcontext() as context:
        context.prec = 20
        steps = Decimal(2 * _STEPS)
        return tuple(int(-mean * (1 - (2 * step + 1) / steps).ln()) for step in range(_STEPS))
