"""The cost of leases against flooding, at equilibrium, as formulas (book 8.2.3, Fig. 8.6).

The overlay is a full tree with hierarchical identity-based routing. N subscriptions to one of `classes` filters
are at random leaves and end after a time 1/μ; ω notifications are published in a second at random leaves;
clients renew every ρ. With s_k for the share of the leaves below a broker of level k, the chance that nobody
there asks for a filter is e^(-N·s_k/classes). Per second

    saved      messages of notifications that flooding sends and routing does not
    renewals   messages of renewals, and of subscriptions that begin and end

Leases pay as long as they save more than they cost: up to a number of subscriptions, the crossing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

__all__ = ["LeaseCosts"]


@dataclass(frozen=True, slots=True)
class LeaseCosts:
    """The costs in a full tree; times in seconds, rates per second. The defaults are those of the book's
    experiment."""

    publications: float = 1_000.0
    """ω."""
    refresh: float = 60.0
    """ρ."""
    lifetime: float = 600.0
    """1/μ."""
    fanout: int = 3
    levels: int = 5
    classes: int = 1_000

    def _levels(self) -> list[tuple[int, int, float]]:
        """By level below the root: how many brokers, how many of their links a flooded notification goes down
        without need, and the subscriptions of one broker's subtree per class and subscription."""
        leaves = self.fanout ** (self.levels - 1)
        return [
            (self.fanout**level, self.fanout**level - 1, self.fanout ** (self.levels - 1 - level) / leaves)
            for level in range(1, self.levels)
        ]

    def saved(self, subscriptions: float) -> float:
        """The messages that routing saves: each publication climbs to the root, and goes down elsewhere only where
        somebody asks for it."""
        return self.publications * sum(
            links * self._silent(subscriptions, share) for _, links, share in self._levels()
        )

    def renewals(self, subscriptions: float) -> float:
        """The messages of leases and of changes."""
        renewed = sum(
            brokers * (1 - self._silent(subscriptions, share)) for brokers, _, share in self._levels()
        )
        changed = sum(self._silent(subscriptions, share) for _, _, share in self._levels())
        return self.classes / self.refresh * renewed + 2 * subscriptions / self.lifetime * changed

    def _silent(self, subscriptions: float, share: float) -> float:
        """The chance that nobody in a subtree asks for a filter."""
        return exp(-subscriptions * share / self.classes)

    def crossing(self) -> float:
        """The number of subscriptions from which on leases cost more than they save."""
        low, high = 0.0, 1.0
        while self.saved(high) > self.renewals(high):
            high *= 2
        while high - low > 1:
            middle = (low + high) / 2
            low, high = (middle, high) if self.saved(middle) > self.renewals(middle) else (low, middle)
        return low
