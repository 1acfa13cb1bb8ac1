"""A strategy that is checked asserts the invariants of its algorithm itself (book 4.5.6)."""

from __future__ import annotations

import pytest
from routing_mutants import KeepsTheCovered
from routing_scenarios import STRATEGIES

from fairlead.filters import parse
from fairlead.matching import engine_named
from fairlead.routing import (
    Catalogue,
    Covering,
    Flooding,
    Identity,
    Interest,
    Merging,
    Outcome,
    RoutingTable,
    Strategy,
)
from fairlead_lab.routing import checked


class KeepsTheIdentical(Identity):
    @staticmethod
    def _remove(table: RoutingTable, interest: Interest, source: str) -> None:
        pass


class LosesItsMergers(Merging):
    @staticmethod
    def _absorb(table: RoutingTable, source: str, merger: Interest, parts: dict[Interest, None]) -> None:
        table.mergers.setdefault(source, {})[Interest(parse("price = 99"))] = parts


class SaysItBack(Covering):
    @staticmethod
    def _but(source: str, neighbours: object) -> list[str]:
        return ["B1", "B2"]


class ForgetsEverything(Flooding):
    def administer(self, table: RoutingTable, source: str, *change: object) -> Outcome:
        table.remove_all(list(table.of(source)), source)
        return Outcome()


def told(strategy: Strategy) -> None:
    table = RoutingTable(Catalogue(engine_named("brute")))
    for neighbour in ("B1", "B2"):
        table.add_neighbour(neighbour)
        for interest in strategy.initial():
            table.add(interest, neighbour)
    for text in (
        "price in [3, 4]",
        "price >= 3 and price <= 4",
        "price in [0, 9]",
        "price = 12",
    ):
        strategy.administer(table, "B1", (Interest(parse(text)),), ())


@pytest.mark.parametrize("name", STRATEGIES)
def test_it_is_the_same_strategy_and_an_honest_one_has_nothing_to_say(name: str) -> None:
    strategy = STRATEGIES[name]()
    made = checked(strategy)
    assert isinstance(made, type(strategy))
    assert made.name == strategy.name
    told(made)


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        (KeepsTheIdentical(), "identical"),
        (KeepsTheCovered(), "which covers it"),
        (LosesItsMergers(), "which was made of"),
        (SaysItBack(), "told to itself"),
        (ForgetsEverything(), "not everything"),
    ],
)
def test_a_broken_one_is_stopped_at_the_step_that_breaks_it(strategy: Strategy, said: str) -> None:
    told(strategy)
    with pytest.raises(AssertionError, match=said):
        told(checked(strategy))
