"""Leasing periods, and how long it takes to recover from any state: the book's bounds, and corrected ones.

With d for the diameter of the overlay, ρ for the refresh period of clients, π for the leasing period and a link
delay between δmin and δmax:

| algorithm                   | condition on π           | recovers within, printed | corrected           |
| --------------------------- | ------------------------ | ------------------------ | ------------------- |
| flooding                    | π > ρ + d(δmax - δmin)   | max(2π, d·δmax)          | 2π + d·δmax         |
| simple                      | likewise                 | 2π + d(δmax - δmin)      | 2π + d·δmax         |
| identity, covering          | likewise                 | 2π + d(δmax - δmin)      | 2π + d(δmax + δmin) |
| the same, `covers = "any"`  | likewise                 | 2π + d(δmax - δmin)      | 2π + ρ + 2d·δmax    |
| merging, imperfect          | likewise                 | 2π + d(δmax - δmin)      | 4π + 2d·δmax        |
| rebuilding                  | π >= ρ + 2d·δmax         | 2π + d·δmax              | 2π + 2d·δmax        |

After two periods nobody has an entry that is not renewed, but mergers that were made until then may have parts
that nobody renews: these go within two more. The bound of merging is measured, not derived. With advertisements a
subscription follows an advertisement, with its next renewal: leases take ρ + d·δmax longer, and rebuilding needs
π >= ρ + 3d·δmax. The printed bounds leave out messages that are in flight when the fault happens; all times are
whole microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.errors import ValueRefused
from fairlead_lab.routing.leased import Covers

__all__ = ["Leases", "Rebuilding"]


@dataclass(frozen=True, slots=True)
class Leases:
    """The periods of leases in an overlay, checked: a leasing period that loses entries without a fault is
    refused."""

    refresh: int
    """ρ: clients renew each of their subscriptions so often."""
    lease: int
    """π: entries have to be renewed so often."""
    delay_min: int
    delay_max: int
    diameter: int
    covers: Covers = "fresh"
    advertises: bool = False

    def __post_init__(self) -> None:
        if self.lease < self.least_lease(self.refresh, self.delay_min, self.delay_max, self.diameter):
            raise ValueRefused(
                f"a leasing period of {self.lease} us is too short: entries are renewed every {self.refresh} us, "
                f"and the delay of {self.diameter} links varies by "
                f"{self.diameter * (self.delay_max - self.delay_min)} us",
                hint='lease = "auto" computes it',
            )

    @staticmethod
    def least_lease(refresh: int, delay_min: int, delay_max: int, diameter: int) -> int:
        """The shortest leasing period: π > ρ + d(δmax - δmin)."""
        return refresh + diameter * (delay_max - delay_min) + 1

    @classmethod
    def automatic(
        cls,
        refresh: int,
        delay_min: int,
        delay_max: int,
        diameter: int,
        covers: Covers = "fresh",
        *,
        advertises: bool = False,
    ) -> Leases:
        """The leases with the shortest leasing period."""
        lease = cls.least_lease(refresh, delay_min, delay_max, diameter)
        return cls(refresh, lease, delay_min, delay_max, diameter, covers, advertises)

    @classmethod
    def within(cls, recovery: int, delay_min: int, delay_max: int, diameter: int) -> Leases:
        """The longest periods of simple routing that recover within a time."""
        lease = (recovery - diameter * delay_max) // 2
        refresh = lease - diameter * (delay_max - delay_min) - 1
        if refresh <= 0:
            raise ValueRefused(f"nothing recovers within {recovery} us over {diameter} links")
        return cls(refresh, lease, delay_min, delay_max, diameter)

    def bound(self, strategy: str) -> int:
        """The time within which tables of an algorithm recover from any state."""
        following = self.refresh + self.diameter * self.delay_max if self.advertises else 0
        return self._bound(strategy) + following

    def _bound(self, strategy: str) -> int:
        twice, d = 2 * self.lease, self.diameter
        if strategy in ("flooding", "simple"):
            return twice + d * self.delay_max
        if strategy in ("merging", "imperfect"):
            return 2 * twice + 2 * d * self.delay_max
        if self.covers != "fresh":
            return twice + self.refresh + 2 * d * self.delay_max
        return twice + d * (self.delay_max + self.delay_min)

    def printed_bound(self, strategy: str) -> int:
        """The same as the book has it."""
        if strategy == "flooding":
            return max(2 * self.lease, self.diameter * self.delay_max)
        return 2 * self.lease + self.diameter * (self.delay_max - self.delay_min)


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """The periods of routing tables that are built anew in turns (Lemma 8.1, Theorem 8.1)."""

    refresh: int
    period: int
    """π: the root switches to the other table so often."""
    delay_max: int
    diameter: int
    root: str
    advertises: bool = False

    def __post_init__(self) -> None:
        least = self.least_period(self.refresh, self.delay_max, self.diameter, advertises=self.advertises)
        if self.period < least:
            raise ValueRefused(
                f"a period of {self.period} us is too short: a table is complete after {least} us",
                hint='period = "auto" computes it',
            )

    @staticmethod
    def least_period(refresh: int, delay_max: int, diameter: int, *, advertises: bool = False) -> int:
        """The shortest period: π >= ρ + 2d·δmax, or ρ + 3d·δmax where subscriptions follow advertisements."""
        return refresh + (3 if advertises else 2) * diameter * delay_max

    @property
    def bound(self) -> int:
        """The time within which tables recover from any state."""
        return 2 * self.period + 2 * self.diameter * self.delay_max

    @property
    def printed_bound(self) -> int:
        """The same as the book has it."""
        return 2 * self.period + self.diameter * self.delay_max
