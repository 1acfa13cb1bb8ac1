"""All path filters in one automaton: shared prefixes, one walk over the tree, conditions early or late."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import testing
from fairlead.filters.filter import EVERYTHING
from fairlead.filters.language import parse
from fairlead.filters.paths import Path, Selection
from fairlead.model import Notification
from fairlead_lab.matching.automaton import Automaton, PathAutomaton

AUCTION = Notification.of(
    {
        "minprice": 50,
        "auction": {
            "seller": {"name": "Smith", "id": 1234},
            "item": [
                {"board": {"manufacturer": "Elitegroup", "socket": "Socket A"}},
                {"cpu": {"manufacturer": "AMD", "type": "Athlon", "clock": 800}},
            ],
        },
    }
)
EARLY_AND_LATE = pytest.mark.parametrize("predicates", ["early", "late"])


def of(predicates: Literal["early", "late"] = "late", **filters: str) -> Automaton[str]:
    engine: Automaton[str] = Automaton(predicates)
    for id, text in filters.items():
        engine.add(id, parse(text))
    return engine


def test_paths_that_begin_alike_share_states() -> None:
    engine = of(
        F1="/notification/auction/item",
        F2="/notification/auction/item/cpu[@clock >= 700]",
        F3="/notification/auction//cpu",
        F4="//cpu and //item/*",
    )
    assert engine.show().splitlines() == [
        "├─ /notification",
        "│  └─ /auction",
        "│     ├─ /item ▶ /notification/auction/item",
        "│     │  └─ /cpu ▶ /notification/auction/item/cpu[@clock >= 700]",
        "│     └─ //cpu ▶ /notification/auction//cpu",
        "├─ //cpu ▶ //cpu",
        "└─ //item",
        "   └─ /* ▶ //item/*",
    ]
    assert engine.match(AUCTION) == ["F1", "F2", "F3", "F4"]


def test_states_that_no_path_needs_any_more_go() -> None:
    engine = of(F1="/notification/auction/item", F2="/notification/auction//cpu", F3="//cpu")
    engine.remove("F1")
    engine.remove("F3")
    assert engine.show().splitlines() == [
        "└─ /notification",
        "   └─ /auction",
        "      └─ //cpu ▶ /notification/auction//cpu",
    ]
    engine.remove("F2")
    assert engine.show() == ""


STEPS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(("item", "cpu", "notification", "*"))), min_size=1, max_size=4
)
TREES: Any = st.recursive(
    st.just({}),
    lambda inner: st.fixed_dictionaries(
        {}, optional={"item": st.lists(inner, max_size=2), "cpu": inner, "notification": inner}
    ),
    max_leaves=6,
)


@given(st.lists(STEPS, min_size=1, max_size=6, unique_by=tuple), TREES, st.data())
def test_the_automaton_yields_what_each_path_selects_by_itself(
    given: list[list[tuple[bool, str]]], record: dict[str, Any], data: st.DataObject
) -> None:
    selections = [Selection(Path(tuple(steps))) for steps in given]
    automaton = PathAutomaton()
    for selection in selections:
        automaton.add(selection)
    removed = data.draw(st.sets(st.sampled_from(selections)))
    for selection in removed:
        automaton.remove(selection)
    tree = Notification.of(record).tree
    found: dict[Selection, list[int]] = {}
    for selection, element in automaton.run(tree):
        found.setdefault(selection, []).append(id(element))
    for selection in selections:
        expected = [] if selection in removed else [id(element) for element in selection.path.select(tree)]
        assert found.get(selection, []) == expected
    for selection in set(selections) - removed:
        automaton.remove(selection)
    assert automaton.show() == ""


@EARLY_AND_LATE
def test_counts_and_misses_are_bounded_from_both_sides(predicates: Any) -> None:
    engine = of(
        predicates,
        two="count(//item) = 2",
        three="count(//item) >= 3",
        few="count(//item) < 3",
        none="count(//disk) = 0",
        one_misses="misses(//item/*[@clock >= 700]) = 1",
        no_misses="misses(//cpu[@clock >= 700]) = 0",
        never="misses(//item) > 0",
    )
    assert engine.match(AUCTION) == ["two", "few", "none", "one_misses", "no_misses"]
    assert engine.match(Notification.of({})) == ["few", "none", "no_misses"]


@EARLY_AND_LATE
def test_paths_attributes_and_operators_of_extensions_come_together(predicates: Any) -> None:
    engine = of(
        predicates,
        both="//cpu[@clock >= 700] and //seller[@id = 1234]",
        one="//cpu[@clock >= 700] and //seller[@id = 1]",
        price='minprice > 40 and //seller and not //buyer and not minprice unifies "x"',
        cheap="minprice < 40 and //seller",
        either="//buyer or minprice = 50",
        plain="minprice = 50",
    )
    assert engine.match(AUCTION) == ["both", "price", "either", "plain"]


def test_late_evaluation_saves_the_conditions_of_filters_that_fail_elsewhere() -> None:
    filters = {f"F{n}": f"//cpu[@clock >= {n}] and minprice > {n}" for n in range(40, 60)}
    early, late = of("early", **filters), of("late", **filters)
    assert early.match(AUCTION) == late.match(AUCTION) == [f"F{n}" for n in range(40, 50)]
    assert late.statistics().tests < early.statistics().tests


def test_early_evaluation_saves_the_filters_whose_conditions_fail() -> None:
    filters = {f"F{n}": f"//cpu[@clock = {n}] and minprice > 0 and //seller" for n in range(790, 801)}
    early, late = of("early", **filters), of("late", **filters)
    assert early.match(AUCTION) == late.match(AUCTION) == ["F800"]
    assert early.statistics().tests < late.statistics().tests


def test_a_condition_shared_by_filters_is_evaluated_once_per_element() -> None:
    engine = of("early", **{f"F{n}": f"//cpu[@clock >= 700] and minprice > {n}" for n in range(20)})
    engine.match(AUCTION)
    alone = of("early", F="//cpu[@clock >= 700]")
    alone.match(AUCTION)
    assert alone.statistics().tests == 2, "the condition, and the count"
    assert engine.statistics().tests == 1 + 2 * 20, "the condition, and a price and a count per filter"


def test_an_element_called_notification_below_the_root_is_reached_by_a_star_only() -> None:
    engine = of(named="//a/notification", star="//a/*", root="/notification[@x = 1]")
    assert engine.match(Notification.of({"x": 1, "a": {"notification": {"y": 1}}})) == ["star", "root"]


@given(testing.paths(), testing.notifications(paths=True))
def test_one_path_filter_matches_as_it_does_by_itself(filter: Any, notification: Notification) -> None:
    for predicates in ("early", "late"):
        engine: Automaton[int] = Automaton(predicates)  # type: ignore[arg-type]
        engine.add(1, filter)
        assert bool(engine.match(notification)) is filter.matches(notification)


def test_a_path_without_condition_selects_every_element_it_leads_to() -> None:
    assert Selection(Path(((True, "item"),))).condition == EVERYTHING
    assert of(all="count(//*) = 6").match(AUCTION) == []
    assert of(all="count(//*) = 7").match(AUCTION) == ["all"]
