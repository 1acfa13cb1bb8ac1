"""The covering order: a filter that does not match spares all filters below it."""

from __future__ import annotations

from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead_lab.matching.poset import Traversal


def of(**filters: str) -> Traversal[str]:
    engine: Traversal[str] = Traversal()
    for id, text in filters.items():
        engine.add(id, parse(text))
    return engine


def asked(engine: Traversal[str], **attributes: object) -> int:
    before = engine.statistics().tests
    engine.match(Notification.of(attributes))
    return engine.statistics().tests - before


def test_a_filter_that_does_not_match_spares_all_below_it() -> None:
    engine = of(a="price > 10", b="price > 20", c='price > 20 and symbol = "IBM"', d='symbol = "IBM"')
    assert asked(engine, price=5) == 2, "the two roots"
    assert asked(engine, price=15) == 3
    assert asked(engine, price=25, symbol="IBM") == 4
    assert engine.match(Notification.of({"price": 25, "symbol": "IBM"})) == ["a", "b", "c", "d"]


def test_a_filter_is_asked_only_if_all_right_above_it_match() -> None:
    engine = of(left="x > 1", right="y > 1", both="x > 2 and y > 2")
    assert asked(engine, x=5, y=0) == 2
    assert asked(engine, x=5, y=5) == 3


def test_identical_filters_are_asked_once() -> None:
    engine = of(a="x >= 1 and x <= 5", b="x in [1, 5]", c="not (x < 1 or x > 5) and x is number")
    assert asked(engine, x=3) == 1
    assert engine.match(Notification.of({"x": 3})) == ["a", "b", "c"]
    engine.remove("a")
    assert engine.match(Notification.of({"x": 3})) == ["b", "c"]


def test_removing_a_cover_leaves_what_it_covered() -> None:
    engine = of(a="x > 1", b="x > 2", c="x > 3")
    engine.remove("b")
    assert engine.match(Notification.of({"x": 4})) == ["a", "c"]
    assert asked(engine, x=0) == 1
    engine.remove("a")
    assert engine.match(Notification.of({"x": 4})) == ["c"]
