"""Distribution policies: which parts of a pattern are detected where (book 7.5.2, Fig. 7.12 and Table 7.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

__all__ = ["CENTRALISED", "POLICIES", "TABLE_7_1", "Decomposition", "DistributionPolicy", "Locality", "Reuse"]


class Decomposition(Enum):
    """Into how many parts an expression falls."""

    NONE = "none"
    FOR_REUSE = "for reuse only"
    MAX = "max"


class Reuse(Enum):
    """The choice among the detectors that are there already."""

    WITH_LOCALITY = "with locality only"
    AT_LEAST_2 = "at least 2"
    MAX = "max"


class Locality(Enum):
    """The choice of a broker for a new detector."""

    SUBSCRIBERS = "subscribers"
    PUBLISHERS = "publishers"
    NONE = "none"
    """Anywhere: the load is spread."""
    CENTRE = "centre"
    """At one broker, for all."""


@dataclass(frozen=True, slots=True)
class DistributionPolicy:
    """A point of the design space."""

    name: str
    decomposition: Decomposition
    reuse: Reuse
    locality: Locality


TABLE_7_1: Final = (
    DistributionPolicy("minimum latency", Decomposition.NONE, Reuse.WITH_LOCALITY, Locality.SUBSCRIBERS),
    DistributionPolicy("minimum bandwidth", Decomposition.FOR_REUSE, Reuse.MAX, Locality.PUBLISHERS),
    DistributionPolicy("minimum impact", Decomposition.FOR_REUSE, Reuse.MAX, Locality.NONE),
    DistributionPolicy("minimum load", Decomposition.MAX, Reuse.MAX, Locality.NONE),
    DistributionPolicy("maximum reliability", Decomposition.FOR_REUSE, Reuse.AT_LEAST_2, Locality.NONE),
)
CENTRALISED: Final = DistributionPolicy("centralised", Decomposition.NONE, Reuse.MAX, Locality.CENTRE)
"""One place for everything (book 7.5.1)."""
POLICIES: Final[Mapping[str, DistributionPolicy]] = MappingProxyType(
    {policy.name: policy for policy in (CENTRALISED, *TABLE_7_1)}
)
