"""Binary decision diagrams: ordered, reduced, shared, and gone when nobody needs them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import testing
from fairlead.filters.filter import And, Filter, Not, Or
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead_lab.matching import diagram
from fairlead_lab.matching.diagram import Diagram

BOOK = 'stock = "Foo Inc." and (price > 15 or volume > 1000000)'


def quote(price: int, volume: int) -> Notification:
    return Notification.of({"stock": "Foo Inc.", "price": price, "volume": volume})


def of(*filters: str, **options: Any) -> Diagram[int]:
    made: Diagram[int] = Diagram(**options)
    for number, text in enumerate(filters, 1):
        made.add(number, parse(text))
    return made


@pytest.mark.parametrize("evaluation", ["down", "up"])
def test_the_worked_example_of_the_book(evaluation: str) -> None:
    """Book 3.2.4 says that both notifications match. The second does not: 1,000,000 is not above itself."""
    engine = of(BOOK, evaluation=evaluation)
    assert engine.match(quote(16, 10_000)) == [1]
    assert engine.match(quote(14, 1_000_000)) == []
    assert engine.match(quote(14, 1_000_001)) == [1]


def test_the_high_edge_is_for_what_holds() -> None:
    """Fig. 3.17 has it so; the text beside it has the edges reversed, which would negate every predicate."""
    for evaluation in ("down", "up"):
        engine = of("x = 1", evaluation=evaluation)
        assert engine.match(Notification.of({"x": 1})) == [1]
        assert engine.match(Notification.of({"x": 2})) == []


def test_the_diagram_of_the_book() -> None:
    assert of(BOOK).show().splitlines() == [
        "1 = n1",
        'n1   stock = "Foo Inc."  high n2   low 0',
        "n2   price > 15          high 1    low n3",
        "n3   volume > 1000000    high 1    low 0",
    ]


def test_the_negation_is_the_diagram_with_0_and_1_exchanged() -> None:
    assert of(f"not ({BOOK})").show().splitlines() == [
        "1 = n1",
        'n1   stock = "Foo Inc."  high n2   low 1',
        "n2   price > 15          high 0    low n3",
        "n3   volume > 1000000    high 0    low 1",
    ]


def test_downwards_no_predicate_is_evaluated_that_does_not_matter() -> None:
    engine = of(BOOK, 'stock = "Bar Inc." and price > 15')
    engine.match(quote(16, 10_000))
    assert engine.statistics().tests == 3, "both stocks and the price, once"
    engine = of(BOOK, 'stock = "Bar Inc." and price > 15', evaluation="up")
    engine.match(quote(16, 10_000))
    assert engine.statistics().tests == 4


def test_filters_share_what_they_have_in_common() -> None:
    one, both = of("a = 1 and (b = 1 or c = 1)"), of("a = 1 and (b = 1 or c = 1)", "b = 1 or c = 1")
    assert both.size == one.size == 3


LEAVES = [parse(f"{name} = 1") for name in "abcd"]
TREES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, max_size=3).map(lambda parts: Or(tuple(parts))),
    ),
    max_leaves=8,
)
WORLDS = [
    Notification.of({name: 1 for at, name in enumerate("abcd") if bits >> at & 1}) for bits in range(16)
]


@given(TREES, TREES)
def test_two_filters_have_one_node_iff_they_are_the_same_function_of_their_predicates(
    one: Filter, other: Filter
) -> None:
    engine: Diagram[int] = Diagram()
    engine.add(1, one)
    engine.add(2, other)
    first, second = (line.partition(" = ")[2] for line in engine.show().splitlines()[:2])
    same = all(one.matches(world) == other.matches(world) for world in WORLDS)
    assert (first == second) is same


@given(st.lists(TREES, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_after_each_removal_only_nodes_are_left_that_a_filter_leads_to(
    filters: list[Filter], chance: st.randoms
) -> None:
    engine: Diagram[int] = Diagram()
    for number, filter in enumerate(filters):
        engine.add(number, filter)
    numbers = list(range(len(filters)))
    chance.shuffle(numbers)
    while numbers:
        engine.remove(numbers.pop())
        fresh: Diagram[int] = Diagram(order=LEAVES)
        again: Diagram[int] = Diagram(order=LEAVES)
        for number in numbers:
            fresh.add(number, filters[number])
        for number, filter in enumerate(filters):
            again.add(number, filter)
        for number in set(range(len(filters))) - set(numbers):
            again.remove(number)
        assert again.size == fresh.size
    assert engine.show() == ""


@given(st.lists(testing.filters(leaves_max=4), max_size=5))
def test_predicates_go_with_the_last_filter_that_asks_for_them(filters: list[Filter]) -> None:
    engine: Diagram[int] = Diagram()
    for number, filter in enumerate(filters):
        engine.add(number, filter)
    for number in range(len(filters)):
        engine.remove(number)
    engine.add(0, parse("exists z"))
    assert engine.show().splitlines() == ["0 = n1", "n1   exists z  high 1    low 0"]


def pairs(count: int) -> str:
    return " or ".join(f"a{n} = 1 and b{n} = 1" for n in range(count))


def test_a_bad_order_of_the_predicates_makes_the_diagram_grow_exponentially() -> None:
    bad = [parse(f"{name}{n} = 1") for name in "ab" for n in range(8)]
    assert of(pairs(8)).size == 2 * 8
    assert of(pairs(8), order=bad).size == 2 * (2**8 - 1)


def test_a_filter_whose_diagram_would_be_too_large_is_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagram, "NODES_MAX", 100)
    bad = [parse(f"{name}{n} = 1") for name in "ab" for n in range(8)]
    engine = of(pairs(8), "a1 = 1", order=bad)
    assert engine.show().splitlines() == ["2 = n1", "1 is too large", "n1   a1 = 1  high 1    low 0"]
    assert engine.match(Notification.of({"a1": 1})) == [2]
    assert engine.match(Notification.of({"a1": 1, "b1": 1})) == [1, 2]
    engine.remove(1)
    assert engine.match(Notification.of({"a1": 1, "b1": 1})) == [2]


def test_a_filter_of_thousands_of_alternatives_is_one_chain() -> None:
    engine = of(" or ".join(f"x{n} = {n}" for n in range(3000)))
    assert engine.size == 3000
    assert engine.match(Notification.of({"x2999": 2999})) == [1]
    engine.add(2, parse(" and ".join(f"x{n} = {n}" for n in reversed(range(3000)))))
    engine.remove(1)
    assert engine.size == 3000
