"""The counting algorithm: a conjunction matches iff as many of its predicates hold as it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead import testing
from fairlead.filters.extents.extent import Extent, extent_of
from fairlead.filters.language import parse
from fairlead.filters.terms import Attribute, Term
from fairlead.model import ABSENT, Notification
from fairlead_lab.matching.counting import VALUES_MAX, Counting, PredicateTable, few_valued


def extents(text: str) -> dict[Term, Extent]:
    """The folded constraints of a conjunction of single constraints on different attributes."""
    constraints = getattr(parse(text), "parts", (parse(text),))
    return {each.term: extent_of(each) for each in constraints}


def filled(engine: Counting[str], **filters: str) -> Counting[str]:
    for id, text in filters.items():
        engine.add(id, parse(text))
    return engine


def test_the_example_of_the_book_only_f1_is_matched() -> None:
    """Fig. 3.13 is not in the text; the filters are those of Fig. 3.14, which it resembles."""
    engine = filled(
        Counting(),
        F1='stock = "Foo Inc." and price < 15',
        F2='stock = "Foo Inc." and price < 12',
        F3='stock = "AB Inc." and price > 16',
    )
    assert engine.match(Notification.of({"stock": "Foo Inc.", "price": 13})) == ["F1"]
    assert engine.statistics().tests == 2, "one look per attribute, however many filters there are"


def test_the_example_of_the_lecture_of_three_predicates_one_holds() -> None:
    engine = filled(Counting(), p1="price > 5", p2='color = "red"', p3="price < 7")
    assert engine.match(Notification.of({"price": 5, "color": "white"})) == ["p3"]


def test_the_subscriptions_of_the_lecture_are_counted_up_to_three_and_two() -> None:
    engine = filled(Counting(), S1="A > 2 and A < 4 and B = 6 and C > 4", S2="A > 2 and A < 4 and C = 3")
    assert engine.match(Notification.of({"A": 3, "B": 6, "C": 5})) == ["S1"]
    assert engine.match(Notification.of({"A": 3, "B": 6, "C": 3})) == ["S2"]
    assert engine.match(Notification.of({"A": 4, "B": 6, "C": 3})) == []


def test_ten_thousand_filters_on_one_attribute_take_one_look() -> None:
    engine: Counting[int] = Counting()
    for number in range(10_000):
        engine.add(number, parse(f"n = {number}"))
    assert engine.match(Notification.of({"n": 4711})) == [4711]
    assert engine.statistics().tests == 1


# -- the table for attributes with few values ------------------------------------------------------------------


def test_a_table_shows_which_conjunctions_allow_which_values() -> None:
    table = PredicateTable(["side", "halted"])
    for text in ('side = "buy"', 'side != "buy" and halted = false', "absent halted"):
        table.add(extents(text))
    for side, halted in (("buy", ABSENT), ("sell", False)):
        table.satisfied({Attribute("side"): side, Attribute("halted"): halted})
    assert table.show().splitlines() == [
        "side          buy  sell",
        "          r0    1     .",
        "          r1    .     1",
        "          r2    1     1",
        "halted        absent  False",
        "          r0       1      1",
        "          r1       .      1",
        "          r2       1      .",
    ]


@given(
    st.lists(testing.conjunctions(("x", "y")), max_size=6),
    st.lists(testing.notifications(("x", "y")), max_size=6),
    st.sets(st.integers(0, 5)),
)
def test_a_row_is_satisfied_iff_its_bit_is_set_in_the_column_of_every_value(
    filters: list[Any], notifications: list[Notification], removed: set[int]
) -> None:
    table = PredicateTable(["x", "y"])
    added = [folded(filter) for filter in filters]
    rows = [table.add(each) for each in added]
    compare(table, dict(zip(rows, added, strict=True)), notifications)
    gone = [number for number in removed if number < len(added)]
    for number in gone:
        table.remove(added[number])
    left = {rows[n]: each for n, each in enumerate(added) if n not in gone}
    compare(table, left, notifications)
    for each in added[:2]:
        left[table.add(each)] = each
    compare(table, left, notifications)


def folded(filter: Any) -> dict[Term, Extent]:
    parts = filter.parts if hasattr(filter, "parts") else (filter,)
    return {each.term: extent_of(each) for each in parts}


def compare(
    table: PredicateTable, rows: Mapping[int, Mapping[Term, Extent]], notifications: list[Notification]
) -> None:
    for notification in notifications:
        values = {Attribute(name): notification.get(name) for name in ("x", "y")}
        expected = {
            row for row, each in rows.items() if all(values[term] in extent for term, extent in each.items())
        }
        bits = table.satisfied(values)
        assert {row for row in range(max(rows, default=0) + 9) if bits >> row & 1} == expected


def test_equal_conjunctions_share_a_row_until_the_last_of_them_goes() -> None:
    table = PredicateTable(["side"])
    assert table.add(extents('side = "buy"')) == table.add(extents('side in {"buy"}')) == 0
    assert len(table) == 1
    table.remove(extents('side = "buy"'))
    assert len(table) == 1
    table.remove(extents('side = "buy"'))
    assert len(table) == 0
    assert table.add(extents('side = "sell"')) == 0


def test_a_value_seen_before_costs_one_look() -> None:
    engine: Counting[int] = Counting(few=("side",))
    for number in range(50):
        engine.add(number, parse(f'side = "{"sell" if number % 2 else "buy"}" and n != {number}'))
    notification = Notification.of({"side": "buy"})
    engine.match(notification)
    before = engine.statistics().tests
    engine.match(notification)
    assert engine.statistics().tests == before + 1


def test_rows_and_counters_are_asked_together() -> None:
    engine = filled(
        Counting(few=("side",)),
        row='side = "buy"',
        both='side = "buy" and price > 10',
        counters="price > 10",
        absence='side = "buy" and absent halted',
    )
    assert engine.match(Notification.of({"side": "buy", "price": 11})) == [
        "row",
        "both",
        "counters",
        "absence",
    ]
    assert engine.match(Notification.of({"side": "sell", "price": 11})) == ["counters"]
    assert engine.match(Notification.of({"side": "buy", "price": 9, "halted": True})) == ["row"]
    for id in ("row", "both"):
        engine.remove(id)
    assert engine.match(Notification.of({"side": "buy", "price": 11})) == ["counters", "absence"]


def test_values_that_are_not_few_after_all_are_matched_but_not_kept() -> None:
    engine: Counting[str] = filled(Counting(few=("n",)), low="n < 10", odd="n = 5000")
    for n in range(VALUES_MAX + 10):
        assert engine.match(Notification.of({"n": n})) == (["low"] if n < 10 else [])
    assert engine.match(Notification.of({"n": 5000})) == ["odd"]
    assert len(engine.table.show().splitlines()[0].split()) == VALUES_MAX + 1


def test_the_attributes_with_few_values_can_be_found_from_a_sample() -> None:
    sample = [
        Notification.of({"side": "buy" if n % 2 else "sell", "price": n, "at": {"floor": n % 3}})
        for n in range(40)
    ]
    assert few_valued(sample, values_max=4) == ("at.floor", "side")
