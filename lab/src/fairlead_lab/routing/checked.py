"""Strategies that assert their own invariants (book 4.5.6) after every step.

    strategy = checked(Covering())     the same algorithm; AssertionError where its table is not as it has to be

What the algorithms promise of T|H, the entries for a neighbour H, is the strategy's `breach`: it names the two
entries that it must not have together, or the one that must not be missing. With advertisements it is promised
of these alone: a subscription that has crossed an advertisement's end on its way stays behind (book 4.6.1), and
may cover others.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TypeVar

from fairlead.routing.interest import Interest
from fairlead.routing.strategy import Outcome, Strategy
from fairlead.routing.table import RoutingTable

__all__ = ["checked"]

AnyStrategy = TypeVar("AnyStrategy", bound=Strategy)


class _Checked(Strategy):
    """Stands before a strategy in the order of its classes."""

    def administer(
        self,
        table: RoutingTable,
        source: str,
        subscriptions: Sequence[Interest],
        unsubscriptions: Sequence[Interest],
    ) -> Outcome:
        outcome = super().administer(table, source, subscriptions, unsubscriptions)  # type: ignore[safe-super]
        told = outcome.neighbours if outcome.alike is None else outcome.alike[0]
        assert source not in told, f"{self.name}: what {source} said is told to itself"
        if source in table.neighbours:
            breach = self.breach(table, source)
            assert breach is None, f"{self.name}, entries for {source}: {breach}"
        return outcome


def checked(strategy: AnyStrategy) -> AnyStrategy:
    """The same strategy, which asserts its invariants."""
    kind = type(strategy)
    made = copy(strategy)
    made.__class__ = type(kind.__name__, (_Checked, kind), {})
    return made
