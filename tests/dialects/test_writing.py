"""Dialects as they are written: what a reader has read is written, and means what the other system answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl
from fairlead import dialects
from fairlead.dialects import eventbridge, jms
from fairlead.dialects.texts import escaped
from fairlead.dialects.writing import Wildcard, glob_of
from fairlead.errors import TranslationRefused
from fairlead.filters.patterns import RegularExpression

CORPUS = Path(__file__).parents[1] / "corpus"


def answers(name: str) -> list[dict[str, Any]]:
    """The cases of a corpus that are no refusals."""
    lines = (CORPUS / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [case for case in map(json.loads, lines) if isinstance(case["matches"], bool)]


def written(dialect: str, text: str) -> str | None:
    """What is written of what was read; None where that is refused."""
    try:
        return dialects.write(dialect, dialects.read(dialect, text))
    except TranslationRefused:
        return None


def share_that_answers_alike(dialect: str, cases: list[dict[str, Any]], key: str = "text") -> float:
    """The share of texts that are written again; these answer as the other system did."""
    texts = {case[key]: written(dialect, case[key]) for case in cases}
    for case in cases:
        again = texts[case[key]]
        if again is not None:
            found = dialects.read(dialect, again).matches(fl.Notification.of(case["event"]))
            assert found is case["matches"], (case, again)
    return sum(again is not None for again in texts.values()) / len(texts)


def test_patterns_of_eventbridge_are_written_as_event_ruler_answers() -> None:
    assert share_that_answers_alike("eventbridge", answers("eventbridge")) > 0.9


def test_selectors_are_written_as_activemq_answers() -> None:
    assert share_that_answers_alike("jms", answers("jms")) > 0.8


def test_expressions_are_written_as_the_suite_answers(suite: Callable[[str], list[dict[str, Any]]]) -> None:
    cases = [case for case in suite("cesql") if isinstance(case["matches"], bool)]
    assert share_that_answers_alike("cesql", cases, "expression") > 0.9


@pytest.mark.parametrize(
    ("dialect", "filter", "text"),
    [
        ("jms", 'price > 3 and name prefix "a%"', "price > 3 AND name LIKE 'a!%%' ESCAPE '!'"),
        ("jms", "not x = 5", "x IS NULL OR NOT (x = 5)"),
        ("jms", "exists x and not x = null and not x = 5", "NOT (x = 5)"),
        (
            "jms",
            'x in [3, 5) and (y = "it\'s" or z = true)',
            "(x >= 3 AND x < 5) AND (y = 'it''s' OR z = TRUE)",
        ),
        ("jms", "x in {1, 2.5}", "(x = 1 OR x = 2.5)"),
        ("jms", '@jms("a > b") or x = 1', "a > b OR x = 1"),
        ("jms", "true", "TRUE"),
        ("cesql", 'type = "a" and source suffix "_x"', r"type = 'a' AND source LIKE '%\_x'"),
        ("cesql", "not (exists subject and not subject = null)", "NOT EXISTS subject"),
        ("cesql", "urgent = true", "urgent"),
        ("cesql", '@cesql("LENGTH(a) > 3")', "LENGTH(a) > 3"),
        ("sigma", 'type = "a*"', None),
        ("sigma", "x in [1, 2.5) and not exists y", None),
    ],
)
def test_a_filter_is_written(dialect: str, filter: str, text: str | None) -> None:
    made = dialects.write(dialect, fl.parse(filter))
    assert dialects.read(dialect, made).matches(fl.Notification.of({})) == fl.parse(filter).matches(
        fl.Notification.of({})
    )
    assert text is None or made == text


@pytest.mark.parametrize(
    "pattern",
    [
        '{"source": ["aws.ec2"]}',
        '{"a": ["x", "y"], "b": {"c": [{"prefix": "p"}], "d": [{"exists": false}]}}',
        '{"a": [{"anything-but": ["off", "on"]}]}',
        '{"a": [{"anything-but": {"suffix": ["b", "c"]}}]}',
        '{"a": [null]}',
        '{"a": [{"numeric": [">", 0, "<=", 5.5]}]}',
        '{"a": [{"cidr": "10.0.0.0/24"}], "b": ["10.0.0.1"]}',
        '{"a": [{"wildcard": "x*\\\\*y"}]}',
        '{"a": [{"equals-ignore-case": "Xy"}], "b": [{"prefix": {"equals-ignore-case": "Xy"}}]}',
        '{"$or": [{"a": ["x"], "c": ["z"]}, {"b": [{"exists": true}]}]}',
    ],
)
def test_a_pattern_of_eventbridge_is_written_as_it_was(pattern: str) -> None:
    assert json.loads(dialects.write("eventbridge", dialects.eventbridge(pattern))) == json.loads(pattern)


RULE = r"""
title: Somebody looks around
detection:
  selection: {Image|endswith: '\whoami.exe', Id: [4, 5], User|cased: 'a?c'}
  words: [secret]
  others: {From|cidr: 10.0.0.0/8, Size|gte: 3, To: null}
  condition: selection and not (words or others)
"""


def test_a_rule_of_sigma_is_written() -> None:
    assert dialects.sigma(dialects.write("sigma", dialects.sigma(RULE))) == dialects.sigma(RULE)


@pytest.mark.parametrize(
    ("dialect", "filter"),
    [
        ("jms", "exists x"),
        ("jms", "x.y = 1"),
        ("jms", 'x ~ "a+"'),
        ("jms", f"x = {2**60}"),
        ("cesql", "x > 5"),
        ("cesql", 'Type = "a"'),
        ("cesql", 'type = "a\\\\"'),
        ("eventbridge", 'source = "a"'),
        ("sigma", 'a ~ "[ab]"'),
        ("sigma", "some a (element = 3)"),
    ],
)
def test_what_a_dialect_cannot_say_is_refused(dialect: str, filter: str) -> None:
    with pytest.raises(TranslationRefused, match=r"cannot say|no literal|is no"):
        dialects.write(dialect, fl.parse(filter))


def test_a_writer_that_errs_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is read again, so a wrong spelling is a refusal and no other filter."""
    monkeypatch.setitem(jms._SIGNS, fl.parse("x > 5").op, ">=")  # type: ignore[attr-defined]
    with pytest.raises(TranslationRefused, match="cannot say"):
        dialects.write("jms", fl.parse("x > 5"))
    monkeypatch.setattr(eventbridge, "_join", lambda found, other: True)
    with pytest.raises(TranslationRefused, match="cannot say"):
        dialects.write("eventbridge", dialects.eventbridge('{"a": ["x"], "b": ["y"]}'))


@given(
    st.lists(st.sampled_from(["a", "*", ".", "\\", "é", "-", Wildcard.ANY, Wildcard.ONE]), max_size=5),
    st.text("a*.\\é-", max_size=5),
)
def test_a_glob_is_what_its_expression_describes(parts: list[Any], text: str) -> None:
    expression = "".join(part.value if isinstance(part, Wildcard) else escaped(part) for part in parts)
    glob = glob_of(expression)
    assert glob is not None
    again = "".join(part.value if isinstance(part, Wildcard) else escaped(part) for part in glob.parts)
    assert RegularExpression(again).matches(text) == RegularExpression(expression).matches(text)
    assert glob.text == (None if {*parts} & {*Wildcard} else "".join(parts))


@pytest.mark.parametrize("expression", ["a+", "[ab]", "a|b", "(a)", "a{2}", "(?cidr)10.0.0.0/8", "\\d", ".+"])
def test_an_expression_with_more_in_it_is_no_glob(expression: str) -> None:
    assert glob_of(expression) is None
