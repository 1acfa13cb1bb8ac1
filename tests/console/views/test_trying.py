"""What is said of texts while somebody writes: as the command line says it, and with what may come next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given

from fairlead.console.views import patterns, scopes, subscriptions, trial
from fairlead.console.views.subscriptions import Query, Results, search
from fairlead.console.views.trying import TEXT_MAX, choices, compared, events_in, reading
from fairlead.errors import FairleadError, FilterSyntaxError
from fairlead.filters import Filter, relate
from fairlead.filters.explain import explain
from fairlead.filters.language import parse, render
from fairlead.network import examining
from fairlead.testing import filters
from fairlead_lab.testing.examined import Examined, broker_with

NAMES = ["price", "product", "symbol"]


@pytest.mark.parametrize(
    ("before", "offered"),
    [
        ("", ["price", "product", "symbol", "exists", "absent", "not", "("]),
        ("pr", ["price", "product"]),
        ("price", []),  # the word is whole, and so far no operator has been begun
        ("price > 10 ", ["and", "or"]),
        ("price > 10 a", ["and"]),
        ("exists ", NAMES),
        ("symbol in ", ["[", "(", "{", "rectangle"]),
        ("price > ", []),  # a value: there is nothing to choose from
        ("price = = ", []),
    ],
)
def test_what_may_come_next_is_offered(before: str, offered: list[str]) -> None:
    assert [each.text for each in choices(before, NAMES)] == offered


def read_up_to(text: str) -> tuple[int, int]:
    """Where the reader of filters stops: at an error, or behind the end."""
    try:
        parse(text)
    except FilterSyntaxError as error:
        return error.line, error.column
    except FairleadError:
        pass  # it can be read, and means nothing yet
    return text.count("\n") + 2, 0


@pytest.mark.parametrize(
    ("dialect", "before", "offered"),
    [
        ("sql", "", NAMES),
        ("sql", "pri", ["price"]),
        (
            "sql",
            "price ",
            ["=", "<>", ">", ">=", "<", "<=", "BETWEEN", "IN (", "LIKE", "IS NULL", "IS NOT NULL"],
        ),
        ("sql", "price > 1 ", ["AND", "OR"]),
        ("sql", "price > 1 a", ["AND"]),
        ("jms", "price > 1 AND ", [*NAMES, "("]),
        ("sql", "price BETWEEN 1 ", ["AND"]),
        ("cesql", "EXISTS ", NAMES),
        ("eventbridge", '{"price": [{"num', ["numeric"]),
        ("sigma", "detection:\n  selection:\n    symbol|ends", ["endswith"]),
        ("jsonpath", "$[?@.pr", []),
        ("mqtt", "sport/", [*NAMES, "+", "#"]),
    ],
)
def test_what_may_come_next_in_another_language_is_offered(
    dialect: str, before: str, offered: list[str]
) -> None:
    assert [each.text for each in choices(before, NAMES, dialect=dialect)] == offered


@given(filters())
def test_what_is_offered_can_be_read_on(filter: Filter) -> None:
    """Whatever is taken, the reader of filters comes at least to its beginning."""
    text = render(filter)
    before = text[: len(text) // 2]
    for choice in choices(before, NAMES):
        written = before[: len(before) - choice.replaced] + choice.text
        lines = written.split("\n")
        assert read_up_to(f"{written} ") >= (len(lines), len(lines[-1]) - len(choice.text) + 1)


def test_a_text_that_is_no_filter_says_where() -> None:
    found = reading("price > 1\nand and")
    assert found.filter is None
    assert found.caret == (2, 5)
    shown = trial.answer(found, [])
    assert "and and\n    ^" in shown
    assert "<script>" not in trial.answer(reading("<script>"), [])
    assert reading("x" * (TEXT_MAX + 1)).error is not None


def test_each_event_is_explained() -> None:
    filter = parse('symbol = "IBM" and price > 100')
    events = events_in('{"symbol": "IBM", "price": 101}\n\n{"symbol": "IBM"}\n{"price": \n', filter)
    assert [event.number for event in events] == [1, 3, 4]
    assert [event.explanation and event.explanation.holds for event in events] == [True, False, None]
    assert all(event.explanation == explain(filter, event.notification) for event in events[:2])  # type: ignore[arg-type]
    assert events[2].problem.startswith("not JSON")
    assert "1 of 3 events match" in trial.answer(reading(str(filter)), events)


def test_remarks_are_those_of_the_command_line() -> None:
    assert reading("price > 3 and price < 2").remark.startswith("no notification can match it")
    assert reading("price >= 3 and price <= 5").shortest == "price in [3, 5]"
    assert reading("price in [3, 5]").shortest == ""
    assert str(reading("sport/+/player1", dialect="mqtt").filter) != ""


@given(filters(), filters())
def test_two_filters_are_compared_with_witnesses(first: Filter, second: Filter) -> None:
    found = compared(first, second)
    assert found.relation == relate(first, second)
    for event, holds in (
        (found.first_only, (True, False)),
        (found.both, (True, True)),
        (found.second_only, (False, True)),
    ):
        assert event is None or (first.matches(event), second.matches(event)) == holds
    for event, possible in zip((found.first_only, found.both, found.second_only), found.parts, strict=True):
        assert event is None or possible
    assert "<svg" in trial.comparison(reading(render(first)), reading(render(second)), found)


@pytest.mark.parametrize("relation", ["identical", "covers", "covered", "overlaps", "disjoint"])
def test_every_relation_has_a_picture(relation: str) -> None:
    texts = {
        "identical": ("x in [3, 3]", "x = 3"),
        "covers": ("x > 1", "x > 2"),
        "covered": ("x > 2", "x > 1"),
        "overlaps": ("x > 1", "x < 3"),
        "disjoint": ("x > 3", "x < 1"),
    }
    one, other = map(reading, texts[relation])
    assert one.filter is not None
    assert other.filter is not None
    found = compared(one.filter, other.filter)
    assert found.relation.name == relation
    assert trial.comparison(one, other, found).count("<circle") == 2


# -- subscriptions ---------------------------------------------------------------------------------------------


def found_by(query: Query, *entries: tuple[str, str]) -> Results:
    """The first page of an answer."""
    return asyncio.run(search(Examined(broker_with(entries)), query))  # type: ignore[arg-type]


def test_subscriptions_are_found_by_text_and_by_covering() -> None:
    entries = (("x > 1", "c:ada"), ("x > 5", "d:desk"), ("y = 1", "c:bob"), ("x > 0", "b"))

    def found(text: str, how: Any = "text", whose: Any = "clients") -> list[tuple[str, str]]:
        return sorted((filter, to) for filter, to, _ in found_by(Query(text, how, whose), *entries).rows)

    assert found("") == [("x > 1", "c:ada"), ("x > 5", "d:desk"), ("y = 1", "c:bob")]
    assert found("ADA") == [("x > 1", "c:ada")]
    assert found("x > 3", "covering") == [("x > 1", "c:ada")]
    assert found("x > 3", "covered") == [("x > 5", "d:desk")]
    assert found("x > 3", "covering", "all") == [("x > 0", "b"), ("x > 1", "c:ada")]
    assert len(found("", "never")) == 3
    refused = found_by(Query("x >", "covering"), *entries)
    assert "expected" in subscriptions.answer(refused, Query("x >", "covering"))


def test_long_answers_have_pages() -> None:
    network: Any = Examined(broker_with((f"x = {number}", "c:ada") for number in range(120)))
    query: Query | None = Query()
    rows: list[tuple[str, str, str]] = []
    pages = 0
    while query is not None:
        results = asyncio.run(search(network, query, patience_s=60))
        shown = subscriptions.answer(results, query)
        rows += results.rows
        pages += 1
        assert ("More" in shown) == (results.next is not None)
        query = results.next
    assert (len(set(rows)), len(rows), pages) == (120, 120, 3)
    assert "120 found" in shown


def test_a_search_that_takes_longer_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "PIECE", 1)
    network: Any = Examined(broker_with((f"x = {number}", "c:ada") for number in range(120)))
    results = asyncio.run(search(network, Query("y"), patience_s=0))
    assert results.next == Query("y", broker="a", at=1, looked=1)
    shown = subscriptions.answer(results, Query("y"))
    assert 'hx-trigger="load"' in shown
    assert "More" not in shown


# -- patterns and scopes ---------------------------------------------------------------------------------------


def test_a_pattern_is_drawn_with_its_composites() -> None:
    found = patterns.detected(patterns.PATTERN, patterns.SAMPLE)
    assert len(found.composites) == 1
    shown = patterns.answer(patterns.PATTERN, found)
    assert "1 composite" in shown
    assert shown.count('class="constituent"') == 3  # the last one has begun another match
    assert "data:image/svg+xml;base64," in shown
    with pytest.raises(FairleadError) as error:
        patterns.detected("A followed", "")
    assert "Not a pattern" in patterns.answer("A followed", error.value)


def test_matches_in_progress_are_what_the_events_so_far_have_begun() -> None:
    pattern = "p: Quote as q followed by Trade as t within 1 minute"
    found = [patterns.detected(pattern, patterns.SAMPLE, until=until) for until in range(5)]
    began = [[[each.notification.id for _, each in one.constituents] for one in all.partial] for all in found]
    assert began[:2] == [[], [["1"]]]
    assert ["3"] in began[3]
    assert ["1"] not in began[4]  # its minute is over
    assert [len(each.composites) for each in found] == [0, 0, 1, 1, 1]
    assert found[1].partial[0].awaited == ("t",)
    shown = patterns.answer(pattern, found[1])
    assert "1 match in progress" in shown
    assert 'class="span open"' in shown
    assert "Nothing has begun" in patterns.answer(pattern, found[0])


def test_a_scope_graph_is_drawn_checked_and_asked() -> None:
    draft = {"text": scopes.SAMPLE, "source": "exchange", "target": "ada"}
    quote, order = ({**draft, "event": f'{{"type": "{kind}"}}'} for kind in ("Quote", "Order"))
    assert ">yes<" in scopes.answer(draft)
    assert ">yes<" in scopes.answer(quote)
    assert ">no<" in scopes.answer(order)
    assert "The two graphs are the same" in scopes.answer({**draft, "other": scopes.SAMPLE})
    assert "What the draft changes" in scopes.answer(
        {**draft, "other": "DEFINE SCOPE Market AS ALL FROM ada"}
    )
    assert "Not a scope graph" in scopes.answer({"text": "DEFINE"})
    assert "an event is a JSON object" in scopes.answer({**draft, "event": "[]"})
