"""Queries of RFC 9535, held to the standard's own suite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fairlead as fl
from fairlead import dialects
from fairlead.errors import TranslationRefused
from fairlead.ingest import records


def test_every_case_of_jsonpath_is_answered_as_its_suite_does(
    suite: Callable[[str], list[dict[str, Any]]],
) -> None:
    wrong = []
    for case in suite("jsonpath"):
        try:
            filter = dialects.jsonpath(case["selector"])
            matches: Any = filter.matches(fl.Notification.of(case["event"]))
            assert fl.parse(str(filter)) == filter
        except TranslationRefused:
            matches = "refused"
        if matches != case["matches"]:
            wrong.append((case["name"], matches))
    assert wrong == []


def test_a_query_looks_at_the_content_as_it_was_published() -> None:
    event = records.read('{"http.status": 200, "tags": ["b", "a", "b"], "price": 10.10}')
    assert isinstance(event, fl.Notification)
    for query, matches in {
        "$['http.status']": True,
        "$.http.status": False,
        "$.tags[?@ == 'b']": True,
        "$[?@[2] == 'b' && count(@.*) == 3]": True,
        "$[?@ == 10.1]": True,
        "$.tags[3]": False,
    }.items():
        assert dialects.jsonpath(query).matches(event) == matches, query


@pytest.mark.parametrize(
    ("query", "column", "construct"),
    [
        ("items[?@.a]", 1, r"begins with \$"),
        ("$.a[?@.* == 1]", 6, "several values"),
        ("$.a[?foo(@)]", 6, "the function foo"),
        ("$.a[?length(@.b)]", 6, "a value is no condition"),
        ("$.a[?match(@.b, 'x') == true]", 6, "a condition is not compared"),
        ("$.a[01]", 5, "leading zeros"),
        ("$.a[?@.b == 'x]", 16, "does not end"),
    ],
)
def test_a_refusal_names_the_construct_and_the_column(query: str, column: int, construct: str) -> None:
    with pytest.raises(TranslationRefused, match=construct) as refused:
        dialects.jsonpath(query)
    assert refused.value.column == column


def test_a_hostile_expression_of_an_event_takes_no_longer_than_others() -> None:
    event = fl.Notification.of({"doc": {"regex": "(a+)+b", "text": "a" * 3_000}})
    assert not dialects.jsonpath("$[?match(@.text, @.regex)]").matches(event)


def test_a_query_is_written_as_it_was_read() -> None:
    assert dialects.jsonpath.write(dialects.jsonpath("$.a[?@.b]")) == "$.a[?@.b]"
    with pytest.raises(TranslationRefused):
        dialects.jsonpath.write(fl.parse("a = 1"))
