"""The decision tree leads a notification to exactly the filters that it matches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead import testing
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead_lab.matching.tree import Tree

BOOK = {
    "F1": 'stock = "Foo Inc." and price < 15',
    "F2": 'stock = "Foo Inc." and price < 12',
    "F3": 'stock = "AB Inc." and price > 16',
    "F4": "volume > 1000000",
}


def planted(filters: dict[str, str], order: tuple[str, ...] = ()) -> Tree[str]:
    tree: Tree[str] = Tree(order)
    for id, text in filters.items():
        tree.add(id, parse(text))
    return tree


def test_the_tree_of_the_book() -> None:
    assert planted(BOOK).show().splitlines() == [
        '├─ stock = "Foo Inc."',
        "│  ├─ price < 15 ▶ F1",
        "│  └─ price < 12 ▶ F2",
        '├─ stock = "AB Inc."',
        "│  └─ price > 16 ▶ F3",
        "└─ *",
        "   └─ volume > 1000000 ▶ F4",
    ]


def test_a_notification_goes_down_every_edge_whose_test_it_passes() -> None:
    tree = planted(BOOK)
    assert tree.match(Notification.of({"stock": "Foo Inc.", "price": 11})) == ["F1", "F2"]
    assert tree.match(Notification.of({"stock": "AB Inc.", "price": 17, "volume": 1_000_001})) == ["F3", "F4"]
    assert tree.match(Notification.of({"stock": "Bar Inc.", "price": 11})) == []


def test_a_test_shared_by_filters_is_made_once() -> None:
    tree = planted(BOOK)
    tree.match(Notification.of({"stock": "Foo Inc.", "price": 20}))
    assert tree.statistics().tests == 4, "the stock by hash, two prices, one volume"


def test_the_order_of_the_terms_can_be_given() -> None:
    tree = planted(BOOK, order=("volume", "price"))
    assert tree.show().splitlines()[0] == "├─ volume > 1000000 ▶ F4"
    assert tree.match(Notification.of({"stock": "Foo Inc.", "price": 13, "volume": 2_000_000})) == [
        "F1",
        "F4",
    ]


def test_a_test_that_comes_earlier_in_the_order_is_put_in_between() -> None:
    tree = planted({"all": "true", "late": "z = 1"}, order=("a", "m", "z"))
    tree.add("early", parse("a = 1"))
    tree.add("middle", parse("m = 1 and z = 2"))
    tree.add("both", parse("a = 1 and m = 1"))
    assert tree.show().splitlines() == [
        "▶ all",
        "├─ a = 1 ▶ early",
        "│  └─ m = 1 ▶ both",
        "└─ *",
        "   ├─ m = 1",
        "   │  └─ z = 2 ▶ middle",
        "   └─ *",
        "      └─ z = 1 ▶ late",
    ]
    assert tree.match(Notification.of({"a": 1, "m": 1, "z": 2})) == ["all", "early", "middle", "both"]


def test_an_edge_that_nobody_needs_any_more_is_cut_and_so_is_a_test_without_edges() -> None:
    tree = planted(BOOK)
    for id in ("F1", "F3", "F2"):
        tree.remove(id)
    assert tree.show() == "└─ volume > 1000000 ▶ F4"
    tree.remove("F4")
    assert tree.show() == ""


def test_an_edge_can_stand_for_absence_and_for_a_set_of_values() -> None:
    tree = planted({"none": "absent side", "some": 'side in {"buy", "sell"}', "not": 'not side = "buy"'})
    assert tree.match(Notification.of({})) == ["none", "not"]
    assert tree.match(Notification.of({"side": "buy"})) == ["some"]
    assert tree.match(Notification.of({"side": "sell"})) == ["some", "not"]


@given(st.lists(testing.filters(leaves_max=4), max_size=8), st.randoms(use_true_random=False))
def test_what_was_added_and_removed_in_whatever_order_leaves_no_trace(
    filters: list[Filter], chance: st.randoms
) -> None:
    tree: Tree[int] = Tree()
    for number, filter in enumerate(filters):
        tree.add(number, filter)
    numbers = list(range(len(filters)))
    chance.shuffle(numbers)
    for number in numbers:
        tree.remove(number)
    assert tree.show() == ""
