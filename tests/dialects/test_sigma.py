"""Sigma rules: selections, modifiers, conditions, keywords."""

from __future__ import annotations

import base64
import re
from fnmatch import translate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl
from fairlead import dialects
from fairlead.dialects.sigma import _is_named
from fairlead.errors import TranslationRefused


def rule(condition: str, **selections: Any) -> str:
    import json

    return json.dumps(
        {"title": "a rule", "detection": {**selections, "condition": condition}}
    )  # JSON is YAML


def matches(field: str, value: Any, event: dict[str, Any]) -> bool:
    filter = dialects.sigma(rule("selection", selection={field: value}))
    assert fl.parse(str(filter)) == filter
    return filter.matches(fl.Notification.of(event))


ENCODED = base64.b64encode(b"xx secret yy").decode()


@pytest.mark.parametrize(
    ("field", "value", "held", "expected"),
    [
        ("f", "cmd", "CMD", True),
        ("f", "cmd", "cmd.exe", False),
        ("f|cased", "cmd", "CMD", False),
        ("f", "c*d", "cxxD", True),
        ("f", "c?d", "cd", False),
        ("f", r"c\*d", "c*d", True),
        ("f", r"c\*d", "cxd", False),
        ("f", r"a\\*", "a\\b", True),
        ("f", r"\Windows\x", "\\windows\\X", True),
        ("f|contains", "MIMI", "a mimikatz", True),
        ("f|startswith", "a", "ba", False),
        ("f|endswith", r"\cmd.exe", "C:\\CMD.EXE", True),
        ("f|contains|all", ["a", "b"], "xbya", True),
        ("f|contains|all", ["a", "b"], "xby", False),
        ("f", ["a", "b"], "B", True),
        ("f", 5, 5.0, True),
        ("f", 5, "5", False),
        ("f", True, True, True),
        ("f", None, None, True),
        ("f|gt", 5, 6, True),
        ("f|lte", 5, 6, False),
        ("f|exists", True, None, True),
        ("f|exists", False, None, False),
        ("f|cidr", "10.0.0.0/8", "10.1.2.3", True),
        ("f|cidr", ["10.0.0.0/8", "::1/128"], "::1", True),
        ("f|re", "a.c", "xxabcxx", True),
        ("f|re", "^a.c$", "xxabcxx", False),
        ("f|re", "A.C", "abc", False),
        ("f|re|i", "A.C", "abc", True),
        ("f|re", "a.c", "a\nc", False),
        ("f|re|s", "a.c", "a\nc", True),
        ("f|re", "(?i)x.*?y", "AXBY", True),
        ("f|windash|contains", " -enc", "ps /Enc x", True),
        ("f|windash|contains", " -enc", "ps enc x", False),
        ("f|base64offset|contains", "secret", ENCODED, True),
        ("f|wide|base64offset|contains", "secret", ENCODED, False),
        ("f|fieldref|cased", "g", "x", True),
        ("f|fieldref|cased", "h", "x", False),
    ],
)
def test_a_field_matches_by_its_modifiers(field: str, value: Any, held: Any, expected: bool) -> None:
    assert matches(field, value, {"f": held, "g": "x", "h": "X"}) == expected


def test_null_is_null_or_absent() -> None:
    assert matches("f", None, {})
    assert not matches("f", None, {"f": ""})
    assert not matches("f|exists", True, {})


@given(st.text("aB*?.", max_size=5), st.text("aAbB.", max_size=5))
def test_wildcards_are_those_of_file_names_in_any_case(pattern: str, text: str) -> None:
    assert matches("f", pattern, {"f": text}) == bool(re.match(translate(pattern.lower()), text.lower()))


SELECTIONS: dict[str, Any] = {
    "one": {"a": 1},
    "two": {"b": 1, "c": 1},
    "list_a": [{"a": 2}, {"b": 2}],
    "_hidden": {"z": 9},
}
CONDITIONS = {
    "one and two": lambda a, b, c: a == 1 and b == c == 1,
    "one or two and not list_a": lambda a, b, c: a == 1 or (b == c == 1 and not (a == 2 or b == 2)),
    "not (one or two)": lambda a, b, c: not (a == 1 or b == c == 1),
    "1 of them": lambda a, b, c: a == 1 or b == c == 1 or a == 2 or b == 2,
    "all of them": lambda a, b, c: False,
    "1 of list_* or one": lambda a, b, c: a == 2 or b == 2 or a == 1,
    "all of t*": lambda a, b, c: b == c == 1,
    "not not one": lambda a, b, c: a == 1,
}


@given(st.sampled_from(sorted(CONDITIONS)), *[st.integers(0, 2)] * 3)
def test_conditions_join_selections(condition: str, a: int, b: int, c: int) -> None:
    filter = dialects.sigma(rule(condition, **SELECTIONS))
    assert filter.matches(fl.Notification.of({"a": a, "b": b, "c": c})) == CONDITIONS[condition](a, b, c)


@given(st.text("ab", max_size=8), st.text("ab*", max_size=8))
def test_names_are_of_a_pattern_as_the_expression_says(name: str, pattern: str) -> None:
    expected = re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name) is not None
    assert _is_named(name, pattern) == expected


def test_a_pattern_of_many_names_takes_no_time() -> None:
    text = rule("1 of " + 10 * "s*" + "x", **{40 * "s": {"a": 1}})
    with pytest.raises(TranslationRefused, match="no selection is named"):
        dialects.sigma(text)


def test_a_rule_has_no_aliases() -> None:
    with pytest.raises(TranslationRefused, match="no aliases"):
        dialects.sigma("detection:\n  a: &x {b: 1}\n  c: *x\n  condition: a")


def test_keywords_are_looked_for_in_all_values() -> None:
    filter = dialects.sigma(rule("keywords", keywords=["Mimikatz", "4?42"]))
    assert fl.parse(str(filter)) == filter
    for event, expected in (
        ({"a": {"b": ["x", {"c": "a mimiKATZ b"}]}}, True),
        ({"a": 4442}, True),
        ({"mimikatz": "x"}, False),
        ({}, False),
    ):
        assert filter.matches(fl.Notification.of(event)) == expected
    both = dialects.sigma(rule("keywords", keywords={"|all": ["a", "b"]}))
    assert both.matches(fl.Notification.of({"x": "a", "y": "b"}))
    assert not both.matches(fl.Notification.of({"x": "a"}))


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        (rule("s", s={"f|expand": "%x%"}), r"at detection\.s\.f\|expand: the modifier 'expand'"),
        (rule("s", s={"f|re": r"\bx"}), r"at detection\.s\.f\|re: .*an anchor"),
        (rule("s | count() > 5", s={"f": 1}), "the aggregation at column 3"),
        (rule("s and t", s={"f": 1}), "no selection is named 't', at column 7"),
        (rule("s and", s={"f": 1}), "unexpected end"),
        (rule("s", s={"f|cidr": "10.0.0/99"}), "no block of addresses"),
        (rule("s", s={"f|gt": "x"}), "a number is compared"),
        (rule("s", s={"f|fieldref": "g"}), "with cased"),
        (rule("s", s={"time": "x"}), "time is an instant"),
        (rule("s", s={}), "an empty selection"),
        ("correlation: {type: event_count}", "at correlation"),
        ("detection: {s: {f: 1}}", "a detection has a condition"),
        ("a: [", "not YAML"),
        ("- a", "a Sigma rule is a map"),
        (rule("s", s={"f": 1}, timeframe="5m"), "several events"),
    ],
)
def test_a_refusal_names_the_construct_and_its_path(text: str, construct: str) -> None:
    with pytest.raises(TranslationRefused, match=construct):
        dialects.sigma(text)
