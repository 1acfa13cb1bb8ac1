"""An explanation holds iff the filter matches, and names what decided."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.filters.explain import explain
from fairlead.filters.filter import And, Filter, Not, Or
from fairlead.filters.language import parse
from fairlead.filters.schema import Schema
from fairlead.model import Notification


class Share:
    """An object that a notification may hold."""

    def id(self) -> str:
        return "IBM"


SCHEMA = Schema.parse("type Quote\ntype StockQuote: Quote\ntype News")
AUCTION = {"item": [{"cpu": {"manufacturer": "AMD", "clock": 600}}]}

SENTENCES: list[tuple[str, dict[str, Any], str]] = [
    ("price > 10", {"price": 9}, "does not match: price is 9, not > 10"),
    ("price > 10", {"price": 12}, "matches: price is 12, which is > 10"),
    ("price > 10", {"price": "12"}, 'does not match: price is the string "12", and > 10 compares numbers'),
    ("price > 10", {"price": None}, "does not match: price is null, and > 10 compares numbers"),
    ("price > 10", {"price": float("nan")}, "does not match: price is NaN, and > 10 compares numbers"),
    ("price > 10", {}, "does not match: price is absent"),
    ("price != 5", {"price": 5}, "does not match: price is 5, which is excluded"),
    ('symbol = "IBM"', {"symbol": "IBM"}, 'matches: symbol is "IBM", as required'),
    ('symbol = "IBM"', {"symbol": "SAP"}, 'does not match: symbol is "SAP", not "IBM"'),
    ("halted = true", {"halted": 1}, "does not match: halted is the number 1, and = true compares booleans"),
    ("price in [20, 30]", {"price": 25}, "matches: price is 25, in [20, 30]"),
    ("price not in [30, 40]", {"price": 35}, "does not match: price is 35, in [30, 40]"),
    ("n in {1, 2}", {"n": 3}, "does not match: n is 3, not in {1, 2}"),
    ('name prefix "Foo"', {"name": "Bar"}, 'does not match: name is "Bar", without prefix "Foo"'),
    (
        'name prefix "Foo"',
        {"name": 5},
        'does not match: name is the number 5, and prefix "Foo" looks at strings',
    ),
    ("exists volume", {"volume": None}, "matches: volume exists: null"),
    ("absent volume", {"volume": 5}, "does not match: volume exists: 5"),
    ("absent volume", {}, "matches: volume is absent"),
    ("position.x < 3", {}, "does not match: position.x is absent: there is no position"),
    ("position.x < 3", {"position": 7}, "does not match: position.x is absent: position is the number 7"),
    ("position.x < 3", {"position": {"y": 1}}, "does not match: position.x is absent"),
    ("type is Quote", {"type": "StockQuote"}, 'matches: type is "StockQuote", which is Quote'),
    ("type is Quote", {"type": "News"}, 'does not match: type is "News", not Quote'),
    ('topic matches "a/*"', {"topic": "b"}, 'does not match: topic is "b", not matching "a/*"'),
    ('tags contains "a"', {"tags": ["b"]}, 'does not match: tags is {"b"}, not containing "a"'),
    ('tags lacks "a"', {"tags": ["a"]}, 'does not match: tags is {"a"}, containing "a"'),
    (
        'tags contains "a"',
        {"tags": "a"},
        'does not match: tags is the string "a", and contains "a" looks at sets',
    ),
    ("x + y = 5", {"x": 2, "y": 4}, "does not match: x + y is 6, not 5"),
    ("x + y = 5", {"x": 2}, "does not match: x + y has no value: y is absent"),
    ("x + y = 5", {"x": 2, "y": "3"}, 'does not match: x + y has no value: y is the string "3"'),
    ('quote.id() = "IBM"', {"quote": Share()}, 'matches: quote.id() is "IBM", as required'),
    ('quote.id() = "IBM"', {}, "does not match: quote.id() has no answer: quote is absent"),
    ('quote.id() = "IBM"', {"quote": 5}, "does not match: quote.id() has no answer: quote is the number 5"),
    ('("a", *)', {"tuple": ["a"]}, "does not match: the tuple's length is 1, not 2"),
    ("//cpu", AUCTION, "matches: //cpu selects 1 element"),
    ("//gpu", AUCTION, "does not match: //gpu selects no elements"),
    (
        "//cpu[@clock >= 700]",
        AUCTION,
        "does not match: //cpu selects 1, none as required; the first does not match: clock is 600, not >= 700",
    ),
    ("not (price > 10)", {"price": 12}, "does not match: price is 12, which is > 10"),
    ("a = 1 and b = 2 and c = 3", {"a": 1}, "does not match: b is absent"),
    ("a = 1 or b = 2", {}, "does not match: a is absent; b is absent"),
    ("a = 1 or b = 2", {"a": 3, "b": 2}, "matches: b is 2, as required"),
    (
        "a = 1 or b = 1 or c = 1 or d = 1",
        {},
        "does not match: a is absent; b is absent; c is absent; and 1 more",
    ),
    ("true", {}, "matches"),
    ("false", {}, "does not match"),
]


@pytest.mark.parametrize(("text", "event", "verdict"), SENTENCES, ids=[f"{a}-{c}" for a, _, c in SENTENCES])
def test_the_verdict_names_the_constraints_that_decided(
    text: str, event: dict[str, Any], verdict: str
) -> None:
    assert explain(parse(text, SCHEMA), Notification.of(event)).verdict == verdict


def test_the_tree_has_the_shape_of_the_filter() -> None:
    filter = parse('a = 1 and (b = 2 or not (c = "x"))')
    explanation = explain(filter, Notification.of({"a": 1, "c": "x"}))
    assert str(explanation) == "\n".join(
        (
            'does not match: b is absent; c is "x", as required',
            "  ✗ all of",
            "    ✓ a = 1: a is 1, as required",
            "    ✗ one of",
            "      ✗ b = 2: b is absent",
            "      ✗ not",
            '        ✓ c = "x": c is "x", as required',
        )
    )
    assert list(explanation.lines(ascii=True))[:2] == ["- all of", "  + a = 1: a is 1, as required"]


def test_the_json_form_has_terms_values_and_sentences() -> None:
    explanation = explain(
        parse("price > 10 and not (exists tags)"), Notification.of({"price": 9, "tags": [1]})
    )
    assert explanation.to_json() == {
        "holds": False,
        "all": [
            {
                "holds": False,
                "constraint": "price > 10",
                "term": "price",
                "value": 9,
                "sentence": "price is 9, not > 10",
            },
            {
                "holds": False,
                "not": [
                    {
                        "holds": True,
                        "constraint": "exists tags",
                        "term": "tags",
                        "value": [1],
                        "sentence": "tags exists: {1}",
                    }
                ],
            },
        ],
    }


def test_a_value_that_json_has_not_is_described() -> None:
    explanation = explain(parse("exists quote"), Notification.of({"quote": Share()}))
    assert explanation.to_json()["value"] == "an object of class Share"


def test_long_values_are_cut_in_sentences() -> None:
    explanation = explain(parse('name = "x"'), Notification.of({"name": "y" * 10_000}))
    assert len(explanation.sentence) < 100


LEAVES = st.sampled_from(
    ("a = 1", "b > 2", 'c prefix "x"', "exists a", "absent b", "a + b = 3", "a in {1, 2}", "b not in [1, 3]")
).map(parse)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(And.of), st.lists(inner, max_size=3).map(Or.of), inner.map(Not)
    ),
    max_leaves=8,
)
VALUES = st.one_of(st.integers(0, 4), st.sampled_from(("x", "xy", "")), st.none(), st.booleans())


@given(FILTERS, st.dictionaries(st.sampled_from("abc"), VALUES))
def test_an_explanation_holds_iff_the_filter_matches(filter: Filter, event: dict[str, Any]) -> None:
    notification = Notification.of(event)
    explanation = explain(filter, notification)
    assert explanation.holds == filter.matches(notification)
    assert explanation.verdict.startswith("matches" if explanation.holds else "does not match")
