"""The keys of `[security]` in a scenario; `secured` has what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from fairlead.configuration import Key, count, one_of
from fairlead_lab.simulation.kinds import MILLION, PPM

__all__ = ["NO_SECURITY", "SecurityPlan"]


@dataclass(frozen=True, slots=True)
class SecurityPlan:
    """The trust of clients in brokers, and of brokers in one another."""

    trusted_ppm: Annotated[int, Key("which share of brokers handles everything", PPM, at="trusted")] = MILLION
    parts: Annotated[
        int,
        Key(
            "into how many parts the values of `x` fall: other brokers handle one of them; 0: they handle nothing",
            count(0, 1_000),
        ),
    ] = 2
    untrusted: Annotated[
        str,
        Key(
            "what has no way of trusted brokers: `cut`: it does not arrive; `seal`: it passes sealed",
            one_of("cut", "seal"),
        ),
    ] = "cut"
    keys_ppm: Annotated[
        int | None,
        Key(
            "the last attribute is sealed, and this share of brokers has the key",
            PPM,
            at="keys",
            shown="nothing is sealed",
        ),
    ] = None
    tokens: Annotated[
        bool, Key("`true`: beside sealed values are tokens, by which brokers without the key decide `=`")
    ] = False

    @property
    def limits(self) -> bool:
        """Whether some broker is not trusted with everything."""
        return self.trusted_ppm < MILLION

    def __bool__(self) -> bool:
        return self.limits or self.keys_ppm is not None


NO_SECURITY: Final = SecurityPlan()
