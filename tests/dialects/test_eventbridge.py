"""Event patterns of Amazon EventBridge, held to the answers of Event Ruler 2.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fairlead as fl
from fairlead import dialects
from fairlead.errors import TranslationRefused
from fairlead.matching import engine_named

CORPUS = Path(__file__).parents[1] / "corpus" / "eventbridge.jsonl"
CASES = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]


def answer(case: dict[str, Any]) -> Any:
    try:
        filter = dialects.eventbridge(case["text"])
    except TranslationRefused:
        return "refused"
    assert fl.parse(str(filter)) == filter
    return filter.matches(fl.Notification.of(case["event"]))


def test_every_pattern_matches_as_in_event_ruler() -> None:
    assert [case for case in CASES if answer(case) != case["matches"]] == []
    assert {case["matches"] for case in CASES} == {True, False, "refused"}


def test_the_engine_matches_patterns_as_the_filters_do() -> None:
    engine = engine_named("columnar")
    filters = {}
    for number, case in enumerate(CASES[:200]):
        if case["matches"] != "refused":
            filters[number] = dialects.eventbridge(case["text"])
            engine.add(number, filters[number])
    for case in CASES[:60]:
        event = fl.Notification.of(case["event"])
        assert set(engine.match(event)) == {number for number, each in filters.items() if each.matches(event)}


@pytest.mark.parametrize(
    ("pattern", "location", "construct"),
    [
        ('{"a": [{"foo": 1}]}', r"at a\[0\]", "'foo'"),
        ('{"a": {"b": [{"numeric": ["!=", 1]}]}}', r"at a\.b\[0\]\.numeric", "'!='"),
        ('{"a": [1], "$or": [{"a": [2]}, {"b": [1]}]}', "at a", r"\$or"),
        ('{"$or": [{"a": [2]}]}', r"at \$or", "two objects"),
        ('{"time": [{"prefix": "2024"}]}', "at time", "instant"),
        ('{"a": [1], "a.b": [1]}', "at a", "within it"),
        ('{"a": ', "line 1, column 7", "not JSON"),
        ('{"a": [1], "a": [2]}', "not JSON", "twice"),
        ("[]", "line 1, column 1", "object"),
    ],
)
def test_a_refusal_names_the_construct_and_its_path(pattern: str, location: str, construct: str) -> None:
    with pytest.raises(TranslationRefused, match=f"{location}.*{construct}"):
        dialects.eventbridge(pattern)


def test_patterns_relate_to_filters_of_other_languages() -> None:
    pattern = dialects.eventbridge(
        '{"source": ["aws.ec2", "aws.s3"], "detail": {"price": [{"numeric": [">", 10]}]}}'
    )
    assert fl.covers(pattern, fl.parse('source = "aws.s3" and detail.price in [20, 30]'))
    assert not fl.covers(pattern, fl.parse('source = "aws.s3"'))
    block = dialects.eventbridge('{"ip": [{"cidr": "10.0.0.0/8"}]}')
    assert fl.covers(block, dialects.eventbridge('{"ip": [{"cidr": "10.1.0.0/16"}]}'))
    assert fl.covers(block, fl.parse('ip prefix "10.1.1." and ip ~ "10\\\\.1\\\\.1\\\\.[0-9]"'))
